/* What Python does to texts: stripping, replacing, letter case, % formatting.  Methods and filters
 * share it. */
#include "text/template/template_internal.h"
#include "text/template/template_upper.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

/* ---- strip and replace ---- */

static bool in_set(const struct tpl_string *chars, const char *at, size_t bytes)
{
    return memmem(chars->bytes, chars->length, at, bytes) != NULL;
}

/* A character goes when it is in `chars`, or is whitespace when there is no such set.  Characters
 * are found in the set as byte strings: in valid UTF-8 one never lies across two others. */
static bool goes(const struct tpl_string *s, size_t at, size_t bytes,
                 const struct tpl_string *chars)
{
    size_t n;

    if (chars)
        return in_set(chars, s->bytes + at, bytes);
    return gp_tpl_char_is_space(gp_tpl_char_at(s->bytes + at, s->length - at, &n));
}

bool gp_tpl_strip(struct tpl_run *r, const struct tpl_string *s, const struct tpl_string *chars,
                  bool left, bool right, struct tpl_value *out)
{
    size_t begin = 0, end = s->length;

    while (left && begin < end) {
        size_t bytes = gp_tpl_char_bytes(s->bytes + begin, end - begin);
        if (!gp_tpl_step(r, chars ? chars->length : 0))
            return false;
        if (!goes(s, begin, bytes, chars))
            break;
        begin += bytes;
    }
    while (right && end > begin) {
        size_t at = end - 1;
        while (at > begin && ((unsigned char)s->bytes[at] & 0xC0) == 0x80)
            at--;
        if (!gp_tpl_step(r, chars ? chars->length : 0))
            return false;
        if (!goes(s, at, end - at, chars))
            break;
        end = at;
    }
    return gp_tpl_string_part(r, s, begin, end, out);
}

/* Between all characters and at both ends. */
static bool replace_empty(struct tpl_run *r, const struct tpl_string *s,
                          const struct tpl_string *with, int64_t count, struct tpl_value *out)
{
    struct tpl_buffer b = {0};

    for (size_t at = 0;; count--) {
        if (count == 0)
            return gp_tpl_put_part(r, &b, s, at, s->length) && gp_tpl_buffer_string(r, &b, out);
        if (!gp_tpl_put_string(r, &b, with))
            return false;
        if (at >= s->length)
            return gp_tpl_buffer_string(r, &b, out);
        size_t bytes = gp_tpl_char_bytes(s->bytes + at, s->length - at);
        if (!gp_tpl_put_part(r, &b, s, at, at + bytes))
            return false;
        at += bytes;
    }
}

bool gp_tpl_replace(struct tpl_run *r, const struct tpl_string *s, const struct tpl_string *old,
                    const struct tpl_string *with, int64_t count, struct tpl_value *out)
{
    struct tpl_buffer b = {0};
    size_t at = 0;

    if (!gp_tpl_step(r, s->length))
        return false;
    if (old->length == 0)
        return replace_empty(r, s, with, count, out);
    for (; count != 0; count--) {
        const char *hit = memmem(s->bytes + at, s->length - at, old->bytes, old->length);
        if (!hit)
            break;
        size_t found = (size_t)(hit - s->bytes);
        if (!gp_tpl_put_part(r, &b, s, at, found) || !gp_tpl_put_string(r, &b, with))
            return false;
        at = found + old->length;
    }
    return gp_tpl_put_part(r, &b, s, at, s->length) && gp_tpl_buffer_string(r, &b, out);
}

/* ---- letter case ---- */

