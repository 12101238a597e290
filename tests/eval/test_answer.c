/* Answers: every rule with pairs that are the same and pairs that are not, and what holds of any
 * text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "eval/answer.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

struct pair {
    const char *a, *b;
};

static bool same(const char *a, const char *b)
{
    return gp_answer_same(a, strlen(a), b, strlen(b));
}

static void check(const struct pair *pairs, size_t count, bool expected)
{
    for (size_t i = 0; i < count; i++) {
        const struct pair *p = &pairs[i];
        if (same(p->a, p->b) != expected || same(p->b, p->a) != expected)
            fail_msg("%s and %s are %sthe same", p->a, p->b, expected ? "" : "not ");
        if (!same(p->a, p->a) || !same(p->b, p->b))
            fail_msg("%s or %s is not itself", p->a, p->b);
    }
}

/* A rule: a test of the pairs before and behind the line. */
#define RULE(name, equal, unequal)                                                                 \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        check(equal, COUNT(equal), true);                                                          \
        check(unequal, COUNT(unequal), false);                                                     \
    }

static const struct pair numbers[] = {
    {"7", "7.0"},
    {"7", "007"},
    {"0", "-0"},
    {".25", "0.250"},
    {"-3", "\u22123"},
    {"+4", "4"},
    {"7.", "7"},
    {"$7$", "7"},
    {"1e", "e"},
    {"12345678901234567890123456789012345678901234567890.0",
     "12345678901234567890123456789012345678901234567890"},
    {"10^{40}+1", "10000000000000000000000000000000000000001"},
};
static const struct pair other_numbers[] = {
    {"7", "8"},
    {"7", "-7"},
    {"0.333333", "\\frac{1}{3}"},
    {"3.14159265358979", "\\pi"},
    {"10^{100}", "10^{100}+1"},
    {"12345678901234567890123456789012345678901234567890",
     "12345678901234567890123456789012345678901234567891"},
    {"1 2", "12"},
    {"1 2", "2"},
};
RULE(numbers_are_compared_exactly, numbers, other_numbers)

static const struct pair fractions[] = {
    {"\\frac{1}{2}", "1/2"},       {"\\frac12", "0.5"},
    {"\\frac 59", "5/9"},          {"\\frac9{19}", "\\dfrac{18}{38}"},
    {"\\tfrac{1}{2}", "2^{-1}"},   {"-\\frac{3}{4}", "\\frac{-3}{4}"},
    {"\\frac{3}{-4}", "-0.75"},    {"1\\frac{4}{5}", "\\frac95"},
    {"137 \\frac{1}{2}", "137.5"}, {"137 1/2", "275/2"},
    {"-1\\frac12", "-1.5"},        {"2\\frac{x}{3}", "\\frac{2x}{3}"},
    {"7 \\div 2", "3.5"},          {"\\frac{270}7\\text{ degrees}", "270/7"},
};
static const struct pair other_fractions[] = {
    {"\\frac{1}{2}", "\\frac{1}{3}"}, {"\\frac{1}{2}", "2"},
    {"1\\frac{4}{5}", "\\frac45"},    {"1\\frac{4}{5}", "1.45"},
    {"\\frac{1}{0}", "\\frac{2}{0}"},
};
RULE(fractions_and_mixed_numbers_are_values, fractions, other_fractions)

static const struct pair marks[] = {
    {"58,500", "58500"},
    {"10,\\!080", "10080"},
    {"11,\\! 111,\\! 100", "11111100"},
    {"1{,}234.5", "1234.5"},
    {"\\$32,\\!348", "32348"},
    {"\\$18.90", "18.9"},
    {"\\$36", "36 dollars"},
    {"5.4 \\text{ cents}", "5.4"},
    {"15\\mbox{ cm}^2", "15"},
    {"864 \\mbox{ inches}^2", "864"},
    {"12 cm", "12"},
    {"60 miles/hour", "60"},
    {"60 \\text{ miles per hour}", "60"},
    {"90^\\circ", "90"},
    {"90^{\\circ}", "90"},
    {"90\u00b0", "90"},
    {"90 degrees", "90^\\circ"},
    {"\\text{Area} = 12", "12"},
};
static const struct pair other_marks[] = {
    {"58,500", "58,501"}, {"58,500", "58.5"}, {"1,23", "123"},
    {"(1,234)", "1234"},  {"12 cm", "13 cm"}, {"90^\\circ", "9"},
};
RULE(thousands_marks_units_money_and_degrees_are_no_part_of_a_number, marks, other_marks)

