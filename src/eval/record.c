#include "eval/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/mem.h"
#include "eval/origin.h"
#include "eval/record_old.h"

struct gp_record {
    const char *path;
    FILE *file;
    struct gp_record_old old;
};

static int fail_io(const struct gp_record *record, struct gp_error *err)
{
    return gp_fail(err, GP_EIO, "%s: %s", record->path, strerror(errno));
}

int gp_record_close(struct gp_record *record, struct gp_error *err)
{
    int rc = GP_OK;

    if (!record)
        return GP_OK;
    if (fclose(record->file))
        rc = fail_io(record, err);
    gp_record_old_free(&record->old);
    gp_mem_free(record);
    return rc;
}

/* One line, out of our hands when this returns.  Takes root, which may be NULL for no memory. */
static int write_line(struct gp_record *record, json_t *root, struct gp_error *err)
{
    /* Six digits: what a float has, and more than a time or a mean deserves. */
    char *text = root ? json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    int rc = GP_OK;

    json_decref(root);
    if (!text)
        return gp_fail(err, GP_ENOMEM, "%s: out of memory", record->path);
    if (fprintf(record->file, "%s\n", text) < 0 || fflush(record->file))
        rc = fail_io(record, err);
    free(text);
    return rc;
}

/* ---- the run ---- */

/* What differs between suites and data sets. */
static json_t *parts(const struct gp_exam *exam)
{
    json_t *all = json_array();

    for (uint32_t i = 0; i < exam->part_count; i++) {
        const struct gp_exam_part *p = &exam->parts[i];
        json_array_append_new(all, json_pack("{s:s, s:i, s:i, s:i}", "suite", p->name, "problems",
                                             (int)p->count, "samples", (int)p->samples,
                                             "max_tokens", (int)p->max_tokens));
    }
    return all;
}

static json_t *policy_names(const struct gp_record_run *run)
{
    json_t *names = json_array();

    for (uint32_t i = 0; i < run->sitting->policy_count; i++)
        json_array_append_new(names, json_string(run->policies[i]));
    return names;
}

/* null: each suite's own */
static json_t *difficulty(const struct gp_exam *exam)
{
    return exam->difficulty_low < 0
               ? json_null()
               : json_pack("[f, f]", exam->difficulty_low, exam->difficulty_high);
}

/* What decides whether a program passes its tests; NULL: no memory. */
static json_t *run_limits(const struct gp_runners *runners)
{
    const struct gp_sandbox_limits *limits = gp_runners_limits(runners);

    return json_pack("{s:i, s:I}", "seconds", (int)limits->seconds, "memory_bytes",
                     (json_int_t)limits->memory_bytes);
}

json_t *gp_record_run_line(const struct gp_record_run *run, struct gp_error *err)
{
    const struct gp_sitting *s = run->sitting;
    const struct gp_exam *exam = s->exam;
    static const char *const forms[] = {"short", "long", "mixed"};
    static const char *const batchings[] = {"continuous", "static"};
    struct gp_engine_info e;
    struct gp_origin origin;
    char started[GP_TIME_TEXT_BYTES];

    if (gp_origin_take(&origin, run->model, run->model_path, err))
        return NULL;
    gp_engine_info(run->engine, &e);
    gp_time_format(started);
    json_t *line = json_pack(
        "{s:s, s:s, s:s, s:o, s:s, s:i, s:o, s:I, s:o, s:i, s:s, s:o, s:s, s:o, s:o, s:o, s:o}",
        "kind", "run", "version", gp_version(), "started", started, "model",
        gp_origin_model(&origin), "cpu", origin.model.cpu, "threads", (int)e.threads, "machine",
        gp_origin_machine(&origin), "seed", (json_int_t)exam->seed, "suites", parts(exam),
        "concurrency", (int)s->concurrency, "batching", batchings[run->options->batching],
        "difficulty", difficulty(exam), "form", forms[exam->form], "policies", policy_names(run),
        "sampling", gp_origin_sampling(&s->sampling, s->ignore_eos), "kv",
        gp_origin_cache(&s->policies[0]), "engine", gp_origin_engine(run->engine));
    if (line && s->runners && json_object_set_new(line, "run_code", run_limits(s->runners))) {
        json_decref(line);
        line = NULL;
    }
    if (!line)
        gp_error_set(err, "%s: out of memory", run->model_path);
    return line;
}

/* Go on with what is there, or begin. */
static int begin(struct gp_record *record, const struct gp_record_run *run,
                 struct gp_record_reader *reader, struct gp_error *err)
{
    struct stat st;
    int fd = fileno(record->file);
    json_t *line = gp_record_run_line(run, err);

    if (!line)
        return GP_EIO;
    reader->run = line;
    int rc = GP_OK;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        rc = gp_record_old_read(&record->old, record->file, reader, err);
        if (!rc &&
            (ftruncate(fd, record->old.bytes) || fseeko(record->file, record->old.bytes, SEEK_SET)))
            rc = gp_fail(err, GP_EIO, "%s", strerror(errno));
        if (rc)
            gp_error_prefix(err, "%s", record->path);
    }
    if (rc || record->old.bytes > 0) {
        json_decref(line);
        return rc;
    }
    return write_line(record, line, err);
}

