#include "model/model_edit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "model/gguf_files.h"

/* A file of its own in a folder of its own, and away with both. */
static void temporary_path(char *folder, char *path, size_t bytes)
{
    test_temporary_folder(folder, bytes);
    test_file_path(path, bytes, folder, "model.gguf");
}

static struct gp_gguf *open_and_unlink(const char *folder, const char *path)
{
    struct gp_gguf *gguf = NULL;
    struct gp_error err = {""};
    int rc = gp_gguf_open(&gguf, path, &err);

    unlink(path);
    rmdir(folder);
    if (rc != GP_OK)
        fail_msg("%s", err.message);
    return gguf;
}

struct gp_gguf *test_model_made(const struct test_model *m)
{
    char folder[512], path[512];
    struct gp_error err = {""};

    temporary_path(folder, path, sizeof path);
    if (test_model_write(m, path, &err) != GP_OK)
        fail_msg("%s", err.message);
    return open_and_unlink(folder, path);
}

struct gp_gguf *test_model_edited(struct gp_gguf_writer *w)
{
    char folder[512], path[512];
    struct gp_error err = {""};

    temporary_path(folder, path, sizeof path);
    int rc = gp_gguf_writer_write(w, path, &err);

    gp_gguf_writer_close(w);
    if (rc != GP_OK)
        fail_msg("%s", err.message);
    return open_and_unlink(folder, path);
}

static bool is_left_out(const char *name, const char *const *without)
{
    if (strncmp(name, "tokenizer.", 10) == 0)
        return true;
    for (; without && *without; without++)
        if (strcmp(name, *without) == 0)
            return true;
    return false;
}

static void copy_key(struct gp_gguf_writer *w, const struct gp_gguf *from, const char *key)
{
    uint32_t whole;
    float real;
    bool flag;
    struct gp_str text;

    if (gp_gguf_u32(from, key, &whole, NULL) == GP_OK)
        gp_gguf_add_u32(w, key, whole);
    else if (gp_gguf_f32(from, key, &real, NULL) == GP_OK)
        gp_gguf_add_f32(w, key, real);
    else if (gp_gguf_str(from, key, &text, NULL) == GP_OK)
        gp_gguf_add_str(w, key, text.bytes, text.length);
    else if (gp_gguf_bool_or(from, key, &flag, NULL) == GP_OK)
        gp_gguf_add_bool(w, key, flag);
    else
        fail_msg("%s: a value of a type that is not copied", key);
}

struct gp_gguf_writer *test_model_edit(const struct test_model *m, const char *const *without)
{
    struct gp_gguf *from = test_model_made(m);
    struct gp_gguf_writer *w = NULL;
    char name[128];

    assert_int_equal(gp_gguf_writer_open(&w, NULL), GP_OK);
    for (uint32_t i = 0; i < gp_gguf_key_count(from); i++) {
        struct gp_str key = gp_gguf_key(from, i);

        snprintf(name, sizeof name, "%.*s", (int)key.length, key.bytes);
        if (!is_left_out(name, without))
            copy_key(w, from, name);
    }
    for (uint32_t i = 0; i < gp_gguf_tensor_count(from); i++) {
        const struct gp_gguf_tensor *t = gp_gguf_tensor(from, i);

        snprintf(name, sizeof name, "%.*s", (int)t->name.length, t->name.bytes);
        if (!is_left_out(name, without))
            gp_gguf_add_tensor(w, name, t->type, t->dim_count, t->dims, t->data);
    }
    gp_gguf_close(from);
    return w;
}
