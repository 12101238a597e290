#include "kv/plan.h"

#include <stdbool.h>

#include "base/assert.h"

uint32_t gp_plan_shift(const uint32_t *kept, uint32_t keep, uint32_t slots, uint32_t protect,
                       uint32_t *moves)
{
    uint32_t count = 0;

    gp_assert(protect <= slots);
    gp_assert(keep <= slots - protect);
    for (uint32_t to = 0; to < keep + protect; to++) {
        uint32_t from = to < keep ? kept[to] : slots - protect + (to - keep);

        gp_dassert(from >= to && from < slots);
        gp_dassert(to == 0 || to >= keep || from > kept[to - 1]);
        gp_dassert(to >= keep || from < slots - protect);
        if (from == to)
            continue;
        moves[2 * count] = from;
        moves[2 * count + 1] = to;
        count++;
    }
    return count;
}

uint32_t gp_plan_fill(const uint32_t *stay, uint32_t count, uint32_t slots, uint32_t *moves)
{
    uint32_t moved = 0, below = 0, hole = 0;

    gp_assert(count <= slots);
    while (below < count && stay[below] < count)
        below++;
    for (uint32_t from = below, at = 0; from < count; from++, hole++) {
        for (; at < below && stay[at] == hole; at++)
            hole++;
        gp_dassert(stay[from] < slots && hole < count);
        moves[2 * moved] = stay[from];
        moves[2 * moved + 1] = hole;
        moved++;
    }
    return moved;
}

struct order {
    const uint32_t *kept;
    uint32_t keep, slots, protect;
    uint32_t *reader; /* [slots] the slot that wants what lies here; NOBODY: none, or it has it */
    uint32_t *moves;
    uint32_t count;
};

#define NOBODY UINT32_MAX

static uint32_t source_of(const struct order *o, uint32_t to)
{
    return to < o->keep ? o->kept[to] : o->slots - o->protect + (to - o->keep);
}

static bool waits(const struct order *o, uint32_t to)
{
    return o->reader[source_of(o, to)] == to;
}

static void add_move(struct order *o, uint32_t from, uint32_t to)
{
    o->moves[2 * o->count] = from;
    o->moves[2 * o->count + 1] = to;
    o->count++;
}

/* Nothing in slot `to` is wanted any more: fill it, then the slot that this emptied, and so on. */
static void follow(struct order *o, uint32_t to, uint32_t stay)
{
    while (to < stay && waits(o, to)) {
        uint32_t from = source_of(o, to);

        add_move(o, from, to);
        o->reader[from] = NOBODY;
        to = from;
    }
}

uint32_t gp_plan_order(const uint32_t *kept, uint32_t keep, uint32_t slots, uint32_t protect,
                       uint32_t *moves, uint32_t *scratch)
{
    struct order o = {kept, keep, slots, protect, scratch, moves, 0};
    uint32_t stay = keep + protect;

    gp_assert(protect <= slots && keep < slots - protect);
    for (uint32_t i = 0; i < slots; i++)
        scratch[i] = NOBODY;
    for (uint32_t to = 0; to < stay; to++) {
        gp_dassert(source_of(&o, to) < slots && scratch[source_of(&o, to)] == NOBODY);
        scratch[source_of(&o, to)] = to;
    }
    for (uint32_t to = 0; to < stay; to++)
        if (scratch[to] == NOBODY)
            follow(&o, to, stay);
    /* What is left goes in circles.  Whoever came from beyond `stay` has moved by now, so there is
     * a slot to break them with. */
    for (uint32_t to = 0; to < stay; to++) {
        if (!waits(&o, to) || source_of(&o, to) == to)
            continue;
        uint32_t last = scratch[to];

        add_move(&o, to, stay);
        scratch[to] = NOBODY;
        follow(&o, to, stay);
        add_move(&o, stay, last);
    }
    return o.count;
}
