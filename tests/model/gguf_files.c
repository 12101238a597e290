#include "model/gguf_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct gp_gguf *test_gguf_open(const struct test_gguf *f, void **copy)
{
    struct gp_gguf *gguf = NULL;
    struct gp_error err = {""};

    *copy = test_exact_copy(f->bytes, f->length);
    if (gp_gguf_open_bytes(&gguf, *copy, f->length, &err) != GP_OK)
        fail_msg("%s", err.message);
    const char *wrong = test_gguf_walk(gguf, *copy, f->length);

    if (wrong)
        fail_msg("%s", wrong);
    return gguf;
}

void test_temporary_folder(char *path, size_t path_bytes)
{
    const char *base = getenv("TMPDIR");

    snprintf(path, path_bytes, "%s/gguf.XXXXXX", base && *base ? base : "/tmp");
    assert_non_null(mkdtemp(path));
}

void test_file_path(char *path, size_t path_bytes, const char *folder, const char *name)
{
    assert_true(snprintf(path, path_bytes, "%s/%s", folder, name) < (int)path_bytes);
}

void test_write_bytes(const char *path, const void *bytes, size_t length)
{
    FILE *out = fopen(path, "wb");

    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, length, out), length);
    assert_int_equal(fclose(out), 0);
}

size_t test_read_bytes(const char *path, void *bytes, size_t room)
{
    FILE *in = fopen(path, "rb");

    assert_non_null(in);
    size_t length = fread(bytes, 1, room, in);

    fclose(in);
    assert_true(length < room);
    return length;
}

/* A file with every type of value and a few types of tensor. */
struct gp_gguf_writer *test_gguf_varied_writer(void)
{
    static const char *const words[] = {"", "a", "\xc4\xa0the", "b\0c"};
    static const int32_t types[5] = {1, 2, 3, -4, 5};
    static const uint64_t wide[2] = {1, UINT64_MAX};
    static const uint8_t data[4096] = {1, 2, 3};
    struct gp_str strings[4];
    struct gp_gguf_writer *w = NULL;

    if (gp_gguf_writer_open(&w, NULL) != GP_OK)
        return NULL;
    for (int i = 0; i < 4; i++)
        strings[i] = (struct gp_str){words[i], i < 3 ? strlen(words[i]) : 3};
    gp_gguf_add_str(w, "general.architecture", "llama", 5);
    gp_gguf_add_u32(w, "llama.block_count", 2);
    gp_gguf_add_f32(w, "llama.rope.freq_base", 10000.0f);
    gp_gguf_add_bool(w, "tokenizer.ggml.add_bos_token", true);
    gp_gguf_add_strings(w, "tokenizer.ggml.tokens", strings, 4);
    gp_gguf_add_array(w, "tokenizer.ggml.token_type", GP_GGUF_I32, types, 5);
    gp_gguf_add_array(w, "wide", GP_GGUF_U64, wide, 2);
    gp_gguf_add_array(w, "none", GP_GGUF_F32, NULL, 0);
    gp_gguf_add_tensor(w, "token_embd.weight", GP_TYPE_F32, 2, (uint64_t[]){3, 4}, data);
    gp_gguf_add_tensor(w, "blk.0.attn_q.weight", GP_TYPE_Q8_0, 2, (uint64_t[]){64, 2}, data);
    gp_gguf_add_tensor(w, "blk.0.attn_k.weight", GP_TYPE_Q4_K, 2, (uint64_t[]){256, 3}, data);
    gp_gguf_add_tensor(w, "cube", GP_TYPE_F16, 4, (uint64_t[]){5, 1, 2, 3}, data);
    return w;
}

void test_gguf_varied(struct test_gguf *f)
{
    char folder[200], path[256];
    struct gp_gguf_writer *w = test_gguf_varied_writer();

    assert_non_null(w);
    test_temporary_folder(folder, sizeof folder);
    test_file_path(path, sizeof path, folder, "varied.gguf");
    assert_int_equal(gp_gguf_writer_write(w, path, NULL), GP_OK);
    gp_gguf_writer_close(w);
    f->length = test_read_bytes(path, f->bytes, sizeof f->bytes);
    unlink(path);
    rmdir(folder);
}
