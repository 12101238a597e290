/* The HTTP server in front of an engine: OpenAI's API, and a look at the memory.
 *
 * Three threads: the one that calls gp_server_run() owns the sockets and every answer that is being
 * written; one owns the engine, opens it and steps it; one reads bodies, renders templates and
 * tokenizes, so that a long prompt holds up no stream.  A request passes from one to the next and
 * has one owner at a time.  See README.md. */
#ifndef GP_SERVER_SERVER_H
#define GP_SERVER_SERVER_H

#include "growpage.h"
#include "server/calls.h"

struct gp_server_options {
    const char *host; /* an address or a name                                         */
    uint32_t port;    /* 0: the system chooses                                        */
    const char *const *keys;
    uint32_t key_count;
    const char *key_file; /* one key a line; read again by gp_server_reload(); or NULL    */
    const char *tls_cert, *tls_key; /* PEM, for HTTPS; or NULL                                  */
    const char *cors_origin;    /* whose pages may ask: an origin, "*", or NULL for none         */
    const char *name;           /* the model's id                                               */
    const char *model_path;     /* as it is told to who asks                                    */
    const char *chat_variables; /* JSON object for every template, or NULL                      */
    bool strict_model; /* a request that names another one is refused                         */
    bool split_thoughts;
    int64_t thought_max; /* tokens of a thought, or -1                                  */
    bool detect_calls;   /* from the chat template; else they are of call_style         */
    enum gp_call_style call_style;
    bool access_log;           /* a line a request on stderr                                   */
    uint64_t body_bytes_max;   /* of one request                                               */
    uint32_t shutdown_seconds; /* for what runs when a stop comes                              */
    struct gp_kv_options kv;   /* of requests that bring none of their own                     */

    /* Called on the engine's thread, which takes over what it opens; the server listens meanwhile
     * and says that it is loading. */
    int (*load)(void *ctx, struct gp_model **model, struct gp_engine **engine,
                struct gp_error *err);
    /* Called on the server's thread: it listens there; it answers. */
    void (*listening)(void *ctx, const char *url);
    void (*ready)(void *ctx, const struct gp_model *model, const struct gp_engine *engine);
    void *ctx;
};

void gp_server_options_init(struct gp_server_options *options);

struct gp_server;

/* Binds the port.  What options points at has to stay until the close. */
int gp_server_open(struct gp_server **out, const struct gp_server_options *options,
                   struct gp_error *err);

/* Serves until it is told to stop; GP_OK then.  Else what load() returned. */
int gp_server_run(struct gp_server *server, struct gp_error *err);

/* From any thread or signal handler.  The first call lets what runs finish and takes nothing new,
 * the second one ends everything now. */
void gp_server_stop(struct gp_server *server);
void gp_server_reload(struct gp_server *server); /* the key file */

void gp_server_close(struct gp_server *server); /* NULL is fine */

#endif
