/* The merge loop, for both kinds: neighbours join in order of rank, then of place, until no merge
 * applies.  A heap makes that O(n log n) for a word of any length.
 *
 * A symbol's index is the offset of its first byte in the word, so the one behind it begins at
 * index + length and only the way back needs a link. */
#include "text/tokenizer_internal.h"

#include "base/assert.h"
#include "base/mem.h"
#include "text/utf8.h"

struct symbol {
    int32_t id;      /* GP_TOKEN_NONE: no token has these bytes (first symbols only) */
    uint32_t length; /* 0: it was joined to the one before it                        */
    uint32_t previous;
};

/* A merge that was possible when it was found.  It still is if the two symbols at its place have
 * the same length together: symbols only grow, and the left one can only grow by the right one. */
struct candidate {
    uint64_t order; /* rank, then the left symbol's index */
    int32_t id;
    uint32_t length;
};

/* A word being merged. */
struct word {
    struct gp_merger *merger;
    const struct gp_tokenizer *tokenizer;
    const char *bytes;
    uint32_t length;
    struct symbol *symbols;
};

static int no_memory(struct gp_merger *m)
{
    return gp_fail(m->err, GP_ENOMEM, "tokenizer: out of memory");
}

int gp_merger_push(struct gp_merger *m, int32_t id)
{
    if (!gp_buffer_reserve(&m->ids, ((size_t)m->id_count + 1) * sizeof id))
        return no_memory(m);
    ((int32_t *)m->ids.block)[m->id_count++] = id;
    return GP_OK;
}

static int heap_push(struct gp_merger *m, struct candidate added)
{
    if (!gp_buffer_reserve(&m->heap, ((size_t)m->heap_count + 1) * sizeof added))
        return no_memory(m);
    struct candidate *heap = m->heap.block;
    uint32_t at = m->heap_count++;

    for (; at > 0 && added.order < heap[(at - 1) / 2].order; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = added;
    return GP_OK;
}

static struct candidate heap_pop(struct gp_merger *m)
{
    struct candidate *heap = m->heap.block, first = heap[0], last = heap[--m->heap_count];
    uint32_t at = 0;

    for (uint32_t child; (child = 2 * at + 1) < m->heap_count; at = child) {
        if (child + 1 < m->heap_count && heap[child + 1].order < heap[child].order)
            child++;
        if (last.order <= heap[child].order)
            break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    return first;
}

/* If the symbol at left and the one behind it can join, remember it. */
static int consider(const struct word *w, uint32_t left)
{
    const struct gp_tokenizer *t = w->tokenizer;
    const struct symbol *a = &w->symbols[left];
    uint32_t right = left + a->length, rank;

    if (right == w->length)
        return GP_OK;
    const struct symbol *b = &w->symbols[right];
    struct candidate found = {.length = a->length + b->length};

    if (t->spm) {
        if (found.length > t->bytes_max)
            return GP_OK;
        found.id = gp_wordmap_get(&t->words, &t->pieces, w->bytes + left, found.length);
        if (found.id < 0)
            return GP_OK;
        rank = t->ranks[found.id];
    } else {
        if (a->id < 0 || b->id < 0)
            return GP_OK;
        const struct gp_pair_slot *merge = gp_pairmap_get(&t->merges, a->id, b->id);

        if (!merge)
            return GP_OK;
        found.id = merge->id;
        rank = merge->rank;
    }
    found.order = (uint64_t)rank << 32 | left;
    return heap_push(w->merger, found);
}

static int merge_all(const struct word *w)
{
    struct gp_merger *m = w->merger;
    int rc = GP_OK;

    while (rc == GP_OK && m->heap_count > 0) {
        struct candidate best = heap_pop(m);
        uint32_t left = (uint32_t)best.order;
        struct symbol *a = &w->symbols[left];
        uint32_t right = left + a->length, end = left + best.length;

        if (a->length == 0 || right == w->length ||
            a->length + w->symbols[right].length != best.length)
            continue;
        w->symbols[right].length = 0;
        a->id = best.id;
        a->length = best.length;
        if (end < w->length)
            w->symbols[end].previous = left;
        if (left > 0)
            rc = consider(w, a->previous);
        if (rc == GP_OK)
            rc = consider(w, left);
    }
    return rc;
}

/* Bytes that are no token together: a byte token each.  Where one is missing, the unknown token
 * once; without that, what is missing is left out, as the published tokenizers and llama.cpp do. */
static int push_bytes(struct gp_merger *m, const char *bytes, uint32_t length)
{
    const struct gp_tokenizer *t = m->tokenizer;
    uint32_t missing = 0;
    int rc = GP_OK;

    for (uint32_t i = 0; i < length; i++)
        missing += t->byte_ids[(unsigned char)bytes[i]] < 0;
    if (missing > 0 && t->unk >= 0)
        return gp_merger_push(m, t->unk);
    for (uint32_t i = 0; rc == GP_OK && i < length; i++)
        if (t->byte_ids[(unsigned char)bytes[i]] >= 0)
            rc = gp_merger_push(m, t->byte_ids[(unsigned char)bytes[i]]);
    return rc;
}

/* A symbol is a byte (BPE), or a character or a byte that belongs to none (SentencePiece). */
static void begin_symbols(const struct word *w)
{
    const struct gp_tokenizer *t = w->tokenizer;

    for (uint32_t at = 0, previous = 0; at < w->length;) {
        struct symbol *s = &w->symbols[at];

        s->previous = previous;
        if (t->spm) {
            int n = gp_utf8_scan((const unsigned char *)w->bytes + at, w->length - at);

            s->length = n > 0 ? (uint32_t)n : 1;
            s->id = gp_wordmap_get(&t->words, &t->pieces, w->bytes + at, s->length);
        } else {
            s->length = 1;
            s->id = t->byte_ids[(unsigned char)w->bytes[at]];
        }
        previous = at;
        at += s->length;
    }
}

int gp_merger_word(struct gp_merger *m, const char *bytes, size_t length)
{
    const struct gp_tokenizer *t = m->tokenizer;
    struct word w = {.merger = m, .tokenizer = t, .bytes = bytes, .length = (uint32_t)length};
    int rc = GP_OK;

    gp_assert(length <= 3 * (size_t)GP_TOKENIZER_TEXT_BYTES + 1);
    if (!t->spm && t->pre->ignore_merges && length <= t->bytes_max) {
        int32_t id = gp_wordmap_get(&t->words, &t->pieces, bytes, length);

        if (id >= 0)
            return gp_merger_push(m, id);
    }
    if (!gp_buffer_reserve(&m->symbols, length * sizeof *w.symbols))
        return no_memory(m);
    w.symbols = m->symbols.block;
    m->heap_count = 0;
    begin_symbols(&w);
    for (uint32_t at = 0; rc == GP_OK && at < w.length; at += w.symbols[at].length)
        rc = consider(&w, at);
    if (rc == GP_OK)
        rc = merge_all(&w);
    for (uint32_t at = 0; rc == GP_OK && at < w.length; at += w.symbols[at].length) {
        const struct symbol *s = &w.symbols[at];

        rc = s->id >= 0 ? gp_merger_push(m, s->id) : push_bytes(m, bytes + at, s->length);
    }
    return rc;
}
