/* What an evaluation does to an engine and a server never does: forks, decisions of its own, and a
 * look at what each row attends to.  Nothing of it is touched when nobody asks. */
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/trace.h"

int gp_measure_open(struct gp_engine *engine, struct gp_error *err)
{
    if (!engine->options.taps)
        return GP_OK;
    engine->tap_counts = gp_mem_alloc_array(gp_boundary_items(engine), sizeof *engine->tap_counts);
    return engine->tap_counts ? GP_OK : gp_fail(err, GP_ENOMEM, "taps: out of memory");
}

void gp_measure_close(struct gp_engine *engine)
{
    gp_mem_free(engine->tap_counts);
}

/* ---- decisions ---- */

struct gp_boundary_event gp_measure_event(const struct gp_seq *seq, struct gp_decision decision,
                                          const struct gp_signal *signal, uint32_t pages_before)
{
    struct gp_boundary_event event = {
        .tokens = seq->computed,
        .pages_before = pages_before,
        .action = (enum gp_action)decision.action,
        .cause = (enum gp_cause)decision.cause,
        .has_delta = signal != NULL,
    };

    if (signal) {
        event.delta = signal->delta;
        event.demand_short = signal->demand_short;
        event.demand_long = signal->demand_long;
    }
    return event;
}

struct gp_decision gp_measure_override(void *ctx, const struct gp_seq *seq,
                                       struct gp_decision decision, const struct gp_signal *signal)
{
    struct gp_engine *engine = ctx;
    struct owner owner = engine->owners[seq->index];
    const struct gp_request *asked = &owner.request->asked;

    if (!asked->on_boundary)
        return decision;
    struct gp_boundary_event event = gp_measure_event(seq, decision, signal, seq->pages);

    gp_mem_thaw();
    enum gp_action action = asked->on_boundary(asked->ctx, owner.choice->index, &event);

    gp_mem_freeze();
    if (action == event.action || (action != GP_ACTION_GROW && action != GP_ACTION_COMPRESS))
        return decision;
    return (struct gp_decision){(enum gp_policy_action)action, GP_BECAUSE_OVERRIDDEN};
}

/* ---- forks ---- */

/* A query slot's part of [layer][slot][floats]. */
static void copy_slot(const struct gp_engine *engine, float *all, uint32_t from, uint32_t to,
                      size_t floats)
{
    for (uint32_t layer = 0; all && layer < engine->model->weights->hp.layer_count; layer++) {
        float *slots = all + (size_t)layer * engine->cache.summary_slots * floats;

        memcpy(slots + to * floats, slots + from * floats, floats * sizeof *slots);
    }
}

void gp_measure_clone(void *ctx, const struct gp_seq *from, const struct gp_seq *to)
{
    struct gp_engine *engine = ctx;
    const struct gp_hparams *hp = &engine->model->weights->hp;
    struct gp_cache *cache = &engine->cache;
    size_t queries = (size_t)hp->head_count * hp->key_dim;

    copy_slot(engine, cache->summaries, from->query_slot, to->query_slot, 2 * queries);
    copy_slot(engine, cache->query_rms, from->query_slot, to->query_slot, hp->head_count);
    copy_slot(engine, cache->windows, from->query_slot, to->query_slot,
              cache->window_rows * queries);
}

static int check_fork(const struct gp_request *r, struct gp_error *err)
{
    const char *field = r->tokens || r->token_count ? "tokens"
                        : r->n > 1                  ? "n"
                        : r->prompt_logprobs >= 0   ? "prompt_logprobs"
                        : r->kv                     ? "kv"
                        : r->cache_salt             ? "cache_salt"
                                                    : NULL;

    return field ? gp_fail(err, GP_EINVAL, "fork: %s is the parent's", field) : GP_OK;
}

/* Under the lock. */
static int fork_choice(struct gp_engine *engine, const struct request *parent,
                       const struct choice *choice, const struct gp_request *asked, uint64_t *id,
                       struct gp_error *err)
{
    struct gp_request whole = *asked;
    struct request made, *request;

    whole.tokens = choice->tokens;
    whole.token_count = parent->asked.token_count + choice->output_count;
    whole.kv = &choice->seq->kv;
    int rc = gp_request_make(engine, &whole, &made, err);

    if (rc)
        return rc;
    if (!gp_sched_may_fork(choice->seq))
        return gp_fail(err, GP_EAGAIN, "fork: the parent does not stand before a new token");
    struct gp_seq *seq = gp_sched_fork(engine->sched, choice->seq);

