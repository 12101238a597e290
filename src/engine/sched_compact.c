/* Compactions (spec.md sections 4 and 5): the pages they may write, and their way through the
 * scheduler.
 *
 * A compaction writes only pages that are its sequence's own and that nobody finds in the index.
 * Own pages leave the index; shared ones are copied into fresh pages that stand in for them, all or
 * none.  Only the first compaction of a run can meet either: after it no page of the sequence
 * is indexed any more.
 *
 * ASYNCHRONOUS
 *
 * The sequence joins the queue of those in flight and has no row until its owner, working on the
 * queue's first in slices, says that it is done; the others go on.  It holds all its pages by then,
 * so that it needs nobody to finish.  Between two slices nobody but the owner has seen what it
 * has done to the pages: a sequence that is preempted or finished there takes the unfinished
 * work with it, and a replay repeats it from the log. */
#include <stddef.h>

#include "base/assert.h"
#include "engine/sched_internal.h"

bool gp_sched_take_pages(struct gp_sched *s, uint32_t n, uint32_t *pages)
{
    if (!gp_pool_take(s->pool, n, pages))
        return false;
    for (uint32_t i = 0; s->prefix && i < n; i++)
        gp_prefix_remove(s->prefix, pages[i]);
    return true;
}

static uint32_t count_shared(const struct gp_sched *s, const struct gp_seq *seq, uint32_t pages)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < pages; i++)
        count += gp_pool_refs(s->pool, seq->table[i]) > 1;
    return count;
}

/* page stands in for the one at `place` of the table. */
static void stand_in(struct gp_sched *s, struct gp_seq *seq, uint32_t place, uint32_t page)
{
    uint32_t shared = seq->table[place];

    s->ops.copy(s->ops.ctx, shared, page, s->options.page_tokens);
    seq->table[place] = page;
    gp_pool_unref(s->pool, shared);
}

bool gp_sched_own_pages(struct gp_sched *s, struct gp_seq *seq, uint32_t pages_after)
{
    if (!s->prefix || seq->carried > 0)
        return true;
    uint32_t shared = count_shared(s, seq, pages_after), used = 0;

    if (shared > 0 && !gp_sched_take_pages(s, shared, s->fresh))
        return false;
    for (uint32_t i = 0; i < pages_after; i++) {
        if (gp_pool_refs(s->pool, seq->table[i]) > 1)
            stand_in(s, seq, i, s->fresh[used++]);
        else
            gp_prefix_remove(s->prefix, seq->table[i]);
    }
    seq->hits = seq->indexed = 0;
    seq->indexes = false;
    return true;
}

void gp_sched_give_surplus(struct gp_sched *s, struct gp_seq *seq)
{
    while (seq->log_at == seq->log_count && seq->held > seq->pages)
        gp_pool_unref(s->pool, seq->table[--seq->held]);
}

static void note_compacted(struct gp_sched *s, struct gp_seq *seq, const struct gp_retention *r)
{
    seq->cached = r->keep + r->protect;
    seq->carried = seq->cached;
    seq->pages = r->pages_after;
    gp_sched_give_surplus(s, seq);
}

void gp_sched_compact(struct gp_sched *s, struct gp_seq *seq, const struct gp_retention *r)
{
    /* A cut before every row is part of the row. */
    if (!s->options.asynchronous || seq->kv.trigger == GP_TRIGGER_TOKEN) {
        s->ops.compact(s->ops.ctx, seq, r);
        note_compacted(s, seq, r);
        return;
    }
    gp_assert(!seq->compacting);
    seq->compacting = true;
    seq->retention = *r;
    seq->items_done = 0;
    seq->compacting_next = NULL;
    if (s->compacting_last)
        s->compacting_last->compacting_next = seq;
    else
        s->compacting = seq;
    s->compacting_last = seq;
}

void gp_sched_abandon(struct gp_sched *s, struct gp_seq *seq)
{
    struct gp_seq *before = NULL, *at = s->compacting;

    gp_assert(seq->compacting);
    for (; at != seq; at = at->compacting_next)
        before = at;
    if (before)
        before->compacting_next = seq->compacting_next;
    else
        s->compacting = seq->compacting_next;
    if (s->compacting_last == seq)
        s->compacting_last = before;
    seq->compacting = false;
    seq->compacting_next = NULL;
}

struct gp_seq *gp_sched_compaction(struct gp_sched *sched)
{
    return sched->compacting;
}

void gp_sched_compacted(struct gp_sched *sched, struct gp_seq *seq)
{
    gp_assert(seq == sched->compacting);
    gp_sched_abandon(sched, seq);
    note_compacted(sched, seq, &seq->retention);
}
