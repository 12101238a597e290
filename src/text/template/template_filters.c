/* Filters of texts and numbers. */
#include "text/template/template_internal.h"

#include "base/assert.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct tpl_value missing = {.kind = TPL_MISSING};

static bool given(struct tpl_value v)
{
    return v.kind != TPL_MISSING;
}

/* soft_str(): what the text filters make of their value. */
static bool text_of(struct tpl_run *r, const struct tpl_args *a, const struct tpl_string **out)
{
    return gp_tpl_str(r, a->self, out);
}

/* ---- text ---- */

static bool f_upper(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    const struct tpl_string *s;

    return text_of(r, a, &s) && gp_tpl_upper(r, s, out);
}

static bool f_lower(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    const struct tpl_string *s;

    return text_of(r, a, &s) && gp_tpl_lower(r, s, out);
}

static bool f_capitalize(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    const struct tpl_string *s;

    return text_of(r, a, &s) && gp_tpl_capitalize(r, s, out);
}

static bool f_title(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    const struct tpl_string *s;

    return text_of(r, a, &s) && gp_tpl_title(r, s, out);
}

static bool f_trim(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    const struct tpl_string *s, *chars = NULL;

    if (!text_of(r, a, &s))
        return false;
    if (given(a->v[0]) && a->v[0].kind != TPL_NONE) {
        if (a->v[0].kind != TPL_STRING)
            return gp_tpl_fail(r, "trim takes a string, not %s", gp_tpl_type(a->v[0]));
        chars = a->v[0].string;
    }
    return gp_tpl_strip(r, s, chars, true, true, out);
}

static bool f_replace(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    const struct tpl_string *s, *old, *with;
    int64_t count = -1;

    if (a->v[2].kind != TPL_NONE && !gp_tpl_want_int(r, a->v[2], -1, &count))
        return false;
    return text_of(r, a, &s) && gp_tpl_str(r, a->v[0], &old) && gp_tpl_str(r, a->v[1], &with) &&
           gp_tpl_replace(r, s, old, with, count, out);
}

static bool f_string(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    const struct tpl_string *s;

    if (!text_of(r, a, &s))
        return false;
    *out = gp_tpl_string_value(s);
    return true;
}

static bool f_safe(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    const struct tpl_string *s;
    struct tpl_string *marked = gp_tpl_take(r, sizeof *marked);

    if (!marked || !text_of(r, a, &s))
        return false;
    *marked = *s;
    marked->markup = true;
    *out = gp_tpl_string_value(marked);
    return true;
}

static bool f_escape(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    const struct tpl_string *s;

    return text_of(r, a, &s) && gp_tpl_string_escape(r, s, out);
}

static bool indent_width(struct tpl_run *r, struct tpl_value v, struct tpl_value *out)
{
    struct tpl_buffer b = {0};
    int64_t width;

    if (v.kind == TPL_STRING) {
        *out = v;
        return true;
    }
    if (!gp_tpl_want_int(r, v, 4, &width))
        return false;
    for (; width > 0; width--)
        if (!gp_tpl_put(r, &b, " ", 1, true))
            return false;
    return gp_tpl_buffer_string(r, &b, out);
}

static bool f_indent(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    static const struct tpl_string newline = {.bytes = "\n", .length = 1, .trusted = true};
    struct tpl_value indent, lines, whole;
    struct tpl_buffer b = {0};
    bool first = gp_tpl_truth(a->v[1]), blank = gp_tpl_truth(a->v[2]);

    if (a->self.kind != TPL_STRING)
        return gp_tpl_fail(r, "indent takes a string, not %s", gp_tpl_type(a->self));
    if (a->self.string->markup)
        return gp_tpl_fail(r, "indent of a safe string is not supported");
    const struct tpl_string *parts[] = {a->self.string, &newline};
    if (!indent_width(r, a->v[0], &indent) || !gp_tpl_string_join(r, parts, 2, &whole) ||
        !gp_tpl_splitlines(r, whole.string, false, &lines))
        return false;
    for (size_t i = 0; i < lines.list->count; i++) {
        const struct tpl_string *line = lines.list->items[i].string;
        bool indented = i == 0 ? first : blank || line->length > 0;
        if ((i > 0 && !gp_tpl_put(r, &b, "\n", 1, true)) ||
            (indented && !gp_tpl_put_string(r, &b, indent.string)) ||
            !gp_tpl_put_string(r, &b, line))
            return false;
    }
    return gp_tpl_buffer_string(r, &b, out);
}

