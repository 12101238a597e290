/* Tiles of the integer formats: blocks of 32 (Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL) and of 256
 * (Q4_K, Q5_K, Q6_K).
 *
 * A line of 64 bytes holds four columns of sixteen rows, a register whole; VPDPBUSD multiplies it
 * with the broadcast dword of four activation codes and adds the four products to an int32 lane,
 * exactly.  It wants the codes of the weights unsigned.  Those of Q8_0 and IQ4_NL have their sign
 * bit turned, which adds 128; what is too much, here and in the formats that have a middle (8, 16,
 * 32), is taken from the sum of the activation codes, exactly, where the lane begins.
 *
 * The lines of up to 32 columns are decoded once and stay in eight registers while the rows of
 * activations pass, four at a time: as many chains of products as hide each other's latency. */
#include "base/assert.h"
#include "kernels/x86/simd_avx512.h"
#include "kernels/x86/x86.h"

#define ROWS GP_TILE_ROWS_AVX512

/* How far ahead a single row asks for codes, in blocks of 32. */
#define PREFETCH_BYTES 4096u

/* A group of weight rows and some rows of activations. */
struct tile {
    const uint8_t *codes; /* of the group's first block */
    const uint8_t *scales;
    size_t block_count;
    const int8_t *q[ROWS];
    const float *scale[ROWS];
    const int32_t *sum[ROWS];
};

static void tile_set_group(struct tile *t, const struct gp_matrix *w, uint32_t out_row)
{
    t->codes = gp_matrix_group(w, out_row);
    t->scales = t->codes + t->block_count * GP_MATRIX_ROWS * gp_layout_of(w->type).code_bytes;
}

/* Rows past the last repeat it and are not stored. */
static void tile_set_rows(struct tile *t, const struct gp_matrix *w, const struct gp_activations *a,
                          uint32_t row, uint32_t row_count)
{
    const uint32_t elems = gp_type_info(w->type)->block_elems;

    t->block_count = w->n_in / elems;
    for (uint32_t r = 0; r < ROWS; r++) {
        const size_t at = (size_t)(row + (r < row_count ? r : row_count - 1)) * a->k;

        t->q[r] = a->q + at;
        t->scale[r] = a->scale + at / elems;
        t->sum[r] = a->sum + at / 32;
    }
}

GP_INLINE __m512i load_line(const uint8_t *codes, size_t line)
{
    return _mm512_loadu_si512(codes + line * 64);
}

/* Four activation codes, wherever they lie. */
typedef int32_t four_codes __attribute__((may_alias, aligned(1)));

/* sum + codes of a line times the four activation codes at q.  In assembly, for gcc 12 broadcasts
 * into a register first, and copies the sum before and after. */
GP_INLINE __m512i dot4(__m512i sum, __m512i codes, const int8_t *q)
{
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(codes), "m"(*(const four_codes *)q));
    return sum;
}

/* factor times the sum of some activation codes, which fits 16 bits, in every lane. */
GP_INLINE __m512i times_sum(__m512i factor, const int32_t *sum)
{
    __m512i product = _mm512_setzero_si512();

    __asm__("vpdpwssd %2%{1to16%}, %1, %0" : "+v"(product) : "v"(factor), "m"(*sum));
    return product;
}

/* Rows that pass the lines of a part together. */
#define TOGETHER 4u

/* sum[r] + the lines times the activation codes at q[r] + at, for rows [first, first + n). */
GP_INLINE void add_lines(__m512i sum[TOGETHER], const __m512i *codes, uint32_t lines,
                         const struct tile *t, size_t at, uint32_t first, uint32_t n)
{
    const int8_t *q[TOGETHER];

    GP_UNROLL
    for (uint32_t r = 0; r < n; r++)
        q[r] = t->q[first + r] + at;
    GP_UNROLL
    for (uint32_t line = 0; line < lines; line++) {
        GP_UNROLL
        for (uint32_t r = 0; r < n; r++)
            sum[r] = dot4(sum[r], codes[line], q[r] + line * 4);
    }
}

GP_INLINE uint32_t together(uint32_t rows, uint32_t first)
{
    return rows - first < TOGETHER ? rows - first : TOGETHER;
}

/* Bits of `bits` that are set in `mask` join `codes`. */
GP_INLINE __m512i join(__m512i codes, __m512i bits, __m512i mask)
{
    return _mm512_ternarylogic_epi64(codes, bits, mask, 0xf8); /* codes | (bits & mask) */
}

