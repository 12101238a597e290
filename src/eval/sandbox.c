#include "eval/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "eval/sandbox_filter.h"

#define PYTHON     "/usr/bin/python3"
#define FILE_BYTES "67108864" /* of /tmp, and of a file in it */

/* How long a program may last where nothing else is said: it shares the machine with the model that
 * wrote it. */
#define WAIT_FACTOR 10u
#define WAIT_MORE   10u

/* For bwrap and Python to start: however busy the machine is, that is no program's fault. */
#define START_NS 600000000000u

#define READ_BYTES 65536u

/* For a killed sandbox to be gone. */
#define CLOSE_MS 5000

/* Descriptors as the child finds them; ours lie above, so that none is overwritten by another. */
enum {
    FD_INPUT,
    FD_OUTPUT,
    FD_WORDS,
    FD_PROGRAM,
    FD_FILTER,
    FD_COUNT,
};

#define FD_OURS 10

/* What runs before the program does; read when this file is compiled, from the root. */
extern const char gp_sandbox_driver[];
__asm__(".pushsection .rodata\ngp_sandbox_driver:\n.incbin \"src/eval/sandbox.py\"\n.byte "
        "0\n.popsection\n");

struct box {
    const struct gp_sandbox_job *job;
    int fds[FD_COUNT]; /* the child's ends */
    int output;        /* our end          */
    int pidfd;
    pid_t pid;
    char *text;
    size_t length, room;
    bool over; /* the output was too much */
};

/* ---- what the child is given ---- */

static int fail_box(const char *what, struct gp_error *err)
{
    return gp_fail(err, GP_EIO, "sandbox: %s: %s", what, strerror(errno));
}

static int move_up(int fd)
{
    int moved = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FD_OURS);

    if (fd >= 0)
        close(fd);
    return moved;
}

/* A file in memory that can be read and not changed; -1 with errno. */
static int memory_file(const char *name, const void *bytes, size_t length)
{
    int fd = move_up(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    const char *from = bytes;

    while (fd >= 0 && length > 0) {
        ssize_t written = write(fd, from, length);
        if (written < 0) {
            close(fd);
            return -1;
        }
        from += written;
        length -= (size_t)written;
    }
    if (fd >= 0 && (lseek(fd, 0, SEEK_SET) < 0 ||
                    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK))) {
        close(fd);
        return -1;
    }
    return fd;
}

static int open_fds(struct box *box, struct gp_error *err)
{
    const struct gp_sandbox_job *job = box->job;
    struct sock_filter filter[GP_SANDBOX_FILTER_MAX];
    unsigned count = gp_sandbox_filter(filter);
    int ends[2];

    box->fds[FD_INPUT] = memory_file("input", job->input, job->input_length);
    box->fds[FD_PROGRAM] = memory_file("program", job->program, job->program_length);
    box->fds[FD_FILTER] = memory_file("filter", filter, count * sizeof *filter);
    box->fds[FD_WORDS] = move_up(memfd_create("words", MFD_CLOEXEC));
    if (pipe2(ends, O_CLOEXEC) == 0) {
        box->output = move_up(ends[0]);
        box->fds[FD_OUTPUT] = move_up(ends[1]);
    }
    for (int i = 0; i < FD_COUNT; i++)
        if (box->fds[i] < 0)
            return fail_box("a descriptor", err);
    if (box->output < 0 || fcntl(box->output, F_SETFL, O_NONBLOCK))
        return fail_box("a pipe", err);
    return GP_OK;
}

static void close_box(struct box *box)
{
    for (int i = 0; i < FD_COUNT; i++)
        if (box->fds[i] >= 0)
            close(box->fds[i]);
    if (box->output >= 0)
        close(box->output);
    if (box->pidfd >= 0)
        close(box->pidfd);
    gp_mem_free(box->text);
}

/* ---- the child ---- */

static int spawn(struct box *box, char *const *args)
{
    static char *const no_variables[] = {NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none, all;

    sigemptyset(&none);
    sigfillset(&all);
    int rc = posix_spawn_file_actions_init(&files);
    if (rc)
        return rc;
    rc = posix_spawnattr_init(&how);
    if (rc) {
        posix_spawn_file_actions_destroy(&files);
        return rc;
    }
    for (int i = 0; !rc && i < FD_COUNT; i++)
        rc = posix_spawn_file_actions_adddup2(&files, box->fds[i], i);
    if (!rc)
        rc = posix_spawn_file_actions_addclosefrom_np(&files, FD_COUNT);
    /* A session of its own: Ctrl-C is for us, and who is stopped by it has not failed. */
    if (!rc)
        rc = posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
                                                POSIX_SPAWN_SETSIGDEF);
    if (!rc)
        rc = posix_spawnattr_setsigmask(&how, &none);
    if (!rc)
        rc = posix_spawnattr_setsigdefault(&how, &all);
    if (!rc)
        rc = posix_spawnp(&box->pid, args[0], &files, &how, args, no_variables);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return rc;
}

