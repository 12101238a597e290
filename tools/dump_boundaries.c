/* Run one request and dump what the engine saw and decided at each capacity boundary, for
 * tests/oracle/compress_reference.py, or at each cut of a policy with a scorer, for
 * tests/oracle/baselines_reference.py; their heads describe the format.
 *
 *   dump_boundaries MODEL OUT POLICY PAGE_TOKENS PROMPT OUTPUT SEED [OPTION=VALUE ...]
 *
 * Options: local, protect, initial, max_pages, coverage, threshold, metric, gqa_demand,
 * gqa_score, domain, init, compact, kv_type; for a policy with a scorer trigger (page, token,
 * steps:N), window and events, the most that are dumped.  Keys are read back through the score
 * kernel with unit vectors, so nothing here knows how a page is laid out. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "engine/engine_internal.h"

struct dump {
    FILE *file;
    struct gp_engine *engine;
    bool reached_initial; /* before the step at hand */
    bool seen;            /* the boundary's inputs are in memory */
    float *keys, *summaries, *query_rms;
    uint32_t *kept;
    uint32_t slots, keep, events;
    bool has_summaries;
    uint32_t tokens;

    /* A cut: what gp_score() was shown and said, [layers][kv_heads][slots] each. */
    bool cut;
    uint32_t events_max, prompt;
    struct gp_score_input in; /* of the last head: pointers are not to be followed */
    float *windows;           /* [layers][query_count][query_heads][key_dim] */
    float *before, *memory, *score;
    uint32_t *position;
};

static void fail(const char *what)
{
    fprintf(stderr, "dump_boundaries: %s\n", what);
    exit(1);
}

/* ---- sections ---- */

static void write_bytes(struct dump *d, const void *bytes, size_t count)
{
    if (count && fwrite(bytes, 1, count, d->file) != count)
        fail("cannot write");
}

static void section(struct dump *d, const char *name, uint32_t type, const uint32_t dims[4],
                    const void *data, size_t bytes)
{
    static const char zeros[16];
    char padded[16] = {0};
    uint32_t head[6] = {type, dims[0], dims[1], dims[2], dims[3], 0};

    memcpy(padded, name, strlen(name));
    write_bytes(d, padded, 16);
    write_bytes(d, head, sizeof head);
    write_bytes(d, data, bytes);
    write_bytes(d, zeros, (8 - bytes % 8) % 8);
}

static void section_json(struct dump *d, const char *name, json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(17));
    uint32_t dims[4] = {(uint32_t)strlen(text), 1, 1, 1};

    section(d, name, 0, dims, text, dims[0]);
    free(text);
    json_decref(value);
}

static const struct gp_hparams *hparams(const struct dump *d)
{
    return &d->engine->model->weights->hp;
}

/* ---- hooks ---- */

static bool selects(const struct dump *d)
{
    return d->engine->options.kv.select != GP_POLICY_FULL;
}

static void see_keys(struct dump *d, const struct gp_seq *seq)
{
    const struct gp_hparams *hp = hparams(d);
    float *unit = gp_mem_alloc_array(hp->key_dim, sizeof *unit);
    float *column = gp_mem_alloc_array(d->slots, sizeof *column);

    for (uint32_t item = 0; item < hp->layer_count * hp->kv_head_count; item++) {
        struct gp_kv_view kv = gp_cache_view(&d->engine->cache, hp, seq->table,
                                             item / hp->kv_head_count, item % hp->kv_head_count);

        for (uint32_t i = 0; i < hp->key_dim; i++) {
            unit[i] = 1;
            d->engine->model->kernels.kv_scores(&kv, unit, 0, d->slots, 1, column);
            unit[i] = 0;
            for (uint32_t s = 0; s < d->slots; s++)
                d->keys[((size_t)item * d->slots + s) * hp->key_dim + i] = column[s];
        }
    }
    gp_mem_free(unit);
    gp_mem_free(column);
}

/* Before anything is moved. */
static void see(struct dump *d, const struct gp_seq *seq)
{
    const struct gp_hparams *hp = hparams(d);
    const struct gp_cache *cache = &d->engine->cache;
    size_t summary = (size_t)2 * hp->head_count * hp->key_dim;

    d->seen = true;
    d->slots = seq->cached;
    d->tokens = seq->computed;
    d->has_summaries = seq->has_summaries;
    see_keys(d, seq);
    for (uint32_t layer = 0; layer < hp->layer_count; layer++) {
        size_t place = (size_t)layer * cache->summary_slots + seq->query_slot;

        memcpy(d->summaries + layer * summary, cache->summaries + place * summary,
               summary * sizeof(float));
        memcpy(d->query_rms + (size_t)layer * hp->head_count,
               cache->query_rms + place * hp->head_count, hp->head_count * sizeof(float));
    }
}

