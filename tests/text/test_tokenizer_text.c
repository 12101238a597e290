/* Properties of every vocabulary: text comes back, streams as it would whole, does not depend on
 * how it was cut into spans; and what UTF-8 must look like on the way out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "text/random_text.h"
#include "text/small_vocab.h"
#include "text/tokenizer.h"
#include "text/utf8.h"
#include "text/vocab_file.h"

enum {
    LLAMA3,
    QWEN,
    LLAMA2,
    SMALL_BPE,
    SMALL_SPM,
    KINDS
};

static uint64_t seed = 1;
static struct gp_tokenizer *tokenizers[KINDS];

static struct gp_tokenizer *open_reduced(const char *path)
{
    struct test_vocab v;
    struct gp_tokenizer *t = NULL;

    test_vocab_open(&v, path);
    assert_int_equal(gp_tokenizer_open(&t, &v.vocab, NULL), GP_OK);
    test_vocab_close(&v);
    return t;
}

static int open_all(void **state)
{
    struct test_small_vocab *small = gp_mem_alloc(sizeof *small);

    (void)state;
    tokenizers[LLAMA3] = open_reduced("tests/oracle/vocab/llama-bpe.txt");
    tokenizers[QWEN] = open_reduced("tests/oracle/vocab/qwen2.txt");
    tokenizers[LLAMA2] = open_reduced("tests/oracle/vocab/llama-spm.txt");
    test_small_bpe(small);
    test_small_token(small, "<end>", 5, GP_TOKEN_CONTROL, 0);
    test_small_token(small, "ab", 2, GP_TOKEN_USER_DEFINED, 0);
    test_small_token(small, "abc", 3, GP_TOKEN_USER_DEFINED, 0);
    assert_int_equal(gp_tokenizer_open(&tokenizers[SMALL_BPE], &small->vocab, NULL), GP_OK);
    test_small_spm(small);
    test_small_token(small, "\u2581a", 4, GP_TOKEN_NORMAL, 1);
    test_small_token(small, "\u2581\u2581", 6, GP_TOKEN_NORMAL, 2);
    assert_int_equal(gp_tokenizer_open(&tokenizers[SMALL_SPM], &small->vocab, NULL), GP_OK);
    gp_mem_free(small);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    for (int k = 0; k < KINDS; k++)
        gp_tokenizer_close(tokenizers[k]);
    return gp_mem_live() == 0 ? 0 : -1;
}

/* ---- tools ---- */

struct text {
    char bytes[TEST_RANDOM_TEXT_BYTES];
    size_t length;
};

/* Unicode, bytes, or bits of tokens and of characters. */
static void make_text(struct gp_rng *rng, struct text *t)
{
    static const char *const bits[] = {
        "<s>", "</s>",     "<|im_start|>", "<think>",  "<end>",    "abc",  "ab",     " ",
        "  ",  "\u2581",   "\xf0\x9f",     "\x98\x8a", "\xe2\x96", "\x81", "<0x41>", "\n",
        "x",   "\xc0\x80", "\xed\xa0\x80",
    };
    uint32_t kind = gp_rng_below(rng, 3);

    if (kind == 0) {
        t->length = test_random_text(gp_rng_next(rng), t->bytes);
        return;
    }
    t->length = 0;
    for (uint32_t n = gp_rng_below(rng, 60); n > 0; n--) {
        const char *bit = bits[gp_rng_below(rng, sizeof bits / sizeof *bits)];
        char byte = (char)gp_rng_below(rng, 256);
        size_t length = kind == 1 ? 1 : strlen(bit);

        memcpy(t->bytes + t->length, kind == 1 ? &byte : bit, length);
        t->length += length;
    }
}

struct ids {
    int32_t *ids;
    uint32_t count;
};

static struct ids tokenize(const struct gp_tokenizer *t, const struct gp_span *spans,
                           uint32_t span_count)
{
    struct ids r;

    assert_int_equal(gp_tokenize(t, spans, span_count, false, &r.ids, &r.count, NULL), GP_OK);
    return r;
}

