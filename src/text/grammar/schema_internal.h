/* What the files that read schemas share. */
#ifndef GP_TEXT_SCHEMA_INTERNAL_H
#define GP_TEXT_SCHEMA_INTERNAL_H

#include "text/grammar/grammar_internal.h"

#define GP_LIMIT_SCHEMA_REFS 512u  /* schemas that are referred to */
#define GP_LIMIT_KEY_BYTES   256u  /* of a property's name          */
#define GP_LIMIT_MEMBERS     2048u /* named by one object           */

/* Where a schema stands in its document, for refusals. */
struct gp_place {
    const struct gp_place *parent; /* NULL: the root */
    const char *name;
    uint32_t depth;
};

/* One document's way into a grammar. */
struct gp_schemas {
    struct gp_builder *b;
    const json_t *root;
    /* What is referred to is a part of its own, filled when the schema that was met first is. */
    struct gp_schema_ref {
        const json_t *schema;
        uint16_t part;
    } refs[GP_LIMIT_SCHEMA_REFS];
    uint32_t ref_count;
    uint32_t looks; /* comparisons of two schemas or values so far */
};

enum gp_json_types {
    GP_JSON_NULL = 1,
    GP_JSON_BOOLEAN = 2,
    GP_JSON_OBJECT = 4,
    GP_JSON_ARRAY = 8,
    GP_JSON_INTEGER = 16,
    GP_JSON_NUMBER = 32, /* with integers, where both are set */
    GP_JSON_STRING = 64,
    GP_JSON_ALL = 127,
};

/* schema.c.  From state to state, a document of the schema. */
void gp_schema_compile(struct gp_schemas *s, const json_t *schema, uint16_t from, uint16_t to,
                       const struct gp_place *place);
/* "properties.a: minLength: why"; keyword may be NULL. */
void gp_schema_refuse(struct gp_schemas *s, const struct gp_place *place, const char *keyword,
                      const char *why);
struct gp_place gp_schema_below(const struct gp_place *place, const char *name);
/* What a $ref names, which may be nothing: NULL. */
const json_t *gp_schema_find(const struct gp_schemas *s, const char *ref);
/* The types that `type` names; 0: none, all: there is no such keyword. */
unsigned gp_schema_types(const json_t *schema);
/* Those of a value; an integer is a number, too. */
unsigned gp_json_type(const json_t *value);
/* A count; `otherwise` when it is absent. */
uint32_t gp_schema_count(struct gp_schemas *s, const json_t *schema, const char *keyword,
                         uint32_t otherwise, const struct gp_place *place);

/* schema_parts.c */
void gp_schema_object(struct gp_schemas *s, const json_t *schema, uint16_t from, uint16_t to,
                      const struct gp_place *place);
void gp_schema_array(struct gp_schemas *s, const json_t *schema, uint16_t from, uint16_t to,
                     const struct gp_place *place);

/* schema_scalars.c */
void gp_schema_string(struct gp_schemas *s, const json_t *schema, uint16_t from, uint16_t to,
                      const struct gp_place *place);
void gp_schema_number(struct gp_schemas *s, const json_t *schema, bool real, uint16_t from,
                      uint16_t to, const struct gp_place *place);

/* schema_apart.c: true only when no value can be of both. */
bool gp_schema_apart(struct gp_schemas *s, const json_t *a, const json_t *b, uint32_t depth);

#endif
