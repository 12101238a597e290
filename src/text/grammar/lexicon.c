#include "text/grammar/lexicon.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct word {
    const char *bytes;
    uint32_t length;
    int32_t id;
};

static int compare(const void *a, const void *b)
{
    const struct word *x = a, *y = b;
    uint32_t shorter = x->length < y->length ? x->length : y->length;
    int order = memcmp(x->bytes, y->bytes, shorter);

    if (order)
        return order;
    if (x->length != y->length)
        return x->length < y->length ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static uint32_t list_words(const struct gp_tokenizer *t, struct word *words)
{
    uint32_t count = 0;

    for (uint32_t id = 0; id < gp_tokenizer_count(t); id++) {
        size_t length;
        const char *bytes = gp_token_bytes(t, (int32_t)id, false, &length);

        if (length > 0 && length <= GP_LIMIT_LEXICON_BYTES)
            words[count++] = (struct word){bytes, (uint32_t)length, (int32_t)id};
    }
    qsort(words, count, sizeof *words, compare);
    return count;
}

static uint32_t common(const struct word *a, const struct word *b)
{
    uint32_t n = 0;

    while (n < a->length && n < b->length && a->bytes[n] == b->bytes[n])
        n++;
    return n;
}

/* Behind the nodes stands one that ends them; returns their number.  nodes may be NULL. */
static uint32_t plant(const struct word *words, uint32_t count, struct gp_lexicon *lexicon)
{
    struct gp_lexicon_node *nodes = lexicon->nodes;
    uint32_t open[GP_LIMIT_LEXICON_BYTES + 1], made = 0;

    for (uint32_t i = 0; i <= count; i++) {
        uint32_t length = i < count ? words[i].length : 0;
        uint32_t kept = i > 0 && i < count ? common(&words[i - 1], &words[i]) : 0;

        for (uint32_t depth = kept; nodes && i > 0 && depth < words[i - 1].length; depth++)
            nodes[open[depth]].next = made;
        for (uint32_t depth = kept; depth < length; depth++) {
            open[depth] = made;
            if (nodes)
                nodes[made] = (struct gp_lexicon_node){
                    .tokens = i,
                    .byte = (uint8_t)words[i].bytes[depth],
                    .depth = (uint8_t)(depth + 1),
                };
            made++;
        }
        if (nodes && i < count)
            lexicon->ids[i] = words[i].id;
    }
    if (nodes)
        nodes[made] = (struct gp_lexicon_node){.next = made, .tokens = count};
    return made;
}

int gp_lexicon_open(struct gp_lexicon **out, const struct gp_tokenizer *tokenizer,
                    struct gp_error *err)
{
    struct word *words = gp_mem_alloc_array(gp_tokenizer_count(tokenizer), sizeof *words);
    struct gp_lexicon *lexicon = gp_mem_alloc(sizeof *lexicon);
    uint32_t count = 0;

    if (words && lexicon) {
        count = list_words(tokenizer, words);
        lexicon->vocab = gp_tokenizer_count(tokenizer);
        lexicon->node_count = plant(words, count, lexicon);
        lexicon->nodes =
            gp_mem_alloc_array((size_t)lexicon->node_count + 1, sizeof *lexicon->nodes);
        lexicon->ids = gp_mem_alloc_array(count, sizeof *lexicon->ids);
    }
    if (!words || !lexicon || !lexicon->nodes || !lexicon->ids) {
        gp_mem_free(words);
        gp_lexicon_close(lexicon);
        return gp_fail(err, GP_ENOMEM, "lexicon: out of memory");
    }
    plant(words, count, lexicon);
    for (uint32_t i = 0; i < count; i++)
        if (words[i].length == 1)
            lexicon->spellable[(uint8_t)words[i].bytes[0]] = true;
    gp_mem_free(words);
    *out = lexicon;
    return GP_OK;
}

void gp_lexicon_close(struct gp_lexicon *lexicon)
{
    if (!lexicon)
        return;
    gp_mem_free(lexicon->nodes);
    gp_mem_free(lexicon->ids);
    gp_mem_free(lexicon);
}
