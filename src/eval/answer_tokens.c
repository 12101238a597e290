#include "eval/answer_tokens.h"

#include <ctype.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

struct word {
    const char *name;
    int code;
    enum gp_answer_function function;
};

/* Commands of LaTeX, without their backslash.  Those that are none of these are symbols. */
static const struct word commands[] = {
    {"frac", GP_ANSWER_FRACTION},
    {"dfrac", GP_ANSWER_FRACTION},
    {"tfrac", GP_ANSWER_FRACTION},
    {"cfrac", GP_ANSWER_FRACTION},
    {"sqrt", GP_ANSWER_ROOT},
    {"binom", GP_ANSWER_BINOMIAL},
    {"dbinom", GP_ANSWER_BINOMIAL},
    {"tbinom", GP_ANSWER_BINOMIAL},
    {"circ", GP_ANSWER_DEGREE},
    {"degree", GP_ANSWER_DEGREE},
    {"degrees", GP_ANSWER_DEGREE},
    {"pm", GP_ANSWER_PLUS_MINUS},
    {"mp", GP_ANSWER_MINUS_PLUS},
    {"le", GP_ANSWER_AT_MOST},
    {"leq", GP_ANSWER_AT_MOST},
    {"leqslant", GP_ANSWER_AT_MOST},
    {"ge", GP_ANSWER_AT_LEAST},
    {"geq", GP_ANSWER_AT_LEAST},
    {"geqslant", GP_ANSWER_AT_LEAST},
    {"lt", '<'},
    {"gt", '>'},
    {"ne", GP_ANSWER_UNEQUAL},
    {"neq", GP_ANSWER_UNEQUAL},
    {"in", GP_ANSWER_ELEMENT},
    {"cup", GP_ANSWER_UNION},
    {"lbrace", GP_ANSWER_SET_OPEN},
    {"rbrace", GP_ANSWER_SET_CLOSE},
    {"lfloor", GP_ANSWER_FLOOR_OPEN},
    {"rfloor", GP_ANSWER_FLOOR_CLOSE},
    {"lceil", GP_ANSWER_CEILING_OPEN},
    {"rceil", GP_ANSWER_CEILING_CLOSE},
    {"lvert", '|'},
    {"rvert", '|'},
    {"vert", '|'},
    {"mid", '|'},
    {"cdot", '*'},
    {"times", '*'},
    {"ast", '*'},
    {"div", '/'},
    {"colon", ':'},
    {"lbrack", '['},
    {"rbrack", ']'},
    {"sin", GP_ANSWER_FUNCTION, GP_ANSWER_SIN},
    {"cos", GP_ANSWER_FUNCTION, GP_ANSWER_COS},
    {"tan", GP_ANSWER_FUNCTION, GP_ANSWER_TAN},
    {"cot", GP_ANSWER_FUNCTION, GP_ANSWER_COT},
    {"sec", GP_ANSWER_FUNCTION, GP_ANSWER_SEC},
    {"csc", GP_ANSWER_FUNCTION, GP_ANSWER_CSC},
    {"arcsin", GP_ANSWER_FUNCTION, GP_ANSWER_ARCSIN},
    {"arccos", GP_ANSWER_FUNCTION, GP_ANSWER_ARCCOS},
    {"arctan", GP_ANSWER_FUNCTION, GP_ANSWER_ARCTAN},
    {"sinh", GP_ANSWER_FUNCTION, GP_ANSWER_SINH},
    {"cosh", GP_ANSWER_FUNCTION, GP_ANSWER_COSH},
    {"tanh", GP_ANSWER_FUNCTION, GP_ANSWER_TANH},
    {"ln", GP_ANSWER_FUNCTION, GP_ANSWER_LOG},
    {"log", GP_ANSWER_FUNCTION, GP_ANSWER_LOG},
    {"exp", GP_ANSWER_FUNCTION, GP_ANSWER_EXP},
};

/* Words that mean the same without a backslash. */
static const char *const plain[] = {
    "sqrt",   "sin",  "cos",  "tan",  "cot", "sec", "csc", "arcsin", "arccos",
    "arctan", "sinh", "cosh", "tanh", "ln",  "log", "exp", "degree", "degrees",
};

