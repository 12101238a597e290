/* Policies with a scorer on bytes (docs/POLICIES.md): what they hold beside pages, what their rows
 * leave behind, and the cut of a cache back to its budget.
 *
 * Nothing of it exists in an engine that was not opened for such a policy: what a request may need
 * follows from the options that the engine is opened with, and a request that needs more is
 * refused. */
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/trace.h"
#include "kv/plan.h"

/* ---- open and close ---- */

static struct gp_policy_needs joined(struct gp_policy_needs a, struct gp_policy_needs b)
{
    return (struct gp_policy_needs){
        .window = a.window > b.window ? a.window : b.window,
        .memory = a.memory || b.memory,
        .positions = a.positions || b.positions,
        .rotation = a.rotation || b.rotation,
        .scorer = a.scorer || b.scorer,
    };
}

int gp_scored_check(const struct gp_engine *engine, const struct gp_kv_options *kv,
                    struct gp_error *err)
{
    struct gp_policy_needs needs = gp_policy_needs(kv), have = engine->needs;
    const char *missing = needs.scorer && !have.scorer         ? "memory for scores"
                          : needs.window > have.window         ? "a window of as many queries"
                          : needs.memory && !have.memory       ? "memory for scores"
                          : needs.positions && !have.positions ? "memory for positions"
                          : needs.rotation && !have.rotation   ? "memory for rotated keys"
                                                               : NULL;
    char name[64];

    if (!missing)
        return GP_OK;
    gp_policy_to_text(kv, name);
    return gp_fail(err, GP_EINVAL,
                   "kv policy %s: the engine was opened without %s; open it with this policy, or "
                   "with it among kv_also",
                   name, missing);
}

/* Words of one page: a number a slot, layer and KV head. */
static size_t page_words(const struct gp_engine *engine)
{
    const struct gp_hparams *hp = &engine->model->weights->hp;

    return (size_t)hp->layer_count * hp->kv_head_count * engine->options.page_tokens;
}

size_t gp_scored_page_bytes(const struct gp_engine *engine)
{
    return page_words(engine) * 4 * ((size_t)engine->needs.memory + engine->needs.positions);
}

/* Takes memory from the system and keeps the sum. */
static void *take(struct gp_engine *engine, size_t count, size_t size)
{
    void *block = count <= SIZE_MAX / size ? gp_mem_map(count * size) : NULL;

    if (block)
        engine->scored_bytes += count * size;
    return block;
}

static bool open_rotation(struct gp_engine *engine)
{
    const struct gp_weights *weights = engine->model->weights;
    const struct gp_hparams *hp = &weights->hp;
    struct gp_cache *cache = &engine->cache;
    size_t pairs = hp->rope_dim / 2;
    uint32_t pages = engine->slots_max / cache->page_tokens, *numbers;

    cache->rotated_block_bytes =
        gp_kv_block_bytes(GP_KV_F32, cache->page_tokens, hp->key_dim, hp->value_dim);
    cache->rotated_bytes = cache->rotated_block_bytes * pages;
    cache->rotated = take(engine, cache->rotated_bytes, engine->options.threads);
    cache->place_cos = take(engine, (size_t)engine->slots_max * pairs + 1, sizeof(float));
    cache->place_sin = take(engine, (size_t)engine->slots_max * pairs + 1, sizeof(float));
    cache->rotated_pages = numbers = take(engine, pages, sizeof *numbers);
    if (!cache->rotated || !cache->place_cos || !cache->place_sin || !numbers)
        return false;
    for (uint32_t i = 0; i < pages; i++)
        numbers[i] = i;
    for (uint32_t i = 0; i < engine->slots_max; i++)
        gp_rope_angles(i, weights->inv_freq, hp->rope_dim / 2, hp->rope_scale,
                       cache->place_cos + i * pairs, cache->place_sin + i * pairs);
    return true;
}

