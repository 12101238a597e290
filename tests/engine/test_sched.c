/* The scheduler, one property a test: who runs, who waits, who gives way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "engine/sched_rig.h"

static struct rig rig;

/* ---- rows ---- */

static void prompt_runs_then_one_row_a_step(void **state)
{
    rig_open(&rig, 8, (struct gp_sched_options){0});
    struct gp_seq *seq = rig_add(&rig, 6, "full");

    (void)state;
    assert_true(rig_plan(&rig));
    assert_int_equal(rig_rows(&rig, seq), 6);
    assert_true(rig.plan.runs[0].last);
    rig_run(&rig);
    assert_int_equal(seq->pages, 2);
    assert_int_equal(seq->cached, 6);
    assert_false(seq->has_summaries);
    assert_true(rig_plan(&rig));
    assert_int_equal(rig_rows(&rig, seq), 1);
    rig_run(&rig);
    assert_true(seq->has_summaries);
    assert_int_equal(seq->computed, 7);
    assert_int_equal(seq->token_count, 8);
    rig_close(&rig);
}

static void prompts_run_in_chunks_and_together(void **state)
{
    rig_open(&rig, 16, (struct gp_sched_options){.max_batch_tokens = 10});
    struct gp_seq *a = rig_add(&rig, 13, "full"), *b = rig_add(&rig, 9, "full");

    (void)state;
    assert_true(rig_plan(&rig));
    assert_int_equal(rig_rows(&rig, a), 10);
    assert_false(rig.plan.runs[0].last);
    assert_int_equal(rig_rows(&rig, b), 0);
    rig_run(&rig);
    assert_true(rig_plan(&rig));
    assert_int_equal(rig_rows(&rig, a), 3);
    assert_int_equal(rig_rows(&rig, b), 7);
    rig_run(&rig);
    assert_true(rig_plan(&rig));
    assert_int_equal(rig_rows(&rig, a), 1);
    assert_int_equal(rig_rows(&rig, b), 2);
    rig_run(&rig);
    rig_close(&rig);
}

static void prompts_beside_decode_rows_can_be_limited(void **state)
{
    rig_open(&rig, 32, (struct gp_sched_options){.max_batch_tokens = 16});
    struct gp_seq *a = rig_add(&rig, 20, "full");

    (void)state;
    /* Alone a prompt has all rows: nobody waits. */
    gp_sched_limit_prompts(rig.sched, 3);
    assert_true(rig_plan(&rig));
    assert_int_equal(rig_rows(&rig, a), 16);
    rig_run(&rig);
    rig_step(&rig);
    struct gp_seq *b = rig_add(&rig, 20, "full"), *c = rig_add(&rig, 2, "full");

    assert_true(rig_plan(&rig));
    assert_int_equal(rig.plan.decode_rows, 1);
    assert_int_equal(rig_rows(&rig, a), 1);
    assert_int_equal(rig_rows(&rig, b), 3);
    assert_int_equal(rig_rows(&rig, c), 0);
    rig_run(&rig);
    gp_sched_limit_prompts(rig.sched, 0);
    assert_true(rig_plan(&rig));
    assert_int_equal(rig.plan.row_count, 1);
    rig_run(&rig);
    gp_sched_limit_prompts(rig.sched, UINT32_MAX);
    assert_true(rig_plan(&rig));
    assert_int_equal(rig_rows(&rig, b), 15);
    rig_run(&rig);
    rig_close(&rig);
}

static void decode_rows_come_before_prompts(void **state)
{
    rig_open(&rig, 32, (struct gp_sched_options){.max_batch_tokens = 8});
    struct gp_seq *a = rig_add(&rig, 30, "full");

    (void)state;
    rig_step(&rig);
    struct gp_seq *b = rig_add(&rig, 2, "full"), *c = rig_add(&rig, 2, "full");

    /* a's chunk fills the next steps, so b and c begin when it is done. */
    rig_step_to(&rig, b, 2);
    rig_step_to(&rig, c, 3);
    struct gp_seq *d = rig_add(&rig, 20, "full");

    assert_true(rig_plan(&rig));
    assert_ptr_equal(rig.plan.runs[0].seq, a);
    assert_ptr_equal(rig.plan.runs[1].seq, b);
    assert_ptr_equal(rig.plan.runs[2].seq, c);
    assert_ptr_equal(rig.plan.runs[3].seq, d);
    assert_int_equal(rig_rows(&rig, d), 5);
    rig_run(&rig);
    rig_close(&rig);
}