static bool f_format(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    const struct tpl_string *s;
    struct tpl_value values;

    if (a->count > 0 && a->keyword_count > 0)
        return gp_tpl_fail(r, "can't handle positional and keyword arguments at the same time");
    if (!text_of(r, a, &s))
        return false;
    if (a->keyword_count > 0) {
        if (!gp_tpl_dict_new(r, TPL_DICT, &values))
            return false;
        for (size_t i = 0; i < a->keyword_count; i++)
            if (!gp_tpl_dict_set(r, values.dict, gp_tpl_string_value(a->names[i]),
                                 a->keyword_values[i]))
                return false;
        return gp_tpl_percent(r, s, values, out);
    }
    if (!gp_tpl_list_new(r, TPL_TUPLE, a->count, &values))
        return false;
    for (size_t i = 0; i < a->count; i++)
        values.list->items[values.list->count++] = a->values[i];
    return gp_tpl_percent(r, s, values, out);
}

static bool json_options(struct tpl_run *r, const struct tpl_args *a, struct tpl_json *how)
{
    static const struct tpl_string comma = {.bytes = ",", .length = 1, .trusted = true};
    static const struct tpl_string comma_blank = {.bytes = ", ", .length = 2, .trusted = true};
    static const struct tpl_string colon_blank = {.bytes = ": ", .length = 2, .trusted = true};
    struct tpl_value indent = a->v[1], separators = a->v[2];

    how->ensure_ascii = gp_tpl_truth(a->v[0]);
    how->sort_keys = gp_tpl_truth(a->v[3]);
    how->pretty = given(indent) && indent.kind != TPL_NONE;
    how->item_separator = how->pretty ? &comma : &comma_blank;
    how->key_separator = &colon_blank;
    if (how->pretty) {
        if (!indent_width(r, indent, &indent))
            return false;
        how->indent = indent.string;
    }
    if (!given(separators) || separators.kind == TPL_NONE)
        return true;
    bool list = separators.kind == TPL_LIST || separators.kind == TPL_TUPLE;
    if (!list || separators.list->count != 2 || separators.list->items[0].kind != TPL_STRING ||
        separators.list->items[1].kind != TPL_STRING)
        return gp_tpl_fail(r, "separators of tojson must be two strings");
    how->item_separator = separators.list->items[0].string;
    how->key_separator = separators.list->items[1].string;
    return true;
}

static bool f_tojson(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    struct tpl_buffer b = {0};
    struct tpl_json how = {0};

    return json_options(r, a, &how) && gp_tpl_json(r, &b, &how, a->self) &&
           gp_tpl_buffer_string(r, &b, out);
}

/* ---- numbers ---- */

/* Python's int(text) or float(text) read digits with single '_' between them.  The text without '_'
 * and without blanks around it; false when it cannot be a number. */
static bool number_text(struct tpl_run *r, const struct tpl_string *s, char *out, size_t bytes)
{
    struct tpl_value cut;
    size_t n = 0;

    if (!gp_tpl_strip(r, s, NULL, true, true, &cut))
        return false;
    s = cut.string;
    if (s->length == 0 || s->length >= bytes)
        return false;
    for (size_t i = 0; i < s->length; i++) {
        char c = s->bytes[i];
        bool digit_before = i > 0 && s->bytes[i - 1] >= '0' && s->bytes[i - 1] <= '9';
        bool digit_behind = i + 1 < s->length && s->bytes[i + 1] >= '0' && s->bytes[i + 1] <= '9';
        if (c == '_' && digit_before && digit_behind)
            continue;
        if (c == '\0' || c == '_')
            return false;
        out[n++] = c;
    }
    out[n] = '\0';
    return true;
}

static bool parse_int(const char *text, bool *over, int64_t *out)
{
    const char *digits = text + (*text == '+' || *text == '-');

    if (*digits == '\0' || strspn(digits, "0123456789") != strlen(digits))
        return false;
    errno = 0;
    *out = strtoll(text, NULL, 10);
    *over = errno == ERANGE;
    return true;
}

