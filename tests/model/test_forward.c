/* What the forward pass promises beside being right: results that depend on the sequence alone,
 * a cache that is touched only where it should be, and summaries as spec.md section 2 has them. */
#include "model/forward.h"

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
#include "model/quantize.h"

#define VOCAB         320u
#define LENGTH        40u
#define PAGES_MAX     64u
#define SUMMARIES_MAX 8192u

static uint64_t seed;

static struct test_model small_model(const char *arch, enum gp_type type)
{
    struct test_model m;

    test_model_init(&m);
    m.arch = arch;
    m.type = type;
    m.embd = 256;
    m.ffn = 288; /* no whole K block, so that a K file mixes types */
    m.heads = 8;
    m.kv_heads = 2;
    m.head_dim = 32;
    m.vocab = VOCAB;
    m.bias = strcmp(arch, "qwen2") == 0;
    m.tied = strcmp(arch, "llama") == 0;
    m.seed = seed;
    return m;
}

/* ---- one sequence, many ways ---- */

struct outcome {
    float logits[LENGTH * VOCAB];
    float summaries[SUMMARIES_MAX];
    size_t summary_count;
};

/* How a run differs from the plainest one; zeros are the plainest. */
struct way {
    const char *name;
    uint32_t neighbours; /* random sequences beside it                 */
    uint32_t chunk_max;  /* 0: all at once                             */
    bool random_chunks;
    uint32_t threads;
    uint32_t page_tokens;
    bool scattered; /* pages in a random order over the pool           */
    uint8_t fill;
    enum gp_level level;
};

static void shuffle(uint32_t *items, uint32_t count, struct gp_rng *rng)
{
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = gp_rng_below(rng, i), t = items[i - 1];

        items[i - 1] = items[j];
        items[j] = t;
    }
}

static void run_way(const struct gp_gguf *gguf, const struct way *way, const int32_t *tokens,
                    struct outcome *out)
{
    static int32_t other[15][LENGTH];
    struct test_sequence s[16] = {0};
    uint32_t pages[PAGES_MAX];
    struct gp_rng rng = {seed + 77};
    uint32_t page_tokens = way->page_tokens ? way->page_tokens : 256;
    uint32_t per_sequence = (LENGTH + page_tokens - 1) / page_tokens;
    struct test_setup setup = {.level = way->level,
                               .threads = way->threads ? way->threads : 1,
                               .page_tokens = page_tokens,
                               .page_count = per_sequence * 16,
                               .kv_type = GP_KV_F16,
                               .summary_slots = 16,
                               .fill = way->fill};
    struct test_world w;

    for (uint32_t i = 0; i < setup.page_count; i++)
        pages[i] = i;
    if (way->scattered)
        shuffle(pages, setup.page_count, &rng);
    for (uint32_t i = 0; i <= way->neighbours; i++) {
        s[i] = (struct test_sequence){.tokens = i ? other[i - 1] : tokens,
                                      .count = LENGTH,
                                      .pages = pages + (size_t)i * per_sequence,
                                      .summary_slot = i,
                                      .generated_from = LENGTH / 2 - i};
        if (i > 0) {
            test_tokens(other[i - 1], LENGTH, VOCAB, &rng);
            s[i].count = 1 + gp_rng_below(&rng, LENGTH);
        }
    }
    s[0].logits = out->logits;
    test_world_open(&w, gguf, &setup);
    test_world_run(&w, s, way->neighbours + 1, way->chunk_max ? way->chunk_max : LENGTH,
                   way->random_chunks ? &rng : NULL);
    assert_true((size_t)2 * 8 * 33 * 2 <= SUMMARIES_MAX);
    out->summary_count = test_world_summaries(&w, 0, out->summaries);
    test_world_close(&w);
}

