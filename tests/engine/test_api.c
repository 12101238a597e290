/* The engine as a program sees it: submit, step, read, cancel, release, and every bad field. */
#include <math.h>
#include <poll.h>
#include <pthread.h>
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

static struct gp_engine *engine;

static int open_engine(void **state)
{
    struct gp_engine_options options;

    (void)state;
    engine_rig_options(&options);
    engine = engine_rig_engine(&options);
    return 0;
}

static int close_engine(void **state)
{
    (void)state;
    gp_engine_close(engine);
    engine = NULL;
    return 0;
}

static uint64_t submit(const struct gp_request *request)
{
    struct gp_error err = {""};
    uint64_t id = 0;

    if (gp_engine_submit(engine, request, &id, &err))
        fail_msg("%s", err.message);
    assert_int_not_equal(id, 0);
    return id;
}

static void assert_refused(const struct gp_request *request, const char *word)
{
    struct gp_error err = {""};
    uint64_t id = 77;

    assert_int_equal(gp_engine_submit(engine, request, &id, &err), GP_EINVAL);
    assert_int_equal(id, 77);
    if (!strstr(err.message, word))
        fail_msg("'%s' does not name '%s'", err.message, word);
}

static void every_bad_field_is_named(void **state)
{
    struct gp_request r;
    int32_t bad[] = {5, -1, 288, INT32_MAX};
    struct gp_kv_options kv;
    struct gp_logit_bias bias = {288, 1};

    (void)state;
    engine_rig_ask(&r, 0, 1);
    assert_refused(&r, "prompt");
    engine_rig_ask(&r, 4, 1);
    for (int i = 1; i < 4; i++) {
        int32_t ids[] = {5, bad[i]};

        engine_rig_ask(&r, 2, 1);
        r.tokens = ids;
        assert_refused(&r, "token 1");
        engine_rig_ask(&r, 2, 1);
        r.stop_ids = &bad[i];
        r.stop_id_count = 1;
        assert_refused(&r, "stop ids");
        engine_rig_ask(&r, 2, 1);
        r.forced = &bad[i];
        r.forced_count = 1;
        assert_refused(&r, "forced");
    }
    engine_rig_ask(&r, 2, 1);
    r.tokens = NULL;
    assert_refused(&r, "prompt");
    engine_rig_ask(&r, 2, 1);
    r.n = 1000;
    assert_refused(&r, "n:");
    engine_rig_ask(&r, 2, 1);
    r.logprobs = 21;
    assert_refused(&r, "logprobs");
    engine_rig_ask(&r, 2, 1);
    r.prompt_logprobs = -2;
    assert_refused(&r, "prompt logprobs");
    engine_rig_ask(&r, 2, 1);
    r.sampling.temperature = NAN;
    assert_refused(&r, "temp");
    engine_rig_ask(&r, 2, 1);
    r.sampling.top_p = 0;
    assert_refused(&r, "top");
    engine_rig_ask(&r, 2, 1);
    r.sampling.bias = &bias;
    r.sampling.bias_count = 1;
    assert_refused(&r, "bias");
    engine_rig_ask(&r, 2, 1);
    gp_kv_options_init(&kv);
    kv.coverage = 1.5;
    r.kv = &kv;
    assert_refused(&r, "coverage");
}

static void a_prompt_that_cannot_fit_is_refused_at_once(void **state)
{
    struct gp_engine_options options;
    struct gp_engine *small;
    struct gp_error err;
    struct gp_request r;
    uint64_t id;

    (void)state;
    engine_rig_ask(&r, 1024, 1);
    assert_refused(&r, "maximum context length is 1024");
    r.token_count = 1023;
    submit(&r);
    engine_rig_options(&options);
    options.kv_pages = 4;
    assert_int_equal(gp_engine_open(&small, engine_rig.model, &options, NULL), GP_OK);
    r.token_count = 64;
    assert_int_equal(gp_engine_submit(small, &r, &id, &err), GP_EINVAL);
    assert_non_null(strstr(err.message, "pool"));
    r.token_count = 63;
    assert_int_equal(gp_engine_submit(small, &r, &id, &err), GP_OK);
    gp_engine_run(small);
    gp_engine_close(small);
}

