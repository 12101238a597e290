/* `pattern`: a regular expression inside a JSON string.
 *
 * The part of ECMA-262 that needs no memory: literals, classes, groups, alternatives, quantifiers,
 * ^ at the beginning and $ at the end of an alternative.  \d \w \s and their opposites know ASCII
 * alone, since the dialects do not agree on the rest.  What is not known is refused by name. */
#include <string.h>

#include "base/assert.h"
#include "text/grammar/grammar_internal.h"
#include "text/utf8.h"

#define POINT_MAX  0x10ffffu
#define RANGES_MAX 128u
#define REPEAT_MAX 65535u
#define NO_MAX     UINT32_MAX

struct range {
    uint32_t low, high;
};

struct points {
    uint32_t count;
    struct range at[RANGES_MAX];
    bool ascii; /* the complement is taken within ASCII */
};

struct pattern {
    struct gp_builder *b;
    const uint8_t *text;
    size_t length, at;
    unsigned depth;
    bool dry; /* only to see where something ends */
    /* The part that a class at this place became: quantifiers come back to it. */
    uint16_t parts[GP_LIMIT_PATTERN_BYTES];
};

static void refuse(struct pattern *p, const char *why)
{
    gp_build_fail(p->b, GP_EINVAL, "pattern: at byte %zu: %s", p->at, why);
    p->at = p->length;
}

static bool at_end(const struct pattern *p)
{
    return p->b->rc || p->at >= p->length;
}

static bool take(struct pattern *p, char c)
{
    if (at_end(p) || p->text[p->at] != (uint8_t)c)
        return false;
    p->at++;
    return true;
}

static uint32_t next_point(struct pattern *p)
{
    if (at_end(p)) {
        refuse(p, "ends too soon");
        return 0;
    }
    int n = gp_utf8_scan(p->text + p->at, p->length - p->at);

    if (n <= 0) {
        refuse(p, "not UTF-8");
        return 0;
    }
    uint32_t point = gp_utf8_decode(p->text + p->at, n);

    p->at += (size_t)n;
    return point;
}

/* ---- sets of characters ---- */

static void add(struct pattern *p, struct points *set, uint32_t low, uint32_t high)
{
    if (set->count == RANGES_MAX) {
        refuse(p, "a class of too many parts");
        return;
    }
    set->at[set->count++] = (struct range){low, high};
}

/* Sort by where ranges begin, and join those that touch. */
static void settle(struct points *set)
{
    uint32_t kept = 0;

    for (uint32_t i = 1; i < set->count; i++)
        for (uint32_t k = i; k > 0 && set->at[k].low < set->at[k - 1].low; k--) {
            struct range later = set->at[k];

            set->at[k] = set->at[k - 1];
            set->at[k - 1] = later;
        }
    for (uint32_t i = 0; i < set->count; i++) {
        if (kept > 0 && set->at[i].low <= set->at[kept - 1].high + 1) {
            if (set->at[i].high > set->at[kept - 1].high)
                set->at[kept - 1].high = set->at[i].high;
        } else {
            set->at[kept++] = set->at[i];
        }
    }
    set->count = kept;
}

static void complement(struct pattern *p, struct points *set, uint32_t last)
{
    struct points out = {.ascii = set->ascii};
    uint32_t low = 0;

    settle(set);
    for (uint32_t i = 0; i < set->count && low <= last; i++) {
        if (set->at[i].low > low)
            add(p, &out, low, (set->at[i].low - 1 < last ? set->at[i].low - 1 : last));
        low = set->at[i].high + 1;
    }
    if (low <= last)
        add(p, &out, low, last);
    *set = out;
}

static void add_named(struct pattern *p, struct points *set, char name)
{
    struct points named = {0};

    switch (name | 0x20) {
    case 'd':
        add(p, &named, '0', '9');
        break;
    case 'w':
        add(p, &named, '0', '9');
        add(p, &named, 'A', 'Z');
        add(p, &named, '_', '_');
        add(p, &named, 'a', 'z');
        break;
    default:
        add(p, &named, '\t', '\r');
        add(p, &named, ' ', ' ');
        break;
    }
    if (!(name & 0x20))
        complement(p, &named, 0x7e);
    for (uint32_t i = 0; i < named.count; i++)
        add(p, set, named.at[i].low, named.at[i].high);
    set->ascii = true;
}

static uint32_t hex_point(struct pattern *p, unsigned digits)
{
    uint32_t point = 0;

    for (; digits > 0; digits--) {
        uint32_t c = next_point(p), lower = c | 0x20;

        if (c >= '0' && c <= '9')
            point = point * 16 + (c - '0');
        else if (lower >= 'a' && lower <= 'f')
            point = point * 16 + (lower - 'a' + 10);
        else
            refuse(p, "not a hexadecimal digit");
    }
    if (point >= 0xd800 && point <= 0xdfff)
        refuse(p, "half of a pair of escapes");
    return point;
}

