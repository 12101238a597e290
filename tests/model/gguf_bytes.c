#include "model/gguf_bytes.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

void test_gguf_put(struct test_gguf *f, const void *bytes, size_t length)
{
    gp_assert(length <= TEST_GGUF_ROOM - f->length);
    memcpy(f->bytes + f->length, bytes, length);
    f->length += length;
}

void test_gguf_u32(struct test_gguf *f, uint32_t value)
{
    test_gguf_put(f, &value, sizeof value);
}

void test_gguf_u64(struct test_gguf *f, uint64_t value)
{
    test_gguf_put(f, &value, sizeof value);
}

void test_gguf_str(struct test_gguf *f, const char *text)
{
    test_gguf_u64(f, strlen(text));
    test_gguf_put(f, text, strlen(text));
}

void test_gguf_zeros(struct test_gguf *f, size_t count)
{
    gp_assert(count <= TEST_GGUF_ROOM - f->length);
    memset(f->bytes + f->length, 0, count);
    f->length += count;
}

void test_gguf_pad(struct test_gguf *f, size_t multiple)
{
    test_gguf_zeros(f, (multiple - f->length % multiple) % multiple);
}

void test_gguf_header(struct test_gguf *f, uint32_t version, uint64_t tensors, uint64_t keys)
{
    f->length = 0;
    test_gguf_put(f, "GGUF", 4);
    test_gguf_u32(f, version);
    test_gguf_u64(f, tensors);
    test_gguf_u64(f, keys);
}

void test_gguf_key(struct test_gguf *f, const char *name, uint32_t type)
{
    test_gguf_str(f, name);
    test_gguf_u32(f, type);
}

void test_gguf_key_u32(struct test_gguf *f, const char *name, uint32_t value)
{
    test_gguf_key(f, name, GP_GGUF_U32);
    test_gguf_u32(f, value);
}

void test_gguf_key_array(struct test_gguf *f, const char *name, uint32_t type, uint64_t count)
{
    test_gguf_key(f, name, GP_GGUF_ARRAY);
    test_gguf_u32(f, type);
    test_gguf_u64(f, count);
}

void test_gguf_tensor(struct test_gguf *f, const char *name, uint32_t dim_count,
                      const uint64_t *dims, uint32_t type, uint64_t offset)
{
    test_gguf_str(f, name);
    test_gguf_u32(f, dim_count);
    for (uint32_t i = 0; i < dim_count; i++)
        test_gguf_u64(f, dims[i]);
    test_gguf_u32(f, type);
    test_gguf_u64(f, offset);
}

void *test_exact_copy(const void *bytes, size_t length)
{
    void *copy = NULL;

    if (posix_memalign(&copy, 64, length > 0 ? length : 1) != 0)
        abort();
    if (length > 0)
        memcpy(copy, bytes, length);
    return copy;
}

/* ---- the walk ---- */

static bool inside(const void *at, size_t n, const void *bytes, size_t length)
{
    uintptr_t begin = (uintptr_t)bytes, p = (uintptr_t)at;

    return p >= begin && p - begin <= length && n <= length - (p - begin);
}

/* The reads are the point: a sanitizer sees those that it should not. */
static uint32_t sum_bytes(const void *at, size_t n)
{
    const uint8_t *bytes = at;
    uint32_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += bytes[i];
    return sum;
}

static const char *walk_tensor(const struct gp_gguf_tensor *t, const void *bytes, size_t length)
{
    const struct gp_type_info *info = gp_type_info(t->type);
    uint64_t elements = 1;

    if (!info)
        return "a tensor of an unsupported type";
    if (t->dim_count < 1 || t->dim_count > GP_GGUF_DIMS)
        return "a tensor with a wrong number of dimensions";
    for (uint32_t d = 0; d < GP_GGUF_DIMS; d++) {
        if (t->dims[d] == 0 || (d >= t->dim_count && t->dims[d] != 1))
            return "a tensor with a wrong dimension";
        elements *= t->dims[d];
    }
    if (t->dims[0] % info->block_elems != 0 ||
        elements / info->block_elems * info->block_bytes != t->bytes)
        return "a tensor whose size is not its shape's";
    if (!inside(t->name.bytes, t->name.length, bytes, length))
        return "a tensor's name outside";
    if (!inside(t->data, t->bytes, bytes, length) || t->bytes == 0)
        return "a tensor outside";
    if ((uintptr_t)t->data % 32 != 0)
        return "a tensor that is not aligned";
    sum_bytes(t->data, t->bytes);
    return NULL;
}

