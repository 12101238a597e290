/* What the dialects of an answer share. */
#ifndef GP_SERVER_ANSWER_INTERNAL_H
#define GP_SERVER_ANSWER_INTERNAL_H

#include "server/answer.h"

/* A choice that ended badly; GP_EINVAL. */
int gp_answer_refuse_end(const struct gp_job *job, const struct gp_choice *choice,
                         struct gp_refusal *refusal);

/* llama-server's account of the time; NULL when there is none yet. */
json_t *gp_answer_timings(const struct gp_job *job, const struct gp_choice *choice);

/* Its tokens from `from` on, those of control among them. */
json_t *gp_answer_ids(const struct gp_job *job, const struct gp_choice *choice, uint32_t from);

/* answer_native.c: llama-server's /completion. */
json_t *gp_native_whole(struct gp_job *job, struct gp_refusal *refusal);
void gp_native_stream(struct gp_job *job, struct gp_buffer *out);

#endif
