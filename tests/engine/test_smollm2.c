/* The engine on the real small model: a pool far too small, and the memory promise.
 *
 * GP_LONG=1 runs the full length (1,500 tokens a request) instead of a part of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "engine/engine_internal.h"

#define MODEL_PATH "models/smollm2-135m-instruct-q4_1.gguf"
#define REQUESTS   8u
#define TOKENS_MAX 1500u

/* Builds with checks and sanitizers look for other things, slowly. */
#ifdef GP_DEBUG
#define SHORTER 20u
#else
#define SHORTER 10u
#endif

static struct gp_model *model;
static uint32_t tokens_each; /* prompt and output of a request */
static int32_t *prompts[REQUESTS];
static uint32_t prompt_counts[REQUESTS];

static const char *const topics[REQUESTS] = {
    "Once upon a time, in a village by the sea,",
    "The three laws of motion say that",
    "A recipe for vegetable soup for four people:",
    "def fibonacci(n):",
    "The history of the printing press begins",
    "Q: How do plants make their food?\nA:",
    "Dear neighbour, I am writing because",
    "The planets of the solar system, from the sun outwards, are",
};

static int open_model(void **state)
{
    struct gp_model_options options = {.path = MODEL_PATH};
    struct gp_error err = {""};

    (void)state;
    gp_log_set(false, false);
#ifdef __SANITIZE_THREAD__ /* twelve minutes, for what small models show of threads as well */
    return 0;
#endif
    if (access(MODEL_PATH, R_OK))
        return 0;
    if (gp_model_open(&model, &options, &err)) {
        fprintf(stderr, "# %s\n", err.message);
        return -1;
    }
    tokens_each = getenv("GP_LONG") ? TOKENS_MAX : TOKENS_MAX / SHORTER;
    for (uint32_t i = 0; i < REQUESTS; i++)
        gp_model_tokenize(model, topics[i], strlen(topics[i]), true, false, &prompts[i],
                          &prompt_counts[i], &err);
    return 0;
}

static int close_model(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < REQUESTS; i++)
        gp_free(prompts[i]);
    gp_model_close(model);
    return 0;
}

static void need_model(void)
{
    if (model)
        return;
    print_message("# skipped: no %s, or a build too slow for it\n", MODEL_PATH);
    skip();
}

static void ask(struct gp_request *request, uint32_t i)
{
    gp_request_init(request);
    request->tokens = prompts[i];
    request->token_count = prompt_counts[i];
    request->max_tokens = tokens_each - prompt_counts[i];
    request->ignore_eos = true;
    request->sampling.temperature = 0.7f;
    request->sampling.has_seed = true;
    request->sampling.seed = i;
}

static void pool_options(struct gp_engine_options *options, const char *policy, uint32_t pages)
{
    gp_engine_options_init(options);
    options->page_tokens = 64;
    options->kv_pages = pages;
    options->context = 2048;
    options->max_seqs = REQUESTS;
    options->kv.initial_pages = 4;
    assert_int_equal(gp_policy_parse(policy, &options->kv, NULL), GP_OK);
}

struct text {
    uint32_t count;
    struct gp_token tokens[TOKENS_MAX];
};

/* Run the requests of `which` (a bit each) together; returns how often one was preempted. */
static uint32_t run(const struct gp_engine_options *options, uint32_t which, struct text *texts)
{
    struct gp_engine *engine;
    struct gp_engine_stats stats;
    struct gp_request request;
    uint64_t ids[REQUESTS];

    assert_int_equal(gp_engine_open(&engine, model, options, NULL), GP_OK);
    for (uint32_t i = 0; i < REQUESTS; i++)
        if (which >> i & 1) {
            ask(&request, i);
            assert_int_equal(gp_engine_submit(engine, &request, &ids[i], NULL), GP_OK);
        }
    gp_engine_run(engine);
    for (uint32_t i = 0; i < REQUESTS; i++)
        if (which >> i & 1) {
            enum gp_finish finish;

            texts[i].count =
                gp_engine_read(engine, ids[i], 0, 0, texts[i].tokens, TOKENS_MAX, &finish);
            assert_int_equal(finish, GP_FINISH_LENGTH);
            assert_int_equal(texts[i].count, tokens_each - prompt_counts[i]);
        }
    gp_engine_stats(engine, &stats);
    assert_int_equal(stats.pages_used, 0);
    assert_int_equal(gp_pool_free_count(engine->pool), gp_pool_total(engine->pool));
    gp_engine_close(engine);
    return (uint32_t)stats.preempt;
}

