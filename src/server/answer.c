#include "server/answer.h"

#include <stdlib.h>
#include <string.h>

#include "server/answer_internal.h"

/* Floats survive nine digits. */
#define FLAGS (JSON_COMPACT | JSON_REAL_PRECISION(9))

char *gp_answer_dump(const json_t *object)
{
    return object ? json_dumps(object, FLAGS) : NULL;
}

void gp_answer_event(const json_t *object, struct gp_buffer *out)
{
    char *text = gp_answer_dump(object);

    if (!text) {
        out->failed = true;
        return;
    }
    gp_buffer_add(out, "data: ", 6);
    gp_buffer_add(out, text, strlen(text));
    gp_buffer_add(out, "\n\n", 2);
    free(text);
}

/* ---- parts ---- */

/* NULL: it ended badly. */
static const char *finish_reason(const struct gp_choice *choice)
{
    switch (choice->finish) {
    case GP_FINISH_STOP:
        return choice->calls.count > 0 ? "tool_calls" : "stop";
    case GP_FINISH_LENGTH:
    case GP_FINISH_CAPACITY:
        return "length";
    case GP_FINISH_NONE:
    case GP_FINISH_CANCELLED:
    case GP_FINISH_ERROR:
        break;
    }
    return NULL;
}

static json_t *stop_reason(const struct gp_job *job, const struct gp_choice *choice)
{
    const struct gp_stop_set *stops = &job->asked.stops;
    uint32_t hit = choice->stopper.hit;

    if (hit != GP_STOP_NONE)
        return json_stringn(stops->items[hit].text, stops->items[hit].length);
    if (choice->end_id >= 0)
        return json_integer(choice->end_id);
    return choice->finish == GP_FINISH_CAPACITY ? json_string("kv_capacity") : json_null();
}

int gp_answer_refuse_end(const struct gp_job *job, const struct gp_choice *choice,
                         struct gp_refusal *r)
{
    if (job->failed)
        return gp_refuse(r, 500, NULL, "answer: out of memory");
    if (choice->finish == GP_FINISH_ERROR)
        return gp_refuse(r, 500, NULL,
                         "answer: ended after %u tokens: the model gave no number for any token "
                         "that is allowed",
                         choice->token_count);
    return gp_refuse(r, 503, NULL, "answer: ended after %u tokens: the server is stopping",
                     choice->token_count);
}

static json_t *usage_json(const struct gp_job *job)
{
    struct gp_usage usage = gp_job_usage(job);

    return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", (json_int_t)usage.prompt,
                     "completion_tokens", (json_int_t)usage.completion, "total_tokens",
                     (json_int_t)(usage.prompt + usage.completion), "prompt_tokens_details",
                     "cached_tokens", (json_int_t)usage.cached);
}

static double rate(double count, uint64_t ns)
{
    return ns > 0 ? count * 1e9 / (double)ns : 0;
}

json_t *gp_answer_timings(const struct gp_job *job, const struct gp_choice *choice)
{
    struct gp_request_stats s;

    if (!gp_job_stats(job, choice, &s))
        return NULL;
    double run = s.prompt_tokens - s.cached_tokens;
    double decoded = s.output_tokens > 0 ? s.output_tokens - 1 : 0;

    return json_pack("{s:i, s:i, s:f, s:f, s:f, s:i, s:f, s:f, s:f}", "cache_n",
                     (int)s.cached_tokens, "prompt_n", (int)run, "prompt_ms",
                     (double)s.prefill_ns / 1e6, "prompt_per_token_ms",
                     run > 0 ? (double)s.prefill_ns / 1e6 / run : 0.0, "prompt_per_second",
                     rate(run, s.prefill_ns), "predicted_n", (int)s.output_tokens, "predicted_ms",
                     (double)s.decode_ns / 1e6, "predicted_per_token_ms", s.tpot_ms,
                     "predicted_per_second", rate(decoded, s.decode_ns));
}

/* Of an answer that is one. */
static json_t *timings_json(const struct gp_job *job)
{
    return job->choice_count == 1 ? gp_answer_timings(job, &job->choices[0]) : NULL;
}

