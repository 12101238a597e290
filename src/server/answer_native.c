/* llama-server's own API: one object an answer, whole or in pieces. */
#include <string.h>

#include "server/answer_internal.h"

static const char *stop_type(const struct gp_choice *choice)
{
    if (choice->stopper.hit != GP_STOP_NONE)
        return "word";
    return choice->finish == GP_FINISH_STOP ? "eos" : "limit";
}

static bool ended_badly(const struct gp_job *job, const struct gp_choice *choice)
{
    return job->failed || choice->finish == GP_FINISH_CANCELLED ||
           choice->finish == GP_FINISH_ERROR;
}

/* What pieces and the whole have alike: the text and the tokens that were not shown yet. */
static json_t *piece(struct gp_job *job, uint32_t number, bool end)
{
    struct gp_choice *choice = &job->choices[number];
    const struct gp_buffer *text = &choice->content;
    json_t *json = json_pack(
        "{s:i, s:o, s:o, s:i, s:b, s:i, s:i}", "index", (int)number, "content",
        json_stringn(text->length > 0 ? text->bytes : "", text->length), "tokens",
        job->asked.return_ids ? gp_answer_ids(job, choice, choice->ids_shown) : json_array(),
        "id_slot", -1, "stop", end, "tokens_predicted",
        job->asked.nothing ? 0 : (int)choice->token_count, "tokens_evaluated",
        (int)job->asked.prompts[choice->run].count);

    choice->ids_shown = choice->token_count;
    choice->has_line |= text->length > 0 && memchr(text->bytes, '\n', text->length);
    if (json && choice->entry_shown < choice->entry_ready)
        json_object_set_new(
            json, "completion_probabilities",
            gp_answer_logprobs(job, choice, choice->entry_shown, choice->entry_ready, false));
    choice->entry_shown = choice->entry_ready;
    return json;
}

static void add_end(const struct gp_job *job, const struct gp_choice *choice, json_t *json)
{
    const struct gp_prompt *prompt = &job->asked.prompts[choice->run];
    const struct gp_stop_set *stops = &job->asked.stops;
    uint32_t hit = choice->stopper.hit;
    struct gp_request_stats s = {0};

    gp_job_stats(job, choice, &s);
    json_object_set_new(json, "model", json_string(job->api->name));
    json_object_set_new(json, "generation_settings", gp_answer_params(&job->asked));
    json_object_set_new(json, "prompt", gp_answer_bytes(prompt->text, prompt->text_length));
    json_object_set_new(json, "truncated", json_false());
    json_object_set_new(json, "has_new_line", json_boolean(choice->has_line));
    json_object_set_new(json, "stop_type", json_string(stop_type(choice)));
    json_object_set_new(json, "stopping_word",
                        hit == GP_STOP_NONE
                            ? json_string("")
                            : json_stringn(stops->items[hit].text, stops->items[hit].length));
    json_object_set_new(json, "tokens_cached", json_integer(s.slots));
    json_object_set_new(json, "timings", gp_answer_timings(job, choice));
    if (job->asked.kv_stats)
        json_object_set_new(json, "kv", gp_answer_kv(job, choice));
}

json_t *gp_native_whole(struct gp_job *job, struct gp_refusal *r)
{
    json_t *all = json_array();

    for (uint32_t i = 0; i < job->choice_count; i++) {
        if (ended_badly(job, &job->choices[i])) {
            json_decref(all);
            (void)gp_answer_refuse_end(job, &job->choices[i], r);
            return NULL;
        }
        json_t *json = piece(job, i, true);

        add_end(job, &job->choices[i], json);
        json_array_append_new(all, json);
    }
    if (job->choice_count > 1)
        return all;
    json_t *one = json_incref(json_array_get(all, 0));

    json_decref(all);
    return one;
}

static void send(struct gp_job *job, uint32_t number, bool end, struct gp_buffer *out)
{
    struct gp_choice *choice = &job->choices[number];
    json_t *json = piece(job, number, end);

    if (end)
        add_end(job, choice, json);
    else if (job->asked.timings)
        json_object_set_new(json, "timings", gp_answer_timings(job, choice));
    gp_answer_event(json, out);
    json_decref(json);
    gp_buffer_clear(&choice->content);
    choice->closed = end;
}

/* As it is there, too: the last text has a piece of its own, before the end's; and no [DONE]. */
void gp_native_stream(struct gp_job *job, struct gp_buffer *out)
{
    struct gp_refusal refusal;

    for (uint32_t i = 0; i < job->choice_count && !job->error_shown; i++) {
        struct gp_choice *choice = &job->choices[i];

        if (ended_badly(job, choice)) {
            (void)gp_answer_refuse_end(job, choice, &refusal);
            gp_answer_stream_error(&refusal, out);
            job->error_shown = true;
            return;
        }
        if (choice->content.length > 0 || choice->entry_shown < choice->entry_ready)
            send(job, i, false, out);
        if (choice->done && !choice->closed)
            send(job, i, true, out);
    }
}
