/* The capacity boundary on bytes: demand (spec.md section 3) and Compress & Hold (section 4).
 *
 * The scheduler says when and what; the kernels do the arithmetic; here the two are joined, one
 * (layer, KV head) after another, spread over the workers.  Nothing decided here depends on who
 * ran an item or in what order: sums are integers, and every head writes only its own block. */
#include <stddef.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/trace.h"
#include "kv/plan.h"

/* kv hands out a plan as pairs of numbers; kernels read it as moves. */
_Static_assert(sizeof(struct gp_move) == 2 * sizeof(uint32_t), "a move is two numbers");
_Static_assert(offsetof(struct gp_move, to) == sizeof(uint32_t), "from, then to");

enum {
    SHORT,
    LONG,
    VIEWS
};

struct boundary {
    struct gp_engine *engine;
    const struct gp_seq *seq;
    const struct gp_retention *retention; /* compact only */
    uint32_t slots;                       /* all of them in use */
    uint32_t first_item;                  /* of a slice */
};

int gp_boundary_open(struct gp_engine *engine, struct gp_error *err)
{
    const struct gp_hparams *hp = &engine->model->weights->hp;
    uint32_t threads = engine->options.threads;
    size_t n = engine->slots_max, group = hp->head_count / hp->kv_head_count;
    bool ok = true;

    engine->scratch = gp_mem_alloc_array(threads, sizeof *engine->scratch);
    engine->rope_cos = gp_mem_alloc_array(hp->rope_dim / 2 + 1, sizeof(float));
    engine->rope_sin = gp_mem_alloc_array(hp->rope_dim / 2 + 1, sizeof(float));
    ok = engine->scratch && engine->rope_cos && engine->rope_sin;
    for (uint32_t i = 0; ok && i < threads; i++) {
        struct boundary_scratch *s = &engine->scratch[i];

        s->logits = gp_mem_alloc_array(n, sizeof *s->logits);
        s->score = gp_mem_alloc_array(n, sizeof *s->score);
        s->head = gp_mem_alloc_array(n, sizeof *s->head);
        s->fixed = gp_mem_alloc_array(n * group, sizeof *s->fixed);
        s->count = gp_mem_alloc_array(n, sizeof *s->count);
        s->kept = gp_mem_alloc_array(n, sizeof *s->kept);
        s->order = gp_mem_alloc_array(n, sizeof *s->order);
        s->moves = gp_mem_alloc_array(n, sizeof *s->moves);
        s->query = gp_mem_alloc_array(hp->key_dim, sizeof *s->query);
        ok = s->logits && s->score && s->head && s->fixed && s->count && s->kept && s->order &&
             s->moves && s->query;
        engine->work_bytes += n * (3 * sizeof(float) + (group + 2) * sizeof(uint32_t) +
                                   sizeof(uint64_t) + sizeof(struct gp_move));
    }
    return ok ? GP_OK : gp_fail(err, GP_ENOMEM, "boundary scratch: out of memory");
}

void gp_boundary_close(struct gp_engine *engine)
{
    for (uint32_t i = 0; engine->scratch && i < engine->options.threads; i++) {
        struct boundary_scratch *s = &engine->scratch[i];

        gp_mem_free(s->logits);
        gp_mem_free(s->score);
        gp_mem_free(s->head);
        gp_mem_free(s->fixed);
        gp_mem_free(s->count);
        gp_mem_free(s->kept);
        gp_mem_free(s->order);
        gp_mem_free(s->moves);
        gp_mem_free(s->query);
    }
    gp_mem_free(engine->scratch);
    gp_mem_free(engine->rope_cos);
    gp_mem_free(engine->rope_sin);
}

/* Section 3's query of one view and head: the summary scaled to the latest query's RMS, rotated
 * to the last cached position.  A zero summary stays zero: every score is then 0. */
