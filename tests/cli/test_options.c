/* The option parser and the table of all commands: what is typed is what is set, or it is refused
 * by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "cli/settings.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

struct target {
    bool flag;
    const char *text;
    uint32_t number;
    int64_t whole;
    uint64_t size;
    float real;
    double wide;
    int word;
    struct gp_uint_list list;
};

static int refuse_odd(void *target, const char *value, struct gp_error *err)
{
    int64_t number;

    if (!gp_parse_int(value, &number) || number % 2)
        return gp_fail(err, GP_EINVAL, "%s: odd", value);
    *(int64_t *)target = number;
    return GP_OK;
}

#define AT(field) .offset = offsetof(struct target, field), .commands = 1

static const struct gp_option table[] = {
    {GP_OPTION_SECTION, .help = "Section"},
    {GP_OPTION_FLAG, "-x --flag", NULL, "a flag", AT(flag)},
    {GP_OPTION_TEXT, "-T --text --words", "TEXT", "a text", AT(text)},
    {GP_OPTION_UINT, "-np --number", "N", "a number", AT(number), .min = 16, .max = 4096,
     .multiple = 16},
    {GP_OPTION_INT, "--whole", "N", "a whole number", AT(whole), .min = -1, .max = 1000},
    {GP_OPTION_SIZE, "--size", "SIZE", "a size", AT(size), .min = 1, .max = 1e15},
    {GP_OPTION_FLOAT, "--real", "X", "a share", AT(real), .min = 0, .max = 1, .min_open = true,
     .max_open = true},
    {GP_OPTION_DOUBLE, "--wide", "X", "a number", AT(wide), .min = -1, .max = 1},
    {GP_OPTION_WORD, "--word", "WORD", "a word", AT(word), .words = "red|green", .later = "blue"},
    {GP_OPTION_LIST, "-l --list", "N,...", "some numbers", AT(list), .min = 1, .max = 4294967295},
    {GP_OPTION_CALL, "--even", "N", "an even number", AT(whole), .apply = refuse_odd},
    {GP_OPTION_TRUE, "--as-ever", .commands = 1},
    {GP_OPTION_LATER, "--some-day", .commands = 1},
    {GP_OPTION_FLAG, "--elsewhere", NULL, "of another command", .commands = 2},
};

/* The words of a line, apart by single spaces; "~" in a word stands for a space. */
static int split(const char *line, char *argv[64])
{
    static char copy[1024];
    int argc = 0;

    snprintf(copy, sizeof copy, "%s", line);
    for (char *at = copy; *at; argc++) {
        argv[argc] = at;
        at += strcspn(at, " ");
        if (*at)
            *at++ = 0;
    }
    for (int i = 0; i < argc; i++)
        for (char *c = argv[i]; *c; c++)
            *c = *c == '~' ? ' ' : *c;
    return argc;
}

static int parse(const char *line, struct target *target, struct gp_arguments *rest,
                 struct gp_error *err)
{
    static char *argv[64];
    int argc = split(line, argv);

    *target = (struct target){0};
    return gp_options_parse(table, COUNT(table), 1, argc, argv, target, rest, err);
}

static void every_kind_is_stored(void **state)
{
    struct target t;
    struct gp_arguments rest;
    struct gp_error err;

    (void)state;
    assert_int_equal(parse("-x --text=a=b -np 64 --whole -1 --size 3MiB --real .25 --wide -5e-1 "
                           "--word green --as-ever one - two",
                           &t, &rest, &err),
                     GP_OK);
    assert_true(t.flag);
    assert_string_equal(t.text, "a=b");
    assert_int_equal(t.number, 64);
    assert_int_equal(t.whole, -1);
    assert_int_equal(t.size, 3 << 20);
    assert_true(t.real == 0.25f);
    assert_true(t.wide == -0.5);
    assert_int_equal(t.word, 1);
    assert_int_equal(rest.count, 3);
    assert_string_equal(rest.items[0], "one");
    assert_string_equal(rest.items[1], "-");
    assert_string_equal(rest.items[2], "two");
}

