/* What the GGUF reader refuses: hostile, cut, altered and unsupported files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "model/gguf_files.h"

static uint64_t seed;
static struct test_gguf file;

/* ---- the tools of these tests ---- */

/* Opening these bytes fails with `status` and a line that names `what` and has `why` in it. */
static void assert_bytes_refused(const void *bytes, size_t length, int status, const char *what,
                                 const char *why)
{
    struct gp_gguf *gguf = (void *)&file; /* must stay as it is */
    struct gp_error err = {""};
    uint64_t live = gp_mem_live(), start = gp_clock_ns();
    void *copy = test_exact_copy(bytes, length);
    int rc = gp_gguf_open_bytes(&gguf, copy, length, &err);

    free(copy);
    if (rc != status || !strstr(err.message, what) || !strstr(err.message, why))
        fail_msg("status %d and \"%s ... %s\" wanted, got %d \"%s\"", status, what, why, rc,
                 err.message);
    assert_ptr_equal(gguf, &file);
    assert_int_equal(gp_mem_live(), live);
    assert_true(gp_clock_ns() - start < 1000000000u);
}

static void assert_refused(const char *what, const char *why)
{
    assert_bytes_refused(file.bytes, file.length, GP_ECORRUPT, what, why);
}

static void assert_opens(void)
{
    void *copy;

    gp_gguf_close(test_gguf_open(&file, &copy));
    free(copy);
}

/* One tensor "t" and room for `data_bytes` of it. */
static void one_tensor(uint32_t dim_count, const uint64_t *dims, uint32_t type, uint64_t offset,
                       size_t data_bytes)
{
    test_gguf_header(&file, 3, 1, 0);
    test_gguf_tensor(&file, "t", dim_count, dims, type, offset);
    test_gguf_pad(&file, 32);
    test_gguf_zeros(&file, data_bytes);
}

/* Two tensors "first" and "second" of eight floats. */
static void two_tensors(const char *first, const char *second, uint64_t offset, size_t data_bytes)
{
    uint64_t dims[1] = {16};

    test_gguf_header(&file, 3, 2, 0);
    test_gguf_tensor(&file, first, 1, dims, GP_TYPE_F32, 0);
    test_gguf_tensor(&file, second, 1, dims, GP_TYPE_F32, offset);
    test_gguf_pad(&file, 32);
    test_gguf_zeros(&file, data_bytes);
}

/* ---- the header ---- */

static void header_is_checked(void **state)
{
    (void)state;
    test_gguf_header(&file, 3, 0, 0);
    assert_opens();
    test_gguf_header(&file, 2, 0, 0);
    assert_opens();
    test_gguf_header(&file, 0, 0, 0);
    assert_refused("version 0", "not supported");
    test_gguf_header(&file, 1, 0, 0);
    assert_bytes_refused(file.bytes, file.length, GP_EINVAL, "version 1", "not supported");
    test_gguf_header(&file, 4, 0, 0);
    assert_bytes_refused(file.bytes, file.length, GP_EINVAL, "version 4", "not supported");
    test_gguf_header(&file, 0x03000000, 0, 0);
    assert_bytes_refused(file.bytes, file.length, GP_EINVAL, "big-endian", "version 3");
    test_gguf_header(&file, 3, 0, 0);
    memcpy(file.bytes, "GGML", 4);
    assert_refused("not a GGUF file", "");
    assert_bytes_refused("", 0, GP_ECORRUPT, "header", "cut off");
}

