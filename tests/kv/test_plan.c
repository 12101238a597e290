/* Plans of moves. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "kv/plan.h"

#define SLOTS_MAX 200u

static uint64_t seed;

#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x))                                                                                  \
            fail_msg("GP_SEED=%" PRIu64 ": %s", seed, #x);                                         \
    } while (0)

/* Page size 4, 3 pages, 1 protected, 7 of 11 kept: 8 slots stay, 4 come free. */
static void worked_example(void **state)
{
    const uint32_t kept[7] = {0, 1, 3, 4, 7, 8, 10};
    const uint32_t want[] = {3, 2, 4, 3, 7, 4, 8, 5, 10, 6, 11, 7};
    uint32_t moves[16];

    (void)state;
    assert_int_equal(gp_plan_shift(kept, 7, 12, 1, moves), 6);
    assert_memory_equal(moves, want, sizeof want);
}

static void keeping_everything_moves_nothing(void **state)
{
    uint32_t kept[8], moves[20];

    (void)state;
    for (uint32_t i = 0; i < 8; i++)
        kept[i] = i;
    assert_int_equal(gp_plan_shift(kept, 8, 10, 2, moves), 0);
    assert_int_equal(gp_plan_shift(kept, 0, 0, 0, moves), 0);
}

/* Carrying out the moves in order on an array of slot numbers leaves the survivors, in their
 * order, in the first slots: no move destroys what a later one reads. */
static void survivors_end_up_in_order(void **state)
{
    struct gp_rng rng = {seed};

    (void)state;
    for (uint32_t round = 0; round < 2000; round++) {
        uint32_t slots = 1 + gp_rng_below(&rng, SLOTS_MAX), protect = gp_rng_below(&rng, slots + 1);
        uint32_t chance = 1 + gp_rng_below(&rng, 8), keep = 0;
        uint32_t kept[SLOTS_MAX], moves[2 * SLOTS_MAX], cells[SLOTS_MAX];

        for (uint32_t i = 0; i < slots; i++)
            cells[i] = i;
        for (uint32_t i = 0; i < slots - protect; i++)
            if (gp_rng_below(&rng, chance) == 0)
                kept[keep++] = i;
        uint32_t count = gp_plan_shift(kept, keep, slots, protect, moves);

        CHECK(count <= keep + protect);
        for (uint32_t i = 0; i < count; i++) {
            CHECK(moves[2 * i + 1] < moves[2 * i]);
            cells[moves[2 * i + 1]] = cells[moves[2 * i]];
        }
        for (uint32_t i = 0; i < keep; i++)
            CHECK(cells[i] == kept[i]);
        for (uint32_t i = 0; i < protect; i++)
            CHECK(cells[keep + i] == slots - protect + i);
    }
}

/* Cells that hold their own numbers, after the moves in order. */
static void carry_out(uint32_t *cells, uint32_t slots, const uint32_t *moves, uint32_t count)
{
    for (uint32_t i = 0; i < slots; i++)
        cells[i] = i;
    for (uint32_t i = 0; i < count; i++) {
        CHECK(moves[2 * i] < slots && moves[2 * i + 1] < slots);
        cells[moves[2 * i + 1]] = cells[moves[2 * i]];
    }
}

static void filling_holes_moves_only_what_lies_beyond(void **state)
{
    struct gp_rng rng = {seed};

    (void)state;
    for (uint32_t round = 0; round < 2000; round++) {
        uint32_t slots = 1 + gp_rng_below(&rng, SLOTS_MAX), chance = 1 + gp_rng_below(&rng, 8);
        uint32_t stay[SLOTS_MAX], moves[2 * SLOTS_MAX], cells[SLOTS_MAX], count = 0, beyond = 0;
        bool stays[SLOTS_MAX] = {false}, seen[SLOTS_MAX] = {false};

        for (uint32_t i = 0; i < slots; i++)
            if (gp_rng_below(&rng, 8) >= chance) {
                stay[count++] = i;
                stays[i] = true;
            }
        for (uint32_t i = 0; i < count; i++)
            beyond += stay[i] >= count;
        CHECK(gp_plan_fill(stay, count, slots, moves) == beyond);
        carry_out(cells, slots, moves, beyond);
        for (uint32_t i = 0; i < count; i++) {
            CHECK(stays[cells[i]] && !seen[cells[i]]);
            seen[cells[i]] = true;
            CHECK(!stays[i] || cells[i] == i);
        }
    }
}

static void survivors_end_up_in_the_order_that_was_asked_for(void **state)
{
    struct gp_rng rng = {seed};
    uint32_t circles = 0;

    (void)state;
    for (uint32_t round = 0; round < 4000; round++) {
        uint32_t slots = 2 + gp_rng_below(&rng, round % 2 ? 8 : SLOTS_MAX - 2);
        uint32_t protect = gp_rng_below(&rng, slots), keep = gp_rng_below(&rng, slots - protect);
        uint32_t history = slots - protect, left = history;
        uint32_t kept[SLOTS_MAX], moves[3 * SLOTS_MAX], cells[SLOTS_MAX], scratch[SLOTS_MAX];

        for (uint32_t i = 0; i < history; i++)
            kept[i] = i;
        for (uint32_t i = 0; i < keep; i++) {
            uint32_t at = i + gp_rng_below(&rng, left--), slot = kept[at];

            kept[at] = kept[i];
            kept[i] = slot;
        }
        uint32_t count = gp_plan_order(kept, keep, slots, protect, moves, scratch);

        CHECK(count <= keep + protect + (keep + protect) / 2);
        carry_out(cells, slots, moves, count);
        for (uint32_t i = 0; i < keep; i++)
            CHECK(cells[i] == kept[i]);
        for (uint32_t i = 0; i < protect; i++)
            CHECK(cells[keep + i] == slots - protect + i);
        for (uint32_t i = 0; i < count; i++)
            circles += moves[2 * i + 1] == keep + protect;
    }
    assert_true(circles > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worked_example),
        cmocka_unit_test(keeping_everything_moves_nothing),
        cmocka_unit_test(survivors_end_up_in_order),
        cmocka_unit_test(filling_holes_moves_only_what_lies_beyond),
        cmocka_unit_test(survivors_end_up_in_the_order_that_was_asked_for),
    };
    const char *text = getenv("GP_SEED");

    seed = text ? strtoull(text, NULL, 10) : 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
