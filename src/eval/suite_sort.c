/* sort: selection sort.  A pass restates every item, behind it the smallest so far; items that are
 * out are crossed off (b-).  The pass ends with the one that it crosses off and all that is sorted:
 *
 *     a48 a48,b- c93 a48,d22 d22,d-!17 22
 *
 * Live are the items not yet out, at their last writing, and the sorted list.  The long form ends
 * with a comparison of all neighbours. */
#include "eval/suite_make.h"
#include "eval/trace.h"

enum {
    ITEMS_MAX = 22,
};

static void draw_items(struct gp_trace *trace, struct gp_item *items, uint32_t count)
{
    uint8_t values[90];

    gp_trace_shuffle(trace, values, 90);
    for (uint32_t i = 0; i < count; i++)
        items[i] = (struct gp_item){(char)('a' + i), 10u + values[i], 2, 0};
}

/* One pass; returns the index of the smallest item that is not out. */
static uint32_t run_pass(struct gp_trace *trace, struct gp_item *items, const bool *is_out,
                         uint32_t count)
{
    uint32_t best = UINT32_MAX;

    for (uint32_t i = 0; i < count; i++) {
        if (is_out[i]) {
            gp_trace_put(trace, "%c- ", items[i].name);
            continue;
        }
        gp_trace_again(trace, &items[i]);
        gp_trace_put(trace, " ");
        if (best == UINT32_MAX || items[i].value < items[best].value)
            best = i;
        gp_trace_again(trace, &items[best]);
        gp_trace_put(trace, ",");
    }
    return best;
}

/* The sorted values, each read from its last place, which moves here. */
static void put_sorted(struct gp_trace *trace, struct gp_item *sorted, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        gp_trace_put(trace, i ? " " : "");
        gp_trace_again(trace, &sorted[i]);
    }
}

int gp_make_sort(uint64_t seed, double difficulty, enum gp_form form, struct gp_problem *out)
{
    struct gp_trace trace;
    struct gp_item items[ITEMS_MAX], sorted[ITEMS_MAX];
    bool is_out[ITEMS_MAX] = {false};

    gp_trace_begin(&trace, seed, difficulty, form);
    uint32_t count = form == GP_FORM_LONG ? gp_trace_size(&trace, 10, 11, 16, ITEMS_MAX)
                                          : gp_trace_size(&trace, 2, 4, 8, 12);
    draw_items(&trace, items, count);
    gp_trace_put(&trace, "Sort");
    for (uint32_t i = 0; i < count; i++) {
        gp_trace_put(&trace, " ");
        gp_trace_item(&trace, &items[i]);
    }
    gp_trace_put(&trace, form == GP_FORM_LONG ? " and check." : ".");

    gp_trace_thought(&trace);
    for (uint32_t pass = 0; pass < count; pass++) {
        uint32_t best = run_pass(&trace, items, is_out, count);
        is_out[best] = true;
        sorted[pass] = items[best];
        sorted[pass].name = 0;
        sorted[pass].at = items[best].at + 1;
        gp_trace_put(&trace, "%c-!", items[best].name);
        put_sorted(&trace, sorted, pass + 1);
        gp_trace_put(&trace, "\n");
    }
    for (uint32_t i = 0; form == GP_FORM_LONG && i + 1 < count; i++) {
        gp_trace_digits(&trace, &sorted[i]);
        gp_trace_put(&trace, "<");
        gp_trace_digits(&trace, &sorted[i + 1]);
        gp_trace_put(&trace, i + 2 < count ? " " : "\n");
    }
    gp_trace_answer(&trace);
    put_sorted(&trace, sorted, count);
    return gp_trace_end(&trace, out);
}
