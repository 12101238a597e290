#include "server/job.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/rng.h"

#define READ_AT_ONCE 64u

/* The engine's thread looks for stop strings with this, and counts the tokens of thoughts. */
struct hook {
    struct gp_decoder *decoder;
    struct gp_stopper stopper;
    uint32_t token_count;

    struct gp_stopper tags; /* api->tags                                             */
    bool inside;            /* behind an opening tag                                 */
    bool cut;               /* the budget has ended a thought                        */
    uint32_t thought_count; /* tokens inside                                         */
    uint32_t forced;        /* of the closing tag's tokens, those that are on their way */
};

struct gp_run {
    struct gp_job *job;
    uint64_t id;
    bool live;          /* the engine knows id */
    struct hook *hooks; /* [n], or NULL: nobody has to look  */
};

static uint32_t choice_number(const struct gp_run *run, uint32_t choice)
{
    return (uint32_t)(run - run->job->runs) * run->job->asked.request.n + choice;
}

/* ---- the engine's thread ---- */

/* As vLLM has it: text of the first min_tokens tokens neither stops nor begins a stop string. */
static void look_for_stops(const struct gp_job *job, struct hook *hook, const char *text,
                           size_t length)
{
    if (hook->token_count++ >= job->asked.request.min_tokens)
        gp_stopper_feed(&hook->stopper, text, length, NULL);
}

/* What the next token has to be when thoughts have had their tokens, else GP_GO.  All blocks share
 * one budget; a tag is no part of what it encloses. */
static int32_t count_thought(const struct gp_job *job, struct hook *hook, const char *text,
                             size_t length)
{
    const struct gp_api *api = job->api;
    bool was_inside = hook->inside;

    gp_stopper_feed(&hook->tags, text, length, NULL);
    if (hook->tags.hit != GP_STOP_NONE) {
        hook->inside = hook->tags.hit == 0;
        gp_stopper_init(&hook->tags, &api->tags);
    }
    if (hook->forced > 0 && hook->forced < api->closer_count)
        return api->closer[hook->forced++];
    hook->forced = 0;
    if (!hook->inside)
        return GP_GO;
    hook->thought_count += was_inside;
    if ((int64_t)hook->thought_count < job->asked.thought_max)
        return GP_GO;
    hook->cut = true;
    hook->forced = 1;
    return gp_force(api->closer[0]);
}

static void constrain(void *ctx, uint32_t choice, const int32_t *output, uint32_t count,
                      uint64_t *mask)
{
    const struct gp_run *run = ctx;

    (void)output;
    (void)count;
    gp_guide_mask(run->job->asked.guide, choice_number(run, choice), mask);
}

static int32_t on_token(void *ctx, uint32_t choice, int32_t id)
{
    struct gp_run *run = ctx;
    struct hook *hook = &run->hooks[choice];
    size_t length;
    const char *text = gp_decoder_next(hook->decoder, id, &length);
    struct gp_guide *guide = run->job->asked.guide;
    bool is_whole = guide && gp_guide_take(guide, choice_number(run, choice), id);

    look_for_stops(run->job, hook, text, length);
    if (hook->stopper.hit != GP_STOP_NONE || is_whole)
        return GP_STOP;
    return run->job->asked.thought_max < 0 ? GP_GO : count_thought(run->job, hook, text, length);
}

/* ---- open and close ---- */

/* A thought that the prompt has opened, and that may not have a token. */
static bool never_thinks(const struct gp_job *job)
{
    return job->asked.thought_max == 0 && job->asked.thought_opened;
}

static int open_hooks(struct gp_job *job, struct gp_run *run, struct gp_error *err)
{
    uint32_t n = job->asked.request.n;

    if (job->asked.stops.count == 0 && job->asked.thought_max < 0 && !job->asked.guide)
        return GP_OK;
    run->hooks = gp_mem_alloc_array(n, sizeof *run->hooks);
    if (!run->hooks)
        return gp_fail(err, GP_ENOMEM, "request: out of memory");
    for (uint32_t i = 0; i < n; i++) {
        int rc =
            gp_decoder_open(&run->hooks[i].decoder, job->api->model, job->asked.keep_special, err);

        if (rc)
            return rc;
        gp_stopper_init(&run->hooks[i].stopper, &job->asked.stops);
        gp_stopper_init(&run->hooks[i].tags, &job->api->tags);
        run->hooks[i].inside = job->asked.thought_opened;
        run->hooks[i].cut = never_thinks(job);
        run->hooks[i].forced = never_thinks(job);
    }
    return GP_OK;
}

