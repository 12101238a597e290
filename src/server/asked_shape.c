/* What an answer has to look like: response_format, and the tools that it may call. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "server/asked_internal.h"
#include "server/fields.h"

enum choice {
    CHOICE_NONE,
    CHOICE_AUTO,
    CHOICE_REQUIRED,
    CHOICE_NAMED,
};

struct shape {
    bool is_json;         /* response_format asks for a document                        */
    const json_t *schema; /* its schema; NULL: any object                               */
    const json_t *tools;
    enum choice choice;
    const char *named;
    bool parallel;
};

/* ---- fields ---- */

static int read_format(const json_t *body, struct shape *shape, struct gp_refusal *r)
{
    static const char param[] = "response_format";
    const json_t *format = gp_field(body, param), *outer;
    int type = -1;

    if (!format)
        return GP_OK;
    if (!json_is_object(format))
        return gp_refuse(r, 400, param, "response_format: must be an object");
    if (gp_field_word(format, "type", "text|json_object|json_schema", &type, r)) {
        gp_refuse_below(r, param);
        return GP_EINVAL;
    }
    if (type < 0)
        return gp_refuse(r, 400, "response_format.type", "response_format.type: missing");
    shape->is_json = type != 0;
    outer = type == 2 ? gp_field(format, "json_schema") : format;
    if (type == 2 && !json_is_object(outer))
        return gp_refuse(r, 400, "response_format.json_schema",
                         "response_format.json_schema: must be an object with a schema");
    shape->schema = type ? json_object_get(outer, "schema") : NULL;
    if (type == 2 && !shape->schema)
        return gp_refuse(r, 400, "response_format.json_schema",
                         "response_format.json_schema: schema: missing");
    return GP_OK;
}

static const json_t *function_of(const json_t *tool)
{
    return json_object_get(tool, "function");
}

static const char *name_of(const json_t *tool)
{
    return json_string_value(json_object_get(function_of(tool), "name"));
}

/* Names stand in the grammar as they are. */
static bool is_name(const char *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    size_t length = name ? strlen(name) : 0;

    return length > 0 && length <= 64 && strspn(name, letters) == length;
}

static int check_tools(const struct gp_api *api, const struct shape *shape, struct gp_refusal *r)
{
    size_t count = json_array_size(shape->tools);

    if (!json_is_array(shape->tools))
        return gp_refuse(r, 400, "tools", "tools: must be an array of functions");
    if (count > GP_LIMIT_TOOLS)
        return gp_refuse(r, 400, "tools", "tools: %zu; at most %u", count, GP_LIMIT_TOOLS);
    for (size_t i = 0; i < count; i++) {
        const json_t *parameters =
            gp_field(function_of(json_array_get(shape->tools, i)), "parameters");

        if (!is_name(name_of(json_array_get(shape->tools, i))))
            return gp_refuse(r, 400, "tools",
                             "tools: tool %zu: must have a function with a name of 1 to 64 "
                             "letters, digits, _ - .",
                             i);
        if (parameters && !json_is_object(parameters))
            return gp_refuse(r, 400, "tools", "tools: %s: parameters: must be a schema",
                             name_of(json_array_get(shape->tools, i)));
    }
    if (count > 0 && api->call_style == GP_CALLS_NONE)
        return gp_refuse(r, 400, "tools",
                         "tools: this model's chat template has no calls of a known style "
                         "(--tool-format names one)");
    return GP_OK;
}

static int read_choice(const json_t *body, struct shape *shape, struct gp_refusal *r)
{
    const json_t *choice = gp_field(body, "tool_choice");
    int word = CHOICE_AUTO;

    shape->choice = json_array_size(shape->tools) > 0 ? CHOICE_AUTO : CHOICE_NONE;
    if (!choice)
        return GP_OK;
    if (json_is_object(choice)) {
        shape->choice = CHOICE_NAMED;
        shape->named = name_of(choice);
    } else if (gp_field_word(body, "tool_choice", "none|auto|required", &word, r)) {
        return GP_EINVAL;
    } else if (word != CHOICE_AUTO) {
        shape->choice = (enum choice)word;
    }
    if (shape->choice > CHOICE_AUTO && json_array_size(shape->tools) == 0)
        return gp_refuse(r, 400, "tool_choice", "tool_choice: there are no tools to choose from");
    if (shape->choice != CHOICE_NAMED)
        return GP_OK;
    for (size_t i = 0; shape->named && i < json_array_size(shape->tools); i++)
        if (strcmp(name_of(json_array_get(shape->tools, i)), shape->named) == 0)
            return GP_OK;
    return gp_refuse(r, 400, "tool_choice",
                     "tool_choice: must be none, auto, required, or the function of one of the "
                     "tools");
}

