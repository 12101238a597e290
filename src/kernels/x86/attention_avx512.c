/* Attention over the paged cache: ref/attention_ref.c in sixteen lanes.
 *
 * As in attention_avx2.c: scores have a lane for a slot (a tile is a register), values a lane for
 * an element; up to four queries share every key and value that is loaded, and a panel of sixteen
 * goes through the cache together, split by split. */
#include "kernels/ref/exp.h"
#include "kernels/x86/simd_avx512.h"
#include "kernels/x86/x86.h"

#define QUERIES GP_ATTENTION_QUERIES
#define PANEL   GP_ATTENTION_PANEL
#define TILE    GP_TILE_TOKENS

/* Registers of values that are added up together. */
#define VECTORS 4u

GP_INLINE __m512 load_elems(enum gp_kv_type type, __mmask16 mask, const uint8_t *block,
                            size_t index)
{
    switch (type) {
    case GP_KV_F16:
        return load_f16_masked(mask, block + index * 2);
    case GP_KV_BF16:
        return load_bf16_masked(mask, block + index * 2);
    default:
        return _mm512_maskz_loadu_ps(mask, block + index * 4);
    }
}

/* ---- scores ---- */

/* Scores of `queries` queries at `tiles` tiles; out[q] + 16 * tile. */
GP_INLINE void score_tiles(enum gp_kv_type type, const uint8_t *const key[8], uint32_t k_dim,
                           const float *const q[QUERIES], uint32_t queries, uint32_t tiles,
                           float scale, float *const out[QUERIES])
{
    __m512 acc[8][QUERIES];

    GP_UNROLL
    for (uint32_t t = 0; t < tiles; t++) {
        GP_UNROLL
        for (uint32_t j = 0; j < queries; j++)
            acc[t][j] = _mm512_setzero_ps();
    }
    for (size_t i = 0; i < k_dim; i++) {
        GP_UNROLL
        for (uint32_t t = 0; t < tiles; t++) {
            const __m512 k = load_elems(type, 0xffff, key[t], i * TILE);

            GP_UNROLL
            for (uint32_t j = 0; j < queries; j++)
                acc[t][j] = _mm512_fmadd_ps(_mm512_set1_ps(q[j][i]), k, acc[t][j]);
        }
    }
    GP_UNROLL
    for (uint32_t t = 0; t < tiles; t++) {
        GP_UNROLL
        for (uint32_t j = 0; j < queries; j++)
            _mm512_storeu_ps(out[j] + t * TILE, _mm512_mul_ps(acc[t][j], _mm512_set1_ps(scale)));
    }
}

/* Where the tile that begins at `slot` (a multiple of 16) has its keys. */
static const uint8_t *tile_keys(const struct gp_kv_view *kv, uint32_t slot)
{
    const size_t index = gp_kv_key_index(kv, slot % kv->page_tokens, 0);

    return gp_kv_block(kv, slot) + index * gp_kv_elem_bytes(kv->type);
}

/* Scores at whole tiles [begin, begin + 16 * tile_count). */
GP_INLINE void score_slots(enum gp_kv_type type, const struct gp_kv_view *kv,
                           const float *const q[QUERIES], uint32_t queries, uint32_t begin,
                           uint32_t tile_count, float scale, float *const out[QUERIES])
{
    const uint32_t together = queries == 1 ? 8 : queries == 2 ? 4 : 2;

    for (uint32_t t = 0; t < tile_count;) {
        const uint8_t *key[8];
        float *to[QUERIES];

        for (uint32_t j = 0; j < queries; j++)
            to[j] = out[j] + (size_t)t * TILE;
        for (uint32_t j = 0; j < 8; j++) /* past the last tile it is repeated and not used */
            key[j] = tile_keys(kv, begin + (t + j < tile_count ? t + j : tile_count - 1) * TILE);
        if (t + together <= tile_count) {
            score_tiles(type, key, kv->k_dim, q, queries, together, scale, to);
            t += together;
        } else {
            score_tiles(type, key, kv->k_dim, q, queries, 1, scale, to);
            t++;
        }
    }
}

/* ---- values ---- */

/* What a split adds to the results of some queries. */
struct part {
    uint32_t begin;               /* first slot of the split                    */
    uint32_t common;              /* slots that all of them see                 */
    uint32_t count[QUERIES];      /* slots that the query sees here             */
    const float *weight[QUERIES]; /* [count]                                    */
    float *out[QUERIES];          /* [v_dim], merged into unless it is the first split */
    float old_factor[QUERIES], new_factor[QUERIES];
};

GP_INLINE const uint8_t *slot_values(const struct gp_kv_view *kv, uint32_t slot)
{
    const size_t index = gp_kv_value_index(kv, slot % kv->page_tokens);

    return gp_kv_block(kv, slot) + index * gp_kv_elem_bytes(kv->type);
}

