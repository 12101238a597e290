/* Bytes that grow at the end and are taken from the front. */
#ifndef GP_SERVER_BUFFER_H
#define GP_SERVER_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

/* All zero is empty. */
struct gp_buffer {
    char *bytes; /* a zero byte stands behind them when there are any */
    size_t length, room;
    bool failed; /* memory ran out once: what was added since is lost */
};

void gp_buffer_add(struct gp_buffer *buffer, const char *bytes, size_t length);
void gp_buffer_print(struct gp_buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Drop the first `length` bytes. */
void gp_buffer_drop(struct gp_buffer *buffer, size_t length);

/* Empty, with its memory kept; and without. */
void gp_buffer_clear(struct gp_buffer *buffer);
void gp_buffer_free(struct gp_buffer *buffer);

#endif
