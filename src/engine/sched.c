/* The life of a sequence: queued, admitted, run, preempted, finished, forgotten.
 *
 * Both lists are kept in order of priority and, within one, of arrival.  For the queue that is
 * first come first served and puts the preempted in front, since whoever ran arrived before
 * whoever never did; for the running list it makes the newest the last.  "Oldest" and "newest"
 * mean this order throughout. */
#include "engine/sched.h"

#include <string.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/mem.h"
#include "engine/sched_internal.h"

/* ---- lists ---- */

static void list_insert(struct gp_seq_list *list, struct gp_seq *seq)
{
    struct gp_seq *before = NULL;

    if (list->tail && gp_seq_before(list->tail, seq))
        before = list->tail;
    else
        for (struct gp_seq *at = list->head; at && gp_seq_before(at, seq); at = at->next)
            before = at;
    seq->next = before ? before->next : list->head;
    if (before)
        before->next = seq;
    else
        list->head = seq;
    if (!seq->next)
        list->tail = seq;
    list->count++;
}

static void list_remove(struct gp_seq_list *list, struct gp_seq *seq)
{
    struct gp_seq *before = NULL, *at = list->head;

    for (; at && at != seq; at = at->next)
        before = at;
    gp_assert(at == seq);
    if (before)
        before->next = seq->next;
    else
        list->head = seq->next;
    if (list->tail == seq)
        list->tail = before;
    seq->next = NULL;
    list->count--;
}

/* ---- open and close ---- */

static int check_options(const struct gp_sched_options *o, struct gp_error *err)
{
    if (o->page_tokens < 2 || o->page_tokens > GP_LIMIT_PAGE_TOKENS)
        return gp_fail(err, GP_EINVAL, "page size: %u tokens is not in [2, %u]", o->page_tokens,
                       GP_LIMIT_PAGE_TOKENS);
    if (o->max_seqs < 1 || o->max_seqs > GP_LIMIT_SEQS)
        return gp_fail(err, GP_EINVAL, "running requests: %u is not in [1, %u]", o->max_seqs,
                       GP_LIMIT_SEQS);
    if (o->max_batch_tokens < o->max_seqs || o->max_batch_tokens > GP_LIMIT_BATCH_TOKENS)
        return gp_fail(err, GP_EINVAL, "tokens of a step: %u is not in [%u, %u]",
                       o->max_batch_tokens, o->max_seqs, GP_LIMIT_BATCH_TOKENS);
    if (o->max_waiting < 1 || o->max_waiting > UINT32_MAX - GP_LIMIT_SEQS)
        return gp_fail(err, GP_EINVAL, "waiting requests: %u is out of range", o->max_waiting);
    if (o->context < 1 || o->context > GP_LIMIT_CONTEXT)
        return gp_fail(err, GP_EINVAL, "context: %u tokens is not in [1, %u]", o->context,
                       GP_LIMIT_CONTEXT);
    return GP_OK;
}

/* P pages are held only by who had (P - 1) * b + 1 tokens, and every boundary lies at least b rows
 * behind the one before, the first at b or more: both bound by the pages of a full context. */
static bool take_memory(struct gp_sched *s)
{
    const struct gp_sched_options *o = &s->options;
    uint32_t context_pages = gp_sched_pages_for(s, o->context);
    uint32_t pool_pages = gp_pool_total(s->pool);

    s->seq_count = o->max_seqs + o->max_waiting;
    s->table_max = context_pages < pool_pages ? context_pages : pool_pages;
    s->log_max = context_pages;
    s->seqs = gp_mem_alloc_array(s->seq_count, sizeof *s->seqs);
    s->logs = gp_mem_alloc_array(s->seq_count, s->log_max);
    s->tables = gp_mem_alloc_array((size_t)o->max_seqs * s->table_max, sizeof *s->tables);
    s->fresh = gp_mem_alloc_array(s->table_max, sizeof *s->fresh);
    s->slots = gp_mem_alloc_array(o->max_seqs, sizeof *s->slots);
    s->runs = gp_mem_alloc_array(o->max_seqs, sizeof *s->runs);
    s->page_marks = gp_mem_alloc_array(pool_pages, sizeof *s->page_marks);
    s->slot_marks = gp_mem_alloc_array(o->max_seqs, sizeof *s->slot_marks);
    if (o->prefix_cache && gp_prefix_open(&s->prefix, pool_pages, o->page_tokens, NULL) != GP_OK)
        return false;
    return s->seqs && s->logs && s->tables && s->fresh && s->slots && s->runs && s->page_marks &&
           s->slot_marks;
}

