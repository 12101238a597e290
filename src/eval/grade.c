#include "eval/grade.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static const char word[] = "\\boxed";

#define WORD_LENGTH (sizeof word - 1)

/* Whether the brace at `at` stands behind the word. */
static bool follows_word(const char *text, size_t at)
{
    return at >= WORD_LENGTH && memcmp(text + at - WORD_LENGTH, word, WORD_LENGTH) == 0;
}

const char *gp_grade_boxed(const char *text, size_t length, size_t *boxed_length)
{
    size_t closing = 0, begin, end, depth = 1;

    /* From the end: a brace that opens is complete when one that closes is left for it. */
    for (begin = length; begin > 0; begin--) {
        char c = text[begin - 1];
        if (c == '}')
            closing++;
        else if (c == '{' && closing > 0 && follows_word(text, begin - 1))
            break;
        else if (c == '{' && closing > 0)
            closing--;
    }
    if (begin == 0)
        return NULL;
    for (end = begin; depth > 0; end++) {
        if (text[end] == '{')
            depth++;
        else if (text[end] == '}')
            depth--;
    }
    *boxed_length = end - 1 - begin;
    return text + begin;
}

static bool is_digit(char c)
{
    return isdigit((unsigned char)c);
}

const char *gp_grade_last_number(const char *text, size_t length, size_t *number_length)
{
    size_t end = length, begin;

    while (end > 0 && !is_digit(text[end - 1]))
        end--;
    if (end == 0)
        return NULL;
    /* Commas and points are the number's where digits follow. */
    for (begin = end - 1; begin > 0; begin--) {
        char before = text[begin - 1];
        bool joins = (before == ',' || before == '.') && is_digit(text[begin]);
        if (!is_digit(before) && !joins)
            break;
    }
    if (text[begin] == ',')
        begin++;
    /* Behind a letter or a digit a minus sign is a dash or a difference. */
    if (begin > 0 && text[begin - 1] == '-' &&
        (begin == 1 || !isalnum((unsigned char)text[begin - 2])))
        begin--;
    *number_length = end - begin;
    return text + begin;
}
