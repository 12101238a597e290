/* What a vocabulary must not be, what is assumed where it says nothing, and memory running out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <math.h>

#include "base/log.h"
#include "base/mem.h"
#include "text/small_vocab.h"
#include "text/tokenizer.h"

static struct test_small_vocab small;

static void assert_refused(int status, const char *why)
{
    struct gp_error err = {""};
    struct gp_tokenizer *t = NULL;

    assert_int_equal(gp_tokenizer_open(&t, &small.vocab, &err), status);
    assert_null(t);
    if (!strstr(err.message, why))
        fail_msg("'%s' does not say '%s'", err.message, why);
    assert_int_equal(gp_mem_live(), 0);
}

static struct gp_tokenizer *open_small(void)
{
    struct gp_error err;
    struct gp_tokenizer *t = NULL;

    if (gp_tokenizer_open(&t, &small.vocab, &err) != GP_OK)
        fail_msg("%s", err.message);
    return t;
}

/* ---- refusals ---- */

/* B08 */
static void malformed_byte_tokens_are_refused(void **state)
{
    static const char *const bad[] = {"<0x-1>", "<0xZZ>", "<0x100>", "<0x", "", "<0x4>", "[0x41]"};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        test_small_spm(&small);
        test_small_token(&small, bad[i], strlen(bad[i]), GP_TOKEN_BYTE, 0);
        assert_refused(GP_ECORRUPT, "token 259: byte token");
    }
}

static void unknown_kinds_are_refused(void **state)
{
    (void)state;
    test_small_bpe(&small);
    small.vocab.model = "bert";
    assert_refused(GP_EINVAL, "'bert'");
}

static void empty_vocabularies_are_refused(void **state)
{
    (void)state;
    test_small_bpe(&small);
    small.vocab.token_count = 0;
    assert_refused(GP_ECORRUPT, "0 tokens");
    small.vocab.token_count = UINT32_MAX;
    assert_refused(GP_ECORRUPT, "4294967295 tokens");
}

static void bad_ids_are_refused_by_name(void **state)
{
    int32_t *ids[] = {
        &small.vocab.bos, &small.vocab.eos, &small.vocab.eot,
        &small.vocab.eom, &small.vocab.unk, &small.vocab.pad,
    };
    static const char *const names[] = {"bos", "eos", "eot", "eom", "unk", "pad"};

    (void)state;
    for (int i = 0; i < 6; i++) {
        test_small_bpe(&small);
        *ids[i] = 256;
        assert_refused(GP_ECORRUPT, names[i]);
        *ids[i] = -2;
        assert_refused(GP_ECORRUPT, names[i]);
    }
}

static void asking_for_a_missing_bos_or_eos_is_refused(void **state)
{
    (void)state;
    test_small_bpe(&small);
    small.vocab.add_bos = 1;
    assert_refused(GP_ECORRUPT, "add_bos_token");
    small.vocab.add_bos = 0;
    small.vocab.add_eos = 1;
    assert_refused(GP_ECORRUPT, "add_eos_token");
}

static void bad_types_and_scores_are_refused(void **state)
{
    (void)state;
    test_small_bpe(&small);
    small.types[7] = 0;
    assert_refused(GP_ECORRUPT, "token 7: unknown type 0");
    small.types[7] = 7;
    assert_refused(GP_ECORRUPT, "token 7: unknown type 7");
    test_small_spm(&small);
    small.scores[9] = NAN;
    assert_refused(GP_ECORRUPT, "token 9: score");
}

static void endless_special_tokens_are_refused(void **state)
{
    char name[1025];

    (void)state;
    memset(name, 'x', sizeof name);
    test_small_bpe(&small);
    test_small_token(&small, name, 1024, GP_TOKEN_USER_DEFINED, 0);
    gp_tokenizer_close(open_small());
    test_small_token(&small, name, 1025, GP_TOKEN_USER_DEFINED, 0);
    assert_refused(GP_ECORRUPT, "token 257: special token of 1025 bytes");
}

static void bad_merges_are_refused(void **state)
{
    static const char *const bad[] = {"",    " ",    "ab",  "a",        " a",
                                      "a  ", "a zz", "a b", "\u4e00 a", "a \xff"};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        test_small_bpe(&small);
        small.merges[0] = (struct gp_text){bad[i], strlen(bad[i])};
        small.vocab.merge_count = 1;
        assert_refused(GP_ECORRUPT, "merge 0");
    }
}

/* ---- the pre-tokenizer's name (B15) ---- */

