/* Workloads served: every figure that is no time can be worked out by hand or repeated. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "engine/engine_rig.h"
#include "eval/service.h"

struct room {
    struct gp_workload workload;
    struct gp_engine_options options;
    struct gp_engine *engine;
    const char *policy;
    uint32_t most; /* go_on says no after so many requests; UINT32_MAX: never */
    uint32_t steps;
};

static struct room room_of(uint32_t requests, const char *prompt, const char *output)
{
    struct room room = {.policy = "full", .most = UINT32_MAX};
    struct gp_error err;

    engine_rig_options(&room.options);
    room.workload = (struct gp_workload){.seed = 4, .request_count = requests};
    if (gp_length_parse(prompt, &room.workload.prompt, &err) ||
        gp_length_parse(output, &room.workload.output, &err))
        fail_msg("%s", err.message);
    return room;
}

static bool go_on(void *ctx, uint32_t done)
{
    struct room *room = ctx;

    room->steps++;
    return done < room->most;
}

/* The nth allocation of the run is refused; 0: none. */
static uint64_t refuse_at;

static int serve(struct room *room, struct gp_service_result *result, bool *complete,
                 struct gp_error *err)
{
    struct gp_kv_options kv = room->options.kv;
    struct gp_service service = {
        .workload = &room->workload,
        .kv = &kv,
        .vocab = TEST_TOKEN_BYTE + 256,
        .go_on = go_on,
        .ctx = room,
    };

    assert_int_equal(gp_policy_parse(room->policy, &kv, err), GP_OK);
    gp_sampling_init(&service.sampling);
    service.sampling.temperature = 0;
    room->options.kv = kv;
    room->engine = engine_rig_engine(&room->options);
    if (refuse_at)
        gp_mem_refuse_at(refuse_at);
    int rc = gp_service_run(&service, room->engine, result, complete, err);
    gp_engine_step(room->engine); /* carries out what was released */
    struct gp_engine_stats stats;
    gp_engine_stats(room->engine, &stats);
    assert_int_equal(stats.running + stats.waiting + stats.pages_used, 0);
    gp_engine_close(room->engine);
    return rc;
}

static struct gp_service_result served(struct room *room)
{
    struct gp_service_result result;
    struct gp_error err;
    bool complete = false;

    if (serve(room, &result, &complete, &err))
        fail_msg("%s", err.message);
    assert_true(complete);
    return result;
}

/* The sum of an integer at a path of the figures, "a" or "a.b". */
static json_t *figure(json_t *figures, const char *key)
{
    const char *dot = strchr(key, '.');
    char outer[64];

    if (!dot)
        return json_object_get(figures, key);
    snprintf(outer, sizeof outer, "%.*s", (int)(dot - key), key);
    return json_object_get(json_object_get(figures, outer), dot + 1);
}

static double number(json_t *figures, const char *key)
{
    json_t *value = figure(figures, key);

    if (!value || !json_is_number(value))
        fail_msg("%s: no number", key);
    return json_number_value(value);
}

/* Three requests of 20 + 30 tokens, pages of 16, chunks of 64: all prompts run in the first step,
 * then 29 steps decode all three.  Slots 20 to 48 are filled by them, so P is 2 in the first 12 of
 * these steps, 3 in the next 16 and 4 in the last one; a full cache grows at 32 and at 48. */
static void figures_of_a_small_workload_are_those_worked_by_hand(void **state)
{
    struct room room = room_of(3, "20", "30");
    struct gp_service_result r = served(&room);
    json_t *f = gp_service_figures(&r);

    (void)state;
    assert_non_null(f);
    assert_int_equal(r.counts.prompt_tokens, 60);
    assert_int_equal(r.counts.output_tokens, 90);
    assert_int_equal(r.ttft_ms.count, 3);
    assert_int_equal(r.tpot_ms.count, 3);
    assert_int_equal(r.gap_ms.count, 3 * 29);
    assert_int_equal(r.whole_ms.count, 3);
    assert_int_equal(r.run.decode_steps, 29);
    assert_true(number(f, "concurrency") == 3 && number(f, "concurrency_max") == 3);
    assert_true(fabs(number(f, "kv_budget") - 16.0 * (12 * 2 + 16 * 3 + 4) / 29) < 1e-9);
    assert_true(json_is_null(figure(f, "kv_nominal")));
    assert_true(number(f, "grow") == 6 && number(f, "grow_ratio") == 1);
    assert_true(number(f, "compress") + number(f, "fallback") + number(f, "preempt") == 0);
    assert_true(number(f, "pages_max") == 12 && number(f, "pages") == 512);
    assert_true(number(f, "cut_short") == 0 && number(f, "requests") == 3);
    /* Gaps and times to the first token add up to whole requests, and rates are their quotients. */
    assert_true(fabs(number(f, "ttft_ms.mean") + 29 * number(f, "gap_ms.mean") -
                     number(f, "e2e_ms.mean")) < 1e-6);
    assert_true(fabs(number(f, "tpot_ms.mean") - r.run.tpot_ms) < 1e-9);
    assert_true(fabs(number(f, "tps") - 90e9 / (double)r.run.serving_ns) < 1e-6);
    assert_true(r.run.serving_ns <= r.total_ns && r.run.decoding_ns <= r.run.serving_ns);
    json_decref(f);
    gp_service_result_free(&r);
}

