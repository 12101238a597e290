/* A body of /v1/completions or /v1/chat/completions, read: what the engine is to do, and how the
 * answer is to look.  Any thread. */
#ifndef GP_SERVER_ASKED_H
#define GP_SERVER_ASKED_H

#include <jansson.h>

#include "server/api.h"
#include "server/refusal.h"
#include "server/stops.h"

struct gp_prompt {
    int32_t *ids;
    uint32_t count;
    char *text; /* for echo, or NULL */
    size_t text_length;
};

/* Whose words a body uses. */
enum gp_dialect {
    GP_DIALECT_COMPLETION, /* OpenAI's /v1/completions                             */
    GP_DIALECT_CHAT,       /* OpenAI's /v1/chat/completions                        */
    GP_DIALECT_NATIVE,     /* llama-server's /completion                           */
};

struct gp_asked {
    bool chat, native;
    bool stream, include_usage, continuous_usage;
    bool echo;
    bool nothing;       /* max_tokens 0: the prompt alone, for echo                             */
    bool keep_stop;     /* include_stop_str_in_output                                           */
    bool keep_special;  /* skip_special_tokens is false                                         */
    bool ids_as_tokens; /* return_tokens_as_token_ids                                           */
    bool kv_stats;
    bool return_ids;   /* return_token_ids, return_tokens                                      */
    bool hide_thought; /* include_reasoning is false                                           */
    bool timings;      /* timings_per_token                                                    */
    int32_t prompt_logprobs; /* vLLM's field, or -1                                            */
    uint32_t keep_tokens;    /* truncate_prompt_tokens: the last ones of a prompt; 0: all       */
    char *cache_salt;        /* or NULL                                                        */
    bool split_thought;
    bool thought_opened, thought_closed; /* by the prompt */
    enum gp_call_style call_style;       /* none: calls are not looked for               */
    bool single_call;                    /* parallel_tool_calls is false                 */
    struct gp_guide *guide;              /* what the answers are held to, or NULL        */
    int64_t thought_max;                 /* tokens of all thoughts together, or -1 */
    struct gp_stop_set stops;
    struct gp_prompt *prompts;
    uint32_t prompt_count;

    /* What the engine is told for each prompt; it points at what follows. */
    struct gp_request request;
    int32_t stop_ids[GP_LIMIT_STOP_IDS];
    struct gp_logit_bias *bias;
    struct gp_kv_options kv;
};

/* On GP_EINVAL the refusal says why and nothing is to be freed. */
int gp_asked_read(const struct gp_api *api, enum gp_dialect dialect, const json_t *body,
                  struct gp_asked *asked, struct gp_refusal *refusal);
void gp_asked_free(struct gp_asked *asked);

/* The pieces that other routes share. */

/* The tools that the template is told of, or NULL. */
const json_t *gp_asked_tools(const json_t *body);

/* messages, tools, chat_template_kwargs and their like, through the template.  Either of ids and
 * text may be NULL. */
int gp_chat_render(const struct gp_api *api, const json_t *body, int32_t **ids, uint32_t *count,
                   char **text, size_t *length, struct gp_refusal *refusal);

/* Can a prompt of so many tokens ever run here? */
int gp_prompt_check(const struct gp_api *api, uint32_t count, struct gp_refusal *refusal);

/* Refuse a text by its length alone when no tokenizing could bring it into the context. */
int gp_text_check(const struct gp_api *api, size_t length, struct gp_refusal *refusal);

#endif
