/* LiveCodeBench: how its problems are read and unpacked, when outputs are the same, and programs
 * held against their tests by runners. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "eval/outputs.h"
#include "eval/runners.h"
#include "eval/unpack.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- unpacking; made by Python's pickle, zlib and base64 ---- */

static void a_string_is_unpacked_whatever_the_protocol(void **state)
{
    static const char *const packed[] = {
        "eJxrYIoQZGBgiK5WyswrKC1RslJQOrxHqTa2kEEPAGNJB8w=",
        "eJxrYI4QZGBgiK5WyswrKC1RslJQOrxHqTa2kEEPAGNjB80=",
        "eJxrYJkqygABPYLR1UqZeQWlJUpWCkqH9yjVxk7RAwB2IQjP",
        "eJxrYJ0qygABPYLR1UqZeQWlJUpWCkqH9yjVxk7RAwB2QAjQ",
    };
    struct gp_error err;

    (void)state;
    for (size_t i = 0; i < COUNT(packed); i++) {
        char *text;
        size_t length;

        if (gp_unpack(packed[i], strlen(packed[i]), 1000, &text, &length, &err))
            fail_msg("%zu: %s", i, err.message);
        assert_string_equal(text, "[{\"input\": \"\xc3\xbc\"}]");
        assert_int_equal(length, strlen(text));
        gp_mem_free(text);
    }
}

/* 100,000 times an x. */
static const char large[] =
    "eJztwTENACAMALAtmR70TAonFwoQgFRscLRd1XdnTAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAOBbZzzaUyh/";

static void large_strings_have_no_frame_and_a_limit(void **state)
{
    struct gp_error err;
    char *text;
    size_t length;

    (void)state;
    assert_int_equal(gp_unpack(large, sizeof large - 1, 200000, &text, &length, &err), GP_OK);
    assert_int_equal(length, 100000);
    assert_int_equal(strspn(text, "x"), 100000);
    gp_mem_free(text);
    assert_int_equal(gp_unpack(large, sizeof large - 1, 99999, &text, &length, &err), GP_ECORRUPT);
    assert_non_null(strstr(err.message, "more than 99999 bytes"));
}

static void what_is_no_packed_string_is_refused(void **state)
{
    static const struct {
        const char *packed, *words;
    } cases[] = {
        {"no base64!", "neither JSON nor base64"},
        {"abc", "neither JSON nor base64"},
        {"ab=c", "neither JSON nor base64"},
        {"", "breaks off"},
        {"AAAA", "no zlib stream"},
        {"eJxrYJnKzgABPcyJSclT", "breaks off"},
        {"eJxrYJnKygABPYyJU/QAFewCz3g=", "behind its end"},
        {"eJwDAAAAAAE=", "not that of a string"},                     /* nothing */
        {"eJxrYJnKwQABsVN6GBOnJOoBACKxBCQ=", "not that of a string"}, /* a list */
        {"eJxrYJnKzgABPcyJSclT9Pz0ACTbBBQ=", "not that of a string"}, /* and more behind */
        {"eJxrYI44wcDAkJiUXMigBwAZhgNp", "not that of a string"},     /* 200 bytes of 3 */
        /* A call of os.system. */
        {"eJxrYJmqzgABPawF+cWZFVN62Iori0tSc6dMntLDU5JfmpyhoF+SW6BfMaV1StAUPQB/MRFO",
         "not that of a string"},
    };
    struct gp_error err;
    char *text;
    size_t length;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint64_t live = gp_mem_live();
        int rc = gp_unpack(cases[i].packed, strlen(cases[i].packed), 1000, &text, &length, &err);

        assert_int_equal(rc, GP_ECORRUPT);
        if (!strstr(err.message, cases[i].words))
            fail_msg("%s: %s", cases[i].packed, err.message);
        assert_int_equal(gp_mem_live(), live);
    }
}

/* ---- outputs ---- */

struct comparison {
    const char *a, *b;
    bool same;
};

