/* The scheduler's shared pages and compactions in flight: who holds what, who waits for whom. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/sched_rig.h"

static struct rig rig;
static int32_t text[400]; /* everybody's tokens: all zero, so that everybody begins alike */

static const struct gp_sched_options shared = {.prefix_cache = true};

static struct gp_seq *add(uint32_t prompt, const char *policy, const struct gp_seq *leader)
{
    struct gp_seq *seq = rig_add(&rig, prompt, policy);

    gp_sched_share(rig.sched, seq, text, gp_prefix_root("", 0), UINT32_MAX, leader);
    return seq;
}

static uint32_t free_pages(void)
{
    return gp_pool_free_count(rig.pool);
}

static void a_hit_skips_rows_and_shares_pages(void **state)
{
    (void)state;
    rig_open(&rig, 20, shared);
    struct gp_seq *a = add(18, "full", NULL);

    rig_step_to(&rig, a, 18);
    struct gp_seq *b = add(15, "full", NULL);

    rig_step_to(&rig, b, 15); /* 12 of them from three pages; 12, 13 and 14 ran */
    assert_int_equal(b->skipped, 12);
    assert_int_equal(b->hits, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(a->table[i], b->table[i]);
        assert_int_equal(gp_pool_refs(rig.pool, a->table[i]), 2);
    }
    assert_int_equal(free_pages(), 20 - 5 - 1);
    assert_int_equal(gp_sched_prefix_found(rig.sched), 12);
    rig_close(&rig);
}

/* A prompt of whole pages is there to its end; its last row runs, and writes nothing. */
static void the_last_row_runs_though_its_page_is_there(void **state)
{
    (void)state;
    rig_open(&rig, 20, shared);
    struct gp_seq *a = add(16, "full", NULL);

    rig_step_to(&rig, a, 16);
    struct gp_seq *b = add(16, "full", NULL);

    rig_plan(&rig);
    assert_int_equal(b->skipped, 15);
    assert_int_equal(rig_rows(&rig, b), 1);
    for (uint32_t i = 0; i < rig.plan.run_count; i++)
        assert_int_equal(gp_sched_stored(rig.sched, &rig.plan.runs[i]), rig.plan.runs[i].seq == b);
    rig_run(&rig);
    assert_int_equal(gp_pool_refs(rig.pool, b->table[3]), 2);
    rig_close(&rig);
}

static void pages_that_others_hold_need_no_room(void **state)
{
    (void)state;
    rig_open(&rig, 8, shared);
    struct gp_seq *a = add(17, "full", NULL);

    rig_step_to(&rig, a, 17); /* five pages of eight */
    struct gp_seq *b = add(17, "full", NULL);

    rig_step(&rig); /* wants five, four of which are there, and leaves one */
    assert_int_equal(b->state, GP_SEQ_RUNNING);
    rig_close(&rig);
}

static void a_freed_page_is_found_until_it_is_overwritten(void **state)
{
    (void)state;
    rig_open(&rig, 8, shared);
    struct gp_seq *a = add(17, "full", NULL);

    rig_step_to(&rig, a, 17);
    rig_end(&rig, a);
    assert_int_equal(free_pages(), 8);
    struct gp_seq *b = add(17, "full", NULL);

    rig_step(&rig);
    assert_int_equal(b->skipped, 16);
    rig_end(&rig, b);
    struct gp_seq *other = rig_add(&rig, 31, "full"); /* shares nothing, and takes all */

    rig_step_to(&rig, other, 31);
    rig_end(&rig, other);
    struct gp_seq *c = add(17, "full", NULL);

    rig_step(&rig);
    assert_int_equal(c->skipped, 0);
    rig_close(&rig);
}

static void a_choice_waits_for_the_prompt_and_copies_its_tail(void **state)
{
    struct gp_sched_options options = shared;

    (void)state;
    options.max_batch_tokens = 6;
    rig_open(&rig, 20, options);
    struct gp_seq *a = add(18, "full", NULL), *b = add(18, "full", a);

    rig_steps(&rig, 2);
    assert_int_equal(b->state, GP_SEQ_WAITING);
    rig_step_to(&rig, a, 18);
    assert_int_equal(rig.copy_count, 0);
    rig_step(&rig);
    assert_int_equal(b->state, GP_SEQ_RUNNING);
    assert_int_equal(rig.copy_count, 1);
    assert_int_equal(b->skipped, 17);
    rig_close(&rig);
}

