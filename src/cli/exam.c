#include "cli/exam.h"

#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/io.h"

/* The suite's name that a wrong one looks like, for the message. */
static void suggest_suite(const char *names, struct gp_error *err)
{
    const struct gp_suite *suite;

    for (size_t length; *names; names += length + (names[length] == ',')) {
        char word[64];

        length = strcspn(names, ",");
        snprintf(word, sizeof word, "%.*s", (int)length, names);
        if (gp_suite_find(word) || strcmp(word, "all") == 0 || strcmp(word, "mixed") == 0 ||
            gp_dataset_is_path(names, length))
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

int gp_make_exam(struct gp_exam *exam, const struct gp_settings *s, struct gp_error *err)
{
    *exam = (struct gp_exam){
        .limit = s->limit,
        .samples = s->samples,
        .max_tokens = s->max_tokens < 0 ? 0 : (uint32_t)s->max_tokens,
        .preset = (enum gp_preset_table)s->preset,
        .seed = (uint64_t)s->seed,
        .difficulty_low = s->difficulty.low,
        .difficulty_high = s->difficulty.high,
        .form = (enum gp_exam_form)s->form,
    };
    int rc = gp_exam_choose(exam, s->suites, err);
    if (rc) {
        gp_exam_free(exam);
        suggest_suite(s->suites, err);
        gp_error_prefix(err, "--suite");
    }
    return rc;
}

int gp_open_runners(struct gp_runners **out, const char *command, const struct gp_settings *s,
                    const struct gp_exam *exam)
{
    const struct gp_exam_part *part = gp_exam_programs(exam);
    struct gp_error err;

    *out = NULL;
    if (!part)
        return GP_EXIT_OK;
    if (!s->run_code) {
        gp_error_set(&err,
                     "%s: --suite: %s: its answers are programs; give --run-code to run them in a "
                     "sandbox",
                     command, part->name);
        return gp_tell(GP_EXIT_USAGE, &err);
    }
    int rc = gp_sandbox_check(&s->run, &err);
    if (!rc)
        rc = gp_runners_open(out, &s->run, &err);
    if (!rc)
        return GP_EXIT_OK;
    gp_error_prefix(&err, "%s: --run-code", command);
    return gp_tell(GP_EXIT_FAILED, &err);
}

int gp_open_asked(struct gp_model **model, struct gp_engine **engine, const struct gp_settings *s,
                  const struct gp_engine_options *options)
{
    struct gp_model_info info;
    struct gp_model *opened;
    struct gp_error err;

    if (gp_open_model(&opened, s, false, &err))
        return gp_tell(GP_EXIT_FAILED, &err);
    gp_model_info(opened, &info);
    if (!info.has_template) {
        gp_error_set(&err, "%s: no chat template, which problems need; give --chat-template-file",
                     s->model_path);
        gp_model_close(opened);
        return gp_tell(GP_EXIT_FAILED, &err);
    }
    /* The engine's refusal of its options is a usage error; all else is a failure. */
    int rc = gp_engine_open(engine, opened, options, &err);
    if (rc) {
        gp_model_close(opened);
        return gp_tell(rc == GP_EINVAL ? GP_EXIT_USAGE : GP_EXIT_FAILED, &err);
    }
    *model = opened;
    return GP_EXIT_OK;
}
