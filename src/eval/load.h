/* A workload sent to a server over HTTP: any that speaks OpenAI's API and streams.
 *
 * Prompts are words that every tokenizer knows, so their lengths in tokens are nearly those that
 * were drawn; how long they were is what the server says in its usage.  A time begins when a
 * request arrives, also when it has to wait for others here. */
#ifndef GP_EVAL_LOAD_H
#define GP_EVAL_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "eval/statistics.h"
#include "eval/workload.h"

struct gp_load {
    const char *url;   /* of the server, with or without /v1                        */
    const char *model; /* NULL: the first that it tells                             */
    const char *key;   /* or NULL                                                   */
    bool chat;         /* chat instead of completions                               */
    bool insecure;     /* take any certificate                                      */
    const struct gp_workload *workload;
    uint32_t concurrency; /* requests at once, at most; 0: all that have arrived       */
    uint32_t seconds_max; /* for one request                                           */
    /* Now and then, with the requests that are done; false ends it. */
    bool (*go_on)(void *ctx, uint32_t done);
    void *ctx;
};

struct gp_load_result {
    char model[256];
    uint32_t done, failed;
    char failure[160]; /* the first, or "" */
    uint64_t prompt_tokens, output_tokens, total_ns;
    bool has_usage; /* else a token is a piece of the stream */
    /* Over requests that succeeded; gaps: over pieces of their streams. */
    struct gp_values ttft_ms, tpot_ms, gap_ms, whole_ms;
};

/* GP_EIO: the server cannot be asked at all.  *complete: go_on never said no.  *out is written in
 * both cases and freed with gp_load_result_free(). */
int gp_load_run(const struct gp_load *load, struct gp_load_result *out, bool *complete,
                struct gp_error *err);
void gp_load_result_free(struct gp_load_result *result);

/* The figures; NULL for no memory. */
json_t *gp_load_figures(const struct gp_load *load, struct gp_load_result *result);

#endif
