/* Tokens to nodes: statements.  jinja2's grammar, less what only template loaders need (extends,
 * include, import, block) and less autoescape.  What is unknown is refused here by name.
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
#include "text/template/template_internal.h"
#include "text/template/template_parser.h"

#include "base/assert.h"

static bool parse_body(struct tpl_parser *p, const char *const *ends, struct tpl_nodes *out);

/* Check that n can be assigned to, and mark its names as stored. */
static bool mark_target(struct tpl_parser *p, struct tpl_node *n)
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

static struct tpl_node *parse_target(struct tpl_parser *p, enum tpl_tuple_of of,
                                     const char *end_word)
{
    struct tpl_node *n = gp_parser_tuple(p, of, end_word, false);

    return n && mark_target(p, n) ? n : NULL;
}

static struct tpl_node *parse_target_name(struct tpl_parser *p)
{
    if (gp_parser_here(p)->kind != TPL_T_NAME) {
        gp_parser_unexpected(p, "a name");
        return NULL;
    }
    struct tpl_node *n = gp_parser_name(p, false);
    return n && mark_target(p, n) ? n : NULL;
}

/* The tag's end, the statements behind it, and the word that closes them, which stays here. */
static bool parse_block_body(struct tpl_parser *p, const char *const *ends, struct tpl_nodes *out)
{
    gp_parser_skip_op(p, ':');
    return gp_parser_expect_kind(p, TPL_T_BLOCK_END, "'%}'") && parse_body(p, ends, out);
}

static bool parse_whole_body(struct tpl_parser *p, const char *end, struct tpl_nodes *out)
{
    const char *const ends[] = {end, NULL};

    if (!parse_block_body(p, ends, out))
        return false;
    gp_parser_advance(p);
    return true;
}

static bool parse_for(struct tpl_parser *p, struct tpl_node *n)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    uint32_t loops = p->loops;

    n->kind = TPL_N_FOR;
    n->a = parse_target(p, TPL_OF_TARGETS, "in");
    if (!n->a)
        return false;
    if (!gp_parser_skip_name(p, "in"))
        return gp_parser_unexpected(p, "'in'");
    n->b = gp_parser_tuple(p, TPL_OF_UNCONDITIONAL, "recursive", false);
    if (!n->b)
        return false;
    if (gp_parser_skip_name(p, "if")) {
        n->c = gp_parser_expression(p, true);
        if (!n->c)
            return false;
    }
    n->recursive = gp_parser_skip_name(p, "recursive");
    p->loops = n->recursive ? 1 : loops + 1;
    bool ok = parse_block_body(p, ends, &n->body);
    p->loops = n->recursive ? 0 : loops;
    if (ok) {
        bool more = gp_parser_at_name(p, "else");
        gp_parser_advance(p);
        ok = !more || parse_whole_body(p, "endfor", &n->orelse);
    }
    p->loops = loops;
    return ok;
}

static bool parse_if(struct tpl_parser *p, struct tpl_node *n)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};

    for (uint32_t branches = 1;; branches++) {
        if (branches > TPL_BRANCHES)
            return gp_tpl_refuse(p->b, GP_EINVAL, n->line, "more than %u branches", TPL_BRANCHES);
        n->kind = TPL_N_IF;
        n->a = gp_parser_tuple(p, TPL_OF_UNCONDITIONAL, NULL, false);
        if (!n->a || !parse_block_body(p, ends, &n->body))
            return false;
        bool more = gp_parser_at_name(p, "elif"), last = gp_parser_at_name(p, "else");
        gp_parser_advance(p);
        if (last)
            return parse_whole_body(p, "endif", &n->orelse);
        if (!more)
            return true;
        n->c = gp_parser_node(p, TPL_N_IF, gp_parser_here(p)->line);
        if (!n->c)
            return false;
        n = n->c;
    }
}

static bool parse_set(struct tpl_parser *p, struct tpl_node *n)
{
    n->kind = TPL_N_SET;
    n->a = parse_target(p, TPL_OF_NAMESPACE_TARGETS, NULL);
    if (!n->a)
        return false;
    if (gp_parser_skip_op(p, '=')) {
        n->b = gp_parser_tuple(p, TPL_OF_EXPRESSIONS, NULL, false);
        return n->b != NULL;
    }
    n->kind = TPL_N_SET_BLOCK;
    while (gp_parser_skip_op(p, '|')) {
        n->b = gp_parser_filter(p, n->b);
        if (!n->b)
            return false;
    }
    return parse_whole_body(p, "endset", &n->body);
}