int gp_record_open(struct gp_record **out, const char *path, const struct gp_record_run *run,
                   void (*earlier)(void *ctx, const struct gp_figures *figures), void *ctx,
                   struct gp_error *err)
{
    struct gp_record_reader reader = {
        .exam = run->sitting->exam,
        .policies = run->policies,
        .policy_count = run->sitting->policy_count,
        .earlier = earlier,
        .ctx = ctx,
    };
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);

    if (fd < 0)
        return gp_fail(err, GP_EIO, "%s: %s", path, strerror(errno));
    /* What cannot be locked is no file of records. */
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        close(fd);
        return gp_fail(err, GP_EIO, "%s: another run writes to it", path);
    }
    struct gp_record *record = gp_mem_alloc(sizeof *record);
    FILE *file = record ? fdopen(fd, "r+") : NULL;
    if (!file) {
        close(fd);
        gp_mem_free(record);
        return gp_fail(err, GP_ENOMEM, "%s: out of memory", path);
    }
    *record = (struct gp_record){.path = path, .file = file};
    int rc = begin(record, run, &reader, err);
    if (rc)
        gp_record_close(record, NULL);
    else
        *out = record;
    return rc;
}

bool gp_record_has(const struct gp_record *record, uint32_t policy,
                   const struct gp_exam_place *place, bool *correct)
{
    return gp_record_old_has(&record->old, policy, place, correct);
}

/* ---- samples ---- */

static double milliseconds(uint64_t ns)
{
    return (double)ns / 1e6;
}

struct gp_figures gp_sample_figures(const struct gp_sample *sample, const char *policy)
{
    const struct gp_question *q = sample->question;
    const struct gp_request_stats *s = sample->stats;

    return (struct gp_figures){
        .suite = q->part->name,
        .policy = policy,
        .index = q->index,
        .number = q->number,
        .correct = sample->correct,
        .prompt_tokens = s->prompt_tokens,
        .output_tokens = s->output_tokens,
        .pages_mean = sample->pages_mean,
        .pages_peak = s->pages_peak,
        .grow = s->grow,
        .compress = s->compress,
        .shrink = s->shrink,
        .start = s->start,
        .initial = s->initial,
        .pressure = s->pressure,
        .capped = s->capped,
        .fallback = s->fallback,
        .preempt = s->preempt,
        .queue_ms = milliseconds(s->queue_ns),
        .prefill_ms = milliseconds(s->prefill_ns),
        .decode_ms = milliseconds(s->decode_ns),
        .demand_ms = milliseconds(s->demand_ns),
        .score_ms = milliseconds(s->score_ns),
        .select_ms = milliseconds(s->select_ns),
        .compact_ms = milliseconds(s->compact_ns),
    };
}

/* NULL: no memory. */
static json_t *tests_of(const struct gp_trial *t)
{
    return json_pack("{s:i, s:i, s:s?}", "count", (int)t->tests, "passed", (int)t->passed, "why",
                     *t->why ? t->why : NULL);
}

int gp_record_sample(struct gp_record *record, const struct gp_record_run *run,
                     const struct gp_sample *sample, struct gp_error *err)
{
    const struct gp_question *q = sample->question;
    const struct gp_request_stats *s = sample->stats;
    struct gp_figures figures = gp_sample_figures(sample, run->policies[sample->policy]);
    json_t *line = json_pack("{s:s}", "kind", "sample");
    json_t *counted = gp_figures_write(&figures);
    json_t *said =
        json_pack("{s:o, s:o, s:I, s:s, s:s?, s:i, s:s, s:s%}", "difficulty",
                  q->part->suite ? json_real(q->difficulty) : json_null(), "form",
                  q->part->suite ? json_string(gp_form_name(q->form)) : json_null(), "seed",
                  (json_int_t)s->seed, "finish_reason", gp_finish_name(sample->finish), "answer",
                  sample->answer, "slots", (int)s->slots, "prompt", q->problem.prompt, "text",
                  sample->text, sample->text_length);

    if (!counted || !said || json_object_update(line, counted) || json_object_update(line, said) ||
        (sample->trial && json_object_set_new(line, "tests", tests_of(sample->trial)))) {
        json_decref(line);
        line = NULL;
    }
    json_decref(counted);
    json_decref(said);
    return write_line(record, line, err);
}

int gp_record_served(struct gp_record *record, const struct gp_record_run *run,
                     const struct gp_sitting_state *state, struct gp_error *err)
{
    const struct gp_run_figures *r = &state->run;

    return write_line(
        record,
        json_pack("{s:s, s:s, s:I, s:I, s:f, s:I, s:f, s:i, s:i}", "kind", "served", "policy",
                  run->policies[state->policy], "samples", (json_int_t)state->asked,
                  "output_tokens", (json_int_t)r->output_tokens, "serving_ms",
                  milliseconds(r->serving_ns), "decode_steps", (json_int_t)r->decode_steps,
                  "concurrency", r->concurrency, "concurrency_max", (int)r->concurrency_max,
                  "pages_max", (int)state->pages_max),
        err);
}

int gp_record_end(struct gp_record *record, uint64_t samples, uint64_t output_tokens,
                  uint64_t wall_ns, bool complete, struct gp_error *err)
{
    return write_line(record,
                      json_pack("{s:s, s:b, s:I, s:I, s:f}", "kind", "end", "complete", complete,
                                "samples", (json_int_t)samples, "output_tokens",
                                (json_int_t)output_tokens, "wall_ms", milliseconds(wall_ns)),
                      err);
}
