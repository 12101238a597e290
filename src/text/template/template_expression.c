/* Tokens to nodes: expressions, by precedence from the loosest to the tightest as jinja2 has them.
 * template_parse.c says what the fields of a node mean. */
#include "text/template/template_parser.h"

#include <string.h>

static struct tpl_node *parse_unary(struct tpl_parser *p, bool with_filter);

/* At the end of what may be a tuple: '}}', '%}', ')' or the word that ends it. */
static bool tuple_ends(const struct tpl_parser *p, const char *word)
{
    const struct tpl_token *t = gp_parser_here(p);

    return t->kind == TPL_T_VARIABLE_END || t->kind == TPL_T_BLOCK_END || gp_parser_at_op(p, ')') ||
           (word && gp_parser_at_name(p, word));
}

static struct tpl_node *parse_primary(struct tpl_parser *p, bool namespace);

struct tpl_node *gp_parser_tuple(struct tpl_parser *p, enum tpl_tuple_of of, const char *end_word,
                                 bool in_parentheses)
{
    struct tpl_nodes items = {0};
    uint32_t line = gp_parser_here(p)->line;
    bool tuple = false;

    for (;;) {
        if (items.count > 0 && !gp_parser_expect_op(p, ',', "','"))
            return NULL;
        if (tuple_ends(p, end_word))
            break;
        struct tpl_node *n = of >= TPL_OF_TARGETS
                                 ? parse_primary(p, of == TPL_OF_NAMESPACE_TARGETS)
                                 : gp_parser_expression(p, of == TPL_OF_EXPRESSIONS);
        if (!gp_parser_add(p, &items, n))
            return NULL;
        if (!gp_parser_at_op(p, ','))
            break;
        tuple = true;
    }
    if (!tuple && items.count > 0)
        return items.items[0];
    if (!tuple && !in_parentheses) {
        gp_parser_unexpected(p, "an expression");
        return NULL;
    }
    struct tpl_node *n = gp_parser_node(p, TPL_N_TUPLE, line);
    if (!n)
        return NULL;
    n->items = items;
    return gp_parser_finish(p, n);
}

static struct tpl_node *parse_list(struct tpl_parser *p)
{
    struct tpl_node *n = gp_parser_node(p, TPL_N_LIST, gp_parser_here(p)->line);

    gp_parser_advance(p);
    if (!n)
        return NULL;
    while (!gp_parser_at_op(p, ']')) {
        if (n->items.count > 0 && !gp_parser_expect_op(p, ',', "','"))
            return NULL;
        if (gp_parser_at_op(p, ']'))
            break;
        if (!gp_parser_add(p, &n->items, gp_parser_expression(p, true)))
            return NULL;
    }
    gp_parser_advance(p);
    return gp_parser_finish(p, n);
}

static struct tpl_node *parse_dict(struct tpl_parser *p)
{
    struct tpl_node *n = gp_parser_node(p, TPL_N_DICT, gp_parser_here(p)->line);

    gp_parser_advance(p);
    if (!n)
        return NULL;
    while (!gp_parser_at_op(p, '}')) {
        if (n->items.count > 0 && !gp_parser_expect_op(p, ',', "','"))
            return NULL;
        if (gp_parser_at_op(p, '}'))
            break;
        if (!gp_parser_add(p, &n->items, gp_parser_expression(p, true)) ||
            !gp_parser_expect_op(p, ':', "':'") ||
            !gp_parser_add(p, &n->items, gp_parser_expression(p, true)))
            return NULL;
    }
    gp_parser_advance(p);
    return gp_parser_finish(p, n);
}

/* Adjacent strings are one. */
static struct tpl_node *parse_string(struct tpl_parser *p)
{
    struct tpl_node *n = gp_parser_node(p, TPL_N_CONST, gp_parser_here(p)->line);
    const struct tpl_string *s = gp_parser_here(p)->text;
    size_t first = p->at, length = 0;

    if (!n)
        return NULL;
    for (; gp_parser_here(p)->kind == TPL_T_STRING; gp_parser_advance(p))
        length += gp_parser_here(p)->text->length;
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
    return gp_parser_finish(p, n);
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

struct tpl_node *gp_parser_name(struct tpl_parser *p, bool namespace)
{
    const struct tpl_token *t = gp_parser_here(p);
    struct tpl_node *n = gp_parser_node(p, TPL_N_NAME, t->line);

