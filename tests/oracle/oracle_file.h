/* What llama.cpp expects, as committed under tests/oracle/llama, and how far other logits are
 * from it.
 *
 * A file of logits holds, for each position of some prompts, the best `top` logits, the log-sum-exp
 * of all, and the log of the probability outside the best (tools/oracle/logits_file.py
 * has the layout). What goes wrong in here fails the running test. */
#ifndef GP_TESTS_ORACLE_ORACLE_FILE_H
#define GP_TESTS_ORACLE_ORACLE_FILE_H

#include <stdint.h>

struct test_oracle_row {
    float lse;
    float log_rest;      /* -infinity when `top` is the whole vocabulary      */
    const uint32_t *ids; /* [top], best first                                 */
    const float *logits; /* [top]                                             */
};

struct test_oracle_prompt {
    const int32_t *ids; /* [count]                                                  */
    const void *rows;
    uint32_t count;
};

struct test_oracle {
    uint32_t vocab;
    uint32_t top;
    uint32_t prompt_count;
    struct test_oracle_prompt *prompts;
    void *bytes;
};

void test_oracle_open(struct test_oracle *oracle, const char *path);
void test_oracle_close(struct test_oracle *oracle);

/* What is expected after token `index`. */
struct test_oracle_row test_oracle_row(const struct test_oracle *oracle,
                                       const struct test_oracle_prompt *prompt, uint32_t index);

/* Sums over rows that were compared. */
struct test_oracle_sum {
    double kl; /* sum of KL(llama.cpp || ours); see test_oracle_compare */
    double kl_max;
    uint32_t rows;
    uint32_t same;    /* rows with llama.cpp's own best token                  */
    uint32_t decided; /* rows whose two best are more than 0.1 nat apart       */
    uint32_t decided_same;
};

/* Compare our logits [vocab] with a row. The divergence is that of the best `top` tokens and one
 * bucket for all others: never more than the full one, and tools/oracle/compare.py shows by how
 * much less. */
void test_oracle_compare(const struct test_oracle *oracle, struct test_oracle_row row,
                         const float *logits, struct test_oracle_sum *sum);

/* One value of tests/oracle/llama/perplexity.txt; windows = 0: the longest run there is, and
 * *windows says how long. */
double test_oracle_perplexity(const char *model, uint32_t *windows);

/* How many tokens llama.cpp makes of the text there, and their hash. */
void test_oracle_text_tokens(uint32_t *count, uint64_t *hash);

/* FNV-1a over the ids as little-endian int32. */
uint64_t test_oracle_hash(const int32_t *ids, uint32_t count);

#endif
