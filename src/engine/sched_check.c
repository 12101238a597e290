/* The scheduler's walker: linear in the pool's pages and the sequences. */
#include <string.h>

#include "base/assert.h"
#include "engine/sched_internal.h"

static void check_counters(const struct gp_seq *seq)
{
    uint32_t decisions = seq->grow + seq->compress + seq->shrink + seq->start + seq->initial +
                         seq->pressure + seq->capped + seq->overridden;

    gp_assert(seq->log_at <= seq->log_count);
    gp_assert(seq->fallback <= decisions);
    if (seq->kv.resume == GP_RESUME_REPLAY)
        gp_assert(decisions == seq->log_count);
    else
        gp_assert(decisions >= seq->log_count);
}

static void check_tokens(const struct gp_sched *s, const struct gp_seq *seq)
{
    gp_assert(seq->prompt_count >= 1 && seq->prompt_count <= seq->prefill_count);
    gp_assert(seq->prefill_count <= seq->token_count);
    gp_assert(seq->token_count <= s->options.context);
    gp_assert(seq->computed <= seq->token_count);
    gp_assert(seq->decode_steps <= seq->token_count - seq->prompt_count);
    gp_assert(seq->pages_sum <= (uint64_t)seq->decode_steps * seq->pages_peak);
}

/* The page of the next row is its own, or holds what the row would write.  A sequence that has not
 * compacted may share only what it hit or put into the index; one that has shares nothing, and one
 * in flight no page that it writes. */
static void check_sharing(const struct gp_sched *s, const struct gp_seq *seq)
{
    uint32_t next = seq->cached / s->options.page_tokens;
    uint32_t own = seq->compacting ? seq->retention.pages_after : seq->pages;
    uint32_t known = seq->hits > seq->indexed ? seq->hits : seq->indexed;

    gp_assert(seq->hits <= seq->held && seq->indexed <= seq->held);
    gp_assert(known == 0 || (seq->carried == 0 && !seq->compacting));
    for (uint32_t i = known; i < own; i++) {
        gp_assert(gp_pool_refs(s->pool, seq->table[i]) == 1);
        gp_assert(!s->prefix || !gp_prefix_has(s->prefix, seq->table[i]));
    }
    if (!seq->compacting && next < seq->pages && next >= seq->hits)
        gp_assert(gp_pool_refs(s->pool, seq->table[next]) == 1);
}

static void check_running(const struct gp_sched *s, const struct gp_seq *seq)
{
    gp_assert(seq->pages >= 1 && seq->pages <= seq->held && seq->held <= s->table_max);
    gp_assert(seq->pages <= seq->pages_peak);
    gp_assert(seq->pages_peak <= seq->need);
    gp_assert(seq->compacting ||
              seq->held == (seq->log_at < seq->log_count ? seq->need : seq->pages));
    gp_assert(seq->cached <= seq->computed);
    gp_assert(seq->cached <= seq->pages * s->options.page_tokens);
    gp_assert(seq->has_summaries == (seq->computed > seq->prefill_count));
    gp_assert(seq->query_slot < s->options.max_seqs);
    gp_assert(!s->slot_marks[seq->query_slot]);
    s->slot_marks[seq->query_slot] = 1;
    gp_assert(seq->table == s->tables + (size_t)seq->query_slot * s->table_max);
    for (uint32_t i = 0; i < seq->held; i++) {
        gp_assert(seq->table[i] < gp_pool_total(s->pool));
        s->page_marks[seq->table[i]]++;
    }
    check_sharing(s, seq);
}

static void check_waiting(const struct gp_seq *seq)
{
    gp_assert(seq->pages == 0 && seq->held == 0 && !seq->table);
    gp_assert(seq->query_slot == GP_SLOT_NONE && !seq->compacting && !seq->indexes);
    gp_assert(seq->computed == 0 && seq->cached == 0 && seq->log_at == 0);
    gp_assert(seq->need >= 1);
}

static void check_list(const struct gp_sched *s, const struct gp_seq_list *list,
                       enum gp_seq_state state)
{
    const struct gp_seq *last = NULL;
    uint32_t count = 0;

    for (const struct gp_seq *seq = list->head; seq; seq = seq->next) {
        gp_assert(count < list->count);
        gp_assert(seq->state == state);
        gp_assert(seq == &s->seqs[seq->index]);
        gp_assert(!last || gp_seq_before(last, seq));
        check_counters(seq);
        check_tokens(s, seq);
        if (state == GP_SEQ_RUNNING)
            check_running(s, seq);
        else
            check_waiting(seq);
        last = seq;
        count++;
    }
    gp_assert(count == list->count);
    gp_assert(last == list->tail);
}

static void check_states(const struct gp_sched *s)
{
    uint32_t counts[4] = {0}, free = 0;

    for (const struct gp_seq *seq = s->free; seq; seq = seq->next) {
        gp_assert(free < s->seq_count);
        free++;
    }
    for (uint32_t i = 0; i < s->seq_count; i++)
        counts[s->seqs[i].state]++;
    gp_assert(counts[GP_SEQ_FREE] == free);
    gp_assert(counts[GP_SEQ_RUNNING] == s->running.count);
    gp_assert(counts[GP_SEQ_WAITING] == s->waiting.count);
    gp_assert(s->running.count <= s->options.max_seqs);
}

static void check_compactions(const struct gp_sched *s)
{
    const struct gp_seq *last = NULL;
    uint32_t queued = 0, marked = 0;

    for (const struct gp_seq *seq = s->compacting; seq; seq = seq->compacting_next) {
        gp_assert(seq->state == GP_SEQ_RUNNING && seq->compacting);
        gp_assert(queued < s->running.count);
        queued++;
        last = seq;
    }
    gp_assert(last == s->compacting_last);
    for (const struct gp_seq *seq = s->running.head; seq; seq = seq->next)
        marked += seq->compacting;
    gp_assert(queued == marked);
}

/* Every page: as many references as tables that name it.  Every query slot: bound once, or free
 * once. */
void gp_sched_check(const struct gp_sched *sched)
{
    uint32_t pages = gp_pool_total(sched->pool);

    memset(sched->page_marks, 0, pages * sizeof *sched->page_marks);
    memset(sched->slot_marks, 0, sched->options.max_seqs * sizeof *sched->slot_marks);
    check_states(sched);
    check_list(sched, &sched->running, GP_SEQ_RUNNING);
    check_list(sched, &sched->waiting, GP_SEQ_WAITING);
    check_compactions(sched);
    if (sched->prefix)
        gp_prefix_check(sched->prefix);
    for (uint32_t page = 0; page < pages; page++)
        gp_assert(sched->page_marks[page] == gp_pool_refs(sched->pool, page));
    gp_assert(sched->slot_count + sched->running.count == sched->options.max_seqs);
    for (uint32_t i = 0; i < sched->slot_count; i++) {
        gp_assert(sched->slots[i] < sched->options.max_seqs);
        gp_assert(!sched->slot_marks[sched->slots[i]]);
        sched->slot_marks[sched->slots[i]] = 1;
    }
}
