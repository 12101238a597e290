/* Runners: a few threads that hold programs against their tests, in sandboxes, while the caller
 * goes on.
 *
 * They are few and of lower priority than the caller, for the machine is a model's that generates:
 * a program takes a second or two of one core where its answer took minutes of all of them. */
#ifndef GP_EVAL_RUNNERS_H
#define GP_EVAL_RUNNERS_H

#include <stdbool.h>
#include <stdint.h>

#include "eval/dataset.h"
#include "eval/sandbox.h"

/* A program held against its tests.  The caller's, who fills the first part and leaves all of it,
 * and what it points to, alone until it is taken back. */
struct gp_trial {
    const struct gp_dataset *dataset;
    uint64_t index; /* of the problem in it */
    const char *program;
    size_t program_length;

    int rc; /* not GP_OK: whether it is right cannot be said, err says why */
    struct gp_error err;
    bool stopped;           /* by gp_runners_stop(): nothing is said about it           */
    bool correct;           /* it passed all of the tests                               */
    uint32_t tests, passed; /* up to the first that it did not pass */
    char why[80];           /* what that was, "" where there is none   */

    struct gp_trial *next; /* the runners' own */
};

struct gp_runners;

/* A quarter of the cores, from one to four. */
int gp_runners_open(struct gp_runners **out, const struct gp_sandbox_limits *limits,
                    struct gp_error *err);
/* Nothing may be with them that has not been taken back; NULL is fine. */
void gp_runners_close(struct gp_runners *runners);

const struct gp_sandbox_limits *gp_runners_limits(const struct gp_runners *runners);

/* One thread adds and takes; what is added is run in order. */
void gp_runners_add(struct gp_runners *runners, struct gp_trial *run);

/* One that is done; waits for it up to wait_ms.  NULL: none is, yet or at all. */
struct gp_trial *gp_runners_take(struct gp_runners *runners, uint32_t wait_ms);

/* Ends what runs and drops what waits; all of it is to be taken then, and nothing added. */
void gp_runners_stop(struct gp_runners *runners);

#endif