static void output_ends_where_it_should(void **state)
{
    struct gp_request r;
    struct rig_output out;

    (void)state;
    engine_rig_ask(&r, 10, 7);
    uint64_t id = submit(&r);

    gp_engine_run(engine);
    engine_rig_read(engine, id, 0, &out);
    assert_int_equal(out.count, 7);
    assert_int_equal(out.finish, GP_FINISH_LENGTH);
    assert_int_equal(out.stats.prompt_tokens, 10);
    /* Whatever came third stops the next run there, and is part of the output. */
    int32_t third = out.tokens[2].id;

    r.stop_ids = &third;
    r.stop_id_count = 1;
    id = submit(&r);
    gp_engine_run(engine);
    engine_rig_read(engine, id, 0, &out);
    assert_int_equal(out.finish, GP_FINISH_STOP);
    assert_true(out.count <= 3);
    assert_int_equal(out.tokens[out.count - 1].id, third);
    /* ... but not before min_tokens. */
    r.min_tokens = 6;
    id = submit(&r);
    gp_engine_run(engine);
    engine_rig_read(engine, id, 0, &out);
    assert_true(out.count >= 6);
    for (uint32_t i = 0; i < 6; i++)
        assert_int_not_equal(out.tokens[i].id, third);
    /* max_tokens 0 runs to the end of the context. */
    engine_rig_ask(&r, 1000, 0);
    id = submit(&r);
    gp_engine_run(engine);
    engine_rig_read(engine, id, 0, &out);
    assert_int_equal(out.count, 24);
    assert_int_equal(out.finish, GP_FINISH_LENGTH);
}

static void n_choices_differ_when_drawn_and_agree_when_greedy(void **state)
{
    struct gp_request r;
    struct rig_output a, b, again;

    (void)state;
    engine_rig_ask(&r, 10, 20);
    r.n = 4;
    r.sampling.seed = 7;
    uint64_t first = submit(&r), second = submit(&r);

    gp_engine_run(engine);
    for (uint32_t i = 0; i < 4; i++) {
        engine_rig_read(engine, first, i, &a);
        engine_rig_read(engine, second, i, &again);
        engine_rig_assert_same(&a, &again);
        for (uint32_t j = 0; j < i; j++) {
            engine_rig_read(engine, first, j, &b);
            assert_memory_not_equal(a.tokens, b.tokens, 20 * sizeof *a.tokens);
        }
    }
    r.sampling.temperature = 0;
    first = submit(&r);
    gp_engine_run(engine);
    engine_rig_read(engine, first, 0, &a);
    for (uint32_t i = 1; i < 4; i++) {
        engine_rig_read(engine, first, i, &b);
        engine_rig_assert_same(&a, &b);
    }
}

struct script {
    int32_t seen[64];
    uint32_t count;
    int32_t force;
    uint32_t stop_at;
};

static int32_t follow_script(void *ctx, uint32_t choice, int32_t id)
{
    struct script *script = ctx;

    (void)choice;
    script->seen[script->count++] = id;
    free(malloc(100)); /* a callback may allocate */
    if (script->count == script->stop_at)
        return GP_STOP;
    return script->count % 3 == 0 ? gp_force(script->force) : GP_GO;
}

static void on_token_sees_forces_and_stops(void **state)
{
    struct script script = {.force = 42, .stop_at = 11};
    struct gp_request r;
    struct rig_output out;
    int32_t forced[] = {9, 8};

    (void)state;
    engine_rig_ask(&r, 10, 60);
    r.forced = forced;
    r.forced_count = 2;
    r.on_token = follow_script;
    r.ctx = &script;
    uint64_t id = submit(&r);

    gp_engine_run(engine);
    engine_rig_read(engine, id, 0, &out);
    assert_int_equal(out.count, 11);
    assert_int_equal(out.finish, GP_FINISH_STOP);
    for (uint32_t i = 0; i < 11; i++)
        assert_int_equal(out.tokens[i].id, script.seen[i]);
    assert_int_equal(out.tokens[0].id, 9);
    assert_int_equal(out.tokens[1].id, 8);
    assert_int_equal(out.tokens[3].id, 42);
    assert_int_equal(out.tokens[6].id, 42);
    assert_int_equal(out.tokens[9].id, 42);
}

static void allow_even_ids(void *ctx, uint32_t choice, const int32_t *output, uint32_t count,
                           uint64_t *mask)
{
    (void)ctx;
    (void)choice;
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(output[i] % 2, 0);
    for (int i = 0; i < 5; i++)
        mask[i] &= 0x5555555555555555u;
}

