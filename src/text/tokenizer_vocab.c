/* From what a file spells to what a tokenizer looks up.  Nothing in a vocabulary is trusted. */
#include "text/tokenizer_internal.h"

#include "base/assert.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "text/utf8.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int no_memory(struct gp_error *err)
{
    return gp_fail(err, GP_ENOMEM, "tokenizer: out of memory");
}

/* ---- spellings ---- */

/* Byte-level vocabularies spell a byte as a printable character: itself where Latin-1 prints it;
 * the others follow from U+0100 on, in order.  Returns the byte, or -1. */
static int byte_of(uint32_t code)
{
    if ((code >= 0x21 && code <= 0x7e) || (code >= 0xa1 && code <= 0xff && code != 0xad))
        return (int)code;
    if (code >= 0x100 && code <= 0x120)
        return (int)code - 0x100;
    if (code >= 0x121 && code <= 0x142)
        return (int)code - 0x121 + 0x7f;
    return code == 0x143 ? 0xad : -1;
}

/* False when the spelling is not made of that alphabet alone. */
static bool decode_alphabet(struct gp_text spelling, char *out, uint32_t *length)
{
    const unsigned char *at = (const unsigned char *)spelling.bytes;
    size_t left = spelling.length;

    *length = 0;
    while (left > 0) {
        int n = gp_utf8_scan(at, left), byte = n > 0 ? byte_of(gp_utf8_decode(at, n)) : -1;

        if (byte < 0)
            return false;
        out[(*length)++] = (char)byte;
        at += n;
        left -= (size_t)n;
    }
    return true;
}

