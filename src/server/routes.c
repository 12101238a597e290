/* What there is to ask for. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "server/answer.h"
#include "server/fields.h"
#include "server/server_internal.h"

/* ---- answers from the engine ---- */

static void generate(const struct gp_api *api, enum gp_dialect dialect, const json_t *body,
                     struct gp_exchange *ex)
{
    struct gp_refusal refusal;
    struct gp_asked asked;

    if (gp_asked_read(api, dialect, body, &asked, &refusal)) {
        gp_reply_refuse(ex, &refusal);
        return;
    }
    int rc = gp_job_open(&ex->job, api, &asked, &refusal);

    if (rc)
        gp_asked_free(&asked);
    else if (!atomic_load(&ex->gone))
        rc = gp_job_submit(ex->job, &refusal);
    if (rc)
        gp_reply_refuse(ex, &refusal);
}

static void completions(const struct gp_api *api, const json_t *body, struct gp_exchange *ex)
{
    generate(api, GP_DIALECT_COMPLETION, body, ex);
}

static void chat_completions(const struct gp_api *api, const json_t *body, struct gp_exchange *ex)
{
    generate(api, GP_DIALECT_CHAT, body, ex);
}

static void native_completion(const struct gp_api *api, const json_t *body, struct gp_exchange *ex)
{
    generate(api, GP_DIALECT_NATIVE, body, ex);
}

/* ---- text and tokens ---- */

/* Ids of what a body holds: messages, or a text under llama-server's name or vLLM's.  Theirs differ
 * in whether specials are put in front when nobody says. */
static int read_tokens(const struct gp_api *api, const json_t *body, int32_t **ids, uint32_t *count,
                       struct gp_refusal *r)
{
    const json_t *prompt = gp_field(body, "prompt"), *content = gp_field(body, "content");
    const json_t *text = prompt ? prompt : content;
    bool add_special = prompt != NULL, parse_special = true;
    const char *name = prompt ? "prompt" : "content";
    const char *wrong = prompt && !json_is_string(prompt)     ? "prompt"
                        : content && !json_is_string(content) ? "content"
                                                              : NULL;
    struct gp_error err;

    if (gp_field_bool(body, "add_special", &add_special, r) ||
        gp_field_bool(body, "add_special_tokens", &add_special, r) ||
        gp_field_bool(body, "parse_special", &parse_special, r))
        return GP_EINVAL;
    if (wrong)
        return gp_refuse(r, 400, wrong, "%s: must be a string", wrong);
    if (gp_field(body, "messages"))
        return gp_chat_render(api, body, ids, count, NULL, NULL, r);
    if (!text)
        return gp_refuse(r, 400, "prompt", "prompt: missing");
    if (gp_model_tokenize(api->model, json_string_value(text), json_string_length(text),
                          add_special, parse_special, ids, count, &err))
        return gp_refuse(r, 500, name, "%s", err.message);
    return GP_OK;
}

static void tokenize(const struct gp_api *api, const json_t *body, struct gp_exchange *ex)
{
    bool pieces = false, strings = false;
    struct gp_refusal refusal;
    uint32_t count = 0;
    int32_t *ids;

    if (gp_field_bool(body, "with_pieces", &pieces, &refusal) ||
        gp_field_bool(body, "return_token_strs", &strings, &refusal) ||
        read_tokens(api, body, &ids, &count, &refusal)) {
        gp_reply_refuse(ex, &refusal);
        return;
    }
    json_t *tokens = json_array(), *words = strings ? json_array() : NULL;

    for (uint32_t i = 0; i < count; i++) {
        if (pieces)
            json_array_append_new(tokens, json_pack("{s:i, s:o}", "id", (int)ids[i], "piece",
                                                    gp_answer_token(api, ids[i])));
        else
            json_array_append_new(tokens, json_integer(ids[i]));
        if (words)
            json_array_append_new(words, gp_answer_token(api, ids[i]));
    }
    json_t *json = json_pack("{s:o, s:i, s:i}", "tokens", tokens, "count", (int)count,
                             "max_model_len", (int)api->engine_info.context);

    if (json && words)
        json_object_set_new(json, "token_strs", words);
    gp_free(ids);
    gp_reply_json(ex, 200, json);
}

