/* The engine: options, start and end.  Everything that it will ever need is taken in
 * gp_engine_open().
 *
 * See README.md for the words, step.c for the loop, requests.c for the side that other threads
 * see. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/trace.h"

/* Logits of one wave; a step with more rows to draw makes several. */
#define WAVE_BYTES    (16u << 20)
#define WAVE_ROWS_MAX 64u

void gp_engine_options_init(struct gp_engine_options *options)
{
    *options = (struct gp_engine_options){
        .kv_type = "f16",
        .page_tokens = 256,
        .max_seqs = GP_LIMIT_SEQS,
        .max_batch_tokens = 512,
        .max_waiting = 512,
        .trace_fd = -1,
    };
    gp_policy_defaults(&options->kv);
}

void gp_kv_options_init(struct gp_kv_options *options)
{
    gp_policy_defaults(options);
}

int gp_policy_parse(const char *text, struct gp_kv_options *options, struct gp_error *err)
{
    return gp_policy_from_text(text, options, err);
}

void gp_policy_format(const struct gp_kv_options *options, char out[64])
{
    gp_policy_to_text(options, out);
}

int gp_kv_options_check(const struct gp_kv_options *options, uint32_t page_tokens,
                        struct gp_error *err)
{
    return gp_policy_check(options, page_tokens, err);
}

bool gp_policy_has_scorer(const struct gp_kv_options *options)
{
    return gp_policy_scores(options);
}

int gp_scorer_set(struct gp_kv_options *options, const char *name, const char *value,
                  struct gp_error *err)
{
    return gp_policy_set_switch(options, name, value, err);
}

bool gp_scorer_get(const struct gp_kv_options *options, uint32_t index, const char **name,
                   char value[32])
{
    return gp_policy_switch_text(options, index, name, value);
}

int gp_trigger_parse(const char *text, struct gp_kv_options *options, struct gp_error *err)
{
    return gp_policy_set_trigger(options, text, err);
}

void gp_trigger_format(const struct gp_kv_options *options, char out[32])
{
    gp_policy_trigger_text(options, out);
}

void gp_sampling_init(struct gp_sampling *sampling)
{
    *sampling = (struct gp_sampling){.temperature = 1.0f, .top_p = 1.0f, .repeat_penalty = 1.0f};
}

void gp_request_init(struct gp_request *request)
{
    *request = (struct gp_request){.n = 1, .logprobs = -1, .prompt_logprobs = -1};
    gp_sampling_init(&request->sampling);
}

const char *gp_finish_name(enum gp_finish finish)
{
    switch (finish) {
    case GP_FINISH_NONE:
        return "none";
    case GP_FINISH_STOP:
        return "stop";
    case GP_FINISH_LENGTH:
        return "length";
    case GP_FINISH_CANCELLED:
        return "cancelled";
    case GP_FINISH_CAPACITY:
        return "capacity";
    case GP_FINISH_ERROR:
        return "error";
    }
    return "unknown";
}

/* ---- options ---- */

static int check_range(const char *name, uint32_t value, uint32_t low, uint32_t high,
                       struct gp_error *err)
{
    if (value < low || value > high)
        return gp_fail(err, GP_EINVAL, "%s: %u; %u to %u", name, value, low, high);
    return GP_OK;
}

int gp_cache_type(const char **name, const struct gp_hparams *hp, enum gp_kv_type *out,
                  struct gp_error *err)
{
    static const struct {
        const char *name;
        enum gp_kv_type type;
    } types[] = {
        {"f16", GP_KV_F16}, {"bf16", GP_KV_BF16}, {"f32", GP_KV_F32}, {"q8_0", GP_KV_Q8_0}};

    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (*name && strcmp(*name, types[i].name) != 0)
            continue;
        if (!gp_kv_block_bytes(types[i].type, GP_TILE_TOKENS, hp->key_dim, hp->value_dim))
            return gp_fail(err, GP_EINVAL,
                           "kv-type: %s: heads must have a multiple of 32 elements; this model's "
                           "keys have %u, its values %u",
                           types[i].name, hp->key_dim, hp->value_dim);
        *name = types[i].name;
        *out = types[i].type;
        return GP_OK;
    }
    return gp_fail(err, GP_EINVAL, "kv-type: '%s'; f16, bf16, f32 or q8_0", *name);
}

static int check_options(struct gp_engine_options *o, const struct gp_model *model,
                         struct gp_error *err)
{
    uint32_t trained = model->weights->hp.context_max;
    int rc = check_range("threads", o->threads, 0, GP_LIMIT_THREADS, err);