static const struct pair percents[] = {
    {"50\\%", "0.5"},
    {"50\\%", "50"},
    {"50%", "\\frac12"},
    {"12.5\\%", "12.50\\%"},
};
static const struct pair other_percents[] = {
    {"50\\%", "5"},
    {"50\\%", "0.5\\%"},
    {"50\\%", "51"},
};
RULE(a_percent_is_its_share_and_its_number, percents, other_percents)

static const struct pair radicals[] = {
    {"11\\sqrt2", "\\sqrt{242}"},
    {"\\frac{3\\sqrt{3}}{4}", "\\frac{9}{4\\sqrt3}"},
    {"\\sqrt{51}", "sqrt(51)"},
    {"\\sqrt[3]{-8}", "-2"},
    {"2^{1/2}", "\\sqrt 2"},
    {"\\sqrt[4]{16}", "2"},
    {"\\sqrt{3+2\\sqrt2}", "1+\\sqrt{2}"},
    {"\\sqrt{2}\\cdot\\sqrt{3}", "\\sqrt{6}"},
    {"\\sqrt{2}-\\sqrt{2}", "0"},
};
static const struct pair other_radicals[] = {
    {"11\\sqrt2", "\\sqrt{22}"},
    {"\\sqrt{2}", "1.41421356237"},
    {"\\sqrt{51}", "51"},
    {"\\sqrt{2}", "-\\sqrt{2}"},
};
RULE(radicals_are_values, radicals, other_radicals)

static const struct pair constants[] = {
    {"288 \\pi", "288pi"},
    {"\\frac{20000}{\\pi}", "20000/\u03c0"},
    {"2^{10}", "1024"},
    {"2**10", "1024"},
    {"x^-1", "\\frac1x"},
    {"5!", "120"},
    {"\\binom{5}{2}", "10"},
    {"\\log_2 8", "3"},
    {"\\ln e^2", "2"},
    {"\\sin 30^\\circ", "\\frac12"},
    {"\\cos(\\pi/3)", "0.5"},
    {"\\sin^2 x + \\cos^2 x", "1"},
    {"\\cot x", "\\frac{\\cos x}{\\sin x}"},
    {"|-3|", "3"},
    {"\\left|x\\right|", "\\lvert -x \\rvert"},
    {"\\lfloor 3.7 \\rfloor", "3"},
    {"\\lceil 3.2 \\rceil", "4"},
    {"e^{i\\pi}", "-1"},
    {"\\tan 45^\\circ", "1"},
    {"200!/199!", "200"},
};
static const struct pair other_constants[] = {
    {"\\cot x", "\\tan x"},     {"\\sin 30", "\\frac12"}, {"5!", "5"},
    {"\\log_2 8", "\\log_3 8"}, {"200!", "200!+1"},       {"e", "2.718281828459"},
};
RULE(constants_powers_and_functions_are_values, constants, other_constants)

static const struct pair polynomials[] = {
    {"p - q", "-q+p"},
    {"(a+5)(b+2)", "ab + 2a + 5b + 10"},
    {"x^5 - x^4 + x^3 - x^2 + x - 1", "(x-1)(x^4+x^2+1)"},
    {"\\frac{11+9a}{20}", "0.55+0.45a"},
    {"6r^2-4r-24", "2(3r^2 - 2r - 12)"},
    {"2k", "k \\cdot 2"},
    {"x^{100}", "(x^{50})^2"},
    {"\\frac{x^2-1}{x-1}", "x+1"},
    {"x_1 + x_2", "x_2+x_{1}"},
    {"\\alpha\\beta", "\\beta \\alpha"},
    {"2^{n+1}", "2\\cdot 2^n"},
};
static const struct pair other_polynomials[] = {
    {"p - q", "q - p"},  {"2k", "2n"},         {"x^2", "x^3"}, {"x_1", "x_2"},
    {"x+1", "x+1.0001"}, {"\\sqrt{x^2}", "x"}, {"X", "x"},
};
RULE(expressions_with_letters_are_compared_everywhere, polynomials, other_polynomials)

