/* serve: a model behind HTTP until a signal comes. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/io.h"
#include "cli/report.h"
#include "server/server.h"

struct serving {
    struct gp_settings *settings;
    bool options_refused; /* by the engine: asked for wrongly, rather than failed */
    bool ready;
};

/* Signal handlers have nowhere else to look. */
static struct gp_server *signalled;

static void on_stop(int signal)
{
    (void)signal;
    gp_server_stop(signalled);
}

static void on_hangup(int signal)
{
    (void)signal;
    gp_server_reload(signalled);
}

static void handle_signals(struct gp_server *server)
{
    struct sigaction action = {.sa_handler = on_stop, .sa_flags = SA_RESTART};

    signalled = server;
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    action.sa_handler = on_hangup;
    sigaction(SIGHUP, &action, NULL);
}

/* The server is over; what is left to do is short, unless a model is still being loaded: that may
 * be ended by another signal. */
static void drop_signals(bool loading)
{
    struct sigaction action = {.sa_handler = loading ? SIG_DFL : SIG_IGN};

    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

static int load(void *ctx, struct gp_model **model, struct gp_engine **engine, struct gp_error *err)
{
    struct serving *serving = ctx;
    int rc = gp_open_model(model, serving->settings, false, err);

    if (rc)
        return rc;
    rc = gp_engine_open(engine, *model, &serving->settings->engine, err);
    if (rc)
        gp_model_close(*model);
    serving->options_refused = rc == GP_EINVAL;
    return rc;
}

static void tell_listening(void *ctx, const char *url)
{
    (void)ctx;
    fprintf(stderr, "growpage: listening at %s, loading\n", url);
}

static void tell_ready(void *ctx, const struct gp_model *model, const struct gp_engine *engine)
{
    struct serving *serving = ctx;

    serving->ready = true;
    gp_report_start(model, engine, serving->settings);
    fprintf(stderr, "growpage: ready\n");
}

/* What was asked for, or the file's name without its folder and its ".gguf". */
static void name_model(const struct gp_settings *s, char out[256])
{
    const char *slash = strrchr(s->model_path, '/');
    const char *name = s->alias ? s->alias : slash ? slash + 1 : s->model_path;
    size_t length = strlen(name);

    if (!s->alias && length > 5 && strcmp(name + length - 5, ".gguf") == 0)
        length -= 5;
    gp_text_copy(out, 256, name, length);
}

static int check_variables(const char *variables, struct gp_error *err)
{
    json_t *json = variables ? json_loads(variables, 0, NULL) : NULL;
    bool object = json_is_object(json);

    json_decref(json);
    if (variables && !object)
        return gp_fail(err, GP_EINVAL, "--chat-template-kwargs: not a JSON object");
    return GP_OK;
}

/* The certificate and its key; both are the caller's (gp_mem_free). */
static int read_tls(const struct gp_settings *s, char **cert, char **key, struct gp_error *err)
{
    *cert = *key = NULL;
    if (!s->tls_cert)
        return GP_OK;
    int rc = gp_read_file(s->tls_cert, cert, NULL, err);

    return rc ? rc : gp_read_file(s->tls_key, key, NULL, err);
}

static int serve(struct gp_settings *s, const char *cert, const char *key)
{
    struct serving serving = {.settings = s};
    struct gp_server_options options;
    struct gp_server *server;
    struct gp_error err;
    char name[256];

    s->engine.kv_also = s->also.kv;
    s->engine.kv_also_count = s->also.count;
    name_model(s, name);
    gp_server_options_init(&options);
    options.host = s->host;
    options.port = s->port;
    options.keys = s->keys.items;
    options.key_count = s->keys.count;
    options.key_file = s->key_file;
    options.tls_cert = cert;
    options.tls_key = key;
    options.cors_origin = s->cors_origin;
    options.name = name;
    options.model_path = s->model_path;
    options.strict_model = s->strict_model;
    options.chat_variables = s->chat_variables;
    options.split_thoughts = s->reasoning_format != 2;
    options.thought_max = s->thought_max;
    options.detect_calls = s->tool_format == 0;
    options.call_style = (enum gp_call_style[]){GP_CALLS_NONE, GP_CALLS_HERMES, GP_CALLS_LLAMA,
                                                GP_CALLS_NONE}[s->tool_format];
    options.access_log = !s->no_access_log;
    options.body_bytes_max = s->body_bytes_max;
    options.shutdown_seconds = s->shutdown_seconds;
    options.kv = s->engine.kv;
    options.load = load;
    options.listening = tell_listening;
    options.ready = tell_ready;
    options.ctx = &serving;
    int rc = gp_server_open(&server, &options, &err);

    if (rc)
        return gp_tell(rc == GP_EINVAL ? GP_EXIT_USAGE : GP_EXIT_FAILED, &err);
    handle_signals(server);
    rc = gp_server_run(server, &err);
    drop_signals(!serving.ready);
    gp_server_close(server);
    if (rc)
        return gp_tell(serving.options_refused ? GP_EXIT_USAGE : GP_EXIT_FAILED, &err);
    return GP_EXIT_OK;
}

int gp_cmd_serve(struct gp_settings *s)
{
    struct gp_error err;
    char *cert, *key;

    if (check_variables(s->chat_variables, &err))
        return gp_tell(GP_EXIT_USAGE, &err);
    int rc = read_tls(s, &cert, &key, &err);
    int code = rc ? gp_tell(GP_EXIT_FAILED, &err) : serve(s, cert, key);

    gp_mem_free(cert);
    gp_mem_free(key);
    return code;
}
