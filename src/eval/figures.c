#include "eval/figures.h"

#include <stddef.h>
#include <string.h>

enum kind {
    TEXT,
    FLAG,
    SMALL,
    COUNT,
    REAL,
};

#define AT(field) #field, offsetof(struct gp_figures, field)

static const struct {
    enum kind kind;
    const char *key;
    size_t offset;
} fields[] = {
    {TEXT, AT(suite)},          {TEXT, AT(policy)},
    {COUNT, AT(index)},         {SMALL, "sample", offsetof(struct gp_figures, number)},
    {FLAG, AT(correct)},        {COUNT, AT(prompt_tokens)},
    {COUNT, AT(output_tokens)}, {REAL, AT(pages_mean)},
    {COUNT, AT(pages_peak)},    {COUNT, AT(grow)},
    {COUNT, AT(compress)},      {COUNT, AT(shrink)},
    {COUNT, AT(start)},         {COUNT, AT(initial)},
    {COUNT, AT(pressure)},      {COUNT, AT(capped)},
    {COUNT, AT(fallback)},      {COUNT, AT(preempt)},
    {REAL, AT(queue_ms)},       {REAL, AT(prefill_ms)},
    {REAL, AT(decode_ms)},      {REAL, AT(demand_ms)},
    {REAL, AT(score_ms)},       {REAL, AT(select_ms)},
    {REAL, AT(compact_ms)},
};

#define FIELD_COUNT (sizeof fields / sizeof *fields)

static bool take(enum kind kind, const json_t *value, void *to)
{
    switch (kind) {
    case TEXT:
        return (*(const char **)to = json_string_value(value));
    case FLAG:
        *(bool *)to = json_is_true(value);
        return json_is_boolean(value);
    case SMALL:
        *(uint32_t *)to = (uint32_t)json_integer_value(value);
        return json_is_integer(value) && json_integer_value(value) >= 0 &&
               json_integer_value(value) <= UINT32_MAX;
    case COUNT:
        *(uint64_t *)to = (uint64_t)json_integer_value(value);
        return json_is_integer(value) && json_integer_value(value) >= 0;
    case REAL:
        *(double *)to = json_number_value(value);
        return json_is_number(value) && json_number_value(value) >= 0;
    }
    return false;
}

int gp_figures_read(const json_t *line, struct gp_figures *out, struct gp_error *err)
{
    struct gp_figures figures = {0};

    for (size_t i = 0; i < FIELD_COUNT; i++) {
        const json_t *value = json_object_get(line, fields[i].key);
        if (!value || !take(fields[i].kind, value, (char *)&figures + fields[i].offset))
            return gp_fail(err, GP_ECORRUPT, "no sample: %s is %s", fields[i].key,
                           value ? "something else" : "missing");
    }
    *out = figures;
    return GP_OK;
}

static json_t *give(enum kind kind, const void *from)
{
    switch (kind) {
    case TEXT:
        return json_string(*(const char *const *)from);
    case FLAG:
        return json_boolean(*(const bool *)from);
    case SMALL:
        return json_integer(*(const uint32_t *)from);
    case COUNT:
        return json_integer((json_int_t) * (const uint64_t *)from);
    case REAL:
        return json_real(*(const double *)from);
    }
    return NULL;
}

json_t *gp_figures_write(const struct gp_figures *figures)
{
    json_t *object = json_object();

    for (size_t i = 0; object && i < FIELD_COUNT; i++) {
        json_t *value = give(fields[i].kind, (const char *)figures + fields[i].offset);
        if (json_object_set_new(object, fields[i].key, value)) {
            json_decref(object);
            object = NULL;
        }
    }
    return object;
}
