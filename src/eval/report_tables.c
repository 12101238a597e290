/* The tables of a report. */
#include <math.h>
#include <string.h>

#include "eval/report.h"
#include "eval/report_parts.h"

/* ---- cells ---- */

static void begin_table(const struct gp_report *report, const char *const *columns)
{
    fputs("<div class=\"wide\"><table><thead><tr>", report->page);
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
    gp_report_text(report->page, report->results->arms[arm].name);
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

static void put_suite_names(const struct gp_report *report)
{
    for (uint32_t s = 0; s < report->results->suite_count; s++) {
        fputs("<th>", report->page);
        gp_report_text(report->page, report->results->suites[s]);
        fputs("</th>", report->page);
    }
}

/* ---- tables ---- */

int gp_report_accuracy(const struct gp_report *report, struct gp_error *err)
{
    const struct gp_results *r = report->results;

    (void)err;
    if (r->arm_count == 0)
        return GP_OK;
    gp_report_heading(report, "Accuracy",
                      "Pass@1 in percent: the mean over answers of being right. The mean is over "
                      "suites; the difference is problem by problem to the whole cache.");
    begin_table(report, (const char *const[]){"policy", NULL});
    put_suite_names(report);
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
    return GP_OK;
}

static double speed_of(const struct gp_report *report, uint32_t arm, uint32_t suite, size_t offset)
{
    return *(const double *)((const char *)&report->summaries[arm].speed[suite] + offset);
}

/* Over suites; NaN as soon as one has none. */
static double mean_speed(const struct gp_report *report, uint32_t arm, size_t offset)
{
    uint32_t suites = report->results->suite_count;
    double sum = 0;

    for (uint32_t suite = 0; suite < suites; suite++)
        sum += speed_of(report, arm, suite, offset);
    return sum / suites;
}

static bool has_suite_speed(const struct gp_report *report)
{
    for (uint32_t i = 0; i < report->results->arm_count; i++)
        for (uint32_t suite = 0; suite < report->results->suite_count; suite++)
            if (!isnan(report->summaries[i].speed[suite].tps))
                return true;
    return false;
}

int gp_report_speed(const struct gp_report *report, struct gp_error *err)
{
    static const struct {
        const char *title, *note;
        size_t offset;
        int decimals;
    } tables[] = {
        {"Throughput",
         "TPS of each suite by itself: output tokens a second from the first step to the last. "
         "The last column is the mean over suites as a multiple of that of the whole cache.",
         offsetof(struct gp_suite_speed, tps), 0},
        {"Total time", "Seconds from the first step to the last.",
         offsetof(struct gp_suite_speed, seconds), 1},
        {"Time per output token", "TPOT, the mean over answers, in milliseconds.",
         offsetof(struct gp_suite_speed, tpot_ms), 2},
        {"Budget", "Pages held, in tokens: the mean over answers of the mean over their steps.",
         offsetof(struct gp_suite_speed, budget), 0},
    };
    const struct gp_results *r = report->results;

    (void)err;
    for (size_t t = 0; has_suite_speed(report) && t < sizeof tables / sizeof *tables; t++) {
        gp_report_heading(report, tables[t].title, tables[t].note);
        begin_table(report, (const char *const[]){"policy", NULL});
        put_suite_names(report);
        double whole = report->reference == UINT32_MAX
                           ? NAN
                           : mean_speed(report, report->reference, tables[t].offset);
        fputs("<th>mean</th><th>of full</th>", report->page);
        begin_rows(report);
        for (uint32_t i = 0; i < r->arm_count; i++) {
            double mean = mean_speed(report, i, tables[t].offset);
            begin_row(report, i);
            for (uint32_t suite = 0; suite < r->suite_count; suite++)
                put_number(report, speed_of(report, i, suite, tables[t].offset),
                           tables[t].decimals);
            put_number(report, mean, tables[t].decimals);
            put_number(report, mean / whole, 2);
            fputs("</tr>\n", report->page);
        }
        end_table(report);
    }
    return GP_OK;
}

int gp_report_serving(const struct gp_report *report, struct gp_error *err)
{
    const struct gp_results *r = report->results;

    (void)err;
    if (r->arm_count == 0)
        return GP_OK;
    gp_report_heading(
        report, "Serving",
        "TPS: output tokens a second from the first step to the last. TPOT: mean over "
        "answers of the time between tokens. Budget: pages held, in tokens, over an "
        "answer's steps. C: requests that held pages, over steps.");
    begin_table(report, (const char *const[]){"policy", "TPS", "TPOT ms", "time s", "tokens",
                                              "nominal", "budget", "C", NULL});
    begin_rows(report);
    for (uint32_t i = 0; i < r->arm_count; i++) {
        const struct gp_summary *s = &report->summaries[i];
        const struct gp_arm *arm = &r->arms[i];
        begin_row(report, i);
        put_number(report, s->tps, 1);
        put_number(report, s->tpot_ms, 2);
        put_number(report, arm->served.ms > 0 ? arm->served.ms / 1e3 : NAN, 1);
        put_number(report, s->tokens, 0);
        put_number(report, arm->budget ? arm->budget : NAN, 0);
        put_number(report, s->budget, 0);
        put_number(report, s->concurrency, 1);
        fputs("</tr>\n", report->page);
    }
    end_table(report);
    return GP_OK;
}

int gp_report_events(const struct gp_report *report, struct gp_error *err)
{
    const struct gp_results *r = report->results;

    (void)err;
    if (r->arm_count == 0)
        return GP_OK;
    gp_report_heading(
        report, "Events",
        "Grow, compress and shrink are primary decisions, denied ones included; the rest is "
        "counted apart. Grow ratio: growths of all primary decisions, in percent.");
    begin_table(report, (const char *const[]){"policy", "grow", "ratio", "compress", "shrink",
                                              "start", "initial", "pressure", "capped", "fallback",
                                              "preempted", NULL});
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
    return GP_OK;
}

int gp_report_work(const struct gp_report *report, struct gp_error *err)
{
    const struct gp_results *r = report->results;

    (void)err;
    if (r->arm_count == 0)
        return GP_OK;
    gp_report_heading(
        report, "Work at boundaries",
        "Milliseconds of work an answer took at its boundaries, and all of it as a share of the "
        "time that answers spent decoding, in percent.");
    begin_table(report, (const char *const[]){"policy", "demand", "score", "select", "compact",
                                              "share", NULL});
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
    return GP_OK;
}
