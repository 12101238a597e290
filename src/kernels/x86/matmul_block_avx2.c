/* Tiles of the formats with blocks of 32: Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL.
 *
 * A line of 64 bytes holds four columns of sixteen rows; the dword of four activation codes that
 * meets it is broadcast.  Codes of 4 and 5 bits stay unsigned (what the format takes away, 8 or 16,
 * is taken from the sum of the activation codes, exactly), so VPMADDUBSW multiplies them as they
 * are: a pair is at most 2 * 31 * 127 = 7874, and four of them, or eight of 4 bits, fit 16 bits.
 * Signed codes give their sign to the activations: a pair is at most 2 * 128 * 127 = 32512. */
#include "base/assert.h"
#include "kernels/x86/simd_avx2.h"
#include "kernels/x86/x86.h"

/* How far ahead a single row asks for codes. */
#define PREFETCH_BYTES 4096u

struct tile {
    const uint8_t *codes; /* of the group's block                     */
    const uint8_t *scales;
    const int8_t *q[GP_TILE_ROWS];
    const float *scale[GP_TILE_ROWS];
    const int32_t *sum[GP_TILE_ROWS];
};

static struct tile tile_at(const struct gp_matrix *w, uint32_t out_row,
                           const struct gp_activations *a, uint32_t row, uint32_t row_count)
{
    const size_t code_bytes = gp_layout_of(w->type).code_bytes;
    struct tile t;

    t.codes = gp_matrix_group(w, out_row);
    t.scales = t.codes + w->n_in / 32 * GP_MATRIX_ROWS * code_bytes;
    for (uint32_t r = 0; r < GP_TILE_ROWS;
         r++) { /* rows past the last repeat it and are not used */
        const size_t at = (size_t)(row + (r < row_count ? r : row_count - 1)) * a->k;

        t.q[r] = a->q + at;
        t.scale[r] = a->scale + at / 32;
        t.sum[r] = a->sum + at / 32;
    }
    return t;
}

GP_INLINE __m256i broadcast_codes(const int8_t *q)
{
    int32_t four;

    memcpy(&four, q, sizeof four);
    return _mm256_set1_epi32(four);
}

/* acc + d * scale * sum, for eight rows of weights. */
GP_INLINE __m256 add_block(__m256 acc, __m256 d, float scale, __m256i sum)
{
    return _mm256_fmadd_ps(_mm256_mul_ps(d, _mm256_set1_ps(scale)), _mm256_cvtepi32_ps(sum), acc);
}

/* Columns 16 * part + 4 * line and on, of the eight rows of half h. */
GP_INLINE __m256i unsigned_codes(const uint8_t *codes, uint32_t part, uint32_t line, uint32_t h,
                                 bool five)
{
    __m256i c = _mm256_loadu_si256((const __m256i *)(codes + line * 64 + h * 32));

    c = _mm256_and_si256(part ? _mm256_srli_epi16(c, 4) : c, _mm256_set1_epi8(15));
    if (five) { /* bit 4 * part + line of every byte becomes its fifth bit */
        __m256i bits = _mm256_loadu_si256((const __m256i *)(codes + 256 + h * 32));

        bits = part ? bits : _mm256_slli_epi16(bits, 4);
        bits = _mm256_srl_epi16(bits, _mm_cvtsi32_si128((int)line));
        c = _mm256_or_si256(c, _mm256_and_si256(bits, _mm256_set1_epi8(16)));
    }
    return c;
}

/* Sums of one block: codes (unsigned) times activation codes, exact. */
GP_INLINE void unsigned_sums(const uint8_t *codes, const struct tile *t, size_t at, uint32_t rows,
                             bool five, __m256i sum[GP_TILE_ROWS][2])
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i pairs[GP_TILE_ROWS][2];

    GP_UNROLL
    for (uint32_t r = 0; r < rows; r++)
        pairs[r][0] = pairs[r][1] = sum[r][0] = sum[r][1] = _mm256_setzero_si256();
    GP_UNROLL
    for (uint32_t part = 0; part < 2; part++) {
        for (uint32_t line = 0; line < 4; line++) {
            const __m256i c0 = unsigned_codes(codes, part, line, 0, five);
            const __m256i c1 = unsigned_codes(codes, part, line, 1, five);

            GP_UNROLL
            for (uint32_t r = 0; r < rows; r++) {
                const __m256i x = broadcast_codes(t->q[r] + at + part * 16 + line * 4);

                pairs[r][0] = _mm256_add_epi16(pairs[r][0], _mm256_maddubs_epi16(c0, x));
                pairs[r][1] = _mm256_add_epi16(pairs[r][1], _mm256_maddubs_epi16(c1, x));
            }
        }
        if (part == 0 && !five)
            continue;
        GP_UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            sum[r][0] = _mm256_add_epi32(sum[r][0], _mm256_madd_epi16(pairs[r][0], ones));
            sum[r][1] = _mm256_add_epi32(sum[r][1], _mm256_madd_epi16(pairs[r][1], ones));
            pairs[r][0] = pairs[r][1] = _mm256_setzero_si256();
        }
    }
}

