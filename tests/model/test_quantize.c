/* The test quantisers against the definition of every format: gp_dequantize. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "model/quantize.h"

#define N 65536u

static uint64_t seed;
static float x[N], y[N];
static uint8_t blocks[N * 4];

/* Root mean square error over root mean square for normal weights, within a tenth.  A step of s
 * leaves s / sqrt(12); s is the peak of 16 or 32 such numbers (1.8, 2.1; their range is twice
 * that) over half the codes. */
static const struct {
    enum gp_type type;
    double error;
} formats[] = {
    {GP_TYPE_F32, 0.0},     {GP_TYPE_F16, 0.00021}, {GP_TYPE_BF16, 0.00167},
    {GP_TYPE_Q8_0, 0.0053}, {GP_TYPE_Q5_0, 0.041},  {GP_TYPE_Q5_1, 0.038},
    {GP_TYPE_Q4_0, 0.083},  {GP_TYPE_Q4_1, 0.078},  {GP_TYPE_IQ4_NL, 0.077},
    {GP_TYPE_Q4_K, 0.079},  {GP_TYPE_Q5_K, 0.038},  {GP_TYPE_Q6_K, 0.018},
};

static double error_of(enum gp_type type)
{
    double miss = 0, power = 0;

    test_quantize(type, x, N, blocks);
    gp_dequantize(type, blocks, N, y);
    for (uint32_t i = 0; i < N; i++) {
        miss += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
        power += (double)x[i] * x[i];
    }
    return sqrt(miss / power);
}

static void error_is_the_format_s_own(void **state)
{
    struct gp_rng rng = {seed};

    (void)state;
    for (float scale = 1e-3f; scale < 1e3f; scale *= 37.0f) {
        for (uint32_t i = 0; i < N; i++)
            x[i] = scale * (float)gp_rng_normal(&rng);
        for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
            double error = error_of(formats[f].type);

            if (error > 1.1 * formats[f].error || error < 0.9 * formats[f].error)
                fail_msg("%s at scale %g: error %.5f, expected %.5f (GP_SEED=%llu)",
                         gp_type_name(formats[f].type), (double)scale, error, formats[f].error,
                         (unsigned long long)seed);
        }
    }
}

static void zeros_stay_zeros(void **state)
{
    (void)state;
    memset(x, 0, sizeof x);
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        test_quantize(formats[f].type, x, N, blocks);
        gp_dequantize(formats[f].type, blocks, N, y);
        for (uint32_t i = 0; i < N; i++)
            assert_true(y[i] == 0.0f);
    }
}

/* One outlier a block, of either sign, and its place must come back. */
static void every_place_and_sign_is_kept(void **state)
{
    (void)state;
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        uint32_t n = 256;

        for (uint32_t at = 0; at < n; at++) {
            float value = at % 2 ? -2.0f : 2.0f;

            memset(x, 0, n * sizeof *x);
            x[at] = value;
            test_quantize(formats[f].type, x, n, blocks);
            gp_dequantize(formats[f].type, blocks, n, y);
            for (uint32_t i = 0; i < n; i++)
                if (fabsf(y[i] - x[i]) > 0.07f)
                    fail_msg("%s: element %u of an outlier at %u is %g",
                             gp_type_name(formats[f].type), i, at, (double)y[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_is_the_format_s_own),
        cmocka_unit_test(zeros_stay_zeros),
        cmocka_unit_test(every_place_and_sign_is_kept),
    };
    const char *text = getenv("GP_SEED");

    seed = text ? strtoull(text, NULL, 0) : 20250101;
    return cmocka_run_group_tests_name("quantize", tests, NULL, NULL);
}
