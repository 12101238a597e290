/* The scheduler's resume: a replay repeats what was done, a recompute begins anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/sched_rig.h"

static struct rig rig;

/* A sequence that grew, compressed twice and grew again. */
static struct gp_seq *run_some(const char *policy, enum gp_kv_resume resume)
{
    struct gp_kv_options kv = rig_kv(policy);

    kv.resume = resume;
    struct gp_seq *seq = gp_sched_add(rig.sched, 3, &kv, 0);

    rig_step_to(&rig, seq, 8); /* initial, to 2 pages */
    rig.delta = -1;
    rig_step_to(&rig, seq, 16); /* compressed at 8 and at 12 */
    rig.delta = 1;
    rig_step_to(&rig, seq, 18); /* grew at 16 */
    return seq;
}

static void replay_repeats_the_log_and_asks_nobody(void **state)
{
    rig_open(&rig, 8, (struct gp_sched_options){0});
    struct gp_seq *seq = run_some("growpage", GP_RESUME_REPLAY);

    (void)state;
    assert_int_equal(seq->log_count, 4);
    assert_int_equal(seq->pages, 3);
    uint32_t cached = seq->cached, measures = rig.measure_count, events = rig.event_count;

    assert_int_equal(rig.compact_count, 2);
    gp_sched_preempt(rig.sched, seq);
    rig.delta = -1;             /* would have compressed at 16 */
    rig_step_to(&rig, seq, 19); /* and the row that waited */
    assert_int_equal(seq->cached, cached + 1);
    assert_int_equal(seq->pages, 3);
    assert_int_equal(rig.measure_count, measures);
    assert_int_equal(rig.event_count, events);
    assert_int_equal(rig.compact_count, 4);
    assert_memory_equal(&rig.compactions[0], &rig.compactions[2], 2 * sizeof rig.compactions[0]);
    assert_int_equal(seq->log_at, 4);
    assert_int_equal(seq->grow + seq->compress + seq->initial, 4);
    rig_close(&rig);
}

/* Chunks of a replay end where the decisions were taken, however many rows a step has. */
static void replay_chunks_end_at_every_boundary(void **state)
{
    static const uint32_t chunks[] = {4, 4, 4, 4, 3};

    rig_open(&rig, 8, (struct gp_sched_options){.max_batch_tokens = 100});
    struct gp_seq *seq = run_some("growpage", GP_RESUME_REPLAY);

    (void)state;
    gp_sched_preempt(rig.sched, seq);
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        assert_true(rig_plan(&rig));
        assert_int_equal(rig_rows(&rig, seq), chunks[i]);
        assert_int_equal(rig.plan.runs[0].last, i == 4);
        rig_run(&rig);
    }
    rig_close(&rig);
}

static void replay_takes_its_peak_and_returns_the_surplus(void **state)
{
    rig_open(&rig, 8, (struct gp_sched_options){0});
    struct gp_kv_options kv = rig_kv("shrink:-0.005:0");
    struct gp_seq *seq = gp_sched_add(rig.sched, 3, &kv, 0);

    (void)state;
    rig.delta = 1;
    rig_step_to(&rig, seq, 16); /* 4 pages */
    uint32_t last = seq->table[3];

    rig.delta = -1;
    rig_step_to(&rig, seq, 17); /* shrunk to 3: the last page of the table is back */
    assert_int_equal(seq->shrink, 1);
    assert_int_equal(seq->pages, 3);
    assert_int_equal(seq->held, 3);
    assert_int_equal(seq->cached, 9);
    assert_int_equal(gp_pool_refs(rig.pool, last), 0);
    rig.delta = 1;
    rig_step_to(&rig, seq, 21); /* and grew to 4 again */
    assert_int_equal(seq->pages, 4);
    rig.delta = -1;
    rig_step_to(&rig, seq, 25); /* and shrank */
    assert_int_equal(seq->held, 3);
    gp_sched_preempt(rig.sched, seq);
    assert_int_equal(seq->need, 4);
    rig_step(&rig);
    assert_int_equal(seq->held, 4);
    rig_step_to(&rig, seq, 20); /* the first shrink is behind, a growth is to come */
    assert_int_equal(seq->pages, 3);
    assert_int_equal(seq->held, 4);
    rig_step_to(&rig, seq, 26);
    assert_int_equal(seq->pages, 3);
    assert_int_equal(seq->held, 3);
    assert_int_equal(gp_pool_free_count(rig.pool), 5);
    rig_close(&rig);
}

