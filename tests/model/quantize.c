#include "model/quantize.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"

static void put_half(uint8_t *at, float value)
{
    uint16_t bits = gp_f32_to_f16(value);

    memcpy(at, &bits, sizeof bits);
}

/* The scale that a reader will see. */
static float as_half(float value)
{
    return gp_f16_to_f32(gp_f32_to_f16(value));
}

static int nearest(float value, int low, int high)
{
    long rounded = lrintf(value);

    return rounded < low ? low : rounded > high ? high : (int)rounded;
}

static float inverse(float d)
{
    return d != 0.0f ? 1.0f / d : 0.0f;
}

/* The element of largest magnitude, with its sign. */
static float extreme(const float *x, uint32_t n)
{
    float best = 0.0f;

    for (uint32_t i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(best))
            best = x[i];
    return best;
}

/* Codes low..high with low = -(high + 1): the extreme lies on the far end of the range, low, or
 * half a step inside it, whichever errs less. */
static float symmetric_scale(const float *x, uint32_t n, int high, bool half)
{
    static const float stretch[] = {0.0f, -0.5f};
    float peak = extreme(x, n), best = 0.0f, best_error = FLT_MAX;

    for (uint32_t c = 0; c < sizeof stretch / sizeof *stretch; c++) {
        float d = -peak / ((float)(high + 1) + stretch[c]), error = 0.0f;

        if (half)
            d = as_half(d);
        float id = inverse(d);

        for (uint32_t i = 0; i < n; i++) {
            float miss = x[i] - d * (float)nearest(x[i] * id, -high - 1, high);

            error += miss * miss;
        }
        if (error < best_error) {
            best_error = error;
            best = d;
        }
    }
    return best;
}

static void range(const float *x, uint32_t n, float *min, float *max)
{
    *min = *max = x[0];
    for (uint32_t i = 1; i < n; i++) {
        *min = x[i] < *min ? x[i] : *min;
        *max = x[i] > *max ? x[i] : *max;
    }
}

/* ---- blocks of 32 ---- */

static void block_q8_0(const float *x, uint8_t *b)
{
    float d = as_half(fabsf(extreme(x, 32)) / 127.0f), id = inverse(d);

    put_half(b, d);
    for (uint32_t i = 0; i < 32; i++)
        b[2 + i] = (uint8_t)(int8_t)nearest(x[i] * id, -127, 127);
}

/* Element i lies in the low half of byte i, element i + 16 in the high half; a fifth bit of
 * element i is bit i of the four bytes before. */
static void pack_codes(const uint8_t code[32], uint8_t *high, uint8_t *low)
{
    for (uint32_t i = 0; i < 16; i++)
        low[i] = (uint8_t)((code[i] & 15) | (code[i + 16] & 15) << 4);
    if (!high)
        return;
    memset(high, 0, 4);
    for (uint32_t i = 0; i < 32; i++)
        high[i / 8] |= (uint8_t)((code[i] >> 4) << (i % 8));
}

static void block_symmetric(const float *x, uint8_t *b, int bits)
{
    int high = (1 << (bits - 1)) - 1;
    float d = symmetric_scale(x, 32, high, true), id = inverse(d);
    uint8_t code[32];

    put_half(b, d);
    for (uint32_t i = 0; i < 32; i++)
        code[i] = (uint8_t)(nearest(x[i] * id, -high - 1, high) + high + 1);
    pack_codes(code, bits == 5 ? b + 2 : NULL, bits == 5 ? b + 6 : b + 2);
}

static void block_with_min(const float *x, uint8_t *b, int bits)
{
    int top = (1 << bits) - 1;
    float min, max;
    uint8_t code[32];

    range(x, 32, &min, &max);
    float d = as_half((max - min) / (float)top), id = inverse(d), m = as_half(min);

    put_half(b, d);
    put_half(b + 2, m);
    for (uint32_t i = 0; i < 32; i++)
        code[i] = (uint8_t)nearest((x[i] - m) * id, 0, top);
    pack_codes(code, bits == 5 ? b + 4 : NULL, bits == 5 ? b + 8 : b + 4);
}

static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};

static uint8_t nearest_iq4(float value)
{
    uint8_t best = 0;

    for (uint8_t i = 1; i < 16; i++)
        if (fabsf(value - (float)iq4_values[i]) < fabsf(value - (float)iq4_values[best]))
            best = i;
    return best;
}

static void block_iq4_nl(const float *x, uint8_t *b)
{
    static const float ends[] = {-127.0f, 113.0f, -115.0f, -104.0f};
    float peak = extreme(x, 32), best_error = FLT_MAX;

    for (uint32_t c = 0; c < sizeof ends / sizeof *ends; c++) {
        float d = as_half(peak / ends[c]), id = inverse(d), error = 0.0f;
        uint8_t code[32];

        for (uint32_t i = 0; i < 32; i++) {
            code[i] = nearest_iq4(x[i] * id);
            float miss = x[i] - d * (float)iq4_values[code[i]];

            error += miss * miss;
        }
        if (error < best_error) {
            best_error = error;
            put_half(b, d);
            pack_codes(code, NULL, b + 2);
        }
    }
}

/* ---- blocks of 256 ---- */

/* Six bits each: the first four scales and minima in bytes 0-3 and 4-7, of the others the low four
 * bits in bytes 8-11 and the high two on top of the first. */