static void summary_query(const struct gp_engine *engine, const struct gp_seq *seq, uint32_t layer,
                          uint32_t view, uint32_t head, float *query)
{
    const struct gp_hparams *hp = &engine->model->weights->hp;
    const struct gp_kernels *kernels = &engine->model->kernels;
    const struct gp_cache *cache = &engine->cache;
    size_t place = (size_t)layer * cache->summary_slots + seq->query_slot;
    const float *summary =
        cache->summaries + ((place * VIEWS + view) * hp->head_count + head) * hp->key_dim;
    float rms = kernels->rms(summary, hp->key_dim);
    float scale = rms > 0.0f ? cache->query_rms[place * hp->head_count + head] / rms : 0.0f;

    for (uint32_t i = 0; i < hp->key_dim; i++)
        query[i] = summary[i] * scale;
    kernels->rope(query, engine->rope_cos, engine->rope_sin, hp->rope_dim, hp->rope_neox);
}

/* out [count]: softmax over slots [0, count) of one view and query head. */
static void view_weights(const struct boundary *b, const struct gp_kv_view *kv, uint32_t layer,
                         uint32_t view, uint32_t head, uint32_t count,
                         struct boundary_scratch *scratch, float *out)
{
    const struct gp_kernels *kernels = &b->engine->model->kernels;

    summary_query(b->engine, b->seq, layer, view, head, scratch->query);
    kernels->kv_scores(kv, scratch->query, 0, count, b->engine->model->weights->hp.attention_scale,
                       out);
    kernels->softmax(out, count);
}

static void set_position(struct gp_engine *engine, const struct gp_seq *seq)
{
    const struct gp_weights *weights = engine->model->weights;

    gp_assert(seq->computed > 0);
    gp_rope_angles(seq->computed - 1, weights->inv_freq, weights->hp.rope_dim / 2,
                   weights->hp.rope_scale, engine->rope_cos, engine->rope_sin);
}

/* ---- demand ---- */

/* What one set of fixed-point weights adds to the demand: K, or an entropy share. */
static uint64_t demand_of(const struct gp_kv_options *kv, const uint32_t *weights, uint32_t n,
                          uint32_t *scratch)
{
    if (kv->metric == GP_METRIC_TOP_P)
        return gp_coverage_count(weights, n, kv->coverage, scratch);
    return gp_policy_entropy(kv->metric, weights, n);
}

/* A KV head's demand in one view: the group's weights joined as --kv-gqa-demand says. */
static uint64_t group_demand(const struct boundary *b, const struct gp_kv_view *kv, uint32_t layer,
                             uint32_t kv_head, uint32_t view, uint32_t candidates,
                             struct boundary_scratch *scratch)
{
    const struct gp_hparams *hp = &b->engine->model->weights->hp;
    const struct gp_kv_options *options = &b->seq->kv;
    uint32_t group = hp->head_count / hp->kv_head_count;
    const uint32_t *heads[GP_LIMIT_HEADS];
    uint64_t sum = 0;

    for (uint32_t g = 0; g < group; g++) {
        uint32_t *fixed = scratch->fixed + (size_t)g * candidates;

        view_weights(b, kv, layer, view, kv_head * group + g, candidates, scratch, scratch->head);
        gp_fixed_point(scratch->head, candidates, fixed);
        heads[g] = fixed;
        if (options->gqa_demand == GP_GQA_PER_HEAD)
            sum += demand_of(options, fixed, candidates, scratch->count);
    }
    if (options->gqa_demand == GP_GQA_PER_HEAD)
        return sum;
    if (options->gqa_demand == GP_GQA_MEAN) {
        gp_fixed_mean(heads, group, candidates, scratch->kept);
    } else {
        memcpy(scratch->kept, heads[0], candidates * sizeof *scratch->kept);
        for (uint32_t g = 1; g < group; g++)
            for (uint32_t i = 0; i < candidates; i++)
                if (heads[g][i] > scratch->kept[i])
                    scratch->kept[i] = heads[g][i];
    }
    return demand_of(options, scratch->kept, candidates, scratch->count);
}

