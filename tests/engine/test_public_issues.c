/* What went wrong in other engines and concerns this room, through the C API: each test is named by
 * its number in docs/PUBLIC_ISSUES.md and by what must hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "engine/engine_rig.h"

#define PAGE      16u
#define GREEDY_IN 64u /* most requests of a crowd */

/* ---- a crowd: many greedy requests at once, each compared with itself alone ---- */

struct crowd {
    struct gp_engine_options options;
    struct gp_engine *engine;
    struct gp_request requests[GREEDY_IN];
    int32_t prompts[GREEDY_IN][RIG_PROMPT_MAX];
    uint64_t ids[GREEDY_IN];
    uint32_t count;
};

static struct crowd crowd;

static void open_crowd(const char *policy, uint32_t pages)
{
    memset(&crowd, 0, sizeof crowd);
    engine_rig_options(&crowd.options);
    engine_rig_set_policy(&crowd.options, policy);
    crowd.options.kv.fallback = GP_FALLBACK_PREEMPT;
    crowd.options.kv_pages = pages;
}

static uint64_t submit(struct gp_engine *engine, const struct gp_request *request)
{
    struct gp_error err = {""};
    uint64_t id = 0;

    if (gp_engine_submit(engine, request, &id, &err))
        fail_msg("%s", err.message);
    return id;
}

/* The first `shared` ids are everybody's, the others follow from `number`. */
static struct gp_request *join(uint32_t number, uint32_t shared, uint32_t count, uint32_t output)
{
    uint32_t at = crowd.count++;
    struct gp_request *r = &crowd.requests[at];

    assert_true(at < GREEDY_IN);
    engine_rig_prompt(crowd.prompts[at], count, 1000 + number);
    memcpy(crowd.prompts[at], engine_rig_ids, shared * sizeof(int32_t));
    engine_rig_ask(r, count, output);
    r->tokens = crowd.prompts[at];
    r->logprobs = 0;
    r->sampling.temperature = 0;
    return r;
}

static void submit_crowd(void)
{
    if (!crowd.engine)
        crowd.engine = engine_rig_engine(&crowd.options);
    for (uint32_t i = 0; i < crowd.count; i++)
        crowd.ids[i] = submit(crowd.engine, &crowd.requests[i]);
}

static void assert_idle(struct gp_engine *engine)
{
    struct gp_engine_stats stats;

    gp_engine_stats(engine, &stats);
    assert_int_equal(stats.running, 0);
    assert_int_equal(stats.waiting, 0);
    assert_int_equal(stats.pages_used, 0);
    assert_int_equal(stats.pages_free, crowd.options.kv_pages);
}

/* What a request gives in an engine of its own that shares nothing. */
static void run_alone(const struct gp_request *request, struct rig_output *out)
{
    struct gp_engine_options options = crowd.options;

    options.no_prefix_cache = true;
    engine_rig_alone(&engine_rig, &options, request, out);
}

static void assert_each_as_alone(void)
{
    for (uint32_t i = 0; i < crowd.count; i++) {
        struct rig_output among, alone;

        engine_rig_read(crowd.engine, crowd.ids[i], 0, &among);
        gp_engine_release(crowd.engine, crowd.ids[i]);
        if (among.finish == GP_FINISH_CANCELLED)
            continue;
        run_alone(&crowd.requests[i], &alone);
        engine_rig_assert_same(&alone, &among);
    }
    crowd.count = 0;
}

static void close_crowd(void)
{
    assert_idle(crowd.engine);
    gp_engine_close(crowd.engine);
    crowd.engine = NULL;
}

/* ---- B43 ---- */

