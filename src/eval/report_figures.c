/* The figures of a report. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "eval/plot.h"
#include "eval/report.h"
#include "eval/report_parts.h"

/* Readable on white and on black. */
static const char *const colours[] = {"#4477aa", "#cc6677", "#999933", "#44aa99",
                                      "#aa4499", "#dd9944", "#888888", "#6666cc"};

#define COLOUR_COUNT (sizeof colours / sizeof *colours)

/* ---- scripts ---- */

/* A script that grows; what did not fit into memory fails at the end. */
struct script {
    FILE *stream;
    char *text;
    size_t length;
};

static int begin_script(struct script *s, const char *name, int height, struct gp_error *err)
{
    *s = (struct script){0};
    s->stream = open_memstream(&s->text, &s->length);
    if (!s->stream)
        return gp_fail(err, GP_ENOMEM, "report: out of memory");
    fprintf(s->stream,
            "set terminal svg size 720,%d dynamic font 'sans-serif,14' name '%s' noenhanced\n"
            "set key above\nset border 3\nset tics nomirror out\nset grid ytics lw 0.4\n"
            "set style fill solid 0.8 noborder\nset boxwidth 0.9 relative\n",
            height, name);
    return GP_OK;
}

static int draw(struct script *s, const struct gp_report *report, const char *caption, int rc,
                struct gp_error *err)
{
    bool lost = fclose(s->stream) != 0;

    if (!rc && lost)
        rc = gp_fail(err, GP_ENOMEM, "report: out of memory");
    if (!rc) {
        fputs("<figure>\n", report->page);
        rc = gp_plot(s->text, report->page, err);
        fprintf(report->page, "<figcaption>%s</figcaption></figure>\n", caption);
    }
    free(s->text);
    return rc;
}

/* Within double quotes. */
static void put_quoted(struct script *s, const char *text)
{
    fputc('"', s->stream);
    for (; *text; text++)
        fputs(*text == '"' || *text == '\\' ? "'" : (char[2]){*text, 0}, s->stream);
    fputc('"', s->stream);
}

/* ---- families: arms that differ in their budget alone ---- */

struct family {
    uint32_t arms[GP_RESULTS_ARMS_MAX];
    uint32_t count;
    char name[160];
};

/* A name without the number of its budget. */
static void family_name(const struct gp_arm *arm, char out[160])
{
    const char *colon = strchr(arm->name, ':');

    if (!arm->budget || !colon) {
        snprintf(out, 160, "%s", arm->name);
        return;
    }
    const char *rest = colon + 1 + strspn(colon + 1, "0123456789");
    snprintf(out, 160, "%.*s%s", (int)(colon - arm->name), arm->name, rest);
}

/* The family that begins with this arm, by budget; empty when an earlier arm is of it. */
static void find_family(const struct gp_results *r, uint32_t first, struct family *out)
{
    char name[160];

    out->count = 0;
    family_name(&r->arms[first], out->name);
    for (uint32_t i = 0; i < r->arm_count; i++) {
        family_name(&r->arms[i], name);
        if (strcmp(name, out->name) != 0)
            continue;
        if (i < first) {
            out->count = 0;
            return;
        }
        uint32_t at = out->count++;
        for (; at > 0 && r->arms[out->arms[at - 1]].budget > r->arms[i].budget; at--)
            out->arms[at] = out->arms[at - 1];
        out->arms[at] = i;
    }
}

/* ---- accuracy against speed ---- */

static void put_trade_points(struct script *s, const struct gp_report *report,
                             const struct family *family, uint32_t index)
{
    fprintf(s->stream, "$f%u << EOD\n", index);
    for (uint32_t i = 0; i < family->count; i++) {
        const struct gp_summary *sum = &report->summaries[family->arms[i]];
        uint32_t budget = report->results->arms[family->arms[i]].budget;
        fprintf(s->stream, "%g %g %g %g \"%.0u\"\n", sum->tps, 100 * sum->pass_all.mean,
                100 * sum->pass_all.low, 100 * sum->pass_all.high, budget);
    }
    fputs("EOD\n", s->stream);
}

