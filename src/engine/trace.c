#include "engine/trace.h"

#include <errno.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

/* Events of a step of 512 requests fit; what does not goes out early. */
#define BUFFER_BYTES (1u << 20)
#define LINE_BYTES   1024u

struct gp_tracer {
    int fd;
    bool broken;
    locale_t locale; /* a program's own may write 0,5 for 0.5 */
    uint64_t start_ns;
    size_t used;
    char text[BUFFER_BYTES];
};

static double milliseconds(uint64_t ns)
{
    return (double)ns / 1e6;
}

/* ---- lines ---- */

static void write_out(struct gp_tracer *t)
{
    for (size_t at = 0; at < t->used && !t->broken;) {
        ssize_t count = write(t->fd, t->text + at, t->used - at);

        if (count >= 0) {
            at += (size_t)count;
        } else if (errno != EINTR) {
            gp_log_warn("kv-trace: %s: the trace ends here", strerror(errno));
            t->broken = true;
        }
    }
    t->used = 0;
}

static void put(struct gp_tracer *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct gp_tracer *t, const char *format, ...)
{
    size_t room = BUFFER_BYTES - t->used;
    locale_t before = uselocale(t->locale);
    va_list args;

    va_start(args, format);
    int length = vsnprintf(t->text + t->used, room, format, args);
    va_end(args);
    uselocale(before);
    gp_assert(length >= 0 && (size_t)length < room);
    t->used += (size_t)length;
}

/* The text of a file may hold anything. */
static void put_string(struct gp_tracer *t, const char *text)
{
    put(t, "\"");
    for (; *text; text++)
        put(t,
            *text == '"' || *text == '\\' ? "\\%c"
            : (unsigned char)*text < ' '  ? "?"
                                          : "%c",
            *text);
    put(t, "\"");
}

/* A line begins: false when nobody reads. */
static bool begin(struct gp_engine *engine, const char *event)
{
    struct gp_tracer *t = engine->tracer;

    if (!t || t->broken)
        return false;
    if (BUFFER_BYTES - t->used < LINE_BYTES)
        write_out(t);
    put(t, "{\"event\":\"%s\",\"t_ms\":%.3f,\"step\":%llu", event,
        milliseconds(gp_clock_ns() - t->start_ns), (unsigned long long)engine->stats.steps);
    return true;
}

static void put_choice(struct gp_engine *engine, const struct request *request,
                       const struct choice *choice)
{
    put(engine->tracer, ",\"request\":%llu,\"choice\":%u",
        (unsigned long long)gp_request_id(engine, request), choice->index);
}

static bool begin_seq(struct gp_engine *engine, const char *event, const struct gp_seq *seq)
{
    struct owner owner = engine->owners[seq->index];

    if (!begin(engine, event))
        return false;
    put_choice(engine, owner.request, owner.choice);
    return true;
}

static void end(struct gp_engine *engine)
{
    put(engine->tracer, "}\n");
}

/* ---- the file ---- */

static void tell_start(struct gp_engine *engine)
{
    const struct gp_engine_options *o = &engine->options;
    struct gp_tracer *t = engine->tracer;
    struct gp_model_info model;
    struct timespec now;
    char policy[64];

    gp_model_info(engine->model, &model);
    clock_gettime(CLOCK_REALTIME, &now);
    gp_policy_to_text(&o->kv, policy);
    begin(engine, "start");
    put(t, ",\"unix_s\":%lld,\"version\":\"%s\",\"model\":", (long long)now.tv_sec, gp_version());
    put_string(t, model.name);
    put(t,
        ",\"cpu\":\"%s\",\"threads\":%u,\"policy\":\"%s\",\"page_size\":%u,\"pages\":%u,"
        "\"max_seqs\":%u",
        model.cpu, o->threads, policy, o->page_tokens, o->kv_pages, o->max_seqs);
    end(engine);
}

