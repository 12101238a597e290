/* The forward pass.
 *
 * A step is a chain of phases; a phase is one parallel loop, over rows, over groups of outputs,
 * over (segment, head) or over (block of rows, KV head).  No item of a loop reads what another
 * item of it writes, and every item's arithmetic depends on its own row and sequence alone, so
 * neither threads nor neighbours can change a result. */
#include "model/forward.h"

#include <string.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/mem.h"

/* Rows that one item of a row loop takes: fewer are not worth waking a thread for. */
#define ROW_GRAIN 4u

/* Rows that one attention call takes: enough to reuse a tile of keys, few enough to share out. */
#define ATTENTION_ROWS 16u

#define ACTIVATION_KINDS 3u
#define ALIGNMENT        64u

/* Rows of one segment that attend together. */
struct row_block {
    uint32_t segment;
    uint32_t row; /* in the batch */
    uint32_t row_count;
};

/* One product of a parallel loop over groups of GP_MATRIX_ROWS outputs. */
struct product {
    const struct gp_matrix *matrix;
    float *y; /* [row_count, n_out] */
};

#define PRODUCTS_MAX 3u

struct gp_forward {
    const struct gp_weights *weights;
    const struct gp_kernels *kernels;
    struct gp_workers *workers;
    uint32_t rows_max, segments_max, wanted_max, wave;

    /* Scratch, all in one mapping.  R is rows_max. */
    void *memory;
    size_t memory_bytes;
    float *x;         /* [R, embed] the residual stream                     */
    float *h;         /* [R, embed] a norm's result, then a block's output  */
    float *q;         /* [R, Hq * dk]                                       */
    float *k;         /* [R, Hkv * dk]                                      */
    float *v;         /* [R, Hkv * dv]                                      */
    float *attended;  /* [R, Hq * dv]                                       */
    float *gate, *up; /* [R, ffn]                                           */
    float *mixed;     /* [R, ffn]                                           */
    float *cos, *sin; /* [R, rope_dim / 2]                                  */
    uint32_t *position;
    uint32_t *visible;     /* slots that a row sees                             */
    uint32_t *segment_row; /* [segments_max] first row of each segment      */
    struct row_block *blocks;
    uint32_t *wanted_row; /* [wanted_max]                                   */
    float *wanted;        /* [wanted_max, embed] after the last norm        */
    float *logits;        /* [wave, vocab]                                  */
    uint8_t *attention_scratch;
    size_t attention_scratch_bytes; /* of one worker */
    /* The input of the products, once for every form that a weight wants it in. */
    struct gp_activations input[ACTIVATION_KINDS];

    /* The step in progress. */
    const struct gp_batch *batch;
    const struct gp_cache *cache;
    uint32_t block_count;
    uint32_t wanted_count;
    bool adds_memory; /* some segment does */
    uint32_t layer;
    uint32_t kinds; /* bit set of the forms that the next products want */
    struct product products[PRODUCTS_MAX];
    uint32_t product_count;
};

/* ---- products ---- */

static enum gp_activation kind_of(const struct gp_matrix *m)
{
    return gp_type_info(m->type)->activation;
}

static uint32_t group_count(const struct gp_matrix *m)
{
    return (m->n_out + GP_MATRIX_ROWS - 1) / GP_MATRIX_ROWS;
}

/* Say what comes next: rows x [row_count, n_in of the matrices] and the products they go into.  The
 * row loop that follows writes x and calls quantise_row() for each row. */
static void plan_products(struct gp_forward *f, const float *x, uint32_t row_count,
                          const struct product *products, uint32_t count)
{
    uint32_t n_in = products[0].matrix->n_in;

    f->kinds = 0;
    f->product_count = count;
    for (uint32_t i = 0; i < count; i++) {
        gp_assert(products[i].matrix->n_in == n_in);
        f->products[i] = products[i];
        f->kinds |= 1u << kind_of(products[i].matrix);
    }
    for (uint32_t kind = 0; kind < ACTIVATION_KINDS; kind++) {
        struct gp_activations *a = &f->input[kind];

        a->kind = (enum gp_activation)kind;
        a->k = n_in;
        a->row_count = row_count;
        a->x = x;
        a->x_stride = n_in;
    }
}

