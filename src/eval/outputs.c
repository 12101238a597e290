#include "eval/outputs.h"

#include <stdint.h>
#include <string.h>

/* More digits of an exponent than any output has a use for. */
#define EXPONENT_DIGITS_MAX 9u

struct text {
    const char *at;
    size_t length;
};

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static struct text strip(struct text t)
{
    while (t.length > 0 && is_blank(t.at[t.length - 1]))
        t.length--;
    while (t.length > 0 && is_blank(*t.at))
        t.at++, t.length--;
    return t;
}

/* The next line of *rest, stripped; false: there is none. */
static bool next_line(struct text *rest, struct text *line)
{
    if (!rest->at)
        return false;
    const char *end = rest->length > 0 ? memchr(rest->at, '\n', rest->length) : NULL;
    size_t length = end ? (size_t)(end - rest->at) : rest->length;

    *line = strip((struct text){rest->at, length});
    if (end)
        *rest = (struct text){end + 1, rest->length - length - 1};
    else
        *rest = (struct text){NULL, 0};
    return true;
}

static bool next_word(struct text *rest, struct text *word)
{
    *rest = strip(*rest);
    if (rest->length == 0)
        return false;
    size_t length = 0;
    while (length < rest->length && !is_blank(rest->at[length]))
        length++;
    *word = (struct text){rest->at, length};
    *rest = (struct text){rest->at + length, rest->length - length};
    return true;
}

/* ---- decimal numbers ---- */

/* 0.d1 d2 ... times 10^exponent, d1 and the last digit not 0; none: it is zero. */
struct decimal {
    bool negative;
    struct text digits; /* a point may stand among them */
    int64_t exponent;
};

static bool read_exponent(struct text t, int64_t *out)
{
    bool negative = t.length > 0 && *t.at == '-';
    int64_t value = 0;

    if (t.length > 0 && (*t.at == '-' || *t.at == '+'))
        t.at++, t.length--;
    if (t.length == 0 || t.length > EXPONENT_DIGITS_MAX)
        return false;
    for (size_t i = 0; i < t.length; i++) {
        if (!is_digit(t.at[i]))
            return false;
        value = value * 10 + (t.at[i] - '0');
    }
    *out = negative ? -value : value;
    return true;
}

/* Zeros at both ends say nothing but where the point is. */
static void trim(struct decimal *d, int64_t before_point)
{
    struct text *t = &d->digits;

    while (t->length > 0 && (*t->at == '0' || *t->at == '.')) {
        before_point -= *t->at == '0';
        t->at++, t->length--;
    }
    while (t->length > 0 && (t->at[t->length - 1] == '0' || t->at[t->length - 1] == '.'))
        t->length--;
    d->exponent = t->length > 0 ? d->exponent + before_point : 0;
    d->negative = d->negative && t->length > 0;
}

static bool read_decimal(struct text t, struct decimal *out)
{
    struct decimal d = {.negative = t.length > 0 && *t.at == '-'};
    int64_t digits = 0, before_point = -1;
    size_t i;

    if (t.length > 0 && (*t.at == '-' || *t.at == '+'))
        t.at++, t.length--;
    for (i = 0; i < t.length && (is_digit(t.at[i]) || t.at[i] == '.'); i++) {
        if (is_digit(t.at[i]))
            digits++;
        else if (before_point < 0)
            before_point = digits;
        else
            return false;
    }
    if (digits == 0)
        return false;
    d.digits = (struct text){t.at, i};
    if (i < t.length &&
        ((t.at[i] != 'e' && t.at[i] != 'E') ||
         !read_exponent((struct text){t.at + i + 1, t.length - i - 1}, &d.exponent)))
        return false;
    trim(&d, before_point < 0 ? digits : before_point);
    *out = d;
    return true;
}

static bool next_digit(struct text *t, char *digit)
{
    if (t->length > 0 && *t->at == '.')
        t->at++, t->length--;
    if (t->length == 0)
        return false;
    *digit = *t->at;
    t->at++, t->length--;
    return true;
}

static bool same_decimal(struct decimal a, struct decimal b)
{
    if (a.negative != b.negative || a.exponent != b.exponent)
        return false;
    for (;;) {
        char left = 0, right = 0;
        bool more = next_digit(&a.digits, &left);

        if (more != next_digit(&b.digits, &right))
            return false;
        if (!more || left != right)
            return !more;
    }
}

/* ---- lines ---- */

static bool same_line(struct text a, struct text b)
{
    if (a.length == b.length && (a.length == 0 || memcmp(a.at, b.at, a.length) == 0))
        return true;
    for (;;) {
        struct text left = {0}, right = {0};
        struct decimal x, y;
        bool more = next_word(&a, &left);

        if (more != next_word(&b, &right))
            return false;
        if (!more)
            return true;
        if (!read_decimal(left, &x) || !read_decimal(right, &y) || !same_decimal(x, y))
            return false;
    }
}

bool gp_output_same(const char *a, size_t a_length, const char *b, size_t b_length)
{
    struct text left = strip((struct text){a, a_length}), right = strip((struct text){b, b_length});
    struct text x, y;

    for (;;) {
        bool more = next_line(&left, &x);

        if (more != next_line(&right, &y))
            return false;
        if (!more)
            return true;
        if (!same_line(x, y))
            return false;
    }
}

/* ---- values ---- */

static bool is_number(const json_t *value)
{
    return json_is_number(value) || json_is_boolean(value);
}

static json_int_t whole(const json_t *value)
{
    return json_is_boolean(value) ? json_is_true(value) : json_integer_value(value);
}

static bool same_number(const json_t *a, const json_t *b)
{
    if (!json_is_real(a) && !json_is_real(b))
        return whole(a) == whole(b);
    double x = json_is_real(a) ? json_real_value(a) : (double)whole(a);
    double y = json_is_real(b) ? json_real_value(b) : (double)whole(b);
    return x == y;
}

static bool same_array(const json_t *a, const json_t *b)
{
    bool same = json_array_size(a) == json_array_size(b);

    for (size_t i = 0; same && i < json_array_size(a); i++)
        same = gp_value_same(json_array_get(a, i), json_array_get(b, i));
    return same;
}

static bool same_object(const json_t *a, const json_t *b)
{
    bool same = json_object_size(a) == json_object_size(b);
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)a, key, value)
    {
        const json_t *other = json_object_get(b, key);
        same = same && other && gp_value_same(value, other);
    }
    return same;
}

/* As deep as jansson reads, which has a limit. */
bool gp_value_same(const json_t *a, const json_t *b)
{
    if (is_number(a) && is_number(b))
        return same_number(a, b);
    if (json_is_array(a) && json_is_array(b))
        return same_array(a, b);
    if (json_is_object(a) && json_is_object(b))
        return same_object(a, b);
    return json_equal(a, b);
}

json_t *gp_value_read(const char *text, size_t length, json_error_t *why)
{
    const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_t *value = json_loadb(text, length, flags, why);

    if (!value && json_error_code(why) == json_error_numeric_overflow)
        value = json_loadb(text, length, flags | JSON_DECODE_INT_AS_REAL, why);
    return value;
}
