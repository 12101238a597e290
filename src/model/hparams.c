/* Hyper-parameters: read by name, checked one by one, and no key that changes the arithmetic passed
 * over in silence. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "model/weights_internal.h"

static const struct {
    const char *name;
    bool neox;
} architectures[] = {
    [GP_ARCH_LLAMA] = {"llama", false},
    [GP_ARCH_QWEN2] = {"qwen2", true},
    [GP_ARCH_QWEN3] = {"qwen3", true},
};

/* What may stand under "<architecture>.".  A key that we read, or that changes nothing, is
 * `FINE`; the others turn on arithmetic that we do not have, unless they hold the value that
 * means "off". */
enum key_rule {
    FINE,
    MUST_BE_0,
    MUST_BE_1,
    MUST_BE_0_OR_1,
};

/* clang-format off */
static const struct {
    const char *suffix;
    enum key_rule rule;
} known_keys[] = {
    {"vocab_size",                           FINE}, /* the embedding's own size counts */
    {"context_length",                       FINE},
    {"embedding_length",                     FINE},
    {"block_count",                          FINE},
    {"feed_forward_length",                  FINE},
    {"tensor_data_layout",                   FINE},
    {"pooling_type",                         FINE},
    {"attention.head_count",                 FINE},
    {"attention.head_count_kv",              FINE},
    {"attention.key_length",                 FINE},
    {"attention.value_length",               FINE},
    {"attention.layer_norm_rms_epsilon",     FINE},
    {"attention.sliding_window",             FINE},
    {"rope.dimension_count",                 FINE},
    {"rope.freq_base",                       FINE},
    {"rope.scale_linear",                    FINE},
    {"rope.scaling.type",                    FINE},
    {"rope.scaling.factor",                  FINE},
    {"rope.scaling.original_context_length", FINE},
    {"rope.scaling.finetuned",               FINE},
    {"rope.scaling.attn_factor",             FINE},
    {"rope.scaling.yarn_beta_fast",          FINE},
    {"rope.scaling.yarn_beta_slow",          FINE},
    {"rope.scaling.yarn_ext_factor",         FINE},
    {"rope.scaling.yarn_attn_factor",        MUST_BE_1},
    {"rope.scaling.yarn_log_multiplier",     MUST_BE_0},
    {"rope.scaling.alpha",                   MUST_BE_0},
    {"attention.causal",                     MUST_BE_1},
    {"attention.scale",                      MUST_BE_0},
    {"attention.clamp_kqv",                  MUST_BE_0},
    {"attention.max_alibi_bias",             MUST_BE_0},
    {"attention.output_scale",               MUST_BE_0_OR_1},
    {"attention.value_scale",                MUST_BE_0_OR_1},
    {"attention.temperature_scale",          MUST_BE_0},
    {"attention.layer_norm_epsilon",         MUST_BE_0},
    {"attn_logit_softcapping",               MUST_BE_0},
    {"final_logit_softcapping",              MUST_BE_0},
    {"router_logit_softcapping",             MUST_BE_0},
    {"logit_scale",                          MUST_BE_0_OR_1},
    {"residual_scale",                       MUST_BE_0_OR_1},
    {"embedding_scale",                      MUST_BE_0_OR_1},
    {"use_parallel_residual",                MUST_BE_0},
    {"expert_count",                         MUST_BE_0},
    {"expert_used_count",                    MUST_BE_0},
    {"expert_shared_count",                  MUST_BE_0},
    {"expert_group_count",                   MUST_BE_0},
    {"nextn_predict_layers",                 MUST_BE_0},
    {"leading_dense_block_count",            MUST_BE_0},
    {"n_deepstack_layers",                   MUST_BE_0},
    {"hidden_activation",                    MUST_BE_0}, /* a text, so always refused */
};
/* clang-format on */

/* An unknown key in one of these families speaks of arithmetic and is refused; any other unknown
 * key gets a warning. */
static const char *const refused_families[] = {
    "attention.", "rope.", "expert", "ssm.", "swiglu", "hyper_connection.", "activation.",
};

/* ---- keys ---- */

const char *gp_model_key(struct model_keys *keys, const char *suffix)
{
    snprintf(keys->name, sizeof keys->name, "%s.%s", keys->arch, suffix);
    return keys->name;
}

