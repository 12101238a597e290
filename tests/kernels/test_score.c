/* The scorer of the fixed-budget policies, every switch of it, against plain double arithmetic that
 * works on whole tables, and between levels, to the bit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "kernels/kernels.h"

#define SLOTS  96u
#define PAGE   16u
#define DIM    16u
#define GROUP  4u
#define RING   24u
#define WINDOW 20u

static uint64_t seed;

/* A head's cache, its window, and what is asked of it. */
struct world {
    struct gp_kv_view kv;
    uint32_t pages[SLOTS / PAGE];
    float keys[SLOTS][DIM], queries[RING][GROUP][DIM], before[SLOTS];
    uint32_t position[SLOTS];
    struct gp_score_input in;
    struct gp_scorer how;
};

static uint32_t below(struct gp_rng *rng, uint32_t n)
{
    return gp_rng_below(rng, n);
}

/* Keys resemble each other often: half are an earlier one with noise. */
static void make_keys(struct world *w, struct gp_rng *rng, const struct gp_kernels *k)
{
    float value[DIM] = {0};

    for (uint32_t i = 0; i < SLOTS; i++) {
        const uint32_t like = below(rng, i + 1);
        const float noise = below(rng, 2) ? 1.0f : 0.3f;

        for (uint32_t d = 0; d < DIM; d++)
            w->keys[i][d] = (float)gp_rng_normal(rng) * noise + (i > 0 ? w->keys[like][d] : 0.0f);
        if (below(rng, 40) == 0)
            memset(w->keys[i], 0, sizeof w->keys[i]);
        k->kv_store(&w->kv, i, w->keys[i], value);
    }
}

/* Places that rise, the newest without a gap, dealt out to slots in disorder. */
static void make_positions(struct world *w, struct gp_rng *rng)
{
    uint32_t at = 0, n = w->in.slots;

    for (uint32_t i = 0; i < n; i++) {
        w->position[i] = at;
        at += i + 1 + w->in.protect + w->in.query_count >= n ? 1 : 1 + below(rng, 3);
    }
    w->in.next = at;
    for (uint32_t i = n - 1; i > 0; i--) {
        const uint32_t j = below(rng, i + 1), swapped = w->position[i];

        w->position[i] = w->position[j];
        w->position[j] = swapped;
    }
    w->in.position = w->position;
}

static void make_switches(struct gp_scorer *how, bool in_order, struct gp_rng *rng)
{
    *how = (struct gp_scorer){
        .window = WINDOW,
        .group = (enum gp_score_group)below(rng, 3),
        .window_keys = below(rng, 2),
        .reduce = (enum gp_score_reduce)below(rng, 3),
        .sinks = below(rng, 3) ? 0 : below(rng, 6),
        .lambda = 1.0f,
    };
    if (!in_order)
        return;
    how->normalize = below(rng, 2);
    how->remember_newest = below(rng, 2);
    how->history = (enum gp_score_history)below(rng, 4);
    how->decay = (float)gp_rng_uniform(rng);
    how->pool = (enum gp_score_pool)below(rng, 3);
    how->pool_width = 1 + 2 * below(rng, 4);
    how->pool_first_only = below(rng, 2);
    how->redundancy = (enum gp_score_redundancy)below(rng, 3);
    how->redundancy_scale = 0.2f + (float)gp_rng_uniform(rng);
    how->redundancy_slot0 = below(rng, 2);
    how->redundancy_normalize = below(rng, 2);
    how->lambda = (float)gp_rng_uniform(rng);
}

static void make_world(struct world *w, struct gp_rng *rng, const struct gp_kernels *k)
{
    const bool in_order = below(rng, 3) > 0;
    const uint32_t n = PAGE * (2 + below(rng, 5)) - below(rng, PAGE);

    for (uint32_t i = 0; i < SLOTS / PAGE; i++)
        w->pages[i] = i;
    make_keys(w, rng, k);
    for (uint32_t i = 0; i < RING * GROUP * DIM; i++)
        (&w->queries[0][0][0])[i] = (float)gp_rng_normal(rng) * 2.0f;
    for (uint32_t i = 0; i < SLOTS; i++)
        w->before[i] = (float)gp_rng_uniform(rng) * 0.1f;
    w->in = (struct gp_score_input){
        .kv = &w->kv,
        .slots = n,
        .queries = &w->queries[0][0][0],
        .query_stride = GROUP * DIM,
        .query_ring = RING,
        .query_first = below(rng, RING),
        .query_count = 1 + below(rng, WINDOW < n ? WINDOW : n),
        .group = 1 + below(rng, GROUP),
        .scale = 0.25f,
        .next = n,
        .protect = 1 + below(rng, n - 1),
        .before = w->before,
        .before_count = below(rng, n + 1),
        .first = below(rng, 2),
    };
    make_switches(&w->how, in_order, rng);
    if (!in_order)
        make_positions(w, rng);
}

