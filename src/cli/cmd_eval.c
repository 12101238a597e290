/* growpage eval: problems made from a seed or read from files, asked of a model under one policy
 * after another. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/exam.h"
#include "cli/io.h"
#include "eval/record.h"
#include "eval/table.h"

#define PROGRESS_NS 200000000u

static int print_exam(const struct gp_exam *exam, bool json, struct gp_error *err)
{
    uint64_t count = gp_exam_count(exam);
    int rc = GP_OK;

    for (uint64_t n = 0; !rc && n < count; n++) {
        struct gp_question question;

        rc = gp_exam_question(exam, n, &question, err);
        if (rc)
            return rc;
        if (question.number == 0)
            rc = gp_question_print(&question, exam->seed, json, err);
        gp_question_free(&question);
    }
    return rc ? rc : gp_print_end(err);
}

/* What the callbacks of a sitting need. */
struct watch {
    struct gp_engine *engine;
    const struct gp_record_run *run;
    struct gp_record *record; /* NULL: none */
    struct gp_table table;
    uint64_t start_ns, shown_ns;
    uint64_t policy_start_ns, policy_tokens; /* when the policy at hand began */
    uint32_t policy;
    uint64_t samples; /* of all policies */
};

static void take_earlier(void *ctx, const struct gp_figures *figures)
{
    struct watch *watch = ctx;

    gp_table_add(&watch->table, figures);
}

static bool has_sample(void *ctx, uint32_t policy, const struct gp_exam_place *place, bool *correct)
{
    struct watch *watch = ctx;

    return watch->record && gp_record_has(watch->record, policy, place, correct);
}

static int take_sample(void *ctx, const struct gp_sample *sample, struct gp_error *err)
{
    struct watch *watch = ctx;
    struct gp_figures figures = gp_sample_figures(sample, watch->run->policies[sample->policy]);

    gp_table_add(&watch->table, &figures);
    watch->samples++;
    return watch->record ? gp_record_sample(watch->record, watch->run, sample, err) : GP_OK;
}

static int take_served(void *ctx, const struct gp_sitting_state *state, struct gp_error *err)
{
    struct watch *watch = ctx;

    return watch->record ? gp_record_served(watch->record, watch->run, state, err) : GP_OK;
}

/* The time to come, in times of what passed: answers that were there took none. */
static double left_of(const struct gp_sitting_state *state)
{
    return (double)(state->total - state->done) / (double)state->asked;
}

/* Fields keep their width, for each line is written over the one before it. */
static void show_progress(struct watch *watch, const struct gp_sitting_state *state, uint64_t now)
{
    struct gp_engine_stats stats;
    char what[160];

    gp_engine_stats(watch->engine, &stats);
    if (watch->policy_start_ns == 0 || watch->policy != state->policy) {
        watch->policy = state->policy;
        watch->policy_start_ns = now;
        watch->policy_tokens = stats.output_tokens;
    }
    double seconds = (double)(now - watch->policy_start_ns) / 1e9;
    double rate = seconds > 0 ? (double)(stats.output_tokens - watch->policy_tokens) / seconds : 0;
    double share = (double)state->done / (double)state->total;
    char left[32] = "  -:--";
    if (state->asked > 0) {
        uint64_t whole = (uint64_t)(seconds * left_of(state));
        snprintf(left, sizeof left, "%3llu:%02u", (unsigned long long)(whole / 60),
                 (unsigned)(whole % 60));
    }
    double passed = state->done ? 100 * (double)state->correct / (double)state->done : 0;
    snprintf(what, sizeof what, "%s  %llu/%llu  pass@1 %5.1f%%  %5.0f tok/s  %5u pages  %s left",
             watch->run->policies[state->policy], (unsigned long long)state->done,
             (unsigned long long)state->total, passed, rate, stats.pages_used, left);
    gp_progress(what, share);
}

static bool go_on(void *ctx, const struct gp_sitting_state *state)
{
    struct watch *watch = ctx;
    uint64_t now = gp_clock_ns();

    if (now - watch->shown_ns >= PROGRESS_NS || state->policy != watch->policy) {
        watch->shown_ns = now;
        show_progress(watch, state, now);
    }
    return !gp_interrupted();
}

static int report(const struct watch *watch, const struct gp_sitting *sitting, bool complete,
                  struct gp_error *err)
{
    struct gp_engine_info info;
    struct gp_engine_stats stats;
    uint64_t wall_ns = gp_clock_ns() - watch->start_ns;
    double seconds = (double)wall_ns / 1e9;
    int rc = GP_OK;

