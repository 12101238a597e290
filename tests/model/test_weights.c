/* Loading a model: every key and tensor that is wrong is named, none is passed over. */
#include "model/weights.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "model/model_edit.h"
#include "model/quantize.h"

static struct gp_workers *workers;

static struct test_model base_model(const char *arch)
{
    struct test_model m;

    test_model_init(&m);
    m.arch = arch;
    m.bias = strcmp(arch, "qwen2") == 0;
    return m;
}

/* Open what the writer holds; the status, and the message. */
static int try_open(struct gp_gguf_writer *w, struct gp_error *err)
{
    struct gp_gguf *gguf = test_model_edited(w);
    struct gp_weights *weights = NULL;
    uint64_t live = gp_mem_live();
    int rc = gp_weights_open(&weights, gguf, workers, NULL, NULL, err);

    if (rc != GP_OK) {
        assert_null(weights);
        assert_true(gp_mem_live() == live);
    }
    gp_weights_close(weights);
    assert_true(gp_mem_live() == live);
    gp_gguf_close(gguf);
    return rc;
}

/* A refusal whose message begins with `name`. */
static void expect_refusal(struct gp_gguf_writer *w, const char *name)
{
    struct gp_error err = {""};
    int rc = try_open(w, &err);

    if (rc == GP_OK)
        fail_msg("%s: taken", name);
    if (strncmp(err.message, name, strlen(name)) != 0)
        fail_msg("expected a message on %s, got: %s", name, err.message);
    assert_true(strlen(err.message) > strlen(name) + 5);
}

static void expect_taken(struct gp_gguf_writer *w)
{
    struct gp_error err = {""};

    if (try_open(w, &err) != GP_OK)
        fail_msg("%s", err.message);
}

static struct gp_gguf_writer *without(const struct test_model *m, const char *name)
{
    return test_model_edit(m, (const char *const[]){name, NULL});
}

static struct gp_hparams read_hparams(struct gp_gguf_writer *w)
{
    struct gp_gguf *gguf = test_model_edited(w);
    struct gp_hparams hp;
    struct gp_error err = {""};

    if (gp_hparams_read(&hp, gguf, &err) != GP_OK)
        fail_msg("%s", err.message);
    gp_gguf_close(gguf);
    return hp;
}

/* ---- hyper-parameters ---- */

static void hparams_are_what_the_file_says(void **state)
{
    struct test_model m = base_model("qwen3");

    (void)state;
    m.embd = 48;
    m.heads = 6;
    m.kv_heads = 3;
    m.head_dim = 32;
    m.v_dim = 20;
    struct gp_hparams hp = read_hparams(test_model_edit(&m, NULL));

    assert_int_equal(hp.arch, GP_ARCH_QWEN3);
    assert_int_equal(hp.layer_count, 2);
    assert_int_equal(hp.embed_dim, 48);
    assert_int_equal(hp.ffn_dim, 128);
    assert_int_equal(hp.head_count, 6);
    assert_int_equal(hp.kv_head_count, 3);
    assert_int_equal(hp.key_dim, 32);
    assert_int_equal(hp.value_dim, 20);
    assert_int_equal(hp.vocab_count, 512);
    assert_int_equal(hp.context_max, 4096);
    assert_int_equal(hp.rope_dim, 32);
    assert_true(hp.rope_neox);
    assert_true(hp.rms_eps == 1e-5f);
    assert_true(hp.rope_scale == 1.0);
    assert_true(fabsf(hp.attention_scale - 1.0f / sqrtf(32.0f)) < 1e-7f);
    assert_int_equal(gp_hparams_token_bytes(&hp, GP_KV_F16), 2 * 2 * 3 * 52);
    assert_int_equal(gp_hparams_token_bytes(&hp, GP_KV_F32), 4 * 2 * 3 * 52);
    m = base_model("llama");
    assert_false(read_hparams(test_model_edit(&m, NULL)).rope_neox);
    m = base_model("qwen2");
    assert_true(read_hparams(test_model_edit(&m, NULL)).rope_neox);
}

