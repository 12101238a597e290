/* What libmicrohttpd calls, and what goes to it.
 *
 * The library runs inside our loop and never waits.  While an exchange waits for the engine its
 * connection is suspended, and a suspended connection notices nothing: our own epoll watches its
 * socket for the peer's end, and our own deadlines bound how long a request may take to arrive. */
#include <ctype.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "server/limits.h"
#include "server/server_internal.h"

#define SECOND_NS 1000000000ull

/* A body that is going to be refused is read to its end up to this size, so that the client is
 * there to hear why; beyond it the connection is closed. */
#define READ_AWAY_BYTES (1u << 20)

/* ---- exchanges ---- */

void gp_exchange_free(struct gp_exchange *ex)
{
    struct gp_server *server = ex->server;

    if (ex->next)
        ex->next->prev = ex->prev;
    *(ex->prev ? &ex->prev->next : &server->exchanges) = ex->next;
    server->body_bytes -= ex->body.length;
    gp_buffer_free(&ex->body);
    gp_buffer_free(&ex->reply.body);
    gp_buffer_free(&ex->out);
    gp_mem_free(ex);
}

static struct gp_exchange *open_exchange(struct gp_server *server, struct MHD_Connection *c,
                                         const char *method, const char *path)
{
    struct gp_exchange *ex = gp_mem_alloc(sizeof *ex);

    if (!ex)
        return NULL;
    ex->server = server;
    ex->connection = c;
    ex->link = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    ex->started_ns = gp_clock_ns();
    gp_text_copy(ex->method, sizeof ex->method, method, strlen(method));
    gp_text_copy(ex->path, sizeof ex->path, path, strlen(path));
    ex->next = server->exchanges;
    if (server->exchanges)
        server->exchanges->prev = ex;
    server->exchanges = ex;
    return ex;
}

/* ---- suspended connections ---- */

/* Edge-triggered, for the rest of the exchange: one word is wanted, that the peer left. */
static void hold(struct gp_exchange *ex)
{
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = ex};

    gp_assert(!ex->suspended);
    if (!ex->watched && epoll_ctl(ex->server->epoll_fd, EPOLL_CTL_ADD, ex->link->fd, &event) == 0)
        ex->watched = true;
    ex->suspended = true;
    MHD_suspend_connection(ex->connection);
}

void gp_http_wake(struct gp_exchange *ex)
{
    if (!ex->suspended)
        return;
    ex->suspended = false;
    MHD_resume_connection(ex->connection);
}

void gp_http_abandon(struct gp_exchange *ex)
{
    atomic_store(&ex->gone, true);
    gp_work_drop(ex);
    gp_http_wake(ex);
}

/* ---- answers ---- */

static ssize_t read_stream(void *ctx, uint64_t position, char *out, size_t max)
{
    struct gp_exchange *ex = ctx;

    (void)position;
    if (atomic_load(&ex->gone))
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (ex->out_taken == ex->out.length)
        gp_work_advance(ex); /* may have waited for room */
    if (atomic_load(&ex->gone))
        return MHD_CONTENT_READER_END_WITH_ERROR;
    size_t left = ex->out.length - ex->out_taken, taken = left < max ? left : max;

    if (left == 0 && ex->stream_over)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (left == 0) {
        hold(ex);
        return 0;
    }
    memcpy(out, ex->out.bytes + ex->out_taken, taken);
    ex->out_taken += taken;
    ex->sent_bytes += taken;
    ex->moved_ns = gp_clock_ns();
    if (ex->out_taken == ex->out.length) {
        gp_buffer_clear(&ex->out);
        ex->out_taken = 0;
    }
    return (ssize_t)taken;
}

static enum MHD_Result queue(struct gp_exchange *ex, int status, struct MHD_Response *response)
{
    if (!response)
        return MHD_NO;
    const char *origin = ex->server->options.cors_origin;

