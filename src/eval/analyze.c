#include "eval/analyze.h"

#include "base/assert.h"
#include "base/mem.h"
#include "eval/analyze_kinds.h"

#define ROOM_AT_LEAST 64u

/* No demand is below it. */
#define THRESHOLD_NEVER (-1e9)

static const struct {
    const char *name;
    int (*run)(const struct gp_analysis *analysis, bool *complete, struct gp_error *err);
} kinds[GP_ANALYSIS_KINDS] = {
    [GP_ANALYSIS_SIGNAL] = {"signal", gp_analyze_signal},
    [GP_ANALYSIS_COUNTERFACTUAL] = {"counterfactual", gp_analyze_counterfactual},
    [GP_ANALYSIS_BUDGET] = {"budget", gp_analyze_budget},
    [GP_ANALYSIS_SPARSITY] = {"sparsity", gp_analyze_sparsity},
    [GP_ANALYSIS_OVERHEAD] = {"overhead", gp_analyze_overhead},
};

const char *gp_analysis_name(enum gp_analysis_kind kind)
{
    return kinds[kind].name;
}

bool gp_analysis_watches(enum gp_analysis_kind kind)
{
    return kind != GP_ANALYSIS_BUDGET && kind != GP_ANALYSIS_OVERHEAD;
}

void gp_analysis_watch(struct gp_kv_options *kv)
{
    struct gp_error err;

    gp_assert(gp_policy_parse("growpage", kv, &err) == GP_OK);
    kv->threshold = THRESHOLD_NEVER;
    kv->initial_pages = 2;
    kv->max_pages = 0;
    kv->pressure = 0;
    /* A growth that is denied must not compress. */
    kv->fallback = GP_FALLBACK_PREEMPT;
    kv->resume = GP_RESUME_REPLAY;
}

uint32_t gp_analysis_forks(uint32_t horizon, uint32_t page_tokens)
{
    return 2 * ((horizon + page_tokens - 1) / page_tokens);
}

int gp_analysis_run(const struct gp_analysis *analysis, enum gp_analysis_kind kind, bool *complete,
                    struct gp_error *err)
{
    return kinds[kind].run(analysis, complete, err);
}

/* ---- asking ---- */

/* What a sitting's callbacks are given: whom they tell. */
struct asking {
    const struct gp_analysis *analysis;
    const struct gp_analysis_ears *ears;
};

static int tell_question(void *ctx, const struct gp_question *question, struct gp_request *request,
                         struct gp_error *err)
{
    const struct gp_analysis_ears *ears = ((struct asking *)ctx)->ears;

    return ears->asking ? ears->asking(ears->ctx, question, request, err) : GP_OK;
}

static int tell_sample(void *ctx, const struct gp_sample *sample, struct gp_error *err)
{
    const struct gp_analysis_ears *ears = ((struct asking *)ctx)->ears;

    return ears->finished(ears->ctx, sample, err);
}

static int tell_served(void *ctx, const struct gp_sitting_state *state, struct gp_error *err)
{
    const struct gp_analysis_ears *ears = ((struct asking *)ctx)->ears;

    return ears->served ? ears->served(ears->ctx, state, err) : GP_OK;
}

static bool go_on(void *ctx, const struct gp_sitting_state *state)
{
    const struct gp_sitting *outer = ((struct asking *)ctx)->analysis->sitting;

    return outer->go_on(outer->ctx, state);
}

int gp_analysis_ask(const struct gp_analysis *analysis, const struct gp_analysis_ears *ears,
                    bool *complete, struct gp_error *err)
{
    struct asking asking = {analysis, ears};
    struct gp_sitting sitting = *analysis->sitting;

    sitting.has = NULL;
    sitting.asking = tell_question;
    sitting.finished = tell_sample;
    sitting.served = tell_served;
    sitting.go_on = go_on;
    sitting.ctx = &asking;
    return gp_sitting_run(&sitting, analysis->engine, analysis->model, complete, err);
}

/* ---- what is found ---- */

int gp_analysis_add(const struct gp_analysis *analysis, json_t *object, struct gp_error *err)
{
    if (!object || json_array_append_new(analysis->found, object))
        return gp_fail(err, GP_ENOMEM, "analysis: out of memory");
    return GP_OK;
}

uint64_t gp_analysis_seed(const struct gp_analysis *analysis)
{
    return analysis->sitting->exam->seed;
}

int gp_pair_list_add(struct gp_pair_list *list, struct gp_pair pair, struct gp_error *err)
{
    if (list->count == list->room) {
        size_t larger = list->room ? list->room * 2 : ROOM_AT_LEAST;
        struct gp_pair *grown = gp_mem_realloc(list->items, list->room * sizeof *list->items,
                                               larger * sizeof *list->items);
        if (!grown)
            return gp_fail(err, GP_ENOMEM, "analysis: out of memory");
        list->items = grown;
        list->room = larger;
    }
    list->items[list->count++] = pair;
    return GP_OK;
}

void gp_pair_list_free(struct gp_pair_list *list)
{
    gp_mem_free(list->items);
    *list = (struct gp_pair_list){0};
}

size_t gp_pair_list_groups(const struct gp_pair_list *list)
{
    size_t groups = 0;

    for (size_t i = 0; i < list->count; i++)
        groups += i == 0 || list->items[i].group != list->items[i - 1].group;
    return groups;
}

int gp_pair_list_bootstrap(const struct gp_pair_list *list, size_t groups, uint64_t seed,
                           double (*of)(void *ctx, const uint32_t *weights),
                           struct gp_interval *rho, struct gp_interval *other, struct gp_error *err)
{
    struct gp_pairs pairs;
    int rc = gp_pairs_open(&pairs, list->items, list->count, err);

    if (rc)
        return rc;
    rc = gp_bootstrap_groups(gp_spearman, &pairs, groups, seed, rho, err);
    if (!rc)
        rc = gp_bootstrap_groups(of, &pairs, groups, seed, other, err);
    gp_pairs_close(&pairs);
    return rc;
}
