/* Attention over the paged cache: ref/attention_ref.c in eight lanes.
 *
 * Scores have a lane for a slot (keys lie in tiles of sixteen), values a lane for an element. */
#include "kernels/x86/simd_avx2.h"
#include "kernels/x86/x86.h"

#define QUERIES 4u
#define TILES   4u
#include "kernels/x86/attention_driver.h"

GP_INLINE uint32_t tiles_together(uint32_t queries)
{
    return TILES / queries;
}

/* Eight elements from p on; the scales are read where the type has them. */
GP_INLINE __m256 load_elems(enum gp_kv_type type, const uint8_t *p, __m256 scales)
{
    switch (type) {
    case GP_KV_F16:
        return load_f16(p);
    case GP_KV_BF16:
        return load_bf16(p);
    case GP_KV_Q8_0:
        return _mm256_mul_ps(load_i8(p), scales);
    default:
        return _mm256_loadu_ps((const float *)(const void *)p);
    }
}

/* Elements [i, i + 8) of a row of values. */
GP_INLINE __m256 load_values(enum gp_kv_type type, const uint8_t *row, uint32_t i)
{
    __m256 scale = _mm256_setzero_ps();

    if (type == GP_KV_Q8_0)
        scale = broadcast_f16(row + gp_kv_scale_offset(1, i));
    return load_elems(type, row + gp_kv_elem_offset(type, 1, i), scale);
}

/* Element i of a row of values; not of Q8_0, whose rows leave no tail. */
GP_INLINE float load_value(enum gp_kv_type type, const uint8_t *row, uint32_t i)
{
    const uint8_t *p = row + gp_kv_elem_offset(type, 1, i);
    uint16_t bits;
    float value;

    if (type == GP_KV_F32) {
        memcpy(&value, p, sizeof value);
        return value;
    }
    memcpy(&bits, p, sizeof bits);
    return type == GP_KV_F16 ? _cvtsh_ss(bits) : gp_bf16_to_f32(bits);
}

/* ---- scores ---- */

/* The part of the scores that elements [begin, end) of the keys make; Q8_0: of one block. */
GP_INLINE void score_run(enum gp_kv_type type, const uint8_t *const key[TILES], uint32_t begin,
                         uint32_t end, const float *const q[QUERIES], uint32_t queries,
                         uint32_t tiles, __m256 acc[TILES][QUERIES][2])
{
    const size_t half = 8 * gp_kv_elem_bytes(type);
    __m256 scales[TILES][2];

    GP_UNROLL
    for (uint32_t t = 0; t < tiles; t++) {
        const uint8_t *p = key[t] + gp_kv_scale_offset(TILE, begin);

        scales[t][0] = type == GP_KV_Q8_0 ? load_f16(p) : _mm256_setzero_ps();
        scales[t][1] = type == GP_KV_Q8_0 ? load_f16(p + 16) : _mm256_setzero_ps();
    }
    for (uint32_t i = begin; i < end; i++) {
        GP_UNROLL
        for (uint32_t t = 0; t < tiles; t++) {
            const uint8_t *p = key[t] + gp_kv_elem_offset(type, TILE, i);
            const __m256 k0 = load_elems(type, p, scales[t][0]);
            const __m256 k1 = load_elems(type, p + half, scales[t][1]);

            GP_UNROLL
            for (uint32_t j = 0; j < queries; j++) {
                const __m256 qi = _mm256_broadcast_ss(q[j] + i);

                acc[t][j][0] = _mm256_fmadd_ps(qi, k0, acc[t][j][0]);
                acc[t][j][1] = _mm256_fmadd_ps(qi, k1, acc[t][j][1]);
            }
        }
    }
}

