/* A GGUF's tokenizer keys: what is missing or does not fit is refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/mem.h"
#include "model/gguf_files.h"
#include "model/vocab.h"
#include "text/small_vocab.h"

#define KEY(name) "tokenizer.ggml." name

static struct test_small_vocab small;
static char folder[256], path[512];

static int make_folder(void **state)
{
    (void)state;
    gp_log_set(false, false);
    test_temporary_folder(folder, sizeof folder);
    test_file_path(path, sizeof path, folder, "vocab.gguf");
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    rmdir(folder);
    return gp_mem_live() == 0 ? 0 : -1;
}

/* ---- files ---- */

static void add_name(struct gp_gguf_writer *w, const char *key, const char *value)
{
    gp_gguf_add_str(w, key, value, strlen(value));
}

static void add_texts(struct gp_gguf_writer *w, const char *key, const struct gp_text *texts,
                      uint32_t count)
{
    static struct gp_str items[TEST_SMALL_TOKENS];

    for (uint32_t i = 0; i < count; i++)
        items[i] = (struct gp_str){texts[i].bytes, texts[i].length};
    gp_gguf_add_strings(w, key, items, count);
}

/* The small vocabulary without the key named `without`; more() adds others. */
static struct gp_gguf *open_file(const char *without, void (*more)(struct gp_gguf_writer *w))
{
    const struct gp_vocab *v = &small.vocab;
    struct gp_gguf_writer *w;
    struct gp_gguf *gguf;

    assert_int_equal(gp_gguf_writer_open(&w, NULL), GP_OK);
    if (strcmp(without, "model") != 0)
        add_name(w, KEY("model"), v->model);
    if (strcmp(without, "pre") != 0)
        add_name(w, KEY("pre"), v->pre ? v->pre : "default");
    if (strcmp(without, "tokens") != 0)
        add_texts(w, KEY("tokens"), v->tokens, v->token_count);
    if (strcmp(without, "token_type") != 0)
        gp_gguf_add_array(w, KEY("token_type"), GP_GGUF_I32, v->types, v->token_count);
    if (strcmp(without, "scores") != 0)
        gp_gguf_add_array(w, KEY("scores"), GP_GGUF_F32, v->scores, v->token_count);
    if (strcmp(without, "merges") != 0)
        add_texts(w, KEY("merges"), v->merges, v->merge_count);
    if (more)
        more(w);
    assert_int_equal(gp_gguf_writer_write(w, path, NULL), GP_OK);
    gp_gguf_writer_close(w);
    assert_int_equal(gp_gguf_open(&gguf, path, NULL), GP_OK);
    return gguf;
}

static void assert_refused(const char *without, void (*more)(struct gp_gguf_writer *w), int status,
                           const char *why)
{
    struct gp_gguf *gguf = open_file(without, more);
    struct gp_tokenizer *t = NULL;
    struct gp_error err = {""};

    assert_int_equal(gp_vocab_open(&t, gguf, false, &err), status);
    assert_null(t);
    if (!strstr(err.message, why))
        fail_msg("'%s' does not say '%s'", err.message, why);
    gp_gguf_close(gguf);
    assert_int_equal(gp_mem_live(), 0);
}

/* ---- what is refused ---- */

static void missing_keys_are_named(void **state)
{
    (void)state;
    test_small_bpe(&small);
    test_small_merge(&small, 'a', 'b');
    assert_refused("model", NULL, GP_EINVAL, KEY("model"));
    assert_refused("tokens", NULL, GP_EINVAL, KEY("tokens"));
    assert_refused("merges", NULL, GP_EINVAL, KEY("merges"));
}

static void short_types(struct gp_gguf_writer *w)
{
    gp_gguf_add_array(w, KEY("token_type"), GP_GGUF_I32, small.types, small.vocab.token_count - 1);
}

static void float_types(struct gp_gguf_writer *w)
{
    gp_gguf_add_array(w, KEY("token_type"), GP_GGUF_F32, small.scores, small.vocab.token_count);
}

static void single_type(struct gp_gguf_writer *w)
{
    gp_gguf_add_u32(w, KEY("token_type"), 1);
}

static void long_scores(struct gp_gguf_writer *w)
{
    gp_gguf_add_array(w, KEY("scores"), GP_GGUF_F32, small.scores, small.vocab.token_count + 1);
}

static void number_tokens(struct gp_gguf_writer *w)
{
    gp_gguf_add_array(w, KEY("tokens"), GP_GGUF_I32, small.types, small.vocab.token_count);
}

static void arrays_must_fit_the_tokens(void **state)
{
    (void)state;
    test_small_bpe(&small);
    assert_refused("token_type", short_types, GP_ECORRUPT, KEY("token_type") ": 255 entries");
    assert_refused("token_type", float_types, GP_ECORRUPT, KEY("token_type"));
    assert_refused("token_type", single_type, GP_ECORRUPT, KEY("token_type"));
    assert_refused("tokens", number_tokens, GP_ECORRUPT, KEY("tokens"));
    test_small_spm(&small);
    assert_refused("scores", long_scores, GP_ECORRUPT, KEY("scores") ": 260 entries");
}

static const char *bad_key;

static void id_too_high(struct gp_gguf_writer *w)
{
    gp_gguf_add_u32(w, bad_key, small.vocab.token_count);
}

static void id_of_no_number(struct gp_gguf_writer *w)
{
    add_name(w, bad_key, "2");
}