static const struct upper_special *find_special(int32_t c)
{
    size_t low = 0, high = sizeof upper_specials / sizeof upper_specials[0];

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (upper_specials[middle].from == c)
            return &upper_specials[middle];
        if (upper_specials[middle].from < c)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

enum letter_case {
    CASE_UPPER,
    CASE_LOWER,
    CASE_TITLE,
};

/* The character at `at`, changed; what it becomes has its origin. */
static bool put_case(struct tpl_run *r, struct tpl_buffer *b, const struct tpl_string *s, size_t at,
                     enum letter_case to)
{
    char text[16];
    size_t bytes, n = 0;
    int32_t c = gp_tpl_char_at(s->bytes + at, s->length - at, &bytes);
    bool trusted = s->marks ? s->marks[at] : s->trusted;

    if (c < 0x80) {
        bool change = to == CASE_LOWER ? c >= 'A' && c <= 'Z' : c >= 'a' && c <= 'z';
        text[0] = (char)(change ? c ^ 0x20 : c);
        return gp_tpl_put(r, b, text, 1, trusted);
    }
    if (to == CASE_LOWER) {
        if (c == 0x3A3) /* its lower form depends on the word around it */
            return gp_tpl_fail(r, "lower case of a capital sigma");
        n = gp_tpl_char_write(c == 0x130 ? 'i' : utf8proc_tolower(c), text);
        if (c == 0x130)
            n += gp_tpl_char_write(0x307, text + n);
        return gp_tpl_put(r, b, text, n, trusted);
    }
    const struct upper_special *special = find_special(c);
    if (special && to == CASE_TITLE)
        return gp_tpl_fail(r, "title case of U+%04X", (unsigned)c);
    if (!special)
        n = gp_tpl_char_write(to == CASE_UPPER ? utf8proc_toupper(c) : utf8proc_totitle(c), text);
    for (int i = 0; special && i < 3 && special->to[i]; i++)
        n += gp_tpl_char_write(special->to[i], text + n);
    return gp_tpl_put(r, b, text, n, trusted);
}

/* The first character one way, the others another way. */
static bool change_case(struct tpl_run *r, const struct tpl_string *s, enum letter_case first,
                        enum letter_case rest, struct tpl_value *out)
{
    struct tpl_buffer b = {0};

    if (s->markup)
        return gp_tpl_fail(r, "letter case of a safe string");
    for (size_t at = 0; at < s->length; at += gp_tpl_char_bytes(s->bytes + at, s->length - at))
        if (!put_case(r, &b, s, at, at == 0 ? first : rest))
            return false;
    return gp_tpl_buffer_string(r, &b, out);
}

bool gp_tpl_upper(struct tpl_run *r, const struct tpl_string *s, struct tpl_value *out)
{
    return change_case(r, s, CASE_UPPER, CASE_UPPER, out);
}

bool gp_tpl_lower(struct tpl_run *r, const struct tpl_string *s, struct tpl_value *out)
{
    return change_case(r, s, CASE_LOWER, CASE_LOWER, out);
}

bool gp_tpl_capitalize(struct tpl_run *r, const struct tpl_string *s, struct tpl_value *out)
{
    return change_case(r, s, CASE_TITLE, CASE_LOWER, out);
}

/* jinja2's title filter: words begin behind blanks, '-' and opening brackets. */
bool gp_tpl_title(struct tpl_run *r, const struct tpl_string *s, struct tpl_value *out)
{
    struct tpl_buffer b = {0};
    bool start = true;

    if (s->markup)
        return gp_tpl_fail(r, "letter case of a safe string");
    for (size_t at = 0, bytes; at < s->length; at += bytes) {
        int32_t c = gp_tpl_char_at(s->bytes + at, s->length - at, &bytes);
        if (!put_case(r, &b, s, at, start ? CASE_UPPER : CASE_LOWER))
            return false;
        start = gp_tpl_char_is_space(c) || (c < 0x80 && c && strchr("-({[<", (int)c));
    }
    return gp_tpl_buffer_string(r, &b, out);
}

/* ---- % formatting ---- */

struct percent {
    struct tpl_value values;
    size_t used;
    bool mapping; /* values found by name: nothing can be left over */
};

static bool percent_value(struct tpl_run *r, struct percent *p, const struct tpl_string *name,
                          struct tpl_value *out)
{
    if (name) {
        if (p->values.kind != TPL_DICT)
            return gp_tpl_fail(r, "format requires a mapping");
        if (!gp_tpl_dict_name(r, p->values.dict, name, out))
            return false;
        p->mapping = true;
        return out->kind != TPL_MISSING || gp_tpl_fail(r, "format names a missing key");
    }
    bool many = p->values.kind == TPL_TUPLE;
    if (p->used >= (many ? p->values.list->count : 1))
        return gp_tpl_fail(r, "not enough arguments for format string");
    *out = many ? p->values.list->items[p->used] : p->values;
    p->used++;
    return true;
}

static bool put_conversion(struct tpl_run *r, struct tpl_buffer *b, char kind, int precision,
                           struct tpl_value v)
{
    char text[400];
    int64_t x;
    int n;

    if (precision < 0 && kind == 's')
        return gp_tpl_print(r, b, v);
    if (precision < 0 && kind == 'r')
        return gp_tpl_repr(r, b, v);
    if (precision < 0 && (kind == 'd' || kind == 'i') && gp_tpl_as_int(v, &x)) {
        n = snprintf(text, sizeof text, "%lld", (long long)x);
        return gp_tpl_put(r, b, text, (size_t)n, !v.untrusted);
    }
    if (precision < 0 && (kind == 'd' || kind == 'i') && v.kind == TPL_FLOAT &&
        fabs(v.real) < 9007199254740992.0) {
        n = snprintf(text, sizeof text, "%lld", (long long)v.real);
        return gp_tpl_put(r, b, text, (size_t)n, !v.untrusted);
    }
    if (kind == 'f' && gp_tpl_is_number(v) && precision <= 30) {
        n = snprintf(text, sizeof text, "%.*f", precision < 0 ? 6 : precision, gp_tpl_as_float(v));
        return gp_tpl_put(r, b, text, (size_t)n, !v.untrusted);
    }
    return gp_tpl_fail(r, "format %%%c of a %s", kind > 32 && kind < 127 ? kind : '?',
                       gp_tpl_type(v));
}

/* One conversion; *at is behind its '%'. */
static bool percent_one(struct tpl_run *r, struct tpl_buffer *b, const struct tpl_string *f,
                        size_t *at, struct percent *p)
{
    struct tpl_value v, name = {.kind = TPL_MISSING};
    int precision = -1;

    if (*at < f->length && f->bytes[*at] == '(') {
        const char *close = memchr(f->bytes + *at, ')', f->length - *at);
        if (!close)
            return gp_tpl_fail(r, "incomplete format key");
        size_t end = (size_t)(close - f->bytes);
        if (!gp_tpl_string_part(r, f, *at + 1, end, &name))
            return false;
        *at = end + 1;
    }
    if (*at < f->length && f->bytes[*at] == '.') {
        precision = 0;
        for (++*at; *at < f->length && f->bytes[*at] >= '0' && f->bytes[*at] <= '9'; ++*at)
            precision = precision > 99 ? 100 : precision * 10 + f->bytes[*at] - '0';
    }
    if (*at >= f->length)
        return gp_tpl_fail(r, "incomplete format");
    char kind = f->bytes[(*at)++];
    if (kind == '%' && precision < 0 && name.kind == TPL_MISSING)
        return gp_tpl_put_part(r, b, f, *at - 1, *at);
    return percent_value(r, p, name.kind == TPL_MISSING ? NULL : name.string, &v) &&
           put_conversion(r, b, kind, precision, v);
}

bool gp_tpl_percent(struct tpl_run *r, const struct tpl_string *f, struct tpl_value values,
                    struct tpl_value *out)
{
    struct percent p = {.values = values};
    struct tpl_buffer b = {0};

    if (f->markup)
        return gp_tpl_fail(r, "format of a safe string");
    for (size_t at = 0; at < f->length;) {
        const char *percent = memchr(f->bytes + at, '%', f->length - at);
        size_t end = percent ? (size_t)(percent - f->bytes) : f->length;
        if (!gp_tpl_put_part(r, &b, f, at, end))
            return false;
        at = end + 1;
        if (percent && !percent_one(r, &b, f, &at, &p))
            return false;
    }
    size_t count = values.kind == TPL_TUPLE ? values.list->count : 1;
    bool lenient = p.mapping || values.kind == TPL_DICT || values.kind == TPL_LIST;
    if (p.used < count && !lenient)
        return gp_tpl_fail(r, "not all arguments converted during string formatting");
    return gp_tpl_buffer_string(r, &b, out);
}
