/* Where an answer's result stands.  Knows no suite. */
#ifndef GP_EVAL_GRADE_H
#define GP_EVAL_GRADE_H

#include <stddef.h>

/* What the last complete \boxed{...} of text holds, inner braces paired; NULL: there is none. */
const char *gp_grade_boxed(const char *text, size_t length, size_t *boxed_length);

#endif
