/* A request's cache options: defaults, ranges, text. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "policy/policy.h"

static struct gp_kv_options defaults(void)
{
    struct gp_kv_options o;

    gp_policy_defaults(&o);
    return o;
}

static void defaults_are_those_of_the_paper(void **state)
{
    struct gp_kv_options o = defaults();

    (void)state;
    assert_int_equal(o.policy, GP_POLICY_GROWPAGE);
    assert_true(o.beta_short == 0.9f && o.beta_long == 0.999f);
    assert_true(o.coverage == 0.99 && o.threshold == 0);
    assert_true(o.compress_probability == 0.7);
    assert_true(o.shrink_threshold == -0.005 && o.shrink_floor == 1024);
    assert_int_equal(o.initial_pages, 12);
    assert_int_equal(o.max_pages, 0);
    assert_int_equal(o.fallback, GP_FALLBACK_COMPRESS);
    assert_int_equal(o.resume, GP_RESUME_REPLAY);
    for (uint32_t b = 16; b <= 4096; b *= 2)
        assert_int_equal(gp_policy_check(&o, b, NULL), GP_OK);
}

/* Each breaks one field; the message must name it. */
static void break_kv(struct gp_kv_options *o)
{
    o->policy = (enum gp_policy)(GP_POLICY_STREAMING + 1);
}
static void break_budget(struct gp_kv_options *o)
{
    o->policy = GP_POLICY_FIXED;
    o->budget_tokens = 0;
}
static void break_probability(struct gp_kv_options *o)
{
    o->compress_probability = 1.5;
}
static void break_probability_nan(struct gp_kv_options *o)
{
    o->compress_probability = NAN;
}
static void break_threshold(struct gp_kv_options *o)
{
    o->threshold = INFINITY;
}
static void break_shrink(struct gp_kv_options *o)
{
    o->policy = GP_POLICY_SHRINK;
    o->shrink_threshold = 0.1;
}
static void break_shrink_nan(struct gp_kv_options *o)
{
    o->shrink_threshold = NAN;
}
static void break_beta_short(struct gp_kv_options *o)
{
    o->beta_short = 1.0f;
}
static void break_beta_long(struct gp_kv_options *o)
{
    o->beta_long = -0.1f;
}
static void break_coverage(struct gp_kv_options *o)
{
    o->coverage = 0;
}
static void break_coverage_nan(struct gp_kv_options *o)
{
    o->coverage = NAN;
}
static void break_pressure(struct gp_kv_options *o)
{
    o->pressure = 1.01;
}
static void break_initial(struct gp_kv_options *o)
{
    o->initial_pages = 1;
}
static void break_max(struct gp_kv_options *o)
{
    o->max_pages = 1;
}
static void break_local(struct gp_kv_options *o)
{
    o->local = 65;
}
static void break_protect(struct gp_kv_options *o)
{
    o->protect = 64;
}
static void break_metric(struct gp_kv_options *o)
{
    o->metric = (enum gp_metric)3;
}
static void break_gqa_demand(struct gp_kv_options *o)
{
    o->gqa_demand = (enum gp_gqa_demand)3;
}
static void break_gqa_score(struct gp_kv_options *o)
{
    o->gqa_score = (enum gp_gqa_score)2;
}
static void break_domain(struct gp_kv_options *o)
{
    o->score_domain = (enum gp_score_domain)2;
}
static void break_summary_init(struct gp_kv_options *o)
{
    o->summary_init = (enum gp_summary_init)2;
}
static void break_fallback(struct gp_kv_options *o)
{
    o->fallback = (enum gp_kv_fallback)2;
}
static void break_resume(struct gp_kv_options *o)
{
    o->resume = (enum gp_kv_resume)2;
}

