#!/usr/bin/env python3
"""Hold growpage's logits of SmolLM2 against llama.cpp's full distributions, live.

usage: compare.py [TEST]         the built tests/model/test_oracle_logits; from the repository's root,
                                 where make oracles has run

TEST writes all of our logits (GP_ORACLE_DUMP): of the Q4_1 file and of its float twin.  For each this
prints the full KL(llama.cpp || growpage) a prompt, and beside it what the committed file's best entries
and one bucket for the rest give, which is what make test can compute.  Exits 1 when a full KL is over
its bar, or when a committed file is not what llama.cpp says now.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import logits_file

PROGRAM = "build/oracle/bin/llama_logits"
PROMPTS = pathlib.Path("tests/oracle/prompts")
EXPECTED = pathlib.Path("tests/oracle/llama")

# Dump's suffix, llama.cpp's file, committed file, bar (test_oracle_logits.c says why they differ).
PAIRS = [
    (".f32", "build/oracle/quant/smollm2-f32.gguf", "smollm2-f32.logits", 1e-4),
    ("", "models/smollm2-135m-instruct-q4_1.gguf", "smollm2-q4_1.logits", 1e-2),
]


def log_softmax(logits):
    return logits.astype(np.float64) - logits_file.log_sum_exp(logits)[:, None]


def full_kl(log_p, log_q):
    return (np.exp(log_p) * (log_p - log_q)).sum(axis=-1)


def bucketed_kl(log_p, log_q, order):
    """KL of the tokens in `order` and one bucket for all others."""
    p, q = np.exp(log_p), np.exp(log_q)
    top_p, top_q = (np.take_along_axis(x, order, axis=-1) for x in (p, q))
    np.put_along_axis(p, order, 0.0, axis=-1)
    np.put_along_axis(q, order, 0.0, axis=-1)
    rest_p, rest_q = p.sum(axis=-1), q.sum(axis=-1)
    return (top_p * np.log(top_p / top_q)).sum(axis=-1) + rest_p * np.log(rest_p / rest_q)


def is_committed(ids, logits, committed):
    ids_then, lse, _, best, _ = committed
    return (
        np.array_equal(ids, ids_then)
        and np.array_equal(logits_file.best_first(logits, best.shape[1]), best)
        and np.array_equal(logits_file.log_sum_exp(logits).astype("<f4"), lse)
    )


def compare(dump, model, expected, bar):
    """Print a table; True when all is well."""
    vocab, top, committed = logits_file.read(expected)
    ours = np.fromfile(dump, dtype="<f4").reshape(-1, vocab)
    paths = sorted(PROMPTS.glob("*.txt"))
    live = logits_file.llama_logits(PROGRAM, model, len(committed[0][0]), paths)
    full, part, stale, at = [], [], [], 0
    print(f"{model}\n{'':<16} {'full KL':>10} {f'top {top}':>10} {'largest':>10}  same best")
    for path, (ids, theirs), then in zip(paths, live, committed):
        rows = ours[at : at + len(ids)]
        at += len(ids)
        log_p, log_q = log_softmax(theirs), log_softmax(rows)
        order = logits_file.best_first(theirs, top).astype(np.int64)
        full.append(full_kl(log_p, log_q))
        part.append(bucketed_kl(log_p, log_q, order))
        same = (theirs.argmax(axis=-1) == rows.argmax(axis=-1)).sum()
        if not is_committed(ids, theirs, then):
            stale.append(path.name)
        print(
            f"{path.stem:<16} {full[-1].mean():10.2e} {part[-1].mean():10.2e} "
            f"{full[-1].max():10.2e}  {same}/{len(ids)}"
        )
    full, part = np.concatenate(full), np.concatenate(part)
    print(
        f"mean of {len(full)} rows: full KL {full.mean():.3e}, of top {top} and the rest "
        f"{part.mean():.3e} ({part.mean() / full.mean():.0%} of it); bar {bar:g}"
    )
    if stale:
        print(f"{expected}: not what llama.cpp says now: {' '.join(stale)}")
    return not stale and at == len(ours) and full.mean() <= bar


def main():
    test = sys.argv[1] if len(sys.argv) > 1 else "build/gcc-release/tests/model/test_oracle_logits"
    with tempfile.TemporaryDirectory() as folder:
        dump = str(pathlib.Path(folder) / "logits")
        environment = dict(os.environ, GP_ORACLE_DUMP=dump)
        subprocess.run([test], env=environment, check=False, stdout=subprocess.DEVNULL)
        results = [compare(dump + s, m, EXPECTED / e, bar) for s, m, e, bar in PAIRS]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
