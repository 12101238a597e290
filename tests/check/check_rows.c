/* Entries that work on rows of floats. */
#include <math.h>

#include "check/check.h"

static const uint32_t sizes[] = {1,  2,  7,  8,  9,  15, 16, 17,  23,  24,
                                 25, 31, 32, 33, 63, 64, 80, 128, 576, 1000};

/* Numbers that no model should produce, but that must neither differ nor be undefined. */
static void spoil(float *x, size_t n, struct gp_rng *rng)
{
    static const float odd[] = {INFINITY,        -INFINITY,        NAN,
                                0x1.fffffep127f, -0x1.fffffep127f, 0x1p-149f};

    x[gp_rng_below(rng, (uint32_t)n)] = odd[gp_rng_below(rng, CHECK_COUNT(odd))];
}

static void rms_norm_of(struct check *c, uint32_t n, enum check_fill kind)
{
    float *x = check_floats(n, kind, &c->rng), *weight = check_floats(n, CHECK_PLAIN, &c->rng);
    float *want = check_guarded(n * sizeof *want), *got = check_guarded(n * sizeof *got);
    const float want_rms = c->ref.rms(x, n), got_rms = c->wide.rms(x, n);

    check_same(&want_rms, &got_rms, 1, "%s rms n=%u fill=%d", c->wide.level, n, kind);
    c->ref.rms_norm(want, x, weight, n, 1e-6f);
    c->wide.rms_norm(got, x, weight, n, 1e-6f);
    check_same(want, got, n, "%s rms_norm n=%u fill=%d", c->wide.level, n, kind);
    c->wide.rms_norm(x, x, weight, n, 1e-6f);
    check_same(want, x, n, "%s rms_norm in place n=%u fill=%d", c->wide.level, n, kind);
    check_free(x);
    check_free(weight);
    check_free(want);
    check_free(got);
}

static void rms_norm_all(struct check *c)
{
    for (size_t s = 0; s < CHECK_COUNT(sizes); s++)
        for (int kind = 0; kind < CHECK_FILLS; kind++)
            rms_norm_of(c, sizes[s], (enum check_fill)kind);
}

void check_rms_norm_equals_definition(void **state)
{
    (void)state;
    check_levels(rms_norm_all);
}

static void elementwise_of(struct check *c, uint32_t n, int fill)
{
    const size_t bytes = n * sizeof(float);
    float *x = check_floats(n, (enum check_fill)(fill % CHECK_FILLS), &c->rng);
    float *other = check_floats(n, (enum check_fill)gp_rng_below(&c->rng, CHECK_FILLS), &c->rng);
    float *want = check_guarded(bytes), *got = check_guarded(bytes);

    if (fill >= CHECK_FILLS)
        spoil(x, n, &c->rng);
    memcpy(want, other, bytes);
    memcpy(got, other, bytes);
    c->ref.add(want, x, n);
    c->wide.add(got, x, n);
    check_same(want, got, n, "%s add n=%u fill=%d", c->wide.level, n, fill);

    c->ref.ema(want, x, n, 0.9f);
    c->wide.ema(got, x, n, 0.9f);
    check_same(want, got, n, "%s ema n=%u fill=%d", c->wide.level, n, fill);

    c->ref.max_into(want, x, n);
    c->wide.max_into(got, x, n);
    check_same(want, got, n, "%s max_into n=%u fill=%d", c->wide.level, n, fill);

    c->ref.silu_mul(want, x, other, n);
    c->wide.silu_mul(got, x, other, n);
    check_same(want, got, n, "%s silu_mul n=%u fill=%d", c->wide.level, n, fill);
    check_free(x);
    check_free(other);
    check_free(want);
    check_free(got);
}

static void elementwise_all(struct check *c)
{
    for (size_t s = 0; s < CHECK_COUNT(sizes); s++)
        for (int fill = 0; fill < 4 * CHECK_FILLS; fill++)
            elementwise_of(c, sizes[s], fill);
}

void check_elementwise_equals_definition(void **state)
{
    (void)state;
    check_levels(elementwise_all);
}

