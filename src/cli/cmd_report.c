/* growpage report: records of evaluations and analyses as one page. */
#include "cli/commands.h"
#include "cli/io.h"
#include "eval/report.h"

int gp_cmd_report(struct gp_settings *s)
{
    const char *path = s->output ? s->output : "report.html";
    struct gp_outline outline;
    struct gp_error err;

    int rc = s->outline ? gp_outline_read(&outline, s->outline, &err)
                        : gp_outline_of(&outline, s->rest.items, s->rest.count, &err);
    if (!rc)
        rc = gp_report_write(&outline, path, &err);
    gp_outline_free(&outline);
    if (rc)
        gp_error_prefix(&err, "report");
    return rc ? gp_tell(GP_EXIT_FAILED, &err) : GP_EXIT_OK;
}