static uint32_t third_of_full(void)
{
    return REQUESTS * ((tokens_each + 63) / 64) / 3;
}

static void a_third_of_the_memory_is_enough_for_growpage(void **state)
{
    static struct text texts[REQUESTS];
    struct gp_engine_options options;

    (void)state;
    need_model();
    pool_options(&options, "growpage", third_of_full());
    run(&options, (1u << REQUESTS) - 1, texts);
}

static void full_gets_through_by_preemption_with_the_text_of_each_alone(void **state)
{
    static struct text together[REQUESTS], alone[REQUESTS];
    struct gp_engine_options options;

    (void)state;
    need_model();
    pool_options(&options, "full", third_of_full());
    assert_true(run(&options, (1u << REQUESTS) - 1, together) > 0);
    for (uint32_t i = 0; i < REQUESTS; i += getenv("GP_LONG") ? 1 : 3) {
        run(&options, 1u << i, alone);
        assert_memory_equal(alone[i].tokens, together[i].tokens,
                            alone[i].count * sizeof *alone[i].tokens);
    }
}

/* ---- what is left of the text when the cache is cut ---- */

#define TELLERS      (TELLER_TEXTS * 4)
#define TOLD         300u /* tokens of a text */
#define LOOP         200u /* a loop goes on for so long */
#define PERIOD       20u  /* ... and comes round sooner */
#define BUDGET_NATS  0.5  /* what a token may be harder to expect than one of a full cache */
#define TELLER_TEXTS 3u

static bool loops(const struct gp_token *tokens, uint32_t count)
{
    for (uint32_t period = 1; period < PERIOD; period++)
        for (uint32_t i = period, run = 0; i < count; i++) {
            run = tokens[i].id == tokens[i - period].id ? run + 1 : 0;
            if (run == LOOP)
                return true;
        }
    return false;
}

/* What a full cache expects of the tokens behind a prompt: nats a token. */
static double nats_of(struct gp_engine *engine, uint32_t topic, const struct text *text)
{
    uint32_t count = prompt_counts[topic];
    int32_t ids[64 + TOLD];
    struct gp_request request;
    double nats = 0;
    uint64_t id;

    assert_true(count <= 64);
    memcpy(ids, prompts[topic], count * sizeof *ids);
    for (uint32_t i = 0; i < text->count; i++)
        ids[count + i] = text->tokens[i].id;
    gp_request_init(&request);
    request.tokens = ids;
    request.token_count = count + text->count;
    request.max_tokens = 1;
    request.prompt_logprobs = 0;
    assert_int_equal(gp_engine_submit(engine, &request, &id, NULL), GP_OK);
    gp_engine_run(engine);
    for (uint32_t i = count; i < request.token_count; i++)
        nats -= gp_engine_prompt_logprob(engine, id, i);
    gp_engine_release(engine, id);
    return nats / text->count;
}