/* A budget of one row a sequence still leaves a row for the oldest when it is in its prompt. */
static void oldest_prompt_moves_beside_decodes(void **state)
{
    rig_open(&rig, 32, (struct gp_sched_options){.max_seqs = 3, .max_batch_tokens = 3});
    struct gp_seq *old = rig_add(&rig, 12, "full");

    (void)state;
    rig_step(&rig);
    gp_sched_preempt(rig.sched, old);
    struct gp_seq *b = rig_add(&rig, 1, "full"), *c = rig_add(&rig, 1, "full");

    rig_step_to(&rig, b, 1);
    while (old->computed < 12) {
        uint32_t before = old->computed;

        assert_true(rig_step(&rig));
        assert_true(old->computed > before);
    }
    assert_true(c->computed >= 1);
    rig_close(&rig);
}

static void mean_of_pages_counts_each_decode_step_once(void **state)
{
    rig_open(&rig, 8, (struct gp_sched_options){0});
    struct gp_seq *seq = rig_add(&rig, 4, "full");

    (void)state;
    rig_step_to(&rig, seq, 12); /* 8 decode rows: 4 on 2 pages, 4 on 3 */
    assert_int_equal(seq->decode_steps, 8);
    assert_int_equal(seq->pages_sum, 4 * 2 + 4 * 3);
    gp_sched_preempt(rig.sched, seq);
    rig_step_to(&rig, seq, 13);
    assert_int_equal(seq->decode_steps, 9);
    assert_int_equal(seq->pages_sum, 4 * 2 + 4 * 3 + 4);
    rig_close(&rig);
}

/* ---- admission ---- */

static void admission_leaves_a_page_unless_nothing_runs(void **state)
{
    rig_open(&rig, 5, (struct gp_sched_options){0});
    struct gp_seq *a = rig_add(&rig, 6, "full"), *b = rig_add(&rig, 12, "full");

    (void)state;
    rig_step(&rig); /* a holds 2 of 5; b needs 3 and one to spare */
    assert_int_equal(a->state, GP_SEQ_RUNNING);
    assert_int_equal(b->state, GP_SEQ_WAITING);
    rig_end(&rig, a);
    struct gp_seq *c = rig_add(&rig, 18, "full");

    rig_end(&rig, b);
    rig_step(&rig); /* c needs all 5 and is alone */
    assert_int_equal(c->state, GP_SEQ_RUNNING);
    rig_close(&rig);
}

static void exactly_need_and_one_is_enough(void **state)
{
    rig_open(&rig, 6, (struct gp_sched_options){0});
    struct gp_seq *a = rig_add(&rig, 6, "full"), *b = rig_add(&rig, 12, "full");

    (void)state;
    rig_step(&rig);
    assert_int_equal(a->state, GP_SEQ_RUNNING);
    assert_int_equal(b->state, GP_SEQ_RUNNING);
    assert_int_equal(gp_pool_free_count(rig.pool), 1);
    rig_close(&rig);
}

static void nobody_passes_a_front_that_does_not_fit(void **state)
{
    rig_open(&rig, 5, (struct gp_sched_options){0});
    struct gp_seq *a = rig_add(&rig, 6, "full"), *large = rig_add(&rig, 12, "full");
    struct gp_seq *small = rig_add(&rig, 1, "full");

    (void)state;
    rig_step(&rig);
    assert_int_equal(large->state, GP_SEQ_WAITING);
    assert_int_equal(small->state, GP_SEQ_WAITING);
    rig_end(&rig, a);
    rig_step(&rig);
    assert_int_equal(large->state, GP_SEQ_RUNNING);
    rig_close(&rig);
}

