/* Texts followed through a grammar, token by token, and which tokens may come next.
 *
 * A matcher has all its memory from the start and takes none later.  One thread at a time. What a
 * mask costs is bounded: one walk over the vocabulary's tree, on which at most
 * GP_LIMIT_MATCHER_SETS new states are computed.  Should more be needed, as schemas made for it can
 * do, the mask holds the tokens of one byte and those that were reached; it is never empty while
 * the text can go on. */
#ifndef GP_TEXT_MATCHER_H
#define GP_TEXT_MATCHER_H

#include "text/grammar/grammar.h"
#include "text/grammar/lexicon.h"

#define GP_LIMIT_MATCHER_SETS  2048u /* states of the texts that are remembered at once    */
#define GP_LIMIT_MATCHER_TEXTS 256u
#define GP_LIMIT_MATCHER_WAYS                                                                      \
    256u /* ways through the grammar that a state keeps open; of
                                       more the surplus is given up                       */

struct gp_matcher;

/* Follows text_count texts of one grammar, each from its beginning.  grammar and lexicon have to
 * stay. */
int gp_matcher_open(struct gp_matcher **out, const struct gp_grammar *grammar,
                    const struct gp_lexicon *lexicon, uint32_t text_count, struct gp_error *err);
void gp_matcher_close(struct gp_matcher *m); /* NULL is fine */

/* Whether the text may end here; whether it has to. */
bool gp_matcher_may_end(const struct gp_matcher *m, uint32_t text);
bool gp_matcher_must_end(const struct gp_matcher *m, uint32_t text);

/* Go on by these bytes; what the grammar does not allow leads to where nothing is allowed, not even
 * an end. */
void gp_matcher_take(struct gp_matcher *m, uint32_t text, const char *bytes, size_t length);

/* The tokens that may come next, end tokens aside: bits [ceil(vocab / 64)], until the next call. */
const uint64_t *gp_matcher_mask(struct gp_matcher *m, uint32_t text);

/* Bytes that a matcher takes, for limits and their tests. */
size_t gp_matcher_bytes(const struct gp_matcher *m);

#endif
