/* Analyses of the method on a model: what the demand signal says of the pages to come, what a page
 * is worth, how much memory a problem needs, what attention looks at, and what all that costs.
 *
 * Each asks an exam, and what it finds are JSON objects: what was measured, one by one, and then
 * what follows from it.  growpage(1) describes their keys.  The same seed finds the same, times
 * aside. */
#ifndef GP_EVAL_ANALYZE_H
#define GP_EVAL_ANALYZE_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "eval/sitting.h"

enum gp_analysis_kind {
    GP_ANALYSIS_SIGNAL,
    GP_ANALYSIS_COUNTERFACTUAL,
    GP_ANALYSIS_BUDGET,
    GP_ANALYSIS_SPARSITY,
    GP_ANALYSIS_OVERHEAD,
    GP_ANALYSIS_KINDS,
};

/* "signal", ... */
const char *gp_analysis_name(enum gp_analysis_kind kind);

#define GP_BUDGETS_MAX 64u

struct gp_analysis {
    /* Who is asked what, and go_on with its ctx; the other callbacks are replaced.  signal,
     * counterfactual and sparsity have one policy, which gp_analysis_watch() made; budget has
     * `budget_count` policies with ascending budgets, then those that adapt. */
    const struct gp_sitting *sitting;
    struct gp_engine *engine; /* opened with `taps` for signal and sparsity */
    const struct gp_model *model;
    uint32_t every;          /* signal, sparsity: rows between two that are looked at */
    uint32_t horizon;        /* counterfactual: tokens that are scored behind a boundary */
    const uint32_t *budgets; /* at most GP_BUDGETS_MAX */
    uint32_t budget_count;
    json_t *found; /* an array of the caller's */
};

/* Whether an analysis watches a full cache. */
bool gp_analysis_watches(enum gp_analysis_kind kind);

/* The policy that keeps everything and yet measures demand at each boundary, by the options of the
 * signal that are there. */
void gp_analysis_watch(struct gp_kv_options *kv);

/* Requests that a counterfactual of one answer has with the engine at most. */
uint32_t gp_analysis_forks(uint32_t horizon, uint32_t page_tokens);

/* *complete: go_on never said no; if it did, nothing was found. */
int gp_analysis_run(const struct gp_analysis *analysis, enum gp_analysis_kind kind, bool *complete,
                    struct gp_error *err);

/* The tables of what was found, to standard output. */
int gp_analysis_print(const json_t *found, enum gp_analysis_kind kind, struct gp_error *err);

#endif
