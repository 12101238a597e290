/* What a command line asks for: every option of every command in a struct, filled by one table. */
#ifndef GP_CLI_SETTINGS_H
#define GP_CLI_SETTINGS_H

#include "cli/options.h"
#include "eval/analyze.h"
#include "eval/sandbox.h"
#include "eval/workload.h"
#include "growpage.h"

enum gp_command_bit {
    GP_COMMAND_RUN = 1 << 0,
    GP_COMMAND_INSPECT = 1 << 1,
    GP_COMMAND_TOKENIZE = 1 << 2,
    GP_COMMAND_DETOKENIZE = 1 << 3,
    GP_COMMAND_PERPLEXITY = 1 << 4,
    GP_COMMAND_EVAL = 1 << 5,
    GP_COMMAND_SERVE = 1 << 7,
    GP_COMMAND_BENCH = 1 << 6,
    GP_COMMAND_TRACE = 1 << 8,
    GP_COMMAND_LOADTEST = 1 << 9,
    GP_COMMAND_REPORT = 1 << 10,
    GP_COMMAND_ANALYZE = 1 << 11,
    GP_COMMAND_BENCH_KERNELS = 1 << 12, /* bench --kernels: what of bench goes with it */
};

/* Difficulties of problems; low < 0: each suite's own. */
struct gp_difficulty {
    double low, high;
};

/* Policies as they were typed, each checked by itself; once all options are known, each with all of
 * them. */
#define GP_POLICIES_MAX 32u

struct gp_policy_list {
    const char *items[GP_POLICIES_MAX];
    struct gp_kv_options kv[GP_POLICIES_MAX];
    uint32_t count;
};

/* A policy's name sets its scorer and its trigger, so what was typed beside it waits for it. */
#define GP_SCORER_WORDS_MAX 32u

struct gp_scorer_words {
    const char *trigger;                    /* NULL: the policy's own */
    const char *items[GP_SCORER_WORDS_MAX]; /* "NAME=VALUE,..."       */
    uint32_t count;
};

/* Of bench; empty lists and zeros are replaced by defaults at the end. */
struct gp_bench_settings {
    struct gp_uint_list prompts, outputs, depths, batches, threads;
    uint32_t repetitions;
    bool no_warm_up;
    int format; /* enum gp_format */

    bool serve; /* a workload instead */
    uint32_t requests;
    struct gp_length prompt_length, output_length;
    double rate;

    bool kernels; /* no model at all */
    const char *only;
    uint32_t kernel_ms;
    uint64_t kernel_bytes; /* 0: what the gauge says */
};

/* Of analyze. */
struct gp_analyze_settings {
    enum gp_analysis_kind kind;
    struct gp_uint_list budgets;
    uint32_t every;   /* 0: every row */
    uint32_t horizon; /* 0: a page    */
};

/* API keys as they were typed. */
#define GP_KEYS_MAX 64u

struct gp_key_list {
    const char *items[GP_KEYS_MAX];
    uint32_t count;
};

/* Policies that requests may bring beside the server's own. */
#define GP_ALSO_MAX 16u

struct gp_also_list {
    struct gp_kv_options kv[GP_ALSO_MAX];
    uint32_t count;
};

/* Of serve, every option may also stand in the environment, under its long name. */
#define GP_ENVIRONMENT_PREFIX "GROWPAGE_ARG_"

struct gp_settings {
    bool help, version;

    const char *model_path; /* never NULL once gp_settings_parse has returned GP_OK */
    bool override_pre;
    const char *chat_template, *chat_template_file, *chat_variables;

    const char *prompt, *prompt_file; /* prompt_file "-": standard input */
    bool chat, json, special, no_bos, pieces, ignore_eos;
    int64_t max_tokens; /* -1: to the end of the context */
    int64_t seed;       /* -1: one is drawn              */
    uint32_t window;    /* of perplexity                 */

    const char *suites; /* of eval, from here on: "NAME|FILE,..."         */
    uint32_t limit;     /* problems of each; 0: what struct gp_exam says  */
    int preset;         /* enum gp_preset_table                           */
    struct gp_difficulty difficulty;
    int form; /* short, long, mixed */
    bool print;
    bool run_code; /* what answers are programs is run; else it is not asked */
    struct gp_sandbox_limits run;
    struct gp_policy_list policies; /* eval, bench, analyze; the others' is engine.kv */
    struct gp_scorer_words scorer;
    uint32_t samples;     /* 0: one             */
    uint32_t concurrency; /* 0: max_seqs        */
    const char *output;   /* NULL or "-": none  */
    const char *outline;  /* report             */

    struct gp_bench_settings bench;
    struct gp_analyze_settings analyze;

    const char *host, *alias, *key_file, *cors_origin; /* of serve, from here on */
    uint32_t port, shutdown_seconds;
    uint64_t body_bytes_max;
    struct gp_key_list keys;
    const char *tls_cert, *tls_key; /* files */
    struct gp_also_list also;
    bool no_access_log, strict_model;

    bool insecure; /* of loadtest */
    uint32_t request_seconds;

    int tool_format;      /* auto, hermes, llama3, none */
    int reasoning_format; /* auto, deepseek, none */
    int64_t thought_max;  /* -1: no limit */

    const char *trace_path; /* NULL: none */

    struct gp_engine_options engine; /* holds the KV options, and -np, -c, -t for all commands */
    struct gp_sampling sampling;

    struct gp_arguments rest; /* what was not an option */
};

/* Defaults, then the options of `command`.  GP_EINVAL, naming the option, for what cannot be; with
 * --help or --version given nothing further is asked. */
int gp_settings_parse(struct gp_settings *settings, enum gp_command_bit command, int argc,
                      char **argv, struct gp_error *err);

/* What the first argument of analyze says, and what goes with it; the settings' own. */
int gp_settings_analyze(struct gp_settings *settings, struct gp_error *err);

void gp_settings_help(enum gp_command_bit command, FILE *out);

/* Model options for these settings; *template_text is to be freed (gp_mem_free) after the open. */
int gp_settings_model(const struct gp_settings *settings, bool vocab_only,
                      struct gp_model_options *out, char **template_text, struct gp_error *err);

#endif
