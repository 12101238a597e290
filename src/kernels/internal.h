/* What the files of this room share: the packed layout and the exponential.  For this room
 * alone. */
#ifndef GP_KERNELS_INTERNAL_H
#define GP_KERNELS_INTERNAL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/kernels.h"

/* THE PACKED LAYOUT
 *
 * Sixteen rows make a group; groups follow each other, each gp_layout_group_bytes() long (a
 * multiple of 64).  Inside a group a lane is a row, so that no product needs a horizontal sum, a
 * 512-bit register holds all sixteen and a 256-bit one holds eight.
 *
 * Float types: for every column, the sixteen elements of that column.
 *
 * Block types: first the codes of all blocks, then the scales of all blocks, so that codes stay
 * 64-byte aligned.  Of a block, each row has `code_bytes` bytes of codes, interleaved in units of
 * four (unit u of row r at (u * 16 + r) * 4): one 64-byte line holds four neighbouring columns of
 * all rows (eight where two codes share a byte), and a dword broadcast of four activation codes
 * meets it.  And each row has `scale_bytes` bytes of scales, interleaved in units of two.
 *
 *   codes, by row: the file's bytes in the file's order:
 *     Q8_0          32 codes
 *     Q4_0 Q4_1 IQ4_NL  byte i: column i low, column i + 16 high
 *     Q5_0 Q5_1     the same 16, then 4 bytes of fifth bits: bit j of byte c is column 4j + c
 *     Q4_K          128: byte 32c + i: column 64c + i low, 64c + 32 + i high
 *     Q5_K          the same 128, then 32 bytes of fifth bits: bit j of byte i is column 32j + i
 *     Q6_K          128 low halves, then 64 bytes of upper pairs, as in the file
 *   scales, by row:
 *     the half d; then the half m (Q4_1, Q5_1) or dmin (Q4_K, Q5_K);
 *     Q4_K, Q5_K    8 sub-scales, then 8 sub-minima, widened from 6 bits to 8
 *     Q6_K          16 signed sub-scales
 *
 * Everything but those widened sub-scales takes the bytes it takes in the file (Q4_K 1.03
 * times). */
struct gp_layout {
    uint32_t code_bytes;  /* of a block of a row; multiple of 4; 0 for float types */
    uint32_t scale_bytes; /* of a block of a row; multiple of 2; element size for float types */
};

struct gp_layout gp_layout_of(enum gp_type type);

/* Bytes of a group of 16 rows. */
size_t gp_layout_group_bytes(enum gp_type type, uint32_t n_in);

/* The codes, and the scales, of all blocks of the group that holds row `row`. */
static inline const uint8_t *gp_matrix_group(const struct gp_matrix *m, uint32_t row)
{
    return (const uint8_t *)m->data +
           row / GP_MATRIX_ROWS * gp_layout_group_bytes(m->type, m->n_in);
}

/* The twelve bytes of a K-quant block: eight scales and eight minima of 6 bits; and back. */
void gp_k_scales_unpack(const uint8_t packed[12], uint8_t scale[8], uint8_t min[8]);
void gp_k_scales_pack(const uint8_t scale[8], const uint8_t min[8], uint8_t packed[12]);

/* The values that IQ4_NL's codes stand for. */
extern const int8_t gp_iq4nl_values[16];

/* THE CACHE
 *
 * A block holds the keys of its slots, then their values.  Keys lie in tiles of sixteen slots: rows
 * interleaved element by element, so that a lane is a slot.  Values are rows: a tile of one lane.
 *
 * Q8_0 cuts rows into blocks of 32 elements.  A tile's block is the scales of all lanes, then their
 * codes, interleaved; a row alone is what a file of the format has.  An element is code * scale,
 * exact in float32 (7 bits times 11), and all that reads the cache is defined on such floats. */
#define GP_KV_BLOCK       32u
#define GP_KV_SCALE_BYTES 2u

