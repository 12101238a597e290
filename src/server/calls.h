/* Tool calls in an answer's text, found as it comes.
 *
 * Two styles: Hermes' and Qwen's {"name": ..., "arguments": ...} between <tool_call> tags, anywhere
 * in the text; and Llama 3's {"name": ..., "parameters": ...}, which is all of it.  What turns out
 * to be no call after all is text.  A call is told as soon as its name and the beginning of its
 * arguments are there; the arguments are passed on as the model writes them. */
#ifndef GP_SERVER_CALLS_H
#define GP_SERVER_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "server/buffer.h"

enum gp_call_style {
    GP_CALLS_NONE,
    GP_CALLS_HERMES,
    GP_CALLS_LLAMA,
};

/* The style whose words a template has. */
enum gp_call_style gp_call_style_of(const char *chat_template);

struct gp_call {
    char id[32];
    char *name;
    struct gp_buffer arguments;
    /* The renderer's own. */
    bool opened;
    size_t shown; /* bytes of the arguments */
};

enum gp_call_state {
    GP_CALL_TEXT,    /* perhaps on the way into a tag                        */
    GP_CALL_BEGIN,   /* the object's brace comes next                        */
    GP_CALL_MEMBER,  /* a key or the end of the object                       */
    GP_CALL_KEY,     /* inside the quotes of one                             */
    GP_CALL_COLON,   /* behind it                                            */
    GP_CALL_VALUE,   /* before the first byte of a value                     */
    GP_CALL_INSIDE,  /* in a value                                           */
    GP_CALL_BEHIND,  /* the object is over; the closing tag comes, or the next one   */
    GP_CALL_NO_MORE, /* what follows is text, or nothing                     */
};

struct gp_calls {
    enum gp_call_style style;
    bool single; /* calls behind the first are dropped */
    enum gp_call_state state;
    struct gp_buffer held; /* what is text if this is no call                */
    size_t tag;            /* bytes of the tag that held ends with           */
    struct gp_buffer key, name, value;
    bool is_string, escaped, in_string;
    uint32_t depth; /* brackets of the value that are open */
    bool told;      /* the call is the last of items       */

    struct gp_call *items;
    uint32_t count, room;
    bool failed; /* memory ran out */
};

#define GP_LIMIT_CALLS 128u /* of one answer; more are dropped */

void gp_calls_init(struct gp_calls *calls, enum gp_call_style style, bool single);
void gp_calls_free(struct gp_calls *calls);

/* What is no call goes behind content. */
void gp_calls_feed(struct gp_calls *calls, const char *text, size_t length,
                   struct gp_buffer *content);
void gp_calls_end(struct gp_calls *calls, struct gp_buffer *content);

#endif
