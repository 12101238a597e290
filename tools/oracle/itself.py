#!/usr/bin/env python3
"""Hold llama.cpp against itself on the bundled model: settings that should not matter, row by row.

usage: itself.py [PROGRAM] [--dump FILE] [--model FILE] [--texts FOLDER] [--count N]
                 [--committed FILE]                      from the repository's root

PROGRAM is llama_logits, of tools/oracle/build.sh or linked with a llama.cpp that was built in another
way (-DGGML_NATIVE=ON).  The reference is PROGRAM without options.  The committed file is what the
build of build.sh said on some machine: of it the best tokens and one bucket for the rest are
compared.  --dump is what GP_ORACLE_DUMP made tests/model/test_oracle_logits write of growpage's
logits over the same texts.  A row is decided when its two best tokens are more than 0.1 nat apart in
the reference.
"""

import argparse
import pathlib

import numpy as np

import logits_file

DECIDED = 0.1  # nat
SETTINGS = [
    ("64 rows a batch instead of 192", ["rows=64"]),
    ("one row a batch", ["rows=1"]),
    ("f32 cache", ["cache=f32"]),
    ("flash attention", ["flash"]),
    ("weights not repacked", ["plain"]),
    ("weights not repacked, one row a batch", ["plain", "rows=1"]),
    ("two threads", ["threads=2"]),
]


def rows_of(args, program, options):
    paths = sorted(args.texts.glob("*.txt"))
    found = logits_file.llama_logits(program, args.model, args.count, paths, options)
    return np.concatenate([logits for _, logits in found]).astype(np.float64)


def log_softmax(logits):
    return logits - logits_file.log_sum_exp(logits)[:, None]


def add_rest(log_p):
    """One more column: the log of what is left of each row's probability."""
    rest = np.maximum(1 - np.exp(log_p).sum(axis=-1, keepdims=True), 1e-12)
    return np.concatenate([log_p, np.log(rest)], axis=-1)


def committed_rows(path):
    """(best ids, log-probabilities of these) of all prompts."""
    _, _, prompts = logits_file.read(path)
    ids = np.concatenate([p[3] for p in prompts]).astype(np.int64)
    return ids, np.concatenate([p[4].astype(np.float64) - p[1][:, None] for p in prompts])


def tell(name, kl, same, decided):
    """A line of the table; returns the decided rows whose best token is another."""
    print(
        f"| {name} | {kl.mean():.1e} | {same.sum()} / {len(same)} | "
        f"{(decided & same).sum()} / {decided.sum()} |",
        flush=True,
    )
    return np.flatnonzero(decided & ~same)


def are_decided(log_p):
    best = np.sort(log_p, axis=-1)
    return best[:, -1] - best[:, -2] > DECIDED


def compare(name, log_p, log_q):
    kl = (np.exp(log_p) * (log_p - log_q)).sum(axis=-1)
    return tell(name, kl, log_p.argmax(axis=-1) == log_q.argmax(axis=-1), are_decided(log_p))


def compare_best(name, log_p, ids, log_q):
    """log_q: of the tokens `ids`, best first, alone."""
    part_p, part_q = add_rest(np.take_along_axis(log_p, ids, axis=-1)), add_rest(log_q)
    kl = (np.exp(part_p) * (part_p - part_q)).sum(axis=-1)
    return tell(name, kl, log_p.argmax(axis=-1) == ids[:, 0], are_decided(log_p))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", nargs="?", default="build/oracle/bin/llama_logits")
    parser.add_argument("--dump")
    parser.add_argument("--model", default="models/growpage-reasoner.gguf")
    parser.add_argument("--texts", type=pathlib.Path, default="tests/oracle/reasoner/texts")
    parser.add_argument("--count", type=int, default=192)
    parser.add_argument("--committed", default="tests/oracle/llama/reasoner-q8_0.logits")
    args = parser.parse_args()

    reference = log_softmax(rows_of(args, args.program, []))

    print("| against llama.cpp | mean KL | same best token | ... where decided |")
    print("|---|---|---|---|")
    missed = {}
    for name, options in SETTINGS:
        missed[name] = compare(
            name, reference, log_softmax(rows_of(args, args.program, options))
        )
    ids, log_q = committed_rows(args.committed)
    missed["committed"] = compare_best("the committed file", reference, ids, log_q)
    if args.dump:
        ours = np.fromfile(args.dump, dtype="<f4").reshape(-1, reference.shape[1])
        missed["growpage"] = compare("growpage", reference, log_softmax(ours.astype(np.float64)))
    for name, rows in missed.items():
        print(f"{name}: decided rows that differ: {' '.join(map(str, rows)) or 'none'}")


if __name__ == "__main__":
    main()
