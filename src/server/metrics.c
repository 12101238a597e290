#include "server/metrics.h"

struct bounds {
    const double *items;
    uint32_t count;
};

static const double second_bounds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5,
                                       0.75,  1,     2.5,  5,    7.5,  10,   20,   40,  80,   160};
static const double count_bounds[] = {1,    2,    5,    10,    20,    50,    100,    200,   500,
                                      1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000};

#define BOUNDS(array)                                                                              \
    (struct bounds)                                                                                \
    {                                                                                              \
        array, sizeof array / sizeof *array                                                        \
    }

static const double delta_bounds[] = {-0.2,  -0.1, -0.05, -0.02, -0.01, -0.005, 0,
                                      0.005, 0.01, 0.02,  0.05,  0.1,   0.2};

_Static_assert(sizeof second_bounds / sizeof *second_bounds <= GP_BUCKETS_MAX, "they fit");
_Static_assert(sizeof count_bounds / sizeof *count_bounds <= GP_BUCKETS_MAX, "they fit");

static void observe(struct gp_histogram *h, struct bounds bounds, double value)
{
    uint32_t i = 0;

    while (i < bounds.count && value > bounds.items[i])
        i++;
    h->counts[i]++;
    h->count++;
    h->sum += value;
}

static void observe_deltas(struct gp_metrics *m, const struct gp_job *job,
                           const struct gp_choice *choice, uint32_t count)
{
    uint64_t run = gp_job_run_id(job, choice->run);
    struct gp_boundary_event event;

    for (uint32_t i = 0; i < count; i++)
        if (gp_engine_boundary(job->api->engine, run, choice->index, i, &event) && event.has_delta)
            observe(&m->delta, BOUNDS(delta_bounds), event.delta);
}

static void observe_choice(struct gp_metrics *m, const struct gp_job *job,
                           const struct gp_choice *choice)
{
    struct bounds seconds = BOUNDS(second_bounds), counts = BOUNDS(count_bounds);
    struct gp_request_stats s;

    if (!gp_job_stats(job, choice, &s))
        return;
    double queue = (double)s.queue_ns / 1e9, prefill = (double)s.prefill_ns / 1e9;
    double decode = (double)s.decode_ns / 1e9;

    m->choices++;
    observe(&m->queue, seconds, queue);
    observe(&m->prefill, seconds, prefill);
    observe(&m->decode, seconds, decode);
    observe(&m->first_token, seconds, queue + prefill);
    observe(&m->total, seconds, queue + prefill + decode);
    observe(&m->output_tokens, counts, s.output_tokens);
    observe(&m->pages, counts, s.pages_peak);
    observe_deltas(m, job, choice, s.boundary_count);
    if (s.output_tokens > 1)
        observe(&m->per_token, seconds, s.tpot_ms / 1e3);
}

void gp_metrics_gap(struct gp_metrics *m, double gap, uint32_t tokens)
{
    struct bounds seconds = BOUNDS(second_bounds);

    for (uint32_t i = 0; i < tokens; i++)
        observe(&m->inter_token, seconds, gap / tokens);
}

void gp_metrics_job(struct gp_metrics *m, const struct gp_job *job, bool cut)
{
    const struct gp_asked *asked = &job->asked;
    struct bounds counts = BOUNDS(count_bounds);

    observe(&m->n, counts, asked->request.n);
    observe(&m->max_tokens, counts, asked->request.max_tokens);
    for (uint32_t i = 0; i < asked->prompt_count; i++)
        observe(&m->prompt_tokens, counts, asked->prompts[i].count);
    for (uint32_t i = 0; i < job->choice_count; i++) {
        const struct gp_choice *choice = &job->choices[i];

        if (cut && !choice->done)
            m->success_abort++;
        else if (choice->finish == GP_FINISH_STOP)
            m->success_stop++;
        else if (choice->finish == GP_FINISH_LENGTH || choice->finish == GP_FINISH_CAPACITY)
            m->success_length++;
        else
            m->success_error++;
        if (choice->done)
            observe_choice(m, job, choice);
    }
}