static const struct pair complexes[] = {
    {"6 - 5i", "-5i+6"}, {"(1+2i)(3-i)", "5+5i"}, {"\\frac{1}{i}", "-i"},
    {"i^2", "-1"},       {"1+274i", "274i + 1"},
};
static const struct pair other_complexes[] = {
    {"6 - 5i", "6 + 5i"},
    {"i", "-i"},
    {"1+2i", "3"},
};
RULE(complex_numbers_are_values, complexes, other_complexes)

static const struct pair bases[] = {
    {"52_8", "52_{8}"}, {"52_8", "52"},   {"4210_{5}", "4210_5"},
    {"11_2", "3_{10}"}, {"100_2", "4_5"},
};
static const struct pair other_bases[] = {
    {"52_8", "52_9"},
    {"52_8", "42"},
    {"52_8", "25_8"},
    {"58_8", "60_8"},
};
RULE(digits_are_of_their_base, bases, other_bases)

static const struct pair tuples[] = {
    {"\\left( 3, \\frac{\\pi}{2} \\right)", "(3,\\pi/2)"},
    {"(6,31,-1)", "( 6, 31, -1 )"},
    {"3, 5, 7", "(3,5,7)"},
    {"(2,200)", "(2,\\frac{400}{2})"},
    {"((1,2),3)", "((1,2.0),3)"},
};
static const struct pair other_tuples[] = {
    {"(1,2)", "(2,1)"}, {"(1,2)", "(1,2,3)"}, {"(1,2)", "(1,3)"},
    {"(1,2)", "12"},    {"(1,2", "(1,2)"},
};
RULE(tuples_are_ordered, tuples, other_tuples)

static const struct pair intervals[] = {
    {"(3,4]", "\\left(3, 4\\right]"},
    {"x \\in [-2,7]", "[-2,7]"},
    {"(2,\\infty)", "x > 2"},
    {"(-\\infty, 0]", "x \\le 0"},
    {"0 \\ge x", "x \\leq 0"},
    {"-2 < x \\le 7", "(-2,7]"},
    {"7 \\ge x > -2", "(-2,7]"},
    {"(0,9) \\cup (9,36)", "(9,36) \\cup (0,9)"},
    {"(0,9) \\cup (9,36)", "(0,9) U (9,36)"},
    {"(-\\infty, 2) \\cup (3, \\infty)", "(-\u221e,2)\u222a(3,\u221e)"},
};
static const struct pair other_intervals[] = {
    {"(3,4]", "(3,4)"},
    {"[3,4]", "(3,4)"},
    {"(2,\\infty)", "x \\ge 2"},
    {"(2,\\infty)", "(-\\infty,2)"},
    {"(0,9) \\cup (9,36)", "(0,9)"},
    {"(0,9) \\cup (9,36)", "(0,36)"},
};
RULE(intervals_have_ends_of_their_kind, intervals, other_intervals)

static const struct pair sets[] = {
    {"\\{1,2\\}", "\\{2,1\\}"},
    {"1,-2", "-2, 1"},
    {"\\{1,2\\}", "1, 2"},
    {"{1,2}", "\\{2,1\\}"},
    {"\\{1,1,2\\}", "\\{2,1\\}"},
    {"3 \\text{ and } 4", "4, 3"},
    {"x=1 \\text{ or } x=2", "2, 1"},
    {"1 \\pm \\sqrt{19}", "1-\\sqrt{19}, 1+\\sqrt{19}"},
    {"\\{1\\pm\\sqrt{5},-2\\}", "-2, 1+\\sqrt5, 1-\\sqrt5"},
    {"3 \\pm 2 \\sqrt{2}", "3 \\mp 2\\sqrt2"},
    {"\\{5\\}", "5"},
    {"\\{(1,2),(3,4)\\}", "\\{(3,4),(1,2)\\}"},
};
static const struct pair other_sets[] = {
    {"\\{1,2\\}", "\\{1,3\\}"},
    {"1,2", "1"},
    {"1,2", "1,2,3"},
    {"\\{1,1,2\\}", "\\{1,2,3\\}"},
    {"1 \\pm \\sqrt{19}", "1+\\sqrt{19}"},
    {"\\{(1,2)\\}", "\\{(2,1)\\}"},
};
RULE(sets_and_lists_have_no_order, sets, other_sets)