static void b43_who_leaves_the_queue_is_never_run(void **state)
{
    struct gp_engine_stats stats;

    (void)state;
    open_crowd("full", 512);
    crowd.options.max_seqs = 1;
    for (uint32_t i = 0; i < 7; i++)
        join(i, 0, 40 + i, 30);
    submit_crowd();
    for (uint32_t step = 0; step < 10; step++)
        gp_engine_step(crowd.engine);
    for (uint32_t i = 1; i < 6; i++)
        gp_engine_cancel(crowd.engine, crowd.ids[i]);
    gp_engine_step(crowd.engine);
    gp_engine_stats(crowd.engine, &stats);
    assert_int_equal(stats.running, 1);
    assert_int_equal(stats.waiting, 1);
    gp_engine_run(crowd.engine);
    gp_engine_stats(crowd.engine, &stats);
    assert_int_equal(stats.prompt_tokens, 40 + 46);
    assert_each_as_alone();
    close_crowd();
}

static void b43_who_leaves_during_a_long_prompt_stops_it_within_a_chunk(void **state)
{
    struct gp_engine_stats stats;

    (void)state;
    open_crowd("full", 512);
    join(0, 0, 1000, 10);
    submit_crowd();
    for (uint32_t step = 0; step < 3; step++)
        gp_engine_step(crowd.engine);
    gp_engine_cancel(crowd.engine, crowd.ids[0]);
    assert_int_equal(gp_engine_step(crowd.engine), 0);
    gp_engine_stats(crowd.engine, &stats);
    assert_int_equal(stats.prompt_tokens, 3 * crowd.options.max_batch_tokens);
    gp_engine_release(crowd.engine, crowd.ids[0]);
    close_crowd();
}

/* ---- B47 ---- */

static void b47_preempted_and_refilled_at_the_edges_of_pages(void **state)
{
    struct gp_engine_stats stats;

    (void)state;
    open_crowd("full", 12);
    for (uint32_t i = 0; i < 64; i++)
        join(i, PAGE, PAGE - 3 + i % 7, PAGE - 2 + i % 21);
    submit_crowd();
    gp_engine_run(crowd.engine);
    gp_engine_stats(crowd.engine, &stats);
    assert_true(stats.preempt > 0 && stats.prefix_found > 0);
    assert_each_as_alone();
    close_crowd();
}

static void b47_a_token_more_than_a_page_of_256(void **state)
{
    (void)state;
    open_crowd("full", 12);
    crowd.options.page_tokens = 256;
    for (uint32_t i = 0; i < 9; i++)
        join(i, 250, 255 + i % 3, 3 + i);
    submit_crowd();
    gp_engine_run(crowd.engine);
    assert_each_as_alone();
    close_crowd();
}

/* ---- B49 ---- */

static void b49_pages_that_are_only_cached_are_free(void **state)
{
    struct gp_request *r;
    struct gp_engine_stats stats;

    (void)state;
    open_crowd("full", 24);
    for (uint32_t round = 0; round < 4; round++) {
        for (uint32_t i = 0; i < 25; i++) /* 100 prompts in all */
            join(25 * round + i, 0, 3 * PAGE, 2);
        submit_crowd();
        gp_engine_run(crowd.engine);
        assert_each_as_alone();
        assert_idle(crowd.engine);
    }
    /* Nothing but what is cached: each left three full pages and a part of one. */
    assert_int_equal(gp_prefix_count(gp_sched_prefix(crowd.engine->sched)), 24 / 4 * 3);
    join(200, 0, 10, 300);
    submit_crowd();
    gp_engine_run(crowd.engine);
    assert_each_as_alone();
    r = join(201, 0, 40, 60);
    r->n = 4;
    submit_crowd();
    gp_engine_run(crowd.engine);
    assert_each_as_alone();
    r = join(202, 0, 23 * PAGE + 3, 10);
    submit_crowd();
    gp_engine_run(crowd.engine);
    gp_engine_stats(crowd.engine, &stats);
    assert_int_equal(stats.pages_used_max, 24);
    assert_each_as_alone();
    close_crowd();
}

