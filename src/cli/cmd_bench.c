/* growpage bench: how fast a model runs here.  llama-bench's tests, or a workload that is served,
 * under one policy after another; each on an engine of its own. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/io.h"
#include "eval/rows.h"
#include "eval/service.h"
#include "eval/speed_report.h"

#define PROGRESS_NS 200000000u

/* What both kinds of bench have at hand. */
struct bench {
    const struct gp_settings *settings;
    const struct gp_model *model;
    struct gp_origin origin;
    char names[GP_POLICIES_MAX][64];
    struct gp_rows rows;
    /* For the line of progress. */
    uint64_t shown_ns;
    char what[128];
    double done, total;
};

static bool is_markdown(const struct bench *bench)
{
    return bench->rows.format == GP_FORMAT_MD;
}

static void show_progress(struct bench *bench, const char *what, double done)
{
    uint64_t now = gp_clock_ns();

    if (now - bench->shown_ns < PROGRESS_NS)
        return;
    bench->shown_ns = now;
    gp_progress(what, bench->total > 0 ? done / bench->total : 0);
}

/* The tokens of a request that may not be passed: -c, or what the model was trained for. */
static uint32_t context_limit(const struct bench *bench)
{
    uint32_t asked = bench->settings->engine.context;

    return asked ? asked : bench->origin.model.context_max;
}

/* The engine's refusal of its options is a usage error; all else is a failure. */
static int open_engine(const struct bench *bench, const struct gp_engine_options *options,
                       struct gp_engine **out, int *status, struct gp_error *err)
{
    int rc = gp_engine_open(out, bench->model, options, err);

    if (rc)
        *status = rc == GP_EINVAL ? GP_EXIT_USAGE : GP_EXIT_FAILED;
    return rc;
}

/* ---- tests ---- */

struct config {
    struct gp_speed_test test;
    uint32_t threads, policy;
};

/* The next of a list's numbers that n stands for; n becomes what is left of it. */
static uint32_t pick(const struct gp_uint_list *list, uint32_t *n)
{
    uint32_t item = list->items[*n % list->count];

    *n /= list->count;
    return item;
}

static uint32_t count_configs(const struct gp_settings *s)
{
    const struct gp_bench_settings *b = &s->bench;

    return (b->prompts.count + b->outputs.count) * b->depths.count * b->threads.count *
           b->batches.count * s->policies.count;
}

/* In llama-bench's order: prompts before generations, those in every depth, and so on.  False for a
 * test of no tokens, which is how one says that there is none. */
static bool config_at(const struct gp_settings *s, uint32_t n, struct config *out)
{
    const struct gp_bench_settings *b = &s->bench;
    uint32_t tests = b->prompts.count + b->outputs.count, test = n % tests;

    n /= tests;
    *out = (struct config){0};
    if (test < b->prompts.count)
        out->test.prompt_tokens = b->prompts.items[test];
    else
        out->test.output_tokens = b->outputs.items[test - b->prompts.count];
    out->test.depth = pick(&b->depths, &n);
    out->threads = pick(&b->threads, &n);
    out->test.sequences = pick(&b->batches, &n);
    out->policy = n;
    return out->test.prompt_tokens > 0 || out->test.output_tokens > 0;
}

/* Before any of them takes its time; *count is how many there are. */
static int check_tests(const struct bench *bench, uint32_t *count, struct gp_error *err)
{
    uint32_t limit = context_limit(bench), configs = count_configs(bench->settings);
    struct config config;
    char name[GP_SPEED_NAME_BYTES];

    *count = 0;
    for (uint32_t n = 0; n < configs; n++) {
        if (!config_at(bench->settings, n, &config))
            continue;
        ++*count;
        gp_speed_name(&config.test, name);
        if (gp_speed_tokens(&config.test) > limit)
            return gp_fail(err, GP_EINVAL,
                           "bench: %s: %llu tokens; the context has %u (-c sets another)", name,
                           (unsigned long long)gp_speed_tokens(&config.test), limit);
    }
    return *count ? GP_OK
                  : gp_fail(err, GP_EINVAL, "bench: no tests: --n-prompt and --n-gen are 0");
}

