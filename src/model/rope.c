/* Rotary positions: the file's scaling keys, and the angles that follow from them.
 *
 * Linear scaling divides every angle by the factor.  YaRN (Peng et al., 2023) divides slow
 * pairs, those that turn less than beta_slow times in the original context, leaves fast ones,
 * that turn more than beta_fast times, and blends in between; cos and sin grow by 0.1 ln(factor)
 * + 1. */
#include <math.h>
#include <string.h>

#include "model/weights_internal.h"

#define TAU 6.283185307179586476925286766559

static bool str_is(struct gp_str s, const char *text)
{
    return s.length == strlen(text) && memcmp(s.bytes, text, s.length) == 0;
}

/* 0 in a file means "no scaling", as does an absent key.  scale_linear is the key's old name. */
static double read_factor(struct model_keys *keys)
{
    const char *suffix =
        gp_model_key_has(keys, "rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
    double factor = gp_model_key_number(keys, suffix, 1.0, -1.0);

    if (factor == 0.0)
        return 1.0;
    if (keys->rc == GP_OK && factor < 0.0)
        keys->rc = gp_fail(keys->err, GP_ECORRUPT, "%s: %g is negative", keys->name, factor);
    return factor;
}

static void read_type(struct model_rope *rope, struct model_keys *keys)
{
    struct gp_str type = {"linear", 6};

    if (keys->rc == GP_OK)
        keys->rc =
            gp_gguf_str_or(keys->gguf, gp_model_key(keys, "rope.scaling.type"), &type, keys->err);
    if (keys->rc != GP_OK)
        return;
    rope->factor = read_factor(keys);
    if (str_is(type, "none"))
        rope->factor = 1.0;
    else if (str_is(type, "yarn"))
        rope->yarn = true;
    else if (!str_is(type, "linear") && keys->rc == GP_OK)
        keys->rc =
            gp_fail(keys->err, GP_EINVAL, "%s: %.*s is not supported (none, linear and yarn are)",
                    gp_model_key(keys, "rope.scaling.type"),
                    (int)(type.length < 100 ? type.length : 100), type.bytes);
}

void gp_model_rope_read(struct model_rope *rope, struct model_keys *keys)
{
    uint32_t context =
        gp_model_key_count(keys, "context_length", MODEL_CONTEXT_DEFAULT, UINT32_MAX);

    *rope = (struct model_rope){.factor = 1.0};
    rope->freq_base = gp_model_key_number(keys, "rope.freq_base", 10000.0, 1.0);
    read_type(rope, keys);
    rope->beta_fast = gp_model_key_number(keys, "rope.scaling.yarn_beta_fast", 32.0, 0.0);
    rope->beta_slow = gp_model_key_number(keys, "rope.scaling.yarn_beta_slow", 1.0, 0.0);
    rope->context_original =
        gp_model_key_count(keys, "rope.scaling.original_context_length", context, UINT32_MAX);
    rope->attention_factor = gp_model_key_number(keys, "rope.scaling.attn_factor", 1.0, 0.0);
    /* Negative is this key's way of saying "not set". */
    double blend = gp_model_key_number(keys, "rope.scaling.yarn_ext_factor", -1.0, -INFINITY);

    if (keys->rc == GP_OK && blend >= 0.0 && blend != (rope->yarn ? 1.0 : 0.0))
        keys->rc = gp_fail(keys->err, GP_EINVAL, "%s: %g is not supported", keys->name, blend);
    if (rope->yarn && rope->factor > 1.0)
        rope->attention_factor *= 1.0 + 0.1 * log(rope->factor);
}

/* The pair, as a real number, that turns `turns` times in the original context. */
static double pair_of_turns(const struct model_rope *rope, uint32_t rope_dim, double turns)
{
    return rope_dim * log(rope->context_original / (turns * TAU)) / (2.0 * log(rope->freq_base));
}

void gp_model_rope_frequencies(const struct model_rope *rope, uint32_t rope_dim,
                               const float *factors, double *inv_freq)
{
    double low = fmax(0.0, floor(pair_of_turns(rope, rope_dim, rope->beta_fast)));
    double high = fmin(rope_dim - 1.0, ceil(pair_of_turns(rope, rope_dim, rope->beta_slow)));

    for (uint32_t i = 0; i < rope_dim / 2; i++) {
        double whole = pow(rope->freq_base, -2.0 * i / rope_dim) / (factors ? factors[i] : 1.0);
        double divided = whole / rope->factor;
        double share = fmin(1.0, fmax(0.0, (i - low) / fmax(0.001, high - low)));

        inv_freq[i] = rope->yarn ? divided * share + whole * (1.0 - share) : divided;
    }
}
