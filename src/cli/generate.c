#include "cli/generate.h"

#include <string.h>

#include "base/mem.h"
#include "cli/io.h"

/* ---- history ---- */

void gp_history_add(struct gp_history *h, uint32_t value)
{
    if (h->stride == 0)
        h->stride = 1;
    if (h->count > 0 && h->in_last < h->stride) {
        if (value > h->values[h->count - 1])
            h->values[h->count - 1] = value;
        h->in_last++;
        return;
    }
    if (h->count == GP_HISTORY_COUNT) {
        for (uint32_t i = 0; i < GP_HISTORY_COUNT / 2; i++) {
            uint32_t a = h->values[2 * i], b = h->values[2 * i + 1];
            h->values[i] = a > b ? a : b;
        }
        h->count = GP_HISTORY_COUNT / 2;
        h->stride *= 2;
    }
    h->values[h->count++] = value;
    h->in_last = 1;
}

void gp_history_draw(const struct gp_history *h, bool unicode, char out[GP_GRAPH_BYTES])
{
    static const char ascii[] = ".:-=+*%#";
    uint32_t max = 1;
    char *at = out;

    for (uint32_t i = 0; i < h->count; i++)
        if (h->values[i] > max)
            max = h->values[i];
    for (uint32_t i = 0; i < h->count; i++) {
        uint32_t eighths = (uint32_t)(((uint64_t)h->values[i] * 8 + max - 1) / max);
        uint32_t level = eighths > 0 ? eighths - 1 : 0;
        if (unicode) {
            /* U+2581 to U+2588, lower one eighth block to full block */
            *at++ = (char)0xe2;
            *at++ = (char)0x96;
            *at++ = (char)(0x81 + level);
        } else {
            *at++ = ascii[level];
        }
    }
    *at = 0;
}

/* ---- generation ---- */

#define READ_AT_ONCE 64u

struct run {
    struct gp_engine *engine;
    struct gp_decoder *decoder;
    struct gp_answer *answer;
    uint64_t id;
    uint32_t token_room;
    size_t text_room;
    bool print;
};

static int append_text(struct run *run, const char *text, size_t length, struct gp_error *err)
{
    struct gp_answer *answer = run->answer;

    if (answer->text_length + length + 1 > run->text_room) {
        size_t larger = (answer->text_length + length + 1) * 2 + 4096;
        char *grown = gp_mem_realloc(answer->text, run->text_room, larger);
        if (!grown)
            return gp_fail(err, GP_ENOMEM, "answer: out of memory");
        answer->text = grown;
        run->text_room = larger;
    }
    memcpy(answer->text + answer->text_length, text, length);
    answer->text_length += length;
    answer->text[answer->text_length] = 0;
    return run->print && length > 0 ? gp_print(text, length, err) : GP_OK;
}

static int append_token(struct run *run, int32_t id, struct gp_error *err)
{
    struct gp_answer *answer = run->answer;
    size_t length;

    if (answer->token_count == run->token_room) {
        uint32_t larger = run->token_room * 2 + 1024;
        int32_t *grown =
            gp_mem_realloc(answer->tokens, run->token_room * sizeof *grown, larger * sizeof *grown);
        if (!grown)
            return gp_fail(err, GP_ENOMEM, "answer: out of memory");
        answer->tokens = grown;
        run->token_room = larger;
    }
    answer->tokens[answer->token_count++] = id;
    const char *text = gp_decoder_next(run->decoder, id, &length);
    return append_text(run, text, length, err);
}

/* All tokens that exist by now. */
static int take_news(struct run *run, struct gp_error *err)
{
    struct gp_answer *answer = run->answer;
    struct gp_token tokens[READ_AT_ONCE];
    struct gp_request_stats stats;
    uint32_t count;

    do {
        count = gp_engine_read(run->engine, run->id, 0, answer->token_count, tokens, READ_AT_ONCE,
                               &answer->finish);
        for (uint32_t i = 0; i < count; i++) {
            int rc = append_token(run, tokens[i].id, err);
            if (rc)
                return rc;
        }
    } while (count == READ_AT_ONCE);
    if (answer->finish == GP_FINISH_NONE &&
        gp_engine_request_stats(run->engine, run->id, 0, &stats) && stats.pages > 0)
        gp_history_add(&answer->pages, stats.pages);
    return GP_OK;
}

static int step_to_end(struct run *run, struct gp_error *err)
{
    bool cancelled = false;
    size_t length;

    while (run->answer->finish == GP_FINISH_NONE) {
        if (gp_interrupted() && !cancelled) {
            gp_engine_cancel(run->engine, run->id);
            cancelled = true;
        }
        gp_engine_step(run->engine);
        int rc = take_news(run, err);
        if (rc)
            return rc;
    }
    const char *rest = gp_decoder_end(run->decoder, &length);
    return append_text(run, rest, length, err);
}

static int take_events(struct run *run, struct gp_error *err)
{
    struct gp_answer *answer = run->answer;

    gp_engine_request_stats(run->engine, run->id, 0, &answer->stats);
    answer->events = gp_mem_alloc_array(answer->stats.boundary_count, sizeof *answer->events);
    if (!answer->events)
        return gp_fail(err, GP_ENOMEM, "answer: out of memory");
    for (uint32_t i = 0; i < answer->stats.boundary_count; i++)
        gp_engine_boundary(run->engine, run->id, 0, i, &answer->events[i]);
    return GP_OK;
}

int gp_generate(struct gp_engine *engine, const struct gp_model *model,
                const struct gp_settings *settings, const int32_t *prompt, uint32_t prompt_count,
                const struct gp_generate_hooks *hooks, struct gp_answer *out, struct gp_error *err)
{
    struct gp_answer answer = {.finish = GP_FINISH_NONE};
    struct run run = {.engine = engine, .answer = &answer, .print = hooks->print};
    struct gp_request request;
    int rc;

    gp_request_init(&request);
    request.tokens = prompt;
    request.token_count = prompt_count;
    request.max_tokens = settings->max_tokens < 0 ? 0 : (uint32_t)settings->max_tokens;
    request.ignore_eos = settings->ignore_eos;
    request.sampling = settings->sampling;

    rc = gp_decoder_open(&run.decoder, model, settings->special, err);
    if (rc)
        return rc;
    rc = gp_engine_submit(engine, &request, &run.id, err);
    if (rc)
        goto close_decoder;
    if (hooks->accepted)
        hooks->accepted(hooks->ctx);
    rc = step_to_end(&run, err);
    if (!rc)
        rc = take_events(&run, err);
    gp_engine_release(engine, run.id);
    if (rc)
        gp_answer_free(&answer);
    else
        *out = answer;
close_decoder:
    gp_decoder_close(run.decoder);
    return rc;
}

void gp_answer_free(struct gp_answer *answer)
{
    gp_mem_free(answer->tokens);
    gp_mem_free(answer->text);
    gp_mem_free(answer->events);
    *answer = (struct gp_answer){0};
}
