/* The model as programs see it: a GGUF, its vocabulary, its template and its packed weights
 * behind one handle.  Text goes in and out here; the engine itself speaks token ids only. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "model/vocab.h"

const char *gp_version(void)
{
    return GP_VERSION;
}

void gp_free(void *memory)
{
    gp_mem_free(memory);
}

uint32_t gp_engine_threads(uint32_t asked)
{
    long online = asked ? (long)asked : sysconf(_SC_NPROCESSORS_ONLN);

    if (online < 1)
        online = 1;
    return online > (long)GP_LIMIT_THREADS ? GP_LIMIT_THREADS : (uint32_t)online;
}

static int open_template(struct gp_model *model, const char *replacement, struct gp_error *err)
{
    struct gp_str source = {0};
    int rc = gp_gguf_str_or(model->gguf, "tokenizer.chat_template", &source, err);

    if (rc)
        return rc;
    if (replacement)
        source = (struct gp_str){replacement, strlen(replacement)};
    if (!source.bytes)
        return GP_OK;
    rc = gp_template_open(&model->template, source.bytes, source.length, err);
    if (rc && rc != GP_ENOMEM && !replacement) {
        /* A file whose own template is beyond us still serves plain prompts. */
        struct gp_error why = {0};

        if (err)
            why = *err;
        gp_log_warn("chat template not usable: %s", why.message);
        return GP_OK;
    }
    if (!rc) {
        model->template_source = gp_mem_copy(source.bytes, source.length);
        if (!model->template_source)
            rc = gp_fail(err, GP_ENOMEM, "out of memory");
    }
    if (rc)
        gp_error_prefix(err, "chat template");
    return rc;
}

static int open_weights(struct gp_model *model, const struct gp_model_options *options,
                        struct gp_error *err)
{
    struct gp_workers *workers = NULL;
    int rc = gp_workers_open(&workers, gp_engine_threads(options->threads), err);

    if (rc)
        return rc;
    rc = gp_weights_open(&model->weights, model->gguf, workers, options->progress,
                         options->progress_ctx, err);
    gp_workers_close(workers);
    if (rc)
        return rc;
    uint32_t tokens = gp_tokenizer_count(model->tokenizer);
    uint32_t rows = model->weights->hp.vocab_count;

    if (tokens > rows)
        return gp_fail(err, GP_ECORRUPT, "tokenizer.ggml.tokens: %u tokens, but %u embedding rows",
                       tokens, rows);
    return GP_OK;
}

int gp_model_open(struct gp_model **out, const struct gp_model_options *options,
                  struct gp_error *err)
{
    if (!options || !options->path)
        return gp_fail(err, GP_EINVAL, "model: no file given");
    struct gp_model *model = gp_mem_alloc(sizeof *model);

    if (!model)
        return gp_fail(err, GP_ENOMEM, "model: out of memory");
    int rc = gp_level_choose(options->cpu ? options->cpu : getenv("GP_CPU"), &model->level, err);

    if (rc)
        goto close;
    gp_kernels_init(&model->kernels, model->level);
    rc = gp_gguf_open(&model->gguf, options->path, err);
    if (rc)
        goto close;
    rc = gp_vocab_open(&model->tokenizer, model->gguf, options->override_pre, err);
    if (!rc)
        rc = open_template(model, options->chat_template, err);
    if (!rc && !options->vocab_only)
        rc = open_weights(model, options, err);
    if (rc)
        gp_error_prefix(err, "%s", options->path);
close:
    if (rc) {
        gp_model_close(model);
        return rc;
    }
    *out = model;
    return GP_OK;
}

void gp_model_close(struct gp_model *model)
{
    if (!model)
        return;
    gp_weights_close(model->weights);
    gp_template_close(model->template);
    gp_mem_free(model->template_source);
    gp_lexicon_close(model->lexicon);
    gp_tokenizer_close(model->tokenizer);
    gp_gguf_close(model->gguf);
    gp_mem_free(model);
}

