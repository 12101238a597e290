/* llama_greedy MODEL MAX < TEXTS : what llama.cpp says greedily, for tools/oracle/reasoner.py.
 *
 * stdin has texts, each closed by a zero byte.  Each is tokenized (control tokens recognised) and
 * continued by the likeliest token, MAX times at most, in a fresh context: one thread, f16 KV, no
 * flash attention.  stdout gets the bytes of each continuation, closed by a zero byte.
 *
 * No part of growpage: linked with the libllama that tools/oracle/build.sh made, for generators
 * only. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"

#define TEXTS_MAX (8u << 20)
#define IDS_MAX   4096

static void die(const char *what, const char *why)
{
    fprintf(stderr, "llama_greedy: %s: %s\n", what, why);
    exit(1);
}

static void log_errors_only(enum ggml_log_level level, const char *text, void *data)
{
    (void)data;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static struct llama_context *open_context(struct llama_model *model)
{
    struct llama_context_params params = llama_context_default_params();

    params.n_ctx = IDS_MAX;
    params.n_batch = IDS_MAX;
    params.n_ubatch = 512;
    params.n_threads = 1;
    params.n_threads_batch = 1;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    params.type_k = GGML_TYPE_F16;
    params.type_v = GGML_TYPE_F16;
    struct llama_context *context = llama_init_from_model(model, params);
    if (!context)
        die("llama.cpp", "no context");
    return context;
}

static void put_piece(const struct llama_vocab *vocab, llama_token id)
{
    char piece[256];
    int32_t n = llama_token_to_piece(vocab, id, piece, sizeof(piece), 0, false);

    if (n < 0 || fwrite(piece, 1, (size_t)n, stdout) != (size_t)n)
        die("stdout", "write failed");
}

static void continue_text(struct llama_context *context, const struct llama_vocab *vocab,
                          const char *text, int32_t max)
{
    static llama_token ids[IDS_MAX];
    struct llama_sampler *greedy = llama_sampler_init_greedy();
    int32_t n = llama_tokenize(vocab, text, (int32_t)strlen(text), ids, IDS_MAX, true, true);

    if (n < 1)
        die(text, "cannot be tokenized");
    llama_memory_clear(llama_get_memory(context), true);
    struct llama_batch batch = llama_batch_get_one(ids, n);
    for (int32_t i = 0; i < max && n + i < IDS_MAX; i++) {
        if (llama_decode(context, batch))
            die(text, "decode failed");
        llama_token id = llama_sampler_sample(greedy, context, -1);
        if (llama_vocab_is_eog(vocab, id))
            break;
        put_piece(vocab, id);
        ids[0] = id;
        batch = llama_batch_get_one(ids, 1);
    }
    putchar(0);
    llama_sampler_free(greedy);
}

int main(int argc, char **argv)
{
    static char texts[TEXTS_MAX];
    char *end;
    long max = argc == 3 ? strtol(argv[2], &end, 10) : 0;

    if (max < 1 || max > IDS_MAX || *end)
        die("usage", "llama_greedy MODEL MAX < TEXTS");
    size_t length = fread(texts, 1, sizeof(texts), stdin);
    if (length == 0 || length == sizeof(texts) || texts[length - 1] != 0)
        die("stdin", "empty, too long, or not closed by a zero byte");
    llama_log_set(log_errors_only, NULL);
    llama_backend_init();
    struct llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
    if (!model)
        die(argv[1], "cannot be loaded");

    struct llama_context *context = open_context(model);
    for (const char *text = texts; text < texts + length; text += strlen(text) + 1)
        continue_text(context, llama_model_get_vocab(model), text, (int32_t)max);
    if (fflush(stdout))
        die("stdout", "write failed");
    llama_free(context);
    llama_model_free(model);
    llama_backend_free();
    return 0;
}
