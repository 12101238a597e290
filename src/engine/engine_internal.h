/* What the files of the engine share.  See README.md for the words.
 *
 * Two kinds of state: what the engine's thread owns (scheduler, cache, forward pass) and what
 * any thread may touch under `lock` (request table, slab, inbox, published counts).  The lock is
 * held for bookkeeping only, never across a step's arithmetic. */
#ifndef GP_ENGINE_INTERNAL_H
#define GP_ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/workers.h"
#include "engine/pace.h"
#include "engine/sched.h"
#include "engine/slab.h"
#include "growpage.h"
#include "kernels/kernels.h"
#include "kv/pool.h"
#include "model/forward.h"
#include "model/gguf.h"
#include "model/sampler.h"
#include "model/weights.h"
#include "text/grammar/lexicon.h"
#include "text/template/template.h"
#include "text/tokenizer.h"

struct gp_model {
    struct gp_gguf *gguf;
    struct gp_tokenizer *tokenizer;
    struct gp_template *template;       /* NULL when the file has none                      */
    char *template_source;              /* its text                                         */
    struct gp_lexicon *_Atomic lexicon; /* made when a guide first needs it            */
    struct gp_weights *weights;         /* NULL when vocab_only                              */
    enum gp_level level;
    struct gp_kernels kernels;
};

/* What a compaction spent, by stage, and the slots it moved. */
struct gp_stages {
    uint64_t score_ns, select_ns, compact_ns, moved;
};

/* A choice's counters as the trace told them last. */
struct told {
    struct gp_stages stages;
    uint64_t demand_ns;
    uint32_t fallback;
};

/* One choice of a request.  Arrays lie in the request's slab block. */
struct choice {
    struct gp_seq *seq;      /* NULL once the engine is done with it                              */
    uint32_t index;          /* the choice's number                                               */
    int32_t *tokens;         /* [prompt_count + max_tokens] prompt, then output                   */
    float *logprobs;         /* [max_tokens] or NULL                                              */
    struct gp_logprob *tops; /* [max_tokens][logprobs] or NULL                                    */
    struct gp_boundary_event
        *events; /* [event_max]                                               */
    uint32_t event_max;

    /* The engine's thread only. */
    uint32_t output_count;
    uint32_t event_count;
    enum gp_finish finish;
    int32_t force_next; /* an id, or GP_GO                                                   */
    uint32_t pages_end,
        slots_end; /* when it finished                                             */
    uint64_t admitted_ns, first_token_ns, last_token_ns;
    uint64_t demand_ns;
    struct gp_stages stages;
    struct told told;

    /* Under the lock: what readers may see. */
    uint32_t output_seen;
    uint32_t event_seen;
    enum gp_finish finish_seen;
    struct gp_request_stats stats_seen;
};

struct request {
    bool used;
    bool submitted; /* waits in the inbox                                                */
    bool cancel;    /* asked for; the next step carries it out                           */
    bool release;   /* forget it as soon as the engine is done with it                   */
    bool news;
    uint32_t generation;     /* high half of the id; an old id finds nothing                      */
    uint32_t open_choices;   /* choices that the engine is not done with                          */
    struct gp_request asked; /* pointers lead into the block                                      */
    struct gp_kv_options kv;
    uint64_t seed;
    uint32_t max_tokens; /* clamped                                                           */
    uint64_t submitted_ns;
    struct choice *choices; /* [n]                                                               */
    float *prompt_logprobs; /* [prompt] or NULL                                                  */
    struct gp_logprob
        *prompt_tops;       /* [prompt][prompt_logprobs]                                   */
    uint32_t prompt_scored; /* prompt tokens whose logprobs exist; the engine's thread           */
    uint32_t prompt_scored_seen;
    void *block;
    size_t block_bytes;
};

/* The choice that a sequence is running; by sequence index. */
struct owner {
    struct request *request;
    struct choice *choice;
};

/* A row of logits in the wave at hand. */
struct draw {
    struct request *request;
    struct choice *choice;
    uint32_t token_index; /* of the row in the sequence                                        */
    bool last;            /* the next token is drawn from it; otherwise a prompt row           */
    bool scores_prompt;   /* the prompt token behind it gets its logprob                       */
    bool masked;
    int32_t forced; /* an id, or -1                                                      */
    int32_t id;     /* what was drawn                                                    */
};

/* One worker's memory for a boundary: all of one (layer, KV head) at a time. */
struct boundary_scratch {
    float *logits;         /* [slots_max]                                                       */
    float *score;          /* [slots_max]                                                       */
    float *head;           /* [slots_max]                                                       */
    uint32_t *fixed;       /* [group][slots_max]                                                */
    uint32_t *count;       /* [slots_max] scratch of the coverage count                         */
    uint32_t *kept;        /* [slots_max]                                                       */
    uint64_t *order;       /* [slots_max] scratch of the selection                              */
    struct gp_move *moves; /* [slots_max]                                                       */
    float *query;          /* [key_dim]                                                         */
    uint64_t demand_short,
        demand_long; /* sums over the items this worker took                    */
    struct gp_stages stages;
};

