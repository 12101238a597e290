/* walk: rings of links, followed for many laps.  A leg counts its links down:
 *
 *     a05
 *     05aC 04cB 03bD 02dA 01aC
 *     !C
 *
 * Live are the links of the rings that are still walked: after a lap they can be read from the lap
 * before, so all older laps are dead.  The long form has more and longer legs. */
#include "eval/suite_make.h"
#include "eval/trace.h"

enum {
    LETTERS_MAX = 26,
    RINGS_MAX = 3,
    LEGS_MAX = 9,
};

struct link {
    uint8_t to;
    size_t at; /* where it was last written */
};

/* Rings over letters 0..count-1, each of at least two letters; written in a random order. */
static void put_links(struct gp_trace *trace, struct link *links, uint32_t count)
{
    uint8_t letters[LETTERS_MAX], order[LETTERS_MAX];
    uint32_t rings = gp_trace_draw(trace, 1, count < 8 ? 1 : RINGS_MAX), begin = 0;

    gp_trace_shuffle(trace, letters, count);
    for (uint32_t r = 0; r < rings; r++) {
        uint32_t left = count - begin, rest = 2 * (rings - 1 - r);
        uint32_t size = r + 1 == rings ? left : gp_trace_draw(trace, 2, left - rest);
        for (uint32_t i = 0; i < size; i++)
            links[letters[begin + i]].to = letters[begin + (i + 1) % size];
        begin += size;
    }
    gp_trace_put(trace, "Links");
    gp_trace_shuffle(trace, order, count);
    for (uint32_t i = 0; i < count; i++) {
        gp_trace_put(trace, " ");
        links[order[i]].at = trace->length;
        gp_trace_put(trace, "%c%c", 'a' + (char)order[i], 'A' + (char)links[order[i]].to);
    }
    gp_trace_put(trace, ".");
}

/* Walk; returns the last letter and where it was written. */
static uint8_t walk_leg(struct gp_trace *trace, struct link *links, struct gp_item *leg,
                        size_t *ended_at)
{
    uint8_t letter = (uint8_t)(leg->name - 'a');

    gp_trace_again(trace, leg);
    gp_trace_put(trace, "\n");
    gp_trace_read(trace, leg->at, 3);
    for (uint32_t left = leg->value; left > 0; left--) {
        struct link *link = &links[letter];
        gp_trace_put(trace, "%02u", left);
        gp_trace_read(trace, link->at, 2);
        link->at = trace->length;
        gp_trace_put(trace, "%c%c%c", 'a' + (char)letter, 'A' + (char)link->to,
                     left > 1 ? ' ' : '\n');
        letter = link->to;
    }
    *ended_at = trace->length - 2;
    return letter;
}

int gp_make_walk(uint64_t seed, double difficulty, enum gp_form form, struct gp_problem *out)
{
    struct gp_trace trace;
    struct link links[LETTERS_MAX];
    struct gp_item legs[LEGS_MAX];
    uint8_t ends[LEGS_MAX];
    size_t places[LEGS_MAX];
    bool longer = form == GP_FORM_LONG;

    gp_trace_begin(&trace, seed, difficulty, form);
    uint32_t count = gp_trace_size(&trace, 3, 6, 12, LETTERS_MAX);
    uint32_t leg_count =
        longer ? gp_trace_size(&trace, 4, 5, 6, LEGS_MAX) : gp_trace_size(&trace, 1, 2, 3, 4);
    put_links(&trace, links, count);
    for (uint32_t i = 0; i < leg_count; i++) {
        uint32_t steps =
            longer ? gp_trace_draw(&trace, 50, 85) : gp_trace_size(&trace, 10, 36, 56, 99);
        legs[i] =
            (struct gp_item){(char)('a' + (char)gp_trace_draw(&trace, 0, count - 1)), steps, 2, 0};
        gp_trace_put(&trace, " ");
        gp_trace_item(&trace, &legs[i]);
    }
    gp_trace_put(&trace, ".");

    gp_trace_thought(&trace);
    for (uint32_t i = 0; i < leg_count; i++) {
        ends[i] = walk_leg(&trace, links, &legs[i], &places[i]);
        gp_trace_put(&trace, "!");
        for (uint32_t j = 0; j <= i; j++) {
            gp_trace_read(&trace, places[j], 1);
            gp_trace_put(&trace, j ? " " : "");
            places[j] = trace.length;
            gp_trace_put(&trace, "%c", 'A' + (char)ends[j]);
        }
        gp_trace_put(&trace, "\n");
    }
    gp_trace_answer(&trace);
    for (uint32_t i = 0; i < leg_count; i++) {
        gp_trace_read(&trace, places[i], 1);
        gp_trace_put(&trace, "%s%c", i ? " " : "", 'A' + (char)ends[i]);
    }
    return gp_trace_end(&trace, out);
}