static void quantise_row(const struct gp_forward *f, uint32_t row)
{
    for (uint32_t kind = 0; kind < ACTIVATION_KINDS; kind++)
        if (f->kinds & 1u << kind)
            f->kernels->quantize(&f->input[kind], row, row + 1);
}

/* Items are groups of outputs, product after product. */
static void multiply(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct gp_forward *f = ctx;

    (void)worker;
    for (uint32_t i = 0; i < f->product_count && begin < end; i++) {
        const struct gp_matrix *m = f->products[i].matrix;
        uint32_t groups = group_count(m);

        if (begin < groups) {
            uint32_t last = end < groups ? end : groups;
            uint32_t out_end = last * GP_MATRIX_ROWS < m->n_out ? last * GP_MATRIX_ROWS : m->n_out;

            f->kernels->matmul(m, &f->input[kind_of(m)], f->products[i].y, m->n_out,
                               begin * GP_MATRIX_ROWS, out_end);
            begin = last;
        }
        begin -= groups < begin ? groups : begin;
        end -= groups < end ? groups : end;
    }
}

static void run_products(struct gp_forward *f)
{
    uint32_t groups = 0;
    uint32_t shares = gp_workers_count(f->workers) * 4; /* so that a slow worker holds up little */

    for (uint32_t i = 0; i < f->product_count; i++)
        groups += group_count(f->products[i].matrix);
    gp_workers_run(f->workers, groups, (groups + shares - 1) / shares, multiply, f);
}

static void run_rows(struct gp_forward *f, uint32_t row_count, gp_work_fn *fn)
{
    gp_workers_run(f->workers, row_count, ROW_GRAIN, fn, f);
}

/* ---- phases over rows ---- */

static void start_rows(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    struct gp_forward *f = ctx;
    const struct gp_weights *w = f->weights;
    size_t pairs = w->hp.rope_dim / 2;

    (void)worker;
    for (uint32_t r = begin; r < end; r++) {
        gp_matrix_row(&w->embed, (uint32_t)f->batch->tokens[r], f->x + (size_t)r * w->hp.embed_dim);
        gp_rope_angles(f->position[r], w->inv_freq, w->hp.rope_dim / 2, w->hp.rope_scale,
                       f->cos + r * pairs, f->sin + r * pairs);
    }
}

/* The last layer's output joins the residual; the norm before attention. */
static void enter_attention(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    struct gp_forward *f = ctx;
    const struct gp_hparams *hp = &f->weights->hp;

    (void)worker;
    for (uint32_t r = begin; r < end; r++) {
        float *x = f->x + (size_t)r * hp->embed_dim;
        float *h = f->h + (size_t)r * hp->embed_dim;

        if (f->layer > 0)
            f->kernels->add(x, h, hp->embed_dim);
        f->kernels->rms_norm(h, x, f->weights->layers[f->layer].attn_norm, hp->embed_dim,
                             hp->rms_eps);
        quantise_row(f, r);
    }
}

static void quantise_rows(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    (void)worker;
    for (uint32_t r = begin; r < end; r++)
        quantise_row(ctx, r);
}

/* Attention's output joins the residual; the norm before the feed-forward block. */
static void enter_ffn(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    struct gp_forward *f = ctx;
    const struct gp_hparams *hp = &f->weights->hp;
    const struct gp_layer *layer = &f->weights->layers[f->layer];

    (void)worker;
    for (uint32_t r = begin; r < end; r++) {
        float *x = f->x + (size_t)r * hp->embed_dim;
        float *h = f->h + (size_t)r * hp->embed_dim;

        if (layer->out_bias)
            f->kernels->add(h, layer->out_bias, hp->embed_dim);
        f->kernels->add(x, h, hp->embed_dim);
        f->kernels->rms_norm(h, x, layer->ffn_norm, hp->embed_dim, hp->rms_eps);
        quantise_row(f, r);
    }
}

