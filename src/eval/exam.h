/* An exam: which problems are asked, of which suites and data sets, how hard, how often.  What the
 * nth answer is to is the same whenever and in whatever order it is asked for.  Problems of several
 * parts alternate: index 0 of each, index 1 of each, ..., all answers to one beside each other.
 *
 * Knows nothing of models and engines. */
#ifndef GP_EVAL_EXAM_H
#define GP_EVAL_EXAM_H

#include "eval/dataset.h"
#include "eval/preset.h"
#include "eval/suite.h"

#define GP_EXAM_PARTS_MAX 32u

enum gp_exam_form {
    GP_EXAM_SHORT,
    GP_EXAM_LONG,
    GP_EXAM_MIXED, /* half of the indices are long, drawn by seed and index */
};

/* A suite, or a data set. */
struct gp_exam_part {
    const char *name;
    const struct gp_suite *suite; /* NULL: a data set's              */
    struct gp_dataset *dataset;   /* NULL: a suite's; the exam's own */
    enum gp_exam_form form;
    uint32_t count;      /* problems                                     */
    uint32_t samples;    /* answers to each                              */
    uint32_t max_tokens; /* of an answer; 0: to the end of the context   */
};

struct gp_exam {
    struct gp_exam_part parts[GP_EXAM_PARTS_MAX];
    uint32_t part_count;

    /* To be set before gp_exam_choose(). */
    uint32_t limit;   /* problems of each part; 0: 100 of a suite, all of a data set */
    uint32_t samples; /* of each problem, and max_tokens of each, where no preset rules; 0: one */
    uint32_t max_tokens;
    enum gp_preset_table preset;
    uint64_t seed;
    /* Each problem of a suite draws its own from here, to four decimals; low < 0: it is the
     * suite's. */
    double difficulty_low, difficulty_high;
    enum gp_exam_form form;
};

/* Whose answer is asked for. */
struct gp_exam_place {
    uint32_t part;
    uint32_t number; /* of the answers to the problem */
    uint64_t index;  /* of the problem                */
};

struct gp_question {
    const struct gp_exam_part *part;
    uint64_t n; /* as it was asked for */
    uint64_t index;
    uint32_t number;
    double difficulty; /* these two of suites alone */
    enum gp_form form;
    struct gp_problem problem;
};

/* The parts of "NAME|FILE,...": suites and files of problems.  "all" is every suite that is no
 * warm-up, "mixed" the same with long problems among the short ones.  Freed with gp_exam_free(),
 * also after an error. */
int gp_exam_choose(struct gp_exam *exam, const char *names, struct gp_error *err);
void gp_exam_free(struct gp_exam *exam);

/* The first part that has answers which are programs; NULL: none has. */
const struct gp_exam_part *gp_exam_programs(const struct gp_exam *exam);

/* Answers that are asked for, and what the nth of them is to. */
uint64_t gp_exam_count(const struct gp_exam *exam);
struct gp_exam_place gp_exam_place(const struct gp_exam *exam, uint64_t n);

/* GP_ENOMEM only. */
int gp_exam_question(const struct gp_exam *exam, uint64_t n, struct gp_question *out,
                     struct gp_error *err);
void gp_question_free(struct gp_question *question);

/* "short", "long" */
const char *gp_form_name(enum gp_form form);

/* A question to standard output, for people or as one JSON object on a line. */
int gp_question_print(const struct gp_question *question, uint64_t seed, bool json,
                      struct gp_error *err);

#endif