static void huge_counts_are_refused(void **state)
{
    (void)state;
    static const uint64_t huge[] = {UINT64_MAX,           UINT64_MAX / 2,      1ull << 63,
                                    (1ull << 61) + 1,     UINT64_MAX / 33 + 1, 1ull << 32,
                                    (1ull << 32) + 65536, UINT64_MAX / 14 + 1};

    for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
        test_gguf_header(&file, 3, huge[i], 0);
        assert_refused("header", "tensors, at most");
        test_gguf_header(&file, 3, 0, huge[i]);
        assert_refused("header", "keys, at most");

        test_gguf_header(&file, 3, 0, 1);
        test_gguf_u64(&file, huge[i]);
        test_gguf_zeros(&file, 64);
        assert_refused("key 0: name", "cut off");

        test_gguf_header(&file, 3, 1, 0);
        test_gguf_u64(&file, huge[i]);
        test_gguf_zeros(&file, 64);
        assert_refused("tensor 0: name", "cut off");

        test_gguf_header(&file, 3, 0, 1);
        test_gguf_key(&file, "k", GP_GGUF_STRING);
        test_gguf_u64(&file, huge[i]);
        test_gguf_zeros(&file, 64);
        assert_refused("key k", "cut off");

        for (uint32_t type = 0; type < 13; type++) {
            if (type == GP_GGUF_ARRAY)
                continue;
            test_gguf_header(&file, 3, 0, 1);
            test_gguf_key_array(&file, "k", type, huge[i]);
            test_gguf_zeros(&file, 64);
            assert_refused("key k", type == GP_GGUF_STRING ? "strings, at most" : "cut off");
        }
    }
    test_gguf_header(&file, 3, 2, 0);
    test_gguf_zeros(&file, 64);
    assert_refused("header", "2 tensors cannot lie in the 64 bytes");
    test_gguf_header(&file, 3, 0, 5);
    test_gguf_zeros(&file, 64);
    assert_refused("header", "5 keys cannot lie in the 64 bytes");
    /* As many empty strings as the limit lets pass, in a file without them. */
    test_gguf_header(&file, 3, 0, 1);
    test_gguf_key_array(&file, "k", GP_GGUF_STRING, 1u << 20);
    test_gguf_zeros(&file, 64);
    assert_refused("key k", "cut off");
}