static void ids_must_be_tokens(void **state)
{
    static const char *const keys[] = {
        KEY("bos_token_id"), KEY("eos_token_id"),     KEY("eot_token_id"),
        KEY("eom_token_id"), KEY("unknown_token_id"), KEY("padding_token_id"),
    };

    (void)state;
    test_small_bpe(&small);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        bad_key = keys[i];
        assert_refused("", id_too_high, GP_ECORRUPT, bad_key);
        assert_refused("", id_of_no_number, GP_ECORRUPT, bad_key);
    }
}

static void switches_must_be_true_or_false(void **state)
{
    static const char *const keys[] = {
        KEY("add_bos_token"),
        KEY("add_eos_token"),
        KEY("add_space_prefix"),
    };

    (void)state;
    test_small_bpe(&small);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        bad_key = keys[i];
        assert_refused("", id_of_no_number, GP_ECORRUPT, bad_key);
    }
}

static void name_with_a_zero_byte(struct gp_gguf_writer *w)
{
    gp_gguf_add_str(w, KEY("model"), "gpt2\0x", 6);
}

static void model_of_another_kind(struct gp_gguf_writer *w)
{
    add_name(w, KEY("model"), "rwkv");
}

static void unknown_pre(struct gp_gguf_writer *w)
{
    add_name(w, KEY("pre"), "no-such-pre");
}

static void names_must_be_known(void **state)
{
    (void)state;
    test_small_bpe(&small);
    assert_refused("model", name_with_a_zero_byte, GP_ECORRUPT, KEY("model"));
    assert_refused("model", model_of_another_kind, GP_EINVAL, "'rwkv'");
    assert_refused("pre", unknown_pre, GP_EINVAL, "'no-such-pre'");
}

/* ---- what opens ---- */

static struct gp_tokenizer *open_vocab(const char *without, void (*more)(struct gp_gguf_writer *w),
                                       bool override_pre)
{
    struct gp_gguf *gguf = open_file(without, more);
    struct gp_tokenizer *t = NULL;
    struct gp_error err;

    if (gp_vocab_open(&t, gguf, override_pre, &err) != GP_OK)
        fail_msg("%s", err.message);
    gp_gguf_close(gguf);
    return t;
}

static void settings(struct gp_gguf_writer *w)
{
    gp_gguf_add_u32(w, KEY("bos_token_id"), 1);
    gp_gguf_add_u32(w, KEY("eos_token_id"), 2);
    gp_gguf_add_u32(w, KEY("eot_token_id"), 7);
    gp_gguf_add_u32(w, KEY("eom_token_id"), 5);
    gp_gguf_add_bool(w, KEY("add_bos_token"), true);
    gp_gguf_add_bool(w, KEY("add_eos_token"), true);
    gp_gguf_add_bool(w, KEY("add_space_prefix"), false);
}

static void settings_arrive(void **state)
{
    const struct gp_span span = {"a", 1, false};
    struct gp_tokenizer *t;
    const int32_t *ends;
    uint32_t count;
    int32_t *ids;

    (void)state;
    test_small_spm(&small);
    t = open_vocab("", settings, false);
    ends = gp_tokenizer_ends(t, &count);
    assert_int_equal(count, 3);
    assert_int_equal(ends[0], 2);
    assert_int_equal(ends[1], 5);
    assert_int_equal(ends[2], 7);
    assert_int_equal(gp_tokenizer_bos(t), 1);
    assert_int_equal(gp_tokenizer_eos(t), 2);
    assert_true(gp_tokenizer_adds_bos(t));
    assert_int_equal(gp_tokenize(t, &span, 1, true, &ids, &count, NULL), GP_OK);
    assert_int_equal(count, 3);
    assert_int_equal(ids[1], 3 + 'a');
    gp_mem_free(ids);
    gp_tokenizer_close(t);
}

static void the_pre_tokenizer_is_the_files(void **state)
{
    struct gp_tokenizer *t;

    (void)state;
    test_small_bpe(&small);
    t = open_vocab("", NULL, false);
    assert_string_equal(gp_tokenizer_kind(t), "gpt2/gpt-2");
    gp_tokenizer_close(t);
    t = open_vocab("pre", NULL, false);
    assert_string_equal(gp_tokenizer_kind(t), "gpt2/default");
    gp_tokenizer_close(t);
    t = open_vocab("pre", unknown_pre, true);
    assert_string_equal(gp_tokenizer_kind(t), "gpt2/default");
    gp_tokenizer_close(t);
}

static void no_refused_allocation_leaks(void **state)
{
    (void)state;
    test_small_bpe(&small);
    test_small_merge(&small, 'a', 'b');
    struct gp_gguf *gguf = open_file("", settings);
    uint64_t live = gp_mem_live();

    for (uint64_t n = 1;; n++) {
        struct gp_tokenizer *t = NULL;
        struct gp_error err = {""};

        gp_mem_refuse_at(n);
        int rc = gp_vocab_open(&t, gguf, false, &err);
        bool refused = gp_mem_refused();

        gp_mem_refuse_at(0);
        gp_tokenizer_close(t);
        assert_int_equal(gp_mem_live(), live);
        assert_true(rc == GP_OK || rc == GP_ENOMEM);
        if (!refused) {
            assert_int_equal(rc, GP_OK);
            assert_true(n > 10);
            break;
        }
    }
    gp_gguf_close(gguf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_keys_are_named),
        cmocka_unit_test(arrays_must_fit_the_tokens),
        cmocka_unit_test(ids_must_be_tokens),
        cmocka_unit_test(switches_must_be_true_or_false),
        cmocka_unit_test(names_must_be_known),
        cmocka_unit_test(settings_arrive),
        cmocka_unit_test(the_pre_tokenizer_is_the_files),
        cmocka_unit_test(no_refused_allocation_leaks),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
