/* Plans of moves. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worked_example),
        cmocka_unit_test(keeping_everything_moves_nothing),
        cmocka_unit_test(survivors_end_up_in_order),
    };
    const char *text = getenv("GP_SEED");

    seed = text ? strtoull(text, NULL, 10) : 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
