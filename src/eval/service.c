#include "eval/service.h"

#include <time.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "eval/boundaries.h"

/* The longest sleep, so that go_on is asked often enough. */
#define SLEEP_NS_MAX 20000000u

#define WARM_UP_PROMPT 16u
#define WARM_UP_OUTPUT 2u

/* A request from its arrival to its last token. */
struct visit {
    uint64_t id;
    uint64_t arrival_ns, last_ns;
    uint32_t tokens; /* that have been seen */
    uint32_t wanted;
};

struct desk {
    const struct gp_service *service;
    struct gp_engine *engine;
    struct gp_service_result result;
    uint64_t start_ns;
    uint64_t last_end_ns;
    uint32_t next;        /* the request that comes next                   */
    uint64_t next_ns;     /* when                                          */
    struct visit *visits; /* [request_count] the first live of them run    */
    uint32_t live, done;
    int32_t *tokens; /* [the longest prompt] */
};

int gp_service_context(const struct gp_workload *workload, uint32_t limit, uint32_t *out,
                       struct gp_error *err)
{
    uint32_t longest = 0;

    for (uint32_t i = 0; i < workload->request_count; i++) {
        struct gp_work work = gp_workload_at(workload, i);
        uint32_t tokens = work.prompt_tokens + work.output_tokens;

        if (tokens > limit)
            return gp_fail(err, GP_EINVAL, "request %u has %u + %u tokens; the context holds %u", i,
                           work.prompt_tokens, work.output_tokens, limit);
        longest = tokens > longest ? tokens : longest;
    }
    *out = longest;
    return GP_OK;
}

/* ---- arrivals ---- */

static int submit(struct desk *desk, uint64_t sequence, uint32_t prompt_tokens,
                  uint32_t output_tokens, uint64_t *id, struct gp_error *err)
{
    const struct gp_service *service = desk->service;
    struct gp_kv_options kv = *service->kv;
    struct gp_request request;

    gp_workload_tokens(service->workload->seed, sequence, service->vocab, desk->tokens,
                       prompt_tokens);
    gp_request_init(&request);
    request.tokens = desk->tokens;
    request.token_count = prompt_tokens;
    request.max_tokens = output_tokens;
    request.ignore_eos = true;
    request.sampling = service->sampling;
    request.sampling.seed = kv.seed = service->workload->seed + sequence;
    request.sampling.has_seed = true;
    request.kv = &kv;
    return gp_engine_submit(desk->engine, &request, id, err);
}

static void move_to_next(struct desk *desk)
{
    const struct gp_workload *workload = desk->service->workload;

    desk->next++;
    if (desk->next < workload->request_count)
        desk->next_ns += (uint64_t)(gp_workload_wait_seconds(workload, desk->next) * 1e9);
}

/* All that have arrived by now, as far as the engine has room. */
static int submit_arrived(struct desk *desk, struct gp_error *err)
{
    const struct gp_workload *workload = desk->service->workload;

    while (desk->next < workload->request_count && desk->next_ns <= gp_clock_ns()) {
        struct gp_work work = gp_workload_at(workload, desk->next);
        struct visit visit = {.arrival_ns = desk->next_ns, .wanted = work.output_tokens};

        int rc = submit(desk, desk->next, work.prompt_tokens, work.output_tokens, &visit.id, err);
        if (rc == GP_EAGAIN && desk->live > 0)
            return GP_OK;
        if (rc) {
            gp_error_prefix(err, "request %u", desk->next);
            return rc;
        }
        desk->visits[desk->live++] = visit;
        move_to_next(desk);
    }
    return GP_OK;
}

