/* Renders templates for tools/oracle/template_diff.py: one JSON object a line in
 * {"source", "messages", "tools", "variables", "bos_token", "eos_token", "add_generation_prompt",
 * "now"}, one a line out {"stage", "text" or "error", "spans": [[length, trusted] ...]}. */
#include "text/template/template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *answer(const json_t *in)
{
    struct gp_template *t;
    struct gp_error err = {0};
    struct gp_prompt p;
    const json_t *source = json_object_get(in, "source");
    const char *bos = json_string_value(json_object_get(in, "bos_token"));
    const char *eos = json_string_value(json_object_get(in, "eos_token"));
    struct gp_template_input input = {
        .messages = json_object_get(in, "messages"),
        .tools = json_object_get(in, "tools"),
        .variables = json_object_get(in, "variables"),
        .bos_token = bos ? bos : "",
        .eos_token = eos ? eos : "",
        .add_generation_prompt = json_is_true(json_object_get(in, "add_generation_prompt")),
        .now = json_integer_value(json_object_get(in, "now")),
    };

    if (gp_template_open(&t, json_string_value(source), json_string_length(source), &err))
        return json_pack("{s:s, s:s}", "stage", "open", "error", err.message);
    int status = gp_template_render(t, &input, &p, &err);
    gp_template_close(t);
    if (status)
        return json_pack("{s:s, s:s}", "stage", "render", "error", err.message);
    json_t *spans = json_array();
    for (uint32_t i = 0; i < p.span_count; i++)
        json_array_append_new(
            spans, json_pack("[I, b]", (json_int_t)p.spans[i].length, p.spans[i].trusted));
    json_t *out =
        json_pack("{s:s, s:s%, s:o}", "stage", "done", "text", p.text, p.length, "spans", spans);
    gp_prompt_free(&p);
    return out;
}

int main(void)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;

    while ((length = getline(&line, &capacity, stdin)) > 0) {
        json_error_t error;
        json_t *in = json_loadb(line, (size_t)length, JSON_ALLOW_NUL, &error);
        json_t *out = in ? answer(in) : NULL;
        char *text = out ? json_dumps(out, JSON_COMPACT) : NULL;
        if (!text) {
            fprintf(stderr, "template_lines: %s\n", in ? "no answer" : error.text);
            return 1;
        }
        puts(text);
        fflush(stdout);
        free(text);
        json_decref(out);
        json_decref(in);
    }
    free(line);
    return 0;
}
