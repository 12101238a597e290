/* Tables of what an analysis found: a line for each object of a kind. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "eval/analyze.h"

#define COLUMNS_MAX 10u

struct column {
    const char *key, *title;
    double scale; /* 0: 1                */
    int digits;   /* behind the point    */
};

struct lines {
    enum gp_analysis_kind of;
    const char *kind;
    struct column columns[COLUMNS_MAX];
};

static const struct lines tables[] = {
    {GP_ANALYSIS_SIGNAL,
     "signal",
     {{"reading", "working set", 0, 0},
      {"pairs", "pairs", 0, 0},
      {"requests", "answers", 0, 0},
      {"rho", "rho", 0, 3},
      {"rho_low", "from", 0, 3},
      {"rho_high", "to", 0, 3},
      {"agreement", "sign %", 100, 1},
      {"agreement_low", "from", 100, 1},
      {"agreement_high", "to", 100, 1}}},
    {GP_ANALYSIS_COUNTERFACTUAL,
     "bin",
     {{"bin", "bin", 0, 0},
      {"delta_low", "delta from", 0, 5},
      {"delta_high", "to", 0, 5},
      {"boundaries", "boundaries", 0, 0},
      {"advantage", "advantage", 0, 5},
      {"advantage_low", "from", 0, 5},
      {"advantage_high", "to", 0, 5}}},
    {GP_ANALYSIS_COUNTERFACTUAL,
     "counterfactual",
     {{"boundaries", "boundaries", 0, 0},
      {"requests", "answers", 0, 0},
      {"horizon", "tokens", 0, 0},
      {"advantage", "advantage", 0, 5},
      {"advantage_low", "from", 0, 5},
      {"advantage_high", "to", 0, 5},
      {"rho", "rho", 0, 3},
      {"rho_low", "from", 0, 3},
      {"rho_high", "to", 0, 3}}},
    {GP_ANALYSIS_BUDGET,
     "class",
     {{"suite", "suite", 0, 0},
      {"policy", "policy", 0, 0},
      {"sufficient", "sufficient", 0, 0},
      {"problems", "problems", 0, 0},
      {"capacity", "capacity", 0, 1},
      {"capacity_low", "from", 0, 1},
      {"capacity_high", "to", 0, 1}}},
    {GP_ANALYSIS_SPARSITY,
     "position",
     {{"from", "tokens", 0, 0},
      {"to", "to", 0, 0},
      {"requests", "answers", 0, 0},
      {"share", "share %", 100, 2},
      {"share_low", "from", 100, 2},
      {"share_high", "to", 100, 2},
      {"slots", "slots", 0, 1}}},
    {GP_ANALYSIS_OVERHEAD,
     "overhead",
     {{"policy", "policy", 0, 0},
      {"stage", "stage", 0, 0},
      {"events", "events", 0, 0},
      {"ms", "ms", 0, 1},
      {"ms_per_event", "ms/event", 0, 3},
      {"share", "of decoding %", 100, 2}}},
};

static void spell(const json_t *object, const struct column *column, char out[64])
{
    const json_t *value = json_object_get(object, column->key);

    if (json_is_string(value))
        snprintf(out, 64, "%s", json_string_value(value));
    else if (json_is_integer(value))
        snprintf(out, 64, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(out, 64, "%.*f", column->digits,
                 json_real_value(value) * (column->scale > 0 ? column->scale : 1));
    else
        snprintf(out, 64, "-");
}

static bool is_of(const json_t *object, const struct lines *lines)
{
    return strcmp(json_string_value(json_object_get(object, "kind")), lines->kind) == 0;
}

static void measure(const json_t *found, const struct lines *lines, int widths[COLUMNS_MAX])
{
    const json_t *object;
    size_t at;

    for (uint32_t i = 0; i < COLUMNS_MAX && lines->columns[i].key; i++) {
        widths[i] = (int)strlen(lines->columns[i].title);
        json_array_foreach(found, at, object)
        {
            char text[64];

            if (!is_of(object, lines))
                continue;
            spell(object, &lines->columns[i], text);
            widths[i] = (int)strlen(text) > widths[i] ? (int)strlen(text) : widths[i];
        }
    }
}

/* object NULL: the titles.  The first column, which is a name in most tables, stands to the
 * left. */
static bool print_line(const json_t *object, const struct lines *lines, const int *widths)
{
    for (uint32_t i = 0; i < COLUMNS_MAX && lines->columns[i].key; i++) {
        char text[64];

        if (object)
            spell(object, &lines->columns[i], text);
        else
            snprintf(text, sizeof text, "%s", lines->columns[i].title);
        if (printf(i == 0 ? "%-*s" : "  %*s", widths[i], text) < 0)
            return false;
    }
    return putchar('\n') != EOF;
}

static bool print_lines(const json_t *found, const struct lines *lines)
{
    int widths[COLUMNS_MAX];
    const json_t *object;
    size_t at;

    measure(found, lines, widths);
    if (!print_line(NULL, lines, widths))
        return false;
    json_array_foreach(found, at, object)
    {
        if (is_of(object, lines) && !print_line(object, lines, widths))
            return false;
    }
    return true;
}

int gp_analysis_print(const json_t *found, enum gp_analysis_kind kind, struct gp_error *err)
{
    bool first = true, good = true;

    for (size_t i = 0; good && i < sizeof tables / sizeof *tables; i++) {
        if (tables[i].of != kind)
            continue;
        good = (first || putchar('\n') != EOF) && print_lines(found, &tables[i]);
        first = false;
    }
    return good ? GP_OK : gp_fail(err, GP_EIO, "standard output: %s", strerror(errno));
}