static void mix_ffn(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    struct gp_forward *f = ctx;
    uint32_t n = f->weights->hp.ffn_dim;

    (void)worker;
    for (uint32_t r = begin; r < end; r++) {
        size_t at = (size_t)r * n;

        f->kernels->silu_mul(f->mixed + at, f->gate + at, f->up + at, n);
        quantise_row(f, r);
    }
}

/* Items are wanted rows. */
static void finish_rows(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    struct gp_forward *f = ctx;
    const struct gp_hparams *hp = &f->weights->hp;

    (void)worker;
    for (uint32_t i = begin; i < end; i++) {
        size_t at = (size_t)f->wanted_row[i] * hp->embed_dim;

        f->kernels->add(f->x + at, f->h + at, hp->embed_dim);
        f->kernels->rms_norm(f->wanted + (size_t)i * hp->embed_dim, f->x + at,
                             f->weights->output_norm, hp->embed_dim, hp->rms_eps);
    }
}

/* ---- heads ---- */

struct gp_kv_view gp_cache_view(const struct gp_cache *cache, const struct gp_hparams *hp,
                                const uint32_t *pages, uint32_t layer, uint32_t head)
{
    return (struct gp_kv_view){
        .base = cache->pool,
        .page_bytes = cache->page_bytes,
        .block_offset = ((size_t)layer * hp->kv_head_count + head) * cache->block_bytes,
        .pages = pages,
        .page_tokens = cache->page_tokens,
        .k_dim = hp->key_dim,
        .v_dim = hp->value_dim,
        .type = cache->type,
    };
}

/* Query summaries (spec.md section 2) of one head, from row `row` of the segment: q is after the
 * query norm and before RoPE. */
static void update_summaries(const struct gp_forward *f, const struct gp_segment *s, uint32_t head,
                             uint32_t row, const float *q)
{
    const struct gp_hparams *hp = &f->weights->hp;
    const struct gp_cache *cache = f->cache;
    size_t slot = (size_t)f->layer * cache->summary_slots + s->summary_slot;
    size_t vector = (size_t)hp->head_count * hp->key_dim;
    float *brief = cache->summaries + slot * 2 * vector + (size_t)head * hp->key_dim;
    float *lasting = brief + vector;

    bool fresh = s->summary_fresh && row == s->generated_from;

    if (fresh && !s->summary_zero) {
        memcpy(brief, q, hp->key_dim * sizeof *q);
        memcpy(lasting, q, hp->key_dim * sizeof *q);
    } else {
        if (fresh) {
            memset(brief, 0, hp->key_dim * sizeof *q);
            memset(lasting, 0, hp->key_dim * sizeof *q);
        }
        f->kernels->ema(brief, q, hp->key_dim, s->beta_short);
        f->kernels->ema(lasting, q, hp->key_dim, s->beta_long);
    }
    if (row == s->row_count - 1)
        cache->query_rms[slot * hp->head_count + head] = f->kernels->rms(q, hp->key_dim);
}

/* The window's row for row i of the segment: all heads of one layer. */
static float *window_query(const struct gp_forward *f, const struct gp_segment *s, uint32_t i)
{
    const struct gp_hparams *hp = &f->weights->hp;
    const struct gp_cache *cache = f->cache;
    size_t slot = (size_t)f->layer * cache->summary_slots + s->query_slot;
    size_t row = slot * cache->window_rows + (s->pos_begin + i) % cache->window_rows;

    return cache->windows + row * hp->head_count * hp->key_dim;
}

