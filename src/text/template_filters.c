/* Filters. */
#include "text/template_internal.h"

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

static bool want_int(struct tpl_run *r, struct tpl_value v, int64_t absent, int64_t *out)
{
    *out = absent;
    return !given(v) || gp_tpl_as_int(v, out) ||
           gp_tpl_fail(r, "'%s' object cannot be interpreted as an integer", gp_tpl_type(v));
}

/* soft_str(): what the text filters make of their value. */
static bool text_of(struct tpl_run *r, const struct tpl_args *a, const struct tpl_string **out)
{
    return gp_tpl_str(r, a->self, out);
}

/* ---- text ------------------------------------------------------------------------------------- */

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

    if (a->v[2].kind != TPL_NONE && !want_int(r, a->v[2], -1, &count))
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
    if (!want_int(r, v, 4, &width))
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

/* ---- numbers ---------------------------------------------------------------------------------- */

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

    if (!want_int(r, a->v[1], 10, &base))
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

    if (!want_int(r, a->v[0], 0, &precision))
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

/* ---- sequences -------------------------------------------------------------------------------- */

static bool f_length(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    int64_t n;

    if (!gp_tpl_length(a->self, &n))
        return gp_tpl_fail(r, "object of type '%s' has no len()", gp_tpl_type(a->self));
    *out = gp_tpl_int(n);
    return true;
}

static bool f_list(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return gp_tpl_to_list(r, a->self, TPL_LIST, out);
}

static bool f_first(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    struct tpl_iter *iter;
    bool done;

    if (!gp_tpl_iter_open(r, a->self, &iter) || !gp_tpl_iter_next(r, iter, out, &done))
        return false;
    return !done || gp_tpl_undefined(r, "no first item, sequence was empty", NULL, NULL, out);
}

static bool f_last(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    struct tpl_value list;

    if (a->self.kind == TPL_ITERATOR)
        return gp_tpl_fail(r, "'generator' object is not reversible");
    if (!gp_tpl_to_list(r, a->self, TPL_LIST, &list))
        return false;
    if (list.list->count == 0)
        return gp_tpl_undefined(r, "no last item, sequence was empty", NULL, NULL, out);
    *out = list.list->items[list.list->count - 1];
    return true;
}

static bool f_reverse(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    struct tpl_value list;
    struct tpl_iter *iter;

    if (a->self.kind == TPL_STRING) {
        int64_t n = (int64_t)gp_tpl_string_chars(a->self.string);
        return gp_tpl_string_slice(r, a->self.string, n > 0 ? n - 1 : 0, -1, n, out);
    }
    if (!gp_tpl_to_list(r, a->self, TPL_LIST, &list))
        return false;
    struct tpl_value *items = list.list->items;
    for (size_t i = 0, n = list.list->count; i < n / 2; i++) {
        struct tpl_value swap = items[i];
        items[i] = items[n - 1 - i];
        items[n - 1 - i] = swap;
    }
    *out = list;
    if (a->self.kind == TPL_ITERATOR)
        return true;
    /* reversed() of what can be reversed in place is an iterator. */
    if (!gp_tpl_iter_open(r, list, &iter))
        return false;
    *out = (struct tpl_value){.kind = TPL_ITERATOR, .iter = iter};
    return true;
}

static bool f_items(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    struct tpl_view view = {a->self.dict, TPL_ITEMS};
    struct tpl_value over = {.kind = TPL_VIEW, .view = &view};
    struct tpl_iter *iter;

    if (a->self.kind != TPL_DICT && a->self.kind != TPL_UNDEFINED)
        return gp_tpl_fail(r, "can only get item pairs from a mapping, not %s",
                           gp_tpl_type(a->self));
    if (!gp_tpl_iter_open(r, a->self.kind == TPL_DICT ? over : a->self, &iter))
        return false;
    *out = (struct tpl_value){.kind = TPL_ITERATOR, .iter = iter};
    return true;
}

static bool f_join(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    static const struct tpl_string nothing = {.bytes = "", .trusted = true};
    const struct tpl_string *between = &nothing, *text;
    struct tpl_buffer b = {0};
    struct tpl_value item;
    struct tpl_iter *iter;
    bool done;

    if ((given(a->v[0]) && !gp_tpl_str(r, a->v[0], &between)) ||
        !gp_tpl_iter_open(r, a->self, &iter))
        return false;
    for (bool first = true;; first = false) {
        if (!gp_tpl_iter_next(r, iter, &item, &done))
            return false;
        if (done)
            return gp_tpl_buffer_string(r, &b, out);
        struct tpl_value part;
        if (!gp_tpl_getpath(r, item, a->v[1], missing, &part) || !gp_tpl_str(r, part, &text) ||
            (!first && !gp_tpl_put_string(r, &b, between)) || !gp_tpl_put_string(r, &b, text))
            return false;
    }
}

