#!/usr/bin/env python3
"""Writes vectors.txt: random blocks of every supported format and what the gguf package
(gguf 0.19.0, numpy 2.4.6) makes of them.  One line a value: type, block bytes, float32 bits, in hex.

    python3 tests/kernels/vectors.py > tests/kernels/vectors.txt
"""
import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize

# Where the half-precision scales of a block lie.
HALVES = {
    T.Q8_0: [0], T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.IQ4_NL: [0],
    T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208],
}

rng = np.random.default_rng(20260101)
for kind, halves in HALVES.items():
    elems, size = GGML_QUANT_SIZES[kind]
    for index in range(3 if elems == 256 else 6):
        block = rng.integers(0, 256, size, dtype=np.uint8)
        for at in halves:
            value = np.float16(rng.standard_normal() * (1e-6 if index == 1 else 0.02))
            block[at:at + 2] = np.frombuffer(value.tobytes(), dtype=np.uint8)
        out = dequantize(block, kind).astype(np.float32)
        print(kind.value, block.tobytes().hex(), out.view(np.uint32).astype(">u4").tobytes().hex())
for kind, count in ((T.F16, 64), (T.BF16, 64)):
    bits = rng.integers(0, 65536, count, dtype=np.uint16)
    bits[:6] = [0, 0x8000, 1, 0x8001, 0x7F7F, 0x3FF]
    bits = bits[(bits & 0x7C00) != 0x7C00] if kind == T.F16 else bits[(bits & 0x7F80) != 0x7F80]
    wide = (bits.view(np.float16).astype(np.float32).view(np.uint32) if kind == T.F16
            else bits.astype(np.uint32) << 16)
    print(kind.value, bits.tobytes().hex(), wide.astype(">u4").tobytes().hex())