static void finish_query_head(const struct gp_forward *f, const struct gp_segment *s,
                              uint32_t first_row, uint32_t head)
{
    const struct gp_hparams *hp = &f->weights->hp;
    const struct gp_layer *layer = &f->weights->layers[f->layer];
    size_t stride = (size_t)hp->head_count * hp->key_dim, at = (size_t)head * hp->key_dim;
    size_t pairs = hp->rope_dim / 2;

    for (uint32_t i = 0; i < s->row_count; i++) {
        size_t r = first_row + i;
        float *q = f->q + r * stride + at;

        if (layer->q_bias)
            f->kernels->add(q, layer->q_bias + at, hp->key_dim);
        if (layer->q_norm)
            f->kernels->rms_norm(q, q, layer->q_norm, hp->key_dim, hp->rms_eps);
        if (s->summary_slot != GP_NO_SUMMARY && i >= s->generated_from)
            update_summaries(f, s, head, i, q);
        f->kernels->rope(q, f->cos + r * pairs, f->sin + r * pairs, hp->rope_dim, hp->rope_neox);
        if (s->keep_queries && s->row_count - i <= f->cache->window_rows)
            memcpy(window_query(f, s, i) + at, q, hp->key_dim * sizeof *q);
    }
}

/* Each row's own, for every slot that it writes. */
static void note_positions(const struct gp_forward *f, const struct gp_segment *s, uint32_t head)
{
    const struct gp_hparams *hp = &f->weights->hp;
    uint32_t b = f->cache->page_tokens;

    for (uint32_t i = s->store_from; i < s->row_count; i++) {
        uint32_t slot = s->slot_begin + i;
        size_t word = gp_cache_word(f->cache, hp, s->pages[slot / b], f->layer, head) + slot % b;

        f->cache->positions[word] = s->pos_begin + i;
    }
}

static void finish_kv_head(const struct gp_forward *f, const struct gp_segment *s,
                           uint32_t first_row, uint32_t head)
{
    const struct gp_hparams *hp = &f->weights->hp;
    const struct gp_layer *layer = &f->weights->layers[f->layer];
    struct gp_kv_view view = gp_cache_view(f->cache, hp, s->pages, f->layer, head);
    size_t k_stride = (size_t)hp->kv_head_count * hp->key_dim, k_at = (size_t)head * hp->key_dim;
    size_t v_stride = (size_t)hp->kv_head_count * hp->value_dim;
    size_t v_at = (size_t)head * hp->value_dim;
    size_t pairs = hp->rope_dim / 2;

    for (uint32_t i = s->store_from; i < s->row_count; i++) {
        size_t r = first_row + i;
        float *k = f->k + r * k_stride + k_at;
        float *v = f->v + r * v_stride + v_at;

        if (layer->k_bias)
            f->kernels->add(k, layer->k_bias + k_at, hp->key_dim);
        if (layer->k_norm)
            f->kernels->rms_norm(k, k, layer->k_norm, hp->key_dim, hp->rms_eps);
        if (!s->cache_positions)
            f->kernels->rope(k, f->cos + r * pairs, f->sin + r * pairs, hp->rope_dim,
                             hp->rope_neox);
        if (layer->v_bias)
            f->kernels->add(v, layer->v_bias + v_at, hp->value_dim);
        f->kernels->kv_store(&view, s->slot_begin + i, k, v);
    }
    /* Whoever hits this page later may need them. */
    if (f->cache->positions)
        note_positions(f, s, head);
}

/* Items are heads, query heads before KV heads, segment after segment.  A head's rows are one
 * item, so that summaries see them in order. */
static void finish_heads(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct gp_forward *f = ctx;
    const struct gp_hparams *hp = &f->weights->hp;
    uint32_t heads = hp->head_count + hp->kv_head_count;

    (void)worker;
    for (uint32_t i = begin; i < end; i++) {
        const struct gp_segment *s = &f->batch->segments[i / heads];
        uint32_t first_row = f->segment_row[i / heads], head = i % heads;

        if (head < hp->head_count)
            finish_query_head(f, s, first_row, head);
        else
            finish_kv_head(f, s, first_row, head - hp->head_count);
    }
}

/* A head's cache with its keys rotated by their places: `slots` of them, in slot order.  A token
 * behind the sinks has moved up by as many places as were dropped before it. */
