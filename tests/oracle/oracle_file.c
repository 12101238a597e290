#include "oracle/oracle_file.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PERPLEXITY_PATH "tests/oracle/llama/perplexity.txt"

static void *read_whole(const char *path, size_t *length)
{
    FILE *f = fopen(path, "rb");

    if (!f)
        fail_msg("%s: cannot be read", path);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    long end = ftell(f);

    assert_true(end >= 0);
    rewind(f);
    void *bytes = malloc((size_t)end + 1);

    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)end, f), end);
    fclose(f);
    *length = (size_t)end;
    return bytes;
}

static size_t row_bytes(const struct test_oracle *oracle)
{
    return 8 + (size_t)oracle->top * 8;
}

void test_oracle_open(struct test_oracle *oracle, const char *path)
{
    size_t length;
    uint8_t *bytes = read_whole(path, &length);
    const uint32_t *head = (const uint32_t *)(bytes + 8);
    size_t at = 24;

    if (length < 24 || memcmp(bytes, "GPLOGITS", 8) != 0 || head[0] != 1)
        fail_msg("%s: not a file of expected logits", path);
    *oracle = (struct test_oracle){
        .vocab = head[1], .prompt_count = head[2], .top = head[3], .bytes = bytes};
    oracle->prompts = calloc(oracle->prompt_count, sizeof(*oracle->prompts));
    assert_non_null(oracle->prompts);
    for (uint32_t i = 0; i < oracle->prompt_count; i++) {
        struct test_oracle_prompt *prompt = &oracle->prompts[i];

        assert_true(at + 4 <= length);
        memcpy(&prompt->count, bytes + at, 4);
        prompt->ids = (const int32_t *)(bytes + at + 4);
        prompt->rows = bytes + at + 4 + (size_t)prompt->count * 4;
        at += 4 + (size_t)prompt->count * (4 + row_bytes(oracle));
        assert_true(at <= length);
    }
    assert_true(at == length);
}

void test_oracle_close(struct test_oracle *oracle)
{
    free(oracle->prompts);
    free(oracle->bytes);
}

struct test_oracle_row test_oracle_row(const struct test_oracle *oracle,
                                       const struct test_oracle_prompt *prompt, uint32_t index)
{
    const uint8_t *at = (const uint8_t *)prompt->rows + index * row_bytes(oracle);
    struct test_oracle_row row;

    assert_true(index < prompt->count);
    memcpy(&row.lse, at, 4);
    memcpy(&row.log_rest, at + 4, 4);
    row.ids = (const uint32_t *)(at + 8);
    row.logits = (const float *)(at + 8 + (size_t)oracle->top * 4);
    return row;
}

/* Log-sum-exp in double over the ids that `left_out` (one byte an id, or NULL) does not name;
 * -infinity when it names all. */
static double log_sum_exp(const float *logits, uint32_t count, const uint8_t *left_out)
{
    double best = -INFINITY;
    double sum = 0;

    for (uint32_t i = 0; i < count; i++)
        if (!(left_out && left_out[i]) && logits[i] > best)
            best = logits[i];
    if (best == -INFINITY)
        return best;
    for (uint32_t i = 0; i < count; i++)
        if (!(left_out && left_out[i]))
            sum += exp(logits[i] - best);
    return best + log(sum);
}

static uint32_t best_id(const float *logits, uint32_t count)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

void test_oracle_compare(const struct test_oracle *oracle, struct test_oracle_row row,
                         const float *logits, struct test_oracle_sum *sum)
{
    uint8_t *named = calloc(oracle->vocab, 1);
    double lse = log_sum_exp(logits, oracle->vocab, NULL);
    double kl = 0;

    assert_non_null(named);
    assert_true(isfinite(lse)); /* no NaN, no infinity among ours */
    for (uint32_t i = 0; i < oracle->top; i++) {
        double log_p = (double)row.logits[i] - row.lse;
        double log_q = logits[row.ids[i]] - lse;

        assert_true(row.ids[i] < oracle->vocab);
        named[row.ids[i]] = 1;
        kl += exp(log_p) * (log_p - log_q);
    }
    if (oracle->top < oracle->vocab) {
        double log_q = log_sum_exp(logits, oracle->vocab, named) - lse;

        kl += exp(row.log_rest) * (row.log_rest - log_q);
    }
    free(named);

    bool same = best_id(logits, oracle->vocab) == row.ids[0];
    bool decided = row.logits[0] - row.logits[1] > 0.1f;

    sum->kl += kl;
    sum->kl_max = fmax(sum->kl_max, kl);
    sum->rows++;
    sum->same += same;
    sum->decided += decided;
    sum->decided_same += decided && same;
}

double test_oracle_perplexity(const char *model, uint32_t *windows)
{
    FILE *f = fopen(PERPLEXITY_PATH, "r");
    char line[256];
    char name[64];
    uint32_t row_windows;
    uint32_t best_windows = 0;
    double value;
    double best = 0;

    if (!f)
        fail_msg("%s: cannot be read", PERPLEXITY_PATH);
    while (fgets(line, sizeof(line), f))
        if (sscanf(line, "%63s %" SCNu32 " %lf", name, &row_windows, &value) == 3 &&
            strcmp(name, model) == 0 && row_windows > best_windows &&
            (*windows == 0 || row_windows == *windows)) {
            best_windows = row_windows;
            best = value;
        }
    fclose(f);
    if (best_windows == 0)
        fail_msg("%s: no value of %s over %u windows", PERPLEXITY_PATH, model, *windows);
    *windows = best_windows;
    return best;
}

void test_oracle_text_tokens(uint32_t *count, uint64_t *hash)
{
    FILE *f = fopen(PERPLEXITY_PATH, "r");
    char line[256];
    bool found = false;

    if (!f)
        fail_msg("%s: cannot be read", PERPLEXITY_PATH);
    while (!found && fgets(line, sizeof(line), f))
        found = sscanf(line, "tokens %" SCNu32 " %" SCNx64, count, hash) == 2;
    fclose(f);
    assert_true(found);
}

uint64_t test_oracle_hash(const int32_t *ids, uint32_t count)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (uint32_t i = 0; i < count; i++)
        for (uint32_t shift = 0; shift < 32; shift += 8)
            hash = (hash ^ (((uint32_t)ids[i] >> shift) & 0xff)) * UINT64_C(0x100000001b3);
    return hash;
}
