#include "eval/bootstrap.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/rng.h"
#include "eval/statistics.h"

#define LOW  0.025
#define HIGH 0.975

static double mean_of(const struct gp_stratum *stratum)
{
    double sum = 0;

    for (size_t i = 0; i < stratum->count; i++)
        sum += stratum->values[i];
    return sum / (double)stratum->count;
}

/* Four draws a call of the generator. */
static double mean_of_draws(const struct gp_stratum *stratum, uint64_t seed, uint32_t index,
                            uint32_t round)
{
    uint32_t drawn[4] = {0};
    double sum = 0;

    for (size_t i = 0; i < stratum->count; i++) {
        if (i % 4 == 0)
            gp_philox(seed, (const uint32_t[4]){(uint32_t)(i / 4), round, index, 0x626f6f74u},
                      drawn);
        sum += stratum->values[(uint64_t)drawn[i % 4] * stratum->count >> 32];
    }
    return sum / (double)stratum->count;
}

static int ascending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

int gp_bootstrap(const struct gp_stratum *strata, size_t count, uint64_t seed,
                 struct gp_interval *out, struct gp_error *err)
{
    double *means = gp_mem_alloc_array(GP_BOOTSTRAP_ROUNDS, sizeof *means);
    double mean = 0;

    gp_assert(count > 0);
    if (!means)
        return gp_fail(err, GP_ENOMEM, "intervals: out of memory");
    for (size_t s = 0; s < count; s++)
        mean += mean_of(&strata[s]) / (double)count;
    for (uint32_t round = 0; round < GP_BOOTSTRAP_ROUNDS; round++)
        for (size_t s = 0; s < count; s++)
            means[round] += mean_of_draws(&strata[s], seed, (uint32_t)s, round) / (double)count;
    qsort(means, GP_BOOTSTRAP_ROUNDS, sizeof *means, ascending);
    *out = (struct gp_interval){
        .mean = mean,
        .low = gp_quantile(means, GP_BOOTSTRAP_ROUNDS, LOW),
        .high = gp_quantile(means, GP_BOOTSTRAP_ROUNDS, HIGH),
    };
    gp_mem_free(means);
    return GP_OK;
}

uint32_t gp_budget_sufficient(const uint32_t *budgets, const bool *right, size_t count)
{
    size_t least = count;

    while (least > 0 && right[least - 1])
        least--;
    return least < count ? budgets[least] : 0;
}
