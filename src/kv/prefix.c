/* A hash table with an entry a page, its buckets chained through the entries.  An entry's hash is
 * that of its tokens, seeded with its parent's, so a text has the same chain of hashes wherever it
 * lies. */
#include "kv/prefix.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/mem.h"
#include "kv/pool.h"

struct entry {
    uint64_t root[2];
    uint64_t hash;
    uint64_t serial; /* 0: the page has no entry           */
    uint64_t parent; /* its serial, or 0: behind the root  */
    uint32_t next;   /* page of the bucket's next entry    */
};

struct gp_prefix {
    uint32_t page_count, page_tokens;
    uint32_t bucket_mask;
    uint32_t count;
    uint64_t serial_next;
    uint64_t forced;       /* 0: hashes are real */
    struct entry *entries; /* [page_count]              */
    int32_t *tokens;       /* [page_count][page_tokens] */
    uint32_t *buckets;     /* [bucket_mask + 1] the first entry's page, or GP_PAGE_NONE */
};

/* At most half full, so that chains stay short. */
static uint32_t bucket_count(uint32_t page_count)
{
    uint32_t count = 2;

    while (count < page_count && count < UINT32_MAX / 4)
        count *= 2;
    return 2 * count;
}

int gp_prefix_open(struct gp_prefix **out, uint32_t page_count, uint32_t page_tokens,
                   struct gp_error *err)
{
    struct gp_prefix *prefix = gp_mem_alloc(sizeof *prefix);

    if (page_count == 0 || page_count == GP_PAGE_NONE || page_tokens == 0 ||
        page_tokens > GP_LIMIT_PAGE_TOKENS) {
        gp_mem_free(prefix);
        return gp_fail(err, GP_EINVAL, "prefix index: %u pages of %u tokens", page_count,
                       page_tokens);
    }
    if (!prefix)
        return gp_fail(err, GP_ENOMEM, "prefix index: out of memory");
    uint32_t buckets = bucket_count(page_count);
    *prefix = (struct gp_prefix){
        .page_count = page_count,
        .page_tokens = page_tokens,
        .bucket_mask = buckets - 1,
        .serial_next = 1,
        .entries = gp_mem_alloc_array(page_count, sizeof *prefix->entries),
        .tokens = gp_mem_alloc_array(page_count, page_tokens * sizeof *prefix->tokens),
        .buckets = gp_mem_alloc_array(buckets, sizeof *prefix->buckets),
    };
    if (!prefix->entries || !prefix->tokens || !prefix->buckets) {
        gp_prefix_close(prefix);
        return gp_fail(err, GP_ENOMEM, "prefix index: no memory for %u pages of %u tokens",
                       page_count, page_tokens);
    }
    for (uint32_t i = 0; i < buckets; i++)
        prefix->buckets[i] = GP_PAGE_NONE;
    *out = prefix;
    return GP_OK;
}

void gp_prefix_close(struct gp_prefix *prefix)
{
    if (!prefix)
        return;
    gp_mem_free(prefix->entries);
    gp_mem_free(prefix->tokens);
    gp_mem_free(prefix->buckets);
    gp_mem_free(prefix);
}

struct gp_prefix_place gp_prefix_root(const void *salt, size_t salt_bytes)
{
    XXH128_hash_t hash = XXH3_128bits(salt, salt_bytes);

    return (struct gp_prefix_place){.root = {hash.low64, hash.high64}, .hash = hash.low64};
}

static int32_t *tokens_of(const struct gp_prefix *prefix, uint32_t page)
{
    return prefix->tokens + (size_t)page * prefix->page_tokens;
}

static uint64_t hash_of(const struct gp_prefix *prefix, const struct gp_prefix_place *place,
                        const int32_t *tokens)
{
    if (prefix->forced)
        return prefix->forced;
    return XXH3_64bits_withSeed(tokens, prefix->page_tokens * sizeof *tokens, place->hash);
}

static uint32_t *bucket_of(const struct gp_prefix *prefix, uint64_t hash)
{
    return &prefix->buckets[hash & prefix->bucket_mask];
}