/* All blocks of a tile with unsigned codes; `bias` is taken from every code, or has_min adds m. */
GP_INLINE void tile_unsigned(const struct tile *t, uint32_t block_count, uint32_t rows, bool five,
                             int bias, bool has_min, float y[GP_TILE_ROWS][GP_MATRIX_ROWS])
{
    const size_t code_bytes = GP_MATRIX_ROWS * (five ? 20 : 16);
    const size_t scale_bytes = GP_MATRIX_ROWS * (has_min ? 4 : 2);
    __m256 acc[GP_TILE_ROWS][2];

    GP_UNROLL
    for (uint32_t r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = _mm256_setzero_ps();
    for (size_t b = 0; b < block_count; b++) {
        const uint8_t *scales = t->scales + b * scale_bytes;
        __m256i sum[GP_TILE_ROWS][2];

        if (rows == 1)
            prefetch_ahead(t->codes + b * code_bytes + PREFETCH_BYTES, code_bytes);
        unsigned_sums(t->codes + b * code_bytes, t, b * 32, rows, five, sum);
        GP_UNROLL
        for (uint32_t h = 0; h < 2; h++) {
            const __m256 d = load_f16(scales + h * 16);

            GP_UNROLL
            for (uint32_t r = 0; r < rows; r++) {
                const int32_t ones = t->sum[r][b];
                const float scale = t->scale[r][b];
                __m256i s = sum[r][h];

                if (bias)
                    s = _mm256_sub_epi32(s, _mm256_set1_epi32(bias * ones));
                acc[r][h] = add_block(acc[r][h], d, scale, s);
                if (has_min)
                    acc[r][h] = add_block(acc[r][h], load_f16(scales + 32 + h * 16), scale,
                                          _mm256_set1_epi32(ones));
            }
        }
    }
    GP_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        _mm256_storeu_ps(y[r], acc[r][0]);
        _mm256_storeu_ps(y[r] + 8, acc[r][1]);
    }
}

/* Magnitudes and signs of the columns 4 * line and on. */
struct signed_codes {
    __m256i magnitude;
    __m256i value;
};

GP_INLINE struct signed_codes signed_codes(const uint8_t *codes, uint32_t line, uint32_t h,
                                           bool table)
{
    const __m256i values =
        _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)gp_iq4nl_values));
    __m256i c;

    if (table) {
        c = _mm256_loadu_si256((const __m256i *)(codes + line % 4 * 64 + h * 32));
        c = _mm256_and_si256(line < 4 ? c : _mm256_srli_epi16(c, 4), _mm256_set1_epi8(15));
        c = _mm256_shuffle_epi8(values, c);
    } else {
        c = _mm256_loadu_si256((const __m256i *)(codes + line * 64 + h * 32));
    }
    return (struct signed_codes){_mm256_abs_epi8(c), c};
}

