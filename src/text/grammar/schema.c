/* JSON Schema, by keyword.
 *
 * What is allowed here is allowed by the schema, never the other way round: where a schema leaves
 * something open that no grammar needs (the order of members, members that it does not name, blanks
 * without end) the grammar chooses.  A keyword that is not known is refused, so that none is
 * ignored that would have changed the meaning. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/grammar/schema_internal.h"

static const struct keyword {
    const char *name;
    unsigned types; /* it says something about these; 0: nothing about values */
} keywords[] = {
    {"$ref", GP_JSON_ALL},
    {"allOf", GP_JSON_ALL},
    {"anyOf", GP_JSON_ALL},
    {"oneOf", GP_JSON_ALL},
    {"const", GP_JSON_ALL},
    {"enum", GP_JSON_ALL},
    {"type", GP_JSON_ALL},
    {"properties", GP_JSON_OBJECT},
    {"required", GP_JSON_OBJECT},
    {"additionalProperties", GP_JSON_OBJECT},
    {"items", GP_JSON_ARRAY},
    {"prefixItems", GP_JSON_ARRAY},
    {"minItems", GP_JSON_ARRAY},
    {"maxItems", GP_JSON_ARRAY},
    {"uniqueItems", GP_JSON_ARRAY},
    {"minLength", GP_JSON_STRING},
    {"maxLength", GP_JSON_STRING},
    {"pattern", GP_JSON_STRING},
    {"format", GP_JSON_STRING},
    {"minimum", GP_JSON_NUMBER},
    {"maximum", GP_JSON_NUMBER},
    {"exclusiveMinimum", GP_JSON_NUMBER},
    {"exclusiveMaximum", GP_JSON_NUMBER},
    {"$comment", 0},
    {"$defs", 0},
    {"$id", 0},
    {"$schema", 0},
    {"contentEncoding", 0},
    {"contentMediaType", 0},
    {"default", 0},
    {"definitions", 0},
    {"deprecated", 0},
    {"description", 0},
    {"discriminator", 0},
    {"example", 0},
    {"examples", 0},
    {"readOnly", 0},
    {"title", 0},
    {"writeOnly", 0},
};

#define KEYWORDS (sizeof keywords / sizeof *keywords)

static const struct keyword *find_keyword(const char *name)
{
    for (size_t i = 0; i < KEYWORDS; i++)
        if (strcmp(keywords[i].name, name) == 0)
            return &keywords[i];
    return NULL;
}

/* ---- refusals ---- */

static void describe(const struct gp_place *place, struct gp_error *path)
{
    char before[sizeof path->message];

    if (!place || !place->parent)
        return;
    describe(place->parent, path);
    memcpy(before, path->message, sizeof before);
    gp_error_set(path, "%s%s%.60s", before, before[0] ? "." : "", place->name);
}

void gp_schema_refuse(struct gp_schemas *s, const struct gp_place *place, const char *keyword,
                      const char *why)
{
    struct gp_error path = {""};

    describe(place, &path);
    gp_build_fail(s->b, GP_EINVAL, "%.200s%s%.60s%s%s", path.message, path.message[0] ? ": " : "",
                  keyword ? keyword : "", keyword ? ": " : "", why);
}

struct gp_place gp_schema_below(const struct gp_place *place, const char *name)
{
    return (struct gp_place){.parent = place, .name = name, .depth = place->depth + 1};
}

uint32_t gp_schema_count(struct gp_schemas *s, const json_t *schema, const char *keyword,
                         uint32_t otherwise, const struct gp_place *place)
{
    const json_t *field = json_object_get(schema, keyword);
    json_int_t value = json_integer_value(field);

    if (!field)
        return otherwise;
    if (json_is_integer(field) && value >= 0 && value <= GP_LIMIT_GRAMMAR_STATES)
        return (uint32_t)value;
    gp_schema_refuse(s, place, keyword, "must be a whole number from 0 to 65535");
    return 0;
}

/* ---- types ---- */

static unsigned type_named(const json_t *name)
{
    static const struct {
        const char *name;
        unsigned bit;
    } names[] = {
        {"null", GP_JSON_NULL},       {"boolean", GP_JSON_BOOLEAN},
        {"object", GP_JSON_OBJECT},   {"array", GP_JSON_ARRAY},
        {"integer", GP_JSON_INTEGER}, {"number", GP_JSON_NUMBER | GP_JSON_INTEGER},
        {"string", GP_JSON_STRING},
    };

    for (size_t i = 0; json_is_string(name) && i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, json_string_value(name)) == 0)
            return names[i].bit;
    return 0;
}

