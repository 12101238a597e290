/* What the gauge said of a kernel, as a row; growpage(1) describes the columns. */
#ifndef GP_EVAL_GAUGE_REPORT_H
#define GP_EVAL_GAUGE_REPORT_H

#include "eval/origin.h"

struct gp_gauge_report {
    const struct gp_origin *origin; /* its machine */
    const char *level;
    struct gp_gauge_case what;
    char started[GP_TIME_TEXT_BYTES];
    const struct gp_gauge_sample *samples; /* [count], count > 0 */
    uint32_t count;
};

/* *out is the caller's. */
int gp_gauge_json(const struct gp_gauge_report *report, json_t **out, struct gp_error *err);

/* A Markdown table to standard output: its head, a row a report, and the line behind it. */
int gp_gauge_print_head(struct gp_error *err);
int gp_gauge_print_row(const struct gp_gauge_report *report, struct gp_error *err);
int gp_gauge_print_foot(const struct gp_origin *origin, const char *level, struct gp_error *err);

#endif
