/* What a speed test gave, in llama-bench's columns and keys; growpage(1) describes ours. */
#ifndef GP_EVAL_SPEED_REPORT_H
#define GP_EVAL_SPEED_REPORT_H

#include "eval/origin.h"
#include "eval/speed.h"

struct gp_speed_report {
    const struct gp_origin *origin;
    const struct gp_kv_options *kv;
    struct gp_engine_info engine; /* that ran the test */
    struct gp_speed_test test;
    uint64_t seed;
    char started[GP_TIME_TEXT_BYTES];
    const struct gp_speed_time *times; /* [count], count > 0 */
    uint32_t count;
};

/* *out is the caller's. */
int gp_speed_json(const struct gp_speed_report *report, json_t **out, struct gp_error *err);

/* A Markdown table to standard output: its head, a row a report, and the line behind it.  Columns
 * that would say the default in every row are left out. */
struct gp_speed_table {
    bool has_sequences, has_type, has_policy;
};
int gp_speed_print_head(const struct gp_speed_table *table, struct gp_error *err);
int gp_speed_print_row(const struct gp_speed_table *table, const struct gp_speed_report *report,
                       struct gp_error *err);
int gp_speed_print_foot(const struct gp_origin *origin, uint64_t seed, struct gp_error *err);

#endif
