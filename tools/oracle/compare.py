#!/usr/bin/env python3
"""Hold growpage's logits of SmolLM2 against llama.cpp's full distributions, live.

usage: compare.py TEST PROGRAM MODEL PROMPTS_FOLDER [EXPECTED]

TEST is the built tests/model/test_oracle_logits, run with GP_ORACLE_DUMP so that it writes all of our
logits; PROGRAM is build/oracle/bin/llama_logits.  Prints, beside the full KL(llama.cpp || growpage),
what the committed file's best entries and one bucket for the rest give: make test can compute only
the latter, and this shows what it misses.  Exits 1 when the full KL is over the bar, or when the
committed file is not what llama.cpp says now.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import logits_file

KL_MEAN_MAX = 1e-3


def log_softmax(logits):
    return logits.astype(np.float64) - logits_file.log_sum_exp(logits)[:, None]


def bucketed(log_p, log_q, order):
    """KL of the tokens in `order` and one bucket for all others."""
    p, q = np.exp(log_p), np.exp(log_q)
    top_p, top_q = (np.take_along_axis(x, order, axis=-1) for x in (p, q))
    np.put_along_axis(p, order, 0.0, axis=-1)
    np.put_along_axis(q, order, 0.0, axis=-1)
    rest_p, rest_q = p.sum(axis=-1), q.sum(axis=-1)
    return (top_p * np.log(top_p / top_q)).sum(axis=-1) + rest_p * np.log(rest_p / rest_q)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("test")
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument(
        "expected", nargs="?", default="tests/oracle/llama/smollm2-q4_1.logits"
    )
    args = parser.parse_args()

    vocab, top, committed = logits_file.read(args.expected)
    with tempfile.TemporaryDirectory() as folder:
        dump = pathlib.Path(folder) / "logits"
        environment = dict(os.environ, GP_ORACLE_DUMP=str(dump))
        subprocess.run([args.test], env=environment, check=False)
        ours = np.fromfile(dump, dtype="<f4").reshape(-1, vocab)

    count = len(committed[0][0])
    paths = sorted(args.folder.glob("*.txt"))
    live = logits_file.llama_logits(args.program, args.model, count, paths)
    full, part, stale, at = [], [], 0, 0
    print(f"{'prompt':<20} {'full KL':>10} {'top ' + str(top):>10} {'largest':>10}  same best")
    for path, (ids, theirs), (ids_then, lse, _, best, _) in zip(paths, live, committed):
        rows = ours[at : at + len(ids)]
        at += len(ids)
        order = logits_file.best_first(theirs, top)
        stale += not np.array_equal(ids, ids_then) or not np.array_equal(order, best)
        stale += not np.array_equal(logits_file.log_sum_exp(theirs).astype("<f4"), lse)
        log_p, log_q = log_softmax(theirs), log_softmax(rows)
        full.append((np.exp(log_p) * (log_p - log_q)).sum(axis=-1))
        part.append(bucketed(log_p, log_q, order.astype(np.int64)))
        same = (theirs.argmax(axis=-1) == rows.argmax(axis=-1)).sum()
        print(
            f"{path.stem:<20} {full[-1].mean():10.3e} {part[-1].mean():10.3e} "
            f"{full[-1].max():10.3e}  {same}/{len(ids)}"
        )
    full, part = np.concatenate(full), np.concatenate(part)
    print(
        f"mean over {len(full)} rows: full {full.mean():.4e}, top {top} and rest {part.mean():.4e}"
        f" ({part.mean() / full.mean():.1%} of it), largest {full.max():.3e}"
    )
    if stale:
        print(f"{args.expected}: {stale} prompts differ from what llama.cpp says now")
    return 1 if stale or at != len(ours) or full.mean() > KL_MEAN_MAX else 0


if __name__ == "__main__":
    sys.exit(main())
