#include "eval/record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "eval/origin.h"

struct gp_record {
    const char *path;
    FILE *file;
};

int gp_record_open(struct gp_record **out, const char *path, struct gp_error *err)
{
    FILE *file = fopen(path, "we");

    if (!file)
        return gp_fail(err, GP_EIO, "%s: %s", path, strerror(errno));
    struct gp_record *record = gp_mem_alloc(sizeof *record);
    if (!record) {
        fclose(file);
        return gp_fail(err, GP_ENOMEM, "%s: out of memory", path);
    }
    *record = (struct gp_record){path, file};
    *out = record;
    return GP_OK;
}

int gp_record_close(struct gp_record *record, struct gp_error *err)
{
    int rc = GP_OK;

    if (!record)
        return GP_OK;
    if (fclose(record->file))
        rc = gp_fail(err, GP_EIO, "%s: %s", record->path, strerror(errno));
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
        rc = gp_fail(err, GP_EIO, "%s: %s", record->path, strerror(errno));
    free(text);
    return rc;
}

/* ---- the run ---- */

static json_t *suite_names(const struct gp_exam *exam)
{
    json_t *names = json_array();

    for (uint32_t i = 0; i < exam->suite_count; i++)
        json_array_append_new(names, json_string(exam->suites[i]->name));
    return names;
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

int gp_record_run(struct gp_record *record, const struct gp_record_run *run, struct gp_error *err)
{
    const struct gp_sitting *s = run->sitting;
    const struct gp_exam *exam = s->exam;
    static const char *const forms[] = {"short", "long", "mixed"};
    struct gp_engine_info e;
    struct gp_origin origin;
    char started[GP_TIME_TEXT_BYTES];

    int rc = gp_origin_take(&origin, run->model, run->model_path, err);
    if (rc)
        return rc;
    gp_engine_info(run->engine, &e);
    gp_time_format(started);
    return write_line(
        record,
        json_pack("{s:s, s:s, s:s, s:o, s:s, s:i, s:o, s:I, s:o, s:i, s:i, s:i, s:o, s:s, s:o, s:i,"
                  " s:o, s:o, s:o}",
                  "kind", "run", "version", gp_version(), "started", started, "model",
                  gp_origin_model(&origin), "cpu", origin.model.cpu, "threads", (int)e.threads,
                  "machine", gp_origin_machine(&origin), "seed", (json_int_t)exam->seed, "suites",
                  suite_names(exam), "limit", (int)exam->limit, "samples", (int)s->samples,
                  "concurrency", (int)s->concurrency, "difficulty", difficulty(exam), "form",
                  forms[exam->form], "policies", policy_names(run), "max_tokens",
                  (int)s->max_tokens, "sampling", gp_origin_sampling(&s->sampling, s->ignore_eos),
                  "kv", gp_origin_cache(&s->policies[0]), "engine", gp_origin_engine(run->engine)),
        err);
}

/* ---- samples ---- */

static double milliseconds(uint64_t ns)
{
    return (double)ns / 1e6;
}

int gp_record_sample(struct gp_record *record, const struct gp_record_run *run,
                     const struct gp_sample *sample, struct gp_error *err)
{
    const struct gp_question *q = sample->question;
    const struct gp_request_stats *s = sample->stats;
    json_t *line = json_pack(
        "{s:s, s:s, s:I, s:i, s:s, s:f, s:s, s:I, s:i, s:i, s:s, s:s?, s:b, s:f, s:i, s:i,"
        " s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:s, s:s%}",
        "kind", "sample", "suite", q->suite->name, "index", (json_int_t)q->index, "sample",
        (int)sample->number, "policy", run->policies[sample->policy], "difficulty", q->difficulty,
        "form", gp_form_name(q->form), "seed", (json_int_t)s->seed, "prompt_tokens",
        (int)s->prompt_tokens, "output_tokens", (int)s->output_tokens, "finish_reason",
        gp_finish_name(sample->finish), "answer", sample->answer, "correct", sample->correct,
        "pages_mean", sample->pages_mean, "pages_peak", (int)s->pages_peak, "slots", (int)s->slots,
        "grow", (int)s->grow, "compress", (int)s->compress, "shrink", (int)s->shrink, "start",
        (int)s->start, "initial", (int)s->initial, "pressure", (int)s->pressure, "capped",
        (int)s->capped, "fallback", (int)s->fallback, "preempt", (int)s->preempt, "queue_ms",
        milliseconds(s->queue_ns), "prefill_ms", milliseconds(s->prefill_ns), "decode_ms",
        milliseconds(s->decode_ns), "prompt", q->problem.prompt, "text", sample->text,
        sample->text_length);

    return write_line(record, line, err);
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
