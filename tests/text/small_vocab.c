#include "text/small_vocab.h"

#include "base/assert.h"

#include <stdio.h>
#include <string.h>

static char *keep(struct test_small_vocab *v, const char *bytes, size_t length)
{
    char *kept = v->bytes + v->bytes_used;

    gp_assert(length <= sizeof v->bytes - v->bytes_used);
    memcpy(kept, bytes, length);
    v->bytes_used += length;
    return kept;
}

static void begin(struct test_small_vocab *v, const char *model)
{
    memset(v, 0, sizeof *v);
    v->vocab = (struct gp_vocab){
        .model = model,
        .tokens = v->tokens,
        .types = v->types,
        .scores = v->scores,
        .merges = v->merges,
        .add_bos = -1,
        .add_eos = -1,
        .add_space_prefix = -1,
    };
    v->vocab.bos = v->vocab.eos = v->vocab.eot = GP_TOKEN_NONE;
    v->vocab.eom = v->vocab.unk = v->vocab.pad = GP_TOKEN_NONE;
}

int32_t test_small_token(struct test_small_vocab *v, const char *spelling, size_t length,
                         enum gp_token_type type, float score)
{
    uint32_t id = v->vocab.token_count++;

    gp_assert(id < TEST_SMALL_TOKENS);
    v->tokens[id] = (struct gp_text){keep(v, spelling, length), length};
    v->types[id] = (int32_t)type;
    v->scores[id] = score;
    return (int32_t)id;
}

void test_small_bpe(struct test_small_vocab *v)
{
    begin(v, "gpt2");
    v->vocab.pre = "gpt-2";
    for (unsigned byte = 0, next = 0x100; byte < 256; byte++) {
        bool plain = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
        unsigned code = plain ? byte : next++;
        char spelling[2] = {(char)code};

        if (code >= 0x80) {
            spelling[0] = (char)(0xc0 | code >> 6);
            spelling[1] = (char)(0x80 | (code & 0x3f));
        }
        test_small_token(v, spelling, code < 0x80 ? 1 : 2, GP_TOKEN_NORMAL, 0);
    }
}

void test_small_spm(struct test_small_vocab *v)
{
    begin(v, "llama");
    v->vocab.unk = test_small_token(v, "<unk>", 5, GP_TOKEN_UNKNOWN, 0);
    v->vocab.bos = test_small_token(v, "<s>", 3, GP_TOKEN_CONTROL, 0);
    v->vocab.eos = test_small_token(v, "</s>", 4, GP_TOKEN_CONTROL, 0);
    for (unsigned byte = 0; byte < 256; byte++) {
        char spelling[7];

        snprintf(spelling, sizeof spelling, "<0x%02X>", byte);
        test_small_token(v, spelling, 6, GP_TOKEN_BYTE, 0);
    }
}

int32_t test_small_merge(struct test_small_vocab *v, int32_t left, int32_t right)
{
    struct gp_text a = v->tokens[left], b = v->tokens[right];
    char whole[256];

    gp_assert(a.length + b.length < sizeof whole);
    memcpy(whole, a.bytes, a.length);
    whole[a.length] = ' ';
    memcpy(whole + a.length + 1, b.bytes, b.length);
    gp_assert(v->vocab.merge_count < TEST_SMALL_TOKENS);
    v->merges[v->vocab.merge_count++] = (struct gp_text){
        keep(v, whole, a.length + 1 + b.length),
        a.length + 1 + b.length,
    };
    memcpy(whole + a.length, b.bytes, b.length);
    for (uint32_t i = 0; i < v->vocab.token_count; i++)
        if (v->tokens[i].length == a.length + b.length &&
            memcmp(v->tokens[i].bytes, whole, a.length + b.length) == 0)
            return (int32_t)i;
    return test_small_token(v, whole, a.length + b.length, GP_TOKEN_NORMAL, 0);
}