static void the_last_use_and_the_double_dash_win(void **state)
{
    struct target t;
    struct gp_arguments rest;
    struct gp_error err;

    (void)state;
    assert_int_equal(parse("--even 4 --even 6 --words -x -- --flag -q", &t, &rest, &err), GP_OK);
    assert_int_equal(t.whole, 6);
    assert_string_equal(t.text, "-x"); /* a value, whatever it looks like */
    assert_false(t.flag);
    assert_int_equal(rest.count, 2);
    assert_string_equal(rest.items[0], "--flag");
}

static void what_is_wrong_is_named(void **state)
{
    static const struct {
        const char *line, *message;
    } cases[] = {
        {"--falg", "--falg: unknown option; did you mean --flag?"},
        {"--numbre 16", "--numbre: unknown option; did you mean --number?"},
        {"-y", "-y: unknown option"},
        {"-flag", "-flag: unknown option; did you mean --flag?"},
        {"--jinja", "--jinja: unknown option"},
        {"--completely-different", "--completely-different: unknown option"},
        {"--elsewhere", "--elsewhere: not an option of this command"},
        {"--some-day", "--some-day: not available yet"},
        {"--some-day=7", "--some-day: takes no value"},
        {"--flag=yes", "--flag: takes no value"},
        {"--text", "--text: needs a value (TEXT)"},
        {"--number 20", "--number: 20: must be a multiple of 16"},
        {"--number 0", "--number: 0: must be at least 16 and at most 4096"},
        {"-np 99999999999", "-np: 99999999999: must be at least 16 and at most 4096"},
        {"-np 99999999999999999999", "-np: 99999999999999999999: not a whole number"},
        {"--number 1x", "--number: 1x: not a whole number"},
        {"--number +16", "--number: +16: not a whole number"},
        {"--number ~16", "--number:  16: not a whole number"},
        {"--number=", "--number: : not a whole number"},
        {"--number 16.0", "--number: 16.0: not a whole number"},
        {"--number 0x10", "--number: 0x10: not a whole number"},
        {"--whole -2", "--whole: -2: must be at least -1 and at most 1000"},
        {"--size 1PiB", "--size: 1PiB: not a size (bytes, or with KiB, MiB, GiB)"},
        {"--size -1", "--size: -1: not a size (bytes, or with KiB, MiB, GiB)"},
        {"--size 1.5GiB", "--size: 1.5GiB: not a size (bytes, or with KiB, MiB, GiB)"},
        {"--size 18446744073709551615GiB",
         "--size: 18446744073709551615GiB: not a size (bytes, or with KiB, MiB, GiB)"},
        {"--size 0", "--size: 0: must be at least 1 and at most 1e+15"},
        {"--real nan", "--real: nan: not a number"},
        {"--real inf", "--real: inf: not a number"},
        {"--real 0x1p-1", "--real: 0x1p-1: not a number"},
        {"--real 1e999", "--real: 1e999: not a number"},
        {"--real 0", "--real: 0: must be above 0 and below 1"},
        {"--real 0.99999999999", "--real: 0.99999999999: must be above 0 and below 1"},
        {"--real .", "--real: .: not a number"},
        {"--wide 1.01", "--wide: 1.01: must be at least -1 and at most 1"},
        {"--word blue", "--word: blue: not available yet; there is red|green"},
        {"--word re", "--word: re: must be one of red|green"},
        {"--word=", "--word: : must be one of red|green"},
        {"--even 3", "--even: 3: odd"},
    };
    struct target t;
    struct gp_arguments rest;
    struct gp_error err;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(parse(cases[i].line, &t, &rest, &err), GP_EINVAL);
        assert_string_equal(err.message, cases[i].message);
    }
}

