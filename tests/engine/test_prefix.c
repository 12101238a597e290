/* Pages shared between requests that begin alike: whoever takes them, gives them, or loses them,
 * every request gives the tokens that it gives with nothing shared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine_rig.h"

#define PROMPT 70u /* four full pages of 16, and a part of one */
#define OUTPUT 60u

static void ask(struct gp_request *request, uint32_t seed)
{
    engine_rig_ask(request, PROMPT, OUTPUT);
    request->logprobs = 0;
    request->sampling.temperature = 0.8f;
    request->sampling.seed = seed;
}

static void open_with(struct gp_engine_options *options, const char *policy)
{
    engine_rig_options(options);
    engine_rig_set_policy(options, policy);
    options->kv.fallback = GP_FALLBACK_PREEMPT;
}

/* What a request gives in an engine of its own that shares nothing. */
static void run_unshared(const struct gp_engine_options *options, const struct gp_request *request,
                         struct rig_output *out)
{
    struct gp_engine_options unshared = *options;

    unshared.no_prefix_cache = true;
    engine_rig_alone(&engine_rig, &unshared, request, out);
    assert_int_equal(out->stats.cached_tokens, 0);
}

static void assert_as_unshared(struct gp_engine *engine, uint64_t id,
                               const struct gp_engine_options *options,
                               const struct gp_request *request, struct rig_output *out)
{
    struct rig_output unshared;

    engine_rig_read(engine, id, 0, out);
    run_unshared(options, request, &unshared);
    engine_rig_assert_same(&unshared, out);
}

static void assert_all_pages_back(struct gp_engine *engine)
{
    assert_int_equal(gp_pool_free_count(engine->pool), gp_pool_total(engine->pool));
    gp_engine_close(engine);
}

static bool takes_hits(const struct gp_engine_options *options)
{
    return !gp_policy_needs(&options->kv).every_row;
}

/* Tokens of a prompt with a page in the index that need not be computed, at least. */
static uint32_t least_cached(const struct gp_engine_options *options, uint32_t prompt)
{
    uint32_t window = gp_policy_needs(&options->kv).window;
    uint32_t left = prompt > window ? prompt - window : 0;

    return left < 16 ? left : 16;
}

/* A donor that compacts takes its pages out of the index: there are hits as long as none has. */
static void a_hit_gives_the_same_tokens(void **state)
{
    uint32_t hits = 0;

    (void)state;
    for (uint32_t p = 0; p < RIG_POLICIES; p++) {
        struct gp_engine_options options;
        struct gp_engine_stats before;
        struct rig_output out;
        struct gp_engine *engine;

        open_with(&options, engine_rig_policies[p]);
        options.kv_type = p % 2 ? "q8_0" : "f16";
        engine = engine_rig_engine(&options);
        for (uint32_t i = 0; i < 3; i++) {
            struct gp_request request;
            uint64_t id;

            ask(&request, i);
            request.token_count = PROMPT - 11 * i; /* 70, 59, 48: the last ends with a page */
            request.max_tokens = i == 0 ? 8 : OUTPUT;
            gp_engine_stats(engine, &before);
            assert_int_equal(gp_engine_submit(engine, &request, &id, NULL), GP_OK);
            gp_engine_run(engine);
            assert_as_unshared(engine, id, &options, &request, &out);
            if (i == 0 || !takes_hits(&options) || before.compress + before.shrink > 0)
                assert_int_equal(out.stats.cached_tokens, 0);
            else
                assert_in_range(out.stats.cached_tokens,
                                least_cached(&options, request.token_count),
                                request.token_count - 1);
            hits += out.stats.cached_tokens > 0;
            gp_engine_release(engine, id);
        }
        assert_all_pages_back(engine);
    }
    assert_true(hits > RIG_POLICIES / 2);
}