/* ---- in double ---- */

struct exact {
    double memory[SLOTS], score[SLOTS], size[SLOTS]; /* size: what a score is a sum of */
    bool near;                                       /* a cosine that float may misread */
};

static uint32_t place(const struct world *w, uint32_t slot)
{
    return w->in.position ? w->position[slot] : slot;
}

static bool droppable(const struct world *w, uint32_t slot)
{
    return place(w, slot) + w->in.protect < w->in.next;
}

static double dot(const float *a, const float *b)
{
    double sum = 0;

    for (uint32_t d = 0; d < DIM; d++)
        sum += (double)a[d] * (double)b[d];
    return sum;
}

static void softmax(double *x, uint32_t n)
{
    double max = -INFINITY, sum = 0;

    for (uint32_t i = 0; i < n; i++)
        max = fmax(max, x[i]);
    for (uint32_t i = 0; i < n; i++)
        sum += x[i] = exp(x[i] - max);
    for (uint32_t i = 0; i < n; i++)
        x[i] /= sum;
}

static void hide(const struct world *w, uint32_t r, double *x)
{
    const uint32_t own = w->in.next - w->in.query_count + r; /* the row's own place */

    for (uint32_t i = 0; i < w->in.slots; i++)
        if (w->how.window_keys ? place(w, i) > own : !droppable(w, i))
            x[i] = -INFINITY;
}

static void attention(const struct world *w, double *out)
{
    const uint32_t n = w->in.slots, rows = w->in.query_count, group = w->in.group;

    for (uint32_t i = 0; i < n; i++)
        out[i] = 0;
    for (uint32_t r = 0; r < rows; r++) {
        double head[GROUP][SLOTS], row[SLOTS];

        for (uint32_t g = 0; g < group; g++) {
            for (uint32_t i = 0; i < n; i++)
                head[g][i] =
                    dot(w->queries[(w->in.query_first + r) % RING][g], w->keys[i]) * w->in.scale;
            if (w->how.group != GP_GROUP_LOGITS) {
                hide(w, r, head[g]);
                softmax(head[g], n);
            }
        }
        for (uint32_t i = 0; i < n; i++) {
            double sum = 0, max = head[0][i];

            for (uint32_t g = 0; g < group; g++) {
                sum += head[g][i];
                max = fmax(max, head[g][i]);
            }
            row[i] = w->how.group == GP_GROUP_MEAN ? sum / group : max;
        }
        if (w->how.group == GP_GROUP_LOGITS) {
            hide(w, r, row);
            softmax(row, n);
        }
        for (uint32_t i = 0; i < n; i++)
            out[i] = w->how.reduce == GP_REDUCE_MAX ? fmax(out[i], row[i]) : out[i] + row[i];
    }
    for (uint32_t i = 0; i < n && w->how.reduce == GP_REDUCE_MEAN; i++)
        out[i] /= rows;
}

static double top(const double *x, uint32_t n)
{
    double max = x[0];

    for (uint32_t i = 1; i < n; i++)
        max = fmax(max, x[i]);
    return max;
}

static void recall(const struct world *w, double *x, uint32_t columns)
{
    const double max = top(x, columns), decay = (double)w->how.decay;

    for (uint32_t i = 0; i < columns; i++) {
        const double before = (double)w->before[i];

        if (w->how.normalize && max > 0)
            x[i] /= max;
        if (i >= w->in.before_count)
            continue;
        if (w->how.history == GP_HISTORY_MAX)
            x[i] = fmax(decay * before, x[i]);
        if (w->how.history == GP_HISTORY_MEAN)
            x[i] = decay * before + (1 - decay) * x[i];
        if (w->how.history == GP_HISTORY_SUM)
            x[i] += decay * before;
    }
    for (uint32_t i = columns; i < w->in.slots; i++)
        x[i] = 0;
}

