#include "eval/livecode.h"

#include <string.h>

#include "base/mem.h"
#include "eval/outputs.h"
#include "eval/unpack.h"

/* The tests of one problem; the largest that are published are some hundred MiB. */
#define UNPACKED_MAX (1u << 30)

/* ---- what is asked ---- */

/* Headings and order are those that the benchmark asks chat models with. */
static const char opening[] =
    "Write a Python 3 program that solves the following problem and passes all of its tests.\n\n"
    "### Question:\n";
static const char whole[] =
    "\n\n### Format: Read the input from standard input and write the answer to standard output, "
    "without testing the examples. Put the whole program into one block of code, like this:\n"
    "```python\n# the program\n```\n\n### Answer:\n";
static const char completed[] =
    "\n\n### Format: Complete the following code. Put all of it, with what you add, into one block "
    "of code, like this:\n```python\n";
static const char completed_end[] = "\n```\n\n### Answer:\n";

static const char *field(const json_t *problem, const char *name, struct gp_error *err)
{
    const char *text = json_string_value(json_object_get(problem, name));

    if (!text)
        gp_error_set(err, "no %s", name);
    return text;
}

int gp_livecode_prompt(const json_t *problem, char **out, struct gp_error *err)
{
    const char *question = field(problem, "question_content", err);
    const char *starter = question ? field(problem, "starter_code", err) : NULL;

    if (!starter)
        return GP_ECORRUPT;
    const char *parts[] = {opening, question, *starter ? completed : whole, starter,
                           *starter ? completed_end : ""};
    size_t length = 0, at = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        length += strlen(parts[i]);
    char *text = gp_mem_alloc(length + 1);
    if (!text)
        return gp_fail(err, GP_ENOMEM, "out of memory");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        memcpy(text + at, parts[i], strlen(parts[i]));
        at += strlen(parts[i]);
    }
    *out = text;
    return GP_OK;
}

/* ---- tests ---- */

/* An array written as JSON, perhaps packed; NULL and err, with *rc. */
static json_t *read_cases(const json_t *problem, const char *name, int *rc, struct gp_error *err)
{
    const json_t *packed = json_object_get(problem, name);
    const char *text = json_string_value(packed);
    size_t length = json_string_length(packed);
    char *unpacked = NULL;
    json_error_t why;

    *rc = GP_ECORRUPT;
    if (!text) {
        gp_error_set(err, "no %s", name);
        return NULL;
    }
    if (text[strspn(text, " \t\r\n")] != '[') {
        *rc = gp_unpack(text, length, UNPACKED_MAX, &unpacked, &length, err);
        if (*rc) {
            gp_error_prefix(err, "%s", name);
            return NULL;
        }
        text = unpacked;
    }
    json_t *cases = json_loadb(text, length, JSON_ALLOW_NUL, &why);
    gp_mem_free(unpacked);
    if (json_is_array(cases)) {
        *rc = GP_OK;
        return cases;
    }
    *rc = GP_ECORRUPT;
    gp_error_set(err, "%s: %s", name, cases ? "no array" : why.text);
    json_decref(cases);
    return NULL;
}

/* NULL, without an error: there is none. */
static int read_function(const json_t *problem, char **out, struct gp_error *err)
{
    const json_t *metadata = json_object_get(problem, "metadata");
    json_error_t why;

    if (!json_is_string(metadata))
        return gp_fail(err, GP_ECORRUPT, "no metadata");
    json_t *object = json_loadb(json_string_value(metadata), json_string_length(metadata), 0, &why);
    if (!json_is_object(object)) {
        gp_error_set(err, "metadata: %s", object ? "no object" : why.text);
        json_decref(object);
        return GP_ECORRUPT;
    }
    const char *name = json_string_value(json_object_get(object, "func_name"));
    *out = name ? gp_mem_copy(name, strlen(name)) : NULL;
    int rc = name && !*out ? gp_fail(err, GP_ENOMEM, "out of memory") : GP_OK;
    json_decref(object);
    return rc;
}

/* Whether each line is JSON. */
static bool are_values(const char *text, size_t length)
{
    while (length > 0 && text[length - 1] == '\n')
        length--;
    for (;;) {
        const char *end = length > 0 ? memchr(text, '\n', length) : NULL;
        size_t line = end ? (size_t)(end - text) : length;
        json_error_t why;
        json_t *value = gp_value_read(text, line, &why);

        json_decref(value);
        if (!value || !end)
            return value;
        text = end + 1;
        length -= line + 1;
    }
}

/* What the test is wrong in; NULL: nothing. */
static const char *fault(const json_t *test, bool functional)
{
    const json_t *input = json_object_get(test, "input"), *output = json_object_get(test, "output");
    const char *type = json_string_value(json_object_get(test, "testtype"));
    json_error_t why;

    if (!json_is_string(input))
        return "no input";
    if (!json_is_string(output))
        return "no output";
    if (!type || (strcmp(type, "stdin") != 0 && strcmp(type, "functional") != 0))
        return "testtype is neither stdin nor functional";
    if (!functional != (strcmp(type, "stdin") == 0))
        return functional ? "testtype is stdin, but metadata has a func_name"
                          : "testtype is functional, but metadata has no func_name";
    if (!functional)
        return NULL;
    if (!are_values(json_string_value(input), json_string_length(input)))
        return "input is not JSON";
    json_t *value = gp_value_read(json_string_value(output), json_string_length(output), &why);
    json_decref(value);
    return value ? NULL : "output is not JSON";
}

static int check(const struct gp_livecode *tests, struct gp_error *err)
{
    json_t *test;
    size_t i;

    if (json_array_size(tests->cases) == 0)
        return gp_fail(err, GP_ECORRUPT, "no tests");
    json_array_foreach(tests->cases, i, test)
    {
        const char *what = fault(test, tests->function);
        if (what)
            return gp_fail(err, GP_ECORRUPT, "test %zu: %s", i + 1, what);
    }
    return GP_OK;
}

int gp_livecode_read(const json_t *problem, struct gp_livecode *out, struct gp_error *err)
{
    struct gp_livecode tests = {NULL, NULL};
    int rc = read_function(problem, &tests.function, err);

    if (rc)
        return rc;
    tests.cases = read_cases(problem, "public_test_cases", &rc, err);
    json_t *hidden = rc ? NULL : read_cases(problem, "private_test_cases", &rc, err);
    if (!rc && json_array_extend(tests.cases, hidden))
        rc = gp_fail(err, GP_ENOMEM, "out of memory");
    json_decref(hidden);
    if (!rc)
        rc = check(&tests, err);
    if (rc)
        gp_livecode_free(&tests);
    else
        *out = tests;
    return rc;
}

void gp_livecode_free(struct gp_livecode *tests)
{
    json_decref(tests->cases);
    gp_mem_free(tests->function);
    *tests = (struct gp_livecode){NULL, NULL};
}