/* The same for the cut of a policy with a scorer; [slots_max] each. */
struct scored_scratch {
    float *before, *memory, *score;
    float *work;           /* of gp_score()                                                     */
    uint32_t *place;       /* positions of the head's slots                                     */
    uint32_t *slots;       /* history that stays                                                */
    uint32_t *stay;        /* all that stays; scratch of a plan                                 */
    uint64_t *order;       /* scratch of the selection                                          */
    struct gp_move *moves; /* half as many again: circles take one more                         */
};

/* Where the figures of a run stand. */
struct run_sums {
    uint64_t tokens_before;          /* the engine's output tokens when it began              */
    uint64_t begin_ns;               /* of the first decode step; 0: none yet                 */
    uint64_t resident;               /* choices that held pages, over decode steps            */
    uint64_t started, decoded;       /* choices with a first token; that ended with a second  */
    double ttft_ms, tpot_ms, budget; /* over these                                            */
    /* Of the step at hand. */
    uint64_t step_ns; /* when it began                    */
    uint32_t holders; /* choices whose pages its rows use */
    bool decodes;     /* it is a decode step              */
    bool counts;      /* a choice got a token, or ended   */
};

/* For tests and measurement: look at a boundary's inputs and outcome.  NULL members are not
 * called. */
struct gp_engine_hooks {
    /* Before the moves of any head. */
    void (*compacting)(void *ctx, struct gp_engine *engine, const struct gp_seq *seq,
                       const struct gp_retention *retention);
    /* From any worker, once per (layer, KV head), before its moves. */
    void (*kept)(void *ctx, uint32_t layer, uint32_t head, const uint32_t *kept, uint32_t count);
    /* From any worker, once per (layer, KV head), for a policy with a scorer, before `kept`. */
    void (*scored)(void *ctx, uint32_t layer, uint32_t head, const struct gp_score_input *in,
                   const float *memory, const float *score);
    /* The decision has been taken and carried out, unless seq must give way. */
    void (*boundary)(void *ctx, const struct gp_seq *seq, struct gp_decision decision,
                     const struct gp_signal *signal, uint32_t pages_before);
    void *ctx;
};

struct gp_engine {
    const struct gp_model *model;
    struct gp_engine_options options;
    struct gp_engine_hooks hooks;
    struct gp_tracer *tracer; /* NULL: nothing is traced */

    /* The engine's thread. */
    struct gp_workers *workers;
    struct gp_pool *pool;
    struct gp_sched *sched;
    struct gp_pace pace;
    struct gp_forward *forward;
    struct gp_cache cache;
    size_t pool_bytes;
    size_t summary_floats, rms_floats;
    uint32_t wave;
    uint32_t vocab; /* ids that have a token; a row of logits may be longer, and the rest of it
                       is padding that nobody may draw */
    struct gp_sampler **samplers; /* [threads]                                                   */
    struct owner *owners;         /* [owner_count] by seq->index                                 */
    uint32_t owner_count;         /* sequences that the scheduler can tell apart                 */
    uint32_t sequences_max;
    int32_t *batch_tokens;       /* [max_batch_tokens]                                          */
    struct gp_segment *segments; /* [max_seqs]                                                  */
    struct draw *draws;          /* [wave]                                                      */
    uint64_t *masks;             /* [wave][mask_words]                                          */
    uint32_t mask_words;
    struct boundary_scratch
        *scratch;                 /* [threads]                                                 */
    struct gp_policy_needs needs; /* of all policies that a request may bring                  */
    struct scored_scratch *scored_scratch; /* [threads], or NULL                               */
    uint64_t scored_bytes;
    uint32_t *tap_counts; /* [layers][KV heads], or NULL                               */
    uint32_t slots_max;
    float *rope_cos, *rope_sin; /* [rope_dim/2] angles of a boundary's position                */
    struct gp_engine_stats stats;
    struct run_sums run;
    struct gp_engine_stats
        retired; /* the counters of sequences that were forgotten               */
    uint64_t work_bytes;

    /* Under the lock. */
    pthread_mutex_t lock;
    struct gp_slab slab;
    struct request *requests; /* [request_max]                                               */
    uint32_t request_max;
    uint32_t sequences_out; /* choices submitted and not done                              */
    uint32_t *inbox;        /* [request_max] request indices, oldest first                 */
    uint32_t inbox_count;
    bool cancels; /* some request has cancel set                                 */
    bool any_news;
    uint32_t poll_begin; /* where the next poll begins to look                             */
    struct gp_engine_stats stats_seen;
    int news_fd, work_fd;
};

/* The windows' rows, which both taps and scorers take their queries from: the newest rows_count
 * of a query head of a query slot. */
static inline float *gp_window_of(const struct gp_engine *engine, uint32_t layer, uint32_t slot)
{
    const struct gp_hparams *hp = &engine->model->weights->hp;
    const struct gp_cache *cache = &engine->cache;
    size_t place = (size_t)layer * cache->summary_slots + slot;

    return cache->windows + place * cache->window_rows * hp->head_count * hp->key_dim;
}

