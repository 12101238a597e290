/* Llama 3, Qwen and Llama 2 vocabularies, cut down to what these texts need: ids published with the
 * models, ids by llama.cpp, BOS, thinking tags, ends.  Numbers like B14 are public-issues
 * entries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/mem.h"
#include "text/tokenizer.h"
#include "text/vocab_file.h"

enum family {
    LLAMA3,
    QWEN,
    LLAMA2,
    FAMILIES
};

static const char *const paths[FAMILIES] = {
    "tests/oracle/vocab/llama-bpe.txt",
    "tests/oracle/vocab/qwen2.txt",
    "tests/oracle/vocab/llama-spm.txt",
};

static struct test_vocab vocabs[FAMILIES];
static struct gp_tokenizer *tokenizers[FAMILIES];

static int open_all(void **state)
{
    struct gp_error err;

    (void)state;
    for (int f = 0; f < FAMILIES; f++) {
        test_vocab_open(&vocabs[f], paths[f]);
        if (gp_tokenizer_open(&tokenizers[f], &vocabs[f].vocab, &err) != GP_OK) {
            print_message("%s: %s\n", paths[f], err.message);
            return -1;
        }
    }
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    for (int f = 0; f < FAMILIES; f++) {
        gp_tokenizer_close(tokenizers[f]);
        test_vocab_close(&vocabs[f]);
    }
    return gp_mem_live() == 0 ? 0 : -1;
}

/* ---- comparing ---- */

static void assert_ids(enum family f, const struct gp_span *spans, uint32_t span_count,
                       bool add_special, const int32_t *want, uint32_t want_count)
{
    struct gp_error err;
    int32_t *ids;
    uint32_t count;

    if (gp_tokenize(tokenizers[f], spans, span_count, add_special, &ids, &count, &err) != GP_OK)
        fail_msg("%s", err.message);
    bool same = count == want_count;

    for (uint32_t i = 0; same && i < count; i++)
        same = vocabs[f].whole_ids[ids[i]] == want[i];
    if (!same) {
        print_message("family %d: '%.*s' became", (int)f, (int)spans[0].length, spans[0].bytes);
        for (uint32_t i = 0; i < count; i++)
            print_message(" %d", vocabs[f].whole_ids[ids[i]]);
        fail_msg("and should have become %u ids from %d on", want_count,
                 want_count ? want[0] : GP_TOKEN_NONE);
    }
    gp_mem_free(ids);
}

static void assert_back(enum family f, const struct gp_span *span, const char *want,
                        size_t want_length)
{
    int32_t *ids;
    uint32_t count;
    size_t length;
    char *text;

    assert_int_equal(gp_tokenize(tokenizers[f], span, 1, false, &ids, &count, NULL), GP_OK);
    assert_int_equal(gp_detokenize(tokenizers[f], ids, count, true, &text, &length, NULL), GP_OK);
    assert_int_equal(length, want_length);
    assert_memory_equal(text, want, length);
    gp_mem_free(ids);
    gp_mem_free(text);
}

#define IDS(...) (const int32_t[]){__VA_ARGS__}, sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)

static void assert_text(enum family f, const char *text, bool trusted, bool add_special,
                        const int32_t *want, uint32_t want_count)
{
    struct gp_span span = {text, strlen(text), trusted};

    assert_ids(f, &span, 1, add_special, want, want_count);
}

static void assert_plain(enum family f, const char *text, const int32_t *want, uint32_t want_count)
{
    struct gp_span span = {text, strlen(text), false};

    assert_ids(f, &span, 1, false, want, want_count);
    assert_back(f, &span, text, span.length);
}

/* ---- ids ---- */