static void compare_ways(const struct gp_gguf *gguf, const struct way *base, const struct way *ways,
                         size_t count)
{
    static struct outcome plain, other;
    struct gp_rng rng = {seed + 5};
    int32_t tokens[LENGTH];

    test_tokens(tokens, LENGTH, VOCAB, &rng);
    run_way(gguf, base, tokens, &plain);
    for (size_t i = 0; i < LENGTH * VOCAB; i++)
        assert_true(isfinite(plain.logits[i]));
    for (size_t i = 0; i < plain.summary_count; i++)
        assert_true(isfinite(plain.summaries[i]));
    for (size_t i = 0; i < count; i++) {
        run_way(gguf, &ways[i], tokens, &other);
        if (memcmp(plain.logits, other.logits, sizeof plain.logits) != 0)
            fail_msg("GP_SEED=%llu: logits change with: %s", (unsigned long long)seed,
                     ways[i].name);
        if (memcmp(plain.summaries, other.summaries, plain.summary_count * sizeof(float)) != 0)
            fail_msg("GP_SEED=%llu: summaries change with: %s", (unsigned long long)seed,
                     ways[i].name);
    }
}

static void compare_usual_ways(const struct gp_gguf *gguf, enum gp_level level)
{
    const struct way base = {.level = level};
    const struct way ways[] = {
        {"two threads", .threads = 2, .level = level},
        {"one row at a time", .chunk_max = 1, .level = level},
        {"random chunks, two threads", .chunk_max = 9, .random_chunks = true, .threads = 2,
         .level = level},
        {"fifteen neighbours", .neighbours = 15, .chunk_max = 16, .random_chunks = true,
         .threads = 2, .level = level},
        {"pages of 16", .page_tokens = 16, .level = level},
        {"pages of 32, scattered", .page_tokens = 32, .scattered = true, .level = level},
        {"all at once: neighbours, scattered pages of 16, what lay in the pool before",
         .neighbours = 15, .chunk_max = 11, .random_chunks = true, .threads = 2, .page_tokens = 16,
         .scattered = true, .fill = 0xff, .level = level},
    };

    compare_ways(gguf, &base, ways, sizeof ways / sizeof *ways);
}

static void a_sequence_depends_on_itself_alone(void **state)
{
    static const enum gp_type types[] = {GP_TYPE_F32,  GP_TYPE_F16,    GP_TYPE_BF16, GP_TYPE_Q4_0,
                                         GP_TYPE_Q4_1, GP_TYPE_Q5_0,   GP_TYPE_Q5_1, GP_TYPE_Q8_0,
                                         GP_TYPE_Q4_K, GP_TYPE_IQ4_NL, GP_TYPE_Q5_K, GP_TYPE_Q6_K};
    static const char *const archs[] = {"llama", "qwen2", "qwen3"};

    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct test_model m = small_model(archs[i % 3], types[i]);
        struct gp_gguf *gguf = test_model_made(&m);

        compare_usual_ways(gguf, gp_level_detect());
        gp_gguf_close(gguf);
    }
}

/* Queries, keys and values that want three forms of the same input. */
static void a_layer_may_mix_all_kinds_of_types(void **state)
{
    static const char *const without[] = {"blk.0.attn_k.weight", "blk.0.attn_v.weight",
                                          "blk.1.ffn_up.weight", NULL};
    static float values[288 * 256];
    static uint8_t blocks[sizeof values];
    struct test_model m = small_model("llama", GP_TYPE_Q4_K);
    struct gp_gguf_writer *w = test_model_edit(&m, without);
    static const struct {
        enum gp_type type;
        uint64_t rows;
    } as[] = {{GP_TYPE_Q8_0, 64}, {GP_TYPE_F16, 64}, {GP_TYPE_Q5_1, 288}};
    struct gp_rng rng = {seed + 6};

    (void)state;
    for (size_t i = 0; i < 288 * 256; i++)
        values[i] = (float)(gp_rng_normal(&rng) / 16.0);
    for (size_t i = 0; i < 3; i++) {
        test_quantize(as[i].type, values, as[i].rows * 256, blocks);
        gp_gguf_add_tensor(w, without[i], as[i].type, 2, (uint64_t[]){256, as[i].rows}, blocks);
    }
    struct gp_gguf *gguf = test_model_edited(w);

    compare_usual_ways(gguf, gp_level_detect());
    gp_gguf_close(gguf);
}

