/* Three prices, three names.
 *
 *   gp_assert(x)   stays in release builds.  Control plane: what runs per step or per request.
 *   gp_dassert(x)  debug builds only.  Data plane: what runs per element or per row.
 *   gp_*_check()   functions that walk a whole structure.  Tests call them after every operation,
 *                  debug builds once a step.
 *
 * None of them is for input.  Input is checked with if and answered with gp_fail(). */
#ifndef GP_BASE_ASSERT_H
#define GP_BASE_ASSERT_H

_Noreturn void gp_assert_failed(const char *expression, const char *file, int line);

#define gp_assert(x) ((x) ? (void)0 : gp_assert_failed(#x, __FILE__, __LINE__))

#ifdef GP_DEBUG
#define gp_dassert(x) gp_assert(x)
#else
#define gp_dassert(x) ((void)sizeof(!(x)))
#endif

#endif
