/* The figures of a run (spec.md section 8), from what the steps make. */
#include "base/clock.h"
#include "engine/engine_internal.h"

static double milliseconds(uint64_t ns)
{
    return (double)ns / 1e6;
}

static double mean(double sum, uint64_t count)
{
    return count > 0 ? sum / (double)count : 0;
}

void gp_engine_begin_run(struct gp_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    engine->run = (struct run_sums){.tokens_before = engine->stats.output_tokens};
    engine->stats.run = (struct gp_run_figures){0};
    gp_pool_begin_max(engine->pool);
    engine->stats.pages_used_max = gp_pool_used_max(engine->pool);
    engine->stats_seen = engine->stats;
    pthread_mutex_unlock(&engine->lock);
}

void gp_figures_begin_step(struct gp_engine *engine)
{
    struct run_sums *run = &engine->run;

    run->step_ns = gp_clock_ns();
    run->holders = 0;
    run->decodes = run->counts = false;
}

/* Who runs holds pages, and nobody else does. */
void gp_figures_rows(struct gp_engine *engine)
{
    uint32_t holders = gp_sched_running(engine->sched);
    struct gp_run_figures *figures = &engine->stats.run;

    engine->run.holders = holders;
    if (holders > figures->concurrency_max)
        figures->concurrency_max = holders;
}

void gp_figures_token(struct gp_engine *engine, const struct request *request,
                      const struct choice *choice)
{
    struct run_sums *run = &engine->run;

    run->counts = true;
    if (choice->output_seen == 0) {
        run->started++;
        run->ttft_ms += milliseconds(choice->first_token_ns - request->submitted_ns);
    }
    if (choice->output_count > 1)
        run->decodes = true;
}

void gp_figures_ended(struct gp_engine *engine, const struct gp_request_stats *stats)
{
    struct run_sums *run = &engine->run;

    run->counts = true;
    if (stats->output_tokens < 2)
        return;
    run->decoded++;
    run->tpot_ms += stats->tpot_ms;
    run->budget += stats->pages_mean * engine->options.page_tokens;
}

void gp_figures_sum(struct gp_engine *engine, uint64_t now)
{
    struct run_sums *run = &engine->run;
    struct gp_run_figures *figures = &engine->stats.run;

    if (run->decodes) {
        if (run->begin_ns == 0)
            run->begin_ns = run->step_ns;
        run->resident += run->holders;
        figures->decode_steps++;
        figures->decoding_ns += now - run->step_ns;
    }
    if (run->counts && run->begin_ns)
        figures->serving_ns = now - run->begin_ns;
    figures->output_tokens = engine->stats.output_tokens - run->tokens_before;
    figures->tps = mean((double)figures->output_tokens * 1e9, figures->serving_ns);
    figures->tpot_ms = mean(run->tpot_ms, run->decoded);
    figures->ttft_ms = mean(run->ttft_ms, run->started);
    figures->kv_budget = mean(run->budget, run->decoded);
    figures->concurrency = mean((double)run->resident, figures->decode_steps);
}
