/* What the answers of an arm come to: shares of right ones with their intervals, speed, memory and
 * events. */
#ifndef GP_EVAL_SUMMARY_H
#define GP_EVAL_SUMMARY_H

#include "eval/results.h"

/* Of the answers to one suite; NaN: no record says. */
struct gp_suite_speed {
    double tps, seconds;    /* of records of this suite alone */
    double tpot_ms, budget; /* means over answers             */
};

struct gp_summary {
    size_t samples;
    uint32_t suite_count;                           /* in which it was asked anything        */
    struct gp_interval pass[GP_RESULTS_SUITES_MAX]; /* of each suite; NaN: not asked        */
    struct gp_interval pass_all;                    /* the mean over its suites              */
    struct gp_interval difference;                  /* to the reference; NaN: there is none  */
    struct gp_suite_speed speed[GP_RESULTS_SUITES_MAX];
    double tps, concurrency; /* NaN: no record says                   */
    double tpot_ms;          /* mean over answers                     */
    double budget, tokens;   /* means over answers, in tokens         */
    double grow, compress, shrink, start, initial, pressure, capped, fallback, preempt; /* sums */
    double demand_ms, score_ms, select_ms, compact_ms, decode_ms;                       /* sums */
};

/* Of each arm; reference is an arm, or UINT32_MAX. */
int gp_summarise(const struct gp_results *results, uint32_t arm, uint32_t reference, uint64_t seed,
                 struct gp_summary *out, struct gp_error *err);

/* For each problem of a suite, the budget that suffices: of arms that differ in it alone, with
 * ascending budgets.  A problem is right where more than half of its answers are; budgets[i] is 0
 * where none suffices.  Arrays are the caller's (gp_mem_free). */
int gp_sufficient(const struct gp_results *results, const uint32_t *arms, uint32_t arm_count,
                  uint32_t suite, uint32_t **budgets, uint64_t **indices, size_t *count,
                  struct gp_error *err);

#endif
