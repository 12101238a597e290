/* What is said of values, against values worked out by hand and by numpy. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "eval/statistics.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void assert_near(double got, double want)
{
    double scale = fabs(want) > 1 ? fabs(want) : 1;

    if (!(fabs(got - want) <= 1e-12 * scale))
        fail_msg("got %.17g, want %.17g", got, want);
}

static struct gp_values values_of(const double *items, size_t count)
{
    struct gp_values values = {0};
    struct gp_error err;

    for (size_t i = 0; i < count; i++)
        assert_int_equal(gp_values_add(&values, items[i], &err), GP_OK);
    return values;
}

/* numpy: mean, std(ddof=1), min, quantile 0.5 0.9 0.99, max. */
static const struct {
    double items[16];
    size_t count;
    struct gp_spread spread;
} cases[] = {
    {{3}, 1, {1, 3, 0, 3, 3, 3, 3, 3}},
    {{1, 2}, 2, {2, 1.5, 0.7071067811865476, 1, 1.5, 1.9, 1.99, 2}},
    {{2, 1, 4, 3}, 4, {4, 2.5, 1.2909944487358056, 1, 2.5, 3.7, 3.97, 4}},
    {{5, 5, 5, 5, 5}, 5, {5, 5, 0, 5, 5, 5, 5, 5}},
    {{9.008, 5.342, 15.668, 30.583, 62.555, 22.414, 11.558, 9.163, 42.468, 103.006, 26.384, 5.851,
      7.704},
     13,
     {13, 27.054153846153845, 28.30189143221749, 5.342, 15.668, 58.53760000000001,
      98.15187999999996, 103.006}},
    {{16.0, 2.029, -17.321, -0.837, -11.632, -6.293, -4.88, -7.133},
     8,
     {8, -3.7583750000000005, 9.981631357326888, -17.321, -5.5865, 6.220299999999997,
      15.022029999999996, 16.0}},
    /* Squares of these need 60 bits; their deviation must not drown in the rounding. */
    {{1e9 + 1, 1e9 + 2, 1e9 + 3, 1e9 + 4, 1e9 + 5},
     5,
     {5, 1e9 + 3, 1.5811388300841898, 1e9 + 1, 1e9 + 3, 1000000004.6, 1000000004.96, 1e9 + 5}},
};

static void spreads_are_those_of_numpy(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct gp_values values = values_of(cases[i].items, cases[i].count);
        const struct gp_spread *want = &cases[i].spread;
        struct gp_spread got;

        gp_spread_of(&values, &got);
        assert_int_equal(got.count, want->count);
        assert_near(got.mean, want->mean);
        assert_near(got.stddev, want->stddev);
        assert_near(got.min, want->min);
        assert_near(got.p50, want->p50);
        assert_near(got.p90, want->p90);
        assert_near(got.p99, want->p99);
        assert_near(got.max, want->max);
        gp_values_free(&values);
    }
}

static void of_nothing_nothing_is_said(void **state)
{
    struct gp_values values = {0};
    struct gp_spread got;

    (void)state;
    gp_spread_of(&values, &got);
    assert_int_equal(got.count, 0);
    assert_true(isnan(got.mean) && isnan(got.stddev) && isnan(got.min) && isnan(got.p50) &&
                isnan(got.p90) && isnan(got.p99) && isnan(got.max));
    gp_values_free(&values);
}

/* Worked by hand: place q * 3 between 10, 20, 40, 80. */
static void quantiles_lie_between_neighbours(void **state)
{
    static const double four[] = {10, 20, 40, 80};
    static const double pairs[][2] = {{0, 10},    {1.0 / 6, 15}, {1.0 / 3, 20}, {0.5, 30},
                                      {0.75, 50}, {0.9, 68},     {1, 80}};

    (void)state;
    for (size_t i = 0; i < COUNT(pairs); i++)
        assert_near(gp_quantile(four, 4, pairs[i][0]), pairs[i][1]);
    assert_near(gp_quantile(four, 1, 0.3), 10);
}

static void the_order_of_values_does_not_matter(void **state)
{
    const char *seed_text = getenv("GP_SEED");
    struct gp_rng rng = {seed_text ? strtoull(seed_text, NULL, 10) : 1};

    (void)state;
    for (int round = 0; round < 200; round++) {
        double items[300];
        size_t count = 1 + gp_rng_below(&rng, (uint32_t)COUNT(items));
        struct gp_spread a, b;

        /* Whole numbers, whose sums are exact in any order. */
        for (size_t i = 0; i < count; i++)
            items[i] = gp_rng_below(&rng, 1000);
        struct gp_values values = values_of(items, count);
        gp_spread_of(&values, &a);
        gp_values_free(&values);
        for (size_t i = count; i-- > 1;) {
            size_t j = gp_rng_below(&rng, (uint32_t)i + 1);
            double other = items[i];
            items[i] = items[j];
            items[j] = other;
        }
        values = values_of(items, count);
        gp_spread_of(&values, &b);
        gp_values_free(&values);
        if (memcmp(&a, &b, sizeof a) != 0)
            fail_msg("GP_SEED=%s round %d", seed_text ? seed_text : "1", round);
        assert_true(a.min <= a.p50 && a.p50 <= a.p90 && a.p90 <= a.p99 && a.p99 <= a.max);
    }
}

static void memory_refused_is_told_and_loses_nothing(void **state)
{
    struct gp_values values = {0};
    struct gp_error err;
    uint64_t live = gp_mem_live();

    (void)state;
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(gp_values_add(&values, i, &err), GP_OK);
    gp_mem_refuse_at(1);
    assert_int_equal(gp_values_add(&values, 64, &err), GP_ENOMEM);
    gp_mem_refuse_at(0);
    assert_non_null(strstr(err.message, "memory"));
    assert_int_equal(values.count, 64);
    assert_int_equal(gp_values_add(&values, 64, &err), GP_OK);
    for (uint32_t i = 0; i < 65; i++)
        assert_true(values.items[i] == i);
    gp_values_free(&values);
    assert_int_equal(gp_mem_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spreads_are_those_of_numpy),
        cmocka_unit_test(of_nothing_nothing_is_said),
        cmocka_unit_test(quantiles_lie_between_neighbours),
        cmocka_unit_test(the_order_of_values_does_not_matter),
        cmocka_unit_test(memory_refused_is_told_and_loses_nothing),
    };

    return cmocka_run_group_tests_name("eval/statistics", tests, NULL, NULL);
}
