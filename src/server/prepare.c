/* The preparing thread: bodies become replies or jobs.
 *
 * Everything that takes time in proportion to what a client sent is done here, one request after
 * another: JSON, templates, tokenizing.  Its queue is as long as there are connections. */
#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "server/fields.h"
#include "server/server_internal.h"

static void prepare(struct gp_server *server, struct gp_exchange *ex)
{
    struct gp_refusal refusal;
    json_t *body;

    if (atomic_load(&ex->gone))
        return;
    if (gp_body_parse(ex->body.bytes, ex->body.length, &body, &refusal)) {
        gp_reply_refuse(ex, &refusal);
        return;
    }
    ex->route->prepare(&server->api, body, ex);
    json_decref(body);
}

static void *run(void *ctx)
{
    struct gp_server *server = ctx;

    pthread_mutex_lock(&server->lock);
    for (;;) {
        while (!server->to_prepare && !server->prepare_stop)
            pthread_cond_wait(&server->more, &server->lock);
        if (server->prepare_stop)
            break;
        struct gp_exchange *ex = server->to_prepare;

        server->to_prepare = ex->queued;
        if (!server->to_prepare)
            server->to_prepare_end = &server->to_prepare;
        pthread_mutex_unlock(&server->lock);
        prepare(server, ex);
        pthread_mutex_lock(&server->lock);
        ex->queued = server->prepared;
        server->prepared = ex;
        gp_server_wake(server);
    }
    pthread_mutex_unlock(&server->lock);
    return NULL;
}

int gp_prepare_start(struct gp_server *server, struct gp_error *err)
{
    int rc = pthread_create(&server->prepare_thread, NULL, run, server);

    if (rc)
        return gp_fail(err, GP_EIO, "thread: %s", strerror(rc));
    server->prepare_started = true;
    return GP_OK;
}

void gp_prepare_stop(struct gp_server *server)
{
    if (!server->prepare_started)
        return;
    pthread_mutex_lock(&server->lock);
    server->prepare_stop = true;
    pthread_cond_signal(&server->more);
    pthread_mutex_unlock(&server->lock);
    pthread_join(server->prepare_thread, NULL);
    server->prepare_started = false;
    /* What it did not get to comes back as it went. */
    while (server->to_prepare) {
        struct gp_exchange *ex = server->to_prepare;

        server->to_prepare = ex->queued;
        ex->queued = server->prepared;
        server->prepared = ex;
    }
}

void gp_prepare_send(struct gp_exchange *ex)
{
    struct gp_server *server = ex->server;

    gp_assert(ex->phase == GP_PHASE_READING);
    ex->phase = GP_PHASE_PREPARING;
    ex->queued = NULL;
    pthread_mutex_lock(&server->lock);
    *server->to_prepare_end = ex;
    server->to_prepare_end = &ex->queued;
    pthread_cond_signal(&server->more);
    pthread_mutex_unlock(&server->lock);
}

struct gp_exchange *gp_prepare_take(struct gp_server *server)
{
    pthread_mutex_lock(&server->lock);
    struct gp_exchange *all = server->prepared;

    server->prepared = NULL;
    pthread_mutex_unlock(&server->lock);
    return all;
}
