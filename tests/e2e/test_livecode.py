"""growpage eval on LiveCodeBench's form: programs asked for, run in a sandbox, graded by tests."""

import base64
import json
import os
import pathlib
import pickle
import signal
import time
import zlib

import pytest
from program import SLOW, growpage, make_model, refused, start

RUN = ["--run-code", "--page-size", "16", "-c", "2048"]


def case(given, expected, kind):
    return {"input": given, "output": expected, "testtype": kind}


def packed(tests):
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()


def problem(kind, public, private, starter="", function=None, **more):
    """As it is published."""
    return {"question_title": "A title", "question_content": "Do what is asked.",
            "platform": "leetcode" if function else "atcoder", "question_id": "abc1",
            "contest_id": "abc", "contest_date": "2023-08-21T00:00:00", "starter_code": starter,
            "difficulty": "easy",
            "public_test_cases": json.dumps([case(*t, kind) for t in public]),
            "private_test_cases": packed([case(*t, kind) for t in private]),
            "metadata": json.dumps({"func_name": function} if function else {}), **more}


DOUBLE = problem("stdin", [("2\n", "4\n")], [("5\n", "10"), ("-1\n", "-2")])
ADD = problem("functional", [("[1, 2]\n3", "6")], [("[]\n0", "0")], "class Solution:\n    def add("
              "self, a: List[int], b: int) -> int:\n        ", "add")


def write(path, *objects):
    path.write_text("".join(json.dumps(o) + "\n" for o in objects), encoding="utf-8")
    return str(path)


@pytest.fixture
def livecode(tmp_path):
    return write(tmp_path / "livecodebench.jsonl", DOUBLE, ADD)


@pytest.fixture(scope="session")
def sandbox(folder):
    """Tried once: skips where bubblewrap cannot make one."""
    path = write(folder / "probe.jsonl", DOUBLE)
    result = growpage("eval", "-m", says(folder, "probe", "nothing"), "--suite", path, *RUN)
    if "--run-code" in result.err:
        pytest.skip(result.err.strip())


def says(folder, name, text):
    return make_model(folder, f"{name}.gguf", "--spell", text.replace("\\", "\\\\"))


def fenced(program):
    return f"So:\n```python\n{program}\n```\nDone."


