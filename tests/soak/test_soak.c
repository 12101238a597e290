/* A soak: rounds of requests of every kind through engines of every kind, by the public C API.
 *
 * In each round an engine has pages for about a fifth of what is asked of it.  One thread steps it,
 * one submits, reads and releases, and one cancels when it likes.  Policies come in turn; a part of
 * the requests bring another.  When a round is over no page is out and nobody runs or waits, and
 * what was not cancelled has been run again, each request alone in a fresh engine that shares
 * nothing: the same tokens, to the bit of every logprob.
 *
 *   test_soak [--minutes M] [--seed S] [--first R]    twenty seconds, or M minutes, from round R on
 *
 * The seed chooses the work; when things happen is for the threads to make out. */
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/rng.h"
#include "growpage.h"

#define MODEL_PATH  "models/growpage-reasoner.gguf"
#define TASKS       24u
#define PROMPT_MAX  220u
#define OUTPUT_MAX  150u
#define CHOICES_MAX 3u
#define PREFIXES    3u
#define POLICIES    13u
#define TRIGGERS    4u
#define SETTINGS    (2 * POLICIES) /* each policy, and each with another trigger */
#define SAMPLE      6u             /* tasks of a round that are run again */
#define STALL_NS    (300 * UINT64_C(1000000000))
/* Heaps grow until every kind of engine has been there. */
#define WARM_ROUNDS (2 * SETTINGS)
/* What is one thing in a release build is another under a sanitizer, which keeps freed memory. */
#ifdef GP_DEBUG
#define RSS_COUNTS false
#else
#define RSS_COUNTS true
#endif

/* Budgets in tokens are for pages of 16. */
static const char *const policies[POLICIES] = {
    "full",   "growpage", "fixed:64",   "random:0.6", "inverse", "shrink:-0.005:32", "zipage:48",
    "gkv:56", "rkv:41",   "morphkv:60", "snapkv:44",  "h2o:40",  "streaming:40",
};
static const char *const triggers[TRIGGERS] = {"token", "steps:9", "page", "steps:32"};

struct choice {
    struct gp_token tokens[OUTPUT_MAX];
    uint32_t count;
    enum gp_finish finish;
    struct gp_request_stats stats;
};

struct task {
    int32_t prompt[PROMPT_MAX];
    struct gp_kv_options kv;
    struct gp_request request; /* points into the task */
    bool walked_away;          /* released while it ran */
    struct choice choices[CHOICES_MAX];
    float logprobs[PROMPT_MAX]; /* of the prompt */
};

/* What happened, of a round or of all. */
struct tally {
    uint64_t finished, aborted, capacity, compared, preempt, fallback, compress, hits, refused;
};

struct round {
    struct gp_rng rng;
    uint32_t number;
    struct gp_engine_options options;
    struct gp_kv_options settings[SETTINGS];
    int32_t prefixes[PREFIXES][PROMPT_MAX];
    struct gp_engine *engine;
    struct task tasks[TASKS];
    _Atomic uint64_t ids[TASKS]; /* 0: not there; the canceller reads them */
    bool dropped[TASKS];         /* may be cancelled */
    atomic_bool over;
    struct tally tally;
};

static struct gp_model *model;
static uint64_t seed = 1;
static uint32_t first_round;
static uint64_t duration_ns = 20 * UINT64_C(1000000000);
static struct round world;
static struct choice again[CHOICES_MAX];

static uint32_t between(struct gp_rng *rng, uint32_t low, uint32_t high)
{
    return low + gp_rng_below(rng, high - low + 1);
}

static bool one_in(struct gp_rng *rng, uint32_t n)
{
    return gp_rng_below(rng, n) == 0;
}

static void must(int rc, const struct gp_error *err)
{
    if (rc)
        fail_msg("round %u of seed %" PRIu64 ": %s", world.number, seed, err->message);
}

static uint64_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long long size, resident = 0;

    if (!file || fscanf(file, "%llu %llu", &size, &resident) != 2)
        fail_msg("cannot read /proc/self/statm");
    fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- what is asked ---- */

