/* The definitions against plain double arithmetic, within bounds that follow from the operations,
 * and the levels that a name may choose. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "kernels/kernels.h"
#include "kernels/ref/exp.h"

#define EPS 0x1p-24 /* the relative error of one rounding */

static struct gp_kernels k;

static uint64_t seed_of_run(void)
{
    const char *text = getenv("GP_SEED");
    const uint64_t seed = text ? strtoull(text, NULL, 10) : 1;

    printf("# GP_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static float *floats(size_t n, struct gp_rng *rng)
{
    float *x = gp_mem_alloc_array(n, sizeof *x);

    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)gp_rng_normal(rng);
    return x;
}

/* The distance between neighbouring floats at |x|. */
static double ulp_at(double x)
{
    int exponent;

    frexp(x, &exponent);
    return ldexp(1.0, (exponent < -125 ? -125 : exponent) - 24);
}

static void exp_is_within_one_ulp(void **state)
{
    double worst = 0, at = 0;

    (void)state;
    for (double x = -103.5; x < 88.7; x += 0.000043) {
        const double want = exp((double)(float)x), got = (double)exp_ref((float)x);
        const double error = fabs(got - want) / ulp_at(want);

        if (error > worst) {
            worst = error;
            at = x;
        }
    }
    printf("# worst error %.3f ulp at %.9g\n", worst, at);
    assert_true(worst <= 1.0);
    assert_true(exp_ref(0.0f) == 1.0f && exp_ref(-0.0f) == 1.0f);
    assert_true(exp_ref(-INFINITY) == 0.0f && exp_ref(-104.5f) == 0.0f);
    assert_true(isinf(exp_ref(INFINITY)) && isinf(exp_ref(89.0f)));
    assert_true(isnan(exp_ref(NAN)));
}

static void rows_agree_with_double(void **state)
{
    static const uint32_t sizes[] = {1, 5, 16, 33, 576, 2048};
    struct gp_rng rng = {seed_of_run()};

    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const uint32_t n = sizes[s];
        float *x = floats(n, &rng), *w = floats(n, &rng), *y = floats(n, &rng);
        double squares = 0, total = 0, max = -INFINITY;

        for (uint32_t i = 0; i < n; i++) {
            squares += (double)x[i] * x[i];
            max = fmax(max, x[i]);
        }
        /* n/16 + 4 additions of squares, then a handful of roundings, halved by the root. */
        const double bound = (n / 16 + 16) * EPS, inverse = 1 / sqrt(squares / n + 1e-5);

        k.rms_norm(y, x, w, n, 1e-5f);
        for (uint32_t i = 0; i < n; i++)
            assert_true(fabs(y[i] - x[i] * inverse * w[i]) <=
                        bound * fabs(x[i] * inverse * w[i]) + 1e-40);
        assert_true(fabs(k.rms(x, n) - sqrt(squares / n)) <= bound * sqrt(squares / n));

        k.silu_mul(y, x, w, n);
        for (uint32_t i = 0; i < n; i++) {
            const double want = x[i] / (1 + exp(-(double)x[i])) * w[i];

            assert_true(fabs(y[i] - want) <= 8 * EPS * fabs(want) + 1e-40);
        }
        for (uint32_t i = 0; i < n; i++)
            total += exp(x[i] - max);
        memcpy(y, x, n * sizeof *y);
        k.softmax(y, n);
        for (uint32_t i = 0; i < n; i++) {
            const double want = exp(x[i] - max) / total;

            assert_true(fabs(y[i] - want) <= (n / 16 + 24) * EPS * want);
        }
        gp_mem_free(x);
        gp_mem_free(w);
        gp_mem_free(y);
    }
}

static void rope_turns_pairs(void **state)
{
    static const float angle[] = {0.5f, 2.0f};
    float c[2], s[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        c[i] = cosf(angle[i]);
        s[i] = sinf(angle[i]);
    }
    for (int neox = 0; neox < 2; neox++) {
        float x[5] = {1, 2, 3, 4, 5};

        k.rope(x, c, s, 4, neox);
        for (int i = 0; i < 2; i++) {
            const int a = neox ? i : 2 * i, b = neox ? i + 2 : 2 * i + 1;
            const double turned = cos(angle[i]) * (a + 1) - sin(angle[i]) * (b + 1);
            const double other = cos(angle[i]) * (b + 1) + sin(angle[i]) * (a + 1);

            assert_true(fabs(x[a] - turned) < 1e-6 && fabs(x[b] - other) < 1e-6);
        }
        assert_true(x[4] == 5);
    }
}

