#include "eval/results.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define ROOM_AT_LEAST 1024u

/* ---- arms ---- */

/* Settings that make no other arm: where and when, and which problems. */
static bool is_beside(const char *name)
{
    static const char *const beside[] = {"started", "machine",    "suites",         "policies",
                                         "kind",    "model.path", "engine.kv_bytes"};

    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
        if (strcmp(name, beside[i]) == 0)
            return true;
    return false;
}

static bool same_settings(const json_t *a, const json_t *b, const char *outer)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)a, key, value)
    {
        const json_t *other = json_object_get(b, key);
        char name[128];

        snprintf(name, sizeof name, "%s%s%s", outer, *outer ? "." : "", key);
        if (is_beside(name))
            continue;
        if (json_is_object(value) && json_is_object(other) ? !same_settings(value, other, name)
                                                           : !json_equal(value, other))
            return false;
    }
    return true;
}

/* Append ", key value" for each setting in which some other run differs from this one. */
static void name_settings(const struct gp_results *r, const json_t *run, const char *outer,
                          const json_t *values, char *out, size_t room)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)values, key, value)
    {
        char name[128];
        bool differs = false;

        snprintf(name, sizeof name, "%s%s%s", outer, *outer ? "." : "", key);
        if (is_beside(name))
            continue;
        if (json_is_object(value)) {
            name_settings(r, run, name, value, out, room);
            continue;
        }
        for (uint32_t i = 0; i < r->file_count; i++) {
            const json_t *other = r->files[i].run;
            if (r->files[i].found)
                continue;
            if (*outer)
                other = json_object_get(other, outer);
            differs = differs || !json_equal(json_object_get(other, key), value);
        }
        /* A hash says nothing to a reader that the name does not. */
        if (!differs || strcmp(name, "model.hash") == 0)
            continue;
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6));
        size_t length = strlen(out);
        snprintf(out + length, room - length, ", %s %s", key, text ? text : "?");
        free(text);
    }
}

/* T of fixed:T and its like. */
static uint32_t budget_of(const char *policy)
{
    static const char *const budgeted[] = {
        "fixed:", "zipage:", "gkv:", "rkv:", "morphkv:", "snapkv:", "h2o:", "streaming:"};

    for (size_t i = 0; i < sizeof budgeted / sizeof *budgeted; i++)
        if (strncmp(policy, budgeted[i], strlen(budgeted[i])) == 0)
            return (uint32_t)strtoul(policy + strlen(budgeted[i]), NULL, 10);
    return 0;
}

static bool is_of_arm(const struct gp_results *r, const struct gp_arm *arm, uint32_t file,
                      const char *policy)
{
    const struct gp_record_file *theirs = &r->files[arm->file], *ours = &r->files[file];

    if (theirs->source->name || ours->source->name)
        return theirs->source->name && ours->source->name &&
               strcmp(theirs->source->name, ours->source->name) == 0;
    return strcmp(arm->policy, policy) == 0 && same_settings(theirs->run, ours->run, "");
}

static int find_arm(struct gp_results *r, uint32_t file, const char *policy, uint32_t *out,
                    struct gp_error *err)
{
    const json_t *run = r->files[file].run;

    for (uint32_t i = 0; i < r->arm_count; i++)
        if (is_of_arm(r, &r->arms[i], file, policy)) {
            *out = i;
            return GP_OK;
        }
    if (r->arm_count == GP_RESULTS_ARMS_MAX)
        return gp_fail(err, GP_EINVAL, "more than %u policies and settings", GP_RESULTS_ARMS_MAX);
    struct gp_arm *arm = &r->arms[r->arm_count];
    const json_t *page = json_object_get(json_object_get(run, "engine"), "page_size");
    *arm = (struct gp_arm){
        .file = file,
        .budget = budget_of(policy),
        .page_tokens = (uint32_t)json_integer_value(page),
    };
    gp_text_copy(arm->policy, sizeof arm->policy, policy, strlen(policy));
    *out = r->arm_count++;
    return GP_OK;
}

static int find_suite(struct gp_results *r, const char *name, uint32_t *out, struct gp_error *err)
{
    uint32_t i = 0;

    while (i < r->suite_count && strcmp(r->suites[i], name) != 0)
        i++;
    if (i == GP_RESULTS_SUITES_MAX)
        return gp_fail(err, GP_EINVAL, "more than %u suites", GP_RESULTS_SUITES_MAX);
    if (i == r->suite_count) {
        gp_text_copy(r->suites[i], sizeof r->suites[i], name, strlen(name));
        r->suite_count++;
    }
    *out = i;
    return GP_OK;
}

/* ---- lines ---- */