static bool has_speed(const struct gp_report *report, const struct family *family)
{
    for (uint32_t i = 0; i < family->count; i++)
        if (isnan(report->summaries[family->arms[i]].tps))
            return false;
    return family->count > 0;
}

int gp_report_trade(const struct gp_report *report, struct gp_error *err)
{
    const struct gp_results *r = report->results;
    struct family family;
    struct script s;
    uint32_t drawn = 0;

    int rc = begin_script(&s, "trade", 460, err);
    if (rc)
        return rc;
    fputs("set xlabel 'output tokens a second'\nset ylabel 'Pass@1, %'\nset offsets graph 0.08, "
          "graph 0.12, graph 0.05, graph 0.05\n",
          s.stream);
    for (uint32_t i = 0; i < r->arm_count; i++) {
        find_family(r, i, &family);
        if (has_speed(report, &family))
            put_trade_points(&s, report, &family, i);
    }
    for (uint32_t i = 0; i < r->arm_count; i++) {
        find_family(r, i, &family);
        if (!has_speed(report, &family))
            continue;
        const char *colour = colours[drawn % COLOUR_COUNT];
        fprintf(s.stream,
                "%s $f%u using 1:2:3:4 with yerrorbars pt %u ps 0.9 lw 1.5 lc rgb '%s' title ",
                drawn ? "," : "plot", i, drawn % 2 ? 5u : 7u, colour);
        put_quoted(&s, family.name);
        fprintf(s.stream,
                ", $f%u using 1:2 with lines lw 1.5 lc rgb '%s' notitle, $f%u using 1:2:5 with "
                "labels left offset char 0.8,0.6 font ',11' notitle",
                i, colour, i);
        drawn++;
    }
    if (drawn > 0)
        return draw(&s, report,
                    "Accuracy against throughput; numbers are nominal budgets, bars 95 % "
                    "intervals over problems.",
                    GP_OK, err);
    fclose(s.stream);
    free(s.text);
    return GP_OK;
}

/* ---- sufficient budgets ---- */

/* Problems of each class: budgets in order, then none. */
static void put_classes(struct script *s, const struct gp_results *r, const struct family *family,
                        uint32_t suite, const uint32_t *budgets, size_t count)
{
    fprintf(s->stream, "$s%u << EOD\n", suite);
    for (uint32_t i = 0; i <= family->count; i++) {
        uint32_t budget = i < family->count ? r->arms[family->arms[i]].budget : 0;
        size_t members = 0;
        for (size_t p = 0; p < count; p++)
            members += budgets[p] == budget;
        if (budget)
            fprintf(s->stream, "%u %zu\n", budget, members);
        else
            fprintf(s->stream, "unsolved %zu\n", members);
    }
    fputs("EOD\n", s->stream);
}

/* What an arm gave the problems of each class: mean and interval. */
static int put_given(struct script *s, const struct gp_report *report, const struct family *family,
                     uint32_t adaptive, uint32_t suite, const uint32_t *budgets,
                     const uint64_t *indices, size_t count, struct gp_error *err)
{
    const struct gp_results *r = report->results;
    size_t items;
    const struct gp_result *item = gp_results_of(r, adaptive, suite, &items);
    double *given = gp_mem_alloc_array(items + 1, sizeof *given);
    int rc = given ? GP_OK : gp_fail(err, GP_ENOMEM, "report: out of memory");

    /* A first line without values, for gnuplot refuses a block that has none. */
    fprintf(s->stream, "$g%u << EOD\nNaN NaN NaN NaN\n", suite);
    for (uint32_t c = 0; !rc && c <= family->count; c++) {
        uint32_t budget = c < family->count ? r->arms[family->arms[c]].budget : 0;
        struct gp_interval interval;
        size_t members = 0, p = 0;

        for (size_t i = 0; i < items; i++) {
            while (p < count && indices[p] < item[i].figures.index)
                p++;
            if (p < count && indices[p] == item[i].figures.index && budgets[p] == budget)
                given[members++] = item[i].figures.pages_mean * r->arms[adaptive].page_tokens;
        }
        if (members == 0)
            continue;
        struct gp_stratum all = {given, members};
        rc = gp_bootstrap(&all, 1, GP_REPORT_SEED, &interval, err);
        if (!rc)
            fprintf(s->stream, "%g %g %g %g\n", c + 0.12 * ((double)suite - r->suite_count / 2.0),
                    interval.mean, interval.low, interval.high);
    }
    fputs("EOD\n", s->stream);
    gp_mem_free(given);
    return rc;
}

