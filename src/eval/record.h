/* The record of a sitting: JSON lines.  The first is the run, then one a sample as they end, the
 * last is the end.  Their keys are described in growpage(1). */
#ifndef GP_EVAL_RECORD_H
#define GP_EVAL_RECORD_H

#include "eval/sitting.h"

struct gp_record;

/* What the first line is made of. */
struct gp_record_run {
    const struct gp_sitting *sitting;
    const struct gp_engine *engine;
    const struct gp_model *model;
    const char *model_path;
    const char (*policies)[64]; /* their names */
};

/* Write the first line of a new file, over what was there. */
int gp_record_open(struct gp_record **out, const char *path, struct gp_error *err);
int gp_record_run(struct gp_record *record, const struct gp_record_run *run, struct gp_error *err);
int gp_record_sample(struct gp_record *record, const struct gp_record_run *run,
                     const struct gp_sample *sample, struct gp_error *err);
int gp_record_end(struct gp_record *record, uint64_t samples, uint64_t output_tokens,
                  uint64_t wall_ns, bool complete, struct gp_error *err);
/* Whether all of it has arrived; err may be NULL, and so may record. */
int gp_record_close(struct gp_record *record, struct gp_error *err);

#endif
