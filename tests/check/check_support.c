/* Guarded buffers, fills, and the walk over levels. */
#include <sys/mman.h>
#include <unistd.h>

#include "check/check.h"

uint64_t check_seed(void)
{
    const char *text = getenv("GP_SEED");

    return text ? strtoull(text, NULL, 10) : 20260101;
}

bool check_wants(enum gp_level level)
{
    const char *asked = getenv("GP_CPU");

    if (level == GP_LEVEL_REF || level > gp_level_detect())
        return false;
    return !asked || !*asked || strcmp(asked, gp_level_name(level)) == 0;
}

void check_levels(void (*fn)(struct check *c))
{
    struct check c;
    bool ran = false;

    for (int level = GP_LEVEL_REF + 1; level < GP_LEVEL_COUNT; level++) {
        if (!check_wants((enum gp_level)level))
            continue;
        gp_kernels_init(&c.ref, GP_LEVEL_REF);
        gp_kernels_init(&c.wide, (enum gp_level)level);
        c.rng.state = check_seed();
        fn(&c);
        ran = true;
    }
    if (!ran)
        skip();
}

/* What stands in front of a guarded block, at the start of its mapping. */
struct guard {
    size_t mapped_bytes; /* the guard page included */
    uint8_t *block;
};

#define PATTERN 0xa5

void *check_guarded(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t body = (bytes + sizeof(struct guard) + page - 1) / page * page;
    uint8_t *map =
        mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct guard *guard = (void *)map;

    assert_ptr_not_equal(map, MAP_FAILED);
    assert_int_equal(mprotect(map + body, page, PROT_NONE), 0);
    memset(map, PATTERN, body);
    guard->mapped_bytes = body + page;
    guard->block = map + body - bytes;
    return guard->block;
}

void check_free(void *block)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *map = (uint8_t *)((uintptr_t)block / page * page);
    struct guard *guard = (void *)map;

    /* A block that fills whole pages has its guard on the page before. */
    if ((uintptr_t)block % page < sizeof *guard)
        guard = (void *)(map -= page);
    assert_ptr_equal(guard->block, block);
    for (const uint8_t *p = map + sizeof *guard; p < guard->block; p++)
        if (*p != PATTERN)
            fail_msg("written %zu bytes in front of a buffer", (size_t)(guard->block - p));
    munmap(map, guard->mapped_bytes);
}

/* Halfway between two neighbouring halves, which may be subnormal, or zero and the smallest, or the
 * largest and what would come next; or halfway between two bfloat16 numbers of such a size. */
static float tie(struct gp_rng *rng)
{
    const uint32_t end = gp_rng_below(rng, 2) ? 0x7bff : 0;
    const uint16_t below = (uint16_t)(gp_rng_below(rng, 16) ? gp_rng_below(rng, 0x7c00) : end);
    const double low = (double)gp_f16_to_f32(below);
    const double high = below == 0x7bff ? 65536.0 : (double)gp_f16_to_f32(below + 1);
    const float sign = gp_rng_below(rng, 2) ? -1.0f : 1.0f;
    float half = (float)((low + high) / 2);
    uint32_t bits;

    if (gp_rng_below(rng, 2))
        return sign * half;
    memcpy(&bits, &half, sizeof bits);
    bits = (bits & 0xffff0000) | 0x8000;
    memcpy(&half, &bits, sizeof half);
    return sign * half;
}

void check_fill(float *x, size_t n, enum check_fill kind, struct gp_rng *rng)
{
    for (size_t i = 0; i < n; i++) {
        const double normal = gp_rng_normal(rng);

        switch (kind) {
        case CHECK_ZERO:
            x[i] = 0.0f;
            break;
        case CHECK_SUBNORMAL:
            x[i] = (float)(normal * 0x1p-140);
            break;
        case CHECK_HUGE:
            x[i] = (float)(normal * 0x1p57);
            break;
        case CHECK_CANCELLING:
            x[i] = i % 2 ? -x[i - 1] * (1.0f + (float)(normal * 0x1p-20)) : (float)(normal * 1000);
            break;
        case CHECK_MIXED:
            x[i] = gp_rng_below(rng, 3) ? (float)normal : gp_rng_below(rng, 2) ? -0.0f : 1e-30f;
            break;
        case CHECK_TIES:
            x[i] = tie(rng);
            break;
        default:
            x[i] = (float)normal;
            break;
        }
    }
}

float *check_floats(size_t n, enum check_fill kind, struct gp_rng *rng)
{
    float *x = check_guarded(n * sizeof *x);

    check_fill(x, n, kind, rng);
    return x;
}

void check_same(const float *want, const float *got, size_t n, const char *words, ...)
{
    char text[256];
    va_list args;

    for (size_t i = 0; i < n; i++) {
        if (memcmp(&want[i], &got[i], sizeof *want) == 0)
            continue;
        va_start(args, words);
        vsnprintf(text, sizeof text, words, args);
        va_end(args);
        fail_msg("%s: element %zu is %a, want %a (GP_SEED=%llu)", text, i, (double)got[i],
                 (double)want[i], (unsigned long long)check_seed());
    }
}
