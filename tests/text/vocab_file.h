/* A reduced vocabulary as tools/oracle/reduce_vocab.py writes it (its page says what and why). */
#ifndef GP_TESTS_TEXT_VOCAB_FILE_H
#define GP_TESTS_TEXT_VOCAB_FILE_H

#include "text/tokenizer.h"

#define TEST_VOCAB_CASE_IDS 1024u

struct test_vocab_case {
    char *text;
    size_t length;
    bool special; /* special tokens count in it */
    int32_t *ids; /* of the whole vocabulary    */
    uint32_t id_count;
};

struct test_vocab {
    struct gp_vocab vocab;
    int32_t *whole_ids; /* by id here: the id in the whole vocabulary */
    struct test_vocab_case *cases;
    uint32_t case_count;
};

/* Fails the running test when the file is not as expected. */
void test_vocab_open(struct test_vocab *v, const char *path);
void test_vocab_close(struct test_vocab *v);

/* The id here of a token of the whole vocabulary. */
int32_t test_vocab_id(const struct test_vocab *v, int32_t whole_id);

#endif
