/* growpage inspect: a report on a file, without loading it. */
#include <string.h>

#include "cli/commands.h"
#include "cli/io.h"

int gp_cmd_inspect(struct gp_settings *s)
{
    struct gp_error err;
    char *report;

    int rc =
        gp_inspect(s->model_path, s->engine.max_seqs, s->engine.context, s->json, &report, &err);
    if (rc)
        return gp_tell(GP_EXIT_FAILED, &err);
    rc = gp_print(report, strlen(report), &err);
    gp_free(report);
    return rc ? gp_tell(GP_EXIT_FAILED, &err) : GP_EXIT_OK;
}
