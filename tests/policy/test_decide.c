/* Decisions at a boundary and the numbers of a compaction. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "policy/policy.h"

static uint64_t seed;

#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x))                                                                                  \
            fail_msg("GP_SEED=%" PRIu64 ": %s", seed, #x);                                         \
    } while (0)

#define GROW     GP_DO_GROW
#define COMPRESS GP_DO_COMPRESS
#define SHRINK   GP_DO_SHRINK

struct boundary_case {
    const char *policy;
    uint32_t pages, max_pages;
    bool summaries, initial;
    double pressure; /* with half of the pool in use */
    double delta;
    bool asks;
    enum gp_policy_action action;
    enum gp_policy_cause cause;
};

static struct gp_kv_options options_of(const char *policy)
{
    struct gp_kv_options o;

    gp_policy_defaults(&o);
    assert_int_equal(gp_policy_from_text(policy, &o, NULL), GP_OK);
    return o;
}

/* clang-format off */
static const struct boundary_case cases[] = {
    /* policy             P  max  sums   init   press delta    asks   action    cause             */
    /* No summaries: everybody grows, past any cap. */
    {"full",              3, 0,   false, false, 0,    0,       false, GROW,     GP_BECAUSE_START},
    {"growpage",          9, 4,   false, true,  0,    -1,      false, GROW,     GP_BECAUSE_START},
    {"fixed:64",          9, 0,   false, true,  0,    0,       false, GROW,     GP_BECAUSE_START},
    {"random:1",          3, 0,   false, true,  0,    0,       false, GROW,     GP_BECAUSE_START},
    {"growpage",          1, 0,   false, false, 0,    0,       false, GROW,     GP_BECAUSE_START},
    /* full: a primary growth, whatever else is set. */
    {"full",              3, 2,   true,  false, 1,    -1,      false, GROW,     GP_BECAUSE_POLICY},
    /* Below the initial pages nobody is asked. */
    {"growpage",          3, 0,   true,  false, 0,    -1,      false, GROW,     GP_BECAUSE_INITIAL},
    {"inverse",           3, 0,   true,  false, 0,    1,       false, GROW,     GP_BECAUSE_INITIAL},
    {"shrink",            3, 0,   true,  false, 0,    -1,      false, GROW,     GP_BECAUSE_INITIAL},
    {"random:1",          3, 0,   true,  false, 0,    0,       false, GROW,     GP_BECAUSE_INITIAL},
    {"fixed:64",          3, 0,   true,  false, 0,    0,       false, GROW,     GP_BECAUSE_INITIAL},
    {"growpage",          3, 3,   true,  false, 0,    -1,      false, COMPRESS, GP_BECAUSE_CAPPED},
    {"fixed:64",          3, 3,   true,  false, 0,    0,       false, COMPRESS, GP_BECAUSE_CAPPED},
    {"growpage",          1, 0,   true,  true,  0,    -1,      false, GROW,     GP_BECAUSE_INITIAL},
    /* A pool that is empty enough; a fixed budget stays one. */
    {"growpage",          3, 0,  true,  true,  0.6,  -1,      false, GROW,     GP_BECAUSE_PRESSURE},
    {"random:1",          3, 0,  true,  true,  0.6,  -1,      false, GROW,     GP_BECAUSE_PRESSURE},
    {"growpage",          3, 3,   true,  true,  0.6,  1,       false, COMPRESS, GP_BECAUSE_CAPPED},
    {"growpage",          3, 0,   true,  true,  0.5,  -1,      true,  COMPRESS, GP_BECAUSE_POLICY},
    {"fixed:64",          4, 0,   true,  true,  0.6,  0,       false, COMPRESS, GP_BECAUSE_POLICY},
    /* The policies speak. */
    {"growpage",          3, 0,   true,  true,  0,    1e-12,   true,  GROW,     GP_BECAUSE_POLICY},
    {"growpage",          3, 0,   true,  true,  0,    0,       true,  COMPRESS, GP_BECAUSE_POLICY},
    {"growpage",          3, 0,   true,  true,  0,    -1e-12,  true,  COMPRESS, GP_BECAUSE_POLICY},
    {"growpage",          3, 3,   true,  true,  0,    1,       true,  COMPRESS, GP_BECAUSE_CAPPED},
    {"growpage",          3, 4,   true,  true,  0,    1,       true,  GROW,     GP_BECAUSE_POLICY},
    {"growpage",          5, 3,   true,  true,  0,    -1,      true,  COMPRESS, GP_BECAUSE_POLICY},
    {"inverse",           3, 0,   true,  true,  0,    1e-12,   true,  COMPRESS, GP_BECAUSE_POLICY},
    {"inverse",           3, 0,   true,  true,  0,    0,       true,  GROW,     GP_BECAUSE_POLICY},
    {"inverse",           3, 3,   true,  true,  0,    0,       true,  COMPRESS, GP_BECAUSE_CAPPED},
    {"fixed:64",          4, 0,   true,  true,  0,    0,       false, COMPRESS, GP_BECAUSE_POLICY},
    {"random:0",          3, 0,   true,  true,  0,    0,       false, GROW,     GP_BECAUSE_POLICY},
    {"random:1",          3, 0,   true,  true,  0,    0,       false, COMPRESS, GP_BECAUSE_POLICY},
    {"random:0",          3, 3,   true,  true,  0,    0,       false, COMPRESS, GP_BECAUSE_CAPPED},
    {"shrink:-0.005:0",   3, 0,   true,  true,  0,    -0.0051, true,  SHRINK,   GP_BECAUSE_POLICY},
    {"shrink:-0.005:0",   3, 0,   true,  true,  0,    -0.005,  true,  COMPRESS, GP_BECAUSE_POLICY},
    {"shrink:-0.005:0",   3, 0,   true,  true,  0,    0,       true,  COMPRESS, GP_BECAUSE_POLICY},
    {"shrink:-0.005:0",   3, 0,   true,  true,  0,    0.001,   true,  GROW,     GP_BECAUSE_POLICY},
    /* Shrinking stops at two pages of slots, and at the floor: pages of 16 tokens. */
    {"shrink:-0.005:0",   2, 0,   true,  true,  0,    -1,      true,  COMPRESS, GP_BECAUSE_POLICY},
    {"shrink:-0.005:48",  4, 0,   true,  true,  0,    -1,      true,  SHRINK,   GP_BECAUSE_POLICY},
    {"shrink:-0.005:49",  4, 0,   true,  true,  0,    -1,      true,  COMPRESS, GP_BECAUSE_POLICY},
};
/* clang-format on */

