/* Fuzzes what grades answers: the bytes are two, apart by a newline.  A text is the same as itself,
 * and which of the two comes first does not matter.  For outputs of programs they are apart by the
 * last newline, so that they have lines.
 *
 * With libFuzzer:
 *   make CC=clang CONFIG=fuzz fuzzers
 *   build/clang-fuzz/tests/fuzz/fuzz_answer -max_total_time=600 -dict=tests/fuzz/answer.dict \
 *       -max_len=4096 NEW_FOLDER tests/fuzz/corpus/answer
 *
 * The committed files alone: make run-fuzz-regressions. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/answer.h"
#include "eval/grade.h"
#include "eval/outputs.h"
#include "fuzz/fuzz.h"

static void expect(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "fuzz_answer: %s\n", what);
    abort();
}

/* An exact block, so that a stray read is seen. */
static char *copy(const uint8_t *bytes, size_t length)
{
    char *block = malloc(length > 0 ? length : 1);

    expect(block != NULL, "no memory");
    if (length > 0)
        memcpy(block, bytes, length);
    return block;
}

static void check_part(const char *(*find)(const char *, size_t, size_t *), const char *text,
                       size_t length)
{
    size_t part_length = 0;
    const char *part = find(text, length, &part_length);

    expect(!part || (part >= text && part + part_length <= text + length), "a part from outside");
}

static void check_outputs(const uint8_t *bytes, size_t length)
{
    const uint8_t *newline = length > 0 ? memrchr(bytes, '\n', length) : NULL;
    size_t a_length = newline ? (size_t)(newline - bytes) : length;
    size_t b_length = newline ? length - a_length - 1 : 0;
    char *a = copy(bytes, a_length), *b = copy(newline ? newline + 1 : bytes, b_length);

    expect(gp_output_same(a, a_length, b, b_length) == gp_output_same(b, b_length, a, a_length),
           "the order of outputs matters");
    expect(gp_output_same(a, a_length, a, a_length), "an output is not the same as itself");
    free(a);
    free(b);
}

static void check_values(const char *a, size_t a_length, const char *b, size_t b_length)
{
    json_error_t why;
    json_t *x = gp_value_read(a, a_length, &why), *y = gp_value_read(b, b_length, &why);

    if (x && y)
        expect(gp_value_same(x, y) == gp_value_same(y, x), "the order of values matters");
    expect(!x || gp_value_same(x, x), "a value is not the same as itself");
    json_decref(x);
    json_decref(y);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    const uint8_t *newline = length > 0 ? memchr(bytes, '\n', length) : NULL;
    size_t a_length = newline ? (size_t)(newline - bytes) : length;
    size_t b_length = newline ? length - a_length - 1 : 0;
    char *a = copy(bytes, a_length), *b = copy(newline ? newline + 1 : bytes, b_length);

    check_part(gp_grade_boxed, a, a_length);
    check_part(gp_grade_last_number, a, a_length);
    check_part(gp_grade_program, (const char *)bytes, length);
    check_outputs(bytes, length);
    check_values(a, a_length, b, b_length);
    bool same = gp_answer_same(a, a_length, b, b_length);
    expect(same == gp_answer_same(b, b_length, a, a_length), "the order matters");
    bool itself = gp_answer_same(a, a_length, a, a_length);
    expect(itself || !same, "the same as another, not as itself");
    free(a);
    free(b);
    return 0;
}
