/* The sampler: from a row of logits to a token.
 *
 * Draws are Philox keyed by (seed, choice, position): independent of batch, order, preemption and
 * n.  Order of work: penalties, bias, mask, temperature, min-p, top-k, top-p; ties go to the lower
 * id.  NaN counts as minus infinity; a token below 2^-40 of the best one is never drawn. */
#ifndef GP_MODEL_SAMPLER_H
#define GP_MODEL_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "growpage_options.h"

/* Every field in its range; names the one that is not.  Any finite temperature from 0 on will
 * do. */
int gp_sampling_check(const struct gp_sampling *s, uint32_t vocab_count, struct gp_error *err);

/* Scratch for one vocabulary, taken at open. */
struct gp_sampler;
int gp_sampler_open(struct gp_sampler **out, uint32_t vocab_count, struct gp_error *err);
void gp_sampler_close(struct gp_sampler *sampler);

struct gp_draw {
    const struct gp_sampling *sampling;
    uint64_t seed;
    uint32_t choice;
    uint32_t position;     /* index of the token to draw in the sequence         */
    const int32_t *tokens; /* the sequence so far: prompt, then output           */
    uint32_t prompt_count;
    uint32_t token_count;
    const uint64_t *mask; /* [ceil(vocab/64)], a cleared bit bans; NULL: none   */
};

/* The token, or -1 when nothing may come.  logits [vocab] are raw and stay as they are: a row's
 * logprobs are asked for separately. */
int32_t gp_sampler_draw(struct gp_sampler *sampler, const float *logits,
                        const struct gp_draw *draw);

/* log-softmax of raw logits at id, in a fixed order of summation. */
float gp_log_softmax_at(const float *logits, uint32_t vocab_count, int32_t id);

/* The `count` best ids with their logprobs, best first, ties to the lower id. */
void gp_log_softmax_top(const float *logits, uint32_t vocab_count, uint32_t count, int32_t *ids,
                        float *logprobs);

#endif
