/* The sampler against a naive one: everything sorted, every filter in its turn. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "model/sampler.h"

#define VOCAB_MAX 1000u

static uint64_t seed;

static struct gp_sampling plain(void)
{
    return (struct gp_sampling){.temperature = 1.0f, .top_p = 1.0f, .repeat_penalty = 1.0f};
}

/* ---- the naive sampler ---- */

struct ranked {
    float logit;
    uint32_t id;
    double p;
};

static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->logit != y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void naive_adjust(float *logits, uint32_t vocab, const struct gp_draw *draw)
{
    const struct gp_sampling *s = draw->sampling;
    uint32_t from = s->penalty_last_n && s->penalty_last_n < draw->token_count
                        ? draw->token_count - s->penalty_last_n
                        : 0;

    for (uint32_t id = 0; id < vocab; id++) {
        uint32_t all = 0, out = 0;

        for (uint32_t i = from; i < draw->token_count; i++)
            if (draw->tokens[i] == (int32_t)id) {
                all++;
                out += i >= draw->prompt_count;
            }
        if (all > 0)
            logits[id] =
                logits[id] > 0.0f ? logits[id] / s->repeat_penalty : logits[id] * s->repeat_penalty;
        if (out > 0)
            logits[id] -= (float)out * s->frequency_penalty + s->presence_penalty;
        for (uint32_t i = 0; i < s->bias_count; i++)
            if (s->bias[i].id == (int32_t)id)
                logits[id] += s->bias[i].bias;
        if (isnan(logits[id]) || (draw->mask && !(draw->mask[id / 64] >> id % 64 & 1)))
            logits[id] = -INFINITY;
    }
}

/* The kept tokens in `list`, best first, their probabilities summing to 1; returns how many. */
static uint32_t naive_filter(struct ranked *list, const float *logits, uint32_t vocab,
                             const struct gp_sampling *s)
{
    uint32_t n = 0;
    double total = 0.0, sum = 0.0;

    for (uint32_t id = 0; id < vocab; id++)
        if (logits[id] > -INFINITY)
            list[n++] = (struct ranked){logits[id], id, 0.0};
    qsort(list, n, sizeof *list, compare_ranked);
    for (uint32_t i = 0; i < n; i++) {
        list[i].p = exp(((double)list[i].logit - list[0].logit) / s->temperature);
        if (s->min_p > 0.0f && list[i].p < s->min_p)
            n = i;
    }
    if (s->top_k > 0 && s->top_k < n)
        n = s->top_k;
    for (uint32_t i = 0; i < n; i++)
        total += list[i].p;
    if (s->top_p < 1.0f)
        for (uint32_t i = 0; i < n; i++) {
            sum += list[i].p;
            if (sum >= s->top_p * total)
                n = i + 1;
        }
    total = 0.0;
    for (uint32_t i = 0; i < n; i++)
        total += list[i].p;
    for (uint32_t i = 0; i < n; i++)
        list[i].p /= total;
    return n;
}

static int compare_ids(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    return x->id < y->id ? -1 : x->id > y->id;
}

/* Where the line of kept tokens, laid out by id, is cut by `uniform`.  *near says that the point
 * lies so close to an edge that rounding decides. */
static int32_t naive_pick(struct ranked *list, uint32_t n, double uniform, bool *near)
{
    double at = 0.0;

    *near = false;
    qsort(list, n, sizeof *list, compare_ids);
    for (uint32_t i = 0; i < n; i++) {
        at += list[i].p;
        *near |= fabs(at - uniform) < 1e-6;
        if (uniform < at)
            return (int32_t)list[i].id;
    }
    return (int32_t)list[n - 1].id;
}

/* ---- random cases ---- */

struct test_case {
    uint32_t vocab;
    float logits[VOCAB_MAX];
    int32_t tokens[64];
    uint64_t mask[VOCAB_MAX / 64 + 1];
    struct gp_logit_bias bias[8];
    struct gp_sampling sampling;
    struct gp_draw draw;
};