/* B57: budgets of 60, 50 and 40 per cent of the text, beside a full cache, from the same seeds. */
static void a_cut_cache_still_tells_a_story(void **state)
{
    static struct text texts[TELLERS];
    static const uint32_t shares[4] = {100, 60, 50, 40};
    struct gp_engine_options options;
    struct gp_engine *engine;
    uint64_t ids[TELLERS];

    (void)state;
    need_model();
#ifdef GP_DEBUG
    print_message("# skip: of the text, not of the program; a release build reads it\n");
    skip();
#endif
    pool_options(&options, "full", 1000);
    options.page_tokens = 16;
    options.max_seqs = TELLERS;
    assert_int_equal(gp_engine_open(&engine, model, &options, NULL), GP_OK);
    for (uint32_t i = 0; i < TELLERS; i++) {
        uint32_t topic = i / 4, tokens = (prompt_counts[topic] + TOLD) * shares[i % 4] / 100;
        struct gp_kv_options kv = options.kv;
        struct gp_request request;
        char policy[32];

        snprintf(policy, sizeof policy, "fixed:%u", tokens);
        if (i % 4 > 0)
            assert_int_equal(gp_policy_parse(policy, &kv, NULL), GP_OK);
        ask(&request, topic);
        request.max_tokens = TOLD;
        request.kv = &kv;
        assert_int_equal(gp_engine_submit(engine, &request, &ids[i], NULL), GP_OK);
    }
    gp_engine_run(engine);
    for (uint32_t i = 0; i < TELLERS; i++) {
        struct gp_request_stats stats;

        texts[i].count = gp_engine_read(engine, ids[i], 0, 0, texts[i].tokens, TOKENS_MAX, NULL);
        assert_int_equal(texts[i].count, TOLD);
        assert_true(gp_engine_request_stats(engine, ids[i], 0, &stats));
        assert_int_equal(stats.compress > 0, i % 4 > 0);
        assert_false(loops(texts[i].tokens, TOLD));
        gp_engine_release(engine, ids[i]);
    }
    for (uint32_t topic = 0; topic < TELLER_TEXTS; topic++) {
        double nats[4];

        for (uint32_t i = 0; i < 4; i++)
            nats[i] = nats_of(engine, topic, &texts[4 * topic + i]);
        print_message("# \"%s\": nats a token %.2f; with 60, 50, 40 %% of the cache %.2f, %.2f, "
                      "%.2f\n",
                      topics[topic], nats[0], nats[1], nats[2], nats[3]);
        for (uint32_t i = 1; i < 4; i++)
            assert_true(nats[i] < nats[0] + BUDGET_NATS);
    }
    gp_engine_close(engine);
}

static uint64_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long long size = 0, resident = 0;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%llu %llu", &size, &resident), 2);
    fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

/* 16 sequences, 512 tokens a step: resident memory is weights, pool, summaries and 64 MiB at
 * most. */
static void memory_after_start_stays_within_what_was_announced(void **state)
{
    struct gp_engine_options options;
    struct gp_engine_info info;
    struct gp_model_info about;
    struct gp_engine *engine;
    struct gp_request request;
    uint64_t ids[16];

    (void)state;
    need_model();
#ifdef SANITIZED
    print_message("# skipped: a sanitizer's own memory is in the way\n");
    skip();
#endif
    gp_engine_options_init(&options);
    options.page_tokens = 64;
    options.max_seqs = 16;
    options.max_batch_tokens = 512;
    options.kv_bytes = 128u << 20;
    options.kv.initial_pages = 2;
    assert_int_equal(gp_engine_open(&engine, model, &options, NULL), GP_OK);
    for (uint32_t i = 0; i < 16; i++) {
        ask(&request, i % REQUESTS);
        request.max_tokens = 90;
        assert_int_equal(gp_engine_submit(engine, &request, &ids[i], NULL), GP_OK);
    }
    gp_engine_run(engine);
    gp_engine_info(engine, &info);
    gp_model_info(model, &about);
    uint64_t announced = about.weight_bytes + info.kv_bytes + info.summary_bytes;
    uint64_t resident = resident_bytes();

    print_message("# resident %.1f MiB, announced %.1f MiB + 64 MiB\n",
                  (double)resident / 1048576.0, (double)announced / 1048576.0);
    assert_true(resident <= announced + (64u << 20));
    gp_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_after_start_stays_within_what_was_announced),
        cmocka_unit_test(a_third_of_the_memory_is_enough_for_growpage),
        cmocka_unit_test(full_gets_through_by_preemption_with_the_text_of_each_alone),
        cmocka_unit_test(a_cut_cache_still_tells_a_story),
    };

    return cmocka_run_group_tests(tests, open_model, close_model);
}
