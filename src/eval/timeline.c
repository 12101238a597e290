#include "eval/timeline.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

/* Beyond what any engine holds; each event looks its row up among these. */
#define OPEN_MAX 16384u

struct reader {
    struct gp_timeline *timeline;
    const json_t *event;
    uint64_t step;
    char why[64]; /* the line is bad; empty: it is good so far */
    bool no_memory;
};

static void say(struct reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct reader *r, const char *format, ...)
{
    va_list args;

    if (r->why[0])
        return;
    va_start(args, format);
    vsnprintf(r->why, sizeof r->why, format, args);
    va_end(args);
    gp_text_clean(r->why);
}

/* ---- fields ---- */

/* Each names the field when it is not there or is something else, and gives nothing then. */
static uint64_t whole(struct reader *r, const char *name)
{
    const json_t *field = json_object_get(r->event, name);

    if (json_is_integer(field) && json_integer_value(field) >= 0)
        return (uint64_t)json_integer_value(field);
    say(r, "%s: must be a whole number", name);
    return 0;
}

static uint32_t small(struct reader *r, const char *name)
{
    uint64_t value = whole(r, name);

    if (value > UINT32_MAX)
        say(r, "%s: must be below 2^32", name);
    return value > UINT32_MAX ? 0 : (uint32_t)value;
}

static double number(struct reader *r, const char *name)
{
    const json_t *field = json_object_get(r->event, name);

    if (json_is_number(field))
        return json_number_value(field);
    say(r, "%s: must be a number", name);
    return 0;
}

static const char *text_of(struct reader *r, const char *name)
{
    const json_t *field = json_object_get(r->event, name);

    if (json_is_string(field))
        return json_string_value(field);
    say(r, "%s: must be a text", name);
    return "";
}

/* The place of a text field among "a|b|c". */
static uint32_t word(struct reader *r, const char *name, const char *words)
{
    const char *value = text_of(r, name);
    size_t length = strlen(value);
    uint32_t place = 0;

    for (const char *at = words; *at; place++) {
        size_t count = strcspn(at, "|");

        if (count == length && memcmp(at, value, length) == 0)
            return place;
        at += count + (at[count] == '|');
    }
    say(r, "%s: must be one of %s", name, words);
    return 0;
}

/* ---- rows ---- */

/* Room for one more item, doubled as it fills. */
static void *grown(struct reader *r, void *items, uint32_t count, uint32_t *room, size_t size)
{
    if (count < *room)
        return items;
    uint32_t larger = *room * 2 + 8;
    void *more = gp_mem_realloc(items, *room * size, larger * size);

    if (!more) {
        r->no_memory = true;
        return NULL;
    }
    *room = larger;
    return more;
}

static struct gp_timeline_row *add_row(struct reader *r, struct gp_timeline_run *run,
                                       uint64_t request, uint32_t choice)
{
    struct gp_timeline_row *rows =
        grown(r, run->rows, run->row_count, &run->row_room, sizeof *rows);

    if (!rows)
        return NULL;
    run->rows = rows;
    uint32_t *open = grown(r, run->open, run->open_count, &run->open_room, sizeof *open);

    if (!open)
        return NULL;
    run->open = open;
    open[run->open_count++] = run->row_count;
    rows[run->row_count] = (struct gp_timeline_row){.request = request, .choice = choice};
    return &rows[run->row_count++];
}

/* The choice that the event names, a new one when it has not been seen.  NULL, and the line is bad
 * or there is no memory, when it cannot be had. */
static struct gp_timeline_row *find_row(struct reader *r, struct gp_timeline_run *run)
{
    uint64_t request = whole(r, "request");
    uint32_t choice = small(r, "choice");

    if (r->why[0])
        return NULL;
    for (uint32_t i = run->open_count; i > 0; i--) {
        struct gp_timeline_row *row = &run->rows[run->open[i - 1]];

        if (row->request == request && row->choice == choice)
            return row;
    }
    if (run->open_count == OPEN_MAX)
        say(r, "more than %u requests at once", OPEN_MAX);
    return r->why[0] ? NULL : add_row(r, run, request, choice);
}

static void close_row(struct gp_timeline_run *run, const struct gp_timeline_row *row)
{
    for (uint32_t i = 0; i < run->open_count; i++)
        if (&run->rows[run->open[i]] == row) {
            run->open[i] = run->open[--run->open_count];
            return;
        }
}

static void add_point(struct reader *r, struct gp_timeline_row *row, uint32_t pages,
                      enum gp_mark mark)
{
    struct gp_point *points = grown(r, row->points, row->count, &row->room, sizeof *points);