static void make_logits(struct test_case *c, struct gp_rng *rng)
{
    static const uint32_t vocabs[] = {1, 2, 7, 64, 65, VOCAB_MAX};
    bool ties = gp_rng_below(rng, 4) == 0;
    double spread = gp_rng_below(rng, 3) == 0 ? 0.1 : 4.0;

    c->vocab = vocabs[gp_rng_below(rng, 6)];
    for (uint32_t i = 0; i < c->vocab; i++) {
        double v = gp_rng_normal(rng) * spread;

        c->logits[i] = (float)(ties ? round(v) : v);
        if (gp_rng_below(rng, 50) == 0)
            c->logits[i] = gp_rng_below(rng, 2) ? -INFINITY : NAN;
    }
    c->logits[gp_rng_below(rng, c->vocab)] = 1.0f;
}

static void make_options(struct test_case *c, struct gp_rng *rng)
{
    struct gp_sampling *s = &c->sampling;

    *s = plain();
    s->temperature = (float)(0.2 + 2.0 * gp_rng_uniform(rng));
    if (gp_rng_below(rng, 2))
        s->top_k = 1 + gp_rng_below(rng, 60);
    if (gp_rng_below(rng, 2))
        s->top_p = (float)(0.05 + 0.94 * gp_rng_uniform(rng));
    if (gp_rng_below(rng, 2))
        s->min_p = (float)(0.5 * gp_rng_uniform(rng));
    if (gp_rng_below(rng, 2)) {
        s->repeat_penalty = (float)(0.5 + gp_rng_uniform(rng));
        s->presence_penalty = (float)(gp_rng_uniform(rng) - 0.5);
        s->frequency_penalty = (float)(gp_rng_uniform(rng) - 0.5);
        s->penalty_last_n = gp_rng_below(rng, 80);
    }
    s->bias = c->bias;
    s->bias_count = gp_rng_below(rng, 9);
    if (s->bias_count > c->vocab)
        s->bias_count = c->vocab;
    for (uint32_t i = 0; i < s->bias_count; i++) /* distinct ids */
        c->bias[i] = (struct gp_logit_bias){(int32_t)((i + (uint32_t)c->vocab / 2) % c->vocab),
                                            (float)gp_rng_normal(rng)};
}

static void make_case(struct test_case *c, struct gp_rng *rng)
{
    make_logits(c, rng);
    make_options(c, rng);
    c->draw = (struct gp_draw){
        .sampling = &c->sampling,
        .seed = gp_rng_next(rng),
        .choice = gp_rng_below(rng, 4),
        .position = gp_rng_below(rng, 10000),
        .tokens = c->tokens,
        .token_count = gp_rng_below(rng, 65),
        .mask = gp_rng_below(rng, 3) == 0 ? c->mask : NULL,
    };
    c->draw.prompt_count = gp_rng_below(rng, c->draw.token_count + 1);
    for (uint32_t i = 0; i < c->draw.token_count; i++)
        c->tokens[i] = (int32_t)gp_rng_below(rng, c->vocab < 20 ? c->vocab : 20);
    for (size_t i = 0; i < sizeof c->mask / sizeof *c->mask; i++)
        c->mask[i] = gp_rng_next(rng) | gp_rng_next(rng);
}

static int32_t draw_once(const float *logits, uint32_t vocab, const struct gp_draw *draw)
{
    struct gp_sampler *s = NULL;

    assert_int_equal(gp_sampler_open(&s, vocab, NULL), GP_OK);
    int32_t id = gp_sampler_draw(s, logits, draw);

    gp_sampler_close(s);
    return id;
}

/* ---- properties ---- */

