#include "kv/plan.h"

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
