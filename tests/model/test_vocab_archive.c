/* Whole vocabularies of llama.cpp's source archive against the ids that it ships with them.
 *
 * tools/oracle/build.sh leaves them in build/oracle/vocab; GP_VOCAB_DIR names another folder.
 * Where a file is missing its test is skipped: tests/text/test_tokenizer_families.c checks the
 * families on reduced vocabularies, always. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "model/gguf.h"
#include "model/vocab.h"
#include "text/random_text.h"

#define SEPARATOR "\n__ggml_vocab_test__\n"

/* A whole file with a zero byte behind; NULL when it is not there. */
static char *read_text(const char *name, const char *suffix)
{
    const char *folder = getenv("GP_VOCAB_DIR");
    size_t room = 1 << 16;
    char path[4096];

    snprintf(path, sizeof path, "%s/ggml-vocab-%s.gguf%s", folder ? folder : "build/oracle/vocab",
             name, suffix);
    FILE *file = fopen(path, "rb");

    if (!file)
        return NULL;
    char *text = gp_mem_alloc(room);

    assert_non_null(text);
    assert_true(fread(text, 1, room - 1, file) < room - 1);
    fclose(file);
    return text;
}

static struct gp_tokenizer *open_vocab(const char *name)
{
    const char *folder = getenv("GP_VOCAB_DIR");
    struct gp_tokenizer *t = NULL;
    struct gp_gguf *gguf;
    struct gp_error err;
    char path[4096];

    snprintf(path, sizeof path, "%s/ggml-vocab-%s.gguf", folder ? folder : "build/oracle/vocab",
             name);
    if (gp_gguf_open(&gguf, path, &err) != GP_OK)
        return NULL;
    if (gp_vocab_open(&t, gguf, false, &err) != GP_OK)
        fail_msg("%s", err.message);
    gp_gguf_close(gguf);
    return t;
}

static void assert_line(const struct gp_tokenizer *t, const char *text, size_t length,
                        const char *line)
{
    struct gp_span span = {text, length, false};
    int32_t *ids;
    uint32_t count;
    char *end;

    assert_int_equal(gp_tokenize(t, &span, 1, false, &ids, &count, NULL), GP_OK);
    for (uint32_t i = 0; i < count; i++, line = end)
        if (strtol(line, &end, 10) != ids[i] || end == line)
            fail_msg("'%.*s': id %u is %d, and should be '%.8s'", (int)length, text, i, ids[i],
                     line);
    assert_int_equal(line[strspn(line, " ")], '\n');
    gp_mem_free(ids);
}

static void assert_comes_back(const struct gp_tokenizer *t, const char *text, size_t length)
{
    struct gp_span span = {text, length, true};
    size_t back_length;
    int32_t *ids;
    uint32_t count;
    char *back;

    assert_int_equal(gp_tokenize(t, &span, 1, false, &ids, &count, NULL), GP_OK);
    assert_int_equal(gp_detokenize(t, ids, count, true, &back, &back_length, NULL), GP_OK);
    if (back_length != length || memcmp(back, text, length) != 0)
        fail_msg("'%.*s' came back as '%.*s'", (int)length, text, (int)back_length, back);
    gp_mem_free(ids);
    gp_mem_free(back);
}

static void check_shipped(const struct gp_tokenizer *t, const char *in, const char *out)
{
    unsigned count = 0;

    for (const char *end; *in; in = *end ? end + strlen(SEPARATOR) : end, count++) {
        end = strstr(in, SEPARATOR);
        if (!end)
            end = in + strlen(in);
        assert_line(t, in, (size_t)(end - in), out);
        out = strchr(out, '\n');
        assert_non_null(out);
        out++;
    }
    assert_true(count > 40);
}

static void check_vocab(void **state)
{
    const char *name = *state;
    struct gp_tokenizer *t = open_vocab(name);

    if (!t) {
        print_message("no vocabulary %s\n", name);
        skip();
    }
    char *in = read_text(name, ".inp"), *out = read_text(name, ".out");
    char text[TEST_RANDOM_TEXT_BYTES];

    assert_non_null(in);
    assert_non_null(out);
    check_shipped(t, in, out);
    for (unsigned i = 0; i < 1000 && strcmp(name, "qwen2") != 0; i++)
        assert_comes_back(t, text, test_random_text(i, text));
    gp_mem_free(in);
    gp_mem_free(out);
    gp_tokenizer_close(t);
    assert_int_equal(gp_mem_live(), 0);
}

#define VOCAB(name)                                                                                \
    {                                                                                              \
        name, check_vocab, NULL, NULL, (void *)(uintptr_t)name                                     \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        VOCAB("llama-bpe"),      VOCAB("qwen2"),     VOCAB("gpt-2"), VOCAB("deepseek-llm"),
        VOCAB("deepseek-coder"), VOCAB("llama-spm"), VOCAB("phi-3"),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