    if (ex->server->draining)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    if (origin)
        MHD_add_response_header(response, "Access-Control-Allow-Origin", origin);
    if (origin && ex->reply.allow && strcmp(ex->method, "OPTIONS") == 0) {
        MHD_add_response_header(response, "Access-Control-Allow-Methods", ex->reply.allow);
        MHD_add_response_header(response, "Access-Control-Allow-Headers",
                                "Authorization, Content-Type, X-Api-Key");
        MHD_add_response_header(response, "Access-Control-Max-Age", "86400");
    }
    enum MHD_Result result = MHD_queue_response(ex->connection, (unsigned)status, response);

    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result send_stream(struct gp_exchange *ex)
{
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, GP_LIMIT_HEADER_BYTES / 2, read_stream, ex, NULL);

    ex->phase = GP_PHASE_ANSWERED;
    ex->reply.status = 200;
    ex->moved_ns = gp_clock_ns();
    if (response) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream");
        MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
        MHD_add_response_header(response, "X-Accel-Buffering", "no");
    }
    return queue(ex, 200, response);
}

/* The page asks its own server alone, and nothing that it shows can become a part of it. */
static void guard_page(struct MHD_Response *response)
{
    MHD_add_response_header(response, "Content-Security-Policy",
                            "default-src 'none'; script-src 'self'; style-src 'self'; "
                            "connect-src 'self'; img-src 'self' data:; base-uri 'none'; "
                            "form-action 'none'; frame-ancestors 'none'");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
}

static enum MHD_Result send_reply(struct gp_exchange *ex)
{
    struct gp_reply *reply = &ex->reply;
    static char nothing[1];
    struct MHD_Response *response = MHD_create_response_from_buffer(
        reply->body.length, reply->body.length > 0 ? reply->body.bytes : nothing,
        MHD_RESPMEM_MUST_COPY);

    ex->phase = GP_PHASE_ANSWERED;
    ex->sent_bytes = reply->body.length;
    if (response) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                reply->type ? reply->type : "application/json");
        if (reply->status == 401)
            MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
        if (reply->status == 503)
            MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
        if (reply->allow)
            MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, reply->allow);
        if (reply->page)
            guard_page(response);
    }
    return queue(ex, reply->status, response);
}

/* ---- requests ---- */

struct header_count {
    const char *name;
    unsigned count;
};

static enum MHD_Result count_header(void *ctx, enum MHD_ValueKind kind, const char *name,
                                    const char *value)
{
    struct header_count *wanted = ctx;

    (void)kind;
    (void)value;
    wanted->count += strcasecmp(name, wanted->name) == 0;
    return MHD_YES;
}

static unsigned header_count(struct MHD_Connection *c, const char *name)
{
    struct header_count wanted = {.name = name};

    MHD_get_connection_values(c, MHD_HEADER_KIND, count_header, &wanted);
    return wanted.count;
}

static const char *header(const struct gp_exchange *ex, const char *name)
{
    return MHD_lookup_connection_value(ex->connection, MHD_HEADER_KIND, name);
}

static int check_key(const struct gp_exchange *ex, struct gp_refusal *r)
{
    const struct gp_keys *keys = &ex->server->keys;
    const char *bearer = header(ex, "Authorization"), *key = header(ex, "X-Api-Key");

    if (ex->route->open || keys->count == 0)
        return GP_OK;
    if (bearer && strncasecmp(bearer, "Bearer ", 7) == 0)
        key = bearer + 7 + strspn(bearer + 7, " ");
    if (!key || !*key)
        return gp_refuse(r, 401, NULL, "no API key: send Authorization: Bearer KEY");
    if (!gp_keys_have(keys, key))
        return gp_refuse(r, 401, NULL, "wrong API key");
    return GP_OK;
}

