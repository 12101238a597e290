/* Forks, decisions that the caller takes, and taps: what an evaluation stands on. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine_rig.h"

#define PROMPT 45u
#define OUTPUT 110u

static void ask(struct gp_request *request)
{
    engine_rig_ask(request, PROMPT, OUTPUT);
    request->logprobs = 0;
    request->sampling.temperature = 0.8f;
    request->sampling.seed = 9;
}

/* The same tokens to come as in a request of ask() that has drawn `drawn` of them. */
static void ask_fork(struct gp_request *request, uint32_t drawn)
{
    ask(request);
    request->tokens = NULL;
    request->token_count = 0;
    request->max_tokens = OUTPUT - drawn;
}

/* What a fork gave is the end of what its parent gave. */
static void assert_end_of(const struct rig_output *parent, const struct rig_output *fork,
                          uint32_t drawn)
{
    struct rig_output rest = {.finish = parent->finish, .count = parent->count - drawn};

    memcpy(rest.tokens, parent->tokens + drawn, rest.count * sizeof *rest.tokens);
    engine_rig_assert_same(&rest, fork);
}

/* Step until the parent has drawn so many tokens and can be forked. */
static uint32_t step_to(struct gp_engine *engine, uint64_t id, uint32_t drawn)
{
    for (;;) {
        const struct gp_seq *seq = engine_rig_seq(engine, id, 0);

        if (seq && seq->token_count >= PROMPT + drawn && gp_sched_may_fork(seq))
            return seq->token_count - PROMPT;
        assert_true(gp_engine_step(engine) > 0);
    }
}

static void a_fork_goes_on_as_its_parent_does(void **state)
{
    (void)state;
    for (uint32_t p = 0; p < RIG_POLICIES; p++) {
        struct gp_engine_options options;
        struct gp_request request, more;
        struct rig_output parent, fork;
        uint64_t id, forks[6];
        uint32_t drawn[6];

        engine_rig_options(&options);
        engine_rig_set_policy(&options, engine_rig_policies[p]);
        struct gp_engine *engine = engine_rig_engine(&options);

        ask(&request);
        assert_int_equal(gp_engine_submit(engine, &request, &id, NULL), GP_OK);
        for (uint32_t i = 0; i < 6; i++) {
            drawn[i] = step_to(engine, id, 1 + 17 * i);
            ask_fork(&more, drawn[i]);
            assert_int_equal(gp_engine_fork(engine, id, 0, &more, &forks[i], NULL), GP_OK);
        }
        gp_engine_run(engine);
        engine_rig_read(engine, id, 0, &parent);
        for (uint32_t i = 0; i < 6; i++) {
            engine_rig_read(engine, forks[i], 0, &fork);
            assert_end_of(&parent, &fork, drawn[i]);
            gp_engine_release(engine, forks[i]);
        }
        gp_engine_release(engine, id);
        assert_int_equal(gp_pool_free_count(engine->pool), gp_pool_total(engine->pool));
        gp_engine_close(engine);
    }
}

/* A fork has its parent's history, so a preemption may take its pages at any step. */
static void a_fork_can_be_preempted(void **state)
{
    (void)state;
    for (uint32_t p = 0; p < RIG_POLICIES; p++) {
        struct gp_engine_options options;
        struct gp_request request, more;
        struct rig_output parent, fork;
        uint64_t id, other;
        uint32_t step = 0;

        engine_rig_options(&options);
        engine_rig_set_policy(&options, engine_rig_policies[p]);
        struct gp_engine *engine = engine_rig_engine(&options);

        ask(&request);
        assert_int_equal(gp_engine_submit(engine, &request, &id, NULL), GP_OK);
        uint32_t drawn = step_to(engine, id, 60);

        ask_fork(&more, drawn);
        assert_int_equal(gp_engine_fork(engine, id, 0, &more, &other, NULL), GP_OK);
        while (gp_engine_step(engine)) {
            struct gp_seq *seq = engine_rig_seq(engine, other, 0);

            if (++step % 23 == 1 && step < 100 && seq && seq->state == GP_SEQ_RUNNING)
                gp_sched_preempt(engine->sched, seq);
        }
        engine_rig_read(engine, id, 0, &parent);
        engine_rig_read(engine, other, 0, &fork);
        assert_true(fork.stats.preempt > 0);
        assert_end_of(&parent, &fork, drawn);
        gp_engine_close(engine);
    }
}

