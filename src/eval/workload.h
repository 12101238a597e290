/* A workload: requests of random tokens, with lengths and times of arrival.
 *
 * What is drawn follows from the seed and the request's index alone: a longer workload begins with
 * the shorter one, and every policy and every machine is given the same. */
#ifndef GP_EVAL_WORKLOAD_H
#define GP_EVAL_WORKLOAD_H

#include <stdint.h>

#include "base/error.h"

enum gp_length_kind {
    GP_LENGTH_FIXED,     /* a                                                        */
    GP_LENGTH_UNIFORM,   /* a to b, both may come                                    */
    GP_LENGTH_LOGNORMAL, /* exp of a normal with mean a and deviation b, rounded     */
};

/* How many tokens: a number, or what one is drawn from. */
struct gp_length {
    enum gp_length_kind kind;
    double a, b;
    uint32_t max; /* no draw is larger; none is 0 */
};

#define GP_LENGTH_TEXT_BYTES 64u

/* "512", "uniform:100:900", "lognormal:6:0.5" or, cut at a length, "lognormal:6:0.5:4000".
 * GP_EINVAL for all else, for 0 and for what passes GP_LIMIT_CONTEXT. */
int gp_length_parse(const char *text, struct gp_length *out, struct gp_error *err);
/* The same words back. */
void gp_length_format(const struct gp_length *length, char out[GP_LENGTH_TEXT_BYTES]);

struct gp_workload {
    uint64_t seed;
    uint32_t request_count;
    struct gp_length prompt, output;
    double rate; /* arrivals a second, apart as in a Poisson process; 0: all at once */
};

struct gp_work {
    uint32_t prompt_tokens, output_tokens;
};

/* Of request `index`. */
struct gp_work gp_workload_at(const struct gp_workload *workload, uint32_t index);
/* The time between request `index` and the one before it, or the start. */
double gp_workload_wait_seconds(const struct gp_workload *workload, uint32_t index);

/* Random ids below vocab; other sequences have others. */
void gp_workload_tokens(uint64_t seed, uint64_t sequence, uint32_t vocab, int32_t *ids,
                        uint32_t count);

#endif
