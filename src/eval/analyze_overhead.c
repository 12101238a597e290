/* What the work at boundaries costs. */
#include <math.h>

#include "base/mem.h"
#include "eval/analyze_kinds.h"
#include "eval/boundaries.h"
#include "eval/rows.h"

enum stage {
    DEMAND,
    SCORE,
    SELECT,
    COMPACT,
    ALL,
    STAGES,
};

static const char *const names[STAGES] = {"demand", "score", "select", "compact", "all"};

/* Of a policy. */
struct cost {
    uint64_t requests, demands, cuts;
    double ns[STAGES];
    struct gp_run_figures run;
};

struct costs {
    const struct gp_analysis *analysis;
    struct cost *items; /* [policy] */
    uint32_t threads;
};

/* Demand is timed as a whole; the rest by each worker, and their times together are so many times
 * what passed. */
static int take(void *ctx, const struct gp_sample *sample, struct gp_error *err)
{
    struct costs *costs = ctx;
    struct cost *cost = &costs->items[sample->policy];
    const struct gp_request_stats *s = sample->stats;
    double threads = costs->threads;
    const double ns[ALL] = {(double)s->demand_ns, (double)s->score_ns / threads,
                            (double)s->select_ns / threads, (double)s->compact_ns / threads};

    (void)err;
    cost->requests++;
    gp_boundaries_count(costs->analysis->engine, sample->request, s, &cost->demands, &cost->cuts);
    for (int i = 0; i < ALL; i++) {
        cost->ns[i] += ns[i];
        cost->ns[ALL] += ns[i];
    }
    return GP_OK;
}

static int take_run(void *ctx, const struct gp_sitting_state *state, struct gp_error *err)
{
    struct costs *costs = ctx;

    (void)err;
    costs->items[state->policy].run = state->run;
    return GP_OK;
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : NAN;
}

static int add_stage(const struct costs *costs, uint32_t policy, enum stage stage,
                     struct gp_error *err)
{
    const struct cost *c = &costs->items[policy];
    uint64_t events = stage == DEMAND ? c->demands : stage == ALL ? 0 : c->cuts;
    char name[64];

    gp_policy_format(&costs->analysis->sitting->policies[policy], name);
    return gp_analysis_add(
        costs->analysis,
        json_pack("{s:s, s:s, s:s, s:o, s:f, s:o, s:o, s:I, s:I, s:f}", "kind", "overhead",
                  "policy", name, "stage", names[stage], "events",
                  stage == ALL ? json_null() : json_integer((json_int_t)events), "ms",
                  c->ns[stage] / 1e6, "ms_per_event",
                  gp_json_number(ratio(c->ns[stage] / 1e6, (double)events)), "share",
                  gp_json_number(ratio(c->ns[stage], (double)c->run.decoding_ns)), "requests",
                  (json_int_t)c->requests, "output_tokens", (json_int_t)c->run.output_tokens,
                  "decode_ms", (double)c->run.decoding_ns / 1e6),
        err);
}

int gp_analyze_overhead(const struct gp_analysis *analysis, bool *complete, struct gp_error *err)
{
    struct gp_engine_info info;

    gp_engine_info(analysis->engine, &info);
    struct costs costs = {
        .analysis = analysis,
        .items = gp_mem_alloc_array(analysis->sitting->policy_count, sizeof *costs.items),
        .threads = info.threads,
    };
    if (!costs.items)
        return gp_fail(err, GP_ENOMEM, "analysis: out of memory");
    struct gp_analysis_ears ears = {NULL, take, take_run, &costs};
    int rc = gp_analysis_ask(analysis, &ears, complete, err);
    for (uint32_t p = 0; !rc && *complete && p < analysis->sitting->policy_count; p++)
        for (int i = 0; !rc && i < STAGES; i++)
            rc = add_stage(&costs, p, (enum stage)i, err);
    gp_mem_free(costs.items);
    return rc;
}