static void codes_are_the_nearest(void **state)
{
    static int8_t q[1024];
    static float scale[32];
    static int32_t sum[32];
    struct gp_rng rng = {seed_of_run()};

    (void)state;
    for (uint32_t round = 0; round < 200; round++)
        for (uint32_t block = 32; block <= 256; block *= 8) {
            float *x = floats(1024, &rng);
            struct gp_activations a = {block == 32 ? GP_ACTIVATION_Q8 : GP_ACTIVATION_Q8_K,
                                       1024,
                                       1,
                                       x,
                                       1024,
                                       q,
                                       scale,
                                       sum};

            if (round == 0)
                memset(x, 0, 512 * sizeof *x);
            k.quantize(&a, 0, 1);
            for (uint32_t i = 0; i < 1024; i++) {
                const double unit = scale[i / block];

                assert_true(fabs(x[i] - unit * q[i]) <= 0.5 * unit * (1 + 1e-5));
                assert_true(q[i] >= -127 && (q[i] == 0 || unit != 0));
            }
            for (uint32_t b = 0; b < 32; b++) {
                int32_t want = 0;

                for (uint32_t i = 0; i < 32; i++)
                    want += q[b * 32 + i];
                assert_int_equal(sum[b], want);
            }
            gp_mem_free(x);
        }
}

/* A matrix of random blocks with plain scales; *file are its rows as the file has them. */
static struct gp_matrix random_matrix(enum gp_type type, uint32_t n_out, uint32_t n_in,
                                      uint8_t **file, struct gp_rng *rng)
{
    const struct gp_type_info *info = gp_type_info(type);
    const size_t bytes = (size_t)n_out * n_in / info->block_elems * info->block_bytes;
    void *data = gp_mem_alloc(gp_matrix_bytes(type, n_out, n_in));
    struct gp_matrix w = {type, n_out, n_in, data};
    uint8_t *b = gp_mem_alloc(bytes);

    assert_true(data && b);
    for (size_t i = 0; i < bytes; i++)
        b[i] = (uint8_t)gp_rng_next(rng);
    for (size_t i = 0; i < bytes; i += info->block_bytes) {
        const float plain = (float)gp_rng_normal(rng);
        const uint16_t first = gp_f32_to_f16(plain), second = gp_f32_to_f16(-0.7f * plain);

        if (type == GP_TYPE_F32)
            memcpy(b + i, &plain, 4);
        else if (type == GP_TYPE_Q6_K)
            memcpy(b + i + 208, &first, 2);
        else
            memcpy(b + i, &first, 2);
        if (type == GP_TYPE_Q4_1 || type == GP_TYPE_Q5_1 || type == GP_TYPE_Q4_K ||
            type == GP_TYPE_Q5_K)
            memcpy(b + i + 2, &second, 2);
    }
    gp_matrix_pack(&w, data, b, 0, n_out);
    *file = b;
    return w;
}

/* What gp_dequantize says the weights are, times the activations as quantised.  A float product
 * rounds once a column; a block product twice a block, and its two parts (weights times codes,
 * minima) may cancel, so their magnitudes count apart. */
static void products_agree_with_double(void **state)
{
    struct gp_rng rng = {seed_of_run()};

    (void)state;
    for (uint32_t type = 0; type < 43; type++) {
        const struct gp_type_info *info = gp_type_info(type);
        const uint32_t n_out = 21, n_in = info && info->block_elems == 256 ? 768 : 576, rows = 3;
        float *x = floats((size_t)rows * n_in, &rng), *row = floats(n_in, &rng), y[3 * 21];
        struct gp_activations a = {.k = n_in, .row_count = rows, .x = x, .x_stride = n_in};
        struct gp_matrix w;
        uint8_t *file;
        uint32_t block;

        if (!info) {
            gp_mem_free(x);
            gp_mem_free(row);
            continue;
        }
        a.kind = info->activation;
        block = a.kind == GP_ACTIVATION_Q8_K ? 256 : 32;
        a.q = gp_mem_alloc((size_t)rows * n_in);
        a.scale = gp_mem_alloc_array((size_t)rows * n_in / 32, sizeof *a.scale);
        a.sum = gp_mem_alloc_array((size_t)rows * n_in / 32, sizeof *a.sum);
        w = random_matrix((enum gp_type)type, n_out, n_in, &file, &rng);
        k.quantize(&a, 0, rows);
        k.matmul(&w, &a, y, n_out, 0, n_out);
        for (uint32_t o = 0; o < n_out; o++) {
            const size_t row_bytes = n_in / info->block_elems * info->block_bytes;

            gp_dequantize((enum gp_type)type, file + o * row_bytes, n_in, row);
            for (uint32_t r = 0; r < rows; r++) {
                double want = 0, magnitude = 0;

                for (uint32_t i = 0; i < n_in; i++) {
                    const size_t at = (size_t)r * n_in + i;
                    const double v =
                        a.kind == GP_ACTIVATION_F32 ? x[at] : (double)a.q[at] * a.scale[at / block];

                    want += row[i] * v;
                    magnitude += fabs(row[i] * v);
                }
                /* Minima: up to 63 * |dmin| a column beside the weight itself. */
                if (type == GP_TYPE_Q4_K || type == GP_TYPE_Q5_K)
                    magnitude *= 4;
                const double bound = (n_in + 2) * EPS * magnitude;

                if (!(fabs(y[r * n_out + o] - want) <= bound))
                    fail_msg("%s: %.9g, want %.9g within %.3g", info->name,
                             (double)y[r * n_out + o], want, bound);
            }
        }
        gp_mem_free(x);
        gp_mem_free(row);
        gp_mem_free(a.q);
        gp_mem_free(a.scale);
        gp_mem_free(a.sum);
        gp_mem_free(file);
        gp_mem_free((void *)(uintptr_t)w.data);
    }
}

