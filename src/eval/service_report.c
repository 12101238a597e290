#include <math.h>

#include "eval/rows.h"
#include "eval/service.h"

json_t *gp_service_origin(const struct gp_service *service, const struct gp_origin *origin,
                          const struct gp_engine *engine)
{
    const struct gp_workload *w = service->workload;
    char policy[64], prompt[GP_LENGTH_TEXT_BYTES], output[GP_LENGTH_TEXT_BYTES];
    char started[GP_TIME_TEXT_BYTES];
    struct gp_engine_info e;

    gp_engine_info(engine, &e);
    gp_policy_format(service->kv, policy);
    gp_length_format(&w->prompt, prompt);
    gp_length_format(&w->output, output);
    gp_time_format(started);
    return json_pack("{s:s, s:s, s:s, s:o, s:s, s:i, s:o, s:I, s:s, s:s, s:o, s:o, s:o, s:o}",
                     "policy", policy, "version", gp_version(), "started", started, "model",
                     gp_origin_model(origin), "cpu", origin->model.cpu, "threads", (int)e.threads,
                     "machine", gp_origin_machine(origin), "seed", (json_int_t)w->seed,
                     "prompt_len", prompt, "output_len", output, "rate",
                     w->rate > 0 ? json_real(w->rate) : json_null(), "sampling",
                     gp_origin_sampling(&service->sampling, true), "engine",
                     gp_origin_engine(engine), "kv", gp_origin_cache(service->kv));
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : NAN;
}

/* A figure that there is only where something was decoded. */
static json_t *decoded(const struct gp_service_result *r, double figure)
{
    return r->run.decode_steps > 0 ? json_real(figure) : json_null();
}

/* A kind of work at boundaries, in wall-clock time. */
static json_t *work(double ns, uint64_t events, uint64_t decoding_ns)
{
    return json_pack("{s:f, s:o, s:o}", "ms", ns / 1e6, "ms_per_event",
                     gp_json_number(ratio(ns / 1e6, (double)events)), "share",
                     gp_json_number(ratio(ns, (double)decoding_ns)));
}

static json_t *speed(struct gp_service_result *r)
{
    const struct gp_service_counts *c = &r->counts;

    return json_pack("{s:I, s:I, s:I, s:i, s:f, s:o, s:o, s:o, s:o, s:o}", "requests",
                     (json_int_t)r->whole_ms.count, "prompt_tokens", (json_int_t)c->prompt_tokens,
                     "output_tokens", (json_int_t)c->output_tokens, "cut_short", (int)c->cut_short,
                     "total_s", (double)r->total_ns / 1e9, "tps", decoded(r, r->run.tps), "tpot_ms",
                     gp_json_spread(&r->tpot_ms), "ttft_ms", gp_json_spread(&r->ttft_ms), "gap_ms",
                     gp_json_spread(&r->gap_ms), "e2e_ms", gp_json_spread(&r->whole_ms));
}

static json_t *memory(struct gp_service_result *r)
{
    const struct gp_service_counts *c = &r->counts;
    uint64_t primary = c->grow + c->compress + c->shrink;

    return json_pack(
        "{s:o, s:o, s:o, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}",
        "kv_budget", decoded(r, r->run.kv_budget), "kv_nominal",
        r->budget_nominal ? json_integer(r->budget_nominal) : json_null(), "concurrency",
        decoded(r, r->run.concurrency), "concurrency_max", (int)r->run.concurrency_max, "pages",
        (int)r->page_count, "pages_max", (int)r->pages_max, "decode_steps",
        (json_int_t)r->run.decode_steps, "grow", (json_int_t)c->grow, "compress",
        (json_int_t)c->compress, "shrink", (json_int_t)c->shrink, "start", (json_int_t)c->start,
        "initial", (json_int_t)c->initial, "pressure", (json_int_t)c->pressure, "capped",
        (json_int_t)c->capped, "fallback", (json_int_t)c->fallback, "preempt",
        (json_int_t)c->preempt, "grow_ratio",
        gp_json_number(ratio((double)c->grow, (double)primary)));
}

/* Demand is timed as a whole; the rest by each worker, and their times together are so many times
 * what passed. */
static json_t *boundaries(const struct gp_service_result *r)
{
    const struct gp_service_counts *c = &r->counts;
    double threads = r->threads, demand = (double)c->demand_ns,
           score = (double)c->score_ns / threads, select = (double)c->select_ns / threads,
           compact = (double)c->compact_ns / threads;

    return json_pack(
        "{s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:f, s:o}", "demand_events", (json_int_t)c->demands,
        "compact_events", (json_int_t)c->cuts, "demand",
        work(demand, c->demands, r->run.decoding_ns), "score",
        work(score, c->cuts, r->run.decoding_ns), "mask", work(0, c->cuts, r->run.decoding_ns),
        "select", work(select, c->cuts, r->run.decoding_ns), "compact",
        work(compact, c->cuts, r->run.decoding_ns), "decode_s", (double)r->run.decoding_ns / 1e9,
        "boundary_share",
        gp_json_number(ratio(demand + score + select + compact, (double)r->run.decoding_ns)));
}

json_t *gp_service_figures(struct gp_service_result *result)
{
    json_t *object = speed(result), *second = memory(result), *third = boundaries(result);

    if (!object || !second || !third || json_object_update(object, second) ||
        json_object_update(object, third)) {
        json_decref(object);
        object = NULL;
    }
    json_decref(second);
    json_decref(third);
    return object;
}
