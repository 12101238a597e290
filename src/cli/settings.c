#include "cli/settings.h"

#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "cli/io.h"
#include "cli/settings_table.h"
#include "eval/preset.h"

int gp_settings_policy(const char *text, uint32_t budget, struct gp_kv_options *kv,
                       struct gp_error *err)
{
    size_t length = strlen(text), head = length - (length < PRESET_LENGTH ? length : PRESET_LENGTH);
    char name[64];

    if (strcmp(text + head, PRESET) != 0 || length >= sizeof name)
        return gp_policy_parse(text, kv, err);
    snprintf(name, sizeof name, "%.*s:%u", (int)head, text, budget);
    return gp_policy_parse(name, kv, err);
}

void gp_settings_help(enum gp_command_bit command, FILE *out)
{
    gp_options_help(gp_settings_table, gp_settings_table_count, command, out);
}

/* The bundled model, seen from the program's folder: where `make install` puts it, or in the
 * checkout that the program was built in (build/ has a link to build/CC-CONFIG/growpage). */
static const char *bundled_model(void)
{
    static const char *const places[] = {"../share/growpage/" BUNDLED, "../../models/" BUNDLED};
    static char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path);

    if (length <= 0 || length == sizeof path)
        return NULL;
    while (length > 0 && path[length - 1] != '/')
        length--;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        size_t room = sizeof path - (size_t)length;
        if ((size_t)snprintf(path + length, room, "%s", places[i]) < room && !access(path, F_OK))
            return path;
    }
    return NULL;
}

/* What of bench does not go with --kernels.  Nothing is left of the line but options. */
static int check_kernels(int argc, char **argv, struct gp_error *err)
{
    size_t length;
    const char *name = gp_options_foreign(gp_settings_table, gp_settings_table_count, BENCH,
                                          KERNELS, argc, argv, &length);

    return name ? gp_fail(err, GP_EINVAL, "%.*s: has no meaning with --kernels",
                          (int)(length < 100 ? length : 100), name)
                : GP_OK;
}

/* Options of one kind of bench that were given to the other. */
static int check_bench(const struct gp_settings *s, struct gp_error *err)
{
    const struct gp_bench_settings *b = &s->bench;
    const struct {
        const char *name;
        bool given, serves;
    } uses[] = {
        {"--n-prompt", b->prompts.count > 0, false},
        {"--n-gen", b->outputs.count > 0, false},
        {"--n-depth", b->depths.count > 0, false},
        {"--batch", b->batches.count > 0, false},
        {"--repetitions", b->repetitions > 0, false},
        {"--no-warmup", b->no_warm_up, false},
        {"--requests", b->requests > 0, true},
        {"--prompt-len", b->prompt_length.max > 0, true},
        {"--output-len", b->output_length.max > 0, true},
        {"--rate", b->rate > 0, true},
        {"--max-seqs", s->engine.max_seqs > 0, true},
    };
    const char *kernel_option = b->only           ? "--only"
                                : b->kernel_ms    ? "--kernel-time"
                                : b->kernel_bytes ? "--kernel-bytes"
                                                  : NULL;

    if (kernel_option && !b->kernels)
        return gp_fail(err, GP_EINVAL, "%s: has no meaning without --kernels", kernel_option);
    if (b->only && !*b->only)
        return gp_fail(err, GP_EINVAL, "--only: an empty list");
    if (b->kernels) /* which options go with it was seen by their names */
        return GP_OK;
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        if (uses[i].given && uses[i].serves != b->serve)
            return gp_fail(err, GP_EINVAL, "%s: has no meaning with%s --serve", uses[i].name,
                           b->serve ? "" : "out");
    if (b->serve && b->threads.count > 1)
        return gp_fail(err, GP_EINVAL, "--threads: with --serve only one number can be given");
    for (uint32_t i = 0; i < b->batches.count; i++)
        if (b->batches.items[i] > s->engine.max_batch_tokens)
            return gp_fail(err, GP_EINVAL, "--batch: %u: more than --max-batch-tokens, %u",
                           b->batches.items[i], s->engine.max_batch_tokens);
    return GP_OK;
}

/* ---- policies ---- */

/* "NAME=VALUE,..." */
static int set_switches(struct gp_kv_options *kv, const char *words, struct gp_error *err)
{
    for (size_t length; *words; words += length + (words[length] == ',')) {
        char name[128];

        length = strcspn(words, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, words);
        char *equals = strchr(name, '=');

        if (length >= sizeof name || !equals)
            return gp_fail(err, GP_EINVAL, "--kv-scorer: %.60s: must be NAME=VALUE", name);
        *equals = 0;
        if (gp_scorer_set(kv, name, equals + 1, err)) {
            gp_error_prefix(err, "--kv-scorer");
            return GP_EINVAL;
        }
    }
    return GP_OK;
}

