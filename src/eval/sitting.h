/* A sitting: a model takes an exam, many problems at once, under one policy after another.
 *
 * Every problem is one user message.  What is drawn depends on the seed, the suite, the index and
 * the sample's number alone, so every policy is asked the same in the same way. */
#ifndef GP_EVAL_SITTING_H
#define GP_EVAL_SITTING_H

#include "eval/exam.h"
#include "eval/runners.h"
#include "growpage.h"

/* One answer, graded.  All of it is valid during the call that hands it over. */
struct gp_sample {
    const struct gp_question *question;
    uint32_t policy;  /* index */
    uint64_t request; /* the engine's id; released already when a program was run */
    const struct gp_request_stats *stats;
    double pages_mean;
    enum gp_finish finish;
    const struct gp_token *tokens; /* stats->output_tokens of them */
    const char *text;              /* valid UTF-8, zero-terminated */
    size_t text_length;
    const char *answer; /* what was taken for it, zero-terminated; NULL: nothing was */
    bool correct;
    const struct gp_trial *trial; /* of a program; NULL: none was run */
};

/* Where a sitting stands; all is of one policy. */
struct gp_sitting_state {
    uint32_t policy;
    uint64_t done, total, correct; /* with those that were there already */
    uint64_t asked;                /* answers that ended in this sitting */
    struct gp_run_figures run;     /* with answers that were dropped     */
    uint32_t pages_max;
};

struct gp_sitting {
    const struct gp_exam *exam;
    const struct gp_kv_options *policies;
    uint32_t policy_count;
    uint32_t concurrency; /* requests with the engine at once */
    bool ignore_eos;
    struct gp_sampling sampling; /* its seed is replaced for each sample               */
    const char *chat_variables;  /* see struct gp_chat                                 */
    /* Answers that are programs are held against their tests while others are generated, and are
     * complete when that is done; NULL: none is run, and none is right. */
    struct gp_runners *runners;

    /* Whether this answer is there already, and right; NULL: none is. */
    bool (*has)(void *ctx, uint32_t policy, const struct gp_exam_place *place, bool *correct);
    /* Adds to a request before it is submitted, perhaps more than once; NULL: nothing is added. */
    int (*asking)(void *ctx, const struct gp_question *question, struct gp_request *request,
                  struct gp_error *err);
    /* A sample is complete.  Anything but GP_OK ends the sitting, with err. */
    int (*finished)(void *ctx, const struct gp_sample *sample, struct gp_error *err);
    /* After each step; false ends the sitting, what is under way is dropped. */
    bool (*go_on)(void *ctx, const struct gp_sitting_state *state);
    /* A policy's answers are complete, or were ended; not called where nothing was asked. */
    int (*served)(void *ctx, const struct gp_sitting_state *state, struct gp_error *err);
    void *ctx;
};

/* The engine is the caller's, has nothing else to do, and this thread steps it.  Where it has no
 * room for `concurrency` requests, fewer are with it.  *complete: go_on never said no. */
int gp_sitting_run(const struct gp_sitting *sitting, struct gp_engine *engine,
                   const struct gp_model *model, bool *complete, struct gp_error *err);

#endif
