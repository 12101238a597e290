#include "eval/exam.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/rng.h"

#define SUITE_LIMIT 100u

/* Streams of their own, apart from whatever the problems themselves are drawn from. */
#define STREAM_DIFFICULTY 0x6469666669637574u
#define STREAM_FORM       0x666f726d666f726du

/* ---- choosing ---- */

/* Takes the part, data set and all, unless it fails. */
static int add_part(struct gp_exam *exam, struct gp_exam_part part, struct gp_error *err)
{
    const struct gp_preset *preset;

    for (uint32_t i = 0; i < exam->part_count; i++)
        if (strcmp(exam->parts[i].name, part.name) == 0)
            return gp_fail(err, GP_EINVAL, "%s: given twice", part.name);
    if (exam->part_count == GP_EXAM_PARTS_MAX)
        return gp_fail(err, GP_EINVAL, "%s: more than %u of them", part.name, GP_EXAM_PARTS_MAX);
    part.samples = exam->samples ? exam->samples : 1;
    part.max_tokens = exam->max_tokens;
    if (exam->preset != GP_PRESET_NONE) {
        int rc = gp_preset_find(exam->preset, part.name, &preset, err);
        if (rc)
            return rc;
        part.samples = preset->samples;
        part.max_tokens = preset->max_tokens;
    }
    if (part.count == 0 || (exam->limit && exam->limit < part.count))
        part.count = exam->limit;
    exam->parts[exam->part_count++] = part;
    return GP_OK;
}

static int add_suite(struct gp_exam *exam, const struct gp_suite *suite, enum gp_exam_form form,
                     struct gp_error *err)
{
    return add_part(exam,
                    (struct gp_exam_part){
                        .name = suite->name,
                        .suite = suite,
                        .form = form,
                        .count = exam->limit ? 0 : SUITE_LIMIT,
                    },
                    err);
}

static int add_suites(struct gp_exam *exam, enum gp_exam_form form, struct gp_error *err)
{
    const struct gp_suite *suite;
    int rc = GP_OK;

    for (uint32_t i = 0; !rc && (suite = gp_suite_at(i)); i++)
        if (!suite->warm_up)
            rc = add_suite(exam, suite, form, err);
    return rc;
}

static int add_file(struct gp_exam *exam, const char *path, struct gp_error *err)
{
    struct gp_dataset *dataset;
    int rc = gp_dataset_open(&dataset, path, exam->limit, err);

    if (rc)
        return rc;
    struct gp_exam_part part = {
        .name = dataset->name,
        .dataset = dataset,
        .count = dataset->count,
    };
    rc = add_part(exam, part, err);
    if (rc)
        gp_dataset_close(dataset);
    return rc;
}

static int add_name(struct gp_exam *exam, const char *name, struct gp_error *err)
{
    const struct gp_suite *suite = gp_suite_find(name);

    if (gp_dataset_is_path(name, strlen(name)))
        return add_file(exam, name, err);
    if (suite)
        return add_suite(exam, suite, exam->form, err);
    if (strcmp(name, "all") == 0)
        return add_suites(exam, exam->form, err);
    if (strcmp(name, "mixed") == 0)
        return add_suites(exam, GP_EXAM_MIXED, err);
    return gp_fail(err, GP_EINVAL, "%.60s: unknown suite", name);
}

int gp_exam_choose(struct gp_exam *exam, const char *names, struct gp_error *err)
{
    exam->part_count = 0;
    for (;;) {
        size_t length = strcspn(names, ",");

        if (length == 0)
            return gp_fail(err, GP_EINVAL, "an empty name of a suite");
        char *name = gp_mem_copy(names, length);
        if (!name)
            return gp_fail(err, GP_ENOMEM, "out of memory");
        int rc = add_name(exam, name, err);
        gp_mem_free(name);
        if (rc)
            return rc;
        if (!names[length])
            return GP_OK;
        names += length + 1;
    }
}