static int add_sample(struct gp_results *r, uint32_t file, const json_t *line, struct gp_error *err)
{
    struct gp_result item;
    int rc = gp_figures_read(line, &item.figures, err);

    if (!rc)
        rc = find_arm(r, file, item.figures.policy, &item.arm, err);
    if (!rc)
        rc = find_suite(r, item.figures.suite, &item.suite, err);
    if (rc)
        return rc;
    item.figures.policy = item.figures.suite = NULL; /* the line's */
    if (r->count == r->room) {
        size_t larger = r->room ? r->room * 2 : ROOM_AT_LEAST;
        void *grown =
            gp_mem_realloc(r->items, r->room * sizeof *r->items, larger * sizeof *r->items);
        if (!grown)
            return gp_fail(err, GP_ENOMEM, "out of memory");
        r->items = grown;
        r->room = larger;
    }
    r->items[r->count++] = item;
    return GP_OK;
}

static void sum_served(struct gp_served *to, const json_t *line)
{
    double steps = json_number_value(json_object_get(line, "decode_steps"));

    to->tokens += json_number_value(json_object_get(line, "output_tokens"));
    to->ms += json_number_value(json_object_get(line, "serving_ms"));
    to->steps += steps;
    to->resident += steps * json_number_value(json_object_get(line, "concurrency"));
}

static int add_served(struct gp_results *r, uint32_t file, const json_t *line, struct gp_error *err)
{
    const char *policy = json_string_value(json_object_get(line, "policy"));
    const json_t *suites = json_object_get(r->files[file].run, "suites");
    const char *only = json_array_size(suites) == 1
                           ? json_string_value(json_object_get(json_array_get(suites, 0), "suite"))
                           : NULL;
    uint32_t arm, suite;
    int rc = policy ? find_arm(r, file, policy, &arm, err)
                    : gp_fail(err, GP_ECORRUPT, "served: no policy");

    if (rc)
        return rc;
    sum_served(&r->arms[arm].served, line);
    if (!only)
        return GP_OK;
    rc = find_suite(r, only, &suite, err);
    if (!rc)
        sum_served(&r->arms[arm].suite[suite], line);
    return rc;
}

static int add_first(struct gp_record_file *f, const char *kind, json_t *line, struct gp_error *err)
{
    bool analysis = kind && strcmp(kind, "analysis") == 0;

    if (!analysis && (!kind || strcmp(kind, "run") != 0))
        return gp_fail(err, GP_ECORRUPT, "no record of an evaluation");
    f->run = json_incref(line);
    /* It is written whole, or not at all. */
    f->complete = analysis;
    if (analysis && !(f->found = json_array()))
        return gp_fail(err, GP_ENOMEM, "out of memory");
    return GP_OK;
}

static int add_line(struct gp_results *r, uint32_t file, json_t *line, struct gp_error *err)
{
    const char *kind = json_string_value(json_object_get(line, "kind"));
    struct gp_record_file *f = &r->files[file];

    if (!f->run)
        return add_first(f, kind, line, err);
    if (f->found)
        return json_array_append(f->found, line) ? gp_fail(err, GP_ENOMEM, "out of memory") : GP_OK;
    if (kind && strcmp(kind, "sample") == 0)
        return add_sample(r, file, line, err);
    if (kind && strcmp(kind, "served") == 0)
        return add_served(r, file, line, err);
    if (kind && strcmp(kind, "end") == 0)
        f->complete = json_is_true(json_object_get(line, "complete"));
    return GP_OK;
}

static int read_lines(struct gp_results *r, uint32_t file, FILE *stream, struct gp_error *err)
{
    unsigned long long number = 0;
    char *text = NULL;
    size_t room = 0;
    ssize_t length;
    int rc = GP_OK;

    /* Half a line at the end is a run under way, or one that was killed. */
    while (!rc && (length = getline(&text, &room, stream)) > 0 && text[length - 1] == '\n') {
        json_error_t why;
        json_t *line = json_loadb(text, (size_t)length, JSON_ALLOW_NUL, &why);

        number++;
        rc = line ? add_line(r, file, line, err)
                  : gp_fail(err, GP_ECORRUPT, "not JSON: %s", why.text);
        json_decref(line);
        if (rc)
            gp_error_prefix(err, "line %llu", number);
    }
    free(text);
    if (!rc && ferror(stream))
        rc = gp_fail(err, GP_EIO, "%s", strerror(errno));
    if (!rc && !r->files[file].run)
        rc = gp_fail(err, GP_ECORRUPT, "no record of an evaluation");
    return rc;
}

static int read_file(struct gp_results *r, const struct gp_source *source, struct gp_error *err)
{
    FILE *stream = fopen(source->path, "re");

    if (!stream)
        return gp_fail(err, GP_EIO, "%s", strerror(errno));
    uint32_t file = r->file_count++;
    r->files[file].source = source;
    int rc = read_lines(r, file, stream, err);
    fclose(stream);
    return rc;
}

/* ---- all ---- */

static int in_order(const void *a, const void *b)
{
    const struct gp_result *l = a, *r = b;

    if (l->arm != r->arm)
        return l->arm < r->arm ? -1 : 1;
    if (l->suite != r->suite)
        return l->suite < r->suite ? -1 : 1;
    if (l->figures.index != r->figures.index)
        return l->figures.index < r->figures.index ? -1 : 1;
    return (l->figures.number > r->figures.number) - (l->figures.number < r->figures.number);
}

