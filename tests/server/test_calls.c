/* Tool calls in texts, however the texts are cut. */
#include "server/calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"

static uint64_t seed_of_run(void)
{
    const char *text = getenv("GP_SEED");

    return text ? strtoull(text, NULL, 10) : 1;
}

/* What a text comes to: its content, then each call as "|name:arguments". */
static char *parse(const char *text, enum gp_call_style style, bool single, struct gp_rng *cuts)
{
    struct gp_buffer content = {0};
    struct gp_calls calls;
    size_t length = strlen(text);

    gp_calls_init(&calls, style, single);
    for (size_t at = 0; at < length;) {
        size_t piece = cuts ? 1 + gp_rng_below(cuts, 9) : length;

        if (piece > length - at)
            piece = length - at;
        gp_calls_feed(&calls, text + at, piece, &content);
        at += piece;
    }
    gp_calls_end(&calls, &content);
    assert_false(calls.failed);
    for (uint32_t i = 0; i < calls.count; i++) {
        gp_buffer_print(&content, "|%s:", calls.items[i].name);
        gp_buffer_add(&content, calls.items[i].arguments.bytes, calls.items[i].arguments.length);
        assert_int_equal(strncmp(calls.items[i].id, "call_", 5), 0);
    }
    char *out = gp_mem_copy(content.bytes ? content.bytes : "", content.length);

    gp_buffer_free(&content);
    gp_calls_free(&calls);
    return out;
}

#define OPEN  "<tool_call>"
#define CLOSE "</tool_call>"

static const struct {
    enum gp_call_style style;
    const char *text, *want;
} cases[] = {
    {GP_CALLS_HERMES, "", ""},
    {GP_CALLS_HERMES, "plain < text <tool_ca and <tool_call",
     "plain < text <tool_ca and <tool_call"},
    {GP_CALLS_HERMES, "blanks  \n", "blanks  \n"},
    {GP_CALLS_HERMES,
     OPEN "\n{\"name\": \"f\", \"arguments\": {\"a\": [1, {\"b\": \"}\"}]}}\n" CLOSE,
     "|f:{\"a\": [1, {\"b\": \"}\"}]}"},
    {GP_CALLS_HERMES, "So.\n\n" OPEN "{\"name\":\"f\",\"arguments\":{}}" CLOSE "\n", "So.|f:{}"},
    {GP_CALLS_HERMES,
     OPEN "{\"name\":\"f\",\"arguments\":{}}" CLOSE "\n" OPEN
          "{\"arguments\": {\"x\": \"\\\"\\\\\"}, \"name\": \"g\"}" CLOSE,
     "|f:{}|g:{\"x\": \"\\\"\\\\\"}"},
    {GP_CALLS_HERMES, OPEN "{\"name\":\"f\"}" CLOSE " and then", " and then|f:{}"},
    {GP_CALLS_HERMES, OPEN "{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 1}\"}" CLOSE,
     "|f:{\"a\": 1}"},
    {GP_CALLS_HERMES, OPEN "{\"id\": 5, \"name\":\"f\",\"arguments\":{\"a\":1}}" CLOSE,
     "|f:{\"a\":1}"},
    {GP_CALLS_HERMES, OPEN "{\"name\":\"f\\u0061\",\"parameters\":{\"a\":1}}" CLOSE,
     "|fa:{\"a\":1}"},
    /* What is no call is text. */
    {GP_CALLS_HERMES, "a " OPEN " is a tag", "a " OPEN " is a tag"},
    {GP_CALLS_HERMES, OPEN "{\"name\": 5, \"arguments\": {}}" CLOSE,
     OPEN "{\"name\": 5, \"arguments\": {}}" CLOSE},
    {GP_CALLS_HERMES, OPEN "{}" CLOSE, OPEN "{}" CLOSE},
    {GP_CALLS_HERMES, OPEN "{\"arguments\": {\"a\": 1}}" CLOSE,
     OPEN "{\"arguments\": {\"a\": 1}}" CLOSE},
    {GP_CALLS_HERMES, OPEN "{\"na", OPEN "{\"na"},
    {GP_CALLS_HERMES, OPEN "{\"name\": \"f\", ]", OPEN "{\"name\": \"f\", ]"},
    /* A call that was cut while it was told. */
    {GP_CALLS_HERMES, OPEN "{\"name\": \"f\", \"arguments\": {\"a\": \"x", "|f:{\"a\": \"x"},
    {GP_CALLS_HERMES, OPEN "{\"name\":\"f\",\"arguments\":{}}" CLOSE "\n<tool_", "|f:{}"},
    {GP_CALLS_LLAMA, "{\"name\": \"f\", \"parameters\": {\"a\": 1}}", "|f:{\"a\": 1}"},
    {GP_CALLS_LLAMA, " \n{\"type\":\"function\",\"name\":\"f\",\"parameters\":{}}", "|f:{}"},
    {GP_CALLS_LLAMA,
     "{\"name\":\"f\",\"parameters\":{}}; {\"name\":\"g\",\"parameters\":{\"x\":null}} done",
     "|f:{}|g:{\"x\":null}"},
    {GP_CALLS_LLAMA, "{\"answer\": 5}", "{\"answer\": 5}"},
    {GP_CALLS_LLAMA, "{\"name\": \"Bob\"}", "{\"name\": \"Bob\"}"},
    {GP_CALLS_LLAMA, "{\"name\": \"Bob\", \"age\": 3}", "{\"name\": \"Bob\", \"age\": 3}"},
    {GP_CALLS_LLAMA, "Text {\"name\":\"f\",\"parameters\":{}}",
     "Text {\"name\":\"f\",\"parameters\":{}}"},
    {GP_CALLS_LLAMA, " \n", " \n"},
};

