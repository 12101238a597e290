/* Tables of what an analysis found, to standard output. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "eval/analyze_tables.h"

static void measure(const json_t *found, const struct gp_analysis_table *table,
                    int widths[GP_ANALYSIS_COLUMNS_MAX])
{
    const json_t *object;
    size_t at;

    for (uint32_t i = 0; i < GP_ANALYSIS_COLUMNS_MAX && table->columns[i].key; i++) {
        widths[i] = (int)strlen(table->columns[i].title);
        json_array_foreach(found, at, object)
        {
            char text[64];

            if (!gp_analysis_is_line(object, table))
                continue;
            gp_analysis_spell(object, &table->columns[i], text);
            widths[i] = (int)strlen(text) > widths[i] ? (int)strlen(text) : widths[i];
        }
    }
}

/* object NULL: the titles.  The first column, which is a name in most tables, stands to the
 * left. */
static bool print_line(const json_t *object, const struct gp_analysis_table *table,
                       const int *widths)
{
    for (uint32_t i = 0; i < GP_ANALYSIS_COLUMNS_MAX && table->columns[i].key; i++) {
        char text[64];

        if (object)
            gp_analysis_spell(object, &table->columns[i], text);
        else
            snprintf(text, sizeof text, "%s", table->columns[i].title);
        if (printf(i == 0 ? "%-*s" : "  %*s", widths[i], text) < 0)
            return false;
    }
    return putchar('\n') != EOF;
}

static bool print_lines(const json_t *found, const struct gp_analysis_table *table)
{
    int widths[GP_ANALYSIS_COLUMNS_MAX];
    const json_t *object;
    size_t at;

    measure(found, table, widths);
    if (!print_line(NULL, table, widths))
        return false;
    json_array_foreach(found, at, object)
    {
        if (gp_analysis_is_line(object, table) && !print_line(object, table, widths))
            return false;
    }
    return true;
}

int gp_analysis_print(const json_t *found, enum gp_analysis_kind kind, struct gp_error *err)
{
    const struct gp_analysis_table *table;
    bool good = true;

    for (uint32_t n = 0; good && (table = gp_analysis_table(kind, n)); n++)
        good = (n == 0 || putchar('\n') != EOF) && print_lines(found, table);
    return good ? GP_OK : gp_fail(err, GP_EIO, "standard output: %s", strerror(errno));
}
