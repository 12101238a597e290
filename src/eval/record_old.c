#include "eval/record_old.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define ROOM_AT_LEAST 256u

/* ---- the run ---- */

/* Of the first line, what two sittings of one run may differ in. */
static bool may_differ(const char *name)
{
    return strcmp(name, "started") == 0 || strcmp(name, "machine") == 0;
}

static char *text_of(const json_t *value)
{
    return value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6))
                 : strdup("missing");
}

/* "sampling.temperature is 0.6 there and 0.7 here" */
static int fail_setting(const char *name, const json_t *there, const json_t *here,
                        struct gp_error *err)
{
    char *old = text_of(there), *new = text_of(here);

    gp_error_set(err, "begun with other settings: %s is %.60s there and %.60s here", name,
                 old ? old : "?", new ? new : "?");
    free(old);
    free(new);
    return GP_EINVAL;
}

/* Compared as they are written, for what is written has six digits. */
static bool same_text(const json_t *a, const json_t *b)
{
    char *left = text_of(a), *right = text_of(b);
    bool same = left && right && strcmp(left, right) == 0;

    free(left);
    free(right);
    return same;
}

/* The first difference, by its full name. */
static int compare_settings(const char *name, const json_t *there, const json_t *here,
                            struct gp_error *err)
{
    char inner[128];
    const char *key;
    json_t *value;
    size_t i;

    if (same_text(there, here))
        return GP_OK;
    if (json_is_array(there) && json_array_size(there) == json_array_size(here)) {
        int rc = GP_OK;
        json_array_foreach(here, i, value)
        {
            snprintf(inner, sizeof inner, "%s[%zu]", name, i);
            if (!rc)
                rc = compare_settings(inner, json_array_get(there, i), value, err);
        }
        return rc;
    }
    if (!json_is_object(there) || !json_is_object(here))
        return fail_setting(name, there, here, err);
    json_object_foreach((json_t *)here, key, value)
    {
        snprintf(inner, sizeof inner, "%s%s%s", name, *name ? "." : "", key);
        int rc = may_differ(inner)
                     ? GP_OK
                     : compare_settings(inner, json_object_get(there, key), value, err);
        if (rc)
            return rc;
    }
    return GP_OK;
}

/* ---- answers ---- */

static int compare_keys(const void *a, const void *b)
{
    const struct gp_record_key *l = a, *r = b;

    if (l->policy != r->policy)
        return l->policy < r->policy ? -1 : 1;
    if (l->place.part != r->place.part)
        return l->place.part < r->place.part ? -1 : 1;
    if (l->place.index != r->place.index)
        return l->place.index < r->place.index ? -1 : 1;
    return (l->place.number > r->place.number) - (l->place.number < r->place.number);
}

static int add_key(struct gp_record_old *old, struct gp_record_key key, struct gp_error *err)
{
    if (old->count == old->room) {
        size_t larger = old->room ? old->room * 2 : ROOM_AT_LEAST;
        void *grown =
            gp_mem_realloc(old->keys, old->room * sizeof *old->keys, larger * sizeof *old->keys);
        if (!grown)
            return gp_fail(err, GP_ENOMEM, "out of memory");
        old->keys = grown;
        old->room = larger;
    }
    old->keys[old->count++] = key;
    return GP_OK;
}

static int add_sample(struct gp_record_old *old, const struct gp_record_reader *reader,
                      const json_t *line, struct gp_error *err)
{
    const struct gp_exam *exam = reader->exam;
    struct gp_record_key key = {0};
    struct gp_figures f;
    int rc = gp_figures_read(line, &f, err);

    if (rc)
        return rc;
    while (key.policy < reader->policy_count && strcmp(reader->policies[key.policy], f.policy) != 0)
        key.policy++;
    while (key.place.part < exam->part_count &&
           strcmp(exam->parts[key.place.part].name, f.suite) != 0)
        key.place.part++;
    if (key.policy == reader->policy_count || key.place.part == exam->part_count ||
        f.index >= exam->parts[key.place.part].count ||
        f.number >= exam->parts[key.place.part].samples)
        return gp_fail(err, GP_ECORRUPT, "a sample that this run does not ask for");
    key.place.index = f.index;
    key.place.number = f.number;
    key.correct = f.correct;
    rc = add_key(old, key, err);
    if (!rc)
        reader->earlier(reader->ctx, &f);
    return rc;
}

/* ---- lines ---- */

static int read_line(struct gp_record_old *old, const struct gp_record_reader *reader,
                     const char *text, size_t length, struct gp_error *err)
{
    json_error_t why;
    json_t *line = json_loadb(text, length, JSON_ALLOW_NUL, &why);
    int rc = GP_OK;

    if (!line)
        return gp_fail(err, GP_ECORRUPT, "not JSON: %s", why.text);
    const char *kind = json_string_value(json_object_get(line, "kind"));
    if (old->bytes == 0 && (!kind || strcmp(kind, "run") != 0))
        rc = gp_fail(err, GP_ECORRUPT, "no record of an evaluation");
    else if (old->bytes == 0)
        rc = compare_settings("", line, reader->run, err);
    else if (kind && strcmp(kind, "sample") == 0)
        rc = add_sample(old, reader, line, err);
    json_decref(line);
    return rc;
}

static int sort_keys(struct gp_record_old *old, struct gp_error *err)
{
    if (old->count > 1)
        qsort(old->keys, old->count, sizeof *old->keys, compare_keys);
    for (size_t i = 1; i < old->count; i++)
        if (compare_keys(&old->keys[i - 1], &old->keys[i]) == 0)
            return gp_fail(err, GP_ECORRUPT, "a sample stands in it twice");
    return GP_OK;
}

int gp_record_old_read(struct gp_record_old *old, FILE *file, const struct gp_record_reader *reader,
                       struct gp_error *err)
{
    unsigned long long number = 0;
    char *text = NULL;
    size_t room = 0;
    ssize_t length;
    int rc = GP_OK;

    /* A last line without its end was being written when the program was killed. */
    while (!rc && (length = getline(&text, &room, file)) > 0 && text[length - 1] == '\n') {
        number++;
        rc = read_line(old, reader, text, (size_t)length, err);
        if (rc && number > 1)
            gp_error_prefix(err, "line %llu", number);
        old->bytes += length;
    }
    if (!rc && ferror(file))
        rc = gp_fail(err, GP_EIO, "%s", strerror(errno));
    free(text);
    return rc ? rc : sort_keys(old, err);
}

void gp_record_old_free(struct gp_record_old *old)
{
    gp_mem_free(old->keys);
    *old = (struct gp_record_old){0};
}

bool gp_record_old_has(const struct gp_record_old *old, uint32_t policy,
                       const struct gp_exam_place *place, bool *correct)
{
    struct gp_record_key key = {.policy = policy, .place = *place};
    const struct gp_record_key *found =
        old->count > 0 ? bsearch(&key, old->keys, old->count, sizeof key, compare_keys) : NULL;

    if (found)
        *correct = found->correct;
    return found;
}
