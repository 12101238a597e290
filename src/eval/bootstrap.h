/* How sure a mean is: its interval when the problems are drawn anew, with replacement, many times.
 *
 * The draws depend on the seed, the strata and their sizes alone.  Two policies that were asked the
 * same problems see the same draws, so the interval of the means of their differences, problem by
 * problem, is the paired one. */
#ifndef GP_EVAL_BOOTSTRAP_H
#define GP_EVAL_BOOTSTRAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define GP_BOOTSTRAP_ROUNDS 2000u

/* The problems of one suite. */
struct gp_stratum {
    const double *values;
    size_t count; /* at least 1 */
};

/* The mean over strata of the mean in each, and where 95 % of its draws lie. */
struct gp_interval {
    double mean, low, high;
};

int gp_bootstrap(const struct gp_stratum *strata, size_t count, uint64_t seed,
                 struct gp_interval *out, struct gp_error *err);

/* The paper's Eq. 1: the least of ascending budgets at which a request is right, and at every
 * larger one; 0: it is not right at the largest. */
uint32_t gp_budget_sufficient(const uint32_t *budgets, const bool *right, size_t count);

#endif
