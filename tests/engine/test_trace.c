/* The trace changes nothing, loses nothing, and breaks nothing when its file does.  What its lines
 * hold is checked against docs/TRACE.md in tests/e2e/test_trace.py. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/engine_rig.h"

#define REQUESTS 6u

/* Six requests in a pool for about two: fallbacks, preemptions, replays. */
static void crowded(struct gp_engine_options *options, enum gp_kv_fallback fallback)
{
    engine_rig_options(options);
    options->kv_pages = 14;
    options->kv.fallback = fallback;
}

static void run_all(const struct gp_engine_options *options, struct rig_output out[REQUESTS],
                    struct gp_engine_stats *stats)
{
    struct gp_engine *engine = engine_rig_engine(options);
    struct gp_request request;
    struct gp_error err = {""};
    uint64_t ids[REQUESTS];

    for (uint32_t i = 0; i < REQUESTS; i++) {
        engine_rig_ask(&request, 20 + 7 * i, 120);
        request.sampling.seed = i;
        if (gp_engine_submit(engine, &request, &ids[i], &err))
            fail_msg("%s", err.message);
    }
    gp_engine_run(engine);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        engine_rig_read(engine, ids[i], 0, &out[i]);
        gp_engine_release(engine, ids[i]);
    }
    gp_engine_stats(engine, stats);
    gp_engine_close(engine);
}

/* All of a file, zero-terminated; the caller frees it. */
static char *contents(int fd)
{
    off_t length = lseek(fd, 0, SEEK_END);
    char *text = malloc((size_t)length + 1);

    assert_non_null(text);
    assert_int_equal(pread(fd, text, (size_t)length, 0), length);
    text[length] = 0;
    return text;
}

static uint64_t count(const char *text, const char *event)
{
    char word[64];
    uint64_t found = 0;

    snprintf(word, sizeof word, "{\"event\":\"%s\",", event);
    for (const char *at = text; (at = strstr(at, word)); at += strlen(word))
        found++;
    return found;
}

static void a_trace_changes_no_token_and_tells_every_event(void **state)
{
    static const enum gp_kv_fallback fallbacks[] = {GP_FALLBACK_COMPRESS, GP_FALLBACK_PREEMPT};
    static struct rig_output without[REQUESTS], with[REQUESTS];

    (void)state;
    for (size_t f = 0; f < sizeof fallbacks / sizeof *fallbacks; f++) {
        struct gp_engine_options options;
        struct gp_engine_stats stats, same;

        crowded(&options, fallbacks[f]);
        run_all(&options, without, &stats);
        options.trace_fd = memfd_create("trace", MFD_CLOEXEC);
        assert_true(options.trace_fd >= 0);
        run_all(&options, with, &same);
        for (uint32_t i = 0; i < REQUESTS; i++)
            engine_rig_assert_same(&without[i], &with[i]);
        char *text = contents(options.trace_fd);

        assert_int_equal(same.preempt, stats.preempt);
        assert_true(stats.fallback > 0 && (stats.preempt > 0 || f == 0));
        assert_int_equal(count(text, "start"), 1);
        assert_int_equal(count(text, "admit"), REQUESTS);
        assert_int_equal(count(text, "finish"), REQUESTS);
        assert_int_equal(count(text, "preempt"), stats.preempt);
        assert_int_equal(count(text, "resume"), stats.preempt);
        assert_int_equal(count(text, "fallback"), stats.fallback);
        assert_int_equal(count(text, "boundary"), stats.grow + stats.compress + stats.shrink +
                                                      stats.start + stats.initial + stats.pressure +
                                                      stats.capped);
        assert_true(count(text, "grow") > 0 && count(text, "compact") > 0);
        assert_int_equal(count(text, "end"), 1);
        free(text);
        close(options.trace_fd);
    }
}

static void a_file_that_takes_nothing_stops_nobody(void **state)
{
    static struct rig_output without[REQUESTS], with[REQUESTS];
    struct gp_engine_options options;
    struct gp_engine_stats stats;
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    int closed = open("/dev/null", O_RDONLY | O_CLOEXEC); /* write() says EBADF */

    (void)state;
    assert_true(full >= 0 && closed >= 0);
    crowded(&options, GP_FALLBACK_COMPRESS);
    run_all(&options, without, &stats);
    for (int i = 0; i < 2; i++) {
        options.trace_fd = i ? full : closed;
        run_all(&options, with, &stats);
        for (uint32_t r = 0; r < REQUESTS; r++)
            engine_rig_assert_same(&without[r], &with[r]);
    }
    close(full);
    close(closed);
}

/* Whoever is cancelled has an end in it, also when the engine is closed over it. */
static void cancelled_requests_are_told(void **state)
{
    struct gp_engine_options options;
    struct gp_request request;
    struct gp_error err = {""};
    uint64_t ids[2];

    (void)state;
    engine_rig_options(&options);
    options.trace_fd = memfd_create("trace", MFD_CLOEXEC);
    struct gp_engine *engine = engine_rig_engine(&options);

    for (uint32_t i = 0; i < 2; i++) {
        engine_rig_ask(&request, 30, 200);
        if (gp_engine_submit(engine, &request, &ids[i], &err))
            fail_msg("%s", err.message);
    }
    for (int i = 0; i < 5; i++)
        gp_engine_step(engine);
    gp_engine_cancel(engine, ids[0]);
    gp_engine_step(engine);
    gp_engine_close(engine);
    char *text = contents(options.trace_fd), *at = text;

    for (int i = 0; i < 2; i++)
        at = strstr(at, "\"reason\":\"cancelled\"") + 1;
    assert_int_equal(count(text, "finish"), 2);
    assert_int_equal(count(text, "end"), 1);
    assert_true(text[strlen(text) - 1] == '\n');
    free(text);
    close(options.trace_fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_changes_no_token_and_tells_every_event),
        cmocka_unit_test(a_file_that_takes_nothing_stops_nobody),
        cmocka_unit_test(cancelled_requests_are_told),
    };

    return cmocka_run_group_tests(tests, engine_rig_setup, engine_rig_teardown);
}
