/* The figures of a run: those that are no time are worked out by hand, times are made up of the
 * requests' own and bounded by a callback that sleeps. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "engine/engine_rig.h"

#define SLEEP_MS 2

static struct gp_engine *open_engine(uint32_t seqs, uint32_t pages)
{
    struct gp_engine_options options;

    engine_rig_options(&options);
    options.max_seqs = seqs;
    options.kv_pages = pages;
    options.no_prefix_cache = true;
    engine_rig_set_policy(&options, "full");
    return engine_rig_engine(&options);
}

static uint64_t submit(struct gp_engine *engine, uint32_t prompt, uint32_t output)
{
    struct gp_request request;
    uint64_t id = 0;

    engine_rig_ask(&request, prompt, output);
    assert_int_equal(gp_engine_submit(engine, &request, &id, NULL), GP_OK);
    return id;
}

static struct gp_engine_stats stats_of(struct gp_engine *engine)
{
    struct gp_engine_stats stats;

    gp_engine_stats(engine, &stats);
    return stats;
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b);
}

/* Three requests of 20 + 30 tokens in pages of 16: one step runs the prompts, 29 decode all three,
 * with P 2 in 12 of them, 3 in 16 and 4 in the last. */
static void requests_that_run_together(void **state)
{
    struct gp_engine *engine = open_engine(16, 64);
    uint64_t ids[3];
    double token_ms = 0, first_ms = 0;

    (void)state;
    for (int i = 0; i < 3; i++)
        ids[i] = submit(engine, 20, 30);
    gp_engine_run(engine);
    struct gp_engine_stats stats = stats_of(engine);
    const struct gp_run_figures *run = &stats.run;

    for (int i = 0; i < 3; i++) {
        struct gp_request_stats s;

        assert_true(gp_engine_request_stats(engine, ids[i], 0, &s));
        assert_true(near(s.tpot_ms, (double)s.decode_ns / 1e6 / 29));
        token_ms += s.tpot_ms / 3;
        first_ms += (double)(s.queue_ns + s.prefill_ns) / 1e6 / 3;
    }
    assert_int_equal(run->output_tokens, 90);
    assert_int_equal(run->decode_steps, 29);
    assert_true(run->concurrency == 3 && run->concurrency_max == 3);
    assert_true(near(run->kv_budget, 16.0 * (12 * 2 + 16 * 3 + 4) / 29));
    assert_true(near(run->tpot_ms, token_ms) && near(run->ttft_ms, first_ms));
    assert_true(near(run->tps, 90e9 / (double)run->serving_ns));
    assert_true(run->decoding_ns > 0 && run->decoding_ns <= run->serving_ns);
    gp_engine_close(engine);
}

/* Two at a time: lengths 5 and 9 begin together, 7 takes the place of the first.  The first two
 * get tokens in steps 1 to 5 and 1 to 9, the third in 6 to 12: that is 2 in steps 2 to 9 (8 decode
 * steps, step 6 among them), 1 in 10 to 12. */
static void concurrency_counts_those_that_hold_pages(void **state)
{
    struct gp_engine *engine = open_engine(2, 64);

    (void)state;
    submit(engine, 8, 5);
    submit(engine, 8, 9);
    submit(engine, 8, 7);
    gp_engine_run(engine);
    struct gp_run_figures run = stats_of(engine).run;

    assert_int_equal(run.decode_steps, 11);
    assert_true(near(run.concurrency, (8 * 2 + 3 * 1) / 11.0));
    assert_int_equal(run.concurrency_max, 2);
    gp_engine_close(engine);
}

/* Eight of 20 + 40 tokens want 4 pages each; the pool has 9. */
static void who_was_preempted_does_not_count(void **state)
{
    struct gp_engine *engine = open_engine(8, 9);

    (void)state;
    for (int i = 0; i < 8; i++)
        submit(engine, 20, 40);
    gp_engine_run(engine);
    struct gp_engine_stats stats = stats_of(engine);

    assert_true(stats.preempt > 0);
    assert_int_equal(stats.run.output_tokens, 320);
    assert_true(stats.run.concurrency > 1 && stats.run.concurrency < 4.5);
    assert_true(stats.run.concurrency_max <= 4 && stats.pages_used_max <= 9);
    gp_engine_close(engine);
}

