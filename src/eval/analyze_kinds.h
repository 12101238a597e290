/* The analyses one by one, and what they share.  Their own; see analyze.h. */
#ifndef GP_EVAL_ANALYZE_KINDS_H
#define GP_EVAL_ANALYZE_KINDS_H

#include "eval/analyze.h"
#include "eval/groups.h"

int gp_analyze_signal(const struct gp_analysis *analysis, bool *complete, struct gp_error *err);
int gp_analyze_counterfactual(const struct gp_analysis *analysis, bool *complete,
                              struct gp_error *err);
int gp_analyze_budget(const struct gp_analysis *analysis, bool *complete, struct gp_error *err);
int gp_analyze_sparsity(const struct gp_analysis *analysis, bool *complete, struct gp_error *err);
int gp_analyze_overhead(const struct gp_analysis *analysis, bool *complete, struct gp_error *err);

/* Callbacks of a sitting, as there; asking and served may be NULL. */
struct gp_analysis_ears {
    int (*asking)(void *ctx, const struct gp_question *question, struct gp_request *request,
                  struct gp_error *err);
    int (*finished)(void *ctx, const struct gp_sample *sample, struct gp_error *err);
    int (*served)(void *ctx, const struct gp_sitting_state *state, struct gp_error *err);
    void *ctx;
};

/* Asks the exam under each policy; go_on is the analysis's own. */
int gp_analysis_ask(const struct gp_analysis *analysis, const struct gp_analysis_ears *ears,
                    bool *complete, struct gp_error *err);

/* Takes the object, which may be NULL for no memory. */
int gp_analysis_add(const struct gp_analysis *analysis, json_t *object, struct gp_error *err);

/* The exam's seed: of the draws behind the intervals, too. */
uint64_t gp_analysis_seed(const struct gp_analysis *analysis);

/* A growing list of pairs. */
struct gp_pair_list {
    struct gp_pair *items;
    size_t count, room;
};

int gp_pair_list_add(struct gp_pair_list *list, struct gp_pair pair, struct gp_error *err);
void gp_pair_list_free(struct gp_pair_list *list);
/* Groups in which there are pairs, which lie beside each other. */
size_t gp_pair_list_groups(const struct gp_pair_list *list);
/* Spearman's rho of the pairs, and what `of` says of them, over `groups` drawn anew (groups.h). */
int gp_pair_list_bootstrap(const struct gp_pair_list *list, size_t groups, uint64_t seed,
                           double (*of)(void *ctx, const uint32_t *weights),
                           struct gp_interval *rho, struct gp_interval *other,
                           struct gp_error *err);

/* ---- watching ---- */

/* The positions of one page of an answer. */
struct gp_watched_page {
    uint32_t rows;                 /* that were looked at                            */
    double share, slots;           /* sums: of D/N, and of D, their means over heads */
    double last_share, last_slots; /* of the last row                                */
    bool whole;                    /* all its positions were run                     */
    bool has_delta;                /* demand was measured when it was full           */
    double delta, demand_short, demand_long;
};

/* An answer by a full cache: what its rows looked at. */
struct gp_watched {
    const struct gp_exam_part *part;
    uint64_t index;
    uint32_t number;
    uint32_t page_tokens, layer_count;
    uint32_t seen; /* position of the last row that was looked at */
    struct gp_watched_page *pages;
    uint32_t page_count;
    double *layers; /* [page][layer]: sums of D/N */
};

struct gp_watch {
    struct gp_watched *items; /* in the exam's order */
    uint64_t count;
    uint32_t page_tokens, layer_count;
    const struct gp_analysis *analysis;
};

/* Asks the exam; freed with gp_watch_free(), also after an error. */
int gp_watch_run(struct gp_watch *watch, const struct gp_analysis *analysis, bool *complete,
                 struct gp_error *err);
void gp_watch_free(struct gp_watch *watch);

#endif