/* What goes to stderr while fn runs. */
static void catch_stderr(void (*fn)(void), char *out, size_t out_bytes)
{
    int pipe_ends[2], old = dup(STDERR_FILENO);

    assert_int_equal(pipe(pipe_ends), 0);
    fflush(stderr);
    dup2(pipe_ends[1], STDERR_FILENO);
    fn();
    fflush(stderr);
    dup2(old, STDERR_FILENO);
    close(old);
    close(pipe_ends[1]);
    ssize_t n = read(pipe_ends[0], out, out_bytes - 1);

    close(pipe_ends[0]);
    out[n > 0 ? n : 0] = '\0';
}

static void open_and_close(void)
{
    struct gp_tokenizer *t = open_small();

    assert_string_equal(gp_tokenizer_kind(t), "gpt2/default");
    gp_tokenizer_close(t);
}

static void a_missing_pre_tokenizer_is_assumed_aloud(void **state)
{
    char said[1024];

    (void)state;
    test_small_bpe(&small);
    small.vocab.pre = NULL;
    catch_stderr(open_and_close, said, sizeof said);
    assert_non_null(strstr(said, "tokenizer.ggml.pre"));
    assert_non_null(strstr(said, "'default'"));
}

static void an_unknown_pre_tokenizer_is_refused_unless_overridden(void **state)
{
    char said[1024];

    (void)state;
    test_small_bpe(&small);
    small.vocab.pre = "no-such-pre";
    assert_refused(GP_EINVAL, "no-such-pre");
    small.vocab.override_pre = true;
    catch_stderr(open_and_close, said, sizeof said);
    assert_non_null(strstr(said, "no-such-pre"));
}

static void every_named_pre_tokenizer_opens(void **state)
{
    static const char *const names[] = {
        "default", "llama-bpe",        "llama3", "llama-v3",     "gpt-2",
        "qwen2",   "deepseek-r1-qwen", "smollm", "deepseek-llm", "deepseek-coder",
    };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        test_small_bpe(&small);
        small.vocab.pre = names[i];
        struct gp_tokenizer *t = open_small();

        assert_string_equal(gp_tokenizer_kind(t) + 5, names[i]);
        gp_tokenizer_close(t);
    }
}

/* Where a pattern ends shows in which merges happen: all pairs of these letters can merge. */
static void assert_words(const char *pre, const char *text, uint32_t want)
{
    static const char letters[] = "ab1 \n'.-";
    struct gp_span span = {text, strlen(text), false};
    int32_t *ids;
    uint32_t count;

    test_small_bpe(&small);
    small.vocab.pre = pre;
    for (const char *a = letters; *a; a++)
        for (const char *b = letters; *b; b++)
            test_small_merge(&small, (unsigned char)*a, (unsigned char)*b);
    struct gp_tokenizer *t = open_small();

    assert_int_equal(gp_tokenize(t, &span, 1, false, &ids, &count, NULL), GP_OK);
    if (count != want)
        fail_msg("%s: '%s' became %u tokens and not %u", pre, text, count, want);
    gp_mem_free(ids);
    gp_tokenizer_close(t);
}

static void families_cut_texts_differently(void **state)
{
    (void)state;
    assert_words("gpt-2", "1111", 2);
    assert_words("llama-bpe", "1111", 3);
    assert_words("qwen2", "1111", 4);
    assert_words("smollm", "1111", 4);
    assert_words("default", "1111", 3);
    assert_words("deepseek-llm", "1111", 2);
    assert_words("deepseek-coder", "1111", 4);
    assert_words("gpt-2", ".a", 2);
    assert_words("llama-bpe", ".a", 1);
    assert_words("deepseek-coder", ".a", 2);
    assert_words("gpt-2", ".\n", 2);
    assert_words("llama-bpe", ".\n", 1);
    assert_words("gpt-2", "\n\n", 1);
    assert_words("deepseek-llm", "\n\n", 2);
    assert_words("deepseek-llm", "a \n", 3);
}

/* ---- bytes without tokens ---- */

static void unknown_bytes_become_the_unknown_token_or_nothing(void **state)
{
    const struct gp_span span = {"a\xe3\x81\x82z", 5, false};
    int32_t *ids;
    uint32_t count;

    (void)state;
    test_small_spm(&small);
    for (uint32_t i = 3; i < 259; i++)
        small.types[i] = GP_TOKEN_UNUSED;
    test_small_token(&small, "a", 1, GP_TOKEN_NORMAL, 0);
    small.vocab.add_space_prefix = 0;
    struct gp_tokenizer *t = open_small();

    assert_int_equal(gp_tokenize(t, &span, 1, false, &ids, &count, NULL), GP_OK);
    assert_int_equal(count, 3);
    assert_int_equal(ids[0], 259);
    assert_int_equal(ids[1], small.vocab.unk);
    assert_int_equal(ids[2], small.vocab.unk);
    gp_mem_free(ids);
    gp_tokenizer_close(t);

    small.vocab.unk = small.vocab.bos;
    t = open_small();
    assert_int_equal(gp_tokenize(t, &span, 1, false, &ids, &count, NULL), GP_OK);
    assert_int_equal(count, 1);
    gp_mem_free(ids);
    gp_tokenizer_close(t);
}