static void integer_weights_give_the_same_bits_at_every_level(void **state)
{
    static const enum gp_type types[] = {GP_TYPE_Q4_0, GP_TYPE_Q4_1, GP_TYPE_Q5_0,
                                         GP_TYPE_Q5_1, GP_TYPE_Q8_0, GP_TYPE_IQ4_NL,
                                         GP_TYPE_Q4_K, GP_TYPE_Q5_K, GP_TYPE_Q6_K};
    static const char *const archs[] = {"qwen3", "llama", "qwen2"};
    const struct way ref = {.level = GP_LEVEL_REF};
    struct way ways[GP_LEVEL_COUNT] = {0};
    size_t count = 0;

    (void)state;
    for (int level = 1; level <= (int)gp_level_detect(); level++)
        ways[count++] = (struct way){gp_level_name((enum gp_level)level), .threads = 2,
                                     .level = (enum gp_level)level};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct test_model m = small_model(archs[i % 3], types[i]);

        m.embd = 256;
        m.ffn = 256; /* no fallback to another type */
        m.layers = 1;
        struct gp_gguf *gguf = test_model_made(&m);

        compare_ways(gguf, &ref, ways, count);
        gp_gguf_close(gguf);
    }
}

/* Past a split of attention, over many pages. */
static void long_sequences_depend_on_themselves_alone(void **state)
{
    enum {
        LONG = 600
    };
    static int32_t tokens[LONG];
    static float logits[3][LONG * VOCAB];
    static const struct {
        uint32_t page_tokens, chunk, threads;
    } ways[3] = {{1024, 256, 1}, {16, 100, 2}, {64, 1, 2}};
    struct test_model m = small_model("qwen3", GP_TYPE_Q8_0);
    struct gp_rng rng = {seed + 8};
    uint32_t pages[LONG / 16 + 1];

    (void)state;
    m.layers = 1;
    m.embd = 64;
    struct gp_gguf *gguf = test_model_made(&m);

    test_tokens(tokens, LONG, VOCAB, &rng);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t count = (LONG + ways[i].page_tokens - 1) / ways[i].page_tokens;
        struct test_setup setup = {.level = gp_level_detect(),
                                   .threads = ways[i].threads,
                                   .page_tokens = ways[i].page_tokens,
                                   .page_count = count,
                                   .kv_type = GP_KV_BF16};
        struct test_sequence s = {.tokens = tokens,
                                  .count = LONG,
                                  .pages = pages,
                                  .summary_slot = GP_NO_SUMMARY,
                                  .logits = logits[i]};
        struct test_world w;

        for (uint32_t p = 0; p < count; p++)
            pages[p] = count - 1 - p;
        test_world_open(&w, gguf, &setup);
        test_world_run(&w, &s, 1, ways[i].chunk, NULL);
        test_world_close(&w);
        assert_memory_equal(logits[0], logits[i], sizeof logits[0]);
    }
    gp_gguf_close(gguf);
}

/* ---- models that must agree ---- */

static void run_f32(const struct gp_gguf *gguf, float *logits)
{
    static const uint32_t pages[] = {0, 1, 2};
    struct test_setup setup = {.level = gp_level_detect(),
                               .threads = 2,
                               .page_tokens = 16,
                               .page_count = 3,
                               .kv_type = GP_KV_F32};
    struct gp_rng rng = {seed + 9};
    int32_t tokens[LENGTH];
    struct test_sequence s = {.tokens = tokens,
                              .count = LENGTH,
                              .pages = pages,
                              .summary_slot = GP_NO_SUMMARY,
                              .logits = logits};
    struct test_world w;

    test_tokens(tokens, LENGTH, VOCAB, &rng);
    test_world_open(&w, gguf, &setup);
    test_world_run(&w, &s, 1, LENGTH, NULL);
    test_world_close(&w);
}

static void run_edited(struct gp_gguf_writer *w, float *logits)
{
    struct gp_gguf *gguf = test_model_edited(w);

    run_f32(gguf, logits);
    gp_gguf_close(gguf);
}

static float logits_a[LENGTH * VOCAB], logits_b[LENGTH * VOCAB];

