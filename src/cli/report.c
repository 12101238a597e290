#include "cli/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <jansson.h>

#include "cli/io.h"

/* Events shown at most; --json has all. */
#define EVENTS_SHOWN 16u

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static double rate(double count, uint64_t ns)
{
    return ns > 0 ? count / seconds(ns) : 0;
}

/* Decode steps: one for each token behind the first. */
static uint32_t decoded(const struct gp_request_stats *stats)
{
    return stats->output_tokens > 0 ? stats->output_tokens - 1 : 0;
}

static uint64_t total_ns(const struct gp_request_stats *stats)
{
    return stats->queue_ns + stats->prefill_ns + stats->decode_ns;
}

/* Growths among the primary decisions; < 0: there was none. */
static double grow_ratio(const struct gp_request_stats *stats)
{
    uint32_t primary = stats->grow + stats->compress + stats->shrink;

    return primary > 0 ? (double)stats->grow / primary : -1;
}

/* The work at boundaries, in milliseconds that passed: demand is timed as a whole, the rest by each
 * thread. */
struct work {
    double demand, score, select, compact, share; /* the last: of decoding */
};

static struct work work_of(const struct gp_engine_info *engine, const struct gp_request_stats *s)
{
    double threads = engine->threads, decode = seconds(s->decode_ns) * 1e3;
    struct work work = {
        .demand = seconds(s->demand_ns) * 1e3,
        .score = seconds(s->score_ns) * 1e3 / threads,
        .select = seconds(s->select_ns) * 1e3 / threads,
        .compact = seconds(s->compact_ns) * 1e3 / threads,
    };

    if (decode > 0)
        work.share = (work.demand + work.score + work.select + work.compact) / decode;
    return work;
}

/* Tokens whose keys and values were computed: the last token drawn has not been run. */
static uint32_t tokens_run(const struct gp_request_stats *stats)
{
    return stats->prompt_tokens + (stats->output_tokens > 0 ? stats->output_tokens - 1 : 0);
}

static uint64_t page_bytes(const struct gp_engine_info *engine)
{
    return engine->page_tokens * engine->kv_token_bytes;
}

static uint32_t full_pages(const struct gp_engine_info *engine,
                           const struct gp_request_stats *stats)
{
    return (tokens_run(stats) + engine->page_tokens - 1) / engine->page_tokens;
}

void gp_report_start(const struct gp_model *model, const struct gp_engine *engine,
                     const struct gp_settings *settings)
{
    struct gp_model_info m;
    struct gp_engine_info e;
    char policy[64], weights[32], pool[32], token[32], summaries[32], work[32], scores[32];

    gp_model_info(model, &m);
    gp_engine_info(engine, &e);
    gp_policy_format(&settings->engine.kv, policy);
    fprintf(stderr, "model   %s (%s, %s, %.1fM parameters, vocabulary %u %s)\n",
            m.name[0] ? m.name : settings->model_path, m.arch, m.quant,
            (double)m.parameter_count / 1e6, m.vocab_count, m.tokenizer);
    fprintf(stderr, "cpu     %s, %u thread%s\n", m.cpu, e.threads, e.threads == 1 ? "" : "s");
    fprintf(stderr, "memory  weights %s, KV pool %s, query summaries %s, work %s%s%s\n",
            gp_format_bytes(m.weight_bytes, weights), gp_format_bytes(e.kv_bytes, pool),
            gp_format_bytes(e.summary_bytes, summaries), gp_format_bytes(e.work_bytes, work),
            e.score_bytes ? ", scores " : "",
            e.score_bytes ? gp_format_bytes(e.score_bytes, scores) : "");
    fprintf(stderr, "cache   %u pages of %u tokens, %s, %s a token, policy %s\n", e.page_count,
            e.page_tokens, e.kv_type, gp_format_bytes(e.kv_token_bytes, token), policy);
    fprintf(stderr, "fits    %u request%s of %u tokens\n\n", e.full_requests,
            e.full_requests == 1 ? "" : "s", e.context);
}

