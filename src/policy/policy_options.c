/* A request's cache options: defaults, ranges, and the policy's name as text. */
#include "policy/policy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "policy/internal.h"

static const char *const policy_names[] = {
    [GP_POLICY_FULL] = "full",
    [GP_POLICY_GROWPAGE] = "growpage",
    [GP_POLICY_FIXED] = "fixed",
    [GP_POLICY_RANDOM] = "random",
    [GP_POLICY_INVERSE] = "inverse",
    [GP_POLICY_SHRINK] = "shrink",
    [GP_POLICY_ZIPAGE] = "zipage",
    [GP_POLICY_GKV] = "gkv",
    [GP_POLICY_RKV] = "rkv",
    [GP_POLICY_MORPHKV] = "morphkv",
    [GP_POLICY_SNAPKV] = "snapkv",
    [GP_POLICY_H2O] = "h2o",
    [GP_POLICY_STREAMING] = "streaming",
};
#define POLICY_COUNT (sizeof policy_names / sizeof policy_names[0])

void gp_policy_defaults(struct gp_kv_options *options)
{
    *options = (struct gp_kv_options){
        .policy = GP_POLICY_GROWPAGE,
        .budget_tokens = 4096,
        .compress_probability = 0.7,
        .shrink_threshold = -0.005,
        .shrink_floor = 1024,
        .beta_short = 0.9f,
        .beta_long = 0.999f,
        .summary_init = GP_SUMMARY_FIRST,
        .coverage = 0.99,
        .threshold = 0.0,
        .metric = GP_METRIC_TOP_P,
        .gqa_demand = GP_GQA_MEAN,
        .initial_pages = 12,
        .gqa_score = GP_GQA_SCORE_MAX,
        .score_domain = GP_DOMAIN_UNPROTECTED,
        .fallback = GP_FALLBACK_COMPRESS,
        .resume = GP_RESUME_REPLAY,
        .compact = GP_COMPACT_FILL,
        .trigger = GP_TRIGGER_PAGE,
        .trigger_steps = 128,
    };
}

/* Comparisons are written so that a NaN fails them. */
static int check_numbers(const struct gp_kv_options *o, struct gp_error *err)
{
    if (o->policy == GP_POLICY_FIXED && o->budget_tokens == 0)
        return gp_fail(err, GP_EINVAL, "kv fixed: a budget of 0 tokens");
    if (!(o->compress_probability >= 0 && o->compress_probability <= 1))
        return gp_fail(err, GP_EINVAL, "kv random: probability %g is not in [0, 1]",
                       o->compress_probability);
    if (!isfinite(o->threshold))
        return gp_fail(err, GP_EINVAL, "kv-threshold: %g is not a finite number", o->threshold);
    if (!isfinite(o->shrink_threshold))
        return gp_fail(err, GP_EINVAL, "kv shrink: threshold %g is not a finite number",
                       o->shrink_threshold);
    if (o->policy == GP_POLICY_SHRINK && o->shrink_threshold > o->threshold)
        return gp_fail(err, GP_EINVAL, "kv shrink: threshold %g is above kv-threshold %g",
                       o->shrink_threshold, o->threshold);
    if (!(o->beta_short >= 0 && o->beta_short < 1))
        return gp_fail(err, GP_EINVAL, "kv-beta-short: %g is not in [0, 1)", (double)o->beta_short);
    if (!(o->beta_long >= 0 && o->beta_long < 1))
        return gp_fail(err, GP_EINVAL, "kv-beta-long: %g is not in [0, 1)", (double)o->beta_long);
    if (!(o->coverage > 0 && o->coverage <= 1))
        return gp_fail(err, GP_EINVAL, "kv-coverage: %g is not in (0, 1]", o->coverage);
    if (!(o->pressure >= 0 && o->pressure <= 1))
        return gp_fail(err, GP_EINVAL, "kv-pressure: %g is not in [0, 1]", o->pressure);
    return GP_OK;
}

/* With one page there is nothing to compare and nothing to compact: two is the least everywhere. */
static int check_pages(const struct gp_kv_options *o, uint32_t page_tokens, struct gp_error *err)
{
    if (page_tokens < 2 || page_tokens > GP_LIMIT_PAGE_TOKENS)
        return gp_fail(err, GP_EINVAL, "page-size: %u tokens is not in [2, %u]", page_tokens,
                       GP_LIMIT_PAGE_TOKENS);
    if (o->initial_pages < 2)
        return gp_fail(err, GP_EINVAL, "kv-initial-pages: %u is below 2", o->initial_pages);
    if (o->max_pages == 1)
        return gp_fail(err, GP_EINVAL, "kv-max-pages: 1 is below 2 (0 means no limit)");
    if (o->local > page_tokens)
        return gp_fail(err, GP_EINVAL, "kv-local: %u is more than a page of %u tokens", o->local,
                       page_tokens);
    if (o->protect >= page_tokens && !gp_policy_is_baseline(o))
        return gp_fail(err, GP_EINVAL, "kv-protect: %u is not below a page of %u tokens",
                       o->protect, page_tokens);
    return GP_OK;
}