/* All that was typed about one policy of several, of which some have scorers or none has. */
static int settle_policy(const struct gp_settings *s, bool some_score, struct gp_kv_options *kv,
                         struct gp_error *err)
{
    const struct gp_scorer_words *words = &s->scorer;
    bool scores = gp_policy_has_scorer(kv);
    struct gp_error why;

    if (words->trigger && (scores || !some_score) && gp_trigger_parse(words->trigger, kv, err)) {
        gp_error_prefix(err, "--kv-trigger");
        return GP_EINVAL;
    }
    for (uint32_t i = 0; scores && i < words->count; i++)
        if (set_switches(kv, words->items[i], err))
            return GP_EINVAL;
    /* The library names a field as we name its option. */
    if (gp_kv_options_check(kv, s->engine.page_tokens, &why))
        return gp_fail(err, GP_EINVAL, "--%s", why.message);
    return GP_OK;
}

static int settle_policies(struct gp_settings *s, struct gp_error *err)
{
    struct gp_policy_list *list = &s->policies;
    bool some_score = list->count == 0 && gp_policy_has_scorer(&s->engine.kv);
    uint32_t budget = 0;

    for (uint32_t i = 0; i < list->count; i++) {
        list->kv[i] = s->engine.kv;
        if (strstr(list->items[i], PRESET) &&
            gp_preset_budget((enum gp_preset_table)s->preset, s->suites, &budget, err)) {
            gp_error_prefix(err, "--kv: %s", list->items[i]);
            return GP_EINVAL;
        }
        if (gp_settings_policy(list->items[i], budget, &list->kv[i], err))
            return GP_EINVAL;
        some_score = some_score || gp_policy_has_scorer(&list->kv[i]);
    }
    if (s->scorer.count > 0 && !some_score)
        return gp_fail(err, GP_EINVAL,
                       "--kv-scorer: only zipage to streaming, and what selects by one (+zipage), "
                       "have a scorer");
    if (list->count == 0)
        return settle_policy(s, some_score, &s->engine.kv, err);
    for (uint32_t i = 0; i < list->count; i++)
        if (settle_policy(s, some_score, &list->kv[i], err))
            return GP_EINVAL;
    return GP_OK;
}

/* What only two options together can get wrong. */
static int check(const struct gp_settings *s, enum gp_command_bit command, struct gp_error *err)
{
    const char *file = s->prompt_file;

    if (s->model_path && !*s->model_path)
        return gp_fail(err, GP_EINVAL, "--model: an empty name");
    if (file && !*file)
        return gp_fail(err, GP_EINVAL, "--file: an empty name");
    if (s->chat_template_file && !*s->chat_template_file)
        return gp_fail(err, GP_EINVAL, "--chat-template-file: an empty name");
    if (s->prompt && file)
        return gp_fail(err, GP_EINVAL, "--prompt: there is also --file; give one of them");
    if (s->max_tokens == 0)
        return gp_fail(err, GP_EINVAL, "--max-tokens: 0: must be at least 1, or -1");
    if (s->engine.kv_bytes && s->engine.kv_pages)
        return gp_fail(err, GP_EINVAL, "--kv-memory: there is also --kv-pages; give one of them");
    if (s->chat_template && s->chat_template_file)
        return gp_fail(err, GP_EINVAL,
                       "--chat-template: there is also --chat-template-file; give one of them");
    if ((s->chat_template || s->chat_template_file || s->chat_variables) && !s->chat &&
        command == GP_COMMAND_RUN)
        return gp_fail(err, GP_EINVAL, "--chat-template: has no meaning without --chat");
    if (!s->tls_cert != !s->tls_key)
        return gp_fail(err, GP_EINVAL, "--tls-cert: there must be both, --tls-cert and --tls-key");
    if (s->trace_path && !*s->trace_path)
        return gp_fail(err, GP_EINVAL, "--kv-trace: an empty name");
    if (s->output && !*s->output)
        return gp_fail(err, GP_EINVAL, "--output: an empty name");
    if (s->output && s->print)
        return gp_fail(err, GP_EINVAL, "--output: has no meaning with --print");
    if (s->json && command == GP_COMMAND_EVAL && !s->print)
        return gp_fail(err, GP_EINVAL, "--json: has no meaning without --print");
    if (!s->run_code && (s->run.seconds || s->run.memory_bytes))
        return gp_fail(err, GP_EINVAL, "--run-%s: has no meaning without --run-code",
                       s->run.seconds ? "seconds" : "memory");
    if (s->run_code && s->print)
        return gp_fail(err, GP_EINVAL, "--run-code: has no meaning with --print");
    if (s->preset != GP_PRESET_NONE && (s->samples > 0 || s->max_tokens != NOT_GIVEN))
        return gp_fail(err, GP_EINVAL, "--preset: it says what --samples and --max-tokens say");
    if (command == GP_COMMAND_TRACE && s->rest.count == 0)
        return gp_fail(err, GP_EINVAL, "no file; give a trace, or - for standard input");
    if (command == GP_COMMAND_LOADTEST && s->rest.count == 0)
        return gp_fail(err, GP_EINVAL, "no URL; give a server's, such as http://127.0.0.1:8080");
    if (command == GP_COMMAND_REPORT && s->rest.count == 0 && !s->outline)
        return gp_fail(err, GP_EINVAL, "no file; give records of growpage eval -o");
    if (s->outline && (!*s->outline || s->rest.count > 0))
        return gp_fail(err, GP_EINVAL, "--outline: it names the records; give none beside it");
    if (s->rest.count > !!(command & (GP_COMMAND_TRACE | GP_COMMAND_LOADTEST)) &&
        !(command & (GP_COMMAND_DETOKENIZE | GP_COMMAND_REPORT | GP_COMMAND_ANALYZE)))
        return gp_fail(err, GP_EINVAL, "%.100s: unexpected argument",
                       s->rest.items[s->rest.count - 1]);
    return command == GP_COMMAND_BENCH ? check_bench(s, err) : GP_OK;
}

