/* Opening a GGUF file: everything is checked here, once. */
#include "model/gguf_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/mem.h"

/* The least that a key and a tensor can take in a file: they bound the counts of the header. */
#define KEY_BYTES_MIN    (8u + 1u + 4u + 1u)
#define TENSOR_BYTES_MIN (8u + 1u + 4u + 8u + 4u + 8u)

/* A reader over bytes that nobody has vouched for.  Every read fits or fails. */
struct cursor {
    const uint8_t *at;
    const uint8_t *end;
    bool bounded; /* end is GGUF_HEADER_BYTES_MAX, not the file's */
    struct gp_error *err;
};

/* Where a tensor says it lies; sorted to find overlaps. */
struct extent {
    uint64_t begin; /* from the start of the data */
    uint64_t end;
    uint32_t tensor;
};

uint32_t gp_gguf_load_u32(const uint8_t *at)
{
    uint32_t v;

    memcpy(&v, at, sizeof v);
    return v;
}

uint64_t gp_gguf_load_u64(const uint8_t *at)
{
    uint64_t v;

    memcpy(&v, at, sizeof v);
    return v;
}

static size_t left(const struct cursor *c)
{
    return (size_t)(c->end - c->at);
}

/* count items of `bytes` bytes. */
static int take(struct cursor *c, uint64_t count, uint32_t bytes, const uint8_t **out)
{
    if (count > left(c) / bytes && c->bounded)
        return gp_fail(c->err, GP_ECORRUPT, "the header is larger than %u MiB",
                       GGUF_HEADER_BYTES_MAX >> 20);
    if (count > left(c) / bytes)
        return gp_fail(c->err, GP_ECORRUPT, "cut off: %" PRIu64 " x %u bytes wanted, %zu left",
                       count, bytes, left(c));
    *out = c->at;
    c->at += count * bytes;
    return GP_OK;
}

static int take_u32(struct cursor *c, uint32_t *out)
{
    const uint8_t *at;
    int rc = take(c, 1, 4, &at);

    if (rc == GP_OK)
        *out = gp_gguf_load_u32(at);
    return rc;
}

static int take_u64(struct cursor *c, uint64_t *out)
{
    const uint8_t *at;
    int rc = take(c, 1, 8, &at);

    if (rc == GP_OK)
        *out = gp_gguf_load_u64(at);
    return rc;
}

static int take_string(struct cursor *c, struct gp_str *out)
{
    uint64_t length;
    const uint8_t *at;
    int rc = take_u64(c, &length);

    if (rc == GP_OK)
        rc = take(c, length, 1, &at);
    if (rc != GP_OK)
        return rc;
    out->bytes = (const char *)at;
    out->length = (size_t)length;
    return GP_OK;
}

static int take_value_type(struct cursor *c, enum gp_gguf_value *out)
{
    uint32_t type;
    int rc = take_u32(c, &type);

    if (rc != GP_OK)
        return rc;
    if (type >= GGUF_VALUE_TYPES)
        return gp_fail(c->err, GP_ECORRUPT, "unknown value type %" PRIu32, type);
    *out = (enum gp_gguf_value)type;
    return GP_OK;
}

/* Fixed-size values are looked at only where they can be wrong in themselves. */
static int check_bools(struct cursor *c, const uint8_t *at, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (at[i] > 1)
            return gp_fail(c->err, GP_ECORRUPT, "a bool is %u, not 0 or 1", at[i]);
    return GP_OK;
}

static int take_array(struct cursor *c, struct gguf_key *key)
{
    int rc = take_value_type(c, &key->item_type);

    if (rc == GP_OK)
        rc = take_u64(c, &key->count);
    if (rc != GP_OK)
        return rc;
    if (key->item_type == GP_GGUF_ARRAY)
        return gp_fail(c->err, GP_ECORRUPT, "an array of arrays, which is not supported");
    if (key->item_type == GP_GGUF_STRING) {
        key->value = c->at;
        if (key->count > GGUF_STRINGS_MAX)
            return gp_fail(c->err, GP_ECORRUPT, "%" PRIu64 " strings, at most %u are read",
                           key->count, GGUF_STRINGS_MAX);
        struct gp_str ignored;

        for (uint64_t i = 0; rc == GP_OK && i < key->count; i++)
            rc = take_string(c, &ignored);
        return rc;
    }
    rc = take(c, key->count, gp_gguf_value_bytes(key->item_type), &key->value);
    return rc == GP_OK && key->item_type == GP_GGUF_BOOL ? check_bools(c, key->value, key->count)
                                                         : rc;
}

