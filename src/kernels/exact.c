/* Arithmetic that is exact, integer or double, and so needs no levels: fixed point, coverage,
 * selection, angles.  Nothing here is worse than linear in what it is given (times a constant
 * number of digits), whatever the values are. */
#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "kernels/internal.h"

void gp_rope_angles(uint32_t pos, const double *inv_freq, uint32_t count, double scale,
                    float *out_cos, float *out_sin)
{
    for (uint32_t i = 0; i < count; i++) {
        const double angle = (double)pos * inv_freq[i];

        out_cos[i] = (float)(cos(angle) * scale);
        out_sin[i] = (float)(sin(angle) * scale);
    }
}

void gp_fixed_point(const float *a, uint32_t n, uint32_t *out)
{
    for (uint32_t i = 0; i < n; i++) {
        const float clamped = a[i] > 0.0f ? (a[i] < 1.0f ? a[i] : 1.0f) : 0.0f; /* NaN is 0 */

        out[i] = (uint32_t)(int32_t)lrintf(clamped * 0x1p30f); /* the product is exact */
    }
}

static inline __attribute__((always_inline)) void mean_of(const uint32_t *const *heads, uint32_t g,
                                                          uint32_t n, uint32_t *out)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t sum = 0;

        for (uint32_t h = 0; h < g; h++)
            sum += heads[h][i];
        out[i] = (uint32_t)((sum + g / 2) / g);
    }
}

/* Divisors that models have are constants, for a division of 64 bits takes dozens of cycles. */
void gp_fixed_mean(const uint32_t *const *heads, uint32_t g, uint32_t n, uint32_t *out)
{
    switch (g) {
    case 1:
        mean_of(heads, 1, n, out);
        break;
    case 2:
        mean_of(heads, 2, n, out);
        break;
    case 3:
        mean_of(heads, 3, n, out);
        break;
    case 4:
        mean_of(heads, 4, n, out);
        break;
    case 8:
        mean_of(heads, 8, n, out);
        break;
    default:
        mean_of(heads, g, n, out);
    }
}

/* The least whole number that is at least coverage * total, and no more than total. */
static uint64_t coverage_target(uint64_t total, double coverage)
{
    const double want = ceil(coverage * (double)total);

    if (!(want > 0.0))
        return 0;
    return want < (double)total ? (uint64_t)want : total;
}

/* Radix selection, the highest byte first: walk the buckets from the top while they are needed
 * whole, then look inside the one where the target falls. */
uint32_t gp_coverage_count(const uint32_t *weights, uint32_t n, double coverage, uint32_t *scratch)
{
    const uint32_t *from = weights;
    uint32_t left = n, count = 0;
    uint64_t total = 0, target, value;

    for (uint32_t i = 0; i < n; i++)
        total += weights[i];
    target = coverage_target(total, coverage);
    if (target == 0)
        return 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        uint32_t bucket_count[256] = {0}, bucket = 255, kept = 0;
        uint64_t bucket_sum[256] = {0};

        for (uint32_t i = 0; i < left; i++) {
            bucket_count[from[i] >> shift & 255]++;
            bucket_sum[from[i] >> shift & 255] += from[i];
        }
        for (; bucket_sum[bucket] < target; bucket--) {
            gp_assert(bucket > 0);
            target -= bucket_sum[bucket];
            count += bucket_count[bucket];
        }
        for (uint32_t i = 0; i < left; i++) /* in place from the second time on: kept <= i */
            if ((from[i] >> shift & 255) == bucket)
                scratch[kept++] = from[i];
        from = scratch;
        left = kept;
    }
    value = from[0]; /* all that is left is equal, and not 0, for its sum reaches the target */
    return count + (uint32_t)((target + value - 1) / value);
}

/* The highest byte in which some of the keys differ; 0 when they are equal. */
static int first_shift(const uint64_t *keys, uint32_t n)
{
    uint64_t differ = 1;

    for (uint32_t i = 1; i < n; i++)
        differ |= keys[i] ^ keys[0];
    return (63 - __builtin_clzll(differ)) / 8 * 8;
}

/* Put the k largest of n different keys in front, in any order: three-way partition by one byte
 * at a time, from the highest in which they differ. */
