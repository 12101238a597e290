#include "base/workers.h"

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/mem.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

/* About 20 microseconds: longer than the gap between two kernels of a step, shorter than anything a
 * person or another process would miss. */
#define SPIN_ROUNDS 2000

struct gp_workers {
    /* Written by the owner before it raises round; read by workers after they saw it. */
    gp_work_fn *fn;
    void *ctx;
    uint32_t item_count;
    uint32_t grain;

    atomic_uint_fast32_t next;  /* the first item nobody has taken            */
    atomic_uint_fast32_t round; /* raised once a loop; odd and even mean nothing */
    atomic_uint_fast32_t busy;  /* workers still inside the loop              */
    atomic_bool stop;

    uint32_t count;
    uint32_t started;
    pthread_mutex_t lock; /* guards sleeping only */
    pthread_cond_t wake;
    struct worker {
        struct gp_workers *pool;
        pthread_t thread;
        uint32_t index;
    } * workers;
};

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void take_items(struct gp_workers *pool, uint32_t worker)
{
    for (;;) {
        uint32_t begin =
            (uint32_t)atomic_fetch_add_explicit(&pool->next, pool->grain, memory_order_relaxed);
        if (begin >= pool->item_count)
            return;
        uint32_t end =
            pool->item_count - begin < pool->grain ? pool->item_count : begin + pool->grain;
        pool->fn(pool->ctx, begin, end, worker);
    }
}

static bool wait_for_round(struct gp_workers *pool, uint_fast32_t seen)
{
    for (int spin = 0; spin < SPIN_ROUNDS; spin++) {
        if (atomic_load(&pool->round) != seen)
            return !atomic_load(&pool->stop);
        relax();
    }
    pthread_mutex_lock(&pool->lock);
    while (atomic_load(&pool->round) == seen)
        pthread_cond_wait(&pool->wake, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    return !atomic_load(&pool->stop);
}

static void *worker_main(void *arg)
{
    struct worker *self = arg;
    struct gp_workers *pool = self->pool;
    uint_fast32_t seen = 0;

    while (wait_for_round(pool, seen)) {
        seen++;
        take_items(pool, self->index);
        atomic_fetch_sub(&pool->busy, 1);
    }
    return NULL;
}

static void raise_round(struct gp_workers *pool)
{
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->round, 1);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

int gp_workers_open(struct gp_workers **out, uint32_t count, struct gp_error *err)
{
    if (count < 1 || count > GP_LIMIT_THREADS)
        return gp_fail(err, GP_EINVAL, "threads: %u; 1 to %u", count, GP_LIMIT_THREADS);
    struct gp_workers *pool = gp_mem_alloc(sizeof *pool);

    if (!pool)
        return gp_fail(err, GP_ENOMEM, "threads: out of memory");
    pool->count = count;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pool->workers = gp_mem_alloc_array(count, sizeof *pool->workers);
    if (!pool->workers) {
        gp_workers_close(pool);
        return gp_fail(err, GP_ENOMEM, "threads: out of memory");
    }
    for (uint32_t i = 1; i < count; i++) {
        pool->workers[i] = (struct worker){.pool = pool, .index = i};
        int rc = pthread_create(&pool->workers[i].thread, NULL, worker_main, &pool->workers[i]);

        if (rc) {
            gp_workers_close(pool);
            return gp_fail(err, GP_EIO, "threads: cannot start number %u: %s", i, strerror(rc));
        }
        pool->started = i;
    }
    *out = pool;
    return GP_OK;
}

void gp_workers_close(struct gp_workers *pool)
{
    if (!pool)
        return;
    atomic_store(&pool->stop, true);
    raise_round(pool);
    for (uint32_t i = 1; i <= pool->started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    gp_mem_free(pool->workers);
    gp_mem_free(pool);
}

uint32_t gp_workers_count(const struct gp_workers *pool)
{
    return pool->count;
}

void gp_workers_run(struct gp_workers *pool, uint32_t item_count, uint32_t grain, gp_work_fn *fn,
                    void *ctx)
{
    gp_assert(grain >= 1);
    if (item_count == 0)
        return;
    if (pool->count == 1 || item_count <= grain) {
        fn(ctx, 0, item_count, 0);
        return;
    }
    pool->fn = fn;
    pool->ctx = ctx;
    pool->item_count = item_count;
    pool->grain = grain;
    atomic_store(&pool->next, 0);
    atomic_store(&pool->busy, pool->count - 1);
    raise_round(pool);
    take_items(pool, 0);
    while (atomic_load(&pool->busy) > 0)
        relax();
}
