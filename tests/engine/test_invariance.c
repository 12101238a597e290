/* The second promise: the same request gives the same tokens, to the bit of every logprob, whatever
 * runs beside it, however it is chunked, spread over threads, interrupted or dispatched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "engine/engine_rig.h"

#define PROMPT 45u
#define OUTPUT 120u

/* Builds with checks take ten times as long: of the many places to interrupt at, every so many. */
#ifdef GP_DEBUG
#define SPARSE 4u
#else
#define SPARSE 1u
#endif

/* What a test is run with: every policy with the cache that is the default, some with another. */
struct variant {
    const char *kv_type;
    size_t first_policy, policy_step;
};

static void ask(struct gp_request *request)
{
    engine_rig_ask(request, PROMPT, OUTPUT);
    request->logprobs = 0; /* of what is drawn, to compare its bits */
    request->sampling.temperature = 0.8f;
    request->sampling.top_p = 0.95f;
    request->sampling.seed = 5;
}

/* However they are batched. */
static void neighbours_do_not_change_a_request(void **state)
{
    (void)state;
    for (size_t p = 0; p < 2 * RIG_POLICIES; p += RIG_STRIDE) {
        struct gp_engine_options options;
        struct gp_request request;
        struct rig_output alone, among;
        struct gp_engine *engine;
        uint64_t ids[16];
        int32_t other[300];

        engine_rig_options(&options);
        engine_rig_set_policy(&options, engine_rig_policies[p / 2]);
        options.batching = p % 2 ? GP_BATCHING_STATIC : GP_BATCHING_CONTINUOUS;
        ask(&request);
        engine_rig_alone(&engine_rig, &options, &request, &alone);
        assert_int_equal(alone.count, OUTPUT);
        assert_int_equal(gp_engine_open(&engine, engine_rig.model, &options, NULL), GP_OK);
        for (uint32_t i = 0; i < 16; i++) {
            struct gp_request r;

            ask(&r);
            if (i != 7) {
                engine_rig_prompt(other, 300, 100 + i);
                r.tokens = other;
                r.token_count = 3 + 19 * i;
                r.max_tokens = 20 + 10 * i;
                r.sampling.seed = i;
            }
            assert_int_equal(gp_engine_submit(engine, &r, &ids[i], NULL), GP_OK);
            if (i % 3 == 0)
                gp_engine_step(engine);
        }
        gp_engine_run(engine);
        engine_rig_read(engine, ids[7], 0, &among);
        engine_rig_assert_same(&alone, &among);
        assert_int_equal(gp_pool_free_count(engine->pool), gp_pool_total(engine->pool));
        gp_engine_close(engine);
    }
}

static void chunks_threads_and_page_ids_do_not_change_a_request(void **state)
{
    static const uint32_t chunks[] = {16, 17, 23, 64, 500};
    const struct variant *variant = *state;

    for (size_t p = variant->first_policy; p < RIG_POLICIES; p += variant->policy_step) {
        struct gp_engine_options options;
        struct gp_request request;
        struct rig_output first, other;

        engine_rig_options(&options);
        options.kv_type = variant->kv_type;
        engine_rig_set_policy(&options, engine_rig_policies[p]);
        ask(&request);
        engine_rig_alone(&engine_rig, &options, &request, &first);
        for (uint32_t threads = 1; threads <= 2; threads++)
            for (size_t c = threads % SPARSE; c < sizeof chunks / sizeof *chunks; c += SPARSE) {
                options.threads = threads;
                options.max_batch_tokens = chunks[c];
                options.kv_pages = 100 + (uint32_t)c;
                engine_rig_alone(&engine_rig, &options, &request, &other);
                engine_rig_assert_same(&first, &other);
            }
    }
}

/* Cache pages are dealt out again in the order of their release, so after other requests a table
 * names pages in disorder. */
