/* A trace read back: its sums, its rows as signs, and its bad lines by number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "eval/timeline.h"

#define START                                                                                      \
    "{\"event\":\"start\",\"t_ms\":0.1,\"step\":0,\"version\":\"1\",\"model\":\"m\","              \
    "\"policy\":\"growpage\",\"page_size\":16,\"pages\":9}\n"
#define OF(event, step, request, rest)                                                             \
    "{\"event\":\"" event "\",\"t_ms\":" #step ".5,\"step\":" #step ",\"request\":" #request       \
    ",\"choice\":0" rest "}\n"

/* Two requests over ten steps: the second is preempted in step 4 and runs again from step 7. */
static const char two[] = START OF("admit", 0, 7, ",\"pages\":1") OF("admit", 0, 8, ",\"pages\":2")
    OF("boundary", 2, 7, ",\"decision\":\"grow\",\"cause\":\"policy\",\"demand_ms\":2.5")
        OF("grow", 2, 7, ",\"pages\":2")
            OF("boundary", 4, 7, ",\"decision\":\"grow\",\"cause\":\"initial\",\"demand_ms\":null")
                OF("fallback", 4, 7, ",\"pages\":2,\"to\":\"preempt\"")
                    OF("preempt", 4, 8, ",\"tokens\":9") OF("grow", 4, 7, ",\"pages\":4")
                        OF("resume", 7, 8, ",\"pages\":2,\"mode\":\"replay\"")
                            OF("compact", 8, 8,
                               ",\"pages_after\":1,\"moved\":11,\"score_ms\":1,\"select_ms\":2.5,"
                               "\"move_ms\":3,\"replay\":true") OF("prefix_hit", 8, 8,
                                                                   ",\"pages\":1,\"tokens\":16")
                                OF("finish", 9, 8, ",\"reason\":\"stop\",\"output_tokens\":5") OF(
                                    "news", 9, 7,
                                    ",\"from\":\"the future\"") "{\"event\":\"end\",\"t_ms\":9.75,"
                                                                "\"step\":9,\"output_tokens\":5}\n";

static struct gp_timeline read_text(const char *text)
{
    struct gp_timeline timeline;
    struct gp_error err = {""};

    if (gp_timeline_read(&timeline, text, strlen(text), &err))
        fail_msg("%s", err.message);
    return timeline;
}

static void sums_are_those_of_the_events(void **state)
{
    static const uint64_t expected[GP_SUM_COUNT] = {
        [GP_SUM_ADMIT] = 2,   [GP_SUM_FINISH] = 1,         [GP_SUM_OUTPUT_TOKENS] = 5,
        [GP_SUM_GROW] = 1,    [GP_SUM_INITIAL] = 1,        [GP_SUM_FALLBACK] = 1,
        [GP_SUM_PREEMPT] = 1, [GP_SUM_RESUME] = 1,         [GP_SUM_PREFIX_HIT] = 1,
        [GP_SUM_COMPACT] = 1, [GP_SUM_PREFIX_TOKENS] = 16, [GP_SUM_REPLAYED] = 1,
        [GP_SUM_MOVED] = 11,
    };
    struct gp_timeline t = read_text(two);

    (void)state;
    assert_int_equal(t.bad_count, 0);
    assert_int_equal(t.passed_over, 1);
    assert_int_equal(t.count, 1);
    const struct gp_timeline_run *run = &t.runs[0];

    for (uint32_t i = 0; i < GP_SUM_COUNT; i++)
        if (run->sums[i] != expected[i])
            fail_msg("%s: %llu", gp_timeline_sum_name((enum gp_timeline_sum)i),
                     (unsigned long long)run->sums[i]);
    assert_true(run->ended && run->steps == 9 && run->ms == 9.75);
    assert_true(run->demand_ms == 2.5 && run->score_ms == 1 && run->select_ms == 2.5 &&
                run->move_ms == 3);
    assert_string_equal(run->policy, "growpage");
    gp_timeline_free(&t);
}

static void a_row_shows_pages_and_what_happened(void **state)
{
    char signs[GP_TIMELINE_BYTES];
    struct gp_timeline t = read_text(two);
    const struct gp_timeline_run *run = &t.runs[0];

    (void)state;
    assert_int_equal(run->row_count, 2);
    assert_int_equal(run->rows[0].request, 7);
    gp_timeline_draw(run, &run->rows[0], 10, false, signs);
    assert_string_equal(signs, "::G=F#####"); /* of 4 pages: 1, 2, then 4 */
    gp_timeline_draw(run, &run->rows[1], 10, false, signs);
    assert_string_equal(signs, "====P__RC:");
    gp_timeline_draw(run, &run->rows[1], 5, false, signs);
    assert_string_equal(signs, "==PRC");
    gp_timeline_draw(run, &run->rows[1], 1, true, signs);
    assert_string_equal(signs, "P");
    gp_timeline_free(&t);
}