static int take_value(struct cursor *c, struct gguf_key *key)
{
    int rc = take_value_type(c, &key->type);

    if (rc != GP_OK)
        return rc;
    if (key->type == GP_GGUF_ARRAY)
        return take_array(c, key);
    if (key->type == GP_GGUF_STRING) {
        struct gp_str ignored;

        key->value = c->at;
        return take_string(c, &ignored);
    }
    rc = take(c, 1, gp_gguf_value_bytes(key->type), &key->value);
    return rc == GP_OK && key->type == GP_GGUF_BOOL ? check_bools(c, key->value, 1) : rc;
}

static int take_key(struct cursor *c, uint32_t index, struct gguf_key *key)
{
    int rc = take_string(c, &key->name);

    if (rc != GP_OK) {
        gp_error_prefix(c->err, "key %" PRIu32 ": name", index);
        return rc;
    }
    if (key->name.length == 0)
        return gp_fail(c->err, GP_ECORRUPT, "key %" PRIu32 ": the name is empty", index);
    if (key->name.length > GGUF_KEY_BYTES_MAX)
        return gp_fail(c->err, GP_ECORRUPT, "key %.*s...: a name of %zu bytes, at most %u are read",
                       GGUF_SHOWN(key->name), key->name.length, GGUF_KEY_BYTES_MAX);
    rc = take_value(c, key);
    if (rc != GP_OK)
        gp_error_prefix(c->err, "key %.*s", GGUF_SHOWN(key->name));
    return rc;
}

/* ggml once gave these out and took them back. */
static bool type_was_removed(uint32_t type)
{
    return type == 4 || type == 5 || (type >= 31 && type <= 33) || (type >= 36 && type <= 38);
}

int gp_gguf_tensor_bytes(uint32_t type, uint32_t dim_count, const uint64_t *dims, uint64_t *out,
                         struct gp_error *err)
{
    const struct gp_type_info *info = gp_type_info(type);
    const char *name = gp_type_name(type);

    if (!info && !name)
        return gp_fail(err, GP_ECORRUPT, "unknown type %" PRIu32, type);
    if (!info)
        return gp_fail(err, GP_EINVAL, "type %s (%" PRIu32 ") %s", name, type,
                       type_was_removed(type) ? "was removed from GGUF; convert the model anew"
                                              : "is not supported");
    uint64_t elements = 1;

    for (uint32_t i = 0; i < dim_count; i++) {
        if (dims[i] == 0)
            return gp_fail(err, GP_ECORRUPT, "dimension %" PRIu32 " is 0", i);
        if (__builtin_mul_overflow(elements, dims[i], &elements))
            return gp_fail(err, GP_ECORRUPT, "the dimensions' product does not fit in 64 bits");
    }
    if (dims[0] % info->block_elems != 0)
        return gp_fail(err, GP_ECORRUPT,
                       "rows of %" PRIu64 " elements are not whole blocks of %" PRIu32 " (%s)",
                       dims[0], info->block_elems, info->name);
    if (__builtin_mul_overflow(elements / info->block_elems, (uint64_t)info->block_bytes, out))
        return gp_fail(err, GP_ECORRUPT, "the size in bytes does not fit in 64 bits");
    return GP_OK;
}

static int take_shape(struct cursor *c, struct gp_gguf_tensor *tensor, struct extent *extent)
{
    uint32_t type = 0;
    uint64_t bytes = 0;
    int rc = take_u32(c, &tensor->dim_count);

    if (rc != GP_OK)
        return rc;
    if (tensor->dim_count < 1 || tensor->dim_count > GP_GGUF_DIMS)
        return gp_fail(c->err, GP_ECORRUPT, "%" PRIu32 " dimensions, not 1 to %u",
                       tensor->dim_count, GP_GGUF_DIMS);
    for (uint32_t i = 0; i < GP_GGUF_DIMS; i++)
        tensor->dims[i] = 1;
    for (uint32_t i = 0; rc == GP_OK && i < tensor->dim_count; i++)
        rc = take_u64(c, &tensor->dims[i]);
    if (rc == GP_OK)
        rc = take_u32(c, &type);
    if (rc == GP_OK)
        rc = take_u64(c, &extent->begin);
    if (rc == GP_OK)
        rc = gp_gguf_tensor_bytes(type, tensor->dim_count, tensor->dims, &bytes, c->err);
    if (rc != GP_OK)
        return rc;
    if (__builtin_add_overflow(extent->begin, bytes, &extent->end))
        return gp_fail(c->err, GP_ECORRUPT, "offset %" PRIu64 " is beyond the end of the file",
                       extent->begin);
    tensor->type = (enum gp_type)type;
    tensor->bytes = (size_t)bytes;
    return GP_OK;
}