static void preempted_in_its_replay_it_keeps_the_whole_log(void **state)
{
    (void)state;
    for (uint32_t at = 1; at < 18; at++) {
        rig_open(&rig, 8, (struct gp_sched_options){.max_seqs = 1, .max_batch_tokens = 1});
        struct gp_seq *seq = run_some("growpage", GP_RESUME_REPLAY);
        uint32_t cached = seq->cached;

        gp_sched_preempt(rig.sched, seq);
        rig_step_to(&rig, seq, at);
        gp_sched_preempt(rig.sched, seq);
        assert_int_equal(seq->log_count, 4);
        assert_int_equal(seq->need, 3);
        rig_step_to(&rig, seq, 18);
        assert_int_equal(seq->cached, cached);
        assert_int_equal(seq->log_at, 4);
        assert_int_equal(seq->preempt, 2);
        rig_close(&rig);
    }
}

/* Preempted between its rows and its boundary: the boundary is still live when the replay gets
 * there. */
static void boundary_not_yet_met_is_decided_after_the_replay(void **state)
{
    rig_open(&rig, 8, (struct gp_sched_options){0});
    struct gp_seq *seq = run_some("growpage", GP_RESUME_REPLAY);

    (void)state;
    rig_step_to(&rig, seq, 20); /* full again, token 20 is waiting */
    assert_int_equal(seq->cached, seq->pages * 4);
    gp_sched_preempt(rig.sched, seq);
    uint32_t measures = rig.measure_count;

    rig_step_to(&rig, seq, 20);
    assert_int_equal(rig.measure_count, measures);
    rig.delta = -1;
    rig_step_to(&rig, seq, 21);
    assert_int_equal(rig.measure_count, measures + 1);
    assert_int_equal(seq->compress, 3);
    rig_close(&rig);
}

/* What was run and not yet followed by a token is run again, and the token is drawn again. */
static void row_without_its_token_is_repeated(void **state)
{
    rig_open(&rig, 8, (struct gp_sched_options){0});
    struct gp_seq *seq = rig_add(&rig, 3, "full");

    (void)state;
    rig_step_to(&rig, seq, 6);
    assert_true(rig_plan(&rig));
    gp_sched_ran(rig.sched, &rig.plan);
    assert_int_equal(seq->computed, seq->token_count);
    gp_sched_preempt(rig.sched, seq);
    rig_step_to(&rig, seq, 4);
    assert_true(rig_plan(&rig));
    assert_int_equal(rig_rows(&rig, seq), 3);
    assert_true(rig.plan.runs[0].last);
    rig_run(&rig);
    assert_int_equal(seq->decode_steps, 4);
    assert_int_equal(seq->token_count, 8);
    rig_close(&rig);
}

static void long_prompt_is_cut_at_its_first_boundary_with_summaries(void **state)
{
    rig_open(&rig, 12, (struct gp_sched_options){.max_batch_tokens = 32});
    struct gp_seq *seq = rig_add(&rig, 26, "fixed:12");

    (void)state;
    rig_step(&rig);
    assert_int_equal(seq->pages, 7);
    uint32_t first[3];

    memcpy(first, seq->table, sizeof first);
    rig_step_to(&rig, seq, 28);
    assert_int_equal(seq->pages, 7);
    rig_step_to(&rig, seq, 29);
    assert_int_equal(seq->compress, 1);
    assert_int_equal(seq->pages, 3);
    assert_int_equal(seq->held, 3);
    assert_int_equal(seq->cached, 9);
    assert_memory_equal(first, seq->table, sizeof first);
    assert_int_equal(gp_pool_free_count(rig.pool), 9);
    assert_int_equal(rig.compactions[0].pages_after, 3);
    /* Its replay needs the whole prompt's pages again, and gives them back again. */
    gp_sched_preempt(rig.sched, seq);
    assert_int_equal(seq->need, 7);
    rig_step_to(&rig, seq, 30);
    assert_int_equal(seq->held, 3);
    rig_close(&rig);
}

static void prompt_ending_on_a_full_page_is_cut_one_page_later(void **state)
{
    rig_open(&rig, 12, (struct gp_sched_options){.max_batch_tokens = 32});
    struct gp_kv_options kv = rig_kv("growpage");

    (void)state;
    kv.max_pages = 3;
    struct gp_seq *seq = gp_sched_add(rig.sched, 24, &kv, 0);

    rig.delta = 1;
    rig_step_to(&rig, seq, 28); /* no summaries at 24: it grew, past its cap */
    assert_int_equal(seq->start, 1);
    assert_int_equal(seq->pages, 7);
    rig_step_to(&rig, seq, 29);
    assert_int_equal(seq->capped, 1);
    assert_int_equal(seq->pages, 3);
    rig_close(&rig);
}

