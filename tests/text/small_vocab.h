/* Vocabularies made by hand, small enough to print. */
#ifndef GP_TESTS_TEXT_SMALL_VOCAB_H
#define GP_TESTS_TEXT_SMALL_VOCAB_H

#include "text/tokenizer.h"

#define TEST_SMALL_TOKENS 1024u

struct test_small_vocab {
    struct gp_vocab vocab;
    struct gp_text tokens[TEST_SMALL_TOKENS], merges[TEST_SMALL_TOKENS];
    int32_t types[TEST_SMALL_TOKENS];
    float scores[TEST_SMALL_TOKENS];
    char bytes[65536]; /* of tokens and merges */
    size_t bytes_used;
};

/* The 256 bytes, spelled in the byte-level alphabet: id = byte.  pre is "gpt-2". */
void test_small_bpe(struct test_small_vocab *v);

/* <unk>, <s>, </s>, then the 256 byte tokens: id = 3 + byte. */
void test_small_spm(struct test_small_vocab *v);

/* The new token's id. */
int32_t test_small_token(struct test_small_vocab *v, const char *spelling, size_t length,
                         enum gp_token_type type, float score);

/* Joins two tokens; the result becomes a token if there is none.  Returns its id. */
int32_t test_small_merge(struct test_small_vocab *v, int32_t left, int32_t right);

#endif
