/* From logits to a token.
 *
 * Every filter keeps a prefix of one order: higher logit first, lower id first among equals.  So
 * what is kept is told by one key, the last kept one.  Weights are whole numbers (2^40 for the
 * best token), so sums are exact, no result depends on an order of summation, and a token below
 * 2^-40 of the best is never drawn.  The drawn point lies on a line on which the kept tokens are
 * laid out by id. */
#include "model/sampler.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/rng.h"

#define GREEDY_BELOW  1e-5f
#define WEIGHT_BITS   40 /* a vocabulary of 2^20 tokens sums to 2^60 */
#define WEIGHT_ONE    0x1p40
#define WEIGHT_FLOOR  (-28.0) /* exp of it times 2^40 is below 1      */
#define LOGPROB_FLOOR (-50.0) /* 2^20 times exp of it is below 2^-52 */

_Static_assert((UINT64_C(1) << WEIGHT_BITS) <= UINT64_MAX / GP_LIMIT_VOCAB,
               "weights sum in 64 bits");

struct gp_sampler {
    uint32_t vocab_count;
    float *logits;    /* [vocab] with penalties, bias and mask             */
    uint64_t *keys;   /* [vocab] candidates, see key_of()                  */
    uint64_t *weight; /* [vocab] by id                                     */
    uint32_t *seen;   /* [vocab] zeros between draws, see penalise()       */
};

/* ---- arithmetic ---- */

/* exp and log of our own: those of a C library may differ between machines, and a draw must not.
 * exp for x <= 0, relative error below 1e-8: x = n ln2 + r, a Taylor polynomial in r, times 2^n.
 * Below `floor` it is 0: even a whole vocabulary of such terms would be lost in rounding. */
static double exp_of(double x, double floor)
{
    if (!(x > floor))
        return 0.0;
    double n = (double)(int)(x * 1.4426950408889634 - 0.5);
    double r = (x - n * 0x1.62e42fefa38p-1) - n * 0x1.ef35793c7673p-45;
    double p =
        1.0 +
        r * (1.0 + r * (1.0 / 2 +
                        r * (1.0 / 6 + r * (1.0 / 24 + r * (1.0 / 120 +
                                                            r * (1.0 / 720 + r * (1.0 / 5040)))))));
    uint64_t bits = (uint64_t)((int64_t)n + 1023) << 52;
    double power;

    memcpy(&power, &bits, sizeof power);
    return p * power;
}

/* For x > 0: log m + n ln2 with m in [sqrt(1/2), sqrt(2)), log m = 2 atanh((m - 1) / (m + 1)). */
static double log_of(double x)
{
    int n;
    double m = frexp(x, &n);

    if (m < 0.70710678118654752) {
        m *= 2.0;
        n--;
    }
    double s = (m - 1.0) / (m + 1.0), square = s * s, term = s, sum = 0.0;

    for (int k = 1; k < 24; k += 2, term *= square)
        sum += term / k;
    return 2.0 * sum + n * 0.69314718055994531;
}

/* Ascending keys are ascending logits, and descending ids among equal logits. */
static uint64_t key_of(float logit, uint32_t id)
{
    float positive_zero = logit + 0.0f;
    uint32_t bits;

    memcpy(&bits, &positive_zero, sizeof bits);
    bits ^= bits & 0x80000000u ? 0xffffffffu : 0x80000000u;
    return (uint64_t)bits << 32 | (uint32_t)~id;
}

static uint32_t id_of(uint64_t key)
{
    return ~(uint32_t)key;
}

/* ---- options ---- */

static int check_bias(const struct gp_sampling *s, uint32_t vocab_count, struct gp_error *err)
{
    if (s->bias_count > 0 && !s->bias)
        return gp_fail(err, GP_EINVAL, "logit_bias: %u entries, but no list", s->bias_count);
    for (uint32_t i = 0; i < s->bias_count; i++) {
        if (s->bias[i].id < 0 || (uint32_t)s->bias[i].id >= vocab_count)
            return gp_fail(err, GP_EINVAL, "logit_bias: token %d; 0 to %u", s->bias[i].id,
                           vocab_count - 1);
        if (!isfinite(s->bias[i].bias))
            return gp_fail(err, GP_EINVAL, "logit_bias: token %d: %g is not finite", s->bias[i].id,
                           s->bias[i].bias);
    }
    return GP_OK;
}