static void decisions_are_those_of_the_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct boundary_case *c = &cases[i];
        struct gp_kv_options o = options_of(c->policy);
        struct gp_boundary_view view = {
            .page_tokens = 16,
            .pages = c->pages,
            .pool_used = 50,
            .pool_total = 100,
            .has_summaries = c->summaries,
            .reached_initial = c->initial,
        };

        o.max_pages = c->max_pages;
        o.pressure = c->pressure;
        struct gp_decision d = gp_policy_decide(&o, &view, c->delta);

        if (gp_policy_wants_signal(&o, &view) != c->asks || d.action != c->action ||
            d.cause != c->cause)
            fail_msg("case %zu (%s): action %d cause %d", i, c->policy, d.action, d.cause);
    }
}

/* Where no signal is wanted, its value changes nothing. */
static void unasked_signal_is_not_read(void **state)
{
    static const char *const policies[] = {"full",       "growpage", "fixed:64",
                                           "random:0.5", "inverse",  "shrink:-0.005:0"};
    struct gp_rng rng = {seed};

    (void)state;
    for (uint32_t i = 0; i < 20000; i++) {
        struct gp_kv_options o = options_of(policies[gp_rng_below(&rng, 6)]);
        struct gp_boundary_view view = {
            .page_tokens = 16,
            .pages = 1 + gp_rng_below(&rng, 6),
            .pool_used = gp_rng_below(&rng, 101),
            .pool_total = 100,
            .index = gp_rng_below(&rng, 50),
            .has_summaries = gp_rng_below(&rng, 2),
            .reached_initial = gp_rng_below(&rng, 2),
        };

        o.pressure = gp_rng_below(&rng, 2) ? 0.5 : 0;
        o.max_pages = gp_rng_below(&rng, 2) ? 4 : 0;
        struct gp_decision low = gp_policy_decide(&o, &view, -1);
        struct gp_decision high = gp_policy_decide(&o, &view, 1);

        if (!gp_policy_wants_signal(&o, &view))
            CHECK(low.action == high.action && low.cause == high.cause);
        /* Only who can score something is ever told to compress. */
        if (low.action != GP_DO_GROW)
            CHECK(gp_policy_may_compress(&o, &view));
        if (o.policy == GP_POLICY_FULL)
            CHECK(low.action == GP_DO_GROW && high.action == GP_DO_GROW);
    }
}