static void tied_is_the_same_matrix_twice(void **state)
{
    struct test_model m = small_model("llama", GP_TYPE_Q4_K);
    struct gp_gguf *gguf = test_model_made(&m);
    const struct gp_gguf_tensor *t = gp_gguf_find_tensor(gguf, "token_embd.weight");
    struct gp_gguf_writer *w = test_model_edit(&m, NULL);

    (void)state;
    assert_true(m.tied && !gp_gguf_find_tensor(gguf, "output.weight"));
    gp_gguf_add_tensor(w, "output.weight", t->type, 2, t->dims, t->data);
    run_f32(gguf, logits_a);
    gp_gguf_close(gguf);
    run_edited(w, logits_b);
    assert_memory_equal(logits_a, logits_b, sizeof logits_a);
}

static void a_head_norm_takes_the_queries_scale_away(void **state)
{
    static const char *const without[] = {"blk.0.attn_q.weight", "blk.1.attn_q.weight", NULL};
    struct test_model m = small_model("qwen3", GP_TYPE_F32);
    struct gp_gguf *gguf = test_model_made(&m);
    struct gp_gguf_writer *w = test_model_edit(&m, without);

    (void)state;
    for (uint32_t layer = 0; layer < 2; layer++) {
        const struct gp_gguf_tensor *t = gp_gguf_find_tensor(gguf, without[layer]);
        size_t n = t->dims[0] * t->dims[1];
        float *ten_times = gp_mem_alloc_array(n, sizeof *ten_times);

        assert_non_null(ten_times);
        for (size_t i = 0; i < n; i++)
            ten_times[i] = ((const float *)t->data)[i] * 10.0f;
        gp_gguf_add_tensor(w, without[layer], GP_TYPE_F32, 2, t->dims, ten_times);
        gp_mem_free(ten_times);
    }
    run_f32(gguf, logits_a);
    gp_gguf_close(gguf);
    run_edited(w, logits_b);
    /* The norm's epsilon is all that is left of the difference. */
    for (size_t i = 0; i < LENGTH * VOCAB; i++)
        assert_true(fabsf(logits_a[i] - logits_b[i]) < 2e-3f);
}

static void add_factors(struct gp_gguf_writer *w, float factor)
{
    float factors[16];

    for (uint32_t i = 0; i < 16; i++)
        factors[i] = factor;
    gp_gguf_add_tensor(w, "rope_freqs.weight", GP_TYPE_F32, 1, (uint64_t[]){16}, factors);
}

static void rope_factors_divide_the_angle(void **state)
{
    struct test_model m = small_model("llama", GP_TYPE_F32);
    struct gp_gguf_writer *plain = test_model_edit(&m, NULL), *ones = test_model_edit(&m, NULL);
    struct gp_gguf_writer *twos = test_model_edit(&m, NULL);
    struct gp_gguf_writer *linear = test_model_edit(&m, NULL);

    (void)state;
    add_factors(ones, 1.0f);
    add_factors(twos, 2.0f);
    gp_gguf_add_f32(linear, "llama.rope.scaling.factor", 2.0f);
    run_edited(plain, logits_a);
    run_edited(ones, logits_b);
    assert_memory_equal(logits_a, logits_b, sizeof logits_a);
    run_edited(twos, logits_b);
    assert_memory_equal(logits_a, logits_b, VOCAB * sizeof(float));
    for (uint32_t r = 1; r < LENGTH; r++)
        assert_memory_not_equal(logits_a + r * VOCAB, logits_b + r * VOCAB, VOCAB * sizeof(float));
    run_edited(linear, logits_a);
    assert_memory_equal(logits_a, logits_b, sizeof logits_a);
}

/* ---- the cache ---- */

