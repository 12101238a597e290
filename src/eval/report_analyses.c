/* What analyses found: figures and tables. */
#include <math.h>
#include <string.h>

#include "eval/analyze_tables.h"
#include "eval/report_script.h"

/* More points than this are not told apart, and make a page heavy. */
#define POINTS_MAX 1500u

static double number_of(const json_t *line, const char *key)
{
    const json_t *value = json_object_get(line, key);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

static bool is_kind(const json_t *line, const char *kind)
{
    const char *its = json_string_value(json_object_get(line, "kind"));

    return its && strcmp(its, kind) == 0;
}

static size_t count_kind(const json_t *found, const char *kind)
{
    const json_t *line;
    size_t at, count = 0;

    json_array_foreach(found, at, line)
    {
        count += is_kind(line, kind);
    }
    return count;
}

/* ---- tables ---- */

static void put_cell(FILE *page, const char *tag, const char *text)
{
    fprintf(page, "<%s>", tag);
    gp_report_text(page, text);
    fprintf(page, "</%s>", tag);
}

static void put_table(FILE *page, const json_t *found, const struct gp_analysis_table *table)
{
    const json_t *line;
    size_t at;

    fputs("<div class=\"wide\"><table><thead><tr>", page);
    for (uint32_t i = 0; i < GP_ANALYSIS_COLUMNS_MAX && table->columns[i].key; i++)
        put_cell(page, "th", table->columns[i].title);
    fputs("</tr></thead><tbody>\n", page);
    json_array_foreach(found, at, line)
    {
        if (!gp_analysis_is_line(line, table))
            continue;
        fputs("<tr>", page);
        for (uint32_t i = 0; i < GP_ANALYSIS_COLUMNS_MAX && table->columns[i].key; i++) {
            char text[64];

            gp_analysis_spell(line, &table->columns[i], text);
            put_cell(page, "td", text);
        }
        fputs("</tr>\n", page);
    }
    fputs("</tbody></table></div>\n", page);
}

/* ---- one analysis after the other ---- */

struct kind {
    enum gp_analysis_kind kind;
    const char *title, *note;
    int height;
    int (*draw)(struct gp_script *s, const json_t *found, struct gp_error *err);
    const char *caption;
    bool tables;
};

/* The heading stands once, the name of each analysis above its figure. */
static int report_kind(const struct gp_report *report, const struct kind *kind,
                       struct gp_error *err)
{
    const struct gp_results *r = report->results;
    const char *name = gp_analysis_name(kind->kind);
    const struct gp_analysis_table *table;
    uint32_t shown = 0;
    int rc = GP_OK;

    for (uint32_t i = 0; !rc && i < r->file_count; i++) {
        const struct gp_record_file *file = &r->files[i];
        const char *analysis = json_string_value(json_object_get(file->run, "analysis"));
        char id[64];
        struct gp_script s;

        if (!file->found || !analysis || strcmp(analysis, name) != 0)
            continue;
        if (shown++ == 0)
            gp_report_heading(report, kind->title, kind->note);
        if (file->source->name) {
            fputs("<p><b>", report->page);
            gp_report_text(report->page, file->source->name);
            fputs("</b></p>\n", report->page);
        }
        snprintf(id, sizeof id, "%s%u_", name, i);
        rc = gp_script_begin(&s, report, id, kind->height, err);
        if (rc)
            return rc;
        rc = kind->draw(&s, file->found, err);
        rc = gp_script_draw(&s, report, kind->caption, rc, err);
        for (uint32_t n = 0; kind->tables && !rc && (table = gp_analysis_table(kind->kind, n)); n++)
            put_table(report->page, file->found, table);
    }
    return rc;
}

static int nothing(const struct kind *kind, struct gp_error *err)
{
    return gp_fail(err, GP_EINVAL, "%s: an analysis that found nothing",
                   gp_analysis_name(kind->kind));
}

/* ---- signal ---- */

static int draw_signal(struct gp_script *s, const json_t *found, struct gp_error *err);

static const struct kind signals = {
    GP_ANALYSIS_SIGNAL,
    "The signal and what came",
    "Delta at a boundary against the change of the working set, from the page before it to the "
    "page behind it, as a share of the cache; in the table also from the last row, and from all "
    "rows so far, and in slots.",
    400,
    draw_signal,
    "Every boundary, or as many as can be seen, evenly chosen. A signal that knows the sign of "
    "what comes has its points at the lower left and the upper right.",
    true,
};

static int draw_signal(struct gp_script *s, const json_t *found, struct gp_error *err)
{
    size_t count = count_kind(found, "pair"), at, nth = 0;
    size_t step = (count + POINTS_MAX - 1) / POINTS_MAX;
    const json_t *line;

    if (count == 0)
        return nothing(&signals, err);
    fputs("set xlabel 'delta'\nset ylabel 'change of the working set, % of the cache'\n"
          "set xzeroaxis lw 1\nset yzeroaxis lw 1\nunset key\n$p << EOD\n",
          s->stream);
    json_array_foreach(found, at, line)
    {
        if (is_kind(line, "pair") && nth++ % step == 0)
            fprintf(s->stream, "%g %g\n", number_of(line, "delta"),
                    100 * (number_of(line, "share_next") - number_of(line, "share_page")));
    }
    fprintf(s->stream, "EOD\nplot $p using 1:2 with points pt 7 ps 0.35 lc rgb '%s'\n",
            gp_script_colour(0));
    return GP_OK;
}

int gp_report_signal(const struct gp_report *report, struct gp_error *err)
{
    return report_kind(report, &signals, err);
}

/* ---- counterfactual ---- */

static int draw_counterfactual(struct gp_script *s, const json_t *found, struct gp_error *err);

static const struct kind counterfactuals = {
    GP_ANALYSIS_COUNTERFACTUAL,
    "What a page is worth",
    "Advantage: the mean negative log-likelihood of the reference's next tokens after compressing "
    "minus that after growing, at the same boundary. Bins are quarters of the boundaries on either "
    "side of delta = 0.",
    380,
    draw_counterfactual,
    "The mean advantage in each bin, named by its range of delta, with 95 % intervals over "
    "answers.",
    true,
};

/* "delta > 0 1/4", not the whole side. */
static bool is_quarter(const json_t *line)
{
    const char *name = json_string_value(json_object_get(line, "bin"));

    return is_kind(line, "bin") && name && strchr(name, '/');
}

static int draw_counterfactual(struct gp_script *s, const json_t *found, struct gp_error *err)
{
    const json_t *line;
    size_t at, bins = 0;

    fputs("set ylabel 'advantage, nats a token'\nset xlabel 'delta'\nset xzeroaxis lw 1\n"
          "unset key\nset xtics rotate by -30 font ',11'\n$b << EOD\n",
          s->stream);
    json_array_foreach(found, at, line)
    {
        if (!is_quarter(line))
            continue;
        fprintf(s->stream, "%zu %g %g %g %d \"%.2g … %.2g\"\n", bins++,
                number_of(line, "advantage"), number_of(line, "advantage_low"),
                number_of(line, "advantage_high"), number_of(line, "delta_low") > 0,
                number_of(line, "delta_low"), number_of(line, "delta_high"));
    }
    if (bins == 0)
        return nothing(&counterfactuals, err);
    fprintf(s->stream,
            "EOD\nset xrange [-0.6:%zu.6]\n"
            "plot $b using 1:($5 == 0 ? $2 : NaN):xtic(6) with boxes lc rgb '%s', "
            "$b using 1:($5 == 1 ? $2 : NaN) with boxes lc rgb '%s', "
            "$b using 1:2:3:4 with yerrorbars pt 0 lw 1.5 lc rgb 'black'\n",
            bins - 1, gp_script_colour(0), gp_script_colour(1));
    return GP_OK;
}

int gp_report_counterfactual(const struct gp_report *report, struct gp_error *err)
{
    return report_kind(report, &counterfactuals, err);
}

/* ---- sparsity ---- */

static int draw_sparsity(struct gp_script *s, const json_t *found, struct gp_error *err);

static const struct kind sparsities = {
    GP_ANALYSIS_SPARSITY,
    "The working set over decoding",
    "The least share of a full cache that holds 99 % of a token's attention, a mean over heads.",
    380,
    draw_sparsity,
    "By the place in the sequence: the mean over answers and its 95 % interval (blue), and each "
    "layer (grey). Later places have fewer answers.",
    false,
};

static void put_layer(struct gp_script *s, const json_t *found, size_t layer)
{
    const json_t *line;
    size_t at;

    fprintf(s->stream, "$l%zu << EOD\n", layer);
    json_array_foreach(found, at, line)
    {
        const json_t *share = json_array_get(json_object_get(line, "layers"), layer);

        if (is_kind(line, "position"))
            fprintf(s->stream, "%g %g\n", number_of(line, "to"), 100 * json_number_value(share));
    }
    fputs("EOD\n", s->stream);
}

static int draw_sparsity(struct gp_script *s, const json_t *found, struct gp_error *err)
{
    const json_t *line;
    size_t at, layers = 0;

    if (count_kind(found, "position") == 0)
        return nothing(&sparsities, err);
    fputs("set xlabel 'tokens'\nset ylabel 'working set, % of the cache'\nset yrange [0:*]\n"
          "unset key\n$m << EOD\n",
          s->stream);
    json_array_foreach(found, at, line)
    {
        if (!is_kind(line, "position"))
            continue;
        fprintf(s->stream, "%g %g %g %g\n", number_of(line, "to"), 100 * number_of(line, "share"),
                100 * number_of(line, "share_low"), 100 * number_of(line, "share_high"));
        layers = json_array_size(json_object_get(line, "layers"));
    }
    fputs("EOD\n", s->stream);
    for (size_t i = 0; i < layers; i++)
        put_layer(s, found, i);
    fprintf(s->stream, "plot $m using 1:3:4 with filledcurves fs solid 0.25 lc rgb '%s'",
            gp_script_colour(0));
    for (size_t i = 0; i < layers; i++)
        fprintf(s->stream, ", $l%zu with lines lw 0.7 lc rgb '%s'", i, gp_script_colour(6));
    fprintf(s->stream, ", $m using 1:2 with lines lw 2.2 lc rgb '%s'\n", gp_script_colour(0));
    return GP_OK;
}

int gp_report_sparsity(const struct gp_report *report, struct gp_error *err)
{
    return report_kind(report, &sparsities, err);
}

/* ---- overhead ---- */

static int draw_overhead(struct gp_script *s, const json_t *found, struct gp_error *err);

static const struct kind overheads = {
    GP_ANALYSIS_OVERHEAD,
    "What the work at boundaries costs",
    "Milliseconds an event, and shares of the time spent decoding. Demand is measured at a "
    "boundary; a cut is scored, selected and compacted. The window mask of the paper is part of "
    "scoring here.",
    360,
    draw_overhead,
    "Milliseconds an event, by stage.",
    true,
};

/* Each policy once, in their order. */
static size_t list_policies(const json_t *found, const char *policies[GP_BUDGETS_MAX])
{
    const json_t *line;
    size_t at, count = 0;

    json_array_foreach(found, at, line)
    {
        const char *policy = json_string_value(json_object_get(line, "policy"));

        if (is_kind(line, "overhead") && policy && count < GP_BUDGETS_MAX &&
            (count == 0 || strcmp(policies[count - 1], policy) != 0))
            policies[count++] = policy;
    }
    return count;
}

/* All stages but their sum, which has no events. */
static void put_stages(struct gp_script *s, const json_t *found, const char *policy, size_t n)
{
    const json_t *line;
    size_t at;

    fprintf(s->stream, "$o%zu << EOD\n", n);
    json_array_foreach(found, at, line)
    {
        const char *its = json_string_value(json_object_get(line, "policy"));
        double ms = number_of(line, "ms_per_event");

        if (is_kind(line, "overhead") && its && strcmp(its, policy) == 0 &&
            !json_is_null(json_object_get(line, "events")))
            fprintf(s->stream, "%s %g\n", json_string_value(json_object_get(line, "stage")),
                    isnan(ms) ? 0 : ms);
    }
    fputs("EOD\n", s->stream);
}

static int draw_overhead(struct gp_script *s, const json_t *found, struct gp_error *err)
{
    const char *policies[GP_BUDGETS_MAX];
    size_t count = list_policies(found, policies);

    if (count == 0)
        return nothing(&overheads, err);
    fputs("set style data histogram\nset style histogram clustered gap 1\nset yrange [0:*]\n"
          "set ylabel 'ms an event'\n",
          s->stream);
    for (size_t i = 0; i < count; i++)
        put_stages(s, found, policies[i], i);
    for (size_t i = 0; i < count; i++) {
        fprintf(s->stream, "%s $o%zu using 2:xtic(1) lc rgb '%s' title ", i ? "," : "plot", i,
                gp_script_colour(i));
        gp_script_quoted(s, policies[i]);
    }
    return GP_OK;
}

int gp_report_overhead(const struct gp_report *report, struct gp_error *err)
{
    return report_kind(report, &overheads, err);
}
