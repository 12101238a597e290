/* The monotonic clock.  Only the engine's loop (for timings), programs and benches read it; nothing
 * that decides does, so that a run can be repeated. */
#ifndef GP_BASE_CLOCK_H
#define GP_BASE_CLOCK_H

#include <stdint.h>

uint64_t gp_clock_ns(void);

#endif