/* Those that only say how it looks. */
static const char *const layout[] = {
    "left",  "right",   "big",   "Big",   "bigg",         "Bigg",      "bigl",   "bigr",
    "Bigl",  "Bigr",    "biggl", "biggr", "displaystyle", "textstyle", "limits", "quad",
    "qquad", "nobreak", "hline", "hfill", "thinspace",    "middle",    "space",
};

/* Those whose group is words. */
static const char *const texts[] = {"text",   "mbox",         "textbf", "textit",
                                    "textrm", "textnormal",   "mathrm", "mathbf",
                                    "mathit", "operatorname", "hbox",   "rm"};

/* Two letters that are a unit behind a number, and no product. */
static const char *const units[] = {"cm", "mm", "km", "kg", "mg", "ft", "in", "mi",
                                    "lb", "oz", "ml", "hr", "pm", "am", "sq"};

/* Characters beyond ASCII. */
static const struct {
    const char *bytes;
    int code;
    const char *symbol;
} characters[] = {
    {"\u2212", '-', NULL},
    {"\u2013", '-', NULL},
    {"\u00d7", '*', NULL},
    {"\u00b7", '*', NULL},
    {"\u22c5", '*', NULL},
    {"\u00f7", '/', NULL},
    {"\u00b0", GP_ANSWER_DEGREE, NULL},
    {"\u221a", GP_ANSWER_ROOT, NULL},
    {"\u00b1", GP_ANSWER_PLUS_MINUS, NULL},
    {"\u2264", GP_ANSWER_AT_MOST, NULL},
    {"\u2265", GP_ANSWER_AT_LEAST, NULL},
    {"\u2260", GP_ANSWER_UNEQUAL, NULL},
    {"\u2208", GP_ANSWER_ELEMENT, NULL},
    {"\u222a", GP_ANSWER_UNION, NULL},
    {"\u03c0", GP_ANSWER_SYMBOL, "pi"},
    {"\u221e", GP_ANSWER_SYMBOL, "infty"},
    {"\u03b8", GP_ANSWER_SYMBOL, "theta"},
    {"\u00a0", ' ', NULL},
};

struct reader {
    const char *text;
    size_t length, at;
    struct gp_answer_tokens *out;
    uint32_t depth; /* of parentheses, brackets and sets */
    bool full;
};

static bool is(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(text, word, length) == 0;
}

static bool among(const char *text, size_t length, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is(text, length, words[i]))
            return true;
    return false;
}

static char peek(const struct reader *r, size_t ahead)
{
    return ahead < r->length - r->at ? r->text[r->at + ahead] : 0;
}

static void put(struct reader *r, struct gp_answer_token token)
{
    if (r->out->count + 1 == GP_ANSWER_TOKENS_MAX)
        r->full = true;
    else
        r->out->items[r->out->count++] = token;
}

static void put_code(struct reader *r, int code)
{
    if (code == '(' || code == '[' || code == GP_ANSWER_SET_OPEN)
        r->depth++;
    if ((code == ')' || code == ']' || code == GP_ANSWER_SET_CLOSE) && r->depth > 0)
        r->depth--;
    put(r, (struct gp_answer_token){.code = code});
}

static void put_text(struct reader *r, int code, const char *text, size_t length)
{
    put(r, (struct gp_answer_token){.code = code, .text = text, .length = (uint32_t)length});
}

/* ---- numbers ---- */

static bool three_digits(const struct reader *r, size_t ahead)
{
    for (size_t i = 0; i < 3; i++)
        if (!isdigit((unsigned char)peek(r, ahead + i)))
            return false;
    return !isdigit((unsigned char)peek(r, ahead + 3));
}

/* Bytes of a thousands mark here, before three digits: "10,\!080", "10{,}080", and at the top,
 * where a comma could not be a list's within brackets, "10,080". */
static size_t thousands_mark(const struct reader *r)
{
    size_t length = 0;

    if (peek(r, 0) == '{' && peek(r, 1) == ',' && peek(r, 2) == '}') {
        length = 3;
    } else if (peek(r, 0) == ',' && peek(r, 1) == '\\' && peek(r, 2) == '!') {
        for (length = 3; peek(r, length) == ' ';)
            length++;
    } else if (peek(r, 0) == ',' && r->depth == 0) {
        length = 1;
    }
    return length > 0 && three_digits(r, length) ? length : 0;
}

