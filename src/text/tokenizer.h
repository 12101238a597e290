/* Tokenizer: bytes <-> token ids.
 *
 * Takes plain arrays (src/model fills them from a GGUF); knows no file, no model, no server.
 * Byte-level BPE ("gpt2") and SentencePiece-style ("llama") vocabularies.  Once open a tokenizer is
 * read-only and any thread may use it.
 *
 * Words.  A *control* token (type 3) marks structure and is recognised only in text that a template
 * or a trusted caller wrote; a *user-defined* one (type 4) is recognised in any text. */
#ifndef GP_TEXT_TOKENIZER_H
#define GP_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* GGUF's tokenizer.ggml.token_type. */
enum gp_token_type {
    GP_TOKEN_NORMAL = 1,
    GP_TOKEN_UNKNOWN = 2,
    GP_TOKEN_CONTROL = 3,
    GP_TOKEN_USER_DEFINED = 4,
    GP_TOKEN_UNUSED = 5,
    GP_TOKEN_BYTE = 6,
};

#define GP_TOKEN_NONE (-1)

struct gp_text {
    const char *bytes;
    size_t length;
};

/* All that a vocabulary file says.  The arrays are read during open only and copied. */
struct gp_vocab {
    const char *model; /* "gpt2" or "llama"; others are refused by name               */
    const char *pre;   /* NULL: missing (a loud warning names what is assumed)         */
    uint32_t token_count;
    const struct gp_text *tokens; /* as the file spells them (byte-level alphabet for gpt2)       */
    const int32_t *types;         /* NULL: all normal                                             */
    const float *scores;          /* llama kind only; NULL: all 0                                 */
    uint32_t merge_count;
    const struct gp_text *merges; /* gpt2 kind: "left right", best first                          */
    int32_t bos, eos, eot, eom, unk, pad; /* ids or GP_TOKEN_NONE                                 */
    int add_bos; /* 0, 1, or -1 for the kind's default                           */
    int add_eos;
    int add_space_prefix; /* llama kind                                                   */
    bool override_pre;    /* an unknown pre-tokenizer name falls to the default splitter
                                     with a warning, instead of a refusal                         */
};

struct gp_tokenizer;

int gp_tokenizer_open(struct gp_tokenizer **out, const struct gp_vocab *vocab,
                      struct gp_error *err);
void gp_tokenizer_close(struct gp_tokenizer *t); /* NULL is fine */

/* "gpt2/smollm", for inspect. */
const char *gp_tokenizer_kind(const struct gp_tokenizer *t);
uint32_t gp_tokenizer_count(const struct gp_tokenizer *t);
int32_t gp_tokenizer_bos(const struct gp_tokenizer *t);
int32_t gp_tokenizer_eos(const struct gp_tokenizer *t);
bool gp_tokenizer_adds_bos(const struct gp_tokenizer *t); /* add_special puts BOS in front */
enum gp_token_type gp_tokenizer_type(const struct gp_tokenizer *t, int32_t id);

/* Every token that ends a generation: eos, eot, eom and the known end-of-turn spellings that the
 * vocabulary has as control tokens (public-issues B22), ascending.  The array belongs to t. */
const int32_t *gp_tokenizer_ends(const struct gp_tokenizer *t, uint32_t *count);

/* The id whose text is exactly these bytes, or GP_TOKEN_NONE. */
int32_t gp_tokenizer_find(const struct gp_tokenizer *t, const char *bytes, size_t length);

/* A piece of text and where it came from. */
struct gp_span {
    const char *bytes;
    size_t length;
    bool trusted; /* control tokens are recognised (template, or parse_special)  */
};

/* Ids of the concatenation of the spans.  Control tokens count only where they lie wholly in
 * trusted bytes; between two special tokens the text is tokenized as one piece whatever spans it
 * came from.  add_special puts BOS (and EOS, where the file asks) around, but never a second BOS.
 * Text may be valid UTF-8 or not: invalid bytes become byte tokens and survive the way back.  Where
 * a vocabulary has no token for a byte (SmolLM2: 21 bytes, none of them in plain text), its unknown
 * token stands for it, or nothing.
 * *ids belongs to the caller (gp_mem_free).  Time is O(n log n) in the bytes whatever they are. */
int gp_tokenize(const struct gp_tokenizer *t, const struct gp_span *spans, uint32_t span_count,
                bool add_special, int32_t **ids, uint32_t *id_count, struct gp_error *err);

/* The bytes of one token.  with_control: control tokens give their spelling, otherwise nothing.
 * Points into t; *length may be 0.  An id outside the vocabulary gives 0 bytes. */
const char *gp_token_bytes(const struct gp_tokenizer *t, int32_t id, bool with_control,
                           size_t *length);

/* The longest token in bytes; sizes a detokenizer's buffer. */
uint32_t gp_tokenizer_bytes_max(const struct gp_tokenizer *t);

/* ---- streaming detokenizer ----------------------------------------------------------------------
 * Turns ids into text that is valid UTF-8 at every call: half a character waits for its rest; bytes
 * that can never become a character come out as U+FFFD.  Plain data: copy it, throw it away. */
struct gp_detokenizer {
    const struct gp_tokenizer *tokenizer;
    bool with_control;
    bool started; /* llama kind: the space that it puts in front of a text, at the beginning and
                     behind every special token, is behind us; set it to continue a text */
    unsigned char held[4];
    uint32_t held_count;
};

void gp_detokenizer_init(struct gp_detokenizer *d, const struct gp_tokenizer *t, bool with_control);

/* Append id's text to out [out_bytes >= 3 * (gp_tokenizer_bytes_max() + 4)]; returns bytes
 * written. */
size_t gp_detokenizer_next(struct gp_detokenizer *d, int32_t id, char *out, size_t out_bytes);

/* What was still held back, as U+FFFD; returns bytes written. */
size_t gp_detokenizer_end(struct gp_detokenizer *d, char *out, size_t out_bytes);

/* All ids at once, raw bytes (valid UTF-8 or not).  With control tokens it is the exact inverse of
 * gp_tokenize without add_special, but for families that normalise first (Qwen), where it gives the
 * text's NFC.  gp_mem_free. */
int gp_detokenize(const struct gp_tokenizer *t, const int32_t *ids, uint32_t id_count,
                  bool with_control, char **out, size_t *out_length, struct gp_error *err);

#endif