/* U+2581 stands for a space. */
static uint32_t decode_spaces(struct gp_text spelling, char *out)
{
    uint32_t length = 0;

    for (size_t i = 0; i < spelling.length;) {
        bool space = spelling.length - i >= 3 && memcmp(spelling.bytes + i, "\xe2\x96\x81", 3) == 0;

        out[length++] = space ? ' ' : spelling.bytes[i];
        i += space ? 3 : 1;
    }
    return length;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

/* "<0x0A>" is 10; anything else is -1. */
static int decode_byte_token(struct gp_text spelling)
{
    if (spelling.length != 6 || memcmp(spelling.bytes, "<0x", 3) != 0 || spelling.bytes[5] != '>')
        return -1;
    int high = hex_digit(spelling.bytes[3]), low = hex_digit(spelling.bytes[4]);

    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* A token's bytes go to out, which has room for its spelling.  *reachable: text can become it. */
static int decode_token(const struct gp_tokenizer *t, uint32_t id, struct gp_text spelling,
                        char *out, uint32_t *length, bool *reachable, struct gp_error *err)
{
    *reachable = false;
    if (t->types[id] == GP_TOKEN_BYTE) {
        int byte = decode_byte_token(spelling);

        if (byte < 0)
            return gp_fail(err, GP_ECORRUPT, "tokenizer: token %u: byte token '%.*s' is not <0xNN>",
                           id, (int)(spelling.length < 32 ? spelling.length : 32), spelling.bytes);
        *out = (char)byte;
        *length = 1;
        return GP_OK;
    }
    if (t->types[id] == GP_TOKEN_NORMAL) {
        *reachable = true;
        if (t->spm) {
            *length = decode_spaces(spelling, out);
            return GP_OK;
        }
        if (decode_alphabet(spelling, out, length))
            return GP_OK;
        *reachable = false;
    }
    if (spelling.length > 0)
        memcpy(out, spelling.bytes, spelling.length);
    *length = (uint32_t)spelling.length;
    return GP_OK;
}

/* ---- tokens ---- */

static int check_types(struct gp_tokenizer *t, const struct gp_vocab *vocab, struct gp_error *err)
{
    for (uint32_t i = 0; i < t->count; i++) {
        int32_t type = vocab->types ? vocab->types[i] : GP_TOKEN_NORMAL;

        if (type < GP_TOKEN_NORMAL || type > GP_TOKEN_BYTE)
            return gp_fail(err, GP_ECORRUPT, "tokenizer: token %u: unknown type %d", i, type);
        t->types[i] = (uint8_t)type;
    }
    return GP_OK;
}

static bool spaces_lead(const char *bytes, uint32_t length)
{
    for (uint32_t i = 1; i < length; i++)
        if (bytes[i] == ' ' && bytes[i - 1] != ' ')
            return false;
    return true;
}

static int add_token(struct gp_tokenizer *t, uint32_t id, struct gp_text spelling,
                     struct gp_error *err)
{
    uint32_t begin = t->pieces.offsets[id], length = 0;
    char *out = t->pieces.bytes + begin;
    bool reachable;
    int rc = decode_token(t, id, spelling, out, &length, &reachable, err);

    if (rc != GP_OK)
        return rc;
    t->pieces.offsets[id + 1] = begin + length;
    if (length > t->bytes_max)
        t->bytes_max = length;
    if (length == 0)
        return GP_OK;
    if (reachable) {
        gp_wordmap_put(&t->words, &t->pieces, id);
        t->spaces_lead = t->spaces_lead && spaces_lead(out, length);
        if (!t->spm && length == 1 && t->byte_ids[(unsigned char)*out] < 0)
            t->byte_ids[(unsigned char)*out] = (int32_t)id;
    }
    if (t->types[id] == GP_TOKEN_BYTE && t->spm && t->byte_ids[(unsigned char)*out] < 0)
        t->byte_ids[(unsigned char)*out] = (int32_t)id;
    return GP_OK;
}

/* Special tokens are looked for in every text, so one of absurd length is refused. */
static int load_specials(struct gp_tokenizer *t, struct gp_error *err)
{
    const uint32_t *offsets = t->pieces.offsets;
    uint32_t bytes = 0;

    for (uint32_t i = 0; i < t->count; i++) {
        uint32_t length = offsets[i + 1] - offsets[i];

        if (!gp_token_is_special(t->types[i]))
            continue;
        if (length > GP_TOKENIZER_SPECIAL_BYTES)
            return gp_fail(err, GP_ECORRUPT, "tokenizer: token %u: special token of %u bytes", i,
                           length);
        bytes += length;
    }
    if (!gp_trie_open(&t->specials, bytes))
        return no_memory(err);
    for (uint32_t i = 0; i < t->count; i++)
        if (gp_token_is_special(t->types[i]) && offsets[i + 1] > offsets[i])
            gp_trie_put(&t->specials, t->pieces.bytes + offsets[i], offsets[i + 1] - offsets[i],
                        (int32_t)i);
    return GP_OK;
}

static int load_tokens(struct gp_tokenizer *t, const struct gp_vocab *vocab, struct gp_error *err)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < t->count; i++)
        bytes += vocab->tokens[i].length;
    if (bytes > UINT32_MAX / 2)
        return gp_fail(err, GP_ECORRUPT, "tokenizer: %llu bytes of tokens",
                       (unsigned long long)bytes);
    t->types = gp_mem_alloc(t->count);
    t->pieces.bytes = gp_mem_alloc(bytes);
    t->pieces.offsets = gp_mem_alloc_array((size_t)t->count + 1, sizeof *t->pieces.offsets);
    if (!t->types || !t->pieces.bytes || !t->pieces.offsets ||
        !gp_wordmap_open(&t->words, t->count))
        return no_memory(err);
    int rc = check_types(t, vocab, err);

    t->spaces_lead = true;
    for (unsigned i = 0; i < 256; i++)
        t->byte_ids[i] = GP_TOKEN_NONE;
    for (uint32_t i = 0; rc == GP_OK && i < t->count; i++)
        rc = add_token(t, i, vocab->tokens[i], err);
    return rc == GP_OK ? load_specials(t, err) : rc;
}

/* ---- merges and scores ---- */

static int bad_merge(uint32_t index, struct gp_text merge, const char *why, struct gp_error *err)
{
    return gp_fail(err, GP_ECORRUPT, "tokenizer: merge %u: '%.*s': %s", index,
                   (int)(merge.length < 64 ? merge.length : 64), merge.bytes, why);
}

