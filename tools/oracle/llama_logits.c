/* llama_logits [OPTION...] MODEL COUNT FILE... : teacher-forced logits of llama.cpp, for
 * tools/oracle/logits.py.
 *
 * Each file is tokenized (BOS where the vocabulary asks, control tokens recognised) and cut to
 * COUNT tokens, which run as one batch of a fresh context: one thread, f16 KV, no flash
 * attention.  Options change what should not matter, for tools/oracle/itself.py:
 *
 *   rows=N    so many tokens a batch       cache=f32    keys and values as floats
 *   threads=N                              flash        flash attention
 *   plain     weights as in the file, not repacked
 *
 * stdout gets, native-endian: u32 vocab; then for each file u32 n, i32 ids[n], float
 * logits[n][vocab], row i being what the model expects after ids[0..i].
 *
 * No part of growpage: linked with the libllama that tools/oracle/build.sh made, for generators
 * only. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"

struct settings {
    int32_t rows; /* 0: all in one batch */
    int32_t threads;
    enum ggml_type cache;
    bool flash, plain;
};

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

/* False: no option. */
static bool take_option(const char *text, struct settings *s)
{
    int n = 0;

    if (sscanf(text, "rows=%d%n", &s->rows, &n) == 1 && !text[n] && s->rows > 0)
        return true;
    if (sscanf(text, "threads=%d%n", &s->threads, &n) == 1 && !text[n] && s->threads > 0)
        return true;
    if (!strcmp(text, "cache=f32"))
        return s->cache = GGML_TYPE_F32, true;
    if (!strcmp(text, "flash"))
        return s->flash = true;
    if (!strcmp(text, "plain"))
        return s->plain = true;
    return false;
}

/* Tokens ids[from, from + n) in one batch; their logits to stdout. */
static void run_rows(struct llama_context *context, const llama_token *ids, int32_t from, int32_t n,
                     int32_t vocab_count)
{
    struct llama_batch batch = llama_batch_init(n, 0, 1);

    batch.n_tokens = n;
    for (int32_t i = 0; i < n; i++) {
        batch.token[i] = ids[from + i];
        batch.pos[i] = from + i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = 1;
    }
    if (llama_decode(context, batch))
        die("decode", "failed");
    for (int32_t i = 0; i < n; i++)
        put(llama_get_logits_ith(context, i), (size_t)vocab_count * sizeof(float));
    llama_batch_free(batch);
}

static void run_prompt(struct llama_model *model, const char *path, int32_t count,
                       const struct settings *settings)
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
    params.n_threads = settings->threads;
    params.n_threads_batch = settings->threads;
    params.flash_attn_type =
        settings->flash ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    params.type_k = settings->cache;
    params.type_v = settings->cache;
    struct llama_context *context = llama_init_from_model(model, params);
    if (!context)
        die(path, "no context");

    uint32_t n_out = (uint32_t)count;
    put(&n_out, sizeof(n_out));
    put(ids, (size_t)count * sizeof(*ids));
    int32_t rows = settings->rows ? settings->rows : count;
    for (int32_t at = 0; at < count; at += rows)
        run_rows(context, ids, at, count - at < rows ? count - at : rows, vocab_count);

    llama_free(context);
    free(ids);
    free(text);
}

int main(int argc, char **argv)
{
    struct settings settings = {.threads = 1, .cache = GGML_TYPE_F16};
    char *end;

    for (; argc > 1 && take_option(argv[1], &settings); argc--)
        argv++;
    long count = argc > 3 ? strtol(argv[2], &end, 10) : 0;

    if (count < 1 || count > 4096 || *end)
        die("usage", "llama_logits [OPTION...] MODEL COUNT FILE...");
    llama_log_set(log_errors_only, NULL);
    llama_backend_init();
    struct llama_model_params params = llama_model_default_params();
    params.use_extra_bufts = !settings.plain;
    struct llama_model *model = llama_model_load_from_file(argv[1], params);
    if (!model)
        die(argv[1], "cannot be loaded");

    uint32_t vocab_count = (uint32_t)llama_vocab_n_tokens(llama_model_get_vocab(model));
    put(&vocab_count, sizeof(vocab_count));
    for (int i = 3; i < argc; i++)
        run_prompt(model, argv[i], (int32_t)count, &settings);
    if (fflush(stdout))
        die("stdout", "write failed");
    llama_model_free(model);
    llama_backend_free();
    return 0;
}