/* One slot's elements [at, ...) times the weights of queries [first, end). */
GP_INLINE void add_slot(enum gp_kv_type type, const uint8_t *row, uint32_t at, uint32_t vectors,
                        __mmask16 mask, const struct part *p, uint32_t slot, uint32_t first,
                        uint32_t end, __m512 acc[QUERIES][VECTORS])
{
    GP_UNROLL
    for (uint32_t v = 0; v < vectors; v++) {
        const __m512 value = load_elems(type, mask, row, at + 16 * v);

        GP_UNROLL
        for (uint32_t j = first; j < end; j++)
            acc[j][v] = _mm512_fmadd_ps(_mm512_set1_ps(p->weight[j][slot]), value, acc[j][v]);
    }
}

/* Elements [at, at + 16 * vectors) of the weighted sum of the values, cut by the mask, in slot
 * order, for all queries: together as far as they all see, then each on its own. */
GP_INLINE void add_values(enum gp_kv_type type, const struct gp_kv_view *kv, const struct part *p,
                          uint32_t queries, uint32_t at, uint32_t vectors, __mmask16 mask)
{
    const size_t row_bytes = kv->v_dim * gp_kv_elem_bytes(type);
    __m512 acc[QUERIES][VECTORS];

    GP_UNROLL
    for (uint32_t j = 0; j < queries; j++) {
        GP_UNROLL
        for (uint32_t v = 0; v < vectors; v++)
            acc[j][v] = _mm512_setzero_ps();
    }
    for (uint32_t s = 0; s < p->common;) {
        const uint8_t *row = slot_values(kv, p->begin + s);
        const uint32_t in_page = kv->page_tokens - (p->begin + s) % kv->page_tokens;
        const uint32_t end = p->common - s < in_page ? p->common : s + in_page;

        for (; s < end; s++, row += row_bytes)
            add_slot(type, row, at, vectors, mask, p, s, 0, queries, acc);
    }
    GP_UNROLL
    for (uint32_t j = 0; j < queries; j++) {
        for (uint32_t s = p->common; s < p->count[j]; s++)
            add_slot(type, slot_values(kv, p->begin + s), at, vectors, mask, p, s, j, j + 1, acc);
        if (p->count[j] == 0)
            continue;
        GP_UNROLL
        for (uint32_t v = 0; v < vectors; v++) {
            float *out = p->out[j] + at + 16 * v;

            if (p->begin > 0)
                acc[j][v] = _mm512_fmadd_ps(acc[j][v], _mm512_set1_ps(p->new_factor[j]),
                                            _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, out),
                                                          _mm512_set1_ps(p->old_factor[j])));
            _mm512_mask_storeu_ps(out, mask, acc[j][v]);
        }
    }
}

/* ---- attention ---- */

/* The queries of a panel, and what the splits so far have come to. */
struct panel {
    uint32_t count;
    const float *q[PANEL];
    float *out[PANEL];
    uint32_t visible[PANEL];
    float max[PANEL], sum[PANEL];
};

/* The weights of a query in a split, from its scores, and how they join what came before. */
static void weigh(struct panel *panel, uint32_t query, struct part *p, uint32_t j, float *weight)
{
    float *total_max = &panel->max[query], *total_sum = &panel->sum[query];
    float max, sum, new_max;

    if (p->count[j] == 0)
        return;
    sum = gp_exp_row_avx512(weight, p->count[j], &max);
    if (p->begin == 0) {
        *total_max = max;
        *total_sum = sum;
        return;
    }
    new_max = *total_max > max ? *total_max : max;
    p->old_factor[j] = exp_ref(*total_max - new_max);
    p->new_factor[j] = exp_ref(max - new_max);
    *total_sum = fmaf(sum, p->new_factor[j], *total_sum * p->old_factor[j]);
    *total_max = new_max;
}

/* One split for `queries` queries of the panel, from `first` on. */
GP_INLINE void attend_split(enum gp_kv_type type, const struct gp_kv_view *kv, struct panel *panel,
                            uint32_t first, uint32_t queries, uint32_t begin, float scale,
                            float *weights)
{
    struct part p = {.begin = begin, .common = GP_ATTENTION_SPLIT};
    float *weight[QUERIES];
    uint32_t most = 0, at = 0;

    for (uint32_t j = 0; j < queries; j++) {
        const uint32_t visible = panel->visible[first + j];
        const uint32_t left = visible > begin ? visible - begin : 0;
        const uint32_t n = left < GP_ATTENTION_SPLIT ? left : GP_ATTENTION_SPLIT;

        p.count[j] = n;
        p.weight[j] = weight[j] = weights + (size_t)j * GP_ATTENTION_SPLIT;
        p.out[j] = panel->out[first + j];
        most = n > most ? n : most;
        p.common = n < p.common ? n : p.common;
    }
    if (most == 0)
        return;
    score_slots(type, kv, panel->q + first, queries, begin, (most + TILE - 1) / TILE, scale,
                weight);
    for (uint32_t j = 0; j < queries; j++)
        weigh(panel, first + j, &p, j, weight[j]);
    for (; at + 16 * VECTORS <= kv->v_dim; at += 16 * VECTORS)
        add_values(type, kv, &p, queries, at, VECTORS, 0xffff);
    for (; at < kv->v_dim; at += 16)
        add_values(type, kv, &p, queries, at, 1, lanes_left(kv->v_dim - at));
}

