#include "eval/speed_report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "eval/statistics.h"

/* Nanoseconds and tokens a second of all repetitions. */
struct figures {
    struct gp_spread ns, rate;
};

static double rate_of(const struct gp_speed_time *time)
{
    return (double)time->tokens * 1e9 / (double)time->ns;
}

static int take_figures(const struct gp_speed_report *report, struct figures *out,
                        struct gp_error *err)
{
    struct gp_values ns = {0}, rates = {0};
    int rc = GP_OK;

    gp_assert(report->count > 0);
    for (uint32_t i = 0; !rc && i < report->count; i++) {
        rc = gp_values_add(&ns, (double)report->times[i].ns, err);
        if (!rc)
            rc = gp_values_add(&rates, rate_of(&report->times[i]), err);
    }
    if (!rc) {
        gp_spread_of(&ns, &out->ns);
        gp_spread_of(&rates, &out->rate);
    }
    gp_values_free(&ns);
    gp_values_free(&rates);
    return rc;
}

/* "llama Q4_1" */
static void name_model(const struct gp_model_info *model, char out[72])
{
    snprintf(out, 72, "%s %s", model->arch, model->quant);
}

/* ---- JSON ---- */

static json_t *samples(const struct gp_speed_report *report, bool rates)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < report->count; i++) {
        const struct gp_speed_time *time = &report->times[i];
        json_array_append_new(array, rates ? json_real(rate_of(time))
                                           : json_integer((json_int_t)time->ns));
    }
    return array;
}

/* llama-bench's keys, as far as they mean something here, in its order. */
static json_t *common_keys(const struct gp_speed_report *report, const struct figures *figures)
{
    const struct gp_origin *origin = report->origin;
    const struct gp_engine_info *e = &report->engine;
    const struct gp_speed_test *test = &report->test;
    char model[72];

    name_model(&origin->model, model);
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:i, s:i, s:i, s:s, s:s, s:i, s:i, s:i, s:s,"
        " s:I, s:I, s:f, s:f}",
        "build_commit", gp_version(), "cpu_info", origin->processor, "gpu_info", "", "backends",
        "CPU", "model_filename", origin->model_path, "model_type", model, "model_size",
        (json_int_t)origin->model.file_bytes, "model_n_params",
        (json_int_t)origin->model.parameter_count, "n_batch", (int)e->max_batch_tokens, "n_ubatch",
        (int)e->max_batch_tokens, "n_threads", (int)e->threads, "type_k", e->kv_type, "type_v",
        e->kv_type, "n_prompt", (int)test->prompt_tokens, "n_gen", (int)test->output_tokens,
        "n_depth", (int)test->depth, "test_time", report->started, "avg_ns",
        (json_int_t)llround(figures->ns.mean), "stddev_ns", (json_int_t)llround(figures->ns.stddev),
        "avg_ts", figures->rate.mean, "stddev_ts", figures->rate.stddev);
}

static json_t *own_keys(const struct gp_speed_report *report, const struct figures *figures)
{
    const struct gp_origin *origin = report->origin;
    char policy[64];

    gp_policy_format(report->kv, policy);
    return json_pack("{s:f, s:f, s:f, s:i, s:s, s:i, s:s, s:s, s:I, s:s, s:o, s:o, s:o}",
                     "median_ts", figures->rate.p50, "min_ts", figures->rate.min, "max_ts",
                     figures->rate.max, "n_seqs", (int)report->test.sequences, "kv_policy", policy,
                     "page_size", (int)report->engine.page_tokens, "version", gp_version(), "cpu",
                     origin->model.cpu, "seed", (json_int_t)report->seed, "model_hash",
                     origin->model_hash, "machine", gp_origin_machine(origin), "samples_ns",
                     samples(report, false), "samples_ts", samples(report, true));
}

int gp_speed_json(const struct gp_speed_report *report, json_t **out, struct gp_error *err)
{
    struct figures figures;

    int rc = take_figures(report, &figures, err);
    if (rc)
        return rc;
    json_t *object = common_keys(report, &figures), *own = own_keys(report, &figures);
    if (!object || !own || json_object_update(object, own))
        rc = gp_fail(err, GP_ENOMEM, "result: out of memory");
    json_decref(own);
    if (rc)
        json_decref(object);
    else
        *out = object;
    return rc;
}

/* ---- Markdown ---- */

struct column {
    const char *name;
    int width; /* < 0: to the left */
    bool shown;
};