/* "-" stands for standard input; inspect takes its file without -m, too. */
static int take_arguments(struct gp_settings *s, enum gp_command_bit command, struct gp_error *err)
{
    struct gp_arguments *rest = &s->rest;

    if (command == GP_COMMAND_INSPECT && rest->count > 0 && !s->model_path) {
        s->model_path = rest->items[0];
    } else if ((command & TEXT_IN) && rest->count > 0 && strcmp(rest->items[0], "-") == 0) {
        if (s->prompt || s->prompt_file)
            return gp_fail(err, GP_EINVAL, "-: there is already a prompt");
        s->prompt_file = rest->items[0];
    } else {
        return GP_OK;
    }
    rest->items++;
    rest->count--;
    return GP_OK;
}

/* llama-cli's defaults: who types a prompt wants a good answer, not the model's own distribution,
 * which is what a request of the API starts from. */
static void init_sampling(struct gp_sampling *sampling)
{
    gp_sampling_init(sampling);
    sampling->temperature = 0.8f;
    sampling->top_k = 40;
    sampling->top_p = 0.95f;
    sampling->min_p = 0.05f;
}

/* What papers on reasoning models sample with, and enough requests to keep a machine busy. */
static void init_eval(struct gp_settings *s)
{
    s->max_tokens = NOT_GIVEN;
    s->seed = 1;
    s->suites = "all";
    s->difficulty = (struct gp_difficulty){.low = -1, .high = -1};
    gp_sampling_init(&s->sampling);
    s->sampling.temperature = 0.6f;
    s->sampling.top_p = 0.95f;
    s->engine.max_seqs = 0; /* see settle_eval() */
}

static void init_serve(struct gp_settings *s)
{
    s->engine.max_stall = 3;
    s->host = "127.0.0.1";
    s->port = 8080;
    s->shutdown_seconds = 30;
    s->body_bytes_max = 32u << 20;
    s->thought_max = -1;
    s->engine.max_seqs = 64;
}

/* How many run follows from how many are asked, and the other way round. */
static void settle_eval(struct gp_settings *s)
{
    if (s->engine.max_seqs == 0)
        s->engine.max_seqs = s->concurrency == 0              ? 64
                             : s->concurrency < GP_LIMIT_SEQS ? s->concurrency
                                                              : GP_LIMIT_SEQS;
    if (s->concurrency == 0)
        s->concurrency = s->engine.max_seqs;
    s->engine.max_waiting = s->concurrency;
    if (s->max_tokens == NOT_GIVEN)
        s->max_tokens = 4096;
    /* The benchmark's own time. */
    if (s->run.seconds == 0)
        s->run.seconds = 6;
    if (s->run.memory_bytes == 0)
        s->run.memory_bytes = 1u << 30;
    if (s->policies.count == 0)
        s->policies.items[s->policies.count++] = "growpage";
}

/* Greedy, for it is the model that is timed; with a temperature it is a reasoning model's. */
static void init_bench(struct gp_settings *s)
{
    s->seed = 1;
    gp_sampling_init(&s->sampling);
    s->sampling.temperature = 0;
    s->sampling.top_p = 0.95f;
    s->engine.max_seqs = 0; /* see settle_bench() */
}

static void settle_list(struct gp_uint_list *list, uint32_t value)
{
    if (list->count == 0)
        list->items[list->count++] = value;
}

