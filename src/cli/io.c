#include "cli/io.h"

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <utf8proc.h>

#include "base/mem.h"

#define FILE_BYTES_MAX ((size_t)1 << 30)

static bool has_unicode;

void gp_io_start(void)
{
    /* Opened the wrong way round on purpose: reading or writing still fails. */
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    setlocale(LC_CTYPE, "");
    has_unicode = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

void gp_take_unicode(void)
{
    const char *name = setlocale(LC_CTYPE, NULL);

    if (name && (strcmp(name, "C") == 0 || strcmp(name, "POSIX") == 0))
        setlocale(LC_CTYPE, "C.UTF-8");
}

int gp_tell(int exit_code, const struct gp_error *err)
{
    fprintf(stderr, "growpage: %s\n", err->message);
    return exit_code;
}

static int read_all(int fd, const char *name, char **text, size_t *length, struct gp_error *err)
{
    size_t room = 0, used = 0;
    char *bytes = NULL;

    for (;;) {
        if (used + 1 >= room) {
            size_t larger = room ? room * 2 : 65536;
            char *grown = gp_mem_realloc(bytes, room, larger);
            if (!grown) {
                gp_mem_free(bytes);
                return gp_fail(err, GP_ENOMEM, "%s: out of memory", name);
            }
            bytes = grown;
            room = larger;
        }
        ssize_t got = read(fd, bytes + used, room - used - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            gp_mem_free(bytes);
            return gp_fail(err, GP_EIO, "%s: %s", name, strerror(errno));
        }
        if (got == 0)
            break;
        used += (size_t)got;
        if (used > FILE_BYTES_MAX) {
            gp_mem_free(bytes);
            return gp_fail(err, GP_EINVAL, "%s: larger than 1 GiB", name);
        }
    }
    bytes[used] = 0;
    *text = bytes;
    if (length)
        *length = used;
    return GP_OK;
}

int gp_read_file(const char *path, char **text, size_t *length, struct gp_error *err)
{
    if (strcmp(path, "-") == 0)
        return read_all(STDIN_FILENO, "standard input", text, length, err);

    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return gp_fail(err, GP_EIO, "%s: %s", path, strerror(errno));
    int rc = read_all(fd, path, text, length, err);
    close(fd);
    return rc;
}

static int fail_print(struct gp_error *err)
{
    int why = errno;

    clearerr(stdout);
    return gp_fail(err, GP_EIO, "standard output: %s", strerror(why));
}

int gp_print(const char *text, size_t length, struct gp_error *err)
{
    if (fwrite(text, 1, length, stdout) != length)
        return fail_print(err);
    return gp_print_end(err);
}

int gp_printf(struct gp_error *err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int written = vprintf(format, args);
    va_end(args);
    return written < 0 ? fail_print(err) : GP_OK;
}

int gp_print_end(struct gp_error *err)
{
    return fflush(stdout) || ferror(stdout) ? fail_print(err) : GP_OK;
}

static bool progress_shown;

void gp_progress(const char *what, double share)
{
    if (!isatty(STDERR_FILENO))
        return;
    fprintf(stderr, "\r%s %3.0f %%", what, share * 100);
    fflush(stderr);
    progress_shown = true;
}

void gp_progress_end(void)
{
    if (progress_shown)
        fprintf(stderr, "\r\033[K");
    progress_shown = false;
}

bool gp_has_unicode(void)
{
    return has_unicode;
}

static volatile sig_atomic_t interrupted;

static void note_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

void gp_interrupt_arm(void)
{
    /* A write that waits for a slow reader goes on where it was: only the flag is news. */
    struct sigaction action = {.sa_handler = note_interrupt, .sa_flags = SA_RESETHAND | SA_RESTART};

    interrupted = 0;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

void gp_interrupt_disarm(void)
{
    signal(SIGINT, SIG_DFL);
}

bool gp_interrupted(void)
{
    return interrupted;
}

const char *gp_format_bytes(uint64_t bytes, char out[32])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes / 1024;
    size_t unit = 0;

    if (bytes < 1024) {
        snprintf(out, 32, "%u bytes", (unsigned)bytes);
        return out;
    }
    for (; value >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++)
        value /= 1024;
    snprintf(out, 32, "%.1f %s", value, units[unit]);
    return out;
}

size_t gp_utf8_valid(const char *text, size_t length)
{
    size_t at = 0;

    while (at < length) {
        utf8proc_int32_t character;
        utf8proc_ssize_t used = utf8proc_iterate((const utf8proc_uint8_t *)text + at,
                                                 (utf8proc_ssize_t)(length - at), &character);
        if (used <= 0)
            break;
        at += (size_t)used;
    }
    return at;
}
