/* What a page is worth: from the same boundary of a full cache one fork that compresses and one
 * that grows, both made to say what the reference said, and how surprised each is by it. */
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "eval/analyze_forks.h"

/* ---- references ---- */

static int ask(void *ctx, const struct gp_question *question, struct gp_request *request,
               struct gp_error *err)
{
    struct gp_references *references = ctx;
    struct gp_reference *r = &references->items[question->n];

    if (r->prompt)
        return GP_OK;
    r->prompt = gp_mem_alloc_array(request->token_count, sizeof *r->prompt);
    if (!r->prompt)
        return gp_fail(err, GP_ENOMEM, "analysis: out of memory");
    memcpy(r->prompt, request->tokens, request->token_count * sizeof *r->prompt);
    r->prompt_count = request->token_count;
    r->part = question->part;
    r->index = question->index;
    r->number = question->number;
    return GP_OK;
}

static int take(void *ctx, const struct gp_sample *sample, struct gp_error *err)
{
    struct gp_references *references = ctx;
    struct gp_reference *r = &references->items[sample->question->n];
    uint32_t count = sample->stats->output_tokens;

    r->output = gp_mem_alloc_array(count + 1, sizeof *r->output);
    if (!r->output)
        return gp_fail(err, GP_ENOMEM, "analysis: out of memory");
    for (uint32_t i = 0; i < count; i++)
        r->output[i] = sample->tokens[i].id;
    r->output_count = count;
    return GP_OK;
}

int gp_references_run(struct gp_references *references, const struct gp_analysis *analysis,
                      bool *complete, struct gp_error *err)
{

    *references = (struct gp_references){
        .count = gp_exam_count(analysis->sitting->exam),
        .analysis = analysis,
    };
    references->items = gp_mem_alloc_array(references->count, sizeof *references->items);
    if (!references->items)
        return gp_fail(err, GP_ENOMEM, "analysis: out of memory");
    struct gp_analysis_ears ears = {ask, take, NULL, references};
    return gp_analysis_ask(analysis, &ears, complete, err);
}

void gp_references_free(struct gp_references *references)
{
    for (uint64_t i = 0; references->items && i < references->count; i++) {
        gp_mem_free(references->items[i].prompt);
        gp_mem_free(references->items[i].output);
    }
    gp_mem_free(references->items);
    *references = (struct gp_references){0};
}

/* ---- forks ---- */

/* A fork, and what it was told at its first boundary. */
struct fork {
    uint64_t id;
    enum gp_action action;
    bool asked;
    struct gp_boundary_event event;
};

/* Both forks of a boundary. */
struct split {
    struct fork forks[2];
    uint64_t reference;
    uint32_t tokens;  /* logical, at the boundary      */
    uint32_t horizon; /* tokens behind it that count   */
    struct split *next;
};

struct parent {
    uint64_t id, reference;
};

struct replay {
    const struct gp_analysis *analysis;
    const struct gp_references *references;
    const enum gp_action *actions;
    gp_split_taken *taken;
    void *ctx;
    uint32_t page_tokens;
    struct parent *parents; /* [sitting->concurrency]; the first live of them run */
    uint32_t live;
    uint64_t next; /* reference that is replayed next */
    struct split *splits;
    struct gp_token *tokens; /* [horizon] */
};

static enum gp_action decide(void *ctx, uint32_t choice, const struct gp_boundary_event *event)
{
    struct fork *fork = ctx;

    (void)choice;
    if (fork->asked)
        return GP_ACTION_GROW;
    fork->asked = true;
    fork->event = *event;
    return fork->action;
}

static int begin_fork(const struct replay *replay, uint64_t parent, const int32_t *following,
                      uint32_t count, struct fork *fork, struct gp_error *err)
{
    struct gp_request request;

    gp_request_init(&request);
    request.max_tokens = count;
    request.forced = following;
    request.forced_count = count;
    request.ignore_eos = true;
    request.logprobs = 0;
    request.on_boundary = decide;
    request.ctx = fork;
    int rc = gp_engine_fork(replay->analysis->engine, parent, 0, &request, &fork->id, err);
    if (rc == GP_EAGAIN)
        return gp_fail(err, rc,
                       "no room for two forks of each answer; give more --kv-pages, or "
                       "less --concurrency");
    return rc;
}

static void free_split(const struct replay *replay, struct split *split)
{
    for (int i = 0; i < 2; i++)
        if (split->forks[i].id)
            gp_engine_release(replay->analysis->engine, split->forks[i].id);
    gp_mem_free(split);
}

/* At a boundary that has a past to compress and tokens to come. */
static int split_parent(struct replay *replay, const struct parent *parent, struct gp_error *err)
{
    const struct gp_reference *r = &replay->references->items[parent->reference];
    struct gp_request_stats stats;

    if (!gp_engine_request_stats(replay->analysis->engine, parent->id, 0, &stats) ||
        stats.output_tokens < 2 || stats.output_tokens >= r->output_count || stats.pages < 2 ||
        stats.slots != stats.pages * replay->page_tokens)
        return GP_OK;
    uint32_t drawn = stats.output_tokens, left = r->output_count - drawn;
    struct split *split = gp_mem_alloc(sizeof *split);
    if (!split)
        return gp_fail(err, GP_ENOMEM, "analysis: out of memory");
    *split = (struct split){
        .forks = {{.action = replay->actions[0]}, {.action = replay->actions[1]}},
        .reference = parent->reference,
        .tokens = stats.slots,
        .horizon = left < replay->analysis->horizon ? left : replay->analysis->horizon,
        .next = replay->splits,
    };
    replay->splits = split;
    int rc = GP_OK;
    for (int i = 0; !rc && i < 2; i++)
        rc = begin_fork(replay, parent->id, r->output + drawn, split->horizon, &split->forks[i],
                        err);
    return rc;
}

