#include "eval/sitting.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/rng.h"
#include "eval/judge.h"

/* Templates that print the date print this one, 2026-01-01, so that a run can be repeated. */
#define TODAY 1767225600

/* A seed is exact in every JSON reader. */
#define SEED_BITS 53

#define TOKENS_AT_LEAST 4096u

/* Answers whose programs wait to be run; with more, no further ones are asked for. */
#define RUNS_MAX 64u

/* Where nothing is left but programs that run, how long until go_on() is asked again. */
#define RUNS_WAIT_MS 50u

/* A sample from its question to its last token. */
struct item {
    struct gp_question question;
    uint64_t seed;
    int32_t *ids; /* of the prompt, until it is submitted */
    uint32_t count;
    uint64_t id; /* the engine's */
};

/* A sample whose program runs, with all that it is made of. */
struct held {
    struct gp_trial run; /* first: what the runners give back is this */
    struct item item;
    struct gp_sample sample;
    struct gp_request_stats stats;
    struct gp_token *tokens;
    char *text, *answer;
};

struct desk {
    const struct gp_sitting *sitting;
    struct gp_engine *engine;
    const struct gp_model *model;
    struct gp_decoder *decoder;
    struct gp_sitting_state state;
    uint64_t next;      /* answer that comes next, of this policy */
    struct item *items; /* [concurrency] the first live of them run */
    uint32_t live;
    struct item waiting; /* ready, but the engine had no room */
    bool has_waiting;
    struct gp_token *tokens;
    uint32_t token_room;
    char *text;
    size_t text_room;
    uint32_t held; /* with the runners */
};

/* ---- asking ---- */

/* FNV-1a */
static uint32_t hash_name(const char *name)
{
    uint32_t hash = 2166136261u;

    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash;
}

static uint64_t seed_of(const struct gp_exam *exam, const struct item *item)
{
    uint32_t counter[4] = {(uint32_t)item->question.index, (uint32_t)(item->question.index >> 32),
                           hash_name(item->question.part->name), item->question.number};
    uint32_t drawn[4];

    gp_philox(exam->seed, counter, drawn);
    return ((uint64_t)drawn[1] << 32 | drawn[0]) >> (64 - SEED_BITS);
}

static int encode(const struct desk *desk, struct item *item, struct gp_error *err)
{
    struct gp_chat chat = {
        .variables = desk->sitting->chat_variables,
        .add_generation_prompt = true,
        .now = TODAY,
    };
    json_t *messages =
        json_pack("[{s:s, s:s}]", "role", "user", "content", item->question.problem.prompt);
    char *json = messages ? json_dumps(messages, JSON_COMPACT) : NULL;

    json_decref(messages);
    if (!json)
        return gp_fail(err, GP_ENOMEM, "prompt: out of memory");
    chat.messages = json;
    int rc = gp_model_apply_template(desk->model, &chat, &item->ids, &item->count, NULL, NULL, err);
    free(json);
    return rc;
}

static void free_item(struct item *item)
{
    gp_question_free(&item->question);
    gp_free(item->ids);
    *item = (struct item){0};
}

static int fail_item(const struct item *item, int rc, struct gp_error *err)
{
    gp_error_prefix(err, "suite %s, problem %llu", item->question.part->name,
                    (unsigned long long)item->question.index);
    return rc;
}

static int prepare(const struct desk *desk, uint64_t sample, struct item *out, struct gp_error *err)
{
    const struct gp_exam *exam = desk->sitting->exam;
    struct item item = {0};
    int rc = gp_exam_question(exam, sample, &item.question, err);

    if (rc)
        return rc;
    item.seed = seed_of(exam, &item);
    rc = encode(desk, &item, err);
    if (rc) {
        fail_item(&item, rc, err);
        free_item(&item);
        return rc;
    }
    *out = item;
    return GP_OK;
}

