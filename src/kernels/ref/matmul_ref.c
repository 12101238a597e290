/* Definitions: quantised activations, and the product of a packed matrix with rows of
 * activations. */
#include <math.h>
#include <string.h>

#include "kernels/internal.h"
#include "kernels/ref/ref.h"

/* ---- activations ---- */

static float scale_of(const float *x, uint32_t n)
{
    float max = 0.0f;

    for (uint32_t i = 0; i < n; i++)
        max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
    return max / 127.0f;
}

/* Code = x / scale, cut to [-127, 127] (a subnormal scale is coarse, and a number that is none
 * becomes -127), rounded half to even.  Scale 0: codes 0. */
static void codes_of(const float *x, uint32_t n, float scale, int8_t *q)
{
    if (scale == 0.0f) {
        memset(q, 0, n);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        float v = x[i] / scale;
        uint32_t bits;

        v = v > -127.0f ? v : -127.0f;
        v = v < 127.0f ? v : 127.0f;
        v += GP_ROUND_MAGIC;
        memcpy(&bits, &v, sizeof bits);
        q[i] = (int8_t)(uint8_t)bits;
    }
}

/* One block: scale = max |x| / 127. */
static void quantize_block(const float *x, uint32_t n, int8_t *q, float *scale, int32_t *sum)
{
    *scale = scale_of(x, n);
    codes_of(x, n, *scale, q);
    memset(sum, 0, n / 32 * sizeof *sum);
    for (uint32_t i = 0; i < n; i++)
        sum[i / 32] += q[i];
}

/* The scale is rounded first, and the codes are those of the rounded one.  Past 127 * 65504 it is
 * infinite, and the block's elements are infinite or no numbers. */
uint16_t gp_quantize_half_ref(const float *x, int8_t q[32])
{
    const uint16_t scale = gp_f32_to_f16(scale_of(x, 32));

    codes_of(x, 32, gp_f16_to_f32(scale), q);
    return scale;
}

static void quantize(const struct gp_activations *a, uint32_t row_begin, uint32_t row_end)
{
    const uint32_t n = a->kind == GP_ACTIVATION_Q8_K ? 256 : 32;

    if (a->kind == GP_ACTIVATION_F32)
        return;
    for (uint32_t r = row_begin; r < row_end; r++)
        for (uint32_t i = 0; i < a->k; i += n) {
            const size_t at = (size_t)r * a->k + i;

            quantize_block(a->x + r * a->x_stride + i, n, a->q + at, a->scale + at / n,
                           a->sum + at / 32);
        }
}

/* ---- block formats ---- */

/* One block of one row, ready for a product: sum over j of
 *   d * sub[j] * (codes of part j) + m * min[j] * (ones of the 32 columns j). */
struct block {
    int8_t code[256];
    uint32_t part_elems; /* columns of a part */
    uint32_t elems;
    int32_t sub[16];
    int32_t min[8];
    float d, m;
    bool has_min;
};

static float half_at(const uint8_t *p)
{
    uint16_t bits;

    memcpy(&bits, p, sizeof bits);
    return gp_f16_to_f32(bits);
}

static void codes_q4(const uint8_t *codes, struct block *out)
{
    for (uint32_t i = 0; i < 32; i++)
        out->code[i] = (int8_t)(codes[i % 16] >> (i / 16 * 4) & 15);
}

static void codes_q5(const uint8_t *codes, struct block *out)
{
    codes_q4(codes, out);
    for (uint32_t i = 0; i < 32; i++)
        out->code[i] = (int8_t)(out->code[i] | (codes[16 + i % 4] >> (i / 4) & 1) << 4);
}

