#include "eval/grade.h"

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
