/* What the memory holds, for people and programs: the pool, the requests, and what happens to their
 * pages as it happens.
 *
 * Who listens to /v1/kv/events gets the whole picture first and then, whenever something changed,
 * the whole picture again, with those events that nobody was told of yet: it needs no memory of
 * its own, and a picture that was skipped for a slow reader is no loss. */
#include <string.h>

#include "server/answer.h"
#include "server/limits.h"
#include "server/server_internal.h"

/* The newest events are enough for who looks again and again. */
#define EVENTS_SHOWN 32u

/* ---- requests ---- */

/* Pages that a request may hold without asking for more; 0: as many as it likes. */
static uint32_t budget_pages(const struct gp_job *job, const struct gp_request_stats *s)
{
    const struct gp_kv_options *kv = &job->asked.kv;
    uint32_t page_tokens = job->api->engine_info.page_tokens;

    if (kv->policy == GP_POLICY_FULL)
        return 0;
    if (kv->policy == GP_POLICY_FIXED || kv->policy >= GP_POLICY_ZIPAGE)
        return (kv->budget_tokens + page_tokens - 1) / page_tokens;
    uint32_t pages = s->pages > kv->initial_pages ? s->pages : kv->initial_pages;

    return kv->max_pages > 0 && kv->max_pages < pages ? kv->max_pages : pages;
}

static json_t *choice_kv(const struct gp_job *job, const struct gp_choice *choice,
                         const struct gp_request_stats *s)
{
    uint32_t budget = budget_pages(job, s);

    return json_pack("{s:i, s:o, s:i, s:i, s:i, s:i, s:i}", "pages", (int)s->pages, "budget_pages",
                     budget > 0 ? json_integer(budget) : json_null(), "pages_peak",
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
    return json_pack("{s:s, s:i, s:i, s:b, s:o, s:{s:i, s:i, s:i}, s:o}", "id_task", job->id,
                     "choice", (int)number, "n_ctx", (int)job->api->engine_info.context,
                     "is_processing", choice->finish == GP_FINISH_NONE, "params",
                     gp_answer_params(&job->asked), "next_token", "n_decoded",
                     (int)choice->token_count, "n_prompt",
                     (int)job->asked.prompts[choice->run].count, "max_tokens",
                     (int)job->asked.request.max_tokens, "kv", choice_kv(job, choice, &s));
}

/* Numbered, as those who know slots expect it. */
void gp_memory_slots(struct gp_server *server, struct gp_exchange *ex)
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
    static const char *const names[] = {"policy", "start",    "initial",   "pressure",
                                        "capped", "fallback", "overridden"};

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

static json_t *last_delta(const struct gp_job *job, const struct gp_choice *choice, uint32_t count)
{
    uint64_t run = gp_job_run_id(job, choice->run);
    struct gp_boundary_event event;

    while (count-- > 0)
        if (gp_engine_boundary(job->api->engine, run, choice->index, count, &event) &&
            event.has_delta)
            return json_real(event.delta);
    return json_null();
}

static const char *state_name(const struct gp_choice *choice, const struct gp_request_stats *s)
{
    if (choice->finish != GP_FINISH_NONE)
        return "ended";
    return s->pages > 0 ? "running" : "waiting";
}

/* news: of its events those that nobody was told of, and they count as told then. */
static json_t *request_json(const struct gp_job *job, uint32_t number, bool news)
{
    struct gp_choice *choice = &job->choices[number];
    uint64_t run = gp_job_run_id(job, choice->run);
    json_t *json = slot_json(job, number), *events = json_array();
    struct gp_request_stats s = {0};
    struct gp_boundary_event event;
    char policy[64];

    gp_job_stats(job, choice, &s);
    uint32_t newest = s.boundary_count > EVENTS_SHOWN ? s.boundary_count - EVENTS_SHOWN : 0;

    for (uint32_t i = news ? choice->events_told : newest; i < s.boundary_count; i++)
        if (gp_engine_boundary(job->api->engine, run, choice->index, i, &event))
            json_array_append_new(events, event_json(&event));
    if (news)
        choice->events_told = s.boundary_count;
    gp_policy_format(&job->asked.kv, policy);
    json_object_set_new(json, "state", json_string(state_name(choice, &s)));
    json_object_set_new(json, "policy", json_string(policy));
    json_object_set_new(json, "delta", last_delta(job, choice, s.boundary_count));
    json_object_set_new(json, "event_count", json_integer(s.boundary_count));
    json_object_set_new(json, "events", events);
    return json;
}

/* ---- the picture ---- */

static json_t *pool_json(const struct gp_engine_info *e, const struct gp_engine_stats *s)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:s}", "page_size", (int)e->page_tokens,
                     "pages", (int)e->page_count, "pages_used", (int)s->pages_used, "pages_free",
                     (int)s->pages_free, "pages_used_max", (int)s->pages_used_max, "bytes",
                     (json_int_t)e->kv_bytes, "token_bytes", (json_int_t)e->kv_token_bytes, "type",
                     e->kv_type);
}

