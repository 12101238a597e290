/* Budgets that suffice, and what a policy that adapts gave the same problems: from records under
 * several budgets, or from an analysis of budgets. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "eval/report.h"
#include "eval/report_script.h"

#define CLASSES_MAX (GP_RESULTS_ARMS_MAX + 1)

/* Problems by the least budget that suffices. */
struct classes {
    uint32_t budgets[CLASSES_MAX]; /* ascending, then 0: none suffices */
    uint32_t count;
    const char *suites[GP_RESULTS_SUITES_MAX];
    uint32_t suite_count;
    size_t members[GP_RESULTS_SUITES_MAX][CLASSES_MAX];
    struct gp_interval given[GP_RESULTS_SUITES_MAX][CLASSES_MAX]; /* NaN: nobody was given */
    char adaptive[64];                                            /* who gave; empty: nobody */
};

/* ---- figures ---- */

static void put_suites(struct gp_script *s, const struct classes *c, char data, const char *style)
{
    for (uint32_t suite = 0; suite < c->suite_count; suite++) {
        fprintf(s->stream, "%s $%c%u %s lc rgb '%s' title ", suite ? "," : "plot", data, suite,
                style, gp_script_colour(suite));
        gp_script_quoted(s, c->suites[suite]);
    }
}

static int draw_members(const struct gp_report *report, const struct classes *c, const char *name,
                        struct gp_error *err)
{
    struct gp_script s;
    int rc = gp_script_begin(&s, report, name, 380, err);

    if (rc)
        return rc;
    fputs("set style data histogram\nset style histogram clustered gap 1\nset ylabel 'problems'\n"
          "set yrange [0:*]\nset xlabel 'least budget that suffices, tokens'\n",
          s.stream);
    for (uint32_t suite = 0; suite < c->suite_count; suite++) {
        fprintf(s.stream, "$s%u << EOD\n", suite);
        for (uint32_t i = 0; i < c->count; i++)
            if (c->budgets[i])
                fprintf(s.stream, "%u %zu\n", c->budgets[i], c->members[suite][i]);
            else
                fprintf(s.stream, "unsolved %zu\n", c->members[suite][i]);
        fputs("EOD\n", s.stream);
    }
    put_suites(&s, c, 's', "using 2:xtic(1)");
    return gp_script_draw(&s, report,
                          "The least budget at which a problem is right, and at every larger one.",
                          rc, err);
}

static int draw_given(const struct gp_report *report, const struct classes *c, const char *name,
                      struct gp_error *err)
{
    struct gp_script s;
    int rc = gp_script_begin(&s, report, name, 420, err);

    if (rc)
        return rc;
    fputs("set ylabel 'budget given, tokens'\nset yrange [0:*]\nset xlabel 'least fixed budget "
          "that suffices, tokens'\nset xtics (",
          s.stream);
    for (uint32_t i = 0; i < c->count; i++)
        if (c->budgets[i])
            fprintf(s.stream, "'%u' %u, ", c->budgets[i], i);
        else
            fprintf(s.stream, "'unsolved' %u)\nset xrange [-0.6:%u.6]\n", i, i);
    for (uint32_t suite = 0; suite < c->suite_count; suite++) {
        /* A first line without values, for gnuplot refuses a block that has none. */
        fprintf(s.stream, "$g%u << EOD\nNaN NaN NaN NaN\n", suite);
        for (uint32_t i = 0; i < c->count; i++)
            if (!isnan(c->given[suite][i].mean))
                fprintf(s.stream, "%g %g %g %g\n",
                        i + 0.12 * ((double)suite - c->suite_count / 2.0), c->given[suite][i].mean,
                        c->given[suite][i].low, c->given[suite][i].high);
        fputs("EOD\n", s.stream);
    }
    put_suites(&s, c, 'g', "using 1:2:3:4 with yerrorbars pt 7 ps 0.9 lw 1.5");
    return gp_script_draw(&s, report,
                          "What growpage gave the same problems: class means and 95 % intervals.",
                          rc, err);
}