/* ---- the cache ---- */

#define SLOTS 640u
#define DIM   64u

static float keys[SLOTS][DIM], values[SLOTS][DIM];

static const enum gp_kv_type cache_types[] = {GP_KV_F32, GP_KV_Q8_0};

/* A cache whose content, as it was rounded, is also in keys and values. */
static struct gp_kv_view cache_make(enum gp_kv_type type, uint32_t page_tokens, uint32_t *pages,
                                    struct gp_rng *rng)
{
    const uint32_t page_count = SLOTS / page_tokens;
    struct gp_kv_view kv = {.page_bytes = gp_kv_block_bytes(type, page_tokens, DIM, DIM),
                            .pages = pages,
                            .page_tokens = page_tokens,
                            .k_dim = DIM,
                            .v_dim = DIM,
                            .type = type};

    kv.base = gp_mem_alloc(page_count * kv.page_bytes);
    assert_non_null(kv.base);
    for (uint32_t i = 0; i < page_count; i++)
        pages[i] = (i + 3) % page_count;
    for (uint32_t s = 0; s < SLOTS; s++) {
        for (uint32_t i = 0; i < DIM; i++) {
            keys[s][i] = (float)gp_rng_normal(rng);
            values[s][i] = (float)gp_rng_normal(rng);
        }
        k.kv_store(&kv, s, keys[s], values[s]);
        gp_kv_load(&kv, s, keys[s], values[s]);
    }
    return kv;
}

/* A code is the nearest: half a unit off at most, and what the quotient's own rounding may add.  A
 * unit is max / 127 rounded to 11 bits, so the largest element does not fall to the cut at 127 by
 * more than 127 / 2048 of one. */
static void a_q8_0_cache_rounds_to_the_nearest_code(void **state)
{
    static uint32_t pages[] = {0};
    struct gp_rng rng = {seed_of_run()};
    struct gp_kv_view kv = {.page_bytes = gp_kv_block_bytes(GP_KV_Q8_0, 16, DIM, 32),
                            .pages = pages,
                            .page_tokens = 16,
                            .k_dim = DIM,
                            .v_dim = 32,
                            .type = GP_KV_Q8_0};
    float x[DIM + 32], y[DIM + 32];

    (void)state;
    assert_int_equal(gp_kv_block_bytes(GP_KV_Q8_0, 64, DIM, 32), 64 * (DIM + 32) / 32 * 34);
    kv.base = gp_mem_alloc(kv.page_bytes);
    for (uint32_t round = 0; round < 2000; round++) {
        const float size = ldexpf(1.0f, (int)(round % 20) - 5); /* scales are normal halves */

        for (uint32_t i = 0; i < DIM + 32; i++)
            x[i] = size * (float)gp_rng_normal(&rng);
        k.kv_store(&kv, round % 16, x, x + DIM);
        gp_kv_load(&kv, round % 16, y, y + DIM);
        for (uint32_t i = 0; i < DIM + 32; i += 32) {
            double max = 0, unit;

            for (uint32_t j = i; j < i + 32; j++)
                max = fmax(max, fabsf(x[j]));
            unit = max / 127 * (1 + 0x1p-11 + EPS);
            for (uint32_t j = i; j < i + 32; j++)
                assert_true(fabs((double)x[j] - y[j]) <= unit * (0.5 + 127 * EPS));
        }
    }
    gp_mem_free(kv.base);
}