/* Behind a backslash: one character, or a named set, which is added. */
static bool escaped(struct pattern *p, struct points *set, uint32_t *point)
{
    uint32_t c = next_point(p);

    if (c < 0x80 && c && strchr("dDwWsS", (int)c)) {
        add_named(p, set, (char)c);
        return false;
    }
    switch (c) {
    case 't':
        *point = '\t';
        return true;
    case 'n':
        *point = '\n';
        return true;
    case 'r':
        *point = '\r';
        return true;
    case 'f':
        *point = '\f';
        return true;
    case 'x':
        *point = hex_point(p, 2);
        return true;
    case 'u':
        *point = hex_point(p, 4);
        return true;
    }
    if (c >= 0x80 || (c | 0x20) - 'a' < 26 || c - '0' < 10)
        refuse(p, "an escape that is not known here");
    *point = c;
    return true;
}

/* Behind the opening bracket. */
static void read_class(struct pattern *p, struct points *set)
{
    bool negated = take(p, '^');

    while (!at_end(p) && p->text[p->at] != ']') {
        uint32_t low, high;
        bool single = take(p, '\\') ? escaped(p, set, &low) : (low = next_point(p), true);

        if (!single)
            continue;
        high = low;
        if (p->at + 1 < p->length && p->text[p->at] == '-' && p->text[p->at + 1] != ']') {
            p->at++;
            if (take(p, '\\') ? !escaped(p, set, &high) : (high = next_point(p), false))
                refuse(p, "a range that ends with a set");
            if (high < low)
                refuse(p, "a range from high to low");
        }
        add(p, set, low, high);
    }
    if (!take(p, ']'))
        refuse(p, "a class without its end");
    if (negated)
        complement(p, set, set->ascii ? 0x7e : POINT_MAX);
    else
        settle(set);
}

/* ---- as JSON ---- */

static uint16_t state(struct pattern *p)
{
    return p->dry ? 0 : gp_build_state(p->b);
}

static void empty(struct pattern *p, uint16_t from, uint16_t to)
{
    if (!p->dry)
        gp_build_empty(p->b, from, to);
}

/* Characters that stand in a string as they are; those that do not, as short escapes where there
 * are any. */
static void build_range(struct gp_builder *b, uint16_t from, uint16_t escape, uint32_t low,
                        uint32_t high, uint16_t to)
{
    static const char controls[] = "\b\f\n\r\t\"\\", letters[] = "bfnrt\"\\";
    static const struct range plain[] = {
        {0x20, 0x21}, {0x23, 0x5b}, {0x5d, 0xd7ff}, {0xe000, POINT_MAX}};

    for (unsigned i = 0; controls[i]; i++)
        if (low <= (uint8_t)controls[i] && (uint8_t)controls[i] <= high)
            gp_build_bytes(b, escape, (uint8_t)letters[i], (uint8_t)letters[i], to);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        uint32_t a = low > plain[i].low ? low : plain[i].low;
        uint32_t z = high < plain[i].high ? high : plain[i].high;

        if (a <= z)
            gp_part_points(b, from, a, z, to);
    }
}

static void build_points(struct gp_builder *b, uint16_t from, const struct points *set, uint16_t to)
{
    uint16_t escape = gp_build_state(b);

    gp_build_one_of(b, from, "\\", escape);
    for (uint32_t i = 0; i < set->count; i++)
        build_range(b, from, escape, set->at[i].low, set->at[i].high, to);
}

/* ---- the expression ---- */

static void alternatives(struct pattern *p, uint16_t from, uint16_t to);

static void group(struct pattern *p, uint16_t from, uint16_t to)
{
    if (take(p, '?') && !take(p, ':')) {
        refuse(p, "a group of this kind is not known here");
        return;
    }
    if (++p->depth > GP_LIMIT_PATTERN_DEPTH) {
        refuse(p, "groups nested too deep");
        return;
    }
    alternatives(p, from, to);
    p->depth--;
    if (!take(p, ')'))
        refuse(p, "a group without its end");
}

static void read_atom_points(struct pattern *p, struct points *set)
{
    uint32_t point;

    if (take(p, '[')) {
        read_class(p, set);
    } else if (take(p, '.')) {
        add(p, set, 0, '\n' - 1);
        add(p, set, '\n' + 1, '\r' - 1);
        add(p, set, '\r' + 1, 0x2027);
        add(p, set, 0x202a, POINT_MAX);
    } else if (take(p, '\\')) {
        if (escaped(p, set, &point))
            add(p, set, point, point);
    } else {
        point = next_point(p);
        if (point < 0x80 && point && strchr("*+?{}", (int)point))
            refuse(p, "a quantifier with nothing before it");
        if (point == '^' || point == '$')
            refuse(p, "an anchor that is not at an end");
        add(p, set, point, point);
    }
}