/* engine.c: 0 means one a core. */
uint32_t gp_engine_threads(uint32_t asked);
/* The cache type of a name (NULL: f16), if the model's heads can have it.  *name becomes a text of
 * ours: the caller's may be gone when the engine is asked for it. */
int gp_cache_type(const char **name, const struct gp_hparams *hp, enum gp_kv_type *out,
                  struct gp_error *err);

/* boundary.c: the scheduler's wishes, carried out on bytes. */
struct gp_signal gp_boundary_measure(void *ctx, struct gp_seq *seq);
/* A compaction is one item for each (layer, KV head). */
uint32_t gp_boundary_items(const struct gp_engine *engine);
void gp_boundary_compact_slice(struct gp_engine *engine, struct gp_seq *seq,
                               const struct gp_retention *r, uint32_t begin, uint32_t end);
int gp_boundary_open(struct gp_engine *engine, struct gp_error *err);
void gp_boundary_close(struct gp_engine *engine);

/* scored.c: policies with a scorer. */
void gp_scored_needs(struct gp_engine *engine); /* from the options                              */
size_t gp_scored_page_bytes(const struct gp_engine *engine); /* beside a page's own              */
int gp_scored_open(struct gp_engine *engine, struct gp_error *err);
void gp_scored_close(struct gp_engine *engine);
/* Can a request with these options run here? */
int gp_scored_check(const struct gp_engine *engine, const struct gp_kv_options *kv,
                    struct gp_error *err);
/* What the rows of seq leave behind for its scorer. */
void gp_scored_segment(const struct gp_seq *seq, struct gp_segment *segment);
/* One item of the compaction of a policy with a scorer. */
void gp_scored_cut(struct gp_engine *engine, const struct gp_seq *seq, const struct gp_retention *r,
                   uint32_t layer, uint32_t head, uint32_t worker, struct gp_stages *stages);

/* compaction.c: the scheduler's `compact` and `copy`. */
void gp_compaction_run(void *ctx, struct gp_seq *seq, const struct gp_retention *r);
void gp_compaction_copy(void *ctx, uint32_t from, uint32_t to, uint32_t slots);
/* A slice of the compactions in flight, beside a step of so many rows; all of them where no row
 * could run.  Returns whether there was one. */
bool gp_compaction_advance(struct gp_engine *engine, uint32_t rows);

/* measure.c: forks, decisions that the caller takes, taps. */
int gp_measure_open(struct gp_engine *engine, struct gp_error *err);
void gp_measure_close(struct gp_engine *engine);
/* A decision as the caller is told of it, but for pages_after. */
struct gp_boundary_event gp_measure_event(const struct gp_seq *seq, struct gp_decision decision,
                                          const struct gp_signal *signal, uint32_t pages_before);
struct gp_decision gp_measure_override(void *ctx, const struct gp_seq *seq,
                                       struct gp_decision decision, const struct gp_signal *signal);
void gp_measure_clone(void *ctx, const struct gp_seq *from, const struct gp_seq *to);
/* The rows of the plan have run, and nothing has been drawn from them. */
void gp_measure_tap(struct gp_engine *engine, const struct gp_plan *plan);

/* figures.c: the figures of a run, told of what happens in a step. */
void gp_figures_begin_step(struct gp_engine *engine);
void gp_figures_rows(struct gp_engine *engine); /* the rows that are planned are about to run */
/* The choice has output that nobody could read until now; and it is over, its stats are whole. */
void gp_figures_token(struct gp_engine *engine, const struct request *request,
                      const struct choice *choice);
void gp_figures_ended(struct gp_engine *engine, const struct gp_request_stats *stats);
/* Into engine->stats, as of `now`, the time at which the step's tokens can be read. */
void gp_figures_sum(struct gp_engine *engine, uint64_t now);

/* requests.c: the side that other threads see. */
/* What a request comes to, with its seed and its limits; the arrays are still the caller's. */
int gp_request_make(const struct gp_engine *engine, const struct gp_request *asked,
                    struct request *made, struct gp_error *err);
/* Under the lock: a place for it, with copies of its arrays. */
int gp_request_place(struct gp_engine *engine, const struct request *made, struct request **out,
                     struct gp_error *err);
struct request *gp_request_find(struct gp_engine *engine, uint64_t id); /* under the lock */
uint64_t gp_request_id(const struct gp_engine *engine, const struct request *request);
int gp_requests_open(struct gp_engine *engine, struct gp_error *err);
void gp_requests_close(struct gp_engine *engine);
void gp_requests_drain(struct gp_engine *engine);   /* inbox and cancels into the scheduler */
void gp_requests_publish(struct gp_engine *engine); /* what the step made, to the readers   */
void gp_choice_done(struct gp_engine *engine, struct request *request, struct choice *choice,
                    enum gp_finish finish);

/* step.c */
void gp_step_boundary(void *ctx, const struct gp_seq *seq, struct gp_decision decision,
                      const struct gp_signal *signal, uint32_t pages_before);
void gp_step_admitted(void *ctx, const struct gp_seq *seq);
void gp_step_preempted(void *ctx, struct gp_seq *seq);

#endif
