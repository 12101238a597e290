/* Products with packed matrices. */
#include "check/check.h"

static const enum gp_type types[] = {
    GP_TYPE_F32,  GP_TYPE_F16,  GP_TYPE_BF16,   GP_TYPE_Q8_0, GP_TYPE_Q4_0, GP_TYPE_Q4_1,
    GP_TYPE_Q5_0, GP_TYPE_Q5_1, GP_TYPE_IQ4_NL, GP_TYPE_Q4_K, GP_TYPE_Q5_K, GP_TYPE_Q6_K,
};

/* What the bytes of a matrix are made of. */
enum weights {
    WEIGHTS_RANDOM,
    WEIGHTS_ZERO,
    WEIGHTS_7F, /* codes +127, 15, 31, 63 */
    WEIGHTS_80, /* codes -128             */
    WEIGHTS_FF,
    WEIGHTS_KINDS,
};

/* A half-precision scale: mostly plain, sometimes subnormal, zero, or the largest there is. */
static uint16_t random_half(struct gp_rng *rng)
{
    switch (gp_rng_below(rng, 8)) {
    case 0:
        return (uint16_t)gp_rng_below(rng, 0x400);
    case 1:
        return gp_rng_below(rng, 2) ? 0x7bff : 0x8000;
    default:
        return gp_f32_to_f16((float)(gp_rng_normal(rng) * 0.05));
    }
}

/* Put finite numbers where a block has floats. */
static void fix_floats(enum gp_type type, uint8_t *block, struct gp_rng *rng)
{
    const float plain = (float)gp_rng_normal(rng);
    const uint16_t first = random_half(rng), second = random_half(rng);
    const uint16_t bf16 = gp_f32_to_bf16(plain);

    switch (type) {
    case GP_TYPE_F32:
        memcpy(block, &plain, 4);
        break;
    case GP_TYPE_BF16:
        memcpy(block, &bf16, 2);
        break;
    case GP_TYPE_Q6_K:
        memcpy(block + 208, &first, 2);
        break;
    case GP_TYPE_Q4_1:
    case GP_TYPE_Q5_1:
    case GP_TYPE_Q4_K:
    case GP_TYPE_Q5_K:
        memcpy(block + 2, &second, 2);
        memcpy(block, &first, 2);
        break;
    default:
        memcpy(block, &first, 2);
        break;
    }
}

static struct gp_matrix matrix_make(enum gp_type type, uint32_t n_out, uint32_t n_in,
                                    enum weights kind, struct gp_rng *rng)
{
    static const uint8_t constant[] = {
        [WEIGHTS_7F] = 0x7f, [WEIGHTS_80] = 0x80, [WEIGHTS_FF] = 0xff};
    const struct gp_type_info *info = gp_type_info(type);
    const size_t bytes = (size_t)n_out * (n_in / info->block_elems) * info->block_bytes;
    uint8_t *file = check_guarded(bytes);
    uint8_t *data = check_guarded(gp_matrix_bytes(type, n_out, n_in));
    struct gp_matrix m = {type, n_out, n_in, data};

    for (size_t i = 0; i < bytes; i++)
        file[i] = kind == WEIGHTS_RANDOM ? (uint8_t)gp_rng_next(rng) : constant[kind];
    for (size_t i = 0; i < bytes && kind != WEIGHTS_ZERO; i += info->block_bytes)
        fix_floats(type, file + i, rng);
    gp_matrix_pack(&m, data, file, 0, n_out);
    check_free(file);
    return m;
}

/* Quantised by the definition, so that products alone are compared. */
static struct gp_activations activations_make(struct check *c, enum gp_type type, uint32_t rows,
                                              uint32_t k, enum check_fill fill)
{
    const size_t n = (size_t)rows * k;
    struct gp_activations a = {
        .kind = gp_type_info(type)->activation, .k = k, .row_count = rows, .x_stride = k};

    a.x = check_floats(n, fill, &c->rng);
    if (a.kind == GP_ACTIVATION_F32)
        return a;
    a.q = check_guarded(n);
    a.scale = check_guarded(n / (a.kind == GP_ACTIVATION_Q8 ? 32 : 256) * sizeof *a.scale);
    a.sum = check_guarded(n / 32 * sizeof *a.sum);
    c->ref.quantize(&a, 0, rows);
    return a;
}

static void activations_free(struct gp_activations *a)
{
    check_free((void *)(uintptr_t)a->x);
    if (a->kind == GP_ACTIVATION_F32)
        return;
    check_free(a->q);
    check_free(a->scale);
    check_free(a->sum);
}

/* Rows of y lie further apart than they are long; what is between them must stay as it is. */
static void product_of(struct check *c, const struct gp_matrix *w, const struct gp_activations *a,
                       const char *what)
{
    const size_t stride = w->n_out + 5;
    const size_t n = (a->row_count - 1) * stride + w->n_out;
    float *want = check_guarded(n * sizeof *want), *got = check_guarded(n * sizeof *got);

    c->ref.matmul(w, a, want, stride, 0, w->n_out);
    c->wide.matmul(w, a, got, stride, 0, w->n_out);
    check_same(want, got, n, "%s matmul %s n_out=%u n_in=%u rows=%u %s", c->wide.level,
               gp_type_name(w->type), w->n_out, w->n_in, a->row_count, what);
    check_free(want);
    check_free(got);
}