/* Another trigger than the policy's own, of those that it can have. */
static void set_trigger(struct round *w, struct gp_kv_options *kv)
{
    uint32_t first = gp_rng_below(&w->rng, TRIGGERS);

    for (uint32_t i = 0; i < TRIGGERS; i++) {
        struct gp_kv_options tried = *kv;
        struct gp_error err;

        must(gp_trigger_parse(triggers[(first + i) % TRIGGERS], &tried, &err), &err);
        if (gp_kv_options_check(&tried, w->options.page_tokens, NULL) == GP_OK) {
            *kv = tried;
            return;
        }
    }
}

static void make_settings(struct round *w)
{
    uint32_t scale = w->options.page_tokens / 16;

    for (uint32_t i = 0; i < SETTINGS; i++) {
        struct gp_kv_options *kv = &w->settings[i];
        struct gp_error err;

        gp_kv_options_init(kv);
        must(gp_policy_parse(policies[i % POLICIES], kv, &err), &err);
        kv->budget_tokens *= scale;
        kv->initial_pages = between(&w->rng, 2, 4);
        kv->compact = one_in(&w->rng, 2) ? GP_COMPACT_FILL : GP_COMPACT_SHIFT;
        if (i >= POLICIES && gp_policy_has_scorer(kv))
            set_trigger(w, kv);
    }
}

/* A fifth of what so many could want; at times not enough for one. */
static uint32_t pages_for(struct round *w)
{
    uint32_t b = w->options.page_tokens, each = (w->options.context + b - 1) / b;
    uint32_t fifth = each * w->options.max_seqs / 5, least = PROMPT_MAX / b + 2;

    if (one_in(&w->rng, 5))
        return least;
    return fifth > each ? fifth : each;
}

static void make_options(struct round *w, uint32_t number)
{
    struct gp_rng *rng = &w->rng;
    struct gp_engine_options *o = &w->options;

    gp_engine_options_init(o);
    o->threads = between(rng, 1, 2);
    o->page_tokens = 16 * between(rng, 1, 2);
    o->context = PROMPT_MAX + OUTPUT_MAX;
    o->max_seqs = between(rng, 4, 12);
    o->max_batch_tokens = o->max_seqs + between(rng, 0, 100);
    o->max_waiting = between(rng, 4, 16);
    o->watermark = one_in(rng, 3) ? between(rng, 1, 2) : 0;
    o->preempt = one_in(rng, 2) ? GP_PREEMPT_LEAST_COMPUTED : GP_PREEMPT_NEWEST;
    o->no_prefix_cache = one_in(rng, 4);
    o->kv_sync = one_in(rng, 3);
    o->kv_type = one_in(rng, 3) ? "f32" : "f16";
    o->kv_pages = pages_for(w);
    make_settings(w);
    o->kv = w->settings[number % SETTINGS];
    o->kv_also = w->settings;
    o->kv_also_count = SETTINGS;
}

static void make_prompt(struct round *w, struct task *task, uint32_t vocab)
{
    uint32_t count = between(&w->rng, 1, PROMPT_MAX), shared;

    shared = one_in(&w->rng, 3) ? 0 : between(&w->rng, 0, count);
    memcpy(task->prompt, w->prefixes[gp_rng_below(&w->rng, PREFIXES)],
           shared * sizeof *task->prompt);
    for (uint32_t i = shared; i < count; i++)
        task->prompt[i] = (int32_t)gp_rng_below(&w->rng, vocab);
    task->request.tokens = task->prompt;
    task->request.token_count = count;
}

