/* Numbers about numbers: a growing list of values, and what one says of it. */
#ifndef GP_EVAL_STATISTICS_H
#define GP_EVAL_STATISTICS_H

#include <stddef.h>

#include "base/error.h"

struct gp_values {
    double *items;
    size_t count, room;
};

/* GP_ENOMEM only; what was there stays. */
int gp_values_add(struct gp_values *values, double value, struct gp_error *err);
void gp_values_free(struct gp_values *values);

/* The value below which the share q of them lies, 0 <= q <= 1, between neighbours by a straight
 * line: what numpy.quantile() says by default.  In ascending order, at least one. */
double gp_quantile(const double *ascending, size_t count, double q);

struct gp_spread {
    size_t count; /* 0: the others are NaN                                            */
    double mean;
    double stddev; /* of a sample: divided by count - 1; 0 for one value               */
    double min, p50, p90, p99, max;
};

/* The items are sorted. */
void gp_spread_of(struct gp_values *values, struct gp_spread *out);

#endif