static void absent_keys_fall_to_documented_defaults(void **state)
{
    static const char *const optional[] = {"llama.context_length",
                                           "llama.attention.head_count_kv",
                                           "llama.attention.key_length",
                                           "llama.attention.value_length",
                                           "llama.rope.dimension_count",
                                           "llama.rope.freq_base",
                                           "llama.vocab_size",
                                           "general.type",
                                           NULL};
    struct test_model m = base_model("llama");

    (void)state;
    m.kv_heads = 4;
    struct gp_hparams hp = read_hparams(test_model_edit(&m, optional));

    assert_int_equal(hp.context_max, 4096);
    assert_int_equal(hp.kv_head_count, 4);
    assert_int_equal(hp.key_dim, 16);
    assert_int_equal(hp.value_dim, 16);
    assert_int_equal(hp.rope_dim, 16);
    assert_int_equal(hp.vocab_count, 512);
}

static void a_key_that_is_needed_is_named(void **state)
{
    static const char *const needed[] = {
        "general.architecture",       "llama.block_count",
        "llama.embedding_length",     "llama.feed_forward_length",
        "llama.attention.head_count", "llama.attention.layer_norm_rms_epsilon"};
    struct test_model m = base_model("llama");

    (void)state;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        expect_refusal(without(&m, needed[i]), needed[i]);
    /* Without the key it is 66 / 4, which is no size. */
    m.embd = 66;
    expect_refusal(without(&m, "llama.attention.key_length"), "llama.attention.key_length");
}

static void counts_out_of_range_are_named(void **state)
{
    static const struct {
        const char *key;
        uint32_t bad[4];
        uint32_t count;
    } keys[] = {
        {"llama.block_count", {0, 1025, 1u << 31, UINT32_MAX}, 4},
        {"llama.embedding_length", {0, 65537, UINT32_MAX}, 3},
        {"llama.feed_forward_length", {0, 65537, UINT32_MAX}, 3},
        {"llama.attention.head_count", {0, 1025, UINT32_MAX}, 3},
        {"llama.attention.head_count_kv", {0, 3, 8, UINT32_MAX}, 4},
        {"llama.attention.key_length", {0, 513, UINT32_MAX}, 3},
        {"llama.attention.value_length", {0, 513, UINT32_MAX}, 3},
        {"llama.context_length", {0}, 1},
        {"llama.rope.dimension_count", {0, 15, 18, UINT32_MAX}, 4},
    };
    struct test_model m = base_model("llama");

    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        for (uint32_t j = 0; j < keys[i].count; j++) {
            struct gp_gguf_writer *w = without(&m, keys[i].key);

            gp_gguf_add_u32(w, keys[i].key, keys[i].bad[j]);
            expect_refusal(w, keys[i].key);
        }
    m.heads = 1024;
    m.kv_heads = 1;
    m.head_dim = 66;
    m.layers = 1;
    expect_refusal(test_model_edit(&m, NULL), "llama.attention.head_count");
}

static void numbers_out_of_range_are_named(void **state)
{
    static const struct {
        const char *key;
        float bad[5];
        uint32_t count;
    } keys[] = {
        {"llama.attention.layer_norm_rms_epsilon", {0, -1e-5f, NAN, INFINITY}, 4},
        {"llama.rope.freq_base", {0, -1, 1, NAN, INFINITY}, 5},
        {"llama.rope.scaling.factor", {-1, NAN, INFINITY}, 3},
        {"llama.rope.scale_linear", {-1, NAN, INFINITY}, 3},
        {"llama.rope.scaling.attn_factor", {0, -1, NAN}, 3},
        {"llama.rope.scaling.yarn_beta_fast", {0, NAN}, 2},
        {"llama.rope.scaling.yarn_beta_slow", {0, NAN}, 2},
        {"llama.rope.scaling.yarn_ext_factor", {0.5f, 1, NAN}, 3},
    };
    struct test_model m = base_model("llama");

    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        for (uint32_t j = 0; j < keys[i].count; j++) {
            struct gp_gguf_writer *w = without(&m, keys[i].key);

            gp_gguf_add_f32(w, keys[i].key, keys[i].bad[j]);
            expect_refusal(w, keys[i].key);
        }
}