static const char *action_name(enum gp_action action)
{
    static const char *const names[] = {"grow", "compress", "shrink"};

    return names[action];
}

static const char *cause_name(enum gp_cause cause)
{
    static const char *const names[] = {"",          " (start)",    " (initial)",   " (pressure)",
                                        " (capped)", " (fallback)", " (overridden)"};

    return names[cause];
}

static void print_event(const struct gp_boundary_event *event)
{
    fprintf(stderr, "        at %6u  %-8s %3u -> %-3u pages", event->tokens,
            action_name(event->action), event->pages_before, event->pages_after);
    if (event->has_delta)
        fprintf(stderr, "  delta %+.5f = %.5f - %.5f", event->delta, event->demand_short,
                event->demand_long);
    fprintf(stderr, "%s\n", cause_name(event->cause));
}

static void print_events(const struct gp_answer *answer)
{
    uint32_t count = answer->stats.boundary_count;

    for (uint32_t i = 0; i < count; i++) {
        if (count > EVENTS_SHOWN && i == EVENTS_SHOWN / 2) {
            fprintf(stderr, "        ... %u more ...\n", count - EVENTS_SHOWN);
            i = count - EVENTS_SHOWN / 2;
        }
        print_event(&answer->events[i]);
    }
}

static void print_work(const struct gp_engine_info *engine, const struct gp_request_stats *s)
{
    struct work work = work_of(engine, s);

    fprintf(stderr,
            "work    demand %.2f ms, score %.2f ms, select %.2f ms, compact %.2f ms; %.2f %% of "
            "decoding\n",
            work.demand, work.score, work.select, work.compact, work.share * 100);
}

void gp_report_cache(const struct gp_engine_info *engine, const struct gp_answer *answer)
{
    const struct gp_request_stats *s = &answer->stats;
    char graph[GP_GRAPH_BYTES], held[32], full[32];
    uint32_t pages_full = full_pages(engine, s);
    uint64_t held_bytes = s->pages * page_bytes(engine),
             full_bytes = pages_full * page_bytes(engine);

    gp_history_draw(&answer->pages, gp_has_unicode(), graph);
    fprintf(stderr, "pages   %s  %u held, %u at most, %.1f on average (%.0f tokens)\n", graph,
            s->pages, s->pages_peak, s->pages_mean, s->pages_mean * engine->page_tokens);
    fprintf(stderr, "kv      %s held; a full cache: %s in %u page%s\n",
            gp_format_bytes(held_bytes, held), gp_format_bytes(full_bytes, full), pages_full,
            pages_full == 1 ? "" : "s");
    fprintf(stderr, "events  %u grow, %u compress", s->grow, s->compress);
    const struct {
        const char *name;
        uint32_t count;
    } others[] = {{"shrink", s->shrink},     {"start", s->start},   {"initial", s->initial},
                  {"pressure", s->pressure}, {"capped", s->capped}, {"fallback", s->fallback},
                  {"preempt", s->preempt}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].count > 0)
            fprintf(stderr, ", %u %s", others[i].count, others[i].name);
    if (grow_ratio(s) >= 0)
        fprintf(stderr, "; grow ratio %.3f", grow_ratio(s));
    fprintf(stderr, "\n");
    print_events(answer);
    print_work(engine, s);
}

void gp_report_answer(const struct gp_engine_info *engine, const struct gp_answer *answer)
{
    const struct gp_request_stats *s = &answer->stats;

    fprintf(stderr, "prompt  %u tokens, %.1f tok/s; first token after %.2f s\n", s->prompt_tokens,
            rate(s->prompt_tokens - s->cached_tokens, s->prefill_ns),
            seconds(s->queue_ns + s->prefill_ns));
    fprintf(stderr, "decode  %u tokens, %.1f tok/s, %.2f ms a token; finish %s, seed %llu\n",
            s->output_tokens, rate(decoded(s), s->decode_ns), s->tpot_ms,
            gp_finish_name(answer->finish), (unsigned long long)s->seed);
    fprintf(stderr, "total   %.2f s\n", seconds(total_ns(s)));
    gp_report_cache(engine, answer);
}

