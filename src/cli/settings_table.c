/* Every option of every command: its names, its help, where it goes, and how a word becomes a
 * value.  What follows from several of them together is in settings.c. */
#include "cli/settings_table.h"

#include <float.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "cli/io.h"
#include "eval/preset.h"

#define POLICY_NAMES                                                                               \
    "growpage, full, fixed:T, random[:P], inverse, shrink[:X:FLOOR], zipage:T, gkv:T, rkv:T, "     \
    "morphkv:T, snapkv:T, h2o:T or streaming:T; growpage+zipage selects by zipage's scores"

/* Thresholds are compared with differences of shares, but "always" and "never" must be sayable. */
#define THRESHOLD_MAX 1e9

static int apply_policy(void *target, const char *value, struct gp_error *err)
{
    return gp_policy_parse(value, target, err);
}

static int apply_policies(void *target, const char *value, struct gp_error *err)
{
    struct gp_policy_list *list = target;
    struct gp_kv_options kv, earlier;
    char name[64], other[64];

    gp_kv_options_init(&kv);
    int rc = gp_settings_policy(value, PRESET_ANY, &kv, err);
    if (rc)
        return rc;
    gp_policy_format(&kv, name);
    for (uint32_t i = 0; i < list->count; i++) {
        gp_kv_options_init(&earlier);
        gp_settings_policy(list->items[i], PRESET_ANY, &earlier, NULL);
        gp_policy_format(&earlier, other);
        if (strcmp(name, other) == 0)
            return gp_fail(err, GP_EINVAL, "%s: given twice", name);
    }
    if (list->count == GP_POLICIES_MAX)
        return gp_fail(err, GP_EINVAL, "%s: more than %u policies", name, GP_POLICIES_MAX);
    list->items[list->count++] = value;
    return GP_OK;
}

static int apply_scorer(void *target, const char *value, struct gp_error *err)
{
    struct gp_scorer_words *words = target;

    if (words->count == GP_SCORER_WORDS_MAX)
        return gp_fail(err, GP_EINVAL, "given more than %u times", GP_SCORER_WORDS_MAX);
    words->items[words->count++] = value;
    return GP_OK;
}

/* "POLICY,POLICY" */
static int apply_also(void *target, const char *value, struct gp_error *err)
{
    struct gp_also_list *list = target;

    for (size_t length; *value; value += length + (value[length] == ',')) {
        char name[64];

        length = strcspn(value, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, value);
        if (list->count == GP_ALSO_MAX)
            return gp_fail(err, GP_EINVAL, "%s: more than %u policies", name, GP_ALSO_MAX);
        gp_kv_options_init(&list->kv[list->count]);
        if (length >= sizeof name || gp_policy_parse(name, &list->kv[list->count], err))
            return length < sizeof name ? GP_EINVAL
                                        : gp_fail(err, GP_EINVAL, "%.60s: unknown", name);
        list->count++;
    }
    return GP_OK;
}

static int apply_length(void *target, const char *value, struct gp_error *err)
{
    return gp_length_parse(value, target, err);
}

static int apply_kv_type(void *target, const char *value, struct gp_error *err)
{
    static const char *const types[] = {"f16", "bf16", "f32", "q8_0"};
    const char **type = target;

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(value, types[i]) == 0) {
            *type = types[i];
            return GP_OK;
        }
    return gp_fail(err, GP_EINVAL, "%.60s: must be one of f16, bf16, f32, q8_0", value);
}

static int apply_difficulty(void *target, const char *value, struct gp_error *err)
{
    const char *colon = strchr(value, ':');
    size_t length = colon ? (size_t)(colon - value) : strlen(value);
    struct gp_difficulty d;
    char low[32];

    if (length >= sizeof low)
        return gp_fail(err, GP_EINVAL, "%.60s: not a number", value);
    memcpy(low, value, length);
    low[length] = 0;
    if (!gp_parse_double(low, &d.low) || !gp_parse_double(colon ? colon + 1 : low, &d.high))
        return gp_fail(err, GP_EINVAL, "%.60s: must be a number, or two with a colon", value);
    if (d.low < 0 || d.high > 1 || d.low > d.high)
        return gp_fail(err, GP_EINVAL, "%.60s: must be in 0 to 1, the lower one first", value);
    *(struct gp_difficulty *)target = d;
    return GP_OK;
}

