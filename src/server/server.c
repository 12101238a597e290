#include "server/server.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/event.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/answer.h"
#include "server/limits.h"
#include "server/server_internal.h"

#define SECOND_NS 1000000000ull
#define TICK_MS   250
#define EVENTS    64
#define BACKLOG   512

/* How long answers may take to leave once everything was cut. */
#define CUT_NS (2 * SECOND_NS)

void gp_server_wake(struct gp_server *server)
{
    gp_event_raise(server->wake_fd);
}

void gp_server_stop(struct gp_server *server)
{
    int saved = errno;

    atomic_fetch_add(&server->stops, 1);
    gp_event_raise(server->wake_fd);
    errno = saved;
}

void gp_server_reload(struct gp_server *server)
{
    int saved = errno;

    atomic_store(&server->reload, true);
    gp_event_raise(server->wake_fd);
    errno = saved;
}

/* ---- the engine's thread ---- */

static void load(struct gp_server *server)
{
    struct gp_model *model = NULL;
    struct gp_engine *engine = NULL;
    struct gp_error err;
    int rc = server->options.load(server->options.ctx, &model, &engine, &err);

    pthread_mutex_lock(&server->lock);
    server->model = rc ? NULL : model;
    server->engine = rc ? NULL : engine;
    server->load_status = rc;
    if (rc)
        server->load_error = err;
    server->loaded = true;
    pthread_mutex_unlock(&server->lock);
    gp_server_wake(server);
}

static void *run_engine(void *ctx)
{
    struct gp_server *server = ctx;

    load(server);
    if (!server->engine)
        return NULL;
    struct pollfd fds[] = {{.fd = gp_engine_work_fd(server->engine), .events = POLLIN},
                           {.fd = server->engine_fd, .events = POLLIN}};

    while (!atomic_load(&server->engine_stop))
        if (gp_engine_step(server->engine) == 0)
            poll(fds, 2, -1);
    return NULL;
}

static int start_engine(struct gp_server *server, struct gp_error *err)
{
    int rc = pthread_create(&server->engine_thread, NULL, run_engine, server);

    if (rc)
        return gp_fail(err, GP_EIO, "thread: %s", strerror(rc));
    server->engine_started = true;
    return GP_OK;
}

static void stop_engine(struct gp_server *server)
{
    if (!server->engine_started)
        return;
    atomic_store(&server->engine_stop, true);
    gp_event_raise(server->engine_fd);
    pthread_join(server->engine_thread, NULL);
    server->engine_started = false;
}

/* ---- open and close ---- */

void gp_server_options_init(struct gp_server_options *options)
{
    *options = (struct gp_server_options){
        .host = "127.0.0.1",
        .port = 8080,
        .split_thoughts = true,
        .thought_max = -1,
        .access_log = true,
        .body_bytes_max = GP_LIMIT_BODY_BYTES,
        .shutdown_seconds = 30,
    };
    gp_kv_options_init(&options->kv);
}

static int read_keys(const struct gp_server_options *o, struct gp_keys *keys, struct gp_error *err)
{
    struct gp_keys made = {0};
    int rc = GP_OK;

    for (uint32_t i = 0; !rc && i < o->key_count; i++)
        rc = gp_keys_add(&made, o->keys[i], strlen(o->keys[i]), err);
    if (!rc && o->key_file)
        rc = gp_keys_read(&made, o->key_file, err);
    /* An empty file must not open the door. */
    if (!rc && o->key_file && made.count == 0)
        rc = gp_fail(err, GP_EINVAL, "%s: no key in it", o->key_file);
    if (rc)
        gp_keys_free(&made);
    else
        *keys = made;
    return rc;
}

static int bind_one(const struct addrinfo *at)
{
    int fd = socket(at->ai_family, at->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, at->ai_protocol);
    int on = 1;

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

static void name_url(struct gp_server *server)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    char host[200] = "?", port[16] = "?";
    struct sockaddr *at = (struct sockaddr *)&address;

    if (getsockname(server->listen_fd, at, &length) == 0)
        getnameinfo(at, length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    bool bracket = strchr(host, ':') != NULL;

    snprintf(server->url, sizeof server->url, "%s://%s%s%s:%s",
             server->options.tls_cert ? "https" : "http", bracket ? "[" : "", host,
             bracket ? "]" : "", port);
}

static int open_socket(struct gp_server *server, struct gp_error *err)
{
    const struct gp_server_options *o = &server->options;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *all;
    char port[16];

    snprintf(port, sizeof port, "%u", o->port);
    int rc = getaddrinfo(o->host, port, &hints, &all);

    if (rc)
        return gp_fail(err, GP_EINVAL, "host %s: %s", o->host, gai_strerror(rc));
    for (const struct addrinfo *at = all; at && server->listen_fd < 0; at = at->ai_next)
        server->listen_fd = bind_one(at);
    int why = errno;

    freeaddrinfo(all);
    if (server->listen_fd < 0)
        return gp_fail(err, GP_EIO, "%s port %u: %s", o->host, o->port, strerror(why));
    name_url(server);
    return GP_OK;
}

static int open_loop(struct gp_server *server, struct gp_error *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &server->wake_fd};

    server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    server->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    server->engine_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (server->epoll_fd < 0 || server->wake_fd < 0 || server->engine_fd < 0 ||
        epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, server->wake_fd, &event))
        return gp_fail(err, GP_EIO, "epoll: %s", strerror(errno));
    return GP_OK;
}

