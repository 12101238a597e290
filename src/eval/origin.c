#include "eval/origin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/error.h"
#include "base/mem.h"

#define HASH_CHUNK (1u << 20)

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

void gp_origin_take_machine(struct gp_origin *out)
{
    struct utsname system;

    *out = (struct gp_origin){
        .cores = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN),
        .memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE),
    };
    processor_name(out->processor);
    snprintf(out->kernel, sizeof out->kernel, "%s", uname(&system) ? "unknown" : system.release);
}

int gp_origin_take(struct gp_origin *out, const struct gp_model *model, const char *model_path,
                   struct gp_error *err)
{
    struct gp_origin origin;

    gp_origin_take_machine(&origin);
    int rc = hash_file(model_path, origin.model_hash, err);
    if (rc)
        return rc;
    gp_model_info(model, &origin.model);
    gp_text_clean(origin.model.name);
    snprintf(origin.model_path, sizeof origin.model_path, "%s", model_path);
    gp_text_clean(origin.model_path);
    *out = origin;
    return GP_OK;
}

void gp_time_format(char out[GP_TIME_TEXT_BYTES])
{
    time_t now = time(NULL);
    struct tm utc;

    strftime(out, GP_TIME_TEXT_BYTES, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
}

json_t *gp_origin_model(const struct gp_origin *origin)
{
    const struct gp_model_info *m = &origin->model;

    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I}", "path", origin->model_path, "hash",
                     origin->model_hash, "name", m->name, "arch", m->arch, "quant", m->quant,
                     "parameters", (json_int_t)m->parameter_count, "bytes",
                     (json_int_t)m->file_bytes);
}

json_t *gp_origin_machine(const struct gp_origin *origin)
{
    return json_pack("{s:s, s:i, s:I, s:s}", "processor", origin->processor, "cores",
                     (int)origin->cores, "memory_bytes", (json_int_t)origin->memory_bytes, "kernel",
                     origin->kernel);
}

json_t *gp_origin_sampling(const struct gp_sampling *sampling, bool ignore_eos)
{
    return json_pack("{s:f, s:i, s:f, s:f, s:f, s:f, s:f, s:b}", "temperature",
                     sampling->temperature, "top_k", (int)sampling->top_k, "top_p", sampling->top_p,
                     "min_p", sampling->min_p, "repeat_penalty", sampling->repeat_penalty,
                     "presence_penalty", sampling->presence_penalty, "frequency_penalty",
                     sampling->frequency_penalty, "ignore_eos", ignore_eos);
}

json_t *gp_origin_engine(const struct gp_engine *engine)
{
    struct gp_engine_info e;

    gp_engine_info(engine, &e);
    return json_pack("{s:i, s:i, s:i, s:i, s:s, s:i, s:I}", "context", (int)e.context, "max_seqs",
                     (int)e.max_seqs, "max_batch_tokens", (int)e.max_batch_tokens, "pages",
                     (int)e.page_count, "kv_type", e.kv_type, "page_size", (int)e.page_tokens,
                     "kv_bytes", (json_int_t)e.kv_bytes);
}

/* The switches of a policy's scorer, its trigger first; null for one that has none. */
static json_t *scorer_of(const struct gp_kv_options *kv)
{
    json_t *scorer = gp_policy_has_scorer(kv) ? json_object() : json_null();
    const char *name;
    char value[32];

    if (!json_is_object(scorer))
        return scorer;
    gp_trigger_format(kv, value);
    json_object_set_new(scorer, "trigger", json_string(value));
    for (uint32_t i = 0; gp_scorer_get(kv, i, &name, value); i++)
        json_object_set_new(scorer, name, json_string(value));
    return scorer;
}

json_t *gp_origin_cache(const struct gp_kv_options *kv)
{
    static const char *const metrics[] = {"top-p", "entropy", "exp-entropy"};
    static const char *const demands[] = {"mean", "max-renormalised", "per-query-head"};
    static const char *const scores[] = {"max", "mean"};
    static const char *const domains[] = {"unprotected", "all"};
    static const char *const inits[] = {"first", "zero"};
    static const char *const fallbacks[] = {"compress", "preempt"};
    static const char *const resumes[] = {"replay", "recompute"};
    static const char *const compacts[] = {"shift", "fill"};

    return json_pack(
        "{s:f, s:f, s:s, s:f, s:f, s:s, s:s, s:i, s:i, s:f, s:i, s:i, s:s, s:s, s:s, s:s, s:s,"
        " s:o}",
        "beta_short", kv->beta_short, "beta_long", kv->beta_long, "summary_init",
        inits[kv->summary_init], "coverage", kv->coverage, "threshold", kv->threshold, "metric",
        metrics[kv->metric], "gqa_demand", demands[kv->gqa_demand], "initial_pages",
        (int)kv->initial_pages, "max_pages", (int)kv->max_pages, "pressure", kv->pressure, "local",
        (int)kv->local, "protect", (int)kv->protect, "gqa_score", scores[kv->gqa_score],
        "score_domain", domains[kv->score_domain], "fallback", fallbacks[kv->fallback], "resume",
        resumes[kv->resume], "compact", compacts[kv->compact], "scorer", scorer_of(kv));
}