static void smooth(const struct world *w, const double *x, uint32_t columns, double *out)
{
    const int reach = (int)w->how.pool_width / 2;

    for (int i = 0; i < (int)columns; i++) {
        double sum = 0, max = -INFINITY;

        for (int j = i - reach; j <= i + reach; j++)
            if (j >= 0 && j < (int)columns) {
                sum += x[j];
                max = fmax(max, x[j]);
            }
        out[i] = w->how.pool == GP_POOL_MAX ? max : sum / w->how.pool_width;
    }
}

static void blame(const struct world *w, struct exact *e, double *out)
{
    const uint32_t n = w->in.slots;
    const bool by_page = w->how.redundancy == GP_REDUNDANCY_PAGE;
    double alike[SLOTS][SLOTS];

    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++) {
            const double norms = sqrt(dot(w->keys[i], w->keys[i]) * dot(w->keys[j], w->keys[j]));
            const bool counts = i != j && norms > 0 && (!by_page || i / PAGE == j / PAGE);

            alike[i][j] = counts ? dot(w->keys[i], w->keys[j]) / norms : 0;
            e->near = e->near || fabs(alike[i][j] - 0.5) < 1e-5;
        }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t newest = SLOTS;

        for (uint32_t j = 0; j < n; j++)
            if (alike[i][j] > 0.5)
                newest = j;
        if (newest < SLOTS)
            alike[i][newest] = 0;
        else if (w->how.redundancy_slot0)
            alike[i][by_page ? i / PAGE * PAGE : 0] = 0;
    }
    for (uint32_t j = 0; j < n; j++) {
        out[j] = 0;
        for (uint32_t i = 0; i < n; i++)
            out[j] += alike[i][j];
        out[j] /= (double)w->how.redundancy_scale * (by_page ? PAGE : n);
    }
    softmax(out, n);
    const double max = top(out, n - w->in.protect);

    for (uint32_t j = 0; j < n && w->how.redundancy_normalize; j++)
        out[j] /= max;
}

static void score_exactly(const struct world *w, struct exact *e)
{
    const uint32_t n = w->in.slots;
    const uint32_t columns = w->in.position || w->how.remember_newest ? n : n - w->in.protect;
    const double lambda = (double)w->how.lambda;
    double penalty[SLOTS] = {0};

    *e = (struct exact){0};
    attention(w, e->memory);
    recall(w, e->memory, columns);
    memcpy(e->score, e->memory, sizeof e->score);
    if (w->how.pool != GP_POOL_NONE && (w->in.first || !w->how.pool_first_only))
        smooth(w, e->memory, columns, e->score);
    if (w->how.redundancy != GP_REDUNDANCY_NONE)
        blame(w, e, penalty);
    for (uint32_t i = 0; i < n; i++) {
        const bool with = w->how.redundancy != GP_REDUNDANCY_NONE;

        e->size[i] = with ? lambda * e->score[i] + (1 - lambda) * penalty[i] : e->score[i];
        e->score[i] = with ? lambda * e->score[i] - (1 - lambda) * penalty[i] : e->score[i];
        if (place(w, i) < w->how.sinks && droppable(w, i))
            e->score[i] = INFINITY;
    }
}

/* ---- tests ---- */

static void open_cache(struct world *w)
{
    *w = (struct world){.kv = {.page_bytes = gp_kv_block_bytes(GP_KV_F32, PAGE, DIM, DIM),
                               .pages = w->pages,
                               .page_tokens = PAGE,
                               .k_dim = DIM,
                               .v_dim = DIM,
                               .type = GP_KV_F32}};
    w->kv.base = gp_mem_alloc(w->kv.page_bytes * (SLOTS / PAGE));
    assert_non_null(w->kv.base);
}

static bool close_to(float got, double want, double size)
{
    return isinf(want) ? isinf(got) && got > 0 : fabs((double)got - want) <= 1e-5 * size + 1e-12;
}

static void every_switch_says_what_it_says(void **state)
{
    static struct world w;
    static struct exact exact;
    struct gp_kernels k;
    struct gp_rng rng = {seed};
    uint32_t near = 0, rounds = 4000;
    float memory[SLOTS], score[SLOTS], work[3 * SLOTS + DIM];

    (void)state;
    assert_true(gp_score_work_floats(SLOTS, DIM) <= sizeof work / sizeof *work);
    gp_kernels_init(&k, gp_level_detect());
    open_cache(&w);
    for (uint32_t round = 0; round < rounds; round++) {
        make_world(&w, &rng, &k);
        gp_score(&k, &w.how, &w.in, memory, score, work);
        score_exactly(&w, &exact);
        near += exact.near;
        for (uint32_t i = 0; i < w.in.slots && !exact.near; i++) {
            if (!close_to(memory[i], exact.memory[i], exact.memory[i]))
                fail_msg("GP_SEED=%llu round %u slot %u: memory %g, not %g",
                         (unsigned long long)seed, round, i, (double)memory[i], exact.memory[i]);
            if (droppable(&w, i) && !close_to(score[i], exact.score[i], exact.size[i]))
                fail_msg("GP_SEED=%llu round %u slot %u: score %g, not %g",
                         (unsigned long long)seed, round, i, (double)score[i], exact.score[i]);
        }
    }
    assert_true(near < rounds / 10);
    gp_mem_free(w.kv.base);
}