static void max_seqs_bounds_who_runs(void **state)
{
    rig_open(&rig, 32, (struct gp_sched_options){.max_seqs = 2});

    (void)state;
    for (uint32_t i = 0; i < 5; i++)
        rig_add(&rig, 3, "full");
    rig_steps(&rig, 3);
    assert_int_equal(gp_sched_running(rig.sched), 2);
    assert_int_equal(gp_sched_waiting(rig.sched), 3);
    rig_close(&rig);
}

static void full_queue_says_no_and_recovers(void **state)
{
    rig_open(&rig, 32, (struct gp_sched_options){.max_seqs = 1, .max_waiting = 2});
    struct gp_seq *a = rig_add(&rig, 3, "full");

    (void)state;
    assert_non_null(rig_add(&rig, 3, "full"));
    assert_null(rig_add(&rig, 3, "full"));
    rig_step(&rig);
    assert_non_null(rig_add(&rig, 3, "full"));
    assert_null(rig_add(&rig, 3, "full"));
    gp_sched_finish(rig.sched, a);
    rig_step(&rig);
    /* A place in the queue is free, but a is not forgotten yet. */
    assert_null(rig_add(&rig, 3, "full"));
    gp_sched_forget(rig.sched, a);
    assert_non_null(rig_add(&rig, 3, "full"));
    rig_close(&rig);
}

static void prompt_that_can_never_fit_is_known(void **state)
{
    rig_open(&rig, 3, (struct gp_sched_options){0});

    (void)state;
    assert_true(gp_sched_fits(rig.sched, 11));
    assert_false(gp_sched_fits(rig.sched, 12)); /* no slot for the first token drawn */
    rig_close(&rig);
}

/* ---- growth and preemption ---- */

static void full_prompt_page_grows_as_start(void **state)
{
    rig_open(&rig, 8, (struct gp_sched_options){0});
    struct gp_seq *seq = rig_add(&rig, 8, "growpage");

    (void)state;
    rig_steps(&rig, 2);
    assert_int_equal(seq->pages, 3);
    assert_int_equal(seq->start, 1);
    assert_int_equal(seq->grow + seq->initial, 0);
    assert_int_equal(rig.event_count, 1);
    assert_int_equal(rig.events[0].tokens, 8);
    assert_int_equal(rig.events[0].decision.cause, GP_BECAUSE_START);
    assert_int_equal(rig.events[0].pages_after, 3);
    assert_false(rig.events[0].measured);
    rig_close(&rig);
}

static void demand_decides_once_initial_pages_are_reached(void **state)
{
    rig_open(&rig, 8, (struct gp_sched_options){0});
    struct gp_seq *seq = rig_add(&rig, 3, "growpage");

    (void)state;
    rig_step_to(&rig, seq, 8); /* grew at 4: initial */
    assert_int_equal(seq->initial, 1);
    assert_int_equal(rig.measure_count, 0);
    rig.delta = 0.5;
    rig_step_to(&rig, seq, 12);
    assert_int_equal(seq->grow, 1);
    assert_int_equal(seq->pages, 3);
    rig.delta = -0.5;
    rig_step_to(&rig, seq, 13);
    assert_int_equal(seq->compress, 1);
    assert_int_equal(seq->pages, 3);
    assert_int_equal(seq->cached, 9); /* (3 - 1) * 4 kept, and the row */
    assert_int_equal(rig.measure_count, 2);
    assert_true(rig.events[2].measured);
    rig_close(&rig);
}

static void watermark_binds_all_but_the_one_who_is_alone(void **state)
{
    struct gp_kv_options kv = rig_kv("growpage");

    (void)state;
    kv.fallback = GP_FALLBACK_PREEMPT;
    rig_open(&rig, 4, (struct gp_sched_options){.watermark = 2});
    struct gp_seq *a = gp_sched_add(rig.sched, 3, &kv, 0), *b = gp_sched_add(rig.sched, 2, &kv, 0);

    rig.delta = 1;
    rig_step_to(&rig, a, 5); /* 2 pages were free, no more than the watermark: b gave way */
    assert_int_equal(a->fallback, 1);
    assert_int_equal(b->preempt, 1);
    rig_end(&rig, b);
    rig_step_to(&rig, a, 13); /* alone: takes the last page as well */
    assert_int_equal(a->pages, 4);
    assert_int_equal(a->fallback, 1);
    rig_close(&rig);
}

