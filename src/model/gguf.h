/* GGUF v2 and v3 files, little-endian, read through mmap; and a writer for tests and tools.
 *
 * Knows the container: keys, values, tensor descriptions, bytes.  Knows no architecture.  Nothing
 * in a file is trusted: every count is bounded by the bytes left, every product is guarded, every
 * type, alignment, offset and overlap is checked at open, so that what the accessors hand out can
 * be used without another look.  Format: ggml's docs/gguf.md.
 *
 * A gp_gguf is read-only once open; any thread may read it.  Strings it hands out lie in the
 * mapping, are not zero-terminated and may hold any byte. */
#ifndef GP_MODEL_GGUF_H
#define GP_MODEL_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "kernels/kernels.h"

enum gp_gguf_value {
    GP_GGUF_U8,
    GP_GGUF_I8,
    GP_GGUF_U16,
    GP_GGUF_I16,
    GP_GGUF_U32,
    GP_GGUF_I32,
    GP_GGUF_F32,
    GP_GGUF_BOOL,
    GP_GGUF_STRING,
    GP_GGUF_ARRAY,
    GP_GGUF_U64,
    GP_GGUF_I64,
    GP_GGUF_F64,
};

struct gp_str {
    const char *bytes;
    size_t length;
};

#define GP_GGUF_DIMS 4u

struct gp_gguf_tensor {
    struct gp_str name;
    enum gp_type type;
    uint32_t dim_count;          /* 1 to 4                                      */
    uint64_t dims[GP_GGUF_DIMS]; /* dims[0] runs fastest; unused ones are 1     */
    const void *data;            /* in the mapping, aligned to 32 at least      */
    size_t bytes;
};

struct gp_gguf;

/* Open and check.  Refuses by name: missing, truncated, hostile, big-endian, split files,
 * removed and unsupported tensor types. */
int gp_gguf_open(struct gp_gguf **out, const char *path, struct gp_error *err);

/* The same over bytes in memory, which must outlive the result and be 64-byte aligned (fuzzing). */
int gp_gguf_open_bytes(struct gp_gguf **out, const void *bytes, size_t length,
                       struct gp_error *err);
void gp_gguf_close(struct gp_gguf *gguf); /* NULL is fine */

uint32_t gp_gguf_version(const struct gp_gguf *gguf);
uint64_t gp_gguf_file_bytes(const struct gp_gguf *gguf);

/* Tell the system that the tensor bytes are not needed any more (they were repacked); they can
 * still be read again. */
void gp_gguf_drop_pages(const struct gp_gguf *gguf);

/* Tensors, in file order. */
uint32_t gp_gguf_tensor_count(const struct gp_gguf *gguf);
const struct gp_gguf_tensor *gp_gguf_tensor(const struct gp_gguf *gguf, uint32_t index);
const struct gp_gguf_tensor *gp_gguf_find_tensor(const struct gp_gguf *gguf, const char *name);

/* Keys, in file order. */
uint32_t gp_gguf_key_count(const struct gp_gguf *gguf);
struct gp_str gp_gguf_key(const struct gp_gguf *gguf, uint32_t index);
bool gp_gguf_has(const struct gp_gguf *gguf, const char *key);

/* One value.  GP_OK; GP_EINVAL when the key is absent (err untouched when absent is fine: use
 * the _or forms); GP_ECORRUPT, naming the key, when its type does not fit or its number is out
 * of range. */
int gp_gguf_u32(const struct gp_gguf *gguf, const char *key, uint32_t *out, struct gp_error *err);
int gp_gguf_f32(const struct gp_gguf *gguf, const char *key, float *out, struct gp_error *err);
int gp_gguf_str(const struct gp_gguf *gguf, const char *key, struct gp_str *out,
                struct gp_error *err);

/* As above, but an absent key leaves *out as it is and is GP_OK. */
int gp_gguf_u32_or(const struct gp_gguf *gguf, const char *key, uint32_t *out,
                   struct gp_error *err);
int gp_gguf_f32_or(const struct gp_gguf *gguf, const char *key, float *out, struct gp_error *err);
int gp_gguf_bool_or(const struct gp_gguf *gguf, const char *key, bool *out, struct gp_error *err);
int gp_gguf_str_or(const struct gp_gguf *gguf, const char *key, struct gp_str *out,
                   struct gp_error *err);

/* Arrays.  `data` points into the mapping, possibly unaligned, `count` elements of a fixed-size
 * type. */
struct gp_gguf_array {
    enum gp_gguf_value type;
    uint64_t count;
    const void *data; /* NULL for strings */
};
int gp_gguf_array(const struct gp_gguf *gguf, const char *key, struct gp_gguf_array *out,
                  struct gp_error *err);

/* An array of strings, as `count` gp_str in memory of the caller's (gp_mem_free). */
int gp_gguf_strings(const struct gp_gguf *gguf, const char *key, struct gp_str **out,
                    uint32_t *count, struct gp_error *err);

/* One line for `inspect`: "llama.block_count u32 30", arrays by type and length. */
void gp_gguf_describe_key(const struct gp_gguf *gguf, uint32_t index, char *out, size_t out_bytes);

/* ---- writer ---- */

struct gp_gguf_writer;

int gp_gguf_writer_open(struct gp_gguf_writer **out, struct gp_error *err);
/* Any failed add is remembered and reported by _write. */
void gp_gguf_add_u32(struct gp_gguf_writer *w, const char *key, uint32_t value);
void gp_gguf_add_f32(struct gp_gguf_writer *w, const char *key, float value);
void gp_gguf_add_bool(struct gp_gguf_writer *w, const char *key, bool value);
void gp_gguf_add_str(struct gp_gguf_writer *w, const char *key, const char *bytes, size_t length);
void gp_gguf_add_strings(struct gp_gguf_writer *w, const char *key, const struct gp_str *items,
                         uint32_t count);
void gp_gguf_add_array(struct gp_gguf_writer *w, const char *key, enum gp_gguf_value type,
                       const void *items, uint32_t count); /* fixed-size types */
/* The bytes are copied. */
void gp_gguf_add_tensor(struct gp_gguf_writer *w, const char *name, enum gp_type type,
                        uint32_t dim_count, const uint64_t *dims, const void *data);
/* For tensors too large to hold: _write asks for the bytes of rows [row_begin, row_end), in
 * order, a row being dims[0] elements.  A status other than GP_OK ends the writing and is what
 * _write returns. */
typedef int gp_gguf_rows_fn(void *ctx, uint64_t row_begin, uint64_t row_end, void *out,
                            struct gp_error *err);
void gp_gguf_add_tensor_rows(struct gp_gguf_writer *w, const char *name, enum gp_type type,
                             uint32_t dim_count, const uint64_t *dims, gp_gguf_rows_fn *rows,
                             void *ctx);
/* Through a temporary file and rename, so that a reader never sees half a file. */
int gp_gguf_writer_write(struct gp_gguf_writer *w, const char *path, struct gp_error *err);
void gp_gguf_writer_close(struct gp_gguf_writer *w);

#endif