static void a_value_of_the_wrong_type_is_named(void **state)
{
    static const char *const keys[] = {"llama.block_count", "llama.attention.head_count",
                                       "llama.rope.freq_base",
                                       "llama.attention.layer_norm_rms_epsilon"};
    struct test_model m = base_model("llama");

    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct gp_gguf_writer *w = without(&m, keys[i]);

        gp_gguf_add_str(w, keys[i], "4", 1);
        expect_refusal(w, keys[i]);
    }
}

static void counts_by_layer_must_be_equal(void **state)
{
    static const uint32_t equal[] = {4, 4}, unequal[] = {4, 2}, three[] = {4, 4, 4}, zeros[2] = {0};
    static const float reals[] = {4, 4};
    static const struct {
        enum gp_gguf_value type;
        const void *items;
        uint32_t count;
        bool taken;
    } arrays[] = {
        {GP_GGUF_U32, equal, 2, true},    {GP_GGUF_I32, equal, 2, true},
        {GP_GGUF_U32, unequal, 2, false}, {GP_GGUF_U32, three, 3, false},
        {GP_GGUF_U32, zeros, 2, false},   {GP_GGUF_F32, reals, 2, false},
        {GP_GGUF_U32, equal, 0, false},
    };
    struct test_model m = base_model("llama");
    const char *key = "llama.attention.head_count";

    (void)state;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        struct gp_gguf_writer *w = without(&m, key);

        gp_gguf_add_array(w, key, arrays[i].type, arrays[i].items, arrays[i].count);
        if (arrays[i].taken)
            expect_taken(w);
        else
            expect_refusal(w, key);
    }
}

static void other_architectures_are_refused_by_name(void **state)
{
    struct test_model m = base_model("llama");
    static const char *const names[] = {"gemma3", "qwen3moe", "qwen", "llama4", "", "LLAMA"};
    struct gp_error err;

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct gp_gguf_writer *w = without(&m, "general.architecture");

        gp_gguf_add_str(w, "general.architecture", names[i], strlen(names[i]));
        assert_int_equal(try_open(w, &err), GP_EINVAL);
        assert_memory_equal(err.message, "general.architecture", 20);
        assert_non_null(strstr(err.message, names[i]));
    }
    struct gp_gguf_writer *w = without(&m, "general.type");

    gp_gguf_add_str(w, "general.type", "adapter", 7);
    expect_refusal(w, "general.type");
}

/* ---- keys that change the arithmetic ---- */

static void keys_that_are_not_honoured_are_refused(void **state)
{
    static const struct {
        const char *key;
        float off; /* the value that means nothing */
        float on;
    } keys[] = {
        {"llama.logit_scale", 1.0f, 0.5f},
        {"llama.residual_scale", 0.0f, 0.5f},
        {"llama.embedding_scale", 1.0f, 12.0f},
        {"llama.attention.scale", 0.0f, 0.1f},
        {"llama.attention.clamp_kqv", 0.0f, 8.0f},
        {"llama.attention.max_alibi_bias", 0.0f, 8.0f},
        {"llama.attn_logit_softcapping", 0.0f, 50.0f},
        {"llama.final_logit_softcapping", 0.0f, 30.0f},
        {"llama.rope.scaling.yarn_log_multiplier", 0.0f, 0.1f},
        {"llama.rope.scaling.yarn_attn_factor", 1.0f, 0.5f},
        {"llama.rope.scaling.alpha", 0.0f, 1000.0f},
        {"llama.expert_count", 0.0f, 8.0f},
        {"llama.nextn_predict_layers", 0.0f, 1.0f},
    };
    struct test_model m = base_model("llama");

    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct gp_gguf_writer *w = test_model_edit(&m, NULL);

        gp_gguf_add_f32(w, keys[i].key, keys[i].off);
        expect_taken(w);
        w = test_model_edit(&m, NULL);
        gp_gguf_add_f32(w, keys[i].key, keys[i].on);
        expect_refusal(w, keys[i].key);
        w = test_model_edit(&m, NULL);
        gp_gguf_add_u32(w, keys[i].key, 77);
        expect_refusal(w, keys[i].key);
    }
    for (int causal = 0; causal < 2; causal++) {
        struct gp_gguf_writer *w = test_model_edit(&m, NULL);

        gp_gguf_add_bool(w, "llama.attention.causal", causal);
        gp_gguf_add_bool(w, "llama.use_parallel_residual", false);
        if (causal)
            expect_taken(w);
        else
            expect_refusal(w, "llama.attention.causal");
    }
}

