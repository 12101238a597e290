/* The generators: what holds for every problem that they write. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "eval/suite.h"
#include "eval/trace.h"

static uint64_t seed_of_run(void)
{
    const char *text = getenv("GP_SEED");

    return text ? strtoull(text, NULL, 0) : 4;
}

/* Every problem of a grid of suites, difficulties and forms. */
static void for_each(uint32_t count,
                     void (*look)(const struct gp_suite *, enum gp_form, const struct gp_problem *))
{
    for (uint32_t s = 0; gp_suite_at(s); s++)
        for (int form = GP_FORM_SHORT; form <= GP_FORM_LONG; form++)
            for (uint32_t i = 0; i < count; i++) {
                struct gp_problem problem;
                struct gp_error err;
                double difficulty = (double)(i % 11) / 10.0;
                assert_int_equal(gp_problem_make(gp_suite_at(s), seed_of_run(), i, difficulty,
                                                 (enum gp_form)form, &problem, &err),
                                 GP_OK);
                look(gp_suite_at(s), (enum gp_form)form, &problem);
                gp_problem_free(&problem);
            }
}

static void look_at_the_form(const struct gp_suite *suite, enum gp_form form,
                             const struct gp_problem *problem)
{
    size_t length = strlen(problem->thought);

    assert_null(strchr(problem->prompt, '\n'));
    assert_true(length > 0 && problem->thought[length - 1] == '\n');
    assert_null(strpbrk(problem->answer, "\n{}"));
    for (const char *at = problem->thought; *at; at++)
        assert_true(*at == '\n' || isprint((unsigned char)*at));
    if (form == GP_FORM_LONG && !suite->warm_up)
        assert_in_range(length, 500, 4000);
    assert_true(problem->live_mean > 0.0 && problem->live_mean < problem->live_peak);
    assert_true(problem->live_peak <= 1.0);
}

static void a_problem_is_a_line_and_a_thought_that_fits_the_context(void **state)
{
    (void)state;
    for_each(66, look_at_the_form);
}

static void look_at_the_answer(const struct gp_suite *suite, enum gp_form form,
                               const struct gp_problem *problem)
{
    (void)form;
    if (!suite->check(problem->prompt, problem->answer))
        fail_msg("%s: %s is no answer to %s", suite->name, problem->answer, problem->prompt);
}

static void the_checker_takes_every_answer_of_the_generator(void **state)
{
    (void)state;
    for_each(200, look_at_the_answer);
}

static void check_steps(const char *line)
{
    unsigned x, y, carry, tens, units, product, open, sum, last;
    int used;

    if (sscanf(line, "%1u+%1u+%1u=%1u%1u %n", &x, &y, &carry, &tens, &units, &used) == 5)
        assert_int_equal(x + y + carry, 10 * tens + units);
    else if (sscanf(line, "%1u-%1u-%1u=%1u%1u %n", &x, &y, &carry, &tens, &units, &used) == 5)
        assert_int_equal(10 * (int)tens + (int)x - (int)y - (int)carry, (int)units);
    else if (sscanf(line, "%1u*%1u=%2u+%1u=%2u+%1u=%2u %n", &x, &y, &product, &open, &sum, &carry,
                    &last, &used) == 7) {
        assert_int_equal(x * y, product);
        assert_int_equal(product + open, sum);
        assert_int_equal(sum + carry, last);
    }
}

static void look_at_the_steps(const struct gp_suite *suite, enum gp_form form,
                              const struct gp_problem *problem)
{
    (void)suite;
    (void)form;
    for (const char *at = problem->thought; *at; at++)
        if (at == problem->thought || at[-1] == ' ' || at[-1] == '\n')
            check_steps(at);
}

static void every_step_of_arithmetic_is_right(void **state)
{
    (void)state;
    for_each(66, look_at_the_steps);
}

static void a_problem_depends_on_suite_seed_and_index_alone(void **state)
{
    (void)state;
    const struct gp_suite *suite = gp_suite_find("walk");
    struct gp_problem first, again, other;
    struct gp_error err;

    assert_int_equal(gp_problem_make(suite, 1, 2, 0.5, GP_FORM_SHORT, &first, &err), GP_OK);
    assert_int_equal(gp_problem_make(suite, 1, 3, 0.5, GP_FORM_SHORT, &other, &err), GP_OK);
    assert_int_equal(gp_problem_make(suite, 1, 2, 0.5, GP_FORM_SHORT, &again, &err), GP_OK);
    assert_string_equal(first.prompt, again.prompt);
    assert_string_equal(first.thought, again.thought);
    assert_string_equal(first.answer, again.answer);
    assert_string_not_equal(first.prompt, other.prompt);
    gp_problem_free(&first);
    gp_problem_free(&again);
    gp_problem_free(&other);
    assert_int_equal(gp_problem_make(suite, 2, 2, 0.5, GP_FORM_SHORT, &other, &err), GP_OK);
    gp_problem_free(&other);
    assert_null(gp_suite_find("no such suite"));
}

/* What trace.c says, against the words of suite.h taken literally. */
static void the_working_set_is_what_is_still_read(void **state)
{
    (void)state;
    struct gp_trace trace;
    struct gp_problem problem = {0};
    uint64_t seed = seed_of_run();
    size_t at[300], until[300], from = 40, total = 300;
    double mean = 0.0, peak = 0.0;

    gp_trace_begin(&trace, seed, 0.5, GP_FORM_SHORT);
    for (size_t t = 0; t < total; t++) {
        if (t == from)
            gp_trace_thought(&trace);
        at[t] = until[t] = 0;
        if (t > 0) {
            at[t] = gp_trace_draw(&trace, 0, (uint32_t)t - 1);
            gp_trace_read(&trace, at[t], 1);
            until[at[t]] = t;
        }
        gp_trace_put(&trace, "x");
    }
    gp_trace_answer(&trace);
    for (size_t t = from; t < total; t++) {
        size_t live = 0;
        for (size_t p = 0; p < t; p++)
            live += until[p] >= t;
        double share = (double)live / (double)t;
        mean += share / (double)(total - from);
        peak = share > peak ? share : peak;
    }
    assert_int_equal(gp_trace_end(&trace, &problem), GP_OK);
    assert_float_equal(problem.live_mean, mean, 1e-9);
    assert_float_equal(problem.live_peak, peak, 1e-9);
    gp_problem_free(&problem);
}

static void memory_refused_at_any_point_is_told_and_nothing_leaks(void **state)
{
    (void)state;
    for (uint32_t s = 0; gp_suite_at(s); s++) {
        bool refused = true;
        for (uint64_t nth = 1; refused; nth++) {
            struct gp_problem problem;
            struct gp_error err;
            uint64_t live = gp_mem_live();
            gp_mem_refuse_at(nth);
            int status = gp_problem_make(gp_suite_at(s), 1, nth, 0.5, GP_FORM_LONG, &problem, &err);
            refused = gp_mem_refused();
            gp_mem_refuse_at(0);
            assert_int_equal(status, refused ? GP_ENOMEM : GP_OK);
            if (status == GP_OK)
                gp_problem_free(&problem);
            assert_int_equal(gp_mem_live(), live);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_problem_is_a_line_and_a_thought_that_fits_the_context),
        cmocka_unit_test(the_checker_takes_every_answer_of_the_generator),
        cmocka_unit_test(every_step_of_arithmetic_is_right),
        cmocka_unit_test(a_problem_depends_on_suite_seed_and_index_alone),
        cmocka_unit_test(the_working_set_is_what_is_still_read),
        cmocka_unit_test(memory_refused_at_any_point_is_told_and_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