/* Both run at once; the one compacts under the other's eyes, in both orders. */
static void sharers_may_compact_in_any_order(void **state)
{
    (void)state;
    for (uint32_t p = 1 % RIG_STRIDE; p < RIG_POLICIES; p += RIG_STRIDE)
        for (uint32_t delay = 5; delay < 60; delay += 18) {
            struct gp_engine_options options;
            struct gp_request requests[3];
            struct rig_output out;
            struct gp_engine *engine;
            uint64_t ids[3];

            open_with(&options, engine_rig_policies[p]);
            engine = engine_rig_engine(&options);
            for (uint32_t i = 0; i < 3; i++) {
                ask(&requests[i], i);
                assert_int_equal(gp_engine_submit(engine, &requests[i], &ids[i], NULL), GP_OK);
                for (uint32_t step = 0; step < delay; step++)
                    gp_engine_step(engine);
            }
            gp_engine_run(engine);
            for (uint32_t i = 0; i < 3; i++) {
                assert_as_unshared(engine, ids[i], &options, &requests[i], &out);
                gp_engine_release(engine, ids[i]);
            }
            assert_all_pages_back(engine);
        }
}

/* All hashes are one, so every look meets pages of other texts. */
static void a_collision_is_never_a_hit(void **state)
{
    struct gp_engine_options options;
    struct rig_output out;
    struct gp_engine *engine;
    int32_t prompt[PROMPT];

    (void)state;
    open_with(&options, "full");
    engine = engine_rig_engine(&options);
    gp_prefix_force_hash(gp_sched_prefix(engine->sched), 7);
    for (uint32_t i = 0; i < 12; i++) {
        struct gp_request request;
        uint64_t id;

        ask(&request, 1);
        engine_rig_prompt(prompt, PROMPT, 50 + i % 6);
        request.tokens = prompt;
        assert_int_equal(gp_engine_submit(engine, &request, &id, NULL), GP_OK);
        gp_engine_run(engine);
        assert_as_unshared(engine, id, &options, &request, &out);
        assert_int_equal(out.stats.cached_tokens, i < 6 ? 0 : PROMPT / 16 * 16);
        gp_engine_release(engine, id);
    }
    assert_all_pages_back(engine);
}

/* The pool holds about two of them: what was cached is soon overwritten. */
static void what_was_overwritten_is_found_no_more(void **state)
{
    struct gp_engine_options options;
    struct rig_output out;
    struct gp_engine *engine;
    int32_t prompt[PROMPT];
    uint32_t hits = 0, misses = 0;

    (void)state;
    open_with(&options, "full");
    options.kv_pages = 18;
    engine = engine_rig_engine(&options);
    for (uint32_t i = 0; i < 24; i++) {
        struct gp_request request;
        uint64_t id;

        ask(&request, 1);
        engine_rig_prompt(prompt, PROMPT, 50 + (i * i + i / 3) % 5);
        request.tokens = prompt;
        assert_int_equal(gp_engine_submit(engine, &request, &id, NULL), GP_OK);
        gp_engine_run(engine);
        assert_as_unshared(engine, id, &options, &request, &out);
        hits += out.stats.cached_tokens > 0;
        misses += out.stats.cached_tokens == 0;
        gp_engine_release(engine, id);
    }
    assert_true(hits > 0 && misses > 5);
    assert_all_pages_back(engine);
}

