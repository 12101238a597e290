#!/bin/sh
# Build llama.cpp from PyPI's source archive of llama-cpp-python, for the generators of expected values.
#
# usage: tools/oracle/build.sh [JOBS]        needs cmake, ninja, g++, python3-venv
#
# Leaves in build/oracle: venv/ (requirements.txt), src/ (the archive), llama/ (cmake's tree),
# bin/llama_logits, bin/llama_tokens, vocab/ and templates/ (the archive's vocabulary files and chat
# templates).  Every step that is done is skipped, so running it again costs nothing.
#
# The build is the same on every machine: no -march=native, AVX2 level, no OpenMP; the generators then
# ask for one thread, an f16 cache and no flash attention.
set -eu
cd "$(dirname "$0")/../.."

version=0.3.36
sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
jobs=${1:-2}
out=build/oracle
archive=llama_cpp_python-$version.tar.gz

for tool in cmake ninja g++ python3; do
    command -v $tool >/dev/null || {
        echo "build.sh: $tool: not found; apt-get install cmake ninja-build g++ python3-venv" >&2
        exit 1
    }
done
mkdir -p $out/download $out/bin

if ! cmp -s tools/oracle/requirements.txt $out/venv/requirements.txt; then
    python3 -m venv $out/venv
    $out/venv/bin/pip install -q --disable-pip-version-check -r tools/oracle/requirements.txt
    cp tools/oracle/requirements.txt $out/venv/requirements.txt
fi

# pip asks the archive for its metadata, which is why scikit-build-core had to be there first.
if ! echo "$sha256  $out/download/$archive" | sha256sum -c --status 2>/dev/null; then
    $out/venv/bin/pip download -q --disable-pip-version-check --no-deps --no-build-isolation \
        --no-binary llama-cpp-python -d $out/download llama-cpp-python==$version
    echo "$sha256  $out/download/$archive" | sha256sum -c --quiet
fi

src=$out/src/llama_cpp_python-$version/vendor/llama.cpp
if [ ! -e $out/src/unpacked ]; then
    mkdir -p $out/src
    tar xzf $out/download/$archive -C $out/src
    touch $out/src/unpacked
fi

mkdir -p $out/vocab $out/templates
for f in $src/models/ggml-vocab-*.gguf $src/models/ggml-vocab-*.inp $src/models/ggml-vocab-*.out; do
    [ -e $out/vocab/"$(basename "$f")" ] || cp "$f" $out/vocab/
done
for f in $src/models/templates/*.jinja; do
    [ -e $out/templates/"$(basename "$f")" ] || cp "$f" $out/templates/
done

cmake -S $src -B $out/llama -G Ninja --log-level=WARNING -DCMAKE_BUILD_TYPE=Release \
    -DGGML_NATIVE=OFF -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON \
    -DGGML_OPENMP=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
    -DLLAMA_BUILD_UI=OFF -DLLAMA_BUILD_MTMD=OFF >/dev/null
ninja --quiet -C $out/llama -j "$jobs" llama llama-perplexity llama-quantize llama-tokenize llama-bench

for program in llama_logits llama_tokens llama_greedy; do
    [ -e $out/bin/$program ] && [ $out/bin/$program -nt tools/oracle/$program.c ] && continue
    gcc -std=gnu11 -O2 -Wall -Wextra -I$src/include -I$src/ggml/include tools/oracle/$program.c \
        -L$out/llama/bin -lllama -lggml -lggml-base -Wl,-rpath,"$PWD/$out/llama/bin" \
        -o $out/bin/$program
done
