/* Writing GGUF version 3, for tests and tools.  What the reader would refuse is refused here
 * too. */
#include "model/gguf_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/mem.h"

#define ROWS_CHUNK_BYTES (4u << 20)
#define FILE_BYTES_MAX   (UINT64_C(1) << 62) /* sums of two of these cannot wrap */

struct buffer {
    uint8_t *bytes;
    size_t length;
    size_t room;
};

struct pending_tensor {
    char *name;
    enum gp_type type;
    uint32_t dim_count;
    uint64_t dims[GP_GGUF_DIMS];
    uint64_t bytes;
    void *data; /* NULL: ask `rows` */
    gp_gguf_rows_fn *rows;
    void *ctx;
};

struct gp_gguf_writer {
    int status; /* of the first add that failed */
    struct gp_error error;
    uint32_t alignment;
    struct buffer keys;
    char **key_names;
    uint32_t key_count;
    uint32_t key_room;
    struct pending_tensor *tensors;
    uint32_t tensor_count;
    uint32_t tensor_room;
};

int gp_gguf_writer_open(struct gp_gguf_writer **out, struct gp_error *err)
{
    struct gp_gguf_writer *w = gp_mem_alloc(sizeof *w);

    if (!w)
        return gp_fail(err, GP_ENOMEM, "no memory for a GGUF writer");
    w->alignment = GGUF_ALIGNMENT;
    *out = w;
    return GP_OK;
}

void gp_gguf_writer_close(struct gp_gguf_writer *w)
{
    if (!w)
        return;
    for (uint32_t i = 0; i < w->key_count; i++)
        gp_mem_free(w->key_names[i]);
    for (uint32_t i = 0; i < w->tensor_count; i++) {
        gp_mem_free(w->tensors[i].name);
        gp_mem_free(w->tensors[i].data);
    }
    gp_mem_free(w->key_names);
    gp_mem_free(w->tensors);
    gp_mem_free(w->keys.bytes);
    gp_mem_free(w);
}

/* ---- growing ---- */

static bool no_memory(struct gp_gguf_writer *w)
{
    w->status = gp_fail(&w->error, GP_ENOMEM, "no memory for a GGUF file");
    return false;
}

static bool refuse_add(struct gp_gguf_writer *w, const char *what, const char *name,
                       const char *why)
{
    w->status = gp_fail(&w->error, GP_EINVAL, "%s %.100s: %s", what, name, why);
    return false;
}

static bool buffer_put(struct buffer *b, const void *bytes, size_t length)
{
    if (length > b->room - b->length) {
        size_t room = b->room ? b->room : 4096;

        while (room - b->length < length) {
            if (room > SIZE_MAX / 2)
                return false;
            room *= 2;
        }
        uint8_t *grown = gp_mem_realloc(b->bytes, b->length, room);

        if (!grown)
            return false;
        b->bytes = grown;
        b->room = room;
    }
    if (length > 0)
        memcpy(b->bytes + b->length, bytes, length);
    b->length += length;
    return true;
}

static bool buffer_put_u32(struct buffer *b, uint32_t value)
{
    return buffer_put(b, &value, sizeof value);
}

static bool buffer_put_u64(struct buffer *b, uint64_t value)
{
    return buffer_put(b, &value, sizeof value);
}

static bool buffer_put_string(struct buffer *b, const char *bytes, size_t length)
{
    return buffer_put_u64(b, length) && buffer_put(b, bytes, length);
}

/* Room for one more item; the array doubles. */
static bool grow(void **items, uint32_t count, uint32_t *room, size_t item_bytes)
{
    if (count < *room)
        return true;
    uint32_t wanted = *room ? *room * 2 : 32;
    void *grown = gp_mem_realloc(*items, count * item_bytes, wanted * item_bytes);

    if (!grown)
        return false;
    *items = grown;
    *room = wanted;
    return true;
}

/* ---- keys ---- */

