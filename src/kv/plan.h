/* Plans of moves: where the survivors of a compaction go (spec.md section 4).
 *
 * Slots in, pairs of slots out; touches no byte of a page.  A plan is an array of uint32_t,
 * `from` and `to` alternating, which is the layout of the kernels' struct gp_move: this room may
 * not include that one, and the engine, which knows both, passes the one as the other. */
#ifndef GP_KV_PLAN_H
#define GP_KV_PLAN_H

#include <stdint.h>

/* Move the survivors of one head down to slots 0, 1, 2 ... in their order (`shift`).
 *   kept [keep]   the history slots that stay, ascending, below slots - protect
 *   slots         slots in use before; the newest `protect` of them stay as well
 *   moves         [2 * (keep + protect)] from and to of each move, both ascending, to < from
 * Returns how many moves there are; a survivor that already lies right has none. */
uint32_t gp_plan_shift(const uint32_t *kept, uint32_t keep, uint32_t slots, uint32_t protect,
                       uint32_t *moves);

/* Move as little as can be: survivors beyond the first `count` slots go into the holes among those.
 *   stay [count]  the slots that stay, ascending
 *   moves         [2 * count]; no slot is read after it was written */
uint32_t gp_plan_fill(const uint32_t *stay, uint32_t count, uint32_t slots, uint32_t *moves);

/* As gp_plan_shift(), but kept may be in any order, and stays in it; keep + protect < slots.  Moves
 * are carried out in their order; the slot behind the survivors may serve as a place in
 * between.
 *   moves    [2 * (keep + protect) + 2 * ((keep + protect) / 2)]
 *   scratch  [slots] */
uint32_t gp_plan_order(const uint32_t *kept, uint32_t keep, uint32_t slots, uint32_t protect,
                       uint32_t *moves, uint32_t *scratch);

#endif
