#include "server/fields.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "server/limits.h"

/* ---- the body ---- */

/* jansson recurses for each bracket and allocates for each value; a body of nothing but these must
 * not get that far. */
static int scan(const char *body, size_t length, struct gp_refusal *r)
{
    uint32_t depth = 0, values = 1;
    bool in_string = false;

    for (size_t i = 0; i < length; i++) {
        char c = body[i];

        if (in_string && c == '\\')
            i++;
        else if (c == '"')
            in_string = !in_string;
        else if (in_string)
            continue;
        else if ((c == '[' || c == '{') && ++depth > GP_LIMIT_JSON_DEPTH)
            return gp_refuse(r, 400, NULL, "body: JSON nested deeper than %u", GP_LIMIT_JSON_DEPTH);
        else if ((c == ']' || c == '}') && depth > 0)
            depth--;
        else if (c == ',' && ++values > GP_LIMIT_JSON_VALUES)
            return gp_refuse(r, 400, NULL, "body: JSON of more than %u values",
                             GP_LIMIT_JSON_VALUES);
    }
    return GP_OK;
}

/* The field of a string that holds a NUL and may not: NULL when there is none. */
static const char *find_nul(const json_t *value, const char *name)
{
    static const char *const texts[] = {"prompt", "content", "text", "reasoning_content",
                                        "reasoning"};
    const char *found = NULL, *key;
    json_t *item;
    size_t i;

    if (json_is_string(value)) {
        if (!memchr(json_string_value(value), 0, json_string_length(value)))
            return NULL;
        for (i = 0; i < sizeof texts / sizeof *texts; i++)
            if (strcmp(name, texts[i]) == 0)
                return NULL;
        return name;
    }
    json_array_foreach(value, i, item) if (!found) found = find_nul(item, name);
    json_object_foreach((json_t *)value, key, item) if (!found) found = find_nul(item, key);
    return found;
}

int gp_body_parse(const char *body, size_t length, json_t **out, struct gp_refusal *r)
{
    json_error_t error;

    if (length == 0)
        return gp_refuse(r, 400, NULL, "body: empty; one JSON object is expected");
    if (scan(body, length, r))
        return GP_EINVAL;
    json_t *root = json_loadb(body, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);

    if (!root)
        return gp_refuse(r, 400, NULL, "body: not JSON: line %d, column %d: %s", error.line,
                         error.column, error.text);
    if (!json_is_object(root)) {
        json_decref(root);
        return gp_refuse(r, 400, NULL, "body: not a JSON object");
    }
    /* Models write NULs, and clients send them back; names and words end at one. */
    const char *name = memmem(body, length, "\\u0000", 6) ? find_nul(root, "") : NULL;

    if (name) {
        (void)gp_refuse(r, 400, NULL, "body: %.60s: a NUL in what is no text", name);
        json_decref(root);
        return GP_EINVAL;
    }
    *out = root;
    return GP_OK;
}

/* ---- fields ---- */

json_t *gp_field(const json_t *object, const char *name)
{
    json_t *field = json_object_get(object, name);

    return field && !json_is_null(field) ? field : NULL;
}

int gp_field_bool(const json_t *object, const char *name, bool *out, struct gp_refusal *r)
{
    const json_t *field = gp_field(object, name);

    if (!field)
        return GP_OK;
    if (!json_is_boolean(field))
        return gp_refuse(r, 400, name, "%s: must be true or false", name);
    *out = json_is_true(field);
    return GP_OK;
}

int gp_field_int(const json_t *object, const char *name, int64_t min, int64_t max, int64_t *out,
                 struct gp_refusal *r)
{
    const json_t *field = gp_field(object, name);

    if (!field)
        return GP_OK;
    json_int_t value = json_integer_value(field);

    if (!json_is_integer(field) || value < min || value > max)
        return gp_refuse(r, 400, name, "%s: must be a whole number from %lld to %lld", name,
                         (long long)min, (long long)max);
    *out = value;
    return GP_OK;
}

int gp_field_uint(const json_t *object, const char *name, uint32_t min, uint32_t max, uint32_t *out,
                  struct gp_refusal *r)
{
    int64_t value = *out;
    int rc = gp_field_int(object, name, min, max, &value, r);

    if (!rc && gp_field(object, name))
        *out = (uint32_t)value;
    return rc;
}

int gp_field_double(const json_t *object, const char *name, double min, double max, bool min_open,
                    double *out, struct gp_refusal *r)
{
    const json_t *field = gp_field(object, name);

    if (!field)
        return GP_OK;
    double value = json_number_value(field);

    /* Written so that a NaN fails. */
    if (!json_is_number(field) || !(min_open ? value > min : value >= min) || !(value <= max))
        return gp_refuse(r, 400, name, "%s: must be a number %s %g and at most %g", name,
                         min_open ? "above" : "of at least", min, max);
    *out = value;
    return GP_OK;
}

int gp_field_float(const json_t *object, const char *name, double min, double max, bool min_open,
                   float *out, struct gp_refusal *r)
{
    double value = (double)*out;
    int rc = gp_field_double(object, name, min, max, min_open, &value, r);

    if (rc || !gp_field(object, name))
        return rc;
    /* An open bound must still be open after rounding. */
    if (min_open && !((double)(float)value > min))
        return gp_refuse(r, 400, name, "%s: must be a number above %g", name, min);
    *out = (float)value;
    return GP_OK;
}

int gp_field_word(const json_t *object, const char *name, const char *words, int *out,
                  struct gp_refusal *r)
{
    const json_t *field = gp_field(object, name);

    if (!field)
        return GP_OK;
    const char *value = json_string_value(field), *at = words;
    size_t length = value ? strlen(value) : 0;

    for (int place = 0; value; place++) {
        size_t word = strcspn(at, "|");

        if (word == length && memcmp(at, value, length) == 0) {
            *out = place;
            return GP_OK;
        }
        if (!at[word])
            break;
        at += word + 1;
    }
    return gp_refuse(r, 400, name, "%s: must be one of %s", name, words);
}

int gp_field_ids(const json_t *array, const char *name, uint32_t vocab, uint32_t max, int32_t **ids,
                 uint32_t *count, struct gp_refusal *r)
{
    size_t length = json_array_size(array);

    if (!json_is_array(array))
        return gp_refuse(r, 400, name, "%s: must be an array of token ids", name);
    if (length > max)
        return gp_refuse(r, 400, name, "%s: %zu ids; at most %u", name, length, max);
    int32_t *made = gp_mem_alloc_array(length, sizeof *made);

    if (!made)
        return gp_refuse(r, 500, name, "%s: out of memory", name);
    for (size_t i = 0; i < length; i++) {
        const json_t *item = json_array_get(array, i);
        json_int_t id = json_integer_value(item);

        if (!json_is_integer(item) || id < 0 || id >= (json_int_t)vocab) {
            gp_mem_free(made);
            return gp_refuse(r, 400, name, "%s: entry %zu must be a token id from 0 to %u", name, i,
                             vocab - 1);
        }
        made[i] = (int32_t)id;
    }
    *ids = made;
    *count = (uint32_t)length;
    return GP_OK;
}