/* "left right"; the alphabet has no space. */
static int load_merge(struct gp_tokenizer *t, uint32_t index, struct gp_text merge, char *scratch,
                      struct gp_error *err)
{
    const char *space = merge.length > 1 ? memchr(merge.bytes + 1, ' ', merge.length - 1) : NULL;
    uint32_t left_length, right_length;

    if (!space)
        return bad_merge(index, merge, "no two parts", err);
    struct gp_text left = {merge.bytes, (size_t)(space - merge.bytes)};
    struct gp_text right = {space + 1, merge.length - left.length - 1};

    if (!decode_alphabet(left, scratch, &left_length) ||
        !decode_alphabet(right, scratch + left_length, &right_length))
        return bad_merge(index, merge, "not in the byte-level alphabet", err);
    int32_t ids[] = {
        gp_wordmap_get(&t->words, &t->pieces, scratch, left_length),
        gp_wordmap_get(&t->words, &t->pieces, scratch + left_length, right_length),
        gp_wordmap_get(&t->words, &t->pieces, scratch, (size_t)left_length + right_length),
    };

    if (ids[0] < 0 || ids[1] < 0 || ids[2] < 0)
        return bad_merge(index, merge, "a part or the whole is no token", err);
    gp_pairmap_put(&t->merges, ids[0], ids[1], index, ids[2]);
    return GP_OK;
}

static int load_merges(struct gp_tokenizer *t, const struct gp_vocab *vocab, struct gp_error *err)
{
    size_t longest = 0;
    int rc = GP_OK;

    for (uint32_t i = 0; i < vocab->merge_count; i++)
        if (vocab->merges[i].length > longest)
            longest = vocab->merges[i].length;
    char *scratch = gp_mem_alloc(longest);

    if (!scratch || !gp_pairmap_open(&t->merges, vocab->merge_count))
        rc = no_memory(err);
    for (uint32_t i = 0; rc == GP_OK && i < vocab->merge_count; i++)
        rc = load_merge(t, i, vocab->merges[i], scratch, err);
    gp_mem_free(scratch);
    return rc;
}

/* Scores as integers in the opposite order, so that both kinds merge the least rank first. */
static int load_scores(struct gp_tokenizer *t, const struct gp_vocab *vocab, struct gp_error *err)
{
    t->ranks = gp_mem_alloc_array(t->count, sizeof *t->ranks);
    if (!t->ranks)
        return no_memory(err);
    for (uint32_t i = 0; i < t->count; i++) {
        float score = vocab->scores ? vocab->scores[i] : 0.0f;
        uint32_t bits;

        if (isnan(score))
            return gp_fail(err, GP_ECORRUPT, "tokenizer: token %u: score is not a number", i);
        score += 0.0f; /* -0 and 0 are one score */
        memcpy(&bits, &score, sizeof bits);
        t->ranks[i] = bits >> 31 ? bits : ~(bits | 0x80000000u);
    }
    return GP_OK;
}

/* ---- settings ---- */

static int check_ids(const struct gp_vocab *vocab, struct gp_error *err)
{
    const struct {
        const char *name;
        int32_t id;
    } ids[] = {
        {"bos", vocab->bos}, {"eos", vocab->eos}, {"eot", vocab->eot},
        {"eom", vocab->eom}, {"unk", vocab->unk}, {"pad", vocab->pad},
    };

    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (ids[i].id != GP_TOKEN_NONE &&
            (ids[i].id < 0 || (uint32_t)ids[i].id >= vocab->token_count))
            return gp_fail(err, GP_ECORRUPT, "tokenizer: %s token %d of %u", ids[i].name, ids[i].id,
                           vocab->token_count);
    return GP_OK;
}

static int choose_pre(struct gp_tokenizer *t, const struct gp_vocab *vocab, struct gp_error *err)
{
    const char *name = vocab->pre;

    if (!name) {
        gp_log_warn("tokenizer: the file names no pre-tokenizer (tokenizer.ggml.pre); 'default' is "
                    "assumed, and if that is wrong, every answer is worse");
        name = "default";
    }
    t->pre = gp_pre_find(name);
    if (!t->pre && vocab->override_pre) {
        gp_log_warn("tokenizer: unknown pre-tokenizer '%s'; 'default' is used instead", name);
        t->pre = gp_pre_find("default");
    }
    if (!t->pre)
        return gp_fail(err, GP_EINVAL, "tokenizer: unknown pre-tokenizer '%s'", name);
    return GP_OK;
}

