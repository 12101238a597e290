/* What quantising rows does alike on every level: blocks, their scales and their sums.
 *
 * A file of a level includes this once and defines the primitives declared here. */
#ifndef GP_KERNELS_X86_QUANTIZE_DRIVER_H
#define GP_KERNELS_X86_QUANTIZE_DRIVER_H

#include "kernels/internal.h"

/* The largest magnitude of n elements, a multiple of 32; NaN loses. */
static float max_abs(const float *x, uint32_t n);

/* The codes of 32 elements; their sum comes back. */
static int32_t codes_of(const float *x, float scale, int8_t *q);

static void quantize(const struct gp_activations *a, uint32_t row_begin, uint32_t row_end)
{
    const uint32_t n = a->kind == GP_ACTIVATION_Q8_K ? 256 : 32;

    if (a->kind == GP_ACTIVATION_F32)
        return;
    for (uint32_t r = row_begin; r < row_end; r++)
        for (uint32_t i = 0; i < a->k; i += n) {
            const size_t at = (size_t)r * a->k + i;
            const float *x = a->x + r * a->x_stride + i;
            const float scale = max_abs(x, n) / 127.0f;

            a->scale[at / n] = scale;
            if (scale == 0.0f) {
                memset(a->q + at, 0, n);
                memset(a->sum + at / 32, 0, n / 32 * sizeof *a->sum);
                continue;
            }
            for (uint32_t j = 0; j < n; j += 32)
                a->sum[(at + j) / 32] = codes_of(x + j, scale, a->q + at + j);
        }
}

#endif
