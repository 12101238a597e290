#include "eval/unpack.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <zlib.h>

#include "base/mem.h"

#define INFLATE_AT_LEAST 65536u

/* ---- base64 ---- */

/* -1: no digit. */
static int digit_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Into out, which has room for length / 4 * 3 bytes; how many there are, SIZE_MAX: it is no base64.
 */
static size_t decode_base64(const char *text, size_t length, uint8_t *out)
{
    size_t padding = 0, n = 0;
    uint32_t bits = 0;

    if (length % 4)
        return SIZE_MAX;
    while (padding < 2 && padding < length && text[length - 1 - padding] == '=')
        padding++;
    for (size_t i = 0; i < length - padding; i++) {
        int digit = digit_of(text[i]);
        if (digit < 0)
            return SIZE_MAX;
        bits = bits << 6 | (uint32_t)digit;
        if (i % 4 == 0)
            continue;
        out[n++] = (uint8_t)(bits >> (6 - i % 4 * 2));
    }
    return n;
}

/* ---- zlib ---- */

static bool grow(uint8_t **bytes, size_t *room, size_t most)
{
    size_t larger = *room ? *room * 2 : INFLATE_AT_LEAST;

    larger = larger < most ? larger : most;
    uint8_t *grown = gp_mem_realloc(*bytes, *room, larger);
    if (!grown)
        return false;
    *bytes = grown;
    *room = larger;
    return true;
}

/* avail_in and avail_out are 32 bits. */
static uInt part(size_t left)
{
    return left < UINT32_MAX / 2 ? (uInt)left : UINT32_MAX / 2;
}

static int inflate_all(z_stream *z, const uint8_t *from, size_t length, size_t most, uint8_t **out,
                       size_t *out_length, struct gp_error *err)
{
    size_t room = 0, taken = 0, made = 0;
    int rc = Z_OK;

    while (rc == Z_OK || rc == Z_BUF_ERROR) {
        if (made == most)
            return gp_fail(err, GP_ECORRUPT, "it unpacks to more than %zu bytes", most);
        if (made == room && !grow(out, &room, most))
            return gp_fail(err, GP_ENOMEM, "out of memory");
        z->next_in = (Bytef *)(uintptr_t)(from + taken);
        z->avail_in = part(length - taken);
        z->next_out = *out + made;
        z->avail_out = part(room - made);
        uInt before_in = z->avail_in, before_out = z->avail_out;
        rc = inflate(z, Z_NO_FLUSH);
        taken += before_in - z->avail_in;
        made += before_out - z->avail_out;
        if (rc == Z_BUF_ERROR && taken == length)
            return gp_fail(err, GP_ECORRUPT, "its zlib stream breaks off");
    }
    if (rc != Z_STREAM_END || taken != length)
        return gp_fail(err, rc == Z_MEM_ERROR ? GP_ENOMEM : GP_ECORRUPT, "it is no zlib stream: %s",
                       z->msg ? z->msg : "bytes behind its end");
    *out_length = made;
    return GP_OK;
}

/* ---- the pickle ---- */

static uint64_t little_endian(const uint8_t *bytes, unsigned count)
{
    uint64_t value = 0;

    for (unsigned i = count; i-- > 0;)
        value = value << 8 | bytes[i];
    return value;
}

/* The string of "PROTO, perhaps FRAME, a string, memo, STOP"; NULL: it is something else. */
static const uint8_t *pickled_string(const uint8_t *bytes, size_t length, size_t *string_length)
{
    size_t at = 2, width;

    if (length < 4 || bytes[0] != 0x80 || bytes[1] < 2 || bytes[1] > 5)
        return NULL;
    /* FRAME and its eight bytes of length; large strings have none. */
    if (bytes[at] == 0x95)
        at += 9;
    if (at >= length)
        return NULL;
    switch (bytes[at++]) {
    case 0x8c: /* SHORT_BINUNICODE */
        width = 1;
        break;
    case 'X': /* BINUNICODE */
        width = 4;
        break;
    case 0x8d: /* BINUNICODE8 */
        width = 8;
        break;
    default:
        return NULL;
    }
    if (length - at < width)
        return NULL;
    uint64_t n = little_endian(bytes + at, (unsigned)width);
    at += width;
    if (n > length - at)
        return NULL;
    const uint8_t *rest = bytes + at + n;
    size_t left = length - at - n;
    /* MEMOIZE, or BINPUT 0; Python 2's and the optimised ones have neither. */
    size_t memo = left > 0 && rest[0] == 0x94 ? 1 : left > 1 && rest[0] == 'q' && !rest[1] ? 2 : 0;
    if (left != memo + 1 || rest[memo] != '.')
        return NULL;
    *string_length = (size_t)n;
    return bytes + at;
}

/* ---- all of it ---- */

static int unpack(const uint8_t *packed, size_t length, size_t most, char **out, size_t *out_length,
                  struct gp_error *err)
{
    z_stream z = {0};
    uint8_t *bytes = NULL;
    size_t count = 0, string_length = 0;

    if (inflateInit(&z) != Z_OK)
        return gp_fail(err, GP_ENOMEM, "out of memory");
    int rc = inflate_all(&z, packed, length, most, &bytes, &count, err);
    inflateEnd(&z);
    const uint8_t *string = rc ? NULL : pickled_string(bytes, count, &string_length);
    if (!rc && !string)
        rc = gp_fail(err, GP_ECORRUPT, "its pickle is not that of a string");
    if (!rc) {
        *out = gp_mem_copy((const char *)string, string_length);
        *out_length = string_length;
        if (!*out)
            rc = gp_fail(err, GP_ENOMEM, "out of memory");
    }
    gp_mem_free(bytes);
    return rc;
}

int gp_unpack(const char *text, size_t length, size_t most, char **out, size_t *out_length,
              struct gp_error *err)
{
    uint8_t *packed = gp_mem_alloc(length / 4 * 3);

    if (!packed)
        return gp_fail(err, GP_ENOMEM, "out of memory");
    size_t count = decode_base64(text, length, packed);
    int rc = count == SIZE_MAX ? gp_fail(err, GP_ECORRUPT, "it is neither JSON nor base64")
                               : unpack(packed, count, most, out, out_length, err);
    gp_mem_free(packed);
    return rc;
}
