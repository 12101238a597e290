/* The page around the sections of a report, and where all of it comes from. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "eval/report.h"
#include "eval/report_parts.h"
#include "growpage.h"

static const char head[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n<title>growpage: a report</title>\n"
    "<style>\n"
    ":root{--ink:#1c1c1a;--paper:#fdfdfb;--line:#c9c9c2;--soft:#6b6b66;--row:#f3f3ee}\n"
    "@media (prefers-color-scheme:dark){:root{--ink:#e6e6e0;--paper:#17181a;--line:#45474a;"
    "--soft:#9b9b95;--row:#202224}}\n"
    "body{margin:0 auto;max-width:60rem;padding:1.5rem 1rem 3rem;background:var(--paper);"
    "color:var(--ink);font:16px/1.5 Georgia,'Times New Roman',serif}\n"
    "h1{font-size:1.6rem;line-height:1.2;margin:0 0 .3rem}h2{font-size:1.3rem;margin:2.6rem 0 "
    ".4rem}h3{font-size:1.05rem;margin:1.5rem 0 .2rem}\n"
    "p{margin:.4rem 0}.soft{color:var(--soft)}\n"
    ".wide{overflow-x:auto}table{border-collapse:collapse;margin:.6rem 0;font:14px/1.4 system-ui,"
    "sans-serif;font-variant-numeric:tabular-nums;border-top:2px solid var(--ink);"
    "border-bottom:2px solid var(--ink)}\n"
    "th,td{padding:.25rem .7rem;text-align:right;white-space:nowrap}"
    "th:first-child,td:first-child{text-align:left}\n"
    "th:first-child,td:first-child{position:sticky;left:0;background:var(--paper)}\n"
    "thead th{border-bottom:1px solid var(--ink);font-weight:600}"
    "tbody tr:nth-child(even),tbody tr:nth-child(even) td:first-child{background:var(--row)}\n"
    "td small{color:var(--soft)}table.plain td{white-space:normal;text-align:left;"
    "overflow-wrap:anywhere}table.plain td:first-child{color:var(--soft);white-space:nowrap;"
    "vertical-align:top}\n"
    "figure{margin:1rem 0;max-width:44rem}svg{width:100%;height:auto;color:var(--ink)}"
    "figcaption{font-size:.9rem;color:var(--soft)}\n"
    "@media (max-width:40rem){body{font-size:15px;padding-top:1rem}th,td{padding:.2rem .45rem}"
    "table{font-size:13px}}\n"
    "</style></head><body>\n";

void gp_report_text(FILE *page, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '<':
            fputs("&lt;", page);
            break;
        case '>':
            fputs("&gt;", page);
            break;
        case '&':
            fputs("&amp;", page);
            break;
        case '"':
            fputs("&quot;", page);
            break;
        default:
            fputc(*text, page);
        }
    }
}

/* <tag class="soft">text</tag>; NULL: nothing. */
static void put_text(FILE *page, const char *tag, const char *text)
{
    if (!text)
        return;
    fprintf(page, *tag == 'p' ? "<%s class=\"soft\">" : "<%s>", tag);
    gp_report_text(page, text);
    fprintf(page, "</%s>\n", tag);
}

/* ---- records ---- */

/* The files of all sections, each once. */
struct files {
    const struct gp_record_file **items;
    size_t count;
};

static bool is_listed(const struct files *files, const char *path)
{
    for (size_t i = 0; i < files->count; i++)
        if (strcmp(files->items[i]->source->path, path) == 0)
            return true;
    return false;
}

/* Freed with gp_mem_free(out->items). */
static int list_files(const struct gp_results *results, uint32_t count, struct files *out,
                      struct gp_error *err)
{
    size_t room = 0;

    for (uint32_t i = 0; i < count; i++)
        room += results[i].file_count;
    *out = (struct files){.items = gp_mem_alloc_array(room, sizeof(void *))};
    if (!out->items)
        return gp_fail(err, GP_ENOMEM, "report: out of memory");
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < results[i].file_count; k++)
            if (!is_listed(out, results[i].files[k].source->path))
                out->items[out->count++] = &results[i].files[k];
    return GP_OK;
}

/* ---- around the sections ---- */

static size_t count_answers(const struct gp_outline *outline, const struct gp_results *results)
{
    size_t answers = 0;

    for (uint32_t i = 0; i < outline->section_count; i++)
        answers += results[i].count;
    return answers;
}

