"""--kv-trace: every line and every field of real traces is what docs/TRACE.md says it is, and what a trace
tells adds up."""

import json
import re
import time

import pytest
from program import ROOT, SLOW, growpage, refused
from serving import serving

SMALL = ("--page-size", "16", "--kv-initial-pages", "2")


def documented():
    """Each event's fields, as the tables of docs/TRACE.md have them: name to kind."""
    tables, section = {}, None
    for line in (ROOT / "docs/TRACE.md").read_text().splitlines():
        if line.startswith("## "):
            section = line[3:]
        elif line.startswith("Every event but"):
            section = "Every request's"
        elif field := re.match(r"\| `(\w+)` \| ([a-z ]+) \|(.*)\|", line):
            tables.setdefault(section, {})[field[1]] = (field[2], field[3].strip())
    every, requests = tables.pop("Every event"), tables.pop("Every request's")
    return {event: {**every, **({} if event in ("start", "end") else requests), **fields}
            for event, fields in tables.items()}


EVENTS = documented()


def fits(value, kind, meaning):
    if kind.endswith(" or null"):
        return value is None or fits(value, kind[:-8], meaning)
    if kind == "whole":
        return type(value) is int and value >= 0
    if kind == "number":
        return type(value) in (int, float)
    if kind == "true or false":
        return type(value) is bool
    assert kind == "text"
    # Where the table lists the words, it is one of them.
    words = re.match(r"(`\w+`(, `\w+`)+)", meaning)
    return isinstance(value, str) and (not words or f"`{value}`" in words[1])


def check(text):
    """The events of a trace that is as documented."""
    events, last = [], 0.0
    assert text.endswith("\n")
    for number, line in enumerate(text.splitlines(), start=1):
        event = json.loads(line)
        fields = EVENTS[event["event"]]
        assert set(event) == set(fields), (number, line)
        for name, (kind, meaning) in fields.items():
            assert fits(event[name], kind, meaning), (number, name, event[name])
        last = 0.0 if event["event"] == "start" else last
        assert event["t_ms"] >= last, number
        last = event["t_ms"]
        events.append(event)
    return events


def of(events, *names):
    return [e for e in events if e["event"] in names]


def check_sums(events):
    """Counts of a section against each choice's own, and pages that follow from each other."""
    for finish in of(events, "finish"):
        own = [e for e in events if (e.get("request"), e.get("choice")) ==
               (finish["request"], finish["choice"])]
        boundaries = of(own, "boundary")
        assert len(of(own, "preempt")) == len(of(own, "resume")) == finish["preempt"]
        assert len(of(own, "fallback")) == finish["fallback"]
        for cause in ("start", "initial", "pressure", "capped"):
            assert sum(b["cause"] == cause for b in boundaries) == finish[cause]
        primary = finish["grow"] + finish["compress"] + finish["shrink"]
        asked = sum(finish[c] for c in ("start", "initial", "pressure", "capped"))
        assert len(boundaries) == primary + asked
        for c in of(own, "compact"):
            assert c["kept"] <= c["slots"] and c["pages_after"] <= c["pages"] and c["moved"] > 0
        assert max(e["pages"] for e in of(own, "admit", "grow")) <= finish["pages_peak"]


def test_the_document_has_all_events():
    assert list(EVENTS) == ["start", "admit", "prefix_hit", "boundary", "grow", "fallback", "compact",
                            "preempt", "resume", "finish", "end"]
    assert all(len(fields) > 3 for fields in EVENTS.values())


@pytest.mark.parametrize("options", [
    ("--kv", "growpage"), ("--kv", "fixed:64"), ("--kv", "full"), ("--kv", "shrink:-0.001:32"),
    ("--kv", "growpage", "--kv-compact", "shift"), ("--kv", "zipage:64"),
    ("--kv", "rkv:64", "--kv-trigger", "steps:20"), ("--kv", "h2o:64")])