    o->threads = gp_engine_threads(o->threads);
    if (o->context == 0)
        o->context = trained < GP_LIMIT_CONTEXT ? trained : GP_LIMIT_CONTEXT;
    if (!rc)
        rc = check_range("page-size", o->page_tokens, GP_TILE_TOKENS, GP_LIMIT_PAGE_TOKENS, err);
    if (!rc && o->page_tokens % GP_TILE_TOKENS)
        rc = gp_fail(err, GP_EINVAL, "page-size: %u is no multiple of %u", o->page_tokens,
                     GP_TILE_TOKENS);
    if (!rc)
        rc = check_range("ctx-size", o->context, 2, GP_LIMIT_CONTEXT, err);
    if (!rc)
        rc = check_range("max-seqs", o->max_seqs, 1, GP_LIMIT_SEQS, err);
    if (!rc)
        rc = check_range("max-batch-tokens", o->max_batch_tokens, 1, GP_LIMIT_BATCH_TOKENS, err);
    if (!rc && o->max_batch_tokens < o->max_seqs)
        rc = gp_fail(err, GP_EINVAL, "max-batch-tokens: %u is less than max-seqs, %u",
                     o->max_batch_tokens, o->max_seqs);
    if (!rc && !(o->max_stall == 0 || (o->max_stall >= 1 && o->max_stall <= 1000)))
        rc = gp_fail(err, GP_EINVAL, "max-stall: %g; 0, or 1 to 1000", o->max_stall);
    if (!rc)
        rc = check_range("max-waiting", o->max_waiting, 0, 65536, err);
    if (!rc)
        rc = gp_policy_check(&o->kv, o->page_tokens, err);
    for (uint32_t i = 0; !rc && i < o->kv_also_count; i++)
        rc = gp_policy_check(&o->kv_also[i], o->page_tokens, err);
    if (!rc && o->context > trained)
        gp_log_warn("ctx-size: the model was trained for %u tokens; behind them answers get worse",
                    trained);
    return rc;
}

/* What the system could still give, in bytes; 0 when it will not say. */
static uint64_t memory_available(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[256];
    uint64_t kib = 0;

    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, "MemAvailable:", 13)) {
            kib = strtoull(line + 13, NULL, 10);
            break;
        }
    if (file)
        fclose(file);
    return kib * 1024;
}

/* Pages of the pool, from what was asked for or from what is there: `beside` bytes more go with
 * each. */
static int choose_pages(struct gp_engine_options *o, size_t page_bytes, size_t beside,
                        struct gp_error *err)
{
    uint64_t each = (o->context + o->page_tokens - 1) / o->page_tokens + 1;
    uint64_t useful = each * o->max_seqs;
    uint64_t pages = o->kv_pages;

    if (o->kv_bytes && o->kv_pages)
        return gp_fail(err, GP_EINVAL, "kv-memory and kv-pages: give one of them");
    if (o->kv_bytes)
        pages = o->kv_bytes / page_bytes;
    if (!o->kv_bytes && !o->kv_pages) {
        pages = memory_available() / 10 * 9 / (page_bytes + beside);
        pages = pages < useful ? pages : useful;
    }
    if (pages < 2)
        return gp_fail(err, GP_EINVAL,
                       "kv-memory: room for %s of %zu bytes; at least two, %zu bytes, are needed",
                       pages ? "one page" : "no page", page_bytes, 2 * page_bytes);
    if (pages > 1u << 30 || pages > SIZE_MAX / 2 / page_bytes)
        return gp_fail(err, GP_EINVAL, "kv-memory: %llu pages are more than can be counted",
                       (unsigned long long)pages);
    o->kv_pages = (uint32_t)pages;
    o->kv_bytes = pages * page_bytes;
    return GP_OK;
}

/* ---- open and close ---- */