/* The mean of -log p over the tokens that a fork was made to say; false: it has not ended. */
static bool surprise(const struct replay *replay, const struct fork *fork, uint32_t horizon,
                     double *out)
{
    enum gp_finish finish;
    uint32_t count =
        gp_engine_read(replay->analysis->engine, fork->id, 0, 0, replay->tokens, horizon, &finish);
    double sum = 0;

    if (finish == GP_FINISH_NONE)
        return false;
    gp_assert(count == horizon);
    for (uint32_t i = 0; i < count; i++)
        sum -= (double)replay->tokens[i].logprob;
    *out = sum / count;
    return true;
}

/* Hand over the splits both of whose forks have ended. */
static int collect_splits(struct replay *replay, struct gp_error *err)
{
    int rc = GP_OK;

    for (struct split **at = &replay->splits; !rc && *at;) {
        struct split *split = *at;
        struct gp_split_result result = {
            .reference = split->reference,
            .tokens = split->tokens,
            .scored = split->horizon,
        };

        const struct fork *a = &split->forks[0], *b = &split->forks[1];

        if (!surprise(replay, a, split->horizon, &result.nll[0]) ||
            !surprise(replay, b, split->horizon, &result.nll[1])) {
            at = &split->next;
            continue;
        }
        result.event = b->event;
        /* One whose first boundary was no decision is no pair. */
        if (a->asked && b->asked && b->event.has_delta && b->event.cause == GP_CAUSE_POLICY)
            rc = replay->taken(replay->ctx, &result, err);
        *at = split->next;
        free_split(replay, split);
    }
    return rc;
}

/* ---- parents ---- */

static int begin_parent(struct replay *replay, struct gp_error *err)
{
    const struct gp_sitting *s = replay->analysis->sitting;
    const struct gp_reference *r = &replay->references->items[replay->next];
    struct parent *parent = &replay->parents[replay->live];
    struct gp_request request;

    gp_request_init(&request);
    request.tokens = r->prompt;
    request.token_count = r->prompt_count;
    request.max_tokens = request.forced_count = r->output_count;
    request.forced = r->output;
    request.ignore_eos = true;
    request.kv = s->policies;
    int rc = gp_engine_submit(replay->analysis->engine, &request, &parent->id, err);
    if (rc)
        return rc;
    parent->reference = replay->next++;
    replay->live++;
    return GP_OK;
}

static void drop_ended(struct replay *replay)
{
    for (uint32_t i = 0; i < replay->live;) {
        enum gp_finish finish;

        gp_engine_read(replay->analysis->engine, replay->parents[i].id, 0, 0, NULL, 0, &finish);
        if (finish == GP_FINISH_NONE) {
            i++;
            continue;
        }
        gp_engine_release(replay->analysis->engine, replay->parents[i].id);
        replay->parents[i] = replay->parents[--replay->live];
    }
}

static int run(struct replay *replay, bool *complete, struct gp_error *err)
{
    const struct gp_sitting *s = replay->analysis->sitting;
    struct gp_sitting_state state = {.total = replay->references->count};

    for (;;) {
        while (replay->live < s->concurrency && replay->next < state.total) {
            int rc = begin_parent(replay, err);
            if (rc)
                return rc;
        }
        if (replay->live == 0 && !replay->splits)
            return GP_OK;
        for (uint32_t i = 0; i < replay->live; i++) {
            int rc = split_parent(replay, &replay->parents[i], err);
            if (rc)
                return rc;
        }
        gp_engine_step(replay->analysis->engine);
        int rc = collect_splits(replay, err);
        if (rc)
            return rc;
        drop_ended(replay);
        state.done = state.asked = replay->next - replay->live;
        *complete = s->go_on(s->ctx, &state);
        if (!*complete)
            return GP_OK;
    }
}

int gp_references_split(const struct gp_references *references, const enum gp_action actions[2],
                        gp_split_taken *taken, void *ctx, bool *complete, struct gp_error *err)
{
    const struct gp_analysis *analysis = references->analysis;
    struct replay replay = {analysis, references, actions, taken, ctx};
    struct gp_engine_info info;

    gp_engine_info(analysis->engine, &info);
    replay.page_tokens = info.page_tokens;
    replay.parents = gp_mem_alloc_array(analysis->sitting->concurrency, sizeof *replay.parents);
    replay.tokens = gp_mem_alloc_array(analysis->horizon, sizeof *replay.tokens);
    int rc = replay.parents && replay.tokens ? run(&replay, complete, err)
                                             : gp_fail(err, GP_ENOMEM, "analysis: out of memory");
    while (replay.splits) {
        struct split *split = replay.splits;
        replay.splits = split->next;
        free_split(&replay, split);
    }
    while (replay.live > 0)
        gp_engine_release(analysis->engine, replay.parents[--replay.live].id);
    gp_mem_free(replay.parents);
    gp_mem_free(replay.tokens);
    return rc;
}