static void name_arms(struct gp_results *r)
{
    for (uint32_t i = 0; i < r->arm_count; i++) {
        struct gp_arm *arm = &r->arms[i];
        const struct gp_record_file *file = &r->files[arm->file];
        const char *name = file->source->name ? file->source->name : arm->policy;

        gp_text_copy(arm->name, sizeof arm->name, name, strlen(name));
        if (!file->source->name)
            name_settings(r, file->run, "", file->run, arm->name, sizeof arm->name);
    }
}

static bool has_analysis(const struct gp_results *r)
{
    for (uint32_t i = 0; i < r->file_count; i++)
        if (r->files[i].found)
            return true;
    return false;
}

int gp_results_read(struct gp_results *out, const struct gp_source *sources, uint32_t count,
                    struct gp_error *err)
{
    int rc = GP_OK;

    *out = (struct gp_results){.files = gp_mem_alloc_array(count, sizeof *out->files)};
    if (!out->files)
        return gp_fail(err, GP_ENOMEM, "report: out of memory");
    for (uint32_t i = 0; !rc && i < count; i++) {
        rc = read_file(out, &sources[i], err);
        if (rc)
            gp_error_prefix(err, "%s", sources[i].path);
    }
    if (!rc && out->count == 0 && !has_analysis(out))
        rc = gp_fail(err, GP_EINVAL, "%s: no answers in it", sources[0].path);
    if (rc)
        return rc;
    if (out->count > 0)
        qsort(out->items, out->count, sizeof *out->items, in_order);
    for (size_t i = 1; i < out->count; i++)
        if (in_order(&out->items[i - 1], &out->items[i]) == 0)
            return gp_fail(err, GP_EINVAL, "%s: an answer stands twice in these records",
                           out->files[out->arms[out->items[i].arm].file].source->path);
    name_arms(out);
    return GP_OK;
}

void gp_results_free(struct gp_results *r)
{
    for (uint32_t i = 0; i < r->file_count; i++) {
        json_decref(r->files[i].run);
        json_decref(r->files[i].found);
    }
    gp_mem_free(r->files);
    gp_mem_free(r->items);
    *r = (struct gp_results){0};
}

double gp_served_tps(const struct gp_served *served)
{
    return served->ms > 0 ? served->tokens / served->ms * 1e3 : NAN;
}

const struct gp_result *gp_results_of(const struct gp_results *results, uint32_t arm,
                                      uint32_t suite, size_t *count)
{
    size_t first = 0, end;

    while (first < results->count &&
           (results->items[first].arm != arm || results->items[first].suite != suite))
        first++;
    for (end = first; end < results->count && results->items[end].arm == arm &&
                      results->items[end].suite == suite;)
        end++;
    *count = end - first;
    return results->items + first;
}

/* Its series, or its name without the number of its budget. */
static void family_name(const struct gp_results *r, const struct gp_arm *arm, char out[160])
{
    const char *series = r->files[arm->file].source->series;
    const char *colon = strchr(arm->name, ':');

    if (series) {
        gp_text_copy(out, 160, series, strlen(series));
    } else if (!arm->budget || !colon) {
        snprintf(out, 160, "%s", arm->name);
    } else {
        const char *rest = colon + 1 + strspn(colon + 1, "0123456789");
        snprintf(out, 160, "%.*s%s", (int)(colon - arm->name), arm->name, rest);
    }
}

void gp_results_family(const struct gp_results *r, uint32_t first, struct gp_family *out)
{
    char name[160];

    out->count = 0;
    family_name(r, &r->arms[first], out->name);
    for (uint32_t i = 0; i < r->arm_count; i++) {
        family_name(r, &r->arms[i], name);
        if (strcmp(name, out->name) != 0)
            continue;
        if (i < first) {
            out->count = 0;
            return;
        }
        uint32_t at = out->count++;
        for (; at > 0 && r->arms[out->arms[at - 1]].budget > r->arms[i].budget; at--)
            out->arms[at] = out->arms[at - 1];
        out->arms[at] = i;
    }
}

int gp_results_shares(const struct gp_result *items, size_t item_count, double **shares,
                      uint64_t **indices, size_t *count, struct gp_error *err)
{
    double *share = gp_mem_alloc_array(item_count + 1, sizeof *share);
    uint64_t *index = gp_mem_alloc_array(item_count + 1, sizeof *index);
    size_t problems = 0;

    if (!share || !index) {
        gp_mem_free(share);
        gp_mem_free(index);
        return gp_fail(err, GP_ENOMEM, "report: out of memory");
    }
    for (size_t i = 0; i < item_count;) {
        size_t begin = i;
        double right = 0;
        for (; i < item_count && items[i].figures.index == items[begin].figures.index; i++)
            right += items[i].figures.correct;
        share[problems] = right / (double)(i - begin);
        index[problems++] = items[begin].figures.index;
    }
    *shares = share;
    *indices = index;
    *count = problems;
    return GP_OK;
}
