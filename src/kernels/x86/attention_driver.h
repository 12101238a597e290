/* What attention does alike on every level: panels, splits, and how splits join.
 *
 * A panel of sixteen queries, heads of a group or rows of a prompt, goes through the cache
 * together, split by split, so that a split is read from memory once; up to QUERIES of them share
 * every key and value that is loaded.  A file of a level includes this once, behind its own QUERIES
 * and TILES, and defines the primitives declared here. */
#ifndef GP_KERNELS_X86_ATTENTION_DRIVER_H
#define GP_KERNELS_X86_ATTENTION_DRIVER_H

#include "kernels/ref/exp.h"
#include "kernels/x86/simd_avx2.h"

#define PANEL GP_ATTENTION_PANEL
#define TILE  GP_TILE_TOKENS

#ifndef QUERIES
#error "QUERIES, 4 or 8, says how many queries share what is loaded"
#endif
#ifndef TILES
#error "TILES says how many tiles of keys a single query meets at a time"
#endif
_Static_assert(QUERIES == 4 || QUERIES == GP_ATTENTION_QUERIES, "the switch of attend_queries");

/* What a split adds to the results of some queries. */
struct part {
    uint32_t begin;               /* first slot of the split                    */
    uint32_t common;              /* slots that all of them see                 */
    uint32_t count[QUERIES];      /* slots that the query sees here             */
    const float *weight[QUERIES]; /* [count]                                    */
    float *out[QUERIES];          /* [v_dim], merged into unless it is the first split */
    float old_factor[QUERIES], new_factor[QUERIES];
};

/* ---- what a level defines ---- */

/* How many tiles of keys `queries` queries meet at a time; at most TILES. */
GP_INLINE uint32_t tiles_together(uint32_t queries);

/* Scores of `queries` queries at `tiles` tiles; out[q] + 16 * tile. */
GP_INLINE void score_tiles(enum gp_kv_type type, const uint8_t *const key[TILES], uint32_t k_dim,
                           const float *const q[QUERIES], uint32_t queries, uint32_t tiles,
                           float scale, float *const out[QUERIES]);

/* x becomes exp(x - max); the sum in 16 lanes comes back. */
static float exp_row(float *x, uint32_t n, float *max);

/* The weighted sum of a split's values, in slot order, for all queries: together as far as they
 * all see, then each on its own; joined with `out` unless it is the first split. */
GP_INLINE void add_split(enum gp_kv_type type, const struct gp_kv_view *kv, const struct part *p,
                         uint32_t queries);

/* x becomes x / divisor. */
static void divide(float *x, uint32_t n, float divisor);

/* ---- scores ---- */

/* Scores at whole tiles [begin, begin + 16 * tile_count). */
GP_INLINE void score_slots(enum gp_kv_type type, const struct gp_kv_view *kv,
                           const float *const q[QUERIES], uint32_t queries, uint32_t begin,
                           uint32_t tile_count, float scale, float *const out[QUERIES])
{
    const uint32_t together = tiles_together(queries);

    for (uint32_t t = 0; t < tile_count;) {
        const uint8_t *key[TILES];
        float *to[QUERIES];

        for (uint32_t j = 0; j < queries; j++)
            to[j] = out[j] + (size_t)t * TILE;
        for (uint32_t j = 0; j < TILES; j++) /* past the last tile it is repeated and not used */
            key[j] = gp_kv_keys(kv, begin + (t + j < tile_count ? t + j : tile_count - 1) * TILE);
        if (t + together <= tile_count) {
            score_tiles(type, key, kv->k_dim, q, queries, together, scale, to);
            t += together;
        } else {
            score_tiles(type, key, kv->k_dim, q, queries, 1, scale, to);
            t++;
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
    sum = exp_row(weight, p->count[j], &max);
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
    uint32_t most = 0;

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
    add_split(type, kv, &p, queries);
}

/* As many of the panel's queries as go together, from `first` on; their number comes back. */
GP_INLINE uint32_t attend_queries(enum gp_kv_type type, const struct gp_kv_view *kv,
                                  struct panel *panel, uint32_t first, uint32_t begin, float scale,
                                  float *weights)
{
    const uint32_t left = panel->count - first;

    if (QUERIES == 8 && left >= 8) {
        attend_split(type, kv, panel, first, QUERIES, begin, scale, weights);
        return QUERIES;
    }
    switch (left) {
    case 1:
        attend_split(type, kv, panel, first, 1, begin, scale, weights);
        return 1;
    case 2:
        attend_split(type, kv, panel, first, 2, begin, scale, weights);
        return 2;
    case 3:
        attend_split(type, kv, panel, first, 3, begin, scale, weights);
        return 3;
    default:
        attend_split(type, kv, panel, first, 4, begin, scale, weights);
        return 4;
    }
}

GP_INLINE void attend_panel(enum gp_kv_type type, const struct gp_kv_view *kv, struct panel *panel,
                            float scale, float *weights)
{
    uint32_t most = 0;

    for (uint32_t j = 0; j < panel->count; j++)
        most = panel->visible[j] > most ? panel->visible[j] : most;
    for (uint32_t begin = 0; begin < most; begin += GP_ATTENTION_SPLIT)
        for (uint32_t j = 0; j < panel->count;)
            j += attend_queries(type, kv, panel, j, begin, scale, weights);
    for (uint32_t j = 0; j < panel->count; j++)
        divide(panel->out[j], kv->v_dim, panel->sum[j]);
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

static void attend_q8_0(const struct gp_kv_view *kv, struct panel *panel, float scale,
                        float *weights)
{
    attend_panel(GP_KV_Q8_0, kv, panel, scale, weights);
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
        case GP_KV_Q8_0:
            attend_q8_0(kv, &panel, scale, scratch);
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
    case GP_KV_Q8_0:
        score_slots(GP_KV_Q8_0, kv, query, 1, begin, tile_count, scale, to);
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

#endif
