/* One request at work: its prompts in the engine, its answers as text.
 *
 * Opened and submitted on one thread, then owned by the one that reads.  The engine's thread calls
 * the hooks of a job that has stop strings, so a job lives until the engine has said of each of its
 * choices that it is finished; who wants to be rid of one earlier cancels it and waits for that. */
#ifndef GP_SERVER_JOB_H
#define GP_SERVER_JOB_H

#include "server/asked.h"
#include "server/buffer.h"
#include "server/stops.h"
#include "server/thought.h"

struct gp_entry {
    int32_t id;
    float logprob;
    uint32_t offset;   /* characters of the answer before it                       */
    bool is_end;       /* the token that ended the answer, which is not part of it */
    size_t begin, end; /* bytes of the answer that it completed                    */
};

struct gp_choice {
    uint32_t run, index; /* the prompt's number, and the choice's among its n        */
    struct gp_decoder *decoder;
    struct gp_stopper stopper;
    struct gp_thought thought;
    struct gp_calls calls;
    uint32_t token_count; /* read so far                                              */
    enum gp_finish finish;
    bool done;        /* nothing more will come                                   */
    int32_t end_id;   /* the stop_token_ids' one that was met, or -1              */
    size_t made, let; /* bytes decoded; of those, bytes that may be shown         */
    uint32_t chars;   /* characters decoded                                       */

    /* What may be shown; who shows it piece by piece clears the buffers and moves entry_shown. */
    struct gp_buffer content, reasoning;
    struct gp_entry *entries; /* only when logprobs were asked for                      */
    uint32_t entry_count, entry_room, entry_ready, entry_shown;

    /* The renderer's own. */
    bool opened, closed; /* its first and its last chunk are out */
    bool has_line;       /* a line break was shown               */
    uint32_t counted;    /* tokens whose gaps are in the metrics */
    uint64_t counted_ns;
    uint32_t ids_shown;   /* of its tokens, those that were told as ids */
    uint32_t events_told; /* boundary events that went to who listens */
};

struct gp_run;

struct gp_job {
    struct gp_job *next, *prev; /* the reader's list */
    const struct gp_api *api;
    struct gp_asked asked;
    char id[48];
    int64_t created;
    struct gp_run *runs; /* [asked.prompt_count]         */
    struct gp_choice *choices;
    uint32_t choice_count; /* prompts times n, prompt first */
    uint32_t done_count;
    bool cancelled;
    bool failed;      /* memory ran out                                            */
    bool error_shown; /* the renderer's own                                        */
};

/* Takes over what asked holds when it succeeds. */
int gp_job_open(struct gp_job **out, const struct gp_api *api, struct gp_asked *asked,
                struct gp_refusal *refusal);

/* Hand all prompts to the engine.  GP_EINVAL: refused; what was already handed over has been
 * cancelled, and the job is to be reaped like any other. */
int gp_job_submit(struct gp_job *job, struct gp_refusal *refusal);

/* Read what has come; true when there is anything new. */
bool gp_job_read(struct gp_job *job);

bool gp_job_done(const struct gp_job *job);
void gp_job_cancel(struct gp_job *job);

/* Whether the engine is done with all of it; it can be closed then. */
bool gp_job_is_over(struct gp_job *job);
void gp_job_close(struct gp_job *job);

uint64_t gp_job_run_id(const struct gp_job *job, uint32_t run);
bool gp_job_stats(const struct gp_job *job, const struct gp_choice *choice,
                  struct gp_request_stats *stats);

/* Whether its thought was ended by the budget; of a choice that is done. */
bool gp_job_thought_cut(const struct gp_job *job, const struct gp_choice *choice);

/* Characters of UTF-8. */
uint32_t gp_text_chars(const char *text, size_t length);

/* Tokens as a client counts them. */
struct gp_usage {
    uint64_t prompt, completion, cached;
};
struct gp_usage gp_job_usage(const struct gp_job *job);

#endif