/* acc + d * scale * sum, for sixteen rows of weights. */
GP_INLINE __m512 add_block(__m512 acc, __m512 d, float scale, __m512i sum)
{
    return _mm512_fmadd_ps(_mm512_mul_ps(d, _mm512_set1_ps(scale)), _mm512_cvtepi32_ps(sum), acc);
}

GP_INLINE __m512 load_halves(const uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

/* Where a tile goes: rows of y, of which the mask's lanes are written. */
struct target {
    float *y;
    size_t stride;
    uint32_t row_count;
    __mmask16 mask;
};

GP_INLINE void store_rows(struct target to, const __m512 acc[ROWS], uint32_t rows)
{
    GP_UNROLL
    for (uint32_t r = 0; r < rows; r++)
        if (r < to.row_count)
            _mm512_mask_storeu_ps(to.y + r * to.stride, to.mask, acc[r]);
}

/* ---- blocks of 32 ---- */

/* Columns 16 * part + 4 * line and on, unsigned, of the formats with two codes in a byte. */
GP_INLINE __m512i half_codes(enum gp_type type, const uint8_t *codes, uint32_t part, uint32_t line)
{
    const __m512i values =
        _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)gp_iq4nl_values));
    __m512i c = load_line(codes, line);

    c = _mm512_and_si512(part ? _mm512_srli_epi16(c, 4) : c, _mm512_set1_epi8(15));
    if (type == GP_TYPE_Q5_0 || type == GP_TYPE_Q5_1) {
        /* Bit 4 * part + line of every byte of the fifth line becomes the fifth bit. */
        const __m512i bits = load_line(codes, 4);

        c = join(c,
                 part ? _mm512_srl_epi16(bits, _mm_cvtsi32_si128((int)line))
                      : _mm512_sll_epi16(bits, _mm_cvtsi32_si128(4 - (int)line)),
                 _mm512_set1_epi8(16));
    }
    if (type == GP_TYPE_IQ4_NL)
        c = _mm512_xor_si512(_mm512_shuffle_epi8(values, c), _mm512_set1_epi8(-128));
    return c;
}

/* The eight lines of 32 columns, unsigned. */
GP_INLINE void decode_block(enum gp_type type, const uint8_t *codes, __m512i out[8])
{
    GP_UNROLL
    for (uint32_t i = 0; i < 8; i++)
        out[i] = type == GP_TYPE_Q8_0
                     ? _mm512_xor_si512(load_line(codes, i), _mm512_set1_epi8(-128))
                     : half_codes(type, codes, i / 4, i % 4);
}

GP_INLINE void tile_block(enum gp_type type, const struct tile *t, uint32_t rows, struct target to)
{
    const bool has_min = type == GP_TYPE_Q4_1 || type == GP_TYPE_Q5_1;
    const int32_t middle = type == GP_TYPE_Q4_0 ? 8 : type == GP_TYPE_Q5_0 ? 16 : 128;
    const __m512i bias = _mm512_set1_epi32(-middle & 0xffff);
    const size_t lines = type == GP_TYPE_Q8_0                           ? 8
                         : type == GP_TYPE_Q5_0 || type == GP_TYPE_Q5_1 ? 5
                                                                        : 4;
    __m512 acc[ROWS];

    GP_UNROLL
    for (uint32_t r = 0; r < rows; r++)
        acc[r] = _mm512_setzero_ps();
    for (size_t b = 0; b < t->block_count; b++) {
        const uint8_t *codes = t->codes + b * lines * 64;
        const uint8_t *scales = t->scales + b * (has_min ? 64 : 32);
        const __m512 d = load_halves(scales);
        __m512i c[8];

        if (rows == 1)
            prefetch_ahead(codes + PREFETCH_BYTES, lines * 64);
        decode_block(type, codes, c);
        GP_UNROLL
        for (uint32_t r = 0; r < rows; r += TOGETHER) {
            const uint32_t n = together(rows, r);
            __m512i sum[TOGETHER];

            GP_UNROLL
            for (uint32_t i = 0; i < n; i++)
                sum[i] = has_min ? _mm512_setzero_si512() : times_sum(bias, &t->sum[r + i][b]);
            add_lines(sum, c, 8, t, b * 32, r, n);
            GP_UNROLL
            for (uint32_t i = 0; i < n; i++) {
                acc[r + i] = add_block(acc[r + i], d, t->scale[r + i][b], sum[i]);
                if (has_min)
                    acc[r + i] = add_block(acc[r + i], load_halves(scales + 32), t->scale[r + i][b],
                                           _mm512_set1_epi32(t->sum[r + i][b]));
            }
        }
    }
    store_rows(to, acc, rows);
}