static void denied_growth_compresses_and_counts_both(void **state)
{
    rig_open(&rig, 4, (struct gp_sched_options){0});
    struct gp_seq *a = rig_add(&rig, 3, "growpage"), *b = rig_add(&rig, 1, "full");

    (void)state;
    rig.delta = 1;
    rig_step_to(&rig, a, 8); /* two pages each */
    assert_int_equal(b->pages, 2);
    rig_step_to(&rig, a, 9);
    assert_int_equal(a->fallback, 1);
    assert_int_equal(a->grow, 1); /* the denied one */
    assert_int_equal(a->compress, 0);
    assert_int_equal(a->pages, 2);
    assert_int_equal(a->cached, 5);
    assert_int_equal(b->preempt, 0);
    assert_int_equal(a->log[a->log_count - 1], GP_DO_COMPRESS);
    const struct rig_event *last = &rig.events[rig.event_count - 1];

    assert_int_equal(last->decision.cause, GP_BECAUSE_FALLBACK);
    assert_int_equal(last->decision.action, GP_DO_COMPRESS);
    assert_true(last->measured);
    rig_close(&rig);
}

static void newest_gives_way_even_in_its_prompt(void **state)
{
    rig_open(&rig, 6, (struct gp_sched_options){.max_batch_tokens = 5});
    struct gp_seq *a = rig_add(&rig, 3, "full"), *b = rig_add(&rig, 15, "full");

    (void)state;
    rig_step_to(&rig, a, 4);
    assert_true(b->computed > 0 && b->computed < 15);
    rig_step_to(&rig, a, 5); /* the 6th page */
    assert_int_equal(a->pages, 2);
    rig_step_to(&rig, a, 9);
    assert_int_equal(a->pages, 3);
    assert_int_equal(b->state, GP_SEQ_WAITING);
    assert_int_equal(b->preempt, 1);
    assert_int_equal(rig.preempt_count, 1);
    rig_close(&rig);
}

static void asking_newest_gives_way_itself(void **state)
{
    rig_open(&rig, 4, (struct gp_sched_options){0});
    struct gp_seq *a = rig_add(&rig, 5, "full"), *b = rig_add(&rig, 3, "full");

    (void)state;
    rig_step_to(&rig, b, 4);
    gp_pool_refuse_at(rig.pool, 1);
    assert_true(rig_plan(&rig)); /* b is full, is refused, and is the newest */
    assert_int_equal(b->state, GP_SEQ_WAITING);
    assert_int_equal(b->need, 2);
    assert_int_equal(b->fallback, 1);
    assert_int_equal(b->log_count, 1);
    assert_int_equal(a->state, GP_SEQ_RUNNING);
    assert_int_equal(rig_rows(&rig, a), 1);
    assert_int_equal(rig.events[0].pages_after, rig.events[0].pages_before);
    rig_run(&rig);
    uint32_t events = rig.event_count;

    rig_end(&rig, a);
    rig_step_to(&rig, b, 6);
    assert_int_equal(b->pages, 2);
    assert_int_equal(b->grow, 1); /* decided and counted once */
    assert_int_equal(b->fallback, 1);
    assert_int_equal(rig.event_count, events);
    rig_close(&rig);
}

static void newest_goes_first_and_only_as_many_as_needed(void **state)
{
    rig_open(&rig, 5, (struct gp_sched_options){0});
    struct gp_seq *a = rig_add(&rig, 3, "full"), *b = rig_add(&rig, 5, "full");
    struct gp_seq *c = rig_add(&rig, 1, "full");

    (void)state;
    rig_step_to(&rig, b, 8); /* a 2 pages, b 2 and c 1 */
    assert_int_equal(gp_pool_free_count(rig.pool), 0);
    assert_int_equal(rig.preempt_count, 0);
    rig_step_to(&rig, b, 9); /* b's third page is c's */
    assert_int_equal(c->preempt, 1);
    assert_int_equal(b->preempt, 0);
    assert_int_equal(b->fallback, 1);
    rig_step_to(&rig, a, 9); /* a's third page is one of b's; the other two stay free */
    assert_int_equal(b->preempt, 1);
    assert_int_equal(c->preempt, 1);
    assert_int_equal(a->preempt, 0);
    rig_close(&rig);
}

