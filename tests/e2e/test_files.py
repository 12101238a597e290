"""Model files that are missing, damaged, hostile or of another kind: one line that names what is wrong,
exit status 1, no signal, under a second and 100 MiB.  The entries are those of docs/BARS.md."""

import os
import struct

import pytest
from program import growpage, make_model, refused_cheaply
from gguf_bytes import (ARRAY, F32, STRING, U32, U64, File, header, key, padded, string,
                        tensor, u32, u64)

HUGE = 2**64 - 1


def refuse(path, *words):
    """Every command that opens a model must say the same."""
    refused_cheaply("inspect", path, words=words)
    refused_cheaply("run", "-m", path, "-p", "x", words=words)
    refused_cheaply("tokenize", "-m", path, "-p", "x", words=words)


def refuse_bytes(tmp_path, data, *words):
    path = tmp_path / "hostile.gguf"
    path.write_bytes(data)
    refuse(path, "hostile.gguf", *words)


def test_what_is_no_file_is_named(tmp_path):
    refuse(tmp_path / "gone.gguf", "gone.gguf", "No such file")
    refuse(tmp_path, str(tmp_path))
    refuse("/dev/zero", "/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    refuse(tmp_path / "pipe", "pipe")
    refuse_bytes(tmp_path, b"")
    (tmp_path / "locked").write_bytes(header(0, 0))
    (tmp_path / "loop").symlink_to("loop")
    refuse(tmp_path / "loop", "loop")


def test_other_formats_are_named(tmp_path):
    refuse_bytes(tmp_path, b"{\"json\": true}" * 10, "GGUF")
    refuse_bytes(tmp_path, b"GGML" + bytes(60))
    refuse_bytes(tmp_path, b"PK\3\4" + bytes(60))


def test_b01_a_dimension_of_zero(tmp_path):
    refuse_bytes(tmp_path, padded(header(1, 0) + tensor("t", [1, 0])), "tensor t", "dimension")


@pytest.mark.parametrize("data", [
    header(HUGE, 0), header(0, HUGE), header(HUGE, HUGE), header(2**32, 0), header(0, 2**32),
    header(0, 1) + u64(HUGE), header(0, 1) + u64(2**63),
    header(0, 1) + key("k", STRING, u64(2**63)), header(0, 1) + key("k", STRING, u64(HUGE - 7)),
    header(0, 1) + key("k", ARRAY, u32(U64) + u64(2**61)),
    header(0, 1) + key("k", ARRAY, u32(U64) + u64(2**61 + 1)) + bytes(64),
    header(0, 1) + key("k", ARRAY, u32(STRING) + u64(2**32)),
    header(1, 0) + u64(HUGE) + bytes(64),
], ids=str)
def test_b03_huge_counts_in_a_tiny_file(data, tmp_path):
    refuse_bytes(tmp_path, data)


@pytest.mark.parametrize("dims, kind", [
    ([2**32, 2**32], 0), ([2**42 + 1, 1], 0), ([2**31, 2], 12), ([255], 12), ([31], 8),
    ([2**63, 2], 0), ([2**16] * 4, 0), ([HUGE], 0), ([2**62, 4], 1),
], ids=str)
def test_b04_products_that_wrap(dims, kind, tmp_path):
    refuse_bytes(tmp_path, padded(header(1, 0) + tensor("wraps", dims, kind)) + bytes(4096), "wraps")


@pytest.mark.parametrize("infos, data", [
    ([("a", [64], 0, 0)], 128),                           # shorter than the sum
    ([("a", [64], 0, 0), ("b", [64], 0, 128)], 1024),     # overlapping
    ([("a", [64], 0, 2**40)], 1024),                      # beyond the end
    ([("a", [64], 0, HUGE - 31)], 1024),                  # offset and size wrap
    ([("a", [64], 0, 8)], 1024),                          # not aligned
], ids=["short", "overlap", "beyond", "wrap", "unaligned"])
def test_b04_offsets(infos, data, tmp_path):
    out = header(len(infos), 0) + b"".join(tensor(n, d, k, o) for n, d, k, o in infos)
    refuse_bytes(tmp_path, padded(out) + bytes(data))


def nested(depth):
    value = u32(ARRAY) + u64(1)
    return value * (depth - 1) + u32(U32) + u64(1) + u32(7)


@pytest.mark.parametrize("data, words", [
    (header(0, 1) + key("", U32, u32(1)), []),
    (header(0, 2) + key("twice", U32, u32(1)) * 2, ["twice"]),
    (header(2, 0) + tensor("twice", [32]) + tensor("twice", [32], 0, 128) + bytes(512), ["twice"]),
    (header(0, 1) + key("odd", 13, u32(1)), ["odd"]),
    (header(1, 0) + tensor("old", [32], 4) + bytes(512), ["old", "4"]),
    (header(1, 0) + tensor("old", [32], 36) + bytes(512), ["old", "36"]),
    (header(1, 0) + tensor("odd", [32], 255) + bytes(512), ["odd", "255"]),
    (header(1, 0) + tensor("n" * 70, [32]) + bytes(512), ["name"]),
    (header(1, 0) + tensor("flat", []) + bytes(512), ["flat"]),
    (header(1, 0) + tensor("deep", [1] * 5) + bytes(512), ["deep"]),
    (header(0, 0, version=0), ["version"]),
    (header(0, 0, version=1), ["version"]),
    (header(0, 0, version=4), ["version"]),
    (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), ["endian"]),
    (header(0, 0, magic=b"GGUE"), []),
    (header(0, 1) + key("nest", ARRAY, nested(1000)), ["nest"]),
], ids=lambda x: None if isinstance(x, bytes) else "-".join(x) or "plain")
def test_b06_grammar(data, words, tmp_path):
    refuse_bytes(tmp_path, data, *words)


