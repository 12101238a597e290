#include "engine/engine_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/rng.h"

void engine_rig_model(struct test_model *m)
{
    test_model_init(m);
    m->arch = "llama";
    m->layers = 2;
    m->embd = 96;
    m->heads = 6;
    m->kv_heads = 2;
    m->head_dim = 32;
    m->ffn = 160;
    m->vocab = 288;
    m->context = 1024;
    m->type = GP_TYPE_Q8_0;
    m->tied = true;
    m->seed = 11;
}

void engine_rig_open(struct rig *rig, const struct test_model *m, const char *cpu)
{
    struct gp_error err = {""};
    struct gp_model_options options = {.path = rig->path, .threads = 1, .cpu = cpu};

    gp_log_set(false, false);
    snprintf(rig->dir, sizeof rig->dir, "/tmp/growpage-rig-XXXXXX");
    assert_non_null(mkdtemp(rig->dir));
    snprintf(rig->path, sizeof rig->path, "%s/model.gguf", rig->dir);
    if (test_model_write(m, rig->path, &err) || gp_model_open(&rig->model, &options, &err))
        fail_msg("%s", err.message);
}

void engine_rig_close(struct rig *rig)
{
    gp_model_close(rig->model);
    unlink(rig->path);
    rmdir(rig->dir);
}

void engine_rig_options(struct gp_engine_options *options)
{
    gp_engine_options_init(options);
    options->threads = 1;
    options->page_tokens = 16;
    options->kv_pages = 512;
    options->max_seqs = 16;
    options->max_batch_tokens = 64;
    options->max_waiting = 64;
    options->kv.initial_pages = 2;
}

void engine_rig_prompt(int32_t *ids, uint32_t count, uint32_t number)
{
    struct gp_rng rng = {number * 7919u + 1};

    for (uint32_t i = 0; i < count; i++)
        ids[i] = (int32_t)(TEST_TOKEN_BYTE + gp_rng_below(&rng, 256));
}

struct rig engine_rig;
int32_t engine_rig_ids[RIG_PROMPT_MAX];

int engine_rig_setup(void **state)
{
    struct test_model m;

    (void)state;
    engine_rig_model(&m);
    engine_rig_open(&engine_rig, &m, NULL);
    engine_rig_prompt(engine_rig_ids, RIG_PROMPT_MAX, 1);
    return 0;
}

int engine_rig_teardown(void **state)
{
    (void)state;
    engine_rig_close(&engine_rig);
    return 0;
}

const char *const engine_rig_policies[RIG_POLICIES] = {
    "full",
    "growpage",
    "fixed:48",
    "random:0.6",
    "inverse",
    "shrink:-0.005:32",
    "gkv:50",
    "zipage:48",
    "rkv:41",
    "snapkv:44",
    "morphkv:60",
    "h2o:40",
    "rkv:40@9",
    "gkv:47@16",
    "snapkv:52@20",
    "streaming:40",
    "streaming:40@9",
    "h2o:40@16",
    "growpage+zipage",
    "fixed:48+rkv",
    "shrink:-0.005:32+gkv",
};

void engine_rig_set_policy(struct gp_engine_options *options, const char *policy)
{
    const char *at = strchr(policy, '@');
    char text[64];
    struct gp_error err;

    snprintf(text, sizeof text, "%.*s", (int)strcspn(policy, "@"), policy);
    if (gp_policy_parse(text, &options->kv, &err))
        fail_msg("%s", err.message);
    if (at) {
        options->kv.trigger = GP_TRIGGER_STEPS;
        options->kv.trigger_steps = (uint32_t)strtoul(at + 1, NULL, 10);
    }
}

struct gp_engine *engine_rig_engine(const struct gp_engine_options *options)
{
    struct gp_engine *engine;
    struct gp_error err = {""};

    if (gp_engine_open(&engine, engine_rig.model, options, &err))
        fail_msg("%s", err.message);
    return engine;
}

void engine_rig_ask(struct gp_request *request, uint32_t count, uint32_t max_tokens)
{
    gp_request_init(request);
    request->tokens = engine_rig_ids;
    request->token_count = count;
    request->max_tokens = max_tokens;
    request->ignore_eos = true;
    request->sampling.has_seed = true;
}

void engine_rig_read(struct gp_engine *engine, uint64_t id, uint32_t index, struct rig_output *out)
{
    memset(out, 0, sizeof *out);
    out->count = gp_engine_read(engine, id, index, 0, out->tokens, RIG_TOKENS_MAX, &out->finish);
    assert_true(gp_engine_request_stats(engine, id, index, &out->stats));
    assert_int_equal(out->stats.output_tokens, out->count);
    assert_int_not_equal(out->finish, GP_FINISH_NONE);
}

void engine_rig_alone(const struct rig *rig, const struct gp_engine_options *options,
                      const struct gp_request *request, struct rig_output *out)
{
    struct gp_engine *engine;
    struct gp_error err = {""};
    uint64_t id = 0;

    if (gp_engine_open(&engine, rig->model, options, &err) ||
        gp_engine_submit(engine, request, &id, &err))
        fail_msg("%s", err.message);
    gp_engine_run(engine);
    engine_rig_read(engine, id, 0, out);
    gp_engine_release(engine, id);
    assert_int_equal(gp_pool_free_count(engine->pool), gp_pool_total(engine->pool));
    gp_engine_close(engine);
}

void engine_rig_assert_same(const struct rig_output *a, const struct rig_output *b)
{
    assert_int_equal(a->finish, b->finish);
    for (uint32_t i = 0; i < a->count && i < b->count; i++)
        if (memcmp(&a->tokens[i], &b->tokens[i], sizeof a->tokens[i]))
            fail_msg("token %u: id %d logprob %a, and id %d logprob %a", i, a->tokens[i].id,
                     (double)a->tokens[i].logprob, b->tokens[i].id, (double)b->tokens[i].logprob);
    assert_int_equal(a->count, b->count);
}

struct gp_seq *engine_rig_seq(struct gp_engine *engine, uint64_t id, uint32_t index)
{
    for (uint32_t i = 0; i < engine->owner_count; i++) {
        struct owner owner = engine->owners[i];

        if (owner.request && owner.choice->index == index &&
            (uint64_t)(owner.request - engine->requests) == (id & 0xfffff))
            return owner.choice->seq;
    }
    return NULL;
}
