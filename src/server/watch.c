/* How the server is, and what it serves. */
#include <string.h>

#include "server/answer.h"
#include "server/server_internal.h"

void gp_watch_health(struct gp_server *server, struct gp_exchange *ex)
{
    struct gp_refusal refusal;

    if (server->ready && !server->draining) {
        gp_reply_json(ex, 200, json_pack("{s:s}", "status", "ok"));
        return;
    }
    (void)gp_refuse(&refusal, 503, NULL, "%s",
                    server->draining ? "the server is stopping" : "Loading model");
    gp_reply_refuse(ex, &refusal);
}

static json_t *model_json(const struct gp_api *api)
{
    const struct gp_model_info *m = &api->model_info;

    return json_pack("{s:s, s:s, s:I, s:s, s:i, s:{s:i, s:I, s:I, s:i, s:i}}", "id", api->name,
                     "object", "model", "created", (json_int_t)api->started, "owned_by", "growpage",
                     "max_model_len", (int)api->engine_info.context, "meta", "n_ctx_train",
                     (int)m->context_max, "n_params", (json_int_t)m->parameter_count, "size",
                     (json_int_t)m->file_bytes, "n_vocab", (int)m->vocab_count, "n_embd",
                     (int)m->embed_dim);
}

void gp_watch_models(struct gp_server *server, struct gp_exchange *ex)
{
    static const char prefix[] = "/v1/models/";
    struct gp_refusal refusal;
    const char *id = ex->path + sizeof prefix - 1;

    if (strncmp(ex->path, prefix, sizeof prefix - 1) != 0) {
        gp_reply_json(
            ex, 200, json_pack("{s:s, s:[o]}", "object", "list", "data", model_json(&server->api)));
    } else if (strcmp(id, server->api.name) == 0) {
        gp_reply_json(ex, 200, model_json(&server->api));
    } else {
        (void)gp_refuse(&refusal, 404, "model", "model: %.100s: not served here", id);
        gp_reply_refuse(ex, &refusal);
    }
}

void gp_watch_metrics(struct gp_server *server, struct gp_exchange *ex)
{
    ex->reply.status = 200;
    ex->reply.type = "text/plain; version=0.0.4; charset=utf-8";
    gp_metrics_print(&server->metrics, &server->api, &ex->reply.body);
}

static json_t *settings_json(const struct gp_api *api)
{
    char policy[64];

    gp_policy_format(&api->kv, policy);
    return json_pack("{s:f, s:f, s:i, s:f, s:i, s:{s:s}}", "temperature", 1.0, "top_p", 1.0,
                     "top_k", 0, "min_p", 0.0, "n_ctx", (int)api->engine_info.context, "kv",
                     "policy", policy);
}

/* json_pack would take no NULL for a string of its own. */
static json_t *template_json(const struct gp_api *api)
{
    const char *text = gp_model_template(api->model);

    return text ? json_string(text) : json_null();
}

void gp_watch_props(struct gp_server *server, struct gp_exchange *ex)
{
    const struct gp_api *api = &server->api;

    gp_reply_json(ex, 200,
                  json_pack("{s:o, s:i, s:s, s:s, s:s, s:o, s:o, s:o, s:s+}",
                            "default_generation_settings", settings_json(api), "total_slots",
                            (int)api->engine_info.max_seqs, "model_alias", api->name, "model_name",
                            api->model_info.name, "model_path", server->options.model_path,
                            "chat_template", template_json(api), "bos_token",
                            gp_answer_token(api, api->model_info.bos), "eos_token",
                            gp_answer_token(api, api->model_info.eos), "build_info", "growpage ",
                            gp_version()));
}

/* What lm-evaluation-harness wants to know before it asks us to tokenize for it. */
void gp_watch_tokenizer(struct gp_server *server, struct gp_exchange *ex)
{
    const struct gp_api *api = &server->api;

    gp_reply_json(ex, 200,
                  json_pack("{s:o, s:o, s:n, s:o, s:s}", "eos_token",
                            gp_answer_token(api, api->model_info.eos), "bos_token",
                            gp_answer_token(api, api->model_info.bos), "pad_token", "chat_template",
                            template_json(api), "tokenizer", api->model_info.tokenizer));
}
