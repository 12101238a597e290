/* Values as text: str() and repr() as Python has them, and json.dumps. */
#include "text/template/template_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* ---- numbers ---- */

/* Python's repr of a float: the fewest digits that read back as the same number, with an exponent
 * below 1e-4 and from 1e16 on. */
size_t gp_tpl_float_text(double v, char out[40])
{
    char digits[40], plain[40];
    int precision = 1;

    if (isnan(v))
        return (size_t)snprintf(out, 40, "nan");
    if (isinf(v))
        return (size_t)snprintf(out, 40, v < 0 ? "-inf" : "inf");
    do
        snprintf(digits, sizeof digits, "%.*e", precision - 1, v);
    while (strtod(digits, NULL) != v && ++precision <= 17);

    /* digits is [-]d[.ddd]e[+-]xx */
    char *e = strchr(digits, 'e');
    long exponent = strtol(e + 1, NULL, 10);
    *e = '\0';
    if (exponent < -4 || exponent >= 16)
        return (size_t)snprintf(out, 40, "%se%c%02ld", digits, exponent < 0 ? '-' : '+',
                                labs(exponent));
    int decimals = precision - 1 - (int)exponent;
    snprintf(plain, sizeof plain, "%.*f", decimals > 0 ? decimals : 0, v);
    return (size_t)snprintf(out, 40, "%s%s", plain, decimals > 0 ? "" : ".0");
}

static bool print_number(struct tpl_run *r, struct tpl_buffer *b, struct tpl_value v)
{
    char text[40];
    size_t n;

    if (v.kind == TPL_INT)
        n = (size_t)snprintf(text, sizeof text, "%lld", (long long)v.integer);
    else
        n = gp_tpl_float_text(v.real, text);
    return gp_tpl_put(r, b, text, n, !v.untrusted);
}

/* ---- repr ---- */

/* str.isprintable() of one character. */
static bool is_printable(int32_t c)
{
    if (c < 0x7F)
        return c >= 0x20;
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
        return false;
    default:
        return true;
    }
}

