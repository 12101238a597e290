"""growpage eval: problems printed, a model asked, every answer recorded, a record gone on with."""

import json
import os
import pathlib
import signal
import time

import pytest
from program import ROOT, SLOW, growpage, make_model, refused, start

SUITES = ["sum", "mul", "prog", "sort", "phase", "walk", "find"]
SMALL = ["--page-size", "16", "--kv-initial-pages", "2", "-c", "2048"]
TIMES = {"queue_ms", "prefill_ms", "decode_ms", "demand_ms", "score_ms", "select_ms", "compact_ms",
         "started", "wall_ms"}

RUN_KEYS = {"kind", "version", "started", "model", "cpu", "threads", "machine", "seed", "suites",
            "concurrency", "batching", "difficulty", "form", "policies", "sampling", "kv",
            "engine"}
SERVED_KEYS = {"kind", "policy", "samples", "output_tokens", "serving_ms", "decode_steps",
               "concurrency", "concurrency_max", "pages_max"}
COUNTS = ["grow", "compress", "shrink", "start", "initial", "pressure", "capped", "fallback",
          "preempt"]
SAMPLE_KEYS = {"kind", "suite", "index", "sample", "policy", "difficulty", "form", "seed",
               "prompt_tokens", "output_tokens", "finish_reason", "answer", "correct", "pages_mean",
               "pages_peak", "slots", "queue_ms", "prefill_ms", "decode_ms", "demand_ms", "score_ms",
               "select_ms", "compact_ms", "prompt", "text", *COUNTS}


def lines(path):
    return [json.loads(line) for line in open(path, encoding="utf-8")]


def samples(path):
    return [line for line in lines(path) if line["kind"] == "sample"]


def timeless(line):
    return {key: value for key, value in line.items() if key not in TIMES}


def ask(model, path, *args, **kwargs):
    """Asked anew, whatever was there."""
    pathlib.Path(path).unlink(missing_ok=True)
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
    run, *between, end = lines(out)
    middle = samples(out)
    assert set(run) == RUN_KEYS and run["kind"] == "run"
    assert run["policies"] == ["growpage", "fixed:64"]
    assert run["suites"] == [{"suite": name, "problems": 3, "samples": 2, "max_tokens": 120}
                             for name in SUITES]
    assert run["model"]["path"] == tiny and run["model"]["hash"].startswith("xxh128:")
    assert run["engine"]["page_size"] == 16 and run["engine"]["context"] == 2048
    assert run["kv"]["initial_pages"] == 2 and run["sampling"]["temperature"] == 0.6
    assert run["sampling"]["top_p"] == 0.95 and run["sampling"]["top_k"] == 0
    assert run["seed"] == 3
    assert len(middle) == 2 * 2 * 3 * 7
    served = [line for line in between if line["kind"] == "served"]
    assert len(between) == len(middle) + 2 and between[-1] == served[-1]
    for line, policy in zip(served, run["policies"], strict=True):
        assert set(line) == SERVED_KEYS and line["policy"] == policy and line["samples"] == 42
        assert line["output_tokens"] == sum(s["output_tokens"] for s in middle
                                            if s["policy"] == policy)
        assert line["serving_ms"] > 0 and line["decode_steps"] >= 119
        assert 1 <= line["concurrency"] <= line["concurrency_max"] <= 42 <= line["pages_max"]
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
    run, *done, served, end = lines(out)
    assert process.returncode == 130 and len(done) >= 9
    assert served["kind"] == "served" and served["samples"] == len(done)
    assert stderr.decode() == f"growpage: eval: interrupted after {len(done)} of 1000000 samples\n"
    assert stdout.startswith(b"policy") and b"tok/s" in stdout
    assert run["kind"] == "run" and all(line["kind"] == "sample" for line in done)
    assert end["kind"] == "end" and end["complete"] is False and end["samples"] == len(done)


# ---- data sets ----

def write(path, *objects):
    path.write_text("".join(json.dumps(o) + "\n" for o in objects), encoding="utf-8")
    return str(path)


@pytest.fixture
def gsm8k(tmp_path):
    return write(tmp_path / "gsm8k.jsonl",
                 {"question": "Two and two?", "answer": "2+2=<<2+2=4>>4.\n#### 4"},
                 {"question": "A thousand and one?", "answer": "So.\n#### 1,001"})


@pytest.fixture
def math500(tmp_path):
    return write(tmp_path / "math500.jsonl", {"problem": "Half?", "answer": "\\frac{1}{2}"},
                 {"problem": "Roots?", "answer": "1 \\pm \\sqrt{2}", "level": 3},
                 {"question": "AMC writes a number:", "answer": 27.0})


def test_problems_of_files_are_printed(gsm8k, math500):
    problems = printed("--suite", f"{gsm8k},{math500},sum", "--limit", "3")
    assert [(p["suite"], p["index"]) for p in problems] == [
        ("gsm8k", 0), ("math500", 0), ("sum", 0), ("gsm8k", 1), ("math500", 1), ("sum", 1),
        ("math500", 2), ("sum", 2)]
    assert problems[0]["prompt"].startswith("Two and two?\n\n") and "boxed" in problems[0]["prompt"]
    assert [problems[i]["answer"] for i in (0, 3, 1, 6)] == ["4", "1,001", "\\frac{1}{2}", "27"]
    assert len(printed("--suite", math500)) == 3
    people = growpage("eval", "--print", "--suite", math500).out
    assert people.count("\nanswer   ") == 3 and "thought" not in people


