/* The parts of a report, one after the other on the page.  The report's own; see report.h. */
#ifndef GP_EVAL_REPORT_PARTS_H
#define GP_EVAL_REPORT_PARTS_H

#include <stdio.h>

#include "eval/outline.h"
#include "eval/summary.h"

/* A section of it. */
struct gp_report {
    const struct gp_results *results;
    const struct gp_summary *summaries; /* [results->arm_count]                    */
    uint32_t reference;                 /* an arm of policy full; UINT32_MAX: none */
    uint32_t section;                   /* its number                              */
    uint32_t level;                     /* of the headings of parts: h2, h3        */
    FILE *page;
};

/* Text with the signs of HTML made harmless. */
void gp_report_text(FILE *page, const char *text);

/* The page around the sections. */
void gp_report_begin(FILE *page, const struct gp_outline *outline,
                     const struct gp_results *results);
void gp_report_section(FILE *page, const struct gp_outline_section *section);
void gp_report_end(FILE *page);
/* The records of all sections, and what they say of themselves. */
int gp_report_origin(FILE *page, const struct gp_results *results, uint32_t count,
                     struct gp_error *err);

/* A part's heading, and what is to be known about it; plain text. */
void gp_report_heading(const struct gp_report *report, const char *title, const char *note);

/* ---- parts: each writes nothing where there is nothing for it ---- */

int gp_report_accuracy(const struct gp_report *report, struct gp_error *err);
/* Pass@1 against speed, of the arms whose records say how fast they were. */
int gp_report_trade(const struct gp_report *report, struct gp_error *err);
/* By suite, of records of one suite each. */
int gp_report_speed(const struct gp_report *report, struct gp_error *err);
int gp_report_serving(const struct gp_report *report, struct gp_error *err);
int gp_report_events(const struct gp_report *report, struct gp_error *err);
int gp_report_work(const struct gp_report *report, struct gp_error *err);
/* Budgets that suffice, and what an adaptive policy gave the same problems: of policies with two
 * budgets or more. */
int gp_report_sufficient(const struct gp_report *report, struct gp_error *err);
/* Of analyses. */
int gp_report_signal(const struct gp_report *report, struct gp_error *err);
int gp_report_counterfactual(const struct gp_report *report, struct gp_error *err);
int gp_report_budget(const struct gp_report *report, struct gp_error *err);
int gp_report_sparsity(const struct gp_report *report, struct gp_error *err);
int gp_report_overhead(const struct gp_report *report, struct gp_error *err);

#endif
