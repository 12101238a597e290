/* The numbers of a request: lengths, sampling, stops, logprobs; and the `kv` object. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "server/asked_internal.h"
#include "server/fields.h"

/* ---- lengths ---- */

static int read_lengths(const struct gp_api *api, const json_t *body, struct gp_asked *asked,
                        struct gp_refusal *r)
{
    /* The first that is there counts. */
    static const char *const names[] = {"max_completion_tokens", "max_tokens", "n_predict"};
    /* OpenAI's default for completions; the others run to the end of the context. */
    int64_t max = asked->chat || asked->native ? -1 : 16;
    uint32_t *min = &asked->request.min_tokens;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bool unlimited = i == 2;

        if (!gp_field(body, names[i]))
            continue;
        if (gp_field_int(body, names[i], unlimited ? -1 : asked->chat, INT32_MAX, &max, r))
            return GP_EINVAL;
        break;
    }
    if (gp_field_uint(body, "min_tokens", 0, INT32_MAX, min, r))
        return GP_EINVAL;
    if (asked->chat)
        asked->thought_max = api->thought_max;
    if (gp_field_int(body, "thinking_token_budget", -1, INT32_MAX, &asked->thought_max, r))
        return GP_EINVAL;
    if (asked->thought_max >= 0 && api->closer_count == 0)
        return gp_refuse(r, 400, "thinking_token_budget",
                         "thinking_token_budget: this vocabulary cannot spell </think>");
    if (max >= 0 && *min > max)
        return gp_refuse(r, 400, "min_tokens", "min_tokens: %u is more than max_tokens, %lld", *min,
                         (long long)max);
    /* The engine draws at least one token, which then is not shown. */
    asked->nothing = max == 0;
    asked->request.max_tokens = max < 0 ? 0 : max == 0 ? 1 : (uint32_t)max;
    return gp_field_uint(body, asked->native ? "n_cmpl" : "n", 1, GP_LIMIT_CHOICES,
                         &asked->request.n, r);
}

/* ---- sampling ---- */

static int read_floats(const json_t *body, struct gp_sampling *s, double heat_max,
                       struct gp_refusal *r)
{
    const struct {
        const char *name;
        float *out;
        double min, max;
        bool min_open;
    } fields[] = {
        {"temperature", &s->temperature, 0, heat_max, false},
        {"top_p", &s->top_p, 0, 1, true},
        {"min_p", &s->min_p, 0, 0.999999, false},
        {"presence_penalty", &s->presence_penalty, -2, 2, false},
        {"frequency_penalty", &s->frequency_penalty, -2, 2, false},
        {"repeat_penalty", &s->repeat_penalty, 0, 100, true},
        {"repetition_penalty", &s->repeat_penalty, 0, 100, true},
    };

    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (gp_field_float(body, fields[i].name, fields[i].min, fields[i].max, fields[i].min_open,
                           fields[i].out, r))
            return GP_EINVAL;
    return GP_OK;
}

static int read_sampling(const json_t *body, struct gp_asked *asked, struct gp_refusal *r)
{
    struct gp_sampling *s = &asked->request.sampling;
    int64_t top_k = s->top_k, seed = -1, priority = 0;

    if (read_floats(body, s, asked->native ? 1000 : 2, r))
        return GP_EINVAL;
    if (gp_field_int(body, "top_k", -1, INT32_MAX, &top_k, r))
        return GP_EINVAL;
    if (gp_field_int(body, "seed", INT64_MIN, INT64_MAX, &seed, r))
        return GP_EINVAL;
    if (gp_field_int(body, "priority", INT32_MIN, INT32_MAX, &priority, r))
        return GP_EINVAL;
    asked->request.priority = (int32_t)priority;
    s->top_k = top_k > 0 ? (uint32_t)top_k : 0;
    /* -1 asks for one that nobody chose, as it does elsewhere. */
    s->has_seed = seed != -1;
    s->seed = (uint64_t)seed;
    return GP_OK;
}

/* The whole of key as a token id, or -1. */
static int64_t key_id(const char *key)
{
    int64_t id = 0;
    size_t digits = strspn(key, "0123456789");

    if (digits == 0 || digits > 9 || key[digits])
        return -1;
    for (size_t i = 0; i < digits; i++)
        id = id * 10 + (key[i] - '0');
    return id;
}

/* llama-server's word for never. */
#define BIAS_NEVER (-1e9f)

