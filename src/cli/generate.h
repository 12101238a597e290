/* One request from prompt to last token, on the calling thread, with its text as it comes. */
#ifndef GP_CLI_GENERATE_H
#define GP_CLI_GENERATE_H

#include "cli/settings.h"
#include "growpage.h"

/* Values over time in constant space: when it is full, neighbours become their maximum. */
#define GP_HISTORY_COUNT 64u

struct gp_history {
    uint32_t values[GP_HISTORY_COUNT];
    uint32_t count;
    uint32_t stride;  /* samples a value stands for; 0: no sample yet */
    uint32_t in_last; /* samples in the last value                    */
};

void gp_history_add(struct gp_history *history, uint32_t value);

/* A block a value, the greatest value full height; zero-terminated. */
#define GP_GRAPH_BYTES (GP_HISTORY_COUNT * 3 + 1)
void gp_history_draw(const struct gp_history *history, bool unicode, char out[GP_GRAPH_BYTES]);

struct gp_answer {
    int32_t *tokens;
    uint32_t token_count;
    char *text; /* valid UTF-8, zero-terminated */
    size_t text_length;
    enum gp_finish finish;
    struct gp_request_stats stats;
    struct gp_boundary_event *events; /* stats.boundary_count */
    struct gp_history pages;
};

/* Called once, when the request has been taken and before anything runs; may be NULL. */
struct gp_generate_hooks {
    void (*accepted)(void *ctx);
    void *ctx;
    bool print; /* the text goes to standard output as it comes */
};

/* Run prompt to its end; Ctrl-C, between gp_interrupt_arm and disarm, cancels it, which is no
 * error. The answer is written on success only and freed with gp_answer_free. */
int gp_generate(struct gp_engine *engine, const struct gp_model *model,
                const struct gp_settings *settings, const int32_t *prompt, uint32_t prompt_count,
                const struct gp_generate_hooks *hooks, struct gp_answer *out, struct gp_error *err);

void gp_answer_free(struct gp_answer *answer);

#endif
