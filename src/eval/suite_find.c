/* find: names whose values sum to a target, by depth-first search.  A line is the names chosen,
 * then each with its value and the sum so far, then the target and what comes of it:
 *
 *     abc a3 03,b9 12,c4 16:19<
 *
 * Too little (<): the next name of the alphabet joins.  Too much (>): the last name gives way to
 * the next.  When there is no next name (-), the last one goes and the one before gives way.
 * Live are the prompt and the last line; every abandoned branch is dead.  The long form searches
 * longer. */
#include "eval/suite_make.h"
#include "eval/trace.h"

enum {
    NAMES_MAX = 16,
    TRIES_MAX = 200,
    TARGET_MIN = 10, /* two digits */
};

struct search {
    uint32_t values[NAMES_MAX];
    uint32_t count, target;
    uint32_t chosen[NAMES_MAX], depth;
};

static void begin(struct search *search)
{
    search->depth = 1;
    search->chosen[0] = 0;
}

static uint32_t sum_of(const struct search *search)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < search->depth; i++)
        sum += search->values[search->chosen[i]];
    return sum;
}

/* To the next line; false: nothing is left to try. */
static bool advance(struct search *search)
{
    uint32_t last = search->chosen[search->depth - 1];

    if (last + 1 == search->count) {
        if (--search->depth == 0)
            return false;
        search->chosen[search->depth - 1]++;
        return true;
    }
    if (sum_of(search) < search->target)
        search->depth++;
    search->chosen[search->depth - 1] = last + 1;
    return true;
}

/* Bytes of the lines until the target is met, or `limit` when it takes as many or is never met. */
static uint32_t length_of(struct search search, uint32_t limit)
{
    uint32_t bytes = 0;

    begin(&search);
    do {
        bytes += 7 * search.depth + 5;
        if (sum_of(&search) == search.target)
            return bytes;
    } while (bytes < limit && advance(&search));
    return limit;
}

/* A search of `high` / 2 to `high` bytes; after many tries, the longest seen below `high`. */
static void draw_search(struct gp_trace *trace, struct search *out, uint32_t high)
{
    uint32_t best = 0;

    for (uint32_t tries = 0; tries < TRIES_MAX && best < high / 2; tries++) {
        bool longer = trace->form == GP_FORM_LONG;
        struct search search = {.count = longer ? gp_trace_size(trace, 8, 10, 12, NAMES_MAX)
                                                : gp_trace_size(trace, 4, 6, 9, 14)};
        for (uint32_t i = 0; i < search.count; i++)
            search.values[i] = gp_trace_draw(trace, 1, 9);
        for (uint32_t i = 0; i < search.count; i++)
            search.target += gp_trace_draw(trace, 0, 2) ? 0 : search.values[i];
        if (search.target < TARGET_MIN)
            continue;
        uint32_t bytes = length_of(search, high);
        if (bytes < high && bytes > best) {
            best = bytes;
            *out = search;
        }
    }
}

/* '<' a name joins, '>' the last gives way, '-' the last goes, '=' done. */
static char outcome_of(const struct search *search)
{
    uint32_t sum = sum_of(search);

    if (sum == search->target)
        return '=';
    if (search->chosen[search->depth - 1] + 1 == search->count)
        return '-';
    return sum < search->target ? '<' : '>';
}

/* A line of the search; items are the names, names_at is where the last line's names stand. */
static void put_line(struct gp_trace *trace, const struct search *search, struct gp_item *items,
                     struct gp_item *target, size_t *names_at)
{
    struct gp_item sum = {0, 0, 2, 0};

    if (*names_at > 0)
        gp_trace_read(trace, *names_at, search->depth);
    *names_at = trace->length;
    for (uint32_t i = 0; i < search->depth; i++)
        gp_trace_put(trace, "%c", items[search->chosen[i]].name);
    for (uint32_t i = 0; i < search->depth; i++) {
        struct gp_item *item = &items[search->chosen[i]];
        gp_trace_put(trace, i ? "," : " ");
        gp_trace_read(trace, *names_at + i, 1);
        gp_trace_again(trace, item);
        gp_trace_put(trace, " ");
        if (i > 0)
            gp_trace_read(trace, sum.at, 2);
        sum.value += item->value;
        gp_trace_item(trace, &sum);
    }
    gp_trace_put(trace, ":");
    gp_trace_again(trace, target);
    gp_trace_put(trace, "%c\n", outcome_of(search));
}

int gp_make_find(uint64_t seed, double difficulty, enum gp_form form, struct gp_problem *out)
{
    struct gp_trace trace;
    struct search search = {.values = {6, 5, 4}, .count = 3, .target = 10}; /* should all fail */
    struct gp_item items[NAMES_MAX];
    size_t names_at = 0;
    bool longer = form == GP_FORM_LONG;

    gp_trace_begin(&trace, seed, difficulty, form);
    uint32_t high = longer ? gp_trace_size(&trace, 1500, 2000, 3000, 3900)
                           : gp_trace_size(&trace, 200, 400, 1200, 2000);
    draw_search(&trace, &search, high);
    gp_trace_put(&trace, "Pick from");
    for (uint32_t i = 0; i < search.count; i++) {
        items[i] = (struct gp_item){(char)('a' + i), search.values[i], 1, 0};
        gp_trace_put(&trace, " ");
        gp_trace_item(&trace, &items[i]);
    }
    struct gp_item target = {0, search.target, 2, 0};
    gp_trace_put(&trace, " sum ");
    gp_trace_item(&trace, &target);
    gp_trace_put(&trace, ".");

    gp_trace_thought(&trace);
    begin(&search);
    put_line(&trace, &search, items, &target, &names_at);
    while (sum_of(&search) != search.target && advance(&search))
        put_line(&trace, &search, items, &target, &names_at);
    gp_trace_answer(&trace);
    for (uint32_t i = 0; i < search.depth; i++) {
        gp_trace_read(&trace, items[search.chosen[i]].at, 1);
        gp_trace_put(&trace, "%c", items[search.chosen[i]].name);
    }
    return gp_trace_end(&trace, out);
}