static bool begin_key(struct gp_gguf_writer *w, const char *key, enum gp_gguf_value type)
{
    size_t length = strlen(key);

    if (w->status != GP_OK)
        return false;
    if (length == 0 || length > GGUF_KEY_BYTES_MAX)
        return refuse_add(w, "key", key, "the name is empty or too long");
    if (w->key_count == GGUF_KEYS_MAX)
        return refuse_add(w, "key", key, "too many keys");
    for (uint32_t i = 0; i < w->key_count; i++)
        if (strcmp(w->key_names[i], key) == 0)
            return refuse_add(w, "key", key, "added twice");
    if (!grow((void **)&w->key_names, w->key_count, &w->key_room, sizeof *w->key_names))
        return no_memory(w);
    w->key_names[w->key_count] = gp_mem_copy(key, length);
    if (!w->key_names[w->key_count])
        return no_memory(w);
    w->key_count++;
    if (!buffer_put_string(&w->keys, key, length) || !buffer_put_u32(&w->keys, type))
        return no_memory(w);
    return true;
}

static void add_value(struct gp_gguf_writer *w, const char *key, enum gp_gguf_value type,
                      const void *value)
{
    if (begin_key(w, key, type) && !buffer_put(&w->keys, value, gp_gguf_value_bytes(type)))
        no_memory(w);
}

void gp_gguf_add_u32(struct gp_gguf_writer *w, const char *key, uint32_t value)
{
    if (w->status == GP_OK && strcmp(key, "general.alignment") == 0) {
        if (value < GGUF_ALIGNMENT || value > GGUF_ALIGNMENT_MAX || (value & (value - 1)) != 0) {
            refuse_add(w, "key", key, "not a power of two in range");
            return;
        }
        w->alignment = value;
    }
    add_value(w, key, GP_GGUF_U32, &value);
}

void gp_gguf_add_f32(struct gp_gguf_writer *w, const char *key, float value)
{
    add_value(w, key, GP_GGUF_F32, &value);
}

void gp_gguf_add_bool(struct gp_gguf_writer *w, const char *key, bool value)
{
    uint8_t byte = value;

    add_value(w, key, GP_GGUF_BOOL, &byte);
}

void gp_gguf_add_str(struct gp_gguf_writer *w, const char *key, const char *bytes, size_t length)
{
    if (begin_key(w, key, GP_GGUF_STRING) && !buffer_put_string(&w->keys, bytes, length))
        no_memory(w);
}

static bool begin_array(struct gp_gguf_writer *w, const char *key, enum gp_gguf_value type,
                        uint32_t count)
{
    if (!begin_key(w, key, GP_GGUF_ARRAY))
        return false;
    if (!buffer_put_u32(&w->keys, type) || !buffer_put_u64(&w->keys, count))
        return no_memory(w);
    return true;
}

void gp_gguf_add_strings(struct gp_gguf_writer *w, const char *key, const struct gp_str *items,
                         uint32_t count)
{
    if (w->status == GP_OK && count > GGUF_STRINGS_MAX)
        refuse_add(w, "key", key, "too many strings");
    if (!begin_array(w, key, GP_GGUF_STRING, count))
        return;
    for (uint32_t i = 0; i < count; i++)
        if (!buffer_put_string(&w->keys, items[i].bytes, items[i].length)) {
            no_memory(w);
            return;
        }
}

void gp_gguf_add_array(struct gp_gguf_writer *w, const char *key, enum gp_gguf_value type,
                       const void *items, uint32_t count)
{
    size_t item_bytes = gp_gguf_value_bytes(type);

    gp_assert(item_bytes > 0);
    if (begin_array(w, key, type, count) && !buffer_put(&w->keys, items, count * item_bytes))
        no_memory(w);
}

/* ---- tensors ---- */

