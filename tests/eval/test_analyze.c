/* Analyses against the same measured another way: what forks say against a request made to do what
 * the fork did, what was watched against taps of a full cache, and that who is asked beside whom
 * changes nothing. */
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
#include "eval/analyze_forks.h"

#define TOKENS 110u
#define PAGE   16u

struct room {
    struct gp_engine *engine;
    struct gp_exam exam;
    struct gp_kv_options kv[3];
    struct gp_sitting sitting;
    struct gp_analysis analysis;
    uint32_t steps, most; /* go_on says no at this many; 0: never */
};

static const uint32_t budgets[] = {32, 64};

static bool go_on(void *ctx, const struct gp_sitting_state *state)
{
    struct room *room = ctx;

    assert_true(state->done <= state->total);
    return room->most == 0 || ++room->steps < room->most;
}

static void open_room(struct room *room, uint32_t limit, uint32_t concurrency, uint32_t horizon)
{
    struct gp_engine_options options;
    struct gp_error err;

    memset(room, 0, sizeof *room);
    engine_rig_options(&options);
    options.taps = options.kv_sync = true;
    options.threads = 1 + concurrency % 2;
    room->engine = NULL;
    if (gp_engine_open(&room->engine, engine_rig.model, &options, &err))
        fail_msg("%s", err.message);
    for (size_t i = 0; i < 3; i++)
        room->kv[i] = options.kv;
    room->exam = (struct gp_exam){.limit = limit, .max_tokens = TOKENS, .seed = 2};
    assert_int_equal(gp_exam_choose(&room->exam, "sum,walk", &err), GP_OK);
    room->sitting = (struct gp_sitting){
        .exam = &room->exam,
        .policies = room->kv,
        .policy_count = 1,
        .concurrency = concurrency,
        .ignore_eos = true,
        .go_on = go_on,
        .ctx = room,
    };
    gp_sampling_init(&room->sitting.sampling);
    gp_analysis_watch(&room->kv[0]);
    room->analysis = (struct gp_analysis){
        .sitting = &room->sitting,
        .engine = room->engine,
        .model = engine_rig.model,
        .every = 1,
        .horizon = horizon,
        .found = json_array(),
    };
}

static void close_room(struct room *room)
{
    json_decref(room->analysis.found);
    gp_exam_free(&room->exam);
    gp_engine_close(room->engine);
}

/* ---- forks ---- */

#define SPLITS_MAX 256u

struct splits {
    struct gp_split_result items[SPLITS_MAX];
    uint32_t count;
};

static int take_split(void *ctx, const struct gp_split_result *result, struct gp_error *err)
{
    struct splits *splits = ctx;

    (void)err;
    assert_true(splits->count < SPLITS_MAX);
    splits->items[splits->count++] = *result;
    return GP_OK;
}

static void split(struct room *room, struct gp_references *references, enum gp_action first,
                  enum gp_action second, struct splits *out)
{
    const enum gp_action actions[2] = {first, second};
    bool complete = false;
    struct gp_error err;

    out->count = 0;
    if (gp_references_run(references, &room->analysis, &complete, &err) ||
        gp_references_split(references, actions, take_split, out, &complete, &err))
        fail_msg("%s", err.message);
    assert_true(complete && out->count > 0);
}

static void two_forks_that_do_the_same_say_the_same(void **state)
{
    static const enum gp_action actions[] = {GP_ACTION_GROW, GP_ACTION_COMPRESS};

    (void)state;
    for (size_t a = 0; a < 2; a++)
        for (uint32_t horizon = 7; horizon < 40; horizon += 15) {
            struct gp_references references;
            struct splits splits;
            struct room room;

            open_room(&room, 2, 2, horizon);
            split(&room, &references, actions[a], actions[a], &splits);
            for (uint32_t i = 0; i < splits.count; i++)
                assert_true(splits.items[i].nll[0] - splits.items[i].nll[1] == 0);
            gp_references_free(&references);
            close_room(&room);
        }
}

struct order {
    uint32_t at; /* the boundary where it compresses; 0: nowhere */
    uint32_t calls;
};

static enum gp_action obey(void *ctx, uint32_t choice, const struct gp_boundary_event *event)
{
    struct order *order = ctx;

    (void)choice;
    order->calls++;
    return event->tokens == order->at ? GP_ACTION_COMPRESS : GP_ACTION_GROW;
}

/* The reference from its beginning, by a request of its own that compresses once. */
static double surprise(const struct room *room, const struct gp_reference *r, uint32_t at,
                       uint32_t boundary, uint32_t scored)
{
    struct gp_token tokens[TOKENS];
    struct order order = {.at = at};
    struct gp_request request;
    struct gp_error err;
    uint64_t id;
    double sum = 0;

    gp_request_init(&request);
    request.tokens = r->prompt;
    request.token_count = r->prompt_count;
    request.forced = r->output;
    request.max_tokens = request.forced_count = r->output_count;
    request.ignore_eos = true;
    request.logprobs = 0;
    request.on_boundary = obey;
    request.ctx = &order;
    request.kv = room->kv;
    assert_int_equal(gp_engine_submit(room->engine, &request, &id, &err), GP_OK);
    gp_engine_run(room->engine);
    assert_int_equal(gp_engine_read(room->engine, id, 0, 0, tokens, TOKENS, NULL), r->output_count);
    gp_engine_release(room->engine, id);
    assert_true(order.calls > 0);
    /* The token that waits at the boundary was said before it. */
    uint32_t from = boundary - r->prompt_count + 1;
    for (uint32_t i = from; i < from + scored; i++)
        sum -= (double)tokens[i].logprob;
    return sum / scored;
}

