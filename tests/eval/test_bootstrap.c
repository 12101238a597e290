/* Intervals of means, and budgets that suffice. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "eval/bootstrap.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum {
    VALUES = 400
};

static double values[VALUES], other[VALUES];

static struct gp_interval interval(const double *items, size_t count, uint64_t seed)
{
    struct gp_stratum stratum = {items, count};
    struct gp_interval out;
    struct gp_error err;

    assert_int_equal(gp_bootstrap(&stratum, 1, seed, &out, &err), GP_OK);
    return out;
}

static void an_interval_is_as_wide_as_theory_says(void **state)
{
    struct gp_rng rng = {3};
    double sum = 0, squares = 0;

    (void)state;
    for (size_t i = 0; i < VALUES; i++) {
        values[i] = gp_rng_uniform(&rng) < 0.3;
        sum += values[i];
    }
    double mean = sum / VALUES;
    for (size_t i = 0; i < VALUES; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    double half = 1.96 * sqrt(squares / VALUES / VALUES);
    struct gp_interval i = interval(values, VALUES, 1);
    assert_true(fabs(i.mean - mean) < 1e-12);
    assert_true(fabs(i.low - (mean - half)) < 0.1 * half);
    assert_true(fabs(i.high - (mean + half)) < 0.1 * half);
}

/* Of 400 worlds with a known mean, about 95 of 100 intervals hold it; a binomial's three standard
 * deviations, and a little for so few values. */
static void intervals_hold_the_truth_as_often_as_they_say(void **state)
{
    enum {
        WORLDS = 400,
        PROBLEMS = 60
    };
    struct gp_rng rng = {9};
    uint32_t held = 0;

    (void)state;
    for (uint32_t world = 0; world < WORLDS; world++) {
        for (size_t i = 0; i < PROBLEMS; i++)
            values[i] = gp_rng_normal(&rng);
        struct gp_interval i = interval(values, PROBLEMS, world);
        held += i.low <= 0 && i.high >= 0;
    }
    assert_in_range(held, 360, 394);
}

static void the_same_seed_gives_the_same_interval(void **state)
{
    struct gp_rng rng = {4};

    (void)state;
    for (size_t i = 0; i < VALUES; i++)
        values[i] = gp_rng_uniform(&rng);
    struct gp_interval a = interval(values, VALUES, 7), b = interval(values, VALUES, 7),
                       c = interval(values, VALUES, 8);
    assert_true(a.low == b.low && a.high == b.high && a.mean == b.mean);
    assert_true(a.low != c.low && a.mean == c.mean);
}

/* What all problems share cancels out of the difference. */
static void paired_differences_are_narrower(void **state)
{
    struct gp_rng rng = {5};

    (void)state;
    for (size_t i = 0; i < VALUES; i++) {
        values[i] = gp_rng_uniform(&rng);
        other[i] = values[i] - 0.01;
    }
    struct gp_interval a = interval(values, VALUES, 1), b = interval(other, VALUES, 1);
    assert_true(fabs((a.low - b.low) - 0.01) < 1e-12 && fabs((a.high - b.high) - 0.01) < 1e-12);
    for (size_t i = 0; i < VALUES; i++)
        values[i] -= other[i];
    struct gp_interval d = interval(values, VALUES, 1);
    assert_true(d.high - d.low < 1e-9 && fabs(d.mean - 0.01) < 1e-9);
}

static void suites_count_alike_whatever_their_size(void **state)
{
    static const double many[] = {1, 1, 1, 1, 1, 1, 1, 1}, one[] = {0};
    struct gp_stratum strata[] = {{many, COUNT(many)}, {one, COUNT(one)}};
    struct gp_interval out;
    struct gp_error err;

    (void)state;
    assert_int_equal(gp_bootstrap(strata, 2, 1, &out, &err), GP_OK);
    assert_true(out.mean == 0.5 && out.low == 0.5 && out.high == 0.5);
}

static void memory_refused_is_told(void **state)
{
    struct gp_stratum stratum = {values, 3};
    struct gp_interval out;
    struct gp_error err;

    (void)state;
    gp_mem_refuse_at(1);
    assert_int_equal(gp_bootstrap(&stratum, 1, 1, &out, &err), GP_ENOMEM);
    gp_mem_refuse_at(0);
}

static void a_budget_suffices_when_every_larger_one_does(void **state)
{
    static const uint32_t budgets[] = {512, 1024, 2048, 4096};
    static const struct {
        bool right[4];
        uint32_t least;
    } cases[] = {
        {{true, true, true, true}, 512},    {{false, true, true, true}, 1024},
        {{true, false, true, true}, 2048},  {{false, false, false, true}, 4096},
        {{true, true, true, false}, 0},     {{false, false, false, false}, 0},
        {{false, true, false, true}, 4096},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_int_equal(gp_budget_sufficient(budgets, cases[i].right, 4), cases[i].least);
    assert_int_equal(gp_budget_sufficient(budgets, cases[0].right, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_interval_is_as_wide_as_theory_says),
        cmocka_unit_test(intervals_hold_the_truth_as_often_as_they_say),
        cmocka_unit_test(the_same_seed_gives_the_same_interval),
        cmocka_unit_test(paired_differences_are_narrower),
        cmocka_unit_test(suites_count_alike_whatever_their_size),
        cmocka_unit_test(memory_refused_is_told),
        cmocka_unit_test(a_budget_suffices_when_every_larger_one_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