static void sizes_are_exact(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {{"0", 0},
                 {"17", 17},
                 {"1KiB", 1024},
                 {"1kib", 1024},
                 {"2M", 2097152},
                 {"24GiB", 25769803776},
                 {"18446744073709551615", UINT64_MAX},
                 {"16777215TiB", 16777215ull << 40}};
    uint64_t bytes;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_true(gp_parse_size(cases[i].text, &bytes));
        assert_true(bytes == cases[i].bytes);
    }
    assert_false(gp_parse_size("16777216TiB", &bytes));
    assert_false(gp_parse_size("18446744073709551616", &bytes));
    assert_false(gp_parse_size("", &bytes));
    assert_false(gp_parse_size("MiB", &bytes));
}

/* Any words at all are parsed or refused, and a refusal is one line. */
static void random_lines_never_break_it(void **state)
{
    const char *seed_text = getenv("GP_SEED");
    uint64_t seed = seed_text ? strtoull(seed_text, NULL, 10) : 1;
    static const char letters[] = "-=xaT flgnumber0159.eKiBM\t\x80\xff";
    struct gp_rng rng = {.state = seed};

    (void)state;
    for (int round = 0; round < 20000; round++) {
        char words[8][24];
        char *argv[8];
        int argc = (int)gp_rng_below(&rng, 8);
        struct target t = {0};
        struct gp_arguments rest;
        struct gp_error err = {""};

        for (int i = 0; i < argc; i++) {
            uint32_t length = gp_rng_below(&rng, sizeof words[0]), at = 0;

            if (gp_rng_below(&rng, 2)) /* half of them start like a real option */
                at = (uint32_t)snprintf(words[i], sizeof words[i], "%s",
                                        (const char *[]){"--flag", "--number", "-np", "--size",
                                                         "--real"}[gp_rng_below(&rng, 5)]);
            for (; at < length; at++)
                words[i][at] = letters[gp_rng_below(&rng, sizeof letters - 1)];
            words[i][at] = 0;
            argv[i] = words[i];
        }
        int rc = gp_options_parse(table, COUNT(table), 1, argc, argv, &t, &rest, &err);

        if ((rc != GP_OK && rc != GP_EINVAL) ||
            (rc && (!*err.message || strchr(err.message, '\n'))))
            fail_msg("GP_SEED=%llu round %d: status %d, message '%s'", (unsigned long long)seed,
                     round, rc, err.message);
        if (!rc)
            assert_true(rest.count <= (uint32_t)argc);
    }
}

/* ---- the real table ---- */

static int settle(enum gp_command_bit command, const char *line, struct gp_settings *s,
                  struct gp_error *err)
{
    static char *argv[64];
    int argc = split(line, argv);

    return gp_settings_parse(s, command, argc, argv, err);
}

static void both_families_spellings_mean_the_same(void **state)
{
    static const char *const lines[] = {
        "-m M -p x -c 512 -np 4 -b 64 -t 3 -ctk f32 -ctv f32 -n 9 -s 7 --temp 0.5 --page-size 32 "
        "--kv-memory 1GiB",
        "--model M --prompt x --max-model-len 512 --max-num-seqs 4 --max-num-batched-tokens 64 "
        "--threads 3 --kv-cache-dtype f32 --max-tokens 9 --seed 7 --temperature 0.5 "
        "--block-size 32 --kv-cache-memory-bytes 1073741824 --no-enable-prefix-caching",
        "--model M --prompt=x --ctx-size=512 --parallel=4 --batch-size=64 --threads=3 "
        "--kv-type=f32 --n-predict=9 --seed=7 --temp=.5 --page-size=32 --kv-memory=1024MiB",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(lines); i++) {
        struct gp_settings s;
        struct gp_error err = {""};

        assert_int_equal(settle(GP_COMMAND_RUN, lines[i], &s, &err), GP_OK);
        assert_string_equal(s.model_path, "M");
        assert_string_equal(s.prompt, "x");
        assert_int_equal(s.engine.context, 512);
        assert_int_equal(s.engine.max_seqs, 4);
        assert_int_equal(s.engine.max_batch_tokens, 64);
        assert_int_equal(s.engine.threads, 3);
        assert_string_equal(s.engine.kv_type, "f32");
        assert_int_equal(s.max_tokens, 9);
        assert_int_equal(s.seed, 7);
        assert_true(s.sampling.temperature == 0.5f);
        assert_int_equal(s.engine.page_tokens, 32);
        assert_int_equal(s.engine.kv_bytes, 1 << 30);
    }
}

