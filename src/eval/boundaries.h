/* How often the work at boundaries was done for a request. */
#ifndef GP_EVAL_BOUNDARIES_H
#define GP_EVAL_BOUNDARIES_H

#include <stdint.h>

#include "growpage.h"

/* Of a request's first choice, which has ended: adds to demands how often demand was measured, and
 * to cuts how often its cache was compacted. */
void gp_boundaries_count(struct gp_engine *engine, uint64_t id,
                         const struct gp_request_stats *stats, uint64_t *demands, uint64_t *cuts);

#endif
