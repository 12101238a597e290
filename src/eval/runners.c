#include "eval/runners.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/event.h"
#include "base/mem.h"
#include "eval/livecode.h"
#include "eval/outputs.h"

#define THREADS_MAX 4u

/* A quarter of a core where all are wanted, in the scheduler's weights. */
#define NICENESS 5

/* A right output may be written with some more blanks. */
#define OUTPUT_SLACK (1u << 20)

struct list {
    struct gp_trial *first, *last;
};

struct gp_runners {
    struct gp_sandbox_limits limits;
    pthread_t threads[THREADS_MAX];
    uint32_t count;
    int stop_fd;
    pthread_mutex_t lock; /* for all below */
    pthread_cond_t added, done;
    struct list waiting, ended;
    uint32_t running;
    bool closing;
};

static void put(struct list *list, struct gp_trial *run)
{
    run->next = NULL;
    if (list->first)
        list->last->next = run;
    else
        list->first = run;
    list->last = run;
}

static struct gp_trial *get(struct list *list)
{
    struct gp_trial *run = list->first;

    if (run)
        list->first = run->next;
    return run;
}

/* ---- one program ---- */

static bool says_right(const struct gp_livecode *tests, const json_t *test,
                       const struct gp_sandbox_result *result)
{
    const json_t *right = json_object_get(test, "output");
    const char *text = json_string_value(right);
    json_error_t why;

    if (!tests->function)
        return gp_output_same(result->output, result->output_length, text,
                              json_string_length(right));
    json_t *said = gp_value_read(result->output, result->output_length, &why);
    json_t *value = said ? gp_value_read(text, json_string_length(right), &why) : NULL;
    bool same = said && value && gp_value_same(said, value);
    json_decref(said);
    json_decref(value);
    return same;
}

/* What the test found, into run->why; "" is a pass. */
static void say(struct gp_trial *run, const struct gp_sandbox_job *job,
                const struct gp_sandbox_result *result, bool right)
{
    uint32_t seconds = job->limits.seconds;

    switch (result->end) {
    case GP_SANDBOX_DONE:
        snprintf(run->why, sizeof run->why, "%s", right ? "" : "wrong output");
        break;
    case GP_SANDBOX_FAILED:
        snprintf(run->why, sizeof run->why, "status %d", result->status);
        break;
    case GP_SANDBOX_SLOW:
        snprintf(run->why, sizeof run->why, "more than %u s of processor time", seconds);
        break;
    case GP_SANDBOX_WAITED:
        snprintf(run->why, sizeof run->why, "waited too long");
        break;
    case GP_SANDBOX_LOUD:
        snprintf(run->why, sizeof run->why, "more than %zu bytes of output", job->output_max);
        break;
    case GP_SANDBOX_STOPPED:
        run->stopped = true;
        break;
    }
}

static int run_test(const struct gp_runners *runners, const struct gp_livecode *tests,
                    const json_t *test, struct gp_trial *run)
{
    const json_t *input = json_object_get(test, "input");
    struct gp_sandbox_job job = {
        .limits = runners->limits,
        .program = run->program,
        .program_length = run->program_length,
        .function = tests->function,
        .input = json_string_value(input),
        .input_length = json_string_length(input),
        .output_max = json_string_length(json_object_get(test, "output")) * 2 + OUTPUT_SLACK,
        .stop_fd = runners->stop_fd,
    };
    struct gp_sandbox_result result;
    int rc = gp_sandbox_run(&job, &result, &run->err);

    if (rc)
        return rc;
    bool right = result.end == GP_SANDBOX_DONE && says_right(tests, test, &result);
    say(run, &job, &result, right);
    gp_mem_free(result.output);
    return GP_OK;
}

static void run_program(const struct gp_runners *runners, struct gp_trial *run)
{
    struct gp_livecode tests;
    json_t *test;
    size_t i;

    run->rc = gp_dataset_tests(run->dataset, run->index, &tests, &run->err);
    if (run->rc)
        return;
    run->tests = (uint32_t)json_array_size(tests.cases);
    json_array_foreach(tests.cases, i, test)
    {
        run->rc = run_test(runners, &tests, test, run);
        if (run->rc || run->stopped || *run->why)
            break;
        run->passed++;
    }
    run->correct = !run->rc && run->passed == run->tests;
    gp_livecode_free(&tests);
}

/* ---- threads ---- */

