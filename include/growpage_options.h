/* Options that a request carries: how its cache is budgeted and how its tokens are drawn.  Plain
 * data, shared by every layer; section numbers are those of docs/PAPER.md's method. */
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

struct gp_kv_options {
    enum gp_policy policy;
    uint32_t budget_tokens;      /* fixed: T, rounded down to pages, at least 2 pages     */
    double compress_probability; /* random: 0.7                                          */
    uint64_t seed;               /* random: its own stream                                */
    double shrink_threshold;     /* shrink: -0.005                                        */
    uint32_t shrink_floor;       /* shrink: 1024 tokens                                   */

    float beta_short; /* 0.9   (section 2)                                     */
    float beta_long;  /* 0.999                                                 */
    enum gp_summary_init summary_init;

    double coverage;  /* p, 0.99 (section 3)                                   */
    double threshold; /* tau, 0                                                */
    enum gp_metric metric;
    enum gp_gqa_demand gqa_demand;
    uint32_t initial_pages; /* 12                                                    */
    uint32_t max_pages;     /* growth at this many becomes Compress & Hold; 0: none  */
    double pressure;        /* grow unasked below this share of the pool; 0: off     */

    uint32_t local;   /* k_loc (section 4); 0: a quarter of the page           */
    uint32_t protect; /* newest slots never dropped; 0: 16, or 8 when b = 16   */
    enum gp_gqa_score gqa_score;
    enum gp_score_domain score_domain;

    enum gp_kv_fallback fallback; /* section 6 */
    enum gp_kv_resume resume;
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

#endif
