/* What a text may be, byte by byte: documents of a JSON Schema, between fixed words, behind a
 * thought.
 *
 * A grammar is compiled once, by any thread, and read-only from then on.  Everything about it is
 * bounded: see the limits below.  It may allow less than its schema does (a fixed order of members,
 * little white space); what it allows, the schema allows.  See README.md. */
#ifndef GP_TEXT_GRAMMAR_H
#define GP_TEXT_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "growpage_options.h"
#include "growpage_status.h"

#define GP_LIMIT_SCHEMA_BYTES   (1u << 20) /* of one schema's text                             */
#define GP_LIMIT_SCHEMA_DEPTH   64u        /* steps from a document's schema to one within it  */
#define GP_LIMIT_PATTERN_BYTES  1024u      /* of one `pattern`                                 */
#define GP_LIMIT_PATTERN_DEPTH  32u        /* groups within groups                             */
#define GP_LIMIT_FORMS          128u       /* of one grammar                                   */
#define GP_LIMIT_GRAMMAR_STATES 65535u     /* of one grammar; fit in 16 bits                   */
#define GP_LIMIT_GRAMMAR_EDGES  262144u
#define GP_LIMIT_GRAMMAR_STACK  64u /* calls within calls, while a text is followed     */

struct gp_grammar;

/* spellable: bytes that texts can be made of one at a time; only these are allowed, so that every
 * text that may begin can be brought to its end.  GP_EINVAL: the schema, with the place and the
 * keyword. */
int gp_grammar_open(struct gp_grammar **out, const struct gp_grammar_source *source,
                    const bool spellable[256], struct gp_error *err);
void gp_grammar_close(struct gp_grammar *grammar); /* NULL is fine */

uint32_t gp_grammar_states(const struct gp_grammar *grammar);

#endif
