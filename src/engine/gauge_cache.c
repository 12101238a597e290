/* The gauge's caches, and attention over them: one row of many sequences, as tokens are generated,
 * and some rows of a few, as a prompt is read. */
#include <stdio.h>

#include "engine/gauge.h"

#define GROUP        2u /* query heads over one of the cache */
#define PREFILL_ROWS 8u
#define SCALE        0.088f

const enum gp_kv_type gp_gauge_kv_types[GAUGE_KV_TYPES] = {GP_KV_F16, GP_KV_BF16, GP_KV_F32,
                                                           GP_KV_Q8_0};

const char *gp_gauge_kv_name(enum gp_kv_type type)
{
    static const char *const names[] = {
        [GP_KV_F32] = "f32", [GP_KV_F16] = "f16", [GP_KV_BF16] = "bf16", [GP_KV_Q8_0] = "q8_0"};

    return names[type];
}

/* ---- caches ---- */

static size_t page_bytes(enum gp_kv_type type)
{
    return GAUGE_HEADS * gp_kv_block_bytes(type, GAUGE_PAGE_TOKENS, GAUGE_HEAD, GAUGE_HEAD);
}

size_t gp_gauge_cache_bytes(enum gp_kv_type type)
{
    return GAUGE_PAGES * page_bytes(type);
}

struct gp_kv_view gp_gauge_view(const struct gauge_work *work, uint32_t sequence, uint32_t head)
{
    struct gp_kv_view view = work->cache;

    view.pages = work->pages + (size_t)sequence * GAUGE_PAGES;
    view.block_offset = head * (view.page_bytes / GAUGE_HEADS);
    return view;
}

/* Items are heads of sequences. */
static void fill(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct gp_gauge *gauge = ctx;
    const struct gauge_work *work = &gauge->work;

    (void)worker;
    for (uint32_t i = begin; i < end; i++) {
        struct gp_kv_view view = gp_gauge_view(work, i / GAUGE_HEADS, i % GAUGE_HEADS);

        for (uint32_t slot = 0; slot < GAUGE_SLOTS; slot++)
            gauge->kernels.kv_store(&view, slot, work->x + slot,
                                    work->y + (slot + i) % GAUGE_SLOTS);
    }
}

/* The pages of all sequences in a random order. */
static void deal_pages(struct gp_gauge *gauge, uint32_t sequences)
{
    uint32_t *pages = gauge->work.pages, count = sequences * GAUGE_PAGES;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t other = gp_rng_below(&gauge->rng, i + 1);

        pages[i] = pages[other];
        pages[other] = i;
    }
}

bool gp_gauge_cache(struct gp_gauge *gauge, enum gp_kv_type type, uint32_t sequences)
{
    struct gauge_work *work = &gauge->work;

    work->pages = gp_gauge_memory(gauge, (size_t)sequences * GAUGE_PAGES * sizeof *work->pages);
    work->x = gp_gauge_floats(gauge, GAUGE_SLOTS + GAUGE_HEAD);
    work->y = gp_gauge_floats(gauge, GAUGE_SLOTS + GAUGE_HEAD);
    work->cache = (struct gp_kv_view){
        .base = gp_gauge_memory(gauge, sequences * gp_gauge_cache_bytes(type)),
        .page_bytes = page_bytes(type),
        .pages = work->pages,
        .page_tokens = GAUGE_PAGE_TOKENS,
        .k_dim = GAUGE_HEAD,
        .v_dim = GAUGE_HEAD,
        .type = type,
    };
    if (!work->pages || !work->x || !work->y || !work->cache.base)
        return false;
    deal_pages(gauge, sequences);
    gp_workers_run(gauge->workers, sequences * GAUGE_HEADS, 1, fill, gauge);
    return true;
}

/* ---- attention ---- */

static enum gp_kv_type type_of(uint32_t n)
{
    return gp_gauge_kv_types[n % GAUGE_KV_TYPES];
}

