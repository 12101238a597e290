#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/error.h"

static atomic_bool info_on;
static atomic_bool warnings_off;

static void emit(const char *kind, const char *format, va_list args)
{
    char line[1024];
    int at = snprintf(line, sizeof line, "growpage: %s", kind);

    vsnprintf(line + at, sizeof line - (size_t)at, format, args);
    gp_text_clean(line);
    fprintf(stderr, "%s\n", line);
}

void gp_log_warn(const char *format, ...)
{
    va_list args;

    if (atomic_load(&warnings_off))
        return;
    va_start(args, format);
    emit("warning: ", format, args);
    va_end(args);
}

void gp_log_info(const char *format, ...)
{
    va_list args;

    if (!atomic_load(&info_on))
        return;
    va_start(args, format);
    emit("", format, args);
    va_end(args);
}

void gp_log_set(bool info, bool warnings)
{
    atomic_store(&info_on, info);
    atomic_store(&warnings_off, !warnings);
}
