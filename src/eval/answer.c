#include "eval/answer.h"

#include <ctype.h>
#include <string.h>

#include "eval/answer_tree.h"
#include "eval/answer_value.h"

#define ELEMENTS_MAX 128u

enum reading {
    READ_VALUE,
    READ_WORDS,
    READ_NEITHER,
};

struct side {
    const char *text;
    size_t length;
    struct gp_answer_tokens tokens;
    struct gp_answer_tree tree;
    enum reading reading;
};

static bool same(struct gp_answer_value a, struct gp_answer_value b);

static const struct gp_answer_node *node_of(struct gp_answer_value v)
{
    return &v.tree->nodes[v.node];
}

static enum gp_answer_kind kind_of(struct gp_answer_value v)
{
    return node_of(v)->kind;
}

static struct gp_answer_value first_of(struct gp_answer_value v)
{
    return (struct gp_answer_value){v.tree, node_of(v)->first, v.lower_sign};
}

static struct gp_answer_value next_of(struct gp_answer_value v)
{
    return (struct gp_answer_value){v.tree, node_of(v)->next, v.lower_sign};
}

static bool is_composed(struct gp_answer_value v)
{
    return kind_of(v) >= GP_ANSWER_IS_LIST;
}

/* ---- in order ---- */

/* Children pair by pair. */
static bool same_in_order(struct gp_answer_value a, struct gp_answer_value b)
{
    for (a = first_of(a), b = first_of(b); a.node && b.node; a = next_of(a), b = next_of(b))
        if (!same(a, b))
            return false;
    return !a.node && !b.node;
}

/* A vector written as a matrix of one column is the tuple of its rows. */
static bool same_as_column(struct gp_answer_value matrix, struct gp_answer_value tuple)
{
    struct gp_answer_value row = first_of(matrix), element = first_of(tuple);

    for (; row.node && element.node; row = next_of(row), element = next_of(element)) {
        struct gp_answer_value cell = first_of(row);
        if (next_of(cell).node || !same(cell, element))
            return false;
    }
    return !row.node && !element.node;
}

/* ---- in any order ---- */

struct elements {
    struct gp_answer_value items[ELEMENTS_MAX];
    uint32_t count;
    bool full;
};

static void add_element(struct elements *all, struct gp_answer_value v)
{
    if (all->count == ELEMENTS_MAX) {
        all->full = true;
        return;
    }
    all->items[all->count++] = v;
    if (node_of(v)->both_signs && !v.lower_sign)
        add_element(all, (struct gp_answer_value){v.tree, v.node, true});
}

/* The children of a list, set or union; anything else is alone. */
static void list_elements(struct elements *out, struct gp_answer_value v)
{
    enum gp_answer_kind kind = kind_of(v);

    out->count = 0;
    out->full = false;
    if (kind != GP_ANSWER_IS_LIST && kind != GP_ANSWER_IS_SET && kind != GP_ANSWER_IS_UNION) {
        add_element(out, v);
        return;
    }
    for (struct gp_answer_value child = first_of(v); child.node; child = next_of(child))
        add_element(out, child);
}

static bool has_all(const struct elements *all, const struct elements *of)
{
    for (uint32_t i = 0; i < of->count; i++) {
        uint32_t j = 0;
        while (j < all->count && !same(all->items[j], of->items[i]))
            j++;
        if (j == all->count)
            return false;
    }
    return true;
}

static bool same_in_any_order(struct gp_answer_value a, struct gp_answer_value b)
{
    struct elements left, right;

    list_elements(&left, a);
    list_elements(&right, b);
    return !left.full && !right.full && has_all(&left, &right) && has_all(&right, &left);
}

/* ---- relations ---- */

