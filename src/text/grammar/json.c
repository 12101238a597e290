/* The parts of JSON that every grammar of documents is made of. */
#include "text/grammar/grammar_internal.h"

/* Deeper than any document that fits the stack is indented by two. */
#define INDENT_MAX 32u

/* A part is made when it is first asked for; its number is kept before it is filled, since parts
 * call each other. */
static void begin_part(struct gp_builder *b, uint16_t *part, uint16_t *end)
{
    *part = gp_build_state(b);
    *end = gp_build_end(b);
}

/* ---- UTF-8 ---- */

/* Characters whose bytes are `count` long, from low to high: the bytes in common, then the first
 * that differs, with what may follow its least, its greatest, and those between. */
static void points_of(struct gp_builder *b, uint16_t from, const uint8_t *low, const uint8_t *high,
                      unsigned count, uint16_t to)
{
    static const uint8_t least[] = {0x80, 0x80, 0x80}, most[] = {0xbf, 0xbf, 0xbf};

    while (count > 1 && *low == *high) {
        uint16_t next = gp_build_state(b);

        gp_build_bytes(b, from, *low, *low, next);
        from = next;
        low++;
        high++;
        count--;
    }
    if (count == 1) {
        gp_build_bytes(b, from, *low, *high, to);
        return;
    }
    uint16_t first = gp_build_state(b), last = gp_build_state(b), middle = gp_build_state(b);

    gp_build_bytes(b, from, *low, *low, first);
    points_of(b, first, low + 1, most, count - 1, to);
    if (*low + 1 < *high) {
        gp_build_bytes(b, from, *low + 1, *high - 1, middle);
        points_of(b, middle, least, most, count - 1, to);
    }
    gp_build_bytes(b, from, *high, *high, last);
    points_of(b, last, least, high + 1, count - 1, to);
}

static void encode(uint32_t point, unsigned count, uint8_t out[4])
{
    static const uint8_t heads[] = {0, 0, 0xc0, 0xe0, 0xf0};

    for (unsigned i = count; i-- > 1; point >>= 6)
        out[i] = 0x80 | (point & 0x3f);
    out[0] = (uint8_t)(heads[count] | point);
}

void gp_part_points(struct gp_builder *b, uint16_t from, uint32_t low, uint32_t high, uint16_t to)
{
    static const uint32_t ends[] = {0, 0x7f, 0x7ff, 0xffff, 0x10ffff};

    for (unsigned count = 1; count <= 4 && low <= high; count++) {
        uint32_t last = high < ends[count] ? high : ends[count];
        uint8_t a[4], z[4];

        if (low > last)
            continue;
        encode(low, count, a);
        encode(last, count, z);
        points_of(b, from, a, z, count, to);
        low = last + 1;
    }
}

uint16_t gp_part_wide(struct gp_builder *b)
{
    uint16_t *part = &b->parts.wide, end;

    if (*part)
        return *part;
    begin_part(b, part, &end);
    gp_part_points(b, *part, 0x80, 0xd7ff, end);
    gp_part_points(b, *part, 0xe000, 0x10ffff, end);
    return *part;
}

/* ---- strings ---- */

void gp_part_plain(struct gp_builder *b, uint16_t from, uint16_t to)
{
    gp_build_bytes(b, from, 0x20, '"' - 1, to);
    gp_build_bytes(b, from, '"' + 1, '\\' - 1, to);
    gp_build_bytes(b, from, '\\' + 1, 0x7f, to);
    gp_build_call(b, from, gp_part_wide(b), to);
}

static void hex(struct gp_builder *b, uint16_t from, uint16_t to)
{
    gp_build_bytes(b, from, '0', '9', to);
    gp_build_bytes(b, from, 'a', 'f', to);
    gp_build_bytes(b, from, 'A', 'F', to);
}

/* Four hexadecimal digits that are neither zero, which C programs cannot hold, nor half of a
 * pair. */
static void escaped_point(struct gp_builder *b, uint16_t from, uint16_t to)
{
    uint16_t three = gp_build_state(b), two = gp_build_state(b), one = gp_build_state(b);
    uint16_t zero = gp_build_state(b), zeros = gp_build_state(b), zeroes = gp_build_state(b);
    uint16_t d = gp_build_state(b);

    gp_build_bytes(b, from, '1', '9', three);
    gp_build_one_of(b, from, "abcefABCEF", three);
    gp_build_one_of(b, from, "dD", d);
    gp_build_one_of(b, from, "0", zero);
    gp_build_bytes(b, d, '0', '7', two);
    hex(b, three, two);
    hex(b, two, one);
    hex(b, one, to);
    gp_build_one_of(b, zero, "123456789abcdefABCDEF", two);
    gp_build_one_of(b, zero, "0", zeros);
    gp_build_one_of(b, zeros, "123456789abcdefABCDEF", one);
    gp_build_one_of(b, zeros, "0", zeroes);
    gp_build_one_of(b, zeroes, "123456789abcdefABCDEF", to);
}