    gp_engine_info(watch->engine, &info);
    gp_engine_stats(watch->engine, &stats);
    /* A record that was complete stays as it is. */
    if (watch->record && (watch->samples > 0 || !complete))
        rc = gp_record_end(watch->record, watch->samples, stats.output_tokens, wall_ns, complete,
                           err);
    if (!rc)
        rc = gp_table_print(&watch->table, info.page_tokens, err);
    if (!rc)
        rc = gp_printf(err, "%.1f tok/s output, %.2f s, %u thread%s, %u at once\n",
                       (double)stats.output_tokens / seconds, seconds, info.threads,
                       info.threads == 1 ? "" : "s", sitting->concurrency);
    return rc ? rc : gp_print_end(err);
}

/* The sitting with its record and its table; *complete as gp_sitting_run() says it. */
static int sit(struct watch *watch, const char *output, bool *complete, struct gp_error *err)
{
    const struct gp_sitting *sitting = watch->run->sitting;
    int rc = gp_table_open(&watch->table, sitting->exam, watch->run->policies,
                           sitting->policy_count, err);

    if (rc)
        return rc;
    if (output && strcmp(output, "-") != 0)
        rc = gp_record_open(&watch->record, output, watch->run, take_earlier, watch, err);
    watch->start_ns = gp_clock_ns();
    gp_interrupt_arm();
    if (!rc)
        rc = gp_sitting_run(sitting, watch->engine, watch->run->model, complete, err);
    gp_interrupt_disarm();
    gp_progress_end();
    if (!rc)
        rc = report(watch, sitting, *complete, err);
    if (rc)
        gp_record_close(watch->record, NULL);
    else
        rc = gp_record_close(watch->record, err);
    gp_table_close(&watch->table);
    return rc;
}

static int run_exam(const struct gp_settings *s, const struct gp_exam *exam,
                    const struct gp_model *model, struct gp_engine *engine,
                    struct gp_runners *runners)
{
    char names[GP_POLICIES_MAX][64];
    struct watch watch = {.engine = engine, .policy = UINT32_MAX};
    struct gp_sitting sitting = {
        .exam = exam,
        .policies = s->policies.kv,
        .policy_count = s->policies.count,
        .concurrency = s->concurrency,
        .ignore_eos = s->ignore_eos,
        .sampling = s->sampling,
        .chat_variables = s->chat_variables,
        .runners = runners,
        .has = has_sample,
        .finished = take_sample,
        .served = take_served,
        .go_on = go_on,
        .ctx = &watch,
    };
    struct gp_record_run run = {&sitting, engine, &s->engine, model, s->model_path, names};
    struct gp_error err;
    bool complete;

    for (uint32_t i = 0; i < s->policies.count; i++)
        gp_policy_format(&s->policies.kv[i], names[i]);
    watch.run = &run;
    if (sit(&watch, s->output, &complete, &err))
        return gp_tell(GP_EXIT_FAILED, &err);
    if (complete)
        return GP_EXIT_OK;
    gp_error_set(&err, "eval: interrupted after %llu of %llu samples",
                 (unsigned long long)watch.samples,
                 (unsigned long long)(gp_exam_count(exam) * s->policies.count));
    return gp_tell(GP_EXIT_INTERRUPTED, &err);
}

static int ask_model(const struct gp_settings *s, const struct gp_exam *exam)
{
    struct gp_model *model;
    struct gp_engine *engine;
    struct gp_runners *runners;
    struct gp_engine_options options = s->engine;

    options.kv_also = s->policies.kv;
    options.kv_also_count = s->policies.count;
    int status = gp_open_runners(&runners, "eval", s, exam);
    if (status)
        return status;
    status = gp_open_asked(&model, &engine, s, &options);
    if (!status) {
        status = run_exam(s, exam, model, engine, runners);
        gp_engine_close(engine);
        gp_model_close(model);
    }
    gp_runners_close(runners);
    return status;
}

int gp_cmd_eval(struct gp_settings *s)
{
    struct gp_exam exam;
    struct gp_error err;
    int status;

    if (gp_make_exam(&exam, s, &err)) {
        gp_error_prefix(&err, "eval");
        return gp_tell(GP_EXIT_USAGE, &err);
    }
    if (!s->print)
        status = ask_model(s, &exam);
    else
        status = print_exam(&exam, s->json, &err) ? gp_tell(GP_EXIT_FAILED, &err) : GP_EXIT_OK;
    gp_exam_free(&exam);
    return status;
}
