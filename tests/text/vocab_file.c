#include "text/vocab_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"

#define LINE_BYTES 65536u
#define ROWS       8192u

static unsigned hex_digit(char c)
{
    assert_true((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'));
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* A field of hexadecimal bytes, "-" when there are none. */
static struct gp_text read_hex(const char *field)
{
    size_t length = strcmp(field, "-") == 0 ? 0 : strlen(field) / 2;
    char *bytes = gp_mem_alloc(length + 1);

    assert_non_null(bytes);
    for (size_t i = 0; i < length; i++)
        bytes[i] = (char)(hex_digit(field[2 * i]) << 4 | hex_digit(field[2 * i + 1]));
    return (struct gp_text){bytes, length};
}

static long number(const char *field)
{
    char *end;
    long value = strtol(field, &end, 10);

    assert_true(end != field && *end == '\0');
    return value;
}

static void read_token(struct test_vocab *v, char **rest)
{
    uint32_t i = v->vocab.token_count++;

    assert_true(i < ROWS);
    v->whole_ids[i] = (int32_t)number(strtok_r(NULL, " ", rest));
    ((int32_t *)v->vocab.types)[i] = (int32_t)number(strtok_r(NULL, " ", rest));
    ((float *)v->vocab.scores)[i] = strtof(strtok_r(NULL, " ", rest), NULL);
    ((struct gp_text *)v->vocab.tokens)[i] = read_hex(strtok_r(NULL, " ", rest));
}

static void read_merge(struct test_vocab *v, char **rest)
{
    struct gp_text left = v->vocab.tokens[number(strtok_r(NULL, " ", rest))];
    struct gp_text right = v->vocab.tokens[number(strtok_r(NULL, " ", rest))];
    size_t length = left.length + 1 + right.length;
    char *merge = gp_mem_alloc(length);

    assert_true(v->vocab.merge_count < ROWS);
    assert_non_null(merge);
    memcpy(merge, left.bytes, left.length);
    merge[left.length] = ' ';
    memcpy(merge + left.length + 1, right.bytes, right.length);
    ((struct gp_text *)v->vocab.merges)[v->vocab.merge_count++] = (struct gp_text){merge, length};
}

static void read_case(struct test_vocab *v, char **rest)
{
    struct test_vocab_case *c = &v->cases[v->case_count++];
    char *field;

    assert_true(v->case_count <= ROWS);
    c->special = number(strtok_r(NULL, " ", rest)) != 0;
    struct gp_text text = read_hex(strtok_r(NULL, " ", rest));

    c->text = (char *)text.bytes;
    c->length = text.length;
    c->ids = gp_mem_alloc_array(TEST_VOCAB_CASE_IDS, sizeof *c->ids);
    assert_non_null(c->ids);
    while ((field = strtok_r(NULL, " ", rest))) {
        assert_true(c->id_count < TEST_VOCAB_CASE_IDS);
        c->ids[c->id_count++] = (int32_t)number(field);
    }
}

static void read_setting(struct test_vocab *v, const char *name, const char *value)
{
    const struct {
        const char *name;
        int *out;
    } numbers[] = {
        {"bos", &v->vocab.bos},
        {"eos", &v->vocab.eos},
        {"eot", &v->vocab.eot},
        {"eom", &v->vocab.eom},
        {"unk", &v->vocab.unk},
        {"pad", &v->vocab.pad},
        {"add_bos", &v->vocab.add_bos},
        {"add_eos", &v->vocab.add_eos},
        {"add_space_prefix", &v->vocab.add_space_prefix},
    };

    if (strcmp(name, "model") == 0) {
        v->vocab.model = gp_mem_copy(value, strlen(value));
        return;
    }
    if (strcmp(name, "pre") == 0) {
        v->vocab.pre = gp_mem_copy(value, strlen(value));
        return;
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(name, numbers[i].name) == 0) {
            *numbers[i].out = (int)number(value);
            return;
        }
    fail_msg("unknown line '%s'", name);
}

static void read_line(struct test_vocab *v, char *line)
{
    char *rest, *kind = strtok_r(line, " \n", &rest);

    if (!kind || *kind == '#')
        return;
    if (strcmp(kind, "t") == 0)
        read_token(v, &rest);
    else if (strcmp(kind, "m") == 0)
        read_merge(v, &rest);
    else if (strcmp(kind, "c") == 0)
        read_case(v, &rest);
    else
        read_setting(v, kind, strtok_r(NULL, " ", &rest));
}

void test_vocab_open(struct test_vocab *v, const char *path)
{
    FILE *file = fopen(path, "r");
    char *line = malloc(LINE_BYTES);

    *v = (struct test_vocab){
        .vocab = {.bos = -1, .eos = -1, .eot = -1, .eom = -1, .unk = -1, .pad = -1},
    };
    v->vocab.add_bos = v->vocab.add_eos = v->vocab.add_space_prefix = -1;
    v->vocab.tokens = gp_mem_alloc_array(ROWS, sizeof *v->vocab.tokens);
    v->vocab.types = gp_mem_alloc_array(ROWS, sizeof *v->vocab.types);
    v->vocab.scores = gp_mem_alloc_array(ROWS, sizeof *v->vocab.scores);
    v->vocab.merges = gp_mem_alloc_array(ROWS, sizeof *v->vocab.merges);
    v->whole_ids = gp_mem_alloc_array(ROWS, sizeof *v->whole_ids);
    v->cases = gp_mem_alloc_array(ROWS, sizeof *v->cases);
    assert_non_null(file);
    assert_non_null(line);
    while (fgets(line, LINE_BYTES, file)) {
        size_t length = strlen(line);

        assert_true(length > 0 && line[length - 1] == '\n');
        line[length - 1] = '\0';
        read_line(v, line);
    }
    fclose(file);
    free(line);
    int32_t *named[] = {
        &v->vocab.bos, &v->vocab.eos, &v->vocab.eot, &v->vocab.eom, &v->vocab.unk, &v->vocab.pad,
    };

    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (*named[i] >= 0)
            *named[i] = test_vocab_id(v, *named[i]);
}

void test_vocab_close(struct test_vocab *v)
{
    for (uint32_t i = 0; i < v->vocab.token_count; i++)
        gp_mem_free((char *)v->vocab.tokens[i].bytes);
    for (uint32_t i = 0; i < v->vocab.merge_count; i++)
        gp_mem_free((char *)v->vocab.merges[i].bytes);
    for (uint32_t i = 0; i < v->case_count; i++) {
        gp_mem_free(v->cases[i].text);
        gp_mem_free(v->cases[i].ids);
    }
    gp_mem_free((char *)v->vocab.model);
    gp_mem_free((char *)v->vocab.pre);
    gp_mem_free((void *)v->vocab.tokens);
    gp_mem_free((void *)v->vocab.types);
    gp_mem_free((void *)v->vocab.scores);
    gp_mem_free((void *)v->vocab.merges);
    gp_mem_free(v->whole_ids);
    gp_mem_free(v->cases);
}

int32_t test_vocab_id(const struct test_vocab *v, int32_t whole_id)
{
    for (uint32_t i = 0; i < v->vocab.token_count; i++)
        if (v->whole_ids[i] == whole_id)
            return (int32_t)i;
    fail_msg("token %d is not in the reduced vocabulary", whole_id);
    return GP_TOKEN_NONE;
}