static void b49_no_stream_ends_because_of_another(void **state)
{
    struct gp_engine_stats stats;

    (void)state;
    open_crowd("full", 36);
    for (uint32_t i = 0; i < 4; i++) /* ten pages each: a tenth more than there are */
        join(i, 0, 20, 10 * PAGE - 20);
    submit_crowd();
    gp_engine_run(crowd.engine);
    gp_engine_stats(crowd.engine, &stats);
    assert_true(stats.preempt > 0);
    assert_each_as_alone();
    close_crowd();
}

static void b49_what_outgrows_everything_ends_alone(void **state)
{
    struct rig_output out;

    (void)state;
    open_crowd("full", 20);
    for (uint32_t i = 0; i < 5; i++)
        join(i, 0, 30, i == 2 ? 500 : 60);
    submit_crowd();
    gp_engine_run(crowd.engine);
    for (uint32_t i = 0; i < 5; i++) {
        engine_rig_read(crowd.engine, crowd.ids[i], 0, &out);
        assert_int_equal(out.finish, i == 2 ? GP_FINISH_CAPACITY : GP_FINISH_LENGTH);
        assert_int_equal(out.count, i == 2 ? 20 * PAGE - 30 + 1 : 60);
    }
    assert_each_as_alone();
    close_crowd();
}

/* ---- B50 ---- */

#define SCORED 70u

struct scores {
    float logprobs[SCORED];
    struct gp_logprob best[SCORED][3];
};

/* The request's prompt as `engine` scores it. */
static void score_prompt(struct gp_engine *engine, struct gp_request *r, struct scores *out)
{
    memset(out, 0, sizeof *out);
    r->prompt_logprobs = 3;
    uint64_t id = submit(engine, r);

    gp_engine_run(engine);
    for (uint32_t t = 1; t < r->token_count; t++) {
        out->logprobs[t] = gp_engine_prompt_logprob(engine, id, t);
        assert_true(out->logprobs[t] < 0);
        assert_int_equal(gp_engine_alternatives(engine, id, 0, true, t, out->best[t], 3), 3);
    }
    gp_engine_release(engine, id);
    r->prompt_logprobs = -1;
}

static void b50_prompt_logprobs_and_hits(void **state)
{
    struct scores fresh, again;

    (void)state;
    open_crowd("growpage", 64);
    crowd.engine = engine_rig_engine(&crowd.options);
    /* Three times the same, then three that share two pages with it; some with choices. */
    for (uint32_t i = 0; i < 6; i++) {
        uint32_t number = i < 3 ? 0 : i;
        struct gp_request *r = join(number, 2 * PAGE, SCORED - number, 4);
        struct gp_engine *other = engine_rig_engine(&crowd.options);

        r->n = 1 + i % 2;
        score_prompt(other, r, &fresh);
        gp_engine_close(other);
        score_prompt(crowd.engine, r, &again);
        assert_memory_equal(&fresh, &again, sizeof fresh);
        r->n = 1;
        /* Looking for pages left none that would mislead others. */
        crowd.ids[crowd.count - 1] = submit(crowd.engine, r);
        gp_engine_run(crowd.engine);
        assert_each_as_alone();
    }
    close_crowd();
}

/* ---- B51 ---- */

/* A prompt of the crowd made of the pages that `letters` name; a '.' is one token more in front. */
static void spell(const char *letters)
{
    struct gp_request *r = join(0, 0, 1, 12);
    int32_t *ids = crowd.prompts[crowd.count - 1];
    uint32_t count = 0;

    for (; *letters; letters++) {
        if (*letters == '.') {
            ids[count++] = (int32_t)TEST_TOKEN_ENDOFTEXT;
            continue;
        }
        engine_rig_prompt(ids + count, PAGE, (uint32_t)*letters);
        count += PAGE;
    }
    ids[count++] = 77; /* the last page is a full one, too */
    r->token_count = count;
}