enum {
    MODEL,
    SIZE,
    PARAMS,
    BACKEND,
    THREADS,
    SEQUENCES,
    TYPE,
    POLICY,
    TEST,
    RATE,
    MEDIAN,
    RANGE,
    COLUMN_COUNT
};

static void choose_columns(const struct gp_speed_table *table, struct column out[COLUMN_COUNT])
{
    const struct column columns[COLUMN_COUNT] = {
        [MODEL] = {"model", -30, true},
        [SIZE] = {"size", 10, true},
        [PARAMS] = {"params", 10, true},
        [BACKEND] = {"backend", -10, true},
        [THREADS] = {"threads", 7, true},
        [SEQUENCES] = {"seqs", 6, table->has_sequences},
        [TYPE] = {"type_kv", 7, table->has_type},
        [POLICY] = {"kv", -12, table->has_policy},
        [TEST] = {"test", 15, true},
        [RATE] = {"t/s", 20, true},
        [MEDIAN] = {"median", 10, true},
        [RANGE] = {"range", 20, true},
    };

    memcpy(out, columns, sizeof columns);
}

static int end_line(bool good, struct gp_error *err)
{
    if (!good || printf("\n") < 0 || fflush(stdout))
        return gp_fail(err, GP_EIO, "standard output: %s", strerror(errno));
    return GP_OK;
}

int gp_speed_print_head(const struct gp_speed_table *table, struct gp_error *err)
{
    static const char dashes[] = "------------------------------";
    struct column columns[COLUMN_COUNT];
    bool good = printf("|") >= 0;

    choose_columns(table, columns);
    for (uint32_t i = 0; good && i < COLUMN_COUNT; i++)
        if (columns[i].shown)
            good = printf(" %*s |", columns[i].width, columns[i].name) >= 0;
    int rc = end_line(good, err);
    if (rc)
        return rc;
    good = printf("|") >= 0;
    for (uint32_t i = 0; good && i < COLUMN_COUNT; i++)
        if (columns[i].shown)
            good = printf(" %.*s%s |", abs(columns[i].width) - 1, dashes,
                          columns[i].width > 0 ? ":" : "-") >= 0;
    return end_line(good, err);
}

/* A mega- or a gigabyte, a million or a billion. */
static void spell_large(double value, double million, double billion, const char *small,
                        const char *large, char out[64])
{
    snprintf(out, 64, "%.2f %s", value < billion ? value / million : value / billion,
             value < billion ? small : large);
}

int gp_speed_print_row(const struct gp_speed_table *table, const struct gp_speed_report *report,
                       struct gp_error *err)
{
    const struct gp_model_info *model = &report->origin->model;
    struct column columns[COLUMN_COUNT];
    char texts[COLUMN_COUNT][72];
    struct figures f;

    int rc = take_figures(report, &f, err);
    if (rc)
        return rc;
    choose_columns(table, columns);
    name_model(model, texts[MODEL]);
    spell_large((double)model->file_bytes, 1 << 20, 1 << 30, "MiB", "GiB", texts[SIZE]);
    spell_large((double)model->parameter_count, 1e6, 1e9, "M", "B", texts[PARAMS]);
    snprintf(texts[BACKEND], sizeof *texts, "CPU");
    snprintf(texts[THREADS], sizeof *texts, "%u", report->engine.threads);
    snprintf(texts[SEQUENCES], sizeof *texts, "%u", report->test.sequences);
    snprintf(texts[TYPE], sizeof *texts, "%s", report->engine.kv_type);
    gp_policy_format(report->kv, texts[POLICY]);
    gp_speed_name(&report->test, texts[TEST]);
    snprintf(texts[RATE], sizeof *texts, "%.2f ± %.2f", f.rate.mean, f.rate.stddev);
    snprintf(texts[MEDIAN], sizeof *texts, "%.2f", f.rate.p50);
    snprintf(texts[RANGE], sizeof *texts, "%.2f to %.2f", f.rate.min, f.rate.max);

    bool good = printf("|") >= 0;
    for (uint32_t i = 0; good && i < COLUMN_COUNT; i++)
        if (columns[i].shown)
            /* A width is in bytes, and the sign has two. */
            good = printf(" %*s |", columns[i].width + (i == RATE), texts[i]) >= 0;
    return end_line(good, err);
}

int gp_speed_print_foot(const struct gp_origin *origin, uint64_t seed, struct gp_error *err)
{
    return end_line(printf("\nbuild: growpage %s, %s on %s, %u cores; seed %llu, model %s",
                           gp_version(), origin->model.cpu, origin->processor, origin->cores,
                           (unsigned long long)seed, origin->model_hash) >= 0,
                    err);
}
