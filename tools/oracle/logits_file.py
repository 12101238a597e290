"""The files of expected logits under tests/oracle/llama, and llama.cpp's raw dumps they come from.

A file holds, for some prompts, what llama.cpp expects after each token: its best logits, the
log-sum-exp of all of them, and the log of the probability that lies outside the best.  Layout, all
little-endian (tests/oracle/oracle_file.h reads it):

    char magic[8] = "GPLOGITS"; u32 version = 1, vocab, prompts, top
    for each prompt: u32 tokens; i32 ids[tokens]
        for each token: f32 lse, log_rest; u32 id[top]; f32 logit[top]     best first, ties to lower id
"""

import struct
import subprocess

import numpy as np

MAGIC = b"GPLOGITS"
VERSION = 1


def llama_logits(program, model, count, paths, options=()):
    """(ids, logits[count, vocab] float32) of each file, from llama_logits.c with its options."""
    command = [str(program), *options, str(model), str(count)] + [str(path) for path in paths]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        read = process.stdout.read
        (vocab,) = struct.unpack("<I", read(4))
        for _ in paths:
            (n,) = struct.unpack("<I", read(4))
            ids = np.frombuffer(read(4 * n), dtype="<i4")
            logits = np.frombuffer(read(4 * n * vocab), dtype="<f4").reshape(n, vocab)
            yield ids, logits
        if process.wait() != 0:
            raise RuntimeError(f"{program}: exit status {process.returncode}")


def log_sum_exp(rows):
    """Of each row, in float64."""
    rows = rows.astype(np.float64)
    best = rows.max(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        return (best + np.log(np.exp(rows - best).sum(axis=-1, keepdims=True)))[..., 0]


def best_first(logits, top):
    """Ids of each row's `top` best logits, best first, ties to the lower id."""
    return np.argsort(-logits, axis=-1, kind="stable")[:, :top].astype("<u4")


def write(path, prompts, top):
    """prompts: list of (ids, logits)."""
    vocab = prompts[0][1].shape[1]
    top = min(top, vocab)
    with open(path, "wb") as out:
        out.write(MAGIC + struct.pack("<IIII", VERSION, vocab, len(prompts), top))
        for ids, logits in prompts:
            out.write(struct.pack("<I", len(ids)) + ids.astype("<i4").tobytes())
            order = best_first(logits, top)
            lse = log_sum_exp(logits)
            rest = logits.astype(np.float64).copy()
            np.put_along_axis(rest, order.astype(np.int64), -np.inf, axis=-1)
            for i in range(len(ids)):
                tail = rest[i][np.isfinite(rest[i])]
                log_rest = log_sum_exp(tail[None])[0] - lse[i] if tail.size else -np.inf
                out.write(struct.pack("<ff", lse[i], log_rest))
                out.write(order[i].tobytes() + logits[i][order[i]].astype("<f4").tobytes())


def read(path):
    """(vocab, top, prompts), a prompt being (ids, lse, log_rest, id[n, top], logit[n, top])."""
    data = open(path, "rb").read()
    if data[:8] != MAGIC:
        raise ValueError(f"{path}: not a file of expected logits")
    version, vocab, count, top = struct.unpack_from("<IIII", data, 8)
    if version != VERSION:
        raise ValueError(f"{path}: version {version}")
    row = np.dtype([("lse", "<f4"), ("log_rest", "<f4"), ("id", "<u4", top), ("logit", "<f4", top)])
    at = 24
    prompts = []
    for _ in range(count):
        (n,) = struct.unpack_from("<I", data, at)
        ids = np.frombuffer(data, "<i4", n, at + 4)
        rows = np.frombuffer(data, row, n, at + 4 + 4 * n)
        at += 4 + 4 * n + n * row.itemsize
        prompts.append((ids, rows["lse"], rows["log_rest"], rows["id"], rows["logit"]))
    if at != len(data):
        raise ValueError(f"{path}: {len(data) - at} bytes too many")
    return vocab, top, prompts