static void llama3_splits_as_published(void **state)
{
    (void)state;
    assert_plain(LLAMA3, "->", IDS(405));
    assert_plain(LLAMA3, "(x):\n", IDS(2120, 997));
    assert_plain(LLAMA3, "12345", IDS(4513, 1774));
    assert_plain(LLAMA3, "I'm don'T WE'LL", IDS(40, 2846, 1541, 17773, 20255, 6, 4178));
    assert_plain(LLAMA3, "    hello", IDS(262, 24748));
    assert_plain(LLAMA3, " \n", IDS(720));
    assert_plain(LLAMA3, "\n\n\n\n", IDS(1038));
    assert_plain(LLAMA3, "hello\r\nworld", IDS(15339, 319, 14957));
    assert_plain(LLAMA3, " \n\n\n  x", IDS(15073, 220, 865));
    assert_plain(LLAMA3, "\t\t x", IDS(298, 865));
    assert_plain(LLAMA3, "١٢٣٤", IDS(109610, 110546, 117413, 124079));
    assert_plain(LLAMA3, "\u2029 \ua3e4", IDS(378, 102, 8790, 237, 97));
    assert_plain(LLAMA3, "Hello world! Café déjà vu — 123 😊",
                 IDS(9906, 1917, 0, 66771, 46939, 33614, 2001, 220, 4513, 27623, 232));
}

static void qwen_splits_as_published(void **state)
{
    (void)state;
    assert_plain(QWEN, "->", IDS(405));
    assert_plain(QWEN, "(x):\n", IDS(2075, 982));
    assert_plain(QWEN, "12345", IDS(16, 17, 18, 19, 20));
    assert_plain(QWEN, "I'm don'T WE'LL", IDS(40, 2776, 1513, 17323, 19677, 6, 4086));
    assert_plain(QWEN, "    hello", IDS(262, 23811));
    assert_plain(QWEN, " \n", IDS(715));
    assert_plain(QWEN, "\n\n\n\n", IDS(1022));
    assert_plain(QWEN, "hello\r\nworld", IDS(14990, 319, 14615));
    assert_plain(QWEN, " \n\n\n  x", IDS(14731, 220, 856));
    assert_plain(QWEN, "\t\t x", IDS(298, 856));
    assert_plain(QWEN, "١٢٣٤", IDS(149, 94, 149, 95, 149, 96, 149, 97));
    assert_plain(QWEN, "\u2029 \ua3e4", IDS(378, 102, 8620, 237, 97));
    assert_plain(QWEN, "Hello world! Café déjà vu — 123 😊",
                 IDS(9707, 1879, 0, 65671, 45839, 32514, 1959, 220, 16, 17, 18, 26525, 232));
}

/* B17; for Qwen the ids that its merges lead to come from llama.cpp, with the other cases. */
static void llama3_takes_whole_words_that_merges_cannot_reach(void **state)
{
    (void)state;
    assert_plain(LLAMA3, " nhanh", IDS(105314));
    assert_plain(LLAMA3, " dikkat", IDS(106350));
    assert_plain(LLAMA3, "ektedir", IDS(101673));
}

static void texts_have_llama_cpps_ids(void **state)
{
    (void)state;
    for (int f = 0; f < FAMILIES; f++) {
        assert_true(vocabs[f].case_count > 100);
        for (uint32_t i = 0; i < vocabs[f].case_count; i++) {
            const struct test_vocab_case *c = &vocabs[f].cases[i];
            struct gp_span span = {c->text, c->length, c->special};

            assert_ids((enum family)f, &span, 1, false, c->ids, c->id_count);
        }
    }
}

/* Qwen's tokenizer makes NFC of a text first; the others keep every byte. */
static void only_qwen_normalises(void **state)
{
    const char *text = "cafe\u0301 \u212b q\u0307\u0323 \u1112\u1161\u11ab";
    const char *normal = "caf\u00e9 \u00c5 q\u0323\u0307 \ud55c";
    struct gp_span span = {text, strlen(text), false};

    (void)state;
    assert_back(QWEN, &span, normal, strlen(normal));
    assert_back(LLAMA3, &span, text, span.length);
    assert_back(LLAMA2, &span, text, span.length);
}

/* ---- special tokens ---- */

