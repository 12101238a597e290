"""growpage analyze: what it says follows from what it measured, and from what eval records."""

import json
import math
import signal
import time

import numpy as np
import pytest
from program import ROOT, SLOW, growpage, refused, start

KINDS = ["signal", "counterfactual", "budget", "sparsity", "overhead"]
SMALL = ["--page-size", "16", "-c", "1024", "-n", "120"]
BUNDLED = str(ROOT / "models/growpage-reasoner.gguf")
BESIDE = {"started", "machine", "threads", "concurrency", "engine"}
TIMES = {"ms", "ms_per_event", "share", "decode_ms"}
RUN_KEYS = {"kind", "analysis", "version", "started", "model", "cpu", "threads", "machine", "seed",
            "suites", "concurrency", "batching", "difficulty", "form", "policies", "sampling", "kv",
            "engine"}


def analyze(kind, model, *args, **kwargs):
    result = growpage("analyze", kind, "-m", model, *SMALL, "--json", *args, **kwargs)
    assert result.returncode == 0 and result.stderr == b"", result.err
    return [json.loads(line) for line in result.out.splitlines()]


def of(lines, kind):
    return [line for line in lines if line["kind"] == kind]


def timeless(lines):
    return [{k: v for k, v in line.items()
             if k not in BESIDE and not (line["kind"] == "overhead" and k in TIMES)}
            for line in lines]


def ranks(values):
    v = np.asarray(values, float)
    return np.array([(v < x).sum() + ((v == x).sum() + 1) / 2 for x in v])


def spearman(x, y):
    return np.corrcoef(ranks(x), ranks(y))[0, 1]


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_finds_the_same(kind, tiny, tmp_path):
    args = ["--suite", "sum,walk", "--limit", "2", "--seed", "5"]
    first = analyze(kind, tiny, *args, "--concurrency", "1", "-t", "1")
    assert set(first[0]) - {"horizon", "tap_every"} == RUN_KEYS
    assert first[0]["analysis"] == kind and first[0]["model"]["hash"].startswith("xxh128:")
    assert first[0]["seed"] == 5
    path = tmp_path / "out.jsonl"
    path.write_text("what was there is replaced\n" * 1000)
    result = growpage("analyze", kind, "-m", tiny, *SMALL, *args, "--concurrency", "3", "-t", "2",
                      "-o", path)
    assert result.returncode == 0 and result.stderr == b"", result.err
    again = [json.loads(line) for line in path.read_text().splitlines()]
    if kind == "counterfactual":
        assert {"delta", "advantage"} < set(first[1])
    assert timeless(first) == timeless(again)
    assert timeless(analyze(kind, tiny, *args[:-1], "6")) != timeless(first)
    # The table has what the lines say, a row for each.
    rows = result.out.splitlines()
    kinds = {"signal": ["signal"], "counterfactual": ["bin", "counterfactual"],
             "budget": ["class"], "sparsity": ["position"], "overhead": ["overhead"]}[kind]
    assert len(rows) == sum(1 + len(of(again, k)) for k in kinds) + len(kinds) - 1
    assert all(len(row) <= 100 for row in rows)


def test_correlations_follow_from_the_pairs(tiny):
    lines = analyze("signal", tiny, "--suite", "sum,prog", "--limit", "3")
    pairs = of(lines, "pair")
    assert len(pairs) > 20
    delta = [p["delta"] for p in pairs]
    for p in pairs:
        assert p["tokens"] % 16 == 0
        assert p["delta"] == pytest.approx(p["demand_short"] - p["demand_long"], abs=1e-8)
        for name in ("page", "row", "past", "next"):
            assert 0 < p["share_" + name] <= 1 and p["slots_" + name] >= 1
        assert p["slots_row"] == pytest.approx(p["share_row"] * p["tokens"])
    readings = of(lines, "signal")
    assert len(readings) == 6
    for line in readings:
        name, measure = line["reading"].split(", ")
        change = [p[f"{measure}_next"] - p[f"{measure}_{name}"] for p in pairs]
        assert line["pairs"] == len(pairs)
        assert line["requests"] == len({(p["suite"], p["index"]) for p in pairs})
        assert line["rho"] == pytest.approx(spearman(delta, change), abs=1e-6)
        signs = [(d > 0) == (c > 0) for d, c in zip(delta, change, strict=True) if d and c]
        assert line["agreement"] == pytest.approx(np.mean(signs), abs=1e-6)
        assert -1 <= line["rho_low"] <= line["rho"] <= line["rho_high"] <= 1
        assert 0 <= line["agreement_low"] <= line["agreement"] <= line["agreement_high"] <= 1


