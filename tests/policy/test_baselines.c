/* Policies with a scorer, in numbers: what they keep, when they cut, what they refuse. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "policy/policy.h"

static uint64_t seed;

#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x))                                                                                  \
            fail_msg("GP_SEED=%" PRIu64 ": %s", seed, #x);                                         \
    } while (0)

static const char *const names[] = {"zipage", "gkv", "rkv",      "morphkv",
                                    "snapkv", "h2o", "streaming"};
#define NAME_COUNT (sizeof names / sizeof names[0])

static struct gp_kv_options options_of(const char *name, uint32_t budget)
{
    struct gp_kv_options o;
    char text[64];

    gp_policy_defaults(&o);
    snprintf(text, sizeof text, "%s:%u", name, budget);
    if (gp_policy_from_text(text, &o, NULL))
        fail_msg("%s", text);
    return o;
}

static void names_read_back_and_pass_the_check(void **state)
{
    (void)state;
    for (size_t i = 0; i < NAME_COUNT; i++)
        for (uint32_t b = 16; b <= 512; b *= 2) {
            struct gp_kv_options o = options_of(names[i], 4096);
            struct gp_error err = {""};
            char text[64], want[64];

            snprintf(want, sizeof want, "%s:4096", names[i]);
            gp_policy_to_text(&o, text);
            assert_string_equal(text, want);
            assert_true(gp_policy_scores(&o));
            if (gp_policy_check(&o, b, &err))
                fail_msg("%s", err.message);
        }
}

static void another_policy_takes_the_trigger_back(void **state)
{
    struct gp_kv_options o = options_of("h2o", 64);

    (void)state;
    assert_int_equal(o.trigger, GP_TRIGGER_TOKEN);
    assert_int_equal(gp_policy_from_text("growpage", &o, NULL), GP_OK);
    assert_int_equal(o.trigger, GP_TRIGGER_PAGE);
    assert_int_equal(gp_policy_check(&o, 64, NULL), GP_OK);
    o.trigger = GP_TRIGGER_STEPS;
    assert_int_equal(gp_policy_check(&o, 64, NULL), GP_EINVAL);
}

/* The pages, the protected and the rest of a budget of 100 in pages of 16. */
static void budgets_in_pages(void **state)
{
    static const struct {
        const char *name;
        enum gp_kv_trigger trigger;
        uint32_t pages, after, kept, protect;
    } table[] = {
        {"zipage", GP_TRIGGER_PAGE, 7, 7, 96, 16}, {"zipage", GP_TRIGGER_PAGE, 12, 7, 96, 16},
        {"zipage", GP_TRIGGER_PAGE, 4, 4, 48, 16}, {"gkv", GP_TRIGGER_PAGE, 8, 8, 100, 16},
        {"gkv", GP_TRIGGER_STEPS, 9, 8, 100, 16},  {"rkv", GP_TRIGGER_PAGE, 8, 8, 100, 8},
        {"snapkv", GP_TRIGGER_PAGE, 5, 5, 64, 8},  {"morphkv", GP_TRIGGER_TOKEN, 9, 8, 100, 32},
        {"h2o", GP_TRIGGER_TOKEN, 7, 7, 96, 50},   {"streaming", GP_TRIGGER_PAGE, 8, 8, 100, 96},
    };

    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct gp_kv_options o = options_of(table[i].name, 100);

        o.trigger = table[i].trigger;
        struct gp_retention r = gp_policy_retention(&o, 16, table[i].pages, GP_DO_COMPRESS);

        assert_int_equal(r.pages_after, table[i].after);
        assert_int_equal(r.keep + r.protect, table[i].kept);
        assert_int_equal(r.protect, table[i].protect);
        assert_int_equal(r.local, 0);
    }
}

/* rows_to_cut() against the definition, asked row after row. */
static bool due(const struct gp_kv_options *o, uint32_t b, uint32_t prefill, uint32_t computed,
                uint32_t cached)
{
    uint32_t budget = o->policy == GP_POLICY_ZIPAGE ? o->budget_tokens / b * b : o->budget_tokens;
    uint32_t zero = o->scorer.count_prompt ? 1 : prefill;

    if (computed <= prefill || cached <= budget)
        return false;
    return o->trigger == GP_TRIGGER_TOKEN || (computed - zero) % o->trigger_steps == 0;
}

static void rows_to_the_next_cut_are_counted_right(void **state)
{
    struct gp_rng rng = {seed};

    (void)state;
    for (uint32_t round = 0; round < 3000; round++) {
        uint32_t b = 16, prefill = 1 + gp_rng_below(&rng, 200);
        struct gp_kv_options o =
            options_of(names[gp_rng_below(&rng, NAME_COUNT)], 40 + gp_rng_below(&rng, 100));

        o.trigger = gp_rng_below(&rng, 2) ? GP_TRIGGER_TOKEN : GP_TRIGGER_STEPS;
        o.trigger_steps = 1 + gp_rng_below(&rng, 50);
        uint32_t computed = gp_rng_below(&rng, 400);
        uint32_t cached = computed - gp_rng_below(&rng, computed + 1);
        uint32_t rows = gp_policy_rows_to_cut(&o, b, prefill, computed, cached);

        for (uint32_t i = 0; i < rows; i++)
            CHECK(!due(&o, b, prefill, computed + i, cached + i));
        CHECK(due(&o, b, prefill, computed + rows, cached + rows));
        o.trigger = GP_TRIGGER_PAGE;
        CHECK(gp_policy_rows_to_cut(&o, b, prefill, computed, cached) == UINT32_MAX);
    }
}