static int open_cache(struct gp_engine *engine, struct gp_error *err)
{
    const struct gp_hparams *hp = &engine->model->weights->hp;
    struct gp_engine_options *o = &engine->options;
    struct gp_cache *cache = &engine->cache;
    int rc = gp_cache_type(&o->kv_type, hp, &cache->type, err);

    if (rc)
        return rc;
    cache->page_tokens = o->page_tokens;
    cache->block_bytes = gp_kv_block_bytes(cache->type, o->page_tokens, hp->key_dim, hp->value_dim);
    cache->page_bytes = cache->block_bytes * hp->layer_count * hp->kv_head_count;
    gp_scored_needs(engine);
    rc = choose_pages(o, cache->page_bytes, gp_scored_page_bytes(engine), err);
    if (rc)
        return rc;
    size_t rows = (size_t)hp->layer_count * o->max_seqs;

    cache->summary_slots = o->max_seqs;
    engine->summary_floats = rows * 2 * hp->head_count * hp->key_dim;
    engine->rms_floats = rows * hp->head_count;
    engine->pool_bytes = o->kv_bytes;
    cache->pool = gp_mem_map(engine->pool_bytes);
    if (!cache->pool)
        return gp_fail(err, GP_ENOMEM, "kv-memory: cannot take %llu bytes",
                       (unsigned long long)o->kv_bytes);
    cache->summaries = gp_mem_map(engine->summary_floats * sizeof(float));
    cache->query_rms = gp_mem_map(engine->rms_floats * sizeof(float));
    if (!cache->summaries || !cache->query_rms)
        return gp_fail(err, GP_ENOMEM, "query summaries: cannot take %zu bytes",
                       engine->summary_floats * sizeof(float));
    /* A request never holds more slots than its tokens need, nor more than the pool has. */
    uint64_t slots = ((uint64_t)o->context / o->page_tokens + 2) * o->page_tokens;
    uint64_t most = (uint64_t)o->kv_pages * o->page_tokens;

    engine->slots_max = (uint32_t)(slots < most ? slots : most);
    rc = gp_scored_open(engine, err);
    return rc ? rc : gp_pool_open(&engine->pool, o->kv_pages, err);
}

static int open_sched(struct gp_engine *engine, struct gp_error *err)
{
    const struct gp_engine_options *o = &engine->options;
    struct gp_sched_options options = {
        .page_tokens = o->page_tokens,
        .max_seqs = o->max_seqs,
        .max_batch_tokens = o->max_batch_tokens,
        .max_waiting = engine->sequences_max,
        .context = o->context,
        .watermark = o->watermark,
        .prefix_cache = !o->no_prefix_cache,
        .asynchronous = !o->kv_sync,
        .preempt = o->preempt,
        .static_batches = o->batching == GP_BATCHING_STATIC,
    };
    struct gp_sched_ops ops = {
        .measure = gp_boundary_measure,
        .compact = gp_compaction_run,
        .copy = gp_compaction_copy,
        .override = gp_measure_override,
        .clone = gp_measure_clone,
        .boundary = gp_step_boundary,
        .admitted = gp_step_admitted,
        .preempted = gp_step_preempted,
        .ctx = engine,
    };

    return gp_sched_open(&engine->sched, engine->pool, &options, &ops, err);
}

static int open_step(struct gp_engine *engine, struct gp_error *err)
{
    const struct gp_engine_options *o = &engine->options;
    uint32_t row = engine->model->weights->hp.vocab_count;
    uint32_t wave = WAVE_BYTES / 4 / row;

    wave = wave > WAVE_ROWS_MAX ? WAVE_ROWS_MAX : wave;
    engine->wave = wave < 1 ? 1 : wave;
    engine->vocab = gp_tokenizer_count(engine->model->tokenizer);
    engine->mask_words = (engine->vocab + 63) / 64;
    engine->owner_count = engine->sequences_max + o->max_seqs; /* as open_sched() asked for */
    engine->owners = gp_mem_alloc_array(engine->owner_count, sizeof *engine->owners);
    engine->batch_tokens = gp_mem_alloc_array(o->max_batch_tokens, sizeof *engine->batch_tokens);
    engine->segments = gp_mem_alloc_array(o->max_seqs, sizeof *engine->segments);
    engine->draws = gp_mem_alloc_array(engine->wave, sizeof *engine->draws);
    engine->masks = gp_mem_alloc_array((size_t)engine->wave * engine->mask_words, 8);
    engine->samplers = gp_mem_alloc_array(o->threads, sizeof *engine->samplers);
    if (!engine->owners || !engine->batch_tokens || !engine->segments || !engine->draws ||
        !engine->masks || !engine->samplers)
        return gp_fail(err, GP_ENOMEM, "step buffers: out of memory");
    for (uint32_t i = 0; i < o->threads; i++) {
        int rc = gp_sampler_open(&engine->samplers[i], engine->vocab, err);

        if (rc)
            return rc;
    }
    engine->work_bytes += (uint64_t)engine->wave * (engine->mask_words * 8 + (uint64_t)row * 4);
    return gp_forward_open(&engine->forward, engine->model->weights, &engine->model->kernels,
                           engine->workers, o->max_batch_tokens, o->max_seqs, o->max_batch_tokens,
                           engine->wave, err);
}