static void outputs_are_compared_by_lines_and_decimals(void **state)
{
    static const struct comparison cases[] = {
        {"", "", true},
        {"", " \n\n", true},
        {"1\n2\n", "1\n2", true},
        {"\n1 \n 2\n\n", "1\n2", true},
        {"1\n\n2", "1\n2", false},
        {"1 2", "1\n2", false},
        {"1  2", "1 2", true}, /* as numbers; words must have the same blanks */
        {"a  b", "a b", false},
        {"Yes", "YES", false},
        {"7", "7.0", true},
        {"7", "70e-1", true},
        {"-0", "0.00", true},
        {"+5", "5", true},
        {".5", "0.50", true},
        {"5.", "5", true},
        {".", ".", true},
        {".", "0", false},
        {"1e5", "100000", true},
        {"1E+5", "100000", true},
        {"1e", "1", false},
        {"1e1234567890", "1e1234567891", false},
        {"0e99", "0", true},
        {"1.2.3", "1.23", false},
        {"0.1", "0.10000000000000001", false},
        {"100000000000000000000000001", "100000000000000000000000002", false},
        {"100000000000000000000000001", "100000000000000000000000001.0", true},
        {"12", "1", false},
        {"1", "-1", false},
        {"0x10", "16", false},
        {"1 a", "1.0 a", false},
        {"1 2", "1 2 3", false},
        {"10 20\nx", "10.0 2e1\nx", true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *a = cases[i].a, *b = cases[i].b;

        if (gp_output_same(a, strlen(a), b, strlen(b)) != cases[i].same ||
            gp_output_same(b, strlen(b), a, strlen(a)) != cases[i].same)
            fail_msg("\"%s\" and \"%s\"", a, b);
    }
}

static void values_are_compared_as_in_python(void **state)
{
    static const struct comparison cases[] = {
        {"1", "1.0", true},
        {"true", "1", true},
        {"false", "0.0", true},
        {"true", "false", false},
        {"null", "0", false},
        {"null", "null", true},
        {"0.30000000000000004", "0.3", false},
        {"9007199254740993", "9007199254740992", false},
        {"99999999999999999999", "100000000000000000000", true}, /* beyond 64 bits: as floats */
        {"\"a\"", "\"a\"", true},
        {"\"a\"", "\"b\"", false},
        {"\"1\"", "1", false},
        {"\"a\\u0000b\"", "\"a\\u0000c\"", false},
        {"[1, 2]", "[1, 2]", true},
        {"[1, 2]", "[2, 1]", false},
        {"[1, 2]", "[1, 2, 3]", false},
        {"[[1], []]", "[[1.0], []]", true},
        {"{\"a\": 1, \"b\": 2}", "{\"b\": 2, \"a\": true}", true},
        {"{\"a\": 1}", "{\"b\": 1}", false},
        {"{\"a\": 1}", "{\"a\": 1, \"b\": 1}", false},
        {"[]", "{}", false},
    };
    json_error_t why;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        json_t *a = gp_value_read(cases[i].a, strlen(cases[i].a), &why);
        json_t *b = gp_value_read(cases[i].b, strlen(cases[i].b), &why);

        assert_true(a && b);
        if (gp_value_same(a, b) != cases[i].same || gp_value_same(b, a) != cases[i].same)
            fail_msg("%s and %s", cases[i].a, cases[i].b);
        json_decref(a);
        json_decref(b);
    }
    assert_null(gp_value_read("[1] 2", 5, &why));
    assert_null(gp_value_read("NaN", 3, &why));
}

/* ---- problems ---- */

static const char sums[] =
    "{\"question_title\": \"Sum\", \"question_content\": \"Add two numbers.\", \"platform\": "
    "\"atcoder\", \"question_id\": \"a\", \"contest_id\": \"c\", \"contest_date\": "
    "\"2023-08-21T00:00:00\", \"starter_code\": \"\", \"difficulty\": \"easy\", "
    "\"public_test_cases\": \"[{\\\"input\\\": \\\"1 2\\\", \\\"output\\\": \\\"3\\\\n\\\", "
    "\\\"testtype\\\": \\\"stdin\\\"}]\", "
    "\"private_test_cases\": \"[{\\\"input\\\": \\\"2 2\\\", \\\"output\\\": \\\"4\\\\n\\\", "
    "\\\"testtype\\\": \\\"stdin\\\"}]\", \"metadata\": \"{}\"}\n";

/* The private test, [3, 4] and 5 make 12, is packed. */
static const char calls[] =
    "{\"question_content\": \"Add all.\", \"starter_code\": \"class Solution:\\n    def add(self, "
    "a, "
    "b):\\n        \", \"public_test_cases\": \"[{\\\"input\\\": \\\"[1, 2]\\\\n3\\\", "
    "\\\"output\\\": "
    "\\\"6\\\", \\\"testtype\\\": \\\"functional\\\"}]\", \"private_test_cases\": "
    "\"eJxrYJnqxgABPU7R1UqZeQWlJUpWCkrRxjoKJrExeaZKOgpK+aUlUGFDIxC/"
    "JLW4pKSyIBUkklaal1ySmZ+XmKNUGztFDwBZwBdB\", \"metadata\": \"{\\\"func_name\\\": "
    "\\\"add\\\"}\"}\n";