static void free_memory(struct gp_sched *s)
{
    gp_prefix_close(s->prefix);
    gp_mem_free(s->seqs);
    gp_mem_free(s->logs);
    gp_mem_free(s->tables);
    gp_mem_free(s->fresh);
    gp_mem_free(s->slots);
    gp_mem_free(s->runs);
    gp_mem_free(s->page_marks);
    gp_mem_free(s->slot_marks);
    gp_mem_free(s);
}

int gp_sched_open(struct gp_sched **out, struct gp_pool *pool,
                  const struct gp_sched_options *options, const struct gp_sched_ops *ops,
                  struct gp_error *err)
{
    int rc = check_options(options, err);

    if (rc)
        return rc;
    gp_assert(ops->measure && ops->compact && (ops->copy || !options->prefix_cache));
    struct gp_sched *s = gp_mem_alloc(sizeof *s);

    if (!s)
        return gp_fail(err, GP_ENOMEM, "scheduler: out of memory");
    *s = (struct gp_sched){
        .pool = pool, .options = *options, .ops = *ops, .prompt_rows = UINT32_MAX};
    if (!take_memory(s)) {
        free_memory(s);
        return gp_fail(err, GP_ENOMEM,
                       "scheduler: no memory for %u running and %u waiting requests",
                       options->max_seqs, options->max_waiting);
    }
    for (uint32_t i = s->seq_count; i-- > 0;) {
        s->seqs[i].index = i;
        s->seqs[i].next = s->free;
        s->free = &s->seqs[i];
    }
    while (s->slot_count < options->max_seqs) {
        s->slots[s->slot_count] = options->max_seqs - 1 - s->slot_count;
        s->slot_count++;
    }
    *out = s;
    return GP_OK;
}

void gp_sched_close(struct gp_sched *sched)
{
    if (!sched)
        return;
    while (sched->running.head)
        gp_sched_finish(sched, sched->running.head);
    free_memory(sched);
}

/* ---- a sequence ---- */

bool gp_sched_fits(const struct gp_sched *sched, uint32_t prompt_count)
{
    return prompt_count / sched->options.page_tokens < gp_pool_total(sched->pool);
}

struct gp_seq *gp_sched_add(struct gp_sched *sched, uint32_t prompt_count,
                            const struct gp_kv_options *kv, int32_t priority)
{
    struct gp_seq *seq = sched->free;

    gp_assert(prompt_count >= 1 && prompt_count <= sched->options.context);
    gp_assert(gp_policy_check(kv, sched->options.page_tokens, NULL) == GP_OK);
    if (!seq || sched->waiting.count >= sched->options.max_waiting)
        return NULL;
    sched->free = seq->next;
    *seq = (struct gp_seq){
        .state = GP_SEQ_WAITING,
        .index = seq->index,
        .arrival = sched->arrival_next++,
        .priority = priority,
        .kv = *kv,
        .prompt_count = prompt_count,
        .prefill_count = prompt_count,
        .token_count = prompt_count,
        .need = gp_sched_pages_for(sched, prompt_count),
        .tokens_most = sched->options.context + 1, /* the last of them is never run */
        .query_slot = GP_SLOT_NONE,
        .log = sched->logs + (size_t)seq->index * sched->log_max,
    };
    list_insert(&sched->waiting, seq);
    return seq;
}

void gp_sched_note_pages(const struct gp_sched *s, struct gp_seq *seq)
{
    uint32_t initial = gp_policy_initial_pages(&seq->kv, s->options.page_tokens);

    gp_assert(seq->pages <= seq->held);
    if (seq->pages > seq->pages_peak)
        seq->pages_peak = seq->pages;
    if (initial > 0 && seq->pages >= initial)
        seq->reached_initial = true;
}

