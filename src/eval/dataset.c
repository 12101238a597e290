#include "eval/dataset.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>
#include <xxhash.h>

#include "base/mem.h"

#define ROOM_AT_LEAST 64u

/* What reasoning models were trained to be asked. */
static const char boxed[] =
    "\n\nPlease reason step by step, and put your final answer within \\boxed{}.";
/* ---- lines to items ---- */

static char *join(const char *const *parts)
{
    size_t length = 0, at = 0;

    for (const char *const *part = parts; *part; part++)
        length += strlen(*part);
    char *text = gp_mem_alloc(length + 1);
    for (; text && *parts; parts++) {
        memcpy(text + at, *parts, strlen(*parts));
        at += strlen(*parts);
    }
    return text;
}

/* The first of the fields that is there; NULL: none is. */
static const char *field(const json_t *object, const char *first, const char *second)
{
    const char *text = json_string_value(json_object_get(object, first));

    return text || !second ? text : json_string_value(json_object_get(object, second));
}

/* Behind the last "####", blanks aside; NULL: this is no answer of that form. */
static const char *marked_answer(const char *answer)
{
    const char *mark = NULL;

    for (const char *next = answer; (next = strstr(next, "####")); next += 4)
        mark = next + 4;
    return mark ? mark + strspn(mark, " ") : NULL;
}

/* The tests are checked now and read again when they are needed. */
static int read_program_item(const json_t *object, struct gp_dataset_item *item,
                             struct gp_error *err)
{
    struct gp_livecode tests;
    char what[160];
    int rc = gp_livecode_read(object, &tests, err);

    if (rc)
        return rc;
    snprintf(what, sizeof what, "%zu test%s of %s", json_array_size(tests.cases),
             json_array_size(tests.cases) == 1 ? "" : "s",
             tests.function ? tests.function : "standard output");
    gp_livecode_free(&tests);
    item->kind = GP_DATASET_PROGRAM;
    item->answer = gp_mem_copy(what, strlen(what));
    return gp_livecode_prompt(object, &item->prompt, err);
}

static int read_item(const json_t *object, struct gp_dataset_item *item, struct gp_error *err)
{
    const char *problem = field(object, "problem", "question");
    json_t *value = json_object_get(object, "answer");
    const char *answer = json_string_value(value);
    char digits[32];

    if (json_object_get(object, "question_content"))
        return read_program_item(object, item, err);
    if (!problem)
        return gp_fail(err, GP_ECORRUPT, "no problem, question or question_content");
    if (json_is_number(value)) {
        snprintf(digits, sizeof digits, "%.17g", json_number_value(value));
        answer = digits;
    }
    if (!answer)
        return gp_fail(err, GP_ECORRUPT, "no answer");
    const char *marked = marked_answer(answer);
    item->kind = marked ? GP_DATASET_NUMBER : GP_DATASET_BOX;
    answer = marked ? marked : answer;
    item->prompt = join((const char *const[]){problem, boxed, NULL});
    item->answer = gp_mem_copy(answer, strlen(answer));
    return GP_OK;
}

/* ---- files ---- */

static void free_item(struct gp_dataset_item *item)
{
    gp_mem_free(item->prompt);
    gp_mem_free(item->answer);
}

static int reserve(struct gp_dataset *dataset, struct gp_error *err)
{
    if (dataset->count < dataset->room)
        return GP_OK;
    uint32_t larger = dataset->room ? dataset->room * 2 : ROOM_AT_LEAST;
    void *grown = gp_mem_realloc(dataset->items, dataset->room * sizeof *dataset->items,
                                 larger * sizeof *dataset->items);
    if (!grown)
        return gp_fail(err, GP_ENOMEM, "out of memory");
    dataset->items = grown;
    dataset->room = larger;
    return GP_OK;
}

static json_t *read_line(const char *line, size_t length, struct gp_error *err)
{
    json_error_t why;
    json_t *object = json_loadb(line, length, JSON_REJECT_DUPLICATES, &why);

    if (!object)
        gp_error_set(err, "not JSON: %s", why.text);
    return object;
}

static int add_line(struct gp_dataset *dataset, const char *line, size_t length, off_t at,
                    struct gp_error *err)
{
    struct gp_dataset_item item = {.at = at, .length = length, .hash = XXH3_64bits(line, length)};
    int rc = reserve(dataset, err);

    if (rc)
        return rc;
    json_t *object = read_line(line, length, err);
    if (!object)
        return GP_ECORRUPT;
    rc = read_item(object, &item, err);
    json_decref(object);
    if (!rc && (!item.prompt || !item.answer))
        rc = gp_fail(err, GP_ENOMEM, "out of memory");
    if (rc) {
        free_item(&item);
        return rc;
    }
    dataset->programs = dataset->programs || item.kind == GP_DATASET_PROGRAM;
    dataset->items[dataset->count++] = item;
    return GP_OK;
}