static char path[] = "/tmp/gp-livecode-XXXXXX";

static struct gp_dataset *open_set(const char *first, const char *second)
{
    struct gp_dataset *set;
    struct gp_error err;
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(first, file) >= 0 && fputs(second, file) >= 0 && fclose(file) == 0);
    if (gp_dataset_open(&set, path, 0, &err))
        fail_msg("%s", err.message);
    return set;
}

static void problems_are_read_with_their_tests(void **state)
{
    struct gp_dataset *set = open_set(sums, calls);
    struct gp_livecode tests;
    struct gp_error err;

    (void)state;
    assert_int_equal(set->count, 2);
    assert_true(set->programs);
    assert_int_equal(set->items[0].kind, GP_DATASET_PROGRAM);
    assert_string_equal(set->items[0].answer, "2 tests of standard output");
    assert_string_equal(set->items[1].answer, "2 tests of add");
    assert_non_null(
        strstr(set->items[0].prompt, "### Question:\nAdd two numbers.\n\n### Format: "));
    assert_non_null(strstr(set->items[0].prompt, "standard input"));
    assert_non_null(strstr(set->items[1].prompt, "```python\nclass Solution:\n    def add(self, a, "
                                                 "b):\n        \n```\n\n### Answer:\n"));
    assert_null(strstr(set->items[1].prompt, "standard input"));
    if (gp_dataset_tests(set, 1, &tests, &err))
        fail_msg("%s", err.message);
    assert_string_equal(tests.function, "add");
    assert_int_equal(json_array_size(tests.cases), 2);
    assert_string_equal(
        json_string_value(json_object_get(json_array_get(tests.cases, 1), "output")), "12");
    gp_livecode_free(&tests);
    gp_dataset_close(set);
}

static void a_file_that_changed_is_refused(void **state)
{
    struct gp_dataset *set = open_set(sums, calls);
    struct gp_livecode tests;
    struct gp_error err;

    (void)state;
    gp_dataset_close(open_set(calls, sums));
    assert_int_equal(gp_dataset_tests(set, 0, &tests, &err), GP_ECORRUPT);
    assert_non_null(strstr(err.message, "it has changed"));
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(gp_dataset_tests(set, 1, &tests, &err), GP_ECORRUPT);
    assert_non_null(strstr(err.message, "it has changed"));
    unlink(path);
    assert_int_equal(gp_dataset_tests(set, 1, &tests, &err), GP_EIO);
    gp_dataset_close(set);
}

static void a_problem_survives_every_refusal_of_memory(void **state)
{
    (void)state;
    gp_dataset_close(open_set(calls, sums));
    for (uint64_t n = 1;; n++) {
        struct gp_dataset *set = NULL;
        struct gp_livecode tests;
        struct gp_error err = {""};
        uint64_t live = gp_mem_live();

        gp_mem_refuse_at(n);
        int rc = gp_dataset_open(&set, path, 1, &err);
        if (!rc) {
            assert_int_equal(set->count, 1);
            rc = gp_dataset_tests(set, 0, &tests, &err);
            if (!rc)
                gp_livecode_free(&tests);
            gp_dataset_close(set);
        }
        bool refused = gp_mem_refused();
        gp_mem_refuse_at(0);
        assert_int_equal(rc, refused ? GP_ENOMEM : GP_OK);
        assert_int_equal(gp_mem_live(), live);
        if (!refused)
            break;
    }
}

/* ---- runners ---- */

static bool able;
static struct gp_error unable;
/* As long as a busy machine may take. */
static const struct gp_sandbox_limits limits = {
    .seconds = 2, .memory_bytes = 512u << 20, .wait_seconds = 300};

static void need_sandbox(void)
{
    if (able)
        return;
    print_message("skipped: %s\n", unable.message);
    skip();
}

static const struct {
    uint64_t problem;
    const char *program;
    uint32_t passed; /* of two */
    const char *why;
} programs[] = {
    {0, "print(sum(map(int, input().split())))", 2, ""},
    {0, "a, b = map(int, input().split())\nprint(f'{a + b}.0 \\n')", 2, ""},
    {0, "print(3)", 1, "wrong output"},
    {0, "print(4)", 0, "wrong output"},
    {0, "", 0, "wrong output"},
    {0, "print(1 / 0)", 0, "status 1"},
    {0, "while True: print(3)", 0, "more than 1048580 bytes of output"},
    {1, "class Solution:\n    def add(self, a, b):\n        return sum(a) + b", 2, ""},
    {1, "def add(a, b):\n    return float(sum(a) + b)", 2, ""},
    {1, "class Solution:\n    def add(self, a, b):\n        return 6", 1, "wrong output"},
    {1, "class Solution:\n    def add(self, a, b):\n        print(6)", 0, "wrong output"},
    {1, "class Solution:\n    def sub(self, a, b):\n        return 6", 0, "status 1"},
    {1, "import os\ndef add(a, b):\n    os._exit(0)", 0, "wrong output"},
    {1, "def add(a, b):\n    return {1}", 0, "status 1"},
};

