/* Float rows to int8 codes: ref/matmul_ref.c, quantize_block, in eight lanes. */
#include "kernels/x86/quantize_driver.h"
#include "kernels/x86/simd_avx2.h"
#include "kernels/x86/x86.h"

static float max_abs(const float *x, uint32_t n)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 max[4];

    for (uint32_t j = 0; j < 4; j++)
        max[j] = _mm256_setzero_ps();
    for (uint32_t i = 0; i < n; i += 32) {
        GP_UNROLL
        for (uint32_t j = 0; j < 4; j++) {
            const __m256 v = _mm256_andnot_ps(sign, _mm256_loadu_ps(x + i + 8 * j));

            max[j] = _mm256_max_ps(v, max[j]);
        }
    }
    return lanes_max(_mm256_max_ps(_mm256_max_ps(max[0], max[1]), _mm256_max_ps(max[2], max[3])));
}

static int32_t codes_of(const float *x, float scale, int8_t *q)
{
    const __m256 divisor = _mm256_set1_ps(scale);
    const __m256 low = _mm256_set1_ps(-127.0f), high = _mm256_set1_ps(127.0f);
    const __m256 magic = _mm256_set1_ps(GP_ROUND_MAGIC);
    __m256i code[4], sum, bytes;
    __m128i sum4;

    GP_UNROLL
    for (uint32_t j = 0; j < 4; j++) {
        __m256 v = _mm256_div_ps(_mm256_loadu_ps(x + 8 * j), divisor);

        v = _mm256_add_ps(_mm256_min_ps(_mm256_max_ps(v, low), high), magic);
        code[j] = _mm256_sub_epi32(_mm256_castps_si256(v), _mm256_castps_si256(magic));
    }
    sum = _mm256_add_epi32(_mm256_add_epi32(code[0], code[1]), _mm256_add_epi32(code[2], code[3]));
    bytes = _mm256_packs_epi16(_mm256_packs_epi32(code[0], code[1]),
                               _mm256_packs_epi32(code[2], code[3]));
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256((__m256i *)q, bytes);
    sum4 = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    sum4 = _mm_add_epi32(sum4, _mm_shuffle_epi32(sum4, 0x4e));
    sum4 = _mm_add_epi32(sum4, _mm_shuffle_epi32(sum4, 0xb1));
    return _mm_cvtsi128_si32(sum4);
}

uint16_t gp_quantize_half_avx2(const float *x, int8_t q[32])
{
    const uint16_t scale = _cvtss_sh(max_abs(x, 32) / 127.0f, _MM_FROUND_TO_NEAREST_INT);

    if (scale == 0)
        memset(q, 0, 32);
    else
        codes_of(x, _cvtsh_ss(scale), q);
    return scale;
}

void gp_quantize_init_avx2(struct gp_kernels *k)
{
    k->quantize = quantize;
}
