"""The small reasoning model: what it learns from, and that growpage reads what is exported."""

import json
import math
import pathlib
import sys

import numpy as np
import pytest
from program import PROGRAM, ROOT, growpage

sys.path += [str(ROOT / "tools/train"), str(ROOT / "tools/oracle")]

import forward_reference  # noqa: E402
from data import Mixture, Source, encode, make_block  # noqa: E402
from export import UNREACHABLE, export  # noqa: E402
from layout import SPECIALS, TURN_END, VOCAB, Shape  # noqa: E402

SHAPE = Shape()
TEXT = "Add a265 b252 c378.\n\n#0000+a265 0+5+0=05 a b  c \u00fc\u4e2d\U0001f600 it's 12,345; "
QUESTION = "Sort a88 b16 c66."


def random_weights():
    """Floats that float16 holds, as large as a trained model's: every part of it matters."""
    rng = np.random.default_rng(11)
    weights = {name: rng.standard_normal(dims) * 1.5 / math.sqrt(dims[1])
               for name, dims in SHAPE.matrices().items()}
    weights |= {name: 1 + 0.3 * rng.standard_normal(dims) for name, dims in SHAPE.norms().items()}
    return {name: w.astype(np.float16) for name, w in weights.items()}


@pytest.fixture(scope="module", params=["f32", "f16", "q8_0"])
def any_type(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("reasoner") / f"{request.param}.gguf"
    export(random_weights(), path, request.param)
    return path


@pytest.fixture(scope="module")
def reasoner(tmp_path_factory):
    path = tmp_path_factory.mktemp("reasoner") / "reasoner.gguf"
    export(random_weights(), path, "f32")
    return path


def ids_of(model, text, *args):
    return growpage("tokenize", "-m", model, "--json", *args, "-", input=text).json["tokens"]


def greedy(model, *args, tokens=24):
    return growpage("run", "-m", model, "--temp", "0", "--kv", "full", "--kv-type", "f32", "-n",
                    str(tokens), "--ignore-eos", "--json", *args).json


def surprise(model, ids, window):
    """llama-perplexity's convention, from the reference."""
    reference = forward_reference.Model(model)
    nll = []
    for begin in range(0, len(ids) - window + 1, window):
        part = ids[begin:begin + window]
        rows = forward_reference.logits(reference, part)
        rows -= rows.max(axis=1, keepdims=True)
        logs = rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))
        nll += [-logs[i, part[i + 1]] for i in range(window // 2, window - 1)]
    return math.exp(np.mean(nll))


def printed_perplexity(model, text, window):
    out = growpage("perplexity", "-m", model, "-c", str(window), "-", input=text).out
    return float(out.split()[-1])


def test_the_file_says_what_it_is(any_type):
    out = growpage("inspect", "-m", any_type).out
    for words in ("growpage-reasoner", "qwen3, 2.8 M parameters", "4 of width 256, FFN 640",
                  "4 query, 2 KV, key 64, value 64", "4096 tokens", f"gpt2/gpt-2, {VOCAB} tokens",
                  "chat template: yes", "Apache-2.0"):
        assert words in out, words
    assert any_type.stat().st_size < 12 << 20
    if any_type.stem == "q8_0":
        assert any_type.stat().st_size < 4 << 20


def test_nothing_in_the_file_is_unknown(any_type):
    result = growpage("run", "-m", any_type, "-p", "x", "-n", "1")
    assert result.returncode == 0 and "warning" not in result.err, result.err


def test_every_byte_is_its_token(reasoner):
    everything = bytes(range(256)) + bytes(range(255, -1, -1)) + TEXT.encode()
    assert ids_of(reasoner, everything) == list(everything)


def test_bytes_are_never_merged(reasoner):
    rng = np.random.default_rng(3)
    for alphabet in (b"a ", b"a \n'st", bytes(range(256))):
        text = bytes(rng.choice(list(alphabet), 4000).tolist())
        assert ids_of(reasoner, text) == list(text)
    assert UNREACHABLE not in ids_of(reasoner, TEXT + "a " * 9, "--special")


def test_special_tokens_are_where_they_should_be(reasoner):
    for token, spelling in SPECIALS.items():
        assert ids_of(reasoner, spelling, "--special") == [token]
    thoughts = [t for t, s in SPECIALS.items() if b"think" in s]
    for token, spelling in SPECIALS.items():
        # A user may speak of thoughts, but not end a turn.
        assert ids_of(reasoner, spelling) == ([token] if token in thoughts else list(spelling))


def test_the_template_gives_the_text_that_was_trained_on(reasoner):
    written = f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n"
    by_hand = greedy(reasoner, "--special", "-p", written)
    by_template = greedy(reasoner, "--chat", "-p", QUESTION)
    assert by_template["usage"]["prompt_tokens"] == len(ids_of(reasoner, written, "--special"))
    assert by_template["tokens"] == by_hand["tokens"]


def test_greedy_tokens_are_those_of_the_reference(reasoner):
    ids = ids_of(reasoner, TEXT)
    chosen = greedy(reasoner, "-p", TEXT)["tokens"]
    assert len(set(chosen)) > 4  # or it would say little
    rows = forward_reference.logits(forward_reference.Model(reasoner), ids + chosen)
    assert chosen == rows[len(ids) - 1:-1].argmax(axis=1).tolist()


def test_perplexity_is_that_of_the_reference(reasoner):
    text = TEXT * 2
    expected = surprise(reasoner, ids_of(reasoner, text), 64)
    # The program's cache holds float16.
    assert printed_perplexity(reasoner, text, 64) == pytest.approx(expected, rel=1e-3)


def test_smaller_types_stay_near_the_floats(reasoner, any_type):
    text = TEXT * 5
    bound = {"f32": 0, "f16": 1e-3, "q8_0": 0.03}[any_type.stem]
    assert printed_perplexity(any_type, text, 128) == pytest.approx(
        printed_perplexity(reasoner, text, 128), rel=bound)


def test_weights_of_another_shape_are_refused(tmp_path):
    weights = random_weights()
    weights["blk.2.ffn_up.weight"] = weights["blk.2.ffn_up.weight"].T
    with pytest.raises(ValueError, match="blk.2.ffn_up.weight"):
        export(weights, tmp_path / "wrong.gguf", "f32")
    assert not list(pathlib.Path(tmp_path).glob("*.gguf"))


def printed_problems(*args):
    out = growpage("eval", "--print", "--json", *args).out
    return [json.loads(line) for line in out.splitlines()]


def test_training_text_is_what_the_template_and_the_tokenizer_give(reasoner):
    for problem in printed_problems("--suite", "all", "--limit", "2", "--seed", "5"):
        example = encode(problem)
        asked = f"<|im_start|>user\n{problem['prompt']}<|im_end|>\n<|im_start|>assistant\n"
        thought = problem["thought"].strip("\n")
        said = f"<think>\n{thought}\n</think>\n\\boxed{{{problem['answer']}}}<|im_end|>"
        assert example.tokens.tolist() == ids_of(reasoner, asked + said, "--special")
        learned = example.tokens[example.begin:].tolist()
        assert learned == ids_of(reasoner, said, "--special")
        tail = f"{problem['answer']}}}<|im_end|>"
        assert example.tokens[example.answer:].tolist() == ids_of(reasoner, tail, "--special")


def blocks_alike(one, other):
    return len(one) == len(other) and all(
        a.suites == b.suites and np.array_equal(a.tokens, b.tokens) for a, b in zip(one, other))


def test_a_block_follows_from_seed_number_and_progress():
    source = Source(PROGRAM, 1024)
    mixture = Mixture({"sum": 1, "walk": 2}, long_share=0)
    block = make_block(source, mixture, 1, 4, 0.5, 512)
    assert blocks_alike(block, make_block(source, mixture, 1, 4, 0.5, 512))
    for other in ((2, 4, 0.5), (1, 5, 0.5), (1, 4, 0.1)):
        assert not blocks_alike(block, make_block(source, mixture, *other, 512))


def test_batches_hold_what_they_say():
    mixture = Mixture({"sum": 1, "walk": 2}, long_share=0, warm_up_share=0)
    block = make_block(Source(PROGRAM, 700), mixture, 1, 0, 0.5, 2048)
    tokens = {"sum": 0, "walk": 0}
    for batch in block:
        rows, length = batch.tokens.shape
        assert length < 700 and (rows == 1 or batch.tokens.size <= 2048)
        # What is learned ends every row, and each target is the token behind its place.
        flat = batch.tokens.ravel()
        inner = np.append(np.diff(batch.rows) == 0, False)
        assert np.array_equal(flat[batch.places[inner] + 1], batch.targets[inner])
        assert np.array_equal(batch.places // length, batch.rows)
        assert (batch.targets[~inner] == TURN_END).all() and (~inner).sum() == rows
        for row, suite in enumerate(batch.suites):
            tokens[suite] += int((batch.rows == row).sum())
    assert 1.5 < tokens["walk"] / tokens["sum"] < 2.7
