/* A step: which rows run.
 *
 * THE ORDER
 *
 * 1. Decode rows: one for every running sequence that has computed all but its last token, oldest
 *    first.  A stream that people are reading does not wait for somebody else's prompt; and there
 *    is always room, since a step has at least as many rows as sequences may run.
 * 2. Chunks of prompts and replays, oldest first, from the rows that are left; beside decode rows
 *    no more of them than the limit says (pace.h).  Several sequences may be half-way through.
 *    (Under static batching admissions come first, and decode rows wait for all prompts:
 *    sched_static.c.)
 * 3. Admissions from the front of the queue, and nobody past a front that does not fit: an old
 *    large request must not wait for ever behind small new ones.  A choice waits at the front for
 *    the prompt of the first choice, which is running: then it shares the prompt's pages.
 *
 * WHO GIVES WAY
 *
 * A decode row whose pages are full passes its boundary here, in step 1, and may need a page that
 * is not there.  Then the newest running sequence gives way (or the one that has computed least),
 * over and over, wherever it stands: a half-done prompt holds pages as well as a decoding stream
 * does, and a rule that spares it would let it and the others wait for each other.  The one who
 * asks may be the newest itself.  A row that it had in this plan is taken out again.  Prompts take
 * all their pages when they are admitted and replays their peak, so steps 2 and 3 never ask for a
 * page in the middle.
 *
 * WHY IT NEVER WEDGES
 *
 * Every plan with somebody running runs at least one row of the oldest, or ends it, or waits for
 * its compaction, which holds all it needs and ends by itself:
 *
 *   - It decodes: at a boundary it grows, compresses, or is denied and preempts the newer ones, one
 *     by one.  If that was not enough it is alone, holds every page there is, and can neither grow
 *     nor compress: it ends, with a reason, instead of blocking the rest.
 *   - It is in a prompt or a replay: step 1 spent at most one row on each of the others, so a row
 *     is left, and step 2 begins with it, unless the limit keeps it waiting, which it does for one
 *     plan.  Its pages are held; a boundary inside is repeated from the log.
 *
 * The oldest (or the one that has computed most) gives way to nobody, so it finishes after finitely
 * many plans, and then another is.  With nobody running, the front of the queue is admitted if the
 * whole pool can hold it, and ends if it cannot.  A replay always fits: its pages were once held,
 * or decided on while others still held some.
 *
 * Nobody is admitted in a step that preempted.  The pages that came free were meant for the one
 * who asked; a newcomer would take them, be the newest, and lose them again.  Unless nobody
 * runs: then there is no one to keep them for. */
#include <stddef.h>
#include <string.h>

#include "base/assert.h"
#include "engine/sched_internal.h"

static uint32_t remaining(const struct gp_seq *seq)
{
    gp_assert(seq->computed < seq->token_count);
    return seq->token_count - seq->computed;
}

static bool is_decoding(const struct gp_seq *seq)
{
    return seq->computed >= seq->prefill_count && remaining(seq) == 1;
}

/* For prompts, replays and admissions. */
static uint32_t rows_left(const struct gp_sched *s, const struct gp_plan *plan)
{
    uint32_t left = s->options.max_batch_tokens - plan->row_count;
    uint32_t taken = plan->row_count - plan->decode_rows;

    if (plan->decode_rows == 0 || s->prompt_rows - taken >= left)
        return left;
    return s->prompt_rows - taken;
}

static void add_run(struct gp_sched *s, struct gp_plan *plan, struct gp_seq *seq, uint32_t count)
{
    gp_assert(count > 0 && count <= s->options.max_batch_tokens - plan->row_count);
    gp_assert(plan->run_count < s->options.max_seqs);
    plan->runs[plan->run_count++] = (struct gp_run){
        .seq = seq,
        .count = count,
        .last = count == remaining(seq),
    };
    plan->row_count += count;
}

void gp_sched_drop_run(struct gp_sched *s, const struct gp_seq *seq)
{
    struct gp_plan *plan = s->plan;

    for (uint32_t i = 0; plan && i < plan->run_count; i++) {
        if (plan->runs[i].seq != seq)
            continue;
        plan->row_count -= plan->runs[i].count;
        plan->run_count--;
        memmove(&plan->runs[i], &plan->runs[i + 1], (plan->run_count - i) * sizeof plan->runs[i]);
        return;
    }
}

