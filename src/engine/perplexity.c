/* Perplexity by llama-perplexity's convention: see gp_perplexity() in growpage.h.
 *
 * No scheduler: each window is one sequence that is prefilled in chunks over pages of its own. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mem.h"
#include "engine/engine_internal.h"

#define PAGE_TOKENS 256u
#define CHUNK_ROWS  512u
#define WINDOW_MIN  4u

struct scorer {
    const struct gp_model *model;
    struct gp_workers *workers;
    struct gp_forward *forward;
    struct gp_cache cache;
    size_t pool_bytes;
    uint32_t *pages;
    int32_t *window;  /* its tokens, BOS put in where the file asks */
    double *surprise; /* [wave] negative log-likelihoods            */
    uint32_t wave;
    double sum, sum_squares;
    uint64_t scored;
};

static void scorer_close(struct scorer *s)
{
    gp_forward_close(s->forward);
    gp_workers_close(s->workers);
    gp_mem_unmap(s->cache.pool, s->pool_bytes);
    gp_mem_free(s->pages);
    gp_mem_free(s->window);
    gp_mem_free(s->surprise);
}

static int scorer_open(struct scorer *s, uint32_t window, uint32_t threads, const char *kv_type,
                       struct gp_error *err)
{
    const struct gp_hparams *hp = &s->model->weights->hp;
    uint32_t page_count = (window + PAGE_TOKENS - 1) / PAGE_TOKENS;
    uint32_t rows = window < CHUNK_ROWS ? window : CHUNK_ROWS;
    int rc = gp_cache_type(&kv_type, hp, &s->cache.type, err);

    if (!rc)
        rc = gp_workers_open(&s->workers, gp_engine_threads(threads), err);
    if (rc)
        return rc;
    s->cache.page_tokens = PAGE_TOKENS;
    s->cache.block_bytes =
        gp_kv_block_bytes(s->cache.type, PAGE_TOKENS, hp->key_dim, hp->value_dim);
    s->cache.page_bytes = s->cache.block_bytes * hp->layer_count * hp->kv_head_count;
    s->pool_bytes = s->cache.page_bytes * page_count;
    s->cache.pool = gp_mem_map(s->pool_bytes);
    s->pages = gp_mem_alloc_array(page_count, sizeof *s->pages);
    s->window = gp_mem_alloc_array(window, sizeof *s->window);
    s->wave = 32;
    s->surprise = gp_mem_alloc_array(s->wave, sizeof *s->surprise);
    if (!s->cache.pool || !s->pages || !s->window || !s->surprise)
        return gp_fail(err, GP_ENOMEM, "perplexity: out of memory");
    for (uint32_t i = 0; i < page_count; i++)
        s->pages[i] = i;
    return gp_forward_open(&s->forward, s->model->weights, &s->model->kernels, s->workers, rows, 1,
                           rows, s->wave, err);
}

struct score_work {
    struct scorer *scorer;
    const float *logits;
    const int32_t *next; /* the token that each row should have foreseen */
};

static void score_rows(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    struct score_work *work = ctx;
    const struct gp_model *model = work->scorer->model;
    uint32_t row = model->weights->hp.vocab_count, vocab = gp_tokenizer_count(model->tokenizer);

    (void)worker;
    for (uint32_t i = begin; i < end; i++)
        work->scorer->surprise[i] =
            -(double)gp_log_softmax_at(work->logits + (size_t)i * row, vocab, work->next[i]);
}

/* Rows of one chunk from `first` on predict the tokens behind them. */
static void score_chunk(struct scorer *s, const int32_t *next, uint32_t count)
{
    for (uint32_t done = 0; done < count; done += s->wave) {
        uint32_t rows = count - done < s->wave ? count - done : s->wave;
        struct score_work work = {
            .scorer = s,
            .logits = gp_forward_logits(s->forward, done, rows),
            .next = next + done,
        };

        gp_workers_run(s->workers, rows, 1, score_rows, &work);
        for (uint32_t i = 0; i < rows; i++) {
            s->sum += s->surprise[i];
            s->sum_squares += s->surprise[i] * s->surprise[i];
        }
        s->scored += rows;
    }
}

