/* The demand signal and the entropies. */
#include <inttypes.h>
#include <math.h>
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

static struct gp_kv_options options_of(enum gp_metric metric)
{
    struct gp_kv_options o;

    gp_policy_defaults(&o);
    o.metric = metric;
    return o;
}

static void shares_are_counts_over_candidates(void **state)
{
    struct gp_kv_options o = options_of(GP_METRIC_TOP_P);
    struct gp_demand d = {.sum_short = 300, .sum_long = 100, .candidates = 100, .heads = 4};
    struct gp_signal s = gp_policy_signal(&o, &d);

    (void)state;
    assert_true(s.demand_short == 0.75 && s.demand_long == 0.25 && s.delta == 0.5);
    d.sum_short = 99;
    s = gp_policy_signal(&o, &d);
    assert_true(s.delta == -1.0 / 400.0);
    d = (struct gp_demand){0};
    s = gp_policy_signal(&o, &d);
    assert_true(s.demand_short == 0 && s.demand_long == 0 && s.delta == 0);
}

/* The sign of delta is that of the integers, however large the sums: no rounding tips it. */
static void sign_of_delta_is_exact(void **state)
{
    struct gp_kv_options o = options_of(GP_METRIC_TOP_P);
    struct gp_rng rng = {seed};

    (void)state;
    for (uint32_t i = 0; i < 100000; i++) {
        struct gp_demand d = {
            .candidates = 1 + gp_rng_below(&rng, 1u << 20),
            .heads = 1 + gp_rng_below(&rng, 1u << 20),
        };
        uint64_t most = (uint64_t)d.candidates * d.heads;

        d.sum_short = gp_rng_next(&rng) % (most + 1);
        d.sum_long = d.sum_short;
        CHECK(gp_policy_signal(&o, &d).delta == 0);
        if (d.sum_long > 0) {
            d.sum_long--;
            CHECK(gp_policy_signal(&o, &d).delta > 0);
            d.sum_long++;
        }
        if (d.sum_long < most) {
            d.sum_long++;
            CHECK(gp_policy_signal(&o, &d).delta < 0);
        }
        struct gp_signal s = gp_policy_signal(&o, &d);

        CHECK(s.demand_short >= 0 && s.demand_short <= 1 && s.demand_long <= 1);
    }
}

static void entropy_sums_are_in_units_of_two_to_the_32(void **state)
{
    struct gp_kv_options o = options_of(GP_METRIC_ENTROPY);
    struct gp_demand d = {
        .sum_short = 3ull << 31, .sum_long = 1ull << 31, .candidates = 48, .heads = 3};
    struct gp_signal s = gp_policy_signal(&o, &d);

    (void)state;
    assert_true(s.demand_short == 0.5);
    assert_true(s.delta == 1.0 / 3);
}

static double share(uint64_t fixed)
{
    return (double)fixed * 0x1p-32;
}

static void entropy_of_known_weights(void **state)
{
    uint32_t uniform[256], one[256] = {[17] = 1u << 30}, two[256] = {[3] = 500, [200] = 500};
    uint32_t none[256] = {0};

    (void)state;
    for (uint32_t i = 0; i < 256; i++)
        uniform[i] = 1u << 22;
    assert_true(fabs(share(gp_policy_entropy(GP_METRIC_ENTROPY, uniform, 256)) - 1) < 1e-9);
    assert_true(fabs(share(gp_policy_entropy(GP_METRIC_EXP_ENTROPY, uniform, 256)) - 1) < 1e-9);
    assert_int_equal(gp_policy_entropy(GP_METRIC_ENTROPY, one, 256), 0);
    assert_true(fabs(share(gp_policy_entropy(GP_METRIC_EXP_ENTROPY, one, 256)) - 1.0 / 256) < 1e-9);
    assert_true(fabs(share(gp_policy_entropy(GP_METRIC_ENTROPY, two, 256)) - 1.0 / 8) < 1e-9);
    assert_true(fabs(share(gp_policy_entropy(GP_METRIC_EXP_ENTROPY, two, 256)) - 2.0 / 256) < 1e-9);
    assert_int_equal(gp_policy_entropy(GP_METRIC_ENTROPY, none, 256), 0);
    assert_int_equal(gp_policy_entropy(GP_METRIC_EXP_ENTROPY, none, 256), 0);
    assert_int_equal(gp_policy_entropy(GP_METRIC_ENTROPY, uniform, 1), 0);
    assert_int_equal(gp_policy_entropy(GP_METRIC_EXP_ENTROPY, uniform, 1), 1ull << 32);
}

/* Moving weight from a larger to a smaller one makes the entropy larger; scaling changes
 * nothing. */
static void entropy_grows_as_weights_even_out(void **state)
{
    struct gp_rng rng = {seed};

    (void)state;
    for (uint32_t round = 0; round < 500; round++) {
        uint32_t weights[64], n = 2 + gp_rng_below(&rng, 63);

        for (uint32_t i = 0; i < n; i++)
            weights[i] = gp_rng_below(&rng, 1u << 22);
        uint32_t a = gp_rng_below(&rng, n), b = (a + 1 + gp_rng_below(&rng, n - 1)) % n;
        uint32_t low = weights[a] < weights[b] ? a : b, high = low == a ? b : a;
        uint32_t step = (weights[high] - weights[low]) / 2;
        uint64_t before = gp_policy_entropy(GP_METRIC_ENTROPY, weights, n);
        uint64_t before_exp = gp_policy_entropy(GP_METRIC_EXP_ENTROPY, weights, n);

        CHECK(before <= 1ull << 32 && before_exp <= 1ull << 32);
        weights[low] += step;
        weights[high] -= step;
        CHECK(gp_policy_entropy(GP_METRIC_ENTROPY, weights, n) + 16 >= before);
        CHECK(gp_policy_entropy(GP_METRIC_EXP_ENTROPY, weights, n) + 16 >= before_exp);
        uint64_t after = gp_policy_entropy(GP_METRIC_ENTROPY, weights, n);

        for (uint32_t i = 0; i < n; i++)
            weights[i] *= 8;
        uint64_t scaled = gp_policy_entropy(GP_METRIC_ENTROPY, weights, n);

        CHECK(scaled + 16 >= after && after + 16 >= scaled);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_counts_over_candidates),
        cmocka_unit_test(sign_of_delta_is_exact),
        cmocka_unit_test(entropy_sums_are_in_units_of_two_to_the_32),
        cmocka_unit_test(entropy_of_known_weights),
        cmocka_unit_test(entropy_grows_as_weights_even_out),
    };
    const char *text = getenv("GP_SEED");

    seed = text ? strtoull(text, NULL, 10) : 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