static bool parse_float(const char *text, double *out)
{
    const char *p = text + (*text == '+' || *text == '-');
    char *end;
    bool word =
        strcasecmp(p, "inf") == 0 || strcasecmp(p, "infinity") == 0 || strcasecmp(p, "nan") == 0;

    if (!word && (strspn(p, "0123456789.eE+-") != strlen(p) || *p == '+' || *p == '-'))
        return false;
    *out = strtod(text, &end);
    return *end == '\0' && end != text;
}

static bool ascii_only(const struct tpl_string *s)
{
    for (size_t i = 0; i < s->length; i++)
        if ((unsigned char)s->bytes[i] >= 0x80)
            return false;
    return true;
}

#define NUMBER_TEXT 64u

/* int() of a double; false when Python raises. */
static bool truncate(struct tpl_run *r, double d, bool *known, int64_t *out)
{
    *known = isfinite(d);
    if (*known && (d >= 9223372036854775808.0 || d < -9223372036854775808.0))
        return gp_tpl_fail(r, "integer beyond 64 bits");
    if (*known)
        *out = (int64_t)d;
    return true;
}

/* The int of a string, the way the filter tries it: as an int, then as a float. */
static bool int_of_text(struct tpl_run *r, const struct tpl_string *s, bool *known, int64_t *out)
{
    char text[NUMBER_TEXT];
    bool over = false;
    double d;

    if (!ascii_only(s) || s->length >= NUMBER_TEXT)
        return gp_tpl_fail(r, "int of this text is not supported");
    *known = false;
    if (!number_text(r, s, text, sizeof text))
        return r->status == GP_OK;
    if (parse_int(text, &over, out)) {
        *known = true;
        return !over || gp_tpl_fail(r, "integer beyond 64 bits");
    }
    return !parse_float(text, &d) || truncate(r, d, known, out);
}

static bool f_int(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    bool known = false;
    int64_t x = 0, base;

    if (!gp_tpl_want_int(r, a->v[1], 10, &base))
        return false;
    if (base != 10)
        return gp_tpl_fail(r, "int to base %lld is not supported", (long long)base);
    if (a->self.kind == TPL_UNDEFINED)
        return gp_tpl_undefined_error(r, a->self);
    if (a->self.kind == TPL_STRING) {
        if (!int_of_text(r, a->self.string, &known, &x))
            return false;
    } else if (a->self.kind == TPL_FLOAT) {
        /* int(inf) is an OverflowError, which the filter lets pass. */
        if (isinf(a->self.real))
            return gp_tpl_fail(r, "cannot convert float infinity to integer");
        if (!truncate(r, a->self.real, &known, &x))
            return false;
    } else {
        known = gp_tpl_as_int(a->self, &x);
    }
    *out = known ? gp_tpl_int(x) : given(a->v[0]) ? a->v[0] : gp_tpl_int(0);
    out->untrusted |= known && a->self.untrusted;
    return true;
}

static bool f_float(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    char text[NUMBER_TEXT];
    double d = 0;
    bool known = gp_tpl_is_number(a->self);

    if (a->self.kind == TPL_UNDEFINED)
        return gp_tpl_undefined_error(r, a->self);
    if (known)
        d = gp_tpl_as_float(a->self);
    if (a->self.kind == TPL_STRING) {
        if (!ascii_only(a->self.string) || a->self.string->length >= NUMBER_TEXT)
            return gp_tpl_fail(r, "float of this text is not supported");
        known = number_text(r, a->self.string, text, sizeof text) && parse_float(text, &d);
        if (r->status != GP_OK)
            return false;
    }
    *out = known ? gp_tpl_float(d) : given(a->v[0]) ? a->v[0] : gp_tpl_float(0);
    out->untrusted |= known && a->self.untrusted;
    return true;
}

static bool f_abs(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    int64_t x;

    if (a->self.kind == TPL_UNDEFINED)
        return gp_tpl_undefined_error(r, a->self);
    if (a->self.kind == TPL_FLOAT) {
        *out = gp_tpl_float(fabs(a->self.real));
    } else if (gp_tpl_as_int(a->self, &x)) {
        if (x == INT64_MIN)
            return gp_tpl_fail(r, "integer beyond 64 bits");
        *out = gp_tpl_int(x < 0 ? -x : x);
    } else {
        return gp_tpl_fail(r, "bad operand type for abs(): '%s'", gp_tpl_type(a->self));
    }
    out->untrusted = a->self.untrusted;
    return true;
}