static int choose_ends(struct gp_tokenizer *t, const struct gp_vocab *vocab, struct gp_error *err)
{
    static const char *const spellings[] = {
        "<|eot_id|>", "<|eom_id|>",    "<|im_end|>", "<|end_of_text|>",
        "<|end|>",    "<|endoftext|>", "</s>",       "<｜end▁of▁sentence｜>",
    };
    const size_t known = sizeof spellings / sizeof *spellings;
    const int32_t named[] = {vocab->eos, vocab->eot, vocab->eom};

    t->ends = gp_mem_alloc_array(known + 3, sizeof *t->ends);
    if (!t->ends)
        return no_memory(err);
    for (size_t i = 0; i < known + 3; i++) {
        int32_t id =
            i < 3 ? named[i] : gp_tokenizer_find(t, spellings[i - 3], strlen(spellings[i - 3]));
        uint32_t at = 0;

        if (id < 0 || (i >= 3 && t->types[id] != GP_TOKEN_CONTROL))
            continue;
        while (at < t->end_count && t->ends[at] < id)
            at++;
        if (at < t->end_count && t->ends[at] == id)
            continue;
        memmove(t->ends + at + 1, t->ends + at, (t->end_count++ - at) * sizeof *t->ends);
        t->ends[at] = id;
    }
    return GP_OK;
}

static int choose_specials(struct gp_tokenizer *t, const struct gp_vocab *vocab,
                           struct gp_error *err)
{
    bool by_default = t->spm || t->pre->add_bos;

    if ((vocab->add_bos == 1 && vocab->bos < 0) || (vocab->add_eos == 1 && vocab->eos < 0))
        return gp_fail(err, GP_ECORRUPT,
                       "tokenizer: add_%s_token is set, and there is no such token",
                       vocab->add_bos == 1 && vocab->bos < 0 ? "bos" : "eos");
    t->bos = vocab->bos;
    t->eos = vocab->eos;
    /* Files also name an ordinary control token here (SmolLM2: <|endoftext|>), which must not come
     * out of a text. */
    t->unk =
        vocab->unk >= 0 && t->types[vocab->unk] == GP_TOKEN_UNKNOWN ? vocab->unk : GP_TOKEN_NONE;
    t->add_bos = (vocab->add_bos < 0 ? by_default : vocab->add_bos) && t->bos >= 0;
    t->add_eos = vocab->add_eos == 1;
    t->space_prefix = t->spm && vocab->add_space_prefix != 0;
    return choose_ends(t, vocab, err);
}

int gp_tokenizer_load(struct gp_tokenizer *t, const struct gp_vocab *vocab, struct gp_error *err)
{
    t->spm = strcmp(vocab->model, "llama") == 0;
    if (!t->spm && strcmp(vocab->model, "gpt2") != 0)
        return gp_fail(err, GP_EINVAL, "tokenizer: model '%s': only gpt2 and llama are supported",
                       vocab->model);
    if (vocab->token_count == 0 || vocab->token_count > GP_LIMIT_VOCAB)
        return gp_fail(err, GP_ECORRUPT, "tokenizer: %u tokens", vocab->token_count);
    t->count = vocab->token_count;
    int rc = check_ids(vocab, err);

    if (rc == GP_OK && !t->spm)
        rc = choose_pre(t, vocab, err);
    if (rc == GP_OK)
        rc = load_tokens(t, vocab, err);
    if (rc == GP_OK)
        rc = t->spm ? load_scores(t, vocab, err) : load_merges(t, vocab, err);
    if (rc == GP_OK)
        rc = choose_specials(t, vocab, err);
    if (rc == GP_OK && !t->spm)
        rc = gp_splitter_open(&t->splitter, t->pre, err);
    snprintf(t->kind, sizeof t->kind, "%s%s%s", vocab->model, t->spm ? "" : "/",
             t->pre ? t->pre->name : "");
    return rc;
}
