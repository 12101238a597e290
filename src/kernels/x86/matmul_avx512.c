/* Products with packed matrices: the walk over rows and groups. */
#include "kernels/internal.h"
#include "kernels/x86/simd_avx512.h"
#include "kernels/x86/x86.h"

#define ROWS GP_TILE_ROWS_AVX512

/* Weights that every tile of rows walks over should stay in the second-level cache: half of
 * the smallest that a processor of this level has. */
#define CHUNK_BYTES 524288u

/* The groups of a chunk meet one tile of rows after the other: a tile's activations, which lie in
 * rows far apart, stay in the first-level cache, and the groups come one after the other, as the
 * prefetcher likes it. */
static void matmul_blocks(const struct gp_matrix *w, const struct gp_activations *a, float *y,
                          size_t y_stride, uint32_t out_begin, uint32_t out_end)
{
    gp_matmul_job_fn *const run = gp_matmul_block_job_avx512(w->type);
    const size_t fit = CHUNK_BYTES / gp_layout_group_bytes(w->type, w->n_in) + 1;
    const uint32_t groups = (out_end - out_begin + GP_MATRIX_ROWS - 1) / GP_MATRIX_ROWS;
    const uint32_t chunks = (uint32_t)(groups / fit) + 1;
    const uint32_t chunk = (groups + chunks - 1) / chunks * GP_MATRIX_ROWS; /* about equal */

    for (uint32_t o = out_begin; o < out_end; o += chunk)
        for (uint32_t r = 0; r < a->row_count; r += ROWS) {
            const uint32_t left = a->row_count - r;
            const struct gp_matmul_job job = {
                .w = w,
                .out_begin = o,
                .out_end = out_end - o < chunk ? out_end : o + chunk,
                .a = a,
                .row = r,
                .row_count = left < ROWS ? left : ROWS,
                .y = y + r * y_stride,
                .y_stride = y_stride,
            };

            run(&job);
        }
}

static void matmul(const struct gp_matrix *w, const struct gp_activations *a, float *y,
                   size_t y_stride, uint32_t out_begin, uint32_t out_end)
{
    if (gp_type_info(w->type)->activation == GP_ACTIVATION_F32)
        gp_matmul_float_avx512(w, a, y, y_stride, out_begin, out_end);
    else
        matmul_blocks(w, a, y, y_stride, out_begin, out_end);
}

void gp_matmul_init_avx512(struct gp_kernels *k)
{
    k->matmul = matmul;
}