static void unknown_keys_of_arithmetic_are_refused_others_are_not(void **state)
{
    static const char *const refused[] = {"llama.rope.freq_base_swa", "llama.attention.sinks",
                                          "llama.expert_gating_func", "llama.ssm.state_size",
                                          "llama.attention.sliding_window_pattern"};
    static const char *const taken[] = {"llama.vocab_size2", "general.rope.thing",
                                        "llamas.rope.freq_base_swa", "llama."};
    struct test_model m = base_model("llama");

    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct gp_gguf_writer *w = test_model_edit(&m, NULL);

        gp_gguf_add_u32(w, refused[i], 1);
        expect_refusal(w, refused[i]);
    }
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        struct gp_gguf_writer *w = test_model_edit(&m, NULL);

        gp_gguf_add_u32(w, taken[i], 1);
        expect_taken(w);
    }
}

static void a_sliding_window_cuts_the_context(void **state)
{
    static const uint32_t windows[] = {0, 5000, 4096, 1000}, contexts[] = {4096, 4096, 4096, 1000};
    struct test_model m = base_model("qwen2");

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        struct gp_gguf_writer *w = test_model_edit(&m, NULL);

        gp_gguf_add_u32(w, "qwen2.attention.sliding_window", windows[i]);
        assert_int_equal(read_hparams(w).context_max, contexts[i]);
    }
}

static void rope_scaling_types_are_known_or_refused(void **state)
{
    static const char *const types[] = {"none", "linear", "yarn", "longrope", "dynamic", ""};
    struct test_model m = base_model("llama");

    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct gp_gguf_writer *w = test_model_edit(&m, NULL);

        gp_gguf_add_str(w, "llama.rope.scaling.type", types[i], strlen(types[i]));
        gp_gguf_add_f32(w, "llama.rope.scaling.factor", 4.0f);
        if (i < 3)
            expect_taken(w);
        else
            expect_refusal(w, "llama.rope.scaling.type");
    }
}

static void open_edited(struct gp_gguf_writer *w, struct gp_weights **out)
{
    struct gp_gguf *gguf = test_model_edited(w);
    struct gp_error err = {""};

    if (gp_weights_open(out, gguf, workers, NULL, NULL, &err) != GP_OK)
        fail_msg("%s", err.message);
    gp_gguf_close(gguf); /* nothing of the file is needed any more */
}

