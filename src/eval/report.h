/* A report of records and analyses: one page of HTML that needs nothing else, with tables, figures
 * and where all of it comes from.  The same records give the same page to the byte. */
#ifndef GP_EVAL_REPORT_H
#define GP_EVAL_REPORT_H

#include "eval/outline.h"

/* Of the draws behind the intervals. */
#define GP_REPORT_SEED 1u

int gp_report_write(const struct gp_outline *outline, const char *path, struct gp_error *err);

#endif
