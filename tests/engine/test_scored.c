/* Policies with a scorer in the engine: when they cut, what they hold, what they cost others. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine_rig.h"

#define B        16u
#define CUTS_MAX 512u

static const char *const policies[] = {"zipage:48",  "gkv:50", "rkv:41",      "snapkv:44",
                                       "morphkv:60", "h2o:40", "streaming:40"};
#define POLICY_COUNT (sizeof policies / sizeof *policies)

static void set_policy(struct gp_kv_options *kv, const char *policy)
{
    struct gp_error err;

    if (gp_policy_parse(policy, kv, &err))
        fail_msg("%s", err.message);
}

/* What was cut when. */
struct log {
    uint32_t count, tokens[CUTS_MAX], slots[CUTS_MAX], kept[CUTS_MAX];
};

static void note_cut(void *ctx, struct gp_engine *engine, const struct gp_seq *seq,
                     const struct gp_retention *r)
{
    struct log *log = ctx;

    (void)engine;
    assert_true(log->count < CUTS_MAX);
    log->tokens[log->count] = seq->computed;
    log->slots[log->count] = seq->cached;
    log->kept[log->count++] = r->keep + r->protect;
}

static void run_logged(const struct gp_engine_options *options, const struct gp_request *request,
                       struct log *log, struct rig_output *out)
{
    struct gp_engine *engine = engine_rig_engine(options);
    uint64_t id;

    *log = (struct log){0};
    engine->hooks = (struct gp_engine_hooks){.compacting = note_cut, .ctx = log};
    assert_int_equal(gp_engine_submit(engine, request, &id, NULL), GP_OK);
    gp_engine_run(engine);
    engine_rig_read(engine, id, 0, out);
    gp_engine_close(engine);
}

/* N pages are kept, N + 1 held, and a page of new tokens lies between two compactions, exactly. */
static void zipage_compacts_every_page_of_tokens(void **state)
{
    (void)state;
    for (uint32_t budget = 32; budget <= 96; budget += 12)
        for (uint32_t prompt = 1; prompt <= 150; prompt += 37) {
            uint32_t pages = budget / B, first = (pages + 1) * B;
            struct gp_engine_options options;
            struct gp_request request;
            struct rig_output out;
            struct log log;
            char name[32];

            snprintf(name, sizeof name, "zipage:%u", budget);
            engine_rig_options(&options);
            set_policy(&options.kv, name);
            engine_rig_ask(&request, prompt, 200);
            run_logged(&options, &request, &log, &out);
            if (prompt >= first)
                first = (prompt / B + 1) * B;
            assert_int_equal(log.count, (prompt + 200 - 1 - first + B - 1) / B);
            for (uint32_t i = 0; i < log.count; i++) {
                assert_int_equal(log.tokens[i], first + i * B);
                assert_int_equal(log.kept[i], pages * B);
            }
            assert_int_equal(out.stats.compress, log.count);
            assert_int_equal(out.stats.grow, 0);
            assert_int_equal(out.stats.pages, pages + 1);
        }
}

static void a_steps_trigger_cuts_at_its_steps_and_returns_pages(void **state)
{
    static const uint32_t steps[] = {1, 7, 16, 40, 100};

    (void)state;
    for (size_t p = 0; p < 4; p++)
        for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
            struct gp_engine_options options;
            struct gp_request request;
            struct rig_output out;
            struct log log;

            engine_rig_options(&options);
            set_policy(&options.kv, policies[p]);
            options.kv.trigger = GP_TRIGGER_STEPS;
            options.kv.trigger_steps = steps[s];
            engine_rig_ask(&request, 150, 230);
            run_logged(&options, &request, &log, &out);
            assert_true(log.count > 0);
            for (uint32_t i = 0; i < log.count; i++) {
                uint32_t zero = options.kv.scorer.count_prompt ? 1 : 150;

                assert_int_equal((log.tokens[i] - zero) % steps[s], 0);
                assert_true(log.slots[i] > log.kept[i]);
                if (i > 0) {
                    assert_int_equal(log.tokens[i] - log.tokens[i - 1], steps[s]);
                    assert_int_equal(log.slots[i], log.kept[i] + steps[s]);
                }
            }
            assert_int_equal(out.stats.compress, log.count);
            assert_true(out.stats.slots <= log.kept[0] + steps[s]);
            assert_true(out.stats.pages <= (log.kept[0] + steps[s] - 1) / B + 2);
        }
}