def test_bins_follow_from_the_boundaries(tiny):
    lines = analyze("counterfactual", tiny, "--suite", "sum,prog", "--limit", "2", "--horizon",
                    "24")
    boundaries = of(lines, "boundary")
    assert lines[0]["horizon"] == 24 and len(boundaries) > 15
    for b in boundaries:
        assert 1 <= b["scored"] <= 24 and b["nll_grow"] > 0
        assert b["advantage"] == pytest.approx(b["nll_compress"] - b["nll_grow"], abs=1e-7)
    assert any(b["advantage"] != 0 for b in boundaries)
    whole, = of(lines, "counterfactual")
    advantage = [b["advantage"] for b in boundaries]
    assert whole["boundaries"] == len(boundaries)
    assert whole["advantage"] == pytest.approx(np.mean(advantage), abs=1e-7)
    assert whole["rho"] == pytest.approx(spearman([b["delta"] for b in boundaries], advantage),
                                         abs=1e-6)
    bins = of(lines, "bin")
    for side, mine in (("delta <= 0", [b for b in boundaries if b["delta"] <= 0]),
                       ("delta > 0", [b for b in boundaries if b["delta"] > 0])):
        all_of = [b for b in bins if b["bin"] == side]
        quarters = [b for b in bins if b["bin"].startswith(side + " ")]
        assert sum(b["boundaries"] for b in quarters) == len(mine)
        assert [b["boundaries"] for b in all_of] == ([len(mine)] if mine else [])
        for b in all_of:
            assert b["advantage"] == pytest.approx(np.mean([m["advantage"] for m in mine]),
                                                   abs=1e-7)
            assert b["delta_low"] == min(m["delta"] for m in mine)
            assert b["delta_high"] == max(m["delta"] for m in mine)