static struct gp_kv_view rotate_cache(const struct gp_forward *f, const struct gp_segment *s,
                                      const struct gp_kv_view *view, uint32_t head, uint32_t slots,
                                      uint32_t worker)
{
    const struct gp_hparams *hp = &f->weights->hp;
    const struct gp_cache *cache = f->cache;
    size_t pairs = hp->rope_dim / 2;
    uint32_t b = cache->page_tokens, dropped = s->pos_begin - s->slot_begin;
    float key[GP_LIMIT_HEAD_DIM], value[GP_LIMIT_HEAD_DIM];
    struct gp_kv_view out = {
        .base = cache->rotated + worker * cache->rotated_bytes,
        .page_bytes = cache->rotated_block_bytes,
        .pages = cache->rotated_pages,
        .page_tokens = b,
        .k_dim = view->k_dim,
        .v_dim = view->v_dim,
        .type = GP_KV_F32,
    };

    gp_assert(slots <= cache->slots_max);
    for (uint32_t slot = 0; slot < slots; slot++) {
        uint32_t place = slot;

        if (s->positions) {
            place = cache->positions[gp_cache_word(cache, hp, s->pages[slot / b], f->layer, head) +
                                     slot % b];
            place -= place < s->sinks ? 0 : dropped;
        }
        gp_assert(place < cache->slots_max);
        f->kernels->kv_load(view, slot, key, value);
        f->kernels->rope(key, cache->place_cos + place * pairs, cache->place_sin + place * pairs,
                         hp->rope_dim, hp->rope_neox);
        f->kernels->kv_store(&out, slot, key, value);
    }
    return out;
}

/* Items are KV heads of row blocks. */
static void attend(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct gp_forward *f = ctx;
    const struct gp_hparams *hp = &f->weights->hp;
    uint32_t g = hp->head_count / hp->kv_head_count;
    size_t q_stride = (size_t)hp->head_count * hp->key_dim;
    size_t out_stride = (size_t)hp->head_count * hp->value_dim;

    for (uint32_t i = begin; i < end; i++) {
        const struct row_block *b = &f->blocks[i / hp->kv_head_count];
        uint32_t head = i % hp->kv_head_count;
        const struct gp_segment *s = &f->batch->segments[b->segment];
        struct gp_kv_view view = gp_cache_view(f->cache, hp, s->pages, f->layer, head);

        if (s->cache_positions)
            view = rotate_cache(f, s, &view, head, f->visible[b->row + b->row_count - 1], worker);
        f->kernels->attention(&view, f->q + b->row * q_stride + (size_t)head * g * hp->key_dim,
                              q_stride, g, b->row_count, f->visible + b->row, hp->attention_scale,
                              f->attended + b->row * out_stride + (size_t)head * g * hp->value_dim,
                              out_stride,
                              f->attention_scratch + worker * f->attention_scratch_bytes);
    }
}

/* Items are KV heads of segments: every row adds its weights to the memory of the slots it sees,
 * in the order of rows, whatever chunks they come in. */
static void add_memory(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct gp_forward *f = ctx;
    const struct gp_hparams *hp = &f->weights->hp;
    const struct gp_cache *cache = f->cache;
    uint32_t g = hp->head_count / hp->kv_head_count, b = cache->page_tokens;
    float *weights = cache->row_work + (size_t)worker * 2 * cache->slots_max;

    for (uint32_t i = begin; i < end; i++) {
        const struct gp_segment *s = &f->batch->segments[i / hp->kv_head_count];
        uint32_t head = i % hp->kv_head_count, first = f->segment_row[i / hp->kv_head_count];
        struct gp_kv_view view = gp_cache_view(cache, hp, s->pages, f->layer, head);
        struct gp_score_input in = {.kv = &view, .group = g, .scale = hp->attention_scale};

        for (uint32_t r = first; s->add_memory && r < first + s->row_count; r++) {
            const float *q = f->q + ((size_t)r * hp->head_count + (size_t)head * g) * hp->key_dim;

            in.slots = f->visible[r];
            gp_assert(in.slots <= cache->slots_max);
            gp_score_row(f->kernels, s->join, &in, q, in.slots, weights,
                         weights + cache->slots_max);
            for (uint32_t at = 0; at < in.slots; at += b) {
                uint32_t left = in.slots - at;
                float *memory =
                    cache->memory + gp_cache_word(cache, hp, s->pages[at / b], f->layer, head);

                if (left <= b)
                    memory[left - 1] = 0.0f; /* the row's own slot */
                f->kernels->add(memory, weights + at, left < b ? left : b);
            }
        }
    }
}

