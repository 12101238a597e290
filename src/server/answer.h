/* A job's answer as OpenAI's clients read it: one object, or a stream of chunks. */
#ifndef GP_SERVER_ANSWER_H
#define GP_SERVER_ANSWER_H

#include <jansson.h>

#include "server/job.h"

/* The whole of a job that is done; NULL with the refusal set when it ended badly. */
json_t *gp_answer_whole(struct gp_job *job, struct gp_refusal *refusal);

/* Put what is new into out, as server-sent events; from the last choice's end on also usage, where
 * asked for, and [DONE]. */
void gp_answer_stream(struct gp_job *job, struct gp_buffer *out);

/* The stream ends here, for this reason. */
void gp_answer_stream_error(const struct gp_refusal *refusal, struct gp_buffer *out);

/* One event. */
void gp_answer_event(const json_t *object, struct gp_buffer *out);

/* answer_logprobs.c: of entries [from, to) of choice, in the shape of the job's route; echo: those
 * of the prompt in front.  NULL when memory ran out. */
json_t *gp_answer_logprobs(const struct gp_job *job, const struct gp_choice *choice, uint32_t from,
                           uint32_t to, bool echo);

/* vLLM's prompt_logprobs: a map from ids for each token of the prompt, null for the first. */
json_t *gp_answer_prompt_logprobs(const struct gp_job *job, const struct gp_choice *choice);

/* answer_kv.c: what was asked for, under llama-server's names. */
json_t *gp_answer_params(const struct gp_asked *asked);

/* answer_kv.c: what a request's cache went through, from its stats. */
json_t *gp_answer_kv(const struct gp_job *job, const struct gp_choice *choice);

/* Bytes as a JSON string; those that are not UTF-8 as "bytes:\xNN". */
json_t *gp_answer_bytes(const char *bytes, size_t length);

/* A token's text, as a string of the above; null where there is no such token. */
json_t *gp_answer_token(const struct gp_api *api, int32_t id);

/* JSON text, compact, for the wire; to be freed with free(). */
char *gp_answer_dump(const json_t *object);

#endif
