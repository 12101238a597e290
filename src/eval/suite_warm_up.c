/* copy and look: no reasoning at all, only the two movements that all other suites are made of.
 * Training begins with them. */
#include "eval/suite_make.h"
#include "eval/trace.h"

enum {
    ENTRIES_MAX = 26,
    LENGTH_MAX = 200,
};

int gp_make_copy(uint64_t seed, double difficulty, enum gp_form form, struct gp_problem *out)
{
    static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    struct gp_trace trace;
    char text[LENGTH_MAX + 1] = {0};

    gp_trace_begin(&trace, seed, difficulty, form);
    uint32_t length = form == GP_FORM_LONG ? gp_trace_draw(&trace, 100, LENGTH_MAX)
                                           : gp_trace_size(&trace, 4, 12, 40, 100);
    /* Half of the texts are digits alone: what repeats itself must be copied by its place. */
    uint32_t last = gp_trace_draw(&trace, 0, 1) ? 9 : sizeof letters - 2;
    for (uint32_t i = 0; i < length; i++)
        text[i] = letters[gp_trace_draw(&trace, 0, last)];
    gp_trace_put(&trace, "Copy ");
    size_t at = trace.length;
    gp_trace_put(&trace, "%s.", text);
    gp_trace_thought(&trace);
    for (uint32_t i = 0; i < length; i++) {
        gp_trace_read(&trace, at + i, 1);
        gp_trace_put(&trace, "%c", text[i]);
    }
    at = trace.length - length;
    gp_trace_put(&trace, "\n");
    gp_trace_answer(&trace);
    gp_trace_read(&trace, at, length);
    gp_trace_put(&trace, "%s", text);
    return gp_trace_end(&trace, out);
}

int gp_make_look(uint64_t seed, double difficulty, enum gp_form form, struct gp_problem *out)
{
    struct gp_trace trace;
    struct gp_item entries[ENTRIES_MAX];
    uint8_t names[ENTRIES_MAX], asked[ENTRIES_MAX];

    gp_trace_begin(&trace, seed, difficulty, form);
    uint32_t count = gp_trace_size(&trace, 2, 5, 12, ENTRIES_MAX);
    uint32_t asked_count = gp_trace_draw(&trace, 1, count);
    gp_trace_shuffle(&trace, names, ENTRIES_MAX);
    gp_trace_put(&trace, "Look");
    for (uint32_t i = 0; i < count; i++) {
        entries[i] =
            (struct gp_item){(char)('a' + (char)names[i]), gp_trace_draw(&trace, 0, 99), 2, 0};
        gp_trace_put(&trace, " ");
        gp_trace_item(&trace, &entries[i]);
    }
    gp_trace_put(&trace, ". ");
    size_t at = trace.length;
    gp_trace_shuffle(&trace, asked, count);
    for (uint32_t i = 0; i < asked_count; i++)
        gp_trace_put(&trace, "%c", 'A' + (char)names[asked[i]]);
    gp_trace_thought(&trace);
    for (uint32_t i = 0; i < asked_count; i++) {
        gp_trace_read(&trace, at + i, 1);
        gp_trace_put(&trace, i ? " " : "");
        gp_trace_again(&trace, &entries[asked[i]]);
    }
    gp_trace_put(&trace, "\n");
    gp_trace_answer(&trace);
    for (uint32_t i = 0; i < asked_count; i++) {
        gp_trace_put(&trace, i ? " " : "");
        gp_trace_digits(&trace, &entries[asked[i]]);
    }
    return gp_trace_end(&trace, out);
}
