/* The grammar of answers, by recursive descent:
 *
 *   list      = relation { ',' relation }
 *   relation  = union { ('=' | '<' | IN | ...) union }
 *   union     = sum { UNION sum }
 *   sum       = [sign] product { sign product }
 *   product   = power { ['*' | '/'] power } { word }
 *   power     = base { '!' | '%' | DEGREE | '^' group }
 *   base      = number | symbol | FRACTION group group | '(' list ')' | ...
 *
 * A group is what a command takes: braces, or the one base that follows. */
#include "eval/answer_tree.h"

#include <string.h>

#define BASE_MAX 36u

struct parser {
    const struct gp_answer_token *at;
    struct gp_answer_tree *tree;
    uint32_t depth, in_function, in_bars;
    bool failed;
};

static const struct gp_answer_token pi_token = {GP_ANSWER_SYMBOL, 0, "pi", 2};
static const struct gp_answer_token infinity_token = {GP_ANSWER_SYMBOL, 0, "infty", 5};
static const struct gp_answer_token half_turn_token = {GP_ANSWER_NUMBER, 0, "180", 3};

static uint16_t parse_list(struct parser *p);
static uint16_t parse_sum(struct parser *p);
static uint16_t parse_power(struct parser *p);

/* ---- nodes ---- */

static struct gp_answer_node *node_of(const struct parser *p, uint16_t node)
{
    return &p->tree->nodes[node];
}

static uint16_t fail(struct parser *p)
{
    p->failed = true;
    return 0;
}

static uint16_t make(struct parser *p, enum gp_answer_kind kind)
{
    struct gp_answer_tree *tree = p->tree;

    if (tree->count == GP_ANSWER_NODES_MAX)
        return fail(p);
    tree->nodes[tree->count] = (struct gp_answer_node){.kind = kind};
    return (uint16_t)tree->count++;
}

static void adopt(struct parser *p, uint16_t parent, uint16_t child)
{
    uint16_t *last = &node_of(p, parent)->first;

    if (p->failed)
        return;
    while (*last)
        last = &node_of(p, *last)->next;
    *last = child;
    node_of(p, parent)->both_signs |= node_of(p, child)->both_signs;
    uint8_t nested = node_of(p, child)->nested + (node_of(p, parent)->kind >= GP_ANSWER_IS_LIST);
    if (nested > node_of(p, parent)->nested)
        node_of(p, parent)->nested = nested;
    p->failed |= nested > GP_ANSWER_NESTED_MAX;
}

/* A node over one child, or two; b == 0: one. */
static uint16_t over(struct parser *p, enum gp_answer_kind kind, uint16_t a, uint16_t b)
{
    uint16_t node = make(p, kind);

    adopt(p, node, a);
    if (b)
        adopt(p, node, b);
    return node;
}

static uint16_t leaf(struct parser *p, enum gp_answer_kind kind,
                     const struct gp_answer_token *token)
{
    uint16_t node = make(p, kind);

    node_of(p, node)->token = token;
    return node;
}

static bool take(struct parser *p, int code)
{
    if (p->at->code != code)
        return false;
    p->at++;
    return true;
}

static void expect(struct parser *p, int code)
{
    if (!take(p, code))
        p->failed = true;
}

static uint16_t only_child(const struct parser *p, uint16_t node)
{
    uint16_t first = node_of(p, node)->first;

    return first && !node_of(p, first)->next ? first : 0;
}

/* ---- bases ---- */

static uint16_t parse_group(struct parser *p);

/* One sign, or one in braces, that stands below a symbol or number. */
static const struct gp_answer_token *take_below(struct parser *p)
{
    bool braces = take(p, '{');
    const struct gp_answer_token *token = p->at;

    if (token->code != GP_ANSWER_NUMBER && token->code != GP_ANSWER_SYMBOL) {
        p->failed = true;
        return NULL;
    }
    p->at++;
    if (braces)
        expect(p, '}');
    return token;
}

static uint32_t small_number(const struct gp_answer_token *token)
{
    uint32_t value = 0, at = 0;

    for (char c; token && value <= BASE_MAX && (c = gp_answer_digit(token, &at));) {
        if (c < '0' || c > '9')
            return 0;
        value = value * 10 + (uint32_t)(c - '0');
    }
    return value;
}

