#include "server/buffer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

static bool make_room(struct gp_buffer *b, size_t more)
{
    if (b->failed)
        return false;
    if (more < SIZE_MAX / 4 && b->length + more + 1 <= b->room)
        return true;
    size_t room = more < SIZE_MAX / 4 ? (b->length + more + 1) * 2 + 64 : 0;
    char *grown = room ? gp_mem_realloc(b->bytes, b->room, room) : NULL;

    if (!grown) {
        b->failed = true;
        return false;
    }
    b->bytes = grown;
    b->room = room;
    return true;
}

void gp_buffer_add(struct gp_buffer *b, const char *bytes, size_t length)
{
    if (length == 0 || !make_room(b, length))
        return;
    memcpy(b->bytes + b->length, bytes, length);
    b->length += length;
    b->bytes[b->length] = 0;
}

void gp_buffer_print(struct gp_buffer *b, const char *format, ...)
{
    va_list args;
    char text[1024];

    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    gp_assert(length >= 0 && (size_t)length < sizeof text);
    gp_buffer_add(b, text, (size_t)length);
}

void gp_buffer_drop(struct gp_buffer *b, size_t length)
{
    gp_assert(length <= b->length);
    if (length == 0)
        return;
    memmove(b->bytes, b->bytes + length, b->length - length + 1);
    b->length -= length;
}

void gp_buffer_clear(struct gp_buffer *b)
{
    b->length = 0;
}

void gp_buffer_free(struct gp_buffer *b)
{
    gp_mem_free(b->bytes);
    *b = (struct gp_buffer){0};
}