/* ---- text ---- */

static void print_head(struct gp_buffer *out, const char *name, const char *type, const char *help)
{
    gp_buffer_print(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void print_one(struct gp_buffer *out, const char *name, const char *type, const char *help,
                      double value)
{
    print_head(out, name, type, help);
    gp_buffer_print(out, "%s %.17g\n", name, value);
}

static void print_histogram(struct gp_buffer *out, const char *name, const char *help,
                            const struct gp_histogram *h, struct bounds bounds)
{
    uint64_t below = 0;

    print_head(out, name, "histogram", help);
    for (uint32_t i = 0; i < bounds.count; i++) {
        below += h->counts[i];
        gp_buffer_print(out, "%s_bucket{le=\"%g\"} %llu\n", name, bounds.items[i],
                        (unsigned long long)below);
    }
    gp_buffer_print(out, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.9g\n%s_count %llu\n", name,
                    (unsigned long long)h->count, name, h->sum, name, (unsigned long long)h->count);
}

static void print_histograms(const struct gp_metrics *m, struct gp_buffer *out)
{
    struct bounds seconds = BOUNDS(second_bounds), counts = BOUNDS(count_bounds);

    print_histogram(out, "vllm:time_to_first_token_seconds", "Time to first token.",
                    &m->first_token, seconds);
    print_histogram(out, "vllm:inter_token_latency_seconds", "Time between tokens.",
                    &m->inter_token, seconds);
    print_histogram(out, "vllm:request_time_per_output_token_seconds",
                    "Mean time per output token of a request.", &m->per_token, seconds);
    print_histogram(out, "vllm:e2e_request_latency_seconds", "From submission to the last token.",
                    &m->total, seconds);
    print_histogram(out, "vllm:request_queue_time_seconds", "Waiting.", &m->queue, seconds);
    print_histogram(out, "vllm:request_prefill_time_seconds", "From admission to the first token.",
                    &m->prefill, seconds);
    print_histogram(out, "vllm:request_decode_time_seconds", "From the first token to the last.",
                    &m->decode, seconds);
    print_histogram(out, "vllm:request_prompt_tokens", "Tokens of a prompt.", &m->prompt_tokens,
                    counts);
    print_histogram(out, "vllm:request_generation_tokens", "Tokens of an answer.",
                    &m->output_tokens, counts);
    print_histogram(out, "vllm:request_params_max_tokens", "max_tokens, as asked; 0: none.",
                    &m->max_tokens, counts);
    print_histogram(out, "vllm:request_params_n", "n, as asked.", &m->n, counts);
    print_histogram(out, "growpage:request_pages", "Most pages that a request held.", &m->pages,
                    counts);
    print_histogram(out, "growpage:kv_delta", "Change of demand at boundaries.", &m->delta,
                    BOUNDS(delta_bounds));
}

static void print_counters(const struct gp_metrics *m, struct gp_buffer *out)
{
    const struct {
        const char *reason;
        uint64_t value;
    } ends[] = {{"stop", m->success_stop},
                {"length", m->success_length},
                {"abort", m->success_abort},
                {"error", m->success_error}};

    print_head(out, "vllm:request_success_total", "counter", "Answers that ended, by how.");
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        gp_buffer_print(out, "vllm:request_success_total{finished_reason=\"%s\"} %llu\n",
                        ends[i].reason, (unsigned long long)ends[i].value);
    print_head(out, "vllm:admission_rejections_total", "counter", "Requests refused, by why.");
    gp_buffer_print(out,
                    "vllm:admission_rejections_total{reason=\"queue_full\"} %llu\n"
                    "vllm:admission_rejections_total{reason=\"invalid\"} %llu\n",
                    (unsigned long long)m->rejected_full, (unsigned long long)m->rejected_invalid);
}

static void print_engine(const struct gp_api *api, struct gp_buffer *out)
{
    const struct gp_engine_info *e = &api->engine_info;
    struct gp_engine_stats s;

    gp_engine_stats(api->engine, &s);
    const struct {
        const char *name, *type, *help;
        double value;
    } lines[] = {
        {"vllm:num_requests_running", "gauge", "Answers that hold pages.", s.running},
        {"vllm:num_requests_waiting", "gauge", "Answers that wait for pages.", s.waiting},
        {"vllm:kv_cache_usage_perc", "gauge", "Share of the pool that is held, 0 to 1.",
         (double)s.pages_used / e->page_count},
        {"vllm:gpu_cache_usage_perc", "gauge", "The same under its old name.",
         (double)s.pages_used / e->page_count},
        {"vllm:prompt_tokens_total", "counter", "Prompt tokens run.", (double)s.prompt_tokens},
        {"vllm:generation_tokens_total", "counter", "Tokens drawn.", (double)s.output_tokens},
        {"vllm:num_preemptions_total", "counter", "Requests sent back to wait.", (double)s.preempt},
        {"vllm:prefix_cache_queries_total", "counter", "Tokens looked for in the prefix index.",
         (double)s.prefix_asked},
        {"vllm:prefix_cache_hits_total", "counter", "Of those, tokens found.",
         (double)s.prefix_found},
        {"growpage:steps_total", "counter", "Steps of the engine.", (double)s.steps},
        {"growpage:rows_total", "counter", "Rows run, prompts and answers.", (double)s.rows},
        {"growpage:pages_used_max", "gauge", "Most pages held at once.", s.pages_used_max},
        {"growpage:kv_grow_total", "counter", "Boundaries that grew.", (double)s.grow},
        {"growpage:kv_compress_total", "counter", "Boundaries that compressed.",
         (double)s.compress},
        {"growpage:kv_shrink_total", "counter", "Boundaries that gave a page back.",
         (double)s.shrink},
        {"growpage:kv_start_total", "counter", "Growth for lack of summaries.", (double)s.start},
        {"growpage:kv_initial_total", "counter", "Growth up to the initial pages.",
         (double)s.initial},
        {"growpage:kv_pressure_total", "counter", "Growth for the pool was empty enough.",
         (double)s.pressure},
        {"growpage:kv_capped_total", "counter", "Growth that max_pages forbade.", (double)s.capped},
        {"growpage:kv_fallback_total", "counter", "Growth that the pool denied.",
         (double)s.fallback},
        {"growpage:forward_seconds_total", "counter", "Time in forward passes.",
         (double)s.forward_ns / 1e9},
        {"growpage:sample_seconds_total", "counter", "Time drawing tokens.",
         (double)s.sample_ns / 1e9},
        {"growpage:demand_seconds_total", "counter", "Time measuring demand.",
         (double)s.demand_ns / 1e9},
        {"growpage:score_seconds_total", "counter", "Time scoring tokens.",
         (double)s.score_ns / 1e9},
        {"growpage:select_seconds_total", "counter", "Time choosing what stays.",
         (double)s.select_ns / 1e9},
        {"growpage:compact_seconds_total", "counter", "Time moving what stays.",
         (double)s.compact_ns / 1e9},
    };

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        print_one(out, lines[i].name, lines[i].type, lines[i].help, lines[i].value);
    print_head(out, "growpage:pages", "gauge", "Pages of the pool, by state.");
    gp_buffer_print(out, "growpage:pages{state=\"used\"} %u\ngrowpage:pages{state=\"free\"} %u\n",
                    s.pages_used, s.pages_free);
    print_head(out, "vllm:cache_config_info", "gauge", "The pool.");
    gp_buffer_print(out,
                    "vllm:cache_config_info{block_size=\"%u\",num_gpu_blocks=\"%u\",cache_dtype="
                    "\"%s\"} 1\n",
                    e->page_tokens, e->page_count, e->kv_type);
}

void gp_metrics_print(const struct gp_metrics *m, const struct gp_api *api, struct gp_buffer *out)
{
    print_engine(api, out);
    print_counters(m, out);
    print_histograms(m, out);
}
