/* Exact arithmetic: fixed point, coverage, selection, angles, against dumb versions. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "kernels/kernels.h"

#define SLOTS_MAX 700u

static uint64_t seed_of_run(void)
{
    const char *text = getenv("GP_SEED");
    const uint64_t seed = text ? strtoull(text, NULL, 10) : 1;

    printf("# GP_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static void fixed_point_rounds_half_to_even_and_clamps(void **state)
{
    static const float in[] = {0.0f, 1.0f,     0.5f,  0x1p-30f, 0x1p-31f,  0x1.8p-30f,
                               NAN,  INFINITY, -1.0f, 0x1p-32f, 1.000001f, 0x1.4p-29f};
    static const uint32_t want[] = {0, 1u << 30, 1u << 29, 1, 0, 2, 0, 1u << 30, 0, 0, 1u << 30, 2};
    uint32_t out[12];

    (void)state;
    gp_fixed_point(in, 12, out);
    for (uint32_t i = 0; i < 12; i++)
        assert_int_equal(out[i], want[i]);
}

static void fixed_mean_is_the_rounded_mean(void **state)
{
    struct gp_rng rng = {seed_of_run()};

    (void)state;
    for (uint32_t round = 0; round < 200; round++) {
        uint32_t values[8][16], out[16];
        const uint32_t *heads[8];
        const uint32_t g = 1 + gp_rng_below(&rng, 8);

        for (uint32_t h = 0; h < 8; h++) {
            heads[h] = values[h];
            for (uint32_t i = 0; i < 16; i++)
                values[h][i] = gp_rng_below(&rng, (1u << 30) + 1);
        }
        gp_fixed_mean(heads, g, 16, out);
        for (uint32_t i = 0; i < 16; i++) {
            double sum = 0;

            for (uint32_t h = 0; h < g; h++)
                sum += values[h][i];
            assert_true(fabs(out[i] - sum / g) <= 0.5);
        }
    }
}

static int descending(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? 1 : x > y ? -1 : 0;
}

static uint32_t coverage_dumb(const uint32_t *weights, uint32_t n, double coverage)
{
    uint32_t sorted[SLOTS_MAX];
    uint64_t total = 0, sum = 0;

    memcpy(sorted, weights, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, descending);
    for (uint32_t i = 0; i < n; i++)
        total += sorted[i];
    for (uint32_t i = 0; i < n; i++) {
        if (sum >= total || (double)sum >= coverage * (double)total)
            return i;
        sum += sorted[i];
    }
    return n;
}

static void coverage_count_matches_sorting(void **state)
{
    static const double coverages[] = {0.99, 0.5, 0.0, 1.0, 0.9999, 1e-9, 2.0};
    static uint32_t weights[SLOTS_MAX], before[SLOTS_MAX], scratch[SLOTS_MAX];
    struct gp_rng rng = {seed_of_run()};

    (void)state;
    for (uint32_t round = 0; round < 3000; round++) {
        const uint32_t n = gp_rng_below(&rng, SLOTS_MAX), kind = gp_rng_below(&rng, 5);

        for (uint32_t i = 0; i < n; i++) {
            const double u = gp_rng_uniform(&rng);

            weights[i] = kind == 0   ? gp_rng_below(&rng, 4)             /* many ties, zeros  */
                         : kind == 1 ? (uint32_t)(exp(-20 * u) * 0x1p30) /* like a softmax */
                         : kind == 2 ? (uint32_t)gp_rng_next(&rng)       /* any              */
                         : kind == 3 ? 7u                                /* all equal        */
                                     : (i == n / 2 ? 1u << 30 : 0);      /* one has it all   */
        }
        memcpy(before, weights, sizeof before);
        for (uint32_t c = 0; c < 7; c++) {
            const uint32_t want = coverage_dumb(weights, n, coverages[c]);
            const uint32_t got = gp_coverage_count(weights, n, coverages[c], scratch);

            if (got != want)
                fail_msg("n=%u kind=%u coverage=%g: %u, want %u", n, kind, coverages[c], got, want);
        }
        assert_memory_equal(before, weights, sizeof before);
    }
}

