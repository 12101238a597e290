/* Does a compaction make the others wait?  Requests that compact in turn, within the steps and
 * beside them, alternately in one run:
 *
 *     bench/gaps MODEL.gguf [requests [page size [pages held [rounds [fill [repeats]]]]]]
 *
 * (16, 64, 8, 4, 0, 3 where none is given.)
 *
 * Told for each way: the median step, the longest one and the 99th percentile as multiples of
 * it, and the time in all; once of all steps, and once of the least that each step took over the
 * repeats.  Work is bounded in units and not in time, so step i does the same in every repeat, and
 * what a host takes away seldom hits the same step in all of them.  Then steps with compactions in
 * them and steps without, and the most that compactions added to a step: the time of their own
 * work, summed over the workers.  Only steps in which everybody who is not compacting draws a token
 * are counted: no prompts. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "growpage.h"

#define STEPS_MAX 100000u

struct load {
    uint32_t requests, page_tokens, pages, rounds, fill, repeats;
};

struct times {
    double step_ms[STEPS_MAX], least_ms[STEPS_MAX];
    double with_ms[STEPS_MAX], without_ms[STEPS_MAX];
    uint32_t count, steps; /* of all repeats; of one */
    uint32_t with, without;
    double added_ms; /* to one step, at most */
    double total_ms;
    uint64_t compactions;
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void fail(const char *what)
{
    fprintf(stderr, "gaps: %s\n", what);
    exit(1);
}

/* Prompts of as many lengths as requests, spread over a page, so that the boundaries come in
 * turn. */
static void submit_all(struct gp_engine *engine, const struct load *load, uint32_t vocab,
                       uint64_t *ids)
{
    uint32_t longest = load->pages * load->page_tokens;
    int32_t *prompt = calloc(longest, sizeof *prompt);
    struct gp_rng rng = {1};
    struct gp_error err;

    if (!prompt)
        fail("out of memory");
    for (uint32_t i = 0; i < load->requests; i++) {
        uint32_t count = longest - 1 - i * load->page_tokens / load->requests;
        struct gp_request request;

        for (uint32_t t = 0; t < count; t++)
            prompt[t] = (int32_t)gp_rng_below(&rng, vocab);
        gp_request_init(&request);
        request.tokens = prompt;
        request.token_count = count;
        request.max_tokens = load->rounds * load->page_tokens;
        request.ignore_eos = true;
        request.sampling.temperature = 0;
        if (gp_engine_submit(engine, &request, &ids[i], &err))
            fail(err.message);
    }
    free(prompt);
}

static double compacting_ms(const struct gp_engine_stats *stats)
{
    return (double)(stats->score_ns + stats->select_ns + stats->compact_ns) / 1e6;
}

static void note_step(struct times *times, uint32_t step, double ms, double added)
{
    if (times->count == STEPS_MAX)
        fail("too many steps");
    if (added > 0)
        times->with_ms[times->with++] = ms;
    else
        times->without_ms[times->without++] = ms;
    if (added > times->added_ms)
        times->added_ms = added;
    times->step_ms[times->count++] = ms;
    if (!times->steps || ms < times->least_ms[step])
        times->least_ms[step] = ms;
}

static void run(const struct gp_model *model, const struct load *load, bool sync,
                struct times *times)
{
    uint64_t ids[256];
    struct gp_engine_options options;
    struct gp_model_info info;
    struct gp_engine *engine;
    struct gp_engine_stats stats;
    struct gp_error err;
    uint64_t begin = 0, last;
    double before = 0;
    uint32_t step = 0;

