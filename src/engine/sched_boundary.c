/* What happens when a sequence's pages are full and its next row has no slot (spec.md sections 3 to
 * 6).
 *
 * DECIDED ONCE, CARRIED OUT AS OFTEN AS NEEDED
 *
 * A boundary that the sequence meets for the first time is decided: the policy answers, the answer
 * is counted, and if it was a growth for which there is no page it becomes what the rules make of
 * it, a compaction or a growth that others make room for.  That, and not what the policy first
 * said, is what the log keeps, because that is what happened to the cache.  The entry is written
 * before anybody is preempted.  So if the sequence itself has to give way, its decision is simply
 * the last entry of the log; the replay repeats it like any other, and `need` has made sure that
 * the page is among those taken at admission.  No decision is ever pending in a second place.
 *
 * A boundary met again (log_at < log_count) repeats the log and asks nobody: not the policy, for
 * the pool looks different now, and not the pool, for all pages of the replay are held already.
 *
 * PAGES OF A REPLAY
 *
 * A replay holds its peak from the start and uses `pages` of it.  A compaction in the middle
 * lowers `pages` (a shrink, or the cut of a long prompt) but gives nothing back while the log
 * still has growths to come; when its last entry has been carried out, what is held beyond
 * `pages` goes.
 *
 * CUTS
 *
 * A policy with a scorer may have a trigger of its own, every so many tokens.  Such a cut is no
 * boundary: it asks the pool for nothing, nobody can deny it, and when it comes follows from the
 * sequence's own counts.  So it is not in the log, and a replay makes the same cuts because it
 * comes by the same counts. */
#include <stddef.h>

#include "base/assert.h"
#include "engine/sched_internal.h"

static void count_decision(struct gp_seq *seq, struct gp_decision decision)
{
    switch (decision.cause) {
    case GP_BECAUSE_POLICY:
        if (decision.action == GP_DO_GROW)
            seq->grow++;
        else if (decision.action == GP_DO_COMPRESS)
            seq->compress++;
        else
            seq->shrink++;
        break;
    case GP_BECAUSE_START:
        seq->start++;
        break;
    case GP_BECAUSE_INITIAL:
        seq->initial++;
        break;
    case GP_BECAUSE_PRESSURE:
        seq->pressure++;
        break;
    case GP_BECAUSE_CAPPED:
        seq->capped++;
        break;
    case GP_BECAUSE_FALLBACK:
        gp_assert(!"a policy decides on no fallback");
    }
}

/* The watermark binds nobody who is alone: there is no one to leave the pages to. */
static bool take_page(struct gp_sched *s, struct gp_seq *seq)
{
    bool alone = s->running.count == 1;

    if (!alone && gp_pool_free_count(s->pool) <= s->options.watermark)
        return false;
    gp_assert(seq->held < s->table_max || gp_pool_free_count(s->pool) == 0);
    if (!gp_pool_take(s->pool, 1, &seq->table[seq->held]))
        return false;
    seq->held++;
    return true;
}

static void compact(struct gp_sched *s, struct gp_seq *seq, const struct gp_retention *r)
{
    s->ops.compact(s->ops.ctx, seq, r);
    seq->cached = r->keep + r->protect;
    seq->carried = seq->cached;
    seq->pages = r->pages_after;
}

static void give_surplus(struct gp_sched *s, struct gp_seq *seq)
{
    while (seq->log_at == seq->log_count && seq->held > seq->pages)
        gp_pool_unref(s->pool, seq->table[--seq->held]);
}

/* Entry log_at of the log; a growth's page is held already. */
static void carry_out(struct gp_sched *s, struct gp_seq *seq)
{
    enum gp_policy_action action = (enum gp_policy_action)seq->log[seq->log_at];

    gp_assert(seq->log_at < seq->log_count);
    seq->log_at++;
    if (action == GP_DO_GROW) {
        seq->pages++;
        gp_sched_note_pages(s, seq);
    } else {
        struct gp_retention r =
            gp_policy_retention(&seq->kv, s->options.page_tokens, seq->pages, action);

        compact(s, seq, &r);
    }
    give_surplus(s, seq);
}

