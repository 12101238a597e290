/* Speed of the kernels.
 *
 *   kernels            each entry, the best level against the definition, and products alone
 *
 * Built by hand against the library (as the checker, it uses the room's own header):
 *   gcc -std=gnu11 -O2 -D_GNU_SOURCE -Iinclude -Isrc bench/kernels.c build/libgrowpage.a -lm
 *   -pthread
 *
 * Ratios come from alternating runs in one process, the best of each; a rate is bytes of weights
 * (as packed) per second for one row, and multiply-adds per second for many. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/workers.h"
#include "kernels/kernels.h"

static struct gp_kernels ref, wide;
static struct gp_rng rng = {1};

static void *take(size_t bytes)
{
    void *block = gp_mem_map(bytes);

    if (!block) {
        fprintf(stderr, "kernels: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return block;
}

static float *floats(size_t n)
{
    float *x = take(n * sizeof *x);

    for (size_t i = 0; i < n; i++)
        x[i] = (float)gp_rng_normal(&rng);
    return x;
}

/* ---- products ---- */

struct product {
    const struct gp_kernels *k;
    struct gp_matrix w;
    struct gp_activations a;
    float *y;
};

static void product_make(struct product *p, enum gp_type type, uint32_t n_out, uint32_t n_in,
                         uint32_t rows)
{
    const struct gp_type_info *info = gp_type_info(type);
    const size_t bytes = (size_t)n_out * (n_in / info->block_elems) * info->block_bytes;
    const uint16_t half = gp_f32_to_f16(0.01f);
    uint8_t *file = take(bytes), *data = take(gp_matrix_bytes(type, n_out, n_in));

    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        const uint64_t word = gp_rng_next(&rng) & 0x3f3f3f3f3f3f3f3f; /* every float is finite */

        memcpy(file + i, &word, sizeof word);
    }
    for (size_t i = 0; i < bytes; i += info->block_bytes) /* and the scales are plain */
        memcpy(file + i + (type == GP_TYPE_Q6_K ? 208 : 0), &half, sizeof half);
    p->w = (struct gp_matrix){type, n_out, n_in, data};
    gp_matrix_pack(&p->w, data, file, 0, n_out);
    gp_mem_unmap(file, bytes);
    p->a = (struct gp_activations){.kind = info->activation,
                                   .k = n_in,
                                   .row_count = rows,
                                   .x = floats((size_t)rows * n_in),
                                   .x_stride = n_in};
    p->a.q = take((size_t)rows * n_in);
    p->a.scale = take((size_t)rows * n_in / 32 * sizeof(float) + 4);
    p->a.sum = take((size_t)rows * n_in / 32 * sizeof(int32_t) + 4);
    wide.quantize(&p->a, 0, rows);
    p->y = take((size_t)rows * n_out * sizeof(float));
}

static void product_free(struct product *p)
{
    const size_t rows = p->a.row_count, n_in = p->w.n_in;

    gp_mem_unmap((void *)(uintptr_t)p->w.data, gp_matrix_bytes(p->w.type, p->w.n_out, p->w.n_in));
    gp_mem_unmap((void *)(uintptr_t)p->a.x, rows * n_in * sizeof(float));
    gp_mem_unmap(p->a.q, rows * n_in);
    gp_mem_unmap(p->a.scale, rows * n_in / 32 * sizeof(float) + 4);
    gp_mem_unmap(p->a.sum, rows * n_in / 32 * sizeof(int32_t) + 4);
    gp_mem_unmap(p->y, rows * p->w.n_out * sizeof(float));
}

static void product_run(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    struct product *p = ctx;
    const uint32_t to = end * GP_MATRIX_ROWS < p->w.n_out ? end * GP_MATRIX_ROWS : p->w.n_out;

    (void)worker;
    p->k->matmul(&p->w, &p->a, p->y, p->w.n_out, begin * GP_MATRIX_ROWS, to);
}

static double product_seconds(struct product *p, struct gp_workers *workers, uint32_t tries)
{
    double best = 1e9;

    for (uint32_t i = 0; i < tries; i++) {
        const uint64_t start = gp_clock_ns();
        double s;

        gp_workers_run(workers, p->w.n_out / GP_MATRIX_ROWS, 8, product_run, p);
        s = (double)(gp_clock_ns() - start) * 1e-9;
        best = s < best ? s : best;
    }
    return best;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, other = *(const double *)b;

    return x < other ? -1 : x > other;
}

/* Bytes of weights per second for one row and one thread: the median over pieces of about a
 * megabyte, which are shorter than a turn on a shared machine, of a matrix that no cache holds. */
