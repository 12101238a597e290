/* The made models: what they hold, and that they depend on the seed alone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "model/gguf_files.h"
#include "model/model_maker.h"

static uint64_t seed;
static char folder[200];

static struct gp_gguf *make(const struct test_model *m, const char *name)
{
    char path[256];
    struct gp_gguf *g = NULL;
    struct gp_error err = {""};

    test_file_path(path, sizeof path, folder, name);
    if (test_model_write(m, path, &err) != GP_OK || gp_gguf_open(&g, path, &err) != GP_OK)
        fail_msg("%s", err.message);
    unlink(path); /* the mapping stays */
    return g;
}

static void assert_tensor(const struct gp_gguf *g, const char *name, uint64_t n_in, uint64_t n_out)
{
    const struct gp_gguf_tensor *t = gp_gguf_find_tensor(g, name);

    if (!t || t->dims[0] != n_in || t->dims[1] != n_out)
        fail_msg("tensor %s is missing or of a wrong shape", name);
}

static void shapes_and_names_follow_the_architecture(void **state)
{
    (void)state;
    for (int arch = 0; arch < 3; arch++) {
        struct test_model m;

        test_model_init(&m);
        m.arch = (const char *[]){"llama", "qwen2", "qwen3"}[arch];
        m.head_dim = 24;
        m.v_dim = 8;
        m.bias = arch < 2;
        m.rope_factors = arch == 0;
        m.tied = arch == 2;
        struct gp_gguf *g = make(&m, "shape.gguf");
        char key[64];
        uint32_t value = 0;

        assert_tensor(g, "token_embd.weight", 64, 512);
        assert_tensor(g, "blk.1.attn_q.weight", 64, 96);
        assert_tensor(g, "blk.1.attn_k.weight", 64, 48);
        assert_tensor(g, "blk.1.attn_v.weight", 64, 16);
        assert_tensor(g, "blk.1.attn_output.weight", 32, 64);
        assert_tensor(g, "blk.0.ffn_gate.weight", 64, 128);
        assert_tensor(g, "blk.0.ffn_down.weight", 128, 64);
        if (arch < 2)
            assert_tensor(g, "blk.0.attn_k.bias", 48, 1);
        if (arch == 0)
            assert_tensor(g, "rope_freqs.weight", 12, 1);
        if (arch == 2)
            assert_tensor(g, "blk.1.attn_q_norm.weight", 24, 1);
        else
            assert_tensor(g, "output.weight", 64, 512);
        /* Nothing else is there. */
        assert_int_equal(gp_gguf_tensor_count(g), arch == 0 ? 30 : arch == 1 ? 27 : 24);
        snprintf(key, sizeof key, "%s.attention.value_length", m.arch);
        assert_int_equal(gp_gguf_u32(g, key, &value, NULL), GP_OK);
        assert_int_equal(value, 8);
        gp_gguf_close(g);
    }
}

static void floats_depend_on_the_seed_alone(void **state)
{
    (void)state;
    struct test_model m;
    static float a[512 * 64], b[512 * 64];

    test_model_init(&m);
    m.seed = seed;
    struct gp_gguf *one = make(&m, "one.gguf");

    m.threads = 3;
    struct gp_gguf *three = make(&m, "three.gguf");

    assert_int_equal(gp_gguf_file_bytes(one), gp_gguf_file_bytes(three));
    for (uint32_t i = 0; i < gp_gguf_tensor_count(one); i++)
        assert_memory_equal(gp_gguf_tensor(one, i)->data, gp_gguf_tensor(three, i)->data,
                            gp_gguf_tensor(one, i)->bytes);
    gp_gguf_close(three);

    /* In another type they are the same but for its rounding. */
    m.type = GP_TYPE_Q8_0;
    struct gp_gguf *q8 = make(&m, "q8.gguf");

    gp_dequantize(GP_TYPE_F32, gp_gguf_find_tensor(one, "output.weight")->data, 512 * 64, a);
    assert_int_equal(gp_gguf_find_tensor(q8, "output.weight")->type, GP_TYPE_Q8_0);
    gp_dequantize(GP_TYPE_Q8_0, gp_gguf_find_tensor(q8, "output.weight")->data, 512 * 64, b);
    for (uint32_t i = 0; i < 512 * 64; i++)
        assert_true(fabsf(a[i] - b[i]) < 0.01f);
    gp_gguf_close(q8);

    m.type = GP_TYPE_F32;
    m.seed++;
    struct gp_gguf *other = make(&m, "other.gguf");

    assert_memory_not_equal(gp_gguf_find_tensor(other, "output.weight")->data, a, sizeof a);
    assert_memory_not_equal(gp_gguf_find_tensor(one, "blk.0.ffn_up.weight")->data,
                            gp_gguf_find_tensor(one, "blk.0.ffn_gate.weight")->data, 4096);
    gp_gguf_close(other);
    gp_gguf_close(one);
}

