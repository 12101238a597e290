/* What an open GGUF file hands out.  gguf_read.c has checked it all. */
#include "model/gguf_internal.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

static const struct {
    uint8_t bytes;
    const char *name;
} value_types[GGUF_VALUE_TYPES] = {
    [GP_GGUF_U8] = {1, "u8"},       [GP_GGUF_I8] = {1, "i8"},     [GP_GGUF_U16] = {2, "u16"},
    [GP_GGUF_I16] = {2, "i16"},     [GP_GGUF_U32] = {4, "u32"},   [GP_GGUF_I32] = {4, "i32"},
    [GP_GGUF_F32] = {4, "f32"},     [GP_GGUF_BOOL] = {1, "bool"}, [GP_GGUF_STRING] = {0, "str"},
    [GP_GGUF_ARRAY] = {0, "array"}, [GP_GGUF_U64] = {8, "u64"},   [GP_GGUF_I64] = {8, "i64"},
    [GP_GGUF_F64] = {8, "f64"},
};

uint32_t gp_gguf_value_bytes(enum gp_gguf_value type)
{
    return value_types[type].bytes;
}

const char *gp_gguf_value_name(enum gp_gguf_value type)
{
    return value_types[type].name;
}

uint32_t gp_gguf_version(const struct gp_gguf *gguf)
{
    return gguf->version;
}

uint64_t gp_gguf_file_bytes(const struct gp_gguf *gguf)
{
    return gguf->length;
}

uint32_t gp_gguf_tensor_count(const struct gp_gguf *gguf)
{
    return gguf->tensor_count;
}

const struct gp_gguf_tensor *gp_gguf_tensor(const struct gp_gguf *gguf, uint32_t index)
{
    gp_assert(index < gguf->tensor_count);
    return &gguf->tensors[index];
}

uint32_t gp_gguf_key_count(const struct gp_gguf *gguf)
{
    return gguf->key_count;
}

struct gp_str gp_gguf_key(const struct gp_gguf *gguf, uint32_t index)
{
    gp_assert(index < gguf->key_count);
    return gguf->keys[index].name;
}

bool gp_gguf_has(const struct gp_gguf *gguf, const char *key)
{
    return gp_gguf_find_key(gguf, key) != NULL;
}

/* ---- values ---- */

/* An integer of any width as its sign and size; false when the type is no integer. */
static bool load_integer(enum gp_gguf_value type, const uint8_t *at, bool *negative, uint64_t *out)
{
    int64_t value;

    *negative = false;
    switch (type) {
    case GP_GGUF_U8:
        *out = at[0];
        return true;
    case GP_GGUF_U16:
        *out = (uint64_t)at[0] | (uint64_t)at[1] << 8;
        return true;
    case GP_GGUF_U32:
        *out = gp_gguf_load_u32(at);
        return true;
    case GP_GGUF_U64:
        *out = gp_gguf_load_u64(at);
        return true;
    case GP_GGUF_I8:
        value = (int8_t)at[0];
        break;
    case GP_GGUF_I16:
        value = (int16_t)(at[0] | at[1] << 8);
        break;
    case GP_GGUF_I32:
        value = (int32_t)gp_gguf_load_u32(at);
        break;
    case GP_GGUF_I64:
        value = (int64_t)gp_gguf_load_u64(at);
        break;
    default:
        return false;
    }
    *negative = value < 0;
    *out = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    return true;
}

static double load_float(enum gp_gguf_value type, const uint8_t *at)
{
    float single;
    double value;

    if (type == GP_GGUF_F32) {
        memcpy(&single, at, sizeof single);
        return single;
    }
    memcpy(&value, at, sizeof value);
    return value;
}

static struct gp_str load_string(const uint8_t *at)
{
    return (struct gp_str){(const char *)at + 8, (size_t)gp_gguf_load_u64(at)};
}

static int wrong_type(const char *name, const struct gguf_key *key, const char *wanted,
                      struct gp_error *err)
{
    return gp_fail(err, GP_ECORRUPT, "%s: the value is of type %s, %s was expected", name,
                   gp_gguf_value_name(key->type), wanted);
}

static int absent(const char *name, struct gp_error *err)
{
    return gp_fail(err, GP_EINVAL, "%s: the key is missing", name);
}

static int get_u32(const struct gguf_key *key, const char *name, uint32_t *out,
                   struct gp_error *err)
{
    bool negative;
    uint64_t value;

    if (!load_integer(key->type, key->value, &negative, &value))
        return wrong_type(name, key, "an integer", err);
    if (negative || value > UINT32_MAX)
        return gp_fail(err, GP_ECORRUPT, "%s: %s%" PRIu64 " is out of range", name,
                       negative ? "-" : "", value);
    *out = (uint32_t)value;
    return GP_OK;
}

static int get_f32(const struct gguf_key *key, const char *name, float *out, struct gp_error *err)
{
    if (key->type != GP_GGUF_F32 && key->type != GP_GGUF_F64)
        return wrong_type(name, key, "a float", err);
    double value = load_float(key->type, key->value);

    if (isfinite(value) && fabs(value) > FLT_MAX)
        return gp_fail(err, GP_ECORRUPT, "%s: %g is out of range", name, value);
    *out = (float)value;
    return GP_OK;
}

static int get_str(const struct gguf_key *key, const char *name, struct gp_str *out,
                   struct gp_error *err)
{
    if (key->type != GP_GGUF_STRING)
        return wrong_type(name, key, "a string", err);
    *out = load_string(key->value);
    return GP_OK;
}