static json_t *frame(const struct gp_job *job, const char *object, json_t *choices)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:s+, s:o}", "id", job->id, "object", object, "created",
                     (json_int_t)job->created, "model", job->api->name, "system_fingerprint",
                     "growpage-", gp_version(), "choices", choices);
}

static json_t *text_json(const struct gp_buffer *text)
{
    return json_stringn(text->length > 0 ? text->bytes : "", text->length);
}

/* ---- calls ---- */

/* Arguments from byte `from` on; head: with all that is told once. */
static json_t *call_json(const struct gp_call *call, uint32_t index, bool head, size_t from)
{
    json_t *function =
        json_pack("{s:o}", "arguments",
                  json_stringn(call->arguments.bytes ? call->arguments.bytes + from : "",
                               call->arguments.length - from));
    json_t *json = json_pack("{s:i, s:o}", "index", (int)index, "function", function);

    if (json && head) {
        json_object_set_new(json, "id", json_string(call->id));
        json_object_set_new(json, "type", json_string("function"));
        json_object_set_new(function, "name", json_string(call->name));
    }
    return json;
}

static json_t *calls_json(const struct gp_choice *choice)
{
    json_t *all = json_array();

    for (uint32_t i = 0; i < choice->calls.count; i++) {
        json_t *call = call_json(&choice->calls.items[i], i, true, 0);

        json_object_del(call, "index");
        json_array_append_new(all, call);
    }
    return all;
}

/* What is new of the calls; NULL: nothing. */
static json_t *new_calls(struct gp_choice *choice)
{
    json_t *all = NULL;

    for (uint32_t i = 0; i < choice->calls.count; i++) {
        struct gp_call *call = &choice->calls.items[i];

        if (call->opened && call->shown == call->arguments.length)
            continue;
        all = all ? all : json_array();
        json_array_append_new(all, call_json(call, i, !call->opened, call->shown));
        call->opened = true;
        call->shown = call->arguments.length;
    }
    return all;
}

/* ---- whole ---- */

static json_t *message_json(const struct gp_choice *choice)
{
    bool called = choice->calls.count > 0;
    json_t *content =
        called && choice->content.length == 0 ? json_null() : text_json(&choice->content);
    json_t *message = json_pack("{s:s, s:o}", "role", "assistant", "content", content);

    if (message && called)
        json_object_set_new(message, "tool_calls", calls_json(choice));
    if (message && choice->reasoning.length > 0) {
        json_object_set_new(message, "reasoning_content", text_json(&choice->reasoning));
        json_object_set_new(message, "reasoning", text_json(&choice->reasoning));
    }
    return message;
}

/* With echo the prompt stands in front. */
static json_t *echoed_text(const struct gp_job *job, const struct gp_choice *choice)
{
    const struct gp_prompt *prompt = &job->asked.prompts[choice->run];
    struct gp_buffer text = {0};

    if (!job->asked.echo)
        return text_json(&choice->content);
    gp_buffer_add(&text, prompt->text, prompt->text_length);
    gp_buffer_add(&text, choice->content.bytes, choice->content.length);
    json_t *json = text.failed ? NULL : text_json(&text);

    /* A prompt of ids may be no text at all. */
    if (!json && !text.failed)
        json = gp_answer_bytes(text.bytes, text.length);
    gp_buffer_free(&text);
    return json;
}

static json_t *prompt_ids(const struct gp_job *job, const struct gp_choice *choice)
{
    const struct gp_prompt *prompt = &job->asked.prompts[choice->run];
    json_t *ids = json_array();

    for (uint32_t i = 0; i < prompt->count; i++)
        json_array_append_new(ids, json_integer(prompt->ids[i]));
    return ids;
}

json_t *gp_answer_ids(const struct gp_job *job, const struct gp_choice *choice, uint32_t from)
{
    uint64_t id = gp_job_run_id(job, choice->run);
    json_t *ids = json_array();
    struct gp_token tokens[64];

    /* No further than its text has come. */
    while (from < choice->token_count) {
        uint32_t left = choice->token_count - from;
        uint32_t count = gp_engine_read(job->api->engine, id, choice->index, from, tokens,
                                        left < 64 ? left : 64, NULL);

        for (uint32_t i = 0; i < count; i++)
            json_array_append_new(ids, json_integer(tokens[i].id));
        if (count == 0)
            break;
        from += count;
    }
    return ids;
}