static void largest_to_front(uint64_t *keys, uint32_t n, uint32_t k)
{
    for (int shift = first_shift(keys, n); shift >= 0 && k > 0 && k < n; shift -= 8) {
        uint32_t histogram[256] = {0}, pivot = 255, above = 0;
        uint32_t high = 0, at = 0, low = n;

        for (uint32_t i = 0; i < n; i++)
            histogram[keys[i] >> shift & 255]++;
        while (above + histogram[pivot] < k)
            above += histogram[pivot--];
        while (at < low) {
            const uint64_t key = keys[at];
            const uint32_t digit = key >> shift & 255;

            if (digit > pivot) {
                keys[at++] = keys[high];
                keys[high++] = key;
            } else if (digit < pivot) {
                keys[at] = keys[--low];
                keys[low] = key;
            } else {
                at++;
            }
        }
        keys += high;
        n = low - high;
        k -= high;
    }
}

/* Larger score, then higher slot.  Floats in the order of their bits, negatives turned round;
 * adding +0 makes the two zeros one. */
static uint64_t selection_key(float score, uint32_t slot)
{
    const float plain = score + 0.0f;
    uint32_t bits;

    memcpy(&bits, &plain, sizeof bits);
    bits ^= bits >> 31 ? UINT32_MAX : 0x80000000u;
    return (uint64_t)bits << 32 | slot;
}

void gp_select(const float *score, uint32_t slot_count, uint32_t page_tokens, uint32_t local,
               uint32_t keep, uint32_t *kept, uint64_t *scratch)
{
    uint32_t kept_count = 0, rest_count = 0, rest;

    gp_assert(keep <= slot_count);
    for (uint32_t begin = 0; begin < slot_count; begin += page_tokens) {
        const uint32_t left = slot_count - begin;
        const uint32_t in_page = left < page_tokens ? left : page_tokens;
        const uint32_t quota = local < in_page ? local : in_page;
        uint64_t *keys = scratch + begin;

        for (uint32_t i = 0; i < in_page; i++)
            keys[i] = selection_key(score[begin + i], begin + i);
        largest_to_front(keys, in_page, quota);
        gp_assert(quota <= keep - kept_count);
        for (uint32_t i = 0; i < quota; i++)
            kept[kept_count++] = (uint32_t)keys[i];
        for (uint32_t i = quota; i < in_page; i++)
            scratch[rest_count++] = keys[i];
    }
    rest = keep - kept_count;
    largest_to_front(scratch, rest_count, rest);
    for (uint32_t i = 0; i < rest; i++)
        kept[kept_count++] = (uint32_t)scratch[i];

    /* Into ascending order through a bit for every slot. */
    memset(scratch, 0, ((size_t)slot_count + 63) / 64 * sizeof *scratch);
    for (uint32_t i = 0; i < keep; i++)
        scratch[kept[i] / 64] |= UINT64_C(1) << (kept[i] % 64);
    kept_count = 0;
    for (uint32_t word = 0; word < (slot_count + 63) / 64; word++)
        for (uint64_t bits = scratch[word]; bits; bits &= bits - 1)
            kept[kept_count++] = word * 64 + (uint32_t)__builtin_ctzll(bits);
}

/* Let the key at `at` sink in a heap whose smallest is on top. */
static void sink(uint64_t *heap, uint32_t n, uint32_t at)
{
    for (uint32_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        const uint64_t key = heap[at];

        if (child + 1 < n && heap[child + 1] < heap[child])
            child++;
        if (key <= heap[child])
            return;
        heap[at] = heap[child];
        heap[child] = key;
        at = child;
    }
}

void gp_best_first(const float *score, uint32_t *slots, uint32_t count, uint64_t *scratch)
{
    for (uint32_t i = 0; i < count; i++)
        scratch[i] = selection_key(score[slots[i]], slots[i]);
    for (uint32_t i = count / 2; i-- > 0;)
        sink(scratch, count, i);
    for (uint32_t left = count; left > 0; left--) {
        slots[left - 1] = (uint32_t)scratch[0];
        scratch[0] = scratch[left - 1];
        sink(scratch, left - 1, 0);
    }
}