static void a_token_trigger_holds_one_token_more_than_its_budget(void **state)
{
    (void)state;
    for (size_t p = 4; p < POLICY_COUNT; p++)
        for (uint32_t prompt = 10; prompt <= 90; prompt += 80) {
            struct gp_engine_options options;
            struct gp_request request;
            struct rig_output out;
            struct log log;

            engine_rig_options(&options);
            set_policy(&options.kv, policies[p]);
            uint32_t budget = options.kv.budget_tokens;

            engine_rig_ask(&request, prompt, 150);
            run_logged(&options, &request, &log, &out);
            uint32_t first = (prompt > budget ? prompt : budget) + 1;

            assert_int_equal(log.count, prompt + 150 - 1 - first);
            for (uint32_t i = 0; i < log.count; i++) {
                assert_int_equal(log.tokens[i], first + i);
                assert_int_equal(log.slots[i], i > 0 ? budget + 1 : first);
                assert_int_equal(log.kept[i], budget);
            }
            assert_int_equal(out.stats.slots, budget + 1);
            assert_int_equal(out.stats.pages, budget / B + 1);
            assert_int_equal(out.stats.compress, log.count);
        }
}

/* In float32, for keys that are rotated when they are read are rounded before, not behind. */
static void a_budget_that_is_never_reached_is_full(void **state)
{
    (void)state;
    for (size_t p = 0; p < POLICY_COUNT; p++) {
        struct gp_engine_options options;
        struct gp_request request;
        struct rig_output full, other;

        engine_rig_options(&options);
        options.kv_type = strcmp(policies[p], "streaming:40") ? "f16" : "f32";
        engine_rig_ask(&request, 45, 100);
        request.logprobs = 0;
        set_policy(&options.kv, "full");
        engine_rig_alone(&engine_rig, &options, &request, &full);
        set_policy(&options.kv, policies[p]);
        options.kv.budget_tokens = 160;
        engine_rig_alone(&engine_rig, &options, &request, &other);
        assert_int_equal(other.stats.compress, 0);
        engine_rig_assert_same(&full, &other);
    }
}

/* In a model of one layer, what a token leaves in the cache depends on the token alone. So what
 * the policy holds is the cache of a text: its first four tokens and its newest. */
static void streaming_sees_what_it_holds_as_a_text_of_its_own(void **state)
{
    enum {
        BUDGET = 40,
        PROMPT = 45,
        OUTPUT = 100
    };
    struct gp_engine_options options;
    struct gp_request request, fresh;
    struct rig_output out, again;
    struct test_model m;
    struct rig rig;
    struct log log;

    (void)state;
    engine_rig_model(&m);
    m.layers = 1;
    m.type = GP_TYPE_F32;
    engine_rig_open(&rig, &m, NULL);
    for (int trigger = GP_TRIGGER_PAGE; trigger <= GP_TRIGGER_TOKEN; trigger++) {
        int32_t text[PROMPT + OUTPUT], seen[PROMPT + OUTPUT];
        struct gp_engine *engine;
        uint64_t id;

        engine_rig_options(&options);
        options.kv_type = "f32";
        set_policy(&options.kv, "streaming:40");
        options.kv.trigger = (enum gp_kv_trigger)trigger;
        options.kv.trigger_steps = 9;
        engine_rig_ask(&request, PROMPT, OUTPUT);
        request.logprobs = 0;
        log = (struct log){0};
        assert_int_equal(gp_engine_open(&engine, rig.model, &options, NULL), GP_OK);
        engine->hooks = (struct gp_engine_hooks){.compacting = note_cut, .ctx = &log};
        assert_int_equal(gp_engine_submit(engine, &request, &id, NULL), GP_OK);
        gp_engine_run(engine);
        engine_rig_read(engine, id, 0, &out);
        gp_engine_close(engine);
        memcpy(text, engine_rig_ids, PROMPT * sizeof *text);
        for (uint32_t i = 0; i < OUTPUT; i++)
            text[PROMPT + i] = out.tokens[i].id;
        assert_true(log.count >= 4);
        set_policy(&options.kv, "full");
        for (uint32_t i = 10; i < OUTPUT; i += 11) {
            uint32_t row = PROMPT + i - 1, held = row + 1, at = log.count; /* n_tokens is row */

            while (at > 0 && log.tokens[at - 1] > row)
                at--;
            if (at > 0)
                held = BUDGET + row - log.tokens[at - 1] + 1;
            for (uint32_t s = 0; s < held; s++)
                seen[s] = text[s < 4 ? s : row + 1 - held + s];
            fresh = request;
            fresh.tokens = seen;
            fresh.token_count = held;
            fresh.max_tokens = fresh.forced_count = 1;
            fresh.forced = &out.tokens[i].id;
            engine_rig_alone(&rig, &options, &fresh, &again);
            if (fabsf(again.tokens[0].logprob - out.tokens[i].logprob) > 1e-4f)
                fail_msg("trigger %d, token %u: %g, not %g", trigger, i,
                         (double)out.tokens[i].logprob, (double)again.tokens[0].logprob);
        }
    }
    engine_rig_close(&rig);
}