static bool test_goes_on(void *ctx)
{
    struct bench *bench = ctx;

    show_progress(bench, bench->what, bench->done);
    return !gp_interrupted();
}

/* All repetitions of a test, the first one thrown away. */
static int time_test(struct bench *bench, struct gp_engine *engine, const struct config *config,
                     struct gp_speed_time *times, bool *complete, struct gp_error *err)
{
    const struct gp_settings *s = bench->settings;
    const struct gp_bench_settings *b = &s->bench;
    struct gp_speed speed = {
        .engine = engine,
        .vocab = bench->origin.model.vocab_count,
        .seed = (uint64_t)s->seed,
        .sampling = s->sampling,
        .go_on = test_goes_on,
        .ctx = bench,
    };
    char name[GP_SPEED_NAME_BYTES];

    gp_speed_name(&config->test, name);
    for (uint32_t i = b->no_warm_up; i <= b->repetitions && *complete; i++) {
        struct gp_speed_time unused;

        snprintf(bench->what, sizeof bench->what, "%-20s %3u/%u", name, i, b->repetitions);
        int rc = gp_speed_measure(&speed, &config->test, i, i > 0 ? &times[i - 1] : &unused,
                                  complete, err);
        if (rc) {
            gp_error_prefix(err, "bench: %s", name);
            return rc;
        }
    }
    bench->done++;
    return GP_OK;
}

static int print_test(struct bench *bench, const struct gp_speed_table *table,
                      const struct gp_speed_report *report, struct gp_error *err)
{
    json_t *object;
    int rc = GP_OK;

    gp_progress_end();
    if (!is_markdown(bench)) {
        rc = gp_speed_json(report, &object, err);
        return rc ? rc : gp_rows_add(&bench->rows, object, err);
    }
    if (bench->rows.count++ == 0)
        rc = gp_speed_print_head(table, err);
    return rc ? rc : gp_speed_print_row(table, report, err);
}

static int run_test(struct bench *bench, const struct config *config,
                    const struct gp_speed_table *table, bool *complete, int *status,
                    struct gp_error *err)
{
    const struct gp_settings *s = bench->settings;
    struct gp_engine_options options = s->engine;
    struct gp_speed_report report = {
        .origin = &bench->origin,
        .kv = &s->policies.kv[config->policy],
        .test = config->test,
        .seed = (uint64_t)s->seed,
        .count = s->bench.repetitions,
    };
    struct gp_engine *engine;

    options.threads = config->threads;
    options.kv = s->policies.kv[config->policy];
    gp_speed_fit(&config->test, &options);
    struct gp_speed_time *times = gp_mem_alloc_array(report.count, sizeof *times);
    if (!times)
        return gp_fail(err, GP_ENOMEM, "bench: out of memory");
    int rc = open_engine(bench, &options, &engine, status, err);
    if (rc)
        goto free_times;
    gp_engine_info(engine, &report.engine);
    gp_time_format(report.started);
    report.times = times;
    rc = time_test(bench, engine, config, times, complete, err);
    if (!rc && *complete)
        rc = print_test(bench, table, &report, err);
    gp_engine_close(engine);
free_times:
    gp_mem_free(times);
    return rc;
}

static struct gp_speed_table choose_table(const struct bench *bench)
{
    const struct gp_settings *s = bench->settings;
    const struct gp_uint_list *batches = &s->bench.batches;

    return (struct gp_speed_table){
        .has_sequences = batches->count > 1 || batches->items[0] != 1,
        .has_type = strcmp(s->engine.kv_type, "f16") != 0,
        .has_policy = s->policies.count > 1 || strcmp(bench->names[0], "full") != 0,
    };
}

