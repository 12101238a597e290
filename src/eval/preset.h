/* The paper's settings: how many answers to each problem, how long they may be, and how much cache
 * the methods with a fixed budget get (its Tables 5 and 6). */
#ifndef GP_EVAL_PRESET_H
#define GP_EVAL_PRESET_H

#include <stdint.h>

#include "base/error.h"

enum gp_preset_table {
    GP_PRESET_NONE,
    GP_PRESET_PAPER, /* Table 5: each data set by itself                         */
    GP_PRESET_MIXED, /* Table 6: three data sets served together, without a budget */
};

struct gp_preset {
    const char *suite;
    uint32_t samples, max_tokens;
    uint32_t budget; /* tokens; 0: none */
};

/* GP_EINVAL, naming those there are, when the table has no such suite. */
int gp_preset_find(enum gp_preset_table table, const char *suite, const struct gp_preset **out,
                   struct gp_error *err);

/* The budget of all suites of "NAME|FILE,...", which must be one. */
int gp_preset_budget(enum gp_preset_table table, const char *suites, uint32_t *out,
                     struct gp_error *err);

#endif
