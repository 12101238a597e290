/* What an open GGUF file hands out, what the writer writes, and both when memory runs out. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "model/gguf_files.h"

#define SMOLLM "models/smollm2-135m-instruct-q4_1.gguf"

static struct test_gguf file;

/* ---- accessors ---- */

/* Keys "u8" to "f64", each with its type's bytes of `value`. */
static struct gp_gguf *open_numbers(int64_t value, void **copy)
{
    static const struct {
        const char *name;
        uint32_t type, bytes;
    } kinds[] = {{"u8", GP_GGUF_U8, 1},   {"i8", GP_GGUF_I8, 1},   {"u16", GP_GGUF_U16, 2},
                 {"i16", GP_GGUF_I16, 2}, {"u32", GP_GGUF_U32, 4}, {"i32", GP_GGUF_I32, 4},
                 {"u64", GP_GGUF_U64, 8}, {"i64", GP_GGUF_I64, 8}};

    test_gguf_header(&file, 3, 0, 12);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        test_gguf_key(&file, kinds[i].name, kinds[i].type);
        test_gguf_put(&file, &value, kinds[i].bytes);
    }
    test_gguf_key(&file, "f32", GP_GGUF_F32);
    test_gguf_put(&file, &(float){0.5f}, 4);
    test_gguf_key(&file, "f64", GP_GGUF_F64);
    test_gguf_put(&file, &(double){1e300}, 8);
    test_gguf_key(&file, "str", GP_GGUF_STRING);
    test_gguf_str(&file, "text");
    test_gguf_key_array(&file, "array", GP_GGUF_U32, 2);
    test_gguf_u64(&file, 5);
    return test_gguf_open(&file, copy);
}

static void integers_of_any_width_are_read_or_refused(void **state)
{
    (void)state;
    static const char *const fits[] = {"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"};
    struct gp_error err = {""};
    uint32_t out;
    void *copy;
    struct gp_gguf *g = open_numbers(77, &copy);

    for (size_t i = 0; i < 8; i++) {
        out = 0;
        assert_int_equal(gp_gguf_u32(g, fits[i], &out, &err), GP_OK);
        assert_int_equal(out, 77);
    }
    gp_gguf_close(g);
    free(copy);

    g = open_numbers(-1, &copy);
    for (size_t i = 0; i < 8; i++) {
        bool ok = i == 0 || i == 2 || i == 4;

        out = 123;
        assert_int_equal(gp_gguf_u32(g, fits[i], &out, &err), ok ? GP_OK : GP_ECORRUPT);
        assert_int_equal(out, i == 0 ? 255 : i == 2 ? 65535 : i == 4 ? UINT32_MAX : 123);
        if (!ok) {
            assert_non_null(strstr(err.message, fits[i]));
            assert_non_null(strstr(err.message, "out of range"));
        }
    }
    gp_gguf_close(g);
    free(copy);

    g = open_numbers(INT64_MIN, &copy);
    assert_int_equal(gp_gguf_u32(g, "i64", &out, &err), GP_ECORRUPT);
    assert_string_equal(err.message, "i64: -9223372036854775808 is out of range");
    gp_gguf_close(g);
    free(copy);
}

