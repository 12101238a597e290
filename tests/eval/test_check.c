/* The checkers: right answers pass, everything else fails, and no text does harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "eval/suite.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const struct {
    const char *suite, *prompt, *right;
    const char *wrong[8];
} cases[] = {
    {"sum", "Add a429 b915 c310.", "1654", {"1655", "01654", "1,654", "1654.", "", "165", "16540"}},
    {"sum", "Add a429 b915 and check.", "1344", {"1345", "429 915"}},
    {"mul", "Multiply 836*47.", "39292", {"39293", "39292 39292", "039292", "3929", "-39292"}},
    {"mul",
     "Multiply 836*47 91*205 and check.",
     "39292 18655",
     {"18655 39292", "39292", "3929218655", "39292  18655", "39292,18655"}},
    {"mul", "Multiply 999999*999999.", "999998000001", {"2147483647", "999998000000"}},
    {"prog",
     "Run a37 b58 C=A+B D=C-A E=B+D, show CE.",
     "95 16",
     {"16 95", "95 116", "95", "9516", "95 16 58", "C95 E16"}},
    {"prog", "Run a05 B=A-A C=B-A D=C+C and check.", NULL, {"95"}},
    {"prog", "Run a05 B=A-A C=B-A D=C+C, show CDB and check.", "95 90 00", {"95 90 0", "-5 90 0"}},
    {"sort",
     "Sort a48 b17 c93 d22.",
     "17 22 48 93",
     {"17 22 93 48", "17 22 48", "17 22 48 93 99", "17 17 48 93", "17,22,48,93", "17 22 48 9"}},
    {"sort", "Sort a48 b05.", "05 48", {"5 48", "48 05"}},
    {"phase", "Table a37 b05 c88. 1ACB 2+07*9 3BA.", "35", {"235", "36", "5", "3 5"}},
    {"phase", "Table a37 b05. 1B 2+00*1 and check.", "05", {"5", "42"}},
    {"walk", "Links aC bD cB dA. a37 d52.", "C D", {"D C", "C", "c d", "CD", "C D A"}},
    {"walk", "Links aC bD cB dA. a4 and check.", "A", {"B"}},
    {"find",
     "Pick from a3 b9 c4 d7 e2 f8 sum 19.",
     "abd",
     {"bda", "abdd", "ab", "a b d", "ABD", "abg", "", "abde"}},
    {"find", "Pick from a3 b9 c4 d7 e2 f8 sum 19.", "bef", {"ef"}},
    {"find", "Pick from a3 b9 c4 d7 e2 f8 sum 19 and check.", "bef", {"3 9 7"}},
    {"copy", "Copy xk3q.", "xk3q", {"xk3", "xk3q.", "xk3qq", "xk 3q", "XK3Q", ""}},
    {"look", "Look a37 b05 c88. CAB", "88 37 05", {"88 37 5", "37 05 88", "88 37", "883705"}},
};

static void hand_written_answers_are_judged(void **state)
{
    char spaced[128];

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct gp_suite *suite = gp_suite_find(cases[i].suite);

        assert_non_null(suite);
        if (cases[i].right) {
            snprintf(spaced, sizeof spaced, " \n%s\t\r\n ", cases[i].right);
            if (!suite->check(cases[i].prompt, cases[i].right) ||
                !suite->check(cases[i].prompt, spaced))
                fail_msg("%s refused %s", cases[i].prompt, cases[i].right);
        }
        for (size_t j = 0; j < COUNT(cases[i].wrong) && cases[i].wrong[j]; j++)
            if (suite->check(cases[i].prompt, cases[i].wrong[j]))
                fail_msg("%s took \"%s\"", cases[i].prompt, cases[i].wrong[j]);
    }
}

/* With the answer that would be right if the prompt were read loosely. */
static const struct {
    const char *suite, *prompt, *answer;
} strangers[] = {
    {"sum", "Add a429 b915", "1344"},
    {"sum", "Add a429 b91.", "520"},
    {"sum", "Add a429 a915.", "1344"},
    {"sum", "Add a429  b915.", "1344"},
    {"sum", "Add a429 b915. ", "1344"},
    {"sum", "Add a429 b915 and check", "1344"},
    {"sum", "Add.", "0"},
    {"sum", "add a429 b915.", "1344"},
    {"sum", "Sort a429 b915.", "1344"},
    {"sum", "", ""},
    {"mul", "Multiply 5*47.", "235"},
    {"mul", "Multiply 1234567*47.", "58024649"},
    {"mul", "Multiply 036*47.", "1692"},
    {"prog", "Run a37 C=A+B, show C.", "37"},
    {"prog", "Run a37 b58 A=A+B, show A.", "95"},
    {"prog", "Run a37 b58 C=A*B, show C.", "46"},
    {"prog", "Run a37 b58, show .", ""},
    {"sort", "Sort a17 b17.", "17 17"},
    {"sort", "Sort a17 b17.", "17"},
    {"phase", "Table a37 b05. 2AB.", "42"},
    {"phase", "Table a37 b05. 1AB 3A.", "79"},
    {"phase", "Table a37 b05. 1AC.", "37"},
    {"phase", "Table a37 b05. 1.", "00"},
    {"walk", "Links aC bD. a1.", "C"},
    {"walk", "Links aB bA. c1.", "C"},
    {"walk", "Links aB bA.", ""},
    {"find", "Pick from a3 b9 sum 012.", "ab"},
    {"find", "Pick from a3 b12 sum 15.", "ab"},
    {"copy", "Copy .", ""},
    {"copy", "Copy x k.", "x k"},
    {"look", "Look a37. B", "00"},
    {"look", "Look a37. ", ""},
};