int gp_gguf_u32(const struct gp_gguf *gguf, const char *key, uint32_t *out, struct gp_error *err)
{
    const struct gguf_key *found = gp_gguf_find_key(gguf, key);

    return found ? get_u32(found, key, out, err) : absent(key, err);
}

int gp_gguf_f32(const struct gp_gguf *gguf, const char *key, float *out, struct gp_error *err)
{
    const struct gguf_key *found = gp_gguf_find_key(gguf, key);

    return found ? get_f32(found, key, out, err) : absent(key, err);
}

int gp_gguf_str(const struct gp_gguf *gguf, const char *key, struct gp_str *out,
                struct gp_error *err)
{
    const struct gguf_key *found = gp_gguf_find_key(gguf, key);

    return found ? get_str(found, key, out, err) : absent(key, err);
}

int gp_gguf_u32_or(const struct gp_gguf *gguf, const char *key, uint32_t *out, struct gp_error *err)
{
    const struct gguf_key *found = gp_gguf_find_key(gguf, key);

    return found ? get_u32(found, key, out, err) : GP_OK;
}

int gp_gguf_f32_or(const struct gp_gguf *gguf, const char *key, float *out, struct gp_error *err)
{
    const struct gguf_key *found = gp_gguf_find_key(gguf, key);

    return found ? get_f32(found, key, out, err) : GP_OK;
}

int gp_gguf_bool_or(const struct gp_gguf *gguf, const char *key, bool *out, struct gp_error *err)
{
    const struct gguf_key *found = gp_gguf_find_key(gguf, key);

    if (!found)
        return GP_OK;
    if (found->type != GP_GGUF_BOOL)
        return wrong_type(key, found, "a bool", err);
    *out = found->value[0] != 0;
    return GP_OK;
}

int gp_gguf_str_or(const struct gp_gguf *gguf, const char *key, struct gp_str *out,
                   struct gp_error *err)
{
    const struct gguf_key *found = gp_gguf_find_key(gguf, key);

    return found ? get_str(found, key, out, err) : GP_OK;
}

/* ---- arrays ---- */

int gp_gguf_array(const struct gp_gguf *gguf, const char *key, struct gp_gguf_array *out,
                  struct gp_error *err)
{
    const struct gguf_key *found = gp_gguf_find_key(gguf, key);

    if (!found)
        return absent(key, err);
    if (found->type != GP_GGUF_ARRAY)
        return wrong_type(key, found, "an array", err);
    *out = (struct gp_gguf_array){
        .type = found->item_type,
        .count = found->count,
        .data = found->item_type == GP_GGUF_STRING ? NULL : found->value,
    };
    return GP_OK;
}

int gp_gguf_strings(const struct gp_gguf *gguf, const char *key, struct gp_str **out,
                    uint32_t *count, struct gp_error *err)
{
    const struct gguf_key *found = gp_gguf_find_key(gguf, key);

    if (!found)
        return absent(key, err);
    if (found->type != GP_GGUF_ARRAY)
        return wrong_type(key, found, "an array of strings", err);
    if (found->item_type != GP_GGUF_STRING)
        return gp_fail(err, GP_ECORRUPT, "%s: an array of %s, strings were expected", key,
                       gp_gguf_value_name(found->item_type));
    struct gp_str *strings = gp_mem_alloc_array(found->count, sizeof *strings);

    if (!strings)
        return gp_fail(err, GP_ENOMEM, "%s: no memory for %" PRIu64 " strings", key, found->count);
    const uint8_t *at = found->value;

    for (uint64_t i = 0; i < found->count; i++) {
        strings[i] = load_string(at);
        at += 8 + strings[i].length;
    }
    *out = strings;
    *count = (uint32_t)found->count;
    return GP_OK;
}

/* ---- inspect ---- */

/* How many bytes of text are shown: at most `max`, cut between characters. */
static int shown_bytes(struct gp_str text, size_t max)
{
    if (text.length <= max)
        return (int)text.length;
    while (max > 0 && ((unsigned char)text.bytes[max] & 0xc0) == 0x80)
        max--;
    return (int)max;
}

void gp_gguf_describe_key(const struct gp_gguf *gguf, uint32_t index, char *out, size_t out_bytes)
{
    gp_assert(index < gguf->key_count && out_bytes > 0);
    const struct gguf_key *key = &gguf->keys[index];
    const char *type = gp_gguf_value_name(key->type);
    int name_bytes = shown_bytes(key->name, 200);
    const char *name = key->name.bytes;
    bool negative;
    uint64_t number;

    if (key->type == GP_GGUF_ARRAY) {
        snprintf(out, out_bytes, "%.*s %s[%" PRIu64 "]", name_bytes, name,
                 gp_gguf_value_name(key->item_type), key->count);
    } else if (key->type == GP_GGUF_STRING) {
        struct gp_str text = load_string(key->value);
        int bytes = shown_bytes(text, 100);

        snprintf(out, out_bytes, "%.*s %s %.*s%s", name_bytes, name, type, bytes, text.bytes,
                 (size_t)bytes < text.length ? "..." : "");
    } else if (load_integer(key->type, key->value, &negative, &number)) {
        snprintf(out, out_bytes, "%.*s %s %s%" PRIu64, name_bytes, name, type, negative ? "-" : "",
                 number);
    } else if (key->type == GP_GGUF_BOOL) {
        snprintf(out, out_bytes, "%.*s %s %s", name_bytes, name, type,
                 key->value[0] ? "true" : "false");
    } else {
        snprintf(out, out_bytes, "%.*s %s %.9g", name_bytes, name, type,
                 load_float(key->type, key->value));
    }
    gp_text_clean(out);
}
