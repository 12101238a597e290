/* gp_tokenize: special tokens are found in the bytes as they came, each text between two of them is
 * normalised, cut into words (BPE) and merged. */
#include "text/tokenizer_internal.h"

#include "base/assert.h"
#include "base/mem.h"

#include <string.h>

struct encoder {
    const struct gp_tokenizer *tokenizer;
    struct gp_merger merger;
    struct gp_buffer text; /* the spans' bytes, behind one spare byte */
    struct gp_buffer normal, shadow;
    pcre2_match_data *match;
    const char *words;   /* what the splitter's offsets count from */
    int32_t first, last; /* special tokens at the very ends of the text, or GP_TOKEN_NONE */
    struct gp_error *err;
};

/* Where trusted bytes end that begin at or before a position.  Positions only go up. */
struct trust {
    const struct gp_span *spans;
    uint32_t span_count, next; /* spans[next] begins at end */
    size_t begin, end;         /* a run of trusted bytes    */
    size_t at;                 /* where a match is tried    */
    const struct gp_tokenizer *tokenizer;
};

static bool continues_trust(const struct gp_span *span)
{
    return span->trusted || span->length == 0;
}

static void trust_move(struct trust *trust, size_t at)
{
    trust->at = at;
    while (trust->end <= at && trust->next < trust->span_count) {
        trust->begin = trust->end;
        while (trust->next < trust->span_count && !trust->spans[trust->next].trusted)
            trust->begin += trust->spans[trust->next++].length;
        trust->end = trust->begin;
        while (trust->next < trust->span_count && continues_trust(&trust->spans[trust->next]))
            trust->end += trust->spans[trust->next++].length;
    }
}

static bool admit(void *ctx, int32_t id, size_t length)
{
    const struct trust *trust = ctx;

    if (trust->tokenizer->types[id] == GP_TOKEN_USER_DEFINED)
        return true;
    return trust->at >= trust->begin && trust->at + length <= trust->end;
}

static int encode_word(void *ctx, size_t begin, size_t end)
{
    struct encoder *e = ctx;

    return gp_merger_word(&e->merger, e->words + begin, end - begin);
}

static int no_memory(struct encoder *e)
{
    return gp_fail(e->err, GP_ENOMEM, "tokenizer: out of memory");
}

static int encode_words(struct encoder *e, const char *text, size_t length)
{
    const struct gp_tokenizer *t = e->tokenizer;

    e->words = text;
    if (t->pre->nfc && gp_text_may_change(text, length)) {
        if (!gp_text_nfc(text, length, &e->normal, &length))
            return no_memory(e);
        e->words = e->normal.block;
    }
    struct gp_split split = {&t->splitter, e->match, e->words, encode_word, e, e->err};

    if (!gp_text_valid(e->words, length)) {
        if (!gp_text_shadow(e->words, length, &e->shadow))
            return no_memory(e);
        split.text = e->shadow.block;
    }
    return gp_split_run(&split, length);
}

/* One merge loop for the whole text, or one for each word where no token could join two. */
static int encode_spaced(struct encoder *e, const char *text, size_t length)
{
    size_t begin = 0;
    int rc = GP_OK;

    for (size_t i = 1; rc == GP_OK && i < length && e->tokenizer->spaces_lead; i++)
        if (text[i] == ' ' && text[i - 1] != ' ') {
            rc = gp_merger_word(&e->merger, text + begin, i - begin);
            begin = i;
        }
    return rc == GP_OK ? gp_merger_word(&e->merger, text + begin, length - begin) : rc;
}

/* A text without special tokens.  The byte in front of it is free to write: it belongs to the
 * special token before, or is the spare one. */
static int encode_text(struct encoder *e, char *text, size_t length)
{
    if (length == 0)
        return GP_OK;
    if (!e->tokenizer->spm)
        return encode_words(e, text, length);
    if (e->tokenizer->space_prefix) {
        *--text = ' ';
        length++;
    }
    return encode_spaced(e, text, length);
}