static void write_log(const struct gp_sched *s, struct gp_seq *seq, enum gp_policy_action action)
{
    gp_assert(seq->log_count < s->log_max);
    seq->log[seq->log_count++] = (uint8_t)action;
    if (action == GP_DO_GROW && seq->pages + 1 > seq->need)
        seq->need = seq->pages + 1;
}

static void tell(const struct gp_sched *s, const struct gp_seq *seq, struct gp_decision decision,
                 const struct gp_signal *signal, uint32_t pages_before)
{
    if (s->ops.boundary)
        s->ops.boundary(s->ops.ctx, seq, decision, signal, pages_before);
}

/* Preempt the newest until seq has its page, or is itself the newest. */
static enum gp_boundary_outcome make_room(struct gp_sched *s, struct gp_seq *seq)
{
    do {
        struct gp_seq *newest = s->running.tail;

        if (newest == seq)
            return s->running.count > 1 ? GP_BOUNDARY_GAVE_WAY : GP_BOUNDARY_STUCK;
        gp_sched_preempt(s, newest);
    } while (!take_page(s, seq));
    return GP_BOUNDARY_PASSED;
}

static enum gp_boundary_outcome decide(struct gp_sched *s, struct gp_seq *seq)
{
    uint32_t total = gp_pool_total(s->pool), pages_before = seq->pages;
    struct gp_boundary_view view = {
        .page_tokens = s->options.page_tokens,
        .pages = seq->pages,
        .pool_used = total - gp_pool_free_count(s->pool),
        .pool_total = total,
        .index = seq->log_count,
        .has_summaries = seq->has_summaries,
        .reached_initial = seq->reached_initial,
    };
    bool measured = gp_policy_wants_signal(&seq->kv, &view);
    struct gp_signal signal = {0};
    enum gp_boundary_outcome outcome = GP_BOUNDARY_PASSED;

    if (measured)
        signal = s->ops.measure(s->ops.ctx, seq);
    struct gp_decision decision = gp_policy_decide(&seq->kv, &view, signal.delta);
    bool denied = decision.action == GP_DO_GROW && !take_page(s, seq);

    count_decision(seq, decision);
    if (denied) {
        seq->fallback++;
        if (seq->kv.fallback == GP_FALLBACK_COMPRESS && gp_policy_may_compress(&seq->kv, &view))
            decision = (struct gp_decision){GP_DO_COMPRESS, GP_BECAUSE_FALLBACK};
    }
    write_log(s, seq, decision.action);
    if (denied && decision.action == GP_DO_GROW)
        outcome = make_room(s, seq);
    if (outcome == GP_BOUNDARY_PASSED)
        carry_out(s, seq);
    tell(s, seq, decision, measured ? &signal : NULL, pages_before);
    if (outcome == GP_BOUNDARY_GAVE_WAY)
        gp_sched_preempt(s, seq);
    if (outcome == GP_BOUNDARY_STUCK)
        gp_sched_finish(s, seq);
    return outcome;
}

enum gp_boundary_outcome gp_sched_pass_boundary(struct gp_sched *s, struct gp_seq *seq)
{
    gp_assert(gp_seq_at_boundary(s, seq));
    gp_assert(seq->computed >= seq->prefill_count);
    if (seq->log_at == seq->log_count)
        return decide(s, seq);
    carry_out(s, seq);
    return GP_BOUNDARY_PASSED;
}

uint32_t gp_sched_rows_to_cut(const struct gp_sched *s, const struct gp_seq *seq)
{
    return gp_policy_rows_to_cut(&seq->kv, s->options.page_tokens, seq->prefill_count,
                                 seq->computed, seq->cached);
}

void gp_sched_pass_cut(struct gp_sched *s, struct gp_seq *seq)
{
    uint32_t pages_before = seq->pages;

    if (gp_sched_rows_to_cut(s, seq) > 0)
        return;
    struct gp_retention r = gp_policy_cut(&seq->kv, s->options.page_tokens, seq->pages);

    compact(s, seq, &r);
    give_surplus(s, seq);
    if (seq->computed <= seq->cut_at)
        return;
    seq->cut_at = seq->computed;
    seq->cuts++;
    /* One for every token would be no news. */
    if (seq->kv.trigger == GP_TRIGGER_STEPS)
        tell(s, seq, (struct gp_decision){GP_DO_COMPRESS, GP_BECAUSE_POLICY}, NULL, pages_before);
}