static int check_enum(const char *what, int value, int last, struct gp_error *err)
{
    if (value < 0 || value > last)
        return gp_fail(err, GP_EINVAL, "%s: %d is not a known value", what, value);
    return GP_OK;
}

int gp_policy_check(const struct gp_kv_options *options, uint32_t page_tokens, struct gp_error *err)
{
    const struct {
        const char *what;
        int value, last;
    } enums[] = {
        {"kv", (int)options->policy, GP_POLICY_STREAMING},
        {"kv: select", (int)options->select, GP_POLICY_STREAMING},
        {"kv-summary-init", (int)options->summary_init, GP_SUMMARY_ZERO},
        {"kv-metric", (int)options->metric, GP_METRIC_EXP_ENTROPY},
        {"kv-gqa-demand", (int)options->gqa_demand, GP_GQA_PER_HEAD},
        {"kv-gqa-score", (int)options->gqa_score, GP_GQA_SCORE_MEAN},
        {"kv-score-domain", (int)options->score_domain, GP_DOMAIN_ALL},
        {"kv-fallback", (int)options->fallback, GP_FALLBACK_PREEMPT},
        {"kv-resume", (int)options->resume, GP_RESUME_RECOMPUTE},
        {"kv-compact", (int)options->compact, GP_COMPACT_FILL},
        {"kv-trigger", (int)options->trigger, GP_TRIGGER_TOKEN},
    };

    for (size_t i = 0; i < sizeof enums / sizeof enums[0]; i++) {
        int rc = check_enum(enums[i].what, enums[i].value, enums[i].last, err);

        if (rc)
            return rc;
    }
    int rc = check_numbers(options, err);

    if (!rc)
        rc = check_pages(options, page_tokens, err);
    return rc ? rc
              : gp_policy_check_scorer(options, policy_names[options->policy], page_tokens, err);
}

/* ---- text ---- */

/* The parts of "name:first:second+select"; an absent one is NULL. */
struct words {
    char text[64];
    const char *name, *first, *second, *select;
};

static bool split(const char *text, struct words *words)
{
    size_t length = strnlen(text, sizeof words->text);
    const char **parts[] = {&words->first, &words->second};

    *words = (struct words){.name = words->text};
    if (length == sizeof words->text)
        return false;
    memcpy(words->text, text, length);
    char *at = strrchr(words->text, '+');

    if (at && (at[1] < '0' || at[1] > '9')) { /* not a number's sign */
        *at++ = '\0';
        words->select = at;
    }
    at = words->text;

    for (size_t i = 0; (at = strchr(at, ':')) != NULL; i++) {
        if (i == sizeof parts / sizeof parts[0])
            return false;
        *at++ = '\0';
        *parts[i] = at;
    }
    return true;
}

bool gp_policy_parse_count(const char *text, uint32_t *out)
{
    uint64_t value = 0;

    if (*text == '\0')
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        value = value * 10 + (uint64_t)(*text - '0');
        if (value > UINT32_MAX)
            return false;
    }
    *out = (uint32_t)value;
    return true;
}

/* strtod alone would take "inf", "0x1p3" and leading blanks as well. */
bool gp_policy_parse_number(const char *text, double *out)
{
    char *end;

    if (*text == '\0' || text[strspn(text, "+-.0123456789eE")] != '\0')
        return false;
    double value = strtod(text, &end);

    if (*end != '\0' || !isfinite(value))
        return false;
    *out = value;
    return true;
}

static int parse_budget(const char *text, const struct words *words, struct gp_kv_options *options,
                        struct gp_error *err)
{
    uint32_t budget;

    if (!words->first)
        return gp_fail(err, GP_EINVAL, "kv policy %s: a budget in tokens is missing (%s:T)", text,
                       words->name);
    if (words->second)
        return gp_fail(err, GP_EINVAL, "kv policy %s: nothing may follow the budget", text);
    if (!gp_policy_parse_count(words->first, &budget) || budget == 0)
        return gp_fail(err, GP_EINVAL, "kv policy %s: '%s' is not a number of tokens", text,
                       words->first);
    options->budget_tokens = budget;
    return GP_OK;
}

static int parse_random(const char *text, const struct words *words, struct gp_kv_options *options,
                        struct gp_error *err)
{
    if (words->second)
        return gp_fail(err, GP_EINVAL, "kv policy %s: nothing may follow the probability", text);
    if (words->first && (!gp_policy_parse_number(words->first, &options->compress_probability) ||
                         options->compress_probability < 0 || options->compress_probability > 1))
        return gp_fail(err, GP_EINVAL, "kv policy %s: '%s' is not a probability", text,
                       words->first);
    return GP_OK;
}

