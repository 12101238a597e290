/* The page pool against a dumb model under random operations. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "kv/pool.h"

#define PAGES_MAX 24u

/* References, and the free pages in the order in which they must come. */
struct model {
    uint32_t page_count;
    uint32_t refs[PAGES_MAX];
    uint32_t queue[PAGES_MAX];
    uint32_t free_count;
    uint32_t used_max;
};

static uint64_t seed;

#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x))                                                                                  \
            fail_msg("GP_SEED=%" PRIu64 ": %s", seed, #x);                                         \
    } while (0)

static struct gp_pool *open_pool(uint32_t pages)
{
    struct gp_pool *pool;
    struct gp_error err;

    assert_int_equal(gp_pool_open(&pool, pages, &err), GP_OK);
    return pool;
}

static void model_init(struct model *m, uint32_t pages)
{
    *m = (struct model){.page_count = pages, .free_count = pages};
    for (uint32_t i = 0; i < pages; i++)
        m->queue[i] = i;
}

static void model_take(struct model *m, struct gp_pool *pool, uint32_t n)
{
    uint32_t pages[PAGES_MAX + 1];
    bool taken = gp_pool_take(pool, n, pages);

    CHECK(taken == (n <= m->free_count));
    if (!taken)
        return;
    for (uint32_t i = 0; i < n; i++) {
        CHECK(pages[i] == m->queue[i]);
        m->refs[pages[i]] = 1;
    }
    m->free_count -= n;
    memmove(m->queue, m->queue + n, m->free_count * sizeof m->queue[0]);
    if (m->page_count - m->free_count > m->used_max)
        m->used_max = m->page_count - m->free_count;
}

static void model_ref(struct model *m, struct gp_pool *pool, uint32_t page)
{
    uint32_t at = 0;

    gp_pool_ref(pool, page);
    if (m->refs[page]++ > 0)
        return;
    while (m->queue[at] != page)
        at++;
    m->free_count--;
    memmove(m->queue + at, m->queue + at + 1, (m->free_count - at) * sizeof m->queue[0]);
    if (m->page_count - m->free_count > m->used_max)
        m->used_max = m->page_count - m->free_count;
}

static void model_unref(struct model *m, struct gp_pool *pool, uint32_t page)
{
    if (m->refs[page] == 0)
        return;
    gp_pool_unref(pool, page);
    if (--m->refs[page] == 0)
        m->queue[m->free_count++] = page;
}

static void compare(const struct model *m, const struct gp_pool *pool)
{
    gp_pool_check(pool);
    CHECK(gp_pool_total(pool) == m->page_count);
    CHECK(gp_pool_free_count(pool) == m->free_count);
    CHECK(gp_pool_used_max(pool) == m->used_max);
    for (uint32_t page = 0; page < m->page_count; page++)
        CHECK(gp_pool_refs(pool, page) == m->refs[page]);
}

static void pool_matches_model(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 200; round++) {
        struct gp_rng rng = {seed + round};
        struct model m;

        model_init(&m, 1 + gp_rng_below(&rng, PAGES_MAX));
        struct gp_pool *pool = open_pool(m.page_count);

        for (uint32_t step = 0; step < 300; step++) {
            uint32_t page = gp_rng_below(&rng, m.page_count);

            switch (gp_rng_below(&rng, 4)) {
            case 0:
                model_take(&m, pool, gp_rng_below(&rng, m.page_count + 2));
                break;
            case 1:
                model_ref(&m, pool, page);
                break;
            default:
                model_unref(&m, pool, page);
            }
            compare(&m, pool);
        }
        for (uint32_t page = 0; page < m.page_count; page++)
            while (m.refs[page] > 0)
                model_unref(&m, pool, page);
        compare(&m, pool);
        gp_pool_close(pool);
    }
}

static void freed_page_waits_longest(void **state)
{
    struct gp_pool *pool = open_pool(3);
    uint32_t pages[3];

    (void)state;
    assert_true(gp_pool_take(pool, 2, pages));
    gp_pool_unref(pool, pages[1]);
    gp_pool_unref(pool, pages[0]);
    assert_true(gp_pool_take(pool, 3, pages));
    assert_int_equal(pages[0], 2);
    assert_int_equal(pages[1], 1);
    assert_int_equal(pages[2], 0);
    for (uint32_t i = 0; i < 3; i++)
        gp_pool_unref(pool, pages[i]);
    gp_pool_close(pool);
}

static void failed_take_changes_nothing(void **state)
{
    struct gp_pool *pool = open_pool(4);
    uint32_t pages[5] = {7, 7, 7, 7, 7};

    (void)state;
    assert_false(gp_pool_take(pool, 5, pages));
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(pages[i], 7);
    assert_int_equal(gp_pool_free_count(pool), 4);
    assert_int_equal(gp_pool_used_max(pool), 0);
    gp_pool_check(pool);
    gp_pool_close(pool);
}

static void only_the_nth_take_is_refused(void **state)
{
    struct gp_pool *pool = open_pool(8);
    uint32_t page;

    (void)state;
    gp_pool_refuse_at(pool, 3);
    for (uint32_t i = 1; i <= 5; i++)
        assert_int_equal(gp_pool_take(pool, 1, &page), i != 3);
    gp_pool_refuse_at(pool, 1);
    gp_pool_refuse_at(pool, 0);
    assert_true(gp_pool_take(pool, 1, &page));
    for (page = 0; page < 5; page++)
        gp_pool_unref(pool, page);
    gp_pool_check(pool);
    gp_pool_close(pool);
}

static void pool_of_no_pages_is_refused(void **state)
{
    struct gp_pool *pool = NULL;
    struct gp_error err;

    (void)state;
    assert_int_equal(gp_pool_open(&pool, 0, &err), GP_EINVAL);
    assert_non_null(strstr(err.message, "page pool"));
    assert_int_equal(gp_pool_open(&pool, UINT32_MAX, NULL), GP_EINVAL);
    assert_null(pool);
    gp_pool_close(NULL);
}

static void refused_memory_leaves_nothing_behind(void **state)
{
    uint64_t before = gp_mem_live();
    int rc = GP_ENOMEM;

    (void)state;
    for (uint64_t nth = 1; rc != GP_OK; nth++) {
        struct gp_pool *pool = NULL;

        gp_mem_refuse_at(nth);
        rc = gp_pool_open(&pool, 5, NULL);
        gp_mem_refuse_at(0);
        assert_true(rc == GP_OK || rc == GP_ENOMEM);
        assert_int_equal(rc == GP_OK, pool != NULL);
        gp_pool_close(pool);
        assert_int_equal(gp_mem_live(), before);
        assert_true(nth < 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pool_matches_model),
        cmocka_unit_test(freed_page_waits_longest),
        cmocka_unit_test(failed_take_changes_nothing),
        cmocka_unit_test(only_the_nth_take_is_refused),
        cmocka_unit_test(pool_of_no_pages_is_refused),
        cmocka_unit_test(refused_memory_leaves_nothing_behind),
    };
    const char *text = getenv("GP_SEED");

    seed = text ? strtoull(text, NULL, 10) : 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