/* Fill the table: hits first, then pages of its own.  False, and nothing is held, when the pool has
 * not enough, or would have none left for those who run. */
static bool fill_table(struct gp_sched *s, struct gp_seq *seq, uint32_t *table, uint32_t *hits)
{
    bool room_for_others = s->running.count > 0 && !s->options.static_batches;
    uint32_t spare = room_for_others ? 1 : 0, held = 0;

    *hits = gp_sched_find_hits(s, seq, table);
    for (uint32_t i = 0; i < *hits; i++)
        held += gp_pool_refs(s->pool, table[i]) > 0;
    if (gp_pool_free_count(s->pool) < seq->need - held + spare)
        return false;
    for (uint32_t i = 0; i < *hits; i++)
        gp_pool_ref(s->pool, table[i]);
    if (gp_sched_take_pages(s, seq->need - *hits, table + *hits))
        return true;
    for (uint32_t i = *hits; i > 0; i--)
        gp_pool_unref(s->pool, table[i - 1]);
    return false;
}

bool gp_sched_admit(struct gp_sched *s, struct gp_seq *seq)
{
    gp_assert(seq->state == GP_SEQ_WAITING && seq->held == 0);
    gp_assert(s->slot_count > 0);
    if (seq->need > s->table_max)
        return false;
    uint32_t slot = s->slots[s->slot_count - 1], hits;
    uint32_t *table = s->tables + (size_t)slot * s->table_max;

    if (!fill_table(s, seq, table, &hits))
        return false;
    s->slot_count--;
    list_remove(&s->waiting, seq);
    seq->state = GP_SEQ_RUNNING;
    seq->query_slot = slot;
    seq->table = table;
    seq->held = seq->need;
    seq->pages = gp_sched_pages_for(s, seq->prefill_count);
    gp_sched_take_hits(s, seq, hits);
    gp_sched_note_pages(s, seq);
    gp_sched_join(s, seq);
    list_insert(&s->running, seq);
    if (s->ops.admitted)
        s->ops.admitted(s->ops.ctx, seq);
    return true;
}

/* Take a running sequence off the machine: pages, slot, and all that a run has built up.  The
 * newest page goes back first, and so is the first to be reused: what lies before it is worth
 * more. */
static void stop_running(struct gp_sched *s, struct gp_seq *seq)
{
    gp_assert(seq->state == GP_SEQ_RUNNING);
    if (seq->compacting)
        gp_sched_abandon(s, seq);
    list_remove(&s->running, seq);
    while (seq->held > 0)
        gp_pool_unref(s->pool, seq->table[--seq->held]);
    s->slots[s->slot_count++] = seq->query_slot;
    seq->query_slot = GP_SLOT_NONE;
    seq->table = NULL;
    seq->pages = 0;
    seq->computed = 0;
    seq->cached = 0;
    seq->log_at = 0;
    seq->has_summaries = false;
    seq->carried = 0;
    seq->hits = seq->indexed = 0;
    seq->indexes = false;
}

/* A replay needs nothing said here: the log and `need` are kept, and what was stopped in the
 * middle of a replay replays all of it again.  A recompute takes every known token for a prompt,
 * in as many pages as they fill, and forgets what was decided: `start` asks for a generated
 * token after these, and the next boundary, wherever it now lies, is decided afresh. */
void gp_sched_preempt(struct gp_sched *sched, struct gp_seq *seq)
{
    gp_sched_drop_run(sched, seq);
    stop_running(sched, seq);
    seq->preempt++;
    if (seq->kv.resume == GP_RESUME_RECOMPUTE) {
        seq->prefill_count = seq->token_count;
        seq->need = gp_sched_pages_for(sched, seq->token_count);
        seq->log_count = 0;
    }
    seq->state = GP_SEQ_WAITING;
    list_insert(&sched->waiting, seq);
    sched->preempted = true;
    if (sched->ops.preempted)
        sched->ops.preempted(sched->ops.ctx, seq);
}

