/* Levels: what this machine has, what was asked for, and the table that follows. */
#include "kernels/kernels.h"

#include <cpuid.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "kernels/internal.h"

/* The registers that the operating system saves (XCR0).  An instruction of its own, written out so
 * that this file needs no wider flags than any other. */
static uint64_t saved_registers(void)
{
    uint32_t low, high;

    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

#define LEAF1_ECX_AVX2   (bit_FMA | bit_OSXSAVE | bit_AVX | bit_F16C)
#define LEAF7_EBX_AVX2   (bit_AVX2 | bit_BMI2)
#define LEAF7_EBX_AVX512 (bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL)
#define LEAF7_ECX_AVX512 bit_AVX512VNNI
#define XCR0_YMM         0x6u  /* SSE and AVX state */
#define XCR0_ZMM         0xe6u /* and the masks, the upper halves, the upper sixteen */

enum gp_level gp_level_detect(void)
{
    uint32_t eax, ebx, ecx, edx;

    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || (ecx & LEAF1_ECX_AVX2) != LEAF1_ECX_AVX2)
        return GP_LEVEL_REF;
    if ((saved_registers() & XCR0_YMM) != XCR0_YMM)
        return GP_LEVEL_REF;
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) ||
        (ebx & LEAF7_EBX_AVX2) != LEAF7_EBX_AVX2)
        return GP_LEVEL_REF;
    if ((ebx & LEAF7_EBX_AVX512) != LEAF7_EBX_AVX512 ||
        (ecx & LEAF7_ECX_AVX512) != LEAF7_ECX_AVX512 || (saved_registers() & XCR0_ZMM) != XCR0_ZMM)
        return GP_LEVEL_AVX2;
    return GP_LEVEL_AVX512;
}

const char *gp_level_name(enum gp_level level)
{
    static const char *const names[GP_LEVEL_COUNT] = {"ref", "avx2", "avx512"};

    gp_assert(level < GP_LEVEL_COUNT);
    return names[level];
}

int gp_level_choose(const char *name, enum gp_level *out, struct gp_error *err)
{
    const enum gp_level best = gp_level_detect();

    if (!name || !*name) {
        *out = best;
        return GP_OK;
    }
    if (strcmp(name, "amx") == 0)
        return gp_fail(err, GP_EINVAL, "GP_CPU=%s: this build has no such level", name);
    for (int level = 0; level < GP_LEVEL_COUNT; level++) {
        if (strcmp(name, gp_level_name((enum gp_level)level)) != 0)
            continue;
        if ((enum gp_level)level > best)
            return gp_fail(err, GP_EINVAL, "GP_CPU=%s: this machine has only %s", name,
                           gp_level_name(best));
        *out = (enum gp_level)level;
        return GP_OK;
    }
    return gp_fail(err, GP_EINVAL, "GP_CPU=%s: unknown level (ref, avx2, avx512, amx)", name);
}

size_t gp_kv_block_bytes(enum gp_kv_type type, uint32_t page_tokens, uint32_t k_dim, uint32_t v_dim)
{
    const size_t bytes =
        page_tokens * (gp_kv_row_bytes(type, k_dim) + gp_kv_row_bytes(type, v_dim));

    if (type == GP_KV_Q8_0 && (k_dim % GP_KV_BLOCK || v_dim % GP_KV_BLOCK))
        return 0;
    return (bytes + 63) / 64 * 64;
}

size_t gp_attention_scratch_bytes(uint32_t g, uint32_t v_dim)
{
    (void)g; /* a bound for every level: the weights of the queries worked on together */
    (void)v_dim;
    return (size_t)GP_ATTENTION_QUERIES * GP_ATTENTION_SPLIT * sizeof(float);
}

void gp_kernels_init(struct gp_kernels *k, enum gp_level level)
{
    gp_assert(level <= gp_level_detect());
    gp_kernels_init_ref(k);
    k->level = gp_level_name(level);
    if (level < GP_LEVEL_AVX2)
        return;
    gp_kernels_init_avx2(k);
    if (level < GP_LEVEL_AVX512)
        return;
    gp_kernels_init_avx512(k);
}