/* Bars on the table itself; the logits' reference holds it in use. */
static void frequencies_follow_the_scaling_keys(void **state)
{
    struct test_model m = base_model("llama");
    struct gp_weights *plain = NULL, *none = NULL, *old = NULL, *yarn = NULL;
    struct gp_gguf_writer *w = test_model_edit(&m, NULL);

    (void)state;
    open_edited(w, &plain);
    w = test_model_edit(&m, NULL);
    gp_gguf_add_str(w, "llama.rope.scaling.type", "none", 4);
    gp_gguf_add_f32(w, "llama.rope.scaling.factor", 4.0f);
    open_edited(w, &none);
    w = test_model_edit(&m, NULL);
    gp_gguf_add_f32(w, "llama.rope.scale_linear", 4.0f);
    open_edited(w, &old);
    w = test_model_edit(&m, NULL);
    gp_gguf_add_str(w, "llama.rope.scaling.type", "yarn", 4);
    gp_gguf_add_f32(w, "llama.rope.scaling.factor", 4.0f);
    gp_gguf_add_u32(w, "llama.rope.scaling.original_context_length", 512);
    gp_gguf_add_f32(w, "llama.rope.scaling.yarn_ext_factor", 1.0f);
    open_edited(w, &yarn);
    for (uint32_t i = 0; i < 8; i++) {
        double want = pow(10000.0, -(double)i / 8.0);

        assert_true(fabs(plain->inv_freq[i] / want - 1.0) < 1e-14);
        assert_true(none->inv_freq[i] == plain->inv_freq[i]);
        assert_true(old->inv_freq[i] == plain->inv_freq[i] / 4.0);
        assert_true(yarn->inv_freq[i] <= plain->inv_freq[i]);
        assert_true(yarn->inv_freq[i] >= plain->inv_freq[i] / 4.0);
    }
    /* 512 positions turn pair 0 more than 32 times and the last pair not once. */
    assert_true(yarn->inv_freq[0] == plain->inv_freq[0]);
    assert_true(yarn->inv_freq[7] == plain->inv_freq[7] / 4.0);
    assert_true(fabs(yarn->hp.rope_scale - (1.0 + 0.1 * log(4.0))) < 1e-12);
    assert_true(plain->hp.rope_scale == 1.0 && old->hp.rope_scale == 1.0);
    gp_weights_close(plain);
    gp_weights_close(none);
    gp_weights_close(old);
    gp_weights_close(yarn);
}

/* ---- tensors ---- */

static const char *const llama_tensors[] = {
    "token_embd.weight",        "output_norm.weight",    "blk.1.attn_norm.weight",
    "blk.0.attn_q.weight",      "blk.1.attn_k.weight",   "blk.0.attn_v.weight",
    "blk.1.attn_output.weight", "blk.0.ffn_norm.weight", "blk.1.ffn_gate.weight",
    "blk.0.ffn_up.weight",      "blk.1.ffn_down.weight"};

static void a_missing_tensor_is_named(void **state)
{
    struct test_model llama = base_model("llama"), qwen3 = base_model("qwen3");
    char wanted[96];

    (void)state;
    for (size_t i = 0; i < sizeof llama_tensors / sizeof *llama_tensors; i++) {
        snprintf(wanted, sizeof wanted, "tensor %s: missing", llama_tensors[i]);
        struct gp_error err;

        assert_int_equal(try_open(without(&llama, llama_tensors[i]), &err), GP_ECORRUPT);
        assert_string_equal(err.message, wanted);
    }
    expect_refusal(without(&qwen3, "blk.0.attn_q_norm.weight"), "tensor blk.0.attn_q_norm.weight");
    expect_refusal(without(&qwen3, "blk.1.attn_k_norm.weight"), "tensor blk.1.attn_k_norm.weight");
}

static void a_tensor_of_another_shape_is_named(void **state)
{
    static const uint64_t shapes[][3] = {{64, 63, 1}, {32, 64, 1}, {64, 64, 2}, {4096, 1, 1}};
    static float zeros[64 * 512 * 2];
    struct test_model m = base_model("llama");
    char wanted[96];

    (void)state;
    for (size_t i = 0; i < sizeof llama_tensors / sizeof *llama_tensors; i++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            struct gp_gguf_writer *w = without(&m, llama_tensors[i]);

            /* A vocabulary may have any size, but then output.weight does not fit. */
            if (i == 0 && shapes[s][0] == 64)
                snprintf(wanted, sizeof wanted, "tensor %s",
                         shapes[s][2] == 1 ? "output.weight" : llama_tensors[i]);
            else
                snprintf(wanted, sizeof wanted, "tensor %s", llama_tensors[i]);
            gp_gguf_add_tensor(w, llama_tensors[i], GP_TYPE_F32, 3, shapes[s], zeros);
            expect_refusal(w, wanted);
        }
}

