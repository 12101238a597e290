/* growpage report: records of evaluations as one page. */
#include "cli/commands.h"
#include "cli/io.h"
#include "eval/report.h"

int gp_cmd_report(struct gp_settings *s)
{
    const char *path = s->output ? s->output : "report.html";
    struct gp_results results;
    struct gp_error err;

    int rc = gp_results_read(&results, s->rest.items, s->rest.count, &err);
    if (!rc)
        rc = gp_report_write(&results, path, &err);
    gp_results_free(&results);
    if (rc)
        gp_error_prefix(&err, "report");
    return rc ? gp_tell(GP_EXIT_FAILED, &err) : GP_EXIT_OK;
}