static void wrong_types_and_absent_keys_are_named(void **state)
{
    (void)state;
    struct gp_error err = {""};
    struct gp_str str = {"kept", 4}, *strings = &str;
    struct gp_gguf_array array = {.count = 9};
    uint32_t u32 = 9, count = 9;
    float f32 = 9;
    bool flag = true;
    void *copy;
    struct gp_gguf *g = open_numbers(1, &copy);

    assert_int_equal(gp_gguf_u32(g, "array", &u32, &err), GP_ECORRUPT);
    assert_string_equal(err.message, "array: the value is of type array, an integer was expected");
    assert_int_equal(gp_gguf_u32(g, "f32", &u32, &err), GP_ECORRUPT);
    assert_int_equal(gp_gguf_u32_or(g, "str", &u32, &err), GP_ECORRUPT);
    assert_int_equal(gp_gguf_f32(g, "u32", &f32, &err), GP_ECORRUPT);
    assert_int_equal(gp_gguf_f32_or(g, "f64", &f32, &err), GP_ECORRUPT);
    assert_string_equal(err.message, "f64: 1e+300 is out of range");
    assert_int_equal(gp_gguf_bool_or(g, "u8", &flag, &err), GP_ECORRUPT);
    assert_int_equal(gp_gguf_str(g, "u8", &str, &err), GP_ECORRUPT);
    assert_int_equal(gp_gguf_array(g, "str", &array, &err), GP_ECORRUPT);
    assert_int_equal(gp_gguf_strings(g, "str", &strings, &count, &err), GP_ECORRUPT);
    assert_int_equal(gp_gguf_strings(g, "array", &strings, &count, &err), GP_ECORRUPT);
    assert_string_equal(err.message, "array: an array of u32, strings were expected");

    assert_int_equal(gp_gguf_u32(g, "no.such", &u32, &err), GP_EINVAL);
    assert_string_equal(err.message, "no.such: the key is missing");
    assert_int_equal(gp_gguf_f32(g, "no.such", &f32, NULL), GP_EINVAL);
    assert_int_equal(gp_gguf_str(g, "no.such", &str, NULL), GP_EINVAL);
    assert_int_equal(gp_gguf_array(g, "no.such", &array, NULL), GP_EINVAL);
    assert_int_equal(gp_gguf_strings(g, "no.such", &strings, &count, NULL), GP_EINVAL);
    assert_int_equal(gp_gguf_u32_or(g, "no.such", &u32, &err), GP_OK);
    assert_int_equal(gp_gguf_f32_or(g, "no.such", &f32, &err), GP_OK);
    assert_int_equal(gp_gguf_bool_or(g, "no.such", &flag, &err), GP_OK);
    assert_int_equal(gp_gguf_str_or(g, "no.such", &str, &err), GP_OK);
    assert_true(u32 == 9 && f32 == 9 && flag && count == 9 && array.count == 9);
    assert_true(strings == &str && str.length == 4);
    assert_false(gp_gguf_has(g, "no.such"));
    assert_null(gp_gguf_find_tensor(g, "no.such"));
    gp_gguf_close(g);
    free(copy);
}

static void keys_are_described_in_a_line(void **state)
{
    (void)state;
    static const char *const lines[] = {"u8 u8 254",
                                        "i8 i8 -2",
                                        "u16 u16 65534",
                                        "i16 i16 -2",
                                        "u32 u32 4294967294",
                                        "i32 i32 -2",
                                        "u64 u64 18446744073709551614",
                                        "i64 i64 -2",
                                        "f32 f32 0.5",
                                        "f64 f64 1e+300",
                                        "str str text",
                                        "array u32[2]"};
    char line[64];
    void *copy;
    struct gp_gguf *g = open_numbers(-2, &copy);

    for (uint32_t i = 0; i < gp_gguf_key_count(g); i++) {
        gp_gguf_describe_key(g, i, line, sizeof line);
        assert_string_equal(line, lines[i]);
    }
    gp_gguf_close(g);
    free(copy);
}

/* Long text is cut between characters. */
static void long_values_are_described_in_part(void **state)
{
    (void)state;
    char text[301] = "x", line[300];
    void *copy;

    for (int i = 0; i < 149; i++)
        memcpy(text + 1 + 2 * i, "\xc3\xa9", 3);
    test_gguf_header(&file, 3, 0, 1);
    test_gguf_key(&file, "k", GP_GGUF_STRING);
    test_gguf_str(&file, text);
    struct gp_gguf *g = test_gguf_open(&file, &copy);

    gp_gguf_describe_key(g, 0, line, sizeof line);
    assert_int_equal(strlen(line), strlen("k str ") + 99 + strlen("..."));
    assert_memory_equal(line + 6, text, 99);
    assert_string_equal(line + 6 + 99, "...");
    gp_gguf_describe_key(g, 0, line, 4);
    assert_string_equal(line, "k s");
    gp_gguf_close(g);
    free(copy);
}