/* Has the policy cuts of its own?  The others meet boundaries, and a scorer may select there. */
static bool has_cuts(const struct dump *d)
{
    return gp_policy_scores(&d->engine->options.kv) && !selects(d);
}

/* ---- cuts ---- */

static void write_heads(struct dump *d, const char *name, uint32_t type, const void *data)
{
    const struct gp_hparams *hp = hparams(d);
    uint32_t dims[4] = {hp->layer_count, hp->kv_head_count, d->slots, 1};

    section(d, name, type, dims, data, (size_t)dims[0] * dims[1] * dims[2] * 4);
}

static void write_windows(struct dump *d)
{
    const struct gp_hparams *hp = hparams(d);
    uint32_t dims[4] = {hp->layer_count, d->in.query_count, hp->head_count, hp->key_dim};

    section(d, "windows", 1, dims, d->windows,
            (size_t)dims[0] * dims[1] * dims[2] * dims[3] * sizeof(float));
}

/* The cut before, now that all its heads are done. */
static void flush_cut(struct dump *d)
{
    const struct gp_hparams *hp = hparams(d);
    uint32_t keys[4] = {hp->layer_count, hp->kv_head_count, d->slots, hp->key_dim};
    uint32_t kept[4] = {hp->layer_count, hp->kv_head_count, d->keep, 1};

    if (!d->cut || d->events == d->events_max)
        return;
    section_json(d, "cut",
                 json_pack("{s:i, s:i, s:i, s:i, s:i, s:b, s:b}", "slots", (int)d->slots, "tokens",
                           (int)d->tokens, "prompt", (int)d->prompt, "protect", (int)d->in.protect,
                           "before_count", (int)d->in.before_count, "first", (int)d->in.first,
                           "in_order", d->in.position == NULL));
    section(d, "keys", 1, keys, d->keys,
            (size_t)keys[0] * keys[1] * keys[2] * keys[3] * sizeof(float));
    if (d->in.query_count)
        write_windows(d);
    write_heads(d, "before", 1, d->before);
    write_heads(d, "memory", 1, d->memory);
    write_heads(d, "score", 1, d->score);
    if (d->in.position)
        write_heads(d, "position", 2, d->position);
    section(d, "kept", 2, kept, d->kept, (size_t)kept[0] * kept[1] * kept[2] * sizeof(uint32_t));
    d->events++;
    d->cut = false;
}

static void on_scored(void *ctx, uint32_t layer, uint32_t head, const struct gp_score_input *in,
                      const float *memory, const float *score)
{
    struct dump *d = ctx;
    const struct gp_hparams *hp = hparams(d);
    size_t at = ((size_t)layer * hp->kv_head_count + head) * in->slots;

    d->in = *in;
    memcpy(d->memory + at, memory, in->slots * sizeof *memory);
    memcpy(d->score + at, score, in->slots * sizeof *score);
    memcpy(d->before + at, in->before, in->slots * sizeof *in->before);
    if (in->position)
        memcpy(d->position + at, in->position, in->slots * sizeof *in->position);
    for (uint32_t r = 0; r < in->query_count; r++) {
        size_t row = ((size_t)layer * in->query_count + r) * hp->head_count + head * in->group;

        memcpy(d->windows + row * hp->key_dim,
               in->queries + (in->query_first + r) % in->query_ring * in->query_stride,
               (size_t)in->group * hp->key_dim * sizeof(float));
    }
}

static void on_compacting(void *ctx, struct gp_engine *engine, const struct gp_seq *seq,
                          const struct gp_retention *retention)
{
    struct dump *d = ctx;

    (void)engine;
    gp_mem_thaw(); /* the engine promises not to allocate; this program does not */
    if (has_cuts(d)) {
        flush_cut(d);
        d->cut = true;
        d->slots = seq->cached;
        d->tokens = seq->computed;
        d->prompt = seq->prompt_count;
        see_keys(d, seq);
    } else {
        see(d, seq);
    }
    d->keep = retention->keep;
    gp_mem_freeze();
}