static void an_unsaid_sampling_option_is_what_llama_cli_takes(void **state)
{
    struct gp_settings s;
    struct gp_error err = {""};

    (void)state;
    assert_int_equal(settle(GP_COMMAND_RUN, "-m M -p x", &s, &err), GP_OK);
    assert_true(s.sampling.temperature == 0.8f);
    assert_int_equal(s.sampling.top_k, 40);
    assert_true(s.sampling.top_p == 0.95f);
    assert_true(s.sampling.min_p == 0.05f);
    assert_true(s.sampling.repeat_penalty == 1);
    assert_int_equal(
        settle(GP_COMMAND_RUN, "-m M -p x --temp 1 --top-k 0 --top-p 1 --min-p 0", &s, &err),
        GP_OK);
    assert_true(s.sampling.temperature == 1 && s.sampling.top_p == 1 && s.sampling.min_p == 0);
    assert_int_equal(s.sampling.top_k, 0);
}

static void every_switch_of_the_method_is_set(void **state)
{
    struct gp_settings s;
    struct gp_error err = {""};

    (void)state;
    assert_int_equal(
        settle(GP_COMMAND_RUN,
               "-m M - --kv shrink:-0.01:2048 --kv-beta-short 0.8 --kv-beta-long 0.99 "
               "--kv-coverage 0.9 --kv-threshold 2 --kv-local 8 --kv-protect 4 "
               "--kv-initial-pages 2 --kv-metric exp-entropy --kv-summary-init zero "
               "--kv-gqa-demand per-query-head --kv-gqa-score mean --kv-score-domain all "
               "--kv-max-pages 9 --kv-pressure 0.5 --kv-fallback preempt --kv-resume recompute "
               "--kv-watermark 3 --kv-pages 77 --kv-sync --kv-compact fill "
               "--no-prefix-cache --preempt least-computed",
               &s, &err),
        GP_OK);
    const struct gp_kv_options *kv = &s.engine.kv;
    assert_int_equal(kv->policy, GP_POLICY_SHRINK);
    assert_true(kv->shrink_threshold == -0.01);
    assert_int_equal(kv->shrink_floor, 2048);
    assert_true(kv->beta_short == 0.8f && kv->beta_long == 0.99f);
    assert_true(kv->coverage == 0.9 && kv->threshold == 2);
    assert_int_equal(kv->local, 8);
    assert_int_equal(kv->protect, 4);
    assert_int_equal(kv->initial_pages, 2);
    assert_int_equal(kv->metric, GP_METRIC_EXP_ENTROPY);
    assert_int_equal(kv->summary_init, GP_SUMMARY_ZERO);
    assert_int_equal(kv->gqa_demand, GP_GQA_PER_HEAD);
    assert_int_equal(kv->gqa_score, GP_GQA_SCORE_MEAN);
    assert_int_equal(kv->score_domain, GP_DOMAIN_ALL);
    assert_int_equal(kv->max_pages, 9);
    assert_true(kv->pressure == 0.5);
    assert_int_equal(kv->fallback, GP_FALLBACK_PREEMPT);
    assert_int_equal(kv->resume, GP_RESUME_RECOMPUTE);
    assert_int_equal(kv->compact, GP_COMPACT_FILL);
    assert_true(s.engine.kv_sync && s.engine.no_prefix_cache);
    assert_int_equal(s.engine.preempt, GP_PREEMPT_LEAST_COMPUTED);
    assert_int_equal(s.engine.watermark, 3);
    assert_int_equal(s.engine.kv_pages, 77);
    assert_string_equal(s.prompt_file, "-");
}

