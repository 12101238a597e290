/* Logprobs in both shapes: the chat's list of objects, and the completions' four arrays. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "server/answer.h"

json_t *gp_answer_bytes(const char *bytes, size_t length)
{
    json_t *text = json_stringn(length > 0 ? bytes : "", length);
    struct gp_buffer spelled = {0};

    if (text)
        return text;
    gp_buffer_print(&spelled, "bytes:");
    for (size_t i = 0; i < length; i++)
        gp_buffer_print(&spelled, "\\x%02x", (unsigned char)bytes[i]);
    text = spelled.failed ? NULL : json_stringn(spelled.bytes, spelled.length);
    gp_buffer_free(&spelled);
    return text;
}

json_t *gp_answer_token(const struct gp_api *api, int32_t id)
{
    json_t *json = NULL;
    size_t length;
    char *text;

    if (id >= 0 && !gp_model_detokenize(api->model, &id, 1, true, &text, &length, NULL)) {
        json = gp_answer_bytes(text, length);
        gp_free(text);
    }
    return json ? json : json_null();
}

/* A token's own bytes.  They are the second half of the token twice: where a vocabulary takes a
 * space from the front of a text, the first half lacks it. */
struct piece {
    char *text; /* gp_free */
    const char *bytes;
    size_t length;
};

static struct piece piece_of(const struct gp_job *job, int32_t id)
{
    const struct gp_model *model = job->api->model;
    const int32_t twice[] = {id, id};
    struct piece piece = {.bytes = ""};
    char *once;
    size_t first, both;

    if (gp_model_detokenize(model, twice, 1, true, &once, &first, NULL))
        return piece;
    gp_free(once);
    if (gp_model_detokenize(model, twice, 2, true, &piece.text, &both, NULL))
        return piece;
    piece.bytes = piece.text + first;
    piece.length = both - first;
    return piece;
}

static bool is_shown(const struct gp_job *job, int32_t id)
{
    size_t length = 1;
    char *text;

    if (job->asked.keep_special ||
        gp_model_detokenize(job->api->model, &id, 1, false, &text, &length, NULL))
        return true;
    gp_free(text);
    if (length > 0)
        return true;
    /* A lone space may be what a text's front lost. */
    struct piece piece = piece_of(job, id);
    bool blank = piece.length == 1 && piece.bytes[0] == ' ';

    gp_free(piece.text);
    return blank;
}

static json_t *name_of(const struct gp_job *job, int32_t id, const struct piece *piece)
{
    char name[32];

    if (!job->asked.ids_as_tokens)
        return gp_answer_bytes(piece->bytes, piece->length);
    snprintf(name, sizeof name, "token_id:%d", id);
    return json_string(name);
}

/* JSON has no infinity. */
static json_t *number(float logprob)
{
    return json_real(isfinite(logprob) ? (double)logprob : -9999.0);
}

/* ---- chat ---- */

static json_t *chat_token(const struct gp_job *job, int32_t id, float logprob)
{
    struct piece piece = piece_of(job, id);
    json_t *bytes = json_array();

    for (size_t i = 0; i < piece.length; i++)
        json_array_append_new(bytes, json_integer((unsigned char)piece.bytes[i]));
    json_t *json = json_pack("{s:o, s:o, s:o}", "token", name_of(job, id, &piece), "logprob",
                             number(logprob), "bytes", bytes);

    if (job->asked.native)
        json_object_set_new(json, "id", json_integer(id));
    gp_free(piece.text);
    return json;
}

static json_t *chat_logprobs(const struct gp_job *job, const struct gp_choice *choice,
                             uint32_t from, uint32_t to)
{
    uint64_t id = gp_job_run_id(job, choice->run);
    struct gp_logprob tops[GP_LIMIT_LOGPROBS];
    json_t *content = json_array();

    for (uint32_t i = from; i < to; i++) {
        const struct gp_entry *entry = &choice->entries[i];
        json_t *token, *list;

        if (entry->is_end || !is_shown(job, entry->id))
            continue;
        token = chat_token(job, entry->id, entry->logprob);
        list = json_array();
        uint32_t count = gp_engine_alternatives(job->api->engine, id, choice->index, false, i, tops,
                                                GP_LIMIT_LOGPROBS);
        for (uint32_t k = 0; k < count; k++)
            json_array_append_new(list, chat_token(job, tops[k].id, tops[k].logprob));
        json_object_set_new(token, "top_logprobs", list);
        json_array_append_new(content, token);
    }
    return content;
}

/* ---- completions ---- */

struct arrays {
    json_t *tokens, *logprobs, *tops, *offsets;
};

static void set_top(const struct gp_job *job, json_t *map, int32_t id, float logprob)
{
    struct piece piece = piece_of(job, id);
    json_t *name = name_of(job, id, &piece);

    /* Of tokens with the same text the likeliest stays; the list is best first. */
    if (name && !json_object_get(map, json_string_value(name)))
        json_object_set_new(map, json_string_value(name), number(logprob));
    json_decref(name);
    gp_free(piece.text);
}

