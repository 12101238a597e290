/* LiveCodeBench's problems, as they are published: a JSON object with question_content,
 * starter_code, public_test_cases, private_test_cases and metadata.  Every test gives an input and
 * the output that is right; a program is right when it passes all of them, public and private. */
#ifndef GP_EVAL_LIVECODE_H
#define GP_EVAL_LIVECODE_H

#include <stddef.h>

#include <jansson.h>

#include "base/error.h"

struct gp_livecode {
    json_t *cases;  /* of "input" and "output", both strings; at least one */
    char *function; /* gives each output to an input's lines, as JSON; NULL: the program itself
                     * does, from standard input to standard output */
};

/* What a model is asked; gp_mem_free().  GP_ECORRUPT names the field that is wrong or missing. */
int gp_livecode_prompt(const json_t *problem, char **out, struct gp_error *err);

/* The tests, unpacked and checked; freed with gp_livecode_free(). */
int gp_livecode_read(const json_t *problem, struct gp_livecode *out, struct gp_error *err);
void gp_livecode_free(struct gp_livecode *tests);

#endif
