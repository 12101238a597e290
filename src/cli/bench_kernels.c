/* growpage bench --kernels: how fast the arithmetic is, with no model and no engine. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/io.h"
#include "eval/gauge_report.h"
#include "eval/rows.h"

struct bench {
    const struct gp_bench_settings *settings;
    struct gp_origin origin;
    struct gp_rows rows;
    struct gp_gauge *gauge;
    const char *level;
    struct gp_gauge_sample *samples; /* [repetitions] */
    uint32_t done, total;            /* cases         */
};

/* ---- cases ---- */

static bool is_word(const char *word, size_t length, const char *name)
{
    return length > 0 && strlen(name) == length && strncasecmp(word, name, length) == 0;
}

static bool is_about(const struct gp_gauge_case *what, const char *word, size_t length)
{
    return is_word(word, length, what->kernel) || is_word(word, length, what->type);
}

/* Whether --only asks for it: by a kernel's name if it has any, and by a type's likewise, except
 * for what has none. */
static bool is_wanted(const struct bench *bench, const struct gp_gauge_case *what)
{
    const char *only = bench->settings->only;
    struct gp_gauge_case other;
    bool kernels = false, types = false, kernel = false, type = false;

    for (size_t length; only && *only; only += length + (only[length] == ',')) {
        bool names_kernel = false;

        length = strcspn(only, ",");
        for (uint32_t i = 0; gp_gauge_case(bench->gauge, i, &other); i++)
            names_kernel = names_kernel || is_word(only, length, other.kernel);
        kernels = kernels || names_kernel;
        types = types || !names_kernel;
        kernel = kernel || is_word(only, length, what->kernel);
        type = type || is_word(only, length, what->type);
    }
    return (!kernels || kernel) && (!types || type || !*what->type);
}

/* What runs on one thread anyway is timed once, with the first number of threads. */
static bool is_due(const struct bench *bench, uint32_t pass, const struct gp_gauge_case *what)
{
    return (pass == 0 || !what->alone) && is_wanted(bench, what);
}

static uint32_t count_cases(const struct bench *bench)
{
    uint32_t count = 0;
    struct gp_gauge_case what;

    for (uint32_t pass = 0; pass < bench->settings->threads.count; pass++)
        for (uint32_t i = 0; gp_gauge_case(bench->gauge, i, &what); i++)
            count += is_due(bench, pass, &what);
    return count;
}

/* Names that nothing has. */
static int check_only(const struct bench *bench, struct gp_error *err)
{
    const char *only = bench->settings->only;
    struct gp_gauge_case what;

    for (size_t length; only && *only; only += length + (only[length] == ',')) {
        bool found = false;

        length = strcspn(only, ",");
        for (uint32_t i = 0; gp_gauge_case(bench->gauge, i, &what); i++)
            found = found || is_about(&what, only, length);
        if (!found)
            return gp_fail(err, GP_EINVAL, "--only: %.*s: no kernel and no type",
                           (int)(length < 60 ? length : 60), only);
    }
    return bench->total ? GP_OK : gp_fail(err, GP_EINVAL, "--only: no kernel is of such a type");
}

/* ---- rows ---- */

static int print_case(struct bench *bench, const struct gp_gauge_report *report,
                      struct gp_error *err)
{
    json_t *object;
    int rc = GP_OK;

    gp_progress_end();
    if (bench->rows.format != GP_FORMAT_MD) {
        rc = gp_gauge_json(report, &object, err);
        return rc ? rc : gp_rows_add(&bench->rows, object, err);
    }
    if (bench->rows.count++ == 0)
        rc = gp_gauge_print_head(err);
    return rc ? rc : gp_gauge_print_row(report, err);
}

static int time_case(struct bench *bench, uint32_t index, const struct gp_gauge_case *what,
                     struct gp_error *err)
{
    struct gp_gauge_report report = {
        .origin = &bench->origin,
        .level = bench->level,
        .what = *what,
        .samples = bench->samples,
        .count = bench->settings->repetitions,
    };
    char words[64];

