/* Stop strings: what comes out is the text in front of the first one, whatever the pieces are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "server/stops.h"

#define TEXT_MAX 200u

static uint64_t seed(void)
{
    const char *text = getenv("GP_SEED");

    return text ? strtoull(text, NULL, 0) : 1;
}

static void add(struct gp_stop_set *set, const char *text)
{
    assert_int_equal(gp_stop_set_add(set, text, strlen(text), NULL), GP_OK);
}

/* The whole text at once, or byte after byte. */
static uint32_t run(const struct gp_stop_set *set, const char *text, size_t piece,
                    struct gp_buffer *out)
{
    struct gp_stopper stopper;
    size_t length = strlen(text);

    gp_stopper_init(&stopper, set);
    gp_buffer_clear(out);
    for (size_t at = 0; at < length; at += piece)
        gp_stopper_feed(&stopper, text + at, length - at < piece ? length - at : piece, out);
    gp_stopper_end(&stopper, out);
    return stopper.hit;
}

static void check(const struct gp_stop_set *set, const char *text, const char *said, uint32_t hit)
{
    struct gp_buffer out = {0};

    for (size_t piece = 1; piece <= 8; piece++) {
        assert_int_equal(run(set, text, piece, &out), hit);
        assert_int_equal(out.length, strlen(said));
        assert_memory_equal(out.length > 0 ? out.bytes : "", said, out.length);
    }
    gp_buffer_free(&out);
}

static void known_texts_stop_where_they_should(void **state)
{
    struct gp_stop_set set = {0}, two = {0}, inner = {0};

    (void)state;
    check(&set, "ababab", "ababab", GP_STOP_NONE);
    add(&set, "ba");
    check(&set, "ababab", "a", 0);
    check(&set, "aaab", "aaab", GP_STOP_NONE);
    gp_stop_set_free(&set);
    add(&set, "abc");
    check(&set, "ababab", "ababab", GP_STOP_NONE);
    check(&set, "ababc", "ab", 0);
    gp_stop_set_free(&set);
    /* One is the beginning of the other: the shorter one ends first. */
    add(&two, "stop now");
    add(&two, "stop");
    check(&two, "do stop now", "do ", 1);
    gp_stop_set_free(&two);
    /* One is the end of the other: both end at once, and the longer one goes whole. */
    add(&inner, "low");
    add(&inner, "yellow");
    check(&inner, "a yellow", "a ", 1);
    check(&inner, "a yelow", "a ye", 0);
    gp_stop_set_free(&inner);
}

/* The definition: the string that ends first; of those that end together, the longest. */
static uint32_t find(const struct gp_stop_set *set, const char *text, size_t *said)
{
    for (size_t end = 1; end <= strlen(text); end++) {
        uint32_t best = GP_STOP_NONE;

        for (uint32_t i = 0; i < set->count; i++) {
            const struct gp_stop *stop = &set->items[i];

            if (stop->length <= end &&
                memcmp(text + end - stop->length, stop->text, stop->length) == 0 &&
                (best == GP_STOP_NONE || stop->length > set->items[best].length))
                best = i;
        }
        if (best != GP_STOP_NONE) {
            *said = end - set->items[best].length;
            return best;
        }
    }
    *said = strlen(text);
    return GP_STOP_NONE;
}

static void draw(struct gp_rng *rng, char *text, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++)
        text[i] = (char)('a' + gp_rng_below(rng, 2));
    text[length] = 0;
}

static void random_texts_stop_as_defined(void **state)
{
    struct gp_rng rng = {.state = seed()};
    struct gp_buffer out = {0};
    char text[TEXT_MAX + 1], stop[16];
    uint32_t hits = 0;

    (void)state;
    for (uint32_t world = 0; world < 20000; world++) {
        struct gp_stop_set set = {0};
        size_t said;

        for (uint32_t i = gp_rng_below(&rng, 4) + 1; i > 0; i--) {
            draw(&rng, stop, gp_rng_below(&rng, 9) + 3);
            add(&set, stop);
        }
        draw(&rng, text, gp_rng_below(&rng, TEXT_MAX));
        uint32_t expected = find(&set, text, &said);
        uint32_t hit = run(&set, text, gp_rng_below(&rng, 7) + 1, &out);

        if (out.length != said || memcmp(out.length ? out.bytes : "", text, said) != 0 ||
            (hit == GP_STOP_NONE) != (expected == GP_STOP_NONE))
            fail_msg("seed %llu, world %u: \"%s\"", (unsigned long long)seed(), world, text);
        /* The same string may stand in the set twice. */
        if (hit != GP_STOP_NONE)
            assert_string_equal(set.items[hit].text, set.items[expected].text);
        hits += hit != GP_STOP_NONE;
        gp_stop_set_free(&set);
    }
    gp_buffer_free(&out);
    assert_in_range(hits, 5000, 19000);
}

/* At no time is a byte out that may belong to a stop string, nor one held back that cannot. */
static void what_is_held_is_what_may_become_a_stop(void **state)
{
    struct gp_stop_set set = {0};
    struct gp_stopper stopper;
    struct gp_buffer out = {0};
    const char *text = "xaabaabaaa";

    (void)state;
    add(&set, "aabaaab");
    gp_stopper_init(&stopper, &set);
    for (size_t i = 0; i < strlen(text); i++) {
        size_t held = 0;

        gp_stopper_feed(&stopper, text + i, 1, &out);
        for (size_t k = 1; k <= i + 1 && k < 7; k++)
            if (memcmp(text + i + 1 - k, "aabaaab", k) == 0)
                held = k;
        assert_int_equal(out.length, i + 1 - held);
    }
    gp_buffer_free(&out);
    gp_stop_set_free(&set);
}

static void the_longest_strings_fit(void **state)
{
    static char stop[GP_LIMIT_STOP_BYTES + 1], text[4 * GP_LIMIT_STOP_BYTES];
    struct gp_stop_set set = {0};
    struct gp_buffer out = {0};

    (void)state;
    memset(stop, 'a', GP_LIMIT_STOP_BYTES);
    stop[GP_LIMIT_STOP_BYTES - 1] = 'b';
    for (uint32_t i = 0; i < GP_LIMIT_STOPS; i++)
        add(&set, stop);
    memset(text, 'a', sizeof text - 1);
    assert_int_equal(run(&set, text, 64, &out), GP_STOP_NONE);
    assert_int_equal(out.length, sizeof text - 1);
    text[sizeof text - 2] = 'b';
    assert_int_not_equal(run(&set, text, 64, &out), GP_STOP_NONE);
    assert_int_equal(out.length, sizeof text - 1 - GP_LIMIT_STOP_BYTES);
    gp_buffer_free(&out);
    gp_stop_set_free(&set);
}

static void no_memory_is_told_and_nothing_leaks(void **state)
{
    uint64_t live = gp_mem_live();
    struct gp_stop_set set = {0};

    (void)state;
    for (uint64_t nth = 1; nth <= 2; nth++) {
        gp_mem_refuse_at(nth);
        assert_int_equal(gp_stop_set_add(&set, "stop", 4, NULL), GP_ENOMEM);
        gp_mem_refuse_at(0);
        assert_int_equal(set.count, 0);
    }
    assert_int_equal(gp_mem_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_texts_stop_where_they_should),
        cmocka_unit_test(random_texts_stop_as_defined),
        cmocka_unit_test(what_is_held_is_what_may_become_a_stop),
        cmocka_unit_test(the_longest_strings_fit),
        cmocka_unit_test(no_memory_is_told_and_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