static bool f_round(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    char text[400];
    int64_t precision, x;

    if (!gp_tpl_want_int(r, a->v[0], 0, &precision))
        return false;
    if (!gp_tpl_is_number(a->self) || precision < 0 || precision > 20)
        return gp_tpl_fail(r, "round of a %s to %lld digits is not supported", gp_tpl_type(a->self),
                           (long long)precision);
    bool common =
        !given(a->v[1]) || (a->v[1].kind == TPL_STRING && gp_tpl_is(a->v[1].string, "common"));
    bool up = !common && a->v[1].kind == TPL_STRING && gp_tpl_is(a->v[1].string, "ceil");
    bool down = !common && a->v[1].kind == TPL_STRING && gp_tpl_is(a->v[1].string, "floor");
    if (!common && !up && !down)
        return gp_tpl_fail(r, "method must be common, ceil or floor");
    double d = gp_tpl_as_float(a->self);
    if (common && gp_tpl_as_int(a->self, &x)) {
        *out = gp_tpl_int(x);
    } else if (common) {
        snprintf(text, sizeof text, "%.*f", (int)precision, d);
        *out = gp_tpl_float(isfinite(d) ? strtod(text, NULL) : d);
    } else {
        double scale = pow(10, (double)precision), scaled = d * scale;
        if (!isfinite(scaled) || fabs(scaled) > 9007199254740992.0)
            return gp_tpl_fail(r, "round of so large a number is not supported");
        double whole = up ? ceil(scaled) : floor(scaled);
        *out = gp_tpl_float((whole == 0 ? 0 : whole) / scale);
    }
    out->untrusted = a->self.untrusted;
    return true;
}

static bool f_sum(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    struct tpl_value list, item;

    if (!gp_tpl_to_list(r, a->self, TPL_LIST, &list))
        return false;
    *out = given(a->v[1]) ? a->v[1] : gp_tpl_int(0);
    for (size_t i = 0; i < list.list->count; i++) {
        struct tpl_value sum = *out;
        if (!gp_tpl_getpath(r, list.list->items[i], a->v[0], missing, &item))
            return false;
        /* Newer Pythons add floats up more exactly than older ones. */
        if (item.kind == TPL_FLOAT || sum.kind == TPL_STRING)
            return gp_tpl_fail(r, "sum of a %s is not supported", gp_tpl_type(item));
        if (!gp_tpl_binary(r, TPL_ADD, sum, item, out))
            return false;
    }
    return true;
}

static const struct tpl_builtin filters[] = {
    {"abs", f_abs, 0, false, {NULL}},
    {"capitalize", f_capitalize, 0, false, {NULL}},
    {"e", f_escape, 0, false, {NULL}},
    {"escape", f_escape, 0, false, {NULL}},
    {"float", f_float, 0, false, {"default"}},
    {"format", f_format, 0, true, {NULL}},
    {"indent", f_indent, 0, false, {"width", "first", "blank"}},
    {"int", f_int, 0, false, {"default", "base"}},
    {"lower", f_lower, 0, false, {NULL}},
    {"replace", f_replace, 2, false, {"old", "new", "count"}},
    {"round", f_round, 0, false, {"precision", "method"}},
    {"safe", f_safe, 0, false, {NULL}},
    {"string", f_string, 0, false, {NULL}},
    {"sum", f_sum, 0, false, {"attribute", "start"}},
    {"title", f_title, 0, false, {NULL}},
    {"tojson", f_tojson, 0, false, {"ensure_ascii", "indent", "separators", "sort_keys"}},
    {"trim", f_trim, 0, false, {"chars"}},
    {"upper", f_upper, 0, false, {NULL}},
    {NULL},
};

const struct tpl_builtin *gp_tpl_find_filter(const struct tpl_string *name)
{
    const struct tpl_builtin *const tables[] = {filters, gp_tpl_sequence_filters};

    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        for (const struct tpl_builtin *f = tables[i]; f->name; f++)
            if (gp_tpl_is(name, f->name))
                return f;
    return NULL;
}
