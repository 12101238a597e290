/* The paged cache: stores, moves, scores, attention. */
#include "check/check.h"

static const uint32_t dims[] = {16, 24, 32, 64, 80, 128};

/* A length near n that the type can have. */
static uint32_t dim_of(int type, uint32_t n)
{
    return type == GP_KV_Q8_0 ? (n + 31) / 32 * 32 : n;
}

/* One (layer, KV head) of a sequence in a pool of shuffled pages that ends at the guard. */
struct cache {
    struct gp_kv_view view;
    uint32_t page_count;
    uint32_t *pages;
};

static struct cache cache_make(enum gp_kv_type type, uint32_t page_tokens, uint32_t k_dim,
                               uint32_t v_dim, uint32_t slot_count, struct gp_rng *rng)
{
    struct cache cache = {.page_count = (slot_count + page_tokens - 1) / page_tokens};
    const size_t block_bytes = gp_kv_block_bytes(type, page_tokens, k_dim, v_dim);
    const size_t page_bytes = 2 * block_bytes; /* ours is the second of two heads */

    cache.pages = check_guarded(cache.page_count * sizeof *cache.pages);
    for (uint32_t i = 0; i < cache.page_count; i++)
        cache.pages[i] = i;
    for (uint32_t i = cache.page_count; i > 1; i--) {
        const uint32_t j = gp_rng_below(rng, i), page = cache.pages[j];

        cache.pages[j] = cache.pages[i - 1];
        cache.pages[i - 1] = page;
    }
    cache.view = (struct gp_kv_view){
        .base = check_guarded(cache.page_count * page_bytes),
        .page_bytes = page_bytes,
        .block_offset = block_bytes,
        .pages = cache.pages,
        .page_tokens = page_tokens,
        .k_dim = k_dim,
        .v_dim = v_dim,
        .type = type,
    };
    memset(cache.view.base, 0xff, cache.page_count * page_bytes); /* NaN in every type */
    return cache;
}

static void cache_free(struct cache *cache)
{
    check_free(cache->view.base);
    check_free(cache->pages);
}

/* Keys and values for slots [0, slot_count); what lies behind stays NaN. */
static void cache_fill(struct cache *cache, const struct gp_kernels *k, uint32_t slot_count,
                       enum check_fill fill, struct gp_rng *rng)
{
    const struct gp_kv_view *kv = &cache->view;
    float key[512], value[512];

    for (uint32_t slot = 0; slot < slot_count; slot++) {
        check_fill(key, kv->k_dim, fill, rng);
        check_fill(value, kv->v_dim, fill, rng);
        k->kv_store(kv, slot, key, value);
    }
}

static size_t pool_bytes(const struct cache *cache)
{
    return cache->page_count * cache->view.page_bytes;
}

static void kv_store_all(struct check *c)
{
    for (int type = GP_KV_F32; type <= GP_KV_Q8_0; type++)
        for (size_t d = 0; d < CHECK_COUNT(dims) + 2; d++)
            for (int fill = 0; fill < CHECK_FILLS; fill++) {
                const uint32_t k_dim = dim_of(type, d < CHECK_COUNT(dims) ? dims[d] : 20);
                const uint32_t v_dim = dim_of(type, k_dim + d % 3);
                struct cache want =
                    cache_make((enum gp_kv_type)type, 32, k_dim, v_dim, 64, &c->rng);
                struct cache got = want;

                got.view.base = check_guarded(pool_bytes(&want));
                memset(got.view.base, 0xff, pool_bytes(&want));
                for (uint32_t i = 0; i < 20; i++) {
                    float *key = check_floats(k_dim, (enum check_fill)fill, &c->rng);
                    float *value = check_floats(v_dim, (enum check_fill)fill, &c->rng);
                    const uint32_t slot = gp_rng_below(&c->rng, 64);

                    c->ref.kv_store(&want.view, slot, key, value);
                    c->wide.kv_store(&got.view, slot, key, value);
                    check_free(key);
                    check_free(value);
                }
                assert_memory_equal(want.view.base, got.view.base, pool_bytes(&want));
                check_free(got.view.base);
                cache_free(&want);
            }
}

void check_kv_store_equals_definition(void **state)
{
    (void)state;
    check_levels(kv_store_all);
}

