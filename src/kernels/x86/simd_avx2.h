/* Wide pieces that the AVX2 files share, and the drivers and the level above with them.  Never
 * included by a file for all machines. */
#ifndef GP_KERNELS_X86_SIMD_AVX2_H
#define GP_KERNELS_X86_SIMD_AVX2_H

#include <immintrin.h>

#include "kernels/internal.h"

/* GP_UNROLL: loops over a constant count whose arrays of registers must become registers.  One loop
 * over such an array that is not unrolled puts all of it into memory.
 * GP_INLINE: functions whose constant arguments make a version of the loop each.
 * A build with checks has loops and calls as they are written: the results are the same to the bit,
 * and with a check at every access a compiler works for minutes on a file of versions. */
#ifdef GP_DEBUG
#define GP_UNROLL
#define GP_INLINE static inline
#else
#ifdef __clang__
#define GP_UNROLL _Pragma("clang loop unroll(full)")
#else
#define GP_UNROLL _Pragma("GCC unroll 16")
#endif
#define GP_INLINE static inline __attribute__((always_inline))
#endif

/* Ask for `bytes` bytes from p on, while there is time.  A product with one row is as fast as its
 * weights arrive, and the hardware alone does not follow the lines of a block far enough ahead.
 * Past the end of a matrix this asks in vain; it reads nothing. */
GP_INLINE void prefetch_ahead(const uint8_t *p, size_t bytes)
{
    GP_UNROLL
    for (size_t i = 0; i < bytes; i += 64)
        _mm_prefetch((const char *)p + i, _MM_HINT_T0);
}

/* Eight elements of a cache or a float matrix, exactly, as floats. */
GP_INLINE __m256 load_f16(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}

GP_INLINE __m256 load_bf16(const void *p)
{
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(p));

    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

GP_INLINE __m256 load_i8(const void *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p)));
}

/* One half in all lanes. */
GP_INLINE __m256 broadcast_f16(const void *p)
{
    short bits;

    memcpy(&bits, p, sizeof bits);
    return _mm256_cvtph_ps(_mm_set1_epi16(bits));
}

/* The tree of gp_lanes_sum_ref: low holds lanes 0 to 7, high 8 to 15. */
GP_INLINE float lanes_sum(__m256 low, __m256 high)
{
    const __m256 s8 = _mm256_add_ps(low, high);
    const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));

    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}

/* The largest of eight lanes; NaN lanes lose. */
GP_INLINE float lanes_max(__m256 x)
{
    const __m128 m4 = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 m2 = _mm_max_ps(m4, _mm_movehl_ps(m4, m4));

    return _mm_cvtss_f32(_mm_max_ss(m2, _mm_shuffle_ps(m2, m2, 1)));
}

/* Lanes below n (n in [0, 8]) for masked loads and stores. */
GP_INLINE __m256i lanes_below(uint32_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

GP_INLINE __m256 power_of_two(__m256i n)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

/* exp_ref, operation by operation. */
GP_INLINE __m256 exp_avx2(__m256 x)
{
    const __m256 magic = _mm256_set1_ps(GP_EXP_MAGIC);
    __m256 shifted, n, r, p;
    __m256i whole, half;

    x = _mm256_max_ps(_mm256_set1_ps(GP_EXP_LOW), x);
    x = _mm256_min_ps(_mm256_set1_ps(GP_EXP_HIGH), x);
    shifted = _mm256_fmadd_ps(x, _mm256_set1_ps(GP_EXP_LOG2E), magic);
    n = _mm256_sub_ps(shifted, magic);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(GP_EXP_LN2_HIGH), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(GP_EXP_LN2_LOW), r);
    p = _mm256_fmadd_ps(_mm256_set1_ps(GP_EXP_C4), r, _mm256_set1_ps(GP_EXP_C3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(GP_EXP_C2));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(GP_EXP_C1));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(GP_EXP_C0));
    p = _mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r);
    p = _mm256_add_ps(p, _mm256_set1_ps(1.0f));

    whole = _mm256_srai_epi32(_mm256_slli_epi32(_mm256_castps_si256(shifted), 23), 23);
    half = _mm256_srai_epi32(whole, 1);
    p = _mm256_mul_ps(p, power_of_two(half));
    return _mm256_mul_ps(p, power_of_two(_mm256_sub_epi32(whole, half)));
}

#endif
