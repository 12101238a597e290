"""growpage bench: llama-bench's tests, and workloads served.  Nothing here looks at how long it
took; see tests/eval for what the figures mean."""

import csv
import io
import json
import math
import signal
import statistics
import time

import pytest
from program import SLOW, growpage, refused, start

# What llama-bench prints and what means something here, in its order.
LLAMA_KEYS = ["build_commit", "cpu_info", "gpu_info", "backends", "model_filename", "model_type",
              "model_size", "model_n_params", "n_batch", "n_ubatch", "n_threads", "type_k",
              "type_v", "n_prompt", "n_gen", "n_depth", "test_time", "avg_ns", "stddev_ns",
              "avg_ts", "stddev_ts"]
OWN_KEYS = ["median_ts", "min_ts", "max_ts", "n_seqs", "kv_policy", "page_size", "version", "cpu",
            "seed", "model_hash", "machine"]
KEYS = LLAMA_KEYS + OWN_KEYS + ["samples_ns", "samples_ts"]
TIMES = {"test_time", "avg_ns", "stddev_ns", "avg_ts", "stddev_ts", "median_ts", "min_ts",
         "max_ts", "samples_ns", "samples_ts"}
MACHINE = {"processor", "cores", "memory_bytes", "kernel"}

ORIGIN_KEYS = ["policy", "version", "started", "model", "cpu", "threads", "machine", "seed",
               "prompt_len", "output_len", "rate", "sampling", "engine", "kv"]
SPREADS = ["tpot_ms", "ttft_ms", "gap_ms", "e2e_ms"]
COUNTS = ["grow", "compress", "shrink", "start", "initial", "pressure", "capped", "fallback",
          "preempt"]
STAGES = ["demand", "score", "mask", "select", "compact"]
FIGURES = {"requests", "prompt_tokens", "output_tokens", "cut_short", "total_s", "tps", *SPREADS,
           "kv_budget", "kv_nominal", "concurrency", "concurrency_max", "pages", "pages_max",
           "decode_steps", *COUNTS, "grow_ratio", "demand_events", "compact_events", *STAGES,
           "decode_s", "boundary_share"}
SERVING_TIMES = {"started", "total_s", "tps", "decode_s", "boundary_share", *SPREADS, *STAGES}

QUICK = ["-p", "20", "-n", "6", "-r", "2"]
POOL = ["--page-size", "16", "--kv-initial-pages", "2", "--kv-pages", "48"]
LOAD = ["--serve", "--requests", "10", "--prompt-len", "uniform:20:60", "--output-len",
        "lognormal:4:0.5:200"]


def bench(model, *args, **kwargs):
    result = growpage("bench", "-m", model, *args, **kwargs)
    assert result.returncode == 0 and result.stderr == b"", result.err
    return result


def rows(model, *args):
    return [json.loads(line) for line in bench(model, *args, "-o", "jsonl").out.splitlines()]


def timeless(row, times=TIMES):
    return {key: value for key, value in row.items() if key not in times}


def flat(row, prefix=""):
    """As CSV has it: no arrays, "outer.inner"."""
    out = {}
    for key, value in row.items():
        if isinstance(value, dict):
            out.update(flat(value, prefix + key + "."))
        elif not isinstance(value, list):
            out[prefix + key] = value
    return out