static void thousands_of_names_are_found(void **state)
{
    (void)state;
    struct gp_gguf_writer *w = NULL;
    struct gp_gguf *g = NULL;
    char folder[200], path[256], name[40];
    uint64_t dims[1] = {1};

    assert_int_equal(gp_gguf_writer_open(&w, NULL), GP_OK);
    for (uint32_t i = 0; i < 3000; i++) {
        float value = (float)i;

        snprintf(name, sizeof name, "key.%u", i * 7919 % 3000);
        gp_gguf_add_u32(w, name, i);
        snprintf(name, sizeof name, "tensor.%u", i * 7919 % 3000);
        gp_gguf_add_tensor(w, name, GP_TYPE_F32, 1, dims, &value);
    }
    test_temporary_folder(folder, sizeof folder);
    test_file_path(path, sizeof path, folder, "many.gguf");
    assert_int_equal(gp_gguf_writer_write(w, path, NULL), GP_OK);
    gp_gguf_writer_close(w);
    assert_int_equal(gp_gguf_open(&g, path, NULL), GP_OK);
    for (uint32_t i = 0; i < 3000; i++) {
        uint32_t value = 0;

        snprintf(name, sizeof name, "key.%u", i * 7919 % 3000);
        assert_int_equal(gp_gguf_u32(g, name, &value, NULL), GP_OK);
        assert_int_equal(value, i);
        snprintf(name, sizeof name, "tensor.%u", i * 7919 % 3000);
        assert_true(*(const float *)gp_gguf_find_tensor(g, name)->data == (float)i);
        assert_ptr_equal(gp_gguf_find_tensor(g, name), gp_gguf_tensor(g, i));
    }
    gp_gguf_close(g);
    unlink(path);
    rmdir(folder);
}

/* ---- files ---- */

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    char folder[200], path[256];
    struct gp_gguf *g = NULL;
    struct gp_error err = {""};

    test_temporary_folder(folder, sizeof folder);
    test_file_path(path, sizeof path, folder, "x");
    assert_int_equal(gp_gguf_open(&g, path, &err), GP_EIO);
    assert_non_null(strstr(err.message, "No such file"));
    assert_non_null(strstr(err.message, path));
    assert_int_equal(gp_gguf_open(&g, folder, &err), GP_EINVAL);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(gp_gguf_open(&g, path, &err), GP_EINVAL);
    assert_non_null(strstr(err.message, "not a regular file"));
    unlink(path);
    test_write_bytes(path, "", 0);
    assert_int_equal(gp_gguf_open(&g, path, &err), GP_ECORRUPT);
    assert_non_null(strstr(err.message, "empty"));
    assert_null(g);
    unlink(path);
    rmdir(folder);
    gp_gguf_close(NULL);
}

/* ---- writer ---- */

static void what_is_written_is_read_again(void **state)
{
    (void)state;
    void *copy;
    struct gp_str str, *strings;
    struct gp_gguf_array array;
    uint32_t u32 = 0, count;
    float f32 = 0;
    bool flag = false;
    uint64_t wide[2];

    test_gguf_varied(&file);
    struct gp_gguf *g = test_gguf_open(&file, &copy);

    assert_int_equal(gp_gguf_version(g), 3);
    assert_int_equal(gp_gguf_file_bytes(g), file.length);
    assert_int_equal(gp_gguf_key_count(g), 8);
    assert_memory_equal(gp_gguf_key(g, 0).bytes, "general.architecture", 20);
    assert_int_equal(gp_gguf_str(g, "general.architecture", &str, NULL), GP_OK);
    assert_true(str.length == 5 && memcmp(str.bytes, "llama", 5) == 0);
    assert_int_equal(gp_gguf_u32(g, "llama.block_count", &u32, NULL), GP_OK);
    assert_int_equal(u32, 2);
    assert_int_equal(gp_gguf_f32(g, "llama.rope.freq_base", &f32, NULL), GP_OK);
    assert_true(f32 == 10000.0f);
    assert_int_equal(gp_gguf_bool_or(g, "tokenizer.ggml.add_bos_token", &flag, NULL), GP_OK);
    assert_true(flag);
    assert_int_equal(gp_gguf_strings(g, "tokenizer.ggml.tokens", &strings, &count, NULL), GP_OK);
    assert_int_equal(count, 4);
    assert_int_equal(strings[0].length, 0);
    assert_memory_equal(strings[2].bytes, "\xc4\xa0the", 5);
    assert_true(strings[3].length == 3 && memcmp(strings[3].bytes, "b\0c", 3) == 0);
    gp_mem_free(strings);
    assert_int_equal(gp_gguf_array(g, "wide", &array, NULL), GP_OK);
    assert_true(array.type == GP_GGUF_U64 && array.count == 2);
    memcpy(wide, array.data, sizeof wide);
    assert_true(wide[0] == 1 && wide[1] == UINT64_MAX);
    assert_int_equal(gp_gguf_array(g, "none", &array, NULL), GP_OK);
    assert_true(array.type == GP_GGUF_F32 && array.count == 0);

    assert_int_equal(gp_gguf_tensor_count(g), 4);
    const struct gp_gguf_tensor *t = gp_gguf_find_tensor(g, "cube");

    assert_ptr_equal(t, gp_gguf_tensor(g, 3));
    assert_true(t->dim_count == 4 && t->dims[0] == 5 && t->dims[3] == 3 && t->bytes == 60);
    assert_memory_equal(t->data, "\1\2\3\0", 4);
    assert_int_equal(gp_gguf_find_tensor(g, "blk.0.attn_k.weight")->type, GP_TYPE_Q4_K);
    gp_gguf_close(g);
    free(copy);
}

