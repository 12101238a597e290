/* Fuzzes the GGUF reader: whatever the bytes are, nothing outside them is touched or handed out.
 *
 * With libFuzzer:
 *   clang -std=gnu11 -g -O1 -D_GNU_SOURCE -DGP_DEBUG -Iinclude -Isrc -Itests -pthread \
 *       -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all tests/fuzz/fuzz_gguf.c \
 *       tests/model/gguf_bytes.c src/model/gguf.c src/model/gguf_read.c src/kernels/formats.c \
 *       src/base/assert.c src/base/error.c src/base/mem.c -o build/fuzz_gguf
 *   build/fuzz_gguf -max_len=4096 -max_total_time=600 NEW_FOLDER tests/fuzz/corpus/gguf
 *
 * The committed files alone, with any compiler: the same without "fuzzer", plus
 * tests/fuzz/standalone.c, and then
 *   build/fuzz_gguf tests/fuzz/corpus/gguf tests/fuzz/regression/gguf */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "fuzz/fuzz.h"
#include "model/gguf_bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct gp_gguf *gguf = NULL;
    struct gp_error err = {""};
    uint64_t live = gp_mem_live();
    void *copy = test_exact_copy(bytes, length);
    int rc = gp_gguf_open_bytes(&gguf, copy, length, &err);
    const char *wrong = NULL;

    if (rc == GP_OK)
        wrong = test_gguf_walk(gguf, copy, length);
    else if (err.message[0] == '\0' || gguf)
        wrong = "a refusal without words, or with a file";
    gp_gguf_close(gguf);
    free(copy);
    if (!wrong && gp_mem_live() != live)
        wrong = "memory is left";
    if (wrong) {
        fprintf(stderr, "fuzz_gguf: %s\n", wrong);
        abort();
    }
    return 0;
}
