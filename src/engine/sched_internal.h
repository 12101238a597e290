/* The scheduler's inside, shared by its files: sched.c (life of a sequence), sched_boundary.c (what
 * happens when pages are full), sched_compact.c (compactions, and the pages they may write),
 * sched_share.c (pages that several hold), sched_static.c (static batching), sched_plan.c (the
 * step), sched_check.c (the walker). */
#ifndef GP_ENGINE_SCHED_INTERNAL_H
#define GP_ENGINE_SCHED_INTERNAL_H

#include "engine/sched.h"

/* Sequences in the order of gp_seq_before(), linked by next. */
struct gp_seq_list {
    struct gp_seq *head, *tail;
    uint32_t count;
};

struct gp_sched {
    struct gp_pool *pool;
    struct gp_prefix *prefix; /* NULL: nothing is shared */
    struct gp_sched_options options;
    struct gp_sched_ops ops;

    struct gp_seq *seqs; /* [seq_count]                            */
    uint32_t seq_count;  /* max_seqs + max_waiting                 */
    struct gp_seq *free; /* linked by next                         */
    struct gp_seq_list running;
    struct gp_seq_list waiting;
    struct gp_seq *compacting, *compacting_last; /* oldest first, linked by compacting_next */
    uint64_t arrival_next;

    /* A running sequence has a query slot, and the block table of the same number. */
    uint32_t *slots; /* [max_seqs] the first slot_count are free */
    uint32_t slot_count;
    uint32_t *tables; /* [max_seqs][table_max]                  */
    uint32_t table_max;
    uint32_t *fresh; /* [table_max] pages that will stand in for shared ones */
    uint8_t *logs;   /* [seq_count][log_max]                  */
    uint32_t log_max;

    struct gp_run *runs;  /* [max_seqs] the plan's                  */
    struct gp_plan *plan; /* the one that is being made, or NULL    */
    uint32_t prompt_rows; /* of a plan with decode rows, at most    */
    bool preempted;       /* somebody, since the plan began         */
    bool batch_open;      /* static batching: members may still be admitted */
    uint32_t batch_pages; /* ... that those there are hold at their most    */
    uint64_t prefix_asked, prefix_found;

    uint32_t *page_marks; /* [pages of the pool] gp_sched_check()'s */
    uint8_t *slot_marks;  /* [max_seqs]                             */
};

/* ceil(tokens / b) */
static inline uint32_t gp_sched_pages_for(const struct gp_sched *s, uint32_t tokens)
{
    return (tokens + s->options.page_tokens - 1) / s->options.page_tokens;
}

/* The order of both lists: by priority, and by arrival within one. */
static inline bool gp_seq_before(const struct gp_seq *a, const struct gp_seq *b)
{
    return a->priority != b->priority ? a->priority < b->priority : a->arrival < b->arrival;
}

static inline bool gp_seq_at_boundary(const struct gp_sched *s, const struct gp_seq *seq)
{
    return seq->cached == seq->pages * s->options.page_tokens;
}

/* Take pages whose bytes are about to be overwritten, or none (false). */
bool gp_sched_take_pages(struct gp_sched *s, uint32_t n, uint32_t *pages);

/* Take a waiting sequence's pages and slot and let it run from its first token, or change nothing
 * (false) when the pages are not there. */
bool gp_sched_admit(struct gp_sched *s, struct gp_seq *seq);

/* Rows that seq may run before the trigger of its policy cuts; 0: it cuts now. */
uint32_t gp_sched_rows_to_cut(const struct gp_sched *s, const struct gp_seq *seq);

/* P grew, or began: keep what follows from it. */
void gp_sched_note_pages(const struct gp_sched *s, struct gp_seq *seq);

/* seq was preempted: its row is in the plan no more. */
void gp_sched_drop_run(struct gp_sched *s, const struct gp_seq *seq);

/* ---- sharing ---- */

/* The pages of the index that seq begins with, into pages [need], and how many. */
uint32_t gp_sched_find_hits(struct gp_sched *s, struct gp_seq *seq, uint32_t *pages);
/* seq has been given its table, the first `hits` pages of which come from the index: skip what need
 * not run. */
void gp_sched_take_hits(struct gp_sched *s, struct gp_seq *seq, uint32_t hits);
/* Must seq wait for the prompt of its leader? */
bool gp_sched_awaits_leader(const struct gp_seq *seq);
/* Rows of seq have run: its full pages enter the index. */
void gp_sched_index_pages(struct gp_sched *s, struct gp_seq *seq);

/* ---- compaction ---- */

/* Make the first pages_after pages of seq its own, in the table and in the index.  False, and
 * nothing has changed, when pages are missing for it. */
bool gp_sched_own_pages(struct gp_sched *s, struct gp_seq *seq, uint32_t pages_after);
/* Compact, now or, where the scheduler is asynchronous, in flight.  The pages are its own. */
void gp_sched_compact(struct gp_sched *s, struct gp_seq *seq, const struct gp_retention *r);
/* What is held beyond the pages in use goes, once the log has no growth to come. */
void gp_sched_give_surplus(struct gp_sched *s, struct gp_seq *seq);
/* A sequence in flight stops running. */
void gp_sched_abandon(struct gp_sched *s, struct gp_seq *seq);

/* ---- static batching ---- */

/* All of these say yes, or do nothing, where batching is continuous. */
void gp_sched_begin_batch(struct gp_sched *s); /* at the beginning of a plan */
/* May seq, the front of the queue, become a member?  gp_sched_join(): it has been admitted. */
bool gp_sched_may_join(const struct gp_sched *s, const struct gp_seq *seq);
void gp_sched_join(struct gp_sched *s, const struct gp_seq *seq);
/* May rows be decoded in this plan?  If so the batch takes no more members. */
bool gp_sched_may_decode(struct gp_sched *s);

/* ---- boundaries ---- */

enum gp_boundary_outcome {
    GP_BOUNDARY_PASSED,   /* the next row has a slot, or will have one when it is compacted */
    GP_BOUNDARY_GAVE_WAY, /* seq was preempted and waits                     */
    GP_BOUNDARY_STUCK,    /* seq was alone and could not go on; it is DONE   */
};

/* A row of seq is to run: carry out the cut that is due, if one is; and if its pages are full,
 * repeat the log, or decide. */
enum gp_boundary_outcome gp_sched_make_slot(struct gp_sched *s, struct gp_seq *seq);

#endif