static int add_bias(const struct gp_api *api, struct gp_asked *asked, int64_t id,
                    const json_t *value, struct gp_refusal *r)
{
    bool never = asked->native && json_is_false(value);
    double bias = json_number_value(value);

    if (id < 0 || id >= api->vocab)
        return gp_refuse(r, 400, "logit_bias",
                         "logit_bias: each key must be a token id from 0 to %u", api->vocab - 1);
    if (!never && (!json_is_number(value) || !(bias >= -100 && bias <= 100)))
        return gp_refuse(r, 400, "logit_bias",
                         "logit_bias: %lld: must be a number from -100 to 100", (long long)id);
    asked->bias[asked->request.sampling.bias_count++] =
        (struct gp_logit_bias){(int32_t)id, never ? BIAS_NEVER : (float)bias};
    return GP_OK;
}

/* [[id, bias], ...], as llama-server also takes it. */
static int read_bias_list(const struct gp_api *api, const json_t *list, struct gp_asked *asked,
                          struct gp_refusal *r)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *pair = json_array_get(list, i), *id = json_array_get(pair, 0);

        if (json_array_size(pair) != 2 || !json_is_integer(id))
            return gp_refuse(r, 400, "logit_bias", "logit_bias: entry %zu must be [id, bias]", i);
        if (add_bias(api, asked, json_integer_value(id), json_array_get(pair, 1), r))
            return GP_EINVAL;
    }
    return GP_OK;
}

static int read_bias_object(const struct gp_api *api, json_t *object, struct gp_asked *asked,
                            struct gp_refusal *r)
{
    const char *key;
    json_t *value;

    json_object_foreach(object, key, value)
    {
        if (add_bias(api, asked, key_id(key), value, r))
            return GP_EINVAL;
    }
    return GP_OK;
}

static int read_bias(const struct gp_api *api, const json_t *body, struct gp_asked *asked,
                     struct gp_refusal *r)
{
    json_t *field = gp_field(body, "logit_bias");
    bool list = asked->native && json_is_array(field);
    size_t count = list ? json_array_size(field) : json_object_size(field);

    if (!field)
        return GP_OK;
    if (!list && !json_is_object(field))
        return gp_refuse(r, 400, "logit_bias", "logit_bias: must be an object of token ids");
    if (count > GP_LIMIT_BIASES)
        return gp_refuse(r, 400, "logit_bias", "logit_bias: %zu entries; at most %u", count,
                         GP_LIMIT_BIASES);
    asked->bias = gp_mem_alloc_array(count, sizeof *asked->bias);
    if (!asked->bias)
        return gp_refuse(r, 500, "logit_bias", "logit_bias: out of memory");
    asked->request.sampling.bias = asked->bias;
    return list ? read_bias_list(api, field, asked, r) : read_bias_object(api, field, asked, r);
}

/* ---- stops ---- */

static int add_stop(struct gp_stop_set *set, const json_t *item, struct gp_refusal *r)
{
    size_t length = json_string_length(item);
    struct gp_error err;

    if (!json_is_string(item))
        return gp_refuse(r, 400, "stop", "stop: must be a string or an array of strings");
    if (length == 0)
        return gp_refuse(r, 400, "stop", "stop: an empty string stops everything");
    if (length > GP_LIMIT_STOP_BYTES)
        return gp_refuse(r, 400, "stop", "stop: %zu bytes; at most %u", length,
                         GP_LIMIT_STOP_BYTES);
    if (gp_stop_set_add(set, json_string_value(item), length, &err))
        return gp_refuse(r, 500, "stop", "%s", err.message);
    return GP_OK;
}

static int read_stops(const struct gp_api *api, const json_t *body, struct gp_asked *asked,
                      struct gp_refusal *r)
{
    const json_t *stop = gp_field(body, "stop"), *ids = gp_field(body, "stop_token_ids");
    size_t count = json_is_array(stop) ? json_array_size(stop) : stop != NULL;
    int32_t *made;

    if (count > GP_LIMIT_STOPS)
        return gp_refuse(r, 400, "stop", "stop: %zu strings; at most %u", count, GP_LIMIT_STOPS);
    for (size_t i = 0; i < count; i++)
        if (add_stop(&asked->stops, json_is_array(stop) ? json_array_get(stop, i) : stop, r))
            return GP_EINVAL;
    if (!ids)
        return GP_OK;
    if (gp_field_ids(ids, "stop_token_ids", api->vocab, GP_LIMIT_STOP_IDS, &made,
                     &asked->request.stop_id_count, r))
        return GP_EINVAL;
    memcpy(asked->stop_ids, made, asked->request.stop_id_count * sizeof *made);
    gp_mem_free(made);
    return GP_OK;
}