bool gp_model_key_has(struct model_keys *keys, const char *suffix)
{
    return gp_gguf_has(keys->gguf, gp_model_key(keys, suffix));
}

static uint32_t check_count(struct model_keys *keys, uint32_t value, uint32_t max)
{
    if (value >= 1 && value <= max)
        return value;
    keys->rc =
        gp_fail(keys->err, GP_ECORRUPT, "%s: %u is not from 1 to %u", keys->name, value, max);
    return 0;
}

uint32_t gp_model_key_count(struct model_keys *keys, const char *suffix, uint32_t fallback,
                            uint32_t max)
{
    uint32_t value = fallback;

    if (keys->rc != GP_OK)
        return 0;
    gp_model_key(keys, suffix);
    keys->rc = fallback ? gp_gguf_u32_or(keys->gguf, keys->name, &value, keys->err)
                        : gp_gguf_u32(keys->gguf, keys->name, &value, keys->err);
    return keys->rc == GP_OK ? check_count(keys, value, max) : 0;
}

double gp_model_key_number(struct model_keys *keys, const char *suffix, double fallback,
                           double above)
{
    float value = 0.0f;

    if (keys->rc != GP_OK)
        return 0.0;
    if (!gp_model_key_has(keys, suffix) && fallback > above)
        return fallback;
    keys->rc = gp_gguf_f32(keys->gguf, keys->name, &value, keys->err);
    if (keys->rc == GP_OK && !(isfinite(value) && value > above))
        keys->rc = gp_fail(keys->err, GP_ECORRUPT, "%s: %g is not a finite number above %g",
                           keys->name, value, above);
    return value;
}

/* A count that some architectures keep for every layer: an array is taken when all of it is
 * equal. */
static uint32_t read_layered(struct model_keys *keys, const char *suffix, uint32_t fallback,
                             uint32_t layers, uint32_t max)
{
    struct gp_gguf_array array;

    if (keys->rc != GP_OK)
        return 0;
    if (gp_gguf_array(keys->gguf, gp_model_key(keys, suffix), &array, NULL) != GP_OK)
        return gp_model_key_count(keys, suffix, fallback, max);
    bool whole = array.type == GP_GGUF_U32 || array.type == GP_GGUF_I32;

    if (!whole || array.count != layers) {
        keys->rc = gp_fail(keys->err, GP_ECORRUPT,
                           "%s: an array, but not of one whole number for each of %u layers",
                           keys->name, layers);
        return 0;
    }
    for (uint32_t i = 1; i < layers; i++)
        if (memcmp(array.data, (const char *)array.data + i * sizeof(uint32_t), sizeof(uint32_t)) !=
            0) {
            keys->rc =
                gp_fail(keys->err, GP_EINVAL, "%s: layers that differ (0 and %u) are not supported",
                        keys->name, i);
            return 0;
        }
    uint32_t value;

    memcpy(&value, array.data, sizeof value);
    return check_count(keys, value, max);
}

/* ---- keys that must not be passed over ---- */

static bool read_any_number(const struct gp_gguf *gguf, const char *key, double *out)
{
    uint32_t whole;
    float real;
    bool flag = false;

    if (gp_gguf_u32(gguf, key, &whole, NULL) == GP_OK)
        *out = whole;
    else if (gp_gguf_f32(gguf, key, &real, NULL) == GP_OK)
        *out = real;
    else if (gp_gguf_bool_or(gguf, key, &flag, NULL) == GP_OK)
        *out = flag;
    else
        return false;
    return true;
}

static bool value_is_off(const struct gp_gguf *gguf, const char *key, enum key_rule rule)
{
    double value;

    if (!read_any_number(gguf, key, &value))
        return false;
    return (value == 0.0 && rule != MUST_BE_1) || (value == 1.0 && rule != MUST_BE_0);
}

static int check_known_key(struct model_keys *keys, const char *suffix, bool *known)
{
    *known = false;
    for (size_t i = 0; i < sizeof known_keys / sizeof *known_keys; i++) {
        if (strcmp(suffix, known_keys[i].suffix) != 0)
            continue;
        *known = true;
        gp_model_key(keys, suffix);
        if (known_keys[i].rule != FINE && !value_is_off(keys->gguf, keys->name, known_keys[i].rule))
            return gp_fail(keys->err, GP_EINVAL, "%s: what it asks for is not supported",
                           keys->name);
    }
    return GP_OK;
}