static json_t *json_timings(const struct gp_request_stats *s)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "queue_ms",
                     seconds(s->queue_ns) * 1e3, "prompt_ms", seconds(s->prefill_ns) * 1e3,
                     "prompt_per_second", rate(s->prompt_tokens - s->cached_tokens, s->prefill_ns),
                     "ttft_ms", seconds(s->queue_ns + s->prefill_ns) * 1e3, "decode_ms",
                     seconds(s->decode_ns) * 1e3, "decode_per_second",
                     rate(decoded(s), s->decode_ns), "tpot_ms", s->tpot_ms, "total_ms",
                     seconds(total_ns(s)) * 1e3);
}

/* `mask` is part of `select` here. */
static json_t *json_work(const struct gp_engine_info *engine, const struct gp_request_stats *s)
{
    struct work work = work_of(engine, s);

    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "demand_ms", work.demand, "score_ms",
                     work.score, "mask_ms", 0.0, "select_ms", work.select, "compact_ms",
                     work.compact, "share", work.share);
}

static json_t *json_cache(const struct gp_engine_info *engine, const struct gp_settings *settings,
                          const struct gp_answer *answer)
{
    const struct gp_request_stats *s = &answer->stats;
    json_t *deltas = json_array();
    char policy[64];

    for (uint32_t i = 0; i < s->boundary_count; i++)
        json_array_append_new(
            deltas, answer->events[i].has_delta ? json_real(answer->events[i].delta) : json_null());
    gp_policy_format(&settings->engine.kv, policy);
    return json_pack(
        "{s:s, s:i, s:i, s:f, s:f, s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o, s:o}",
        "policy", policy, "page_size", (int)engine->page_tokens, "pages_peak", (int)s->pages_peak,
        "pages_mean", s->pages_mean, "budget", s->pages_mean * engine->page_tokens, "grow_ratio",
        grow_ratio(s) < 0 ? json_null() : json_real(grow_ratio(s)), "grow", (int)s->grow,
        "compress", (int)s->compress, "shrink", (int)s->shrink, "start", (int)s->start, "initial",
        (int)s->initial, "pressure", (int)s->pressure, "capped", (int)s->capped, "fallback",
        (int)s->fallback, "preempt", (int)s->preempt, "work", json_work(engine, s), "delta",
        deltas);
}

int gp_report_json(const struct gp_engine_info *engine, const struct gp_settings *settings,
                   const struct gp_answer *answer, struct gp_error *err)
{
    const struct gp_request_stats *s = &answer->stats;
    json_t *ids = json_array();
    int rc = GP_OK;

    for (uint32_t i = 0; i < answer->token_count; i++)
        json_array_append_new(ids, json_integer(answer->tokens[i]));
    json_t *root =
        json_pack("{s:s%, s:o, s:s, s:I, s:{s:i, s:i, s:i, s:{s:i}}, s:o, s:o}", "text",
                  answer->text ? answer->text : "", answer->text_length, "tokens", ids,
                  "finish_reason", gp_finish_name(answer->finish), "seed", (json_int_t)s->seed,
                  "usage", "prompt_tokens", (int)s->prompt_tokens, "completion_tokens",
                  (int)s->output_tokens, "total_tokens", (int)(s->prompt_tokens + s->output_tokens),
                  "prompt_tokens_details", "cached_tokens", (int)s->cached_tokens, "timings",
                  json_timings(s), "kv", json_cache(engine, settings, answer));
    if (!root)
        return gp_fail(err, GP_ENOMEM, "answer: out of memory");
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    if (!text)
        return gp_fail(err, GP_ENOMEM, "answer: out of memory");
    rc = gp_printf(err, "%s\n", text);
    if (!rc)
        rc = gp_print_end(err);
    free(text);
    return rc;
}
