/* The fixed-budget policies that score with a window, a sum or a position: who has which switches
 * (spec.md section 7; docs/POLICIES.md says where each number comes from), and when they cut.
 *
 * A cut brings the cache back to the budget.  At a full page it is one of the answers to a
 * boundary; with the other triggers it comes of its own, at points that follow from the sequence's
 * own counts, so a replay finds them again without a log. */
#include "policy/policy.h"

#include "base/assert.h"
#include "base/limits.h"
#include "policy/internal.h"

struct row {
    enum gp_kv_trigger trigger;
    struct gp_scorer scorer;
};

static const struct row rows[] = {
    [GP_POLICY_ZIPAGE] =
        {
            GP_TRIGGER_PAGE,
            {
                .window = 16,
                .group = GP_GROUP_MAX,
                .window_keys = true,
                .remember_newest = true,
                .history = GP_HISTORY_MAX,
                .decay = 0.8f,
                .pool = GP_POOL_MAX,
                .pool_width = 5,
                .pool_first_only = true,
                .redundancy = GP_REDUNDANCY_PAGE,
                .redundancy_scale = 0.4f,
                .lambda = 0.2f,
                .keep_order = true,
            },
        },
    [GP_POLICY_GKV] =
        {
            GP_TRIGGER_PAGE,
            {
                .window = 16,
                .group = GP_GROUP_MAX,
                .window_keys = true,
                .normalize = true,
                .history = GP_HISTORY_MAX,
                .decay = 0.8f,
                .redundancy = GP_REDUNDANCY_CACHE,
                .redundancy_scale = 1.0f,
                .redundancy_normalize = true,
                .lambda = 0.5f,
                .keep_order = true,
            },
        },
    [GP_POLICY_RKV] =
        {
            GP_TRIGGER_PAGE,
            {
                .window = 8,
                .group = GP_GROUP_LOGITS,
                .pool = GP_POOL_MAX,
                .pool_width = 7,
                .redundancy = GP_REDUNDANCY_CACHE,
                .redundancy_scale = 1.0f,
                .redundancy_slot0 = true,
                .lambda = 0.1f,
                .count_prompt = true,
            },
        },
    [GP_POLICY_MORPHKV] =
        {
            GP_TRIGGER_TOKEN,
            {
                .window = 31,
                .group = GP_GROUP_MAX,
                .reduce = GP_REDUCE_SUM,
                .keep_order = true,
            },
        },
    [GP_POLICY_SNAPKV] =
        {
            GP_TRIGGER_PAGE,
            {
                .window = 8,
                .group = GP_GROUP_LOGITS,
                .pool = GP_POOL_MAX,
                .pool_width = 7,
                .count_prompt = true,
            },
        },
    [GP_POLICY_H2O] =
        {
            GP_TRIGGER_TOKEN,
            {
                .source = GP_SCORE_ALL,
                .group = GP_GROUP_MEAN,
                .keep_order = true,
            },
        },
    [GP_POLICY_STREAMING] =
        {
            GP_TRIGGER_TOKEN,
            {
                .source = GP_SCORE_POSITION,
                .sinks = 4,
                .keep_order = true,
                .cache_positions = true,
            },
        },
};

bool gp_policy_is_baseline(const struct gp_kv_options *options)
{
    return options->policy >= GP_POLICY_ZIPAGE && options->policy <= GP_POLICY_STREAMING;
}

bool gp_policy_scores(const struct gp_kv_options *options)
{
    return gp_policy_is_baseline(options) || options->select != GP_POLICY_FULL;
}

bool gp_policy_summarises(const struct gp_kv_options *options)
{
    return options->policy != GP_POLICY_FULL && !gp_policy_is_baseline(options);
}

bool gp_policy_may_select(enum gp_policy policy)
{
    return policy >= GP_POLICY_ZIPAGE && policy <= GP_POLICY_STREAMING &&
           rows[policy].trigger == GP_TRIGGER_PAGE;
}

