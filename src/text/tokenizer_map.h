/* The three look-ups of a tokenizer.  All are filled while it opens and only read afterwards.
 *
 *   wordmap   the bytes of a token -> its id
 *   pairmap   two neighbouring ids -> the merge that joins them
 *   trie      the longest special token that starts here */
#ifndef GP_TEXT_TOKENIZER_MAP_H
#define GP_TEXT_TOKENIZER_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes of all tokens, end to end: token i is [offsets[i], offsets[i + 1]). */
struct gp_pieces {
    char *bytes;
    uint32_t *offsets;
};

struct gp_wordmap {
    struct gp_word_slot *slots;
    uint32_t mask;
};

/* Room for count words.  False: out of memory. */
bool gp_wordmap_open(struct gp_wordmap *map, uint32_t count);
void gp_wordmap_close(struct gp_wordmap *map);

/* False when another token has the same bytes; the earlier one stays. */
bool gp_wordmap_put(struct gp_wordmap *map, const struct gp_pieces *pieces, uint32_t id);

/* The id, or -1. */
int32_t gp_wordmap_get(const struct gp_wordmap *map, const struct gp_pieces *pieces,
                       const char *bytes, size_t length);

struct gp_pair_slot {
    uint64_t key;
    uint32_t rank;
    int32_t id;
};

struct gp_pairmap {
    struct gp_pair_slot *slots;
    uint32_t mask;
};

bool gp_pairmap_open(struct gp_pairmap *map, uint32_t count);
void gp_pairmap_close(struct gp_pairmap *map);

/* The first merge of a pair stays. */
void gp_pairmap_put(struct gp_pairmap *map, int32_t left, int32_t right, uint32_t rank, int32_t id);

/* NULL when nothing joins the two. */
const struct gp_pair_slot *gp_pairmap_get(const struct gp_pairmap *map, int32_t left,
                                          int32_t right);

struct gp_trie {
    struct gp_trie_node *nodes;
    uint32_t node_count, node_max;
    uint32_t roots[256]; /* node by first byte; 0 is none */
};

/* Room for words of byte_count bytes together. */
bool gp_trie_open(struct gp_trie *trie, uint32_t byte_count);
void gp_trie_close(struct gp_trie *trie);
void gp_trie_put(struct gp_trie *trie, const char *bytes, size_t length, int32_t id);

/* The longest word among those that [bytes, bytes + length) starts with and that admit() lets in.
 * Returns its id and length, or -1. */
int32_t gp_trie_longest(const struct gp_trie *trie, const char *bytes, size_t length,
                        bool (*admit)(void *ctx, int32_t id, size_t length), void *ctx,
                        size_t *match_length);

#endif