static void kv_move_all(struct check *c)
{
    for (int type = GP_KV_F32; type <= GP_KV_Q8_0; type++)
        for (uint32_t round = 0; round < 20; round++) {
            const uint32_t slots = 96;
            struct cache want = cache_make((enum gp_kv_type)type, 32, dim_of(type, 24),
                                           dim_of(type, 40), slots, &c->rng);
            struct cache got = want;
            struct gp_move *moves = check_guarded(slots * sizeof *moves);
            uint32_t count = 0, to = 0;

            cache_fill(&want, &c->ref, slots, CHECK_PLAIN, &c->rng);
            got.view.base = check_guarded(pool_bytes(&want));
            memcpy(got.view.base, want.view.base, pool_bytes(&want));
            for (uint32_t from = 0; from < slots; from++)
                if (gp_rng_below(&c->rng, 3) == 0)
                    moves[count++] = (struct gp_move){from, to++};
            c->ref.kv_move(&want.view, moves, count);
            c->wide.kv_move(&got.view, moves, count);
            assert_memory_equal(want.view.base, got.view.base, pool_bytes(&want));
            check_free(got.view.base);
            check_free(moves);
            cache_free(&want);
        }
}

void check_kv_move_equals_definition(void **state)
{
    (void)state;
    check_levels(kv_move_all);
}

static void kv_load_all(struct check *c)
{
    for (int type = GP_KV_F32; type <= GP_KV_Q8_0; type++)
        for (int fill = 0; fill < CHECK_FILLS; fill++) {
            const uint32_t k_dim = dim_of(type, 24), v_dim = dim_of(type, 40), slots = 64;
            struct cache cache =
                cache_make((enum gp_kv_type)type, 32, k_dim, v_dim, slots, &c->rng);
            float *want = check_floats(k_dim + v_dim, CHECK_PLAIN, &c->rng);
            float *key = check_floats(k_dim, CHECK_PLAIN, &c->rng);
            float *value = check_floats(v_dim, CHECK_PLAIN, &c->rng);

            cache_fill(&cache, &c->ref, slots, (enum check_fill)fill, &c->rng);
            for (uint32_t slot = 0; slot < slots; slot++) {
                c->ref.kv_load(&cache.view, slot, want, want + k_dim);
                c->wide.kv_load(&cache.view, slot, key, slot % 2 ? value : NULL);
                check_same(want, key, k_dim, "key of slot %u, type %d", slot, type);
                if (slot % 2)
                    check_same(want + k_dim, value, v_dim, "value of slot %u, type %d", slot, type);
            }
            check_free(want);
            check_free(key);
            check_free(value);
            cache_free(&cache);
        }
}

void check_kv_load_equals_definition(void **state)
{
    (void)state;
    check_levels(kv_load_all);
}

static void kv_scores_all(struct check *c)
{
    for (int type = GP_KV_F32; type <= GP_KV_Q8_0; type++)
        for (size_t d = 0; d < CHECK_COUNT(dims); d++)
            for (uint32_t page = 16; page <= 256; page *= 2) {
                const uint32_t slots = 1 + gp_rng_below(&c->rng, 300);
                const uint32_t dim = dim_of(type, dims[d]);
                struct cache cache =
                    cache_make((enum gp_kv_type)type, page, dim, dim, slots, &c->rng);
                float *q = check_floats(dim, CHECK_PLAIN, &c->rng);

                cache_fill(&cache, &c->ref, slots, CHECK_PLAIN, &c->rng);
                for (uint32_t round = 0; round < 8; round++) {
                    const uint32_t begin = gp_rng_below(&c->rng, slots);
                    const uint32_t n = 1 + gp_rng_below(&c->rng, slots - begin);
                    float *want = check_guarded(n * sizeof *want);
                    float *got = check_guarded(n * sizeof *got);

                    c->ref.kv_scores(&cache.view, q, begin, begin + n, 0.125f, want);
                    c->wide.kv_scores(&cache.view, q, begin, begin + n, 0.125f, got);
                    check_same(want, got, n, "%s kv_scores type=%d d=%u [%u, %u)", c->wide.level,
                               type, dim, begin, begin + n);
                    check_free(want);
                    check_free(got);
                }
                check_free(q);
                cache_free(&cache);
            }
}

void check_kv_scores_equals_definition(void **state)
{
    (void)state;
    check_levels(kv_scores_all);
}

