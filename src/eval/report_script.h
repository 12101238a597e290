/* Scripts for gnuplot that grow, and become figures of a report.  The report's own; see
 * report.h. */
#ifndef GP_EVAL_REPORT_SCRIPT_H
#define GP_EVAL_REPORT_SCRIPT_H

#include "eval/report_parts.h"

struct gp_script {
    FILE *stream; /* what did not fit into memory fails when it is drawn */
    char *text;
    size_t length;
};

/* Readable on white and on black: "#rrggbb", the nth of a few, again and again. */
const char *gp_script_colour(size_t n);

/* A picture of this height; its name makes the ids in it, and must be the only one on its page.
 * Ends with gp_script_draw() or gp_script_drop(). */
int gp_script_begin(struct gp_script *script, const struct gp_report *report, const char *name,
                    int height, struct gp_error *err);
/* Within double quotes. */
void gp_script_quoted(struct gp_script *script, const char *text);
/* The figure with its caption, unless rc says that something went wrong before; its status. */
int gp_script_draw(struct gp_script *script, const struct gp_report *report, const char *caption,
                   int rc, struct gp_error *err);
void gp_script_drop(struct gp_script *script);

#endif