/* B18 */
static void bos_comes_once(void **state)
{
    (void)state;
    assert_text(LLAMA3, "hi", false, true, IDS(128000, 6151));
    assert_text(LLAMA3, "<|begin_of_text|>hi", true, true, IDS(128000, 6151));
    assert_text(LLAMA3, "", false, true, IDS(128000));
    assert_text(LLAMA3, "hi", false, false, IDS(6151));
    assert_text(QWEN, "hi", false, true, IDS(6023));
    assert_text(LLAMA2, "hi", false, true, IDS(1, 7251));
    assert_text(LLAMA2, "<s>hi", true, true, IDS(1, 7251));
    assert_text(LLAMA2, "<s>hi</s>", true, true, IDS(1, 7251, 2));
    assert_text(LLAMA3,
                "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>"
                "<|start_header_id|>assistant<|end_header_id|>\n\n",
                true, true,
                IDS(128000, 128006, 882, 128007, 271, 6151, 128009, 128006, 78191, 128007, 271));
}

/* A user who writes BOS gets it as text, behind the real one. */
static void untrusted_bos_is_text(void **state)
{
    const char *text = "<|begin_of_text|>hi";
    struct gp_span span = {text, strlen(text), false};
    int32_t *ids;
    uint32_t count;

    (void)state;
    assert_int_equal(gp_tokenize(tokenizers[LLAMA3], &span, 1, true, &ids, &count, NULL), GP_OK);
    assert_true(count > 3);
    assert_int_equal(ids[0], gp_tokenizer_bos(tokenizers[LLAMA3]));
    for (uint32_t i = 1; i < count; i++)
        assert_int_equal(gp_tokenizer_type(tokenizers[LLAMA3], ids[i]), GP_TOKEN_NORMAL);
    gp_mem_free(ids);
}

/* B19 */
static void thinking_tags_are_tokens_in_any_text_and_control_is_not(void **state)
{
    (void)state;
    for (int trusted = 0; trusted < 2; trusted++) {
        assert_text(QWEN, "<think>", trusted, false, IDS(151667));
        assert_text(QWEN, "</think>", trusted, false, IDS(151668));
        assert_text(QWEN, "<tool_call>", trusted, false, IDS(151657));
    }
    assert_text(QWEN, "<|im_start|>", true, false, IDS(151644));
    assert_text(QWEN, "<|im_start|>", false, false, IDS(27, 91, 318, 4906, 91, 29));
    assert_text(QWEN, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n", true, true,
                IDS(151644, 872, 198, 6023, 151645, 198, 151644, 77091, 198));
}

/* A message that begins with a line break joins the template's one. */
static void text_between_control_tokens_is_one_piece(void **state)
{
    const struct gp_span spans[] = {
        {"<|im_start|>user\n", 17, true},
        {"\n", 1, false},
        {"<|im_end|>", 10, true},
    };

    (void)state;
    assert_ids(QWEN, spans, 3, true, IDS(151644, 872, 271, 151645));
}

static void control_tokens_count_only_wholly_in_trusted_bytes(void **state)
{
    const struct gp_span half[] = {{"<|im_", 5, true}, {"start|>", 7, false}};
    const struct gp_span halves[] = {{"<|im_", 5, true}, {"", 0, false}, {"start|>", 7, true}};
    const struct gp_span inside[] = {
        {"<", 1, true},
        {"|im_start|", 10, false},
        {">", 1, true},
        {"<|im_end|>", 10, true},
    };

    (void)state;
    assert_ids(QWEN, half, 2, false, IDS(27, 91, 318, 4906, 91, 29));
    assert_ids(QWEN, halves, 3, false, IDS(151644));
    assert_ids(QWEN, inside, 4, false, IDS(27, 91, 318, 4906, 91, 29, 151645));
}

static void assert_ends(enum family f, const int32_t *want, uint32_t want_count)
{
    uint32_t count;
    const int32_t *ends = gp_tokenizer_ends(tokenizers[f], &count);

    assert_int_equal(count, want_count);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(vocabs[f].whole_ids[ends[i]], want[i]);
}

