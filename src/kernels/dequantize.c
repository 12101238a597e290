/* The definition of every format: file bytes to float. */
#include "kernels/kernels.h"

#include <string.h>

#include "base/assert.h"
#include "kernels/internal.h"

static float half_at(const uint8_t *p)
{
    uint16_t bits;

    memcpy(&bits, p, sizeof bits);
    return gp_f16_to_f32(bits);
}

static void block_q8_0(const uint8_t *b, float *out)
{
    const float d = half_at(b);

    for (uint32_t i = 0; i < 32; i++)
        out[i] = d * (float)(int8_t)b[2 + i];
}

/* What to add where a format has no minimum: unlike +0 it leaves every number as it is, -0 too. */
#define NO_MIN (-0.0f)

/* Q4_0, Q4_1: sixteen bytes, columns 0 to 15 in the low halves, 16 to 31 in the high ones. */
static void block_q4(const uint8_t *qs, float d, float m, int bias, float *out)
{
    for (uint32_t i = 0; i < 16; i++) {
        out[i] = d * (float)((int)(qs[i] & 15) - bias) + m;
        out[i + 16] = d * (float)((int)(qs[i] >> 4) - bias) + m;
    }
}

static void block_q5(const uint8_t *qh, const uint8_t *qs, float d, float m, int bias, float *out)
{
    for (uint32_t i = 0; i < 16; i++) {
        const int low = (qs[i] & 15) | (qh[i / 8] >> (i % 8) & 1) << 4;
        const int high = (qs[i] >> 4) | (qh[2 + i / 8] >> (i % 8) & 1) << 4;

        out[i] = d * (float)(low - bias) + m;
        out[i + 16] = d * (float)(high - bias) + m;
    }
}

static void block_iq4_nl(const uint8_t *b, float *out)
{
    const float d = half_at(b);

    for (uint32_t i = 0; i < 16; i++) {
        out[i] = d * (float)gp_iq4nl_values[b[2 + i] & 15];
        out[i + 16] = d * (float)gp_iq4nl_values[b[2 + i] >> 4];
    }
}

void gp_k_scales_unpack(const uint8_t packed[12], uint8_t scale[8], uint8_t min[8])
{
    for (uint32_t j = 0; j < 4; j++) {
        scale[j] = packed[j] & 63;
        min[j] = packed[j + 4] & 63;
        scale[j + 4] = (uint8_t)((packed[j + 8] & 15) | packed[j] >> 6 << 4);
        min[j + 4] = (uint8_t)(packed[j + 8] >> 4 | packed[j + 4] >> 6 << 4);
    }
}

void gp_k_scales_pack(const uint8_t scale[8], const uint8_t min[8], uint8_t packed[12])
{
    for (uint32_t j = 0; j < 4; j++) {
        packed[j] = (uint8_t)(scale[j] | scale[j + 4] >> 4 << 6);
        packed[j + 4] = (uint8_t)(min[j] | min[j + 4] >> 4 << 6);
        packed[j + 8] = (uint8_t)((scale[j + 4] & 15) | (min[j + 4] & 15) << 4);
    }
}

/* d, dmin, twelve bytes of 6-bit scales and minima, (Q5_K: 32 bytes of fifth bits,) 128 of
 * codes. */
static void block_q45_k(const uint8_t *b, const uint8_t *qh, const uint8_t *qs, float *out)
{
    const float d = half_at(b);
    const float dmin = half_at(b + 2);
    uint8_t scale[8], min[8];

    gp_k_scales_unpack(b + 4, scale, min);
    for (uint32_t j = 0; j < 8; j++) {
        for (uint32_t i = 0; i < 32; i++) {
            uint32_t code = qs[j / 2 * 32 + i] >> (j % 2 * 4) & 15u;

            if (qh)
                code |= (qh[i] >> j & 1u) << 4;
            out[j * 32 + i] = d * (float)scale[j] * (float)code - dmin * (float)min[j];
        }
    }
}

static void block_q6_k(const uint8_t *b, float *out)
{
    const float d = half_at(b + 208);
    int8_t scale[16];

    memcpy(scale, b + 192, sizeof scale);
    for (uint32_t i = 0; i < 256; i++) {
        const uint32_t half = i / 128, quarter = i / 32 % 4;
        const uint8_t low = b[half * 64 + quarter % 2 * 32 + i % 32];
        const uint8_t high = b[128 + half * 32 + i % 32];
        const int code = (low >> (quarter / 2 * 4) & 15) | (high >> (quarter * 2) & 3) << 4;

        out[i] = d * (float)scale[i / 16] * (float)(code - 32);
    }
}

static void block_to_float(enum gp_type type, const uint8_t *b, float *out)
{
    uint16_t bits;

    switch (type) {
    case GP_TYPE_F32:
        memcpy(out, b, sizeof *out);
        break;
    case GP_TYPE_F16:
        *out = half_at(b);
        break;
    case GP_TYPE_BF16:
        memcpy(&bits, b, sizeof bits);
        *out = gp_bf16_to_f32(bits);
        break;
    case GP_TYPE_Q8_0:
        block_q8_0(b, out);
        break;
    case GP_TYPE_Q4_0:
        block_q4(b + 2, half_at(b), NO_MIN, 8, out);
        break;
    case GP_TYPE_Q4_1:
        block_q4(b + 4, half_at(b), half_at(b + 2), 0, out);
        break;
    case GP_TYPE_Q5_0:
        block_q5(b + 2, b + 6, half_at(b), NO_MIN, 16, out);
        break;
    case GP_TYPE_Q5_1:
        block_q5(b + 4, b + 8, half_at(b), half_at(b + 2), 0, out);
        break;
    case GP_TYPE_IQ4_NL:
        block_iq4_nl(b, out);
        break;
    case GP_TYPE_Q4_K:
        block_q45_k(b, NULL, b + 16, out);
        break;
    case GP_TYPE_Q5_K:
        block_q45_k(b, b + 16, b + 48, out);
        break;
    case GP_TYPE_Q6_K:
        block_q6_k(b, out);
        break;
    }
}

void gp_dequantize(enum gp_type type, const void *blocks, size_t n, float *out)
{
    const struct gp_type_info *info = gp_type_info(type);
    const uint8_t *b = blocks;

    gp_assert(info && n % info->block_elems == 0);
    for (size_t i = 0; i < n; i += info->block_elems, b += info->block_bytes)
        block_to_float(type, b, out + i);
}