static int open_choice(struct gp_job *job, uint32_t number, struct gp_error *err)
{
    struct gp_choice *choice = &job->choices[number];
    uint32_t n = job->asked.request.n;

    choice->run = number / n;
    choice->index = number % n;
    choice->end_id = -1;
    gp_stopper_init(&choice->stopper, &job->asked.stops);
    gp_thought_init(&choice->thought, job->asked.thought_opened);
    gp_calls_init(&choice->calls, job->asked.call_style, job->asked.single_call);
    return gp_decoder_open(&choice->decoder, job->api->model, job->asked.keep_special, err);
}

static int open_parts(struct gp_job *job, struct gp_error *err)
{
    uint32_t prompts = job->asked.prompt_count;
    int rc = GP_OK;

    job->choice_count = prompts * job->asked.request.n;
    job->runs = gp_mem_alloc_array(prompts, sizeof *job->runs);
    job->choices = gp_mem_alloc_array(job->choice_count, sizeof *job->choices);
    if (!job->runs || !job->choices)
        return gp_fail(err, GP_ENOMEM, "request: out of memory");
    for (uint32_t i = 0; !rc && i < prompts; i++) {
        job->runs[i].job = job;
        rc = open_hooks(job, &job->runs[i], err);
    }
    for (uint32_t i = 0; !rc && i < job->choice_count; i++)
        rc = open_choice(job, i, err);
    return rc;
}

static void close_parts(struct gp_job *job)
{
    uint32_t n = job->asked.request.n;

    for (uint32_t i = 0; job->runs && i < job->asked.prompt_count; i++) {
        for (uint32_t k = 0; job->runs[i].hooks && k < n; k++)
            gp_decoder_close(job->runs[i].hooks[k].decoder);
        gp_mem_free(job->runs[i].hooks);
    }
    for (uint32_t i = 0; job->choices && i < job->choice_count; i++) {
        struct gp_choice *choice = &job->choices[i];

        gp_decoder_close(choice->decoder);
        gp_buffer_free(&choice->content);
        gp_buffer_free(&choice->reasoning);
        gp_calls_free(&choice->calls);
        gp_mem_free(choice->entries);
    }
    gp_mem_free(job->runs);
    gp_mem_free(job->choices);
}

int gp_job_open(struct gp_job **out, const struct gp_api *api, struct gp_asked *asked,
                struct gp_refusal *r)
{
    struct gp_job *job = gp_mem_alloc(sizeof *job);
    struct gp_error err;

    if (!job)
        return gp_refuse(r, 500, NULL, "request: out of memory");
    job->api = api;
    job->asked = *asked;
    job->created = (int64_t)time(NULL);
    snprintf(job->id, sizeof job->id, "%s-%016llx%08llx", asked->chat ? "chatcmpl" : "cmpl",
             (unsigned long long)gp_rng_entropy(), (unsigned long long)gp_rng_entropy() >> 32);
    if (open_parts(job, &err)) {
        close_parts(job);
        gp_mem_free(job);
        return gp_refuse(r, 500, NULL, "%s", err.message);
    }
    *asked = (struct gp_asked){0};
    *out = job;
    return GP_OK;
}

int gp_job_submit(struct gp_job *job, struct gp_refusal *r)
{
    struct gp_request request = job->asked.request;
    struct gp_error err;

    request.stop_ids = job->asked.stop_ids;
    request.kv = &job->asked.kv;
    request.cache_salt = job->asked.cache_salt;
    if (job->runs[0].hooks)
        request.on_token = on_token;
    if (job->asked.guide)
        request.constraint = constrain;
    /* The closing tag begins at once; the hooks go on with it. */
    if (never_thinks(job)) {
        request.forced = job->api->closer;
        request.forced_count = 1;
    }
    for (uint32_t i = 0; i < job->asked.prompt_count; i++) {
        struct gp_run *run = &job->runs[i];

        request.tokens = job->asked.prompts[i].ids;
        request.token_count = job->asked.prompts[i].count;
        request.ctx = run;
        int rc = gp_engine_submit(job->api->engine, &request, &run->id, &err);

        run->live = rc == GP_OK;
        if (rc == GP_OK)
            continue;
        gp_job_cancel(job);
        return gp_refuse(r,
                         rc == GP_EAGAIN   ? 503
                         : rc == GP_EINVAL ? 400
                                           : 500,
                         NULL, "%s", err.message);
    }
    return GP_OK;
}