    if (!points)
        return;
    row->points = points;
    points[row->count++] = (struct gp_point){r->step, pages, mark};
    row->pages = pages;
    if (pages > row->pages_peak)
        row->pages_peak = pages;
}

/* ---- events ---- */

typedef void (*event_reader)(struct reader *r, struct gp_timeline_run *run,
                             struct gp_timeline_row *row);

static void read_admit(struct reader *r, struct gp_timeline_run *run, struct gp_timeline_row *row)
{
    uint32_t pages = small(r, "pages");

    if (r->why[0])
        return;
    run->sums[GP_SUM_ADMIT]++;
    add_point(r, row, pages, GP_MARK_NONE);
}

static void read_prefix_hit(struct reader *r, struct gp_timeline_run *run,
                            struct gp_timeline_row *row)
{
    uint32_t tokens = small(r, "tokens");

    (void)row;
    if (r->why[0])
        return;
    run->sums[GP_SUM_PREFIX_HIT]++;
    run->sums[GP_SUM_PREFIX_TOKENS] += tokens;
}

static void read_boundary(struct reader *r, struct gp_timeline_run *run,
                          struct gp_timeline_row *row)
{
    static const enum gp_timeline_sum decisions[] = {GP_SUM_GROW, GP_SUM_COMPRESS, GP_SUM_SHRINK};
    static const enum gp_timeline_sum causes[] = {
        GP_SUM_COUNT,  GP_SUM_START, GP_SUM_INITIAL, GP_SUM_PRESSURE,
        GP_SUM_CAPPED, GP_SUM_GROW,  GP_SUM_COUNT,
    };
    uint32_t decision = word(r, "decision", "grow|compress|shrink");
    uint32_t cause = word(r, "cause", "policy|start|initial|pressure|capped|fallback|overridden");
    const json_t *spent = json_object_get(r->event, "demand_ms");

    (void)row;
    if (spent && !json_is_null(spent))
        number(r, "demand_ms");
    if (r->why[0])
        return;
    /* What a fallback turned round was a decision to grow. */
    run->sums[cause == 0 ? decisions[decision] : causes[cause]]++;
    run->demand_ms += json_number_value(spent);
}

static void read_grow(struct reader *r, struct gp_timeline_run *run, struct gp_timeline_row *row)
{
    uint32_t pages = small(r, "pages");

    (void)run;
    if (r->why[0])
        return;
    row->grow++;
    add_point(r, row, pages, GP_MARK_GROW);
}

static void read_fallback(struct reader *r, struct gp_timeline_run *run,
                          struct gp_timeline_row *row)
{
    run->sums[GP_SUM_FALLBACK]++;
    row->fallback++;
    add_point(r, row, row->pages, GP_MARK_FALLBACK);
}

static void read_compact(struct reader *r, struct gp_timeline_run *run, struct gp_timeline_row *row)
{
    uint32_t pages = small(r, "pages_after");
    uint64_t moved = whole(r, "moved");
    double score = number(r, "score_ms"), select = number(r, "select_ms"),
           move = number(r, "move_ms");

    if (r->why[0])
        return;
    row->compact++;
    run->sums[GP_SUM_COMPACT]++;
    run->sums[GP_SUM_REPLAYED] += json_is_true(json_object_get(r->event, "replay"));
    run->sums[GP_SUM_MOVED] += moved;
    run->score_ms += score;
    run->select_ms += select;
    run->move_ms += move;
    add_point(r, row, pages, GP_MARK_COMPACT);
}

static void read_preempt(struct reader *r, struct gp_timeline_run *run, struct gp_timeline_row *row)
{
    run->sums[GP_SUM_PREEMPT]++;
    row->preempt++;
    add_point(r, row, 0, GP_MARK_PREEMPT);
}

static void read_resume(struct reader *r, struct gp_timeline_run *run, struct gp_timeline_row *row)
{
    uint32_t pages = small(r, "pages");

    if (r->why[0])
        return;
    run->sums[GP_SUM_RESUME]++;
    add_point(r, row, pages, GP_MARK_RESUME);
}

static void read_finish(struct reader *r, struct gp_timeline_run *run, struct gp_timeline_row *row)
{
    const char *reason = text_of(r, "reason");
    uint32_t tokens = small(r, "output_tokens");

    if (r->why[0])
        return;
    run->sums[GP_SUM_FINISH]++;
    run->sums[GP_SUM_OUTPUT_TOKENS] += tokens;
    row->finished = true;
    gp_text_copy(row->reason, sizeof row->reason, reason, strlen(reason));
    close_row(run, row);
    add_point(r, row, 0, GP_MARK_NONE);
}

