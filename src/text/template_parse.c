/* Tokens to nodes: jinja2's grammar, less what only template loaders need (extends, include, import,
 * block) and less autoescape.  What is unknown is refused here by name.
 *
 * Which fields of a node mean something, by kind (e: expression, s: statements):
 *
 *   DATA        value                        PRINT        a
 *   IF          a test, body, c the next elif, orelse on the last
 *   FOR         a target, b iterable, c test or NULL, body, orelse, recursive
 *   SET         a target, b value            SET_BLOCK    a target, b filter or NULL, body
 *   MACRO       name, items parameters, defaults (of the last ones), body
 *   CALL_BLOCK  as MACRO, and a the call; NULL for {% generation %}
 *   FILTER_BLOCK a filter, body              WITH         items targets, defaults values, body
 *   NAME        name, store                  NSREF        name, value the attribute
 *   TUPLE, LIST, CONCAT  items               DICT         items: key, value, key, value ...
 *   GETATTR     a, name                      GETITEM      a, b
 *   SLICE       a, b, c (each may be NULL), only as b of GETITEM
 *   CALL        a, items, keywords, star, star_star
 *   FILTER, TEST  a (NULL: what the block wrote), builtin, arguments as CALL
 *   COND        a test, b then, c else or NULL
 *   OR, AND     a, b       NOT, NEG, POS  a       BINARY  a, b, op
 *   COMPARE     a, items, ops */
#include "text/template_internal.h"

#include "base/assert.h"

#include <stdio.h>
#include <string.h>

struct parser {
    struct tpl_build *b;
    size_t at;
    uint32_t nesting;
    uint32_t loops; /* around here, in the same function: may one break? */
};

static struct tpl_node *parse_expression(struct parser *p, bool conditional);
static struct tpl_node *parse_unary(struct parser *p, bool with_filter);
static bool parse_body(struct parser *p, const char *const *ends, struct tpl_nodes *out);

static const struct tpl_token *here(const struct parser *p)
{
    return &p->b->tokens[p->at];
}

static const struct tpl_token *ahead(const struct parser *p)
{
    size_t next = p->at + 1 < p->b->token_count ? p->at + 1 : p->at;

    return &p->b->tokens[next];
}

static void advance(struct parser *p)
{
    if (here(p)->kind != TPL_T_EOF)
        p->at++;
}

static bool at_op(const struct parser *p, uint32_t op)
{
    return here(p)->kind == TPL_T_OPERATOR && here(p)->op == op;
}

static bool is_name(const struct tpl_token *t, const char *name)
{
    return t->kind == TPL_T_NAME && gp_tpl_is(t->text, name);
}

static bool at_name(const struct parser *p, const char *name)
{
    return is_name(here(p), name);
}

static bool skip_name(struct parser *p, const char *name)
{
    bool there = at_name(p, name);

    if (there)
        advance(p);
    return there;
}

static bool skip_op(struct parser *p, uint32_t op)
{
    bool there = at_op(p, op);

    if (there)
        advance(p);
    return there;
}

/* Refuse what stands here. */
static bool unexpected(struct parser *p, const char *wanted)
{
    const struct tpl_token *t = here(p);
    char what[64];

    switch (t->kind) {
    case TPL_T_EOF:
        return gp_tpl_refuse(p->b, GP_ECORRUPT, t->line, "expected %s, found the end", wanted);
    case TPL_T_NAME:
        snprintf(what, sizeof what, "'%.40s'", t->text->bytes);
        break;
    case TPL_T_OPERATOR:
        snprintf(what, sizeof what, "'%c%s'", (char)(t->op & 0xFF),
                 (char[2]){(char)(t->op >> 8), '\0'});
        break;
    case TPL_T_STRING:
        snprintf(what, sizeof what, "a string");
        break;
    case TPL_T_INTEGER:
    case TPL_T_FLOAT:
        snprintf(what, sizeof what, "a number");
        break;
    default:
        snprintf(what, sizeof what, "%s", t->kind == TPL_T_BLOCK_END ? "'%}'" : "'}}'");
        break;
    }
    return gp_tpl_refuse(p->b, GP_ECORRUPT, t->line, "expected %s, found %s", wanted, what);
}

static bool expect_op(struct parser *p, uint32_t op, const char *spelling)
{
    return skip_op(p, op) || unexpected(p, spelling);
}

static bool expect_kind(struct parser *p, enum tpl_token_kind kind, const char *spelling)
{
    if (here(p)->kind != kind)
        return unexpected(p, spelling);
    advance(p);
    return true;
}

static struct tpl_node *new_node(struct parser *p, enum tpl_node_kind kind, uint32_t line)
{
    struct tpl_node *n = gp_tpl_build_alloc(p->b, sizeof *n);

    if (n) {
        n->kind = (uint8_t)kind;
        n->line = line;
    }
    return n;
}

