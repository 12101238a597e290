/* growpage analyze: whether the idea holds on a model, measured. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "cli/commands.h"
#include "cli/exam.h"
#include "cli/io.h"
#include "eval/analyze.h"
#include "eval/record.h"

#define PROGRESS_NS  200000000u
#define POLICIES_MAX (GP_BUDGETS_MAX + GP_POLICIES_MAX)

/* The policies that are asked, in the order that the analysis wants. */
struct policies {
    struct gp_kv_options kv[POLICIES_MAX];
    char names[POLICIES_MAX][64];
    uint32_t count;
};

static void add_policy(struct policies *policies, const struct gp_kv_options *kv)
{
    policies->kv[policies->count] = *kv;
    gp_policy_format(kv, policies->names[policies->count++]);
}

/* ---- what is asked of whom ---- */

static int choose_policies(const struct gp_settings *s, struct policies *out, struct gp_error *err)
{
    struct gp_kv_options kv = s->engine.kv;

    out->count = 0;
    if (gp_analysis_watches(s->analyze.kind)) {
        gp_analysis_watch(&kv);
        add_policy(out, &kv);
        return GP_OK;
    }
    for (uint32_t i = 0; s->analyze.kind == GP_ANALYSIS_BUDGET && i < s->analyze.budgets.count;
         i++) {
        char name[64];

        snprintf(name, sizeof name, "fixed:%u", s->analyze.budgets.items[i]);
        if (gp_policy_parse(name, &kv, err) ||
            gp_kv_options_check(&kv, s->engine.page_tokens, err)) {
            gp_error_prefix(err, "--budgets: %s", name);
            return GP_EINVAL;
        }
        add_policy(out, &kv);
    }
    for (uint32_t i = 0; i < s->policies.count; i++)
        add_policy(out, &s->policies.kv[i]);
    return GP_OK;
}

static int choose_engine(const struct gp_settings *s, const struct policies *policies,
                         struct gp_engine_options *out, struct gp_error *err)
{
    const struct gp_analyze_settings *a = &s->analyze;

    *out = s->engine;
    out->kv = policies->kv[0];
    out->kv_also = policies->kv;
    out->kv_also_count = policies->count;
    out->taps = a->kind == GP_ANALYSIS_SIGNAL || a->kind == GP_ANALYSIS_SPARSITY;
    if (a->kind != GP_ANALYSIS_COUNTERFACTUAL)
        return GP_OK;
    uint64_t each = 1 + gp_analysis_forks(a->horizon, s->engine.page_tokens);
    uint64_t most =
        s->engine.max_batch_tokens < GP_LIMIT_SEQS ? s->engine.max_batch_tokens : GP_LIMIT_SEQS;
    if (each * s->concurrency > most)
        return gp_fail(err, GP_EINVAL,
                       "--concurrency: %u answers with their forks are %llu requests; %llu can run",
                       s->concurrency, (unsigned long long)(each * s->concurrency),
                       (unsigned long long)most);
    out->max_seqs = (uint32_t)(each * s->concurrency);
    /* Both forks of a boundary have ended when their parent is at the next. */
    out->kv_sync = true;
    return GP_OK;
}

/* ---- while it runs ---- */

struct watch {
    uint64_t shown_ns;
};

static bool go_on(void *ctx, const struct gp_sitting_state *state)
{
    struct watch *watch = ctx;
    uint64_t now = gp_clock_ns();

    if (now - watch->shown_ns >= PROGRESS_NS) {
        char what[96];

        watch->shown_ns = now;
        snprintf(what, sizeof what, "policy %u  %llu/%llu", state->policy + 1,
                 (unsigned long long)state->done, (unsigned long long)state->total);
        gp_progress(what, (double)state->done / (double)state->total);
    }
    return !gp_interrupted();
}

/* ---- what comes out ---- */

static int write_lines(FILE *file, const char *name, const json_t *lines, struct gp_error *err)
{
    const json_t *line;
    size_t at;

    json_array_foreach(lines, at, line)
    {
        char *text = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(9));
        bool good = text && fprintf(file, "%s\n", text) >= 0;

        free(text);
        if (!good)
            return gp_fail(err, GP_EIO, "%s: %s", name, strerror(errno));
    }
    return GP_OK;
}

/* Opened before anything is asked, so that what cannot be written is told at once; what stands in
 * it is replaced at the end. */
static int open_output(const char *path, FILE **out, struct gp_error *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

    if (!file) {
        int why = errno;
        if (fd >= 0)
            close(fd);
        return gp_fail(err, GP_EIO, "%s: %s", path, strerror(why));
    }
    *out = file;
    return GP_OK;
}

static int write_output(FILE *file, const char *path, const json_t *found, struct gp_error *err)
{
    struct stat st;

    if (fstat(fileno(file), &st) == 0 && S_ISREG(st.st_mode) && ftruncate(fileno(file), 0))
        return gp_fail(err, GP_EIO, "%s: %s", path, strerror(errno));
    int rc = write_lines(file, path, found, err);
    if (!rc && fflush(file))
        rc = gp_fail(err, GP_EIO, "%s: %s", path, strerror(errno));
    return rc;
}

