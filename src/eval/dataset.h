/* Data sets: problems of a JSON-lines file, one object a line.
 *
 *   question, answer with "#### N" in it     GSM8K: the last number counts
 *   problem or question, answer              MATH500, AMC23, AIME24: the last box counts
 *   question_content, ...                    LiveCodeBench: refused, its tests run programs
 *
 * What stands on a line beside these is left alone.  Knows nothing of models and engines. */
#ifndef GP_EVAL_DATASET_H
#define GP_EVAL_DATASET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define GP_DATASET_NAME_BYTES 64u

enum gp_dataset_kind {
    GP_DATASET_NUMBER, /* the answer is in a box, or the last number */
    GP_DATASET_BOX,
};

struct gp_dataset_item {
    char *prompt; /* as a model is asked, instruction included */
    char *answer; /* the right one                             */
    enum gp_dataset_kind kind;
};

struct gp_dataset {
    char name[GP_DATASET_NAME_BYTES]; /* the file's, without folders and ending */
    struct gp_dataset_item *items;
    uint32_t count, room;
};

/* Whether a word of --suite names a file. */
bool gp_dataset_is_path(const char *word, size_t length);

/* The name of the data set in a file; what is too long is cut. */
void gp_dataset_name(const char *path, size_t length, char out[GP_DATASET_NAME_BYTES]);

/* Errors name the file and the line. */
int gp_dataset_open(struct gp_dataset **out, const char *path, struct gp_error *err);
void gp_dataset_close(struct gp_dataset *dataset); /* NULL is fine */

#endif
