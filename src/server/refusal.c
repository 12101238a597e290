#include "server/refusal.h"

#include <stdio.h>
#include <string.h>

void gp_refusal_init(struct gp_refusal *r, int status, const char *param)
{
    *r = (struct gp_refusal){.status = status};
    if (param)
        gp_text_copy(r->param, sizeof r->param, param, strlen(param));
}

void gp_refuse_below(struct gp_refusal *r, const char *outer)
{
    char field[sizeof r->param + 64];

    snprintf(field, sizeof field, "%s.%s", outer, r->param);
    gp_text_copy(r->param, sizeof r->param, field, strlen(field));
    gp_error_prefix(&r->why, "%s", outer);
}

static const char *type_of(int status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 404:
        return "not_found_error";
    case 501:
        return "not_supported_error";
    case 503:
        return "unavailable_error";
    default:
        return status >= 500 ? "server_error" : "invalid_request_error";
    }
}

json_t *gp_refusal_json(const struct gp_refusal *r)
{
    json_t *code = r->code ? json_string(r->code) : json_integer(r->status);
    json_t *param = r->param[0] ? json_string(r->param) : json_null();
    json_t *error = json_pack("{s:s, s:s, s:o, s:o}", "message", r->why.message, "type",
                              r->type ? r->type : type_of(r->status), "param", param, "code", code);

    if (error && r->prompt_tokens) {
        json_object_set_new(error, "n_prompt_tokens", json_integer(r->prompt_tokens));
        json_object_set_new(error, "n_ctx", json_integer(r->context));
    }
    return error ? json_pack("{s:o}", "error", error) : NULL;
}
