/* Workloads: what is drawn comes from the distribution that was named, and from nothing but the
 * seed and the index. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "eval/workload.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define DRAWS    20000u

/* Five standard deviations of a mean. */
#define FAR 5

static uint64_t seed(void)
{
    const char *text = getenv("GP_SEED");

    return text ? strtoull(text, NULL, 10) : 1;
}

static struct gp_length length_of(const char *text)
{
    struct gp_length length;
    struct gp_error err;

    if (gp_length_parse(text, &length, &err))
        fail_msg("%s", err.message);
    return length;
}

static void lengths_are_read_and_written(void **state)
{
    static const char *const same[] = {"1",
                                       "512",
                                       "1048576",
                                       "uniform:1:1",
                                       "uniform:100:900",
                                       "lognormal:6:0.5",
                                       "lognormal:-1:0",
                                       "lognormal:6.25:0.125:4000"};
    char text[GP_LENGTH_TEXT_BYTES];

    (void)state;
    for (size_t i = 0; i < COUNT(same); i++) {
        struct gp_length length = length_of(same[i]);
        gp_length_format(&length, text);
        assert_string_equal(text, same[i]);
    }
}

static void what_is_no_length_is_refused_by_name(void **state)
{
    static const char *const wrong[] = {
        "",
        "0",
        "-5",
        "1.5",
        "1048577",
        "x",
        "512 ",
        " 512",
        "0x10",
        "inf",
        "nan",
        "1e99",
        "512:",
        "512:600",
        "uniform",
        "uniform:",
        "uniform:5",
        "uniform:5:",
        "uniform:9:5",
        "uniform:0:5",
        "uniform::5",
        "uniform:1:2:3",
        "uniform:1:2:",
        "normal:5:1",
        "lognormal:5",
        "lognormal",
        "lognormal:5:",
        "lognormal::1",
        "lognormal:5:-1",
        "lognormal:5:1:0",
        "lognormal:5:1:",
        "lognormal:nan:1",
        "lognormal:5:1:10:20",
        "uniform:1:2000000",
    };
    struct gp_length length;
    struct gp_error err;

    (void)state;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        if (gp_length_parse(wrong[i], &length, &err) != GP_EINVAL)
            fail_msg("took \"%s\"", wrong[i]);
        assert_int_equal(strncmp(err.message, wrong[i], strlen(wrong[i])), 0);
    }
}

static struct gp_workload workload_of(const char *prompt, const char *output)
{
    return (struct gp_workload){
        .seed = seed(),
        .request_count = DRAWS,
        .prompt = length_of(prompt),
        .output = length_of(output),
    };
}

struct moments {
    double mean, variance, min, max;
};

/* Of f over the prompts' lengths. */
static struct moments moments_of(const struct gp_workload *workload, double (*f)(double))
{
    struct moments m = {.min = INFINITY, .max = -INFINITY};
    double sum = 0, squares = 0;

    for (uint32_t i = 0; i < DRAWS; i++) {
        double value = f(gp_workload_at(workload, i).prompt_tokens);
        sum += value;
        squares += value * value;
        m.min = fmin(m.min, value);
        m.max = fmax(m.max, value);
    }
    m.mean = sum / DRAWS;
    m.variance = squares / DRAWS - m.mean * m.mean;
    return m;
}

static double identity(double value)
{
    return value;
}

static void assert_within(const char *what, double got, double want, double bound)
{
    if (!(fabs(got - want) <= bound))
        fail_msg("GP_SEED=%llu: %s is %g, want %g within %g", (unsigned long long)seed(), what, got,
                 want, bound);
}

static void fixed_lengths_are_fixed(void **state)
{
    struct gp_workload workload = workload_of("300", "7");

    (void)state;
    for (uint32_t i = 0; i < DRAWS; i++) {
        struct gp_work work = gp_workload_at(&workload, i);
        assert_int_equal(work.prompt_tokens, 300);
        assert_int_equal(work.output_tokens, 7);
    }
}

static void uniform_lengths_have_its_moments_and_both_ends(void **state)
{
    struct gp_workload workload = workload_of("uniform:100:139", "1");
    struct moments m = moments_of(&workload, identity);
    /* 40 values: mean 119.5, variance (40^2 - 1) / 12; the fourth moment bounds the variance's. */
    double variance = 1599.0 / 12;

    (void)state;
    assert_true(m.min == 100 && m.max == 139);
    assert_within("mean", m.mean, 119.5, FAR * sqrt(variance / DRAWS));
    assert_within("variance", m.variance, variance, FAR * variance * sqrt(0.8 / DRAWS));
}

/* Large enough that rounding to a token is nothing. */
static void lognormal_lengths_are_normal_in_their_logarithm(void **state)
{
    struct gp_workload workload = workload_of("lognormal:9:0.4", "1");
    struct moments m = moments_of(&workload, log);

    (void)state;
    assert_within("mean", m.mean, 9, FAR * 0.4 / sqrt(DRAWS));
    assert_within("variance", m.variance, 0.16, FAR * 0.16 * sqrt(2.0 / DRAWS));
}

