/* A model ready to run sequences over a paged cache, in any mix of chunks.  What goes wrong in here
 * fails the running test. */
#ifndef GP_TESTS_MODEL_FORWARD_WORLD_H
#define GP_TESTS_MODEL_FORWARD_WORLD_H

#include "base/rng.h"
#include "model/forward.h"

#define WORLD_ROWS_MAX 256u
#define WORLD_WAVE     5u /* so that logits come in uneven waves */

struct test_setup {
    enum gp_level level;
    uint32_t threads;
    uint32_t page_tokens;
    uint32_t page_count;
    enum gp_kv_type kv_type;
    uint32_t summary_slots;
    uint8_t fill; /* of the pool before the first step */
};

struct test_world {
    struct gp_workers *workers;
    struct gp_weights *weights;
    struct gp_kernels kernels;
    struct gp_forward *forward;
    struct gp_cache cache;
    size_t pool_bytes;
    size_t summary_count; /* floats */
    size_t rms_count;
};

void test_world_open(struct test_world *w, const struct gp_gguf *gguf, const struct test_setup *s);
void test_world_close(struct test_world *w);

/* Summaries of one slot, [layer][2][Hq][dk], then the query RMS, [layer][Hq]; returns the
 * floats. */
size_t test_world_summaries(const struct test_world *w, uint32_t slot, float *out);

struct test_sequence {
    const int32_t *tokens;
    uint32_t count;
    const uint32_t *pages;
    uint32_t summary_slot;
    uint32_t generated_from; /* in tokens */
    bool summary_zero;
    float *logits; /* [count, vocab] out; NULL: none are asked for */
    uint32_t done; /* tokens run; 0 before */
};

/* Run all sequences to their ends, side by side: in every step each gets a chunk of 1 to chunk_max
 * tokens (drawn from rng, or chunk_max when it is NULL). */
void test_world_run(struct test_world *w, struct test_sequence *s, uint32_t count,
                    uint32_t chunk_max, struct gp_rng *rng);

/* Tokens of a made-up sequence. */
void test_tokens(int32_t *tokens, uint32_t count, uint32_t vocab, struct gp_rng *rng);

#endif