static int end_tests(struct bench *bench, struct gp_error *err)
{
    gp_progress_end();
    if (!is_markdown(bench))
        return gp_rows_end(&bench->rows, err);
    if (bench->rows.count == 0)
        return GP_OK;
    return gp_speed_print_foot(&bench->origin, (uint64_t)bench->settings->seed, err);
}

static int run_tests(struct bench *bench)
{
    struct gp_speed_table table = choose_table(bench);
    uint32_t configs = count_configs(bench->settings), count;
    int rc = GP_OK, status = GP_EXIT_FAILED;
    struct config config;
    struct gp_error err;
    bool complete = true;

    if (check_tests(bench, &count, &err))
        return gp_tell(GP_EXIT_USAGE, &err);
    bench->total = count;
    gp_interrupt_arm();
    for (uint32_t n = 0; !rc && complete && n < configs; n++)
        if (config_at(bench->settings, n, &config))
            rc = run_test(bench, &config, &table, &complete, &status, &err);
    gp_interrupt_disarm();
    /* What is done is whole, whatever came behind it. */
    if (rc) {
        if (bench->rows.count > 0)
            end_tests(bench, NULL);
        return gp_tell(status, &err);
    }
    if (end_tests(bench, &err))
        return gp_tell(GP_EXIT_FAILED, &err);
    if (complete)
        return GP_EXIT_OK;
    gp_error_set(&err, "bench: interrupted after %.0f of %u tests", bench->done - 1, count);
    return gp_tell(GP_EXIT_INTERRUPTED, &err);
}

/* ---- serving ---- */

static bool serving_goes_on(void *ctx, uint32_t done)
{
    struct bench *bench = ctx;
    char what[192];

    snprintf(what, sizeof what, "%s  %u/%u", bench->what, done, bench->settings->bench.requests);
    show_progress(bench, what, bench->done + done);
    return !gp_interrupted();
}

/* The figures, or for a machine all that is known, into *out. */
static int take_figures(const struct bench *bench, const struct gp_service *service,
                        const struct gp_engine *engine, struct gp_service_result *result,
                        json_t **out, struct gp_error *err)
{
    json_t *figures = gp_service_figures(result);
    json_t *object =
        is_markdown(bench) ? json_object() : gp_service_origin(service, &bench->origin, engine);

    if (!figures || !object || json_object_update(object, figures)) {
        json_decref(object);
        json_decref(figures);
        return gp_fail(err, GP_ENOMEM, "result: out of memory");
    }
    json_decref(figures);
    *out = object;
    return GP_OK;
}

static int serve_policy(struct bench *bench, const struct gp_workload *workload,
                        const struct gp_engine_options *asked, uint32_t policy, json_t **out,
                        bool *complete, int *status, struct gp_error *err)
{
    struct gp_engine_options options = *asked;
    struct gp_service service = {
        .workload = workload,
        .kv = &bench->settings->policies.kv[policy],
        .sampling = bench->settings->sampling,
        .vocab = bench->origin.model.vocab_count,
        .go_on = serving_goes_on,
        .ctx = bench,
    };
    struct gp_service_result result;
    struct gp_engine *engine;

    options.kv = bench->settings->policies.kv[policy];
    snprintf(bench->what, sizeof bench->what, "%s", bench->names[policy]);
    int rc = open_engine(bench, &options, &engine, status, err);
    if (rc)
        return rc;
    rc = gp_service_run(&service, engine, &result, complete, err);
    gp_progress_end();
    if (rc)
        gp_error_prefix(err, "bench: %s", bench->names[policy]);
    if (!rc && *complete) {
        rc = take_figures(bench, &service, engine, &result, out, err);
        gp_service_result_free(&result);
    }
    gp_engine_close(engine);
    return rc;
}

