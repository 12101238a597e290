/* A scheduler with a pool and owners that remember what was asked of them; no model.  Pages have 4
 * tokens unless a test says otherwise. */
#ifndef GP_TESTS_SCHED_RIG_H
#define GP_TESTS_SCHED_RIG_H

#include "engine/sched.h"

#define RIG_EVENTS 256u

struct rig_event {
    uint32_t seq_index, tokens, pages_before, pages_after;
    struct gp_decision decision;
    bool measured;
};

struct rig {
    struct gp_pool *pool;
    struct gp_sched *sched;
    struct gp_sched_options options;
    struct gp_plan plan;
    struct gp_seq *stuck;
    double delta; /* what the next measurement says */
    uint32_t measure_count, compact_count, copy_count, preempt_count, event_count;
    struct rig_event events[RIG_EVENTS];
    struct gp_retention compactions[RIG_EVENTS];
};

/* Fields of options that are 0 get a default: 4 tokens a page, 4 sequences, 16 rows, 8 waiting,
 * 400 tokens. */
void rig_open(struct rig *rig, uint32_t pages, struct gp_sched_options options);

/* Everything is finished and forgotten; every page must be back. */
void rig_close(struct rig *rig);

/* initial_pages 2, the rest as gp_policy_defaults() says. */
struct gp_kv_options rig_kv(const char *policy);
struct gp_seq *rig_add(struct rig *rig, uint32_t prompt, const char *policy);

bool rig_plan(struct rig *rig);
/* The plan's rows have run; whoever ran its last one gets another token. */
void rig_run(struct rig *rig);
/* Plan and run; true when rows ran. */
bool rig_step(struct rig *rig);
void rig_steps(struct rig *rig, uint32_t count);
/* Step until seq has computed so many tokens. */
void rig_step_to(struct rig *rig, const struct gp_seq *seq, uint32_t computed);

/* Rows of seq in the current plan. */
uint32_t rig_rows(const struct rig *rig, const struct gp_seq *seq);
void rig_end(struct rig *rig, struct gp_seq *seq);

#endif