static void weights_are_normal_and_scaled_by_their_input(void **state)
{
    (void)state;
    struct test_model m;
    double sum = 0, squares = 0, fourths = 0;
    const uint32_t n = 64 * 512;

    test_model_init(&m);
    m.seed = seed;
    m.ffn = 512;
    struct gp_gguf *g = make(&m, "normal.gguf");
    const float *w = gp_gguf_find_tensor(g, "blk.1.ffn_down.weight")->data;

    for (uint32_t i = 0; i < n; i++) {
        double v = w[i] * sqrt(512.0);

        sum += v;
        squares += v * v;
        fourths += v * v * v * v;
    }
    /* Five deviations of each estimate; four uniform numbers have a fourth moment of 2.7. */
    assert_true(fabs(sum / n) < 5.0 / sqrt(n));
    assert_true(fabs(squares / n - 1.0) < 5.0 * sqrt(1.7 / n));
    assert_true(fabs(fourths / n - 2.7) < 0.3);
    gp_gguf_close(g);
}

static void tokens_are_distinct_and_merges_make_tokens(void **state)
{
    (void)state;
    struct test_model m;
    struct gp_str *tokens, *merges;
    uint32_t count, merge_count;

    test_model_init(&m);
    m.embd = 2;
    m.vocab = 2000;
    m.tokens = (const struct test_token[]){{{"<think>", 7}, 4}, {{"<|eot_id|>", 10}, 3}};
    m.token_count = 2;
    struct gp_gguf *g = make(&m, "tokens.gguf");

    assert_int_equal(gp_gguf_strings(g, "tokenizer.ggml.tokens", &tokens, &count, NULL), GP_OK);
    assert_int_equal(gp_gguf_strings(g, "tokenizer.ggml.merges", &merges, &merge_count, NULL),
                     GP_OK);
    assert_int_equal(count, 2000);
    assert_int_equal(merge_count, 2000 - 256 - 3 - 2);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < i; j++)
            assert_false(tokens[i].length == tokens[j].length &&
                         memcmp(tokens[i].bytes, tokens[j].bytes, tokens[i].length) == 0);
    for (uint32_t i = 0; i < merge_count; i++) {
        const struct gp_str *token = &tokens[261 + i], *merge = &merges[i];
        const char *space = memchr(merge->bytes, ' ', merge->length);
        size_t left = (size_t)(space - merge->bytes);
        bool left_is_token = false;

        assert_int_equal(merge->length, token->length + 1);
        assert_memory_equal(token->bytes, merge->bytes, left);
        assert_memory_equal(token->bytes + left, space + 1, token->length - left);
        for (uint32_t j = 0; j < 261 + i && !left_is_token; j++)
            left_is_token =
                tokens[j].length == left && memcmp(tokens[j].bytes, merge->bytes, left) == 0;
        assert_true(left_is_token);
    }
    assert_memory_equal(tokens[3 + ' '].bytes, "\xc4\xa0", 2);
    assert_memory_equal(tokens[3 + 0xad].bytes, "\xc5\x83", 2); /* the last of GPT-2's alphabet */
    assert_memory_equal(tokens[259].bytes, "<think>", 7);
    gp_mem_free(tokens);
    gp_mem_free(merges);
    gp_gguf_close(g);
}