/* Nothing runs: until the next one arrives, or a little of that. */
static void sleep_until_next(const struct desk *desk)
{
    uint64_t now = gp_clock_ns();

    if (desk->next_ns <= now)
        return;
    uint64_t ns = desk->next_ns - now < SLEEP_NS_MAX ? desk->next_ns - now : SLEEP_NS_MAX;
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

/* ---- what a step gave ---- */

static double milliseconds(uint64_t ns)
{
    return (double)ns / 1e6;
}

static int count_request(struct desk *desk, const struct visit *visit,
                         const struct gp_request_stats *stats, struct gp_error *err)
{
    struct gp_service_result *r = &desk->result;
    struct gp_service_counts *c = &r->counts;
    int rc = GP_OK;

    c->prompt_tokens += stats->prompt_tokens;
    c->output_tokens += stats->output_tokens;
    c->cut_short += stats->output_tokens < visit->wanted;
    c->grow += stats->grow;
    c->compress += stats->compress;
    c->shrink += stats->shrink;
    c->start += stats->start;
    c->initial += stats->initial;
    c->pressure += stats->pressure;
    c->capped += stats->capped;
    c->fallback += stats->fallback;
    c->preempt += stats->preempt;
    c->demand_ns += stats->demand_ns;
    c->score_ns += stats->score_ns;
    c->select_ns += stats->select_ns;
    c->compact_ns += stats->compact_ns;
    gp_boundaries_count(desk->engine, visit->id, stats, &c->demands, &c->cuts);
    if (visit->tokens > 1) /* it has decode steps */
        rc = gp_values_add(&r->tpot_ms, stats->tpot_ms, err);
    if (!rc)
        rc = gp_values_add(&r->whole_ms, milliseconds(desk->last_end_ns - visit->arrival_ns), err);
    return rc;
}

/* A token that was not there before the step. */
static int take_token(struct desk *desk, struct visit *visit, uint32_t tokens, uint64_t now,
                      struct gp_error *err)
{
    struct gp_service_result *r = &desk->result;
    int rc = visit->tokens == 0
                 ? gp_values_add(&r->ttft_ms, milliseconds(now - visit->arrival_ns), err)
                 : gp_values_add(&r->gap_ms, milliseconds(now - visit->last_ns), err);

    visit->tokens = tokens;
    visit->last_ns = now;
    return rc;
}

/* Look at every request that was with the engine in the step that ended now. */
static int collect(struct desk *desk, uint64_t now, struct gp_error *err)
{
    int rc = GP_OK;

    for (uint32_t i = 0; !rc && i < desk->live;) {
        struct visit *visit = &desk->visits[i];
        struct gp_request_stats stats = {0};
        enum gp_finish finish;

        gp_engine_request_stats(desk->engine, visit->id, 0, &stats);
        gp_engine_read(desk->engine, visit->id, 0, 0, NULL, 0, &finish);
        if (stats.output_tokens > visit->tokens)
            rc = take_token(desk, visit, stats.output_tokens, now, err);
        if (rc || finish == GP_FINISH_NONE) {
            i++;
            continue;
        }
        desk->last_end_ns = now;
        rc = count_request(desk, visit, &stats, err);
        gp_engine_release(desk->engine, visit->id);
        *visit = desk->visits[--desk->live];
        desk->done++;
    }
    return rc;
}

/* ---- the run ---- */

/* Threads and code awake, which the first request would otherwise pay for. */
static int warm_up(struct desk *desk, struct gp_error *err)
{
    uint32_t prompt = gp_workload_at(desk->service->workload, 0).prompt_tokens;
    uint64_t id;

    int rc = submit(desk, UINT64_MAX, prompt < WARM_UP_PROMPT ? prompt : WARM_UP_PROMPT,
                    WARM_UP_OUTPUT, &id, err);
    if (rc)
        return rc;
    gp_engine_run(desk->engine);
    gp_engine_release(desk->engine, id);
    gp_engine_begin_run(desk->engine);
    return GP_OK;
}

static int serve(struct desk *desk, bool *complete, struct gp_error *err)
{
    const struct gp_service *service = desk->service;

    desk->start_ns = desk->last_end_ns = desk->next_ns = gp_clock_ns();
    desk->next_ns += (uint64_t)(gp_workload_wait_seconds(service->workload, 0) * 1e9);
    while (desk->done < service->workload->request_count && *complete) {
        uint32_t done = desk->done;
        int rc = submit_arrived(desk, err);
        if (rc)
            return rc;
        uint32_t rows = gp_engine_step(desk->engine);
        rc = collect(desk, gp_clock_ns(), err);
        if (rc)
            return rc;
        if (rows == 0 && desk->done == done) {
            gp_assert(desk->live == 0);
            sleep_until_next(desk);
        }
        *complete = service->go_on(service->ctx, desk->done);
    }
    return GP_OK;
}

static bool has_budget(const struct gp_kv_options *kv)
{
    switch (kv->policy) {
    case GP_POLICY_FULL:
    case GP_POLICY_GROWPAGE:
    case GP_POLICY_RANDOM:
    case GP_POLICY_INVERSE:
    case GP_POLICY_SHRINK:
        return false;
    default:
        return true;
    }
}

static void finish(struct desk *desk)
{
    struct gp_service_result *r = &desk->result;
    const struct gp_kv_options *kv = desk->service->kv;
    struct gp_engine_stats stats;

    gp_engine_stats(desk->engine, &stats);
    r->run = stats.run;
    r->pages_max = stats.pages_used_max;
    r->total_ns = desk->last_end_ns - desk->start_ns;
    r->budget_nominal = has_budget(kv) ? kv->budget_tokens : 0;
}

int gp_service_run(const struct gp_service *service, struct gp_engine *engine,
                   struct gp_service_result *out, bool *complete, struct gp_error *err)
{
    const struct gp_workload *workload = service->workload;
    struct desk desk = {.service = service, .engine = engine};
    struct gp_engine_info info;
    bool whole = true;
    int rc = GP_OK;

    gp_assert(workload->request_count > 0);
    gp_engine_info(engine, &info);
    desk.result.threads = info.threads;
    desk.result.page_tokens = info.page_tokens;
    desk.result.page_count = info.page_count;
    desk.visits = gp_mem_alloc_array(workload->request_count, sizeof *desk.visits);
    desk.tokens = gp_mem_alloc_array(info.context, sizeof *desk.tokens);
    if (!desk.visits || !desk.tokens)
        rc = gp_fail(err, GP_ENOMEM, "requests: out of memory");
    if (!rc)
        rc = warm_up(&desk, err);
    if (!rc)
        rc = serve(&desk, &whole, err);
    while (desk.live > 0)
        gp_engine_release(engine, desk.visits[--desk.live].id);
    gp_mem_free(desk.visits);
    gp_mem_free(desk.tokens);
    if (!rc && whole) {
        finish(&desk);
        *out = desk.result;
    } else {
        gp_service_result_free(&desk.result);
    }
    if (!rc)
        *complete = whole;
    return rc;
}

void gp_service_result_free(struct gp_service_result *result)
{
    gp_values_free(&result->ttft_ms);
    gp_values_free(&result->tpot_ms);
    gp_values_free(&result->gap_ms);
    gp_values_free(&result->whole_ms);
}
