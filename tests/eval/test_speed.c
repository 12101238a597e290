/* Speed tests time the rows that they say they time, at the depth that they say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "engine/engine_rig.h"
#include "eval/speed.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* What is seen between the steps of a test. */
struct watch {
    struct gp_engine *engine;
    uint32_t sequences;
    uint32_t steps;
    uint32_t stop_at; /* go_on says no at this step; 0: never */
    /* Tokens that the sequences hold when all of them have begun to decode. */
    uint32_t depth_min, depth_max;
    bool all_decode;
};

/* Tokens of every sequence, if all have a token to decode from. */
static void look(struct watch *watch)
{
    uint32_t count = 0, low = UINT32_MAX, high = 0;

    for (uint32_t i = 0; i < watch->engine->owner_count; i++) {
        const struct choice *choice = watch->engine->owners[i].choice;

        if (!choice || !choice->seq || choice->output_count == 0)
            continue;
        uint32_t computed = choice->seq->computed;
        count++;
        low = computed < low ? computed : low;
        high = computed > high ? computed : high;
    }
    if (count < watch->sequences || watch->all_decode)
        return;
    watch->all_decode = true;
    watch->depth_min = low;
    watch->depth_max = high;
}

static bool go_on(void *ctx)
{
    struct watch *watch = ctx;

    look(watch);
    watch->steps++;
    return watch->stop_at == 0 || watch->steps < watch->stop_at;
}

static struct gp_engine *open_for(const struct gp_speed_test *test, uint32_t chunk,
                                  uint32_t kv_pages)
{
    struct gp_engine_options options;

    engine_rig_options(&options);
    options.max_batch_tokens = chunk;
    options.kv_pages = kv_pages;
    options.kv.policy = GP_POLICY_FULL;
    gp_speed_fit(test, &options);
    return engine_rig_engine(&options);
}

static int measure(struct watch *watch, const struct gp_speed_test *test, uint32_t repetition,
                   struct gp_speed_time *time, bool *complete, struct gp_error *err)
{
    struct gp_model_info info;
    struct gp_speed speed = {
        .engine = watch->engine,
        .seed = 3,
        .go_on = go_on,
        .ctx = watch,
    };

    gp_model_info(engine_rig.model, &info);
    speed.vocab = info.vocab_count;
    gp_sampling_init(&speed.sampling);
    watch->sequences = test->sequences;
    watch->all_decode = false;
    return gp_speed_measure(&speed, test, repetition, time, complete, err);
}

static struct gp_engine_stats stats_of(struct gp_engine *engine)
{
    struct gp_engine_stats stats;

    gp_engine_stats(engine, &stats);
    return stats;
}

static void assert_idle(struct gp_engine *engine)
{
    struct gp_engine_stats stats = stats_of(engine);

    assert_int_equal(stats.running + stats.waiting + stats.pages_used, 0);
    assert_int_equal(gp_engine_step(engine), 0);
}

static void a_prompt_behind_a_context_is_timed_alone(void **state)
{
    static const uint32_t depths[] = {0, 1, 31, 32, 33, 200}, prompts[] = {1, 32, 45},
                          counts[] = {1, 3};

    (void)state;
    for (uint32_t n = 0; n < COUNT(depths) * COUNT(prompts) * COUNT(counts); n++) {
        struct gp_speed_test test = {
            .depth = depths[n % COUNT(depths)],
            .prompt_tokens = prompts[n / COUNT(depths) % COUNT(prompts)],
            .sequences = counts[n / COUNT(depths) / COUNT(prompts)],
        };
        const uint32_t chunk = 32;
        struct watch watch = {.engine = open_for(&test, chunk, 512)};
        uint32_t filler = (chunk - test.depth % chunk) % chunk;
        struct gp_speed_time time;
        struct gp_error err;
        bool complete = false;

        for (uint32_t repetition = 0; repetition < 2; repetition++) {
            uint64_t before = stats_of(watch.engine).rows;
            /* The steps are counted inside: rows that ended beside the context would fail it. */
            if (measure(&watch, &test, repetition, &time, &complete, &err))
                fail_msg("depth %u, prompt %u: %s", test.depth, test.prompt_tokens, err.message);
            assert_true(complete);
            assert_int_equal(time.tokens, test.sequences * test.prompt_tokens);
            assert_int_equal(stats_of(watch.engine).rows - before,
                             time.tokens + (uint64_t)test.sequences *
                                               (test.depth > 0 ? test.depth + filler : 0));
        }
        assert_idle(watch.engine);
        gp_engine_close(watch.engine);
    }
}