static void random_draws_by_seed_and_index_alone(void **state)
{
    struct gp_kv_options o = options_of("random:0.3");
    struct gp_boundary_view view = {
        .page_tokens = 16,
        .pages = 3,
        .pool_total = 9,
        .has_summaries = true,
        .reached_initial = true,
    };
    uint32_t compressed = 0, differ = 0;

    (void)state;
    for (uint32_t i = 0; i < 10000; i++) {
        view.index = i;
        o.seed = seed;
        view.pages = 2 + i % 5;
        enum gp_policy_action action = gp_policy_decide(&o, &view, 0).action;

        view.pages = 7;
        view.pool_used = i % 9;
        CHECK(gp_policy_decide(&o, &view, 0.5).action == action);
        compressed += action == GP_DO_COMPRESS;
        o.seed = seed + 1;
        differ += gp_policy_decide(&o, &view, 0).action != action;
    }
    /* Five standard deviations of a binomial. */
    CHECK(compressed > 3000 - 230 && compressed < 3000 + 230);
    CHECK(differ > 4200 - 250 && differ < 4200 + 250);
}

static void initial_pages_are_the_budgets_for_fixed(void **state)
{
    struct gp_kv_options o = options_of("growpage");

    (void)state;
    assert_int_equal(gp_policy_initial_pages(&o, 16), 12);
    o = options_of("full");
    assert_int_equal(gp_policy_initial_pages(&o, 16), 0);
    o = options_of("fixed:100");
    assert_int_equal(gp_policy_initial_pages(&o, 16), 6);
    assert_int_equal(gp_policy_initial_pages(&o, 64), 2);
}

static void only_compressors_with_history_may_compress(void **state)
{
    struct gp_kv_options full = options_of("full"), grow = options_of("growpage");
    struct gp_boundary_view view = {.page_tokens = 16, .pages = 2, .has_summaries = true};

    (void)state;
    assert_true(gp_policy_may_compress(&grow, &view));
    assert_false(gp_policy_may_compress(&full, &view));
    view.pages = 1;
    assert_false(gp_policy_may_compress(&grow, &view));
    view.pages = 2;
    view.has_summaries = false;
    assert_false(gp_policy_may_compress(&grow, &view));
}

/* ---- retention ---- */

static void worked_example(void **state)
{
    struct gp_kv_options o = options_of("growpage");

    (void)state;
    o.protect = 1;
    o.local = 1;
    struct gp_retention r = gp_policy_retention(&o, 4, 3, GP_DO_COMPRESS);

    assert_int_equal(r.pages_after, 3);
    assert_int_equal(r.keep, 7);
    assert_int_equal(r.protect, 1);
    assert_int_equal(r.local, 1);
    assert_int_equal((r.pages_after - 1) * 4, r.keep + r.protect); /* 8 kept, 4 free */
}

static void retention_is_that_of_the_table(void **state)
{
    static const struct {
        const char *policy;
        uint32_t max_pages, b, pages;
        enum gp_policy_action action;
        uint32_t pages_after, protect, keep, local;
    } table[] = {
        {"growpage", 0, 256, 12, GP_DO_COMPRESS, 12, 16, 11 * 256 - 16, 64},
        {"growpage", 0, 16, 4, GP_DO_COMPRESS, 4, 8, 40, 4},
        {"growpage", 0, 32, 2, GP_DO_COMPRESS, 2, 16, 16, 8},
        {"growpage", 3, 16, 9, GP_DO_COMPRESS, 3, 8, 24, 2}, /* 9 * 2 locals fit in 24, 3 do not */
        {"fixed:64", 0, 16, 4, GP_DO_COMPRESS, 4, 8, 40, 4},
        {"fixed:79", 0, 16, 4, GP_DO_COMPRESS, 4, 8, 40, 4},
        {"fixed:64", 0, 16, 20, GP_DO_COMPRESS, 4, 8, 40, 2},
        {"fixed:64", 0, 16, 100, GP_DO_COMPRESS, 4, 8, 40, 0},
        {"fixed:64", 2, 16, 4, GP_DO_COMPRESS, 2, 8, 8, 2},
        {"fixed:1", 0, 16, 3, GP_DO_COMPRESS, 2, 8, 8, 2},
        {"fixed:64", 0, 16, 3, GP_DO_COMPRESS, 3, 8, 24, 4}, /* a fallback below the budget */
        {"shrink", 0, 16, 5, GP_DO_SHRINK, 4, 8, 40, 4},
        {"shrink", 3, 16, 8, GP_DO_SHRINK, 3, 8, 24, 3},
        {"shrink", 0, 16, 5, GP_DO_COMPRESS, 5, 8, 56, 4},
    };

    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct gp_kv_options o = options_of(table[i].policy);

        o.max_pages = table[i].max_pages;
        struct gp_retention r =
            gp_policy_retention(&o, table[i].b, table[i].pages, table[i].action);

        if (r.pages_after != table[i].pages_after || r.protect != table[i].protect ||
            r.keep != table[i].keep || r.local != table[i].local)
            fail_msg("row %zu: P' %u protect %u keep %u local %u", i, r.pages_after, r.protect,
                     r.keep, r.local);
    }
}

