#include "base/error.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Bytes of the UTF-8 character at the front of text, or 0 when none stands there (Unicode's table
 * 3-7; the zero byte at the end stops every character). */
static size_t character_bytes(const unsigned char *text)
{
    unsigned char low = 0x80, high = 0xbf;
    size_t want;

    if (text[0] < 0x80)
        return 1;
    if (text[0] < 0xc2 || text[0] > 0xf4)
        return 0;
    want = text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : 4;
    if (text[0] == 0xe0)
        low = 0xa0;
    else if (text[0] == 0xed)
        high = 0x9f;
    else if (text[0] == 0xf0)
        low = 0x90;
    else if (text[0] == 0xf4)
        high = 0x8f;
    if (text[1] < low || text[1] > high)
        return 0;
    for (size_t i = 2; i < want; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    return want;
}

void gp_text_clean(char *text)
{
    unsigned char *at = (unsigned char *)text;

    while (*at) {
        size_t length = character_bytes(at);
        /* C0, DEL, and C1 (U+0080 to U+009F), which some terminals obey. */
        bool control = *at < 0x20 || *at == 0x7f || (at[0] == 0xc2 && at[1] < 0xa0);

        if (length == 0 || control)
            memset(at, '?', length ? length : 1);
        at += length ? length : 1;
    }
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

void gp_text_copy(char *out, size_t out_bytes, const char *text, size_t length)
{
    size_t kept = length < out_bytes ? length : out_bytes - 1;

    for (size_t i = 0; i < kept; i++)
        out[i] = text[i] ? text[i] : '?';
    out[kept] = '\0';
    if (kept < length)
        trim_to_character(out);
    gp_text_clean(out);
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
    gp_text_clean(err->message);
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
