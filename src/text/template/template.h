/* Chat templates: a small interpreter for the part of Jinja2 that Qwen3, Llama 3.x, DeepSeek-R1 and
 * SmolLM templates use.  What it does not know is refused when the template is opened, with line
 * and construct; never at request time, except for what only values can decide (a type error, the
 * template's own raise_exception), which is a clean error.
 *
 * Output carries an origin: bytes the template wrote are trusted, bytes that came from a message
 * are not, so that a user cannot spell a control token.
 *
 * An open template is read-only and any thread may render it. */
#ifndef GP_TEXT_TEMPLATE_H
#define GP_TEXT_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"
#include "text/tokenizer.h"

struct gp_template;

int gp_template_open(struct gp_template **out, const char *source, size_t length,
                     struct gp_error *err);
void gp_template_close(struct gp_template *t); /* NULL is fine */

/* The time that strftime_now sees: seconds since the epoch, UTC.  Given, never read from a
 * clock. */
struct gp_template_input {
    const json_t *messages;  /* array of {"role", "content", ...}                       */
    const json_t *tools;     /* array or NULL, which the template sees as none          */
    const json_t *variables; /* object of further variables (enable_thinking ...) or NULL */
    const char *bos_token;   /* "" when there is none                                   */
    const char *eos_token;
    bool add_generation_prompt;
    int64_t now;
};

/* A rendered prompt: text, and the spans it is made of (alternating or not, in order, covering
 * it). */
struct gp_prompt {
    char *text;
    size_t length;
    struct gp_span *spans; /* bytes point into text */
    uint32_t span_count;
};

/* Bounded: at most GP_TEMPLATE_STEPS evaluation steps and GP_TEMPLATE_OUTPUT bytes. */
#define GP_TEMPLATE_STEPS  20000000u
#define GP_TEMPLATE_OUTPUT (64u << 20)

int gp_template_render(const struct gp_template *t, const struct gp_template_input *input,
                       struct gp_prompt *out, struct gp_error *err);
void gp_prompt_free(struct gp_prompt *prompt);

#endif