/* Rows of a prompt (or one row of a decode) over one head. */
static void attention_of(struct check *c, const struct cache *cache, uint32_t g, uint32_t rows,
                         const uint32_t *visible, enum check_fill fill)
{
    const struct gp_kv_view *kv = &cache->view;
    const size_t q_stride = (size_t)g * kv->k_dim + 3, out_stride = (size_t)g * kv->v_dim + 5;
    const size_t q_count = (rows - 1) * q_stride + (size_t)g * kv->k_dim;
    const size_t out_count = (rows - 1) * out_stride + (size_t)g * kv->v_dim;
    const size_t scratch_bytes = gp_attention_scratch_bytes(g, kv->v_dim);
    float *q = check_floats(q_count, fill, &c->rng);
    float *want = check_guarded(out_count * sizeof *want);
    float *got = check_guarded(out_count * sizeof *got);
    void *scratch = check_guarded(scratch_bytes);

    c->ref.attention(kv, q, q_stride, g, rows, visible, 0.17f, want, out_stride, scratch);
    memset(scratch, 0xff, scratch_bytes);
    c->wide.attention(kv, q, q_stride, g, rows, visible, 0.17f, got, out_stride, scratch);
    check_same(want, got, out_count, "%s attention type=%d k=%u v=%u g=%u page=%u rows=%u last=%u",
               c->wide.level, kv->type, kv->k_dim, kv->v_dim, g, kv->page_tokens, rows,
               visible[rows - 1]);
    check_free(q);
    check_free(want);
    check_free(got);
    check_free(scratch);
}

static void attention_all(struct check *c)
{
    static const uint32_t groups[] = {1, 2, 3, 4, 8}, pages[] = {16, 32, 48, 64, 256};
    static const uint32_t lengths[] = {1, 2, 15, 16, 17, 100, 255, 256, 257, 300, 513, 777};

    for (int type = GP_KV_F32; type <= GP_KV_Q8_0; type++)
        for (size_t d = 0; d <= CHECK_COUNT(dims); d++)
            for (size_t l = 0; l < CHECK_COUNT(lengths); l++) {
                const uint32_t k_dim = dim_of(type, d < CHECK_COUNT(dims) ? dims[d] : 18);
                const uint32_t v_dim =
                    dim_of(type, d < CHECK_COUNT(dims) ? dims[(d + l % 2) % 6] : 19);
                const uint32_t page = pages[gp_rng_below(&c->rng, CHECK_COUNT(pages))];
                const uint32_t g = groups[gp_rng_below(&c->rng, CHECK_COUNT(groups))];
                const enum check_fill fill = (enum check_fill)gp_rng_below(&c->rng, CHECK_FILLS);
                struct cache cache =
                    cache_make((enum gp_kv_type)type, page, k_dim, v_dim, lengths[l], &c->rng);

                cache_fill(&cache, &c->ref, lengths[l], fill == CHECK_HUGE ? CHECK_PLAIN : fill,
                           &c->rng);
                attention_of(c, &cache, g, 1, &lengths[l], fill);
                cache_free(&cache);
            }
}

void check_attention_equals_definition(void **state)
{
    (void)state;
    check_levels(attention_all);
}

/* Many rows: as in a prompt, and in no order at all; each must be what it would be alone. */
static void attention_rows_of(struct check *c, enum gp_kv_type type, uint32_t g, uint32_t rows)
{
    const uint32_t slots = 600, d = 32, page = 64;
    struct cache cache = cache_make(type, page, d, d, slots, &c->rng);
    const size_t stride = (size_t)g * d;
    float *q = check_floats(rows * stride, CHECK_PLAIN, &c->rng);
    float *all = check_guarded(rows * stride * sizeof *all);
    float *one = check_guarded(stride * sizeof *one);
    uint32_t *visible = check_guarded(rows * sizeof *visible);
    void *scratch = check_guarded(gp_attention_scratch_bytes(g, d));

    cache_fill(&cache, &c->ref, slots, CHECK_PLAIN, &c->rng);
    for (uint32_t r = 0; r < rows; r++)
        visible[r] = g % 2 ? slots - rows + r + 1 : 1 + gp_rng_below(&c->rng, slots);
    attention_of(c, &cache, g, rows, visible, CHECK_PLAIN);
    c->wide.attention(&cache.view, q, stride, g, rows, visible, 0.2f, all, stride, scratch);
    for (uint32_t r = 0; r < rows; r++) {
        c->wide.attention(&cache.view, q + r * stride, stride, g, 1, visible + r, 0.2f, one, stride,
                          scratch);
        check_same(one, all + r * stride, stride, "%s attention row %u of %u", c->wide.level, r,
                   rows);
    }
    check_free(q);
    check_free(all);
    check_free(one);
    check_free(visible);
    check_free(scratch);
    cache_free(&cache);
}

static void attention_rows_all(struct check *c)
{
    static const uint32_t groups[] = {1, 2, 3, 8};

    for (int type = GP_KV_F32; type <= GP_KV_Q8_0; type++)
        for (size_t g = 0; g < CHECK_COUNT(groups); g++)
            for (uint32_t rows = 2; rows <= 17; rows += 5)
                attention_rows_of(c, (enum gp_kv_type)type, groups[g], rows);
}

void check_attention_row_is_the_same_alone(void **state)
{
    (void)state;
    check_levels(attention_rows_all);
}
