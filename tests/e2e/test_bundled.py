"""The bundled model: found without being named, right about its own problems, and the same model in
llama.cpp (tests/oracle/README.md)."""

import hashlib
import json
import shutil

import pytest
from program import PROGRAM, ROOT, growpage

SIZE_MAX = 8 << 20
SUITES = ("sum", "mul", "prog", "sort", "phase", "walk", "find")


def lines_of(path):
    return [json.loads(line) for line in path.open(encoding="utf-8")]


def samples_of(path, **where):
    return [s for s in lines_of(path) if s["kind"] == "sample"
            and all(s[key] == value for key, value in where.items())]


def test_it_is_small_enough_to_ship():
    assert (ROOT / "models/growpage-reasoner.gguf").stat().st_size <= SIZE_MAX


def test_it_is_found_from_any_folder(tmp_path):
    run = growpage("run", "--chat", "-p", "Sort a88 b16 c66.", "--temp", "0", cwd=tmp_path)
    assert run.out.rstrip().endswith("\\boxed{16 66 88}")
    assert "growpage-reasoner" in run.err


def test_it_is_found_where_it_is_installed(tmp_path):
    for name, source in (("bin/growpage", PROGRAM),
                         ("share/growpage/growpage-reasoner.gguf",
                          ROOT / "models/growpage-reasoner.gguf")):
        (tmp_path / name).parent.mkdir(parents=True)
        shutil.copy(source, tmp_path / name)
    run = growpage("inspect", program=tmp_path / "bin/growpage", cwd=tmp_path)
    assert run.out.startswith("growpage-reasoner\n")


@pytest.fixture(scope="module")
def greedy(tmp_path_factory):
    """Our greedy answers to the problems that llama.cpp was asked."""
    out = tmp_path_factory.mktemp("bundled") / "greedy.jsonl"
    growpage("eval", "--suite", "all", "--seed", "7", "--limit", "29", "--temp", "0", "--kv",
             "full", "-n", "3000", "-o", str(out), timeout=600)
    return {(s["suite"], s["index"]): s for s in samples_of(out)}


def test_greedy_answers_are_those_of_llama_cpp(greedy):
    expected = lines_of(ROOT / "tests/oracle/reasoner/answers.jsonl")
    assert len(expected) == 200
    other = [(e["suite"], e["index"], e["answer"], greedy[e["suite"], e["index"]]["answer"])
             for e in expected
             if e["answer"] != greedy[e["suite"], e["index"]]["answer"]]
    texts = sum(e["text"] == hashlib.sha256(greedy[e["suite"], e["index"]]["text"].encode())
                .hexdigest()[:16] for e in expected)
    print(f"{texts} of {len(expected)} texts are the same to the byte")
    assert not other


@pytest.mark.parametrize("suite", SUITES)
def test_it_solves_its_problems(greedy, suite):
    graded = [s["correct"] for (name, _), s in greedy.items() if name == suite]
    assert sum(graded) >= 0.85 * len(graded)
