/* Options that a request carries: how its cache is budgeted, how its tokens are drawn, what its
 * answer may be.  Plain data, shared by every layer; section numbers are those of docs/PAPER.md's
 * method. */
#ifndef GROWPAGE_OPTIONS_H
#define GROWPAGE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* ---- the cache (section 7) ---- */

enum gp_policy {
    GP_POLICY_FULL,     /* grows at every boundary, never compresses                 */
    GP_POLICY_GROWPAGE, /* grows when delta > threshold, else compresses             */
    GP_POLICY_FIXED,    /* holds at most budget_tokens, then compresses              */
    GP_POLICY_RANDOM,   /* compresses with a given probability, else grows           */
    GP_POLICY_INVERSE,  /* grows when delta <= threshold: the ablation               */
    GP_POLICY_SHRINK,   /* growpage that also gives pages back                       */
    /* Fixed budgets with scores of their own (docs/POLICIES.md). */
    GP_POLICY_ZIPAGE,    /* window attention, decayed memory, redundancy in a page       */
    GP_POLICY_GKV,       /* window attention, decayed memory, redundancy in the cache    */
    GP_POLICY_RKV,       /* window attention and redundancy in the cache                 */
    GP_POLICY_MORPHKV,   /* window attention, a token for a token                        */
    GP_POLICY_SNAPKV,    /* window attention, pooled                                     */
    GP_POLICY_H2O,       /* the attention of all queries, a token for a token            */
    GP_POLICY_STREAMING, /* the first tokens and the newest                              */
};

/* When a fixed-budget policy cuts the cache to its budget; others know `page` only. */
enum gp_kv_trigger {
    GP_TRIGGER_PAGE,  /* when its pages are full                                     */
    GP_TRIGGER_STEPS, /* every trigger_steps tokens                                  */
    GP_TRIGGER_TOKEN, /* before every token beyond the budget                        */
};

enum gp_metric {
    GP_METRIC_TOP_P,
    GP_METRIC_ENTROPY,
    GP_METRIC_EXP_ENTROPY
};
enum gp_gqa_demand {
    GP_GQA_MEAN,
    GP_GQA_MAX,
    GP_GQA_PER_HEAD
};
enum gp_gqa_score {
    GP_GQA_SCORE_MAX,
    GP_GQA_SCORE_MEAN
};
enum gp_score_domain {
    GP_DOMAIN_UNPROTECTED,
    GP_DOMAIN_ALL
};
enum gp_summary_init {
    GP_SUMMARY_FIRST,
    GP_SUMMARY_ZERO
};
enum gp_kv_fallback {
    GP_FALLBACK_COMPRESS,
    GP_FALLBACK_PREEMPT
};
enum gp_kv_resume {
    GP_RESUME_REPLAY,
    GP_RESUME_RECOMPUTE
};
/* Who gives way when a page is missing. */
enum gp_preempt {
    GP_PREEMPT_NEWEST,
    GP_PREEMPT_LEAST_COMPUTED /* whoever has the least to lose; the newest of equals */
};
/* How requests join those that run. */
enum gp_batching {
    GP_BATCHING_CONTINUOUS, /* as soon as there is room                                      */
    GP_BATCHING_STATIC,     /* when all that ran before have ended, as many as the pool holds */
};
/* Where the survivors of Compress & Hold go. */
enum gp_kv_compact {
    GP_COMPACT_SHIFT, /* down, in their order                                        */
    GP_COMPACT_FILL,  /* those of the last page into the holes of the others         */
};

/* What a token's score is made of. */
enum gp_score_source {
    GP_SCORE_WINDOW,   /* attention of the newest `window` queries, when the cache is cut  */
    GP_SCORE_ALL,      /* attention of every query, summed up as they run                  */
    GP_SCORE_POSITION, /* the newer the better                                             */
};
enum gp_score_group {
    GP_GROUP_LOGITS, /* the largest logit of the group, then softmax */
    GP_GROUP_MAX,    /* softmax per query head, then the largest     */
    GP_GROUP_MEAN,   /* softmax per query head, then the mean        */
};
enum gp_score_reduce {
    GP_REDUCE_MEAN,
    GP_REDUCE_SUM,
    GP_REDUCE_MAX
};
enum gp_score_history {
    GP_HISTORY_NONE,
    GP_HISTORY_MAX,  /* max(decay * before, now)         */
    GP_HISTORY_MEAN, /* decay * before + (1 - decay) * now */
    GP_HISTORY_SUM,  /* decay * before + now             */
};
enum gp_score_pool {
    GP_POOL_NONE,
    GP_POOL_MAX, /* of the neighbours that are there                */
    GP_POOL_MEAN /* neighbours that are not there count as 0        */
};
enum gp_score_redundancy {
    GP_REDUNDANCY_NONE,
    GP_REDUNDANCY_PAGE, /* a key is compared with those of its page  */
    GP_REDUNDANCY_CACHE /* ... with all of them                      */
};

/* The scorer of the fixed-budget policies, switch by switch, in the order in which they apply.
 * gp_policy_parse() sets all of them to the policy's own (docs/POLICIES.md has the table); change
 * them afterwards. */
