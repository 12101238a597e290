/* What a request does when its pages are full (spec.md sections 3 and 7).
 *
 * A boundary asks its questions in a fixed order, and the first that applies decides:
 *
 *   1. no summaries?    Nothing could be scored, so it grows (`start`), past any cap: a prompt is
 *                       never compacted before a generated token has looked at it.
 *   2. full?            It grows; it has nothing else, and max_pages does not bind it.
 *   3. not yet at its initial pages, or its fixed budget?   It grows (`initial`).
 *   4. the pool nearly empty, and the option set?           It grows (`pressure`).
 *   5. otherwise the policy speaks: a fixed budget that is full compresses (with a scorer or
 *      without), `random` draws, the others look at delta.
 *
 * Whatever grew in 3 to 5 at max_pages compresses instead (`capped`).  The order matters for the
 * books: only 2 and 5 are primary decisions. */
#include "policy/policy.h"

#include "base/rng.h"
#include "policy/internal.h"

/* The stream of the policy's draws, apart from all others of the same seed ("kv"). */
#define RANDOM_STREAM 0x6b76u

uint32_t gp_policy_budget_pages(const struct gp_kv_options *options, uint32_t page_tokens)
{
    uint32_t pages = options->budget_tokens / page_tokens;

    return pages < 2 ? 2 : pages;
}

uint32_t gp_policy_cap_pages(const struct gp_kv_options *options, uint32_t page_tokens)
{
    uint32_t cap = options->max_pages > 0 ? options->max_pages : UINT32_MAX;

    if (options->policy == GP_POLICY_FULL)
        return UINT32_MAX;
    if (options->policy == GP_POLICY_FIXED) {
        uint32_t budget = gp_policy_budget_pages(options, page_tokens);

        cap = budget < cap ? budget : cap;
    }
    return cap;
}

uint32_t gp_policy_initial_pages(const struct gp_kv_options *options, uint32_t page_tokens)
{
    switch (options->policy) {
    case GP_POLICY_FULL:
        return 0;
    case GP_POLICY_FIXED:
        return gp_policy_budget_pages(options, page_tokens);
    default:
        break;
    }
    if (!gp_policy_is_baseline(options))
        return options->initial_pages;
    /* With a trigger of its own it never asks at full pages: it grows from cut to cut. */
    return options->trigger == GP_TRIGGER_PAGE ? gp_policy_rest_pages(options, page_tokens) : 0;
}

static uint64_t pages_for(uint64_t slots, uint32_t page_tokens)
{
    return (slots + page_tokens - 1) / page_tokens;
}

/* What a policy with a scorer grows to: its budget, and what comes until it cuts. */
static uint64_t scored_pages(const struct gp_kv_options *options, uint32_t page_tokens,
                             uint32_t prefill)
{
    uint64_t slots = (uint64_t)gp_policy_budget_slots(options, page_tokens) + 1;

    if (options->trigger == GP_TRIGGER_PAGE)
        return gp_policy_rest_pages(options, page_tokens);
    /* A prompt is run whole, and one row more. */
    if (slots < (uint64_t)prefill + 1)
        slots = (uint64_t)prefill + 1;
    if (options->trigger == GP_TRIGGER_STEPS)
        slots += options->trigger_steps - 1;
    return pages_for(slots, page_tokens);
}

uint32_t gp_policy_most_pages(const struct gp_kv_options *options, uint32_t page_tokens,
                              uint32_t prefill, uint32_t tokens)
{
    /* The last token is never run. */
    uint64_t rows = tokens > prefill + 1 ? tokens - 1 : prefill;
    uint64_t all = pages_for(rows, page_tokens), most = gp_policy_cap_pages(options, page_tokens);
    /* A prompt that ends with its page grows without asking. */
    uint64_t least = prefill / page_tokens + 1;

    if (gp_policy_is_baseline(options)) {
        uint64_t scored = scored_pages(options, page_tokens, prefill);

        most = scored < most ? scored : most;
    }
    most = most > least ? most : least;
    return (uint32_t)(all < most ? all : most);
}