/* How the body is framed.  *length is what it says of itself, or -1. */
static int check_framing(struct gp_exchange *ex, int64_t *length, struct gp_refusal *r)
{
    const char *said = header(ex, "Content-Length"), *coding = header(ex, "Transfer-Encoding");

    *length = -1;
    /* Two of them, or both kinds, are how requests are smuggled past proxies. */
    if (header_count(ex->connection, "Content-Length") > 1)
        return gp_refuse(r, 400, NULL, "Content-Length: given more than once");
    if (header_count(ex->connection, "Transfer-Encoding") > 1 || (said && coding))
        return gp_refuse(r, 400, NULL, "Transfer-Encoding: given beside another length");
    if (coding && strcasecmp(coding, "chunked") != 0)
        return gp_refuse(r, 501, NULL, "Transfer-Encoding: only chunked is available here");
    if (!said && !coding && strcmp(ex->method, "POST") == 0)
        return gp_refuse(r, 411, NULL, "Content-Length: missing");
    /* The library has checked its form and its range. */
    for (const char *at = said; at && *at; at++) {
        if (*length < 0)
            *length = 0;
        if (isdigit((unsigned char)*at) && *length < INT64_MAX / 16)
            *length = *length * 10 + (*at - '0');
    }
    return GP_OK;
}

static int check_size(const struct gp_exchange *ex, int64_t length, struct gp_refusal *r)
{
    const struct gp_server *server = ex->server;

    if (length > 0 && (uint64_t)length > server->options.body_bytes_max)
        return gp_refuse(r, 413, NULL, "body: %lld bytes; at most %llu", (long long)length,
                         (unsigned long long)server->options.body_bytes_max);
    if (length > 0 && server->body_bytes + (uint64_t)length > GP_LIMIT_BODIES_BYTES)
        return gp_refuse(r, 503, NULL, "body: other requests take all the memory for bodies now");
    return GP_OK;
}

/* A browser asks, without a key, whether a page may ask. */
static int answer_preflight(struct gp_exchange *ex)
{
    ex->refused = true; /* whatever body comes is read away */
    ex->reply.status = MHD_HTTP_NO_CONTENT;
    return GP_OK;
}

static int check_route(struct gp_exchange *ex, struct gp_refusal *r)
{
    const struct gp_server *server = ex->server;
    const char *allow;

    ex->route = gp_route_find(ex->method, ex->path, &allow);
    if (!ex->route && allow) {
        ex->reply.allow = allow;
        if (server->options.cors_origin && strcmp(ex->method, "OPTIONS") == 0)
            return answer_preflight(ex);
        return gp_refuse(r, 405, NULL, "%s: wrong method for this path; it takes %s", ex->method,
                         allow);
    }
    if (!ex->route)
        return gp_refuse(r, 404, NULL, "%.100s: no such path", ex->path);
    int rc = check_key(ex, r);

    if (rc || ex->route->loading)
        return rc;
    if (!server->ready)
        return gp_refuse(r, 503, NULL, "Loading model");
    if (server->draining)
        return gp_refuse(r, 503, NULL, "the server is stopping");
    return GP_OK;
}

/* The headers are there. */
static enum MHD_Result begin(struct gp_exchange *ex)
{
    struct gp_refusal refusal;
    int64_t length;
    int framing = check_framing(ex, &length, &refusal), rc = framing;

    if (!rc)
        rc = check_route(ex, &refusal);
    if (!rc)
        rc = check_size(ex, length, &refusal);
    if (ex->link)
        ex->link->due_ns = gp_clock_ns() + GP_BODY_SECONDS * SECOND_NS;
    if (!rc)
        return MHD_YES;
    gp_reply_refuse(ex, &refusal);
    ex->refused = true;
    /* A framing that cannot be trusted is not read on. */
    if (!framing && length <= READ_AWAY_BYTES)
        return MHD_YES;
    if (framing)
        ex->server->metrics.rejected_invalid++;
    return send_reply(ex);
}

