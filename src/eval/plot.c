#include "eval/plot.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The whole of a file that was written to; freed with free(). */
static char *read_back(FILE *file)
{
    long length = fseek(file, 0, SEEK_END) ? -1 : ftell(file);
    char *text = length >= 0 ? malloc((size_t)length + 1) : NULL;

    rewind(file);
    if (text)
        text[fread(text, 1, (size_t)length, file)] = 0;
    return text;
}

static int run_gnuplot(FILE *in, FILE *out, FILE *complaint, int *status, struct gp_error *err)
{
    char name[] = "gnuplot";
    char *const arguments[] = {name, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fileno(in), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fileno(out), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fileno(complaint), STDERR_FILENO);
    int rc = posix_spawnp(&child, name, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (rc)
        return gp_fail(err, GP_EIO, "gnuplot, which draws the figures: %s", strerror(rc));
    while (waitpid(child, status, 0) < 0)
        if (errno != EINTR)
            return gp_fail(err, GP_EIO, "gnuplot: %s", strerror(errno));
    return GP_OK;
}

/* From the picture's element on, with black as the page's own colour. */
static void write_picture(const char *svg, FILE *out)
{
    static const char *const blacks[] = {"\"black\"", "'black'", "'rgb(  0,   0,   0)'",
                                         "\"rgb(  0,   0,   0)\""};

    while (*svg) {
        size_t plain = strcspn(svg, "\"'");
        size_t length = 0;

        fwrite(svg, 1, plain, out);
        svg += plain;
        for (size_t i = 0; i < sizeof blacks / sizeof *blacks && !length; i++)
            if (strncmp(svg, blacks[i], strlen(blacks[i])) == 0)
                length = strlen(blacks[i]);
        if (length)
            fputs("\"currentColor\"", out);
        else if (*svg)
            fputc(*svg, out);
        svg += length ? length : *svg != 0;
    }
}

int gp_plot(const char *script, FILE *out, struct gp_error *err)
{
    FILE *in = tmpfile(), *picture = tmpfile(), *complaint = tmpfile();
    char *svg = NULL, *words = NULL;
    int status = 0, rc;

    if (!in || !picture || !complaint) {
        rc = gp_fail(err, GP_EIO, "a temporary file: %s", strerror(errno));
        goto close_files;
    }
    fputs(script, in);
    rewind(in);
    rc = run_gnuplot(in, picture, complaint, &status, err);
    if (rc)
        goto close_files;
    svg = read_back(picture);
    words = read_back(complaint);
    char *begin = svg ? strstr(svg, "<svg") : NULL;
    if (status != 0 || !begin || !words)
        rc = gp_fail(err, GP_EIO, "gnuplot: %.200s", words && *words ? words : "no picture");
    else
        write_picture(begin, out);
close_files:
    free(svg);
    free(words);
    if (in)
        fclose(in);
    if (picture)
        fclose(picture);
    if (complaint)
        fclose(complaint);
    return rc;
}