static uint32_t find_adaptive(const struct gp_results *r)
{
    for (uint32_t i = 0; i < r->arm_count; i++)
        if (strcmp(r->arms[i].policy, "growpage") == 0)
            return i;
    return UINT32_MAX;
}

static void put_class_names(struct script *s, const struct gp_results *r,
                            const struct family *family)
{
    fputs("set xtics (", s->stream);
    for (uint32_t i = 0; i < family->count; i++)
        fprintf(s->stream, "'%u' %u, ", r->arms[family->arms[i]].budget, i);
    fprintf(s->stream, "'unsolved' %u)\nset xrange [-0.6:%u.6]\n", family->count, family->count);
}

static void put_plot(struct script *s, const struct gp_results *r, char data, const char *style)
{
    for (uint32_t suite = 0; suite < r->suite_count; suite++) {
        fprintf(s->stream, "%s $%c%u %s lc rgb '%s' title ", suite ? "," : "plot", data, suite,
                style, colours[suite % COLOUR_COUNT]);
        put_quoted(s, r->suites[suite]);
    }
}

/* Both figures of one family. */
static int draw_family(const struct gp_report *report, const struct family *family,
                       struct gp_error *err)
{
    const struct gp_results *r = report->results;
    uint32_t adaptive = find_adaptive(r);
    struct script classes, given;

    int rc = begin_script(&classes, "sufficient", 380, err);
    if (rc)
        return rc;
    rc = begin_script(&given, "alignment", 420, err);
    if (rc)
        return draw(&classes, report, "", rc, err);
    fputs("set style data histogram\nset style histogram clustered gap 1\nset ylabel 'problems'\n"
          "set yrange [0:*]\nset xlabel 'least budget that suffices, tokens'\n",
          classes.stream);
    fputs(
        "set ylabel 'budget given, tokens'\nset yrange [0:*]\nset xlabel 'least fixed budget that "
        "suffices, tokens'\n",
        given.stream);
    put_class_names(&given, r, family);
    for (uint32_t suite = 0; !rc && suite < r->suite_count; suite++) {
        uint32_t *budgets;
        uint64_t *indices;
        size_t count;
        rc = gp_sufficient(r, family->arms, family->count, suite, &budgets, &indices, &count, err);
        if (rc)
            break;
        put_classes(&classes, r, family, suite, budgets, count);
        if (adaptive != UINT32_MAX)
            rc = put_given(&given, report, family, adaptive, suite, budgets, indices, count, err);
        gp_mem_free(budgets);
        gp_mem_free(indices);
    }
    put_plot(&classes, r, 's', "using 2:xtic(1)");
    put_plot(&given, r, 'g', "using 1:2:3:4 with yerrorbars pt 7 ps 0.9 lw 1.5");
    rc = draw(&classes, report,
              "The least budget at which a problem is right, and at every larger one.", rc, err);
    if (adaptive != UINT32_MAX)
        return draw(&given, report,
                    "What growpage gave the same problems: class means and 95 % "
                    "intervals.",
                    rc, err);
    fclose(given.stream);
    free(given.text);
    return rc;
}

int gp_report_sufficient(const struct gp_report *report, struct gp_error *err)
{
    const struct gp_results *r = report->results;
    struct family family;
    int rc = GP_OK;

    for (uint32_t i = 0; !rc && i < r->arm_count; i++) {
        find_family(r, i, &family);
        if (family.count < 2 || !r->arms[i].budget)
            continue;
        fputs("<h2>Budgets that suffice: ", report->page);
        gp_report_text(report, family.name);
        fputs("</h2>\n<p class=\"soft\">A problem is right when more than half of its answers are."
              "</p>\n",
              report->page);
        rc = draw_family(report, &family, err);
    }
    return rc;
}
