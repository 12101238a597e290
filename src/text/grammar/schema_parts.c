/* Objects and arrays of a schema. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/grammar/schema_internal.h"
#include "text/utf8.h"

/* ---- names of members that are not declared ---- */

/* The character at byte `at` of a name; 0 behind its end. */
static uint32_t point_at(const char *name, size_t at, size_t *length)
{
    size_t left = strlen(name + at);

    *length = left ? (size_t)gp_utf8_scan((const unsigned char *)name + at, left) : 0;
    return left ? gp_utf8_decode((const unsigned char *)name + at, (int)*length) : 0;
}

/* Characters of a string that are not among `used`, which ascends, without escapes. */
static void other_characters(struct gp_builder *b, uint16_t from, const uint32_t *used,
                             uint32_t count, uint16_t to)
{
    static const struct {
        uint32_t low, high;
    } plain[] = {{0x20, 0x21}, {0x23, 0x5b}, {0x5d, 0x7f}, {0x80, 0xd7ff}, {0xe000, 0x10ffff}};
    bool ascii = count == 0 || used[count - 1] < 0x80;

    if (ascii)
        gp_build_call(b, from, gp_part_wide(b), to);
    for (size_t i = 0; i < (ascii ? 3 : sizeof plain / sizeof *plain); i++) {
        uint32_t low = plain[i].low;

        for (uint32_t k = 0; k < count; k++) {
            if (used[k] < low || used[k] > plain[i].high)
                continue;
            if (used[k] > low)
                gp_part_points(b, from, low, used[k] - 1, to);
            low = used[k] + 1;
        }
        if (low <= plain[i].high)
            gp_part_points(b, from, low, plain[i].high, to);
    }
}

/* The rest of a name that begins as these do and is none of them; names ascend and have their first
 * `at` bytes in common.  rest: any name's rest. */
static void other_name(struct gp_builder *b, uint16_t from, const char *const *names, size_t count,
                       size_t at, uint16_t rest, uint16_t to)
{
    uint32_t used[128], used_count = 0;
    bool ends = false;

    for (size_t i = 0, next; i < count && !b->rc; i = next) {
        size_t length;
        uint32_t point = point_at(names[i], at, &length);

        for (next = i + 1;
             next < count && strncmp(names[i] + at, names[next] + at, length) == 0 && length > 0;
             next++)
            ;
        if (length == 0) {
            ends = true;
            continue;
        }
        if (used_count == sizeof used / sizeof *used) {
            gp_build_fail(b, GP_EINVAL, "additionalProperties: too many names begin alike");
            return;
        }
        uint16_t below = gp_build_state(b);

        used[used_count++] = point;
        /* Such a character cannot be written without an escape, which these names do without. */
        if (point >= 0x20 && point != '"' && point != '\\')
            gp_part_points(b, from, point, point, below);
        other_name(b, below, names + i, next - i, at + length, rest, to);
    }
    other_characters(b, from, used, used_count, rest);
    if (!ends)
        gp_build_one_of(b, from, "\"", to);
}

/* ---- objects ---- */

struct object {
    struct gp_schemas *s;
    const struct gp_place *place;
    const json_t *properties, *required;
    const json_t *others; /* the schema of what is not declared; NULL: there is none */
    /* In the order in which they are written: what is declared, then what is required besides. */
    const char **names;
    size_t count;
    /* Where a member may begin, and where one has ended. */
    uint16_t member, ended;
};

static bool is_required(const struct object *o, const char *name)
{
    for (size_t i = 0; i < json_array_size(o->required); i++)
        if (strcmp(json_string_value(json_array_get(o->required, i)), name) == 0)
            return true;
    return false;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void check_name(struct object *o, const char *name)
{
    if (strlen(name) > GP_LIMIT_KEY_BYTES)
        gp_schema_refuse(o->s, o->place, "properties", "a name of more than 256 bytes");
}

static void list_names(struct object *o)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)o->properties, name, value)
    {
        check_name(o, name);
        o->names[o->count++] = name;
    }
    for (size_t i = 0; i < json_array_size(o->required); i++) {
        name = json_string_value(json_array_get(o->required, i));
        if (!name) {
            gp_schema_refuse(o->s, o->place, "required", "must be an array of strings");
            return;
        }
        check_name(o, name);
        bool known = json_object_get(o->properties, name);

        for (size_t k = 0; !known && k < o->count; k++)
            known = strcmp(o->names[k], name) == 0;
        if (!known)
            o->names[o->count++] = name;
    }
}