static int check_key(struct model_keys *keys, const char *suffix)
{
    bool known;
    int rc = check_known_key(keys, suffix, &known);

    if (known)
        return rc;
    for (size_t i = 0; i < sizeof refused_families / sizeof *refused_families; i++)
        if (strncmp(suffix, refused_families[i], strlen(refused_families[i])) == 0)
            return gp_fail(keys->err, GP_EINVAL, "%s.%s: what it asks for is not supported",
                           keys->arch, suffix);
    gp_log_warn("%s.%s: not known, not honoured", keys->arch, suffix);
    return GP_OK;
}

static int check_all_keys(struct model_keys *keys)
{
    size_t prefix = strlen(keys->arch);
    char suffix[80];

    for (uint32_t i = 0; i < gp_gguf_key_count(keys->gguf); i++) {
        struct gp_str key = gp_gguf_key(keys->gguf, i);

        if (key.length <= prefix + 1 || memcmp(key.bytes, keys->arch, prefix) != 0 ||
            key.bytes[prefix] != '.')
            continue;
        size_t length = key.length - prefix - 1;

        if (length >= sizeof suffix)
            length = sizeof suffix - 1;
        memcpy(suffix, key.bytes + prefix + 1, length);
        suffix[length] = '\0';
        int rc = check_key(keys, suffix);

        if (rc)
            return rc;
    }
    return GP_OK;
}

/* ---- the whole ---- */

static int read_arch(struct gp_hparams *hp, struct model_keys *keys)
{
    struct gp_str kind = {"model", 5}, name;
    int rc = gp_gguf_str_or(keys->gguf, "general.type", &kind, keys->err);

    if (rc == GP_OK && (kind.length != 5 || memcmp(kind.bytes, "model", 5) != 0))
        return gp_fail(keys->err, GP_EINVAL, "general.type: %.*s, which is not a whole model",
                       (int)(kind.length < 100 ? kind.length : 100), kind.bytes);
    if (rc == GP_OK)
        rc = gp_gguf_str(keys->gguf, "general.architecture", &name, keys->err);
    if (rc != GP_OK)
        return rc;
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++)
        if (name.length == strlen(architectures[i].name) &&
            memcmp(name.bytes, architectures[i].name, name.length) == 0) {
            hp->arch = (enum gp_arch)i;
            hp->rope_neox = architectures[i].neox;
            keys->arch = architectures[i].name;
            return GP_OK;
        }
    return gp_fail(keys->err, GP_EINVAL,
                   "general.architecture: %.*s is not supported (llama, qwen2 and qwen3 are)",
                   (int)(name.length < 100 ? name.length : 100), name.bytes);
}

static void read_heads(struct gp_hparams *hp, struct model_keys *keys)
{
    hp->head_count = read_layered(keys, "attention.head_count", 0, hp->layer_count, GP_LIMIT_HEADS);
    hp->kv_head_count = read_layered(keys, "attention.head_count_kv", hp->head_count,
                                     hp->layer_count, GP_LIMIT_HEADS);
    if (keys->rc == GP_OK && hp->head_count % hp->kv_head_count != 0)
        keys->rc = gp_fail(keys->err, GP_ECORRUPT,
                           "%s: %u does not divide the %u heads of attention.head_count",
                           keys->name, hp->kv_head_count, hp->head_count);
    if (keys->rc != GP_OK)
        return;
    /* 0, and so a required key, when the heads do not share the embedding evenly. */
    uint32_t even = hp->embed_dim % hp->head_count == 0 ? hp->embed_dim / hp->head_count : 0;

    hp->key_dim = gp_model_key_count(keys, "attention.key_length", even, GP_LIMIT_HEAD_DIM);
    hp->value_dim = gp_model_key_count(keys, "attention.value_length", even, GP_LIMIT_HEAD_DIM);
    hp->rope_dim = gp_model_key_count(keys, "rope.dimension_count", hp->key_dim, hp->key_dim);
    if (keys->rc == GP_OK && hp->rope_dim % 2 != 0)
        keys->rc = gp_fail(keys->err, GP_ECORRUPT, "%s: %u is odd", keys->name, hp->rope_dim);
    if (keys->rc == GP_OK && (hp->head_count * hp->key_dim > GP_LIMIT_EMBED ||
                              hp->head_count * hp->value_dim > GP_LIMIT_EMBED))
        keys->rc =
            gp_fail(keys->err, GP_EINVAL, "%s: %u heads of %u and %u elements; together at most %u",
                    gp_model_key(keys, "attention.head_count"), hp->head_count, hp->key_dim,
                    hp->value_dim, GP_LIMIT_EMBED);
}