static void score_window(struct scorer *s, const int32_t *tokens, uint32_t window)
{
    /* The last row foresees a token that the window does not have. */
    uint32_t first = window / 2, last = window - 1;

    for (uint32_t begin = 0; begin < last; begin += CHUNK_ROWS) {
        uint32_t count = last - begin < CHUNK_ROWS ? last - begin : CHUNK_ROWS;
        uint32_t unscored = first > begin ? first - begin : 0;
        struct gp_segment segment = {
            .pages = s->pages,
            .row_count = count,
            .slot_begin = begin,
            .pos_begin = begin,
            .summary_slot = GP_NO_SUMMARY,
            .generated_from = count,
            .logits_from = unscored < count ? unscored : count,
        };
        struct gp_batch batch = {
            .tokens = s->window + begin,
            .row_count = count,
            .segments = &segment,
            .segment_count = 1,
        };
        uint32_t wanted = gp_forward_run(s->forward, &batch, &s->cache);

        score_chunk(s, tokens + begin + segment.logits_from + 1, wanted);
    }
}

static void score_all(struct scorer *s, const int32_t *tokens, uint32_t windows, uint32_t window,
                      void (*progress)(void *ctx, uint32_t done, uint32_t total, double so_far),
                      void *ctx)
{
    int32_t bos = gp_tokenizer_bos(s->model->tokenizer);
    bool put_bos = bos >= 0 && gp_tokenizer_adds_bos(s->model->tokenizer);

    for (uint32_t i = 0; i < windows; i++) {
        const int32_t *from = tokens + (size_t)i * window;

        memcpy(s->window, from, window * sizeof *s->window);
        if (put_bos)
            s->window[0] = bos;
        score_window(s, from, window);
        if (progress)
            progress(ctx, i + 1, windows, exp(s->sum / (double)s->scored));
    }
}

int gp_perplexity(const struct gp_model *model, const int32_t *tokens, uint32_t count,
                  uint32_t window, uint32_t threads, const char *kv_type,
                  void (*progress)(void *ctx, uint32_t done, uint32_t total, double so_far),
                  void *ctx, struct gp_perplexity *out, struct gp_error *err)
{
    struct scorer s = {.model = model};

    if (!model->weights)
        return gp_fail(err, GP_EINVAL, "perplexity: the model was opened without its weights");
    uint32_t context = model->weights->hp.context_max;

    if (context < WINDOW_MIN)
        return gp_fail(err, GP_EINVAL, "perplexity: the model's context is %u tokens; at least %u",
                       context, WINDOW_MIN);
    if (window < WINDOW_MIN || window > context)
        return gp_fail(err, GP_EINVAL, "window: %u: must be %u to %u", window, WINDOW_MIN, context);
    if (count < 2 * window)
        return gp_fail(err, GP_EINVAL, "text: %u tokens: must be at least %u, two windows of %u",
                       count, 2 * window, window);
    for (uint32_t i = 0; i < count; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= gp_tokenizer_count(model->tokenizer))
            return gp_fail(err, GP_EINVAL, "text: token %u is %d, not in the vocabulary", i,
                           tokens[i]);
    int rc = scorer_open(&s, window, threads, kv_type, err);

    if (!rc) {
        score_all(&s, tokens, count / window, window, progress, ctx);
        double n = (double)s.scored, mean = s.sum / n;
        double variance = s.sum_squares / n - mean * mean;

        *out = (struct gp_perplexity){
            .perplexity = exp(mean),
            .error = variance > 0 ? sqrt(variance / (n - 1)) * exp(mean) : 0.0,
            .windows = count / window,
            .scored = s.scored,
        };
    }
    scorer_close(&s);
    return rc;
}