static void detokenize(const struct gp_api *api, const json_t *body, struct gp_exchange *ex)
{
    struct gp_refusal refusal;
    struct gp_error err;
    uint32_t count;
    int32_t *ids;
    size_t length;
    char *text;

    if (gp_field_ids(gp_field(body, "tokens"), "tokens", api->vocab, GP_LIMIT_CONTEXT, &ids, &count,
                     &refusal)) {
        gp_reply_refuse(ex, &refusal);
        return;
    }
    int rc = gp_model_detokenize(api->model, ids, count, true, &text, &length, &err);

    gp_mem_free(ids);
    if (rc) {
        (void)gp_refuse(&refusal, 500, "tokens", "%s", err.message);
        gp_reply_refuse(ex, &refusal);
        return;
    }
    /* Ids may spell half a character. */
    json_t *string = gp_answer_bytes(text, length);

    gp_free(text);
    gp_reply_json(ex, 200, json_pack("{s:O, s:o}", "prompt", string, "content", string));
}

static void apply_template(const struct gp_api *api, const json_t *body, struct gp_exchange *ex)
{
    struct gp_refusal refusal;
    size_t length;
    char *text;

    if (gp_chat_render(api, body, NULL, NULL, &text, &length, &refusal)) {
        gp_reply_refuse(ex, &refusal);
        return;
    }
    json_t *json = json_pack("{s:o}", "prompt", gp_answer_bytes(text, length));

    gp_free(text);
    gp_reply_json(ex, 200, json);
}

/* ---- the table ---- */

static const struct gp_route routes[] = {
    {.method = "GET", .path = "/health", .open = true, .loading = true, .now = gp_watch_health},
    {.method = "GET", .path = "/v1/health", .open = true, .loading = true, .now = gp_watch_health},
    {.method = "GET", .path = "/v1/models", .now = gp_watch_models},
    {.method = "GET", .path = "/v1/models/*", .now = gp_watch_models},
    {.method = "POST", .path = "/v1/completions", .prepare = completions},
    {.method = "POST", .path = "/v1/chat/completions", .prepare = chat_completions},
    {.method = "POST", .path = "/completion", .prepare = native_completion},
    {.method = "POST", .path = "/completions", .prepare = native_completion},
    {.method = "POST", .path = "/chat/completions", .prepare = chat_completions},
    {.method = "POST", .path = "/tokenize", .prepare = tokenize},
    {.method = "POST", .path = "/detokenize", .prepare = detokenize},
    {.method = "POST", .path = "/apply-template", .prepare = apply_template},
    {.method = "GET", .path = "/metrics", .now = gp_watch_metrics},
    {.method = "GET", .path = "/props", .now = gp_watch_props},
    {.method = "GET", .path = "/slots", .now = gp_memory_slots},
    {.method = "GET", .path = "/tokenizer_info", .now = gp_watch_tokenizer},
    {.method = "GET", .path = "/v1/kv", .now = gp_memory_kv},
    {.method = "GET", .path = "/v1/kv/events", .now = gp_memory_watch},
    /* The page holds nothing that is secret: it asks for the key itself. */
    {.method = "GET", .path = "/", .open = true, .loading = true, .now = gp_page_send},
    {.method = "GET", .path = "/page.css", .open = true, .loading = true, .now = gp_page_send},
    {.method = "GET", .path = "/page.js", .open = true, .loading = true, .now = gp_page_send},
};

static bool is_path(const char *pattern, const char *path)
{
    size_t length = strcspn(pattern, "*");

    return pattern[length] ? strncmp(pattern, path, length) == 0 && path[length]
                           : strcmp(pattern, path) == 0;
}

const struct gp_route *gp_route_find(const char *method, const char *path, const char **allow)
{
    *allow = NULL;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        bool get = strcmp(routes[i].method, "GET") == 0;

        if (!is_path(routes[i].path, path))
            continue;
        if (strcmp(routes[i].method, method) == 0 || (get && strcmp(method, "HEAD") == 0))
            return &routes[i];
        *allow = get ? "GET, HEAD" : routes[i].method;
    }
    return NULL;
}