static json_t *choice_json(const struct gp_job *job, uint32_t number)
{
    const struct gp_choice *choice = &job->choices[number];
    json_t *logprobs = json_null();

    if (job->asked.request.logprobs >= 0)
        logprobs = gp_answer_logprobs(job, choice, 0, choice->entry_ready, job->asked.echo);
    json_t *body = job->asked.chat ? message_json(choice) : echoed_text(job, choice);
    json_t *json =
        json_pack("{s:i, s:o, s:o, s:s, s:o}", "index", (int)number,
                  job->asked.chat ? "message" : "text", body, "logprobs", logprobs, "finish_reason",
                  finish_reason(choice), "stop_reason", stop_reason(job, choice));

    if (json && job->asked.kv_stats)
        json_object_set_new(json, "kv", gp_answer_kv(job, choice));
    if (json && gp_job_thought_cut(job, choice))
        json_object_set_new(json, "reasoning_truncated", json_true());
    if (json && job->asked.prompt_logprobs >= 0)
        json_object_set_new(json, "prompt_logprobs", gp_answer_prompt_logprobs(job, choice));
    if (json && job->asked.return_ids) {
        json_object_set_new(json, "prompt_token_ids", prompt_ids(job, choice));
        json_object_set_new(json, "token_ids", gp_answer_ids(job, choice, 0));
    }
    return json;
}

json_t *gp_answer_whole(struct gp_job *job, struct gp_refusal *r)
{
    if (job->asked.native)
        return gp_native_whole(job, r);
    json_t *choices = json_array();

    for (uint32_t i = 0; i < job->choice_count; i++) {
        if (job->failed || !finish_reason(&job->choices[i])) {
            json_decref(choices);
            (void)gp_answer_refuse_end(job, &job->choices[i], r);
            return NULL;
        }
        if (json_array_append_new(choices, choice_json(job, i)))
            job->failed = true;
    }
    json_t *whole = frame(job, job->asked.chat ? "chat.completion" : "text_completion", choices);
    json_t *timings = timings_json(job);

    if (timings)
        json_object_set_new(whole, "timings", timings);
    if (!whole || job->failed || json_object_set_new(whole, "usage", usage_json(job))) {
        json_decref(whole);
        (void)gp_refuse(r, 500, NULL, "answer: out of memory");
        return NULL;
    }
    return whole;
}

/* ---- stream ---- */

static void send(struct gp_job *job, json_t *choice, struct gp_buffer *out)
{
    const char *object = job->asked.chat ? "chat.completion.chunk" : "text_completion";
    json_t *choices = choice ? json_pack("[o]", choice) : NULL;
    json_t *chunk = choices ? frame(job, object, choices) : NULL;

    if (chunk && job->asked.continuous_usage)
        json_object_set_new(chunk, "usage", usage_json(job));
    gp_answer_event(chunk, out);
    json_decref(chunk);
}

/* One chunk of a choice; body is its delta or its text, and is given away. */
static json_t *piece(const struct gp_job *job, uint32_t number, json_t *body, json_t *logprobs,
                     const char *reason)
{
    return json_pack("{s:i, s:o, s:o, s:s?}", "index", (int)number,
                     job->asked.chat ? "delta" : "text", body, "logprobs",
                     logprobs ? logprobs : json_null(), "finish_reason", reason);
}

static void open_choice(struct gp_job *job, uint32_t number, struct gp_buffer *out)
{
    struct gp_choice *choice = &job->choices[number];
    json_t *body, *logprobs = NULL;

    choice->opened = true;
    if (job->asked.chat) {
        body = json_pack("{s:s, s:s}", "role", "assistant", "content", "");
    } else if (job->asked.echo) {
        body = echoed_text(job, &(struct gp_choice){.run = choice->run});
        if (job->asked.request.logprobs >= 0)
            logprobs = gp_answer_logprobs(job, choice, 0, 0, true);
    } else {
        return;
    }
    send(job, piece(job, number, body, logprobs, NULL), out);
}

