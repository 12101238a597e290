/* Thoughts and answers come apart the same way however the text is cut into pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/thought.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const struct {
    bool opened;
    const char *text, *reasoning, *content;
} cases[] = {
    {false, "plain words", "", "plain words"},
    {false, "<think>\nwhy\n</think>\n\nso", "why", "so"},
    {false, "\n <think>why</think>so", "why", "so"},
    {true, "why\n</think>\n\nso", "why", "so"},
    {true, "\n\nwhy\n\n\nthen</think>so", "why\n\n\nthen", "so"},
    {false, "<think>a < b </ c</thin</think>d", "a < b </ c</thin", "d"},
    {false, "<think></think>only", "", "only"},
    {false, "<think>\n\n</think>\n\nonly", "", "only"},
    {false, "<thin air", "", "<thin air"},
    {false, "  <thin", "", "  <thin"},
    {false, "say <think> aloud", "", "say <think> aloud"},
    {false, "<think>one</think>two<think>three</think>", "one", "two<think>three</think>"},
    {true, "cut before its end", "cut before its end", ""},
    {true, "a tag that has begun</thi", "a tag that has begun", ""},
    {true, "less<", "less<", ""},
    {true, "one line\n", "one line\n", ""},
    {true, "<</think>x", "<", "x"},
    {true, "</</think>x", "</", "x"},
    {true, "</think>", "", ""},
    {false, "", "", ""},
    {true, "", "", ""},
    {false, " \n\t ", "", " \n\t "},
    {false, "                         <think>late</think>x", "",
     "                         <think>late</think>x"},
    {true, "\xc3\xa9\n\xf0\x9f\x98\x80</think>\xc3\xa9", "\xc3\xa9\n\xf0\x9f\x98\x80", "\xc3\xa9"},
};

static void check(const struct gp_buffer *out, const char *expected)
{
    assert_int_equal(out->length, strlen(expected));
    assert_memory_equal(out->length > 0 ? out->bytes : "", expected, out->length);
}

static void texts_come_apart_whatever_the_pieces(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t piece = 1; piece <= 20; piece++) {
            struct gp_buffer reasoning = {0}, content = {0};
            size_t length = strlen(cases[i].text);
            struct gp_thought thought;

            gp_thought_init(&thought, cases[i].opened);
            for (size_t at = 0; at < length; at += piece)
                gp_thought_feed(&thought, cases[i].text + at,
                                length - at < piece ? length - at : piece, &reasoning, &content);
            gp_thought_end(&thought, &reasoning, &content);
            check(&reasoning, cases[i].reasoning);
            check(&content, cases[i].content);
            gp_buffer_free(&reasoning);
            gp_buffer_free(&content);
        }
}

/* What is out so far is a beginning of what will be out: nothing is taken back. */
static void no_part_of_a_tag_is_ever_out(void **state)
{
    const char *text = "<think>a</b</think>\n\nc";
    struct gp_buffer reasoning = {0}, content = {0};
    struct gp_thought thought;

    (void)state;
    gp_thought_init(&thought, false);
    for (size_t i = 0; i < strlen(text); i++) {
        gp_thought_feed(&thought, text + i, 1, &reasoning, &content);
        assert_true(reasoning.length <= 4 &&
                    memcmp("a</b", reasoning.length ? reasoning.bytes : "", reasoning.length) == 0);
        assert_true(content.length <= 1);
    }
    gp_buffer_free(&reasoning);
    gp_buffer_free(&content);
}

static void prompts_that_open_a_thought_are_known(void **state)
{
    static const struct {
        const char *prompt;
        bool opened;
    } prompts[] = {
        {"<|assistant|><think>\n", true},
        {"<think>", true},
        {"<think> x", false},
        {"", false},
        {"<think>\n\n</think>\n\n", false},
        {"think>", false},
        {"x<think>\n\n  \t", true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(prompts); i++)
        assert_int_equal(gp_thought_opened(prompts[i].prompt, strlen(prompts[i].prompt)),
                         prompts[i].opened);
    assert_true(gp_thought_opened("x\0y<think>", 10) && !gp_thought_closed("x\0y<think>", 10));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_come_apart_whatever_the_pieces),
        cmocka_unit_test(no_part_of_a_tag_is_ever_out),
        cmocka_unit_test(prompts_that_open_a_thought_are_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
