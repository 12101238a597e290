/* Messages through the model's template. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/asked.h"
#include "server/fields.h"
#include "server/limits.h"

/* The text of a list of parts, one behind another with line breaks between them; NULL when memory
 * ran out or, with the refusal set, when a part is no text. */
static json_t *join_parts(const json_t *parts, size_t message, struct gp_refusal *r)
{
    struct gp_buffer text = {0};

    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i);
        const json_t *type = json_object_get(part, "type");
        const json_t *words = json_object_get(part, "text");

        if (!json_is_string(type) || strcmp(json_string_value(type), "text") != 0 ||
            !json_is_string(words)) {
            gp_buffer_free(&text);
            (void)gp_refuse(r, 400, "messages",
                            "messages: message %zu, part %zu: must be {\"type\":"
                            "\"text\",\"text\":...}",
                            message, i);
            return NULL;
        }
        if (i > 0)
            gp_buffer_add(&text, "\n", 1);
        gp_buffer_add(&text, json_string_value(words), json_string_length(words));
    }
    json_t *joined = text.failed ? NULL : json_stringn(text.bytes ? text.bytes : "", text.length);

    gp_buffer_free(&text);
    if (!joined)
        (void)gp_refuse(r, 500, "messages", "messages: out of memory");
    return joined;
}

/* Templates know strings; clients also send null and lists of parts. */
static int settle_content(json_t *message, size_t index, struct gp_refusal *r)
{
    const json_t *content = json_object_get(message, "content");
    json_t *settled;

    if (json_is_string(content))
        return GP_OK;
    if (!content || json_is_null(content)) {
        settled = json_string("");
    } else if (json_is_array(content)) {
        settled = join_parts(content, index, r);
        if (!settled)
            return GP_EINVAL;
    } else {
        return gp_refuse(r, 400, "messages",
                         "messages: message %zu: content must be a string or a list of parts",
                         index);
    }
    if (json_object_set_new(message, "content", settled))
        return gp_refuse(r, 500, "messages", "messages: out of memory");
    return GP_OK;
}

/* Clients send the arguments of a call as JSON text, templates want the object. */
static int settle_calls(json_t *message, size_t index, struct gp_refusal *r)
{
    json_t *calls = gp_field(message, "tool_calls");

    if (calls && !json_is_array(calls))
        return gp_refuse(r, 400, "messages", "messages: message %zu: tool_calls must be an array",
                         index);
    for (size_t i = 0; i < json_array_size(calls); i++) {
        json_t *function = json_object_get(json_array_get(calls, i), "function");
        json_t *text = json_object_get(function, "arguments");

        if (!json_is_string(json_object_get(function, "name")))
            return gp_refuse(r, 400, "messages",
                             "messages: message %zu: call %zu must have a function with a name",
                             index, i);
        if (!json_is_string(text))
            continue;
        json_t *arguments = json_loadb(json_string_value(text), json_string_length(text),
                                       JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);

        if (!json_is_object(arguments)) {
            json_decref(arguments);
            return gp_refuse(r, 400, "messages",
                             "messages: message %zu: the arguments of call %zu are not the text of "
                             "a JSON object",
                             index, i);
        }
        json_object_set_new(function, "arguments", arguments);
    }
    return GP_OK;
}

static int settle_message(json_t *message, size_t index, struct gp_refusal *r)
{
    static const char roles[] = "system|developer|user|assistant|tool";
    int role = -1;

    if (!json_is_object(message))
        return gp_refuse(r, 400, "messages", "messages: message %zu: must be an object", index);
    if (gp_field_word(message, "role", roles, &role, r) || role < 0)
        return gp_refuse(r, 400, "messages", "messages: message %zu: role must be one of %s", index,
                         roles);
    /* A reasoning model's own words come back under either name. */
    json_t *reasoning = gp_field(message, "reasoning");

    if (json_is_string(reasoning) && !gp_field(message, "reasoning_content"))
        json_object_set(message, "reasoning_content", reasoning);
    if (settle_calls(message, index, r))
        return GP_EINVAL;
    return settle_content(message, index, r);
}

