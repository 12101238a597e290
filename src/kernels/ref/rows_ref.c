/* Definitions: work on rows of floats, element by element or with one sum over a row. */
#include <math.h>
#include <string.h>

#include "kernels/internal.h"
#include "kernels/ref/exp.h"
#include "kernels/ref/ref.h"

/* The tree that ends every sum over 16 lanes. */
float gp_lanes_sum_ref(const float lane[16])
{
    float s[16];

    memcpy(s, lane, sizeof s);
    for (uint32_t width = 8; width > 0; width /= 2)
        for (uint32_t i = 0; i < width; i++)
            s[i] += s[i + width];
    return s[0];
}

static float square_sum(const float *x, uint32_t n)
{
    float lane[16] = {0};

    for (uint32_t i = 0; i < n; i++)
        lane[i % 16] = fmaf(x[i], x[i], lane[i % 16]);
    return gp_lanes_sum_ref(lane);
}

static void rms_norm(float *y, const float *x, const float *weight, uint32_t n, float eps)
{
    const float inverse = 1.0f / sqrtf(square_sum(x, n) / (float)n + eps);

    for (uint32_t i = 0; i < n; i++)
        y[i] = x[i] * inverse * weight[i];
}

static float rms(const float *x, uint32_t n)
{
    return sqrtf(square_sum(x, n) / (float)n);
}

static void add(float *y, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] += x[i];
}

static void silu_mul(float *y, const float *gate, const float *up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] = gate[i] / (1.0f + exp_ref(-gate[i])) * up[i];
}

static void rope(float *x, const float *cosine, const float *sine, uint32_t rot, bool neox)
{
    const uint32_t half = rot / 2;

    for (uint32_t i = 0; i < half; i++) {
        float *a = neox ? &x[i] : &x[2 * i];
        float *b = neox ? &x[i + half] : &x[2 * i + 1];
        const float rotated = fmaf(*a, cosine[i], -(*b * sine[i]));

        *b = fmaf(*b, cosine[i], *a * sine[i]);
        *a = rotated;
    }
}

static void ema(float *s, const float *q, uint32_t n, float beta)
{
    const float rest = 1.0f - beta;

    for (uint32_t i = 0; i < n; i++)
        s[i] = fmaf(beta, s[i], rest * q[i]);
}

/* The larger of two numbers as the hardware has it: the second when they are equal or no
 * numbers. */
static float larger(float a, float b)
{
    return a > b ? a : b;
}

static void max_into(float *y, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] = larger(x[i], y[i]);
}

float gp_exp_row_ref(float *x, uint32_t n, float *max_out)
{
    float lane[16] = {0}, max = x[0];

    for (uint32_t i = 1; i < n; i++)
        max = larger(x[i], max);
    for (uint32_t i = 0; i < n; i++) {
        x[i] = exp_ref(x[i] - max);
        lane[i % 16] += x[i];
    }
    *max_out = max;
    return gp_lanes_sum_ref(lane);
}

static void softmax(float *x, uint32_t n)
{
    float max;
    const float sum = gp_exp_row_ref(x, n, &max);

    for (uint32_t i = 0; i < n; i++)
        x[i] /= sum;
}

void gp_rows_init_ref(struct gp_kernels *k)
{
    k->rms_norm = rms_norm;
    k->rms = rms;
    k->add = add;
    k->silu_mul = silu_mul;
    k->rope = rope;
    k->ema = ema;
    k->max_into = max_into;
    k->softmax = softmax;
}
