/* base: memory, errors, random numbers, workers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/workers.h"

static void blocks_are_zeroed_aligned_and_counted(void **state)
{
    uint64_t before = gp_mem_live();

    (void)state;
    for (size_t bytes = 0; bytes < 300; bytes += 7) {
        unsigned char *block = gp_mem_alloc(bytes);

        assert_non_null(block);
        assert_int_equal((uintptr_t)block % 64, 0);
        for (size_t i = 0; i < bytes; i++)
            assert_int_equal(block[i], 0);
        memset(block, 0xa5, bytes);
        assert_int_equal(gp_mem_live(), before + 1);
        gp_mem_free(block);
    }
    assert_int_equal(gp_mem_live(), before);
}

static void overflowing_sizes_are_refused(void **state)
{
    (void)state;
    assert_null(gp_mem_alloc_array(SIZE_MAX / 2, 3));
    assert_null(gp_mem_alloc(SIZE_MAX));
    assert_null(gp_mem_copy("x", SIZE_MAX));
}

static void realloc_keeps_bytes_and_zeroes_the_rest(void **state)
{
    unsigned char *block = gp_mem_alloc(10);

    (void)state;
    memset(block, 7, 10);
    block = gp_mem_realloc(block, 10, 1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(block[i], i < 10 ? 7 : 0);
    gp_mem_free(block);
}

static void the_nth_allocation_can_be_refused(void **state)
{
    (void)state;
    gp_mem_refuse_at(2);
    void *first = gp_mem_alloc(1), *second = gp_mem_alloc(1), *third = gp_mem_alloc(1);

    assert_non_null(first);
    assert_null(second);
    assert_non_null(third);
    assert_true(gp_mem_refused());
    gp_mem_refuse_at(0);
    assert_false(gp_mem_refused());
    gp_mem_free(first);
    gp_mem_free(third);
}

static void names_from_files_become_plain_utf8(void **state)
{
    static const struct {
        const char *dirty, *clean;
    } cases[] = {
        {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"a\x1b[31m\n\x7f", "a?[31m??"},
        {"\xa0\xff\xc0\x80\xc1\xbf", "??????"},
        {"\xc3", "?"},
        {"\xe2\x82", "??"},
        {"\xed\xa0\x80", "???"},      /* a surrogate   */
        {"\xe0\x9f\xbf", "???"},      /* too long      */
        {"\xf4\x90\x80\x80", "????"}, /* past U+10FFFF */
        {"\xc2\x9b"
         "31m",
         "??31m"}, /* C1            */
        {"\xc2\xa0", "\xc2\xa0"},
    };
    char text[64];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, "%s", cases[i].dirty);
        gp_text_clean(text);
        assert_string_equal(text, cases[i].clean);
    }
}

static void copies_are_cut_at_a_character_and_cleaned(void **state)
{
    static const struct {
        const char *from;
        size_t length, room;
        const char *want;
    } cases[] = {
        {"abc", 3, 8, "abc"},
        {"abc", 3, 4, "abc"},
        {"abcd", 4, 4, "abc"},
        {"abc", 2, 8, "ab"},
        {"a\0b\n", 4, 8, "a?b?"},
        {"", 0, 1, ""},
        {NULL, 0, 8, ""},
        {"abc", 3, 1, ""},
        {"a\xc3\xa9", 3, 4, "a\xc3\xa9"},
        {"a\xc3\xa9", 3, 3, "a"},  /* the cut takes the whole character */
        {"a\xc3\xa9", 2, 8, "a?"}, /* half of one that was not cut here */
        {"\xf0\x9f\x98\x80", 4, 4, ""},
        {"\xa0\xff\x1b", 3, 8, "???"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[9];

        memset(out, 'x', sizeof out);
        gp_text_copy(out, cases[i].room, cases[i].from, cases[i].length);
        assert_string_equal(out, cases[i].want);
        for (size_t at = cases[i].room; at < sizeof out; at++)
            assert_int_equal(out[at], 'x');
    }
}

static void errors_are_one_printable_line(void **state)
{
    struct gp_error err;
    char longest[2000];

    (void)state;
    assert_int_equal(gp_fail(&err, GP_EINVAL, "a\nb\x1b[2J%s", "c\x7f"), GP_EINVAL);
    assert_string_equal(err.message, "a?b?[2Jc?");
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    gp_error_set(&err, "%s", longest);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    gp_error_set(&err, "%.*s\xe2\x82\xac\xe2\x82\xac", (int)sizeof err.message - 5, longest);
    assert_int_equal(strlen(err.message), sizeof err.message - 5 + 3); /* no half character */
    gp_error_set(&err, "why");
    gp_error_prefix(&err, "file %d", 3);
    assert_string_equal(err.message, "file 3: why");
    gp_error_set(NULL, "nobody listens");
}

/* Known answers of Philox4x32-10 from the authors' Random123 test vectors. */
static void philox_gives_the_published_vectors(void **state)
{
    uint32_t zero[4] = {0}, ones[4] = {~0u, ~0u, ~0u, ~0u}, out[4];
    uint32_t pi[4] = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344};
    uint32_t want_zero[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    uint32_t want_ones[4] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
    uint32_t want_pi[4] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};

    (void)state;
    gp_philox(0, zero, out);
    assert_memory_equal(out, want_zero, sizeof out);
    gp_philox(UINT64_MAX, ones, out);
    assert_memory_equal(out, want_ones, sizeof out);
    gp_philox(0x299f31d0a4093822u, pi, out);
    assert_memory_equal(out, want_pi, sizeof out);
}

