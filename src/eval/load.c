#include "eval/load.h"

#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#include "base/clock.h"
#include "base/mem.h"
#include "eval/rows.h"

/* go_on is asked this often, at least. */
#define POLL_MS_MAX 100

/* What is kept of an answer that is no stream, and of one event. */
#define KEPT_BYTES (1u << 20)

/* One request from its arrival to its last byte. */
struct visit {
    struct visit *next, *prev; /* those that are live */
    struct fire *fire;
    CURL *easy;
    char *body;    /* what is sent */
    char *kept;    /* what came and is no whole line yet; zero-terminated */
    size_t length; /* of kept */
    uint64_t arrival_ns, first_ns, last_ns;
    uint32_t pieces;
    json_int_t prompt_tokens, output_tokens; /* the server's; 0: it told none */
    bool over;                               /* [DONE]                        */
    bool failed;
    char failure[160];
};

/* A run. */
struct fire {
    const struct gp_load *load;
    struct gp_load_result *result;
    CURLM *multi;
    struct curl_slist *headers;
    char url[1024]; /* where requests go */
    uint32_t next, live;
    struct visit *visits;
    uint64_t start_ns, next_ns; /* when the next one arrives */
};

/* ---- what is sent ---- */

/* Common words that follow a space; nearly everywhere each is one token. */
static const char *const words[] = {
    "the",  "of",    "and",  "to",    "in",    "is",   "that", "for",   "it",    "as",    "was",
    "with", "on",    "be",   "by",    "this",  "from", "at",   "or",    "have",  "an",    "they",
    "one",  "which", "you",  "were",  "her",   "all",  "she",  "there", "would", "their", "we",
    "him",  "been",  "has",  "when",  "who",   "will", "more", "no",    "if",    "out",   "so",
    "said", "what",  "up",   "its",   "about", "into", "than", "them",  "can",   "only",  "other",
    "new",  "some",  "time", "could", "these", "two",  "may",  "then",  "do",
};
#define WORD_COUNT (sizeof words / sizeof *words)

static json_t *prompt_text(const struct gp_workload *workload, uint32_t index, uint32_t tokens)
{
    size_t room = (size_t)tokens * 8 + 1, at = 0;
    char *text = gp_mem_alloc(room);
    int32_t *ids = gp_mem_alloc_array(tokens, sizeof *ids);
    json_t *json = NULL;

    if (text && ids) {
        gp_workload_tokens(workload->seed, index, WORD_COUNT, ids, tokens);
        for (uint32_t i = 0; i < tokens; i++)
            at += (size_t)snprintf(text + at, room - at, i ? " %s" : "%s", words[ids[i]]);
        json = json_stringn(text, at);
    }
    gp_mem_free(ids);
    gp_mem_free(text);
    return json;
}

/* The body of request `index`; free() it. */
static char *make_body(const struct fire *fire, uint32_t index)
{
    const struct gp_load *load = fire->load;
    struct gp_work work = gp_workload_at(load->workload, index);
    json_t *text = prompt_text(load->workload, index, work.prompt_tokens);
    json_t *body =
        json_pack("{s:s, s:i, s:i, s:b, s:I, s:b, s:{s:b}}", "model", fire->result->model,
                  "max_tokens", (int)work.output_tokens, "temperature", 0, "ignore_eos", 1, "seed",
                  (json_int_t)(load->workload->seed + index), "stream", 1, "stream_options",
                  "include_usage", 1);
    char *dumped = NULL;

    if (body && text) {
        if (load->chat)
            json_object_set_new(body, "messages",
                                json_pack("[{s:s, s:O}]", "role", "user", "content", text));
        else
            json_object_set(body, "prompt", text);
        dumped = json_dumps(body, JSON_COMPACT);
    }
    json_decref(text);
    json_decref(body);
    return dumped;
}

/* ---- what comes ---- */

