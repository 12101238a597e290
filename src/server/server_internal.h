/* What the files of the server share.  Everything belongs to the server's thread unless it is said
 * otherwise. */
#ifndef GP_SERVER_INTERNAL_H
#define GP_SERVER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include <microhttpd.h>

#include "server/api.h"
#include "server/buffer.h"
#include "server/job.h"
#include "server/keys.h"
#include "server/metrics.h"
#include "server/server.h"

struct gp_exchange;

struct gp_route {
    const char *method, *path;
    bool open;    /* needs no key                                           */
    bool loading; /* answers before the model is there                      */
    /* One of them.  now: on the server's thread; a reply is left in the exchange, or a stream is
     * begun there.  prepare: on the preparing one, with the body; a refusal, a reply or a job is
     * left. */
    void (*now)(struct gp_server *server, struct gp_exchange *exchange);
    void (*prepare)(const struct gp_api *api, const json_t *body, struct gp_exchange *exchange);
};

enum gp_phase {
    GP_PHASE_READING,   /* the body comes                                                   */
    GP_PHASE_PREPARING, /* the preparing thread owns body, reply and job                    */
    GP_PHASE_WORKING,   /* the engine is at it                                              */
    GP_PHASE_ANSWERED,  /* reply holds the answer, or the stream is being sent              */
};

struct gp_reply {
    int status;
    const char *type;  /* NULL: application/json */
    const char *allow; /* 405: what is allowed    */
    bool page;         /* of our own web page: what browsers may do with it is told */
    struct gp_buffer body;
};

/* One request and its answer.  It lives from the library's first call to its last, or until the
 * preparing thread gives it back, whichever is later. */
struct gp_exchange {
    struct gp_exchange *next, *prev; /* all of them */
    struct gp_exchange *queued;      /* the next one in a queue of the preparing thread */
    struct gp_server *server;
    struct MHD_Connection *connection; /* NULL once the library is done with it            */
    struct gp_link *link;
    const struct gp_route *route;
    enum gp_phase phase;
    bool suspended, watched;
    bool refused;     /* reply is final; the body is only read away               */
    bool overflow;    /* ... because it is too long                               */
    atomic_bool gone; /* nobody waits for the answer; the preparing thread looks  */
    char method[12], path[256];
    struct gp_buffer body;
    struct gp_reply reply;
    struct gp_job *job;
    bool streaming, stream_over;
    bool watching;     /* /v1/kv/events                    */
    uint64_t moved_ns; /* when its stream last had a byte  */
    struct gp_buffer out;
    size_t out_taken;
    uint64_t started_ns, sent_bytes;
    struct gp_usage usage; /* for the log */
};

/* One connection. */
struct gp_link {
    struct gp_link *next, *prev;
    int fd;
    char peer[64];
    uint64_t due_ns; /* it is shut down then; 0: never */
};

struct gp_server {
    struct gp_server_options options;
    struct gp_api api;
    struct gp_keys keys;
    struct gp_metrics metrics;
    struct MHD_Daemon *daemon;
    int listen_fd, epoll_fd, wake_fd;
    char url[300];
    bool ready, draining, cut, failed;
    uint64_t stop_due_ns;
    uint64_t body_bytes; /* of all bodies that are held */
    struct gp_exchange *exchanges;
    struct gp_link *links;
    struct gp_job *jobs; /* those that the engine may still know */
    uint64_t ticked_ns;

    /* Of memory.c. */
    uint32_t watchers;
    struct gp_buffer told; /* the last picture */
    json_t *ended;         /* requests that ended since, or NULL */

    atomic_uint stops;
    atomic_bool reload;

    /* The engine's thread; model and engine are set before `loaded` is, under the lock. */
    pthread_t engine_thread;
    bool engine_started;
    int engine_fd; /* tells it to end */
    atomic_bool engine_stop;
    struct gp_model *model;
    struct gp_engine *engine;

    /* Under the lock. */
    pthread_mutex_t lock;
    pthread_cond_t more;
    pthread_t prepare_thread;
    bool prepare_started, prepare_stop;
    struct gp_exchange *to_prepare, **to_prepare_end;
    struct gp_exchange *prepared;
    bool loaded;
    int load_status;
    struct gp_error load_error;
};

/* http.c: what the library calls, and what goes to it. */
int gp_http_open(struct gp_server *server, struct gp_error *err);
void gp_http_close(struct gp_server *server);
void gp_http_deadlines(struct gp_server *server, uint64_t now_ns);
/* Proxies cut streams that are silent: such get a comment. */
void gp_http_ping(struct gp_server *server, uint64_t now_ns);
/* The exchange has an answer, or more of its stream. */
void gp_http_wake(struct gp_exchange *exchange);
/* Its client went away. */
void gp_http_abandon(struct gp_exchange *exchange);
/* The library and the preparing thread are both done with it. */
void gp_exchange_free(struct gp_exchange *exchange);

/* reply.c: fill exchange->reply. */
void gp_reply_json(struct gp_exchange *exchange, int status, json_t *json); /* takes json */
void gp_reply_refuse(struct gp_exchange *exchange, const struct gp_refusal *refusal);

/* routes.c */
const struct gp_route *gp_route_find(const char *method, const char *path, const char **allow);

/* prepare.c: the preparing thread. */
int gp_prepare_start(struct gp_server *server, struct gp_error *err);
void gp_prepare_stop(struct gp_server *server);
void gp_prepare_send(struct gp_exchange *exchange);
struct gp_exchange *gp_prepare_take(struct gp_server *server); /* all that are ready, by ->queued */

/* work.c: jobs and their exchanges. */
void gp_work_start(struct gp_exchange *exchange);   /* it came back from preparing       */
void gp_work_advance(struct gp_exchange *exchange); /* read what is new, pass it on      */
void gp_work_read(struct gp_server *server);        /* all of them; reaps what is over   */
void gp_work_drop(struct gp_exchange *exchange);    /* cancel its job                    */

/* server.c */
void gp_server_wake(struct gp_server *server);

/* watch.c: how the server is, and what it serves. */
void gp_watch_health(struct gp_server *server, struct gp_exchange *exchange);
void gp_watch_models(struct gp_server *server, struct gp_exchange *exchange);
void gp_watch_metrics(struct gp_server *server, struct gp_exchange *exchange);
void gp_watch_props(struct gp_server *server, struct gp_exchange *exchange);
void gp_watch_tokenizer(struct gp_server *server, struct gp_exchange *exchange);

/* memory.c: what the memory holds. */
void gp_memory_slots(struct gp_server *server, struct gp_exchange *exchange);
void gp_memory_kv(struct gp_server *server, struct gp_exchange *exchange);
void gp_memory_watch(struct gp_server *server, struct gp_exchange *exchange);
/* Who listens is told what is new; called now and then. */
void gp_memory_tell(struct gp_server *server);
/* A job is about to be closed. */
void gp_memory_ended(struct gp_server *server, const struct gp_job *job);
void gp_memory_end_watches(struct gp_server *server);

/* page.c: the web page. */
void gp_page_send(struct gp_server *server, struct gp_exchange *exchange);

#endif
