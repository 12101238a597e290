#!/usr/bin/env python3
"""Write llama-perplexity's values over the committed text.

usage: perplexity.py LLAMA_BIN MODEL QUANT_FOLDER TEXT OUT

Windows of 512 tokens, one thread, f16 cache, no flash attention: llama-perplexity prints the value
after every window, so one run gives all prefixes.  The file says first how many tokens llama.cpp
makes of the text and their FNV-1a hash (over the ids as little-endian int32).
"""

import argparse
import ast
import pathlib
import re
import subprocess

WINDOW = 512
MODEL_WINDOWS = [4, 8, 16, 32]  # and the whole text
QUANT_WINDOWS = 8
QUANT_TYPES = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl"]


def token_ids(llama_bin, model, text):
    command = [llama_bin / "llama-tokenize", "-m", model, "-f", text]
    command += ["--ids", "--no-parse-special", "--log-disable"]
    return ast.literal_eval(subprocess.run(command, check=True, capture_output=True).stdout.decode())


def fnv1a(ids):
    h = 0xCBF29CE484222325
    for byte in b"".join(i.to_bytes(4, "little") for i in ids):
        h = (h ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return h


def perplexities(llama_bin, model, text, windows):
    """The running value after each window, as llama-perplexity spells it."""
    command = [llama_bin / "llama-perplexity", "-m", model, "-f", text, "-c", str(WINDOW)]
    command += ["-b", str(WINDOW), "-t", "1", "-tb", "1", "-fa", "off"]
    command += ["--chunks", str(windows)]
    output = subprocess.run(command, check=True, capture_output=True).stdout.decode()
    values = re.findall(r"\[(\d+)\]([\d.]+),", output)
    assert [int(i) for i, _ in values] == list(range(1, windows + 1)), output
    return [value for _, value in values]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("llama_bin", type=pathlib.Path)
    parser.add_argument("model")
    parser.add_argument("quant_folder", type=pathlib.Path)
    parser.add_argument("text")
    parser.add_argument("out")
    args = parser.parse_args()

    ids = token_ids(args.llama_bin, args.model, args.text)
    lines = [
        f"# llama-perplexity over {pathlib.Path(args.text).name}; model, windows of {WINDOW}, value",
        f"tokens {len(ids)} {fnv1a(ids):016x}",
    ]
    windows = len(ids) // WINDOW
    values = perplexities(args.llama_bin, args.model, args.text, windows)
    lines += [f"smollm2 {n} {values[n - 1]}" for n in MODEL_WINDOWS + [windows]]
    for kind in QUANT_TYPES:
        model = args.quant_folder / f"smollm2-{kind}.gguf"
        values = perplexities(args.llama_bin, model, args.text, QUANT_WINDOWS)
        lines.append(f"{kind} {QUANT_WINDOWS} {values[-1]}")
    pathlib.Path(args.out).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
