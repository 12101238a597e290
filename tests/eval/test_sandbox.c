/* Programs that nobody trusts: what they can do, what they cannot, and that nothing is left of
 * them. */
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/event.h"
#include "base/mem.h"
#include "eval/sandbox.h"

#define MIB (1u << 20)

static bool able;
static struct gp_error unable;

/* Where there is no sandbox, its tests have nothing to say. */
static void need_sandbox(void)
{
    if (able)
        return;
    print_message("skipped: %s\n", unable.message);
    skip();
}

static struct gp_sandbox_job job_of(const char *program, const char *function, const char *input)
{
    return (struct gp_sandbox_job){
        /* As long as a busy machine may take. */
        .limits = {.seconds = 2, .memory_bytes = 512 * MIB, .wait_seconds = 300},
        .program = program,
        .program_length = strlen(program),
        .function = function,
        .input = input,
        .input_length = strlen(input),
        .output_max = MIB,
        .stop_fd = -1,
    };
}

/* How it ended; what it said goes to `said` (room for 4096), zero-terminated. */
static enum gp_sandbox_end run_job(const struct gp_sandbox_job *job, char *said)
{
    struct gp_sandbox_result result;
    struct gp_error err;

    if (gp_sandbox_run(job, &result, &err))
        fail_msg("%s", err.message);
    snprintf(said, 4096, "%.*s", (int)result.output_length, result.output);
    assert_true(result.output_length <= job->output_max + 65536);
    gp_mem_free(result.output);
    return result.end;
}

static void expect(const char *program, enum gp_sandbox_end end, const char *output)
{
    struct gp_sandbox_job job = job_of(program, NULL, "");
    char said[4096];
    enum gp_sandbox_end how = run_job(&job, said);

    if (how != end || (output && strcmp(said, output) != 0))
        fail_msg("%s\nended as %d, not %d, and said: %s", program, how, end, said);
}

/* Processes of the machine whose /proc/N/FILE has this in it. */
static unsigned count_with(const char *file, const char *words)
{
    DIR *all = opendir("/proc");
    unsigned count = 0;

    assert_non_null(all);
    for (struct dirent *entry; (entry = readdir(all));) {
        static char text[65536];
        char path[300];

        snprintf(path, sizeof path, "/proc/%s/%s", entry->d_name, file);
        FILE *opened = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' ? fopen(path, "r") : NULL;
        if (!opened)
            continue;
        size_t length = fread(text, 1, sizeof text, opened);
        count += memmem(text, length, words, strlen(words)) != NULL;
        fclose(opened);
    }
    closedir(all);
    return count;
}

static void wait_until(const char *file, const char *words, unsigned count, unsigned seconds)
{
    uint64_t begin = gp_clock_ns();

    while (count_with(file, words) != count) {
        if (gp_clock_ns() - begin > seconds * 1000000000ull)
            fail_msg("%u processes with %s, not %u", count_with(file, words), words, count);
        usleep(20000);
    }
}

/* ---- what they may ---- */

static void programs_read_and_write(void **state)
{
    struct gp_sandbox_job job =
        job_of("a, b = map(int, input().split())\nprint(a + b)\n"
               "if __name__ == '__main__':\n    print(*sys.stdin.read().split())\n",
               NULL, "2 3\nx\ny\n");
    char said[4096];

    (void)state;
    need_sandbox();
    assert_int_equal(run_job(&job, said), GP_SANDBOX_DONE);
    assert_string_equal(said, "5\nx y\n");
}