static int take_tensor(struct cursor *c, uint32_t index, struct gp_gguf_tensor *tensor,
                       struct extent *extent)
{
    int rc = take_string(c, &tensor->name);

    if (rc != GP_OK) {
        gp_error_prefix(c->err, "tensor %" PRIu32 ": name", index);
        return rc;
    }
    if (tensor->name.length == 0)
        return gp_fail(c->err, GP_ECORRUPT, "tensor %" PRIu32 ": the name is empty", index);
    if (tensor->name.length > GGUF_NAME_BYTES_MAX)
        return gp_fail(c->err, GP_ECORRUPT,
                       "tensor %.*s...: a name of %zu bytes, at most %u are read",
                       GGUF_SHOWN(tensor->name), tensor->name.length, GGUF_NAME_BYTES_MAX);
    extent->tensor = index;
    rc = take_shape(c, tensor, extent);
    if (rc != GP_OK)
        gp_error_prefix(c->err, "tensor %.*s", GGUF_SHOWN(tensor->name));
    return rc;
}

/* ---- indexes ---- */

/* By length first: cheaper, and no order is promised to anybody. */
static int compare_names(const void *a, const void *b)
{
    const struct gp_str *x = &((const struct gguf_index *)a)->name;
    const struct gp_str *y = &((const struct gguf_index *)b)->name;

    if (x->length != y->length)
        return x->length < y->length ? -1 : 1;
    return memcmp(x->bytes, y->bytes, x->length);
}

static int sort_index(struct gguf_index *index, uint32_t count, const char *what,
                      struct gp_error *err)
{
    qsort(index, count, sizeof *index, compare_names);
    for (uint32_t i = 1; i < count; i++)
        if (compare_names(&index[i - 1], &index[i]) == 0)
            return gp_fail(err, GP_ECORRUPT, "%s %.*s: in the file twice", what,
                           GGUF_SHOWN(index[i].name));
    return GP_OK;
}

static const struct gguf_index *find_name(const struct gguf_index *index, uint32_t count,
                                          const char *name)
{
    struct gguf_index wanted = {.name = {name, strlen(name)}};

    return count == 0 ? NULL : bsearch(&wanted, index, count, sizeof *index, compare_names);
}

const struct gguf_key *gp_gguf_find_key(const struct gp_gguf *gguf, const char *key)
{
    const struct gguf_index *found = find_name(gguf->key_index, gguf->key_count, key);

    return found ? &gguf->keys[found->item] : NULL;
}

const struct gp_gguf_tensor *gp_gguf_find_tensor(const struct gp_gguf *gguf, const char *name)
{
    const struct gguf_index *found = find_name(gguf->tensor_index, gguf->tensor_count, name);

    return found ? &gguf->tensors[found->item] : NULL;
}

/* ---- the header ---- */

static int check_version(struct gp_gguf *g, struct cursor *c)
{
    const uint8_t *magic;
    int rc = take(c, 4, 1, &magic);

    if (rc == GP_OK && memcmp(magic, "GGUF", 4) != 0)
        return gp_fail(c->err, GP_ECORRUPT, "not a GGUF file (it does not start with \"GGUF\")");
    if (rc == GP_OK)
        rc = take_u32(c, &g->version);
    if (rc != GP_OK) {
        gp_error_prefix(c->err, "header");
        return rc;
    }
    uint32_t swapped = __builtin_bswap32(g->version);

    if (g->version != 0 && (g->version & 0xffff) == 0 && swapped <= 0xffff)
        return gp_fail(c->err, GP_EINVAL,
                       "a big-endian GGUF file (version %" PRIu32 "), which is not supported",
                       swapped);
    if (g->version != 2 && g->version != 3)
        return gp_fail(c->err, g->version == 0 ? GP_ECORRUPT : GP_EINVAL,
                       "GGUF version %" PRIu32 " is not supported (2 and 3 are)", g->version);
    return GP_OK;
}

static int check_count(uint64_t count, uint64_t max, size_t bytes_min, const struct cursor *c,
                       const char *what)
{
    if (count > max)
        return gp_fail(c->err, GP_ECORRUPT, "header: %" PRIu64 " %s, at most %" PRIu64 " are read",
                       count, what, max);
    if (count > left(c) / bytes_min)
        return gp_fail(c->err, GP_ECORRUPT,
                       "header: %" PRIu64 " %s cannot lie in the %zu bytes that follow", count,
                       what, left(c));
    return GP_OK;
}