static void fail_visit(struct visit *visit, const char *why)
{
    if (!visit->failed)
        gp_text_copy(visit->failure, sizeof visit->failure, why, strlen(why));
    visit->failed = true;
}

/* Whether a chunk has text, under any of its names. */
static bool has_text(const json_t *choice)
{
    static const char *const names[] = {"content", "reasoning_content", "reasoning"};
    const json_t *delta = json_object_get(choice, "delta");

    if (json_string_length(json_object_get(choice, "text")) > 0)
        return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (json_string_length(json_object_get(delta, names[i])) > 0)
            return true;
    return false;
}

static void take_piece(struct visit *visit)
{
    uint64_t now = gp_clock_ns();
    struct gp_error err;

    if (visit->pieces++ == 0)
        visit->first_ns = now;
    else if (gp_values_add(&visit->fire->result->gap_ms, (double)(now - visit->last_ns) / 1e6,
                           &err))
        fail_visit(visit, err.message);
    visit->last_ns = now;
}

static void take_event(struct visit *visit, const char *data)
{
    json_t *event = json_loads(data, 0, NULL);
    const json_t *error = json_object_get(event, "error");
    const json_t *usage = json_object_get(event, "usage");
    const char *message = json_string_value(json_object_get(error, "message"));

    if (!event)
        fail_visit(visit, "an event is not JSON");
    if (error)
        fail_visit(visit, message ? message : "the server told an error");
    if (has_text(json_array_get(json_object_get(event, "choices"), 0)))
        take_piece(visit);
    if (json_is_object(usage)) {
        visit->prompt_tokens = json_integer_value(json_object_get(usage, "prompt_tokens"));
        visit->output_tokens = json_integer_value(json_object_get(usage, "completion_tokens"));
    }
    json_decref(event);
}

static void take_line(struct visit *visit, const char *line)
{
    if (strncmp(line, "data:", 5) != 0)
        return; /* comments, names of events, blank lines */
    line += 5 + (line[5] == ' ');
    if (strcmp(line, "[DONE]") == 0)
        visit->over = true;
    else
        take_event(visit, line);
}

/* libcurl's: what came of the answer. */
static size_t on_bytes(char *bytes, size_t size, size_t count, void *ctx)
{
    struct visit *visit = ctx;
    size_t length = size * count;
    char *grown = visit->length + length < KEPT_BYTES
                      ? gp_mem_realloc(visit->kept, visit->length + (visit->kept != NULL),
                                       visit->length + length + 1)
                      : NULL;

    if (!grown) {
        fail_visit(visit, "an event is too large");
        return 0;
    }
    visit->kept = grown;
    memcpy(grown + visit->length, bytes, length);
    visit->length += length;
    grown[visit->length] = 0;
    char *line = grown;

    for (char *end; (end = memchr(line, '\n', visit->length - (size_t)(line - grown)));
         line = end + 1) {
        *end = 0;
        if (end > line && end[-1] == '\r')
            end[-1] = 0;
        take_line(visit, line);
    }
    visit->length -= (size_t)(line - grown);
    memmove(grown, line, visit->length + 1);
    return length;
}

/* ---- requests ---- */

static CURL *open_easy(const struct fire *fire, const char *url)
{
    CURL *easy = curl_easy_init();

    if (!easy)
        return NULL;
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, fire->headers);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT, (long)fire->load->seconds_max);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, fire->load->insecure ? 0L : 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, fire->load->insecure ? 0L : 2L);
    return easy;
}

static void close_visit(struct visit *visit)
{
    if (visit->next)
        visit->next->prev = visit->prev;
    *(visit->prev ? &visit->prev->next : &visit->fire->visits) = visit->next;
    if (visit->easy) {
        curl_multi_remove_handle(visit->fire->multi, visit->easy);
        curl_easy_cleanup(visit->easy);
    }
    free(visit->body);
    gp_mem_free(visit->kept);
    gp_mem_free(visit);
}