static void functions_are_called_with_lines_of_json(void **state)
{
    static const struct {
        const char *program, *function, *input, *output;
    } cases[] = {
        {"class Solution:\n    def add(self, a: List[int], b: int) -> int:\n"
         "        print('noise')\n        return sum(a) + b\n",
         "add", "[1, 2]\n3", "6"},
        {"def pair(s):\n    return s, {'k': None}\n", "pair", "\"\\u00fc\"\n",
         "[\"\\u00fc\", {\"k\": null}]"},
        {"def roots(n):\n    return [sqrt(n), n ** 70]\n", "roots", "4",
         "[2.0, 1393796574908163946345982392040522594123776]"},
        {"from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n"
         "def f(x):\n    return P(x).x\n",
         "f", "7", "7"},
    };
    char said[4096];

    (void)state;
    need_sandbox();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gp_sandbox_job job = job_of(cases[i].program, cases[i].function, cases[i].input);
        assert_int_equal(run_job(&job, said), GP_SANDBOX_DONE);
        assert_string_equal(said, cases[i].output);
    }
}

static void what_is_drawn_is_the_same_in_every_run(void **state)
{
    struct gp_sandbox_job job = job_of("print(__import__('random').random(),"
                                       " {'a', 'b', 'c', 'd', 'e'}, hash('x'))\n",
                                       NULL, "");
    char first[4096], second[4096];

    (void)state;
    need_sandbox();
    assert_int_equal(run_job(&job, first), GP_SANDBOX_DONE);
    assert_int_equal(run_job(&job, second), GP_SANDBOX_DONE);
    assert_string_equal(first, second);
}

static void threads_and_deep_recursion_are_allowed(void **state)
{
    (void)state;
    need_sandbox();
    expect("import threading\ndef main():\n    def f(n):\n        return n and f(n - 1) + 1\n"
           "    print(f(40000))\nthreading.Thread(target=main).start()\n",
           GP_SANDBOX_DONE, "40000\n");
}

static void early_ends_say_nothing_more(void **state)
{
    struct gp_sandbox_job job = job_of("exit(0)\ndef f():\n    return 1\n", "f", "");
    char said[4096];

    (void)state;
    need_sandbox();
    expect("import os\nos._exit(0)\nprint(1)\n", GP_SANDBOX_DONE, "");
    expect("print(1)\nsys.exit(3)\nprint(2)\n", GP_SANDBOX_DONE, "1\n");
    expect("print(1)\nraise ValueError\n", GP_SANDBOX_FAILED, "1\n");
    expect("this is no program\n", GP_SANDBOX_FAILED, "");
    expect("import os\nos.kill(os.getpid(), 11)\n", GP_SANDBOX_FAILED, "");
    assert_int_equal(run_job(&job, said), GP_SANDBOX_DONE);
    assert_string_equal(said, "");
}

/* ---- what they may not ---- */

static void no_more_than_its_time(void **state)
{
    struct gp_sandbox_job job = job_of("while True: pass\n", NULL, "");
    char said[4096];

    (void)state;
    need_sandbox();
    job.limits.seconds = 1;
    assert_int_equal(run_job(&job, said), GP_SANDBOX_SLOW);
    /* A handler, a thread and a higher limit do not help: a second later it is killed. */
    job = job_of("import resource, signal, threading\n"
                 "signal.signal(signal.SIGXCPU, lambda *a: None)\n"
                 "try:\n    resource.setrlimit(resource.RLIMIT_CPU, (99, 99))\n"
                 "except ValueError:\n    pass\n"
                 "def f():\n    while True: pass\n"
                 "threading.Thread(target=f).start()\n",
                 NULL, "");
    job.limits.seconds = 1;
    assert_int_equal(run_job(&job, said), GP_SANDBOX_FAILED);
}

static void no_waiting_for_ever_behind_a_closed_output(void **state)
{
    struct gp_sandbox_job job =
        job_of("import os, time\nprint(1, flush=True)\nos.close(1)\ntime.sleep(1e6)\n", NULL, "");
    char said[4096];

    (void)state;
    need_sandbox();
    job.limits.wait_seconds = 6;
    uint64_t begin = gp_clock_ns();
    assert_int_equal(run_job(&job, said), GP_SANDBOX_WAITED);
    assert_string_equal(said, "1\n");
    assert_true(gp_clock_ns() - begin < 30000000000u);
}

