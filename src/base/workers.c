#include "base/workers.h"

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/mem.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

/* About 20 microseconds: longer than the gap between two kernels of a step, shorter than anything a
 * person or another process would miss. */
#define SPIN_ROUNDS 2000

/* The gate, in one word: the number of the loop, whether it may be entered, who is inside.  A
 * worker that comes after the last item was taken finds it shut, so that the owner waits for
 * those who work and for nobody who has yet to wake up: with more threads than cores those are
 * most. */
#define GATE_ROUND  (UINT64_C(1) << 32)
#define GATE_OPEN   (UINT64_C(1) << 31)
#define GATE_INSIDE (GATE_OPEN - 1)

struct gp_workers {
    /* Written by the owner before it opens the gate; read by those inside. */
    gp_work_fn *fn;
    void *ctx;
    uint32_t item_count;
    uint32_t grain;

    atomic_uint_fast32_t next; /* the first item nobody has taken */
    atomic_uint_fast64_t gate;
    atomic_bool stop;

    uint32_t count;
    uint32_t started;
    uint32_t awake_max; /* more than can run at once need not be woken */
    atomic_uint_fast32_t sleepers;
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

/* Into the loop at hand, unless it is over or the worker has been in it. */
static bool enter(struct gp_workers *pool, uint64_t *seen)
{
    uint_fast64_t gate = atomic_load(&pool->gate);

    while ((gate & GATE_OPEN) && gate / GATE_ROUND != *seen)
        if (atomic_compare_exchange_weak(&pool->gate, &gate, gate + 1)) {
            *seen = gate / GATE_ROUND;
            return true;
        }
    return false;
}

static void sleep_once(struct gp_workers *pool, uint64_t seen)
{
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->sleepers, 1);
    uint_fast64_t gate = atomic_load(&pool->gate);

    if (!atomic_load(&pool->stop) && !((gate & GATE_OPEN) && gate / GATE_ROUND != seen))
        pthread_cond_wait(&pool->wake, &pool->lock);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->lock);
}

/* False: the pool closes. */
static bool wait_for_round(struct gp_workers *pool, uint64_t *seen)
{
    for (;;) {
        for (int spin = 0; spin < SPIN_ROUNDS; spin++) {
            if (atomic_load(&pool->stop))
                return false;
            if (enter(pool, seen))
                return true;
            relax();
        }
        sleep_once(pool, *seen);
    }
}

static void *worker_main(void *arg)
{
    struct worker *self = arg;
    struct gp_workers *pool = self->pool;
    uint64_t seen = 0;

    while (wait_for_round(pool, &seen)) {
        take_items(pool, self->index);
        atomic_fetch_sub(&pool->gate, 1);
    }
    return NULL;
}

/* Whoever counts itself among the sleepers after the gate was opened sees that it is open. */
static void open_gate(struct gp_workers *pool)
{
    uint_fast64_t round = atomic_load(&pool->gate) / GATE_ROUND + 1;

    atomic_store(&pool->gate, (uint32_t)round * GATE_ROUND | GATE_OPEN);
    uint32_t sleepers = (uint32_t)atomic_load(&pool->sleepers);
    uint32_t awake = pool->started - sleepers;

    if (sleepers == 0 || awake >= pool->awake_max)
        return;
    pthread_mutex_lock(&pool->lock);
    for (uint32_t i = awake; i < pool->awake_max; i++)
        pthread_cond_signal(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

/* Shut it and wait for those inside; one of them may need this very core. */
static void shut_gate(struct gp_workers *pool)
{
    uint_fast64_t inside = atomic_fetch_and(&pool->gate, ~GATE_OPEN) & GATE_INSIDE;

    for (int spin = 0; inside > 0; spin++) {
        if (spin < SPIN_ROUNDS)
            relax();
        else
            sched_yield();
        inside = atomic_load(&pool->gate) & GATE_INSIDE;
    }
}

/* Cores that this process may use; no bound where there are more than a set can hold. */
static uint32_t count_cores(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) ? GP_LIMIT_THREADS : (uint32_t)CPU_COUNT(&set);
}

int gp_workers_open(struct gp_workers **out, uint32_t count, struct gp_error *err)
{
    if (count < 1 || count > GP_LIMIT_THREADS)
        return gp_fail(err, GP_EINVAL, "threads: %u; 1 to %u", count, GP_LIMIT_THREADS);
    struct gp_workers *pool = gp_mem_alloc(sizeof *pool);

    if (!pool)
        return gp_fail(err, GP_ENOMEM, "threads: out of memory");
    uint32_t cores = count_cores();

    pool->count = count;
    pool->awake_max = cores > 2 ? cores - 1 : 1;
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
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
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
    open_gate(pool);
    take_items(pool, 0);
    shut_gate(pool);
}