static void zero_and_tiny_rows_of_q8_0_stay_finite(void **state)
{
    static uint32_t pages[] = {0};
    struct gp_kv_view kv = {.page_bytes = gp_kv_block_bytes(GP_KV_Q8_0, 16, 32, 32),
                            .pages = pages,
                            .page_tokens = 16,
                            .k_dim = 32,
                            .v_dim = 32,
                            .type = GP_KV_Q8_0};
    float x[64] = {0}, y[64];

    (void)state;
    kv.base = gp_mem_alloc(kv.page_bytes);
    memset(kv.base, 0xff, kv.page_bytes);
    for (int exponent = -149; exponent < -10; exponent++) { /* a scale below 2^-14 is coarse */
        x[3] = x[40] = ldexpf(1.0f, exponent);
        k.kv_store(&kv, 5, x, x + 32);
        gp_kv_load(&kv, 5, y, y + 32);
        for (uint32_t i = 0; i < 64; i++)
            assert_true(fabsf(x[i] - y[i]) <= 127 * 0x1p-25f);
    }
    assert_int_equal(gp_kv_block_bytes(GP_KV_Q8_0, 16, 80, 64), 0); /* no whole blocks */
    assert_int_equal(gp_kv_block_bytes(GP_KV_Q8_0, 16, 64, 80), 0);
    gp_mem_free(kv.base);
}

/* Attention and scores are defined on the floats that a cache stands for, whatever its type. */
static void a_q8_0_cache_is_a_float_cache_of_its_elements(void **state)
{
    static uint32_t pages[64];
    static float scores[2][SLOTS];
    const uint32_t visible = SLOTS - 7;
    struct gp_rng rng = {seed_of_run()};
    struct gp_kv_view codes = cache_make(GP_KV_Q8_0, 32, pages, &rng), floats_of = codes;
    float *q = floats(DIM, &rng), out[2][DIM];
    void *scratch = gp_mem_alloc(gp_attention_scratch_bytes(1, DIM));

    (void)state;
    floats_of.type = GP_KV_F32;
    floats_of.page_bytes = gp_kv_block_bytes(GP_KV_F32, 32, DIM, DIM);
    floats_of.base = gp_mem_alloc(SLOTS / 32 * floats_of.page_bytes);
    for (uint32_t s = 0; s < SLOTS; s++)
        k.kv_store(&floats_of, s, keys[s], values[s]);
    k.kv_scores(&codes, q, 0, SLOTS, 0.3f, scores[0]);
    k.kv_scores(&floats_of, q, 0, SLOTS, 0.3f, scores[1]);
    assert_memory_equal(scores[0], scores[1], sizeof *scores);
    k.attention(&codes, q, DIM, 1, 1, &visible, 0.3f, out[0], DIM, scratch);
    k.attention(&floats_of, q, DIM, 1, 1, &visible, 0.3f, out[1], DIM, scratch);
    assert_memory_equal(out[0], out[1], sizeof *out);
    gp_mem_free(scratch);
    gp_mem_free(q);
    gp_mem_free(codes.base);
    gp_mem_free(floats_of.base);
}

static void attention_of_type_agrees_with_double(enum gp_kv_type type)
{
    static const uint32_t lengths[] = {1, 16, 255, 256, 257, 640};
    static uint32_t pages[64];
    struct gp_rng rng = {seed_of_run()};
    struct gp_kv_view kv = cache_make(type, 64, pages, &rng);
    float *q = floats(DIM, &rng), out[DIM];
    void *scratch = gp_mem_alloc(gp_attention_scratch_bytes(1, DIM));

    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        double score[SLOTS], max = -INFINITY, total = 0;

        for (uint32_t s = 0; s < lengths[l]; s++) {
            score[s] = 0;
            for (uint32_t i = 0; i < DIM; i++)
                score[s] += (double)q[i] * keys[s][i];
            score[s] *= 0.5;
            max = fmax(max, score[s]);
        }
        for (uint32_t s = 0; s < lengths[l]; s++)
            total += score[s] = exp(score[s] - max);
        k.attention(&kv, q, DIM, 1, 1, &lengths[l], 0.5f, out, DIM, scratch);
        for (uint32_t j = 0; j < DIM; j++) {
            double want = 0, magnitude = 0;

            for (uint32_t s = 0; s < lengths[l]; s++) {
                want += score[s] / total * values[s][j];
                magnitude += score[s] / total * fabs(values[s][j]);
            }
            assert_true(fabs(out[j] - want) <= 400 * EPS * magnitude);
        }
    }
    gp_mem_free(scratch);
    gp_mem_free(q);
    gp_mem_free(kv.base);
}