static double stream_rate(struct product *p)
{
    const size_t group_bytes = gp_matrix_bytes(p->w.type, GP_MATRIX_ROWS, p->w.n_in);
    const uint32_t groups = p->w.n_out / GP_MATRIX_ROWS,
                   piece = 1048576 / (uint32_t)group_bytes + 1;
    static double rate[4096];
    uint32_t count = 0;

    for (uint32_t pass = 0; pass < 3; pass++)
        for (uint32_t g = 0; g + piece <= groups && count < 4096; g += piece) {
            const uint64_t start = gp_clock_ns();

            product_run(p, g, g + piece, 0);
            rate[count++] = (double)(piece * group_bytes) / (double)(gp_clock_ns() - start);
        }
    qsort(rate, count, sizeof *rate, ascending);
    return rate[count / 2];
}

static const enum gp_type types[] = {
    GP_TYPE_F32,  GP_TYPE_F16,  GP_TYPE_BF16,   GP_TYPE_Q8_0, GP_TYPE_Q4_0, GP_TYPE_Q4_1,
    GP_TYPE_Q5_0, GP_TYPE_Q5_1, GP_TYPE_IQ4_NL, GP_TYPE_Q4_K, GP_TYPE_Q5_K, GP_TYPE_Q6_K,
};

/* Rates of products: a matrix past every cache with one row, and a small one with many. */
static void bench_products(struct gp_workers *one, struct gp_workers *two)
{
    static const uint32_t many[] = {2, 4, 8, 64, 512};

    printf("%-8s %11s %11s", "type", "M=1 GB/s", "M=1 GB/s");
    for (size_t m = 0; m < sizeof many / sizeof *many; m++)
        printf("   M=%-3u GMA/s", many[m]);
    printf("\n%-8s %11s %11s%15s\n", "", "1 thread", "2 threads", "1 thread");
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        struct product p;
        double bytes, s;

        product_make(&p, types[t], 32768, 4096, 1);
        p.k = &wide;
        bytes = (double)gp_matrix_bytes(types[t], 32768, 4096);
        printf("%-8s %11.1f", gp_type_name(types[t]), stream_rate(&p));
        printf(" %11.1f", bytes / product_seconds(&p, two, 15) * 1e-9);
        product_free(&p);
        for (size_t m = 0; m < sizeof many / sizeof *many; m++) {
            product_make(&p, types[t], 256, 2048, many[m]);
            p.k = &wide;
            s = product_seconds(&p, one, many[m] > 8 ? 30 : 200);
            printf(" %13.1f", 256.0 * 2048 * many[m] / s * 1e-9);
            product_free(&p);
        }
        printf("\n");
        fflush(stdout);
    }
}

/* ---- ratios ---- */

struct entry {
    const char *name;
    void (*run)(const struct gp_kernels *k);
};

static struct product small;
static float *x, *y, *z;
static struct gp_kv_view kv;
static uint32_t kv_pages[16];
static void *scratch;

#define ROW   576u
#define SLOTS 2048u

static void run_quantize(const struct gp_kernels *k)
{
    k->quantize(&small.a, 0, small.a.row_count);
}

static void run_matmul(const struct gp_kernels *k)
{
    small.k = k;
    product_run(&small, 0, small.w.n_out / GP_MATRIX_ROWS, 0);
}

static void run_rms_norm(const struct gp_kernels *k)
{
    k->rms_norm(z, x, y, ROW, 1e-5f);
}

static void run_add(const struct gp_kernels *k)
{
    k->add(z, x, ROW);
}

static void run_silu_mul(const struct gp_kernels *k)
{
    k->silu_mul(z, x, y, ROW);
}

static void run_rope(const struct gp_kernels *k)
{
    k->rope(x, y, y + 32, 64, false);
}

static void run_rope_neox(const struct gp_kernels *k)
{
    k->rope(x, y, y + 32, 64, true);
}

static void run_ema(const struct gp_kernels *k)
{
    k->ema(z, x, ROW, 0.9f);
}

static void run_softmax(const struct gp_kernels *k)
{
    memcpy(z, x, SLOTS * sizeof *z);
    k->softmax(z, SLOTS);
}

static void run_max_into(const struct gp_kernels *k)
{
    k->max_into(z, x, ROW);
}

static void run_kv_store(const struct gp_kernels *k)
{
    for (uint32_t slot = 0; slot < 16; slot++)
        k->kv_store(&kv, slot, x, y);
}

static void run_kv_scores(const struct gp_kernels *k)
{
    k->kv_scores(&kv, x, 0, SLOTS, 0.125f, z);
}

