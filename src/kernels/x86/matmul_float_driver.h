/* What products with float matrices do alike on every level: which tile comes next.
 *
 * A file of a level includes this once, behind its own TILE_ROWS (how many rows of activations a
 * tile takes) and TILE_GROUPS (how many groups of sixteen weight rows a single row meets at a
 * time), and defines the primitive declared here. */
#ifndef GP_KERNELS_X86_MATMUL_FLOAT_DRIVER_H
#define GP_KERNELS_X86_MATMUL_FLOAT_DRIVER_H

#include "kernels/x86/simd_avx2.h"

#if !defined TILE_ROWS || !defined TILE_GROUPS
#error "TILE_ROWS and TILE_GROUPS come first"
#endif

/* Up to TILE_ROWS rows of activations from `row` on, and `groups` groups (one, or groups_for the
 * rows of the product) from out_row on; y [rows][stride], cut after out_count outputs. */
GP_INLINE void tile_rows(enum gp_type type, const struct gp_matrix *w,
                         const struct gp_activations *a, uint32_t row, uint32_t groups,
                         uint32_t out_row, uint32_t out_count, float *y, size_t stride);

/* How many groups go together in a product of so many rows: the fewer rows, the more groups, for
 * about as many chains. */
static uint32_t groups_for(uint32_t row_count)
{
    return TILE_GROUPS / (row_count == 1 ? 1 : row_count == 2 ? 2 : 4);
}

GP_INLINE void product(enum gp_type type, const struct gp_matrix *w, const struct gp_activations *a,
                       float *y, size_t y_stride, uint32_t out_begin, uint32_t out_end)
{
    for (uint32_t o = out_begin; o < out_end;) {
        uint32_t groups = groups_for(a->row_count), count = out_end - o;

        if (count < groups * 16)
            groups = 1;
        count = count < groups * 16 ? count : groups * 16;
        for (uint32_t r = 0; r < a->row_count; r += TILE_ROWS)
            tile_rows(type, w, a, r, groups, o, count, y + r * y_stride + o, y_stride);
        o += groups * 16;
    }
}

static void product_f32(const struct gp_matrix *w, const struct gp_activations *a, float *y,
                        size_t y_stride, uint32_t out_begin, uint32_t out_end)
{
    product(GP_TYPE_F32, w, a, y, y_stride, out_begin, out_end);
}

static void product_f16(const struct gp_matrix *w, const struct gp_activations *a, float *y,
                        size_t y_stride, uint32_t out_begin, uint32_t out_end)
{
    product(GP_TYPE_F16, w, a, y, y_stride, out_begin, out_end);
}

static void product_bf16(const struct gp_matrix *w, const struct gp_activations *a, float *y,
                         size_t y_stride, uint32_t out_begin, uint32_t out_end)
{
    product(GP_TYPE_BF16, w, a, y, y_stride, out_begin, out_end);
}

static void matmul_float(const struct gp_matrix *w, const struct gp_activations *a, float *y,
                         size_t y_stride, uint32_t out_begin, uint32_t out_end)
{
    switch (w->type) {
    case GP_TYPE_F16:
        product_f16(w, a, y, y_stride, out_begin, out_end);
        break;
    case GP_TYPE_BF16:
        product_bf16(w, a, y, y_stride, out_begin, out_end);
        break;
    default:
        product_f32(w, a, y, y_stride, out_begin, out_end);
        break;
    }
}

#endif
