/* The kernel checker's list, and what it says about itself.  See check.h. */
#include <fnmatch.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check/check.h"

/* A checker that cannot fail proves nothing: a child that reads one byte too far must die. */
static void guarded_buffers_end_at_an_unreadable_page(void **state)
{
    static const size_t sizes[] = {1, 63, 64, 4096, 5000};

    (void)state;
    for (size_t i = 0; i < CHECK_COUNT(sizes); i++) {
        volatile uint8_t *block = check_guarded(sizes[i]);
        const pid_t child = fork();
        int status;

        assert_true(child >= 0);
        if (child == 0) {
            signal(SIGSEGV, SIG_DFL);
            _exit(block[sizes[i]] == 0 ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
        check_free((void *)(uintptr_t)block);
    }
}

static int say_levels(void **state)
{
    (void)state;
    printf("# GP_SEED=%llu\n", (unsigned long long)check_seed());
    for (int level = GP_LEVEL_REF + 1; level < GP_LEVEL_COUNT; level++)
        printf("# level %s: %s\n", gp_level_name((enum gp_level)level),
               check_wants((enum gp_level)level)
                   ? "checked"
                   : "SKIPPED: this machine or build lacks it, or GP_CPU names another");
    fflush(stdout);
    return 0;
}

/* test_check [PATTERN]: the tests whose names match, for those who go slowly (an emulator).  A
 * pattern that no name matches is an error: a check of nothing must not look like a pass. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(guarded_buffers_end_at_an_unreadable_page),
        cmocka_unit_test(check_rms_norm_equals_definition),
        cmocka_unit_test(check_elementwise_equals_definition),
        cmocka_unit_test(check_rope_equals_definition),
        cmocka_unit_test(check_softmax_equals_definition),
        cmocka_unit_test(check_quantize_equals_definition),
        cmocka_unit_test(check_matmul_equals_definition),
        cmocka_unit_test(check_matmul_hostile_equals_definition),
        cmocka_unit_test(check_matmul_is_the_same_in_pieces),
        cmocka_unit_test(check_kv_store_equals_definition),
        cmocka_unit_test(check_kv_move_equals_definition),
        cmocka_unit_test(check_kv_load_equals_definition),
        cmocka_unit_test(check_kv_scores_equals_definition),
        cmocka_unit_test(check_attention_equals_definition),
        cmocka_unit_test(check_attention_row_is_the_same_alone),
    };

    struct CMUnitTest wanted[CHECK_COUNT(tests)];
    size_t count = 0;

    for (size_t i = 0; i < CHECK_COUNT(tests); i++)
        if (argc < 2 || fnmatch(argv[1], tests[i].name, 0) == 0)
            wanted[count++] = tests[i];
    if (count == 0) {
        fprintf(stderr, "test_check: %s: no test has such a name\n", argv[1]);
        return 2;
    }
    return _cmocka_run_group_tests("tests", wanted, count, say_levels, NULL);
}