static long resident_max_kib(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* Sparse files are free to make, and zeros are valid strings and names' lengths. */
static void huge_files_cost_little(void **state)
{
    (void)state;
    char folder[200], path[256];
    struct gp_error err = {""};
    struct gp_gguf *gguf = NULL;

    test_temporary_folder(folder, sizeof folder);
    test_file_path(path, sizeof path, folder, "huge.gguf");
    for (int kind = 0; kind < 4; kind++) {
        test_gguf_header(&file, 3, kind == 3 ? 65536 : 0, kind < 2 ? 2 : kind == 2 ? 1u << 30 : 0);
        if (kind < 2)
            test_gguf_key_array(&file, "many", kind == 0 ? GP_GGUF_STRING : GP_GGUF_U8,
                                kind == 0 ? 1u << 21 : 1ull << 33);
        test_write_bytes(path, file.bytes, file.length);
        assert_int_equal(truncate(path, 1ll << 36), 0);

        long before = resident_max_kib();
        uint64_t start = gp_clock_ns();

        assert_int_equal(gp_gguf_open(&gguf, path, &err), GP_ECORRUPT);
        assert_true(gp_clock_ns() - start < 1000000000u);
        assert_true(resident_max_kib() - before < 100 * 1024);
        assert_non_null(strstr(err.message, path));
        assert_non_null(
            strstr(err.message, (const char *[]){"key 1: the name is empty", "larger than 64 MiB",
                                                 "at most", "tensor 0: the name is empty"}[kind]));
    }
    unlink(path);
    rmdir(folder);
}

/* ---- keys ---- */

static void keys_are_checked(void **state)
{
    (void)state;
    char name[40];

    test_gguf_header(&file, 3, 0, 1);
    test_gguf_key_u32(&file, "", 1);
    assert_refused("key 0", "empty");

    test_gguf_header(&file, 3, 0, 3);
    test_gguf_key_u32(&file, "twice", 1);
    test_gguf_key_u32(&file, "other", 1);
    test_gguf_key_u32(&file, "twice", 2);
    assert_refused("key twice", "in the file twice");

    for (uint32_t i = 0; i < 3; i++) {
        test_gguf_header(&file, 3, 0, 1);
        test_gguf_key(&file, "k", (const uint32_t[]){13, 255, UINT32_MAX}[i]);
        test_gguf_zeros(&file, 64);
        snprintf(name, sizeof name, "type %u", (const uint32_t[]){13, 255, UINT32_MAX}[i]);
        assert_refused("key k", name);
        test_gguf_header(&file, 3, 0, 1);
        test_gguf_key_array(&file, "k", (const uint32_t[]){13, 255, UINT32_MAX}[i], 1);
        test_gguf_zeros(&file, 64);
        assert_refused("key k", name);
    }
    for (uint32_t value = 0; value < 4; value++) {
        uint8_t byte = (uint8_t)value;

        test_gguf_header(&file, 3, 0, 2);
        test_gguf_key(&file, "flag", GP_GGUF_BOOL);
        test_gguf_put(&file, &byte, 1);
        test_gguf_key_array(&file, "flags", GP_GGUF_BOOL, 1);
        test_gguf_put(&file, &byte, 1);
        if (value > 1)
            assert_refused("key flag", "not 0 or 1");
        else
            assert_opens();
    }
}

static void names_cannot_break_a_terminal(void **state)
{
    (void)state;
    struct gp_error err = {""};
    struct gp_gguf *gguf = NULL;

    test_gguf_header(&file, 3, 0, 1);
    test_gguf_key(&file, "\033[2J\n\r\x7f", 99);
    test_gguf_zeros(&file, 64);
    void *copy = test_exact_copy(file.bytes, file.length);

    assert_int_equal(gp_gguf_open_bytes(&gguf, copy, file.length, &err), GP_ECORRUPT);
    free(copy);
    for (const char *c = err.message; *c; c++)
        assert_true((unsigned char)*c >= 0x20 && *c != 0x7f);

    test_gguf_header(&file, 3, 0, 1);
    test_gguf_key(&file, "\033k", GP_GGUF_STRING);
    test_gguf_str(&file, "\033[2J\n\xff");
    char line[64];

    gguf = test_gguf_open(&file, &copy);
    gp_gguf_describe_key(gguf, 0, line, sizeof line);
    assert_string_equal(line, "?k str ?[2J??");
    gp_gguf_close(gguf);
    free(copy);
}

/* A long name must not push the reason out of the message. */
static void long_names_leave_room_for_the_reason(void **state)
{
    (void)state;
    /* The tensors' names must not be longer than 63, the keys' than 65,535. */
    size_t lengths[] = {64, 1000, 60000};

    for (size_t i = 0; i < 3; i++) {
        char *name = calloc(1, lengths[i] + 1);

        memset(name, 'n', lengths[i]);
        test_gguf_header(&file, 3, 0, 1);
        test_gguf_key(&file, name, 99);
        assert_refused("nnnn", "unknown value type 99");
        test_gguf_header(&file, 3, 1, 0);
        test_gguf_tensor(&file, name, 1, (uint64_t[]){8}, GP_TYPE_F32, 0);
        test_gguf_pad(&file, 32);
        test_gguf_zeros(&file, 32);
        assert_refused("tensor nnnn", "at most 63");
        free(name);
    }
}

/* Longer than a test file: the header alone is written, the rest are zeros. */
static void keys_have_at_most_65535_bytes(void **state)
{
    (void)state;
    uint8_t *bytes = calloc(1, 200000);

    for (uint64_t length = 65535; length <= 65536; length++) {
        test_gguf_header(&file, 3, 0, 1);
        test_gguf_u64(&file, length);
        memcpy(bytes, file.bytes, file.length);
        memset(bytes + file.length, 'n', length);
        assert_bytes_refused(bytes, file.length + length + (length == 65535 ? 4 : 100), GP_ECORRUPT,
                             "key nnnn", length == 65535 ? "cut off" : "at most 65535");
    }
    free(bytes);
}

static void nested_arrays_are_refused(void **state)
{
    (void)state;
    test_gguf_header(&file, 3, 0, 1);
    test_gguf_key_array(&file, "nest", GP_GGUF_ARRAY, 1);
    for (int depth = 0; depth < 1000; depth++) {
        test_gguf_u32(&file, GP_GGUF_ARRAY);
        test_gguf_u64(&file, 1);
    }
    test_gguf_u32(&file, GP_GGUF_U8);
    test_gguf_u64(&file, 0);
    assert_refused("key nest", "array of arrays");
}

static void split_files_are_refused_by_name(void **state)
{
    (void)state;
    uint16_t parts = 5;

    test_gguf_header(&file, 3, 0, 1);
    test_gguf_key(&file, "split.count", GP_GGUF_U16);
    test_gguf_put(&file, &parts, 2);
    assert_bytes_refused(file.bytes, file.length, GP_EINVAL, "split.count", "one of 5 parts");
    test_gguf_header(&file, 3, 0, 1);
    test_gguf_key_u32(&file, "split.count", 1);
    assert_opens();
}

static void alignment_is_honoured(void **state)
{
    (void)state;
    static const uint32_t wrong[] = {0, 1, 8, 16, 31, 33, 48, 131072, 1u << 31, UINT32_MAX};
    static const uint32_t right[] = {32, 64, 256, 4096};
    uint64_t dims[1] = {8};
    void *copy;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        test_gguf_header(&file, 3, 0, 1);
        test_gguf_key_u32(&file, "general.alignment", wrong[i]);
        assert_refused("general.alignment", "power of two");
    }
    test_gguf_header(&file, 3, 0, 1);
    test_gguf_key(&file, "general.alignment", GP_GGUF_STRING);
    test_gguf_str(&file, "32");
    assert_refused("general.alignment", "type str");
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        for (uint32_t off = 0; off < 2; off++) {
            test_gguf_header(&file, 3, 2, 1);
            test_gguf_key_u32(&file, "general.alignment", right[i]);
            test_gguf_tensor(&file, "a", 1, dims, GP_TYPE_F32, 0);
            test_gguf_tensor(&file, "b", 1, dims, GP_TYPE_F32, right[i] + (off ? 16 : 0));
            test_gguf_pad(&file, right[i]);
            size_t data = file.length;

            test_gguf_zeros(&file, right[i] * 3);
            file.bytes[data + right[i]] = 77;
            if (off) {
                assert_refused("tensor b", "not a multiple of");
                continue;
            }
            struct gp_gguf *gguf = test_gguf_open(&file, &copy);

            assert_int_equal(*(const uint8_t *)gp_gguf_find_tensor(gguf, "b")->data, 77);
            gp_gguf_close(gguf);
            free(copy);
        }
}