/* Merge sort, stable in both directions: items[i] is ordered by keys[i]. */
bool gp_tpl_sort(struct tpl_run *r, struct tpl_value *items, struct tpl_value *keys, size_t count,
                 bool reverse)
{
    struct tpl_value *from[2] = {items, keys}, *to[2];

    to[0] = gp_tpl_take_array(r, count + 1, sizeof *to[0]);
    to[1] = to[0] ? gp_tpl_take_array(r, count + 1, sizeof *to[1]) : NULL;
    if (!to[1])
        return false;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t begin = 0; begin < count; begin += 2 * width) {
            size_t middle = begin + width < count ? begin + width : count;
            size_t end = begin + 2 * width < count ? begin + 2 * width : count;
            size_t a = begin, b = middle;
            for (size_t i = begin; i < end; i++) {
                bool right = a >= middle;
                if (!right && b < end) {
                    struct tpl_value x = from[1][a], y = from[1][b];
                    if (!gp_tpl_less(r, reverse ? x : y, reverse ? y : x, &right))
                        return false;
                }
                size_t next = right ? b++ : a++;
                to[0][i] = from[0][next];
                to[1][i] = from[1][next];
            }
        }
        for (int k = 0; k < 2; k++) {
            struct tpl_value *swap = from[k];
            from[k] = to[k];
            to[k] = swap;
        }
    }
    if (from[0] != items && count > 0) {
        memcpy(items, from[0], count * sizeof *items);
        memcpy(keys, from[1], count * sizeof *keys);
    }
    return true;
}

/* What an item is ordered by: one attribute, in lower case unless told otherwise. */
static bool order_key(struct tpl_run *r, struct tpl_value item, struct tpl_value path,
                      bool case_sensitive, struct tpl_value *out)
{
    if (!gp_tpl_getpath(r, item, path, missing, out))
        return false;
    return case_sensitive || out->kind != TPL_STRING || gp_tpl_lower(r, out->string, out);
}

/* sort's key: a list of the attributes that "a,b" names. */
static bool sort_key(struct tpl_run *r, struct tpl_value item, struct tpl_value path,
                     bool case_sensitive, struct tpl_value *out)
{
    struct tpl_value part, key;

    if (!gp_tpl_list_new(r, TPL_LIST, 0, out))
        return false;
    if (path.kind != TPL_STRING)
        return order_key(r, item, path, case_sensitive, &key) && gp_tpl_list_add(r, out->list, key);
    const struct tpl_string *s = path.string;
    for (size_t begin = 0; begin <= s->length;) {
        size_t end = begin;
        while (end < s->length && s->bytes[end] != ',')
            end++;
        if (!gp_tpl_string_part(r, s, begin, end, &part) ||
            !order_key(r, item, part, case_sensitive, &key) || !gp_tpl_list_add(r, out->list, key))
            return false;
        begin = end + 1;
    }
    return true;
}

static bool f_sort(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    if (!gp_tpl_to_list(r, a->self, TPL_LIST, out))
        return false;
    size_t count = out->list->count;
    struct tpl_value *keys = gp_tpl_take_array(r, count + 1, sizeof *keys);
    if (!keys)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!sort_key(r, out->list->items[i], a->v[2], gp_tpl_truth(a->v[1]), &keys[i]))
            return false;
    return gp_tpl_sort(r, out->list->items, keys, count, gp_tpl_truth(a->v[0]));
}

static bool f_dictsort(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    bool by_value =
        given(a->v[1]) && a->v[1].kind == TPL_STRING && gp_tpl_is(a->v[1].string, "value");
    bool by_key =
        !given(a->v[1]) || (a->v[1].kind == TPL_STRING && gp_tpl_is(a->v[1].string, "key"));

    if (!by_key && !by_value)
        return gp_tpl_fail(r, "you can only sort by either \"key\" or \"value\"");
    if (a->self.kind == TPL_UNDEFINED)
        return gp_tpl_undefined_error(r, a->self);
    if (a->self.kind != TPL_DICT)
        return gp_tpl_fail(r, "dictsort takes a mapping, not %s", gp_tpl_type(a->self));
    const struct tpl_dict *dict = a->self.dict;
    struct tpl_value *keys = gp_tpl_take_array(r, dict->count + 1, sizeof *keys);
    if (!keys || !gp_tpl_list_new(r, TPL_LIST, dict->count, out))
        return false;
    for (size_t i = 0; i < dict->count; i++) {
        const struct tpl_entry *e = &dict->entries[i];
        struct tpl_value pair;
        if (!gp_tpl_pair(r, e->key, e->value, &pair) || !gp_tpl_list_add(r, out->list, pair) ||
            !order_key(r, by_value ? e->value : e->key, missing, gp_tpl_truth(a->v[0]), &keys[i]))
            return false;
    }
    return gp_tpl_sort(r, out->list->items, keys, dict->count, gp_tpl_truth(a->v[2]));
}