static json_t *delta_json(const struct gp_choice *choice, json_t *calls)
{
    json_t *delta = json_object();

    if (calls)
        json_object_set_new(delta, "tool_calls", calls);
    if (choice->reasoning.length > 0) {
        json_object_set_new(delta, "reasoning_content", text_json(&choice->reasoning));
        json_object_set_new(delta, "reasoning", text_json(&choice->reasoning));
    }
    if (choice->content.length > 0 || (choice->reasoning.length == 0 && !calls))
        json_object_set_new(delta, "content", text_json(&choice->content));
    return delta;
}

static void send_text(struct gp_job *job, uint32_t number, struct gp_buffer *out)
{
    struct gp_choice *choice = &job->choices[number];
    bool entries = choice->done && choice->entry_shown < choice->entry_ready;
    json_t *logprobs = NULL, *calls = new_calls(choice);

    if (choice->content.length == 0 && choice->reasoning.length == 0 && !entries && !calls)
        return;
    if (choice->entry_shown < choice->entry_ready)
        logprobs = gp_answer_logprobs(job, choice, choice->entry_shown, choice->entry_ready, false);
    json_t *body = job->asked.chat ? delta_json(choice, calls) : text_json(&choice->content);

    choice->entry_shown = choice->entry_ready;
    json_t *chunk = piece(job, number, body, logprobs, NULL);

    if (job->asked.return_ids) {
        json_object_set_new(chunk, "token_ids", gp_answer_ids(job, choice, choice->ids_shown));
        choice->ids_shown = choice->token_count;
    }
    send(job, chunk, out);
    gp_buffer_clear(&choice->content);
    gp_buffer_clear(&choice->reasoning);
}

static void close_choice(struct gp_job *job, uint32_t number, struct gp_buffer *out)
{
    struct gp_choice *choice = &job->choices[number];
    json_t *body = job->asked.chat ? json_object() : json_string("");
    json_t *json = piece(job, number, body, NULL, finish_reason(choice));

    if (json) {
        json_object_set_new(json, "stop_reason", stop_reason(job, choice));
        if (job->asked.kv_stats)
            json_object_set_new(json, "kv", gp_answer_kv(job, choice));
        if (gp_job_thought_cut(job, choice))
            json_object_set_new(json, "reasoning_truncated", json_true());
    }
    choice->closed = true;
    send(job, json, out);
}

static void end_stream(struct gp_job *job, struct gp_buffer *out)
{
    if (job->asked.include_usage) {
        json_t *chunk =
            frame(job, job->asked.chat ? "chat.completion.chunk" : "text_completion", json_array());
        json_t *timings = timings_json(job);

        if (chunk)
            json_object_set_new(chunk, "usage", usage_json(job));
        if (chunk && timings)
            json_object_set(chunk, "timings", timings);
        json_decref(timings);
        gp_answer_event(chunk, out);
        json_decref(chunk);
    }
    gp_buffer_print(out, "data: [DONE]\n\n");
}

void gp_answer_stream(struct gp_job *job, struct gp_buffer *out)
{
    struct gp_refusal refusal;

    if (job->asked.native) {
        gp_native_stream(job, out);
        return;
    }

    for (uint32_t i = 0; i < job->choice_count && !job->error_shown; i++) {
        struct gp_choice *choice = &job->choices[i];

        if (job->failed || (choice->done && !finish_reason(choice))) {
            (void)gp_answer_refuse_end(job, choice, &refusal);
            gp_answer_stream_error(&refusal, out);
            job->error_shown = true;
            return;
        }
        /* The first chunk comes with the first token: who measures the time to it looks there. */
        if (!choice->opened && choice->token_count > 0)
            open_choice(job, i, out);
        send_text(job, i, out);
        if (choice->done && !choice->closed)
            close_choice(job, i, out);
    }
    if (gp_job_done(job) && !job->error_shown)
        end_stream(job, out);
}

void gp_answer_stream_error(const struct gp_refusal *refusal, struct gp_buffer *out)
{
    json_t *json = gp_refusal_json(refusal);

    gp_answer_event(json, out);
    json_decref(json);
    gp_buffer_print(out, "data: [DONE]\n\n");
}