void gp_sched_ran(struct gp_sched *sched, const struct gp_plan *plan)
{
    for (uint32_t i = 0; i < plan->run_count; i++) {
        struct gp_seq *seq = plan->runs[i].seq;

        gp_assert(seq->state == GP_SEQ_RUNNING);
        seq->computed += plan->runs[i].count;
        seq->cached += plan->runs[i].count;
        gp_assert(seq->computed <= seq->token_count);
        gp_assert(seq->cached <= seq->pages * sched->options.page_tokens);
        seq->has_summaries = seq->computed > seq->prefill_count;
        /* A row that only repeats an earlier one is no decode step. */
        if (seq->computed > seq->prompt_count + seq->decode_steps) {
            uint32_t fresh = seq->computed - seq->prompt_count - seq->decode_steps;

            seq->decode_steps += fresh;
            seq->pages_sum += (uint64_t)fresh * seq->pages;
        }
        gp_sched_index_pages(sched, seq);
    }
}

void gp_sched_append(struct gp_sched *sched, struct gp_seq *seq)
{
    gp_assert(seq->state == GP_SEQ_RUNNING);
    gp_assert(seq->computed == seq->token_count);
    gp_assert(seq->token_count < sched->options.context);
    seq->token_count++;
}

void gp_sched_finish(struct gp_sched *sched, struct gp_seq *seq)
{
    gp_assert(seq->state != GP_SEQ_FREE);
    if (seq->state == GP_SEQ_RUNNING)
        stop_running(sched, seq);
    else if (seq->state == GP_SEQ_WAITING)
        list_remove(&sched->waiting, seq);
    seq->state = GP_SEQ_DONE;
}

/* ---- forks ---- */

bool gp_sched_may_fork(const struct gp_seq *seq)
{
    return seq->state == GP_SEQ_RUNNING && !seq->compacting && seq->log_at == seq->log_count &&
           seq->computed >= seq->prefill_count && seq->computed + 1 == seq->token_count;
}

struct gp_seq *gp_sched_fork(struct gp_sched *sched, const struct gp_seq *parent)
{
    struct gp_seq *seq = sched->free;

    gp_assert(gp_sched_may_fork(parent) && sched->ops.copy && sched->ops.clone);
    if (!seq || sched->slot_count == 0)
        return NULL;
    uint32_t slot = sched->slots[sched->slot_count - 1], index = seq->index;
    uint32_t *table = sched->tables + (size_t)slot * sched->table_max;
    uint8_t *log = sched->logs + (size_t)index * sched->log_max;

    if (!gp_sched_take_pages(sched, parent->held, table))
        return NULL;
    sched->free = seq->next;
    sched->slot_count--;
    *seq = *parent;
    seq->index = index;
    seq->arrival = sched->arrival_next++;
    seq->query_slot = slot;
    seq->table = table;
    seq->log = log;
    seq->tokens = NULL;
    seq->leader = NULL;
    seq->hits = seq->indexed = 0;
    seq->indexes = false;
    seq->preempt = 0;
    memcpy(log, parent->log, parent->log_count);
    for (uint32_t i = 0; i < parent->held; i++)
        sched->ops.copy(sched->ops.ctx, parent->table[i], table[i], sched->options.page_tokens);
    sched->ops.clone(sched->ops.ctx, parent, seq);
    list_insert(&sched->running, seq);
    return seq;
}

void gp_sched_forget(struct gp_sched *sched, struct gp_seq *seq)
{
    gp_assert(seq->state == GP_SEQ_DONE);
    seq->state = GP_SEQ_FREE;
    seq->next = sched->free;
    sched->free = seq;
}

/* ---- looking ---- */

uint32_t gp_sched_running(const struct gp_sched *sched)
{
    return sched->running.count;
}

uint32_t gp_sched_waiting(const struct gp_sched *sched)
{
    return sched->waiting.count;
}

struct gp_seq *gp_sched_first_running(struct gp_sched *sched)
{
    return sched->running.head;
}

struct gp_seq *gp_sched_first_waiting(struct gp_sched *sched)
{
    return sched->waiting.head;
}

uint64_t gp_sched_prefix_asked(const struct gp_sched *sched)
{
    return sched->prefix_asked;
}

uint64_t gp_sched_prefix_found(const struct gp_sched *sched)
{
    return sched->prefix_found;
}

struct gp_prefix *gp_sched_prefix(struct gp_sched *sched)
{
    return sched->prefix;
}