void gp_policy_set_scorer(struct gp_kv_options *options)
{
    gp_assert(gp_policy_scores(options));
    if (gp_policy_is_baseline(options)) {
        options->trigger = rows[options->policy].trigger;
        options->scorer = rows[options->policy].scorer;
    } else {
        options->scorer = rows[options->select].scorer;
    }
}

struct gp_policy_needs gp_policy_needs(const struct gp_kv_options *options)
{
    const struct gp_scorer *s = &options->scorer;

    if (!gp_policy_scores(options))
        return (struct gp_policy_needs){0};
    return (struct gp_policy_needs){
        .scorer = true,
        .window = s->window,
        .memory = s->source == GP_SCORE_ALL || s->history != GP_HISTORY_NONE,
        .positions = options->trigger == GP_TRIGGER_TOKEN,
        .rotation = s->cache_positions,
        .every_row = s->source == GP_SCORE_ALL,
    };
}

/* ---- how much ---- */

uint32_t gp_policy_budget_slots(const struct gp_kv_options *options, uint32_t page_tokens)
{
    uint32_t budget = options->budget_tokens;

    if (options->policy != GP_POLICY_ZIPAGE)
        return budget;
    return budget < page_tokens ? page_tokens : budget - budget % page_tokens;
}

uint32_t gp_policy_protected(const struct gp_kv_options *options)
{
    if (options->protect)
        return options->protect;
    switch (options->policy) {
    case GP_POLICY_MORPHKV: /* the window and the query that is about to run */
        return options->scorer.window + 1;
    case GP_POLICY_H2O:
        return options->budget_tokens / 2;
    case GP_POLICY_STREAMING:
        return options->budget_tokens - options->scorer.sinks;
    default:
        return options->scorer.window;
    }
}

/* The budget and a page of new tokens. */
uint32_t gp_policy_rest_pages(const struct gp_kv_options *options, uint32_t page_tokens)
{
    uint64_t slots = gp_policy_budget_slots(options, page_tokens);

    return (uint32_t)((slots + page_tokens - 1) / page_tokens + 1);
}

static struct gp_retention keep_slots(const struct gp_kv_options *options, uint32_t slots,
                                      uint32_t pages_after)
{
    struct gp_retention r = {
        .pages_after = pages_after,
        .protect = gp_policy_protected(options),
    };

    gp_assert(slots > r.protect);
    r.keep = slots - r.protect;
    return r;
}

struct gp_retention gp_policy_cut(const struct gp_kv_options *options, uint32_t page_tokens,
                                  uint32_t pages)
{
    uint32_t slots = gp_policy_budget_slots(options, page_tokens);
    uint32_t rest = options->trigger == GP_TRIGGER_TOKEN
                        ? slots / page_tokens + 1 /* one token more is all that comes */
                        : gp_policy_rest_pages(options, page_tokens);

    return keep_slots(options, slots, pages < rest ? pages : rest);
}

/* At a full page a budget that is not reached yet cuts, too, when there is no page: one page of
 * slots comes free. */
uint32_t gp_policy_slots_after(const struct gp_kv_options *options, uint32_t page_tokens,
                               uint32_t pages_after)
{
    uint32_t budget = gp_policy_budget_slots(options, page_tokens);
    uint64_t room = (uint64_t)(pages_after - 1) * page_tokens;

    return room < budget ? (uint32_t)room : budget;
}

struct gp_retention gp_policy_retain_scored(const struct gp_kv_options *options,
                                            uint32_t page_tokens, uint32_t pages)
{
    uint32_t rest = gp_policy_rest_pages(options, page_tokens);
    uint32_t after = pages < rest ? pages : rest;

    if (options->max_pages > 0 && options->max_pages < after)
        after = options->max_pages;
    return keep_slots(options, gp_policy_slots_after(options, page_tokens, after), after);
}

/* ---- when ---- */

