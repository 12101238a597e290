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
 * `pages` goes.  It shares no page (sched_share.c), so a compaction in it needs none.
 *
 * CUTS
 *
 * A policy with a scorer may have a trigger of its own, every so many tokens.  Such a cut is no
 * boundary: nobody can deny it, though others may have to make room for the pages that stand in for
 * shared ones, and when it comes follows from the sequence's own counts.  So it is not in the
 * log, and a replay makes the same cuts because it comes by the same counts. */
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
    case GP_BECAUSE_OVERRIDDEN:
        seq->overridden++;
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
    if (!gp_sched_take_pages(s, 1, &seq->table[seq->held]))
        return false;
    seq->held++;
    return true;
}

/* What an action makes of the pages: *r of a compaction, NULL of a growth. */
static const struct gp_retention *compaction_of(const struct gp_sched *s, const struct gp_seq *seq,
                                                enum gp_policy_action action,
                                                struct gp_retention *r)
{
    if (action == GP_DO_GROW)
        return NULL;
    *r = gp_policy_retention(&seq->kv, s->options.page_tokens, seq->pages, action);
    return r;
}

/* A compaction wants pages that stand in for shared ones, a growth (r is NULL) a page. */
static bool take_what_it_wants(struct gp_sched *s, struct gp_seq *seq, const struct gp_retention *r)
{
    return r ? gp_sched_own_pages(s, seq, r->pages_after) : take_page(s, seq);
}

/* Entry log_at of the log; what it needs is held already. */
static void carry_out(struct gp_sched *s, struct gp_seq *seq)
{
    enum gp_policy_action action = (enum gp_policy_action)seq->log[seq->log_at];

    gp_assert(seq->log_at < seq->log_count);
    seq->log_at++;
    if (action == GP_DO_GROW) {
        seq->pages++;
        gp_sched_note_pages(s, seq);
        gp_sched_give_surplus(s, seq);
    } else {
        struct gp_retention r;

        gp_sched_compact(s, seq, compaction_of(s, seq, action, &r));
    }
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

/* An order of all that run: whoever is last in it gives way to nobody, and so finishes. */
static bool yields_to(const struct gp_sched *s, const struct gp_seq *a, const struct gp_seq *b)
{
    if (s->options.preempt == GP_PREEMPT_LEAST_COMPUTED && a->computed != b->computed)
        return a->computed < b->computed;
    return gp_seq_before(b, a);
}

/* The first of those that yield to seq, or seq; but a compaction in flight has work in it, so if
 * another can give way, that one does. */
static struct gp_seq *who_gives_way(struct gp_sched *s, struct gp_seq *seq)
{
    struct gp_seq *found = seq;

    for (struct gp_seq *at = s->running.head; at; at = at->next) {
        if (!yields_to(s, at, seq))
            continue;
        if (found == seq || at->compacting < found->compacting ||
            (at->compacting == found->compacting && yields_to(s, at, found)))
            found = at;
    }
    return found;
}

/* Preempt others until seq has what it wants, or nobody yields to it. */
static enum gp_boundary_outcome make_room(struct gp_sched *s, struct gp_seq *seq,
                                          const struct gp_retention *r)
{
    do {
        struct gp_seq *other = who_gives_way(s, seq);

        if (other == seq)
            return s->running.count > 1 ? GP_BOUNDARY_GAVE_WAY : GP_BOUNDARY_STUCK;
        gp_sched_preempt(s, other);
    } while (!take_what_it_wants(s, seq, r));
    return GP_BOUNDARY_PASSED;
}

/* seq cannot go on: it waits for others, or, alone, for nothing. */
static void carry_out_outcome(struct gp_sched *s, struct gp_seq *seq,
                              enum gp_boundary_outcome outcome)
{
    if (outcome == GP_BOUNDARY_GAVE_WAY)
        gp_sched_preempt(s, seq);
    if (outcome == GP_BOUNDARY_STUCK)
        gp_sched_finish(s, seq);
}

/* The policy's decision, or what whoever measures makes of it. */
static struct gp_decision ask(struct gp_sched *s, struct gp_seq *seq,
                              const struct gp_boundary_view *view, const struct gp_signal *signal)
{
    struct gp_decision decision = gp_policy_decide(&seq->kv, view, signal ? signal->delta : 0);
    struct gp_decision other = decision;

    if (s->ops.override)
        other = s->ops.override(s->ops.ctx, seq, decision, signal);
    if (other.action == GP_DO_COMPRESS && !gp_policy_may_compress(&seq->kv, view))
        return decision;
    return other;
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
    struct gp_decision decision = ask(s, seq, &view, measured ? &signal : NULL);
    struct gp_retention room;
    const struct gp_retention *r = compaction_of(s, seq, decision.action, &room);
    bool ready = take_what_it_wants(s, seq, r);

    count_decision(seq, decision);
    if (!ready && !r) {
        seq->fallback++;
        if (seq->kv.fallback == GP_FALLBACK_COMPRESS && gp_policy_may_compress(&seq->kv, &view))
            decision = (struct gp_decision){GP_DO_COMPRESS, GP_BECAUSE_FALLBACK};
        r = compaction_of(s, seq, decision.action, &room);
        ready = r && take_what_it_wants(s, seq, r);
    }
    write_log(s, seq, decision.action);
    if (!ready)
        outcome = make_room(s, seq, r);
    if (outcome == GP_BOUNDARY_PASSED)
        carry_out(s, seq);
    tell(s, seq, decision, measured ? &signal : NULL, pages_before);
    carry_out_outcome(s, seq, outcome);
    return outcome;
}

static enum gp_boundary_outcome pass_boundary(struct gp_sched *s, struct gp_seq *seq)
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

static enum gp_boundary_outcome pass_cut(struct gp_sched *s, struct gp_seq *seq)
{
    uint32_t pages_before = seq->pages;
    enum gp_boundary_outcome outcome = GP_BOUNDARY_PASSED;
    struct gp_retention r = gp_policy_cut(&seq->kv, s->options.page_tokens, seq->pages);

    if (!gp_sched_own_pages(s, seq, r.pages_after))
        outcome = make_room(s, seq, &r);
    if (outcome != GP_BOUNDARY_PASSED) {
        carry_out_outcome(s, seq, outcome);
        return outcome;
    }
    gp_sched_compact(s, seq, &r);
    if (seq->computed <= seq->cut_at)
        return outcome;
    seq->cut_at = seq->computed;
    seq->cuts++;
    /* One for every token would be no news. */
    if (seq->kv.trigger == GP_TRIGGER_STEPS)
        tell(s, seq, (struct gp_decision){GP_DO_COMPRESS, GP_BECAUSE_POLICY}, NULL, pages_before);
    return outcome;
}

enum gp_boundary_outcome gp_sched_make_slot(struct gp_sched *s, struct gp_seq *seq)
{
    enum gp_boundary_outcome outcome = GP_BOUNDARY_PASSED;

    gp_assert(!seq->compacting);
    if (gp_sched_rows_to_cut(s, seq) == 0)
        outcome = pass_cut(s, seq);
    if (outcome == GP_BOUNDARY_PASSED && !seq->compacting && gp_seq_at_boundary(s, seq))
        outcome = pass_boundary(s, seq);
    return outcome;
}
