/* What the files of the GGUF reader share; for src/model/gguf_*.c only. */
#ifndef GP_MODEL_GGUF_INTERNAL_H
#define GP_MODEL_GGUF_INTERNAL_H

#include "model/gguf.h"

/* Bounds on a header.  The largest files of the field (a million strings of vocabulary and
 * merges, a few thousand tensors) stay well inside; a hostile file of any size costs no more
 * than this. */
#define GGUF_HEADER_BYTES_MAX (64u << 20)
#define GGUF_KEYS_MAX         65536u
#define GGUF_TENSORS_MAX      65536u
#define GGUF_STRINGS_MAX      (2u * GP_LIMIT_VOCAB) /* of one array; merges outnumber tokens */
#define GGUF_KEY_BYTES_MAX    65535u
#define GGUF_NAME_BYTES_MAX   63u /* ggml keeps tensor names in 64 bytes with their zero */
#define GGUF_ALIGNMENT        32u /* when general.alignment is absent; also the least    */
#define GGUF_ALIGNMENT_MAX    65536u

#define GGUF_VALUE_TYPES 13u

/* A name of the file's for a message: at most this much of it, so that the reason still fits. */
#define GGUF_SHOWN(s) ((s).length < 100 ? (int)(s).length : 100), (s).bytes

struct gguf_key {
    struct gp_str name;
    enum gp_gguf_value type;
    enum gp_gguf_value item_type; /* of an array                            */
    uint64_t count;               /* of an array                            */
    const uint8_t *value;         /* first byte of the value or first item  */
};

/* Names in order, for finding one by halving. */
struct gguf_index {
    struct gp_str name;
    uint32_t item;
};

struct gp_gguf {
    const uint8_t *bytes;
    uint64_t length;
    bool mapped;
    uint32_t version;
    uint64_t data_offset;
    uint32_t key_count;
    uint32_t tensor_count;
    struct gguf_key *keys;
    struct gguf_index *key_index;
    struct gp_gguf_tensor *tensors;
    struct gguf_index *tensor_index;
};

/* Bytes of one value of a fixed-size type; 0 for strings and arrays. */
uint32_t gp_gguf_value_bytes(enum gp_gguf_value type);
const char *gp_gguf_value_name(enum gp_gguf_value type);

const struct gguf_key *gp_gguf_find_key(const struct gp_gguf *gguf, const char *key);

/* Read what the rules above leave open; the file is little-endian and nothing in it is aligned. */
uint32_t gp_gguf_load_u32(const uint8_t *at);
uint64_t gp_gguf_load_u64(const uint8_t *at);

/* Bytes of a tensor; refuses, without naming the tensor, a type that is not supported, a
 * dimension of 0, a row that is not whole blocks, and a size that does not fit. */
int gp_gguf_tensor_bytes(uint32_t type, uint32_t dim_count, const uint64_t *dims, uint64_t *out,
                         struct gp_error *err);

#endif