static const struct pair matrices[] = {
    {"\\begin{pmatrix} -1/3 \\\\ 2/3 \\end{pmatrix}",
     "\\begin{bmatrix}-\\frac13\\\\\\frac23\\end{bmatrix}"},
    {"\\begin{pmatrix} -1 & 0 \\\\ 0 & -1 \\end{pmatrix}",
     "\\begin{pmatrix}-1&0\\\\0&-1\\\\\\end{pmatrix}"},
    {"\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}", "(1,2)"},
    {"\\begin{pmatrix} 1 & 2 \\end{pmatrix}",
     "\\left(\\begin{array}{cc} 1 & 2 \\end{array}\\right)"},
};
static const struct pair other_matrices[] = {
    {"\\begin{pmatrix} 1 & 2 \\end{pmatrix}", "\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}"},
    {"\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}", "\\begin{pmatrix} 2 \\\\ 1 \\end{pmatrix}"},
    {"\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}", "(1,2,3)"},
};
RULE(matrices_are_compared_cell_by_cell, matrices, other_matrices)

static const struct pair equations[] = {
    {"x=5", "5"},
    {"y = 2x + 3", "y=3+2x"},
    {"y = 2x + 3", "2x+3"},
    {"y = 2x + 3", "2x - y + 3 = 0"},
    {"5x - 7y + 11z + 4 = 0", "10x+22z+8=14y"},
    {"f(x) = x^2", "x^2"},
    {"x = 2 + 3 = 5", "5"},
    {"x^2+y^2=\\sqrt{2}", "\\sqrt2 = x^2+y^2"},
    {"x+y \\le 3", "3 \\ge y+x"},
    {"x \\neq 3", "x \\ne 3"},
};
static const struct pair other_equations[] = {
    {"x=5", "6"},
    {"x=5", "y=5"},
    {"y = 2x + 3", "y = 2x - 3"},
    {"x = y", "x \\neq y"},
    {"x+y \\le 3", "x+y < 3"},
    {"x+y \\le 3", "x+y \\ge 3"},
    {"x = x", "x = 3"},
    {"x = x", "0 = 0 + y"},
};
RULE(equations_are_the_same_when_they_say_the_same, equations, other_equations)

static const struct pair words[] = {
    {"\\text{Evelyn}", "Evelyn"},
    {"\\text{east}", "East"},
    {"\\text{(C)}", "C"},
    {"\\text{(C)}", "(C)"},
    {"\\textbf{even}", "\\text{ even.}"},
    {"\\mathrm{ellipse}", "ellipse"},
    {"3:30", "3 : 30"},
};
static const struct pair other_words[] = {
    {"\\text{east}", "west"},
    {"\\text{(C)}", "B"},
    {"3:30", "3:31"},
};
RULE(words_are_compared_by_their_letters, words, other_words)

static void nothing_is_no_answer(void **state)
{
    static const char *const empty[] = {"", " ", "$$", "\\text{}", "."};

    (void)state;
    for (size_t i = 0; i < COUNT(empty); i++) {
        assert_false(same(empty[i], empty[i]));
        assert_false(same(empty[i], "0"));
    }
}

/* ---- any text ---- */