static int parse_shrink(const char *text, const struct words *words, struct gp_kv_options *options,
                        struct gp_error *err)
{
    if (!words->first)
        return GP_OK;
    if (!words->second)
        return gp_fail(err, GP_EINVAL,
                       "kv policy %s: a floor in tokens is missing (shrink:LOW:FLOOR)", text);
    if (!gp_policy_parse_number(words->first, &options->shrink_threshold))
        return gp_fail(err, GP_EINVAL, "kv policy %s: '%s' is not a number", text, words->first);
    if (!gp_policy_parse_count(words->second, &options->shrink_floor))
        return gp_fail(err, GP_EINVAL, "kv policy %s: '%s' is not a number of tokens", text,
                       words->second);
    return GP_OK;
}

static size_t find_policy(const char *name)
{
    size_t policy = 0;

    while (policy < POLICY_COUNT && strcmp(name, policy_names[policy]) != 0)
        policy++;
    return policy;
}

/* "+zipage" behind a policy of the paper's. */
static int parse_select(const char *text, const char *name, struct gp_kv_options *options,
                        struct gp_error *err)
{
    size_t select = find_policy(name);

    if (options->policy == GP_POLICY_FULL)
        return gp_fail(err, GP_EINVAL,
                       "kv policy %s: full drops nothing that a scorer could select", text);
    if (gp_policy_is_baseline(options))
        return gp_fail(err, GP_EINVAL, "kv policy %s: %s has a scorer of its own", text,
                       policy_names[options->policy]);
    if (select == POLICY_COUNT || !gp_policy_may_select((enum gp_policy)select))
        return gp_fail(
            err, GP_EINVAL,
            "kv policy %s: '%s' is not one of zipage, gkv, rkv, snapkv, which can select", text,
            name);
    options->select = (enum gp_policy)select;
    gp_policy_set_scorer(options);
    return GP_OK;
}

/* What follows the name of a policy. */
static int parse_numbers(const char *text, const struct words *words, struct gp_kv_options *options,
                         struct gp_error *err)
{
    struct gp_kv_options defaults;

    gp_policy_defaults(&defaults);
    if (gp_policy_is_baseline(options)) {
        gp_policy_set_scorer(options);
        return parse_budget(text, words, options, err);
    }
    switch (options->policy) {
    case GP_POLICY_FIXED:
        return parse_budget(text, words, options, err);
    case GP_POLICY_RANDOM:
        options->compress_probability = defaults.compress_probability;
        return parse_random(text, words, options, err);
    case GP_POLICY_SHRINK:
        options->shrink_threshold = defaults.shrink_threshold;
        options->shrink_floor = defaults.shrink_floor;
        return parse_shrink(text, words, options, err);
    default:
        if (words->first)
            return gp_fail(err, GP_EINVAL, "kv policy %s: nothing may follow %s", text,
                           words->name);
        return GP_OK;
    }
}

int gp_policy_from_text(const char *text, struct gp_kv_options *options, struct gp_error *err)
{
    struct gp_kv_options parsed = *options, defaults;
    struct words words;
    size_t policy = split(text, &words) ? find_policy(words.name) : POLICY_COUNT;

    if (policy == POLICY_COUNT)
        return gp_fail(err, GP_EINVAL,
                       "kv policy %.80s: not one of full, growpage, fixed:T, random[:P], inverse, "
                       "shrink[:LOW:FLOOR], zipage:T, gkv:T, rkv:T, morphkv:T, snapkv:T, h2o:T, "
                       "streaming:T",
                       text);
    gp_policy_defaults(&defaults);
    parsed.policy = (enum gp_policy)policy;
    parsed.select = defaults.select;
    parsed.trigger = defaults.trigger;
    int rc = parse_numbers(text, &words, &parsed, err);

    if (rc == GP_OK && words.select)
        rc = parse_select(text, words.select, &parsed, err);
    if (rc == GP_OK)
        *options = parsed;
    return rc;
}

/* The shortest decimal that reads back as the same number. */
static void format_number(double value, char out[32])
{
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, 32, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            return;
    }
}

void gp_policy_to_text(const struct gp_kv_options *options, char out[64])
{
    const char *name =
        (size_t)options->policy < POLICY_COUNT ? policy_names[options->policy] : "unknown";
    char number[32];

    const bool selects =
        options->select != GP_POLICY_FULL && (size_t)options->select < POLICY_COUNT;
    const char *plus = selects ? "+" : "", *select = selects ? policy_names[options->select] : "";

    if (options->policy == GP_POLICY_FIXED || gp_policy_is_baseline(options)) {
        snprintf(out, 64, "%s:%u%s%s", name, options->budget_tokens, plus, select);
        return;
    }
    switch (options->policy) {
    case GP_POLICY_RANDOM:
        format_number(options->compress_probability, number);
        snprintf(out, 64, "%s:%s%s%s", name, number, plus, select);
        break;
    case GP_POLICY_SHRINK:
        format_number(options->shrink_threshold, number);
        snprintf(out, 64, "%s:%s:%u%s%s", name, number, options->shrink_floor, plus, select);
        break;
    default:
        snprintf(out, 64, "%s%s%s", name, plus, select);
    }
}