/* A policy's name sets its scorer and its trigger; what is said beside it counts, wherever. */
static void a_scorers_switches_count_wherever_they_stand(void **state)
{
    static const char *const lines[] = {
        "-m M -p x --kv zipage:512 --kv-trigger steps:64 --kv-scorer window=8,group=mean "
        "--kv-scorer history=none,window_keys=false",
        "-m M -p x --kv-scorer window=8,group=mean --kv-scorer history=none,window_keys=false "
        "--kv-trigger steps:64 --kv zipage:512",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(lines); i++) {
        struct gp_settings s;
        struct gp_error err = {""};

        if (settle(GP_COMMAND_RUN, lines[i], &s, &err))
            fail_msg("%s", err.message);
        const struct gp_kv_options *kv = &s.engine.kv;

        assert_int_equal(kv->policy, GP_POLICY_ZIPAGE);
        assert_int_equal(kv->trigger, GP_TRIGGER_STEPS);
        assert_int_equal(kv->trigger_steps, 64);
        assert_int_equal(kv->scorer.window, 8);
        assert_int_equal(kv->scorer.group, GP_GROUP_MEAN);
        assert_int_equal(kv->scorer.history, GP_HISTORY_NONE);
        assert_false(kv->scorer.window_keys);
        assert_int_equal(kv->scorer.pool_width, 5); /* zipage's own */
    }
}

/* Of several policies those that have a scorer take its switches. */
static void switches_go_to_the_policies_that_have_them(void **state)
{
    struct gp_settings s;
    struct gp_error err = {""};

    (void)state;
    if (settle(GP_COMMAND_EVAL,
               "-m M --kv-trigger steps:32 --kv full --kv rkv:512 --kv snapkv:256 --kv-local 9 "
               "--kv-scorer window=4",
               &s, &err))
        fail_msg("%s", err.message);
    assert_int_equal(s.policies.count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const struct gp_kv_options *kv = &s.policies.kv[i];

        assert_int_equal(kv->local, 9);
        assert_int_equal(kv->trigger, i ? GP_TRIGGER_STEPS : GP_TRIGGER_PAGE);
        assert_int_equal(kv->scorer.window, i ? 4 : 0);
    }
    assert_int_equal(s.policies.kv[1].budget_tokens, 512);
    assert_int_equal(s.policies.kv[2].policy, GP_POLICY_SNAPKV);
}