static void only_the_segments_pages_are_written(void **state)
{
    enum {
        COUNT = 20
    }; /* of 16-token pages: one full, one begun */
    static const uint32_t pages[] = {5, 2};
    struct test_model m = small_model("llama", GP_TYPE_Q8_0);
    struct gp_gguf *gguf = test_model_made(&m);
    struct test_setup setup = {.level = gp_level_detect(),
                               .threads = 2,
                               .page_tokens = 16,
                               .page_count = 8,
                               .kv_type = GP_KV_F32,
                               .fill = 0xa5};
    struct gp_rng rng = {seed + 10};
    int32_t tokens[COUNT];
    struct test_sequence s = {
        .tokens = tokens, .count = COUNT, .pages = pages, .summary_slot = GP_NO_SUMMARY};
    struct test_world w;
    size_t untouched = 0;

    (void)state;
    test_tokens(tokens, COUNT, VOCAB, &rng);
    test_world_open(&w, gguf, &setup);
    test_world_run(&w, &s, 1, 7, NULL);
    for (size_t at = 0; at < w.pool_bytes; at++) {
        size_t page = at / w.cache.page_bytes;

        if (page != 5 && page != 2)
            assert_int_equal(w.cache.pool[at], 0xa5);
        untouched += page == 2 && w.cache.pool[at] == 0xa5;
    }
    /* Of page 2 only 4 of 16 slots were written. */
    assert_true(untouched >= w.cache.page_bytes / 16 * 12);
    assert_true(untouched < w.cache.page_bytes / 16 * 12 + w.cache.page_bytes / 16);
    test_world_close(&w);
    gp_gguf_close(gguf);
}

static void rows_before_store_from_only_read(void **state)
{
    static const uint32_t pages[] = {1, 0};
    static float again[20 * VOCAB];
    struct test_model m = small_model("qwen3", GP_TYPE_Q8_0);
    struct gp_gguf *gguf = test_model_made(&m);
    struct test_setup setup = {.level = gp_level_detect(),
                               .threads = 2,
                               .page_tokens = 16,
                               .page_count = 2,
                               .kv_type = GP_KV_F16,
                               .summary_slots = 2};
    struct gp_rng rng = {seed + 11};
    int32_t tokens[20];
    struct test_sequence s = {
        .tokens = tokens, .count = 20, .pages = pages, .summary_slot = 0, .logits = logits_a};
    static float summaries[2][SUMMARIES_MAX];
    struct test_world w;

    (void)state;
    test_tokens(tokens, 20, VOCAB, &rng);
    test_world_open(&w, gguf, &setup);
    test_world_run(&w, &s, 1, 20, NULL);
    uint8_t *before = gp_mem_alloc(w.pool_bytes);

    assert_non_null(before);
    /* Spoil the last four slots' keys and values: rows 16 to 19 must write them anew. */
    memcpy(before, w.cache.pool, w.pool_bytes);
    memset(w.cache.pool, 0xff, w.cache.page_bytes);
    struct gp_segment segment = {.pages = pages,
                                 .row_count = 20,
                                 .summary_slot = 1,
                                 .summary_fresh = true,
                                 .beta_short = 0.9f,
                                 .beta_long = 0.999f,
                                 .store_from = 16};
    struct gp_batch batch = {tokens, 20, &segment, 1};

    assert_int_equal(gp_forward_run(w.forward, &batch, &w.cache), 20);
    for (uint32_t i = 0; i < 20; i++)
        memcpy(again + (size_t)i * VOCAB, gp_forward_logits(w.forward, i, 1),
               VOCAB * sizeof(float));
    assert_memory_equal(again, logits_a, sizeof again);
    assert_memory_equal(before + w.cache.page_bytes, w.cache.pool + w.cache.page_bytes,
                        w.cache.page_bytes);
    size_t n = test_world_summaries(&w, 0, summaries[0]);

    test_world_summaries(&w, 1, summaries[1]);
    assert_memory_equal(summaries[0], summaries[1], n * sizeof(float));
    gp_mem_free(before);
    test_world_close(&w);
    gp_gguf_close(gguf);
}

/* ---- summaries ---- */