static void no_more_than_its_memory(void **state)
{
    (void)state;
    need_sandbox();
    expect("x = []\nwhile True: x.append(bytearray(1 << 25))\n", GP_SANDBOX_FAILED, "");
    expect("import ctypes, mmap\nx = []\nwhile True: x.append(mmap.mmap(-1, 1 << 28))\n",
           GP_SANDBOX_FAILED, "");
    /* Memory that the limit does not count cannot be had. */
    expect("import ctypes, os\ntry:\n    os.memfd_create('x')\nexcept OSError as e:\n    "
           "print(e.errno)\n"
           "print(ctypes.CDLL(None).shmget(0, 1 << 28, 0o1600))\n",
           GP_SANDBOX_DONE, "1\n-1\n");
}

static void no_more_than_its_output(void **state)
{
    (void)state;
    need_sandbox();
    expect("while True: print('x' * 65536)\n", GP_SANDBOX_LOUD, NULL);
    /* What goes to standard error is nobody's. */
    expect("sys.stderr.write('x' * (1 << 24))\nprint(1)\n", GP_SANDBOX_DONE, "1\n");
}

static void no_other_process(void **state)
{
    (void)state;
    need_sandbox();
    expect("import os\nwhile True: os.fork()\n", GP_SANDBOX_FAILED, "");
    expect("import os, subprocess\n"
           "def tell(f, *a):\n    try:\n        print('did', f(*a))\n"
           "    except OSError as e:\n        print(e.errno)\n"
           "tell(os.fork)\ntell(subprocess.run, ['/usr/bin/true'])\n"
           "tell(os.posix_spawn, '/usr/bin/true', ['true'], {})\n"
           "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
           "print(libc.syscall(57), libc.syscall(58), libc.syscall(56, 17, 0, 0, 0, 0),\n"
           "      libc.syscall(435, 0, 0), libc.syscall(0x40000039))\n",
           GP_SANDBOX_DONE, "1\n1\n1\n-1 -1 -1 -1 -1\n");
    /* There is nobody to kill but itself and what started it, which does not mind. */
    expect(
        "import os\ntry:\n    os.kill(-1, 9)\nexcept OSError:\n    pass\nprint(os.getpid() < 5)\n",
        GP_SANDBOX_DONE, "True\n");
}

static void no_file_outside(void **state)
{
    char path[] = "/tmp/growpage-test-sandbox-XXXXXX", program[2048], said[4096];
    int fd = mkstemp(path);
    const char *home = getenv("HOME");

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "secret", 6), 6);
    close(fd);
    snprintf(
        program, sizeof program,
        "import os\n"
        "for p in ('%s', '%s', '/root', '/home', '/proc', '/sys', '/etc/passwd', '/var', '/run'):\n"
        "    if os.path.exists(p): print('sees', p)\n"
        "for p in ('/x', '/usr/x', '/usr/bin/python3', '/etc/x', '/dev/x', '/dev/shm/x', '%s'):\n"
        "    try:\n        open(p, 'r+' if os.path.exists(p) else 'w').close()\n"
        "        print('wrote', p)\n"
        "    except OSError:\n        pass\n"
        "print(os.listdir('/tmp'))\n"
        "print(os.open('/dev/null', os.O_WRONLY) > 0)\n"
        "open('/tmp/mine', 'w').write('x')\n"
        "for i in range(256):\n    try:\n        os.fstat(i)\n        print(i)\n"
        "    except OSError:\n        pass\n",
        path, home && *home ? home : "/root", path + 4);
    if (!able) {
        unlink(path);
        need_sandbox();
    }
    struct gp_sandbox_job job = job_of(program, NULL, "");
    enum gp_sandbox_end end = run_job(&job, said);
    assert_int_equal(access("/tmp/mine", F_OK), -1);
    unlink(path);
    assert_int_equal(end, GP_SANDBOX_DONE);
    /* 3 is the /dev/null that it opened. */
    assert_string_equal(said, "[]\nTrue\n0\n1\n2\n3\n");
    /* What it wrote is gone, and it is never much. */
    expect("import os\nprint(os.listdir('/tmp'))\nn = 0\ntry:\n"
           "    for n in range(100):\n        open(f'/tmp/{n}', 'wb').write(b'x' * (1 << 20))\n"
           "except OSError:\n    print(n <= 64)\n",
           GP_SANDBOX_DONE, "[]\nTrue\n");
}

