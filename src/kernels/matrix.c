/* Packed matrices: file rows into the layout of internal.h, and one row back out. */
#include "kernels/kernels.h"

#include <string.h>

#include "base/assert.h"
#include "kernels/internal.h"

#define CODE_BYTES_MAX  192u
#define SCALE_BYTES_MAX 20u
#define BLOCK_BYTES_MAX 210u

struct gp_layout gp_layout_of(enum gp_type type)
{
    switch (type) {
    case GP_TYPE_F32:
        return (struct gp_layout){0, 4};
    case GP_TYPE_F16:
    case GP_TYPE_BF16:
        return (struct gp_layout){0, 2};
    case GP_TYPE_Q8_0:
        return (struct gp_layout){32, 2};
    case GP_TYPE_Q4_0:
    case GP_TYPE_IQ4_NL:
        return (struct gp_layout){16, 2};
    case GP_TYPE_Q4_1:
        return (struct gp_layout){16, 4};
    case GP_TYPE_Q5_0:
        return (struct gp_layout){20, 2};
    case GP_TYPE_Q5_1:
        return (struct gp_layout){20, 4};
    case GP_TYPE_Q4_K:
        return (struct gp_layout){128, 20};
    case GP_TYPE_Q5_K:
        return (struct gp_layout){160, 20};
    case GP_TYPE_Q6_K:
        return (struct gp_layout){192, 18};
    }
    gp_assert(!"a type of gp_type_info");
    return (struct gp_layout){0, 0};
}

static size_t group_block_bytes(struct gp_layout l)
{
    return (size_t)GP_MATRIX_ROWS * (l.code_bytes + l.scale_bytes);
}

size_t gp_layout_group_bytes(enum gp_type type, uint32_t n_in)
{
    const size_t block_count = n_in / gp_type_info(type)->block_elems;

    return (block_count * group_block_bytes(gp_layout_of(type)) + 63) / 64 * 64;
}

size_t gp_matrix_bytes(uint32_t type, uint32_t n_out, uint32_t n_in)
{
    const struct gp_type_info *info = gp_type_info(type);
    size_t group_count, bytes;

    if (!info || n_in % info->block_elems)
        return 0;
    /* A group of the widest type at the largest n_in still fits 39 bits. */
    group_count = ((size_t)n_out + GP_MATRIX_ROWS - 1) / GP_MATRIX_ROWS;
    if (__builtin_mul_overflow(group_count, gp_layout_group_bytes((enum gp_type)type, n_in),
                               &bytes))
        return 0;
    return bytes;
}

/* Q5_0, Q5_1: bit i of the file's word is column i; packed, bit j of byte c is column 4j + c. */
static void fifth_bits_split(const uint8_t file[4], uint8_t codes[4])
{
    memset(codes, 0, 4);
    for (uint32_t i = 0; i < 32; i++)
        codes[i % 4] |= (uint8_t)((file[i / 8] >> (i % 8) & 1) << (i / 4));
}

static void fifth_bits_join(const uint8_t codes[4], uint8_t file[4])
{
    memset(file, 0, 4);
    for (uint32_t i = 0; i < 32; i++)
        file[i / 8] |= (uint8_t)((codes[i % 4] >> (i / 4) & 1) << (i % 8));
}

/* One block of the file to one row's bytes of codes and scales. */
static void block_split(enum gp_type type, const uint8_t *b, uint8_t *codes, uint8_t *scales)
{
    const struct gp_layout l = gp_layout_of(type);

    switch (type) {
    case GP_TYPE_Q5_0:
    case GP_TYPE_Q5_1:
        memcpy(scales, b, l.scale_bytes);
        fifth_bits_split(b + l.scale_bytes, codes + 16);
        memcpy(codes, b + l.scale_bytes + 4, 16);
        break;
    case GP_TYPE_Q4_K:
        memcpy(scales, b, 4);
        gp_k_scales_unpack(b + 4, scales + 4, scales + 12);
        memcpy(codes, b + 16, 128);
        break;
    case GP_TYPE_Q5_K:
        memcpy(scales, b, 4);
        gp_k_scales_unpack(b + 4, scales + 4, scales + 12);
        memcpy(codes + 128, b + 16, 32);
        memcpy(codes, b + 48, 128);
        break;
    case GP_TYPE_Q6_K:
        memcpy(codes, b, 192);
        memcpy(scales, b + 208, 2);
        memcpy(scales + 2, b + 192, 16);
        break;
    default: /* scales in front, codes behind, or one element of a float type */
        memcpy(scales, b, l.scale_bytes);
        memcpy(codes, b + l.scale_bytes, l.code_bytes);
        break;
    }
}

