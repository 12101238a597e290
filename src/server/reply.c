#include <stdlib.h>
#include <string.h>

#include "server/answer.h"
#include "server/server_internal.h"

void gp_reply_json(struct gp_exchange *ex, int status, json_t *json)
{
    char *text = gp_answer_dump(json);

    ex->reply.status = status;
    gp_buffer_clear(&ex->reply.body);
    if (text)
        gp_buffer_add(&ex->reply.body, text, strlen(text));
    if (!text || ex->reply.body.failed)
        ex->reply.status = 500;
    free(text);
    json_decref(json);
}

void gp_reply_refuse(struct gp_exchange *ex, const struct gp_refusal *refusal)
{
    gp_reply_json(ex, refusal->status, gp_refusal_json(refusal));
}
