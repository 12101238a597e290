/* The speed of one kind of work on an engine that has nothing else to do: llama-bench's tests.
 *
 * A prompt test times the rows of prompts, a generation test the steps that decode, behind a
 * context of a given depth that is filled before the clock runs, for several sequences at once.
 * Tokens are random, by the seed; end tokens end nothing. */
#ifndef GP_EVAL_SPEED_H
#define GP_EVAL_SPEED_H

#include <stdbool.h>
#include <stdint.h>

#include "growpage.h"

struct gp_speed_test {
    uint32_t prompt_tokens; /* one of these two is 0           */
    uint32_t output_tokens;
    uint32_t depth;
    uint32_t sequences;
};

/* llama-bench's words: "pp512", "tg128 @ d2048". */
#define GP_SPEED_NAME_BYTES 48u
void gp_speed_name(const struct gp_speed_test *test, char out[GP_SPEED_NAME_BYTES]);

/* Tokens of a sequence that are run, which a model's context has to hold. */
uint64_t gp_speed_tokens(const struct gp_speed_test *test);

/* The context and the running set that a test needs.  options->max_batch_tokens stands already and
 * is not below test->sequences. */
void gp_speed_fit(const struct gp_speed_test *test, struct gp_engine_options *options);

struct gp_speed {
    struct gp_engine *engine; /* opened with what gp_speed_fit() said; this thread steps it */
    uint32_t vocab;
    uint64_t seed;
    struct gp_sampling sampling;
    bool (*go_on)(void *ctx); /* asked before each step; false ends the test                */
    void *ctx;
};

struct gp_speed_time {
    uint64_t ns;
    uint64_t tokens; /* of all sequences, in that time */
};

/* One repetition; others have other tokens.  *complete: go_on never said no, and *out was written.
 * GP_EINVAL when the engine's cache is too small for the test. */
int gp_speed_measure(const struct gp_speed *speed, const struct gp_speed_test *test,
                     uint32_t repetition, struct gp_speed_time *out, bool *complete,
                     struct gp_error *err);

#endif
