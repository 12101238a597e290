/* llama_tokens VOCAB.gguf : llama.cpp's ids of texts, for the generators of expected ids.
 *
 * stdin, native-endian, until its end: u32 parse_special; u32 n; char text[n].  stdout, for each:
 * u32 n; i32 ids[n].  No BOS or EOS is added.
 *
 * No part of growpage: linked with the libllama that tools/oracle/build.sh made, for generators
 * only. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "llama.h"

static void die(const char *what)
{
    fprintf(stderr, "llama_tokens: %s\n", what);
    exit(1);
}

static void log_errors_only(enum ggml_log_level level, const char *text, void *data)
{
    (void)data;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static void put(const void *data, size_t bytes)
{
    if (fwrite(data, 1, bytes, stdout) != bytes)
        die("write failed");
}

static void answer(const struct llama_vocab *vocab, uint32_t special, uint32_t length)
{
    char *text = malloc((size_t)length + 1);
    llama_token *ids = malloc(((size_t)length + 8) * sizeof *ids);

    if (!text || !ids)
        die("out of memory");
    if (fread(text, 1, length, stdin) != length)
        die("short input");
    int32_t n =
        llama_tokenize(vocab, text, (int32_t)length, ids, (int32_t)length + 8, false, special != 0);

    if (n < 0)
        die("more ids than bytes");
    uint32_t count = (uint32_t)n;

    put(&count, sizeof count);
    put(ids, count * sizeof *ids);
    free(text);
    free(ids);
}

int main(int argc, char **argv)
{
    uint32_t head[2];

    if (argc != 2)
        die("usage: llama_tokens VOCAB.gguf");
    llama_log_set(log_errors_only, NULL);
    llama_backend_init();
    struct llama_model_params params = llama_model_default_params();

    params.vocab_only = true;
    struct llama_model *model = llama_model_load_from_file(argv[1], params);

    if (!model)
        die("the vocabulary cannot be read");
    while (fread(head, sizeof head, 1, stdin) == 1)
        answer(llama_model_get_vocab(model), head[0], head[1]);
    llama_model_free(model);
    return 0;
}
