#!/bin/sh
# Make the random models whose K-quant logits are held against llama.cpp: one architecture a type.
#
# usage: tools/oracle/kquant_models.sh MAKE_MODEL OUT
#
# The generator and tests/model/test_oracle_kquants.c both call this, so the two see the same bytes.
set -eu

make_model=$1
out=$2

"$make_model" --arch llama --layers 2 --embd 512 --heads 8 --kv-heads 2 --head-dim 64 --v-dim 64 \
    --ffn 768 --vocab 320 --type q4_k --rope-factors --seed 41 -o "$out/q4_k.gguf"
"$make_model" --arch qwen2 --layers 2 --embd 256 --heads 4 --kv-heads 1 --head-dim 64 --v-dim 64 \
    --ffn 1024 --vocab 320 --type q5_k --bias --tied --seed 51 -o "$out/q5_k.gguf"
"$make_model" --arch qwen3 --layers 3 --embd 256 --heads 8 --kv-heads 4 --head-dim 64 --v-dim 64 \
    --ffn 512 --vocab 320 --type q6_k --seed 61 -o "$out/q6_k.gguf"
