/* A reasoning model's text, split into the thought and the answer as it comes.
 *
 * The thought stands between <think> and </think>; the opening tag may have been part of the
 * prompt. Neither tag is let out, nor a beginning of one, nor the line breaks between them and the
 * text. */
#ifndef GP_SERVER_THOUGHT_H
#define GP_SERVER_THOUGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/buffer.h"

enum gp_thought_state {
    GP_THOUGHT_UNDECIDED, /* nothing but blanks and a beginning of the opening tag so far */
    GP_THOUGHT_BEGINS,    /* behind the opening tag, before the first letter              */
    GP_THOUGHT_INSIDE,
    GP_THOUGHT_ENDED, /* behind the closing tag, before the first letter              */
    GP_THOUGHT_ANSWER,
};

struct gp_thought {
    enum gp_thought_state state;
    uint32_t blanks; /* held in front of the tag that may come                      */
    uint32_t tag;    /* bytes of that tag                                           */
    char held[16];   /* the blanks                                                  */
};

/* opened: the prompt ended with the opening tag. */
void gp_thought_init(struct gp_thought *thought, bool opened);

void gp_thought_feed(struct gp_thought *thought, const char *text, size_t length,
                     struct gp_buffer *reasoning, struct gp_buffer *content);

/* The text is over. */
void gp_thought_end(struct gp_thought *thought, struct gp_buffer *reasoning,
                    struct gp_buffer *content);

/* Whether a prompt ends with the opening tag, blanks aside; with the closing one. */
bool gp_thought_opened(const char *prompt, size_t length);
bool gp_thought_closed(const char *prompt, size_t length);

#endif
