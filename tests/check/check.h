/* The kernel checker: every entry of every level that this machine has, against the definition,
 * bit by bit, on buffers that end at an unreadable page.  Files are by subject; test_check.c runs
 * them. */
#ifndef GP_TESTS_CHECK_H
#define GP_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "kernels/kernels.h"

#define CHECK_COUNT(a) (sizeof(a) / sizeof *(a))

/* One comparison: the definition and a level above it. */
struct check {
    struct gp_kernels ref;
    struct gp_kernels wide;
    struct gp_rng rng;
};

/* Is the level checked here?  Those above ref that this machine has, or the one of them that GP_CPU
 * names. */
bool check_wants(enum gp_level level);

/* Run fn for every level that is checked; cmocka's skip() when there is none. */
void check_levels(void (*fn)(struct check *c));

/* GP_SEED, or a fixed one. */
uint64_t check_seed(void);

/* A block whose last byte is followed by an unreadable page, filled with 0xa5, and what lies in
 * front of it on its first page is watched: check_free() fails the test when that was written. */
void *check_guarded(size_t bytes);
void check_free(void *block);

/* What rows of floats are made of. */
enum check_fill {
    CHECK_PLAIN,
    CHECK_ZERO,
    CHECK_SUBNORMAL,
    CHECK_HUGE,       /* up to 2^60: products stay finite */
    CHECK_CANCELLING, /* large pairs that nearly cancel   */
    CHECK_MIXED,      /* zeros of both signs, tiny, plain */
    CHECK_TIES,       /* exactly halfway between two halves, or two bfloat16 numbers */
    CHECK_FILLS,
};

void check_fill(float *x, size_t n, enum check_fill kind, struct gp_rng *rng);

/* A guarded row of n floats. */
float *check_floats(size_t n, enum check_fill kind, struct gp_rng *rng);

/* Fail with words when two arrays of floats differ in a bit. */
void check_same(const float *want, const float *got, size_t n, const char *words, ...)
    __attribute__((format(printf, 4, 5)));

/* The tests. */
void check_rms_norm_equals_definition(void **state);
void check_elementwise_equals_definition(void **state);
void check_rope_equals_definition(void **state);
void check_softmax_equals_definition(void **state);
void check_quantize_equals_definition(void **state);
void check_matmul_equals_definition(void **state);
void check_matmul_hostile_equals_definition(void **state);
void check_matmul_is_the_same_in_pieces(void **state);
void check_attention_equals_definition(void **state);
void check_attention_row_is_the_same_alone(void **state);
void check_kv_scores_equals_definition(void **state);
void check_kv_store_equals_definition(void **state);
void check_kv_move_equals_definition(void **state);
void check_kv_load_equals_definition(void **state);

#endif