static void sequences_decode_together_from_their_depth_on(void **state)
{
    static const uint32_t depths[] = {0, 1, 7, 64, 200}, counts[] = {1, 2, 5, 16},
                          chunks[] = {16, 64};

    (void)state;
    for (uint32_t n = 0; n < COUNT(depths) * COUNT(counts) * COUNT(chunks); n++) {
        struct gp_speed_test test = {
            .depth = depths[n % COUNT(depths)],
            .sequences = counts[n / COUNT(depths) % COUNT(counts)],
            .output_tokens = 12,
        };
        struct watch watch = {
            .engine = open_for(&test, chunks[n / COUNT(depths) / COUNT(counts)], 2048),
        };
        uint32_t depth = test.depth > 0 ? test.depth : 1;
        struct gp_speed_time time;
        struct gp_error err;
        bool complete = false;

        for (uint32_t repetition = 0; repetition < 2; repetition++) {
            if (measure(&watch, &test, repetition, &time, &complete, &err))
                fail_msg("depth %u, %u sequences: %s", test.depth, test.sequences, err.message);
            assert_true(complete && watch.all_decode);
            assert_int_equal(time.tokens, test.sequences * test.output_tokens);
            /* Alone it is exact.  Together the first may be a step or two ahead; where it could not
             * start with less than a token, it is as far ahead as that took. */
            if (test.sequences == 1)
                assert_int_equal(watch.depth_min, depth);
            if (watch.depth_min + 3 < depth ||
                (depth >= 64 && watch.depth_max > depth + 3 && test.sequences < 16))
                fail_msg("depth %u, %u sequences: %u to %u", depth, test.sequences, watch.depth_min,
                         watch.depth_max);
        }
        assert_idle(watch.engine);
        gp_engine_close(watch.engine);
    }
}

static void a_test_that_is_stopped_leaves_nothing_behind(void **state)
{
    static const struct gp_speed_test tests[] = {{100, 0, 0, 3}, {20, 0, 100, 2}, {0, 50, 60, 4}};

    (void)state;
    for (uint32_t i = 0; i < COUNT(tests); i++) {
        uint64_t live = gp_mem_live();
        struct watch watch = {.engine = open_for(&tests[i], 32, 512)};

        for (uint32_t stop_at = 1; stop_at < 6; stop_at++) {
            struct gp_speed_time time = {77, 77};
            struct gp_error err;
            bool complete = true;

            watch.steps = 0;
            watch.stop_at = stop_at;
            assert_int_equal(measure(&watch, &tests[i], 1, &time, &complete, &err), GP_OK);
            assert_false(complete);
            assert_int_equal(time.tokens, 77);
            assert_idle(watch.engine);
        }
        gp_engine_close(watch.engine);
        assert_int_equal(gp_mem_live(), live);
    }
}

static void refused_memory_is_told_and_loses_nothing(void **state)
{
    struct gp_speed_test test = {.depth = 20, .output_tokens = 5, .sequences = 2};
    struct watch watch = {.engine = open_for(&test, 32, 512)};
    uint64_t live = gp_mem_live();
    bool refused = true;

    (void)state;
    for (uint32_t nth = 1; refused; nth++) {
        struct gp_speed_time time;
        struct gp_error err = {""};
        bool complete;

        gp_mem_refuse_at(nth);
        int rc = measure(&watch, &test, 1, &time, &complete, &err);
        refused = gp_mem_refused();
        gp_mem_refuse_at(0);
        assert_int_equal(rc, refused ? GP_ENOMEM : GP_OK);
        assert_int_equal(gp_mem_live(), live);
        assert_idle(watch.engine);
        assert_true(nth > 1 || refused);
    }
    gp_engine_close(watch.engine);
}

static void a_cache_that_is_too_small_is_named(void **state)
{
    /* Pages of 16: the second sequence, or the tokens that are generated, find no page. */
    static const struct {
        struct gp_speed_test test;
        uint32_t pages;
    } cases[] = {{{0, 8, 60, 2}, 6}, {{0, 60, 20, 2}, 6}, {{20, 0, 50, 1}, 5}};

    (void)state;
    for (uint32_t i = 0; i < COUNT(cases); i++) {
        struct watch watch = {.engine = open_for(&cases[i].test, 32, cases[i].pages)};
        char words[64];
        struct gp_speed_time time;
        struct gp_error err = {""};
        bool complete;

        if (measure(&watch, &cases[i].test, 0, &time, &complete, &err) != GP_EINVAL)
            fail_msg("case %u was measured", i);
        snprintf(words, sizeof words, "cache of %u pages of 16 tokens", cases[i].pages);
        if (!strstr(err.message, words))
            fail_msg("%s", err.message);
        assert_idle(watch.engine);
        gp_engine_close(watch.engine);
    }
}

static void names_are_llama_benchs(void **state)
{
    static const struct {
        struct gp_speed_test test;
        const char *name;
        uint64_t tokens;
    } cases[] = {
        {{512, 0, 0, 1}, "pp512", 512},
        {{0, 128, 0, 4}, "tg128", 129},
        {{512, 0, 2048, 1}, "pp512 @ d2048", 2560},
        {{0, 128, 2048, 1}, "tg128 @ d2048", 2176},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char name[GP_SPEED_NAME_BYTES];

        gp_speed_name(&cases[i].test, name);
        assert_string_equal(name, cases[i].name);
        assert_int_equal(gp_speed_tokens(&cases[i].test), cases[i].tokens);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_behind_a_context_is_timed_alone),
        cmocka_unit_test(sequences_decode_together_from_their_depth_on),
        cmocka_unit_test(a_test_that_is_stopped_leaves_nothing_behind),
        cmocka_unit_test(refused_memory_is_told_and_loses_nothing),
        cmocka_unit_test(a_cache_that_is_too_small_is_named),
        cmocka_unit_test(names_are_llama_benchs),
    };

    return cmocka_run_group_tests_name("eval/speed", tests, engine_rig_setup, engine_rig_teardown);
}