static void a_file_may_hold_several_runs(void **state)
{
    char text[2 * sizeof two];

    (void)state;
    snprintf(text, sizeof text, "%s%s", two, two);
    struct gp_timeline t = read_text(text);

    assert_int_equal(t.count, 2);
    assert_int_equal(t.bad_count, 0);
    assert_int_equal(t.runs[1].row_count, 2);
    gp_timeline_free(&t);
}

static void bad_lines_are_named_and_the_rest_is_read(void **state)
{
    static const struct {
        const char *line, *why;
    } cases[] = {
        {"{", "not JSON"},
        {"[1]", "not an object"},
        {"{\"event\":\"grow\",\"event\":\"grow\"}", "not JSON: duplicate"},
        {"{\"event\":3,\"t_ms\":1,\"step\":1}", "event: must be a text"},
        {"{\"event\":\"grow\",\"step\":1}", "t_ms: must be a number"},
        {"{\"event\":\"grow\",\"t_ms\":1,\"step\":-1}", "step: must be a whole number"},
        {OF("grow", 1, -7, ",\"pages\":2"), "request: must be a whole number"},
        {OF("grow", 1, 7, ",\"pages\":4294967296"), "pages: must be below 2^32"},
        {OF("boundary", 1, 7, ",\"decision\":\"wait\",\"cause\":\"policy\""),
         "decision: must be one of grow|compress|shrink"},
        {"{\"event\":\"start\",\"t_ms\":1,\"step\":1}", "page_size: must be a whole number"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[sizeof two + 512];

        snprintf(text, sizeof text, "%s%s\n%s", START, cases[i].line, two);
        struct gp_timeline t = read_text(text);

        assert_int_equal(t.bad_count, 1);
        assert_int_equal(t.bad[0].line, 2);
        if (!strstr(t.bad[0].why, cases[i].why))
            fail_msg("%s: %s", cases[i].line, t.bad[0].why);
        assert_int_equal(t.count, 2);
        assert_int_equal(t.runs[1].sums[GP_SUM_ADMIT], 2);
        gp_timeline_free(&t);
    }
}

static void time_goes_forward_between_a_start_and_an_end(void **state)
{
    struct gp_timeline t = read_text(
        OF("admit", 0, 7, ",\"pages\":1") START OF("admit", 5, 7, ",\"pages\":1")
            OF("grow", 4, 7, ",\"pages\":2") "{\"event\":\"end\",\"t_ms\":9,\"step\":5}\n" OF(
                "grow", 9, 7, ",\"pages\":2"));

    (void)state;
    assert_int_equal(t.bad_count, 3);
    assert_string_equal(t.bad[0].why, "no start before it");
    assert_string_equal(t.bad[1].why, "step: goes back");
    assert_int_equal(t.bad[1].line, 4);
    assert_string_equal(t.bad[2].why, "no start before it");
    assert_int_equal(t.runs[0].sums[GP_SUM_ADMIT], 1);
    gp_timeline_free(&t);
}

/* Any cut and any flipped byte of a trace is read to its end. */
static void spoilt_traces_are_read_to_their_end(void **state)
{
    const char *seed = getenv("GP_SEED");
    struct gp_rng rng = {seed ? strtoull(seed, NULL, 0) : 5};
    uint64_t live = gp_mem_live();
    char text[sizeof two];

    (void)state;
    for (int i = 0; i < 5000; i++) {
        uint32_t length = gp_rng_below(&rng, sizeof two), changes = gp_rng_below(&rng, 6);
        struct gp_timeline t;

        memcpy(text, two, sizeof two);
        for (uint32_t c = 0; c < changes; c++)
            text[gp_rng_below(&rng, sizeof two)] = (char)gp_rng_below(&rng, 256);
        assert_int_equal(gp_timeline_read(&t, text, length, NULL), GP_OK);
        for (uint32_t r = 0; t.count && r < t.runs[0].row_count; r++) {
            char signs[GP_TIMELINE_BYTES];

            gp_timeline_draw(&t.runs[0], &t.runs[0].rows[r], 1 + gp_rng_below(&rng, 99), true,
                             signs);
        }
        gp_timeline_free(&t);
    }
    assert_int_equal(gp_mem_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_of_the_events),
        cmocka_unit_test(a_row_shows_pages_and_what_happened),
        cmocka_unit_test(a_file_may_hold_several_runs),
        cmocka_unit_test(bad_lines_are_named_and_the_rest_is_read),
        cmocka_unit_test(time_goes_forward_between_a_start_and_an_end),
        cmocka_unit_test(spoilt_traces_are_read_to_their_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
