/* The parts of a report, one after the other on the page.  The report's own; see report.h. */
#ifndef GP_EVAL_REPORT_PARTS_H
#define GP_EVAL_REPORT_PARTS_H

#include <stdio.h>

#include "eval/summary.h"

struct gp_report {
    const struct gp_results *results;
    const struct gp_summary *summaries; /* [results->arm_count]                    */
    uint32_t reference;                 /* an arm of policy full; UINT32_MAX: none */
    FILE *page;
};

/* Text with the signs of HTML made harmless. */
void gp_report_text(const struct gp_report *report, const char *text);

void gp_report_begin(const struct gp_report *report);
void gp_report_accuracy(const struct gp_report *report);
void gp_report_serving(const struct gp_report *report);
void gp_report_events(const struct gp_report *report);
void gp_report_overhead(const struct gp_report *report);
void gp_report_origin(const struct gp_report *report);
void gp_report_end(const struct gp_report *report);

/* Pass@1 against speed; nothing when no record says how fast it was. */
int gp_report_trade(const struct gp_report *report, struct gp_error *err);
/* Budgets that suffice, and what an adaptive policy gave the same problems; nothing when there is
 * no policy with two budgets or more. */
int gp_report_sufficient(const struct gp_report *report, struct gp_error *err);

#endif
