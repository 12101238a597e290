/* An answer that was read: what it is made of.  Nodes are named by index, 0 is none. */
#ifndef GP_EVAL_ANSWER_TREE_H
#define GP_EVAL_ANSWER_TREE_H

#include "eval/answer_tokens.h"

#define GP_ANSWER_NODES_MAX 1024u
#define GP_ANSWER_DEPTH_MAX 128u
/* Sets in sets are compared in every order, which takes time that doubles with each.  The list that
 * an answer is at first counts. */
#define GP_ANSWER_NESTED_MAX 4u

enum gp_answer_kind {
    /* Values. */
    GP_ANSWER_IS_NUMBER, /* token; base                                                  */
    GP_ANSWER_IS_SYMBOL, /* token, and perhaps a token `below` it                        */
    GP_ANSWER_IS_SUM,
    GP_ANSWER_IS_PRODUCT,
    GP_ANSWER_IS_NEGATIVE,
    GP_ANSWER_IS_INVERSE,
    GP_ANSWER_IS_POWER,      /* of the first child to the second                         */
    GP_ANSWER_IS_ROOT,       /* of the first child; the degree is the second, if any     */
    GP_ANSWER_IS_BINOMIAL,   /* first over second                                        */
    GP_ANSWER_IS_FUNCTION,   /* of the first child; a logarithm's base is the second     */
    GP_ANSWER_IS_PLUS_MINUS, /* both signs of its child                                  */
    GP_ANSWER_IS_MINUS_PLUS,
    GP_ANSWER_IS_PERCENT, /* of its child                                                */
    /* Made of values. */
    GP_ANSWER_IS_LIST,  /* with commas, bare                                             */
    GP_ANSWER_IS_SET,   /* in braces                                                     */
    GP_ANSWER_IS_TUPLE, /* in brackets `open` and `close`: tuples, points, intervals     */
    GP_ANSWER_IS_UNION,
    GP_ANSWER_IS_MATRIX, /* its children are rows                                       */
    GP_ANSWER_IS_ROW,
    GP_ANSWER_IS_RELATION, /* `open` is its sign                                         */
};

struct gp_answer_node {
    enum gp_answer_kind kind;
    uint16_t first, next;
    bool both_signs; /* there is a plus-minus in it */
    uint8_t nested;  /* how deep what is made of values lies in what is made of values */
    uint32_t base;   /* of a number; 0: none is written */
    enum gp_answer_function function;
    int open, close;
    const struct gp_answer_token *token, *below;
};

struct gp_answer_tree {
    struct gp_answer_node nodes[GP_ANSWER_NODES_MAX]; /* nodes[0] is unused */
    uint32_t count;
    uint16_t root;
};

/* False when the tokens are no mathematics; *words says that they are words. The tree refers to
 * the tokens. */
bool gp_answer_parse(struct gp_answer_tree *tree, const struct gp_answer_tokens *tokens,
                     bool *words);

/* Whether two symbols are the same letter. */
bool gp_answer_symbol_same(const struct gp_answer_node *a, const struct gp_answer_node *b);

/* Whether a symbol is this one. */
bool gp_answer_symbol_is(const struct gp_answer_node *symbol, const char *name);

#endif
