/* Where an answer's result stands.  Knows no suite. */
#ifndef GP_EVAL_GRADE_H
#define GP_EVAL_GRADE_H

#include <stddef.h>

/* What the last complete \boxed{...} of text holds, inner braces paired; NULL: there is none. */
const char *gp_grade_boxed(const char *text, size_t length, size_t *boxed_length);

/* The last number of text: digits with commas and a point among them, and a minus sign that belongs
 * to them; NULL: there is none. */
const char *gp_grade_last_number(const char *text, size_t length, size_t *number_length);

/* The last fenced block of code: what stands between the last two lines that have three backticks
 * in them; NULL: there are no two. */
const char *gp_grade_program(const char *text, size_t length, size_t *program_length);

#endif
