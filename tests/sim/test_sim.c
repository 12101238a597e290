/* Seeded simulation: thousands of small worlds, each with a pool far too small for its load.
 *
 * A world is a pool, a scheduler and some requests over the fake model.  After every step: the
 * walkers hold, some row ran, no page was written by two, and every row saw exactly what it saw the
 * first time, however often it was preempted and replayed.  In the end every request has finished,
 * every page is back, and the tokens and decisions are those of a model of one request that knows
 * no scheduler (`solo`), as far as nothing that may change them happened.
 *
 * GP_WORLDS and GP_SEED choose how many worlds and which. */
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "engine/sched.h"
#include "sim/fake_model.h"

#define REQUESTS_MAX 10u
#define CONTEXT_MAX  160u
#define PAGES_MAX    96u /* of the pool, and of a solo run: a full context in pages of 2 */
#define PAGE_MAX     8u
#define SEQS_MAX     6u
#define NEVER        UINT32_MAX
#define STEPS_MAX    100000u
#define HOOK_STEPS   500u /* preempted for ever, a replay of one row a step would never end */

struct taken {
    enum gp_policy_action action;
    enum gp_policy_cause cause;
    uint32_t tokens, pages_before;
};

enum fate {
    NOT_YET,
    LIVE,
    FINISHED,
    CANCELLED,
    STUCK,
    REFUSED,
};

struct request {
    enum fate fate;
    struct gp_kv_options kv;
    uint32_t prompt_count, output_max, arrive_at, cancel_at;
    struct gp_seq *seq;
    struct request *leader; /* a choice of the same prompt that arrives before, or NULL */
    uint32_t salt, skip_max;
    int32_t priority;
    bool shares;

    uint32_t tokens[CONTEXT_MAX + 1];
    uint32_t token_count;
    uint64_t seen[CONTEXT_MAX]; /* what each row saw when it first ran; 0: it never did */
    uint32_t run_from;          /* the first row of the present run */
    struct taken taken[CONTEXT_MAX];
    uint32_t taken_count;
    uint32_t trusted; /* tokens that must be the solo run's */
    uint32_t preempts;
    bool runs;      /* rows of it have run since it was admitted */
    uint32_t batch; /* static batching: 0 while it waits */
    uint32_t cuts;
    uint64_t pages_sum;
};

/* How often the things happened that the worlds are made for. */
struct marks {
    uint64_t steps, rows, grow, compress, shrink, start, initial, pressure, capped, fallback,
        preempt, gave_way, stuck, cancelled, refused, replayed, recomputed, cut, prefill_overlap,
        batches, members, held_back, own_cuts, replayed_cuts, skipped, stored, stand_ins, tails,
        in_flight, abandoned;
};

struct world {
    struct gp_rng rng;
    struct gp_sched_options options;
    struct gp_pool *pool;
    struct gp_sched *sched;
    struct fake_cache cache;
    uint64_t cells[PAGES_MAX * PAGE_MAX * FAKE_HEADS];
    uint64_t summaries[SEQS_MAX];
    uint32_t writer[PAGES_MAX], written_at[PAGES_MAX];
    struct request requests[REQUESTS_MAX];
    uint32_t request_count, over;
    struct request *owner[SEQS_MAX + REQUESTS_MAX];
    uint32_t step;
    uint32_t hook_preempts; /* one step in so many preempts somebody; 0: none */
    bool takes_refused;
    bool paced;           /* prompts are limited beside decode rows */
    uint32_t prompt_rows; /* ... to so many rows now                 */
    uint32_t batch;       /* static batching: the one that runs, or ran last */
    bool batch_begins;    /* none of it has decoded                          */
    uint64_t batch_pages;
    struct marks *marks;
};

static uint64_t base_seed;
static volatile uint32_t world_now;

