/* The page around a report, and its tables. */
#include <math.h>
#include <string.h>

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
    "h1{font-size:1.6rem;line-height:1.2;margin:0 0 .3rem}h2{font-size:1.2rem;margin:2.2rem 0 "
    ".4rem}\n"
    "p{margin:.4rem 0}.soft{color:var(--soft)}\n"
    ".wide{overflow-x:auto}table{border-collapse:collapse;margin:.6rem 0;font:14px/1.4 system-ui,"
    "sans-serif;font-variant-numeric:tabular-nums;border-top:2px solid var(--ink);"
    "border-bottom:2px solid var(--ink)}\n"
    "th,td{padding:.25rem .7rem;text-align:right;white-space:nowrap}"
    "th:first-child,td:first-child{text-align:left}\n"
    "thead th{border-bottom:1px solid var(--ink);font-weight:600}"
    "tbody tr:nth-child(even){background:var(--row)}\n"
    "td small{color:var(--soft)}table.plain td{white-space:normal;text-align:left;"
    "overflow-wrap:anywhere}table.plain td:first-child{color:var(--soft);white-space:nowrap;"
    "vertical-align:top}\n"
    "figure{margin:1rem 0}svg{width:100%;height:auto;color:var(--ink)}"
    "figcaption{font-size:.9rem;color:var(--soft)}\n"
    "@media (max-width:40rem){body{font-size:15px;padding-top:1rem}th,td{padding:.2rem .45rem}"
    "table{font-size:13px}}\n"
    "</style></head><body>\n";

void gp_report_text(const struct gp_report *report, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '<':
            fputs("&lt;", report->page);
            break;
        case '>':
            fputs("&gt;", report->page);
            break;
        case '&':
            fputs("&amp;", report->page);
            break;
        case '"':
            fputs("&quot;", report->page);
            break;
        default:
            fputc(*text, report->page);
        }
    }
}

void gp_report_begin(const struct gp_report *report)
{
    const struct gp_results *r = report->results;
    size_t files = r->file_count;

    fputs(head, report->page);
    fprintf(report->page,
            "<h1>Answers under a KV budget</h1>\n<p class=\"soft\">%zu answers, %u "
            "polic%s and settings, %u suite%s, from %zu record%s. Intervals are 95 %%, from "
            "%u paired bootstrap draws of problems (seed %u).</p>\n",
            r->count, r->arm_count, r->arm_count == 1 ? "y" : "ies", r->suite_count,
            r->suite_count == 1 ? "" : "s", files, files == 1 ? "" : "s", GP_BOOTSTRAP_ROUNDS,
            GP_REPORT_SEED);
}

void gp_report_end(const struct gp_report *report)
{
    fputs("</body></html>\n", report->page);
}

/* ---- cells ---- */

static void begin_table(const struct gp_report *report, const char *title, const char *note,
                        const char *const *columns)
{
    fprintf(report->page,
            "<h2>%s</h2>\n<p class=\"soft\">%s</p>\n<div class=\"wide\"><table><thead><tr>", title,
            note);
    for (; *columns; columns++)
        fprintf(report->page, "<th>%s</th>", *columns);
}

static void begin_rows(const struct gp_report *report)
{
    fputs("</tr></thead><tbody>\n", report->page);
}

static void end_table(const struct gp_report *report)
{
    fputs("</tbody></table></div>\n", report->page);
}

static void begin_row(const struct gp_report *report, uint32_t arm)
{
    fputs("<tr><td>", report->page);
    gp_report_text(report, report->results->arms[arm].name);
    fputs("</td>", report->page);
}

static void put_number(const struct gp_report *report, double value, int decimals)
{
    if (isnan(value))
        fputs("<td>–</td>", report->page);
    else
        fprintf(report->page, "<td>%.*f</td>", decimals, value);
}

/* Shares in percent, with their interval. */
static void put_interval(const struct gp_report *report, struct gp_interval i, bool sign)
{
    if (isnan(i.mean))
        fputs("<td>–</td>", report->page);
    else
        fprintf(report->page,
                sign ? "<td>%+.1f <small>%+.1f…%+.1f</small></td>"
                     : "<td>%.1f <small>%.1f…%.1f</small></td>",
                100 * i.mean, 100 * i.low, 100 * i.high);
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : NAN;
}

/* ---- tables ---- */

void gp_report_accuracy(const struct gp_report *report)
{
    const struct gp_results *r = report->results;

    begin_table(report, "Accuracy",
                "Pass@1 in percent: the mean over answers of being right. The mean is over suites; "
                "the difference is problem by problem to the whole cache.",
                (const char *const[]){"policy", NULL});
    for (uint32_t s = 0; s < r->suite_count; s++) {
        fputs("<th>", report->page);
        gp_report_text(report, r->suites[s]);
        fputs("</th>", report->page);
    }
    fputs("<th>mean</th><th>difference</th><th>answers</th>", report->page);
    begin_rows(report);
    for (uint32_t i = 0; i < r->arm_count; i++) {
        const struct gp_summary *s = &report->summaries[i];
        begin_row(report, i);
        for (uint32_t suite = 0; suite < r->suite_count; suite++)
            put_interval(report, s->pass[suite], false);
        put_interval(report, s->pass_all, false);
        put_interval(report, s->difference, true);
        put_number(report, (double)s->samples, 0);
        fputs("</tr>\n", report->page);
    }
    end_table(report);
}

