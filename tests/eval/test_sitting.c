/* Exams and sittings: who is asked what, and that nothing else decides what comes out. */
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
#include "eval/sitting.h"

/* ---- exams ---- */

static void an_exam_alternates_between_its_suites(void **state)
{
    struct gp_exam exam = {.limit = 3, .seed = 5, .difficulty_low = -1};
    struct gp_error err;

    (void)state;
    assert_int_equal(gp_exam_choose(&exam, "walk,sum", &err), GP_OK);
    assert_int_equal(gp_exam_count(&exam), 6);
    for (uint64_t n = 6; n-- > 0;) {
        struct gp_question q;
        struct gp_problem alone;

        assert_int_equal(gp_exam_question(&exam, n, &q, &err), GP_OK);
        assert_string_equal(q.part->name, n % 2 ? "sum" : "walk");
        assert_int_equal(q.index, n / 2);
        assert_true(q.difficulty == q.part->suite->difficulty);
        assert_int_equal(q.form, GP_FORM_SHORT);
        assert_int_equal(
            gp_problem_make(q.part->suite, 5, q.index, q.difficulty, GP_FORM_SHORT, &alone, &err),
            GP_OK);
        assert_string_equal(q.problem.prompt, alone.prompt);
        gp_problem_free(&alone);
        gp_question_free(&q);
    }
}

static void all_is_every_suite_but_the_warm_ups(void **state)
{
    struct gp_exam exam = {0};
    struct gp_error err;

    (void)state;
    assert_int_equal(gp_exam_choose(&exam, "all", &err), GP_OK);
    assert_int_equal(exam.part_count, 7);
    for (uint32_t i = 0; i < exam.part_count; i++)
        assert_false(exam.parts[i].suite->warm_up);
    assert_int_equal(gp_exam_choose(&exam, "all,copy,look", &err), GP_OK);
    assert_int_equal(exam.part_count, 9);
}

static void names_that_are_none_are_refused(void **state)
{
    static const char *const wrong[] = {"",     ",",  "sum,",    ",sum",    "sum,sum", "SUM",
                                        "sum ", "su", "all,sum", "sum,all", "nine",    "a,b,c,d"};
    struct gp_exam exam;
    struct gp_error err;
    char longer[1000];

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (gp_exam_choose(&exam, wrong[i], &err) != GP_EINVAL)
            fail_msg("took %s", wrong[i]);
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    assert_int_equal(gp_exam_choose(&exam, longer, &err), GP_EINVAL);
}

static void a_range_and_mixed_forms_are_drawn_evenly(void **state)
{
    struct gp_exam exam = {
        .limit = 4000,
        .seed = 3,
        .difficulty_low = 0.2,
        .difficulty_high = 0.6,
        .form = GP_EXAM_MIXED,
    };
    struct gp_error err;
    uint32_t longs = 0, lower = 0;

    (void)state;
    assert_int_equal(gp_exam_choose(&exam, "copy", &err), GP_OK);
    for (uint64_t n = 0; n < exam.limit; n++) {
        struct gp_question q;
        char printed[32];

        assert_int_equal(gp_exam_question(&exam, n, &q, &err), GP_OK);
        assert_true(q.difficulty >= 0.2 && q.difficulty <= 0.6);
        snprintf(printed, sizeof printed, "%.4f", q.difficulty);
        assert_true(strtod(printed, NULL) == q.difficulty);
        longs += q.form == GP_FORM_LONG;
        lower += q.difficulty < 0.4;
        gp_question_free(&q);
    }
    /* Five standard deviations of a fair coin. */
    assert_in_range(longs, 2000 - 158, 2000 + 158);
    assert_in_range(lower, 2000 - 158, 2000 + 158);
}

/* ---- sittings ---- */

#define SAMPLES_MAX 256u

struct taken {
    char key[64]; /* suite, index, sample, policy */
    char *text;
    uint64_t seed;
    uint32_t prompt_tokens;
};

struct room {
    struct gp_engine *engine;
    struct gp_exam exam;
    struct gp_sitting sitting;
    struct taken taken[SAMPLES_MAX];
    uint32_t count;
    uint32_t most; /* go_on says no at this many; 0: never */
    uint32_t fail_at;
};

