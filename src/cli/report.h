/* What `run` says around an answer: the block before it, the report behind it, the JSON object. */
#ifndef GP_CLI_REPORT_H
#define GP_CLI_REPORT_H

#include "cli/generate.h"

/* What was loaded, what runs it, what memory was taken and what fits; on stderr. */
void gp_report_start(const struct gp_model *model, const struct gp_engine *engine,
                     const struct gp_settings *settings);

/* Speed, pages over time, events; on stderr. */
void gp_report_answer(const struct gp_engine_info *engine, const struct gp_answer *answer);

/* The cache part alone, as /kv shows it. */
void gp_report_cache(const struct gp_engine_info *engine, const struct gp_answer *answer);

/* One object on standard output.  Its keys are described in growpage(1). */
int gp_report_json(const struct gp_engine_info *engine, const struct gp_settings *settings,
                   const struct gp_answer *answer, struct gp_error *err);

#endif