/* Ends it and all that is in it. */
static void kill_box(const struct box *box)
{
    kill(box->pid, SIGKILL);
}

/* clang-format off */
static int start(struct box *box, struct gp_error *err)
{
    const struct gp_sandbox_job *job = box->job;
    char seconds[16], memory[32];
    const char *args[] = {
        "bwrap",
        "--unshare-user", "--unshare-all", "--die-with-parent", "--new-session",
        "--cap-drop", "ALL", "--uid", "65534", "--gid", "65534", "--clearenv",
        "--setenv", "PATH", "/usr/bin", "--setenv", "HOME", "/tmp", "--setenv", "LANG", "C.UTF-8",
        "--setenv", "PYTHONHASHSEED", "0",
        "--setenv", "OPENBLAS_NUM_THREADS", "1", "--setenv", "OMP_NUM_THREADS", "1",
        "--ro-bind", "/usr", "/usr", "--ro-bind-try", "/bin", "/bin",
        "--ro-bind-try", "/lib", "/lib", "--ro-bind-try", "/lib64", "/lib64",
        "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache",
        "--ro-bind-try", "/etc/alternatives", "/etc/alternatives",
        "--dev-bind", "/dev/null", "/dev/null", "--dev-bind", "/dev/zero", "/dev/zero",
        "--dev-bind", "/dev/urandom", "/dev/urandom",
        "--size", FILE_BYTES, "--tmpfs", "/tmp", "--chdir", "/tmp", "--remount-ro", "/",
        "--seccomp", "4",
        PYTHON, "-s", "-B", "-c", gp_sandbox_driver, seconds, memory, FILE_BYTES, job->function,
        NULL,
    };
    /* clang-format on */

    snprintf(seconds, sizeof seconds, "%u", job->limits.seconds);
    snprintf(memory, sizeof memory, "%llu", (unsigned long long)job->limits.memory_bytes);
    int rc = spawn(box, (char *const *)args);
    if (rc == ENOENT)
        return gp_fail(err, GP_EIO, "bwrap: not found; install bubblewrap");
    errno = rc;
    if (rc)
        return fail_box("bwrap", err);
    for (int i = 0; i < FD_COUNT; i++) {
        if (i == FD_WORDS)
            continue;
        close(box->fds[i]);
        box->fds[i] = -1;
    }
    box->pidfd = pidfd_open(box->pid, 0);
    if (box->pidfd >= 0)
        return GP_OK;
    rc = fail_box("a process", err);
    kill_box(box);
    waitpid(box->pid, NULL, 0);
    return rc;
}

/* ---- while it runs ---- */

/* All that is there; false: it is too much, or memory is out. */
static int take_output(struct box *box, bool *ended, struct gp_error *err)
{
    for (;;) {
        if (box->room - box->length < READ_BYTES) {
            size_t larger = box->room ? box->room * 2 : READ_BYTES * 2;
            char *grown = gp_mem_realloc(box->text, box->room, larger);
            if (!grown)
                return gp_fail(err, GP_ENOMEM, "sandbox: out of memory");
            box->text = grown;
            box->room = larger;
        }
        ssize_t got = read(box->output, box->text + box->length, READ_BYTES);
        if (got < 0)
            return GP_OK;
        *ended = got == 0;
        if (got == 0)
            return GP_OK;
        box->length += (size_t)got;
        /* The byte that says it began is not its own. */
        box->over = box->length > box->job->output_max + 1;
        if (box->over)
            return GP_OK;
    }
}

/* Until it has ended, or is to be ended: *end says why then, and is left alone else.
 *
 * It is not stopped before its program begins: until then not all that bwrap has started dies with
 * it.  Should we be killed in that time, the program does not begin, for nobody reads from it. */
static int watch(struct box *box, enum gp_sandbox_end *end, struct gp_error *err)
{
    const struct gp_sandbox_limits *limits = &box->job->limits;
    uint32_t seconds =
        limits->wait_seconds ? limits->wait_seconds : limits->seconds * WAIT_FACTOR + WAIT_MORE;
    uint64_t wall_ns = START_NS, begin = gp_clock_ns();
    bool closed = false, began = false;

    for (;;) {
        uint64_t passed = gp_clock_ns() - begin;
        struct pollfd polled[] = {
            {.fd = box->pidfd, .events = POLLIN},
            {.fd = closed ? -1 : box->output, .events = POLLIN},
            {.fd = began ? box->job->stop_fd : -1, .events = POLLIN},
        };
        int left_ms = passed < wall_ns ? (int)((wall_ns - passed) / 1000000u) + 1 : 0;
        int ready = poll(polled, 3, left_ms);
        if (ready < 0 && errno != EINTR)
            return fail_box("poll", err);
        int rc = take_output(box, &closed, err);
        if (rc)
            return rc;
        if (!began && box->length > 0) {
            began = true;
            begin = gp_clock_ns();
            wall_ns = (uint64_t)seconds * 1000000000u;
        }
        if (polled[2].revents)
            *end = GP_SANDBOX_STOPPED;
        else if (box->over)
            *end = GP_SANDBOX_LOUD;
        else if (ready == 0)
            *end = GP_SANDBOX_WAITED;
        else if (ready < 0 || !polled[0].revents)
            continue;
        return GP_OK;
    }
}