/* Three heads over one, as SmolLM2 has it; then eight rows of a prompt. */
static void run_decode(const struct gp_kernels *k)
{
    const uint32_t visible = SLOTS;

    k->attention(&kv, x, 192, 3, 1, &visible, 0.125f, z, 192, scratch);
}

static void run_prefill(const struct gp_kernels *k)
{
    uint32_t visible[8];

    for (uint32_t r = 0; r < 8; r++)
        visible[r] = SLOTS - 8 + r;
    k->attention(&kv, x, 192, 3, 8, visible, 0.125f, z, 192, scratch);
}

/* A cache full of x and y, in pages of 256. */
static struct gp_kv_view cache_of(enum gp_kv_type type)
{
    struct gp_kv_view view = {.page_bytes = gp_kv_block_bytes(type, 256, 64, 64),
                              .pages = kv_pages,
                              .page_tokens = 256,
                              .k_dim = 64,
                              .v_dim = 64,
                              .type = type};

    view.base = take(8 * view.page_bytes);
    for (uint32_t i = 0; i < 8; i++)
        kv_pages[i] = i;
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        wide.kv_store(&view, slot, x + slot, y + slot);
    return view;
}

/* Two ways to do the same, in turns: the best of each, and the ratio. */
struct side {
    const struct gp_kernels *kernels;
    struct gp_kv_view kv;
};

static void compare(const struct entry *e, const struct side sides[2])
{
    uint64_t best[2] = {UINT64_MAX, UINT64_MAX};

    for (uint32_t i = 0; i < 60; i++) {
        uint64_t start, ns;

        kv = sides[i % 2].kv;
        start = gp_clock_ns();
        e->run(sides[i % 2].kernels);
        ns = gp_clock_ns() - start;
        best[i % 2] = ns < best[i % 2] ? ns : best[i % 2];
    }
    printf("%-28s %12llu %12llu %7.2fx\n", e->name, (unsigned long long)best[0],
           (unsigned long long)best[1], (double)best[0] / (double)best[1]);
}

static void bench_cache_types(void)
{
    static const struct entry entries[] = {
        {"kv_store 16 x 64", run_kv_store},
        {"kv_scores 2048 x 64", run_kv_scores},
        {"attention decode 2048 g=3", run_decode},
        {"attention prefill 8 rows", run_prefill},
    };
    const struct side sides[2] = {{&wide, cache_of(GP_KV_F16)}, {&wide, cache_of(GP_KV_Q8_0)}};

    printf("%-28s %12s %12s %8s\n", wide.level, "f16 ns", "q8_0 ns", "ratio");
    for (size_t e = 0; e < sizeof entries / sizeof *entries; e++)
        compare(&entries[e], sides);
}

static void bench_ratios(void)
{
    static const struct entry entries[] = {
        {"quantize 4x576", run_quantize},
        {"matmul Q4_1 576x576 M=4", run_matmul},
        {"rms_norm 576", run_rms_norm},
        {"add 576", run_add},
        {"silu_mul 576", run_silu_mul},
        {"rope 64", run_rope},
        {"rope 64 neox", run_rope_neox},
        {"ema 576", run_ema},
        {"softmax 2048", run_softmax},
        {"max_into 576", run_max_into},
        {"kv_store 16 x 64 f16", run_kv_store},
        {"kv_scores 2048 x 64 f16", run_kv_scores},
        {"attention decode 2048 g=3", run_decode},
        {"attention prefill 8 rows", run_prefill},
    };

    product_make(&small, GP_TYPE_Q4_1, ROW, ROW, 4);
    x = floats(8192);
    y = floats(8192);
    z = floats(8192);
    scratch = take(gp_attention_scratch_bytes(3, 64));
    const struct gp_kv_view cache = cache_of(GP_KV_F16);
    const struct side sides[2] = {{&ref, cache}, {&wide, cache}};

    printf("%-28s %12s %12s %8s\n", "entry", "ref ns", wide.level, "ratio");
    for (size_t e = 0; e < sizeof entries / sizeof *entries; e++)
        compare(&entries[e], sides);
}

int main(void)
{
    struct gp_workers *one, *two;

    gp_kernels_init(&ref, GP_LEVEL_REF);
    gp_kernels_init(&wide, gp_level_detect());
    if (gp_workers_open(&one, 1, NULL) || gp_workers_open(&two, 2, NULL))
        return 1;
    bench_ratios();
    bench_cache_types();
    bench_products(one, two);
    gp_workers_close(one);
    gp_workers_close(two);
    return 0;
}
