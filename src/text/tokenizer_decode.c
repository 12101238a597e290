/* Ids back to text. */
#include "text/tokenizer_internal.h"

#include "base/assert.h"
#include "base/mem.h"
#include "text/utf8.h"

#include <string.h>

const char *gp_token_bytes(const struct gp_tokenizer *t, int32_t id, bool with_control,
                           size_t *length)
{
    *length = 0;
    if (id < 0 || (uint32_t)id >= t->count)
        return "";
    uint8_t type = t->types[id];
    bool hidden = type == GP_TOKEN_CONTROL || type == GP_TOKEN_UNKNOWN || type == GP_TOKEN_UNUSED;

    if (!hidden || with_control)
        *length = t->pieces.offsets[id + 1] - t->pieces.offsets[id];
    return t->pieces.bytes + t->pieces.offsets[id];
}

/* A token's bytes as part of a text.  The llama kind put a space in front of each text that follows
 * a special token or begins the whole; *started says whether that space is behind us. */
static const char *next_bytes(const struct gp_tokenizer *t, int32_t id, bool with_control,
                              bool *started, size_t *length)
{
    const char *bytes = gp_token_bytes(t, id, with_control, length);

    if (!t->space_prefix || id < 0 || (uint32_t)id >= t->count)
        return bytes;
    if (gp_token_is_special(t->types[id])) {
        *started = false;
    } else if (*length > 0 && !*started) {
        *started = true;
        if (*bytes == ' ') {
            bytes++;
            (*length)--;
        }
    }
    return bytes;
}

int gp_detokenize(const struct gp_tokenizer *t, const int32_t *ids, uint32_t id_count,
                  bool with_control, char **out, size_t *out_length, struct gp_error *err)
{
    size_t total = 0, length;
    bool started = false;

    for (uint32_t i = 0; i < id_count; i++) {
        gp_token_bytes(t, ids[i], with_control, &length);
        total += length;
    }
    char *text = gp_mem_alloc(total + 1), *to = text;

    if (!text)
        return gp_fail(err, GP_ENOMEM, "tokenizer: out of memory");
    for (uint32_t i = 0; i < id_count; i++) {
        const char *bytes = next_bytes(t, ids[i], with_control, &started, &length);

        if (length > 0)
            memcpy(to, bytes, length);
        to += length;
    }
    *out = text;
    *out_length = (size_t)(to - text);
    return GP_OK;
}

void gp_detokenizer_init(struct gp_detokenizer *d, const struct gp_tokenizer *t, bool with_control)
{
    *d = (struct gp_detokenizer){.tokenizer = t, .with_control = with_control};
}

static const char replacement[3] = "\xef\xbf\xbd";

/* Move what is decided from held to out; held keeps at most three bytes, the beginning of a
 * character. */
static size_t release(struct gp_detokenizer *d, char *out)
{
    size_t written = 0;

    while (d->held_count > 0) {
        int n = gp_utf8_scan(d->held, d->held_count);
        uint32_t gone = (uint32_t)(n < 0 ? -n : n);

        if (n == 0)
            break;
        if (n > 0)
            memcpy(out + written, d->held, gone);
        else
            memcpy(out + written, replacement, sizeof replacement);
        written += n > 0 ? gone : sizeof replacement;
        d->held_count -= gone;
        memmove(d->held, d->held + gone, d->held_count);
    }
    return written;
}

size_t gp_detokenizer_next(struct gp_detokenizer *d, int32_t id, char *out, size_t out_bytes)
{
    size_t length, written = 0;
    const char *bytes = next_bytes(d->tokenizer, id, d->with_control, &d->started, &length);

    gp_assert(out_bytes >= 3 * ((size_t)d->tokenizer->bytes_max + 4));
    for (size_t i = 0; i < length; i++) {
        d->held[d->held_count++] = (unsigned char)bytes[i];
        written += release(d, out + written);
    }
    return written;
}

size_t gp_detokenizer_end(struct gp_detokenizer *d, char *out, size_t out_bytes)
{
    size_t held = d->held_count;

    gp_assert(out_bytes >= sizeof replacement);
    d->held_count = 0;
    if (held > 0)
        memcpy(out, replacement, sizeof replacement);
    return held > 0 ? sizeof replacement : 0;
}
