/* Pages that several sequences hold (spec.md section 6): hits, and what may be hit.
 *
 * A hit gives a sequence a page with the keys and values of its own beginning.  It is read, never
 * written.  Rows over it that leave nothing else behind are skipped; the others (those whose
 * queries or logits are wanted) run and store nothing.
 *
 * A sequence's own full pages enter the index when their rows have run, and only as long as it has
 * never compacted: then cached and computed agree, and what a page holds follows from the tokens
 * alone.
 *
 * A replay in which a compaction lies ahead shares nothing.  It may not ask the pool for pages in
 * its middle, so it must never find one of them shared when it compacts. */
#include <stddef.h>

#include "base/assert.h"
#include "engine/sched_internal.h"

void gp_sched_share(struct gp_sched *sched, struct gp_seq *seq, const int32_t *tokens,
                    struct gp_prefix_place root, uint32_t skip_max, const struct gp_seq *leader)
{
    gp_assert(seq->state == GP_SEQ_WAITING && tokens);
    gp_assert(!leader || leader->arrival < seq->arrival);
    if (!sched->prefix)
        return;
    seq->tokens = tokens;
    seq->root = root;
    seq->skip_max = skip_max;
    seq->leader = leader;
    seq->leader_arrival = leader ? leader->arrival : 0;
}

static bool will_compact(const struct gp_seq *seq)
{
    if (seq->kv.resume == GP_RESUME_RECOMPUTE)
        return false;
    for (uint32_t i = 0; i < seq->log_count; i++)
        if (seq->log[i] != GP_DO_GROW)
            return true;
    return seq->cut_at > 0;
}

/* May this run take pages from the index, and put its own there? */
static bool shares(const struct gp_seq *seq)
{
    return seq->tokens && !will_compact(seq);
}

uint32_t gp_sched_find_hits(struct gp_sched *s, struct gp_seq *seq, uint32_t *pages)
{
    uint32_t b = s->options.page_tokens, hits = 0;
    uint32_t most = seq->token_count / b < seq->need ? seq->token_count / b : seq->need;

    seq->place = seq->root;
    /* Scores of all rows are made by all rows. */
    if (!shares(seq) || gp_policy_needs(&seq->kv).every_row)
        return 0;
    while (hits < most) {
        uint32_t page = gp_prefix_find(s->prefix, &seq->place, seq->tokens + (size_t)hits * b);

        if (page == GP_PAGE_NONE)
            break;
        pages[hits++] = page;
    }
    return hits;
}

/* Rows from the first on that leave nothing behind but keys and values. */
static uint32_t skippable(const struct gp_seq *seq)
{
    struct gp_policy_needs needs = gp_policy_needs(&seq->kv);
    /* The last row is run in any case: the next token is drawn from it. */
    uint32_t behind = needs.window > 1 ? needs.window : 1, most;

    /* `full` needs no generated row's query; but it is admitted as a replay, whose boundaries are
     * in the log, and the last row may meet a new one. */
    if (seq->kv.policy == GP_POLICY_FULL && seq->token_count > seq->prefill_count)
        most = seq->token_count - 2;
    else
        most = seq->prefill_count > behind ? seq->prefill_count - behind : 0;
    most = needs.every_row ? 0 : most;
    return most < seq->skip_max ? most : seq->skip_max;
}

/* The leader, while it runs. */
static const struct gp_seq *running_leader(const struct gp_seq *seq)
{
    const struct gp_seq *leader = seq->leader;

    return leader && leader->arrival == seq->leader_arrival && leader->state == GP_SEQ_RUNNING
               ? leader
               : NULL;
}

bool gp_sched_awaits_leader(const struct gp_seq *seq)
{
    const struct gp_seq *leader = running_leader(seq);

    return leader && leader->computed < seq->prompt_count;
}

/* The prompt's last page, of which the leader has filled a part: a copy saves running its rows.
 * Returns the rows whose keys and values are there. */
static uint32_t copy_tail(struct gp_sched *s, const struct gp_seq *seq, uint32_t hits)
{
    const struct gp_seq *leader = running_leader(seq);
    uint32_t b = s->options.page_tokens;

    if (!leader || leader->cached != leader->computed || leader->compacting ||
        leader->computed < seq->prompt_count || seq->prompt_count / b != hits ||
        seq->prompt_count % b == 0)
        return hits * b;
    s->ops.copy(s->ops.ctx, leader->table[hits], seq->table[hits], seq->prompt_count % b);
    return seq->prompt_count;
}

void gp_sched_take_hits(struct gp_sched *s, struct gp_seq *seq, uint32_t hits)
{
    seq->indexes = shares(seq);
    uint32_t most = seq->indexes ? skippable(seq) : 0, first = seq->pages;
    uint32_t there = most > hits * s->options.page_tokens ? copy_tail(s, seq, hits)
                                                          : hits * s->options.page_tokens;

    seq->hits = seq->indexed = hits;
    seq->computed = seq->cached = there < most ? there : most;
    /* `full` skips boundaries, too; each of them was a growth. */
    if (gp_sched_pages_for(s, seq->computed) > first)
        seq->pages = gp_sched_pages_for(s, seq->computed);
    seq->log_at = seq->pages - first;
    gp_assert(seq->log_at <= seq->log_count);
    seq->has_summaries = seq->computed > seq->prefill_count;
    if (seq->preempt == 0)
        seq->skipped = seq->computed;
    s->prefix_asked += seq->indexes ? seq->token_count : 0;
    s->prefix_found += seq->computed;
}

uint32_t gp_sched_stored(const struct gp_sched *sched, const struct gp_run *run)
{
    const struct gp_seq *seq = run->seq;
    uint32_t held = seq->hits * sched->options.page_tokens;

    if (held <= seq->cached)
        return 0;
    return held - seq->cached < run->count ? held - seq->cached : run->count;
}

void gp_sched_index_pages(struct gp_sched *s, struct gp_seq *seq)
{
    uint32_t b = s->options.page_tokens;

    if (!seq->indexes || seq->cached != seq->computed)
        return;
    for (; (seq->indexed + 1) * b <= seq->computed; seq->indexed++)
        gp_prefix_add(s->prefix, &seq->place, seq->tokens + (size_t)seq->indexed * b,
                      seq->table[seq->indexed]);
}