static void refuse_body(struct gp_exchange *ex, int status)
{
    struct gp_refusal refusal;

    (void)gp_refuse(&refusal, status, NULL, "body: more than %llu bytes",
                    (unsigned long long)ex->server->options.body_bytes_max);
    gp_reply_refuse(ex, &refusal);
    ex->refused = true;
}

static void take_body(struct gp_exchange *ex, const char *bytes, size_t length)
{
    struct gp_server *server = ex->server;

    if (ex->refused || !ex->route->prepare)
        return;
    if (ex->body.length + length > server->options.body_bytes_max) {
        refuse_body(ex, 413);
        return;
    }
    if (server->body_bytes + length > GP_LIMIT_BODIES_BYTES) {
        refuse_body(ex, 503);
        return;
    }
    size_t before = ex->body.length;

    gp_buffer_add(&ex->body, bytes, length);
    server->body_bytes += ex->body.length - before;
    if (ex->body.failed)
        refuse_body(ex, 500);
}

/* The request is whole. */
static enum MHD_Result end(struct gp_exchange *ex)
{
    if (ex->link)
        ex->link->due_ns = 0;
    if (ex->refused)
        return send_reply(ex);
    if (ex->route->now) {
        ex->route->now(ex->server, ex);
        return ex->streaming ? send_stream(ex) : send_reply(ex);
    }
    gp_prepare_send(ex);
    hold(ex);
    return MHD_YES;
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *c, const char *path,
                                  const char *method, const char *version, const char *bytes,
                                  size_t *length, void **state)
{
    struct gp_exchange *ex = *state;

    (void)version;
    if (!ex) {
        *state = ex = open_exchange(ctx, c, method, path);
        return ex ? begin(ex) : MHD_NO;
    }
    if (*length > 0) {
        take_body(ex, bytes, *length);
        *length = 0;
        return MHD_YES;
    }
    if (atomic_load(&ex->gone))
        return MHD_NO;
    switch (ex->phase) {
    case GP_PHASE_READING:
        return end(ex);
    case GP_PHASE_ANSWERED:
        return send_reply(ex);
    case GP_PHASE_WORKING:
        if (ex->streaming)
            return send_stream(ex);
        break;
    case GP_PHASE_PREPARING:
        break;
    }
    /* Woken for nothing. */
    hold(ex);
    return MHD_YES;
}

/* ---- ends ---- */

static void log_exchange(const struct gp_exchange *ex, bool cut)
{
    double seconds = (double)(gp_clock_ns() - ex->started_ns) / 1e9;
    char line[512];
    int at = snprintf(line, sizeof line, "%s %s %s %d %llu bytes %.3f s",
                      ex->link ? ex->link->peer : "-", ex->method, ex->path, ex->reply.status,
                      (unsigned long long)ex->sent_bytes, seconds);

    if (ex->usage.prompt > 0 && at > 0 && (size_t)at < sizeof line)
        snprintf(line + at, sizeof line - (size_t)at, ", %llu + %llu tokens",
                 (unsigned long long)ex->usage.prompt, (unsigned long long)ex->usage.completion);
    fprintf(stderr, "growpage: %s%s\n", line, cut ? ", left" : "");
}

static void on_completed(void *ctx, struct MHD_Connection *c, void **state,
                         enum MHD_RequestTerminationCode why)
{
    struct gp_exchange *ex = *state;
    struct gp_server *server = ctx;

    (void)c;
    if (!ex)
        return;
    *state = NULL;
    if (ex->watched && ex->link)
        epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, ex->link->fd, NULL);
    ex->watched = ex->suspended = false;
    ex->connection = NULL;
    if (ex->link)
        ex->link->due_ns = gp_clock_ns() + GP_IDLE_SECONDS * SECOND_NS;
    atomic_store(&ex->gone, true);
    server->watchers -= ex->watching;
    gp_work_drop(ex);
    if (server->options.access_log)
        log_exchange(ex, why != MHD_REQUEST_TERMINATED_COMPLETED_OK);
    ex->link = NULL;
    if (ex->phase != GP_PHASE_PREPARING)
        gp_exchange_free(ex);
}