static void make_task(struct round *w, struct task *task, uint32_t vocab)
{
    static const char *const salts[] = {NULL, NULL, "a", "b"};
    struct gp_rng *rng = &w->rng;
    struct gp_request *r = &task->request;

    memset(task, 0, sizeof *task);
    gp_request_init(r);
    make_prompt(w, task, vocab);
    r->max_tokens = between(rng, 1, OUTPUT_MAX);
    r->ignore_eos = !one_in(rng, 4);
    r->n = one_in(rng, 5) ? between(rng, 2, CHOICES_MAX) : 1;
    r->logprobs = (int32_t)between(rng, 0, 2);
    r->prompt_logprobs = one_in(rng, 5) ? (int32_t)between(rng, 0, 2) : -1;
    r->cache_salt = salts[gp_rng_below(rng, 4)];
    r->priority = (int32_t)gp_rng_below(rng, 3);
    r->sampling.temperature = one_in(rng, 2) ? 0 : 0.9f;
    r->sampling.repeat_penalty = one_in(rng, 6) ? 1.1f : 1;
    r->sampling.seed = gp_rng_next(rng);
    r->sampling.has_seed = true;
    task->kv = one_in(rng, 3) ? w->settings[gp_rng_below(rng, SETTINGS)] : w->options.kv;
    task->kv.seed = gp_rng_next(rng);
    task->kv.fallback = one_in(rng, 3) ? GP_FALLBACK_COMPRESS : GP_FALLBACK_PREEMPT;
    task->kv.resume = one_in(rng, 6) ? GP_RESUME_RECOMPUTE : GP_RESUME_REPLAY;
    task->kv.pressure = one_in(rng, 12) ? 0.5 : 0;
    task->kv.max_pages = one_in(rng, 8) ? 4 : 0;
    r->kv = &task->kv;
    task->walked_away = one_in(rng, 20);
}

static void make_round(struct round *w, uint32_t number)
{
    struct gp_model_info info;
    struct gp_error err;

    memset(w, 0, sizeof *w);
    w->number = number;
    w->rng.state = seed * 1000003 + number;
    gp_model_info(model, &info);
    make_options(w, number);
    for (uint32_t i = 0; i < PREFIXES; i++)
        for (uint32_t t = 0; t < PROMPT_MAX; t++)
            w->prefixes[i][t] = (int32_t)gp_rng_below(&w->rng, info.vocab_count);
    for (uint32_t i = 0; i < TASKS; i++) {
        make_task(w, &w->tasks[i], info.vocab_count);
        w->dropped[i] = one_in(&w->rng, 6);
    }
    must(gp_engine_open(&w->engine, model, &w->options, &err), &err);
}

/* ---- the threads ---- */

static void *step_engine(void *arg)
{
    struct round *w = arg;

    while (!w->over) {
        struct pollfd work = {.fd = gp_engine_work_fd(w->engine), .events = POLLIN};

        if (!gp_engine_step(w->engine))
            poll(&work, 1, 20);
    }
    return NULL;
}

static void *cancel_some(void *arg)
{
    struct round *w = arg;
    struct gp_rng rng = {w->rng.state ^ 0x5eed};

    while (!w->over) {
        uint32_t i = gp_rng_below(&rng, TASKS);
        uint64_t id = w->ids[i];

        if (id && w->dropped[i] && one_in(&rng, 4))
            gp_engine_cancel(w->engine, id);
        poll(NULL, 0, (int)gp_rng_below(&rng, 5));
    }
    return NULL;
}

/* ---- the user ---- */

/* Read on; have all choices ended? */
static bool read_choices(struct gp_engine *engine, uint64_t id, const struct task *task,
                         struct choice *choices)
{
    bool ended = true;

    for (uint32_t i = 0; i < task->request.n; i++) {
        struct choice *c = &choices[i];

        c->count += gp_engine_read(engine, id, i, c->count, c->tokens + c->count,
                                   OUTPUT_MAX - c->count, &c->finish);
        ended = ended && c->finish != GP_FINISH_NONE;
    }
    for (uint32_t i = 0; ended && i < task->request.n; i++) {
        assert_true(gp_engine_request_stats(engine, id, i, &choices[i].stats));
        assert_int_equal(choices[i].stats.output_tokens, choices[i].count);
    }
    return ended;
}