static void choices_share_the_prompt(void **state)
{
    (void)state;
    for (uint32_t p = 0; p < RIG_POLICIES; p++) {
        struct gp_engine_options options;
        struct gp_request request;
        struct gp_engine *engine, *unshared;
        struct gp_engine_stats stats;
        struct rig_output a, b;
        uint64_t id, other;

        open_with(&options, engine_rig_policies[p]);
        engine = engine_rig_engine(&options);
        options.no_prefix_cache = true;
        unshared = engine_rig_engine(&options);
        ask(&request, 3);
        request.n = 4;
        request.max_tokens = 8; /* within the page that the prompt has begun */
        assert_int_equal(gp_engine_submit(engine, &request, &id, NULL), GP_OK);
        assert_int_equal(gp_engine_submit(unshared, &request, &other, NULL), GP_OK);
        gp_engine_run(engine);
        gp_engine_run(unshared);
        for (uint32_t i = 0; i < 4; i++) {
            engine_rig_read(engine, id, i, &a);
            engine_rig_read(unshared, other, i, &b);
            engine_rig_assert_same(&a, &b);
            if (i > 0 && takes_hits(&options))
                assert_in_range(a.stats.cached_tokens, 16, PROMPT - 1);
        }
        gp_engine_stats(engine, &stats);
        /* Four full pages for all, and a fifth for each; nothing has been cut by then. */
        if (takes_hits(&options) && stats.compress == 0)
            assert_int_equal(stats.pages_used_max, 4 + 4);
        gp_engine_release(engine, id);
        gp_engine_release(unshared, other);
        assert_all_pages_back(engine);
        assert_all_pages_back(unshared);
    }
}

/* Steps until choice 1 has `tokens` of its own, and takes its pages away. */
static void preempt_behind(struct gp_engine *engine, uint64_t id, uint32_t tokens)
{
    while (gp_engine_read(engine, id, 1, tokens - 1, &(struct gp_token){0}, 1, NULL) == 0)
        gp_engine_step(engine);
    struct gp_seq *seq = engine_rig_seq(engine, id, 1);

    assert_int_equal(seq->state, GP_SEQ_RUNNING);
    gp_sched_preempt(engine->sched, seq);
}

/* A prompt that ends with a page, or beside its edge: what a choice of it copies when it comes
 * back, while the first one runs, is the rest of the prompt, or nothing. */
static void a_choice_comes_back_behind_a_whole_prompt(void **state)
{
    (void)state;
    for (uint32_t p = 0; p < RIG_POLICIES; p += RIG_STRIDE)
        for (uint32_t at = 0; at < 9; at++) {
            struct gp_engine_options options;
            struct gp_request request;
            struct rig_output undisturbed, out;
            struct gp_engine *engine, *unshared;
            uint64_t id, other;

            open_with(&options, engine_rig_policies[p]);
            if (p == 0 && at % 2)
                options.kv.resume = GP_RESUME_RECOMPUTE;
            engine = engine_rig_engine(&options);
            options.no_prefix_cache = true;
            unshared = engine_rig_engine(&options);
            ask(&request, 5);
            request.token_count = 47 + at % 3;
            request.n = 2;
            assert_int_equal(gp_engine_submit(engine, &request, &id, NULL), GP_OK);
            assert_int_equal(gp_engine_submit(unshared, &request, &other, NULL), GP_OK);
            preempt_behind(engine, id, 1 + 8 * (at / 3));
            gp_engine_run(engine);
            gp_engine_run(unshared);
            for (uint32_t i = 0; i < 2; i++) {
                engine_rig_read(engine, id, i, &out);
                engine_rig_read(unshared, other, i, &undisturbed);
                assert_int_equal(out.stats.preempt, i);
                engine_rig_assert_same(&undisturbed, &out);
            }
            gp_engine_release(engine, id);
            gp_engine_release(unshared, other);
            assert_all_pages_back(engine);
            assert_all_pages_back(unshared);
        }
}

static void prompt_logprobs_do_not_depend_on_hits(void **state)
{
    struct gp_engine_options options;
    struct gp_engine *engine;
    float first[PROMPT];

    (void)state;
    open_with(&options, "growpage");
    engine = engine_rig_engine(&options);
    for (uint32_t i = 0; i < 3; i++) {
        struct gp_request request;
        uint64_t id;

        ask(&request, 1);
        request.prompt_logprobs = 2;
        request.max_tokens = 1;
        assert_int_equal(gp_engine_submit(engine, &request, &id, NULL), GP_OK);
        gp_engine_run(engine);
        for (uint32_t t = 1; t < PROMPT; t++) {
            float logprob = gp_engine_prompt_logprob(engine, id, t);
            struct gp_logprob best[2];

            assert_true(logprob < 0);
            if (i == 0)
                first[t] = logprob;
            assert_memory_equal(&first[t], &logprob, sizeof logprob);
            assert_int_equal(gp_engine_alternatives(engine, id, 0, true, t, best, 2), 2);
        }
        gp_engine_release(engine, id);
    }
    assert_all_pages_back(engine);
}

