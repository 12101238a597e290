#include "eval/gauge_report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "eval/rows.h"
#include "eval/statistics.h"

/* Over all samples; of the two comparisons the median, NaN where there is none. */
struct figures {
    struct gp_spread value; /* in the unit */
    double of_read, over_definition;
};

static const char *const units[] = {
    [GP_GAUGE_BYTES] = "GB/s", [GP_GAUGE_MACS] = "GMA/s", [GP_GAUGE_CALLS] = "ns"};

/* Bytes and multiply-adds in a ns are 10^9 of them in a second. */
static double value_of(const struct gp_gauge_report *report, uint32_t i)
{
    const struct gp_gauge_case *what = &report->what;

    return what->unit == GP_GAUGE_CALLS ? report->samples[i].ns / what->work
                                        : what->work / report->samples[i].ns;
}

static double of_read(const struct gp_gauge_report *report, uint32_t i)
{
    return report->samples[i].read_ns / report->samples[i].ns;
}

static double over_definition(const struct gp_gauge_report *report, uint32_t i)
{
    return report->samples[i].definition_ns / report->samples[i].ns;
}

static int spread_of(const struct gp_gauge_report *report,
                     double (*item)(const struct gp_gauge_report *, uint32_t),
                     struct gp_spread *out, struct gp_error *err)
{
    struct gp_values values = {0};
    int rc = GP_OK;

    gp_assert(report->count > 0);
    for (uint32_t i = 0; !rc && i < report->count; i++)
        rc = gp_values_add(&values, item(report, i), err);
    if (!rc)
        gp_spread_of(&values, out);
    gp_values_free(&values);
    return rc;
}

static int take_figures(const struct gp_gauge_report *report, struct figures *out,
                        struct gp_error *err)
{
    struct gp_spread read, definition;
    int rc = spread_of(report, value_of, &out->value, err);

    if (!rc)
        rc = spread_of(report, of_read, &read, err);
    if (!rc)
        rc = spread_of(report, over_definition, &definition, err);
    if (rc)
        return rc;
    out->of_read = read.p50 > 0 ? read.p50 : NAN;
    out->over_definition = definition.p50 > 0 ? definition.p50 : NAN;
    return GP_OK;
}

/* ---- JSON ---- */

int gp_gauge_json(const struct gp_gauge_report *report, json_t **out, struct gp_error *err)
{
    const struct gp_gauge_case *what = &report->what;
    struct figures f;
    json_t *samples = json_array();
    int rc = take_figures(report, &f, err);

    if (rc) {
        json_decref(samples);
        return rc;
    }
    for (uint32_t i = 0; i < report->count; i++)
        json_array_append_new(samples, json_real(value_of(report, i)));
    *out = json_pack("{s:s, s:s, s:i, s:s, s:i, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:s,"
                     " s:s, s:o, s:o}",
                     "kernel", what->kernel, "type", what->type, "rows", (int)what->rows, "shape",
                     what->shape, "threads", (int)what->threads, "level", report->level, "unit",
                     units[what->unit], "median", f.value.p50, "mean", f.value.mean, "stddev",
                     f.value.stddev, "min", f.value.min, "max", f.value.max, "of_read",
                     gp_json_number(f.of_read), "over_ref", gp_json_number(f.over_definition),
                     "version", gp_version(), "test_time", report->started, "machine",
                     gp_origin_machine(report->origin), "samples", samples);
    return *out ? GP_OK : gp_fail(err, GP_ENOMEM, "result: out of memory");
}

/* ---- Markdown ---- */

enum {
    KERNEL,
    TYPE,
    ROWS,
    SHAPE,
    THREADS,
    LEVEL,
    MEDIAN,
    UNIT,
    RANGE,
    OF_READ,
    OVER_REF,
    COLUMN_COUNT
};

static const struct column {
    const char *name;
    int width; /* < 0: to the left */
} columns[COLUMN_COUNT] = {
    [KERNEL] = {"kernel", -9},  [TYPE] = {"type", -6},        [ROWS] = {"rows", 4},
    [SHAPE] = {"shape", -26},   [THREADS] = {"threads", 7},   [LEVEL] = {"level", -6},
    [MEDIAN] = {"median", 8},   [UNIT] = {"unit", -5},        [RANGE] = {"range", 20},
    [OF_READ] = {"of read", 7}, [OVER_REF] = {"over ref", 8},
};

static int end_line(bool good, struct gp_error *err)
{
    if (!good || printf("\n") < 0 || fflush(stdout))
        return gp_fail(err, GP_EIO, "standard output: %s", strerror(errno));
    return GP_OK;
}

static int print_cells(const char *const cells[COLUMN_COUNT], struct gp_error *err)
{
    bool good = printf("|") >= 0;

    for (uint32_t i = 0; good && i < COLUMN_COUNT; i++)
        good = printf(" %*s |", columns[i].width, cells[i]) >= 0;
    return end_line(good, err);
}

int gp_gauge_print_head(struct gp_error *err)
{
    static const char dashes[] = "------------------------------";
    const char *names[COLUMN_COUNT];
    bool good;

    for (uint32_t i = 0; i < COLUMN_COUNT; i++)
        names[i] = columns[i].name;
    int rc = print_cells(names, err);
    if (rc)
        return rc;
    good = printf("|") >= 0;
    for (uint32_t i = 0; good && i < COLUMN_COUNT; i++)
        good = printf(" %.*s%s |", abs(columns[i].width) - 1, dashes,
                      columns[i].width > 0 ? ":" : "-") >= 0;
    return end_line(good, err);
}

/* Three or four digits, which is more than a time deserves; nothing for what is no number. */
static const char *spell(double value, char out[32])
{
    if (isfinite(value))
        snprintf(out, 32, "%.*f", value >= 1000 ? 0 : value >= 100 ? 1 : 2, value);
    else
        out[0] = 0;
    return out;
}

int gp_gauge_print_row(const struct gp_gauge_report *report, struct gp_error *err)
{
    const struct gp_gauge_case *what = &report->what;
    char rows[16], threads[16], low[32], high[32], median[32], range[72], read[32], ref[32];
    struct figures f;
    int rc = take_figures(report, &f, err);

    if (rc)
        return rc;
    snprintf(rows, sizeof rows, "%u", what->rows);
    snprintf(threads, sizeof threads, "%u", what->threads);
    snprintf(range, sizeof range, "%s to %s", spell(f.value.min, low), spell(f.value.max, high));
    const char *cells[COLUMN_COUNT] = {
        [KERNEL] = what->kernel,
        [TYPE] = what->type,
        [ROWS] = rows,
        [SHAPE] = what->shape,
        [THREADS] = threads,
        [LEVEL] = report->level,
        [MEDIAN] = spell(f.value.p50, median),
        [UNIT] = units[what->unit],
        [RANGE] = range,
        [OF_READ] = spell(f.of_read, read),
        [OVER_REF] = spell(f.over_definition, ref),
    };
    return print_cells(cells, err);
}

int gp_gauge_print_foot(const struct gp_origin *origin, const char *level, struct gp_error *err)
{
    return end_line(printf("\nbuild: growpage %s, %s on %s, %u cores", gp_version(), level,
                           origin->processor, origin->cores) >= 0,
                    err);
}
