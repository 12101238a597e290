/* Random numbers.  Nothing here keeps global state and nothing reads a clock.
 *
 * Philox4x32-10 (Salmon et al., SC 2011) is counter-based: a draw is a pure function of key and
 * counter, so what is drawn does not depend on what was drawn before, by whom, or in what order. */
#ifndef GP_BASE_RNG_H
#define GP_BASE_RNG_H

#include <stdint.h>

/* The four output words for a 64-bit key and a 128-bit counter (low word first). */
void gp_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4]);

/* Uniform in [0, 1) with 53 bits, from (seed, stream, index). */
double gp_rng_uniform_at(uint64_t seed, uint64_t stream, uint64_t index);

/* A small sequential generator (splitmix64) for tests and simulations. */
struct gp_rng {
    uint64_t state;
};

uint64_t gp_rng_next(struct gp_rng *rng);
uint32_t gp_rng_below(struct gp_rng *rng, uint32_t n); /* in [0, n); n > 0 */
double gp_rng_uniform(struct gp_rng *rng);             /* in [0, 1)        */
double gp_rng_normal(struct gp_rng *rng);              /* mean 0, variance 1 */

/* A seed that nobody chose, from the operating system. */
uint64_t gp_rng_entropy(void);

#endif