static void a_used_pool_does_not_change_a_request(void **state)
{
    struct gp_engine_options options;
    struct gp_request request;
    struct rig_output first, again;
    struct gp_engine *engine;
    uint64_t id;

    (void)state;
    engine_rig_options(&options);
    options.kv_pages = 40;
    ask(&request);
    engine_rig_alone(&engine_rig, &options, &request, &first);
    assert_int_equal(gp_engine_open(&engine, engine_rig.model, &options, NULL), GP_OK);
    for (uint32_t round = 0; round < 6; round++) {
        uint64_t others[3];

        for (uint32_t i = 0; i < 3; i++) {
            struct gp_request r = request;

            r.token_count = 20 + 9 * i;
            r.max_tokens = 15 + 11 * i + round;
            r.sampling.seed = round * 3 + i;
            assert_int_equal(gp_engine_submit(engine, &r, &others[i], NULL), GP_OK);
        }
        gp_engine_run(engine);
        for (uint32_t i = 0; i < 3; i++)
            gp_engine_release(engine, others[i]);
        assert_int_equal(gp_engine_submit(engine, &request, &id, NULL), GP_OK);
        gp_engine_run(engine);
        engine_rig_read(engine, id, 0, &again);
        engine_rig_assert_same(&first, &again);
        gp_engine_release(engine, id);
    }
    gp_engine_close(engine);
}

/* Preempt the request before its nth step, for every n, and twice. */
static void preempted_anywhere_and_resumed_gives_the_same_tokens(void **state)
{
    const struct variant *variant = *state;

    for (size_t p = variant->first_policy; p < RIG_POLICIES; p += variant->policy_step) {
        struct gp_engine_options options;
        struct gp_request request;
        struct rig_output undisturbed, resumed;
        uint32_t events = 0;

        engine_rig_options(&options);
        options.kv_type = variant->kv_type;
        engine_rig_set_policy(&options, engine_rig_policies[p]);
        options.kv.fallback = GP_FALLBACK_PREEMPT;
        ask(&request);
        engine_rig_alone(&engine_rig, &options, &request, &undisturbed);
        for (uint32_t at = 1; at < OUTPUT + 3; at += SPARSE * (1 + at / 24)) {
            struct gp_engine *engine;
            uint64_t id;

            assert_int_equal(gp_engine_open(&engine, engine_rig.model, &options, NULL), GP_OK);
            assert_int_equal(gp_engine_submit(engine, &request, &id, NULL), GP_OK);
            for (uint32_t step = 0;; step++) {
                struct gp_seq *seq = engine_rig_seq(engine, id, 0);

                if (seq && seq->state == GP_SEQ_RUNNING && (step == at || step == at + 5))
                    gp_sched_preempt(engine->sched, seq);
                if (!gp_engine_step(engine))
                    break;
            }
            engine_rig_read(engine, id, 0, &resumed);
            events += resumed.stats.preempt;
            engine_rig_assert_same(&undisturbed, &resumed);
            assert_int_equal(resumed.stats.grow, undisturbed.stats.grow);
            assert_int_equal(resumed.stats.compress, undisturbed.stats.compress);
            assert_int_equal(resumed.stats.shrink, undisturbed.stats.shrink);
            gp_engine_close(engine);
        }
        assert_true(events > 50 / SPARSE);
    }
}

/* 16 requests in a pool for about 5: each gives what it gives alone. */
static void preemption_instead_of_fallback_keeps_every_request_its_own(void **state)
{
    struct gp_engine_options options;
    struct gp_engine *engine;
    struct gp_request requests[16];
    struct rig_output alone, among;
    uint64_t ids[16];
    uint32_t preempted = 0;

    (void)state;
    for (size_t p = 2 % RIG_STRIDE; p < RIG_POLICIES; p += RIG_STRIDE) {
        engine_rig_options(&options);
        engine_rig_set_policy(&options, engine_rig_policies[p]);
        options.kv.fallback = GP_FALLBACK_PREEMPT;
        options.kv_pages = 55;
        assert_int_equal(gp_engine_open(&engine, engine_rig.model, &options, NULL), GP_OK);
        for (uint32_t i = 0; i < 16; i++) {
            ask(&requests[i]);
            requests[i].token_count = 20 + 3 * i;
            requests[i].sampling.seed = i;
            assert_int_equal(gp_engine_submit(engine, &requests[i], &ids[i], NULL), GP_OK);
        }
        gp_engine_run(engine);
        for (uint32_t i = 0; i < 16; i++) {
            engine_rig_read(engine, ids[i], 0, &among);
            engine_rig_alone(&engine_rig, &options, &requests[i], &alone);
            engine_rig_assert_same(&alone, &among);
            preempted += among.stats.preempt;
            gp_engine_release(engine, ids[i]);
        }
        assert_int_equal(gp_pool_free_count(engine->pool), gp_pool_total(engine->pool));
        gp_engine_close(engine);
    }
    assert_true(preempted > 0);
}