/* ---- Q4_K and Q5_K ---- */

/* Pairs of eight bits, widened to pairs of 16: a dword a row. */
GP_INLINE __m512i load_unsigned_pairs(const uint8_t *p)
{
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)p));
}

/* Sub-block j, 32 columns: its sum times its sub-scale, onto the total. */
GP_INLINE void add_part(const uint8_t *codes, uint32_t j, const struct tile *t, size_t at,
                        uint32_t rows, bool five, __m512i sub, __m512i total[ROWS])
{
    const __m128i half_down = _mm_cvtsi32_si128(j % 2 ? 4 : 0);
    const __m128i bit_down = _mm_cvtsi32_si128(j < 4 ? 0 : (int)j - 4);
    const __m128i bit_up = _mm_cvtsi32_si128(j < 4 ? 4 - (int)j : 0);
    __m512i c[8];

    GP_UNROLL
    for (uint32_t line = 0; line < 8; line++) {
        c[line] = _mm512_srl_epi16(load_line(codes, j / 2 * 8 + line), half_down);
        c[line] = _mm512_and_si512(c[line], _mm512_set1_epi8(15));
        if (five) {
            const __m512i bits = load_line(codes, 32 + line);

            c[line] = join(c[line], _mm512_sll_epi16(_mm512_srl_epi16(bits, bit_down), bit_up),
                           _mm512_set1_epi8(16));
        }
    }
    GP_UNROLL
    for (uint32_t r = 0; r < rows; r += TOGETHER) {
        const uint32_t n = together(rows, r);
        __m512i sum[TOGETHER];

        GP_UNROLL
        for (uint32_t i = 0; i < n; i++)
            sum[i] = _mm512_setzero_si512();
        add_lines(sum, c, 8, t, at + j * 32, r, n);
        GP_UNROLL
        for (uint32_t i = 0; i < n; i++)
            total[r + i] = _mm512_add_epi32(total[r + i], _mm512_mullo_epi32(sum[i], sub));
    }
}

/* Minima times sums of 32 activation codes (each at most 4064, so a pair fits a dword). */
GP_INLINE __m512i minima_of(const uint8_t *minima, const int32_t *sum)
{
    const __m512i ones =
        _mm512_castsi128_si512(_mm256_cvtepi32_epi16(_mm256_loadu_si256((const __m256i *)sum)));
    __m512i total = _mm512_setzero_si512();

    GP_UNROLL
    for (uint32_t pair = 0; pair < 4; pair++) {
        const __m512i s = _mm512_permutexvar_epi32(_mm512_set1_epi32((int)pair), ones);

        total = _mm512_dpwssd_epi32(total, load_unsigned_pairs(minima + pair * 32), s);
    }
    return total;
}

GP_INLINE void tile_q45_k(const struct tile *t, uint32_t rows, bool five, struct target to)
{
    const size_t code_bytes = GP_MATRIX_ROWS * (five ? 160 : 128);
    const __m512i even = _mm512_set1_epi32(0xffff);
    __m512 acc[ROWS];

    GP_UNROLL
    for (uint32_t r = 0; r < rows; r++)
        acc[r] = _mm512_setzero_ps();
    for (size_t b = 0; b < t->block_count; b++) {
        const uint8_t *codes = t->codes + b * code_bytes;
        const uint8_t *scales = t->scales + b * GP_MATRIX_ROWS * 20;
        const __m512 d = load_halves(scales);
        const __m512 m = _mm512_xor_ps(load_halves(scales + 32), _mm512_set1_ps(-0.0f));
        __m512i total[ROWS];

        GP_UNROLL
        for (uint32_t r = 0; r < rows; r++)
            total[r] = _mm512_setzero_si512();
        for (uint32_t pair = 0; pair < 4; pair++) {
            const __m512i subs = load_unsigned_pairs(scales + 64 + pair * 32);

            if (rows == 1)
                prefetch_ahead(codes + code_bytes + pair * code_bytes / 4, code_bytes / 4);
            add_part(codes, pair * 2, t, b * 256, rows, five, _mm512_and_si512(subs, even), total);
            add_part(codes, pair * 2 + 1, t, b * 256, rows, five, _mm512_srli_epi32(subs, 16),
                     total);
        }
        GP_UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            const __m512i minima = minima_of(scales + 192, t->sum[r] + b * 8);

            acc[r] = add_block(acc[r], d, t->scale[r][b], total[r]);
            acc[r] = add_block(acc[r], m, t->scale[r][b], minima);
        }
    }
    store_rows(to, acc, rows);
}

