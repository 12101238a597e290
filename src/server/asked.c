/* What both routes have alike, and the prompts of /v1/completions. */
#include "server/asked.h"

#include <string.h>

#include "base/mem.h"
#include "server/asked_internal.h"
#include "server/fields.h"

/* ---- prompts ---- */

int gp_prompt_check(const struct gp_api *api, uint32_t count, struct gp_refusal *r)
{
    const struct gp_engine_info *e = &api->engine_info;

    if (count == 0)
        return gp_refuse(r, 400, "prompt", "prompt: empty");
    if (count >= e->context)
        (void)gp_refuse(
            r, 400, "prompt",
            "This model's maximum context length is %u tokens. However, your prompt has %u "
            "tokens, which exceeds the available context size.",
            e->context, count);
    else if (count / e->page_tokens + 1 > e->page_count)
        (void)gp_refuse(
            r, 400, "prompt",
            "Your prompt has %u tokens and can never fit the KV pool of %u pages of %u tokens, "
            "which exceeds the available context size.",
            count, e->page_count, e->page_tokens);
    else
        return GP_OK;
    r->type = "exceed_context_size_error";
    r->code = "context_length_exceeded";
    r->prompt_tokens = count;
    r->context = e->context;
    return GP_EINVAL;
}

int gp_text_check(const struct gp_api *api, size_t length, struct gp_refusal *r)
{
    /* Normalising makes no text shorter than a quarter. */
    size_t least = length / 4 / api->model_info.token_bytes_max;

    if (least < api->engine_info.context)
        return GP_OK;
    return gp_prompt_check(api, least < UINT32_MAX ? (uint32_t)least : UINT32_MAX, r);
}

static int take_text(const struct gp_api *api, const json_t *item, bool add_special,
                     struct gp_asked *asked, struct gp_prompt *prompt, struct gp_refusal *r)
{
    const char *text = json_string_value(item);
    size_t length = json_string_length(item);
    struct gp_error err;

    if (gp_text_check(api, length, r))
        return GP_EINVAL;
    /* A completion's prompt is the client's own business: control tokens in it are recognised. */
    if (gp_model_tokenize(api->model, text, length, add_special, true, &prompt->ids, &prompt->count,
                          &err))
        return gp_refuse(r, 500, "prompt", "%s", err.message);
    if (!asked->echo && !asked->native)
        return GP_OK;
    prompt->text = gp_mem_copy(text, length);
    prompt->text_length = length;
    return prompt->text ? GP_OK : gp_refuse(r, 500, "prompt", "prompt: out of memory");
}

static int take_ids(const struct gp_api *api, const json_t *item, struct gp_asked *asked,
                    struct gp_prompt *prompt, struct gp_refusal *r)
{
    struct gp_error err;
    char *text;

    if (gp_field_ids(item, "prompt", api->vocab, GP_LIMIT_CONTEXT, &prompt->ids, &prompt->count, r))
        return GP_EINVAL;
    if (!asked->echo && !asked->native)
        return GP_OK;
    if (gp_model_detokenize(api->model, prompt->ids, prompt->count, true, &text,
                            &prompt->text_length, &err))
        return gp_refuse(r, 500, "prompt", "%s", err.message);
    prompt->text = gp_mem_copy(text, prompt->text_length);
    gp_free(text);
    if (!prompt->text)
        return gp_refuse(r, 500, "prompt", "prompt: out of memory");
    return GP_OK;
}

/* What truncate_prompt_tokens asks for, and nobody else does. */
static void cut_front(const struct gp_asked *asked, struct gp_prompt *prompt)
{
    uint32_t keep = asked->keep_tokens;

    if (keep == 0 || prompt->count <= keep)
        return;
    memmove(prompt->ids, prompt->ids + (prompt->count - keep), keep * sizeof *prompt->ids);
    prompt->count = keep;
}

static int take_prompt(const struct gp_api *api, const json_t *item, bool add_special,
                       struct gp_asked *asked, struct gp_refusal *r)
{
    struct gp_prompt *prompt = &asked->prompts[asked->prompt_count++];
    int rc;

    if (json_is_string(item))
        rc = take_text(api, item, add_special, asked, prompt, r);
    else if (json_is_array(item))
        rc = take_ids(api, item, asked, prompt, r);
    else
        rc = gp_refuse(r, 400, "prompt",
                       "prompt: must be a string, an array of token ids, or an array of these");
    if (rc)
        return rc;
    cut_front(asked, prompt);
    return gp_prompt_check(api, prompt->count, r);
}

static int read_prompts(const struct gp_api *api, const json_t *body, struct gp_asked *asked,
                        struct gp_refusal *r)
{
    const json_t *prompt = gp_field(body, "prompt");
    bool add_special = true;