/* ---- logprobs ---- */

/* vLLM's field for the prompt; both may ask for different numbers. */
static int read_prompt_logprobs(const json_t *body, struct gp_asked *asked, struct gp_refusal *r)
{
    struct gp_request *request = &asked->request;
    int64_t count = -1;

    if (gp_field_int(body, "prompt_logprobs", 0, GP_LIMIT_LOGPROBS, &count, r))
        return GP_EINVAL;
    if (count >= 0 && asked->stream)
        return gp_refuse(r, 400, "prompt_logprobs", "prompt_logprobs: not available with stream");
    asked->prompt_logprobs = (int32_t)count;
    if (request->prompt_logprobs < asked->prompt_logprobs)
        request->prompt_logprobs = asked->prompt_logprobs;
    return GP_OK;
}

static int read_logprobs(const json_t *body, struct gp_asked *asked, struct gp_refusal *r)
{
    struct gp_request *request = &asked->request;
    uint32_t count = 0;
    bool wanted = false;

    if (asked->native) {
        if (gp_field_uint(body, "n_probs", 0, GP_LIMIT_LOGPROBS, &count, r))
            return GP_EINVAL;
        wanted = count > 0;
    } else if (!asked->chat) {
        wanted = gp_field(body, "logprobs") != NULL;
        if (gp_field_uint(body, "logprobs", 0, GP_LIMIT_LOGPROBS, &count, r))
            return GP_EINVAL;
    } else {
        if (gp_field_bool(body, "logprobs", &wanted, r) ||
            gp_field_uint(body, "top_logprobs", 0, GP_LIMIT_LOGPROBS, &count, r))
            return GP_EINVAL;
        if (count > 0 && !wanted)
            return gp_refuse(r, 400, "top_logprobs",
                             "top_logprobs: has no meaning without logprobs");
    }
    request->logprobs = wanted ? (int32_t)count : -1;
    request->prompt_logprobs = wanted && asked->echo ? (int32_t)count : -1;
    return read_prompt_logprobs(body, asked, r);
}

int gp_asked_read_options(const struct gp_api *api, const json_t *body, struct gp_asked *asked,
                          struct gp_refusal *r)
{
    int rc = read_lengths(api, body, asked, r);

    if (!rc)
        rc = read_sampling(body, asked, r);
    if (!rc)
        rc = read_bias(api, body, asked, r);
    if (!rc)
        rc = read_stops(api, body, asked, r);
    return rc ? rc : read_logprobs(body, asked, r);
}

/* ---- kv ---- */

static int read_kv_words(const json_t *kv, struct gp_kv_options *o, struct gp_refusal *r)
{
    const struct {
        const char *name, *words;
        void *out; /* an enum, which is an int here */
    } fields[] = {
        {"metric", "top-p|entropy|exp-entropy", &o->metric},
        {"gqa_demand", "mean|max-renormalised|per-query-head", &o->gqa_demand},
        {"gqa_score", "max|mean", &o->gqa_score},
        {"score_domain", "unprotected|all", &o->score_domain},
        {"summary_init", "first|zero", &o->summary_init},
        {"fallback", "compress|preempt", &o->fallback},
        {"resume", "replay|recompute", &o->resume},
        {"compact", "shift|fill", &o->compact},
    };

    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        int place = -1;

        if (gp_field_word(kv, fields[i].name, fields[i].words, &place, r))
            return GP_EINVAL;
        if (place >= 0)
            memcpy(fields[i].out, &place, sizeof place);
    }
    return GP_OK;
}

_Static_assert(sizeof(enum gp_metric) == sizeof(int), "an enum is read as an int");

