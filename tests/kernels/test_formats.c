/* Formats: our reading against the gguf package's (vectors.py), conversions, packing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "kernels/kernels.h"

static uint64_t seed_of_run(void)
{
    const char *text = getenv("GP_SEED");
    const uint64_t seed = text ? strtoull(text, NULL, 10) : 1;

    printf("# GP_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t hex_digit(char c)
{
    return (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static void formats_read_as_the_gguf_package_reads_them(void **state)
{
    FILE *file = fopen("tests/kernels/vectors.txt", "r");
    static char bytes_hex[1024], floats_hex[4096];
    static uint8_t bytes[512];
    static float out[512];
    uint32_t type, line_count = 0, seen = 0;

    (void)state;
    assert_non_null(file);
    while (fscanf(file, "%u %1023s %4095s", &type, bytes_hex, floats_hex) == 3) {
        const size_t size = strlen(bytes_hex) / 2, n = strlen(floats_hex) / 8;
        const struct gp_type_info *info = gp_type_info(type);

        assert_non_null(info);
        assert_int_equal(size, n / info->block_elems * info->block_bytes);
        for (size_t i = 0; i < size; i++)
            bytes[i] =
                (uint8_t)(hex_digit(bytes_hex[2 * i]) << 4 | hex_digit(bytes_hex[2 * i + 1]));
        gp_dequantize((enum gp_type)type, bytes, n, out);
        for (size_t i = 0; i < n; i++) {
            uint32_t want = 0;

            for (size_t j = 0; j < 8; j++)
                want = want << 4 | hex_digit(floats_hex[8 * i + j]);
            if (bits_of(out[i]) != want)
                fail_msg("%s element %zu: %a, want %a", info->name, i, (double)out[i],
                         (double)float_of(want));
        }
        line_count++;
        seen |= UINT32_C(1) << type;
    }
    fclose(file);
    assert_int_equal(line_count, 6 * 6 + 3 * 3 + 2);
    assert_int_equal(__builtin_popcount(seen), 11);
}

static void names_know_every_id_and_types_only_supported_ones(void **state)
{
    static const uint32_t removed[] = {4, 5, 31, 32, 33, 36, 37, 38};
    uint32_t supported = 0;

    (void)state;
    for (size_t i = 0; i < sizeof removed / sizeof *removed; i++) {
        assert_non_null(gp_type_name(removed[i]));
        assert_null(gp_type_info(removed[i]));
    }
    for (uint32_t type = 0; type < 64; type++) {
        const struct gp_type_info *info = gp_type_info(type);

        if (!info)
            continue;
        supported++;
        assert_string_equal(info->name, gp_type_name(type));
    }
    assert_int_equal(supported, 12);
    for (uint32_t type = 0; type <= 42; type++)
        assert_non_null(gp_type_name(type));
    assert_null(gp_type_name(43));
    assert_null(gp_type_name(UINT32_MAX));
    assert_null(gp_type_info(UINT32_MAX));
}

static void every_half_survives_the_way_through_float(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        const float value = gp_f16_to_f32((uint16_t)bits);
        const uint32_t rest = bits & 0x7fff;
        const double want =
            rest < 0x400 ? ldexp(rest, -24) : ldexp(1024 + (rest & 0x3ff), (int)(rest >> 10) - 25);

        if (rest > 0x7c00) {
            assert_true(isnan(value));
            assert_int_equal(gp_f32_to_f16(value), bits | 0x200);
            continue;
        }
        if (rest < 0x7c00)
            assert_true((double)fabsf(value) == want);
        else
            assert_true(isinf(value));
        assert_int_equal(!!signbit(value), bits >> 15);
        assert_int_equal(gp_f32_to_f16(value), bits);
    }
}

/* The nearest half by trying both neighbours in double, ties to the even one. */
static uint16_t nearest_half(float value)
{
    const double want = fabs((double)value);
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    uint16_t low = 0, high = 0x7c00; /* as a distance, infinity is 65536 */

    while (high - low > 1) {
        const uint16_t middle = (uint16_t)((low + high) / 2);

        if ((double)gp_f16_to_f32(middle) <= want)
            low = middle;
        else
            high = middle;
    }
    const double above = high == 0x7c00 ? 65536.0 : (double)gp_f16_to_f32(high);
    const double down = want - (double)gp_f16_to_f32(low), up = above - want;

    if (down < up || (down == up && low % 2 == 0))
        return sign | low;
    return sign | high;
}