    gp_model_info(model, &info);
    gp_engine_options_init(&options);
    options.page_tokens = load->page_tokens;
    options.kv_pages = load->requests * (load->pages + 2);
    options.context = (load->pages + load->rounds + 1) * load->page_tokens;
    options.max_seqs = load->requests;
    options.no_prefix_cache = true;
    options.kv_sync = sync;
    if (gp_policy_parse("random:1", &options.kv, &err))
        fail(err.message);
    options.kv.initial_pages = 2;
    options.kv.compact = load->fill ? GP_COMPACT_FILL : GP_COMPACT_SHIFT;
    if (gp_engine_open(&engine, model, &options, &err))
        fail(err.message);
    submit_all(engine, load, info.vocab_count, ids);
    for (uint32_t rows = 1; rows > 0;) {
        last = gp_clock_ns();
        rows = gp_engine_step(engine);
        gp_engine_stats(engine, &stats);
        /* More rows than requests: a prompt is among them. */
        bool decoding = rows <= load->requests && stats.running == load->requests;

        begin = begin ? begin : decoding ? last : 0;
        if (decoding)
            note_step(times, step++, (double)(gp_clock_ns() - last) / 1e6,
                      compacting_ms(&stats) - before);
        before = compacting_ms(&stats);
    }
    if (times->steps && times->steps != step)
        fail("the repeats have different steps");
    times->steps = step;
    times->total_ms += (double)(last - begin) / 1e6;
    times->compactions += stats.compress;
    for (uint32_t i = 0; i < load->requests; i++)
        gp_engine_release(engine, ids[i]);
    gp_engine_close(engine);
}

static double sum(const double *x, uint32_t n)
{
    double all = 0;

    for (uint32_t i = 0; i < n; i++)
        all += x[i];
    return all;
}

static void tell_steps(const char *name, const char *which, double *ms, uint32_t count)
{
    if (count == 0)
        return;
    qsort(ms, count, sizeof *ms, by_value);
    double median = ms[count / 2];

    printf("%-6s %-7s median step %.3f ms, 99 %% within %.3f x, longest %.3f x\n", name, which,
           median, ms[count * 99ull / 100] / median, ms[count - 1] / median);
}

static void tell(const char *name, struct times *t)
{
    printf("%-6s %" PRIu64 " compactions, total %.1f ms\n", name, t->compactions, t->total_ms);
    tell_steps(name, "all", t->step_ms, t->count);
    tell_steps(name, "with", t->with_ms, t->with);
    tell_steps(name, "without", t->without_ms, t->without);
    tell_steps(name, "least", t->least_ms, t->steps);
    printf("%-6s compactions add at most %.3f ms to a step, %.4f of the median\n", name,
           t->added_ms, t->added_ms / t->step_ms[t->count / 2]);
}

int main(int argc, char **argv)
{
    static struct times sync, async;
    struct load load = {16, 64, 8, 4, 0, 3};
    uint32_t *numbers[] = {&load.requests, &load.page_tokens, &load.pages,
                           &load.rounds,   &load.fill,        &load.repeats};
    struct gp_model_options options = {.path = argc > 1 ? argv[1] : NULL};
    struct gp_model *model;
    struct gp_error err;

    if (argc < 2 || argc > 8)
        fail("MODEL.gguf [requests [page size [pages held [rounds [fill [repeats]]]]]]");
    for (int i = 2; i < argc; i++)
        *numbers[i - 2] = (uint32_t)strtoul(argv[i], NULL, 10);
    if (load.requests < 1 || load.requests > 256 || load.pages < 2 || load.rounds < 1 ||
        load.repeats < 1)
        fail("1 to 256 requests, at least two pages, at least one round and repeat");
    if (gp_model_open(&model, &options, &err))
        fail(err.message);
    for (uint32_t i = 0; i < load.repeats; i++) {
        run(model, &load, true, &sync);
        run(model, &load, false, &async);
    }
    tell("sync", &sync);
    tell("async", &async);
    printf("async takes %.3f of the time, by the least of each step %.3f\n",
           async.total_ms / sync.total_ms,
           sum(async.least_ms, async.steps) / sum(sync.least_ms, sync.steps));
    gp_model_close(model);
    return 0;
}
