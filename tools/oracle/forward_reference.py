#!/usr/bin/env python3
"""Logits of small GGUF models in float64, written from the definitions of the architectures.

    GP_REFERENCE_MODELS=/tmp/models build/gcc-release/tests/model/test_forward_reference
    tools/oracle/forward_reference.py /tmp/models tests/oracle/logits

Reads every *.gguf of the first folder (gguf and numpy from PyPI) and writes one text file for each into
the second: "rows vocab", then a row a line, its position first.  The tokens are (37 i + 11) mod vocab.

Llama, Qwen2 and Qwen3 are pre-norm transformers: RMSNorm, attention with grouped queries and rotary
positions, RMSNorm, SwiGLU.  Qwen2 has biases on queries, keys and values, Qwen3 an RMSNorm over each
query and key head.  Llama files hold queries and keys so that neighbours are rotated together; in Qwen
files elements half a head apart are.
"""
import pathlib
import sys

import gguf
import numpy as np

TOKENS = 48
POSITIONS = (0, 1, 15, 16, 47)


class Model:
    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.tensors = {t.name: np.array(t.data, dtype=np.float64).reshape(t.shape[::-1])
                        for t in reader.tensors}
        self.fields = {k: f.contents() for k, f in reader.fields.items()}
        self.arch = self.fields["general.architecture"]

    def key(self, suffix, default=None):
        return self.fields.get(f"{self.arch}.{suffix}", default)

    def block(self, layer, name):
        return self.tensors.get(f"blk.{layer}.{name}")


def rms_norm(x, weight, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def frequencies(m, dims):
    """Radians a position for each pair, and what cos and sin are multiplied by."""
    pair = np.arange(0, dims, 2) / dims
    plain = m.key("rope.freq_base", 10000.0) ** -pair
    if "rope_freqs.weight" in m.tensors:
        plain = plain / m.tensors["rope_freqs.weight"]
    kind = m.key("rope.scaling.type", "none")
    magnitude = m.key("rope.scaling.attn_factor", 1.0)
    factor = m.key("rope.scaling.factor", 1.0)
    if kind == "none":
        return plain, magnitude
    if kind == "linear":
        return plain / factor, magnitude
    assert kind == "yarn"
    context = m.key("rope.scaling.original_context_length")
    base = m.key("rope.freq_base")

    def dimension(rotations):
        return dims * np.log(context / (rotations * 2 * np.pi)) / (2 * np.log(base))

    low = max(np.floor(dimension(32.0)), 0)
    high = min(np.ceil(dimension(1.0)), dims - 1)
    ramp = np.clip((np.arange(dims // 2) - low) / max(high - low, 0.001), 0, 1)
    blended = plain / factor * ramp + plain * (1 - ramp)
    return blended, magnitude * (0.1 * np.log(factor) + 1.0)


def rotate(m, x, dims):
    """x [token, head, element]; the first `dims` elements of every head turn."""
    freq, magnitude = frequencies(m, dims)
    angle = np.arange(x.shape[0])[:, None] * freq[None, :]
    cos = (np.cos(angle) * magnitude)[:, None, :]
    sin = (np.sin(angle) * magnitude)[:, None, :]
    y = x.copy()
    if m.arch == "llama":
        first, second = slice(0, dims, 2), slice(1, dims, 2)
    else:
        first, second = slice(0, dims // 2), slice(dims // 2, dims)
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., first] * sin + x[..., second] * cos
    return y


def project(m, layer, name, x):
    y = x @ m.block(layer, f"{name}.weight").T
    bias = m.block(layer, f"{name}.bias")
    return y if bias is None else y + bias


def attention(m, layer, x, eps):
    n = x.shape[0]
    heads = m.key("attention.head_count")
    kv_heads = m.key("attention.head_count_kv")
    q = project(m, layer, "attn_q", x).reshape(n, heads, -1)
    k = project(m, layer, "attn_k", x).reshape(n, kv_heads, -1)
    v = project(m, layer, "attn_v", x).reshape(n, kv_heads, -1)
    if m.arch == "qwen3":
        q = rms_norm(q, m.block(layer, "attn_q_norm.weight"), eps)
        k = rms_norm(k, m.block(layer, "attn_k_norm.weight"), eps)
    dims = m.key("rope.dimension_count", q.shape[-1])
    q, k = rotate(m, q, dims), rotate(m, k, dims)
    out = np.zeros((n, heads, v.shape[-1]))
    mask = np.tril(np.ones((n, n), dtype=bool))
    for h in range(heads):
        kv = h // (heads // kv_heads)
        scores = np.where(mask, q[:, h] @ k[:, kv].T / np.sqrt(q.shape[-1]), -np.inf)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        out[:, h] = weights / weights.sum(axis=1, keepdims=True) @ v[:, kv]
    return project(m, layer, "attn_output", out.reshape(n, -1))


def feed_forward(m, layer, x):
    gate = project(m, layer, "ffn_gate", x)
    return project(m, layer, "ffn_down",
                   gate / (1 + np.exp(-gate)) * project(m, layer, "ffn_up", x))


def logits(m, tokens):
    embedding = m.tensors["token_embd.weight"]
    eps = m.key("attention.layer_norm_rms_epsilon")
    x = embedding[tokens]
    for layer in range(m.key("block_count")):
        x = x + attention(m, layer, rms_norm(x, m.block(layer, "attn_norm.weight"), eps), eps)
        x = x + feed_forward(m, layer, rms_norm(x, m.block(layer, "ffn_norm.weight"), eps))
    x = rms_norm(x, m.tensors["output_norm.weight"], eps)
    return x @ m.tensors.get("output.weight", embedding).T


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: forward_reference.py MODELS LOGITS")
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.gguf")):
        m = Model(path)
        vocab = m.tensors["token_embd.weight"].shape[0]
        all_rows = logits(m, [(37 * i + 11) % vocab for i in range(TOKENS)])
        lines = [f"{len(POSITIONS)} {all_rows.shape[1]}"]
        lines += [" ".join([str(p)] + [f"{v:.6f}" for v in all_rows[p]]) for p in POSITIONS]
        (pathlib.Path(sys.argv[2]) / f"{path.stem}.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
