/* The gauge's products: a matrix that no cache holds with one row, as a stream of tokens has it,
 * and one that a cache holds with more. */
#include <stdio.h>
#include <string.h>

#include "engine/gauge.h"

#define LONG_COLUMNS 4096u
#define SIDE         1024u

static const enum gp_type types[] = {
    GP_TYPE_F32,  GP_TYPE_F16,  GP_TYPE_BF16,   GP_TYPE_Q8_0, GP_TYPE_Q4_0, GP_TYPE_Q4_1,
    GP_TYPE_Q5_0, GP_TYPE_Q5_1, GP_TYPE_IQ4_NL, GP_TYPE_Q4_K, GP_TYPE_Q5_K, GP_TYPE_Q6_K,
};

static const uint32_t row_counts[] = {1, 2, 4, 8, 64, 512};

#define TYPES (sizeof types / sizeof *types)
#define ROWS  (sizeof row_counts / sizeof *row_counts)

/* Of product n: no data, but all else. */
static struct gp_matrix matrix_of(const struct gp_gauge *gauge, uint32_t n)
{
    enum gp_type type = types[n / ROWS];
    uint64_t groups = gauge->options.bytes / gp_matrix_bytes(type, GP_MATRIX_ROWS, LONG_COLUMNS);

    if (row_counts[n % ROWS] > 1)
        return (struct gp_matrix){.type = type, .n_out = SIDE, .n_in = SIDE};
    if (groups == 0)
        groups = 1;
    if (groups > UINT32_MAX / GP_MATRIX_ROWS)
        groups = UINT32_MAX / GP_MATRIX_ROWS;
    return (struct gp_matrix){
        .type = type, .n_out = (uint32_t)groups * GP_MATRIX_ROWS, .n_in = LONG_COLUMNS};
}

static void describe(const struct gp_gauge *gauge, uint32_t n, struct gp_gauge_case *out)
{
    struct gp_matrix matrix = matrix_of(gauge, n);

    out->rows = row_counts[n % ROWS];
    out->unit = out->rows == 1 ? GP_GAUGE_BYTES : GP_GAUGE_MACS;
    out->work = out->rows == 1 ? (double)gp_matrix_bytes(matrix.type, matrix.n_out, matrix.n_in)
                               : (double)matrix.n_out * matrix.n_in * out->rows;
    snprintf(out->kernel, sizeof out->kernel, "matmul");
    snprintf(out->type, sizeof out->type, "%s", gp_type_name(matrix.type));
    snprintf(out->shape, sizeof out->shape, "%u x %u", matrix.n_out, matrix.n_in);
}

/* Items are groups of outputs. */
static void run(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct gauge_work *work = ctx;

    (void)worker;
    work->kernels->matmul(&work->matrix, &work->input, work->out, work->matrix.n_out,
                          begin * GP_MATRIX_ROWS, end * GP_MATRIX_ROWS);
}

/* ---- data ---- */

/* A number as weights are, and none that a processor is slow with. */
static float weight(struct gp_rng *rng)
{
    return (float)(gp_rng_uniform(rng) - 0.5) * 0.1f;
}

static void fill_floats(struct gp_rng *rng, enum gp_type type, uint8_t *file, size_t bytes)
{
    size_t each = gp_type_info(type)->block_bytes;

    for (size_t i = 0; i < bytes; i += each) {
        float value = weight(rng);
        uint16_t half = type == GP_TYPE_F16 ? gp_f32_to_f16(value) : gp_f32_to_bf16(value);

        memcpy(file + i, each == 4 ? (const void *)&value : &half, each);
    }
}

/* Any codes; minima and scales that are numbers, and the scales of blocks all the same. */
static void fill_blocks(struct gp_rng *rng, enum gp_type type, uint8_t *file, size_t bytes)
{
    const uint16_t half = gp_f32_to_f16(0.01f);

    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        const uint64_t word = gp_rng_next(rng) & 0x3f3f3f3f3f3f3f3f;

        memcpy(file + i, &word, sizeof word);
    }
    for (size_t i = 0; i < bytes; i += gp_type_info(type)->block_bytes)
        memcpy(file + i + (type == GP_TYPE_Q6_K ? 208 : 0), &half, sizeof half);
}

/* Rows of weights as a file has them: the same group of rows again and again. */
static void fill_file(struct gp_rng *rng, const struct gp_matrix *m, uint8_t *file, size_t bytes)
{
    size_t group = bytes / (m->n_out / GP_MATRIX_ROWS);

    if (gp_type_info(m->type)->block_elems == 1)
        fill_floats(rng, m->type, file, group);
    else
        fill_blocks(rng, m->type, file, group);
    for (size_t i = group; i < bytes; i += group)
        memcpy(file + i, file, group);
}

static void pack(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct gauge_work *work = ctx;

    (void)worker;
    gp_matrix_pack(&work->matrix, work->blocks[0].at, work->blocks[1].at, begin * GP_MATRIX_ROWS,
                   end * GP_MATRIX_ROWS);
}

static bool make_matrix(struct gp_gauge *gauge)
{
    struct gauge_work *work = &gauge->work;
    struct gp_matrix *m = &work->matrix;
    const struct gp_type_info *info = gp_type_info(m->type);
    size_t file_bytes = (size_t)m->n_out * (m->n_in / info->block_elems) * info->block_bytes;
    void *data = gp_gauge_memory(gauge, gp_matrix_bytes(m->type, m->n_out, m->n_in));
    void *file = data ? gp_gauge_memory(gauge, file_bytes) : NULL;

    if (!file)
        return false;
    m->data = data;
    fill_file(&gauge->rng, m, file, file_bytes);
    gp_workers_run(gauge->workers, m->n_out / GP_MATRIX_ROWS, 4, pack, work);
    gp_gauge_drop(gauge);
    return true;
}

static bool make(struct gp_gauge *gauge, uint32_t n)
{
    struct gauge_work *work = &gauge->work;
    uint32_t shares = gauge->threads * 4; /* as the forward pass cuts it */

    work->matrix = matrix_of(gauge, n);
    work->rows = row_counts[n % ROWS];
    work->run = run;
    work->item_count = work->matrix.n_out / GP_MATRIX_ROWS;
    work->grain = (work->item_count + shares - 1) / shares;
    if (!make_matrix(gauge))
        return false;
    if (work->rows == 1) {
        work->bytes = work->matrix.data;
        work->byte_count =
            gp_matrix_bytes(work->matrix.type, work->matrix.n_out, work->matrix.n_in);
    }
    work->out = gp_gauge_memory(gauge, (size_t)work->rows * work->matrix.n_out * sizeof(float));
    return work->out && gp_gauge_input(gauge, gp_type_info(work->matrix.type)->activation,
                                       work->rows, work->matrix.n_in);
}

const struct gauge_family gp_gauge_products = {TYPES * ROWS, describe, make};
