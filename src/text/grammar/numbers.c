/* Numbers in a range, digit by digit.
 *
 * A number has at most GP_NUMBER_DIGITS digits before its point and as many behind it, so that no
 * answer is digits without end; one that has bounds has no exponent. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "text/grammar/grammar_internal.h"

static const char zeros[] = "000000000000000000", nines[] = "999999999999999999";

_Static_assert(sizeof zeros - 1 == GP_NUMBER_DIGITS && sizeof nines - 1 == GP_NUMBER_DIGITS,
               "as many as a number may have");

/* Of `count` digits each: every text from low to high. */
static void between(struct gp_builder *b, uint16_t from, const char *low, const char *high,
                    unsigned count, uint16_t to)
{
    for (; count > 0 && *low == *high; count--, low++, high++) {
        uint16_t next = gp_build_state(b);

        gp_build_bytes(b, from, (uint8_t)*low, (uint8_t)*low, next);
        from = next;
    }
    if (count == 0) {
        gp_build_empty(b, from, to);
        return;
    }
    if (memcmp(low, zeros, count) == 0 && memcmp(high, nines, count) == 0) {
        for (; count > 0; count--) {
            uint16_t next = count > 1 ? gp_build_state(b) : to;

            gp_build_bytes(b, from, '0', '9', next);
            from = next;
        }
        return;
    }
    uint16_t first = gp_build_state(b), middle = gp_build_state(b), last = gp_build_state(b);

    gp_build_bytes(b, from, (uint8_t)*low, (uint8_t)*low, first);
    between(b, first, low + 1, nines, count - 1, to);
    if (*low + 1 < *high) {
        gp_build_bytes(b, from, (uint8_t)*low + 1, (uint8_t)*high - 1, middle);
        between(b, middle, zeros, nines, count - 1, to);
    }
    gp_build_bytes(b, from, (uint8_t)*high, (uint8_t)*high, last);
    between(b, last, zeros, high + 1, count - 1, to);
}

/* 0 <= low, high <= GP_NUMBER_MAX; nothing when low > high. */
static void whole(struct gp_builder *b, uint16_t from, int64_t low, int64_t high, uint16_t to)
{
    int64_t first, last = 0; /* of so many digits */

    for (unsigned count = 1; count <= GP_NUMBER_DIGITS; count++) {
        char least[24], most[24];

        first = count > 1 ? last + 1 : 0;
        last = last * 10 + 9;
        int64_t a = low > first ? low : first, z = high < last ? high : last;

        if (a <= z) {
            snprintf(least, sizeof least, "%lld", (long long)a);
            snprintf(most, sizeof most, "%lld", (long long)z);
            between(b, from, least, most, count, to);
        }
    }
}

static uint16_t minus(struct gp_builder *b, uint16_t from)
{
    uint16_t next = gp_build_state(b);

    gp_build_one_of(b, from, "-", next);
    return next;
}

void gp_number_integers(struct gp_builder *b, uint16_t from, int64_t low, int64_t high, uint16_t to)
{
    gp_assert(low >= -GP_NUMBER_MAX && high <= GP_NUMBER_MAX);
    if (high >= 0)
        whole(b, from, low > 0 ? low : 0, high, to);
    if (low < 0)
        whole(b, minus(b, from), high < 0 ? -high : 1, -low, to);
}

/* A point and digits; not all zeros, if they have to be more. */
static void fraction(struct gp_builder *b, uint16_t from, bool more, uint16_t to)
{
    uint16_t zero = gp_build_state(b), any = gp_build_state(b);

    gp_build_one_of(b, from, ".", zero);
    if (!more)
        gp_build_empty(b, zero, any);
    for (unsigned i = 0; i < GP_NUMBER_DIGITS; i++) {
        uint16_t zero_next = gp_build_state(b), any_next = gp_build_state(b);

        gp_build_bytes(b, any, '0', '9', any_next);
        gp_build_empty(b, any_next, to);
        if (more) {
            gp_build_bytes(b, zero, '1', '9', any_next);
            gp_build_one_of(b, zero, "0", zero_next);
        }
        zero = zero_next;
        any = any_next;
    }
}

/* Without a sign, from a to z; a is at least 0. */
static void magnitudes(struct gp_builder *b, uint16_t from, struct gp_bound a, struct gp_bound z,
                       uint16_t to)
{
    uint16_t part = gp_build_state(b), edge = gp_build_state(b);
    int64_t last = z.is_set ? z.at - 1 : GP_NUMBER_MAX;

    /* What lies under the last whole number may have a fraction; what is on it may not. */
    whole(b, from, a.open ? a.at + 1 : a.at, last, part);
    gp_build_empty(b, part, to);
    fraction(b, part, false, to);
    if (a.open && a.at <= last) {
        whole(b, from, a.at, a.at, edge);
        fraction(b, edge, true, to);
    }
    if (z.is_set && !z.open && z.at >= (a.open ? a.at + 1 : a.at))
        whole(b, from, z.at, z.at, to);
}

void gp_number_reals(struct gp_builder *b, uint16_t from, struct gp_bound low, struct gp_bound high,
                     uint16_t to)
{
    struct gp_bound zero = {.is_set = true};

    if (!high.is_set || high.at >= 0)
        magnitudes(b, from, low.is_set && low.at >= 0 ? low : zero, high, to);
    if (low.is_set && low.at >= 0)
        return;
    /* The same, seen from the other side of zero. */
    struct gp_bound a = {true, high.open, -high.at}, z = {low.is_set, low.open, -low.at};

    magnitudes(b, minus(b, from), high.is_set && high.at <= 0 ? a : zero, z, to);
}

void gp_number_any(struct gp_builder *b, uint16_t from, bool real, uint16_t to)
{
    uint16_t end = real ? gp_build_state(b) : to;

    if (!real) {
        gp_number_integers(b, from, -GP_NUMBER_MAX, GP_NUMBER_MAX, to);
        return;
    }
    gp_number_reals(b, from, (struct gp_bound){0}, (struct gp_bound){0}, end);
    uint16_t e = gp_build_state(b), sign = gp_build_state(b), digit = gp_build_state(b);

    gp_build_empty(b, end, to);
    gp_build_one_of(b, end, "eE", e);
    gp_build_one_of(b, e, "+-", sign);
    gp_build_empty(b, e, sign);
    gp_build_bytes(b, sign, '0', '9', digit);
    gp_build_empty(b, digit, to);
    gp_build_bytes(b, digit, '0', '9', to);
}