static int submit(const struct desk *desk, uint32_t policy, struct item *item, struct gp_error *err)
{
    const struct gp_sitting *s = desk->sitting;
    struct gp_kv_options kv = s->policies[policy];
    struct gp_request request;

    gp_request_init(&request);
    request.tokens = item->ids;
    request.token_count = item->count;
    request.max_tokens = item->question.part->max_tokens;
    request.ignore_eos = s->ignore_eos;
    request.sampling = s->sampling;
    request.sampling.seed = kv.seed = item->seed;
    request.sampling.has_seed = true;
    request.kv = &kv;
    int rc = s->asking ? s->asking(s->ctx, &item->question, &request, err) : GP_OK;
    if (!rc)
        rc = gp_engine_submit(desk->engine, &request, &item->id, err);
    return rc && rc != GP_EAGAIN ? fail_item(item, rc, err) : rc;
}

/* Past the answers that are there already. */
static void skip_old(struct desk *desk)
{
    const struct gp_sitting *s = desk->sitting;

    for (; s->has && desk->next < desk->state.total; desk->next++) {
        struct gp_exam_place place = gp_exam_place(s->exam, desk->next);
        bool correct = false;
        if (!s->has(s->ctx, desk->state.policy, &place, &correct))
            return;
        desk->state.done++;
        desk->state.correct += correct;
    }
}

/* As many as the engine and the options allow. */
static int fill(struct desk *desk, struct gp_error *err)
{
    while (desk->live < desk->sitting->concurrency && desk->held < RUNS_MAX) {
        if (!desk->has_waiting) {
            skip_old(desk);
            if (desk->next == desk->state.total)
                return GP_OK;
            int rc = prepare(desk, desk->next, &desk->waiting, err);
            if (rc)
                return rc;
            desk->next++;
            desk->has_waiting = true;
        }
        int rc = submit(desk, desk->state.policy, &desk->waiting, err);
        if (rc == GP_EAGAIN && desk->live > 0)
            return GP_OK;
        if (rc)
            return rc;
        gp_free(desk->waiting.ids);
        desk->waiting.ids = NULL;
        desk->items[desk->live++] = desk->waiting;
        desk->has_waiting = false;
    }
    return GP_OK;
}

/* ---- taking the answers ---- */

static int reserve_tokens(struct desk *desk, uint32_t count, struct gp_error *err)
{
    if (count <= desk->token_room)
        return GP_OK;
    uint32_t larger = count > TOKENS_AT_LEAST ? count : TOKENS_AT_LEAST;
    gp_mem_free(desk->tokens);
    desk->token_room = 0;
    desk->tokens = gp_mem_alloc_array(larger, sizeof *desk->tokens);
    if (!desk->tokens)
        return gp_fail(err, GP_ENOMEM, "answer: out of memory");
    desk->token_room = larger;
    return GP_OK;
}

static int append_text(struct desk *desk, size_t *at, const char *text, size_t length,
                       struct gp_error *err)
{
    if (*at + length + 1 > desk->text_room) {
        size_t larger = (*at + length + 1) * 2 + 4096;
        char *grown = gp_mem_realloc(desk->text, desk->text_room, larger);
        if (!grown)
            return gp_fail(err, GP_ENOMEM, "answer: out of memory");
        desk->text = grown;
        desk->text_room = larger;
    }
    memcpy(desk->text + *at, text, length);
    *at += length;
    desk->text[*at] = 0;
    return GP_OK;
}

/* The text of all tokens of a finished request, into desk->text. */
static int read_text(struct desk *desk, const struct item *item, uint32_t count, size_t *length,
                     struct gp_error *err)
{
    size_t piece_length;
    int rc = reserve_tokens(desk, count, err);

    if (rc)
        return rc;
    count = gp_engine_read(desk->engine, item->id, 0, 0, desk->tokens, count, NULL);
    *length = 0;
    gp_decoder_reset(desk->decoder);
    for (uint32_t i = 0; !rc && i < count; i++) {
        const char *piece = gp_decoder_next(desk->decoder, desk->tokens[i].id, &piece_length);
        rc = append_text(desk, length, piece, piece_length, err);
    }
    if (rc)
        return rc;
    const char *rest = gp_decoder_end(desk->decoder, &piece_length);
    return append_text(desk, length, rest, piece_length, err);
}

