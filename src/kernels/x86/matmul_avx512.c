/* Products with packed matrices: the walk over rows and groups, as in matmul_avx2.c. */
#include "kernels/x86/simd_avx512.h"
#include "kernels/x86/x86.h"

#define ROWS GP_TILE_ROWS_AVX512

/* Activations that are walked over for every group should stay in the second-level cache, a
 * quarter of a usual one at most. */
#define PANEL_BYTES 262144u

static void matmul_tiles(gp_matmul_cut_tile_fn *tile, const struct gp_matrix *w,
                         const struct gp_activations *a, float *y, size_t y_stride,
                         uint32_t out_begin, uint32_t out_end)
{
    const uint32_t fit = PANEL_BYTES / w->n_in / ROWS * ROWS;
    const uint32_t panel_rows = fit ? fit : ROWS;

    for (uint32_t begin = 0; begin < a->row_count; begin += panel_rows) {
        const uint32_t left = a->row_count - begin;
        const uint32_t end = begin + (left < panel_rows ? left : panel_rows);

        for (uint32_t o = out_begin; o < out_end; o += GP_MATRIX_ROWS) {
            const uint32_t out_left = out_end - o;
            const uint32_t out_count = out_left < GP_MATRIX_ROWS ? out_left : GP_MATRIX_ROWS;

            for (uint32_t r = begin; r < end; r += ROWS)
                tile(w, o, out_count, a, r, end - r < ROWS ? end - r : ROWS, y + r * y_stride + o,
                     y_stride);
        }
    }
}

static void matmul(const struct gp_matrix *w, const struct gp_activations *a, float *y,
                   size_t y_stride, uint32_t out_begin, uint32_t out_end)
{
    if (gp_type_info(w->type)->activation == GP_ACTIVATION_F32)
        gp_matmul_float_avx512(w, a, y, y_stride, out_begin, out_end);
    else
        matmul_tiles(gp_matmul_block_tile_avx512(w->type), w, a, y, y_stride, out_begin, out_end);
}

void gp_matmul_init_avx512(struct gp_kernels *k)
{
    k->matmul = matmul;
}