/* ---- Q6_K ---- */

/* -32 times the sums of 16 activation codes of a block: part j at (j % 4) * 4 + j / 4. */
GP_INLINE void sixteen_biases(const int8_t *q, int32_t out[16])
{
    const __m512i ones = _mm512_set1_epi8(1), zero = _mm512_setzero_si512();
    __m512i s[4], t0, t1;

    GP_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        s[i] = _mm512_dpbusd_epi32(zero, ones, load_line((const uint8_t *)q, i));
    t0 = _mm512_add_epi32(_mm512_unpacklo_epi32(s[0], s[1]), _mm512_unpackhi_epi32(s[0], s[1]));
    t1 = _mm512_add_epi32(_mm512_unpacklo_epi32(s[2], s[3]), _mm512_unpackhi_epi32(s[2], s[3]));
    t0 = _mm512_add_epi32(_mm512_unpacklo_epi64(t0, t1), _mm512_unpackhi_epi64(t0, t1));
    _mm512_storeu_si512(out, _mm512_sub_epi32(zero, _mm512_slli_epi32(t0, 5)));
}

/* Part j, sixteen columns: its sum, begun at its bias, times its sub-scale, onto the total. */
GP_INLINE void add_part_q6(const uint8_t *codes, uint32_t j, const struct tile *t, size_t at,
                           uint32_t rows, const int32_t bias[ROWS][16], __m512i sub,
                           __m512i total[ROWS])
{
    const uint32_t half = j / 8, quarter = j / 2 % 4;
    const size_t low_line = half * 16 + quarter % 2 * 8 + j % 2 * 4;
    const size_t high_line = 32 + half * 8 + j % 2 * 4;
    const __m128i low_down = _mm_cvtsi32_si128(quarter / 2 * 4);
    const __m128i high_down = _mm_cvtsi32_si128((int)quarter * 2);
    __m512i c[4];

    GP_UNROLL
    for (uint32_t line = 0; line < 4; line++) {
        const __m512i low = _mm512_srl_epi16(load_line(codes, low_line + line), low_down);
        const __m512i high = _mm512_srl_epi16(load_line(codes, high_line + line), high_down);

        c[line] = join(_mm512_and_si512(low, _mm512_set1_epi8(15)), _mm512_slli_epi16(high, 4),
                       _mm512_set1_epi8(0x30));
    }
    GP_UNROLL
    for (uint32_t r = 0; r < rows; r += TOGETHER) {
        const uint32_t n = together(rows, r);
        __m512i sum[TOGETHER];

        GP_UNROLL
        for (uint32_t i = 0; i < n; i++)
            sum[i] = _mm512_set1_epi32(bias[r + i][j % 4 * 4 + j / 4]);
        add_lines(sum, c, 4, t, at + j * 16, r, n);
        GP_UNROLL
        for (uint32_t i = 0; i < n; i++)
            total[r + i] = _mm512_add_epi32(total[r + i], _mm512_mullo_epi32(sum[i], sub));
    }
}

