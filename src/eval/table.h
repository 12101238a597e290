/* Means over samples, a row for each policy and suite, and the table of them. */
#ifndef GP_EVAL_TABLE_H
#define GP_EVAL_TABLE_H

#include "eval/exam.h"
#include "eval/figures.h"

struct gp_table_row {
    uint64_t samples, correct, output_tokens, compress, grow;
    double pages; /* sum of the samples' mean pages */
};

struct gp_table {
    uint32_t policy_count;
    const struct gp_exam *exam;
    const char (*policies)[64];
    struct gp_table_row *rows; /* [policy_count][exam->part_count] */
};

int gp_table_open(struct gp_table *table, const struct gp_exam *exam, const char (*policies)[64],
                  uint32_t policy_count, struct gp_error *err);
void gp_table_close(struct gp_table *table);

/* Of a policy and a suite that the table has. */
void gp_table_add(struct gp_table *table, const struct gp_figures *figures);

/* To standard output; tokens of a page. */
int gp_table_print(const struct gp_table *table, uint32_t page_tokens, struct gp_error *err);

#endif
