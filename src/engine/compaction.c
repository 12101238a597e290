/* Compactions on bytes, whole or in slices beside the steps (spec.md section 5).
 *
 * A slice is so many items, one for each (layer, KV head), chosen by an estimate of work and
 * never by the clock, so that a run can be repeated: the items of a slice cost about a sixteenth
 * of the step's rows. */
#include <string.h>

#include "base/assert.h"
#include "engine/engine_internal.h"

/* A step is lengthened by this part of itself. */
#define SLICE_SHARE 16u
/* Items come in so many, for the workers to share; a number of theirs would make the run depend on
 * how many there are. */
#define SLICE_ITEMS 8u

/* Multiplications of a row through the weights. */
static uint64_t row_work(const struct gp_engine *engine)
{
    return engine->model->weights->parameter_count;
}

/* The same for one item: both views of each head's queries against all keys, then softmax, choice
 * and moves, which for keys of usual size come to several times as much. */
static uint64_t item_work(const struct gp_engine *engine, const struct gp_seq *seq)
{
    const struct gp_hparams *hp = &engine->model->weights->hp;
    uint64_t group = hp->head_count / hp->kv_head_count;

    return (uint64_t)seq->cached * 8 * group * (hp->key_dim + 64);
}

/* How many of its items seq may do now: at least some, for a compaction that stood still would
 * never end. */
static uint32_t items_of_slice(const struct gp_engine *engine, const struct gp_seq *seq,
                               uint64_t work_left)
{
    uint64_t count = (work_left / item_work(engine, seq) / SLICE_ITEMS + 1) * SLICE_ITEMS;
    uint32_t left = gp_boundary_items(engine) - seq->items_done;

    return count < left ? (uint32_t)count : left;
}

bool gp_compaction_advance(struct gp_engine *engine, uint32_t rows)
{
    uint64_t left = rows > 0 ? rows * row_work(engine) / SLICE_SHARE : UINT64_MAX;
    struct gp_seq *seq = gp_sched_compaction(engine->sched);
    bool any = seq != NULL;

    while (seq && left > 0) {
        uint32_t count = items_of_slice(engine, seq, left), begin = seq->items_done;
        uint64_t work = count * item_work(engine, seq);

        gp_boundary_compact_slice(engine, seq, &seq->retention, begin, begin + count);
        seq->items_done += count;
        if (seq->items_done == gp_boundary_items(engine))
            gp_sched_compacted(engine->sched, seq);
        left = work < left ? left - work : 0;
        seq = gp_sched_compaction(engine->sched);
    }
    return any;
}

void gp_compaction_run(void *ctx, struct gp_seq *seq, const struct gp_retention *r)
{
    struct gp_engine *engine = ctx;

    gp_boundary_compact_slice(engine, seq, r, 0, gp_boundary_items(engine));
}

void gp_compaction_copy(void *ctx, uint32_t from, uint32_t to, uint32_t slots)
{
    struct gp_engine *engine = ctx;
    struct gp_cache *cache = &engine->cache;
    size_t items = gp_boundary_items(engine), words = items * cache->page_tokens;

    /* Keys and values of a block do not lie by slots alone, so a part of a page is copied whole. */
    gp_assert(slots > 0 && slots <= cache->page_tokens);
    memcpy(cache->pool + to * cache->page_bytes, cache->pool + from * cache->page_bytes,
           cache->page_bytes);
    if (cache->memory)
        memcpy(cache->memory + to * words, cache->memory + from * words,
               words * sizeof *cache->memory);
    if (cache->positions)
        memcpy(cache->positions + to * words, cache->positions + from * words,
               words * sizeof *cache->positions);
}