static void every_filter_agrees_with_a_full_sort(void **state)
{
    static struct test_case c;
    static struct ranked list[VOCAB_MAX];
    static float adjusted[VOCAB_MAX];
    struct gp_rng rng = {seed};
    uint32_t compared = 0;

    (void)state;
    for (uint32_t round = 0; round < 4000; round++) {
        make_case(&c, &rng);
        int32_t got = draw_once(c.logits, c.vocab, &c.draw);
        bool near = false;

        memcpy(adjusted, c.logits, c.vocab * sizeof *adjusted);
        naive_adjust(adjusted, c.vocab, &c.draw);
        uint32_t n = naive_filter(list, adjusted, c.vocab, &c.sampling);

        if (n == 0) {
            assert_int_equal(got, -1);
            continue;
        }
        double uniform = gp_rng_uniform_at(c.draw.seed, c.draw.choice, c.draw.position);
        int32_t want = naive_pick(list, n, uniform, &near);

        if (near)
            continue;
        compared++;
        if (got != want)
            fail_msg("GP_SEED=%llu round %u: drew %d, expected %d of %u kept",
                     (unsigned long long)seed, round, got, want, n);
    }
    assert_true(compared > 3500);
}

/* Pearson's statistic over all tokens that expect at least 5 draws; the others are one bin. */
static void draws_follow_the_softmax(void **state)
{
    enum {
        VOCAB = 40,
        DRAWS = 40000
    };
    float logits[VOCAB];
    double p[VOCAB], total = 0.0, chi = 0.0, rest_p = 0.0;
    uint32_t count[VOCAB] = {0}, rest = 0, bins = 0;
    struct gp_rng rng = {seed + 1};
    struct gp_sampling s = plain();
    struct gp_sampler *sampler = NULL;

    (void)state;
    s.temperature = 0.8f;
    assert_int_equal(gp_sampler_open(&sampler, VOCAB, NULL), GP_OK);
    for (uint32_t i = 0; i < VOCAB; i++) {
        logits[i] = (float)(2.0 * gp_rng_normal(&rng));
        total += p[i] = exp(logits[i] / (double)s.temperature);
    }
    for (uint32_t i = 0; i < DRAWS; i++) {
        struct gp_draw draw = {.sampling = &s, .seed = seed, .choice = i % 4, .position = i / 4};

        count[gp_sampler_draw(sampler, logits, &draw)]++;
    }
    gp_sampler_close(sampler);
    for (uint32_t i = 0; i < VOCAB; i++) {
        double expected = p[i] / total * DRAWS;

        if (expected < 5.0) {
            rest_p += expected;
            rest += count[i];
            continue;
        }
        chi += (count[i] - expected) * (count[i] - expected) / expected;
        bins++;
    }
    if (rest_p >= 5.0)
        chi += (rest - rest_p) * (rest - rest_p) / rest_p;
    /* Mean bins, variance 2 bins: six standard deviations. */
    if (chi > bins + 6.0 * sqrt(2.0 * bins))
        fail_msg("GP_SEED=%llu: chi square %.1f over %u bins", (unsigned long long)seed, chi, bins);
}

static void a_draw_depends_on_seed_choice_and_position_alone(void **state)
{
    static struct test_case c[32];
    int32_t first[32];
    struct gp_rng rng = {seed + 2};
    struct gp_sampler *s = NULL;
    uint32_t changed[3] = {0};

    (void)state;
    assert_int_equal(gp_sampler_open(&s, VOCAB_MAX, NULL), GP_OK);
    for (uint32_t i = 0; i < 32; i++) {
        do
            make_case(&c[i], &rng);
        while (c[i].vocab != VOCAB_MAX);
        first[i] = gp_sampler_draw(s, c[i].logits, &c[i].draw);
    }
    for (uint32_t i = 32; i-- > 0;) {
        struct gp_draw other[3] = {c[i].draw, c[i].draw, c[i].draw};

        assert_int_equal(gp_sampler_draw(s, c[i].logits, &c[i].draw), first[i]);
        other[0].seed++;
        other[1].choice++;
        other[2].position++;
        for (uint32_t j = 0; j < 3; j++)
            changed[j] += gp_sampler_draw(s, c[i].logits, &other[j]) != first[i];
    }
    gp_sampler_close(s);
    for (uint32_t j = 0; j < 3; j++)
        assert_true(changed[j] >= 4);
}

