/* What a request's cache went through. */
#include "server/answer.h"

json_t *gp_answer_kv(const struct gp_job *job, const struct gp_choice *choice)
{
    uint64_t id = gp_job_run_id(job, choice->run);
    struct gp_request_stats s;
    struct gp_boundary_event event;
    json_t *deltas = json_array();
    char policy[64];

    if (!gp_job_stats(job, choice, &s))
        s = (struct gp_request_stats){0};
    for (uint32_t i = 0; i < s.boundary_count; i++)
        if (gp_engine_boundary(job->api->engine, id, choice->index, i, &event))
            json_array_append_new(deltas, event.has_delta ? json_real(event.delta) : json_null());
    gp_policy_format(&job->asked.kv, policy);
    return json_pack(
        "{s:s, s:i, s:i, s:i, s:i, s:f, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:o}",
        "policy", policy, "page_size", (int)job->api->engine_info.page_tokens, "pages",
        (int)s.pages, "slots", (int)s.slots, "pages_peak", (int)s.pages_peak, "pages_mean",
        s.pages_mean, "grow", (int)s.grow, "compress", (int)s.compress, "shrink", (int)s.shrink,
        "start", (int)s.start, "initial", (int)s.initial, "pressure", (int)s.pressure, "capped",
        (int)s.capped, "fallback", (int)s.fallback, "preempt", (int)s.preempt, "seed",
        (json_int_t)s.seed, "delta", deltas);
}
