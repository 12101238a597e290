/* Definitions: the paged cache, attention over it, and the scores that policies ask for. */
#include <math.h>
#include <string.h>

#include "kernels/internal.h"
#include "kernels/ref/exp.h"
#include "kernels/ref/ref.h"

static float elem_get(enum gp_kv_type type, const uint8_t *block, size_t index)
{
    uint16_t bits;
    float value;

    if (type == GP_KV_F32) {
        memcpy(&value, block + index * 4, sizeof value);
        return value;
    }
    memcpy(&bits, block + index * 2, sizeof bits);
    return type == GP_KV_F16 ? gp_f16_to_f32(bits) : gp_bf16_to_f32(bits);
}

void gp_kv_load(const struct gp_kv_view *kv, uint32_t slot, float *key, float *value)
{
    const uint8_t *block = gp_kv_block(kv, slot);

    for (uint32_t i = 0; i < kv->k_dim; i++)
        key[i] = elem_get(kv->type, block, gp_kv_key_index(kv, slot % kv->page_tokens, i));
    for (uint32_t j = 0; value && j < kv->v_dim; j++)
        value[j] = elem_get(kv->type, block, gp_kv_value_index(kv, slot % kv->page_tokens) + j);
}

static void elem_put(enum gp_kv_type type, uint8_t *block, size_t index, float value)
{
    uint16_t bits;

    if (type == GP_KV_F32) {
        memcpy(block + index * 4, &value, sizeof value);
        return;
    }
    bits = type == GP_KV_F16 ? gp_f32_to_f16(value) : gp_f32_to_bf16(value);
    memcpy(block + index * 2, &bits, sizeof bits);
}

static void kv_store(const struct gp_kv_view *kv, uint32_t slot, const float *k, const float *v)
{
    const uint32_t in_page = slot % kv->page_tokens;
    uint8_t *block = gp_kv_block(kv, slot);

    for (uint32_t i = 0; i < kv->k_dim; i++)
        elem_put(kv->type, block, gp_kv_key_index(kv, in_page, i), k[i]);
    for (uint32_t j = 0; j < kv->v_dim; j++)
        elem_put(kv->type, block, gp_kv_value_index(kv, in_page) + j, v[j]);
}

static void kv_move(const struct gp_kv_view *kv, const struct gp_move *moves, uint32_t count)
{
    const size_t size = gp_kv_elem_bytes(kv->type);

    for (uint32_t m = 0; m < count; m++) {
        const uint32_t from = moves[m].from % kv->page_tokens, to = moves[m].to % kv->page_tokens;
        const uint8_t *source = gp_kv_block(kv, moves[m].from);
        uint8_t *target = gp_kv_block(kv, moves[m].to);

        if (moves[m].from == moves[m].to)
            continue;
        for (uint32_t i = 0; i < kv->k_dim; i++)
            memcpy(target + gp_kv_key_index(kv, to, i) * size,
                   source + gp_kv_key_index(kv, from, i) * size, size);
        memcpy(target + gp_kv_value_index(kv, to) * size,
               source + gp_kv_value_index(kv, from) * size, kv->v_dim * size);
    }
}

/* (q . key) * scale: one chain of fmaf over the key's elements, from 0. */
static float score_of(const struct gp_kv_view *kv, const float *q, uint32_t slot, float scale)
{
    const uint8_t *block = gp_kv_block(kv, slot);
    float acc = 0.0f;

    for (uint32_t i = 0; i < kv->k_dim; i++)
        acc = fmaf(q[i], elem_get(kv->type, block, gp_kv_key_index(kv, slot % kv->page_tokens, i)),
                   acc);
    return acc * scale;
}

static void kv_scores(const struct gp_kv_view *kv, const float *q, uint32_t begin, uint32_t end,
                      float scale, float *out)
{
    for (uint32_t slot = begin; slot < end; slot++)
        out[slot - begin] = score_of(kv, q, slot, scale);
}

/* Sum over the slots of a split, in slot order, of weight times value element j. */
static float weighted_value(const struct gp_kv_view *kv, const float *weight, uint32_t begin,
                            uint32_t end, uint32_t j)
{
    float acc = 0.0f;

    for (uint32_t slot = begin; slot < end; slot++) {
        const size_t index = gp_kv_value_index(kv, slot % kv->page_tokens) + j;

        acc = fmaf(weight[slot - begin], elem_get(kv->type, gp_kv_block(kv, slot), index), acc);
    }
    return acc;
}

/* One query over one head.  Split by split: maximum, exp, sum, values; the first split is taken
 * as it is, every later one is merged with what came before under the larger of the two maxima. */
static void attend(const struct gp_kv_view *kv, const float *q, uint32_t visible, float scale,
                   float *out, float *weight)
{
    float total_max = 0.0f, total_sum = 0.0f;

    for (uint32_t begin = 0; begin < visible; begin += GP_ATTENTION_SPLIT) {
        const uint32_t left = visible - begin;
        const uint32_t n = left < GP_ATTENTION_SPLIT ? left : GP_ATTENTION_SPLIT;
        float max, sum, old_factor = 0.0f, new_factor = 1.0f, new_max;

        kv_scores(kv, q, begin, begin + n, scale, weight);
        sum = gp_exp_row_ref(weight, n, &max);
        if (begin > 0) {
            new_max = total_max > max ? total_max : max;
            old_factor = exp_ref(total_max - new_max);
            new_factor = exp_ref(max - new_max);
            total_sum = fmaf(sum, new_factor, total_sum * old_factor);
            total_max = new_max;
        } else {
            total_sum = sum;
            total_max = max;
        }
        for (uint32_t j = 0; j < kv->v_dim; j++) {
            const float value = weighted_value(kv, weight, begin, begin + n, j);

            out[j] = begin > 0 ? fmaf(value, new_factor, out[j] * old_factor) : value;
        }
    }
    for (uint32_t j = 0; j < kv->v_dim; j++)
        out[j] /= total_sum;
}

static void attention(const struct gp_kv_view *kv, const float *q, size_t q_stride, uint32_t g,
                      uint32_t row_count, const uint32_t *visible, float scale, float *out,
                      size_t out_stride, void *scratch)
{
    for (uint32_t r = 0; r < row_count; r++)
        for (uint32_t h = 0; h < g; h++)
            attend(kv, q + r * q_stride + (size_t)h * kv->k_dim, visible[r], scale,
                   out + r * out_stride + (size_t)h * kv->v_dim, scratch);
}

void gp_attention_init_ref(struct gp_kernels *k)
{
    k->kv_store = kv_store;
    k->kv_move = kv_move;
    k->kv_scores = kv_scores;
    k->attention = attention;
}
