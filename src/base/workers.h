/* A fixed set of threads that run one loop body together (fork and join).
 *
 * One owner thread calls gp_workers_run(); it takes part itself as worker 0 and returns when every
 * item is done.  Items are handed out in order through one counter, so who runs an item depends on
 * the load, and what an item computes must not depend on who runs it.  Workers spin briefly between
 * loops and then sleep; the owner waits for those that took an item, never for one that sleeps, so
 * threads beyond the cores cost little. */
#ifndef GP_BASE_WORKERS_H
#define GP_BASE_WORKERS_H

#include <stdint.h>

struct gp_error;
struct gp_workers;

/* fn handles items [begin, end); worker is in [0, count) and names scratch of the worker's own. */
typedef void gp_work_fn(void *ctx, uint32_t begin, uint32_t end, uint32_t worker);

/* count >= 1 threads in all, the caller's included. */
int gp_workers_open(struct gp_workers **out, uint32_t count, struct gp_error *err);
void gp_workers_close(struct gp_workers *workers); /* NULL is fine */
uint32_t gp_workers_count(const struct gp_workers *workers);

/* Run fn over [0, item_count), grain items at a time (grain >= 1). */
void gp_workers_run(struct gp_workers *workers, uint32_t item_count, uint32_t grain, gp_work_fn *fn,
                    void *ctx);

#endif
