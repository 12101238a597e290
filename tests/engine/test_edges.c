/* Edges of the engine's API: what is asked for at the very borders of what can be had. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "engine/engine_rig.h"
#include "model/model_edit.h"

static void a_release_before_the_first_step_forgets_everything(void **state)
{
    struct gp_engine_options options;
    struct gp_request r;
    uint64_t id, ids[4];

    (void)state;
    engine_rig_options(&options);
    struct gp_engine *engine = engine_rig_engine(&options);

    engine_rig_ask(&r, 5, 2);
    for (uint32_t round = 0; round < 300; round++) {
        assert_int_equal(gp_engine_submit(engine, &r, &id, NULL), GP_OK);
        gp_engine_release(engine, id);
        gp_engine_run(engine);
        assert_int_equal(engine->slab.used, 0);
        assert_int_equal(engine->sequences_out, 0);
        assert_int_equal(gp_engine_poll(engine, ids, 4), 0);
    }
    gp_engine_close(engine);
}

static void a_request_larger_than_the_request_memory_is_refused_for_good(void **state)
{
    struct gp_engine_options options;
    struct gp_request r;
    struct gp_error err = {""};
    uint64_t id;

    (void)state;
    engine_rig_options(&options);
    options.max_seqs = options.max_waiting = 128;
    options.max_batch_tokens = 128;
    struct gp_engine *engine = engine_rig_engine(&options);

    engine_rig_ask(&r, 5, 0);
    r.n = 128;
    r.logprobs = 20;
    assert_int_equal(gp_engine_submit(engine, &r, &id, &err), GP_EINVAL);
    assert_non_null(strstr(err.message, "request"));
    r.n = 1;
    assert_int_equal(gp_engine_submit(engine, &r, &id, &err), GP_OK);
    gp_engine_close(engine);
}

/* A file of this name whose embedding has more rows than its vocabulary has tokens: padding, which
 * has no text.  Its five tokens are a to e. */
static void write_padded(const char *path, struct gp_str name)
{
    static const struct gp_str tokens[] = {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}, {"e", 1}};
    static const char *const unnamed[] = {"general.name", NULL};
    struct gp_error err = {""};
    struct test_model m;

    engine_rig_model(&m);
    struct gp_gguf_writer *w = test_model_edit(&m, unnamed);

    gp_gguf_add_str(w, "general.name", name.bytes, name.length);
    gp_gguf_add_str(w, "tokenizer.ggml.model", "gpt2", 4);
    gp_gguf_add_str(w, "tokenizer.ggml.pre", "smollm", 6);
    gp_gguf_add_strings(w, "tokenizer.ggml.tokens", tokens, 5);
    gp_gguf_add_strings(w, "tokenizer.ggml.merges", NULL, 0);
    if (gp_gguf_writer_write(w, path, &err))
        fail_msg("%s", err.message);
    gp_gguf_writer_close(w);
}

static struct gp_model *open_padded(void)
{
    struct gp_model *model = NULL;
    struct gp_error err = {""};
    char path[160];

    snprintf(path, sizeof path, "%s/padded.gguf", engine_rig.dir);
    write_padded(path, (struct gp_str){"padded", 6});
    struct gp_model_options options = {.path = path, .threads = 1};

    if (gp_model_open(&model, &options, &err))
        fail_msg("%s", err.message);
    unlink(path);
    return model;
}