def test_a_run_is_traced_as_documented_and_gives_the_same_tokens(tiny, tmp_path, options):
    ask = ("run", "-m", tiny, "-p", "Once upon a time", "-n", "200", "--seed", "3", "--ignore-eos",
           "--json", *SMALL, *options)
    plain, traced = growpage(*ask), growpage(*ask, "--kv-trace", tmp_path / "t.jsonl")
    assert plain.returncode == traced.returncode == 0, traced.err
    assert plain.json["tokens"] == traced.json["tokens"]
    events = check((tmp_path / "t.jsonl").read_text())
    assert [e["event"] for e in events][:2] == ["start", "admit"]
    assert [e["event"] for e in events][-2:] == ["finish", "end"]
    kv, finish = traced.json["kv"], events[-2]
    assert finish["output_tokens"] == 200 and finish["reason"] == "length"
    for name in ("grow", "compress", "shrink", "start", "initial", "pages_peak"):
        assert finish[name] == kv[name]
    if options[1] != "h2o:64":  # cuts before every token are not told
        assert [b["delta"] for b in of(events, "boundary")] == \
            [d if d is None else pytest.approx(d, abs=1e-8) for d in kv["delta"]]
        check_sums(events)
    if options == ("--kv", "growpage"):  # survivors of the last page alone
        assert all(c["moved"] <= 16 * 4 for c in of(events, "compact"))


def test_a_crowded_engine_is_traced_as_documented(tiny, tmp_path):
    path = tmp_path / "t.jsonl"
    run = growpage("bench", "-m", tiny, "--serve", "--requests", "12", "--prompt-len", "20",
                   "--output-len", "uniform:60:200", "--kv-pages", "24", *SMALL, "-o", "json",
                   "--kv", "growpage", "--kv", "full", "--kv-trace", path)
    assert run.returncode == 0, run.err
    events = check(path.read_text())
    starts = [i for i, e in enumerate(events) if e["event"] == "start"]
    assert [events[i]["policy"] for i in starts] == ["growpage", "full"]
    seen = set()
    for begin, end, figures in zip(starts, starts[1:] + [len(events)], run.json):
        section = events[begin:end]
        assert section[-1]["event"] == "end"
        check_sums(section)
        # The warm-up is a request, too.
        assert len(of(section, "admit")) == len(of(section, "finish")) == 13
        assert len(of(section, "preempt")) == figures["preempt"]
        assert len(of(section, "fallback")) == figures["fallback"]
        seen |= {e["event"] for e in section}
    assert seen >= {"admit", "boundary", "grow", "fallback", "compact", "preempt", "resume", "finish"}


def test_an_eval_is_traced(tiny, tmp_path):
    path = tmp_path / "t.jsonl"
    run = growpage("eval", "-m", tiny, "--suite", "sum", "--limit", "2", "-n", "40", *SMALL,
                   "--chat-template-file", template(tmp_path), "--kv-trace", path)
    assert run.returncode == 0, run.err
    events = check(path.read_text())
    assert len(of(events, "finish")) == 2
    check_sums(events)


def template(folder):
    path = folder / "template.jinja"
    path.write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    return path


def test_a_server_is_traced_while_it_runs(tiny, tmp_path):
    path = tmp_path / "t.jsonl"
    with serving(tiny, *SMALL, "--kv-trace", str(path)) as server:
        answer = server.complete("Once" * 50, max_tokens=60, ignore_eos=True, n=2)
        # The last lines are written after the last token can be read.
        deadline = time.monotonic() + 10 * SLOW
        while path.read_text().count('"event":"finish"') < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        events = check(path.read_text())
        assert not of(events, "end")
        assert {e["choice"] for e in of(events, "finish")} == {0, 1}
        prompt = answer["usage"]["prompt_tokens"]
        first, second = of(events, "admit")
        assert first["prompt_tokens"] == second["prompt_tokens"] == prompt
        hit, = of(events, "prefix_hit")
        assert hit["choice"] == 1 and hit["pages"] == prompt // 16 and hit["tokens"] == prompt - 1
        server.stop()
    assert of(check(path.read_text()), "end")


def test_a_trace_that_cannot_be_written(tiny, tmp_path):
    ask = ("run", "-m", tiny, "-p", "x", "-n", "40", "--ignore-eos", *SMALL)
    refused(growpage(*ask, "--kv-trace", tmp_path), 1, "--kv-trace", str(tmp_path))
    full = growpage(*ask, "--kv-trace", "/dev/full")
    assert full.returncode == 0
    assert full.err.count("warning: kv-trace: No space left on device") == 1


