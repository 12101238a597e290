/* Rows of floats: ref/rows_ref.c in sixteen lanes, the last of them cut by a mask. */
#include <math.h>

#include "kernels/x86/simd_avx512.h"
#include "kernels/x86/x86.h"

static float square_sum(const float *x, uint32_t n)
{
    __m512 sum = _mm512_setzero_ps();

    for (uint32_t i = 0; i < n;
         i += 16) { /* a lane past the end adds 0 * 0, which changes nothing */
        const __m512 v = _mm512_maskz_loadu_ps(lanes_left(n - i), x + i);

        sum = _mm512_fmadd_ps(v, v, sum);
    }
    return lanes_sum16(sum);
}

static void rms_norm(float *y, const float *x, const float *weight, uint32_t n, float eps)
{
    const __m512 inverse = _mm512_set1_ps(1.0f / sqrtf(square_sum(x, n) / (float)n + eps));

    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 mask = lanes_left(n - i);
        const __m512 scaled = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), inverse);

        _mm512_mask_storeu_ps(y + i, mask,
                              _mm512_mul_ps(scaled, _mm512_maskz_loadu_ps(mask, weight + i)));
    }
}

static float rms(const float *x, uint32_t n)
{
    return sqrtf(square_sum(x, n) / (float)n);
}

static void add(float *y, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 mask = lanes_left(n - i);
        const __m512 a = _mm512_maskz_loadu_ps(mask, y + i), b = _mm512_maskz_loadu_ps(mask, x + i);

        _mm512_mask_storeu_ps(y + i, mask, _mm512_add_ps(a, b));
    }
}

static void silu_mul(float *y, const float *gate, const float *up, uint32_t n)
{
    const __m512 one = _mm512_set1_ps(1.0f), sign = _mm512_set1_ps(-0.0f);

    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 mask = lanes_left(n - i);
        const __m512 x = _mm512_maskz_loadu_ps(mask, gate + i);
        const __m512 silu =
            _mm512_div_ps(x, _mm512_add_ps(one, exp_avx512(_mm512_xor_ps(x, sign))));

        _mm512_mask_storeu_ps(y + i, mask,
                              _mm512_mul_ps(silu, _mm512_maskz_loadu_ps(mask, up + i)));
    }
}

static void rope_halves(float *x, const float *cosine, const float *sine, uint32_t half)
{
    for (uint32_t i = 0; i < half; i += 16) {
        const __mmask16 mask = lanes_left(half - i);
        const __m512 c = _mm512_maskz_loadu_ps(mask, cosine + i);
        const __m512 s = _mm512_maskz_loadu_ps(mask, sine + i);
        const __m512 a = _mm512_maskz_loadu_ps(mask, x + i);
        const __m512 b = _mm512_maskz_loadu_ps(mask, x + i + half);

        _mm512_mask_storeu_ps(x + i, mask, _mm512_fmsub_ps(a, c, _mm512_mul_ps(b, s)));
        _mm512_mask_storeu_ps(x + i + half, mask, _mm512_fmadd_ps(b, c, _mm512_mul_ps(a, s)));
    }
}

/* Eight angles or fewer, each for both members of its pair. */
GP_INLINE __m512 load_angles(__mmask8 mask, const float *p)
{
    const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);

    return _mm512_permutexvar_ps(twice, _mm512_castps256_ps512(_mm256_maskz_loadu_ps(mask, p)));
}

static void rope_pairs(float *x, const float *cosine, const float *sine, uint32_t half)
{
    for (uint32_t i = 0; i < half; i += 8) {
        const uint32_t left = half - i < 8 ? half - i : 8;
        const __mmask8 angles = (__mmask8)lanes_left(left);
        const __mmask16 mask = lanes_left(2 * left);
        const __m512 v = _mm512_maskz_loadu_ps(mask, x + 2 * i);
        const __m512 turned =
            _mm512_mul_ps(_mm512_permute_ps(v, 0xb1), load_angles(angles, sine + i));

        /* Even lanes take the product with the other member away, odd ones add it. */
        _mm512_mask_storeu_ps(x + 2 * i, mask,
                              _mm512_fmaddsub_ps(v, load_angles(angles, cosine + i), turned));
    }
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
    const __m512 old = _mm512_set1_ps(beta), rest = _mm512_set1_ps(1.0f - beta);

    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 mask = lanes_left(n - i);
        const __m512 fresh = _mm512_mul_ps(rest, _mm512_maskz_loadu_ps(mask, q + i));

        _mm512_mask_storeu_ps(s + i, mask,
                              _mm512_fmadd_ps(old, _mm512_maskz_loadu_ps(mask, s + i), fresh));
    }
}

static void max_into(float *y, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 mask = lanes_left(n - i);
        const __m512 a = _mm512_maskz_loadu_ps(mask, x + i), b = _mm512_maskz_loadu_ps(mask, y + i);

        _mm512_mask_storeu_ps(y + i, mask, _mm512_max_ps(a, b));
    }
}

static float row_max(const float *x, uint32_t n)
{
    __m512 max = _mm512_set1_ps(x[0]);

    for (uint32_t i = 0; i < n; i += 16)
        max = _mm512_max_ps(_mm512_mask_loadu_ps(max, lanes_left(n - i), x + i), max);
    return lanes_max16(max);
}

float gp_exp_row_avx512(float *x, uint32_t n, float *max_out)
{
    const float max = row_max(x, n);
    const __m512 max16 = _mm512_set1_ps(max);
    __m512 sum = _mm512_setzero_ps();

    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 mask = lanes_left(n - i);
        const __m512 e = exp_avx512(_mm512_sub_ps(_mm512_maskz_loadu_ps(mask, x + i), max16));

        _mm512_mask_storeu_ps(x + i, mask, e);
        sum = _mm512_mask_add_ps(sum, mask, sum, e);
    }
    *max_out = max;
    return lanes_sum16(sum);
}

static void softmax(float *x, uint32_t n)
{
    float max;
    const __m512 sum = _mm512_set1_ps(gp_exp_row_avx512(x, n, &max));

    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 mask = lanes_left(n - i);

        _mm512_mask_storeu_ps(x + i, mask, _mm512_div_ps(_mm512_maskz_loadu_ps(mask, x + i), sum));
    }
}

void gp_rows_init_avx512(struct gp_kernels *k)
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