    if (gp_field_bool(body, "add_special_tokens", &add_special, r))
        return GP_EINVAL;
    if (!prompt)
        return gp_refuse(r, 400, "prompt", "prompt: missing");
    /* An array that begins with a number is one prompt of ids. */
    bool many = json_is_array(prompt) && !json_is_number(json_array_get(prompt, 0));
    size_t count = many ? json_array_size(prompt) : 1;

    if (count == 0)
        return gp_refuse(r, 400, "prompt", "prompt: empty");
    if (count > GP_LIMIT_PROMPTS)
        return gp_refuse(r, 400, "prompt", "prompt: %zu prompts; at most %u", count,
                         GP_LIMIT_PROMPTS);
    asked->prompts = gp_mem_alloc_array(count, sizeof *asked->prompts);
    if (!asked->prompts)
        return gp_refuse(r, 500, "prompt", "prompt: out of memory");
    for (size_t i = 0; i < count; i++)
        if (take_prompt(api, many ? json_array_get(prompt, i) : prompt, add_special, asked, r))
            return GP_EINVAL;
    return GP_OK;
}

static int read_chat(const struct gp_api *api, const json_t *body, struct gp_asked *asked,
                     struct gp_refusal *r)
{
    char *text = NULL;
    size_t length = 0;
    int32_t *ids = NULL;
    uint32_t count = 0;

    if (gp_chat_render(api, body, &ids, &count, &text, &length, r))
        return GP_EINVAL;
    asked->split_thought = api->split_thoughts;
    asked->thought_opened = gp_thought_opened(text, length);
    asked->thought_closed = gp_thought_closed(text, length);
    gp_free(text);
    asked->prompts = gp_mem_alloc_array(1, sizeof *asked->prompts);
    if (asked->prompts)
        asked->prompts[asked->prompt_count++] = (struct gp_prompt){
            .ids = gp_mem_alloc_array(count, sizeof *ids),
            .count = count,
        };
    if (asked->prompts && asked->prompts->ids)
        memcpy(asked->prompts->ids, ids, count * sizeof *ids);
    gp_free(ids);
    if (!asked->prompts || !asked->prompts->ids)
        return gp_refuse(r, 500, "messages", "messages: out of memory");
    cut_front(asked, asked->prompts);
    return gp_prompt_check(api, asked->prompts->count, r);
}

/* ---- the whole ---- */

/* A field that would change the answer and is not done here; what stands for "off" is fine. */
static bool is_off(const json_t *field)
{
    return !field || json_is_null(field) || json_is_false(field) ||
           (json_is_number(field) && json_number_value(field) == 0) ||
           (json_is_string(field) && json_string_length(field) == 0) ||
           (json_is_array(field) && json_array_size(field) == 0) ||
           (json_is_object(field) && json_object_size(field) == 0);
}

static int refuse_what_is_not_there(const json_t *body, struct gp_refusal *r)
{
    static const char *const names[] = {
        "suffix",
        "functions",
        "function_call",
        "structured_outputs",
        "guided_json",
        "guided_regex",
        "guided_choice",
        "guided_grammar",
        "grammar",
        "json_schema",
        "use_beam_search",
        "continue_final_message",
        "chat_template",
        "documents",
        "audio",
        "dry_multiplier",
        "xtc_probability",
        "mirostat",
        "dynatemp_range",
        "post_sampling_probs",
        "lora",
    };
    const json_t *best_of = gp_field(body, "best_of");

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!is_off(json_object_get(body, names[i])))
            return gp_refuse(r, 400, names[i], "%s: not available here", names[i]);
    if (best_of && !(json_is_integer(best_of) && json_integer_value(best_of) == 1))
        return gp_refuse(r, 400, "best_of", "best_of: only 1 is available here");
    return GP_OK;
}

static int read_stream(const json_t *body, struct gp_asked *asked, struct gp_refusal *r)
{
    const json_t *options = gp_field(body, "stream_options");

    if (gp_field_bool(body, "stream", &asked->stream, r))
        return GP_EINVAL;
    if (!options)
        return GP_OK;
    if (!json_is_object(options))
        return gp_refuse(r, 400, "stream_options", "stream_options: must be an object");
    if (!asked->stream)
        return gp_refuse(r, 400, "stream_options", "stream_options: has no meaning without stream");
    int rc = gp_field_bool(options, "include_usage", &asked->include_usage, r);
    return rc ? rc : gp_field_bool(options, "continuous_usage_stats", &asked->continuous_usage, r);
}

