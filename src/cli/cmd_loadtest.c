/* loadtest: requests to a server over HTTP, and how long they took. */
#include <stdio.h>

#include "cli/commands.h"
#include "cli/io.h"
#include "eval/load.h"
#include "eval/origin.h"
#include "eval/rows.h"

static bool go_on(void *ctx, uint32_t done)
{
    const struct gp_load *load = ctx;

    gp_progress("loadtest", (double)done / load->workload->request_count);
    return !gp_interrupted();
}

static int print(const struct gp_settings *s, const struct gp_load *load,
                 struct gp_load_result *result, struct gp_error *err)
{
    struct gp_rows rows = {.format = (enum gp_format)s->bench.format};
    const char names[1][64] = {"loadtest"};
    char started[GP_TIME_TEXT_BYTES];
    json_t *figures = gp_load_figures(load, result);

    gp_time_format(started);
    if (!figures || json_object_set_new(figures, "version", json_string(gp_version())) ||
        json_object_set_new(figures, "started", json_string(started))) {
        json_decref(figures);
        return gp_fail(err, GP_ENOMEM, "out of memory");
    }
    int rc = rows.format == GP_FORMAT_MD ? gp_rows_print(&figures, names, 1, err)
                                         : gp_rows_add(&rows, json_incref(figures), err);

    json_decref(figures);
    if (!rc && rows.format != GP_FORMAT_MD)
        rc = gp_rows_end(&rows, err);
    return rc ? rc : gp_print_end(err);
}

/* What went wrong with requests is told, and is a failure; the others' figures stand. */
static int report(const struct gp_settings *s, const struct gp_load *load,
                  struct gp_load_result *result)
{
    struct gp_error err;

    if (result->done > result->failed && print(s, load, result, &err))
        return gp_tell(GP_EXIT_FAILED, &err);
    if (result->failed == 0)
        return GP_EXIT_OK;
    gp_error_set(&err, "loadtest: %u of %u requests failed; the first: %s", result->failed,
                 result->done, result->failure);
    return gp_tell(GP_EXIT_FAILED, &err);
}

int gp_cmd_loadtest(struct gp_settings *s)
{
    struct gp_workload workload = {
        .seed = (uint64_t)s->seed,
        .request_count = s->bench.requests,
        .prompt = s->bench.prompt_length,
        .output = s->bench.output_length,
        .rate = s->bench.rate,
    };
    struct gp_load load = {
        .url = s->rest.items[0],
        .model = s->alias,
        .key = s->keys.count > 0 ? s->keys.items[0] : NULL,
        .chat = s->chat,
        .insecure = s->insecure,
        .workload = &workload,
        .concurrency = s->concurrency,
        .seconds_max = s->request_seconds,
        .go_on = go_on,
        .ctx = &load,
    };
    struct gp_load_result result;
    struct gp_error err;
    bool complete;
    int status;

    gp_interrupt_arm();
    int rc = gp_load_run(&load, &result, &complete, &err);
    gp_interrupt_disarm();
    gp_progress_end();
    if (rc) {
        gp_error_prefix(&err, "loadtest");
        status = gp_tell(rc == GP_EINVAL ? GP_EXIT_USAGE : GP_EXIT_FAILED, &err);
    } else if (!complete && result.done < workload.request_count) {
        gp_error_set(&err, "loadtest: interrupted after %u of %u requests", result.done,
                     workload.request_count);
        status = gp_tell(GP_EXIT_INTERRUPTED, &err);
    } else {
        status = report(s, &load, &result);
    }
    gp_load_result_free(&result);
    return status;
}
