#include "text/tokenizer_map.h"

#include "base/assert.h"
#include "base/mem.h"

#include <string.h>

/* A slot is free while id_plus_one is 0.  The tables are at most half full. */
struct gp_word_slot {
    uint32_t hash;
    uint32_t id_plus_one;
};

/* Children hang on a list of siblings: few tokens share a beginning, so lists are short. */
struct gp_trie_node {
    uint32_t child, sibling; /* 0 is none: node 0 is not used */
    int32_t id;              /* of the word that ends here, or -1 */
    unsigned char byte;
};

static uint32_t slots_for(uint32_t count)
{
    uint32_t slots = 16;

    while (slots < 2 * (uint64_t)count)
        slots *= 2;
    return slots;
}

/* FNV-1a, folded: words are short. */
static uint32_t hash_bytes(const char *bytes, size_t length)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    return (uint32_t)(hash ^ hash >> 32);
}

bool gp_wordmap_open(struct gp_wordmap *map, uint32_t count)
{
    uint32_t slots = slots_for(count);

    map->slots = gp_mem_alloc_array(slots, sizeof *map->slots);
    map->mask = slots - 1;
    return map->slots != NULL;
}

void gp_wordmap_close(struct gp_wordmap *map)
{
    gp_mem_free(map->slots);
}

static bool piece_equals(const struct gp_pieces *pieces, uint32_t id, const char *bytes,
                         size_t length)
{
    uint32_t begin = pieces->offsets[id];

    return pieces->offsets[id + 1] - begin == length &&
           memcmp(pieces->bytes + begin, bytes, length) == 0;
}

/* Where the word is, or the free slot where it belongs. */
static struct gp_word_slot *find_word(const struct gp_wordmap *map, const struct gp_pieces *pieces,
                                      uint32_t hash, const char *bytes, size_t length)
{
    for (uint32_t i = hash & map->mask;; i = (i + 1) & map->mask) {
        struct gp_word_slot *slot = &map->slots[i];

        if (slot->id_plus_one == 0)
            return slot;
        if (slot->hash == hash && piece_equals(pieces, slot->id_plus_one - 1, bytes, length))
            return slot;
    }
}

bool gp_wordmap_put(struct gp_wordmap *map, const struct gp_pieces *pieces, uint32_t id)
{
    const char *bytes = pieces->bytes + pieces->offsets[id];
    size_t length = pieces->offsets[id + 1] - pieces->offsets[id];
    uint32_t hash = hash_bytes(bytes, length);
    struct gp_word_slot *slot = find_word(map, pieces, hash, bytes, length);

    if (slot->id_plus_one != 0)
        return false;
    slot->hash = hash;
    slot->id_plus_one = id + 1;
    return true;
}

int32_t gp_wordmap_get(const struct gp_wordmap *map, const struct gp_pieces *pieces,
                       const char *bytes, size_t length)
{
    uint32_t hash = hash_bytes(bytes, length);

    return (int32_t)find_word(map, pieces, hash, bytes, length)->id_plus_one - 1;
}

/* No pair of ids has this key: ids are not negative. */
#define NO_KEY UINT64_MAX

static uint64_t pair_key(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

bool gp_pairmap_open(struct gp_pairmap *map, uint32_t count)
{
    uint32_t slots = slots_for(count);

    map->slots = gp_mem_alloc_array(slots, sizeof *map->slots);
    if (!map->slots)
        return false;
    map->mask = slots - 1;
    for (uint32_t i = 0; i < slots; i++)
        map->slots[i].key = NO_KEY;
    return true;
}

void gp_pairmap_close(struct gp_pairmap *map)
{
    gp_mem_free(map->slots);
}

static struct gp_pair_slot *find_pair(const struct gp_pairmap *map, uint64_t key)
{
    uint64_t hash = key * 0x9e3779b97f4a7c15u;

    for (uint32_t i = (uint32_t)(hash >> 32) & map->mask;; i = (i + 1) & map->mask)
        if (map->slots[i].key == NO_KEY || map->slots[i].key == key)
            return &map->slots[i];
}

void gp_pairmap_put(struct gp_pairmap *map, int32_t left, int32_t right, uint32_t rank, int32_t id)
{
    uint64_t key = pair_key(left, right);
    struct gp_pair_slot *slot = find_pair(map, key);

    gp_assert(left >= 0 && right >= 0);
    if (slot->key == NO_KEY)
        *slot = (struct gp_pair_slot){key, rank, id};
}

const struct gp_pair_slot *gp_pairmap_get(const struct gp_pairmap *map, int32_t left, int32_t right)
{
    const struct gp_pair_slot *slot = find_pair(map, pair_key(left, right));

    return slot->key == NO_KEY ? NULL : slot;
}

bool gp_trie_open(struct gp_trie *trie, uint32_t byte_count)
{
    memset(trie, 0, sizeof *trie);
    trie->nodes = gp_mem_alloc_array((size_t)byte_count + 1, sizeof *trie->nodes);
    trie->node_count = 1;
    trie->node_max = byte_count;
    return trie->nodes != NULL;
}

void gp_trie_close(struct gp_trie *trie)
{
    gp_mem_free(trie->nodes);
}

static uint32_t find_sibling(const struct gp_trie *trie, uint32_t node, unsigned char byte)
{
    while (node != 0 && trie->nodes[node].byte != byte)
        node = trie->nodes[node].sibling;
    return node;
}

void gp_trie_put(struct gp_trie *trie, const char *bytes, size_t length, int32_t id)
{
    uint32_t *list = &trie->roots[(unsigned char)bytes[0]], node = 0;

    gp_assert(length > 0);
    for (size_t i = 0; i < length; i++) {
        node = find_sibling(trie, *list, (unsigned char)bytes[i]);
        if (node == 0) {
            gp_assert(trie->node_count <= trie->node_max);
            node = trie->node_count++;
            trie->nodes[node] = (struct gp_trie_node){0, *list, -1, (unsigned char)bytes[i]};
            *list = node;
        }
        list = &trie->nodes[node].child;
    }
    if (trie->nodes[node].id < 0)
        trie->nodes[node].id = id;
}

int32_t gp_trie_longest(const struct gp_trie *trie, const char *bytes, size_t length,
                        bool (*admit)(void *ctx, int32_t id, size_t length), void *ctx,
                        size_t *match_length)
{
    int32_t best = -1;
    uint32_t node = length > 0 ? trie->roots[(unsigned char)bytes[0]] : 0;

    for (size_t i = 0; node != 0; node = trie->nodes[node].child) {
        node = find_sibling(trie, node, (unsigned char)bytes[i]);
        if (node == 0)
            break;
        i++;
        int32_t id = trie->nodes[node].id;

        if (id >= 0 && admit(ctx, id, i)) {
            best = id;
            *match_length = i;
        }
        if (i == length)
            break;
    }
    return best;
}
