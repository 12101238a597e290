/* Counts of what was served, in Prometheus' text form under vLLM's names. */
#ifndef GP_SERVER_METRICS_H
#define GP_SERVER_METRICS_H

#include "server/buffer.h"
#include "server/job.h"

#define GP_BUCKETS_MAX 20u

struct gp_histogram {
    uint64_t counts[GP_BUCKETS_MAX + 1]; /* the last one: above all bounds */
    uint64_t count;
    double sum;
};

struct gp_metrics {
    uint64_t success_stop, success_length, success_abort, success_error;
    uint64_t rejected_full, rejected_invalid;
    uint64_t choices; /* finished */
    struct gp_histogram first_token, inter_token, per_token, total, queue, prefill, decode;
    struct gp_histogram prompt_tokens, output_tokens, max_tokens, n, pages, delta;
};

/* A job came to its end; cut: its client did not wait for it. */
void gp_metrics_job(struct gp_metrics *metrics, const struct gp_job *job, bool cut);

/* So many tokens of an answer came at once, so many seconds behind those before them. */
void gp_metrics_gap(struct gp_metrics *metrics, double gap, uint32_t tokens);

void gp_metrics_print(const struct gp_metrics *metrics, const struct gp_api *api,
                      struct gp_buffer *out);

#endif