static void finish(const struct panel *panel, uint32_t v_dim)
{
    for (uint32_t j = 0; j < panel->count; j++) {
        const __m512 sum = _mm512_set1_ps(panel->sum[j]);
        float *out = panel->out[j];

        for (uint32_t i = 0; i < v_dim; i += 16) {
            const __mmask16 mask = lanes_left(v_dim - i);

            _mm512_mask_storeu_ps(out + i, mask,
                                  _mm512_div_ps(_mm512_maskz_loadu_ps(mask, out + i), sum));
        }
    }
}

GP_INLINE void attend_panel(enum gp_kv_type type, const struct gp_kv_view *kv, struct panel *panel,
                            float scale, float *weights)
{
    uint32_t most = 0;

    for (uint32_t j = 0; j < panel->count; j++)
        most = panel->visible[j] > most ? panel->visible[j] : most;
    for (uint32_t begin = 0; begin < most; begin += GP_ATTENTION_SPLIT)
        for (uint32_t j = 0; j < panel->count; j += QUERIES) {
            switch (panel->count - j) {
            case 1:
                attend_split(type, kv, panel, j, 1, begin, scale, weights);
                break;
            case 2:
                attend_split(type, kv, panel, j, 2, begin, scale, weights);
                break;
            case 3:
                attend_split(type, kv, panel, j, 3, begin, scale, weights);
                break;
            default:
                attend_split(type, kv, panel, j, 4, begin, scale, weights);
                break;
            }
        }
    finish(panel, kv->v_dim);
}

static void attend_f32(const struct gp_kv_view *kv, struct panel *panel, float scale,
                       float *weights)
{
    attend_panel(GP_KV_F32, kv, panel, scale, weights);
}

static void attend_f16(const struct gp_kv_view *kv, struct panel *panel, float scale,
                       float *weights)
{
    attend_panel(GP_KV_F16, kv, panel, scale, weights);
}

static void attend_bf16(const struct gp_kv_view *kv, struct panel *panel, float scale,
                        float *weights)
{
    attend_panel(GP_KV_BF16, kv, panel, scale, weights);
}

static void attention(const struct gp_kv_view *kv, const float *q, size_t q_stride, uint32_t g,
                      uint32_t row_count, const uint32_t *visible, float scale, float *out,
                      size_t out_stride, void *scratch)
{
    const size_t query_count = (size_t)row_count * g;
    struct panel panel;

    for (size_t begin = 0; begin < query_count; begin += PANEL) {
        panel.count = query_count - begin < PANEL ? (uint32_t)(query_count - begin) : PANEL;
        for (uint32_t j = 0; j < panel.count; j++) {
            const size_t row = (begin + j) / g, head = (begin + j) % g;

            panel.q[j] = q + row * q_stride + head * kv->k_dim;
            panel.out[j] = out + row * out_stride + head * kv->v_dim;
            panel.visible[j] = visible[row];
        }
        switch (kv->type) {
        case GP_KV_F32:
            attend_f32(kv, &panel, scale, scratch);
            break;
        case GP_KV_F16:
            attend_f16(kv, &panel, scale, scratch);
            break;
        case GP_KV_BF16:
            attend_bf16(kv, &panel, scale, scratch);
            break;
        }
    }
}

/* ---- scores for policies ---- */

static void score_range(const struct gp_kv_view *kv, const float *q, uint32_t begin,
                        uint32_t tile_count, float scale, float *out)
{
    const float *const query[QUERIES] = {q};
    float *const to[QUERIES] = {out};

    switch (kv->type) {
    case GP_KV_F32:
        score_slots(GP_KV_F32, kv, query, 1, begin, tile_count, scale, to);
        break;
    case GP_KV_F16:
        score_slots(GP_KV_F16, kv, query, 1, begin, tile_count, scale, to);
        break;
    case GP_KV_BF16:
        score_slots(GP_KV_BF16, kv, query, 1, begin, tile_count, scale, to);
        break;
    }
}

static void kv_scores(const struct gp_kv_view *kv, const float *q, uint32_t begin, uint32_t end,
                      float scale, float *out)
{
    float tile[TILE];

    while (begin < end) {
        const uint32_t inside = begin % TILE, left = end - begin;
        uint32_t count = left / TILE * TILE;

        if (inside == 0 && count > 0) { /* whole tiles go straight where they belong */
            score_range(kv, q, begin, count / TILE, scale, out);
        } else {
            count = left < TILE - inside ? left : TILE - inside;
            score_range(kv, q, begin - inside, 1, scale, tile);
            memcpy(out, tile + inside, count * sizeof *out);
        }
        begin += count;
        out += count;
    }
}

void gp_attention_init_avx512(struct gp_kernels *k)
{
    k->attention = attention;
    k->kv_scores = kv_scores;
}
