/* The slab: one mapping taken at start, from which requests get their contiguous memory.
 *
 * First fit over units of GP_SLAB_UNIT bytes; untouched units cost no memory.  Not thread-safe: the
 * engine's lock guards it. */
#ifndef GP_ENGINE_SLAB_H
#define GP_ENGINE_SLAB_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define GP_SLAB_UNIT 4096u

struct gp_slab {
    uint8_t *bytes;
    size_t unit_count;
    size_t used;     /* units that are out                                        */
    size_t hint;     /* no free unit lies before this one                         */
    uint64_t *taken; /* one bit a unit                                            */
};

int gp_slab_open(struct gp_slab *slab, size_t bytes, struct gp_error *err);
void gp_slab_close(struct gp_slab *slab); /* asserts that everything came back */

/* A zeroed, 64-byte aligned block, or NULL when no run of units is long enough. */
void *gp_slab_take(struct gp_slab *slab, size_t bytes);
void gp_slab_give(struct gp_slab *slab, void *block, size_t bytes);

#endif