/* A member of this name from state to state. */
static void add_member(struct object *o, const char *name, uint16_t from, uint16_t to)
{
    const json_t *schema = json_object_get(o->properties, name);
    struct gp_place declared = gp_schema_below(o->place, "properties");
    struct gp_place below =
        gp_schema_below(schema ? &declared : o->place, schema ? name : "additionalProperties");
    struct gp_builder *b = o->s->b;
    uint16_t between = gp_build_state(b), value = gp_build_state(b);
    json_t *key = json_string(name);
    char *text = key ? json_dumps(key, JSON_ENCODE_ANY) : NULL;

    json_decref(key);
    if (!text) {
        gp_build_fail(b, GP_ENOMEM, "out of memory");
        return;
    }
    gp_build_text(b, from, text, between);
    free(text);
    gp_part_key_between(b, between, value);
    if (!schema)
        schema = o->others;
    if (schema)
        gp_schema_compile(o->s, schema, value, to, &below);
}

/* Any number of members that are not declared, behind those that are. */
static void add_others(struct object *o, const char **sorted, uint16_t from, uint16_t to)
{
    struct gp_place below = gp_schema_below(o->place, "additionalProperties");
    struct gp_builder *b = o->s->b;
    uint16_t inside = gp_build_state(b), rest = gp_build_state(b);
    uint16_t between = gp_build_state(b), value = gp_build_state(b);

    qsort(sorted, o->count, sizeof *sorted, compare_names);
    gp_build_one_of(b, from, "\"", inside);
    gp_part_plain(b, rest, rest);
    gp_build_one_of(b, rest, "\"", between);
    other_name(b, inside, sorted, o->count, 0, rest, between);
    gp_part_key_between(b, between, value);
    gp_schema_compile(o->s, o->others, value, to, &below);
}

/* A state behind a member: a comma and a blank lead to where the next begins. */
static uint16_t behind_member(struct gp_builder *b, uint16_t next)
{
    uint16_t state = gp_build_state(b), comma = gp_build_state(b);

    gp_build_one_of(b, state, ",", comma);
    gp_build_call(b, comma, gp_part_blank(b), next);
    return state;
}

/* Members in their order.  From begins[i] member i or a later one begins, past no required one;
 * behind member i a comma leads to begins[i + 1]. */
static void add_members(struct object *o, uint16_t first, uint16_t close)
{
    struct gp_builder *b = o->s->b;
    uint16_t last = gp_build_state(b), next = last, behind = 0;
    bool may_end = true;

    if (o->others) {
        behind = behind_member(b, last);
        add_others(o, o->names + o->count, last, behind);
        gp_build_empty(b, behind, close);
    }
    for (size_t i = o->count; i-- > 0 && !b->rc;) {
        uint16_t begin = gp_build_state(b);

        behind = i + 1 < o->count || o->others ? behind_member(b, next) : gp_build_state(b);
        if (may_end)
            gp_build_empty(b, behind, close);
        add_member(o, o->names[i], begin, behind);
        if (is_required(o, o->names[i]))
            may_end = false;
        else
            gp_build_empty(b, begin, next);
        next = begin;
    }
    gp_build_empty(b, first, next);
    if (may_end)
        gp_build_empty(b, first, close);
}

static void check_object(struct object *o, const json_t *others)
{
    if (o->properties && !json_is_object(o->properties))
        gp_schema_refuse(o->s, o->place, "properties", "must be an object");
    if (o->required && !json_is_array(o->required))
        gp_schema_refuse(o->s, o->place, "required", "must be an array of strings");
    if (others && !json_is_boolean(others) && !json_is_object(others))
        gp_schema_refuse(o->s, o->place, "additionalProperties", "must be a schema");
}

void gp_schema_object(struct gp_schemas *s, const json_t *schema, uint16_t from, uint16_t to,
                      const struct gp_place *place)
{
    struct object o = {.s = s, .place = place};
    const json_t *others = json_object_get(schema, "additionalProperties");
    uint16_t open = gp_build_state(s->b), first = gp_build_state(s->b);
    uint16_t close = gp_build_state(s->b), brace = gp_build_state(s->b);

    o.properties = json_object_get(schema, "properties");
    o.required = json_object_get(schema, "required");
    check_object(&o, others);
    if (s->b->rc)
        return;
    /* Where members are declared and nothing is said of others, there are none. */
    o.others = others                               ? (json_is_false(others) ? NULL : others)
               : json_object_size(o.properties) > 0 ? NULL
                                                    : json_true();
    size_t most = json_object_size(o.properties) + json_array_size(o.required);

    if (most > GP_LIMIT_MEMBERS) {
        gp_schema_refuse(s, place, "properties", "more than 2048 names");
        return;
    }
    o.names = gp_mem_alloc_array(2 * most + 1, sizeof *o.names);
    if (!o.names) {
        gp_build_fail(s->b, GP_ENOMEM, "out of memory");
        return;
    }
    list_names(&o);
    memcpy(o.names + o.count, o.names, o.count * sizeof *o.names);
    gp_build_one_of(s->b, from, "{", open);
    gp_build_call(s->b, open, gp_part_blank(s->b), first);
    if (!s->b->rc)
        add_members(&o, first, close);
    gp_build_call(s->b, close, gp_part_blank(s->b), brace);
    gp_build_one_of(s->b, brace, "}", to);
    gp_mem_free(o.names);
}