static int read_kv_numbers(const json_t *kv, struct gp_kv_options *o, struct gp_refusal *r)
{
    int rc = gp_field_double(kv, "threshold", -1e9, 1e9, false, &o->threshold, r);

    if (!rc)
        rc = gp_field_double(kv, "coverage", 0, 1, true, &o->coverage, r);
    if (!rc)
        rc = gp_field_double(kv, "pressure", 0, 1, false, &o->pressure, r);
    if (!rc)
        rc = gp_field_float(kv, "beta_short", 0, 0.9999999, false, &o->beta_short, r);
    if (!rc)
        rc = gp_field_float(kv, "beta_long", 0, 0.9999999, false, &o->beta_long, r);
    if (!rc)
        rc = gp_field_uint(kv, "max_pages", 0, GP_LIMIT_CONTEXT, &o->max_pages, r);
    if (!rc)
        rc = gp_field_uint(kv, "initial_pages", 2, GP_LIMIT_CONTEXT, &o->initial_pages, r);
    if (!rc)
        rc = gp_field_uint(kv, "local", 0, GP_LIMIT_PAGE_TOKENS, &o->local, r);
    return rc ? rc : gp_field_uint(kv, "protect", 0, GP_LIMIT_PAGE_TOKENS, &o->protect, r);
}

static int read_policy(const json_t *kv, struct gp_kv_options *o, struct gp_refusal *r)
{
    const json_t *policy = gp_field(kv, "policy");
    struct gp_error err;

    if (policy && !json_is_string(policy))
        return gp_refuse(r, 400, "policy", "policy: must be a string");
    if (policy && gp_policy_parse(json_string_value(policy), o, &err))
        return gp_refuse(r, 400, "policy", "policy: %s", err.message);
    return GP_OK;
}

/* A switch is given as what it is: a number, a word, true or false. */
static bool switch_text(const json_t *value, char out[64])
{
    if (json_is_boolean(value))
        snprintf(out, 64, "%s", json_is_true(value) ? "true" : "false");
    else if (json_is_integer(value))
        snprintf(out, 64, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(out, 64, "%.9g", json_real_value(value));
    else if (json_is_string(value))
        gp_text_copy(out, 64, json_string_value(value), json_string_length(value));
    return json_is_boolean(value) || json_is_number(value) || json_is_string(value);
}

/* Behind the policy, whose name sets them all. */
static int read_scorer(const json_t *kv, struct gp_kv_options *o, struct gp_refusal *r)
{
    const json_t *trigger = gp_field(kv, "trigger");
    json_t *scorer = gp_field(kv, "scorer"), *value;
    struct gp_error err;
    const char *name;
    char text[64];

    if (trigger && !json_is_string(trigger))
        return gp_refuse(r, 400, "trigger", "trigger: must be a string");
    if (trigger && gp_trigger_parse(json_string_value(trigger), o, &err))
        return gp_refuse(r, 400, "trigger", "trigger: %s", err.message);
    if (scorer && !json_is_object(scorer))
        return gp_refuse(r, 400, "scorer", "scorer: must be an object");
    json_object_foreach(scorer, name, value)
    {
        if (!switch_text(value, text))
            return gp_refuse(r, 400, "scorer",
                             "scorer: %.40s: must be a number, a word, true or false", name);
        if (gp_scorer_set(o, name, text, &err))
            return gp_refuse(r, 400, "scorer", "scorer: %s", err.message);
    }
    return GP_OK;
}

/* The object is ours, so a key that it does not have is a slip of the pen. */
static int check_kv_keys(json_t *kv, struct gp_refusal *r)
{
    static const char names[] =
        "|policy|threshold|coverage|pressure|beta_short|beta_long|max_pages|"
        "initial_pages|local|protect|metric|gqa_demand|gqa_score|"
        "score_domain|summary_init|fallback|resume|compact|trigger|scorer|stats|";
    const char *key;
    json_t *value;

    json_object_foreach(kv, key, value)
    {
        char word[64];

        snprintf(word, sizeof word, "|%.40s|", key);
        if (!strstr(names, word) || strchr(key, '|'))
            return gp_refuse(r, 400, key, "%.40s: no such option", key);
    }
    return GP_OK;
}

int gp_asked_read_kv(const json_t *body, struct gp_asked *asked, struct gp_refusal *r)
{
    json_t *kv = gp_field(body, "kv");

    if (!kv)
        return GP_OK;
    if (!json_is_object(kv))
        return gp_refuse(r, 400, "kv", "kv: must be an object");
    int rc = check_kv_keys(kv, r);

    if (!rc)
        rc = read_policy(kv, &asked->kv, r);
    if (!rc)
        rc = read_scorer(kv, &asked->kv, r);
    if (!rc)
        rc = read_kv_numbers(kv, &asked->kv, r);
    if (!rc)
        rc = read_kv_words(kv, &asked->kv, r);
    if (!rc)
        rc = gp_field_bool(kv, "stats", &asked->kv_stats, r);
    if (!rc)
        return GP_OK;
    gp_refuse_below(r, "kv");
    return rc;
}