static void levels_agree_to_the_bit(void **state)
{
    static struct world w;
    struct gp_rng rng = {seed + 1};
    float memory[2][SLOTS], score[2][SLOTS], work[3 * SLOTS + DIM];
    struct gp_kernels ref, k;

    (void)state;
    gp_kernels_init(&ref, GP_LEVEL_REF);
    open_cache(&w);
    for (uint32_t round = 0; round < 400; round++) {
        make_world(&w, &rng, &ref);
        gp_score(&ref, &w.how, &w.in, memory[0], score[0], work);
        for (int level = GP_LEVEL_REF + 1; level <= (int)gp_level_detect(); level++) {
            gp_kernels_init(&k, (enum gp_level)level);
            gp_score(&k, &w.how, &w.in, memory[1], score[1], work);
            assert_memory_equal(memory[0], memory[1], w.in.slots * sizeof(float));
            assert_memory_equal(score[0], score[1], w.in.slots * sizeof(float));
        }
    }
    gp_mem_free(w.kv.base);
}

/* The other two sources: nothing is computed, nothing is joined. */
static void sums_and_positions_are_taken_as_they_are(void **state)
{
    static struct world w;
    struct gp_rng rng = {seed + 2};
    float memory[SLOTS], score[SLOTS], work[3 * SLOTS + DIM];
    struct gp_kernels k;

    (void)state;
    gp_kernels_init(&k, gp_level_detect());
    open_cache(&w);
    for (uint32_t round = 0; round < 100; round++) {
        make_world(&w, &rng, &k);
        w.how = (struct gp_scorer){.source = GP_SCORE_ALL};
        w.in.before_count = w.in.slots;
        gp_score(&k, &w.how, &w.in, memory, score, work);
        assert_memory_equal(score, w.before, w.in.slots * sizeof(float));
        assert_memory_equal(memory, w.before, w.in.slots * sizeof(float));
        w.how = (struct gp_scorer){.source = GP_SCORE_POSITION};
        gp_score(&k, &w.how, &w.in, memory, score, work);
        for (uint32_t i = 0; i < w.in.slots; i++)
            assert_true(score[i] == (float)place(&w, i));
    }
    gp_mem_free(w.kv.base);
}

static int by_score(const void *a, const void *b)
{
    const float *x = a, *y = b; /* score, slot */

    if (x[0] != y[0])
        return x[0] > y[0] ? -1 : 1;
    return x[1] > y[1] ? -1 : x[1] < y[1];
}

static void the_best_come_first(void **state)
{
    struct gp_rng rng = {seed + 3};

    (void)state;
    for (uint32_t round = 0; round < 2000; round++) {
        const uint32_t n = below(&rng, 200), values = 1 + below(&rng, 300);
        float score[400], want[200][2];
        uint32_t slots[200];
        uint64_t scratch[200];

        for (uint32_t i = 0; i < 2 * n; i++)
            score[i] = (float)below(&rng, values) - 50.0f;
        for (uint32_t i = 0; i < n; i++) {
            slots[i] = 2 * i + below(&rng, 2);
            want[i][0] = score[slots[i]];
            want[i][1] = (float)slots[i];
        }
        if (n > 0 && round % 3 == 0)
            want[0][0] = score[slots[0]] = INFINITY;
        qsort(want, n, sizeof want[0], by_score);
        gp_best_first(score, slots, n, scratch);
        for (uint32_t i = 0; i < n; i++)
            assert_true((float)slots[i] == want[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_switch_says_what_it_says),
        cmocka_unit_test(levels_agree_to_the_bit),
        cmocka_unit_test(sums_and_positions_are_taken_as_they_are),
        cmocka_unit_test(the_best_come_first),
    };
    const char *text = getenv("GP_SEED");

    seed = text ? strtoull(text, NULL, 10) : 1;
    printf("# GP_SEED=%llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