/* ---- a step ---- */

static void check_batch(const struct gp_forward *f, const struct gp_batch *b,
                        const struct gp_cache *c)
{
    const struct gp_hparams *hp = &f->weights->hp;

    gp_assert(b->row_count <= f->rows_max);
    gp_assert(b->segment_count <= f->segments_max);
    gp_assert(c->block_bytes ==
              gp_kv_block_bytes(c->type, c->page_tokens, hp->key_dim, hp->value_dim));
    gp_assert(c->page_bytes == c->block_bytes * hp->layer_count * hp->kv_head_count);
    for (uint32_t r = 0; r < b->row_count; r++)
        gp_assert(b->tokens[r] >= 0 && (uint32_t)b->tokens[r] < hp->vocab_count);
}

/* What every row needs to know, laid out once for all layers. */
static void lay_out(struct gp_forward *f, const struct gp_batch *b)
{
    uint32_t row = 0;

    f->block_count = 0;
    f->wanted_count = 0;
    f->adds_memory = false;
    for (uint32_t i = 0; i < b->segment_count; i++) {
        const struct gp_segment *s = &b->segments[i];

        gp_assert(s->row_count >= 1 && s->row_count <= b->row_count - row);
        gp_assert(!s->keep_queries ||
                  (f->cache->windows && s->query_slot < f->cache->summary_slots));
        gp_assert(!s->add_memory || (f->cache->memory && f->cache->row_work));
        gp_assert(!s->positions || f->cache->positions);
        gp_assert(!s->cache_positions || f->cache->rotated);
        f->adds_memory = f->adds_memory || s->add_memory;
        gp_assert(s->summary_slot == GP_NO_SUMMARY || (s->summary_slot < f->cache->summary_slots &&
                                                       f->cache->summaries && f->cache->query_rms));
        f->segment_row[i] = row;
        for (uint32_t r = 0; r < s->row_count; r++) {
            f->position[row + r] = (s->cache_positions ? s->slot_begin : s->pos_begin) + r;
            f->visible[row + r] = s->slot_begin + r + 1;
            if (r >= s->logits_from) {
                gp_assert(f->wanted_count < f->wanted_max);
                f->wanted_row[f->wanted_count++] = row + r;
            }
        }
        for (uint32_t r = 0; r < s->row_count; r += ATTENTION_ROWS) {
            uint32_t left = s->row_count - r;

            f->blocks[f->block_count++] = (struct row_block){
                .segment = i,
                .row = row + r,
                .row_count = left < ATTENTION_ROWS ? left : ATTENTION_ROWS,
            };
        }
        row += s->row_count;
    }
    gp_assert(row == b->row_count);
}

