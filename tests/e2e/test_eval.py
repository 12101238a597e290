"""growpage eval: problems printed, a model asked, every answer recorded."""

import json
import os
import signal
import time

import pytest
from program import ROOT, SLOW, growpage, make_model, refused, start

SUITES = ["sum", "mul", "prog", "sort", "phase", "walk", "find"]
SMALL = ["--page-size", "16", "--kv-initial-pages", "2", "-c", "2048"]
TIMES = {"queue_ms", "prefill_ms", "decode_ms", "started", "wall_ms"}

RUN_KEYS = {"kind", "version", "started", "model", "cpu", "threads", "machine", "seed", "suites",
            "limit", "samples", "concurrency", "difficulty", "form", "policies", "max_tokens",
            "sampling", "kv", "engine"}
COUNTS = ["grow", "compress", "shrink", "start", "initial", "pressure", "capped", "fallback",
          "preempt"]
SAMPLE_KEYS = {"kind", "suite", "index", "sample", "policy", "difficulty", "form", "seed",
               "prompt_tokens", "output_tokens", "finish_reason", "answer", "correct", "pages_mean",
               "pages_peak", "slots", "queue_ms", "prefill_ms", "decode_ms", "prompt", "text",
               *COUNTS}


def lines(path):
    return [json.loads(line) for line in open(path, encoding="utf-8")]


def samples(path):
    return [line for line in lines(path) if line["kind"] == "sample"]


def timeless(line):
    return {key: value for key, value in line.items() if key not in TIMES}


def ask(model, path, *args, **kwargs):
    result = growpage("eval", "-m", model, *SMALL, "-o", path, *args, **kwargs)
    assert result.returncode == 0, result.err
    return result


def printed(*args):
    result = growpage("eval", "--print", "--json", *args)
    assert result.returncode == 0 and result.stderr == b"", result.err
    return [json.loads(line) for line in result.out.splitlines()]


def test_problems_are_printed_for_people():
    result = growpage("eval", "--print", "--suite", "sum", "--limit", "3", "--seed", "4")
    assert result.returncode == 0 and result.stderr == b""
    blocks = result.out.strip().split("\n\n")
    assert len(blocks) == 3
    for i, block in enumerate(blocks):
        assert block.startswith(f"sum {i}  seed 4, difficulty ")
        for word in ("prompt   Add ", "thought  ", "answer   ", "live     "):
            assert "\n" + word in block


def test_problems_are_printed_as_json_lines():
    problems = printed("--limit", "4", "--seed", "9")
    assert [p["suite"] for p in problems] == SUITES * 4
    assert [p["index"] for p in problems] == [i for i in range(4) for _ in SUITES]
    for p in problems:
        assert set(p) == {"suite", "index", "seed", "difficulty", "form", "prompt", "thought",
                          "answer", "live_mean", "live_peak"}
        assert p["seed"] == 9 and p["form"] == "short" and 0 < p["live_mean"] <= p["live_peak"] <= 1
    assert printed("--limit", "2", "--seed", "9") == problems[:14]
    assert printed("--limit", "4", "--seed", "9", "--suite", "find")[2] == problems[20]
    assert printed("--limit", "4", "--seed", "10") != problems


def test_what_is_printed_asks_for_the_same_problem_again():
    for p in printed("--suite", "prog,walk", "--limit", "20", "--difficulty", "0.1:0.9", "--form",
                     "mixed"):
        again = printed("--suite", p["suite"], "--limit", str(p["index"] + 1), "--difficulty",
                        repr(p["difficulty"]), "--form", p["form"])
        assert again[-1] == p