static int read_counts(struct gp_gguf *g, struct cursor *c)
{
    uint64_t tensors = 0, keys = 0;
    int rc = take_u64(c, &tensors);

    if (rc == GP_OK)
        rc = take_u64(c, &keys);
    if (rc != GP_OK) {
        gp_error_prefix(c->err, "header");
        return rc;
    }
    rc = check_count(tensors, GGUF_TENSORS_MAX, TENSOR_BYTES_MIN, c, "tensors");
    if (rc == GP_OK)
        rc = check_count(keys, GGUF_KEYS_MAX, KEY_BYTES_MIN, c, "keys");
    g->tensor_count = (uint32_t)tensors;
    g->key_count = (uint32_t)keys;
    return rc;
}

static int read_keys(struct gp_gguf *g, struct cursor *c)
{
    g->keys = gp_mem_alloc_array(g->key_count, sizeof *g->keys);
    g->key_index = gp_mem_alloc_array(g->key_count, sizeof *g->key_index);
    if (!g->keys || !g->key_index)
        return gp_fail(c->err, GP_ENOMEM, "no memory for %" PRIu32 " keys", g->key_count);
    for (uint32_t i = 0; i < g->key_count; i++) {
        int rc = take_key(c, i, &g->keys[i]);

        if (rc != GP_OK)
            return rc;
        g->key_index[i] = (struct gguf_index){g->keys[i].name, i};
    }
    return sort_index(g->key_index, g->key_count, "key", c->err);
}

/* The keys that speak of the container itself. */
static int read_container_keys(const struct gp_gguf *g, uint32_t *alignment, struct gp_error *err)
{
    uint32_t parts = 1;
    int rc = gp_gguf_u32_or(g, "split.count", &parts, err);

    if (rc == GP_OK && parts > 1)
        return gp_fail(err, GP_EINVAL,
                       "split.count: one of %" PRIu32 " parts of a split model; merge them into "
                       "one file first",
                       parts);
    *alignment = GGUF_ALIGNMENT;
    if (rc == GP_OK)
        rc = gp_gguf_u32_or(g, "general.alignment", alignment, err);
    if (rc == GP_OK && (*alignment < GGUF_ALIGNMENT || *alignment > GGUF_ALIGNMENT_MAX ||
                        (*alignment & (*alignment - 1)) != 0))
        return gp_fail(err, GP_ECORRUPT,
                       "general.alignment: %" PRIu32 " is not a power of two from %u to %u",
                       *alignment, GGUF_ALIGNMENT, GGUF_ALIGNMENT_MAX);
    return rc;
}