static json_t *counts_json(const struct gp_engine_stats *s)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "grow", (json_int_t)s->grow,
                     "compress", (json_int_t)s->compress, "shrink", (json_int_t)s->shrink, "start",
                     (json_int_t)s->start, "initial", (json_int_t)s->initial, "pressure",
                     (json_int_t)s->pressure, "capped", (json_int_t)s->capped, "fallback",
                     (json_int_t)s->fallback, "preempt", (json_int_t)s->preempt);
}

static json_t *picture(struct gp_server *server, bool news)
{
    json_t *requests = json_array();
    struct gp_engine_stats s;

    gp_engine_stats(server->api.engine, &s);
    for (const struct gp_job *job = server->jobs; job; job = job->next)
        for (uint32_t i = 0; !job->cancelled && i < job->choice_count; i++)
            json_array_append_new(requests, request_json(job, i, news));
    return json_pack("{s:o, s:i, s:i, s:I, s:I, s:o, s:o}", "pool",
                     pool_json(&server->api.engine_info, &s), "running", (int)s.running, "waiting",
                     (int)s.waiting, "prompt_tokens", (json_int_t)s.prompt_tokens, "output_tokens",
                     (json_int_t)s.output_tokens, "counts", counts_json(&s), "requests", requests);
}

void gp_memory_kv(struct gp_server *server, struct gp_exchange *ex)
{
    gp_reply_json(ex, 200, picture(server, false));
}

/* ---- who listens ---- */

static void send_all(struct gp_server *server, const struct gp_buffer *frame)
{
    for (struct gp_exchange *ex = server->exchanges, *next; ex; ex = next) {
        next = ex->next;
        if (!ex->watching || ex->out.length - ex->out_taken > GP_LIMIT_UNSENT_BYTES)
            continue;
        gp_buffer_add(&ex->out, frame->bytes, frame->length);
        if (ex->out.failed)
            gp_http_abandon(ex);
        else
            gp_http_wake(ex);
    }
}

/* Also when nobody listens, for then the events count as told. */
static void tell(struct gp_server *server)
{
    json_t *json = picture(server, true);
    struct gp_buffer frame = {0};

    if (server->ended) {
        json_object_set_new(json, "ended", server->ended);
        server->ended = NULL;
    }
    gp_answer_event(json, &frame);
    json_decref(json);
    if (frame.length != server->told.length ||
        memcmp(frame.bytes, server->told.bytes, frame.length) != 0)
        send_all(server, &frame);
    gp_buffer_free(&server->told);
    server->told = frame;
}

void gp_memory_tell(struct gp_server *server)
{
    if (server->watchers > 0)
        tell(server);
}

void gp_memory_ended(struct gp_server *server, const struct gp_job *job)
{
    if (server->watchers == 0)
        return;
    if (!server->ended)
        server->ended = json_array();
    for (uint32_t i = 0; i < job->choice_count; i++) {
        json_t *json = request_json(job, i, true);

        json_object_set_new(json, "finish", json_string(gp_finish_name(job->choices[i].finish)));
        json_array_append_new(server->ended, json);
    }
}

void gp_memory_watch(struct gp_server *server, struct gp_exchange *ex)
{
    struct gp_refusal refusal;

    if (server->watchers == GP_LIMIT_WATCHERS) {
        (void)gp_refuse(&refusal, 503, NULL, "%u clients listen already", GP_LIMIT_WATCHERS);
        gp_reply_refuse(ex, &refusal);
        return;
    }
    /* What happened until now is in the first picture, so the next one must not tell it again. */
    tell(server);
    json_t *json = picture(server, false);

    gp_answer_event(json, &ex->out);
    json_decref(json);
    ex->phase = GP_PHASE_WORKING;
    ex->streaming = ex->watching = true;
    server->watchers++;
}

void gp_memory_end_watches(struct gp_server *server)
{
    for (struct gp_exchange *ex = server->exchanges, *next; ex; ex = next) {
        next = ex->next;
        if (!ex->watching)
            continue;
        ex->stream_over = true;
        gp_http_wake(ex);
    }
}