const json_t *gp_asked_tools(const json_t *body)
{
    const json_t *tools = gp_field(body, "tools"), *choice = gp_field(body, "tool_choice");
    bool none = json_is_string(choice) && strcmp(json_string_value(choice), "none") == 0;

    return none || json_array_size(tools) == 0 ? NULL : tools;
}

/* ---- the grammar ---- */

struct forms {
    struct gp_grammar_form items[GP_LIMIT_TOOLS + 1];
    char *texts[3 * (GP_LIMIT_TOOLS + 1)]; /* what items point at; free() */
    uint32_t count, text_count;
    bool failed;
};

static const char *keep(struct forms *forms, char *text)
{
    forms->failed |= !text;
    forms->texts[forms->text_count++] = text;
    return text;
}

static const char *dump(struct forms *forms, const json_t *schema)
{
    return schema
               ? keep(forms,
                      json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17)))
               : NULL;
}

static void add_call(struct forms *forms, enum gp_call_style style, const json_t *tool)
{
    const char *begin = style == GP_CALLS_HERMES ? "<tool_call>\n{\"name\": \"%s\", \"arguments\": "
                                                 : "{\"name\": \"%s\", \"parameters\": ";
    char words[128];
    int length = snprintf(words, sizeof words, begin, name_of(tool));

    forms->items[forms->count++] = (struct gp_grammar_form){
        .begin = keep(forms, strndup(words, (size_t)length)),
        .schema = dump(forms, gp_field(function_of(tool), "parameters")),
        .end = style == GP_CALLS_HERMES ? "}\n</tool_call>" : "}",
    };
}

/* Forced calls, a document, or a document or a call; nothing for an answer that is free. */
static void list_forms(const struct gp_api *api, const struct shape *shape, struct forms *forms)
{
    bool forced = shape->choice > CHOICE_AUTO;

    if (shape->is_json && !forced)
        forms->items[forms->count++] =
            (struct gp_grammar_form){.begin = "", .schema = dump(forms, shape->schema), .end = ""};
    for (size_t i = 0; i < json_array_size(shape->tools); i++) {
        const json_t *tool = json_array_get(shape->tools, i);

        if (shape->choice == CHOICE_NAMED ? strcmp(name_of(tool), shape->named) == 0
                                          : forced || (shape->is_json && shape->choice))
            add_call(forms, api->call_style, tool);
    }
}

static int open_guide(const struct gp_api *api, const struct shape *shape, struct forms *forms,
                      struct gp_asked *asked, struct gp_refusal *r)
{
    bool several =
        shape->choice == CHOICE_REQUIRED && shape->parallel && api->call_style == GP_CALLS_HERMES;
    bool may_think = asked->chat && api->closer_count == 1 && asked->thought_max != 0;
    struct gp_grammar_source source = {
        .forms = forms->items,
        .form_count = forms->count,
        .separator = several ? "\n" : NULL,
        .thought = asked->thought_opened                 ? GP_GRAMMAR_THINKS
                   : may_think && !asked->thought_closed ? GP_GRAMMAR_MAY_THINK
                                                         : GP_GRAMMAR_NO_THOUGHT,
    };
    const char *param = shape->is_json ? "response_format" : "tools";
    struct gp_error err;
    int rc = gp_guide_open(&asked->guide, api->model, &source,
                           asked->prompt_count * asked->request.n, &err);

    if (rc)
        return gp_refuse(r, rc == GP_ENOMEM ? 500 : 400, param, "%s: %s", param, err.message);
    return GP_OK;
}

int gp_asked_read_shape(const struct gp_api *api, const json_t *body, struct gp_asked *asked,
                        struct gp_refusal *r)
{
    struct shape shape = {.parallel = true, .tools = gp_field(body, "tools")};
    struct forms forms = {0};
    int rc = read_format(body, &shape, r);

    if (!rc && shape.tools && !asked->chat)
        rc = gp_refuse(r, 400, "tools", "tools: only chats have them");
    if (!rc && shape.tools)
        rc = check_tools(api, &shape, r);
    if (!rc && asked->chat)
        rc = read_choice(body, &shape, r);
    if (!rc)
        rc = gp_field_bool(body, "parallel_tool_calls", &shape.parallel, r);
    if (rc)
        return rc;
    asked->call_style = shape.choice == CHOICE_NONE ? GP_CALLS_NONE : api->call_style;
    asked->single_call = !shape.parallel;
    list_forms(api, &shape, &forms);
    if (forms.failed)
        rc = gp_refuse(r, 500, NULL, "request: out of memory");
    else if (forms.count > 0)
        rc = open_guide(api, &shape, &forms, asked, r);
    for (uint32_t i = 0; i < forms.text_count; i++)
        free(forms.texts[i]);
    return rc;
}