static bool open_scratch(struct gp_engine *engine)
{
    uint32_t key_dim = engine->model->weights->hp.key_dim, n = engine->slots_max;

    engine->scored_scratch =
        gp_mem_alloc_array(engine->options.threads, sizeof *engine->scored_scratch);
    for (uint32_t i = 0; engine->scored_scratch && i < engine->options.threads; i++) {
        struct scored_scratch *s = &engine->scored_scratch[i];

        s->before = take(engine, n, sizeof *s->before);
        s->memory = take(engine, n, sizeof *s->memory);
        s->score = take(engine, n, sizeof *s->score);
        s->work = take(engine, gp_score_work_floats(n, key_dim), sizeof *s->work);
        s->place = take(engine, n, sizeof *s->place);
        s->slots = take(engine, n, sizeof *s->slots);
        s->stay = take(engine, n, sizeof *s->stay);
        s->order = take(engine, n, sizeof *s->order);
        s->moves = take(engine, n + n / 2 + 1, sizeof *s->moves);
        if (!s->before || !s->memory || !s->score || !s->work || !s->place || !s->slots ||
            !s->stay || !s->order || !s->moves)
            return false;
    }
    return engine->scored_scratch != NULL;
}

void gp_scored_needs(struct gp_engine *engine)
{
    engine->needs = gp_policy_needs(&engine->options.kv);
    for (uint32_t i = 0; i < engine->options.kv_also_count; i++)
        engine->needs = joined(engine->needs, gp_policy_needs(&engine->options.kv_also[i]));
    if (engine->options.taps && engine->needs.window == 0)
        engine->needs.window = 1;
}

int gp_scored_open(struct gp_engine *engine, struct gp_error *err)
{
    const struct gp_hparams *hp = &engine->model->weights->hp;
    struct gp_policy_needs needs = engine->needs;
    struct gp_cache *cache = &engine->cache;
    size_t words = page_words(engine) * engine->options.kv_pages;
    size_t queries = (size_t)hp->layer_count * engine->options.max_seqs * needs.window *
                     hp->head_count * hp->key_dim;
    bool ok = true;

    cache->slots_max = engine->slots_max;
    cache->window_rows = needs.window;
    if (needs.window)
        ok = (cache->windows = take(engine, queries, sizeof *cache->windows)) != NULL;
    if (ok && needs.memory) {
        cache->memory = take(engine, words, sizeof *cache->memory);
        cache->row_work = take(engine, (size_t)2 * engine->options.threads * engine->slots_max,
                               sizeof *cache->row_work);
        ok = cache->memory && cache->row_work;
    }
    if (ok && needs.positions)
        ok = (cache->positions = take(engine, words, sizeof *cache->positions)) != NULL;
    if (ok && needs.rotation)
        ok = open_rotation(engine);
    if (ok && needs.scorer)
        ok = open_scratch(engine);
    return ok ? GP_OK : gp_fail(err, GP_ENOMEM, "scores: out of memory");
}

static void give(void *block, size_t count, size_t size)
{
    gp_mem_unmap(block, count * size);
}

void gp_scored_close(struct gp_engine *engine)
{
    const struct gp_hparams *hp = &engine->model->weights->hp;
    struct gp_cache *cache = &engine->cache;
    uint32_t n = engine->slots_max, threads = engine->options.threads;
    size_t words = page_words(engine) * engine->options.kv_pages, pairs = hp->rope_dim / 2;

    /* Options that were refused have no page size to divide by. */
    if (!cache->page_tokens)
        return;
    for (uint32_t i = 0; engine->scored_scratch && i < threads; i++) {
        struct scored_scratch *s = &engine->scored_scratch[i];

        give(s->before, n, sizeof *s->before);
        give(s->memory, n, sizeof *s->memory);
        give(s->score, n, sizeof *s->score);
        give(s->work, gp_score_work_floats(n, hp->key_dim), sizeof *s->work);
        give(s->place, n, sizeof *s->place);
        give(s->slots, n, sizeof *s->slots);
        give(s->stay, n, sizeof *s->stay);
        give(s->order, n, sizeof *s->order);
        give(s->moves, n + n / 2 + 1, sizeof *s->moves);
    }
    gp_mem_free(engine->scored_scratch);
    give(cache->windows,
         (size_t)hp->layer_count * engine->options.max_seqs * cache->window_rows * hp->head_count,
         hp->key_dim * sizeof *cache->windows);
    give(cache->memory, words, sizeof *cache->memory);
    give(cache->row_work, (size_t)2 * threads * n, sizeof *cache->row_work);
    give(cache->positions, words, sizeof *cache->positions);
    give(cache->rotated, cache->rotated_bytes, threads);
    give(cache->place_cos, n * pairs + 1, sizeof(float));
    give(cache->place_sin, n * pairs + 1, sizeof(float));
    give((void *)cache->rotated_pages, n / engine->options.page_tokens, sizeof(uint32_t));
}