static void count_end(struct tally *tally, const struct task *task)
{
    for (uint32_t i = 0; i < task->request.n; i++) {
        const struct choice *c = &task->choices[i];

        tally->finished += c->finish == GP_FINISH_STOP || c->finish == GP_FINISH_LENGTH;
        tally->aborted += c->finish == GP_FINISH_CANCELLED;
        tally->capacity += c->finish == GP_FINISH_CAPACITY;
        tally->preempt += c->stats.preempt;
        tally->fallback += c->stats.fallback;
        tally->compress += c->stats.compress + c->stats.shrink;
        tally->hits += c->stats.cached_tokens > 0;
    }
}

static void read_prompt_logprobs(struct gp_engine *engine, uint64_t id, const struct task *task,
                                 float *logprobs)
{
    for (uint32_t t = 0; task->request.prompt_logprobs >= 0 && t < task->request.token_count; t++)
        logprobs[t] = gp_engine_prompt_logprob(engine, id, t);
}

/* True when the task is over. */
static bool look_after(struct round *w, uint32_t i)
{
    struct task *task = &w->tasks[i];
    uint64_t id = w->ids[i];

    if (!read_choices(w->engine, id, task, task->choices)) {
        if (!task->walked_away || task->choices[0].count < 5)
            return false;
        for (uint32_t c = 0; c < task->request.n; c++)
            task->choices[c].finish = GP_FINISH_CANCELLED;
    }
    read_prompt_logprobs(w->engine, id, task, task->logprobs);
    count_end(&w->tally, task);
    w->ids[i] = 0;
    gp_engine_release(w->engine, id);
    return true;
}

static bool submit(struct round *w, uint32_t i)
{
    struct gp_error err;
    uint64_t id;
    int rc = gp_engine_submit(w->engine, &w->tasks[i].request, &id, &err);

    if (rc == GP_EAGAIN) {
        w->tally.refused++;
        return false;
    }
    must(rc, &err);
    w->ids[i] = id;
    return true;
}

static uint32_t task_of(const struct round *w, uint64_t id)
{
    uint32_t i = 0;

    while (i < TASKS && w->ids[i] != id)
        i++;
    return i;
}

static void use_engine(struct round *w)
{
    uint32_t submitted = 0, ended = 0;
    uint64_t heard = gp_clock_ns();

    while (ended < TASKS) {
        struct pollfd news = {.fd = gp_engine_news_fd(w->engine), .events = POLLIN};
        uint64_t ids[8];
        uint32_t count;

        while (submitted < TASKS && submit(w, submitted))
            submitted++;
        poll(&news, 1, 50);
        count = gp_engine_poll(w->engine, ids, 8);
        for (uint32_t k = 0; k < count; k++) {
            uint32_t i = task_of(w, ids[k]);

            if (i < TASKS)
                ended += look_after(w, i);
        }
        if (count > 0)
            heard = gp_clock_ns();
        if (gp_clock_ns() - heard > STALL_NS)
            fail_msg("round %u of seed %" PRIu64 ": %u of %u have ended, and no news", w->number,
                     seed, ended, TASKS);
    }
}

/* ---- afterwards ---- */

/* Nothing that depends on neighbours happened to it: those who may lose history for want of a page
 * did not, and those who come back another way never left. */
static bool is_its_own(const struct task *task)
{
    bool own = task->kv.pressure == 0;

    for (uint32_t i = 0; i < task->request.n; i++) {
        const struct choice *c = &task->choices[i];

        own = own && c->finish != GP_FINISH_CANCELLED;
        own = own && (task->kv.fallback == GP_FALLBACK_PREEMPT || c->stats.fallback == 0);
        own = own && (task->kv.resume == GP_RESUME_REPLAY || c->stats.preempt == 0);
    }
    return own;
}

