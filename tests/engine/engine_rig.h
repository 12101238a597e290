/* A rig for engine tests: a small random model on disk, engines over it, and requests run to
 * their end with everything that came out, to the bit. */
#ifndef GP_TESTS_ENGINE_RIG_H
#define GP_TESTS_ENGINE_RIG_H

#include "engine/engine_internal.h"
#include "model/model_maker.h"

struct rig {
    char dir[64];
    char path[128];
    struct gp_model *model;
};

/* A model of two layers whose attention has something to choose: llama, Q8_0, heads of 32, g =
 * 3. */
void engine_rig_model(struct test_model *m);

/* Write m and open it at a kernels' level (NULL: the best). */
void engine_rig_open(struct rig *rig, const struct test_model *m, const char *cpu);
void engine_rig_close(struct rig *rig);

/* Small pages, one thread, room for everything. */
void engine_rig_options(struct gp_engine_options *options);

/* A prompt of `count` ids that depends on its number. */
void engine_rig_prompt(int32_t *ids, uint32_t count, uint32_t number);

/* The rig that the tests of a file share: the model above at the best level, and one long prompt.
 * The functions are a group's setup and teardown. */
#define RIG_PROMPT_MAX 1024u

extern struct rig engine_rig;
extern int32_t engine_rig_ids[RIG_PROMPT_MAX];

int engine_rig_setup(void **state);
int engine_rig_teardown(void **state);

/* A setting of each policy; a trigger of `steps` follows an @. */
#define RIG_POLICIES 21u

/* Builds with checks take ten times as long and meet every third of them.  Tests begin with
 * different ones, so that each is met. */
#ifdef GP_DEBUG
#define RIG_STRIDE 3u
#else
#define RIG_STRIDE 1u
#endif

extern const char *const engine_rig_policies[RIG_POLICIES];

void engine_rig_set_policy(struct gp_engine_options *options, const char *policy);

/* An engine over it. */
struct gp_engine *engine_rig_engine(const struct gp_engine_options *options);

/* A request for max_tokens behind the first `count` ids of the prompt, whatever is drawn. */
void engine_rig_ask(struct gp_request *request, uint32_t count, uint32_t max_tokens);

#define RIG_TOKENS_MAX 512u

/* What a choice gave. */
struct rig_output {
    uint32_t count;
    struct gp_token tokens[RIG_TOKENS_MAX];
    enum gp_finish finish;
    struct gp_request_stats stats;
};

/* Read choice `index` of a request that has ended. */
void engine_rig_read(struct gp_engine *engine, uint64_t id, uint32_t index, struct rig_output *out);

/* Submit one request to an engine of its own, run it to its end, and read choice 0. */
void engine_rig_alone(const struct rig *rig, const struct gp_engine_options *options,
                      const struct gp_request *request, struct rig_output *out);

/* Same ids, same logprob bits, same end. */
void engine_rig_assert_same(const struct rig_output *a, const struct rig_output *b);

/* The sequence behind a choice that is still running. */
struct gp_seq *engine_rig_seq(struct gp_engine *engine, uint64_t id, uint32_t index);

#endif