static void settle_length(struct gp_length *length, uint32_t tokens)
{
    if (length->max == 0)
        *length = (struct gp_length){GP_LENGTH_FIXED, tokens, 0, GP_LIMIT_CONTEXT};
}

static void settle_bench(struct gp_settings *s)
{
    struct gp_bench_settings *b = &s->bench;
    struct gp_engine_options *e = &s->engine;

    settle_list(&b->prompts, 512);
    settle_list(&b->outputs, 128);
    settle_list(&b->depths, 0);
    settle_list(&b->batches, 1);
    settle_list(&b->threads, 0);
    settle_length(&b->prompt_length, 512);
    settle_length(&b->output_length, 128);
    if (b->repetitions == 0)
        b->repetitions = 5;
    if (b->kernel_ms == 0)
        b->kernel_ms = 20;
    if (b->requests == 0)
        b->requests = 64;
    if (e->max_seqs == 0) {
        e->max_seqs = b->requests < GP_LIMIT_SEQS ? b->requests : GP_LIMIT_SEQS;
        if (e->max_seqs > e->max_batch_tokens)
            e->max_seqs = e->max_batch_tokens;
    }
    /* No more could be admitted in a step; the others wait outside, where nobody looks at them. */
    e->max_waiting = e->max_seqs;
    e->threads = b->threads.items[0];
    if (s->policies.count == 0)
        s->policies.items[s->policies.count++] = "full";
}

static void init_loadtest(struct gp_settings *s)
{
    s->seed = 1;
    s->request_seconds = 600;
}

static void settle_loadtest(struct gp_settings *s)
{
    settle_length(&s->bench.prompt_length, 512);
    settle_length(&s->bench.output_length, 128);
    if (s->bench.requests == 0)
        s->bench.requests = 64;
    if (s->concurrency == 0 && s->bench.rate <= 0)
        s->concurrency = 8;
}

int gp_settings_parse(struct gp_settings *settings, enum gp_command_bit command, int argc,
                      char **argv, struct gp_error *err)
{
    struct gp_settings s = {.max_tokens = -1, .seed = -1, .window = 512};
    int rc;

    gp_engine_options_init(&s.engine);
    init_sampling(&s.sampling);
    s.engine.max_seqs = 1;
    if (command & EXAM)
        init_eval(&s);
    if (command == GP_COMMAND_SERVE)
        init_serve(&s);
    if (command == GP_COMMAND_BENCH)
        init_bench(&s);
    if (command == GP_COMMAND_LOADTEST)
        init_loadtest(&s);
    if (command == GP_COMMAND_SERVE &&
        gp_options_environment(gp_settings_table, gp_settings_table_count, command,
                               GP_ENVIRONMENT_PREFIX, environ, &s, err))
        return GP_EINVAL;
    rc = gp_options_parse(gp_settings_table, gp_settings_table_count, command, argc, argv, &s,
                          &s.rest, err);
    if (rc)
        return rc;
    if (!s.help && !s.version) {
        rc = take_arguments(&s, command, err);
        if (!rc)
            rc = check(&s, command, err);
        if (!rc && s.bench.kernels)
            rc = check_kernels(argc, argv, err);
        if (rc)
            return rc;
        if (command == GP_COMMAND_ANALYZE)
            rc = gp_settings_analyze(&s, err);
        if (rc)
            return rc;
        if (command & EXAM)
            settle_eval(&s);
        if (command == GP_COMMAND_BENCH)
            settle_bench(&s);
        if (command == GP_COMMAND_LOADTEST)
            settle_loadtest(&s);
        rc = settle_policies(&s, err);
        if (rc)
            return rc;
        if (!s.model_path)
            s.model_path = bundled_model();
        if (!s.model_path && !s.print && !s.bench.kernels &&
            !(command & (TRACE | LOADTEST | REPORT)))
            return gp_fail(err, GP_EINVAL,
                           "no model: give a GGUF file with -m; the bundled " BUNDLED
                           " is not where it belongs");
    }
    *settings = s;
    return GP_OK;
}

int gp_settings_model(const struct gp_settings *settings, bool vocab_only,
                      struct gp_model_options *out, char **template_text, struct gp_error *err)
{
    struct gp_model_options options = {
        .path = settings->model_path,
        .threads = settings->engine.threads,
        .vocab_only = vocab_only,
        .override_pre = settings->override_pre,
        .chat_template = settings->chat_template,
    };
    char *text = NULL;

    if (settings->chat_template_file) {
        int rc = gp_read_file(settings->chat_template_file, &text, NULL, err);
        if (rc)
            return rc;
        options.chat_template = text;
    }
    *template_text = text;
    *out = options;
    return GP_OK;
}
