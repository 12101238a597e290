/* Template source to tokens: data, the marks around code, and code.
 *
 * All whitespace control happens here, as jinja2 does it with trim_blocks and lstrip_blocks on and
 * keep_trailing_newline off: the newline behind a block is dropped, blanks between the start of a
 * line and a block are dropped, '-' drops all whitespace on its side and '+' keeps what would be
 * dropped. */
#include "text/template/template_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lexer {
    struct tpl_build *b;
    const char *at;
    const char *end;
    uint32_t line;
    bool line_start; /* the last match ended with a newline, or nothing has been matched */
    char brackets[TPL_NESTING];
    uint32_t bracket_count;
};

static bool looking_at(const struct lexer *l, const char *text)
{
    size_t n = strlen(text);

    return (size_t)(l->end - l->at) >= n && memcmp(l->at, text, n) == 0;
}

/* Move on over n bytes, counting lines. */
static void skip(struct lexer *l, size_t n)
{
    for (size_t i = 0; i < n; i++)
        l->line += l->at[i] == '\n';
    if (n > 0)
        l->line_start = l->at[n - 1] == '\n';
    l->at += n;
}

/* Bytes of whitespace (Python's idea of it) from p on. */
static size_t space_bytes(const char *p, const char *end)
{
    const char *start = p;

    while (p < end) {
        size_t bytes;
        int32_t c = gp_tpl_char_at(p, (size_t)(end - p), &bytes);
        if (!gp_tpl_char_is_space(c))
            break;
        p += bytes;
    }
    return (size_t)(p - start);
}

static size_t space_bytes_before(const char *start, const char *p)
{
    const char *end = p;

    while (p > start) {
        const char *q = p - 1;
        size_t bytes;
        while (q > start && ((unsigned char)*q & 0xC0) == 0x80)
            q--;
        if (!gp_tpl_char_is_space(gp_tpl_char_at(q, (size_t)(p - q), &bytes)))
            break;
        p = q;
    }
    return (size_t)(end - p);
}

static struct tpl_token *add_token(struct lexer *l, enum tpl_token_kind kind)
{
    struct tpl_build *b = l->b;

    if (b->token_count == b->token_capacity) {
        size_t capacity = b->token_capacity ? 2 * b->token_capacity : 256;
        struct tpl_token *grown = gp_tpl_build_alloc(b, capacity * sizeof *grown);
        if (!grown)
            return NULL;
        if (b->token_count > 0)
            memcpy(grown, b->tokens, b->token_count * sizeof *grown);
        b->tokens = grown;
        b->token_capacity = capacity;
    }
    struct tpl_token *t = &b->tokens[b->token_count++];
    memset(t, 0, sizeof *t);
    t->kind = kind;
    t->line = l->line;
    return t;
}

static const struct tpl_string *new_string(struct tpl_build *b, const char *bytes, size_t length)
{
    struct tpl_string *s = gp_tpl_build_alloc(b, sizeof *s);
    char *copy = s ? gp_tpl_build_alloc(b, length + 1) : NULL;

    if (!copy)
        return NULL;
    memcpy(copy, bytes, length);
    s->bytes = copy;
    s->length = length;
    s->trusted = true;
    return s;
}

static bool add_data(struct lexer *l, const char *bytes, size_t length)
{
    if (length == 0)
        return true;
    struct tpl_token *t = add_token(l, TPL_T_DATA);
    return t && (t->text = new_string(l->b, bytes, length));
}

/* Add the text before a tag, cut as the tag's sign and the rules for blocks say. */
static bool add_data_before(struct lexer *l, const char *tag, char sign, bool variable)
{
    size_t length = (size_t)(tag - l->at);

    if (sign == '-') {
        length -= space_bytes_before(l->at, tag);
    } else if (sign != '+' && !variable) {
        size_t line = length;
        while (line > 0 && l->at[line - 1] != '\n')
            line--;
        if ((line > 0 || l->line_start) && space_bytes(l->at + line, tag) == length - line)
            length = line;
    }
    return add_data(l, l->at, length);
}

/* The end of a block or comment, `close` being its two characters: "+%}", "-%}" and the whitespace
 * behind, or "%}" and one newline.  0 when it is not here. */
