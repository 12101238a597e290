/* The one-line graph: constant space, peaks kept, time kept in order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "cli/generate.h"
#include "cli/io.h"

/* Each value is the maximum of its stride's samples, whatever was merged on the way. */
static void values_are_maxima_of_equal_stretches(void **state)
{
    const char *seed_text = getenv("GP_SEED");
    uint64_t seed = seed_text ? strtoull(seed_text, NULL, 10) : 1;
    struct gp_rng rng = {.state = seed};
    static uint32_t samples[5000];

    (void)state;
    for (int round = 0; round < 200; round++) {
        uint32_t n = 1 + gp_rng_below(&rng, 5000);
        struct gp_history h = {0};

        for (uint32_t i = 0; i < n; i++) {
            samples[i] = 1 + gp_rng_below(&rng, 100);
            gp_history_add(&h, samples[i]);
        }
        if (h.count > GP_HISTORY_COUNT || h.count != (n + h.stride - 1) / h.stride)
            fail_msg("GP_SEED=%llu round %d: %u values of stride %u for %u samples",
                     (unsigned long long)seed, round, h.count, h.stride, n);
        for (uint32_t v = 0; v < h.count; v++) {
            uint32_t max = 0;

            for (uint32_t i = v * h.stride; i < n && i < (v + 1) * h.stride; i++)
                max = samples[i] > max ? samples[i] : max;
            if (max != h.values[v])
                fail_msg("GP_SEED=%llu round %d: value %u is %u, not %u", (unsigned long long)seed,
                         round, v, h.values[v], max);
        }
    }
}

static void graphs_are_scaled_to_their_peak(void **state)
{
    char graph[GP_GRAPH_BYTES];
    struct gp_history h = {0};

    (void)state;
    gp_history_draw(&h, true, graph);
    assert_string_equal(graph, "");
    for (uint32_t i = 1; i <= 8; i++)
        gp_history_add(&h, i);
    gp_history_draw(&h, true, graph);
    assert_string_equal(graph, "▁▂▃▄▅▆▇█");
    gp_history_draw(&h, false, graph);
    assert_string_equal(graph, ".:-=+*%#");
    for (uint32_t i = 0; i < 10000; i++)
        gp_history_add(&h, UINT32_MAX);
    gp_history_draw(&h, true, graph);
    assert_true(strlen(graph) < GP_GRAPH_BYTES);
}

static void bytes_are_told_in_units(void **state)
{
    char out[32];

    (void)state;
    assert_string_equal(gp_format_bytes(0, out), "0 bytes");
    assert_string_equal(gp_format_bytes(1023, out), "1023 bytes");
    assert_string_equal(gp_format_bytes(1024, out), "1.0 KiB");
    assert_string_equal(gp_format_bytes(98362432, out), "93.8 MiB");
    assert_string_equal(gp_format_bytes(UINT64_MAX, out), "16777216.0 TiB");
}

static void utf8_ends_at_the_first_bad_byte(void **state)
{
    (void)state;
    assert_int_equal(gp_utf8_valid("", 0), 0);
    assert_int_equal(gp_utf8_valid("ab\xc3\xa9z", 5), 5);
    assert_int_equal(gp_utf8_valid("ab\xff", 3), 2);
    assert_int_equal(gp_utf8_valid("ab\xc3", 3), 2);
    assert_int_equal(gp_utf8_valid("\xed\xa0\x80", 3), 0); /* a surrogate */
    assert_int_equal(gp_utf8_valid("a\0b", 3), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_maxima_of_equal_stretches),
        cmocka_unit_test(graphs_are_scaled_to_their_peak),
        cmocka_unit_test(bytes_are_told_in_units),
        cmocka_unit_test(utf8_ends_at_the_first_bad_byte),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
