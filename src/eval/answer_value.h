/* Whether two values are equal.
 *
 * Where only arithmetic of rational numbers, the imaginary unit and letters is asked for, both
 * sides are evaluated in the field of integers modulo a prime, at random values of the letters:
 * equal polynomials agree everywhere, others hardly anywhere, and numbers may be as long as they
 * like.  Where there are roots and functions, both are evaluated in long double at several
 * points. */
#ifndef GP_EVAL_ANSWER_VALUE_H
#define GP_EVAL_ANSWER_VALUE_H

#include "eval/answer_tree.h"

/* A node of a tree, and which of the signs is meant where it has both. */
struct gp_answer_value {
    const struct gp_answer_tree *tree;
    uint16_t node;
    bool lower_sign;
};

enum gp_answer_verdict {
    GP_ANSWER_DIFFER,
    GP_ANSWER_SAME,
    GP_ANSWER_UNDECIDED, /* one of them has no value */
};

enum gp_answer_verdict gp_answer_value_compare(struct gp_answer_value a, struct gp_answer_value b);

/* Whether left - right of two equations are multiples of each other by a number. */
enum gp_answer_verdict gp_answer_value_compare_zeros(const struct gp_answer_value a[2],
                                                     const struct gp_answer_value b[2]);

#endif