/* Run it in an engine where nothing is as it was but the request. */
static void run_alone(const struct round *w, const struct task *task, float *logprobs)
{
    struct gp_engine_options o = w->options;
    struct gp_engine *engine;
    struct gp_error err;
    uint64_t id;

    o.max_seqs = task->request.n;
    o.max_batch_tokens = 41;
    o.threads = 3 - o.threads;
    /* Choices are alone, too, when there is room for all of them; a lone one has what it had. */
    if (task->request.n > 1)
        o.kv_pages = task->request.n * (o.context / o.page_tokens + 1);
    o.watermark = 0;
    o.no_prefix_cache = true;
    o.kv_sync = !o.kv_sync;
    o.kv = task->kv;
    o.kv_also_count = 0;
    memset(again, 0, sizeof again);
    must(gp_engine_open(&engine, model, &o, &err), &err);
    must(gp_engine_submit(engine, &task->request, &id, &err), &err);
    gp_engine_run(engine);
    assert_true(read_choices(engine, id, task, again));
    read_prompt_logprobs(engine, id, task, logprobs);
    gp_engine_release(engine, id);
    gp_engine_close(engine);
}

/* What may have had to do with it. */
static void tell_task(const struct task *task)
{
    const struct gp_request *r = &task->request;
    char policy[64], trigger[32];

    gp_policy_format(&task->kv, policy);
    gp_trigger_format(&task->kv, trigger);
    print_message("# %s at %s, fallback %d, resume %d, at most %u pages; %u tokens, %u more, %u "
                  "choices, prompt logprobs %d, temperature %.1f, salt %s\n",
                  policy, trigger, task->kv.fallback, task->kv.resume, task->kv.max_pages,
                  r->token_count, r->max_tokens, r->n, r->prompt_logprobs,
                  (double)r->sampling.temperature, r->cache_salt ? r->cache_salt : "none");
    for (uint32_t i = 0; i < r->n; i++)
        for (uint32_t alone = 0; alone < 2; alone++) {
            const struct choice *c = alone ? &again[i] : &task->choices[i];
            const struct gp_request_stats *s = &c->stats;

            print_message("# choice %u%s: %u tokens, %s; %u cached, %u preempted, %u fell back, "
                          "grow %u compress %u shrink %u start %u initial %u capped %u\n",
                          i, alone ? " alone" : "", c->count, gp_finish_name(c->finish),
                          s->cached_tokens, s->preempt, s->fallback, s->grow, s->compress,
                          s->shrink, s->start, s->initial, s->capped);
        }
}

/* Tokens, bits of logprobs included, until the first that differs. */
static uint32_t count_same(const struct choice *a, const struct choice *b)
{
    uint32_t count = 0;

    while (count < a->count && count < b->count &&
           !memcmp(&a->tokens[count], &b->tokens[count], sizeof a->tokens[count]))
        count++;
    return count;
}

static bool is_same(const struct choice *was, const struct choice *is, uint32_t same, uint32_t n)
{
    /* One of several choices has more room alone. */
    if (was->finish == GP_FINISH_CAPACITY && n > 1)
        return same == was->count;
    return same == was->count && same == is->count && was->finish == is->finish;
}

static void compare(const struct round *w, uint32_t number)
{
    const struct task *task = &w->tasks[number];
    float logprobs[PROMPT_MAX] = {0};

    run_alone(w, task, logprobs);
    for (uint32_t i = 0; i < task->request.n; i++) {
        uint32_t same = count_same(&task->choices[i], &again[i]);

        if (is_same(&task->choices[i], &again[i], same, task->request.n))
            continue;
        tell_task(task);
        fail_msg("round %u of seed %" PRIu64 ", task %u, choice %u: differs alone from token %u on",
                 w->number, seed, number, i, same);
    }
    assert_memory_equal(logprobs, task->logprobs, sizeof logprobs);
}

static void check_idle(struct round *w)
{
    struct gp_engine_stats stats;

    gp_engine_step(w->engine);
    gp_engine_stats(w->engine, &stats);
    assert_int_equal(stats.running, 0);
    assert_int_equal(stats.waiting, 0);
    assert_int_equal(stats.pages_used, 0);
    assert_int_equal(stats.pages_free, w->options.kv_pages);
}