static void greedy_takes_the_lowest_of_equal_ids(void **state)
{
    float logits[] = {-1.0f, 3.0f, -0.0f, 3.0f, NAN, 3.0f};
    float zeros[] = {-0.0f, 0.0f, -0.0f};
    struct gp_sampling s = plain();
    struct gp_draw draw = {.sampling = &s};

    (void)state;
    s.temperature = 0.0f;
    assert_int_equal(draw_once(logits, 6, &draw), 1);
    s.temperature = 1e-30f;
    assert_int_equal(draw_once(logits, 6, &draw), 1);
    assert_int_equal(draw_once(zeros, 3, &draw), 0);
    /* With one token kept, sampling is greedy too, whatever is drawn. */
    s.temperature = 1.0f;
    s.top_k = 1;
    for (draw.position = 0; draw.position < 100; draw.position++) {
        assert_int_equal(draw_once(logits, 6, &draw), 1);
        assert_int_equal(draw_once(zeros, 3, &draw), 0);
    }
}

static void extreme_options_give_a_token_and_never_nan(void **state)
{
    float logits[] = {FLT_MAX, -FLT_MAX, INFINITY, 1.0f, -INFINITY, NAN, FLT_MAX};
    static const float temperatures[] = {0.0f, 1e-30f, 1.1e-5f, 1.0f, 999999.0f, FLT_MAX};
    static const float penalties[] = {FLT_MIN, 1.0f, FLT_MAX};
    int32_t tokens[] = {0, 1, 2, 3, 4, 5, 6, 6};

    (void)state;
    for (uint32_t i = 0; i < 6 * 3 * 3 * 3; i++) {
        struct gp_sampling s = plain();
        struct gp_draw draw = {
            .sampling = &s, .seed = i, .tokens = tokens, .token_count = 8, .prompt_count = 2};

        s.temperature = temperatures[i % 6];
        s.repeat_penalty = penalties[i / 6 % 3];
        s.frequency_penalty = i / 18 % 3 == 2 ? -FLT_MAX : penalties[i / 18 % 3];
        s.min_p = i / 54 == 1 ? 0.99f : 0.0f;
        s.top_p = i / 54 == 2 ? 1e-30f : 1.0f;
        assert_int_equal(gp_sampling_check(&s, 7, NULL), GP_OK);
        int32_t id = draw_once(logits, 7, &draw);

        assert_true(id >= 0 && id < 7 && id != 4 && id != 5);
    }
}

static void nothing_comes_when_all_is_banned(void **state)
{
    float logits[130], banned[130];
    uint64_t mask[3] = {0};
    struct gp_sampling s = plain();
    struct gp_draw draw = {.sampling = &s, .mask = mask};

    (void)state;
    for (uint32_t i = 0; i < 130; i++) {
        logits[i] = (float)i;
        banned[i] = i % 2 ? NAN : -INFINITY;
    }
    for (uint32_t greedy = 0; greedy < 2; greedy++) {
        s.temperature = greedy ? 0.0f : 1.0f;
        draw.mask = mask;
        assert_int_equal(draw_once(logits, 130, &draw), -1);
        mask[2] = 2; /* the last token alone */
        assert_int_equal(draw_once(logits, 130, &draw), 129);
        mask[2] = 0;
        draw.mask = NULL;
        assert_int_equal(draw_once(banned, 130, &draw), -1);
    }
}

