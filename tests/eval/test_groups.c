/* What pairs say, against numpy's ranks; how sure it is, against what must be. */
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
#include "eval/groups.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define MAX      64u

static const uint32_t ones[MAX] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                   1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                   1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

static uint64_t seed(void)
{
    const char *text = getenv("GP_SEED");

    return text ? strtoull(text, NULL, 10) : 1;
}

static double say(double (*of)(void *, const uint32_t *), const struct gp_pair *items, size_t count,
                  const uint32_t *weights)
{
    struct gp_pairs pairs;
    struct gp_error err;

    assert_int_equal(gp_pairs_open(&pairs, items, count, &err), GP_OK);
    double said = of(&pairs, weights);
    gp_pairs_close(&pairs);
    return said;
}

static double rho_of(const double *x, const double *y, size_t count)
{
    struct gp_pair items[MAX];

    for (size_t i = 0; i < count; i++)
        items[i] = (struct gp_pair){x[i], y[i], (uint32_t)i};
    return say(gp_spearman, items, count, ones);
}

/* The middle ones have ties; by numpy.corrcoef() of the ranks' means. */
static void rho_is_the_correlation_of_ranks(void **state)
{
    static const struct {
        double x[7], y[7];
        size_t count;
        double rho;
    } cases[] = {
        {{1, 2, 3}, {10, 20, 400}, 3, 1},
        {{1, 2, 3}, {-1, -2, -1e9}, 3, -1},
        {{1, 2, 3, 4, 5}, {5, 6, 7, 8, 7}, 5, 0.8207826816681234},
        {{1, 1, 2, 2, 3}, {3, 1, 2, 2, 9}, 5, 0.5407380704358752},
        {{0.5, -1, 2, 2, 2, 7, -3}, {1, 1, -4, 0, 5, 5, -2}, 7, 0.39629696195060854},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_true(fabs(rho_of(cases[i].x, cases[i].y, cases[i].count) - cases[i].rho) < 1e-12);
}

static void rho_of_what_has_no_order_is_not_defined(void **state)
{
    static const double same[3] = {2, 2, 2}, other[3] = {1, 2, 3};

    (void)state;
    assert_true(isnan(rho_of(same, other, 3)));
    assert_true(isnan(rho_of(other, same, 3)));
    assert_true(isnan(rho_of(other, other, 1)));
    assert_true(isnan(rho_of(other, other, 0)));
}

/* Few values, so that many are equal. */
static void fill(struct gp_rng *rng, struct gp_pair *items, size_t count, uint32_t groups)
{
    for (size_t i = 0; i < count; i++)
        items[i] = (struct gp_pair){(double)gp_rng_below(rng, 9) - 4,
                                    (double)gp_rng_below(rng, 9) - 4, gp_rng_below(rng, groups)};
}

static void a_weight_is_so_many_copies(void **state)
{
    struct gp_rng rng = {seed()};

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed());
    for (int round = 0; round < 200; round++) {
        struct gp_pair items[12], copies[12 * 3];
        uint32_t weights[4];
        size_t copied = 0;

        fill(&rng, items, COUNT(items), 4);
        for (size_t g = 0; g < 4; g++)
            weights[g] = gp_rng_below(&rng, 4);
        for (size_t i = 0; i < COUNT(items); i++)
            for (uint32_t w = 0; w < weights[items[i].group]; w++) {
                copies[copied] = items[i];
                copies[copied++].group = 0;
            }
        double (*const all[])(void *, const uint32_t *) = {gp_spearman, gp_sign_agreement,
                                                           gp_mean_y};
        for (size_t f = 0; f < COUNT(all); f++) {
            double weighted = say(all[f], items, COUNT(items), weights);
            double plain = say(all[f], copies, copied, ones);
            assert_true(isnan(weighted) ? isnan(plain) : fabs(weighted - plain) < 1e-12);
        }
    }
}

static void signs_agree_where_there_are_two(void **state)
{
    static const struct gp_pair items[] = {
        {1, 2, 0}, {-1, -5, 1}, {1, -1, 2}, {0, 3, 3}, {3, 0, 4}, {-2, 7, 5}, {1e-9, 1e-9, 6},
    };

    (void)state;
    assert_true(say(gp_sign_agreement, items, COUNT(items), ones) == 3.0 / 5);
    assert_true(isnan(say(gp_sign_agreement, items + 3, 2, ones)));
}

static struct gp_interval interval(double (*of)(void *, const uint32_t *),
                                   const struct gp_pair *items, size_t count, size_t groups,
                                   uint64_t of_seed)
{
    struct gp_interval out;
    struct gp_pairs pairs;
    struct gp_error err;

    assert_int_equal(gp_pairs_open(&pairs, items, count, &err), GP_OK);
    assert_int_equal(gp_bootstrap_groups(of, &pairs, groups, of_seed, &out, &err), GP_OK);
    gp_pairs_close(&pairs);
    return out;
}

/* All that varies lies within one group, which is in every draw. */
static void groups_are_drawn_whole(void **state)
{
    static const struct gp_pair one[] = {{1, 4, 0}, {2, -9, 0}, {3, 20, 0}};
    static const struct gp_pair alike[] = {{1, 4, 0}, {2, 6, 0}, {3, 4, 1}, {5, 6, 1}};
    struct gp_interval a = interval(gp_mean_y, one, 3, 1, 1);
    struct gp_interval b = interval(gp_mean_y, alike, 4, 2, 1);

    (void)state;
    assert_true(a.mean == 5 && a.low == 5 && a.high == 5);
    assert_true(b.mean == 5 && b.low == 5 && b.high == 5);
}

static void of_nothing_nothing_is_said(void **state)
{
    struct gp_interval none = interval(gp_mean_y, NULL, 0, 3, 1);

    (void)state;
    assert_true(isnan(none.mean) && isnan(none.low) && isnan(none.high));
}

/* 100 means of 40 normal values each, whose own mean is 0: about 95 of the intervals hold it. */
static void an_interval_holds_the_truth_as_often_as_it_says(void **state)
{
    struct gp_rng rng = {seed()};
    uint32_t held = 0;

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed());
    for (uint32_t round = 0; round < 100; round++) {
        struct gp_pair items[40];

        for (uint32_t i = 0; i < COUNT(items); i++)
            items[i] = (struct gp_pair){0, gp_rng_normal(&rng), i};
        struct gp_interval got = interval(gp_mean_y, items, COUNT(items), COUNT(items), round);
        struct gp_interval again = interval(gp_mean_y, items, COUNT(items), COUNT(items), round);
        assert_memory_equal(&got, &again, sizeof got);
        assert_true(got.low < got.mean && got.mean < got.high);
        held += got.low <= 0 && 0 <= got.high;
    }
    assert_in_range(held, 84, 100); /* five standard deviations below 95 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rho_is_the_correlation_of_ranks),
        cmocka_unit_test(rho_of_what_has_no_order_is_not_defined),
        cmocka_unit_test(a_weight_is_so_many_copies),
        cmocka_unit_test(signs_agree_where_there_are_two),
        cmocka_unit_test(groups_are_drawn_whole),
        cmocka_unit_test(of_nothing_nothing_is_said),
        cmocka_unit_test(an_interval_holds_the_truth_as_often_as_it_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