    if (!n)
        return NULL;
    gp_parser_advance(p);
    n->name = t->text;
    if (constant_name(t->text, &n->value)) {
        n->kind = TPL_N_CONST;
    } else if (namespace && gp_parser_at_op(p, '.')) {
        gp_parser_advance(p);
        const struct tpl_token *attribute = gp_parser_here(p);
        if (!gp_parser_expect_kind(p, TPL_T_NAME, "a name"))
            return NULL;
        n->kind = TPL_N_NSREF;
        n->value = gp_tpl_string_value(attribute->text);
    }
    return gp_parser_finish(p, n);
}

static struct tpl_node *parse_primary(struct tpl_parser *p, bool namespace)
{
    const struct tpl_token *t = gp_parser_here(p);
    struct tpl_node *n = NULL;

    if (!gp_parser_enter(p))
        return NULL;
    if (t->kind == TPL_T_NAME) {
        n = gp_parser_name(p, namespace);
    } else if (t->kind == TPL_T_STRING) {
        n = parse_string(p);
    } else if (t->kind == TPL_T_INTEGER || t->kind == TPL_T_FLOAT) {
        n = gp_parser_node(p, TPL_N_CONST, t->line);
        if (n) {
            n->value = t->kind == TPL_T_FLOAT ? gp_tpl_float(t->real) : gp_tpl_int(t->integer);
            n = gp_parser_finish(p, n);
        }
        gp_parser_advance(p);
    } else if (gp_parser_skip_op(p, '(')) {
        n = gp_parser_tuple(p, TPL_OF_EXPRESSIONS, NULL, true);
        if (n && !gp_parser_expect_op(p, ')', "')'"))
            n = NULL;
    } else if (gp_parser_at_op(p, '[')) {
        n = parse_list(p);
    } else if (gp_parser_at_op(p, '{')) {
        n = parse_dict(p);
    } else {
        gp_parser_unexpected(p, "an expression");
    }
    p->nesting--;
    return n;
}

/* What stands between '[' and ']': an expression or a slice. */
static struct tpl_node *parse_subscribed(struct tpl_parser *p)
{
    uint32_t line = gp_parser_here(p)->line;
    struct tpl_node *parts[3] = {0};
    int count = 0;

    if (!gp_parser_at_op(p, ':')) {
        parts[0] = gp_parser_expression(p, true);
        if (!parts[0] || !gp_parser_at_op(p, ':'))
            return parts[0];
    }
    while (count < 2 && gp_parser_skip_op(p, ':')) {
        count++;
        if (!gp_parser_at_op(p, ':') && !gp_parser_at_op(p, ']') && !gp_parser_at_op(p, ',')) {
            parts[count] = gp_parser_expression(p, true);
            if (!parts[count])
                return NULL;
        }
    }
    struct tpl_node *n = gp_parser_node(p, TPL_N_SLICE, line);
    if (!n)
        return NULL;
    n->a = parts[0];
    n->b = parts[1];
    n->c = parts[2];
    return gp_parser_finish(p, n);
}

static struct tpl_node *parse_subscript(struct tpl_parser *p, struct tpl_node *of)
{
    struct tpl_node *n = gp_parser_node(p, TPL_N_GETITEM, gp_parser_here(p)->line);
    bool dot = gp_parser_at_op(p, '.');