static void ids_without_a_token_are_neither_drawn_nor_listed_nor_taken(void **state)
{
    static const int32_t text[] = {0, 1, 2, 3, 4, 5};
    struct gp_model *model = open_padded();
    struct gp_engine_options options;
    struct gp_engine *engine;
    struct gp_request r;
    struct gp_logprob tops[20];
    struct rig_output out;
    struct gp_error err = {""};
    uint64_t id;

    (void)state;
    engine_rig_options(&options);
    assert_int_equal(gp_engine_open(&engine, model, &options, &err), GP_OK);
    engine_rig_ask(&r, 6, 60);
    r.tokens = text;
    assert_int_equal(gp_engine_submit(engine, &r, &id, &err), GP_EINVAL);
    assert_non_null(strstr(err.message, "token 5"));
    engine_rig_ask(&r, 5, 60);
    r.tokens = text;
    r.logprobs = r.prompt_logprobs = 20;
    r.sampling.temperature = 100;
    assert_int_equal(gp_engine_submit(engine, &r, &id, &err), GP_OK);
    gp_engine_run(engine);
    engine_rig_read(engine, id, 0, &out);
    assert_int_equal(out.count, 60);
    for (uint32_t i = 0; i < out.count; i++) {
        double sum = 0;

        assert_in_range(out.tokens[i].id, 0, 4);
        assert_int_equal(gp_engine_alternatives(engine, id, 0, false, i, tops, 20), 5);
        for (int k = 0; k < 5; k++)
            sum += exp((double)tops[k].logprob);
        assert_true(fabs(sum - 1) < 1e-5);
    }
    assert_int_equal(gp_engine_alternatives(engine, id, 0, true, 4, tops, 20), 5);
    gp_engine_close(engine);
    gp_model_close(model);
}

/* A name out of a file is shown as it is, but for what a terminal or a JSON reader trips over. */
static void a_models_name_may_be_any_text(void **state)
{
    struct gp_model_info info;
    struct gp_model *model = NULL;
    struct gp_error err = {""};
    char path[160], *report;

    (void)state;
    snprintf(path, sizeof path, "%s/named.gguf", engine_rig.dir);
    write_padded(path, (struct gp_str){"caf\xc3\xa9\0\n\xff", 8});
    struct gp_model_options options = {.path = path, .vocab_only = true};

    if (gp_model_open(&model, &options, &err))
        fail_msg("%s", err.message);
    gp_model_info(model, &info);
    assert_string_equal(info.name, "caf\xc3\xa9???");
    gp_model_close(model);
    for (int json = 0; json < 2; json++) {
        if (gp_inspect(path, 1, 0, json, &report, &err))
            fail_msg("%s", err.message);
        assert_non_null(strstr(report, "caf\xc3\xa9???"));
        gp_mem_free(report);
    }
    unlink(path);
}

static void the_engine_keeps_no_text_of_the_caller(void **state)
{
    struct gp_engine_options options;
    struct gp_engine_info info;
    char *type = strdup("f32");

    (void)state;
    engine_rig_options(&options);
    options.kv_type = type;
    struct gp_engine *engine = engine_rig_engine(&options);

    memset(type, 'x', 3);
    gp_engine_info(engine, &info);
    free(type);
    assert_string_equal(info.kv_type, "f32");
    gp_engine_close(engine);
}

static void heads_that_a_q8_0_cache_cannot_have_are_named(void **state)
{
    struct gp_engine_options options;
    struct gp_engine *engine = NULL;
    struct gp_perplexity perplexity;
    struct gp_error err = {""};
    struct test_model m;
    struct rig narrow;

    (void)state;
    engine_rig_model(&m);
    m.head_dim = 48;
    engine_rig_open(&narrow, &m, NULL);
    engine_rig_options(&options);
    options.kv_type = "q8_0";
    assert_int_equal(gp_engine_open(&engine, narrow.model, &options, &err), GP_EINVAL);
    assert_non_null(strstr(err.message, "q8_0"));
    assert_non_null(strstr(err.message, "48"));
    assert_null(engine);
    assert_int_equal(gp_perplexity(narrow.model, engine_rig_ids, 16, 8, 1, "q8_0", NULL, NULL,
                                   &perplexity, &err),
                     GP_EINVAL);
    assert_non_null(strstr(err.message, "q8_0"));
    engine_rig_close(&narrow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_release_before_the_first_step_forgets_everything),
        cmocka_unit_test(a_request_larger_than_the_request_memory_is_refused_for_good),
        cmocka_unit_test(ids_without_a_token_are_neither_drawn_nor_listed_nor_taken),
        cmocka_unit_test(a_models_name_may_be_any_text),
        cmocka_unit_test(the_engine_keeps_no_text_of_the_caller),
        cmocka_unit_test(heads_that_a_q8_0_cache_cannot_have_are_named),
    };

    return cmocka_run_group_tests(tests, engine_rig_setup, engine_rig_teardown);
}
