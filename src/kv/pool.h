/* The page pool: who holds which page.  Books only: no byte of a page is touched here.
 *
 * A page is *free* (no reference), *owned* (one) or *shared* (more).  Free pages wait in the
 * order in which they were released and are taken oldest first, so that what was cached in them
 * stays findable as long as can be.  One thread, the engine's, calls all of this. */
#ifndef GP_KV_POOL_H
#define GP_KV_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define GP_PAGE_NONE UINT32_MAX

struct gp_pool;

int gp_pool_open(struct gp_pool **out, uint32_t page_count, struct gp_error *err);
void gp_pool_close(struct gp_pool *pool); /* asserts that every page came back; NULL is fine */

uint32_t gp_pool_total(const struct gp_pool *pool);
uint32_t gp_pool_free_count(const struct gp_pool *pool);
uint32_t gp_pool_used_max(const struct gp_pool *pool); /* most pages out at once */
void gp_pool_begin_max(struct gp_pool *pool);          /* ... from now on */
uint32_t gp_pool_refs(const struct gp_pool *pool, uint32_t page);

/* Take n pages, each with one reference, or none at all (false). */
bool gp_pool_take(struct gp_pool *pool, uint32_t n, uint32_t *pages);
/* One reference more; a free page is taken from wherever it waits, its bytes as they were left. */
void gp_pool_ref(struct gp_pool *pool, uint32_t page);
void gp_pool_unref(struct gp_pool *pool, uint32_t page); /* the last one frees it */

/* Test hook: refuse the nth take from now although pages are there; 0 turns it off. */
void gp_pool_refuse_at(struct gp_pool *pool, uint64_t nth);

/* Walk everything: used + free = total, no page twice on the list, references where they belong. */
void gp_pool_check(const struct gp_pool *pool);

#endif