static void a_fork_that_cannot_be_says_why(void **state)
{
    struct gp_engine_options options;
    struct gp_request request, more;
    struct gp_error err;
    uint64_t id, other = 77;

    (void)state;
    engine_rig_options(&options);
    engine_rig_set_policy(&options, "full");
    options.kv_pages = 8;
    struct gp_engine *engine = engine_rig_engine(&options);

    ask(&request);
    ask_fork(&more, 5);
    assert_int_equal(gp_engine_fork(engine, 1234567, 0, &more, &other, &err), GP_EINVAL);
    assert_int_equal(gp_engine_submit(engine, &request, &id, NULL), GP_OK);
    assert_int_equal(gp_engine_fork(engine, id, 0, &more, &other, &err), GP_EINVAL);
    step_to(engine, id, 22); /* five pages of eight */
    assert_int_equal(gp_engine_fork(engine, id, 0, &more, &other, &err), GP_EAGAIN);
    assert_non_null(strstr(err.message, "no room"));
    assert_int_equal(gp_engine_fork(engine, id, 1, &more, &other, &err), GP_EINVAL);
    assert_int_equal(gp_engine_fork(engine, id, 0, &request, &other, &err), GP_EINVAL);
    assert_non_null(strstr(err.message, "tokens"));
    more.n = 2;
    assert_int_equal(gp_engine_fork(engine, id, 0, &more, &other, &err), GP_EINVAL);
    assert_non_null(strstr(err.message, "n is"));
    assert_int_equal(other, 77);
    gp_engine_run(engine);
    gp_engine_close(engine);
}

/* ---- decisions ---- */

static enum gp_action always_grow(void *ctx, uint32_t choice, const struct gp_boundary_event *event)
{
    (void)choice;
    (void)event;
    ++*(uint32_t *)ctx;
    return GP_ACTION_GROW;
}

/* As `random:1` does: grow while it must, else compress. */
static enum gp_action always_compress(void *ctx, uint32_t choice,
                                      const struct gp_boundary_event *event)
{
    (void)choice;
    ++*(uint32_t *)ctx;
    return event->cause == GP_CAUSE_POLICY ? GP_ACTION_COMPRESS : event->action;
}

static void run_with(const char *policy, struct gp_request *request, struct rig_output *out)
{
    struct gp_engine_options options;

    engine_rig_options(&options);
    engine_rig_set_policy(&options, policy);
    engine_rig_alone(&engine_rig, &options, request, out);
}

static void a_decision_can_be_overridden(void **state)
{
    struct gp_request request;
    struct rig_output asked, plain;
    uint32_t calls = 0;

    (void)state;
    ask(&request);
    request.ctx = &calls;
    request.on_boundary = always_grow;
    run_with("random:1", &request, &asked);
    request.on_boundary = NULL;
    run_with("full", &request, &plain);
    engine_rig_assert_same(&plain, &asked);
    assert_int_equal(calls, plain.stats.start + plain.stats.grow);
    assert_int_equal(asked.stats.compress, 0);

    request.on_boundary = always_compress;
    run_with("growpage", &request, &asked);
    request.on_boundary = NULL;
    run_with("random:1", &request, &plain);
    engine_rig_assert_same(&plain, &asked);
    assert_int_equal(asked.stats.grow, 0);
}

static enum gp_action in_turn(void *ctx, uint32_t choice, const struct gp_boundary_event *event)
{
    (void)ctx;
    (void)choice;
    return event->tokens / 16 % 2 ? GP_ACTION_GROW : GP_ACTION_COMPRESS;
}

