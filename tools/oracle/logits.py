#!/usr/bin/env python3
"""Write the expected logits of llama.cpp over the committed prompts.

usage: logits.py PROGRAM MODEL PROMPTS_FOLDER OUT [--count N] [--prompts N] [--top N]

PROGRAM is build/oracle/bin/llama_logits (tools/oracle/build.sh).  The first N prompts, cut to COUNT
tokens each, are forced through MODEL; OUT keeps the TOP best logits of each position.
"""

import argparse
import pathlib

import logits_file


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("out")
    parser.add_argument("--count", type=int, default=64)
    parser.add_argument("--prompts", type=int, default=None)
    parser.add_argument("--top", type=int, default=32)
    args = parser.parse_args()

    paths = sorted(args.folder.glob("*.txt"))[: args.prompts]
    if not paths:
        parser.error(f"{args.folder}: no prompts")
    found = logits_file.llama_logits(args.program, args.model, args.count, paths)
    logits_file.write(args.out, list(found), args.top)


if __name__ == "__main__":
    main()
