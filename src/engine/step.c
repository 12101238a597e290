/* One step: take what was submitted, plan, run the rows, draw the tokens, publish.
 *
 * The engine's thread allocates nothing here.  Callbacks of a request run between draws, in the
 * order of the plan, never beside each other. */
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/trace.h"

/* ---- what the scheduler tells ---- */

void gp_step_boundary(void *ctx, const struct gp_seq *seq, struct gp_decision decision,
                      const struct gp_signal *signal, uint32_t pages_before)
{
    struct gp_engine *engine = ctx;
    struct choice *choice = engine->owners[seq->index].choice;

    if (engine->hooks.boundary)
        engine->hooks.boundary(engine->hooks.ctx, seq, decision, signal, pages_before);
    gp_tracer_boundary(engine, seq, decision, signal, pages_before);
    if (choice->event_count == choice->event_max)
        return;
    struct gp_boundary_event *event = &choice->events[choice->event_count++];

    *event = gp_measure_event(seq, decision, signal, pages_before);
    event->pages_after = decision.action == GP_DO_GROW ? pages_before + 1
                         : seq->compacting             ? seq->retention.pages_after
                                                       : seq->pages;
}

void gp_step_admitted(void *ctx, const struct gp_seq *seq)
{
    gp_tracer_admitted(ctx, seq);
}

void gp_step_preempted(void *ctx, struct gp_seq *seq)
{
    gp_tracer_preempted(ctx, seq);
}

/* ---- the batch ---- */

/* Prompt rows whose logits are wanted: those whose next token has no logprob yet. */
static bool scores_prompt(const struct request *request, const struct gp_seq *seq)
{
    return request->prompt_logprobs && seq->computed + 1 < seq->prompt_count &&
           request->prompt_scored < seq->prompt_count;
}

static void add_segment(struct gp_engine *engine, struct gp_segment *segment,
                        const struct gp_run *run, int32_t *tokens)
{
    const struct gp_seq *seq = run->seq;
    struct owner owner = engine->owners[seq->index];
    bool scored = gp_policy_scores(&seq->kv);
    bool summaries = gp_policy_summarises(&seq->kv) && seq->query_slot != GP_SLOT_NONE;
    uint32_t prompt_left =
        seq->computed < seq->prefill_count ? seq->prefill_count - seq->computed : 0;

    memcpy(tokens, owner.choice->tokens + seq->computed, run->count * sizeof *tokens);
    *segment = (struct gp_segment){
        .pages = seq->table,
        .row_count = run->count,
        .slot_begin = seq->cached,
        .pos_begin = seq->computed,
        .summary_slot = summaries ? seq->query_slot : GP_NO_SUMMARY,
        .generated_from = prompt_left < run->count ? prompt_left : run->count,
        .summary_fresh = !seq->has_summaries,
        .summary_zero = seq->kv.summary_init == GP_SUMMARY_ZERO,
        .beta_short = seq->kv.beta_short,
        .beta_long = seq->kv.beta_long,
        .logits_from = run->last ? run->count - 1 : run->count,
        .store_from = gp_sched_stored(engine->sched, run),
    };
    if (scored)
        gp_scored_segment(seq, segment);
    if (owner.request->asked.on_tap) {
        segment->keep_queries = true;
        segment->query_slot = seq->query_slot;
    }
    if (scores_prompt(owner.request, seq) && owner.choice->index == 0)
        segment->logits_from = 0;
    if (!owner.choice->admitted_ns)
        owner.choice->admitted_ns = gp_clock_ns();
}

static uint32_t run_rows(struct gp_engine *engine, const struct gp_plan *plan)
{
    struct gp_batch batch = {.tokens = engine->batch_tokens, .segments = engine->segments};
    uint64_t start = gp_clock_ns();

    for (uint32_t i = 0; i < plan->run_count; i++) {
        add_segment(engine, &engine->segments[i], &plan->runs[i],
                    engine->batch_tokens + batch.row_count);
        batch.row_count += plan->runs[i].count;
    }
    batch.segment_count = plan->run_count;
    gp_assert(batch.row_count == plan->row_count);
    uint32_t wanted = gp_forward_run(engine->forward, &batch, &engine->cache);

    engine->stats.forward_ns += gp_clock_ns() - start;
    return wanted;
}

/* ---- drawing ---- */

static bool contains(const int32_t *ids, uint32_t count, int32_t id)
{
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] == id)
            return true;
    return false;
}

static bool is_end(const struct gp_engine *engine, const struct gp_request *asked, int32_t id)
{
    uint32_t count;
    const int32_t *ends = gp_tokenizer_ends(engine->model->tokenizer, &count);

    return (!asked->ignore_eos && contains(ends, count, id)) ||
           contains(asked->stop_ids, asked->stop_id_count, id);
}

static void ban(uint64_t *mask, const int32_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        mask[ids[i] / 64] &= ~((uint64_t)1 << (ids[i] % 64));
}

