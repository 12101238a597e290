/* What the files that read a request share. */
#ifndef GP_SERVER_ASKED_INTERNAL_H
#define GP_SERVER_ASKED_INTERNAL_H

#include "server/asked.h"
#include "server/thought.h"

/* asked_options.c: lengths, sampling, stops, logprobs; and the `kv` object. */
int gp_asked_read_options(const struct gp_api *api, const json_t *body, struct gp_asked *asked,
                          struct gp_refusal *refusal);
/* asked_shape.c: response_format and tools; last, since a grammar needs to know the prompts. */
int gp_asked_read_shape(const struct gp_api *api, const json_t *body, struct gp_asked *asked,
                        struct gp_refusal *refusal);
int gp_asked_read_kv(const json_t *body, struct gp_asked *asked, struct gp_refusal *refusal);

#endif
