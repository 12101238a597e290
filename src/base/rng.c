#include "base/rng.h"

#include <math.h>
#include <sys/random.h>
#include <time.h>

void gp_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];

    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;

        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

double gp_rng_uniform_at(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream,
                           (uint32_t)(stream >> 32)};
    uint32_t out[4];

    gp_philox(seed, counter, out);
    return (double)(((uint64_t)out[1] << 32 | out[0]) >> 11) * 0x1p-53;
}

uint64_t gp_rng_next(struct gp_rng *rng)
{
    uint64_t z = (rng->state += 0x9E3779B97F4A7C15u);

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

uint32_t gp_rng_below(struct gp_rng *rng, uint32_t n)
{
    return (uint32_t)(((gp_rng_next(rng) >> 32) * n) >> 32);
}

double gp_rng_uniform(struct gp_rng *rng)
{
    return (double)(gp_rng_next(rng) >> 11) * 0x1p-53;
}

double gp_rng_normal(struct gp_rng *rng)
{
    double u = 1.0 - gp_rng_uniform(rng); /* never 0 */

    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * gp_rng_uniform(rng));
}

uint64_t gp_rng_entropy(void)
{
    uint64_t seed;

    if (getrandom(&seed, sizeof seed, 0) == (ssize_t)sizeof seed)
        return seed;
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000007u ^ (uint64_t)now.tv_nsec;
}