static void no_network_no_privilege_no_variable(void **state)
{
    (void)state;
    need_sandbox();
    setenv("GP_TEST_SECRET", "secret", 1);
    expect("import ctypes, os, socket\n"
           "try:\n    socket.create_connection(('127.0.0.1', 80), 1)\n"
           "except OSError as e:\n    print(e.errno)\n"
           "print('GP_TEST_SECRET' in os.environ, os.getuid(), os.environ['HOME'])\n"
           "libc = ctypes.CDLL(None)\n"
           "print(libc.unshare(0x10000000), libc.mount(b'/tmp', b'/usr', None, 4096, None),\n"
           "      libc.setuid(0), libc.chroot(b'/tmp'), libc.ptrace(0, 0, 0, 0))\n",
           GP_SANDBOX_DONE, "1\nFalse 65534 /tmp\n-1 -1 -1 -1 -1\n");
    unsetenv("GP_TEST_SECRET");
}

/* ---- what is left ---- */

static const char sleeper[] =
    "import ctypes, time\nctypes.CDLL(None).prctl(15, b'gp-left-over', 0, 0, 0)\n"
    "while True: time.sleep(1e3)\n";

static void *run_sleeper(void *ctx)
{
    char said[4096];

    return run_job(ctx, said) == GP_SANDBOX_STOPPED ? ctx : NULL;
}

static void nothing_is_left_when_it_is_stopped(void **state)
{
    struct gp_sandbox_job job = job_of(sleeper, NULL, "");
    pthread_t thread;
    void *stopped;

    (void)state;
    need_sandbox();
    job.stop_fd = eventfd(0, 0);
    assert_int_equal(pthread_create(&thread, NULL, run_sleeper, &job), 0);
    wait_until("comm", "gp-left-over", 1, 60);
    gp_event_raise(job.stop_fd);
    pthread_join(thread, &stopped);
    assert_non_null(stopped);
    wait_until("comm", "gp-left-over", 0, 5);
    close(job.stop_fd);
}

/* Also not of a sandbox that was still being made. */
static void nothing_is_left_when_it_is_stopped_at_once(void **state)
{
    char name[32], said[4096];

    (void)state;
    need_sandbox();
    snprintf(name, sizeof name, "gp_stopped_%d", (int)getpid());
    struct gp_sandbox_job job = job_of("import time\ntime.sleep(1e6)\n", name, "");
    job.stop_fd = eventfd(1, 0);
    for (int i = 0; i < 20; i++)
        assert_int_equal(run_job(&job, said), GP_SANDBOX_STOPPED);
    wait_until("cmdline", name, 0, 5);
    close(job.stop_fd);
}

/* At any time: a program that began then would never end. */
static void no_program_begins_for_a_caller_that_was_killed(void **state)
{
    struct gp_sandbox_job job = job_of(sleeper, NULL, "");
    struct gp_sandbox_result result;

    (void)state;
    need_sandbox();
    for (unsigned i = 0; i < 40; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            gp_sandbox_run(&job, &result, NULL);
            _exit(0);
        }
        usleep(i * 3000);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    usleep(500000);
    wait_until("comm", "gp-left-over", 0, 5);
}

static void nothing_is_left_when_the_caller_is_killed(void **state)
{
    struct gp_sandbox_job job = job_of(sleeper, NULL, "");
    struct gp_sandbox_result result;

    (void)state;
    need_sandbox();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        gp_sandbox_run(&job, &result, NULL);
        _exit(0);
    }
    wait_until("comm", "gp-left-over", 1, 60);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    wait_until("comm", "gp-left-over", 0, 5);
}

