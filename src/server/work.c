/* Jobs and the exchanges that wait for them. */
#include "base/clock.h"
#include "server/answer.h"
#include "server/server_internal.h"

static void link_job(struct gp_server *server, struct gp_job *job)
{
    job->next = server->jobs;
    if (server->jobs)
        server->jobs->prev = job;
    server->jobs = job;
}

static void unlink_job(struct gp_server *server, struct gp_job *job)
{
    if (job->next)
        job->next->prev = job->prev;
    *(job->prev ? &job->prev->next : &server->jobs) = job->next;
}

/* The exchange has all that it will ever get of its job. */
static void leave_job(struct gp_exchange *ex)
{
    struct gp_server *server = ex->server;
    struct gp_job *job = ex->job;
    bool cut = !gp_job_done(job);

    ex->usage = gp_job_usage(job);
    ex->job = NULL;
    gp_metrics_job(&server->metrics, job, cut);
    if (cut)
        gp_job_cancel(job);
}

void gp_work_drop(struct gp_exchange *ex)
{
    if (ex->job && ex->phase != GP_PHASE_PREPARING)
        leave_job(ex);
}

static void reply_whole(struct gp_exchange *ex)
{
    struct gp_refusal refusal;
    json_t *whole = gp_answer_whole(ex->job, &refusal);

    if (whole)
        gp_reply_json(ex, 200, whole);
    else
        gp_reply_refuse(ex, &refusal);
    ex->phase = GP_PHASE_ANSWERED;
    leave_job(ex);
    gp_http_wake(ex);
}

static void stream(struct gp_exchange *ex)
{
    struct gp_job *job = ex->job;

    gp_answer_stream(job, &ex->out);
    if (ex->out.failed) {
        gp_http_abandon(ex);
        return;
    }
    if (gp_job_done(job) || job->error_shown) {
        ex->stream_over = true;
        leave_job(ex);
    }
    gp_http_wake(ex);
}

/* Gaps between tokens, as they are seen from here. */
static void count_gaps(struct gp_metrics *metrics, struct gp_job *job)
{
    uint64_t now = gp_clock_ns();

    for (uint32_t i = 0; i < job->choice_count; i++) {
        struct gp_choice *choice = &job->choices[i];
        uint32_t tokens = choice->token_count - choice->counted;

        if (tokens == 0)
            continue;
        if (choice->counted > 0)
            gp_metrics_gap(metrics, (double)(now - choice->counted_ns) / 1e9, tokens);
        choice->counted = choice->token_count;
        choice->counted_ns = now;
    }
}

void gp_work_advance(struct gp_exchange *ex)
{
    /* A client that does not read leaves its tokens in the engine. */
    if (ex->phase == GP_PHASE_PREPARING || !ex->job ||
        ex->out.length - ex->out_taken > GP_LIMIT_UNSENT_BYTES)
        return;
    if (!gp_job_read(ex->job))
        return;
    count_gaps(&ex->server->metrics, ex->job);
    if (ex->streaming)
        stream(ex);
    else if (gp_job_done(ex->job))
        reply_whole(ex);
}

void gp_work_start(struct gp_exchange *ex)
{
    struct gp_server *server = ex->server;

    ex->phase = GP_PHASE_WORKING;
    server->body_bytes -= ex->body.length;
    gp_buffer_free(&ex->body);
    if (ex->job)
        link_job(server, ex->job);
    if (atomic_load(&ex->gone)) {
        gp_work_drop(ex);
        if (!ex->connection)
            gp_exchange_free(ex);
        return;
    }
    if (ex->job && !ex->job->cancelled) {
        ex->streaming = ex->job->asked.stream;
        /* Its first tokens may have been told of before it stood in the list. */
        if (ex->streaming)
            gp_http_wake(ex);
        gp_work_advance(ex);
        return;
    }
    /* Refused, with what the engine had taken already left to be reaped. */
    if (ex->job)
        ex->job = NULL;
    if (ex->reply.status == 503)
        server->metrics.rejected_full++;
    else if (ex->reply.status >= 400)
        server->metrics.rejected_invalid++;
    ex->phase = GP_PHASE_ANSWERED;
    gp_http_wake(ex);
}

void gp_work_read(struct gp_server *server)
{
    for (struct gp_exchange *ex = server->exchanges, *next; ex; ex = next) {
        next = ex->next;
        gp_work_advance(ex);
    }
    for (struct gp_job *job = server->jobs, *next; job; job = next) {
        next = job->next;
        if ((job->cancelled || gp_job_done(job)) && gp_job_is_over(job)) {
            gp_memory_ended(server, job);
            unlink_job(server, job);
            gp_job_close(job);
        }
    }
}
