/* analyze: its first argument, and the options that not every analysis takes. */
#include <stdlib.h>
#include <string.h>

#include "cli/settings.h"

/* Two forks of each answer are with the engine, too. */
#define REPLAYS_AT_ONCE 4u

#define BUDGET_PAGES_MAX 32u

static int find_kind(struct gp_settings *s, struct gp_error *err)
{
    const char *near = NULL;

    if (s->rest.count == 0)
        return gp_fail(err, GP_EINVAL, "no analysis; see growpage analyze --help");
    const char *typed = s->rest.items[0];
    uint32_t best = gp_nearest_limit(typed);
    for (int i = 0; i < GP_ANALYSIS_KINDS; i++) {
        const char *name = gp_analysis_name((enum gp_analysis_kind)i);
        size_t length;

        if (strcmp(typed, name) == 0) {
            s->analyze.kind = (enum gp_analysis_kind)i;
            s->rest.items++;
            s->rest.count--;
            return GP_OK;
        }
        const char *found = gp_nearest(typed, name, &best, &length);
        near = found ? found : near;
    }
    return near ? gp_fail(err, GP_EINVAL, "%.60s: no analysis; did you mean %s?", typed, near)
                : gp_fail(err, GP_EINVAL, "%.60s: no analysis; see growpage analyze --help", typed);
}

static int check(const struct gp_settings *s, struct gp_error *err)
{
    enum gp_analysis_kind kind = s->analyze.kind;
    uint32_t page = s->engine.page_tokens;
    const struct {
        const char *name;
        bool given, taken;
    } uses[] = {
        {"--kv", s->policies.count > 0, !gp_analysis_watches(kind)},
        {"--run-code", s->run_code, kind == GP_ANALYSIS_BUDGET},
        {"--budgets", s->analyze.budgets.count > 0, kind == GP_ANALYSIS_BUDGET},
        {"--horizon", s->analyze.horizon > 0, kind == GP_ANALYSIS_COUNTERFACTUAL},
        {"--tap-every", s->analyze.every > 0,
         kind == GP_ANALYSIS_SIGNAL || kind == GP_ANALYSIS_SPARSITY},
    };

    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        if (uses[i].given && !uses[i].taken)
            return gp_fail(err, GP_EINVAL, "%s: has no meaning for %s", uses[i].name,
                           gp_analysis_name(kind));
    for (uint32_t i = 0; i < s->analyze.budgets.count; i++)
        if (s->analyze.budgets.items[i] < 2 * page || s->analyze.budgets.items[i] % page)
            return gp_fail(err, GP_EINVAL, "--budgets: %u: must be pages of %u, at least two",
                           s->analyze.budgets.items[i], page);
    if (s->json && s->output)
        return gp_fail(err, GP_EINVAL, "--output: there is also --json; give one of them");
    if (s->rest.count > 0)
        return gp_fail(err, GP_EINVAL, "%.100s: unexpected argument", s->rest.items[0]);
    return GP_OK;
}

static int ascending(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

    return (left > right) - (left < right);
}

/* Two pages and their doubles, unless some were typed; in order, each once. */
static void settle_budgets(struct gp_uint_list *budgets, uint32_t page_tokens)
{
    uint32_t kept = 0;

    if (budgets->count == 0)
        for (uint32_t pages = 2; pages <= BUDGET_PAGES_MAX; pages *= 2)
            budgets->items[budgets->count++] = pages * page_tokens;
    qsort(budgets->items, budgets->count, sizeof *budgets->items, ascending);
    for (uint32_t i = 0; i < budgets->count; i++)
        if (i == 0 || budgets->items[i] != budgets->items[kept - 1])
            budgets->items[kept++] = budgets->items[i];
    budgets->count = kept;
}

int gp_settings_analyze(struct gp_settings *s, struct gp_error *err)
{
    struct gp_analyze_settings *a = &s->analyze;
    int rc = find_kind(s, err);

    if (!rc)
        rc = check(s, err);
    if (rc)
        return rc;
    settle_budgets(&a->budgets, s->engine.page_tokens);
    a->every = a->every ? a->every : 1;
    a->horizon = a->horizon ? a->horizon : s->engine.page_tokens;
    if (a->kind == GP_ANALYSIS_COUNTERFACTUAL && s->concurrency == 0)
        s->concurrency = REPLAYS_AT_ONCE;
    return GP_OK;
}
