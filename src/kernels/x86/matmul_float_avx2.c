/* Products with float matrices: F32, F16, BF16.
 *
 * The definition's order, one chain of fmaf over the columns, with a lane for every row of
 * weights; so the results agree with it to the bit.  A chain waits for itself, so eight of them
 * run side by side: four groups of sixteen weight rows for one row of activations, one group for
 * four. */
#include "kernels/x86/simd_avx2.h"
#include "kernels/x86/x86.h"

#define TILE_ROWS   4u
#define TILE_GROUPS 4u
#include "kernels/x86/matmul_float_driver.h"

GP_INLINE __m256 load_weights(enum gp_type type, const uint8_t *group, size_t index)
{
    switch (type) {
    case GP_TYPE_F16:
        return load_f16(group + index * 2);
    case GP_TYPE_BF16:
        return load_bf16(group + index * 2);
    default:
        return _mm256_loadu_ps((const float *)(const void *)(group + index * 4));
    }
}

/* Sixteen results, or the first `count` of them. */
GP_INLINE void store_cut(float *y, __m256 low, __m256 high, uint32_t count)
{
    if (count >= 16) {
        _mm256_storeu_ps(y, low);
        _mm256_storeu_ps(y + 8, high);
        return;
    }
    _mm256_maskstore_ps(y, lanes_below(count < 8 ? count : 8), low);
    if (count > 8)
        _mm256_maskstore_ps(y + 8, lanes_below(count - 8), high);
}

/* `groups` times sixteen outputs of `rows` rows; y [rows][stride], cut after out_count outputs. */
GP_INLINE void tile(enum gp_type type, const struct gp_matrix *w, const float *x, size_t x_stride,
                    uint32_t groups, uint32_t rows, uint32_t out_row, uint32_t out_count, float *y,
                    size_t y_stride)
{
    const size_t group_bytes = gp_layout_group_bytes(type, w->n_in);
    const uint8_t *group = gp_matrix_group(w, out_row);
    __m256 acc[TILE_GROUPS][TILE_ROWS][2];

    GP_UNROLL
    for (uint32_t j = 0; j < groups; j++) {
        GP_UNROLL
        for (uint32_t r = 0; r < rows; r++)
            acc[j][r][0] = acc[j][r][1] = _mm256_setzero_ps();
    }
    for (size_t i = 0; i < w->n_in; i++) {
        GP_UNROLL
        for (uint32_t j = 0; j < groups; j++) {
            const uint8_t *at = group + j * group_bytes;
            const __m256 w0 = load_weights(type, at, i * 16);
            const __m256 w1 = load_weights(type, at, i * 16 + 8);

            GP_UNROLL
            for (uint32_t r = 0; r < rows; r++) {
                const __m256 xi = _mm256_broadcast_ss(x + r * x_stride + i);

                acc[j][r][0] = _mm256_fmadd_ps(w0, xi, acc[j][r][0]);
                acc[j][r][1] = _mm256_fmadd_ps(w1, xi, acc[j][r][1]);
            }
        }
    }
    GP_UNROLL
    for (uint32_t j = 0; j < groups; j++) {
        GP_UNROLL
        for (uint32_t r = 0; r < rows; r++)
            store_cut(y + r * y_stride + j * 16, acc[j][r][0], acc[j][r][1], out_count - j * 16);
    }
}

GP_INLINE void tile_rows(enum gp_type type, const struct gp_matrix *w,
                         const struct gp_activations *a, uint32_t row, uint32_t groups,
                         uint32_t out_row, uint32_t out_count, float *y, size_t stride)
{
    const uint32_t n = a->row_count - row < TILE_ROWS ? a->row_count - row : TILE_ROWS;
    const size_t xs = a->x_stride;
    const float *x = a->x + row * xs;

    if (n == 1 && groups == 4)
        tile(type, w, x, xs, 4, 1, out_row, out_count, y, stride);
    else if (n == 1)
        tile(type, w, x, xs, 1, 1, out_row, out_count, y, stride);
    else if (n == 2 && groups == 2)
        tile(type, w, x, xs, 2, 2, out_row, out_count, y, stride);
    else if (n == 2)
        tile(type, w, x, xs, 1, 2, out_row, out_count, y, stride);
    else if (n == 3)
        tile(type, w, x, xs, 1, 3, out_row, out_count, y, stride);
    else
        tile(type, w, x, xs, 1, 4, out_row, out_count, y, stride);
}

void gp_matmul_float_avx2(const struct gp_matrix *w, const struct gp_activations *a, float *y,
                          size_t y_stride, uint32_t out_begin, uint32_t out_end)
{
    matmul_float(w, a, y, y_stride, out_begin, out_end);
}