static void on_kept(void *ctx, uint32_t layer, uint32_t head, const uint32_t *kept, uint32_t count)
{
    struct dump *d = ctx;

    memcpy(d->kept + ((size_t)layer * hparams(d)->kv_head_count + head) * count, kept,
           count * sizeof *kept);
}

static void write_inputs(struct dump *d, uint32_t pages)
{
    const struct gp_hparams *hp = hparams(d);
    uint32_t keys[4] = {hp->layer_count, hp->kv_head_count, d->slots, hp->key_dim};
    uint32_t summaries[4] = {hp->layer_count, 2, hp->head_count, hp->key_dim};
    uint32_t rms[4] = {hp->layer_count, hp->head_count, 1, 1};

    section_json(d, "event",
                 json_pack("{s:i, s:i, s:b, s:b}", "pages", (int)pages, "tokens", (int)d->tokens,
                           "reached_initial", (int)d->reached_initial, "has_summaries",
                           (int)d->has_summaries));
    section(d, "keys", 1, keys, d->keys,
            (size_t)keys[0] * keys[1] * keys[2] * keys[3] * sizeof(float));
    section(d, "summaries", 1, summaries, d->summaries,
            (size_t)summaries[0] * 2 * summaries[2] * summaries[3] * sizeof(float));
    section(d, "query_rms", 1, rms, d->query_rms, (size_t)rms[0] * rms[1] * sizeof(float));
}

static void on_boundary(void *ctx, const struct gp_seq *seq, struct gp_decision decision,
                        const struct gp_signal *signal, uint32_t pages_before)
{
    static const char *const actions[] = {"grow", "compress", "shrink"};
    static const char *const causes[] = {"policy", "start",    "initial",   "pressure",
                                         "capped", "fallback", "overridden"};
    struct dump *d = ctx;
    const struct gp_hparams *hp = hparams(d);

    if (has_cuts(d))
        return;
    gp_mem_thaw();
    if (!d->seen)
        see(d, seq);
    write_inputs(d, pages_before);
    json_t *answer = json_pack("{s:s, s:s}", "action", actions[decision.action], "cause",
                               causes[decision.cause]);

    if (signal) {
        json_object_set_new(answer, "delta", json_real(signal->delta));
        json_object_set_new(answer, "demand_short", json_real(signal->demand_short));
        json_object_set_new(answer, "demand_long", json_real(signal->demand_long));
    }
    if (selects(d) && decision.action != GP_DO_GROW) {
        json_object_set_new(answer, "before_count", json_integer(d->in.before_count));
        json_object_set_new(answer, "first", json_boolean(d->in.first));
    }
    section_json(d, "answer", answer);
    if (decision.action != GP_DO_GROW) {
        uint32_t dims[4] = {hp->layer_count, hp->kv_head_count, d->keep, 1};

        section(d, "kept", 2, dims, d->kept,
                (size_t)dims[0] * dims[1] * dims[2] * sizeof(uint32_t));
    }
    if (selects(d) && decision.action != GP_DO_GROW) {
        write_windows(d);
        write_heads(d, "before", 1, d->before);
        write_heads(d, "memory", 1, d->memory);
        write_heads(d, "score", 1, d->score);
    }
    d->events++;
    d->seen = false;
    gp_mem_freeze();
}

/* ---- options ---- */

static int word(const char *value, const char *const *words, int count)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(value, words[i]))
            return i;
    fail("an option's value is unknown");
    return 0;
}

static const char *const metrics[] = {"top-p", "entropy", "exp-entropy"};
static const char *const demands[] = {"mean", "max", "per-head"};
static const char *const scores[] = {"max", "mean"};
static const char *const domains[] = {"unprotected", "all"};
static const char *const triggers[] = {"page", "steps", "token"};
static const char *const compacts[] = {"shift", "fill"};
static const char *const inits[] = {"first", "zero"};