GP_INLINE void tile_q6_k(const struct tile *t, uint32_t rows, struct target to)
{
    __m512 acc[ROWS];

    GP_UNROLL
    for (uint32_t r = 0; r < rows; r++)
        acc[r] = _mm512_setzero_ps();
    for (size_t b = 0; b < t->block_count; b++) {
        const uint8_t *codes = t->codes + b * GP_MATRIX_ROWS * 192;
        const uint8_t *scales = t->scales + b * GP_MATRIX_ROWS * 18;
        const __m512 d = load_halves(scales);
        int32_t bias[ROWS][16];
        __m512i total[ROWS];

        GP_UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            sixteen_biases(t->q[r] + b * 256, bias[r]);
            total[r] = _mm512_setzero_si512();
        }
        for (uint32_t pair = 0; pair < 8; pair++) {
            const __m512i subs = _mm512_cvtepi8_epi16(
                _mm256_loadu_si256((const __m256i *)(scales + 32 + pair * 32)));
            const __m512i even = _mm512_srai_epi32(_mm512_slli_epi32(subs, 16), 16);

            if (rows == 1)
                prefetch_ahead(codes + 3072 + pair * 384, 384);
            add_part_q6(codes, pair * 2, t, b * 256, rows, bias, even, total);
            add_part_q6(codes, pair * 2 + 1, t, b * 256, rows, bias, _mm512_srai_epi32(subs, 16),
                        total);
        }
        GP_UNROLL
        for (uint32_t r = 0; r < rows; r++)
            acc[r] = add_block(acc[r], d, t->scale[r][b], total[r]);
    }
    store_rows(to, acc, rows);
}

/* ---- the versions of a tile: 1, 2, 4 and 8 rows, which serve what lies between ---- */

GP_INLINE void tile_rows(enum gp_type type, const struct tile *t, uint32_t rows, struct target to)
{
    if (type == GP_TYPE_Q6_K)
        tile_q6_k(t, rows, to);
    else if (type == GP_TYPE_Q4_K || type == GP_TYPE_Q5_K)
        tile_q45_k(t, rows, type == GP_TYPE_Q5_K, to);
    else
        tile_block(type, t, rows, to);
}

GP_INLINE void groups_of(enum gp_type type, const struct gp_matmul_job *job, uint32_t rows)
{
    struct tile t;

    tile_set_rows(&t, job->w, job->a, job->row, job->row_count);
    for (uint32_t o = job->out_begin; o < job->out_end; o += GP_MATRIX_ROWS) {
        tile_set_group(&t, job->w, o);
        tile_rows(type, &t, rows,
                  (struct target){job->y + o, job->y_stride, job->row_count,
                                  lanes_left(job->out_end - o)});
    }
}

GP_INLINE void rows_of(enum gp_type type, const struct gp_matmul_job *job)
{
    if (job->row_count == 1)
        groups_of(type, job, 1);
    else if (job->row_count == 2)
        groups_of(type, job, 2);
    else if (job->row_count <= 4)
        groups_of(type, job, 4);
    else
        groups_of(type, job, 8);
}

static void rows_of_q8_0(const struct gp_matmul_job *job)
{
    rows_of(GP_TYPE_Q8_0, job);
}

static void rows_of_q4_0(const struct gp_matmul_job *job)
{
    rows_of(GP_TYPE_Q4_0, job);
}

static void rows_of_q4_1(const struct gp_matmul_job *job)
{
    rows_of(GP_TYPE_Q4_1, job);
}

static void rows_of_q5_0(const struct gp_matmul_job *job)
{
    rows_of(GP_TYPE_Q5_0, job);
}

static void rows_of_q5_1(const struct gp_matmul_job *job)
{
    rows_of(GP_TYPE_Q5_1, job);
}

static void rows_of_iq4_nl(const struct gp_matmul_job *job)
{
    rows_of(GP_TYPE_IQ4_NL, job);
}

static void rows_of_q4_k(const struct gp_matmul_job *job)
{
    rows_of(GP_TYPE_Q4_K, job);
}

static void rows_of_q5_k(const struct gp_matmul_job *job)
{
    rows_of(GP_TYPE_Q5_K, job);
}

static void rows_of_q6_k(const struct gp_matmul_job *job)
{
    rows_of(GP_TYPE_Q6_K, job);
}

gp_matmul_job_fn *gp_matmul_block_job_avx512(enum gp_type type)
{
    switch (type) {
    case GP_TYPE_Q8_0:
        return rows_of_q8_0;
    case GP_TYPE_Q4_0:
        return rows_of_q4_0;
    case GP_TYPE_Q4_1:
        return rows_of_q4_1;
    case GP_TYPE_Q5_0:
        return rows_of_q5_0;
    case GP_TYPE_Q5_1:
        return rows_of_q5_1;
    case GP_TYPE_IQ4_NL:
        return rows_of_iq4_nl;
    case GP_TYPE_Q4_K:
        return rows_of_q4_k;
    case GP_TYPE_Q5_K:
        return rows_of_q5_k;
    default:
        gp_assert(type == GP_TYPE_Q6_K);
        return rows_of_q6_k;
    }
}