/* A budget that is denied its page is cut below itself only while the newest still fit. */
static void a_cut_always_keeps_more_than_the_newest(void **state)
{
    struct gp_rng rng = {seed};

    (void)state;
    for (uint32_t round = 0; round < 3000; round++) {
        uint32_t b = 16u << gp_rng_below(&rng, 3);
        struct gp_kv_options o =
            options_of(names[gp_rng_below(&rng, NAME_COUNT)], 1 + gp_rng_below(&rng, 300));
        struct gp_boundary_view view = {.page_tokens = b,
                                        .pages = 1 + gp_rng_below(&rng, 30),
                                        .has_summaries = true,
                                        .reached_initial = gp_rng_below(&rng, 2)};

        o.max_pages = gp_rng_below(&rng, 3) ? 0 : 2 + gp_rng_below(&rng, 5);
        if (gp_policy_check(&o, b, NULL))
            continue;
        view.reached_initial =
            gp_policy_initial_pages(&o, b) > 0 &&
            (view.reached_initial || view.pages >= gp_policy_initial_pages(&o, b));
        if (view.reached_initial && view.pages < gp_policy_initial_pages(&o, b))
            continue;
        struct gp_decision d = gp_policy_decide(&o, &view, 0);
        bool compresses = d.action != GP_DO_GROW;

        CHECK(d.action != GP_DO_SHRINK && !gp_policy_wants_signal(&o, &view));
        if (!compresses && !gp_policy_may_compress(&o, &view))
            continue;
        struct gp_retention r = gp_policy_retention(&o, b, view.pages, GP_DO_COMPRESS);

        CHECK(r.keep >= 1 && r.pages_after <= view.pages);
        CHECK(r.keep + r.protect <= (r.pages_after - 1) * b);
        CHECK(r.keep + r.protect <= o.budget_tokens || o.budget_tokens < b);
    }
}

static void break_window(struct gp_kv_options *o)
{
    o->scorer.window = 0;
}
static void break_width(struct gp_kv_options *o)
{
    o->scorer.window = 5000;
}
static void break_decay(struct gp_kv_options *o)
{
    o->scorer.decay = NAN;
}
static void break_lambda(struct gp_kv_options *o)
{
    o->scorer.lambda = 1.5f;
}
static void break_pool(struct gp_kv_options *o)
{
    o->scorer.pool_width = 4;
}
static void break_scale(struct gp_kv_options *o)
{
    o->scorer.redundancy_scale = 0;
}
static void break_enum(struct gp_kv_options *o)
{
    o->scorer.history = (enum gp_score_history)9;
}
static void break_trigger(struct gp_kv_options *o)
{
    o->trigger = GP_TRIGGER_TOKEN;
}
static void break_steps(struct gp_kv_options *o)
{
    o->trigger = GP_TRIGGER_STEPS;
    o->trigger_steps = 0;
}
static void break_many_steps(struct gp_kv_options *o)
{
    o->trigger = GP_TRIGGER_STEPS;
    o->trigger_steps = UINT32_MAX;
}
static void break_budget(struct gp_kv_options *o)
{
    o->budget_tokens = 16;
}
static void break_protect(struct gp_kv_options *o)
{
    o->protect = 64;
}
static void break_max_pages(struct gp_kv_options *o)
{
    o->max_pages = 2;
    o->protect = 20;
}
static void break_source(struct gp_kv_options *o)
{
    o->scorer.source = GP_SCORE_ALL;
}
static void break_places(struct gp_kv_options *o)
{
    o->scorer.cache_positions = true;
}

static void a_scorer_that_makes_no_sense_is_refused_by_name(void **state)
{
    static const struct {
        void (*breaks)(struct gp_kv_options *);
        const char *names;
    } table[] = {
        {break_window, "window"},
        {break_width, "window"},
        {break_decay, "decay"},
        {break_lambda, "lambda"},
        {break_pool, "pool"},
        {break_scale, "redundancy scale"},
        {break_enum, "history"},
        {break_trigger, "kv-trigger"},
        {break_steps, "steps:0"},
        {break_many_steps, "steps:4294967295"},
        {break_budget, "budget"},
        {break_protect, "budget"},
        {break_max_pages, "kv-max-pages"},
        {break_source, "need a window"},
        {break_places, "before RoPE"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct gp_kv_options o = options_of("zipage", 64);
        struct gp_error err = {""};

        assert_int_equal(gp_policy_check(&o, 16, NULL), GP_OK);
        table[i].breaks(&o);
        assert_int_equal(gp_policy_check(&o, 16, &err), GP_EINVAL);
        if (!strstr(err.message, table[i].names))
            fail_msg("%zu: '%s' does not name %s", i, err.message, table[i].names);
    }
}

static void the_others_need_nothing(void **state)
{
    static const char *const texts[] = {"full",   "growpage", "fixed:64",
                                        "random", "inverse",  "shrink"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct gp_kv_options o = options_of("h2o", 64);

        assert_int_equal(gp_policy_from_text(texts[i], &o, NULL), GP_OK);
        struct gp_policy_needs needs = gp_policy_needs(&o);

        assert_true(!needs.scorer && !needs.window && !needs.memory && !needs.positions &&
                    !needs.rotation);
        assert_int_equal(gp_policy_rows_to_cut(&o, 16, 5, 900, 900), UINT32_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_read_back_and_pass_the_check),
        cmocka_unit_test(another_policy_takes_the_trigger_back),
        cmocka_unit_test(budgets_in_pages),
        cmocka_unit_test(rows_to_the_next_cut_are_counted_right),
        cmocka_unit_test(a_cut_always_keeps_more_than_the_newest),
        cmocka_unit_test(a_scorer_that_makes_no_sense_is_refused_by_name),
        cmocka_unit_test(the_others_need_nothing),
    };
    const char *text = getenv("GP_SEED");

    seed = text ? strtoull(text, NULL, 10) : 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
