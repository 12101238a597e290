/* What a report shows: sections, each with its records and the parts that are made of them.
 *
 * A outline is a file of JSON, described in docs/EVALUATION.md; paths in it begin where it lies. */
#ifndef GP_EVAL_OUTLINE_H
#define GP_EVAL_OUTLINE_H

#include <jansson.h>

#include "eval/results.h"

struct gp_outline_section {
    const char *title; /* NULL: none */
    const char *text;  /* NULL: none */
    struct gp_source *sources;
    uint32_t source_count;
    const json_t *show; /* names of parts, in their order; NULL: all that there is something for */
};

struct gp_outline {
    const char *title, *text; /* NULL: none */
    struct gp_outline_section *sections;
    uint32_t section_count;
    json_t *root; /* whose texts the others are */
    char **paths;
    uint32_t path_count;
};

/* Freed with gp_outline_free(), also after an error, which names the file and the section. */
int gp_outline_read(struct gp_outline *out, const char *path, struct gp_error *err);
/* One section without a title, with everything; the paths are the caller's. */
int gp_outline_of(struct gp_outline *out, char *const *paths, uint32_t count, struct gp_error *err);
void gp_outline_free(struct gp_outline *outline);

#endif