    gp_parser_advance(p);
    if (!n)
        return NULL;
    n->a = of;
    if (!dot) {
        n->b = parse_subscribed(p);
        if (!n->b)
            return NULL;
        if (gp_parser_at_op(p, ',')) {
            gp_tpl_refuse_set(p->b, GP_EINVAL, n->line, "subscript with a comma");
            return NULL;
        }
        return gp_parser_expect_op(p, ']', "']'") ? gp_parser_finish(p, n) : NULL;
    }
    const struct tpl_token *t = gp_parser_here(p);
    if (t->kind == TPL_T_NAME) {
        n->kind = TPL_N_GETATTR;
        n->name = t->text;
    } else if (t->kind == TPL_T_INTEGER) {
        n->b = gp_parser_node(p, TPL_N_CONST, t->line);
        if (!n->b)
            return NULL;
        n->b->value = gp_tpl_int(t->integer);
        n->b->height = 1;
    } else {
        gp_parser_unexpected(p, "a name or a number");
        return NULL;
    }
    gp_parser_advance(p);
    return gp_parser_finish(p, n);
}

static bool parse_keyword(struct tpl_parser *p, struct tpl_node *n, struct tpl_keyword **last)
{
    struct tpl_keyword *k = gp_tpl_build_alloc(p->b, sizeof *k);

    if (!k)
        return false;
    k->name = gp_parser_here(p)->text;
    for (const struct tpl_keyword *other = n->keywords; other; other = other->next)
        if (other->name == k->name)
            return gp_tpl_refuse(p->b, GP_ECORRUPT, gp_parser_here(p)->line,
                                 "argument %s given twice", k->name->bytes);
    gp_parser_advance(p);
    gp_parser_advance(p);
    k->value = gp_parser_expression(p, true);
    if (*last)
        (*last)->next = k;
    else
        n->keywords = k;
    *last = k;
    return k->value != NULL;
}

/* "(a, b, c=d, *e, **f)" into n. */
static bool parse_call_args(struct tpl_parser *p, struct tpl_node *n)
{
    struct tpl_keyword *last = NULL;
    bool first = true, ordered = true;

    if (!gp_parser_expect_op(p, '(', "'('"))
        return false;
    for (; !gp_parser_at_op(p, ')'); first = false) {
        if (!first) {
            if (!gp_parser_expect_op(p, ',', "','"))
                return false;
            if (gp_parser_at_op(p, ')'))
                break;
        }
        if (gp_parser_at_op(p, '*')) {
            ordered = !n->star && !n->star_star;
            gp_parser_advance(p);
            n->star = gp_parser_expression(p, true);
            if (!n->star)
                return false;
        } else if (gp_parser_at_op(p, TPL_OP2('*', '*'))) {
            ordered = !n->star_star;
            gp_parser_advance(p);
            n->star_star = gp_parser_expression(p, true);
            if (!n->star_star)
                return false;
        } else if (gp_parser_here(p)->kind == TPL_T_NAME &&
                   gp_parser_ahead(p)->kind == TPL_T_OPERATOR && gp_parser_ahead(p)->op == '=') {
            ordered = !n->star_star;
            if (!parse_keyword(p, n, &last))
                return false;
        } else {
            ordered = !n->star && !n->star_star && !n->keywords;
            if (!gp_parser_add(p, &n->items, gp_parser_expression(p, true)))
                return false;
        }
        if (!ordered)
            return gp_tpl_refuse(p->b, GP_ECORRUPT, gp_parser_here(p)->line,
                                 "arguments in a wrong order");
    }
    return gp_parser_expect_op(p, ')', "')'");
}

static struct tpl_node *parse_call(struct tpl_parser *p, struct tpl_node *callee)
{
    struct tpl_node *n = gp_parser_node(p, TPL_N_CALL, gp_parser_here(p)->line);

