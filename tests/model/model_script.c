/* A metronome's script: a text cut into tokens that are all different. */
#include "model/model_maker.h"

#include <string.h>

#include "base/mem.h"

#define TYPE_NORMAL 1
#define NO_TOKEN    UINT32_MAX

struct cutter {
    struct test_script *script;
    uint32_t given_count;
    uint32_t *order; /* ids of the pieces, as they follow each other */
    uint32_t count;
    struct gp_error *err;
};

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

enum {
    ESCAPED_CUT = -1,
    ESCAPED_END = -2,
    ESCAPED_NONSENSE = -3,
};

/* The next byte of the escaped text, or one of the above. */
static int read_escaped(const char **text)
{
    const char *t = *text;
    int value = (unsigned char)*t++;

    if (value == 0)
        return ESCAPED_END;
    if (value == '\\') {
        char c = *t++;

        if (c == 'x' && hex_digit(t[0]) >= 0 && hex_digit(t[1]) >= 0) {
            value = hex_digit(t[0]) * 16 + hex_digit(t[1]);
            t += 2;
        } else if (c == 'n' || c == 't' || c == '\\') {
            value = c == 'n' ? '\n' : c == 't' ? '\t' : '\\';
        } else {
            if (c != '|')
                return ESCAPED_NONSENSE;
            value = ESCAPED_CUT;
        }
    }
    *text = t;
    return value;
}

static bool begins_with(const char *bytes, size_t length, struct gp_str s)
{
    return s.length <= length && memcmp(s.bytes, bytes, s.length) == 0;
}

/* Tokens that stand for themselves: those of every made model and the given ones. */
static struct gp_str special_text(const struct cutter *c, uint32_t i, uint32_t *id)
{
    static const char *const control[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};

    if (i < TEST_TOKEN_BYTE) {
        *id = i;
        return (struct gp_str){control[i], strlen(control[i])};
    }
    *id = TEST_TOKENS_MIN + (i - TEST_TOKEN_BYTE);
    return c->script->tokens[i - TEST_TOKEN_BYTE].text;
}

/* The length of the special token that these bytes begin with, or 0. */
static size_t special_length(const struct cutter *c, const char *bytes, size_t length)
{
    size_t best = 0;
    uint32_t id;

    for (uint32_t i = 0; i < TEST_TOKEN_BYTE + c->given_count; i++) {
        struct gp_str s = special_text(c, i, &id);

        if (begins_with(bytes, length, s) && s.length > best)
            best = s.length;
    }
    return best;
}

/* The token that is spelled like this. */
static uint32_t find_token(const struct cutter *c, const char *bytes, size_t length)
{
    uint32_t id;

    for (uint32_t i = 0; i < TEST_TOKEN_BYTE + c->script->token_count; i++) {
        struct gp_str s = special_text(c, i, &id);

        if (s.length == length && memcmp(s.bytes, bytes, length) == 0)
            return id;
    }
    return length == 1 ? TEST_TOKEN_BYTE + (unsigned char)bytes[0] : NO_TOKEN;
}

static bool was_used(const struct cutter *c, uint32_t id)
{
    for (uint32_t i = 0; i < c->count; i++)
        if (c->order[i] == id)
            return true;
    return false;
}

/* The next piece is these bytes: a token that is there already, or a new one. */
static int add_piece(struct cutter *c, const char *bytes, size_t length)
{
    uint32_t id = find_token(c, bytes, length);

    if (id != NO_TOKEN && was_used(c, id))
        return gp_fail(c->err, GP_EINVAL, "the piece \"%.*s\" comes twice", (int)length, bytes);
    if (id == NO_TOKEN) {
        id = TEST_TOKENS_MIN + c->script->token_count;
        c->script->tokens[c->script->token_count++] =
            (struct test_token){{bytes, length}, TYPE_NORMAL};
    }
    c->order[c->count++] = id;
    return GP_OK;
}

/* Bytes without special tokens: after two bytes, or as many as make a new piece.  A last byte
 * alone goes with what is before it, and so does a tail that was a piece already. */
