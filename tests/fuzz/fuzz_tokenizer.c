/* Fuzzes the tokenizer: hostile vocabularies, and any text under those that open.
 *
 * Input: a byte of settings, a byte that says how many changes to the built-in vocabulary follow,
 * the changes (kind, number, length, bytes), and the text.
 *
 * With libFuzzer:
 *   make CC=clang CONFIG=fuzz fuzzers
 *   build/clang-fuzz/tests/fuzz/fuzz_tokenizer -max_total_time=600 \
 *       -max_len=2048 NEW_FOLDER tests/fuzz/corpus/tokenizer
 *
 * The committed files alone: make run-fuzz-regressions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "fuzz/fuzz.h"
#include "text/small_vocab.h"
#include "text/utf8.h"

struct input {
    const uint8_t *at;
    size_t left;
};

/* What the settings and changes made of the vocabulary. */
struct world {
    struct test_small_vocab small;
    bool trusted, add_special;
    bool whole_bytes; /* each byte still has its token */
    bool nfc;
};

static struct world world;

static void expect(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "fuzz_tokenizer: %s\n", what);
    abort();
}

static uint8_t next(struct input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->at++;
}

static void change(struct world *w, uint8_t kind, uint8_t number, const char *bytes, size_t length)
{
    static const enum gp_token_type types[] = {
        GP_TOKEN_NORMAL,  GP_TOKEN_USER_DEFINED, GP_TOKEN_CONTROL,
        GP_TOKEN_UNKNOWN, GP_TOKEN_UNUSED,       GP_TOKEN_BYTE,
    };
    struct gp_vocab *v = &w->small.vocab;
    int32_t *ids[] = {&v->bos, &v->eos, &v->eot, &v->eom, &v->unk, &v->pad};

    switch (kind % 7) {
    case 0:
    case 1:
        test_small_token(&w->small, bytes, length, types[number % 6], (float)(int8_t)number);
        break;
    case 2: /* merge two tokens, of the built-in ones or of those added */
        if (length >= 2 && w->small.tokens[(uint8_t)bytes[0]].length < 60 && v->model[0] == 'g')
            test_small_merge(&w->small, (uint8_t)bytes[0],
                             (int32_t)(v->token_count - 1 - (uint8_t)bytes[1] % v->token_count));
        break;
    case 3:
        w->small.merges[v->merge_count++] = w->small.tokens[number];
        break;
    case 4:
        *ids[number % 6] = length > 0 ? (int8_t)bytes[0] + 100 : -1;
        break;
    case 5:
        w->small.types[number] = length > 0 ? bytes[0] % 8 : 0;
        w->whole_bytes = false;
        break;
    default:
        v->add_bos = number % 3 - 1;
        v->add_eos = number / 3 % 3 - 1;
        v->add_space_prefix = number / 9 % 3 - 1;
    }
}

static void read_world(struct input *in)
{
    static const char *const pres[] = {"gpt-2",   "llama-bpe",    "qwen2",          "smollm",
                                       "default", "deepseek-llm", "deepseek-coder", "no-such"};
    uint8_t settings = next(in), changes = next(in) % 64;

    if (settings & 1)
        test_small_spm(&world.small);
    else
        test_small_bpe(&world.small);
    world.small.vocab.pre = pres[settings >> 1 & 7];
    world.nfc = !(settings & 1) && (settings >> 1 & 7) == 2;
    world.trusted = settings & 16;
    world.add_special = settings & 32;
    world.small.vocab.override_pre = settings & 64;
    world.whole_bytes = true;
    for (; changes > 0; changes--) {
        uint8_t kind = next(in), number = next(in), want = next(in) % 32;
        size_t length = want < in->left ? want : in->left;

        change(&world, kind, number, (const char *)in->at, length);
        in->at += length;
        in->left -= length;
    }
}

/* The streamed text is the whole one with U+FFFD where it is not UTF-8. */
static void check_stream(const struct gp_tokenizer *t, const int32_t *ids, uint32_t count,
                         const char *whole, size_t length)
{
    size_t max = 3 * ((size_t)gp_tokenizer_bytes_max(t) + 4), at = 0;
    char *out = gp_mem_alloc(max);
    struct gp_detokenizer d;

    expect(out != NULL, "out of memory");
    gp_detokenizer_init(&d, t, true);
    for (uint32_t i = 0; i <= count; i++) {
        size_t added = i < count ? gp_detokenizer_next(&d, ids[i], out, max)
                                 : gp_detokenizer_end(&d, out, max);

        for (size_t k = 0; k < added;) {
            int n = gp_utf8_scan((const unsigned char *)out + k, added - k);
            int there = gp_utf8_scan((const unsigned char *)whole + at, length - at);
            size_t gone = there > 0 ? (size_t)there : there < 0 ? (size_t)-there : length - at;

            expect(n > 0, "a stream that is not UTF-8");
            expect(there > 0 ? n == there && memcmp(out + k, whole + at, gone) == 0
                             : n == 3 && memcmp(out + k, "\xef\xbf\xbd", 3) == 0,
                   "a stream that differs");
            k += (size_t)n;
            at += gone;
        }
    }
    expect(at == length, "a stream that ends early");
    gp_mem_free(out);
}

static void check_text(const struct gp_tokenizer *t, const char *text, size_t length)
{
    size_t third = length / 3, back_length;
    const struct gp_span spans[] = {
        {text, third, world.trusted},
        {text + third, third, !world.trusted},
        {text + 2 * third, length - 2 * third, world.trusted},
    };
    int32_t *ids, *plain;
    uint32_t count, plain_count;
    char *back;

    expect(gp_tokenize(t, spans, 3, world.add_special, &ids, &count, NULL) == GP_OK, "refused");
    for (uint32_t i = 0; i < count; i++)
        expect(ids[i] >= 0 && (uint32_t)ids[i] < gp_tokenizer_count(t), "no such id");
    gp_mem_free(ids);
    expect(gp_tokenize(t, spans, 3, false, &plain, &plain_count, NULL) == GP_OK, "refused");
    expect(gp_detokenize(t, plain, plain_count, true, &back, &back_length, NULL) == GP_OK,
           "refused");
    if (world.whole_bytes && !world.nfc)
        expect(back_length == length && memcmp(back, text, length) == 0, "another text came back");
    check_stream(t, plain, plain_count, back, back_length);
    gp_mem_free(plain);
    gp_mem_free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct input in = {bytes, length};
    struct gp_error err = {""};
    struct gp_tokenizer *t = NULL;
    uint64_t live = gp_mem_live();

    gp_log_set(false, false);
    read_world(&in);
    if (gp_tokenizer_open(&t, &world.small.vocab, &err) == GP_OK)
        check_text(t, (const char *)in.at, in.left);
    else
        expect(err.message[0] != '\0' && !t, "a refusal without words, or with a tokenizer");
    gp_tokenizer_close(t);
    expect(gp_mem_live() == live, "memory is left");
    return 0;
}