static uint32_t run_one(struct rig_output *out)
{
    submit_crowd();
    gp_engine_run(crowd.engine);
    engine_rig_read(crowd.engine, crowd.ids[0], 0, out);
    assert_each_as_alone();
    return out->stats.cached_tokens;
}

/* Each text and how many of its pages another has left behind. */
static const struct {
    const char *letters;
    uint32_t known;
} texts[] = {
    {"px", 0}, {"qx", 0},  {"x", 0},  {"xx", 1},  {"xxx", 2}, {"pxx", 2}, {"qqx", 1},
    {"xp", 1}, {".px", 0}, {"px", 2}, {".px", 2}, {"..p", 0}, {"yx", 0},  {"xxp", 2},
};

static void run_texts(uint64_t forced_hash)
{
    struct rig_output out;

    open_crowd("full", 256);
    crowd.engine = engine_rig_engine(&crowd.options);
    if (forced_hash)
        gp_prefix_force_hash(gp_sched_prefix(crowd.engine->sched), forced_hash);
    for (uint32_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        spell(texts[i].letters);
        assert_int_equal(run_one(&out), texts[i].known * PAGE);
    }
    close_crowd();
}

static void b51_the_same_page_behind_other_tokens_is_another(void **state)
{
    (void)state;
    run_texts(0);
    run_texts(1); /* all hashes are one */
}

static void b51_one_early_token_changes_all_that_follows(void **state)
{
    struct rig_output out;

    (void)state;
    open_crowd("full", 512);
    crowd.engine = engine_rig_engine(&crowd.options);
    join(0, 0, 6 * PAGE, 8);
    run_one(&out);
    for (uint32_t i = 0; i < 5 * PAGE; i += 7) {
        join(0, 0, 6 * PAGE, 8);
        crowd.prompts[0][i] ^= 1;
        assert_int_equal(run_one(&out), i / PAGE * PAGE);
    }
    close_crowd();
}

static void b51_other_salts_never_hit(void **state)
{
    static const char *const salts[] = {"a", "b", NULL, "ab", "a ", "A"};
    struct rig_output out;

    (void)state;
    open_crowd("full", 512);
    crowd.engine = engine_rig_engine(&crowd.options);
    for (uint32_t twice = 0; twice < 2; twice++)
        for (uint32_t i = 0; i < sizeof salts / sizeof *salts; i++) {
            join(0, 0, 4 * PAGE + 5, 8)->cache_salt = salts[i];
            assert_int_equal(run_one(&out), twice * 4 * PAGE);
        }
    close_crowd();
}

/* ---- B52 ---- */

#define MARKS 8u /* ids that are a client's own */

/* A client may say its own words only; so one of another's would show. */
static void allow_own_words(void *ctx, uint32_t choice, const int32_t *output, uint32_t count,
                            uint64_t *mask)
{
    uint32_t first = *(const uint32_t *)ctx;

    (void)choice;
    for (uint32_t i = 0; i < count; i++)
        assert_in_range(output[i], first, first + MARKS - 1);
    memset(mask, 0, 5 * sizeof *mask);
    for (uint32_t id = first; id < first + MARKS; id++)
        mask[id / 64] |= (uint64_t)1 << (id % 64);
}

static void make_clients(uint32_t firsts[32])
{
    for (uint32_t i = 0; i < 32; i++) {
        struct gp_request *r = join(i, i % 2 ? 2 * PAGE : 0, 2 * PAGE + 5 + i, 40);

        firsts[i] = TEST_TOKEN_BYTE + MARKS * i;
        for (uint32_t t = 2 * PAGE; t < r->token_count; t++)
            crowd.prompts[i][t] = (int32_t)(firsts[i] + t % MARKS);
        r->constraint = allow_own_words;
        r->ctx = &firsts[i];
    }
}

