/* How prompt rows are spread, on a machine whose times are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "engine/pace.h"

/* A step of decode rows, and what a prompt row adds at a depth: fixed costs, and attention. */
struct machine {
    double step_ns, decode_ns, row_ns, depth_ns;
};

static const struct machine small = {4e6, 1e6, 1.7e6, 9e2};

static double alone(const struct machine *m, uint32_t decode_rows)
{
    return m->step_ns + m->decode_ns * decode_rows;
}

static double beside(const struct machine *m, uint32_t decode_rows, uint32_t rows, uint32_t depth)
{
    return alone(m, decode_rows) + rows * (m->row_ns + m->depth_ns * (depth + rows / 2.0));
}

static void run_alone(struct gp_pace *pace, const struct machine *m, uint32_t rows, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++)
        gp_pace_ran(pace, rows, 0, (uint64_t)alone(m, rows));
}

/* A prompt beside `streams`; times are off by a factor of up to 1 + noise.  The longest step over
 * one without prompts, and *steps with prompts. */
static double read_prompt(struct gp_pace *pace, const struct machine *m, uint32_t streams,
                          uint32_t tokens, double noise, uint32_t *steps)
{
    struct gp_rng rng = {7};
    double worst = 0;

    *steps = 0;
    for (uint32_t done = 0, idle = 0; done < tokens;) {
        uint32_t rows = gp_pace_rows(pace);

        rows = rows < tokens - done ? rows : tokens - done;
        idle = rows ? 0 : idle + 1;
        assert_true(idle < 2);
        double ns = beside(m, streams, rows, done) * (1 + noise * gp_rng_uniform(&rng));

        gp_pace_ran(pace, streams, rows, (uint64_t)ns);
        worst = ns > worst ? ns : worst;
        done += rows;
        *steps += rows > 0;
    }
    return worst / alone(m, streams);
}

/* What a pace of three steps has learned from `streams` and from a prompt beside them. */
static struct gp_pace learned(uint32_t streams, uint32_t tokens)
{
    struct gp_pace pace = {.stall = 3};
    uint32_t steps;

    run_alone(&pace, &small, streams, 20);
    read_prompt(&pace, &small, streams, tokens, 0, &steps);
    return pace;
}

static void no_step_is_longer_than_was_asked_for(void **state)
{
    static const double stalls[] = {1.5, 2, 3, 10};
    static const uint32_t streams[] = {1, 8, 64};
    uint32_t steps;

    (void)state;
    for (size_t i = 0; i < sizeof stalls / sizeof *stalls; i++)
        for (size_t j = 0; j < sizeof streams / sizeof *streams; j++) {
            struct gp_pace pace = {.stall = stalls[i]};
            double floor = beside(&small, streams[j], 1, 8000) / alone(&small, streams[j]);
            double first = beside(&small, streams[j], 8, 0) / alone(&small, streams[j]);
            double bound = stalls[i] > floor ? stalls[i] : floor;

            run_alone(&pace, &small, streams[j], 20);
            double worst = read_prompt(&pace, &small, streams[j], 8000, 0.1, &steps);

            assert_true(worst <= (bound > first ? bound : first) * 1.1);
        }
}

static void what_is_allowed_is_used(void **state)
{
    struct gp_pace pace = {.stall = 3};
    double whole = 0;
    uint32_t steps;

    (void)state;
    run_alone(&pace, &small, 8, 20);
    read_prompt(&pace, &small, 8, 8000, 0, &steps);
    for (uint32_t depth = 0; depth < 8000; depth++)
        whole += small.row_ns + small.depth_ns * depth;
    /* Two steps' time of prompt rows in each would be all; a half of that is little. */
    assert_true(steps < 2 * whole / (2 * alone(&small, 8)));
}

static void a_disturbed_step_is_forgotten(void **state)
{
    struct gp_pace pace = learned(8, 500);
    uint32_t before = gp_pace_rows(&pace);
    uint32_t steps;

    (void)state;
    gp_pace_ran(&pace, 8, before, (uint64_t)(20 * alone(&small, 8)));
    assert_true(gp_pace_rows(&pace) < before);
    read_prompt(&pace, &small, 8, 500, 0, &steps);
    assert_true(gp_pace_rows(&pace) >= before * 9 / 10);
}

static void a_disturbed_step_without_prompts_lets_no_more_in(void **state)
{
    struct gp_pace pace = learned(8, 500);

    (void)state;
    run_alone(&pace, &small, 8, 1);
    uint32_t before = gp_pace_rows(&pace);

    gp_pace_ran(&pace, 8, 0, (uint64_t)(20 * alone(&small, 8)));
    assert_true(gp_pace_rows(&pace) <= before * 5 / 4);
    /* ... and not for long; streams that really take longer are believed by and by. */
    run_alone(&pace, &small, 8, 4);
    assert_true(gp_pace_rows(&pace) <= before * 9 / 8);
    for (uint32_t i = 0; i < 20; i++)
        gp_pace_ran(&pace, 8, 0, (uint64_t)(2 * alone(&small, 8)));
    assert_true(gp_pace_rows(&pace) >= before * 3 / 2);
}

static void other_streams_are_timed_anew(void **state)
{
    struct gp_pace pace = learned(64, 300);
    uint32_t steps;

    (void)state;
    /* Most of them leave: the next step tells, the one after it has no prompt. */
    gp_pace_ran(&pace, 4, 1, (uint64_t)beside(&small, 4, 1, 300));
    assert_int_equal(gp_pace_rows(&pace), 0);
    gp_pace_ran(&pace, 4, 0, (uint64_t)alone(&small, 4));
    assert_true(read_prompt(&pace, &small, 4, 300, 0, &steps) <= 3);
}

static void without_a_limit_there_is_none(void **state)
{
    struct gp_pace pace = {0};

    (void)state;
    gp_pace_ran(&pace, 8, 0, 1000);
    gp_pace_ran(&pace, 8, 500, 1000000000);
    assert_int_equal(gp_pace_rows(&pace), UINT32_MAX);
}

static void nobody_waits_for_prompts_alone(void **state)
{
    struct gp_pace pace = {.stall = 3}, before;

    (void)state;
    run_alone(&pace, &small, 8, 20);
    before = pace;
    gp_pace_ran(&pace, 0, 512, 1000000000);
    assert_memory_equal(&pace, &before, sizeof pace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_step_is_longer_than_was_asked_for),
        cmocka_unit_test(what_is_allowed_is_used),
        cmocka_unit_test(a_disturbed_step_is_forgotten),
        cmocka_unit_test(a_disturbed_step_without_prompts_lets_no_more_in),
        cmocka_unit_test(other_streams_are_timed_anew),
        cmocka_unit_test(without_a_limit_there_is_none),
        cmocka_unit_test(nobody_waits_for_prompts_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
