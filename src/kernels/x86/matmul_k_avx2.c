/* Tiles of the K formats: Q4_K, Q5_K, Q6_K, blocks of 256.
 *
 * As in matmul_block_avx2.c a line meets a broadcast dword, and codes stay unsigned.  The sum of a
 * part is multiplied by its sub-scale while pairs of 16 bits are added (VPMADDWD), so sub-scales
 * cost nothing.  Minima, and the 32 that Q6_K takes from every code, are products of pairs of
 * sub-scales with pairs of sums of activation codes: all exact in int32. */
#include "base/assert.h"
#include "kernels/x86/simd_avx2.h"
#include "kernels/x86/x86.h"

struct tile {
    const uint8_t *codes;
    const uint8_t *scales;
    uint32_t block_count;
    const int8_t *q[GP_TILE_ROWS];
    const float *scale[GP_TILE_ROWS];
    const int32_t *sum[GP_TILE_ROWS];
};

static struct tile tile_at(const struct gp_matrix *w, uint32_t out_row,
                           const struct gp_activations *a, uint32_t row, uint32_t row_count)
{
    const size_t code_bytes = gp_layout_of(w->type).code_bytes;
    struct tile t;

    t.block_count = w->n_in / 256;
    t.codes = gp_matrix_group(w, out_row);
    t.scales = t.codes + t.block_count * GP_MATRIX_ROWS * code_bytes;
    for (uint32_t r = 0; r < GP_TILE_ROWS;
         r++) { /* rows past the last repeat it and are not used */
        const size_t at = (size_t)(row + (r < row_count ? r : row_count - 1)) * a->k;

        t.q[r] = a->q + at;
        t.scale[r] = a->scale + at / 256;
        t.sum[r] = a->sum + at / 32;
    }
    return t;
}

GP_INLINE __m256i load_line(const uint8_t *codes, size_t line, uint32_t h)
{
    return _mm256_loadu_si256((const __m256i *)(codes + line * 64 + h * 32));
}

GP_INLINE __m256i broadcast_codes(const int8_t *q)
{
    int32_t four;

    memcpy(&four, q, sizeof four);
    return _mm256_set1_epi32(four);
}

/* Member `odd` of every pair of sub-scales, twice. */
GP_INLINE __m256i pair_member(__m256i pairs, uint32_t odd)
{
    const __m256i even = _mm256_setr_epi8(0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13, 0, 1,
                                          0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13);

    return _mm256_shuffle_epi8(pairs, odd ? _mm256_add_epi8(even, _mm256_set1_epi8(2)) : even);
}

/* The four pairs of eight sums of 32 codes (each at most 4064), a dword a pair, in lanes 0 1 4
 * 5. */
GP_INLINE __m256i sum_pairs(const int32_t *sum)
{
    const __m256i s = _mm256_loadu_si256((const __m256i *)sum);

    return _mm256_packs_epi32(s, s);
}

GP_INLINE __m256i broadcast_lane(__m256i v, uint32_t lane)
{
    return _mm256_permutevar8x32_epi32(v, _mm256_set1_epi32((int)lane));
}

GP_INLINE __m256 add_block(__m256 acc, __m256 d, float scale, __m256i sum)
{
    return _mm256_fmadd_ps(_mm256_mul_ps(d, _mm256_set1_ps(scale)), _mm256_cvtepi32_ps(sum), acc);
}

GP_INLINE void store_tile(float y[GP_TILE_ROWS][GP_MATRIX_ROWS], __m256 acc[GP_TILE_ROWS][2],
                          uint32_t rows)
{
    GP_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        _mm256_storeu_ps(y[r], acc[r][0]);
        _mm256_storeu_ps(y[r] + 8, acc[r][1]);
    }
}

/* ---- Q4_K and Q5_K ---- */

/* Sub-block j (32 columns): unsigned codes times activation codes, times the sub-scale, onto sum.
 * Eight pairs of 4-bit codes fit 16 bits, four of 5-bit codes. */
