/* The free list is a queue threaded through two arrays: a page's entries name the free pages before
 * and behind it. Released pages go to the end and takes come from the front, which makes the order
 * of reuse the order of release; a page that is wanted for what it still holds leaves from the
 * middle. */
#include "kv/pool.h"

#include "base/assert.h"
#include "base/mem.h"

struct gp_pool {
    uint32_t page_count;
    uint32_t free_count;
    uint32_t used_max;
    uint32_t first, last; /* of the free list; GP_PAGE_NONE when it is empty           */
    uint32_t *next;       /* [page_count] the free page behind this one, or GP_PAGE_NONE */
    uint32_t *before;     /* [page_count] the one before it, likewise                   */
    uint32_t *refs;       /* [page_count] 0: free                                      */
    uint64_t refuse_in;   /* 0: off, 1: the next take                                  */
};

int gp_pool_open(struct gp_pool **out, uint32_t page_count, struct gp_error *err)
{
    if (page_count == 0 || page_count == GP_PAGE_NONE)
        return gp_fail(err, GP_EINVAL, "page pool: %u pages", page_count);
    struct gp_pool *pool = gp_mem_alloc(sizeof *pool);
    uint32_t *next = gp_mem_alloc_array(page_count, sizeof *next);
    uint32_t *before = gp_mem_alloc_array(page_count, sizeof *before);
    uint32_t *refs = gp_mem_alloc_array(page_count, sizeof *refs);

    if (!pool || !next || !before || !refs) {
        gp_mem_free(pool);
        gp_mem_free(next);
        gp_mem_free(before);
        gp_mem_free(refs);
        return gp_fail(err, GP_ENOMEM, "page pool: no memory for the books of %u pages",
                       page_count);
    }
    for (uint32_t page = 0; page < page_count; page++) {
        next[page] = page + 1 < page_count ? page + 1 : GP_PAGE_NONE;
        before[page] = page > 0 ? page - 1 : GP_PAGE_NONE;
    }
    *pool = (struct gp_pool){.page_count = page_count,
                             .free_count = page_count,
                             .first = 0,
                             .last = page_count - 1,
                             .next = next,
                             .before = before,
                             .refs = refs};
    *out = pool;
    return GP_OK;
}

void gp_pool_close(struct gp_pool *pool)
{
    if (!pool)
        return;
    gp_assert(pool->free_count == pool->page_count);
    gp_mem_free(pool->next);
    gp_mem_free(pool->before);
    gp_mem_free(pool->refs);
    gp_mem_free(pool);
}

uint32_t gp_pool_total(const struct gp_pool *pool)
{
    return pool->page_count;
}

uint32_t gp_pool_free_count(const struct gp_pool *pool)
{
    return pool->free_count;
}

uint32_t gp_pool_used_max(const struct gp_pool *pool)
{
    return pool->used_max;
}

void gp_pool_begin_max(struct gp_pool *pool)
{
    pool->used_max = pool->page_count - pool->free_count;
}

uint32_t gp_pool_refs(const struct gp_pool *pool, uint32_t page)
{
    gp_assert(page < pool->page_count);
    return pool->refs[page];
}

static bool refuse_this(struct gp_pool *pool)
{
    if (pool->refuse_in == 0)
        return false;
    return --pool->refuse_in == 0;
}

static void unlink_free(struct gp_pool *pool, uint32_t page)
{
    uint32_t before = pool->before[page], next = pool->next[page];

    gp_assert(pool->refs[page] == 0);
    if (before == GP_PAGE_NONE)
        pool->first = next;
    else
        pool->next[before] = next;
    if (next == GP_PAGE_NONE)
        pool->last = before;
    else
        pool->before[next] = before;
    pool->next[page] = pool->before[page] = GP_PAGE_NONE;
    pool->free_count--;
}

static void push_free(struct gp_pool *pool, uint32_t page)
{
    if (pool->last == GP_PAGE_NONE)
        pool->first = page;
    else
        pool->next[pool->last] = page;
    pool->before[page] = pool->last;
    pool->last = page;
    pool->free_count++;
}

static void note_used(struct gp_pool *pool)
{
    uint32_t used = pool->page_count - pool->free_count;

    if (used > pool->used_max)
        pool->used_max = used;
}

bool gp_pool_take(struct gp_pool *pool, uint32_t n, uint32_t *pages)
{
    if (refuse_this(pool) || n > pool->free_count)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        pages[i] = pool->first;
        gp_assert(pages[i] < pool->page_count);
        unlink_free(pool, pages[i]);
        pool->refs[pages[i]] = 1;
    }
    note_used(pool);
    return true;
}

void gp_pool_ref(struct gp_pool *pool, uint32_t page)
{
    gp_assert(page < pool->page_count);
    gp_assert(pool->refs[page] < UINT32_MAX);
    if (pool->refs[page] == 0)
        unlink_free(pool, page);
    pool->refs[page]++;
    note_used(pool);
}

void gp_pool_unref(struct gp_pool *pool, uint32_t page)
{
    gp_assert(page < pool->page_count);
    gp_assert(pool->refs[page] > 0);
    if (--pool->refs[page] == 0)
        push_free(pool, page);
}

void gp_pool_refuse_at(struct gp_pool *pool, uint64_t nth)
{
    pool->refuse_in = nth;
}

/* A list that reaches its end after free_count steps visits no page twice: with one next a page, a
 * second visit would start the same walk again and never end. */
void gp_pool_check(const struct gp_pool *pool)
{
    uint32_t listed = 0, used = 0, last = GP_PAGE_NONE;

    for (uint32_t page = pool->first; page != GP_PAGE_NONE; page = pool->next[page]) {
        gp_assert(page < pool->page_count);
        gp_assert(pool->refs[page] == 0);
        gp_assert(listed < pool->free_count);
        gp_assert(pool->before[page] == last);
        listed++;
        last = page;
    }
    gp_assert(listed == pool->free_count);
    gp_assert(last == pool->last);
    for (uint32_t page = 0; page < pool->page_count; page++)
        if (pool->refs[page] > 0) {
            gp_assert(pool->next[page] == GP_PAGE_NONE && pool->before[page] == GP_PAGE_NONE);
            used++;
        }
    gp_assert(used + pool->free_count == pool->page_count);
    gp_assert(used <= pool->used_max);
}
