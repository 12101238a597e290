/* Figures by gnuplot, as SVG that stands within a page: black becomes the colour of the text around
 * it, so that it is seen on dark pages, too. */
#ifndef GP_EVAL_PLOT_H
#define GP_EVAL_PLOT_H

#include <stdio.h>

#include "base/error.h"

/* Run a script, whose output is a picture of gnuplot's svg terminal, and write that to out.  GP_EIO
 * with gnuplot's words. */
int gp_plot(const char *script, FILE *out, struct gp_error *err);

#endif