static void prompts_of_no_suite_have_no_answer(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(strangers); i++)
        if (gp_suite_find(strangers[i].suite)->check(strangers[i].prompt, strangers[i].answer))
            fail_msg("%s took \"%s\"", strangers[i].prompt, strangers[i].answer);
}

static uint64_t test_seed(void)
{
    const char *seed = getenv("GP_SEED");

    return seed ? strtoull(seed, NULL, 10) : 1;
}

/* Change answer by one edit of a character; false when that cannot be done. */
static bool alter(struct gp_rng *rng, const char *answer, char out[512])
{
    static const char letters[] = "0123456789 abcdefABCDEF";
    size_t length = strlen(answer), at = gp_rng_below(rng, (uint32_t)length + 1);
    char letter = letters[gp_rng_below(rng, sizeof letters - 1)];

    if (length + 2 > 512)
        return false;
    memcpy(out, answer, length + 1);
    switch (gp_rng_below(rng, 3)) {
    case 0:
        memmove(out + at + 1, out + at, length - at + 1);
        out[at] = letter;
        break;
    case 1:
        if (at == length)
            return false;
        memmove(out + at, out + at + 1, length - at);
        break;
    default:
        if (at == length)
            return false;
        out[at] = letter;
    }
    /* Blanks around an answer are allowed, so such an edit leaves it as it was. */
    const char *left = out + strspn(out, " ");
    size_t kept = strlen(left);
    while (kept > 0 && left[kept - 1] == ' ')
        kept--;
    return kept != length || memcmp(left, answer, length) != 0;
}

static void check_problem(const struct gp_suite *suite, struct gp_rng *rng,
                          const struct gp_problem *p)
{
    char other[512];

    if (!suite->check(p->prompt, p->answer))
        fail_msg("GP_SEED=%llu: %s: refused its own %s", (unsigned long long)test_seed(), p->prompt,
                 p->answer);
    for (int i = 0; i < 20; i++)
        /* One letter more, less or changed gives find another sum, all others another answer. */
        if (alter(rng, p->answer, other) && suite->check(p->prompt, other) &&
            strcmp(suite->name, "find") != 0)
            fail_msg("GP_SEED=%llu: %s: took %s for %s", (unsigned long long)test_seed(), p->prompt,
                     other, p->answer);
    for (uint32_t i = 0; gp_suite_at(i); i++)
        if (gp_suite_at(i) != suite && gp_suite_at(i)->check(p->prompt, p->answer))
            fail_msg("%s takes a prompt of %s", gp_suite_at(i)->name, suite->name);
}

