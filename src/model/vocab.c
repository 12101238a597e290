#include "model/vocab.h"

#include "base/mem.h"

#include <string.h>

#define KEY(name) "tokenizer.ggml." name

/* What a struct gp_vocab points at while it is read. */
struct source {
    char *model, *pre;
    struct gp_text *tokens, *merges;
    int32_t *types;
    float *scores;
};

static int no_memory(struct gp_error *err)
{
    return gp_fail(err, GP_ENOMEM, "vocabulary: out of memory");
}

static int read_name(const struct gp_gguf *gguf, const char *key, char **out, struct gp_error *err)
{
    struct gp_str value;
    int rc = gp_gguf_str(gguf, key, &value, err);

    if (rc != GP_OK)
        return rc;
    if (memchr(value.bytes, '\0', value.length))
        return gp_fail(err, GP_ECORRUPT, "%s: a zero byte in a name", key);
    *out = gp_mem_copy(value.bytes, value.length);
    return *out ? GP_OK : no_memory(err);
}

static int read_texts(const struct gp_gguf *gguf, const char *key, struct gp_text **out,
                      uint32_t *count, struct gp_error *err)
{
    struct gp_str *strings;
    uint32_t n;
    int rc = gp_gguf_strings(gguf, key, &strings, &n, err);

    if (rc != GP_OK)
        return rc;
    *out = gp_mem_alloc_array(n, sizeof **out);
    for (uint32_t i = 0; *out && i < n; i++)
        (*out)[i] = (struct gp_text){strings[i].bytes, strings[i].length};
    gp_mem_free(strings);
    if (!*out)
        return no_memory(err);
    *count = n;
    return GP_OK;
}

/* An array of one 4-byte number a token, if the file has it. */
static int read_numbers(const struct gp_gguf *gguf, const char *key, enum gp_gguf_value type,
                        uint32_t token_count, void **out, struct gp_error *err)
{
    struct gp_gguf_array array;

    if (!gp_gguf_has(gguf, key))
        return GP_OK;
    int rc = gp_gguf_array(gguf, key, &array, err);

    if (rc != GP_OK)
        return rc;
    if (array.type != type)
        return gp_fail(err, GP_ECORRUPT, "%s: not an array of %s", key,
                       type == GP_GGUF_F32 ? "f32" : "i32");
    if (array.count != token_count)
        return gp_fail(err, GP_ECORRUPT, "%s: %llu entries for %u tokens", key,
                       (unsigned long long)array.count, token_count);
    *out = gp_mem_alloc_array(token_count, 4);
    if (!*out)
        return no_memory(err);
    memcpy(*out, array.data, (size_t)token_count * 4);
    return GP_OK;
}

/* *id keeps what it holds where the file says nothing. */
static int read_id(const struct gp_gguf *gguf, const char *key, uint32_t token_count, int32_t *id,
                   struct gp_error *err)
{
    uint32_t value = 0;

    if (!gp_gguf_has(gguf, key))
        return GP_OK;
    int rc = gp_gguf_u32(gguf, key, &value, err);

    if (rc != GP_OK)
        return rc;
    if (value >= token_count)
        return gp_fail(err, GP_ECORRUPT, "%s: %u, and there are %u tokens", key, value,
                       token_count);
    *id = (int32_t)value;
    return GP_OK;
}

static int read_ids(const struct gp_gguf *gguf, struct gp_vocab *vocab, struct gp_error *err)
{
    const struct {
        const char *key;
        int32_t *id;
    } ids[] = {
        {KEY("bos_token_id"), &vocab->bos},     {KEY("eos_token_id"), &vocab->eos},
        {KEY("eot_token_id"), &vocab->eot},     {KEY("eom_token_id"), &vocab->eom},
        {KEY("unknown_token_id"), &vocab->unk}, {KEY("padding_token_id"), &vocab->pad},
    };
    int rc = GP_OK;

    for (size_t i = 0; rc == GP_OK && i < sizeof ids / sizeof *ids; i++) {
        *ids[i].id = GP_TOKEN_NONE;
        rc = read_id(gguf, ids[i].key, vocab->token_count, ids[i].id, err);
    }
    return rc;
}

static int read_switch(const struct gp_gguf *gguf, const char *key, int *out, struct gp_error *err)
{
    bool value = false;

    *out = -1;
    if (!gp_gguf_has(gguf, key))
        return GP_OK;
    int rc = gp_gguf_bool_or(gguf, key, &value, err);

    if (rc == GP_OK)
        *out = value;
    return rc;
}

static int read_vocab(const struct gp_gguf *gguf, struct source *s, struct gp_vocab *vocab,
                      struct gp_error *err)
{
    int rc = read_name(gguf, KEY("model"), &s->model, err);

    vocab->model = s->model;
    if (rc == GP_OK && gp_gguf_has(gguf, KEY("pre")))
        rc = read_name(gguf, KEY("pre"), &s->pre, err);
    vocab->pre = s->pre;
    if (rc == GP_OK)
        rc = read_texts(gguf, KEY("tokens"), &s->tokens, &vocab->token_count, err);
    vocab->tokens = s->tokens;
    if (rc == GP_OK)
        rc = read_numbers(gguf, KEY("token_type"), GP_GGUF_I32, vocab->token_count,
                          (void **)&s->types, err);
    vocab->types = s->types;
    bool merges = rc == GP_OK && strcmp(s->model, "gpt2") == 0;

    if (merges)
        rc = read_texts(gguf, KEY("merges"), &s->merges, &vocab->merge_count, err);
    else if (rc == GP_OK)
        rc = read_numbers(gguf, KEY("scores"), GP_GGUF_F32, vocab->token_count, (void **)&s->scores,
                          err);
    vocab->merges = s->merges;
    vocab->scores = s->scores;
    if (rc == GP_OK)
        rc = read_ids(gguf, vocab, err);
    if (rc == GP_OK)
        rc = read_switch(gguf, KEY("add_bos_token"), &vocab->add_bos, err);
    if (rc == GP_OK)
        rc = read_switch(gguf, KEY("add_eos_token"), &vocab->add_eos, err);
    if (rc == GP_OK)
        rc = read_switch(gguf, KEY("add_space_prefix"), &vocab->add_space_prefix, err);
    return rc;
}

int gp_vocab_open(struct gp_tokenizer **out, const struct gp_gguf *gguf, bool override_pre,
                  struct gp_error *err)
{
    struct source s = {0};
    struct gp_vocab vocab = {.override_pre = override_pre};
    int rc = read_vocab(gguf, &s, &vocab, err);

    if (rc == GP_OK)
        rc = gp_tokenizer_open(out, &vocab, err);
    gp_mem_free(s.model);
    gp_mem_free(s.pre);
    gp_mem_free(s.tokens);
    gp_mem_free(s.merges);
    gp_mem_free(s.types);
    gp_mem_free(s.scores);
    return rc;
}