static void codes_k(const uint8_t *codes, const uint8_t *fifth, struct block *out)
{
    for (uint32_t i = 0; i < 256; i++) {
        int code = codes[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15;

        if (fifth)
            code |= (fifth[i % 32] >> (i / 32) & 1) << 4;
        out->code[i] = (int8_t)code;
    }
}

static void codes_q6_k(const uint8_t *codes, struct block *out)
{
    for (uint32_t i = 0; i < 256; i++) {
        const uint32_t half = i / 128, quarter = i / 32 % 4;
        const int low = codes[half * 64 + quarter % 2 * 32 + i % 32] >> (quarter / 2 * 4) & 15;
        const int high = codes[128 + half * 32 + i % 32] >> (quarter * 2) & 3;

        out->code[i] = (int8_t)((low | high << 4) - 32);
    }
}

static void block_decode(enum gp_type type, const uint8_t *codes, const uint8_t *scales,
                         struct block *out)
{
    int bias = 0;

    *out = (struct block){.part_elems = 32, .elems = 32, .sub = {1}, .min = {1}};
    out->d = half_at(scales);
    switch (type) {
    case GP_TYPE_Q8_0:
        memcpy(out->code, codes, 32);
        break;
    case GP_TYPE_Q4_1:
        out->has_min = true;
        codes_q4(codes, out);
        break;
    case GP_TYPE_Q4_0:
        bias = 8;
        codes_q4(codes, out);
        break;
    case GP_TYPE_IQ4_NL:
        codes_q4(codes, out);
        for (uint32_t i = 0; i < 32; i++)
            out->code[i] = gp_iq4nl_values[out->code[i]];
        break;
    case GP_TYPE_Q5_1:
        out->has_min = true;
        codes_q5(codes, out);
        break;
    case GP_TYPE_Q5_0:
        bias = 16;
        codes_q5(codes, out);
        break;
    case GP_TYPE_Q4_K:
    case GP_TYPE_Q5_K:
        out->has_min = true;
        out->elems = 256;
        codes_k(codes, type == GP_TYPE_Q5_K ? codes + 128 : NULL, out);
        for (uint32_t j = 0; j < 8; j++) {
            out->sub[j] = scales[4 + j];
            out->min[j] = scales[12 + j];
        }
        break;
    case GP_TYPE_Q6_K:
        out->elems = 256;
        out->part_elems = 16;
        codes_q6_k(codes, out);
        for (uint32_t j = 0; j < 16; j++)
            out->sub[j] = (int8_t)scales[2 + j];
        break;
    default:
        break;
    }
    if (out->has_min) { /* the K formats take their minima away */
        out->m = half_at(scales + 2);
        if (out->elems == 256)
            out->m = -out->m;
    }
    for (uint32_t i = 0; i < out->elems; i++)
        out->code[i] = (int8_t)(out->code[i] - bias);
}

/* What one block adds to one element of the result.  Both sums are exact in int32: at most
 * 16 * 128 * 16 * 32 * 127 < 2^28 (Q6_K). */
static float block_add(const struct block *w, const int8_t *q, float scale, const int32_t *sum,
                       float acc)
{
    int32_t products = 0, minima = 0;

    for (uint32_t i = 0; i < w->elems; i += w->part_elems) {
        int32_t part = 0;

        for (uint32_t j = i; j < i + w->part_elems; j++)
            part += w->code[j] * q[j];
        products += w->sub[i / w->part_elems] * part;
    }
    acc = fmaf(w->d * scale, (float)products, acc);
    if (!w->has_min)
        return acc;
    for (uint32_t j = 0; j < w->elems / 32; j++)
        minima += w->min[j] * sum[j];
    return fmaf(w->m * scale, (float)minima, acc);
}

static void lane_get(const uint8_t *group, uint32_t lane, uint8_t *bytes, uint32_t count,
                     uint32_t unit)
{
    for (uint32_t i = 0; i < count; i++)
        bytes[i] = group[(i / unit * GP_MATRIX_ROWS + lane) * unit + i % unit];
}

static void matmul_blocks(const struct gp_matrix *w, const struct gp_activations *a, float *y,
                          size_t y_stride, uint32_t out_begin, uint32_t out_end)
{
    const struct gp_layout l = gp_layout_of(w->type);
    const uint32_t elems = gp_type_info(w->type)->block_elems;
    const uint32_t block_count = w->n_in / elems;
    uint8_t codes[192], scales[20];
    struct block block;

    for (uint32_t o = out_begin; o < out_end; o++) {
        const uint8_t *group = gp_matrix_group(w, o);
        const uint8_t *group_scales = group + (size_t)block_count * GP_MATRIX_ROWS * l.code_bytes;

        for (uint32_t r = 0; r < a->row_count; r++)
            y[r * y_stride + o] = 0.0f;
        for (uint32_t b = 0; b < block_count; b++) {
            lane_get(group + (size_t)b * GP_MATRIX_ROWS * l.code_bytes, o % GP_MATRIX_ROWS, codes,
                     l.code_bytes, 4);
            lane_get(group_scales + (size_t)b * GP_MATRIX_ROWS * l.scale_bytes, o % GP_MATRIX_ROWS,
                     scales, l.scale_bytes, 2);
            block_decode(w->type, codes, scales, &block);
            for (uint32_t r = 0; r < a->row_count; r++) {
                const size_t at = (size_t)r * w->n_in + (size_t)b * elems;

                y[r * y_stride + o] = block_add(&block, a->q + at, a->scale[at / elems],
                                                a->sum + at / 32, y[r * y_stride + o]);
            }
        }
    }
}

/* ---- float formats ---- */

static float weight_at(const struct gp_matrix *w, const uint8_t *group, uint32_t lane, uint32_t i)
{
    const size_t at = (size_t)i * GP_MATRIX_ROWS + lane;
    uint16_t bits;
    float value;

    if (w->type == GP_TYPE_F32) {
        memcpy(&value, group + at * 4, sizeof value);
        return value;
    }
    memcpy(&bits, group + at * 2, sizeof bits);
    return w->type == GP_TYPE_F16 ? gp_f16_to_f32(bits) : gp_bf16_to_f32(bits);
}

/* One chain of fmaf over the columns.  With a lane for every row that is also the fast order. */
static void matmul_floats(const struct gp_matrix *w, const struct gp_activations *a, float *y,
                          size_t y_stride, uint32_t out_begin, uint32_t out_end)
{
    for (uint32_t o = out_begin; o < out_end; o++) {
        const uint8_t *group = gp_matrix_group(w, o);

        for (uint32_t r = 0; r < a->row_count; r++) {
            const float *x = a->x + r * a->x_stride;
            float acc = 0.0f;

            for (uint32_t i = 0; i < w->n_in; i++)
                acc = fmaf(weight_at(w, group, o % GP_MATRIX_ROWS, i), x[i], acc);
            y[r * y_stride + o] = acc;
        }
    }
}

static void matmul(const struct gp_matrix *w, const struct gp_activations *a, float *y,
                   size_t y_stride, uint32_t out_begin, uint32_t out_end)
{
    if (gp_type_info(w->type)->activation == GP_ACTIVATION_F32)
        matmul_floats(w, a, y, y_stride, out_begin, out_end);
    else
        matmul_blocks(w, a, y, y_stride, out_begin, out_end);
}

void gp_matmul_init_ref(struct gp_kernels *k)
{
    k->quantize = quantize;
    k->matmul = matmul;
}
