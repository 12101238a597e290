#include "eval/report.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "eval/report_parts.h"

/* What everything else is compared with: the whole cache. */
static uint32_t find_reference(const struct gp_results *results)
{
    for (uint32_t i = 0; i < results->arm_count; i++)
        if (strcmp(results->arms[i].policy, "full") == 0)
            return i;
    return UINT32_MAX;
}

static int write_page(const struct gp_report *report, struct gp_error *err)
{
    gp_report_begin(report);
    gp_report_accuracy(report);
    int rc = gp_report_trade(report, err);
    if (rc)
        return rc;
    gp_report_serving(report);
    gp_report_events(report);
    gp_report_overhead(report);
    rc = gp_report_sufficient(report, err);
    if (rc)
        return rc;
    gp_report_origin(report);
    gp_report_end(report);
    return GP_OK;
}

static int summarise(const struct gp_results *results, uint32_t reference,
                     struct gp_summary *summaries, struct gp_error *err)
{
    int rc = GP_OK;

    for (uint32_t i = 0; !rc && i < results->arm_count; i++)
        rc = gp_summarise(results, i, reference, GP_REPORT_SEED, &summaries[i], err);
    return rc;
}

int gp_report_write(const struct gp_results *results, const char *path, struct gp_error *err)
{
    uint32_t reference = find_reference(results);
    struct gp_summary *summaries = gp_mem_alloc_array(results->arm_count, sizeof *summaries);

    if (!summaries)
        return gp_fail(err, GP_ENOMEM, "report: out of memory");
    int rc = summarise(results, reference, summaries, err);
    FILE *page = rc ? NULL : fopen(path, "we");
    if (!rc && !page)
        rc = gp_fail(err, GP_EIO, "%s: %s", path, strerror(errno));
    if (page) {
        struct gp_report report = {results, summaries, reference, page};
        rc = write_page(&report, err);
        bool lost = ferror(page);
        if ((fclose(page) || lost) && !rc)
            rc = gp_fail(err, GP_EIO, "%s: %s", path, strerror(errno));
        /* Half a page is none. */
        if (rc)
            unlink(path);
    }
    gp_mem_free(summaries);
    return rc;
}
