#include "eval/rows.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

#define KEY_BYTES  128u
#define TEXT_BYTES 512u

json_t *gp_json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *gp_json_spread(struct gp_values *values)
{
    struct gp_spread s;

    gp_spread_of(values, &s);
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "mean", gp_json_number(s.mean), "p50",
                     gp_json_number(s.p50), "p90", gp_json_number(s.p90), "p99",
                     gp_json_number(s.p99), "max", gp_json_number(s.max));
}

static int fail_output(struct gp_error *err)
{
    return gp_fail(err, GP_EIO, "standard output: %s", strerror(errno));
}

/* ---- flat ---- */

/* A value in an object, or in an object within. */
struct cell {
    char key[KEY_BYTES];
    const json_t *value;
};

/* Each value of object in turn that is no array; false ends it. */
static bool walk(const char *prefix, json_t *object, bool (*visit)(void *, const struct cell *),
                 void *ctx)
{
    const char *key;
    json_t *value;

    json_object_foreach(object, key, value)
    {
        struct cell cell = {.value = value};

        snprintf(cell.key, sizeof cell.key, "%s%s%s", prefix, *prefix ? "." : "", key);
        if (json_is_array(value))
            continue;
        if (json_is_object(value) ? !walk(cell.key, value, visit, ctx) : !visit(ctx, &cell))
            return false;
    }
    return true;
}

/* ---- CSV ---- */

static bool put(const char *text)
{
    return fputs(text, stdout) >= 0;
}

static bool put_key(void *ctx, const struct cell *cell)
{
    bool *first = ctx;
    bool good = (*first || put(",")) && put(cell->key);

    *first = false;
    return good;
}

static void spell(const json_t *value, char out[TEXT_BYTES])
{
    switch (json_typeof(value)) {
    case JSON_STRING:
        snprintf(out, TEXT_BYTES, "%s", json_string_value(value));
        return;
    case JSON_INTEGER:
        snprintf(out, TEXT_BYTES, "%lld", (long long)json_integer_value(value));
        return;
    case JSON_REAL:
        snprintf(out, TEXT_BYTES, "%.6f", json_real_value(value));
        return;
    case JSON_TRUE:
    case JSON_FALSE:
        snprintf(out, TEXT_BYTES, "%d", json_is_true(value));
        return;
    default:
        out[0] = 0;
    }
}

/* In quotes, as llama-bench does it; quotes within are doubled. */
static bool put_value(void *ctx, const struct cell *cell)
{
    const char *text = json_string_value(cell->value);
    char spelled[TEXT_BYTES];
    bool *first = ctx, good = *first || put(",");

    *first = false;
    if (!text) {
        spell(cell->value, spelled);
        text = spelled;
    }
    good = good && putchar('"') != EOF;
    for (const char *at = text; good && *at; at++)
        good = (*at != '"' || putchar('"') != EOF) && putchar((unsigned char)*at) != EOF;
    return good && putchar('"') != EOF;
}

static bool put_csv(const struct gp_rows *rows, json_t *object)
{
    bool first = true;

    if (rows->count == 0 && !(walk("", object, put_key, &first) && put("\n")))
        return false;
    first = true;
    return walk("", object, put_value, &first) && put("\n");
}

/* ---- JSON ---- */

static bool put_json(const struct gp_rows *rows, const char *text)
{
    if (rows->format == GP_FORMAT_JSONL)
        return put(text) && put("\n");
    return put(rows->count == 0 ? "[\n" : ",\n") && put(text);
}

int gp_rows_add(struct gp_rows *rows, json_t *object, struct gp_error *err)
{
    char *text = NULL;
    bool good;

    gp_assert(rows->format != GP_FORMAT_MD);
    if (object && rows->format != GP_FORMAT_CSV)
        /* Seven digits: a float keeps its shortest form, and no time deserves more. */
        text = json_dumps(object, JSON_REAL_PRECISION(7) |
                                      (rows->format == GP_FORMAT_JSON ? JSON_INDENT(2) : 0));
    if (!object || (rows->format != GP_FORMAT_CSV && !text)) {
        json_decref(object);
        return gp_fail(err, GP_ENOMEM, "result: out of memory");
    }
    good = text ? put_json(rows, text) : put_csv(rows, object);
    free(text);
    json_decref(object);
    if (!good || fflush(stdout))
        return fail_output(err);
    rows->count++;
    return GP_OK;
}