static void allow_nothing(void *ctx, uint32_t choice, const int32_t *output, uint32_t count,
                          uint64_t *mask)
{
    (void)ctx;
    (void)choice;
    (void)output;
    (void)count;
    memset(mask, 0, 5 * sizeof *mask);
}

static void a_constraint_rules_what_may_come(void **state)
{
    struct gp_request r;
    struct rig_output out;

    (void)state;
    engine_rig_ask(&r, 10, 30);
    r.constraint = allow_even_ids;
    uint64_t id = submit(&r);

    gp_engine_run(engine);
    engine_rig_read(engine, id, 0, &out);
    assert_int_equal(out.count, 30);
    for (uint32_t i = 0; i < 30; i++)
        assert_int_equal(out.tokens[i].id % 2, 0);
    r.constraint = allow_nothing;
    id = submit(&r);
    gp_engine_run(engine);
    engine_rig_read(engine, id, 0, &out);
    assert_int_equal(out.count, 0);
    assert_int_equal(out.finish, GP_FINISH_ERROR);
}

/* The alternatives are a log-softmax: best first, never above 0, the drawn one's value among
 * them, and all of a vocabulary's probabilities would sum to 1. */
static void logprobs_are_ordered_and_consistent(void **state)
{
    struct gp_request r;
    struct rig_output out;
    struct gp_logprob tops[20];

    (void)state;
    engine_rig_ask(&r, 10, 12);
    r.logprobs = 20;
    r.sampling.temperature = 0;
    uint64_t id = submit(&r);

    gp_engine_run(engine);
    engine_rig_read(engine, id, 0, &out);
    for (uint32_t i = 0; i < out.count; i++) {
        double sum = 0;

        assert_int_equal(gp_engine_alternatives(engine, id, 0, false, i, tops, 20), 20);
        assert_int_equal(tops[0].id, out.tokens[i].id);
        assert_memory_equal(&tops[0].logprob, &out.tokens[i].logprob, sizeof(float));
        for (int k = 0; k < 20; k++) {
            sum += exp((double)tops[k].logprob);
            assert_true(k == 0 || tops[k].logprob <= tops[k - 1].logprob);
        }
        assert_true(sum > 0 && sum <= 1 + 1e-5);
    }
    assert_int_equal(gp_engine_alternatives(engine, id, 0, false, 12, tops, 20), 0);
    assert_int_equal(gp_engine_alternatives(engine, id, 0, true, 1, tops, 20), 0);
}

/* What a prompt's tokens were worth is what the same tokens are worth when they are forced. */
static void prompt_logprobs_equal_those_of_forced_output(void **state)
{
    struct gp_kv_options full;
    struct gp_request r;
    struct rig_output out;
    struct gp_logprob mine[3], theirs[3];

    (void)state;
    /* Prompts are never compacted, output is: only a full cache may be compared. */
    gp_kv_options_init(&full);
    full.policy = GP_POLICY_FULL;
    engine_rig_ask(&r, 100, 1);
    r.kv = &full;
    r.prompt_logprobs = 3;
    uint64_t scored = submit(&r);

    engine_rig_ask(&r, 40, 60);
    r.kv = &full;
    r.logprobs = 3;
    r.forced = engine_rig_ids + 40;
    r.forced_count = 60;
    uint64_t forced = submit(&r);

    gp_engine_run(engine);
    engine_rig_read(engine, forced, 0, &out);
    assert_int_equal(out.count, 60);
    for (uint32_t i = 0; i < 60; i++) {
        float value = gp_engine_prompt_logprob(engine, scored, 40 + i);

        assert_memory_equal(&value, &out.tokens[i].logprob, sizeof value);
        assert_int_equal(gp_engine_alternatives(engine, scored, 0, true, 40 + i, mine, 3), 3);
        assert_int_equal(gp_engine_alternatives(engine, forced, 0, false, i, theirs, 3), 3);
        assert_memory_equal(mine, theirs, sizeof mine);
    }
    assert_true(gp_engine_prompt_logprob(engine, scored, 0) == 0);
    assert_true(gp_engine_prompt_logprob(engine, scored, 1) < 0);
}

