/* GGUF files made byte by byte, right and wrong, for the reader's tests; and a walk over an open
 * one that touches all it hands out.  The fuzz driver uses the walk too. */
#ifndef GP_TESTS_MODEL_GGUF_BYTES_H
#define GP_TESTS_MODEL_GGUF_BYTES_H

#include "model/gguf.h"

#define TEST_GGUF_ROOM 65536u

/* All zeros is an empty file. */
struct test_gguf {
    size_t length;
    uint8_t bytes[TEST_GGUF_ROOM];
};

void test_gguf_put(struct test_gguf *f, const void *bytes, size_t length);
void test_gguf_u32(struct test_gguf *f, uint32_t value);
void test_gguf_u64(struct test_gguf *f, uint64_t value);
void test_gguf_str(struct test_gguf *f, const char *text);
void test_gguf_pad(struct test_gguf *f, size_t multiple);
void test_gguf_zeros(struct test_gguf *f, size_t count);

/* "GGUF", version, counts. */
void test_gguf_header(struct test_gguf *f, uint32_t version, uint64_t tensors, uint64_t keys);

/* A name and a value type; the value is put next. */
void test_gguf_key(struct test_gguf *f, const char *name, uint32_t type);
void test_gguf_key_u32(struct test_gguf *f, const char *name, uint32_t value);
void test_gguf_key_array(struct test_gguf *f, const char *name, uint32_t type, uint64_t count);

void test_gguf_tensor(struct test_gguf *f, const char *name, uint32_t dim_count,
                      const uint64_t *dims, uint32_t type, uint64_t offset);

/* Bytes in memory where a byte too many is seen by ASan; free(). */
void *test_exact_copy(const void *bytes, size_t length);

/* Touches all keys, strings and tensors; NULL, or what lies outside the `length` bytes or breaks a
 * promise of gguf.h. */
const char *test_gguf_walk(const struct gp_gguf *gguf, const void *bytes, size_t length);

#endif