/* A bias of -100 on every id bans nothing: what counts is the distance. */
static void an_equal_bias_on_all_changes_nothing(void **state)
{
    enum {
        VOCAB = 16
    };
    float logits[VOCAB];
    struct gp_logit_bias bias[VOCAB];
    struct gp_sampling s = plain(), biased;
    struct gp_rng rng = {seed + 3};

    (void)state;
    for (int32_t i = 0; i < VOCAB; i++) {
        logits[i] = (float)gp_rng_below(&rng, 8) * 0.25f; /* so that adding -100 is exact */
        bias[i] = (struct gp_logit_bias){i, -100.0f};
    }
    biased = s;
    biased.bias = bias;
    biased.bias_count = VOCAB;
    for (uint32_t position = 0; position < 200; position++) {
        struct gp_draw a = {.sampling = &s, .seed = seed, .position = position};
        struct gp_draw b = {.sampling = &biased, .seed = seed, .position = position};

        assert_int_equal(draw_once(logits, VOCAB, &a), draw_once(logits, VOCAB, &b));
    }
}

static void options_out_of_range_are_named(void **state)
{
    struct gp_logit_bias outside = {7, 1.0f}, infinite = {0, INFINITY};
    struct gp_error err;
    static const struct {
        const char *name;
        size_t offset;
        float bad[4];
        uint32_t count;
    } fields[] = {
        {"temperature", offsetof(struct gp_sampling, temperature), {-1, NAN, INFINITY}, 3},
        {"top_p", offsetof(struct gp_sampling, top_p), {-1, 0, 1.5f, NAN}, 4},
        {"min_p", offsetof(struct gp_sampling, min_p), {-0.1f, 1, 2, NAN}, 4},
        {"repeat_penalty", offsetof(struct gp_sampling, repeat_penalty), {0, -1, NAN, INFINITY}, 4},
        {"presence_penalty", offsetof(struct gp_sampling, presence_penalty), {NAN, INFINITY}, 2},
        {"frequency_penalty", offsetof(struct gp_sampling, frequency_penalty), {NAN, INFINITY}, 2},
    };

    (void)state;
    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
        for (uint32_t i = 0; i < fields[f].count; i++) {
            struct gp_sampling s = plain();

            memcpy((char *)&s + fields[f].offset, &fields[f].bad[i], sizeof(float));
            assert_int_equal(gp_sampling_check(&s, 7, &err), GP_EINVAL);
            assert_memory_equal(err.message, fields[f].name, strlen(fields[f].name));
        }
    struct gp_sampling s = plain();

    assert_int_equal(gp_sampling_check(&s, 7, &err), GP_OK);
    s.bias_count = 1;
    assert_int_equal(gp_sampling_check(&s, 7, &err), GP_EINVAL);
    s.bias = &outside;
    assert_int_equal(gp_sampling_check(&s, 7, &err), GP_EINVAL);
    assert_memory_equal(err.message, "logit_bias", 10);
    assert_int_equal(gp_sampling_check(&s, 8, &err), GP_OK);
    s.bias = &infinite;
    assert_int_equal(gp_sampling_check(&s, 7, &err), GP_EINVAL);
}