static void read_number(struct reader *r)
{
    size_t begin = r->at, digits = 0, mark;

    /* Without braces a fraction takes a digit: \frac43. */
    if (r->out->count > 0 && r->out->items[r->out->count - 1].code == GP_ANSWER_FRACTION) {
        put_text(r, GP_ANSWER_NUMBER, r->text + r->at++, 1);
        return;
    }
    for (; isdigit((unsigned char)peek(r, 0)); digits++)
        r->at++;
    while (digits > 0 && digits <= 3 && (mark = thousands_mark(r)) > 0)
        r->at += mark + 3;
    if (peek(r, 0) == '.' && isdigit((unsigned char)peek(r, 1)))
        for (r->at++; isdigit((unsigned char)peek(r, 0));)
            r->at++;
    put_text(r, GP_ANSWER_NUMBER, r->text + begin, r->at - begin);
}

char gp_answer_digit(const struct gp_answer_token *number, uint32_t *at)
{
    while (*at < number->length) {
        char c = number->text[(*at)++];
        if (isalnum((unsigned char)c) || c == '.')
            return c;
    }
    return 0;
}

/* ---- words ---- */

static const struct word *find_command(const char *name, size_t length)
{
    for (size_t i = 0; i < COUNT(commands); i++)
        if (is(name, length, commands[i].name))
            return &commands[i];
    return NULL;
}

static void put_word(struct reader *r, const struct word *word)
{
    if (word->code == GP_ANSWER_FUNCTION)
        put(r, (struct gp_answer_token){.code = word->code, .function = word->function});
    else
        put_code(r, word->code);
}

/* A word, or a comma for one that joins. */
static void put_words(struct reader *r, const char *text, size_t length)
{
    while (length > 0 && isspace((unsigned char)*text))
        text++, length--;
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        length--;
    if (is(text, length, "and") || is(text, length, "or") || is(text, length, ","))
        put_code(r, ',');
    else if (is(text, length, "degrees") || is(text, length, "degree"))
        put_code(r, GP_ANSWER_DEGREE);
    else if (length > 0)
        put_text(r, GP_ANSWER_TEXT, text, length);
}

/* Letters without a backslash: a word that means something, a word that does not, or factors. */
static void read_letters(struct reader *r)
{
    const char *text = r->text + r->at;
    size_t length = 0;
    int before = r->out->count > 0 ? r->out->items[r->out->count - 1].code : GP_ANSWER_END;

    while (isalpha((unsigned char)peek(r, length)))
        length++;
    r->at += length;
    if (among(text, length, plain, COUNT(plain))) {
        put_word(r, find_command(text, length));
    } else if (is(text, length, "pi")) {
        put_text(r, GP_ANSWER_SYMBOL, text, length);
    } else if (is(text, length, "infinity") || is(text, length, "oo")) {
        put_text(r, GP_ANSWER_SYMBOL, "infty", 5);
    } else if (is(text, length, "U") && (before == ')' || before == ']')) {
        put_code(r, GP_ANSWER_UNION);
    } else if (length > 2 || is(text, length, "or") ||
               (before == GP_ANSWER_NUMBER && among(text, length, units, COUNT(units)))) {
        put_words(r, text, length);
    } else {
        for (size_t i = 0; i < length; i++)
            put_text(r, GP_ANSWER_SYMBOL, text + i, 1);
    }
}

/* ---- commands ---- */

/* What a group holds, past it; false and nothing taken when none is here. */
static bool take_group(struct reader *r, const char **text, size_t *length)
{
    size_t at = r->at, depth = 0;

    while (at < r->length && r->text[at] == ' ')
        at++;
    if (at == r->length || r->text[at] != '{')
        return false;
    size_t begin = at + 1;
    for (; at < r->length; at++) {
        depth += r->text[at] == '{' ? 1u : 0;
        depth -= r->text[at] == '}' ? 1u : 0;
        if (depth == 0)
            break;
    }
    if (at == r->length)
        return false;
    *text = r->text + begin;
    *length = at - begin;
    r->at = at + 1;
    return true;
}

static void read_environment(struct reader *r, bool opens)
{
    const char *name, *columns;
    size_t length, columns_length;

    if (!take_group(r, &name, &length)) {
        put_text(r, GP_ANSWER_SYMBOL, "begin", 5);
        return;
    }
    if (opens && is(name, length, "array"))
        take_group(r, &columns, &columns_length);
    put_code(r, opens ? GP_ANSWER_MATRIX_OPEN : GP_ANSWER_MATRIX_CLOSE);
}

