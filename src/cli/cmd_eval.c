/* growpage eval: problems made from a seed, asked of a model under one policy after another. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/io.h"
#include "eval/exam.h"

/* The suite's name that a wrong one looks like, for the message. */
static void suggest_suite(const char *names, struct gp_error *err)
{
    const struct gp_suite *suite;

    for (size_t length; *names; names += length + (names[length] == ',')) {
        char word[64];

        length = strcspn(names, ",");
        snprintf(word, sizeof word, "%.*s", (int)length, names);
        if (gp_suite_find(word) || strcmp(word, "all") == 0)
            continue;
        uint32_t best = gp_nearest_limit(word);
        const char *near = NULL;
        for (uint32_t i = 0; (suite = gp_suite_at(i)); i++) {
            size_t near_length;
            const char *found = gp_nearest(word, suite->name, &best, &near_length);
            near = found ? found : near;
        }
        if (near)
            gp_error_set(err, "%s: unknown suite; did you mean %s?", word, near);
        return;
    }
}

static int make_exam(const struct gp_settings *s, struct gp_exam *exam, struct gp_error *err)
{
    *exam = (struct gp_exam){
        .limit = s->limit,
        .seed = (uint64_t)s->seed,
        .difficulty_low = s->difficulty.low,
        .difficulty_high = s->difficulty.high,
        .form = (enum gp_exam_form)s->form,
    };
    int rc = gp_exam_choose(exam, s->suites, err);
    if (rc) {
        suggest_suite(s->suites, err);
        gp_error_prefix(err, "--suite");
    }
    return rc;
}

static int print_exam(const struct gp_exam *exam, bool json, struct gp_error *err)
{
    uint64_t count = gp_exam_count(exam);
    int rc = GP_OK;

    for (uint64_t n = 0; !rc && n < count; n++) {
        struct gp_question question;

        rc = gp_exam_question(exam, n, &question, err);
        if (rc)
            return rc;
        rc = gp_question_print(&question, exam->seed, json, err);
        gp_question_free(&question);
    }
    return rc ? rc : gp_print_end(err);
}

int gp_cmd_eval(struct gp_settings *s)
{
    struct gp_exam exam;
    struct gp_error err;

    if (make_exam(s, &exam, &err))
        return gp_tell(GP_EXIT_USAGE, &err);
    if (!s->print) {
        gp_error_set(&err, "eval: only --print is available yet");
        return gp_tell(GP_EXIT_USAGE, &err);
    }
    return print_exam(&exam, s->json, &err) ? gp_tell(GP_EXIT_FAILED, &err) : GP_EXIT_OK;
}