/* A file that we made and wrote nothing to goes. */
static void close_output(FILE *file, const char *path)
{
    struct stat st;
    bool empty = fstat(fileno(file), &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0;

    fclose(file);
    if (empty)
        unlink(path);
}

static int print_found(const struct gp_settings *s, const json_t *found, struct gp_error *err)
{
    int rc = s->json ? write_lines(stdout, "standard output", found, err)
                     : gp_analysis_print(found, s->analyze.kind, err);

    return rc ? rc : gp_print_end(err);
}

/* ---- all of it ---- */

/* The first line: what every record of ours says of where it comes from. */
static int add_run(const struct gp_settings *s, const struct policies *policies,
                   const struct gp_analysis *analysis, struct gp_error *err)
{
    struct gp_record_run run = {
        .sitting = analysis->sitting,
        .engine = analysis->engine,
        .options = &s->engine,
        .model = analysis->model,
        .model_path = s->model_path,
        .policies = policies->names,
    };
    json_t *line = gp_record_run_line(&run, err);

    if (!line)
        return GP_EIO;
    json_object_set_new(line, "kind", json_string("analysis"));
    json_object_set_new(line, "analysis", json_string(gp_analysis_name(s->analyze.kind)));
    if (s->analyze.kind == GP_ANALYSIS_COUNTERFACTUAL)
        json_object_set_new(line, "horizon", json_integer(analysis->horizon));
    if (s->analyze.kind == GP_ANALYSIS_SIGNAL || s->analyze.kind == GP_ANALYSIS_SPARSITY)
        json_object_set_new(line, "tap_every", json_integer(analysis->every));
    if (json_array_append_new(analysis->found, line))
        return gp_fail(err, GP_ENOMEM, "analysis: out of memory");
    return GP_OK;
}

static int measure(const struct gp_settings *s, const struct policies *policies,
                   const struct gp_analysis *analysis, FILE *file)
{
    struct gp_error err;
    bool complete = true;
    int rc = add_run(s, policies, analysis, &err);

    gp_interrupt_arm();
    if (!rc)
        rc = gp_analysis_run(analysis, s->analyze.kind, &complete, &err);
    gp_interrupt_disarm();
    gp_progress_end();
    if (!rc && !complete) {
        gp_error_set(&err, "analyze: interrupted; nothing was written");
        return gp_tell(GP_EXIT_INTERRUPTED, &err);
    }
    if (!rc && file)
        rc = write_output(file, s->output, analysis->found, &err);
    if (!rc)
        rc = print_found(s, analysis->found, &err);
    return rc ? gp_tell(GP_EXIT_FAILED, &err) : GP_EXIT_OK;
}

static int analyze(const struct gp_settings *s, const struct policies *policies,
                   const struct gp_exam *exam, struct gp_engine *engine,
                   const struct gp_model *model, struct gp_runners *runners)
{
    struct watch watch = {0};
    struct gp_sitting sitting = {
        .exam = exam,
        .policies = policies->kv,
        .policy_count = policies->count,
        .concurrency = s->concurrency,
        .ignore_eos = s->ignore_eos,
        .sampling = s->sampling,
        .chat_variables = s->chat_variables,
        .runners = runners,
        .go_on = go_on,
        .ctx = &watch,
    };
    struct gp_analysis analysis = {
        .sitting = &sitting,
        .engine = engine,
        .model = model,
        .every = s->analyze.every,
        .horizon = s->analyze.horizon,
        .budgets = s->analyze.budgets.items,
        .budget_count = s->analyze.budgets.count,
        .found = json_array(),
    };
    struct gp_error err;
    FILE *file = NULL;
    int status;

    if (s->output && strcmp(s->output, "-") != 0 && open_output(s->output, &file, &err))
        status = gp_tell(GP_EXIT_FAILED, &err);
    else
        status = measure(s, policies, &analysis, file);
    if (file)
        close_output(file, s->output);
    json_decref(analysis.found);
    return status;
}

int gp_cmd_analyze(struct gp_settings *s)
{
    struct gp_engine_options options;
    struct policies policies;
    struct gp_exam exam;
    struct gp_engine *engine;
    struct gp_model *model;
    struct gp_runners *runners = NULL;
    struct gp_error err;
    int status = GP_EXIT_OK;

    if (choose_policies(s, &policies, &err) || choose_engine(s, &policies, &options, &err) ||
        gp_make_exam(&exam, s, &err)) {
        gp_error_prefix(&err, "analyze");
        return gp_tell(GP_EXIT_USAGE, &err);
    }
    /* The others need no verdict: of them the problems may be anything. */
    if (s->analyze.kind == GP_ANALYSIS_BUDGET)
        status = gp_open_runners(&runners, "analyze", s, &exam);
    if (!status)
        status = gp_open_asked(&model, &engine, s, &options);
    if (!status) {
        status = analyze(s, &policies, &exam, engine, model, runners);
        gp_engine_close(engine);
        gp_model_close(model);
    }
    gp_runners_close(runners);
    gp_exam_free(&exam);
    return status;
}