static void an_engine_without_such_a_policy_takes_nothing_and_refuses_it(void **state)
{
    struct gp_engine_options options;
    struct gp_request request;
    struct gp_engine_info info;
    struct gp_error err;
    uint64_t id;

    (void)state;
    engine_rig_options(&options);
    struct gp_engine *engine = engine_rig_engine(&options);

    gp_engine_info(engine, &info);
    assert_int_equal(info.score_bytes, 0);
    assert_null(engine->cache.windows);
    assert_null(engine->cache.memory);
    assert_null(engine->cache.positions);
    assert_null(engine->cache.rotated);
    assert_null(engine->scored_scratch);
    engine_rig_ask(&request, 20, 10);
    for (size_t p = 0; p < POLICY_COUNT; p++) {
        struct gp_kv_options kv = options.kv;

        set_policy(&kv, policies[p]);
        request.kv = &kv;
        assert_int_equal(gp_engine_submit(engine, &request, &id, &err), GP_EINVAL);
        assert_non_null(strstr(err.message, policies[p]));
        assert_non_null(strstr(err.message, "kv_also"));
    }
    gp_engine_close(engine);
}

static void an_engine_takes_what_the_policies_it_is_told_of_need(void **state)
{
    struct gp_engine_options options;
    struct gp_kv_options also[POLICY_COUNT], wide;
    struct gp_request request;
    struct gp_engine_info info;
    struct rig_output own, among;
    struct gp_error err;
    uint64_t ids[POLICY_COUNT], id;

    (void)state;
    engine_rig_options(&options);
    engine_rig_ask(&request, 45, 120);
    request.logprobs = 0;
    for (size_t p = 0; p < POLICY_COUNT; p++) {
        also[p] = options.kv;
        set_policy(&also[p], policies[p]);
    }
    options.kv_also = also;
    options.kv_also_count = POLICY_COUNT;
    struct gp_engine *engine = engine_rig_engine(&options);

    gp_engine_info(engine, &info);
    assert_true(info.score_bytes > 0);
    for (size_t p = 0; p < POLICY_COUNT; p++) {
        request.kv = &also[p];
        assert_int_equal(gp_engine_submit(engine, &request, &ids[p], NULL), GP_OK);
    }
    wide = also[0];
    wide.scorer.window = 32;
    wide.protect = 16;
    request.kv = &wide;
    assert_int_equal(gp_engine_submit(engine, &request, &id, &err), GP_EINVAL);
    assert_non_null(strstr(err.message, "window"));
    gp_engine_run(engine);
    for (size_t p = 0; p < POLICY_COUNT; p++) {
        struct gp_engine_options alone = options;

        alone.kv = also[p];
        alone.kv_also_count = 0;
        request.kv = NULL;
        engine_rig_alone(&engine_rig, &alone, &request, &own);
        engine_rig_read(engine, ids[p], 0, &among);
        engine_rig_assert_same(&own, &among);
        assert_true(own.stats.compress > 0);
    }
    gp_engine_close(engine);
}

/* A pool far too small, where growth is denied and budgets are cut before they are reached. */
static void everybody_finishes_in_a_pool_that_is_too_small(void **state)
{
    uint64_t fallbacks = 0, preempts = 0;

    (void)state;
    for (size_t p = 0; p < POLICY_COUNT; p++)
        for (int resume = GP_RESUME_REPLAY; resume <= GP_RESUME_RECOMPUTE; resume++) {
            struct gp_engine_options options;
            struct gp_engine_stats stats;
            uint64_t ids[8];

            engine_rig_options(&options);
            set_policy(&options.kv, policies[p]);
            options.kv.resume = (enum gp_kv_resume)resume;
            options.kv_pages = 13;
            struct gp_engine *engine = engine_rig_engine(&options);

            for (uint32_t i = 0; i < 8; i++) {
                struct gp_request request;

                engine_rig_ask(&request, 5 + 7 * i, 60 + 5 * i);
                request.sampling.seed = i;
                assert_int_equal(gp_engine_submit(engine, &request, &ids[i], NULL), GP_OK);
            }
            gp_engine_run(engine);
            for (uint32_t i = 0; i < 8; i++) {
                struct rig_output out;

                engine_rig_read(engine, ids[i], 0, &out);
                assert_int_equal(out.finish, GP_FINISH_LENGTH);
            }
            gp_engine_stats(engine, &stats);
            fallbacks += stats.fallback;
            preempts += stats.preempt;
            assert_int_equal(gp_pool_free_count(engine->pool), gp_pool_total(engine->pool));
            gp_engine_close(engine);
        }
    assert_true(fallbacks > 0 && preempts > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zipage_compacts_every_page_of_tokens),
        cmocka_unit_test(a_steps_trigger_cuts_at_its_steps_and_returns_pages),
        cmocka_unit_test(a_token_trigger_holds_one_token_more_than_its_budget),
        cmocka_unit_test(a_budget_that_is_never_reached_is_full),
        cmocka_unit_test(streaming_sees_what_it_holds_as_a_text_of_its_own),
        cmocka_unit_test(an_engine_without_such_a_policy_takes_nothing_and_refuses_it),
        cmocka_unit_test(an_engine_takes_what_the_policies_it_is_told_of_need),
        cmocka_unit_test(everybody_finishes_in_a_pool_that_is_too_small),
    };

    return cmocka_run_group_tests(tests, engine_rig_setup, engine_rig_teardown);
}