def table_of(text):
    """The cells of a Markdown table, its head first; the line below the head must mark columns."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert all(len(row) == len(cells[0]) for row in cells)
    assert all(set(mark) <= set(":- ") and "-" in mark for mark in cells[1])
    return [cells[0]] + cells[2:]


# ---- tests ----


def test_every_row_says_what_was_run_and_by_what(tiny):
    result = rows(tiny, "-p", "8,16", "-n", "4,5", "-d", "0,40", "-b", "1,3", "-t", "1,2", "-r",
                  "2", "-ub", "32", "--seed", "9")
    assert len(result) == 4 * 2 * 2 * 2
    for row in result:
        assert list(row) == KEYS
        assert row["backends"] == "CPU" and row["gpu_info"] == "" and row["model_filename"] == tiny
        assert row["model_type"] == "llama F32" and row["type_k"] == row["type_v"] == "f16"
        assert row["n_batch"] == row["n_ubatch"] == 32 and row["kv_policy"] == "full"
        assert row["seed"] == 9 and row["model_hash"].startswith("xxh128:")
        assert set(row["machine"]) == MACHINE and row["cpu_info"] == row["machine"]["processor"]
        assert len(row["samples_ns"]) == len(row["samples_ts"]) == 2
    # llama-bench's order: prompts, generations; depths; threads; and sequences last.
    keys = [(r["n_seqs"], r["n_threads"], r["n_depth"], r["n_prompt"] == 0,
             r["n_prompt"] + r["n_gen"]) for r in result]
    assert keys == sorted(keys)
    assert {(r["n_prompt"], r["n_gen"]) for r in result} == {(8, 0), (16, 0), (0, 4), (0, 5)}


def test_the_figures_are_those_of_the_samples(tiny):
    for row in rows(tiny, "-p", "30", "-n", "7", "-d", "0,33", "-b", "1,4", "-r", "7"):
        near = lambda a, b: math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-5 * row["max_ts"])
        tokens = (row["n_prompt"] + row["n_gen"]) * row["n_seqs"]
        rates = [tokens * 1e9 / ns for ns in row["samples_ns"]]
        assert all(map(near, rates, row["samples_ts"]))
        assert near(row["avg_ts"], statistics.mean(rates))
        assert near(row["stddev_ts"], statistics.stdev(rates))
        assert near(row["median_ts"], statistics.median(rates))
        assert near(row["min_ts"], min(rates)) and near(row["max_ts"], max(rates))
        assert abs(row["avg_ns"] - statistics.mean(row["samples_ns"])) <= 1
        assert abs(row["stddev_ns"] - statistics.stdev(row["samples_ns"])) <= 1


def test_all_formats_say_the_same(tiny):
    args = [*QUICK, "-d", "0,30", "--kv-type", "f32"]
    lines = rows(tiny, *args)
    array = json.loads(bench(tiny, *args, "-o", "json").out)
    assert [list(row) for row in array] == [list(row) for row in lines]
    assert list(map(timeless, array)) == list(map(timeless, lines))
    table = list(csv.reader(io.StringIO(bench(tiny, *args, "-o", "csv").out)))
    assert table[0] == list(flat(lines[0]))
    for cells, line in zip(table[1:], lines, strict=True):
        for key, cell, value in zip(table[0], cells, flat(line).values(), strict=True):
            assert key in TIMES or cell == str(value), key
    text = bench(tiny, *args).out
    head, *body = table_of(text)
    assert head == ["model", "size", "params", "backend", "threads", "type_kv", "test", "t/s",
                    "median", "range"]
    assert [row[head.index("test")] for row in body] == ["pp20", "tg6", "pp20 @ d30", "tg6 @ d30"]
    for row in body:
        assert row[0] == "llama F32" and row[3] == "CPU" and row[5] == "f32"
        mean, deviation = map(float, row[7].split(" ± "))
        low, high = map(float, row[9].split(" to "))
        assert low <= float(row[8]) <= high and low <= mean <= high and deviation >= 0
    assert text.splitlines()[-1].startswith("build: growpage ")
    assert lines[0]["model_hash"] in text.splitlines()[-1] and "seed 1" in text.splitlines()[-1]


def test_markdown_shows_what_is_not_as_always(tiny):
    head, *body = table_of(bench(tiny, *QUICK, "-b", "2", "--kv", "full", "--kv", "fixed:512").out)
    assert head[5:7] == ["seqs", "kv"]
    assert [row[5:8] for row in body] == [["2", "full", "pp20"], ["2", "full", "tg6"],
                                          ["2", "fixed:512", "pp20"], ["2", "fixed:512", "tg6"]]


def test_a_run_can_be_repeated(tiny):
    args = [*QUICK, "-d", "0,20", "-b", "1,2"]
    assert list(map(timeless, rows(tiny, *args))) == list(map(timeless, rows(tiny, *args)))


def test_lists_are_ranges_and_add_up(tiny):
    result = rows(tiny, "-p", "0", "-n", "2-8*2", "-n", "3,5-7+2", "-r", "1", "--no-warmup")
    assert [row["n_gen"] for row in result] == [2, 4, 8, 3, 5, 7]
    assert all(row["stddev_ts"] == 0 and len(row["samples_ns"]) == 1 for row in result)


def test_the_context_can_be_full(tiny):
    args = ["-p", "64", "-n", "24", "-d", "0,40", "-r", "1"]
    refused(growpage("bench", "-m", tiny, *args, "-c", "64"), 2, "pp64 @ d40", "104 tokens",
            "the context has 64", "-c")
    assert len(rows(tiny, *args, "-c", "104")) == 4


def test_ctrl_c_keeps_the_tests_that_are_done(endless):
    args = ["-p", "0", "-n", "4,500000", "-r", "3", "-o", "json"]
    with start("bench", "-m", endless, *args, bufsize=0) as process:
        line = process.stdout.readline()
        while b'"samples_ts"' not in line:
            line += process.stdout.readline()
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=20 * SLOW)
    assert process.returncode == 130
    assert stderr.decode() == "growpage: bench: interrupted after 1 of 2 tests\n"
    assert [row["n_gen"] for row in json.loads(line + stdout)] == [4]


@pytest.mark.parametrize("args, words", [
    (["-p", "x"], ["-p", "x", "list"]),
    (["-p", "1,"], ["-p", "1,", "list"]),
    (["-n", "1,,2"], ["-n", "list"]),
    (["-n", "8-4"], ["-n", "8-4", "list"]),
    (["-n", "1-8+0"], ["-n", "1-8+0", "list"]),
    (["-n", "1-8*1"], ["-n", "1-8*1", "list"]),
    (["-n", "1-100"], ["-n", "1-100", "64"]),
    (["-d", "-1"], ["-d", "-1", "list"]),
    (["-d", "99999999"], ["-d", "99999999", "at most"]),
    (["-b", "0"], ["-b", "0", "at least 1"]),
    (["-b", "600"], ["-b", "600", "at most 512"]),
    (["-b", "64", "-ub", "32"], ["--batch", "64", "--max-batch-tokens", "32"]),
    (["-t", "0"], ["-t", "0", "at least 1"]),
    (["-r", "0"], ["-r", "0"]),
    (["-o", "xml"], ["-o", "xml", "md|csv|json|jsonl"]),
    (["-o", "sql"], ["-o", "sql", "not available yet"]),
    (["-d", "9000"], ["pp512 @ d9000", "9512 tokens", "8192"]),
    (["-n", "9000", "-p", "0"], ["tg9000", "9001 tokens", "8192"]),
    (["-p", "0", "-n", "0"], ["no tests"]),
    (["--kv", "nonsense"], ["--kv", "nonsense"]),
    (["--requests", "5"], ["--requests", "without --serve"]),
    (["--rate", "5"], ["--rate", "without --serve"]),
    (["-np", "5"], ["--max-seqs", "without --serve"]),
    (["--serve", "-p", "5"], ["--n-prompt", "with --serve"]),
    (["--serve", "-r", "5"], ["--repetitions", "with --serve"]),
    (["--serve", "-t", "1,2"], ["--threads", "--serve"]),
    (["--serve", "--prompt-len", "uniform:9:5"], ["--prompt-len", "uniform:9:5"]),
    (["--serve", "--output-len", "normal:9:5"], ["--output-len", "normal:9:5"]),
    (["--serve", "--rate", "0"], ["--rate", "0"]),
    (["--serve", "--prompt-len", "8100"], ["request 0", "8100 + 128 tokens", "8192"]),
    (["--serve", "-np", "64", "-ub", "8"], ["max-batch-tokens"]),
    (["--temp", "x"], ["--temp", "x"]),
    (["stray"], ["stray"]),
])
def test_what_cannot_be_timed_is_refused_by_name(args, words, tiny):
    refused(growpage("bench", "-m", tiny, *args), 2, *words)


def test_what_fails_is_said(tiny, tmp_path):
    refused(growpage("bench", "-m", tmp_path / "none.gguf"), 1, "none.gguf")
    result = growpage("bench", "-m", tiny, "-p", "0", "-n", "50", "-d", "100", "-b", "4",
                      "--page-size", "16", "--kv-pages", "20")
    refused(result, 1, "tg50 @ d100", "cache of 20 pages of 16 tokens", "too small")
    result = growpage("bench", "-m", tiny, "--serve", "--prompt-len", "200", "--page-size", "16",
                      "--kv-pages", "8")
    refused(result, 1, "full", "request 0", "200 tokens", "8 pages")


@pytest.mark.parametrize("kind", [QUICK, [*LOAD, *POOL]])
@pytest.mark.parametrize("form", ["md", "csv", "json", "jsonl"])
def test_results_that_cannot_be_written_are_a_failure(kind, form, tiny):
    with open("/dev/full", "wb") as full:
        with start("bench", "-m", tiny, *kind, "-o", form, stdout=full) as process:
            _, stderr = process.communicate(timeout=60 * SLOW)
    assert process.returncode == 1
    assert stderr.startswith(b"growpage: standard output: No space"), stderr


# ---- serving ----


def test_every_policy_serves_the_same_load(tiny):
    policies = ["full", "growpage", "fixed:64", "zipage:64"]
    result = rows(tiny, *LOAD, *POOL, "--seed", "5",
                  *[arg for policy in policies for arg in ("--kv", policy)])
    assert [row["policy"] for row in result] == policies
    for row in result:
        assert list(row)[:len(ORIGIN_KEYS)] == ORIGIN_KEYS
        assert set(row) == FIGURES | set(ORIGIN_KEYS)
        assert row["seed"] == 5 and row["model"]["path"] == tiny and row["rate"] is None
        assert row["prompt_len"] == "uniform:20:60" and row["output_len"] == "lognormal:4:0.5:200"
        assert set(row["machine"]) == MACHINE and row["engine"]["page_size"] == 16
        assert row["sampling"]["temperature"] == 0 and row["sampling"]["ignore_eos"] is True
        assert row["requests"] == 10 and row["cut_short"] == 0 and row["pages"] == 48
        assert 0 < row["pages_max"] <= 48
        assert (row["prompt_tokens"], row["output_tokens"]) == (result[0]["prompt_tokens"],
                                                                result[0]["output_tokens"])
        assert 0 < row["concurrency"] <= row["concurrency_max"] <= 10
        for key in SPREADS:
            s = row[key]
            assert list(s) == ["mean", "p50", "p90", "p99", "max"]
            assert 0 < s["p50"] <= s["p90"] <= s["p99"] <= s["max"]
            assert 0 < s["mean"] <= s["max"] * (1 + 1e-6)  # it is rounded
        for key in STAGES:
            assert list(row[key]) == ["ms", "ms_per_event", "share"]
        primary = row["grow"] + row["compress"] + row["shrink"]
        assert math.isclose(row["grow_ratio"], row["grow"] / primary, rel_tol=1e-6)
    full, growing, fixed, zipage = result
    assert full["compress"] == full["compact_events"] == 0 and full["grow_ratio"] == 1
    assert full["kv_nominal"] is growing["kv_nominal"] is None
    assert fixed["kv_nominal"] == zipage["kv_nominal"] == 64 and fixed["kv_budget"] <= 64
    assert growing["demand_events"] == growing["grow"] + growing["compress"] > 0
    assert fixed["compact_events"] > 0 and fixed["kv_budget"] < full["kv_budget"]


def test_serving_can_be_repeated(tiny):
    args = [*LOAD, *POOL, "--kv", "full", "--kv", "growpage", "--kv", "random:0.5"]
    first, again, other = (rows(tiny, *args), rows(tiny, *args, "-t", "1"),
                           rows(tiny, *args, "--seed", "2"))
    still = lambda row: timeless(row, SERVING_TIMES | {"threads"})
    assert list(map(still, first)) == list(map(still, again))
    assert [row["output_tokens"] for row in first] != [row["output_tokens"] for row in other]


def test_serving_in_all_formats(tiny):
    args = [*LOAD, *POOL, "--kv", "full", "--kv", "fixed:64"]
    lines = rows(tiny, *args)
    still = lambda row: timeless(row, SERVING_TIMES)
    array = json.loads(bench(tiny, *args, "-o", "json").out)
    assert list(map(still, array)) == list(map(still, lines))
    head, *body = csv.reader(io.StringIO(bench(tiny, *args, "-o", "csv").out))
    assert head == list(flat(lines[0])) and len(body) == 2
    assert [row[head.index("grow")] for row in body] == [str(line["grow"]) for line in lines]
    text = bench(tiny, *args).out
    head, *body = table_of(text)
    assert head == ["", "full", "fixed:64"]
    figures = {key: value for key, value in lines[0].items() if key not in ORIGIN_KEYS}
    assert [row[0] for row in body] == list(flat(figures))
    cells = {row[0]: row[1:] for row in body}
    for key in ("requests", "prompt_tokens", "output_tokens", *COUNTS, "pages_max"):
        assert cells[key] == [str(line[key]) for line in lines]
    assert cells["kv_nominal"] == ["-", "64"]
    assert "10 requests, prompts uniform:20:60, outputs lognormal:4:0.5:200, all at once" in text


def test_requests_arrive_at_a_rate(tiny):
    row, = rows(tiny, "--serve", "--requests", "12", "--prompt-len", "30", "--output-len", "8",
                "--rate", "200")
    assert row["rate"] == 200 and row["requests"] == 12 and row["output_tokens"] == 96


def test_ctrl_c_keeps_the_policies_that_are_done(endless):
    args = ["--serve", "--requests", str(500 // SLOW), "--prompt-len", "4", "--output-len", "60",
            "--kv", "full", "--kv", "growpage", "-o", "jsonl"]
    with start("bench", "-m", endless, *args, bufsize=0) as process:
        line = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=30 * SLOW)
    assert process.returncode == 130, stderr
    assert stderr.decode() == "growpage: bench: interrupted while growpage was served\n"
    assert json.loads(line)["policy"] == "full" and stdout == b""


def test_sampling_and_the_cache_can_be_chosen(tiny):
    row, = rows(tiny, *LOAD, *POOL, "--temp", "0.6", "--top-p", "0.9", "--top-k", "7",
                "--kv-fallback", "preempt", "-np", "3")
    assert row["sampling"]["temperature"] == 0.6 and row["sampling"]["top_k"] == 7
    assert row["kv"]["fallback"] == "preempt" and row["engine"]["max_seqs"] == 3
    assert row["concurrency_max"] <= 3 and row["fallback"] == 0


# ---- kernels ----

WEIGHTS = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL", "Q4_K", "Q5_K",
           "Q6_K"]
CACHES = ["f16", "bf16", "f32", "q8_0"]
ROW_KERNELS = [("quantize", "q8"), ("quantize", "q8_k"), ("rms_norm", "f32"), ("rms", "f32"),
               ("add", "f32"), ("silu_mul", "f32"), ("rope", "f32"), ("rope", "f32"),
               ("ema", "f32"), ("softmax", "f32"), ("max_into", "f32")]
KERNEL_KEYS = ["kernel", "type", "rows", "shape", "threads", "level", "unit", "median", "mean",
               "stddev", "min", "max", "of_read", "over_ref", "version", "test_time", "machine",
               "samples"]
KERNEL_TIMES = {"median", "mean", "stddev", "min", "max", "of_read", "over_ref", "test_time",
                "samples"}
SHORT = ["--kernels", "--kernel-time", "1", "--kernel-bytes", "1MiB", "-t", "1"]
FEW = ["--only", "read,rms,softmax,kv_store,f32,bf16"]


def kernels(*args, **kwargs):
    result = growpage("bench", *SHORT, *args, **kwargs)
    assert result.returncode == 0 and result.stderr == b"", result.err
    return result


def kernel_rows(*args, **kwargs):
    return [json.loads(line) for line in kernels(*args, "-o", "jsonl", **kwargs).out.splitlines()]


def test_every_kernel_of_every_type_is_timed():
    result = kernel_rows("-r", "1")
    products = [("matmul", kind, rows) for kind in WEIGHTS for rows in (1, 2, 4, 8, 64, 512)]
    attention = [("attention", kind, rows) for rows in (1, 8) for kind in CACHES]
    heads = [(name, kind, 1) for name in ("kv_store", "kv_scores", "kv_move") for kind in CACHES]
    assert [(row["kernel"], row["type"], row["rows"]) for row in result] == [
        ("read", "", 1), *products, *attention, *[(*pair, 1) for pair in ROW_KERNELS], *heads]
    assert result[0]["level"] in ("ref", "avx2", "avx512")
    for row in result:
        assert list(row) == KERNEL_KEYS and set(row["machine"]) == MACHINE
        assert row["threads"] == 1 and row["level"] == result[0]["level"] and row["shape"]
        from_memory = row["kernel"] in ("matmul", "attention") and row["rows"] == 1
        assert row["unit"] == ("GB/s" if from_memory or row["kernel"] == "read"
                               else "GMA/s" if row["kernel"] in ("matmul", "attention") else "ns")
        compared = row["kernel"] != "read" and row["level"] != "ref"
        for key, there in (("of_read", from_memory), ("over_ref", compared)):
            assert (row[key] is not None) == there, row
        for key in ("median", "mean", "min", "max", "of_read", "over_ref"):
            assert row[key] is None or (0 < row[key] < 1e12 and math.isfinite(row[key])), row
        assert row["samples"] == [row["median"]] and row["stddev"] == 0


def test_kernels_in_all_formats():
    args = [*FEW, "-r", "3"]
    lines = kernel_rows(*args)
    still = lambda row: timeless(row, KERNEL_TIMES)
    for row in lines:
        near = lambda a, b: math.isclose(a, b, rel_tol=1e-5)
        assert len(row["samples"]) == 3 and near(row["median"], statistics.median(row["samples"]))
        assert near(row["mean"], statistics.mean(row["samples"]))
        assert row["min"] == min(row["samples"]) and row["max"] == max(row["samples"])
    names = [(row["kernel"], row["type"]) for row in lines]
    assert names == [("read", ""), ("rms", "f32"), ("softmax", "f32"), ("kv_store", "bf16"),
                     ("kv_store", "f32")]
    array = json.loads(kernels(*args, "-o", "json").out)
    assert list(map(still, array)) == list(map(still, lines))
    head, *body = csv.reader(io.StringIO(kernels(*args, "-o", "csv").out))
    assert head == list(flat(lines[0])) and len(body) == len(lines)
    for cells, line in zip(body, lines, strict=True):
        for key, cell, value in zip(head, cells, flat(line).values(), strict=True):
            assert key in KERNEL_TIMES or cell == str(value), key
    text = kernels(*args).out
    head, *body = table_of(text)
    assert head == ["kernel", "type", "rows", "shape", "threads", "level", "median", "unit",
                    "range", "of read", "over ref"]
    assert [(row[0], row[1]) for row in body] == names
    for cells, line in zip(body, lines, strict=True):
        assert cells[2:6] == [str(line[key]) for key in ("rows", "shape", "threads", "level")]
        low, high = map(float, cells[8].split(" to "))
        assert 0 < low <= float(cells[6]) <= high and cells[7] == line["unit"]
        assert cells[9] == "" and (float(cells[10]) > 0 if line["over_ref"] else cells[10] == "")
    assert text.splitlines()[-1].startswith("build: growpage ")


def test_kernels_run_on_as_many_threads_as_are_asked_for():
    result = kernel_rows("-t", "3", "-r", "1", "--only", "read,matmul,softmax,q4_k,f32")
    threads = lambda name: [row["threads"] for row in result if row["kernel"] == name]
    assert threads("read") == [1, 3] and threads("matmul") == [1] * 12 + [3] * 12
    assert threads("softmax") == [1]  # one thread, once
    for row in result:
        once = row["kernel"] == "read" or row["threads"] > 1
        assert (row["over_ref"] is None) == (once or row["level"] == "ref")


def test_kernels_of_a_level():
    for row in kernel_rows("--only", "read,kv_store,rope,q8_0,f32", "-r", "1",
                           env={"GP_CPU": "ref"}):
        assert row["level"] == "ref" and row["over_ref"] is None
    refused(growpage("bench", *SHORT, env={"GP_CPU": "z80"}), 1, "GP_CPU", "z80")
    best = kernel_rows("--only", "rms", "-r", "1")[0]["level"]
    if best != "ref":
        row, = kernel_rows("--only", "rms", "-r", "1", env={"GP_CPU": "avx2"})
        assert row["level"] == "avx2" and row["over_ref"] > 0


@pytest.mark.parametrize("args, words", [
    (["--kernels", "-m", "model.gguf"], ["-m", "with --kernels"]),
    (["--kernels", "--model=model.gguf"], ["--model", "with --kernels"]),
    (["--kernels", "-p", "512"], ["-p", "with --kernels"]),
    (["--kernels", "-b", "4"], ["-b", "with --kernels"]),
    (["--kernels", "--serve"], ["--serve", "with --kernels"]),
    (["--kernels", "--kv", "full"], ["--kv", "with --kernels"]),
    (["--kernels", "--seed", "1"], ["--seed", "with --kernels"]),
    (["-r", "2", "--no-warmup", "--kernels"], ["--no-warmup", "with --kernels"]),
    (["--kernels", "stray"], ["stray"]),
    (["--kernels=1"], ["--kernels", "takes no value"]),
    (["--kernels", "-r", "0"], ["-r", "0"]),
    (["--kernels", "-t", "0"], ["-t", "0"]),
    (["--kernels", "--kernel-time", "0"], ["--kernel-time", "0"]),
    (["--kernels", "--kernel-bytes", "1KiB"], ["--kernel-bytes", "1KiB"]),
    (["--kernels", "--only", "matmul,nosuch"], ["--only", "nosuch"]),
    (["--kernels", "--only", "softmax,q4_k"], ["--only"]),
    (["--kernels", "--only", "read,,rope"], ["--only", "no kernel"]),
    (["--kernels", "--only", ""], ["--only", "empty"]),
    (["--only", "matmul"], ["--only", "without --kernels"]),
    (["--kernel-time", "5"], ["--kernel-time", "without --kernels"]),
    (["--kernel-bytes", "5MiB"], ["--kernel-bytes", "without --kernels"]),
])
def test_what_does_not_go_with_kernels_is_refused_by_name(args, words):
    refused(growpage("bench", *args), 2, *words)


def test_ctrl_c_keeps_the_kernels_that_are_done():
    args = ["--kernels", "--kernel-time", "300", "-r", "2", "-t", "1", "--only", "rms,add", "-o",
            "jsonl"]
    with start("bench", *args, bufsize=0) as process:
        line = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=20 * SLOW)
    assert process.returncode == 130
    assert stderr.decode() == "growpage: bench: interrupted after 1 of 2 kernels\n"
    assert json.loads(line)["kernel"] == "rms" and stdout == b""


@pytest.mark.parametrize("form", ["md", "csv", "json", "jsonl"])
def test_kernels_that_cannot_be_written_are_a_failure(form):
    with open("/dev/full", "wb") as full:
        with start("bench", *SHORT, *FEW, "-o", form, stdout=full) as process:
            _, stderr = process.communicate(timeout=60 * SLOW)
    assert process.returncode == 1
    assert stderr.startswith(b"growpage: standard output: No space"), stderr