/* The first layer's queries of a token, [Hq * dk], in double, from the file: before RoPE. */
static void naive_queries(const struct gp_gguf *gguf, const struct gp_hparams *hp, int32_t token,
                          double *q)
{
    const float *x =
        (const float *)gp_gguf_find_tensor(gguf, "token_embd.weight")->data + token * hp->embed_dim;
    const float *norm = gp_gguf_find_tensor(gguf, "blk.0.attn_norm.weight")->data;
    const float *weight = gp_gguf_find_tensor(gguf, "blk.0.attn_q.weight")->data;
    const struct gp_gguf_tensor *bias = gp_gguf_find_tensor(gguf, "blk.0.attn_q.bias");
    const struct gp_gguf_tensor *head = gp_gguf_find_tensor(gguf, "blk.0.attn_q_norm.weight");
    double square = 0.0;

    for (uint32_t i = 0; i < hp->embed_dim; i++)
        square += (double)x[i] * x[i];
    for (uint32_t o = 0; o < hp->head_count * hp->key_dim; o++) {
        q[o] = bias ? ((const float *)bias->data)[o] : 0.0;
        for (uint32_t i = 0; i < hp->embed_dim; i++)
            q[o] += weight[(size_t)o * hp->embed_dim + i] * (double)x[i] * norm[i] /
                    sqrt(square / hp->embed_dim + hp->rms_eps);
    }
    for (uint32_t h = 0; head && h < hp->head_count; h++) {
        double *of_head = q + h * hp->key_dim;

        square = 0.0;
        for (uint32_t i = 0; i < hp->key_dim; i++)
            square += of_head[i] * of_head[i];
        for (uint32_t i = 0; i < hp->key_dim; i++)
            of_head[i] *= ((const float *)head->data)[i] / sqrt(square / hp->key_dim + hp->rms_eps);
    }
}

static void check_summaries(const char *arch, bool zero)
{
    enum {
        COUNT = 12,
        FROM = 5,
        SIZE = 8 * 32
    };
    static const uint32_t pages[] = {0};
    static const double beta[2] = {(double)0.9f, (double)0.999f};
    static float got[SUMMARIES_MAX];
    struct test_model m = small_model(arch, GP_TYPE_F32);
    struct gp_gguf *gguf = test_model_made(&m);
    struct test_setup setup = {.level = gp_level_detect(),
                               .threads = 2,
                               .page_tokens = 16,
                               .page_count = 1,
                               .kv_type = GP_KV_F32,
                               .summary_slots = 3};
    struct gp_rng rng = {seed + 12};
    int32_t tokens[COUNT];
    struct test_sequence s = {.tokens = tokens,
                              .count = COUNT,
                              .pages = pages,
                              .summary_slot = 1,
                              .generated_from = FROM,
                              .summary_zero = zero};
    double q[SIZE], want[2][SIZE] = {0};
    struct test_world w;

    test_tokens(tokens, COUNT, VOCAB, &rng);
    test_world_open(&w, gguf, &setup);
    test_world_run(&w, &s, 1, 4, &rng);
    for (uint32_t t = FROM; t < COUNT; t++) {
        naive_queries(gguf, &w.weights->hp, tokens[t], q);
        for (uint32_t i = 0; i < 2 * SIZE; i++)
            want[i / SIZE][i % SIZE] = t == FROM && !zero
                                           ? q[i % SIZE]
                                           : beta[i / SIZE] * want[i / SIZE][i % SIZE] +
                                                 (1 - beta[i / SIZE]) * q[i % SIZE];
    }
    test_world_summaries(&w, 1, got);
    for (uint32_t i = 0; i < 2 * SIZE; i++)
        assert_true(fabs(got[i] - want[i / SIZE][i % SIZE]) < 1e-5);
    for (uint32_t h = 0; h < 8; h++) {
        double square = 0.0;

        for (uint32_t i = 0; i < 32; i++)
            square += q[h * 32 + i] * q[h * 32 + i];
        assert_true(fabs(got[2 * 2 * SIZE + h] - sqrt(square / 32)) < 1e-5);
    }
    /* The other slots were not touched. */
    test_world_summaries(&w, 0, got);
    assert_true(isnan(got[0]) && isnan(got[2 * 2 * SIZE]));
    test_world_summaries(&w, 2, got);
    assert_true(isnan(got[0]) && isnan(got[2 * 2 * SIZE]));
    test_world_close(&w);
    gp_gguf_close(gguf);
}

