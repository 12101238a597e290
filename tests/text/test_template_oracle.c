/* Renders against jinja2's own (tests/oracle/templates/README.md). */
#include "text/template/template.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FOLDER "tests/oracle/templates/"
#define NOW    1767243661 /* templates.py's time */

static json_t *load(const char *name)
{
    json_error_t error;
    char path[256];

    snprintf(path, sizeof path, FOLDER "%s.json", name);
    json_t *json = json_load_file(path, JSON_ALLOW_NUL, &error);
    if (!json)
        fail_msg("%s: %s", path, error.text);
    return json;
}

static char *read_template(const char *name, size_t *length)
{
    char path[256];

    snprintf(path, sizeof path, FOLDER "%s.jinja", name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = malloc(1 << 20);
    assert_non_null(text);
    *length = fread(text, 1, 1 << 20, file);
    fclose(file);
    return text;
}

static struct gp_template_input make_input(const json_t *given)
{
    return (struct gp_template_input){
        .messages = json_object_get(given, "messages"),
        .tools = json_object_get(given, "tools"),
        .variables = json_object_get(given, "variables"),
        .bos_token = json_string_value(json_object_get(given, "bos_token")),
        .eos_token = json_string_value(json_object_get(given, "eos_token")),
        .add_generation_prompt = json_is_true(json_object_get(given, "add_generation_prompt")),
        .now = NOW,
    };
}

static void check_spans(const struct gp_prompt *p)
{
    size_t at = 0;

    for (uint32_t i = 0; i < p->span_count; i++) {
        assert_ptr_equal(p->spans[i].bytes, p->text + at);
        assert_true(p->spans[i].length > 0);
        at += p->spans[i].length;
    }
    assert_int_equal(at, p->length);
}

/* False and a message when the render is not what jinja2 gives. */
static bool same(const struct gp_template *t, const struct gp_template_input *input,
                 const json_t *wanted, const char *what, json_int_t number)
{
    struct gp_error err = {0};
    struct gp_prompt p;
    int status = gp_template_render(t, input, &p, &err);

    if (status != GP_OK) {
        assert_int_equal(status, GP_EINVAL);
        assert_non_null(strstr(err.message, "template: line "));
        if (!json_is_null(wanted))
            print_error("%s, conversation %lld: %s\n", what, (long long)number, err.message);
        return json_is_null(wanted);
    }
    bool ok = json_is_string(wanted) && p.length == json_string_length(wanted) &&
              memcmp(p.text, json_string_value(wanted), p.length) == 0;
    if (!ok)
        print_error("%s, conversation %lld: got\n%s\nwanted\n%s\n", what, (long long)number, p.text,
                    json_is_null(wanted) ? "(an error)" : json_string_value(wanted));
    check_spans(&p);
    gp_prompt_free(&p);
    return ok;
}

/* Opens the template of a row of expected.json; NULL when it is refused, which only a template
 * outside the families may be, and by name. */
static struct gp_template *open_row(const json_t *row)
{
    const char *name = json_string_value(json_object_get(row, "template"));
    struct gp_template *t = NULL;
    struct gp_error err = {0};
    size_t length;
    char *source = read_template(name, &length);
    int status = gp_template_open(&t, source, length, &err);

    free(source);
    if (status == GP_OK)
        return t;
    assert_non_null(strstr(err.message, "template: line "));
    if (json_is_true(json_object_get(row, "family")))
        fail_msg("%s: %s", name, err.message);
    return NULL;
}

static void check_rows(bool family)
{
    json_t *pool = load("conversations"), *rows = load("expected"), *row, *pair;
    size_t i, k, wrong = 0, rendered = 0, refused = 0;

    json_array_foreach(rows, i, row)
    {
        if (json_is_true(json_object_get(row, "family")) != family)
            continue;
        struct gp_template *t = open_row(row);
        refused += t == NULL;
        json_array_foreach(json_object_get(row, "renders"), k, pair)
        {
            json_int_t number = json_integer_value(json_array_get(pair, 0));
            struct gp_template_input input = make_input(json_array_get(pool, (size_t)number));
            if (!t)
                break;
            rendered++;
            wrong += !same(t, &input, json_array_get(pair, 1),
                           json_string_value(json_object_get(row, "template")), number);
        }
        gp_template_close(t);
    }
    json_decref(pool);
    json_decref(rows);
    assert_int_equal(wrong, 0);
    assert_true(rendered >= (family ? 300 : 340));
    assert_true(refused <= (family ? 0 : 3));
}

static void templates_of_the_families_render_as_jinja2_does(void **state)
{
    (void)state;
    check_rows(true);
}

static void other_templates_render_as_jinja2_does_or_are_refused(void **state)
{
    (void)state;
    check_rows(false);
}

static void language_features_are_jinja2s(void **state)
{
    json_t *features = load("features"), *pair;
    const json_t *variables = json_array_get(json_array_get(features, 0), 1);
    json_t *messages = json_array();
    size_t i, wrong = 0;

    (void)state;
    json_array_foreach(features, i, pair)
    {
        const json_t *source = json_array_get(pair, 0), *wanted = json_array_get(pair, 1);
        const struct gp_template_input input = {.messages = messages,
                                                .variables = variables,
                                                .bos_token = "<s>",
                                                .eos_token = "</s>",
                                                .now = NOW};
        struct gp_template *t;
        struct gp_error err = {0};
        if (i == 0)
            continue;
        if (gp_template_open(&t, json_string_value(source), json_string_length(source), &err)) {
            if (!json_is_null(wanted))
                print_error("%s: %s\n", json_string_value(source), err.message);
            wrong += !json_is_null(wanted);
            continue;
        }
        wrong += !same(t, &input, wanted, json_string_value(source), (json_int_t)i);
        gp_template_close(t);
    }
    assert_true(json_array_size(features) > 700);
    json_decref(messages);
    json_decref(features);
    assert_int_equal(wrong, 0);
}

static int nothing_is_left(void **state)
{
    (void)state;
    return gp_mem_live() != 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(templates_of_the_families_render_as_jinja2_does, nothing_is_left),
        cmocka_unit_test_teardown(other_templates_render_as_jinja2_does_or_are_refused,
                                  nothing_is_left),
        cmocka_unit_test_teardown(language_features_are_jinja2s, nothing_is_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