static void a_threshold_that_always_grows_is_full(void **state)
{
    struct gp_engine_options options;
    struct gp_request request;
    struct rig_output full, grown;

    (void)state;
    engine_rig_options(&options);
    engine_rig_set_policy(&options, "full");
    ask(&request);
    engine_rig_alone(&engine_rig, &options, &request, &full);
    engine_rig_set_policy(&options, "growpage");
    options.kv.threshold = -2.0; /* delta is never below -1 */
    engine_rig_alone(&engine_rig, &options, &request, &grown);
    assert_true(grown.stats.grow > 0);
    assert_int_equal(grown.stats.compress, 0);
    engine_rig_assert_same(&full, &grown);
}

static void a_budget_that_is_never_reached_is_full(void **state)
{
    struct gp_engine_options options;
    struct gp_request request;
    struct rig_output full, other;

    (void)state;
    engine_rig_options(&options);
    engine_rig_set_policy(&options, "full");
    ask(&request);
    engine_rig_alone(&engine_rig, &options, &request, &full);
    engine_rig_set_policy(&options, "fixed:1024");
    engine_rig_alone(&engine_rig, &options, &request, &other);
    engine_rig_assert_same(&full, &other);
    engine_rig_set_policy(&options, "growpage");
    options.kv.initial_pages = 12;
    engine_rig_alone(&engine_rig, &options, &request, &other);
    engine_rig_assert_same(&full, &other);
}

static void every_level_of_this_machine_gives_the_same_tokens(void **state)
{
    static const enum gp_type types[] = {GP_TYPE_Q8_0, GP_TYPE_Q4_1, GP_TYPE_Q5_0, GP_TYPE_IQ4_NL};
    struct gp_engine_options options;
    struct gp_request request;
    struct rig_output base, other;

    (void)state;
    engine_rig_options(&options);
    ask(&request);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int level = GP_LEVEL_REF; level <= (int)gp_level_detect(); level++) {
            struct test_model m;
            struct rig at;

            engine_rig_model(&m);
            m.type = types[t];
            engine_rig_open(&at, &m, gp_level_name((enum gp_level)level));
            engine_rig_alone(&at, &options, &request, level == GP_LEVEL_REF ? &base : &other);
            if (level != GP_LEVEL_REF)
                engine_rig_assert_same(&base, &other);
            engine_rig_close(&at);
        }
}

static void the_page_size_does_not_change_a_full_cache(void **state)
{
    struct gp_engine_options options;
    struct gp_request request;
    struct rig_output base, other;

    (void)state;
    engine_rig_options(&options);
    engine_rig_set_policy(&options, "full");
    ask(&request);
    engine_rig_alone(&engine_rig, &options, &request, &base);
    for (uint32_t b = 32; b <= 256; b *= 2) {
        options.page_tokens = b;
        engine_rig_alone(&engine_rig, &options, &request, &other);
        engine_rig_assert_same(&base, &other);
    }
}

/* Turn a head's slots round by one: slot 0 goes last, all others one down. */
static void rotate_slots(struct gp_engine *engine, const struct gp_seq *seq, uint32_t item)
{
    const struct gp_hparams *hp = &engine->model->weights->hp;
    struct gp_move moves[RIG_TOKENS_MAX + 1];
    struct gp_kv_view kv = gp_cache_view(&engine->cache, hp, seq->table, item / hp->kv_head_count,
                                         item % hp->kv_head_count);
    uint32_t n = seq->cached;

    moves[0] = (struct gp_move){0, n}; /* a slot that is still free */
    for (uint32_t i = 1; i <= n; i++)
        moves[i] = (struct gp_move){i, i - 1};
    engine->model->kernels.kv_move(&kv, moves, n + 1);
}