static void float_to_half_is_nearest_even(void **state)
{
    struct gp_rng rng = {seed_of_run()};

    (void)state;
    for (uint32_t i = 0; i < 300000; i++) {
        /* Exponents around what a half can hold; every other one near a tie. */
        const uint32_t exponent = 127 - 27 + gp_rng_below(&rng, 46);
        uint32_t bits = (uint32_t)gp_rng_next(&rng) & 0x807fffff;

        bits |= exponent << 23;
        if (i % 2)
            bits = (bits & 0xffffe000) + 0x1000 + gp_rng_below(&rng, 3) - 1;
        assert_int_equal(gp_f32_to_f16(float_of(bits)), nearest_half(float_of(bits)));
    }
    assert_int_equal(gp_f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(gp_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(gp_f32_to_f16(INFINITY), 0x7c00);
    assert_int_equal(gp_f32_to_f16(-0x1p-25f), 0x8000);
    assert_int_equal(gp_f32_to_f16(0x1.000002p-25f), 1);
}

static void float_to_bf16_is_nearest_even(void **state)
{
    struct gp_rng rng = {seed_of_run()};

    (void)state;
    for (uint32_t i = 0; i < 300000; i++) {
        uint32_t bits = (uint32_t)gp_rng_next(&rng);
        const float value = float_of(bits);
        const uint16_t got = gp_f32_to_bf16(value);

        if (isnan(value)) {
            assert_true(isnan(gp_bf16_to_f32(got)));
            continue;
        }
        const uint32_t low = bits >> 16, dropped = bits & 0xffff;
        const uint32_t up = dropped > 0x8000 || (dropped == 0x8000 && low % 2);

        assert_int_equal(got, low + up);
        assert_int_equal(bits_of(gp_bf16_to_f32((uint16_t)low)), low << 16);
    }
    assert_true(isnan(gp_bf16_to_f32(gp_f32_to_bf16(float_of(0x7f800001)))));
}

/* Random bytes in file order; scales may be anything at all here, for nothing is computed. */
static void packing_keeps_every_row(void **state)
{
    static const uint32_t shapes[][2] = {{1, 1}, {16, 1}, {17, 2}, {40, 3}, {3, 18}, {64, 5}};
    struct gp_rng rng = {seed_of_run()};

    (void)state;
    for (uint32_t type = 0; type < 43; type++) {
        const struct gp_type_info *info = gp_type_info(type);

        for (size_t s = 0; info && s < sizeof shapes / sizeof *shapes; s++) {
            const uint32_t n_out = shapes[s][0], n_in = shapes[s][1] * info->block_elems;
            const size_t row_bytes = (size_t)shapes[s][1] * info->block_bytes;
            const size_t bytes = gp_matrix_bytes(type, n_out, n_in);
            uint8_t *file = gp_mem_alloc(n_out * row_bytes);
            void *data = gp_mem_alloc(bytes);
            float *want = gp_mem_alloc_array(n_in, sizeof *want);
            float *got = gp_mem_alloc_array(n_in, sizeof *got);
            struct gp_matrix m = {(enum gp_type)type, n_out, n_in, data};
            const uint32_t middle = n_out / 2 / GP_MATRIX_ROWS * GP_MATRIX_ROWS;

            assert_true(file && data && want && got && bytes % 64 == 0);
            for (size_t i = 0; i < n_out * row_bytes; i++)
                file[i] = (uint8_t)gp_rng_next(&rng);
            memset(data, 0xa5, bytes);
            gp_matrix_pack(&m, data, file, middle, n_out);
            gp_matrix_pack(&m, data, file, 0, middle);
            for (uint32_t row = 0; row < n_out; row++) {
                gp_dequantize(m.type, file + row * row_bytes, n_in, want);
                gp_matrix_row(&m, row, got);
                assert_memory_equal(got, want, n_in * sizeof *got);
            }
            gp_mem_free(file);
            gp_mem_free(data);
            gp_mem_free(want);
            gp_mem_free(got);
        }
    }
}

static void packed_size_is_close_to_the_files_and_refuses_nonsense(void **state)
{
    (void)state;
    for (uint32_t type = 0; type < 43; type++) {
        const struct gp_type_info *info = gp_type_info(type);

        if (!info) {
            assert_int_equal(gp_matrix_bytes(type, 16, 256), 0);
            continue;
        }
        const double file = 4096.0 * 4096 / info->block_elems * info->block_bytes;
        const double packed = (double)gp_matrix_bytes(type, 4096, 4096);

        assert_true(packed >= file && packed <= 1.03 * file);
        if (info->block_elems > 1)
            assert_int_equal(gp_matrix_bytes(type, 16, info->block_elems + 1), 0);
    }
    assert_int_equal(gp_matrix_bytes(GP_TYPE_F32, UINT32_MAX, UINT32_MAX), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_read_as_the_gguf_package_reads_them),
        cmocka_unit_test(names_know_every_id_and_types_only_supported_ones),
        cmocka_unit_test(every_half_survives_the_way_through_float),
        cmocka_unit_test(float_to_half_is_nearest_even),
        cmocka_unit_test(float_to_bf16_is_nearest_even),
        cmocka_unit_test(packing_keeps_every_row),
        cmocka_unit_test(packed_size_is_close_to_the_files_and_refuses_nonsense),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