static void uniform_draws_are_uniform_and_keyed(void **state)
{
    uint32_t bins[16] = {0};
    double chi = 0;

    (void)state;
    for (uint64_t i = 0; i < 16000; i++) {
        double u = gp_rng_uniform_at(7, 3, i);

        assert_true(u >= 0 && u < 1);
        bins[(int)(u * 16)]++;
    }
    for (int i = 0; i < 16; i++)
        chi += (bins[i] - 1000.0) * (bins[i] - 1000.0) / 1000.0;
    assert_true(chi < 40); /* 15 degrees of freedom: p of 5e-4 */
    assert_true(gp_rng_uniform_at(7, 3, 0) != gp_rng_uniform_at(8, 3, 0));
    assert_true(gp_rng_uniform_at(7, 3, 0) != gp_rng_uniform_at(7, 4, 0));
}

struct tally {
    uint8_t seen[10007];
    uint32_t workers;
};

static void mark_items(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    struct tally *tally = ctx;

    assert_true(worker < tally->workers);
    for (uint32_t i = begin; i < end; i++)
        tally->seen[i]++;
}

static void every_item_runs_exactly_once(void **state)
{
    static struct tally tally;

    (void)state;
    for (uint32_t count = 1; count <= 5; count++) {
        struct gp_workers *workers;

        assert_int_equal(gp_workers_open(&workers, count, NULL), GP_OK);
        assert_int_equal(gp_workers_count(workers), count);
        tally.workers = count;
        for (uint32_t round = 0; round < 400; round++) {
            uint32_t items = round % 2 ? round * 25 : round % 9, grain = 1 + round % 17;

            memset(tally.seen, 0, sizeof tally.seen);
            gp_workers_run(workers, items, grain, mark_items, &tally);
            for (uint32_t i = 0; i < sizeof tally.seen; i++)
                assert_int_equal(tally.seen[i], i < items ? 1 : 0);
        }
        gp_workers_close(workers);
    }
}

static void count_items(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    atomic_uint *done = ctx;

    (void)worker;
    atomic_fetch_add(done, end - begin);
}

/* The owner waits for workers that took an item, not for those that are asleep: 3,000 loops that
 * all 256 threads had to pass took more than a minute on two cores. */
static void threads_beyond_the_cores_are_not_waited_for(void **state)
{
    struct gp_workers *workers;
    atomic_uint done = 0;
    uint64_t start = gp_clock_ns();

    (void)state;
    assert_int_equal(gp_workers_open(&workers, 256, NULL), GP_OK);
    for (uint32_t round = 0; round < 3000; round++) {
        gp_workers_run(workers, 8, 1, count_items, &done);
        assert_int_equal(atomic_load(&done), 8 * (round + 1));
    }
    gp_workers_close(workers);
    assert_true(gp_clock_ns() - start < UINT64_C(10000000000));
}

static void workers_refuse_odd_counts_and_survive_refusal(void **state)
{
    struct gp_workers *workers = NULL;
    struct gp_error err;
    uint64_t before = gp_mem_live();

    (void)state;
    assert_int_equal(gp_workers_open(&workers, 0, &err), GP_EINVAL);
    assert_int_equal(gp_workers_open(&workers, 100000, &err), GP_EINVAL);
    for (uint64_t nth = 1; nth < 10; nth++) {
        gp_mem_refuse_at(nth);
        int rc = gp_workers_open(&workers, 3, &err);
        bool refused = gp_mem_refused();

        gp_mem_refuse_at(0);
        assert_int_equal(rc, refused ? GP_ENOMEM : GP_OK);
        if (rc == GP_OK)
            gp_workers_close(workers);
        assert_int_equal(gp_mem_live(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_zeroed_aligned_and_counted),
        cmocka_unit_test(overflowing_sizes_are_refused),
        cmocka_unit_test(realloc_keeps_bytes_and_zeroes_the_rest),
        cmocka_unit_test(the_nth_allocation_can_be_refused),
        cmocka_unit_test(copies_are_cut_at_a_character_and_cleaned),
        cmocka_unit_test(errors_are_one_printable_line),
        cmocka_unit_test(names_from_files_become_plain_utf8),
        cmocka_unit_test(philox_gives_the_published_vectors),
        cmocka_unit_test(uniform_draws_are_uniform_and_keyed),
        cmocka_unit_test(every_item_runs_exactly_once),
        cmocka_unit_test(threads_beyond_the_cores_are_not_waited_for),
        cmocka_unit_test(workers_refuse_odd_counts_and_survive_refusal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