static bool extreme(struct tpl_run *r, const struct tpl_args *a, bool max, struct tpl_value *out)
{
    struct tpl_value list, best, key;
    bool less;

    if (!gp_tpl_to_list(r, a->self, TPL_LIST, &list))
        return false;
    if (list.list->count == 0)
        return gp_tpl_undefined(r, "no aggregated item, sequence was empty", NULL, NULL, out);
    for (size_t i = 0; i < list.list->count; i++) {
        if (!order_key(r, list.list->items[i], a->v[1], gp_tpl_truth(a->v[0]), &key))
            return false;
        less = i == 0;
        if (i > 0 && !gp_tpl_less(r, max ? best : key, max ? key : best, &less))
            return false;
        if (less) {
            best = key;
            *out = list.list->items[i];
        }
    }
    return true;
}

static bool f_max(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return extreme(r, a, true, out);
}

static bool f_min(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return extreme(r, a, false, out);
}

static bool f_unique(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    struct tpl_value seen;

    if (!gp_tpl_dict_new(r, TPL_DICT, &seen) || !gp_tpl_iter_new(r, TPL_I_UNIQUE, a->self, out))
        return false;
    out->iter->seen = seen.dict;
    out->iter->case_sensitive = gp_tpl_truth(a->v[0]);
    out->iter->attribute = a->v[1];
    return true;
}

static bool f_batch(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    int64_t size;

    if (!want_int(r, a->v[0], 0, &size))
        return false;
    if (size < 1)
        return gp_tpl_fail(r, "batch of %lld items is not supported", (long long)size);
    if (!gp_tpl_iter_new(r, TPL_I_BATCH, a->self, out))
        return false;
    out->iter->at = (size_t)size;
    out->iter->fallback = given(a->v[1]) ? a->v[1] : gp_tpl_none();
    return true;
}

static bool f_default(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    static const struct tpl_string nothing = {.bytes = "", .trusted = true};

    (void)r;
    *out = a->self;
    if (a->self.kind == TPL_UNDEFINED || (gp_tpl_truth(a->v[1]) && !gp_tpl_truth(a->self)))
        *out = given(a->v[0]) ? a->v[0] : gp_tpl_string_value(&nothing);
    return true;
}

/* ---- map and select --------------------------------------------------------------------------- */

/* What comes behind the first `skip` positional arguments, kept for as long as the iterator. */
static const struct tpl_args *rest_args(struct tpl_run *r, const struct tpl_args *a, size_t skip)
{
    struct tpl_args *rest = gp_tpl_take(r, sizeof *rest);

    if (!rest)
        return NULL;
    rest->values = a->values + skip;
    rest->count = a->count - skip;
    rest->names = a->names;
    rest->keyword_values = a->keyword_values;
    rest->keyword_count = a->keyword_count;
    return rest;
}

/* An iterator over a value that may be none or 0: those give nothing, as in jinja2. */
static bool lazy(struct tpl_run *r, enum tpl_iter_kind kind, struct tpl_value over,
                 struct tpl_value *out)
{
    if (gp_tpl_truth(over))
        return gp_tpl_iter_new(r, kind, over, out);
    struct tpl_iter *iter = gp_tpl_take(r, sizeof *iter);
    if (!iter)
        return false;
    iter->kind = TPL_I_EMPTY;
    *out = (struct tpl_value){.kind = TPL_ITERATOR, .iter = iter};
    return true;
}

static bool map_attribute(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    struct tpl_value path = missing, fallback = missing;

    for (size_t i = 0; i < a->keyword_count; i++) {
        if (gp_tpl_is(a->names[i], "attribute"))
            path = a->keyword_values[i];
        else if (gp_tpl_is(a->names[i], "default"))
            fallback = a->keyword_values[i];
        else
            return gp_tpl_fail(r, "unexpected keyword argument '%.60s'", a->names[i]->bytes);
    }
    if (path.kind == TPL_MISSING)
        return gp_tpl_fail(r, "map requires a filter argument");
    if (!lazy(r, TPL_I_ATTRIBUTE, a->self, out))
        return false;
    out->iter->attribute = path;
    out->iter->fallback = fallback;
    return true;
}

