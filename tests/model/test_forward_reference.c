/* Logits against an independent float64 reference: tools/oracle/forward_reference.py, which reads
 * the same files and whose results are committed under tests/oracle/logits.
 *
 * GP_REFERENCE_MODELS=FOLDER writes the models there, for the script, and compares nothing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "model/forward_world.h"
#include "model/model_edit.h"

#define TOKENS 48u
#define VOCAB  288u
/* Of the range of the logits.  A code of a Q8_0 cache is off by up to 1/254 of the largest element
 * of its block. */
#define TOLERANCE      1e-4
#define TOLERANCE_Q8_0 1.5e-2

struct reference_case {
    const char *name;
    struct test_model model;
    const char *scaling; /* rope.scaling.type; NULL: no such keys */
    float factor;
    uint32_t context_original;
    float attention_factor; /* 0: no such key */
    uint32_t rope_dim;      /* 0: all of the head */
};

static const struct reference_case cases[] = {
    {.name = "llama-g1-tied",
     .model =
         {.arch = "llama", .embd = 64, .heads = 4, .kv_heads = 4, .head_dim = 16, .tied = true}},
    {.name = "llama-g3-factors",
     .model = {.arch = "llama",
               .embd = 72,
               .heads = 9,
               .kv_heads = 3,
               .head_dim = 16,
               .rope_factors = true,
               .rope_base = 500000.0f}},
    {.name = "llama-g8-bias-linear",
     .model = {.arch = "llama",
               .embd = 64,
               .heads = 8,
               .kv_heads = 1,
               .head_dim = 32,
               .v_dim = 24,
               .bias = true},
     .scaling = "linear",
     .factor = 4.0f},
    {.name = "llama-part-of-head",
     .model = {.arch = "llama", .embd = 48, .heads = 6, .kv_heads = 2, .head_dim = 20, .v_dim = 8},
     .rope_dim = 12},
    {.name = "qwen2-g3-bias",
     .model = {.arch = "qwen2",
               .embd = 96,
               .heads = 6,
               .kv_heads = 2,
               .head_dim = 16,
               .bias = true,
               .rope_base = 1000000.0f}},
    {.name = "qwen2-yarn",
     .model = {.arch = "qwen2",
               .embd = 64,
               .heads = 8,
               .kv_heads = 1,
               .head_dim = 32,
               .bias = true,
               .tied = true},
     .scaling = "yarn",
     .factor = 4.0f,
     .context_original = 64},
    {.name = "qwen3-wide-heads",
     .model =
         {.arch = "qwen3", .embd = 64, .heads = 4, .kv_heads = 2, .head_dim = 32, .tied = true}},
    {.name = "qwen3-yarn",
     .model = {.arch = "qwen3", .embd = 80, .heads = 8, .kv_heads = 8, .head_dim = 24, .v_dim = 40},
     .scaling = "yarn",
     .factor = 8.0f,
     .context_original = 32,
     .attention_factor = 0.75f},
};

#define CASES (sizeof cases / sizeof *cases)

static struct test_model model_of(const struct reference_case *c)
{
    struct test_model m = c->model;

    m.layers = 3;
    m.ffn = 100;
    m.vocab = VOCAB;
    m.context = 4096;
    m.rms_eps = 1e-5f;
    m.type = GP_TYPE_F32;
    m.seed = 1 + (uint64_t)(c - cases);
    m.eos = TEST_TOKEN_IM_END;
    if (m.rope_base == 0.0f)
        m.rope_base = 10000.0f;
    return m;
}

/* The case's model with its scaling keys. */
static struct gp_gguf_writer *write_case(const struct reference_case *c)
{
    struct test_model m = model_of(c);
    char rotated[64], key[64];

    snprintf(rotated, sizeof rotated, "%s.rope.dimension_count", m.arch);
    const char *without[] = {c->rope_dim ? rotated : NULL, NULL};
    struct gp_gguf_writer *w = test_model_edit(&m, without);

    if (c->rope_dim)
        gp_gguf_add_u32(w, rotated, c->rope_dim);
    if (!c->scaling)
        return w;
    snprintf(key, sizeof key, "%s.rope.scaling.type", m.arch);
    gp_gguf_add_str(w, key, c->scaling, strlen(c->scaling));
    snprintf(key, sizeof key, "%s.rope.scaling.factor", m.arch);
    gp_gguf_add_f32(w, key, c->factor);
    snprintf(key, sizeof key, "%s.rope.scaling.original_context_length", m.arch);
    if (c->context_original)
        gp_gguf_add_u32(w, key, c->context_original);
    snprintf(key, sizeof key, "%s.rope.scaling.attn_factor", m.arch);
    if (c->attention_factor > 0.0f)
        gp_gguf_add_f32(w, key, c->attention_factor);
    return w;
}

