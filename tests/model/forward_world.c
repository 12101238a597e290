#include "model/forward_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"

#define SEGMENTS_MAX 16u

void test_world_open(struct test_world *w, const struct gp_gguf *gguf, const struct test_setup *s)
{
    struct gp_error err = {""};

    *w = (struct test_world){0};
    if (gp_workers_open(&w->workers, s->threads, &err) ||
        gp_weights_open(&w->weights, gguf, w->workers, NULL, NULL, &err))
        fail_msg("%s", err.message);
    gp_kernels_init(&w->kernels, s->level);
    if (gp_forward_open(&w->forward, w->weights, &w->kernels, w->workers, WORLD_ROWS_MAX,
                        SEGMENTS_MAX, WORLD_ROWS_MAX, WORLD_WAVE, &err))
        fail_msg("%s", err.message);
    const struct gp_hparams *hp = &w->weights->hp;
    struct gp_cache *c = &w->cache;

    c->type = s->kv_type;
    c->page_tokens = s->page_tokens;
    c->block_bytes = gp_kv_block_bytes(c->type, c->page_tokens, hp->key_dim, hp->value_dim);
    c->page_bytes = c->block_bytes * hp->layer_count * hp->kv_head_count;
    w->pool_bytes = c->page_bytes * s->page_count;
    c->pool = gp_mem_alloc(w->pool_bytes);
    assert_non_null(c->pool);
    memset(c->pool, s->fill, w->pool_bytes);
    c->summary_slots = s->summary_slots;
    w->rms_count = (size_t)hp->layer_count * s->summary_slots * hp->head_count;
    w->summary_count = w->rms_count * 2 * hp->key_dim;
    if (s->summary_slots == 0)
        return;
    c->summaries = gp_mem_alloc_array(w->summary_count, sizeof *c->summaries);
    c->query_rms = gp_mem_alloc_array(w->rms_count, sizeof *c->query_rms);
    assert_non_null(c->summaries);
    assert_non_null(c->query_rms);
    memset(c->summaries, 0xff, w->summary_count * sizeof *c->summaries); /* NaN: never cleared */
    memset(c->query_rms, 0xff, w->rms_count * sizeof *c->query_rms);
}

void test_world_close(struct test_world *w)
{
    gp_mem_free(w->cache.pool);
    gp_mem_free(w->cache.summaries);
    gp_mem_free(w->cache.query_rms);
    gp_forward_close(w->forward);
    gp_weights_close(w->weights);
    gp_workers_close(w->workers);
}

size_t test_world_summaries(const struct test_world *w, uint32_t slot, float *out)
{
    const struct gp_hparams *hp = &w->weights->hp;
    size_t vectors = (size_t)2 * hp->head_count * hp->key_dim, at = 0;

    for (uint32_t layer = 0; layer < hp->layer_count; layer++, at += vectors)
        memcpy(out + at,
               w->cache.summaries + ((size_t)layer * w->cache.summary_slots + slot) * vectors,
               vectors * sizeof *out);
    for (uint32_t layer = 0; layer < hp->layer_count; layer++, at += hp->head_count)
        memcpy(out + at,
               w->cache.query_rms +
                   ((size_t)layer * w->cache.summary_slots + slot) * hp->head_count,
               hp->head_count * sizeof *out);
    return at;
}

static struct gp_segment segment_of(const struct test_sequence *s, uint32_t rows)
{
    uint32_t from = s->generated_from > s->done ? s->generated_from - s->done : 0;

    return (struct gp_segment){
        .pages = s->pages,
        .row_count = rows,
        .slot_begin = s->done,
        .pos_begin = s->done,
        .summary_slot = s->summary_slot,
        .generated_from = from < rows ? from : rows,
        .summary_fresh = s->done <= s->generated_from,
        .summary_zero = s->summary_zero,
        .beta_short = 0.9f,
        .beta_long = 0.999f,
        .logits_from = s->logits ? 0 : rows,
    };
}

/* Where the logits of each wanted row go. */
static void take_logits(struct test_world *w, float *const *target, uint32_t wanted)
{
    uint32_t vocab = w->weights->hp.vocab_count;

    for (uint32_t begin = 0; begin < wanted; begin += WORLD_WAVE) {
        uint32_t count = wanted - begin < WORLD_WAVE ? wanted - begin : WORLD_WAVE;
        const float *logits = gp_forward_logits(w->forward, begin, count);

        for (uint32_t i = 0; i < count; i++)
            memcpy(target[begin + i], logits + (size_t)i * vocab, vocab * sizeof *logits);
    }
}

static bool run_step(struct test_world *w, struct test_sequence *s, uint32_t count,
                     uint32_t chunk_max, struct gp_rng *rng)
{
    struct gp_segment segments[SEGMENTS_MAX];
    int32_t tokens[WORLD_ROWS_MAX];
    float *target[WORLD_ROWS_MAX];
    struct gp_batch batch = {.tokens = tokens, .segments = segments};
    uint32_t wanted = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t left = s[i].count - s[i].done;
        uint32_t rows = rng ? 1 + gp_rng_below(rng, chunk_max) : chunk_max;

        if (left == 0)
            continue;
        rows = rows < left ? rows : left;
        assert_true(rows <= WORLD_ROWS_MAX - batch.row_count);
        segments[batch.segment_count++] = segment_of(&s[i], rows);
        for (uint32_t r = 0; r < rows; r++) {
            tokens[batch.row_count++] = s[i].tokens[s[i].done + r];
            if (s[i].logits)
                target[wanted++] =
                    s[i].logits + (size_t)(s[i].done + r) * w->weights->hp.vocab_count;
        }
        s[i].done += rows;
    }
    if (batch.segment_count == 0)
        return false;
    assert_int_equal(gp_forward_run(w->forward, &batch, &w->cache), wanted);
    take_logits(w, target, wanted);
    return true;
}

void test_world_run(struct test_world *w, struct test_sequence *s, uint32_t count,
                    uint32_t chunk_max, struct gp_rng *rng)
{
    gp_mem_freeze(); /* a step allocates nothing */
    while (run_step(w, s, count, chunk_max, rng))
        ;
    gp_mem_thaw();
}

void test_tokens(int32_t *tokens, uint32_t count, uint32_t vocab, struct gp_rng *rng)
{
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = (int32_t)gp_rng_below(rng, vocab);
}
