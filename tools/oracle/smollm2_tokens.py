#!/usr/bin/env python3
"""Write llama.cpp's ids of 10,000 random Unicode strings for SmolLM2's vocabulary.

usage: smollm2_tokens.py PROGRAM MODEL OUT

PROGRAM is build/oracle/bin/llama_tokens.  The strings are not in the file: tests/text/random_text.c
makes the same ones, and the first line holds a hash of them all, so that a difference between the
two generators is not taken for one between the tokenizers.  Each further line is one string's count
of ids and the low half of their FNV-1a hash (ids as little-endian int32).
"""

import argparse

from llama_tokens import llama_tokens

COUNT = 10000
MASK = (1 << 64) - 1

# Blocks that have been full, or were left alone, since before Unicode 14: what a code point is must
# not depend on the Unicode version of either side.
RANGES = [
    (0x00A1, 0x00FF), (0x0100, 0x024F), (0x0300, 0x036F), (0x03B1, 0x03C9), (0x0410, 0x044F),
    (0x05D0, 0x05EA), (0x0621, 0x064A), (0x0660, 0x0669), (0x0905, 0x0939), (0x093E, 0x094D),
    (0x0E01, 0x0E3A), (0x1100, 0x1112), (0x2010, 0x2027), (0x2074, 0x2079), (0x20A0, 0x20BF),
    (0x2100, 0x214F), (0x2150, 0x218B), (0x2190, 0x21FF), (0x2200, 0x22FF), (0x2460, 0x24FF),
    (0x2500, 0x257F), (0x3001, 0x303F), (0x3041, 0x3096), (0x30A1, 0x30FA), (0x4E00, 0x9FA5),
    (0xA000, 0xA48C), (0xAC00, 0xD7A3), (0xE000, 0xF8FF), (0xF900, 0xFA6D), (0xFF01, 0xFF5E),
    (0x10330, 0x1034A), (0x1D400, 0x1D454), (0x1D7CE, 0x1D7FF), (0x1F300, 0x1F64F),
    (0x1F1E6, 0x1F1FF), (0x20000, 0x2A6D6), (0x200B, 0x200F), (0xFE00, 0xFE0F), (0x0001, 0x0020),
]
WORDS = [
    " ", "  ", "    ", "\n", "\n\n", "\r\n", "\t", "\u00a0", "\u3000", "\u2003", "\u2028", "\u0085",
    "\u180e", "'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'LL", "\u2019s", "'", "don't",
    " the", " and", "ing", " def ", "();", "{}", " == ", "->", "://", "<|im_start|>", "<|im_end|>",
    "<|endoftext|>", "<|im_", "|>", "123", " 2024", "3.14", "0x1F", "\U0001f600", "e\u0301",
]
PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


class Random:
    """splitmix64, as in src/base/rng.h."""

    def __init__(self, state):
        self.state = state

    def below(self, n):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
        return (z ^ z >> 31) % n


def part(rng):
    kind = rng.below(8)
    if kind <= 1:
        first = "A" if rng.below(4) == 0 else "a"
        return chr(ord(first) + rng.below(26)) + "".join(
            chr(ord("a") + rng.below(26)) for _ in range(rng.below(8))
        )
    if kind == 2:
        return "".join(chr(ord("0") + rng.below(10)) for _ in range(1 + rng.below(6)))
    if kind == 3:
        return "".join(PUNCTUATION[rng.below(len(PUNCTUATION))] for _ in range(1 + rng.below(4)))
    if kind <= 5:
        return WORDS[rng.below(len(WORDS))]
    first, last = RANGES[rng.below(len(RANGES))]
    return "".join(chr(first + rng.below(last - first + 1)) for _ in range(1 + rng.below(4)))


def random_text(index):
    rng = Random(index)
    return "".join(part(rng) for _ in range(rng.below(40))).encode()


def fnv1a(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 & MASK
    return h


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("out")
    args = parser.parse_args()

    texts = [random_text(i) for i in range(COUNT)]
    found = llama_tokens(args.program, args.model, [(t, i % 4 == 0) for i, t in enumerate(texts)])
    lines = [f"{COUNT} {fnv1a(b''.join(texts)):016x}"]
    for ids in found:
        h = fnv1a(b"".join(i.to_bytes(4, "little") for i in ids))
        lines.append(f"{len(ids)} {h & 0xFFFFFFFF:08x}")
    with open(args.out, "w", encoding="ascii") as out:
        out.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
