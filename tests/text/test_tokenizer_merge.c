/* The merge loop against a model that looks at every pair every time, on random small
 * vocabularies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "text/small_vocab.h"
#include "text/tokenizer.h"

#define TEXT_BYTES 60u

static uint64_t seed = 1;
static struct test_small_vocab small;

/* The model: symbols as ids (BPE), or as stretches of the text (SentencePiece). */
struct symbols {
    int32_t ids[TEXT_BYTES + 1];
    struct gp_text texts[TEXT_BYTES + 1];
    uint32_t count;
};

static int32_t id_of(struct gp_text text)
{
    for (uint32_t i = 0; i < small.vocab.token_count; i++)
        if (small.types[i] == GP_TOKEN_NORMAL && small.tokens[i].length == text.length &&
            memcmp(small.tokens[i].bytes, text.bytes, text.length) == 0)
            return (int32_t)i;
    return GP_TOKEN_NONE;
}

/* The place of the merge "a b" in the list, or -1. */
static int merge_rank(struct gp_text a, struct gp_text b)
{
    for (uint32_t i = 0; i < small.vocab.merge_count; i++) {
        struct gp_text m = small.merges[i];

        if (m.length == a.length + 1 + b.length && memcmp(m.bytes, a.bytes, a.length) == 0 &&
            memcmp(m.bytes + a.length + 1, b.bytes, b.length) == 0)
            return (int)i;
    }
    return -1;
}

/* Is joining symbol i with the next one better than what was best?  Less is better. */
static bool joins(const struct symbols *s, uint32_t i, bool spm, double *best)
{
    struct gp_text joined = {s->texts[i].bytes, s->texts[i].length + s->texts[i + 1].length};
    double cost;

    if (spm) {
        int32_t id = id_of(joined);

        if (id < 0)
            return false;
        cost = -(double)small.scores[id];
    } else {
        int rank = merge_rank(s->texts[i], s->texts[i + 1]);

        if (rank < 0)
            return false;
        cost = rank;
    }
    if (cost >= *best)
        return false;
    *best = cost;
    return true;
}

/* Text in the spelling of the vocabulary, one byte a character. */
static void merge_slowly(struct symbols *s, const char *text, size_t length, bool spm)
{
    s->count = (uint32_t)length;
    for (uint32_t i = 0; i < s->count; i++)
        s->texts[i] = (struct gp_text){text + i, 1};
    for (;;) {
        double best = 1e300;
        uint32_t at = s->count;

        for (uint32_t i = 0; i + 1 < s->count; i++)
            if (joins(s, i, spm, &best))
                at = i;
        if (at == s->count)
            break;
        s->texts[at].length += s->texts[at + 1].length;
        s->count--;
        memmove(&s->texts[at + 1], &s->texts[at + 2], (s->count - at - 1) * sizeof *s->texts);
    }
}

static size_t random_text(struct gp_rng *rng, char *text, const char *letters)
{
    size_t length = gp_rng_below(rng, TEXT_BYTES), kinds = strlen(letters);

    for (size_t i = 0; i < length; i++)
        text[i] = letters[gp_rng_below(rng, (uint32_t)kinds)];
    return length;
}

static void assert_same(const struct gp_tokenizer *t, const char *text, size_t length,
                        const int32_t *want, uint32_t want_count)
{
    struct gp_span span = {text, length, false};
    int32_t *ids;
    uint32_t count;

    assert_int_equal(gp_tokenize(t, &span, 1, false, &ids, &count, NULL), GP_OK);
    bool same = count == want_count && memcmp(ids, want, count * sizeof *ids) == 0;

    if (!same)
        fail_msg("GP_SEED %llu: '%.*s': %u ids, the model has %u", (unsigned long long)seed,
                 (int)length, text, count, want_count);
    gp_mem_free(ids);
}

static void bpe_merges_as_the_model(void **state)
{
    struct gp_rng rng = {seed};

    (void)state;
    for (unsigned round = 0; round < 100; round++) {
        struct gp_tokenizer *t;

        test_small_bpe(&small);
        int32_t known[40] = {'a', 'b', 'c'};
        uint32_t known_count = 3;

        for (; known_count < 40; known_count++) {
            int32_t left = known[gp_rng_below(&rng, known_count)];

            known[known_count] =
                test_small_merge(&small, left, known[gp_rng_below(&rng, known_count)]);
        }
        assert_int_equal(gp_tokenizer_open(&t, &small.vocab, NULL), GP_OK);
        for (unsigned i = 0; i < 50; i++) {
            char text[TEXT_BYTES];
            struct symbols s;
            size_t length = random_text(&rng, text, "abc");

            merge_slowly(&s, text, length, false);
            for (uint32_t k = 0; k < s.count; k++)
                s.ids[k] = id_of(s.texts[k]);
            assert_same(t, text, length, s.ids, s.count);
        }
        gp_tokenizer_close(t);
    }
}

/* Tokens of two to five letters.  A space may stand anywhere in them, or in front only. */
static void add_words(struct gp_rng *rng, bool anywhere)
{
    test_small_token(&small, "a", 1, GP_TOKEN_NORMAL, -3);
    test_small_token(&small, "b", 1, GP_TOKEN_NORMAL, -3);
    test_small_token(&small, " ", 1, GP_TOKEN_NORMAL, -3);
    for (unsigned i = 0; i < 40; i++) {
        char word[5];
        size_t length = 2 + gp_rng_below(rng, 4);

        for (size_t k = 0; k < length; k++)
            word[k] = "ab "[gp_rng_below(rng, anywhere || k == 0 ? 3 : 2)];
        if (id_of((struct gp_text){word, length}) == GP_TOKEN_NONE)
            test_small_token(&small, word, length, GP_TOKEN_NORMAL, (float)gp_rng_below(rng, 8));
    }
}

/* The letter c is no token, and comes out as a byte.  Without the space in front. */
static void spm_merges_as_the_model(void **state)
{
    struct gp_rng rng = {seed};

    (void)state;
    for (unsigned round = 0; round < 100; round++) {
        struct gp_tokenizer *t;

        test_small_spm(&small);
        small.vocab.add_space_prefix = 0;
        add_words(&rng, round % 2 == 0);
        assert_int_equal(gp_tokenizer_open(&t, &small.vocab, NULL), GP_OK);
        for (unsigned i = 0; i < 50; i++) {
            char text[TEXT_BYTES];
            struct symbols s;
            size_t length = random_text(&rng, text, "ab abc ");

            merge_slowly(&s, text, length, true);
            for (uint32_t k = 0; k < s.count; k++) {
                s.ids[k] = id_of(s.texts[k]);
                if (s.ids[k] < 0)
                    s.ids[k] = 3 + 'c';
            }
            assert_same(t, text, length, s.ids, s.count);
        }
        gp_tokenizer_close(t);
    }
}

int main(void)
{
    const char *given = getenv("GP_SEED");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bpe_merges_as_the_model),
        cmocka_unit_test(spm_merges_as_the_model),
    };

    if (given)
        seed = strtoull(given, NULL, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