static void atom(struct pattern *p, uint16_t from, uint16_t to)
{
    size_t begin = p->at;
    struct points set = {0};

    if (take(p, '(')) {
        group(p, from, to);
        return;
    }
    read_atom_points(p, &set);
    if (p->dry || p->b->rc)
        return;
    if (!p->parts[begin]) {
        uint16_t part = gp_build_state(p->b);

        p->parts[begin] = part;
        build_points(p->b, part, &set, gp_build_end(p->b));
    }
    gp_build_call(p->b, from, p->parts[begin], to);
}

static uint32_t count(struct pattern *p)
{
    uint32_t value = 0;
    size_t begin = p->at;

    while (!at_end(p) && p->text[p->at] >= '0' && p->text[p->at] <= '9') {
        value = value * 10 + (p->text[p->at++] - '0');
        if (value > REPEAT_MAX)
            refuse(p, "too many repetitions");
    }
    if (p->at == begin)
        refuse(p, "not a number of repetitions");
    return value;
}

static void quantifier(struct pattern *p, uint32_t *min, uint32_t *max)
{
    *min = *max = 1;
    if (take(p, '*')) {
        *min = 0;
        *max = NO_MAX;
    } else if (take(p, '+')) {
        *max = NO_MAX;
    } else if (take(p, '?')) {
        *min = 0;
    } else if (take(p, '{')) {
        *min = *max = count(p);
        if (take(p, ','))
            *max = !at_end(p) && p->text[p->at] == '}' ? NO_MAX : count(p);
        if (!take(p, '}'))
            refuse(p, "a quantifier without its end");
        if (*max < *min)
            refuse(p, "a quantifier from high to low");
    } else {
        return;
    }
    /* A lazy one matches the same texts. */
    (void)take(p, '?');
}

/* An atom as often as it is wanted; it is read again for each time. */
static void piece(struct pattern *p, uint16_t from, uint16_t to)
{
    size_t begin = p->at, end;
    bool dry = p->dry;
    uint32_t min, max;

    p->dry = true;
    atom(p, 0, 0);
    p->dry = dry;
    quantifier(p, &min, &max);
    end = p->at;
    for (uint32_t i = 0; !p->dry && !p->b->rc && i < (max == NO_MAX ? min + 1 : max); i++) {
        uint16_t next = state(p);

        if (i >= min)
            empty(p, from, to);
        p->at = begin;
        if (i >= min && max == NO_MAX) {
            /* Nothing may lead back to where others begin. */
            uint16_t loop = state(p);

            empty(p, from, loop);
            empty(p, loop, next);
            atom(p, loop, loop);
        } else {
            atom(p, from, next);
        }
        from = next;
    }
    empty(p, from, to);
    p->at = end;
}

static bool ends_sequence(const struct pattern *p)
{
    return at_end(p) || p->text[p->at] == '|' || p->text[p->at] == ')';
}

/* What the anchors of an alternative leave open may be anything. */
static void open_side(struct pattern *p, uint16_t from, uint16_t to)
{
    uint16_t loop = state(p);

    if (!p->dry)
        gp_build_call(p->b, loop, gp_part_character(p->b), loop);
    empty(p, from, loop);
    empty(p, loop, to);
}

static void sequence(struct pattern *p, uint16_t from, uint16_t to)
{
    bool top = p->depth == 0;
    uint16_t next = state(p);

    if (top && !take(p, '^'))
        open_side(p, from, next);
    else
        empty(p, from, next);
    from = next;
    while (!ends_sequence(p)) {
        if (top && p->text[p->at] == '$' && (p->at + 1 == p->length || p->text[p->at + 1] == '|')) {
            p->at++;
            empty(p, from, to);
            return;
        }
        next = state(p);
        piece(p, from, next);
        from = next;
    }
    if (top)
        open_side(p, from, to);
    else
        empty(p, from, to);
}

static void alternatives(struct pattern *p, uint16_t from, uint16_t to)
{
    do {
        sequence(p, from, to);
    } while (take(p, '|'));
}

void gp_pattern_build(struct gp_builder *b, uint16_t from, const char *text, size_t length,
                      uint16_t to)
{
    struct pattern p = {.b = b, .text = (const uint8_t *)text, .length = length};
    uint16_t begin = gp_build_state(b), end = gp_build_state(b);

    if (length > GP_LIMIT_PATTERN_BYTES) {
        gp_build_fail(b, GP_EINVAL, "pattern: %zu bytes; at most %u", length,
                      GP_LIMIT_PATTERN_BYTES);
        return;
    }
    gp_build_one_of(b, from, "\"", begin);
    alternatives(&p, begin, end);
    if (!at_end(&p))
        refuse(&p, "a ) that closes nothing");
    gp_build_one_of(b, end, "\"", to);
}