/* n_in by the block: 32 to 576 and more for blocks of 32. */
static uint32_t columns(enum gp_type type, uint32_t step)
{
    static const uint32_t blocks[] = {1, 2, 5, 18, 33}, k_blocks[] = {1, 2, 3, 5, 2},
                          singles[] = {1, 7, 33, 100, 576};
    const uint32_t elems = gp_type_info(type)->block_elems;

    return elems == 1 ? singles[step] : elems == 32 ? blocks[step] * 32 : k_blocks[step] * 256;
}

static void matmul_all(struct check *c)
{
    static const uint32_t outs[] = {1, 15, 16, 17, 40, 64, 72, 100};

    for (size_t t = 0; t < CHECK_COUNT(types); t++)
        for (uint32_t rows = 1; rows <= 17; rows++)
            for (uint32_t step = 0; step < 5; step++) {
                const uint32_t n_in = columns(types[t], step);
                const uint32_t n_out = outs[gp_rng_below(&c->rng, CHECK_COUNT(outs))];
                struct gp_matrix w = matrix_make(types[t], n_out, n_in, WEIGHTS_RANDOM, &c->rng);
                struct gp_activations a = activations_make(c, types[t], rows, n_in, CHECK_PLAIN);

                product_of(c, &w, &a, "random");
                activations_free(&a);
                check_free((void *)(uintptr_t)w.data);
            }
}

void check_matmul_equals_definition(void **state)
{
    (void)state;
    check_levels(matmul_all);
}

/* Activations whose every code is +127 or -127, in runs and in turns. */
static void extreme_codes(struct gp_activations *a, uint32_t period)
{
    memset(a->sum, 0, (size_t)a->row_count * a->k / 32 * sizeof *a->sum);
    for (size_t i = 0; i < (size_t)a->row_count * a->k; i++) {
        a->q[i] = i / period % 2 ? -127 : 127;
        a->sum[i / 32] += a->q[i];
    }
}

static void matmul_hostile_all(struct check *c)
{
    static const uint32_t periods[] = {1, 2, 4, 32, 1u << 30};

    for (size_t t = 0; t < CHECK_COUNT(types); t++)
        for (int kind = 0; kind < WEIGHTS_KINDS; kind++) {
            const uint32_t n_in = columns(types[t], 1), n_out = 33, rows = 5;
            struct gp_matrix w = matrix_make(types[t], n_out, n_in, (enum weights)kind, &c->rng);

            for (int fill = 0; fill < CHECK_FILLS; fill++) {
                struct gp_activations a =
                    activations_make(c, types[t], rows, n_in, (enum check_fill)fill);

                product_of(c, &w, &a, "hostile");
                for (size_t p = 0; p < CHECK_COUNT(periods) && a.q; p++) {
                    extreme_codes(&a, periods[p]);
                    product_of(c, &w, &a, "extreme codes");
                }
                activations_free(&a);
            }
            check_free((void *)(uintptr_t)w.data);
        }
}

void check_matmul_hostile_equals_definition(void **state)
{
    (void)state;
    check_levels(matmul_hostile_all);
}

/* The same rows, one at a time, and the outputs in pieces: nothing may change (contract 1).  For
 * the definition too. */
static void splits_of(const struct gp_kernels *k, const struct gp_matrix *w,
                      const struct gp_activations *a)
{
    const uint32_t n_out = w->n_out, rows = a->row_count;
    const uint32_t per_scale = a->kind == GP_ACTIVATION_Q8 ? 32 : 256;
    float *want = check_guarded((size_t)rows * n_out * sizeof *want);
    float *got = check_guarded((size_t)rows * n_out * sizeof *got);

    k->matmul(w, a, want, n_out, 0, n_out);
    for (uint32_t r = 0; r < rows; r++) {
        struct gp_activations one = *a;

        one.row_count = 1;
        one.x += r * a->x_stride;
        if (a->q) {
            one.q += (size_t)r * a->k;
            one.scale += (size_t)r * a->k / per_scale;
            one.sum += (size_t)r * a->k / 32;
        }
        for (uint32_t o = 0; o < n_out; o += 32) {
            const uint32_t end = o + 32 < n_out ? o + 32 : n_out;

            k->matmul(w, &one, got + (size_t)r * n_out, n_out, o, end);
        }
    }
    check_same(want, got, (size_t)rows * n_out, "%s matmul %s in pieces", k->level,
               gp_type_name(w->type));
    check_free(want);
    check_free(got);
}

static void matmul_splits_all(struct check *c)
{
    for (size_t t = 0; t < CHECK_COUNT(types); t++) {
        const uint32_t n_in = columns(types[t], 3);
        struct gp_matrix w = matrix_make(types[t], 130, n_in, WEIGHTS_RANDOM, &c->rng);
        /* More rows than a panel of activations holds, for wide rows. */
        struct gp_activations a = activations_make(c, types[t], 23, n_in, CHECK_CANCELLING);

        splits_of(&c->ref, &w, &a);
        splits_of(&c->wide, &w, &a);
        activations_free(&a);
        check_free((void *)(uintptr_t)w.data);
    }
}

void check_matmul_is_the_same_in_pieces(void **state)
{
    (void)state;
    check_levels(matmul_splits_all);
}