/* The watermark makes two give way for one page, and what is left would hold the older of them. */
static void nobody_is_admitted_in_a_step_that_preempted(void **state)
{
    rig_open(&rig, 6, (struct gp_sched_options){.watermark = 3});
    struct gp_seq *a = rig_add(&rig, 3, "full"), *b = rig_add(&rig, 5, "full");
    struct gp_seq *c = rig_add(&rig, 5, "full");

    (void)state;
    rig_step_to(&rig, a, 4); /* 1, 2 and 2 pages, all running */
    assert_int_equal(c->state, GP_SEQ_RUNNING);
    assert_true(rig_plan(&rig));
    assert_int_equal(b->preempt, 1);
    assert_int_equal(c->preempt, 1);
    assert_int_equal(a->pages, 2);
    assert_true(gp_pool_free_count(rig.pool) > b->need);
    assert_int_equal(rig.plan.run_count, 1);
    assert_int_equal(b->state, GP_SEQ_WAITING);
    rig_run(&rig);
    assert_true(rig_plan(&rig));
    assert_int_equal(b->state, GP_SEQ_RUNNING);
    rig_run(&rig);
    rig_close(&rig);
}

static void newest_page_goes_back_first(void **state)
{
    rig_open(&rig, 3, (struct gp_sched_options){0});
    struct gp_seq *seq = rig_add(&rig, 11, "full");
    uint32_t held[3], again[3];

    (void)state;
    rig_step(&rig);
    memcpy(held, seq->table, sizeof held);
    gp_sched_preempt(rig.sched, seq);
    assert_true(gp_pool_take(rig.pool, 3, again));
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(again[i], held[2 - i]);
        gp_pool_unref(rig.pool, again[i]);
    }
    rig_close(&rig);
}

static void preempted_wait_in_order_of_arrival(void **state)
{
    rig_open(&rig, 32, (struct gp_sched_options){0});
    struct gp_seq *seqs[6];

    (void)state;
    for (uint32_t i = 0; i < 6; i++)
        seqs[i] = rig_add(&rig, 3, "full");
    rig_steps(&rig, 2); /* four run, two wait */
    gp_sched_preempt(rig.sched, seqs[2]);
    gp_sched_preempt(rig.sched, seqs[0]);
    gp_sched_preempt(rig.sched, seqs[3]);
    gp_sched_check(rig.sched);
    struct gp_seq *at = gp_sched_first_waiting(rig.sched);

    for (uint32_t i = 0; i < 6; i++)
        if (i != 1) {
            assert_ptr_equal(at, seqs[i]);
            at = at->next;
        }
    assert_null(at);
    rig_step(&rig);
    assert_ptr_equal(gp_sched_first_running(rig.sched), seqs[0]);
    rig_close(&rig);
}

/* A lone request that holds the whole pool ends, and the same plan lets the next one in. */
static void lone_full_request_ends_stuck_and_frees_the_rest(void **state)
{
    rig_open(&rig, 3, (struct gp_sched_options){0});
    struct gp_seq *a = rig_add(&rig, 3, "full"), *b = rig_add(&rig, 2, "full");

    (void)state;
    rig_step_to(&rig, a, 12);
    assert_int_equal(b->state, GP_SEQ_WAITING);
    assert_true(rig_plan(&rig));
    assert_ptr_equal(rig.stuck, a);
    assert_int_equal(a->state, GP_SEQ_DONE);
    assert_int_equal(a->held, 0);
    assert_true(rig_rows(&rig, b) > 0);
    rig_run(&rig);
    gp_sched_forget(rig.sched, a);
    rig_close(&rig);
}

/* a preempts b, its take is refused all the same, and a is stuck: the rule against admissions in
 * a step that preempted must not leave the machine idle. */