static void read_named_command(struct reader *r, const char *name, size_t length)
{
    const struct word *word = find_command(name, length);
    const char *group;
    size_t group_length;

    if (word)
        put_word(r, word);
    else if (is(name, length, "begin") || is(name, length, "end"))
        read_environment(r, *name == 'b');
    else if (among(name, length, texts, COUNT(texts)) && take_group(r, &group, &group_length))
        put_words(r, group, group_length);
    else if (is(name, length, "mathbb") && take_group(r, &group, &group_length))
        put_text(r, GP_ANSWER_SYMBOL, name, (size_t)(group + group_length - name));
    else if (!among(name, length, layout, COUNT(layout)) &&
             !among(name, length, texts, COUNT(texts)))
        put_text(r, GP_ANSWER_SYMBOL, name, length);
}

/* At a backslash. */
static void read_command(struct reader *r)
{
    const char *name = r->text + r->at + 1;
    size_t length = 0;

    while (isalpha((unsigned char)peek(r, 1 + length)))
        length++;
    if (length > 0) {
        r->at += 1 + length;
        read_named_command(r, name, length);
        /* The invisible delimiter of \left and \right. */
        if ((is(name, length, "left") || is(name, length, "right")) && peek(r, 0) == '.')
            r->at++;
        return;
    }
    char c = peek(r, 1);
    r->at += c ? 2 : 1;
    if (c == '{')
        put_code(r, GP_ANSWER_SET_OPEN);
    else if (c == '}')
        put_code(r, GP_ANSWER_SET_CLOSE);
    else if (c == '\\')
        put_code(r, GP_ANSWER_ROW);
    else if (c == '%' || c == '|' || c == '&' || c == '#' || c == '_')
        put_code(r, c);
}

static void read_beyond_ascii(struct reader *r)
{
    for (size_t i = 0; i < COUNT(characters); i++) {
        size_t length = strlen(characters[i].bytes);
        if (length > r->length - r->at || memcmp(r->text + r->at, characters[i].bytes, length) != 0)
            continue;
        r->at += length;
        if (characters[i].symbol)
            put_text(r, GP_ANSWER_SYMBOL, characters[i].symbol, strlen(characters[i].symbol));
        else if (characters[i].code != ' ')
            put_code(r, characters[i].code);
        return;
    }
    put_text(r, GP_ANSWER_TEXT, r->text + r->at++, 1);
}

/* ---- all ---- */

/* Whether nothing but blanks and dollars is left. */
static bool at_end(const struct reader *r)
{
    size_t ahead = 0;

    while (isspace((unsigned char)peek(r, ahead)) || peek(r, ahead) == '$')
        ahead++;
    return r->at + ahead >= r->length;
}

static void read_sign(struct reader *r)
{
    char c = peek(r, 0), next = peek(r, 1);

    if (c == '*' && next == '*') {
        r->at++;
        c = '^';
    } else if ((c == '<' || c == '>') && next == '=') {
        r->at += 2;
        put_code(r, c == '<' ? GP_ANSWER_AT_MOST : GP_ANSWER_AT_LEAST);
        return;
    }
    r->at++;
    /* Dollars are of money or of mathematics; a last period ends a sentence. */
    bool last = c == '.' && at_end(r);
    if (c != '$' && c != '~' && !last)
        put_code(r, c);
}

bool gp_answer_tokens_read(struct gp_answer_tokens *out, const char *text, size_t length)
{
    struct reader r = {.text = text, .length = length, .out = out};

    out->count = 0;
    while (r.at < length && !r.full) {
        unsigned char c = (unsigned char)peek(&r, 0);

        if (isspace(c) || c == 0)
            r.at++;
        else if (isdigit(c) || (c == '.' && isdigit((unsigned char)peek(&r, 1))))
            read_number(&r);
        else if (c == '\\')
            read_command(&r);
        else if (isalpha(c))
            read_letters(&r);
        else if (c >= 0x80)
            read_beyond_ascii(&r);
        else
            read_sign(&r);
    }
    out->items[out->count] = (struct gp_answer_token){.code = GP_ANSWER_END};
    return !r.full;
}
