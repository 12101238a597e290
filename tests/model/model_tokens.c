#include "model/model_tokens.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

#define TYPE_NORMAL  1
#define TYPE_CONTROL 3
#define TYPE_UNUSED  5

/* The whole template language of ChatML, as SmolLM2 and Qwen use it. */
static const char chat_template[] =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|im_start|>assistant\\n' }}{% endif %}";

/* Letters by how often English has them, so that merges are of some use. */
static const char letters[] = "etaoinshrdlcumwfgypbvkjxqz";

#define LETTERS 26u
#define PAIRS   (LETTERS * LETTERS)
#define MERGES  (LETTERS + PAIRS + PAIRS * PAIRS)

/* GPT-2 spells bytes as characters that can be seen: those that cannot come from 256 on, in
 * order. */
static uint32_t character_of_byte(uint32_t byte)
{
    if ((byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174)
        return byte;
    return byte <= 32 ? 256 + byte : byte <= 160 ? 256 + 33 + (byte - 127) : 256 + 33 + 34;
}

/* Bytes in GPT-2's spelling; out has room for two bytes each.  Returns the length. */
static size_t spell(const char *bytes, size_t length, char *out)
{
    size_t n = 0;

    for (size_t i = 0; i < length; i++) {
        uint32_t c = character_of_byte((unsigned char)bytes[i]);

        if (c < 0x80) {
            out[n++] = (char)c;
        } else {
            out[n++] = (char)(0xc0 | c >> 6);
            out[n++] = (char)(0x80 | (c & 0x3f));
        }
    }
    return n;
}

/* Merge number i: a space and a letter, two letters, two pairs.  Both sides are tokens before
 * it. */
static void name_merge(uint32_t i, char left[4], char right[4])
{
    memset(left, 0, 4);
    memset(right, 0, 4);
    if (i < LETTERS) {
        left[0] = ' ';
        right[0] = letters[i];
        return;
    }
    i -= LETTERS;
    if (i < PAIRS) {
        left[0] = letters[i / LETTERS];
        right[0] = letters[i % LETTERS];
        return;
    }
    i -= PAIRS;
    left[0] = letters[i / PAIRS / LETTERS];
    left[1] = letters[i / PAIRS % LETTERS];
    right[0] = letters[i % PAIRS / LETTERS];
    right[1] = letters[i % LETTERS];
}

struct vocabulary {
    struct gp_str *tokens;
    int32_t *types;
    struct gp_str *merges;
    uint32_t merge_count;
    char *bytes; /* where the spellings lie */
    size_t length;
    size_t room;
};

static struct gp_str keep(struct vocabulary *v, const char *bytes, size_t length)
{
    gp_assert(length <= v->room - v->length);
    struct gp_str kept = {v->bytes + v->length, length};

    memcpy(v->bytes + v->length, bytes, length);
    v->length += length;
    return kept;
}

static struct gp_str keep_spelled(struct vocabulary *v, const char *bytes, size_t length)
{
    gp_assert(2 * length <= v->room - v->length);
    struct gp_str kept = {v->bytes + v->length, 0};

    kept.length = spell(bytes, length, v->bytes + v->length);
    v->length += kept.length;
    return kept;
}

static void name_first_tokens(const struct test_model *m, struct vocabulary *v)
{
    static const char *const control[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    uint32_t id = 0;

    for (; id < TEST_TOKEN_BYTE; id++) {
        v->tokens[id] = keep(v, control[id], strlen(control[id]));
        v->types[id] = TYPE_CONTROL;
    }
    for (uint32_t byte = 0; byte < 256; byte++, id++) {
        v->tokens[id] = keep_spelled(v, &(char){(char)byte}, 1);
        v->types[id] = TYPE_NORMAL;
    }
    for (uint32_t i = 0; i < m->token_count; i++, id++) {
        const struct test_token *t = &m->tokens[i];

        /* Only ordinary tokens are spelled in the alphabet of bytes. */
        v->tokens[id] = t->type == TYPE_NORMAL ? keep_spelled(v, t->text.bytes, t->text.length)
                                               : keep(v, t->text.bytes, t->text.length);
        v->types[id] = t->type;
    }
}

static void fill_vocabulary(const struct test_model *m, struct vocabulary *v)
{
    char left[4], right[4], text[24];

    for (uint32_t id = TEST_TOKENS_MIN + m->token_count, i = 0; id < m->vocab; id++, i++) {
        if (m->next || i >= MERGES) {
            int length = snprintf(text, sizeof text, "[UNUSED%" PRIu32 "]", i);

            v->tokens[id] = keep(v, text, (size_t)length);
            v->types[id] = TYPE_UNUSED;
            continue;
        }
        name_merge(i, left, right);
        struct gp_str a = keep_spelled(v, left, strlen(left));
        struct gp_str gap = keep(v, " ", 1);
        struct gp_str b = keep_spelled(v, right, strlen(right));

        v->merges[v->merge_count++] = (struct gp_str){a.bytes, a.length + gap.length + b.length};
        v->tokens[id] = keep(v, a.bytes, a.length);
        keep(v, b.bytes, b.length); /* right behind: one string */
        v->tokens[id].length += b.length;
        v->types[id] = TYPE_NORMAL;
    }
}

static void add_vocabulary(const struct test_model *m, const struct vocabulary *v,
                           struct gp_gguf_writer *w)
{
    const char *pre = m->pre ? m->pre : strcmp(m->arch, "llama") == 0 ? "smollm" : "qwen2";

    gp_gguf_add_str(w, "tokenizer.ggml.model", "gpt2", 4);
    gp_gguf_add_str(w, "tokenizer.ggml.pre", pre, strlen(pre));
    gp_gguf_add_strings(w, "tokenizer.ggml.tokens", v->tokens, m->vocab);
    gp_gguf_add_array(w, "tokenizer.ggml.token_type", GP_GGUF_I32, v->types, m->vocab);
    gp_gguf_add_strings(w, "tokenizer.ggml.merges", v->merges, v->merge_count);
    gp_gguf_add_u32(w, "tokenizer.ggml.bos_token_id", TEST_TOKEN_ENDOFTEXT);
    gp_gguf_add_u32(w, "tokenizer.ggml.eos_token_id", m->eos);
    gp_gguf_add_u32(w, "tokenizer.ggml.padding_token_id", TEST_TOKEN_ENDOFTEXT);
    gp_gguf_add_bool(w, "tokenizer.ggml.add_bos_token", false);
    gp_gguf_add_str(w, "tokenizer.chat_template", chat_template, sizeof chat_template - 1);
}

int test_model_add_tokens(const struct test_model *m, struct gp_gguf_writer *w,
                          struct gp_error *err)
{
    struct vocabulary v = {.room = 1024 + (size_t)m->vocab * 24};
    int rc = GP_OK;

    for (uint32_t i = 0; i < m->token_count; i++)
        v.room += 2 * m->tokens[i].text.length;
    v.tokens = gp_mem_alloc_array(m->vocab, sizeof *v.tokens);
    v.types = gp_mem_alloc_array(m->vocab, sizeof *v.types);
    v.merges = gp_mem_alloc_array(m->vocab, sizeof *v.merges);
    v.bytes = gp_mem_alloc(v.room);
    if (v.tokens && v.types && v.merges && v.bytes) {
        name_first_tokens(m, &v);
        fill_vocabulary(m, &v);
        add_vocabulary(m, &v, w);
    } else {
        rc = gp_fail(err, GP_ENOMEM, "no memory for a vocabulary");
    }
    gp_mem_free(v.tokens);
    gp_mem_free(v.types);
    gp_mem_free(v.merges);
    gp_mem_free(v.bytes);
    return rc;
}