/* ---- rows ---- */

void gp_scored_segment(const struct gp_seq *seq, struct gp_segment *segment)
{
    struct gp_policy_needs needs = gp_policy_needs(&seq->kv);

    segment->keep_queries = needs.window > 0;
    segment->query_slot = seq->query_slot;
    segment->add_memory = needs.every_row;
    segment->join = seq->kv.scorer.group;
    segment->positions = needs.positions;
    segment->cache_positions = needs.rotation;
    segment->sinks = seq->kv.scorer.sinks;
}

/* ---- a cut ---- */

struct cut {
    struct gp_engine *engine;
    const struct gp_seq *seq;
    const struct gp_retention *retention;
    struct gp_policy_needs needs;
    uint32_t slots;
};

/* A head's words, as they lie in pages, to and from one row. */
static void gather(const struct cut *c, const void *words, uint32_t layer, uint32_t head, void *row)
{
    const struct gp_cache *cache = &c->engine->cache;
    const struct gp_hparams *hp = &c->engine->model->weights->hp;
    uint32_t b = cache->page_tokens;

    for (uint32_t at = 0; at < c->slots; at += b) {
        uint32_t left = c->slots - at;
        size_t word = gp_cache_word(cache, hp, c->seq->table[at / b], layer, head);

        memcpy((uint32_t *)row + at, (const uint32_t *)words + word, (left < b ? left : b) * 4);
    }
}

static void scatter(const struct cut *c, void *words, uint32_t layer, uint32_t head,
                    const void *row)
{
    const struct gp_cache *cache = &c->engine->cache;
    const struct gp_hparams *hp = &c->engine->model->weights->hp;
    uint32_t b = cache->page_tokens;

    for (uint32_t at = 0; at < c->slots; at += b) {
        uint32_t left = c->slots - at;
        size_t word = gp_cache_word(cache, hp, c->seq->table[at / b], layer, head);

        memcpy((uint32_t *)words + word, (const uint32_t *)row + at, (left < b ? left : b) * 4);
    }
}

/* Slots whose score the cut before this one left behind: the newest had none to leave, unless the
 * scorer remembers them, too. */
static uint32_t before_count(const struct cut *c)
{
    const struct gp_scorer *s = &c->seq->kv.scorer;

    if (s->source == GP_SCORE_ALL)
        return c->slots;
    if (s->history == GP_HISTORY_NONE || c->seq->carried == 0)
        return 0;
    return c->seq->carried - (s->remember_newest ? 0 : c->retention->protect);
}

static void score_head(const struct cut *c, const struct gp_kv_view *kv, uint32_t layer,
                       uint32_t head, struct scored_scratch *s)
{
    struct gp_engine *engine = c->engine;
    const struct gp_hparams *hp = &engine->model->weights->hp;
    const struct gp_cache *cache = &engine->cache;
    const struct gp_seq *seq = c->seq;
    uint32_t group = hp->head_count / hp->kv_head_count, rows = seq->kv.scorer.window;
    struct gp_score_input in = {
        .kv = kv,
        .slots = c->slots,
        .query_stride = (size_t)hp->head_count * hp->key_dim,
        .query_ring = cache->window_rows,
        .query_count = rows < seq->computed ? rows : seq->computed,
        .group = group,
        .scale = hp->attention_scale,
        .position = c->needs.positions ? s->place : NULL,
        .next = c->needs.positions ? seq->computed : c->slots,
        .protect = c->retention->protect,
        .before = s->before,
        .before_count = before_count(c),
        .first = seq->carried == 0,
    };

    if (rows > 0) {
        in.queries =
            gp_window_of(engine, layer, seq->query_slot) + (size_t)head * group * hp->key_dim;
        in.query_first = (seq->computed - in.query_count) % cache->window_rows;
    }
    if (c->needs.positions)
        gather(c, cache->positions, layer, head, s->place);
    if (c->needs.memory)
        gather(c, cache->memory, layer, head, s->before);
    gp_score(&engine->model->kernels, &seq->kv.scorer, &in, s->memory, s->score, s->work);
    if (engine->hooks.scored)
        engine->hooks.scored(engine->hooks.ctx, layer, head, &in, s->memory, s->score);
    if (c->needs.memory)
        scatter(c, cache->memory, layer, head, s->memory);
}