static void lognormal_lengths_are_cut_and_never_nothing(void **state)
{
    struct gp_workload workload = workload_of("lognormal:4:1:100", "lognormal:-3:1");
    struct moments m = moments_of(&workload, identity);
    uint32_t most = 0;

    (void)state;
    for (uint32_t i = 0; i < DRAWS; i++) {
        uint32_t tokens = gp_workload_at(&workload, i).output_tokens;
        assert_true(tokens >= 1);
        most += gp_workload_at(&workload, i).prompt_tokens == 100;
    }
    assert_true(m.min >= 1 && m.max == 100);
    /* Above 99.5 lies what is above (log 99.5 - 4) deviations of a normal: 0.2743. */
    assert_within("share that is cut", (double)most / DRAWS, 0.2743,
                  FAR * sqrt(0.2743 * 0.7257 / DRAWS));
}

static void waits_are_those_of_a_poisson_process(void **state)
{
    struct gp_workload workload = workload_of("1", "1");
    double sum = 0, squares = 0;
    uint32_t long_ones = 0;

    (void)state;
    assert_true(gp_workload_wait_seconds(&workload, 3) == 0);
    workload.rate = 4;
    for (uint32_t i = 0; i < DRAWS; i++) {
        double wait = gp_workload_wait_seconds(&workload, i);
        assert_true(wait >= 0 && isfinite(wait));
        sum += wait;
        squares += wait * wait;
        long_ones += wait > 0.25;
    }
    double mean = sum / DRAWS;
    assert_within("mean", mean, 0.25, FAR * 0.25 / sqrt(DRAWS));
    /* The variance of an exponential's variance is 8 of its mean's fourth power. */
    assert_within("variance", squares / DRAWS - mean * mean, 0.0625,
                  FAR * 0.0625 * sqrt(8.0 / DRAWS));
    assert_within("share above the mean", (double)long_ones / DRAWS, exp(-1),
                  FAR * sqrt(exp(-1) * (1 - exp(-1)) / DRAWS));
}

static void what_is_drawn_depends_on_seed_and_index_alone(void **state)
{
    struct gp_workload a = workload_of("uniform:1:1000000", "uniform:1:1000000"), b = a;
    uint32_t same = 0, equal = 0;

    (void)state;
    a.rate = b.rate = 1;
    b.request_count = 10;
    for (uint32_t i = 10; i-- > 0;) {
        struct gp_work first = gp_workload_at(&a, i), again = gp_workload_at(&b, i);
        assert_int_equal(first.prompt_tokens, again.prompt_tokens);
        assert_int_equal(first.output_tokens, again.output_tokens);
        assert_true(gp_workload_wait_seconds(&a, i) == gp_workload_wait_seconds(&b, i));
    }
    b.seed++;
    for (uint32_t i = 0; i < 1000; i++) {
        struct gp_work first = gp_workload_at(&a, i), other = gp_workload_at(&b, i);
        same += first.prompt_tokens == other.prompt_tokens;
        equal += first.prompt_tokens == first.output_tokens;
    }
    assert_true(same <= 3 && equal <= 3);
}

static void tokens_are_of_the_vocabulary_and_each_sequence_has_its_own(void **state)
{
    enum {
        VOCAB = 50,
        LENGTH = 5000
    };
    static int32_t a[LENGTH], b[LENGTH];
    uint32_t counts[VOCAB] = {0}, same = 0;

    (void)state;
    gp_workload_tokens(seed(), 7, VOCAB, a, LENGTH);
    for (uint32_t i = 0; i < LENGTH; i++) {
        assert_in_range(a[i], 0, VOCAB - 1);
        counts[a[i]]++;
    }
    /* 100 of each on average. */
    for (uint32_t i = 0; i < VOCAB; i++)
        assert_within("how often a token comes", counts[i], 100, 6 * sqrt(98));
    /* A shorter prompt is the beginning of the longer one. */
    gp_workload_tokens(seed(), 7, VOCAB, b, 33);
    assert_memory_equal(a, b, 33 * sizeof *a);
    static const uint64_t others[] = {8, 7 + ((uint64_t)1 << 32), UINT64_MAX};
    for (size_t i = 0; i < COUNT(others); i++) {
        gp_workload_tokens(seed(), others[i], VOCAB, b, LENGTH);
        same = 0;
        for (uint32_t j = 0; j < LENGTH; j++)
            same += a[j] == b[j];
        assert_within("tokens in common", same, 100, 6 * sqrt(98));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_are_read_and_written),
        cmocka_unit_test(what_is_no_length_is_refused_by_name),
        cmocka_unit_test(fixed_lengths_are_fixed),
        cmocka_unit_test(uniform_lengths_have_its_moments_and_both_ends),
        cmocka_unit_test(lognormal_lengths_are_normal_in_their_logarithm),
        cmocka_unit_test(lognormal_lengths_are_cut_and_never_nothing),
        cmocka_unit_test(waits_are_those_of_a_poisson_process),
        cmocka_unit_test(what_is_drawn_depends_on_seed_and_index_alone),
        cmocka_unit_test(tokens_are_of_the_vocabulary_and_each_sequence_has_its_own),
    };

    return cmocka_run_group_tests_name("eval/workload", tests, NULL, NULL);
}