void gp_report_serving(const struct gp_report *report)
{
    const struct gp_results *r = report->results;

    begin_table(report, "Serving",
                "TPS: output tokens a second from the first step to the last. TPOT: mean over "
                "answers of the time between tokens. Budget: pages held, in tokens, over an "
                "answer's steps. C: requests that held pages, over steps.",
                (const char *const[]){"policy", "TPS", "TPOT ms", "time s", "tokens", "nominal",
                                      "budget", "C", NULL});
    begin_rows(report);
    for (uint32_t i = 0; i < r->arm_count; i++) {
        const struct gp_summary *s = &report->summaries[i];
        const struct gp_arm *arm = &r->arms[i];
        begin_row(report, i);
        put_number(report, s->tps, 1);
        put_number(report, s->tpot_ms, 2);
        put_number(report, arm->serving_ms > 0 ? arm->serving_ms / 1e3 : NAN, 1);
        put_number(report, s->tokens, 0);
        put_number(report, arm->budget ? arm->budget : NAN, 0);
        put_number(report, s->budget, 0);
        put_number(report, s->concurrency, 1);
        fputs("</tr>\n", report->page);
    }
    end_table(report);
}

void gp_report_events(const struct gp_report *report)
{
    const struct gp_results *r = report->results;

    begin_table(
        report, "Events",
        "Grow, compress and shrink are primary decisions, denied ones included; the rest is "
        "counted apart. Grow ratio: growths of all primary decisions, in percent.",
        (const char *const[]){"policy", "grow", "ratio", "compress", "shrink", "start", "initial",
                              "pressure", "capped", "fallback", "preempted", NULL});
    begin_rows(report);
    for (uint32_t i = 0; i < r->arm_count; i++) {
        const struct gp_summary *s = &report->summaries[i];
        const double counts[] = {s->compress, s->shrink, s->start,    s->initial,
                                 s->pressure, s->capped, s->fallback, s->preempt};
        begin_row(report, i);
        put_number(report, s->grow, 0);
        put_number(report, 100 * ratio(s->grow, s->grow + s->compress + s->shrink), 1);
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
            put_number(report, counts[k], 0);
        fputs("</tr>\n", report->page);
    }
    end_table(report);
}

void gp_report_overhead(const struct gp_report *report)
{
    const struct gp_results *r = report->results;

    begin_table(
        report, "Work at boundaries",
        "Milliseconds of work an answer took at its boundaries, and all of it as a share of the "
        "time that answers spent decoding, in percent.",
        (const char *const[]){"policy", "demand", "score", "select", "compact", "share", NULL});
    begin_rows(report);
    for (uint32_t i = 0; i < r->arm_count; i++) {
        const struct gp_summary *s = &report->summaries[i];
        const double times[] = {s->demand_ms, s->score_ms, s->select_ms, s->compact_ms};
        double all = 0;
        begin_row(report, i);
        for (size_t k = 0; k < sizeof times / sizeof *times; k++) {
            put_number(report, ratio(times[k], (double)s->samples), 3);
            all += times[k];
        }
        put_number(report, 100 * ratio(all, s->decode_ms), 2);
        fputs("</tr>\n", report->page);
    }
    end_table(report);
}

/* ---- where it comes from ---- */

static void put_fact(const struct gp_report *report, const char *name, const char *value)
{
    fprintf(report->page, "<tr><td>%s</td><td>", name);
    gp_report_text(report, value);
    fputs("</td></tr>\n", report->page);
}

static void put_json(const struct gp_report *report, const char *name, const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));

    put_fact(report, name, !text ? "?" : json_is_string(value) ? json_string_value(value) : text);
    free(text);
}

void gp_report_origin(const struct gp_report *report)
{
    static const char *const facts[] = {
        "model", "machine",    "cpu",      "threads",     "version",  "seed", "suites", "policies",
        "form",  "difficulty", "sampling", "concurrency", "batching", "kv",   "engine", "started"};
    const struct gp_results *r = report->results;

    fputs("<h2>Where this comes from</h2>\n", report->page);
    for (uint32_t i = 0; i < r->file_count; i++) {
        const struct gp_record_file *file = &r->files[i];
        const char *slash = strrchr(file->path, '/');
        fputs("<div class=\"wide\"><table class=\"plain\"><tbody>\n", report->page);
        put_fact(report, "record", slash ? slash + 1 : file->path);
        if (!file->complete)
            put_fact(report, "complete", "no: it broke off, or is still being written");
        for (size_t k = 0; k < sizeof facts / sizeof *facts; k++)
            put_json(report, facts[k], json_object_get(file->run, facts[k]));
        fputs("</tbody></table></div>\n", report->page);
    }
    fprintf(report->page, "<p class=\"soft\">Written by growpage %s.</p>\n", gp_version());
}