static void a_fork_is_a_request_that_did_so_itself(void **state)
{
    (void)state;
    for (uint32_t horizon = 9; horizon < 40; horizon += 30) {
        struct gp_references references;
        struct splits splits;
        struct room room;
        uint32_t differ = 0;

        open_room(&room, 2, 2, horizon);
        split(&room, &references, GP_ACTION_COMPRESS, GP_ACTION_GROW, &splits);
        for (uint32_t i = 0; i < splits.count; i++) {
            const struct gp_split_result *s = &splits.items[i];
            const struct gp_reference *r = &references.items[s->reference];

            assert_int_equal(s->tokens % PAGE, 0);
            assert_true(s->event.has_delta && s->event.tokens == s->tokens);
            assert_true(s->scored >= 1 && s->scored <= horizon);
            assert_true(s->nll[0] == surprise(&room, r, s->tokens, s->tokens, s->scored));
            assert_true(s->nll[1] == surprise(&room, r, 0, s->tokens, s->scored));
            differ += s->nll[0] != s->nll[1];
        }
        assert_true(differ > 0);
        gp_references_free(&references);
        close_room(&room);
    }
}

/* ---- watching ---- */

struct seen {
    double share[64], last[64];
    uint32_t rows[64];
};

static void see(void *ctx, uint32_t choice, const struct gp_tap *tap)
{
    struct seen *seen = ctx;
    uint32_t page = (tap->tokens - 1) / PAGE, heads = tap->layer_count * tap->kv_head_count;
    double sum = 0;

    (void)choice;
    assert_true(page < 64);
    for (uint32_t i = 0; i < heads; i++)
        sum += tap->counts[i];
    seen->rows[page]++;
    seen->share[page] += seen->last[page] = sum / heads / tap->slots;
}

/* Of a reference under policy full. */
static void look(const struct room *room, const struct gp_reference *r, struct seen *seen)
{
    struct gp_kv_options full = room->kv[0];
    struct gp_request request;
    struct gp_error err;
    uint64_t id;

    memset(seen, 0, sizeof *seen);
    assert_int_equal(gp_policy_parse("full", &full, &err), GP_OK);
    gp_request_init(&request);
    request.tokens = r->prompt;
    request.token_count = r->prompt_count;
    request.forced = r->output;
    request.max_tokens = request.forced_count = r->output_count;
    request.ignore_eos = true;
    request.on_tap = see;
    request.ctx = seen;
    request.kv = &full;
    assert_int_equal(gp_engine_submit(room->engine, &request, &id, &err), GP_OK);
    gp_engine_run(room->engine);
    gp_engine_release(room->engine, id);
}

static void what_is_watched_is_a_full_cache(void **state)
{
    struct gp_references references;
    struct gp_watch watch;
    struct room room;
    struct gp_error err;
    bool complete = true;
    uint32_t deltas = 0;

    (void)state;
    open_room(&room, 2, 3, PAGE);
    assert_int_equal(gp_references_run(&references, &room.analysis, &complete, &err), GP_OK);
    assert_int_equal(gp_watch_run(&watch, &room.analysis, &complete, &err), GP_OK);
    assert_int_equal(watch.count, 4);
    for (uint64_t i = 0; i < watch.count; i++) {
        const struct gp_watched *w = &watch.items[i];
        uint32_t run = references.items[i].prompt_count + TOKENS - 1;
        struct seen seen;

        look(&room, &references.items[i], &seen);
        for (uint32_t p = 0; p < w->page_count; p++) {
            double layers = 0;

            for (uint32_t l = 0; l < w->layer_count; l++)
                layers += w->layers[p * w->layer_count + l] / w->layer_count;
            assert_int_equal(w->pages[p].rows, seen.rows[p]);
            assert_true(fabs(w->pages[p].share - seen.share[p]) < 1e-9);
            assert_true(fabs(w->pages[p].last_share - seen.last[p]) < 1e-9);
            assert_true(fabs(layers - seen.share[p]) < 1e-9);
            assert_int_equal(w->pages[p].whole, (p + 1) * PAGE <= run);
            deltas += w->pages[p].has_delta;
            assert_true(!w->pages[p].has_delta || w->pages[p].whole);
        }
    }
    assert_true(deltas >= 4 * (TOKENS / PAGE - 3));
    gp_watch_free(&watch);
    gp_references_free(&references);
    close_room(&room);
}

/* ---- all of them ---- */