static int compare_extents(const void *a, const void *b)
{
    const struct extent *x = a, *y = b;

    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* No tensor is empty, so two that do not overlap differ in where they begin. */
static int place_tensors(struct gp_gguf *g, struct extent *extents, uint32_t alignment,
                         struct gp_error *err)
{
    uint64_t data_bytes = g->length > g->data_offset ? g->length - g->data_offset : 0;

    for (uint32_t i = 0; i < g->tensor_count; i++) {
        struct gp_gguf_tensor *tensor = &g->tensors[i];

        if (extents[i].begin % alignment != 0)
            return gp_fail(err, GP_ECORRUPT,
                           "tensor %.*s: offset %" PRIu64 " is not a multiple of %" PRIu32,
                           GGUF_SHOWN(tensor->name), extents[i].begin, alignment);
        if (extents[i].end > data_bytes)
            return gp_fail(err, GP_ECORRUPT,
                           "tensor %.*s: bytes %" PRIu64 " to %" PRIu64
                           " lie beyond the end of the file, which has %" PRIu64
                           " bytes of tensors",
                           GGUF_SHOWN(tensor->name), extents[i].begin, extents[i].end, data_bytes);
        tensor->data = g->bytes + g->data_offset + extents[i].begin;
    }
    qsort(extents, g->tensor_count, sizeof *extents, compare_extents);
    for (uint32_t i = 1; i < g->tensor_count; i++)
        if (extents[i].begin < extents[i - 1].end)
            return gp_fail(err, GP_ECORRUPT, "tensor %.*s: overlaps tensor %.*s",
                           GGUF_SHOWN(g->tensors[extents[i].tensor].name),
                           GGUF_SHOWN(g->tensors[extents[i - 1].tensor].name));
    return GP_OK;
}

static int read_tensors(struct gp_gguf *g, struct cursor *c, uint32_t alignment)
{
    int rc = GP_OK;
    struct extent *extents = gp_mem_alloc_array(g->tensor_count, sizeof *extents);

    g->tensors = gp_mem_alloc_array(g->tensor_count, sizeof *g->tensors);
    g->tensor_index = gp_mem_alloc_array(g->tensor_count, sizeof *g->tensor_index);
    if (!extents || !g->tensors || !g->tensor_index)
        rc = gp_fail(c->err, GP_ENOMEM, "no memory for %" PRIu32 " tensors", g->tensor_count);
    for (uint32_t i = 0; rc == GP_OK && i < g->tensor_count; i++) {
        rc = take_tensor(c, i, &g->tensors[i], &extents[i]);
        g->tensor_index[i] = (struct gguf_index){g->tensors[i].name, i};
    }
    if (rc == GP_OK)
        rc = sort_index(g->tensor_index, g->tensor_count, "tensor", c->err);
    if (rc == GP_OK) {
        g->data_offset = (uint64_t)(c->at - g->bytes);
        g->data_offset = (g->data_offset + alignment - 1) / alignment * alignment;
        rc = place_tensors(g, extents, alignment, c->err);
    }
    gp_mem_free(extents);
    return rc;
}

static int read_file(struct gp_gguf *g, struct gp_error *err)
{
    bool bounded = g->length > GGUF_HEADER_BYTES_MAX;
    struct cursor c = {.at = g->bytes,
                       .end = g->bytes + (bounded ? GGUF_HEADER_BYTES_MAX : g->length),
                       .bounded = bounded,
                       .err = err};
    uint32_t alignment = GGUF_ALIGNMENT;
    int rc = check_version(g, &c);

    if (rc == GP_OK)
        rc = read_counts(g, &c);
    if (rc == GP_OK)
        rc = read_keys(g, &c);
    if (rc == GP_OK)
        rc = read_container_keys(g, &alignment, err);
    if (rc == GP_OK)
        rc = read_tensors(g, &c, alignment);
    return rc;
}

/* ---- open and close ---- */

static int open_bytes(struct gp_gguf **out, const void *bytes, uint64_t length, bool mapped,
                      struct gp_error *err)
{
    struct gp_gguf *g = gp_mem_alloc(sizeof *g);

    if (!g)
        return gp_fail(err, GP_ENOMEM, "no memory to open the file");
    g->bytes = bytes;
    g->length = length;
    int rc = read_file(g, err);

    if (rc != GP_OK) {
        gp_gguf_close(g);
        return rc;
    }
    g->mapped = mapped;
    *out = g;
    return GP_OK;
}

int gp_gguf_open_bytes(struct gp_gguf **out, const void *bytes, size_t length, struct gp_error *err)
{
    gp_assert((uintptr_t)bytes % 64 == 0);
    return open_bytes(out, bytes, length, false, err);
}

static int open_map(struct gp_gguf **out, int fd, struct gp_error *err)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return gp_fail(err, GP_EIO, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return gp_fail(err, GP_EINVAL, "not a regular file");
    if (st.st_size == 0)
        return gp_fail(err, GP_ECORRUPT, "the file is empty");
    size_t length = (size_t)st.st_size;
    void *map = mmap(NULL, length, PROT_READ, MAP_PRIVATE, fd, 0);

    if (map == MAP_FAILED)
        return gp_fail(err, GP_EIO, "mmap: %s", strerror(errno));
    int rc = open_bytes(out, map, length, true, err);

    if (rc != GP_OK)
        munmap(map, length);
    return rc;
}

int gp_gguf_open(struct gp_gguf **out, const char *path, struct gp_error *err)
{
    /* Without O_NONBLOCK the open of a FIFO would wait for a writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return gp_fail(err, GP_EIO, "%s: %s", path, strerror(errno));
    int rc = open_map(out, fd, err);

    close(fd);
    if (rc != GP_OK)
        gp_error_prefix(err, "%s", path);
    return rc;
}

void gp_gguf_close(struct gp_gguf *gguf)
{
    if (!gguf)
        return;
    gp_mem_free(gguf->keys);
    gp_mem_free(gguf->key_index);
    gp_mem_free(gguf->tensors);
    gp_mem_free(gguf->tensor_index);
    if (gguf->mapped)
        munmap((void *)(uintptr_t)gguf->bytes, gguf->length);
    gp_mem_free(gguf);
}

void gp_gguf_drop_pages(const struct gp_gguf *gguf)
{
    if (!gguf->mapped)
        return;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t begin = (gguf->data_offset + page - 1) / page * page;

    /* Advice: a system that does not take it costs memory, not answers. */
    if (begin < gguf->length)
        (void)madvise((void *)(uintptr_t)(gguf->bytes + begin), gguf->length - begin,
                      MADV_DONTNEED);
}