/* Both hold two pages together and compact; the first needs two stand-ins. */
static void stand_ins_replace_shared_pages(void **state)
{
    (void)state;
    rig_open(&rig, 12, shared);
    struct gp_seq *a = add(11, "fixed:12", NULL);

    rig_step_to(&rig, a, 11);
    struct gp_seq *b = add(11, "fixed:12", NULL);

    rig_step(&rig);
    assert_int_equal(gp_pool_refs(rig.pool, b->table[0]), 2);
    rig_steps(&rig, 3); /* both have passed their boundary at 12 by now */
    assert_int_equal(rig.copy_count, 2);
    assert_true(a->carried > 0 && b->carried > 0);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(gp_pool_refs(rig.pool, a->table[i]), 1);
        assert_int_equal(gp_pool_refs(rig.pool, b->table[i]), 1);
        assert_false(gp_prefix_has(gp_sched_prefix(rig.sched), a->table[i]));
    }
    assert_int_equal(free_pages(), 12 - 6);
    rig_close(&rig);
}

/* There is one page where two would stand in: none is taken, and the newest gives way, with whom
 * they were shared. */
static void stand_ins_come_all_or_none(void **state)
{
    (void)state;
    rig_open(&rig, 5, shared);
    struct gp_seq *a = add(11, "fixed:12", NULL);

    rig_step_to(&rig, a, 11);
    struct gp_seq *b = add(11, "fixed:12", NULL);

    rig_step(&rig);
    assert_int_equal(b->state, GP_SEQ_RUNNING);
    assert_int_equal(free_pages(), 1);
    while (a->carried == 0)
        rig_step(&rig);
    assert_int_equal(a->preempt, 0);
    assert_int_equal(b->preempt, 1);
    assert_int_equal(rig.copy_count, 0);
    rig_close(&rig);
}

/* ---- in flight ---- */

static void open_in_flight(uint32_t pages, enum gp_preempt preempt)
{
    rig_open(&rig, pages, (struct gp_sched_options){.asynchronous = true, .preempt = preempt});
}

static void a_compaction_in_flight_has_no_row_and_delays_nobody(void **state)
{
    (void)state;
    open_in_flight(20, GP_PREEMPT_NEWEST);
    struct gp_seq *a = rig_add(&rig, 11, "fixed:12"), *b = rig_add(&rig, 2, "full");

    rig_step_to(&rig, a, 12);
    uint32_t others = b->computed;

    for (uint32_t i = 0; i < 5; i++) {
        rig_step(&rig);
        assert_int_equal(rig_rows(&rig, a), 0);
        assert_true(a->compacting && gp_sched_compaction(rig.sched) == a);
        assert_int_equal(b->computed, ++others);
    }
    assert_int_equal(a->cached, 12);
    gp_sched_compacted(rig.sched, a);
    assert_int_equal(a->cached, 8);
    rig_step(&rig);
    assert_int_equal(a->computed, 13);
    assert_int_equal(rig.compact_count, 0);
    rig_close(&rig);
}

static void what_is_alone_waits_for_its_compaction(void **state)
{
    (void)state;
    open_in_flight(20, GP_PREEMPT_NEWEST);
    struct gp_seq *a = rig_add(&rig, 11, "fixed:12");

    rig_step_to(&rig, a, 12);
    assert_false(rig_plan(&rig));
    assert_null(rig.stuck);
    assert_ptr_equal(gp_sched_compaction(rig.sched), a);
    gp_sched_compacted(rig.sched, a);
    assert_true(rig_step(&rig));
    rig_close(&rig);
}