static int hand_over(struct desk *desk, const struct gp_sample *sample, struct gp_error *err)
{
    desk->state.done++;
    desk->state.asked++;
    desk->state.correct += sample->correct;
    return desk->sitting->finished(desk->sitting->ctx, sample, err);
}

static void free_held(struct held *held)
{
    free_item(&held->item);
    gp_mem_free(held->tokens);
    gp_mem_free(held->text);
    gp_mem_free(held->answer);
    gp_mem_free(held);
}

/* Takes the item, the answer and what the desk has of the sample, which is handed over when its
 * program has run. */
static int hold(struct desk *desk, struct item *item, const struct gp_sample *sample, char *answer,
                struct gp_error *err)
{
    struct held *held = gp_mem_alloc(sizeof *held);

    if (!held)
        return gp_fail(err, GP_ENOMEM, "answer: out of memory");
    *held = (struct held){
        .item = *item,
        .sample = *sample,
        .stats = *sample->stats,
        .tokens = desk->tokens,
        .text = desk->text,
        .answer = answer,
        .run =
            {
                .dataset = item->question.part->dataset,
                .index = item->question.index,
                .program = answer,
                .program_length = strlen(answer),
            },
    };
    held->sample.question = &held->item.question;
    held->sample.stats = &held->stats;
    *item = (struct item){.id = item->id};
    desk->tokens = NULL;
    desk->text = NULL;
    desk->token_room = 0;
    desk->text_room = 0;
    desk->held++;
    gp_runners_add(desk->sitting->runners, &held->run);
    return GP_OK;
}

/* Those whose programs have run. */
static int take_held(struct desk *desk, uint32_t wait_ms, struct gp_error *err)
{
    struct gp_trial *run;
    int rc = GP_OK;

    while (!rc && desk->held > 0 && (run = gp_runners_take(desk->sitting->runners, wait_ms))) {
        struct held *held = (struct held *)run;

        desk->held--;
        held->sample.trial = run;
        held->sample.correct = run->correct;
        if (run->rc) {
            *err = run->err;
            rc = fail_item(&held->item, run->rc, err);
        } else {
            rc = hand_over(desk, &held->sample, err);
        }
        free_held(held);
        wait_ms = 0;
    }
    return rc;
}

/* What is still with the runners is dropped. */
static void drop_held(struct desk *desk)
{
    if (desk->held > 0)
        gp_runners_stop(desk->sitting->runners);
    while (desk->held > 0) {
        struct gp_trial *run = gp_runners_take(desk->sitting->runners, RUNS_WAIT_MS);

        if (!run)
            continue;
        free_held((struct held *)run);
        desk->held--;
    }
}

/* Judge the answer and hand it over, or to the runners: then the item is empty. */
static int finish(struct desk *desk, struct item *item, enum gp_finish how, struct gp_error *err)
{
    struct gp_request_stats stats = {0};
    struct gp_verdict verdict;
    size_t length;

    gp_engine_request_stats(desk->engine, item->id, 0, &stats);
    int rc = read_text(desk, item, stats.output_tokens, &length, err);
    if (!rc)
        rc = gp_judge(&item->question, desk->text, length, &verdict, err);
    if (rc)
        return rc;
    struct gp_sample sample = {
        .question = &item->question,
        .policy = desk->state.policy,
        .request = item->id,
        .stats = &stats,
        /* An answer of one token saw no decoding step; what it held is what the prompt took. */
        .pages_mean = stats.pages_mean > 0 ? stats.pages_mean : stats.pages_peak,
        .finish = how,
        .tokens = desk->tokens,
        .text = desk->text,
        .text_length = length,
        .answer = verdict.answer,
        .correct = verdict.correct,
    };
    if (verdict.program && desk->sitting->runners) {
        rc = hold(desk, item, &sample, verdict.answer, err);
        if (!rc)
            return GP_OK;
    } else {
        rc = hand_over(desk, &sample, err);
    }
    gp_mem_free(verdict.answer);
    return rc;
}

