#!/usr/bin/env python3
"""Write the trained weights as a GGUF file that growpage and llama.cpp read.

    tools/train/export.py models/growpage-reasoner.f16.npz -o models/growpage-reasoner.gguf

Needs gguf and numpy, no torch.
"""
import argparse
import os
import pathlib

import gguf
import numpy as np
from layout import CHAT_TEMPLATE, END_OF_TEXT, SPECIALS, THINK, THINK_END, TURN_END, VOCAB, Shape

NAME = "growpage-reasoner"
VERSION = "1"
TYPES = {
    "f32": (gguf.GGMLQuantizationType.F32, gguf.LlamaFileType.ALL_F32),
    "f16": (gguf.GGMLQuantizationType.F16, gguf.LlamaFileType.MOSTLY_F16),
    "q8_0": (gguf.GGMLQuantizationType.Q8_0, gguf.LlamaFileType.MOSTLY_Q8_0),
}

# gguf-py can neither write nor pass on an empty array of merges, and llama.cpp wants the key to be
# there.  So there is one merge, which no text reaches: gpt-2's words never have a space behind a
# letter.
UNREACHABLE = len(SPECIALS) + 256
UNREACHABLE_MERGE = ("a", " ")


def byte_spellings() -> list[str]:
    """GPT-2's alphabet: bytes that Latin-1 prints are themselves, the others follow from U+0100."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def vocabulary() -> tuple[list[str], list[int], list[str]]:
    """Spellings, types, merges."""
    kind = gguf.TokenType
    spelling = byte_spellings()
    merge = [spelling[ord(part)] for part in UNREACHABLE_MERGE]
    tokens = [*spelling, *(text.decode() for text in SPECIALS.values()), "".join(merge)]
    types = [kind.NORMAL] * 256 + [kind.CONTROL] * len(SPECIALS) + [kind.NORMAL]
    # As in Qwen3's files: part of what the model says, not of the chat's structure.
    types[THINK] = types[THINK_END] = kind.USER_DEFINED
    padding = VOCAB - len(tokens)
    return (tokens + [f"<|pad_{i}|>" for i in range(padding)],
            [int(t) for t in types + [kind.UNUSED] * padding], [" ".join(merge)])


def add_description(writer: gguf.GGUFWriter, file_type: gguf.LlamaFileType):
    writer.add_type(gguf.GGUFType.MODEL)
    writer.add_name(NAME)
    writer.add_basename(NAME)
    writer.add_version(VERSION)
    writer.add_size_label("2.8M")
    writer.add_license("Apache-2.0")
    writer.add_description("Solves the problems of growpage eval, step by step.")
    writer.add_file_type(file_type)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)


def add_shape(writer: gguf.GGUFWriter, shape: Shape):
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.embed)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.ffn)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_rope_dimension_count(shape.head_dim)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_layer_norm_rms_eps(shape.rms_eps)
    writer.add_vocab_size(shape.vocab)


def add_tokenizer(writer: gguf.GGUFWriter):
    tokens, types, merges = vocabulary()
    writer.add_tokenizer_model("gpt2")
    # Not qwen2, which normalizes first: any byte must come through as it is.
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_eos_token_id(TURN_END)
    writer.add_pad_token_id(END_OF_TEXT)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def add_tensors(writer: gguf.GGUFWriter, weights: dict[str, np.ndarray], shape: Shape,
                kind: gguf.GGMLQuantizationType):
    """Matrices in the type asked for, norms as floats."""
    for name, dims in (shape.matrices() | shape.norms()).items():
        tensor = weights[name].astype(np.float32)
        if tensor.shape != dims:
            raise ValueError(f"{name}: {tensor.shape} instead of {dims}")
        stored = kind if tensor.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quants.quantize(tensor, stored), raw_dtype=stored)


def export(weights: dict[str, np.ndarray], path: pathlib.Path, type_name: str,
           shape: Shape = Shape()):
    """Atomically: an interrupted export leaves the old file."""
    kind, file_type = TYPES[type_name]
    beside = path.with_name(path.name + ".new")
    writer = gguf.GGUFWriter(beside, "qwen3")
    add_description(writer, file_type)
    add_shape(writer, shape)
    add_tokenizer(writer)
    add_tensors(writer, weights, shape, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(beside, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", type=pathlib.Path, help="what training left (.npz)")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    parser.add_argument("--type", choices=TYPES, default="q8_0", help="of the matrices")
    options = parser.parse_args()
    with np.load(options.weights) as arrays:
        export(dict(arrays), options.output, options.type)


if __name__ == "__main__":
    main()