static void rope_of(struct check *c, uint32_t rot, bool neox, enum check_fill kind)
{
    const uint32_t half = rot / 2;
    float *want = check_floats(rot, kind, &c->rng), *got = check_guarded(rot * sizeof *got);
    float *cosine = check_guarded(half * sizeof *cosine),
          *sine = check_guarded(half * sizeof *sine);

    for (uint32_t i = 0; i < half; i++) {
        const double angle = gp_rng_uniform(&c->rng) * 7;

        cosine[i] = (float)cos(angle);
        sine[i] = (float)sin(angle);
    }
    memcpy(got, want, rot * sizeof *got);
    c->ref.rope(want, cosine, sine, rot, neox);
    c->wide.rope(got, cosine, sine, rot, neox);
    check_same(want, got, rot, "%s rope rot=%u neox=%d fill=%d", c->wide.level, rot, neox, kind);
    check_free(want);
    check_free(got);
    check_free(cosine);
    check_free(sine);
}

static void rope_all(struct check *c)
{
    static const uint32_t rots[] = {2, 4, 12, 16, 18, 24, 32, 48, 64, 80, 96, 128, 256};

    for (size_t s = 0; s < CHECK_COUNT(rots); s++)
        for (int kind = 0; kind < CHECK_FILLS; kind++) {
            rope_of(c, rots[s], false, (enum check_fill)kind);
            rope_of(c, rots[s], true, (enum check_fill)kind);
        }
}

void check_rope_equals_definition(void **state)
{
    (void)state;
    check_levels(rope_all);
}

static void softmax_of(struct check *c, float *want, uint32_t n, const char *what)
{
    float *got = check_guarded(n * sizeof *got);

    memcpy(got, want, n * sizeof *got);
    c->ref.softmax(want, n);
    c->wide.softmax(got, n);
    check_same(want, got, n, "%s softmax n=%u %s", c->wide.level, n, what);
    check_free(got);
    check_free(want);
}

static void softmax_all(struct check *c)
{
    for (size_t s = 0; s < CHECK_COUNT(sizes); s++) {
        const uint32_t n = sizes[s];
        float *x;

        for (int kind = 0; kind < CHECK_FILLS; kind++)
            softmax_of(c, check_floats(n, (enum check_fill)kind, &c->rng), n, "fill");
        x = check_floats(n, CHECK_PLAIN, &c->rng); /* weights that underflow, and -infinity */
        for (uint32_t i = 0; i < n; i++)
            x[i] = i % 3 == 2 ? -INFINITY : x[i] * 60.0f;
        softmax_of(c, x, n, "wide");
        for (int round = 0; round < 12; round++) {
            x = check_floats(n, CHECK_PLAIN, &c->rng);
            spoil(x, n, &c->rng);
            softmax_of(c, x, n, "odd");
        }
    }
}

void check_softmax_equals_definition(void **state)
{
    (void)state;
    check_levels(softmax_all);
}

static void quantize_of(struct check *c, enum gp_activation kind, uint32_t k, int fill)
{
    const uint32_t rows = 3, block = kind == GP_ACTIVATION_Q8 ? 32 : 256;
    const size_t n = (size_t)rows * k;
    float *x = check_floats(n, (enum check_fill)(fill % CHECK_FILLS), &c->rng);
    struct gp_activations want = {.kind = kind, .k = k, .row_count = rows, .x = x, .x_stride = k};
    struct gp_activations got = want;

    if (fill >= CHECK_FILLS)
        spoil(x, n, &c->rng);
    want.q = check_guarded(n);
    want.scale = check_guarded(n / block * sizeof *want.scale);
    want.sum = check_guarded(n / 32 * sizeof *want.sum);
    got.q = check_guarded(n);
    got.scale = check_guarded(n / block * sizeof *got.scale);
    got.sum = check_guarded(n / 32 * sizeof *got.sum);
    c->ref.quantize(&want, 0, rows);
    c->wide.quantize(&got, 1, rows); /* in two parts, as workers do */
    c->wide.quantize(&got, 0, 1);
    check_same(want.scale, got.scale, n / block, "%s scale k=%u fill=%d", c->wide.level, k, fill);
    assert_memory_equal(want.q, got.q, n);
    assert_memory_equal(want.sum, got.sum, n / 32 * sizeof *want.sum);
    check_free(want.q);
    check_free(want.scale);
    check_free(want.sum);
    check_free(got.q);
    check_free(got.scale);
    check_free(got.sum);
    check_free(x);
}

static void quantize_all(struct check *c)
{
    for (uint32_t blocks = 1; blocks < 7; blocks++)
        for (int fill = 0; fill < 2 * CHECK_FILLS; fill++)
            for (int round = 0; round < 8; round++) {
                quantize_of(c, GP_ACTIVATION_Q8, blocks * 32, fill);
                quantize_of(c, GP_ACTIVATION_Q8_K, blocks * 256, fill);
            }
}

void check_quantize_equals_definition(void **state)
{
    (void)state;
    check_levels(quantize_all);
}