static uint64_t locals(uint32_t local, uint32_t b, uint32_t pages, uint32_t protect)
{
    uint64_t sum = 0;

    for (uint32_t page = 0; page < pages; page++) {
        uint32_t open = page + 1 == pages ? b - protect : b;

        sum += local < open ? local : open;
    }
    return sum;
}

/* One page comes free, the quotas fit, and no larger quota would have. */
static void retention_always_fits(void **state)
{
    struct gp_rng rng = {seed};

    (void)state;
    for (uint32_t i = 0; i < 50000; i++) {
        struct gp_kv_options o = options_of(i % 2 ? "growpage" : "fixed:300");
        uint32_t b = 2 + gp_rng_below(&rng, 127), pages = 2 + gp_rng_below(&rng, 60);

        o.local = gp_rng_below(&rng, b + 1);
        o.protect = gp_rng_below(&rng, b);
        o.max_pages = gp_rng_below(&rng, 2) ? 2 + gp_rng_below(&rng, 10) : 0;
        CHECK(gp_policy_check(&o, b, NULL) == GP_OK);
        bool shrink = pages > 2 && gp_rng_below(&rng, 3) == 0;
        struct gp_retention r =
            gp_policy_retention(&o, b, pages, shrink ? GP_DO_SHRINK : GP_DO_COMPRESS);
        uint32_t asked = o.local ? o.local : b / 4;

        CHECK(r.pages_after >= 2 && r.pages_after <= pages - shrink);
        CHECK(o.max_pages == 0 || r.pages_after <= o.max_pages);
        CHECK(r.protect < b && (o.protect == 0 || r.protect == o.protect));
        CHECK(r.keep >= 1 && r.keep + r.protect == (r.pages_after - 1) * b);
        CHECK(locals(r.local, b, pages, r.protect) <= r.keep);
        CHECK(r.local <= asked);
        CHECK(r.local == asked || locals(r.local + 1, b, pages, r.protect) > r.keep);
    }
}

/* ---- whole runs ---- */

/* Pages after `boundaries` boundaries of a request whose demand draws are given. */
static uint32_t run_pages(const struct gp_kv_options *o, uint32_t pages, uint32_t boundaries,
                          const double *delta)
{
    bool initial = false;

    for (uint32_t i = 0; i < boundaries; i++) {
        uint32_t threshold = gp_policy_initial_pages(o, 16);

        initial |= threshold > 0 && pages >= threshold;
        struct gp_boundary_view view = {16, pages, 0, 1, i, true, initial};
        struct gp_decision d = gp_policy_decide(o, &view, delta[i]);

        pages = d.action == GP_DO_GROW ? pages + 1
                                       : gp_policy_retention(o, 16, pages, d.action).pages_after;
    }
    return pages;
}

static void budgets_hold_in_the_long_run(void **state)
{
    struct gp_rng rng = {seed};
    double delta[64];

    (void)state;
    for (uint32_t i = 0; i < 2000; i++) {
        struct gp_kv_options fixed = options_of("fixed:80"), grow = options_of("growpage");
        struct gp_kv_options full = options_of("full");
        uint32_t pages = 1 + gp_rng_below(&rng, 12);

        for (uint32_t j = 0; j < 64; j++)
            delta[j] = gp_rng_uniform(&rng) - 0.5;
        grow.max_pages = 7;
        grow.initial_pages = 3;
        CHECK(run_pages(&fixed, pages, 64, delta) == 5);
        CHECK(run_pages(&full, pages, 64, delta) == pages + 64);
        CHECK(run_pages(&grow, pages, 64, delta) <= 7);
        /* A threshold below every possible delta makes growpage full, one above makes it hold. */
        grow.max_pages = 0;
        grow.threshold = -2;
        CHECK(run_pages(&grow, pages, 64, delta) == pages + 64);
        grow.threshold = 2;
        CHECK(run_pages(&grow, pages, 64, delta) == (pages < 3 ? 3 : pages));
    }
}