static size_t block_end_bytes(const char *p, const char *end, const char *close)
{
    size_t left = (size_t)(end - p);

    if (left >= 3 && p[0] == '+' && memcmp(p + 1, close, 2) == 0)
        return 3;
    if (left >= 3 && p[0] == '-' && memcmp(p + 1, close, 2) == 0)
        return 3 + space_bytes(p + 3, end);
    if (left >= 2 && memcmp(p, close, 2) == 0)
        return left >= 3 && p[2] == '\n' ? 3 : 2;
    return 0;
}

/* "{% raw %}" in any spacing, at p; its bytes, or 0. */
static size_t raw_begin_bytes(const char *p, const char *end)
{
    const char *start = p;

    p += 2;
    if (p < end && (*p == '-' || *p == '+'))
        p++;
    p += space_bytes(p, end);
    if (end - p < 3 || memcmp(p, "raw", 3) != 0)
        return 0;
    p += 3;
    p += space_bytes(p, end);
    if (end - p >= 3 && memcmp(p, "-%}", 3) == 0)
        return (size_t)(p + 3 + space_bytes(p + 3, end) - start);
    if (end - p >= 2 && memcmp(p, "%}", 2) == 0)
        return (size_t)(p + 2 - start);
    return 0;
}

/* "{% endraw %}" in any spacing, at p; its bytes and sign, or 0. */
static size_t raw_end_bytes(const char *p, const char *end, char *sign)
{
    const char *start = p;

    p += 2;
    *sign = 0;
    if (p < end && (*p == '-' || *p == '+'))
        *sign = *p++;
    p += space_bytes(p, end);
    if (end - p < 6 || memcmp(p, "endraw", 6) != 0)
        return 0;
    p += 6;
    p += space_bytes(p, end);
    size_t close = block_end_bytes(p, end, "%}");
    return close ? (size_t)(p - start) + close : 0;
}

static bool lex_raw(struct lexer *l, uint32_t line)
{
    for (const char *p = l->at; l->end - p >= 2; p++) {
        char sign;
        size_t bytes = memcmp(p, "{%", 2) == 0 ? raw_end_bytes(p, l->end, &sign) : 0;
        if (bytes == 0)
            continue;
        if (!add_data_before(l, p, sign, false))
            return false;
        skip(l, (size_t)(p - l->at) + bytes);
        return true;
    }
    return gp_tpl_refuse(l->b, GP_ECORRUPT, line, "raw block without an end");
}

