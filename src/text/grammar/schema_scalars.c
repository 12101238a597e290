/* Strings and numbers of a schema. */
#include <math.h>
#include <string.h>

#include "text/grammar/schema_internal.h"

/* ---- strings ---- */

/* Formats as patterns.  A date's day exists in every year. */
#define DATE                                                                                       \
    "[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|" \
    "30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
#define TIME                                                                                       \
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):["  \
    "0-5][0-9])"
#define BYTE_TEXT "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"

/* NULL: a format is a remark, as the standard has it. */
static const char *format_pattern(const json_t *format)
{
    static const struct {
        const char *name, *pattern;
    } formats[] = {
        {"date", "^" DATE "$"},
        {"time", "^" TIME "$"},
        {"date-time", "^" DATE "T" TIME "$"},
        {"uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
        {"ipv4", "^" BYTE_TEXT "(?:\\." BYTE_TEXT "){3}$"},
        {"email", "^[A-Za-z0-9_%+-]{1,32}(?:\\.[A-Za-z0-9_%+-]{1,32}){0,3}@[A-Za-z0-9]{1,32}"
                  "(?:-[A-Za-z0-9]{1,16})?(?:\\.[A-Za-z]{2,16}){1,3}$"},
    };

    for (size_t i = 0; json_is_string(format) && i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].name, json_string_value(format)) == 0)
            return formats[i].pattern;
    return NULL;
}

/* Quotes around min to max characters. */
static void counted(struct gp_builder *b, uint16_t from, uint32_t min, uint32_t max, bool bounded,
                    uint16_t to)
{
    uint16_t at = gp_build_state(b), close = gp_build_state(b), part = gp_part_character(b);

    gp_build_one_of(b, from, "\"", at);
    for (uint32_t i = 0; i < (bounded ? max : min) && !b->rc; i++) {
        uint16_t next = gp_build_state(b);

        if (i >= min)
            gp_build_empty(b, at, close);
        gp_build_call(b, at, part, next);
        at = next;
    }
    if (!bounded)
        gp_build_call(b, at, part, at);
    gp_build_empty(b, at, close);
    gp_build_one_of(b, close, "\"", to);
}

void gp_schema_string(struct gp_schemas *s, const json_t *schema, uint16_t from, uint16_t to,
                      const struct gp_place *place)
{
    const json_t *pattern = json_object_get(schema, "pattern");
    bool least = json_object_get(schema, "minLength"), most = json_object_get(schema, "maxLength");
    const char *format = format_pattern(json_object_get(schema, "format"));
    uint32_t min = gp_schema_count(s, schema, "minLength", 0, place);
    uint32_t max = gp_schema_count(s, schema, "maxLength", 0, place);

    if (pattern && !json_is_string(pattern))
        gp_schema_refuse(s, place, "pattern", "must be a string");
    else if (pattern && (least || most))
        gp_schema_refuse(s, place, "pattern", "not available beside minLength and maxLength");
    else if (most && max < min)
        return; /* nothing is that long */
    else if (pattern)
        gp_pattern_build(s->b, from, json_string_value(pattern), json_string_length(pattern), to);
    else if (least || most)
        counted(s->b, from, min, max, most, to);
    else if (format)
        gp_pattern_build(s->b, from, format, strlen(format), to);
    else
        gp_build_call(s->b, from, gp_part_string(s->b), to);
}

/* ---- numbers ---- */

/* A bound as a whole number: as it is, or for integers the next one inside. */
static void read_bound(struct gp_schemas *s, const json_t *schema, const char *keyword, bool real,
                       struct gp_bound *bound, const struct gp_place *place)
{
    const json_t *field = json_object_get(schema, keyword);
    bool open = keyword[0] == 'e', lower = strstr(keyword, "inimum");
    double value = json_number_value(field), whole = lower ? ceil(value) : floor(value);

    if (!field)
        return;
    if (!json_is_number(field)) {
        gp_schema_refuse(s, place, keyword, "must be a number");
        return;
    }
    if (real && whole != value) {
        gp_schema_refuse(s, place, keyword, "must be a whole number, also for type number");
        return;
    }
    if (fabs(value) > 1e15 && !json_is_integer(field)) {
        gp_schema_refuse(s, place, keyword, "must be a whole number within 64 bits");
        return;
    }
    struct gp_bound read = {.is_set = true, .open = open && whole == value};

    read.at = json_is_integer(field) ? json_integer_value(field) : (int64_t)whole;
    if (read.at < -GP_NUMBER_MAX || read.at > GP_NUMBER_MAX) {
        gp_schema_refuse(s, place, keyword, "must be within 18 digits");
        return;
    }
    /* Of two bounds the one that is further in counts. */
    if (!bound->is_set || (lower ? read.at > bound->at : read.at < bound->at) ||
        (read.at == bound->at && read.open))
        *bound = read;
}

void gp_schema_number(struct gp_schemas *s, const json_t *schema, bool real, uint16_t from,
                      uint16_t to, const struct gp_place *place)
{
    struct gp_bound low = {0}, high = {0};

    read_bound(s, schema, "minimum", real, &low, place);
    read_bound(s, schema, "exclusiveMinimum", real, &low, place);
    read_bound(s, schema, "maximum", real, &high, place);
    read_bound(s, schema, "exclusiveMaximum", real, &high, place);
    if (s->b->rc)
        return;
    if (!low.is_set && !high.is_set)
        gp_build_call(s->b, from, real ? gp_part_number(s->b) : gp_part_integer(s->b), to);
    else if (real)
        gp_number_reals(s->b, from, low, high, to);
    else
        gp_number_integers(s->b, from, low.is_set ? low.at + low.open : -GP_NUMBER_MAX,
                           high.is_set ? high.at - high.open : GP_NUMBER_MAX, to);
}
