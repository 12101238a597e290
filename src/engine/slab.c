#include "engine/slab.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "base/mem.h"

/* A block of at least this size is cleared by handing its memory to the system, which also keeps
 * one giant request from leaving the process large for ever. */
#define DROP_BYTES (1u << 20)

static void clear(void *block, size_t bytes)
{
    if (bytes >= DROP_BYTES)
        madvise(block, (bytes + GP_SLAB_UNIT - 1) / GP_SLAB_UNIT * GP_SLAB_UNIT, MADV_DONTNEED);
    else
        memset(block, 0, bytes);
}

static bool is_taken(const struct gp_slab *slab, size_t unit)
{
    return slab->taken[unit / 64] >> (unit % 64) & 1;
}

static void mark(struct gp_slab *slab, size_t begin, size_t count, bool taken)
{
    for (size_t unit = begin; unit < begin + count; unit++) {
        gp_dassert(is_taken(slab, unit) != taken);
        slab->taken[unit / 64] ^= (uint64_t)1 << (unit % 64);
    }
}

static size_t units_of(size_t bytes)
{
    return bytes / GP_SLAB_UNIT + (bytes % GP_SLAB_UNIT != 0);
}

int gp_slab_open(struct gp_slab *slab, size_t bytes, struct gp_error *err)
{
    struct gp_slab s = {.unit_count = units_of(bytes)};

    s.bytes = gp_mem_map(s.unit_count * GP_SLAB_UNIT);
    s.taken = gp_mem_alloc_array(s.unit_count / 64 + 1, sizeof *s.taken);
    if (!s.bytes || !s.taken) {
        gp_mem_unmap(s.bytes, s.unit_count * GP_SLAB_UNIT);
        gp_mem_free(s.taken);
        return gp_fail(err, GP_ENOMEM, "request memory: cannot take %zu bytes", bytes);
    }
    *slab = s;
    return GP_OK;
}

void gp_slab_close(struct gp_slab *slab)
{
    gp_assert(slab->used == 0);
    gp_mem_unmap(slab->bytes, slab->unit_count * GP_SLAB_UNIT);
    gp_mem_free(slab->taken);
    *slab = (struct gp_slab){0};
}

void *gp_slab_take(struct gp_slab *slab, size_t bytes)
{
    size_t want = units_of(bytes), run = 0;

    gp_assert(want > 0);
    for (size_t unit = slab->hint; unit < slab->unit_count; unit++) {
        if (unit % 64 == 0 && run == 0 && slab->taken[unit / 64] == UINT64_MAX) {
            unit += 63;
            continue;
        }
        run = is_taken(slab, unit) ? 0 : run + 1;
        if (run < want)
            continue;
        size_t begin = unit + 1 - want;

        mark(slab, begin, want, true);
        slab->used += want;
        if (begin == slab->hint)
            slab->hint = begin + want;
        clear(slab->bytes + begin * GP_SLAB_UNIT, bytes);
        return slab->bytes + begin * GP_SLAB_UNIT;
    }
    return NULL;
}

void gp_slab_give(struct gp_slab *slab, void *block, size_t bytes)
{
    size_t begin = (size_t)((uint8_t *)block - slab->bytes) / GP_SLAB_UNIT;
    size_t count = units_of(bytes);

    gp_assert((uint8_t *)block >= slab->bytes && begin + count <= slab->unit_count);
    gp_assert(slab->used >= count);
    if (bytes >= DROP_BYTES)
        clear(block, bytes);
    mark(slab, begin, count, false);
    slab->used -= count;
    if (begin < slab->hint)
        slab->hint = begin;
}
