#include "eval/answer_value.h"

#include <complex.h>
#include <math.h>

#include "base/rng.h"
#include "eval/answer_field.h"

/* Points at which letters are tried; one says enough of a polynomial modulo p, but there may be a
 * pole at it. */
#define POINTS 6u

/* Far above what rounding leaves of a long double, far below what tells two answers apart. */
#define TOLERANCE      1e-13L
#define TOLERANCE_ZERO 1e-16L

/* Products of so many factors are not worth the time. */
#define FACTORIAL_MAX 10000

#define POWER_MAX 1000000000000000000 /* of which sums and products fit into 64 bits */

struct scope {
    const struct gp_answer_tree *tree;
    bool lower_sign;
    uint32_t point;
};

static const struct gp_answer_node *at(const struct scope *s, uint16_t node)
{
    return &s->tree->nodes[node];
}

static uint16_t second_of(const struct scope *s, const struct gp_answer_node *node)
{
    return at(s, node->first)->next;
}

static bool is_negated(const struct scope *s, const struct gp_answer_node *node)
{
    return s->lower_sign == (node->kind == GP_ANSWER_IS_PLUS_MINUS);
}

static int digit_value(char c)
{
    return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

/* FNV-1a of the letter and what stands below it, mixed with the point. */
static void draw_symbol(const struct gp_answer_node *symbol, uint32_t point, uint32_t drawn[4])
{
    const struct gp_answer_token *tokens[] = {symbol->token, symbol->below};
    uint64_t hash = 14695981039346656037u;
    uint32_t counter[4] = {point};

    for (uint32_t t = 0; t < 2 && tokens[t]; t++) {
        for (uint32_t i = 0; i < tokens[t]->length; i++)
            hash = (hash ^ (unsigned char)tokens[t]->text[i]) * 1099511628211u;
        hash = (hash ^ '_') * 1099511628211u;
    }
    gp_philox(hash, counter, drawn);
}

/* ---- small whole numbers: exponents, factorials ---- */

static bool whole_number(const struct gp_answer_node *node, int64_t *out)
{
    int64_t value = 0;
    uint32_t i = 0;

    if (node->base)
        return false;
    for (char c; (c = gp_answer_digit(node->token, &i));) {
        if (c == '.' || value > POWER_MAX / 10 - 10)
            return false;
        value = value * 10 + (c - '0');
    }
    *out = value;
    return true;
}

static bool whole(const struct scope *s, uint16_t index, int64_t *out)
{
    const struct gp_answer_node *node = at(s, index);
    int64_t total = node->kind == GP_ANSWER_IS_PRODUCT, value;

    if (node->kind == GP_ANSWER_IS_NUMBER)
        return whole_number(node, out);
    if (node->kind != GP_ANSWER_IS_NEGATIVE && node->kind != GP_ANSWER_IS_SUM &&
        node->kind != GP_ANSWER_IS_PRODUCT)
        return false;
    for (uint16_t child = node->first; child; child = at(s, child)->next) {
        if (!whole(s, child, &value))
            return false;
        if (node->kind == GP_ANSWER_IS_PRODUCT ? __builtin_mul_overflow(total, value, &total)
                                               : __builtin_add_overflow(total, value, &total))
            return false;
        if (total > POWER_MAX || total < -POWER_MAX)
            return false;
    }
    *out = node->kind == GP_ANSWER_IS_NEGATIVE ? -total : total;
    return true;
}

/* n and k of a binomial, or n alone where there is no second; false when they are too large. */
static bool whole_pair(const struct scope *s, const struct gp_answer_node *node, int64_t *n,
                       int64_t *k)
{
    uint16_t second = second_of(s, node);

    *k = 0;
    return whole(s, node->first, n) && (!second || whole(s, second, k)) && *n >= 0 && *k >= 0 &&
           *n <= FACTORIAL_MAX;
}

/* ---- in the field ---- */

static bool field_value(const struct scope *s, uint16_t index, uint64_t *out);

static bool field_number(const struct gp_answer_node *node, uint64_t *out)
{
    uint64_t base = node->base ? node->base : 10, value = 0, scale = 1;
    bool behind_point = false;
    uint32_t i = 0;

    for (char c; (c = gp_answer_digit(node->token, &i));) {
        if (c == '.') {
            behind_point = true;
            continue;
        }
        int digit = digit_value(c);
        if (digit >= (int)base)
            return false;
        value = gp_field_add(gp_field_mul(value, base), (uint64_t)digit);
        scale = behind_point ? gp_field_mul(scale, base) : scale;
    }
    *out = gp_field_mul(value, gp_field_inverse(scale));
    return true;
}

static uint64_t field_symbol(const struct gp_answer_node *symbol, uint32_t point)
{
    uint32_t drawn[4];

    if (gp_answer_symbol_is(symbol, "i"))
        return GP_FIELD_I;
    draw_symbol(symbol, point, drawn);
    return ((uint64_t)drawn[1] << 32 | drawn[0]) % GP_FIELD_P;
}

static bool field_many(const struct scope *s, const struct gp_answer_node *node, uint64_t *out)
{
    bool product = node->kind == GP_ANSWER_IS_PRODUCT;
    uint64_t total = product, value;

    for (uint16_t child = node->first; child; child = at(s, child)->next) {
        if (!field_value(s, child, &value))
            return false;
        total = product ? gp_field_mul(total, value) : gp_field_add(total, value);
    }
    *out = total;
    return true;
}

static bool field_power(const struct scope *s, const struct gp_answer_node *node, uint64_t *out)
{
    uint64_t base;
    int64_t exponent;

    if (!whole(s, second_of(s, node), &exponent) || !field_value(s, node->first, &base) ||
        (base == 0 && exponent <= 0))
        return false;
    if (exponent < 0)
        base = gp_field_inverse(base);
    *out = gp_field_power(base, (uint64_t)(exponent < 0 ? -exponent : exponent));
    return true;
}

/* n! as n over 0 from above: n * (n - 1) * ..., and so many of them divided by k!. */
static bool field_factorial(const struct scope *s, const struct gp_answer_node *node, uint64_t *out)
{
    uint64_t above = 1, below = 1;
    int64_t n, k;

    if (!whole_pair(s, node, &n, &k))
        return false;
    bool binomial = node->kind == GP_ANSWER_IS_BINOMIAL;
    if (binomial && k > n) {
        *out = 0;
        return true;
    }
    for (int64_t i = 0; i < (binomial ? k : n); i++) {
        above = gp_field_mul(above, (uint64_t)(n - i));
        below = gp_field_mul(below, (uint64_t)(i + 1));
    }
    *out = binomial ? gp_field_mul(above, gp_field_inverse(below)) : above;
    return true;
}

static bool field_over_one(const struct scope *s, const struct gp_answer_node *node, uint64_t *out)
{
    uint64_t value;

    if (!field_value(s, node->first, &value))
        return false;
    if (node->kind == GP_ANSWER_IS_INVERSE) {
        if (value == 0)
            return false;
        value = gp_field_inverse(value);
    } else if (node->kind == GP_ANSWER_IS_PERCENT) {
        value = gp_field_mul(value, gp_field_inverse(100));
    } else if (node->kind == GP_ANSWER_IS_NEGATIVE || is_negated(s, node)) {
        value = gp_field_negative(value);
    }
    *out = value;
    return true;
}

/* False: it cannot be said here. */
static bool field_value(const struct scope *s, uint16_t index, uint64_t *out)
{
    const struct gp_answer_node *node = at(s, index);

    switch (node->kind) {
    case GP_ANSWER_IS_NUMBER:
        return field_number(node, out);
    case GP_ANSWER_IS_SYMBOL:
        *out = field_symbol(node, s->point);
        return true;
    case GP_ANSWER_IS_SUM:
    case GP_ANSWER_IS_PRODUCT:
        return field_many(s, node, out);
    case GP_ANSWER_IS_NEGATIVE:
    case GP_ANSWER_IS_INVERSE:
    case GP_ANSWER_IS_PERCENT:
    case GP_ANSWER_IS_PLUS_MINUS:
    case GP_ANSWER_IS_MINUS_PLUS:
        return field_over_one(s, node, out);
    case GP_ANSWER_IS_POWER:
        return field_power(s, node, out);
    case GP_ANSWER_IS_BINOMIAL:
        return field_factorial(s, node, out);
    case GP_ANSWER_IS_FUNCTION:
        return node->function == GP_ANSWER_FACTORIAL && field_factorial(s, node, out);
    default:
        return false;
    }
}

/* ---- in long double; what has no value is NaN ---- */

static long double complex wide_value(const struct scope *s, uint16_t index);

static long double complex wide_number(const struct gp_answer_node *node)
{
    long double base = node->base ? node->base : 10, value = 0, scale = 1;
    bool behind_point = false;
    uint32_t i = 0;

    for (char c; (c = gp_answer_digit(node->token, &i));) {
        if (c == '.') {
            behind_point = true;
            continue;
        }
        if (digit_value(c) >= (int)base)
            return NAN;
        value = value * base + digit_value(c);
        scale = behind_point ? scale * base : scale;
    }
    return value / scale;
}

static long double complex wide_symbol(const struct gp_answer_node *symbol, uint32_t point)
{
    uint32_t drawn[4];

    if (gp_answer_symbol_is(symbol, "i"))
        return I;
    if (gp_answer_symbol_is(symbol, "e"))
        return expl(1);
    if (gp_answer_symbol_is(symbol, "pi"))
        return acosl(-1);
    draw_symbol(symbol, point, drawn);
    /* Half of the points are negative; none is near 0, where much looks alike. */
    long double value = 0.3L + 2 * (drawn[0] / 4294967296.0L);
    return drawn[1] & 1 ? -value : value;
}

static long double complex wide_many(const struct scope *s, const struct gp_answer_node *node)
{
    bool product = node->kind == GP_ANSWER_IS_PRODUCT;
    long double complex total = product;

    for (uint16_t child = node->first; child; child = at(s, child)->next) {
        long double complex value = wide_value(s, child);
        total = product ? total * value : total + value;
    }
    return total;
}

/* Real roots of negative numbers where there is one. */
static long double complex wide_root(const struct scope *s, const struct gp_answer_node *node)
{
    long double complex value = wide_value(s, node->first);
    uint16_t second = second_of(s, node);
    int64_t degree;

    if (!second)
        return csqrtl(value);
    if (whole(s, second, &degree) && degree % 2 != 0 && cimagl(value) == 0 && creall(value) < 0)
        return -powl(-creall(value), 1.0L / (long double)degree);
    return cpowl(value, 1 / wide_value(s, second));
}

static long double complex wide_factorial(const struct scope *s, const struct gp_answer_node *node)
{
    long double value;
    int64_t n, k;

    if (!whole_pair(s, node, &n, &k))
        return NAN;
    if (node->kind == GP_ANSWER_IS_BINOMIAL)
        value = k > n ? 0
                      : expl(lgammal((long double)n + 1) - lgammal((long double)k + 1) -
                             lgammal((long double)(n - k) + 1));
    else
        value = tgammal((long double)n + 1);
    return value;
}

static long double complex wide_function(const struct scope *s, const struct gp_answer_node *node)
{
    uint16_t second = second_of(s, node);

    if (node->function == GP_ANSWER_FACTORIAL)
        return wide_factorial(s, node);
    long double complex x = wide_value(s, node->first);
    switch (node->function) {
    case GP_ANSWER_SIN:
        return csinl(x);
    case GP_ANSWER_COS:
        return ccosl(x);
    case GP_ANSWER_TAN:
        return ctanl(x);
    case GP_ANSWER_COT:
        return ccosl(x) / csinl(x);
    case GP_ANSWER_SEC:
        return 1 / ccosl(x);
    case GP_ANSWER_CSC:
        return 1 / csinl(x);
    case GP_ANSWER_ARCSIN:
        return casinl(x);
    case GP_ANSWER_ARCCOS:
        return cacosl(x);
    case GP_ANSWER_ARCTAN:
        return catanl(x);
    case GP_ANSWER_SINH:
        return csinhl(x);
    case GP_ANSWER_COSH:
        return ccoshl(x);
    case GP_ANSWER_TANH:
        return ctanhl(x);
    case GP_ANSWER_LOG:
        return second ? clogl(x) / clogl(wide_value(s, second)) : clogl(x);
    case GP_ANSWER_EXP:
        return cexpl(x);
    case GP_ANSWER_ABS:
        return cabsl(x);
    case GP_ANSWER_FLOOR:
        return cimagl(x) == 0 ? floorl(creall(x)) : (long double)NAN;
    case GP_ANSWER_CEILING:
        return cimagl(x) == 0 ? ceill(creall(x)) : (long double)NAN;
    default:
        return NAN;
    }
}

static long double complex wide_value(const struct scope *s, uint16_t index)
{
    const struct gp_answer_node *node = at(s, index);

    switch (node->kind) {
    case GP_ANSWER_IS_NUMBER:
        return wide_number(node);
    case GP_ANSWER_IS_SYMBOL:
        return wide_symbol(node, s->point);
    case GP_ANSWER_IS_SUM:
    case GP_ANSWER_IS_PRODUCT:
        return wide_many(s, node);
    case GP_ANSWER_IS_NEGATIVE:
        return -wide_value(s, node->first);
    case GP_ANSWER_IS_INVERSE:
        return 1 / wide_value(s, node->first);
    case GP_ANSWER_IS_PERCENT:
        return wide_value(s, node->first) / 100;
    case GP_ANSWER_IS_PLUS_MINUS:
    case GP_ANSWER_IS_MINUS_PLUS:
        return is_negated(s, node) ? -wide_value(s, node->first) : wide_value(s, node->first);
    case GP_ANSWER_IS_POWER:
        return cpowl(wide_value(s, node->first), wide_value(s, second_of(s, node)));
    case GP_ANSWER_IS_ROOT:
        return wide_root(s, node);
    case GP_ANSWER_IS_BINOMIAL:
        return wide_factorial(s, node);
    case GP_ANSWER_IS_FUNCTION:
        return wide_function(s, node);
    default:
        return NAN;
    }
}

static bool is_finite(long double complex z)
{
    return isfinite(creall(z)) && isfinite(cimagl(z));
}

static bool is_near(long double complex a, long double complex b)
{
    return cabsl(a - b) <= TOLERANCE * fmaxl(cabsl(a), cabsl(b)) + TOLERANCE_ZERO;
}

/* ---- comparing ---- */

static struct scope scope_of(struct gp_answer_value value, uint32_t point)
{
    return (struct scope){value.tree, value.lower_sign, point};
}

static bool field_at(struct gp_answer_value value, uint32_t point, uint64_t *out)
{
    struct scope scope = scope_of(value, point);

    return field_value(&scope, value.node, out);
}

static long double complex wide_at(struct gp_answer_value value, uint32_t point)
{
    struct scope scope = scope_of(value, point);

    return wide_value(&scope, value.node);
}

enum gp_answer_verdict gp_answer_value_compare(struct gp_answer_value a, struct gp_answer_value b)
{
    bool decided = false;

    for (uint32_t point = 0; point < POINTS; point++) {
        uint64_t left, right;
        if (field_at(a, point, &left) && field_at(b, point, &right))
            return left == right ? GP_ANSWER_SAME : GP_ANSWER_DIFFER;
    }
    for (uint32_t point = 0; point < POINTS; point++) {
        long double complex left = wide_at(a, point), right = wide_at(b, point);
        if (!is_finite(left) || !is_finite(right))
            continue;
        decided = true;
        if (!is_near(left, right))
            return GP_ANSWER_DIFFER;
    }
    return decided ? GP_ANSWER_SAME : GP_ANSWER_UNDECIDED;
}

/* left - right of a at two points is to that of b at the same two as 1 to 1. */
static bool field_multiples(const struct gp_answer_value a[2], const struct gp_answer_value b[2],
                            uint32_t point, bool *same)
{
    uint64_t v[2][2][2]; /* [point][equation][side] */

    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t side = 0; side < 2; side++)
            if (!field_at(a[side], point + i, &v[i][0][side]) ||
                !field_at(b[side], point + i, &v[i][1][side]))
                return false;
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t e = 0; e < 2; e++)
            v[i][e][0] = gp_field_add(v[i][e][0], gp_field_negative(v[i][e][1]));
    /* What is zero everywhere is a multiple of nothing but itself. */
    *same = gp_field_mul(v[0][0][0], v[1][1][0]) == gp_field_mul(v[1][0][0], v[0][1][0]) &&
            (v[0][0][0] == 0) == (v[0][1][0] == 0);
    return true;
}

enum gp_answer_verdict gp_answer_value_compare_zeros(const struct gp_answer_value a[2],
                                                     const struct gp_answer_value b[2])
{
    bool decided = false, same;

    for (uint32_t point = 0; point < POINTS; point += 2)
        if (field_multiples(a, b, point, &same))
            return same ? GP_ANSWER_SAME : GP_ANSWER_DIFFER;
    long double complex ratio = 0;
    for (uint32_t point = 0; point < POINTS; point++) {
        long double complex left = wide_at(a[0], point) - wide_at(a[1], point);
        long double complex right = wide_at(b[0], point) - wide_at(b[1], point);
        if (!is_finite(left) || !is_finite(right) || cabsl(right) < TOLERANCE)
            continue;
        if (decided && !is_near(left, ratio * right))
            return GP_ANSWER_DIFFER;
        ratio = decided ? ratio : left / right;
        decided = true;
    }
    return !decided ? GP_ANSWER_UNDECIDED : cabsl(ratio) > 0 ? GP_ANSWER_SAME : GP_ANSWER_DIFFER;
}