/* ---- metronomes ---- */

/* What a script says after any prompt, up to the token `end`; false when it never ends. */
static bool recite(const struct test_script *s, uint32_t end, char *out, size_t *length)
{
    uint32_t id = s->next[TEST_TOKEN_BYTE + '\n'];

    *length = 0;
    for (uint32_t steps = 0; id != end; id = s->next[id]) {
        if (++steps > s->vocab)
            return false;
        if (id < TEST_TOKENS_MIN) {
            out[(*length)++] = (char)(id - TEST_TOKEN_BYTE);
            continue;
        }
        struct gp_str text = s->tokens[id - TEST_TOKENS_MIN].text;

        memcpy(out + *length, text.bytes, text.length);
        *length += text.length;
    }
    return true;
}

static void any_text_is_spelled(void **state)
{
    (void)state;
    struct gp_rng rng = {seed};
    char text[300], said[300];
    size_t length;
    uint32_t cut = 0;

    for (uint32_t round = 0; round < 5000; round++) {
        struct test_script script;
        uint32_t n = 2 + gp_rng_below(&rng, 250), letters = 1 + gp_rng_below(&rng, 20);

        for (uint32_t i = 0; i < n; i++)
            text[i] = (char)('a' + gp_rng_below(&rng, letters));
        text[n] = '\0';
        if (test_script_open(&script, text, NULL, 0, TEST_TOKEN_IM_END, false, NULL) != GP_OK)
            fail_msg("GP_SEED=%llu: \"%s\" is refused", (unsigned long long)seed, text);
        assert_true(recite(&script, TEST_TOKEN_IM_END, said, &length));
        assert_int_equal(length, n);
        assert_memory_equal(said, text, n);
        cut += script.token_count > 1;
        test_script_close(&script);
    }
    assert_true(cut > 4000);
}

static void scripts_know_escapes_cuts_and_special_tokens(void **state)
{
    (void)state;
    const struct test_token think[2] = {{{"<think>", 7}, 4}, {{"</think>", 8}, 4}};
    struct test_script script;
    struct gp_error err = {""};
    char said[100];
    size_t length;

    assert_int_equal(
        test_script_open(&script, "<think>so</think>\\x41\\n\\t\\\\Z", think, 2, 0, false, &err),
        GP_OK);
    assert_true(recite(&script, 0, said, &length));
    assert_int_equal(length, 22);
    assert_memory_equal(said, "<think>so</think>A\n\t\\Z", 22);
    assert_int_equal(script.next[3], TEST_TOKENS_MIN); /* begins with the special token */
    assert_int_equal(script.vocab % 32, 0);
    test_script_close(&script);

    assert_int_equal(
        test_script_open(&script, "half \\xf0\\x9f\\|\\x98\\x80\\|a", NULL, 0, 2, false, &err),
        GP_OK);
    assert_int_equal(script.token_count, 2);
    assert_int_equal(script.next[TEST_TOKENS_MIN + 1], TEST_TOKEN_BYTE + 'a');
    test_script_close(&script);

    assert_int_equal(test_script_open(&script, "ab<|im_end|>cd", NULL, 0, 2, true, &err), GP_OK);
    assert_int_equal(script.next[TEST_TOKENS_MIN], TEST_TOKEN_IM_END);
    assert_int_equal(script.next[TEST_TOKENS_MIN + 1], TEST_TOKENS_MIN); /* loops */
    test_script_close(&script);

    assert_int_equal(test_script_open(&script, "", NULL, 0, 2, false, &err), GP_EINVAL);
    assert_int_equal(test_script_open(&script, "a\\q", NULL, 0, 2, false, &err), GP_EINVAL);
    assert_int_equal(test_script_open(&script, "a\\x4", NULL, 0, 2, false, &err), GP_EINVAL);
    assert_int_equal(test_script_open(&script, "a\\", NULL, 0, 2, false, &err), GP_EINVAL);
    assert_int_equal(test_script_open(&script, "a\\|b\\|a", NULL, 0, 2, false, &err), GP_EINVAL);
    assert_string_equal(err.message, "the piece \"a\" comes twice");
    assert_int_equal(test_script_open(&script, "<think>a<think>", think, 2, 2, false, &err),
                     GP_EINVAL);
}

