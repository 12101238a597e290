/* Whether two schemas have no value in common, as oneOf needs it: told from types, listed values
 * and members, and "no" whenever that does not decide it. */
#include <string.h>

#include "text/grammar/schema_internal.h"

#define DEPTH_MAX 16u
#define LOOKS_MAX 100000u /* of one document; schemas refer to each other in any number of ways */

static bool same_value(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    return json_equal(a, b);
}

static size_t value_count(const json_t *schema)
{
    return json_object_get(schema, "const") ? 1 : json_array_size(json_object_get(schema, "enum"));
}

static const json_t *value_at(const json_t *schema, size_t i)
{
    const json_t *one = json_object_get(schema, "const");

    return one ? one : json_array_get(json_object_get(schema, "enum"), i);
}

static unsigned types_of(const json_t *schema)
{
    unsigned types = 0;

    for (size_t i = 0; i < value_count(schema); i++)
        types |= gp_json_type(value_at(schema, i));
    return types ? types & gp_schema_types(schema) : gp_schema_types(schema);
}

static bool values_apart(struct gp_schemas *s, const json_t *a, const json_t *b)
{
    uint64_t looks = (uint64_t)value_count(a) * value_count(b);

    if (looks == 0 || looks > LOOKS_MAX - s->looks)
        return false;
    s->looks += (uint32_t)looks;
    for (size_t i = 0; i < value_count(a); i++)
        for (size_t k = 0; k < value_count(b); k++)
            if (same_value(value_at(a, i), value_at(b, k)))
                return false;
    return true;
}

/* A member that a requires and b cannot have. */
static bool member_apart(struct gp_schemas *s, const json_t *a, const json_t *b, uint32_t depth)
{
    const json_t *required = json_object_get(a, "required");

    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *name = json_string_value(json_array_get(required, i));
        const json_t *of_a, *of_b;

        if (!name)
            return false;
        of_a = json_object_get(json_object_get(a, "properties"), name);
        of_b = json_object_get(json_object_get(b, "properties"), name);
        if (!of_b && json_is_false(json_object_get(b, "additionalProperties")))
            return true;
        if (of_a && of_b && gp_schema_apart(s, of_a, of_b, depth + 1))
            return true;
    }
    return false;
}

/* Follow references; NULL: they do not end here. */
static const json_t *resolve(const struct gp_schemas *s, const json_t *schema)
{
    for (unsigned hops = 0; hops < DEPTH_MAX; hops++) {
        const json_t *ref = json_object_get(schema, "$ref");

        if (!ref)
            return schema;
        schema = json_is_string(ref) ? gp_schema_find(s, json_string_value(ref)) : NULL;
    }
    return NULL;
}

/* Each of a list of alternatives is apart from b; false when a is no such list. */
static bool each_apart(struct gp_schemas *s, const json_t *a, const json_t *b, uint32_t depth)
{
    const json_t *list = json_object_get(a, "anyOf");

    if (!list)
        list = json_object_get(a, "oneOf");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!gp_schema_apart(s, json_array_get(list, i), b, depth + 1))
            return false;
    return json_array_size(list) > 0;
}

bool gp_schema_apart(struct gp_schemas *s, const json_t *a, const json_t *b, uint32_t depth)
{
    a = resolve(s, a);
    b = resolve(s, b);
    if (!json_is_object(a) || !json_is_object(b) || depth > DEPTH_MAX || s->looks >= LOOKS_MAX)
        return false;
    s->looks++;
    if (each_apart(s, a, b, depth) || each_apart(s, b, a, depth))
        return true;
    if ((types_of(a) & types_of(b)) == 0 || values_apart(s, a, b))
        return true;
    return types_of(a) == GP_JSON_OBJECT && types_of(b) == GP_JSON_OBJECT &&
           (member_apart(s, a, b, depth) || member_apart(s, b, a, depth));
}