def samples(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return lines[0], [line for line in lines if line["kind"] == "sample"]


def test_problems_are_printed_without_running_anything(livecode):
    result = growpage("eval", "--print", "--json", "--suite", livecode)
    first, second = map(json.loads, result.out.splitlines())
    assert result.returncode == 0
    assert first["prompt"].startswith("Write a Python 3 program") and "```python" in first["prompt"]
    assert "standard input" in first["prompt"] and "def add(" in second["prompt"]
    assert first["answer"] == "3 tests of standard output" and second["answer"] == "2 tests of add"


def test_nothing_is_run_unless_asked_for(livecode, speaker):
    for command in (["eval"], ["analyze", "budget"]):
        refused(growpage(*command, "-m", speaker, "--suite", livecode), 2, command[0],
                "livecodebench", "--run-code")
    refused(growpage("eval", "-m", speaker, "--suite", "sum", "--run-seconds", "2"), 2,
            "--run-seconds", "without --run-code")
    refused(growpage("eval", "--print", "--run-code"), 2, "--run-code", "--print")
    refused(growpage("analyze", "signal", "-m", speaker, "--run-code"), 2, "--run-code", "signal")


def test_what_is_missing_is_said(livecode, speaker, tmp_path):
    refused(growpage("eval", "-m", speaker, "--suite", livecode, "--run-code",
                     env={"PATH": str(tmp_path)}), 1, "--run-code", "bwrap", "install bubblewrap")


@pytest.mark.parametrize("program, right, why", [
    ("print(int(input()) * 2)", [True, False], [None, "status 1"]),
    ("class Solution:\n    def add(self, a, b):\n        return sum(a) + b", [False, True],
     ["wrong output", None]),
    ("print(4)", [False, False], ["wrong output", "status 1"]),
    (None, [False, False], None),
])
def test_programs_are_graded(program, right, why, livecode, sandbox, folder, tmp_path):
    text = fenced(program) if program else "I cannot."
    model, out = says(folder, "coder", text), tmp_path / "out.jsonl"
    result = growpage("eval", "-m", model, "--suite", livecode, "--samples", "2", "-o", out, *RUN)
    assert result.returncode == 0, result.err
    run, asked = samples(out)
    assert run["run_code"] == {"seconds": 6, "memory_bytes": 1 << 30}
    assert len(asked) == 4 and result.stderr == b""
    for s in asked:
        assert s["text"] == text and s["correct"] is right[s["index"]]
        assert s["answer"] == (program + "\n" if program else None)
        assert s["output_tokens"] > 0 and s["finish_reason"] == "stop"
        if program:
            assert s["tests"]["why"] == why[s["index"]]
            assert s["tests"]["count"] == [3, 2][s["index"]]
            assert (s["tests"]["passed"] == s["tests"]["count"]) is s["correct"]
        else:
            assert "tests" not in s
    rows = [line.split() for line in result.out.splitlines()]
    assert rows[1][1:4] == ["livecodebench", "4", f"{50 * sum(right):.1f}"]


def test_other_suites_go_beside_it(livecode, sandbox, folder, tmp_path):
    model = says(folder, "both", fenced("print(int(input()) * 2)") + " \\boxed{4}")
    gsm8k = write(tmp_path / "gsm8k.jsonl", {"question": "2 and 2?", "answer": "#### 4"})
    result = growpage("eval", "-m", model, "--suite", f"{livecode},{gsm8k}", "--kv", "full", "--kv",
                      "growpage", "-o", tmp_path / "out", *RUN)
    assert result.returncode == 0, result.err
    _, asked = samples(tmp_path / "out")
    assert sorted((s["policy"], s["suite"], s["index"], s["correct"]) for s in asked) == sorted(
        (p, *place) for p in ("full", "growpage")
        for place in (("livecodebench", 0, True), ("livecodebench", 1, False), ("gsm8k", 0, True)))


def left_over():
    """Processes that call themselves gp-e2e-left."""
    found = 0
    for comm in pathlib.Path("/proc").glob("[0-9]*/comm"):
        try:
            found += comm.read_text() == "gp-e2e-left\n"
        except OSError:
            pass
    return found


SLEEPER = ("import ctypes, time\nctypes.CDLL(None).prctl(15, b'gp-e2e-left', 0, 0, 0)\n"
           "time.sleep(1e6)")


def wait_for(condition):
    deadline = time.monotonic() + 60 * SLOW
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_running(how, livecode, sandbox, folder, tmp_path):
    out = tmp_path / "out"
    with start("eval", "-m", says(folder, "sleeper", fenced(SLEEPER)), "--suite", livecode, "-o", out,
               *RUN) as process:
        wait_for(left_over)
        process.send_signal(how)
        _, stderr = process.communicate(timeout=60 * SLOW)
    wait_for(lambda: not left_over())
    if how == signal.SIGINT:
        assert process.returncode == 130 and b"interrupted after 0 of 2 samples" in stderr
    assert samples(out)[1] == []  # what was not graded is asked again


def test_a_record_is_gone_on_with(livecode, sandbox, folder, tmp_path):
    model = says(folder, "resumed", fenced("print(int(input()) * 2)"))
    args = ["eval", "-m", model, "--suite", livecode, "--samples", "3", *RUN, "-o"]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert growpage(*args, whole).returncode == 0
    lines = whole.read_bytes().splitlines(keepends=True)
    cut.write_bytes(b"".join(lines[:4]) + lines[4][:50])
    assert growpage(*args, cut).returncode == 0
    kept = lambda path: sorted((s["index"], s["sample"], s["correct"], s["text"], s["answer"],
                                json.dumps(s["tests"])) for s in samples(path)[1])
    assert kept(cut) == kept(whole) and len(kept(whole)) == 6
    # Other limits may decide otherwise.
    refused(growpage(*args, cut, "--run-seconds", "9"), 1, "run_code.seconds", "6 there and 9 here")


def changed(**fields):
    return {key: value for key, value in {**DOUBLE, **fields}.items() if value is not None}


@pytest.mark.parametrize("wrong, words", [
    (changed(starter_code=None), ["no starter_code"]),
    (changed(question_content=3), ["no question_content"]),
    (changed(public_test_cases=None), ["no public_test_cases"]),
    (changed(public_test_cases=[]), ["no public_test_cases"]),
    (changed(public_test_cases="{}"), ["public_test_cases", "base64"]),
    (changed(public_test_cases="[1"), ["public_test_cases"]),
    (changed(public_test_cases="[]", private_test_cases="[]"), ["no tests"]),
    (changed(private_test_cases="[{}]"), ["test 2", "no input"]),
    (changed(private_test_cases="[3]"), ["test 2", "no input"]),
    (changed(private_test_cases="eJxrYJnKzgABPcyJSclT"), ["private_test_cases", "breaks off"]),
    (changed(private_test_cases=packed({"a": 1})), ["private_test_cases", "no array"]),
    (changed(private_test_cases=json.dumps([case("1", "2", "other")])), ["test 2", "testtype"]),
    (changed(private_test_cases=json.dumps([case("1", "2", "functional")])), ["func_name"]),
    (changed(metadata='{"func_name": "f"}'), ["test 1", "func_name"]),
    (changed(metadata=None), ["no metadata"]),
    (changed(metadata="no"), ["metadata"]),
    (problem("functional", [("[1", "2")], [], function="f"), ["test 1", "input is not JSON"]),
    (problem("functional", [("[1]", "2,")], [], function="f"), ["test 1", "output is not JSON"]),
])
def test_wrong_fields_are_named(wrong, words, speaker, tmp_path):
    path = write(tmp_path / "set.jsonl", DOUBLE, wrong)
    refused(growpage("eval", "-m", speaker, "--suite", path, "--run-code"), 2, "--suite", "set.jsonl",
            "line 2", *words)
