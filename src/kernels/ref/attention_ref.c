/* Definitions: the paged cache, attention over it, and the scores that policies ask for. */
#include <math.h>
#include <string.h>

#include "kernels/internal.h"
#include "kernels/ref/exp.h"
#include "kernels/ref/ref.h"

/* A slot's key is a lane of its tile, its value the only lane of its own. */
struct lane {
    enum gp_kv_type type;
    uint8_t *tile;
    uint32_t lanes, lane;
};

static struct lane key_lane(const struct gp_kv_view *kv, uint32_t slot)
{
    return (struct lane){kv->type, gp_kv_keys(kv, slot), GP_TILE_TOKENS, slot % GP_TILE_TOKENS};
}

static struct lane value_lane(const struct gp_kv_view *kv, uint32_t slot)
{
    return (struct lane){kv->type, gp_kv_values(kv, slot), 1, 0};
}

static uint8_t *elem_at(const struct lane *l, uint32_t i)
{
    return l->tile + gp_kv_elem_offset(l->type, l->lanes, i) + l->lane * gp_kv_elem_bytes(l->type);
}

static uint8_t *scale_at(const struct lane *l, uint32_t i)
{
    return l->tile + gp_kv_scale_offset(l->lanes, i) + l->lane * GP_KV_SCALE_BYTES;
}

static float elem_get(const struct lane *l, uint32_t i)
{
    uint16_t bits;
    float value;

    if (l->type == GP_KV_F32) {
        memcpy(&value, elem_at(l, i), sizeof value);
        return value;
    }
    memcpy(&bits, l->type == GP_KV_Q8_0 ? scale_at(l, i) : elem_at(l, i), sizeof bits);
    if (l->type == GP_KV_BF16)
        return gp_bf16_to_f32(bits);
    value = gp_f16_to_f32(bits);
    return l->type == GP_KV_Q8_0 ? (float)(int8_t)*elem_at(l, i) * value : value;
}

void gp_kv_load(const struct gp_kv_view *kv, uint32_t slot, float *key, float *value)
{
    const struct lane from_key = key_lane(kv, slot), from_value = value_lane(kv, slot);

    for (uint32_t i = 0; i < kv->k_dim; i++)
        key[i] = elem_get(&from_key, i);
    for (uint32_t j = 0; value && j < kv->v_dim; j++)
        value[j] = elem_get(&from_value, j);
}

static void elem_put(const struct lane *l, uint32_t i, float value)
{
    uint16_t bits;

    if (l->type == GP_KV_F32) {
        memcpy(elem_at(l, i), &value, sizeof value);
        return;
    }
    bits = l->type == GP_KV_F16 ? gp_f32_to_f16(value) : gp_f32_to_bf16(value);
    memcpy(elem_at(l, i), &bits, sizeof bits);
}

static void lane_put(const struct lane *l, const float *x, uint32_t n)
{
    if (l->type != GP_KV_Q8_0) {
        for (uint32_t i = 0; i < n; i++)
            elem_put(l, i, x[i]);
        return;
    }
    for (uint32_t i = 0; i < n; i += GP_KV_BLOCK) {
        int8_t code[GP_KV_BLOCK];
        const uint16_t scale = gp_quantize_half_ref(x + i, code);

        memcpy(scale_at(l, i), &scale, sizeof scale);
        for (uint32_t j = 0; j < GP_KV_BLOCK; j++)
            *elem_at(l, i + j) = (uint8_t)code[j];
    }
}

static void kv_store(const struct gp_kv_view *kv, uint32_t slot, const float *k, const float *v)
{
    const struct lane key = key_lane(kv, slot), value = value_lane(kv, slot);

    lane_put(&key, k, kv->k_dim);
    lane_put(&value, v, kv->v_dim);
}

static void kv_move(const struct gp_kv_view *kv, const struct gp_move *moves, uint32_t count)
{
    const size_t size = gp_kv_elem_bytes(kv->type);

    for (uint32_t m = 0; m < count; m++) {
        const struct lane from = key_lane(kv, moves[m].from), to = key_lane(kv, moves[m].to);

        if (moves[m].from == moves[m].to)
            continue;
        for (uint32_t i = 0; i < kv->k_dim; i++)
            memcpy(elem_at(&to, i), elem_at(&from, i), size);
        for (uint32_t i = 0; kv->type == GP_KV_Q8_0 && i < kv->k_dim; i += GP_KV_BLOCK)
            memcpy(scale_at(&to, i), scale_at(&from, i), GP_KV_SCALE_BYTES);
        memcpy(gp_kv_values(kv, moves[m].to), gp_kv_values(kv, moves[m].from),
               gp_kv_row_bytes(kv->type, kv->v_dim));
    }
}

/* (q . key) * scale: one chain of fmaf over the key's elements, from 0. */
static float score_of(const struct gp_kv_view *kv, const float *q, uint32_t slot, float scale)
{
    const struct lane key = key_lane(kv, slot);
    float acc = 0.0f;

    for (uint32_t i = 0; i < kv->k_dim; i++)
        acc = fmaf(q[i], elem_get(&key, i), acc);
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
        const struct lane value = value_lane(kv, slot);

        acc = fmaf(weight[slot - begin], elem_get(&value, j), acc);
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
    k->kv_load = gp_kv_load;
    k->kv_scores = kv_scores;
    k->attention = attention;
}
