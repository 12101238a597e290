/* Policies: numbers in, decisions out (spec.md sections 3, 4 and 7; docs/PAPER.md).
 *
 * Sees counts, never pages, tensors or requests; allocates nothing, keeps no clock and no state;
 * draws random numbers only as a pure function of (seed, boundary index).  The same numbers give
 * the same decision, so a logged run can be replayed. */
#ifndef GP_POLICY_POLICY_H
#define GP_POLICY_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "growpage_options.h"

/* The defaults of spec.md. */
void gp_policy_defaults(struct gp_kv_options *options);

/* Every field in its range, for this page size; names the field that is not. */
int gp_policy_check(const struct gp_kv_options *options, uint32_t page_tokens,
                    struct gp_error *err);

int gp_policy_from_text(const char *text, struct gp_kv_options *options, struct gp_error *err);
void gp_policy_to_text(const struct gp_kv_options *options, char out[64]);

/* A switch of the scorer, by the name of its field, and its value as text; those of the policy in
 * turn, by index, false behind the last. */
#define GP_SWITCH_TEXT_BYTES 32u
int gp_policy_set_switch(struct gp_kv_options *options, const char *name, const char *value,
                         struct gp_error *err);
bool gp_policy_switch_text(const struct gp_kv_options *options, uint32_t index, const char **name,
                           char value[GP_SWITCH_TEXT_BYTES]);

/* "page", "steps:N", "token" */
int gp_policy_set_trigger(struct gp_kv_options *options, const char *text, struct gp_error *err);
void gp_policy_trigger_text(const struct gp_kv_options *options, char out[GP_SWITCH_TEXT_BYTES]);

/* Does a scorer say what stays (docs/POLICIES.md), the policy's own or one that selects for it?
 * The others go by the query summaries. */
bool gp_policy_scores(const struct gp_kv_options *options);

/* Does it look at query summaries, to decide or to select? */
bool gp_policy_summarises(const struct gp_kv_options *options);

/* What a policy wants of an engine beside pages.  All zero where it goes by the summaries. */
struct gp_policy_needs {
    bool scorer;     /* room to score and to cut                             */
    uint32_t window; /* newest queries of each sequence, after RoPE              */
    bool memory;     /* a number a slot that stays with it                       */
    bool positions;  /* each slot's place in the sequence                        */
    bool rotation;   /* keys before RoPE, and room to rotate a whole cache       */
    bool every_row;  /* scores are made by all rows: none may be left out        */
};
struct gp_policy_needs gp_policy_needs(const struct gp_kv_options *options);

/* ---- demand ---- */

/* What the kernels counted over all layers and heads.  For top-p the sums are integers, so the
 * order in which heads were counted cannot matter; for the entropies each head's value was
 * turned into fixed point (2^-32) first, for the same reason. */
struct gp_demand {
    uint64_t sum_short; /* sum of K_S, or of the fixed-point entropy share               */
    uint64_t sum_long;
    uint32_t candidates; /* |C| = (P - 1) * b                                             */
    uint32_t heads; /* how many (layer, KV head) pairs were counted (query heads for per-head) */
};

struct gp_signal {
    double demand_short, demand_long; /* r_S, r_L in [0, 1] */
    double delta;                     /* r_S - r_L, from the integers' difference */
};
struct gp_signal gp_policy_signal(const struct gp_kv_options *options, const struct gp_demand *d);

/* One head's entropy share as the integer that gp_demand sums: H/log n, or exp(H)/n, of weights in
 * fixed point (2^-30), n candidates. */
uint64_t gp_policy_entropy(enum gp_metric metric, const uint32_t *weights, uint32_t n);

/* ---- decision ---- */

enum gp_policy_action {
    GP_DO_GROW,
    GP_DO_COMPRESS,
    GP_DO_SHRINK
};
enum gp_policy_cause {
    GP_BECAUSE_POLICY,
    GP_BECAUSE_START,
    GP_BECAUSE_INITIAL,
    GP_BECAUSE_PRESSURE,
    GP_BECAUSE_CAPPED,
    GP_BECAUSE_FALLBACK,
    GP_BECAUSE_OVERRIDDEN, /* by whoever measures; the policy said otherwise */
};

struct gp_boundary_view {
    uint32_t page_tokens; /* b                                                       */
    uint32_t pages;       /* P, all full                                             */
    uint32_t pool_used;   /* pages in use, for `pressure`                            */
    uint32_t pool_total;
    uint64_t index;       /* this request's boundaries before this one               */
    bool has_summaries;   /* a generated token has been run                          */
    bool reached_initial; /* once held initial_pages (or its fixed budget)           */
};

struct gp_decision {
    enum gp_policy_action action;
    enum gp_policy_cause cause;
};

/* Must the demand be measured before gp_policy_decide() can answer? */
bool gp_policy_wants_signal(const struct gp_kv_options *options, const struct gp_boundary_view *v);

/* delta is read only when gp_policy_wants_signal() said so. */
struct gp_decision gp_policy_decide(const struct gp_kv_options *options,
                                    const struct gp_boundary_view *view, double delta);

/* Can a growth that was denied become Compress & Hold (section 6)? */
bool gp_policy_may_compress(const struct gp_kv_options *options,
                            const struct gp_boundary_view *view);

/* The pages that set the reached_initial flag: initial_pages, or a fixed budget's; 0: never. */
uint32_t gp_policy_initial_pages(const struct gp_kv_options *options, uint32_t page_tokens);

/* ---- retention ---- */

/* Compress & Hold in numbers (section 4).  slots = pages * b before. */
struct gp_retention {
    uint32_t pages_after; /* P', at most P                                     */
    uint32_t protect;     /* newest slots kept whatever their score            */
    uint32_t keep;        /* history slots a head; keep + protect are in use after: (P' - 1) * b,
                             or what a scorer's budget says                    */
    uint32_t local;       /* k_loc, lowered until the locals of all pages fit  */
};
struct gp_retention gp_policy_retention(const struct gp_kv_options *options, uint32_t page_tokens,
                                        uint32_t pages, enum gp_policy_action action);

/* A cut of a policy with a scorer, outside a boundary: back to the budget. */
struct gp_retention gp_policy_cut(const struct gp_kv_options *options, uint32_t page_tokens,
                                  uint32_t pages);

/* How many more rows run before the policy's own trigger cuts; 0: now, before the next row.
 * UINT32_MAX: never, it waits for full pages.  prefill rows are a prompt's, computed have run,
 * cached slots are in use. */
uint32_t gp_policy_rows_to_cut(const struct gp_kv_options *options, uint32_t page_tokens,
                               uint32_t prefill, uint32_t computed, uint32_t cached);

/* The most pages that a request of so many tokens in the end, prefill of them its prompt's, holds
 * when none is ever denied. */
uint32_t gp_policy_most_pages(const struct gp_kv_options *options, uint32_t page_tokens,
                              uint32_t prefill, uint32_t tokens);

#endif
