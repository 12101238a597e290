/* The prefix index: which page holds the keys and values of which tokens, behind which others.
 *
 * An entry is a full page of tokens and the entry that its prefix ends with, so a chain of entries
 * is a text from its first token on.  A hash finds candidates; tokens and parent are then compared,
 * so that no collision is ever taken for a hit.  An entry's parent is meant by a number that is
 * never given twice: once the parent has left the index, its children are found no more, whatever
 * comes to stand in its page.
 *
 * Books only: the index holds no reference on a page.  Who rewrites a page removes it first.  One
 * thread, the engine's.  Everything is taken at open. */
#ifndef GP_KV_PREFIX_H
#define GP_KV_PREFIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct gp_prefix;

/* A place in a chain: behind its root, or behind an entry. */
struct gp_prefix_place {
    uint64_t root[2]; /* of the chain: 128 bits of the salt's hash */
    uint64_t hash;
    uint64_t serial; /* of the entry; 0: behind the root */
};

int gp_prefix_open(struct gp_prefix **out, uint32_t page_count, uint32_t page_tokens,
                   struct gp_error *err);
void gp_prefix_close(struct gp_prefix *prefix); /* NULL is fine */

/* The root of all chains under a salt: requests with different salts never share.  What else must
 * agree (cache type, form of the keys) is the same for all pages of one index. */
struct gp_prefix_place gp_prefix_root(const void *salt, size_t salt_bytes);

/* The page that holds tokens[page_tokens] behind *place, and *place moved behind it; or
 * GP_PAGE_NONE and *place as it was. */
uint32_t gp_prefix_find(const struct gp_prefix *prefix, struct gp_prefix_place *place,
                        const int32_t *tokens);

/* From now on page holds tokens[page_tokens] behind *place, and *place moves behind it.  False when
 * another page is known to: that one stays and *place moves behind it.  page has no entry. */
bool gp_prefix_add(struct gp_prefix *prefix, struct gp_prefix_place *place, const int32_t *tokens,
                   uint32_t page);

/* Forget what page holds; fine when it has no entry. */
void gp_prefix_remove(struct gp_prefix *prefix, uint32_t page);

bool gp_prefix_has(const struct gp_prefix *prefix, uint32_t page);
uint32_t gp_prefix_count(const struct gp_prefix *prefix);

/* Test hook: every entry's hash becomes this, so that all collide; 0 turns it off.  Only while the
 * index is empty. */
void gp_prefix_force_hash(struct gp_prefix *prefix, uint64_t hash);

/* Walk everything: each entry in the bucket of its hash, once, and no cycle. */
void gp_prefix_check(const struct gp_prefix *prefix);

#endif
