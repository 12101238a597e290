#include "eval/judge.h"

#include <string.h>

#include "base/mem.h"
#include "eval/answer.h"
#include "eval/grade.h"

static const struct gp_dataset_item *item_of(const struct gp_question *question)
{
    return &question->part->dataset->items[question->index];
}

static enum gp_dataset_kind kind_of(const struct gp_question *question)
{
    return question->part->dataset ? item_of(question)->kind : GP_DATASET_BOX;
}

static const char *find_answer(const struct gp_question *question, const char *text, size_t length,
                               size_t *answer_length)
{
    enum gp_dataset_kind kind = kind_of(question);

    if (kind == GP_DATASET_PROGRAM)
        return gp_grade_program(text, length, answer_length);
    const char *answer = gp_grade_boxed(text, length, answer_length);
    if (!answer && kind == GP_DATASET_NUMBER)
        answer = gp_grade_last_number(text, length, answer_length);
    return answer;
}

static bool check(const struct gp_question *question, const char *answer)
{
    if (!question->part->dataset)
        return question->part->suite->check(question->problem.prompt, answer);
    const char *right = question->problem.answer;
    return gp_answer_same(answer, strlen(answer), right, strlen(right));
}

int gp_judge(const struct gp_question *question, const char *text, size_t length,
             struct gp_verdict *out, struct gp_error *err)
{
    struct gp_verdict verdict = {0};
    size_t answer_length;
    const char *found = find_answer(question, text, length, &answer_length);

    if (found) {
        verdict.answer = gp_mem_copy(found, answer_length);
        if (!verdict.answer)
            return gp_fail(err, GP_ENOMEM, "answer: out of memory");
        /* A zero byte within is no part of a right answer. */
        bool whole = strlen(verdict.answer) == answer_length;
        verdict.program = kind_of(question) == GP_DATASET_PROGRAM && whole;
        verdict.correct = !verdict.program && whole && check(question, verdict.answer);
    }
    *out = verdict;
    return GP_OK;
}