int gp_sampling_check(const struct gp_sampling *s, uint32_t vocab_count, struct gp_error *err)
{
    if (!(isfinite(s->temperature) && s->temperature >= 0.0f))
        return gp_fail(err, GP_EINVAL, "temperature: %g; 0 or more", s->temperature);
    if (!(s->top_p > 0.0f && s->top_p <= 1.0f))
        return gp_fail(err, GP_EINVAL, "top_p: %g; above 0, at most 1", s->top_p);
    if (!(s->min_p >= 0.0f && s->min_p < 1.0f))
        return gp_fail(err, GP_EINVAL, "min_p: %g; 0 or more, below 1", s->min_p);
    if (!(isfinite(s->repeat_penalty) && s->repeat_penalty > 0.0f))
        return gp_fail(err, GP_EINVAL, "repeat_penalty: %g; above 0", s->repeat_penalty);
    if (!isfinite(s->presence_penalty))
        return gp_fail(err, GP_EINVAL, "presence_penalty: %g is not finite", s->presence_penalty);
    if (!isfinite(s->frequency_penalty))
        return gp_fail(err, GP_EINVAL, "frequency_penalty: %g is not finite", s->frequency_penalty);
    return check_bias(s, vocab_count, err);
}

int gp_sampler_open(struct gp_sampler **out, uint32_t vocab_count, struct gp_error *err)
{
    if (vocab_count < 1 || vocab_count > GP_LIMIT_VOCAB)
        return gp_fail(err, GP_EINVAL, "vocabulary: %u tokens; 1 to %u", vocab_count,
                       GP_LIMIT_VOCAB);
    struct gp_sampler *s = gp_mem_alloc(sizeof *s);

    if (!s)
        return gp_fail(err, GP_ENOMEM, "sampler: out of memory");
    s->vocab_count = vocab_count;
    s->logits = gp_mem_alloc_array(vocab_count, sizeof *s->logits);
    s->keys = gp_mem_alloc_array(vocab_count, sizeof *s->keys);
    s->weight = gp_mem_alloc_array(vocab_count, sizeof *s->weight);
    s->seen = gp_mem_alloc_array(vocab_count, sizeof *s->seen);
    if (!s->logits || !s->keys || !s->weight || !s->seen) {
        gp_sampler_close(s);
        return gp_fail(err, GP_ENOMEM, "sampler: out of memory");
    }
    *out = s;
    return GP_OK;
}

void gp_sampler_close(struct gp_sampler *sampler)
{
    if (!sampler)
        return;
    gp_mem_free(sampler->logits);
    gp_mem_free(sampler->keys);
    gp_mem_free(sampler->weight);
    gp_mem_free(sampler->seen);
    gp_mem_free(sampler);
}

/* ---- penalties, bias, mask ---- */

/* seen[id] becomes 1 + the times that id was put out, for every id in the window; the second walk
 * acts on it once and clears it. */
static void penalise(struct gp_sampler *s, const struct gp_draw *draw)
{
    const struct gp_sampling *o = draw->sampling;
    uint32_t begin = o->penalty_last_n > 0 && o->penalty_last_n < draw->token_count
                         ? draw->token_count - o->penalty_last_n
                         : 0;

    if (o->repeat_penalty == 1.0f && o->presence_penalty == 0.0f && o->frequency_penalty == 0.0f)
        return;
    for (uint32_t i = begin; i < draw->token_count; i++) {
        int32_t id = draw->tokens[i];

        gp_assert(id >= 0 && (uint32_t)id < s->vocab_count);
        if (s->seen[id] == 0)
            s->seen[id] = 1;
        if (i >= draw->prompt_count)
            s->seen[id]++;
    }
    for (uint32_t i = begin; i < draw->token_count; i++) {
        int32_t id = draw->tokens[i];
        float *logit = &s->logits[id];

        if (s->seen[id] == 0)
            continue;
        *logit = *logit > 0.0f ? *logit / o->repeat_penalty : *logit * o->repeat_penalty;
        if (s->seen[id] > 1)
            *logit -= (float)(s->seen[id] - 1) * o->frequency_penalty + o->presence_penalty;
        s->seen[id] = 0;
    }
}

