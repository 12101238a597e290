/* The trace: what happens to each request, told as JSON lines.  docs/TRACE.md has every event and
 * field.
 *
 * Only the engine's thread writes it.  Lines are made in a buffer that is taken at open and go out
 * by write(2) at the end of a step, so nothing is allocated and at most one call a step is made; an
 * engine without a trace pays one comparison an event.  A write that fails ends the trace, with a
 * warning, and nothing else. */
#ifndef GP_ENGINE_TRACE_H
#define GP_ENGINE_TRACE_H

#include "engine/engine_internal.h"

int gp_tracer_open(struct gp_engine *engine, struct gp_error *err); /* nothing without a trace_fd */
void gp_tracer_close(struct gp_engine *engine);
void gp_tracer_flush(struct gp_engine *engine); /* at the end of a step */

/* seq was given its pages, for the first time or again. */
void gp_tracer_admitted(struct gp_engine *engine, const struct gp_seq *seq);
void gp_tracer_boundary(struct gp_engine *engine, const struct gp_seq *seq,
                        struct gp_decision decision, const struct gp_signal *signal,
                        uint32_t pages_before);
/* All moves are done; the scheduler has not taken note yet. */
void gp_tracer_compacted(struct gp_engine *engine, const struct gp_seq *seq,
                         const struct gp_retention *r);
/* seq has lost its pages. */
void gp_tracer_preempted(struct gp_engine *engine, const struct gp_seq *seq);
/* choice->stats_seen is complete. */
void gp_tracer_finished(struct gp_engine *engine, const struct request *request,
                        const struct choice *choice);

#endif