int gp_tracer_open(struct gp_engine *engine, struct gp_error *err)
{
    if (engine->options.trace_fd < 0)
        return GP_OK;
    struct gp_tracer *t = gp_mem_alloc(sizeof *t);

    if (!t)
        return gp_fail(err, GP_ENOMEM, "kv-trace: out of memory");
    t->fd = engine->options.trace_fd;
    t->start_ns = gp_clock_ns();
    t->locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!t->locale) {
        gp_mem_free(t);
        return gp_fail(err, GP_ENOMEM, "kv-trace: out of memory");
    }
    engine->tracer = t;
    engine->work_bytes += sizeof *t;
    tell_start(engine);
    gp_tracer_flush(engine);
    return GP_OK;
}

void gp_tracer_close(struct gp_engine *engine)
{
    struct gp_tracer *t = engine->tracer;

    if (!t)
        return;
    if (begin(engine, "end")) {
        put(t, ",\"output_tokens\":%llu", (unsigned long long)engine->stats.output_tokens);
        end(engine);
    }
    write_out(t);
    freelocale(t->locale);
    gp_mem_free(t);
    engine->tracer = NULL;
}

void gp_tracer_flush(struct gp_engine *engine)
{
    if (engine->tracer && engine->tracer->used > 0)
        write_out(engine->tracer);
}

/* ---- events ---- */

static void tell_admit(struct gp_engine *engine, const struct gp_seq *seq)
{
    const struct request *request = engine->owners[seq->index].request;
    char policy[64];

    if (!begin_seq(engine, "admit", seq))
        return;
    gp_policy_to_text(&seq->kv, policy);
    put(engine->tracer,
        ",\"policy\":\"%s\",\"prompt_tokens\":%u,\"max_tokens\":%u,\"queue_ms\":%.3f,"
        "\"pages\":%u",
        policy, seq->prompt_count, request->max_tokens,
        milliseconds(gp_clock_ns() - request->submitted_ns), seq->held);
    end(engine);
}

static void tell_resume(struct gp_engine *engine, const struct gp_seq *seq)
{
    bool replays = seq->kv.resume == GP_RESUME_REPLAY;

    if (!begin_seq(engine, "resume", seq))
        return;
    put(engine->tracer, ",\"mode\":\"%s\",\"tokens\":%u,\"pages\":%u",
        replays ? "replay" : "recompute", seq->token_count, seq->held);
    end(engine);
}

void gp_tracer_admitted(struct gp_engine *engine, const struct gp_seq *seq)
{
    if (seq->preempt > 0)
        tell_resume(engine, seq);
    else
        tell_admit(engine, seq);
    /* A prompt's last page may be a copy, which is no hit, and saves rows nevertheless. */
    if ((seq->hits > 0 || seq->computed > 0) && begin_seq(engine, "prefix_hit", seq)) {
        put(engine->tracer, ",\"pages\":%u,\"tokens\":%u", seq->hits, seq->computed);
        end(engine);
    }
}

static void tell_decision(struct gp_engine *engine, const struct gp_seq *seq,
                          struct gp_decision decision, const struct gp_signal *signal,
                          uint32_t pages_before)
{
    static const char *const actions[] = {"grow", "compress", "shrink"};
    static const char *const causes[] = {"policy", "start",    "initial",   "pressure",
                                         "capped", "fallback", "overridden"};
    struct choice *choice = engine->owners[seq->index].choice;
    uint64_t spent = choice->demand_ns - choice->told.demand_ns;
    struct gp_tracer *t = engine->tracer;

    choice->told.demand_ns = choice->demand_ns;
    if (!begin_seq(engine, "boundary", seq))
        return;
    put(t, ",\"tokens\":%u,\"pages\":%u,\"decision\":\"%s\",\"cause\":\"%s\"", seq->computed,
        pages_before, actions[decision.action], causes[decision.cause]);
    if (signal)
        put(t, ",\"delta\":%.9g,\"demand_short\":%.9g,\"demand_long\":%.9g,\"demand_ms\":%.3f",
            signal->delta, signal->demand_short, signal->demand_long, milliseconds(spent));
    else
        put(t, ",\"delta\":null,\"demand_short\":null,\"demand_long\":null,\"demand_ms\":null");
    end(engine);
}

