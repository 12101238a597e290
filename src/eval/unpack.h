/* How LiveCodeBench packs a text: in base64, a zlib stream that holds a pickle of one string. */
#ifndef GP_EVAL_UNPACK_H
#define GP_EVAL_UNPACK_H

#include <stddef.h>

#include "base/error.h"

/* *out is zero-terminated (gp_mem_free).  Nothing of the pickle is executed: what is not a pickle
 * (protocol 2 to 5) of a string and nothing else is GP_ECORRUPT, and so is what unpacks to more
 * than `most` bytes. */
int gp_unpack(const char *text, size_t length, size_t most, char **out, size_t *out_length,
              struct gp_error *err);

#endif