static void attention_agrees_with_double(void **state)
{
    (void)state;
    for (size_t t = 0; t < sizeof cache_types / sizeof *cache_types; t++)
        attention_of_type_agrees_with_double(cache_types[t]);
}

static void attention_does_not_see_the_page_size(void **state)
{
    static uint32_t pages[64];
    const uint64_t seed = seed_of_run();
    float first[DIM], out[DIM];
    const uint32_t visible = 600;
    void *scratch = gp_mem_alloc(gp_attention_scratch_bytes(1, DIM));

    (void)state;
    for (size_t t = 0; t < sizeof cache_types / sizeof *cache_types; t++)
        for (uint32_t page = 16; page <= 128; page *= 2) {
            struct gp_rng rng = {seed};
            struct gp_kv_view kv = cache_make(cache_types[t], page, pages, &rng);

            k.attention(&kv, values[7], DIM, 1, 1, &visible, 0.5f, out, DIM, scratch);
            if (page == 16)
                memcpy(first, out, sizeof first);
            assert_memory_equal(first, out, sizeof first);
            gp_mem_free(kv.base);
        }
    gp_mem_free(scratch);
}

static void moves_take_keys_and_values_along(void **state)
{
    static uint32_t pages[64], origin[SLOTS];
    static struct gp_move moves[SLOTS];
    struct gp_rng rng = {seed_of_run()};
    float key[DIM], value[DIM];

    (void)state;
    for (uint32_t round = 0; round < 10; round++) {
        struct gp_kv_view kv = cache_make(cache_types[round % 2], 32, pages, &rng);
        uint32_t count = 0, to = 0;

        for (uint32_t s = 0; s < SLOTS; s++)
            origin[s] = s;
        for (uint32_t from = 0; from < SLOTS; from++)
            if (gp_rng_below(&rng, 2)) {
                origin[to] = from;
                moves[count++] = (struct gp_move){from, to++};
            }
        k.kv_move(&kv, moves, count);
        for (uint32_t s = 0; s < SLOTS; s++) {
            gp_kv_load(&kv, s, key, value);
            assert_memory_equal(key, keys[origin[s]], sizeof key);
            assert_memory_equal(value, values[origin[s]], sizeof value);
        }
        gp_mem_free(kv.base);
    }
}

/* ---- levels ---- */

static void levels_are_chosen_by_name_or_refused(void **state)
{
    static const char *const refused[] = {"amx", "AVX2", "sse", "avx2 "};
    const enum gp_level best = gp_level_detect();
    enum gp_level level = GP_LEVEL_COUNT;
    struct gp_error err;

    (void)state;
    assert_int_equal(gp_level_choose(NULL, &level, &err), GP_OK);
    assert_int_equal(level, best);
    assert_int_equal(gp_level_choose("", &level, NULL), GP_OK);
    assert_int_equal(level, best);
    for (int i = 0; i < GP_LEVEL_COUNT; i++) {
        const char *name = gp_level_name((enum gp_level)i);

        level = GP_LEVEL_COUNT;
        if (i <= (int)best) {
            struct gp_kernels table;

            assert_int_equal(gp_level_choose(name, &level, &err), GP_OK);
            assert_int_equal(level, i);
            gp_kernels_init(&table, level);
            assert_string_equal(table.level, name);
        } else {
            assert_int_equal(gp_level_choose(name, &level, &err), GP_EINVAL);
            assert_int_equal(level, GP_LEVEL_COUNT);
            assert_non_null(strstr(err.message, name));
        }
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(gp_level_choose(refused[i], &level, &err), GP_EINVAL);
        assert_non_null(strstr(err.message, refused[i]));
    }
}

static int start(void **state)
{
    (void)state;
    gp_kernels_init(&k, GP_LEVEL_REF);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_one_ulp),
        cmocka_unit_test(rows_agree_with_double),
        cmocka_unit_test(rope_turns_pairs),
        cmocka_unit_test(codes_are_the_nearest),
        cmocka_unit_test(products_agree_with_double),
        cmocka_unit_test(a_q8_0_cache_rounds_to_the_nearest_code),
        cmocka_unit_test(zero_and_tiny_rows_of_q8_0_stay_finite),
        cmocka_unit_test(a_q8_0_cache_is_a_float_cache_of_its_elements),
        cmocka_unit_test(attention_agrees_with_double),
        cmocka_unit_test(attention_does_not_see_the_page_size),
        cmocka_unit_test(moves_take_keys_and_values_along),
        cmocka_unit_test(levels_are_chosen_by_name_or_refused),
    };

    return cmocka_run_group_tests(tests, start, NULL);
}