static void nobody_left_running_lifts_the_ban_on_admissions(void **state)
{
    rig_open(&rig, 4, (struct gp_sched_options){.watermark = 4});
    struct gp_seq *a = rig_add(&rig, 3, "full"), *b = rig_add(&rig, 2, "full");

    (void)state;
    rig_step_to(&rig, a, 4);
    gp_pool_refuse_at(rig.pool,
                      1); /* the watermark says no without asking; the 1st take is alone */
    assert_true(rig_plan(&rig));
    assert_ptr_equal(rig.stuck, a);
    assert_int_equal(b->preempt, 1);
    assert_true(rig_rows(&rig, b) > 0);
    rig_run(&rig);
    gp_sched_forget(rig.sched, a);
    rig_close(&rig);
}

static void nothing_to_do_is_false(void **state)
{
    rig_open(&rig, 3, (struct gp_sched_options){0});

    (void)state;
    assert_false(rig_plan(&rig));
    assert_null(rig.stuck);
    rig_close(&rig);
}

/* ---- ends ---- */

static void finishing_in_any_state_gives_everything_back(void **state)
{
    rig_open(&rig, 8, (struct gp_sched_options){.max_seqs = 2});
    struct gp_seq *seqs[4];

    (void)state;
    for (uint32_t i = 0; i < 4; i++)
        seqs[i] = rig_add(&rig, 6, "growpage");
    rig_steps(&rig, 4);
    assert_int_equal(seqs[0]->state, GP_SEQ_RUNNING);
    assert_int_equal(seqs[3]->state, GP_SEQ_WAITING);
    gp_sched_preempt(rig.sched, seqs[1]);
    for (uint32_t i = 4; i-- > 0;) {
        gp_sched_finish(rig.sched, seqs[i]);
        gp_sched_finish(rig.sched, seqs[i]); /* once more does no harm */
        gp_sched_check(rig.sched);
        gp_sched_forget(rig.sched, seqs[i]);
    }
    assert_int_equal(gp_pool_free_count(rig.pool), 8);
    assert_int_equal(gp_sched_running(rig.sched) + gp_sched_waiting(rig.sched), 0);
    rig_close(&rig);
}

static void closing_gives_running_pages_back(void **state)
{
    uint64_t before = gp_mem_live();

    (void)state;
    rig_open(&rig, 8, (struct gp_sched_options){0});
    rig_add(&rig, 6, "full");
    rig_add(&rig, 6, "full");
    rig_step(&rig);
    gp_sched_close(rig.sched);
    gp_pool_close(rig.pool);
    gp_sched_close(NULL);
    assert_int_equal(gp_mem_live(), before);
}

static int try_open(struct gp_sched_options options, struct gp_error *err)
{
    struct gp_sched_ops ops = {.measure = NULL};
    struct gp_sched *sched = NULL;

    /* Options are looked at before ops are. */
    int rc = gp_sched_open(&sched, rig.pool, &options, &ops, err);

    assert_null(sched);
    return rc;
}

static void option_out_of_range_is_named(void **state)
{
    static const struct {
        struct gp_sched_options options;
        const char *name;
    } cases[] = {
        {{1, 4, 16, 8, 100, 0}, "page size"},
        {{4097, 4, 16, 8, 100, 0}, "page size"},
        {{4, 0, 16, 8, 100, 0}, "running requests"},
        {{4, 513, 1024, 8, 100, 0}, "running requests"},
        {{4, 4, 3, 8, 100, 0}, "tokens of a step"},
        {{4, 4, 4097, 8, 100, 0}, "tokens of a step"},
        {{4, 4, 16, 0, 100, 0}, "waiting requests"},
        {{4, 4, 16, UINT32_MAX, 100, 0}, "waiting requests"},
        {{4, 4, 16, 8, 0, 0}, "context"},
        {{4, 4, 16, 8, 1048577, 0}, "context"},
    };
    struct gp_error err;

    (void)state;
    rig_open(&rig, 4, (struct gp_sched_options){0});
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(try_open(cases[i].options, &err), GP_EINVAL);
        assert_non_null(strstr(err.message, cases[i].name));
    }
    rig_close(&rig);
}

