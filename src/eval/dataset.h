/* Data sets: problems of a JSON-lines file, one object a line.
 *
 *   question, answer with "#### N" in it     GSM8K: the last number counts
 *   problem or question, answer              MATH500, AMC23, AIME24: the last box counts
 *   question_content, starter_code,          LiveCodeBench: the last block of code counts, which
 *     public_test_cases, ...                 is run on tests (livecode.h)
 *
 * What stands on a line beside these is left alone.  Knows nothing of models and engines. */
#ifndef GP_EVAL_DATASET_H
#define GP_EVAL_DATASET_H

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

#include "base/error.h"
#include "eval/livecode.h"

#define GP_DATASET_NAME_BYTES 64u

enum gp_dataset_kind {
    GP_DATASET_NUMBER, /* the answer is in a box, or the last number */
    GP_DATASET_BOX,
    GP_DATASET_PROGRAM, /* the answer is a program, see gp_dataset_tests() */
};

struct gp_dataset_item {
    char *prompt; /* as a model is asked, instruction included */
    char *answer; /* the right one; of a program, what it is held against, in words */
    enum gp_dataset_kind kind;
    off_t at; /* its line in the file, for a program */
    size_t length;
    uint64_t hash;
};

struct gp_dataset {
    char name[GP_DATASET_NAME_BYTES]; /* the file's, without folders and ending */
    char *path;
    struct gp_dataset_item *items;
    uint32_t count, room;
    bool programs; /* answers to some of its problems are programs */
};

/* Whether a word of --suite names a file. */
bool gp_dataset_is_path(const char *word, size_t length);

/* The name of the data set in a file; what is too long is cut. */
void gp_dataset_name(const char *path, size_t length, char out[GP_DATASET_NAME_BYTES]);

/* The first `limit` problems of a file; 0: all.  Errors name the file and the line. */
int gp_dataset_open(struct gp_dataset **out, const char *path, uint32_t limit,
                    struct gp_error *err);
void gp_dataset_close(struct gp_dataset *dataset); /* NULL is fine */

/* The tests of a problem whose answer is a program, read again from the file, for they are large;
 * freed with gp_livecode_free().  Any thread.  GP_ECORRUPT: the file is not what it was. */
int gp_dataset_tests(const struct gp_dataset *dataset, uint64_t index, struct gp_livecode *out,
                     struct gp_error *err);

#endif
