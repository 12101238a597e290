/* Teacher-forced logits against llama.cpp's (tests/oracle/README.md): SmolLM2, the bundled
 * reasoner, and a random model of every tensor type (SmolLM2's rows are no whole blocks of the
 * K-quants).
 *
 * Two bars. Where activations stay floats, growpage and llama.cpp compute the same function,
 * and a strict bar holds with room to spare: SmolLM2's own weights as floats. Where they
 * become int8 codes, a difference in the last bit flips codes and thirty layers carry that on, so
 * that llama.cpp does not agree with itself to better than a mean KL of 5e-3 when only its
 * cache's type or its attention kernel changes (README.md has the figures). Against a file of
 * Q4_1 growpage is held to the same distance, and to 0.5 % in perplexity, where
 * that noise averages out.
 *
 * GP_ORACLE_DUMP=FILE writes our logits of SmolLM2 Q4_1 there and of the float twin to
 * FILE.f32, [row][vocab] float32, for tools/oracle/compare.py.
 *
 * --write-randoms FOLDER writes the random models there, for the generator. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "model/forward.h"
#include "model/model_edit.h"
#include "oracle/oracle_file.h"

#define SMOLLM2     "models/smollm2-135m-instruct-q4_1.gguf"
#define REASONER    "models/growpage-reasoner.gguf"
#define PROMPTS     20u
#define ROWS        64u  /* of a prompt */
#define ROWS_MAX    192u /* of the reasoner's, whose problems take up the first third */
#define WAVE        16u
#define PAGE_TOKENS 32u
#define PAGE_COUNT  (ROWS_MAX / PAGE_TOKENS)

/* Floats on both sides: a hundred times what rounding to an f16 cache leaves. */
#define KL_FLOAT 1e-4

/* One layer of int8 activations: a scale of attention that is 2 % off shows. */
#define KL_LAYER 1e-3

/* Thirty of them: llama.cpp's own variants lie up to 6.6e-3 apart, with the same best token in
 * 96 % of the rows. */
#define KL_INT8   1e-2
#define SAME_INT8 0.93

#define KL_REASONER 1e-3
#define SAME_MIN    0.98

/* Builds with checks and sanitizers take every fourth prompt: they look for other things,
 * slowly. */
#ifdef GP_DEBUG
#define PROMPT_STEP 4u
#else
#define PROMPT_STEP 1u
#endif

static const uint32_t all_pages[PAGE_COUNT] = {1, 0, 4, 5, 2, 3};

/* Decided rows behind <think>, and in the file being compared, with another best token. */
#define THINK 259
static uint32_t missed_in_thoughts;

/* A model that is ready to run one prompt over an f16 cache. */
struct runner {
    struct gp_workers *workers;
    struct gp_weights *weights;
    struct gp_kernels kernels;
    struct gp_forward *forward;
    struct gp_cache cache;
};

/* Put floats in the place of a matrix's blocks: exactly the values that the blocks stand for. */
static void matrix_to_float(struct gp_matrix *matrix)
{
    struct gp_matrix f = {.type = GP_TYPE_F32, .n_out = matrix->n_out, .n_in = matrix->n_in};
    float *rows = gp_mem_map((size_t)f.n_out * f.n_in * sizeof(float));
    void *data = gp_mem_map(gp_matrix_bytes(f.type, f.n_out, f.n_in));

    assert_non_null(rows);
    assert_non_null(data);
    for (uint32_t i = 0; i < f.n_out; i++)
        gp_matrix_row(matrix, i, rows + (size_t)i * f.n_in);
    gp_matrix_pack(&f, data, rows, 0, f.n_out);
    gp_mem_unmap(rows, (size_t)f.n_out * f.n_in * sizeof(float));
    f.data = data;
    *matrix = f;
}