def test_a_model_is_asked_and_every_answer_recorded(tiny, tmp_path):
    out = tmp_path / "out.jsonl"
    result = ask(tiny, out, "--limit", "3", "-n", "120", "--samples", "2", "--kv", "growpage", "--kv",
                 "fixed:64", "--seed", "3")
    run, *middle, end = lines(out)
    assert set(run) == RUN_KEYS and run["kind"] == "run"
    assert run["policies"] == ["growpage", "fixed:64"] and run["suites"] == SUITES
    assert run["model"]["path"] == tiny and run["model"]["hash"].startswith("xxh128:")
    assert run["engine"]["page_size"] == 16 and run["engine"]["context"] == 2048
    assert run["kv"]["initial_pages"] == 2 and run["sampling"]["temperature"] == 0.6
    assert run["sampling"]["top_p"] == 0.95 and run["sampling"]["top_k"] == 0
    assert (run["seed"], run["limit"], run["samples"], run["max_tokens"]) == (3, 3, 2, 120)
    assert len(middle) == 2 * 2 * 3 * 7
    asked = set()
    for s in middle:
        assert set(s) == SAMPLE_KEYS and s["kind"] == "sample"
        asked.add((s["policy"], s["suite"], s["index"], s["sample"]))
        assert s["finish_reason"] in ("stop", "length") and 1 <= s["output_tokens"] <= 120
        assert s["correct"] is False and 1 <= s["pages_mean"] <= s["pages_peak"]
        assert s["policy"] == "growpage" or s["pages_peak"] * 16 <= max(64, s["prompt_tokens"] + 16)
    assert len(asked) == len(middle)
    policies = [s["policy"] for s in middle]
    assert policies == sorted(policies, reverse=True)  # one after the other
    assert end["kind"] == "end" and end["complete"] is True and end["samples"] == len(middle)
    assert end["output_tokens"] == sum(s["output_tokens"] for s in middle)
    # The table says the same.
    table = [line.split() for line in result.out.splitlines()]
    assert table[0] == ["policy", "suite", "samples", "pass@1", "%", "tokens", "budget", "compress",
                        "grow"]
    assert len(table) == 1 + 2 * 8 + 1 and "tok/s" in table[-1] and result.stderr == b""
    for policy, suite, count, right, tokens, budget, compress, grow in table[1:-1]:
        mine = [s for s in middle if s["policy"] == policy and suite in (s["suite"], "all")]
        assert int(count) == len(mine) > 0 and float(right) == 0
        mean = lambda key: sum(s[key] for s in mine) / len(mine)
        assert abs(float(tokens) - mean("output_tokens")) <= 0.51
        assert abs(float(budget) - 16 * mean("pages_mean")) <= 0.51
        assert abs(float(compress) - mean("compress")) <= 0.0051
        assert abs(float(grow) - mean("grow")) <= 0.0051


def test_every_policy_and_every_run_asks_the_same(tiny, tmp_path):
    out, again = tmp_path / "out", tmp_path / "again"
    args = ["--limit", "4", "-n", "60", "--kv", "full", "--kv", "random:0.5", "--form", "mixed",
            "--difficulty", "0:0.5"]
    ask(tiny, out, *args)
    ask(tiny, again, *args)
    first = list(map(timeless, samples(out)))
    assert first == list(map(timeless, samples(again)))
    key = lambda s: (s["suite"], s["index"])
    shared = lambda s: {name: s[name] for name in ("seed", "prompt", "difficulty", "form")}
    by_policy = [{key(s): shared(s) for s in first if s["policy"] == policy}
                 for policy in ("full", "random:0.5")]
    assert by_policy[0] == by_policy[1] and len(by_policy[0]) == 28
    # Each of one alone is what it was among others.
    ask(tiny, again, *args[:4], "--form", "mixed", "--difficulty", "0:0.5", "--kv", "random:0.5",
        "--suite", "mul")
    alone = {key(s): s["text"] for s in samples(again)}
    assert len(alone) == 4
    assert alone == {key(s): s["text"] for s in first
                     if s["suite"] == "mul" and s["policy"] == "random:0.5"}


@pytest.mark.parametrize("other", [["--concurrency", "1"], ["--concurrency", "3", "-np", "2"],
                                   ["-np", "16", "--concurrency", "100"], ["-t", "1"]])
def test_company_and_threads_change_no_text(other, tiny, tmp_path):
    texts = []
    for args in (["--concurrency", "16"], other):
        ask(tiny, tmp_path / "out", "--limit", "2", "--samples", "2", "-n", "50", *args)
        texts.append({(s["suite"], s["index"], s["sample"]): s["text"]
                      for s in samples(tmp_path / "out")})
    assert len(texts[0]) == 28 and texts[0] == texts[1]


def test_right_answers_count(folder, tmp_path):
    problem = printed("--suite", "sum", "--limit", "1", "--seed", "5")[0]
    text = r"<think>so</think>It is \\boxed{%s}." % problem["answer"]
    model = make_model(folder, "right.gguf", "--spell", text)
    result = ask(model, tmp_path / "out", "--suite", "sum,mul", "--limit", "4", "--seed", "5")
    for s in samples(tmp_path / "out"):
        assert s["text"] == text.replace("\\\\", "\\") and s["answer"] == problem["answer"]
        assert s["correct"] is (s["suite"] == "sum" and s["index"] == 0)
        assert s["finish_reason"] == "stop"
    rows = [line.split() for line in result.out.splitlines()]
    assert [row[1:4] for row in rows[1:-1]] == [["sum", "4", "25.0"], ["mul", "4", "0.0"],
                                                ["all", "8", "12.5"]]


