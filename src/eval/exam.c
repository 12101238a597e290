#include "eval/exam.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/rng.h"

/* Streams of their own, apart from whatever the problems themselves are drawn from. */
#define STREAM_DIFFICULTY 0x6469666669637574u
#define STREAM_FORM       0x666f726d666f726du

static int add_suite(struct gp_exam *exam, const struct gp_suite *suite, struct gp_error *err)
{
    for (uint32_t i = 0; i < exam->suite_count; i++)
        if (exam->suites[i] == suite)
            return gp_fail(err, GP_EINVAL, "%s: given twice", suite->name);
    gp_assert(exam->suite_count < GP_EXAM_SUITES_MAX);
    exam->suites[exam->suite_count++] = suite;
    return GP_OK;
}

static int add_name(struct gp_exam *exam, const char *name, struct gp_error *err)
{
    const struct gp_suite *suite = gp_suite_find(name);
    int rc = GP_OK;

    if (suite)
        return add_suite(exam, suite, err);
    if (strcmp(name, "all") != 0)
        return gp_fail(err, GP_EINVAL, "%s: unknown suite", name);
    for (uint32_t i = 0; !rc && (suite = gp_suite_at(i)); i++)
        if (!suite->warm_up)
            rc = add_suite(exam, suite, err);
    return rc;
}

int gp_exam_choose(struct gp_exam *exam, const char *names, struct gp_error *err)
{
    exam->suite_count = 0;
    for (;;) {
        size_t length = strcspn(names, ",");
        char name[64];

        if (length == 0)
            return gp_fail(err, GP_EINVAL, "an empty name of a suite");
        if (length >= sizeof name)
            return gp_fail(err, GP_EINVAL, "%.60s: unknown suite", names);
        memcpy(name, names, length);
        name[length] = 0;
        int rc = add_name(exam, name, err);
        if (rc)
            return rc;
        if (!names[length])
            return GP_OK;
        names += length + 1;
    }
}

uint64_t gp_exam_count(const struct gp_exam *exam)
{
    return (uint64_t)exam->suite_count * exam->limit;
}

/* To four decimals, so that what is printed asks for the same problem again. */
static double draw_difficulty(const struct gp_exam *exam, const struct gp_suite *suite,
                              uint64_t index)
{
    double low = exam->difficulty_low, high = exam->difficulty_high;

    if (low < 0)
        return suite->difficulty;
    if (low == high)
        return low;
    double drawn = low + (high - low) * gp_rng_uniform_at(exam->seed, STREAM_DIFFICULTY, index);
    return fmin(fmax(round(drawn * 1e4) / 1e4, low), high);
}

static enum gp_form draw_form(const struct gp_exam *exam, uint64_t index)
{
    if (exam->form == GP_EXAM_MIXED)
        return gp_rng_uniform_at(exam->seed, STREAM_FORM, index) < 0.5 ? GP_FORM_SHORT
                                                                       : GP_FORM_LONG;
    return exam->form == GP_EXAM_LONG ? GP_FORM_LONG : GP_FORM_SHORT;
}

int gp_exam_question(const struct gp_exam *exam, uint64_t n, struct gp_question *out,
                     struct gp_error *err)
{
    gp_assert(n < gp_exam_count(exam));
    struct gp_question q = {
        .suite = exam->suites[n % exam->suite_count],
        .index = n / exam->suite_count,
    };
    q.difficulty = draw_difficulty(exam, q.suite, q.index);
    q.form = draw_form(exam, q.index);
    int rc = gp_problem_make(q.suite, exam->seed, q.index, q.difficulty, q.form, &q.problem, err);
    if (rc)
        return rc;
    *out = q;
    return GP_OK;
}

void gp_question_free(struct gp_question *question)
{
    gp_problem_free(&question->problem);
}

const char *gp_form_name(enum gp_form form)
{
    return form == GP_FORM_LONG ? "long" : "short";
}
