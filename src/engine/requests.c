/* Requests as other threads see them: submit, cancel, read, poll, release.
 *
 * A submit copies everything into one block of the slab and leaves the request in the inbox; the
 * engine's thread takes it from there at its next step.  What a step made is published at its
 * end in one go, so a reader sees whole steps.  Every function here holds the lock for
 * bookkeeping only. */
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/event.h"
#include "base/mem.h"
#include "base/rng.h"
#include "engine/engine_internal.h"
#include "engine/trace.h"

/* An id is generation and slot; generation starts at 1, so no id is 0. */
#define SLOT_BITS 20u

_Static_assert(GP_LIMIT_SEQS * 128u < 1u << SLOT_BITS, "every request has a slot number");

int gp_requests_open(struct gp_engine *engine, struct gp_error *err)
{
    const struct gp_engine_options *o = &engine->options;
    /* Each choice keeps ids and logprobs; an event each page.  Twice the ids leaves room for n and
     * alternatives; untouched memory costs nothing, so the bound is on address space. */
    uint64_t bytes = (uint64_t)engine->sequences_max * ((uint64_t)o->context * 8 + 65536);
    uint64_t least = (uint64_t)o->context * 512 + (1u << 20);
    uint64_t most = (uint64_t)2 << 30;

    bytes = bytes > most ? most : bytes;
    bytes = bytes < least ? least : bytes;
    engine->news_fd = engine->work_fd = -1;
    if (pthread_mutex_init(&engine->lock, NULL))
        return gp_fail(err, GP_ENOMEM, "engine: cannot make a lock");
    engine->request_max = engine->sequences_max;
    engine->requests = gp_mem_alloc_array(engine->request_max, sizeof *engine->requests);
    engine->inbox = gp_mem_alloc_array(engine->request_max, sizeof *engine->inbox);
    if (!engine->requests || !engine->inbox)
        return gp_fail(err, GP_ENOMEM, "request table: out of memory");
    engine->news_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    engine->work_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (engine->news_fd < 0 || engine->work_fd < 0)
        return gp_fail(err, GP_EIO, "eventfd: %s", strerror(errno));
    engine->work_bytes += engine->request_max * sizeof *engine->requests;
    return gp_slab_open(&engine->slab, (size_t)bytes, err);
}

static void free_request(struct gp_engine *engine, struct request *request)
{
    uint32_t generation = request->generation;

    gp_assert(request->open_choices == 0);
    gp_slab_give(&engine->slab, request->block, request->block_bytes);
    *request = (struct request){.generation = generation};
}

void gp_requests_close(struct gp_engine *engine)
{
    for (uint32_t i = 0; engine->requests && i < engine->request_max; i++) {
        struct request *request = &engine->requests[i];

        if (!request->used)
            continue;
        /* One that never left the inbox has no sequences. */
        if (request->submitted)
            request->open_choices = 0;
        free_request(engine, request);
    }
    if (engine->slab.bytes)
        gp_slab_close(&engine->slab);
    if (engine->news_fd >= 0)
        close(engine->news_fd);
    if (engine->work_fd >= 0)
        close(engine->work_fd);
    gp_mem_free(engine->requests);
    gp_mem_free(engine->inbox);
    pthread_mutex_destroy(&engine->lock);
}

struct request *gp_request_find(struct gp_engine *engine, uint64_t id)
{
    uint64_t slot = id & ((1u << SLOT_BITS) - 1);

    if (slot >= engine->request_max)
        return NULL;
    struct request *request = &engine->requests[slot];

    return request->used && request->generation == id >> SLOT_BITS ? request : NULL;
}

static struct choice *find_choice(struct gp_engine *engine, uint64_t id, uint32_t index)
{
    struct request *request = gp_request_find(engine, id);

    return request && index < request->asked.n ? &request->choices[index] : NULL;
}

/* ---- submit ---- */

static int check_ids(const char *what, const int32_t *ids, uint32_t count, uint32_t vocab,
                     struct gp_error *err)
{
    if (count > 0 && !ids)
        return gp_fail(err, GP_EINVAL, "%s: missing", what);
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= vocab)
            return gp_fail(err, GP_EINVAL, "%s: token %u is %d: must be 0 to %u", what, i, ids[i],
                           vocab - 1);
    return GP_OK;
}

