/* What the files that read a model share; for hparams.c, rope.c and weights.c only. */
#ifndef GP_MODEL_WEIGHTS_INTERNAL_H
#define GP_MODEL_WEIGHTS_INTERNAL_H

#include "model/weights.h"

/* Used when the file does not say how long its context may be. */
#define MODEL_CONTEXT_DEFAULT 4096u

/* The keys "<architecture>.<suffix>" of a file.  The first failure stays in rc and err; what is
 * read after it is not looked at, so a caller can read a row of keys and ask once. */
struct model_keys {
    const struct gp_gguf *gguf;
    const char *arch;
    struct gp_error *err;
    int rc;
    char name[128]; /* of the key that was read last, for messages */
};

/* The full name, in keys->name. */
const char *gp_model_key(struct model_keys *keys, const char *suffix);
bool gp_model_key_has(struct model_keys *keys, const char *suffix);

/* A whole number from 1 to max.  Absent: fallback; a fallback of 0 makes the key required. */
uint32_t gp_model_key_count(struct model_keys *keys, const char *suffix, uint32_t fallback,
                            uint32_t max);

/* A finite number above `above`.  Absent: fallback, or a refusal when fallback is not above it. */
double gp_model_key_number(struct model_keys *keys, const char *suffix, double fallback,
                           double above);

/* How positions become angles, as the file says. */
struct model_rope {
    double freq_base;
    double factor; /* positions are divided by it; 1: they are not */
    bool yarn;     /* slow pairs are divided, fast ones are not    */
    double beta_fast;
    double beta_slow;
    uint32_t context_original;
    double attention_factor; /* on cos and sin, YaRN's own included */
};

void gp_model_rope_read(struct model_rope *rope, struct model_keys *keys);

/* inv_freq [rope_dim / 2]: radians a position turns each pair; factors [rope_dim / 2] or NULL
 * divide them (rope_freqs.weight). */
void gp_model_rope_frequencies(const struct model_rope *rope, uint32_t rope_dim,
                               const float *factors, double *inv_freq);

/* gp_hparams_read, which also hands out what only the weights need. */
int gp_model_read(struct gp_hparams *hp, struct model_rope *rope, const struct gp_gguf *gguf,
                  struct gp_error *err);

#endif