static int number_rows(void *ctx, uint64_t begin, uint64_t end, void *out, struct gp_error *err)
{
    uint64_t *next = ctx;
    float *rows = out;

    if (*next != begin)
        return gp_fail(err, GP_EINVAL, "row %llu out of order", (unsigned long long)begin);
    for (; *next < end; (*next)++)
        for (uint32_t i = 0; i < 1000; i++)
            rows[(*next - begin) * 1000 + i] = (float)(*next * 1000 + i);
    return GP_OK;
}

static int refuse_rows(void *ctx, uint64_t begin, uint64_t end, void *out, struct gp_error *err)
{
    (void)ctx;
    (void)out;
    (void)end;
    return begin == 0 ? GP_OK : gp_fail(err, GP_EAGAIN, "no more rows");
}

static void rows_are_asked_for_in_order(void **state)
{
    (void)state;
    char folder[200], path[256];
    struct gp_error err = {""};
    struct gp_gguf *g = NULL;
    uint64_t next = 0, dims[3] = {1000, 50, 60};

    test_temporary_folder(folder, sizeof folder);
    test_file_path(path, sizeof path, folder, "rows.gguf");
    for (int refuse = 1; refuse >= 0; refuse--) {
        struct gp_gguf_writer *w = NULL;

        assert_int_equal(gp_gguf_writer_open(&w, &err), GP_OK);
        gp_gguf_add_tensor_rows(w, "big", GP_TYPE_F32, 3, dims, refuse ? refuse_rows : number_rows,
                                &next);
        assert_int_equal(gp_gguf_writer_write(w, path, &err), refuse ? GP_EAGAIN : GP_OK);
        gp_gguf_writer_close(w);
        assert_int_equal(access(path, F_OK), refuse ? -1 : 0);
    }
    assert_int_equal(gp_gguf_open(&g, path, &err), GP_OK);
    const struct gp_gguf_tensor *t = gp_gguf_find_tensor(g, "big");

    for (uint32_t i = 0; i < 3000000; i++)
        assert_true(((const float *)t->data)[i] == (float)i);
    gp_gguf_drop_pages(g);
    assert_true(((const float *)t->data)[2999999] == 2999999.0f);
    gp_gguf_close(g);
    unlink(path);
    assert_int_equal(rmdir(folder), 0); /* no temporary file is left */
}

static void writer_refuses_what_the_reader_would(void **state)
{
    (void)state;
    static const uint8_t data[1024];
    uint64_t dims[2] = {32, 1};
    char name[80];

    memset(name, 'n', 79);
    name[79] = '\0';
    for (int kind = 0; kind < 9; kind++) {
        struct gp_gguf_writer *w = NULL;
        struct gp_error err = {""};

        assert_int_equal(gp_gguf_writer_open(&w, &err), GP_OK);
        gp_gguf_add_u32(w, "key", 1);
        gp_gguf_add_tensor(w, "tensor", GP_TYPE_F32, 2, dims, data);
        switch (kind) {
        case 0:
            gp_gguf_add_f32(w, "key", 1.0f);
            break;
        case 1:
            gp_gguf_add_str(w, "", "x", 1);
            break;
        case 2:
            gp_gguf_add_tensor(w, "tensor", GP_TYPE_F32, 2, dims, data);
            break;
        case 3:
            gp_gguf_add_tensor(w, name, GP_TYPE_F32, 2, dims, data);
            break;
        case 4:
            gp_gguf_add_tensor(w, "zero", GP_TYPE_F32, 2, (uint64_t[]){32, 0}, data);
            break;
        case 5:
            gp_gguf_add_tensor(w, "block", GP_TYPE_Q4_K, 2, dims, data);
            break;
        case 6:
            gp_gguf_add_u32(w, "general.alignment", 48);
            break;
        case 7:
            gp_gguf_add_strings(w, "strings", NULL, UINT32_MAX);
            break;
        default:
            gp_gguf_add_tensor(w, "type", (enum gp_type)10, 2, dims, data);
            break;
        }
        gp_gguf_add_u32(w, "later", 1); /* does not hide the first failure */
        assert_int_not_equal(gp_gguf_writer_write(w, "/nonexistent/file", &err), GP_EIO);
        assert_true(strlen(err.message) > 0);
        gp_gguf_writer_close(w);
    }
}