/* Each matrix once: a tied output is the embedding again.  Give_back undoes the mapping alone. */
static void each_matrix(struct gp_weights *w, void (*visit)(struct gp_matrix *matrix))
{
    bool tied = w->output.data == w->embed.data;

    visit(&w->embed);
    if (tied)
        w->output = w->embed;
    else
        visit(&w->output);
    for (uint32_t i = 0; i < w->hp.layer_count; i++) {
        struct gp_layer *l = &w->layers[i];
        struct gp_matrix *all[] = {&l->q, &l->k, &l->v, &l->out, &l->gate, &l->up, &l->down};

        for (size_t j = 0; j < sizeof(all) / sizeof(all[0]); j++)
            visit(all[j]);
    }
}

static void give_back(struct gp_matrix *matrix)
{
    gp_mem_unmap((void *)(uintptr_t)matrix->data,
                 gp_matrix_bytes(matrix->type, matrix->n_out, matrix->n_in));
}

static void runner_open(struct runner *r, const struct gp_gguf *gguf, bool as_float)
{
    struct gp_error err = {""};
    enum gp_level level;

    *r = (struct runner){0};
    if (gp_level_choose(getenv("GP_CPU"), &level, &err) || gp_workers_open(&r->workers, 2, &err) ||
        gp_weights_open(&r->weights, gguf, r->workers, NULL, NULL, &err))
        fail_msg("%s", err.message);
    if (as_float)
        each_matrix(r->weights, matrix_to_float);
    gp_kernels_init(&r->kernels, level);
    if (gp_forward_open(&r->forward, r->weights, &r->kernels, r->workers, ROWS_MAX, 1, ROWS_MAX,
                        WAVE, &err))
        fail_msg("%s", err.message);

    const struct gp_hparams *hp = &r->weights->hp;

    r->cache.type = GP_KV_F16;
    r->cache.page_tokens = PAGE_TOKENS;
    r->cache.block_bytes =
        gp_kv_block_bytes(r->cache.type, PAGE_TOKENS, hp->key_dim, hp->value_dim);
    r->cache.page_bytes = r->cache.block_bytes * hp->layer_count * hp->kv_head_count;
    r->cache.pool = gp_mem_map(r->cache.page_bytes * PAGE_COUNT);
    assert_non_null(r->cache.pool);
}

static void runner_close(struct runner *r, bool as_float)
{
    gp_mem_unmap(r->cache.pool, r->cache.page_bytes * PAGE_COUNT);
    gp_forward_close(r->forward);
    if (as_float)
        each_matrix(r->weights, give_back);
    gp_weights_close(r->weights);
    gp_workers_close(r->workers);
}

/* Force a prompt and compare every row; `dump` (or NULL) gets our logits. */
static void compare_prompt(struct runner *r, const struct test_oracle *oracle,
                           const struct test_oracle_prompt *prompt, struct test_oracle_sum *sum,
                           FILE *dump)
{
    struct gp_segment segment = {
        .pages = all_pages,
        .row_count = prompt->count,
        .summary_slot = GP_NO_SUMMARY,
        .generated_from = prompt->count,
    };
    struct gp_batch batch = {
        .tokens = prompt->ids,
        .row_count = prompt->count,
        .segments = &segment,
        .segment_count = 1,
    };

    bool in_thought = false;

    assert_true(prompt->count <= ROWS_MAX);
    assert_int_equal(gp_forward_run(r->forward, &batch, &r->cache), prompt->count);
    for (uint32_t begin = 0; begin < prompt->count; begin += WAVE) {
        uint32_t left = prompt->count - begin;
        uint32_t count = left < WAVE ? left : WAVE;
        const float *logits = gp_forward_logits(r->forward, begin, count);

        for (uint32_t i = 0; i < count; i++) {
            uint32_t missed = sum->decided - sum->decided_same;

            in_thought |= prompt->ids[begin + i] == THINK;
            test_oracle_compare(oracle, test_oracle_row(oracle, prompt, begin + i),
                                logits + (size_t)i * oracle->vocab, sum);
            missed_in_thoughts += in_thought && sum->decided - sum->decided_same > missed;
        }
        if (dump)
            assert_int_equal(fwrite(logits, sizeof(float) * oracle->vocab, count, dump), count);
    }
}

