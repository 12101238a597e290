/* What a request asked for, and what its cache went through. */
#include "server/answer.h"

json_t *gp_answer_params(const struct gp_asked *asked)
{
    const struct gp_sampling *s = &asked->request.sampling;
    json_t *stops = json_array();

    for (uint32_t i = 0; i < asked->stops.count; i++)
        json_array_append_new(
            stops, json_stringn(asked->stops.items[i].text, asked->stops.items[i].length));
    return json_pack("{s:f, s:f, s:i, s:f, s:f, s:f, s:f, s:i, s:i, s:b, s:b, s:o}", "temperature",
                     (double)s->temperature, "top_p", (double)s->top_p, "top_k", (int)s->top_k,
                     "min_p", (double)s->min_p, "repeat_penalty", (double)s->repeat_penalty,
                     "presence_penalty", (double)s->presence_penalty, "frequency_penalty",
                     (double)s->frequency_penalty, "n_predict",
                     asked->request.max_tokens > 0 ? (int)asked->request.max_tokens : -1, "n",
                     (int)asked->request.n, "ignore_eos", asked->request.ignore_eos, "stream",
                     asked->stream, "stop", stops);
}

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