static void run_layer(struct gp_forward *f)
{
    const struct gp_hparams *hp = &f->weights->hp;
    const struct gp_layer *layer = &f->weights->layers[f->layer];
    uint32_t rows = f->batch->row_count;
    struct product qkv[] = {{&layer->q, f->q}, {&layer->k, f->k}, {&layer->v, f->v}};
    struct product out[] = {{&layer->out, f->h}};
    struct product ffn[] = {{&layer->gate, f->gate}, {&layer->up, f->up}};
    struct product down[] = {{&layer->down, f->h}};

    plan_products(f, f->h, rows, qkv, 3);
    run_rows(f, rows, enter_attention);
    run_products(f);
    gp_workers_run(f->workers, f->batch->segment_count * (hp->head_count + hp->kv_head_count), 2,
                   finish_heads, f);
    gp_workers_run(f->workers, f->block_count * hp->kv_head_count, 1, attend, f);
    if (f->adds_memory)
        gp_workers_run(f->workers, f->batch->segment_count * hp->kv_head_count, 1, add_memory, f);

    plan_products(f, f->attended, rows, out, 1);
    run_rows(f, rows, quantise_rows);
    run_products(f);

    plan_products(f, f->h, rows, ffn, 2);
    run_rows(f, rows, enter_ffn);
    run_products(f);

    plan_products(f, f->mixed, rows, down, 1);
    run_rows(f, rows, mix_ffn);
    run_products(f);
}

uint32_t gp_forward_run(struct gp_forward *f, const struct gp_batch *batch,
                        const struct gp_cache *cache)
{
    f->batch = batch;
    f->cache = cache;
    check_batch(f, batch, cache);
    lay_out(f, batch);
    run_rows(f, batch->row_count, start_rows);
    for (f->layer = 0; f->layer < f->weights->hp.layer_count; f->layer++)
        run_layer(f);
    run_rows(f, f->wanted_count, finish_rows);
    f->batch = NULL;
    f->cache = NULL;
    return f->wanted_count;
}

float *gp_forward_logits(struct gp_forward *f, uint32_t begin, uint32_t count)
{
    struct product output[] = {{&f->weights->output, f->logits}};

    gp_assert(count <= f->wave && begin <= f->wanted_count && count <= f->wanted_count - begin);
    if (count == 0)
        return f->logits;
    plan_products(f, f->wanted + (size_t)begin * f->weights->hp.embed_dim, count, output, 1);
    run_rows(f, count, quantise_rows);
    run_products(f);
    return f->logits;
}

/* ---- open and close ---- */