int gp_server_open(struct gp_server **out, const struct gp_server_options *options,
                   struct gp_error *err)
{
    struct gp_server *server = gp_mem_alloc(sizeof *server);

    if (!server)
        return gp_fail(err, GP_ENOMEM, "server: out of memory");
    server->options = *options;
    server->listen_fd = server->epoll_fd = server->wake_fd = server->engine_fd = -1;
    server->to_prepare_end = &server->to_prepare;
    pthread_mutex_init(&server->lock, NULL);
    pthread_cond_init(&server->more, NULL);
    json_object_seed(0); /* once, before there are threads */
    int rc = read_keys(options, &server->keys, err);

    if (!rc)
        rc = open_socket(server, err);
    if (!rc)
        rc = open_loop(server, err);
    if (!rc)
        rc = gp_http_open(server, err);
    if (rc) {
        gp_server_close(server);
        return rc;
    }
    *out = server;
    return GP_OK;
}

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* What the engine still knows is cancelled, and waited for: it may be calling a job's hooks. */
static void close_jobs(struct gp_server *server)
{
    for (struct gp_job *job = server->jobs; job; job = job->next)
        gp_job_cancel(job);
    while (server->jobs) {
        gp_work_read(server);
        if (server->jobs)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static void close_parts(struct gp_server *server)
{
    gp_prepare_stop(server);
    for (struct gp_exchange *ex = gp_prepare_take(server), *next; ex; ex = next) {
        next = ex->queued;
        atomic_store(&ex->gone, true);
        gp_work_start(ex);
    }
    gp_http_close(server);
    if (server->ready)
        close_jobs(server);
    stop_engine(server);
}

void gp_server_close(struct gp_server *server)
{
    if (!server)
        return;
    close_parts(server);
    gp_engine_close(server->engine);
    gp_model_close(server->model);
    gp_keys_free(&server->keys);
    gp_stop_set_free(&server->api.tags);
    gp_free(server->api.closer);
    gp_buffer_free(&server->told);
    json_decref(server->ended);
    close_fd(server->listen_fd);
    close_fd(server->epoll_fd);
    close_fd(server->wake_fd);
    close_fd(server->engine_fd);
    pthread_cond_destroy(&server->more);
    pthread_mutex_destroy(&server->lock);
    gp_mem_free(server);
}

/* ---- the loop ---- */

static int learn_tags(struct gp_api *api, struct gp_error *err)
{
    static const char opener[] = "<think>", closer[] = "</think>";
    int rc = gp_stop_set_add(&api->tags, opener, sizeof opener - 1, err);

    if (!rc)
        rc = gp_stop_set_add(&api->tags, closer, sizeof closer - 1, err);
    if (!rc)
        rc = gp_model_tokenize(api->model, closer, sizeof closer - 1, false, true, &api->closer,
                               &api->closer_count, err);
    /* A vocabulary that cannot spell the tag has no thoughts either. */
    if (!rc && api->closer_count == 0)
        api->thought_max = -1;
    return rc;
}

static void become_ready(struct gp_server *server)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &server->engine};
    const struct gp_server_options *o = &server->options;

    server->api = (struct gp_api){
        .model = server->model,
        .engine = server->engine,
        .kv = o->kv,
        .name = o->name,
        .strict_model = o->strict_model,
        .chat_variables = o->chat_variables,
        .split_thoughts = o->split_thoughts,
        .thought_max = o->thought_max,
        .call_style =
            o->detect_calls ? gp_call_style_of(gp_model_template(server->model)) : o->call_style,
        .started = (int64_t)time(NULL),
    };
    gp_model_info(server->model, &server->api.model_info);
    gp_engine_info(server->engine, &server->api.engine_info);
    server->api.vocab = server->api.model_info.vocab_count;
    server->load_status = learn_tags(&server->api, &server->load_error);
    if (server->load_status) {
        server->failed = true;
        return;
    }
    epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, gp_engine_news_fd(server->engine), &event);
    server->ready = true;
    if (o->ready)
        o->ready(o->ctx, server->model, server->engine);
}

