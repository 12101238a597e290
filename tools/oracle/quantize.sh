#!/bin/sh
# Requantise SmolLM2 to every tensor type its shape allows, by llama-quantize.
#
# usage: tools/oracle/quantize.sh MODEL [LLAMA_BIN] [OUT]     (build/oracle/llama/bin, build/oracle/quant)
#
# The source is the Q4_1 file itself, so a finer type loses nothing.  --pure gives every matrix the
# type, the embedding too, where llama-quantize would mix types.  576 columns are no multiple of 256:
# K-quants are compared on random models (tests/model/test_oracle_logits.c).
set -eu
cd "$(dirname "$0")/../.."

model=$1
bin=${2:-build/oracle/llama/bin}
out=${3:-build/oracle/quant}

mkdir -p "$out"
for type in F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 IQ4_NL; do
    name=$(echo $type | tr A-Z a-z)
    [ -e "$out/smollm2-$name.gguf" ] && continue
    "$bin/llama-quantize" --allow-requantize --pure "$model" "$out/part" $type 2 >"$out/log" 2>&1 || {
        tail -3 "$out/log" >&2
        exit 1
    }
    mv "$out/part" "$out/smollm2-$name.gguf"
done
rm -f "$out/log"
