/* SmolLM2's vocabulary against llama.cpp: 10,000 random strings,
 * made as tools/oracle/smollm2_tokens.py makes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "model/gguf.h"
#include "model/vocab.h"
#include "text/random_text.h"
#include "text/tokenizer.h"

#define MODEL    "models/smollm2-135m-instruct-q4_1.gguf"
#define EXPECTED "tests/oracle/smollm2-tokens.txt"

static struct gp_tokenizer *tokenizer;

static int open_model(void **state)
{
    struct gp_gguf *gguf;
    struct gp_error err;

    (void)state;
    if (gp_gguf_open(&gguf, MODEL, &err) != GP_OK) {
        print_message("%s\n", err.message);
        return -1;
    }
    int rc = gp_vocab_open(&tokenizer, gguf, false, &err);

    if (rc != GP_OK)
        print_message("%s\n", err.message);
    gp_gguf_close(gguf);
    return rc;
}

static int close_model(void **state)
{
    (void)state;
    gp_tokenizer_close(tokenizer);
    return gp_mem_live() == 0 ? 0 : -1;
}

static void random_strings_have_llama_cpps_ids(void **state)
{
    FILE *file = fopen(EXPECTED, "r");
    char text[TEST_RANDOM_TEXT_BYTES];
    unsigned long long want_texts;
    unsigned strings, wrong = 0;
    uint64_t texts = TEST_FNV1A_START;

    (void)state;
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%u %llx", &strings, &want_texts), 2);
    assert_int_equal(strings, 10000);
    for (unsigned i = 0; i < strings; i++) {
        struct gp_span span = {text, test_random_text(i, text), i % 4 == 0};
        uint32_t want_count, want_hash, count;
        int32_t *ids;

        texts = test_fnv1a(texts, text, span.length);
        assert_int_equal(fscanf(file, "%u %x", &want_count, &want_hash), 2);
        assert_int_equal(gp_tokenize(tokenizer, &span, 1, false, &ids, &count, NULL), GP_OK);
        if (count != want_count ||
            (uint32_t)test_fnv1a(TEST_FNV1A_START, ids, count * sizeof *ids) != want_hash) {
            print_message("string %u: %u ids, want %u: '%.*s'\n", i, count, want_count,
                          (int)span.length, text);
            wrong++;
        }
        gp_mem_free(ids);
    }
    fclose(file);
    assert_true(texts == want_texts);
    assert_int_equal(wrong, 0);
}

/* Some control characters, and F1 and F2, have no token here. */
static bool has_tokens(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (gp_tokenizer_find(tokenizer, text + i, 1) == GP_TOKEN_NONE)
            return false;
    return true;
}

static void random_strings_come_back(void **state)
{
    char text[TEST_RANDOM_TEXT_BYTES];
    unsigned compared = 0;

    (void)state;
    for (unsigned i = 0; i < 2000; i++) {
        struct gp_span span = {text, test_random_text(i, text), i % 2 == 0};
        size_t length;
        uint32_t count;
        int32_t *ids;
        char *back;

        if (!has_tokens(text, span.length))
            continue;
        compared++;
        assert_int_equal(gp_tokenize(tokenizer, &span, 1, false, &ids, &count, NULL), GP_OK);
        assert_int_equal(gp_detokenize(tokenizer, ids, count, true, &back, &length, NULL), GP_OK);
        assert_int_equal(length, span.length);
        assert_memory_equal(back, text, length);
        gp_mem_free(ids);
        gp_mem_free(back);
    }
    assert_true(compared > 1000);
}

static void ends_are_the_turn_and_the_text(void **state)
{
    uint32_t count;
    const int32_t *ends = gp_tokenizer_ends(tokenizer, &count);

    (void)state;
    assert_string_equal(gp_tokenizer_kind(tokenizer), "gpt2/smollm");
    assert_int_equal(count, 2);
    assert_int_equal(ends[0], gp_tokenizer_find(tokenizer, "<|endoftext|>", 13));
    assert_int_equal(ends[1], gp_tokenizer_find(tokenizer, "<|im_end|>", 10));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_strings_have_llama_cpps_ids),
        cmocka_unit_test(random_strings_come_back),
        cmocka_unit_test(ends_are_the_turn_and_the_text),
    };

    return cmocka_run_group_tests(tests, open_model, close_model);
}