/* Inside the window full attention is what the model does; past it we would be wrong. */
static void read_context(struct gp_hparams *hp, struct model_keys *keys)
{
    uint32_t window = 0;

    hp->context_max = gp_model_key_count(keys, "context_length", MODEL_CONTEXT_DEFAULT, UINT32_MAX);
    if (keys->rc == GP_OK && hp->context_max > GP_LIMIT_CONTEXT) {
        gp_log_warn("%s: %u tokens, %u are used", keys->name, hp->context_max, GP_LIMIT_CONTEXT);
        hp->context_max = GP_LIMIT_CONTEXT;
    }
    if (keys->rc == GP_OK)
        keys->rc = gp_gguf_u32_or(keys->gguf, gp_model_key(keys, "attention.sliding_window"),
                                  &window, keys->err);
    if (keys->rc == GP_OK && window > 0 && window < hp->context_max) {
        gp_log_warn("%s: windows are not supported; the context is cut from %u to %u tokens",
                    keys->name, hp->context_max, window);
        hp->context_max = window;
    }
}

static void read_vocab(struct gp_hparams *hp, struct model_keys *keys)
{
    const struct gp_gguf_tensor *embed = gp_gguf_find_tensor(keys->gguf, "token_embd.weight");

    if (keys->rc != GP_OK)
        return;
    if (!embed)
        keys->rc = gp_fail(keys->err, GP_ECORRUPT, "tensor token_embd.weight: missing");
    else if (embed->dims[1] > GP_LIMIT_VOCAB)
        keys->rc =
            gp_fail(keys->err, GP_EINVAL, "tensor token_embd.weight: %llu tokens, at most %u",
                    (unsigned long long)embed->dims[1], GP_LIMIT_VOCAB);
    else
        hp->vocab_count = (uint32_t)embed->dims[1];
}

int gp_model_read(struct gp_hparams *out, struct model_rope *rope, const struct gp_gguf *gguf,
                  struct gp_error *err)
{
    struct model_keys keys = {.gguf = gguf, .err = err};
    struct gp_hparams hp = {0};

    keys.rc = read_arch(&hp, &keys);
    if (keys.rc == GP_OK)
        keys.rc = check_all_keys(&keys);
    hp.layer_count = gp_model_key_count(&keys, "block_count", 0, GP_LIMIT_LAYERS);
    hp.embed_dim = gp_model_key_count(&keys, "embedding_length", 0, GP_LIMIT_EMBED);
    hp.ffn_dim = read_layered(&keys, "feed_forward_length", 0, hp.layer_count, GP_LIMIT_EMBED);
    read_heads(&hp, &keys);
    hp.rms_eps = (float)gp_model_key_number(&keys, "attention.layer_norm_rms_epsilon", 0.0, 0.0);
    read_context(&hp, &keys);
    read_vocab(&hp, &keys);
    gp_model_rope_read(rope, &keys);
    if (keys.rc != GP_OK)
        return keys.rc;
    hp.attention_scale = (float)(1.0 / sqrt(hp.key_dim));
    hp.rope_scale = rope->attention_factor;
    *out = hp;
    return GP_OK;
}

int gp_hparams_read(struct gp_hparams *out, const struct gp_gguf *gguf, struct gp_error *err)
{
    struct model_rope rope;

    return gp_model_read(out, &rope, gguf, err);
}

uint64_t gp_hparams_token_bytes(const struct gp_hparams *hp, enum gp_kv_type type)
{
    /* Of 64 tokens, which no type's block rounds up. */
    uint64_t bytes = gp_kv_block_bytes(type, 64, hp->key_dim, hp->value_dim) / 64;

    return bytes * hp->layer_count * hp->kv_head_count;
}