    gp_time_format(report.started);
    int rc = gp_gauge_select(bench->gauge, index, err);
    if (rc)
        return rc;
    snprintf(words, sizeof words, "%-9s %-6s %3u", what->kernel, what->type, what->rows);
    for (uint32_t i = 0; i < report.count && !gp_interrupted(); i++) {
        gp_progress(words, (double)bench->done / bench->total);
        gp_gauge_take(bench->gauge, &bench->samples[i]);
    }
    if (gp_interrupted())
        return GP_OK;
    bench->done++;
    return print_case(bench, &report, err);
}

static int open_gauge(struct bench *bench, uint32_t pass, struct gp_error *err)
{
    const struct gp_bench_settings *s = bench->settings;
    struct gp_gauge_options options = {
        .threads = s->threads.items[pass],
        .bytes = s->kernel_bytes,
        .sample_ns = (uint64_t)s->kernel_ms * 1000000,
    };

    gp_gauge_close(bench->gauge);
    bench->gauge = NULL;
    int rc = gp_gauge_open(&bench->gauge, &options, err);
    if (!rc)
        bench->level = gp_gauge_level(bench->gauge);
    return rc;
}

static int time_cases(struct bench *bench, struct gp_error *err)
{
    struct gp_gauge_case what;
    int rc = GP_OK;

    for (uint32_t pass = 0; !rc && pass < bench->settings->threads.count; pass++) {
        if (pass > 0)
            rc = open_gauge(bench, pass, err);
        for (uint32_t i = 0; !rc && gp_gauge_case(bench->gauge, i, &what); i++) {
            if (gp_interrupted())
                return GP_OK;
            if (is_due(bench, pass, &what))
                rc = time_case(bench, i, &what, err);
        }
    }
    return rc;
}

static int end_rows(struct bench *bench, struct gp_error *err)
{
    gp_progress_end();
    if (bench->rows.format != GP_FORMAT_MD)
        return gp_rows_end(&bench->rows, err);
    return bench->rows.count == 0 ? GP_OK : gp_gauge_print_foot(&bench->origin, bench->level, err);
}

/* ---- the command ---- */

static int run(struct bench *bench)
{
    struct gp_error err;

    gp_interrupt_arm();
    int rc = time_cases(bench, &err);
    gp_interrupt_disarm();
    /* What is done is whole, whatever came behind it. */
    if (rc) {
        if (bench->rows.count > 0)
            end_rows(bench, NULL);
        return gp_tell(GP_EXIT_FAILED, &err);
    }
    if (end_rows(bench, &err))
        return gp_tell(GP_EXIT_FAILED, &err);
    if (bench->done == bench->total)
        return GP_EXIT_OK;
    gp_error_set(&err, "bench: interrupted after %u of %u kernels", bench->done, bench->total);
    return gp_tell(GP_EXIT_INTERRUPTED, &err);
}

int gp_bench_kernels(const struct gp_settings *settings)
{
    struct bench bench = {
        .settings = &settings->bench,
        .rows.format = (enum gp_format)settings->bench.format,
    };
    int status = GP_EXIT_FAILED;
    struct gp_error err;

    gp_origin_take_machine(&bench.origin);
    bench.samples = gp_mem_alloc_array(settings->bench.repetitions, sizeof *bench.samples);
    if (!bench.samples) {
        gp_error_set(&err, "bench: out of memory");
        return gp_tell(GP_EXIT_FAILED, &err);
    }
    if (open_gauge(&bench, 0, &err)) {
        gp_error_prefix(&err, "bench");
        gp_tell(status, &err);
        goto close;
    }
    bench.total = count_cases(&bench);
    if (check_only(&bench, &err)) {
        gp_error_prefix(&err, "bench");
        status = gp_tell(GP_EXIT_USAGE, &err);
        goto close;
    }
    status = run(&bench);
close:
    gp_gauge_close(bench.gauge);
    gp_mem_free(bench.samples);
    return status;
}