static int take(void *ctx, const struct gp_sample *sample, struct gp_error *err)
{
    struct room *room = ctx;
    struct taken *taken = &room->taken[room->count];

    assert_true(room->count < SAMPLES_MAX);
    if (room->fail_at && room->count + 1 == room->fail_at)
        return gp_fail(err, GP_EIO, "no");
    snprintf(taken->key, sizeof taken->key, "%u %s %llu %u", sample->policy,
             sample->question->part->name, (unsigned long long)sample->question->index,
             sample->question->number);
    taken->text = gp_mem_copy(sample->text, sample->text_length);
    if (!taken->text)
        return gp_fail(err, GP_ENOMEM, "no memory");
    taken->seed = sample->stats->seed;
    taken->prompt_tokens = sample->stats->prompt_tokens;
    assert_true(sample->pages_mean >= 1 && sample->pages_mean <= sample->stats->pages_peak);
    assert_true(sample->stats->output_tokens >= 1 && sample->stats->output_tokens <= 40);
    room->count++;
    return GP_OK;
}

static bool go_on(void *ctx, const struct gp_sitting_state *state)
{
    struct room *room = ctx;

    assert_true(state->done <= state->total);
    return room->most == 0 || room->count < room->most;
}

static struct gp_kv_options policies[2];

static void open_room(struct room *room, const char *suites, uint32_t limit, uint32_t samples,
                      uint32_t concurrency)
{
    struct gp_engine_options options;
    struct gp_error err;

    engine_rig_options(&options);
    memset(room, 0, sizeof *room);
    if (gp_engine_open(&room->engine, engine_rig.model, &options, &err))
        fail_msg("%s", err.message);
    policies[0] = policies[1] = options.kv;
    assert_int_equal(gp_policy_parse("growpage", &policies[0], &err), GP_OK);
    assert_int_equal(gp_policy_parse("fixed:48", &policies[1], &err), GP_OK);
    room->exam = (struct gp_exam){
        .limit = limit, .samples = samples, .max_tokens = 40, .seed = 2, .difficulty_low = 0};
    assert_int_equal(gp_exam_choose(&room->exam, suites, &err), GP_OK);
    room->sitting = (struct gp_sitting){
        .exam = &room->exam,
        .policies = policies,
        .policy_count = 2,
        .concurrency = concurrency,
        .finished = take,
        .go_on = go_on,
        .ctx = room,
    };
    gp_sampling_init(&room->sitting.sampling);
}

static void close_room(struct room *room)
{
    for (uint32_t i = 0; i < room->count; i++)
        gp_mem_free(room->taken[i].text);
    gp_engine_close(room->engine);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct taken *)a)->key, ((const struct taken *)b)->key);
}

static void run_whole(struct room *room)
{
    struct gp_error err;
    bool complete = false;

    if (gp_sitting_run(&room->sitting, room->engine, engine_rig.model, &complete, &err))
        fail_msg("%s", err.message);
    assert_true(complete);
    qsort(room->taken, room->count, sizeof *room->taken, by_key);
}

static struct room one, many;

static void company_changes_no_answer(void **state)
{
    (void)state;
    open_room(&one, "sum,find", 4, 3, 1);
    run_whole(&one);
    /* More than the engine holds: the rest waits with us. */
    open_room(&many, "sum,find", 4, 3, 200);
    run_whole(&many);
    assert_int_equal(one.count, 2 * 2 * 4 * 3);
    assert_int_equal(many.count, one.count);
    for (uint32_t i = 0; i < one.count; i++) {
        assert_true(i == 0 || strcmp(one.taken[i].key, one.taken[i - 1].key) != 0);
        assert_string_equal(one.taken[i].key, many.taken[i].key);
        assert_string_equal(one.taken[i].text, many.taken[i].text);
        assert_int_equal(one.taken[i].seed, many.taken[i].seed);
    }
    close_room(&one);
    close_room(&many);
}

static void every_policy_is_asked_the_same(void **state)
{
    (void)state;
    open_room(&one, "prog,sort", 5, 2, 8);
    run_whole(&one);
    uint32_t half = one.count / 2, differ = 0;
    assert_int_equal(one.count, 40);
    for (uint32_t i = 0; i < half; i++) {
        const struct taken *a = &one.taken[i], *b = &one.taken[half + i];
        assert_string_equal(a->key + 2, b->key + 2);
        assert_int_equal(a->seed, b->seed);
        assert_int_equal(a->prompt_tokens, b->prompt_tokens);
        differ += strcmp(a->text, b->text) != 0;
        for (uint32_t j = 0; j < i; j++)
            assert_int_not_equal(a->seed, one.taken[j].seed);
    }
    /* The budgets bite, or this has shown nothing. */
    assert_true(differ > 0);
    close_room(&one);
}