#define CHECK(w, x)                                                                                \
    do {                                                                                           \
        if (!(x))                                                                                  \
            fail_msg("GP_SEED=%" PRIu64 " world %u step %u: %s", base_seed, world_now, (w)->step,  \
                     #x);                                                                          \
    } while (0)

/* A broken invariant aborts; say in which world. */
static void on_abort(int number)
{
    (void)number;
    fprintf(stderr, "GP_SEED=%" PRIu64 " world %u\n", base_seed, world_now);
}

/* ---- one request with no scheduler ---- */

static bool is_over(const struct request *r, uint32_t outputs, uint32_t token, uint32_t context)
{
    return outputs >= r->output_max || token % 61 == 0 || r->prompt_count + outputs >= context;
}

struct solo {
    struct fake_cache cache;
    uint64_t cells[PAGES_MAX * PAGE_MAX * FAKE_HEADS];
    uint32_t table[PAGES_MAX];
    uint32_t pages, cached;
    uint64_t summary;
    bool has_summary, reached_initial;
    struct request out;
};

static void solo_boundary(struct solo *s, uint32_t tokens)
{
    uint32_t b = s->cache.page_tokens;
    const struct gp_kv_options *kv = &s->out.kv;
    struct gp_boundary_view view = {
        .page_tokens = b,
        .pages = s->pages,
        .pool_total = 1,
        .index = s->out.taken_count,
        .has_summaries = s->has_summary,
        .reached_initial = s->reached_initial,
    };
    double delta = 0;

    if (gp_policy_wants_signal(kv, &view))
        delta = fake_measure(&s->cache, s->table, s->cached, s->summary).delta;
    struct gp_decision decision = gp_policy_decide(kv, &view, delta);

    s->out.taken[s->out.taken_count++] =
        (struct taken){decision.action, decision.cause, tokens, s->pages};
    if (decision.action == GP_DO_GROW) {
        s->pages++;
    } else {
        struct gp_retention r = gp_policy_retention(kv, b, s->pages, decision.action);

        fake_compact(&s->cache, s->table, s->cached, s->summary, &r);
        s->pages = r.pages_after;
        s->cached = r.keep + r.protect;
    }
}

/* A policy with a trigger of its own cuts before a row, and asks nobody. */
static void solo_cut(struct solo *s, uint32_t tokens)
{
    uint32_t b = s->cache.page_tokens;
    const struct gp_kv_options *kv = &s->out.kv;

    if (gp_policy_rows_to_cut(kv, b, s->out.prompt_count, tokens, s->cached) > 0)
        return;
    struct gp_retention r = gp_policy_cut(kv, b, s->pages);

    fake_compact(&s->cache, s->table, s->cached, s->summary, &r);
    s->pages = r.pages_after;
    s->cached = r.keep + r.protect;
    s->out.cuts++;
}

static void run_solo(struct solo *s, const struct request *request, uint32_t b, uint32_t context)
{
    struct request *out = &s->out;
    uint32_t prompt = request->prompt_count, initial = gp_policy_initial_pages(&request->kv, b);

    *out = *request;
    out->token_count = prompt;
    out->taken_count = 0;
    out->cuts = 0;
    out->pages_sum = 0;
    s->cache = (struct fake_cache){s->cells, b};
    s->pages = (prompt + b - 1) / b;
    s->cached = 0;
    s->has_summary = s->reached_initial = false;
    for (uint32_t i = 0; i < PAGES_MAX; i++)
        s->table[i] = i;
    for (uint32_t position = 0;; position++) {
        s->reached_initial |= initial > 0 && s->pages >= initial;
        solo_cut(s, position);
        if (s->cached == s->pages * b) {
            solo_boundary(s, position);
            s->reached_initial |= initial > 0 && s->pages >= initial;
        }
        uint64_t seen = fake_row(&s->cache, s->table, s->cached++, out->tokens[position], position);

        if (position >= prompt) {
            s->summary = fake_summary(s->summary, !s->has_summary, seen);
            s->has_summary = true;
            out->pages_sum += s->pages;
        }
        if (position + 1 < prompt)
            continue;
        out->tokens[out->token_count++] = fake_next(seen);
        if (is_over(out, out->token_count - prompt, fake_next(seen), context))
            return;
    }
}

static uint32_t between(struct gp_rng *rng, uint32_t low, uint32_t high)
{
    return low + gp_rng_below(rng, high - low + 1);
}

static bool one_in(struct gp_rng *rng, uint32_t n)
{
    return gp_rng_below(rng, n) == 0;
}

/* ---- what the scheduler asks of its owner ---- */

static struct gp_signal measure(void *ctx, struct gp_seq *seq)
{
    struct world *w = ctx;

    CHECK(w, seq->has_summaries && seq->pages >= 2);
    CHECK(w, seq->cached == seq->pages * w->options.page_tokens);
    return fake_measure(&w->cache, seq->table, seq->cached, w->summaries[seq->query_slot]);
}

/* Is it the policy's own trigger that asks? */
static bool cuts_of_its_own(const struct gp_seq *seq, uint32_t b)
{
    return gp_policy_rows_to_cut(&seq->kv, b, seq->prefill_count, seq->computed, seq->cached) == 0;
}

/* What a scorer goes by was left behind by rows of this run. */
static void check_rows_have_run(struct world *w, const struct gp_seq *seq)
{
    struct gp_policy_needs needs = gp_policy_needs(&seq->kv);
    uint32_t run_from = w->owner[seq->index]->run_from;

    CHECK(w, !needs.every_row || run_from == 0);
    CHECK(w, run_from == 0 || seq->computed - run_from >= needs.window);
}

static void check_compaction(struct world *w, const struct gp_seq *seq,
                             const struct gp_retention *r)
{
    check_rows_have_run(w, seq);
    CHECK(w, seq->has_summaries);
    if (cuts_of_its_own(seq, w->options.page_tokens)) {
        CHECK(w, seq->cached > r->keep + r->protect);
    } else {
        CHECK(w, seq->pages >= 2);
        CHECK(w, seq->cached == seq->pages * w->options.page_tokens);
    }
    for (uint32_t i = 0; i < r->pages_after; i++) {
        CHECK(w, gp_pool_refs(w->pool, seq->table[i]) == 1);
        CHECK(w, !gp_sched_prefix(w->sched) ||
                     !gp_prefix_has(gp_sched_prefix(w->sched), seq->table[i]));
    }
    if (r->pages_after + 1 < seq->pages)
        w->marks->cut++;
}

static void compact(void *ctx, struct gp_seq *seq, const struct gp_retention *r)
{
    struct world *w = ctx;

    check_compaction(w, seq, r);
    fake_compact(&w->cache, seq->table, seq->cached, w->summaries[seq->query_slot], r);
}

static void copy(void *ctx, uint32_t from, uint32_t to, uint32_t slots)
{
    struct world *w = ctx;

    CHECK(w, gp_pool_refs(w->pool, from) >= 1 && gp_pool_refs(w->pool, to) == 1);
    fake_copy(&w->cache, from, to, slots);
    if (slots == w->options.page_tokens)
        w->marks->stand_ins++;
    else
        w->marks->tails++;
}

/* Slices of the compactions in flight: a head at a time, and at least one where nothing else can
 * run. */
static void advance_compactions(struct world *w, bool must)
{
    for (struct gp_seq *seq; (seq = gp_sched_compaction(w->sched)) != NULL;) {
        if (!must && one_in(&w->rng, 2))
            return;
        must = false;
        if (seq->items_done == 0)
            check_compaction(w, seq, &seq->retention);
        fake_compact_head(&w->cache, seq->table, seq->cached, w->summaries[seq->query_slot],
                          &seq->retention, seq->items_done++);
        w->marks->in_flight++;
        if (seq->items_done == FAKE_HEADS)
            gp_sched_compacted(w->sched, seq);
    }
}

static void boundary(void *ctx, const struct gp_seq *seq, struct gp_decision decision,
                     const struct gp_signal *signal, uint32_t pages_before)
{
    struct world *w = ctx;
    struct request *r = w->owner[seq->index];

    CHECK(w, r->taken_count < CONTEXT_MAX);
    CHECK(w, !signal || decision.cause != GP_BECAUSE_INITIAL);
    /* No boundary: at full pages such a policy only grows, unless it is made to cut. */
    if (seq->kv.trigger == GP_TRIGGER_STEPS && decision.cause == GP_BECAUSE_POLICY &&
        gp_policy_scores(&seq->kv)) {
        CHECK(w, decision.action == GP_DO_COMPRESS);
        return;
    }
    r->taken[r->taken_count++] =
        (struct taken){decision.action, decision.cause, seq->computed, pages_before};
    if (decision.action == GP_DO_GROW && seq->pages == pages_before)
        w->marks->gave_way++;
    /* The last token is drawn already; what it sees is another history now. */
    if (decision.cause == GP_BECAUSE_FALLBACK && seq->computed + 1 < r->trusted)
        r->trusted = seq->computed + 1;
}

static void preempted(void *ctx, struct gp_seq *seq)
{
    struct world *w = ctx;
    struct request *r = w->owner[seq->index];

    CHECK(w, seq->state == GP_SEQ_WAITING && seq->held == 0);
    r->preempts++;
    r->runs = false;
    r->batch = 0;
    if (seq->kv.resume == GP_RESUME_REPLAY)
        return;
    memset(r->seen, 0, sizeof r->seen);
    if (r->token_count < r->trusted)
        r->trusted = r->token_count;
}

/* ---- making a world ---- */

/* The scheduler sees of a scorer when it cuts and what it leaves. */
static void make_scored(struct world *w, struct request *r)
{
    uint32_t b = w->options.page_tokens;

    r->kv.protect = between(&w->rng, 1, b - 1);
    r->kv.scorer = (struct gp_scorer){.window = between(&w->rng, 1, 2 * b), .keep_order = true};
    if (one_in(&w->rng, 4))
        r->kv.scorer.source = GP_SCORE_ALL;
    r->kv.scorer.count_prompt = one_in(&w->rng, 2);
    r->kv.budget_tokens = between(&w->rng, r->kv.protect + 1, 6 * b);
    r->kv.trigger = (enum gp_kv_trigger)gp_rng_below(&w->rng, GP_TRIGGER_TOKEN + 1);
    r->kv.trigger_steps = between(&w->rng, 1, 2 * b);
}

static void make_request(struct world *w, struct request *r)
{
    struct gp_rng *rng = &w->rng;
    uint32_t b = w->options.page_tokens, context = w->options.context;

    *r = (struct request){.fate = NOT_YET, .cancel_at = NEVER, .trusted = NEVER};
    gp_policy_defaults(&r->kv);
    r->kv.policy = (enum gp_policy)gp_rng_below(rng, GP_POLICY_STREAMING + 1);
    r->kv.budget_tokens = between(rng, 1, 6 * b);
    r->kv.seed = gp_rng_next(rng);
    r->kv.compress_probability = gp_rng_uniform(rng);
    r->kv.shrink_floor = one_in(rng, 2) ? 0 : between(rng, 0, 4 * b);
    r->kv.shrink_threshold = -0.004 * gp_rng_uniform(rng);
    r->kv.threshold = 0.004 * gp_rng_uniform(rng);
    r->kv.initial_pages = between(rng, 2, 4);
    r->kv.max_pages = one_in(rng, 3) ? between(rng, 2, 6) : 0;
    r->kv.pressure = one_in(rng, 8) ? gp_rng_uniform(rng) : 0;
    r->kv.local = one_in(rng, 2) ? 0 : between(rng, 1, b);
    r->kv.protect = one_in(rng, 2) ? 0 : between(rng, 1, b - 1);
    r->kv.fallback = one_in(rng, 2) ? GP_FALLBACK_PREEMPT : GP_FALLBACK_COMPRESS;
    r->kv.resume = one_in(rng, 6) ? GP_RESUME_RECOMPUTE : GP_RESUME_REPLAY;
    if (gp_policy_scores(&r->kv))
        make_scored(w, r);
    r->prompt_count = between(rng, 1, one_in(rng, 4) ? context : (context + 3) / 4);
    r->output_max = between(rng, 0, context);
    r->arrive_at = between(rng, 0, 40);
    if (one_in(rng, 8))
        r->cancel_at = r->arrive_at + between(rng, 0, 60);
    r->salt = gp_rng_below(rng, 2);
    r->shares = !one_in(rng, 8);
    r->priority = one_in(rng, 3) ? (int32_t)between(rng, 0, 4) - 2 : 0;
    r->skip_max = one_in(rng, 6) ? between(rng, 0, context) : UINT32_MAX;
    for (uint32_t i = 0; i < r->prompt_count; i++)
        r->tokens[i] = (uint32_t)gp_rng_next(rng);
    r->token_count = r->prompt_count;
    if (r->kv.pressure > 0)
        r->trusted = 0;
}

/* Begin as another request does, or be another choice of it. */
static void resemble(struct world *w, struct request *r, struct request *other)
{
    if (one_in(&w->rng, 2)) {
        uint32_t same = between(&w->rng, 0, other->prompt_count);

        same = same < r->prompt_count ? same : r->prompt_count;
        memcpy(r->tokens, other->tokens, same * sizeof *r->tokens);
        r->salt = other->salt;
        return;
    }
    memcpy(r->tokens, other->tokens, other->prompt_count * sizeof *r->tokens);
    r->prompt_count = r->token_count = other->prompt_count;
    r->arrive_at = other->arrive_at;
    r->salt = other->salt;
    r->priority = other->priority;
    r->leader = other;
}

static void open_world(struct world *w, uint64_t seed, struct marks *marks)
{
    struct gp_rng *rng = &w->rng;
    struct gp_sched_ops ops = {
        .measure = measure,
        .compact = compact,
        .copy = copy,
        .boundary = boundary,
        .preempted = preempted,
        .ctx = w,
    };
    struct gp_error err;

    w->rng.state = seed;
    w->marks = marks;
    w->step = w->over = w->batch = 0;
    w->paced = one_in(rng, 3);
    w->prompt_rows = UINT32_MAX;
    w->takes_refused = false;
    memset(w->written_at, 0xff, sizeof w->written_at);
    w->options = (struct gp_sched_options){
        .page_tokens = between(rng, 2, 8),
        .max_seqs = between(rng, 1, SEQS_MAX),
        .max_waiting = between(rng, 1, REQUESTS_MAX),
        .context = between(rng, 4, CONTEXT_MAX),
        .watermark = one_in(rng, 4) ? between(rng, 1, 3) : 0,
        .prefix_cache = !one_in(rng, 4),
        .asynchronous = one_in(rng, 2),
        .preempt = one_in(rng, 3) ? GP_PREEMPT_LEAST_COMPUTED : GP_PREEMPT_NEWEST,
        .static_batches = one_in(rng, 5),
    };
    w->options.max_batch_tokens = w->options.max_seqs + between(rng, 0, 20);
    w->cache = (struct fake_cache){w->cells, w->options.page_tokens};
    w->hook_preempts = one_in(rng, 3) ? between(rng, 5, 40) : 0;
    assert_int_equal(gp_pool_open(&w->pool, between(rng, 2, 16), &err), GP_OK);
    assert_int_equal(gp_sched_open(&w->sched, w->pool, &w->options, &ops, &err), GP_OK);
    w->request_count = between(rng, 1, REQUESTS_MAX);
    if (w->options.prefix_cache && one_in(rng, 4))
        gp_prefix_force_hash(gp_sched_prefix(w->sched), 1);
    for (uint32_t i = 0; i < w->request_count; i++) {
        make_request(w, &w->requests[i]);
        if (i > 0 && one_in(rng, 2))
            resemble(w, &w->requests[i], &w->requests[gp_rng_below(rng, i)]);
    }
}

/* ---- a step ---- */

static void add_marks(struct marks *m, const struct gp_seq *seq)
{
    m->grow += seq->grow;
    m->compress += seq->compress;
    m->shrink += seq->shrink;
    m->start += seq->start;
    m->initial += seq->initial;
    m->pressure += seq->pressure;
    m->capped += seq->capped;
    m->fallback += seq->fallback;
    m->preempt += seq->preempt;
    m->own_cuts += seq->cuts;
    if (seq->preempt > 0 && seq->kv.resume == GP_RESUME_REPLAY)
        m->replayed_cuts += seq->cuts;
    if (seq->preempt > 0 && seq->kv.resume == GP_RESUME_REPLAY && seq->log_count > 0)
        m->replayed++;
    if (seq->preempt > 0 && seq->kv.resume == GP_RESUME_RECOMPUTE)
        m->recomputed++;
}

static void check_books(struct world *w, const struct request *r, const struct gp_seq *seq)
{
    uint32_t decisions = seq->grow + seq->compress + seq->shrink + seq->start + seq->initial +
                         seq->pressure + seq->capped;

    CHECK(w, decisions == r->taken_count);
    CHECK(w, seq->preempt == r->preempts);
    CHECK(w, seq->token_count == r->token_count || r->fate == FINISHED);
    CHECK(w, seq->kv.policy != GP_POLICY_FULL || seq->compress + seq->shrink + seq->capped == 0);
    CHECK(w, seq->kv.policy != GP_POLICY_FIXED || seq->grow == 0);
    if (seq->kv.resume == GP_RESUME_RECOMPUTE)
        return;
    CHECK(w, seq->log_count == r->taken_count);
    for (uint32_t i = 0; i < r->taken_count; i++)
        CHECK(w, seq->log[i] == r->taken[i].action);
}

/* The last output is drawn, whatever the lengths say. */
static uint32_t most_tokens(const struct world *w, const struct request *r)
{
    uint32_t room = w->options.context - r->prompt_count;
    uint32_t outputs = r->output_max < room ? r->output_max : room;

    return r->prompt_count + (outputs > 0 ? outputs : 1);
}

static uint64_t most_pages(const struct world *w, const struct request *r)
{
    return gp_policy_most_pages(&r->kv, w->options.page_tokens, r->prompt_count,
                                most_tokens(w, r)) +
           w->options.watermark;
}

/* seq is DONE. */
static void bury(struct world *w, struct request *r, enum fate fate)
{
    struct gp_seq *seq = r->seq;

    r->fate = fate;
    w->over++;
    if (!seq)
        return;
    CHECK(w, seq->state == GP_SEQ_DONE && seq->held == 0 && seq->query_slot == GP_SLOT_NONE);
    check_books(w, r, seq);
    /* Nobody of a static batch is ever denied a page, unless it is too large to be with others. */
    if (w->options.static_batches && !w->hook_preempts && !w->takes_refused && r->batch > 0)
        CHECK(w, seq->preempt == 0 &&
                     (seq->fallback == 0 || most_pages(w, r) > gp_pool_total(w->pool)));
    r->pages_sum = seq->pages_sum;
    r->cuts = seq->cuts;
    add_marks(w->marks, seq);
    w->owner[seq->index] = NULL;
    gp_sched_forget(w->sched, seq);
    r->seq = NULL;
}

/* Ending for want of pages needs a reason: it held the whole pool, or would need more than that. */
static void bury_stuck(struct world *w, struct gp_seq *seq)
{
    uint32_t total = gp_pool_total(w->pool);

    CHECK(w, seq->state == GP_SEQ_DONE);
    CHECK(w, w->takes_refused || seq->pages_peak == total || seq->need > total);
    CHECK(w, w->takes_refused || seq->need > total || seq->fallback > 0);
    w->marks->stuck++;
    bury(w, w->owner[seq->index], STUCK);
}

static void arrive_and_leave(struct world *w)
{
    for (uint32_t i = 0; i < w->request_count; i++) {
        struct request *r = &w->requests[i];

        if (r->fate == NOT_YET && r->arrive_at <= w->step) {
            if (!gp_sched_fits(w->sched, r->prompt_count)) {
                w->marks->refused++;
                bury(w, r, REFUSED);
                continue;
            }
            r->seq = gp_sched_add(w->sched, r->prompt_count, &r->kv, r->priority);
            if (!r->seq)
                continue;
            r->fate = LIVE;
            r->seq->tokens_most = most_tokens(w, r);
            w->owner[r->seq->index] = r;
            if (r->shares)
                gp_sched_share(w->sched, r->seq, (const int32_t *)r->tokens,
                               gp_prefix_root(&r->salt, sizeof r->salt), r->skip_max,
                               r->leader && r->leader->fate == LIVE ? r->leader->seq : NULL);
        }
        if (r->fate == LIVE && r->cancel_at <= w->step) {
            w->marks->abandoned += r->seq->compacting;
            gp_sched_finish(w->sched, r->seq);
            w->marks->cancelled++;
            bury(w, r, CANCELLED);
        }
    }
}

static void preempt_somebody(struct world *w)
{
    if (w->hook_preempts == 0 || !one_in(&w->rng, w->hook_preempts))
        return;
    if (gp_sched_running(w->sched) == 0 || w->step > HOOK_STEPS)
        return;
    struct gp_seq *seq = gp_sched_first_running(w->sched);

    for (uint32_t i = gp_rng_below(&w->rng, gp_sched_running(w->sched)); i > 0; i--)
        seq = seq->next;
    w->marks->abandoned += seq->compacting;
    gp_sched_preempt(w->sched, seq);
}

/* A page belongs to whoever wrote into it in this step, and to nobody else. */
static void write_to(struct world *w, const struct gp_seq *seq, uint32_t slot)
{
    uint32_t page = seq->table[slot / w->options.page_tokens];

    CHECK(w, gp_pool_refs(w->pool, page) == 1);
    CHECK(w, w->written_at[page] != w->step || w->writer[page] == seq->index);
    w->written_at[page] = w->step;
    w->writer[page] = seq->index;
}

/* A row whose cells are there already leaves them as they are. */
static uint64_t run_stored(struct world *w, const struct gp_seq *seq, uint32_t slot, uint32_t token,
                           uint32_t position)
{
    uint64_t before[FAKE_HEADS], after[FAKE_HEADS];

    fake_cells(&w->cache, seq->table, slot, before);
    uint64_t seen = fake_row(&w->cache, seq->table, slot, token, position);

    fake_cells(&w->cache, seq->table, slot, after);
    CHECK(w, memcmp(before, after, sizeof before) == 0);
    w->marks->stored++;
    return seen;
}

static void run_rows(struct world *w, const struct gp_run *run)
{
    struct gp_seq *seq = run->seq;
    struct request *r = w->owner[seq->index];
    bool has_summary = seq->has_summaries;
    uint32_t stored = gp_sched_stored(w->sched, run);
    uint64_t seen = 0;

    CHECK(w, !seq->compacting);
    if (!r->runs) {
        r->runs = true;
        r->run_from = seq->computed;
        w->marks->skipped += seq->computed;
    }
    CHECK(w, seq->state == GP_SEQ_RUNNING && run->count > 0);
    CHECK(w, seq->cached + run->count <= seq->pages * w->options.page_tokens);
    CHECK(w, run->last == (seq->computed + run->count == seq->token_count));
    for (uint32_t i = 0; i < run->count; i++) {
        uint32_t position = seq->computed + i;

        if (i < stored) {
            seen = run_stored(w, seq, seq->cached + i, r->tokens[position], position);
        } else {
            write_to(w, seq, seq->cached + i);
            seen = fake_row(&w->cache, seq->table, seq->cached + i, r->tokens[position], position);
        }
        if (position >= seq->prefill_count) {
            uint64_t *summary = &w->summaries[seq->query_slot];

            *summary = fake_summary(*summary, !has_summary, seen);
            has_summary = true;
        }
        CHECK(w, r->seen[position] == 0 || r->seen[position] == seen);
        r->seen[position] = seen;
    }
    w->marks->rows += run->count;
}

static void draw(struct world *w, const struct gp_run *run)
{
    struct request *r = w->owner[run->seq->index];

    if (!run->last)
        return;
    uint32_t token = fake_next(r->seen[run->seq->computed - 1]);
    bool fed = r->token_count < CONTEXT_MAX + 1;

    CHECK(w, fed && r->token_count == run->seq->computed);
    r->tokens[r->token_count++] = token;
    if (is_over(r, r->token_count - r->prompt_count, token, w->options.context)) {
        gp_sched_finish(w->sched, run->seq);
        bury(w, r, FINISHED);
    } else {
        gp_sched_append(w->sched, run->seq);
    }
}

static bool is_decoding(const struct gp_seq *seq)
{
    return !seq->compacting && seq->computed >= seq->prefill_count &&
           seq->computed + 1 == seq->token_count;
}

static bool comes_before(const struct gp_seq *a, const struct gp_seq *b)
{
    return a->priority != b->priority ? a->priority < b->priority : a->arrival < b->arrival;
}

/* ---- static batching ---- */

static bool batch_waits_for_prompts(const struct world *w)
{
    if (!w->options.static_batches || !w->batch_begins)
        return false;
    for (const struct gp_seq *seq = gp_sched_first_running(w->sched); seq; seq = seq->next)
        if (seq->computed < seq->prefill_count)
            return true;
    return false;
}

/* A request has been admitted; `alive`: members of the batch before this step still are. */
static void join_batch(struct world *w, struct request *r, bool alive, bool *opened)
{
    if (!alive && !*opened) {
        *opened = true;
        w->batch++;
        w->batch_begins = true;
        w->batch_pages = 0;
        w->marks->batches++;
    }
    CHECK(w, w->batch_begins);
    r->batch = w->batch;
    w->marks->members++;
    uint64_t pages = most_pages(w, r);

    if (r->seq->need + w->options.watermark > pages) /* it comes back by a recompute */
        pages = r->seq->need + w->options.watermark;
    CHECK(w, w->batch_pages == 0 || w->batch_pages + pages <= gp_pool_total(w->pool));
    w->batch_pages += pages - w->options.watermark;
}

/* The batch is as large as can be: why has the front of the queue not become a member? */
static void check_who_waits(struct world *w)
{
    const struct gp_seq *seq = gp_sched_first_waiting(w->sched);
    const struct request *r = seq ? w->owner[seq->index] : NULL;

    if (!r || w->takes_refused || w->hook_preempts || gp_sched_running(w->sched) == 0)
        return;
    CHECK(w, gp_sched_running(w->sched) == w->options.max_seqs || r->leader ||
                 w->batch_pages + most_pages(w, r) > gp_pool_total(w->pool));
}

static void check_batch(struct world *w, const struct gp_plan *plan)
{
    bool alive = false, opened = false, began = w->batch_begins;

    if (!w->options.static_batches)
        return;
    for (uint32_t i = 0; i < w->request_count; i++)
        alive |= w->requests[i].fate == LIVE && w->requests[i].batch > 0;
    for (struct gp_seq *seq = gp_sched_first_running(w->sched); seq; seq = seq->next) {
        struct request *r = w->owner[seq->index];

        if (r->batch == 0)
            join_batch(w, r, alive, &opened);
        CHECK(w, r->batch == w->batch);
    }
    if (opened || began)
        check_who_waits(w);
    if (batch_waits_for_prompts(w)) {
        w->marks->held_back++;
        return;
    }
    for (uint32_t i = 0; i < plan->run_count; i++)
        if (is_decoding(plan->runs[i].seq))
            w->batch_begins = false;
}

/* Decode rows first, all of them, and both kinds oldest first; but whoever is admitted comes
 * last, and is older than some that run only where others than the newest were preempted. */
static void check_order(struct world *w, const struct gp_plan *plan)
{
    uint32_t decoding = 0, planned = 0;
    bool out_of_turn =
        w->hook_preempts > 0 || w->options.asynchronous || w->options.preempt != GP_PREEMPT_NEWEST;

    for (uint32_t i = 0; i < w->request_count; i++)
        out_of_turn |= w->requests[i].priority != 0;
    for (struct gp_seq *seq = gp_sched_first_running(w->sched); seq; seq = seq->next)
        decoding += is_decoding(seq);
    if (batch_waits_for_prompts(w))
        decoding = 0;
    for (uint32_t i = 0; i < plan->run_count; i++) {
        const struct gp_seq *seq = plan->runs[i].seq;

        planned += is_decoding(seq);
        CHECK(w, planned == (i < decoding ? i + 1 : decoding));
        if (i > 0 && i != decoding && (!out_of_turn || i < decoding))
            CHECK(w, comes_before(plan->runs[i - 1].seq, seq));
    }
    CHECK(w, planned == decoding);
}

static void check_runs(struct world *w, const struct gp_plan *plan)
{
    uint32_t rows = 0, prefills = 0;

    check_order(w, plan);
    CHECK(w, plan->run_count <= w->options.max_seqs);
    for (uint32_t i = 0; i < plan->run_count; i++) {
        rows += plan->runs[i].count;
        prefills += plan->runs[i].seq->computed < plan->runs[i].seq->prefill_count;
        for (uint32_t j = 0; j < i; j++)
            CHECK(w, plan->runs[j].seq != plan->runs[i].seq);
    }
    CHECK(w, rows == plan->row_count && rows <= w->options.max_batch_tokens);
    CHECK(w, plan->decode_rows == 0 || rows - plan->decode_rows <= w->prompt_rows);
    if (prefills > 1)
        w->marks->prefill_overlap++;
}

/* As the engine's pace does: another number every time, and 0 never twice. */
static void limit_prompts(struct world *w)
{
    uint32_t rows = between(&w->rng, w->prompt_rows == 0, 5);

    if (!w->paced)
        return;
    w->prompt_rows = rows == 5 ? UINT32_MAX : rows;
    gp_sched_limit_prompts(w->sched, w->prompt_rows);
}

static void take_step(struct world *w)
{
    struct gp_plan plan;
    struct gp_seq *stuck;

    arrive_and_leave(w);
    preempt_somebody(w);
    bool busy = gp_sched_running(w->sched) + gp_sched_waiting(w->sched) > 0;

    limit_prompts(w);
    bool planned = gp_sched_plan(w->sched, &plan, &stuck);

    CHECK(w, planned == (plan.row_count > 0));
    CHECK(w, planned || stuck || !busy || gp_sched_compaction(w->sched));
    gp_sched_check(w->sched);
    check_batch(w, &plan);
    if (stuck)
        bury_stuck(w, stuck);
    if (planned) {
        check_runs(w, &plan);
        for (uint32_t i = 0; i < plan.run_count; i++)
            run_rows(w, &plan.runs[i]);
        gp_sched_ran(w->sched, &plan);
        for (uint32_t i = 0; i < plan.run_count; i++)
            draw(w, &plan.runs[i]);
    }
    advance_compactions(w, !planned);
    gp_sched_check(w->sched);
    gp_pool_check(w->pool);
    w->marks->steps++;
    w->step++;
}

/* ---- a world ---- */

static void compare_with_solo(struct world *w, const struct request *r, struct solo *solo)
{
    if (r->fate == REFUSED || r->trusted == 0)
        return;
    run_solo(solo, r, w->options.page_tokens, w->options.context);
    uint32_t count = r->token_count < r->trusted ? r->token_count : r->trusted;

    CHECK(w, r->token_count <= solo->out.token_count || r->trusted < r->token_count);
    for (uint32_t i = 0; i < count; i++)
        CHECK(w, r->tokens[i] == solo->out.tokens[i]);
    for (uint32_t i = 0; i < r->taken_count && r->taken[i].tokens < r->trusted - 1; i++) {
        CHECK(w, i < solo->out.taken_count);
        CHECK(w, memcmp(&r->taken[i], &solo->out.taken[i], sizeof r->taken[i]) == 0);
    }
    if (r->fate != FINISHED || r->trusted != NEVER)
        return;
    CHECK(w, r->token_count == solo->out.token_count);
    CHECK(w, r->taken_count == solo->out.taken_count);
    CHECK(w, r->pages_sum == solo->out.pages_sum);
    CHECK(w, r->cuts == solo->out.cuts);
}

/* Returns a number that names what happened to everybody. */
static uint64_t run_world(struct world *w, struct solo *solo, uint64_t seed, uint64_t refuse_nth,
                          struct marks *marks)
{
    uint64_t outcome = 0;

    open_world(w, seed, marks);
    w->takes_refused = refuse_nth > 0;
    gp_pool_refuse_at(w->pool, refuse_nth);
    while (w->over < w->request_count) {
        take_step(w);
        CHECK(w, w->step < STEPS_MAX);
    }
    CHECK(w, gp_pool_free_count(w->pool) == gp_pool_total(w->pool));
    CHECK(w, gp_sched_running(w->sched) == 0 && gp_sched_waiting(w->sched) == 0);
    for (uint32_t i = 0; i < w->request_count; i++) {
        compare_with_solo(w, &w->requests[i], solo);
        outcome = fake_mix(outcome, (uint64_t)w->requests[i].fate);
        for (uint32_t t = 0; t < w->requests[i].token_count; t++)
            outcome = fake_mix(outcome, w->requests[i].tokens[t]);
    }
    gp_sched_close(w->sched);
    gp_pool_close(w->pool);
    return outcome;
}

static uint64_t world_seed(uint32_t index)
{
    return fake_mix(base_seed, index);
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text ? strtoull(text, NULL, 10) : otherwise;
}

static struct world world;
static struct solo solo;

static void every_world_finishes(void **state)
{
    uint32_t worlds = (uint32_t)number_from("GP_WORLDS", 10000);
    struct marks m = {0};

    (void)state;
    for (world_now = 0; world_now < worlds; world_now++)
        run_world(&world, &solo, world_seed(world_now), 0, &m);
    print_message("# %u worlds: %" PRIu64 " steps, %" PRIu64 " rows, %" PRIu64 " grow, %" PRIu64
                  " compress, %" PRIu64 " shrink, %" PRIu64 " start, %" PRIu64 " initial, %" PRIu64
                  " pressure, %" PRIu64 " capped, %" PRIu64 " fallback, %" PRIu64 " preempt\n",
                  worlds, m.steps, m.rows, m.grow, m.compress, m.shrink, m.start, m.initial,
                  m.pressure, m.capped, m.fallback, m.preempt);
    print_message("# %" PRIu64 " gave way, %" PRIu64 " stuck, %" PRIu64 " cancelled, %" PRIu64
                  " refused, %" PRIu64 " replayed, %" PRIu64 " recomputed, %" PRIu64
                  " cut, %" PRIu64 " by their own trigger, %" PRIu64 " of them replayed, %" PRIu64
                  " steps with several prompts\n",
                  m.gave_way, m.stuck, m.cancelled, m.refused, m.replayed, m.recomputed, m.cut,
                  m.own_cuts, m.replayed_cuts, m.prefill_overlap);
    print_message("# static: %" PRIu64 " batches of %" PRIu64 " requests, %" PRIu64
                  " steps in which decoding waited for prompts\n",
                  m.batches, m.members, m.held_back);
    print_message("# shared: %" PRIu64 " rows skipped, %" PRIu64 " run on what was there, %" PRIu64
                  " stand-ins, %" PRIu64 " tails copied; in flight: %" PRIu64 " slices, %" PRIu64
                  " abandoned\n",
                  m.skipped, m.stored, m.stand_ins, m.tails, m.in_flight, m.abandoned);
    if (worlds < 1000)
        return;
    /* Worlds in which nothing happens prove nothing. */
    assert_true(m.grow && m.compress && m.shrink && m.start && m.initial && m.pressure);
    assert_true(m.capped && m.fallback && m.preempt && m.gave_way && m.stuck && m.cancelled);
    assert_true(m.refused && m.replayed && m.recomputed && m.cut && m.prefill_overlap);
    assert_true(m.own_cuts && m.replayed_cuts && m.batches && m.members > m.batches && m.held_back);
    assert_true(m.skipped && m.stored && m.stand_ins && m.tails && m.in_flight && m.abandoned);
}

static void a_world_can_be_run_again(void **state)
{
    struct marks m = {0};

    (void)state;
    for (world_now = 0; world_now < 100; world_now++) {
        uint64_t seed = world_seed(world_now);
        uint64_t outcome = run_world(&world, &solo, seed, 0, &m);

        assert_true(run_world(&world, &solo, seed, 0, &m) == outcome);
    }
}

/* A take may be refused at any moment: refuse the first, then the second, and so on, until there
 * are more than the world has. */
static void any_take_may_be_refused(void **state)
{
    uint32_t changed = 0;

    (void)state;
    for (world_now = 0; world_now < 40; world_now++) {
        struct marks m = {0};
        uint64_t seed = world_seed(world_now);
        uint64_t undisturbed = run_world(&world, &solo, seed, 0, &m);
        uint64_t takes = world.request_count + m.preempt + m.grow + m.start + m.initial +
                         m.pressure + m.fallback;

        for (uint64_t nth = 1; nth <= takes; nth++)
            changed += run_world(&world, &solo, seed, nth, &m) != undisturbed;
    }
    assert_true(changed > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_world_finishes),
        cmocka_unit_test(a_world_can_be_run_again),
        cmocka_unit_test(any_take_may_be_refused),
    };

    base_seed = number_from("GP_SEED", 1);
    signal(SIGABRT, on_abort);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