/* bwrap's or Python's last words. */
static int fail_start(const struct box *box, struct gp_error *err)
{
    char words[512], *line = words;
    off_t all = lseek(box->fds[FD_WORDS], 0, SEEK_END);
    off_t from = all > (off_t)sizeof words - 1 ? all - (off_t)sizeof words + 1 : 0;
    ssize_t length = pread(box->fds[FD_WORDS], words, sizeof words - 1, from);

    while (length > 0 && words[length - 1] == '\n')
        length--;
    words[length > 0 ? length : 0] = 0;
    for (char *next = words; (next = strchr(next, '\n')); next++)
        line = next + 1;
    if (strstr(line, PYTHON) && strstr(line, strerror(ENOENT)))
        return gp_fail(err, GP_EIO, "python3: not at " PYTHON "; install it");
    return gp_fail(err, GP_EIO, "sandbox: no program could be run in it: %s",
                   *line ? line : "it said nothing");
}

/* With bwrap dies the first process of the sandbox, and with that all others, a moment later: what
 * is last to go holds the pipe. */
static void wait_closed(const struct box *box)
{
    struct pollfd polled = {.fd = box->output, .events = POLLIN};
    char rest[4096];
    ssize_t got = 1;

    while (got != 0 && poll(&polled, 1, CLOSE_MS) != 0)
        got = read(box->output, rest, sizeof rest);
}

/* What it said before it ended. */
static int take_rest(struct box *box, struct gp_error *err)
{
    struct pollfd polled = {.fd = box->output, .events = POLLIN};
    bool closed = false;
    int rc = GP_OK;

    while (!rc && !closed && !box->over && poll(&polled, 1, CLOSE_MS) != 0)
        rc = take_output(box, &closed, err);
    return rc;
}

/* It is dead; what is it worth? */
static int settle(struct box *box, int status, enum gp_sandbox_end end,
                  struct gp_sandbox_result *out, struct gp_error *err)
{
    bool ended = end == GP_SANDBOX_DONE;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);

    if (box->length == 0 && end != GP_SANDBOX_STOPPED)
        return fail_start(box, err);
    if (ended && code != 0)
        end = code == 128 + SIGXCPU ? GP_SANDBOX_SLOW : GP_SANDBOX_FAILED;
    out->end = end;
    out->status = code;
    out->output_length = box->length > 0 ? box->length - 1 : 0;
    if (box->length > 0)
        memmove(box->text, box->text + 1, out->output_length);
    out->output = box->text;
    box->text = NULL;
    return GP_OK;
}

static int run_box(struct box *box, struct gp_sandbox_result *out, struct gp_error *err)
{
    enum gp_sandbox_end end = GP_SANDBOX_DONE;
    int status;
    int rc = open_fds(box, err);

    if (!rc)
        rc = start(box, err);
    if (rc)
        return rc;
    rc = watch(box, &end, err);
    if (rc || end != GP_SANDBOX_DONE)
        kill_box(box);
    while (waitpid(box->pid, &status, 0) < 0)
        if (errno != EINTR)
            return rc ? rc : fail_box("wait", err);
    if (!rc && end == GP_SANDBOX_DONE)
        rc = take_rest(box, err);
    wait_closed(box);
    if (!rc && box->over)
        end = GP_SANDBOX_LOUD;
    return rc ? rc : settle(box, status, end, out, err);
}

int gp_sandbox_run(const struct gp_sandbox_job *job, struct gp_sandbox_result *out,
                   struct gp_error *err)
{
    struct box box = {.job = job, .fds = {-1, -1, -1, -1, -1}, .output = -1, .pidfd = -1};
    int rc = run_box(&box, out, err);

    close_box(&box);
    return rc;
}

int gp_sandbox_check(const struct gp_sandbox_limits *limits, struct gp_error *err)
{
    static const char program[] = "print(input())", said[] = "ready\n";
    struct gp_sandbox_job job = {
        .limits = *limits,
        .program = program,
        .program_length = sizeof program - 1,
        .input = said,
        .input_length = sizeof said - 1,
        .output_max = 64,
        .stop_fd = -1,
    };
    struct gp_sandbox_result result;
    int rc = gp_sandbox_run(&job, &result, err);

    if (rc)
        return rc;
    if (result.end != GP_SANDBOX_DONE || result.output_length != sizeof said - 1 ||
        memcmp(result.output, said, sizeof said - 1) != 0)
        rc = gp_fail(err, GP_EIO, "sandbox: a program of one line did not run in it, status %d",
                     result.status);
    gp_mem_free(result.output);
    return rc;
}