static void summaries_are_means_of_generated_queries_before_rope(void **state)
{
    (void)state;
    check_summaries("llama", false);
    check_summaries("qwen2", true);
    check_summaries("qwen3", false);
}

/* ---- memory ---- */

static void a_refused_allocation_leaks_nothing(void **state)
{
    struct test_model m = small_model("qwen2", GP_TYPE_Q4_K);
    struct gp_gguf *gguf = test_model_made(&m);
    struct gp_workers *workers = NULL;
    struct gp_weights *weights = NULL;
    struct gp_forward *forward = NULL;
    struct gp_kernels kernels;
    struct gp_error err;
    uint64_t live, n;

    (void)state;
    assert_int_equal(gp_workers_open(&workers, 2, NULL), GP_OK);
    gp_kernels_init(&kernels, GP_LEVEL_REF);
    live = gp_mem_live();
    for (n = 1; !weights; n++) {
        gp_mem_refuse_at(n);
        int rc = gp_weights_open(&weights, gguf, workers, NULL, NULL, &err);

        assert_int_equal(rc, gp_mem_refused() ? GP_ENOMEM : GP_OK);
        assert_true(rc == GP_OK || gp_mem_live() == live);
    }
    assert_true(n > 5);
    uint64_t with_weights = gp_mem_live();

    for (n = 1; !forward; n++) {
        gp_mem_refuse_at(n);
        int rc = gp_forward_open(&forward, weights, &kernels, workers, 32, 4, 32, 4, &err);

        assert_int_equal(rc, gp_mem_refused() ? GP_ENOMEM : GP_OK);
        assert_true(rc == GP_OK || gp_mem_live() == with_weights);
    }
    assert_true(n > 2);
    gp_mem_refuse_at(0);
    gp_forward_close(forward);
    gp_weights_close(weights);
    assert_true(gp_mem_live() == live);
    gp_workers_close(workers);
    gp_gguf_close(gguf);
}

static void bytes_are_what_open_takes(void **state)
{
    struct test_model m = small_model("llama", GP_TYPE_Q4_0);
    struct gp_gguf *gguf = test_model_made(&m);
    struct test_setup setup = {.threads = 1, .page_tokens = 16, .page_count = 1};
    struct gp_forward *larger = NULL;
    struct gp_error err;
    struct test_world w;

    (void)state;
    test_world_open(&w, gguf, &setup);
    assert_int_equal(gp_forward_open(&larger, w.weights, &w.kernels, w.workers, WORLD_ROWS_MAX, 16,
                                     WORLD_ROWS_MAX, WORLD_WAVE + 10, &err),
                     GP_OK);
    assert_true(gp_forward_bytes(larger) ==
                gp_forward_bytes(w.forward) + 10 * VOCAB * sizeof(float));
    gp_forward_close(larger);
    assert_int_equal(gp_forward_open(&larger, w.weights, &w.kernels, w.workers, 0, 1, 1, 1, &err),
                     GP_EINVAL);
    assert_int_equal(gp_forward_open(&larger, w.weights, &w.kernels, w.workers, 1, 1, 1, 0, &err),
                     GP_EINVAL);
    test_world_close(&w);
    gp_gguf_close(gguf);
}

int main(void)
{
    const char *text = getenv("GP_SEED");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sequence_depends_on_itself_alone),
        cmocka_unit_test(a_layer_may_mix_all_kinds_of_types),
        cmocka_unit_test(integer_weights_give_the_same_bits_at_every_level),
        cmocka_unit_test(long_sequences_depend_on_themselves_alone),
        cmocka_unit_test(tied_is_the_same_matrix_twice),
        cmocka_unit_test(a_head_norm_takes_the_queries_scale_away),
        cmocka_unit_test(rope_factors_divide_the_angle),
        cmocka_unit_test(only_the_segments_pages_are_written),
        cmocka_unit_test(rows_before_store_from_only_read),
        cmocka_unit_test(summaries_are_means_of_generated_queries_before_rope),
        cmocka_unit_test(a_refused_allocation_leaks_nothing),
        cmocka_unit_test(bytes_are_what_open_takes),
    };

    seed = text ? strtoull(text, NULL, 10) : 20260901;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
