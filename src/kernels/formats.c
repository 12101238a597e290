/* Number formats: what each type id means, and the exact conversions of 16-bit floats. */
#include "kernels/kernels.h"

#include <string.h>

#include "kernels/internal.h"

/* clang-format off */
static const struct {
    uint32_t type;
    struct gp_type_info info;
} supported[] = {
    {GP_TYPE_F32,    {"F32",    1,   4,   GP_ACTIVATION_F32}},
    {GP_TYPE_F16,    {"F16",    1,   2,   GP_ACTIVATION_F32}},
    {GP_TYPE_BF16,   {"BF16",   1,   2,   GP_ACTIVATION_F32}},
    {GP_TYPE_Q8_0,   {"Q8_0",   32,  34,  GP_ACTIVATION_Q8}},
    {GP_TYPE_Q4_0,   {"Q4_0",   32,  18,  GP_ACTIVATION_Q8}},
    {GP_TYPE_Q4_1,   {"Q4_1",   32,  20,  GP_ACTIVATION_Q8}},
    {GP_TYPE_Q5_0,   {"Q5_0",   32,  22,  GP_ACTIVATION_Q8}},
    {GP_TYPE_Q5_1,   {"Q5_1",   32,  24,  GP_ACTIVATION_Q8}},
    {GP_TYPE_IQ4_NL, {"IQ4_NL", 32,  18,  GP_ACTIVATION_Q8}},
    {GP_TYPE_Q4_K,   {"Q4_K",   256, 144, GP_ACTIVATION_Q8_K}},
    {GP_TYPE_Q5_K,   {"Q5_K",   256, 176, GP_ACTIVATION_Q8_K}},
    {GP_TYPE_Q6_K,   {"Q6_K",   256, 210, GP_ACTIVATION_Q8_K}},
};

/* Every id that GGUF has given out.  Removed ones keep their names, for messages. */
static const char *const names[] = {
    [0] = "F32",      [1] = "F16",      [2] = "Q4_0",     [3] = "Q4_1",     [4] = "Q4_2",
    [5] = "Q4_3",     [6] = "Q5_0",     [7] = "Q5_1",     [8] = "Q8_0",     [9] = "Q8_1",
    [10] = "Q2_K",    [11] = "Q3_K",    [12] = "Q4_K",    [13] = "Q5_K",    [14] = "Q6_K",
    [15] = "Q8_K",    [16] = "IQ2_XXS", [17] = "IQ2_XS",  [18] = "IQ3_XXS", [19] = "IQ1_S",
    [20] = "IQ4_NL",  [21] = "IQ3_S",   [22] = "IQ2_S",   [23] = "IQ4_XS",  [24] = "I8",
    [25] = "I16",     [26] = "I32",     [27] = "I64",     [28] = "F64",     [29] = "IQ1_M",
    [30] = "BF16",    [31] = "Q4_0_4_4", [32] = "Q4_0_4_8", [33] = "Q4_0_8_8", [34] = "TQ1_0",
    [35] = "TQ2_0",   [36] = "IQ4_NL_4_4", [37] = "IQ4_NL_4_8", [38] = "IQ4_NL_8_8",
    [39] = "MXFP4",   [40] = "NVFP4",   [41] = "Q1_0",    [42] = "Q2_0",
};
/* clang-format on */

const int8_t gp_iq4nl_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                    1,    13,   25,  38,  53,  69,  89,  113};

const struct gp_type_info *gp_type_info(uint32_t type)
{
    for (size_t i = 0; i < sizeof supported / sizeof *supported; i++)
        if (supported[i].type == type)
            return &supported[i].info;
    return NULL;
}

const char *gp_type_name(uint32_t type)
{
    return type < sizeof names / sizeof *names ? names[type] : NULL;
}

static float float_of_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of_float(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

float gp_f16_to_f32(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    const uint32_t rest = bits & 0x7fffu;

    if (rest > 0x7c00u) /* NaN, made quiet as the hardware does */
        return float_of_bits(sign | 0x7fc00000u | (rest & 0x3ffu) << 13);
    if (rest == 0x7c00u)
        return float_of_bits(sign | 0x7f800000u);
    if (rest < 0x400u) /* subnormal: a whole number of 2^-24 */
        return float_of_bits(sign | bits_of_float((float)rest * 0x1p-24f));
    return float_of_bits(sign | ((rest << 13) + ((127u - 15u) << 23)));
}

uint16_t gp_f32_to_f16(float value)
{
    const uint32_t bits = bits_of_float(value);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t rest = bits & 0x7fffffffu;

    if (rest > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | ((rest >> 13) & 0x3ffu));
    if (rest >= 0x477ff000u) /* 65520, halfway past the largest half, and up */
        return (uint16_t)(sign | 0x7c00u);
    if (rest < 0x38800000u) { /* below 2^-14: adding 0.5 leaves units of 2^-24, rounded to even */
        const float shifted = float_of_bits(rest) + 0.5f;

        return (uint16_t)(sign | (bits_of_float(shifted) - 0x3f000000u));
    }
    return (uint16_t)(sign | ((rest + 0xfffu + ((rest >> 13) & 1u) - ((127u - 15u) << 23)) >> 13));
}

float gp_bf16_to_f32(uint16_t bits)
{
    return float_of_bits((uint32_t)bits << 16);
}

uint16_t gp_f32_to_bf16(float value)
{
    const uint32_t bits = bits_of_float(value);

    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