/* The oldest that runs and is newer than seq, which does not run any more. */
static struct gp_seq *next_running(const struct gp_sched *s, const struct gp_seq *seq)
{
    struct gp_seq *at = s->running.head;

    while (at && gp_seq_before(at, seq))
        at = at->next;
    return at;
}

static void plan_decodes(struct gp_sched *s, struct gp_plan *plan, struct gp_seq **stuck)
{
    struct gp_seq *next;

    for (struct gp_seq *seq = s->running.head; seq; seq = next) {
        enum gp_boundary_outcome outcome = GP_BOUNDARY_PASSED;

        if (is_decoding(seq) && !seq->compacting)
            outcome = gp_sched_make_slot(s, seq);
        if (outcome == GP_BOUNDARY_STUCK)
            *stuck = seq;
        if (outcome != GP_BOUNDARY_PASSED) {
            next = next_running(s, seq);
            continue;
        }
        if (is_decoding(seq) && !seq->compacting)
            add_run(s, plan, seq, 1);
        next = seq->next;
    }
    plan->decode_rows = plan->row_count;
}

/* As many rows of a prompt or a replay as there are slots before the next boundary, rows before the
 * next cut and rows in the step. */
static void plan_chunk(struct gp_sched *s, struct gp_plan *plan, struct gp_seq *seq)
{
    uint32_t count = remaining(seq), left = rows_left(s, plan);

    enum gp_boundary_outcome outcome = gp_sched_make_slot(s, seq);

    /* Boundaries in here are repeated from the log. */
    gp_assert(outcome == GP_BOUNDARY_PASSED);
    if (seq->compacting)
        return;
    uint32_t slots = seq->pages * s->options.page_tokens - seq->cached;
    uint32_t to_cut = gp_sched_rows_to_cut(s, seq);

    slots = slots < to_cut ? slots : to_cut;
    count = count < slots ? count : slots;
    add_run(s, plan, seq, count < left ? count : left);
}

static void plan_chunks(struct gp_sched *s, struct gp_plan *plan)
{
    for (struct gp_seq *seq = s->running.head; seq; seq = seq->next)
        if (!is_decoding(seq) && !seq->compacting && rows_left(s, plan) > 0)
            plan_chunk(s, plan, seq);
}

static bool may_admit(const struct gp_sched *s, const struct gp_plan *plan)
{
    const struct gp_seq *seq = s->waiting.head;

    if (!seq || s->running.count == s->options.max_seqs || rows_left(s, plan) == 0)
        return false;
    if (gp_sched_awaits_leader(seq) || !gp_sched_may_join(s, seq))
        return false;
    return !s->preempted || s->running.count == 0;
}

static void plan_admissions(struct gp_sched *s, struct gp_plan *plan, struct gp_seq **stuck)
{
    while (may_admit(s, plan)) {
        struct gp_seq *seq = s->waiting.head;

        if (gp_sched_admit(s, seq)) {
            /* A batch is admitted first, and its chunks come with the others'. */
            if (!s->options.static_batches)
                plan_chunk(s, plan, seq);
        } else if (s->running.count == 0 && !*stuck) {
            gp_sched_finish(s, seq);
            *stuck = seq;
            if (s->options.static_batches) /* somebody else might yet be stuck in this plan */
                return;
        } else {
            return;
        }
    }
}

void gp_sched_limit_prompts(struct gp_sched *sched, uint32_t rows)
{
    sched->prompt_rows = rows;
}

bool gp_sched_plan(struct gp_sched *sched, struct gp_plan *plan, struct gp_seq **stuck)
{
    *plan = (struct gp_plan){.runs = sched->runs};
    *stuck = NULL;
    sched->preempted = false;
    sched->plan = plan;
    gp_sched_begin_batch(sched);
    if (sched->options.static_batches)
        plan_admissions(sched, plan, stuck);
    if (gp_sched_may_decode(sched))
        plan_decodes(sched, plan, stuck);
    plan_chunks(sched, plan);
    if (!sched->options.static_batches)
        plan_admissions(sched, plan, stuck);
    sched->plan = NULL;
    gp_assert(plan->row_count > 0 || sched->running.count == 0 || sched->compacting);
    return plan->row_count > 0;
}