static void assert_bytes(const char *got, size_t got_length, const char *want, size_t want_length,
                         int kind)
{
    if (got_length != want_length || memcmp(got, want, want_length) != 0)
        fail_msg("GP_SEED %llu, vocabulary %d: '%.*s' is not '%.*s'", (unsigned long long)seed,
                 kind, (int)got_length, got, (int)want_length, want);
}

/* ---- there and back ---- */

static void any_text_comes_back(void **state)
{
    struct gp_rng rng = {seed};
    struct text text;

    (void)state;
    for (unsigned round = 0; round < 3000; round++) {
        make_text(&rng, &text);
        for (int k = 0; k < KINDS; k++) {
            struct gp_span span = {text.bytes, text.length, round % 2 == 0};
            struct ids r = tokenize(tokenizers[k], &span, 1);
            size_t length;
            char *back;

            assert_int_equal(
                gp_detokenize(tokenizers[k], r.ids, r.count, true, &back, &length, NULL), GP_OK);
            /* Qwen normalises; what comes back from it must then come back unchanged. */
            if (k == QWEN) {
                struct gp_span again = {back, length, span.trusted};
                struct ids same = tokenize(tokenizers[k], &again, 1);

                assert_int_equal(same.count, r.count);
                assert_memory_equal(same.ids, r.ids, r.count * sizeof *r.ids);
                gp_mem_free(same.ids);
            } else {
                assert_bytes(back, length, text.bytes, text.length, k);
            }
            gp_mem_free(back);
            gp_mem_free(r.ids);
        }
    }
}

static void span_borders_do_not_change_ids(void **state)
{
    struct gp_rng rng = {seed + 1};
    struct text text;

    (void)state;
    for (unsigned round = 0; round < 2000; round++) {
        make_text(&rng, &text);
        bool trusted = gp_rng_below(&rng, 2) == 0;
        struct gp_span whole = {text.bytes, text.length, trusted}, parts[8];
        size_t at = 0;

        for (unsigned i = 0; i < 8; i++) {
            size_t left = text.length - at;

            parts[i] = (struct gp_span){text.bytes + at, left, trusted};
            if (i < 7)
                parts[i].length = gp_rng_below(&rng, (uint32_t)left + 1);
            at += parts[i].length;
        }
        for (int k = 0; k < KINDS; k++) {
            struct ids a = tokenize(tokenizers[k], &whole, 1);
            struct ids b = tokenize(tokenizers[k], parts, 8);

            assert_int_equal(a.count, b.count);
            assert_memory_equal(a.ids, b.ids, a.count * sizeof *a.ids);
            gp_mem_free(a.ids);
            gp_mem_free(b.ids);
        }
    }
}

static void untrusted_text_has_no_control_tokens(void **state)
{
    struct gp_rng rng = {seed + 2};
    struct text text;

    (void)state;
    for (unsigned round = 0; round < 2000; round++) {
        make_text(&rng, &text);
        for (int k = 0; k < KINDS; k++) {
            struct gp_span span = {text.bytes, text.length, false};
            struct ids r = tokenize(tokenizers[k], &span, 1);

            for (uint32_t i = 0; i < r.count; i++)
                assert_int_not_equal(gp_tokenizer_type(tokenizers[k], r.ids[i]), GP_TOKEN_CONTROL);
            gp_mem_free(r.ids);
        }
    }
}

/* ---- streaming ---- */

/* Every maximal subpart that is no character becomes U+FFFD (Unicode 3.9, table 3-8). */
static size_t replace_bad(const char *bytes, size_t length, char *out)
{
    size_t written = 0;

    for (size_t at = 0; at < length;) {
        int n = gp_utf8_scan((const unsigned char *)bytes + at, length - at);
        size_t taken = n > 0 ? (size_t)n : n < 0 ? (size_t)-n : length - at;

        memcpy(out + written, n > 0 ? bytes + at : "\xef\xbf\xbd", n > 0 ? taken : 3);
        written += n > 0 ? taken : 3;
        at += taken;
    }
    return written;
}

static void assert_valid(const char *bytes, size_t length)
{
    for (size_t at = 0; at < length;) {
        int n = gp_utf8_scan((const unsigned char *)bytes + at, length - at);

        assert_true(n > 0);
        at += (size_t)n;
    }
}