static int draw_classes(const struct gp_report *report, const struct classes *c, uint32_t number,
                        struct gp_error *err)
{
    char members[32], given[32];

    snprintf(members, sizeof members, "sufficient%u_", number);
    snprintf(given, sizeof given, "alignment%u_", number);
    int rc = draw_members(report, c, members, err);
    return rc || !*c->adaptive ? rc : draw_given(report, c, given, err);
}

/* ---- from records ---- */

static uint32_t find_adaptive(const struct gp_results *r)
{
    for (uint32_t i = 0; i < r->arm_count; i++)
        if (strcmp(r->arms[i].policy, "growpage") == 0)
            return i;
    return UINT32_MAX;
}

/* What an arm gave the problems of each class of a suite. */
static int take_given(struct classes *c, const struct gp_report *report, uint32_t adaptive,
                      uint32_t suite, const uint32_t *budgets, const uint64_t *indices,
                      size_t count, struct gp_error *err)
{
    const struct gp_results *r = report->results;
    size_t items;
    const struct gp_result *item = gp_results_of(r, adaptive, suite, &items);
    double *given = gp_mem_alloc_array(items + 1, sizeof *given);
    int rc = given ? GP_OK : gp_fail(err, GP_ENOMEM, "report: out of memory");

    for (uint32_t i = 0; !rc && i < c->count; i++) {
        size_t members = 0, p = 0;

        for (size_t k = 0; k < items; k++) {
            while (p < count && indices[p] < item[k].figures.index)
                p++;
            if (p < count && indices[p] == item[k].figures.index && budgets[p] == c->budgets[i])
                given[members++] = item[k].figures.pages_mean * r->arms[adaptive].page_tokens;
        }
        struct gp_stratum all = {given, members};
        if (members > 0)
            rc = gp_bootstrap(&all, 1, GP_REPORT_SEED, &c->given[suite][i], err);
    }
    gp_mem_free(given);
    return rc;
}

static int take_suite(struct classes *c, const struct gp_report *report,
                      const struct gp_family *family, uint32_t adaptive, uint32_t suite,
                      struct gp_error *err)
{
    uint32_t *budgets;
    uint64_t *indices;
    size_t count;
    int rc = gp_sufficient(report->results, family->arms, family->count, suite, &budgets, &indices,
                           &count, err);

    if (rc)
        return rc;
    for (size_t p = 0; p < count; p++)
        for (uint32_t i = 0; i < c->count; i++)
            c->members[suite][i] += budgets[p] == c->budgets[i];
    if (adaptive != UINT32_MAX)
        rc = take_given(c, report, adaptive, suite, budgets, indices, count, err);
    gp_mem_free(budgets);
    gp_mem_free(indices);
    return rc;
}

static struct classes *make_classes(struct gp_error *err)
{
    struct classes *c = gp_mem_alloc(sizeof *c);

    if (!c)
        gp_error_set(err, "report: out of memory");
    for (uint32_t suite = 0; c && suite < GP_RESULTS_SUITES_MAX; suite++)
        for (uint32_t i = 0; i < CLASSES_MAX; i++)
            c->given[suite][i] = (struct gp_interval){NAN, NAN, NAN};
    return c;
}

static int report_family(const struct gp_report *report, const struct gp_family *family,
                         struct gp_error *err)
{
    const struct gp_results *r = report->results;
    uint32_t adaptive = find_adaptive(r);
    struct classes *c = make_classes(err);
    int rc = c ? GP_OK : GP_ENOMEM;

    if (!c)
        return rc;
    for (uint32_t i = 0; i < family->count; i++)
        c->budgets[i] = r->arms[family->arms[i]].budget;
    c->count = family->count + 1;
    c->suite_count = r->suite_count;
    snprintf(c->adaptive, sizeof c->adaptive, "%s",
             adaptive == UINT32_MAX ? "" : r->arms[adaptive].policy);
    for (uint32_t suite = 0; !rc && suite < r->suite_count; suite++) {
        c->suites[suite] = r->suites[suite];
        rc = take_suite(c, report, family, adaptive, suite, err);
    }
    if (!rc)
        rc = draw_classes(report, c, family->arms[0], err);
    gp_mem_free(c);
    return rc;
}