void gp_job_close(struct gp_job *job)
{
    if (!job)
        return;
    for (uint32_t i = 0; i < job->asked.prompt_count; i++)
        if (job->runs[i].live)
            gp_engine_release(job->api->engine, job->runs[i].id);
    close_parts(job);
    gp_asked_free(&job->asked);
    gp_mem_free(job);
}

/* ---- reading ---- */

uint32_t gp_text_chars(const char *text, size_t length)
{
    uint32_t count = 0;

    for (size_t i = 0; i < length; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

static bool contains(const int32_t *ids, uint32_t count, int32_t id)
{
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* The token that ends the answer is no part of it; the engine draws none behind it. */
static bool is_end(const struct gp_job *job, struct gp_choice *choice, int32_t id)
{
    const struct gp_asked *asked = &job->asked;
    uint32_t count;
    const int32_t *ends = gp_model_ends(job->api->model, &count);

    if (contains(asked->stop_ids, asked->request.stop_id_count, id)) {
        choice->end_id = id;
        return true;
    }
    return !asked->request.ignore_eos && contains(ends, count, id);
}

static void keep_entry(struct gp_job *job, struct gp_choice *choice, struct gp_entry entry)
{
    if (job->asked.request.logprobs < 0)
        return;
    if (choice->entry_count == choice->entry_room) {
        uint32_t room = choice->entry_room * 2 + 64;
        struct gp_entry *grown = gp_mem_realloc(choice->entries, choice->entry_room * sizeof *grown,
                                                room * sizeof *grown);

        if (!grown) {
            job->failed = true;
            return;
        }
        choice->entries = grown;
        choice->entry_room = room;
    }
    choice->entries[choice->entry_count++] = entry;
}

/* Text of the answer proper: calls, and what is none. */
static void show_answer(struct gp_job *job, struct gp_choice *choice, const struct gp_buffer *text)
{
    if (job->asked.call_style == GP_CALLS_NONE)
        gp_buffer_add(&choice->content, text->bytes, text->length);
    else
        gp_calls_feed(&choice->calls, text->bytes, text->length, &choice->content);
}

/* Text that may be shown, to where it belongs. */
static void show(struct gp_job *job, struct gp_choice *choice, const struct gp_buffer *text)
{
    struct gp_buffer answer = {0};

    choice->let += text->length;
    if (text->failed)
        job->failed = true;
    if (text->length == 0)
        return;
    if (job->asked.split_thought)
        gp_thought_feed(&choice->thought, text->bytes, text->length, &choice->reasoning, &answer);
    show_answer(job, choice, job->asked.split_thought ? &answer : text);
    if (job->asked.hide_thought)
        gp_buffer_clear(&choice->reasoning);
    job->failed |= answer.failed;
    gp_buffer_free(&answer);
}

/* No more text comes. */
static void end_text(struct gp_job *job, struct gp_choice *choice)
{
    struct gp_buffer answer = {0};

    if (job->asked.split_thought)
        gp_thought_end(&choice->thought, &choice->reasoning, &answer);
    show_answer(job, choice, &answer);
    if (job->asked.call_style != GP_CALLS_NONE)
        gp_calls_end(&choice->calls, &choice->content);
    if (job->asked.hide_thought)
        gp_buffer_clear(&choice->reasoning);
    job->failed |= answer.failed;
    gp_buffer_free(&answer);
}

static void take_text(struct gp_job *job, struct gp_choice *choice, const char *text, size_t length,
                      struct gp_buffer *out)
{
    const struct gp_asked *asked = &job->asked;

    choice->made += length;
    choice->chars += gp_text_chars(text, length);
    if (choice->token_count <= asked->request.min_tokens) {
        gp_buffer_add(out, text, length);
        return;
    }
    gp_stopper_feed(&choice->stopper, text, length, out);
    if (choice->stopper.hit != GP_STOP_NONE && asked->keep_stop) {
        const struct gp_stop *stop = &asked->stops.items[choice->stopper.hit];

        gp_buffer_add(out, stop->text, stop->length);
    }
}

static void take_token(struct gp_job *job, struct gp_choice *choice, struct gp_token token,
                       struct gp_buffer *out)
{
    struct gp_entry entry = {
        .id = token.id,
        .logprob = token.logprob,
        .offset = choice->chars,
        .begin = choice->made,
        .is_end = is_end(job, choice, token.id),
    };
    size_t length = 0;
    const char *text;

    choice->token_count++;
    if (choice->stopper.hit != GP_STOP_NONE || job->asked.nothing)
        return;
    if (!entry.is_end || (choice->end_id >= 0 && job->asked.keep_stop)) {
        text = gp_decoder_next(choice->decoder, token.id, &length);
        take_text(job, choice, text, length, out);
    }
    entry.end = choice->made;
    keep_entry(job, choice, entry);
}

/* Entries whose text is shown whole; at the end also the one that a stop string cut. */
static void ready_entries(struct gp_choice *choice)
{
    bool cut = choice->stopper.hit != GP_STOP_NONE;

    while (choice->entry_ready < choice->entry_count) {
        const struct gp_entry *entry = &choice->entries[choice->entry_ready];
        bool whole = entry->end <= choice->let;

        if (cut ? entry->begin >= choice->let : !whole && !choice->done)
            break;
        choice->entry_ready++;
    }
}

static void finish_choice(struct gp_job *job, struct gp_choice *choice, struct gp_buffer *out)
{
    size_t length;

    if (choice->stopper.hit == GP_STOP_NONE) {
        const char *rest = gp_decoder_end(choice->decoder, &length);

        take_text(job, choice, rest, length, out);
        gp_stopper_end(&choice->stopper, out);
    }
    show(job, choice, out);
    gp_buffer_clear(out);
    end_text(job, choice);
    choice->done = true;
    job->done_count++;
}

static bool read_choice(struct gp_job *job, struct gp_choice *choice)
{
    const struct gp_run *run = &job->runs[choice->run];
    struct gp_token tokens[READ_AT_ONCE];
    struct gp_buffer out = {0};
    uint32_t before = choice->token_count, count;

    do {
        count = gp_engine_read(job->api->engine, run->id, choice->index, choice->token_count,
                               tokens, READ_AT_ONCE, &choice->finish);
        for (uint32_t i = 0; i < count; i++)
            take_token(job, choice, tokens[i], &out);
    } while (count == READ_AT_ONCE);
    show(job, choice, &out);
    gp_buffer_clear(&out);
    if (choice->finish != GP_FINISH_NONE)
        finish_choice(job, choice, &out);
    ready_entries(choice);
    job->failed |=
        out.failed || choice->content.failed || choice->reasoning.failed || choice->calls.failed;
    gp_buffer_free(&out);
    return choice->done || choice->token_count != before;
}

bool gp_job_read(struct gp_job *job)
{
    bool news = false;

    if (job->cancelled)
        return false;
    for (uint32_t i = 0; i < job->choice_count; i++)
        if (!job->choices[i].done && read_choice(job, &job->choices[i]))
            news = true;
    return news;
}

/* ---- the end ---- */

bool gp_job_done(const struct gp_job *job)
{
    return job->done_count == job->choice_count;
}

void gp_job_cancel(struct gp_job *job)
{
    job->cancelled = true;
    for (uint32_t i = 0; i < job->asked.prompt_count; i++)
        if (job->runs[i].live)
            gp_engine_cancel(job->api->engine, job->runs[i].id);
}

bool gp_job_is_over(struct gp_job *job)
{
    for (uint32_t i = 0; i < job->choice_count; i++) {
        struct gp_choice *choice = &job->choices[i];
        const struct gp_run *run = &job->runs[choice->run];

        if (!run->live || choice->finish != GP_FINISH_NONE)
            continue;
        gp_engine_read(job->api->engine, run->id, choice->index, 0, NULL, 0, &choice->finish);
        if (choice->finish == GP_FINISH_NONE)
            return false;
    }
    return true;
}

uint64_t gp_job_run_id(const struct gp_job *job, uint32_t run)
{
    return job->runs[run].id;
}

bool gp_job_thought_cut(const struct gp_job *job, const struct gp_choice *choice)
{
    const struct hook *hooks = job->runs[choice->run].hooks;

    return hooks && choice->done && hooks[choice->index].cut;
}

bool gp_job_stats(const struct gp_job *job, const struct gp_choice *choice,
                  struct gp_request_stats *stats)
{
    const struct gp_run *run = &job->runs[choice->run];

    return run->live && gp_engine_request_stats(job->api->engine, run->id, choice->index, stats);
}

struct gp_usage gp_job_usage(const struct gp_job *job)
{
    struct gp_request_stats stats;
    struct gp_usage usage = {0};

    for (uint32_t i = 0; i < job->asked.prompt_count; i++)
        usage.prompt += job->asked.prompts[i].count;
    for (uint32_t i = 0; i < job->choice_count; i++) {
        usage.completion += job->asked.nothing ? 0 : job->choices[i].token_count;
        if (job->choices[i].index == 0 && gp_job_stats(job, &job->choices[i], &stats))
            usage.cached += stats.cached_tokens;
    }
    return usage;
}