static void set_option(struct dump *d, struct gp_engine_options *o, const char *text)
{
    const char *value = strchr(text, '=');
    size_t name = value ? (size_t)(value - text) : 0;
    struct gp_kv_options *kv = &o->kv;

    if (!value)
        fail("an option wants NAME=VALUE");
    value++;
#define IS(known) (name == strlen(known) && !strncmp(text, known, name))
    if (IS("local"))
        kv->local = (uint32_t)strtoul(value, NULL, 10);
    else if (IS("protect"))
        kv->protect = (uint32_t)strtoul(value, NULL, 10);
    else if (IS("initial"))
        kv->initial_pages = (uint32_t)strtoul(value, NULL, 10);
    else if (IS("max_pages"))
        kv->max_pages = (uint32_t)strtoul(value, NULL, 10);
    else if (IS("coverage"))
        kv->coverage = strtod(value, NULL);
    else if (IS("threshold"))
        kv->threshold = strtod(value, NULL);
    else if (IS("metric"))
        kv->metric = (enum gp_metric)word(value, metrics, 3);
    else if (IS("gqa_demand"))
        kv->gqa_demand = (enum gp_gqa_demand)word(value, demands, 3);
    else if (IS("gqa_score"))
        kv->gqa_score = (enum gp_gqa_score)word(value, scores, 2);
    else if (IS("domain"))
        kv->score_domain = (enum gp_score_domain)word(value, domains, 2);
    else if (IS("init"))
        kv->summary_init = (enum gp_summary_init)word(value, inits, 2);
    else if (IS("compact"))
        kv->compact = (enum gp_kv_compact)word(value, compacts, 2);
    else if (IS("kv_type"))
        o->kv_type = value;
    else if (IS("window"))
        kv->scorer.window = (uint32_t)strtoul(value, NULL, 10);
    else if (IS("trigger") && !strncmp(value, "steps:", 6))
        kv->trigger = GP_TRIGGER_STEPS, kv->trigger_steps = (uint32_t)strtoul(value + 6, NULL, 10);
    else if (IS("trigger"))
        kv->trigger = (enum gp_kv_trigger)word(value, triggers, 3);
    else if (IS("events"))
        d->events_max = (uint32_t)strtoul(value, NULL, 10);
    else
        fail("an option is unknown");
#undef IS
}

/* The policy's name without what follows it; whose scorer selects for it. */
static const char *policy_word(const struct gp_kv_options *kv)
{
    static char name[64];

    gp_policy_to_text(kv, name);
    name[strcspn(name, ":+")] = '\0';
    return name;
}

static const char *select_word(const struct gp_kv_options *kv)
{
    static char name[64];

    gp_policy_to_text(kv, name);
    return name + strcspn(name, "+") + 1;
}

static void write_model(struct dump *d)
{
    const struct gp_hparams *hp = hparams(d);
    const struct gp_kv_options *kv = &d->engine->options.kv;
    uint32_t dims[4] = {hp->rope_dim / 2, 1, 1, 1};
    json_t *options = json_pack(
        "{s:s, s:i, s:f, s:i, s:f, s:f, s:s, s:s, s:i, s:i, s:i, s:i, s:s, s:s}", "policy",
        policy_word(kv), "budget_tokens", (int)kv->budget_tokens, "shrink_threshold",
        kv->shrink_threshold, "shrink_floor", (int)kv->shrink_floor, "coverage", kv->coverage,
        "threshold", kv->threshold, "metric", metrics[kv->metric], "gqa_demand",
        demands[kv->gqa_demand], "initial_pages", (int)kv->initial_pages, "max_pages",
        (int)kv->max_pages, "local", (int)kv->local, "protect", (int)kv->protect, "gqa_score",
        scores[kv->gqa_score], "score_domain", domains[kv->score_domain]);

    json_object_set_new(options, "compact", json_string(compacts[kv->compact]));
    if (selects(d))
        json_object_set_new(options, "select", json_string(select_word(kv)));
    json_object_set_new(options, "trigger", json_string(triggers[kv->trigger]));
    json_object_set_new(options, "trigger_steps", json_integer(kv->trigger_steps));

    write_bytes(d, "GPKVDMP1", 8);
    section_json(d, "model",
                 json_pack("{s:i, s:i, s:i, s:i, s:i, s:b, s:f, s:f, s:i, s:o}", "layers",
                           (int)hp->layer_count, "query_heads", (int)hp->head_count, "kv_heads",
                           (int)hp->kv_head_count, "key_dim", (int)hp->key_dim, "rope_dim",
                           (int)hp->rope_dim, "rope_neox", (int)hp->rope_neox, "rope_scale",
                           hp->rope_scale, "attention_scale", (double)hp->attention_scale,
                           "page_tokens", (int)d->engine->options.page_tokens, "options", options));
    section(d, "inv_freq", 3, dims, d->engine->model->weights->inv_freq, dims[0] * sizeof(double));
}

/* ---- the run ---- */

