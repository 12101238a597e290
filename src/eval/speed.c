/* What can be seen of an engine is its steps, so the clock starts and stops between two of them:
 *
 *   - A prompt behind a context is one prompt to the engine, which cuts it into chunks.  For the
 *     context to end with a step, another request takes what is too much of the first one.
 *   - Sequences that decode together are prefilled one after another, and those that are ready
 *     decode in the meantime.  They begin with as many tokens less. */
#include "eval/speed.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "eval/workload.h"

struct bench {
    const struct gp_speed *speed;
    const struct gp_speed_test *test;
    struct gp_engine_info info;
    uint64_t sequence; /* of the next request: each has tokens of its own */
    uint64_t *ids;     /* [sequences + 1] what the engine was given       */
    uint32_t id_count;
    int32_t *tokens; /* [info.context] */
    bool stopped;
};

void gp_speed_name(const struct gp_speed_test *test, char out[GP_SPEED_NAME_BYTES])
{
    int at = snprintf(out, GP_SPEED_NAME_BYTES, "%s%u", test->output_tokens ? "tg" : "pp",
                      test->output_tokens ? test->output_tokens : test->prompt_tokens);

    if (test->depth > 0)
        snprintf(out + at, GP_SPEED_NAME_BYTES - (size_t)at, " @ d%u", test->depth);
}

/* Of a generation: the prompt, which is never empty. */
static uint32_t depth_of(const struct gp_speed_test *test)
{
    return test->depth > 0 || test->output_tokens == 0 ? test->depth : 1;
}

uint64_t gp_speed_tokens(const struct gp_speed_test *test)
{
    return (uint64_t)depth_of(test) + test->prompt_tokens + test->output_tokens;
}

/* What another request takes of the first step, for the context to end with a step. */
static uint32_t filler_of(const struct gp_speed_test *test, uint32_t chunk)
{
    return (chunk - test->depth % chunk) % chunk;
}

/* Steps that `sequence` decodes while those behind it are prefilled. */
static double lead_of(const struct gp_speed_test *test, uint32_t chunk, uint32_t sequence)
{
    double lead = 0, depth = depth_of(test);

    /* Backwards: the last one has its prompt whole, in the rows that all others leave of a step. */
    for (uint32_t i = test->sequences - 1; i > sequence; i--)
        lead += (lead < depth ? depth - lead : 1) / (chunk - i);
    return lead;
}

void gp_speed_fit(const struct gp_speed_test *test, struct gp_engine_options *options)
{
    uint32_t chunk = options->max_batch_tokens;
    /* The last row draws a token, too. */
    uint64_t tokens = gp_speed_tokens(test) + 1;

    gp_assert(test->sequences <= chunk);
    options->max_seqs = test->sequences;
    if (test->prompt_tokens && test->depth > 0) {
        options->max_seqs = filler_of(test, chunk) ? 2 : 1;
        if (tokens <= filler_of(test, chunk))
            tokens = filler_of(test, chunk) + 1;
    }
    options->max_waiting = options->max_seqs;
    if (test->output_tokens && test->sequences > 1)
        /* It is an estimate, and one that would need a prompt of no tokens starts deeper. */
        tokens += (uint64_t)(1.25 * lead_of(test, chunk, 0)) + 16;
    gp_assert(tokens <= UINT32_MAX);
    options->context = (uint32_t)tokens;
    /* A text that was asked for before would cost nothing. */
    options->no_prefix_cache = true;
}

/* ---- requests and steps ---- */

static int submit(struct bench *b, uint32_t prompt_tokens, uint32_t max_tokens,
                  struct gp_error *err)
{
    struct gp_request request;

    gp_assert(prompt_tokens > 0 && prompt_tokens <= b->info.context);
    gp_workload_tokens(b->speed->seed, b->sequence++, b->speed->vocab, b->tokens, prompt_tokens);
    gp_request_init(&request);
    request.tokens = b->tokens;
    request.token_count = prompt_tokens;
    request.max_tokens = max_tokens;
    request.ignore_eos = true;
    request.sampling = b->speed->sampling;
    request.sampling.seed = b->speed->seed;
    request.sampling.has_seed = true;
    int rc = gp_engine_submit(b->speed->engine, &request, &b->ids[b->id_count], err);
    if (!rc)
        b->id_count++;
    return rc;
}

static int fail_cache(const struct bench *b, struct gp_error *err)
{
    return gp_fail(err, GP_EINVAL, "a cache of %u pages of %u tokens is too small for it",
                   b->info.page_count, b->info.page_tokens);
}

static uint32_t step(struct bench *b)
{
    b->stopped = b->stopped || !b->speed->go_on(b->speed->ctx);
    return b->stopped ? 0 : gp_engine_step(b->speed->engine);
}

/* Steps that run exactly so many rows together. */
static int step_rows(struct bench *b, uint64_t rows, struct gp_error *err)
{
    for (uint64_t done = 0; done < rows;) {
        uint32_t ran = step(b);

        if (b->stopped)
            return GP_OK;
        done += ran;
        if (ran == 0 || done > rows)
            return fail_cache(b, err);
    }
    return GP_OK;
}

/* What is not finished is dropped. */
static void release_all(struct bench *b)
{
    while (b->id_count > 0)
        gp_engine_release(b->speed->engine, b->ids[--b->id_count]);
    gp_engine_step(b->speed->engine);
}

static struct gp_engine_stats stats_of(const struct bench *b)
{
    struct gp_engine_stats stats;

    gp_engine_stats(b->speed->engine, &stats);
    return stats;
}

