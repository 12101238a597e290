/* The integers modulo the largest prime p below 2^62 with p % 4 == 1, so that -1 has a root. */
#ifndef GP_EVAL_ANSWER_FIELD_H
#define GP_EVAL_ANSWER_FIELD_H

#include <stdint.h>

#define GP_FIELD_P ((UINT64_C(1) << 62) - 87)
#define GP_FIELD_I UINT64_C(4490822397581186023) /* its square is -1 */

static inline uint64_t gp_field_add(uint64_t a, uint64_t b)
{
    uint64_t sum = a + b;

    return sum >= GP_FIELD_P ? sum - GP_FIELD_P : sum;
}

static inline uint64_t gp_field_negative(uint64_t a)
{
    return a == 0 ? 0 : GP_FIELD_P - a;
}

static inline uint64_t gp_field_mul(uint64_t a, uint64_t b)
{
    return (uint64_t)((unsigned __int128)a * b % GP_FIELD_P);
}

static inline uint64_t gp_field_power(uint64_t a, uint64_t exponent)
{
    uint64_t power = 1;

    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1)
            power = gp_field_mul(power, a);
        a = gp_field_mul(a, a);
    }
    return power;
}

/* a != 0 */
static inline uint64_t gp_field_inverse(uint64_t a)
{
    return gp_field_power(a, GP_FIELD_P - 2);
}

#endif
