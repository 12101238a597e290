/* The signs of an answer: LaTeX commands, Unicode and plain spelling become one code each, marks of
 * layout vanish, thousands marks become part of their number. */
#ifndef GP_EVAL_ANSWER_TOKENS_H
#define GP_EVAL_ANSWER_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GP_ANSWER_TOKENS_MAX 1024u

/* A sign that is one ASCII character has that as its code. */
enum gp_answer_code {
    GP_ANSWER_END = 0,
    GP_ANSWER_NUMBER = 256, /* digits, with a point and thousands marks among them           */
    GP_ANSWER_SYMBOL,       /* a letter, or the name of a command                            */
    GP_ANSWER_TEXT,         /* a word, or what \text{} holds                                 */
    GP_ANSWER_FUNCTION,     /* `function` says which                                         */
    GP_ANSWER_FRACTION,
    GP_ANSWER_ROOT,
    GP_ANSWER_BINOMIAL,
    GP_ANSWER_DEGREE,
    GP_ANSWER_PLUS_MINUS,
    GP_ANSWER_MINUS_PLUS,
    GP_ANSWER_AT_MOST,
    GP_ANSWER_AT_LEAST,
    GP_ANSWER_UNEQUAL,
    GP_ANSWER_ELEMENT, /* x in a set */
    GP_ANSWER_UNION,
    GP_ANSWER_SET_OPEN,
    GP_ANSWER_SET_CLOSE,
    GP_ANSWER_FLOOR_OPEN,
    GP_ANSWER_FLOOR_CLOSE,
    GP_ANSWER_CEILING_OPEN,
    GP_ANSWER_CEILING_CLOSE,
    GP_ANSWER_MATRIX_OPEN,
    GP_ANSWER_MATRIX_CLOSE,
    GP_ANSWER_ROW,
};

enum gp_answer_function {
    GP_ANSWER_SIN,
    GP_ANSWER_COS,
    GP_ANSWER_TAN,
    GP_ANSWER_COT,
    GP_ANSWER_SEC,
    GP_ANSWER_CSC,
    GP_ANSWER_ARCSIN,
    GP_ANSWER_ARCCOS,
    GP_ANSWER_ARCTAN,
    GP_ANSWER_SINH,
    GP_ANSWER_COSH,
    GP_ANSWER_TANH,
    GP_ANSWER_LOG, /* natural without a base */
    GP_ANSWER_EXP,
    GP_ANSWER_ABS, /* of here on: not a name that takes an argument without parentheses */
    GP_ANSWER_FLOOR,
    GP_ANSWER_CEILING,
    GP_ANSWER_FACTORIAL,
};

struct gp_answer_token {
    int code;
    enum gp_answer_function function;
    const char *text; /* NUMBER, SYMBOL, TEXT; points into the answer or is constant */
    uint32_t length;
};

struct gp_answer_tokens {
    struct gp_answer_token items[GP_ANSWER_TOKENS_MAX]; /* the last is GP_ANSWER_END */
    uint32_t count;                                     /* without that              */
};

/* False: too many of them. */
bool gp_answer_tokens_read(struct gp_answer_tokens *out, const char *text, size_t length);

/* The next digit, point or letter of a number's text from *at, past thousands marks; 0 at the
 * end. */
char gp_answer_digit(const struct gp_answer_token *number, uint32_t *at);

#endif
