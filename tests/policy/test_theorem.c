/* The paper's Theorem 3.1 (spec.md section 9) over random weights: the least number of slots that
 * keeps attention within delta of the truth, whatever the values are, is what the demand counts.
 *
 * Every kept set and, for the worst error, every corner of the values' cube is tried: in one
 * dimension the error is a convex function of the values, so its maximum lies in a corner, and a
 * projection on the error's own direction shows that more dimensions have no worse one. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "kernels/kernels.h"

enum {
    SLOTS_MAX = 9,
    ONE = 1 << 30, /* weights are fixed point, as in the engine */
};

#define VALUE_MAX 1.5

static uint64_t seed;

#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x))                                                                                  \
            fail_msg("GP_SEED=%" PRIu64 ": %s", seed, #x);                                         \
    } while (0)

struct attention {
    uint32_t count;
    uint32_t fixed[SLOTS_MAX];
    double weights[SLOTS_MAX]; /* sum to 1 */
};

/* From flat to peaked. */
static struct attention draw(struct gp_rng *rng)
{
    struct attention a = {.count = 1 + gp_rng_below(rng, SLOTS_MAX)};
    double sharpness = 4.0 * gp_rng_uniform(rng), total = 0;

    for (uint32_t i = 0; i < a.count; i++) {
        a.fixed[i] = 1 + (uint32_t)(exp(sharpness * (gp_rng_uniform(rng) - 1)) * ONE / 2);
        total += a.fixed[i];
    }
    for (uint32_t i = 0; i < a.count; i++)
        a.weights[i] = a.fixed[i] / total;
    return a;
}

static double mass(const struct attention *a, uint32_t kept)
{
    double sum = 0;

    for (uint32_t i = 0; i < a->count; i++)
        sum += kept >> i & 1 ? a->weights[i] : 0;
    return sum;
}

/* |o - o^(S)| for values of +-VALUE_MAX, a bit a slot. */
static double error_of(const struct attention *a, uint32_t kept, uint32_t corner)
{
    double all = 0, some = 0, m = mass(a, kept);

    for (uint32_t i = 0; i < a->count; i++) {
        double value = corner >> i & 1 ? VALUE_MAX : -VALUE_MAX;
        all += a->weights[i] * value;
        some += kept >> i & 1 ? a->weights[i] / m * value : 0;
    }
    return fabs(all - some);
}

static double worst_error(const struct attention *a, uint32_t kept)
{
    double worst = 0;

    for (uint32_t corner = 0; corner < 1u << a->count; corner++)
        worst = fmax(worst, error_of(a, kept, corner));
    return worst;
}

static void worst_error_is_twice_the_bound_times_the_mass_that_is_lost(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 200; round++) {
        struct gp_rng rng = {seed + round};
        struct attention a = draw(&rng);
        uint32_t all = (1u << a.count) - 1, kept = 1 + gp_rng_below(&rng, all);
        double bound = 2 * VALUE_MAX * (1 - mass(&a, kept));

        CHECK(fabs(worst_error(&a, kept) - bound) < 1e-12);
        /* Reached by putting what is kept at one end and what is dropped at the other. */
        CHECK(fabs(error_of(&a, kept, all & ~kept) - bound) < 1e-12);
    }
}

static void no_values_in_three_dimensions_are_worse(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 2000; round++) {
        struct gp_rng rng = {seed + round};
        struct attention a = draw(&rng);
        uint32_t kept = 1 + gp_rng_below(&rng, (1u << a.count) - 1);
        double m = mass(&a, kept), error[3] = {0};

        for (uint32_t i = 0; i < a.count; i++) {
            double v[3], length = 0;
            for (uint32_t d = 0; d < 3; d++) {
                v[d] = gp_rng_normal(&rng);
                length += v[d] * v[d];
            }
            double scale = VALUE_MAX / sqrt(length);
            double weight = a.weights[i] - (kept >> i & 1 ? a.weights[i] / m : 0);
            for (uint32_t d = 0; d < 3; d++)
                error[d] += weight * scale * v[d];
        }
        double norm = sqrt(error[0] * error[0] + error[1] * error[1] + error[2] * error[2]);
        CHECK(norm <= 2 * VALUE_MAX * (1 - m) + 1e-12);
    }
}

/* The fewest slots of any kept set whose worst error is within delta. */
static uint32_t least_capacity(const struct attention *a, double delta)
{
    uint32_t least = a->count;

    for (uint32_t kept = 1; kept < 1u << a->count; kept++)
        if (worst_error(a, kept) <= delta && (uint32_t)__builtin_popcount(kept) < least)
            least = (uint32_t)__builtin_popcount(kept);
    return least;
}

static void least_worst_case_capacity_is_the_demand(void **state)
{
    (void)state;
    uint32_t scratch[2 * SLOTS_MAX];

    for (uint32_t round = 0; round < 60; round++) {
        struct gp_rng rng = {seed + round};
        struct attention a = draw(&rng);
        double delta = 2 * VALUE_MAX * gp_rng_uniform(&rng);
        double coverage = 1 - delta / (2 * VALUE_MAX);

        if (delta <= 0)
            continue;
        CHECK(least_capacity(&a, delta) == gp_coverage_count(a.fixed, a.count, coverage, scratch));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worst_error_is_twice_the_bound_times_the_mass_that_is_lost),
        cmocka_unit_test(no_values_in_three_dimensions_are_worse),
        cmocka_unit_test(least_worst_case_capacity_is_the_demand),
    };
    const char *text = getenv("GP_SEED");

    seed = text ? strtoull(text, NULL, 10) : 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
