/* The scheduler: which rows run in a step, who holds which pages, who waits.
 *
 * Knows counts, pages and the policy's decisions; knows no tensor, no text and no clock, and hands
 * token ids to the prefix index without reading them.  What must touch bytes (measuring demand,
 * compacting, copying a page) is asked of its owner through struct gp_sched_ops, so the same
 * scheduler runs in the simulator with no model at all.
 *
 * One thread.  Everything is taken at open; nothing is allocated after. */
#ifndef GP_ENGINE_SCHED_H
#define GP_ENGINE_SCHED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "growpage_options.h"
#include "kv/pool.h"
#include "kv/prefix.h"
#include "policy/policy.h"

#define GP_SLOT_NONE UINT32_MAX

enum gp_seq_state {
    GP_SEQ_FREE,    /* not in use                                        */
    GP_SEQ_WAITING, /* in the queue; holds nothing                       */
    GP_SEQ_RUNNING, /* holds pages and a query slot                      */
    GP_SEQ_DONE,    /* holds nothing; its owner has yet to forget it     */
};

/* One sequence: one choice of one request.  The owner reads all of it and writes only what
 * the functions below say. */
struct gp_seq {
    enum gp_seq_state state;
    uint32_t index;   /* its place in the scheduler's array                              */
    uint64_t arrival; /* order of arrival; lower is older                                */
    int32_t priority; /* lower comes first, whenever it arrived                          */
    struct gp_kv_options kv;

    uint32_t prompt_count; /* tokens of the prompt                                           */
    /* Rows that are run as a prompt: prompt_count, or all tokens that were known when a recompute
     * began (--kv-resume).  Rows from this one on are generated ones: they update the summaries,
     * and boundaries lie among them. */
    uint32_t prefill_count;
    uint32_t token_count; /* known tokens: prompt and output                                */
    uint32_t computed;    /* n_tokens: rows that have run                                    */
    uint32_t cached;      /* n_cached: slots in use                                          */
    uint32_t pages;       /* P: pages in use so far; <= held                                 */
    uint32_t held;        /* pages in table (a replay takes its peak at once)                */
    uint32_t need;        /* pages that admission takes: the prefill's, or most of a replay  */
    uint32_t *table;      /* [table_max] page ids; NULL unless it runs                       */
    uint32_t query_slot;  /* slot of the query summaries, or GP_SLOT_NONE                    */
    bool has_summaries;   /* a generated row has run since the query slot was bound          */
    uint32_t tokens_most; /* that it may come to: the context, unless its owner knows better */
    uint32_t carried;     /* slots that this run's last compaction left; 0: there was none     */
    bool reached_initial;

    /* Sharing (section 6); what gp_sched_share() was told. */
    const int32_t *tokens;       /* the owner's, [token_count]; NULL: it shares nothing           */
    struct gp_prefix_place root; /* of its chain                                                  */
    uint32_t skip_max;           /* rows that need not run where a hit holds their keys           */
    const struct gp_seq *leader; /* the choice whose prompt it waits for, or NULL                 */
    uint64_t leader_arrival;     /* a leader of another number is not the one that was meant      */
    /* ... and what this run made of it. */
    uint32_t hits;    /* leading pages that came from the index; their rows store nothing      */
    bool indexes;     /* its full pages enter the index, until it compacts                     */
    uint32_t indexed; /* leading pages that `place` is behind                                  */
    struct gp_prefix_place place;
    uint32_t skipped; /* rows that its first run did not have to run                           */

    /* A compaction in flight (section 5): seq has no row until it is over. */
    bool compacting;
    struct gp_retention retention;
    uint32_t items_done; /* the owner's: how far it has come                                  */
    struct gp_seq *compacting_next;

    /* The log that a replay repeats (section 6): one entry a boundary, written when the decision is
     * taken, carried out or not: a growth whose page never came is the last thing a replay does. */
    uint8_t *log;        /* [log_max] enum gp_policy_action                                 */
    uint32_t log_count;  /* decisions taken so far                                          */
    uint32_t log_at;     /* decisions that this run has carried out; < log_count in a replay */
    uint32_t pages_peak; /* most pages in use                                               */