/* The most pages of a request that is denied none, row by row. */
static uint32_t peak_of_run(const struct gp_kv_options *o, uint32_t prefill, uint32_t tokens,
                            struct gp_rng *rng)
{
    uint32_t b = 16, cached = prefill, pages = (prefill + b - 1) / b, peak = pages;
    bool initial = false;

    for (uint32_t computed = prefill, index = 0; computed + 1 < tokens; computed++, cached++) {
        uint32_t threshold = gp_policy_initial_pages(o, b);
        struct gp_retention r = {0};

        if (gp_policy_rows_to_cut(o, b, prefill, computed, cached) == 0) {
            r = gp_policy_cut(o, b, pages);
        } else if (cached == pages * b) {
            initial |= threshold > 0 && pages >= threshold;
            struct gp_boundary_view view = {b, pages, 0, 1, index++, computed > prefill, initial};
            struct gp_decision d = gp_policy_decide(o, &view, gp_rng_uniform(rng) - 0.5);

            if (d.action != GP_DO_GROW)
                r = gp_policy_retention(o, b, pages, d.action);
            pages += d.action == GP_DO_GROW;
        }
        if (r.pages_after) {
            cached = r.keep + r.protect;
            pages = r.pages_after;
        }
        CHECK(cached < pages * b);
        peak = pages > peak ? pages : peak;
    }
    return peak;
}

/* Nothing holds more than was foreseen, and what is foreseen is reached where the policy leaves no
 * choice and the request is long enough. */
static void the_most_pages_are_foreseen(void **state)
{
    static const struct {
        const char *policy, *trigger;
        bool exact;
    } plans[] = {
        {"full", NULL, true},
        {"growpage", NULL, false},
        {"fixed:80", NULL, true},
        {"random:0.5", NULL, false},
        {"shrink", NULL, false},
        {"growpage+zipage", NULL, false},
        {"fixed:80+gkv", NULL, true},
        {"zipage:70", NULL, true},
        {"gkv:70", NULL, true},
        {"rkv:70", "steps:40", false},
        {"snapkv:70", "steps:3", false},
        {"morphkv:70", NULL, true},
        {"h2o:70", NULL, true},
        {"streaming:70", NULL, true},
        {"streaming:70", "page", true},
    };
    struct gp_rng rng = {seed};

    (void)state;
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t c = gp_rng_below(&rng, sizeof plans / sizeof *plans);
        uint32_t prefill = 1 + gp_rng_below(&rng, 200), output = 1 + gp_rng_below(&rng, 300);
        struct gp_kv_options o = options_of(plans[c].policy);

        o.seed = i;
        o.initial_pages = 2 + gp_rng_below(&rng, 6);
        o.max_pages = gp_rng_below(&rng, 3) ? 0 : 7 + gp_rng_below(&rng, 6);
        if (plans[c].trigger)
            CHECK(gp_policy_set_trigger(&o, plans[c].trigger, NULL) == GP_OK);
        CHECK(gp_policy_check(&o, 16, NULL) == GP_OK);
        uint32_t peak = peak_of_run(&o, prefill, prefill + output, &rng);
        uint32_t most = gp_policy_most_pages(&o, 16, prefill, prefill + output);

        CHECK(peak <= most);
        CHECK(peak == most || !plans[c].exact || o.max_pages > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decisions_are_those_of_the_table),
        cmocka_unit_test(unasked_signal_is_not_read),
        cmocka_unit_test(random_draws_by_seed_and_index_alone),
        cmocka_unit_test(initial_pages_are_the_budgets_for_fixed),
        cmocka_unit_test(only_compressors_with_history_may_compress),
        cmocka_unit_test(worked_example),
        cmocka_unit_test(retention_is_that_of_the_table),
        cmocka_unit_test(retention_always_fits),
        cmocka_unit_test(budgets_hold_in_the_long_run),
        cmocka_unit_test(the_most_pages_are_foreseen),
    };
    const char *text = getenv("GP_SEED");

    seed = text ? strtoull(text, NULL, 10) : 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
