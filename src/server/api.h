/* What every request is read against: the model, the engine, and what was said at start.  Nothing
 * here changes once the server answers. */
#ifndef GP_SERVER_API_H
#define GP_SERVER_API_H

#include <stdbool.h>
#include <stdint.h>

#include "growpage.h"
#include "server/calls.h"
#include "server/stops.h"

struct gp_api {
    const struct gp_model *model;
    struct gp_engine *engine;
    struct gp_model_info model_info;
    struct gp_engine_info engine_info;
    struct gp_kv_options kv;    /* of requests that bring none of their own                 */
    uint32_t vocab;             /* ids below this have a token                              */
    const char *name;           /* the id that /v1/models tells                             */
    bool strict_model;          /* a request that names another model is refused           */
    const char *chat_variables; /* JSON object for every template, or NULL                 */
    bool split_thoughts;        /* reasoning_content apart from content                     */
    int64_t thought_max;        /* tokens of a thought, or -1; a request may say otherwise  */
    struct gp_stop_set tags;    /* the opening and the closing tag of a thought             */
    int32_t *closer;            /* ids that spell the closing tag                           */
    uint32_t closer_count;
    enum gp_call_style call_style; /* that the model speaks */
    int64_t started;               /* seconds since the epoch                                  */
};

#endif
