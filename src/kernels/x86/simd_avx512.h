/* Wide pieces that the AVX-512 files share.  Included by *_avx512.c only.  A register holds the
 * sixteen lanes of the definitions; rows that end inside one are cut by a mask. */
#ifndef GP_KERNELS_X86_SIMD_AVX512_H
#define GP_KERNELS_X86_SIMD_AVX512_H

#include "kernels/x86/simd_avx2.h"

/* The lanes that a row with `left` elements to go still fills. */
GP_INLINE __mmask16 lanes_left(uint32_t left)
{
    return left < 16 ? (__mmask16)((1u << left) - 1) : 0xffff;
}

/* Sixteen elements of a cache or a float matrix, exactly, as floats.  Lanes outside the mask are
 * not read and become 0. */
GP_INLINE __m512 load_f16_masked(__mmask16 mask, const void *p)
{
    return _mm512_maskz_cvtph_ps(mask, _mm256_maskz_loadu_epi16(mask, p));
}

GP_INLINE __m512 load_bf16_masked(__mmask16 mask, const void *p)
{
    const __m512i wide = _mm512_maskz_cvtepu16_epi32(mask, _mm256_maskz_loadu_epi16(mask, p));

    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

GP_INLINE __m512 load_i8x16(const void *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p)));
}

/* One half in all lanes. */
GP_INLINE __m512 broadcast_f16x16(const void *p)
{
    short bits;

    memcpy(&bits, p, sizeof bits);
    return _mm512_cvtph_ps(_mm256_set1_epi16(bits));
}

/* The tree of gp_lanes_sum_ref. */
GP_INLINE float lanes_sum16(__m512 x)
{
    return lanes_sum(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
}

/* The largest of sixteen lanes; NaN lanes lose. */
GP_INLINE float lanes_max16(__m512 x)
{
    return lanes_max(_mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1)));
}

/* exp_ref, operation by operation; VSCALEFPS rounds once where the definition's two products round
 * once, for the first of them is exact. */
GP_INLINE __m512 exp_avx512(__m512 x)
{
    const __m512 magic = _mm512_set1_ps(GP_EXP_MAGIC);
    __m512 n, r, p;

    x = _mm512_max_ps(_mm512_set1_ps(GP_EXP_LOW), x);
    x = _mm512_min_ps(_mm512_set1_ps(GP_EXP_HIGH), x);
    n = _mm512_sub_ps(_mm512_fmadd_ps(x, _mm512_set1_ps(GP_EXP_LOG2E), magic), magic);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(GP_EXP_LN2_HIGH), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(GP_EXP_LN2_LOW), r);
    p = _mm512_fmadd_ps(_mm512_set1_ps(GP_EXP_C4), r, _mm512_set1_ps(GP_EXP_C3));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(GP_EXP_C2));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(GP_EXP_C1));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(GP_EXP_C0));
    p = _mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r);
    p = _mm512_add_ps(p, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, n);
}

#endif