/* The first of the counts from `from` on at which the steps trigger fires. */
static uint64_t next_step(const struct gp_kv_options *options, uint64_t from, uint32_t prefill)
{
    uint64_t steps = options->trigger_steps;
    uint64_t zero = options->scorer.count_prompt ? 1 : prefill;
    uint64_t late = (from - zero) % steps;

    return late ? from + steps - late : from;
}

uint32_t gp_policy_rows_to_cut(const struct gp_kv_options *options, uint32_t page_tokens,
                               uint32_t prefill, uint32_t computed, uint32_t cached)
{
    uint64_t at = computed;

    if (!gp_policy_is_baseline(options) || options->trigger == GP_TRIGGER_PAGE)
        return UINT32_MAX;
    uint64_t over = (uint64_t)gp_policy_budget_slots(options, page_tokens) + 1;

    /* A prompt is never cut before a generated token has looked at it. */
    if (at < (uint64_t)prefill + 1)
        at = (uint64_t)prefill + 1;
    if (at - computed + cached < over)
        at = computed + over - cached;
    if (options->trigger == GP_TRIGGER_STEPS)
        at = next_step(options, at, prefill);
    return (uint32_t)(at - computed);
}

/* ---- ranges ---- */

static int check_switches(const struct gp_scorer *s, struct gp_error *err)
{
    const struct {
        const char *what;
        int value, last;
    } enums[] = {
        {"kv-scorer: source", (int)s->source, GP_SCORE_POSITION},
        {"kv-scorer: group", (int)s->group, GP_GROUP_MEAN},
        {"kv-scorer: reduce", (int)s->reduce, GP_REDUCE_MAX},
        {"kv-scorer: history", (int)s->history, GP_HISTORY_SUM},
        {"kv-scorer: pool", (int)s->pool, GP_POOL_MEAN},
        {"kv-scorer: redundancy", (int)s->redundancy, GP_REDUNDANCY_CACHE},
    };

    for (size_t i = 0; i < sizeof enums / sizeof enums[0]; i++)
        if (enums[i].value < 0 || enums[i].value > enums[i].last)
            return gp_fail(err, GP_EINVAL, "%s: %d is not a known value", enums[i].what,
                           enums[i].value);
    if (s->source == GP_SCORE_WINDOW && s->window == 0)
        return gp_fail(err, GP_EINVAL, "kv-scorer: a window of 0 queries");
    if (s->window > GP_POLICY_WINDOW_MAX)
        return gp_fail(err, GP_EINVAL, "kv-scorer: a window of %u queries; at most %u", s->window,
                       GP_POLICY_WINDOW_MAX);
    if (!(s->decay >= 0 && s->decay <= 1))
        return gp_fail(err, GP_EINVAL, "kv-scorer: decay %g is not in [0, 1]", (double)s->decay);
    if (!(s->lambda >= 0 && s->lambda <= 1))
        return gp_fail(err, GP_EINVAL, "kv-scorer: lambda %g is not in [0, 1]", (double)s->lambda);
    if (s->pool != GP_POOL_NONE && (s->pool_width % 2 == 0 || s->pool_width > GP_POLICY_WINDOW_MAX))
        return gp_fail(err, GP_EINVAL, "kv-scorer: a pool of %u slots; odd, at most %u",
                       s->pool_width, GP_POLICY_WINDOW_MAX);
    if (s->redundancy != GP_REDUNDANCY_NONE &&
        !(s->redundancy_scale >= 0.001f && s->redundancy_scale <= 1000.0f))
        return gp_fail(err, GP_EINVAL, "kv-scorer: redundancy scale %g is not in [0.001, 1000]",
                       (double)s->redundancy_scale);
    return GP_OK;
}