/* B22: the Llama 3 file names 128001 alone. */
static void every_known_end_ends(void **state)
{
    (void)state;
    assert_ends(LLAMA3, IDS(128001, 128008, 128009));
    assert_ends(QWEN, IDS(151643, 151645));
    assert_ends(LLAMA2, IDS(2));
}

/* ---- time ---- */

/* Of this process, which does not depend on what else the machine does. */
static double cpu_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#ifdef GP_DEBUG
#define SECONDS_MAX 20.0
#else
#define SECONDS_MAX 2.0
#endif

static void assert_quick(enum family f, const char *unit, size_t count)
{
    size_t length = strlen(unit), total = length * count;
    char *text = gp_mem_alloc(total);
    struct gp_span span = {text, total, true};

    assert_non_null(text);
    for (size_t i = 0; i < count; i++)
        memcpy(text + i * length, unit, length);
    double before = cpu_seconds();

    assert_back(f, &span, text, total);
    double took = cpu_seconds() - before;

    if (took > SECONDS_MAX)
        fail_msg("family %d: %zu times '%s' took %.1f s", (int)f, count, unit, took);
    gp_mem_free(text);
}

/* B21, and what else could be quadratic here: spaces before a word, marks, beginnings of control
 * tokens. */
static void time_is_not_quadratic(void **state)
{
    (void)state;
    for (int f = 0; f < FAMILIES; f++) {
        assert_quick((enum family)f, "a", 100000);
        assert_quick((enum family)f, "_", 50000);
        assert_quick((enum family)f, "\u3042", (1 << 20) / 3);
        assert_quick((enum family)f, "Qk8zL3Rv0mX/7yB+", 200000 / 16);
        assert_quick((enum family)f, " ", 1 << 20);
        assert_quick((enum family)f, "   x", 1 << 17);
        assert_quick((enum family)f, "\n", 1 << 19);
        assert_quick((enum family)f, "\u0301", 1 << 18);
        assert_quick((enum family)f, "<|im_start|", 1 << 16);
        assert_quick((enum family)f, "<", 1 << 19);
        assert_quick((enum family)f, "7", 1 << 19);
        assert_quick((enum family)f, "\xff", 1 << 19);
    }
}

/* Marks in the wrong order, so that all of them move. */
static void ordering_marks_is_not_quadratic(void **state)
{
    size_t half = 1 << 17, total = 4 * half;
    char *text = gp_mem_alloc(total), *want = gp_mem_alloc(total);
    struct gp_span span = {text, total, false};

    (void)state;
    assert_non_null(text);
    assert_non_null(want);
    for (size_t i = 0; i < half; i++) {
        memcpy(text + 4 * i, "\u0301\u0323", 4);
        memcpy(want + 2 * i, "\u0323", 2);
        memcpy(want + 2 * (half + i), "\u0301", 2);
    }
    assert_back(QWEN, &span, want, total);
    gp_mem_free(text);
    gp_mem_free(want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama3_splits_as_published),
        cmocka_unit_test(qwen_splits_as_published),
        cmocka_unit_test(llama3_takes_whole_words_that_merges_cannot_reach),
        cmocka_unit_test(texts_have_llama_cpps_ids),
        cmocka_unit_test(only_qwen_normalises),
        cmocka_unit_test(bos_comes_once),
        cmocka_unit_test(untrusted_bos_is_text),
        cmocka_unit_test(thinking_tags_are_tokens_in_any_text_and_control_is_not),
        cmocka_unit_test(text_between_control_tokens_is_one_piece),
        cmocka_unit_test(control_tokens_count_only_wholly_in_trusted_bytes),
        cmocka_unit_test(every_known_end_ends),
        cmocka_unit_test(time_is_not_quadratic),
        cmocka_unit_test(ordering_marks_is_not_quadratic),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
