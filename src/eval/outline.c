#include "eval/outline.h"

#include <string.h>

#include "base/mem.h"

/* ---- texts ---- */

/* *out is NULL where there is none. */
static int take_text(const json_t *object, const char *key, const char **out, struct gp_error *err)
{
    const json_t *value = json_object_get(object, key);

    *out = json_string_value(value);
    return !value || *out ? GP_OK : gp_fail(err, GP_EINVAL, "%s: must be a text", key);
}

static int check_keys(const json_t *object, const char *const *known, struct gp_error *err)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)object, key, value)
    {
        size_t i = 0;

        while (known[i] && strcmp(known[i], key) != 0)
            i++;
        if (!known[i])
            return gp_fail(err, GP_EINVAL, "%.60s: unknown", key);
    }
    return GP_OK;
}

/* ---- sources ---- */

/* A path as the outline means it, which is the outline's. */
static int place_path(struct gp_outline *l, const char *folder, size_t folder_length,
                      const char *path, const char **out, struct gp_error *err)
{
    size_t length = strlen(path);
    size_t before = *path == '/' ? 0 : folder_length;
    char *whole = gp_mem_alloc(before + length + 1);

    if (!whole)
        return gp_fail(err, GP_ENOMEM, "out of memory");
    memcpy(whole, folder, before);
    memcpy(whole + before, path, length + 1);
    l->paths[l->path_count++] = whole;
    *out = whole;
    return GP_OK;
}

/* "file", or {"files": ["file", ...], "name": ..., "series": ..., "point": ...} */
static int count_files(const json_t *record, size_t *count, struct gp_error *err)
{
    const json_t *files = json_object_get(record, "files");
    const json_t *file;
    size_t at;

    if (json_is_string(record)) {
        *count += 1;
        return GP_OK;
    }
    if (!json_is_array(files))
        return gp_fail(err, GP_EINVAL, "a record must be a file, or have \"files\"");
    json_array_foreach(files, at, file)
    {
        if (!json_is_string(file))
            return gp_fail(err, GP_EINVAL, "files: must be names");
    }
    *count += json_array_size(files);
    return GP_OK;
}

static int take_record(struct gp_outline *l, struct gp_outline_section *section, const char *folder,
                       size_t folder_length, const json_t *record, struct gp_error *err)
{
    static const char *const known[] = {"files", "name", "series", "point", NULL};
    const json_t *files = json_object_get(record, "files");
    struct gp_source source = {0};
    int rc = GP_OK;

    if (json_is_object(record)) {
        rc = check_keys(record, known, err);
        if (rc || (rc = take_text(record, "name", &source.name, err)) ||
            (rc = take_text(record, "series", &source.series, err)) ||
            (rc = take_text(record, "point", &source.point, err)))
            return rc;
    }
    size_t count = files ? json_array_size(files) : 1;
    for (size_t i = 0; !rc && i < count; i++) {
        const json_t *name = files ? json_array_get(files, i) : record;

        rc = place_path(l, folder, folder_length, json_string_value(name), &source.path, err);
        if (!rc)
            section->sources[section->source_count++] = source;
    }
    return rc;
}

/* ---- sections ---- */

static int check_show(const json_t *show, struct gp_error *err)
{
    const json_t *name;
    size_t at;

    if (show && !json_is_array(show))
        return gp_fail(err, GP_EINVAL, "show: must be names of parts");
    json_array_foreach(show, at, name)
    {
        if (!json_is_string(name))
            return gp_fail(err, GP_EINVAL, "show: must be names of parts");
    }
    return GP_OK;
}