static void logprobs_agree_with_a_sorted_softmax(void **state)
{
    static float logits[VOCAB_MAX];
    static struct ranked list[VOCAB_MAX];
    struct gp_rng rng = {seed + 4};

    (void)state;
    for (uint32_t round = 0; round < 100; round++) {
        uint32_t vocab = 1 + gp_rng_below(&rng, VOCAB_MAX), n = 0;
        uint32_t count = 1 + gp_rng_below(&rng, vocab < 20 ? vocab : 20);
        int32_t ids[20];
        float logprobs[20];
        double total = 0.0;

        for (uint32_t i = 0; i < vocab; i++) {
            logits[i] = (float)(round % 2 ? gp_rng_normal(&rng) * 5.0 : gp_rng_below(&rng, 6));
            if (gp_rng_below(&rng, 30) == 0)
                logits[i] = gp_rng_below(&rng, 2) ? NAN : -INFINITY;
        }
        logits[vocab - 1] = 0.5f;
        for (uint32_t i = 0; i < vocab; i++) {
            list[n++] = (struct ranked){isnan(logits[i]) ? -INFINITY : logits[i], i, 0.0};
            total += exp(list[i].logit);
        }
        qsort(list, n, sizeof *list, compare_ranked);
        gp_log_softmax_top(logits, vocab, count, ids, logprobs);
        for (uint32_t i = 0; i < count; i++) {
            double want = list[i].logit - log(total);

            assert_int_equal(ids[i], list[i].id);
            assert_true(logprobs[i] == gp_log_softmax_at(logits, vocab, ids[i]));
            assert_true(want == logprobs[i] || fabs(logprobs[i] - want) < 2e-6);
        }
    }
}

static void logprobs_of_extremes_are_numbers_or_minus_infinity(void **state)
{
    float large[] = {FLT_MAX, -FLT_MAX, 0.0f}, none[] = {-INFINITY, NAN};
    float one = 3.0f;

    (void)state;
    assert_true(gp_log_softmax_at(large, 3, 0) == 0.0f);
    assert_true(gp_log_softmax_at(large, 3, 2) < -1e38f);
    assert_true(gp_log_softmax_at(none, 2, 0) == -INFINITY);
    assert_true(gp_log_softmax_at(none, 2, 1) == -INFINITY);
    assert_true(gp_log_softmax_at(&one, 1, 0) == 0.0f);
}

static void a_refused_allocation_leaks_nothing(void **state)
{
    uint64_t live = gp_mem_live();
    struct gp_sampler *s = NULL;
    struct gp_error err;
    uint32_t n;

    (void)state;
    for (n = 1;; n++) {
        gp_mem_refuse_at(n);
        int rc = gp_sampler_open(&s, 100, &err);

        gp_mem_refuse_at(0);
        if (rc == GP_OK)
            break;
        assert_int_equal(rc, GP_ENOMEM);
        assert_true(gp_mem_live() == live);
        assert_null(s);
    }
    assert_true(n > 4);
    gp_sampler_close(s);
    assert_true(gp_mem_live() == live);
}

static void a_draw_allocates_nothing(void **state)
{
    static struct test_case c;
    struct gp_rng rng = {seed + 5};
    struct gp_sampler *s = NULL;

    (void)state;
    assert_int_equal(gp_sampler_open(&s, VOCAB_MAX, NULL), GP_OK);
    gp_mem_freeze();
    for (uint32_t i = 0; i < 100; i++) {
        do
            make_case(&c, &rng);
        while (c.vocab != VOCAB_MAX);
        gp_sampler_draw(s, c.logits, &c.draw);
    }
    gp_mem_thaw();
    gp_sampler_close(s);
}

int main(void)
{
    const char *text = getenv("GP_SEED");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_filter_agrees_with_a_full_sort),
        cmocka_unit_test(draws_follow_the_softmax),
        cmocka_unit_test(a_draw_depends_on_seed_choice_and_position_alone),
        cmocka_unit_test(greedy_takes_the_lowest_of_equal_ids),
        cmocka_unit_test(extreme_options_give_a_token_and_never_nan),
        cmocka_unit_test(nothing_comes_when_all_is_banned),
        cmocka_unit_test(an_equal_bias_on_all_changes_nothing),
        cmocka_unit_test(options_out_of_range_are_named),
        cmocka_unit_test(logprobs_agree_with_a_sorted_softmax),
        cmocka_unit_test(logprobs_of_extremes_are_numbers_or_minus_infinity),
        cmocka_unit_test(a_refused_allocation_leaks_nothing),
        cmocka_unit_test(a_draw_allocates_nothing),
    };

    seed = text ? strtoull(text, NULL, 10) : 20260901;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
