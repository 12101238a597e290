/* The demand signal at a boundary against what attention looked at afterwards. */
#include "eval/analyze_kinds.h"
#include "eval/rows.h"

/* What is taken for the working set now, each as a share of the slots and in slots.  The paper says
 * no more than "the current attention working set". */
enum reading {
    PAGE, /* the mean over the page that is full */
    ROW,  /* its last row                        */
    PAST, /* the mean over all rows until now    */
    READINGS,
};

static const char *const names[2 * READINGS] = {"page, share", "row, share", "past, share",
                                                "page, slots", "row, slots", "past, slots"};

/* Means of working sets around a boundary; [0]: shares, [1]: slots. */
struct around {
    double now[2][READINGS];
    double next[2];
};

static void look_around(const struct gp_watched *w, uint32_t at, struct around *out)
{
    const struct gp_watched_page *page = &w->pages[at], *next = page + 1;
    double share = 0, slots = 0, rows = 0;

    for (uint32_t i = 0; i <= at; i++) {
        share += w->pages[i].share;
        slots += w->pages[i].slots;
        rows += w->pages[i].rows;
    }
    *out = (struct around){
        .now = {{page->share / page->rows, page->last_share, share / rows},
                {page->slots / page->rows, page->last_slots, slots / rows}},
        .next = {next->share / next->rows, next->slots / next->rows},
    };
}

static int add_boundary(const struct gp_analysis *analysis, const struct gp_watched *w, uint32_t at,
                        const struct around *a, struct gp_error *err)
{
    const struct gp_watched_page *page = &w->pages[at];

    return gp_analysis_add(
        analysis,
        json_pack(
            "{s:s, s:s, s:I, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}",
            "kind", "pair", "suite", w->part->name, "index", (json_int_t)w->index, "sample",
            (int)w->number, "tokens", (int)((at + 1) * w->page_tokens), "delta", page->delta,
            "demand_short", page->demand_short, "demand_long", page->demand_long, "share_page",
            a->now[0][PAGE], "share_row", a->now[0][ROW], "share_past", a->now[0][PAST],
            "share_next", a->next[0], "slots_page", a->now[1][PAGE], "slots_row", a->now[1][ROW],
            "slots_past", a->now[1][PAST], "slots_next", a->next[1]),
        err);
}

/* The boundaries behind which a whole page was run. */
static int take_pairs(const struct gp_analysis *analysis, const struct gp_watch *watch,
                      struct gp_pair_list lists[2 * READINGS], struct gp_error *err)
{
    int rc = GP_OK;

    for (uint64_t i = 0; !rc && i < watch->count; i++) {
        const struct gp_watched *w = &watch->items[i];

        for (uint32_t at = 0; !rc && at + 1 < w->page_count; at++) {
            const struct gp_watched_page *page = &w->pages[at], *next = page + 1;

            if (!page->has_delta || !next->whole || page->rows == 0 || next->rows == 0)
                continue;
            struct around around;
            look_around(w, at, &around);
            rc = add_boundary(analysis, w, at, &around, err);
            for (uint32_t r = 0; !rc && r < 2 * READINGS; r++) {
                double now = around.now[r / READINGS][r % READINGS];
                double change = around.next[r / READINGS] - now;
                rc = gp_pair_list_add(&lists[r], (struct gp_pair){page->delta, change, (uint32_t)i},
                                      err);
            }
        }
    }
    return rc;
}

static int add_reading(const struct gp_analysis *analysis, const char *name,
                       const struct gp_pair_list *list, size_t groups, struct gp_error *err)
{
    struct gp_interval rho, agreement;
    int rc = gp_pair_list_bootstrap(list, groups, gp_analysis_seed(analysis), gp_sign_agreement,
                                    &rho, &agreement, err);

    if (rc)
        return rc;
    return gp_analysis_add(
        analysis,
        json_pack("{s:s, s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "kind", "signal", "reading",
                  name, "pairs", (json_int_t)list->count, "requests",
                  (json_int_t)gp_pair_list_groups(list), "rho", gp_json_number(rho.mean), "rho_low",
                  gp_json_number(rho.low), "rho_high", gp_json_number(rho.high), "agreement",
                  gp_json_number(agreement.mean), "agreement_low", gp_json_number(agreement.low),
                  "agreement_high", gp_json_number(agreement.high)),
        err);
}

int gp_analyze_signal(const struct gp_analysis *analysis, bool *complete, struct gp_error *err)
{
    struct gp_pair_list lists[2 * READINGS] = {0};
    struct gp_watch watch;
    int rc = gp_watch_run(&watch, analysis, complete, err);

    if (!rc && *complete)
        rc = take_pairs(analysis, &watch, lists, err);
    for (uint32_t r = 0; r < 2 * READINGS; r++) {
        if (!rc && *complete)
            rc = add_reading(analysis, names[r], &lists[r], watch.count, err);
        gp_pair_list_free(&lists[r]);
    }
    gp_watch_free(&watch);
    return rc;
}
