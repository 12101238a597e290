/* A report of records: one page of HTML that needs nothing else, with tables, figures and where all
 * of it comes from.  The same records give the same page to the byte. */
#ifndef GP_EVAL_REPORT_H
#define GP_EVAL_REPORT_H

#include "eval/results.h"

/* Of the draws behind the intervals. */
#define GP_REPORT_SEED 1u

int gp_report_write(const struct gp_results *results, const char *path, struct gp_error *err);

#endif