static void assert_streams(const struct gp_tokenizer *t, const int32_t *ids, uint32_t count,
                           bool with_control, const char *want, size_t want_length, int kind)
{
    size_t max = 3 * ((size_t)gp_tokenizer_bytes_max(t) + 4), length = 0;
    char *text = gp_mem_alloc((count + 1) * max);
    struct gp_detokenizer d;

    assert_non_null(text);
    gp_detokenizer_init(&d, t, with_control);
    for (uint32_t i = 0; i < count; i++) {
        size_t added = gp_detokenizer_next(&d, ids[i], text + length, max);

        assert_valid(text + length, added);
        assert_true(d.held_count < 4);
        length += added;
    }
    length += gp_detokenizer_end(&d, text + length, max);
    assert_bytes(text, length, want, want_length, kind);
    gp_mem_free(text);
}

/* Random ids, too: a model may say anything. */
static void streamed_text_is_the_whole_text(void **state)
{
    struct gp_rng rng = {seed + 3};

    (void)state;
    for (unsigned round = 0; round < 3000; round++) {
        int k = (int)gp_rng_below(&rng, KINDS);
        const struct gp_tokenizer *t = tokenizers[k];
        uint32_t count = gp_rng_below(&rng, 60);
        int32_t ids[60];
        size_t length, clean_length;
        char *whole, *clean;
        bool with_control = gp_rng_below(&rng, 2) == 0;

        for (uint32_t i = 0; i < count; i++)
            ids[i] = (int32_t)gp_rng_below(&rng, gp_tokenizer_count(t) + 2) - 1;
        assert_int_equal(gp_detokenize(t, ids, count, with_control, &whole, &length, NULL), GP_OK);
        clean = gp_mem_alloc(3 * length);
        clean_length = replace_bad(whole, length, clean);
        assert_streams(t, ids, count, with_control, clean, clean_length, k);
        gp_mem_free(whole);
        gp_mem_free(clean);
    }
}

static void assert_stream(const char *bytes, size_t length, const char *want)
{
    int32_t ids[16];

    assert_true(length <= 16);
    for (size_t i = 0; i < length; i++)
        ids[i] = (unsigned char)bytes[i];
    assert_streams(tokenizers[SMALL_BPE], ids, (uint32_t)length, false, want, strlen(want),
                   SMALL_BPE);
}

#define FFFD "\xef\xbf\xbd"

/* The examples of the Unicode standard, tables 3-8 to 3-11, and B38's halves. */
static void bad_bytes_become_replacement_characters(void **state)
{
    (void)state;
    assert_stream("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", 9,
                  FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD "A");
    assert_stream("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", 9,
                  FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD "A");
    assert_stream("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", 9,
                  FFFD FFFD FFFD FFFD FFFD "A" FFFD FFFD "B");
    assert_stream("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", 9, FFFD FFFD FFFD FFFD "A");
    assert_stream("\xf0\x9f\x98\x8a", 4, "\xf0\x9f\x98\x8a");
    assert_stream("x\xf0\x9f\x98", 4, "x" FFFD);
    assert_stream("\xf0\x9f\x98\xf0\x9f\x98\xf0\x9f\x98\x8a", 10, FFFD FFFD "\xf0\x9f\x98\x8a");
    assert_stream("\xf0\x9f\x98 ok", 6, FFFD " ok");
}

/* A half waits for its other half and no longer: what follows comes out at once. */
static void a_half_is_held_only_while_it_can_end(void **state)
{
    struct gp_detokenizer d;
    char out[64];

    (void)state;
    gp_detokenizer_init(&d, tokenizers[SMALL_BPE], false);
    assert_int_equal(gp_detokenizer_next(&d, 0xf0, out, sizeof out), 0);
    assert_int_equal(gp_detokenizer_next(&d, 0x9f, out, sizeof out), 0);
    assert_int_equal(gp_detokenizer_next(&d, 'a', out, sizeof out), 4);
    assert_memory_equal(out, FFFD "a", 4);
    assert_int_equal(gp_detokenizer_end(&d, out, sizeof out), 0);
}