static void a_wrong_switch_is_named(void **state)
{
    static const struct {
        const char *options, *word;
    } cases[] = {
        {"--kv zipage:512 --kv-scorer windw=8", "--kv-scorer: windw: not one of source, window"},
        {"--kv zipage:512 --kv-scorer window", "--kv-scorer: window: must be NAME=VALUE"},
        {"--kv zipage:512 --kv-scorer window=-8", "--kv-scorer: window: '-8'"},
        {"--kv zipage:512 --kv-scorer group=most",
         "--kv-scorer: group: 'most' is not one of logits"},
        {"--kv zipage:512 --kv-scorer normalize=1", "--kv-scorer: normalize: '1'"},
        {"--kv zipage:512 --kv-scorer decay=2", "--kv-scorer: decay 2 is not in [0, 1]"},
        {"--kv zipage:512 --kv-trigger token", "--kv-trigger: zipage"},
        {"--kv zipage:512 --kv-trigger steps:", "--kv-trigger: 'steps:'"},
        {"--kv zipage:512 --kv-trigger steps:0", "--kv-trigger: steps:0"},
        {"--kv-trigger token", "--kv-trigger: growpage"},
        {"--kv full --kv-scorer window=8", "--kv-scorer: only zipage"},
        {"--kv growpage+snapkv --kv-scorer source=all,pool=none",
         "--kv-scorer: source: only a window"},
        {"--kv growpage+zipage --kv-trigger token", "--kv-trigger: growpage"},
        {"--kv full+zipage", "--kv: kv policy full+zipage: full drops nothing"},
        {"--page-size 16 --kv-protect 16", "--kv-protect: 16 is not below a page of 16"},
        {"--kv h2o:512 --kv-protect 512", "--kv h2o: a budget of 512"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct gp_settings s;
        struct gp_error err = {""};
        char line[256];

        snprintf(line, sizeof line, "-m M -p x %s", cases[i].options);
        if (settle(GP_COMMAND_RUN, line, &s, &err) != GP_EINVAL)
            fail_msg("accepted: %s", line);
        if (!strstr(err.message, cases[i].word))
            fail_msg("%s: %s", line, err.message);
    }
}

static void eval_has_defaults_of_its_own(void **state)
{
    struct gp_settings s;
    struct gp_error err = {""};

    (void)state;
    assert_int_equal(settle(GP_COMMAND_EVAL, "-m M", &s, &err), GP_OK);
    assert_true(s.sampling.temperature == 0.6f && s.sampling.top_p == 0.95f);
    assert_true(s.sampling.top_k == 0 && s.sampling.min_p == 0);
    assert_int_equal(s.seed, 1);
    assert_int_equal(s.max_tokens, 4096);
    assert_string_equal(s.suites, "all");
    assert_int_equal(s.limit, 0);
    assert_int_equal(s.samples, 0);
    assert_true(s.difficulty.low < 0);
    assert_int_equal(s.engine.max_seqs, 64);
    assert_int_equal(s.concurrency, 64);
    assert_int_equal(s.policies.count, 1);
    assert_string_equal(s.policies.items[0], "growpage");
    assert_null(s.output);
}

static void eval_takes_several_policies_and_ranges(void **state)
{
    struct gp_settings s;
    struct gp_error err = {""};

    (void)state;
    assert_int_equal(
        settle(GP_COMMAND_EVAL,
               "-m M --kv full --kv fixed:512 --kv random:0.5 --kv random --kv-local 9 "
               "--difficulty 0.25:0.5 --form mixed --suites sum,mul -o out",
               &s, &err),
        GP_OK);
    assert_int_equal(s.policies.count, 4);
    assert_string_equal(s.policies.items[1], "fixed:512");
    assert_int_equal(s.engine.kv.local, 9);
    assert_true(s.difficulty.low == 0.25 && s.difficulty.high == 0.5);
    assert_int_equal(s.form, 2);
    assert_string_equal(s.suites, "sum,mul");
    assert_string_equal(s.output, "out");
    assert_int_equal(settle(GP_COMMAND_EVAL, "-m M --difficulty 1", &s, &err), GP_OK);
    assert_true(s.difficulty.low == 1 && s.difficulty.high == 1);
}

/* Whichever is given decides the other; given both, both count. */
static void concurrency_and_max_seqs_follow_each_other(void **state)
{
    static const struct {
        const char *line;
        uint32_t max_seqs, concurrency;
    } cases[] = {
        {"-m M --concurrency 5", 5, 5},       {"-m M -np 7", 7, 7},
        {"-m M -np 7 --concurrency 5", 7, 5}, {"-m M -np 5 --concurrency 700", 5, 700},
        {"-m M --concurrency 700", 512, 700},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct gp_settings s;
        struct gp_error err = {""};

        assert_int_equal(settle(GP_COMMAND_EVAL, cases[i].line, &s, &err), GP_OK);
        assert_int_equal(s.engine.max_seqs, cases[i].max_seqs);
        assert_int_equal(s.concurrency, cases[i].concurrency);
    }
}

/* Lists end in 0. */
static void lists_are_numbers_and_ranges(void **state)
{
    static const struct {
        const char *line;
        uint32_t items[12];
    } cases[] = {
        {"-l 7", {7}},
        {"-l 7,7,3", {7, 7, 3}},
        {"--list=2-5", {2, 3, 4, 5}},
        {"-l 5-5", {5}},
        {"-l 10-31+10", {10, 20, 30}},
        {"-l 1-64*2", {1, 2, 4, 8, 16, 32, 64}},
        {"-l 1-64*3,9", {1, 3, 9, 27, 9}},
        {"-l 1,2 -x -l 3-4", {1, 2, 3, 4}},
        {"-l 4294967295", {4294967295}},
    };
    static const char *const wrong[] = {
        "-l",       "-l ~",     "-l ,",     "-l 1,",   "-l ,1",    "-l 1,,2",        "-l 1~2",
        "-l x",     "-l 5-4",   "-l 5-",    "-l -5",   "-l 1-5+",  "-l 1-5+0",       "-l 1-5*",
        "-l 1-5*0", "-l 1-5*1", "-l 0",     "-l 0-5",  "-l 1-5+x", "-l 1.5",         "-l +1",
        "-l 0-5*2", "-l 1-65",  "-l 1-5-9", "-l 0x10", "-l 1-5/2", "-l 99999999999",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct target target = {0};
        struct gp_arguments rest;
        struct gp_error err = {""};

        if (parse(cases[i].line, &target, &rest, &err))
            fail_msg("%s: %s", cases[i].line, err.message);
        assert_memory_equal(target.list.items, cases[i].items, sizeof cases[i].items);
        for (uint32_t j = 0; j < COUNT(cases[i].items); j++)
            assert_true((j < target.list.count) == (cases[i].items[j] != 0));
    }
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct target target = {0};
        struct gp_arguments rest;
        struct gp_error err = {""};

        if (parse(wrong[i], &target, &rest, &err) != GP_EINVAL)
            fail_msg("took %s", wrong[i]);
        assert_int_equal(strncmp(err.message, "-l: ", 4), 0);
    }
}