/* Callbacks may allocate; the promise is the engine's own. */
static void call_constraint(const struct draw *draw, uint64_t *mask)
{
    const struct gp_request *asked = &draw->request->asked;

    gp_mem_thaw();
    asked->constraint(asked->ctx, draw->choice->index, draw->choice->tokens + asked->token_count,
                      draw->choice->output_count, mask);
    gp_mem_freeze();
}

static void prepare(struct gp_engine *engine, struct draw *draw, uint64_t *mask)
{
    const struct gp_request *asked = &draw->request->asked;
    struct choice *choice = draw->choice;
    bool early = choice->output_count < asked->min_tokens;

    draw->forced = choice->force_next;
    if (choice->output_count < asked->forced_count)
        draw->forced = asked->forced[choice->output_count];
    draw->masked = draw->forced < 0 && (early || asked->constraint);
    if (!draw->masked)
        return;
    memset(mask, 0xff, engine->mask_words * sizeof *mask);
    if (early) {
        uint32_t count;
        const int32_t *ends = gp_tokenizer_ends(engine->model->tokenizer, &count);

        if (!asked->ignore_eos)
            ban(mask, ends, count);
        ban(mask, asked->stop_ids, asked->stop_id_count);
    }
    if (asked->constraint)
        call_constraint(draw, mask);
}

static void top_logprobs(const float *logits, uint32_t vocab, uint32_t width,
                         struct gp_logprob *out)
{
    int32_t ids[GP_LIMIT_LOGPROBS];
    float values[GP_LIMIT_LOGPROBS];

    gp_log_softmax_top(logits, vocab, width, ids, values);
    for (uint32_t i = 0; i < width; i++)
        out[i] = (struct gp_logprob){ids[i], values[i]};
}

/* The logprobs of prompt token `next`, from the row before it. */
static void score_prompt_token(struct request *request, const float *logits, uint32_t vocab,
                               uint32_t next)
{
    uint32_t width = request->prompt_tops ? (uint32_t)request->asked.prompt_logprobs : 0;

    request->prompt_logprobs[next] = gp_log_softmax_at(logits, vocab, request->asked.tokens[next]);
    if (width)
        top_logprobs(logits, vocab, width, request->prompt_tops + (size_t)next * width);
}

static void score_output_token(struct draw *draw, const float *logits, uint32_t vocab)
{
    struct choice *choice = draw->choice;
    uint32_t at = choice->output_count;
    uint32_t width = choice->tops ? (uint32_t)draw->request->asked.logprobs : 0;

    if (choice->logprobs && draw->id >= 0)
        choice->logprobs[at] = gp_log_softmax_at(logits, vocab, draw->id);
    if (width)
        top_logprobs(logits, vocab, width, choice->tops + (size_t)at * width);
}

struct draw_work {
    struct gp_engine *engine;
    const float *logits; /* [count, vocab] */
};

static void draw_rows(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct draw_work *work = ctx;
    struct gp_engine *engine = work->engine;
    uint32_t vocab = engine->vocab;

    for (uint32_t i = begin; i < end; i++) {
        struct draw *draw = &engine->draws[i];
        const struct request *request = draw->request;
        const float *logits = work->logits + (size_t)i * engine->model->weights->hp.vocab_count;
        struct gp_draw how = {
            .sampling = &request->asked.sampling,
            .seed = request->seed,
            .choice = draw->choice->index,
            .position = draw->token_index + 1,
            .tokens = draw->choice->tokens,
            .prompt_count = request->asked.token_count,
            .token_count = draw->token_index + 1,
            .mask = draw->masked ? engine->masks + (size_t)i * engine->mask_words : NULL,
        };

        if (draw->scores_prompt)
            score_prompt_token(draw->request, logits, vocab, draw->token_index + 1);
        if (!draw->last)
            continue;
        draw->id = draw->forced >= 0 ? draw->forced
                                     : gp_sampler_draw(engine->samplers[worker], logits, &how);
        score_output_token(draw, logits, vocab);
    }
}

/* What the drawn token means for its choice: go on, or an end. */
static enum gp_finish take_token(struct gp_engine *engine, struct draw *draw)
{
    const struct request *request = draw->request;
    const struct gp_request *asked = &request->asked;
    struct choice *choice = draw->choice;
    int32_t answer = GP_GO;

    if (draw->id < 0)
        return GP_FINISH_ERROR;
    choice->tokens[asked->token_count + choice->output_count++] = draw->id;
    engine->stats.output_tokens++;
    if (asked->on_token) {
        gp_mem_thaw();
        answer = asked->on_token(asked->ctx, choice->index, draw->id);
        gp_mem_freeze();
    }
    bool may_force = answer >= 0 && (uint32_t)answer < engine->vocab;

    choice->force_next = may_force ? answer : GP_GO;
    if (answer == GP_STOP || is_end(engine, asked, draw->id))
        return GP_FINISH_STOP;
    return choice->output_count == request->max_tokens ? GP_FINISH_LENGTH : GP_FINISH_NONE;
}

