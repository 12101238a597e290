/* Attention over the paged cache: ref/attention_ref.c in eight lanes.
 *
 * Scores have a lane for a slot (keys lie in tiles of sixteen), values a lane for an element; up
 * to four queries, heads of a group or rows of a prompt, share every key and value that is
 * loaded.  A panel of sixteen queries goes through the cache together, split by split, so that a
 * split is read from memory once. */
#include "base/assert.h"
#include "kernels/ref/exp.h"
#include "kernels/x86/simd_avx2.h"
#include "kernels/x86/x86.h"

#define QUERIES GP_ATTENTION_QUERIES
#define PANEL   GP_ATTENTION_PANEL
#define TILE    GP_TILE_TOKENS

GP_INLINE __m256 load_elems(enum gp_kv_type type, const uint8_t *block, size_t index)
{
    switch (type) {
    case GP_KV_F16:
        return load_f16(block + index * 2);
    case GP_KV_BF16:
        return load_bf16(block + index * 2);
    default:
        return _mm256_loadu_ps((const float *)(const void *)(block + index * 4));
    }
}

GP_INLINE float load_elem(enum gp_kv_type type, const uint8_t *block, size_t index)
{
    uint16_t bits;
    float value;

    if (type == GP_KV_F32) {
        memcpy(&value, block + index * 4, sizeof value);
        return value;
    }
    memcpy(&bits, block + index * 2, sizeof bits);
    return type == GP_KV_F16 ? _cvtsh_ss(bits) : gp_bf16_to_f32(bits);
}

/* ---- scores ---- */