struct gp_scorer {
    enum gp_score_source source;
    uint32_t window;           /* newest queries that score, after RoPE: 16, 8, 31 */
    enum gp_score_group group; /* how a KV head's query heads are joined           */
    /* The softmax runs over the newest tokens, too, each query seeing what it saw when it ran;
     * false: over those that may be dropped. */
    bool window_keys;
    enum gp_score_reduce reduce; /* over the window's queries */
    bool normalize;              /* divide by the largest score, before history */
    /* The newest tokens take part in normalize, history and pool; false: they are left out behind
     * the softmax. */
    bool remember_newest;

    enum gp_score_history history; /* what a token scored at the cut before */
    float decay;

    enum gp_score_pool pool; /* over neighbouring slots; what is remembered is not pooled */
    uint32_t pool_width;     /* odd */
    bool pool_first_only;    /* at a request's first cut alone */

    /* A penalty for keys like others: lambda * score - (1 - lambda) * penalty.  Similarities are
     * summed, divided by redundancy_scale (tau) times how many were compared, and go through a
     * softmax over all slots. */
    enum gp_score_redundancy redundancy;
    float redundancy_scale;
    bool redundancy_slot0;     /* a key like no other exempts slot 0 (R-KV's code does) */
    bool redundancy_normalize; /* divide the penalty by its largest */
    float lambda;

    uint32_t sinks;  /* first tokens that are never dropped */
    bool keep_order; /* survivors stay in the order of the text; false: the best first */
    /* Positions are places in the cache: keys are kept before RoPE and rotated at each step
     * (StreamingLLM).  With GP_SCORE_POSITION only. */
    bool cache_positions;
    bool count_prompt; /* trigger_steps counts all tokens, not those behind the prompt */
};

struct gp_kv_options {
    enum gp_policy policy;
    uint32_t budget_tokens;      /* T.  fixed: rounded down to pages, at least 2 pages    */
    double compress_probability; /* random: 0.7                                          */
    uint64_t seed;               /* random: its own stream                                */
    double shrink_threshold;     /* shrink: -0.005                                        */
    uint32_t shrink_floor;       /* shrink: 1024 tokens                                   */

    float beta_short; /* 0.9   (section 2)                                     */
    float beta_long;  /* 0.999                                                 */
    enum gp_summary_init summary_init;
    /* Whose scorer says what growpage, fixed, random, inverse or shrink keep ("growpage+zipage");
     * GP_POLICY_FULL: none, the query summaries do (section 4).  Not of the paper. */
    enum gp_policy select;

    double coverage;  /* p, 0.99 (section 3)                                   */
    double threshold; /* tau, 0                                                */
    enum gp_metric metric;
    enum gp_gqa_demand gqa_demand;
    uint32_t initial_pages; /* 12                                                    */
    uint32_t max_pages;     /* growth at this many becomes Compress & Hold; 0: none  */
    double pressure;        /* grow unasked below this share of the pool; 0: off     */

    uint32_t local;   /* k_loc (section 4); 0: a quarter of the page           */
    uint32_t protect; /* newest slots never dropped; 0: 16, or 8 when b = 16; a
                         scorer's window, or what its policy says              */
    enum gp_gqa_score gqa_score;
    enum gp_score_domain score_domain;
    enum gp_kv_compact compact; /* by the summaries alone: a scorer's plan is its own */

    enum gp_kv_fallback fallback; /* section 6 */
    enum gp_kv_resume resume;

    enum gp_kv_trigger trigger; /* fixed budgets with a scorer of their own       */
    uint32_t trigger_steps;     /* 128                                            */
    struct gp_scorer scorer;
};

/* ---- sampling ---- */

struct gp_logit_bias {
    int32_t id;
    float bias; /* added to the raw logit; finite */
};

/* Order: penalties, bias, mask, temperature, min-p, top-k, top-p; ties go to the lower id. */
struct gp_sampling {
    float temperature;       /* under 1e-5: greedy                                      */
    float top_p;             /* (0, 1]; 1: off                                          */
    float min_p;             /* [0, 1); 0: off                                          */
    uint32_t top_k;          /* 0: off                                                  */
    float repeat_penalty;    /* over prompt and output; 1: off                          */
    float presence_penalty;  /* over output; 0: off                                     */
    float frequency_penalty; /* over output; 0: off                                     */
    uint32_t penalty_last_n; /* tokens that the penalties look at; 0: all               */
    uint64_t seed;
    bool has_seed;                    /* false: one is drawn and reported                        */
    const struct gp_logit_bias *bias; /* copied at submit                                */
    uint32_t bias_count;
};

/* ---- what an answer may be ---- */

/* One document, and the words around it. */
struct gp_grammar_form {
    const char *begin;  /* may be ""                                                */
    const char *schema; /* JSON Schema as text (docs/SERVER.md lists the keywords); NULL: any JSON
                           object */
    const char *end;    /* may be ""                                                */
};

enum gp_grammar_thought {
    GP_GRAMMAR_NO_THOUGHT,
    GP_GRAMMAR_MAY_THINK, /* the answer may begin with <think> ... </think>          */
    GP_GRAMMAR_THINKS,    /* the prompt has opened the thought                       */
};

/* Behind the thought, which is free, one of the forms, or several with the separator between. */
struct gp_grammar_source {
    const struct gp_grammar_form *forms;
    uint32_t form_count;   /* 1 to 128                                                */
    const char *separator; /* NULL: one form, no more                                 */
    enum gp_grammar_thought thought;
};

#endif