/* A compaction that keeps everything in another order, a different one in every head: attention
 * does not care, but for the order of its sums. */
static void slots_in_another_order_change_nothing_but_rounding(void **state)
{
    struct gp_engine_options options;
    struct gp_engine *engine;
    struct gp_request request;
    struct rig_output straight, shuffled;
    struct test_model m;
    struct rig floats;
    int32_t forced[OUTPUT];
    uint64_t id;
    float low = 0, high = -1e9f;

    (void)state;
    engine_rig_model(&m);
    m.type = GP_TYPE_F32;
    engine_rig_open(&floats, &m, NULL);
    engine_rig_options(&options);
    engine_rig_set_policy(&options, "full");
    options.kv_type = "f32";
    ask(&request);
    engine_rig_alone(&floats, &options, &request, &straight);
    for (uint32_t i = 0; i < OUTPUT; i++)
        forced[i] = straight.tokens[i].id;
    request.forced = forced;
    request.forced_count = OUTPUT;
    assert_int_equal(gp_engine_open(&engine, floats.model, &options, NULL), GP_OK);
    assert_int_equal(gp_engine_submit(engine, &request, &id, NULL), GP_OK);
    do {
        struct gp_seq *seq = engine_rig_seq(engine, id, 0);

        if (seq && seq->computed >= PROMPT && seq->cached < seq->pages * options.page_tokens)
            for (uint32_t item = 0; item < m.layers * m.kv_heads; item++)
                for (uint32_t times = 0; times <= item; times++)
                    rotate_slots(engine, seq, item);
    } while (gp_engine_step(engine));
    engine_rig_read(engine, id, 0, &shuffled);
    assert_int_equal(shuffled.count, OUTPUT);
    bool moved = false;

    for (uint32_t i = 0; i < OUTPUT; i++) {
        low = straight.tokens[i].logprob < low ? straight.tokens[i].logprob : low;
        high = straight.tokens[i].logprob > high ? straight.tokens[i].logprob : high;
    }
    for (uint32_t i = 0; i < OUTPUT; i++) {
        float difference = straight.tokens[i].logprob - shuffled.tokens[i].logprob;

        moved = moved || difference != 0;
        assert_true(difference < 1e-4f * (high - low) && -difference < 1e-4f * (high - low));
    }
    assert_true(moved); /* the order of sums did change */
    gp_engine_close(engine);
    engine_rig_close(&floats);
}

int main(void)
{
    struct variant f16 = {"f16", 0, RIG_STRIDE},
                   f16_preempted = {"f16", 1 % RIG_STRIDE, RIG_STRIDE};
    struct variant q8_0 = {"q8_0", 1, 6};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_in_another_order_change_nothing_but_rounding),
        cmocka_unit_test(neighbours_do_not_change_a_request),
        cmocka_unit_test_prestate(chunks_threads_and_page_ids_do_not_change_a_request, &f16),
        {"chunks_threads_and_page_ids_do_not_change_a_request_q8_0",
         chunks_threads_and_page_ids_do_not_change_a_request, NULL, NULL, &q8_0},
        cmocka_unit_test(a_used_pool_does_not_change_a_request),
        cmocka_unit_test_prestate(preempted_anywhere_and_resumed_gives_the_same_tokens,
                                  &f16_preempted),
        {"preempted_anywhere_and_resumed_gives_the_same_tokens_q8_0",
         preempted_anywhere_and_resumed_gives_the_same_tokens, NULL, NULL, &q8_0},
        cmocka_unit_test(preemption_instead_of_fallback_keeps_every_request_its_own),
        cmocka_unit_test(a_threshold_that_always_grows_is_full),
        cmocka_unit_test(a_budget_that_is_never_reached_is_full),
        cmocka_unit_test(every_level_of_this_machine_gives_the_same_tokens),
        cmocka_unit_test(the_page_size_does_not_change_a_full_cache),
    };

    return cmocka_run_group_tests(tests, engine_rig_setup, engine_rig_teardown);
}