@pytest.mark.parametrize("said, right", [
    ("\\boxed{0.5} and 7", [False, False, True, False, False]),
    ("it is 7, then 4.", [True, False, False, False, False]),
    ("\\boxed{1001}, not 4", [False, True, False, False, False]),
    ("\\boxed{1-\\sqrt2, 1+\\sqrt2}", [False, False, False, True, False]),
    ("\\boxed{27}", [False, False, False, False, True]),
    ("none", [False] * 5),
])
def test_answers_to_files_are_compared_by_value(said, right, gsm8k, math500, folder, tmp_path):
    model = make_model(folder, "said.gguf", "--spell", said.replace("\\", "\\\\"))
    ask(model, tmp_path / "out", "--suite", f"{gsm8k},{math500}", "--samples", "2")
    found = {(s["suite"], s["index"], s["sample"]): s["correct"] for s in samples(tmp_path / "out")}
    assert found == {(suite, i, n): right[place] for n in (0, 1) for place, (suite, i) in enumerate(
        [("gsm8k", 0), ("gsm8k", 1), ("math500", 0), ("math500", 1), ("math500", 2)])}


def test_presets_ask_as_the_paper_did(gsm8k, math500, speaker, tmp_path):
    out = tmp_path / "out"
    ask(speaker, out, "--suite", f"{gsm8k},{math500}", "--preset", "paper", "--kv", "fixed:preset")
    run = lines(out)[0]
    assert run["suites"] == [
        {"suite": "gsm8k", "problems": 2, "samples": 4, "max_tokens": 16384},
        {"suite": "math500", "problems": 3, "samples": 8, "max_tokens": 16384}]
    assert run["policies"] == ["fixed:4096"] and len(samples(out)) == 2 * 4 + 3 * 8
    aime = write(tmp_path / "aime24.jsonl", {"problem": "?", "answer": "204"})
    ask(speaker, out, "--suite", f"{gsm8k},{aime}", "--preset", "mixed", "--kv", "full")
    assert [(s["samples"], s["max_tokens"]) for s in lines(out)[0]["suites"]] == [(1, 32768),
                                                                               (32, 32768)]
    assert len(samples(out)) == 2 + 32
    refused(growpage("eval", "-m", speaker, "--suite", math500, "--preset", "mixed"), 2, "math500",
            "amc23, aime24 and gsm8k")
    refused(growpage("eval", "-m", speaker, "--suite", "sum", "--preset", "paper"), 2, "sum")
    for more in ["--samples", "-n"]:
        refused(growpage("eval", "-m", speaker, "--suite", gsm8k, "--preset", "paper", more, "2"), 2,
                "--preset")
    for args, word in ((["--preset", "mixed"], "has no budget"), ([], "without --preset"),
                       (["--preset", "paper", "--suite", f"{gsm8k},livecodebench"], "another")):
        refused(growpage("eval", "-m", speaker, "--suite", gsm8k, *args, "--kv", "gkv:preset"), 2,
                "gkv:preset", word)


def test_half_of_the_mixed_suites_are_long():
    problems = printed("--suite", "mixed", "--limit", "40")
    assert {p["suite"] for p in problems} == set(SUITES)
    assert 60 < sum(p["form"] == "long" for p in problems) < 220


@pytest.mark.parametrize("content, words", [
    (b"", ["no problems"]),
    (b"\n \n", ["no problems"]),
    (b'{"problem": "a", "answer": "1"}\n{"problem"\n', ["line 2", "not JSON"]),
    (b'{"problem": "a"}\n', ["line 1", "no answer"]),
    (b'{"answer": "a"}\n', ["line 1", "no problem"]),
    (b"[1]\n", ["line 1", "no problem"]),
    (b'{"problem": "a", "answer": ["1"]}\n', ["line 1", "no answer"]),
    (b'{"problem": "\xff", "answer": "1"}\n', ["line 1", "not JSON"]),
    (b'{"question_content": "a", "public_test_cases": "[]"}\n', ["line 1", "no metadata"]),
])
def test_files_that_are_no_data_sets_are_refused_by_line(content, words, speaker, tmp_path):
    (tmp_path / "set.jsonl").write_bytes(content)
    refused(growpage("eval", "-m", speaker, "--suite", tmp_path / "set.jsonl"), 2, "--suite",
            "set.jsonl", *words)


# ---- a record gone on with ----

RESUMED = ["--suite", "sum,walk", "--limit", "6", "-n", "200", "--samples", "2", "--kv", "full",
           "--kv", "fixed:64", "--concurrency", "3"]


def by_place(path):
    found = {(s["policy"], s["suite"], s["index"], s["sample"]): timeless(s) for s in samples(path)}
    assert len(found) == len(samples(path))  # no sample twice
    return found


