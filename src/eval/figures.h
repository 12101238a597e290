/* The figures of an answer, as they stand in a record, and as tables and reports need them. */
#ifndef GP_EVAL_FIGURES_H
#define GP_EVAL_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"

struct gp_figures {
    const char *suite, *policy;
    uint64_t index;  /* of the problem           */
    uint32_t number; /* of the answers to it     */
    bool correct;
    uint64_t prompt_tokens, output_tokens;
    double pages_mean;
    uint64_t pages_peak;
    uint64_t grow, compress, shrink, start, initial, pressure, capped, fallback, preempt;
    double queue_ms, prefill_ms, decode_ms; /* waiting; to the first token; from it to the last */
    double demand_ms, score_ms, select_ms, compact_ms;
};

/* From a line of kind "sample"; texts are the line's. */
int gp_figures_read(const json_t *line, struct gp_figures *out, struct gp_error *err);

/* All of it as an object; NULL for no memory. */
json_t *gp_figures_write(const struct gp_figures *figures);

#endif