static void *serve(void *ctx)
{
    struct gp_runners *runners = ctx;

    /* Of this thread alone, and of what it starts. */
    if (nice(NICENESS) == -1)
        errno = 0;
    pthread_mutex_lock(&runners->lock);
    for (;;) {
        struct gp_trial *run = get(&runners->waiting);

        if (!run && runners->closing)
            break;
        if (!run) {
            pthread_cond_wait(&runners->added, &runners->lock);
            continue;
        }
        runners->running++;
        pthread_mutex_unlock(&runners->lock);
        run_program(runners, run);
        pthread_mutex_lock(&runners->lock);
        runners->running--;
        put(&runners->ended, run);
        pthread_cond_signal(&runners->done);
    }
    pthread_mutex_unlock(&runners->lock);
    return NULL;
}

static uint32_t threads_wanted(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    return cores < 8 ? 1 : cores >= 4 * (long)THREADS_MAX ? THREADS_MAX : (uint32_t)cores / 4;
}

static int start_threads(struct gp_runners *runners, struct gp_error *err)
{
    sigset_t all, before;
    int rc = 0;

    /* Signals are for the program's main thread. */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    for (uint32_t wanted = threads_wanted(); !rc && runners->count < wanted;) {
        rc = pthread_create(&runners->threads[runners->count], NULL, serve, runners);
        runners->count += !rc;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc ? gp_fail(err, GP_ENOMEM, "runners: %s", strerror(rc)) : GP_OK;
}

int gp_runners_open(struct gp_runners **out, const struct gp_sandbox_limits *limits,
                    struct gp_error *err)
{
    struct gp_runners *runners = gp_mem_alloc(sizeof *runners);
    pthread_condattr_t monotonic;

    if (!runners)
        return gp_fail(err, GP_ENOMEM, "runners: out of memory");
    runners->limits = *limits;
    runners->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (runners->stop_fd < 0) {
        gp_mem_free(runners);
        return gp_fail(err, GP_EIO, "runners: %s", strerror(errno));
    }
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&runners->lock, NULL);
    pthread_cond_init(&runners->added, NULL);
    pthread_cond_init(&runners->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int rc = start_threads(runners, err);
    if (rc)
        gp_runners_close(runners);
    else
        *out = runners;
    return rc;
}

void gp_runners_close(struct gp_runners *runners)
{
    if (!runners)
        return;
    pthread_mutex_lock(&runners->lock);
    runners->closing = true;
    pthread_cond_broadcast(&runners->added);
    pthread_mutex_unlock(&runners->lock);
    for (uint32_t i = 0; i < runners->count; i++)
        pthread_join(runners->threads[i], NULL);
    pthread_cond_destroy(&runners->added);
    pthread_cond_destroy(&runners->done);
    pthread_mutex_destroy(&runners->lock);
    close(runners->stop_fd);
    gp_mem_free(runners);
}

const struct gp_sandbox_limits *gp_runners_limits(const struct gp_runners *runners)
{
    return &runners->limits;
}

/* ---- what the caller does ---- */

void gp_runners_add(struct gp_runners *runners, struct gp_trial *run)
{
    run->rc = GP_OK;
    run->stopped = run->correct = false;
    run->tests = run->passed = 0;
    run->why[0] = 0;
    pthread_mutex_lock(&runners->lock);
    put(&runners->waiting, run);
    pthread_cond_signal(&runners->added);
    pthread_mutex_unlock(&runners->lock);
}

struct gp_trial *gp_runners_take(struct gp_runners *runners, uint32_t wait_ms)
{
    struct timespec until;
    int rc = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += wait_ms / 1000;
    until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&runners->lock);
    while (!runners->ended.first && !rc && (runners->running > 0 || runners->waiting.first))
        rc = wait_ms > 0 ? pthread_cond_timedwait(&runners->done, &runners->lock, &until)
                         : ETIMEDOUT;
    struct gp_trial *run = get(&runners->ended);
    pthread_mutex_unlock(&runners->lock);
    return run;
}

void gp_runners_stop(struct gp_runners *runners)
{
    struct gp_trial *run;

    pthread_mutex_lock(&runners->lock);
    while ((run = get(&runners->waiting))) {
        run->stopped = true;
        put(&runners->ended, run);
    }
    pthread_mutex_unlock(&runners->lock);
    gp_event_raise(runners->stop_fd);
}
