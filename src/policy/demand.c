/* The demand signal (spec.md section 3): from what the kernels counted to r_S, r_L and delta.
 *
 * delta is one division of one integer difference, never the difference of two quotients, so its
 * sign is exact: equal counts give 0 and not a rounding error that tips a comparison with a
 * threshold of 0. */
#include <math.h>

#include "policy/policy.h"

/* The scale of what gp_demand sums for the entropies. */
#define SHARE_ONE 0x1p32

struct gp_signal gp_policy_signal(const struct gp_kv_options *options, const struct gp_demand *d)
{
    bool counts = options->metric == GP_METRIC_TOP_P;
    double whole = (double)d->heads * (counts ? (double)d->candidates : SHARE_ONE);

    if (whole == 0)
        return (struct gp_signal){0};
    /* The sums stay far below 2^63: 2^20 slots, or 2^32, times 2^20 heads. */
    int64_t difference = (int64_t)d->sum_short - (int64_t)d->sum_long;

    return (struct gp_signal){
        .demand_short = (double)d->sum_short / whole,
        .demand_long = (double)d->sum_long / whole,
        .delta = (double)difference / whole,
    };
}

/* H = log(total) - sum(w log w) / total: the weights need not sum to exactly one, for rounding
 * each to fixed point moved the total a little. */
uint64_t gp_policy_entropy(enum gp_metric metric, const uint32_t *weights, uint32_t n)
{
    uint64_t total = 0;
    double sum = 0;

    for (uint32_t i = 0; i < n; i++) {
        total += weights[i];
        if (weights[i] > 0)
            sum += (double)weights[i] * log((double)weights[i]);
    }
    if (total == 0)
        return 0;
    double entropy = log((double)total) - sum / (double)total;
    double share = 0;

    if (metric == GP_METRIC_EXP_ENTROPY)
        share = exp(entropy) / n;
    else if (n > 1)
        share = entropy / log((double)n);
    share = share < 0 ? 0 : share > 1 ? 1 : share; /* past the ends by rounding only */
    return (uint64_t)(share * SHARE_ONE + 0.5);
}