static void programs_are_held_against_their_tests(void **state)
{
    static struct gp_trial runs[COUNT(programs)];
    struct gp_runners *runners;
    struct gp_error err;
    uint32_t done = 0;

    (void)state;
    need_sandbox();
    struct gp_dataset *set = open_set(sums, calls);
    assert_int_equal(gp_runners_open(&runners, &limits, &err), GP_OK);
    assert_null(gp_runners_take(runners, 300000));
    for (size_t i = 0; i < COUNT(programs); i++) {
        runs[i] = (struct gp_trial){.dataset = set,
                                    .index = programs[i].problem,
                                    .program = programs[i].program,
                                    .program_length = strlen(programs[i].program)};
        gp_runners_add(runners, &runs[i]);
    }
    for (struct gp_trial *run; (run = gp_runners_take(runners, 300000)); done++) {
        size_t i = (size_t)(run - runs);

        if (run->rc)
            fail_msg("%s: %s", run->program, run->err.message);
        assert_int_equal(run->tests, 2);
        assert_false(run->stopped);
        if (run->passed != programs[i].passed || strcmp(run->why, programs[i].why) != 0 ||
            run->correct != (programs[i].passed == 2))
            fail_msg("%s: passed %u, %s", run->program, run->passed, run->why);
    }
    assert_int_equal(done, COUNT(programs));
    gp_runners_close(runners);
    gp_dataset_close(set);
}

static void what_runs_and_what_waits_is_stopped(void **state)
{
    static const char program[] = "import time\ntime.sleep(1e6)";
    struct gp_trial runs[9];
    struct gp_runners *runners;
    struct gp_error err;
    uint32_t done = 0;

    (void)state;
    need_sandbox();
    struct gp_dataset *set = open_set(sums, calls);
    assert_int_equal(gp_runners_open(&runners, &limits, &err), GP_OK);
    for (size_t i = 0; i < COUNT(runs); i++) {
        runs[i] = (struct gp_trial){
            .dataset = set, .program = program, .program_length = sizeof program - 1};
        gp_runners_add(runners, &runs[i]);
    }
    assert_null(gp_runners_take(runners, 300));
    gp_runners_stop(runners);
    for (struct gp_trial *run; (run = gp_runners_take(runners, 300000)); done++) {
        assert_true(run->stopped);
        assert_false(run->correct);
        assert_int_equal(run->rc, GP_OK);
    }
    assert_int_equal(done, COUNT(runs));
    gp_runners_close(runners);
    gp_dataset_close(set);
}

static void a_file_that_is_gone_is_no_wrong_answer(void **state)
{
    struct gp_runners *runners;
    struct gp_error err;

    (void)state;
    struct gp_dataset *set = open_set(sums, calls);
    struct gp_trial run = {.dataset = set, .program = "", .program_length = 0};
    unlink(path);
    assert_int_equal(gp_runners_open(&runners, &limits, &err), GP_OK);
    gp_runners_add(runners, &run);
    assert_ptr_equal(gp_runners_take(runners, 300000), &run);
    assert_int_equal(run.rc, GP_EIO);
    assert_false(run.correct);
    assert_non_null(strstr(run.err.message, path));
    gp_runners_close(runners);
    gp_dataset_close(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_string_is_unpacked_whatever_the_protocol),
        cmocka_unit_test(large_strings_have_no_frame_and_a_limit),
        cmocka_unit_test(what_is_no_packed_string_is_refused),
        cmocka_unit_test(outputs_are_compared_by_lines_and_decimals),
        cmocka_unit_test(values_are_compared_as_in_python),
        cmocka_unit_test(problems_are_read_with_their_tests),
        cmocka_unit_test(a_file_that_changed_is_refused),
        cmocka_unit_test(a_problem_survives_every_refusal_of_memory),
        cmocka_unit_test(programs_are_held_against_their_tests),
        cmocka_unit_test(what_runs_and_what_waits_is_stopped),
        cmocka_unit_test(a_file_that_is_gone_is_no_wrong_answer),
    };
    int fd = mkstemp(path);

    if (fd < 0)
        return 1;
    close(fd);
    able = gp_sandbox_check(&limits, &unable) == GP_OK;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