void gp_tracer_boundary(struct gp_engine *engine, const struct gp_seq *seq,
                        struct gp_decision decision, const struct gp_signal *signal,
                        uint32_t pages_before)
{
    struct choice *choice = engine->owners[seq->index].choice;
    bool denied = seq->fallback > choice->told.fallback;

    if (!engine->tracer)
        return;
    tell_decision(engine, seq, decision, signal, pages_before);
    choice->told.fallback = seq->fallback;
    if (denied && begin_seq(engine, "fallback", seq)) {
        put(engine->tracer, ",\"pages\":%u,\"to\":\"%s\"", pages_before,
            decision.action == GP_DO_GROW ? "preempt" : "compress");
        end(engine);
    }
    /* One that gives way for its page has not grown yet. */
    if (decision.action == GP_DO_GROW && seq->pages > pages_before &&
        begin_seq(engine, "grow", seq)) {
        put(engine->tracer, ",\"pages\":%u,\"pages_free\":%u", seq->pages,
            gp_pool_free_count(engine->pool));
        end(engine);
    }
}

void gp_tracer_compacted(struct gp_engine *engine, const struct gp_seq *seq,
                         const struct gp_retention *r)
{
    struct choice *choice = engine->owners[seq->index].choice;
    struct gp_stages now = choice->stages, before = choice->told.stages;

    choice->told.stages = now;
    /* One for every token would be no news. */
    if (seq->kv.trigger == GP_TRIGGER_TOKEN)
        return;
    if (!begin_seq(engine, "compact", seq))
        return;
    put(engine->tracer,
        ",\"tokens\":%u,\"pages\":%u,\"pages_after\":%u,\"slots\":%u,\"kept\":%u,\"moved\":%llu,"
        "\"score_ms\":%.3f,\"select_ms\":%.3f,\"move_ms\":%.3f,\"replay\":%s",
        seq->computed, seq->pages, r->pages_after, seq->cached, r->keep + r->protect,
        (unsigned long long)(now.moved - before.moved),
        milliseconds(now.score_ns - before.score_ns),
        milliseconds(now.select_ns - before.select_ns),
        milliseconds(now.compact_ns - before.compact_ns),
        seq->computed + 1 < seq->token_count ? "true" : "false");
    end(engine);
}

void gp_tracer_preempted(struct gp_engine *engine, const struct gp_seq *seq)
{
    if (!begin_seq(engine, "preempt", seq))
        return;
    put(engine->tracer, ",\"tokens\":%u,\"pages_free\":%u", seq->token_count,
        gp_pool_free_count(engine->pool));
    end(engine);
}

void gp_tracer_finished(struct gp_engine *engine, const struct request *request,
                        const struct choice *choice)
{
    const struct gp_request_stats *s = &choice->stats_seen;
    struct gp_tracer *t = engine->tracer;

    if (!begin(engine, "finish"))
        return;
    put_choice(engine, request, choice);
    put(t,
        ",\"reason\":\"%s\",\"output_tokens\":%u,\"queue_ms\":%.3f,\"prefill_ms\":%.3f,"
        "\"decode_ms\":%.3f,\"pages\":%u,\"pages_peak\":%u,\"pages_mean\":%.6g",
        gp_finish_name(choice->finish), s->output_tokens, milliseconds(s->queue_ns),
        milliseconds(s->prefill_ns), milliseconds(s->decode_ns), s->pages, s->pages_peak,
        s->pages_mean);
    put(t,
        ",\"grow\":%u,\"compress\":%u,\"shrink\":%u,\"start\":%u,\"initial\":%u,\"pressure\":%u,"
        "\"capped\":%u,\"fallback\":%u,\"preempt\":%u",
        s->grow, s->compress, s->shrink, s->start, s->initial, s->pressure, s->capped, s->fallback,
        s->preempt);
    end(engine);
}
