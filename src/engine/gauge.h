/* What the files of the gauge share: a kind of work with its data, ready to run. */
#ifndef GP_ENGINE_GAUGE_H
#define GP_ENGINE_GAUGE_H

#include "base/rng.h"
#include "base/workers.h"
#include "growpage.h"
#include "kernels/kernels.h"

#define GAUGE_BLOCKS_MAX 16u
#define GAUGE_RUNS_MAX   4096u

/* A cache as Qwen3-0.6B has it, of one layer. */
#define GAUGE_HEADS       8u
#define GAUGE_HEAD        128u
#define GAUGE_PAGE_TOKENS 256u
#define GAUGE_PAGES       4u /* of a sequence */
#define GAUGE_SLOTS       (GAUGE_PAGES * GAUGE_PAGE_TOKENS)

struct gauge_work {
    const struct gp_kernels *kernels; /* the level's, or the definition                        */
    gp_work_fn *run;                  /* its ctx is this struct; called again, it does the same */
    /* Items together are a run.  Of a case that is `alone` each is a call, and there may be any
     * number of them. */
    uint32_t item_count, grain;
    const uint8_t *bytes; /* what a run reads from memory; NULL: it does not */
    size_t byte_count;

    struct gp_matrix matrix;
    struct gp_activations input;
    struct gp_kv_view cache; /* of the first sequence and head                                 */
    uint32_t *pages;         /* [sequence][GAUGE_PAGES]                                        */
    uint32_t rows;
    struct gp_move *moves;
    uint8_t *scratch; /* a part for each worker */
    size_t scratch_bytes;
    float *x, *y, *queries, *out;

    struct {
        void *at;
        size_t bytes;
    } blocks[GAUGE_BLOCKS_MAX];
    uint32_t block_count;
};

struct gp_gauge {
    struct gp_kernels kernels, definition;
    struct gp_workers *workers;
    uint32_t threads;
    struct gp_gauge_options options;
    struct gp_rng rng;

    struct gp_gauge_case selected;
    struct gauge_work work;
    uint32_t calls;            /* items of a run that is alone, for the clock not to count   */
    uint32_t definition_items; /* of a run: the definition may be a thousand times slower    */
    uint64_t sums[GP_LIMIT_THREADS];
    double times[GAUGE_RUNS_MAX]; /* of the runs of a sample */
};

/* Zeroed memory of the selected case's; NULL when there is none. */
void *gp_gauge_memory(struct gp_gauge *gauge, size_t bytes);
/* The same, of random numbers from -1 to 1. */
float *gp_gauge_floats(struct gp_gauge *gauge, size_t count);
/* Gives back what was taken last. */
void gp_gauge_drop(struct gp_gauge *gauge);

/* work->input: random rows, quantised.  False: no memory. */
bool gp_gauge_input(struct gp_gauge *gauge, enum gp_activation kind, uint32_t rows, uint32_t k);

/* Bytes of a sequence. */
size_t gp_gauge_cache_bytes(enum gp_kv_type type);
/* work->cache: full of random keys and values; the pages of a sequence lie apart.  False: no
 * memory. */
bool gp_gauge_cache(struct gp_gauge *gauge, enum gp_kv_type type, uint32_t sequences);
/* Of one head of one sequence. */
struct gp_kv_view gp_gauge_view(const struct gauge_work *work, uint32_t sequence, uint32_t head);

#define GAUGE_KV_TYPES 4u
extern const enum gp_kv_type gp_gauge_kv_types[GAUGE_KV_TYPES];
const char *gp_gauge_kv_name(enum gp_kv_type type);

/* Cases that are made alike, numbered from 0. */
struct gauge_family {
    uint32_t count;
    void (*describe)(const struct gp_gauge *gauge, uint32_t n, struct gp_gauge_case *out);
    /* Fills gauge->work.  False: no memory. */
    bool (*make)(struct gp_gauge *gauge, uint32_t n);
};

extern const struct gauge_family gp_gauge_products, gp_gauge_attention, gp_gauge_calls;

#endif