static void generated_answers_pass_and_altered_ones_fail(void **state)
{
    struct gp_rng rng = {test_seed()};
    const struct gp_suite *suite;

    (void)state;
    for (uint32_t s = 0; (suite = gp_suite_at(s)); s++)
        for (uint32_t index = 0; index < 200; index++) {
            double difficulty = (1 + index % 10) / 10.0;
            struct gp_problem problem;
            struct gp_error err;

            if (gp_problem_make(suite, test_seed(), index, difficulty,
                                (enum gp_form)(index / 10 % 2), &problem, &err))
                fail_msg("%s", err.message);
            check_problem(suite, &rng, &problem);
            gp_problem_free(&problem);
        }
}

/* Every set of names, judged by adding up here. */
static void find_takes_exactly_the_right_choices(void **state)
{
    static const uint32_t values[] = {3, 9, 4, 7, 2, 8};
    const struct gp_suite *suite = gp_suite_find("find");

    (void)state;
    for (uint32_t set = 0; set < 64; set++) {
        char names[8];
        uint32_t count = 0, sum = 0;

        for (uint32_t i = 0; i < 6; i++)
            if (set >> i & 1) {
                names[count++] = (char)('a' + i);
                sum += values[i];
            }
        names[count] = 0;
        assert_int_equal(suite->check("Pick from a3 b9 c4 d7 e2 f8 sum 19.", names), sum == 19);
    }
}

static void no_text_does_harm(void **state)
{
    static const char letters[] = "abcABC0123456789 .,*+-=:\xe9\xff\n";
    struct gp_rng rng = {test_seed()};

    (void)state;
    for (uint32_t round = 0; round < 20000; round++) {
        char prompt[256], answer[64];
        size_t of_case = gp_rng_below(&rng, COUNT(cases)), i;
        int length = snprintf(prompt, sizeof prompt, "%s", cases[of_case].prompt);

        for (uint32_t edits = 1 + gp_rng_below(&rng, 3); edits > 0; edits--)
            prompt[gp_rng_below(&rng, (uint32_t)length)] =
                letters[gp_rng_below(&rng, sizeof letters - 1)];
        if (gp_rng_below(&rng, 4) == 0)
            prompt[gp_rng_below(&rng, (uint32_t)length)] = 0;
        for (i = 0; i < gp_rng_below(&rng, 60); i++)
            answer[i] = letters[gp_rng_below(&rng, sizeof letters - 1)];
        answer[i] = 0;
        for (uint32_t s = 0; gp_suite_at(s); s++)
            gp_suite_at(s)->check(prompt, answer);
    }
}

static void longer_answers_than_any_prompt_asks_for_are_wrong(void **state)
{
    static char text[100000];

    (void)state;
    memset(text, '1', sizeof text - 1);
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_false(gp_suite_find(cases[i].suite)->check(cases[i].prompt, text));
    for (uint32_t s = 0; gp_suite_at(s); s++)
        assert_false(gp_suite_at(s)->check(text, text));
    /* More references than there is room for an answer to. */
    memcpy(text, "Look a11. ", 10);
    memset(text + 10, 'A', sizeof text - 11);
    assert_false(gp_suite_find("look")->check(text, "11"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hand_written_answers_are_judged),
        cmocka_unit_test(prompts_of_no_suite_have_no_answer),
        cmocka_unit_test(generated_answers_pass_and_altered_ones_fail),
        cmocka_unit_test(find_takes_exactly_the_right_choices),
        cmocka_unit_test(no_text_does_harm),
        cmocka_unit_test(longer_answers_than_any_prompt_asks_for_are_wrong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
