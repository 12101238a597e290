/* sum: the numbers of the prompt are added to a running total, which is restated before each step.
 * Live are the numbers still to come and the total; all digits of earlier steps are dead.
 * The long form adds a second time, from the last number to the first. */
#include "eval/suite_make.h"
#include "eval/trace.h"

enum {
    NUMBERS_MAX = 26,
    NUMBER_LOW = 100,
    NUMBER_HIGH = 380, /* 26 of them stay within the four digits of the total */
};

static void add_up(struct gp_trace *trace, struct gp_item *numbers, uint32_t count, bool backwards,
                   struct gp_item *total)
{
    *total = (struct gp_item){.width = 4};
    for (uint32_t i = 0; i < count; i++)
        gp_trace_sum(trace, total, &numbers[backwards ? count - 1 - i : i]);
    gp_trace_put(trace, "#");
    gp_trace_again(trace, total);
    gp_trace_put(trace, "\n");
}

int gp_make_sum(uint64_t seed, double difficulty, enum gp_form form, struct gp_problem *out)
{
    struct gp_trace trace;
    struct gp_item numbers[NUMBERS_MAX], total;

    gp_trace_begin(&trace, seed, difficulty, form);
    uint32_t count = form == GP_FORM_LONG ? gp_trace_size(&trace, 8, 12, 16, NUMBERS_MAX)
                                          : gp_trace_size(&trace, 2, 4, 8, 14);
    gp_trace_put(&trace, "Add");
    for (uint32_t i = 0; i < count; i++) {
        numbers[i] =
            (struct gp_item){(char)('a' + i), gp_trace_draw(&trace, NUMBER_LOW, NUMBER_HIGH), 3, 0};
        gp_trace_put(&trace, " ");
        gp_trace_item(&trace, &numbers[i]);
    }
    gp_trace_put(&trace, form == GP_FORM_LONG ? " and check." : ".");

    gp_trace_thought(&trace);
    add_up(&trace, numbers, count, false, &total);
    if (form == GP_FORM_LONG) {
        struct gp_item first = total;
        gp_trace_put(&trace, "again\n");
        add_up(&trace, numbers, count, true, &total);
        gp_trace_put(&trace, "#");
        gp_trace_again(&trace, &total);
        gp_trace_put(&trace, "=");
        gp_trace_again(&trace, &first);
        gp_trace_put(&trace, "\n");
    }
    gp_trace_answer(&trace);
    gp_trace_read(&trace, total.at, total.width);
    gp_trace_put(&trace, "%u", total.value);
    return gp_trace_end(&trace, out);
}
