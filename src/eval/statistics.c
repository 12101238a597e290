#include "eval/statistics.h"

#include <math.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/mem.h"

#define ROOM_AT_LEAST 64u

int gp_values_add(struct gp_values *values, double value, struct gp_error *err)
{
    if (values->count == values->room) {
        size_t larger = values->room ? values->room * 2 : ROOM_AT_LEAST;
        double *grown = gp_mem_realloc(values->items, values->room * sizeof *values->items,
                                       larger * sizeof *values->items);
        if (!grown)
            return gp_fail(err, GP_ENOMEM, "measurements: out of memory");
        values->items = grown;
        values->room = larger;
    }
    values->items[values->count++] = value;
    return GP_OK;
}

void gp_values_free(struct gp_values *values)
{
    gp_mem_free(values->items);
    *values = (struct gp_values){0};
}

double gp_quantile(const double *ascending, size_t count, double q)
{
    gp_assert(count > 0 && q >= 0 && q <= 1);
    double at = q * (double)(count - 1);
    size_t below = (size_t)at;
    size_t above = below + 1 < count ? below + 1 : below;

    return ascending[below] + (at - (double)below) * (ascending[above] - ascending[below]);
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

void gp_spread_of(struct gp_values *values, struct gp_spread *out)
{
    const double *items = values->items;
    size_t count = values->count;
    double sum = 0, squares = 0;

    if (count == 0) {
        *out = (struct gp_spread){0, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
        return;
    }
    qsort(values->items, count, sizeof *items, compare);
    for (size_t i = 0; i < count; i++)
        sum += items[i];
    double mean = sum / (double)count;
    /* Around the mean, for the squares themselves would lose what tells the values apart. */
    for (size_t i = 0; i < count; i++)
        squares += (items[i] - mean) * (items[i] - mean);
    *out = (struct gp_spread){
        .count = count,
        .mean = mean,
        .stddev = count > 1 ? sqrt(squares / (double)(count - 1)) : 0,
        .min = items[0],
        .p50 = gp_quantile(items, count, 0.50),
        .p90 = gp_quantile(items, count, 0.90),
        .p99 = gp_quantile(items, count, 0.99),
        .max = items[count - 1],
    };
}
