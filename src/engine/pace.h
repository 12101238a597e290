/* How many rows of prompts a step may have beside rows that decode, so that nobody's stream stands
 * still while somebody's prompt is read.
 *
 * A step with prompts in it takes about as long as one without plus so much for each prompt row.
 * Both are seen while they run, and the rows of the next step follow from them.  What a row costs
 * grows with what is before it, so it is learned all the time; now and then a step goes without
 * prompts, to learn again what that takes.
 *
 * Which rows share a step changes no answer; so this is the one place where time decides. */
#ifndef GP_ENGINE_PACE_H
#define GP_ENGINE_PACE_H

#include <stdint.h>

struct gp_pace {
    double stall;         /* a step with prompts over one without, at most; 0: no limit          */
    double alone_ns;      /* a step of decode rows; 0: not known                                 */
    uint32_t alone_rows;  /* ... how many they were                                              */
    double row_ns;        /* a prompt row beside them; 0: not known                              */
    uint32_t since_alone; /* steps with prompts since a step without                             */
};

/* The most prompt rows that the next step may have if it has decode rows, too; UINT32_MAX: what
 * fits.  0: none in this one, some in the next. */
uint32_t gp_pace_rows(const struct gp_pace *pace);

/* A step with so many rows took so long. */
void gp_pace_ran(struct gp_pace *pace, uint32_t decode_rows, uint32_t prompt_rows, uint64_t ns);

#endif
