/* A vocabulary's texts as a tree by their bytes, to see in one walk which tokens a grammar allows.
 *
 * Tokens without text (control tokens) and those longer than GP_LIMIT_LEXICON_BYTES are not in it.
 * Made once per model; read-only from then on. */
#ifndef GP_TEXT_LEXICON_H
#define GP_TEXT_LEXICON_H

#include "text/tokenizer.h"

#define GP_LIMIT_LEXICON_BYTES 255u

/* Nodes stand in the order of a walk: behind a node comes all that is below it. */
struct gp_lexicon_node {
    uint32_t next;   /* the first node that is not below it                                  */
    uint32_t tokens; /* in ids: its first; its last is before the next node's first          */
    uint8_t byte, depth;
};

struct gp_lexicon {
    uint32_t vocab;
    uint32_t node_count;
    struct gp_lexicon_node *nodes; /* [node_count + 1] */
    int32_t *ids;
    bool spellable[256]; /* bytes that are a token by themselves */
};

int gp_lexicon_open(struct gp_lexicon **out, const struct gp_tokenizer *tokenizer,
                    struct gp_error *err);
void gp_lexicon_close(struct gp_lexicon *lexicon); /* NULL is fine */

#endif