static void test_texts_and_calls_come_apart_however_they_are_cut(void **state)
{
    struct gp_rng rng = {seed_of_run()};
    uint64_t live = gp_mem_live();

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (unsigned round = 0; round < 40; round++) {
            char *got = parse(cases[i].text, cases[i].style, false, round ? &rng : NULL);

            assert_string_equal(got, cases[i].want);
            gp_mem_free(got);
        }
    assert_int_equal(gp_mem_live(), live);
}

static void test_a_single_call_is_the_first(void **state)
{
    char *got = parse("Hm " OPEN "{\"name\":\"f\",\"arguments\":{}}" CLOSE OPEN
                      "{\"name\":\"g\",\"arguments\":{}}" CLOSE " end",
                      GP_CALLS_HERMES, true, NULL);

    (void)state;
    assert_string_equal(got, "Hm|f:{}");
    gp_mem_free(got);
}

/* Pieces of calls in any order: cut anywhere, they come to the same, and nothing breaks. */
static void test_any_text_is_the_same_in_pieces(void **state)
{
    static const char *const parts[] = {OPEN,       CLOSE,
                                        "{",        "}",
                                        "\"name\"", "\"arguments\"",
                                        ":",        ",",
                                        "\"",       "[",
                                        "]",        " ",
                                        "\\",       "1",
                                        "\"f\"",    "<",
                                        "\n",       "x",
                                        ";",        "\"parameters\""};
    struct gp_rng rng = {seed_of_run()};
    uint64_t live = gp_mem_live();

    (void)state;
    for (unsigned round = 0; round < 20000; round++) {
        char text[512] = "";
        size_t length = 0;
        enum gp_call_style style = 1 + gp_rng_below(&rng, 2);
        bool single = gp_rng_below(&rng, 2);

        for (unsigned i = gp_rng_below(&rng, 20); i > 0; i--) {
            const char *part = parts[gp_rng_below(&rng, sizeof parts / sizeof *parts)];

            memcpy(text + length, part, strlen(part) + 1);
            length += strlen(part);
        }
        char *whole = parse(text, style, single, NULL), *cut = parse(text, style, single, &rng);

        assert_string_equal(whole, cut);
        gp_mem_free(whole);
        gp_mem_free(cut);
    }
    assert_int_equal(gp_mem_live(), live);
}

static void test_styles_are_found_in_templates(void **state)
{
    (void)state;
    assert_int_equal(gp_call_style_of(NULL), GP_CALLS_NONE);
    assert_int_equal(gp_call_style_of("{{ messages }}"), GP_CALLS_NONE);
    assert_int_equal(gp_call_style_of("<tool_call><function=f>"), GP_CALLS_NONE);
    assert_int_equal(gp_call_style_of("<tool_call> {\"name\": n, \"arguments\": a}"),
                     GP_CALLS_HERMES);
    assert_int_equal(
        gp_call_style_of("{\"name\": function name, \"parameters\": dictionary of argument name"),
        GP_CALLS_LLAMA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_and_calls_come_apart_however_they_are_cut),
        cmocka_unit_test(test_a_single_call_is_the_first),
        cmocka_unit_test(test_any_text_is_the_same_in_pieces),
        cmocka_unit_test(test_styles_are_found_in_templates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
