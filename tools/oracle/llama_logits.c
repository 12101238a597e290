/* llama_logits MODEL COUNT FILE... : teacher-forced logits of llama.cpp, for
 * tools/oracle/logits.py.
 *
 * Each file is tokenized (BOS where the vocabulary asks, control tokens recognised) and cut to
 * COUNT tokens, which run as one batch of a fresh context: one thread, f16 KV, no flash
 * attention. stdout gets, native-endian: u32 vocab; then for each file u32 n, i32 ids[n], float
 * logits[n][vocab], row i being what the model expects after ids[0..i].
 *
 * No part of growpage: linked with the libllama that tools/oracle/build.sh made, for generators
 * only. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"

static void die(const char *what, const char *why)
{
    fprintf(stderr, "llama_logits: %s: %s\n", what, why);
    exit(1);
}

static void put(const void *data, size_t bytes)
{
    if (fwrite(data, 1, bytes, stdout) != bytes)
        die("stdout", "write failed");
}

static void log_errors_only(enum ggml_log_level level, const char *text, void *data)
{
    (void)data;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static char *read_file(const char *path, size_t *length)
{
    size_t size_max = 1u << 20;
    char *bytes = malloc(size_max);
    FILE *f = fopen(path, "rb");

    if (!f || !bytes)
        die(path, "cannot be read");
    *length = fread(bytes, 1, size_max, f);
    if (*length == 0 || *length == size_max)
        die(path, "empty, or too long for a prompt");
    fclose(f);
    return bytes;
}

static void run_prompt(struct llama_model *model, const char *path, int32_t count)
{
    const struct llama_vocab *vocab = llama_model_get_vocab(model);
    int32_t vocab_count = llama_vocab_n_tokens(vocab);
    size_t length;
    char *text = read_file(path, &length);
    llama_token *ids = malloc((length + 8) * sizeof(*ids));
    int32_t n;

    if (!ids)
        die(path, "out of memory");
    n = llama_tokenize(vocab, text, (int32_t)length, ids, (int32_t)length + 8, true, true);
    if (n < count)
        die(path, "too few tokens");

    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = (uint32_t)(count + 255) / 256 * 256;
    params.n_batch = (uint32_t)count;
    params.n_ubatch = (uint32_t)count;
    params.n_threads = 1;
    params.n_threads_batch = 1;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    params.type_k = GGML_TYPE_F16;
    params.type_v = GGML_TYPE_F16;
    struct llama_context *context = llama_init_from_model(model, params);
    if (!context)
        die(path, "no context");

    struct llama_batch batch = llama_batch_init(count, 0, 1);
    batch.n_tokens = count;
    for (int32_t i = 0; i < count; i++) {
        batch.token[i] = ids[i];
        batch.pos[i] = i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = 1;
    }
    if (llama_decode(context, batch))
        die(path, "decode failed");

    uint32_t n_out = (uint32_t)count;
    put(&n_out, sizeof(n_out));
    put(ids, (size_t)count * sizeof(*ids));
    for (int32_t i = 0; i < count; i++)
        put(llama_get_logits_ith(context, i), (size_t)vocab_count * sizeof(float));

    llama_batch_free(batch);
    llama_free(context);
    free(ids);
    free(text);
}

int main(int argc, char **argv)
{
    char *end;
    long count = argc > 3 ? strtol(argv[2], &end, 10) : 0;

    if (count < 1 || count > 4096 || *end)
        die("usage", "llama_logits MODEL COUNT FILE...");
    llama_log_set(log_errors_only, NULL);
    llama_backend_init();
    struct llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
    if (!model)
        die(argv[1], "cannot be loaded");

    uint32_t vocab_count = (uint32_t)llama_vocab_n_tokens(llama_model_get_vocab(model));
    put(&vocab_count, sizeof(vocab_count));
    for (int i = 3; i < argc; i++)
        run_prompt(model, argv[i], (int32_t)count);
    if (fflush(stdout))
        die("stdout", "write failed");
    llama_model_free(model);
    llama_backend_free();
    return 0;
}
