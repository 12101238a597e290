#include "sim/fake_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "kv/plan.h"

uint64_t fake_mix(uint64_t a, uint64_t b)
{
    uint64_t z = (a + 0x9E3779B97F4A7C15u) * 0xBF58476D1CE4E5B9u;

    z = ((z ^ (z >> 29)) + b) * 0x94D049BB133111EBu;
    return z ^ (z >> 32);
}

static uint64_t *cell(const struct fake_cache *cache, const uint32_t *table, uint32_t slot,
                      uint32_t head)
{
    size_t page = table[slot / cache->page_tokens];

    return &cache->cells[(page * cache->page_tokens + slot % cache->page_tokens) * FAKE_HEADS +
                         head];
}

/* Order counts: a sum that ignored it would not notice two slots that changed places. */
static uint64_t look(const struct fake_cache *cache, const uint32_t *table, uint32_t slots,
                     uint32_t head)
{
    uint64_t sum = 0, b = cache->page_tokens;

    for (uint32_t first = 0; first < slots; first += cache->page_tokens) {
        const uint64_t *cells = cell(cache, table, first, head);

        for (uint64_t i = 0; i < b && first + i < slots; i++)
            sum += cells[i * FAKE_HEADS] * (2 * (first + i) + 1);
    }
    return sum;
}

uint64_t fake_row(const struct fake_cache *cache, const uint32_t *table, uint32_t slot,
                  uint32_t token, uint32_t position)
{
    uint64_t seen = fake_mix(token, position);

    for (uint32_t head = 0; head < FAKE_HEADS; head++) {
        *cell(cache, table, slot, head) = fake_mix(seen, head);
        seen = fake_mix(look(cache, table, slot + 1, head), seen);
    }
    return seen;
}

uint64_t fake_summary(uint64_t summary, bool fresh, uint64_t seen)
{
    return fresh ? seen : fake_mix(summary, seen);
}

uint32_t fake_next(uint64_t seen)
{
    return (uint32_t)(seen >> 32);
}

struct gp_signal fake_measure(const struct fake_cache *cache, const uint32_t *table, uint32_t slots,
                              uint64_t summary)
{
    uint64_t seen = summary;

    for (uint32_t head = 0; head < FAKE_HEADS; head++)
        seen = fake_mix(look(cache, table, slots - cache->page_tokens, head), seen);
    double delta = ((double)(seen % 2001) - 1000.0) * 1e-5;

    return (struct gp_signal){.demand_short = 0.5 + delta, .demand_long = 0.5, .delta = delta};
}

struct scored {
    uint64_t score;
    uint32_t slot;
};

static int best_first(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->slot > y->slot ? -1 : x->slot < y->slot;
}

/* Quotas of the pages first, then the best of the rest. */
static void choose(const struct scored *order, uint32_t history, uint32_t page_tokens,
                   const struct gp_retention *r, bool *chosen)
{
    uint32_t taken[FAKE_SLOTS_MAX] = {0}, count = 0;

    for (uint32_t i = 0; i < history; i++) {
        uint32_t page = order[i].slot / page_tokens;

        chosen[order[i].slot] = taken[page] < r->local;
        if (chosen[order[i].slot]) {
            taken[page]++;
            count++;
        }
    }
    gp_assert(count <= r->keep);
    for (uint32_t i = 0; i < history && count < r->keep; i++)
        if (!chosen[order[i].slot]) {
            chosen[order[i].slot] = true;
            count++;
        }
    gp_assert(count == r->keep);
}

void fake_compact_head(const struct fake_cache *cache, const uint32_t *table, uint32_t slots,
                       uint64_t summary, const struct gp_retention *r, uint32_t head)
{
    uint32_t history = slots - r->protect, count = 0;
    struct scored order[FAKE_SLOTS_MAX];
    uint32_t kept[FAKE_SLOTS_MAX], moves[2 * FAKE_SLOTS_MAX];
    bool chosen[FAKE_SLOTS_MAX];

    gp_assert(slots <= FAKE_SLOTS_MAX && r->protect <= slots);
    gp_assert(r->keep + r->protect <= r->pages_after * cache->page_tokens);
    gp_assert(r->keep <= history);
    for (uint32_t i = 0; i < history; i++)
        order[i] = (struct scored){fake_mix(*cell(cache, table, i, head), summary), i};
    qsort(order, history, sizeof order[0], best_first);
    choose(order, history, cache->page_tokens, r, chosen);
    for (uint32_t i = 0; i < history; i++)
        if (chosen[i])
            kept[count++] = i;
    uint32_t move_count = gp_plan_shift(kept, count, slots, r->protect, moves);

    for (uint32_t i = 0; i < move_count; i++)
        *cell(cache, table, moves[2 * i + 1], head) = *cell(cache, table, moves[2 * i], head);
}

void fake_compact(const struct fake_cache *cache, const uint32_t *table, uint32_t slots,
                  uint64_t summary, const struct gp_retention *r)
{
    for (uint32_t head = 0; head < FAKE_HEADS; head++)
        fake_compact_head(cache, table, slots, summary, r, head);
}

void fake_copy(const struct fake_cache *cache, uint32_t from, uint32_t to, uint32_t slots)
{
    size_t page_cells = (size_t)cache->page_tokens * FAKE_HEADS;

    gp_assert(slots <= cache->page_tokens && from != to);
    memcpy(cache->cells + to * page_cells, cache->cells + from * page_cells,
           slots * FAKE_HEADS * sizeof *cache->cells);
}

void fake_cells(const struct fake_cache *cache, const uint32_t *table, uint32_t slot,
                uint64_t out[FAKE_HEADS])
{
    memcpy(out, cell(cache, table, slot, 0), FAKE_HEADS * sizeof *out);
}