static void writer_honours_an_alignment(void **state)
{
    (void)state;
    char folder[200], path[256];
    struct gp_gguf_writer *w = NULL;
    struct gp_error err = {""};
    float value[3] = {1, 2, 3};

    test_temporary_folder(folder, sizeof folder);
    test_file_path(path, sizeof path, folder, "aligned.gguf");
    assert_int_equal(gp_gguf_writer_open(&w, &err), GP_OK);
    gp_gguf_add_tensor(w, "a", GP_TYPE_F32, 1, (uint64_t[]){3}, value);
    gp_gguf_add_u32(w, "general.alignment", 1024);
    gp_gguf_add_tensor(w, "b", GP_TYPE_F32, 1, (uint64_t[]){3}, value);
    assert_int_equal(gp_gguf_writer_write(w, path, &err), GP_OK);
    gp_gguf_writer_close(w);
    file.length = test_read_bytes(path, file.bytes, sizeof file.bytes);
    assert_int_equal(file.length, 3072);
    void *copy;
    struct gp_gguf *g = test_gguf_open(&file, &copy);

    assert_true((uintptr_t)gp_gguf_tensor(g, 1)->data - (uintptr_t)copy == 2048);
    assert_memory_equal(gp_gguf_tensor(g, 1)->data, value, sizeof value);
    gp_gguf_close(g);
    free(copy);
    unlink(path);
    rmdir(folder);
}

