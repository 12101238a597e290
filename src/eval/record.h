/* The record of a sitting: JSON lines.  The first is the run, then one a sample as they end, one
 * for each policy that was served, and the end of the sitting.  growpage(1) describes their keys.
 *
 * A file that is there already is gone on with: what it holds is not asked again, and what a killed
 * program had half written is cut off.  One that another run began with other settings is refused,
 * and so is one that somebody else is writing to. */
#ifndef GP_EVAL_RECORD_H
#define GP_EVAL_RECORD_H

#include "eval/figures.h"
#include "eval/sitting.h"

struct gp_record;

/* What the first line is made of. */
struct gp_record_run {
    const struct gp_sitting *sitting;
    const struct gp_engine *engine;
    const struct gp_engine_options *options; /* those the engine was opened with */
    const struct gp_model *model;
    const char *model_path;
    const char (*policies)[64]; /* their names */
};

/* That line; NULL and err. */
json_t *gp_record_run_line(const struct gp_record_run *run, struct gp_error *err);

/* earlier() is called with each sample that is there. */
int gp_record_open(struct gp_record **out, const char *path, const struct gp_record_run *run,
                   void (*earlier)(void *ctx, const struct gp_figures *figures), void *ctx,
                   struct gp_error *err);
/* Whether an answer was there when the file was opened; see struct gp_sitting. */
bool gp_record_has(const struct gp_record *record, uint32_t policy,
                   const struct gp_exam_place *place, bool *correct);

int gp_record_sample(struct gp_record *record, const struct gp_record_run *run,
                     const struct gp_sample *sample, struct gp_error *err);
int gp_record_served(struct gp_record *record, const struct gp_record_run *run,
                     const struct gp_sitting_state *state, struct gp_error *err);
int gp_record_end(struct gp_record *record, uint64_t samples, uint64_t output_tokens,
                  uint64_t wall_ns, bool complete, struct gp_error *err);
/* Whether all of it has arrived; err may be NULL, and so may record. */
int gp_record_close(struct gp_record *record, struct gp_error *err);

/* The figures of a sample under a policy of this name. */
struct gp_figures gp_sample_figures(const struct gp_sample *sample, const char *policy);

#endif
