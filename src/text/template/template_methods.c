/* Methods of strings, dicts, lists and tuples, and which names Python has beside those. */
#include "text/template/template_internal.h"

#include <string.h>
#include <utf8proc.h>

/* ---- arguments ---- */

static bool want_string(struct tpl_run *r, struct tpl_value v, const struct tpl_string **out)
{
    if (v.kind != TPL_STRING)
        return gp_tpl_fail(r, "must be str, not %s", gp_tpl_type(v));
    *out = v.string;
    return true;
}

/* ---- strings ---- */

static bool strip_sides(struct tpl_run *r, const struct tpl_args *a, bool left, bool right,
                        struct tpl_value *out)
{
    const struct tpl_string *chars = NULL;

    if (a->v[0].kind != TPL_MISSING && a->v[0].kind != TPL_NONE && !want_string(r, a->v[0], &chars))
        return false;
    return gp_tpl_strip(r, a->self.string, chars, left, right, out);
}

static bool m_strip(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return strip_sides(r, a, true, true, out);
}

static bool m_lstrip(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return strip_sides(r, a, true, false, out);
}

static bool m_rstrip(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return strip_sides(r, a, false, true, out);
}

static bool add_part(struct tpl_run *r, struct tpl_list *list, const struct tpl_string *s,
                     size_t begin, size_t end)
{
    struct tpl_value part;

    return gp_tpl_string_part(r, s, begin, end, &part) && gp_tpl_list_add(r, list, part);
}

/* Runs of whitespace separate.  Behind the last cut that is allowed, the rest stays as it is. */
static bool split_space(struct tpl_run *r, const struct tpl_string *s, int64_t max,
                        struct tpl_list *list)
{
    size_t at = 0, bytes;

    for (;;) {
        while (at < s->length &&
               gp_tpl_char_is_space(gp_tpl_char_at(s->bytes + at, s->length - at, &bytes)))
            at += bytes;
        if (at >= s->length)
            return true;
        size_t begin = at;
        if (max >= 0 && max-- == 0)
            return add_part(r, list, s, begin, s->length);
        while (at < s->length &&
               !gp_tpl_char_is_space(gp_tpl_char_at(s->bytes + at, s->length - at, &bytes)))
            at += bytes;
        if (!add_part(r, list, s, begin, at))
            return false;
    }
}

static bool split_args(struct tpl_run *r, const struct tpl_args *a, const struct tpl_string **sep,
                       int64_t *max)
{
    *sep = NULL;
    if (!gp_tpl_want_int(r, a->v[1], -1, max) || !gp_tpl_step(r, a->self.string->length))
        return false;
    if (a->v[0].kind == TPL_MISSING || a->v[0].kind == TPL_NONE)
        return true;
    if (!want_string(r, a->v[0], sep))
        return false;
    return (*sep)->length > 0 || gp_tpl_fail(r, "empty separator");
}

static bool m_split(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    const struct tpl_string *s = a->self.string, *sep;
    int64_t max;
    size_t at = 0;

    if (!split_args(r, a, &sep, &max) || !gp_tpl_list_new(r, TPL_LIST, 0, out))
        return false;
    if (!sep)
        return split_space(r, s, max, out->list);
    for (; max != 0; max--) {
        const char *hit = memmem(s->bytes + at, s->length - at, sep->bytes, sep->length);
        if (!hit)
            break;
        size_t found = (size_t)(hit - s->bytes);
        if (!add_part(r, out->list, s, at, found))
            return false;
        at = found + sep->length;
    }
    return add_part(r, out->list, s, at, s->length);
}

/* The last place of `sub` in the first `end` bytes; `end` when there is none. */
static bool find_last(struct tpl_run *r, const struct tpl_string *s, size_t end,
                      const struct tpl_string *sub, size_t *found)
{
    *found = end;
    if (sub->length > end)
        return true;
    for (size_t at = end - sub->length + 1; at-- > 0;) {
        if (!gp_tpl_step(r, sub->length))
            return false;
        if (memcmp(s->bytes + at, sub->bytes, sub->length) == 0) {
            *found = at;
            return true;
        }
    }
    return true;
}

