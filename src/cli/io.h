/* Files, standard streams, the terminal and Ctrl-C, as the commands use them. */
#ifndef GP_CLI_IO_H
#define GP_CLI_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum gp_exit {
    GP_EXIT_OK = 0,
    GP_EXIT_FAILED = 1,
    GP_EXIT_USAGE = 2,
    GP_EXIT_INTERRUPTED = 130, /* 128 and SIGINT, as shells say it */
};

/* To be called first.  A standard stream that is closed is opened on nothing, so that no file of
 * ours takes its number; a closed pipe and a file grown too large become errors of the write, not
 * signals; characters are those of the locale, numbers stay those of C. */
void gp_io_start(void);

/* Tell err on stderr, one line; returns exit_code, for `return`. */
int gp_tell(int exit_code, const struct gp_error *err);

/* The whole of a file, or of standard input for "-", with a zero byte behind it.  length may be
 * NULL. At most 1 GiB.  *text is the caller's (gp_mem_free). */
int gp_read_file(const char *path, char **text, size_t *length, struct gp_error *err);

/* Write to standard output now.  GP_EIO: "standard output: why". */
int gp_print(const char *text, size_t length, struct gp_error *err);
int gp_printf(struct gp_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What stdio still holds, and whether all of it arrived. */
int gp_print_end(struct gp_error *err);

/* A line on a terminal's stderr that the next one writes over; nothing on anything else. */
void gp_progress(const char *what, double share);
void gp_progress_end(void);

/* Whether the locale says that stderr is shown in UTF-8. */
bool gp_has_unicode(void);

/* Where no locale was chosen, or the one that was is not installed, read what is typed as UTF-8:
 * libedit would drop every character that is not ASCII, and say nothing. */
void gp_take_unicode(void);

/* From arm to disarm the first Ctrl-C sets a flag and the second one kills. */
void gp_interrupt_arm(void);
void gp_interrupt_disarm(void);
bool gp_interrupted(void);

/* "93.8 MiB" into out, which is returned. */
const char *gp_format_bytes(uint64_t bytes, char out[32]);

/* The index of the first byte that is not UTF-8; length when all are. */
size_t gp_utf8_valid(const char *text, size_t length);

#endif