/* ---- tensors ---- */

static void zero_dimensions_are_refused(void **state)
{
    (void)state;
    one_tensor(2, (uint64_t[]){1, 0}, GP_TYPE_F32, 0, 64);
    file.length = 65; /* the file of the report */
    assert_refused("tensor t", "dimension 1 is 0");
    for (uint32_t zero = 0; zero < 4; zero++)
        for (uint32_t type = 0; type < 31; type++) {
            uint64_t dims[4] = {256, 256, 256, 256};

            if (!gp_type_info(type))
                continue;
            dims[zero] = 0;
            one_tensor(4, dims, type, 0, 64);
            assert_refused("tensor t", "is 0");
        }
}

static void dimension_counts_are_checked(void **state)
{
    (void)state;
    uint64_t dims[5] = {2, 2, 2, 2, 2};

    for (uint32_t count = 0; count <= 5; count++) {
        one_tensor(count, dims, GP_TYPE_F32, 0, 128);
        if (count >= 1 && count <= 4)
            assert_opens();
        else
            assert_refused("tensor t", "dimensions, not 1 to 4");
    }
    test_gguf_header(&file, 3, 1, 0);
    test_gguf_str(&file, "t");
    test_gguf_u32(&file, UINT32_MAX);
    test_gguf_zeros(&file, 64);
    assert_refused("tensor t", "4294967295 dimensions");
}