static void read_start(struct reader *r)
{
    struct gp_timeline *t = r->timeline;
    struct gp_timeline_run run = {.page_size = small(r, "page_size"), .pages = small(r, "pages")};
    const char *version = text_of(r, "version"), *model = text_of(r, "model"),
               *policy = text_of(r, "policy");

    if (r->why[0])
        return;
    gp_text_copy(run.version, sizeof run.version, version, strlen(version));
    gp_text_copy(run.model, sizeof run.model, model, strlen(model));
    gp_text_copy(run.policy, sizeof run.policy, policy, strlen(policy));
    struct gp_timeline_run *runs = grown(r, t->runs, t->count, &t->room, sizeof *runs);

    if (!runs)
        return;
    t->runs = runs;
    runs[t->count++] = run;
}

static const struct {
    const char *name;
    event_reader read;
} events[] = {
    {"admit", read_admit},     {"prefix_hit", read_prefix_hit}, {"boundary", read_boundary},
    {"grow", read_grow},       {"fallback", read_fallback},     {"compact", read_compact},
    {"preempt", read_preempt}, {"resume", read_resume},         {"finish", read_finish},
};

/* ---- lines ---- */

static void read_event(struct reader *r)
{
    const char *name = text_of(r, "event");
    double ms = number(r, "t_ms");
    struct gp_timeline *t = r->timeline;
    struct gp_timeline_run *run = t->count ? &t->runs[t->count - 1] : NULL;
    event_reader read = NULL;

    r->step = whole(r, "step");
    if (r->why[0])
        return;
    if (strcmp(name, "start") == 0) {
        read_start(r);
        return;
    }
    if (!run || run->ended || r->step < run->steps) {
        say(r, "%s", run && !run->ended ? "step: goes back" : "no start before it");
        return;
    }
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (strcmp(events[i].name, name) == 0)
            read = events[i].read;
    struct gp_timeline_row *row = read ? find_row(r, run) : NULL;

    if (row)
        read(r, run, row);
    if (r->why[0])
        return;
    run->steps = r->step;
    run->ms = ms;
    run->ended = strcmp(name, "end") == 0;
    t->passed_over += !read && !run->ended;
}

static void read_line(struct reader *r, const char *line, size_t length)
{
    struct gp_timeline *t = r->timeline;
    json_error_t why;
    json_t *event = json_loadb(line, length, JSON_REJECT_DUPLICATES, &why);

    r->why[0] = 0;
    r->event = event;
    if (!event)
        say(r, "not JSON: %.40s", why.text);
    else if (!json_is_object(event))
        say(r, "not an object");
    else
        read_event(r);
    json_decref(event);
    if (!r->why[0])
        return;
    if (t->bad_count < GP_BAD_LINES_KEPT) {
        t->bad[t->bad_count].line = t->lines;
        memcpy(t->bad[t->bad_count].why, r->why, sizeof r->why);
    }
    t->bad_count++;
}

int gp_timeline_read(struct gp_timeline *out, const char *text, size_t length, struct gp_error *err)
{
    struct gp_timeline timeline = {0};
    struct reader r = {.timeline = &timeline};

    for (size_t at = 0; at < length && !r.no_memory;) {
        const char *end = memchr(text + at, '\n', length - at);
        size_t count = end ? (size_t)(end - text) - at : length - at;

        timeline.lines++;
        if (count > 0)
            read_line(&r, text + at, count);
        at += count + 1;
    }
    if (r.no_memory) {
        gp_timeline_free(&timeline);
        return gp_fail(err, GP_ENOMEM, "trace: out of memory");
    }
    *out = timeline;
    return GP_OK;
}

void gp_timeline_free(struct gp_timeline *timeline)
{
    for (uint32_t i = 0; i < timeline->count; i++) {
        struct gp_timeline_run *run = &timeline->runs[i];

        for (uint32_t k = 0; k < run->row_count; k++)
            gp_mem_free(run->rows[k].points);
        gp_mem_free(run->rows);
        gp_mem_free(run->open);
    }
    gp_mem_free(timeline->runs);
    *timeline = (struct gp_timeline){0};
}

/* ---- a row ---- */

/* Eighths of the most that the run has of anything. */
static uint32_t most_pages(const struct gp_timeline_run *run)
{
    uint32_t most = 1;

    for (uint32_t i = 0; i < run->row_count; i++)
        if (run->rows[i].pages_peak > most)
            most = run->rows[i].pages_peak;
    return most;
}

