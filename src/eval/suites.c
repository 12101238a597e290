/* The table of suites, and what is the same for all of them. */
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "eval/suite.h"
#include "eval/suite_make.h"

static const struct gp_suite suites[] = {
    {"sum", "add numbers one after the other, digit by digit", 0.3, false, gp_make_sum,
     gp_check_sum},
    {"mul", "multiply long numbers", 0.25, false, gp_make_mul, gp_check_mul},
    {"prog", "run a program whose lines look back to any earlier result", 0.35, false, gp_make_prog,
     gp_check_prog},
    {"sort", "sort numbers by selection", 0.42, false, gp_make_sort, gp_check_sort},
    {"phase", "wide look-ups and narrow sums in turn", 0.4, false, gp_make_phase, gp_check_phase},
    {"walk", "follow rings of links for many laps", 0.46, false, gp_make_walk, gp_check_walk},
    {"find", "search for a sum, with backtracking", 0.45, false, gp_make_find, gp_check_find},
    {"copy", "repeat a text", 0.5, true, gp_make_copy, gp_check_copy},
    {"look", "look values up", 0.5, true, gp_make_look, gp_check_look},
};

#define SUITE_COUNT (sizeof suites / sizeof *suites)

const struct gp_suite *gp_suite_at(uint32_t index)
{
    return index < SUITE_COUNT ? &suites[index] : NULL;
}

const struct gp_suite *gp_suite_find(const char *name)
{
    for (size_t i = 0; i < SUITE_COUNT; i++)
        if (strcmp(suites[i].name, name) == 0)
            return &suites[i];
    return NULL;
}

int gp_problem_make(const struct gp_suite *suite, uint64_t seed, uint64_t index, double difficulty,
                    enum gp_form form, struct gp_problem *out, struct gp_error *err)
{
    struct gp_problem problem = {0};
    uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), 0, 0}, drawn[4];

    memcpy(&counter[2], suite->name, strnlen(suite->name, sizeof(uint32_t) * 2));
    gp_philox(seed, counter, drawn);
    uint64_t own = (uint64_t)drawn[1] << 32 | drawn[0];
    if (suite->make(own, difficulty, form, &problem)) {
        gp_problem_free(&problem);
        return gp_fail(err, GP_ENOMEM, "suite %s: out of memory", suite->name);
    }
    *out = problem;
    return GP_OK;
}

void gp_problem_free(struct gp_problem *problem)
{
    gp_mem_free(problem->prompt);
    gp_mem_free(problem->thought);
    gp_mem_free(problem->answer);
    *problem = (struct gp_problem){0};
}