static bool m_rsplit(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    const struct tpl_string *s = a->self.string, *sep;
    int64_t max;
    size_t end = s->length;

    if (!split_args(r, a, &sep, &max) || !gp_tpl_list_new(r, TPL_LIST, 0, out))
        return false;
    if (!sep && max < 0)
        return split_space(r, s, max, out->list);
    if (!sep)
        return gp_tpl_fail(r, "rsplit at whitespace with a limit is not supported");
    for (; max != 0; max--) {
        size_t found;
        if (!find_last(r, s, end, sep, &found))
            return false;
        if (found == end)
            break;
        if (!add_part(r, out->list, s, found + sep->length, end))
            return false;
        end = found;
    }
    if (!add_part(r, out->list, s, 0, end))
        return false;
    struct tpl_list *list = out->list;
    for (size_t i = 0; i < list->count / 2; i++) {
        struct tpl_value swap = list->items[i];
        list->items[i] = list->items[list->count - 1 - i];
        list->items[list->count - 1 - i] = swap;
    }
    return true;
}

static bool is_line_end(int32_t c)
{
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

bool gp_tpl_splitlines(struct tpl_run *r, const struct tpl_string *s, bool keep,
                       struct tpl_value *out)
{
    size_t begin = 0, bytes;

    if (!gp_tpl_list_new(r, TPL_LIST, 0, out) || !gp_tpl_step(r, s->length))
        return false;
    for (size_t at = 0; at < s->length; at += bytes) {
        int32_t c = gp_tpl_char_at(s->bytes + at, s->length - at, &bytes);
        if (!is_line_end(c))
            continue;
        if (c == '\r' && at + 1 < s->length && s->bytes[at + 1] == '\n')
            bytes = 2;
        if (!add_part(r, out->list, s, begin, keep ? at + bytes : at))
            return false;
        begin = at + bytes;
    }
    return begin >= s->length || add_part(r, out->list, s, begin, s->length);
}

static bool m_splitlines(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    int64_t keep;

    return gp_tpl_want_int(r, a->v[0], 0, &keep) &&
           gp_tpl_splitlines(r, a->self.string, keep != 0, out);
}

/* An affix, or a tuple of them, at the start or end. */
static bool has_affix(struct tpl_run *r, const struct tpl_args *a, bool end, struct tpl_value *out)
{
    const struct tpl_string *s = a->self.string, *affix;
    bool tuple = a->v[0].kind == TPL_TUPLE, found = false;
    size_t count = tuple ? a->v[0].list->count : 1;

    for (size_t i = 0; i < count && !found; i++) {
        if (!want_string(r, tuple ? a->v[0].list->items[i] : a->v[0], &affix))
            return false;
        if (affix->length > s->length)
            continue;
        const char *at = s->bytes + (end ? s->length - affix->length : 0);
        found = memcmp(at, affix->bytes, affix->length) == 0;
    }
    *out = gp_tpl_bool(found);
    return true;
}

static bool m_startswith(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return has_affix(r, a, false, out);
}

static bool m_endswith(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return has_affix(r, a, true, out);
}

static bool m_replace(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    const struct tpl_string *old, *with;
    int64_t count;

    return want_string(r, a->v[0], &old) && want_string(r, a->v[1], &with) &&
           gp_tpl_want_int(r, a->v[2], -1, &count) &&
           gp_tpl_replace(r, a->self.string, old, with, count, out);
}

static bool m_upper(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return gp_tpl_upper(r, a->self.string, out);
}

static bool m_lower(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return gp_tpl_lower(r, a->self.string, out);
}

static bool m_capitalize(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return gp_tpl_capitalize(r, a->self.string, out);
}

/* Python's title(): a letter behind a letter is lower case, any other is upper case. */
static bool m_title(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    const struct tpl_string *s = a->self.string;
    struct tpl_buffer b = {0};
    bool inside = false;

    for (size_t i = 0; i < s->length; i++) {
        unsigned char c = (unsigned char)s->bytes[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (c >= 0x80)
            return gp_tpl_fail(r, "title() of text beyond ASCII is not supported");
        char turned = (char)(letter ? (inside ? c | 0x20 : c & ~0x20) : c);
        if (!gp_tpl_put(r, &b, &turned, 1, s->marks ? s->marks[i] : s->trusted))
            return false;
        inside = letter;
    }
    return gp_tpl_buffer_string(r, &b, out);
}

/* Where the argument lies, in characters; -1 for nowhere. */
static bool find_sub(struct tpl_run *r, const struct tpl_args *a, bool last, int64_t *index)
{
    const struct tpl_string *s = a->self.string, *sub;
    size_t at = s->length;

    if (!want_string(r, a->v[0], &sub) || !gp_tpl_step(r, s->length))
        return false;
    *index = -1;
    if (sub->length == 0) {
        *index = last ? (int64_t)gp_tpl_string_chars(s) : 0;
        return true;
    }
    if (last) {
        if (!find_last(r, s, s->length, sub, &at))
            return false;
    } else {
        const char *hit = memmem(s->bytes, s->length, sub->bytes, sub->length);
        at = hit ? (size_t)(hit - s->bytes) : s->length;
    }
    if (at < s->length) {
        struct tpl_string before = {.bytes = s->bytes, .length = at};
        *index = (int64_t)gp_tpl_string_chars(&before);
    }
    return true;
}

static bool find_or_fail(struct tpl_run *r, const struct tpl_args *a, bool last, bool must,
                         struct tpl_value *out)
{
    int64_t index;

    if (!find_sub(r, a, last, &index))
        return false;
    if (index < 0 && must)
        return gp_tpl_fail(r, "substring not found");
    *out = gp_tpl_int(index);
    return true;
}

static bool m_find(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return find_or_fail(r, a, false, false, out);
}

static bool m_rfind(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return find_or_fail(r, a, true, false, out);
}

static bool m_index(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return find_or_fail(r, a, false, true, out);
}

static bool m_rindex(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return find_or_fail(r, a, true, true, out);
}

static bool m_count(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    const struct tpl_string *s = a->self.string, *sub;
    int64_t count = 0;

    if (!want_string(r, a->v[0], &sub) || !gp_tpl_step(r, s->length))
        return false;
    if (sub->length == 0)
        count = (int64_t)gp_tpl_string_chars(s) + 1;
    for (size_t at = 0; sub->length > 0; count++) {
        const char *hit = memmem(s->bytes + at, s->length - at, sub->bytes, sub->length);
        if (!hit)
            break;
        at = (size_t)(hit - s->bytes) + sub->length;
    }
    *out = gp_tpl_int(count);
    return true;
}

static bool m_join(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    struct tpl_buffer b = {0};
    struct tpl_value list;

    if (!gp_tpl_to_list(r, a->v[0], TPL_LIST, &list))
        return false;
    for (size_t i = 0; i < list.list->count; i++) {
        const struct tpl_string *item;
        if (!want_string(r, list.list->items[i], &item) ||
            (i > 0 && !gp_tpl_put_string(r, &b, a->self.string)) || !gp_tpl_put_string(r, &b, item))
            return false;
    }
    return gp_tpl_buffer_string(r, &b, out);
}

static bool put_fill(struct tpl_run *r, struct tpl_buffer *b, const struct tpl_string *fill,
                     int64_t times)
{
    for (; times > 0; times--)
        if (!gp_tpl_put_string(r, b, fill))
            return false;
    return true;
}

/* Padding to a width: `left` characters of it in front. */
static bool justify(struct tpl_run *r, const struct tpl_args *a, int side, struct tpl_value *out)
{
    static const struct tpl_string space = {.bytes = " ", .length = 1, .trusted = true};
    const struct tpl_string *fill = &space;
    struct tpl_buffer b = {0};
    int64_t width, pad;

    if (!gp_tpl_want_int(r, a->v[0], 0, &width) ||
        (a->v[1].kind != TPL_MISSING && !want_string(r, a->v[1], &fill)))
        return false;
    if (gp_tpl_string_chars(fill) != 1)
        return gp_tpl_fail(r, "the fill character must be exactly one character long");
    pad = width - (int64_t)gp_tpl_string_chars(a->self.string);
    if (pad < 0)
        pad = 0;
    int64_t left = side < 0 ? 0 : side > 0 ? pad : pad / 2 + (pad & width & 1);
    return put_fill(r, &b, fill, left) && gp_tpl_put_string(r, &b, a->self.string) &&
           put_fill(r, &b, fill, pad - left) && gp_tpl_buffer_string(r, &b, out);
}

static bool m_ljust(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return justify(r, a, -1, out);
}

static bool m_rjust(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return justify(r, a, 1, out);
}

static bool m_center(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return justify(r, a, 0, out);
}

/* (before, separator, after); without the separator the whole is at one end. */
static bool partition(struct tpl_run *r, const struct tpl_args *a, bool last, struct tpl_value *out)
{
    static const struct tpl_string empty = {.bytes = "", .trusted = true};
    const struct tpl_string *s = a->self.string, *sep;
    size_t at = s->length;

    if (!want_string(r, a->v[0], &sep) || !gp_tpl_list_new(r, TPL_TUPLE, 3, out))
        return false;
    if (sep->length == 0)
        return gp_tpl_fail(r, "empty separator");
    if (last) {
        if (!find_last(r, s, s->length, sep, &at))
            return false;
    } else {
        const char *hit = memmem(s->bytes, s->length, sep->bytes, sep->length);
        at = hit ? (size_t)(hit - s->bytes) : s->length;
    }
    bool found = at < s->length;
    struct tpl_value nothing = gp_tpl_string_value(&empty), whole = gp_tpl_string_value(s);
    if (found)
        return add_part(r, out->list, s, 0, at) &&
               add_part(r, out->list, s, at, at + sep->length) &&
               add_part(r, out->list, s, at + sep->length, s->length);
    return gp_tpl_list_add(r, out->list, last ? nothing : whole) &&
           gp_tpl_list_add(r, out->list, nothing) &&
           gp_tpl_list_add(r, out->list, last ? whole : nothing);
}

static bool m_partition(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return partition(r, a, false, out);
}

static bool m_rpartition(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return partition(r, a, true, out);
}

static bool m_removeprefix(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    const struct tpl_string *s = a->self.string, *fix;

    if (!want_string(r, a->v[0], &fix))
        return false;
    bool there = fix->length <= s->length && memcmp(s->bytes, fix->bytes, fix->length) == 0;
    return gp_tpl_string_part(r, s, there ? fix->length : 0, s->length, out);
}

static bool m_removesuffix(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    const struct tpl_string *s = a->self.string, *fix;

    if (!want_string(r, a->v[0], &fix))
        return false;
    bool there = fix->length <= s->length &&
                 memcmp(s->bytes + s->length - fix->length, fix->bytes, fix->length) == 0;
    return gp_tpl_string_part(r, s, 0, s->length - (there ? fix->length : 0), out);
}

enum class {
    CLASS_ALPHA,
    CLASS_DIGIT,
    CLASS_ALNUM,
    CLASS_SPACE,
};

static bool all_of(struct tpl_run *r, const struct tpl_args *a, enum class class,
                   struct tpl_value *out)
{
    const struct tpl_string *s = a->self.string;
    bool all = s->length > 0;

    if (!gp_tpl_step(r, s->length))
        return false;
    for (size_t at = 0, bytes; at < s->length && all; at += bytes) {
        int32_t c = gp_tpl_char_at(s->bytes + at, s->length - at, &bytes);
        utf8proc_category_t k = utf8proc_category(c);
        bool letter = k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
        bool digit = k == UTF8PROC_CATEGORY_ND;
        /* Whether letter-like and other numbers count differs from number to number. */
        bool odd = k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
        if (odd && (class == CLASS_DIGIT || class == CLASS_ALNUM))
            return gp_tpl_fail(r, "class of U+%04X is not supported", (unsigned)c);
        all = class == CLASS_SPACE
                  ? gp_tpl_char_is_space(c)
                  : (letter && class != CLASS_DIGIT) || (digit && class != CLASS_ALPHA);
    }
    *out = gp_tpl_bool(all);
    return true;
}

static bool m_isalpha(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return all_of(r, a, CLASS_ALPHA, out);
}

static bool m_isdigit(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return all_of(r, a, CLASS_DIGIT, out);
}

static bool m_isalnum(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return all_of(r, a, CLASS_ALNUM, out);
}

static bool m_isspace(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return all_of(r, a, CLASS_SPACE, out);
}

/* All letters of one case, and at least one. */
bool gp_tpl_cased(struct tpl_run *r, const struct tpl_string *s, bool upper, bool *out)
{
    bool any = false;

    *out = false;
    for (size_t i = 0; i < s->length; i++) {
        char c = s->bytes[i];
        if ((unsigned char)c >= 0x80)
            return gp_tpl_fail(r, "letter case of text beyond ASCII is not supported");
        if (upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z')
            return true;
        any |= upper ? c >= 'A' && c <= 'Z' : c >= 'a' && c <= 'z';
    }
    *out = any;
    return true;
}

static bool m_isupper(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    bool yes;

    if (!gp_tpl_cased(r, a->self.string, true, &yes))
        return false;
    *out = gp_tpl_bool(yes);
    return true;
}

static bool m_islower(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    bool yes;

    if (!gp_tpl_cased(r, a->self.string, false, &yes))
        return false;
    *out = gp_tpl_bool(yes);
    return true;
}

/* The value of a replacement field: {}, {0} or {name}, without conversion and format. */
static bool format_field(struct tpl_run *r, const struct tpl_args *a, const struct tpl_string *f,
                         size_t begin, size_t end, int64_t *next, struct tpl_value *out)
{
    bool digits = begin < end;
    int64_t index = 0;

    for (size_t i = begin; i < end; i++) {
        char c = f->bytes[i];
        if (c == '.' || c == '[' || c == ':' || c == '!' || c == '{')
            return gp_tpl_fail(r, "format field with '%c' is not supported", c);
        digits = digits && c >= '0' && c <= '9' && index < 100000;
        index = digits ? index * 10 + (c - '0') : 0;
    }
    if (begin == end || digits) {
        bool automatic = begin == end;
        if (automatic ? *next < 0 : *next > 0)
            return gp_tpl_fail(r, "format fields with and without numbers");
        if (automatic)
            index = (*next)++;
        else
            *next = -1;
        if ((size_t)index >= a->count)
            return gp_tpl_fail(r, "format field %lld has no argument", (long long)index);
        *out = a->values[index];
        return true;
    }
    for (size_t i = 0; i < a->keyword_count; i++)
        if (a->names[i]->length == end - begin &&
            memcmp(a->names[i]->bytes, f->bytes + begin, end - begin) == 0) {
            *out = a->keyword_values[i];
            return true;
        }
    return gp_tpl_fail(r, "format field without an argument");
}

static bool m_format(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    const struct tpl_string *f = a->self.string;
    struct tpl_buffer b = {0};
    int64_t next = 0;

    for (size_t at = 0; at < f->length;) {
        char c = f->bytes[at];
        struct tpl_value v;
        if (c != '{' && c != '}') {
            size_t end = at;
            while (end < f->length && f->bytes[end] != '{' && f->bytes[end] != '}')
                end++;
            if (!gp_tpl_put_part(r, &b, f, at, end))
                return false;
            at = end;
            continue;
        }
        if (at + 1 < f->length && f->bytes[at + 1] == c) {
            if (!gp_tpl_put_part(r, &b, f, at, at + 1))
                return false;
            at += 2;
            continue;
        }
        const char *close = c == '{' ? memchr(f->bytes + at, '}', f->length - at) : NULL;
        if (!close)
            return gp_tpl_fail(r, "single '%c' in a format string", c);
        size_t end = (size_t)(close - f->bytes);
        if (!format_field(r, a, f, at + 1, end, &next, &v) || !gp_tpl_print(r, &b, v))
            return false;
        at = end + 1;
    }
    return gp_tpl_buffer_string(r, &b, out);
}

/* ---- dicts, lists, tuples ---- */

static bool m_get(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    if (!gp_tpl_dict_get(r, a->self.dict, a->v[0], out))
        return false;
    if (out->kind == TPL_MISSING)
        *out = a->v[1].kind == TPL_MISSING ? gp_tpl_none() : a->v[1];
    return true;
}

static bool new_view(struct tpl_run *r, const struct tpl_args *a, enum tpl_view_kind kind,
                     struct tpl_value *out)
{
    struct tpl_view *view = gp_tpl_take(r, sizeof *view);

    if (!view)
        return false;
    *view = (struct tpl_view){a->self.dict, kind};
    *out = (struct tpl_value){.kind = TPL_VIEW, .view = view};
    return true;
}

static bool m_keys(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return new_view(r, a, TPL_KEYS, out);
}

static bool m_values(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return new_view(r, a, TPL_VALUES, out);
}

static bool m_items(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return new_view(r, a, TPL_ITEMS, out);
}

static bool list_find(struct tpl_run *r, const struct tpl_args *a, bool all, struct tpl_value *out)
{
    const struct tpl_list *list = a->self.list;
    int64_t count = 0;

    for (size_t i = 0; i < list->count; i++) {
        bool equal;
        if (!gp_tpl_equal(r, list->items[i], a->v[0], &equal))
            return false;
        if (equal && !all) {
            *out = gp_tpl_int((int64_t)i);
            return true;
        }
        count += equal;
    }
    if (!all)
        return gp_tpl_fail(r, "value is not in the list");
    *out = gp_tpl_int(count);
    return true;
}

static bool m_list_index(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return list_find(r, a, false, out);
}

static bool m_list_count(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return list_find(r, a, true, out);
}

/* ---- tables ---- */

static const struct tpl_builtin string_methods[] = {
    {"capitalize", m_capitalize, 0, false, {NULL}},
    {"center", m_center, 1, false, {"*width", "*fillchar"}},
    {"count", m_count, 1, false, {"*sub"}},
    {"endswith", m_endswith, 1, false, {"*suffix"}},
    {"find", m_find, 1, false, {"*sub"}},
    {"format", m_format, 0, true, {NULL}},
    {"index", m_index, 1, false, {"*sub"}},
    {"isalnum", m_isalnum, 0, false, {NULL}},
    {"isalpha", m_isalpha, 0, false, {NULL}},
    {"isdigit", m_isdigit, 0, false, {NULL}},
    {"islower", m_islower, 0, false, {NULL}},
    {"isspace", m_isspace, 0, false, {NULL}},
    {"isupper", m_isupper, 0, false, {NULL}},
    {"join", m_join, 1, false, {"*iterable"}},
    {"ljust", m_ljust, 1, false, {"*width", "*fillchar"}},
    {"lower", m_lower, 0, false, {NULL}},
    {"lstrip", m_lstrip, 0, false, {"*chars"}},
    {"partition", m_partition, 1, false, {"*sep"}},
    {"removeprefix", m_removeprefix, 1, false, {"*prefix"}},
    {"removesuffix", m_removesuffix, 1, false, {"*suffix"}},
    {"replace", m_replace, 2, false, {"*old", "*new", "*count"}},
    {"rfind", m_rfind, 1, false, {"*sub"}},
    {"rindex", m_rindex, 1, false, {"*sub"}},
    {"rjust", m_rjust, 1, false, {"*width", "*fillchar"}},
    {"rpartition", m_rpartition, 1, false, {"*sep"}},
    {"rsplit", m_rsplit, 0, false, {"sep", "maxsplit"}},
    {"rstrip", m_rstrip, 0, false, {"*chars"}},
    {"split", m_split, 0, false, {"sep", "maxsplit"}},
    {"splitlines", m_splitlines, 0, false, {"keepends"}},
    {"startswith", m_startswith, 1, false, {"*prefix"}},
    {"strip", m_strip, 0, false, {"*chars"}},
    {"title", m_title, 0, false, {NULL}},
    {"upper", m_upper, 0, false, {NULL}},
    {NULL},
};

static const struct tpl_builtin dict_methods[] = {
    {"get", m_get, 1, false, {"*key", "*default"}},
    {"items", m_items, 0, false, {NULL}},
    {"keys", m_keys, 0, false, {NULL}},
    {"values", m_values, 0, false, {NULL}},
    {NULL},
};

static const struct tpl_builtin list_methods[] = {
    {"count", m_list_count, 1, false, {"*value"}},
    {"index", m_list_index, 1, false, {"*value"}},
    {NULL},
};

/* What a safe string can do without becoming another kind of text. */
static const char *const markup_methods =
    " startswith endswith strip lstrip rstrip find rfind index "
    "rindex count isalnum isalpha isdigit islower isspace "
    "isupper ";

/* Names that Python's types have as well, between blanks. */
static const char *const dict_mutating = " clear pop popitem setdefault update ";
static const char *const dict_others = " copy fromkeys ";
static const char *const list_mutating = " append clear pop reverse insert sort extend remove ";
static const char *const list_others = " copy ";
static const char *const string_others =
    " casefold encode expandtabs format_map isascii isdecimal isidentifier isnumeric isprintable "
    "istitle maketrans swapcase translate zfill ";
static const char *const number_others =
    " as_integer_ratio bit_count bit_length conjugate denominator from_bytes fromhex hex imag "
    "is_integer numerator real to_bytes ";
static const char *const other_others =
    " start stop step count index mapping isdisjoint send throw close gi_code gi_frame gi_running "
    "gi_yieldfrom name arguments caller catch_kwargs catch_varargs explicit_caller ";

static bool in_names(const char *names, const struct tpl_string *name)
{
    size_t n = name->length;

    for (const char *p = names; *++p; p += strcspn(p, " "))
        if (strcspn(p, " ") == n && memcmp(p, name->bytes, n) == 0)
            return true;
    return false;
}

static const struct tpl_builtin *find_in(const struct tpl_builtin *table,
                                         const struct tpl_string *name)
{
    for (; table->name; table++)
        if (gp_tpl_is(name, table->name))
            return table;
    return NULL;
}

enum tpl_attribute gp_tpl_find_method(enum tpl_kind kind, const struct tpl_string *name,
                                      const struct tpl_builtin **out)
{
    const char *mutating = " ", *others = other_others;
    const struct tpl_builtin *table = NULL;

    if (kind == TPL_STRING) {
        table = string_methods;
        others = string_others;
    } else if (kind == TPL_DICT) {
        table = dict_methods;
        mutating = dict_mutating;
        others = dict_others;
    } else if (kind == TPL_LIST || kind == TPL_TUPLE) {
        table = list_methods;
        mutating = kind == TPL_LIST ? list_mutating : " ";
        others = kind == TPL_LIST ? list_others : " ";
    } else if (kind == TPL_BOOL || kind == TPL_INT || kind == TPL_FLOAT) {
        others = number_others;
    } else if (kind == TPL_NONE) {
        others = " ";
    }
    *out = table ? find_in(table, name) : NULL;
    if (*out)
        return TPL_A_METHOD;
    if (in_names(mutating, name))
        return TPL_A_MUTATING;
    return in_names(others, name) ? TPL_A_UNSUPPORTED : TPL_A_NONE;
}

bool gp_tpl_markup_method(const char *name)
{
    const struct tpl_string s = {.bytes = name, .length = strlen(name)};

    return in_names(markup_methods, &s);
}

bool gp_tpl_method_known(const struct tpl_string *name)
{
    return find_in(string_methods, name) || find_in(dict_methods, name) ||
           find_in(list_methods, name) || in_names(dict_mutating, name) ||
           in_names(list_mutating, name) || gp_tpl_is(name, "cycle") || gp_tpl_is(name, "changed");
}
