/* What eval and analyze ask, and whom. */
#ifndef GP_CLI_EXAM_H
#define GP_CLI_EXAM_H

#include "cli/settings.h"
#include "eval/exam.h"
#include "eval/runners.h"

/* The problems that the settings name; freed with gp_exam_free().  An unknown suite is told with
 * the one that it looks like. */
int gp_make_exam(struct gp_exam *exam, const struct gp_settings *settings, struct gp_error *err);

/* What runs the programs that answers are: that it can be done is tried before anybody is asked.
 * *out is NULL where no answer is a program; where some are, and --run-code was not given, it is a
 * usage error.  Anything but GP_EXIT_OK has been told. */
int gp_open_runners(struct gp_runners **out, const char *command,
                    const struct gp_settings *settings, const struct gp_exam *exam);

/* The model, which must have a chat template, and an engine.  Anything but GP_EXIT_OK has been
 * told, and nothing is open then. */
int gp_open_asked(struct gp_model **model, struct gp_engine **engine,
                  const struct gp_settings *settings, const struct gp_engine_options *options);

#endif