/* fixed:32 holds two pages of 16: request 20 + 60 meets boundaries at 32 and then every 16 tokens,
 * each of which compresses. */
static void budgets_are_beside_their_nominal(void **state)
{
    struct room room = room_of(2, "20", "60");
    room.policy = "fixed:32";
    struct gp_service_result r = served(&room);
    json_t *f = gp_service_figures(&r);

    (void)state;
    /* Slots are needed for 79 tokens: the first 32, then 47 more, 16 at a time. */
    assert_true(number(f, "compress") == 2 * 3 && number(f, "grow") == 0);
    assert_true(number(f, "compact_events") == 6 && number(f, "demand_events") == 0);
    assert_true(number(f, "grow_ratio") == 0);
    assert_true(number(f, "kv_nominal") == 32 && number(f, "kv_budget") == 32);
    assert_true(number(f, "compact.ms") > 0 && number(f, "score.ms") > 0);
    assert_true(number(f, "mask.ms") == 0 && json_is_null(figure(f, "demand.ms_per_event")));
    assert_true(fabs(number(f, "compact.ms") - 6 * number(f, "compact.ms_per_event")) < 1e-9);
    assert_true(fabs(number(f, "compact.ms") / 1e3 / number(f, "decode_s") -
                     number(f, "compact.share")) < 1e-9);
    json_decref(f);
    gp_service_result_free(&r);
}

static void every_decision_is_measured_and_counted(void **state)
{
    struct room room = room_of(12, "uniform:20:60", "uniform:60:200");
    room.policy = "growpage";
    room.options.kv_pages = 60;
    struct gp_service_result r = served(&room);
    const struct gp_service_counts *c = &r.counts;

    (void)state;
    assert_true(c->grow > 0 && c->compress > 0 && c->shrink == 0);
    assert_int_equal(c->demands, c->grow + c->compress + c->capped);
    assert_true(c->cuts >= c->compress && c->cuts <= c->compress + c->fallback);
    assert_true(c->demand_ns > 0 && c->score_ns > 0);
    gp_service_result_free(&r);
}

/* All that is no time. */
static void assert_same(const struct gp_service_result *a, const struct gp_service_result *b)
{
    struct gp_service_counts first = a->counts, second = b->counts;

    first.demand_ns = first.score_ns = first.select_ns = first.compact_ns = 0;
    second.demand_ns = second.score_ns = second.select_ns = second.compact_ns = 0;
    assert_memory_equal(&first, &second, sizeof first);
    assert_int_equal(a->run.decode_steps, b->run.decode_steps);
    assert_int_equal(a->run.concurrency_max, b->run.concurrency_max);
    assert_true(a->run.concurrency == b->run.concurrency && a->run.kv_budget == b->run.kv_budget);
    assert_int_equal(a->pages_max, b->pages_max);
}

static void a_run_can_be_repeated(void **state)
{
    static const char *const policies[] = {"full", "growpage", "random:0.5", "shrink:-0.005:32"};

    (void)state;
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        struct room room = room_of(14, "uniform:10:50", "lognormal:4:0.6:250"), again;
        room.policy = policies[i];
        room.options.kv_pages = 48;
        again = room;
        struct gp_service_result a = served(&room), b = served(&again);

        assert_same(&a, &b);
        assert_int_equal(room.steps, again.steps);
        assert_int_equal(a.counts.cut_short, 0);
        gp_service_result_free(&a);
        gp_service_result_free(&b);
    }
}

/* Twenty requests through a queue of one: those behind wait with us, and nothing is lost. */
static void a_full_queue_is_waited_for(void **state)
{
    struct room room = room_of(20, "8", "5");
    room.options.max_seqs = 2;
    room.options.max_waiting = 1;
    struct gp_service_result r = served(&room);

    (void)state;
    assert_int_equal(r.whole_ms.count, 20);
    assert_int_equal(r.counts.output_tokens, 100);
    assert_int_equal(r.run.concurrency_max, 2);
    gp_service_result_free(&r);
}

