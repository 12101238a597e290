/* The commands.  Each takes checked settings and returns the exit status; it has told what went
 * wrong by then. */
#ifndef GP_CLI_COMMANDS_H
#define GP_CLI_COMMANDS_H

#include "cli/settings.h"

int gp_cmd_run(struct gp_settings *settings);
int gp_cmd_inspect(struct gp_settings *settings);
int gp_cmd_tokenize(struct gp_settings *settings);
int gp_cmd_detokenize(struct gp_settings *settings);
int gp_cmd_perplexity(struct gp_settings *settings);
int gp_cmd_eval(struct gp_settings *settings);
int gp_cmd_loadtest(struct gp_settings *settings);
int gp_cmd_serve(struct gp_settings *settings);
int gp_cmd_report(struct gp_settings *settings);
int gp_cmd_bench(struct gp_settings *settings);
int gp_cmd_trace(struct gp_settings *settings);
int gp_cmd_analyze(struct gp_settings *settings);

/* The conversation of `run --chat` on a terminal. */
int gp_converse(struct gp_engine *engine, const struct gp_model *model,
                const struct gp_settings *settings);

/* bench --kernels. */
int gp_bench_kernels(const struct gp_settings *settings);

/* -p or -f: the bytes, all of them. */
int gp_read_prompt(const struct gp_settings *settings, char **text, size_t *length,
                   struct gp_error *err);

/* Ids of the text, as gp_model_tokenize() gives them, with a warning when bytes of it have no token
 * and are lost (SmolLM2 lacks 21, none of them in plain text). */
int gp_encode_text(const struct gp_model *model, const char *text, size_t length, bool add_special,
                   bool parse_special, int32_t **ids, uint32_t *count, struct gp_error *err);

/* Open --kv-trace's file, if there is one, for the engines; they leave it open. */
int gp_open_trace(struct gp_settings *settings, struct gp_error *err);

/* Open the model that the settings name, with a progress line when it takes weights. */
int gp_open_model(struct gp_model **out, const struct gp_settings *settings, bool vocab_only,
                  struct gp_error *err);

#endif
