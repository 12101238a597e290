/* The suites: families of small problems whose demand for memory differs between problems and moves
 * within one.  A problem is a line of text, a thought that leads to the answer step by step, and
 * the answer.  Models are trained on all three and graded on the answer alone.
 *
 * Formats decide what a small model can learn: a name is a single lower-case letter and is always
 * followed directly by its value (a12), whoever refers to a name without its value writes it in
 * upper case (C=A+B), and whatever is worked on is restated before it is.  README.md has an example
 * of each.
 *
 * Knows nothing of models and engines. */
#ifndef GP_EVAL_SUITE_H
#define GP_EVAL_SUITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum gp_form {
    GP_FORM_SHORT,
    GP_FORM_LONG, /* larger problems and a second way to the result: 1,000 to 4,000 tokens */
};

/* Zero-terminated texts, one token a byte for the bundled model; gp_problem_free() frees them. */
struct gp_problem {
    char *prompt;  /* what is asked                                          */
    char *thought; /* what goes between <think> and </think>                 */
    char *answer;  /* what goes into \boxed{}                                */
    /* The working set: the share of the bytes so far that a later byte of thought or answer still
     * has to be read from, each value being read from where it was last written.  Mean and largest
     * value over the bytes of the thought. */
    double live_mean, live_peak;
};

struct gp_suite {
    const char *name;
    const char *summary;
    double difficulty; /* the default, in [0, 1]; 1 is the hardest there is */
    bool warm_up;      /* for training only: copying and looking up         */
    /* Write the problem for these numbers; out is zeroed before.  GP_ENOMEM only. */
    int (*make)(uint64_t seed, double difficulty, enum gp_form form, struct gp_problem *out);
    /* Is this what prompt asks for?  Works from the text alone and shares no code with make();
     * false, too, for a prompt that is none of this suite's. */
    bool (*check)(const char *prompt, const char *answer);
};

/* The suites in their order; NULL past the last. */
const struct gp_suite *gp_suite_at(uint32_t index);
/* NULL when there is none of that name. */
const struct gp_suite *gp_suite_find(const char *name);

/* Problem `index` of a suite under `seed`: the same on every machine, independent of the others.
 * difficulty in [0, 1]. */
int gp_problem_make(const struct gp_suite *suite, uint64_t seed, uint64_t index, double difficulty,
                    enum gp_form form, struct gp_problem *out, struct gp_error *err);
void gp_problem_free(struct gp_problem *problem);

/* The checkers, a function a suite (check_*.c). */
bool gp_check_sum(const char *prompt, const char *answer);
bool gp_check_mul(const char *prompt, const char *answer);
bool gp_check_prog(const char *prompt, const char *answer);
bool gp_check_sort(const char *prompt, const char *answer);
bool gp_check_phase(const char *prompt, const char *answer);
bool gp_check_walk(const char *prompt, const char *answer);
bool gp_check_find(const char *prompt, const char *answer);
bool gp_check_copy(const char *prompt, const char *answer);
bool gp_check_look(const char *prompt, const char *answer);

#endif