/* The tensor type that holds most of the file's bytes. */
static const char *main_type(const struct gp_gguf *gguf)
{
    size_t bytes[64] = {0};
    uint32_t best = 0;

    for (uint32_t i = 0; i < gp_gguf_tensor_count(gguf); i++) {
        const struct gp_gguf_tensor *tensor = gp_gguf_tensor(gguf, i);

        if ((uint32_t)tensor->type < 64)
            bytes[tensor->type] += tensor->bytes;
    }
    for (uint32_t type = 1; type < 64; type++)
        if (bytes[type] > bytes[best])
            best = type;
    return gp_type_name(best);
}

void gp_model_info(const struct gp_model *model, struct gp_model_info *info)
{
    const char *quant = main_type(model->gguf), *kind = gp_tokenizer_kind(model->tokenizer);
    const char *level = gp_level_name(model->level);
    struct gp_str name = {"", 0}, arch = {"", 0};

    *info = (struct gp_model_info){0};
    gp_gguf_str_or(model->gguf, "general.name", &name, NULL);
    gp_text_copy(info->name, sizeof info->name, name.bytes, name.length);
    gp_gguf_str_or(model->gguf, "general.architecture", &arch, NULL);
    gp_text_copy(info->arch, sizeof info->arch, arch.bytes, arch.length);
    gp_text_copy(info->quant, sizeof info->quant, quant, strlen(quant));
    gp_text_copy(info->tokenizer, sizeof info->tokenizer, kind, strlen(kind));
    gp_text_copy(info->cpu, sizeof info->cpu, level, strlen(level));
    info->file_bytes = gp_gguf_file_bytes(model->gguf);
    info->vocab_count = gp_tokenizer_count(model->tokenizer);
    info->token_bytes_max = gp_tokenizer_bytes_max(model->tokenizer);
    info->bos = gp_tokenizer_bos(model->tokenizer);
    info->eos = gp_tokenizer_eos(model->tokenizer);
    info->has_template = model->template != NULL;
    if (!model->weights)
        return;
    const struct gp_hparams *hp = &model->weights->hp;

    info->weight_bytes = model->weights->packed_bytes;
    info->parameter_count = model->weights->parameter_count;
    info->layer_count = hp->layer_count;
    info->embed_dim = hp->embed_dim;
    info->ffn_dim = hp->ffn_dim;
    info->head_count = hp->head_count;
    info->kv_head_count = hp->kv_head_count;
    info->key_dim = hp->key_dim;
    info->value_dim = hp->value_dim;
    info->context_max = hp->context_max;
}

const char *gp_model_template(const struct gp_model *model)
{
    return model->template_source;
}

const int32_t *gp_model_ends(const struct gp_model *model, uint32_t *count)
{
    return gp_tokenizer_ends(model->tokenizer, count);
}

/* ---- text ---- */

int gp_model_tokenize(const struct gp_model *model, const char *text, size_t length,
                      bool add_special, bool parse_special, int32_t **ids, uint32_t *count,
                      struct gp_error *err)
{
    struct gp_span span = {.bytes = text, .length = length, .trusted = parse_special};

    return gp_tokenize(model->tokenizer, &span, 1, add_special, ids, count, err);
}

int gp_model_detokenize(const struct gp_model *model, const int32_t *ids, uint32_t count,
                        bool special, char **text, size_t *length, struct gp_error *err)
{
    uint32_t vocab = gp_tokenizer_count(model->tokenizer);

    for (uint32_t i = 0; i < count; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= vocab)
            return gp_fail(err, GP_EINVAL, "token %u: id %d: must be 0 to %u", i, ids[i],
                           vocab - 1);
    return gp_detokenize(model->tokenizer, ids, count, special, text, length, err);
}

static int parse_json(json_t **out, const char *what, const char *text, bool is_array,
                      struct gp_error *err)
{
    json_error_t why;
    json_t *value = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);

    if (!value)
        return gp_fail(err, GP_EINVAL, "%s: line %d, column %d: %s", what, why.line, why.column,
                       why.text);
    if (is_array ? !json_is_array(value) : !json_is_object(value)) {
        json_decref(value);
        return gp_fail(err, GP_EINVAL, "%s: not a JSON %s", what, is_array ? "array" : "object");
    }
    *out = value;
    return GP_OK;
}

/* A special token's spelling as a zero-terminated string of the caller's, "" when there is none. */
static char *spelling(const struct gp_tokenizer *tokenizer, int32_t id)
{
    size_t length = 0;
    const char *bytes = id >= 0 ? gp_token_bytes(tokenizer, id, true, &length) : "";

    return gp_mem_copy(bytes, length);
}