/* ---- arrays ---- */

struct array {
    struct gp_schemas *s;
    const struct gp_place *place;
    const json_t *prefix;
    size_t prefix_count;
    uint16_t rest; /* the part that an item behind the prefix is; 0: there is none */
    uint32_t min, max;
    bool bounded;
};

static void add_item(struct array *a, uint32_t i, uint16_t from, uint16_t to)
{
    struct gp_place below = gp_schema_below(a->place, "prefixItems");

    if (i < a->prefix_count)
        gp_schema_compile(a->s, json_array_get(a->prefix, i), from, to, &below);
    else
        gp_build_call(a->s->b, from, a->rest, to);
}

/* From behind the opening bracket to before the closing one, blanks aside. */
static void add_items(struct array *a, uint16_t from, uint16_t close)
{
    struct gp_builder *b = a->s->b;
    uint32_t counted = a->prefix_count > a->min ? (uint32_t)a->prefix_count : a->min;
    bool loops = a->rest && !a->bounded;

    if (!a->rest)
        counted = (uint32_t)a->prefix_count;
    if (a->bounded && (a->rest || counted > a->max))
        counted = a->max;
    if (counted < a->min)
        return; /* nothing is that long */
    for (uint32_t i = 0; i <= counted && !b->rc; i++) {
        uint16_t behind, begin = from;

        if (i >= a->min)
            gp_build_empty(b, from, close);
        if (i == counted && !loops)
            return;
        if (i > 0) {
            uint16_t comma = gp_build_state(b);

            begin = gp_build_state(b);
            gp_build_one_of(b, from, ",", comma);
            gp_build_call(b, comma, gp_part_blank(b), begin);
        }
        behind = i == counted && i > 0 ? from : gp_build_state(b);
        add_item(a, i, begin, behind);
        from = behind;
    }
    /* The first item of an array without any that are counted: more of them follow it. */
    if (counted == 0 && loops) {
        uint16_t comma = gp_build_state(b), begin = gp_build_state(b);

        gp_build_empty(b, from, close);
        gp_build_one_of(b, from, ",", comma);
        gp_build_call(b, comma, gp_part_blank(b), begin);
        add_item(a, 0, begin, from);
    }
}

/* The part that items behind the prefix are. */
static uint16_t rest_part(struct array *a, const json_t *items)
{
    struct gp_place below = gp_schema_below(a->place, "items");
    uint16_t part;

    if (json_is_false(items) || (!items && a->prefix && a->min <= a->prefix_count))
        return 0;
    if (!items)
        return gp_part_value(a->s->b);
    part = gp_build_state(a->s->b);
    gp_schema_compile(a->s, items, part, gp_build_end(a->s->b), &below);
    return part;
}

void gp_schema_array(struct gp_schemas *s, const json_t *schema, uint16_t from, uint16_t to,
                     const struct gp_place *place)
{
    struct array a = {.s = s, .place = place, .prefix = json_object_get(schema, "prefixItems")};
    struct gp_builder *b = s->b;
    uint16_t open = gp_build_state(b), first = gp_build_state(b);
    uint16_t close = gp_build_state(b), bracket = gp_build_state(b);

    if (a.prefix && !json_is_array(a.prefix))
        gp_schema_refuse(s, place, "prefixItems", "must be an array of schemas");
    if (json_is_array(json_object_get(schema, "items")))
        gp_schema_refuse(s, place, "items", "must be a schema; prefixItems is for several");
    a.prefix_count = json_array_size(a.prefix);
    a.min = gp_schema_count(s, schema, "minItems", 0, place);
    a.max = gp_schema_count(s, schema, "maxItems", 0, place);
    a.bounded = json_object_get(schema, "maxItems");
    if (b->rc)
        return;
    a.rest = rest_part(&a, json_object_get(schema, "items"));
    gp_build_one_of(b, from, "[", open);
    gp_build_call(b, open, gp_part_blank(b), first);
    add_items(&a, first, close);
    gp_build_call(b, close, gp_part_blank(b), bracket);
    gp_build_one_of(b, bracket, "]", to);
}