static void a_cancel_takes_the_unfinished_work_along(void **state)
{
    (void)state;
    open_in_flight(20, GP_PREEMPT_NEWEST);
    struct gp_seq *a = rig_add(&rig, 11, "fixed:12"), *b = rig_add(&rig, 11, "fixed:12");

    rig_step_to(&rig, b, 12);
    rig_step(&rig);
    assert_true(a->compacting && b->compacting);
    rig_end(&rig, a);
    assert_ptr_equal(gp_sched_compaction(rig.sched), b);
    gp_sched_check(rig.sched);
    rig_end(&rig, b);
    assert_null(gp_sched_compaction(rig.sched));
    assert_int_equal(free_pages(), 20);
    rig_close(&rig);
}

/* a is the first that finds no page; then somebody must go, and it is not the one in flight,
 * though that one is newer. */
static void others_give_way_before_what_is_in_flight(void **state)
{
    (void)state;
    open_in_flight(9, GP_PREEMPT_NEWEST);
    struct gp_seq *a = rig_add(&rig, 10, "full"), *b = rig_add(&rig, 5, "full"),
                  *c = rig_add(&rig, 7, "fixed:8");

    while (!c->compacting)
        rig_step(&rig);
    while (rig.preempt_count == 0)
        rig_step(&rig);
    assert_int_equal(a->preempt, 0);
    assert_int_equal(b->preempt, 1);
    assert_int_equal(c->preempt, 0);
    assert_true(c->compacting);
    rig_close(&rig);
}

static void the_least_computed_gives_way_where_that_is_asked_for(void **state)
{
    static const enum gp_preempt ways[] = {GP_PREEMPT_NEWEST, GP_PREEMPT_LEAST_COMPUTED};

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        open_in_flight(8, ways[i]);
        struct gp_seq *a = rig_add(&rig, 2, "full"), *b = rig_add(&rig, 14, "full");

        while (rig.preempt_count == 0)
            rig_step(&rig);
        assert_int_equal(a->preempt, ways[i] == GP_PREEMPT_LEAST_COMPUTED);
        assert_int_equal(b->preempt, ways[i] == GP_PREEMPT_NEWEST);
        rig_close(&rig);
    }
}

/* ---- priorities ---- */

static void a_lower_priority_is_served_first_and_gives_way_last(void **state)
{
    struct gp_kv_options kv = rig_kv("full");

    (void)state;
    rig_open(&rig, 8, (struct gp_sched_options){.max_seqs = 2});
    struct gp_seq *a = gp_sched_add(rig.sched, 3, &kv, 1), *b = gp_sched_add(rig.sched, 3, &kv, 1),
                  *c = gp_sched_add(rig.sched, 14, &kv, 0);

    rig_step(&rig);
    assert_int_equal(c->state, GP_SEQ_RUNNING);
    assert_int_equal(a->state, GP_SEQ_RUNNING);
    assert_int_equal(b->state, GP_SEQ_WAITING);
    while (rig.preempt_count == 0)
        rig_step(&rig);
    assert_int_equal(a->preempt, 1); /* though it came before c */
    assert_int_equal(c->preempt, 0);
    assert_ptr_equal(gp_sched_first_waiting(rig.sched), a);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lower_priority_is_served_first_and_gives_way_last),
        cmocka_unit_test(a_hit_skips_rows_and_shares_pages),
        cmocka_unit_test(the_last_row_runs_though_its_page_is_there),
        cmocka_unit_test(pages_that_others_hold_need_no_room),
        cmocka_unit_test(a_freed_page_is_found_until_it_is_overwritten),
        cmocka_unit_test(a_choice_waits_for_the_prompt_and_copies_its_tail),
        cmocka_unit_test(stand_ins_replace_shared_pages),
        cmocka_unit_test(stand_ins_come_all_or_none),
        cmocka_unit_test(a_compaction_in_flight_has_no_row_and_delays_nobody),
        cmocka_unit_test(what_is_alone_waits_for_its_compaction),
        cmocka_unit_test(a_cancel_takes_the_unfinished_work_along),
        cmocka_unit_test(others_give_way_before_what_is_in_flight),
        cmocka_unit_test(the_least_computed_gives_way_where_that_is_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
