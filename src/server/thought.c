#include "server/thought.h"

#include <string.h>

static const char opener[] = "<think>", closer[] = "</think>";

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

void gp_thought_init(struct gp_thought *t, bool opened)
{
    *t = (struct gp_thought){.state = opened ? GP_THOUGHT_BEGINS : GP_THOUGHT_UNDECIDED};
}

static bool ends_with(const char *prompt, size_t length, const char *tag)
{
    size_t bytes = strlen(tag);

    while (length > 0 && is_blank(prompt[length - 1]))
        length--;
    return length >= bytes && memcmp(prompt + length - bytes, tag, bytes) == 0;
}

bool gp_thought_opened(const char *prompt, size_t length)
{
    return ends_with(prompt, length, opener);
}

bool gp_thought_closed(const char *prompt, size_t length)
{
    return ends_with(prompt, length, closer);
}

/* What was held is text after all. */
static void let_out(struct gp_thought *t, const char *tag, struct gp_buffer *out)
{
    gp_buffer_add(out, t->held, t->blanks);
    gp_buffer_add(out, tag, t->tag);
    t->blanks = t->tag = 0;
}

/* True when the byte was taken; false: it has to be looked at again. */
static bool begin(struct gp_thought *t, char c, struct gp_buffer *content)
{
    if (c == opener[t->tag]) {
        if (++t->tag == sizeof opener - 1) {
            t->state = GP_THOUGHT_BEGINS;
            t->blanks = t->tag = 0;
        }
        return true;
    }
    if (t->tag == 0 && is_blank(c) && t->blanks < sizeof t->held) {
        t->held[t->blanks++] = c;
        return true;
    }
    let_out(t, opener, content);
    t->state = GP_THOUGHT_ANSWER;
    return false;
}

static bool think(struct gp_thought *t, char c, struct gp_buffer *reasoning)
{
    if (c == closer[t->tag]) {
        if (++t->tag == sizeof closer - 1) {
            t->state = GP_THOUGHT_ENDED;
            t->blanks = t->tag = 0;
        }
        return true;
    }
    if (t->tag > 0 || (c == '\n' && t->blanks == sizeof t->held)) {
        let_out(t, closer, reasoning);
        return false;
    }
    if (c == '\n') {
        t->held[t->blanks++] = c;
        return true;
    }
    let_out(t, closer, reasoning);
    gp_buffer_add(reasoning, &c, 1);
    return true;
}

void gp_thought_feed(struct gp_thought *t, const char *text, size_t length,
                     struct gp_buffer *reasoning, struct gp_buffer *content)
{
    size_t i = 0;

    while (i < length && t->state != GP_THOUGHT_ANSWER) {
        switch (t->state) {
        case GP_THOUGHT_UNDECIDED:
            i += begin(t, text[i], content);
            break;
        case GP_THOUGHT_BEGINS:
        case GP_THOUGHT_ENDED:
            if (is_blank(text[i]))
                i++;
            else
                t->state = t->state == GP_THOUGHT_BEGINS ? GP_THOUGHT_INSIDE : GP_THOUGHT_ANSWER;
            break;
        case GP_THOUGHT_INSIDE:
            i += think(t, text[i], reasoning);
            break;
        case GP_THOUGHT_ANSWER:
            break;
        }
    }
    gp_buffer_add(content, text + i, length - i);
}

void gp_thought_end(struct gp_thought *t, struct gp_buffer *reasoning, struct gp_buffer *content)
{
    /* "</" and more was on its way to be the closing tag; one "<" may have been anything. */
    if (t->state == GP_THOUGHT_INSIDE && t->tag < 2)
        let_out(t, closer, reasoning);
    else if (t->state == GP_THOUGHT_UNDECIDED)
        let_out(t, opener, content);
    t->blanks = t->tag = 0;
}
