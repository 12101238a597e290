/* The checkers: each reads its suite's prompt, works the problem out its own way and compares.
 *
 * They see nothing of the generators.  A prompt that is not of the suite's form has no answer. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "eval/suite.h"

#define LETTERS 26u
#define SPACES  " \t\r\n"

/* Reads a prompt from left to right.  After the first surprise ok is false for good, what is read
 * is 0, and at stays where it was. */
struct scan {
    const char *at;
    bool ok;
};

/* What the letters stand for. */
struct names {
    uint32_t values[LETTERS];
    bool known[LETTERS];
    uint32_t count;
};

/* The answer as it has to be written; zero-terminated. */
struct text {
    char bytes[4096];
    size_t length;
};

/* ---- reading ---- */

/* As in the C locale, whatever the locale. */
static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool next_is(const struct scan *s, const char *text)
{
    return s->ok && strncmp(s->at, text, strlen(text)) == 0;
}

static bool take(struct scan *s, const char *text)
{
    if (!next_is(s, text))
        return false;
    s->at += strlen(text);
    return true;
}

static void expect(struct scan *s, const char *text)
{
    if (!take(s, text))
        s->ok = false;
}

/* Every digit that stands here: least to most of them, at most 9. */
static uint32_t read_number(struct scan *s, size_t least, size_t most)
{
    size_t digits = s->ok ? strspn(s->at, "0123456789") : 0;
    uint32_t value = 0;

    if (digits < least || digits > most)
        s->ok = false;
    for (size_t i = 0; s->ok && i < digits; i++)
        value = value * 10 + (uint32_t)(*s->at++ - '0');
    return value;
}

/* One without zeros in front, as an answer would be written. */
static uint32_t read_plain(struct scan *s, size_t least, size_t most)
{
    if (s->at[0] == '0')
        s->ok = false;
    return read_number(s, least, most);
}

/* A lower-case letter that means nothing yet; its index. */
static uint32_t read_new(struct scan *s, const struct names *names)
{
    uint32_t index = (uint32_t)(*s->at - 'a');

    if (!s->ok || index >= LETTERS || names->known[index]) {
        s->ok = false;
        return 0;
    }
    s->at++;
    return index;
}

/* An upper-case letter that means something; its index. */
static uint32_t read_reference(struct scan *s, const struct names *names)
{
    uint32_t index = (uint32_t)(*s->at - 'A');

    if (!s->ok || index >= LETTERS || !names->known[index]) {
        s->ok = false;
        return 0;
    }
    s->at++;
    return index;
}

static void define(struct names *names, uint32_t index, uint32_t value)
{
    names->values[index] = value;
    names->known[index] = true;
    names->count++;
}

static void read_item(struct scan *s, struct names *names, size_t digits)
{
    uint32_t index = read_new(s, names);

    define(names, index, read_number(s, digits, digits));
}

static bool next_is_item(const struct scan *s)
{
    return s->ok && s->at[0] == ' ' && is_lower(s->at[1]) && is_digit(s->at[2]);
}

/* " a37 b05": one or more. */
static void read_items(struct scan *s, struct names *names, size_t digits)
{
    do {
        expect(s, " ");
        read_item(s, names, digits);
    } while (next_is_item(s));
}

/* The end of every prompt. */
static void expect_end(struct scan *s)
{
    if (!take(s, " and check."))
        expect(s, ".");
    if (*s->at)
        s->ok = false;
}

/* ---- the answer ---- */