/* The history slots that stay, in s->slots [keep], and the plan of moves. */
static uint32_t plan_in_order(const struct cut *c, struct scored_scratch *s)
{
    const struct gp_retention *r = c->retention;
    uint32_t b = c->engine->cache.page_tokens;

    gp_select(s->score, c->slots - r->protect, b, r->local, r->keep, s->slots, s->order);
    if (c->seq->kv.scorer.keep_order)
        return gp_plan_shift(s->slots, r->keep, c->slots, r->protect, &s->moves[0].from);
    gp_best_first(s->score, s->slots, r->keep, s->order);
    return gp_plan_order(s->slots, r->keep, c->slots, r->protect, &s->moves[0].from, s->stay);
}

/* Slots lie in disorder: those that may be dropped are found by their places. */
static uint32_t plan_by_place(const struct cut *c, struct scored_scratch *s)
{
    const struct gp_retention *r = c->retention;
    uint32_t newest = c->seq->computed - r->protect, count = 0, kept = 0, stay = 0;

    for (uint32_t i = 0; i < c->slots; i++)
        if (s->place[i] < newest) {
            s->memory[count] = s->score[i];
            s->stay[count++] = i;
        }
    gp_assert(count == c->slots - r->protect);
    gp_select(s->memory, count, c->engine->cache.page_tokens, 0, r->keep, s->slots, s->order);
    for (uint32_t i = 0; i < r->keep; i++)
        s->slots[i] = s->stay[s->slots[i]];
    for (uint32_t i = 0; i < c->slots; i++) {
        bool chosen = kept < r->keep && s->slots[kept] == i;

        kept += chosen;
        if (chosen || s->place[i] >= newest)
            s->stay[stay++] = i;
    }
    gp_assert(stay == r->keep + r->protect);
    return gp_plan_fill(s->stay, stay, c->slots, &s->moves[0].from);
}

/* A head's words follow its keys and values. */
static void move_words(const struct cut *c, uint32_t *words, uint32_t layer, uint32_t head,
                       const struct gp_move *moves, uint32_t count)
{
    const struct gp_cache *cache = &c->engine->cache;
    const struct gp_hparams *hp = &c->engine->model->weights->hp;
    const uint32_t *table = c->seq->table;
    uint32_t b = cache->page_tokens;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t from = moves[i].from, to = moves[i].to;

        words[gp_cache_word(cache, hp, table[to / b], layer, head) + to % b] =
            words[gp_cache_word(cache, hp, table[from / b], layer, head) + from % b];
    }
}

static void cut_head(const struct cut *c, uint32_t layer, uint32_t head, struct scored_scratch *s,
                     struct gp_stages *stages)
{
    struct gp_engine *engine = c->engine;
    struct gp_cache *cache = &engine->cache;
    struct gp_kv_view kv =
        gp_cache_view(cache, &engine->model->weights->hp, c->seq->table, layer, head);
    uint64_t t0 = gp_clock_ns();

    score_head(c, &kv, layer, head, s);
    uint64_t t1 = gp_clock_ns();
    uint32_t moves = c->needs.positions ? plan_by_place(c, s) : plan_in_order(c, s);

    if (engine->hooks.kept)
        engine->hooks.kept(engine->hooks.ctx, layer, head, s->slots, c->retention->keep);
    uint64_t t2 = gp_clock_ns();

    engine->model->kernels.kv_move(&kv, s->moves, moves);
    if (c->needs.memory)
        move_words(c, (uint32_t *)cache->memory, layer, head, s->moves, moves);
    if (c->needs.positions)
        move_words(c, cache->positions, layer, head, s->moves, moves);
    stages->score_ns += t1 - t0;
    stages->select_ns += t2 - t1;
    stages->compact_ns += gp_clock_ns() - t2;
    stages->moved += moves;
}

void gp_scored_cut(struct gp_engine *engine, const struct gp_seq *seq, const struct gp_retention *r,
                   uint32_t layer, uint32_t head, uint32_t worker, struct gp_stages *stages)
{
    struct cut c = {engine, seq, r, gp_policy_needs(&seq->kv), seq->cached};

    gp_assert(r->keep + r->protect < c.slots);
    cut_head(&c, layer, head, &engine->scored_scratch[worker], stages);
}
