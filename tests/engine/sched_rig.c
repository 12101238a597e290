#include "engine/sched_rig.h"

#include <stddef.h>

#include "base/assert.h"

static struct gp_signal measure(void *ctx, struct gp_seq *seq)
{
    struct rig *rig = ctx;

    gp_assert(seq->has_summaries && seq->pages >= 2);
    rig->measure_count++;
    return (struct gp_signal){.delta = rig->delta};
}

static void compact(void *ctx, struct gp_seq *seq, const struct gp_retention *r)
{
    struct rig *rig = ctx;

    gp_assert(seq->cached == seq->pages * rig->options.page_tokens);
    gp_assert(rig->compact_count < RIG_EVENTS);
    rig->compactions[rig->compact_count++] = *r;
}

static void boundary(void *ctx, const struct gp_seq *seq, struct gp_decision decision,
                     const struct gp_signal *signal, uint32_t pages_before)
{
    struct rig *rig = ctx;

    gp_assert(rig->event_count < RIG_EVENTS);
    rig->events[rig->event_count++] = (struct rig_event){seq->index, seq->computed, pages_before,
                                                         seq->pages, decision,      signal != NULL};
}

static void preempted(void *ctx, struct gp_seq *seq)
{
    struct rig *rig = ctx;

    gp_assert(seq->state == GP_SEQ_WAITING && seq->held == 0);
    rig->preempt_count++;
}

static void copy(void *ctx, uint32_t from, uint32_t to, uint32_t slots)
{
    struct rig *rig = ctx;

    gp_assert(from != to && slots >= 1 && slots <= rig->options.page_tokens);
    gp_assert(gp_pool_refs(rig->pool, to) == 1);
    rig->copy_count++;
}

void rig_open(struct rig *rig, uint32_t pages, struct gp_sched_options options)
{
    struct gp_sched_ops ops = {
        .measure = measure,
        .compact = compact,
        .copy = copy,
        .boundary = boundary,
        .preempted = preempted,
        .ctx = rig,
    };
    struct gp_sched_options o = options;

    o.page_tokens = o.page_tokens ? o.page_tokens : 4;
    o.max_seqs = o.max_seqs ? o.max_seqs : 4;
    o.max_batch_tokens = o.max_batch_tokens ? o.max_batch_tokens : 16;
    o.max_waiting = o.max_waiting ? o.max_waiting : 8;
    o.context = o.context ? o.context : 400;
    *rig = (struct rig){.options = o};
    gp_assert(gp_pool_open(&rig->pool, pages, NULL) == GP_OK);
    gp_assert(gp_sched_open(&rig->sched, rig->pool, &o, &ops, NULL) == GP_OK);
}

void rig_close(struct rig *rig)
{
    while (gp_sched_first_running(rig->sched))
        rig_end(rig, gp_sched_first_running(rig->sched));
    while (gp_sched_first_waiting(rig->sched))
        rig_end(rig, gp_sched_first_waiting(rig->sched));
    gp_assert(gp_pool_free_count(rig->pool) == gp_pool_total(rig->pool));
    gp_sched_close(rig->sched);
    gp_pool_close(rig->pool);
}

struct gp_kv_options rig_kv(const char *policy)
{
    struct gp_kv_options kv;

    gp_policy_defaults(&kv);
    gp_assert(gp_policy_from_text(policy, &kv, NULL) == GP_OK);
    kv.initial_pages = 2;
    return kv;
}

struct gp_seq *rig_add(struct rig *rig, uint32_t prompt, const char *policy)
{
    struct gp_kv_options kv = rig_kv(policy);

    return gp_sched_add(rig->sched, prompt, &kv, 0);
}

static void check(const struct rig *rig)
{
    gp_sched_check(rig->sched);
    gp_pool_check(rig->pool);
}

bool rig_plan(struct rig *rig)
{
    bool planned = gp_sched_plan(rig->sched, &rig->plan, &rig->stuck);

    check(rig);
    gp_assert(planned == (rig->plan.row_count > 0));
    return planned;
}

void rig_run(struct rig *rig)
{
    gp_sched_ran(rig->sched, &rig->plan);
    check(rig);
    for (uint32_t i = 0; i < rig->plan.run_count; i++)
        if (rig->plan.runs[i].last)
            gp_sched_append(rig->sched, rig->plan.runs[i].seq);
    check(rig);
}

bool rig_step(struct rig *rig)
{
    bool planned = rig_plan(rig);

    if (planned)
        rig_run(rig);
    return planned;
}

void rig_steps(struct rig *rig, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        gp_assert(rig_step(rig));
}

void rig_step_to(struct rig *rig, const struct gp_seq *seq, uint32_t computed)
{
    for (uint32_t i = 0; seq->computed < computed; i++) {
        gp_assert(i < 10000);
        gp_assert(rig_step(rig));
    }
    gp_assert(seq->computed == computed);
}

uint32_t rig_rows(const struct rig *rig, const struct gp_seq *seq)
{
    for (uint32_t i = 0; i < rig->plan.run_count; i++)
        if (rig->plan.runs[i].seq == seq)
            return rig->plan.runs[i].count;
    return 0;
}

void rig_end(struct rig *rig, struct gp_seq *seq)
{
    gp_sched_finish(rig->sched, seq);
    check(rig);
    gp_sched_forget(rig->sched, seq);
    check(rig);
}