static struct test_oracle_sum compare_model(const struct gp_gguf *gguf, bool as_float,
                                            const char *oracle_path, const char *dump_path)
{
    struct runner r;
    struct test_oracle oracle;
    struct test_oracle_sum sum = {0};

    missed_in_thoughts = 0;
    FILE *dump = dump_path ? fopen(dump_path, "wb") : NULL;

    assert_true(!dump_path || dump);
    test_oracle_open(&oracle, oracle_path);
    runner_open(&r, gguf, as_float);
    assert_int_equal(r.weights->hp.vocab_count, oracle.vocab);
    for (uint32_t i = 0; i < oracle.prompt_count; i += PROMPT_STEP)
        compare_prompt(&r, &oracle, &oracle.prompts[i], &sum, dump);
    runner_close(&r, as_float);
    test_oracle_close(&oracle);
    if (dump)
        assert_int_equal(fclose(dump), 0);
    print_message("%s: mean KL %.3g, largest %.3g; same best in %u of %u, where decided %u of %u\n",
                  oracle_path, sum.kl / sum.rows, sum.kl_max, sum.same, sum.rows, sum.decided_same,
                  sum.decided);
    return sum;
}

/* A whole model against the oracle of a name; our logits go to GP_ORACLE_DUMP + suffix. */
static struct test_oracle_sum compare_file(const char *model, bool as_float, const char *name,
                                           const char *suffix)
{
    const char *dump = getenv("GP_ORACLE_DUMP");
    char oracle[128], path[4096];
    struct gp_gguf *gguf;
    struct gp_error err = {""};

    if (gp_gguf_open(&gguf, model, &err))
        fail_msg("%s (make model fetches SmolLM2)", err.message);
    snprintf(oracle, sizeof oracle, "tests/oracle/llama/%s.logits", name);
    snprintf(path, sizeof path, "%s%s", dump ? dump : "", suffix);
    struct test_oracle_sum sum = compare_model(gguf, as_float, oracle, dump ? path : NULL);
    gp_gguf_close(gguf);
    return sum;
}

static void smollm2_as_floats_expects_what_llama_cpp_expects(void **state)
{
    struct test_oracle_sum sum = compare_file(SMOLLM2, true, "smollm2-f32", ".f32");

    (void)state;
    assert_int_equal(sum.rows, PROMPTS / PROMPT_STEP * ROWS);
    assert_true(sum.kl / sum.rows <= KL_FLOAT);
    assert_true(sum.same >= SAME_MIN * sum.rows);
    assert_int_equal(sum.decided_same, sum.decided);
}

static void smollm2_is_as_near_to_llama_cpp_as_that_is_to_itself(void **state)
{
    struct test_oracle_sum sum = compare_file(SMOLLM2, false, "smollm2-q4_1", "");

    (void)state;
    assert_int_equal(sum.rows, PROMPTS / PROMPT_STEP * ROWS);
    assert_true(sum.kl / sum.rows <= KL_INT8);
    assert_true(sum.same >= SAME_INT8 * sum.rows);
}

/* Four layers carry less on than thirty: here the bars of the first issue hold with int8
 * activations, too, wherever the model was trained.  What it expects inside a question, it never
 * learned: digits there are close calls, and a last bit tips two of 3,795. */
static void the_reasoner_expects_what_llama_cpp_expects(void **state)
{
    struct test_oracle_sum floats = compare_file(REASONER, true, "reasoner-f32", ".reasoner.f32");
    struct test_oracle_sum int8 = compare_file(REASONER, false, "reasoner-q8_0", ".reasoner");

    (void)state;
    assert_int_equal(floats.rows, PROMPTS / PROMPT_STEP * ROWS_MAX);
    assert_int_equal(int8.rows, floats.rows);
    assert_true(floats.kl / floats.rows <= KL_FLOAT && int8.kl / int8.rows <= KL_REASONER);
    assert_int_equal(floats.decided_same, floats.decided);
    assert_int_equal(missed_in_thoughts, 0);
    assert_true(int8.decided - int8.decided_same <= 2);
    assert_true(floats.same >= SAME_MIN * floats.rows && int8.same >= SAME_MIN * int8.rows);
}

