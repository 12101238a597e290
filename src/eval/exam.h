/* An exam: which problems are asked, of which suites, how hard.  Question n is the same whenever
 * and in whatever order it is asked for.  Questions of several suites alternate: index 0 of each,
 * index 1 of each, ...
 *
 * Knows nothing of models and engines. */
#ifndef GP_EVAL_EXAM_H
#define GP_EVAL_EXAM_H

#include "eval/suite.h"

#define GP_EXAM_SUITES_MAX 32u

enum gp_exam_form {
    GP_EXAM_SHORT,
    GP_EXAM_LONG,
    GP_EXAM_MIXED, /* half of the indices are long, drawn by seed and index */
};

struct gp_exam {
    const struct gp_suite *suites[GP_EXAM_SUITES_MAX];
    uint32_t suite_count;
    uint32_t limit; /* problems of each suite */
    uint64_t seed;
    /* Each problem draws its own from here, to four decimals; low < 0: it is the suite's. */
    double difficulty_low, difficulty_high;
    enum gp_exam_form form;
};

struct gp_question {
    const struct gp_suite *suite;
    uint64_t index;
    double difficulty;
    enum gp_form form;
    struct gp_problem problem;
};

/* The suites of "NAME,NAME" into exam; "all" is every one that is no warm-up. */
int gp_exam_choose(struct gp_exam *exam, const char *names, struct gp_error *err);

/* suite_count * limit */
uint64_t gp_exam_count(const struct gp_exam *exam);

/* GP_ENOMEM only. */
int gp_exam_question(const struct gp_exam *exam, uint64_t n, struct gp_question *out,
                     struct gp_error *err);
void gp_question_free(struct gp_question *question);

/* "short", "long" */
const char *gp_form_name(enum gp_form form);

/* Question n to standard output, for people or as one JSON object on a line. */
int gp_question_print(const struct gp_question *question, uint64_t seed, bool json,
                      struct gp_error *err);

#endif
