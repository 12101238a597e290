#include "base/mem.h"
#include "eval/analyze_kinds.h"

/* ---- what the engine tells ---- */

static void see_tap(void *ctx, uint32_t choice, const struct gp_tap *tap)
{
    struct gp_watched *w = ctx;
    uint32_t at = (tap->tokens - 1) / w->page_tokens;
    double all = 0, heads = tap->kv_head_count, slots = tap->slots;

    (void)choice;
    /* A request that comes back after a preemption runs its rows again. */
    if (tap->tokens <= w->seen || at >= w->page_count)
        return;
    w->seen = tap->tokens;
    for (uint32_t layer = 0; layer < tap->layer_count; layer++) {
        double sum = 0;

        for (uint32_t head = 0; head < tap->kv_head_count; head++)
            sum += tap->counts[layer * tap->kv_head_count + head];
        w->layers[(size_t)at * w->layer_count + layer] += sum / heads / slots;
        all += sum / heads / tap->layer_count;
    }
    struct gp_watched_page *page = &w->pages[at];
    page->rows++;
    page->share += page->last_share = all / slots;
    page->slots += page->last_slots = all;
}

/* A full cache is full at the end of each page of positions. */
static enum gp_action see_boundary(void *ctx, uint32_t choice,
                                   const struct gp_boundary_event *event)
{
    struct gp_watched *w = ctx;
    uint32_t at = (event->tokens - 1) / w->page_tokens;

    (void)choice;
    if (at < w->page_count && event->has_delta && event->cause == GP_CAUSE_POLICY) {
        struct gp_watched_page *page = &w->pages[at];

        page->has_delta = true;
        page->delta = event->delta;
        page->demand_short = event->demand_short;
        page->demand_long = event->demand_long;
    }
    return event->action;
}

/* ---- what the sitting tells ---- */

static int make_room(struct gp_watch *watch, struct gp_watched *w,
                     const struct gp_question *question, const struct gp_request *request,
                     struct gp_error *err)
{
    struct gp_engine_info info;

    gp_engine_info(watch->analysis->engine, &info);
    uint64_t tokens = (uint64_t)request->token_count + request->max_tokens;
    if (request->max_tokens == 0 || tokens > info.context)
        tokens = info.context;
    *w = (struct gp_watched){
        .part = question->part,
        .index = question->index,
        .number = question->number,
        .page_tokens = watch->page_tokens,
        .layer_count = watch->layer_count,
        .page_count = (uint32_t)(tokens / watch->page_tokens) + 1,
    };
    w->pages = gp_mem_alloc_array(w->page_count, sizeof *w->pages);
    w->layers = gp_mem_alloc_array((size_t)w->page_count * w->layer_count, sizeof *w->layers);
    return w->pages && w->layers ? GP_OK : gp_fail(err, GP_ENOMEM, "analysis: out of memory");
}

static int ask(void *ctx, const struct gp_question *question, struct gp_request *request,
               struct gp_error *err)
{
    struct gp_watch *watch = ctx;
    struct gp_watched *w = &watch->items[question->n];
    int rc = w->pages ? GP_OK : make_room(watch, w, question, request, err);

    request->on_tap = see_tap;
    request->tap_every = watch->analysis->every;
    request->on_boundary = see_boundary;
    request->ctx = w;
    return rc;
}

static int take(void *ctx, const struct gp_sample *sample, struct gp_error *err)
{
    struct gp_watch *watch = ctx;
    struct gp_watched *w = &watch->items[sample->question->n];
    /* The last token that was drawn is not run. */
    uint32_t run = sample->stats->prompt_tokens + sample->stats->output_tokens - 1;

    (void)err;
    for (uint32_t i = 0; i < run / w->page_tokens && i < w->page_count; i++)
        w->pages[i].whole = true;
    return GP_OK;
}

int gp_watch_run(struct gp_watch *watch, const struct gp_analysis *analysis, bool *complete,
                 struct gp_error *err)
{
    struct gp_engine_info engine;
    struct gp_model_info model;

    gp_engine_info(analysis->engine, &engine);
    gp_model_info(analysis->model, &model);
    *watch = (struct gp_watch){
        .count = gp_exam_count(analysis->sitting->exam),
        .page_tokens = engine.page_tokens,
        .layer_count = model.layer_count,
        .analysis = analysis,
    };
    watch->items = gp_mem_alloc_array(watch->count, sizeof *watch->items);
    if (!watch->items)
        return gp_fail(err, GP_ENOMEM, "analysis: out of memory");
    struct gp_analysis_ears ears = {ask, take, NULL, watch};
    return gp_analysis_ask(analysis, &ears, complete, err);
}

void gp_watch_free(struct gp_watch *watch)
{
    for (uint64_t i = 0; watch->items && i < watch->count; i++) {
        gp_mem_free(watch->items[i].pages);
        gp_mem_free(watch->items[i].layers);
    }
    gp_mem_free(watch->items);
    *watch = (struct gp_watch){0};
}
