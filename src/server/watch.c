/* How the server is, and what its memory holds. */
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

void gp_watch_props(struct gp_server *server, struct gp_exchange *ex)
{
    const struct gp_api *api = &server->api;

    gp_reply_json(ex, 200,
                  json_pack("{s:o, s:i, s:s, s:s, s:s+, s:b}", "default_generation_settings",
                            settings_json(api), "total_slots", (int)api->engine_info.max_seqs,
                            "model_alias", api->name, "model_name", api->model_info.name,
                            "build_info", "growpage ", gp_version(), "has_chat_template",
                            api->model_info.has_template));
}

/* ---- requests ---- */

static json_t *choice_kv(const struct gp_job *job, const struct gp_choice *choice,
                         const struct gp_request_stats *s)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i}", "pages", (int)s->pages, "pages_peak",
                     (int)s->pages_peak, "tokens_kept", (int)s->slots, "tokens_logical",
                     (int)(job->asked.prompts[choice->run].count + choice->token_count),
                     "cached_prompt_tokens", (int)s->cached_tokens, "preemptions", (int)s->preempt);
}

static json_t *slot_json(const struct gp_job *job, uint32_t number)
{
    const struct gp_choice *choice = &job->choices[number];
    struct gp_request_stats s;

    if (!gp_job_stats(job, choice, &s))
        s = (struct gp_request_stats){0};
    return json_pack("{s:s, s:i, s:i, s:b, s:{s:i, s:i, s:i}, s:o}", "id_task", job->id, "choice",
                     (int)number, "n_ctx", (int)job->api->engine_info.context, "is_processing",
                     choice->finish == GP_FINISH_NONE, "next_token", "n_decoded",
                     (int)choice->token_count, "n_prompt",
                     (int)job->asked.prompts[choice->run].count, "max_tokens",
                     (int)job->asked.request.max_tokens, "kv", choice_kv(job, choice, &s));
}

/* Numbered, as those who know slots expect it. */
void gp_watch_slots(struct gp_server *server, struct gp_exchange *ex)
{
    const char *fail =
        MHD_lookup_connection_value(ex->connection, MHD_GET_ARGUMENT_KIND, "fail_on_no_slot");
    json_t *slots = json_array();
    struct gp_refusal refusal;

    for (const struct gp_job *job = server->jobs; job; job = job->next)
        for (uint32_t i = 0; !job->cancelled && i < job->choice_count; i++) {
            json_t *slot = slot_json(job, i);

            json_object_set_new(slot, "id", json_integer((json_int_t)json_array_size(slots)));
            json_array_append_new(slots, slot);
        }
    if (fail && json_array_size(slots) >= server->api.engine_info.max_seqs) {
        json_decref(slots);
        (void)gp_refuse(&refusal, 503, NULL, "no slot available");
        gp_reply_refuse(ex, &refusal);
        return;
    }
    gp_reply_json(ex, 200, slots);
}

static const char *action_name(enum gp_action action)
{
    static const char *const names[] = {"grow", "compress", "shrink"};

    return names[action];
}

static const char *cause_name(enum gp_cause cause)
{
    static const char *const names[] = {"policy",   "start",  "initial",
                                        "pressure", "capped", "fallback"};

    return names[cause];
}

static json_t *event_json(const struct gp_boundary_event *event)
{
    json_t *json =
        json_pack("{s:i, s:i, s:i, s:s, s:s}", "tokens", (int)event->tokens, "pages_before",
                  (int)event->pages_before, "pages_after", (int)event->pages_after, "action",
                  action_name(event->action), "cause", cause_name(event->cause));

    if (json && event->has_delta) {
        json_object_set_new(json, "delta", json_real(event->delta));
        json_object_set_new(json, "demand_short", json_real(event->demand_short));
        json_object_set_new(json, "demand_long", json_real(event->demand_long));
    }
    return json;
}

/* The newest events are enough for who looks again and again. */
#define EVENTS_SHOWN 32u

static json_t *request_json(const struct gp_job *job, uint32_t number)
{
    const struct gp_choice *choice = &job->choices[number];
    uint64_t run = gp_job_run_id(job, choice->run);
    json_t *json = slot_json(job, number), *events = json_array(), *last = json_null();
    struct gp_request_stats s = {0};
    struct gp_boundary_event event;
    char policy[64];

    gp_job_stats(job, choice, &s);
    uint32_t from = s.boundary_count > EVENTS_SHOWN ? s.boundary_count - EVENTS_SHOWN : 0;

    for (uint32_t i = from; i < s.boundary_count; i++) {
        if (!gp_engine_boundary(job->api->engine, run, choice->index, i, &event))
            continue;
        json_array_append_new(events, event_json(&event));
        if (event.has_delta) {
            json_decref(last);
            last = json_real(event.delta);
        }
    }
    gp_policy_format(&job->asked.kv, policy);
    json_object_set_new(json, "policy", json_string(policy));
    json_object_set_new(json, "delta", last);
    json_object_set_new(json, "event_count", json_integer(s.boundary_count));
    json_object_set_new(json, "events", events);
    return json;
}

void gp_watch_kv(struct gp_server *server, struct gp_exchange *ex)
{
    const struct gp_engine_info *e = &server->api.engine_info;
    json_t *requests = json_array();
    struct gp_engine_stats s;

    gp_engine_stats(server->api.engine, &s);
    for (const struct gp_job *job = server->jobs; job; job = job->next)
        for (uint32_t i = 0; !job->cancelled && i < job->choice_count; i++)
            json_array_append_new(requests, request_json(job, i));
    json_t *pool = json_pack("{s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:s}", "page_size",
                             (int)e->page_tokens, "pages", (int)e->page_count, "pages_used",
                             (int)s.pages_used, "pages_free", (int)s.pages_free, "pages_used_max",
                             (int)s.pages_used_max, "bytes", (json_int_t)e->kv_bytes, "token_bytes",
                             (json_int_t)e->kv_token_bytes, "type", e->kv_type);
    json_t *counts = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "grow", (json_int_t)s.grow, "compress",
        (json_int_t)s.compress, "shrink", (json_int_t)s.shrink, "start", (json_int_t)s.start,
        "initial", (json_int_t)s.initial, "pressure", (json_int_t)s.pressure, "capped",
        (json_int_t)s.capped, "fallback", (json_int_t)s.fallback, "preempt", (json_int_t)s.preempt);

    gp_reply_json(ex, 200,
                  json_pack("{s:o, s:i, s:i, s:o, s:o}", "pool", pool, "running", (int)s.running,
                            "waiting", (int)s.waiting, "counts", counts, "requests", requests));
}