static void pack_scales(const uint8_t scale[8], const uint8_t min[8], uint8_t *packed)
{
    for (uint32_t j = 0; j < 4; j++) {
        packed[j] = (uint8_t)(scale[j] | (scale[j + 4] >> 4) << 6);
        packed[j + 4] = (uint8_t)(min[j] | (min[j + 4] >> 4) << 6);
        packed[j + 8] = (uint8_t)((scale[j + 4] & 15) | (min[j + 4] & 15) << 4);
    }
}

/* An element is d * scale * code - dmin * min. */
static void block_k_with_min(const float *x, uint8_t *b, int bits)
{
    int top = (1 << bits) - 1;
    float scale[8], min[8], scale_max = 0.0f, min_max = 0.0f;
    uint8_t scale_code[8], min_code[8], *fifth = bits == 5 ? b + 16 : NULL;
    uint8_t *codes = bits == 5 ? b + 48 : b + 16;

    for (uint32_t j = 0; j < 8; j++) {
        float low, high;

        range(x + 32 * j, 32, &low, &high);
        low = low < 0.0f ? low : 0.0f; /* a minimum can only be taken away */
        high = high > low ? high : low;
        scale[j] = (high - low) / (float)top;
        min[j] = -low;
        scale_max = fmaxf(scale_max, scale[j]);
        min_max = fmaxf(min_max, min[j]);
    }
    float d = as_half(scale_max / 63.0f), dmin = as_half(min_max / 63.0f);

    memset(codes, 0, 128);
    if (fifth)
        memset(fifth, 0, 32);
    for (uint32_t j = 0; j < 8; j++) {
        scale_code[j] = (uint8_t)nearest(scale[j] * inverse(d), 0, 63);
        min_code[j] = (uint8_t)nearest(min[j] * inverse(dmin), 0, 63);
        float step = inverse(d * (float)scale_code[j]), shift = dmin * (float)min_code[j];

        for (uint32_t i = 0; i < 32; i++) {
            int code = nearest((x[32 * j + i] + shift) * step, 0, top);

            codes[j / 2 * 32 + i] |= (uint8_t)((code & 15) << (j % 2 * 4));
            if (fifth)
                fifth[i] |= (uint8_t)((code >> 4) << j);
        }
    }
    put_half(b, d);
    put_half(b + 2, dmin);
    pack_scales(scale_code, min_code, b + 4);
}

static void block_q6_k(const float *x, uint8_t *b)
{
    float scale[16], scale_max = 0.0f;

    for (uint32_t j = 0; j < 16; j++) {
        scale[j] = symmetric_scale(x + 16 * j, 16, 31, false);
        scale_max = fmaxf(scale_max, fabsf(scale[j]));
    }
    float d = as_half(scale_max / 127.0f);

    memset(b, 0, 192);
    for (uint32_t j = 0; j < 16; j++) {
        int scale_code = nearest(scale[j] * inverse(d), -127, 127);
        float step = inverse(d * (float)scale_code);

        b[192 + j] = (uint8_t)(int8_t)scale_code;
        for (uint32_t i = 16 * j; i < 16 * j + 16; i++) {
            /* Halves of 128; in each, four quarters of 32 share 64 bytes of low and 32 of high
             * bits. */
            uint32_t half = i / 128, quarter = i / 32 % 4, column = i % 32;
            int code = nearest(x[i] * step, -32, 31) + 32;

            b[half * 64 + quarter % 2 * 32 + column] |= (uint8_t)((code & 15) << (quarter / 2 * 4));
            b[128 + half * 32 + column] |= (uint8_t)((code >> 4) << (quarter * 2));
        }
    }
    put_half(b + 208, d);
}

static void quantize_block(enum gp_type type, const float *x, uint8_t *b)
{
    uint16_t bits;

    switch (type) {
    case GP_TYPE_F32:
        memcpy(b, x, sizeof *x);
        break;
    case GP_TYPE_F16:
        put_half(b, *x);
        break;
    case GP_TYPE_BF16:
        bits = gp_f32_to_bf16(*x);
        memcpy(b, &bits, sizeof bits);
        break;
    case GP_TYPE_Q8_0:
        block_q8_0(x, b);
        break;
    case GP_TYPE_Q4_0:
        block_symmetric(x, b, 4);
        break;
    case GP_TYPE_Q5_0:
        block_symmetric(x, b, 5);
        break;
    case GP_TYPE_Q4_1:
        block_with_min(x, b, 4);
        break;
    case GP_TYPE_Q5_1:
        block_with_min(x, b, 5);
        break;
    case GP_TYPE_IQ4_NL:
        block_iq4_nl(x, b);
        break;
    case GP_TYPE_Q4_K:
        block_k_with_min(x, b, 4);
        break;
    case GP_TYPE_Q5_K:
        block_k_with_min(x, b, 5);
        break;
    case GP_TYPE_Q6_K:
        block_q6_k(x, b);
        break;
    }
}

void test_quantize(enum gp_type type, const float *x, size_t n, void *blocks)
{
    const struct gp_type_info *info = gp_type_info(type);
    uint8_t *b = blocks;

    gp_assert(info && n % info->block_elems == 0);
    for (size_t i = 0; i < n; i += info->block_elems, b += info->block_bytes)
        quantize_block(type, x + i, b);
}