static void open_link(struct gp_server *server, struct MHD_Connection *c, void **context)
{
    struct gp_link *link = gp_mem_alloc(sizeof *link);
    const union MHD_ConnectionInfo *peer =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

    *context = link;
    if (!link)
        return;
    link->fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    link->due_ns = gp_clock_ns() + GP_HEADER_SECONDS * SECOND_NS;
    socklen_t size = peer->client_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                              : sizeof(struct sockaddr_in);
    if (getnameinfo(peer->client_addr, size, link->peer, sizeof link->peer, NULL, 0,
                    NI_NUMERICHOST))
        snprintf(link->peer, sizeof link->peer, "-");
    link->next = server->links;
    if (server->links)
        server->links->prev = link;
    server->links = link;
}

static void on_connection(void *ctx, struct MHD_Connection *c, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct gp_server *server = ctx;
    struct gp_link *link = *context;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        open_link(server, c, context);
        return;
    }
    if (!link)
        return;
    if (link->next)
        link->next->prev = link->prev;
    *(link->prev ? &link->prev->next : &server->links) = link->next;
    gp_mem_free(link);
    *context = NULL;
}

void gp_http_deadlines(struct gp_server *server, uint64_t now_ns)
{
    for (struct gp_link *link = server->links; link; link = link->next)
        if (link->due_ns > 0 && now_ns >= link->due_ns) {
            /* The library notices and closes it. */
            shutdown(link->fd, SHUT_RDWR);
            link->due_ns = 0;
        }
}

void gp_http_ping(struct gp_server *server, uint64_t now_ns)
{
    for (struct gp_exchange *ex = server->exchanges; ex; ex = ex->next) {
        bool silent = ex->streaming && ex->phase == GP_PHASE_ANSWERED && ex->out.length == 0;

        if (!silent || ex->stream_over || now_ns - ex->moved_ns < GP_PING_SECONDS * SECOND_NS)
            continue;
        gp_buffer_print(&ex->out, ": nothing new\n\n");
        gp_http_wake(ex);
    }
}

/* ---- open and close ---- */

int gp_http_open(struct gp_server *server, struct gp_error *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &server->daemon};
    const struct gp_server_options *o = &server->options;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)o->tls_cert},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)o->tls_key},
        {MHD_OPTION_END, 0, NULL},
    };

    if (!o->tls_cert)
        tls[0].option = MHD_OPTION_END;
    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | (o->tls_cert ? MHD_USE_TLS : 0), 0, NULL, NULL,
        on_request, server, MHD_OPTION_ARRAY, tls, MHD_OPTION_LISTEN_SOCKET, server->listen_fd,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, server, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, server, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)GP_LIMIT_HEADER_BYTES,
        MHD_OPTION_CONNECTION_LIMIT, GP_LIMIT_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
        GP_WRITE_SECONDS, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    if (!server->daemon)
        return gp_fail(err, GP_EIO, "%s: cannot start the HTTP library%s", server->url,
                       o->tls_cert ? ": certificate and key must be PEM, and belong together" : "");
    event.data.ptr = server->daemon;
    int fd = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;

    if (epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event))
        return gp_fail(err, GP_EIO, "epoll: the HTTP library's descriptor was refused");
    return GP_OK;
}

void gp_http_close(struct gp_server *server)
{
    if (!server->daemon)
        return;
    /* The library refuses to end with a suspended connection. */
    for (struct gp_exchange *ex = server->exchanges, *next; ex; ex = next) {
        next = ex->next;
        gp_http_abandon(ex);
    }
    MHD_run(server->daemon);
    MHD_stop_daemon(server->daemon);
    server->daemon = NULL;
}