static bool same_relation(struct gp_answer_value a, struct gp_answer_value b)
{
    if (node_of(a)->open != node_of(b)->open)
        return false;
    struct gp_answer_value left[2] = {first_of(a), next_of(first_of(a))};
    struct gp_answer_value right[2] = {first_of(b), next_of(first_of(b))};

    if (same(left[0], right[0]) && same(left[1], right[1]))
        return true;
    return node_of(a)->open == '=' && gp_answer_value_compare_zeros(left, right) == GP_ANSWER_SAME;
}

/* What x = 5, or f(x) = 5, says to someone who asked for x; itself for anything else. */
static struct gp_answer_value named_value(struct gp_answer_value v)
{
    struct gp_answer_value left = first_of(v);

    if (kind_of(v) != GP_ANSWER_IS_RELATION || node_of(v)->open != '=')
        return v;
    if (kind_of(left) == GP_ANSWER_IS_PRODUCT && kind_of(first_of(left)) == GP_ANSWER_IS_SYMBOL &&
        kind_of(next_of(first_of(left))) == GP_ANSWER_IS_SYMBOL)
        left = first_of(left);
    return kind_of(left) == GP_ANSWER_IS_SYMBOL ? next_of(first_of(v)) : v;
}

/* ---- values ---- */

/* 50% is 0.5, and 50 where percents were asked for. */
static bool same_percent(struct gp_answer_value percent, struct gp_answer_value other)
{
    return gp_answer_value_compare(first_of(percent), other) == GP_ANSWER_SAME;
}

/* Digits in a base that only one side names. */
static bool same_digits(const struct gp_answer_node *a, const struct gp_answer_node *b)
{
    uint32_t at = 0, other = 0;

    for (char c; (c = gp_answer_digit(a->token, &at));)
        if (c != gp_answer_digit(b->token, &other))
            return false;
    return gp_answer_digit(b->token, &other) == 0;
}

static bool same_value(struct gp_answer_value a, struct gp_answer_value b)
{
    const struct gp_answer_node *left = node_of(a), *right = node_of(b);

    if (left->kind == GP_ANSWER_IS_NUMBER && right->kind == GP_ANSWER_IS_NUMBER &&
        (left->base == 0) != (right->base == 0))
        return same_digits(left, right);
    if (gp_answer_value_compare(a, b) == GP_ANSWER_SAME)
        return true;
    if (left->kind == GP_ANSWER_IS_PERCENT)
        return right->kind != GP_ANSWER_IS_PERCENT && same_percent(a, b);
    return right->kind == GP_ANSWER_IS_PERCENT && same_percent(b, a);
}

/* ---- all ---- */

static bool is_point(struct gp_answer_value v)
{
    return kind_of(v) == GP_ANSWER_IS_TUPLE && node_of(v)->open == '(' && node_of(v)->close == ')';
}

static bool is_many(struct gp_answer_value v)
{
    enum gp_answer_kind kind = kind_of(v);

    return kind == GP_ANSWER_IS_LIST || kind == GP_ANSWER_IS_SET || kind == GP_ANSWER_IS_UNION;
}

static bool same_composed(struct gp_answer_value a, struct gp_answer_value b)
{
    enum gp_answer_kind left = kind_of(a), right = kind_of(b);

    if (left == GP_ANSWER_IS_TUPLE && right == GP_ANSWER_IS_TUPLE)
        return node_of(a)->open == node_of(b)->open && node_of(a)->close == node_of(b)->close &&
               same_in_order(a, b);
    if (left == GP_ANSWER_IS_MATRIX && is_point(b))
        return same_as_column(a, b);
    if (right == GP_ANSWER_IS_MATRIX && is_point(a))
        return same_as_column(b, a);
    /* A list may be a tuple whose parentheses were forgotten. */
    if ((left == GP_ANSWER_IS_LIST && is_point(b)) || (right == GP_ANSWER_IS_LIST && is_point(a)))
        return same_in_order(a, b);
    if (is_many(a) || is_many(b))
        return same_in_any_order(a, b);
    if (left != right)
        return false;
    return left == GP_ANSWER_IS_RELATION ? same_relation(a, b) : same_in_order(a, b);
}