/* The new tensor, counted already, or NULL. */
static struct pending_tensor *begin_tensor(struct gp_gguf_writer *w, const char *name,
                                           enum gp_type type, uint32_t dim_count,
                                           const uint64_t *dims)
{
    struct pending_tensor t = {.type = type, .dim_count = dim_count};
    size_t length = strlen(name);

    gp_assert(dim_count >= 1 && dim_count <= GP_GGUF_DIMS);
    if (w->status != GP_OK)
        return NULL;
    if (length == 0 || length > GGUF_NAME_BYTES_MAX)
        refuse_add(w, "tensor", name, "the name is empty or too long");
    else if (w->tensor_count == GGUF_TENSORS_MAX)
        refuse_add(w, "tensor", name, "too many tensors");
    for (uint32_t i = 0; i < w->tensor_count; i++)
        if (strcmp(w->tensors[i].name, name) == 0)
            refuse_add(w, "tensor", name, "added twice");
    if (w->status != GP_OK)
        return NULL;
    w->status = gp_gguf_tensor_bytes(type, dim_count, dims, &t.bytes, &w->error);
    if (w->status != GP_OK) {
        gp_error_prefix(&w->error, "tensor %s", name);
        return NULL;
    }
    memcpy(t.dims, dims, dim_count * sizeof *dims);
    if (!grow((void **)&w->tensors, w->tensor_count, &w->tensor_room, sizeof *w->tensors) ||
        !(t.name = gp_mem_copy(name, length))) {
        no_memory(w);
        return NULL;
    }
    w->tensors[w->tensor_count] = t;
    return &w->tensors[w->tensor_count++];
}

void gp_gguf_add_tensor(struct gp_gguf_writer *w, const char *name, enum gp_type type,
                        uint32_t dim_count, const uint64_t *dims, const void *data)
{
    struct pending_tensor *t = begin_tensor(w, name, type, dim_count, dims);

    if (!t)
        return;
    t->data = gp_mem_alloc(t->bytes);
    if (!t->data)
        no_memory(w);
    else
        memcpy(t->data, data, t->bytes);
}

void gp_gguf_add_tensor_rows(struct gp_gguf_writer *w, const char *name, enum gp_type type,
                             uint32_t dim_count, const uint64_t *dims, gp_gguf_rows_fn *rows,
                             void *ctx)
{
    struct pending_tensor *t = begin_tensor(w, name, type, dim_count, dims);

    if (!t)
        return;
    t->rows = rows;
    t->ctx = ctx;
}

/* ---- the file ---- */

static uint64_t padding(uint64_t bytes, uint32_t alignment)
{
    return (alignment - bytes % alignment) % alignment;
}

static int build_header(const struct gp_gguf_writer *w, struct buffer *b, struct gp_error *err)
{
    static const uint8_t zeros[GGUF_ALIGNMENT_MAX];
    uint64_t offset = 0;
    bool ok = buffer_put(b, "GGUF", 4) && buffer_put_u32(b, 3) &&
              buffer_put_u64(b, w->tensor_count) && buffer_put_u64(b, w->key_count) &&
              buffer_put(b, w->keys.bytes, w->keys.length);

    for (uint32_t i = 0; ok && i < w->tensor_count; i++) {
        const struct pending_tensor *t = &w->tensors[i];

        ok = buffer_put_string(b, t->name, strlen(t->name)) && buffer_put_u32(b, t->dim_count);
        ok = ok && buffer_put(b, t->dims, t->dim_count * sizeof *t->dims);
        ok = ok && buffer_put_u32(b, t->type) && buffer_put_u64(b, offset);
        if (t->bytes > FILE_BYTES_MAX || offset > FILE_BYTES_MAX)
            return gp_fail(err, GP_EINVAL, "tensor %s: the file would be too large", t->name);
        offset += t->bytes + padding(t->bytes, w->alignment);
    }
    ok = ok && buffer_put(b, zeros, padding(b->length, w->alignment));
    if (!ok)
        return gp_fail(err, GP_ENOMEM, "no memory for the header");
    if (b->length > GGUF_HEADER_BYTES_MAX)
        return gp_fail(err, GP_EINVAL, "the header would be larger than %u MiB",
                       GGUF_HEADER_BYTES_MAX >> 20);
    return GP_OK;
}