static char *draw_pages(char *at, uint32_t pages, uint32_t most, bool unicode)
{
    static const char ascii[] = ".:-=+*%#";
    uint32_t level = (uint32_t)(((uint64_t)pages * 8 + most - 1) / most) - 1;

    if (!unicode) {
        *at++ = ascii[level];
        return at;
    }
    /* U+2581 to U+2588, lower one eighth block to full block */
    *at++ = (char)0xe2;
    *at++ = (char)0x96;
    *at++ = (char)(0x81 + level);
    return at;
}

void gp_timeline_draw(const struct gp_timeline_run *run, const struct gp_timeline_row *row,
                      uint32_t columns, bool unicode, char out[GP_TIMELINE_BYTES])
{
    static const char marks[] = {
        [GP_MARK_NONE] = ' ',   [GP_MARK_GROW] = 'G',     [GP_MARK_COMPACT] = 'C',
        [GP_MARK_RESUME] = 'R', [GP_MARK_FALLBACK] = 'F', [GP_MARK_PREEMPT] = 'P',
    };
    uint32_t most = most_pages(run), pages = 0, next = 0;
    char *at = out;

    gp_assert(columns >= 1 && columns <= GP_TIMELINE_COLUMNS_MAX);
    for (uint32_t c = 0; c < columns; c++) {
        /* Steps 0 to run->steps, the first that is not in this column's part. */
        double behind = ((double)run->steps + 1) * (c + 1) / columns;
        uint32_t peak = pages;
        enum gp_mark mark = GP_MARK_NONE;

        for (; next < row->count && ((double)row->points[next].step < behind || c + 1 == columns);
             next++) {
            const struct gp_point *point = &row->points[next];

            pages = point->pages;
            peak = pages > peak ? pages : peak;
            mark = point->mark > mark ? point->mark : mark;
        }
        if (mark != GP_MARK_NONE)
            *at++ = marks[mark];
        else if (peak > 0)
            at = draw_pages(at, peak, most, unicode);
        else /* it waits, or is not there yet or any more */
            *at++ = next > 0 && next < row->count ? '_' : ' ';
    }
    *at = 0;
}

/* ---- sums ---- */

const char *gp_timeline_sum_name(enum gp_timeline_sum sum)
{
    static const char *const names[] = {
        "admit",  "finish",     "output_tokens", "grow",    "compress", "shrink",
        "start",  "initial",    "pressure",      "capped",  "fallback", "preempt",
        "resume", "prefix_hit", "prefix_tokens", "compact", "replayed", "moved",
    };
    _Static_assert(sizeof names / sizeof *names == GP_SUM_COUNT, "each sum has a name");

    return names[sum];
}

static json_t *run_json(const struct gp_timeline_run *run)
{
    json_t *object = json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:f, s:b}", "version", run->version,
                               "model", run->model, "policy", run->policy, "page_size",
                               (int)run->page_size, "pages", (json_int_t)run->pages, "steps",
                               (json_int_t)run->steps, "ms", run->ms, "ended", run->ended);
    const struct {
        const char *name;
        double ms;
    } stages[] = {{"demand_ms", run->demand_ms},
                  {"score_ms", run->score_ms},
                  {"select_ms", run->select_ms},
                  {"move_ms", run->move_ms}};
    bool good = object != NULL;

    for (uint32_t i = 0; good && i < GP_SUM_COUNT; i++)
        good = !json_object_set_new(object, gp_timeline_sum_name((enum gp_timeline_sum)i),
                                    json_integer((json_int_t)run->sums[i]));
    for (size_t i = 0; good && i < sizeof stages / sizeof *stages; i++)
        good = !json_object_set_new(object, stages[i].name, json_real(stages[i].ms));
    if (!good)
        json_decref(object);
    return good ? object : NULL;
}

json_t *gp_timeline_json(const struct gp_timeline *timeline)
{
    json_t *runs = json_array(), *bad = json_array();
    bool good = runs && bad;

    for (uint32_t i = 0; good && i < timeline->count; i++)
        good = !json_array_append_new(runs, run_json(&timeline->runs[i]));
    for (uint32_t i = 0; good && i < timeline->bad_count && i < GP_BAD_LINES_KEPT; i++)
        good = !json_array_append_new(bad, json_pack("{s:I, s:s}", "line",
                                                     (json_int_t)timeline->bad[i].line, "why",
                                                     timeline->bad[i].why));
    if (good)
        return json_pack("{s:I, s:I, s:I, s:o, s:o}", "lines", (json_int_t)timeline->lines,
                         "passed_over", (json_int_t)timeline->passed_over, "bad",
                         (json_int_t)timeline->bad_count, "bad_lines", bad, "runs", runs);
    json_decref(runs);
    json_decref(bad);
    return NULL;
}
