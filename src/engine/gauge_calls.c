/* The gauge's short kernels, one call after another on one thread: those of a row, and those of a
 * head's cache. */
#include <math.h>
#include <stdio.h>

#include "engine/gauge.h"

#define ROW   1024u
#define MOVES 64u
#define SCALE 0.088f

/* ---- rows ---- */

static void run_quantize(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct gauge_work *work = ctx;

    (void)worker;
    for (uint32_t i = begin; i < end; i++)
        work->kernels->quantize(&work->input, 0, 1);
}

static void run_rms_norm(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct gauge_work *work = ctx;

    (void)worker;
    for (uint32_t i = begin; i < end; i++)
        work->kernels->rms_norm(work->out, work->x, work->y, ROW, 1e-5f);
}

static void run_rms(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct gauge_work *work = ctx;

    (void)worker;
    for (uint32_t i = begin; i < end; i++)
        work->out[0] = work->kernels->rms(work->x, ROW);
}

static void run_add(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct gauge_work *work = ctx;

    (void)worker;
    for (uint32_t i = begin; i < end; i++)
        work->kernels->add(work->out, work->x, ROW);
}

static void run_silu_mul(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct gauge_work *work = ctx;

    (void)worker;
    for (uint32_t i = begin; i < end; i++)
        work->kernels->silu_mul(work->out, work->x, work->y, ROW);
}

/* y holds cosines and sines, so that x keeps its length however often it is turned. */
static void run_rope(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct gauge_work *work = ctx;

    (void)worker;
    for (uint32_t i = begin; i < end; i++)
        work->kernels->rope(work->x, work->y, work->y + GAUGE_HEAD / 2, GAUGE_HEAD, false);
}

static void run_rope_neox(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct gauge_work *work = ctx;

    (void)worker;
    for (uint32_t i = begin; i < end; i++)
        work->kernels->rope(work->x, work->y, work->y + GAUGE_HEAD / 2, GAUGE_HEAD, true);
}

static void run_ema(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct gauge_work *work = ctx;

    (void)worker;
    for (uint32_t i = begin; i < end; i++)
        work->kernels->ema(work->out, work->x, ROW, 0.9f);
}

static void run_softmax(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct gauge_work *work = ctx;

    (void)worker;
    for (uint32_t i = begin; i < end; i++)
        work->kernels->softmax(work->x, ROW);
}

static void run_max_into(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct gauge_work *work = ctx;

    (void)worker;
    for (uint32_t i = begin; i < end; i++)
        work->kernels->max_into(work->out, work->x, ROW);
}

static const struct row_kernel {
    const char *name, *type, *shape;
    gp_work_fn *run;
    enum gp_activation activation; /* what is quantised */
} row_kernels[] = {
    {"quantize", "q8", "1024", run_quantize, GP_ACTIVATION_Q8},
    {"quantize", "q8_k", "1024", run_quantize, GP_ACTIVATION_Q8_K},
    {"rms_norm", "f32", "1024", run_rms_norm},
    {"rms", "f32", "1024", run_rms},
    {"add", "f32", "1024", run_add},
    {"silu_mul", "f32", "1024", run_silu_mul},
    {"rope", "f32", "128, pairs", run_rope},
    {"rope", "f32", "128, halves", run_rope_neox},
    {"ema", "f32", "1024", run_ema},
    {"softmax", "f32", "1024", run_softmax},
    {"max_into", "f32", "1024", run_max_into},
};
#define ROW_KERNELS (sizeof row_kernels / sizeof *row_kernels)

static void set_angles(float *cosines)
{
    double inv_freq[GAUGE_HEAD / 2];

    for (uint32_t i = 0; i < GAUGE_HEAD / 2; i++)
        inv_freq[i] = pow(1e4, -2.0 * i / GAUGE_HEAD);
    gp_rope_angles(100, inv_freq, GAUGE_HEAD / 2, 1, cosines, cosines + GAUGE_HEAD / 2);
}

