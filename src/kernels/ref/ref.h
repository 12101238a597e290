/* What the files of the definitions share. */
#ifndef GP_KERNELS_REF_REF_H
#define GP_KERNELS_REF_REF_H

#include "kernels/kernels.h"

/* The fixed tree over 16 lanes: lane i takes lane i + 8, then i + 4, i + 2, i + 1. */
float gp_lanes_sum_ref(const float lane[16]);

/* x becomes exp(x - max); the sum in 16 lanes comes back.  n >= 1. */
float gp_exp_row_ref(float *x, uint32_t n, float *max_out);

/* A block of 32 elements of a Q8_0 cache: its codes, and its scale, a half, which comes back. */
uint16_t gp_quantize_half_ref(const float *x, int8_t q[32]);

void gp_rows_init_ref(struct gp_kernels *k);
void gp_matmul_init_ref(struct gp_kernels *k);
void gp_attention_init_ref(struct gp_kernels *k);

#endif
