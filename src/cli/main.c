/* growpage: one program, subcommands.  Exit status 0: done; 1: it failed; 2: it was asked for
 * wrongly. Errors are one line on stderr: "growpage: what: why". */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/io.h"

struct command {
    const char *name;
    const char *usage, *what;
    enum gp_command_bit bit;
    int (*run)(struct gp_settings *settings);
};

static const struct command commands[] = {
    {"run",
     "[-m FILE] (-p TEXT | -f FILE | -) [options]\n       growpage run [-m FILE] --chat [options]",
     "answer a prompt, or hold a conversation", GP_COMMAND_RUN, gp_cmd_run},
    {"inspect", "[FILE] [options]", "what a model file holds, and the memory it would take",
     GP_COMMAND_INSPECT, gp_cmd_inspect},
    {"tokenize", "[-m FILE] (-p TEXT | -f FILE | -) [options]", "text to token ids",
     GP_COMMAND_TOKENIZE, gp_cmd_tokenize},
    {"detokenize", "[-m FILE] [ID... | -] [options]", "token ids to text", GP_COMMAND_DETOKENIZE,
     gp_cmd_detokenize},
    {"perplexity", "[-m FILE] (-f FILE | -) [options]", "how surprised a model is by a text",
     GP_COMMAND_PERPLEXITY, gp_cmd_perplexity},
    {"eval",
     "[-m FILE] [--suite NAME|FILE[,...]] [--kv POLICY]... [-o FILE] [options]\n"
     "       growpage eval [--suite NAME|FILE[,...]] --print [--json] [options]",
     "ask a model problems, under one cache policy after another", GP_COMMAND_EVAL, gp_cmd_eval},
    {"analyze", "(signal | counterfactual | budget | sparsity | overhead) [-m FILE] [options]",
     "what the demand signal, a page and a decision are worth on a model", GP_COMMAND_ANALYZE,
     gp_cmd_analyze},
    {"bench",
     "[-m FILE] [-p N,...] [-n N,...] [-d N,...] [-b N,...] [-o FORM] [options]\n"
     "       growpage bench [-m FILE] --serve [--requests N] [--kv POLICY]... [-o FORM] [options]\n"
     "       growpage bench --kernels [-t N,...] [-r N] [--only NAME,...] [-o FORM]",
     "how fast a model runs here: prompts, generation, or many requests served", GP_COMMAND_BENCH,
     gp_cmd_bench},
    {"serve", "[-m FILE] [--host HOST] [--port N] [options]",
     "answer OpenAI's API over HTTP, many requests at once", GP_COMMAND_SERVE, gp_cmd_serve},
    {"loadtest", "URL [--rate R] [--concurrency N] [options]",
     "how fast a server answers many requests: any that speaks OpenAI's API", GP_COMMAND_LOADTEST,
     gp_cmd_loadtest},
    {"report", "(FILE... | --outline FILE) [-o FILE]",
     "records of eval and analyze as a page of tables and figures", GP_COMMAND_REPORT,
     gp_cmd_report},
    {"trace", "FILE [--json]", "a trace (--kv-trace) as a timeline with its sums", GP_COMMAND_TRACE,
     gp_cmd_trace},
};

#define COMMAND_COUNT (sizeof commands / sizeof *commands)

static const char names[] = "run inspect tokenize detokenize perplexity eval analyze bench serve "
                            "report trace loadtest help";

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static int fail_command(const char *name)
{
    uint32_t best = gp_nearest_limit(name);
    struct gp_error err;
    size_t length;

    const char *near = gp_nearest(name, names, &best, &length);
    if (near)
        gp_error_set(&err, "%.100s: unknown command; did you mean %.*s?", name, (int)length, near);
    else
        gp_error_set(&err, "%.100s: unknown command; see growpage --help", name);
    return gp_tell(GP_EXIT_USAGE, &err);
}

static int finish_output(void)
{
    struct gp_error err;

    return gp_print_end(&err) ? gp_tell(GP_EXIT_FAILED, &err) : GP_EXIT_OK;
}

static int print_version(void)
{
    printf("growpage %s\n", gp_version());
    return finish_output();
}

static int print_help(void)
{
    printf("usage: growpage COMMAND [options]\n\n"
           "Runs GGUF language models with a KV cache that grows when the model needs it.\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        printf("  %-12s%s\n", commands[i].name, commands[i].what);
    printf(
        "\ngrowpage COMMAND --help explains a command, growpage --version says which program this "
        "is,\nman growpage says the rest.\n");
    return finish_output();
}

static int print_command_help(const struct command *command)
{
    printf("usage: growpage %s %s\n\n%c%s.\n", command->name, command->usage,
           toupper((unsigned char)command->what[0]), command->what + 1);
    gp_settings_help(command->bit, stdout);
    if (command->bit == GP_COMMAND_SERVE)
        printf("\nEvery option may also stand in the environment: " GP_ENVIRONMENT_PREFIX
               "KV_PAGES=64 is --kv-pages 64, and\n" GP_ENVIRONMENT_PREFIX
               "NO_ACCESS_LOG=1 is --no-access-log. The command line counts more.\n");
    return finish_output();
}

static int run_command(const struct command *command, int argc, char **argv)
{
    struct gp_settings settings;
    struct gp_error err;

    if (gp_settings_parse(&settings, command->bit, argc, argv, &err)) {
        gp_error_prefix(&err, "%s", command->name);
        return gp_tell(GP_EXIT_USAGE, &err);
    }
    if (settings.help)
        return print_command_help(command);
    if (settings.version)
        return print_version();
    if (gp_open_trace(&settings, &err)) {
        gp_error_prefix(&err, "%s", command->name);
        return gp_tell(GP_EXIT_FAILED, &err);
    }
    return command->run(&settings);
}

int main(int argc, char **argv)
{
    struct gp_error err;

    gp_io_start();
    if (argc < 2) {
        gp_error_set(&err, "no command; see growpage --help");
        return gp_tell(GP_EXIT_USAGE, &err);
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0)
        return print_version();
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return print_help();
    if (strcmp(name, "help") == 0) {
        if (argc == 2)
            return print_help();
        name = argv[2];
        const struct command *topic = find_command(name);
        return topic ? print_command_help(topic) : fail_command(name);
    }
    const struct command *command = find_command(name);
    return command ? run_command(command, argc - 2, argv + 2) : fail_command(name);
}