static void measure_items(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct boundary *b = ctx;
    struct gp_engine *engine = b->engine;
    const struct gp_hparams *hp = &engine->model->weights->hp;
    struct boundary_scratch *scratch = &engine->scratch[worker];
    uint32_t candidates = b->slots - engine->cache.page_tokens;

    for (uint32_t item = begin; item < end; item++) {
        uint32_t layer = item / hp->kv_head_count, head = item % hp->kv_head_count;
        struct gp_kv_view kv = gp_cache_view(&engine->cache, hp, b->seq->table, layer, head);

        scratch->demand_short += group_demand(b, &kv, layer, head, SHORT, candidates, scratch);
        scratch->demand_long += group_demand(b, &kv, layer, head, LONG, candidates, scratch);
    }
}

struct gp_signal gp_boundary_measure(void *ctx, struct gp_seq *seq)
{
    struct gp_engine *engine = ctx;
    const struct gp_hparams *hp = &engine->model->weights->hp;
    struct boundary b = {.engine = engine, .seq = seq, .slots = seq->cached};
    uint32_t items = hp->layer_count * hp->kv_head_count;
    uint64_t start = gp_clock_ns();

    gp_assert(seq->has_summaries && seq->pages >= 2);
    gp_assert(seq->cached == seq->pages * engine->cache.page_tokens);
    set_position(engine, seq);
    for (uint32_t i = 0; i < engine->options.threads; i++)
        engine->scratch[i].demand_short = engine->scratch[i].demand_long = 0;
    gp_workers_run(engine->workers, items, 1, measure_items, &b);
    struct gp_demand demand = {
        .candidates = b.slots - engine->cache.page_tokens,
        .heads = hp->layer_count *
                 (seq->kv.gqa_demand == GP_GQA_PER_HEAD ? hp->head_count : hp->kv_head_count),
    };

    for (uint32_t i = 0; i < engine->options.threads; i++) {
        demand.sum_short += engine->scratch[i].demand_short;
        demand.sum_long += engine->scratch[i].demand_long;
    }
    struct gp_signal signal = gp_policy_signal(&seq->kv, &demand);
    uint64_t spent = gp_clock_ns() - start;

    engine->owners[seq->index].choice->demand_ns += spent;
    engine->stats.demand_ns += spent;
    return signal;
}

/* ---- Compress & Hold ---- */

/* scratch->score [history]: retention scores of one KV head. */
static void score_head(const struct boundary *b, const struct gp_kv_view *kv, uint32_t layer,
                       uint32_t kv_head, uint32_t history, struct boundary_scratch *scratch)
{
    const struct gp_hparams *hp = &b->engine->model->weights->hp;
    const struct gp_kernels *kernels = &b->engine->model->kernels;
    uint32_t group = hp->head_count / hp->kv_head_count;
    uint32_t domain = b->seq->kv.score_domain == GP_DOMAIN_ALL ? b->slots : history;
    bool mean = b->seq->kv.gqa_score == GP_GQA_SCORE_MEAN;

    for (uint32_t i = 0; i < history; i++)
        scratch->score[i] = 0.0f;
    for (uint32_t g = 0; g < group; g++) {
        view_weights(b, kv, layer, SHORT, kv_head * group + g, domain, scratch, scratch->head);
        view_weights(b, kv, layer, LONG, kv_head * group + g, domain, scratch, scratch->logits);
        kernels->max_into(scratch->head, scratch->logits, history);
        /* The mean's divisor is left out: it orders nothing. */
        if (mean)
            kernels->add(scratch->score, scratch->head, history);
        else
            kernels->max_into(scratch->score, scratch->head, history);
    }
}

/* Where the survivors of one head go; scratch->kept has room for those that are protected. */
static uint32_t plan_moves(const struct boundary *b, struct boundary_scratch *scratch)
{
    const struct gp_retention *r = b->retention;
    uint32_t newest = b->slots - r->protect;

    if (b->seq->kv.compact == GP_COMPACT_SHIFT)
        return gp_plan_shift(scratch->kept, r->keep, b->slots, r->protect, &scratch->moves[0].from);
    for (uint32_t i = 0; i < r->protect; i++)
        scratch->kept[r->keep + i] = newest + i;
    return gp_plan_fill(scratch->kept, r->keep + r->protect, b->slots, &scratch->moves[0].from);
}