unsigned gp_schema_types(const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type");
    unsigned types = 0;

    if (!type)
        return GP_JSON_ALL;
    if (!json_is_array(type))
        return type_named(type);
    for (size_t i = 0; i < json_array_size(type); i++) {
        unsigned one = type_named(json_array_get(type, i));

        if (!one)
            return 0;
        types |= one;
    }
    return types;
}

unsigned gp_json_type(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return GP_JSON_OBJECT;
    case JSON_ARRAY:
        return GP_JSON_ARRAY;
    case JSON_STRING:
        return GP_JSON_STRING;
    case JSON_INTEGER:
        return GP_JSON_INTEGER;
    case JSON_REAL:
        return trunc(json_real_value(value)) == json_real_value(value) ? GP_JSON_INTEGER
                                                                       : GP_JSON_NUMBER;
    case JSON_TRUE:
    case JSON_FALSE:
        return GP_JSON_BOOLEAN;
    case JSON_NULL:
        break;
    }
    return GP_JSON_NULL;
}

/* ---- references ---- */

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
}

/* One step of a pointer in a URI, without its escapes: ~0 ~1 and %XX. */
static size_t read_step(const char *at, char out[GP_LIMIT_KEY_BYTES + 1])
{
    size_t read = 0, length = 0;

    while (at[read] && at[read] != '/' && length < GP_LIMIT_KEY_BYTES) {
        char c = at[read++];

        if (c == '%' && hex_value(at[read]) >= 0 && hex_value(at[read + 1]) >= 0) {
            c = (char)(hex_value(at[read]) * 16 + hex_value(at[read + 1]));
            read += 2;
        }
        if (c == '~' && (at[read] == '0' || at[read] == '1'))
            c = at[read++] == '0' ? '~' : '/';
        out[length++] = c;
    }
    out[length] = '\0';
    return read;
}

const json_t *gp_schema_find(const struct gp_schemas *s, const char *ref)
{
    const json_t *at = s->root;

    if (*ref++ != '#')
        return NULL;
    while (*ref == '/' && at) {
        char step[GP_LIMIT_KEY_BYTES + 1];

        ref += 1 + read_step(ref + 1, step);
        at = json_is_array(at) ? json_array_get(at, strtoul(step, NULL, 10))
                               : json_object_get(at, step);
    }
    return *ref ? NULL : at;
}

static void refer(struct gp_schemas *s, const json_t *ref, uint16_t from, uint16_t to,
                  const struct gp_place *place)
{
    const json_t *schema = json_is_string(ref) ? gp_schema_find(s, json_string_value(ref)) : NULL;
    uint32_t i = 0;

    if (!schema) {
        gp_schema_refuse(s, place, "$ref",
                         "names nothing in this schema (only its own parts can be referred to)");
        return;
    }
    while (i < s->ref_count && s->refs[i].schema != schema)
        i++;
    if (i == GP_LIMIT_SCHEMA_REFS) {
        gp_schema_refuse(s, place, "$ref", "more than 512 schemas are referred to");
        return;
    }
    if (i == s->ref_count)
        s->refs[s->ref_count++] = (struct gp_schema_ref){schema, gp_build_state(s->b)};
    gp_build_call(s->b, from, s->refs[i].part, to);
}

/* ---- values that are listed ---- */

/* As short as it can be and still be the value. */
static char *value_text(const json_t *value)
{
    for (size_t digits = 15;; digits++) {
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS |
                                           JSON_REAL_PRECISION(digits));
        json_t *back = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
        bool same = json_equal(value, back);

        json_decref(back);
        if (!text || same || digits == 17)
            return text;
        free(text);
    }
}

static void list_value(struct gp_schemas *s, const json_t *value, uint16_t root, uint16_t to)
{
    char *text = value_text(value);

    if (!text) {
        gp_build_fail(s->b, GP_ENOMEM, "out of memory");
        return;
    }
    gp_build_empty(s->b, gp_build_spell(s->b, root, text, strlen(text)), to);
    free(text);
}

