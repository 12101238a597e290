/* Stop strings: the text of an answer up to the first of them, as it comes.
 *
 * A set is read-only once made, so that the engine's thread, which ends the answer, and the one
 * that writes it out may both look at it; each has a stopper of its own and sees the same bytes.
 * No byte that may still turn out to belong to a stop string is let out. */
#ifndef GP_SERVER_STOPS_H
#define GP_SERVER_STOPS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "server/buffer.h"
#include "server/limits.h"

struct gp_stop_set {
    uint32_t count;
    struct gp_stop {
        char *text;
        uint32_t length;
        uint16_t *shorter; /* [length] of the first i + 1 bytes: the longest proper beginning that
                              is their end, too */
    } items[GP_LIMIT_STOPS];
};

/* A copy of one more string of 1 to GP_LIMIT_STOP_BYTES bytes; GP_ENOMEM. */
int gp_stop_set_add(struct gp_stop_set *set, const char *text, size_t length, struct gp_error *err);
void gp_stop_set_free(struct gp_stop_set *set);

#define GP_STOP_NONE UINT32_MAX

struct gp_stopper {
    const struct gp_stop_set *set;
    uint32_t hit; /* the string that was met, or GP_STOP_NONE                        */
    uint32_t held_count;
    uint16_t at[GP_LIMIT_STOPS];    /* bytes of each that the text ends with          */
    char held[GP_LIMIT_STOP_BYTES]; /* what may become a stop string                  */
};

void gp_stopper_init(struct gp_stopper *stopper, const struct gp_stop_set *set);

/* Put what is decided behind `out` (NULL: nowhere).  From a hit on, nothing more comes out; where
 * two strings end at the same byte the longer one counts. */
void gp_stopper_feed(struct gp_stopper *stopper, const char *text, size_t length,
                     struct gp_buffer *out);

/* The text is over: what was held back, unless a string was met. */
void gp_stopper_end(struct gp_stopper *stopper, struct gp_buffer *out);

#endif
