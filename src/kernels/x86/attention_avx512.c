/* Attention over the paged cache: ref/attention_ref.c in sixteen lanes.
 *
 * As in attention_avx2.c: scores have a lane for a slot (a tile is a register), values a lane for
 * an element. */
#include "kernels/x86/simd_avx512.h"
#include "kernels/x86/x86.h"

#define QUERIES 8u
#define TILES   8u
#include "kernels/x86/attention_driver.h"

/* Eight sums hide that each waits for itself; more tiles for few queries would only be more places
 * to read from. */
GP_INLINE uint32_t tiles_together(uint32_t queries)
{
    return queries == QUERIES ? 2 : TILES / queries;
}

/* How far ahead keys and values are asked for.  A pool is read from memory, in runs of half a
 * block, the keys from several places at a time, which the processor does not foresee. */
#define PREFETCH_BYTES 2048u

/* Registers of values that are added up together; by eight queries half as many. */
#define VECTORS 4u

/* Sixteen elements from p on; the scales are read where the type has them. */
GP_INLINE __m512 load_elems(enum gp_kv_type type, __mmask16 mask, const uint8_t *p, __m512 scales)
{
    switch (type) {
    case GP_KV_F16:
        return load_f16_masked(mask, p);
    case GP_KV_BF16:
        return load_bf16_masked(mask, p);
    case GP_KV_Q8_0: /* whole blocks: the mask is full */
        return _mm512_mul_ps(load_i8x16(p), scales);
    default:
        return _mm512_maskz_loadu_ps(mask, p);
    }
}

/* Elements [i, i + 16) of a row of values. */
GP_INLINE __m512 load_values(enum gp_kv_type type, __mmask16 mask, const uint8_t *row, uint32_t i)
{
    __m512 scale = _mm512_setzero_ps();

    if (type == GP_KV_Q8_0)
        scale = broadcast_f16x16(row + gp_kv_scale_offset(1, i));
    return load_elems(type, mask, row + gp_kv_elem_offset(type, 1, i), scale);
}

/* ---- scores ---- */

/* The part of the scores that elements [begin, end) of the keys make; Q8_0: of one block. */
GP_INLINE void score_run(enum gp_kv_type type, const uint8_t *const key[TILES], uint32_t begin,
                         uint32_t end, const float *const q[QUERIES], uint32_t queries,
                         uint32_t tiles, __m512 acc[TILES][QUERIES])
{
    __m512 scales[TILES];

    GP_UNROLL
    for (uint32_t t = 0; t < tiles; t++)
        scales[t] = type == GP_KV_Q8_0
                        ? load_f16_masked(0xffff, key[t] + gp_kv_scale_offset(TILE, begin))
                        : _mm512_setzero_ps();
    for (uint32_t i = begin; i < end; i++) {
        GP_UNROLL
        for (uint32_t t = 0; t < tiles; t++) {
            const uint8_t *at = key[t] + gp_kv_elem_offset(type, TILE, i);
            const __m512 k = load_elems(type, 0xffff, at, scales[t]);

            _mm_prefetch((const char *)at + PREFETCH_BYTES, _MM_HINT_T0);
            GP_UNROLL
            for (uint32_t j = 0; j < queries; j++)
                acc[t][j] = _mm512_fmadd_ps(_mm512_set1_ps(q[j][i]), k, acc[t][j]);
        }
    }
}

GP_INLINE void score_tiles(enum gp_kv_type type, const uint8_t *const key[TILES], uint32_t k_dim,
                           const float *const q[QUERIES], uint32_t queries, uint32_t tiles,
                           float scale, float *const out[QUERIES])
{
    const uint32_t run = type == GP_KV_Q8_0 ? GP_KV_BLOCK : k_dim;
    __m512 acc[TILES][QUERIES];

    GP_UNROLL
    for (uint32_t t = 0; t < tiles; t++) {
        GP_UNROLL
        for (uint32_t j = 0; j < queries; j++)
            acc[t][j] = _mm512_setzero_ps();
    }
    for (uint32_t begin = 0; begin < k_dim; begin += run)
        score_run(type, key, begin, begin + run, q, queries, tiles, acc);
    GP_UNROLL
    for (uint32_t t = 0; t < tiles; t++) {
        GP_UNROLL
        for (uint32_t j = 0; j < queries; j++)
            _mm512_storeu_ps(out[j] + t * TILE, _mm512_mul_ps(acc[t][j], _mm512_set1_ps(scale)));
    }
}

/* ---- values ---- */

/* One slot's elements [at, ...) times the weights of queries [first, end). */
GP_INLINE void add_slot(enum gp_kv_type type, const uint8_t *row, uint32_t at, uint32_t vectors,
                        __mmask16 mask, const struct part *p, uint32_t slot, uint32_t first,
                        uint32_t end, __m512 acc[QUERIES][VECTORS])
{
    GP_UNROLL
    for (uint32_t v = 0; v < vectors; v++) {
        const __m512 value = load_values(type, mask, row, at + 16 * v);

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
    const size_t row_bytes = gp_kv_row_bytes(type, kv->v_dim);
    __m512 acc[QUERIES][VECTORS];

    GP_UNROLL
    for (uint32_t j = 0; j < queries; j++) {
        GP_UNROLL
        for (uint32_t v = 0; v < vectors; v++)
            acc[j][v] = _mm512_setzero_ps();
    }
    for (uint32_t s = 0; s < p->common;) {
        const uint8_t *row = gp_kv_values(kv, p->begin + s);
        const uint32_t in_page = kv->page_tokens - (p->begin + s) % kv->page_tokens;
        const uint32_t end = p->common - s < in_page ? p->common : s + in_page;

        for (; s < end; s++, row += row_bytes) {
            prefetch_ahead(row + gp_kv_elem_offset(type, 1, at) + PREFETCH_BYTES,
                           vectors * 16 * gp_kv_elem_bytes(type));
            add_slot(type, row, at, vectors, mask, p, s, 0, queries, acc);
        }
    }
    GP_UNROLL
    for (uint32_t j = 0; j < queries; j++) {
        for (uint32_t s = p->common; s < p->count[j]; s++)
            add_slot(type, gp_kv_values(kv, p->begin + s), at, vectors, mask, p, s, j, j + 1, acc);
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

GP_INLINE void add_split(enum gp_kv_type type, const struct gp_kv_view *kv, const struct part *p,
                         uint32_t queries)
{
    const uint32_t vectors = queries > 4 ? VECTORS / 2 : VECTORS;
    uint32_t at = 0;

    for (; at + 16 * vectors <= kv->v_dim; at += 16 * vectors)
        add_values(type, kv, p, queries, at, vectors, 0xffff);
    for (; at < kv->v_dim; at += 16)
        add_values(type, kv, p, queries, at, 1, lanes_left(kv->v_dim - at));
}

/* ---- rows ---- */

static float exp_row(float *x, uint32_t n, float *max)
{
    return gp_exp_row_avx512(x, n, max);
}

static void divide(float *x, uint32_t n, float divisor)
{
    const __m512 d = _mm512_set1_ps(divisor);

    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 mask = lanes_left(n - i);

        _mm512_mask_storeu_ps(x + i, mask, _mm512_div_ps(_mm512_maskz_loadu_ps(mask, x + i), d));
    }
}

void gp_attention_init_avx512(struct gp_kernels *k)
{
    k->attention = attention;
    k->kv_scores = kv_scores;
}