static inline size_t gp_kv_elem_bytes(enum gp_kv_type type)
{
    return type == GP_KV_F32 ? 4 : type == GP_KV_Q8_0 ? 1 : 2;
}

/* Bytes of n elements of one slot. */
static inline size_t gp_kv_row_bytes(enum gp_kv_type type, uint32_t n)
{
    const size_t scales = type == GP_KV_Q8_0 ? n / GP_KV_BLOCK : 0;

    return n * gp_kv_elem_bytes(type) + scales * GP_KV_SCALE_BYTES;
}

/* The tile that holds the slot's key, and its row of values. */
static inline uint8_t *gp_kv_block(const struct gp_kv_view *kv, uint32_t slot)
{
    return kv->base + kv->pages[slot / kv->page_tokens] * kv->page_bytes + kv->block_offset;
}

static inline uint8_t *gp_kv_keys(const struct gp_kv_view *kv, uint32_t slot)
{
    const uint32_t tile_begin = slot % kv->page_tokens / GP_TILE_TOKENS * GP_TILE_TOKENS;

    return gp_kv_block(kv, slot) + tile_begin * gp_kv_row_bytes(kv->type, kv->k_dim);
}

static inline uint8_t *gp_kv_values(const struct gp_kv_view *kv, uint32_t slot)
{
    return gp_kv_block(kv, slot) + kv->page_tokens * gp_kv_row_bytes(kv->type, kv->k_dim) +
           slot % kv->page_tokens * gp_kv_row_bytes(kv->type, kv->v_dim);
}

/* Where element i of the first of `lanes` lanes lies in a tile, and (Q8_0) its scale; those of the
 * other lanes follow. */
static inline size_t gp_kv_scale_offset(uint32_t lanes, uint32_t i)
{
    return (size_t)lanes * (i / GP_KV_BLOCK) * (GP_KV_BLOCK + GP_KV_SCALE_BYTES);
}

static inline size_t gp_kv_elem_offset(enum gp_kv_type type, uint32_t lanes, uint32_t i)
{
    if (type == GP_KV_Q8_0)
        return gp_kv_scale_offset(lanes, i) + (size_t)lanes * (GP_KV_SCALE_BYTES + i % GP_KV_BLOCK);
    return (size_t)lanes * i * gp_kv_elem_bytes(type);
}

/* exp in float32, the same operations on every level (ref/exp.h is the definition):
 * x = n ln2 + r; exp(r) = 1 + r + r^2 (c0 + c1 r + ... + c4 r^4), fitted on |r| <= ln2 / 2 with an
 * error of 0.05 * 2^-24; times 2^n in two steps, so that subnormal results round once. */
#define GP_EXP_LOW      (-104.0f) /* rounds to 0         */
#define GP_EXP_HIGH     89.0f     /* rounds to infinity  */
#define GP_EXP_MAGIC    0x1.8p23f /* adding it leaves a whole number in the low mantissa bits */
#define GP_EXP_LOG2E    0x1.715476p0f
#define GP_EXP_LN2_HIGH 0x1.62e4p-1f /* 15 bits: n times it is exact */
#define GP_EXP_LN2_LOW  0x1.7f7d1cp-20f
#define GP_EXP_C0       0x1.fffffcp-2f
#define GP_EXP_C1       0x1.55549p-3f
#define GP_EXP_C2       0x1.5558f4p-5f
#define GP_EXP_C3       0x1.123a6cp-7f
#define GP_EXP_C4       0x1.6a2352p-10f

/* Adding it rounds a float below 2^22 to a whole number, half to even, and leaves that number in
 * the low bits. */
#define GP_ROUND_MAGIC 0x1.8p23f

/* Score rows that an attention call works on together, on the level that takes most, and the
 * queries whose state it keeps. */
#define GP_ATTENTION_QUERIES 8u
#define GP_ATTENTION_PANEL   16u

void gp_kernels_init_ref(struct gp_kernels *k);
void gp_kernels_init_avx2(struct gp_kernels *k);
void gp_kernels_init_avx512(struct gp_kernels *k);

#endif