@pytest.mark.parametrize("args", [[], ["-o", "-"]])
def test_without_a_file_there_is_the_table_alone(args, speaker):
    result = growpage("eval", "-m", speaker, "--suite", "walk", "--limit", "2", *args)
    assert result.returncode == 0 and result.stderr == b""
    assert [line.split()[0] for line in result.out.splitlines()][:2] == ["policy", "growpage"]
    assert not os.path.exists(ROOT / "-")


def test_ctrl_c_keeps_what_is_done(endless, tmp_path):
    out = tmp_path / "out.jsonl"
    with start("eval", "-m", endless, "--suite", "sum", "--limit", "1000000", "-n", "300", "-np",
               "4", "-c", "4096", "-o", out) as process:
        deadline = time.monotonic() + 20 * SLOW
        while not out.exists() or out.read_text().count("\n") < 10:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=20 * SLOW)
    run, *done, end = lines(out)
    assert process.returncode == 130 and len(done) >= 9
    assert stderr.decode() == f"growpage: eval: interrupted after {len(done)} of 1000000 samples\n"
    assert stdout.startswith(b"policy") and b"tok/s" in stdout
    assert run["kind"] == "run" and all(line["kind"] == "sample" for line in done)
    assert end["kind"] == "end" and end["complete"] is False and end["samples"] == len(done)


@pytest.mark.parametrize("args, words", [
    (["--suite", "summ"], ["--suite", "summ", "did you mean sum?"]),
    (["--suite", "sum,quux"], ["quux", "unknown suite"]),
    (["--suite", "sum,sum"], ["sum", "twice"]),
    (["--suite", ""], ["--suite", "empty"]),
    (["--kv", "minference:10"], ["--kv", "minference"]),
    (["--kv", "full", "--kv", "full"], ["--kv", "full", "twice"]),
    (["--difficulty", "2"], ["--difficulty", "2"]),
    (["--difficulty", "0.9:0.1"], ["--difficulty", "0.9:0.1"]),
    (["--difficulty", "0.1:"], ["--difficulty"]),
    (["--form", "medium"], ["--form", "medium", "short|long|mixed"]),
    (["--limit", "0"], ["--limit", "0"]),
    (["--samples", "0"], ["--samples", "0"]),
    (["--concurrency", "0"], ["--concurrency", "0"]),
    (["--seed", "-1"], ["--seed", "-1"]),
    (["-n", "0"], ["--max-tokens"]),
    (["-o", ""], ["--output", "empty"]),
    (["--json"], ["--json", "--print"]),
    (["--print", "-o", "x"], ["--output", "--print"]),
    (["-np", "64", "-b", "8"], ["max-batch-tokens"]),
    (["surplus"], ["surplus"]),
])
def test_what_cannot_be_asked_is_refused_by_name(args, words, speaker):
    refused(growpage("eval", "-m", speaker, *args), 2, *words)


def test_what_cannot_be_done_is_said(speaker, tmp_path):
    refused(growpage("eval", "-m", speaker, "-o", tmp_path / "no" / "out"), 1, "no/out")
    refused(growpage("eval", "-m", speaker, "-o", tmp_path), 1, "directory")
    refused(growpage("eval", "-m", speaker, "-o", "/dev/full"), 1, "/dev/full", "No space")
    refused(growpage("eval", "-m", tmp_path / "none.gguf"), 1, "none.gguf")
    refused(growpage("eval", "-m", speaker, "-c", "24"), 1, "suite sum, problem 0", "24")
    refused(growpage("eval", "-m", speaker, "--chat-template", "{{ raise_exception('no') }}"), 1,
            "suite sum, problem 0", "no")


def test_a_table_that_cannot_be_written_is_a_failure(speaker):
    with open("/dev/full", "wb") as full:
        for args in (["--print"], ["--print", "--json"], []):
            with start("eval", "-m", speaker, "--limit", "2", *args, stdout=full) as process:
                _, stderr = process.communicate(timeout=60 * SLOW)
            assert process.returncode == 1, args
            assert stderr.startswith(b"growpage: standard output: No space"), stderr


def test_a_model_without_a_template_is_refused(tiny, tmp_path):
    # Rename the key where it stands: the file keeps its shape and loses its template.
    bytes = open(tiny, "rb").read()
    assert bytes.count(b"tokenizer.chat_template") == 1
    (tmp_path / "plain.gguf").write_bytes(bytes.replace(b"tokenizer.chat_template",
                                                        b"tokenizer.chat_templatf"))
    refused(growpage("eval", "-m", tmp_path / "plain.gguf", "--limit", "1"), 1, "no chat template")
    template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    result = growpage("eval", "-m", tmp_path / "plain.gguf", "--limit", "1", "-n", "5",
                      "--chat-template", template)
    assert result.returncode == 0
