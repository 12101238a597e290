#include "eval/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>
#include <xxhash.h>

#include "base/mem.h"

#define HASH_CHUNK (1u << 20)

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

/* The hash that xxh128sum prints of the file. */
static int hash_file(const char *path, char out[64], struct gp_error *err)
{
    XXH128_canonical_t canonical;
    int rc = GP_OK, fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return gp_fail(err, GP_EIO, "%s: %s", path, strerror(errno));
    XXH3_state_t *state = XXH3_createState();
    char *chunk = gp_mem_alloc(HASH_CHUNK);
    if (!state || !chunk || XXH3_128bits_reset(state) == XXH_ERROR) {
        rc = gp_fail(err, GP_ENOMEM, "%s: out of memory", path);
        goto close_file;
    }
    for (ssize_t got; (got = read(fd, chunk, HASH_CHUNK)) != 0;) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            rc = gp_fail(err, GP_EIO, "%s: %s", path, strerror(errno));
            goto close_file;
        }
        XXH3_128bits_update(state, chunk, (size_t)got);
    }
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
    int at = snprintf(out, 64, "xxh128:");
    for (size_t i = 0; i < sizeof canonical.digest; i++)
        at += snprintf(out + at, 64 - (size_t)at, "%02x", canonical.digest[i]);
close_file:
    gp_mem_free(chunk);
    XXH3_freeState(state);
    close(fd);
    return rc;
}

static void processor_name(char out[128])
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[256];

    snprintf(out, 128, "unknown");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line, "model name", 10) != 0)
            continue;
        snprintf(out, 128, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    if (file)
        fclose(file);
    gp_text_clean(out);
}

static json_t *machine(void)
{
    struct utsname system;
    char processor[128];
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

    processor_name(processor);
    if (uname(&system))
        snprintf(system.release, sizeof system.release, "unknown");
    return json_pack("{s:s, s:i, s:I, s:s}", "processor", processor, "cores",
                     (int)sysconf(_SC_NPROCESSORS_ONLN), "memory_bytes", (json_int_t)memory,
                     "kernel", system.release);
}

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

static json_t *sampling(const struct gp_sitting *s)
{
    const struct gp_sampling *d = &s->sampling;

    return json_pack("{s:f, s:i, s:f, s:f, s:f, s:f, s:f, s:b}", "temperature", d->temperature,
                     "top_k", (int)d->top_k, "top_p", d->top_p, "min_p", d->min_p, "repeat_penalty",
                     d->repeat_penalty, "presence_penalty", d->presence_penalty,
                     "frequency_penalty", d->frequency_penalty, "ignore_eos", s->ignore_eos);
}

/* What all policies share; the rest is in their names. */
static json_t *cache(const struct gp_kv_options *kv)
{
    static const char *const metrics[] = {"top-p", "entropy", "exp-entropy"};
    static const char *const demands[] = {"mean", "max-renormalised", "per-query-head"};
    static const char *const scores[] = {"max", "mean"};
    static const char *const domains[] = {"unprotected", "all"};
    static const char *const inits[] = {"first", "zero"};
    static const char *const fallbacks[] = {"compress", "preempt"};
    static const char *const resumes[] = {"replay", "recompute"};

    return json_pack(
        "{s:f, s:f, s:s, s:f, s:f, s:s, s:s, s:i, s:i, s:f, s:i, s:i, s:s, s:s, s:s, s:s}",
        "beta_short", kv->beta_short, "beta_long", kv->beta_long, "summary_init",
        inits[kv->summary_init], "coverage", kv->coverage, "threshold", kv->threshold, "metric",
        metrics[kv->metric], "gqa_demand", demands[kv->gqa_demand], "initial_pages",
        (int)kv->initial_pages, "max_pages", (int)kv->max_pages, "pressure", kv->pressure, "local",
        (int)kv->local, "protect", (int)kv->protect, "gqa_score", scores[kv->gqa_score],
        "score_domain", domains[kv->score_domain], "fallback", fallbacks[kv->fallback], "resume",
        resumes[kv->resume]);
}

static json_t *engine(const struct gp_record_run *run)
{
    struct gp_engine_info e;

    gp_engine_info(run->engine, &e);
    return json_pack("{s:i, s:i, s:i, s:i, s:s, s:i, s:I}", "context", (int)e.context, "max_seqs",
                     (int)e.max_seqs, "max_batch_tokens", (int)e.max_batch_tokens, "pages",
                     (int)e.page_count, "kv_type", e.kv_type, "page_size", (int)e.page_tokens,
                     "kv_bytes", (json_int_t)e.kv_bytes);
}

int gp_record_run(struct gp_record *record, const struct gp_record_run *run, struct gp_error *err)
{
    const struct gp_sitting *s = run->sitting;
    const struct gp_exam *exam = s->exam;
    static const char *const forms[] = {"short", "long", "mixed"};
    struct gp_engine_info e;
    struct gp_model_info m;
    char hash[64], started[32], path[4096];
    time_t now = time(NULL);
    struct tm utc;

    int rc = hash_file(run->model_path, hash, err);
    if (rc)
        return rc;
    gp_engine_info(run->engine, &e);
    gp_model_info(run->model, &m);
    gp_text_clean(m.name);
    snprintf(path, sizeof path, "%s", run->model_path);
    gp_text_clean(path);
    strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    return write_line(
        record,
        json_pack("{s:s, s:s, s:s, s:{s:s, s:s, s:s, s:s, s:s, s:I, s:I}, s:s, s:i, s:o, s:I, s:o,"
                  " s:i, s:i, s:i, s:o, s:s, s:o, s:i, s:o, s:o, s:o}",
                  "kind", "run", "version", gp_version(), "started", started, "model", "path", path,
                  "hash", hash, "name", m.name, "arch", m.arch, "quant", m.quant, "parameters",
                  (json_int_t)m.parameter_count, "bytes", (json_int_t)m.file_bytes, "cpu", m.cpu,
                  "threads", (int)e.threads, "machine", machine(), "seed", (json_int_t)exam->seed,
                  "suites", suite_names(exam), "limit", (int)exam->limit, "samples",
                  (int)s->samples, "concurrency", (int)s->concurrency, "difficulty",
                  difficulty(exam), "form", forms[exam->form], "policies", policy_names(run),
                  "max_tokens", (int)s->max_tokens, "sampling", sampling(s), "kv",
                  cache(&s->policies[0]), "engine", engine(run)),
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