static void put(struct scan *s, struct text *text, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void put(struct scan *s, struct text *text, const char *format, ...)
{
    size_t room = sizeof text->bytes - text->length;
    va_list args;

    va_start(args, format);
    int length = vsnprintf(text->bytes + text->length, room, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= room)
        s->ok = false;
    else
        text->length += (size_t)length;
}

/* Items of an answer are a space apart. */
static const char *gap(const struct text *text)
{
    return text->length > 0 ? " " : "";
}

static bool is_same(const char *answer, const char *right, size_t length)
{
    answer += strspn(answer, SPACES);
    return strncmp(answer, right, length) == 0 &&
           answer[length + strspn(answer + length, SPACES)] == 0;
}

static bool is_answer(const struct scan *s, const char *answer, const struct text *right)
{
    return s->ok && is_same(answer, right->bytes, right->length);
}

/* ---- the suites ---- */

/* Add a429 b915 c310. */
bool gp_check_sum(const char *prompt, const char *answer)
{
    struct scan s = {.at = prompt, .ok = true};
    struct names names = {0};
    struct text right = {0};
    uint32_t sum = 0;

    expect(&s, "Add");
    read_items(&s, &names, 3);
    expect_end(&s);
    for (uint32_t i = 0; i < LETTERS; i++)
        sum += names.values[i];
    put(&s, &right, "%u", sum);
    return is_answer(&s, answer, &right);
}

/* Multiply 836*47 91*205. */
bool gp_check_mul(const char *prompt, const char *answer)
{
    struct scan s = {.at = prompt, .ok = true};
    struct text right = {0};

    expect(&s, "Multiply");
    do {
        expect(&s, " ");
        uint64_t a = read_plain(&s, 2, 6);
        expect(&s, "*");
        uint64_t b = read_plain(&s, 2, 6);
        put(&s, &right, "%s%llu", gap(&right), (unsigned long long)(a * b));
    } while (s.ok && s.at[0] == ' ' && is_digit(s.at[1]));
    expect_end(&s);
    return is_answer(&s, answer, &right);
}

/* C=A+B */
static void read_definition(struct scan *s, struct names *names)
{
    uint32_t index = (uint32_t)(*s->at - 'A');

    if (!s->ok || index >= LETTERS || names->known[index]) {
        s->ok = false;
        return;
    }
    s->at++;
    expect(s, "=");
    uint32_t left = names->values[read_reference(s, names)];
    bool minus = take(s, "-");
    if (!minus)
        expect(s, "+");
    uint32_t right = names->values[read_reference(s, names)];
    define(names, index, (minus ? left + 100 - right : left + right) % 100);
}

/* Run a37 b58 C=A+B D=C-A E=B+D, show CE. */
bool gp_check_prog(const char *prompt, const char *answer)
{
    struct scan s = {.at = prompt, .ok = true};
    struct names names = {0};
    struct text right = {0};

    expect(&s, "Run");
    read_items(&s, &names, 2);
    while (take(&s, " "))
        read_definition(&s, &names);
    expect(&s, ", show ");
    do {
        uint32_t value = names.values[read_reference(&s, &names)];
        put(&s, &right, "%s%02u", gap(&right), value);
    } while (s.ok && is_upper(*s.at));
    expect_end(&s);
    return is_answer(&s, answer, &right);
}

/* Sort a48 b17 c93 d22. */
bool gp_check_sort(const char *prompt, const char *answer)
{
    struct scan s = {.at = prompt, .ok = true};
    struct names names = {0};
    struct text right = {0};
    uint32_t counts[100] = {0};

    expect(&s, "Sort");
    read_items(&s, &names, 2);
    expect_end(&s);
    for (uint32_t i = 0; i < LETTERS; i++)
        if (names.known[i] && ++counts[names.values[i]] > 1)
            s.ok = false;
    for (uint32_t value = 0; value < 100; value++)
        if (counts[value] > 0)
            put(&s, &right, "%s%02u", gap(&right), value);
    return is_answer(&s, answer, &right);
}

/* 1ACB or 2+07*9: what it adds. */
static uint32_t read_phase(struct scan *s, const struct names *names)
{
    uint32_t sum = 0;

    if (take(s, "+")) {
        uint32_t value = read_number(s, 2, 2);
        expect(s, "*");
        return value * read_number(s, 1, 2);
    }
    do {
        sum += names->values[read_reference(s, names)];
    } while (s->ok && is_upper(*s->at));
    return sum;
}

/* Table a37 b05 c88. 1ACB 2+07*9 3BA. */
bool gp_check_phase(const char *prompt, const char *answer)
{
    struct scan s = {.at = prompt, .ok = true};
    struct names names = {0};
    struct text right = {0};
    uint32_t number = 0, total = 0;

    expect(&s, "Table");
    read_items(&s, &names, 2);
    expect(&s, ".");
    do {
        expect(&s, " ");
        if (read_number(&s, 1, 1) != ++number)
            s.ok = false;
        total += read_phase(&s, &names);
    } while (s.ok && s.at[0] == ' ' && is_digit(s.at[1]));
    expect_end(&s);
    put(&s, &right, "%02u", total % 100);
    return is_answer(&s, answer, &right);
}

/* " aC bD cB dA": every letter that is come to leads on. */
static void read_links(struct scan *s, struct names *names)
{
    do {
        expect(s, " ");
        uint32_t from = read_new(s, names), to = (uint32_t)(*s->at - 'A');
        if (!s->ok || to >= LETTERS) {
            s->ok = false;
            return;
        }
        s->at++;
        define(names, from, to);
    } while (next_is(s, " "));
    for (uint32_t i = 0; i < LETTERS; i++)
        if (names->known[i] && !names->known[names->values[i]])
            s->ok = false;
}

/* Links aC bD cB dA. a37 d52. */
bool gp_check_walk(const char *prompt, const char *answer)
{
    struct scan s = {.at = prompt, .ok = true};
    struct names links = {0};
    struct text right = {0};

    expect(&s, "Links");
    read_links(&s, &links);
    expect(&s, ".");
    do {
        expect(&s, " ");
        uint32_t at = (uint32_t)(*s.at - 'a');
        if (!s.ok || at >= LETTERS || !links.known[at])
            return false;
        s.at++;
        for (uint32_t left = read_number(&s, 1, 2); left > 0; left--)
            at = links.values[at];
        put(&s, &right, "%s%c", gap(&right), (char)('A' + at));
    } while (next_is_item(&s));
    expect_end(&s);
    return is_answer(&s, answer, &right);
}

/* Pick from a3 b9 c4 d7 e2 f8 sum 19. */
bool gp_check_find(const char *prompt, const char *answer)
{
    struct scan s = {.at = prompt, .ok = true};
    struct names names = {0};

    expect(&s, "Pick from");
    read_items(&s, &names, 1);
    expect(&s, " sum ");
    uint32_t goal = read_plain(&s, 1, 3), sum = 0;
    expect_end(&s);
    if (!s.ok)
        return false;
    answer += strspn(answer, SPACES);
    for (char last = 0; is_lower(*answer); last = *answer++) {
        uint32_t index = (uint32_t)(*answer - 'a');
        if (*answer <= last || !names.known[index])
            return false;
        sum += names.values[index];
    }
    return sum == goal && is_same(answer, "", 0);
}

/* Copy xk3q. */
bool gp_check_copy(const char *prompt, const char *answer)
{
    struct scan s = {.at = prompt, .ok = true};
    const char *text;

    expect(&s, "Copy ");
    for (text = s.at; s.ok && (is_lower(*s.at) || is_upper(*s.at) || is_digit(*s.at));)
        s.at++;
    size_t length = (size_t)(s.at - text);
    expect_end(&s);
    return s.ok && length > 0 && is_same(answer, text, length);
}

/* Look a37 b05 c88. CAB */
bool gp_check_look(const char *prompt, const char *answer)
{
    struct scan s = {.at = prompt, .ok = true};
    struct names names = {0};
    struct text right = {0};

    expect(&s, "Look");
    read_items(&s, &names, 2);
    expect(&s, ". ");
    do {
        uint32_t value = names.values[read_reference(&s, &names)];
        put(&s, &right, "%s%02u", gap(&right), value);
    } while (s.ok && *s.at);
    return is_answer(&s, answer, &right);
}
