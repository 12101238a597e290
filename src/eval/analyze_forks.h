/* Answers of a full cache, replayed, with two forks at each boundary.  The analyses' own. */
#ifndef GP_EVAL_ANALYZE_FORKS_H
#define GP_EVAL_ANALYZE_FORKS_H

#include "eval/analyze_kinds.h"

struct gp_reference {
    const struct gp_exam_part *part;
    uint64_t index;
    uint32_t number;
    int32_t *prompt, *output;
    uint32_t prompt_count, output_count;
};

struct gp_references {
    struct gp_reference *items; /* in the exam's order */
    uint64_t count;
    const struct gp_analysis *analysis;
};

/* Asks the exam; freed with gp_references_free(), also after an error. */
int gp_references_run(struct gp_references *references, const struct gp_analysis *analysis,
                      bool *complete, struct gp_error *err);
void gp_references_free(struct gp_references *references);

/* What became of one boundary. */
struct gp_split_result {
    uint64_t reference;
    uint32_t tokens; /* at the boundary */
    uint32_t scored; /* tokens behind it, of which the means are */
    double nll[2];
    struct gp_boundary_event event; /* of the second fork */
};

typedef int gp_split_taken(void *ctx, const struct gp_split_result *result, struct gp_error *err);

/* Replays them, as many at once as the sitting says, with two forks at each boundary, that take an
 * action each; at later boundaries both grow.  Results come as forks end. */
int gp_references_split(const struct gp_references *references, const enum gp_action actions[2],
                        gp_split_taken *taken, void *ctx, bool *complete, struct gp_error *err);

#endif
