/* The exponential that every level computes, to the bit.  internal.h has the constants and how they
 * came about; x86/exp_*.h repeats these operations in wide registers. */
#ifndef GP_KERNELS_REF_EXP_H
#define GP_KERNELS_REF_EXP_H

#include <math.h>
#include <string.h>

#include "kernels/internal.h"

static inline float exp_power_of_two(int32_t n) /* n in [-126, 127] */
{
    const uint32_t bits = (uint32_t)(n + 127) << 23;
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Within 1 ulp of exp(x); 0 from -104 down, -inf included; infinity from 89 up.  NaN stays NaN. */
static inline float exp_ref(float x)
{
    float shifted, n, r, p;
    int32_t whole, half;
    uint32_t bits;

    x = GP_EXP_LOW > x ? GP_EXP_LOW : x;
    x = GP_EXP_HIGH < x ? GP_EXP_HIGH : x;
    shifted = fmaf(x, GP_EXP_LOG2E, GP_EXP_MAGIC);
    n = shifted - GP_EXP_MAGIC;
    r = fmaf(n, -GP_EXP_LN2_HIGH, x);
    r = fmaf(n, -GP_EXP_LN2_LOW, r);
    p = fmaf(GP_EXP_C4, r, GP_EXP_C3);
    p = fmaf(p, r, GP_EXP_C2);
    p = fmaf(p, r, GP_EXP_C1);
    p = fmaf(p, r, GP_EXP_C0);
    p = fmaf(p, r * r, r) + 1.0f;

    /* The low nine bits of `shifted` are the whole number n, in two's complement; a NaN has some
     * number there too, and the products below keep it NaN. */
    memcpy(&bits, &shifted, sizeof bits);
    whole = (int32_t)(bits << 23) >> 23;
    half = whole >> 1;
    return p * exp_power_of_two(half) * exp_power_of_two(whole - half);
}

#endif