static bool parse_signature(struct tpl_parser *p, struct tpl_node *n)
{
    if (!gp_parser_expect_op(p, '(', "'('"))
        return false;
    while (!gp_parser_at_op(p, ')')) {
        if (n->items.count > 0 && !gp_parser_expect_op(p, ',', "','"))
            return false;
        struct tpl_node *name = parse_target_name(p);
        if (!name)
            return false;
        for (uint32_t i = 0; i < n->items.count; i++)
            if (n->items.items[i]->name == name->name)
                return gp_tpl_refuse(p->b, GP_ECORRUPT, name->line, "parameter %s named twice",
                                     name->name->bytes);
        if (gp_parser_skip_op(p, '=')) {
            if (!gp_parser_add(p, &n->defaults, gp_parser_expression(p, true)))
                return false;
        } else if (n->defaults.count > 0) {
            return gp_tpl_refuse(p->b, GP_ECORRUPT, name->line,
                                 "parameter %s without a default behind one that has it",
                                 name->name->bytes);
        }
        if (!gp_parser_add(p, &n->items, name))
            return false;
    }
    gp_parser_advance(p);
    return true;
}

/* The body of what is called as a function: loops outside do not reach into it. */
static bool parse_function_body(struct tpl_parser *p, const char *end, struct tpl_nodes *out)
{
    uint32_t loops = p->loops;

    p->loops = 0;
    bool ok = parse_whole_body(p, end, out);
    p->loops = loops;
    return ok;
}

static bool parse_macro(struct tpl_parser *p, struct tpl_node *n)
{
    struct tpl_node *name = parse_target_name(p);

    n->kind = TPL_N_MACRO;
    if (!name)
        return false;
    n->name = name->name;
    n->a = name;
    return parse_signature(p, n) && parse_function_body(p, "endmacro", &n->body);
}

static bool parse_call_block(struct tpl_parser *p, struct tpl_node *n)
{
    n->kind = TPL_N_CALL_BLOCK;
    if (gp_parser_at_op(p, '(') && !parse_signature(p, n))
        return false;
    n->a = gp_parser_expression(p, true);
    if (!n->a)
        return false;
    if (n->a->kind != TPL_N_CALL)
        return gp_tpl_refuse(p->b, GP_ECORRUPT, n->line, "call block without a call");
    return parse_function_body(p, "endcall", &n->body);
}

static bool parse_filter_block(struct tpl_parser *p, struct tpl_node *n)
{
    n->kind = TPL_N_FILTER_BLOCK;
    do {
        n->a = gp_parser_filter(p, n->a);
        if (!n->a)
            return false;
    } while (gp_parser_skip_op(p, '|'));
    return parse_whole_body(p, "endfilter", &n->body);
}

static bool parse_with(struct tpl_parser *p, struct tpl_node *n)
{
    n->kind = TPL_N_WITH;
    while (gp_parser_here(p)->kind != TPL_T_BLOCK_END) {
        if (n->items.count > 0 && !gp_parser_expect_op(p, ',', "','"))
            return false;
        struct tpl_node *target = parse_target(p, TPL_OF_TARGETS, NULL);
        if (!gp_parser_add(p, &n->items, target) || !gp_parser_expect_op(p, '=', "'='") ||
            !gp_parser_add(p, &n->defaults, gp_parser_expression(p, true)))
            return false;
    }
    return parse_whole_body(p, "endwith", &n->body);
}

static bool parse_jump(struct tpl_parser *p, struct tpl_node *n, enum tpl_node_kind kind)
{
    n->kind = (uint8_t)kind;
    if (p->loops == 0)
        return gp_tpl_refuse(p->b, GP_ECORRUPT, n->line, "%s outside a loop",
                             kind == TPL_N_BREAK ? "break" : "continue");
    return true;
}

static bool parse_print(struct tpl_parser *p, struct tpl_nodes *out)
{
    for (bool first = true; gp_parser_here(p)->kind != TPL_T_BLOCK_END; first = false) {
        if (!first && !gp_parser_expect_op(p, ',', "','"))
            return false;
        struct tpl_node *n = gp_parser_node(p, TPL_N_PRINT, gp_parser_here(p)->line);
        if (!n || !(n->a = gp_parser_expression(p, true)) || !gp_parser_add(p, out, n))
            return false;
    }
    return true;
}