static void another_salt_shares_nothing(void **state)
{
    static const char *const salts[] = {NULL, "a", "b", "a", "", NULL};
    static const bool known[] = {false, false, false, true, true, true};
    struct gp_engine_options options;
    struct rig_output out;
    struct gp_engine *engine;

    (void)state;
    open_with(&options, "full");
    engine = engine_rig_engine(&options);
    for (uint32_t i = 0; i < sizeof salts / sizeof *salts; i++) {
        struct gp_request request;
        uint64_t id;

        ask(&request, 1);
        request.cache_salt = salts[i];
        assert_int_equal(gp_engine_submit(engine, &request, &id, NULL), GP_OK);
        gp_engine_run(engine);
        assert_as_unshared(engine, id, &options, &request, &out);
        assert_int_equal(out.stats.cached_tokens > 0, known[i]);
        gp_engine_release(engine, id);
    }
    assert_all_pages_back(engine);
}

static uint32_t most_compacting(struct gp_engine *engine)
{
    uint32_t count = 0;

    for (struct gp_seq *seq = gp_sched_first_running(engine->sched); seq; seq = seq->next)
        count += seq->compacting;
    return count;
}

/* Alone, among others, and cancelled while it is in flight. */
static void compacting_beside_the_steps_changes_no_token(void **state)
{
    uint32_t in_flight = 0, cancelled = 0;

    (void)state;
    for (uint32_t p = 0; p < RIG_POLICIES; p++) {
        struct gp_engine_options options;
        struct gp_request requests[8];
        struct rig_output sync, async;
        struct gp_engine *engine;
        uint64_t ids[8], dropped;

        open_with(&options, engine_rig_policies[p]);
        options.threads = 2;
        engine = engine_rig_engine(&options);
        for (uint32_t i = 0; i < 8; i++) {
            ask(&requests[i], i);
            requests[i].token_count = 20 + 6 * i;
            assert_int_equal(gp_engine_submit(engine, &requests[i], &ids[i], NULL), GP_OK);
        }
        assert_int_equal(gp_engine_submit(engine, &requests[7], &dropped, NULL), GP_OK);
        while (gp_engine_step(engine)) {
            struct gp_seq *seq = engine_rig_seq(engine, dropped, 0);

            in_flight += most_compacting(engine);
            if (seq && seq->compacting && seq->items_done > 0) {
                gp_engine_cancel(engine, dropped);
                cancelled++;
            }
        }
        gp_engine_release(engine, dropped);
        options.kv_sync = true;
        for (uint32_t i = 0; i < 8; i++) {
            engine_rig_read(engine, ids[i], 0, &async);
            engine_rig_alone(&engine_rig, &options, &requests[i], &sync);
            engine_rig_assert_same(&sync, &async);
            gp_engine_release(engine, ids[i]);
        }
        assert_all_pages_back(engine);
    }
    assert_true(in_flight > 0);
    print_message("# %u steps with a compaction in flight, %u cancelled in it\n", in_flight,
                  cancelled);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hit_gives_the_same_tokens),
        cmocka_unit_test(sharers_may_compact_in_any_order),
        cmocka_unit_test(a_collision_is_never_a_hit),
        cmocka_unit_test(what_was_overwritten_is_found_no_more),
        cmocka_unit_test(choices_share_the_prompt),
        cmocka_unit_test(a_choice_comes_back_behind_a_whole_prompt),
        cmocka_unit_test(prompt_logprobs_do_not_depend_on_hits),
        cmocka_unit_test(another_salt_shares_nothing),
        cmocka_unit_test(compacting_beside_the_steps_changes_no_token),
    };

    return cmocka_run_group_tests(tests, engine_rig_setup, engine_rig_teardown);
}