/* The alternatives, and the token itself when it is not among them. */
static json_t *top_map(const struct gp_job *job, const struct gp_choice *choice, bool prompt,
                       uint32_t index, int32_t id, float logprob)
{
    struct gp_logprob tops[GP_LIMIT_LOGPROBS];
    json_t *map = json_object();
    /* Of the prompt there may be more, for prompt_logprobs. */
    uint32_t count =
        gp_engine_alternatives(job->api->engine, gp_job_run_id(job, choice->run), choice->index,
                               prompt, index, tops, (uint32_t)job->asked.request.logprobs);

    for (uint32_t k = 0; k < count; k++)
        set_top(job, map, tops[k].id, tops[k].logprob);
    set_top(job, map, id, logprob);
    return map;
}

static void add(const struct gp_job *job, struct arrays *a, int32_t id, json_t *logprob,
                json_t *top, uint32_t offset)
{
    struct piece piece = piece_of(job, id);

    json_array_append_new(a->tokens, name_of(job, id, &piece));
    json_array_append_new(a->logprobs, logprob);
    json_array_append_new(a->tops, top);
    json_array_append_new(a->offsets, json_integer(offset));
    gp_free(piece.text);
}

/* A BOS that was put in front of the prompt's text takes no room in it. */
static bool adds_bos(const struct gp_job *job, const struct gp_prompt *prompt)
{
    struct piece piece = piece_of(job, prompt->ids[0]);
    bool in_text =
        prompt->text_length >= piece.length && memcmp(prompt->text, piece.bytes, piece.length) == 0;

    gp_free(piece.text);
    return prompt->ids[0] == job->api->model_info.bos && !in_text;
}

static void add_prompt(const struct gp_job *job, const struct gp_choice *choice, struct arrays *a)
{
    const struct gp_prompt *prompt = &job->asked.prompts[choice->run];
    uint64_t run = gp_job_run_id(job, choice->run);
    struct gp_decoder *decoder;
    uint32_t offset = 0;
    size_t length;

    if (gp_decoder_open(&decoder, job->api->model, true, NULL))
        return;
    for (uint32_t i = 0; i < prompt->count; i++) {
        int32_t id = prompt->ids[i];
        float logprob = gp_engine_prompt_logprob(job->api->engine, run, i);

        if (i == 0)
            add(job, a, id, json_null(), json_null(), 0);
        else
            add(job, a, id, number(logprob), top_map(job, choice, true, i, id, logprob), offset);
        if (i == 0 && adds_bos(job, prompt))
            continue;
        const char *text = gp_decoder_next(decoder, id, &length);
        offset += gp_text_chars(text, length);
    }
    gp_decoder_close(decoder);
}

static json_t *text_logprobs(const struct gp_job *job, const struct gp_choice *choice,
                             uint32_t from, uint32_t to, bool echo)
{
    struct arrays a = {json_array(), json_array(), json_array(), json_array()};
    const struct gp_prompt *prompt = &job->asked.prompts[choice->run];
    uint32_t base = job->asked.echo ? gp_text_chars(prompt->text, prompt->text_length) : 0;

    if (echo)
        add_prompt(job, choice, &a);
    for (uint32_t i = from; i < to; i++) {
        const struct gp_entry *entry = &choice->entries[i];

        add(job, &a, entry->id, number(entry->logprob),
            top_map(job, choice, false, i, entry->id, entry->logprob), base + entry->offset);
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", a.tokens, "token_logprobs", a.logprobs,
                     "top_logprobs", a.tops, "text_offset", a.offsets);
}

/* ---- vLLM's prompt_logprobs ---- */

static void set_id(const struct gp_job *job, json_t *map, int32_t id, float logprob, uint32_t rank)
{
    char key[16];

    snprintf(key, sizeof key, "%d", id);
    if (!json_object_get(map, key))
        json_object_set_new(map, key,
                            json_pack("{s:o, s:o, s:o}", "logprob", number(logprob), "rank",
                                      rank > 0 ? json_integer(rank) : json_null(), "decoded_token",
                                      gp_answer_token(job->api, id)));
}

json_t *gp_answer_prompt_logprobs(const struct gp_job *job, const struct gp_choice *choice)
{
    const struct gp_prompt *prompt = &job->asked.prompts[choice->run];
    uint64_t run = gp_job_run_id(job, choice->run);
    struct gp_logprob tops[GP_LIMIT_LOGPROBS];
    json_t *list = json_array();

    json_array_append_new(list, json_null());
    for (uint32_t i = 1; i < prompt->count; i++) {
        json_t *map = json_object();
        uint32_t count = gp_engine_alternatives(job->api->engine, run, choice->index, true, i, tops,
                                                (uint32_t)job->asked.prompt_logprobs);

        for (uint32_t k = 0; k < count; k++)
            set_id(job, map, tops[k].id, tops[k].logprob, k + 1);
        /* Its own rank is known only among those. */
        set_id(job, map, prompt->ids[i], gp_engine_prompt_logprob(job->api->engine, run, i), 0);
        json_array_append_new(list, map);
    }
    return list;
}

/* ---- all of them ---- */

json_t *gp_answer_logprobs(const struct gp_job *job, const struct gp_choice *choice, uint32_t from,
                           uint32_t to, bool echo)
{
    if (job->asked.native)
        return chat_logprobs(job, choice, from, to);
    if (job->asked.chat)
        return json_pack("{s:o}", "content", chat_logprobs(job, choice, from, to));
    return text_logprobs(job, choice, from, to, echo);
}