static bool lex_comment(struct lexer *l, uint32_t line)
{
    for (const char *p = l->at; p < l->end; p++) {
        size_t bytes = block_end_bytes(p, l->end, "#}");
        if (bytes == 0)
            continue;
        skip(l, (size_t)(p - l->at) + bytes);
        return true;
    }
    return gp_tpl_refuse(l->b, GP_ECORRUPT, line, "comment without an end");
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static int digit_value(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return 16;
}

/* Digits of a base with single '_' between them, copied without the '_'; bytes of source. */
static size_t scan_digits(const char *p, const char *end, int base, bool lead, char *out,
                          size_t out_bytes, size_t *out_length)
{
    const char *start = p;

    while (p < end) {
        const char *q = p;
        if (*q == '_' && (p > start || lead))
            q++;
        if (q >= end || digit_value(*q) >= base)
            break;
        if (*out_length < out_bytes)
            out[*out_length] = *q;
        (*out_length)++;
        p = q + 1;
    }
    return (size_t)(p - start);
}

#define NUMBER_BYTES 400u

/* jinja2's float: a fraction, an exponent, or both.  0 bytes when this is no float. */
static size_t scan_float(const struct lexer *l, char *text, size_t *length)
{
    const char *p = l->at;

    if (p[-1] == '.') /* never the first byte: a tag is in front */
        return 0;
    *length = 0;
    size_t whole = scan_digits(p, l->end, 10, false, text, NUMBER_BYTES, length);
    if (whole == 0)
        return 0;
    p += whole;
    bool fraction = false;
    if (l->end - p >= 2 && p[0] == '.' && is_digit(p[1])) {
        if (*length < NUMBER_BYTES)
            text[*length] = '.';
        (*length)++;
        p += 1 + scan_digits(p + 1, l->end, 10, false, text, NUMBER_BYTES, length);
        fraction = true;
    }
    const char *e = p;
    if (e < l->end && (*e == 'e' || *e == 'E')) {
        e++;
        char sign = 0;
        if (e < l->end && (*e == '+' || *e == '-'))
            sign = *e++;
        if (e < l->end && is_digit(*e)) {
            if (*length + 2 <= NUMBER_BYTES) {
                text[(*length)++] = 'e';
                if (sign)
                    text[(*length)++] = sign;
            } else {
                *length = NUMBER_BYTES + 1;
            }
            p = e + scan_digits(e, l->end, 10, false, text, NUMBER_BYTES, length);
            return (size_t)(p - l->at);
        }
    }
    return fraction ? (size_t)(p - l->at) : 0;
}

static size_t scan_integer(const struct lexer *l, char *text, size_t *length, int *base)
{
    const char *p = l->at;
    char kind = l->end - p >= 2 && *p == '0' ? (char)(p[1] | 0x20) : 0;

    *base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
    *length = 0;
    if (*base != 10) {
        size_t bytes = scan_digits(p + 2, l->end, *base, true, text, NUMBER_BYTES, length);
        if (bytes > 0)
            return bytes + 2;
        *base = 10;
    }
    if (*p == '0')
        return scan_digits(p, l->end, 1, false, text, NUMBER_BYTES, length);
    return scan_digits(p, l->end, 10, false, text, NUMBER_BYTES, length);
}

static bool lex_number(struct lexer *l)
{
    char text[NUMBER_BYTES + 1];
    size_t length;
    int base;
    size_t bytes = scan_float(l, text, &length);
    bool real = bytes > 0;

    if (!real)
        bytes = scan_integer(l, text, &length, &base);
    if (length > NUMBER_BYTES)
        return gp_tpl_refuse(l->b, GP_EINVAL, l->line, "number of %zu digits", length);
    text[length] = '\0';
    struct tpl_token *t = add_token(l, real ? TPL_T_FLOAT : TPL_T_INTEGER);
    if (!t)
        return false;
    if (real) {
        t->real = strtod(text, NULL);
    } else {
        errno = 0;
        t->integer = strtoll(text, NULL, base);
        if (errno == ERANGE)
            return gp_tpl_refuse(l->b, GP_EINVAL, l->line, "integer beyond 64 bits");
    }
    skip(l, bytes);
    return true;
}

/* \x.., \u...., \U........: the code point, or -1. */
static int32_t hex_escape(const char **p, const char *end, int digits)
{
    int64_t c = 0;

    for (int i = 0; i < digits; i++, (*p)++) {
        if (*p >= end || digit_value(**p) > 15)
            return -1;
        c = c * 16 + digit_value(**p);
    }
    return c > 0x10FFFF || (c >= 0xD800 && c < 0xE000) ? -1 : (int32_t)c;
}

/* What a backslash and the character behind it stand for; `*p` is behind the backslash.  Python's
 * table; an unknown letter keeps its backslash. */
static bool decode_escape(struct lexer *l, const char **p, const char *end, char *out, size_t *n)
{
    static const char plain[] = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
    int32_t c = -1;
    char k = *(*p)++;

    if (k == '\n')
        return true;
    for (size_t i = 0; i + 1 < sizeof plain; i += 2)
        if (plain[i] == k) {
            out[(*n)++] = plain[i + 1];
            return true;
        }
    if (k >= '0' && k <= '7') {
        c = k - '0';
        for (int i = 0; i < 2 && *p < end && **p >= '0' && **p <= '7'; i++)
            c = c * 8 + (*(*p)++ - '0');
    } else if (k == 'x' || k == 'u' || k == 'U') {
        c = hex_escape(p, end, k == 'x' ? 2 : k == 'u' ? 4 : 8);
        if (c < 0)
            return gp_tpl_refuse(l->b, GP_ECORRUPT, l->line, "bad \\%c escape in a string", k);
    } else if (k == 'N') {
        return gp_tpl_refuse(l->b, GP_EINVAL, l->line, "\\N escape in a string");
    } else if ((unsigned char)k >= 0x80) {
        /* jinja2 turns non-ASCII characters into escapes before it reads escapes, so that this
         * backslash takes the one of the escape and its letters stay. */
        size_t bytes;
        (*p)--;
        c = gp_tpl_char_at(*p, (size_t)(end - *p), &bytes);
        *p += bytes;
        *n += (size_t)snprintf(out + *n, 12,
                               c < 0x100     ? "\\x%02x"
                               : c < 0x10000 ? "\\u%04x"
                                             : "\\U%08x",
                               (unsigned)c);
        return true;
    } else {
        out[(*n)++] = '\\';
        out[(*n)++] = k;
        return true;
    }
    *n += gp_tpl_char_write(c, out + *n);
    return true;
}

static bool lex_string(struct lexer *l)
{
    char quote = *l->at;
    const char *p = l->at + 1;

    while (p < l->end && *p != quote)
        p += *p == '\\' && l->end - p >= 2 ? 2 : 1;
    if (p >= l->end)
        return gp_tpl_refuse(l->b, GP_ECORRUPT, l->line, "string without an end");

    /* No escape is longer than what it stands for, but for a backslash before a non-ASCII
     * character: three bytes that become six, or five that become ten. */
    const char *end = p;
    char *text = gp_tpl_build_alloc(l->b, (size_t)(end - l->at) * 2 + 16);
    struct tpl_string *s = text ? gp_tpl_build_alloc(l->b, sizeof *s) : NULL;
    size_t n = 0;
    if (!s)
        return false;
    for (p = l->at + 1; p < end;) {
        if (*p != '\\') {
            text[n++] = *p++;
            continue;
        }
        p++;
        if (!decode_escape(l, &p, end, text, &n))
            return false;
    }
    text[n] = '\0';
    s->bytes = text;
    s->length = n;
    s->trusted = true;
    struct tpl_token *t = add_token(l, TPL_T_STRING);
    if (!t)
        return false;
    t->text = s;
    skip(l, (size_t)(end + 1 - l->at));
    return true;
}

static bool lex_operator(struct lexer *l)
{
    static const char pairs[] = "//**==!=>=<=";
    static const char singles[] = "+-/*%~[](){}><=.:|,;";
    uint32_t op = 0;

    for (size_t i = 0; i + 1 < sizeof pairs; i += 2)
        if (l->end - l->at >= 2 && memcmp(l->at, pairs + i, 2) == 0)
            op = TPL_OP2(pairs[i], pairs[i + 1]);
    char c = *l->at;
    if (op == 0 && c != '\0' && strchr(singles, c))
        op = (uint32_t)c;
    if (op == 0)
        return gp_tpl_refuse(l->b, GP_ECORRUPT, l->line, "unexpected character '%c'",
                             c > 32 && c < 127 ? c : '?');
    if (op == '(' || op == '[' || op == '{') {
        if (l->bracket_count == TPL_NESTING)
            return gp_tpl_refuse(l->b, GP_EINVAL, l->line, "brackets nested more than %u deep",
                                 TPL_NESTING);
        l->brackets[l->bracket_count++] = op == '(' ? ')' : op == '[' ? ']' : '}';
    } else if (op == ')' || op == ']' || op == '}') {
        if (l->bracket_count == 0 || l->brackets[l->bracket_count - 1] != c)
            return gp_tpl_refuse(l->b, GP_ECORRUPT, l->line, "unexpected '%c'", c);
        l->bracket_count--;
    }
    struct tpl_token *t = add_token(l, TPL_T_OPERATOR);
    if (!t)
        return false;
    t->op = op;
    skip(l, op > 0xFF ? 2 : 1);
    return true;
}

/* Code up to the mark that ends it. */
static bool lex_code(struct lexer *l, bool block)
{
    for (l->bracket_count = 0;;) {
        if (l->at >= l->end)
            return true; /* the parser misses the end mark and says so */
        size_t close = 0;
        if (l->bracket_count == 0) {
            if (block)
                close = block_end_bytes(l->at, l->end, "%}");
            else if (looking_at(l, "-}}"))
                close = 3 + space_bytes(l->at + 3, l->end);
            else if (looking_at(l, "}}"))
                close = 2;
        }
        if (close > 0) {
            if (!add_token(l, block ? TPL_T_BLOCK_END : TPL_T_VARIABLE_END))
                return false;
            skip(l, close);
            return true;
        }
        size_t space = space_bytes(l->at, l->end);
        bool ok = true;
        if (space > 0) {
            skip(l, space);
        } else if (is_digit(*l->at)) {
            ok = lex_number(l);
        } else if (is_word(*l->at)) {
            const char *p = l->at;
            while (p < l->end && is_word(*p))
                p++;
            struct tpl_token *t = add_token(l, TPL_T_NAME);
            ok = t && (t->text = gp_tpl_intern(l->b, l->at, (size_t)(p - l->at)));
            skip(l, (size_t)(p - l->at));
        } else if (*l->at == '\'' || *l->at == '"') {
            ok = lex_string(l);
        } else {
            ok = lex_operator(l);
        }
        if (!ok)
            return false;
    }
}

/* The next "{%", "{{" or "{#", or the end. */
static const char *find_tag(const struct lexer *l)
{
    for (const char *p = l->at; l->end - p >= 2; p++)
        if (p[0] == '{' && (p[1] == '%' || p[1] == '{' || p[1] == '#'))
            return p;
    return l->end;
}

static bool lex_tag(struct lexer *l, const char *tag)
{
    char kind = tag[1];
    char sign = l->end - tag >= 3 && (tag[2] == '-' || tag[2] == '+') ? tag[2] : 0;
    size_t raw = kind == '%' ? raw_begin_bytes(tag, l->end) : 0;

    if (!add_data_before(l, tag, sign, kind == '{'))
        return false;
    skip(l, (size_t)(tag - l->at));
    uint32_t line = l->line;
    if (raw > 0) {
        skip(l, raw);
        return lex_raw(l, line);
    }
    if (kind == '#') {
        skip(l, sign ? 3 : 2);
        return lex_comment(l, line);
    }
    if (!add_token(l, kind == '%' ? TPL_T_BLOCK_BEGIN : TPL_T_VARIABLE_BEGIN))
        return false;
    skip(l, sign ? 3 : 2);
    return lex_code(l, kind == '%');
}

/* "\r\n" and "\r" become "\n", and one newline at the very end goes. */
static char *normalize(struct tpl_build *b, const char *source, size_t length, size_t *out_length)
{
    char *text = gp_tpl_build_alloc(b, length + 1);
    size_t n = 0;

    if (!text)
        return NULL;
    for (size_t i = 0; i < length; i++) {
        if (source[i] == '\r') {
            text[n++] = '\n';
            i += i + 1 < length && source[i + 1] == '\n';
        } else {
            text[n++] = source[i];
        }
    }
    if (n > 0 && text[n - 1] == '\n')
        n--;
    text[n] = '\0';
    *out_length = n;
    return text;
}

bool gp_tpl_lex(struct tpl_build *b, const char *source, size_t length)
{
    size_t bad;

    if (length > TPL_SOURCE_BYTES)
        return gp_tpl_refuse(b, GP_EINVAL, 0, "template of %zu bytes; at most %u", length,
                             TPL_SOURCE_BYTES);
    if (!gp_tpl_utf8_valid(source, length, &bad)) {
        uint32_t line = 1;
        for (size_t i = 0; i < bad; i++)
            line += source[i] == '\n';
        return gp_tpl_refuse(b, GP_ECORRUPT, line, "bytes that are not UTF-8");
    }
    size_t n;
    char *text = normalize(b, source, length, &n);
    if (!text)
        return false;
    struct lexer l = {.b = b, .at = text, .end = text + n, .line = 1, .line_start = true};
    while (l.at < l.end) {
        const char *tag = find_tag(&l);
        if (tag < l.end) {
            if (!lex_tag(&l, tag))
                return false;
            continue;
        }
        if (!add_data(&l, l.at, (size_t)(l.end - l.at)))
            return false;
        skip(&l, (size_t)(l.end - l.at));
    }
    return add_token(&l, TPL_T_EOF) != NULL;
}
