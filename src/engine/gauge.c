/* The gauge: the clock around kernels.
 *
 * What is compared is run in turns, a sample each, so that a machine with other work slows both.  A
 * sample is the median of as many runs as fill its time, which other work that comes between them
 * does not move; a run that is too short for the clock is many calls. */
#include "engine/gauge.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "engine/engine_internal.h"

/* To look at the clock takes some 50 ns. */
#define RUN_NS      20000u
#define READ_ITEM   (256u << 10)
#define READ_AHEAD  4096u
#define BYTES_LEAST (256ull << 20)

/* ---- memory ---- */

void *gp_gauge_memory(struct gp_gauge *gauge, size_t bytes)
{
    struct gauge_work *work = &gauge->work;
    void *block = gp_mem_map(bytes);

    gp_assert(work->block_count < GAUGE_BLOCKS_MAX);
    if (!block)
        return NULL;
    work->blocks[work->block_count].at = block;
    work->blocks[work->block_count++].bytes = bytes;
    return block;
}

float *gp_gauge_floats(struct gp_gauge *gauge, size_t count)
{
    float *x = gp_gauge_memory(gauge, count * sizeof *x);

    for (size_t i = 0; x && i < count; i++)
        x[i] = (float)(2 * gp_rng_uniform(&gauge->rng) - 1);
    return x;
}

void gp_gauge_drop(struct gp_gauge *gauge)
{
    struct gauge_work *work = &gauge->work;

    work->block_count--;
    gp_mem_unmap(work->blocks[work->block_count].at, work->blocks[work->block_count].bytes);
}

bool gp_gauge_input(struct gp_gauge *gauge, enum gp_activation kind, uint32_t rows, uint32_t k)
{
    struct gp_activations *a = &gauge->work.input;
    size_t count = (size_t)rows * k;

    *a = (struct gp_activations){.kind = kind, .k = k, .row_count = rows, .x_stride = k};
    a->x = gp_gauge_floats(gauge, count);
    a->q = gp_gauge_memory(gauge, count);
    a->scale = gp_gauge_memory(gauge, count / 32 * sizeof *a->scale);
    a->sum = gp_gauge_memory(gauge, count / 32 * sizeof *a->sum);
    if (!a->x || !a->q || !a->scale || !a->sum)
        return false;
    gauge->kernels.quantize(a, 0, rows);
    return true;
}

static void release(struct gp_gauge *gauge)
{
    while (gauge->work.block_count > 0)
        gp_gauge_drop(gauge);
    gauge->work = (struct gauge_work){0};
}

/* ---- a plain sum ---- */

/* Two of the registers that every x86-64 has, as one. */
typedef uint64_t wide __attribute__((vector_size(32), may_alias));

static uint64_t sum_of(const uint8_t *bytes, size_t count)
{
    wide sum[4] = {{0}};

    for (size_t i = 0; i + sizeof sum <= count; i += sizeof sum) {
        /* Asked for, as the kernels do it: what comes unasked is a third slower. */
        for (size_t line = 0; line < sizeof sum; line += 64)
            __builtin_prefetch((const void *)((uintptr_t)bytes + i + READ_AHEAD + line));
        for (size_t k = 0; k < 4; k++)
            sum[k] += *(const wide *)(const void *)(bytes + i + k * sizeof *sum);
    }
    sum[0] += sum[1] + sum[2] + sum[3];
    return sum[0][0] + sum[0][1] + sum[0][2] + sum[0][3];
}

static void read_items(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    struct gp_gauge *gauge = ctx;
    size_t from = (size_t)begin * READ_ITEM, to = (size_t)end * READ_ITEM;

    if (to > gauge->work.byte_count)
        to = gauge->work.byte_count;
    /* Kept, so that it is done. */
    gauge->sums[worker] += sum_of(gauge->work.bytes + from, to - from);
}