def test_b06_files_cut_anywhere_near_their_start(tiny, tmp_path):
    data = open(tiny, "rb").read()
    path = tmp_path / "cut.gguf"
    for length in [*range(200), *range(200, len(data), len(data) // 50), len(data) - 1]:
        path.write_bytes(data[:length])
        refused_cheaply("inspect", path, words=["cut.gguf"])


@pytest.mark.parametrize("name, kind, value", [
    ("llama.attention.head_count", U32, 0),
    ("llama.attention.head_count", U32, 2**31),
    ("llama.attention.head_count_kv", U32, 0),
    ("llama.attention.head_count_kv", U32, 3),
    ("llama.block_count", U32, 0),
    ("llama.block_count", U32, 2**31),
    ("llama.block_count", STRING, "two"),
    ("llama.embedding_length", U32, 77),
    ("llama.embedding_length", U32, 0),
    ("llama.context_length", U32, 0),
    ("llama.attention.layer_norm_rms_epsilon", F32, 0.0),
    ("llama.attention.layer_norm_rms_epsilon", F32, -1.0),
    ("llama.attention.layer_norm_rms_epsilon", F32, float("nan")),
    ("llama.rope.freq_base", F32, 0.0),
    ("llama.attention.head_count", ARRAY, u32(U32) + u64(2) + u32(4) + u32(2)),
    ("llama.rope.scaling.type", STRING, "longrope"),
    ("general.architecture", STRING, "mamba"),
    ("split.count", U32, 2),
])
def test_b07_hyperparameters_that_make_no_sense(name, kind, value, tiny, tmp_path):
    path = File(tiny).set(name, kind, value).write(tmp_path / "b07.gguf")
    # A width that no tensor has is told by the first tensor.
    told = {"mamba": "mamba", 77: "token_embd.weight"}.get(value, name.removeprefix("llama."))
    refused_cheaply("run", "-m", path, "-p", "x", words=[told])


def test_a_window_that_is_not_done_here_is_named(tiny, tmp_path):
    path = File(tiny).set("llama.attention.sliding_window", U32, 64).write(tmp_path / "window.gguf")
    result = growpage("run", "-m", path, "-p", "x", "-n", "100", "--ignore-eos", "--json")
    assert "llama.attention.sliding_window" in result.err
    if result.returncode == 0: # cut to what is right without windows
        assert result.json["usage"]["total_tokens"] <= 64


def test_b07_missing_keys_fall_to_documented_defaults(tiny, tmp_path):
    before = growpage("run", "-m", tiny, "-p", "x", "-n", "8", "--temp", "0", "--json").json
    file = File(tiny).drop_key("llama.context_length").drop_key("llama.rope.dimension_count")
    path = file.write(tmp_path / "bare.gguf")
    result = growpage("run", "-m", path, "-p", "x", "-n", "8", "--temp", "0", "--json", "-c", "64")
    assert result.returncode == 0 and result.json["tokens"] == before["tokens"]


@pytest.mark.parametrize("spelling", ["<0x-1>", "<0xZZ>", "<0x100>", "<0x"])
def test_b08_malformed_byte_tokens(spelling, tiny, tmp_path):
    """A SentencePiece-style vocabulary whose byte tokens are not all bytes: refused, or taken as text
    with a warning; never an index out of its table."""
    file = File(tiny)
    count = next(t for t in file.tensors if t[0] == "token_embd.weight")[1][1]
    words = ["<unk>", "<s>", "</s>", spelling, *[f"w{i}" for i in range(count - 4)]]
    types = [2, 3, 3, 6] + [1] * (count - 4)
    file.set("tokenizer.ggml.model", STRING, "llama").drop_key("tokenizer.ggml.pre")
    file.drop_key("tokenizer.ggml.merges")
    file.set("tokenizer.ggml.tokens", ARRAY, u32(STRING) + u64(count) + b"".join(map(string, words)))
    file.set("tokenizer.ggml.token_type", ARRAY,
             u32(U32 + 1) + u64(count) + b"".join(map(u32, types)))
    file.set("tokenizer.ggml.scores", ARRAY,
             u32(F32) + u64(count) + b"".join(struct.pack("<f", -i) for i in range(count)))
    for name, token in [("bos", 1), ("eos", 2), ("unknown", 0)]:
        file.set(f"tokenizer.ggml.{name}_token_id", U32, token)
    path = file.write(tmp_path / "b08.gguf")
    result = growpage("tokenize", "-m", path, "-p", "w1 \x01\x7f é")
    assert result.returncode in (0, 1), result.stderr
    if result.returncode == 1:
        assert len(result.err.splitlines()) == 1
    else:
        assert "warning" in result.err


def test_b09_tied_embeddings_and_any_other_missing_tensor(folder, tmp_path):
    untied = make_model(folder, "untied.gguf", "--untied", "--seed", "3")
    file = File(untied)
    embedding = file.find("token_embd.weight")
    file.find("output.weight")[2] = embedding[2]
    same = file.write(tmp_path / "same.gguf")
    tied = file.drop_tensor("output.weight").write(tmp_path / "tied.gguf")
    args = ["-p", "tied", "-n", "20", "--seed", "1", "--json"]
    answers = [growpage("run", "-m", path, *args).json["tokens"] for path in (same, tied)]
    assert answers[0] == answers[1]
    for name in [t[0] for t in file.tensors]:
        path = File(tied).drop_tensor(name).write(tmp_path / "less.gguf")
        refused_cheaply("run", "-m", path, "-p", "x", words=[name])


def test_b10_rope_factors_divide_the_angle(folder, tmp_path):
    model = make_model(folder, "rope.gguf", "--seed", "5")
    file = File(model)
    heads = struct.unpack("<I", next(k[2] for k in file.keys
                                     if k[0] == "llama.attention.head_count"))[0]
    half = file.find("blk.0.attn_q.weight")[1][1] // heads // 2
    answers = {}
    for factor in (None, 1.0, 2.0):
        file = File(model)
        if factor:
            file.tensors.append(["rope_freqs.weight", [half], struct.pack("<f", factor) * half])
        path = file.write(tmp_path / "factors.gguf")
        answers[factor] = growpage("run", "-m", path, "-p", "a longer prompt, for positions to count",
                                   "-n", "40", "--temp", "0", "--json").json["tokens"]
    assert answers[None] == answers[1.0] != answers[2.0]


def test_b12_a_missing_query_norm_is_an_error(folder, tmp_path):
    file = File(make_model(folder, "qwen3.gguf", "--arch", "qwen3"))
    path = file.drop_tensor("blk.0.attn_q_norm.weight").write(tmp_path / "no_norm.gguf")
    refused_cheaply("run", "-m", path, "-p", "x", words=["blk.0.attn_q_norm.weight"])


def test_b13_no_tensor_goes_unread(tiny, tmp_path):
    """A tensor that this architecture has no use for is used, refused or warned about."""
    file = File(tiny)
    file.tensors.append(["blk.0.attn_mystery.weight", [32], bytes(128)])
    path = file.write(tmp_path / "mystery.gguf")
    result = growpage("run", "-m", path, "-p", "x", "-n", "1")
    assert result.returncode in (0, 1) and "blk.0.attn_mystery.weight" in result.err


def test_a_vocabulary_larger_than_the_embedding_is_refused(tiny, tmp_path):
    file = File(tiny)
    for name in ("token_embd.weight", "output.weight"):
        rows = file.find(name)
        rows[1] = [rows[1][0], rows[1][1] - 100]
        rows[2] = rows[2][:4 * rows[1][0] * rows[1][1]]
    path = file.write(tmp_path / "small.gguf")
    refused_cheaply("run", "-m", path, "-p", "x", words=["tokens"])


def test_bytes_flipped_anywhere_never_kill_it(tiny, tmp_path):
    """200 seeded damages of a valid file: answered or refused, never a signal."""
    import random
    seed = int(os.environ.get("GP_SEED", "1"))
    rng = random.Random(seed)
    data = open(tiny, "rb").read()
    path = tmp_path / "flipped.gguf"
    for round in range(200):
        damaged = bytearray(data)
        for _ in range(rng.randint(1, 8)):
            damaged[rng.randrange(min(len(data), 20000))] = rng.randrange(256)
        path.write_bytes(damaged)
        result = growpage("run", "-m", path, "-p", "x", "-n", "2", timeout=20)
        assert result.returncode in (0, 1, 2), (seed, round, result.returncode, result.stderr)
        if result.returncode:
            told = [x for x in result.err.splitlines() if ": warning: " not in x]
            assert len(told) == 1, (seed, round, told)


def test_inspect_describes_what_is_there(smollm):
    text = growpage("inspect", smollm).out
    for word in ("llama", "8192", "Q4_1", "gpt2", "smollm", "576", "MiB"):
        assert word in text
    one = growpage("inspect", "-m", smollm, "--json").json
    many = growpage("inspect", smollm, "--json", "-np", "16", "-c", "1000").json
    assert one["architecture"] == "llama" and one["layers"] == 30 and one["context"] == 8192
    assert one["memory"]["kv_token"] == 30 * 3 * (64 + 64) * 2
    assert many["memory"]["requests"] == 16 and many["memory"]["tokens"] == 1000
    assert many["memory"]["kv"] == 16 * 1000 * one["memory"]["kv_token"]