GP_INLINE void add_part(const uint8_t *codes, uint32_t j, const struct tile *t, size_t at,
                        uint32_t rows, bool five, const __m256i sub[2],
                        __m256i sum[GP_TILE_ROWS][2])
{
    const __m256i low = _mm256_set1_epi8(15), fifth = _mm256_set1_epi8(16);
    const __m128i bit_down = _mm_cvtsi32_si128(j < 4 ? 0 : (int)j - 4);
    const __m128i bit_up = _mm_cvtsi32_si128(j < 4 ? 4 - (int)j : 0);
    const __m128i half_down = _mm_cvtsi32_si128(j % 2 ? 4 : 0);

    const uint32_t line_count = five ? 4 : 8;

    for (uint32_t begin = 0; begin < 8; begin += line_count) {
        __m256i pairs[GP_TILE_ROWS][2];

        GP_UNROLL
        for (uint32_t r = 0; r < rows; r++)
            pairs[r][0] = pairs[r][1] = _mm256_setzero_si256();
        GP_UNROLL
        for (uint32_t i = 0; i < line_count; i++) {
            const uint32_t line = begin + i;
            __m256i c[2];

            GP_UNROLL
            for (uint32_t h = 0; h < 2; h++) {
                c[h] = _mm256_srl_epi16(load_line(codes, j / 2 * 8 + line, h), half_down);
                c[h] = _mm256_and_si256(c[h], low);
                if (five) {
                    __m256i bits = load_line(codes, 32 + line, h);

                    bits = _mm256_sll_epi16(_mm256_srl_epi16(bits, bit_down), bit_up);
                    c[h] = _mm256_or_si256(c[h], _mm256_and_si256(bits, fifth));
                }
            }
            GP_UNROLL
            for (uint32_t r = 0; r < rows; r++) {
                const __m256i x = broadcast_codes(t->q[r] + at + j * 32 + line * 4);

                pairs[r][0] = _mm256_add_epi16(pairs[r][0], _mm256_maddubs_epi16(c[0], x));
                pairs[r][1] = _mm256_add_epi16(pairs[r][1], _mm256_maddubs_epi16(c[1], x));
            }
        }
        GP_UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            sum[r][0] = _mm256_add_epi32(sum[r][0], _mm256_madd_epi16(pairs[r][0], sub[0]));
            sum[r][1] = _mm256_add_epi32(sum[r][1], _mm256_madd_epi16(pairs[r][1], sub[1]));
        }
    }
}

GP_INLINE __m256i load_unsigned_pairs(const uint8_t *p)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p));
}

GP_INLINE void tile_q45_k(const struct tile *t, uint32_t rows, bool five,
                          float y[GP_TILE_ROWS][GP_MATRIX_ROWS])
{
    const size_t code_bytes = GP_MATRIX_ROWS * (five ? 160 : 128);
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 acc[GP_TILE_ROWS][2];

    GP_UNROLL
    for (uint32_t r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = _mm256_setzero_ps();
    for (size_t b = 0; b < t->block_count; b++) {
        const uint8_t *codes = t->codes + b * code_bytes;
        const uint8_t *scales = t->scales + b * GP_MATRIX_ROWS * 20;
        __m256i sum[GP_TILE_ROWS][2];

        GP_UNROLL
        for (uint32_t r = 0; r < rows; r++)
            sum[r][0] = sum[r][1] = _mm256_setzero_si256();
        for (uint32_t pair = 0; pair < 4; pair++) {
            const __m256i pairs0 = load_unsigned_pairs(scales + 64 + pair * 32);
            const __m256i pairs1 = load_unsigned_pairs(scales + 64 + pair * 32 + 16);

            if (rows == 1)
                prefetch_ahead(codes + code_bytes + pair * code_bytes / 4, code_bytes / 4);
            for (uint32_t odd = 0; odd < 2; odd++) {
                const __m256i sub[2] = {pair_member(pairs0, odd), pair_member(pairs1, odd)};

                add_part(codes, pair * 2 + odd, t, b * 256, rows, five, sub, sum);
            }
        }
        GP_UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            const __m256i ones = sum_pairs(t->sum[r] + b * 8);
            const float scale = t->scale[r][b];

            GP_UNROLL
            for (uint32_t h = 0; h < 2; h++) {
                const __m256 m = _mm256_xor_ps(load_f16(scales + 32 + h * 16), sign);
                __m256i minima = _mm256_setzero_si256();

                GP_UNROLL
                for (uint32_t pair = 0; pair < 4; pair++) {
                    const __m256i min = load_unsigned_pairs(scales + 192 + pair * 32 + h * 16);
                    const __m256i s = broadcast_lane(ones, pair / 2 * 4 + pair % 2);

                    minima = _mm256_add_epi32(minima, _mm256_madd_epi16(min, s));
                }
                acc[r][h] = add_block(acc[r][h], load_f16(scales + h * 16), scale, sum[r][h]);
                acc[r][h] = add_block(acc[r][h], m, scale, minima);
            }
        }
    }
    store_tile(y, acc, rows);
}