/* Scores of `queries` queries at `tiles` tiles; out[q] + 16 * tile. */
GP_INLINE void score_tiles(enum gp_kv_type type, const uint8_t *const key[4], uint32_t k_dim,
                           const float *const q[QUERIES], uint32_t queries, uint32_t tiles,
                           float scale, float *const out[QUERIES])
{
    __m256 acc[4][QUERIES][2];

    GP_UNROLL
    for (uint32_t t = 0; t < tiles; t++) {
        GP_UNROLL
        for (uint32_t j = 0; j < queries; j++)
            acc[t][j][0] = acc[t][j][1] = _mm256_setzero_ps();
    }
    for (size_t i = 0; i < k_dim; i++) {
        GP_UNROLL
        for (uint32_t t = 0; t < tiles; t++) {
            const __m256 k0 = load_elems(type, key[t], i * TILE);
            const __m256 k1 = load_elems(type, key[t], i * TILE + 8);

            GP_UNROLL
            for (uint32_t j = 0; j < queries; j++) {
                const __m256 qi = _mm256_broadcast_ss(q[j] + i);

                acc[t][j][0] = _mm256_fmadd_ps(qi, k0, acc[t][j][0]);
                acc[t][j][1] = _mm256_fmadd_ps(qi, k1, acc[t][j][1]);
            }
        }
    }
    GP_UNROLL
    for (uint32_t t = 0; t < tiles; t++) {
        GP_UNROLL
        for (uint32_t j = 0; j < queries; j++) {
            const __m256 s = _mm256_set1_ps(scale);

            _mm256_storeu_ps(out[j] + t * TILE, _mm256_mul_ps(acc[t][j][0], s));
            _mm256_storeu_ps(out[j] + t * TILE + 8, _mm256_mul_ps(acc[t][j][1], s));
        }
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
    const uint32_t together = queries == 1 ? 4 : queries == 2 ? 2 : 1;

    for (uint32_t t = 0; t < tile_count;) {
        const uint8_t *key[4];
        float *to[QUERIES];

        for (uint32_t j = 0; j < queries; j++)
            to[j] = out[j] + (size_t)t * TILE;
        for (uint32_t j = 0; j < 4; j++) /* past the last tile it is repeated and not used */
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

/* Elements [at, at + 8 * vectors) of the weighted sum of the values, in slot order, for all
 * queries: together as far as they all see, then each on its own. */
GP_INLINE void add_values(enum gp_kv_type type, const struct gp_kv_view *kv, const struct part *p,
                          uint32_t queries, uint32_t common, uint32_t at, uint32_t vectors)
{
    const size_t row_bytes = kv->v_dim * gp_kv_elem_bytes(type);
    __m256 acc[QUERIES][2];

    GP_UNROLL
    for (uint32_t j = 0; j < queries; j++)
        acc[j][0] = acc[j][1] = _mm256_setzero_ps();
    for (uint32_t s = 0; s < common;) {
        const uint8_t *row = slot_values(kv, p->begin + s);
        const uint32_t in_page = kv->page_tokens - (p->begin + s) % kv->page_tokens;
        const uint32_t end = common - s < in_page ? common : s + in_page;

        for (; s < end; s++, row += row_bytes) {
            const __m256 v0 = load_elems(type, row, at);
            const __m256 v1 = vectors > 1 ? load_elems(type, row, at + 8) : v0;

            GP_UNROLL
            for (uint32_t j = 0; j < queries; j++) {
                const __m256 w = _mm256_broadcast_ss(p->weight[j] + s);

                acc[j][0] = _mm256_fmadd_ps(w, v0, acc[j][0]);
                if (vectors > 1)
                    acc[j][1] = _mm256_fmadd_ps(w, v1, acc[j][1]);
            }
        }
    }
    GP_UNROLL
    for (uint32_t j = 0; j < queries; j++) {
        for (uint32_t s = common; s < p->count[j]; s++) {
            const uint8_t *row = slot_values(kv, p->begin + s);
            const __m256 w = _mm256_broadcast_ss(p->weight[j] + s);

            GP_UNROLL
            for (uint32_t v = 0; v < vectors; v++)
                acc[j][v] = _mm256_fmadd_ps(w, load_elems(type, row, at + 8 * v), acc[j][v]);
        }
        if (p->count[j] == 0)
            continue;
        GP_UNROLL
        for (uint32_t v = 0; v < vectors; v++) {
            float *out = p->out[j] + at + 8 * v;

            if (p->begin > 0)
                acc[j][v] = _mm256_fmadd_ps(
                    acc[j][v], _mm256_set1_ps(p->new_factor[j]),
                    _mm256_mul_ps(_mm256_loadu_ps(out), _mm256_set1_ps(p->old_factor[j])));
            _mm256_storeu_ps(out, acc[j][v]);
        }
    }
}

/* The elements behind the last whole vector, one by one. */
GP_INLINE void add_values_tail(enum gp_kv_type type, const struct gp_kv_view *kv,
                               const struct part *p, uint32_t queries, uint32_t at)
{
    for (uint32_t j = 0; j < queries; j++)
        for (uint32_t i = at; i < kv->v_dim && p->count[j] > 0; i++) {
            float acc = 0.0f;

            for (uint32_t s = 0; s < p->count[j]; s++)
                acc = fmaf(p->weight[j][s], load_elem(type, slot_values(kv, p->begin + s), i), acc);
            if (p->begin > 0)
                acc = fmaf(acc, p->new_factor[j], p->out[j][i] * p->old_factor[j]);
            p->out[j][i] = acc;
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

/* One split for `queries` queries of the panel, from `first` on. */
GP_INLINE void attend_split(enum gp_kv_type type, const struct gp_kv_view *kv, struct panel *panel,
                            uint32_t first, uint32_t queries, uint32_t begin, float scale,
                            float *weights)
{
    struct part p = {.begin = begin};
    float *weight[QUERIES];
    uint32_t most = 0, common = GP_ATTENTION_SPLIT, at = 0;

    for (uint32_t j = 0; j < queries; j++) {
        const uint32_t visible = panel->visible[first + j];
        const uint32_t left = visible > begin ? visible - begin : 0;
        const uint32_t n = left < GP_ATTENTION_SPLIT ? left : GP_ATTENTION_SPLIT;

        p.count[j] = n;
        p.weight[j] = weight[j] = weights + (size_t)j * GP_ATTENTION_SPLIT;
        p.out[j] = panel->out[first + j];
        most = n > most ? n : most;
        common = n < common ? n : common;
    }
    if (most == 0)
        return;
    score_slots(type, kv, panel->q + first, queries, begin, (most + TILE - 1) / TILE, scale,
                weight);
    for (uint32_t j = 0; j < queries; j++) {
        float *total_max = &panel->max[first + j], *total_sum = &panel->sum[first + j];
        float max, sum, new_max;

        if (p.count[j] == 0)
            continue;
        sum = gp_exp_row_avx2(weight[j], p.count[j], &max);
        if (begin == 0) {
            *total_max = max;
            *total_sum = sum;
            continue;
        }
        new_max = *total_max > max ? *total_max : max;
        p.old_factor[j] = exp_ref(*total_max - new_max);
        p.new_factor[j] = exp_ref(max - new_max);
        *total_sum = fmaf(sum, p.new_factor[j], *total_sum * p.old_factor[j]);
        *total_max = new_max;
    }
    for (; at + 16 <= kv->v_dim; at += 16)
        add_values(type, kv, &p, queries, common, at, 2);
    for (; at + 8 <= kv->v_dim; at += 8)
        add_values(type, kv, &p, queries, common, at, 1);
    add_values_tail(type, kv, &p, queries, at);
}

static void finish(const struct panel *panel, uint32_t v_dim)
{
    for (uint32_t j = 0; j < panel->count; j++) {
        const __m256 sum = _mm256_set1_ps(panel->sum[j]);
        float *out = panel->out[j];
        uint32_t i = 0;

        for (; i + 8 <= v_dim; i += 8)
            _mm256_storeu_ps(out + i, _mm256_div_ps(_mm256_loadu_ps(out + i), sum));
        for (; i < v_dim; i++)
            out[i] /= panel->sum[j];
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

/* ---- stores ---- */

/* Eight floats rounded to bfloat16, half to even; NaN stays NaN. */
GP_INLINE __m128i round_bf16(__m256 v)
{
    const __m256i bits = _mm256_castps_si256(v), one = _mm256_set1_epi32(1);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), one);
    const __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, bias), 16);
    const __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i picked = _mm256_blendv_epi8(rounded, quiet, nan);

    return _mm_packus_epi32(_mm256_castsi256_si128(picked), _mm256_extracti128_si256(picked, 1));
}

GP_INLINE __m128i round_half(enum gp_kv_type type, __m256 v)
{
    return type == GP_KV_F16 ? _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT) : round_bf16(v);
}

GP_INLINE uint16_t round_one(enum gp_kv_type type, float v)
{
    return type == GP_KV_F16 ? gp_f32_to_f16(v) : gp_f32_to_bf16(v);
}

/* n floats rounded to 16 bits, `step` elements apart. */
GP_INLINE void store_halves(enum gp_kv_type type, uint16_t *to, size_t step, const float *x,
                            uint32_t n)
{
    uint32_t i = 0;

    for (; i + 8 <= n; i += 8) {
        const __m128i v = round_half(type, _mm256_loadu_ps(x + i));
        uint16_t eight[8];

        if (step == 1) {
            _mm_storeu_si128((__m128i *)(to + i), v);
            continue;
        }
        _mm_storeu_si128((__m128i *)eight, v);
        for (uint32_t j = 0; j < 8; j++)
            to[(i + j) * step] = eight[j];
    }
    for (; i < n; i++)
        to[i * step] = round_one(type, x[i]);
}

static void kv_store(const struct gp_kv_view *kv, uint32_t slot, const float *k, const float *v)
{
    const uint32_t in_page = slot % kv->page_tokens;
    const size_t size = gp_kv_elem_bytes(kv->type);
    uint8_t *block = gp_kv_block(kv, slot);
    uint8_t *key = block + gp_kv_key_index(kv, in_page, 0) * size;
    uint8_t *value = block + gp_kv_value_index(kv, in_page) * size;

    switch (kv->type) {
    case GP_KV_F32:
        for (uint32_t i = 0; i < kv->k_dim; i++)
            memcpy(key + (size_t)i * TILE * size, k + i, size);
        memcpy(value, v, kv->v_dim * size);
        break;
    case GP_KV_F16:
        store_halves(GP_KV_F16, (uint16_t *)(void *)key, TILE, k, kv->k_dim);
        store_halves(GP_KV_F16, (uint16_t *)(void *)value, 1, v, kv->v_dim);
        break;
    case GP_KV_BF16:
        store_halves(GP_KV_BF16, (uint16_t *)(void *)key, TILE, k, kv->k_dim);
        store_halves(GP_KV_BF16, (uint16_t *)(void *)value, 1, v, kv->v_dim);
        break;
    }
}

void gp_attention_init_avx2(struct gp_kernels *k)
{
    k->attention = attention;
    k->kv_scores = kv_scores;
    k->kv_store = kv_store;
    /* kv_move copies single elements and rows of bytes: the definition is as good as any. */
}