static int read_lines(struct gp_dataset *dataset, FILE *file, uint32_t limit, struct gp_error *err)
{
    unsigned long long number = 0;
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    off_t at = 0;
    int rc = GP_OK;

    while (!rc && (limit == 0 || dataset->count < limit) &&
           (length = getline(&line, &room, file)) > 0) {
        number++;
        if (strspn(line, " \t\r\n") < (size_t)length)
            rc = add_line(dataset, line, (size_t)length, at, err);
        if (rc)
            gp_error_prefix(err, "line %llu", number);
        at += length;
    }
    if (!rc && ferror(file))
        rc = gp_fail(err, GP_EIO, "%s", strerror(errno));
    if (!rc && dataset->count == 0)
        rc = gp_fail(err, GP_ECORRUPT, "no problems in it");
    free(line);
    return rc;
}

/* What is read again must be a file. */
static int check_again(const struct gp_dataset *dataset, FILE *file, struct gp_error *err)
{
    struct stat st;

    if (dataset->programs && (fstat(fileno(file), &st) || !S_ISREG(st.st_mode)))
        return gp_fail(err, GP_EIO, "tests of programs can only be read from a regular file");
    return GP_OK;
}

int gp_dataset_open(struct gp_dataset **out, const char *path, uint32_t limit, struct gp_error *err)
{
    struct gp_dataset *dataset = gp_mem_alloc(sizeof *dataset);

    if (dataset)
        dataset->path = gp_mem_copy(path, strlen(path));
    if (!dataset || !dataset->path) {
        gp_dataset_close(dataset);
        return gp_fail(err, GP_ENOMEM, "%s: out of memory", path);
    }
    FILE *file = fopen(path, "re");
    int rc =
        file ? read_lines(dataset, file, limit, err) : gp_fail(err, GP_EIO, "%s", strerror(errno));
    if (!rc)
        rc = check_again(dataset, file, err);
    if (file)
        fclose(file);
    if (rc) {
        gp_error_prefix(err, "%s", path);
        gp_dataset_close(dataset);
        return rc;
    }
    gp_dataset_name(path, strlen(path), dataset->name);
    *out = dataset;
    return GP_OK;
}

void gp_dataset_close(struct gp_dataset *dataset)
{
    if (!dataset)
        return;
    for (uint32_t i = 0; i < dataset->count; i++)
        free_item(&dataset->items[i]);
    gp_mem_free(dataset->items);
    gp_mem_free(dataset->path);
    gp_mem_free(dataset);
}

/* ---- tests ---- */

/* Length bytes from there on; false with errno, which is 0 when the file is shorter now. */
static bool read_at(const char *path, off_t at, char *out, size_t length)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : 1;

    errno = fd < 0 ? errno : 0;
    while (got > 0 && length > 0) {
        got = pread(fd, out, length, at);
        if (got < 0)
            break;
        out += got;
        at += got;
        length -= (size_t)got;
    }
    if (fd >= 0)
        close(fd);
    return got >= 0 && length == 0;
}

int gp_dataset_tests(const struct gp_dataset *dataset, uint64_t index, struct gp_livecode *out,
                     struct gp_error *err)
{
    const struct gp_dataset_item *item = &dataset->items[index];
    char *line = gp_mem_alloc(item->length);
    int rc = GP_OK;

    if (!line)
        return gp_fail(err, GP_ENOMEM, "%s: out of memory", dataset->path);
    bool there = read_at(dataset->path, item->at, line, item->length);
    if (!there && errno)
        rc = gp_fail(err, GP_EIO, "%s: %s", dataset->path, strerror(errno));
    else if (!there || XXH3_64bits(line, item->length) != item->hash)
        rc = gp_fail(err, GP_ECORRUPT, "%s: it has changed since it was read", dataset->path);
    json_t *object = rc ? NULL : read_line(line, item->length, err);
    if (!rc)
        rc = object ? gp_livecode_read(object, out, err) : GP_ECORRUPT;
    json_decref(object);
    gp_mem_free(line);
    return rc;
}

/* ---- names ---- */

bool gp_dataset_is_path(const char *word, size_t length)
{
    return memchr(word, '/', length) || memchr(word, '.', length);
}

void gp_dataset_name(const char *path, size_t length, char out[GP_DATASET_NAME_BYTES])
{
    const char *slash = memrchr(path, '/', length);
    const char *name = slash ? slash + 1 : path;
    size_t name_length = length - (size_t)(name - path);
    const char *dot = memchr(name, '.', name_length);

    if (dot && dot > name)
        name_length = (size_t)(dot - name);
    gp_text_copy(out, GP_DATASET_NAME_BYTES, name, name_length);
}