def test_a_static_batch_begins_and_ends_together(tiny, tmp_path):
    """Nobody is admitted while a member lives; a budget of 3 pages in 10 makes batches of 3."""
    path = tmp_path / "t.jsonl"
    ask = ("bench", "-m", tiny, "--serve", "--requests", "8", "--prompt-len", "20", "--output-len",
           "uniform:60:120", "--kv-pages", "10", *SMALL, "--kv", "fixed:48", "-o", "json")
    run = growpage(*ask, "--batching", "static", "--kv-trace", path)
    assert run.returncode == 0, run.err
    events, alive, batches = check(path.read_text()), set(), []
    assert not of(events, "preempt", "fallback")
    for event in of(events, "admit", "boundary", "finish"):
        if event["event"] == "admit":
            if not alive:
                batches.append([0, False])
            assert not batches[-1][1], "admitted beside one that decodes"
            batches[-1][0] += 1
            alive.add(event["request"])
        elif event["event"] == "finish":
            alive.remove(event["request"])
            batches[-1][1] = True
        else:
            batches[-1][1] = True
    assert [size for size, _ in batches] == [1, 3, 3, 2]  # the warm-up comes alone
    assert run.json[0]["concurrency_max"] == 3


# ---- growpage trace ----


@pytest.fixture(scope="module")
def crowded(tiny, tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "t.jsonl"
    run = growpage("bench", "-m", tiny, "--serve", "--requests", "9", "--prompt-len", "20",
                   "--output-len", "uniform:60:200", "--kv-pages", "20", *SMALL, "-o", "json",
                   "--kv", "growpage", "--kv", "full", "--kv-trace", path)
    assert run.returncode == 0, run.err
    return path, run.json


def test_the_sums_are_those_of_the_trace_and_of_the_bench(crowded):
    path, figures = crowded
    sums = growpage("trace", path, "--json").json
    assert sums["bad"] == 0 and sums["lines"] == len(path.read_text().splitlines())
    events = [json.loads(line) for line in path.read_text().splitlines()]
    for run, figure in zip(sums["runs"], figures, strict=True):
        assert run["policy"] == figure["policy"] and run["ended"]
        for name in ("grow", "compress", "shrink", "initial", "capped", "fallback", "preempt"):
            assert run[name] == figure[name]
        assert run["finish"] == figure["requests"] + 1  # the warm-up
        assert run["resume"] == run["preempt"]
    assert sum(r["moved"] for r in sums["runs"]) == sum(e["moved"] for e in of(events, "compact"))


@pytest.mark.parametrize("columns", [60, 80, 132, 1000])
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_the_timeline_fits_the_width(crowded, columns, locale):
    run = growpage("trace", crowded[0], env={"COLUMNS": str(columns), "LC_ALL": locale})
    assert run.returncode == 0 and not run.err
    rows = [line for line in run.out.splitlines() if re.match(r"\d+\.0 ", line)]
    assert len(rows) == 20 and all(len(row) <= min(columns, 400) for row in rows)
    assert len(rows[0]) > min(columns, 400) - 12
    assert any("P" in row and "R" in row and "_" in row for row in rows)
    assert locale == "C.UTF-8" or run.out.isascii()
    assert "grow ratio 1.000" in run.out


def test_bad_lines_are_named_by_number(crowded, tmp_path):
    lines = crowded[0].read_text().splitlines()
    lines[3] = lines[3][:20]
    lines[7] = "{}"
    path = tmp_path / "bad"
    path.write_text("\n".join(lines[:50]) + "\n" + lines[60][:-9])
    run = growpage("trace", path)
    assert run.returncode == 1 and "(not ended)" in run.out
    assert len(run.err.splitlines()) == 1 and run.err.startswith("growpage: trace: ")
    for word in ("3 of 51 lines", "line 4: not JSON", "line 8: event: must be", "line 51: "):
        assert word in run.err, run.err


def test_what_is_no_trace(tmp_path):
    empty = tmp_path / "empty"
    empty.write_text("")
    refused(growpage("trace", empty), 1, "trace", "no events")
    refused(growpage("trace", tmp_path / "none"), 1, "none")
    refused(growpage("trace"), 2, "trace", "no file")
    refused(growpage("trace", empty, empty), 2, "unexpected argument")
    assert "line 1" in growpage("trace", "-", input=b"\0" * 1000).err
