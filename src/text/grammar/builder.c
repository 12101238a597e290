/* States and edges of a grammar while it is made. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "text/grammar/grammar_internal.h"

void gp_build_fail(struct gp_builder *b, int rc, const char *format, ...)
{
    char text[sizeof b->err->message];
    va_list args;

    if (b->rc)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    gp_error_set(b->err, "%s", text);
    b->rc = rc;
}

/* Room for one more of `size` bytes each; false: failed, and said so. */
static bool make_room(struct gp_builder *b, void *items, uint32_t count, uint32_t *room,
                      uint32_t most, size_t size)
{
    void **block = items;

    if (b->rc)
        return false;
    if (count == most) {
        gp_build_fail(b, GP_EINVAL, "too large: its grammar has more than %u states",
                      GP_LIMIT_GRAMMAR_STATES);
        return false;
    }
    if (count < *room)
        return true;
    uint32_t grown = *room ? *room * 2 : 256;
    void *more = gp_mem_realloc(*block, *room * size, grown * size);

    if (!more) {
        gp_build_fail(b, GP_ENOMEM, "out of memory");
        return false;
    }
    *block = more;
    *room = grown;
    return true;
}

uint16_t gp_build_state(struct gp_builder *b)
{
    if (b->state_count == 0)
        b->state_count = b->edge_count = 1;
    if (!make_room(b, &b->states, b->state_count, &b->state_room, GP_LIMIT_GRAMMAR_STATES,
                   sizeof *b->states))
        return 0;
    return (uint16_t)b->state_count++;
}

uint16_t gp_build_end(struct gp_builder *b)
{
    uint16_t state = gp_build_state(b);

    if (state)
        b->states[state].ends = true;
    return state;
}

static void add_edge(struct gp_builder *b, struct gp_draft_edge edge)
{
    if (!make_room(b, &b->edges, b->edge_count, &b->edge_room, GP_LIMIT_GRAMMAR_EDGES,
                   sizeof *b->edges))
        return;
    gp_assert(edge.from && edge.to);
    edge.next = b->states[edge.from].first;
    b->states[edge.from].first = b->edge_count;
    b->edges[b->edge_count++] = edge;
}

void gp_build_bytes(struct gp_builder *b, uint16_t from, uint8_t low, uint8_t high, uint16_t to)
{
    add_edge(b, (struct gp_draft_edge){
                    .from = from, .to = to, .kind = GP_EDGE_BYTES, .low = low, .high = high});
}

void gp_build_empty(struct gp_builder *b, uint16_t from, uint16_t to)
{
    add_edge(b, (struct gp_draft_edge){.from = from, .to = to, .kind = GP_EDGE_EMPTY});
}

void gp_build_call(struct gp_builder *b, uint16_t from, uint16_t part, uint16_t to)
{
    add_edge(b, (struct gp_draft_edge){.from = from, .to = to, .call = part, .kind = GP_EDGE_CALL});
}

void gp_build_one_of(struct gp_builder *b, uint16_t from, const char *bytes, uint16_t to)
{
    for (; *bytes; bytes++)
        gp_build_bytes(b, from, (uint8_t)*bytes, (uint8_t)*bytes, to);
}

void gp_build_text(struct gp_builder *b, uint16_t from, const char *text, uint16_t to)
{
    for (; *text; text++) {
        uint16_t next = text[1] ? gp_build_state(b) : to;

        gp_build_bytes(b, from, (uint8_t)*text, (uint8_t)*text, next);
        from = next;
    }
}

static uint16_t follow(const struct gp_builder *b, uint16_t from, uint8_t byte)
{
    for (uint32_t at = b->states[from].first; at; at = b->edges[at].next) {
        const struct gp_draft_edge *edge = &b->edges[at];

        if (edge->kind == GP_EDGE_BYTES && edge->low == byte && edge->high == byte)
            return edge->to;
    }
    return 0;
}

uint16_t gp_build_spell(struct gp_builder *b, uint16_t from, const char *text, size_t length)
{
    for (size_t i = 0; i < length && !b->rc; i++) {
        uint8_t byte = (uint8_t)text[i];
        uint16_t next = follow(b, from, byte);

        if (!next) {
            next = gp_build_state(b);
            gp_build_bytes(b, from, byte, byte, next);
        }
        from = next;
    }
    return from;
}

/* Of `text`, how much the first `had` bytes of it and `byte` end with. */
static size_t overlap(const char *text, size_t had, uint8_t byte)
{
    for (size_t n = had + 1; n > 0; n--)
        if ((uint8_t)text[n - 1] == byte && memcmp(text, text + had + 1 - n, n - 1) == 0)
            return n;
    return 0;
}

void gp_build_until(struct gp_builder *b, uint16_t from, const char *text, uint16_t to)
{
    size_t length = strlen(text);
    uint16_t states[32];

    gp_assert(length > 0 && length < sizeof states / sizeof *states);
    for (size_t i = 0; i < length; i++)
        states[i] = gp_build_state(b);
    states[length] = to;
    gp_build_empty(b, from, states[0]);
    for (size_t i = 0; i < length; i++) {
        for (unsigned low = 0, high; low < 256; low = high) {
            size_t next = overlap(text, i, (uint8_t)low);

            for (high = low + 1; high < 256 && overlap(text, i, (uint8_t)high) == next; high++)
                ;
            gp_build_bytes(b, states[i], (uint8_t)low, (uint8_t)(high - 1), states[next]);
        }
    }
}

void gp_builder_free(struct gp_builder *b)
{
    gp_mem_free(b->states);
    gp_mem_free(b->edges);
    *b = (struct gp_builder){0};
}
