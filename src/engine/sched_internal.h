/* The scheduler's inside, shared by its four files: sched.c (life of a sequence), sched_boundary.c
 * (what happens when pages are full), sched_plan.c (the step), sched_check.c (the walker). */
#ifndef GP_ENGINE_SCHED_INTERNAL_H
#define GP_ENGINE_SCHED_INTERNAL_H

#include "engine/sched.h"

/* Sequences in order of arrival, oldest first, linked by next. */
struct gp_seq_list {
    struct gp_seq *head, *tail;
    uint32_t count;
};

struct gp_sched {
    struct gp_pool *pool;
    struct gp_sched_options options;
    struct gp_sched_ops ops;

    struct gp_seq *seqs; /* [seq_count]                            */
    uint32_t seq_count;  /* max_seqs + max_waiting                 */
    struct gp_seq *free; /* linked by next                         */
    struct gp_seq_list running;
    struct gp_seq_list waiting;
    uint64_t arrival_next;

    /* A running sequence has a query slot, and the block table of the same number. */
    uint32_t *slots; /* [max_seqs] the first slot_count are free */
    uint32_t slot_count;
    uint32_t *tables; /* [max_seqs][table_max]                  */
    uint32_t table_max;
    uint8_t *logs; /* [seq_count][log_max]                   */
    uint32_t log_max;

    struct gp_run *runs; /* [max_seqs] the plan's                  */
    bool preempted;      /* somebody, since the plan began         */

    uint32_t *page_marks; /* [pages of the pool] gp_sched_check()'s */
    uint8_t *slot_marks;  /* [max_seqs]                             */
};

/* ceil(tokens / b) */
static inline uint32_t gp_sched_pages_for(const struct gp_sched *s, uint32_t tokens)
{
    return (tokens + s->options.page_tokens - 1) / s->options.page_tokens;
}

static inline bool gp_seq_at_boundary(const struct gp_sched *s, const struct gp_seq *seq)
{
    return seq->cached == seq->pages * s->options.page_tokens;
}

/* Take a waiting sequence's pages and slot and let it run from its first token, or change nothing
 * (false) when the pages are not there. */
bool gp_sched_admit(struct gp_sched *s, struct gp_seq *seq);

/* Rows that seq may run before the trigger of its policy cuts; 0: it cuts now. */
uint32_t gp_sched_rows_to_cut(const struct gp_sched *s, const struct gp_seq *seq);

/* Carry out the cut that is due, if one is. */
void gp_sched_pass_cut(struct gp_sched *s, struct gp_seq *seq);

/* P grew, or began: keep what follows from it. */
void gp_sched_note_pages(const struct gp_sched *s, struct gp_seq *seq);

enum gp_boundary_outcome {
    GP_BOUNDARY_PASSED,   /* the next row has a slot                         */
    GP_BOUNDARY_GAVE_WAY, /* seq was preempted and waits                     */
    GP_BOUNDARY_STUCK,    /* seq was alone and could not go on; it is DONE   */
};

/* seq is at a boundary and a row of it is to run: repeat the log, or decide. */
enum gp_boundary_outcome gp_sched_pass_boundary(struct gp_sched *s, struct gp_seq *seq);

#endif
