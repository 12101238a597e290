/* The parser's hands: walking over tokens, making nodes. */
#include "text/template/template_parser.h"

#include <stdio.h>
#include <string.h>

const struct tpl_token *gp_parser_here(const struct tpl_parser *p)
{
    return &p->b->tokens[p->at];
}

const struct tpl_token *gp_parser_ahead(const struct tpl_parser *p)
{
    size_t next = p->at + 1 < p->b->token_count ? p->at + 1 : p->at;

    return &p->b->tokens[next];
}

void gp_parser_advance(struct tpl_parser *p)
{
    if (gp_parser_here(p)->kind != TPL_T_EOF)
        p->at++;
}

bool gp_parser_at_op(const struct tpl_parser *p, uint32_t op)
{
    return gp_parser_here(p)->kind == TPL_T_OPERATOR && gp_parser_here(p)->op == op;
}

bool gp_parser_is_name(const struct tpl_token *t, const char *name)
{
    return t->kind == TPL_T_NAME && gp_tpl_is(t->text, name);
}

bool gp_parser_at_name(const struct tpl_parser *p, const char *name)
{
    return gp_parser_is_name(gp_parser_here(p), name);
}

bool gp_parser_skip_name(struct tpl_parser *p, const char *name)
{
    bool there = gp_parser_at_name(p, name);

    if (there)
        gp_parser_advance(p);
    return there;
}

bool gp_parser_skip_op(struct tpl_parser *p, uint32_t op)
{
    bool there = gp_parser_at_op(p, op);

    if (there)
        gp_parser_advance(p);
    return there;
}

/* Refuse what stands here. */
bool gp_parser_unexpected(struct tpl_parser *p, const char *wanted)
{
    const struct tpl_token *t = gp_parser_here(p);
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

bool gp_parser_expect_op(struct tpl_parser *p, uint32_t op, const char *spelling)
{
    return gp_parser_skip_op(p, op) || gp_parser_unexpected(p, spelling);
}

bool gp_parser_expect_kind(struct tpl_parser *p, enum tpl_token_kind kind, const char *spelling)
{
    if (gp_parser_here(p)->kind != kind)
        return gp_parser_unexpected(p, spelling);
    gp_parser_advance(p);
    return true;
}

struct tpl_node *gp_parser_node(struct tpl_parser *p, enum tpl_node_kind kind, uint32_t line)
{
    struct tpl_node *n = gp_tpl_build_alloc(p->b, sizeof *n);

    if (n) {
        n->kind = (uint8_t)kind;
        n->line = line;
    }
    return n;
}

bool gp_parser_add(struct tpl_parser *p, struct tpl_nodes *list, struct tpl_node *n)
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
struct tpl_node *gp_parser_finish(struct tpl_parser *p, struct tpl_node *n)
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

bool gp_parser_enter(struct tpl_parser *p)
{
    if (p->nesting >= TPL_NESTING)
        return gp_tpl_refuse(p->b, GP_EINVAL, gp_parser_here(p)->line, "nested more than %u deep",
                             TPL_NESTING);
    p->nesting++;
    return true;
}
