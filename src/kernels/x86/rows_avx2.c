/* Rows of floats: ref/rows_ref.c in eight lanes.  What is left of a row goes through the
 * definition's own operations, which this file compiles with a real fused multiply-add. */
#include <math.h>

#include "kernels/ref/exp.h"
#include "kernels/x86/simd_avx2.h"
#include "kernels/x86/x86.h"

static float square_sum(const float *x, uint32_t n)
{
    __m256 low = _mm256_setzero_ps(), high = _mm256_setzero_ps();
    uint32_t i = 0;

    for (; i + 16 <= n; i += 16) {
        const __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + i + 8);

        low = _mm256_fmadd_ps(a, a, low);
        high = _mm256_fmadd_ps(b, b, high);
    }
    if (i < n) { /* a lane past the end adds 0 * 0, which changes nothing */
        const uint32_t left = n - i;
        const __m256 a = _mm256_maskload_ps(x + i, lanes_below(left < 8 ? left : 8));

        low = _mm256_fmadd_ps(a, a, low);
        if (left > 8) {
            const __m256 b = _mm256_maskload_ps(x + i + 8, lanes_below(left - 8));

            high = _mm256_fmadd_ps(b, b, high);
        }
    }
    return lanes_sum(low, high);
}

static void rms_norm(float *y, const float *x, const float *weight, uint32_t n, float eps)
{
    const float inverse = 1.0f / sqrtf(square_sum(x, n) / (float)n + eps);
    const __m256 wide = _mm256_set1_ps(inverse);
    uint32_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(x + i), wide),
                                              _mm256_loadu_ps(weight + i)));
    for (; i < n; i++)
        y[i] = x[i] * inverse * weight[i];
}

static float rms(const float *x, uint32_t n)
{
    return sqrtf(square_sum(x, n) / (float)n);
}

static void add(float *y, const float *x, uint32_t n)
{
    uint32_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, _mm256_add_ps(_mm256_loadu_ps(y + i), _mm256_loadu_ps(x + i)));
    for (; i < n; i++)
        y[i] += x[i];
}

static void silu_mul(float *y, const float *gate, const float *up, uint32_t n)
{
    const __m256 one = _mm256_set1_ps(1.0f), sign = _mm256_set1_ps(-0.0f);
    uint32_t i = 0;

    for (; i + 8 <= n; i += 8) {
        const __m256 x = _mm256_loadu_ps(gate + i);
        const __m256 e = exp_avx2(_mm256_xor_ps(x, sign));
        const __m256 silu = _mm256_div_ps(x, _mm256_add_ps(one, e));

        _mm256_storeu_ps(y + i, _mm256_mul_ps(silu, _mm256_loadu_ps(up + i)));
    }
    for (; i < n; i++)
        y[i] = gate[i] / (1.0f + exp_ref(-gate[i])) * up[i];
}

/* (a, b) turned by the angle: a' = fma(a, cos, -(b sin)), b' = fma(b, cos, a sin). */
GP_INLINE void rotate(__m256 *a, __m256 *b, __m256 cosine, __m256 sine)
{
    const __m256 rotated = _mm256_fmsub_ps(*a, cosine, _mm256_mul_ps(*b, sine));

    *b = _mm256_fmadd_ps(*b, cosine, _mm256_mul_ps(*a, sine));
    *a = rotated;
}

static void rotate_one(float *a, float *b, float cosine, float sine)
{
    const float rotated = fmaf(*a, cosine, -(*b * sine));

    *b = fmaf(*b, cosine, *a * sine);
    *a = rotated;
}

static void rope_halves(float *x, const float *cosine, const float *sine, uint32_t half)
{
    uint32_t i = 0;

    for (; i + 8 <= half; i += 8) {
        __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + i + half);

        rotate(&a, &b, _mm256_loadu_ps(cosine + i), _mm256_loadu_ps(sine + i));
        _mm256_storeu_ps(x + i, a);
        _mm256_storeu_ps(x + i + half, b);
    }
    for (; i < half; i++)
        rotate_one(&x[i], &x[i + half], cosine[i], sine[i]);
}

/* Eight angles in the order in which shuffles of neighbouring pairs leave them: 0 1 4 5 2 3 6 7. */
GP_INLINE __m256 load_angles(const float *p)
{
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_loadu_ps(p)), 0xd8));
}

