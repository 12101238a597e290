#include "eval/boundaries.h"

void gp_boundaries_count(struct gp_engine *engine, uint64_t id,
                         const struct gp_request_stats *stats, uint64_t *demands, uint64_t *cuts)
{
    uint64_t kept = 0, told = (uint64_t)stats->compress + stats->shrink + stats->capped;

    for (uint32_t i = 0; i < stats->boundary_count; i++) {
        struct gp_boundary_event event;

        if (!gp_engine_boundary(engine, id, 0, i, &event))
            break;
        *demands += event.has_delta;
        kept += event.action != GP_ACTION_GROW;
    }
    /* Some cuts are no events, and of very many events not all are kept. */
    *cuts += kept > told ? kept : told;
}
