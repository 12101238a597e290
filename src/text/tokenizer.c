#include "text/tokenizer.h"

#include "base/assert.h"
#include "base/mem.h"
#include "text/tokenizer_internal.h"

int gp_tokenizer_open(struct gp_tokenizer **out, const struct gp_vocab *vocab, struct gp_error *err)
{
    struct gp_tokenizer *t = gp_mem_alloc(sizeof *t);

    if (!t)
        return gp_fail(err, GP_ENOMEM, "tokenizer: out of memory");
    int rc = gp_tokenizer_load(t, vocab, err);

    if (rc != GP_OK) {
        gp_tokenizer_close(t);
        return rc;
    }
    *out = t;
    return GP_OK;
}

void gp_tokenizer_close(struct gp_tokenizer *t)
{
    if (!t)
        return;
    gp_splitter_close(&t->splitter);
    gp_wordmap_close(&t->words);
    gp_pairmap_close(&t->merges);
    gp_trie_close(&t->specials);
    gp_mem_free(t->types);
    gp_mem_free(t->pieces.bytes);
    gp_mem_free(t->pieces.offsets);
    gp_mem_free(t->ranks);
    gp_mem_free(t->ends);
    gp_mem_free(t);
}

const char *gp_tokenizer_kind(const struct gp_tokenizer *t)
{
    return t->kind;
}

uint32_t gp_tokenizer_count(const struct gp_tokenizer *t)
{
    return t->count;
}

int32_t gp_tokenizer_bos(const struct gp_tokenizer *t)
{
    return t->bos;
}

bool gp_tokenizer_adds_bos(const struct gp_tokenizer *t)
{
    return t->add_bos;
}

int32_t gp_tokenizer_eos(const struct gp_tokenizer *t)
{
    return t->eos;
}

enum gp_token_type gp_tokenizer_type(const struct gp_tokenizer *t, int32_t id)
{
    gp_assert(id >= 0 && (uint32_t)id < t->count);
    return (enum gp_token_type)t->types[id];
}

const int32_t *gp_tokenizer_ends(const struct gp_tokenizer *t, uint32_t *count)
{
    *count = t->end_count;
    return t->ends;
}

static bool admit_all(void *ctx, int32_t id, size_t length)
{
    (void)ctx;
    (void)id;
    (void)length;
    return true;
}

int32_t gp_tokenizer_find(const struct gp_tokenizer *t, const char *bytes, size_t length)
{
    size_t matched = 0;
    int32_t id = gp_trie_longest(&t->specials, bytes, length, admit_all, NULL, &matched);

    if (id >= 0 && matched == length)
        return id;
    return gp_wordmap_get(&t->words, &t->pieces, bytes, length);
}

uint32_t gp_tokenizer_bytes_max(const struct gp_tokenizer *t)
{
    return t->bytes_max;
}
