/* How much of the cache attention looks at, page by page of an answer. */
#include "base/mem.h"
#include "eval/analyze_kinds.h"
#include "eval/rows.h"
#include "eval/statistics.h"

/* The means over answers at one page: of each layer. */
static json_t *layers_at(const struct gp_watch *watch, uint32_t at)
{
    json_t *layers = json_array();

    for (uint32_t layer = 0; layer < watch->layer_count; layer++) {
        double sum = 0, count = 0;

        for (uint64_t i = 0; i < watch->count; i++) {
            const struct gp_watched *w = &watch->items[i];

            if (at >= w->page_count || w->pages[at].rows == 0)
                continue;
            sum += w->layers[(size_t)at * w->layer_count + layer] / w->pages[at].rows;
            count++;
        }
        json_array_append_new(layers, json_real(sum / count));
    }
    return layers;
}

static int add_position(const struct gp_analysis *analysis, const struct gp_watch *watch,
                        uint32_t at, const struct gp_values *shares, double slots, uint64_t rows,
                        struct gp_error *err)
{
    struct gp_stratum stratum = {shares->items, shares->count};
    struct gp_interval share;
    int rc = gp_bootstrap(&stratum, 1, gp_analysis_seed(analysis), &share, err);

    if (rc)
        return rc;
    return gp_analysis_add(
        analysis,
        json_pack("{s:s, s:i, s:i, s:I, s:I, s:f, s:f, s:f, s:f, s:o}", "kind", "position", "from",
                  (int)(at * watch->page_tokens + 1), "to", (int)((at + 1) * watch->page_tokens),
                  "requests", (json_int_t)shares->count, "rows", (json_int_t)rows, "share",
                  share.mean, "share_low", share.low, "share_high", share.high, "slots",
                  slots / (double)shares->count, "layers", layers_at(watch, at)),
        err);
}

/* Every answer that has rows there counts once. */
static int take_position(const struct gp_analysis *analysis, const struct gp_watch *watch,
                         uint32_t at, struct gp_error *err)
{
    struct gp_values shares = {0};
    double slots = 0;
    uint64_t rows = 0;
    int rc = GP_OK;

    for (uint64_t i = 0; !rc && i < watch->count; i++) {
        const struct gp_watched *w = &watch->items[i];

        if (at >= w->page_count || w->pages[at].rows == 0)
            continue;
        rc = gp_values_add(&shares, w->pages[at].share / w->pages[at].rows, err);
        slots += w->pages[at].slots / w->pages[at].rows;
        rows += w->pages[at].rows;
    }
    if (!rc && shares.count > 0)
        rc = add_position(analysis, watch, at, &shares, slots, rows, err);
    gp_values_free(&shares);
    return rc;
}

int gp_analyze_sparsity(const struct gp_analysis *analysis, bool *complete, struct gp_error *err)
{
    struct gp_watch watch;
    uint32_t pages = 0;
    int rc = gp_watch_run(&watch, analysis, complete, err);

    for (uint64_t i = 0; !rc && *complete && i < watch.count; i++)
        if (watch.items[i].page_count > pages)
            pages = watch.items[i].page_count;
    for (uint32_t at = 0; !rc && at < pages; at++)
        rc = take_position(analysis, &watch, at, err);
    gp_watch_free(&watch);
    return rc;
}