/* Those that have ended make room; *ended is how many. */
static int collect(struct desk *desk, uint32_t *ended, struct gp_error *err)
{
    int rc = GP_OK;

    *ended = 0;
    for (uint32_t i = 0; !rc && i < desk->live;) {
        struct item *item = &desk->items[i];
        enum gp_finish how;

        gp_engine_read(desk->engine, item->id, 0, 0, NULL, 0, &how);
        if (how == GP_FINISH_NONE) {
            i++;
            continue;
        }
        rc = finish(desk, item, how, err);
        gp_engine_release(desk->engine, item->id);
        free_item(item);
        *item = desk->items[--desk->live];
        ++*ended;
    }
    return rc;
}

/* ---- the sitting ---- */

static void look(struct desk *desk)
{
    struct gp_engine_stats stats;

    gp_engine_stats(desk->engine, &stats);
    desk->state.run = stats.run;
    desk->state.pages_max = stats.pages_used_max;
}

static void begin_policy(struct desk *desk, uint32_t policy)
{
    gp_engine_begin_run(desk->engine);
    desk->next = 0;
    desk->state = (struct gp_sitting_state){
        .policy = policy,
        .total = gp_exam_count(desk->sitting->exam),
    };
}

/* One step of the engine, and what ended in it. */
static int step(struct desk *desk, struct gp_error *err)
{
    uint32_t ended;
    uint32_t rows = gp_engine_step(desk->engine);

    look(desk);
    int rc = collect(desk, &ended, err);
    if (!rc)
        gp_assert(rows > 0 || ended > 0);
    return rc;
}

static int sit_policy(struct desk *desk, uint32_t policy, bool *complete, struct gp_error *err)
{
    const struct gp_sitting *s = desk->sitting;

    begin_policy(desk, policy);
    while (*complete) {
        int rc = fill(desk, err);
        if (rc)
            return rc;
        if (desk->live == 0 && desk->held == 0)
            break;
        bool asks = desk->live > 0;
        if (asks)
            rc = step(desk, err);
        if (!rc)
            rc = take_held(desk, asks ? 0 : RUNS_WAIT_MS, err);
        if (rc)
            return rc;
        *complete = s->go_on(s->ctx, &desk->state);
    }
    bool served = desk->state.run.output_tokens > 0;
    return s->served && served ? s->served(s->ctx, &desk->state, err) : GP_OK;
}

/* A policy that the engine will refuse is told before hours were spent on those before it. */
static int try_policies(struct desk *desk, struct gp_error *err)
{
    struct item item;
    int rc = prepare(desk, 0, &item, err);

    if (rc)
        return rc;
    for (uint32_t i = 0; !rc && i < desk->sitting->policy_count; i++) {
        rc = submit(desk, i, &item, err);
        if (rc)
            break;
        gp_engine_release(desk->engine, item.id);
        gp_engine_step(desk->engine);
    }
    free_item(&item);
    return rc;
}

int gp_sitting_run(const struct gp_sitting *sitting, struct gp_engine *engine,
                   const struct gp_model *model, bool *complete, struct gp_error *err)
{
    struct desk desk = {.sitting = sitting, .engine = engine, .model = model};
    bool whole = true;
    int rc = gp_decoder_open(&desk.decoder, model, false, err);

    if (rc)
        return rc;
    desk.items = gp_mem_alloc_array(sitting->concurrency, sizeof *desk.items);
    if (!desk.items)
        rc = gp_fail(err, GP_ENOMEM, "eval: out of memory");
    if (!rc)
        rc = try_policies(&desk, err);
    for (uint32_t i = 0; !rc && whole && i < sitting->policy_count; i++)
        rc = sit_policy(&desk, i, &whole, err);
    drop_held(&desk);
    while (desk.live > 0) {
        struct item *item = &desk.items[--desk.live];
        gp_engine_release(engine, item->id);
        free_item(item);
    }
    if (desk.has_waiting)
        free_item(&desk.waiting);
    gp_mem_free(desk.items);
    gp_mem_free(desk.tokens);
    gp_mem_free(desk.text);
    gp_decoder_close(desk.decoder);
    if (!rc)
        *complete = whole;
    return rc;
}
