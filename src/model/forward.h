/* The forward pass: a batch of rows from many sequences over the paged cache.
 *
 * Knows weights, kernels and views of the cache; knows no scheduler and no policy.  Rows of one
 * sequence form a segment; prompts in chunks and single decode rows mix freely, and what a row
 * computes does not depend on what else is in the batch.  Everything is taken at open. */
#ifndef GP_MODEL_FORWARD_H
#define GP_MODEL_FORWARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/workers.h"
#include "kernels/kernels.h"
#include "model/weights.h"

/* The cache as the forward pass sees it.  A page is [layer][kv head] blocks (kernels.h). */
struct gp_cache {
    uint8_t *pool;
    size_t page_bytes; /* layers * kv heads * block_bytes                               */
    size_t block_bytes;
    uint32_t page_tokens;
    enum gp_kv_type type;
    /* Query summaries, [layer][slot][2][Hq][dk] (spec.md section 2), and the RMS of the latest
     * query, [layer][slot][Hq].  Both may be NULL when no segment has a summary slot. */
    float *summaries;
    float *query_rms;
    uint32_t summary_slots;
    /* For policies with a scorer; what no segment asks for may be NULL.
     * windows: [layer][slot][window_rows][Hq][dk], the newest queries of a sequence after RoPE; a
     * token at position p has row p % window_rows.
     * memory, positions: a word for each slot, [page][layer][kv head][b]. */
    float *windows;
    uint32_t window_rows;
    float *memory;
    uint32_t *positions;
    float *row_work; /* [workers][2][slots_max] for memory */
    /* For keys kept before RoPE: room for one head's cache a worker, as floats in pages 0, 1, ...,
     * and the angles of places [slots_max][rope_dim / 2]. */
    uint8_t *rotated;
    size_t rotated_block_bytes;    /* of one page            */
    size_t rotated_bytes;          /* of one worker          */
    const uint32_t *rotated_pages; /* 0, 1, ...           */
    float *place_cos, *place_sin;
    uint32_t slots_max;
};

/* Where the words of (page, layer, KV head) begin in gp_cache.memory and positions. */
static inline size_t gp_cache_word(const struct gp_cache *cache, const struct gp_hparams *hp,
                                   uint32_t page, uint32_t layer, uint32_t head)
{
    return (((size_t)page * hp->layer_count + layer) * hp->kv_head_count + head) *
           cache->page_tokens;
}

#define GP_NO_SUMMARY UINT32_MAX

/* Consecutive rows of one sequence. */
struct gp_segment {
    const uint32_t *pages; /* block table; covers slot_begin + row_count slots                  */
    uint32_t row_count;
    uint32_t slot_begin;   /* physical slot of the first row: n_cached before                   */
    uint32_t pos_begin;    /* logical position of the first row: n_tokens before                */
    uint32_t summary_slot; /* or GP_NO_SUMMARY                                                  */
    uint32_t
        generated_from; /* rows from this one on are generated tokens and update the summaries */
    bool summary_fresh; /* the first generated row writes both vectors                       */
    bool summary_zero;  /* ... as (1 - beta) * q, not as q (--kv-summary-init zero)          */
    float beta_short, beta_long;
    uint32_t logits_from; /* rows from this one on are wanted by gp_forward_logits             */
    /* For policies with a scorer. */
    bool keep_queries; /* every row leaves its query in the window of query_slot            */
    uint32_t query_slot;
    bool add_memory; /* every row adds its weights to the memory of the slots it sees     */
    enum gp_score_group
        join;             /* ... joined over a KV head's group like this                       */
    bool positions;       /* slots lie in disorder: every row notes its position               */
    bool cache_positions; /* RoPE goes by places in the cache; keys are kept before it         */
    uint32_t sinks;       /* ... with positions: the first tokens, which are at their places   */
    uint32_t store_from;  /* rows before this one write no keys and values: a shared page holds them
                             already (spec.md section 6, replay); 0 writes them all           */
};

struct gp_batch {
    const int32_t *tokens; /* [row_count], segment after segment                                */
    uint32_t row_count;
    const struct gp_segment *segments;
    uint32_t segment_count;
};

struct gp_forward;

/* rows_max rows a batch; wanted_max rows whose logits can be asked for; wave rows of logits at
 * once.  All three size memory. */
int gp_forward_open(struct gp_forward **out, const struct gp_weights *weights,
                    const struct gp_kernels *kernels, struct gp_workers *workers, uint32_t rows_max,
                    uint32_t segments_max, uint32_t wanted_max, uint32_t wave,
                    struct gp_error *err);
void gp_forward_close(struct gp_forward *forward);
uint64_t gp_forward_bytes(const struct gp_forward *forward);

/* Run the batch: writes keys and values into the cache, updates the summaries, keeps the final
 * hidden states of the wanted rows.  Returns how many rows are wanted. */
uint32_t gp_forward_run(struct gp_forward *forward, const struct gp_batch *batch,
                        const struct gp_cache *cache);

/* Logits [count, vocab] of wanted rows [begin, begin + count), count <= wave; valid until the next
 * call.  Wanted rows are numbered in batch order. */
float *gp_forward_logits(struct gp_forward *forward, uint32_t begin, uint32_t count);

/* The view of one (layer, KV head) of a sequence. */
struct gp_kv_view gp_cache_view(const struct gp_cache *cache, const struct gp_hparams *hp,
                                const uint32_t *pages, uint32_t layer, uint32_t head);

#endif