/* ---- where it cannot be ---- */

/* With another bwrap, or none. */
static void expect_no_sandbox(const char *script, const char *words)
{
    char folder[] = "/tmp/growpage-test-bwrap-XXXXXX", path[64];
    char *before = strdup(getenv("PATH"));
    struct gp_sandbox_limits limits = {.seconds = 2, .memory_bytes = 512 * MIB};
    struct gp_error err = {""};

    assert_non_null(before);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/bwrap", folder);
    if (script) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fprintf(file, "#!/bin/sh\n%s\n", script);
        fclose(file);
        assert_int_equal(chmod(path, 0700), 0);
    }
    setenv("PATH", folder, 1);
    int rc = gp_sandbox_check(&limits, &err);
    setenv("PATH", before, 1);
    free(before);
    unlink(path);
    rmdir(folder);
    assert_int_equal(rc, GP_EIO);
    if (!strstr(err.message, words))
        fail_msg("\"%s\" says nothing of %s", err.message, words);
}

static void what_is_missing_is_said(void **state)
{
    (void)state;
    expect_no_sandbox(NULL, "bwrap: not found; install bubblewrap");
    expect_no_sandbox(
        "echo 'bwrap: execvp /usr/bin/python3: No such file or directory' >&2; exit 1",
        "python3: not at /usr/bin/python3");
    expect_no_sandbox(
        "echo first >&2; echo 'bwrap: No permissions to create new namespace' >&2; exit 1",
        "bwrap: No permissions to create new namespace");
    expect_no_sandbox("exit 0", "it said nothing");
    expect_no_sandbox("echo '+other'", "did not run");
}

static void memory_refused_at_any_point_is_told_and_nothing_leaks(void **state)
{
    struct gp_sandbox_job job = job_of("print('x' * 500000)\n", NULL, "");

    (void)state;
    need_sandbox();
    for (uint64_t n = 1;; n++) {
        struct gp_sandbox_result result;
        struct gp_error err = {""};
        uint64_t live = gp_mem_live();

        gp_mem_refuse_at(n);
        int rc = gp_sandbox_run(&job, &result, &err);
        bool refused = gp_mem_refused();
        gp_mem_refuse_at(0);
        assert_int_equal(rc, refused ? GP_ENOMEM : GP_OK);
        if (!rc)
            gp_mem_free(result.output);
        assert_int_equal(gp_mem_live(), live);
        if (!refused)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_read_and_write),
        cmocka_unit_test(functions_are_called_with_lines_of_json),
        cmocka_unit_test(what_is_drawn_is_the_same_in_every_run),
        cmocka_unit_test(threads_and_deep_recursion_are_allowed),
        cmocka_unit_test(early_ends_say_nothing_more),
        cmocka_unit_test(no_more_than_its_time),
        cmocka_unit_test(no_waiting_for_ever_behind_a_closed_output),
        cmocka_unit_test(no_more_than_its_memory),
        cmocka_unit_test(no_more_than_its_output),
        cmocka_unit_test(no_other_process),
        cmocka_unit_test(no_file_outside),
        cmocka_unit_test(no_network_no_privilege_no_variable),
        cmocka_unit_test(nothing_is_left_when_it_is_stopped),
        cmocka_unit_test(nothing_is_left_when_it_is_stopped_at_once),
        cmocka_unit_test(nothing_is_left_when_the_caller_is_killed),
        cmocka_unit_test(no_program_begins_for_a_caller_that_was_killed),
        cmocka_unit_test(what_is_missing_is_said),
        cmocka_unit_test(memory_refused_at_any_point_is_told_and_nothing_leaks),
    };
    struct gp_sandbox_limits limits = {.seconds = 5, .memory_bytes = 512 * MIB};

    able = gp_sandbox_check(&limits, &unable) == GP_OK;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
