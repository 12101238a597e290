#include "eval/grade.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static const char word[] = "\\boxed";

#define WORD_LENGTH (sizeof word - 1)

static const char fence[] = "```";

#define FENCE_LENGTH (sizeof fence - 1)

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

/* The last fence that ends before `end`; NULL: there is none. */
static const char *last_fence(const char *text, size_t end)
{
    for (size_t at = end; at >= FENCE_LENGTH; at--)
        if (memcmp(text + at - FENCE_LENGTH, fence, FENCE_LENGTH) == 0)
            return text + at - FENCE_LENGTH;
    return NULL;
}

static const char *line_of(const char *text, const char *at)
{
    while (at > text && at[-1] != '\n')
        at--;
    return at;
}

const char *gp_grade_program(const char *text, size_t length, size_t *program_length)
{
    const char *closing = last_fence(text, length);

    if (!closing)
        return NULL;
    closing = line_of(text, closing);
    const char *opening = last_fence(text, (size_t)(closing - text));
    if (!opening)
        return NULL;
    /* It stands on an earlier line, so there is one to come. */
    const char *program = (const char *)memchr(opening, '\n', (size_t)(closing - opening)) + 1;
    *program_length = (size_t)(closing - program);
    return program;
}