static void a_cancel_gives_pages_back_in_every_state(void **state)
{
    (void)state;
    for (uint32_t at = 0; at < 40; at++) {
        struct gp_request r;
        uint64_t ids[20];
        enum gp_finish finish;

        for (uint32_t i = 0; i < 20; i++) { /* 16 run, 4 wait */
            engine_rig_ask(&r, 30 + i * 10, 100);
            ids[i] = submit(&r);
        }
        for (uint32_t step = 0; step < at; step++)
            gp_engine_step(engine);
        for (uint32_t i = 0; i < 20; i++)
            gp_engine_cancel(engine, ids[i]);
        gp_engine_step(engine);
        assert_int_equal(gp_pool_free_count(engine->pool), gp_pool_total(engine->pool));
        assert_int_equal(gp_engine_step(engine), 0);
        for (uint32_t i = 0; i < 20; i++) {
            gp_engine_read(engine, ids[i], 0, 0, NULL, 0, &finish);
            assert_int_equal(finish, GP_FINISH_CANCELLED);
            gp_engine_release(engine, ids[i]);
        }
        assert_int_equal(engine->slab.used, 0);
        assert_int_equal(engine->sequences_out, 0);
    }
    gp_engine_cancel(engine, 0);
    gp_engine_cancel(engine, UINT64_MAX);
    gp_engine_release(engine, 12345);
}

static void a_released_id_is_unknown_and_its_place_is_reused(void **state)
{
    struct gp_request r;
    uint64_t old = 0;

    (void)state;
    for (uint32_t round = 0; round < 300; round++) {
        struct gp_request_stats stats;
        enum gp_finish finish;

        engine_rig_ask(&r, 5, 2);
        uint64_t id = submit(&r);

        assert_int_not_equal(id, old);
        if (round % 3 == 0)
            gp_engine_release(engine, id); /* before it ever ran */
        gp_engine_run(engine);
        if (round % 3 != 0)
            assert_true(gp_engine_request_stats(engine, id, 0, &stats));
        gp_engine_release(engine, id);
        assert_false(gp_engine_request_stats(engine, id, 0, &stats));
        assert_int_equal(gp_engine_read(engine, id, 0, 0, NULL, 0, &finish), 0);
        old = id;
    }
    assert_int_equal(engine->slab.used, 0);
}

static void a_full_queue_says_so_and_loses_nothing(void **state)
{
    struct gp_request r;
    struct gp_error err;
    uint64_t ids[200], extra;
    uint32_t count = 0;
    int rc;

    (void)state;
    engine_rig_ask(&r, 20, 5);
    while ((rc = gp_engine_submit(engine, &r, &ids[count], &err)) == GP_OK)
        assert_true(++count < 200);
    assert_int_equal(rc, GP_EAGAIN);
    assert_int_equal(count, 80); /* 16 run, 64 wait */
    gp_engine_run(engine);
    assert_int_equal(gp_engine_submit(engine, &r, &extra, &err),
                     GP_EAGAIN); /* none forgotten yet */
    for (uint32_t i = 0; i < count; i++) {
        struct rig_output out;

        engine_rig_read(engine, ids[i], 0, &out);
        assert_int_equal(out.count, 5);
        gp_engine_release(engine, ids[i]);
    }
    submit(&r);
}

static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

static void descriptors_tell_of_work_and_news(void **state)
{
    struct gp_request r;
    uint64_t ids[4];

    (void)state;
    assert_false(readable(gp_engine_work_fd(engine)));
    assert_false(readable(gp_engine_news_fd(engine)));
    engine_rig_ask(&r, 20, 3);
    uint64_t id = submit(&r);

    assert_true(readable(gp_engine_work_fd(engine)));
    gp_engine_step(engine);
    assert_false(readable(gp_engine_work_fd(engine)));
    assert_true(readable(gp_engine_news_fd(engine)));
    assert_int_equal(gp_engine_poll(engine, ids, 4), 1);
    assert_true(ids[0] == id);
    assert_false(readable(gp_engine_news_fd(engine)));
    assert_int_equal(gp_engine_poll(engine, ids, 4), 0);
    gp_engine_run(engine);
    assert_true(readable(gp_engine_news_fd(engine)));
    gp_engine_cancel(engine, id); /* too late: no work */
    assert_false(readable(gp_engine_work_fd(engine)));
}