/* A copy of the messages as templates want them; NULL with the refusal set. */
static json_t *settle_messages(const json_t *body, struct gp_refusal *r)
{
    const json_t *field = gp_field(body, "messages");
    size_t count = json_array_size(field);

    if (!json_is_array(field) || count == 0) {
        (void)gp_refuse(r, 400, "messages", "messages: must be an array of at least one message");
        return NULL;
    }
    if (count > GP_LIMIT_MESSAGES) {
        (void)gp_refuse(r, 400, "messages", "messages: %zu messages; at most %u", count,
                        GP_LIMIT_MESSAGES);
        return NULL;
    }
    json_t *messages = json_deep_copy(field);

    if (!messages)
        (void)gp_refuse(r, 500, "messages", "messages: out of memory");
    for (size_t i = 0; messages && i < count; i++)
        if (settle_message(json_array_get(messages, i), i, r)) {
            json_decref(messages);
            return NULL;
        }
    return messages;
}

/* The server's variables, the request's over them, and what reasoning_effort means to templates. */
static int make_variables(const struct gp_api *api, const json_t *body, char **out,
                          struct gp_refusal *r)
{
    json_t *own = gp_field(body, "chat_template_kwargs"), *effort;
    json_t *all = api->chat_variables ? json_loads(api->chat_variables, 0, NULL) : json_object();

    effort = gp_field(body, "reasoning_effort");
    if (own && !json_is_object(own)) {
        json_decref(all);
        return gp_refuse(r, 400, "chat_template_kwargs", "chat_template_kwargs: must be an object");
    }
    if (effort && !json_is_string(effort)) {
        json_decref(all);
        return gp_refuse(r, 400, "reasoning_effort", "reasoning_effort: must be a string");
    }
    if (effort) {
        json_object_set(all, "reasoning_effort", effort);
        if (strcmp(json_string_value(effort), "none") == 0)
            json_object_set_new(all, "enable_thinking", json_false());
    }
    if (own)
        json_object_update(all, own);
    *out = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    return *out ? GP_OK : gp_refuse(r, 500, NULL, "chat_template_kwargs: out of memory");
}

/* Texts far past any context are refused before they are rendered. */
static int check_length(const struct gp_api *api, const json_t *messages, struct gp_refusal *r)
{
    size_t length = 0;

    for (size_t i = 0; i < json_array_size(messages); i++)
        length += json_string_length(json_object_get(json_array_get(messages, i), "content"));
    return gp_text_check(api, length, r);
}

int gp_chat_render(const struct gp_api *api, const json_t *body, int32_t **ids, uint32_t *count,
                   char **text, size_t *length, struct gp_refusal *r)
{
    struct gp_chat chat = {.add_generation_prompt = true, .now = (int64_t)time(NULL)};
    char *variables = NULL, *dumped = NULL, *tools = NULL;
    const json_t *offered = gp_asked_tools(body);
    struct gp_error err;

    if (!api->model_info.has_template)
        return gp_refuse(r, 400, "messages", "messages: this model has no chat template");
    if (gp_field_bool(body, "add_generation_prompt", &chat.add_generation_prompt, r))
        return GP_EINVAL;
    json_t *messages = settle_messages(body, r);

    if (!messages)
        return GP_EINVAL;
    int rc = check_length(api, messages, r);

    if (!rc)
        rc = make_variables(api, body, &variables, r);
    if (!rc) {
        dumped = json_dumps(messages, JSON_COMPACT);
        tools = offered ? json_dumps(offered, JSON_COMPACT) : NULL;
        if (!dumped || (offered && !tools))
            rc = gp_refuse(r, 500, "messages", "messages: out of memory");
    }
    if (!rc) {
        chat.messages = dumped;
        chat.variables = variables;
        chat.tools = tools;
        int made = gp_model_apply_template(api->model, &chat, ids, count, text, length, &err);
        if (made)
            rc = gp_refuse(r, made == GP_ENOMEM ? 500 : 400, "messages", "messages: %s",
                           err.message);
    }
    free(dumped);
    free(tools);
    free(variables);
    json_decref(messages);
    return rc;
}