static void a_run_begins_where_it_is_told(void **state)
{
    struct gp_engine *engine = open_engine(8, 64);

    (void)state;
    for (int i = 0; i < 5; i++)
        submit(engine, 40, 30);
    gp_engine_run(engine);
    assert_int_equal(stats_of(engine).pages_used_max, 5 * 5);
    gp_engine_begin_run(engine);
    struct gp_engine_stats stats = stats_of(engine);

    assert_int_equal(stats.output_tokens, 150);
    assert_int_equal(stats.run.output_tokens + stats.run.decode_steps + stats.run.serving_ns, 0);
    assert_true(stats.run.tps == 0 && stats.run.tpot_ms == 0 && stats.run.concurrency == 0);
    assert_int_equal(stats.run.concurrency_max + stats.pages_used_max, 0);

    uint64_t id = submit(engine, 10, 1);

    gp_engine_run(engine); /* a first token is no decode step */
    stats = stats_of(engine);
    assert_int_equal(stats.run.output_tokens, 1);
    assert_int_equal(stats.run.decode_steps + stats.run.serving_ns, 0);
    assert_true(stats.run.tps == 0 && stats.run.kv_budget == 0 && stats.run.ttft_ms > 0);
    assert_int_equal(stats.pages_used_max, 1);
    gp_engine_release(engine, id);
    submit(engine, 10, 4);
    gp_engine_run(engine);
    stats = stats_of(engine);
    assert_int_equal(stats.run.output_tokens, 5);
    assert_int_equal(stats.run.decode_steps, 3);
    assert_true(stats.run.kv_budget == 16 && stats.run.concurrency == 1);
    gp_engine_close(engine);
}

static int32_t sleep_a_little(void *ctx, uint32_t choice, int32_t id)
{
    (void)ctx, (void)choice, (void)id;
    nanosleep(&(struct timespec){.tv_nsec = SLEEP_MS * 1000000}, NULL);
    return GP_GO;
}

/* Every step of the first request takes SLEEP_MS at least, and the second waits for all of it. */
static void times_hold_what_passed(void **state)
{
    struct gp_engine *engine = open_engine(1, 64);
    struct gp_request request;
    uint64_t id;

    (void)state;
    engine_rig_ask(&request, 8, 11);
    request.on_token = sleep_a_little;
    for (int i = 0; i < 2; i++)
        assert_int_equal(gp_engine_submit(engine, &request, &id, NULL), GP_OK);
    gp_engine_run(engine);
    struct gp_run_figures run = stats_of(engine).run;

    assert_int_equal(run.decode_steps, 20);
    assert_true(run.tpot_ms >= SLEEP_MS);
    assert_true(run.ttft_ms >= SLEEP_MS * (1 + 12) / 2.0);
    assert_true(run.decoding_ns >= 20 * SLEEP_MS * UINT64_C(1000000));
    assert_true(run.serving_ns >= run.decoding_ns + SLEEP_MS * UINT64_C(1000000));
    gp_engine_close(engine);
}

/* What was cancelled counts with what it had. */
static void a_cancelled_one_ends_there(void **state)
{
    struct gp_engine *engine = open_engine(4, 64);
    uint64_t gone = submit(engine, 20, 100), id = submit(engine, 20, 10);
    struct gp_request_stats first, second;

    (void)state;
    for (int i = 0; i < 5; i++)
        gp_engine_step(engine);
    gp_engine_cancel(engine, gone);
    gp_engine_run(engine);
    struct gp_run_figures run = stats_of(engine).run;

    assert_true(gp_engine_request_stats(engine, gone, 0, &first) &&
                gp_engine_request_stats(engine, id, 0, &second));
    assert_int_equal(first.output_tokens, 5);
    assert_int_equal(run.output_tokens, 15);
    assert_int_equal(run.decode_steps, 9);
    assert_true(near(run.concurrency, (4 * 2 + 5 * 1) / 9.0));
    assert_true(near(run.tpot_ms, (first.tpot_ms + second.tpot_ms) / 2));
    gp_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_that_run_together),
        cmocka_unit_test(concurrency_counts_those_that_hold_pages),
        cmocka_unit_test(who_was_preempted_does_not_count),
        cmocka_unit_test(a_run_begins_where_it_is_told),
        cmocka_unit_test(times_hold_what_passed),
        cmocka_unit_test(a_cancelled_one_ends_there),
    };

    return cmocka_run_group_tests_name("engine/figures", tests, engine_rig_setup,
                                       engine_rig_teardown);
}