static int apply_key(void *target, const char *value, struct gp_error *err)
{
    struct gp_key_list *list = target;

    if (!*value)
        return gp_fail(err, GP_EINVAL, "an empty key");
    if (list->count == GP_KEYS_MAX)
        return gp_fail(err, GP_EINVAL, "more than %u keys; give a file of them", GP_KEYS_MAX);
    list->items[list->count++] = value;
    return GP_OK;
}

#define AT(field) .offset = offsetof(struct gp_settings, field)

#define SECTION(text)                                                                              \
    {                                                                                              \
        .kind = GP_OPTION_SECTION, .help = text                                                    \
    }
#define SERVE_ONLY(words)                                                                          \
    {                                                                                              \
        .kind = GP_OPTION_LATER, .names = words, .commands = ALL & ~SERVE,                         \
        .later = "an option of serve"                                                              \
    }

/* clang-format off */
const struct gp_option gp_settings_table[] = {
    SECTION("Model"),
    {GP_OPTION_TEXT, "-m --model", "FILE",
     "a GGUF file (default: the bundled " BUNDLED ")", ALL, AT(model_path)},
    {GP_OPTION_FLAG, "--override-pre", NULL,
     "split text the default way when the file's pre-tokenizer is unknown, instead of refusing it",
     ALL & ~INSPECT, AT(override_pre)},
    {GP_OPTION_TEXT, "--chat-template", "TEXT", "a template instead of the file's own",
     ASK | SERVE, AT(chat_template)},
    {GP_OPTION_TEXT, "--chat-template-file", "FILE", "the same from a file",
     ASK | SERVE, AT(chat_template_file)},
    {GP_OPTION_TEXT, "--chat-template-kwargs", "JSON",
     "variables for the template, such as {\"enable_thinking\":false}", ASK | SERVE,
     AT(chat_variables)},

    SECTION("Text"),
    {GP_OPTION_TEXT, "-p --prompt", "TEXT", "the text", RUN | TOKENIZE, AT(prompt)},
    {GP_OPTION_TEXT, "-f --file", "FILE", "the text from a file; - is standard input",
     TEXT_IN, AT(prompt_file)},
    {GP_OPTION_FLAG, "--chat", NULL,
     "send the prompt through the chat template; without -p or -f on a terminal: a conversation",
     RUN, AT(chat)},
    {GP_OPTION_TRUE, "--jinja", NULL, "chat templates are Jinja, as they are always here", RUN},
    {GP_OPTION_FLAG, "--special", NULL,
     "recognise control tokens that are spelled in the prompt, and print those of the answer",
     RUN, AT(special)},
    {GP_OPTION_FLAG, "--special", NULL, "recognise control tokens that are spelled in the text",
     TOKENIZE, AT(special)},
    {GP_OPTION_FLAG, "--special", NULL, "spell control tokens too", DETOKENIZE, AT(special)},
    {GP_OPTION_FLAG, "--no-bos", NULL, "put no BOS token in front", TOKENIZE, AT(no_bos)},
    {GP_OPTION_FLAG, "--pieces", NULL, "one token a line: its id, a tab, its text",
     TOKENIZE, AT(pieces)},
    {GP_OPTION_FLAG, "--json", NULL, "one JSON object on standard output, and nothing else",
     RUN | INSPECT | TOKENIZE, AT(json)},
    {GP_OPTION_FLAG, "--json", NULL, "with --print: one JSON object a line", EVAL, AT(json)},
    {GP_OPTION_FLAG, "--json", NULL, "the sums as one JSON object", TRACE, AT(json)},

    SECTION("Page"),
    {GP_OPTION_TEXT, "-o --output", "FILE", "the page (default: report.html)", REPORT, AT(output)},
    {GP_OPTION_TEXT, "--outline", "FILE", "sections and their records, as JSON", REPORT,
     AT(outline)},

    SECTION("Problems"),
    {GP_OPTION_TEXT, "--suite --suites", "NAME|FILE[,...]",
     "families of problems; all: every one but the warm-ups; mixed: the same, half of them long; a "
     "JSON-lines file of GSM8K, MATH500, AMC23, AIME24 or LiveCodeBench (default: all)",
     EXAM, AT(suites)},
    {GP_OPTION_WORD, "--preset", "WORD",
     "answers to each problem and their length as in the paper: of each data set by itself, or of "
     "its mixed workload; --kv POLICY:preset has its budget",
     EVAL, AT(preset), .words = "none|paper|mixed"},
    {GP_OPTION_UINT, "--limit", "N", "problems of each (default: 100 of a family, all of a file)",
     EXAM, AT(limit), .min = 1, .max = 1000000000},
    {GP_OPTION_INT, "-s --seed", "N", "the same seed makes the same problems (default: 1)", EXAM,
     AT(seed), .min = 0, .max = 9007199254740991.0},
    {GP_OPTION_CALL, "--difficulty", "D|LOW:HIGH",
     "0 to 1; of a range each problem draws its own (default: what each suite says)", EXAM,
     AT(difficulty), .apply = apply_difficulty},
    {GP_OPTION_WORD, "--form", "WORD", "length of the thoughts (default: short)", EXAM, AT(form),
     .words = "short|long|mixed"},
    {GP_OPTION_UINT, "--samples", "N", "answers to each problem (default: 1)", EXAM, AT(samples),
     .min = 1, .max = 1000000},
    {GP_OPTION_TEXT, "-o --output", "FILE",
     "every answer and what it took, as JSON lines; -: none, only the table (default: -)", EVAL,
     AT(output)},
    {GP_OPTION_FLAG, "--print", NULL, "print the problems and their solutions, and ask nobody",
     EVAL, AT(print)},
    {GP_OPTION_FLAG, "--run-code", NULL,
     "run the programs that answers are, in a sandbox, on their tests; else they are not asked for",
     EXAM, AT(run_code)},
    {GP_OPTION_UINT, "--run-seconds", "N",
     "processor time of a program on one test (default: 6)", EXAM, AT(run.seconds),
     .min = 1, .max = 3600},
    {GP_OPTION_SIZE, "--run-memory", "SIZE", "memory of a program (default: 1GiB)", EXAM,
     AT(run.memory_bytes), .min = 64 << 20, .max = 1099511627776.0},
    {GP_OPTION_LIST, "--budgets", "T,...",
     "budget: tokens of the fixed budgets that are tried (default: 2, 4, 8, 16 and 32 pages)",
     ANALYZE, AT(analyze.budgets), .min = 32, .max = GP_LIMIT_CONTEXT},
    {GP_OPTION_UINT, "--horizon", "N",
     "counterfactual: tokens behind a boundary that are scored (default: a page)", ANALYZE,
     AT(analyze.horizon), .min = 1, .max = GP_LIMIT_CONTEXT},
    {GP_OPTION_UINT, "--tap-every", "N",
     "signal, sparsity: look at every Nth token (default: 1)", ANALYZE, AT(analyze.every), .min = 1,
     .max = GP_LIMIT_CONTEXT},
    {GP_OPTION_TEXT, "-o --output", "FILE",
     "all that was measured, as JSON lines; -: none, only the table (default: -)", ANALYZE,
     AT(output)},
    {GP_OPTION_FLAG, "--json", NULL, "JSON lines on standard output, and no table", ANALYZE,
     AT(json)},

    SECTION("Tests"),
    {GP_OPTION_LIST, "-p --n-prompt", "N,...",
     "tokens of a prompt, each a test; 0: none (default: 512); lists as 1,2,8-64*2", BENCH,
     AT(bench.prompts), .max = GP_LIMIT_CONTEXT},
    {GP_OPTION_LIST, "-n --n-gen", "N,...",
     "tokens generated, each a test; 0: none (default: 128)", BENCH, AT(bench.outputs),
     .max = GP_LIMIT_CONTEXT},
    {GP_OPTION_LIST, "-d --n-depth --depth", "N,...",
     "tokens of context before the test begins (default: 0)", BENCH, AT(bench.depths),
     .max = GP_LIMIT_CONTEXT},
    {GP_OPTION_LIST, "-b --batch", "N,...", "sequences at once (default: 1)", BENCH,
     AT(bench.batches), .min = 1, .max = GP_LIMIT_SEQS},
    {GP_OPTION_UINT, "-r --repetitions", "N", "repetitions of each test (default: 5)",
     BENCH | KERNELS, AT(bench.repetitions), .min = 1, .max = 100000},
    {GP_OPTION_FLAG, "--no-warmup", NULL, "time the first run, too", BENCH, AT(bench.no_warm_up)},
    {GP_OPTION_FLAG, "--serve", NULL, "serve requests, instead of these tests", BENCH,
     AT(bench.serve)},
    {GP_OPTION_UINT, "--requests --num-prompts", "N", "requests to serve (default: 64)",
     BENCH | LOADTEST, AT(bench.requests), .min = 1, .max = 65536},
    {GP_OPTION_CALL, "--prompt-len", "LENGTH",
     "tokens of a prompt: a number, uniform:LOW:HIGH or lognormal:MU:SIGMA[:MAX] (default: 512)",
     BENCH | LOADTEST, AT(bench.prompt_length), .apply = apply_length},
    {GP_OPTION_CALL, "--output-len", "LENGTH", "tokens of an answer, likewise (default: 128)",
     BENCH | LOADTEST, AT(bench.output_length), .apply = apply_length},
    {GP_OPTION_DOUBLE, "--rate --request-rate", "R",
     "requests that arrive in a second, at random (default: all at once)", BENCH, AT(bench.rate),
     .min = 0, .max = 1e6, .min_open = true},
    {GP_OPTION_FLAG, "--kernels", NULL,
     "time the arithmetic itself, with no model: what memory gives, products, attention, and the "
     "rest; goes with -t, -r, -o and the three below", BENCH | KERNELS, AT(bench.kernels)},
    {GP_OPTION_TEXT, "--only", "NAME,...",
     "kernels and types to time, such as matmul,q4_k (default: all)", BENCH | KERNELS,
     AT(bench.only)},
    {GP_OPTION_UINT, "--kernel-time", "MS", "milliseconds of one repetition (default: 20)",
     BENCH | KERNELS, AT(bench.kernel_ms), .min = 1, .max = 60000},
    {GP_OPTION_SIZE, "--kernel-bytes", "SIZE",
     "of what is read from memory (default: four times the largest cache, at least 256MiB)",
     BENCH | KERNELS, AT(bench.kernel_bytes), .min = 1 << 20, .max = 1099511627776.0},
    {GP_OPTION_INT, "-s --seed", "N",
     "the same seed makes the same tokens, lengths and waits (default: 1)", BENCH | LOADTEST,
     AT(seed), .min = 0, .max = 9007199254740991.0},
    {GP_OPTION_WORD, "-o --output", "WORD", "form of the results (default: md)",
     BENCH | KERNELS | LOADTEST, AT(bench.format), .words = "md|csv|json|jsonl", .later = "sql"},

    {GP_OPTION_DOUBLE, "--rate --request-rate", "R",
     "requests that arrive in a second, at random, whoever is still served (default: each when an "
     "earlier one has ended)", LOADTEST, AT(bench.rate), .min = 0, .max = 1e6, .min_open = true},
    {GP_OPTION_UINT, "--concurrency --max-concurrency", "N",
     "requests at once, at most (default: 8; with --rate: no limit)", LOADTEST, AT(concurrency),
     .min = 1, .max = 1000},
    {GP_OPTION_FLAG, "--chat", NULL, "ask for chats instead of completions", LOADTEST, AT(chat)},
    {GP_OPTION_TEXT, "-m --model", "NAME", "the model to ask for (default: the first there is)",
     LOADTEST, AT(alias)},
    {GP_OPTION_CALL, "--api-key", "KEY", "the key to send", LOADTEST, AT(keys),
     .apply = apply_key},
    {GP_OPTION_FLAG, "--insecure", NULL, "take whatever certificate the server has", LOADTEST,
     AT(insecure)},
    {GP_OPTION_UINT, "--timeout", "SECONDS", "for one request (default: 600)", LOADTEST,
     AT(request_seconds), .min = 1, .max = 86400},

    SECTION("Server"),
    {GP_OPTION_TEXT, "--host", "HOST",
     "the address to listen at (default: 127.0.0.1, this machine alone)", SERVE, AT(host)},
    {GP_OPTION_UINT, "--port", "N", "the port; 0: one that is free (default: 8080)", SERVE,
     AT(port), .max = 65535},
    {GP_OPTION_TEXT, "-a --alias --served-model-name", "NAME",
     "the model's id (default: the file's name)", SERVE, AT(alias)},
    {GP_OPTION_FLAG, "--strict-model", NULL, "refuse requests that name another model", SERVE,
     AT(strict_model)},
    {GP_OPTION_CALL, "--api-key", "KEY",
     "a key that clients must send; may be given several times", SERVE, AT(keys),
     .apply = apply_key},
    {GP_OPTION_TEXT, "--api-key-file", "FILE", "keys, one a line; SIGHUP reads it again", SERVE,
     AT(key_file)},
    {GP_OPTION_TEXT, "--tls-cert --ssl-cert-file --ssl-certfile", "FILE",
     "serve HTTPS with this certificate and those that vouch for it, in PEM", SERVE, AT(tls_cert)},
    {GP_OPTION_TEXT, "--tls-key --ssl-key-file --ssl-keyfile", "FILE", "its private key, in PEM",
     SERVE, AT(tls_key)},
    {GP_OPTION_TEXT, "--cors-origin", "ORIGIN",
     "web pages from there may ask; *: from anywhere (default: none)", SERVE, AT(cors_origin)},
    {GP_OPTION_WORD, "--reasoning-format", "WORD",
     "auto and deepseek put thoughts apart from answers, as reasoning_content; none leaves them",
     SERVE, AT(reasoning_format), .words = "auto|deepseek|none"},
    {GP_OPTION_WORD, "--tool-format", "WORD",
     "how the model writes tool calls (default: auto, as its chat template says)", SERVE,
     AT(tool_format), .words = "auto|hermes|llama3|none"},
    {GP_OPTION_INT, "--reasoning-budget", "N",
     "tokens of a thought, which is closed then; -1: no limit (default: -1)", SERVE,
     AT(thought_max), .min = -1, .max = GP_LIMIT_CONTEXT},
    {GP_OPTION_SIZE, "--max-body", "SIZE", "of one request (default: 32MiB)", SERVE,
     AT(body_bytes_max), .min = 1024, .max = 268435456.0},
    {GP_OPTION_UINT, "--shutdown-timeout", "SECONDS",
     "for what runs when a stop comes (default: 30)", SERVE, AT(shutdown_seconds), .max = 86400},
    {GP_OPTION_FLAG, "--no-access-log", NULL, "no line a request", SERVE, AT(no_access_log)},
    {GP_OPTION_TRUE, "--metrics", NULL, "serve /metrics, as is always done", SERVE},
    {GP_OPTION_TRUE, "--jinja", NULL, "chat templates are Jinja, as they are always here", SERVE},

    SECTION("Size and speed"),
    {GP_OPTION_INT, "-n --max-tokens --n-predict --predict", "N",
     "tokens of the answer at most; -1: what the context holds (default: -1)", RUN, AT(max_tokens),
     .min = -1, .max = GP_LIMIT_CONTEXT},
    {GP_OPTION_INT, "-n --max-tokens --n-predict --predict", "N",
     "tokens of an answer at most; -1: what the context holds (default: 4096)", EXAM,
     AT(max_tokens), .min = -1, .max = GP_LIMIT_CONTEXT},
    {GP_OPTION_UINT, "-c --ctx-size --max-model-len", "N",
     "tokens of one request, prompt and answer (default: what the model was trained for)", ENGINE,
     AT(engine.context), .min = 2, .max = GP_LIMIT_CONTEXT},
    {GP_OPTION_UINT, "-c --tokens --ctx-size --max-model-len", "N",
     "tokens of a request in the memory estimate (default: what the model was trained for)",
     INSPECT,
     AT(engine.context), .min = 1, .max = GP_LIMIT_CONTEXT},
    {GP_OPTION_UINT, "-c --window --ctx-size", "N",
     "tokens of one window (default: 512)", PERPLEXITY,
     AT(window), .min = 4, .max = GP_LIMIT_CONTEXT},
    {GP_OPTION_UINT, "-t --threads", "N", "threads (default: one per core)",
     ASK | SERVE | PERPLEXITY, AT(engine.threads), .min = 1, .max = GP_LIMIT_THREADS},
    {GP_OPTION_LIST, "-t --threads", "N,...", "threads (default: one per core)", BENCH | KERNELS,
     AT(bench.threads), .min = 1, .max = GP_LIMIT_THREADS},
    {GP_OPTION_UINT, "-np --max-seqs --parallel --max-num-seqs", "N",
     "with --serve: requests running at once (default: as many as there are, up to 512)", BENCH,
     AT(engine.max_seqs), .min = 1, .max = GP_LIMIT_SEQS},
    {GP_OPTION_UINT, "-ub --max-batch-tokens --ubatch-size --batch-size --max-num-batched-tokens",
     "N", "tokens of one step (default: 512)", BENCH, AT(engine.max_batch_tokens), .min = 1,
     .max = GP_LIMIT_BATCH_TOKENS},
    {GP_OPTION_UINT, "-np --max-seqs --parallel --max-num-seqs", "N",
     "requests running at once (default: 1)",
     RUN, AT(engine.max_seqs), .min = 1, .max = GP_LIMIT_SEQS},
    {GP_OPTION_UINT, "-np --max-seqs --parallel --max-num-seqs", "N",
     "requests running at once (default: 64, or --concurrency)",
     EVAL, AT(engine.max_seqs), .min = 1, .max = GP_LIMIT_SEQS},
    {GP_OPTION_UINT, "-np --max-seqs --parallel --max-num-seqs", "N",
     "answers running at once (default: 64)", SERVE, AT(engine.max_seqs), .min = 1,
     .max = GP_LIMIT_SEQS},
    {GP_OPTION_UINT, "--max-waiting", "N",
     "answers waiting at most; the next request is told to come back (default: 512)", SERVE,
     AT(engine.max_waiting), .max = 65536},
    {GP_OPTION_UINT, "--concurrency", "N",
     "requests running or waiting at once (default: as many as may run)",
     EVAL, AT(concurrency), .min = 1, .max = 65536},
    {GP_OPTION_UINT, "--concurrency", "N",
     "requests running at once (default: 64; of counterfactual: 4)", ANALYZE, AT(concurrency),
     .min = 1, .max = GP_LIMIT_SEQS},
    {GP_OPTION_UINT, "-np --max-seqs --parallel --max-num-seqs", "N",
     "requests in the memory estimate (default: 1)", INSPECT, AT(engine.max_seqs), .min = 1,
     .max = GP_LIMIT_SEQS},
    {GP_OPTION_UINT, "-b --max-batch-tokens --batch-size --max-num-batched-tokens", "N",
     "tokens of one step (default: 512)", ASK | SERVE, AT(engine.max_batch_tokens), .min = 1,
     .max = GP_LIMIT_BATCH_TOKENS},
    {GP_OPTION_DOUBLE, "--max-stall", "X",
     "while answers are written, a step that reads prompts takes about X times one that does not, "
     "at most; 0: no limit (default: 3)", SERVE, AT(engine.max_stall), .max = 1000},
    {GP_OPTION_DOUBLE, "--max-stall", "X",
     "--serve: as serve's option of this name (default: 0, no limit)", BENCH, AT(engine.max_stall),
     .max = 1000},

    SECTION("Sampling"),
    {GP_OPTION_FLOAT, "--temp --temperature", "T",
     "temperature; 0: always the likeliest token (default: 0)",
     BENCH, AT(sampling.temperature), .min = 0, .max = 1000},
    {GP_OPTION_FLOAT, "--temp --temperature", "T",
     "temperature; 0: always the likeliest token (default: 0.6)",
     EXAM, AT(sampling.temperature), .min = 0, .max = 1000},
    {GP_OPTION_UINT, "--top-k", "N", "of the N likeliest tokens only; 0: off (default: 0)",
     EXAM | BENCH, AT(sampling.top_k), .max = GP_LIMIT_VOCAB},
    {GP_OPTION_FLOAT, "--min-p", "P",
     "of the tokens this likely at least, next to the likeliest; 0: off (default: 0)", EXAM | BENCH,
     AT(sampling.min_p), .min = 0, .max = 1, .max_open = true},
    {GP_OPTION_FLOAT, "--temp --temperature", "T",
     "temperature; 0: always the likeliest token (default: 0.8)",
     RUN, AT(sampling.temperature), .min = 0, .max = 1000},
    {GP_OPTION_UINT, "--top-k", "N", "of the N likeliest tokens only; 0: off (default: 40)", RUN,
     AT(sampling.top_k), .max = GP_LIMIT_VOCAB},
    {GP_OPTION_FLOAT, "--top-p", "P",
     "of the likeliest tokens that hold this share; 1: off (default: 0.95)",
     ASK | BENCH, AT(sampling.top_p), .min = 0, .max = 1, .min_open = true},
    {GP_OPTION_FLOAT, "--min-p", "P",
     "of the tokens this likely at least, next to the likeliest; 0: off (default: 0.05)", RUN,
     AT(sampling.min_p), .min = 0, .max = 1, .max_open = true},
    {GP_OPTION_INT, "-s --seed", "N",
     "the same seed draws the same tokens; -1: one is drawn (default: -1)",
     RUN, AT(seed), .min = -1, .max = 9007199254740991.0},
    {GP_OPTION_FLAG, "--ignore-eos", NULL, "go on behind the model's end tokens", ASK,
     AT(ignore_eos)},
    {GP_OPTION_FLOAT, "--repeat-penalty --repetition-penalty", "X",
     "over prompt and answer; 1: off (default: 1)",
     ASK, AT(sampling.repeat_penalty), .min = 0, .max = 100,
     .min_open = true},
    {GP_OPTION_FLOAT, "--presence-penalty", "X", "over the answer; 0: off (default: 0)", ASK,
     AT(sampling.presence_penalty), .min = -100, .max = 100},
    {GP_OPTION_FLOAT, "--frequency-penalty", "X", "over the answer; 0: off (default: 0)", ASK,
     AT(sampling.frequency_penalty), .min = -100, .max = 100},

    SECTION("KV cache"),
    {GP_OPTION_CALL, "--kv", "POLICY",
     POLICY_NAMES " (default: growpage)", RUN | SERVE, AT(engine.kv), .apply = apply_policy},
    {GP_OPTION_CALL, "--kv", "POLICY",
     POLICY_NAMES "; several in turn when given several times (default: growpage)",
     EVAL, AT(policies), .apply = apply_policies},
    {GP_OPTION_CALL, "--kv", "POLICY",
     "budget: that adapts; overhead: that is timed; any of eval's, and several (default: growpage)",
     ANALYZE, AT(policies), .apply = apply_policies},
    {GP_OPTION_CALL, "--kv", "POLICY",
     POLICY_NAMES "; several in turn when given several times (default: full)",
     BENCH, AT(policies), .apply = apply_policies},
    {GP_OPTION_CALL, "--kv-also", "POLICY,...",
     "policies that requests may bring, too: those with a scorer, zipage to streaming or "
     "growpage+zipage, need memory that is taken at start",
     SERVE, AT(also), .apply = apply_also},
    {GP_OPTION_CALL, "--kv-type -ctk -ctv --cache-type-k --cache-type-v --kv-cache-dtype", "TYPE",
     "f16, bf16, f32 or q8_0 (default: f16)", ENGINE | PERPLEXITY,
     AT(engine.kv_type), .apply = apply_kv_type},
    {GP_OPTION_UINT, "--page-size --block-size", "B",
     "tokens of a page, a multiple of 16 (default: 256)",
     ENGINE, AT(engine.page_tokens), .min = 16, .max = GP_LIMIT_PAGE_TOKENS, .multiple = 16},
    {GP_OPTION_SIZE, "--kv-memory --kv-cache-memory-bytes", "SIZE",
     "memory of all pages (default: 0.9 of what is free, but no more than -np requests of -c could "
     "use)",
     ENGINE, AT(engine.kv_bytes), .min = 1, .max = 1125899906842624.0},
    {GP_OPTION_UINT, "--kv-pages", "N", "the same in pages", ENGINE, AT(engine.kv_pages), .min = 1,
     .max = 16777216},
    {GP_OPTION_UINT, "--kv-watermark", "N", "pages that growth leaves free (default: 0)", ENGINE,
     AT(engine.watermark), .max = 16777216},
    {GP_OPTION_UINT, "--kv-initial-pages", "N",
     "pages that a request gets unasked (default: 12)", ENGINE,
     AT(engine.kv.initial_pages), .min = 2, .max = GP_LIMIT_CONTEXT},
    {GP_OPTION_UINT, "--kv-max-pages", "N", "growth ends here; 0: nowhere (default: 0)", ENGINE,
     AT(engine.kv.max_pages), .max = GP_LIMIT_CONTEXT},
    {GP_OPTION_DOUBLE, "--kv-threshold", "TAU",
     "grow when the change of demand is above this (default: 0)", ENGINE, AT(engine.kv.threshold),
     .min = -THRESHOLD_MAX, .max = THRESHOLD_MAX},
    {GP_OPTION_DOUBLE, "--kv-coverage", "P",
     "share of attention that demand must cover (default: 0.99)",
     ENGINE, AT(engine.kv.coverage), .min = 0, .max = 1, .min_open = true},
    {GP_OPTION_FLOAT, "--kv-beta-short", "BETA",
     "decay of the short query summary (default: 0.9)", ENGINE,
     AT(engine.kv.beta_short), .min = 0, .max = 1, .max_open = true},
    {GP_OPTION_FLOAT, "--kv-beta-long", "BETA",
     "decay of the long query summary (default: 0.999)", ENGINE,
     AT(engine.kv.beta_long), .min = 0, .max = 1, .max_open = true},
    {GP_OPTION_UINT, "--kv-local", "K", "slots that every page keeps; default: a quarter", ENGINE,
     AT(engine.kv.local), .max = GP_LIMIT_PAGE_TOKENS},
    {GP_OPTION_UINT, "--kv-protect", "R", "newest slots that are always kept; default: 16", ENGINE,
     AT(engine.kv.protect), .max = GP_LIMIT_PAGE_TOKENS},
    {GP_OPTION_WORD, "--kv-metric", "WORD", "what demand is measured by", ENGINE,
     AT(engine.kv.metric), .words = "top-p|entropy|exp-entropy"},
    {GP_OPTION_WORD, "--kv-summary-init", "WORD", "how a query summary starts", ENGINE,
     AT(engine.kv.summary_init), .words = "first|zero"},
    {GP_OPTION_WORD, "--kv-gqa-demand", "WORD", "query heads of a group, for demand", ENGINE,
     AT(engine.kv.gqa_demand), .words = "mean|max-renormalised|per-query-head"},
    {GP_OPTION_WORD, "--kv-gqa-score", "WORD", "query heads of a group, for retention", ENGINE,
     AT(engine.kv.gqa_score), .words = "max|mean"},
    {GP_OPTION_WORD, "--kv-score-domain", "WORD", "slots that retention scores are shares of",
     ENGINE, AT(engine.kv.score_domain), .words = "unprotected|all"},
    {GP_OPTION_DOUBLE, "--kv-pressure", "F",
     "grow unasked while less than this share of the pages is in use; 0: off (default: 0)", ENGINE,
     AT(engine.kv.pressure), .min = 0, .max = 1},
    {GP_OPTION_WORD, "--kv-fallback", "WORD", "when a growth is denied", ENGINE,
     AT(engine.kv.fallback), .words = "compress|preempt"},
    {GP_OPTION_WORD, "--kv-resume", "WORD", "how a preempted request comes back", ENGINE,
     AT(engine.kv.resume), .words = "replay|recompute"},
    {GP_OPTION_WORD, "--kv-compact", "WORD",
     "where survivors go: those of the last page into the holes of the others, or all down", ENGINE,
     AT(engine.kv.compact), .words = "shift|fill"},
    {GP_OPTION_TEXT, "--kv-trigger", "WHEN",
     "page, steps:N or token: when a policy with a scorer cuts (default: the policy's own)", ENGINE,
     AT(scorer.trigger)},
    {GP_OPTION_CALL, "--kv-scorer", "NAME=VALUE,...",
     "switches of a policy's scorer, such as window=8,group=max (default: the policy's own)",
     ENGINE, AT(scorer), .apply = apply_scorer},
    {GP_OPTION_TEXT, "--kv-trace", "FILE", "what happens to every cache, as JSON lines", ENGINE,
     AT(trace_path)},
    {GP_OPTION_WORD, "--preempt", "WORD", "who gives way when a page is missing", ENGINE,
     AT(engine.preempt), .words = "newest|least-computed"},
    {GP_OPTION_WORD, "--batching", "WORD",
     "requests join those that run, or wait until all of them have ended", ENGINE,
     AT(engine.batching), .words = "continuous|static"},
    {GP_OPTION_FLAG, "--kv-sync", NULL, "compact inside the step, while the others wait", ENGINE,
     AT(engine.kv_sync)},
    {GP_OPTION_FLAG, "--no-prefix-cache --no-enable-prefix-caching", NULL,
     "share no pages between requests that begin alike", ENGINE, AT(engine.no_prefix_cache)},
    {GP_OPTION_TRUE, "--enable-prefix-caching", NULL, "share them, as is always done", ENGINE},
    SERVE_ONLY("--reasoning-budget"),
    SERVE_ONLY("--reasoning-format"),
    SERVE_ONLY("--host"), SERVE_ONLY("--port"), SERVE_ONLY("-a --alias --served-model-name"),
    SERVE_ONLY("--api-key"), SERVE_ONLY("--api-key-file"), SERVE_ONLY("--metrics"),
    SERVE_ONLY("--shutdown-timeout"),
    {GP_OPTION_LATER, "-ngl --gpu-layers --n-gpu-layers", .commands = ALL,
     .later = "there is no GPU here"},
    {GP_OPTION_LATER, "--gpu-memory-utilization", .commands = ALL,
     .later = "there is no GPU here; --kv-memory sets the memory of the cache"},

    SECTION("Other"),
    {GP_OPTION_FLAG, "-h --help", NULL, "print this",
     ALL | TRACE | LOADTEST | REPORT | KERNELS, AT(help)},
    {GP_OPTION_FLAG, "--version", NULL, "print the version",
     ALL | TRACE | LOADTEST | REPORT | KERNELS, AT(version)},
};
/* clang-format on */

const size_t gp_settings_table_count = sizeof gp_settings_table / sizeof *gp_settings_table;