static void set_policies(struct room *room, enum gp_analysis_kind kind)
{
    struct gp_error err;

    if (gp_analysis_watches(kind))
        return;
    assert_int_equal(gp_policy_parse("fixed:32", &room->kv[0], &err), GP_OK);
    assert_int_equal(gp_policy_parse("fixed:64", &room->kv[1], &err), GP_OK);
    assert_int_equal(gp_policy_parse("growpage", &room->kv[2], &err), GP_OK);
    for (size_t i = 0; i < 3; i++)
        room->kv[i].threshold = 0;
    room->sitting.policy_count = 3;
    room->analysis.budgets = budgets;
    room->analysis.budget_count = 2;
}

static char *found_by(enum gp_analysis_kind kind, uint32_t concurrency)
{
    struct room room;
    struct gp_error err;
    bool complete = true;

    open_room(&room, 3, concurrency, PAGE);
    set_policies(&room, kind);
    if (gp_analysis_run(&room.analysis, kind, &complete, &err))
        fail_msg("%s: %s", gp_analysis_name(kind), err.message);
    assert_true(complete && json_array_size(room.analysis.found) > 0);
    char *text = json_dumps(room.analysis.found, JSON_INDENT(1));
    close_room(&room);
    return text;
}

static void company_changes_nothing_that_is_found(void **state)
{
    (void)state;
    for (int kind = 0; kind < GP_ANALYSIS_OVERHEAD; kind++) {
        char *alone = found_by((enum gp_analysis_kind)kind, 1);
        char *beside = found_by((enum gp_analysis_kind)kind, 4);

        assert_string_equal(alone, beside);
        free(alone);
        free(beside);
    }
}

static void a_no_ends_it_and_nothing_is_found(void **state)
{
    (void)state;
    for (int kind = 0; kind < GP_ANALYSIS_KINDS; kind++)
        for (uint32_t most = 1; most < 400; most += 131) {
            struct gp_engine_stats stats;
            struct room room;
            struct gp_error err;
            bool complete = true;

            open_room(&room, 2, 2, PAGE);
            set_policies(&room, (enum gp_analysis_kind)kind);
            room.most = most;
            assert_int_equal(
                gp_analysis_run(&room.analysis, (enum gp_analysis_kind)kind, &complete, &err),
                GP_OK);
            /* Those that ask once are done before the last of these. */
            assert_int_equal(complete, json_array_size(room.analysis.found) > 0);
            assert_true(!complete || most > 200);
            gp_engine_run(room.engine);
            gp_engine_stats(room.engine, &stats);
            assert_int_equal(stats.pages_used, 0);
            close_room(&room);
        }
}

static void no_room_for_forks_is_told(void **state)
{
    const enum gp_action actions[2] = {GP_ACTION_COMPRESS, GP_ACTION_GROW};
    struct gp_references references;
    struct gp_engine_options options;
    struct gp_error err;
    struct splits splits;
    struct room room;
    bool complete = true;

    (void)state;
    open_room(&room, 1, 1, PAGE);
    gp_engine_close(room.engine);
    engine_rig_options(&options);
    options.kv_pages = 14;
    options.kv_sync = true;
    assert_int_equal(gp_engine_open(&room.engine, engine_rig.model, &options, &err), GP_OK);
    room.analysis.engine = room.engine;
    splits.count = 0;
    assert_int_equal(gp_references_run(&references, &room.analysis, &complete, &err), GP_OK);
    assert_int_equal(
        gp_references_split(&references, actions, take_split, &splits, &complete, &err), GP_EAGAIN);
    assert_non_null(strstr(err.message, "--kv-pages"));
    gp_references_free(&references);
    close_room(&room);
}

static void memory_refused_at_any_point_is_told_and_nothing_leaks(void **state)
{
    (void)state;
    for (int kind = 0; kind < GP_ANALYSIS_KINDS; kind++)
        for (uint32_t n = 1;; n += 1 + n / 4) {
            struct room room;
            struct gp_error err;
            bool complete = true;

            open_room(&room, 1, 1, PAGE);
            room.exam.max_tokens = 60;
            for (uint32_t i = 0; i < room.exam.part_count; i++)
                room.exam.parts[i].max_tokens = 60;
            set_policies(&room, (enum gp_analysis_kind)kind);
            uint64_t live = gp_mem_live();
            gp_mem_refuse_at(n);
            int rc = gp_analysis_run(&room.analysis, (enum gp_analysis_kind)kind, &complete, &err);
            bool refused = gp_mem_refused();
            gp_mem_refuse_at(0);
            assert_int_equal(gp_mem_live(), live);
            assert_int_equal(rc, refused ? GP_ENOMEM : GP_OK);
            close_room(&room);
            if (!refused)
                break;
            assert_true(n < 100000);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_forks_that_do_the_same_say_the_same),
        cmocka_unit_test(a_fork_is_a_request_that_did_so_itself),
        cmocka_unit_test(what_is_watched_is_a_full_cache),
        cmocka_unit_test(company_changes_nothing_that_is_found),
        cmocka_unit_test(a_no_ends_it_and_nothing_is_found),
        cmocka_unit_test(no_room_for_forks_is_told),
        cmocka_unit_test(memory_refused_at_any_point_is_told_and_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, engine_rig_setup, engine_rig_teardown);
}
