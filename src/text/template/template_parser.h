/* What the three files of the parser share. */
#ifndef GP_TEXT_TEMPLATE_PARSER_H
#define GP_TEXT_TEMPLATE_PARSER_H

#include "text/template/template_internal.h"

struct tpl_parser {
    struct tpl_build *b;
    size_t at;
    uint32_t nesting;
    uint32_t loops; /* around here, in the same function: may one break? */
};

/* tokens */
const struct tpl_token *gp_parser_here(const struct tpl_parser *p);
const struct tpl_token *gp_parser_ahead(const struct tpl_parser *p);
void gp_parser_advance(struct tpl_parser *p);
bool gp_parser_is_name(const struct tpl_token *t, const char *name);
bool gp_parser_at_op(const struct tpl_parser *p, uint32_t op);
bool gp_parser_at_name(const struct tpl_parser *p, const char *name);
bool gp_parser_skip_op(struct tpl_parser *p, uint32_t op);
bool gp_parser_skip_name(struct tpl_parser *p, const char *name);

/* False, and the template is refused, when it is not there. */
bool gp_parser_expect_op(struct tpl_parser *p, uint32_t op, const char *spelling);
bool gp_parser_expect_kind(struct tpl_parser *p, enum tpl_token_kind kind, const char *spelling);
bool gp_parser_unexpected(struct tpl_parser *p, const char *wanted); /* always false */

/* One level deeper; leave with p->nesting--. */
bool gp_parser_enter(struct tpl_parser *p);

/* nodes; NULL when refused */
struct tpl_node *gp_parser_node(struct tpl_parser *p, enum tpl_node_kind kind, uint32_t line);
bool gp_parser_add(struct tpl_parser *p, struct tpl_nodes *list, struct tpl_node *n);
struct tpl_node *gp_parser_finish(struct tpl_parser *p, struct tpl_node *n);

/* expressions */
enum tpl_tuple_of {
    TPL_OF_EXPRESSIONS,
    TPL_OF_UNCONDITIONAL, /* without a if b else c */
    TPL_OF_TARGETS,
    TPL_OF_NAMESPACE_TARGETS,
};

struct tpl_node *gp_parser_expression(struct tpl_parser *p, bool conditional);
/* One expression, or several with commas between them, which make a tuple.  end_word, or NULL, ends
 * it like the tag's end does. */
struct tpl_node *gp_parser_tuple(struct tpl_parser *p, enum tpl_tuple_of of, const char *end_word,
                                 bool in_parentheses);
struct tpl_node *gp_parser_name(struct tpl_parser *p, bool namespace);
/* What stands behind '|'. */
struct tpl_node *gp_parser_filter(struct tpl_parser *p, struct tpl_node *of);

#endif