static bool is_entry(const struct gp_prefix *prefix, uint32_t page, uint64_t hash,
                     const struct gp_prefix_place *place, const int32_t *tokens)
{
    const struct entry *e = &prefix->entries[page];

    return e->hash == hash && e->parent == place->serial && e->root[0] == place->root[0] &&
           e->root[1] == place->root[1] &&
           memcmp(tokens_of(prefix, page), tokens, prefix->page_tokens * sizeof *tokens) == 0;
}

static uint32_t look_up(const struct gp_prefix *prefix, uint64_t hash,
                        const struct gp_prefix_place *place, const int32_t *tokens)
{
    uint32_t page = *bucket_of(prefix, hash);

    while (page != GP_PAGE_NONE && !is_entry(prefix, page, hash, place, tokens))
        page = prefix->entries[page].next;
    return page;
}

static void move_behind(const struct gp_prefix *prefix, struct gp_prefix_place *place,
                        uint32_t page)
{
    place->hash = prefix->entries[page].hash;
    place->serial = prefix->entries[page].serial;
}

uint32_t gp_prefix_find(const struct gp_prefix *prefix, struct gp_prefix_place *place,
                        const int32_t *tokens)
{
    uint32_t page = look_up(prefix, hash_of(prefix, place, tokens), place, tokens);

    if (page != GP_PAGE_NONE)
        move_behind(prefix, place, page);
    return page;
}

bool gp_prefix_add(struct gp_prefix *prefix, struct gp_prefix_place *place, const int32_t *tokens,
                   uint32_t page)
{
    uint64_t hash = hash_of(prefix, place, tokens);
    uint32_t known = look_up(prefix, hash, place, tokens);

    gp_assert(page < prefix->page_count && prefix->entries[page].serial == 0);
    if (known == GP_PAGE_NONE) {
        uint32_t *bucket = bucket_of(prefix, hash);
        prefix->entries[page] = (struct entry){.root = {place->root[0], place->root[1]},
                                               .hash = hash,
                                               .serial = prefix->serial_next++,
                                               .parent = place->serial,
                                               .next = *bucket};
        memcpy(tokens_of(prefix, page), tokens, prefix->page_tokens * sizeof *tokens);
        *bucket = page;
        prefix->count++;
    }
    move_behind(prefix, place, known == GP_PAGE_NONE ? page : known);
    return known == GP_PAGE_NONE;
}

void gp_prefix_remove(struct gp_prefix *prefix, uint32_t page)
{
    gp_assert(page < prefix->page_count);
    struct entry *e = &prefix->entries[page];

    if (e->serial == 0)
        return;
    uint32_t *at = bucket_of(prefix, e->hash);
    while (*at != page)
        at = &prefix->entries[*at].next;
    *at = e->next;
    *e = (struct entry){0};
    prefix->count--;
}

bool gp_prefix_has(const struct gp_prefix *prefix, uint32_t page)
{
    gp_assert(page < prefix->page_count);
    return prefix->entries[page].serial != 0;
}

uint32_t gp_prefix_count(const struct gp_prefix *prefix)
{
    return prefix->count;
}

void gp_prefix_force_hash(struct gp_prefix *prefix, uint64_t hash)
{
    gp_assert(prefix->count == 0);
    prefix->forced = hash;
}

void gp_prefix_check(const struct gp_prefix *prefix)
{
    uint32_t chained = 0, used = 0;

    for (uint32_t b = 0; b <= prefix->bucket_mask; b++)
        for (uint32_t page = prefix->buckets[b]; page != GP_PAGE_NONE;
             page = prefix->entries[page].next) {
            gp_assert(page < prefix->page_count && chained < prefix->count);
            gp_assert(prefix->entries[page].serial != 0);
            gp_assert((prefix->entries[page].hash & prefix->bucket_mask) == b);
            chained++;
        }
    for (uint32_t page = 0; page < prefix->page_count; page++) {
        const struct entry *e = &prefix->entries[page];
        used += e->serial != 0;
        gp_assert(e->serial < prefix->serial_next && e->parent < prefix->serial_next);
        gp_assert(e->parent < e->serial || e->serial == 0);
    }
    gp_assert(chained == used && used == prefix->count);
}
