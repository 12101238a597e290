/* The generators, a function a suite; see gp_suite.make. */
#ifndef GP_EVAL_SUITE_MAKE_H
#define GP_EVAL_SUITE_MAKE_H

#include "eval/suite.h"

int gp_make_sum(uint64_t seed, double difficulty, enum gp_form form, struct gp_problem *out);
int gp_make_mul(uint64_t seed, double difficulty, enum gp_form form, struct gp_problem *out);
int gp_make_prog(uint64_t seed, double difficulty, enum gp_form form, struct gp_problem *out);
int gp_make_sort(uint64_t seed, double difficulty, enum gp_form form, struct gp_problem *out);
int gp_make_phase(uint64_t seed, double difficulty, enum gp_form form, struct gp_problem *out);
int gp_make_walk(uint64_t seed, double difficulty, enum gp_form form, struct gp_problem *out);
int gp_make_find(uint64_t seed, double difficulty, enum gp_form form, struct gp_problem *out);
int gp_make_copy(uint64_t seed, double difficulty, enum gp_form form, struct gp_problem *out);
int gp_make_look(uint64_t seed, double difficulty, enum gp_form form, struct gp_problem *out);

#endif