/* 1\frac{4}{5} and 137 1/2 are sums; false: what follows is no fraction of two numbers. */
static bool parse_mixed(struct parser *p, uint16_t number, uint16_t *out)
{
    const struct gp_answer_token *at = p->at;
    uint16_t fraction, above, below;

    if (at[0].code == GP_ANSWER_NUMBER && at[1].code == '/' && at[2].code == GP_ANSWER_NUMBER) {
        above = leaf(p, GP_ANSWER_IS_NUMBER, &at[0]);
        below = leaf(p, GP_ANSWER_IS_NUMBER, &at[2]);
        fraction = over(p, GP_ANSWER_IS_PRODUCT, above, over(p, GP_ANSWER_IS_INVERSE, below, 0));
        p->at += 3;
    } else if (at[0].code == GP_ANSWER_FRACTION) {
        fraction = parse_group(p);
        above = node_of(p, fraction)->first;
        below = node_of(p, node_of(p, above)->next)->first;
        if (node_of(p, above)->kind != GP_ANSWER_IS_NUMBER ||
            node_of(p, below)->kind != GP_ANSWER_IS_NUMBER) {
            *out = over(p, GP_ANSWER_IS_PRODUCT, number, fraction);
            return true;
        }
    } else {
        return false;
    }
    *out = over(p, GP_ANSWER_IS_SUM, number, fraction);
    return true;
}

static uint16_t parse_number(struct parser *p)
{
    uint16_t number = leaf(p, GP_ANSWER_IS_NUMBER, p->at++), mixed;

    if (take(p, '_')) {
        uint32_t base = small_number(take_below(p));
        if (base < 2 || base > BASE_MAX)
            return fail(p);
        node_of(p, number)->base = base;
        return number;
    }
    return parse_mixed(p, number, &mixed) ? mixed : number;
}

static uint16_t parse_symbol(struct parser *p)
{
    uint16_t symbol = leaf(p, GP_ANSWER_IS_SYMBOL, p->at++);

    if (take(p, '_'))
        node_of(p, symbol)->below = take_below(p);
    return symbol;
}

static uint16_t parse_fraction(struct parser *p)
{
    uint16_t above = parse_group(p);
    uint16_t below = parse_group(p);

    return over(p, GP_ANSWER_IS_PRODUCT, above, over(p, GP_ANSWER_IS_INVERSE, below, 0));
}

static uint16_t parse_root(struct parser *p)
{
    uint16_t degree = 0;

    if (take(p, '[')) {
        degree = parse_sum(p);
        expect(p, ']');
    }
    return over(p, GP_ANSWER_IS_ROOT, parse_group(p), degree);
}

/* What a function without parentheses is of: factors up to the next function or sign. */
static uint16_t parse_bare_argument(struct parser *p)
{
    uint16_t argument = make(p, GP_ANSWER_IS_PRODUCT);

    do
        adopt(p, argument, parse_power(p));
    while (!p->failed && (p->at->code == GP_ANSWER_SYMBOL || p->at->code == GP_ANSWER_NUMBER));
    return argument;
}

static uint16_t parse_function(struct parser *p)
{
    uint16_t function = make(p, GP_ANSWER_IS_FUNCTION), power = 0, base = 0;

    node_of(p, function)->function = p->at++->function;
    for (;;) {
        if (take(p, '^'))
            power = parse_group(p);
        else if (take(p, '_'))
            base = parse_group(p);
        else
            break;
    }
    p->in_function++;
    bool closed = p->at->code == '(' || p->at->code == '{';
    adopt(p, function, closed ? parse_group(p) : parse_bare_argument(p));
    p->in_function--;
    if (base)
        adopt(p, function, base);
    return power ? over(p, GP_ANSWER_IS_POWER, function, power) : function;
}

/* A function that is written around its argument. */
static uint16_t parse_around(struct parser *p, enum gp_answer_function name, int close)
{
    uint16_t function = make(p, GP_ANSWER_IS_FUNCTION);

    node_of(p, function)->function = name;
    adopt(p, function, parse_sum(p));
    expect(p, close);
    return function;
}

static uint16_t parse_bars(struct parser *p)
{
    p->in_bars++;
    uint16_t bars = parse_around(p, GP_ANSWER_ABS, '|');
    p->in_bars--;
    return bars;
}

/* Past its opening sign: one value is itself, several are what the brackets say. */
static uint16_t parse_brackets(struct parser *p, int open)
{
    uint32_t in_bars = p->in_bars;

    p->in_bars = 0;
    uint16_t inside = parse_list(p);
    p->in_bars = in_bars;
    int close = p->at->code;
    if (p->failed || (close != ')' && close != ']'))
        return fail(p);
    p->at++;
    if (node_of(p, inside)->kind != GP_ANSWER_IS_LIST)
        return (open == '(') == (close == ')') ? inside : fail(p);
    node_of(p, inside)->kind = GP_ANSWER_IS_TUPLE;
    node_of(p, inside)->open = open;
    node_of(p, inside)->close = close;
    return inside;
}

