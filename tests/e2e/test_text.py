"""tokenize and detokenize: bytes to ids and back."""

import json
import random

import pytest
from program import SANITIZED, growpage, make_model, refused
from gguf_bytes import BOOL, STRING, U32, File

TEXTS = ["", "Hello world", " leading and trailing ", "\n\n\n", "tab\there", "Café déjà vu — 123 😊",
         "١٢٣٤", "\u2029 \ua3e4", "e\u0301 decomposed", "<|im_start|>", "a\\b", "\u0000inside\u0000"]


def ids(result):
    assert result.returncode == 0, result.err
    return [int(word) for word in result.out.split()]


@pytest.mark.parametrize("text", TEXTS)
def test_bytes_survive_the_way_there_and_back(text, smollm):
    tokens = growpage("tokenize", "-m", smollm, "-", input=text)
    assert tokens.out.count("\n") == 1
    back = growpage("detokenize", "-m", smollm, "--special", input=tokens.stdout)
    assert back.stdout == text.encode()


def test_random_bytes_survive_too(tiny):
    # SmolLM2 itself has no token for 21 of the bytes, such as 0xff.
    data = random.Random(1).randbytes(20000)
    tokens = growpage("tokenize", "-m", tiny, "-", input=data)
    back = growpage("detokenize", "-m", tiny, "-", input=tokens.stdout)
    assert back.stdout == data


def test_bytes_that_no_token_has_are_told(smollm):
    result = growpage("tokenize", "-m", smollm, "-", input=b"plain \xff and \xff\xfe")
    assert "warning: text: 3 bytes" in result.err and result.err.count("\n") == 1
    back = growpage("detokenize", "-m", smollm, "-", input=result.stdout)
    assert back.stdout == b"plain  and "
    assert growpage("tokenize", "-m", smollm, "-", input="Café 😊".encode()).err == ""


def test_prompt_file_and_standard_input_agree(smollm, tmp_path):
    text = "The same text.\n"
    (tmp_path / "text").write_text(text)
    by_prompt = growpage("tokenize", "-m", smollm, "-p", text)
    assert len(ids(by_prompt)) > 3
    for args in (["-f", tmp_path / "text"], ["-f", "-"], ["-"]):
        assert growpage("tokenize", "-m", smollm, *args, input=text).stdout == by_prompt.stdout


def test_forms_of_the_output_agree(smollm):
    text = "x = 😊\t\\"
    plain = ids(growpage("tokenize", "-m", smollm, "-p", text))
    pieces = growpage("tokenize", "-m", smollm, "-p", text, "--pieces").out.splitlines()
    assert [int(line.split("\t")[0]) for line in pieces] == plain
    spelled = "".join(line.split("\t", 1)[1] for line in pieces)
    assert spelled.encode().decode("unicode_escape").encode("latin-1").decode() == text
    whole = growpage("tokenize", "-m", smollm, "-p", text, "--json", "--pieces").json
    assert whole["tokens"] == plain and whole["count"] == len(plain)
    joined = b"".join(p.encode() if isinstance(p, str) else bytes(p) for p in whole["pieces"])
    assert joined.decode() == text


def test_control_tokens_need_permission(smollm):
    text = "<|im_start|>user"
    plain = ids(growpage("tokenize", "-m", smollm, "-p", text))
    special = ids(growpage("tokenize", "-m", smollm, "-p", text, "--special"))
    assert 1 not in plain and special[0] == 1 and len(special) < len(plain)
    line = " ".join(map(str, special))
    assert growpage("detokenize", "-m", smollm, *line.split()).out == "user"
    assert growpage("detokenize", "-m", smollm, "--special", line).out == text


def test_user_defined_tokens_need_none(folder):
    # B19: type 4 tokens are found in any text, type 3 only where control tokens are asked for.
    model = make_model(folder, "think.gguf", "--token", "<think>", "--control", "<|eot_id|>")
    token = growpage("tokenize", "-m", model, "-p", "<think>", "--json", "--pieces").json
    assert token["pieces"] == ["<think>"]
    assert len(ids(growpage("tokenize", "-m", model, "-p", "<|eot_id|>"))) > 1
    assert len(ids(growpage("tokenize", "-m", model, "-p", "<|eot_id|>", "--special"))) == 1


def test_bos_is_put_once_or_not_at_all(folder, tiny, tmp_path):
    # B18
    file = File(tiny).set("tokenizer.ggml.add_bos_token", BOOL, True)
    file.set("tokenizer.ggml.bos_token_id", U32, 0)
    model = file.write(tmp_path / "bos.gguf")
    plain = ids(growpage("tokenize", "-m", tiny, "-p", "hi", "--no-bos"))
    assert ids(growpage("tokenize", "-m", model, "-p", "hi")) == [0] + plain
    assert ids(growpage("tokenize", "-m", model, "-p", "hi", "--no-bos")) == plain
    spelled = growpage("tokenize", "-m", model, "-p", "<|endoftext|>hi", "--special")
    assert ids(spelled) == [0] + plain
    usage = growpage("run", "-m", model, "-p", "hi", "-n", "1", "--json").json["usage"]
    assert usage["prompt_tokens"] == 1 + len(plain)


def test_unknown_pre_tokenizer_is_refused_unless_overridden(tiny, tmp_path):
    # B15
    model = File(tiny).set("tokenizer.ggml.pre", STRING, "no-such-pre").write(tmp_path / "a.gguf")
    refused(growpage("tokenize", "-m", model, "-p", "x"), 1, "no-such-pre")
    result = growpage("tokenize", "-m", model, "-p", "x", "--override-pre")
    assert result.returncode == 0 and "warning" in result.err and "no-such-pre" in result.err
    model = File(tiny).drop_key("tokenizer.ggml.pre").write(tmp_path / "b.gguf")
    result = growpage("tokenize", "-m", model, "-p", "x")
    assert result.returncode == 0 and "warning" in result.err


@pytest.mark.parametrize("text", ["a" * 100000, "_" * 50000, "あ" * ((1 << 20) // 3), " " * (1 << 20),
                                  "QUJDREVGRw" * 20000], ids=["a", "_", "hiragana", "blanks", "b64"])
def test_long_runs_are_not_quadratic(text, smollm):
    # B21
    result = growpage("tokenize", "-m", smollm, "-", input=text)
    assert result.returncode == 0
    if not SANITIZED:
        assert result.cpu_seconds < 2


@pytest.mark.parametrize("words", [["x"], ["1.5"], ["99999999999999999999"], ["4", "0x5"], ["1e3"]])
def test_what_is_no_id_is_named(words, smollm):
    refused(growpage("detokenize", "-m", smollm, *words), 1, words[-1])


def test_ids_outside_the_vocabulary_are_refused(smollm):
    refused(growpage("detokenize", "-m", smollm, "49152"), 1, "49152")
    refused(growpage("detokenize", "-m", smollm, "--", "-1"), 1, "-1")


def test_ids_as_a_json_array(smollm):
    tokens = growpage("tokenize", "-m", smollm, "-p", "as an array", "--json").json["tokens"]
    assert growpage("detokenize", "-m", smollm, input=json.dumps(tokens)).out == "as an array"


def test_a_missing_text_file_is_named(smollm, tmp_path):
    refused(growpage("tokenize", "-m", smollm, "-f", tmp_path / "gone"), 1, "gone")
    refused(growpage("tokenize", "-m", smollm, "-f", tmp_path), 1, "directory")
