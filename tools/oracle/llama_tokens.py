"""llama.cpp's ids of texts, through build/oracle/bin/llama_tokens (llama_tokens.c)."""

import struct
import subprocess


def llama_tokens(program, vocab, texts):
    """texts: (bytes, parse_special) pairs; a list of ids for each."""
    request = b"".join(struct.pack("=II", special, len(text)) + text for text, special in texts)
    command = [str(program), str(vocab)]
    answer = subprocess.run(command, input=request, stdout=subprocess.PIPE, check=True).stdout
    found, at = [], 0
    for _ in texts:
        (n,) = struct.unpack_from("=I", answer, at)
        found.append(list(struct.unpack_from(f"={n}i", answer, at + 4)))
        at += 4 + 4 * n
    return found