static int start_visit(struct fire *fire, uint32_t index, uint64_t arrival_ns, struct gp_error *err)
{
    struct visit *visit = gp_mem_alloc(sizeof *visit);

    if (!visit)
        return gp_fail(err, GP_ENOMEM, "out of memory");
    visit->fire = fire;
    visit->next = fire->visits;
    if (fire->visits)
        fire->visits->prev = visit;
    fire->visits = visit;
    visit->arrival_ns = arrival_ns;
    visit->body = make_body(fire, index);
    visit->easy = visit->body ? open_easy(fire, fire->url) : NULL;
    if (!visit->easy) {
        close_visit(visit);
        return gp_fail(err, GP_ENOMEM, "out of memory");
    }
    curl_easy_setopt(visit->easy, CURLOPT_POSTFIELDS, visit->body);
    curl_easy_setopt(visit->easy, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(visit->easy, CURLOPT_WRITEDATA, visit);
    curl_easy_setopt(visit->easy, CURLOPT_PRIVATE, visit);
    if (curl_multi_add_handle(fire->multi, visit->easy) != CURLM_OK) {
        close_visit(visit);
        return gp_fail(err, GP_ENOMEM, "out of memory");
    }
    fire->live++;
    return GP_OK;
}

/* All that have arrived, as far as they may run. */
static int start_arrived(struct fire *fire, struct gp_error *err)
{
    const struct gp_workload *workload = fire->load->workload;
    uint32_t limit = fire->load->concurrency;

    while (fire->next < workload->request_count && fire->next_ns <= gp_clock_ns() &&
           (limit == 0 || fire->live < limit)) {
        /* Closed: the next one comes when there is room for it. */
        uint64_t arrival = workload->rate > 0 ? fire->next_ns : gp_clock_ns();
        int rc = start_visit(fire, fire->next, arrival, err);

        if (rc)
            return rc;
        fire->next++;
        if (fire->next < workload->request_count)
            fire->next_ns += (uint64_t)(gp_workload_wait_seconds(workload, fire->next) * 1e9);
    }
    return GP_OK;
}

static int add_times(struct gp_load_result *r, const struct visit *visit, uint64_t tokens,
                     struct gp_error *err)
{
    double first = (double)(visit->first_ns - visit->arrival_ns) / 1e6;
    double rest = (double)(visit->last_ns - visit->first_ns) / 1e6;
    int rc = gp_values_add(&r->ttft_ms, first, err);

    if (!rc)
        rc = gp_values_add(&r->whole_ms, first + rest, err);
    if (!rc && tokens > 1)
        rc = gp_values_add(&r->tpot_ms, rest / (double)(tokens - 1), err);
    return rc;
}

/* What the body of an error says, else its status. */
static void fail_status(struct visit *visit, long status)
{
    json_t *body = json_loads(visit->kept ? visit->kept : "", 0, NULL);
    const char *message =
        json_string_value(json_object_get(json_object_get(body, "error"), "message"));
    char why[160];

    snprintf(why, sizeof why, "status %ld%s%.120s", status, message ? ": " : "",
             message ? message : "");
    fail_visit(visit, why);
    json_decref(body);
}

static int finish_visit(struct fire *fire, struct visit *visit, CURLcode code, struct gp_error *err)
{
    struct gp_load_result *r = fire->result;
    long status = 0;
    int rc = GP_OK;

    curl_easy_getinfo(visit->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 400)
        fail_status(visit, status);
    else if (code != CURLE_OK)
        fail_visit(visit, curl_easy_strerror(code));
    else if (!visit->over || visit->pieces == 0)
        fail_visit(visit, "the stream ended without an answer");
    r->done++;
    r->failed += visit->failed;
    if (visit->failed && !r->failure[0])
        gp_text_copy(r->failure, sizeof r->failure, visit->failure, strlen(visit->failure));
    if (!visit->failed) {
        uint64_t tokens = visit->output_tokens > 0 ? (uint64_t)visit->output_tokens : visit->pieces;

        r->has_usage |= visit->output_tokens > 0;
        r->prompt_tokens += (uint64_t)visit->prompt_tokens;
        r->output_tokens += tokens;
        rc = add_times(r, visit, tokens, err);
    }
    fire->live--;
    close_visit(visit);
    return rc;
}

static int take_messages(struct fire *fire, struct gp_error *err)
{
    int left, rc = GP_OK;

    for (CURLMsg *message; !rc && (message = curl_multi_info_read(fire->multi, &left));) {
        struct visit *visit;

        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&visit);
        rc = finish_visit(fire, visit, message->data.result, err);
    }
    return rc;
}