int gp_engine_open(struct gp_engine **out, const struct gp_model *model,
                   const struct gp_engine_options *options, struct gp_error *err)
{
    if (!model->weights)
        return gp_fail(err, GP_EINVAL, "engine: the model was opened without its weights");
    struct gp_engine *engine = gp_mem_alloc(sizeof *engine);

    if (!engine)
        return gp_fail(err, GP_ENOMEM, "engine: out of memory");
    engine->model = model;
    engine->options = *options;
    engine->pace.stall = options->max_stall;
    engine->news_fd = engine->work_fd = -1;
    int rc = check_options(&engine->options, model, err);

    engine->sequences_max = engine->options.max_seqs + engine->options.max_waiting;
    if (!rc)
        rc = gp_workers_open(&engine->workers, engine->options.threads, err);
    if (!rc)
        rc = open_cache(engine, err);
    if (!rc)
        rc = open_sched(engine, err);
    if (!rc)
        rc = open_step(engine, err);
    if (!rc)
        rc = gp_boundary_open(engine, err);
    if (!rc)
        rc = gp_measure_open(engine, err);
    if (!rc)
        rc = gp_requests_open(engine, err);
    if (!rc)
        rc = gp_tracer_open(engine, err);
    if (rc) {
        gp_engine_close(engine);
        return rc;
    }
    engine->work_bytes += gp_forward_bytes(engine->forward);
    engine->stats.pages_free = engine->stats_seen.pages_free = engine->options.kv_pages;
    engine->options.kv_also = NULL; /* the caller's */
    engine->options.kv_also_count = 0;
    *out = engine;
    return GP_OK;
}

/* Everything that still runs or waits is cancelled, so that pages and slab are whole again. */
static void cancel_all(struct gp_engine *engine)
{
    for (uint32_t i = 0; i < engine->request_max; i++)
        if (engine->requests[i].used && engine->requests[i].open_choices > 0)
            engine->requests[i].cancel = engine->cancels = true;
    gp_requests_drain(engine);
    gp_requests_publish(engine);
}

void gp_engine_close(struct gp_engine *engine)
{
    if (!engine)
        return;
    if (engine->slab.bytes)
        cancel_all(engine);
    gp_tracer_close(engine);
    gp_requests_close(engine);
    gp_boundary_close(engine);
    gp_measure_close(engine);
    gp_forward_close(engine->forward);
    for (uint32_t i = 0; engine->samplers && i < engine->options.threads; i++)
        gp_sampler_close(engine->samplers[i]);
    gp_mem_free(engine->samplers);
    gp_mem_free(engine->masks);
    gp_mem_free(engine->draws);
    gp_mem_free(engine->segments);
    gp_mem_free(engine->batch_tokens);
    gp_mem_free(engine->owners);
    gp_sched_close(engine->sched);
    gp_pool_close(engine->pool);
    gp_scored_close(engine);
    gp_mem_unmap(engine->cache.query_rms, engine->rms_floats * sizeof(float));
    gp_mem_unmap(engine->cache.summaries, engine->summary_floats * sizeof(float));
    gp_mem_unmap(engine->cache.pool, engine->pool_bytes);
    gp_workers_close(engine->workers);
    gp_mem_free(engine);
}

void gp_engine_info(const struct gp_engine *engine, struct gp_engine_info *info)
{
    const struct gp_engine_options *o = &engine->options;
    uint32_t each = (o->context + o->page_tokens - 1) / o->page_tokens;

    *info = (struct gp_engine_info){
        .threads = o->threads,
        .page_tokens = o->page_tokens,
        .page_count = o->kv_pages,
        .context = o->context,
        .max_seqs = o->max_seqs,
        .max_batch_tokens = o->max_batch_tokens,
        .kv_bytes = o->kv_bytes,
        .kv_token_bytes = gp_hparams_token_bytes(&engine->model->weights->hp, engine->cache.type),
        .summary_bytes = (engine->summary_floats + engine->rms_floats) * sizeof(float),
        .score_bytes = engine->scored_bytes,
        .work_bytes = engine->work_bytes,
        .full_requests = o->kv_pages / each,
    };
    snprintf(info->kv_type, sizeof info->kv_type, "%s", o->kv_type);
}
