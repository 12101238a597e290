/* Float rows to int8 codes: ref/matmul_ref.c, quantize_block, in sixteen lanes. */
#include "kernels/x86/quantize_driver.h"
#include "kernels/x86/simd_avx512.h"
#include "kernels/x86/x86.h"

static float max_abs(const float *x, uint32_t n)
{
    __m512 max0 = _mm512_setzero_ps(), max1 = _mm512_setzero_ps();

    for (uint32_t i = 0; i < n; i += 32) {
        max0 = _mm512_max_ps(_mm512_abs_ps(_mm512_loadu_ps(x + i)), max0);
        max1 = _mm512_max_ps(_mm512_abs_ps(_mm512_loadu_ps(x + i + 16)), max1);
    }
    return lanes_max16(_mm512_max_ps(max0, max1));
}

static int32_t codes_of(const float *x, float scale, int8_t *q)
{
    const __m512 divisor = _mm512_set1_ps(scale);
    const __m512 low = _mm512_set1_ps(-127.0f), high = _mm512_set1_ps(127.0f);
    const __m512 magic = _mm512_set1_ps(GP_ROUND_MAGIC);
    __m512i code[2];

    GP_UNROLL
    for (uint32_t j = 0; j < 2; j++) {
        __m512 v = _mm512_div_ps(_mm512_loadu_ps(x + 16 * j), divisor);

        v = _mm512_add_ps(_mm512_min_ps(_mm512_max_ps(v, low), high), magic);
        code[j] = _mm512_sub_epi32(_mm512_castps_si512(v), _mm512_castps_si512(magic));
        _mm_storeu_si128((__m128i *)(q + 16 * j), _mm512_cvtepi32_epi8(code[j]));
    }
    return _mm512_reduce_add_epi32(_mm512_add_epi32(code[0], code[1]));
}

void gp_quantize_init_avx512(struct gp_kernels *k)
{
    k->quantize = quantize;
}
