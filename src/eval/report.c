#include "eval/report.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "eval/report_parts.h"

static const struct part {
    const char *name;
    int (*write)(const struct gp_report *report, struct gp_error *err);
} parts[] = {
    {"accuracy", gp_report_accuracy},
    {"trade", gp_report_trade},
    {"speed", gp_report_speed},
    {"serving", gp_report_serving},
    {"events", gp_report_events},
    {"work", gp_report_work},
    {"sufficient", gp_report_sufficient},
    {"signal", gp_report_signal},
    {"counterfactual", gp_report_counterfactual},
    {"budget", gp_report_budget},
    {"sparsity", gp_report_sparsity},
    {"overhead", gp_report_overhead},
};

#define PART_COUNT (sizeof parts / sizeof *parts)

static const struct part *find_part(const char *name)
{
    for (size_t i = 0; i < PART_COUNT; i++)
        if (strcmp(parts[i].name, name) == 0)
            return &parts[i];
    return NULL;
}

/* What everything else is compared with: the whole cache. */
static uint32_t find_reference(const struct gp_results *results)
{
    for (uint32_t i = 0; i < results->arm_count; i++)
        if (strcmp(results->arms[i].policy, "full") == 0)
            return i;
    return UINT32_MAX;
}

static int write_parts(const struct gp_report *report, const json_t *show, struct gp_error *err)
{
    const json_t *name;
    size_t at;
    int rc = GP_OK;

    for (size_t i = 0; !show && !rc && i < PART_COUNT; i++)
        rc = parts[i].write(report, err);
    json_array_foreach(show, at, name)
    {
        const struct part *part = find_part(json_string_value(name));

        if (!rc)
            rc = part ? part->write(report, err)
                      : gp_fail(err, GP_EINVAL, "show: %.60s: no such part",
                                json_string_value(name));
    }
    return rc;
}

static int write_section(FILE *page, const struct gp_outline_section *section, uint32_t number,
                         const struct gp_results *results, struct gp_error *err)
{
    struct gp_summary *summaries =
        gp_mem_alloc_array(results->arm_count + (size_t)1, sizeof *summaries);
    struct gp_report report = {
        .results = results,
        .summaries = summaries,
        .reference = find_reference(results),
        .section = number,
        .level = section->title ? 3 : 2,
        .page = page,
    };

    if (!summaries)
        return gp_fail(err, GP_ENOMEM, "report: out of memory");
    int rc = GP_OK;
    for (uint32_t i = 0; !rc && i < results->arm_count; i++)
        rc = gp_summarise(results, i, report.reference, GP_REPORT_SEED, &summaries[i], err);
    gp_report_section(page, section);
    if (!rc)
        rc = write_parts(&report, section->show, err);
    if (rc && section->title)
        gp_error_prefix(err, "%s", section->title);
    gp_mem_free(summaries);
    return rc;
}

static int write_page(FILE *page, const struct gp_outline *outline,
                      const struct gp_results *results, struct gp_error *err)
{
    int rc = GP_OK;

    gp_report_begin(page, outline, results);
    for (uint32_t i = 0; !rc && i < outline->section_count; i++)
        rc = write_section(page, &outline->sections[i], i, &results[i], err);
    if (!rc)
        rc = gp_report_origin(page, results, outline->section_count, err);
    gp_report_end(page);
    return rc;
}

static int write_file(const char *path, const struct gp_outline *outline,
                      const struct gp_results *results, struct gp_error *err)
{
    FILE *page = fopen(path, "we");

    if (!page)
        return gp_fail(err, GP_EIO, "%s: %s", path, strerror(errno));
    int rc = write_page(page, outline, results, err);
    bool lost = ferror(page);
    if ((fclose(page) || lost) && !rc)
        rc = gp_fail(err, GP_EIO, "%s: %s", path, strerror(errno));
    /* Half a page is none. */
    if (rc)
        unlink(path);
    return rc;
}

int gp_report_write(const struct gp_outline *outline, const char *path, struct gp_error *err)
{
    struct gp_results *results = gp_mem_alloc_array(outline->section_count, sizeof *results);
    int rc = results ? GP_OK : gp_fail(err, GP_ENOMEM, "report: out of memory");

    for (uint32_t i = 0; !rc && i < outline->section_count; i++) {
        const struct gp_outline_section *section = &outline->sections[i];
        rc = gp_results_read(&results[i], section->sources, section->source_count, err);
    }
    if (!rc)
        rc = write_file(path, outline, results, err);
    for (uint32_t i = 0; results && i < outline->section_count; i++)
        gp_results_free(&results[i]);
    gp_mem_free(results);
    return rc;
}