/* A typed "<s>" must not merge its way to the control token. */
static void merges_never_make_a_control_token(void **state)
{
    const struct gp_span span = {"<s>", 3, false};
    int32_t *ids;
    uint32_t count;

    (void)state;
    test_small_spm(&small);
    test_small_token(&small, "<s", 2, GP_TOKEN_NORMAL, 1);
    test_small_token(&small, "s>", 2, GP_TOKEN_NORMAL, 1);
    small.vocab.add_space_prefix = 0;
    struct gp_tokenizer *t = open_small();

    assert_int_equal(gp_tokenize(t, &span, 1, false, &ids, &count, NULL), GP_OK);
    assert_int_equal(count, 2);
    assert_int_equal(ids[0], 259);
    assert_int_equal(ids[1], 3 + '>');
    gp_mem_free(ids);
    gp_tokenizer_close(t);
}

static void eos_comes_once_where_asked(void **state)
{
    const struct gp_span plain = {"a", 1, true}, ended = {"a</s>", 5, true};
    int32_t *ids;
    uint32_t count;

    (void)state;
    test_small_spm(&small);
    small.vocab.add_eos = 1;
    struct gp_tokenizer *t = open_small();

    for (int i = 0; i < 2; i++) {
        assert_int_equal(gp_tokenize(t, i ? &ended : &plain, 1, true, &ids, &count, NULL), GP_OK);
        assert_int_equal(count, 4);
        assert_int_equal(ids[0], small.vocab.bos);
        assert_int_equal(ids[3], small.vocab.eos);
        gp_mem_free(ids);
    }
    gp_tokenizer_close(t);
}

/* ---- memory ---- */

/* Everything with an allocation in it; false when one was refused. */
static bool use_everything(void)
{
    static const char text[] = "abab <think> e\u0301\xff ab";
    const struct gp_span spans[] = {{text, sizeof text - 1, true}, {"abc", 3, false}};
    struct gp_error err = {""};
    struct gp_tokenizer *t = NULL;
    int32_t *ids = NULL;
    uint32_t count;
    char *back = NULL;
    size_t length;
    int rc = gp_tokenizer_open(&t, &small.vocab, &err);

    if (rc == GP_OK)
        rc = gp_tokenize(t, spans, 2, true, &ids, &count, &err);
    if (rc == GP_OK)
        rc = gp_detokenize(t, ids, count, true, &back, &length, &err);
    assert_true(rc == GP_OK || rc == GP_ENOMEM);
    assert_true(rc == GP_OK || strstr(err.message, "out of memory"));
    gp_mem_free(back);
    gp_mem_free(ids);
    gp_tokenizer_close(t);
    return rc == GP_OK;
}

/* PCRE2's JIT may lack memory without harm, so success after a refusal is fine. */
static void no_refused_allocation_leaks(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        uint64_t refused = 0;

        if (kind == 0)
            test_small_spm(&small);
        else
            test_small_bpe(&small);
        if (kind != 0) {
            test_small_merge(&small, 'a', 'b');
            small.vocab.pre = kind == 1 ? "qwen2" : "deepseek-llm";
        }
        test_small_token(&small, "<think>", 7, GP_TOKEN_USER_DEFINED, 0);
        for (uint64_t n = 1;; n++) {
            gp_mem_refuse_at(n);
            bool worked = use_everything();
            bool was_refused = gp_mem_refused();

            gp_mem_refuse_at(0);
            assert_int_equal(gp_mem_live(), 0);
            if (!was_refused) {
                assert_true(worked);
                break;
            }
            refused += !worked;
        }
        assert_true(refused > 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_byte_tokens_are_refused),
        cmocka_unit_test(unknown_kinds_are_refused),
        cmocka_unit_test(empty_vocabularies_are_refused),
        cmocka_unit_test(bad_ids_are_refused_by_name),
        cmocka_unit_test(asking_for_a_missing_bos_or_eos_is_refused),
        cmocka_unit_test(bad_types_and_scores_are_refused),
        cmocka_unit_test(endless_special_tokens_are_refused),
        cmocka_unit_test(bad_merges_are_refused),
        cmocka_unit_test(a_missing_pre_tokenizer_is_assumed_aloud),
        cmocka_unit_test(an_unknown_pre_tokenizer_is_refused_unless_overridden),
        cmocka_unit_test(every_named_pre_tokenizer_opens),
        cmocka_unit_test(families_cut_texts_differently),
        cmocka_unit_test(unknown_bytes_become_the_unknown_token_or_nothing),
        cmocka_unit_test(merges_never_make_a_control_token),
        cmocka_unit_test(eos_comes_once_where_asked),
        cmocka_unit_test(no_refused_allocation_leaks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
