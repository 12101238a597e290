/* A workload served by an engine: how fast, in how much memory, and what the policy did meanwhile.
 *
 * The engine is stepped by this thread, and time is seen between two steps: a token counts from
 * when a reader could have it.  What each figure means is said in growpage(1), under SERVING
 * FIGURES. */
#ifndef GP_EVAL_SERVICE_H
#define GP_EVAL_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "eval/origin.h"
#include "eval/statistics.h"
#include "eval/workload.h"
#include "growpage.h"

struct gp_service {
    const struct gp_workload *workload;
    const struct gp_kv_options *kv;
    struct gp_sampling sampling; /* its seed is replaced for each request */
    uint32_t vocab;
    /* After each step, with the requests that are done; false ends it. */
    bool (*go_on)(void *ctx, uint32_t done);
    void *ctx;
};

struct gp_service_counts {
    uint64_t prompt_tokens, output_tokens;
    uint64_t grow, compress, shrink; /* primary decisions */
    uint64_t start, initial, pressure, capped, fallback, preempt;
    uint64_t demands, cuts; /* demand measured; caches compacted */
    uint64_t demand_ns, score_ns, select_ns, compact_ns;
    uint32_t cut_short; /* requests that ended before their length */
};

struct gp_service_result {
    uint32_t threads, page_tokens, page_count;
    struct gp_service_counts counts;
    struct gp_run_figures run;
    uint64_t total_ns; /* from the start to the last request's end */
    uint32_t pages_max;
    uint32_t budget_nominal; /* 0: the policy has none */
    /* Over requests; gaps: over tokens. */
    struct gp_values ttft_ms, tpot_ms, gap_ms, whole_ms;
};

/* Tokens of the longest request.  GP_EINVAL if one is longer than a context of `limit`. */
int gp_service_context(const struct gp_workload *workload, uint32_t limit, uint32_t *out,
                       struct gp_error *err);

/* On an engine that has nothing else to do.  *complete: go_on never said no, and *out was written;
 * it is freed with gp_service_result_free. */
int gp_service_run(const struct gp_service *service, struct gp_engine *engine,
                   struct gp_service_result *out, bool *complete, struct gp_error *err);
void gp_service_result_free(struct gp_service_result *result);

/* JSON, NULL for no memory: what was served by what, and the figures, whose values are sorted by
 * that. */
json_t *gp_service_origin(const struct gp_service *service, const struct gp_origin *origin,
                          const struct gp_engine *engine);
json_t *gp_service_figures(struct gp_service_result *result);

#endif