static void bench_has_defaults_of_its_own(void **state)
{
    struct gp_settings s;
    struct gp_error err = {""};

    (void)state;
    assert_int_equal(settle(GP_COMMAND_BENCH, "-m M", &s, &err), GP_OK);
    assert_true(s.bench.prompts.count == 1 && s.bench.prompts.items[0] == 512);
    assert_true(s.bench.outputs.count == 1 && s.bench.outputs.items[0] == 128);
    assert_true(s.bench.depths.count == 1 && s.bench.depths.items[0] == 0);
    assert_true(s.bench.batches.count == 1 && s.bench.batches.items[0] == 1);
    assert_true(s.bench.threads.count == 1 && s.bench.threads.items[0] == 0);
    assert_int_equal(s.bench.repetitions, 5);
    assert_int_equal(s.seed, 1);
    assert_true(s.sampling.temperature == 0 && s.sampling.top_p == 0.95f);
    assert_true(s.policies.count == 1 && !strcmp(s.policies.items[0], "full"));
    assert_int_equal(settle(GP_COMMAND_BENCH, "-m M --serve -t 3", &s, &err), GP_OK);
    assert_int_equal(s.bench.requests, 64);
    assert_int_equal(s.engine.max_seqs, 64);
    assert_int_equal(s.engine.threads, 3);
    assert_true(s.bench.prompt_length.a == 512 && s.bench.output_length.a == 128);
    assert_true(s.bench.rate == 0);
}

/* As many run as there are, as may run, and as a step has rows for. */
static void bench_serves_as_many_as_it_can(void **state)
{
    static const struct {
        const char *line;
        uint32_t max_seqs;
    } cases[] = {
        {"-m M --serve --requests 9", 9},
        {"-m M --serve --requests 9000", 512},
        {"-m M --serve --requests 9000 -ub 100", 100},
        {"-m M --serve --requests 9 -np 20", 20},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct gp_settings s;
        struct gp_error err = {""};

        assert_int_equal(settle(GP_COMMAND_BENCH, cases[i].line, &s, &err), GP_OK);
        assert_int_equal(s.engine.max_seqs, cases[i].max_seqs);
    }
}

