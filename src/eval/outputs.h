/* Whether a program said what it should, by LiveCodeBench's rules. */
#ifndef GP_EVAL_OUTPUTS_H
#define GP_EVAL_OUTPUTS_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

/* What programs write: line by line, blanks around the text and around each line aside.  Two lines
 * are the same when their characters are, or when all words of both are decimal numbers of the same
 * values, exactly and of any length: 7, 7.0, 70e-1. */
bool gp_output_same(const char *a, size_t a_length, const char *b, size_t b_length);

/* What functions return: values of JSON.  As in Python, numbers are compared by value, whatever
 * their types, true and false are 1 and 0, and floating-point ones must agree to the last bit. */
bool gp_value_same(const json_t *a, const json_t *b);

/* One value of JSON; whole numbers too large for 64 bits are read as floating-point.  NULL, and
 * *why. */
json_t *gp_value_read(const char *text, size_t length, json_error_t *why);

#endif
