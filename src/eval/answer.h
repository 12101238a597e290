/* Answers: whether two texts, written as people, models and data sets write mathematics, say the
 * same.  Plain notation and LaTeX are read alike: numbers in any form, radicals, intervals, tuples,
 * sets, matrices, bases, complex numbers, expressions with letters, equations, words.
 *
 * What follows from arithmetic is decided by value; what cannot be read is compared sign by sign,
 * blanks and marks of layout aside.  docs/EVALUATION.md has the rules.
 *
 * Knows no suite, allocates nothing, and never fails: a text too long to be read is compared by its
 * bytes. */
#ifndef GP_EVAL_ANSWER_H
#define GP_EVAL_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

bool gp_answer_same(const char *a, size_t a_length, const char *b, size_t b_length);

#endif