static void run_read(struct gp_gauge *gauge)
{
    uint32_t items = (uint32_t)((gauge->work.byte_count + READ_ITEM - 1) / READ_ITEM);

    gp_workers_run(gauge->workers, items, 1, read_items, gauge);
}

static void describe_read(const struct gp_gauge *gauge, uint32_t n, struct gp_gauge_case *out)
{
    (void)n;
    snprintf(out->kernel, sizeof out->kernel, "read");
    snprintf(out->shape, sizeof out->shape, "%llu MiB",
             (unsigned long long)(gauge->options.bytes >> 20));
    out->unit = GP_GAUGE_BYTES;
    out->work = (double)gauge->options.bytes;
}

/* Pages that nobody has written are all the same one. */
static void write_items(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    struct gp_gauge *gauge = ctx;
    uint64_t *words = gauge->work.blocks[0].at;
    size_t each = READ_ITEM / sizeof *words, count = gauge->work.byte_count / sizeof *words;

    (void)worker;
    for (size_t i = begin * each; i < end * each && i < count; i++)
        words[i] = i;
}

static bool make_read(struct gp_gauge *gauge, uint32_t n)
{
    struct gauge_work *work = &gauge->work;

    (void)n;
    work->bytes = gp_gauge_memory(gauge, gauge->options.bytes);
    work->byte_count = gauge->options.bytes;
    if (work->bytes)
        gp_workers_run(gauge->workers, (uint32_t)(work->byte_count / READ_ITEM) + 1, 1, write_items,
                       gauge);
    return work->bytes != NULL;
}

static const struct gauge_family reading = {1, describe_read, make_read};

/* ---- cases ---- */

static const struct gauge_family *const families[] = {
    &reading,
    &gp_gauge_products,
    &gp_gauge_attention,
    &gp_gauge_calls,
};

/* NULL behind the last; *index becomes the number within the family. */
static const struct gauge_family *find_family(uint32_t *index)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (*index < families[i]->count)
            return families[i];
        *index -= families[i]->count;
    }
    return NULL;
}

bool gp_gauge_case(const struct gp_gauge *gauge, uint32_t index, struct gp_gauge_case *out)
{
    const struct gauge_family *family = find_family(&index);

    if (!family)
        return false;
    *out = (struct gp_gauge_case){.type = "", .rows = 1, .work = 1};
    family->describe(gauge, index, out);
    out->threads = out->alone ? 1 : gauge->threads;
    return true;
}

/* ---- time ---- */

static void run_items(struct gp_gauge *gauge, const struct gp_kernels *kernels, uint32_t items)
{
    gauge->work.kernels = kernels;
    gauge->work.run(&gauge->work, 0, items, 0);
}

static void run_case(struct gp_gauge *gauge)
{
    struct gauge_work *work = &gauge->work;

    work->kernels = &gauge->kernels;
    if (!work->run)
        run_read(gauge);
    else if (gauge->selected.alone)
        work->run(work, 0, gauge->calls, 0);
    else
        gp_workers_run(gauge->workers, work->item_count, work->grain, work->run, work);
}

static void run_definition(struct gp_gauge *gauge)
{
    run_items(gauge, &gauge->definition, gauge->definition_items);
}