static int cut_segment(struct cutter *c, const char *bytes, size_t length)
{
    uint32_t first_count = c->count;
    int rc = GP_OK;

    for (size_t at = 0; rc == GP_OK && at < length;) {
        size_t left = length - at, n = left < 2 ? left : 2;

        while (n < left && find_token(c, bytes + at, n) != NO_TOKEN)
            n++;
        if (left - n == 1)
            n = left;
        while (at + n == length && c->count > first_count &&
               find_token(c, bytes + at, n) != NO_TOKEN) {
            c->count--;
            c->script->token_count--;
            at -= c->script->tokens[c->script->token_count].text.length;
            n = length - at;
        }
        rc = add_piece(c, bytes + at, n);
        at += n;
    }
    return rc;
}

static int cut_text(struct cutter *c, const char *bytes, size_t length)
{
    int rc = GP_OK;

    for (size_t at = 0; rc == GP_OK && at < length;) {
        size_t n = special_length(c, bytes + at, length - at);

        if (n > 0) {
            rc = add_piece(c, bytes + at, n);
        } else {
            for (n = 1; at + n < length; n++)
                if (special_length(c, bytes + at + n, length - at - n) > 0)
                    break;
            rc = cut_segment(c, bytes + at, n);
        }
        at += n;
    }
    return rc;
}

/* With cuts of the caller's, what lies between two of them is a piece. */
static int cut_escaped(struct cutter *c, const char *text)
{
    char *bytes = c->script->text;
    size_t begin = 0, end = 0;
    bool cuts = false;
    int rc = GP_OK, byte;

    do {
        byte = read_escaped(&text);
        if (byte == ESCAPED_NONSENSE)
            return gp_fail(c->err, GP_EINVAL, "the text has an unknown escape at \"%.20s\"", text);
        if (byte >= 0) {
            bytes[end++] = (char)byte;
            continue;
        }
        cuts = cuts || byte == ESCAPED_CUT;
        if (end > begin)
            rc = cuts ? add_piece(c, bytes + begin, end - begin) : cut_text(c, bytes, end);
        begin = end;
    } while (rc == GP_OK && byte != ESCAPED_END);
    if (rc == GP_OK && c->count == 0)
        rc = gp_fail(c->err, GP_EINVAL, "there is no text to spell");
    return rc;
}

static int link_pieces(struct cutter *c, uint32_t last, bool loop)
{
    struct test_script *s = c->script;

    s->vocab = (TEST_TOKENS_MIN + s->token_count + 31) / 32 * 32;
    s->next = gp_mem_alloc_array(s->vocab, sizeof *s->next);
    if (!s->next)
        return gp_fail(c->err, GP_ENOMEM, "no memory for a script");
    for (uint32_t id = 0; id < s->vocab; id++)
        s->next[id] = c->order[0];
    for (uint32_t i = 0; i + 1 < c->count; i++)
        s->next[c->order[i]] = c->order[i + 1];
    s->next[c->order[c->count - 1]] = loop ? c->order[0] : last;
    return GP_OK;
}

int test_script_open(struct test_script *out, const char *text, const struct test_token *given,
                     uint32_t given_count, uint32_t last, bool loop, struct gp_error *err)
{
    size_t length = strlen(text);
    struct test_script script = {
        .tokens = gp_mem_alloc_array(given_count + length, sizeof *script.tokens),
        .token_count = given_count,
        .text = gp_mem_alloc(length),
    };
    struct cutter c = {.script = &script,
                       .given_count = given_count,
                       .order = gp_mem_alloc_array(length, sizeof *c.order),
                       .err = err};
    int rc = script.tokens && script.text && c.order
                 ? GP_OK
                 : gp_fail(err, GP_ENOMEM, "no memory for a script");

    if (rc == GP_OK) {
        for (uint32_t i = 0; i < given_count; i++)
            script.tokens[i] = given[i];
        rc = cut_escaped(&c, text);
    }
    if (rc == GP_OK)
        rc = link_pieces(&c, last, loop);
    gp_mem_free(c.order);
    if (rc == GP_OK)
        *out = script;
    else
        test_script_close(&script);
    return rc;
}

void test_script_close(struct test_script *script)
{
    gp_mem_free(script->tokens);
    gp_mem_free(script->text);
    gp_mem_free(script->next);
    *script = (struct test_script){0};
}

void test_model_speak(struct test_model *m, const struct test_script *script)
{
    m->layers = 1;
    m->tied = false;
    m->embd = m->vocab = script->vocab;
    m->tokens = script->tokens;
    m->token_count = script->token_count;
    m->next = script->next;
}
