/* growpage run: one prompt, one answer, one report; or a conversation. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cli/commands.h"
#include "cli/io.h"
#include "cli/report.h"

/* A drawn seed is exact in every JSON reader. */
#define SEED_BITS 53

struct start {
    const struct gp_model *model;
    const struct gp_engine *engine;
    const struct gp_settings *settings;
};

static void report_start(void *ctx)
{
    const struct start *start = ctx;

    gp_report_start(start->model, start->engine, start->settings);
}

/* A text that no tokenizing could bring into the context is refused before that is tried: 100 MB
 * take half a minute.  Normalising makes no text shorter than a quarter. */
static int check_length(const struct gp_model *model, const struct gp_settings *s, size_t length,
                        struct gp_error *err)
{
    struct gp_model_info info;

    gp_model_info(model, &info);
    uint32_t context = s->engine.context ? s->engine.context : info.context_max;

    if (length / 4 / info.token_bytes_max > context)
        return gp_fail(err, GP_EINVAL,
                       "prompt: %zu bytes, which %u tokens, the context, cannot hold", length,
                       context);
    return GP_OK;
}

/* The ids that the model sees: the text as it is, or one user message through the template. */
static int encode(const struct gp_model *model, const struct gp_settings *s, const char *text,
                  size_t length, int32_t **ids, uint32_t *count, struct gp_error *err)
{
    struct gp_chat chat = {
        .variables = s->chat_variables,
        .add_generation_prompt = true,
        .now = (int64_t)time(NULL),
    };
    int rc = check_length(model, s, length, err);

    if (rc)
        return rc;
    if (!s->chat)
        return gp_encode_text(model, text, length, true, s->special, ids, count, err);
    size_t valid = gp_utf8_valid(text, length);
    if (valid < length)
        return gp_fail(err, GP_EINVAL, "prompt: byte %zu is not UTF-8, which --chat needs", valid);
    json_t *messages = json_pack("[{s:s, s:s%}]", "role", "user", "content", text, length);
    char *json = messages ? json_dumps(messages, JSON_COMPACT) : NULL;
    json_decref(messages);
    if (!json)
        return gp_fail(err, GP_ENOMEM, "prompt: out of memory");
    chat.messages = json;
    rc = gp_model_apply_template(model, &chat, ids, count, NULL, NULL, err);
    free(json);
    return rc;
}

/* Why an answer that ended badly did; GP_OK when it did not. */
static int check_finish(const struct gp_answer *answer, struct gp_error *err)
{
    if (answer->finish == GP_FINISH_CAPACITY)
        return gp_fail(err, GP_EINVAL,
                       "answer: cut after %u tokens: the KV pool cannot hold this request even "
                       "alone; give more --kv-memory or a smaller budget",
                       answer->token_count);
    if (answer->finish == GP_FINISH_ERROR)
        return gp_fail(err, GP_EINVAL,
                       "answer: cut after %u tokens: the model gave no number for any token",
                       answer->token_count);
    return GP_OK;
}

static int answer_prompt(struct gp_engine *engine, const struct gp_model *model,
                         const struct gp_settings *s, const int32_t *ids, uint32_t count,
                         struct gp_error *err)
{
    struct start start = {.model = model, .engine = engine, .settings = s};
    struct gp_generate_hooks hooks = {.accepted = report_start, .ctx = &start, .print = !s->json};
    struct gp_engine_info info;
    struct gp_answer answer;

    gp_engine_info(engine, &info);
    gp_interrupt_arm();
    int rc = gp_generate(engine, model, s, ids, count, &hooks, &answer, err);
    gp_interrupt_disarm();
    if (rc)
        return rc;
    rc = s->json ? gp_report_json(&info, s, &answer, err) : gp_print("\n", 1, err);
    if (!rc) {
        fprintf(stderr, "\n");
        gp_report_answer(&info, &answer);
        rc = check_finish(&answer, err);
    }
    gp_answer_free(&answer);
    return rc;
}

/* The engine's refusal of its options is a usage error; all else is a failure. */
static int run_engine(const struct gp_model *model, const struct gp_settings *s, const int32_t *ids,
                      uint32_t count, bool converse)
{
    struct gp_engine *engine;
    struct gp_error err;
    int status = GP_EXIT_OK;

    int rc = gp_engine_open(&engine, model, &s->engine, &err);
    if (rc)
        return gp_tell(rc == GP_EINVAL ? GP_EXIT_USAGE : GP_EXIT_FAILED, &err);
    if (converse) {
        struct start start = {.model = model, .engine = engine, .settings = s};
        report_start(&start);
        status = gp_converse(engine, model, s);
    } else if (answer_prompt(engine, model, s, ids, count, &err)) {
        status = gp_tell(GP_EXIT_FAILED, &err);
    }
    gp_engine_close(engine);
    return status;
}

static void settle_seeds(struct gp_settings *s)
{
    if (s->seed < 0)
        s->seed = (int64_t)(gp_rng_entropy() >> (64 - SEED_BITS));
    s->sampling.seed = (uint64_t)s->seed;
    s->sampling.has_seed = true;
    s->engine.kv.seed = (uint64_t)s->seed;
}

int gp_cmd_run(struct gp_settings *s)
{
    bool prompted = s->prompt || s->prompt_file;
    bool converse = s->chat && !prompted && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    struct gp_model *model;
    struct gp_error err;
    int32_t *ids = NULL;
    uint32_t count = 0;
    char *text = NULL;
    size_t length = 0;
    int status;

    if (!prompted && !converse) {
        gp_error_set(&err, "run: no prompt: give -p TEXT, -f FILE, or - for standard input");
        return gp_tell(GP_EXIT_USAGE, &err);
    }
    if (converse && s->json) {
        gp_error_set(&err, "--json: a conversation has no such form; give -p, -f or -");
        return gp_tell(GP_EXIT_USAGE, &err);
    }
    settle_seeds(s);
    if (prompted && gp_read_prompt(s, &text, &length, &err))
        return gp_tell(GP_EXIT_FAILED, &err);
    /* An editor's or echo's last line break is not part of what was asked. */
    if (s->prompt_file && length > 0 && text[length - 1] == '\n')
        length--;
    if (gp_open_model(&model, s, false, &err)) {
        gp_mem_free(text);
        return gp_tell(GP_EXIT_FAILED, &err);
    }
    if (prompted && encode(model, s, text, length, &ids, &count, &err))
        status = gp_tell(GP_EXIT_FAILED, &err);
    else
        status = run_engine(model, s, ids, count, converse);
    gp_free(ids);
    gp_model_close(model);
    gp_mem_free(text);
    return status;
}