static int check_hooks(const struct gp_engine *engine, const struct gp_request *r,
                       struct gp_error *err)
{
    const struct gp_kv_options *kv = r->kv ? r->kv : &engine->options.kv;

    if (r->on_tap && !engine->options.taps)
        return gp_fail(err, GP_EINVAL, "on_tap: the engine was opened without taps");
    if (r->on_tap && gp_policy_needs(kv).rotation)
        return gp_fail(err, GP_EINVAL, "on_tap: not for a policy that turns its keys");
    return GP_OK;
}

static int check_request(const struct gp_engine *engine, const struct gp_request *r,
                         struct gp_error *err)
{
    const struct gp_engine_options *o = &engine->options;
    uint32_t vocab = engine->vocab;
    int rc = check_ids("prompt", r->tokens, r->token_count, vocab, err);

    if (!rc)
        rc = check_ids("stop ids", r->stop_ids, r->stop_id_count, vocab, err);
    if (!rc)
        rc = check_ids("forced tokens", r->forced, r->forced_count, vocab, err);
    if (!rc)
        rc = gp_sampling_check(&r->sampling, vocab, err);
    if (!rc && r->kv)
        rc = gp_policy_check(r->kv, o->page_tokens, err);
    if (!rc && r->kv)
        rc = gp_scored_check(engine, r->kv, err);
    if (!rc)
        rc = check_hooks(engine, r, err);
    if (rc)
        return rc;
    if (r->token_count == 0)
        return gp_fail(err, GP_EINVAL, "prompt: empty");
    if (r->token_count >= o->context)
        return gp_fail(err, GP_EINVAL,
                       "prompt: this model's maximum context length is %u tokens; your prompt has "
                       "%u tokens and exceeds the available context size",
                       o->context, r->token_count);
    if (!gp_sched_fits(engine->sched, r->token_count))
        return gp_fail(err, GP_EINVAL,
                       "prompt: %u tokens can never fit the KV pool of %u pages of %u tokens",
                       r->token_count, gp_pool_total(engine->pool), o->page_tokens);
    if (r->n > GP_LIMIT_CHOICES || r->n > engine->sequences_max)
        return gp_fail(err, GP_EINVAL, "n: %u; 1 to %u", r->n,
                       engine->sequences_max < GP_LIMIT_CHOICES ? engine->sequences_max
                                                                : GP_LIMIT_CHOICES);
    if (r->logprobs < -1 || r->logprobs > (int32_t)GP_LIMIT_LOGPROBS)
        return gp_fail(err, GP_EINVAL, "logprobs: %d; 0 to %u", r->logprobs, GP_LIMIT_LOGPROBS);
    if (r->prompt_logprobs < -1 || r->prompt_logprobs > (int32_t)GP_LIMIT_LOGPROBS)
        return gp_fail(err, GP_EINVAL, "prompt logprobs: %d; 0 to %u", r->prompt_logprobs,
                       GP_LIMIT_LOGPROBS);
    if (r->stop_id_count > GP_LIMIT_STOP_IDS)
        return gp_fail(err, GP_EINVAL, "stop ids: %u; at most %u", r->stop_id_count,
                       GP_LIMIT_STOP_IDS);
    return GP_OK;
}

/* The request's arrays, one behind another in one block.  With block NULL only the size is
 * counted. */
struct layout {
    uint8_t *block;
    size_t at;
};

static void *place(struct layout *layout, size_t count, size_t size)
{
    void *here = layout->block ? layout->block + layout->at : NULL;

    layout->at += (count * size + 63) / 64 * 64;
    return count ? here : NULL;
}

static void *place_copy(struct layout *layout, const void *from, size_t count, size_t size)
{
    void *here = place(layout, count, size);

    if (here)
        memcpy(here, from, count * size);
    return here;
}