/* A logit that no filter can stumble on: never NaN, never above the largest number. */
static float tame(float logit)
{
    if (!(logit > -INFINITY))
        return -INFINITY;
    return logit > FLT_MAX ? FLT_MAX : logit;
}

/* The best token, or -1 when every one is banned. */
static int32_t adjust(struct gp_sampler *s, const float *logits, const struct gp_draw *draw)
{
    int32_t best = -1;

    for (uint32_t id = 0; id < s->vocab_count; id++)
        s->logits[id] = tame(logits[id]);
    penalise(s, draw);
    for (uint32_t i = 0; i < draw->sampling->bias_count; i++)
        s->logits[draw->sampling->bias[i].id] += draw->sampling->bias[i].bias;
    for (uint32_t id = 0; id < s->vocab_count; id++) {
        if (draw->mask && !(draw->mask[id / 64] >> id % 64 & 1))
            s->logits[id] = -INFINITY;
        s->logits[id] = tame(s->logits[id]);
        if (s->logits[id] > (best < 0 ? -INFINITY : s->logits[best]))
            best = (int32_t)id;
    }
    return best;
}

/* ---- filters ---- */

static void swap(uint64_t *a, uint64_t *b)
{
    uint64_t t = *a;

    *a = *b;
    *b = t;
}

/* The middle one of the first, middle and last key, brought to the end. */
static void pivot_to_end(uint64_t *keys, uint32_t n)
{
    uint64_t *a = &keys[0], *b = &keys[n / 2], *c = &keys[n - 1];

    if ((*a < *b) != (*a < *c)) /* a lies between them */
        swap(a, c);
    else if ((*b < *a) != (*b < *c))
        swap(b, c);
}

/* Bring the shortest prefix of the descending order whose weights (1 each when NULL) reach
 * `need` to the front of keys, in any order; returns its length.  All together they reach it,
 * and need >= 1. Linear on average: only the part in which the prefix ends is looked at again. */
static uint32_t select_prefix(uint64_t *keys, uint32_t n, const uint64_t *weight, uint64_t need)
{
    uint32_t begin = 0, end = n;

    for (;;) {
        gp_assert(begin < end);
        pivot_to_end(keys + begin, end - begin);
        uint64_t pivot = keys[end - 1], sum = 0;
        uint32_t split = begin;

        for (uint32_t i = begin; i < end - 1; i++)
            if (keys[i] > pivot) {
                sum += weight ? weight[id_of(keys[i])] : 1;
                swap(&keys[i], &keys[split++]);
            }
        swap(&keys[end - 1], &keys[split]);
        if (sum >= need) {
            end = split;
            continue;
        }
        need -= sum;
        uint64_t own = weight ? weight[id_of(pivot)] : 1;

        if (own >= need)
            return split + 1;
        need -= own;
        begin = split + 1;
    }
}

/* How far below the best a token lies, in units of the temperature, whose inverse is given. */
static double depth(const struct gp_sampler *s, uint32_t id, float best, double coldness)
{
    return ((double)s->logits[id] - best) * coldness;
}

static uint32_t collect(struct gp_sampler *s, float best, double coldness, float min_p)
{
    double floor = min_p > 0.0f ? log_of(min_p) : -INFINITY;
    uint32_t n = 0;

    for (uint32_t id = 0; id < s->vocab_count; id++)
        if (s->logits[id] > -INFINITY && depth(s, id, best, coldness) >= floor)
            s->keys[n++] = key_of(s->logits[id], id);
    return n;
}

static uint64_t weigh(struct gp_sampler *s, uint32_t n, float best, double coldness)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t id = id_of(s->keys[i]);

        s->weight[id] = (uint64_t)(exp_of(depth(s, id, best, coldness), WEIGHT_FLOOR) * WEIGHT_ONE);
        total += s->weight[id];
    }
    return total;
}

/* Keep the fewest best whose weights reach top_p of all.  Tokens so light that all n of their kind
 * could not fill the rest are put aside first; on real logits few are left to look at. */