static uint16_t parse_set(struct parser *p)
{
    uint16_t inside = parse_list(p);

    expect(p, GP_ANSWER_SET_CLOSE);
    if (p->failed)
        return 0;
    if (node_of(p, inside)->kind != GP_ANSWER_IS_LIST)
        return over(p, GP_ANSWER_IS_SET, inside, 0);
    node_of(p, inside)->kind = GP_ANSWER_IS_SET;
    return inside;
}

/* Braces group; with commas they were meant as a set's. */
static uint16_t parse_braces(struct parser *p)
{
    uint16_t inside = parse_list(p);

    expect(p, '}');
    if (!p->failed && node_of(p, inside)->kind == GP_ANSWER_IS_LIST)
        node_of(p, inside)->kind = GP_ANSWER_IS_SET;
    return inside;
}

static uint16_t parse_matrix(struct parser *p)
{
    uint16_t matrix = make(p, GP_ANSWER_IS_MATRIX);

    do {
        uint16_t row = make(p, GP_ANSWER_IS_ROW);
        do
            adopt(p, row, parse_sum(p));
        while (!p->failed && take(p, '&'));
        adopt(p, matrix, row);
        take(p, GP_ANSWER_ROW);
    } while (!p->failed && p->at->code != GP_ANSWER_MATRIX_CLOSE);
    expect(p, GP_ANSWER_MATRIX_CLOSE);
    return matrix;
}

static uint16_t parse_base(struct parser *p)
{
    int code = p->at->code;

    if (code == GP_ANSWER_NUMBER)
        return parse_number(p);
    if (code == GP_ANSWER_SYMBOL)
        return parse_symbol(p);
    if (code == GP_ANSWER_FUNCTION)
        return parse_function(p);
    p->at += code != GP_ANSWER_END;
    switch (code) {
    case GP_ANSWER_FRACTION:
        return parse_fraction(p);
    case GP_ANSWER_ROOT:
        return parse_root(p);
    case GP_ANSWER_BINOMIAL: {
        uint16_t above = parse_group(p);
        return over(p, GP_ANSWER_IS_BINOMIAL, above, parse_group(p));
    }
    case '(':
    case '[':
        return parse_brackets(p, code);
    case '{':
        return parse_braces(p);
    case '|':
        return p->in_bars ? fail(p) : parse_bars(p);
    case GP_ANSWER_SET_OPEN:
        return parse_set(p);
    case GP_ANSWER_FLOOR_OPEN:
        return parse_around(p, GP_ANSWER_FLOOR, GP_ANSWER_FLOOR_CLOSE);
    case GP_ANSWER_CEILING_OPEN:
        return parse_around(p, GP_ANSWER_CEILING, GP_ANSWER_CEILING_CLOSE);
    case GP_ANSWER_MATRIX_OPEN:
        return parse_matrix(p);
    default:
        return fail(p);
    }
}

static uint16_t parse_group(struct parser *p)
{
    uint16_t group;

    if (p->failed || ++p->depth > GP_ANSWER_DEPTH_MAX)
        return fail(p);
    if (take(p, '-'))
        group = over(p, GP_ANSWER_IS_NEGATIVE, parse_group(p), 0);
    else
        group = parse_base(p);
    p->depth--;
    return p->failed ? 0 : group;
}

/* ---- expressions ---- */

/* Degrees are only told apart from numbers where an angle is asked for. */
static uint16_t in_degrees(struct parser *p, uint16_t value)
{
    if (!p->in_function)
        return value;
    uint16_t half_turn = leaf(p, GP_ANSWER_IS_NUMBER, &half_turn_token);
    uint16_t product =
        over(p, GP_ANSWER_IS_PRODUCT, value, leaf(p, GP_ANSWER_IS_SYMBOL, &pi_token));
    adopt(p, product, over(p, GP_ANSWER_IS_INVERSE, half_turn, 0));
    return product;
}

/* What stands above: a degree sign, or an exponent. */
static uint16_t parse_above(struct parser *p, uint16_t base)
{
    if (take(p, GP_ANSWER_DEGREE))
        return in_degrees(p, base);
    if (p->at[0].code == '{' && p->at[1].code == GP_ANSWER_DEGREE && p->at[2].code == '}') {
        p->at += 3;
        return in_degrees(p, base);
    }
    return over(p, GP_ANSWER_IS_POWER, base, parse_group(p));
}

