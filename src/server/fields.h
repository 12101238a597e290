/* Fields of a request's JSON object, checked: each either gives its value or names itself and says
 * what it may be.  null counts as absent everywhere.
 *
 * The readers return GP_OK and leave *out alone when the field is absent. */
#ifndef GP_SERVER_FIELDS_H
#define GP_SERVER_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "server/refusal.h"

/* A body's one JSON object; the caller's (json_decref).  Nesting is counted before anything
 * recurses.  Only texts (prompt, content, text, reasoning) may hold a NUL: they go by their length,
 * whatever else is read ends at its first one. */
int gp_body_parse(const char *body, size_t length, json_t **out, struct gp_refusal *refusal);

/* The field, or NULL when it is absent or null. */
json_t *gp_field(const json_t *object, const char *name);

int gp_field_bool(const json_t *object, const char *name, bool *out, struct gp_refusal *refusal);
int gp_field_int(const json_t *object, const char *name, int64_t min, int64_t max, int64_t *out,
                 struct gp_refusal *refusal);
int gp_field_uint(const json_t *object, const char *name, uint32_t min, uint32_t max, uint32_t *out,
                  struct gp_refusal *refusal);
/* min_open: the bound itself is not allowed. */
int gp_field_double(const json_t *object, const char *name, double min, double max, bool min_open,
                    double *out, struct gp_refusal *refusal);
int gp_field_float(const json_t *object, const char *name, double min, double max, bool min_open,
                   float *out, struct gp_refusal *refusal);
/* The place of the string in words ("a|b|c"). */
int gp_field_word(const json_t *object, const char *name, const char *words, int *out,
                  struct gp_refusal *refusal);

/* An array of token ids in [0, vocab); *ids is the caller's (gp_mem_free).  name stands in the
 * refusal. */
int gp_field_ids(const json_t *array, const char *name, uint32_t vocab, uint32_t max, int32_t **ids,
                 uint32_t *count, struct gp_refusal *refusal);

#endif