static void an_unknown_tensor_is_refused_a_harmless_one_is_not(void **state)
{
    static const char *const refused[] = {"output.bias",
                                          "blk.0.ffn_up.bias",
                                          "blk.0.attn_qkv.weight",
                                          "blk.1.attn_q.scale",
                                          "blk.0.attn_q_norm.weight",
                                          "blk.1.ffn_gate_exps.weight",
                                          "token_embd_norm.weight",
                                          "x"};
    static const char *const harmless[] = {"blk.2.attn_q.weight", "blk.17.nextn.eh_proj.weight",
                                           "cls.output.weight", "blk.0.attn_rot_embd.weight"};
    static const float zeros[16];
    static const uint64_t dims[] = {16};
    struct test_model m = base_model("llama");
    char wanted[96];

    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct gp_gguf_writer *w = test_model_edit(&m, NULL);

        gp_gguf_add_tensor(w, refused[i], GP_TYPE_F32, 1, dims, zeros);
        snprintf(wanted, sizeof wanted, "tensor %s", refused[i]);
        expect_refusal(w, wanted);
    }
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        struct gp_gguf_writer *w = test_model_edit(&m, NULL);

        gp_gguf_add_tensor(w, harmless[i], GP_TYPE_F32, 1, dims, zeros);
        expect_taken(w);
    }
}

static void bad_rope_factors_are_refused(void **state)
{
    static const float bad[] = {0.0f, -1.0f, NAN, INFINITY};
    struct test_model m = base_model("llama");
    float factors[8];

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        struct gp_gguf_writer *w = test_model_edit(&m, NULL);

        for (uint32_t j = 0; j < 8; j++)
            factors[j] = j == 5 ? bad[i] : 1.0f;
        gp_gguf_add_tensor(w, "rope_freqs.weight", GP_TYPE_F32, 1, (uint64_t[]){8}, factors);
        expect_refusal(w, "tensor rope_freqs.weight");
    }
    struct gp_gguf_writer *w = test_model_edit(&m, NULL);

    gp_gguf_add_tensor(w, "rope_freqs.weight", GP_TYPE_F32, 1, (uint64_t[]){7}, factors);
    expect_refusal(w, "tensor rope_freqs.weight");
}

static void vectors_may_be_half_floats_but_not_blocks(void **state)
{
    static const enum gp_type types[] = {GP_TYPE_F16, GP_TYPE_BF16, GP_TYPE_F32};
    struct test_model m = base_model("llama");
    const char *name = "blk.0.ffn_norm.weight";
    float values[64];
    uint8_t bytes[sizeof values];

    (void)state;
    for (uint32_t i = 0; i < 64; i++)
        values[i] = 1.0f + (float)i / 64.0f; /* exact in eight bits of mantissa */
    for (uint32_t t = 0; t < 3; t++) {
        struct gp_gguf_writer *w = without(&m, name);
        struct gp_weights *weights = NULL;

        test_quantize(types[t], values, 64, bytes);
        gp_gguf_add_tensor(w, name, types[t], 1, (uint64_t[]){64}, bytes);
        open_edited(w, &weights);
        assert_memory_equal(weights->layers[0].ffn_norm, values, sizeof values);
        gp_weights_close(weights);
    }
    struct gp_gguf_writer *w = without(&m, name);

    test_quantize(GP_TYPE_Q8_0, values, 64, bytes);
    gp_gguf_add_tensor(w, name, GP_TYPE_Q8_0, 1, (uint64_t[]){64}, bytes);
    expect_refusal(w, "tensor blk.0.ffn_norm.weight");
}

static void check_matrix(const struct gp_gguf *gguf, const char *name, const struct gp_matrix *m)
{
    const struct gp_gguf_tensor *t = gp_gguf_find_tensor(gguf, name);
    float want[512], got[512];

    assert_int_equal((uintptr_t)m->data % 64, 0);
    assert_true(m->n_in <= 512);
    for (uint32_t row = 0; row < m->n_out; row++) {
        size_t bytes = t->bytes / m->n_out;

        gp_dequantize(t->type, (const uint8_t *)t->data + row * bytes, m->n_in, want);
        gp_matrix_row(m, row, got);
        assert_memory_equal(want, got, m->n_in * sizeof *got);
    }
}

