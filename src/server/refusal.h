/* Why a request was refused, in the words and the shape of OpenAI's API. */
#ifndef GP_SERVER_REFUSAL_H
#define GP_SERVER_REFUSAL_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"

struct gp_refusal {
    int status;       /* HTTP's                                               */
    const char *type; /* NULL: follows from the status                        */
    const char *code; /* NULL: the status                                     */
    char param[64];   /* the field, or ""                                     */
    struct gp_error why;
    uint32_t prompt_tokens, context; /* told when the prompt was too long; else 0            */
};

/* return gp_refuse(refusal, 400, "max_tokens", "max_tokens: ...", ...);  param may be NULL. */
#define gp_refuse(refusal, status_, param_, ...)                                                   \
    (gp_refusal_init((refusal), (status_), (param_)), gp_error_set(&(refusal)->why, __VA_ARGS__),  \
     GP_EINVAL)

void gp_refusal_init(struct gp_refusal *refusal, int status, const char *param);

/* What was refused is a field of the object `outer`. */
void gp_refuse_below(struct gp_refusal *refusal, const char *outer);

/* {"error":{"message","type","param","code"}}; NULL when memory ran out. */
json_t *gp_refusal_json(const struct gp_refusal *refusal);

#endif