    if (!n)
        return NULL;
    n->a = callee;
    return parse_call_args(p, n) ? gp_parser_finish(p, n) : NULL;
}

static struct tpl_node *parse_postfix(struct tpl_parser *p, struct tpl_node *n)
{
    while (n && gp_parser_here(p)->kind == TPL_T_OPERATOR) {
        if (gp_parser_at_op(p, '.') || gp_parser_at_op(p, '['))
            n = parse_subscript(p, n);
        else if (gp_parser_at_op(p, '('))
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

/* The name of a filter or test; '.' in it is legal in jinja2 and known to none of ours. */
static const struct tpl_string *parse_builtin_name(struct tpl_parser *p, const char *what)
{
    const struct tpl_token *t = gp_parser_here(p);

    if (!gp_parser_expect_kind(p, TPL_T_NAME, what))
        return NULL;
    if (gp_parser_at_op(p, '.')) {
        gp_tpl_refuse_set(p->b, GP_EINVAL, t->line, "unknown %s '%s.'", what, t->text->bytes);
        return NULL;
    }
    return t->text;
}

/* map, select and their kin take the name of a filter or test: one that is written out is checked
 * now. */
static bool check_name_argument(struct tpl_parser *p, const struct tpl_node *n)
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

struct tpl_node *gp_parser_filter(struct tpl_parser *p, struct tpl_node *of)
{
    struct tpl_node *n = gp_parser_node(p, TPL_N_FILTER, gp_parser_here(p)->line);
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
    if (gp_parser_at_op(p, '(') && !parse_call_args(p, n))
        return NULL;
    return check_name_argument(p, n) ? gp_parser_finish(p, n) : NULL;
}

static struct tpl_node *parse_test(struct tpl_parser *p, struct tpl_node *of)
{
    struct tpl_node *n = gp_parser_node(p, TPL_N_TEST, gp_parser_here(p)->line);

    gp_parser_advance(p);
    if (!n)
        return NULL;
    bool negated = gp_parser_skip_name(p, "not");
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
    enum tpl_token_kind kind = gp_parser_here(p)->kind;
    if (gp_parser_at_op(p, '(')) {
        if (!parse_call_args(p, n))
            return NULL;
    } else if ((kind == TPL_T_NAME && !gp_parser_at_name(p, "else") &&
                !gp_parser_at_name(p, "or") && !gp_parser_at_name(p, "and")) ||
               kind == TPL_T_STRING || kind == TPL_T_INTEGER || kind == TPL_T_FLOAT ||
               gp_parser_at_op(p, '[') || gp_parser_at_op(p, '{')) {
        if (gp_parser_at_name(p, "is")) {
            gp_tpl_refuse_set(p->b, GP_ECORRUPT, n->line, "two tests in a row");
            return NULL;
        }
        if (!gp_parser_add(p, &n->items, parse_postfix(p, parse_primary(p, false))))
            return NULL;
    }
    n = gp_parser_finish(p, n);
    if (!n || !negated)
        return n;
    struct tpl_node *not = gp_parser_node(p, TPL_N_NOT, n->line);
    if (!not )
        return NULL;
    not ->a = n;
    return gp_parser_finish(p, not );
}

static struct tpl_node *parse_filters(struct tpl_parser *p, struct tpl_node *n)
{
    while (n) {
        if (gp_parser_skip_op(p, '|'))
            n = gp_parser_filter(p, n);
        else if (gp_parser_at_name(p, "is"))
            n = parse_test(p, n);
        else if (gp_parser_at_op(p, '('))
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

static struct tpl_node *parse_unary(struct tpl_parser *p, bool with_filter)
{
    struct tpl_node *n;

    if (gp_parser_at_op(p, '-') || gp_parser_at_op(p, '+')) {
        n = gp_parser_node(p, gp_parser_at_op(p, '-') ? TPL_N_NEG : TPL_N_POS,
                           gp_parser_here(p)->line);
        gp_parser_advance(p);
        if (!n || !gp_parser_enter(p))
            return NULL;
        n->a = parse_unary(p, false);
        p->nesting--;
        n = n->a ? gp_parser_finish(p, n) : NULL;
    } else {
        n = parse_primary(p, false);
    }
    n = parse_postfix(p, n);
    return with_filter ? parse_filters(p, n) : n;
}

static struct tpl_node *binary(struct tpl_parser *p, enum tpl_node_kind kind, enum tpl_op op,
                               struct tpl_node *a, struct tpl_node *b, uint32_t line)
{
    struct tpl_node *n = a && b ? gp_parser_node(p, kind, line) : NULL;

    if (!n)
        return NULL;
    n->op = (uint8_t)op;
    n->a = a;
    n->b = b;
    return gp_parser_finish(p, n);
}

static struct tpl_node *parse_pow(struct tpl_parser *p)
{
    uint32_t line = gp_parser_here(p)->line;
    struct tpl_node *n = parse_unary(p, true);

    while (n && gp_parser_skip_op(p, TPL_OP2('*', '*')))
        n = binary(p, TPL_N_BINARY, TPL_POW, n, parse_unary(p, true), line);
    return n;
}

static struct tpl_node *parse_product(struct tpl_parser *p)
{
    uint32_t line = gp_parser_here(p)->line;
    struct tpl_node *n = parse_pow(p);

    while (n) {
        enum tpl_op op;
        if (gp_parser_at_op(p, '*'))
            op = TPL_MUL;
        else if (gp_parser_at_op(p, '/'))
            op = TPL_DIV;
        else if (gp_parser_at_op(p, TPL_OP2('/', '/')))
            op = TPL_FLOORDIV;
        else if (gp_parser_at_op(p, '%'))
            op = TPL_MOD;
        else
            break;
        gp_parser_advance(p);
        n = binary(p, TPL_N_BINARY, op, n, parse_pow(p), line);
    }
    return n;
}

static struct tpl_node *parse_concat(struct tpl_parser *p)
{
    uint32_t line = gp_parser_here(p)->line;
    struct tpl_node *first = parse_product(p);

    if (!first || !gp_parser_at_op(p, '~'))
        return first;
    struct tpl_node *n = gp_parser_node(p, TPL_N_CONCAT, line);
    if (!n || !gp_parser_add(p, &n->items, first))
        return NULL;
    while (gp_parser_skip_op(p, '~'))
        if (!gp_parser_add(p, &n->items, parse_product(p)))
            return NULL;
    return gp_parser_finish(p, n);
}

static struct tpl_node *parse_sum(struct tpl_parser *p)
{
    uint32_t line = gp_parser_here(p)->line;
    struct tpl_node *n = parse_concat(p);

    while (n && (gp_parser_at_op(p, '+') || gp_parser_at_op(p, '-'))) {
        enum tpl_op op = gp_parser_at_op(p, '+') ? TPL_ADD : TPL_SUB;
        gp_parser_advance(p);
        n = binary(p, TPL_N_BINARY, op, n, parse_concat(p), line);
    }
    return n;
}

/* The comparison that stands here, stepped over; -1 when there is none. */
static int skip_comparison(struct tpl_parser *p)
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
        if (gp_parser_skip_op(p, ops[i].token))
            return (int)ops[i].op;
    if (gp_parser_skip_name(p, "in"))
        return TPL_IN;
    if (gp_parser_at_name(p, "not") && gp_parser_is_name(gp_parser_ahead(p), "in")) {
        gp_parser_advance(p);
        gp_parser_advance(p);
        return TPL_NOT_IN;
    }
    return -1;
}

static struct tpl_node *parse_compare(struct tpl_parser *p)
{
    uint32_t line = gp_parser_here(p)->line;
    struct tpl_node *first = parse_sum(p);
    int op = first ? skip_comparison(p) : -1;

    if (op < 0)
        return first;
    struct tpl_node *n = gp_parser_node(p, TPL_N_COMPARE, line);
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
        if (!gp_parser_add(p, &n->items, parse_sum(p)))
            return NULL;
    }
    return gp_parser_finish(p, n);
}

static struct tpl_node *parse_not(struct tpl_parser *p)
{
    if (!gp_parser_at_name(p, "not"))
        return parse_compare(p);
    struct tpl_node *n = gp_parser_node(p, TPL_N_NOT, gp_parser_here(p)->line);
    gp_parser_advance(p);
    if (!n || !gp_parser_enter(p))
        return NULL;
    n->a = parse_not(p);
    p->nesting--;
    return n->a ? gp_parser_finish(p, n) : NULL;
}

static struct tpl_node *parse_and(struct tpl_parser *p)
{
    uint32_t line = gp_parser_here(p)->line;
    struct tpl_node *n = parse_not(p);

    while (n && gp_parser_skip_name(p, "and"))
        n = binary(p, TPL_N_AND, 0, n, parse_not(p), line);
    return n;
}

static struct tpl_node *parse_or(struct tpl_parser *p)
{
    uint32_t line = gp_parser_here(p)->line;
    struct tpl_node *n = parse_and(p);

    while (n && gp_parser_skip_name(p, "or"))
        n = binary(p, TPL_N_OR, 0, n, parse_and(p), line);
    return n;
}

struct tpl_node *gp_parser_expression(struct tpl_parser *p, bool conditional)
{
    uint32_t line = gp_parser_here(p)->line;

    if (!gp_parser_enter(p))
        return NULL;
    struct tpl_node *n = parse_or(p);
    while (n && conditional && gp_parser_skip_name(p, "if")) {
        struct tpl_node *cond = gp_parser_node(p, TPL_N_COND, line);
        if (!cond)
            return NULL;
        cond->b = n;
        cond->a = parse_or(p);
        if (!cond->a)
            return NULL;
        if (gp_parser_skip_name(p, "else")) {
            cond->c = gp_parser_expression(p, true);
            if (!cond->c)
                return NULL;
        }
        n = gp_parser_finish(p, cond);
    }
    p->nesting--;
    return n;
}
