/* Products with packed matrices: the walk over rows and groups.  The arithmetic of a tile (sixteen
 * weight rows, up to four rows of activations) is in the files of the formats. */
#include "kernels/x86/simd_avx2.h"
#include "kernels/x86/x86.h"

/* Activations that are walked over for every group should stay in the second-level cache, half of a
 * small one at most. */
#define PANEL_BYTES 262144u

static void store_tile(float y[GP_TILE_ROWS][GP_MATRIX_ROWS], uint32_t row_count, float *out,
                       size_t stride, uint32_t out_count)
{
    for (uint32_t r = 0; r < row_count; r++)
        memcpy(out + r * stride, y[r], out_count * sizeof **y);
}

static void matmul_tiles(gp_matmul_tile_fn *tile, const struct gp_matrix *w,
                         const struct gp_activations *a, float *y, size_t y_stride,
                         uint32_t out_begin, uint32_t out_end)
{
    const uint32_t fit = PANEL_BYTES / w->n_in / GP_TILE_ROWS * GP_TILE_ROWS;
    const uint32_t panel_rows = fit ? fit : GP_TILE_ROWS;
    float result[GP_TILE_ROWS][GP_MATRIX_ROWS];

    for (uint32_t begin = 0; begin < a->row_count; begin += panel_rows) {
        const uint32_t left = a->row_count - begin;
        const uint32_t end = begin + (left < panel_rows ? left : panel_rows);

        for (uint32_t o = out_begin; o < out_end; o += GP_MATRIX_ROWS) {
            const uint32_t out_left = out_end - o;
            const uint32_t out_count = out_left < GP_MATRIX_ROWS ? out_left : GP_MATRIX_ROWS;

            for (uint32_t r = begin; r < end; r += GP_TILE_ROWS) {
                const uint32_t row_count = end - r < GP_TILE_ROWS ? end - r : GP_TILE_ROWS;

                tile(w, o, a, r, row_count, result);
                store_tile(result, row_count, y + r * y_stride + o, y_stride, out_count);
            }
        }
    }
}

static void matmul(const struct gp_matrix *w, const struct gp_activations *a, float *y,
                   size_t y_stride, uint32_t out_begin, uint32_t out_end)
{
    switch (gp_type_info(w->type)->activation) {
    case GP_ACTIVATION_F32:
        gp_matmul_float_avx2(w, a, y, y_stride, out_begin, out_end);
        break;
    case GP_ACTIVATION_Q8:
        matmul_tiles(gp_matmul_block_tile_avx2(w->type), w, a, y, y_stride, out_begin, out_end);
        break;
    case GP_ACTIVATION_Q8_K:
        matmul_tiles(gp_matmul_k_tile_avx2(w->type), w, a, y, y_stride, out_begin, out_end);
        break;
    }
}

void gp_matmul_init_avx2(struct gp_kernels *k)
{
    k->matmul = matmul;
}