/* Neighbours in the cache are neighbours in the text only while slots keep their order. */
static int check_order(const struct gp_kv_options *o, const char *name, struct gp_error *err)
{
    const struct gp_scorer *s = &o->scorer;
    bool neighbours = s->pool != GP_POOL_NONE || s->redundancy != GP_REDUNDANCY_NONE ||
                      s->history != GP_HISTORY_NONE || s->normalize || s->remember_newest;

    if (o->trigger == GP_TRIGGER_TOKEN && s->source == GP_SCORE_WINDOW && neighbours)
        return gp_fail(err, GP_EINVAL,
                       "kv-trigger: %s pools, remembers, normalises or looks for redundant keys, "
                       "which needs slots in order: page or steps:N",
                       name);
    if (s->source != GP_SCORE_WINDOW && neighbours)
        return gp_fail(err, GP_EINVAL,
                       "kv-scorer: pool, history, normalize and redundancy need a window");
    if (s->cache_positions && s->source != GP_SCORE_POSITION)
        return gp_fail(err, GP_EINVAL,
                       "kv-scorer: keys that are kept before RoPE are scored by position alone");
    if (!s->keep_order && (o->trigger == GP_TRIGGER_TOKEN || s->cache_positions))
        return gp_fail(err, GP_EINVAL,
                       "kv-trigger: %s leaves survivors in the order of their scores, which needs "
                       "true positions and a trigger at page or steps:N",
                       name);
    return GP_OK;
}

static int check_budget(const struct gp_kv_options *o, const char *name, uint32_t page_tokens,
                        struct gp_error *err)
{
    if (o->trigger == GP_TRIGGER_STEPS &&
        (o->trigger_steps < 1 || o->trigger_steps > GP_LIMIT_CONTEXT))
        return gp_fail(err, GP_EINVAL, "kv-trigger: steps:%u is not in [1, %u]", o->trigger_steps,
                       GP_LIMIT_CONTEXT);
    if (o->budget_tokens > GP_LIMIT_CONTEXT)
        return gp_fail(err, GP_EINVAL, "kv %s: a budget of %u tokens; at most %u", name,
                       o->budget_tokens, GP_LIMIT_CONTEXT);
    uint32_t slots = gp_policy_budget_slots(o, page_tokens), sinks = o->scorer.sinks;

    if (o->budget_tokens <= sinks || gp_policy_protected(o) < 1 ||
        (uint64_t)gp_policy_protected(o) + (sinks ? sinks : 1) > slots)
        return gp_fail(err, GP_EINVAL,
                       "kv %s: a budget of %u tokens is too small for the newest that it keeps and "
                       "%u more",
                       name, o->budget_tokens, sinks ? sinks : 1);
    if (o->max_pages > 0 && (uint64_t)(o->max_pages - 1) * page_tokens <= gp_policy_protected(o))
        return gp_fail(err, GP_EINVAL,
                       "kv-max-pages: %u pages hold no more than the newest tokens that %s keeps",
                       o->max_pages, name);
    return GP_OK;
}

/* A scorer that only selects is asked at full pages, and may have seen nothing before them. */
static int check_select(const struct gp_kv_options *o, const char *name, struct gp_error *err)
{
    if (o->policy == GP_POLICY_FULL)
        return gp_fail(err, GP_EINVAL, "kv full: it drops nothing that a scorer could select");
    if (!gp_policy_may_select(o->select))
        return gp_fail(err, GP_EINVAL, "kv %s: select: %d is not one of zipage, gkv, rkv, snapkv",
                       name, (int)o->select);
    if (o->scorer.source != GP_SCORE_WINDOW)
        return gp_fail(err, GP_EINVAL, "kv-scorer: source: only a window can select for %s", name);
    return GP_OK;
}

int gp_policy_check_scorer(const struct gp_kv_options *o, const char *name, uint32_t page_tokens,
                           struct gp_error *err)
{
    if (!gp_policy_is_baseline(o) && o->trigger != GP_TRIGGER_PAGE)
        return gp_fail(err, GP_EINVAL, "kv-trigger: %s acts when its pages are full: page", name);
    if (!gp_policy_scores(o))
        return GP_OK;
    int rc = check_switches(&o->scorer, err);

    if (!rc)
        rc = check_order(o, name, err);
    if (!rc)
        rc = gp_policy_is_baseline(o) ? check_budget(o, name, page_tokens, err)
                                      : check_select(o, name, err);
    return rc;
}