static void tell(const struct round *w, uint64_t resident)
{
    const struct gp_engine_options *o = &w->options;
    const struct tally *t = &w->tally;
    char policy[64], trigger[32];

    gp_policy_format(&o->kv, policy);
    gp_trigger_format(&o->kv, trigger);
    print_message("# round %u: %s at %s, %u pages of %u, %u at once%s%s; %" PRIu64
                  " ended, %" PRIu64 " aborted, %" PRIu64 " out of pages, %" PRIu64
                  " preempted, %" PRIu64 " fell back, %" PRIu64 " compressed, %" PRIu64
                  " hit, %" PRIu64 " compared; %.1f MiB\n",
                  w->number, policy, trigger, o->kv_pages, o->page_tokens, o->max_seqs,
                  o->kv_sync ? ", sync" : "", o->no_prefix_cache ? ", unshared" : "", t->finished,
                  t->aborted, t->capacity, t->preempt, t->fallback, t->compress, t->hits,
                  t->compared, (double)resident / 1048576);
    fflush(stdout);
}

static void run_round(struct round *w, uint32_t number)
{
    pthread_t stepper, canceller;

    make_round(w, number);
    assert_int_equal(pthread_create(&stepper, NULL, step_engine, w), 0);
    assert_int_equal(pthread_create(&canceller, NULL, cancel_some, w), 0);
    use_engine(w);
    w->over = true;
    pthread_join(stepper, NULL);
    pthread_join(canceller, NULL);
    check_idle(w);
    gp_engine_close(w->engine);
    for (uint32_t i = 0; i < TASKS && w->tally.compared < SAMPLE; i++)
        if (is_its_own(&w->tasks[i])) {
            compare(w, i);
            w->tally.compared++;
        }
}

static void add(struct tally *sum, const struct tally *t)
{
    sum->finished += t->finished;
    sum->aborted += t->aborted;
    sum->capacity += t->capacity;
    sum->compared += t->compared;
    sum->preempt += t->preempt;
    sum->fallback += t->fallback;
    sum->compress += t->compress;
    sum->hits += t->hits;
    sum->refused += t->refused;
}

static void nothing_is_left_behind_and_every_request_is_its_own(void **state)
{
    uint64_t start = gp_clock_ns(), warm = 0, resident = 0;
    struct tally sum = {0};
    uint32_t number = first_round;

    (void)state;
    while (gp_clock_ns() - start < duration_ns) {
        run_round(&world, number++);
        add(&sum, &world.tally);
        resident = resident_bytes();
        if (number == WARM_ROUNDS)
            warm = resident;
        tell(&world, resident);
    }
    print_message(
        "# seed %" PRIu64 ", %u rounds: %" PRIu64 " ended, %" PRIu64 " aborted, %" PRIu64
        " out of pages, %" PRIu64 " preempted, %" PRIu64 " fell back, %" PRIu64 " hit, %" PRIu64
        " found the queue full, %" PRIu64 " compared; %.2f MiB after warm-up, %.2f at the end\n",
        seed, number, sum.finished, sum.aborted, sum.capacity, sum.preempt, sum.fallback, sum.hits,
        sum.refused, sum.compared, (double)warm / 1048576, (double)resident / 1048576);
    /* A machine that is busy may come to few. */
    if (number - first_round >= POLICIES)
        assert_true(sum.compared > 0 && sum.aborted > 0 && sum.preempt > 0 && sum.hits > 0);
    if (warm && RSS_COUNTS)
        assert_true((double)resident < 1.02 * (double)warm);
}

static int open_model(void **state)
{
    struct gp_model_options options = {.path = MODEL_PATH};
    struct gp_error err = {""};

    (void)state;
    if (gp_model_open(&model, &options, &err))
        print_error("%s\n", err.message);
    return model ? 0 : -1;
}

static int close_model(void **state)
{
    (void)state;
    gp_model_close(model);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_left_behind_and_every_request_is_its_own),
    };

    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--minutes"))
            duration_ns = (uint64_t)(strtod(argv[i + 1], NULL) * 60e9);
        else if (!strcmp(argv[i], "--seed"))
            seed = strtoull(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--first"))
            first_round = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        else
            return fprintf(stderr, "usage: test_soak [--minutes M] [--seed S] [--first R]\n"), 2;
    }
    return cmocka_run_group_tests(tests, open_model, close_model);
}