static uint16_t parse_power(struct parser *p)
{
    uint16_t value = parse_group(p);

    while (!p->failed) {
        if (take(p, '^')) {
            value = parse_above(p, value);
        } else if (take(p, GP_ANSWER_DEGREE)) {
            value = in_degrees(p, value);
        } else if (take(p, '%')) {
            value = over(p, GP_ANSWER_IS_PERCENT, value, 0);
        } else if (take(p, '!')) {
            value = over(p, GP_ANSWER_IS_FUNCTION, value, 0);
            node_of(p, value)->function = GP_ANSWER_FACTORIAL;
        } else {
            return value;
        }
    }
    return 0;
}

/* Whether a factor may begin here without a sign before it. */
static bool begins_factor(const struct parser *p)
{
    switch (p->at->code) {
    case GP_ANSWER_SYMBOL:
    case GP_ANSWER_FUNCTION:
    case GP_ANSWER_FRACTION:
    case GP_ANSWER_ROOT:
    case GP_ANSWER_BINOMIAL:
    case GP_ANSWER_FLOOR_OPEN:
    case GP_ANSWER_CEILING_OPEN:
    case '(':
    case '{':
        return true;
    case GP_ANSWER_NUMBER: /* Two numbers side by side are no product. */
        return p->at[-1].code != GP_ANSWER_NUMBER;
    case '|':
        return !p->in_bars;
    default:
        return false;
    }
}

/* Units behind a value say nothing of it: 60 miles/hour, 15 cm^2. */
static void skip_units(struct parser *p)
{
    while (!p->failed && p->at->code == GP_ANSWER_TEXT) {
        p->at++;
        if (take(p, '^'))
            parse_group(p);
        if (p->at[0].code == '/' && p->at[1].code == GP_ANSWER_TEXT)
            p->at++;
    }
}

static uint16_t parse_product(struct parser *p)
{
    uint16_t first = parse_power(p), product = 0;

    while (!p->failed) {
        bool divide = p->at->code == '/' && p->at[1].code != GP_ANSWER_TEXT;
        if (!divide && p->at->code != '*' && !begins_factor(p))
            break;
        if (divide || p->at->code == '*')
            p->at++;
        if (!product)
            product = over(p, GP_ANSWER_IS_PRODUCT, first, 0);
        uint16_t factor = parse_power(p);
        adopt(p, product, divide ? over(p, GP_ANSWER_IS_INVERSE, factor, 0) : factor);
    }
    skip_units(p);
    return product ? product : first;
}

/* The next term with its sign; 0 when no sign is here. */
static uint16_t parse_signed(struct parser *p)
{
    if (take(p, '+'))
        return parse_product(p);
    if (take(p, '-'))
        return over(p, GP_ANSWER_IS_NEGATIVE, parse_product(p), 0);
    bool plus_minus = p->at->code == GP_ANSWER_PLUS_MINUS;
    if (!plus_minus && p->at->code != GP_ANSWER_MINUS_PLUS)
        return 0;
    p->at++;
    uint16_t node = over(p, plus_minus ? GP_ANSWER_IS_PLUS_MINUS : GP_ANSWER_IS_MINUS_PLUS,
                         parse_product(p), 0);
    node_of(p, node)->both_signs = true;
    return node;
}

static uint16_t parse_sum(struct parser *p)
{
    if (p->failed || ++p->depth > GP_ANSWER_DEPTH_MAX)
        return fail(p);
    uint16_t first = parse_signed(p), sum = 0;
    if (!first)
        first = parse_product(p);
    for (uint16_t term; !p->failed && (term = parse_signed(p));) {
        if (!sum)
            sum = over(p, GP_ANSWER_IS_SUM, first, 0);
        adopt(p, sum, term);
    }
    p->depth--;
    return p->failed ? 0 : sum ? sum : first;
}

/* ---- answers ---- */

static uint16_t parse_union(struct parser *p)
{
    uint16_t first = parse_sum(p), all = 0;

    while (!p->failed && take(p, GP_ANSWER_UNION)) {
        if (!all)
            all = over(p, GP_ANSWER_IS_UNION, first, 0);
        adopt(p, all, parse_sum(p));
    }
    return all ? all : first;
}

static bool is_inequality(int code)
{
    return code == '<' || code == '>' || code == GP_ANSWER_AT_MOST || code == GP_ANSWER_AT_LEAST;
}

/* The inequality seen from the other side. */
static int mirror(int code)
{
    return code == '<'                  ? '>'
           : code == '>'                ? '<'
           : code == GP_ANSWER_AT_MOST  ? GP_ANSWER_AT_LEAST
           : code == GP_ANSWER_AT_LEAST ? GP_ANSWER_AT_MOST
                                        : code;
}

