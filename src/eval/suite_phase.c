/* phase: wide look-ups and narrow sums in turn, one running total modulo 100.  A wide phase adds
 * the named entries of the table, a narrow one the same number again and again:
 *
 *     1ACB                              2+07*3
 *     #00+a37 0+7+0=07 0+3+0=03         3 #25+07 5+7+0=12 2+0+1=03
 *
 * Live are the total and those entries of the table that a later phase names, narrow phases or
 * not. */
#include "eval/suite_make.h"
#include "eval/trace.h"

enum {
    ENTRIES_MAX = 26,
    PHASES_MAX = 9,
};

struct phase {
    bool wide;
    uint32_t count; /* entries, or repetitions */
    uint8_t entries[ENTRIES_MAX];
    struct gp_item step; /* of a narrow phase */
    size_t at, length;   /* in the prompt, then where it was restated */
};

static void put_phase(struct gp_trace *trace, struct phase *phase, uint32_t number)
{
    if (phase->length > 0)
        gp_trace_read(trace, phase->at, phase->length);
    phase->at = trace->length;
    gp_trace_put(trace, "%u", number);
    for (uint32_t i = 0; phase->wide && i < phase->count; i++)
        gp_trace_put(trace, "%c", 'A' + (char)phase->entries[i]);
    if (!phase->wide) {
        gp_trace_put(trace, "+");
        gp_trace_item(trace, &phase->step);
        gp_trace_put(trace, "*%u", phase->count);
    }
    phase->length = trace->length - phase->at;
}

static void run_phase(struct gp_trace *trace, struct phase *phase, struct gp_item *table,
                      struct gp_item *total)
{
    for (uint32_t i = 0; i < phase->count; i++) {
        if (phase->wide) {
            gp_trace_read(trace, phase->at + 1 + i, 1);
            gp_trace_sum(trace, total, &table[phase->entries[i]]);
        } else {
            gp_trace_put(trace, "%u ", phase->count - i);
            gp_trace_sum(trace, total, &phase->step);
        }
    }
}

static void draw_phase(struct gp_trace *trace, struct phase *phase, bool wide, uint32_t entries,
                       uint32_t wide_max)
{
    phase->wide = wide;
    phase->length = 0;
    phase->step = (struct gp_item){0, gp_trace_draw(trace, 1, 99), 2, 0};
    gp_trace_shuffle(trace, phase->entries, entries);
    uint32_t most = wide ? (entries < wide_max ? entries : wide_max) : 9;
    uint32_t least = trace->form == GP_FORM_LONG ? most / 2 : 2;
    most = trace->form == GP_FORM_LONG || wide ? most : gp_trace_size(trace, 3, 3, 6, 9);
    phase->count = gp_trace_draw(trace, least, most);
}

int gp_make_phase(uint64_t seed, double difficulty, enum gp_form form, struct gp_problem *out)
{
    struct gp_trace trace;
    struct gp_item table[ENTRIES_MAX], total = {0, 0, 2, 0};
    struct phase phases[PHASES_MAX];
    bool longer = form == GP_FORM_LONG;

    gp_trace_begin(&trace, seed, difficulty, form);
    uint32_t entries = longer ? gp_trace_size(&trace, 6, 10, 16, ENTRIES_MAX)
                              : gp_trace_size(&trace, 2, 4, 10, 16);
    uint32_t count =
        longer ? gp_trace_size(&trace, 6, 7, 8, PHASES_MAX) : gp_trace_size(&trace, 1, 2, 4, 6);
    uint32_t wide_max = longer ? 16 : gp_trace_size(&trace, 3, 3, 7, 9);
    bool wide = gp_trace_draw(&trace, 0, 1);
    gp_trace_put(&trace, "Table");
    for (uint32_t i = 0; i < entries; i++) {
        table[i] = (struct gp_item){(char)('a' + i), gp_trace_draw(&trace, 0, 99), 2, 0};
        gp_trace_put(&trace, " ");
        gp_trace_item(&trace, &table[i]);
    }
    gp_trace_put(&trace, ".");
    for (uint32_t i = 0; i < count; i++) {
        draw_phase(&trace, &phases[i], wide, entries, wide_max);
        gp_trace_put(&trace, " ");
        put_phase(&trace, &phases[i], i + 1);
        wide = !wide;
    }
    gp_trace_put(&trace, ".");

    gp_trace_thought(&trace);
    for (uint32_t i = 0; i < count; i++) {
        put_phase(&trace, &phases[i], i + 1);
        gp_trace_put(&trace, "\n");
        run_phase(&trace, &phases[i], table, &total);
    }
    gp_trace_put(&trace, "#");
    gp_trace_again(&trace, &total);
    gp_trace_put(&trace, "\n");
    gp_trace_answer(&trace);
    gp_trace_digits(&trace, &total);
    return gp_trace_end(&trace, out);
}
