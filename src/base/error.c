#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void sanitise(char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            text[i] = '?';
}

/* A cut must not leave half a UTF-8 character behind. */
static void trim_to_character(char *text)
{
    size_t length = strlen(text), start = length;

    while (start > 0 && ((unsigned char)text[start - 1] & 0xc0) == 0x80)
        start--;
    if (start == 0)
        return;
    unsigned char lead = (unsigned char)text[start - 1];
    size_t want = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;

    if (length - (start - 1) < want)
        text[start - 1] = '\0';
}

void gp_error_set(struct gp_error *err, const char *format, ...)
{
    va_list args;

    if (!err)
        return;
    va_start(args, format);
    int length = vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    if (length >= (int)sizeof err->message)
        trim_to_character(err->message);
    sanitise(err->message, strlen(err->message));
}

void gp_error_prefix(struct gp_error *err, const char *format, ...)
{
    struct gp_error context;
    va_list args;

    if (!err)
        return;
    va_start(args, format);
    vsnprintf(context.message, sizeof context.message, format, args);
    va_end(args);
    struct gp_error old = *err;

    gp_error_set(err, "%s: %s", context.message, old.message);
}
