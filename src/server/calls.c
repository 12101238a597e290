#include "server/calls.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "base/rng.h"

static const char opener[] = "<tool_call>", closer[] = "</tool_call>";

enum gp_call_style gp_call_style_of(const char *chat_template)
{
    if (!chat_template)
        return GP_CALLS_NONE;
    /* Others put words of their own between the same tags. */
    if (strstr(chat_template, opener) && strstr(chat_template, "\"arguments\""))
        return GP_CALLS_HERMES;
    return strstr(chat_template, "\"parameters\": dictionary of argument name") ? GP_CALLS_LLAMA
                                                                                : GP_CALLS_NONE;
}

void gp_calls_init(struct gp_calls *c, enum gp_call_style style, bool single)
{
    *c = (struct gp_calls){.style = style, .single = single};
    if (style == GP_CALLS_LLAMA)
        c->state = GP_CALL_BEGIN;
}

void gp_calls_free(struct gp_calls *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        gp_mem_free(c->items[i].name);
        gp_buffer_free(&c->items[i].arguments);
    }
    gp_mem_free(c->items);
    gp_buffer_free(&c->held);
    gp_buffer_free(&c->key);
    gp_buffer_free(&c->name);
    gp_buffer_free(&c->value);
    *c = (struct gp_calls){0};
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool is(const struct gp_buffer *text, const char *word)
{
    return text->length == strlen(word) && memcmp(text->bytes, word, text->length) == 0;
}

static bool holds_arguments(const struct gp_calls *c)
{
    return is(&c->key, "arguments") || is(&c->key, "parameters");
}

/* ---- calls ---- */

/* What was held is text after all. */
static void give_up(struct gp_calls *c, struct gp_buffer *content)
{
    if (!c->told && (c->style == GP_CALLS_HERMES || c->count == 0))
        gp_buffer_add(content, c->held.bytes, c->held.length);
    gp_buffer_clear(&c->held);
    c->tag = 0;
    c->told = false;
    c->state = c->style == GP_CALLS_LLAMA ? GP_CALL_NO_MORE : GP_CALL_TEXT;
}

static struct gp_call *add_call(struct gp_calls *c)
{
    if (c->count == c->room) {
        uint32_t room = c->room ? c->room * 2 : 4;
        struct gp_call *grown =
            gp_mem_realloc(c->items, c->room * sizeof *grown, room * sizeof *grown);

        if (!grown)
            return NULL;
        c->items = grown;
        c->room = room;
    }
    struct gp_call *call = &c->items[c->count];

    *call = (struct gp_call){.name = gp_mem_copy(c->name.bytes, c->name.length)};
    snprintf(call->id, sizeof call->id, "call_%016llx", (unsigned long long)gp_rng_entropy());
    if (!call->name)
        return NULL;
    c->count++;
    return call;
}

/* The name is known and the arguments have begun: it is a call. */
static void tell(struct gp_calls *c)
{
    if (c->told || c->name.length == 0)
        return;
    struct gp_call *call = add_call(c);

    if (!call) {
        c->failed = true;
        return;
    }
    c->told = true;
    gp_buffer_add(&call->arguments, c->value.bytes, c->value.length);
    gp_buffer_clear(&c->value);
}

static struct gp_buffer *arguments(struct gp_calls *c)
{
    return c->told ? &c->items[c->count - 1].arguments : &c->value;
}