/* From low to high; the signs are those between each end and what lies in between, read upwards. */
static uint16_t interval(struct parser *p, uint16_t low, int low_sign, int high_sign, uint16_t high)
{
    uint16_t node = over(p, GP_ANSWER_IS_TUPLE, low, high);

    node_of(p, node)->open = low_sign == GP_ANSWER_AT_MOST ? '[' : '(';
    node_of(p, node)->close = high_sign == GP_ANSWER_AT_MOST ? ']' : ')';
    return node;
}

static bool is_upwards(int code)
{
    return code == '<' || code == GP_ANSWER_AT_MOST;
}

/* `left sign right`, where x > 3 is the interval that it says. */
static uint16_t relate(struct parser *p, uint16_t left, int sign, uint16_t right)
{
    if (sign == GP_ANSWER_ELEMENT)
        return right;
    if (is_inequality(sign) && node_of(p, right)->kind == GP_ANSWER_IS_SYMBOL &&
        node_of(p, left)->kind != GP_ANSWER_IS_SYMBOL)
        return relate(p, right, mirror(sign), left);
    if (is_inequality(sign) && node_of(p, left)->kind == GP_ANSWER_IS_SYMBOL) {
        uint16_t infinity = leaf(p, GP_ANSWER_IS_SYMBOL, &infinity_token);
        if (!is_upwards(sign))
            return interval(p, right, mirror(sign), '<', infinity);
        return interval(p, over(p, GP_ANSWER_IS_NEGATIVE, infinity, 0), '<', sign, right);
    }
    bool turn = is_inequality(sign) && !is_upwards(sign);
    uint16_t node = turn ? over(p, GP_ANSWER_IS_RELATION, right, left)
                         : over(p, GP_ANSWER_IS_RELATION, left, right);
    node_of(p, node)->open = turn ? mirror(sign) : sign;
    return node;
}

static bool is_relation(int code)
{
    return code == '=' || code == GP_ANSWER_UNEQUAL || code == GP_ANSWER_ELEMENT ||
           is_inequality(code);
}

static uint16_t parse_relation(struct parser *p)
{
    /* A quantity that is named in words: \text{Area} = 5. */
    if (p->at[0].code == GP_ANSWER_TEXT && p->at[1].code == '=')
        p->at += 2;
    uint16_t left = parse_union(p);
    int sign = p->at->code;
    if (p->failed || !is_relation(sign))
        return left;
    p->at++;
    uint16_t right = parse_union(p);
    int second = p->at->code;
    if (p->failed || !is_relation(second))
        return p->failed ? 0 : relate(p, left, sign, right);
    p->at++;
    uint16_t end = parse_union(p);
    if (p->failed)
        return 0;
    if (sign == '=' && second == '=')
        return relate(p, left, sign, end);
    if (!is_inequality(sign) || !is_inequality(second) || is_upwards(sign) != is_upwards(second))
        return fail(p);
    return is_upwards(sign) ? interval(p, left, sign, second, end)
                            : interval(p, end, mirror(second), mirror(sign), left);
}

static uint16_t parse_list(struct parser *p)
{
    uint16_t list = make(p, GP_ANSWER_IS_LIST);

    do
        adopt(p, list, parse_relation(p));
    while (!p->failed && take(p, ',') && (take(p, ',') || true));
    if (p->failed)
        return 0;
    uint16_t only = only_child(p, list);
    return only ? only : list;
}

bool gp_answer_parse(struct gp_answer_tree *tree, const struct gp_answer_tokens *tokens,
                     bool *words)
{
    struct parser p = {.at = tokens->items, .tree = tree};

    tree->count = 1;
    tree->root = parse_list(&p);
    if (!p.failed && p.at->code == GP_ANSWER_END)
        return true;
    *words = false;
    for (uint32_t i = 0; i < tokens->count; i++)
        *words |= tokens->items[i].code == GP_ANSWER_TEXT;
    return false;
}

/* ---- symbols ---- */

static bool token_same(const struct gp_answer_token *a, const struct gp_answer_token *b)
{
    if (!a || !b)
        return a == b;
    return a->length == b->length && memcmp(a->text, b->text, a->length) == 0;
}

bool gp_answer_symbol_same(const struct gp_answer_node *a, const struct gp_answer_node *b)
{
    return token_same(a->token, b->token) && token_same(a->below, b->below);
}

bool gp_answer_symbol_is(const struct gp_answer_node *symbol, const char *name)
{
    return !symbol->below && symbol->token->length == strlen(name) &&
           memcmp(symbol->token->text, name, symbol->token->length) == 0;
}
