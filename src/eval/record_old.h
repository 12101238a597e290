/* What a record holds from an earlier sitting.  The record's own; see record.h. */
#ifndef GP_EVAL_RECORD_OLD_H
#define GP_EVAL_RECORD_OLD_H

#include <stdio.h>

#include "eval/exam.h"
#include "eval/figures.h"

/* An answer that is there. */
struct gp_record_key {
    uint32_t policy;
    struct gp_exam_place place;
    bool correct;
};

struct gp_record_old {
    struct gp_record_key *keys; /* in order */
    size_t count, room;
    off_t bytes; /* of its whole lines */
};

struct gp_record_reader {
    const struct gp_exam *exam;
    const char (*policies)[64];
    uint32_t policy_count;
    const json_t *run; /* the first line as it would be written now */
    void (*earlier)(void *ctx, const struct gp_figures *figures);
    void *ctx;
};

/* Read a file from its start; freed with gp_record_old_free(), also after an error. */
int gp_record_old_read(struct gp_record_old *old, FILE *file, const struct gp_record_reader *reader,
                       struct gp_error *err);
void gp_record_old_free(struct gp_record_old *old);

bool gp_record_old_has(const struct gp_record_old *old, uint32_t policy,
                       const struct gp_exam_place *place, bool *correct);

#endif