static int poll_ms(const struct fire *fire)
{
    uint64_t now = gp_clock_ns();

    if (fire->next >= fire->load->workload->request_count || fire->next_ns > now + 100000000u)
        return POLL_MS_MAX;
    return fire->next_ns > now ? (int)((fire->next_ns - now) / 1000000u) : 1;
}

static int run(struct fire *fire, bool *complete, struct gp_error *err)
{
    const struct gp_load *load = fire->load;
    int running, rc = GP_OK;

    fire->start_ns = fire->next_ns = gp_clock_ns();
    fire->next_ns += (uint64_t)(gp_workload_wait_seconds(load->workload, 0) * 1e9);
    *complete = true;
    while (!rc && *complete && fire->result->done < load->workload->request_count) {
        rc = start_arrived(fire, err);
        if (!rc && curl_multi_perform(fire->multi, &running) != CURLM_OK)
            rc = gp_fail(err, GP_EIO, "the HTTP library failed");
        if (!rc)
            rc = take_messages(fire, err);
        if (!rc && fire->result->done < load->workload->request_count)
            curl_multi_poll(fire->multi, NULL, 0, poll_ms(fire), NULL);
        *complete = load->go_on(load->ctx, fire->result->done);
    }
    fire->result->total_ns = gp_clock_ns() - fire->start_ns;
    return rc;
}

/* ---- open and close ---- */

/* Bytes of the url that name the server alone. */
static size_t root_length(const char *url)
{
    size_t length = strlen(url);

    while (length > 0 && url[length - 1] == '/')
        length--;
    return length > 3 && memcmp(url + length - 3, "/v1", 3) == 0 ? length - 3 : length;
}

/* libcurl's: keep all. */
static size_t on_plain(char *bytes, size_t size, size_t count, void *ctx)
{
    FILE *file = ctx;

    return fwrite(bytes, size, count, file) * size;
}

/* The first model of /v1/models. */
static int learn_model(struct fire *fire, const char *url, struct gp_error *err)
{
    char *text = NULL;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    CURL *easy = open_easy(fire, url);
    long status = 0;
    CURLcode code = CURLE_OUT_OF_MEMORY;

    if (file && easy) {
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_plain);
        curl_easy_setopt(easy, CURLOPT_WRITEDATA, file);
        code = curl_easy_perform(easy);
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    }
    curl_easy_cleanup(easy);
    if (file)
        fclose(file);
    json_t *list = json_loads(text ? text : "", 0, NULL);
    const char *id =
        json_string_value(json_object_get(json_array_get(json_object_get(list, "data"), 0), "id"));
    int rc = GP_OK;

    if (code != CURLE_OK)
        rc = gp_fail(err, GP_EIO, "%s: %s", url, curl_easy_strerror(code));
    else if (status != 200 || !id)
        rc = gp_fail(err, GP_EIO, "%s: status %ld, and no model is told", url, status);
    else
        gp_text_copy(fire->result->model, sizeof fire->result->model, id, strlen(id));
    json_decref(list);
    free(text);
    return rc;
}

static int add_header(struct fire *fire, const char *line, struct gp_error *err)
{
    struct curl_slist *grown = curl_slist_append(fire->headers, line);

    if (!grown)
        return gp_fail(err, GP_ENOMEM, "out of memory");
    fire->headers = grown;
    return GP_OK;
}