static void list_values(struct gp_schemas *s, const json_t *schema, uint16_t from, uint16_t to,
                        const struct gp_place *place)
{
    const json_t *value = json_object_get(schema, "const"), *all = json_object_get(schema, "enum");
    unsigned types = gp_schema_types(schema);
    uint16_t root = gp_build_state(s->b);

    if (!value && (!json_is_array(all) || json_array_size(all) == 0)) {
        gp_schema_refuse(s, place, "enum", "must be an array of at least one value");
        return;
    }
    gp_build_empty(s->b, from, root);
    if (value && (gp_json_type(value) & types))
        list_value(s, value, root, to);
    for (size_t i = 0; !value && i < json_array_size(all) && !s->b->rc; i++)
        if (gp_json_type(json_array_get(all, i)) & types)
            list_value(s, json_array_get(all, i), root, to);
}

/* ---- one schema ---- */

/* Whether a keyword can be passed over: it says nothing, or what it says is always so. */
static bool is_idle(const struct keyword *keyword, const json_t *value)
{
    return keyword->types == 0 ||
           (json_is_false(value) && strcmp(keyword->name, "uniqueItems") == 0);
}

/* Every keyword is known; those that a schema has about types come back. */
static unsigned check_keywords(struct gp_schemas *s, const json_t *schema,
                               const struct gp_place *place)
{
    unsigned about = 0;
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)schema, name, value)
    {
        const struct keyword *keyword = find_keyword(name);

        if (!keyword && strncmp(name, "x-", 2) == 0)
            continue;
        if (!keyword || (strcmp(name, "uniqueItems") == 0 && !json_is_false(value)))
            gp_schema_refuse(s, place, name, "this keyword is not available here");
        else if (!is_idle(keyword, value) && keyword->types != GP_JSON_ALL)
            about |= keyword->types;
    }
    return about;
}

/* That nothing which says something stands beside `keyword`, but perhaps `and`. */
static void check_alone(struct gp_schemas *s, const json_t *schema, const char *keyword,
                        const char *and, const struct gp_place *place)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)schema, name, value)
    {
        const struct keyword *other = find_keyword(name);

        if (other && !is_idle(other, value) && strcmp(name, keyword) != 0 &&
            strcmp(name, and) != 0 && strcmp(name, "format") != 0)
            gp_schema_refuse(s, place, keyword, "not available beside other keywords");
    }
}

static void alternatives(struct gp_schemas *s, const json_t *list, const char *keyword,
                         uint16_t from, uint16_t to, const struct gp_place *place)
{
    bool one = strcmp(keyword, "oneOf") == 0, all = strcmp(keyword, "allOf") == 0;
    size_t count = json_array_size(list);

    if (!json_is_array(list) || count == 0) {
        gp_schema_refuse(s, place, keyword, "must be an array of at least one schema");
        return;
    }
    if (all && count > 1)
        gp_schema_refuse(s, place, keyword, "only one schema is available here");
    for (size_t i = 0; i < count && !s->b->rc; i++) {
        struct gp_place below = gp_schema_below(place, keyword);

        for (size_t k = 0; one && k < i; k++)
            if (!gp_schema_apart(s, json_array_get(list, k), json_array_get(list, i), 0)) {
                gp_schema_refuse(s, place, keyword,
                                 "two of its schemas may have values in common; use anyOf, or give "
                                 "each a required property with a const of its own");
                return;
            }
        gp_schema_compile(s, json_array_get(list, i), from, to, &below);
    }
}

static void by_type(struct gp_schemas *s, const json_t *schema, unsigned types, uint16_t from,
                    uint16_t to, const struct gp_place *place)
{
    if (types == GP_JSON_ALL) {
        gp_build_call(s->b, from, gp_part_value(s->b), to);
        return;
    }
    if (types & GP_JSON_NULL)
        gp_build_text(s->b, from, "null", to);
    if (types & GP_JSON_BOOLEAN) {
        gp_build_text(s->b, from, "true", to);
        gp_build_text(s->b, from, "false", to);
    }
    if (types & (GP_JSON_NUMBER | GP_JSON_INTEGER))
        gp_schema_number(s, schema, types & GP_JSON_NUMBER, from, to, place);
    if (types & GP_JSON_STRING)
        gp_schema_string(s, schema, from, to, place);
    if (types & GP_JSON_OBJECT)
        gp_schema_object(s, schema, from, to, place);
    if (types & GP_JSON_ARRAY)
        gp_schema_array(s, schema, from, to, place);
}

