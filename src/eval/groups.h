/* Values that come in groups, such as the boundaries of one request: what they say, and how sure
 * that is when the groups are drawn anew, whole and with replacement.
 *
 * What is said of the values takes a weight for each group: how often it was drawn. */
#ifndef GP_EVAL_GROUPS_H
#define GP_EVAL_GROUPS_H

#include <stddef.h>
#include <stdint.h>

#include "eval/bootstrap.h"

struct gp_pair {
    double x, y;
    uint32_t group;
};

/* Pairs with the order of their ranks, so that a correlation costs no sorting. */
struct gp_pairs {
    const struct gp_pair *items;
    size_t count;
    size_t *by_x, *by_y;
    double *ranks; /* room for both sides' */
};

/* The items are the caller's and outlive it.  GP_ENOMEM only. */
int gp_pairs_open(struct gp_pairs *out, const struct gp_pair *items, size_t count,
                  struct gp_error *err);
void gp_pairs_close(struct gp_pairs *pairs);

/* Of all pairs, each as often as its group's weight says; ctx is struct gp_pairs.  NaN where it is
 * not defined. */
/* Spearman's rho: equal values share the mean of their ranks. */
double gp_spearman(void *ctx, const uint32_t *weights);
/* The share whose x and y have the same sign, of those in which neither is 0. */
double gp_sign_agreement(void *ctx, const uint32_t *weights);
/* The mean of y.  The order is not looked at. */
double gp_mean_y(void *ctx, const uint32_t *weights);

/* What `of` says, and where 95 % of what it says of drawn groups lie, of the draws in which it is
 * defined. */
int gp_bootstrap_groups(double (*of)(void *ctx, const uint32_t *weights), void *ctx,
                        size_t group_count, uint64_t seed, struct gp_interval *out,
                        struct gp_error *err);

#endif