static void products_cannot_wrap(void **state)
{
    (void)state;
    one_tensor(2, (uint64_t[]){1ull << 32, 1ull << 32}, GP_TYPE_F32, 0, 64);
    assert_refused("tensor t", "product");
    one_tensor(2, (uint64_t[]){1ull << 32, 1ull << 32}, GP_TYPE_Q4_K, 0, 64);
    assert_refused("tensor t", "product");
    one_tensor(1, (uint64_t[]){1ull << 62}, GP_TYPE_F32, 0, 64);
    assert_refused("tensor t", "size in bytes");
    one_tensor(1, (uint64_t[]){(1ull << 62) + 16}, GP_TYPE_F32, 0, 64);
    assert_refused("tensor t", "size in bytes");
    one_tensor(2, (uint64_t[]){(1ull << 42) + 1, 1}, GP_TYPE_F32, 0, 64);
    assert_refused("tensor t", "beyond the end");
    one_tensor(2, (uint64_t[]){1ull << 31, 2}, GP_TYPE_Q4_K, 0, 64);
    assert_refused("tensor t", "beyond the end");
    one_tensor(4, (uint64_t[]){1ull << 16, 1ull << 16, 1ull << 16, 1ull << 16}, GP_TYPE_F32, 0, 64);
    assert_refused("tensor t", "product");
    one_tensor(1, (uint64_t[]){8}, GP_TYPE_F32, UINT64_MAX - 31, 64);
    assert_refused("tensor t", "beyond the end");
    one_tensor(1, (uint64_t[]){16}, GP_TYPE_F32, UINT64_MAX - 31, 64);
    assert_refused("tensor t", "beyond the end");
}

static void rows_are_whole_blocks(void **state)
{
    (void)state;
    for (uint32_t type = 0; type < 31; type++) {
        const struct gp_type_info *info = gp_type_info(type);

        if (!info || info->block_elems == 1)
            continue;
        one_tensor(2, (uint64_t[]){info->block_elems - 1, 256}, type, 0, 32768);
        assert_refused("tensor t", "not whole blocks");
        one_tensor(2, (uint64_t[]){info->block_elems / 2, 2}, type, 0, 32768);
        assert_refused("tensor t", "not whole blocks");
        one_tensor(2, (uint64_t[]){info->block_elems, 3}, type, 0, 3 * (size_t)info->block_bytes);
        assert_opens();
        file.length--;
        assert_refused("tensor t", "beyond the end");
    }
}

static void types_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        uint32_t type;
        int status;
        const char *why;
    } cases[] = {
        {4, GP_EINVAL, "type Q4_2 (4) was removed"},
        {5, GP_EINVAL, "type Q4_3 (5) was removed"},
        {33, GP_EINVAL, "type Q4_0_8_8 (33) was removed"},
        {36, GP_EINVAL, "type IQ4_NL_4_4 (36) was removed"},
        {10, GP_EINVAL, "type Q2_K (10) is not supported"},
        {24, GP_EINVAL, "type I8 (24) is not supported"},
        {39, GP_EINVAL, "type MXFP4 (39) is not supported"},
        {255, GP_ECORRUPT, "unknown type 255"},
        {UINT32_MAX, GP_ECORRUPT, "unknown type 4294967295"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        one_tensor(1, (uint64_t[]){256}, cases[i].type, 0, 4096);
        assert_bytes_refused(file.bytes, file.length, cases[i].status, "tensor t", cases[i].why);
    }
}

static void names_are_checked(void **state)
{
    (void)state;
    char name[65] = "";

    memset(name, 'n', 64);
    two_tensors("a", name, 64, 128);
    assert_refused("tensor nnnn", "a name of 64 bytes, at most 63");
    name[63] = '\0';
    two_tensors("a", name, 64, 128);
    assert_opens();
    two_tensors("a", "", 64, 128);
    assert_refused("tensor 1", "empty");
    two_tensors("same", "same", 64, 128);
    assert_refused("tensor same", "in the file twice");
}

