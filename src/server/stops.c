#include "server/stops.h"

#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

int gp_stop_set_add(struct gp_stop_set *set, const char *text, size_t length, struct gp_error *err)
{
    gp_assert(set->count < GP_LIMIT_STOPS);
    gp_assert(length > 0 && length <= GP_LIMIT_STOP_BYTES);
    struct gp_stop stop = {
        .text = gp_mem_copy(text, length),
        .length = (uint32_t)length,
        .shorter = gp_mem_alloc_array(length, sizeof *stop.shorter),
    };

    if (!stop.text || !stop.shorter) {
        gp_mem_free(stop.text);
        gp_mem_free(stop.shorter);
        return gp_fail(err, GP_ENOMEM, "stop: out of memory");
    }
    /* Knuth, Morris and Pratt: a byte costs the same whatever the strings are. */
    for (uint32_t i = 1, at = 0; i < length; i++) {
        while (at > 0 && text[i] != text[at])
            at = stop.shorter[at - 1];
        at += text[i] == text[at];
        stop.shorter[i] = (uint16_t)at;
    }
    set->items[set->count++] = stop;
    return GP_OK;
}

void gp_stop_set_free(struct gp_stop_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        gp_mem_free(set->items[i].text);
        gp_mem_free(set->items[i].shorter);
    }
    *set = (struct gp_stop_set){0};
}

void gp_stopper_init(struct gp_stopper *s, const struct gp_stop_set *set)
{
    s->set = set;
    s->hit = GP_STOP_NONE;
    s->held_count = 0;
    memset(s->at, 0, sizeof s->at);
}

static void let_out(struct gp_stopper *s, uint32_t count, struct gp_buffer *out)
{
    if (out)
        gp_buffer_add(out, s->held, count);
    s->held_count -= count;
    memmove(s->held, s->held + count, s->held_count);
}

/* The longest beginning of any string that the text now ends with; a whole one is a hit. */
static uint32_t advance(struct gp_stopper *s, char byte)
{
    uint32_t longest = 0, hit_length = 0;

    for (uint32_t i = 0; i < s->set->count; i++) {
        const struct gp_stop *stop = &s->set->items[i];
        uint32_t at = s->at[i];

        while (at > 0 && stop->text[at] != byte)
            at = stop->shorter[at - 1];
        at += stop->text[at] == byte;
        s->at[i] = (uint16_t)at;
        if (at == stop->length && at > hit_length) {
            hit_length = at;
            s->hit = i;
        }
        longest = at > longest ? at : longest;
    }
    return s->hit == GP_STOP_NONE ? longest : hit_length;
}

void gp_stopper_feed(struct gp_stopper *s, const char *text, size_t length, struct gp_buffer *out)
{
    if (s->set->count == 0) {
        if (out)
            gp_buffer_add(out, text, length);
        return;
    }
    for (size_t i = 0; i < length && s->hit == GP_STOP_NONE; i++) {
        gp_assert(s->held_count < sizeof s->held);
        s->held[s->held_count++] = text[i];
        uint32_t kept = advance(s, text[i]);

        if (s->held_count > kept)
            let_out(s, s->held_count - kept, out);
    }
    if (s->hit != GP_STOP_NONE)
        s->held_count = 0;
}

void gp_stopper_end(struct gp_stopper *s, struct gp_buffer *out)
{
    if (s->hit == GP_STOP_NONE)
        let_out(s, s->held_count, out);
    s->held_count = 0;
}
