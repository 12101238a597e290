#include "eval/summary.h"

#include <math.h>

#include "base/mem.h"

/* Shares of an arm in a suite. */
struct shares {
    double *values;
    uint64_t *indices;
    size_t count;
};

static int take_shares(const struct gp_results *r, uint32_t arm, uint32_t suite, struct shares *out,
                       struct gp_error *err)
{
    size_t items;
    const struct gp_result *first = gp_results_of(r, arm, suite, &items);

    return gp_results_shares(first, items, &out->values, &out->indices, &out->count, err);
}

static void free_shares(struct shares *shares, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        gp_mem_free(shares[i].values);
        gp_mem_free(shares[i].indices);
    }
}

/* Problem by problem, where both were asked: a - b into a. */
static void subtract(struct shares *a, const struct shares *b)
{
    size_t kept = 0, j = 0;

    for (size_t i = 0; i < a->count; i++) {
        while (j < b->count && b->indices[j] < a->indices[i])
            j++;
        if (j == b->count || b->indices[j] != a->indices[i])
            continue;
        a->indices[kept] = a->indices[i];
        a->values[kept++] = a->values[i] - b->values[j];
    }
    a->count = kept;
}

static int interval_of(const struct shares *shares, uint32_t count, uint64_t seed,
                       struct gp_interval *out, struct gp_error *err)
{
    struct gp_stratum strata[GP_RESULTS_SUITES_MAX];
    size_t filled = 0;

    for (uint32_t i = 0; i < count; i++)
        if (shares[i].count > 0)
            strata[filled++] = (struct gp_stratum){shares[i].values, shares[i].count};
    if (filled > 0)
        return gp_bootstrap(strata, filled, seed, out, err);
    *out = (struct gp_interval){NAN, NAN, NAN};
    return GP_OK;
}

static int take_passes(const struct gp_results *r, uint32_t arm, uint32_t reference, uint64_t seed,
                       struct gp_summary *out, struct gp_error *err)
{
    struct shares own[GP_RESULTS_SUITES_MAX] = {0}, other[GP_RESULTS_SUITES_MAX] = {0};
    bool compares = reference != UINT32_MAX && reference != arm;
    int rc = GP_OK;

    for (uint32_t s = 0; !rc && s < r->suite_count; s++) {
        rc = take_shares(r, arm, s, &own[s], err);
        if (!rc)
            rc = interval_of(&own[s], 1, seed, &out->pass[s], err);
        if (!rc && compares)
            rc = take_shares(r, reference, s, &other[s], err);
        out->suite_count += !rc && own[s].count > 0;
    }
    if (!rc)
        rc = interval_of(own, r->suite_count, seed, &out->pass_all, err);
    for (uint32_t s = 0; s < r->suite_count; s++)
        subtract(&own[s], &other[s]);
    if (!rc)
        rc = interval_of(own, r->suite_count, seed, &out->difference, err);
    free_shares(own, r->suite_count);
    free_shares(other, r->suite_count);
    return rc;
}

/* The first token is the prefill's. */
static double tpot_of(const struct gp_figures *f)
{
    return f->output_tokens > 1 ? f->decode_ms / (double)(f->output_tokens - 1) : 0;
}

static void add_figures(struct gp_summary *s, const struct gp_figures *f, double page_tokens)
{
    s->samples++;
    s->budget += f->pages_mean * page_tokens;
    s->tokens += (double)f->output_tokens;
    s->tpot_ms += tpot_of(f);
    s->grow += (double)f->grow;
    s->compress += (double)f->compress;
    s->shrink += (double)f->shrink;
    s->start += (double)f->start;
    s->initial += (double)f->initial;
    s->pressure += (double)f->pressure;
    s->capped += (double)f->capped;
    s->fallback += (double)f->fallback;
    s->preempt += (double)f->preempt;
    s->demand_ms += f->demand_ms;
    s->score_ms += f->score_ms;
    s->select_ms += f->select_ms;
    s->compact_ms += f->compact_ms;
    s->decode_ms += f->decode_ms;
}

static struct gp_suite_speed speed_of(const struct gp_arm *arm, uint32_t suite,
                                      const struct gp_result *items, size_t count)
{
    const struct gp_served *served = &arm->suite[suite];
    struct gp_suite_speed speed = {
        .tps = gp_served_tps(served),
        .seconds = served->ms > 0 ? served->ms / 1e3 : NAN,
    };

    for (size_t i = 0; i < count; i++) {
        speed.tpot_ms += tpot_of(&items[i].figures);
        speed.budget += items[i].figures.pages_mean * arm->page_tokens;
    }
    /* NaN where nothing was asked. */
    speed.tpot_ms /= (double)count;
    speed.budget /= (double)count;
    return speed;
}

int gp_summarise(const struct gp_results *results, uint32_t arm, uint32_t reference, uint64_t seed,
                 struct gp_summary *out, struct gp_error *err)
{
    const struct gp_arm *a = &results->arms[arm];
    struct gp_summary s = {0};

    for (uint32_t suite = 0; suite < results->suite_count; suite++) {
        size_t count;
        const struct gp_result *items = gp_results_of(results, arm, suite, &count);
        for (size_t i = 0; i < count; i++)
            add_figures(&s, &items[i].figures, a->page_tokens);
        s.speed[suite] = speed_of(a, suite, items, count);
    }
    double samples = s.samples > 0 ? (double)s.samples : 1;
    s.budget /= samples;
    s.tokens /= samples;
    s.tpot_ms /= samples;
    s.tps = gp_served_tps(&a->served);
    s.concurrency = a->served.steps > 0 ? a->served.resident / a->served.steps : NAN;
    int rc = take_passes(results, arm, reference, seed, &s, err);
    if (!rc)
        *out = s;
    return rc;
}

/* ---- sufficient budgets ---- */

static bool is_right(const struct shares *shares, uint64_t index)
{
    for (size_t i = 0; i < shares->count; i++)
        if (shares->indices[i] == index)
            return shares->values[i] > 0.5;
    return false;
}

int gp_sufficient(const struct gp_results *results, const uint32_t *arms, uint32_t arm_count,
                  uint32_t suite, uint32_t **budgets, uint64_t **indices, size_t *count,
                  struct gp_error *err)
{
    struct shares shares[GP_RESULTS_ARMS_MAX] = {0};
    uint32_t nominal[GP_RESULTS_ARMS_MAX];
    bool right[GP_RESULTS_ARMS_MAX];
    int rc = GP_OK;

    for (uint32_t i = 0; !rc && i < arm_count; i++) {
        rc = take_shares(results, arms[i], suite, &shares[i], err);
        nominal[i] = results->arms[arms[i]].budget;
    }
    uint32_t *found = rc ? NULL : gp_mem_alloc_array(shares[0].count + 1, sizeof *found);
    if (!rc && !found)
        rc = gp_fail(err, GP_ENOMEM, "report: out of memory");
    if (rc) {
        free_shares(shares, arm_count);
        return rc;
    }
    for (size_t p = 0; p < shares[0].count; p++) {
        for (uint32_t i = 0; i < arm_count; i++)
            right[i] = is_right(&shares[i], shares[0].indices[p]);
        found[p] = gp_budget_sufficient(nominal, right, arm_count);
    }
    *budgets = found;
    *indices = shares[0].indices;
    *count = shares[0].count;
    shares[0].indices = NULL;
    free_shares(shares, arm_count);
    return GP_OK;
}