/* Text behind the quotes of a JSON string, out of it; false: it is none. */
static bool unquote(struct gp_buffer *text)
{
    json_t *string = json_loadb(text->bytes ? text->bytes : "", text->length,
                                JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    bool ok = json_is_string(string);

    gp_buffer_clear(text);
    if (ok)
        gp_buffer_add(text, json_string_value(string), json_string_length(string));
    json_decref(string);
    return ok;
}

/* The object is whole. */
static void end_call(struct gp_calls *c, struct gp_buffer *content)
{
    if (!c->told && c->value.length == 0 && c->style == GP_CALLS_HERMES)
        gp_buffer_add(&c->value, "{}", 2);
    if (c->value.length > 0)
        tell(c);
    if (!c->told && !c->failed) {
        give_up(c, content);
        return;
    }
    gp_buffer_clear(&c->held);
    c->told = false;
    c->tag = 0;
    c->state = c->single || c->count == GP_LIMIT_CALLS ? GP_CALL_NO_MORE : GP_CALL_BEHIND;
}

static void begin_call(struct gp_calls *c)
{
    gp_buffer_clear(&c->name);
    gp_buffer_clear(&c->value);
    c->state = GP_CALL_MEMBER;
}

/* ---- values ---- */

/* A value of the call's object has ended. */
static void end_value(struct gp_calls *c, struct gp_buffer *content)
{
    c->state = GP_CALL_MEMBER;
    if (is(&c->key, "name") && (!c->is_string || !unquote(&c->name) || !c->name.length))
        give_up(c, content);
    else if (holds_arguments(c) && c->is_string && !c->told && !unquote(&c->value))
        give_up(c, content);
    else if (c->name.length > 0 && c->value.length > 0)
        tell(c);
}

static void keep_byte(struct gp_calls *c, char byte)
{
    if (holds_arguments(c))
        gp_buffer_add(arguments(c), &byte, 1);
    else if (is(&c->key, "name"))
        gp_buffer_add(&c->name, &byte, 1);
}

static void begin_value(struct gp_calls *c, char byte)
{
    c->is_string = byte == '"';
    c->in_string = c->escaped = false;
    c->depth = 0;
    c->state = GP_CALL_INSIDE;
    if (is(&c->key, "name"))
        gp_buffer_clear(&c->name);
    /* Arguments that are a string hold JSON, which is only known when they are whole. */
    if (holds_arguments(c) && !c->is_string)
        tell(c);
}

/* False: the byte stands behind the value. */
static bool go_on(struct gp_calls *c, char byte, struct gp_buffer *content)
{
    bool bare = c->depth == 0 && !c->in_string;

    if (bare && (is_blank(byte) || byte == ',' || byte == '}' || byte == ']')) {
        end_value(c, content);
        return false;
    }
    keep_byte(c, byte);
    if (c->in_string) {
        bool closes = byte == '"' && !c->escaped;

        c->escaped = byte == '\\' && !c->escaped;
        c->in_string = !closes;
        if (closes && c->depth == 0)
            end_value(c, content);
    } else if (byte == '"') {
        c->in_string = true;
        c->escaped = false;
    } else if (byte == '{' || byte == '[') {
        c->depth++;
    } else if ((byte == '}' || byte == ']') && --c->depth == 0) {
        end_value(c, content);
    }
    return true;
}

/* Only Llama's calls stand where any object may stand: what has other keys is none. */
static bool may_have(const struct gp_calls *c)
{
    return c->style == GP_CALLS_HERMES || is(&c->key, "name") || is(&c->key, "type") ||
           holds_arguments(c);
}

/* ---- states ---- */

/* A tag, in the middle of which a text may be. */
static bool match(struct gp_calls *c, const char *tag, char byte)
{
    if (byte != tag[c->tag])
        return false;
    c->tag++;
    return true;
}

/* Blanks in front of a call are no text. */
static bool find_tag(struct gp_calls *c, char byte, struct gp_buffer *content)
{
    if (match(c, opener, byte)) {
        gp_buffer_add(&c->held, &byte, 1);
        if (c->tag == sizeof opener - 1)
            c->state = GP_CALL_BEGIN;
        return true;
    }
    if (c->tag == 0 && is_blank(byte)) {
        gp_buffer_add(&c->held, &byte, 1);
        return true;
    }
    if (c->held.length > 0) {
        give_up(c, content);
        return false;
    }
    gp_buffer_add(content, &byte, 1);
    return true;
}

static bool find_close(struct gp_calls *c, char byte)
{
    bool hermes = c->style == GP_CALLS_HERMES;

    if (hermes && match(c, closer, byte)) {
        if (c->tag == sizeof closer - 1) {
            c->tag = 0;
            c->state = GP_CALL_TEXT;
        }
        return true;
    }
    if (c->tag == 0 && (is_blank(byte) || (!hermes && byte == ';')))
        return true;
    c->tag = 0;
    c->state = hermes ? GP_CALL_TEXT : GP_CALL_BEGIN;
    return false;
}

/* A byte between the parts of the object; false: it does not belong there. */
static bool step(struct gp_calls *c, char byte, struct gp_buffer *content)
{
    if (c->state == GP_CALL_KEY) {
        if (byte == '"')
            c->state = GP_CALL_COLON;
        else
            gp_buffer_add(&c->key, &byte, 1);
        return c->state == GP_CALL_KEY || may_have(c);
    }
    if (is_blank(byte))
        return true;
    if (c->state == GP_CALL_BEGIN && byte == '{') {
        begin_call(c);
    } else if (c->state == GP_CALL_MEMBER && byte == '"') {
        gp_buffer_clear(&c->key);
        c->state = GP_CALL_KEY;
    } else if (c->state == GP_CALL_MEMBER && byte == '}') {
        end_call(c, content);
    } else if (c->state == GP_CALL_COLON && byte == ':') {
        c->state = GP_CALL_VALUE;
    } else {
        return c->state == GP_CALL_MEMBER && byte == ',';
    }
    return true;
}

/* A byte of the object. */
static void take(struct gp_calls *c, char byte, struct gp_buffer *content)
{
    /* Held first: when it is no call after all, this byte is text, too. */
    if (!c->told)
        gp_buffer_add(&c->held, &byte, 1);
    if (c->state == GP_CALL_VALUE && !is_blank(byte))
        begin_value(c, byte);
    if (c->state == GP_CALL_INSIDE && (go_on(c, byte, content) || c->state != GP_CALL_MEMBER))
        return;
    if (!step(c, byte, content))
        give_up(c, content);
}

void gp_calls_feed(struct gp_calls *c, const char *text, size_t length, struct gp_buffer *content)
{
    for (size_t i = 0; i < length;) {
        switch (c->state) {
        case GP_CALL_TEXT:
            i += find_tag(c, text[i], content);
            break;
        case GP_CALL_BEHIND:
            i += find_close(c, text[i]);
            break;
        case GP_CALL_NO_MORE:
            if (c->count == 0)
                gp_buffer_add(content, text + i, length - i);
            i = length;
            break;
        case GP_CALL_BEGIN:
        case GP_CALL_MEMBER:
        case GP_CALL_KEY:
        case GP_CALL_COLON:
        case GP_CALL_VALUE:
        case GP_CALL_INSIDE:
            take(c, text[i++], content);
            break;
        }
    }
    c->failed |= c->held.failed || c->key.failed || c->name.failed || c->value.failed;
}

void gp_calls_end(struct gp_calls *c, struct gp_buffer *content)
{
    /* Behind a call, blanks and the beginning of a tag are no text. */
    bool nothing = c->state == GP_CALL_TEXT && c->count > 0;

    if (c->state != GP_CALL_BEHIND && c->state != GP_CALL_NO_MORE && !nothing)
        give_up(c, content);
}