static size_t item_bytes(enum gp_gguf_value type)
{
    switch (type) {
    case GP_GGUF_U8:
    case GP_GGUF_I8:
    case GP_GGUF_BOOL:
        return 1;
    case GP_GGUF_U16:
    case GP_GGUF_I16:
        return 2;
    case GP_GGUF_U64:
    case GP_GGUF_I64:
    case GP_GGUF_F64:
        return 8;
    default:
        return 4;
    }
}

/* The accessors want a zero-terminated key. */
static const char *walk_key(const struct gp_gguf *g, const char *key, const void *bytes,
                            size_t length)
{
    struct gp_str string = {0};
    struct gp_gguf_array array = {0};
    struct gp_str *strings = NULL;
    uint32_t u32, count = 0;
    float f32;
    bool flag;
    const char *wrong = NULL;
    int kinds = (gp_gguf_u32_or(g, key, &u32, NULL) == GP_OK) +
                (gp_gguf_f32_or(g, key, &f32, NULL) == GP_OK) +
                (gp_gguf_bool_or(g, key, &flag, NULL) == GP_OK);

    if (gp_gguf_str(g, key, &string, NULL) == GP_OK) {
        kinds++;
        if (!inside(string.bytes, string.length, bytes, length))
            return "a string outside";
        sum_bytes(string.bytes, string.length);
    }
    if (gp_gguf_array(g, key, &array, NULL) == GP_OK) {
        kinds++;
        if (array.type == GP_GGUF_STRING && array.data)
            return "an array of strings with data";
        size_t array_bytes =
            array.type == GP_GGUF_STRING ? 0 : array.count * item_bytes(array.type);

        if (array.data && !inside(array.data, array_bytes, bytes, length))
            return "an array outside";
        sum_bytes(array.data, array_bytes);
    }
    if (gp_gguf_strings(g, key, &strings, &count, NULL) == GP_OK) {
        if (array.type != GP_GGUF_STRING || count != array.count)
            wrong = "strings that are not the array's";
        for (uint32_t i = 0; !wrong && i < count; i++)
            if (!inside(strings[i].bytes, strings[i].length, bytes, length))
                wrong = "a string of an array outside";
            else
                sum_bytes(strings[i].bytes, strings[i].length);
        gp_mem_free(strings);
    }
    return wrong ? wrong : kinds > 1 ? "a value of two kinds" : NULL;
}

const char *test_gguf_walk(const struct gp_gguf *gguf, const void *bytes, size_t length)
{
    const char *wrong = NULL;
    char line[300];

    for (uint32_t i = 0; !wrong && i < gp_gguf_tensor_count(gguf); i++)
        wrong = walk_tensor(gp_gguf_tensor(gguf, i), bytes, length);
    for (uint32_t i = 0; !wrong && i < gp_gguf_key_count(gguf); i++) {
        struct gp_str name = gp_gguf_key(gguf, i);

        gp_gguf_describe_key(gguf, i, line, sizeof line);
        if (!inside(name.bytes, name.length, bytes, length))
            return "a key outside";
        char *key = gp_mem_copy(name.bytes, name.length);

        if (!key)
            return "no memory";
        /* A name with a zero byte in it cannot be asked for. */
        if (strlen(key) == name.length)
            wrong = gp_gguf_has(gguf, key) ? walk_key(gguf, key, bytes, length)
                                           : "a key that is not found";
        gp_mem_free(key);
    }
    return wrong;
}