static void character(struct gp_builder *b, uint16_t from, uint16_t to)
{
    uint16_t escape = gp_build_state(b), point = gp_build_state(b);

    gp_part_plain(b, from, to);
    gp_build_one_of(b, from, "\\", escape);
    gp_build_one_of(b, escape, "\"\\/bfnrt", to);
    gp_build_one_of(b, escape, "u", point);
    escaped_point(b, point, to);
}

uint16_t gp_part_character(struct gp_builder *b)
{
    uint16_t *part = &b->parts.character, end;

    if (!*part) {
        begin_part(b, part, &end);
        character(b, *part, end);
    }
    return *part;
}

uint16_t gp_part_string(struct gp_builder *b)
{
    uint16_t *part = &b->parts.string, end;

    if (*part)
        return *part;
    uint16_t inside = gp_build_state(b);

    begin_part(b, part, &end);
    gp_build_one_of(b, *part, "\"", inside);
    character(b, inside, inside);
    gp_build_one_of(b, inside, "\"", end);
    return *part;
}

/* ---- the rest ---- */

uint16_t gp_part_blank(struct gp_builder *b)
{
    uint16_t *part = &b->parts.blank, end;

    if (*part)
        return *part;
    begin_part(b, part, &end);
    uint16_t from = *part;

    gp_build_empty(b, from, end);
    gp_build_one_of(b, from, " ", end);
    for (unsigned i = 0; i <= INDENT_MAX; i++) {
        uint16_t next = gp_build_state(b);

        gp_build_one_of(b, from, i == 0 ? "\n" : " ", next);
        gp_build_empty(b, next, end);
        from = next;
    }
    return *part;
}

void gp_part_key_between(struct gp_builder *b, uint16_t from, uint16_t to)
{
    uint16_t colon = gp_build_state(b);

    gp_build_one_of(b, from, ":", colon);
    gp_build_call(b, colon, gp_part_blank(b), to);
}

uint16_t gp_part_integer(struct gp_builder *b)
{
    uint16_t *part = &b->parts.integer, end;

    if (!*part) {
        begin_part(b, part, &end);
        gp_number_any(b, *part, false, end);
    }
    return *part;
}

uint16_t gp_part_number(struct gp_builder *b)
{
    uint16_t *part = &b->parts.number, end;

    if (!*part) {
        begin_part(b, part, &end);
        gp_number_any(b, *part, true, end);
    }
    return *part;
}

/* Items of one kind between brackets, with commas. */
static void sequence(struct gp_builder *b, uint16_t from, const char *brackets, uint16_t item,
                     uint16_t item_end, uint16_t to)
{
    uint16_t open = gp_build_state(b), comma = gp_build_state(b), close = gp_build_state(b);
    const char opener[] = {brackets[0], 0}, closer[] = {brackets[1], 0};

    gp_build_one_of(b, from, opener, open);
    gp_build_call(b, open, gp_part_blank(b), item);
    gp_build_call(b, open, gp_part_blank(b), close);
    gp_build_one_of(b, item_end, ",", comma);
    gp_build_call(b, comma, gp_part_blank(b), item);
    gp_build_call(b, item_end, gp_part_blank(b), close);
    gp_build_one_of(b, close, closer, to);
}

uint16_t gp_part_object(struct gp_builder *b)
{
    uint16_t *part = &b->parts.object, end;

    if (*part)
        return *part;
    begin_part(b, part, &end);
    uint16_t item = gp_build_state(b), item_end = gp_build_state(b);
    uint16_t key = gp_build_state(b), value = gp_build_state(b);

    gp_build_call(b, item, gp_part_string(b), key);
    gp_part_key_between(b, key, value);
    gp_build_call(b, value, gp_part_value(b), item_end);
    sequence(b, *part, "{}", item, item_end, end);
    return *part;
}

uint16_t gp_part_array(struct gp_builder *b)
{
    uint16_t *part = &b->parts.array, end;

    if (*part)
        return *part;
    begin_part(b, part, &end);
    uint16_t item = gp_build_state(b), item_end = gp_build_state(b);

    gp_build_call(b, item, gp_part_value(b), item_end);
    sequence(b, *part, "[]", item, item_end, end);
    return *part;
}

uint16_t gp_part_value(struct gp_builder *b)
{
    uint16_t *part = &b->parts.value, end;

    if (*part)
        return *part;
    begin_part(b, part, &end);
    uint16_t from = *part;

    gp_build_call(b, from, gp_part_string(b), end);
    gp_build_call(b, from, gp_part_number(b), end);
    gp_build_call(b, from, gp_part_object(b), end);
    gp_build_call(b, from, gp_part_array(b), end);
    gp_build_text(b, from, "true", end);
    gp_build_text(b, from, "false", end);
    gp_build_text(b, from, "null", end);
    return *part;
}