def test_a_killed_run_goes_on_where_it_was(tiny, tmp_path):
    whole, out = tmp_path / "whole", tmp_path / "out"
    ask(tiny, whole, *RESUMED)
    starts = 0
    for kill_at in (0, 1, 5, 17, 30, 44):
        with start("eval", "-m", tiny, *SMALL, "-o", out, *RESUMED) as process:
            while process.poll() is None and (not out.exists() or
                                              out.read_bytes().count(b"\n") < kill_at):
                time.sleep(0.002)
            process.kill()
            process.communicate()
        starts += process.returncode == -signal.SIGKILL
    result = growpage("eval", "-m", tiny, *SMALL, "-o", out, *RESUMED)
    assert result.returncode == 0 and starts > 2
    assert by_place(out) == by_place(whole) and len(by_place(out)) == 48
    # What the table says is of all samples, not of the last sitting.
    rows = [line.split() for line in result.out.splitlines()[1:-1]]
    assert [(row[1], row[2]) for row in rows] == [("sum", "12"), ("walk", "12"), ("all", "24")] * 2
    before = out.read_bytes()
    again = growpage("eval", "-m", tiny, *SMALL, "-o", out, *RESUMED)
    assert again.returncode == 0 and out.read_bytes() == before
    assert again.out.splitlines()[:-1] == result.out.splitlines()[:-1]


def test_a_record_cut_anywhere_is_mended(tiny, tmp_path):
    whole, out = tmp_path / "whole", tmp_path / "out"
    args = ["--suite", "sum", "--limit", "3", "-n", "30", "--kv", "full"]
    ask(tiny, whole, *args)
    text = whole.read_bytes()
    ends = [i + 1 for i, c in enumerate(text) if c == 10]
    for at in [0, 1, ends[0] - 1, ends[0], ends[1] - 3, ends[1], ends[2] + 7, len(text) - 1]:
        out.write_bytes(text[:at])
        assert growpage("eval", "-m", tiny, *SMALL, "-o", out, *args).returncode == 0
        assert by_place(out) == by_place(whole)
        assert len([line for line in lines(out) if line["kind"] == "run"]) == 1


@pytest.mark.parametrize("args, words", [
    (["--temp", "0.7"], ["sampling.temperature is 0.6 there and 0.7 here"]),
    (["--limit", "4"], ["suites[0].problems is 3 there and 4 here"]),
    (["--samples", "2"], ["suites[0].samples is 1 there and 2 here"]),
    (["--suite", "sum"], ["suites"]),
    (["--kv", "full"], ["policies[0] is \"growpage\" there and \"full\" here"]),
    (["--seed", "2"], ["seed is 1 there and 2 here"]),
    (["-c", "1024"], ["engine.context"]),
    (["--batching", "static"], ["batching is \"continuous\" there and \"static\" here"]),
    (["--kv-initial-pages", "3"], ["kv.initial_pages is 2 there and 3 here"]),
])
def test_a_record_of_other_settings_is_refused_by_name(args, words, tiny, tmp_path):
    out = tmp_path / "out"
    base = ["--suite", "sum,walk", "--limit", "3", "-n", "20"]
    ask(tiny, out, *base)
    before = out.read_bytes()
    refused(growpage("eval", "-m", tiny, *SMALL, "-o", out, *base, *args), 1, "out",
            "other settings", *words)
    assert out.read_bytes() == before


def test_what_is_no_record_is_left_alone(tiny, speaker, tmp_path):
    out = tmp_path / "out"
    args = ["--suite", "sum", "--limit", "2", "-n", "20"]
    for content, word in ((b"notes\n", "not JSON"), (b'{"kind": "sample"}\n', "no record")):
        out.write_bytes(content)
        refused(growpage("eval", "-m", tiny, *SMALL, "-o", out, *args), 1, word)
        assert out.read_bytes() == content
    ask(tiny, out, *args)
    refused(growpage("eval", "-m", speaker, *SMALL, "-o", out, *args), 1, "model")
    whole = out.read_bytes().splitlines(keepends=True)
    for bad, words in ((whole[:2] + whole[1:2], ["twice"]),
                       (whole[:1] + [whole[1].replace(b'"sum"', b'"mul"')], ["line 2", "not ask"]),
                       (whole[:1] + [whole[1].replace(b'"index":', b'"inde":')], ["line 2", "index"])):
        out.write_bytes(b"".join(bad))
        refused(growpage("eval", "-m", tiny, *SMALL, "-o", out, *args), 1, *words)


def test_two_runs_do_not_write_to_one_file(endless, tmp_path):
    out = tmp_path / "out.jsonl"
    args = ["eval", "-m", endless, "--suite", "sum", "-n", "3000", "-c", "4096", "-o", out]
    with start(*args) as process:
        deadline = time.monotonic() + 20 * SLOW
        while not out.exists() or b"\n" not in out.read_bytes():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        refused(growpage(*args), 1, "another run")
        process.kill()
        process.communicate()


# ---- refusals ----

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