static bool make_row(struct gp_gauge *gauge, const struct row_kernel *kernel)
{
    struct gauge_work *work = &gauge->work;

    work->run = kernel->run;
    work->x = gp_gauge_floats(gauge, ROW);
    work->y = gp_gauge_floats(gauge, ROW);
    work->out = gp_gauge_memory(gauge, ROW * sizeof *work->out);
    if (!work->x || !work->y || !work->out)
        return false;
    if (kernel->run == run_rope || kernel->run == run_rope_neox)
        set_angles(work->y);
    return kernel->activation == GP_ACTIVATION_F32 ||
           gp_gauge_input(gauge, kernel->activation, 1, ROW);
}

/* ---- caches ---- */

static void run_store(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct gauge_work *work = ctx;

    (void)worker;
    for (uint32_t i = begin; i < end; i++)
        work->kernels->kv_store(&work->cache, i % GAUGE_SLOTS, work->x + i % GAUGE_SLOTS,
                                work->y + i % GAUGE_SLOTS);
}

static void run_scores(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct gauge_work *work = ctx;

    (void)worker;
    for (uint32_t i = begin; i < end; i++)
        work->kernels->kv_scores(&work->cache, work->queries, 0, GAUGE_SLOTS, SCALE, work->out);
}

static void run_move(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct gauge_work *work = ctx;

    (void)worker;
    for (uint32_t i = begin; i < end; i++)
        work->kernels->kv_move(&work->cache, work->moves, MOVES);
}

static const struct {
    const char *name;
    gp_work_fn *run;
} cache_kernels[] = {{"kv_store", run_store}, {"kv_scores", run_scores}, {"kv_move", run_move}};
#define CACHE_KERNELS (sizeof cache_kernels / sizeof *cache_kernels)

static bool make_cache(struct gp_gauge *gauge, uint32_t n)
{
    struct gauge_work *work = &gauge->work;

    work->run = cache_kernels[n / GAUGE_KV_TYPES].run;
    work->queries = gp_gauge_floats(gauge, GAUGE_HEAD);
    work->out = gp_gauge_memory(gauge, GAUGE_SLOTS * sizeof *work->out);
    work->moves = gp_gauge_memory(gauge, MOVES * sizeof *work->moves);
    if (!work->queries || !work->out || !work->moves)
        return false;
    /* Every other slot goes, as in a compaction. */
    for (uint32_t i = 0; i < MOVES; i++)
        work->moves[i] = (struct gp_move){.from = 64 + 2 * i, .to = 64 + i};
    return gp_gauge_cache(gauge, gp_gauge_kv_types[n % GAUGE_KV_TYPES], 1);
}

/* ---- the family ---- */

static void describe(const struct gp_gauge *gauge, uint32_t n, struct gp_gauge_case *out)
{
    uint32_t c = n - ROW_KERNELS;

    (void)gauge;
    out->alone = true;
    out->unit = GP_GAUGE_CALLS;
    if (n < ROW_KERNELS) {
        snprintf(out->kernel, sizeof out->kernel, "%s", row_kernels[n].name);
        snprintf(out->type, sizeof out->type, "%s", row_kernels[n].type);
        snprintf(out->shape, sizeof out->shape, "%s", row_kernels[n].shape);
        return;
    }
    snprintf(out->kernel, sizeof out->kernel, "%s", cache_kernels[c / GAUGE_KV_TYPES].name);
    snprintf(out->type, sizeof out->type, "%s",
             gp_gauge_kv_name(gp_gauge_kv_types[c % GAUGE_KV_TYPES]));
    if (cache_kernels[c / GAUGE_KV_TYPES].run == run_move)
        snprintf(out->shape, sizeof out->shape, "%u slots of %u + %u", MOVES, GAUGE_HEAD,
                 GAUGE_HEAD);
    else if (cache_kernels[c / GAUGE_KV_TYPES].run == run_scores)
        snprintf(out->shape, sizeof out->shape, "%u slots of %u", GAUGE_SLOTS, GAUGE_HEAD);
    else
        snprintf(out->shape, sizeof out->shape, "%u + %u", GAUGE_HEAD, GAUGE_HEAD);
}

static bool make(struct gp_gauge *gauge, uint32_t n)
{
    return n < ROW_KERNELS ? make_row(gauge, &row_kernels[n]) : make_cache(gauge, n - ROW_KERNELS);
}

const struct gauge_family gp_gauge_calls = {ROW_KERNELS + CACHE_KERNELS * GAUGE_KV_TYPES, describe,
                                            make};
