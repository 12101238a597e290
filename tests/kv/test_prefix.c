/* The prefix index against a dumb model: a list of whole texts, compared token by token. */
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
#include "kv/prefix.h"

enum {
    PAGES = 12,
    TOKENS = 4,
    DEPTH = 4,
    SALTS = 2,
};

static uint64_t seed;

#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x))                                                                                  \
            fail_msg("GP_SEED=%" PRIu64 ": %s", seed, #x);                                         \
    } while (0)

/* What a page holds: a text of `depth` pages under a salt, and who its parent was then. */
struct model_entry {
    bool used;
    uint32_t salt, depth, id, parent; /* ids are never given twice; parent 0: the root */
    int32_t text[DEPTH][TOKENS];
};

struct model {
    struct model_entry entries[PAGES];
    uint32_t next_id;
};

static struct gp_prefix *open_index(uint32_t pages)
{
    struct gp_prefix *prefix;

    assert_int_equal(gp_prefix_open(&prefix, pages, TOKENS, NULL), GP_OK);
    return prefix;
}

static uint32_t model_find(const struct model *m, uint32_t salt, uint32_t parent, uint32_t depth,
                           int32_t text[DEPTH][TOKENS])
{
    for (uint32_t page = 0; page < PAGES; page++) {
        const struct model_entry *e = &m->entries[page];
        if (e->used && e->salt == salt && e->parent == parent && e->depth == depth &&
            memcmp(e->text, text, depth * sizeof text[0]) == 0)
            return page;
    }
    return GP_PAGE_NONE;
}

/* Few tokens, so that texts share beginnings, and ends behind other beginnings. */
static void draw_text(struct gp_rng *rng, int32_t text[DEPTH][TOKENS])
{
    for (uint32_t i = 0; i < DEPTH; i++)
        for (uint32_t j = 0; j < TOKENS; j++)
            text[i][j] = j == 0 ? (int32_t)gp_rng_below(rng, 2) : 0;
}

/* Walk a text through both; with a page to add, put it behind the last hit. */
static void walk(struct model *m, struct gp_prefix *prefix, struct gp_rng *rng, bool add)
{
    int32_t text[DEPTH][TOKENS];
    uint32_t salt = gp_rng_below(rng, SALTS), parent = 0, depth = 0;
    struct gp_prefix_place place = gp_prefix_root(&salt, sizeof salt);

    draw_text(rng, text);
    for (; depth < DEPTH; depth++) {
        uint32_t expected = model_find(m, salt, parent, depth + 1, text);
        uint64_t serial = place.serial;
        CHECK(gp_prefix_find(prefix, &place, text[depth]) == expected);
        if (expected == GP_PAGE_NONE) {
            CHECK(place.serial == serial);
            break;
        }
        parent = m->entries[expected].id;
    }
    uint32_t page = gp_rng_below(rng, PAGES);
    if (!add || depth == DEPTH || m->entries[page].used)
        return;
    CHECK(gp_prefix_add(prefix, &place, text[depth], page));
    struct model_entry *e = &m->entries[page];
    *e = (struct model_entry){true, salt, depth + 1, ++m->next_id, parent, {{0}}};
    memcpy(e->text, text, (depth + 1) * sizeof text[0]);
}

static void random_operations(uint64_t forced)
{
    for (uint32_t round = 0; round < 100; round++) {
        struct gp_rng rng = {seed + round};
        struct model m = {0};
        struct gp_prefix *prefix = open_index(PAGES);
        gp_prefix_force_hash(prefix, forced);
        for (uint32_t step = 0; step < 400; step++) {
            uint32_t page = gp_rng_below(&rng, PAGES), count = 0;
            if (gp_rng_below(&rng, 4) == 0) {
                gp_prefix_remove(prefix, page);
                m.entries[page].used = false;
            } else {
                walk(&m, prefix, &rng, gp_rng_below(&rng, 2));
            }
            gp_prefix_check(prefix);
            for (uint32_t i = 0; i < PAGES; i++) {
                CHECK(gp_prefix_has(prefix, i) == m.entries[i].used);
                count += m.entries[i].used;
            }
            CHECK(gp_prefix_count(prefix) == count);
        }
        gp_prefix_close(prefix);
    }
}

static void index_matches_model(void **state)
{
    (void)state;
    random_operations(0);
}

static void collisions_are_never_hits(void **state)
{
    (void)state;
    random_operations(42);
}

static void a_text_known_already_keeps_its_page(void **state)
{
    (void)state;
    struct gp_prefix *prefix = open_index(3);
    struct gp_prefix_place first = gp_prefix_root("", 0), second = first;
    int32_t tokens[TOKENS] = {1, 2, 3, 4};

    assert_true(gp_prefix_add(prefix, &first, tokens, 2));
    assert_false(gp_prefix_add(prefix, &second, tokens, 0));
    assert_memory_equal(&first, &second, sizeof first);
    assert_false(gp_prefix_has(prefix, 0));
    gp_prefix_close(prefix);
}

/* A parent that comes back is another one: what was behind the first was computed from its bytes,
 * which are gone. */
static void children_of_a_lost_parent_are_lost(void **state)
{
    (void)state;
    struct gp_prefix *prefix = open_index(2);
    struct gp_prefix_place place = gp_prefix_root("", 0), root = place;
    int32_t parent[TOKENS] = {1}, child[TOKENS] = {2};

    assert_true(gp_prefix_add(prefix, &place, parent, 0));
    assert_true(gp_prefix_add(prefix, &place, child, 1));
    gp_prefix_remove(prefix, 0);
    place = root;
    assert_true(gp_prefix_add(prefix, &place, parent, 0));
    assert_int_equal(gp_prefix_find(prefix, &place, child), GP_PAGE_NONE);
    gp_prefix_close(prefix);
}

static void nonsense_and_refused_memory_leave_nothing_behind(void **state)
{
    (void)state;
    uint64_t before = gp_mem_live();
    struct gp_prefix *prefix = NULL;
    int rc = GP_ENOMEM;

    assert_int_equal(gp_prefix_open(&prefix, 0, TOKENS, NULL), GP_EINVAL);
    assert_int_equal(gp_prefix_open(&prefix, 1, 0, NULL), GP_EINVAL);
    for (uint64_t nth = 1; rc != GP_OK; nth++) {
        gp_mem_refuse_at(nth);
        rc = gp_prefix_open(&prefix, PAGES, TOKENS, NULL);
        gp_mem_refuse_at(0);
        assert_true(rc == GP_OK || rc == GP_ENOMEM);
        if (rc == GP_OK)
            gp_prefix_close(prefix);
        assert_int_equal(gp_mem_live(), before);
    }
    gp_prefix_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(index_matches_model),
        cmocka_unit_test(collisions_are_never_hits),
        cmocka_unit_test(a_text_known_already_keeps_its_page),
        cmocka_unit_test(children_of_a_lost_parent_are_lost),
        cmocka_unit_test(nonsense_and_refused_memory_leave_nothing_behind),
    };
    const char *text = getenv("GP_SEED");

    seed = text ? strtoull(text, NULL, 10) : 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