static bool add_node(struct parser *p, struct tpl_nodes *list, struct tpl_node *n)
{
    if (!n)
        return false;
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity ? 2 * list->capacity : 4;
        struct tpl_node **grown = gp_tpl_build_alloc(p->b, capacity * sizeof(struct tpl_node *));
        if (!grown)
            return false;
        if (list->count > 0)
            memcpy(grown, list->items, list->count * sizeof(struct tpl_node *));
        list->items = grown;
        list->capacity = capacity;
    }
    list->items[list->count++] = n;
    return true;
}

static void raise_height(uint16_t *height, const struct tpl_node *child)
{
    if (child && child->height > *height)
        *height = child->height;
}

/* The node with its height, which bounds the recursion of everything that walks expressions. */
static struct tpl_node *finish(struct parser *p, struct tpl_node *n)
{
    uint16_t height = 0;

    raise_height(&height, n->a);
    raise_height(&height, n->b);
    raise_height(&height, n->c);
    raise_height(&height, n->star);
    raise_height(&height, n->star_star);
    for (uint32_t i = 0; i < n->items.count; i++)
        raise_height(&height, n->items.items[i]);
    for (const struct tpl_keyword *k = n->keywords; k; k = k->next)
        raise_height(&height, k->value);
    if (height >= TPL_HEIGHT) {
        gp_tpl_refuse_set(p->b, GP_EINVAL, n->line, "expression of more than %u steps", TPL_HEIGHT);
        return NULL;
    }
    n->height = (uint16_t)(height + 1);
    return n;
}

static bool enter(struct parser *p)
{
    if (p->nesting >= TPL_NESTING)
        return gp_tpl_refuse(p->b, GP_EINVAL, here(p)->line, "nested more than %u deep",
                             TPL_NESTING);
    p->nesting++;
    return true;
}

/* ---- expressions ------------------------------------------------------------------------------ */

/* At the end of what may be a tuple: '}}', '%}', ')' or the word that ends it. */
static bool tuple_ends(const struct parser *p, const char *word)
{
    const struct tpl_token *t = here(p);

    return t->kind == TPL_T_VARIABLE_END || t->kind == TPL_T_BLOCK_END || at_op(p, ')') ||
           (word && at_name(p, word));
}

static struct tpl_node *parse_primary(struct parser *p, bool namespace);

enum tuple_of {
    OF_EXPRESSIONS,
    OF_UNCONDITIONAL, /* without a if b else c */
    OF_TARGETS,
    OF_NAMESPACE_TARGETS,
};

/* One expression, or several with commas between them, which make a tuple. */
static struct tpl_node *parse_tuple(struct parser *p, enum tuple_of of, const char *end_word,
                                    bool in_parentheses)
{
    struct tpl_nodes items = {0};
    uint32_t line = here(p)->line;
    bool tuple = false;

    for (;;) {
        if (items.count > 0 && !expect_op(p, ',', "','"))
            return NULL;
        if (tuple_ends(p, end_word))
            break;
        struct tpl_node *n = of >= OF_TARGETS ? parse_primary(p, of == OF_NAMESPACE_TARGETS)
                                              : parse_expression(p, of == OF_EXPRESSIONS);
        if (!add_node(p, &items, n))
            return NULL;
        if (!at_op(p, ','))
            break;
        tuple = true;
    }
    if (!tuple && items.count > 0)
        return items.items[0];
    if (!tuple && !in_parentheses) {
        unexpected(p, "an expression");
        return NULL;
    }
    struct tpl_node *n = new_node(p, TPL_N_TUPLE, line);
    if (!n)
        return NULL;
    n->items = items;
    return finish(p, n);
}

static struct tpl_node *parse_list(struct parser *p)
{
    struct tpl_node *n = new_node(p, TPL_N_LIST, here(p)->line);

    advance(p);
    if (!n)
        return NULL;
    while (!at_op(p, ']')) {
        if (n->items.count > 0 && !expect_op(p, ',', "','"))
            return NULL;
        if (at_op(p, ']'))
            break;
        if (!add_node(p, &n->items, parse_expression(p, true)))
            return NULL;
    }
    advance(p);
    return finish(p, n);
}

static struct tpl_node *parse_dict(struct parser *p)
{
    struct tpl_node *n = new_node(p, TPL_N_DICT, here(p)->line);

    advance(p);
    if (!n)
        return NULL;
    while (!at_op(p, '}')) {
        if (n->items.count > 0 && !expect_op(p, ',', "','"))
            return NULL;
        if (at_op(p, '}'))
            break;
        if (!add_node(p, &n->items, parse_expression(p, true)) || !expect_op(p, ':', "':'") ||
            !add_node(p, &n->items, parse_expression(p, true)))
            return NULL;
    }
    advance(p);
    return finish(p, n);
}

/* Adjacent strings are one. */
static struct tpl_node *parse_string(struct parser *p)
{
    struct tpl_node *n = new_node(p, TPL_N_CONST, here(p)->line);
    const struct tpl_string *s = here(p)->text;
    size_t first = p->at, length = 0;