int gp_rows_end(struct gp_rows *rows, struct gp_error *err)
{
    if (rows->format == GP_FORMAT_JSON && !put(rows->count > 0 ? "\n]\n" : "[]\n"))
        return fail_output(err);
    return fflush(stdout) ? fail_output(err) : GP_OK;
}

/* ---- Markdown ---- */

/* Four digits, which is more than a time deserves. */
static void spell_short(const json_t *value, char out[TEXT_BYTES])
{
    double real = json_real_value(value), size = fabs(real);

    if (json_is_null(value))
        snprintf(out, TEXT_BYTES, "-");
    else if (json_is_real(value))
        snprintf(out, TEXT_BYTES, "%.*f",
                 size >= 1000  ? 0
                 : size >= 100 ? 1
                 : size >= 10  ? 2
                 : size >= 1   ? 3
                               : 4,
                 real);
    else
        spell(value, out);
}

struct table {
    json_t *const *objects;
    uint32_t count;
    int key_width;
    int widths[64];
};

/* The value that another object has where cell is in the first; NULL if there is none. */
static const json_t *find(const json_t *object, const char *key)
{
    const char *dot = strchr(key, '.');
    char outer[KEY_BYTES];

    if (!dot)
        return json_object_get(object, key);
    snprintf(outer, sizeof outer, "%.*s", (int)(dot - key), key);
    return find(json_object_get(object, outer), dot + 1);
}

static void spell_cell(const struct table *table, uint32_t column, const char *key,
                       char out[TEXT_BYTES])
{
    const json_t *value = find(table->objects[column], key);

    gp_assert(value);
    spell_short(value, out);
}

static bool measure_cell(void *ctx, const struct cell *cell)
{
    struct table *table = ctx;
    char text[TEXT_BYTES];

    if ((int)strlen(cell->key) > table->key_width)
        table->key_width = (int)strlen(cell->key);
    for (uint32_t i = 0; i < table->count; i++) {
        spell_cell(table, i, cell->key, text);
        if ((int)strlen(text) > table->widths[i])
            table->widths[i] = (int)strlen(text);
    }
    return true;
}

static bool print_line(void *ctx, const struct cell *cell)
{
    const struct table *table = ctx;
    char text[TEXT_BYTES];
    bool good = printf("| %-*s |", table->key_width, cell->key) >= 0;

    for (uint32_t i = 0; good && i < table->count; i++) {
        spell_cell(table, i, cell->key, text);
        good = printf(" %*s |", table->widths[i], text) >= 0;
    }
    return good && put("\n");
}

static bool print_head(const struct table *table, const char (*names)[64])
{
    static const char dashes[] = "----------------------------------------------------------------";
    bool good = printf("| %-*s |", table->key_width, "") >= 0;

    for (uint32_t i = 0; good && i < table->count; i++)
        good = printf(" %*s |", table->widths[i], names[i]) >= 0;
    good = good && printf("\n|:%.*s |", table->key_width, dashes) >= 0;
    for (uint32_t i = 0; good && i < table->count; i++)
        good = printf(" %.*s:|", table->widths[i], dashes) >= 0;
    return good && put("\n");
}

int gp_rows_print(json_t *const *objects, const char (*names)[64], uint32_t count,
                  struct gp_error *err)
{
    struct table table = {.objects = objects, .count = count};

    gp_assert(count <= sizeof table.widths / sizeof *table.widths);
    if (count == 0)
        return GP_OK;
    for (uint32_t i = 0; i < count; i++)
        table.widths[i] = (int)strlen(names[i]);
    walk("", objects[0], measure_cell, &table);
    if (!print_head(&table, names) || !walk("", objects[0], print_line, &table) || fflush(stdout))
        return fail_output(err);
    return GP_OK;
}