static bool f_map(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    if (a->count == 0)
        return map_attribute(r, a, out);
    if (a->values[0].kind != TPL_STRING)
        return gp_tpl_fail(r, "map requires the name of a filter");
    const struct tpl_builtin *filter = gp_tpl_find_filter(a->values[0].string);
    if (!filter)
        return gp_tpl_fail(r, "unknown filter '%.60s'", a->values[0].string->bytes);
    if (!lazy(r, TPL_I_FILTER, a->self, out))
        return false;
    out->iter->builtin = filter;
    return (out->iter->args = rest_args(r, a, 1)) != NULL;
}

/* select and reject, with_attribute their attr forms. */
static bool choose(struct tpl_run *r, const struct tpl_args *a, bool with_attribute, bool reject,
                   struct tpl_value *out)
{
    const struct tpl_builtin *test = NULL;
    size_t used = with_attribute;

    if (a->count < used)
        return gp_tpl_fail(r, "missing parameter for attribute name");
    if (a->count > used) {
        if (a->values[used].kind != TPL_STRING)
            return gp_tpl_fail(r, "the name of a test must be a string");
        test = gp_tpl_find_test(a->values[used].string);
        if (!test)
            return gp_tpl_fail(r, "unknown test '%.60s'", a->values[used].string->bytes);
        used++;
    }
    if (!lazy(r, TPL_I_SELECT, a->self, out))
        return false;
    out->iter->builtin = test;
    out->iter->reject = reject;
    if (with_attribute)
        out->iter->attribute = a->values[0];
    return (out->iter->args = rest_args(r, a, used)) != NULL;
}

static bool f_select(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return choose(r, a, false, false, out);
}

static bool f_reject(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return choose(r, a, false, true, out);
}

static bool f_selectattr(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return choose(r, a, true, false, out);
}

static bool f_rejectattr(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return choose(r, a, true, true, out);
}

static const struct tpl_builtin filters[] = {
    {"abs", f_abs, 0, false, {NULL}},
    {"batch", f_batch, 1, false, {"linecount", "fill_with"}},
    {"capitalize", f_capitalize, 0, false, {NULL}},
    {"count", f_length, 0, false, {NULL}},
    {"d", f_default, 0, false, {"default_value", "boolean"}},
    {"default", f_default, 0, false, {"default_value", "boolean"}},
    {"dictsort", f_dictsort, 0, false, {"case_sensitive", "by", "reverse"}},
    {"e", f_escape, 0, false, {NULL}},
    {"escape", f_escape, 0, false, {NULL}},
    {"first", f_first, 0, false, {NULL}},
    {"float", f_float, 0, false, {"default"}},
    {"format", f_format, 0, true, {NULL}},
    {"indent", f_indent, 0, false, {"width", "first", "blank"}},
    {"int", f_int, 0, false, {"default", "base"}},
    {"items", f_items, 0, false, {NULL}},
    {"join", f_join, 0, false, {"d", "attribute"}},
    {"last", f_last, 0, false, {NULL}},
    {"length", f_length, 0, false, {NULL}},
    {"list", f_list, 0, false, {NULL}},
    {"lower", f_lower, 0, false, {NULL}},
    {"map", f_map, 0, true, {NULL}},
    {"max", f_max, 0, false, {"case_sensitive", "attribute"}},
    {"min", f_min, 0, false, {"case_sensitive", "attribute"}},
    {"reject", f_reject, 0, true, {NULL}},
    {"rejectattr", f_rejectattr, 0, true, {NULL}},
    {"replace", f_replace, 2, false, {"old", "new", "count"}},
    {"reverse", f_reverse, 0, false, {NULL}},
    {"round", f_round, 0, false, {"precision", "method"}},
    {"safe", f_safe, 0, false, {NULL}},
    {"select", f_select, 0, true, {NULL}},
    {"selectattr", f_selectattr, 0, true, {NULL}},
    {"sort", f_sort, 0, false, {"reverse", "case_sensitive", "attribute"}},
    {"string", f_string, 0, false, {NULL}},
    {"sum", f_sum, 0, false, {"attribute", "start"}},
    {"title", f_title, 0, false, {NULL}},
    {"tojson", f_tojson, 0, false, {"ensure_ascii", "indent", "separators", "sort_keys"}},
    {"trim", f_trim, 0, false, {"chars"}},
    {"unique", f_unique, 0, false, {"case_sensitive", "attribute"}},
    {"upper", f_upper, 0, false, {NULL}},
};

const struct tpl_builtin *gp_tpl_find_filter(const struct tpl_string *name)
{
    for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++)
        if (gp_tpl_is(name, filters[i].name))
            return &filters[i];
    return NULL;
}