void gp_exam_free(struct gp_exam *exam)
{
    for (uint32_t i = 0; i < exam->part_count; i++)
        gp_dataset_close(exam->parts[i].dataset);
    exam->part_count = 0;
}

const struct gp_exam_part *gp_exam_programs(const struct gp_exam *exam)
{
    for (uint32_t i = 0; i < exam->part_count; i++)
        if (exam->parts[i].dataset && exam->parts[i].dataset->programs)
            return &exam->parts[i];
    return NULL;
}

/* ---- places ---- */

uint64_t gp_exam_count(const struct gp_exam *exam)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < exam->part_count; i++)
        count += (uint64_t)exam->parts[i].count * exam->parts[i].samples;
    return count;
}

/* The answers to one index of every part that has it; *end is the next index that fewer have. */
static uint64_t count_round(const struct gp_exam *exam, uint64_t index, uint64_t *end)
{
    uint64_t samples = 0;

    *end = UINT64_MAX;
    for (uint32_t i = 0; i < exam->part_count; i++) {
        const struct gp_exam_part *part = &exam->parts[i];
        if (part->count <= index)
            continue;
        samples += part->samples;
        *end = part->count < *end ? part->count : *end;
    }
    return samples;
}

struct gp_exam_place gp_exam_place(const struct gp_exam *exam, uint64_t n)
{
    uint64_t index = 0, end, each;

    gp_assert(n < gp_exam_count(exam));
    while ((each = count_round(exam, index, &end)) * (end - index) <= n) {
        n -= each * (end - index);
        index = end;
    }
    struct gp_exam_place place = {.index = index + n / each};
    n %= each;
    for (;; place.part++) {
        const struct gp_exam_part *part = &exam->parts[place.part];
        if (part->count <= place.index)
            continue;
        if (n < part->samples)
            break;
        n -= part->samples;
    }
    place.number = (uint32_t)n;
    return place;
}

/* ---- questions ---- */

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

static enum gp_form draw_form(const struct gp_exam *exam, enum gp_exam_form form, uint64_t index)
{
    if (form == GP_EXAM_MIXED)
        return gp_rng_uniform_at(exam->seed, STREAM_FORM, index) < 0.5 ? GP_FORM_SHORT
                                                                       : GP_FORM_LONG;
    return form == GP_EXAM_LONG ? GP_FORM_LONG : GP_FORM_SHORT;
}

static int copy_item(const struct gp_dataset_item *item, struct gp_problem *out,
                     struct gp_error *err)
{
    struct gp_problem problem = {
        .prompt = gp_mem_copy(item->prompt, strlen(item->prompt)),
        .answer = gp_mem_copy(item->answer, strlen(item->answer)),
    };

    if (!problem.prompt || !problem.answer) {
        gp_problem_free(&problem);
        return gp_fail(err, GP_ENOMEM, "problem: out of memory");
    }
    *out = problem;
    return GP_OK;
}

int gp_exam_question(const struct gp_exam *exam, uint64_t n, struct gp_question *out,
                     struct gp_error *err)
{
    struct gp_exam_place place = gp_exam_place(exam, n);
    const struct gp_exam_part *part = &exam->parts[place.part];
    struct gp_question q = {.part = part, .n = n, .index = place.index, .number = place.number};
    int rc;

    if (part->dataset) {
        rc = copy_item(&part->dataset->items[q.index], &q.problem, err);
    } else {
        q.difficulty = draw_difficulty(exam, part->suite, q.index);
        q.form = draw_form(exam, part->form, q.index);
        rc = gp_problem_make(part->suite, exam->seed, q.index, q.difficulty, q.form, &q.problem,
                             err);
    }
    if (!rc)
        *out = q;
    return rc;
}

void gp_question_free(struct gp_question *question)
{
    gp_problem_free(&question->problem);
}

const char *gp_form_name(enum gp_form form)
{
    return form == GP_FORM_LONG ? "long" : "short";
}
