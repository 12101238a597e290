/* Whether the signal knows where a page is worth something. */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "eval/analyze_forks.h"
#include "eval/rows.h"

/* As many bins on each side of 0, with as many boundaries in each. */
#define BINS_A_SIDE 4u

struct results {
    struct gp_split_result *items;
    size_t count, room;
};

static int take(void *ctx, const struct gp_split_result *result, struct gp_error *err)
{
    struct results *r = ctx;

    if (r->count == r->room) {
        size_t larger = r->room ? r->room * 2 : 64;
        struct gp_split_result *grown =
            gp_mem_realloc(r->items, r->room * sizeof *r->items, larger * sizeof *r->items);
        if (!grown)
            return gp_fail(err, GP_ENOMEM, "analysis: out of memory");
        r->items = grown;
        r->room = larger;
    }
    r->items[r->count++] = *result;
    return GP_OK;
}

static int in_order(const void *a, const void *b)
{
    const struct gp_split_result *l = a, *r = b;

    if (l->reference != r->reference)
        return l->reference < r->reference ? -1 : 1;
    return (l->tokens > r->tokens) - (l->tokens < r->tokens);
}

static int by_delta(const void *a, const void *b)
{
    const struct gp_pair *l = a, *r = b;

    if (l->x != r->x)
        return l->x < r->x ? -1 : 1;
    return (l->group > r->group) - (l->group < r->group);
}

static int add_boundary(const struct gp_analysis *analysis, const struct gp_references *references,
                        const struct gp_split_result *r, struct gp_error *err)
{
    const struct gp_reference *of = &references->items[r->reference];

    return gp_analysis_add(analysis,
                           json_pack("{s:s, s:s, s:I, s:i, s:i, s:f, s:f, s:f, s:i, s:f, s:f, s:f}",
                                     "kind", "boundary", "suite", of->part->name, "index",
                                     (json_int_t)of->index, "sample", (int)of->number, "tokens",
                                     (int)r->tokens, "delta", r->event.delta, "demand_short",
                                     r->event.demand_short, "demand_long", r->event.demand_long,
                                     "scored", (int)r->scored, "nll_compress", r->nll[0],
                                     "nll_grow", r->nll[1], "advantage", r->nll[0] - r->nll[1]),
                           err);
}

/* The mean advantage of some pairs, which need not be in the order of their groups. */
static int add_bin(const struct gp_analysis *analysis, const char *name,
                   const struct gp_pair *items, size_t count, size_t groups, struct gp_error *err)
{
    struct gp_pairs pairs = {.items = items, .count = count};
    struct gp_interval mean;
    int rc = gp_bootstrap_groups(gp_mean_y, &pairs, groups, gp_analysis_seed(analysis), &mean, err);

    if (rc || count == 0)
        return rc;
    double low = items[0].x, high = items[0].x;
    for (size_t i = 1; i < count; i++) {
        low = fmin(low, items[i].x);
        high = fmax(high, items[i].x);
    }
    return gp_analysis_add(
        analysis,
        json_pack("{s:s, s:s, s:f, s:f, s:I, s:o, s:o, s:o}", "kind", "bin", "bin", name,
                  "delta_low", low, "delta_high", high, "boundaries", (json_int_t)count,
                  "advantage", gp_json_number(mean.mean), "advantage_low", gp_json_number(mean.low),
                  "advantage_high", gp_json_number(mean.high)),
        err);
}

/* Pairs in ascending order of delta, of one side of 0. */
static int add_side(const struct gp_analysis *analysis, const char *side,
                    const struct gp_pair *items, size_t count, size_t groups, struct gp_error *err)
{
    int rc = GP_OK;

    for (size_t i = 0; !rc && i < BINS_A_SIDE; i++) {
        size_t from = count * i / BINS_A_SIDE, to = count * (i + 1) / BINS_A_SIDE;
        char name[32];

        snprintf(name, sizeof name, "%s %zu/%u", side, i + 1, BINS_A_SIDE);
        if (to > from)
            rc = add_bin(analysis, name, items + from, to - from, groups, err);
    }
    return rc ? rc : add_bin(analysis, side, items, count, groups, err);
}

static int add_bins(const struct gp_analysis *analysis, const struct gp_pair_list *list,
                    size_t groups, struct gp_error *err)
{
    struct gp_pair *sorted = gp_mem_alloc_array(list->count + 1, sizeof *sorted);
    size_t below = 0;

    if (!sorted)
        return gp_fail(err, GP_ENOMEM, "analysis: out of memory");
    for (size_t i = 0; i < list->count; i++) {
        sorted[i] = list->items[i];
        below += sorted[i].x <= 0;
    }
    qsort(sorted, list->count, sizeof *sorted, by_delta);
    int rc = add_side(analysis, "delta <= 0", sorted, below, groups, err);
    if (!rc)
        rc = add_side(analysis, "delta > 0", sorted + below, list->count - below, groups, err);
    gp_mem_free(sorted);
    return rc;
}

static int add_whole(const struct gp_analysis *analysis, const struct gp_pair_list *list,
                     size_t groups, struct gp_error *err)
{
    struct gp_interval rho, mean;
    int rc = gp_pair_list_bootstrap(list, groups, gp_analysis_seed(analysis), gp_mean_y, &rho,
                                    &mean, err);

    if (rc)
        return rc;
    return gp_analysis_add(
        analysis,
        json_pack("{s:s, s:I, s:I, s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "kind", "counterfactual",
                  "boundaries", (json_int_t)list->count, "requests",
                  (json_int_t)gp_pair_list_groups(list), "horizon", (int)analysis->horizon,
                  "advantage", gp_json_number(mean.mean), "advantage_low", gp_json_number(mean.low),
                  "advantage_high", gp_json_number(mean.high), "rho", gp_json_number(rho.mean),
                  "rho_low", gp_json_number(rho.low), "rho_high", gp_json_number(rho.high)),
        err);
}

static int say(const struct gp_analysis *analysis, const struct gp_references *references,
               struct results *results, struct gp_error *err)
{
    struct gp_pair_list list = {0};
    int rc = GP_OK;

    qsort(results->items, results->count, sizeof *results->items, in_order);
    for (size_t i = 0; !rc && i < results->count; i++) {
        const struct gp_split_result *r = &results->items[i];
        struct gp_pair pair = {r->event.delta, r->nll[0] - r->nll[1], (uint32_t)r->reference};

        rc = add_boundary(analysis, references, r, err);
        if (!rc)
            rc = gp_pair_list_add(&list, pair, err);
    }
    if (!rc)
        rc = add_bins(analysis, &list, references->count, err);
    if (!rc)
        rc = add_whole(analysis, &list, references->count, err);
    gp_pair_list_free(&list);
    return rc;
}

int gp_analyze_counterfactual(const struct gp_analysis *analysis, bool *complete,
                              struct gp_error *err)
{
    static const enum gp_action actions[2] = {GP_ACTION_COMPRESS, GP_ACTION_GROW};
    struct gp_references references;
    struct results results = {0};
    int rc = gp_references_run(&references, analysis, complete, err);

    if (!rc && *complete)
        rc = gp_references_split(&references, actions, take, &results, complete, err);
    if (!rc && *complete)
        rc = say(analysis, &references, &results, err);
    gp_mem_free(results.items);
    gp_references_free(&references);
    return rc;
}