static struct gp_signal measure_nothing(void *ctx, struct gp_seq *seq)
{
    (void)ctx;
    (void)seq;
    return (struct gp_signal){0};
}

static void compact_nothing(void *ctx, struct gp_seq *seq, const struct gp_retention *r)
{
    (void)ctx;
    (void)seq;
    (void)r;
}

static void refused_memory_leaves_nothing_behind(void **state)
{
    struct gp_sched_options options = {4, 4, 16, 8, 100, 0};
    struct gp_sched_ops ops = {.measure = measure_nothing, .compact = compact_nothing};
    struct gp_pool *pool;
    int rc = GP_ENOMEM;

    (void)state;
    assert_int_equal(gp_pool_open(&pool, 4, NULL), GP_OK);
    uint64_t before = gp_mem_live();

    for (uint64_t nth = 1; rc != GP_OK; nth++) {
        struct gp_sched *sched = NULL;

        gp_mem_refuse_at(nth);
        rc = gp_sched_open(&sched, pool, &options, &ops, NULL);
        gp_mem_refuse_at(0);
        assert_true(rc == GP_OK || rc == GP_ENOMEM);
        assert_int_equal(rc == GP_OK, sched != NULL);
        gp_sched_close(sched);
        assert_int_equal(gp_mem_live(), before);
        assert_true(nth < 20);
    }
    gp_pool_close(pool);
}

static void stepping_allocates_nothing(void **state)
{
    rig_open(&rig, 6, (struct gp_sched_options){0});

    (void)state;
    gp_mem_freeze();
    struct gp_seq *a = rig_add(&rig, 5, "growpage"), *b = rig_add(&rig, 5, "full");

    rig.delta = 1;
    rig_step_to(&rig, a, 40);
    assert_true(a->fallback > 0 && b->preempt > 0);
    rig_end(&rig, a);
    gp_mem_thaw();
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompt_runs_then_one_row_a_step),
        cmocka_unit_test(prompts_run_in_chunks_and_together),
        cmocka_unit_test(prompts_beside_decode_rows_can_be_limited),
        cmocka_unit_test(decode_rows_come_before_prompts),
        cmocka_unit_test(oldest_prompt_moves_beside_decodes),
        cmocka_unit_test(mean_of_pages_counts_each_decode_step_once),
        cmocka_unit_test(admission_leaves_a_page_unless_nothing_runs),
        cmocka_unit_test(exactly_need_and_one_is_enough),
        cmocka_unit_test(nobody_passes_a_front_that_does_not_fit),
        cmocka_unit_test(max_seqs_bounds_who_runs),
        cmocka_unit_test(full_queue_says_no_and_recovers),
        cmocka_unit_test(prompt_that_can_never_fit_is_known),
        cmocka_unit_test(full_prompt_page_grows_as_start),
        cmocka_unit_test(demand_decides_once_initial_pages_are_reached),
        cmocka_unit_test(watermark_binds_all_but_the_one_who_is_alone),
        cmocka_unit_test(denied_growth_compresses_and_counts_both),
        cmocka_unit_test(newest_gives_way_even_in_its_prompt),
        cmocka_unit_test(asking_newest_gives_way_itself),
        cmocka_unit_test(newest_goes_first_and_only_as_many_as_needed),
        cmocka_unit_test(nobody_is_admitted_in_a_step_that_preempted),
        cmocka_unit_test(newest_page_goes_back_first),
        cmocka_unit_test(preempted_wait_in_order_of_arrival),
        cmocka_unit_test(lone_full_request_ends_stuck_and_frees_the_rest),
        cmocka_unit_test(nobody_left_running_lifts_the_ban_on_admissions),
        cmocka_unit_test(nothing_to_do_is_false),
        cmocka_unit_test(finishing_in_any_state_gives_everything_back),
        cmocka_unit_test(closing_gives_running_pages_back),
        cmocka_unit_test(option_out_of_range_is_named),
        cmocka_unit_test(refused_memory_leaves_nothing_behind),
        cmocka_unit_test(stepping_allocates_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
