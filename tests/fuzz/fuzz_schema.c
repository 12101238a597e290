/* Fuzzes the schema compiler: the bytes are a schema.  What compiles is followed for a while over a
 * vocabulary of bytes, choosing what a hash of the input says: there is always a way on, and a text
 * that is finished is JSON.
 *
 * With libFuzzer:
 *   make CC=clang CONFIG=fuzz fuzzers
 *   build/clang-fuzz/tests/fuzz/fuzz_schema -max_total_time=600 \
 *       -dict=tests/fuzz/schema.dict -max_len=4096 NEW_FOLDER tests/fuzz/corpus/schema
 *
 * The committed files alone: make run-fuzz-regressions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "base/rng.h"
#include "fuzz/fuzz.h"
#include "text/grammar/matcher.h"
#include "text/small_vocab.h"

#define STEPS 200u

static struct gp_tokenizer *tokenizer;
static struct gp_lexicon *lexicon;

static void expect(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "fuzz_schema: %s\n", what);
    abort();
}

static void open_vocabulary(void)
{
    static struct test_small_vocab vocab;
    static const char *const words[] = {"{\"", "\":", "\",\"", "},", "[[", "\\u00", "\xc3\xa9"};

    if (tokenizer)
        return;
    test_small_bpe(&vocab);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        int32_t id = (uint8_t)words[i][0];

        for (size_t k = 1; words[i][k]; k++)
            id = test_small_merge(&vocab, id, (uint8_t)words[i][k]);
    }
    expect(!gp_tokenizer_open(&tokenizer, &vocab.vocab, NULL), "no tokenizer");
    expect(!gp_lexicon_open(&lexicon, tokenizer, NULL), "no lexicon");
}

/* Some token that is allowed; brackets and quotes that close, when it is late. */
static int32_t choose(const uint64_t *mask, struct gp_rng *rng, bool late)
{
    static const char closing[] = "\"}]:,";
    uint32_t vocab = lexicon->vocab, id = gp_rng_below(rng, vocab);

    for (unsigned i = 0; late && closing[i]; i++)
        if (mask[closing[i] / 64] >> (closing[i] % 64) & 1)
            return closing[i];
    for (uint32_t tries = 0; tries < vocab; tries++, id = (id + 1) % vocab)
        if (mask[id / 64] >> (id % 64) & 1)
            return (int32_t)id;
    return GP_TOKEN_NONE;
}

static void check_text(const char *text, size_t length)
{
    json_t *json = json_loadb(text, length, JSON_DECODE_ANY, NULL);

    expect(json != NULL, "a finished text that is no JSON");
    json_decref(json);
}

static void follow(struct gp_matcher *matcher, struct gp_rng rng)
{
    char text[STEPS * 8];
    size_t length = 0;

    for (unsigned step = 0; step < STEPS; step++) {
        bool ends = gp_matcher_may_end(matcher, 0);
        int32_t id = choose(gp_matcher_mask(matcher, 0), &rng, step > STEPS / 2);
        size_t bytes;

        expect(ends || id != GP_TOKEN_NONE, "a dead end");
        expect(gp_matcher_must_end(matcher, 0) == (id == GP_TOKEN_NONE), "an end that is none");
        if (ends)
            check_text(text, length);
        if (id == GP_TOKEN_NONE)
            return;
        const char *word = gp_token_bytes(tokenizer, id, false, &bytes);

        memcpy(text + length, word, bytes);
        length += bytes;
        gp_matcher_take(matcher, 0, word, bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    open_vocabulary();
    uint64_t live = gp_mem_live(), seed = length;
    char *schema = gp_mem_copy((const char *)bytes, length);
    const struct gp_grammar_form form = {"", schema, ""};
    const struct gp_grammar_source source = {.forms = &form, .form_count = 1};
    struct gp_grammar *grammar = NULL;
    struct gp_matcher *matcher;
    struct gp_error err = {""};

    expect(schema != NULL, "no memory");
    int rc = gp_grammar_open(&grammar, &source, lexicon->spellable, &err);

    expect(rc == GP_OK || (!grammar && err.message[0]), "a refusal without words");
    for (size_t i = 0; i < length; i++)
        seed = seed * 31 + bytes[i];
    if (grammar && !gp_matcher_open(&matcher, grammar, lexicon, 1, &err)) {
        follow(matcher, (struct gp_rng){seed});
        gp_matcher_close(matcher);
    }
    gp_grammar_close(grammar);
    gp_mem_free(schema);
    expect(gp_mem_live() == live, "memory is left");
    return 0;
}