static bool parse_statement(struct tpl_parser *p, struct tpl_nodes *out)
{
    const struct tpl_token *tag = gp_parser_here(p);

    if (tag->kind != TPL_T_NAME)
        return gp_parser_unexpected(p, "a statement");
    struct tpl_node *n = gp_parser_node(p, TPL_N_DATA, tag->line);
    if (!n)
        return false;
    gp_parser_advance(p);
    if (gp_parser_is_name(tag, "print"))
        return parse_print(p, out);
    bool ok;
    if (gp_parser_is_name(tag, "if"))
        ok = parse_if(p, n);
    else if (gp_parser_is_name(tag, "for"))
        ok = parse_for(p, n);
    else if (gp_parser_is_name(tag, "set"))
        ok = parse_set(p, n);
    else if (gp_parser_is_name(tag, "macro"))
        ok = parse_macro(p, n);
    else if (gp_parser_is_name(tag, "call"))
        ok = parse_call_block(p, n);
    else if (gp_parser_is_name(tag, "filter"))
        ok = parse_filter_block(p, n);
    else if (gp_parser_is_name(tag, "with"))
        ok = parse_with(p, n);
    else if (gp_parser_is_name(tag, "break"))
        ok = parse_jump(p, n, TPL_N_BREAK);
    else if (gp_parser_is_name(tag, "continue"))
        ok = parse_jump(p, n, TPL_N_CONTINUE);
    else if (gp_parser_is_name(tag, "generation"))
        ok = (n->kind = TPL_N_CALL_BLOCK, parse_function_body(p, "endgeneration", &n->body));
    else
        ok = gp_tpl_refuse(p->b, GP_EINVAL, tag->line, "unknown statement '%s'", tag->text->bytes);
    return ok && gp_parser_add(p, out, n);
}

/* Whether the word behind "{%" is one of these. */
static bool at_end(const struct tpl_parser *p, const char *const *ends)
{
    for (; ends && *ends; ends++)
        if (gp_parser_at_name(p, *ends))
            return true;
    return false;
}

static bool parse_output(struct tpl_parser *p, struct tpl_nodes *out)
{
    const struct tpl_token *t = gp_parser_here(p);
    bool data = t->kind == TPL_T_DATA;
    struct tpl_node *n = gp_parser_node(p, data ? TPL_N_DATA : TPL_N_PRINT, t->line);

    gp_parser_advance(p);
    if (!n)
        return false;
    if (data)
        n->value = gp_tpl_string_value(t->text);
    else if (!(n->a = gp_parser_tuple(p, TPL_OF_EXPRESSIONS, NULL, false)) ||
             !gp_parser_expect_kind(p, TPL_T_VARIABLE_END, "'}}'"))
        return false;
    return gp_parser_add(p, out, n);
}

/* Statements until "{% word" with one of the words; ends NULL: until the end of the template. */
static bool parse_body(struct tpl_parser *p, const char *const *ends, struct tpl_nodes *out)
{
    if (!gp_parser_enter(p))
        return false;
    for (;;) {
        enum tpl_token_kind kind = gp_parser_here(p)->kind;
        if (kind == TPL_T_EOF) {
            p->nesting--;
            return !ends || gp_tpl_refuse(p->b, GP_ECORRUPT, gp_parser_here(p)->line,
                                          "the template ends before '%s'", ends[0]);
        }
        if (kind == TPL_T_DATA || kind == TPL_T_VARIABLE_BEGIN) {
            if (!parse_output(p, out))
                return false;
            continue;
        }
        gp_assert(kind == TPL_T_BLOCK_BEGIN);
        gp_parser_advance(p);
        if (at_end(p, ends)) {
            p->nesting--;
            return true;
        }
        if (!parse_statement(p, out) || !gp_parser_expect_kind(p, TPL_T_BLOCK_END, "'%}'"))
            return false;
    }
}

bool gp_tpl_parse(struct tpl_build *b, struct tpl_node *root)
{
    struct tpl_parser p = {.b = b};

    root->line = 1;
    return parse_body(&p, NULL, &root->body);
}