static bool repr_string(struct tpl_run *r, struct tpl_buffer *b, const struct tpl_string *s)
{
    bool apostrophe = memchr(s->bytes, '\'', s->length) != NULL;
    char quote = apostrophe && !memchr(s->bytes, '"', s->length) ? '"' : '\'';
    size_t done = 0;

    if (s->markup)
        return gp_tpl_fail(r, "repr of a safe string");
    if (!gp_tpl_put(r, b, &quote, 1, true))
        return false;
    for (size_t i = 0, bytes; i < s->length; i += bytes) {
        int32_t c = gp_tpl_char_at(s->bytes + i, s->length - i, &bytes);
        char text[16];
        int n;
        if (c == quote || c == '\\')
            n = snprintf(text, sizeof text, "\\%c", (char)c);
        else if (c == '\n' || c == '\r' || c == '\t')
            n = snprintf(text, sizeof text, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (is_printable(c))
            continue;
        else if (c < 0x100)
            n = snprintf(text, sizeof text, "\\x%02x", (unsigned)c);
        else if (c < 0x10000)
            n = snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
        else
            n = snprintf(text, sizeof text, "\\U%08x", (unsigned)c);
        if (!gp_tpl_put_part(r, b, s, done, i) ||
            !gp_tpl_put(r, b, text, (size_t)n, s->marks ? s->marks[i] : s->trusted))
            return false;
        done = i + bytes;
    }
    return gp_tpl_put_part(r, b, s, done, s->length) && gp_tpl_put(r, b, &quote, 1, true);
}

static bool put_text(struct tpl_run *r, struct tpl_buffer *b, const char *text)
{
    return gp_tpl_put(r, b, text, strlen(text), true);
}

static bool repr_list(struct tpl_run *r, struct tpl_buffer *b, const struct tpl_list *list,
                      const char *open, const char *close)
{
    if (!put_text(r, b, open))
        return false;
    for (size_t i = 0; i < list->count; i++)
        if ((i > 0 && !put_text(r, b, ", ")) || !gp_tpl_repr(r, b, list->items[i]))
            return false;
    return put_text(r, b, close);
}

static bool repr_dict(struct tpl_run *r, struct tpl_buffer *b, const struct tpl_dict *dict)
{
    if (!put_text(r, b, "{"))
        return false;
    for (size_t i = 0; i < dict->count; i++)
        if ((i > 0 && !put_text(r, b, ", ")) || !gp_tpl_repr(r, b, dict->entries[i].key) ||
            !put_text(r, b, ": ") || !gp_tpl_repr(r, b, dict->entries[i].value))
            return false;
    return put_text(r, b, "}");
}

static bool repr_view(struct tpl_run *r, struct tpl_buffer *b, const struct tpl_view *view)
{
    static const char *const names[] = {
        [TPL_KEYS] = "dict_keys([", [TPL_VALUES] = "dict_values([", [TPL_ITEMS] = "dict_items(["};
    const struct tpl_dict *dict = view->dict;

    if (!put_text(r, b, names[view->kind]))
        return false;
    for (size_t i = 0; i < dict->count; i++) {
        const struct tpl_entry *e = &dict->entries[i];
        bool items = view->kind == TPL_ITEMS;
        if ((i > 0 && !put_text(r, b, ", ")) || (items && !put_text(r, b, "(")) ||
            !gp_tpl_repr(r, b, view->kind == TPL_VALUES ? e->value : e->key) ||
            (items &&
             (!put_text(r, b, ", ") || !gp_tpl_repr(r, b, e->value) || !put_text(r, b, ")"))))
            return false;
    }
    return put_text(r, b, "])");
}

static bool repr_range(struct tpl_run *r, struct tpl_buffer *b, const struct tpl_range *range)
{
    char text[100];
    int n = snprintf(text, sizeof text, "range(%lld, %lld", (long long)range->start,
                     (long long)range->stop);

    if (range->step != 1)
        n += snprintf(text + n, sizeof text - (size_t)n, ", %lld", (long long)range->step);
    snprintf(text + n, sizeof text - (size_t)n, ")");
    return put_text(r, b, text);
}

bool gp_tpl_repr(struct tpl_run *r, struct tpl_buffer *b, struct tpl_value v)
{
    if (!gp_tpl_step(r, 0) || !gp_tpl_enter(r))
        return false;
    bool ok;
    switch ((enum tpl_kind)v.kind) {
    case TPL_UNDEFINED:
        ok = put_text(r, b, "Undefined");
        break;
    case TPL_NONE:
        ok = gp_tpl_put(r, b, "None", 4, !v.untrusted);
        break;
    case TPL_BOOL:
        ok = gp_tpl_put(r, b, v.flag ? "True" : "False", v.flag ? 4 : 5, !v.untrusted);
        break;
    case TPL_INT:
    case TPL_FLOAT:
        ok = print_number(r, b, v);
        break;
    case TPL_STRING:
        ok = repr_string(r, b, v.string);
        break;
    case TPL_LIST:
        ok = repr_list(r, b, v.list, "[", "]");
        break;
    case TPL_TUPLE:
        ok = repr_list(r, b, v.list, "(", v.list->count == 1 ? ",)" : ")");
        break;
    case TPL_DICT:
        ok = repr_dict(r, b, v.dict);
        break;
    case TPL_VIEW:
        ok = repr_view(r, b, v.view);
        break;
    case TPL_RANGE:
        ok = repr_range(r, b, v.range);
        break;
    case TPL_LOOP:
        ok = gp_tpl_loop_print(r, b, v.loop);
        break;
    default:
        ok = gp_tpl_fail(r, "a %s cannot be printed", gp_tpl_type(v));
        break;
    }
    r->depth--;
    return ok;
}

bool gp_tpl_print(struct tpl_run *r, struct tpl_buffer *b, struct tpl_value v)
{
    if (v.kind == TPL_UNDEFINED)
        return true;
    if (v.kind == TPL_STRING)
        return gp_tpl_put_string(r, b, v.string);
    return gp_tpl_repr(r, b, v);
}

bool gp_tpl_str(struct tpl_run *r, struct tpl_value v, const struct tpl_string **out)
{
    struct tpl_buffer b = {0};
    struct tpl_value text;

    if (v.kind == TPL_STRING) {
        *out = v.string;
        return true;
    }
    if (!gp_tpl_print(r, &b, v) || !gp_tpl_buffer_string(r, &b, &text))
        return false;
    *out = text.string;
    return true;
}

/* ---- JSON ---- */

static bool write_value(struct tpl_run *r, struct tpl_buffer *b, const struct tpl_json *how,
                        struct tpl_value v, uint32_t level);

static bool write_string(struct tpl_run *r, struct tpl_buffer *b, const struct tpl_json *how,
                         const struct tpl_string *s)
{
    static const char plain[] = "\"\"\\\\\nn\rr\tt\ff\bb";
    size_t done = 0;

    if (!put_text(r, b, "\""))
        return false;
    for (size_t i = 0, bytes; i < s->length; i += bytes) {
        int32_t c = gp_tpl_char_at(s->bytes + i, s->length - i, &bytes);
        char text[16];
        int n = 0;
        for (size_t k = 0; k + 1 < sizeof plain; k += 2)
            if (plain[k] == c)
                n = snprintf(text, sizeof text, "\\%c", plain[k + 1]);
        if (n == 0 && c < 0x20)
            n = snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
        if (n == 0 && how->ensure_ascii && c >= 0x10000)
            n = snprintf(text, sizeof text, "\\u%04x\\u%04x",
                         0xD800 + ((unsigned)(c - 0x10000) >> 10), 0xDC00 + ((unsigned)c & 0x3FF));
        else if (n == 0 && how->ensure_ascii && c >= 0x7F)
            n = snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
        if (n == 0)
            continue;
        if (!gp_tpl_put_part(r, b, s, done, i) ||
            !gp_tpl_put(r, b, text, (size_t)n, s->marks ? s->marks[i] : s->trusted))
            return false;
        done = i + bytes;
    }
    return gp_tpl_put_part(r, b, s, done, s->length) && put_text(r, b, "\"");
}

static bool write_float(struct tpl_run *r, struct tpl_buffer *b, struct tpl_value v)
{
    if (isnan(v.real))
        return put_text(r, b, "NaN");
    if (isinf(v.real))
        return put_text(r, b, v.real < 0 ? "-Infinity" : "Infinity");
    return print_number(r, b, v);
}

static bool write_newline(struct tpl_run *r, struct tpl_buffer *b, const struct tpl_json *how,
                          uint32_t level)
{
    if (!how->pretty)
        return true;
    if (!put_text(r, b, "\n"))
        return false;
    for (uint32_t i = 0; i < level; i++)
        if (!gp_tpl_put_string(r, b, how->indent))
            return false;
    return true;
}

static bool write_list(struct tpl_run *r, struct tpl_buffer *b, const struct tpl_json *how,
                       const struct tpl_list *list, uint32_t level)
{
    if (list->count == 0)
        return put_text(r, b, "[]");
    if (!put_text(r, b, "["))
        return false;
    for (size_t i = 0; i < list->count; i++)
        if ((i > 0 && !gp_tpl_put_string(r, b, how->item_separator)) ||
            !write_newline(r, b, how, level + 1) ||
            !write_value(r, b, how, list->items[i], level + 1))
            return false;
    return write_newline(r, b, how, level) && put_text(r, b, "]");
}

static bool write_key(struct tpl_run *r, struct tpl_buffer *b, const struct tpl_json *how,
                      struct tpl_value key)
{
    if (key.kind == TPL_STRING)
        return write_string(r, b, how, key.string);
    if (key.kind != TPL_NONE && !gp_tpl_is_number(key))
        return gp_tpl_fail(r, "keys must be str, int, float, bool or None, not %s",
                           gp_tpl_type(key));
    return put_text(r, b, "\"") && write_value(r, b, how, key, 0) && put_text(r, b, "\"");
}

/* The entries in the order in which they are to be written. */
static bool write_order(struct tpl_run *r, const struct tpl_json *how, const struct tpl_dict *dict,
                        struct tpl_value **order)
{
    struct tpl_value *numbers = gp_tpl_take_array(r, dict->count, sizeof *numbers);
    struct tpl_value *keys = numbers ? gp_tpl_take_array(r, dict->count, sizeof *keys) : NULL;

    if (!keys)
        return false;
    for (size_t i = 0; i < dict->count; i++) {
        numbers[i] = gp_tpl_int((int64_t)i);
        keys[i] = dict->entries[i].key;
    }
    *order = numbers;
    return !how->sort_keys || gp_tpl_sort(r, numbers, keys, dict->count, false);
}

static bool write_dict(struct tpl_run *r, struct tpl_buffer *b, const struct tpl_json *how,
                       const struct tpl_dict *dict, uint32_t level)
{
    struct tpl_value *order;

    if (dict->count == 0)
        return put_text(r, b, "{}");
    if (!write_order(r, how, dict, &order) || !put_text(r, b, "{"))
        return false;
    for (size_t i = 0; i < dict->count; i++) {
        const struct tpl_entry *e = &dict->entries[order[i].integer];
        if ((i > 0 && !gp_tpl_put_string(r, b, how->item_separator)) ||
            !write_newline(r, b, how, level + 1) || !write_key(r, b, how, e->key) ||
            !gp_tpl_put_string(r, b, how->key_separator) ||
            !write_value(r, b, how, e->value, level + 1))
            return false;
    }
    return write_newline(r, b, how, level) && put_text(r, b, "}");
}

static bool write_value(struct tpl_run *r, struct tpl_buffer *b, const struct tpl_json *how,
                        struct tpl_value v, uint32_t level)
{
    if (!gp_tpl_step(r, 0) || !gp_tpl_enter(r))
        return false;
    bool ok;
    switch ((enum tpl_kind)v.kind) {
    case TPL_NONE:
        ok = gp_tpl_put(r, b, "null", 4, !v.untrusted);
        break;
    case TPL_BOOL:
        ok = gp_tpl_put(r, b, v.flag ? "true" : "false", v.flag ? 4 : 5, !v.untrusted);
        break;
    case TPL_INT:
        ok = print_number(r, b, v);
        break;
    case TPL_FLOAT:
        ok = write_float(r, b, v);
        break;
    case TPL_STRING:
        ok = write_string(r, b, how, v.string);
        break;
    case TPL_LIST:
    case TPL_TUPLE:
        ok = write_list(r, b, how, v.list, level);
        break;
    case TPL_DICT:
        ok = write_dict(r, b, how, v.dict, level);
        break;
    default:
        ok = gp_tpl_fail(r, "Object of type %s is not JSON serializable", gp_tpl_type(v));
        break;
    }
    r->depth--;
    return ok;
}

bool gp_tpl_json(struct tpl_run *r, struct tpl_buffer *b, const struct tpl_json *how,
                 struct tpl_value v)
{
    return write_value(r, b, how, v, 0);
}
