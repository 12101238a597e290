#include "text/tokenizer_internal.h"

#include "base/assert.h"
#include "base/mem.h"
#include "text/utf8.h"

#include <string.h>
#include <utf8proc.h>

bool gp_buffer_reserve(struct gp_buffer *buffer, size_t bytes)
{
    size_t grown = buffer->bytes > SIZE_MAX / 2 ? bytes : buffer->bytes * 2;

    if (bytes <= buffer->bytes)
        return true;
    if (grown < bytes)
        grown = bytes;
    void *block = gp_mem_realloc(buffer->block, buffer->bytes, grown);

    if (!block)
        return false;
    buffer->block = block;
    buffer->bytes = grown;
    return true;
}

/* The bytes at the front that are UTF-8. */
static size_t valid_prefix(const unsigned char *text, size_t length)
{
    size_t at = 0;

    while (at < length) {
        int n = gp_utf8_scan(text + at, length - at);

        if (n <= 0)
            break;
        at += (size_t)n;
    }
    return at;
}

bool gp_text_valid(const char *text, size_t length)
{
    return valid_prefix((const unsigned char *)text, length) == length;
}

bool gp_text_shadow(const char *text, size_t length, struct gp_buffer *out)
{
    if (!gp_buffer_reserve(out, length))
        return false;
    memcpy(out->block, text, length);
    unsigned char *shadow = out->block;

    for (size_t at = 0; at < length;) {
        at += valid_prefix(shadow + at, length - at);
        if (at < length)
            shadow[at++] = 0x01;
    }
    return true;
}

/* Everything below U+0300, where combining marks begin, is NFC and nothing there composes. */
bool gp_text_may_change(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] >= 0xcc)
            return true;
    return false;
}

/* Canonical decomposition; returns the count of code points, writes as many as fit. */
static size_t decompose(const unsigned char *text, size_t length, utf8proc_int32_t *codes,
                        size_t max)
{
    size_t count = 0;

    for (size_t at = 0; at < length;) {
        int n = gp_utf8_scan(text + at, length - at), unused = 0;
        utf8proc_int32_t code = (utf8proc_int32_t)gp_utf8_decode(text + at, n);
        size_t left = count < max ? max - count : 0;
        utf8proc_ssize_t added =
            utf8proc_decompose_char(code, left > 0 ? codes + count : NULL, (utf8proc_ssize_t)left,
                                    UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, &unused);

        gp_assert(added >= 0);
        count += (size_t)added;
        at += (size_t)n;
    }
    return count;
}

static unsigned class_of(utf8proc_int32_t code)
{
    return (unsigned)utf8proc_get_property(code)->combining_class & 0xff;
}

/* Canonical order: in each run of combining marks by class, stable.  Counting, because utf8proc's
 * own sort needs quadratic time for a long run and a text may consist of one. */
static void order_run(utf8proc_int32_t *codes, size_t count, utf8proc_int32_t *spare)
{
    size_t places[257] = {0};

    for (size_t i = 0; i < count; i++)
        places[class_of(codes[i]) + 1]++;
    for (unsigned i = 0; i < 256; i++)
        places[i + 1] += places[i];
    for (size_t i = 0; i < count; i++)
        spare[places[class_of(codes[i])]++] = codes[i];
    memcpy(codes, spare, count * sizeof *codes);
}

static void order_marks(utf8proc_int32_t *codes, size_t count, utf8proc_int32_t *spare)
{
    for (size_t begin = 0, end; begin < count; begin = end + 1) {
        for (end = begin; end < count && class_of(codes[end]) != 0;)
            end++;
        if (end - begin > 1)
            order_run(codes + begin, end - begin, spare);
    }
}

/* NFC of valid UTF-8, appended to out. */
static bool normalise(const unsigned char *text, size_t length, struct gp_buffer *out, size_t *used)
{
    size_t count = decompose(text, length, NULL, 0);
    utf8proc_int32_t *codes = gp_mem_alloc_array(count, 2 * sizeof *codes);
    bool ok = codes != NULL;

    if (ok) {
        decompose(text, length, codes, count);
        order_marks(codes, count, codes + count);
        utf8proc_ssize_t composed = utf8proc_normalize_utf32(codes, (utf8proc_ssize_t)count,
                                                             UTF8PROC_COMPOSE | UTF8PROC_STABLE);

        gp_assert(composed >= 0);
        ok = gp_buffer_reserve(out, *used + 4 * (size_t)composed);
        for (utf8proc_ssize_t i = 0; ok && i < composed; i++)
            *used += (size_t)utf8proc_encode_char(codes[i], (utf8proc_uint8_t *)out->block + *used);
    }
    gp_mem_free(codes);
    return ok;
}

bool gp_text_nfc(const char *text, size_t length, struct gp_buffer *out, size_t *out_length)
{
    const unsigned char *bytes = (const unsigned char *)text;
    size_t used = 0;

    for (size_t at = 0; at < length;) {
        size_t valid = valid_prefix(bytes + at, length - at);

        if (valid > 0 && !normalise(bytes + at, valid, out, &used))
            return false;
        at += valid;
        if (at < length) {
            if (!gp_buffer_reserve(out, used + 1))
                return false;
            ((unsigned char *)out->block)[used++] = bytes[at++];
        }
    }
    *out_length = used;
    return true;
}