/* The largest difference from the committed logits, as a share of their range.  The file: "rows
 * vocab", then each row's position and logits. */
static double compare_with_file(const char *name, const float *logits)
{
    char path[256];
    uint32_t rows, vocab, position;
    double value, worst = 0.0, low = INFINITY, high = -INFINITY;

    snprintf(path, sizeof path, "tests/oracle/logits/%s.txt", name);
    FILE *f = fopen(path, "r");

    if (!f)
        fail_msg("%s: cannot be opened; the test runs from the repository's root", path);
    assert_int_equal(fscanf(f, "%u %u", &rows, &vocab), 2);
    assert_int_equal(vocab, VOCAB);
    assert_true(rows >= 3);
    for (uint32_t r = 0; r < rows; r++) {
        assert_int_equal(fscanf(f, "%u", &position), 1);
        assert_true(position < TOKENS);
        for (uint32_t i = 0; i < vocab; i++) {
            assert_int_equal(fscanf(f, "%lf", &value), 1);
            double difference = fabs(value - logits[position * vocab + i]);

            worst = difference > worst ? difference : worst;
            low = value < low ? value : low;
            high = value > high ? value : high;
        }
    }
    fclose(f);
    assert_true(high - low > 1.0);
    return worst / (high - low);
}

static void compare_case(const struct reference_case *c, enum gp_level level,
                         enum gp_kv_type kv_type, double tolerance)
{
    static float logits[TOKENS * VOCAB];
    static const uint32_t pages[] = {2, 0, 3, 1};
    struct gp_gguf *gguf = test_model_edited(write_case(c));
    struct test_setup setup = {.level = level,
                               .threads = 2,
                               .page_tokens = 16,
                               .page_count = 4,
                               .kv_type = kv_type,
                               .fill = 0xff};
    struct test_world w;
    int32_t tokens[TOKENS];
    struct test_sequence s = {.tokens = tokens,
                              .count = TOKENS,
                              .pages = pages,
                              .summary_slot = GP_NO_SUMMARY,
                              .generated_from = TOKENS,
                              .logits = logits};

    for (uint32_t i = 0; i < TOKENS; i++)
        tokens[i] = (int32_t)((i * 37 + 11) % VOCAB);
    test_world_open(&w, gguf, &setup);
    test_world_run(&w, &s, 1, 7, NULL);
    test_world_close(&w);
    gp_gguf_close(gguf);
    double share = compare_with_file(c->name, logits);

    printf("# %s %s: %.2g of the range\n", c->name, gp_level_name(level), share);
    if (!(share <= tolerance))
        fail_msg("%s: %g of the range", c->name, share);
}

static void logits_match_the_float64_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++)
        for (int level = 0; level <= (int)gp_level_detect(); level++)
            compare_case(&cases[i], (enum gp_level)level, GP_KV_F32, TOLERANCE);
}

static void a_q8_0_cache_stays_near_the_float64_reference(void **state)
{
    size_t compared = 0;

    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        struct test_model m = model_of(&cases[i]);

        if (m.head_dim % 32 || m.v_dim % 32)
            continue;
        for (int level = 0; level <= (int)gp_level_detect(); level++)
            compare_case(&cases[i], (enum gp_level)level, GP_KV_Q8_0, TOLERANCE_Q8_0);
        compared++;
    }
    assert_true(compared > 1);
}

static int write_models(const char *folder)
{
    for (size_t i = 0; i < CASES; i++) {
        struct gp_gguf_writer *w = write_case(&cases[i]);
        struct gp_error err = {""};
        char path[512];

        snprintf(path, sizeof path, "%s/%s.gguf", folder, cases[i].name);
        int rc = gp_gguf_writer_write(w, path, &err);

        gp_gguf_writer_close(w);
        if (rc != GP_OK) {
            fprintf(stderr, "%s\n", err.message);
            return 1;
        }
    }
    return 0;
}

int main(void)
{
    const char *folder = getenv("GP_REFERENCE_MODELS");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_match_the_float64_reference),
        cmocka_unit_test(a_q8_0_cache_stays_near_the_float64_reference),
    };

    return folder ? write_models(folder) : cmocka_run_group_tests(tests, NULL, NULL);
}