static void commit(struct gp_engine *engine, struct draw *draw)
{
    if (draw->scores_prompt) {
        gp_assert(draw->request->prompt_scored <= draw->token_index + 1);
        draw->request->prompt_scored = draw->token_index + 2;
    }
    if (!draw->last)
        return;
    enum gp_finish finish = take_token(engine, draw);

    if (finish == GP_FINISH_NONE)
        gp_sched_append(engine->sched, draw->choice->seq);
    else
        gp_choice_done(engine, draw->request, draw->choice, finish);
}

/* Draw from wanted rows [0, count) of the wave that engine->draws describes. */
static void finish_wave(struct gp_engine *engine, uint32_t begin, uint32_t count)
{
    struct draw_work work = {
        .engine = engine,
        .logits = gp_forward_logits(engine->forward, begin, count),
    };
    uint64_t start = gp_clock_ns();

    for (uint32_t i = 0; i < count; i++)
        if (engine->draws[i].last)
            prepare(engine, &engine->draws[i], engine->masks + (size_t)i * engine->mask_words);
    gp_workers_run(engine->workers, count, 1, draw_rows, &work);
    for (uint32_t i = 0; i < count; i++)
        commit(engine, &engine->draws[i]);
    engine->stats.sample_ns += gp_clock_ns() - start;
}

/* Walk the wanted rows in batch order, a wave at a time.  seq->computed has moved on by now. */
static void draw_tokens(struct gp_engine *engine, const struct gp_plan *plan, uint32_t wanted)
{
    uint32_t done = 0, filled = 0;

    for (uint32_t i = 0; i < plan->run_count; i++) {
        const struct gp_run *run = &plan->runs[i];
        const struct gp_segment *segment = &engine->segments[i];
        struct owner owner = engine->owners[run->seq->index];

        for (uint32_t row = segment->logits_from; row < run->count; row++) {
            uint32_t token = segment->pos_begin + row;

            engine->draws[filled++] = (struct draw){
                .request = owner.request,
                .choice = owner.choice,
                .token_index = token,
                .last = run->last && row == run->count - 1,
                .scores_prompt = owner.request->prompt_logprobs && owner.choice->index == 0 &&
                                 token + 1 < owner.request->asked.token_count &&
                                 token + 1 >= owner.request->prompt_scored,
            };
            if (filled < engine->wave)
                continue;
            finish_wave(engine, done, filled);
            done += filled;
            filled = 0;
        }
    }
    if (filled)
        finish_wave(engine, done, filled);
    gp_assert(done + filled == wanted);
}

/* ---- the step ---- */

static void end_stuck(struct gp_engine *engine, struct gp_seq *stuck)
{
    struct owner owner = engine->owners[stuck->index];

    /* The scheduler has released everything already. */
    owner.choice->finish = GP_FINISH_CAPACITY;
    owner.choice->pages_end = stuck->pages_peak;
}

static void count_rows(struct gp_engine *engine, const struct gp_plan *plan)
{
    engine->stats.steps++;
    engine->stats.rows += plan->row_count;
    for (uint32_t i = 0; i < plan->run_count; i++) {
        const struct gp_run *run = &plan->runs[i];
        uint32_t left = run->seq->computed < run->seq->prompt_count
                            ? run->seq->prompt_count - run->seq->computed
                            : 0;

        engine->stats.prompt_tokens += left < run->count ? left : run->count;
    }
}

uint32_t gp_engine_step(struct gp_engine *engine)
{
    struct gp_plan plan;
    struct gp_seq *stuck;
    uint32_t rows = 0;

    gp_mem_freeze();
    gp_figures_begin_step(engine);
    gp_requests_drain(engine);
    gp_sched_limit_prompts(engine->sched, gp_pace_rows(&engine->pace));
    bool planned = gp_sched_plan(engine->sched, &plan, &stuck);

    if (stuck)
        end_stuck(engine, stuck);
    if (planned) {
        uint64_t start = gp_clock_ns();

        rows = plan.row_count;
        count_rows(engine, &plan);
        gp_figures_rows(engine);
        uint32_t wanted = run_rows(engine, &plan);

        gp_sched_ran(engine->sched, &plan);
        if (engine->tap_counts)
            gp_measure_tap(engine, &plan);
        draw_tokens(engine, &plan, wanted);
        gp_pace_ran(&engine->pace, plan.decode_rows, rows - plan.decode_rows,
                    gp_clock_ns() - start);
    }
    bool compacted = gp_compaction_advance(engine, rows);

#ifdef GP_DEBUG
    gp_sched_check(engine->sched);
    gp_pool_check(engine->pool);
#endif
    gp_requests_publish(engine);
    gp_tracer_flush(engine);
    gp_mem_thaw();
    /* One that ended stuck was work, too, and so was a compaction: the next step may find rows. */
    return rows == 0 && (stuck || compacted) ? 1 : rows;
}

void gp_engine_run(struct gp_engine *engine)
{
    while (gp_engine_step(engine))
        ;
}