static void lay_out(const struct gp_engine *engine, struct request *request, struct layout *layout)
{
    struct gp_request *asked = &request->asked;
    size_t prompt = asked->token_count, output = request->max_tokens;
    size_t tops = asked->logprobs > 0 ? (size_t)asked->logprobs : 0;
    size_t prompt_tops = asked->prompt_logprobs > 0 ? (size_t)asked->prompt_logprobs : 0;
    /* Each boundary frees at least one page of slots. */
    size_t events = (prompt + output) / engine->options.page_tokens + 2;

    if (request->kv.trigger == GP_TRIGGER_STEPS)
        events += output / request->kv.trigger_steps + 1;
    events = events > GP_BOUNDARIES_KEPT ? GP_BOUNDARIES_KEPT : events;
    asked->tokens = place_copy(layout, asked->tokens, prompt, sizeof *asked->tokens);
    asked->stop_ids = place_copy(layout, asked->stop_ids, asked->stop_id_count, sizeof(int32_t));
    if (asked->cache_salt)
        asked->cache_salt = place_copy(layout, asked->cache_salt, strlen(asked->cache_salt) + 1, 1);
    asked->forced = place_copy(layout, asked->forced, asked->forced_count, sizeof(int32_t));
    asked->sampling.bias = place_copy(layout, asked->sampling.bias, asked->sampling.bias_count,
                                      sizeof *asked->sampling.bias);
    if (asked->prompt_logprobs >= 0)
        request->prompt_logprobs = place(layout, prompt, sizeof *request->prompt_logprobs);
    request->prompt_tops = place(layout, prompt * prompt_tops, sizeof *request->prompt_tops);
    request->choices = place(layout, asked->n, sizeof *request->choices);
    for (uint32_t i = 0; i < asked->n; i++) {
        struct choice choice = {
            .index = i,
            .force_next = GP_GO,
            .event_max = (uint32_t)events,
            .tokens = place(layout, prompt + output, sizeof(int32_t)),
        };

        if (choice.tokens)
            memcpy(choice.tokens, asked->tokens, prompt * sizeof(int32_t));
        if (asked->logprobs >= 0)
            choice.logprobs = place(layout, output, sizeof *choice.logprobs);
        choice.tops = place(layout, output * tops, sizeof *choice.tops);
        choice.events = place(layout, events, sizeof *choice.events);
        if (request->choices)
            request->choices[i] = choice;
    }
}

uint64_t gp_request_id(const struct gp_engine *engine, const struct request *request)
{
    return (uint64_t)request->generation << SLOT_BITS | (uint64_t)(request - engine->requests);
}

static struct request *free_slot(struct gp_engine *engine)
{
    for (uint32_t i = 0; i < engine->request_max; i++)
        if (!engine->requests[i].used)
            return &engine->requests[i];
    return NULL;
}

/* Under the lock. */
int gp_request_place(struct gp_engine *engine, const struct request *made, struct request **out,
                     struct gp_error *err)
{
    struct request *request = free_slot(engine);
    struct request counted = *made;
    struct layout layout = {0};

    if (!request || engine->sequences_out + made->asked.n > engine->sequences_max)
        return gp_fail(err, GP_EAGAIN,
                       "queue: full, %u requests are running or waiting, and finished ones have to "
                       "be released",
                       engine->sequences_out);
    lay_out(engine, &counted, &layout);
    size_t most = engine->slab.unit_count * GP_SLAB_UNIT;

    if (layout.at > most)
        return gp_fail(err, GP_EINVAL,
                       "request: n, max_tokens and logprobs together take %zu bytes; %zu are there",
                       layout.at, most);
    layout = (struct layout){.block = gp_slab_take(&engine->slab, layout.at)};
    if (!layout.block)
        return gp_fail(err, GP_EAGAIN, "queue: no memory left for a request of this length now");
    uint32_t generation = request->generation + 1;

    *request = *made;
    request->generation = generation ? generation : 1;
    request->block = layout.block;
    lay_out(engine, request, &layout);
    request->block_bytes = layout.at;
    request->used = true;
    request->open_choices = request->asked.n;
    engine->sequences_out += request->asked.n;
    *out = request;
    return GP_OK;
}