static void of_keywords(struct gp_schemas *s, const json_t *schema, uint16_t from, uint16_t to,
                        const struct gp_place *place)
{
    static const char *const lists[] = {"allOf", "anyOf", "oneOf"};
    unsigned about = check_keywords(s, schema, place), types = gp_schema_types(schema);

    if (types == 0)
        gp_schema_refuse(s, place, "type", "must be the name of a type, or an array of names");
    if (s->b->rc)
        return;
    if (json_object_get(schema, "$ref")) {
        check_alone(s, schema, "$ref", "$ref", place);
        refer(s, json_object_get(schema, "$ref"), from, to, place);
        return;
    }
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (json_object_get(schema, lists[i])) {
            check_alone(s, schema, lists[i], lists[i], place);
            alternatives(s, json_object_get(schema, lists[i]), lists[i], from, to, place);
            return;
        }
    if (json_object_get(schema, "const") || json_object_get(schema, "enum")) {
        const char *keyword = json_object_get(schema, "const") ? "const" : "enum";

        check_alone(s, schema, keyword, "type", place);
        list_values(s, schema, from, to, place);
        return;
    }
    /* Without a type, the types that the keywords are about are those that are meant. */
    if (!json_object_get(schema, "type") && about)
        types = about & GP_JSON_NUMBER ? about | GP_JSON_INTEGER : about;
    by_type(s, schema, types, from, to, place);
}

void gp_schema_compile(struct gp_schemas *s, const json_t *schema, uint16_t from, uint16_t to,
                       const struct gp_place *place)
{
    if (s->b->rc || json_is_false(schema))
        return;
    if (place->depth > GP_LIMIT_SCHEMA_DEPTH)
        gp_schema_refuse(s, place, NULL, "schemas nested deeper than 64");
    else if (json_is_true(schema))
        gp_build_call(s->b, from, gp_part_value(s->b), to);
    else if (json_is_object(schema))
        of_keywords(s, schema, from, to, place);
    else
        gp_schema_refuse(s, place, NULL, "a schema must be an object or a boolean");
}

/* Whether a part can be entered from its own beginning without a byte in between. */
static bool leads_back(const struct gp_builder *b, uint16_t part, uint16_t *waiting, bool *seen)
{
    uint32_t count = 0;

    memset(seen, 0, b->state_count * sizeof *seen);
    waiting[count++] = part;
    while (count > 0) {
        uint16_t at = waiting[--count];

        for (uint32_t i = b->states[at].first; i; i = b->edges[i].next) {
            const struct gp_draft_edge *edge = &b->edges[i];
            uint16_t to = edge->kind == GP_EDGE_CALL ? edge->call : edge->to;

            if (edge->kind == GP_EDGE_BYTES || seen[to])
                continue;
            if (to == part)
                return true;
            seen[to] = true;
            waiting[count++] = to;
        }
    }
    return false;
}

/* Schemas that refer to themselves with nothing between say nothing, and validators never end on
 * them.  (A document is never empty, so that what stands behind a call is behind a byte.) */
static void check_refs(struct gp_schemas *s, const struct gp_place *place)
{
    uint16_t *waiting = gp_mem_alloc_array(s->b->state_count, sizeof *waiting);
    bool *seen = gp_mem_alloc_array(s->b->state_count, sizeof *seen);

    if (!waiting || !seen)
        gp_build_fail(s->b, GP_ENOMEM, "out of memory");
    for (uint32_t i = 0; i < s->ref_count && !s->b->rc; i++)
        if (leads_back(s->b, s->refs[i].part, waiting, seen))
            gp_schema_refuse(s, place, "$ref",
                             "a schema that refers to itself with nothing between");
    gp_mem_free(waiting);
    gp_mem_free(seen);
}

void gp_schema_build(struct gp_builder *b, uint16_t from, const json_t *root, uint16_t to)
{
    struct gp_schemas *s = gp_mem_alloc(sizeof *s);
    const struct gp_place place = {0};

    if (!s) {
        gp_build_fail(b, GP_ENOMEM, "out of memory");
        return;
    }
    s->b = b;
    s->root = root;
    gp_schema_compile(s, root, from, to, &place);
    /* More may be referred to on the way. */
    for (uint32_t i = 0; i < s->ref_count && !b->rc; i++) {
        const struct gp_place below = gp_schema_below(&place, "$ref");

        gp_schema_compile(s, s->refs[i].schema, s->refs[i].part, gp_build_end(b), &below);
    }
    check_refs(s, &place);
    gp_mem_free(s);
}