/* The best unkept slot of [begin, end): larger score, then higher slot. */
static void keep_best(const float *score, uint8_t *kept, uint32_t begin, uint32_t end)
{
    uint32_t best = UINT32_MAX;

    for (uint32_t i = begin; i < end; i++)
        if (!kept[i] && (best == UINT32_MAX || score[i] >= score[best]))
            best = i;
    if (best != UINT32_MAX)
        kept[best] = 1;
}

static uint32_t locals(uint32_t slot_count, uint32_t page, uint32_t local)
{
    uint32_t sum = 0;

    for (uint32_t begin = 0; begin < slot_count; begin += page) {
        const uint32_t left = slot_count - begin, in_page = left < page ? left : page;

        sum += in_page < local ? in_page : local;
    }
    return sum;
}

static float random_score(struct gp_rng *rng, uint32_t kind)
{
    switch (kind) {
    case 0:
        return (float)gp_rng_below(rng, 3); /* ties */
    case 1:
        return (float)exp(-30 * gp_rng_uniform(rng));
    case 2:
        return gp_rng_below(rng, 2) ? 0.0f : -0.0f; /* the two zeros are one */
    case 3:
        return (float)gp_rng_normal(rng);
    default:
        return 0.25f;
    }
}

static void select_matches_picking_one_by_one(void **state)
{
    static float score[SLOTS_MAX];
    static uint32_t kept[SLOTS_MAX];
    static uint64_t scratch[SLOTS_MAX];
    static uint8_t want[SLOTS_MAX];
    struct gp_rng rng = {seed_of_run()};

    (void)state;
    for (uint32_t round = 0; round < 1500; round++) {
        const uint32_t n = 1 + gp_rng_below(&rng, SLOTS_MAX - 1), kind = gp_rng_below(&rng, 5);
        const uint32_t page = 4u << gp_rng_below(&rng, 7);
        uint32_t local = gp_rng_below(&rng, page + 1), keep = gp_rng_below(&rng, n + 1), at = 0;

        for (uint32_t i = 0; i < n; i++)
            score[i] = random_score(&rng, kind);
        while (locals(n, page, local) > keep)
            local--;
        memset(want, 0, sizeof want);
        for (uint32_t begin = 0; begin < n; begin += page)
            for (uint32_t i = 0; i < local; i++)
                keep_best(score, want, begin, begin + page < n ? begin + page : n);
        for (uint32_t i = locals(n, page, local); i < keep; i++)
            keep_best(score, want, 0, n);
        gp_select(score, n, page, local, keep, kept, scratch);
        for (uint32_t i = 0; i < n; i++) {
            const uint8_t got = at < keep && kept[at] == i;

            if (got != want[i])
                fail_msg("round %u: n=%u page=%u local=%u keep=%u kind=%u slot %u", round, n, page,
                         local, keep, kind, i);
            at += got;
        }
        assert_int_equal(at, keep);
    }
}

static void rope_angles_are_cosines_and_sines(void **state)
{
    static const double inv_freq[] = {1.0, 0.1, 1e-4};
    float c[3], s[3];

    (void)state;
    for (uint32_t pos = 0; pos < 1000000; pos = pos * 3 + 1) {
        gp_rope_angles(pos, inv_freq, 3, 1.25, c, s);
        for (uint32_t i = 0; i < 3; i++) {
            const long double angle = (long double)((double)pos * inv_freq[i]);

            assert_true(fabsl(c[i] - 1.25L * cosl(angle)) < 8e-8L);
            assert_true(fabsl(s[i] - 1.25L * sinl(angle)) < 8e-8L);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixed_point_rounds_half_to_even_and_clamps),
        cmocka_unit_test(fixed_mean_is_the_rounded_mean),
        cmocka_unit_test(coverage_count_matches_sorting),
        cmocka_unit_test(select_matches_picking_one_by_one),
        cmocka_unit_test(rope_angles_are_cosines_and_sines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