/* No more alternatives than there are tokens. */
static int32_t at_most(int32_t logprobs, uint32_t vocab)
{
    return logprobs > (int32_t)vocab ? (int32_t)vocab : logprobs;
}

int gp_request_make(const struct gp_engine *engine, const struct gp_request *asked,
                    struct request *made, struct gp_error *err)
{
    int rc = check_request(engine, asked, err);

    if (rc)
        return rc;
    uint32_t room = engine->options.context - asked->token_count;

    *made = (struct request){.asked = *asked, .submitted_ns = gp_clock_ns()};
    made->asked.n = asked->n ? asked->n : 1;
    made->asked.logprobs = at_most(asked->logprobs, engine->vocab);
    made->asked.prompt_logprobs = at_most(asked->prompt_logprobs, engine->vocab);
    made->max_tokens = asked->max_tokens && asked->max_tokens < room ? asked->max_tokens : room;
    made->kv = asked->kv ? *asked->kv : engine->options.kv;
    made->asked.kv = NULL;
    made->seed = asked->sampling.has_seed ? asked->sampling.seed : gp_rng_entropy();
    return GP_OK;
}

int gp_engine_submit(struct gp_engine *engine, const struct gp_request *asked, uint64_t *id,
                     struct gp_error *err)
{
    struct request made, *request;
    int rc = gp_request_make(engine, asked, &made, err);

    if (rc)
        return rc;
    pthread_mutex_lock(&engine->lock);
    rc = gp_request_place(engine, &made, &request, err);
    if (!rc) {
        request->submitted = true;
        engine->inbox[engine->inbox_count++] = (uint32_t)(request - engine->requests);
        *id = gp_request_id(engine, request);
    }
    pthread_mutex_unlock(&engine->lock);
    if (!rc)
        gp_event_raise(engine->work_fd);
    return rc;
}

/* ---- the engine's side ---- */

/* Pages are shared under one salt between keys of one form. */
static struct gp_prefix_place root_of(const struct request *request)
{
    struct {
        uint64_t salt[2];
        uint32_t before_rope;
        uint32_t zero;
    } key = {.before_rope = gp_policy_needs(&request->kv).rotation};
    const char *salt = request->asked.cache_salt ? request->asked.cache_salt : "";
    struct gp_prefix_place place = gp_prefix_root(salt, strlen(salt));

    memcpy(key.salt, place.root, sizeof key.salt);
    return gp_prefix_root(&key, sizeof key);
}

/* The first choice computes the prompt, and the others share it. */
static void share(struct gp_engine *engine, struct request *request, struct choice *choice)
{
    bool wants_logits = choice->index == 0 && request->prompt_logprobs;
    const struct gp_seq *leader = choice->index > 0 ? request->choices[0].seq : NULL;

    gp_sched_share(engine->sched, choice->seq, choice->tokens, root_of(request),
                   wants_logits ? 0 : UINT32_MAX, leader);
}

static void start(struct gp_engine *engine, struct request *request)
{
    for (uint32_t i = 0; i < request->asked.n; i++) {
        struct choice *choice = &request->choices[i];
        struct gp_kv_options kv = request->kv;

        /* Choices draw from streams of their own. */
        kv.seed += i;
        choice->seq =
            gp_sched_add(engine->sched, request->asked.token_count, &kv, request->asked.priority);
        gp_assert(choice->seq); /* sequences_out bounds them */
        choice->seq->tokens_most = request->asked.token_count + request->max_tokens;
        share(engine, request, choice);
        engine->owners[choice->seq->index] = (struct owner){request, choice};
    }
}

/* Under the lock: a request that waits in the inbox leaves it without ever having run. */
static void drop_submitted(struct gp_engine *engine, struct request *request)
{
    for (uint32_t i = 0; i < request->asked.n; i++)
        request->choices[i].finish = request->choices[i].finish_seen = GP_FINISH_CANCELLED;
    engine->sequences_out -= request->asked.n;
    request->open_choices = 0;
    request->submitted = request->cancel = false;
    if (request->release)
        free_request(engine, request);
    else
        request->news = engine->any_news = true;
}