static int render(const struct gp_model *model, const struct gp_chat *chat, const json_t *messages,
                  const json_t *tools, const json_t *variables, struct gp_prompt *prompt,
                  struct gp_error *err)
{
    char *bos = spelling(model->tokenizer, gp_tokenizer_bos(model->tokenizer));
    char *eos = spelling(model->tokenizer, gp_tokenizer_eos(model->tokenizer));
    int rc = GP_ENOMEM;

    if (bos && eos) {
        struct gp_template_input input = {
            .messages = messages,
            .tools = tools,
            .variables = variables,
            .bos_token = bos,
            .eos_token = eos,
            .add_generation_prompt = chat->add_generation_prompt,
            .now = chat->now,
        };
        rc = gp_template_render(model->template, &input, prompt, err);
    } else {
        gp_error_set(err, "chat: out of memory");
    }
    gp_mem_free(bos);
    gp_mem_free(eos);
    return rc;
}

int gp_model_apply_template(const struct gp_model *model, const struct gp_chat *chat, int32_t **ids,
                            uint32_t *count, char **text, size_t *length, struct gp_error *err)
{
    json_t *messages = NULL, *tools = NULL, *variables = NULL;
    struct gp_prompt prompt = {0};

    if (!model->template)
        return gp_fail(err, GP_EINVAL, "chat: the model has no usable chat template");
    int rc = parse_json(&messages, "messages", chat->messages ? chat->messages : "", true, err);

    if (!rc && chat->tools)
        rc = parse_json(&tools, "tools", chat->tools, true, err);
    if (!rc && chat->variables)
        rc = parse_json(&variables, "template variables", chat->variables, false, err);
    if (!rc)
        rc = render(model, chat, messages, tools, variables, &prompt, err);
    json_decref(messages);
    json_decref(tools);
    json_decref(variables);
    if (rc)
        return rc;
    /* The template writes BOS itself where the family wants one. */
    if (ids)
        rc = gp_tokenize(model->tokenizer, prompt.spans, prompt.span_count, false, ids, count, err);
    if (!rc && text) {
        *text = gp_mem_copy(prompt.text, prompt.length);
        *length = prompt.length;
        if (!*text) {
            rc = gp_fail(err, GP_ENOMEM, "chat: out of memory");
            if (ids)
                gp_mem_free(*ids);
        }
    }
    gp_prompt_free(&prompt);
    return rc;
}

/* ---- decoder ---- */

struct gp_decoder {
    struct gp_detokenizer detokenizer;
    bool special;
    size_t buffer_bytes;
    char buffer[];
};

int gp_decoder_open(struct gp_decoder **out, const struct gp_model *model, bool special,
                    struct gp_error *err)
{
    size_t bytes = 3 * ((size_t)gp_tokenizer_bytes_max(model->tokenizer) + 4);
    struct gp_decoder *decoder = gp_mem_alloc(sizeof *decoder + bytes + 1);

    if (!decoder)
        return gp_fail(err, GP_ENOMEM, "decoder: out of memory");
    decoder->buffer_bytes = bytes;
    decoder->special = special;
    gp_detokenizer_init(&decoder->detokenizer, model->tokenizer, special);
    *out = decoder;
    return GP_OK;
}

void gp_decoder_close(struct gp_decoder *decoder)
{
    gp_mem_free(decoder);
}

void gp_decoder_reset(struct gp_decoder *decoder)
{
    gp_detokenizer_init(&decoder->detokenizer, decoder->detokenizer.tokenizer, decoder->special);
}

const char *gp_decoder_next(struct gp_decoder *decoder, int32_t id, size_t *length)
{
    size_t n =
        gp_detokenizer_next(&decoder->detokenizer, id, decoder->buffer, decoder->buffer_bytes);

    decoder->buffer[n] = '\0';
    if (length)
        *length = n;
    return decoder->buffer;
}

const char *gp_decoder_end(struct gp_decoder *decoder, size_t *length)
{
    size_t n = gp_detokenizer_end(&decoder->detokenizer, decoder->buffer, decoder->buffer_bytes);

    decoder->buffer[n] = '\0';
    if (length)
        *length = n;
    return decoder->buffer;
}