/* What was decided is in the log: a replay asks nobody. */
static void an_overridden_decision_is_replayed(void **state)
{
    struct gp_engine_options options;
    struct gp_request request;
    struct rig_output alone, again;
    uint64_t id;
    uint32_t step = 0;

    (void)state;
    engine_rig_options(&options);
    engine_rig_set_policy(&options, "growpage");
    ask(&request);
    request.on_boundary = in_turn;
    engine_rig_alone(&engine_rig, &options, &request, &alone);
    struct gp_engine *engine = engine_rig_engine(&options);

    assert_int_equal(gp_engine_submit(engine, &request, &id, NULL), GP_OK);
    while (gp_engine_step(engine)) {
        struct gp_seq *seq = engine_rig_seq(engine, id, 0);

        if (++step % 31 == 0 && step < 200 && seq && seq->state == GP_SEQ_RUNNING)
            gp_sched_preempt(engine->sched, seq);
    }
    engine_rig_read(engine, id, 0, &again);
    assert_true(again.stats.preempt > 1);
    engine_rig_assert_same(&alone, &again);
    gp_engine_close(engine);
}

/* ---- taps ---- */

struct taps {
    struct gp_engine *engine;
    uint64_t id;
    uint32_t count, checked;
};

/* The definition, in double arithmetic, from what the engine holds. */
static uint32_t working_set(struct gp_engine *engine, const struct gp_seq *seq, uint32_t layer,
                            uint32_t head, double *left)
{
    const struct gp_hparams *hp = &engine->model->weights->hp;
    uint32_t group = hp->head_count / hp->kv_head_count, n = seq->cached, count = 0;
    struct gp_kv_view kv = gp_cache_view(&engine->cache, hp, seq->table, layer, head);
    uint32_t row = (seq->computed - 1) % engine->cache.window_rows;
    const float *query =
        engine->cache.windows + (((size_t)layer * engine->cache.summary_slots + seq->query_slot) *
                                     engine->cache.window_rows +
                                 row) *
                                    hp->head_count * hp->key_dim;
    double *mean = calloc(n, sizeof *mean), *one = calloc(n, sizeof *one);
    double sum = 0;

    for (uint32_t g = 0; g < group; g++) {
        double most = -INFINITY, total = 0;

        for (uint32_t i = 0; i < n; i++) {
            float key[GP_LIMIT_HEAD_DIM], value[GP_LIMIT_HEAD_DIM];

            gp_kv_load(&kv, i, key, value);
            one[i] = 0;
            for (uint32_t d = 0; d < hp->key_dim; d++)
                one[i] += (double)query[(head * group + g) * hp->key_dim + d] * key[d];
            one[i] /= sqrt(hp->key_dim);
            most = fmax(most, one[i]);
        }
        for (uint32_t i = 0; i < n; i++)
            total += one[i] = exp(one[i] - most);
        for (uint32_t i = 0; i < n; i++)
            mean[i] += one[i] / total / group;
    }
    for (; sum < 0.99 && count < n; count++) {
        uint32_t best = 0;

        for (uint32_t i = 1; i < n; i++)
            best = mean[i] > mean[best] ? i : best;
        sum += mean[best];
        mean[best] = -1;
    }
    *left = sum - 0.99;
    free(mean);
    free(one);
    return count;
}

static void see_tap(void *ctx, uint32_t choice, const struct gp_tap *tap)
{
    struct taps *taps = ctx;
    const struct gp_seq *seq = engine_rig_seq(taps->engine, taps->id, choice);

    taps->count++;
    assert_int_equal(tap->tokens, seq->computed);
    assert_int_equal(tap->slots, seq->cached);
    assert_int_equal((tap->tokens - PROMPT) % 7, 0);
    for (uint32_t layer = 0; layer < tap->layer_count; layer++)
        for (uint32_t head = 0; head < tap->kv_head_count; head++) {
            double left;
            uint32_t count = working_set(taps->engine, seq, layer, head, &left);
            uint32_t told = tap->counts[layer * tap->kv_head_count + head];

            if (left < 1e-6)
                continue; /* a near tie may fall on either side */
            if (told != count)
                fail_msg("layer %u head %u of %u slots: told %u, found %u", layer, head, tap->slots,
                         told, count);
            taps->checked++;
        }
}

