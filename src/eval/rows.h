/* Results to standard output: JSON objects, as they come, for machines, or all beside each other
 * for people. */
#ifndef GP_EVAL_ROWS_H
#define GP_EVAL_ROWS_H

#include <stdint.h>

#include <jansson.h>

#include "eval/statistics.h"

enum gp_format {
    GP_FORMAT_MD,
    GP_FORMAT_CSV,  /* a line of keys first; objects within are "outer.inner", arrays left out */
    GP_FORMAT_JSON, /* one array                                                               */
    GP_FORMAT_JSONL,
};

/* A number, or null for one that is none. */
json_t *gp_json_number(double value);

/* {"mean","p50","p90","p99","max"}; the values are sorted by that. */
json_t *gp_json_spread(struct gp_values *values);

struct gp_rows {
    enum gp_format format; /* any but GP_FORMAT_MD */
    uint32_t count;
};

/* Takes the object, which may be NULL for no memory.  All have the same keys.  It is out of our
 * hands when this returns. */
int gp_rows_add(struct gp_rows *rows, json_t *object, struct gp_error *err);
int gp_rows_end(struct gp_rows *rows, struct gp_error *err);

/* A Markdown table: a line for each key, a column for each object, headed by its `name`. */
int gp_rows_print(json_t *const *objects, const char (*names)[64], uint32_t count,
                  struct gp_error *err);

#endif