/* ---- Q6_K ---- */

/* Sixteen columns (part j): unsigned 6-bit codes times activation codes, times the signed
 * sub-scale. Two pairs, at most 2 * 2 * 63 * 127 = 32004, fit 16 bits. */
GP_INLINE void add_part_q6(const uint8_t *codes, uint32_t j, const struct tile *t, size_t at,
                           uint32_t rows, const __m256i sub[2], __m256i sum[GP_TILE_ROWS][2])
{
    const uint32_t half = j / 8, quarter = j / 2 % 4;
    const size_t low_line = half * 16 + quarter % 2 * 8 + j % 2 * 4;
    const size_t high_line = 32 + half * 8 + j % 2 * 4;
    const __m128i low_down = _mm_cvtsi32_si128(quarter / 2 * 4);
    const __m128i high_down = _mm_cvtsi32_si128((int)quarter * 2);
    const __m256i low = _mm256_set1_epi8(15), upper = _mm256_set1_epi8(3);

    for (uint32_t begin = 0; begin < 4; begin += 2) {
        __m256i pairs[GP_TILE_ROWS][2];

        GP_UNROLL
        for (uint32_t line = begin; line < begin + 2; line++) {
            __m256i c[2];

            GP_UNROLL
            for (uint32_t h = 0; h < 2; h++) {
                __m256i bits = _mm256_srl_epi16(load_line(codes, high_line + line, h), high_down);

                bits = _mm256_slli_epi16(_mm256_and_si256(bits, upper), 4);
                c[h] = _mm256_srl_epi16(load_line(codes, low_line + line, h), low_down);
                c[h] = _mm256_or_si256(_mm256_and_si256(c[h], low), bits);
            }
            GP_UNROLL
            for (uint32_t r = 0; r < rows; r++) {
                const __m256i x = broadcast_codes(t->q[r] + at + j * 16 + line * 4);
                const __m256i p0 = _mm256_maddubs_epi16(c[0], x);
                const __m256i p1 = _mm256_maddubs_epi16(c[1], x);

                pairs[r][0] = line == begin ? p0 : _mm256_add_epi16(pairs[r][0], p0);
                pairs[r][1] = line == begin ? p1 : _mm256_add_epi16(pairs[r][1], p1);
            }
        }
        GP_UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            sum[r][0] = _mm256_add_epi32(sum[r][0], _mm256_madd_epi16(pairs[r][0], sub[0]));
            sum[r][1] = _mm256_add_epi32(sum[r][1], _mm256_madd_epi16(pairs[r][1], sub[1]));
        }
    }
}

/* Sums of 16 activation codes of a block, as pairs of 16 bits: out[0] has pairs 0 to 3 in its lanes
 * 0 to 3, out[1] pairs 4 to 7. */
GP_INLINE void sixteen_sums(const int8_t *q, __m128i out[2])
{
    const __m256i ones = _mm256_set1_epi8(1);
    __m256i s[8];

    GP_UNROLL
    for (uint32_t i = 0; i < 8; i++)
        s[i] = _mm256_maddubs_epi16(ones, _mm256_loadu_si256((const __m256i *)(q + i * 32)));
    GP_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        s[i] = _mm256_hadd_epi16(s[2 * i], s[2 * i + 1]);
    s[0] = _mm256_hadd_epi16(_mm256_hadd_epi16(s[0], s[1]), _mm256_hadd_epi16(s[2], s[3]));
    /* Even sums lie in the low half, odd ones in the high half. */
    out[0] = _mm_unpacklo_epi16(_mm256_castsi256_si128(s[0]), _mm256_extracti128_si256(s[0], 1));
    out[1] = _mm_unpackhi_epi16(_mm256_castsi256_si128(s[0]), _mm256_extracti128_si256(s[0], 1));
}

GP_INLINE __m256i load_signed_pairs(const uint8_t *p)
{
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p));
}