    if (!n)
        return NULL;
    for (; here(p)->kind == TPL_T_STRING; advance(p))
        length += here(p)->text->length;
    if (p->at - first > 1) {
        struct tpl_string *joined = gp_tpl_build_alloc(p->b, sizeof *joined);
        char *bytes = joined ? gp_tpl_build_alloc(p->b, length + 1) : NULL;
        if (!bytes)
            return NULL;
        *joined = (struct tpl_string){.bytes = bytes, .length = length, .trusted = true};
        for (size_t i = first; i < p->at; i++) {
            const struct tpl_string *part = p->b->tokens[i].text;
            memcpy(bytes, part->bytes, part->length);
            bytes += part->length;
        }
        s = joined;
    }
    n->value = gp_tpl_string_value(s);
    return finish(p, n);
}

static bool constant_name(const struct tpl_string *name, struct tpl_value *out)
{
    if (gp_tpl_is(name, "true") || gp_tpl_is(name, "True"))
        *out = gp_tpl_bool(true);
    else if (gp_tpl_is(name, "false") || gp_tpl_is(name, "False"))
        *out = gp_tpl_bool(false);
    else if (gp_tpl_is(name, "none") || gp_tpl_is(name, "None"))
        *out = gp_tpl_none();
    else
        return false;
    return true;
}

static struct tpl_node *parse_name(struct parser *p, bool namespace)
{
    const struct tpl_token *t = here(p);
    struct tpl_node *n = new_node(p, TPL_N_NAME, t->line);

    if (!n)
        return NULL;
    advance(p);
    n->name = t->text;
    if (constant_name(t->text, &n->value)) {
        n->kind = TPL_N_CONST;
    } else if (namespace && at_op(p, '.')) {
        advance(p);
        const struct tpl_token *attribute = here(p);
        if (!expect_kind(p, TPL_T_NAME, "a name"))
            return NULL;
        n->kind = TPL_N_NSREF;
        n->value = gp_tpl_string_value(attribute->text);
    }
    return finish(p, n);
}

static struct tpl_node *parse_primary(struct parser *p, bool namespace)
{
    const struct tpl_token *t = here(p);
    struct tpl_node *n = NULL;

    if (!enter(p))
        return NULL;
    if (t->kind == TPL_T_NAME) {
        n = parse_name(p, namespace);
    } else if (t->kind == TPL_T_STRING) {
        n = parse_string(p);
    } else if (t->kind == TPL_T_INTEGER || t->kind == TPL_T_FLOAT) {
        n = new_node(p, TPL_N_CONST, t->line);
        if (n) {
            n->value = t->kind == TPL_T_FLOAT ? gp_tpl_float(t->real) : gp_tpl_int(t->integer);
            n = finish(p, n);
        }
        advance(p);
    } else if (skip_op(p, '(')) {
        n = parse_tuple(p, OF_EXPRESSIONS, NULL, true);
        if (n && !expect_op(p, ')', "')'"))
            n = NULL;
    } else if (at_op(p, '[')) {
        n = parse_list(p);
    } else if (at_op(p, '{')) {
        n = parse_dict(p);
    } else {
        unexpected(p, "an expression");
    }
    p->nesting--;
    return n;
}

/* What stands between '[' and ']': an expression or a slice. */
static struct tpl_node *parse_subscribed(struct parser *p)
{
    uint32_t line = here(p)->line;
    struct tpl_node *parts[3] = {0};
    int count = 0;

    if (!at_op(p, ':')) {
        parts[0] = parse_expression(p, true);
        if (!parts[0] || !at_op(p, ':'))
            return parts[0];
    }
    while (count < 2 && skip_op(p, ':')) {
        count++;
        if (!at_op(p, ':') && !at_op(p, ']') && !at_op(p, ',')) {
            parts[count] = parse_expression(p, true);
            if (!parts[count])
                return NULL;
        }
    }
    struct tpl_node *n = new_node(p, TPL_N_SLICE, line);
    if (!n)
        return NULL;
    n->a = parts[0];
    n->b = parts[1];
    n->c = parts[2];
    return finish(p, n);
}

static struct tpl_node *parse_subscript(struct parser *p, struct tpl_node *of)
{
    struct tpl_node *n = new_node(p, TPL_N_GETITEM, here(p)->line);
    bool dot = at_op(p, '.');

    advance(p);
    if (!n)
        return NULL;
    n->a = of;
    if (!dot) {
        n->b = parse_subscribed(p);
        if (!n->b)
            return NULL;
        if (at_op(p, ',')) {
            gp_tpl_refuse_set(p->b, GP_EINVAL, n->line, "subscript with a comma");
            return NULL;
        }
        return expect_op(p, ']', "']'") ? finish(p, n) : NULL;
    }
    const struct tpl_token *t = here(p);
    if (t->kind == TPL_T_NAME) {
        n->kind = TPL_N_GETATTR;
        n->name = t->text;
    } else if (t->kind == TPL_T_INTEGER) {
        n->b = new_node(p, TPL_N_CONST, t->line);
        if (!n->b)
            return NULL;
        n->b->value = gp_tpl_int(t->integer);
        n->b->height = 1;
    } else {
        unexpected(p, "a name or a number");
        return NULL;
    }
    advance(p);
    return finish(p, n);
}