static void carry_out_cancels(struct gp_engine *engine)
{
    if (!engine->cancels)
        return;
    engine->cancels = false;
    for (uint32_t i = 0; i < engine->request_max; i++) {
        struct request *request = &engine->requests[i];

        if (!request->used || !request->cancel)
            continue;
        request->cancel = false;
        for (uint32_t c = 0; c < request->asked.n; c++)
            if (request->choices[c].seq)
                gp_choice_done(engine, request, &request->choices[c], GP_FINISH_CANCELLED);
    }
}

void gp_requests_drain(struct gp_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    gp_event_clear(engine->work_fd);
    for (uint32_t i = 0; i < engine->inbox_count; i++) {
        struct request *request = &engine->requests[engine->inbox[i]];

        if (request->cancel) {
            drop_submitted(engine, request);
        } else {
            request->submitted = false;
            start(engine, request);
        }
    }
    engine->inbox_count = 0;
    carry_out_cancels(engine);
    pthread_mutex_unlock(&engine->lock);
}

void gp_choice_done(struct gp_engine *engine, struct request *request, struct choice *choice,
                    enum gp_finish finish)
{
    gp_assert(choice->seq && request->open_choices > 0);
    choice->finish = finish;
    /* What it held at its end; finishing gives it all back. */
    choice->pages_end = choice->seq->pages;
    choice->slots_end = choice->seq->cached;
    gp_sched_finish(engine->sched, choice->seq);
}

/* A token's time is that at which it can be read. */
static void date_tokens(struct gp_engine *engine, const struct request *request,
                        struct choice *choice, uint64_t now)
{
    if (choice->output_seen == choice->output_count)
        return;
    choice->last_token_ns = now;
    if (choice->output_seen == 0)
        choice->first_token_ns = now;
    gp_figures_token(engine, request, choice);
}

static double token_ms(const struct choice *choice)
{
    uint64_t ns = choice->last_token_ns - choice->first_token_ns;

    return choice->output_count > 1 ? (double)ns / 1e6 / (choice->output_count - 1) : 0;
}

static void snapshot(struct gp_engine *engine, struct request *request, struct choice *choice)
{
    const struct gp_seq *seq = choice->seq;
    uint64_t first = choice->first_token_ns, last = choice->last_token_ns;
    bool done = seq->state == GP_SEQ_DONE;

    if (choice->output_seen != choice->output_count || choice->event_seen != choice->event_count ||
        done || request->prompt_scored_seen != request->prompt_scored)
        request->news = engine->any_news = true;
    choice->output_seen = choice->output_count;
    choice->event_seen = choice->event_count;
    choice->finish_seen = choice->finish;
    choice->stats_seen = (struct gp_request_stats){
        .prompt_tokens = request->asked.token_count,
        .cached_tokens = seq->skipped,
        .output_tokens = choice->output_count,
        .seed = request->seed,
        .queue_ns = choice->admitted_ns ? choice->admitted_ns - request->submitted_ns : 0,
        .prefill_ns = first ? first - choice->admitted_ns : 0,
        .decode_ns = last - first,
        .tpot_ms = token_ms(choice),
        .pages = done ? choice->pages_end : seq->pages,
        .pages_peak = seq->pages_peak,
        .pages_mean = seq->decode_steps ? (double)seq->pages_sum / seq->decode_steps : seq->pages,
        .slots = done ? choice->slots_end : seq->cached,
        .grow = seq->grow,
        .compress = seq->compress + seq->cuts,
        .shrink = seq->shrink,
        .start = seq->start,
        .initial = seq->initial,
        .pressure = seq->pressure,
        .capped = seq->capped,
        .fallback = seq->fallback,
        .preempt = seq->preempt,
        .demand_ns = choice->demand_ns,
        .score_ns = choice->stages.score_ns,
        .select_ns = choice->stages.select_ns,
        .compact_ns = choice->stages.compact_ns,
        .boundary_count = choice->event_count,
    };
    request->prompt_scored_seen = request->prompt_scored;
}

static void add_counters(struct gp_engine_stats *stats, const struct gp_seq *seq)
{
    stats->grow += seq->grow;
    stats->compress += seq->compress + seq->cuts;
    stats->shrink += seq->shrink;
    stats->start += seq->start;
    stats->initial += seq->initial;
    stats->pressure += seq->pressure;
    stats->capped += seq->capped;
    stats->fallback += seq->fallback;
    stats->preempt += seq->preempt;
}