static void b52_no_word_of_one_in_the_answer_of_another(void **state)
{
    static const char *const policies[] = {"full", "growpage", "snapkv:44", "h2o:40"};
    struct gp_rng rng = {52};
    struct gp_engine_stats stats;

    (void)state;
    for (uint32_t p = 0; p < sizeof policies / sizeof *policies; p++) {
        uint32_t firsts[32];
        uint64_t preempted = 0;

        open_crowd(policies[p], 30);
        make_clients(firsts);
        submit_crowd();
        while (gp_engine_step(crowd.engine))
            if (gp_rng_below(&rng, 12) == 0)
                gp_engine_cancel(crowd.engine, crowd.ids[gp_rng_below(&rng, 32)]);
        gp_engine_stats(crowd.engine, &stats);
        preempted = stats.preempt;
        assert_each_as_alone();
        close_crowd();
        assert_true(p > 0 || preempted > 0);
    }
}

/* ---- B53 ---- */

static void b53_the_same_request_gives_the_same_answer(void **state)
{
    static const uint32_t chunks[] = {16, 29, 500};

    (void)state;
    for (uint32_t c = 0; c < 3; c++)
        for (uint32_t cached = 0; cached < 2; cached++) {
            open_crowd("growpage", 512);
            crowd.options.max_batch_tokens = chunks[c];
            crowd.options.threads = 1 + (c + cached) % 2;
            crowd.options.no_prefix_cache = !cached;
            for (uint32_t i = 0; i < 20; i++)
                join(i, i % 3 * PAGE, 2 * PAGE + 3 * i, 50);
            submit_crowd();
            gp_engine_run(crowd.engine);
            crowd.options.max_batch_tokens = 64; /* of the one that is alone */
            crowd.options.threads = 1;
            assert_each_as_alone();
            close_crowd();
        }
}

/* ---- B54 ---- */

static void read_choices(uint64_t id, struct rig_output out[4])
{
    for (uint32_t i = 0; i < 4; i++)
        engine_rig_read(crowd.engine, id, i, &out[i]);
    gp_engine_release(crowd.engine, id);
}

static void b54_choices_differ_and_come_again(void **state)
{
    struct rig_output first[4], again[4];

    (void)state;
    open_crowd("growpage", 60);
    for (uint32_t call = 0; call < 3; call++) {
        /* The last time among others, in a pool too small for all. */
        for (uint32_t i = 0; i < (call == 2 ? 12 : 0); i++)
            join(i, PAGE, 40 + i, 80);
        submit_crowd();
        struct gp_request r = *join(99, PAGE, 45, 40);

        r.n = 4;
        r.sampling.temperature = 1;
        r.sampling.seed = 7;
        crowd.count--;
        uint64_t id = submit(crowd.engine, &r);

        gp_engine_run(crowd.engine);
        read_choices(id, call ? again : first);
        for (uint32_t i = 0; i < 4; i++) {
            if (call)
                engine_rig_assert_same(&first[i], &again[i]);
            for (uint32_t j = 0; j < i; j++)
                assert_memory_not_equal(first[i].tokens, first[j].tokens, 40 * sizeof(int32_t));
        }
        assert_each_as_alone();
    }
    close_crowd();
}

static void b54_greedy_choices_are_one(void **state)
{
    struct rig_output out[4];

    (void)state;
    open_crowd("growpage", 512);
    crowd.engine = engine_rig_engine(&crowd.options);
    for (uint32_t i = 0; i < 2; i++) { /* two prompts */
        struct gp_request *r = join(i, 0, 30 + i, 40);

        r->n = 4;
        uint64_t id = submit(crowd.engine, r);

        gp_engine_run(crowd.engine);
        read_choices(id, out);
        for (uint32_t c = 1; c < 4; c++)
            engine_rig_assert_same(&out[0], &out[c]);
    }
    close_crowd();
}

/* ---- B55 ---- */

