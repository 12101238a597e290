/* Fuzzes the GGUF reader: whatever the bytes are, nothing outside them is touched or handed out.
 *
 * With libFuzzer:
 *   make CC=clang CONFIG=fuzz fuzzers
 *   build/clang-fuzz/tests/fuzz/fuzz_gguf -max_total_time=600 \
 *       -max_len=4096 NEW_FOLDER tests/fuzz/corpus/gguf
 *
 * The committed files alone: make run-fuzz-regressions. */
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