static void impossible_lines_are_refused(void **state)
{
    static const char *const lines[] = {
        "-m M -p x -f y",
        "-m M -p x -",
        "-m M -p x stray",
        "-m M -p x -n 0",
        "-m M -p x --kv-memory 1GiB --kv-pages 3",
        "-m M -p x --page-size 100",
        "-m M -p x --page-size 16 --kv-protect 16",
        "-m M -p x --page-size 16 --kv-local 17",
        "-m M -p x --kv-initial-pages 1",
        "-m M -p x --kv nonsense",
        "-m M -p x --kv fixed",
        "-m M -p x --kv fixed:-3",
        "-m M -p x --kv random:2",
        "-m M -p x --kv minference:1024",
        "-m M -p x --kv-type q4_0",
        "-m M -p x --kv-type f64",
        "-m M -p x --kv-compact sort",
        "-m M -p x --preempt oldest",
        "-m M -p x --kv-trigger often",
        "-m M -p x --kv-trace=",
        "-m M -p x --host localhost",
        "-m M -p x --gpu-memory-utilization 0.9",
        "-m M -p x --top-p 0",
        "-m M -p x --min-p 1",
        "-m M -p x --temp -1",
        "-m M -p x -t 0",
        "-m M -p x -c 1",
        "-m M -p x --chat-template T",
        "-m M -p x --pieces",
        "-m M -p x --seed 9007199254740992",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(lines); i++) {
        struct gp_settings s;
        struct gp_error err = {""};

        if (settle(GP_COMMAND_RUN, lines[i], &s, &err) != GP_EINVAL)
            fail_msg("accepted: %s", lines[i]);
        assert_true(strlen(err.message) > 8 && !strchr(err.message, '\n'));
    }
}

/* Every option that a command takes is explained by its --help, folded to a terminal's width. */
static void help_names_every_option(void **state)
{
    static const char *const expected[] = {"--model",     "--prompt",  "--file",      "--chat",
                                           "--ctx-size",  "-ctk",      "--threads",   "--seed",
                                           "--kv-memory", "--kv-sync", "--max-seqs",  "--json",
                                           "--help",      "--version", "--block-size"};
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    (void)state;
    assert_non_null(out);
    gp_settings_help(GP_COMMAND_RUN, out);
    fclose(out);
    for (size_t i = 0; i < COUNT(expected); i++)
        assert_non_null(strstr(text, expected[i]));
    assert_null(strstr(text, "--no-bos"));
    for (const char *line = text; line;) {
        const char *end = strchr(line, '\n');

        assert_true((end ? (size_t)(end - line) : strlen(line)) <= 100);
        line = end ? end + 1 : NULL;
    }
    free(text);
}

static void help_asks_for_nothing_else(void **state)
{
    struct gp_settings s;
    struct gp_error err;

    (void)state;
    assert_int_equal(settle(GP_COMMAND_RUN, "stray --help", &s, &err), GP_OK);
    assert_true(s.help);
    assert_int_equal(settle(GP_COMMAND_INSPECT, "--version", &s, &err), GP_OK);
    assert_true(s.version);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_stored),
        cmocka_unit_test(the_last_use_and_the_double_dash_win),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(sizes_are_exact),
        cmocka_unit_test(random_lines_never_break_it),
        cmocka_unit_test(both_families_spellings_mean_the_same),
        cmocka_unit_test(an_unsaid_sampling_option_is_what_llama_cli_takes),
        cmocka_unit_test(every_switch_of_the_method_is_set),
        cmocka_unit_test(a_scorers_switches_count_wherever_they_stand),
        cmocka_unit_test(switches_go_to_the_policies_that_have_them),
        cmocka_unit_test(a_wrong_switch_is_named),
        cmocka_unit_test(eval_has_defaults_of_its_own),
        cmocka_unit_test(eval_takes_several_policies_and_ranges),
        cmocka_unit_test(concurrency_and_max_seqs_follow_each_other),
        cmocka_unit_test(lists_are_numbers_and_ranges),
        cmocka_unit_test(bench_has_defaults_of_its_own),
        cmocka_unit_test(bench_serves_as_many_as_it_can),
        cmocka_unit_test(impossible_lines_are_refused),
        cmocka_unit_test(help_names_every_option),
        cmocka_unit_test(help_asks_for_nothing_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