static int write_all(int fd, const void *bytes, uint64_t length, struct gp_error *err)
{
    const uint8_t *at = bytes;

    while (length > 0) {
        ssize_t n = write(fd, at, length < (1u << 30) ? length : 1u << 30);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return gp_fail(err, GP_EIO, "write: %s", strerror(errno));
        at += n;
        length -= (uint64_t)n;
    }
    return GP_OK;
}

static int write_rows(int fd, const struct pending_tensor *t, struct gp_error *err)
{
    const struct gp_type_info *info = gp_type_info(t->type);
    uint64_t row_bytes = t->dims[0] / info->block_elems * info->block_bytes;
    uint64_t row_count = t->bytes / row_bytes;
    uint64_t chunk = row_bytes < ROWS_CHUNK_BYTES ? ROWS_CHUNK_BYTES / row_bytes : 1;
    int rc = GP_OK;

    if (chunk > row_count)
        chunk = row_count;
    uint8_t *bytes = gp_mem_alloc_array(chunk, row_bytes);

    if (!bytes)
        return gp_fail(err, GP_ENOMEM, "tensor %s: no memory for its rows", t->name);
    for (uint64_t row = 0; rc == GP_OK && row < row_count; row += chunk) {
        uint64_t end = row_count - row < chunk ? row_count : row + chunk;

        rc = t->rows(t->ctx, row, end, bytes, err);
        if (rc == GP_OK)
            rc = write_all(fd, bytes, (end - row) * row_bytes, err);
    }
    gp_mem_free(bytes);
    return rc;
}

static int write_tensors(int fd, const struct gp_gguf_writer *w, struct gp_error *err)
{
    static const uint8_t zeros[GGUF_ALIGNMENT_MAX];
    int rc = GP_OK;

    for (uint32_t i = 0; rc == GP_OK && i < w->tensor_count; i++) {
        const struct pending_tensor *t = &w->tensors[i];

        rc = t->data ? write_all(fd, t->data, t->bytes, err) : write_rows(fd, t, err);
        if (rc == GP_OK)
            rc = write_all(fd, zeros, padding(t->bytes, w->alignment), err);
    }
    return rc;
}

/* Beside the file that is wanted, for a rename works only inside one file system. */
static int open_temporary(const char *path, char *name, size_t name_bytes, struct gp_error *err)
{
    for (uint32_t attempt = 0; attempt < 100; attempt++) {
        snprintf(name, name_bytes, "%s.%ld.%" PRIu32, path, (long)getpid(), attempt);
        int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

        if (fd >= 0)
            return fd;
        if (errno != EEXIST)
            break;
    }
    return gp_fail(err, GP_EIO, "%s: %s", name, strerror(errno));
}

static int write_file(const struct gp_gguf_writer *w, const struct buffer *header, const char *path,
                      char *name, size_t name_bytes, struct gp_error *err)
{
    int fd = open_temporary(path, name, name_bytes, err);

    if (fd < 0)
        return fd;
    int rc = write_all(fd, header->bytes, header->length, err);

    if (rc == GP_OK)
        rc = write_tensors(fd, w, err);
    if (close(fd) != 0 && rc == GP_OK)
        rc = gp_fail(err, GP_EIO, "close: %s", strerror(errno));
    if (rc == GP_OK && rename(name, path) != 0)
        rc = gp_fail(err, GP_EIO, "rename: %s", strerror(errno));
    if (rc != GP_OK) {
        unlink(name);
        gp_error_prefix(err, "%s", path);
    }
    return rc;
}

int gp_gguf_writer_write(struct gp_gguf_writer *w, const char *path, struct gp_error *err)
{
    if (w->status != GP_OK)
        return gp_fail(err, w->status, "%s", w->error.message);
    struct buffer header = {0};
    size_t name_bytes = strlen(path) + 48;
    char *name = gp_mem_alloc(name_bytes);
    int rc =
        name ? build_header(w, &header, err) : gp_fail(err, GP_ENOMEM, "no memory for a file name");

    if (rc == GP_OK)
        rc = write_file(w, &header, path, name, name_bytes, err);
    gp_mem_free(header.bytes);
    gp_mem_free(name);
    return rc;
}
