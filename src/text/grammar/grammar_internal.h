/* What the files of the grammar share and no other file sees.
 *
 *   grammar.c         forms, thoughts, and the compiled form of what was built
 *   builder.c         states and edges while they are made
 *   json.c            the parts of JSON: blanks, strings, numbers, any value
 *   numbers.c         ranges of numbers
 *   pattern.c         regular expressions inside strings
 *   schema.c          schemas, by keyword
 *   schema_parts.c    objects and arrays of a schema
 *   schema_scalars.c  strings and numbers of a schema
 *   schema_apart.c    whether two schemas have no value in common
 *
 * A grammar is a recursive network: states, and edges that take a byte, nothing, or a call of
 * another part of the network (from its first state to one that ends it). */
#ifndef GP_TEXT_GRAMMAR_INTERNAL_H
#define GP_TEXT_GRAMMAR_INTERNAL_H

#include <jansson.h>

#include "base/error.h"
#include "text/grammar/grammar.h"

enum gp_edge_kind {
    GP_EDGE_BYTES,
    GP_EDGE_EMPTY,
    GP_EDGE_CALL,
};

/* ---- compiled ---- */

struct gp_edge {
    uint16_t to;
    uint16_t call; /* the first state of what is called */
    uint8_t kind, low, high;
};

struct gp_state {
    uint32_t edges; /* its first; its last is before the next state's first */
    bool ends;      /* a call returns here                                  */
    bool bytes;     /* has edges that take a byte                           */
    uint8_t need;   /* calls within calls that the way to the end takes at least */
};

struct gp_grammar {
    uint32_t state_count, edge_count;
    struct gp_state *states; /* [state_count + 1] */
    struct gp_edge *edges;
    uint16_t start;
    /* Bytes that no edge tells apart are of one class. */
    uint32_t class_count;
    uint8_t classes[256], samples[256]; /* of a byte; one byte of a class */
};

/* ---- being built ---- */

/* State 0 is nobody's: what a builder that has failed hands out. */
struct gp_draft_edge {
    uint32_t next; /* of the same state; 0: none */
    uint16_t from, to, call;
    uint8_t kind, low, high;
};

struct gp_builder {
    uint32_t state_count, state_room;
    struct gp_draft_state {
        uint32_t first;
        bool ends;
    } * states;
    uint32_t edge_count, edge_room;
    struct gp_draft_edge *edges;
    /* Parts that are made when they are first called; 0: not yet. */
    struct {
        uint16_t blank, wide, character, string, integer, number, value, object, array;
    } parts;
    int rc; /* sticky: after a failure nothing more is added */
    struct gp_error *err;
};

/* builder.c.  The first failure is kept, and told in the caller's err. */
void gp_build_fail(struct gp_builder *b, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
uint16_t gp_build_state(struct gp_builder *b);
uint16_t gp_build_end(struct gp_builder *b); /* a state that ends a part */
void gp_build_bytes(struct gp_builder *b, uint16_t from, uint8_t low, uint8_t high, uint16_t to);
void gp_build_empty(struct gp_builder *b, uint16_t from, uint16_t to);
void gp_build_call(struct gp_builder *b, uint16_t from, uint16_t part, uint16_t to);
/* One byte of these. */
void gp_build_one_of(struct gp_builder *b, uint16_t from, const char *bytes, uint16_t to);
void gp_build_text(struct gp_builder *b, uint16_t from, const char *text, uint16_t to);
/* Texts that begin alike share their way; `from` has no other edges and nothing leads back to it.
 * Returns where the text ends, which may be on the way of a longer one. */
uint16_t gp_build_spell(struct gp_builder *b, uint16_t from, const char *text, size_t length);
/* Any bytes up to and with the first `text`. */
void gp_build_until(struct gp_builder *b, uint16_t from, const char *text, uint16_t to);
void gp_builder_free(struct gp_builder *b);

/* json.c: parts to be called. */
uint16_t gp_part_blank(struct gp_builder *b);     /* nothing, a space, or a line break and indent */
uint16_t gp_part_wide(struct gp_builder *b);      /* a character beyond ASCII              */
uint16_t gp_part_character(struct gp_builder *b); /* one of a string                       */
uint16_t gp_part_string(struct gp_builder *b);
uint16_t gp_part_integer(struct gp_builder *b);
uint16_t gp_part_number(struct gp_builder *b);
uint16_t gp_part_object(struct gp_builder *b); /* any members                            */
uint16_t gp_part_array(struct gp_builder *b);  /* any items                              */
uint16_t gp_part_value(struct gp_builder *b);
/* A character of a string that is no escape. */
void gp_part_plain(struct gp_builder *b, uint16_t from, uint16_t to);
/* From low to high, which are no surrogates, as UTF-8. */
void gp_part_points(struct gp_builder *b, uint16_t from, uint32_t low, uint32_t high, uint16_t to);
void gp_part_key_between(struct gp_builder *b, uint16_t from, uint16_t to); /* ':' and a blank */

/* numbers.c.  A bound is a whole number. */
struct gp_bound {
    bool is_set, open; /* open: the bound itself is outside */
    int64_t at;
};
#define GP_NUMBER_DIGITS 18u /* before the point, and behind it */
#define GP_NUMBER_MAX    999999999999999999
void gp_number_integers(struct gp_builder *b, uint16_t from, int64_t low, int64_t high,
                        uint16_t to);
void gp_number_reals(struct gp_builder *b, uint16_t from, struct gp_bound low, struct gp_bound high,
                     uint16_t to);
void gp_number_any(struct gp_builder *b, uint16_t from, bool real, uint16_t to);

/* pattern.c: a JSON string, quotes and all, that matches.  A refusal is put into b. */
void gp_pattern_build(struct gp_builder *b, uint16_t from, const char *pattern, size_t length,
                      uint16_t to);

/* schema.c */
void gp_schema_build(struct gp_builder *b, uint16_t from, const json_t *root, uint16_t to);

#endif
