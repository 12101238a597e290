"""Demand, decision and Compress & Hold of the engine against tests/oracle/compress_reference.py, which
was written from the method's description alone: the same decisions and kept sets in every layer and
head over successive boundaries, but for near ties, which are counted.  The baselines with a scorer
against tests/oracle/baselines_reference.py in the same way: when they cut, what they score and
remember (to 1e-5), what stays and where."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("GP_BUILD", "build/gcc-release")
REFERENCE = ROOT / "tests/oracle/compress_reference.py"
BASELINES = ROOT / "tests/oracle/baselines_reference.py"
SELECTED = ROOT / "tests/oracle/selected_reference.py"

MODELS = {
    "llama-g3": "--arch llama --layers 2 --embd 96 --heads 6 --kv-heads 2 --head-dim 32 --ffn 160",
    "qwen2-g1": "--arch qwen2 --layers 2 --embd 64 --heads 4 --kv-heads 4 --head-dim 16 --ffn 96 --bias",
    "qwen3-g8": "--arch qwen3 --layers 2 --embd 80 --heads 8 --kv-heads 1 --head-dim 32 --ffn 128",
}

# (model, policy, page size, prompt, output, options)
CASES = [
    ("llama-g3", "growpage", 32, 70, 330, "initial=2"),
    ("llama-g3", "growpage", 16, 20, 200, "initial=2 local=2 protect=5 kv_type=f32"),
    ("llama-g3", "fixed:96", 32, 40, 360, ""),
    ("llama-g3", "fixed:64", 32, 200, 260, "domain=all"),
    ("llama-g3", "shrink:-0.005:64", 32, 64, 400, "initial=4"),
    ("llama-g3", "growpage", 32, 70, 330, "initial=3 gqa_demand=max gqa_score=mean"),
    ("llama-g3", "growpage", 32, 70, 330, "initial=3 metric=entropy init=zero"),
    ("qwen2-g1", "growpage", 32, 31, 330, "initial=2"),
    ("qwen2-g1", "inverse", 32, 64, 300, "initial=2 max_pages=4"),
    ("qwen2-g1", "growpage", 16, 33, 200, "initial=2 metric=exp-entropy"),
    ("qwen3-g8", "growpage", 32, 70, 330, "initial=2 kv_type=f32"),
    ("qwen3-g8", "growpage", 64, 100, 500, "initial=2 gqa_demand=per-head coverage=0.9"),
    ("qwen3-g8", "random:0.7", 32, 50, 330, "initial=3"),
    ("qwen3-g8", "fixed:128", 32, 20, 400, "kv_type=bf16 local=30"),
    ("llama-g3", "growpage", 32, 70, 330, "initial=2 kv_type=q8_0"),
    ("llama-g3", "growpage", 32, 70, 400, "initial=2 compact=shift"),
    ("qwen3-g8", "fixed:96", 32, 200, 300, "compact=shift protect=1"),
    ("llama-g3", "shrink:-0.005:64", 32, 64, 400, "initial=4 compact=shift"),
]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, shape in MODELS.items():
        command = [BUILD / "tools/make_model", *shape.split(), "--vocab", "288", "--seed", "3",
                   "--type", "f32", "-o", folder / f"{name}.gguf"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder


def dump(models, out, case, seed):
    model, policy, page, prompt, output, options = case
    command = [BUILD / "tools/dump_boundaries", models / f"{model}.gguf", out, policy, str(page),
               str(prompt), str(output), str(seed), *options.split()]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("case", CASES, ids=[f"{c[0]}-{c[1]}-{c[2]}-{c[5]}" for c in CASES])
def test_engine_decides_and_keeps_what_the_method_says(models, tmp_path, case):
    out = tmp_path / "dump"
    dump(models, out, case, seed=7)
    run = subprocess.run([sys.executable, REFERENCE, "--json", out], capture_output=True, text=True)
    assert run.returncode in (0, 1) and not run.stderr, run.stderr
    events = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(events) >= 6
    wrong = [(e["event"], e["wrong"]) for e in events if e["wrong"]]
    assert not wrong
    kept = sum(e["kept_pairs"] for e in events)
    near = sum(e["near_pairs"] for e in events)
    assert near <= kept / 1000
    if case[1] not in ("full",):
        assert kept > 0, "no event compacted"


# (model, policy, page size, prompt, output, options)
BASELINE_CASES = [
    ("llama-g3", "zipage:64", 32, 70, 330, ""),
    ("llama-g3", "zipage:128", 32, 20, 400, "kv_type=f32"),
    ("qwen2-g1", "zipage:48", 16, 200, 150, ""),
    ("qwen3-g8", "zipage:100", 32, 50, 330, "kv_type=bf16"),
    ("qwen3-g8", "zipage:48", 16, 90, 200, "kv_type=q8_0"),
    ("llama-g3", "gkv:70", 32, 70, 500, ""),
    ("llama-g3", "gkv:64", 32, 20, 330, ""),
    ("qwen3-g8", "gkv:50", 16, 20, 260, "trigger=steps:30"),
    ("qwen2-g1", "gkv:80", 32, 200, 300, "trigger=steps:48 kv_type=f32"),
    ("llama-g3", "rkv:70", 32, 70, 500, ""),
    ("qwen3-g8", "rkv:64", 32, 20, 330, "kv_type=f32"),
    ("qwen2-g1", "rkv:50", 16, 41, 300, "trigger=steps:40"),
    ("llama-g3", "rkv:64", 32, 20, 330, "kv_type=q8_0"),
    ("llama-g3", "snapkv:70", 32, 70, 500, ""),
    ("qwen3-g8", "snapkv:50", 16, 130, 300, "trigger=steps:40 kv_type=bf16"),
    ("llama-g3", "morphkv:70", 32, 20, 110, "events=30"),
    ("qwen3-g8", "morphkv:64", 32, 90, 40, "events=20"),
    ("llama-g3", "h2o:50", 32, 20, 90, "events=30 window=200"),
    ("qwen3-g8", "h2o:33", 16, 90, 40, "events=20 window=200 kv_type=f32"),
    ("llama-g3", "streaming:50", 32, 20, 90, "events=30"),
    ("qwen2-g1", "streaming:32", 32, 90, 40, "events=20"),
    ("llama-g3", "morphkv:70", 32, 20, 500, "trigger=page"),
    ("qwen3-g8", "h2o:50", 16, 20, 200, "trigger=steps:20 window=60"),
    ("llama-g3", "streaming:50", 32, 20, 400, "trigger=page"),
]


@pytest.mark.parametrize("case", BASELINE_CASES,
                         ids=[f"{c[0]}-{c[1]}-{c[2]}-{c[5]}" for c in BASELINE_CASES])
def test_engine_scores_and_keeps_what_a_baseline_says(models, tmp_path, case):
    out = tmp_path / "dump"
    dump(models, out, case, seed=7)
    run = subprocess.run([sys.executable, BASELINES, "--json", out], capture_output=True, text=True)
    assert run.returncode in (0, 1) and not run.stderr, run.stderr
    cuts = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(cuts) >= 6
    wrong = [(c["cut"], c["wrong"]) for c in cuts if c["wrong"]]
    assert not wrong
    assert sum(c["near_pairs"] for c in cuts) <= sum(c["kept_pairs"] for c in cuts) / 1000
    assert sum(c["unsure"] for c in cuts) <= sum(c["heads"] for c in cuts) / 10
    if case[1].startswith("h2o"):
        assert all(c["sums"] == c["heads"] for c in cuts)


# (model, policy, page size, prompt, output, options); a scorer protects its own window, so here 8 for 8
SELECTED_CASES = [
    ("llama-g3", "growpage+zipage", 32, 70, 330, "initial=2"),
    ("qwen3-g8", "inverse+zipage", 32, 100, 500, "initial=2 local=30 max_pages=6"),
    ("llama-g3", "fixed:96+zipage", 32, 200, 260, "kv_type=q8_0"),
    ("qwen2-g1", "shrink:-0.005:64+zipage", 32, 64, 400, "initial=4 kv_type=f32"),
    ("llama-g3", "growpage+gkv", 32, 70, 400, "initial=3"),
    ("qwen3-g8", "fixed:96+gkv", 32, 20, 330, "kv_type=bf16"),
    ("qwen2-g1", "growpage+rkv", 16, 33, 200, "initial=2"),
    ("llama-g3", "inverse+rkv", 32, 64, 330, "initial=2 protect=8 max_pages=4"),
    ("qwen3-g8", "growpage+snapkv", 16, 20, 200, "initial=2 local=2"),
]


@pytest.mark.parametrize("case", SELECTED_CASES,
                         ids=[f"{c[0]}-{c[1]}-{c[2]}-{c[5]}" for c in SELECTED_CASES])
def test_a_scorer_selects_for_the_papers_policies(models, tmp_path, case):
    out = tmp_path / "dump"
    dump(models, out, case, seed=7)
    run = subprocess.run([sys.executable, SELECTED, "--json", out], capture_output=True, text=True)
    assert run.returncode in (0, 1) and not run.stderr, run.stderr
    events = [json.loads(line) for line in run.stdout.splitlines()]
    assert sum(e["heads"] > 0 for e in events) >= 3, "too few compactions"
    assert not [(e["event"], e["wrong"]) for e in events if e["wrong"]]
    assert sum(e["near_pairs"] for e in events) <= sum(e["kept_pairs"] for e in events) / 1000
    assert sum(e["unsure"] for e in events) <= sum(e["heads"] for e in events) / 10


def spoil_kept(cut):
    """The first head keeps another slot in place of its best."""
    kept = cut["kept"][0, 0, :, 0]
    kept[0] = min(set(range(len(kept) + 1)) - set(kept.tolist()))
    kept.sort()


def spoil_score(cut):
    cut["score"][0, 0, 5] *= 1.0001


def spoil_memory(cut):
    cut["memory"][1, 1, 3] *= 1.0001


def spoil_order(cut):
    cut["kept"][0, 0, :2] = cut["kept"][0, 0, 1::-1]


def spoil_keys(cut):
    cut["keys"][0, 1, 2, 0] += 1


def spoil_before(cut):
    cut["answer"]["before_count"] -= 1


def spoil_window(cut):
    cut["windows"] = cut["windows"][:, ::-1]


def spoil_time(cut):
    cut["cut"]["tokens"] += 1


def spoil_protect(cut):
    cut["cut"]["protect"] -= 1


@pytest.mark.parametrize("spoil", [spoil_kept, spoil_score, spoil_memory, spoil_order, spoil_keys,
                                   spoil_window, spoil_time, spoil_protect])
@pytest.mark.parametrize("policy", ["zipage:64", "gkv:70"])
def test_the_baselines_reference_notices_what_is_wrong(models, tmp_path, policy, spoil):
    sys.path.insert(0, str(BASELINES.parent))
    import baselines_reference
    import compress_reference

    out = tmp_path / "dump"
    dump(models, out, ("llama-g3", policy, 32, 70, 330, ""), seed=7)
    sections = [(name, value if isinstance(value, dict) else value.copy())
                for name, value in compress_reference.read_sections(out)]
    cuts = [i for i, (name, _) in enumerate(sections) if name == "cut"]
    begin, end = cuts[3], cuts[4]
    third = dict(sections[begin:end])
    spoil(third)
    with open(out, "wb") as file:
        file.write(compress_reference.MAGIC)
        for name, value in sections[:begin] + list(third.items()) + sections[end:]:
            compress_reference.write_section(file, name, value)
    model, events = baselines_reference.read_dump(out)
    past, wrong = None, []
    for index, data in enumerate(events):
        report, past = baselines_reference.compare_cut(data, model, 1e-5, past)
        wrong += [index] * len(report["wrong"])
    assert wrong and wrong[0] == 3


@pytest.mark.parametrize("spoil", [spoil_kept, spoil_score, spoil_memory, spoil_order, spoil_keys,
                                   spoil_window, spoil_before])
def test_the_selected_reference_notices_what_is_wrong(models, tmp_path, spoil):
    sys.path.insert(0, str(BASELINES.parent))
    import selected_reference

    out = tmp_path / "dump"
    dump(models, out, ("llama-g3", "fixed:96+zipage", 32, 40, 360, ""), seed=7)
    model, events = selected_reference.read_dump(out)
    compactions = [i for i, data in enumerate(events) if "kept" in data]
    spoilt = compactions[2]
    events[spoilt] = {name: value if isinstance(value, dict) else value.copy()
                      for name, value in events[spoilt].items()}
    spoil(events[spoilt])
    past, wrong = None, []
    for index, data in enumerate(events):
        if past is None and index > 0:
            break
        report, past = selected_reference.compare_event(data, model, 1e-5, past)
        wrong += [index] * len(report["wrong"])
    assert wrong and wrong[0] == spoilt
