/* prog: a program of sums and differences modulo 100 whose every line looks back to any earlier
 * result.  A line restates its instruction, then the operands with their values, then works:
 *
 *     C=A+B a37+b58 7+8+0=15 3+5+1=09 c95
 *
 * Live are the instructions to come and the values that they or the last line still need.  The long
 * form undoes each line to check it, and restates all values after every fourth. */
#include "eval/suite_make.h"
#include "eval/trace.h"

enum {
    NAMES_MAX = 26,
    RESTATE_EVERY = 4,
};

struct line {
    uint32_t left, right;
    char sign;
    size_t at; /* in the prompt */
};

static void draw_lines(struct gp_trace *trace, struct line *lines, uint32_t given, uint32_t count)
{
    for (uint32_t i = given; i < count; i++) {
        /* Half of the operands are recent, half are any. */
        uint32_t low = gp_trace_draw(trace, 0, 1) && i > 4 ? i - 4 : 0;
        lines[i].left = gp_trace_draw(trace, low, i - 1);
        lines[i].right = gp_trace_draw(trace, 0, i - 1);
        lines[i].sign = gp_trace_draw(trace, 0, 1) ? '+' : '-';
    }
}

static void put_instruction(struct gp_trace *trace, const struct line *line, uint32_t index)
{
    gp_trace_put(trace, "%c=%c%c%c", 'A' + (char)index, 'A' + (char)line->left, line->sign,
                 'A' + (char)line->right);
}

/* left sign right, worked out; the result is written and put into `to` under its name. */
static void work(struct gp_trace *trace, struct gp_item *left, char sign, struct gp_item *right,
                 struct gp_item *to)
{
    gp_trace_again(trace, left);
    gp_trace_put(trace, "%c", sign);
    gp_trace_again(trace, right);
    gp_trace_put(trace, " ");
    size_t at = trace->length;
    to->value = gp_trace_columns(trace, left, sign, right);
    gp_trace_read(trace, at, trace->length - at);
    gp_trace_item(trace, to);
    gp_trace_put(trace, "\n");
}

static void run_line(struct gp_trace *trace, const struct line *lines, uint32_t i,
                     struct gp_item *values)
{
    const struct line *line = &lines[i];

    gp_trace_read(trace, line->at, 5);
    put_instruction(trace, line, i);
    gp_trace_put(trace, " ");
    values[i] = (struct gp_item){(char)('a' + i), 0, 2, 0};
    work(trace, &values[line->left], line->sign, &values[line->right], &values[i]);
}

static void check_line(struct gp_trace *trace, const struct line *line, uint32_t i,
                       struct gp_item *values)
{
    /* c = a + b is undone by c - b, c = a - b by c + b. */
    work(trace, &values[i], line->sign == '+' ? '-' : '+', &values[line->right],
         &values[line->left]);
}

static void restate(struct gp_trace *trace, struct gp_item *values, uint32_t count)
{
    gp_trace_put(trace, "[");
    for (uint32_t i = 0; i < count; i++) {
        gp_trace_put(trace, i ? " " : "");
        gp_trace_again(trace, &values[i]);
    }
    gp_trace_put(trace, "]\n");
}

int gp_make_prog(uint64_t seed, double difficulty, enum gp_form form, struct gp_problem *out)
{
    struct gp_trace trace;
    struct gp_item values[NAMES_MAX];
    struct line lines[NAMES_MAX];
    uint8_t order[NAMES_MAX];
    bool longer = form == GP_FORM_LONG;

    gp_trace_begin(&trace, seed, difficulty, form);
    uint32_t given = gp_trace_draw(&trace, 2, 4);
    uint32_t count = given + (longer ? gp_trace_size(&trace, 10, 14, 16, NAMES_MAX - 4)
                                     : gp_trace_size(&trace, 3, 5, 14, 20));
    gp_trace_put(&trace, "Run");
    for (uint32_t i = 0; i < given; i++) {
        values[i] = (struct gp_item){(char)('a' + i), gp_trace_draw(&trace, 0, 99), 2, 0};
        gp_trace_put(&trace, " ");
        gp_trace_item(&trace, &values[i]);
    }
    draw_lines(&trace, lines, given, count);
    for (uint32_t i = given; i < count; i++) {
        gp_trace_put(&trace, " ");
        lines[i].at = trace.length;
        put_instruction(&trace, &lines[i], i);
    }
    uint32_t shown = gp_trace_draw(&trace, 1, count < 4 ? count : 4);
    size_t shown_at = trace.length + 7;
    gp_trace_put(&trace, ", show ");
    gp_trace_shuffle(&trace, order, count);
    for (uint32_t i = 0; i < shown; i++)
        gp_trace_put(&trace, "%c", 'A' + (char)order[i]);
    gp_trace_put(&trace, longer ? " and check." : ".");

    gp_trace_thought(&trace);
    for (uint32_t i = given; i < count; i++) {
        run_line(&trace, lines, i, values);
        if (longer)
            check_line(&trace, &lines[i], i, values);
        if (longer && (i - given + 1) % RESTATE_EVERY == 0)
            restate(&trace, values, i + 1);
    }
    gp_trace_put(&trace, "!");
    for (uint32_t i = 0; i < shown; i++) {
        gp_trace_read(&trace, shown_at + i, 1);
        gp_trace_put(&trace, i ? " " : "");
        gp_trace_again(&trace, &values[order[i]]);
    }
    gp_trace_put(&trace, "\n");
    gp_trace_answer(&trace);
    for (uint32_t i = 0; i < shown; i++) {
        gp_trace_put(&trace, i ? " " : "");
        gp_trace_digits(&trace, &values[order[i]]);
    }
    return gp_trace_end(&trace, out);
}