static void b55_all_pages_come_back(void **state)
{
    struct gp_rng rng = {55};
    uint64_t slots[20] = {0};
    uint32_t sent = 0;
    struct gp_request *r;

    (void)state;
    open_crowd("growpage", 40);
    crowd.engine = engine_rig_engine(&crowd.options);
    while (sent < 500) {
        uint64_t *slot = &slots[gp_rng_below(&rng, 20)], refused;

        gp_engine_release(crowd.engine, *slot); /* some have ended, others are cancelled by it */
        r = join(gp_rng_below(&rng, 9), 2 * PAGE, 1 + gp_rng_below(&rng, 90),
                 1 + gp_rng_below(&rng, 60));
        r->kv = NULL;
        r->n = 1 + gp_rng_below(&rng, 2);
        *slot = submit(crowd.engine, r);
        r->token_count = 0;
        assert_int_equal(gp_engine_submit(crowd.engine, r, &refused, NULL), GP_EINVAL);
        crowd.count = 0;
        sent++;
        for (uint32_t steps = gp_rng_below(&rng, 12); steps > 0; steps--)
            gp_engine_step(crowd.engine);
    }
    gp_engine_run(crowd.engine);
    assert_idle(crowd.engine);
    for (uint32_t i = 0; i < 20; i++)
        gp_engine_release(crowd.engine, slots[i]);
    assert_int_equal(crowd.engine->slab.used, 0);
    assert_int_equal(crowd.engine->sequences_out, 0);
    close_crowd();
}

/* ---- B56 ---- */

#define LONG_PROMPT 8000u
#define STREAMS     3u

/* A model so small that a long prompt takes a second. */
static void open_small_model(struct rig *rig)
{
    struct test_model m;

    engine_rig_model(&m);
    m.layers = 1;
    m.embd = m.ffn = 32;
    m.heads = 2;
    m.kv_heads = 1;
    m.head_dim = 16;
    m.context = 2 * LONG_PROMPT;
    engine_rig_open(rig, &m, NULL);
}

static void b56_every_step_of_a_long_prompt_has_a_row_for_the_others(void **state)
{
    static int32_t prompt[LONG_PROMPT];
    struct gp_engine_options options;
    struct gp_engine *engine;
    struct gp_request r;
    struct rig rig;
    uint64_t ids[STREAMS], id;
    uint32_t steps = 0;

    (void)state;
    open_small_model(&rig);
    engine_rig_options(&options);
    engine_rig_set_policy(&options, "full");
    options.kv_pages = 800;
    assert_int_equal(gp_engine_open(&engine, rig.model, &options, NULL), GP_OK);
    for (uint32_t i = 0; i < STREAMS; i++) {
        engine_rig_ask(&r, 10 + i, 400);
        ids[i] = submit(engine, &r);
    }
    gp_engine_step(engine);
    engine_rig_prompt(prompt, LONG_PROMPT, 3);
    engine_rig_ask(&r, LONG_PROMPT, 5);
    r.tokens = prompt;
    id = submit(engine, &r);
    while (gp_engine_read(engine, id, 0, 0, NULL, 0, NULL) == 0 && steps < 400) {
        struct gp_request_stats stats;

        gp_engine_step(engine);
        steps++;
        for (uint32_t i = 0; i < STREAMS; i++) {
            assert_true(gp_engine_request_stats(engine, ids[i], 0, &stats));
            assert_int_equal(stats.output_tokens, 1 + steps);
        }
        assert_true(gp_engine_request_stats(engine, id, 0, &stats));
        if (stats.output_tokens > 0)
            break;
    }
    /* ... and it has all the other rows of each. */
    uint32_t rows = options.max_batch_tokens - STREAMS;

    assert_int_equal(steps, (LONG_PROMPT + rows - 1) / rows);
    gp_engine_close(engine);
    engine_rig_close(&rig);
}

/* ---- B57 ---- */

#define BUDGETED 10u