    /* Counters of section 8. */
    uint32_t grow, compress, shrink, start, initial, pressure, capped, overridden, fallback,
        preempt;
    uint32_t cuts;      /* compactions of a trigger of its own: no boundaries, not in the log    */
    uint32_t cut_at;    /* rows that had run at the latest of them; a replay repeats, not counts */
    uint64_t pages_sum; /* sum of P over decode steps, for the mean                        */
    uint32_t decode_steps;

    struct gp_seq *next; /* in the queue or in the running list                             */
};

/* A run of rows of one sequence in one step: tokens [computed, computed + count). */
struct gp_run {
    struct gp_seq *seq;
    uint32_t count;
    bool last; /* the rows reach token_count: the next token can be drawn from the last row */
};

struct gp_plan {
    struct gp_run *runs; /* [max_seqs] */
    uint32_t run_count;
    uint32_t row_count;
    uint32_t decode_rows; /* of row_count: those of sequences that decode */
};

struct gp_sched_ops {
    /* Measure the demand of seq at its boundary (section 3). */
    struct gp_signal (*measure)(void *ctx, struct gp_seq *seq);
    /* Compress & Hold (section 4), or the cut of a policy with a scorer: keep what r says, in the
     * sequence's first pages, which are its own by now.  Called before the scheduler changes
     * cached, pages and carried.  Not for what is left to gp_sched_compaction(). */
    void (*compact)(void *ctx, struct gp_seq *seq, const struct gp_retention *r);
    /* Copy the first `slots` slots of a page to another, for all layers and heads.  May be NULL
     * where nothing is shared. */
    void (*copy)(void *ctx, uint32_t from, uint32_t to, uint32_t slots);
    /* What to do instead of the policy's decision; a compaction that cannot be is not done.  May
     * be NULL. */
    struct gp_decision (*override)(void *ctx, const struct gp_seq *seq, struct gp_decision decision,
                                   const struct gp_signal *signal);
    /* The state of a query slot, besides pages, goes from one sequence to another.  May be NULL
     * where nothing is forked. */
    void (*clone)(void *ctx, const struct gp_seq *from, const struct gp_seq *to);
    /* A decision was taken (not a replayed one): once for each, for events and traces.  Called
     * when it has been carried out; or before seq gives way, if it must for the page that it
     * wants, with seq->pages still pages_before.  signal is NULL when demand was not measured.
     * May be NULL, as preempted may. */
    void (*boundary)(void *ctx, const struct gp_seq *seq, struct gp_decision decision,
                     const struct gp_signal *signal, uint32_t pages_before);
    /* seq was given its pages and runs; seq->preempt says whether for the first time.  May be
     * NULL. */
    void (*admitted)(void *ctx, const struct gp_seq *seq);
    /* seq lost its pages and waits again. */
    void (*preempted)(void *ctx, struct gp_seq *seq);
    void *ctx;
};

struct gp_sched_options {
    uint32_t page_tokens;      /* b                                             */
    uint32_t max_seqs;         /* running at once                               */
    uint32_t max_batch_tokens; /* rows of a step, >= max_seqs                   */
    uint32_t max_waiting;      /* waiting at once, beside those that run        */
    uint32_t context;          /* most tokens of one sequence                   */
    uint32_t watermark;
    bool prefix_cache; /* pages are shared between sequences with the same beginning */
    bool asynchronous; /* compactions are left to gp_sched_compaction()                 */
    enum gp_preempt preempt;
    bool static_batches; /* nobody is admitted beside those that decode (sched_static.c)     */
};

struct gp_sched;

int gp_sched_open(struct gp_sched **out, struct gp_pool *pool,
                  const struct gp_sched_options *options, const struct gp_sched_ops *ops,
                  struct gp_error *err);
void gp_sched_close(struct gp_sched *sched);

/* Would a prompt of this length fit the pool when alone (section 6: floor(prompt/b) + 1 <= N)? */
bool gp_sched_fits(const struct gp_sched *sched, uint32_t prompt_count);

/* Queue a sequence, behind all of its priority and those before.  NULL when max_waiting wait
 * already or no seq is free.  kv has passed gp_policy_check(); 1 <= prompt_count <= context. */
struct gp_seq *gp_sched_add(struct gp_sched *sched, uint32_t prompt_count,
                            const struct gp_kv_options *kv, int32_t priority);