static void retire(struct gp_engine *engine, struct request *request, struct choice *choice)
{
    gp_tracer_finished(engine, request, choice);
    gp_figures_ended(engine, &choice->stats_seen);
    add_counters(&engine->retired, choice->seq);
    engine->owners[choice->seq->index] = (struct owner){0};
    gp_sched_forget(engine->sched, choice->seq);
    choice->seq = NULL;
    request->open_choices--;
    engine->sequences_out--;
    if (request->open_choices == 0 && request->release)
        free_request(engine, request);
}

/* What has been counted once stands still: the sum over those that are gone and those that are
 * not. */
static void sum_counters(struct gp_engine *engine)
{
    struct gp_engine_stats sum = engine->retired;

    for (uint32_t i = 0; i < engine->owner_count; i++)
        if (engine->owners[i].choice)
            add_counters(&sum, engine->owners[i].choice->seq);
    engine->stats.grow = sum.grow;
    engine->stats.compress = sum.compress;
    engine->stats.shrink = sum.shrink;
    engine->stats.start = sum.start;
    engine->stats.initial = sum.initial;
    engine->stats.pressure = sum.pressure;
    engine->stats.capped = sum.capped;
    engine->stats.fallback = sum.fallback;
    engine->stats.preempt = sum.preempt;
}

void gp_requests_publish(struct gp_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    uint64_t now = gp_clock_ns();

    sum_counters(engine);
    for (uint32_t i = 0; i < engine->owner_count; i++) {
        struct owner owner = engine->owners[i];

        if (!owner.choice || !owner.choice->seq)
            continue;
        date_tokens(engine, owner.request, owner.choice, now);
        snapshot(engine, owner.request, owner.choice);
        if (owner.choice->seq->state == GP_SEQ_DONE)
            retire(engine, owner.request, owner.choice);
    }
    engine->stats.running = gp_sched_running(engine->sched);
    engine->stats.waiting = gp_sched_waiting(engine->sched);
    engine->stats.prefix_asked = gp_sched_prefix_asked(engine->sched);
    engine->stats.prefix_found = gp_sched_prefix_found(engine->sched);
    engine->stats.pages_free = gp_pool_free_count(engine->pool);
    engine->stats.pages_used = gp_pool_total(engine->pool) - engine->stats.pages_free;
    engine->stats.pages_used_max = gp_pool_used_max(engine->pool);
    gp_figures_sum(engine, now);
    engine->stats_seen = engine->stats;
    bool news = engine->any_news;

    engine->any_news = false;
    pthread_mutex_unlock(&engine->lock);
    if (news)
        gp_event_raise(engine->news_fd);
}

/* ---- readers ---- */

void gp_engine_cancel(struct gp_engine *engine, uint64_t id)
{
    pthread_mutex_lock(&engine->lock);
    struct request *request = gp_request_find(engine, id);
    bool open = request && request->open_choices > 0;

    if (open)
        request->cancel = engine->cancels = true;
    pthread_mutex_unlock(&engine->lock);
    if (open)
        gp_event_raise(engine->work_fd);
}

void gp_engine_release(struct gp_engine *engine, uint64_t id)
{
    pthread_mutex_lock(&engine->lock);
    struct request *request = gp_request_find(engine, id);
    bool open = request && request->open_choices > 0;

    if (open)
        request->cancel = request->release = engine->cancels = true;
    else if (request)
        free_request(engine, request);
    pthread_mutex_unlock(&engine->lock);
    if (open)
        gp_event_raise(engine->work_fd);
}

int gp_engine_news_fd(const struct gp_engine *engine)
{
    return engine->news_fd;
}

int gp_engine_work_fd(const struct gp_engine *engine)
{
    return engine->work_fd;
}