static void field_out_of_range_is_named(void **state)
{
    static const struct {
        void (*breaks)(struct gp_kv_options *o);
        const char *name;
    } cases[] = {
        {break_kv, "kv:"},
        {break_budget, "kv fixed:"},
        {break_probability, "kv random:"},
        {break_probability_nan, "kv random:"},
        {break_threshold, "kv-threshold:"},
        {break_shrink, "kv shrink:"},
        {break_shrink_nan, "kv shrink:"},
        {break_beta_short, "kv-beta-short:"},
        {break_beta_long, "kv-beta-long:"},
        {break_coverage, "kv-coverage:"},
        {break_coverage_nan, "kv-coverage:"},
        {break_pressure, "kv-pressure:"},
        {break_initial, "kv-initial-pages:"},
        {break_max, "kv-max-pages:"},
        {break_local, "kv-local:"},
        {break_protect, "kv-protect:"},
        {break_metric, "kv-metric:"},
        {break_gqa_demand, "kv-gqa-demand:"},
        {break_gqa_score, "kv-gqa-score:"},
        {break_domain, "kv-score-domain:"},
        {break_summary_init, "kv-summary-init:"},
        {break_fallback, "kv-fallback:"},
        {break_resume, "kv-resume:"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gp_kv_options o = defaults();
        struct gp_error err;

        cases[i].breaks(&o);
        assert_int_equal(gp_policy_check(&o, 64, &err), GP_EINVAL);
        if (strncmp(err.message, cases[i].name, strlen(cases[i].name)) != 0)
            fail_msg("'%s' does not name %s", err.message, cases[i].name);
        assert_int_equal(gp_policy_check(&o, 64, NULL), GP_EINVAL);
    }
}

static void page_size_out_of_range_is_named(void **state)
{
    struct gp_kv_options o = defaults();
    struct gp_error err;

    (void)state;
    assert_int_equal(gp_policy_check(&o, 0, &err), GP_EINVAL);
    assert_non_null(strstr(err.message, "page-size"));
    assert_int_equal(gp_policy_check(&o, 1, NULL), GP_EINVAL);
    assert_int_equal(gp_policy_check(&o, 4097, NULL), GP_EINVAL);
}

static void text_says_what_it_says(void **state)
{
    struct gp_kv_options o = defaults();
    char text[64];

    (void)state;
    static const struct {
        const char *text, *back;
        enum gp_policy policy;
    } cases[] = {
        {"full", "full", GP_POLICY_FULL},
        {"growpage", "growpage", GP_POLICY_GROWPAGE},
        {"fixed:512", "fixed:512", GP_POLICY_FIXED},
        {"fixed:4294967295", "fixed:4294967295", GP_POLICY_FIXED},
        {"random", "random:0.7", GP_POLICY_RANDOM},
        {"random:.25", "random:0.25", GP_POLICY_RANDOM},
        {"random:1", "random:1", GP_POLICY_RANDOM},
        {"inverse", "inverse", GP_POLICY_INVERSE},
        {"shrink", "shrink:-0.005:1024", GP_POLICY_SHRINK},
        {"shrink:-1e-2:0", "shrink:-0.01:0", GP_POLICY_SHRINK},
        {"growpage+zipage", "growpage+zipage", GP_POLICY_GROWPAGE},
        {"fixed:96+gkv", "fixed:96+gkv", GP_POLICY_FIXED},
        {"random:1e+0+rkv", "random:1+rkv", GP_POLICY_RANDOM},
        {"shrink+snapkv", "shrink:-0.005:1024+snapkv", GP_POLICY_SHRINK},
        {"inverse", "inverse", GP_POLICY_INVERSE},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(gp_policy_from_text(cases[i].text, &o, NULL), GP_OK);
        assert_int_equal(o.policy, cases[i].policy);
        gp_policy_to_text(&o, text);
        assert_string_equal(text, cases[i].back);
    }
}

static void wrong_text_is_refused_and_changes_nothing(void **state)
{
    static const char *const texts[] = {
        "",
        ":",
        "Full",
        "full:",
        "full:1",
        "growpage:0",
        "inverse:x",
        " full",
        "full ",
        "fixed",
        "fixed:",
        "fixed:0",
        "fixed:-1",
        "fixed:+1",
        "fixed: 1",
        "fixed:12x",
        "fixed:4294967296",
        "fixed:99999999999999999999999",
        "fixed:1:2",
        "random:",
        "random:1.01",
        "random:-0.1",
        "random:nan",
        "random:inf",
        "random:0x1p-1",
        "random:1e999",
        "random:0.5:1",
        "shrink:",
        "shrink:-0.1",
        "shrink:-0.1:",
        "shrink::5",
        "shrink:a:5",
        "shrink:-0.1:-5",
        "shrink:-0.1:5:6",
        "zipage",
        "zipage:0",
        "gkv:1:2",
        "rkv:x",
        "morphkv:",
        "h2o:-4",
        "streaming:4294967296",
        "minference:4096",
        "full+zipage",
        "zipage:64+gkv",
        "growpage+",
        "growpage+growpage",
        "growpage+zipage:64",
        "growpage+zipage+gkv",
        "growpage+morphkv",
        "growpage+h2o",
        "+zipage",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct gp_kv_options o = defaults(), before = o;
        struct gp_error err = {""};

        assert_int_equal(gp_policy_from_text(texts[i], &o, &err), GP_EINVAL);
        assert_memory_equal(&o, &before, sizeof o);
        if (strncmp(err.message, "kv policy ", 10) != 0)
            fail_msg("%s: '%s'", texts[i], err.message);
        assert_int_equal(gp_policy_from_text(texts[i], &o, NULL), GP_EINVAL);
    }
}

static void text_leaves_the_other_options_alone(void **state)
{
    struct gp_kv_options o = defaults(), before;

    (void)state;
    o.initial_pages = 3;
    o.seed = 77;
    o.threshold = 0.25;
    before = o;
    assert_int_equal(gp_policy_from_text("random:0.5", &o, NULL), GP_OK);
    before.policy = GP_POLICY_RANDOM;
    before.compress_probability = 0.5;
    assert_memory_equal(&o, &before, sizeof o);
}

/* What is printed reads back as the very same numbers. */
static void text_round_trips(void **state)
{
    struct gp_rng rng = {7};
    char text[64];

    (void)state;
    for (uint32_t i = 0; i < 2000; i++) {
        struct gp_kv_options o = defaults(), back = o;

        o.policy = i % 2 ? GP_POLICY_RANDOM : GP_POLICY_SHRINK;
        o.compress_probability = back.compress_probability = gp_rng_uniform(&rng);
        if (i % 2 == 0) {
            o.shrink_threshold = ldexp(-gp_rng_uniform(&rng), (int)gp_rng_below(&rng, 400) - 200);
            o.shrink_floor = (uint32_t)gp_rng_next(&rng);
        }
        gp_policy_to_text(&o, text);
        assert_true(strlen(text) < sizeof text - 1);
        assert_int_equal(gp_policy_from_text(text, &back, NULL), GP_OK);
        assert_memory_equal(&o, &back, sizeof o);
    }
    struct gp_kv_options longest = defaults();

    longest.policy = GP_POLICY_SHRINK;
    longest.shrink_threshold = -DBL_MIN;
    longest.shrink_floor = UINT32_MAX;
    gp_policy_to_text(&longest, text);
    assert_string_equal(text, "shrink:-2.2250738585072014e-308:4294967295");
}

/* A policy that another's scorer selects for: its own numbers, the other's switches. */
static void a_scorer_may_select_for_the_papers_policies(void **state)
{
    struct gp_kv_options o = defaults(), zipage = o;
    struct gp_error err = {""};

    (void)state;
    assert_int_equal(gp_policy_from_text("zipage:64", &zipage, NULL), GP_OK);
    assert_int_equal(gp_policy_from_text("fixed:96+zipage", &o, NULL), GP_OK);
    assert_int_equal(o.select, GP_POLICY_ZIPAGE);
    assert_memory_equal(&o.scorer, &zipage.scorer, sizeof o.scorer);
    assert_true(gp_policy_scores(&o) && gp_policy_summarises(&o));
    assert_true(gp_policy_needs(&o).memory && gp_policy_needs(&o).window == 16);
    assert_int_equal(gp_policy_check(&o, 32, &err), GP_OK);
    /* Pages and quotas are the paper's. */
    struct gp_kv_options fixed = defaults();

    assert_int_equal(gp_policy_from_text("fixed:96", &fixed, NULL), GP_OK);
    struct gp_retention a = gp_policy_retention(&o, 32, 5, GP_DO_COMPRESS);
    struct gp_retention b = gp_policy_retention(&fixed, 32, 5, GP_DO_COMPRESS);

    assert_memory_equal(&a, &b, sizeof a);

    assert_int_equal(gp_policy_from_text("fixed:96+snapkv", &o, NULL), GP_OK);
    assert_int_equal(gp_policy_set_switch(&o, "source", "all", NULL), GP_OK);
    assert_int_equal(gp_policy_set_switch(&o, "pool", "none", NULL), GP_OK);
    assert_int_equal(gp_policy_check(&o, 32, &err), GP_EINVAL);
    assert_non_null(strstr(err.message, "source"));
    assert_int_equal(gp_policy_from_text("growpage+zipage", &o, NULL), GP_OK);
    o.trigger = GP_TRIGGER_TOKEN;
    assert_int_equal(gp_policy_check(&o, 32, &err), GP_EINVAL);
    o.trigger = GP_TRIGGER_PAGE;
    o.select = GP_POLICY_H2O;
    assert_int_equal(gp_policy_check(&o, 32, &err), GP_EINVAL);
    o.select = GP_POLICY_ZIPAGE;
    o.policy = GP_POLICY_FULL;
    assert_int_equal(gp_policy_check(&o, 32, &err), GP_EINVAL);
    /* The next name takes it away again. */
    assert_int_equal(gp_policy_from_text("growpage", &o, NULL), GP_OK);
    assert_int_equal(o.select, GP_POLICY_FULL);
    assert_false(gp_policy_scores(&o));
}

/* Every switch says what it is in words that set it again, and no two are the same field. */
static void every_switch_of_a_scorer_round_trips(void **state)
{
    static const char *const policies[] = {"zipage:512", "gkv:512", "rkv:512",      "morphkv:512",
                                           "snapkv:512", "h2o:512", "streaming:512"};
    struct gp_error err = {""};
    const char *name;
    char value[GP_SWITCH_TEXT_BYTES], again[GP_SWITCH_TEXT_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        for (size_t j = 0; j < sizeof policies / sizeof *policies; j++) {
            struct gp_kv_options from = defaults(), to = defaults();
            uint32_t count = 0;

            assert_int_equal(gp_policy_from_text(policies[i], &from, NULL), GP_OK);
            assert_int_equal(gp_policy_from_text(policies[j], &to, NULL), GP_OK);
            for (; gp_policy_switch_text(&from, count, &name, value); count++) {
                if (gp_policy_set_switch(&to, name, value, &err))
                    fail_msg("%s", err.message);
                assert_true(gp_policy_switch_text(&to, count, &name, again));
                assert_string_equal(again, value);
            }
            assert_int_equal(count, 21);
            gp_policy_trigger_text(&from, value);
            assert_int_equal(gp_policy_set_trigger(&to, value, NULL), GP_OK);
            to.policy = from.policy;
            assert_memory_equal(&to, &from, sizeof to);
        }
}

static void a_policy_without_a_scorer_has_no_switches(void **state)
{
    struct gp_kv_options o = defaults();
    struct gp_error err = {""};
    const char *name;
    char value[GP_SWITCH_TEXT_BYTES];

    (void)state;
    assert_false(gp_policy_switch_text(&o, 0, &name, value));
    assert_int_equal(gp_policy_set_switch(&o, "window", "8", &err), GP_EINVAL);
    assert_non_null(strstr(err.message, "growpage has no scorer"));
}

static void triggers_are_words(void **state)
{
    static const char *const wrong[] = {
        "", "pages", "steps", "steps:", "steps:-1", "steps:1x", "token "};
    struct gp_kv_options o = defaults();

    (void)state;
    assert_int_equal(gp_policy_set_trigger(&o, "steps:300", NULL), GP_OK);
    assert_int_equal(o.trigger, GP_TRIGGER_STEPS);
    assert_int_equal(o.trigger_steps, 300);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct gp_kv_options before = o;

        assert_int_equal(gp_policy_set_trigger(&o, wrong[i], NULL), GP_EINVAL);
        assert_memory_equal(&o, &before, sizeof o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_paper),
        cmocka_unit_test(field_out_of_range_is_named),
        cmocka_unit_test(page_size_out_of_range_is_named),
        cmocka_unit_test(text_says_what_it_says),
        cmocka_unit_test(wrong_text_is_refused_and_changes_nothing),
        cmocka_unit_test(text_leaves_the_other_options_alone),
        cmocka_unit_test(text_round_trips),
        cmocka_unit_test(a_scorer_may_select_for_the_papers_policies),
        cmocka_unit_test(every_switch_of_a_scorer_round_trips),
        cmocka_unit_test(a_policy_without_a_scorer_has_no_switches),
        cmocka_unit_test(triggers_are_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
