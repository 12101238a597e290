#include "eval/dataset.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

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

static int read_item(const json_t *object, struct gp_dataset_item *item, struct gp_error *err)
{
    const char *problem = field(object, "problem", "question");
    json_t *value = json_object_get(object, "answer");
    const char *answer = json_string_value(value);
    char digits[32];

    if (field(object, "question_content", NULL))
        return gp_fail(err, GP_EINVAL,
                       "LiveCodeBench is not available yet: its tests run programs");
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

static int add_line(struct gp_dataset *dataset, const char *line, size_t length,
                    struct gp_error *err)
{
    struct gp_dataset_item item = {0};
    json_error_t why;
    int rc = reserve(dataset, err);

    if (rc)
        return rc;
    json_t *object = json_loadb(line, length, JSON_REJECT_DUPLICATES, &why);
    if (!object)
        return gp_fail(err, GP_ECORRUPT, "not JSON: %s", why.text);
    rc = read_item(object, &item, err);
    json_decref(object);
    if (!rc && (!item.prompt || !item.answer))
        rc = gp_fail(err, GP_ENOMEM, "out of memory");
    if (rc)
        free_item(&item);
    else
        dataset->items[dataset->count++] = item;
    return rc;
}

static int read_lines(struct gp_dataset *dataset, FILE *file, struct gp_error *err)
{
    unsigned long long number = 0;
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    int rc = GP_OK;

    while (!rc && (length = getline(&line, &room, file)) > 0) {
        number++;
        if (strspn(line, " \t\r\n") == (size_t)length)
            continue;
        rc = add_line(dataset, line, (size_t)length, err);
        if (rc)
            gp_error_prefix(err, "line %llu", number);
    }
    if (!rc && ferror(file))
        rc = gp_fail(err, GP_EIO, "%s", strerror(errno));
    if (!rc && dataset->count == 0)
        rc = gp_fail(err, GP_ECORRUPT, "no problems in it");
    free(line);
    return rc;
}

int gp_dataset_open(struct gp_dataset **out, const char *path, struct gp_error *err)
{
    struct gp_dataset *dataset = gp_mem_alloc(sizeof *dataset);

    if (!dataset)
        return gp_fail(err, GP_ENOMEM, "%s: out of memory", path);
    FILE *file = fopen(path, "re");
    int rc = file ? read_lines(dataset, file, err) : gp_fail(err, GP_EIO, "%s", strerror(errno));
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
    gp_mem_free(dataset);
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