GP_INLINE void tile_rows_q6_k(const struct tile *t, uint32_t rows,
                              float y[GP_TILE_ROWS][GP_MATRIX_ROWS])
{
    __m256 acc[GP_TILE_ROWS][2];

    GP_UNROLL
    for (uint32_t r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = _mm256_setzero_ps();
    for (size_t b = 0; b < t->block_count; b++) {
        const uint8_t *codes = t->codes + b * GP_MATRIX_ROWS * 192;
        const uint8_t *scales = t->scales + b * GP_MATRIX_ROWS * 18;
        __m256i sum[GP_TILE_ROWS][2];

        GP_UNROLL
        for (uint32_t r = 0; r < rows; r++)
            sum[r][0] = sum[r][1] = _mm256_setzero_si256();
        for (uint32_t pair = 0; pair < 8; pair++) {
            const __m256i pairs0 = load_signed_pairs(scales + 32 + pair * 32);
            const __m256i pairs1 = load_signed_pairs(scales + 32 + pair * 32 + 16);

            if (rows == 1)
                prefetch_ahead(codes + 3072 + pair * 384, 384);
            for (uint32_t odd = 0; odd < 2; odd++) {
                const __m256i sub[2] = {pair_member(pairs0, odd), pair_member(pairs1, odd)};

                add_part_q6(codes, pair * 2 + odd, t, b * 256, rows, sub, sum);
            }
        }
        GP_UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            __m128i ones[2];

            sixteen_sums(t->q[r] + b * 256, ones);
            GP_UNROLL
            for (uint32_t h = 0; h < 2; h++) {
                __m256i bias = _mm256_setzero_si256(), s;

                GP_UNROLL
                for (uint32_t pair = 0; pair < 8; pair++) {
                    const __m256i sub = load_signed_pairs(scales + 32 + pair * 32 + h * 16);

                    s = broadcast_lane(_mm256_castsi128_si256(ones[pair / 4]), pair % 4);
                    bias = _mm256_add_epi32(bias, _mm256_madd_epi16(sub, s));
                }
                s = _mm256_sub_epi32(sum[r][h], _mm256_slli_epi32(bias, 5));
                acc[r][h] = add_block(acc[r][h], load_f16(scales + h * 16), t->scale[r][b], s);
            }
        }
    }
    store_tile(y, acc, rows);
}

/* ---- the versions of a tile: one row, two, and four (which serve three) ---- */

static void tile_q4_k(const struct gp_matrix *w, uint32_t out_row, const struct gp_activations *a,
                      uint32_t row, uint32_t row_count, float y[GP_TILE_ROWS][GP_MATRIX_ROWS])
{
    const struct tile t = tile_at(w, out_row, a, row, row_count);

    switch (row_count) {
    case 1:
        tile_q45_k(&t, 1, false, y);
        break;
    case 2:
        tile_q45_k(&t, 2, false, y);
        break;
    default:
        tile_q45_k(&t, 4, false, y);
        break;
    }
}

static void tile_q5_k(const struct gp_matrix *w, uint32_t out_row, const struct gp_activations *a,
                      uint32_t row, uint32_t row_count, float y[GP_TILE_ROWS][GP_MATRIX_ROWS])
{
    const struct tile t = tile_at(w, out_row, a, row, row_count);

    switch (row_count) {
    case 1:
        tile_q45_k(&t, 1, true, y);
        break;
    case 2:
        tile_q45_k(&t, 2, true, y);
        break;
    default:
        tile_q45_k(&t, 4, true, y);
        break;
    }
}

static void tile_q6_k(const struct gp_matrix *w, uint32_t out_row, const struct gp_activations *a,
                      uint32_t row, uint32_t row_count, float y[GP_TILE_ROWS][GP_MATRIX_ROWS])
{
    const struct tile t = tile_at(w, out_row, a, row, row_count);

    switch (row_count) {
    case 1:
        tile_rows_q6_k(&t, 1, y);
        break;
    case 2:
        tile_rows_q6_k(&t, 2, y);
        break;
    default:
        tile_rows_q6_k(&t, 4, y);
        break;
    }
}

gp_matmul_tile_fn *gp_matmul_k_tile_avx2(enum gp_type type)
{
    switch (type) {
    case GP_TYPE_Q4_K:
        return tile_q4_k;
    case GP_TYPE_Q5_K:
        return tile_q5_k;
    default:
        gp_assert(type == GP_TYPE_Q6_K);
        return tile_q6_k;
    }
}