    if (!seq)
        return gp_fail(err, GP_EAGAIN, "fork: no room for another running request of %u pages",
                       choice->seq->held);
    rc = gp_request_place(engine, &made, &request, err);
    if (rc) {
        gp_sched_finish(engine->sched, seq);
        gp_sched_forget(engine->sched, seq);
        return rc;
    }
    request->choices[0].seq = seq;
    request->choices[0].told.fallback = seq->fallback;
    engine->owners[seq->index] = (struct owner){request, &request->choices[0]};
    gp_tracer_admitted(engine, seq);
    *id = gp_request_id(engine, request);
    return GP_OK;
}

int gp_engine_fork(struct gp_engine *engine, uint64_t parent, uint32_t index,
                   const struct gp_request *asked, uint64_t *id, struct gp_error *err)
{
    int rc = check_fork(asked, err);

    if (rc)
        return rc;
    pthread_mutex_lock(&engine->lock);
    struct request *request = gp_request_find(engine, parent);
    struct choice *choice = request && index < request->asked.n ? &request->choices[index] : NULL;

    if (choice && choice->seq)
        rc = fork_choice(engine, request, choice, asked, id, err);
    else
        rc = gp_fail(err, GP_EINVAL, "fork: no such request is running");
    pthread_mutex_unlock(&engine->lock);
    return rc;
}

/* ---- taps ---- */

struct tap {
    struct gp_engine *engine;
    const struct gp_seq *seq;
};

static void tap_items(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct tap *tap = ctx;
    struct gp_engine *engine = tap->engine;
    const struct gp_seq *seq = tap->seq;
    const struct gp_hparams *hp = &engine->model->weights->hp;
    const struct gp_kernels *kernels = &engine->model->kernels;
    struct boundary_scratch *scratch = &engine->scratch[worker];
    uint32_t group = hp->head_count / hp->kv_head_count, slots = seq->cached;
    uint32_t row = (seq->computed - 1) % engine->cache.window_rows;
    const uint32_t *heads[GP_LIMIT_HEADS];

    for (uint32_t item = begin; item < end; item++) {
        uint32_t layer = item / hp->kv_head_count, head = item % hp->kv_head_count;
        struct gp_kv_view kv = gp_cache_view(&engine->cache, hp, seq->table, layer, head);
        const float *query = gp_window_of(engine, layer, seq->query_slot) +
                             ((size_t)row * hp->head_count + head * group) * hp->key_dim;

        for (uint32_t g = 0; g < group; g++) {
            uint32_t *fixed = scratch->fixed + (size_t)g * slots;

            kernels->kv_scores(&kv, query + (size_t)g * hp->key_dim, 0, slots, hp->attention_scale,
                               scratch->head);
            kernels->softmax(scratch->head, slots);
            gp_fixed_point(scratch->head, slots, fixed);
            heads[g] = fixed;
        }
        gp_fixed_mean(heads, group, slots, scratch->kept);
        engine->tap_counts[item] =
            gp_coverage_count(scratch->kept, slots, seq->kv.coverage, scratch->count);
    }
}

static bool is_tapped(const struct request *request, const struct gp_run *run)
{
    uint32_t every = request->asked.tap_every ? request->asked.tap_every : 1;
    const struct gp_seq *seq = run->seq;

    return request->asked.on_tap && run->last && seq->computed > seq->prompt_count &&
           (seq->computed - seq->prompt_count) % every == 0;
}

void gp_measure_tap(struct gp_engine *engine, const struct gp_plan *plan)
{
    for (uint32_t i = 0; i < plan->run_count; i++) {
        const struct gp_seq *seq = plan->runs[i].seq;
        struct owner owner = engine->owners[seq->index];
        struct tap tap = {engine, seq};

        if (!is_tapped(owner.request, &plan->runs[i]))
            continue;
        gp_workers_run(engine->workers, gp_boundary_items(engine), 1, tap_items, &tap);
        struct gp_tap told = {
            .tokens = seq->computed,
            .slots = seq->cached,
            .layer_count = engine->model->weights->hp.layer_count,
            .kv_head_count = engine->model->weights->hp.kv_head_count,
            .counts = engine->tap_counts,
        };

        gp_mem_thaw();
        owner.request->asked.on_tap(owner.request->asked.ctx, owner.choice->index, &told);
        gp_mem_freeze();
    }
}