static int encode_spans(struct encoder *e, const struct gp_span *spans, uint32_t span_count,
                        size_t length)
{
    const struct gp_tokenizer *t = e->tokenizer;
    char *text = (char *)e->text.block + 1;
    struct trust trust = {.spans = spans, .span_count = span_count, .tokenizer = t};
    size_t begin = 0, at = 0;
    int rc = GP_OK;

    while (rc == GP_OK && at < length) {
        size_t matched = 0;
        int32_t id = -1;

        if (t->specials.roots[(unsigned char)text[at]] != 0) {
            trust_move(&trust, at);
            id = gp_trie_longest(&t->specials, text + at, length - at, admit, &trust, &matched);
        }
        if (id < 0) {
            at++;
            continue;
        }
        rc = encode_text(e, text + begin, at - begin);
        if (rc == GP_OK)
            rc = gp_merger_push(&e->merger, id);
        if (at == 0)
            e->first = id;
        at += matched;
        begin = at;
        if (at == length)
            e->last = id;
    }
    return rc == GP_OK ? encode_text(e, text + begin, length - begin) : rc;
}

/* BOS goes in first and is taken back where the text turns out to bring its own. */
static int encode_all(struct encoder *e, const struct gp_span *spans, uint32_t span_count,
                      size_t length, bool add_special)
{
    const struct gp_tokenizer *t = e->tokenizer;
    struct gp_merger *m = &e->merger;
    bool bos = add_special && t->add_bos, eos = add_special && t->add_eos;
    int rc = bos ? gp_merger_push(m, t->bos) : GP_OK;

    if (rc == GP_OK)
        rc = encode_spans(e, spans, span_count, length);
    if (rc == GP_OK && bos && e->first == t->bos) {
        int32_t *ids = m->ids.block;

        memmove(ids, ids + 1, --m->id_count * sizeof *ids);
    }
    if (rc == GP_OK && eos && e->last != t->eos)
        rc = gp_merger_push(m, t->eos);
    return rc;
}

static int gather(struct encoder *e, const struct gp_span *spans, uint32_t span_count,
                  size_t *length)
{
    size_t total = 0;

    for (uint32_t i = 0; i < span_count; i++) {
        if (spans[i].length > GP_TOKENIZER_TEXT_BYTES - total)
            return gp_fail(e->err, GP_EINVAL, "tokenizer: text of more than %u bytes",
                           GP_TOKENIZER_TEXT_BYTES);
        total += spans[i].length;
    }
    if (!gp_buffer_reserve(&e->text, total + 1))
        return no_memory(e);
    char *to = (char *)e->text.block + 1;

    for (uint32_t i = 0; i < span_count; i++) {
        if (spans[i].length > 0)
            memcpy(to, spans[i].bytes, spans[i].length);
        to += spans[i].length;
    }
    *length = total;
    return GP_OK;
}

int gp_tokenize(const struct gp_tokenizer *t, const struct gp_span *spans, uint32_t span_count,
                bool add_special, int32_t **ids, uint32_t *id_count, struct gp_error *err)
{
    struct encoder e = {
        .tokenizer = t,
        .merger = {.tokenizer = t, .err = err},
        .first = GP_TOKEN_NONE,
        .last = GP_TOKEN_NONE,
        .err = err,
    };
    size_t length = 0;
    int rc = gather(&e, spans, span_count, &length);

    if (rc == GP_OK && !t->spm) {
        e.match = gp_splitter_match(&t->splitter);
        if (!e.match)
            rc = no_memory(&e);
    }
    /* So that the result of an empty text is a block too. */
    if (rc == GP_OK && !gp_buffer_reserve(&e.merger.ids, sizeof(int32_t)))
        rc = no_memory(&e);
    if (rc == GP_OK)
        rc = encode_all(&e, spans, span_count, length, add_special);
    pcre2_match_data_free(e.match);
    gp_mem_free(e.text.block);
    gp_mem_free(e.normal.block);
    gp_mem_free(e.shadow.block);
    gp_mem_free(e.merger.symbols.block);
    gp_mem_free(e.merger.heap.block);
    if (rc != GP_OK) {
        gp_mem_free(e.merger.ids.block);
        return rc;
    }
    *ids = e.merger.ids.block;
    *id_count = e.merger.id_count;
    return GP_OK;
}