static void compact_head(const struct boundary *b, uint32_t layer, uint32_t head,
                         struct boundary_scratch *scratch)
{
    struct gp_engine *engine = b->engine;
    const struct gp_hparams *hp = &engine->model->weights->hp;
    const struct gp_retention *r = b->retention;
    uint32_t history = b->slots - r->protect;
    struct gp_kv_view kv = gp_cache_view(&engine->cache, hp, b->seq->table, layer, head);
    uint64_t t0 = gp_clock_ns();

    score_head(b, &kv, layer, head, history, scratch);
    uint64_t t1 = gp_clock_ns();

    gp_select(scratch->score, history, engine->cache.page_tokens, r->local, r->keep, scratch->kept,
              scratch->order);
    if (engine->hooks.kept)
        engine->hooks.kept(engine->hooks.ctx, layer, head, scratch->kept, r->keep);
    uint64_t t2 = gp_clock_ns();

    uint32_t moves = plan_moves(b, scratch);

    engine->model->kernels.kv_move(&kv, scratch->moves, moves);
    scratch->stages.score_ns += t1 - t0;
    scratch->stages.select_ns += t2 - t1;
    scratch->stages.compact_ns += gp_clock_ns() - t2;
    scratch->stages.moved += moves;
}

static void compact_items(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct boundary *b = ctx;
    struct gp_engine *engine = b->engine;
    uint32_t heads = engine->model->weights->hp.kv_head_count;
    struct boundary_scratch *scratch = &engine->scratch[worker];

    for (uint32_t i = begin; i < end; i++) {
        uint32_t item = b->first_item + i;

        if (gp_policy_scores(&b->seq->kv))
            gp_scored_cut(engine, b->seq, b->retention, item / heads, item % heads, worker,
                          &scratch->stages);
        else
            compact_head(b, item / heads, item % heads, scratch);
    }
}

/* Stage times are summed over the workers: work, not waiting. */
static void add_stages(struct gp_engine *engine, struct choice *choice)
{
    for (uint32_t i = 0; i < engine->options.threads; i++) {
        struct gp_stages *stages = &engine->scratch[i].stages;

        choice->stages.score_ns += stages->score_ns;
        choice->stages.select_ns += stages->select_ns;
        choice->stages.compact_ns += stages->compact_ns;
        choice->stages.moved += stages->moved;
        engine->stats.score_ns += stages->score_ns;
        engine->stats.select_ns += stages->select_ns;
        engine->stats.compact_ns += stages->compact_ns;
        *stages = (struct gp_stages){0};
    }
}

uint32_t gp_boundary_items(const struct gp_engine *engine)
{
    const struct gp_hparams *hp = &engine->model->weights->hp;

    return hp->layer_count * hp->kv_head_count;
}

void gp_boundary_compact_slice(struct gp_engine *engine, struct gp_seq *seq,
                               const struct gp_retention *r, uint32_t begin, uint32_t end)
{
    struct boundary b = {
        .engine = engine,
        .seq = seq,
        .retention = r,
        .slots = seq->cached,
        .first_item = begin,
    };

    gp_assert(seq->has_summaries);
    gp_assert(r->keep + r->protect <= b.slots && r->pages_after <= seq->pages);
    set_position(engine, seq);
    if (begin == 0 && engine->hooks.compacting)
        engine->hooks.compacting(engine->hooks.ctx, engine, seq, r);
    gp_workers_run(engine->workers, end - begin, 1, compact_items, &b);
    add_stages(engine, engine->owners[seq->index].choice);
    if (end == gp_boundary_items(engine))
        gp_tracer_compacted(engine, seq, r);
}
