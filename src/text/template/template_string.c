/* Strings and buffers: UTF-8 whose every byte remembers whether the template or a message wrote it.
 *
 * Parts of a string share its bytes and marks; joins copy.  All is linear in the bytes touched, and
 * charged to the render's steps. */
#include "text/template/template_internal.h"

#include "base/assert.h"
#include "text/utf8.h"

#include <string.h>

/* ---- UTF-8 ---- */

/* The code point at `at`, and its bytes.  A byte that starts none counts as one character, so that
 * every caller moves on. */
int32_t gp_tpl_char_at(const char *at, size_t left, size_t *bytes)
{
    int n = gp_utf8_scan((const unsigned char *)at, left);

    *bytes = n > 0 ? (size_t)n : 1;
    return n > 0 ? (int32_t)gp_utf8_decode((const unsigned char *)at, n) : 0xFFFD;
}

size_t gp_tpl_char_bytes(const char *at, size_t left)
{
    size_t bytes;

    gp_tpl_char_at(at, left, &bytes);
    return bytes;
}

size_t gp_tpl_char_write(int32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3F));
        out[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3F));
    out[2] = (char)(0x80 | (c >> 6 & 0x3F));
    out[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

bool gp_tpl_utf8_valid(const char *bytes, size_t length, size_t *bad)
{
    for (size_t i = 0; i < length;) {
        int n = gp_utf8_scan((const unsigned char *)bytes + i, length - i);
        if (n <= 0) {
            *bad = i;
            return false;
        }
        i += (size_t)n;
    }
    return true;
}

/* str.isspace() of Python. */
bool gp_tpl_char_is_space(int32_t c)
{
    if (c < 0x80)
        return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

size_t gp_tpl_string_chars(const struct tpl_string *s)
{
    size_t count = 0;

    for (size_t i = 0; i < s->length; i++)
        count += ((unsigned char)s->bytes[i] & 0xC0) != 0x80;
    return count;
}

size_t gp_tpl_string_offset(const struct tpl_string *s, size_t char_index)
{
    size_t at = 0;

    for (; at < s->length; at++)
        if (((unsigned char)s->bytes[at] & 0xC0) != 0x80 && char_index-- == 0)
            break;
    return at;
}

bool gp_tpl_is(const struct tpl_string *s, const char *text)
{
    size_t n = strlen(text);

    return s->length == n && memcmp(s->bytes, text, n) == 0;
}

bool gp_tpl_string_equal(const struct tpl_string *a, const struct tpl_string *b)
{
    return a->length == b->length && (a->length == 0 || memcmp(a->bytes, b->bytes, a->length) == 0);
}

/* ---- making strings ---- */

bool gp_tpl_string_new(struct tpl_run *r, const char *bytes, size_t length, bool trusted,
                       struct tpl_value *out)
{
    struct tpl_string *s = gp_tpl_take(r, sizeof *s);
    char *copy = s ? gp_tpl_take(r, length + 1) : NULL;

    if (!copy || !gp_tpl_step(r, length))
        return false;
    if (length > 0)
        memcpy(copy, bytes, length);
    *s = (struct tpl_string){.bytes = copy, .length = length, .trusted = trusted};
    *out = gp_tpl_string_value(s);
    return true;
}

bool gp_tpl_string_part(struct tpl_run *r, const struct tpl_string *s, size_t begin, size_t end,
                        struct tpl_value *out)
{
    gp_assert(begin <= end && end <= s->length);
    if (begin == 0 && end == s->length) {
        *out = gp_tpl_string_value(s);
        return true;
    }
    struct tpl_string *part = gp_tpl_take(r, sizeof *part);
    if (!part)
        return false;
    *part = *s;
    part->bytes = s->bytes + begin;
    part->length = end - begin;
    if (s->marks)
        part->marks = s->marks + begin;
    *out = gp_tpl_string_value(part);
    return true;
}

static void copy_marks(uint8_t *to, const struct tpl_string *s, size_t begin, size_t length)
{
    if (s->marks)
        memcpy(to, s->marks + begin, length);
    else
        memset(to, s->trusted, length);
}

/* The marks of `length` bytes, or NULL and *trusted when they are all alike. */
static const uint8_t *uniform(const uint8_t *marks, size_t length, bool *trusted)
{
    *trusted = length > 0 && marks[0];
    return length == 0 || !memchr(marks, !marks[0], length) ? NULL : marks;
}

bool gp_tpl_string_join(struct tpl_run *r, const struct tpl_string *const *parts, size_t count,
                        struct tpl_value *out)
{
    size_t length = 0;
    bool trusted = false, untrusted = false;

    for (size_t i = 0; i < count; i++) {
        if (parts[i]->length > TPL_MEMORY - length)
            return gp_tpl_fail(r, "string of more than %u MiB", TPL_MEMORY >> 20);
        length += parts[i]->length;
        trusted |= parts[i]->length > 0 && (parts[i]->marks || parts[i]->trusted);
        untrusted |= parts[i]->length > 0 && (parts[i]->marks || !parts[i]->trusted);
    }
    struct tpl_string *s = gp_tpl_take(r, sizeof *s);
    char *bytes = s ? gp_tpl_take(r, length + 1) : NULL;
    uint8_t *marks = bytes && trusted && untrusted ? gp_tpl_take(r, length) : NULL;
    if (!bytes || (trusted && untrusted && !marks) || !gp_tpl_step(r, length))
        return false;
    *s = (struct tpl_string){.bytes = bytes, .marks = marks, .length = length, .trusted = trusted};
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (parts[i]->length == 0)
            continue;
        memcpy(bytes + at, parts[i]->bytes, parts[i]->length);
        if (marks)
            copy_marks(marks + at, parts[i], 0, parts[i]->length);
        at += parts[i]->length;
    }
    *out = gp_tpl_string_value(s);
    return true;
}

/* Every step-th character from character `start` on, `count` of them. */
bool gp_tpl_string_slice(struct tpl_run *r, const struct tpl_string *s, int64_t start, int64_t step,
                         int64_t count, struct tpl_value *out)
{
    struct tpl_buffer b = {0};
    size_t at = gp_tpl_string_offset(s, (size_t)start);

    if (!gp_tpl_step(r, s->length))
        return false;
    if (step == 1) {
        struct tpl_string rest = {.bytes = s->bytes + at, .length = s->length - at};
        size_t end = at + gp_tpl_string_offset(&rest, (size_t)count);
        return gp_tpl_string_part(r, s, count > 0 ? at : 0, count > 0 ? end : 0, out);
    }
    for (int64_t i = 0; i < count; i++) {
        size_t bytes = gp_tpl_char_bytes(s->bytes + at, s->length - at);
        if (!gp_tpl_put_part(r, &b, s, at, at + bytes))
            return false;
        if (i + 1 == count)
            break;
        for (int64_t k = 0; k < step; k++)
            at += gp_tpl_char_bytes(s->bytes + at, s->length - at);
        for (int64_t k = 0; k > step; k--)
            do
                at--;
            while (((unsigned char)s->bytes[at] & 0xC0) == 0x80);
    }
    if (!gp_tpl_buffer_string(r, &b, out))
        return false;
    if (s->markup && out->string->length > 0) {
        struct tpl_string *marked = gp_tpl_take(r, sizeof *marked);
        if (!marked)
            return false;
        *marked = *out->string;
        marked->markup = true;
        out->string = marked;
    }
    return true;
}

/* HTML escaping, as markupsafe does it; a character's entity has the character's origin. */
bool gp_tpl_string_escape(struct tpl_run *r, const struct tpl_string *s, struct tpl_value *out)
{
    struct tpl_buffer b = {0};
    size_t done = 0;

    for (size_t i = 0; !s->markup && i < s->length; i++) {
        const char *entity = NULL;
        switch (s->bytes[i]) {
        case '&':
            entity = "&amp;";
            break;
        case '<':
            entity = "&lt;";
            break;
        case '>':
            entity = "&gt;";
            break;
        case '\'':
            entity = "&#39;";
            break;
        case '"':
            entity = "&#34;";
            break;
        default:
            continue;
        }
        if (!gp_tpl_put_part(r, &b, s, done, i) ||
            !gp_tpl_put(r, &b, entity, strlen(entity), s->marks ? s->marks[i] : s->trusted))
            return false;
        done = i + 1;
    }
    if (!gp_tpl_put_part(r, &b, s, done, s->length) || !gp_tpl_buffer_string(r, &b, out))
        return false;
    struct tpl_string *marked = gp_tpl_take(r, sizeof *marked);
    if (!marked)
        return false;
    *marked = *out->string;
    marked->markup = true;
    *out = gp_tpl_string_value(marked);
    return true;
}

/* ---- buffers ---- */

/* Room for `length` more bytes. */
static bool reserve(struct tpl_run *r, struct tpl_buffer *b, size_t length)
{
    if (length > GP_TEMPLATE_OUTPUT - b->length)
        return gp_tpl_fail(r, "output of more than %u MiB", GP_TEMPLATE_OUTPUT >> 20);
    if (b->capacity - b->length >= length)
        return gp_tpl_step(r, length);
    size_t capacity = b->capacity < 64 ? 64 : b->capacity;
    while (capacity - b->length < length)
        capacity *= 2;
    if (capacity > GP_TEMPLATE_OUTPUT)
        capacity = GP_TEMPLATE_OUTPUT;
    char *bytes = gp_tpl_take(r, capacity);
    uint8_t *marks = bytes ? gp_tpl_take(r, capacity) : NULL;
    if (!marks)
        return false;
    if (b->length > 0) {
        memcpy(bytes, b->bytes, b->length);
        memcpy(marks, b->marks, b->length);
    }
    b->bytes = bytes;
    b->marks = marks;
    b->capacity = capacity;
    return gp_tpl_step(r, length);
}

bool gp_tpl_put(struct tpl_run *r, struct tpl_buffer *b, const char *bytes, size_t length,
                bool trusted)
{
    if (length == 0)
        return true;
    if (!reserve(r, b, length))
        return false;
    memcpy(b->bytes + b->length, bytes, length);
    memset(b->marks + b->length, trusted, length);
    b->length += length;
    return true;
}

bool gp_tpl_put_part(struct tpl_run *r, struct tpl_buffer *b, const struct tpl_string *s,
                     size_t begin, size_t end)
{
    size_t length = end - begin;

    gp_assert(begin <= end && end <= s->length);
    if (length == 0)
        return true;
    if (!reserve(r, b, length))
        return false;
    memcpy(b->bytes + b->length, s->bytes + begin, length);
    copy_marks(b->marks + b->length, s, begin, length);
    b->length += length;
    return true;
}

bool gp_tpl_put_string(struct tpl_run *r, struct tpl_buffer *b, const struct tpl_string *s)
{
    return gp_tpl_put_part(r, b, s, 0, s->length);
}

/* What the buffer holds, without a copy: nobody may write to it afterwards. */
bool gp_tpl_buffer_string(struct tpl_run *r, const struct tpl_buffer *b, struct tpl_value *out)
{
    struct tpl_string *s = gp_tpl_take(r, sizeof *s);
    bool trusted;

    if (!s)
        return false;
    const uint8_t *marks = uniform(b->marks, b->length, &trusted);
    *s = (struct tpl_string){.bytes = b->length > 0 ? b->bytes : "",
                             .marks = marks,
                             .length = b->length,
                             .trusted = trusted};
    *out = gp_tpl_string_value(s);
    return true;
}