static int read_flags(const json_t *body, struct gp_asked *asked, struct gp_refusal *r)
{
    bool skip_special = true, show_thought = true;
    int rc = gp_field_bool(body, "include_stop_str_in_output", &asked->keep_stop, r);

    if (!rc)
        rc = gp_field_bool(body, "ignore_eos", &asked->request.ignore_eos, r);
    if (!rc)
        rc = gp_field_bool(body, "skip_special_tokens", &skip_special, r);
    if (!rc)
        rc = gp_field_bool(body, "return_tokens_as_token_ids", &asked->ids_as_tokens, r);
    if (!rc)
        rc = gp_field_bool(body, asked->native ? "return_tokens" : "return_token_ids",
                           &asked->return_ids, r);
    if (!rc && asked->native)
        rc = gp_field_bool(body, "timings_per_token", &asked->timings, r);
    if (!rc && !asked->chat && !asked->native)
        rc = gp_field_bool(body, "echo", &asked->echo, r);
    if (!rc)
        rc = gp_field_bool(body, "include_reasoning", &show_thought, r);
    asked->keep_special = !skip_special;
    asked->hide_thought = !show_thought;
    return rc;
}

static int check_model(const struct gp_api *api, const json_t *body, struct gp_refusal *r)
{
    const json_t *model = gp_field(body, "model");

    if (model && !json_is_string(model))
        return gp_refuse(r, 400, "model", "model: must be a string");
    if (model && api->strict_model && strcmp(json_string_value(model), api->name) != 0)
        return gp_refuse(r, 404, "model", "model: %.100s: not served here",
                         json_string_value(model));
    return GP_OK;
}

static int read_salt(const json_t *body, struct gp_asked *asked, struct gp_refusal *r)
{
    const json_t *salt = gp_field(body, "cache_salt");

    if (!salt)
        return GP_OK;
    if (!json_is_string(salt) || json_string_length(salt) == 0 ||
        json_string_length(salt) > GP_LIMIT_SALT_BYTES)
        return gp_refuse(r, 400, "cache_salt", "cache_salt: must be a string of 1 to %u bytes",
                         GP_LIMIT_SALT_BYTES);
    asked->cache_salt = gp_mem_copy(json_string_value(salt), json_string_length(salt));
    return asked->cache_salt ? GP_OK : gp_refuse(r, 500, "cache_salt", "out of memory");
}

static int read_cut(const json_t *body, struct gp_asked *asked, struct gp_refusal *r)
{
    if (gp_field_uint(body, "truncate_prompt_tokens", 1, GP_LIMIT_CONTEXT, &asked->keep_tokens, r))
        return GP_EINVAL;
    if (asked->keep_tokens > 0 && asked->echo)
        return gp_refuse(r, 400, "truncate_prompt_tokens",
                         "truncate_prompt_tokens: an echo of a prompt that was cut has no meaning");
    return GP_OK;
}

/* What llama-server starts from. */
static void init_native(struct gp_asked *asked)
{
    struct gp_sampling *s = &asked->request.sampling;

    s->temperature = 0.8f;
    s->top_k = 40;
    s->top_p = 0.95f;
    s->min_p = 0.05f;
}

int gp_asked_read(const struct gp_api *api, enum gp_dialect dialect, const json_t *body,
                  struct gp_asked *asked, struct gp_refusal *r)
{
    *asked = (struct gp_asked){
        .chat = dialect == GP_DIALECT_CHAT,
        .native = dialect == GP_DIALECT_NATIVE,
        .kv = api->kv,
        .thought_max = -1,
        .prompt_logprobs = -1,
    };
    gp_request_init(&asked->request);
    if (asked->native)
        init_native(asked);
    int rc = refuse_what_is_not_there(body, r);

    if (!rc)
        rc = check_model(api, body, r);
    if (!rc)
        rc = read_salt(body, asked, r);

    if (!rc)
        rc = read_stream(body, asked, r);
    if (!rc)
        rc = read_flags(body, asked, r);
    if (!rc)
        rc = read_cut(body, asked, r);
    if (!rc)
        rc = gp_asked_read_options(api, body, asked, r);
    if (!rc)
        rc = gp_asked_read_kv(body, asked, r);
    if (!rc)
        rc = asked->chat ? read_chat(api, body, asked, r) : read_prompts(api, body, asked, r);
    if (!rc && asked->prompt_count * asked->request.n > GP_LIMIT_ANSWERS)
        rc = gp_refuse(r, 400, "n", "n: %u prompts of %u answers are more than %u",
                       asked->prompt_count, asked->request.n, GP_LIMIT_ANSWERS);
    if (!rc)
        rc = gp_asked_read_shape(api, body, asked, r);
    if (rc)
        gp_asked_free(asked);
    return rc;
}

void gp_asked_free(struct gp_asked *asked)
{
    for (uint32_t i = 0; i < asked->prompt_count; i++) {
        gp_mem_free(asked->prompts[i].ids);
        gp_mem_free(asked->prompts[i].text);
    }
    gp_mem_free(asked->prompts);
    gp_mem_free(asked->bias);
    gp_mem_free(asked->cache_salt);
    gp_stop_set_free(&asked->stops);
    gp_guide_close(asked->guide);
    *asked = (struct gp_asked){0};
}
