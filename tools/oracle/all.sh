#!/bin/sh
# make oracles: build llama.cpp, then write every expected value under tests/oracle.
#
# usage: tools/oracle/all.sh [--out FOLDER] [STEP...]     the steps below, in their order, by default all
#
# --out writes into a copy of tests/oracle (tools/oracle/check_repeat.py compares two of them).
# GP_BUILD names the build whose test programs write the random models (build/gcc-release), MODEL
# SmolLM2's Q4_1 file, JOBS the compiler's processes.  An hour on two cores, half of it llama.cpp's
# build, most of the rest perplexities; what build/oracle has already is not made again.
set -eu
cd "$(dirname "$0")/../.."

out=tests/oracle
if [ "${1:-}" = --out ]; then
    out=$2
    shift 2
fi
[ $# -gt 0 ] || set -- build quantize logits reasoner tokens templates reference checks perplexity

model=${MODEL:-models/smollm2-135m-instruct-q4_1.gguf}
tests=${GP_BUILD:-build/gcc-release}/tests
built=build/oracle
py="$built/venv/bin/python -B"
llama_logits=$built/bin/llama_logits
llama_tokens=$built/bin/llama_tokens

step_build() {
    tools/oracle/build.sh "${JOBS:-2}"
}

step_quantize() {
    tools/oracle/quantize.sh "$model" $built/llama/bin $built/quant
}

expect_logits() { # MODEL NAME OPTION...
    path=$1
    name=$2
    shift 2
    $py tools/oracle/logits.py $llama_logits "$path" tests/oracle/prompts \
        "$out/llama/$name.logits" "$@"
}

step_logits() {
    mkdir -p $built/random "$out/llama"
    "$tests/model/test_oracle_logits" --write-randoms $built/random
    expect_logits "$model" smollm2-q4_1
    expect_logits $built/quant/smollm2-f32.gguf smollm2-f32
    for path in $built/random/*.gguf; do
        expect_logits "$path" "$(basename "$path" .gguf)" --prompts 2
    done
}

# The bundled model: its problems, greedy answers, and logits over problems with their thoughts.
step_reasoner() {
    reasoner=models/growpage-reasoner.gguf
    mkdir -p "$out/reasoner" "$out/llama" $built/quant
    $py tools/oracle/reasoner.py $built/bin/llama_greedy "${GP_BUILD:-build/gcc-release}/growpage" \
        $reasoner "$out/reasoner"
    $built/llama/bin/llama-quantize --allow-requantize --pure $reasoner \
        $built/quant/reasoner-f32.gguf F32 1 >$built/quant/reasoner.log 2>&1
    for type in q8_0 f32; do
        path=$reasoner
        [ $type = q8_0 ] || path=$built/quant/reasoner-$type.gguf
        $py tools/oracle/logits.py $llama_logits $path "$out/reasoner/texts" \
            "$out/llama/reasoner-$type.logits" --count 192 --top 8
    done
}

reduce() { # VOCABULARY OPTION...
    name=$1
    shift
    $py tools/oracle/reduce_vocab.py $llama_tokens $built/vocab/ggml-vocab-$name.gguf \
        tests/oracle/vocab/cases.jsonl "$out/vocab/$name.txt" "$@"
}

step_tokens() {
    $py tools/oracle/smollm2_tokens.py $llama_tokens "$model" "$out/smollm2-tokens.txt"
    reduce llama-spm
    reduce llama-bpe --token '128008=3=<|eom_id|>'
    reduce qwen2 --nfc --token '151657=4=<tool_call>' --token '151658=4=</tool_call>' \
        --token '151667=4=<think>' --token '151668=4=</think>'
}

step_templates() {
    $py tools/oracle/templates.py "$out/templates"
}

# float64 logits of tiny models in numpy.
step_reference() {
    mkdir -p $built/reference
    GP_REFERENCE_MODELS=$built/reference "$tests/model/test_forward_reference" >/dev/null
    $py tools/oracle/forward_reference.py $built/reference "$out/logits"
}

# The reference of the method, held against faulty dumps and against the exact kernels.
step_checks() {
    $py tests/oracle/check_reference.py
    $py tests/oracle/check_exact.py
}

step_perplexity() {
    $py tools/oracle/perplexity.py $built/llama/bin "$model" $built/quant \
        tests/oracle/text/alice.txt "$out/llama/perplexity.txt"
}

for step in "$@"; do
    echo "oracles: $step"
    "step_$step"
done