/* Requests whose news come faster than they are asked for must not hide those of others. */
static void short_polls_tell_of_everybody_in_turn(void **state)
{
    uint64_t ids[8], told[3];
    uint32_t seen[8] = {0};
    struct gp_request r;

    (void)state;
    engine_rig_ask(&r, 5, 30);
    for (uint32_t i = 0; i < 8; i++)
        ids[i] = submit(&r);
    for (uint32_t round = 0; round < 24; round++) {
        assert_int_equal(gp_engine_step(engine), round == 0 ? 40 : 8);
        assert_int_equal(gp_engine_poll(engine, told, 3), 3);
        for (uint32_t k = 0; k < 3; k++)
            for (uint32_t i = 0; i < 8; i++)
                seen[i] += told[k] == ids[i];
    }
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(seen[i], 9);
}

static void a_lone_request_that_outgrows_the_pool_ends_with_a_reason(void **state)
{
    struct gp_engine_options options;
    struct gp_request r;
    struct rig_output out;

    (void)state;
    engine_rig_options(&options);
    options.kv_pages = 4;
    gp_policy_parse("full", &options.kv, NULL);
    engine_rig_ask(&r, 30, 200);
    engine_rig_alone(&engine_rig, &options, &r, &out);
    assert_int_equal(out.finish, GP_FINISH_CAPACITY);
    assert_int_equal(out.count, 64 - 30 + 1);
    gp_policy_parse("growpage", &options.kv, NULL);
    engine_rig_alone(&engine_rig, &options, &r, &out);
    assert_int_equal(out.finish, GP_FINISH_LENGTH);
    assert_int_equal(out.count, 200);
    assert_int_equal(out.stats.pages_peak, 4);
}

static void events_add_up_to_the_counters(void **state)
{
    struct gp_request r;
    struct rig_output out;
    struct gp_boundary_event event;
    uint32_t grow = 0, compress = 0, initial = 0;

    (void)state;
    engine_rig_ask(&r, 40, 400);
    uint64_t id = submit(&r);

    gp_engine_run(engine);
    engine_rig_read(engine, id, 0, &out);
    assert_true(out.stats.boundary_count > 5);
    for (uint32_t i = 0; i < out.stats.boundary_count; i++) {
        assert_true(gp_engine_boundary(engine, id, 0, i, &event));
        assert_true(event.pages_after >= event.pages_before);
        assert_int_equal(event.pages_after - event.pages_before, event.action == GP_ACTION_GROW);
        if (event.cause == GP_CAUSE_POLICY) {
            assert_true(event.has_delta);
            assert_true(event.delta >= -1 && event.delta <= 1);
            assert_int_equal(event.action, event.delta > 0 ? GP_ACTION_GROW : GP_ACTION_COMPRESS);
        }
        grow += event.cause == GP_CAUSE_POLICY && event.action == GP_ACTION_GROW;
        compress += event.cause == GP_CAUSE_POLICY && event.action == GP_ACTION_COMPRESS;
        initial += event.cause == GP_CAUSE_INITIAL || event.cause == GP_CAUSE_START;
    }
    assert_false(gp_engine_boundary(engine, id, 0, out.stats.boundary_count, &event));
    assert_int_equal(grow, out.stats.grow);
    assert_int_equal(compress, out.stats.compress);
    assert_int_equal(initial, out.stats.initial + out.stats.start);
    assert_true(out.stats.compress > 0);
}

static void opening_survives_every_refused_allocation(void **state)
{
    struct gp_engine_options options;
    struct gp_error err;
    uint64_t before = gp_mem_live(), nth = 1;
    bool refused;

    (void)state;
    engine_rig_options(&options);
    options.threads = 2;
    do {
        struct gp_engine *e = NULL;

        gp_mem_refuse_at(nth++);
        int rc = gp_engine_open(&e, engine_rig.model, &options, &err);

        refused = gp_mem_refused();
        gp_mem_refuse_at(0);
        assert_int_equal(rc, refused ? GP_ENOMEM : GP_OK);
        if (rc == GP_OK)
            gp_engine_close(e);
        assert_int_equal(gp_mem_live(), before);
    } while (refused);
    assert_true(nth > 20);
}