static void arrivals_are_waited_for(void **state)
{
    struct room room = room_of(15, "8", "4");
    double last = 0;

    (void)state;
    room.workload.rate = 500;
    for (uint32_t i = 0; i < 15; i++)
        last += gp_workload_wait_seconds(&room.workload, i);
    struct gp_service_result r = served(&room);
    assert_int_equal(r.whole_ms.count, 15);
    /* Not before the last one came; how long it then took is the machine's business. */
    assert_true((double)r.total_ns / 1e9 >= last);
    gp_service_result_free(&r);
}

static void one_token_answers_have_no_decoding(void **state)
{
    struct room room = room_of(4, "30", "1");
    struct gp_service_result r = served(&room);
    json_t *f = gp_service_figures(&r);

    (void)state;
    assert_int_equal(r.run.decode_steps, 0);
    assert_true(json_is_null(figure(f, "tps")) && json_is_null(figure(f, "kv_budget")));
    assert_true(json_is_null(figure(f, "tpot_ms.p50")) && json_is_null(figure(f, "concurrency")));
    assert_true(number(f, "ttft_ms.max") >= number(f, "ttft_ms.p50"));
    json_decref(f);
    gp_service_result_free(&r);
}

static void one_that_is_stopped_leaves_nothing_behind(void **state)
{
    uint64_t live = gp_mem_live();

    (void)state;
    for (uint32_t most = 0; most < 6; most++) {
        struct room room = room_of(6, "uniform:5:40", "uniform:5:40");
        struct gp_service_result result;
        struct gp_error err;
        bool complete = true;

        room.most = most;
        assert_int_equal(serve(&room, &result, &complete, &err), GP_OK);
        assert_false(complete);
        assert_int_equal(gp_mem_live(), live);
    }
}

static void refused_memory_is_told_and_loses_nothing(void **state)
{
    uint64_t live = gp_mem_live();
    bool refused = true;

    (void)state;
    for (refuse_at = 1; refused; refuse_at++) {
        struct room room = room_of(5, "10", "20");
        struct gp_service_result result = {0};
        struct gp_error err = {""};
        bool complete;

        int rc = serve(&room, &result, &complete, &err);
        refused = gp_mem_refused();
        gp_mem_refuse_at(0);
        assert_int_equal(rc, refused ? GP_ENOMEM : GP_OK);
        assert_true(refuse_at > 2 || refused);
        gp_service_result_free(&result);
        assert_int_equal(gp_mem_live(), live);
    }
    refuse_at = 0;
}

static void what_cannot_be_served_is_named(void **state)
{
    struct room room = room_of(3, "uniform:100:100", "1");
    struct gp_service_result result;
    struct gp_error err;
    uint32_t context;
    bool complete;

    (void)state;
    assert_int_equal(gp_service_context(&room.workload, 101, &context, &err), GP_OK);
    assert_int_equal(context, 101);
    assert_int_equal(gp_service_context(&room.workload, 100, &context, &err), GP_EINVAL);
    assert_string_equal(err.message, "request 0 has 100 + 1 tokens; the context holds 100");
    /* Seven pages of 16 would hold it. */
    room.options.kv_pages = 6;
    assert_int_equal(serve(&room, &result, &complete, &err), GP_EINVAL);
    assert_non_null(strstr(err.message, "request 0: prompt: 100 tokens"));
}

/* A request that is alone in the pool and cannot go on ends early, and that is said. */
static void answers_that_are_cut_short_are_counted(void **state)
{
    struct room room = room_of(2, "40", "200");
    room.options.kv_pages = 5;
    struct gp_service_result r = served(&room);

    (void)state;
    assert_int_equal(r.counts.cut_short, 2);
    assert_true(r.counts.output_tokens < 400);
    gp_service_result_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_of_a_small_workload_are_those_worked_by_hand),
        cmocka_unit_test(budgets_are_beside_their_nominal),
        cmocka_unit_test(every_decision_is_measured_and_counted),
        cmocka_unit_test(a_run_can_be_repeated),
        cmocka_unit_test(a_full_queue_is_waited_for),
        cmocka_unit_test(arrivals_are_waited_for),
        cmocka_unit_test(one_token_answers_have_no_decoding),
        cmocka_unit_test(one_that_is_stopped_leaves_nothing_behind),
        cmocka_unit_test(refused_memory_is_told_and_loses_nothing),
        cmocka_unit_test(what_cannot_be_served_is_named),
        cmocka_unit_test(answers_that_are_cut_short_are_counted),
    };

    return cmocka_run_group_tests_name("eval/service", tests, engine_rig_setup,
                                       engine_rig_teardown);
}