int gp_report_sufficient(const struct gp_report *report, struct gp_error *err)
{
    const struct gp_results *r = report->results;
    struct gp_family family;
    int rc = GP_OK;

    for (uint32_t i = 0; !rc && i < r->arm_count; i++) {
        char title[200];

        gp_results_family(r, i, &family);
        if (family.count < 2 || !r->arms[i].budget)
            continue;
        snprintf(title, sizeof title, "Budgets that suffice: %s", family.name);
        gp_report_heading(report, title,
                          "A problem is right when more than half of its answers are.");
        rc = report_family(report, &family, err);
    }
    return rc;
}

/* ---- from an analysis ---- */

static const char *text_of(const json_t *line, const char *key)
{
    const char *text = json_string_value(json_object_get(line, key));

    return text ? text : "";
}

static uint32_t budget_of(const json_t *line)
{
    return (uint32_t)json_integer_value(json_object_get(line, "sufficient"));
}

static double number_of(const json_t *line, const char *key)
{
    const json_t *value = json_object_get(line, key);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* UINT32_MAX: there is no room for another. */
static uint32_t find_suite(struct classes *c, const char *name)
{
    uint32_t i = 0;

    while (i < c->suite_count && strcmp(c->suites[i], name) != 0)
        i++;
    if (i == GP_RESULTS_SUITES_MAX)
        return UINT32_MAX;
    if (i == c->suite_count)
        c->suites[c->suite_count++] = name;
    return i;
}

/* The classes of each suite of one policy come in the order of their budgets, none last. */
static int take_class(struct classes *c, const json_t *line, struct gp_error *err)
{
    uint32_t suite = find_suite(c, text_of(line, "suite")), budget = budget_of(line), i = 0;

    while (i < c->count && c->budgets[i] != budget)
        i++;
    if (suite == UINT32_MAX || i == CLASSES_MAX)
        return gp_fail(err, GP_EINVAL, "an analysis of more suites or budgets than fit");
    if (i == c->count)
        c->budgets[c->count++] = budget;
    c->members[suite][i] = (size_t)json_integer_value(json_object_get(line, "problems"));
    c->given[suite][i] =
        (struct gp_interval){number_of(line, "capacity"), number_of(line, "capacity_low"),
                             number_of(line, "capacity_high")};
    return GP_OK;
}

/* Of the first policy that adapts; suite by suite, not all of them as one. */
static int report_analysis(const struct gp_report *report, uint32_t file, struct gp_error *err)
{
    struct classes *c = make_classes(err);
    const json_t *line;
    size_t at;
    int rc = c ? GP_OK : GP_ENOMEM;

    json_array_foreach(report->results->files[file].found, at, line)
    {
        if (rc || strcmp(text_of(line, "kind"), "class") != 0 ||
            strcmp(text_of(line, "suite"), "all") == 0)
            continue;
        if (!*c->adaptive)
            snprintf(c->adaptive, sizeof c->adaptive, "%s", text_of(line, "policy"));
        if (strcmp(c->adaptive, text_of(line, "policy")) == 0)
            rc = take_class(c, line, err);
    }
    if (!rc && c->count > 0) {
        gp_report_heading(report, "Budgets that suffice: fixed",
                          "A problem is right when more than half of its answers are.");
        rc = draw_classes(report, c, GP_RESULTS_ARMS_MAX + file, err);
    }
    gp_mem_free(c);
    return rc;
}

int gp_report_budget(const struct gp_report *report, struct gp_error *err)
{
    const struct gp_results *r = report->results;
    int rc = GP_OK;

    for (uint32_t i = 0; !rc && i < r->file_count; i++)
        if (r->files[i].found && strcmp(text_of(r->files[i].run, "analysis"), "budget") == 0)
            rc = report_analysis(report, i, err);
    return rc;
}