GP_INLINE void score_tiles(enum gp_kv_type type, const uint8_t *const key[TILES], uint32_t k_dim,
                           const float *const q[QUERIES], uint32_t queries, uint32_t tiles,
                           float scale, float *const out[QUERIES])
{
    const uint32_t run = type == GP_KV_Q8_0 ? GP_KV_BLOCK : k_dim;
    __m256 acc[TILES][QUERIES][2];

    GP_UNROLL
    for (uint32_t t = 0; t < tiles; t++) {
        GP_UNROLL
        for (uint32_t j = 0; j < queries; j++)
            acc[t][j][0] = acc[t][j][1] = _mm256_setzero_ps();
    }
    for (uint32_t begin = 0; begin < k_dim; begin += run)
        score_run(type, key, begin, begin + run, q, queries, tiles, acc);
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

/* ---- values ---- */

/* Elements [at, at + 8 * vectors) of the weighted sum of the values, in slot order, for all
 * queries: together as far as they all see, then each on its own. */
GP_INLINE void add_values(enum gp_kv_type type, const struct gp_kv_view *kv, const struct part *p,
                          uint32_t queries, uint32_t at, uint32_t vectors)
{
    const uint32_t common = p->common;
    const size_t row_bytes = gp_kv_row_bytes(type, kv->v_dim);
    __m256 acc[QUERIES][2];

    GP_UNROLL
    for (uint32_t j = 0; j < queries; j++)
        acc[j][0] = acc[j][1] = _mm256_setzero_ps();
    for (uint32_t s = 0; s < common;) {
        const uint8_t *row = gp_kv_values(kv, p->begin + s);
        const uint32_t in_page = kv->page_tokens - (p->begin + s) % kv->page_tokens;
        const uint32_t end = common - s < in_page ? common : s + in_page;

        for (; s < end; s++, row += row_bytes) {
            const __m256 v0 = load_values(type, row, at);
            const __m256 v1 = vectors > 1 ? load_values(type, row, at + 8) : v0;

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
            const uint8_t *row = gp_kv_values(kv, p->begin + s);
            const __m256 w = _mm256_broadcast_ss(p->weight[j] + s);

            GP_UNROLL
            for (uint32_t v = 0; v < vectors; v++)
                acc[j][v] = _mm256_fmadd_ps(w, load_values(type, row, at + 8 * v), acc[j][v]);
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
                acc =
                    fmaf(p->weight[j][s], load_value(type, gp_kv_values(kv, p->begin + s), i), acc);
            if (p->begin > 0)
                acc = fmaf(acc, p->new_factor[j], p->out[j][i] * p->old_factor[j]);
            p->out[j][i] = acc;
        }
}

GP_INLINE void add_split(enum gp_kv_type type, const struct gp_kv_view *kv, const struct part *p,
                         uint32_t queries)
{
    uint32_t at = 0;

    for (; at + 16 <= kv->v_dim; at += 16)
        add_values(type, kv, p, queries, at, 2);
    for (; at + 8 <= kv->v_dim; at += 8)
        add_values(type, kv, p, queries, at, 1);
    add_values_tail(type, kv, p, queries, at);
}

/* ---- rows ---- */

static float exp_row(float *x, uint32_t n, float *max)
{
    return gp_exp_row_avx2(x, n, max);
}

static void divide(float *x, uint32_t n, float divisor)
{
    const __m256 d = _mm256_set1_ps(divisor);
    uint32_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(x + i, _mm256_div_ps(_mm256_loadu_ps(x + i), d));
    for (; i < n; i++)
        x[i] /= divisor;
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

/* n floats as blocks of codes into lane `lane` of a tile. */
GP_INLINE void store_blocks(uint8_t *tile, uint32_t lanes, uint32_t lane, const float *x,
                            uint32_t n)
{
    for (uint32_t i = 0; i < n; i += GP_KV_BLOCK) {
        uint8_t *to = tile + gp_kv_elem_offset(GP_KV_Q8_0, lanes, i) + lane;
        int8_t code[GP_KV_BLOCK];
        const uint16_t scale = gp_quantize_half_avx2(x + i, code);

        memcpy(tile + gp_kv_scale_offset(lanes, i) + lane * sizeof scale, &scale, sizeof scale);
        for (uint32_t j = 0; j < GP_KV_BLOCK; j++)
            to[(size_t)j * lanes] = (uint8_t)code[j];
    }
}

static void kv_store(const struct gp_kv_view *kv, uint32_t slot, const float *k, const float *v)
{
    const size_t size = gp_kv_elem_bytes(kv->type);
    const uint32_t lane = slot % TILE;
    uint8_t *tile = gp_kv_keys(kv, slot), *key = tile + lane * size;
    uint8_t *value = gp_kv_values(kv, slot);

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
    case GP_KV_Q8_0:
        store_blocks(tile, TILE, lane, k, kv->k_dim);
        store_blocks(value, 1, 0, v, kv->v_dim);
        break;
    }
}

void gp_attention_init_avx2(struct gp_kernels *k)
{
    k->attention = attention;
    k->kv_scores = kv_scores;
    k->kv_store = kv_store;
}