static void run(struct dump *d, uint32_t prompt_count, uint32_t output_count, uint64_t seed)
{
    struct gp_rng rng = {seed};
    struct gp_request request;
    struct gp_error err;
    int32_t *prompt = gp_mem_alloc_array(prompt_count, sizeof *prompt);
    uint64_t id;

    for (uint32_t i = 0; i < prompt_count; i++)
        prompt[i] = (int32_t)gp_rng_below(&rng, hparams(d)->vocab_count);
    gp_request_init(&request);
    request.tokens = prompt;
    request.token_count = prompt_count;
    request.max_tokens = output_count;
    request.ignore_eos = true;
    request.sampling.has_seed = true;
    request.sampling.seed = seed;
    if (gp_engine_submit(d->engine, &request, &id, &err))
        fail(err.message);
    do {
        struct gp_seq *seq = gp_sched_first_running(d->engine->sched);

        d->reached_initial = seq && seq->reached_initial;
    } while (gp_engine_step(d->engine));
    gp_mem_free(prompt);
}

int main(int argc, char **argv)
{
    struct dump d = {0};
    struct gp_model *model = NULL;
    struct gp_model_options model_options = {.path = argc > 1 ? argv[1] : NULL};
    struct gp_engine_options options;
    struct gp_error err = {""};

    if (argc < 8)
        fail("MODEL OUT POLICY PAGE_TOKENS PROMPT OUTPUT SEED [OPTION=VALUE ...]");
    gp_log_set(false, false);
    gp_engine_options_init(&options);
    options.kv_sync = true; /* a boundary is told when its compaction is done */
    options.page_tokens = (uint32_t)strtoul(argv[4], NULL, 10);
    options.max_seqs = 1;
    if (gp_policy_parse(argv[3], &options.kv, &err))
        fail(err.message);
    d.events_max = UINT32_MAX;
    for (int i = 8; i < argc; i++)
        set_option(&d, &options, argv[i]);
    if (gp_model_open(&model, &model_options, &err) ||
        gp_engine_open(&d.engine, model, &options, &err))
        fail(err.message);
    const struct gp_hparams *hp = hparams(&d);
    size_t heads = (size_t)hp->layer_count * hp->kv_head_count;

    d.keys = gp_mem_alloc_array(heads * d.engine->slots_max * hp->key_dim, sizeof *d.keys);
    d.summaries = gp_mem_alloc_array((size_t)hp->layer_count * 2 * hp->head_count * hp->key_dim,
                                     sizeof *d.summaries);
    d.query_rms = gp_mem_alloc_array((size_t)hp->layer_count * hp->head_count, sizeof *d.query_rms);
    d.kept = gp_mem_alloc_array(heads * d.engine->slots_max, sizeof *d.kept);
    d.before = gp_mem_alloc_array(heads * d.engine->slots_max, sizeof *d.before);
    d.memory = gp_mem_alloc_array(heads * d.engine->slots_max, sizeof *d.memory);
    d.score = gp_mem_alloc_array(heads * d.engine->slots_max, sizeof *d.score);
    d.position = gp_mem_alloc_array(heads * d.engine->slots_max, sizeof *d.position);
    d.windows = gp_mem_alloc_array((size_t)hp->layer_count * hp->head_count * hp->key_dim,
                                   (options.kv.scorer.window + 1) * sizeof *d.windows);
    d.file = fopen(argv[2], "wb");
    if (!d.before || !d.memory || !d.score || !d.position || !d.windows || !d.keys ||
        !d.summaries || !d.query_rms || !d.kept || !d.file)
        fail("cannot open the output, or out of memory");
    d.engine->hooks = (struct gp_engine_hooks){.compacting = on_compacting,
                                               .kept = on_kept,
                                               .scored = on_scored,
                                               .boundary = on_boundary,
                                               .ctx = &d};
    write_model(&d);
    run(&d, (uint32_t)strtoul(argv[5], NULL, 10), (uint32_t)strtoul(argv[6], NULL, 10),
        strtoull(argv[7], NULL, 10));
    flush_cut(&d);
    if (fclose(d.file))
        fail("cannot write");
    printf("%u events\n", d.events);
    gp_engine_close(d.engine);
    gp_model_close(model);
    gp_mem_free(d.keys);
    gp_mem_free(d.summaries);
    gp_mem_free(d.query_rms);
    gp_mem_free(d.kept);
    gp_mem_free(d.before);
    gp_mem_free(d.memory);
    gp_mem_free(d.score);
    gp_mem_free(d.position);
    gp_mem_free(d.windows);
    return 0;
}
