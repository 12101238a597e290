/* What the wide files offer to the table and to each other. */
#ifndef GP_KERNELS_X86_X86_H
#define GP_KERNELS_X86_X86_H

#include "kernels/kernels.h"

/* Rows of activations that meet a group of sixteen weight rows at a time. */
#define GP_TILE_ROWS 4u

/* The product of the sixteen weight rows from `out_row` on with `row_count` (1 to GP_TILE_ROWS)
 * rows of activations from `row` on; y [row_count][16] is written whole. */
typedef void gp_matmul_tile_fn(const struct gp_matrix *w, uint32_t out_row,
                               const struct gp_activations *a, uint32_t row, uint32_t row_count,
                               float y[GP_TILE_ROWS][GP_MATRIX_ROWS]);

/* The tile function of a format, by subject: 4-, 5- and 8-bit blocks of 32; K formats. */
gp_matmul_tile_fn *gp_matmul_block_tile_avx2(enum gp_type type);
gp_matmul_tile_fn *gp_matmul_k_tile_avx2(enum gp_type type);

/* All of a product with a float matrix. */
void gp_matmul_float_avx2(const struct gp_matrix *w, const struct gp_activations *a, float *y,
                          size_t y_stride, uint32_t out_begin, uint32_t out_end);

/* x becomes exp(x - max); the sum in 16 lanes comes back.  n >= 1. */
float gp_exp_row_avx2(float *x, uint32_t n, float *max_out);

/* A block of 32 elements of a Q8_0 cache: its codes, and its scale, a half, which comes back. */
uint16_t gp_quantize_half_avx2(const float *x, int8_t q[32]);

/* The same of the level above, which keeps twice as many rows in registers, and every format. */
#define GP_TILE_ROWS_AVX512 8u

/* Outputs [out_begin, out_end) of row_count (1 to GP_TILE_ROWS_AVX512) rows of activations from
 * `row` on. */
struct gp_matmul_job {
    const struct gp_matrix *w;
    uint32_t out_begin, out_end; /* out_begin a multiple of GP_MATRIX_ROWS */
    const struct gp_activations *a;
    uint32_t row, row_count;
    float *y; /* of that row, output 0 */
    size_t y_stride;
};

typedef void gp_matmul_job_fn(const struct gp_matmul_job *job);

gp_matmul_job_fn *gp_matmul_block_job_avx512(enum gp_type type);
void gp_matmul_float_avx512(const struct gp_matrix *w, const struct gp_activations *a, float *y,
                            size_t y_stride, uint32_t out_begin, uint32_t out_end);
float gp_exp_row_avx512(float *x, uint32_t n, float *max_out);

void gp_rows_init_avx2(struct gp_kernels *k);
void gp_quantize_init_avx2(struct gp_kernels *k);
void gp_matmul_init_avx2(struct gp_kernels *k);
void gp_attention_init_avx2(struct gp_kernels *k);
void gp_slots_init_avx2(struct gp_kernels *k);

void gp_rows_init_avx512(struct gp_kernels *k);
void gp_quantize_init_avx512(struct gp_kernels *k);
void gp_matmul_init_avx512(struct gp_kernels *k);
void gp_attention_init_avx512(struct gp_kernels *k);

#endif