static bool parse_keyword(struct parser *p, struct tpl_node *n, struct tpl_keyword **last)
{
    struct tpl_keyword *k = gp_tpl_build_alloc(p->b, sizeof *k);

    if (!k)
        return false;
    k->name = here(p)->text;
    for (const struct tpl_keyword *other = n->keywords; other; other = other->next)
        if (other->name == k->name)
            return gp_tpl_refuse(p->b, GP_ECORRUPT, here(p)->line, "argument %s given twice",
                                 k->name->bytes);
    advance(p);
    advance(p);
    k->value = parse_expression(p, true);
    if (*last)
        (*last)->next = k;
    else
        n->keywords = k;
    *last = k;
    return k->value != NULL;
}

/* "(a, b, c=d, *e, **f)" into n. */
static bool parse_call_args(struct parser *p, struct tpl_node *n)
{
    struct tpl_keyword *last = NULL;
    bool first = true, ordered = true;

    if (!expect_op(p, '(', "'('"))
        return false;
    for (; !at_op(p, ')'); first = false) {
        if (!first) {
            if (!expect_op(p, ',', "','"))
                return false;
            if (at_op(p, ')'))
                break;
        }
        if (at_op(p, '*')) {
            ordered = !n->star && !n->star_star;
            advance(p);
            n->star = parse_expression(p, true);
            if (!n->star)
                return false;
        } else if (at_op(p, TPL_OP2('*', '*'))) {
            ordered = !n->star_star;
            advance(p);
            n->star_star = parse_expression(p, true);
            if (!n->star_star)
                return false;
        } else if (here(p)->kind == TPL_T_NAME && ahead(p)->kind == TPL_T_OPERATOR &&
                   ahead(p)->op == '=') {
            ordered = !n->star_star;
            if (!parse_keyword(p, n, &last))
                return false;
        } else {
            ordered = !n->star && !n->star_star && !n->keywords;
            if (!add_node(p, &n->items, parse_expression(p, true)))
                return false;
        }
        if (!ordered)
            return gp_tpl_refuse(p->b, GP_ECORRUPT, here(p)->line, "arguments in a wrong order");
    }
    return expect_op(p, ')', "')'");
}

static struct tpl_node *parse_call(struct parser *p, struct tpl_node *callee)
{
    struct tpl_node *n = new_node(p, TPL_N_CALL, here(p)->line);

    if (!n)
        return NULL;
    n->a = callee;
    return parse_call_args(p, n) ? finish(p, n) : NULL;
}