/* ---- every tensor type ---- */

/* Random models, an architecture after the other, so that qwen2's biases and qwen3's norms are
 * held against llama.cpp too. One layer: in deeper ones int8 activations alone cost more than the
 * bar. */
static const struct {
    const char *name;
    enum gp_type type;
    const char *arch;
} randoms[] = {
    {"f16", GP_TYPE_F16, "llama"},   {"bf16", GP_TYPE_BF16, "qwen2"},
    {"q8_0", GP_TYPE_Q8_0, "qwen3"}, {"q4_0", GP_TYPE_Q4_0, "llama"},
    {"q4_1", GP_TYPE_Q4_1, "qwen2"}, {"q5_0", GP_TYPE_Q5_0, "qwen3"},
    {"q5_1", GP_TYPE_Q5_1, "llama"}, {"iq4_nl", GP_TYPE_IQ4_NL, "qwen2"},
    {"q4_k", GP_TYPE_Q4_K, "llama"}, {"q5_k", GP_TYPE_Q5_K, "qwen2"},
    {"q6_k", GP_TYPE_Q6_K, "qwen3"},
};
#define RANDOM_COUNT (sizeof(randoms) / sizeof(randoms[0]))

static void describe_random(size_t index, struct test_model *m)
{
    bool qwen3 = strcmp(randoms[index].arch, "qwen3") == 0;

    test_model_init(m);
    m->arch = randoms[index].arch;
    m->type = randoms[index].type;
    m->layers = 1;
    m->embd = qwen3 ? 256 : 512;
    m->heads = 8;
    m->kv_heads = qwen3 ? 4 : 2;
    m->head_dim = 64;
    m->ffn = 768;
    m->vocab = 320;
    m->context = 512;
    m->seed = 41 + index;
    m->rope_factors = strcmp(m->arch, "llama") == 0;
    m->bias = strcmp(m->arch, "qwen2") == 0;
}

static void every_type_expects_what_llama_cpp_expects(void **state)
{
    (void)state;
    for (size_t i = 0; i < RANDOM_COUNT; i++) {
        struct test_model m;
        char path[128];

        describe_random(i, &m);
        snprintf(path, sizeof(path), "tests/oracle/llama/random-%s.logits", randoms[i].name);

        struct gp_gguf *gguf = test_model_made(&m);
        struct test_oracle_sum sum = compare_model(gguf, false, path, NULL);

        gp_gguf_close(gguf);
        assert_int_equal(sum.rows, PROMPT_STEP == 1 ? 2 * 64 : 64);
        bool floats = gp_type_info(randoms[i].type)->activation == GP_ACTIVATION_F32;

        assert_true(sum.kl / sum.rows <= (floats ? KL_FLOAT : KL_LAYER));
        assert_true(sum.decided_same >= SAME_MIN * sum.decided);
    }
}

static int write_randoms(const char *folder)
{
    for (size_t i = 0; i < RANDOM_COUNT; i++) {
        struct test_model m;
        struct gp_error err = {""};
        char path[4096];

        describe_random(i, &m);
        snprintf(path, sizeof(path), "%s/random-%s.gguf", folder, randoms[i].name);
        if (test_model_write(&m, path, &err)) {
            fprintf(stderr, "%s\n", err.message);
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smollm2_as_floats_expects_what_llama_cpp_expects),
        cmocka_unit_test(smollm2_is_as_near_to_llama_cpp_as_that_is_to_itself),
        cmocka_unit_test(the_reasoner_expects_what_llama_cpp_expects),
        cmocka_unit_test(every_type_expects_what_llama_cpp_expects),
    };

    if (argc == 3 && strcmp(argv[1], "--write-randoms") == 0)
        return write_randoms(argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