static int open_fire(struct fire *fire, struct gp_error *err)
{
    const struct gp_load *load = fire->load;
    int root = (int)root_length(load->url);
    char models[sizeof fire->url], key[600];

    if (root > 900)
        return gp_fail(err, GP_EINVAL, "%.60s...: too long", load->url);
    snprintf(models, sizeof models, "%.*s/v1/models", root, load->url);
    snprintf(fire->url, sizeof fire->url, "%.*s/v1/%scompletions", root, load->url,
             load->chat ? "chat/" : "");
    fire->multi = curl_multi_init();
    if (!fire->multi)
        return gp_fail(err, GP_ENOMEM, "out of memory");
    int rc = add_header(fire, "Content-Type: application/json", err);

    if (!rc)
        rc = add_header(fire, "Expect:", err); /* no waiting before the body */
    if (!rc && load->key) {
        snprintf(key, sizeof key, "Authorization: Bearer %s", load->key);
        rc = add_header(fire, key, err);
    }
    if (rc || load->model == NULL)
        return rc ? rc : learn_model(fire, models, err);
    gp_text_copy(fire->result->model, sizeof fire->result->model, load->model, strlen(load->model));
    return GP_OK;
}

int gp_load_run(const struct gp_load *load, struct gp_load_result *out, bool *complete,
                struct gp_error *err)
{
    struct fire fire = {.load = load, .result = out};
    int rc;

    *out = (struct gp_load_result){0};
    *complete = false;
    if (curl_global_init(CURL_GLOBAL_DEFAULT))
        return gp_fail(err, GP_EIO, "the HTTP library cannot be used");
    rc = open_fire(&fire, err);
    if (!rc)
        rc = run(&fire, complete, err);
    while (fire.visits)
        close_visit(fire.visits);
    curl_multi_cleanup(fire.multi);
    curl_slist_free_all(fire.headers);
    curl_global_cleanup();
    return rc;
}

void gp_load_result_free(struct gp_load_result *r)
{
    gp_values_free(&r->ttft_ms);
    gp_values_free(&r->tpot_ms);
    gp_values_free(&r->gap_ms);
    gp_values_free(&r->whole_ms);
}

json_t *gp_load_figures(const struct gp_load *load, struct gp_load_result *r)
{
    const struct gp_workload *w = load->workload;
    char prompt[GP_LENGTH_TEXT_BYTES], output[GP_LENGTH_TEXT_BYTES];
    double seconds = (double)r->total_ns / 1e9;

    gp_length_format(&w->prompt, prompt);
    gp_length_format(&w->output, output);
    return json_pack(
        "{s:s, s:s, s:s, s:I, s:s, s:s, s:o, s:o, s:i, s:i, s:I, s:I, s:b, s:f, s:f, s:f, s:f,"
        " s:o, s:o, s:o, s:o}",
        "url", load->url, "model", r->model, "api", load->chat ? "chat" : "completions", "seed",
        (json_int_t)w->seed, "prompt_len", prompt, "output_len", output, "rate",
        w->rate > 0 ? json_real(w->rate) : json_null(), "concurrency",
        load->concurrency > 0 ? json_integer(load->concurrency) : json_null(), "requests",
        (int)(r->done - r->failed), "failed", (int)r->failed, "prompt_tokens",
        (json_int_t)r->prompt_tokens, "output_tokens", (json_int_t)r->output_tokens, "counted",
        r->has_usage, "total_s", seconds, "rps", seconds > 0 ? (r->done - r->failed) / seconds : 0,
        "tps", seconds > 0 ? (double)r->output_tokens / seconds : 0, "total_tps",
        seconds > 0 ? (double)(r->prompt_tokens + r->output_tokens) / seconds : 0, "ttft_ms",
        gp_json_spread(&r->ttft_ms), "tpot_ms", gp_json_spread(&r->tpot_ms), "gap_ms",
        gp_json_spread(&r->gap_ms), "e2e_ms", gp_json_spread(&r->whole_ms));
}