def test_attention_that_sees_all_alike_needs_all_but_a_hundredth(endless):
    """Its queries are zero, so every slot has the same weight."""
    args = ["--suite", "sum", "--limit", "2", "--difficulty", "0"]
    lines = analyze("sparsity", endless, *args)
    positions = of(lines, "position")
    assert len(positions) >= 7
    for p in positions:
        if p["rows"] != 16 * p["requests"]:
            continue
        slots = [math.ceil(0.99 * n - 1e-6) for n in range(p["from"], p["to"] + 1)]
        shares = [s / n for s, n in zip(slots, range(p["from"], p["to"] + 1), strict=True)]
        # A whole hundredth may fall on either side.
        near = 1e-6 + (1 / 16 if any(n % 100 == 0 for n in range(p["from"], p["to"] + 1)) else 0)
        assert p["slots"] == pytest.approx(np.mean(slots), abs=near)
        assert p["share"] == pytest.approx(np.mean(shares), abs=near / p["from"])
        assert p["share_low"] == pytest.approx(p["share"]) == p["share_high"]
        assert p["layers"] == pytest.approx([p["share"]] * len(p["layers"]))
    every = of(analyze("sparsity", endless, *args, "--tap-every", "4"), "position")
    assert sum(p["rows"] for p in every) == 2 * (119 // 4)


def test_budgets_are_those_that_eval_sees(tmp_path):
    args = ["--suite", "sum,find", "--limit", "6", "--samples", "3", "--difficulty", "0",
            "--page-size", "16", "-c", "1024", "-n", "400", "--kv-initial-pages", "2"]
    budgets = [48, 96, 512]
    result = growpage("analyze", "budget", "-m", BUNDLED, *args, "--json", "--budgets", "512,96",
                      "--budgets", "48,96")
    assert result.returncode == 0, result.err
    lines = [json.loads(line) for line in result.out.splitlines()]
    assert lines[0]["policies"] == [f"fixed:{b}" for b in budgets] + ["growpage"]
    path = tmp_path / "record.jsonl"
    policies = [word for p in lines[0]["policies"] for word in ("--kv", p)]
    assert growpage("eval", "-m", BUNDLED, *args, *policies, "-o", path).returncode == 0
    samples = [json.loads(line) for line in open(path) if '"kind":"sample"' in line]
    problems = of(lines, "problem")
    assert len(problems) == 12
    for p in problems:
        mine = [s for s in samples if (s["suite"], s["index"]) == (p["suite"], p["index"])]
        assert len(mine) == 12
        share = {k: np.mean([s["correct"] for s in mine if s["policy"] == k])
                 for k in lines[0]["policies"]}
        right = [share[f"fixed:{b}"] for b in budgets]
        assert p["right"] == pytest.approx(right)
        solved = [b for i, b in enumerate(budgets) if all(r > 0.5 for r in right[i:])]
        assert p["sufficient"] == (solved[0] if solved else None)
        pages = np.mean([s["pages_mean"] for s in mine if s["policy"] == "growpage"])
        assert p["capacity"] == {"growpage": pytest.approx(16 * pages, rel=1e-4)}
    assert len({p["sufficient"] for p in problems}) > 1  # else little is tested
    classes = of(lines, "class")
    assert [c["suite"] for c in classes] == ["sum"] * 4 + ["find"] * 4 + ["all"] * 4
    for c in classes:
        held = [p["capacity"]["growpage"] for p in problems
                if c["suite"] in (p["suite"], "all") and p["sufficient"] == c["sufficient"]]
        assert c["problems"] == len(held)
        if held:
            assert c["capacity"] == pytest.approx(np.mean(held), rel=1e-6)
            assert min(held) - 1e-6 <= c["capacity_low"] <= c["capacity_high"] <= max(held) + 1e-6
        else:
            assert c["capacity"] is None


def test_overhead_counts_what_eval_counts(tiny, tmp_path):
    args = ["--suite", "sum", "--limit", "4", "--kv", "growpage", "--kv", "fixed:64", "--kv",
            "full", "--kv-initial-pages", "2"]
    lines = of(analyze("overhead", tiny, *args), "overhead")
    path = tmp_path / "record.jsonl"
    assert growpage("eval", "-m", tiny, *SMALL, *args, "-o", path).returncode == 0
    samples = [json.loads(line) for line in open(path) if '"kind":"sample"' in line]
    assert [(line["policy"], line["stage"]) for line in lines] == [
        (p, s) for p in ("growpage", "fixed:64", "full")
        for s in ("demand", "score", "select", "compact", "all")]
    for line in lines:
        mine = [s for s in samples if s["policy"] == line["policy"]]
        cuts = sum(s["compress"] for s in mine)
        asked = sum(s["compress"] + s["grow"] for s in mine) if line["policy"] == "growpage" else 0
        if line["stage"] == "all":
            assert line["events"] is None
        else:
            assert line["events"] == (asked if line["stage"] == "demand" else cuts)
        assert line["output_tokens"] == sum(s["output_tokens"] for s in mine)
        assert line["requests"] == 4 and 0 <= line["share"] < 1
        assert (line["ms"] > 0) == (line["events"] != 0 and line["policy"] != "full") or (
            line["stage"], line["policy"]) == ("all", "full")
        if line["events"]:
            assert line["ms_per_event"] == pytest.approx(line["ms"] / line["events"], rel=1e-5)
            assert line["share"] == pytest.approx(line["ms"] / line["decode_ms"], rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupt_leaves_nothing(kind, endless, tmp_path):
    out = tmp_path / "out.jsonl"
    with start("analyze", kind, "-m", endless, "--page-size", "16", "-c", "65536", "-n", "60000",
               "--suite", "sum", "--limit", "100000", "--concurrency", "2", "-o", out) as process:
        deadline = time.monotonic() + 20 * SLOW
        while not out.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.5 * SLOW)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60 * SLOW)
    assert process.returncode == 130 and stdout == b""
    assert stderr == b"growpage: analyze: interrupted; nothing was written\n"
    assert not out.exists()


@pytest.mark.parametrize("args, words", [
    ([], ["no analysis"]),
    (["signals"], ["signals", "did you mean signal?"]),
    (["everything"], ["everything", "--help"]),
    (["signal", "more"], ["more", "unexpected"]),
    (["signal", "--kv", "full"], ["--kv", "signal"]),
    (["signal", "--budgets", "64"], ["--budgets", "signal"]),
    (["budget", "--horizon", "16"], ["--horizon", "budget"]),
    (["overhead", "--tap-every", "2"], ["--tap-every", "overhead"]),
    (["budget", "--budgets", "256"], ["--budgets", "256", "at least two"]),
    (["budget", "--budgets", "1000"], ["--budgets", "1000", "pages of 256"]),
    (["budget", "--suite", "sun"], ["--suite", "did you mean sum?"]),
    (["sparsity", "--json", "-o", "x"], ["--output", "--json"]),
    (["counterfactual", "--concurrency", "500"], ["--concurrency", "1500"]),
])
def test_what_cannot_be_is_refused(args, words, tiny):
    refused(growpage("analyze", *args, "-m", tiny), 2, *words)


def test_a_file_that_cannot_be_written_is_told_at_once(tiny, tmp_path):
    refused(growpage("analyze", "sparsity", "-m", tiny, "--limit", "1000000", "-o",
                     tmp_path / "none" / "out"), 1, "none/out")