static struct tpl_node *parse_postfix(struct parser *p, struct tpl_node *n)
{
    while (n && here(p)->kind == TPL_T_OPERATOR) {
        if (at_op(p, '.') || at_op(p, '['))
            n = parse_subscript(p, n);
        else if (at_op(p, '('))
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

/* The name of a filter or test; '.' in it is legal in jinja2 and known to none of ours. */
static const struct tpl_string *parse_builtin_name(struct parser *p, const char *what)
{
    const struct tpl_token *t = here(p);

    if (!expect_kind(p, TPL_T_NAME, what))
        return NULL;
    if (at_op(p, '.')) {
        gp_tpl_refuse_set(p->b, GP_EINVAL, t->line, "unknown %s '%s.'", what, t->text->bytes);
        return NULL;
    }
    return t->text;
}

/* map, select and their kin take the name of a filter or test: one that is written out is checked now. */
static bool check_name_argument(struct parser *p, const struct tpl_node *n)
{
    bool map = gp_tpl_is(n->name, "map");
    bool plain = map || gp_tpl_is(n->name, "select") || gp_tpl_is(n->name, "reject");
    bool attribute = gp_tpl_is(n->name, "selectattr") || gp_tpl_is(n->name, "rejectattr");
    uint32_t at = attribute;

    if ((!plain && !attribute) || n->items.count <= at)
        return true;
    const struct tpl_node *argument = n->items.items[at];
    if (argument->kind != TPL_N_CONST || argument->value.kind != TPL_STRING)
        return true;
    const struct tpl_string *name = argument->value.string;
    if (map ? gp_tpl_find_filter(name) != NULL : gp_tpl_find_test(name) != NULL)
        return true;
    return gp_tpl_refuse(p->b, GP_EINVAL, n->line, "unknown %s '%.60s'", map ? "filter" : "test",
                         name->bytes);
}

static struct tpl_node *parse_one_filter(struct parser *p, struct tpl_node *of)
{
    struct tpl_node *n = new_node(p, TPL_N_FILTER, here(p)->line);
    const struct tpl_string *name = n ? parse_builtin_name(p, "filter") : NULL;

    if (!name)
        return NULL;
    n->a = of;
    n->name = name;
    n->builtin = gp_tpl_find_filter(name);
    if (!n->builtin) {
        gp_tpl_refuse_set(p->b, GP_EINVAL, n->line, "unknown filter '%s'", name->bytes);
        return NULL;
    }
    if (at_op(p, '(') && !parse_call_args(p, n))
        return NULL;
    return check_name_argument(p, n) ? finish(p, n) : NULL;
}

static struct tpl_node *parse_test(struct parser *p, struct tpl_node *of)
{
    struct tpl_node *n = new_node(p, TPL_N_TEST, here(p)->line);

    advance(p);
    if (!n)
        return NULL;
    bool negated = skip_name(p, "not");
    const struct tpl_string *name = parse_builtin_name(p, "test");
    if (!name)
        return NULL;
    n->a = of;
    n->name = name;
    n->builtin = gp_tpl_find_test(name);
    if (!n->builtin) {
        gp_tpl_refuse_set(p->b, GP_EINVAL, n->line, "unknown test '%s'", name->bytes);
        return NULL;
    }
    enum tpl_token_kind kind = here(p)->kind;
    if (at_op(p, '(')) {
        if (!parse_call_args(p, n))
            return NULL;
    } else if ((kind == TPL_T_NAME && !at_name(p, "else") && !at_name(p, "or") &&
                !at_name(p, "and")) ||
               kind == TPL_T_STRING || kind == TPL_T_INTEGER || kind == TPL_T_FLOAT ||
               at_op(p, '[') || at_op(p, '{')) {
        if (at_name(p, "is")) {
            gp_tpl_refuse_set(p->b, GP_ECORRUPT, n->line, "two tests in a row");
            return NULL;
        }
        if (!add_node(p, &n->items, parse_postfix(p, parse_primary(p, false))))
            return NULL;
    }
    n = finish(p, n);
    if (!n || !negated)
        return n;
    struct tpl_node *not = new_node(p, TPL_N_NOT, n->line);
    if (!not )
        return NULL;
    not ->a = n;
    return finish(p, not );
}

static struct tpl_node *parse_filters(struct parser *p, struct tpl_node *n)
{
    while (n) {
        if (skip_op(p, '|'))
            n = parse_one_filter(p, n);
        else if (at_name(p, "is"))
            n = parse_test(p, n);
        else if (at_op(p, '('))
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

static struct tpl_node *parse_unary(struct parser *p, bool with_filter)
{
    struct tpl_node *n;

    if (at_op(p, '-') || at_op(p, '+')) {
        n = new_node(p, at_op(p, '-') ? TPL_N_NEG : TPL_N_POS, here(p)->line);
        advance(p);
        if (!n || !enter(p))
            return NULL;
        n->a = parse_unary(p, false);
        p->nesting--;
        n = n->a ? finish(p, n) : NULL;
    } else {
        n = parse_primary(p, false);
    }
    n = parse_postfix(p, n);
    return with_filter ? parse_filters(p, n) : n;
}

static struct tpl_node *binary(struct parser *p, enum tpl_node_kind kind, enum tpl_op op,
                               struct tpl_node *a, struct tpl_node *b, uint32_t line)
{
    struct tpl_node *n = a && b ? new_node(p, kind, line) : NULL;

    if (!n)
        return NULL;
    n->op = (uint8_t)op;
    n->a = a;
    n->b = b;
    return finish(p, n);
}

static struct tpl_node *parse_pow(struct parser *p)
{
    uint32_t line = here(p)->line;
    struct tpl_node *n = parse_unary(p, true);

    while (n && skip_op(p, TPL_OP2('*', '*')))
        n = binary(p, TPL_N_BINARY, TPL_POW, n, parse_unary(p, true), line);
    return n;
}

static struct tpl_node *parse_product(struct parser *p)
{
    uint32_t line = here(p)->line;
    struct tpl_node *n = parse_pow(p);

    while (n) {
        enum tpl_op op;
        if (at_op(p, '*'))
            op = TPL_MUL;
        else if (at_op(p, '/'))
            op = TPL_DIV;
        else if (at_op(p, TPL_OP2('/', '/')))
            op = TPL_FLOORDIV;
        else if (at_op(p, '%'))
            op = TPL_MOD;
        else
            break;
        advance(p);
        n = binary(p, TPL_N_BINARY, op, n, parse_pow(p), line);
    }
    return n;
}

static struct tpl_node *parse_concat(struct parser *p)
{
    uint32_t line = here(p)->line;
    struct tpl_node *first = parse_product(p);

    if (!first || !at_op(p, '~'))
        return first;
    struct tpl_node *n = new_node(p, TPL_N_CONCAT, line);
    if (!n || !add_node(p, &n->items, first))
        return NULL;
    while (skip_op(p, '~'))
        if (!add_node(p, &n->items, parse_product(p)))
            return NULL;
    return finish(p, n);
}

static struct tpl_node *parse_sum(struct parser *p)
{
    uint32_t line = here(p)->line;
    struct tpl_node *n = parse_concat(p);

    while (n && (at_op(p, '+') || at_op(p, '-'))) {
        enum tpl_op op = at_op(p, '+') ? TPL_ADD : TPL_SUB;
        advance(p);
        n = binary(p, TPL_N_BINARY, op, n, parse_concat(p), line);
    }
    return n;
}

/* The comparison that stands here, stepped over; -1 when there is none. */
static int skip_comparison(struct parser *p)
{
    static const struct {
        uint32_t token;
        enum tpl_op op;
    } ops[] = {{TPL_OP2('=', '='), TPL_EQ},
               {TPL_OP2('!', '='), TPL_NE},
               {TPL_OP2('<', '='), TPL_LE},
               {TPL_OP2('>', '='), TPL_GE},
               {'<', TPL_LT},
               {'>', TPL_GT}};

    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (skip_op(p, ops[i].token))
            return (int)ops[i].op;
    if (skip_name(p, "in"))
        return TPL_IN;
    if (at_name(p, "not") && is_name(ahead(p), "in")) {
        advance(p);
        advance(p);
        return TPL_NOT_IN;
    }
    return -1;
}

static struct tpl_node *parse_compare(struct parser *p)
{
    uint32_t line = here(p)->line;
    struct tpl_node *first = parse_sum(p);
    int op = first ? skip_comparison(p) : -1;

    if (op < 0)
        return first;
    struct tpl_node *n = new_node(p, TPL_N_COMPARE, line);
    uint8_t *ops = NULL;
    uint32_t capacity = 0;
    if (!n)
        return NULL;
    n->a = first;
    for (; op >= 0; op = skip_comparison(p)) {
        if (n->items.count == capacity) {
            capacity = capacity ? 2 * capacity : 4;
            ops = gp_tpl_build_alloc(p->b, capacity);
            if (!ops)
                return NULL;
            if (n->items.count > 0)
                memcpy(ops, n->ops, n->items.count);
            n->ops = ops;
        }
        n->ops[n->items.count] = (uint8_t)op;
        if (!add_node(p, &n->items, parse_sum(p)))
            return NULL;
    }
    return finish(p, n);
}

static struct tpl_node *parse_not(struct parser *p)
{
    if (!at_name(p, "not"))
        return parse_compare(p);
    struct tpl_node *n = new_node(p, TPL_N_NOT, here(p)->line);
    advance(p);
    if (!n || !enter(p))
        return NULL;
    n->a = parse_not(p);
    p->nesting--;
    return n->a ? finish(p, n) : NULL;
}

static struct tpl_node *parse_and(struct parser *p)
{
    uint32_t line = here(p)->line;
    struct tpl_node *n = parse_not(p);

    while (n && skip_name(p, "and"))
        n = binary(p, TPL_N_AND, 0, n, parse_not(p), line);
    return n;
}

static struct tpl_node *parse_or(struct parser *p)
{
    uint32_t line = here(p)->line;
    struct tpl_node *n = parse_and(p);

    while (n && skip_name(p, "or"))
        n = binary(p, TPL_N_OR, 0, n, parse_and(p), line);
    return n;
}

static struct tpl_node *parse_expression(struct parser *p, bool conditional)
{
    uint32_t line = here(p)->line;

    if (!enter(p))
        return NULL;
    struct tpl_node *n = parse_or(p);
    while (n && conditional && skip_name(p, "if")) {
        struct tpl_node *cond = new_node(p, TPL_N_COND, line);
        if (!cond)
            return NULL;
        cond->b = n;
        cond->a = parse_or(p);
        if (!cond->a)
            return NULL;
        if (skip_name(p, "else")) {
            cond->c = parse_expression(p, true);
            if (!cond->c)
                return NULL;
        }
        n = finish(p, cond);
    }
    p->nesting--;
    return n;
}

/* ---- statements ------------------------------------------------------------------------------- */

/* Check that n can be assigned to, and mark its names as stored. */
static bool mark_target(struct parser *p, struct tpl_node *n)
{
    if (n->kind == TPL_N_NSREF)
        return true;
    if (n->kind == TPL_N_NAME) {
        n->store = true;
        return true;
    }
    if (n->kind != TPL_N_TUPLE)
        return gp_tpl_refuse(p->b, GP_ECORRUPT, n->line, "cannot assign to this");
    for (uint32_t i = 0; i < n->items.count; i++)
        if (!mark_target(p, n->items.items[i]))
            return false;
    return true;
}

static struct tpl_node *parse_target(struct parser *p, enum tuple_of of, const char *end_word)
{
    struct tpl_node *n = parse_tuple(p, of, end_word, false);

    return n && mark_target(p, n) ? n : NULL;
}

static struct tpl_node *parse_target_name(struct parser *p)
{
    if (here(p)->kind != TPL_T_NAME) {
        unexpected(p, "a name");
        return NULL;
    }
    struct tpl_node *n = parse_name(p, false);
    return n && mark_target(p, n) ? n : NULL;
}

/* The tag's end, the statements behind it, and the word that closes them, which stays here. */
static bool parse_block_body(struct parser *p, const char *const *ends, struct tpl_nodes *out)
{
    skip_op(p, ':');
    return expect_kind(p, TPL_T_BLOCK_END, "'%}'") && parse_body(p, ends, out);
}

static bool parse_whole_body(struct parser *p, const char *end, struct tpl_nodes *out)
{
    const char *const ends[] = {end, NULL};

    if (!parse_block_body(p, ends, out))
        return false;
    advance(p);
    return true;
}

static bool parse_for(struct parser *p, struct tpl_node *n)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    uint32_t loops = p->loops;

    n->kind = TPL_N_FOR;
    n->a = parse_target(p, OF_TARGETS, "in");
    if (!n->a)
        return false;
    if (!skip_name(p, "in"))
        return unexpected(p, "'in'");
    n->b = parse_tuple(p, OF_UNCONDITIONAL, "recursive", false);
    if (!n->b)
        return false;
    if (skip_name(p, "if")) {
        n->c = parse_expression(p, true);
        if (!n->c)
            return false;
    }
    n->recursive = skip_name(p, "recursive");
    p->loops = n->recursive ? 1 : loops + 1;
    bool ok = parse_block_body(p, ends, &n->body);
    p->loops = n->recursive ? 0 : loops;
    if (ok) {
        bool more = at_name(p, "else");
        advance(p);
        ok = !more || parse_whole_body(p, "endfor", &n->orelse);
    }
    p->loops = loops;
    return ok;
}

static bool parse_if(struct parser *p, struct tpl_node *n)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};

    for (uint32_t branches = 1;; branches++) {
        if (branches > TPL_BRANCHES)
            return gp_tpl_refuse(p->b, GP_EINVAL, n->line, "more than %u branches", TPL_BRANCHES);
        n->kind = TPL_N_IF;
        n->a = parse_tuple(p, OF_UNCONDITIONAL, NULL, false);
        if (!n->a || !parse_block_body(p, ends, &n->body))
            return false;
        bool more = at_name(p, "elif"), last = at_name(p, "else");
        advance(p);
        if (last)
            return parse_whole_body(p, "endif", &n->orelse);
        if (!more)
            return true;
        n->c = new_node(p, TPL_N_IF, here(p)->line);
        if (!n->c)
            return false;
        n = n->c;
    }
}

static bool parse_set(struct parser *p, struct tpl_node *n)
{
    n->kind = TPL_N_SET;
    n->a = parse_target(p, OF_NAMESPACE_TARGETS, NULL);
    if (!n->a)
        return false;
    if (skip_op(p, '=')) {
        n->b = parse_tuple(p, OF_EXPRESSIONS, NULL, false);
        return n->b != NULL;
    }
    n->kind = TPL_N_SET_BLOCK;
    while (skip_op(p, '|')) {
        n->b = parse_one_filter(p, n->b);
        if (!n->b)
            return false;
    }
    return parse_whole_body(p, "endset", &n->body);
}

static bool parse_signature(struct parser *p, struct tpl_node *n)
{
    if (!expect_op(p, '(', "'('"))
        return false;
    while (!at_op(p, ')')) {
        if (n->items.count > 0 && !expect_op(p, ',', "','"))
            return false;
        struct tpl_node *name = parse_target_name(p);
        if (!name)
            return false;
        for (uint32_t i = 0; i < n->items.count; i++)
            if (n->items.items[i]->name == name->name)
                return gp_tpl_refuse(p->b, GP_ECORRUPT, name->line, "parameter %s named twice",
                                     name->name->bytes);
        if (skip_op(p, '=')) {
            if (!add_node(p, &n->defaults, parse_expression(p, true)))
                return false;
        } else if (n->defaults.count > 0) {
            return gp_tpl_refuse(p->b, GP_ECORRUPT, name->line,
                                 "parameter %s without a default behind one that has it",
                                 name->name->bytes);
        }
        if (!add_node(p, &n->items, name))
            return false;
    }
    advance(p);
    return true;
}

/* The body of what is called as a function: loops outside do not reach into it. */
static bool parse_function_body(struct parser *p, const char *end, struct tpl_nodes *out)
{
    uint32_t loops = p->loops;

    p->loops = 0;
    bool ok = parse_whole_body(p, end, out);
    p->loops = loops;
    return ok;
}

static bool parse_macro(struct parser *p, struct tpl_node *n)
{
    struct tpl_node *name = parse_target_name(p);

    n->kind = TPL_N_MACRO;
    if (!name)
        return false;
    n->name = name->name;
    n->a = name;
    return parse_signature(p, n) && parse_function_body(p, "endmacro", &n->body);
}

static bool parse_call_block(struct parser *p, struct tpl_node *n)
{
    n->kind = TPL_N_CALL_BLOCK;
    if (at_op(p, '(') && !parse_signature(p, n))
        return false;
    n->a = parse_expression(p, true);
    if (!n->a)
        return false;
    if (n->a->kind != TPL_N_CALL)
        return gp_tpl_refuse(p->b, GP_ECORRUPT, n->line, "call block without a call");
    return parse_function_body(p, "endcall", &n->body);
}

static bool parse_filter_block(struct parser *p, struct tpl_node *n)
{
    n->kind = TPL_N_FILTER_BLOCK;
    do {
        n->a = parse_one_filter(p, n->a);
        if (!n->a)
            return false;
    } while (skip_op(p, '|'));
    return parse_whole_body(p, "endfilter", &n->body);
}

static bool parse_with(struct parser *p, struct tpl_node *n)
{
    n->kind = TPL_N_WITH;
    while (here(p)->kind != TPL_T_BLOCK_END) {
        if (n->items.count > 0 && !expect_op(p, ',', "','"))
            return false;
        struct tpl_node *target = parse_target(p, OF_TARGETS, NULL);
        if (!add_node(p, &n->items, target) || !expect_op(p, '=', "'='") ||
            !add_node(p, &n->defaults, parse_expression(p, true)))
            return false;
    }
    return parse_whole_body(p, "endwith", &n->body);
}

static bool parse_jump(struct parser *p, struct tpl_node *n, enum tpl_node_kind kind)
{
    n->kind = (uint8_t)kind;
    if (p->loops == 0)
        return gp_tpl_refuse(p->b, GP_ECORRUPT, n->line, "%s outside a loop",
                             kind == TPL_N_BREAK ? "break" : "continue");
    return true;
}

static bool parse_print(struct parser *p, struct tpl_nodes *out)
{
    for (bool first = true; here(p)->kind != TPL_T_BLOCK_END; first = false) {
        if (!first && !expect_op(p, ',', "','"))
            return false;
        struct tpl_node *n = new_node(p, TPL_N_PRINT, here(p)->line);
        if (!n || !(n->a = parse_expression(p, true)) || !add_node(p, out, n))
            return false;
    }
    return true;
}

static bool parse_statement(struct parser *p, struct tpl_nodes *out)
{
    const struct tpl_token *tag = here(p);

    if (tag->kind != TPL_T_NAME)
        return unexpected(p, "a statement");
    struct tpl_node *n = new_node(p, TPL_N_DATA, tag->line);
    if (!n)
        return false;
    advance(p);
    if (is_name(tag, "print"))
        return parse_print(p, out);
    bool ok;
    if (is_name(tag, "if"))
        ok = parse_if(p, n);
    else if (is_name(tag, "for"))
        ok = parse_for(p, n);
    else if (is_name(tag, "set"))
        ok = parse_set(p, n);
    else if (is_name(tag, "macro"))
        ok = parse_macro(p, n);
    else if (is_name(tag, "call"))
        ok = parse_call_block(p, n);
    else if (is_name(tag, "filter"))
        ok = parse_filter_block(p, n);
    else if (is_name(tag, "with"))
        ok = parse_with(p, n);
    else if (is_name(tag, "break"))
        ok = parse_jump(p, n, TPL_N_BREAK);
    else if (is_name(tag, "continue"))
        ok = parse_jump(p, n, TPL_N_CONTINUE);
    else if (is_name(tag, "generation"))
        ok = (n->kind = TPL_N_CALL_BLOCK, parse_function_body(p, "endgeneration", &n->body));
    else
        ok = gp_tpl_refuse(p->b, GP_EINVAL, tag->line, "unknown statement '%s'", tag->text->bytes);
    return ok && add_node(p, out, n);
}

/* Whether the word behind "{%" is one of these. */
static bool at_end(const struct parser *p, const char *const *ends)
{
    for (; ends && *ends; ends++)
        if (at_name(p, *ends))
            return true;
    return false;
}

static bool parse_output(struct parser *p, struct tpl_nodes *out)
{
    const struct tpl_token *t = here(p);
    bool data = t->kind == TPL_T_DATA;
    struct tpl_node *n = new_node(p, data ? TPL_N_DATA : TPL_N_PRINT, t->line);

    advance(p);
    if (!n)
        return false;
    if (data)
        n->value = gp_tpl_string_value(t->text);
    else if (!(n->a = parse_tuple(p, OF_EXPRESSIONS, NULL, false)) ||
             !expect_kind(p, TPL_T_VARIABLE_END, "'}}'"))
        return false;
    return add_node(p, out, n);
}

/* Statements until "{% word" with one of the words; ends NULL: until the end of the template. */
static bool parse_body(struct parser *p, const char *const *ends, struct tpl_nodes *out)
{
    if (!enter(p))
        return false;
    for (;;) {
        enum tpl_token_kind kind = here(p)->kind;
        if (kind == TPL_T_EOF) {
            p->nesting--;
            return !ends || gp_tpl_refuse(p->b, GP_ECORRUPT, here(p)->line,
                                          "the template ends before '%s'", ends[0]);
        }
        if (kind == TPL_T_DATA || kind == TPL_T_VARIABLE_BEGIN) {
            if (!parse_output(p, out))
                return false;
            continue;
        }
        gp_assert(kind == TPL_T_BLOCK_BEGIN);
        advance(p);
        if (at_end(p, ends)) {
            p->nesting--;
            return true;
        }
        if (!parse_statement(p, out) || !expect_kind(p, TPL_T_BLOCK_END, "'%}'"))
            return false;
    }
}

bool gp_tpl_parse(struct tpl_build *b, struct tpl_node *root)
{
    struct parser p = {.b = b};

    root->line = 1;
    return parse_body(&p, NULL, &root->body);
}
