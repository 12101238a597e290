#include "eval/groups.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"
#include "eval/statistics.h"

#define STREAM 0x67726f75u

/* ---- pairs ---- */

struct key {
    double value;
    size_t at;
};

static int by_value(const void *a, const void *b)
{
    const struct key *l = a, *r = b;

    if (l->value != r->value)
        return l->value < r->value ? -1 : 1;
    return (l->at > r->at) - (l->at < r->at);
}

static size_t *order_of(const struct gp_pair *items, size_t count, bool by_y)
{
    struct key *keys = gp_mem_alloc_array(count + 1, sizeof *keys);
    size_t *order = gp_mem_alloc_array(count + 1, sizeof *order);

    if (!keys || !order) {
        gp_mem_free(keys);
        gp_mem_free(order);
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        keys[i] = (struct key){by_y ? items[i].y : items[i].x, i};
    qsort(keys, count, sizeof *keys, by_value);
    for (size_t i = 0; i < count; i++)
        order[i] = keys[i].at;
    gp_mem_free(keys);
    return order;
}

int gp_pairs_open(struct gp_pairs *out, const struct gp_pair *items, size_t count,
                  struct gp_error *err)
{
    struct gp_pairs pairs = {
        .items = items,
        .count = count,
        .by_x = order_of(items, count, false),
        .by_y = order_of(items, count, true),
        .ranks = gp_mem_alloc_array(2 * count + 1, sizeof *pairs.ranks),
    };

    if (!pairs.by_x || !pairs.by_y || !pairs.ranks) {
        gp_pairs_close(&pairs);
        return gp_fail(err, GP_ENOMEM, "pairs: out of memory");
    }
    *out = pairs;
    return GP_OK;
}

void gp_pairs_close(struct gp_pairs *pairs)
{
    gp_mem_free(pairs->by_x);
    gp_mem_free(pairs->by_y);
    gp_mem_free(pairs->ranks);
    *pairs = (struct gp_pairs){0};
}

/* ---- what they say ---- */

/* The ranks of one side, one run of equal values after another. */
struct ranks {
    const struct gp_pairs *pairs;
    const uint32_t *weights;
    const size_t *order;
    bool by_y;
    size_t at, end;
    double below; /* the weight of all values that are smaller */
};

static double value_at(const struct ranks *r, size_t at)
{
    const struct gp_pair *pair = &r->pairs->items[r->order[at]];

    return r->by_y ? pair->y : pair->x;
}

/* The next run of equal values: its rank; false at the end. */
static bool next_run(struct ranks *r, double *rank)
{
    double weight = 0;

    r->at = r->end;
    if (r->at == r->pairs->count)
        return false;
    while (r->end < r->pairs->count && value_at(r, r->end) == value_at(r, r->at))
        weight += r->weights[r->pairs->items[r->order[r->end++]].group];
    *rank = r->below + (weight + 1) / 2;
    r->below += weight;
    return true;
}

static void rank_all(const struct gp_pairs *pairs, const uint32_t *weights, bool by_y, double *out)
{
    struct ranks r = {
        .pairs = pairs,
        .weights = weights,
        .order = by_y ? pairs->by_y : pairs->by_x,
        .by_y = by_y,
    };
    double rank;

    while (next_run(&r, &rank))
        for (size_t i = r.at; i < r.end; i++)
            out[r.order[i]] = rank;
}

double gp_spearman(void *ctx, const uint32_t *weights)
{
    const struct gp_pairs *pairs = ctx;
    double *x = pairs->ranks, *y = x + pairs->count;
    double n = 0, xx = 0, yy = 0, xy = 0;

    rank_all(pairs, weights, false, x);
    rank_all(pairs, weights, true, y);
    for (size_t i = 0; i < pairs->count; i++)
        n += weights[pairs->items[i].group];
    for (size_t i = 0; i < pairs->count; i++) {
        double w = weights[pairs->items[i].group];
        double dx = x[i] - (n + 1) / 2, dy = y[i] - (n + 1) / 2;

        xx += w * dx * dx;
        yy += w * dy * dy;
        xy += w * dx * dy;
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : NAN;
}

double gp_sign_agreement(void *ctx, const uint32_t *weights)
{
    const struct gp_pairs *pairs = ctx;
    double agree = 0, all = 0;

    for (size_t i = 0; i < pairs->count; i++) {
        const struct gp_pair *pair = &pairs->items[i];

        if (pair->x == 0 || pair->y == 0)
            continue;
        all += weights[pair->group];
        agree += (pair->x > 0) == (pair->y > 0) ? weights[pair->group] : 0;
    }
    return all > 0 ? agree / all : NAN;
}

double gp_mean_y(void *ctx, const uint32_t *weights)
{
    const struct gp_pairs *pairs = ctx;
    double sum = 0, all = 0;

    for (size_t i = 0; i < pairs->count; i++) {
        sum += pairs->items[i].y * weights[pairs->items[i].group];
        all += weights[pairs->items[i].group];
    }
    return all > 0 ? sum / all : NAN;
}

/* ---- intervals ---- */

static void draw(uint32_t *weights, size_t group_count, uint64_t seed, uint32_t round)
{
    uint32_t drawn[4] = {0};

    for (size_t i = 0; i < group_count; i++)
        weights[i] = 0;
    for (size_t i = 0; i < group_count; i++) {
        if (i % 4 == 0)
            gp_philox(seed, (const uint32_t[4]){(uint32_t)(i / 4), round, 0, STREAM}, drawn);
        weights[(uint64_t)drawn[i % 4] * group_count >> 32]++;
    }
}

int gp_bootstrap_groups(double (*of)(void *ctx, const uint32_t *weights), void *ctx,
                        size_t group_count, uint64_t seed, struct gp_interval *out,
                        struct gp_error *err)
{
    uint32_t *weights = gp_mem_alloc_array(group_count + 1, sizeof *weights);
    struct gp_values said = {0};
    struct gp_spread spread;
    int rc = weights ? GP_OK : gp_fail(err, GP_ENOMEM, "intervals: out of memory");

    for (size_t i = 0; !rc && i < group_count; i++)
        weights[i] = 1;
    double whole = rc ? NAN : of(ctx, weights);
    for (uint32_t round = 0; !rc && isfinite(whole) && round < GP_BOOTSTRAP_ROUNDS; round++) {
        draw(weights, group_count, seed, round);
        double value = of(ctx, weights);
        if (isfinite(value))
            rc = gp_values_add(&said, value, err);
    }
    gp_spread_of(&said, &spread); /* sorts them */
    if (!rc)
        *out = (struct gp_interval){
            .mean = whole,
            .low = said.count > 0 ? gp_quantile(said.items, said.count, 0.025) : NAN,
            .high = said.count > 0 ? gp_quantile(said.items, said.count, 0.975) : NAN,
        };
    gp_values_free(&said);
    gp_mem_free(weights);
    return rc;
}