static int print_served(struct bench *bench, json_t *const *objects, uint32_t count,
                        struct gp_error *err)
{
    const struct gp_settings *s = bench->settings;
    const struct gp_bench_settings *b = &s->bench;
    char prompt[GP_LENGTH_TEXT_BYTES], output[GP_LENGTH_TEXT_BYTES], rate[64];

    if (!is_markdown(bench))
        return gp_rows_end(&bench->rows, err);
    if (count == 0)
        return GP_OK;
    int rc = gp_rows_print(objects, bench->names, count, err);
    gp_length_format(&b->prompt_length, prompt);
    gp_length_format(&b->output_length, output);
    snprintf(rate, sizeof rate, b->rate > 0 ? "%g a second" : "all at once", b->rate);
    if (!rc)
        rc = gp_printf(err, "\n%u requests, prompts %s, outputs %s, %s; pages of %u tokens, %s",
                       b->requests, prompt, output, rate, s->engine.page_tokens, s->engine.kv_type);
    return rc ? rc : gp_speed_print_foot(&bench->origin, (uint64_t)s->seed, err);
}

static int serve(struct bench *bench)
{
    const struct gp_settings *s = bench->settings;
    struct gp_workload workload = {
        .seed = (uint64_t)s->seed,
        .request_count = s->bench.requests,
        .prompt = s->bench.prompt_length,
        .output = s->bench.output_length,
        .rate = s->bench.rate,
    };
    struct gp_engine_options options = s->engine;
    json_t *objects[GP_POLICIES_MAX];
    int rc, status = GP_EXIT_FAILED;
    uint32_t count = 0;
    bool complete = true;
    struct gp_error err;

    rc = gp_service_context(&workload, context_limit(bench), &options.context, &err);
    if (rc) {
        gp_error_prefix(&err, "bench");
        return gp_tell(GP_EXIT_USAGE, &err);
    }
    bench->total = (double)workload.request_count * s->policies.count;
    gp_interrupt_arm();
    for (uint32_t i = 0; !rc && complete && i < s->policies.count; i++) {
        json_t *object = NULL;

        rc = serve_policy(bench, &workload, &options, i, &object, &complete, &status, &err);
        if (rc || !complete)
            break;
        objects[count++] = object;
        bench->done += workload.request_count;
        if (!is_markdown(bench))
            rc = gp_rows_add(&bench->rows, json_incref(object), &err);
    }
    gp_interrupt_disarm();
    if (rc && count > 0)
        print_served(bench, objects, count, NULL);
    else if (!rc && (rc = print_served(bench, objects, count, &err)))
        status = GP_EXIT_FAILED;
    while (count > 0)
        json_decref(objects[--count]);
    if (rc)
        return gp_tell(status, &err);
    if (complete)
        return GP_EXIT_OK;
    gp_error_set(&err, "bench: interrupted while %s was served", bench->what);
    return gp_tell(GP_EXIT_INTERRUPTED, &err);
}

/* ---- the command ---- */

int gp_cmd_bench(struct gp_settings *s)
{
    struct bench *bench;
    struct gp_model *model = NULL;
    struct gp_error err;
    int status;

    if (s->bench.kernels)
        return gp_bench_kernels(s);
    bench = gp_mem_alloc(sizeof *bench);
    if (!bench) {
        gp_error_set(&err, "bench: out of memory");
        return gp_tell(GP_EXIT_FAILED, &err);
    }
    bench->settings = s;
    bench->rows.format = (enum gp_format)s->bench.format;
    for (uint32_t i = 0; i < s->policies.count; i++)
        gp_policy_format(&s->policies.kv[i], bench->names[i]);
    if (gp_open_model(&model, s, false, &err) ||
        gp_origin_take(&bench->origin, model, s->model_path, &err)) {
        status = gp_tell(GP_EXIT_FAILED, &err);
        goto close_model;
    }
    bench->model = model;
    status = s->bench.serve ? serve(bench) : run_tests(bench);
close_model:
    gp_model_close(model);
    gp_mem_free(bench);
    return status;
}