/* The next array of the mapping, or only its place in the sum while there is no mapping yet. */
static void *carve(struct gp_forward *f, size_t *at, size_t count, size_t size)
{
    void *block = f->memory ? (char *)f->memory + *at : NULL;

    *at += (count * size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return block;
}

/* The widest input in the form `kind` that any product reads; 0: none reads it. */
static size_t input_width(const struct gp_weights *w, enum gp_activation kind)
{
    size_t width = kind_of(&w->output) == kind ? w->output.n_in : 0;

    for (uint32_t i = 0; i < w->hp.layer_count; i++) {
        const struct gp_layer *l = &w->layers[i];
        const struct gp_matrix *all[] = {&l->q, &l->k, &l->v, &l->out, &l->gate, &l->up, &l->down};

        for (size_t m = 0; m < sizeof all / sizeof *all; m++)
            if (kind_of(all[m]) == kind && all[m]->n_in > width)
                width = all[m]->n_in;
    }
    return width;
}

/* Returns the bytes in all.  Every count is bounded by base/limits.h, so no product can
 * overflow. */
static size_t carve_all(struct gp_forward *f)
{
    const struct gp_hparams *hp = &f->weights->hp;
    size_t rows = f->rows_max, at = 0;
    size_t input_rows = f->wave > f->rows_max ? f->wave : f->rows_max;

    f->x = carve(f, &at, rows * hp->embed_dim, sizeof *f->x);
    f->h = carve(f, &at, rows * hp->embed_dim, sizeof *f->h);
    f->q = carve(f, &at, rows * hp->head_count * hp->key_dim, sizeof *f->q);
    f->k = carve(f, &at, rows * hp->kv_head_count * hp->key_dim, sizeof *f->k);
    f->v = carve(f, &at, rows * hp->kv_head_count * hp->value_dim, sizeof *f->v);
    f->attended = carve(f, &at, rows * hp->head_count * hp->value_dim, sizeof *f->attended);
    f->gate = carve(f, &at, rows * hp->ffn_dim, sizeof *f->gate);
    f->up = carve(f, &at, rows * hp->ffn_dim, sizeof *f->up);
    f->mixed = carve(f, &at, rows * hp->ffn_dim, sizeof *f->mixed);
    f->cos = carve(f, &at, rows * (hp->rope_dim / 2), sizeof *f->cos);
    f->sin = carve(f, &at, rows * (hp->rope_dim / 2), sizeof *f->sin);
    f->position = carve(f, &at, rows, sizeof *f->position);
    f->visible = carve(f, &at, rows, sizeof *f->visible);
    f->segment_row = carve(f, &at, f->segments_max, sizeof *f->segment_row);
    f->blocks = carve(f, &at, rows, sizeof *f->blocks); /* every block has a row */
    f->wanted_row = carve(f, &at, f->wanted_max, sizeof *f->wanted_row);
    f->wanted = carve(f, &at, (size_t)f->wanted_max * hp->embed_dim, sizeof *f->wanted);
    f->logits = carve(f, &at, (size_t)f->wave * hp->vocab_count, sizeof *f->logits);
    f->attention_scratch_bytes =
        gp_attention_scratch_bytes(hp->head_count / hp->kv_head_count, hp->value_dim);
    f->attention_scratch_bytes =
        (f->attention_scratch_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    f->attention_scratch = carve(f, &at, gp_workers_count(f->workers), f->attention_scratch_bytes);
    for (uint32_t kind = GP_ACTIVATION_Q8; kind < ACTIVATION_KINDS; kind++) {
        struct gp_activations *a = &f->input[kind];
        size_t width = input_width(f->weights, (enum gp_activation)kind);

        a->q = carve(f, &at, input_rows * width, sizeof *a->q);
        a->scale = carve(f, &at, input_rows * (width / 32), sizeof *a->scale);
        a->sum = carve(f, &at, input_rows * (width / 32), sizeof *a->sum);
    }
    return at;
}

int gp_forward_open(struct gp_forward **out, const struct gp_weights *weights,
                    const struct gp_kernels *kernels, struct gp_workers *workers, uint32_t rows_max,
                    uint32_t segments_max, uint32_t wanted_max, uint32_t wave, struct gp_error *err)
{
    if (rows_max < 1 || rows_max > GP_LIMIT_BATCH_TOKENS)
        return gp_fail(err, GP_EINVAL, "rows of a batch: %u; 1 to %u", rows_max,
                       GP_LIMIT_BATCH_TOKENS);
    if (segments_max < 1 || segments_max > GP_LIMIT_BATCH_TOKENS ||
        wanted_max > GP_LIMIT_BATCH_TOKENS || wave < 1 || wave > GP_LIMIT_BATCH_TOKENS)
        return gp_fail(err, GP_EINVAL,
                       "a batch of %u segments, %u logits in waves of %u; at most %u", segments_max,
                       wanted_max, wave, GP_LIMIT_BATCH_TOKENS);
    struct gp_forward *f = gp_mem_alloc(sizeof *f);

    if (!f)
        return gp_fail(err, GP_ENOMEM, "forward pass: out of memory");
    f->weights = weights;
    f->kernels = kernels;
    f->workers = workers;
    f->rows_max = rows_max;
    f->segments_max = segments_max;
    f->wanted_max = wanted_max;
    f->wave = wave;
    f->memory_bytes = carve_all(f);
    f->memory = gp_mem_map(f->memory_bytes);
    if (!f->memory) {
        size_t mib = f->memory_bytes >> 20;

        gp_forward_close(f);
        return gp_fail(err, GP_ENOMEM, "forward pass: no memory for %zu MiB", mib);
    }
    carve_all(f);
    *out = f;
    return GP_OK;
}

void gp_forward_close(struct gp_forward *forward)
{
    if (!forward)
        return;
    gp_mem_unmap(forward->memory, forward->memory_bytes);
    gp_mem_free(forward);
}

uint64_t gp_forward_bytes(const struct gp_forward *forward)
{
    return sizeof *forward + forward->memory_bytes;
}
