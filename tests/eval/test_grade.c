/* The answer is what the last complete box holds, or the last number, or the last block of code. */
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
#include "eval/grade.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const struct {
    const char *text, *boxed; /* NULL: none */
} cases[] = {
    {"", NULL},
    {"the answer is 12", NULL},
    {"\\boxed{12}", "12"},
    {"<think>\\boxed{1}</think>\\boxed{2}.", "2"},
    {"\\boxed{}", ""},
    {"\\boxed{ 12 }", " 12 "},
    {"\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"},
    {"\\boxed{a{b{c}d}e} and {f}", "a{b{c}d}e"},
    {"\\boxed{\\boxed{5}}", "5"},
    {"\\boxed{1} \\boxed{2", "1"},
    {"\\boxed{1} \\boxed{2 {3}", "1"},
    {"\\boxed{12", NULL},
    {"\\boxed{", NULL},
    {"\\boxed", NULL},
    {"boxed{12}", NULL},
    {"\\boxed {12}", NULL},
    {"\\Boxed{12}", NULL},
    {"}}}\\boxed{1}}}}", "1"},
    {"{{{\\boxed{1}", "1"},
    {"{\\boxed{1}}", "1"},
    {"\\boxed}1}", NULL},
    {"\\boxed{line\nline}", "line\nline"},
};

static void the_last_complete_box_counts(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *text = cases[i].text, *right = cases[i].boxed;
        size_t length;
        const char *boxed = gp_grade_boxed(text, strlen(text), &length);

        if (!boxed != !right)
            fail_msg("%s: %s", text, boxed ? "found something" : "found nothing");
        if (boxed && (length != strlen(right) || memcmp(boxed, right, length) != 0))
            fail_msg("%s: found \"%.*s\"", text, (int)length, boxed);
    }
}

/* The definition: the last place where the word's brace can be followed to its partner. */
static const char *definition(const char *text, size_t length, size_t *boxed_length)
{
    for (size_t at = length; at-- > 0;) {
        size_t depth = 1, end = at + 7;

        if (at + 7 > length || memcmp(text + at, "\\boxed{", 7) != 0)
            continue;
        for (; end < length && depth > 0; end++)
            depth += text[end] == '{' ? 1u : 0, depth -= text[end] == '}' ? 1u : 0;
        if (depth > 0)
            continue;
        *boxed_length = end - 1 - (at + 7);
        return text + at + 7;
    }
    return NULL;
}

static void random_texts_are_read_as_the_definition_says(void **state)
{
    static const char *const pieces[] = {"\\boxed{", "{", "}", "}", "1", "\\boxed", "\\", "x"};
    const char *given = getenv("GP_SEED");
    struct gp_rng rng = {given ? strtoull(given, NULL, 10) : 1};

    (void)state;
    for (uint32_t round = 0; round < 100000; round++) {
        uint64_t seed = rng.state;
        char text[256];
        size_t length = 0, found_length = 0, right_length = 0;

        for (uint32_t left = gp_rng_below(&rng, 20); left > 0; left--)
            length += (size_t)snprintf(text + length, sizeof text - length, "%s",
                                       pieces[gp_rng_below(&rng, COUNT(pieces))]);
        /* An exact block, so that reading past it is seen. */
        char *block = gp_mem_alloc(length);
        assert_non_null(block);
        memcpy(block, text, length);
        const char *found = gp_grade_boxed(block, length, &found_length);
        const char *right = definition(block, length, &right_length);
        if (found != right || found_length != right_length)
            fail_msg("GP_SEED=%llu: %.*s", (unsigned long long)seed, (int)length, text);
        gp_mem_free(block);
    }
}

static void a_long_text_of_open_boxes_takes_no_time(void **state)
{
    enum {
        BOXES = 1000000
    };
    char *text = gp_mem_alloc(BOXES * 7);
    size_t length;

    (void)state;
    assert_non_null(text);
    for (size_t i = 0; i < BOXES; i++)
        memcpy(text + i * 7, "\\boxed{", 7);
    assert_null(gp_grade_boxed(text, BOXES * 7, &length));
    text[BOXES * 7 - 1] = '}';
    assert_non_null(gp_grade_boxed(text, BOXES * 7, &length));
    assert_int_equal(length, 6);
    gp_mem_free(text);
}

static const struct {
    const char *text, *number; /* NULL: none */
} numbers[] = {
    {"", NULL},
    {"no number", NULL},
    {"7", "7"},
    {"so 3 and 14 dollars.", "14"},
    {"#### 1,234.", "1,234"},
    {"it is -3.5!", "-3.5"},
    {"x = -7", "-7"},
    {"-7", "-7"},
    {"3-7", "7"},
    {"page-7", "7"},
    {"1, 2, 3", "3"},
    {"a,5", "5"},
    {"$.50 each", ".50"},
    {"**18**", "18"},
};

static void the_last_number_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(numbers); i++) {
        /* An exact block, so that reading past it is seen. */
        const char *right = numbers[i].number;
        size_t length = strlen(numbers[i].text), found_length = 0;
        char *text = gp_mem_alloc(length);
        assert_non_null(text);
        memcpy(text, numbers[i].text, length);
        const char *found = gp_grade_last_number(text, length, &found_length);
        if (!found != !right ||
            (found && (found_length != strlen(right) || memcmp(found, right, found_length) != 0)))
            fail_msg("%s: the wrong number", numbers[i].text);
        gp_mem_free(text);
    }
}

static const struct {
    const char *text, *program; /* NULL: none */
} blocks[] = {
    {"", NULL},
    {"no code", NULL},
    {"```", NULL},
    {"``` a ```", NULL},
    {"```python\nprint(1)\n", NULL},
    {"```python\nprint(1)\n```", "print(1)\n"},
    {"so:\n```python\nprint(1)\n```\nIt is done.", "print(1)\n"},
    {"```\na\n```\nor\n```\nb\nc\n```\n", "b\nc\n"},
    {"```\n```", ""},
    {"  ```python\n  a\n  ```", "  a\n"},
    {"I write ``` first.\n```python\na\n```", "a\n"},
    {"```python\na\n```\n```python\ncut off", "" /* as the benchmark has it */},
    {"x```y\nz\n````", "z\n"},
};

static void the_last_block_of_code_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(blocks); i++) {
        /* An exact block, so that reading past it is seen. */
        const char *right = blocks[i].program;
        size_t length = strlen(blocks[i].text), found_length = 0;
        char *text = gp_mem_alloc(length);
        assert_non_null(text);
        memcpy(text, blocks[i].text, length);
        const char *found = gp_grade_program(text, length, &found_length);
        if (!found != !right ||
            (found && (found_length != strlen(right) || memcmp(found, right, found_length) != 0)))
            fail_msg("%s: the wrong block", blocks[i].text);
        gp_mem_free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_complete_box_counts),
        cmocka_unit_test(random_texts_are_read_as_the_definition_says),
        cmocka_unit_test(the_last_number_is_found),
        cmocka_unit_test(the_last_block_of_code_is_found),
        cmocka_unit_test(a_long_text_of_open_boxes_takes_no_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