/* The way back. */
static void block_join(enum gp_type type, const uint8_t *codes, const uint8_t *scales, uint8_t *b)
{
    const struct gp_layout l = gp_layout_of(type);

    switch (type) {
    case GP_TYPE_Q5_0:
    case GP_TYPE_Q5_1:
        memcpy(b, scales, l.scale_bytes);
        fifth_bits_join(codes + 16, b + l.scale_bytes);
        memcpy(b + l.scale_bytes + 4, codes, 16);
        break;
    case GP_TYPE_Q4_K:
        memcpy(b, scales, 4);
        gp_k_scales_pack(scales + 4, scales + 12, b + 4);
        memcpy(b + 16, codes, 128);
        break;
    case GP_TYPE_Q5_K:
        memcpy(b, scales, 4);
        gp_k_scales_pack(scales + 4, scales + 12, b + 4);
        memcpy(b + 16, codes + 128, 32);
        memcpy(b + 48, codes, 128);
        break;
    case GP_TYPE_Q6_K:
        memcpy(b, codes, 192);
        memcpy(b + 192, scales + 2, 16);
        memcpy(b + 208, scales, 2);
        break;
    default:
        memcpy(b, scales, l.scale_bytes);
        memcpy(b + l.scale_bytes, codes, l.code_bytes);
        break;
    }
}

/* Copy one row's bytes of a block into (or out of) its lane of a group. */
static void lane_put(uint8_t *group, uint32_t lane, const uint8_t *bytes, uint32_t count,
                     uint32_t unit)
{
    for (uint32_t i = 0; i < count; i += unit)
        memcpy(group + (size_t)i * GP_MATRIX_ROWS + (size_t)lane * unit, bytes + i, unit);
}

static void lane_get(const uint8_t *group, uint32_t lane, uint8_t *bytes, uint32_t count,
                     uint32_t unit)
{
    for (uint32_t i = 0; i < count; i += unit)
        memcpy(bytes + i, group + (size_t)i * GP_MATRIX_ROWS + (size_t)lane * unit, unit);
}

static uint32_t scale_unit(struct gp_layout l)
{
    return l.code_bytes ? 2 : l.scale_bytes;
}

void gp_matrix_pack(const struct gp_matrix *matrix, void *data, const void *rows,
                    uint32_t row_begin, uint32_t row_end)
{
    const struct gp_type_info *info = gp_type_info(matrix->type);
    const struct gp_layout l = gp_layout_of(matrix->type);
    const size_t group_bytes = gp_layout_group_bytes(matrix->type, matrix->n_in);
    const uint32_t block_count = matrix->n_in / info->block_elems;
    uint8_t codes[CODE_BYTES_MAX], scales[SCALE_BYTES_MAX];

    gp_assert(row_begin % GP_MATRIX_ROWS == 0 && row_end <= matrix->n_out);
    gp_assert(row_end % GP_MATRIX_ROWS == 0 || row_end == matrix->n_out);
    for (uint32_t row = row_begin; row < row_end; row++) {
        const uint32_t lane = row % GP_MATRIX_ROWS;
        uint8_t *group = (uint8_t *)data + row / GP_MATRIX_ROWS * group_bytes;
        uint8_t *group_scales = group + (size_t)block_count * GP_MATRIX_ROWS * l.code_bytes;
        const uint8_t *block =
            (const uint8_t *)rows + (size_t)row * block_count * info->block_bytes;

        if (lane == 0) /* the padding, in the last group and behind every one */
            memset(group, 0, group_bytes);
        for (uint32_t b = 0; b < block_count; b++, block += info->block_bytes) {
            block_split(matrix->type, block, codes, scales);
            lane_put(group + (size_t)b * GP_MATRIX_ROWS * l.code_bytes, lane, codes, l.code_bytes,
                     4);
            lane_put(group_scales + (size_t)b * GP_MATRIX_ROWS * l.scale_bytes, lane, scales,
                     l.scale_bytes, scale_unit(l));
        }
    }
}

void gp_matrix_row(const struct gp_matrix *matrix, uint32_t row, float *out)
{
    const struct gp_type_info *info = gp_type_info(matrix->type);
    const struct gp_layout l = gp_layout_of(matrix->type);
    const uint32_t block_count = matrix->n_in / info->block_elems;
    const uint8_t *group = gp_matrix_group(matrix, row);
    const uint8_t *group_scales = group + (size_t)block_count * GP_MATRIX_ROWS * l.code_bytes;
    uint8_t codes[CODE_BYTES_MAX], scales[SCALE_BYTES_MAX], block[BLOCK_BYTES_MAX];

    gp_assert(row < matrix->n_out);
    for (uint32_t b = 0; b < block_count; b++) {
        lane_get(group + (size_t)b * GP_MATRIX_ROWS * l.code_bytes, row % GP_MATRIX_ROWS, codes,
                 l.code_bytes, 4);
        lane_get(group_scales + (size_t)b * GP_MATRIX_ROWS * l.scale_bytes, row % GP_MATRIX_ROWS,
                 scales, l.scale_bytes, scale_unit(l));
        block_join(matrix->type, codes, scales, block);
        gp_dequantize(matrix->type, block, info->block_elems, out + (size_t)b * info->block_elems);
    }
}