/* Right after gp_sched_add(): let seq take pages of others that begin as it does, and others take
 * its own.  tokens [token_count], growing with it, stay readable until seq is forgotten.  Of the
 * rows whose keys and values a hit holds, at most skip_max are left out: those behind them run for
 * what else they leave behind (logits).  leader, which may be NULL, is a choice of the same prompt
 * that arrived before: seq waits until it has computed the prompt. */
void gp_sched_share(struct gp_sched *sched, struct gp_seq *seq, const int32_t *tokens,
                    struct gp_prefix_place root, uint32_t skip_max, const struct gp_seq *leader);

/* Between two plans: a sequence that stands where parent does, in pages of its own, and shares
 * nothing.  Parent runs, and its next row is a new one that draws.  NULL when there is no seq, no
 * slot or no page. */
struct gp_seq *gp_sched_fork(struct gp_sched *sched, const struct gp_seq *parent);
/* Does seq stand where it can be forked? */
bool gp_sched_may_fork(const struct gp_seq *seq);

/* Plan a step: decode rows first, oldest first, passing boundaries as they come; then prompts
 * and replays in chunks; then admissions, unless something was preempted.  The runs stay valid
 * until gp_sched_ran().  A sequence that is alone and cannot go on is put into GP_SEQ_DONE and
 * reported in *stuck (NULL otherwise).  True: there is at least one row.  False: no row can run;
 * nothing is left, or *stuck is set and the next plan goes on with the others, or a compaction has
 * to be finished first. */
bool gp_sched_plan(struct gp_sched *sched, struct gp_plan *plan, struct gp_seq **stuck);

/* From the next plan on: with decode rows in a plan, at most so many rows of prompts and replays
 * beside them.  UINT32_MAX, as at first: what the step holds.  0 holds prompts up, and must not
 * stay. */
void gp_sched_limit_prompts(struct gp_sched *sched, uint32_t rows);

/* Rows of a run that find their keys and values in place: the first so many of it. */
uint32_t gp_sched_stored(const struct gp_sched *sched, const struct gp_run *run);

/* All rows of the plan have run: advance computed, cached, has_summaries. */
void gp_sched_ran(struct gp_sched *sched, const struct gp_plan *plan);

/* The sequence whose compaction is in flight, or NULL.  Its owner carries out seq->retention, in as
 * many slices as it likes, between a gp_sched_ran() and the next plan, and then calls
 * gp_sched_compacted(): from the next plan on seq runs again.  Preempted or finished in the
 * middle, it is simply in flight no more. */
struct gp_seq *gp_sched_compaction(struct gp_sched *sched);
void gp_sched_compacted(struct gp_sched *sched, struct gp_seq *seq);

/* A token was drawn for seq (its run was `last`) and is to be run: token_count grows by one.
 * Between a run that was `last` and the next plan a sequence is appended to or finished. */
void gp_sched_append(struct gp_sched *sched, struct gp_seq *seq);

/* seq has finished, failed or was cancelled, in whatever state: pages and slot are back when this
 * returns.  Between steps only, or after gp_sched_ran(). */
void gp_sched_finish(struct gp_sched *sched, struct gp_seq *seq);

/* Forget a DONE sequence. */
void gp_sched_forget(struct gp_sched *sched, struct gp_seq *seq);

uint32_t gp_sched_running(const struct gp_sched *sched);
uint32_t gp_sched_waiting(const struct gp_sched *sched);
struct gp_seq *gp_sched_first_running(struct gp_sched *sched); /* oldest first, by next */
struct gp_seq *gp_sched_first_waiting(struct gp_sched *sched);
/* Tokens that were looked for in the prefix index at admissions, and those that were found. */
uint64_t gp_sched_prefix_asked(const struct gp_sched *sched);
uint64_t gp_sched_prefix_found(const struct gp_sched *sched);
/* Test hook: the index itself, or NULL. */
struct gp_prefix *gp_sched_prefix(struct gp_sched *sched);

/* Walk everything: every page of the pool is held by exactly the sequences whose tables name it,
 * query slots are bound once, cached <= pages * b, order of arrival, counters, compactions. */
void gp_sched_check(const struct gp_sched *sched);

/* Test hook: preempt seq now, as if the pool had run dry. */
void gp_sched_preempt(struct gp_sched *sched, struct gp_seq *seq);

#endif