struct progress {
    double last;
    uint32_t calls;
};

static void note_progress(void *ctx, double share)
{
    struct progress *p = ctx;

    assert_true(share >= p->last && share <= 1.0);
    p->last = share;
    p->calls++;
}

static void packed_rows_are_the_files_rows(void **state)
{
    struct test_model m = base_model("qwen2");
    struct gp_weights *w = NULL;
    struct gp_error err = {""};
    struct progress progress = {0};
    uint64_t elements = 0;

    (void)state;
    m.type = GP_TYPE_Q4_K;
    m.embd = 256;
    m.vocab = 259; /* no multiple of a group of rows */
    struct gp_gguf *gguf = test_model_made(&m);

    if (gp_weights_open(&w, gguf, workers, note_progress, &progress, &err) != GP_OK)
        fail_msg("%s", err.message);
    assert_true(progress.last == 1.0 && progress.calls > 10);
    check_matrix(gguf, "token_embd.weight", &w->embed);
    check_matrix(gguf, "output.weight", &w->output);
    check_matrix(gguf, "blk.1.attn_q.weight", &w->layers[1].q);
    check_matrix(gguf, "blk.1.attn_k.weight", &w->layers[1].k);
    check_matrix(gguf, "blk.0.attn_v.weight", &w->layers[0].v);
    check_matrix(gguf, "blk.0.attn_output.weight", &w->layers[0].out);
    check_matrix(gguf, "blk.1.ffn_gate.weight", &w->layers[1].gate);
    check_matrix(gguf, "blk.0.ffn_up.weight", &w->layers[0].up);
    check_matrix(gguf, "blk.1.ffn_down.weight", &w->layers[1].down);
    assert_memory_equal(w->layers[1].q_bias, gp_gguf_find_tensor(gguf, "blk.1.attn_q.bias")->data,
                        64 * sizeof(float));
    assert_null(w->layers[0].q_norm);
    assert_null(w->layers[0].out_bias);
    for (uint32_t i = 0; i < gp_gguf_tensor_count(gguf); i++)
        elements += gp_gguf_tensor(gguf, i)->dims[0] * gp_gguf_tensor(gguf, i)->dims[1];
    assert_true(w->parameter_count == elements);
    gp_weights_close(w);
    gp_gguf_close(gguf);
}

static int open_workers(void **state)
{
    (void)state;
    gp_log_set(false, false);
    return gp_workers_open(&workers, 2, NULL);
}

static int close_workers(void **state)
{
    (void)state;
    gp_workers_close(workers);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hparams_are_what_the_file_says),
        cmocka_unit_test(absent_keys_fall_to_documented_defaults),
        cmocka_unit_test(a_key_that_is_needed_is_named),
        cmocka_unit_test(counts_out_of_range_are_named),
        cmocka_unit_test(numbers_out_of_range_are_named),
        cmocka_unit_test(a_value_of_the_wrong_type_is_named),
        cmocka_unit_test(counts_by_layer_must_be_equal),
        cmocka_unit_test(other_architectures_are_refused_by_name),
        cmocka_unit_test(keys_that_are_not_honoured_are_refused),
        cmocka_unit_test(unknown_keys_of_arithmetic_are_refused_others_are_not),
        cmocka_unit_test(a_sliding_window_cuts_the_context),
        cmocka_unit_test(rope_scaling_types_are_known_or_refused),
        cmocka_unit_test(frequencies_follow_the_scaling_keys),
        cmocka_unit_test(a_missing_tensor_is_named),
        cmocka_unit_test(a_tensor_of_another_shape_is_named),
        cmocka_unit_test(an_unknown_tensor_is_refused_a_harmless_one_is_not),
        cmocka_unit_test(bad_rope_factors_are_refused),
        cmocka_unit_test(vectors_may_be_half_floats_but_not_blocks),
        cmocka_unit_test(packed_rows_are_the_files_rows),
    };

    return cmocka_run_group_tests(tests, open_workers, close_workers);
}
