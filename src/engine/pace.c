#include "engine/pace.h"

/* What is aimed at, for a step takes longer than foreseen as often as not. */
#define AIM 0.8

#define FIRST_ROWS   8u  /* while nobody knows what a row costs                     */
#define ALONE_PERIOD 32u /* steps with prompts between two without, at most         */

uint32_t gp_pace_rows(const struct gp_pace *pace)
{
    if (pace->stall <= 0)
        return UINT32_MAX;
    if (pace->alone_ns <= 0 || pace->since_alone >= ALONE_PERIOD)
        return 0;
    if (pace->row_ns <= 0)
        return FIRST_ROWS;
    double rows = AIM * (pace->stall - 1) * pace->alone_ns / pace->row_ns;

    return rows < 1 ? 1 : rows < 1e9 ? (uint32_t)rows : UINT32_MAX;
}

/* What is learned rises by an eighth at most, for one that is much longer than those before was
 * disturbed more likely than not, and all steps until the next one would be planned by it. */
#define RISE 1.125

static double follow(double old, double seen)
{
    double next = old + (seen - old) / 4, most = old * RISE;

    if (old <= 0)
        return seen;
    return next < most ? next : most;
}

/* Other streams than those that alone_ns was learned from. */
static int differs(uint32_t rows, uint32_t known)
{
    return rows > known + known / 4 || rows + rows / 4 < known;
}

void gp_pace_ran(struct gp_pace *pace, uint32_t decode_rows, uint32_t prompt_rows, uint64_t ns)
{
    if (decode_rows == 0) /* nobody waits */
        return;
    if (differs(decode_rows, pace->alone_rows))
        pace->alone_ns = 0;
    if (prompt_rows == 0) {
        pace->alone_ns = follow(pace->alone_ns, (double)ns);
        pace->alone_rows = decode_rows;
        pace->since_alone = 0;
        return;
    }
    pace->since_alone++;
    if (pace->alone_ns <= 0)
        return;
    double more = (double)ns - pace->alone_ns;
    double seen = (more > 0 ? more : 0) / prompt_rows;

    /* Dearer counts at once, cheaper by and by. */
    pace->row_ns = seen > pace->row_ns ? seen : follow(pace->row_ns, seen);
}