uint32_t gp_engine_poll(struct gp_engine *engine, uint64_t *ids, uint32_t max)
{
    uint32_t count = 0;

    pthread_mutex_lock(&engine->lock);
    const uint32_t begin = engine->poll_begin;

    gp_event_clear(engine->news_fd);
    for (uint32_t i = 0; i < engine->request_max; i++) {
        const uint32_t at = (begin + i) % engine->request_max;
        struct request *request = &engine->requests[at];

        if (!request->used || !request->news)
            continue;
        if (count == max) { /* more than was asked for: the rest comes first the next time */
            engine->poll_begin = at;
            gp_event_raise(engine->news_fd);
            break;
        }
        request->news = false;
        ids[count++] = gp_request_id(engine, request);
    }
    pthread_mutex_unlock(&engine->lock);
    return count;
}

uint32_t gp_engine_read(struct gp_engine *engine, uint64_t id, uint32_t index, uint32_t from,
                        struct gp_token *out, uint32_t max, enum gp_finish *finish)
{
    uint32_t count = 0;

    pthread_mutex_lock(&engine->lock);
    struct request *request = gp_request_find(engine, id);
    struct choice *choice = find_choice(engine, id, index);

    for (; choice && count < max && from + count < choice->output_seen; count++) {
        uint32_t at = from + count;

        out[count].id = choice->tokens[request->asked.token_count + at];
        out[count].logprob = choice->logprobs ? choice->logprobs[at] : 0.0f;
    }
    if (finish)
        *finish = choice ? choice->finish_seen : GP_FINISH_CANCELLED;
    pthread_mutex_unlock(&engine->lock);
    return count;
}

uint32_t gp_engine_alternatives(struct gp_engine *engine, uint64_t id, uint32_t index, bool prompt,
                                uint32_t token, struct gp_logprob *out, uint32_t max)
{
    const struct gp_logprob *tops = NULL;
    uint32_t width = 0;

    pthread_mutex_lock(&engine->lock);
    struct request *request = gp_request_find(engine, id);
    struct choice *choice = find_choice(engine, id, index);

    if (choice && prompt && token >= 1 && token < request->prompt_scored_seen) {
        width = request->prompt_tops ? (uint32_t)request->asked.prompt_logprobs : 0;
        tops = request->prompt_tops;
    } else if (choice && !prompt && token < choice->output_seen) {
        width = choice->tops ? (uint32_t)request->asked.logprobs : 0;
        tops = choice->tops;
    }
    if (width > max)
        width = max;
    if (width) {
        uint32_t stride =
            (uint32_t)(prompt ? request->asked.prompt_logprobs : request->asked.logprobs);

        memcpy(out, tops + (size_t)token * stride, width * sizeof *out);
    }
    pthread_mutex_unlock(&engine->lock);
    return width;
}

float gp_engine_prompt_logprob(struct gp_engine *engine, uint64_t id, uint32_t token)
{
    float logprob = 0.0f;

    pthread_mutex_lock(&engine->lock);
    struct request *request = gp_request_find(engine, id);

    if (request && request->prompt_logprobs && token >= 1 && token < request->prompt_scored_seen)
        logprob = request->prompt_logprobs[token];
    pthread_mutex_unlock(&engine->lock);
    return logprob;
}

bool gp_engine_request_stats(struct gp_engine *engine, uint64_t id, uint32_t index,
                             struct gp_request_stats *stats)
{
    pthread_mutex_lock(&engine->lock);
    struct choice *choice = find_choice(engine, id, index);

    if (choice)
        *stats = choice->stats_seen;
    pthread_mutex_unlock(&engine->lock);
    return choice != NULL;
}

bool gp_engine_boundary(struct gp_engine *engine, uint64_t id, uint32_t index, uint32_t number,
                        struct gp_boundary_event *event)
{
    pthread_mutex_lock(&engine->lock);
    struct choice *choice = find_choice(engine, id, index);
    bool found = choice && number < choice->event_seen;

    if (found)
        *event = choice->events[number];
    pthread_mutex_unlock(&engine->lock);
    return found;
}

void gp_engine_stats(struct gp_engine *engine, struct gp_engine_stats *stats)
{
    pthread_mutex_lock(&engine->lock);
    *stats = engine->stats_seen;
    pthread_mutex_unlock(&engine->lock);
}
