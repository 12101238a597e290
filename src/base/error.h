/* Errors: how a function says no and why.  Knows nothing of the project. */
#ifndef GP_BASE_ERROR_H
#define GP_BASE_ERROR_H

#include <stddef.h>

#include "growpage_status.h"

/* Control characters and bytes that are not UTF-8 become '?', so that no name out of a file can
 * break a terminal or a log line. */
void gp_text_clean(char *text);

/* Put `length` bytes of text into out, cleaned, zero bytes too; too long a text is cut at a
 * character's edge.  out_bytes > 0. */
void gp_text_copy(char *out, size_t out_bytes, const char *text, size_t length);

/* Write the text into err (NULL is fine), cleaned; too long a text is cut at a character's edge. */
void gp_error_set(struct gp_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Put "context: " before what err holds.  For callers that know more than the callee did. */
void gp_error_prefix(struct gp_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* return gp_fail(err, GP_ECORRUPT, "tensor %s: ...", name);
 * A macro, so that the compiler sees the constant come back. */
#define gp_fail(err, status, ...) (gp_error_set((err), __VA_ARGS__), (status))

#endif