GP_INLINE __m256i signed_product(struct signed_codes c, __m256i x)
{
    const __m256i pairs = _mm256_maddubs_epi16(c.magnitude, _mm256_sign_epi8(x, c.value));

    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

/* All blocks of a tile with signed codes: bytes, or places in IQ4_NL's table. */
GP_INLINE void tile_signed(const struct tile *t, uint32_t block_count, uint32_t rows, bool table,
                           float y[GP_TILE_ROWS][GP_MATRIX_ROWS])
{
    const size_t code_bytes = GP_MATRIX_ROWS * (table ? 16 : 32);
    __m256 acc[GP_TILE_ROWS][2];

    GP_UNROLL
    for (uint32_t r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = _mm256_setzero_ps();
    for (size_t b = 0; b < block_count; b++) {
        const uint8_t *scales = t->scales + b * GP_MATRIX_ROWS * 2;
        __m256i sum[GP_TILE_ROWS][2];

        if (rows == 1)
            prefetch_ahead(t->codes + b * code_bytes + PREFETCH_BYTES, code_bytes);
        GP_UNROLL
        for (uint32_t r = 0; r < rows; r++)
            sum[r][0] = sum[r][1] = _mm256_setzero_si256();
        for (uint32_t line = 0; line < 8; line++) {
            const struct signed_codes c0 = signed_codes(t->codes + b * code_bytes, line, 0, table);
            const struct signed_codes c1 = signed_codes(t->codes + b * code_bytes, line, 1, table);

            GP_UNROLL
            for (uint32_t r = 0; r < rows; r++) {
                const __m256i x = broadcast_codes(t->q[r] + b * 32 + line * 4);

                sum[r][0] = _mm256_add_epi32(sum[r][0], signed_product(c0, x));
                sum[r][1] = _mm256_add_epi32(sum[r][1], signed_product(c1, x));
            }
        }
        GP_UNROLL
        for (uint32_t h = 0; h < 2; h++) {
            const __m256 d = load_f16(scales + h * 16);

            GP_UNROLL
            for (uint32_t r = 0; r < rows; r++)
                acc[r][h] = add_block(acc[r][h], d, t->scale[r][b], sum[r][h]);
        }
    }
    GP_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        _mm256_storeu_ps(y[r], acc[r][0]);
        _mm256_storeu_ps(y[r] + 8, acc[r][1]);
    }
}

/* The versions of a tile: one row, two, and four, which serve three as well. */
GP_INLINE void unsigned_tile(const struct gp_matrix *w, const struct tile *t, uint32_t row_count,
                             bool five, int bias, bool has_min,
                             float y[GP_TILE_ROWS][GP_MATRIX_ROWS])
{
    const uint32_t block_count = w->n_in / 32;

    switch (row_count) {
    case 1:
        tile_unsigned(t, block_count, 1, five, bias, has_min, y);
        break;
    case 2:
        tile_unsigned(t, block_count, 2, five, bias, has_min, y);
        break;
    default:
        tile_unsigned(t, block_count, 4, five, bias, has_min, y);
        break;
    }
}

GP_INLINE void signed_tile(const struct gp_matrix *w, const struct tile *t, uint32_t row_count,
                           bool table, float y[GP_TILE_ROWS][GP_MATRIX_ROWS])
{
    const uint32_t block_count = w->n_in / 32;

    switch (row_count) {
    case 1:
        tile_signed(t, block_count, 1, table, y);
        break;
    case 2:
        tile_signed(t, block_count, 2, table, y);
        break;
    default:
        tile_signed(t, block_count, 4, table, y);
        break;
    }
}

static void tile_q8_0(const struct gp_matrix *w, uint32_t out_row, const struct gp_activations *a,
                      uint32_t row, uint32_t row_count, float y[GP_TILE_ROWS][GP_MATRIX_ROWS])
{
    const struct tile t = tile_at(w, out_row, a, row, row_count);

    signed_tile(w, &t, row_count, false, y);
}

static void tile_iq4_nl(const struct gp_matrix *w, uint32_t out_row, const struct gp_activations *a,
                        uint32_t row, uint32_t row_count, float y[GP_TILE_ROWS][GP_MATRIX_ROWS])
{
    const struct tile t = tile_at(w, out_row, a, row, row_count);

    signed_tile(w, &t, row_count, true, y);
}

static void tile_q4_0(const struct gp_matrix *w, uint32_t out_row, const struct gp_activations *a,
                      uint32_t row, uint32_t row_count, float y[GP_TILE_ROWS][GP_MATRIX_ROWS])
{
    const struct tile t = tile_at(w, out_row, a, row, row_count);

    unsigned_tile(w, &t, row_count, false, 8, false, y);
}

static void tile_q4_1(const struct gp_matrix *w, uint32_t out_row, const struct gp_activations *a,
                      uint32_t row, uint32_t row_count, float y[GP_TILE_ROWS][GP_MATRIX_ROWS])
{
    const struct tile t = tile_at(w, out_row, a, row, row_count);

    unsigned_tile(w, &t, row_count, false, 0, true, y);
}

static void tile_q5_0(const struct gp_matrix *w, uint32_t out_row, const struct gp_activations *a,
                      uint32_t row, uint32_t row_count, float y[GP_TILE_ROWS][GP_MATRIX_ROWS])
{
    const struct tile t = tile_at(w, out_row, a, row, row_count);

    unsigned_tile(w, &t, row_count, true, 16, false, y);
}

static void tile_q5_1(const struct gp_matrix *w, uint32_t out_row, const struct gp_activations *a,
                      uint32_t row, uint32_t row_count, float y[GP_TILE_ROWS][GP_MATRIX_ROWS])
{
    const struct tile t = tile_at(w, out_row, a, row, row_count);

    unsigned_tile(w, &t, row_count, true, 0, true, y);
}

gp_matmul_tile_fn *gp_matmul_block_tile_avx2(enum gp_type type)
{
    switch (type) {
    case GP_TYPE_Q8_0:
        return tile_q8_0;
    case GP_TYPE_Q4_0:
        return tile_q4_0;
    case GP_TYPE_Q4_1:
        return tile_q4_1;
    case GP_TYPE_Q5_0:
        return tile_q5_0;
    case GP_TYPE_Q5_1:
        return tile_q5_1;
    default:
        gp_assert(type == GP_TYPE_IQ4_NL);
        return tile_iq4_nl;
    }
}
