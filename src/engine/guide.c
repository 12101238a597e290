/* A model's vocabulary, a grammar, and where the answers of a request are in it. */
#include <stdatomic.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "text/grammar/matcher.h"

struct gp_guide {
    const struct gp_model *model;
    const struct gp_lexicon *lexicon;
    struct gp_grammar *grammar;
    struct gp_matcher *matcher;
    uint32_t choices;
};

/* The first who needs it makes it; of two at once the slower one's is thrown away. */
static int find_lexicon(const struct gp_model *model, const struct gp_lexicon **out,
                        struct gp_error *err)
{
    /* A model is read-only to its users; this is a memory of its own. */
    struct gp_lexicon *_Atomic *place = (struct gp_lexicon * _Atomic *)&model->lexicon;
    struct gp_lexicon *lexicon = atomic_load(place), *there = NULL;

    if (!lexicon) {
        int rc = gp_lexicon_open(&lexicon, model->tokenizer, err);

        if (rc)
            return rc;
        if (!atomic_compare_exchange_strong(place, &there, lexicon)) {
            gp_lexicon_close(lexicon);
            lexicon = there;
        }
    }
    *out = lexicon;
    return GP_OK;
}

int gp_guide_open(struct gp_guide **out, const struct gp_model *model,
                  const struct gp_grammar_source *source, uint32_t choices, struct gp_error *err)
{
    if (choices == 0 || choices > GP_LIMIT_MATCHER_TEXTS)
        return gp_fail(err, GP_EINVAL, "guide: %u choices; 1 to %u", choices,
                       GP_LIMIT_MATCHER_TEXTS);
    struct gp_guide *guide = gp_mem_alloc(sizeof *guide);

    if (!guide)
        return gp_fail(err, GP_ENOMEM, "guide: out of memory");
    guide->model = model;
    guide->choices = choices;
    int rc = find_lexicon(model, &guide->lexicon, err);

    if (!rc)
        rc = gp_grammar_open(&guide->grammar, source, guide->lexicon->spellable, err);
    if (!rc)
        rc = gp_matcher_open(&guide->matcher, guide->grammar, guide->lexicon, choices, err);
    if (rc) {
        gp_guide_close(guide);
        return rc;
    }
    *out = guide;
    return GP_OK;
}

void gp_guide_close(struct gp_guide *guide)
{
    if (!guide)
        return;
    gp_matcher_close(guide->matcher);
    gp_grammar_close(guide->grammar);
    gp_mem_free(guide);
}

bool gp_guide_may_end(const struct gp_guide *guide, uint32_t choice)
{
    gp_assert(choice < guide->choices);
    return gp_matcher_may_end(guide->matcher, choice);
}

void gp_guide_mask(struct gp_guide *guide, uint32_t choice, uint64_t *mask)
{
    gp_assert(choice < guide->choices);
    const uint64_t *allowed = gp_matcher_mask(guide->matcher, choice);
    bool may_end = gp_matcher_may_end(guide->matcher, choice);
    uint32_t count, words = (guide->lexicon->vocab + 63) / 64;
    const int32_t *ends = gp_tokenizer_ends(guide->model->tokenizer, &count);
    uint64_t banned;

    /* An end token may have a text, which then is not meant. */
    for (uint32_t w = 0, e = 0; w < words; w++) {
        for (banned = ~allowed[w]; e < count && (uint32_t)ends[e] / 64 == w; e++) {
            uint64_t bit = (uint64_t)1 << (ends[e] % 64);

            banned = may_end ? banned & ~bit : banned | bit;
        }
        mask[w] &= ~banned;
    }
}

bool gp_guide_take(struct gp_guide *guide, uint32_t choice, int32_t id)
{
    const struct gp_tokenizer *tokenizer = guide->model->tokenizer;
    uint32_t count;
    const int32_t *ends = gp_tokenizer_ends(tokenizer, &count);
    size_t length;
    const char *bytes = gp_token_bytes(tokenizer, id, false, &length);

    gp_assert(choice < guide->choices);
    for (uint32_t e = 0; e < count; e++)
        if (ends[e] == id)
            length = 0;
    gp_matcher_take(guide->matcher, choice, bytes, length);
    return gp_matcher_must_end(guide->matcher, choice);
}