static void rope_pairs(float *x, const float *cosine, const float *sine, uint32_t half)
{
    uint32_t i = 0;

    for (; i + 8 <= half; i += 8) {
        const __m256 low = _mm256_loadu_ps(x + 2 * i), high = _mm256_loadu_ps(x + 2 * i + 8);
        __m256 a = _mm256_shuffle_ps(low, high, 0x88), b = _mm256_shuffle_ps(low, high, 0xdd);

        rotate(&a, &b, load_angles(cosine + i), load_angles(sine + i));
        _mm256_storeu_ps(x + 2 * i, _mm256_unpacklo_ps(a, b));
        _mm256_storeu_ps(x + 2 * i + 8, _mm256_unpackhi_ps(a, b));
    }
    for (; i < half; i++)
        rotate_one(&x[2 * i], &x[2 * i + 1], cosine[i], sine[i]);
}

static void rope(float *x, const float *cosine, const float *sine, uint32_t rot, bool neox)
{
    if (neox)
        rope_halves(x, cosine, sine, rot / 2);
    else
        rope_pairs(x, cosine, sine, rot / 2);
}

static void ema(float *s, const float *q, uint32_t n, float beta)
{
    const float rest = 1.0f - beta;
    const __m256 beta8 = _mm256_set1_ps(beta), rest8 = _mm256_set1_ps(rest);
    uint32_t i = 0;

    for (; i + 8 <= n; i += 8) {
        const __m256 fresh = _mm256_mul_ps(rest8, _mm256_loadu_ps(q + i));

        _mm256_storeu_ps(s + i, _mm256_fmadd_ps(beta8, _mm256_loadu_ps(s + i), fresh));
    }
    for (; i < n; i++)
        s[i] = fmaf(beta, s[i], rest * q[i]);
}

static void max_into(float *y, const float *x, uint32_t n)
{
    uint32_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, _mm256_max_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
    for (; i < n; i++)
        y[i] = x[i] > y[i] ? x[i] : y[i];
}

static float row_max(const float *x, uint32_t n)
{
    __m256 max8 = _mm256_set1_ps(x[0]);
    uint32_t i = 0;
    float max;

    for (; i + 8 <= n; i += 8)
        max8 = _mm256_max_ps(_mm256_loadu_ps(x + i), max8);
    max = lanes_max(max8);
    for (; i < n; i++)
        max = x[i] > max ? x[i] : max;
    return max;
}

float gp_exp_row_avx2(float *x, uint32_t n, float *max_out)
{
    const float max = row_max(x, n);
    const __m256 max8 = _mm256_set1_ps(max);
    __m256 lane[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    uint32_t i = 0;

    for (; i + 8 <= n; i += 8) {
        const __m256 e = exp_avx2(_mm256_sub_ps(_mm256_loadu_ps(x + i), max8));

        _mm256_storeu_ps(x + i, e);
        if (i & 8)
            lane[1] = _mm256_add_ps(lane[1], e);
        else
            lane[0] = _mm256_add_ps(lane[0], e);
    }
    if (i <
        n) { /* lanes past the end are set to 0, which leaves a sum that is not negative alone */
        const __m256i mask = lanes_below(n - i);
        __m256 e = exp_avx2(_mm256_sub_ps(_mm256_maskload_ps(x + i, mask), max8));

        e = _mm256_and_ps(e, _mm256_castsi256_ps(mask));
        _mm256_maskstore_ps(x + i, mask, e);
        if (i & 8)
            lane[1] = _mm256_add_ps(lane[1], e);
        else
            lane[0] = _mm256_add_ps(lane[0], e);
    }
    *max_out = max;
    return lanes_sum(lane[0], lane[1]);
}

static void softmax(float *x, uint32_t n)
{
    float max;
    const float sum = gp_exp_row_avx2(x, n, &max);
    const __m256 sum8 = _mm256_set1_ps(sum);
    uint32_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(x + i, _mm256_div_ps(_mm256_loadu_ps(x + i), sum8));
    for (; i < n; i++)
        x[i] /= sum;
}

void gp_rows_init_avx2(struct gp_kernels *k)
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