/* The same request under `policy`, T tokens for %u. */
static void run_budget(const char *policy, uint32_t budget, struct rig_output *out)
{
    struct gp_engine_options options;
    struct gp_request r;
    char text[64];

    snprintf(text, sizeof text, "%.*s%u%s", (int)strcspn(policy, "T"), policy, budget,
             policy[strcspn(policy, "T")] ? policy + strcspn(policy, "T") + 1 : "");
    engine_rig_options(&options);
    engine_rig_set_policy(&options, strchr(policy, 'T') ? text : policy);
    engine_rig_ask(&r, 60, 140);
    r.logprobs = 0;
    r.sampling.temperature = 0.8f;
    engine_rig_alone(&engine_rig, &options, &r, out);
    assert_int_equal(out->count, 140);
}

static const char *const budgeted[BUDGETED] = {
    "fixed:T",  "zipage:T", "gkv:T",   "rkv:T",   "morphkv:T",
    "snapkv:T", "h2o:T",    "gkv:T@9", "rkv:T@9", "h2o:T@16",
};

static void b57_a_budget_that_is_never_reached_changes_no_bit(void **state)
{
    struct rig_output full, other;

    (void)state;
    run_budget("full", 0, &full);
    for (uint32_t p = 0; p < BUDGETED; p++) {
        run_budget(budgeted[p], 208, &other); /* 60 + 140, in whole pages */
        assert_int_equal(other.stats.compress, 0);
        engine_rig_assert_same(&full, &other);
    }
}

/* Up to the first cut all is as without one; behind it, logprobs stay what they can be. */
static void b57_a_budget_changes_nothing_before_it_is_reached(void **state)
{
    static const uint32_t budgets[] = {199, 120, 100, 80}; /* of 200 tokens */
    struct rig_output full, other;
    uint32_t compressed = 0;

    (void)state;
    run_budget("full", 0, &full);
    for (uint32_t p = 0; p < BUDGETED; p++)
        for (uint32_t b = 0; b < 4; b++) {
            uint32_t budget = budgets[b], before = budget / PAGE * PAGE - 60;

            run_budget(budgeted[p], budget, &other);
            compressed += other.stats.compress > 0;
            for (uint32_t t = 0; t < other.count; t++) {
                assert_true(other.tokens[t].logprob <= 0 && other.tokens[t].logprob > -100);
                if (t < before)
                    assert_memory_equal(&full.tokens[t], &other.tokens[t], sizeof *full.tokens);
            }
        }
    assert_true(compressed > 3 * BUDGETED - 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b43_who_leaves_the_queue_is_never_run),
        cmocka_unit_test(b43_who_leaves_during_a_long_prompt_stops_it_within_a_chunk),
        cmocka_unit_test(b47_preempted_and_refilled_at_the_edges_of_pages),
        cmocka_unit_test(b47_a_token_more_than_a_page_of_256),
        cmocka_unit_test(b49_pages_that_are_only_cached_are_free),
        cmocka_unit_test(b49_no_stream_ends_because_of_another),
        cmocka_unit_test(b49_what_outgrows_everything_ends_alone),
        cmocka_unit_test(b50_prompt_logprobs_and_hits),
        cmocka_unit_test(b51_the_same_page_behind_other_tokens_is_another),
        cmocka_unit_test(b51_one_early_token_changes_all_that_follows),
        cmocka_unit_test(b51_other_salts_never_hit),
        cmocka_unit_test(b52_no_word_of_one_in_the_answer_of_another),
        cmocka_unit_test(b53_the_same_request_gives_the_same_answer),
        cmocka_unit_test(b54_choices_differ_and_come_again),
        cmocka_unit_test(b54_greedy_choices_are_one),
        cmocka_unit_test(b55_all_pages_come_back),
        cmocka_unit_test(b56_every_step_of_a_long_prompt_has_a_row_for_the_others),
        cmocka_unit_test(b57_a_budget_that_is_never_reached_changes_no_bit),
        cmocka_unit_test(b57_a_budget_changes_nothing_before_it_is_reached),
    };

    return cmocka_run_group_tests(tests, engine_rig_setup, engine_rig_teardown);
}