/* The llama kind's space goes where a text begins, and stays where one goes on. */
static void the_space_in_front_is_dropped_once(void **state)
{
    const struct gp_tokenizer *t = tokenizers[LLAMA2];
    const struct gp_span span = {"hi there", 8, false};
    struct ids r = tokenize(t, &span, 1);
    struct gp_detokenizer d;
    char out[512];

    (void)state;
    gp_detokenizer_init(&d, t, false);
    assert_int_equal(gp_detokenizer_next(&d, r.ids[0], out, sizeof out), 2);
    assert_memory_equal(out, "hi", 2);
    assert_int_equal(gp_detokenizer_next(&d, r.ids[1], out, sizeof out), 6);
    assert_memory_equal(out, " there", 6);
    gp_detokenizer_init(&d, t, false);
    d.started = true;
    assert_int_equal(gp_detokenizer_next(&d, r.ids[1], out, sizeof out), 6);
    gp_mem_free(r.ids);
}

/* ---- tokens ---- */

static void the_longest_special_token_wins(void **state)
{
    const struct gp_tokenizer *t = tokenizers[SMALL_BPE];
    const struct gp_span span = {"abcabab", 7, false};
    struct ids r = tokenize(t, &span, 1);

    (void)state;
    assert_int_equal(r.count, 3);
    assert_int_equal(r.ids[0], gp_tokenizer_find(t, "abc", 3));
    assert_int_equal(r.ids[1], gp_tokenizer_find(t, "ab", 2));
    assert_int_equal(r.ids[2], r.ids[1]);
    gp_mem_free(r.ids);
}

static void control_tokens_show_on_demand(void **state)
{
    const struct gp_tokenizer *t = tokenizers[SMALL_BPE];
    int32_t end = gp_tokenizer_find(t, "<end>", 5);
    size_t length;

    (void)state;
    assert_int_equal(gp_tokenizer_type(t, end), GP_TOKEN_CONTROL);
    gp_token_bytes(t, end, false, &length);
    assert_int_equal(length, 0);
    assert_memory_equal(gp_token_bytes(t, end, true, &length), "<end>", 5);
    assert_int_equal(length, 5);
    gp_token_bytes(t, -1, true, &length);
    assert_int_equal(length, 0);
    gp_token_bytes(t, (int32_t)gp_tokenizer_count(t), true, &length);
    assert_int_equal(length, 0);
    assert_int_equal(gp_tokenizer_find(t, "<en", 3), GP_TOKEN_NONE);
    assert_int_equal(gp_tokenizer_find(t, "", 0), GP_TOKEN_NONE);
    assert_int_equal(gp_tokenizer_find(t, " ", 1), ' ');
}

static void a_text_too_long_for_positions_is_refused(void **state)
{
    const struct gp_span spans[] = {{"a", 1, false}, {"b", SIZE_MAX - 1, false}};
    struct gp_error err;
    int32_t *ids;
    uint32_t count;

    (void)state;
    for (int k = 0; k < KINDS; k++) {
        assert_int_equal(gp_tokenize(tokenizers[k], spans, 2, true, &ids, &count, &err), GP_EINVAL);
        assert_non_null(strstr(err.message, "bytes"));
    }
}

int main(void)
{
    const char *given = getenv("GP_SEED");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_text_comes_back),
        cmocka_unit_test(span_borders_do_not_change_ids),
        cmocka_unit_test(untrusted_text_has_no_control_tokens),
        cmocka_unit_test(streamed_text_is_the_whole_text),
        cmocka_unit_test(bad_bytes_become_replacement_characters),
        cmocka_unit_test(a_half_is_held_only_while_it_can_end),
        cmocka_unit_test(the_space_in_front_is_dropped_once),
        cmocka_unit_test(the_longest_special_token_wins),
        cmocka_unit_test(control_tokens_show_on_demand),
        cmocka_unit_test(a_text_too_long_for_positions_is_refused),
    };

    if (given)
        seed = strtoull(given, NULL, 0);
    return cmocka_run_group_tests(tests, open_all, close_all);
}