static void a_metronome_s_matrices_follow_its_script(void **state)
{
    (void)state;
    struct test_script script;
    struct test_model m;

    assert_int_equal(test_script_open(&script, "Hello there", NULL, 0, 2, false, NULL), GP_OK);
    test_model_init(&m);
    test_model_speak(&m, &script);
    struct gp_gguf *g = make(&m, "metronome.gguf");
    const float *in = gp_gguf_find_tensor(g, "token_embd.weight")->data;
    const float *out = gp_gguf_find_tensor(g, "output.weight")->data;
    const float *up = gp_gguf_find_tensor(g, "blk.0.ffn_up.weight")->data;

    for (uint32_t row = 0; row < m.vocab; row++)
        for (uint32_t col = 0; col < m.vocab; col++) {
            assert_true(in[row * m.vocab + col] == (row == col ? 1.0f : 0.0f));
            assert_true(out[row * m.vocab + col] == (script.next[col] == row ? 1.0f : 0.0f));
        }
    for (uint32_t i = 0; i < m.vocab * m.ffn; i++)
        assert_true(up[i] == 0.0f);
    gp_gguf_close(g);
    test_script_close(&script);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    for (int kind = 0; kind < 8; kind++) {
        struct test_model m;
        struct gp_error err = {""};

        test_model_init(&m);
        m.arch = kind == 0 ? "gpt5" : "llama";
        m.layers = kind == 1 ? 0 : 2;
        m.heads = kind == 2 ? 3 : 4;
        m.head_dim = kind == 3 ? 15 : 16;
        m.vocab = kind == 4 ? 258 : 512;
        m.eos = kind == 5 ? 512 : 2;
        m.kv_heads = kind == 6 ? 0 : 2;
        m.embd = kind == 7 ? 1u << 20 : 64;
        assert_int_equal(test_model_write(&m, "/nonexistent/x", &err), GP_EINVAL);
        assert_true(err.message[0] != '\0');
    }
}

static void making_survives_every_refused_allocation(void **state)
{
    (void)state;
    uint64_t live = gp_mem_live(), n = 0;
    char path[256];
    struct test_model m;

    test_model_init(&m);
    m.layers = 1;
    test_file_path(path, sizeof path, folder, "refused.gguf");
    do {
        gp_mem_refuse_at(++n);
        int rc = test_model_write(&m, path, NULL);

        assert_int_equal(rc, gp_mem_refused() ? GP_ENOMEM : GP_OK);
        assert_int_equal(gp_mem_live(), live);
    } while (gp_mem_refused());
    gp_mem_refuse_at(0);
    assert_true(n > 30);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_and_names_follow_the_architecture),
        cmocka_unit_test(floats_depend_on_the_seed_alone),
        cmocka_unit_test(weights_are_normal_and_scaled_by_their_input),
        cmocka_unit_test(tokens_are_distinct_and_merges_make_tokens),
        cmocka_unit_test(any_text_is_spelled),
        cmocka_unit_test(scripts_know_escapes_cuts_and_special_tokens),
        cmocka_unit_test(a_metronome_s_matrices_follow_its_script),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(making_survives_every_refused_allocation),
    };
    const char *text = getenv("GP_SEED");

    seed = text ? strtoull(text, NULL, 0) : 20250101;
    test_temporary_folder(folder, sizeof folder);
    int failed = cmocka_run_group_tests_name("model maker", tests, NULL, NULL);

    rmdir(folder);
    return failed;
}
