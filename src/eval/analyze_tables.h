/* The tables of what an analysis found: a line for each object of a kind.  For terminals and for
 * reports. */
#ifndef GP_EVAL_ANALYZE_TABLES_H
#define GP_EVAL_ANALYZE_TABLES_H

#include "eval/analyze.h"

#define GP_ANALYSIS_COLUMNS_MAX 10u

struct gp_analysis_column {
    const char *key, *title;
    double scale; /* 0: 1                */
    int digits;   /* behind the point    */
};

struct gp_analysis_table {
    enum gp_analysis_kind of;
    const char *kind;                                           /* of its objects       */
    struct gp_analysis_column columns[GP_ANALYSIS_COLUMNS_MAX]; /* until one has no key */
};

/* The nth table of an analysis, or NULL. */
const struct gp_analysis_table *gp_analysis_table(enum gp_analysis_kind kind, uint32_t n);
bool gp_analysis_is_line(const json_t *object, const struct gp_analysis_table *table);
/* "-" for what is not there. */
void gp_analysis_spell(const json_t *object, const struct gp_analysis_column *column, char out[64]);

#endif
