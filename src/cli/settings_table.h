/* The table of all options, and what it shares with what is made of them (settings.c). */
#ifndef GP_CLI_SETTINGS_TABLE_H
#define GP_CLI_SETTINGS_TABLE_H

#include "cli/settings.h"

#define RUN        GP_COMMAND_RUN
#define INSPECT    GP_COMMAND_INSPECT
#define TOKENIZE   GP_COMMAND_TOKENIZE
#define DETOKENIZE GP_COMMAND_DETOKENIZE
#define PERPLEXITY GP_COMMAND_PERPLEXITY
#define EVAL       GP_COMMAND_EVAL
#define BENCH      GP_COMMAND_BENCH
#define SERVE      GP_COMMAND_SERVE
#define TRACE      GP_COMMAND_TRACE
#define LOADTEST   GP_COMMAND_LOADTEST
#define REPORT     GP_COMMAND_REPORT
#define ANALYZE    GP_COMMAND_ANALYZE
#define KERNELS    GP_COMMAND_BENCH_KERNELS
#define TEXTUAL    (RUN | INSPECT | TOKENIZE | DETOKENIZE | PERPLEXITY)
#define ALL        (TEXTUAL | EVAL | BENCH | SERVE | ANALYZE)
#define TEXT_IN    (RUN | TOKENIZE | PERPLEXITY)
#define EXAM       (EVAL | ANALYZE)
#define ASK        (RUN | EXAM)
/* What an engine and its cache are given. */
#define ENGINE (ASK | BENCH | SERVE)

extern const struct gp_option gp_settings_table[];
extern const size_t gp_settings_table_count;

/* What stands for a preset's budget, and a budget to check the rest of a policy by. */
#define PRESET        ":preset"
#define PRESET_LENGTH (sizeof PRESET - 1)
#define PRESET_ANY    4096u

/* Of eval's --max-tokens: none was typed. */
#define NOT_GIVEN (-2)

#define BUNDLED "growpage-reasoner.gguf"

/* Of a policy that was typed, where "fixed:preset" has the preset's budget. */
int gp_settings_policy(const char *text, uint32_t budget, struct gp_kv_options *kv,
                       struct gp_error *err);

#endif