static void any_text_is_itself_and_the_order_of_the_two_is_nothing(void **state)
{
    static const char *const pieces[] = {
        "1",
        "2",
        "x",
        "i",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "\\{",
        "\\}",
        "\\frac",
        "\\sqrt",
        "^",
        "_",
        ",",
        "+",
        "-",
        "/",
        "=",
        "<",
        "\\le",
        "\\pm",
        "\\cup",
        "\\pi",
        "\\text{a}",
        "!",
        "%",
        "|",
        "\\sin ",
        "\\infty",
        "\\in",
        "\\\\",
        "&",
        ".5",
        ",\\!000",
        "10,000",
        "\\left",
        "\\right",
        "\\begin{pmatrix}",
        "\\end{pmatrix}",
        "word ",
        "^\\circ",
        "\u03c0",
        "\xff",
        "\\binom",
        "\\log_",
        "$",
    };
    const char *given = getenv("GP_SEED");
    struct gp_rng rng = {given ? strtoull(given, NULL, 10) : 1};

    (void)state;
    for (uint32_t round = 0; round < 60000; round++) {
        uint64_t seed = rng.state;
        char texts[2][200];
        char *blocks[2];
        size_t lengths[2];

        for (uint32_t t = 0; t < 2; t++) {
            size_t length = 0;
            for (uint32_t left = 1 + gp_rng_below(&rng, 10); left > 0; left--)
                length += (size_t)snprintf(texts[t] + length, sizeof texts[t] - length, "%s",
                                           pieces[gp_rng_below(&rng, COUNT(pieces))]);
            /* An exact block, so that reading past it is seen. */
            blocks[t] = gp_mem_alloc(length);
            assert_non_null(blocks[t]);
            memcpy(blocks[t], texts[t], length);
            lengths[t] = length;
        }
        bool forth = gp_answer_same(blocks[0], lengths[0], blocks[1], lengths[1]);
        bool back = gp_answer_same(blocks[1], lengths[1], blocks[0], lengths[0]);
        if (forth != back)
            fail_msg("GP_SEED=%llu: %s and %s depend on their order", (unsigned long long)seed,
                     texts[0], texts[1]);
        gp_mem_free(blocks[0]);
        gp_mem_free(blocks[1]);
    }
}

static void repeat(char *out, size_t room, const char *piece, uint32_t count)
{
    size_t length = 0;

    for (uint32_t i = 0; i < count; i++)
        length += (size_t)snprintf(out + length, room - length, "%s", piece);
}

static void texts_too_long_or_too_deep_are_compared_as_they_are(void **state)
{
    static const char *const openers[] = {"(",     "\\sqrt{", "\\frac{1}{", "-(", "\\{",
                                          "\\{1,", "|",       "\\sin(",     "{",  "x^{"};
    static char text[20000], other[sizeof text + 1];

    (void)state;
    for (size_t i = 0; i < COUNT(openers); i++) {
        for (uint32_t count = 1; count <= 2000; count *= 2) {
            repeat(text, sizeof text, openers[i], count);
            assert_true(same(text, text));
            snprintf(other, sizeof other, "%s2", text);
            assert_false(same(text, other));
        }
    }
    repeat(text, sizeof text, "1+", 4000);
    assert_true(same(text, text));
    assert_false(same(text, "4000"));
}

static void nest(char *out, size_t room, const char *inside, uint32_t depth)
{
    repeat(out, room, "\\{", depth);
    snprintf(out + (size_t)2 * depth, room - (size_t)2 * depth, "%s", inside);
    repeat(out + strlen(out), room - strlen(out), "\\}", depth);
}

static void sets_in_sets_take_no_time(void **state)
{
    static char a[400], b[400], other[400];

    (void)state;
    for (uint32_t depth = 1; depth <= 60; depth++) {
        nest(a, sizeof a, "1", depth);
        nest(b, sizeof b, "2/2", depth);
        nest(other, sizeof other, "2", depth);
        assert_true(same(a, a));
        assert_false(same(a, other));
        /* Deeper ones are not read as sets. */
        assert_true(same(a, b) == (depth <= 3));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_compared_exactly),
        cmocka_unit_test(fractions_and_mixed_numbers_are_values),
        cmocka_unit_test(thousands_marks_units_money_and_degrees_are_no_part_of_a_number),
        cmocka_unit_test(a_percent_is_its_share_and_its_number),
        cmocka_unit_test(radicals_are_values),
        cmocka_unit_test(constants_powers_and_functions_are_values),
        cmocka_unit_test(expressions_with_letters_are_compared_everywhere),
        cmocka_unit_test(complex_numbers_are_values),
        cmocka_unit_test(digits_are_of_their_base),
        cmocka_unit_test(tuples_are_ordered),
        cmocka_unit_test(intervals_have_ends_of_their_kind),
        cmocka_unit_test(sets_and_lists_have_no_order),
        cmocka_unit_test(matrices_are_compared_cell_by_cell),
        cmocka_unit_test(equations_are_the_same_when_they_say_the_same),
        cmocka_unit_test(words_are_compared_by_their_letters),
        cmocka_unit_test(nothing_is_no_answer),
        cmocka_unit_test(any_text_is_itself_and_the_order_of_the_two_is_nothing),
        cmocka_unit_test(texts_too_long_or_too_deep_are_compared_as_they_are),
        cmocka_unit_test(sets_in_sets_take_no_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
