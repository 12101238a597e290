/* Accuracy against speed. */
#include <math.h>

#include "eval/report_script.h"

/* What stands beside an arm: its point or its budget, and how many requests held pages.  Nothing
 * where the key says it all. */
static void put_label(struct gp_script *s, const struct gp_report *report, uint32_t arm, bool all)
{
    const struct gp_arm *a = &report->results->arms[arm];
    const char *point = report->results->files[a->file].source->point;
    double concurrency = report->summaries[arm].concurrency;
    char text[80] = "";
    int length = 0;

    if (!all) {
        fputs("\"\"", s->stream);
        return;
    }
    if (point)
        length = snprintf(text, sizeof text, "%.40s", point);
    else if (a->budget)
        length = snprintf(text, sizeof text, "%u", a->budget);
    if (!isnan(concurrency))
        snprintf(text + length, sizeof text - (size_t)length, "%sC %.0f", length ? ", " : "",
                 concurrency);
    gp_script_quoted(s, text);
}

static void put_points(struct gp_script *s, const struct gp_report *report,
                       const struct gp_family *family, uint32_t index, bool labels)
{
    fprintf(s->stream, "$f%u << EOD\n", index);
    for (uint32_t i = 0; i < family->count; i++) {
        const struct gp_summary *sum = &report->summaries[family->arms[i]];

        fprintf(s->stream, "%g %g %g %g ", sum->tps, 100 * sum->pass_all.mean,
                100 * sum->pass_all.low, 100 * sum->pass_all.high);
        put_label(s, report, family->arms[i], labels);
        fputc('\n', s->stream);
    }
    fputs("EOD\n", s->stream);
}

static bool has_speed(const struct gp_report *report, const struct gp_family *family)
{
    for (uint32_t i = 0; i < family->count; i++)
        if (isnan(report->summaries[family->arms[i]].tps))
            return false;
    return family->count > 0;
}

static bool some_are_joined(const struct gp_results *r)
{
    struct gp_family family;
    bool some = false;

    for (uint32_t i = 0; i < r->arm_count; i++) {
        gp_results_family(r, i, &family);
        some = some || family.count > 1;
    }
    return some;
}

/* Points with their bars, a line through them, what stands beside them. */
static void plot_family(struct gp_script *s, const struct gp_family *family, uint32_t index,
                        uint32_t drawn)
{
    const char *colour = gp_script_colour(drawn);

    fprintf(s->stream,
            "%s $f%u using 1:2:3:4 with yerrorbars pt %u ps 0.9 lw 1.5 lc rgb '%s' title ",
            drawn ? "," : "plot", index, drawn % 2 ? 5u : 7u, colour);
    gp_script_quoted(s, family->name);
    fprintf(s->stream,
            ", $f%u using 1:2 with lines lw 1.5 lc rgb '%s' notitle, $f%u using 1:2:5 with "
            "labels left offset char 0.7,0.5 font ',11' notitle",
            index, colour, index);
}

int gp_report_trade(const struct gp_report *report, struct gp_error *err)
{
    const struct gp_results *r = report->results;
    struct gp_family family;
    struct gp_script s;
    uint32_t drawn = 0;
    bool labels = some_are_joined(r);

    int rc = gp_script_begin(&s, report, "trade", 440, err);
    if (rc)
        return rc;
    fputs("set xlabel 'output tokens a second'\nset ylabel 'Pass@1, %'\nset format x '%.1s%c'\n"
          "set xtics autofreq rangelimited\nset yrange [*:103]\nset offsets graph 0.05, "
          "graph 0.16, 0, graph 0.05\n",
          s.stream);
    for (uint32_t i = 0; i < r->arm_count; i++) {
        gp_results_family(r, i, &family);
        if (has_speed(report, &family))
            put_points(&s, report, &family, i, labels);
    }
    for (uint32_t i = 0; i < r->arm_count; i++) {
        gp_results_family(r, i, &family);
        if (has_speed(report, &family))
            plot_family(&s, &family, i, drawn++);
    }
    if (drawn > 0)
        return gp_script_draw(&s, report,
                              "Accuracy against throughput. Numbers are nominal budgets or "
                              "settings, C requests that held pages, bars 95 % intervals over "
                              "problems.",
                              GP_OK, err);
    gp_script_drop(&s);
    return GP_OK;
}