static uint32_t cut_top_p(struct gp_sampler *s, uint32_t n, uint64_t total, float best,
                          double coldness, float top_p)
{
    uint64_t need = (uint64_t)ceil((double)top_p * (double)total);
    uint32_t kept = 0;

    if (need > total)
        need = total;
    double light = (double)(total - need) / n / WEIGHT_ONE;
    /* The margin covers exp_of's error and the rounding of weights down. */
    double floor = light > 0.0 ? log_of(light) - 1e-6 : -INFINITY;

    for (uint32_t i = 0; i < n; i++)
        if (depth(s, id_of(s->keys[i]), best, coldness) >= floor)
            s->keys[kept++] = s->keys[i];
    return select_prefix(s->keys, kept, s->weight, need);
}

int32_t gp_sampler_draw(struct gp_sampler *s, const float *logits, const struct gp_draw *draw)
{
    const struct gp_sampling *o = draw->sampling;
    int32_t best_id = adjust(s, logits, draw);

    if (best_id < 0 || o->temperature < GREEDY_BELOW)
        return best_id;
    float best = s->logits[best_id];
    double coldness = 1.0 / o->temperature;
    uint32_t n = collect(s, best, coldness, o->min_p);

    if (o->top_k > 0 && o->top_k < n)
        n = select_prefix(s->keys, n, NULL, o->top_k);
    uint64_t total = weigh(s, n, best, coldness), last = UINT64_MAX;

    if (o->top_p < 1.0f)
        n = cut_top_p(s, n, total, best, coldness, o->top_p);
    total = 0;
    for (uint32_t i = 0; i < n; i++) {
        total += s->weight[id_of(s->keys[i])];
        last = s->keys[i] < last ? s->keys[i] : last;
    }
    double uniform = gp_rng_uniform_at(draw->seed, draw->choice, draw->position);
    uint64_t point = (uint64_t)((unsigned __int128)(uint64_t)(uniform * 0x1p53) * total >> 53);

    for (uint32_t id = 0; id < s->vocab_count; id++) {
        if (key_of(s->logits[id], id) < last)
            continue;
        if (point < s->weight[id])
            return (int32_t)id;
        point -= s->weight[id];
    }
    gp_assert(!"the point lies below the total");
    return -1;
}

/* ---- logprobs ---- */

/* log sum exp of all logits, less their maximum; the maximum in *best. */
static double log_sum(const float *logits, uint32_t vocab_count, float *best)
{
    double sum = 0.0;
    float max = -INFINITY;

    for (uint32_t id = 0; id < vocab_count; id++) {
        float logit = tame(logits[id]);

        max = logit > max ? logit : max;
    }
    *best = max;
    if (max == -INFINITY)
        return 0.0;
    for (uint32_t id = 0; id < vocab_count; id++)
        sum += exp_of((double)tame(logits[id]) - max, LOGPROB_FLOOR);
    return log_of(sum);
}

static float logprob_of(float logit, float best, double log_of_sum)
{
    logit = tame(logit);
    return logit == -INFINITY ? -INFINITY : (float)((double)logit - best - log_of_sum);
}

float gp_log_softmax_at(const float *logits, uint32_t vocab_count, int32_t id)
{
    float best;

    gp_assert(id >= 0 && (uint32_t)id < vocab_count);
    double sum = log_sum(logits, vocab_count, &best);

    return logprob_of(logits[id], best, sum);
}

void gp_log_softmax_top(const float *logits, uint32_t vocab_count, uint32_t count, int32_t *ids,
                        float *logprobs)
{
    float best;
    double sum = log_sum(logits, vocab_count, &best);
    uint32_t n = 0;

    gp_assert(count <= vocab_count);
    for (uint32_t id = 0; id < vocab_count && count > 0; id++) {
        float logit = tame(logits[id]);

        /* Later ids are not better than equal earlier ones. */
        if (n == count && !(logit > tame(logits[ids[n - 1]])))
            continue;
        uint32_t at = n < count ? n++ : n - 1;

        for (; at > 0 && logit > tame(logits[ids[at - 1]]); at--)
            ids[at] = ids[at - 1];
        ids[at] = (int32_t)id;
    }
    for (uint32_t i = 0; i < count; i++)
        logprobs[i] = logprob_of(logits[ids[i]], best, sum);
}