static void impossible_options_are_named(void **state)
{
    struct gp_engine_options good, o;
    struct gp_engine *e;
    struct gp_error err;

    (void)state;
    engine_rig_options(&good);
#define REFUSED(change, word)                                                                      \
    do {                                                                                           \
        o = good;                                                                                  \
        change;                                                                                    \
        assert_int_equal(gp_engine_open(&e, engine_rig.model, &o, &err), GP_EINVAL);               \
        if (!strstr(err.message, word))                                                            \
            fail_msg("'%s' does not name '%s'", err.message, word);                                \
    } while (0)
    REFUSED(o.page_tokens = 0, "page-size");
    REFUSED(o.page_tokens = 24, "page-size");
    REFUSED(o.page_tokens = 8192, "page-size");
    REFUSED(o.max_seqs = 0, "max-seqs");
    REFUSED(o.max_seqs = 1000, "max-seqs");
    REFUSED(o.max_batch_tokens = 8, "max-batch-tokens");
    REFUSED(o.max_stall = 0.5, "max-stall");
    REFUSED(o.max_stall = -1, "max-stall");
    REFUSED(o.max_stall = 1e9, "max-stall");
    REFUSED(o.context = 1, "ctx-size");
    REFUSED(o.threads = 5000, "threads");
    REFUSED(o.kv_type = "q3", "kv-type");
    REFUSED(o.kv_pages = 1, "kv-memory");
    REFUSED(o.kv_bytes = 100; o.kv_pages = 0, "kv-memory");
    REFUSED(o.kv_bytes = 100, "kv-pages");
    REFUSED(o.kv.coverage = 0, "coverage");
    REFUSED(o.kv.beta_long = 2, "beta");
#undef REFUSED
}

/* One thread steps, others submit, read, cancel and release; TSan listens. */
struct user {
    uint32_t number;
    uint32_t finished;
};

static void *use_engine(void *arg)
{
    struct user *user = arg;

    for (uint32_t round = 0; round < 8; round++) {
        struct gp_request r;
        struct gp_token tokens[64];
        enum gp_finish finish = GP_FINISH_NONE;
        uint64_t id, ids[8];
        uint32_t read = 0;

        engine_rig_ask(&r, 10 + 7 * user->number, 12);
        while (gp_engine_submit(engine, &r, &id, NULL) == GP_EAGAIN)
            poll(NULL, 0, 1);
        if (round % 4 == 3)
            gp_engine_cancel(engine, id);
        while (finish == GP_FINISH_NONE) {
            gp_engine_poll(engine, ids, 8);
            read += gp_engine_read(engine, id, 0, read, tokens + read, 64 - read, &finish);
        }
        user->finished += finish == GP_FINISH_LENGTH && read == 12;
        gp_engine_release(engine, id);
    }
    return NULL;
}

static void other_threads_may_submit_read_and_cancel(void **state)
{
    struct user users[4] = {{0}};
    pthread_t threads[4];
    uint32_t idle = 0;

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        users[i].number = i;
        assert_int_equal(pthread_create(&threads[i], NULL, use_engine, &users[i]), 0);
    }
    while (idle < 300) {
        idle = gp_engine_step(engine) ? 0 : idle + 1;
        if (idle)
            poll(NULL, 0, 1);
    }
    for (uint32_t i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_true(users[i].finished >= 6);
    }
    assert_int_equal(engine->slab.used, 0);
}

#define WITH_ENGINE(test) cmocka_unit_test_setup_teardown(test, open_engine, close_engine)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ENGINE(every_bad_field_is_named),
        WITH_ENGINE(a_prompt_that_cannot_fit_is_refused_at_once),
        WITH_ENGINE(output_ends_where_it_should),
        WITH_ENGINE(n_choices_differ_when_drawn_and_agree_when_greedy),
        WITH_ENGINE(on_token_sees_forces_and_stops),
        WITH_ENGINE(a_constraint_rules_what_may_come),
        WITH_ENGINE(logprobs_are_ordered_and_consistent),
        WITH_ENGINE(prompt_logprobs_equal_those_of_forced_output),
        WITH_ENGINE(a_cancel_gives_pages_back_in_every_state),
        WITH_ENGINE(a_released_id_is_unknown_and_its_place_is_reused),
        WITH_ENGINE(a_full_queue_says_so_and_loses_nothing),
        WITH_ENGINE(descriptors_tell_of_work_and_news),
        WITH_ENGINE(short_polls_tell_of_everybody_in_turn),
        cmocka_unit_test(a_lone_request_that_outgrows_the_pool_ends_with_a_reason),
        WITH_ENGINE(events_add_up_to_the_counters),
        cmocka_unit_test(opening_survives_every_refused_allocation),
        cmocka_unit_test(impossible_options_are_named),
        WITH_ENGINE(other_threads_may_submit_read_and_cancel),
    };

    return cmocka_run_group_tests(tests, engine_rig_setup, engine_rig_teardown);
}
