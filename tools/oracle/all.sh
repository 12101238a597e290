#!/bin/sh
# make oracles: build llama.cpp, then write every expected value under tests/oracle.
#
# usage: tools/oracle/all.sh MODEL MAKE_MODEL
#
# MODEL is SmolLM2's Q4_1 file, MAKE_MODEL the built tools/make_model.  Running it twice gives the same
# bytes (tools/oracle/check_repeat.py checks that).  About half an hour on two cores, half of it
# the build.
set -eu
cd "$(dirname "$0")/../.."

model=$1
make_model=$2
built=build/oracle
py=$built/venv/bin/python
expected=tests/oracle/llama

say() { echo "oracles: $*"; }

say "llama.cpp"
tools/oracle/build.sh "${JOBS:-2}"
say "requantised models"
tools/oracle/quantize.sh "$model" $built/llama/bin $built/quant

say "logits"
mkdir -p $built/kquants
tools/oracle/kquant_models.sh "$make_model" $built/kquants
$py tools/oracle/logits.py $built/bin/llama_logits "$model" tests/oracle/prompts \
    $expected/smollm2-q4_1.logits
for type in q4_k q5_k q6_k; do
    $py tools/oracle/logits.py $built/bin/llama_logits $built/kquants/$type.gguf \
        tests/oracle/prompts $expected/$type.logits --prompts 8
done

say "perplexity"
$py tools/oracle/perplexity.py $built/llama/bin "$model" $built/quant tests/oracle/text/alice.txt \
    $expected/perplexity.txt