static void places_are_checked(void **state)
{
    (void)state;
    two_tensors("a", "b", 64, 128);
    assert_opens();
    two_tensors("a", "b", 64, 127);
    assert_refused("tensor b", "beyond the end");
    two_tensors("a", "b", 64, 0);
    assert_refused("tensor a", "beyond the end");
    two_tensors("a", "b", 0, 128);
    assert_refused("tensor", "overlaps tensor");
    two_tensors("a", "b", 32, 128);
    assert_refused("tensor b", "overlaps tensor a");
    two_tensors("a", "b", 65, 256);
    assert_refused("tensor b", "not a multiple of 32");
    two_tensors("a", "b", 1u << 20, 128);
    assert_refused("tensor b", "beyond the end");
    /* A gap between tensors hurts nobody. */
    two_tensors("a", "b", 128, 192);
    assert_opens();
}

/* The data of a file may begin before its end is reached by padding. */
static void cut_files_are_refused(void **state)
{
    (void)state;
    struct gp_rng rng = {seed};

    test_gguf_varied(&file);
    size_t whole = file.length;
    static struct test_gguf kept;

    kept = file;
    for (size_t cut = 0; cut < whole; cut += cut < 200 ? 1 : 1 + gp_rng_below(&rng, 17)) {
        struct gp_error err = {""};
        struct gp_gguf *gguf = NULL;
        void *copy = test_exact_copy(kept.bytes, cut);
        int rc = gp_gguf_open_bytes(&gguf, copy, cut, &err);

        /* The last tensor's padding may be missing. */
        if (rc == GP_OK)
            assert_true(cut + 32 > whole);
        else
            assert_true(rc == GP_ECORRUPT && err.message[0] != '\0');
        gp_gguf_close(gguf);
        free(copy);
    }
}

static void flipped_bytes_never_escape(void **state)
{
    (void)state;
    static struct test_gguf valid;
    struct gp_rng rng = {seed};
    uint32_t opened = 0, refused = 0;
    uint64_t live = gp_mem_live();

    test_gguf_varied(&file);
    valid = file;
    for (uint32_t round = 0; round < 50000; round++) {
        uint8_t *copy = test_exact_copy(valid.bytes, valid.length);
        struct gp_error err = {""};
        struct gp_gguf *gguf = NULL;

        for (uint32_t flips = 1 + gp_rng_below(&rng, 4); flips > 0; flips--) {
            uint32_t at = gp_rng_below(&rng, 800);

            copy[at] = gp_rng_below(&rng, 2) ? (uint8_t)gp_rng_next(&rng)
                                             : copy[at] ^ (uint8_t)(1u << gp_rng_below(&rng, 8));
        }
        int rc = gp_gguf_open_bytes(&gguf, copy, valid.length, &err);

        if (rc == GP_OK) {
            const char *wrong = test_gguf_walk(gguf, copy, valid.length);

            if (wrong)
                fail_msg("GP_SEED=%llu: %s", (unsigned long long)seed, wrong);
            opened++;
        } else {
            assert_true(strlen(err.message) > 0);
            refused++;
        }
        gp_gguf_close(gguf);
        free(copy);
    }
    assert_int_equal(gp_mem_live(), live);
    assert_true(opened > 500 && refused > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_is_checked),
        cmocka_unit_test(huge_counts_are_refused),
        cmocka_unit_test(huge_files_cost_little),
        cmocka_unit_test(keys_are_checked),
        cmocka_unit_test(names_cannot_break_a_terminal),
        cmocka_unit_test(long_names_leave_room_for_the_reason),
        cmocka_unit_test(keys_have_at_most_65535_bytes),
        cmocka_unit_test(nested_arrays_are_refused),
        cmocka_unit_test(split_files_are_refused_by_name),
        cmocka_unit_test(alignment_is_honoured),
        cmocka_unit_test(zero_dimensions_are_refused),
        cmocka_unit_test(dimension_counts_are_checked),
        cmocka_unit_test(products_cannot_wrap),
        cmocka_unit_test(rows_are_whole_blocks),
        cmocka_unit_test(types_are_refused_by_name),
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(places_are_checked),
        cmocka_unit_test(cut_files_are_refused),
        cmocka_unit_test(flipped_bytes_never_escape),
    };
    const char *text = getenv("GP_SEED");

    seed = text ? strtoull(text, NULL, 0) : 20250101;
    return cmocka_run_group_tests_name("gguf", tests, NULL, NULL);
}
