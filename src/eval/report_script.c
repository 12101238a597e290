#include "eval/report_script.h"

#include <stdlib.h>

#include "eval/plot.h"

const char *gp_script_colour(size_t n)
{
    static const char *const colours[] = {"#4477aa", "#cc6677", "#999933", "#44aa99",
                                          "#aa4499", "#dd9944", "#888888", "#6666cc",
                                          "#bb5533", "#55aa55", "#cc88cc", "#3399bb"};

    return colours[n % (sizeof colours / sizeof *colours)];
}

int gp_script_begin(struct gp_script *s, const struct gp_report *report, const char *name,
                    int height, struct gp_error *err)
{
    *s = (struct gp_script){0};
    s->stream = open_memstream(&s->text, &s->length);
    if (!s->stream)
        return gp_fail(err, GP_ENOMEM, "report: out of memory");
    fprintf(s->stream,
            "set terminal svg size 560,%d dynamic font 'sans-serif,15' name '%s%u' noenhanced\n"
            "set key above\nset border 3\nset tics nomirror out\nset grid ytics lw 0.4\n"
            "set style fill solid 0.8 noborder\nset boxwidth 0.9 relative\n",
            height, name, report->section);
    return GP_OK;
}

void gp_script_quoted(struct gp_script *s, const char *text)
{
    fputc('"', s->stream);
    for (; *text; text++)
        fputs(*text == '"' || *text == '\\' ? "'" : (char[2]){*text, 0}, s->stream);
    fputc('"', s->stream);
}

int gp_script_draw(struct gp_script *s, const struct gp_report *report, const char *caption, int rc,
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

void gp_script_drop(struct gp_script *s)
{
    fclose(s->stream);
    free(s->text);
}