static int take_section(struct gp_outline *l, const char *folder, size_t folder_length,
                        const json_t *object, struct gp_error *err)
{
    static const char *const known[] = {"title", "text", "records", "show", NULL};
    struct gp_outline_section *section = &l->sections[l->section_count];
    const json_t *records = json_object_get(object, "records"), *record;
    size_t at, count = 0;
    int rc = json_is_object(object) ? check_keys(object, known, err)
                                    : gp_fail(err, GP_EINVAL, "must be an object");

    if (rc || (rc = take_text(object, "title", &section->title, err)) ||
        (rc = take_text(object, "text", &section->text, err)))
        return rc;
    section->show = json_object_get(object, "show");
    rc = check_show(section->show, err);
    json_array_foreach(records, at, record)
    {
        rc = rc ? rc : count_files(record, &count, err);
    }
    if (rc)
        return rc;
    if (count == 0)
        return gp_fail(err, GP_EINVAL, "records: must be files, at least one");
    section->sources = gp_mem_alloc_array(count, sizeof *section->sources);
    char **paths = gp_mem_realloc(l->paths, l->path_count * sizeof *paths,
                                  (l->path_count + count) * sizeof *paths);
    l->paths = paths ? paths : l->paths;
    l->section_count++;
    if (!section->sources || !paths)
        return gp_fail(err, GP_ENOMEM, "out of memory");
    json_array_foreach(records, at, record)
    {
        rc = rc ? rc : take_record(l, section, folder, folder_length, record, err);
    }
    return rc;
}

static int take_outline(struct gp_outline *l, const char *path, struct gp_error *err)
{
    static const char *const known[] = {"title", "text", "sections", NULL};
    const json_t *sections = json_object_get(l->root, "sections"), *section;
    const char *slash = strrchr(path, '/');
    size_t folder_length = slash ? (size_t)(slash - path) + 1 : 0, at;
    int rc = json_is_object(l->root) ? check_keys(l->root, known, err)
                                     : gp_fail(err, GP_EINVAL, "must be an object");

    if (rc || (rc = take_text(l->root, "title", &l->title, err)) ||
        (rc = take_text(l->root, "text", &l->text, err)))
        return rc;
    if (json_array_size(sections) == 0)
        return gp_fail(err, GP_EINVAL, "sections: must be some, at least one");
    l->sections = gp_mem_alloc_array(json_array_size(sections), sizeof *l->sections);
    if (!l->sections)
        return gp_fail(err, GP_ENOMEM, "out of memory");
    json_array_foreach(sections, at, section)
    {
        rc = take_section(l, path, folder_length, section, err);
        if (rc) {
            gp_error_prefix(err, "section %zu", at + 1);
            return rc;
        }
    }
    return GP_OK;
}

/* ---- layouts ---- */

int gp_outline_read(struct gp_outline *out, const char *path, struct gp_error *err)
{
    json_error_t why;

    *out = (struct gp_outline){.root = json_load_file(path, 0, &why)};
    int rc = out->root ? take_outline(out, path, err)
                       : gp_fail(err, GP_EINVAL, "%s", why.line > 0 ? why.text : "cannot be read");
    if (rc)
        gp_error_prefix(err, "%s", path);
    return rc;
}

int gp_outline_of(struct gp_outline *out, char *const *paths, uint32_t count, struct gp_error *err)
{
    *out = (struct gp_outline){
        .sections = gp_mem_alloc_array(1, sizeof *out->sections),
        .section_count = 1,
    };
    struct gp_source *sources = gp_mem_alloc_array(count, sizeof *sources);
    if (!out->sections || !sources) {
        gp_mem_free(sources);
        out->section_count = 0;
        return gp_fail(err, GP_ENOMEM, "out of memory");
    }
    for (uint32_t i = 0; i < count; i++)
        sources[i].path = paths[i];
    out->sections[0] = (struct gp_outline_section){.sources = sources, .source_count = count};
    return GP_OK;
}

void gp_outline_free(struct gp_outline *l)
{
    for (uint32_t i = 0; i < l->section_count; i++)
        gp_mem_free(l->sections[i].sources);
    for (uint32_t i = 0; i < l->path_count; i++)
        gp_mem_free(l->paths[i]);
    gp_mem_free(l->sections);
    gp_mem_free(l->paths);
    json_decref(l->root);
    *l = (struct gp_outline){0};
}