static uint32_t rows_of(uint32_t n)
{
    return n < GAUGE_KV_TYPES ? 1 : PREFILL_ROWS;
}

static uint32_t sequences_of(const struct gp_gauge *gauge, uint32_t n)
{
    uint64_t fit = gauge->options.bytes / gp_gauge_cache_bytes(type_of(n));

    /* Of a prompt, four items for each worker. */
    if (rows_of(n) > 1)
        return (gauge->threads * 4 + GAUGE_HEADS - 1) / GAUGE_HEADS;
    return fit < 1 ? 1 : fit < UINT16_MAX ? (uint32_t)fit : UINT16_MAX;
}

/* Row r of count sees all that its predecessors do, and one more; the last one sees all. */
static uint32_t visible_to(uint32_t row, uint32_t count)
{
    return GAUGE_SLOTS - count + row + 1;
}

static void describe(const struct gp_gauge *gauge, uint32_t n, struct gp_gauge_case *out)
{
    uint32_t sequences = sequences_of(gauge, n), rows = rows_of(n);
    double seen = 0;

    for (uint32_t r = 0; r < rows; r++)
        seen += visible_to(r, rows);
    out->rows = rows;
    out->unit = rows == 1 ? GP_GAUGE_BYTES : GP_GAUGE_MACS;
    out->work = rows == 1 ? (double)(sequences * gp_gauge_cache_bytes(type_of(n)))
                          : seen * 2 * GAUGE_HEAD * GROUP * sequences * GAUGE_HEADS;
    snprintf(out->kernel, sizeof out->kernel, "attention");
    snprintf(out->type, sizeof out->type, "%s", gp_gauge_kv_name(type_of(n)));
    snprintf(out->shape, sizeof out->shape, "%u slots, %u heads of %u", GAUGE_SLOTS, GROUP,
             GAUGE_HEAD);
}

/* Items are heads of the cache, of all sequences. */
static void run(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct gauge_work *work = ctx;
    const size_t row = (size_t)GAUGE_HEADS * GROUP * GAUGE_HEAD;
    uint32_t visible[PREFILL_ROWS];

    for (uint32_t r = 0; r < work->rows; r++)
        visible[r] = visible_to(r, work->rows);
    for (uint32_t i = begin; i < end; i++) {
        uint32_t sequence = i / GAUGE_HEADS, head = i % GAUGE_HEADS;
        struct gp_kv_view view = gp_gauge_view(work, sequence, head);
        size_t at = sequence * work->rows * row + (size_t)head * GROUP * GAUGE_HEAD;

        work->kernels->attention(&view, work->queries + at, row, GROUP, work->rows, visible, SCALE,
                                 work->out + at, row, work->scratch + worker * work->scratch_bytes);
    }
}

static bool make(struct gp_gauge *gauge, uint32_t n)
{
    struct gauge_work *work = &gauge->work;
    uint32_t sequences = sequences_of(gauge, n);
    size_t floats = (size_t)sequences * rows_of(n) * GAUGE_HEADS * GROUP * GAUGE_HEAD;

    work->run = run;
    work->rows = rows_of(n);
    work->item_count = sequences * GAUGE_HEADS;
    work->grain = 1;
    /* Whole lines of the cache for each worker. */
    work->scratch_bytes = (gp_attention_scratch_bytes(GROUP, GAUGE_HEAD) + 63) / 64 * 64;
    work->scratch = gp_gauge_memory(gauge, gauge->threads * work->scratch_bytes);
    work->queries = gp_gauge_floats(gauge, floats);
    work->out = gp_gauge_memory(gauge, floats * sizeof *work->out);
    if (!work->scratch || !work->queries || !work->out ||
        !gp_gauge_cache(gauge, type_of(n), sequences))
        return false;
    if (work->rows == 1) {
        work->bytes = work->cache.base;
        work->byte_count = sequences * gp_gauge_cache_bytes(type_of(n));
    }
    return true;
}

const struct gauge_family gp_gauge_attention = {2 * GAUGE_KV_TYPES, describe, make};
