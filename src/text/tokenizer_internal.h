/* What the tokenizer's own files share and no other file sees.
 *
 *   tokenizer.c          open, close, questions about the vocabulary
 *   tokenizer_vocab.c    spellings -> bytes, merges, look-ups
 *   tokenizer_encode.c   spans -> special tokens and texts between them -> ids
 *   tokenizer_split.c    pre-tokenizers: text -> words
 *   tokenizer_text.c     normalisation, and a stand-in for text that is not UTF-8
 *   tokenizer_merge.c    word -> ids
 *   tokenizer_decode.c   ids -> text
 *   tokenizer_map.c      look-ups */
#ifndef GP_TEXT_TOKENIZER_INTERNAL_H
#define GP_TEXT_TOKENIZER_INTERNAL_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "text/tokenizer.h"
#include "text/tokenizer_map.h"

/* A special token is looked for at every byte of a text, so its length bounds the work of a
 * byte. */
#define GP_TOKENIZER_SPECIAL_BYTES 1024u

/* Positions in a text and in the merge loop's heap are 32 bits, also after normalisation, which can
 * make a text three times as long. */
#define GP_TOKENIZER_TEXT_BYTES (1u << 28)

#define GP_PRE_PATTERNS 6u

/* A pre-tokenizer: a text is cut at every match of the first pattern, the parts (matches and what
 * lies between them) at every match of the second, and so on. */
struct gp_pre {
    const char *name;
    const char *const *patterns; /* ends with NULL */
    bool ignore_merges; /* a word that is a token as a whole is that token, whatever merges say */
    bool add_bos;       /* where the file does not say                                          */
    bool nfc;           /* the family's published tokenizer normalises first                    */
};

const struct gp_pre *gp_pre_find(const char *name); /* NULL when unknown */

struct gp_splitter {
    pcre2_general_context *memory;
    pcre2_match_context *limits;
    pcre2_code *patterns[GP_PRE_PATTERNS + 1]; /* ends with NULL */
};

struct gp_tokenizer {
    char kind[32];
    bool spm;                 /* SentencePiece-style, else byte-level BPE */
    const struct gp_pre *pre; /* BPE only                                 */
    uint32_t count;
    uint8_t *types;
    struct gp_pieces pieces;  /* what each token stands for               */
    struct gp_wordmap words;  /* tokens that text can become              */
    struct gp_pairmap merges; /* BPE                                      */
    uint32_t *ranks;          /* SPM: by id, the best score has the least */
    struct gp_trie specials;  /* control, unknown, user-defined           */
    struct gp_splitter splitter;
    int32_t byte_ids[256];
    int32_t bos, eos, unk; /* unk only if its type says so */
    bool add_bos, add_eos, space_prefix;
    bool spaces_lead; /* SPM: no token has a space behind anything but spaces */
    int32_t *ends;
    uint32_t end_count;
    uint32_t bytes_max;
};

int gp_tokenizer_load(struct gp_tokenizer *t, const struct gp_vocab *vocab, struct gp_error *err);

int gp_splitter_open(struct gp_splitter *s, const struct gp_pre *pre, struct gp_error *err);
void gp_splitter_close(struct gp_splitter *s); /* all zero is fine */

/* A text's way through the splitter.  word() gets offsets into the text and may stop the walk with
 * a status. */
struct gp_split {
    const struct gp_splitter *splitter;
    pcre2_match_data *match;
    const char *text; /* valid UTF-8 */
    int (*word)(void *ctx, size_t begin, size_t end);
    void *ctx;
    struct gp_error *err;
};

pcre2_match_data *gp_splitter_match(const struct gp_splitter *s); /* pcre2_match_data_free */
int gp_split_run(const struct gp_split *split, size_t length);

/* A buffer that grows; its bytes are kept.  Starts all zero. */
struct gp_buffer {
    void *block;
    size_t bytes;
};

bool gp_buffer_reserve(struct gp_buffer *buffer, size_t bytes);

/* Whether text might not be NFC already (a quick look, never wrong with "no"). */
bool gp_text_may_change(const char *text, size_t length);

/* NFC of text into out; runs of bytes that are not UTF-8 stay as they are. */
bool gp_text_nfc(const char *text, size_t length, struct gp_buffer *out, size_t *out_length);

bool gp_text_valid(const char *text, size_t length);

/* A text of the same length that is valid UTF-8: each wrong byte becomes a control character, which
 * every pre-tokenizer here treats as it would treat U+FFFD. */
bool gp_text_shadow(const char *text, size_t length, struct gp_buffer *out);

/* The merge loop's working memory, kept from word to word, and its output. */
struct gp_merger {
    const struct gp_tokenizer *tokenizer;
    struct gp_buffer symbols, heap, ids;
    uint32_t heap_count, id_count;
    struct gp_error *err;
};

int gp_merger_push(struct gp_merger *m, int32_t id);

/* A word's ids are appended. */
int gp_merger_word(struct gp_merger *m, const char *word, size_t length);

static inline bool gp_token_is_special(uint8_t type)
{
    return type == GP_TOKEN_CONTROL || type == GP_TOKEN_UNKNOWN || type == GP_TOKEN_USER_DEFINED;
}

#endif
