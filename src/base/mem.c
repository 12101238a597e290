#include "base/mem.h"

#include "base/assert.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static atomic_uint_fast64_t live;
static atomic_uint_fast64_t refuse_in; /* 0: off, 1: the next one */
static atomic_bool refused;
static _Thread_local bool frozen;

static bool refuse_this(void)
{
    uint_fast64_t left = atomic_load(&refuse_in);

    while (left > 0)
        if (atomic_compare_exchange_weak(&refuse_in, &left, left - 1)) {
            if (left == 1)
                atomic_store(&refused, true);
            return left == 1;
        }
    return false;
}

void *gp_mem_alloc(size_t bytes)
{
    gp_assert(!frozen);
    if (bytes > SIZE_MAX - 63 || refuse_this())
        return NULL;
    size_t rounded = bytes == 0 ? 64 : (bytes + 63) / 64 * 64;
    void *block = aligned_alloc(64, rounded);

    if (!block)
        return NULL;
    memset(block, 0, rounded);
    atomic_fetch_add(&live, 1);
    return block;
}

void *gp_mem_alloc_array(size_t count, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    return gp_mem_alloc(bytes);
}

void *gp_mem_realloc(void *block, size_t old_bytes, size_t new_bytes)
{
    void *grown = gp_mem_alloc(new_bytes);

    if (!grown)
        return NULL;
    if (block)
        memcpy(grown, block, old_bytes < new_bytes ? old_bytes : new_bytes);
    gp_mem_free(block);
    return grown;
}

char *gp_mem_copy(const char *bytes, size_t length)
{
    if (length == SIZE_MAX)
        return NULL;
    char *copy = gp_mem_alloc(length + 1);

    if (copy)
        memcpy(copy, bytes, length);
    return copy;
}

void gp_mem_free(void *block)
{
    if (!block)
        return;
    gp_assert(atomic_fetch_sub(&live, 1) > 0);
    free(block);
}

void *gp_mem_map(size_t bytes)
{
    gp_assert(!frozen);
    if (bytes == 0 || refuse_this())
        return NULL;
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (block == MAP_FAILED)
        return NULL;
    madvise(block, bytes, MADV_HUGEPAGE);
    atomic_fetch_add(&live, 1);
    return block;
}

void gp_mem_unmap(void *block, size_t bytes)
{
    if (!block)
        return;
    gp_assert(atomic_fetch_sub(&live, 1) > 0);
    munmap(block, bytes);
}

uint64_t gp_mem_live(void)
{
    return atomic_load(&live);
}

void gp_mem_refuse_at(uint64_t nth)
{
    atomic_store(&refused, false);
    atomic_store(&refuse_in, nth);
}

bool gp_mem_refused(void)
{
    return atomic_load(&refused);
}

void gp_mem_freeze(void)
{
    frozen = true;
}

void gp_mem_thaw(void)
{
    frozen = false;
}

bool gp_mem_frozen(void)
{
    return frozen;
}