/* The engine was opened, or could not be. */
static void take_load(struct gp_server *server)
{
    pthread_mutex_lock(&server->lock);
    bool loaded = server->loaded;

    pthread_mutex_unlock(&server->lock);
    if (!loaded || server->ready || server->failed)
        return;
    if (server->load_status)
        server->failed = true;
    else
        become_ready(server);
}

static void take_reload(struct gp_server *server)
{
    struct gp_keys keys = {0};
    struct gp_error err;

    if (!atomic_exchange(&server->reload, false) || !server->options.key_file)
        return;
    if (read_keys(&server->options, &keys, &err)) {
        gp_log_warn("keys stay as they were: %s", err.message);
        return;
    }
    gp_keys_free(&server->keys);
    server->keys = keys;
}

/* Nothing new comes in; what runs may finish. */
static void drain(struct gp_server *server, uint64_t now)
{
    server->draining = true;
    server->stop_due_ns = now + server->options.shutdown_seconds * SECOND_NS;
    gp_memory_end_watches(server);
    int fd = MHD_quiesce_daemon(server->daemon);

    if (fd >= 0) {
        close(fd);
        server->listen_fd = -1;
    }
}

/* Everybody is told, and nothing runs on. */
static void cut(struct gp_server *server, uint64_t now)
{
    struct gp_refusal refusal;

    server->cut = true;
    server->stop_due_ns = now + CUT_NS;
    (void)gp_refuse(&refusal, 503, NULL, "the server is stopping");
    for (struct gp_exchange *ex = server->exchanges, *next; ex; ex = next) {
        next = ex->next;
        if (ex->phase == GP_PHASE_PREPARING || !ex->job)
            continue;
        if (ex->streaming) {
            gp_answer_stream_error(&refusal, &ex->out);
            ex->stream_over = true;
        } else {
            gp_reply_refuse(ex, &refusal);
            ex->phase = GP_PHASE_ANSWERED;
        }
        gp_work_drop(ex);
        gp_http_wake(ex);
    }
}

static void take_stops(struct gp_server *server)
{
    unsigned stops = atomic_load(&server->stops);
    uint64_t now = gp_clock_ns();

    if (stops >= 1 && !server->draining)
        drain(server, now);
    if (server->draining && !server->cut && (stops >= 2 || now >= server->stop_due_ns))
        cut(server, now);
}

static bool is_over(const struct gp_server *server)
{
    if (server->failed)
        return true;
    if (!server->draining)
        return false;
    return !server->exchanges || (server->cut && gp_clock_ns() >= server->stop_due_ns);
}

static void take_prepared(struct gp_server *server)
{
    for (struct gp_exchange *ex = gp_prepare_take(server), *next; ex; ex = next) {
        next = ex->queued;
        gp_work_start(ex);
    }
}

static void take_news(struct gp_server *server)
{
    uint64_t ids[64];

    while (gp_engine_poll(server->engine, ids, 64) == 64)
        ;
    gp_work_read(server);
}

static void take_event(struct gp_server *server, const struct epoll_event *event)
{
    void *what = event->data.ptr;

    if (what == &server->wake_fd) {
        gp_event_clear(server->wake_fd);
        take_load(server);
        take_reload(server);
        take_prepared(server);
    } else if (what == &server->engine) {
        take_news(server);
    } else if (what != server->daemon) {
        gp_http_abandon(what); /* a socket's peer is gone */
    }
}

static int wait_ms(struct gp_server *server)
{
    MHD_UNSIGNED_LONG_LONG due;

    if (MHD_get_timeout(server->daemon, &due) == MHD_YES && due < TICK_MS)
        return (int)due;
    return TICK_MS;
}

static void loop(struct gp_server *server)
{
    struct epoll_event events[EVENTS];

    while (!is_over(server)) {
        int count = epoll_wait(server->epoll_fd, events, EVENTS, wait_ms(server));

        for (int i = 0; i < count; i++)
            take_event(server, &events[i]);
        take_stops(server);
        uint64_t now = gp_clock_ns();

        if (now - server->ticked_ns >= TICK_MS * 1000000ull) {
            server->ticked_ns = now;
            gp_http_deadlines(server, now);
            gp_http_ping(server, now);
            if (server->ready) {
                gp_work_read(server);
                gp_memory_tell(server);
            }
        }
        MHD_run(server->daemon);
    }
}

int gp_server_run(struct gp_server *server, struct gp_error *err)
{
    int rc = gp_prepare_start(server, err);

    if (!rc)
        rc = start_engine(server, err);
    if (rc)
        return rc;
    if (server->options.listening)
        server->options.listening(server->options.ctx, server->url);
    loop(server);
    if (server->failed && err)
        *err = server->load_error;
    return server->failed ? server->load_status : GP_OK;
}