/* ---- tests ---- */

/* `count` prompts at once, or one behind a context. */
static int time_prompts(struct bench *b, uint32_t count, struct gp_speed_time *out,
                        struct gp_error *err)
{
    const struct gp_speed_test *test = b->test;
    uint32_t filler = filler_of(test, b->info.max_batch_tokens);
    uint64_t rows = (uint64_t)count * test->prompt_tokens;
    int rc = GP_OK;

    gp_assert(count == 1 || test->depth == 0);
    if (filler > 0)
        rc = submit(b, filler, 1, err);
    for (uint32_t i = 0; !rc && i < count; i++)
        rc = submit(b, test->depth + test->prompt_tokens, 1, err);
    if (!rc)
        rc = step_rows(b, (uint64_t)filler + test->depth, err);
    uint64_t start = gp_clock_ns();
    if (!rc)
        rc = step_rows(b, rows, err);
    out->ns += gp_clock_ns() - start;
    out->tokens += rows;
    release_all(b);
    return rc;
}

/* Prompts behind a context come one after another, for the engine finishes one before the next. */
static int time_prompt_test(struct bench *b, struct gp_speed_time *out, struct gp_error *err)
{
    int rc = GP_OK;

    if (b->test->depth == 0)
        return time_prompts(b, b->test->sequences, out, err);
    for (uint32_t i = 0; !rc && !b->stopped && i < b->test->sequences; i++)
        rc = time_prompts(b, 1, out, err);
    return rc;
}

static int submit_sequences(struct bench *b, struct gp_error *err)
{
    uint32_t chunk = b->info.max_batch_tokens, depth = depth_of(b->test);
    int rc = GP_OK;

    for (uint32_t i = 0; !rc && i < b->test->sequences; i++) {
        uint32_t lead = (uint32_t)lead_of(b->test, chunk, i);
        rc = submit(b, lead < depth ? depth - lead : 1, 0, err);
    }
    return rc;
}

/* Whether some sequence has ended with no more than so many tokens. */
static bool some_ended(const struct bench *b, uint32_t tokens)
{
    for (uint32_t i = 0; i < b->id_count; i++) {
        struct gp_request_stats stats = {0};
        enum gp_finish finish;

        gp_engine_read(b->speed->engine, b->ids[i], 0, 0, NULL, 0, &finish);
        gp_engine_request_stats(b->speed->engine, b->ids[i], 0, &stats);
        if (finish != GP_FINISH_NONE && stats.output_tokens <= tokens)
            return true;
    }
    return false;
}

/* Step until every sequence has its first token. */
static int prefill(struct bench *b, struct gp_error *err)
{
    for (uint32_t ready = 0; ready < b->id_count && !b->stopped;) {
        struct gp_request_stats stats = {0};

        gp_engine_request_stats(b->speed->engine, b->ids[ready], 0, &stats);
        if (stats.output_tokens > 0)
            ready++;
        else if (step(b) == 0 && !b->stopped)
            return fail_cache(b, err);
    }
    /* Those that find no page wait until the others are through. */
    return some_ended(b, UINT32_MAX) ? fail_cache(b, err) : GP_OK;
}

static int time_output_test(struct bench *b, struct gp_speed_time *out, struct gp_error *err)
{
    uint64_t wanted = (uint64_t)b->test->sequences * b->test->output_tokens;
    struct gp_engine_stats before, now;
    int rc = submit_sequences(b, err);

    if (!rc)
        rc = prefill(b, err);
    before = now = stats_of(b);
    uint64_t start = gp_clock_ns();
    while (!rc && now.output_tokens - before.output_tokens < wanted) {
        uint32_t ran = step(b);

        if (b->stopped)
            break;
        now = stats_of(b);
        if (ran == 0)
            rc = fail_cache(b, err);
    }
    *out = (struct gp_speed_time){gp_clock_ns() - start, now.output_tokens - before.output_tokens};
    if (!rc && !b->stopped && some_ended(b, b->test->output_tokens))
        rc = fail_cache(b, err);
    release_all(b);
    return rc;
}

int gp_speed_measure(const struct gp_speed *speed, const struct gp_speed_test *test,
                     uint32_t repetition, struct gp_speed_time *out, bool *complete,
                     struct gp_error *err)
{
    struct bench b = {
        .speed = speed,
        .test = test,
        .sequence = (uint64_t)repetition << 32,
    };
    struct gp_speed_time time = {0};
    uint64_t preempted = 0;
    int rc;

    gp_assert(!test->prompt_tokens != !test->output_tokens && test->sequences > 0);
    gp_engine_info(speed->engine, &b.info);
    b.ids = gp_mem_alloc_array((size_t)test->sequences + 1, sizeof *b.ids);
    b.tokens = gp_mem_alloc_array(b.info.context, sizeof *b.tokens);
    preempted = stats_of(&b).preempt;
    if (!b.ids || !b.tokens)
        rc = gp_fail(err, GP_ENOMEM, "bench: out of memory");
    else if (test->output_tokens)
        rc = time_output_test(&b, &time, err);
    else
        rc = time_prompt_test(&b, &time, err);
    /* Rows of a sequence that gave way were run twice. */
    if (!rc && !b.stopped && stats_of(&b).preempt != preempted)
        rc = fail_cache(&b, err);
    gp_mem_free(b.ids);
    gp_mem_free(b.tokens);
    if (rc)
        return rc;
    *complete = !b.stopped;
    if (*complete)
        *out = time;
    return GP_OK;
}
