#!/usr/bin/env python3
"""Cut a vocabulary down to what some texts need, and write llama.cpp's ids of those texts beside
it.

usage: reduce_vocab.py PROGRAM VOCAB.gguf CASES.jsonl OUT [--nfc] [--token ID=TYPE=SPELLING]...

PROGRAM is build/oracle/bin/llama_tokens.  Kept are: tokens of one byte, byte, control and unknown
tokens, and every token whose bytes occur in one of the texts, special ones among them; and of the
merges those whose result is kept, in their order.  That gives the ids of the whole vocabulary: all
symbols of a merge loop, all words and all special tokens that are ever looked up are stretches of
the text, so each look-up finds what it would find in the whole.

--nfc: the family normalises, which llama.cpp does not, so its texts are normalised here.
--token puts a token of a later member of the family in place of an unused one.

Lines of OUT: "model NAME", "pre NAME", "bos ID" and so on; "t ID TYPE SCORE HEX", a token by its id
in the whole vocabulary and its spelling; "m LEFT RIGHT", a merge of two t lines counted from 0; and
"c SPECIAL HEX ID...", a text, whether special tokens count in it, and its ids.
"""

import argparse
import json
import unicodedata

from gguf import GGUFReader
from llama_tokens import llama_tokens

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
KEYS = {
    "bos": "bos_token_id",
    "eos": "eos_token_id",
    "eot": "eot_token_id",
    "eom": "eom_token_id",
    "unk": "unknown_token_id",
    "pad": "padding_token_id",
    "add_bos": "add_bos_token",
    "add_eos": "add_eos_token",
    "add_space_prefix": "add_space_prefix",
}


def alphabet():
    """The character that spells each byte in a byte-level vocabulary."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in plain]
    return {chr(b): b for b in plain} | {chr(0x100 + i): b for i, b in enumerate(rest)}


class Vocab:
    def __init__(self, path):
        self.fields = GGUFReader(path).fields
        self.model = self.key("model")
        self.spellings = self.key("tokens")
        self.types = self.key("token_type") or [NORMAL] * len(self.spellings)
        self.scores = self.key("scores") or [0.0] * len(self.spellings)
        self.merges = [] if self.model == "llama" else [m.split(" ") for m in self.key("merges")]
        self.alphabet = alphabet()

    def key(self, name):
        field = self.fields.get(f"tokenizer.ggml.{name}")
        return None if field is None else field.contents()

    def decode(self, i):
        spelling = self.spellings[i]
        if self.types[i] != NORMAL:
            return spelling.encode()
        if self.model == "llama":
            return spelling.replace("\u2581", " ").encode()
        if all(c in self.alphabet for c in spelling):
            return bytes(self.alphabet[c] for c in spelling)
        return spelling.encode()


def stretches(texts, longest):
    found = set()
    for text in texts:
        for begin in range(len(text)):
            for end in range(begin + 1, min(len(text), begin + longest) + 1):
                found.add(text[begin:end])
    return found


def kept_tokens(vocab, texts):
    decoded = [vocab.decode(i) for i in range(len(vocab.spellings))]
    longest = max(len(d) for d in decoded)
    # The llama kind puts a space in front of each text.
    found = stretches([b" " + t for t in texts], longest)
    for i, piece in enumerate(decoded):
        if vocab.types[i] in (CONTROL, UNKNOWN, BYTE) or len(piece) == 1 or piece in found:
            yield i


def reduced(vocab, texts, cases):
    kept = list(kept_tokens(vocab, texts))
    line_of = {vocab.spellings[i]: n for n, i in enumerate(kept) if vocab.types[i] == NORMAL}
    yield f"model {vocab.model}"
    if vocab.model == "gpt2":
        yield f"pre {vocab.key('pre')}"
    for name, key in KEYS.items():
        value = vocab.key(key)
        if value is not None:
            yield f"{name} {int(value)}"
    for i in kept:
        spelling = vocab.spellings[i].encode().hex()
        yield f"t {i} {vocab.types[i]} {vocab.scores[i]:.9g} {spelling}"
    for left, right in vocab.merges:
        if left in line_of and right in line_of and left + right in line_of:
            yield f"m {line_of[left]} {line_of[right]}"
    for (text, special), ids in cases:
        yield " ".join(["c", str(int(special)), text.hex() or "-", *map(str, ids)])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("vocab")
    parser.add_argument("cases")
    parser.add_argument("out")
    parser.add_argument("--nfc", action="store_true")
    parser.add_argument("--token", action="append", default=[])
    args = parser.parse_args()

    with open(args.cases, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    cases = [(line["text"], line.get("special", False)) for line in lines]
    plain = [(text.encode(), special) for text, special in cases]
    asked = plain
    if args.nfc:
        asked = [(unicodedata.normalize("NFC", t).encode(), special) for t, special in cases]
    ids = llama_tokens(args.program, args.vocab, asked)

    vocab = Vocab(args.vocab)
    texts = {text for text, _ in plain} | {text for text, _ in asked}
    for token in args.token:
        i, kind, spelling = token.split("=", 2)
        vocab.spellings[int(i)], vocab.types[int(i)] = spelling, int(kind)
        texts.add(spelling.encode())
    with open(args.out, "w", encoding="ascii") as out:
        out.write("# tools/oracle/reduce_vocab.py wrote this.\n")
        for line in reduced(vocab, texts, list(zip(plain, ids))):
            out.write(line + "\n")


if __name__ == "__main__":
    main()