static void a_failed_write_leaves_the_old_file(void **state)
{
    (void)state;
    char folder[200], path[256], inside[300];
    struct gp_gguf_writer *w = test_gguf_varied_writer();
    struct gp_error err = {""};

    assert_non_null(w);
    test_temporary_folder(folder, sizeof folder);
    test_file_path(path, sizeof path, folder, "taken");
    assert_int_equal(mkdir(path, 0700), 0); /* a file cannot be renamed over a folder */
    assert_int_equal(gp_gguf_writer_write(w, path, &err), GP_EIO);
    assert_non_null(strstr(err.message, path));
    test_file_path(inside, sizeof inside, path, "no/such/file");
    assert_int_equal(gp_gguf_writer_write(w, inside, &err), GP_EIO);
    rmdir(path);

    /* A full disk, as far as a test can have one. */
    struct rlimit limit, old;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    limit = (struct rlimit){.rlim_cur = 1000, .rlim_max = old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    int rc = gp_gguf_writer_write(w, path, &err);

    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(rc, GP_EIO);
    assert_non_null(strstr(err.message, "File too large"));
    assert_int_equal(access(path, F_OK), -1);
    gp_gguf_writer_close(w);
    assert_int_equal(rmdir(folder), 0);
}

/* ---- memory ---- */

static void open_survives_every_refused_allocation(void **state)
{
    (void)state;
    uint64_t live = gp_mem_live(), n = 0;
    char folder[200], path[256];

    test_gguf_varied(&file);
    test_temporary_folder(folder, sizeof folder);
    test_file_path(path, sizeof path, folder, "varied.gguf");
    test_write_bytes(path, file.bytes, file.length);
    do {
        struct gp_gguf *g = NULL;
        struct gp_str *strings = NULL;
        struct gp_error err = {""};
        uint32_t count;

        gp_mem_refuse_at(++n);
        int rc = gp_gguf_open(&g, path, &err);

        if (rc == GP_OK)
            rc = gp_gguf_strings(g, "tokenizer.ggml.tokens", &strings, &count, &err);
        assert_int_equal(rc, gp_mem_refused() ? GP_ENOMEM : GP_OK);
        assert_int_equal(err.message[0] != '\0', gp_mem_refused());
        gp_mem_free(strings);
        gp_gguf_close(g);
        assert_int_equal(gp_mem_live(), live);
    } while (gp_mem_refused());
    gp_mem_refuse_at(0);
    assert_true(n > 6);
    unlink(path);
    rmdir(folder);
}

static void writing_survives_every_refused_allocation(void **state)
{
    (void)state;
    uint64_t live = gp_mem_live(), n = 0, next;
    static char text[9000];
    char folder[200], path[256];
    struct gp_error err = {""};

    test_temporary_folder(folder, sizeof folder);
    test_file_path(path, sizeof path, folder, "varied.gguf");
    do {
        next = 0;
        gp_mem_refuse_at(++n);
        struct gp_gguf_writer *w = test_gguf_varied_writer();

        if (w) {
            /* Long values, so that the header grows several times. */
            gp_gguf_add_str(w, "long", text, 5000);
            gp_gguf_add_array(w, "longer", GP_GGUF_U8, text, 9000);
            gp_gguf_add_strings(w, "longest", (const struct gp_str[]){{text, 9000}, {text, 9000}},
                                2);
            gp_gguf_add_tensor_rows(w, "rows", GP_TYPE_F32, 2, (uint64_t[]){1000, 2}, number_rows,
                                    &next);
            int rc = gp_gguf_writer_write(w, path, &err);

            assert_int_equal(rc, gp_mem_refused() ? GP_ENOMEM : GP_OK);
        }
        gp_gguf_writer_close(w);
        assert_int_equal(gp_mem_live(), live);
        assert_int_equal(access(path, F_OK), gp_mem_refused() ? -1 : 0);
    } while (gp_mem_refused());
    gp_mem_refuse_at(0);
    assert_true(n > 20);
    unlink(path);
    assert_int_equal(rmdir(folder), 0);
}

/* ---- a real file ---- */

static void the_real_model_is_read(void **state)
{
    (void)state;
    struct gp_gguf *g = NULL;
    struct gp_error err = {""};
    struct gp_str *tokens = NULL;
    uint32_t blocks = 0, count = 0;

    if (access(SMOLLM, R_OK) != 0)
        skip();
    uint64_t best = UINT64_MAX;

    for (int round = 0; round < 5; round++) {
        uint64_t start = gp_clock_ns();

        gp_gguf_close(g);
        if (gp_gguf_open(&g, SMOLLM, &err) != GP_OK)
            fail_msg("%s", err.message);
        best = gp_clock_ns() - start < best ? gp_clock_ns() - start : best;
    }
    assert_true(best < 100000000u); /* hardening must not make a normal load crawl */
    assert_int_equal(gp_gguf_u32(g, "llama.block_count", &blocks, &err), GP_OK);
    assert_int_equal(blocks, 30);
    assert_int_equal(gp_gguf_tensor_count(g), 272);
    assert_int_equal(gp_gguf_strings(g, "tokenizer.ggml.tokens", &tokens, &count, &err), GP_OK);
    assert_int_equal(count, 49152);
    assert_true(tokens[1].length == 12 && memcmp(tokens[1].bytes, "<|im_start|>", 12) == 0);
    gp_mem_free(tokens);
    const struct gp_gguf_tensor *t = gp_gguf_find_tensor(g, "token_embd.weight");

    assert_true(t->type == GP_TYPE_Q8_0 && t->dims[0] == 576 && t->dims[1] == 49152);
    uint8_t first[64];

    memcpy(first, t->data, sizeof first);
    gp_gguf_drop_pages(g);
    assert_memory_equal(t->data, first, sizeof first);
    gp_gguf_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_of_any_width_are_read_or_refused),
        cmocka_unit_test(wrong_types_and_absent_keys_are_named),
        cmocka_unit_test(keys_are_described_in_a_line),
        cmocka_unit_test(long_values_are_described_in_part),
        cmocka_unit_test(thousands_of_names_are_found),
        cmocka_unit_test(what_is_no_file_is_refused),
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(rows_are_asked_for_in_order),
        cmocka_unit_test(writer_refuses_what_the_reader_would),
        cmocka_unit_test(writer_honours_an_alignment),
        cmocka_unit_test(a_failed_write_leaves_the_old_file),
        cmocka_unit_test(open_survives_every_refused_allocation),
        cmocka_unit_test(writing_survives_every_refused_allocation),
        cmocka_unit_test(the_real_model_is_read),
    };
    return cmocka_run_group_tests_name("gguf values", tests, NULL, NULL);
}