static bool same(struct gp_answer_value a, struct gp_answer_value b)
{
    if (kind_of(a) == GP_ANSWER_IS_RELATION && kind_of(b) != GP_ANSWER_IS_RELATION)
        a = named_value(a);
    else if (kind_of(b) == GP_ANSWER_IS_RELATION && kind_of(a) != GP_ANSWER_IS_RELATION)
        b = named_value(b);
    if (!is_composed(a) && !is_composed(b))
        return same_value(a, b);
    return same_composed(a, b);
}

/* Both signs of the whole answer are two answers. */
static bool same_answer(struct gp_answer_value a, struct gp_answer_value b)
{
    bool both =
        (node_of(a)->both_signs && !is_composed(a)) || (node_of(b)->both_signs && !is_composed(b));

    return both ? same_in_any_order(a, b) : same(a, b);
}

/* ---- what is no mathematics ---- */

/* Letters and digits alone, in lower case; 0 at the end. */
static int next_letter(const struct side *s, uint32_t *token, uint32_t *at)
{
    for (; *token < s->tokens.count; ++*token, *at = 0) {
        const struct gp_answer_token *t = &s->tokens.items[*token];
        while (t->text && *at < t->length) {
            unsigned char c = (unsigned char)t->text[(*at)++];
            if (isalnum(c) || c >= 0x80)
                return tolower(c);
        }
    }
    return 0;
}

static bool same_words(const struct side *a, const struct side *b)
{
    uint32_t a_token = 0, b_token = 0, a_at = 0, b_at = 0;
    bool any = false;
    int c;

    while ((c = next_letter(a, &a_token, &a_at))) {
        if (c != next_letter(b, &b_token, &b_at))
            return false;
        any = true;
    }
    return any && next_letter(b, &b_token, &b_at) == 0;
}

static bool same_token(const struct gp_answer_token *a, const struct gp_answer_token *b)
{
    uint32_t at = 0, other = 0;

    if (a->code != b->code || a->function != b->function)
        return false;
    if (a->code != GP_ANSWER_NUMBER)
        return a->length == b->length && (!a->length || memcmp(a->text, b->text, a->length) == 0);
    for (char c; (c = gp_answer_digit(a, &at));)
        if (c != gp_answer_digit(b, &other))
            return false;
    return gp_answer_digit(b, &other) == 0;
}

static bool same_tokens(const struct side *a, const struct side *b)
{
    if (a->tokens.count != b->tokens.count)
        return false;
    for (uint32_t i = 0; i < a->tokens.count; i++)
        if (!same_token(&a->tokens.items[i], &b->tokens.items[i]))
            return false;
    return true;
}

/* False: it is too long to be read. */
static bool read_side(struct side *s, const char *text, size_t length)
{
    bool words;

    s->text = text;
    s->length = length;
    if (!gp_answer_tokens_read(&s->tokens, text, length))
        return false;
    if (gp_answer_parse(&s->tree, &s->tokens, &words))
        s->reading = READ_VALUE;
    else
        s->reading = words ? READ_WORDS : READ_NEITHER;
    return true;
}

static bool same_sides(const struct side *a, const struct side *b)
{
    /* The same signs are the same, whatever they mean, if there are any. */
    if (a->tokens.count > 0 && same_tokens(a, b))
        return true;
    if (a->reading == READ_WORDS || b->reading == READ_WORDS)
        return same_words(a, b);
    if (a->reading == READ_NEITHER || b->reading == READ_NEITHER)
        return false;
    return same_answer((struct gp_answer_value){&a->tree, a->tree.root, false},
                       (struct gp_answer_value){&b->tree, b->tree.root, false});
}

bool gp_answer_same(const char *a, size_t a_length, const char *b, size_t b_length)
{
    struct side left, right;

    if (read_side(&left, a, a_length) && read_side(&right, b, b_length))
        return same_sides(&left, &right);
    return a_length == b_length && memcmp(a, b, a_length) == 0;
}
