/* The gauge: every case can be made, run and compared, and says so when there is no memory. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "growpage.h"
#include "kernels/kernels.h"

#define SMALL (1u << 20)

/* Builds with checks take ten times as long: every so many of the cases. */
#ifdef GP_DEBUG
#define EVERY 9u
#else
#define EVERY 1u
#endif

static struct gp_gauge *open_gauge(uint32_t threads, const char *cpu)
{
    struct gp_gauge_options options = {.threads = threads, .cpu = cpu, .bytes = SMALL};
    struct gp_gauge *gauge;
    struct gp_error err;

    if (gp_gauge_open(&gauge, &options, &err))
        fail_msg("%s", err.message);
    return gauge;
}

static void check_case(struct gp_gauge *gauge, uint32_t index, const struct gp_gauge_case *what)
{
    bool is_read = strcmp(what->kernel, "read") == 0;
    bool has_definition =
        !is_read && what->threads == 1 && strcmp(gp_gauge_level(gauge), "ref") != 0;
    struct gp_gauge_sample sample;
    struct gp_error err;

    assert_int_equal(gp_gauge_select(gauge, index, &err), GP_OK);
    for (uint32_t i = 0; i < 2; i++) {
        gp_gauge_take(gauge, &sample);
        assert_true(isfinite(sample.ns) && sample.ns > 0);
        assert_int_equal(sample.read_ns > 0, what->unit == GP_GAUGE_BYTES && !is_read);
        assert_int_equal(sample.definition_ns > 0, has_definition);
    }
}

static void every_case_is_timed(void **state)
{
    static const char *const levels[] = {NULL, "ref"};
    const uint64_t live = gp_mem_live();
    struct gp_gauge_case what;

    (void)state;
    for (uint32_t threads = 1; threads <= 3; threads += 2)
        for (uint32_t level = 0; level < 2; level++) {
            struct gp_gauge *gauge = open_gauge(threads, levels[level]);
            uint32_t count = 0;

            for (; gp_gauge_case(gauge, count, &what); count++) {
                assert_true(what.work > 0 && what.rows > 0 && *what.kernel && *what.shape);
                assert_int_equal(what.threads, what.alone ? 1 : threads);
                /* Many rows take their time, and show nothing new. */
                if (count % EVERY == 0 && (what.rows <= 2 || (threads == 1 && !levels[level])))
                    check_case(gauge, count, &what);
            }
            assert_true(count > 100);
            assert_false(gp_gauge_case(gauge, count + 1000, &what));
            gp_gauge_close(gauge);
            assert_int_equal(gp_mem_live(), live);
        }
}

static void no_memory_is_said(void **state)
{
    const uint64_t live = gp_mem_live();
    struct gp_gauge_options options = {.threads = 2, .bytes = SMALL};
    struct gp_gauge *gauge = NULL;
    struct gp_gauge_case what, last = {.kernel = ""};
    struct gp_error err;
    bool refused;

    (void)state;
    for (uint64_t nth = 1;; nth++) {
        gp_mem_refuse_at(nth);
        int rc = gp_gauge_open(&gauge, &options, &err);
        refused = gp_mem_refused();
        gp_mem_refuse_at(0);
        assert_int_equal(rc, refused ? GP_ENOMEM : GP_OK);
        if (!refused)
            break;
        assert_int_equal(gp_mem_live(), live);
    }
    /* One of each kernel: its types are made alike. */
    for (uint32_t i = 0; gp_gauge_case(gauge, i, &what); i++) {
        for (uint64_t nth = 1; strcmp(what.kernel, last.kernel) != 0; nth++) {
            gp_mem_refuse_at(nth);
            int rc = gp_gauge_select(gauge, i, &err);
            refused = gp_mem_refused();
            gp_mem_refuse_at(0);
            assert_int_equal(rc, refused ? GP_ENOMEM : GP_OK);
            if (!refused)
                break;
            assert_non_null(strstr(err.message, what.kernel));
        }
        last = what;
    }
    gp_gauge_close(gauge);
    assert_int_equal(gp_mem_live(), live);
}

static void the_level_is_what_was_asked_for(void **state)
{
    struct gp_gauge_options options = {.cpu = "z80", .bytes = SMALL};
    struct gp_gauge *gauge = open_gauge(1, "ref");
    struct gp_error err;

    (void)state;
    assert_string_equal(gp_gauge_level(gauge), "ref");
    gp_gauge_close(gauge);
    gauge = open_gauge(1, NULL);
    assert_string_equal(gp_gauge_level(gauge), gp_level_name(gp_level_detect()));
    gp_gauge_close(gauge);
    assert_int_equal(gp_gauge_open(&gauge, &options, &err), GP_EINVAL);
    assert_non_null(strstr(err.message, "z80"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_is_timed),
        cmocka_unit_test(no_memory_is_said),
        cmocka_unit_test(the_level_is_what_was_asked_for),
    };

    unsetenv("GP_CPU");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
