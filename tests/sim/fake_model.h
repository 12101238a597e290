/* A model of no intelligence whose every number depends on every slot of its cache.
 *
 * Stands in for weights and kernels where only the bookkeeping is under test: a token that is
 * wrong, a slot that was overwritten, a kept set that differs, or a summary that missed a row
 * changes all that is drawn afterwards.  Two heads; the second one's cells hold what the first one
 * saw, as in a deep model.
 *
 * A cache is [page][slot][head] numbers, addressed through a table of pages. */
#ifndef GP_TESTS_FAKE_MODEL_H
#define GP_TESTS_FAKE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/policy.h"

#define FAKE_HEADS     2u
#define FAKE_SLOTS_MAX 1024u

struct fake_cache {
    uint64_t *cells;
    uint32_t page_tokens;
};

uint64_t fake_mix(uint64_t a, uint64_t b);

/* Run one row: write its cells into `slot`, look at all slots up to it, and return what it saw. */
uint64_t fake_row(const struct fake_cache *cache, const uint32_t *table, uint32_t slot,
                  uint32_t token, uint32_t position);

/* The summary after a generated row that saw `seen`. */
uint64_t fake_summary(uint64_t summary, bool fresh, uint64_t seen);

/* The token that follows a row. */
uint32_t fake_next(uint64_t seen);

/* delta in [-0.01, 0.01], of all slots but the last page's. */
struct gp_signal fake_measure(const struct fake_cache *cache, const uint32_t *table, uint32_t slots,
                              uint64_t summary);

/* Compress & Hold over slots [0, slots), one kept set a head. */
void fake_compact(const struct fake_cache *cache, const uint32_t *table, uint32_t slots,
                  uint64_t summary, const struct gp_retention *r);
/* One head of it. */
void fake_compact_head(const struct fake_cache *cache, const uint32_t *table, uint32_t slots,
                       uint64_t summary, const struct gp_retention *r, uint32_t head);

/* The first slots of a page to another. */
void fake_copy(const struct fake_cache *cache, uint32_t from, uint32_t to, uint32_t slots);

/* What a slot holds. */
void fake_cells(const struct fake_cache *cache, const uint32_t *table, uint32_t slot,
                uint64_t out[FAKE_HEADS]);

#endif
