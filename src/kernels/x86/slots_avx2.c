/* Slots that are moved inside a cache, or read out of it: ref/attention_ref.c, kv_move and
 * gp_kv_load, with the size of an element known to each loop.  A key's elements lie a tile apart,
 * so there is little for wide registers to take. */
#include "kernels/x86/simd_avx2.h"
#include "kernels/x86/x86.h"

#define TILE GP_TILE_TOKENS

/* n elements of `size` bytes, a tile's row apart. */
GP_INLINE void move_elements(uint8_t *to, const uint8_t *from, uint32_t n, size_t size)
{
    const size_t step = TILE * size;

    for (uint32_t i = 0; i < n; i++)
        memcpy(to + i * step, from + i * step, size);
}

static void move_blocks(uint8_t *to_tile, uint32_t to, const uint8_t *from_tile, uint32_t from,
                        uint32_t n)
{
    for (uint32_t i = 0; i < n; i += GP_KV_BLOCK) {
        const size_t scale = gp_kv_scale_offset(TILE, i);
        const size_t codes = gp_kv_elem_offset(GP_KV_Q8_0, TILE, i);

        memcpy(to_tile + scale + to * GP_KV_SCALE_BYTES,
               from_tile + scale + from * GP_KV_SCALE_BYTES, GP_KV_SCALE_BYTES);
        move_elements(to_tile + codes + to, from_tile + codes + from, GP_KV_BLOCK, 1);
    }
}

static void move_key(const struct gp_kv_view *kv, uint32_t from, uint32_t to)
{
    const uint8_t *from_tile = gp_kv_keys(kv, from);
    uint8_t *to_tile = gp_kv_keys(kv, to);

    from %= TILE;
    to %= TILE;
    switch (kv->type) {
    case GP_KV_F32:
        move_elements(to_tile + to * 4, from_tile + from * 4, kv->k_dim, 4);
        break;
    case GP_KV_F16:
    case GP_KV_BF16:
        move_elements(to_tile + to * 2, from_tile + from * 2, kv->k_dim, 2);
        break;
    case GP_KV_Q8_0:
        move_blocks(to_tile, to, from_tile, from, kv->k_dim);
        break;
    }
}

static void kv_move(const struct gp_kv_view *kv, const struct gp_move *moves, uint32_t count)
{
    const size_t value_bytes = gp_kv_row_bytes(kv->type, kv->v_dim);

    for (uint32_t m = 0; m < count; m++) {
        if (moves[m].from == moves[m].to)
            continue;
        move_key(kv, moves[m].from, moves[m].to);
        memcpy(gp_kv_values(kv, moves[m].to), gp_kv_values(kv, moves[m].from), value_bytes);
    }
}

/* ---- reading ---- */

GP_INLINE float half_at(enum gp_kv_type type, const uint8_t *p)
{
    uint16_t bits;
    uint32_t wide;
    float value;

    memcpy(&bits, p, sizeof bits);
    if (type == GP_KV_F16)
        return _cvtsh_ss(bits);
    wide = (uint32_t)bits << 16;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* n elements of one lane of `lanes`. */
GP_INLINE void load_halves(enum gp_kv_type type, const uint8_t *tile, uint32_t lanes, uint32_t lane,
                           uint32_t n, float *out)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = half_at(type, tile + ((size_t)i * lanes + lane) * 2);
}

GP_INLINE void load_floats(const uint8_t *tile, uint32_t lanes, uint32_t lane, uint32_t n,
                           float *out)
{
    for (uint32_t i = 0; i < n; i++)
        memcpy(&out[i], tile + ((size_t)i * lanes + lane) * 4, 4);
}

GP_INLINE void load_blocks(const uint8_t *tile, uint32_t lanes, uint32_t lane, uint32_t n,
                           float *out)
{
    for (uint32_t i = 0; i < n; i += GP_KV_BLOCK) {
        const uint8_t *codes = tile + gp_kv_elem_offset(GP_KV_Q8_0, lanes, i) + lane;
        const float scale =
            half_at(GP_KV_F16, tile + gp_kv_scale_offset(lanes, i) + lane * GP_KV_SCALE_BYTES);

        for (uint32_t j = 0; j < GP_KV_BLOCK; j++)
            out[i + j] = (float)(int8_t)codes[(size_t)j * lanes] * scale;
    }
}

GP_INLINE void load_lane(enum gp_kv_type type, const uint8_t *tile, uint32_t lanes, uint32_t lane,
                         uint32_t n, float *out)
{
    switch (type) {
    case GP_KV_F32:
        load_floats(tile, lanes, lane, n, out);
        break;
    case GP_KV_F16:
        load_halves(GP_KV_F16, tile, lanes, lane, n, out);
        break;
    case GP_KV_BF16:
        load_halves(GP_KV_BF16, tile, lanes, lane, n, out);
        break;
    case GP_KV_Q8_0:
        load_blocks(tile, lanes, lane, n, out);
        break;
    }
}

static void kv_load(const struct gp_kv_view *kv, uint32_t slot, float *key, float *value)
{
    load_lane(kv->type, gp_kv_keys(kv, slot), TILE, slot % TILE, kv->k_dim, key);
    if (value)
        load_lane(kv->type, gp_kv_values(kv, slot), 1, 0, kv->v_dim, value);
}

void gp_slots_init_avx2(struct gp_kernels *k)
{
    k->kv_move = kv_move;
    k->kv_load = kv_load;
}
