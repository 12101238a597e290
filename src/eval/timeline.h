/* A trace (docs/TRACE.md) read back: each choice's pages over steps, what happened to it, and the
 * sums.
 *
 * A line that is no event is kept by its number and the reason, and the rest is read on; an event
 * that nobody here knows is passed over, for newer traces have more. */
#ifndef GP_EVAL_TIMELINE_H
#define GP_EVAL_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"

/* What a row shows, the more important the higher. */
enum gp_mark {
    GP_MARK_NONE, /* its pages only */
    GP_MARK_GROW,
    GP_MARK_COMPACT,
    GP_MARK_RESUME,
    GP_MARK_FALLBACK,
    GP_MARK_PREEMPT,
};

struct gp_point {
    uint64_t step;
    uint32_t pages; /* from here on */
    enum gp_mark mark;
};

/* One choice of one request. */
struct gp_timeline_row {
    uint64_t request;
    uint32_t choice;
    struct gp_point *points; /* steps never go back */
    uint32_t count, room;
    uint32_t pages, pages_peak;
    uint32_t grow, compact, fallback, preempt;
    bool finished;
    char reason[16]; /* when finished */
};

enum gp_timeline_sum {
    GP_SUM_ADMIT,
    GP_SUM_FINISH,
    GP_SUM_OUTPUT_TOKENS, /* of finished ones */
    GP_SUM_GROW,          /* primary decisions, as are the next two */
    GP_SUM_COMPRESS,
    GP_SUM_SHRINK,
    GP_SUM_START, /* by their cause, as are the next three */
    GP_SUM_INITIAL,
    GP_SUM_PRESSURE,
    GP_SUM_CAPPED,
    GP_SUM_FALLBACK,
    GP_SUM_PREEMPT,
    GP_SUM_RESUME,
    GP_SUM_PREFIX_HIT,
    GP_SUM_PREFIX_TOKENS,
    GP_SUM_COMPACT,
    GP_SUM_REPLAYED, /* of the compactions */
    GP_SUM_MOVED,
    GP_SUM_COUNT
};

/* One run of an engine. */
struct gp_timeline_run {
    char version[32], model[128], policy[64];
    uint32_t page_size, pages;
    bool ended; /* its trace goes on to the end */
    uint64_t steps;
    double ms;
    uint64_t sums[GP_SUM_COUNT];
    double demand_ms, score_ms, select_ms, move_ms;
    struct gp_timeline_row *rows;
    uint32_t row_count, row_room;
    uint32_t *open; /* rows that have not finished */
    uint32_t open_count, open_room;
};

#define GP_BAD_LINES_KEPT 16u

struct gp_timeline {
    struct gp_timeline_run *runs;
    uint32_t count, room;
    uint64_t lines, passed_over; /* empty lines count as none */
    uint64_t bad_count;
    struct {
        uint64_t line;
        char why[64];
    } bad[GP_BAD_LINES_KEPT]; /* the first of them */
};

/* GP_ENOMEM alone; bad lines are no error of the reader's. */
int gp_timeline_read(struct gp_timeline *out, const char *text, size_t length,
                     struct gp_error *err);
void gp_timeline_free(struct gp_timeline *timeline);

/* A row in `columns` signs of even parts of the run: a letter for what happened (G grow, C compact,
 * R resume, F fallback, P preempt), else the pages, a block of eighths or an ASCII sign next to the
 * run's most; zero-terminated. */
#define GP_TIMELINE_COLUMNS_MAX 400u
#define GP_TIMELINE_BYTES       (GP_TIMELINE_COLUMNS_MAX * 3 + 1)
void gp_timeline_draw(const struct gp_timeline_run *run, const struct gp_timeline_row *row,
                      uint32_t columns, bool unicode, char out[GP_TIMELINE_BYTES]);

/* "grow", ... */
const char *gp_timeline_sum_name(enum gp_timeline_sum sum);

/* Everything but the points; NULL for no memory. */
json_t *gp_timeline_json(const struct gp_timeline *timeline);

#endif