static void the_samples_of_an_exam_do_not_depend_on_its_size(void **state)
{
    (void)state;
    open_room(&one, "phase", 2, 1, 4);
    run_whole(&one);
    open_room(&many, "walk,phase", 6, 2, 4);
    run_whole(&many);
    for (uint32_t i = 0; i < one.count; i++) {
        const struct taken *found =
            bsearch(&one.taken[i], many.taken, many.count, sizeof *many.taken, by_key);
        assert_non_null(found);
        assert_string_equal(found->text, one.taken[i].text);
    }
    close_room(&one);
    close_room(&many);
}

static void a_no_ends_it_at_once(void **state)
{
    struct gp_error err;
    bool complete = true;

    (void)state;
    open_room(&one, "sum", 20, 1, 4);
    one.most = 3;
    assert_int_equal(gp_sitting_run(&one.sitting, one.engine, engine_rig.model, &complete, &err),
                     GP_OK);
    assert_false(complete);
    assert_in_range(one.count, 3, 3 + 4);
    close_room(&one);
}

static void what_the_taker_refuses_ends_it_with_its_words(void **state)
{
    struct gp_error err;
    bool complete;

    (void)state;
    open_room(&one, "sum", 20, 1, 4);
    one.fail_at = 5;
    assert_int_equal(gp_sitting_run(&one.sitting, one.engine, engine_rig.model, &complete, &err),
                     GP_EIO);
    assert_string_equal(err.message, "no");
    assert_int_equal(one.count, 4);
    close_room(&one);
}

static void a_policy_that_cannot_be_is_refused_before_anything_runs(void **state)
{
    struct gp_error err;
    bool complete;

    (void)state;
    open_room(&one, "sum", 2, 1, 4);
    policies[1].beta_short = 2;
    assert_int_equal(gp_sitting_run(&one.sitting, one.engine, engine_rig.model, &complete, &err),
                     GP_EINVAL);
    assert_int_equal(one.count, 0);
    close_room(&one);
}

static void a_prompt_that_cannot_fit_is_named(void **state)
{
    struct gp_engine_options options;
    struct gp_error err;
    bool complete;

    (void)state;
    open_room(&one, "sum", 2, 1, 4);
    gp_engine_close(one.engine);
    engine_rig_options(&options);
    options.context = 20;
    assert_int_equal(gp_engine_open(&one.engine, engine_rig.model, &options, &err), GP_OK);
    assert_int_equal(gp_sitting_run(&one.sitting, one.engine, engine_rig.model, &complete, &err),
                     GP_EINVAL);
    assert_non_null(strstr(err.message, "suite sum, problem 0"));
    close_room(&one);
}

static void memory_refused_at_any_point_is_told_and_nothing_leaks(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        struct gp_error err = {""};
        bool complete;

        open_room(&one, "sum", 2, 1, 2);
        uint64_t live = gp_mem_live();
        gp_mem_refuse_at(n);
        int rc = gp_sitting_run(&one.sitting, one.engine, engine_rig.model, &complete, &err);
        bool refused = gp_mem_refused();
        gp_mem_refuse_at(0);
        assert_int_equal(gp_mem_live(), live + one.count);
        assert_int_equal(rc, refused ? GP_ENOMEM : GP_OK);
        assert_true(!refused || strstr(err.message, "memory"));
        close_room(&one);
        if (!refused)
            break;
        assert_true(n < 10000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exam_alternates_between_its_suites),
        cmocka_unit_test(all_is_every_suite_but_the_warm_ups),
        cmocka_unit_test(names_that_are_none_are_refused),
        cmocka_unit_test(a_range_and_mixed_forms_are_drawn_evenly),
        cmocka_unit_test(company_changes_no_answer),
        cmocka_unit_test(every_policy_is_asked_the_same),
        cmocka_unit_test(the_samples_of_an_exam_do_not_depend_on_its_size),
        cmocka_unit_test(a_no_ends_it_at_once),
        cmocka_unit_test(what_the_taker_refuses_ends_it_with_its_words),
        cmocka_unit_test(a_policy_that_cannot_be_is_refused_before_anything_runs),
        cmocka_unit_test(a_prompt_that_cannot_fit_is_named),
        cmocka_unit_test(memory_refused_at_any_point_is_told_and_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, engine_rig_setup, engine_rig_teardown);
}