static void a_tap_counts_what_a_row_looks_at(void **state)
{
    static const char *const policies[] = {"full", "growpage", "zipage:48", "morphkv:60"};

    (void)state;
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
        struct gp_engine_options options;
        struct gp_request request;
        struct rig_output plain, tapped;
        struct taps taps = {0};

        engine_rig_options(&options);
        engine_rig_set_policy(&options, policies[p]);
        ask(&request);
        engine_rig_alone(&engine_rig, &options, &request, &plain);
        options.taps = true;
        options.threads = 2;
        taps.engine = engine_rig_engine(&options);
        request.on_tap = see_tap;
        request.tap_every = 7;
        request.ctx = &taps;
        assert_int_equal(gp_engine_submit(taps.engine, &request, &taps.id, NULL), GP_OK);
        gp_engine_run(taps.engine);
        engine_rig_read(taps.engine, taps.id, 0, &tapped);
        engine_rig_assert_same(&plain, &tapped);
        assert_int_equal(taps.count, (OUTPUT - 1) / 7);
        assert_true(taps.checked > 40);
        gp_engine_close(taps.engine);
    }
}

static void a_tap_has_to_be_paid_for_at_open(void **state)
{
    struct gp_engine_options options;
    struct gp_request request;
    struct gp_error err;
    uint64_t id;

    (void)state;
    engine_rig_options(&options);
    struct gp_engine *engine = engine_rig_engine(&options);

    ask(&request);
    request.on_tap = see_tap;
    assert_int_equal(gp_engine_submit(engine, &request, &id, &err), GP_EINVAL);
    assert_non_null(strstr(err.message, "on_tap"));
    gp_engine_close(engine);
}

/* Such a parent may have brought its policy itself; the engine's own allows taps. */
static void no_fork_taps_a_policy_that_turns_its_keys(void **state)
{
    struct gp_engine_options options, other;
    struct gp_request request, more;
    struct gp_error err;
    uint64_t id, fork;

    (void)state;
    engine_rig_options(&options);
    other = options;
    engine_rig_set_policy(&other, "streaming:40");
    options.kv_also = &other.kv;
    options.kv_also_count = 1;
    options.taps = true;
    struct gp_engine *engine = engine_rig_engine(&options);

    ask(&request);
    request.kv = &other.kv;
    assert_int_equal(gp_engine_submit(engine, &request, &id, NULL), GP_OK);
    uint32_t drawn = step_to(engine, id, 5);

    ask_fork(&more, drawn);
    more.on_tap = see_tap;
    assert_int_equal(gp_engine_fork(engine, id, 0, &more, &fork, &err), GP_EINVAL);
    assert_non_null(strstr(err.message, "on_tap"));
    more.on_tap = NULL;
    assert_int_equal(gp_engine_fork(engine, id, 0, &more, &fork, &err), GP_OK);
    gp_engine_run(engine);
    gp_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fork_goes_on_as_its_parent_does),
        cmocka_unit_test(a_fork_can_be_preempted),
        cmocka_unit_test(a_fork_that_cannot_be_says_why),
        cmocka_unit_test(a_decision_can_be_overridden),
        cmocka_unit_test(an_overridden_decision_is_replayed),
        cmocka_unit_test(a_tap_counts_what_a_row_looks_at),
        cmocka_unit_test(a_tap_has_to_be_paid_for_at_open),
        cmocka_unit_test(no_fork_taps_a_policy_that_turns_its_keys),
    };

    return cmocka_run_group_tests(tests, engine_rig_setup, engine_rig_teardown);
}
