/* Products with float matrices: F32, F16, BF16.
 *
 * The definition's order, one chain of fmaf over the columns, with a lane for every row of
 * weights; so the results agree with it to the bit.  A chain waits for itself, so eight of them or
 * more run side by side: groups of sixteen weight rows times rows of activations. */
#include "kernels/x86/simd_avx512.h"
#include "kernels/x86/x86.h"

#define TILE_ROWS   8u
#define TILE_GROUPS 8u
#include "kernels/x86/matmul_float_driver.h"

GP_INLINE __m512 load_weights(enum gp_type type, const uint8_t *group, size_t index)
{
    switch (type) {
    case GP_TYPE_F16:
        return load_f16_masked(0xffff, group + index * 2);
    case GP_TYPE_BF16:
        return load_bf16_masked(0xffff, group + index * 2);
    default:
        return _mm512_loadu_ps(group + index * 4);
    }
}

/* `groups` times sixteen outputs of `rows` rows of activations; the first row_count of them, cut
 * after out_count outputs, are stored. */
GP_INLINE void tile(enum gp_type type, const struct gp_matrix *w, const float *const x[TILE_ROWS],
                    uint32_t groups, uint32_t rows, uint32_t row_count, uint32_t out_row,
                    uint32_t out_count, float *y, size_t y_stride)
{
    const size_t group_bytes = gp_layout_group_bytes(type, w->n_in);
    const uint8_t *group = gp_matrix_group(w, out_row);
    __m512 acc[TILE_GROUPS][TILE_ROWS];

    GP_UNROLL
    for (uint32_t j = 0; j < groups; j++) {
        GP_UNROLL
        for (uint32_t r = 0; r < rows; r++)
            acc[j][r] = _mm512_setzero_ps();
    }
    for (size_t i = 0; i < w->n_in; i++) {
        GP_UNROLL
        for (uint32_t j = 0; j < groups; j++) {
            const __m512 wi = load_weights(type, group + j * group_bytes, i * 16);

            GP_UNROLL
            for (uint32_t r = 0; r < rows; r++)
                acc[j][r] = _mm512_fmadd_ps(wi, _mm512_set1_ps(x[r][i]), acc[j][r]);
        }
    }
    GP_UNROLL
    for (uint32_t j = 0; j < groups; j++) {
        GP_UNROLL
        for (uint32_t r = 0; r < rows; r++)
            if (r < row_count)
                _mm512_mask_storeu_ps(y + r * y_stride + j * 16, lanes_left(out_count - j * 16),
                                      acc[j][r]);
    }
}

/* A product of more than two rows ends with a tile of four or eight. */
GP_INLINE void tile_rows(enum gp_type type, const struct gp_matrix *w,
                         const struct gp_activations *a, uint32_t row, uint32_t groups,
                         uint32_t out_row, uint32_t out_count, float *y, size_t stride)
{
    const uint32_t n = a->row_count - row < TILE_ROWS ? a->row_count - row : TILE_ROWS;
    const float *x[TILE_ROWS];

    for (uint32_t i = 0; i < TILE_ROWS; i++) /* rows past the last repeat it and are not stored */
        x[i] = a->x + (row + (i < n ? i : n - 1)) * a->x_stride;
    if (groups == 8)
        tile(type, w, x, 8, 1, n, out_row, out_count, y, stride);
    else if (groups == 4)
        tile(type, w, x, 4, 2, n, out_row, out_count, y, stride);
    else if (groups == 2 && n > 4)
        tile(type, w, x, 2, 8, n, out_row, out_count, y, stride);
    else if (groups == 2)
        tile(type, w, x, 2, 4, n, out_row, out_count, y, stride);
    else if (n == 1)
        tile(type, w, x, 1, 1, n, out_row, out_count, y, stride);
    else if (n == 2)
        tile(type, w, x, 1, 2, n, out_row, out_count, y, stride);
    else if (n <= 4)
        tile(type, w, x, 1, 4, n, out_row, out_count, y, stride);
    else
        tile(type, w, x, 1, 8, n, out_row, out_count, y, stride);
}

void gp_matmul_float_avx512(const struct gp_matrix *w, const struct gp_activations *a, float *y,
                            size_t y_stride, uint32_t out_begin, uint32_t out_end)
{
    matmul_float(w, a, y, y_stride, out_begin, out_end);
}