/* As many items as take the clock's time, but no more than `most`. */
static uint32_t enough_items(struct gp_gauge *gauge, const struct gp_kernels *kernels,
                             uint32_t most)
{
    for (uint32_t items = 1;; items *= 2) {
        uint64_t start = gp_clock_ns();

        if (items > most)
            return most;
        run_items(gauge, kernels, items);
        if (gp_clock_ns() - start >= RUN_NS)
            return items;
    }
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Of one run, in ns: the median over `least` ns. */
static double time_of(struct gp_gauge *gauge, void (*run)(struct gp_gauge *), uint64_t least)
{
    const uint64_t start = gp_clock_ns();
    uint64_t before = start, now;
    uint32_t count = 0;

    do {
        run(gauge);
        now = gp_clock_ns();
        gauge->times[count++] = (double)(now - before);
        before = now;
    } while (now - start < least && count < GAUGE_RUNS_MAX);
    qsort(gauge->times, count, sizeof *gauge->times, ascending);
    return (gauge->times[count / 2] + gauge->times[(count - 1) / 2]) / 2;
}

static bool has_definition(const struct gp_gauge *gauge)
{
    return gauge->work.run && gauge->selected.threads == 1 &&
           gauge->kernels.matmul != gauge->definition.matmul;
}

int gp_gauge_select(struct gp_gauge *gauge, uint32_t index, struct gp_error *err)
{
    bool there = gp_gauge_case(gauge, index, &gauge->selected);
    const struct gauge_family *family = find_family(&index);

    gp_assert(there && family);
    release(gauge);
    if (!family->make(gauge, index)) {
        release(gauge);
        return gp_fail(err, GP_ENOMEM, "%s %s: no memory", gauge->selected.kernel,
                       gauge->selected.type);
    }
    if (gauge->selected.alone)
        gauge->calls = enough_items(gauge, &gauge->kernels, UINT32_MAX / 2);
    if (has_definition(gauge))
        gauge->definition_items =
            enough_items(gauge, &gauge->definition,
                         gauge->selected.alone ? UINT32_MAX / 2 : gauge->work.item_count);
    run_case(gauge);
    return GP_OK;
}

void gp_gauge_take(struct gp_gauge *gauge, struct gp_gauge_sample *out)
{
    const struct gauge_work *work = &gauge->work;
    uint64_t least = gauge->options.sample_ns;
    uint32_t items = gauge->selected.alone ? gauge->calls : work->item_count;

    gp_assert(work->block_count > 0);
    *out = (struct gp_gauge_sample){.ns = time_of(gauge, run_case, least)};
    if (gauge->selected.alone)
        out->ns /= items;
    if (work->run && work->bytes)
        out->read_ns = time_of(gauge, run_read, least);
    if (has_definition(gauge)) {
        double ns = time_of(gauge, run_definition, least / 4) / gauge->definition_items;

        out->definition_ns = gauge->selected.alone ? ns : ns * items;
    }
}

/* ---- life ---- */

static uint64_t bytes_past_caches(void)
{
    long last = sysconf(_SC_LEVEL3_CACHE_SIZE);
    uint64_t bytes = last > 0 ? 4 * (uint64_t)last : 0;

    return bytes > BYTES_LEAST ? bytes : BYTES_LEAST;
}

int gp_gauge_open(struct gp_gauge **out, const struct gp_gauge_options *options,
                  struct gp_error *err)
{
    struct gp_gauge *gauge = gp_mem_alloc(sizeof *gauge);
    enum gp_level level;

    if (!gauge)
        return gp_fail(err, GP_ENOMEM, "out of memory");
    gauge->options = *options;
    gauge->threads = gp_engine_threads(options->threads);
    gauge->rng.state = 1;
    if (gauge->options.bytes == 0)
        gauge->options.bytes = bytes_past_caches();
    /* Whole items of the sum. */
    gauge->options.bytes = (gauge->options.bytes + READ_ITEM - 1) / READ_ITEM * READ_ITEM;
    int rc = gp_level_choose(options->cpu ? options->cpu : getenv("GP_CPU"), &level, err);
    if (!rc)
        rc = gp_workers_open(&gauge->workers, gauge->threads, err);
    if (rc) {
        gp_gauge_close(gauge);
        return rc;
    }
    gp_kernels_init(&gauge->kernels, level);
    gp_kernels_init(&gauge->definition, GP_LEVEL_REF);
    *out = gauge;
    return GP_OK;
}

void gp_gauge_close(struct gp_gauge *gauge)
{
    if (!gauge)
        return;
    release(gauge);
    gp_workers_close(gauge->workers);
    gp_mem_free(gauge);
}

const char *gp_gauge_level(const struct gp_gauge *gauge)
{
    return gauge->kernels.level;
}
