/* A sandbox: one Python program that nobody trusts, run once on one input.
 *
 * It runs as a child of bubblewrap (bwrap) in namespaces of its own, and what holds for it holds
 * whatever it does:
 *   - it sees /usr and the libraries, read-only, /dev/null, zero and urandom, and an empty /tmp of
 *     64 MiB that ends with it; no home, no file of the caller's, no variable, no descriptor;
 *   - it has no network, no other process to see, no privilege, and no terminal;
 *   - it is one process: fork and exec of others are refused.  Threads are 64 at most (where the
 *     caller is root, as many as its memory holds);
 *   - it ends when its processor time, its memory or what it says is too much, and also when it
 *     waits too long for whatever it waits for.  What is limited is processor time, so that the
 *     load of the machine does not decide;
 *   - once gp_sandbox_run() returns, it is dead, and it dies with the thread that called.
 *
 * The expected answer is never handed in.  What does not depend on time and addresses is the same
 * in every run: hashes and the generator of random numbers have fixed seeds.
 *
 * Knows nothing of problems, models and engines. */
#ifndef GP_EVAL_SANDBOX_H
#define GP_EVAL_SANDBOX_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct gp_sandbox_limits {
    uint32_t seconds;      /* of processor time, at least 1 */
    uint64_t memory_bytes; /* of its address space          */
    uint32_t wait_seconds; /* on the clock, from its beginning; 0: 10 * seconds + 10 */
};

struct gp_sandbox_job {
    struct gp_sandbox_limits limits;
    const char *program;
    size_t program_length;
    /* NULL: the program reads the input and its output is what it writes.  Else the input is a line
     * of JSON for each argument of this function, or of the method of class Solution where there
     * is one, and the output is its result as JSON; what it writes goes nowhere. */
    const char *function;
    const char *input;
    size_t input_length;
    size_t output_max; /* bytes */
    int stop_fd;       /* ends it at once when it can be read; -1: none */
};

enum gp_sandbox_end {
    GP_SANDBOX_DONE,    /* by itself, without an error                        */
    GP_SANDBOX_FAILED,  /* an exception, a status that is not 0, or a signal */
    GP_SANDBOX_SLOW,    /* the processor time was too much                    */
    GP_SANDBOX_WAITED,  /* it lasted too long                                 */
    GP_SANDBOX_LOUD,    /* the output was too much                            */
    GP_SANDBOX_STOPPED, /* by stop_fd                                         */
};

struct gp_sandbox_result {
    enum gp_sandbox_end end;
    int status;   /* FAILED: what it exited with, 128 + N after signal N */
    char *output; /* gp_mem_free()                                       */
    size_t output_length;
};

/* Any thread; blocks.  An error is the sandbox's, never the program's: GP_EIO, with bwrap's words
 * where it has some, or GP_ENOMEM. */
int gp_sandbox_run(const struct gp_sandbox_job *job, struct gp_sandbox_result *out,
                   struct gp_error *err);

/* Whether programs can be run here, tried once; the error says what is missing. */
int gp_sandbox_check(const struct gp_sandbox_limits *limits, struct gp_error *err);

#endif