static void recompute_takes_all_tokens_for_a_prompt(void **state)
{
    rig_open(&rig, 8, (struct gp_sched_options){.max_batch_tokens = 100});
    struct gp_seq *seq = run_some("growpage", GP_RESUME_RECOMPUTE);

    (void)state;
    assert_int_equal(seq->token_count, 19);
    gp_sched_preempt(rig.sched, seq);
    assert_int_equal(seq->prefill_count, 19);
    assert_int_equal(seq->need, 5);
    assert_int_equal(seq->log_count, 0);
    assert_true(seq->reached_initial);
    assert_true(rig_plan(&rig));
    assert_int_equal(rig_rows(&rig, seq), 19); /* no boundary inside */
    rig_run(&rig);
    assert_int_equal(seq->cached, 19);
    assert_int_equal(seq->pages, 5);
    assert_false(seq->has_summaries);
    uint32_t measures = rig.measure_count;

    rig.delta = -1;
    rig_step_to(&rig, seq, 21); /* 20 slots are full, with one generated row since: it decides */
    assert_true(seq->has_summaries);
    assert_int_equal(rig.measure_count, measures + 1);
    assert_int_equal(seq->log_count, 1);
    assert_int_equal(seq->compress, 3);
    assert_int_equal(seq->start, 0);
    rig_close(&rig);
}

static void recompute_that_fills_its_pages_starts_again(void **state)
{
    rig_open(&rig, 8, (struct gp_sched_options){.max_batch_tokens = 100});
    struct gp_seq *seq = run_some("growpage", GP_RESUME_RECOMPUTE);

    (void)state;
    rig_step(&rig);
    assert_int_equal(seq->token_count, 20);
    gp_sched_preempt(rig.sched, seq);
    assert_int_equal(seq->need, 5);
    rig_step_to(&rig, seq, 21);
    assert_int_equal(seq->start, 1);
    assert_int_equal(seq->pages, 6);
    rig_close(&rig);
}

/* The paper's plain way may need more than the pool has; the others go on. */
static void recompute_that_cannot_fit_ends_stuck(void **state)
{
    rig_open(&rig, 4, (struct gp_sched_options){0});
    struct gp_seq *seq = run_some("growpage", GP_RESUME_RECOMPUTE);

    (void)state;
    gp_sched_preempt(rig.sched, seq);
    struct gp_seq *other = rig_add(&rig, 3, "full");

    assert_int_equal(seq->need, 5);
    assert_true(rig_plan(&rig));
    assert_ptr_equal(rig.stuck, seq);
    assert_int_equal(rig_rows(&rig, other), 3);
    rig_run(&rig);
    gp_sched_forget(rig.sched, seq);
    rig_close(&rig);
}

/* Two in a row that cannot fit: one a plan, each reported, none lost. */
static void stuck_ones_are_reported_one_a_plan(void **state)
{
    rig_open(&rig, 4, (struct gp_sched_options){0});
    struct gp_seq *a = run_some("growpage", GP_RESUME_RECOMPUTE);

    (void)state;
    gp_sched_preempt(rig.sched, a);
    struct gp_seq *b = rig_add(&rig, 40, "full"); /* nobody asked gp_sched_fits() */

    assert_false(rig_plan(&rig));
    assert_ptr_equal(rig.stuck, a);
    gp_sched_forget(rig.sched, a);
    assert_false(rig_plan(&rig));
    assert_ptr_equal(rig.stuck, b);
    gp_sched_forget(rig.sched, b);
    assert_false(rig_plan(&rig));
    assert_null(rig.stuck);
    rig_close(&rig);
}

static void random_decides_the_same_after_a_replay(void **state)
{
    uint8_t logs[2][40];

    (void)state;
    for (uint32_t run = 0; run < 2; run++) {
        rig_open(&rig, 60, (struct gp_sched_options){0});
        struct gp_seq *seq = rig_add(&rig, 3, "random:0.5");

        for (uint32_t tokens = 10; tokens <= 160; tokens += 10) {
            rig_step_to(&rig, seq, tokens);
            if (run == 1)
                gp_sched_preempt(rig.sched, seq);
        }
        rig_step_to(&rig, seq, 161);
        assert_int_equal(seq->log_count, 40);
        memcpy(logs[run], seq->log, sizeof logs[run]);
        assert_true(seq->grow > 5 && seq->compress > 5);
        rig_close(&rig);
    }
    assert_memory_equal(logs[0], logs[1], sizeof logs[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replay_repeats_the_log_and_asks_nobody),
        cmocka_unit_test(replay_chunks_end_at_every_boundary),
        cmocka_unit_test(replay_takes_its_peak_and_returns_the_surplus),
        cmocka_unit_test(preempted_in_its_replay_it_keeps_the_whole_log),
        cmocka_unit_test(boundary_not_yet_met_is_decided_after_the_replay),
        cmocka_unit_test(row_without_its_token_is_repeated),
        cmocka_unit_test(long_prompt_is_cut_at_its_first_boundary_with_summaries),
        cmocka_unit_test(prompt_ending_on_a_full_page_is_cut_one_page_later),
        cmocka_unit_test(recompute_takes_all_tokens_for_a_prompt),
        cmocka_unit_test(recompute_that_fills_its_pages_starts_again),
        cmocka_unit_test(recompute_that_cannot_fit_ends_stuck),
        cmocka_unit_test(stuck_ones_are_reported_one_a_plan),
        cmocka_unit_test(random_decides_the_same_after_a_replay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