void gp_report_begin(FILE *page, const struct gp_outline *outline, const struct gp_results *results)
{
    fputs(head, page);
    put_text(page, "h1", outline->title ? outline->title : "Answers under a KV budget");
    put_text(page, "p", outline->text);
    fputs("<p class=\"soft\">", page);
    if (outline->section_count == 1)
        fprintf(page, "%zu answers, %u polic%s and settings, %u suite%s, from %u record%s. ",
                results->count, results->arm_count, results->arm_count == 1 ? "y" : "ies",
                results->suite_count, results->suite_count == 1 ? "" : "s", results->file_count,
                results->file_count == 1 ? "" : "s");
    else
        fprintf(page, "%zu answers in %u sections; one that several show counts in each. ",
                count_answers(outline, results), outline->section_count);
    fprintf(page,
            "Intervals are 95 %%, from %u paired bootstrap draws of problems (seed %u).</p>\n",
            GP_BOOTSTRAP_ROUNDS, GP_REPORT_SEED);
}

void gp_report_section(FILE *page, const struct gp_outline_section *section)
{
    put_text(page, "h2", section->title);
    put_text(page, "p", section->text);
}

void gp_report_heading(const struct gp_report *report, const char *title, const char *note)
{
    put_text(report->page, report->level == 2 ? "h2" : "h3", title);
    put_text(report->page, "p", note);
}

void gp_report_end(FILE *page)
{
    fputs("</body></html>\n", page);
}

/* ---- where it comes from ---- */

static const char *const facts[] = {"model",      "machine",  "cpu",         "threads",  "version",
                                    "analysis",   "seed",     "suites",      "policies", "form",
                                    "difficulty", "sampling", "concurrency", "batching", "kv",
                                    "engine",     "started"};

#define FACT_COUNT (sizeof facts / sizeof *facts)

static bool is_shared(const struct files *files, const char *fact)
{
    for (size_t i = 1; i < files->count; i++)
        if (!json_equal(json_object_get(files->items[i]->run, fact),
                        json_object_get(files->items[0]->run, fact)))
            return false;
    return true;
}

static void put_fact(FILE *page, const char *name, const char *value)
{
    fprintf(page, "<tr><td>%s</td><td>", name);
    gp_report_text(page, value);
    fputs("</td></tr>\n", page);
}

static void put_facts(FILE *page, const struct files *files, const struct gp_record_file *file,
                      bool shared)
{
    for (size_t k = 0; k < FACT_COUNT; k++) {
        const json_t *value = json_object_get(file->run, facts[k]);

        if (!value || is_shared(files, facts[k]) != shared)
            continue;
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        const char *plain = json_string_value(value);
        put_fact(page, facts[k], plain ? plain : text ? text : "?");
        free(text);
    }
}

static void put_record(FILE *page, const struct gp_record_file *file)
{
    const char *slash = strrchr(file->source->path, '/');

    put_fact(page, "record", slash ? slash + 1 : file->source->path);
    if (!file->complete)
        put_fact(page, "complete", "no: it broke off, or is still being written");
}

static void begin_facts(FILE *page)
{
    fputs("<div class=\"wide\"><table class=\"plain\"><tbody>\n", page);
}

static void end_facts(FILE *page)
{
    fputs("</tbody></table></div>\n", page);
}

/* What all records share, and then of each what it does not. */
int gp_report_origin(FILE *page, const struct gp_results *results, uint32_t count,
                     struct gp_error *err)
{
    struct files files;
    int rc = list_files(results, count, &files, err);

    if (rc)
        return rc;
    fputs("<h2>Where this comes from</h2>\n", page);
    begin_facts(page);
    if (files.count == 1)
        put_record(page, files.items[0]);
    put_facts(page, &files, files.items[0], true);
    end_facts(page);
    if (files.count > 1)
        fprintf(page, "<details><summary>What differs in the %zu records</summary>\n", files.count);
    for (size_t i = 0; files.count > 1 && i < files.count; i++) {
        begin_facts(page);
        put_record(page, files.items[i]);
        put_facts(page, &files, files.items[i], false);
        end_facts(page);
    }
    fprintf(page, "%s<p class=\"soft\">Written by growpage %s.</p>\n",
            files.count > 1 ? "</details>\n" : "", gp_version());
    gp_mem_free(files.items);
    return GP_OK;
}
