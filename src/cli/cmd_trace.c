/* growpage trace: a trace as a timeline, a row for each choice, and its sums. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/io.h"
#include "eval/timeline.h"

#define WIDTH_DEFAULT 100u
#define WIDTH_MIN     60u

/* Columns of the terminal, or what COLUMNS says. */
static uint32_t width(void)
{
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    int64_t asked;

    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        asked = size.ws_col;
    else if (!columns || !gp_parse_int(columns, &asked))
        asked = WIDTH_DEFAULT;
    if (asked < WIDTH_MIN)
        return WIDTH_MIN;
    return asked > GP_TIMELINE_COLUMNS_MAX ? GP_TIMELINE_COLUMNS_MAX : (uint32_t)asked;
}

static void label_of(const struct gp_timeline_row *row, char out[32])
{
    snprintf(out, 32, "%llu.%u", (unsigned long long)row->request, row->choice);
}

/* What stands behind a row's signs. */
#define FIGURES_BYTES 37u

static int print_rows(const struct gp_timeline_run *run, struct gp_error *err)
{
    char label[32], signs[GP_TIMELINE_BYTES], steps[64];
    uint32_t longest = (uint32_t)strlen("request"), columns = 10;

    for (uint32_t i = 0; i < run->row_count; i++) {
        label_of(&run->rows[i], label);
        longest = strlen(label) > longest ? (uint32_t)strlen(label) : longest;
    }
    if (width() > longest + columns + FIGURES_BYTES)
        columns = width() - longest - FIGURES_BYTES;
    snprintf(steps, sizeof steps, "steps 0 to %llu", (unsigned long long)run->steps);
    int rc = gp_printf(err, "%-*s %-*.*s peak grow comp fall prem end\n", (int)longest, "request",
                       (int)columns, (int)columns, steps);
    for (uint32_t i = 0; !rc && i < run->row_count; i++) {
        const struct gp_timeline_row *row = &run->rows[i];

        label_of(row, label);
        gp_timeline_draw(run, row, columns, gp_has_unicode(), signs);
        rc = gp_printf(err, "%-*s %s %4u %4u %4u %4u %4u %.10s\n", (int)longest, label, signs,
                       row->pages_peak, row->grow, row->compact, row->fallback, row->preempt,
                       row->finished ? row->reason : "-");
    }
    if (!rc)
        rc = gp_printf(err, "G grow, C compact, F fallback, P preempt, R resume, _ waiting; "
                            "otherwise pages held\n\n");
    return rc;
}

static int print_sums(const struct gp_timeline_run *run, struct gp_error *err)
{
    const uint64_t *n = run->sums;
    uint64_t primary = n[GP_SUM_GROW] + n[GP_SUM_COMPRESS] + n[GP_SUM_SHRINK];
    char ratio[32] = "-";

#define N(sum) (unsigned long long)n[GP_SUM_##sum]
    if (primary > 0)
        snprintf(ratio, sizeof ratio, "%.3f", (double)n[GP_SUM_GROW] / (double)primary);
    int rc = gp_printf(err, "requests   %llu admitted, %llu finished, %llu output tokens\n",
                       N(ADMIT), N(FINISH), N(OUTPUT_TOKENS));
    if (!rc)
        rc = gp_printf(err, "decisions  %llu grow, %llu compress, %llu shrink; grow ratio %s\n",
                       N(GROW), N(COMPRESS), N(SHRINK), ratio);
    if (!rc)
        rc = gp_printf(err, "unasked    %llu start, %llu initial, %llu pressure, %llu capped\n",
                       N(START), N(INITIAL), N(PRESSURE), N(CAPPED));
    if (!rc)
        rc = gp_printf(err,
                       "memory     %llu fallback, %llu preempt, %llu resume; %llu prefix hits, "
                       "%llu tokens\n",
                       N(FALLBACK), N(PREEMPT), N(RESUME), N(PREFIX_HIT), N(PREFIX_TOKENS));
    if (!rc)
        rc = gp_printf(err, "compacted  %llu times, %llu in replays; %llu slots moved\n",
                       N(COMPACT), N(REPLAYED), N(MOVED));
#undef N
    return rc ? rc
              : gp_printf(
                    err, "work       demand %.1f ms, score %.1f ms, select %.1f ms, move %.1f ms\n",
                    run->demand_ms, run->score_ms, run->select_ms, run->move_ms);
}

static int print_run(const struct gp_timeline_run *run, bool first, struct gp_error *err)
{
    int rc = gp_printf(err,
                       "%sgrowpage %s, %s, policy %s, %u pages of %u tokens; %llu steps, %.2f s%s\n"
                       "\n",
                       first ? "" : "\n", run->version, run->model[0] ? run->model : "no name",
                       run->policy, run->pages, run->page_size, (unsigned long long)run->steps,
                       run->ms / 1e3, run->ended ? "" : " (not ended)");

    if (!rc && run->row_count > 0)
        rc = print_rows(run, err);
    return rc ? rc : print_sums(run, err);
}

static int print_json(const struct gp_timeline *timeline, struct gp_error *err)
{
    json_t *object = gp_timeline_json(timeline);
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;

    json_decref(object);
    if (!text)
        return gp_fail(err, GP_ENOMEM, "trace: out of memory");
    int rc = gp_printf(err, "%s\n", text);

    free(text);
    return rc;
}

static int print_all(const struct gp_settings *s, const struct gp_timeline *timeline,
                     struct gp_error *err)
{
    int rc = GP_OK;

    if (s->json)
        rc = print_json(timeline, err);
    for (uint32_t i = 0; !rc && !s->json && i < timeline->count; i++)
        rc = print_run(&timeline->runs[i], i == 0, err);
    return rc ? rc : gp_print_end(err);
}

/* What could not be read, in one line. */
static int check_lines(const char *path, const struct gp_timeline *timeline, struct gp_error *err)
{
    char named[192];
    size_t at = 0;

    if (timeline->count == 0 && timeline->bad_count == 0)
        return gp_fail(err, GP_EINVAL, "trace: %s: no events", path);
    if (timeline->bad_count == 0)
        return GP_OK;
    for (uint32_t i = 0; i < 3 && i < timeline->bad_count; i++)
        at += (size_t)snprintf(named + at, sizeof named - at, "%sline %llu: %.36s", i ? "; " : "",
                               (unsigned long long)timeline->bad[i].line, timeline->bad[i].why);
    return gp_fail(err, GP_EINVAL, "trace: %s: %llu of %llu lines are no events: %s%s", path,
                   (unsigned long long)timeline->bad_count, (unsigned long long)timeline->lines,
                   named, timeline->bad_count > 3 ? "; ..." : "");
}

int gp_cmd_trace(struct gp_settings *s)
{
    const char *path = s->rest.items[0];
    struct gp_timeline timeline;
    struct gp_error err;
    size_t length;
    char *text;

    int rc = gp_read_file(path, &text, &length, &err);
    if (rc) {
        gp_error_prefix(&err, "trace");
        return gp_tell(GP_EXIT_FAILED, &err);
    }
    rc = gp_timeline_read(&timeline, text, length, &err);
    gp_mem_free(text);
    if (rc)
        return gp_tell(GP_EXIT_FAILED, &err);
    rc = print_all(s, &timeline, &err);
    if (!rc)
        rc = check_lines(path, &timeline, &err);
    gp_timeline_free(&timeline);
    return rc ? gp_tell(GP_EXIT_FAILED, &err) : GP_EXIT_OK;
}