/* A budget is not given up because the pool is empty. */
static bool has_budget(const struct gp_kv_options *options)
{
    return options->policy == GP_POLICY_FIXED || gp_policy_is_baseline(options);
}

static bool pool_is_idle(const struct gp_kv_options *options, const struct gp_boundary_view *view)
{
    return !has_budget(options) &&
           (double)view->pool_used < options->pressure * (double)view->pool_total;
}

/* Does the boundary come to question 5, with no history to lose before it? */
static bool policy_speaks(const struct gp_kv_options *options, const struct gp_boundary_view *view)
{
    return options->policy != GP_POLICY_FULL && view->has_summaries && view->pages >= 2 &&
           view->reached_initial && !pool_is_idle(options, view);
}

bool gp_policy_wants_signal(const struct gp_kv_options *options,
                            const struct gp_boundary_view *view)
{
    bool looks = options->policy == GP_POLICY_GROWPAGE || options->policy == GP_POLICY_INVERSE ||
                 options->policy == GP_POLICY_SHRINK;

    return looks && policy_speaks(options, view);
}

static bool may_shrink(const struct gp_kv_options *options, const struct gp_boundary_view *view)
{
    uint64_t left = (uint64_t)(view->pages - 1) * view->page_tokens;

    return left >= options->shrink_floor && left >= 2 * (uint64_t)view->page_tokens;
}

static enum gp_policy_action ask_policy(const struct gp_kv_options *options,
                                        const struct gp_boundary_view *view, double delta)
{
    bool grow = false;

    switch (options->policy) {
    case GP_POLICY_FULL:
        grow = true;
        break;
    case GP_POLICY_FIXED:
    case GP_POLICY_ZIPAGE:
    case GP_POLICY_GKV:
    case GP_POLICY_RKV:
    case GP_POLICY_MORPHKV:
    case GP_POLICY_SNAPKV:
    case GP_POLICY_H2O:
    case GP_POLICY_STREAMING:
        break;
    case GP_POLICY_RANDOM:
        grow = gp_rng_uniform_at(options->seed, RANDOM_STREAM, view->index) >=
               options->compress_probability;
        break;
    case GP_POLICY_INVERSE:
        grow = delta <= options->threshold;
        break;
    case GP_POLICY_SHRINK:
        if (delta < options->shrink_threshold && may_shrink(options, view))
            return GP_DO_SHRINK;
        grow = delta > options->threshold;
        break;
    case GP_POLICY_GROWPAGE:
        grow = delta > options->threshold;
        break;
    }
    return grow ? GP_DO_GROW : GP_DO_COMPRESS;
}

struct gp_decision gp_policy_decide(const struct gp_kv_options *options,
                                    const struct gp_boundary_view *view, double delta)
{
    struct gp_decision decision = {GP_DO_GROW, GP_BECAUSE_POLICY};

    if (!view->has_summaries)
        return (struct gp_decision){GP_DO_GROW, GP_BECAUSE_START};
    if (options->policy == GP_POLICY_FULL)
        return decision;
    if (policy_speaks(options, view))
        decision.action = ask_policy(options, view, delta);
    else if (!view->reached_initial || view->pages < 2)
        decision.cause = GP_BECAUSE_INITIAL;
    else
        decision.cause = GP_BECAUSE_PRESSURE;
    if (decision.action == GP_DO_GROW && view->pages >= 2 && options->max_pages > 0 &&
        view->pages >= options->max_pages)
        return (struct gp_decision){GP_DO_COMPRESS, GP_BECAUSE_CAPPED};
    return decision;
}

bool gp_policy_may_compress(const struct gp_kv_options *options,
                            const struct gp_boundary_view *view)
{
    if (options->policy == GP_POLICY_FULL || view->pages < 2 || !view->has_summaries)
        return false;
    return !gp_policy_is_baseline(options) ||
           gp_policy_slots_after(options, view->page_tokens, view->pages) >
               gp_policy_protected(options);
}
