/* Definition: the scorer of the fixed-budget policies, for one KV head (growpage_options.h has its
 * switches, docs/POLICIES.md who uses which).
 *
 * There is one version.  Its time goes into dot products and softmaxes, and those it takes from
 * the table, which gives the same bits on every level. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "kernels/internal.h"

/* Keys of which one is nearly a copy of the other, by the cosine between them. */
#define ALIKE 0.5f

static uint32_t position_of(const struct gp_score_input *in, uint32_t slot)
{
    return in->position ? in->position[slot] : slot;
}

static bool may_drop(const struct gp_score_input *in, uint32_t slot)
{
    return position_of(in, slot) < in->next - in->protect;
}

static void divide(float *x, uint32_t n, float divisor)
{
    for (uint32_t i = 0; i < n; i++)
        x[i] /= divisor;
}

static void hide(const struct gp_score_input *in, uint32_t end, float *logits)
{
    for (uint32_t i = 0; i < in->slots; i++)
        if (position_of(in, i) >= end)
            logits[i] = -INFINITY;
}

void gp_score_row(const struct gp_kernels *k, enum gp_score_group join,
                  const struct gp_score_input *in, const float *q, uint32_t end, float *out,
                  float *work)
{
    const uint32_t n = in->slots;

    for (uint32_t g = 0; g < in->group; g++, q += in->kv->k_dim) {
        float *head = g > 0 ? work : out;

        k->kv_scores(in->kv, q, 0, n, in->scale, head);
        if (join != GP_GROUP_LOGITS) {
            hide(in, end, head);
            k->softmax(head, n);
        }
        if (g > 0 && join == GP_GROUP_MEAN)
            k->add(out, work, n);
        else if (g > 0)
            k->max_into(out, work, n);
    }
    if (join == GP_GROUP_LOGITS) {
        hide(in, end, out);
        k->softmax(out, n);
    }
    if (join == GP_GROUP_MEAN)
        divide(out, n, (float)in->group);
}

/* A row of the window sees what was there when it ran, or only what may be dropped. */
static void window_weights(const struct gp_kernels *k, const struct gp_scorer *how,
                           const struct gp_score_input *in, float *out, float *joined, float *head)
{
    const uint32_t n = in->slots;

    gp_assert(in->query_count >= 1 && in->query_count <= in->query_ring);
    for (uint32_t r = 0; r < in->query_count; r++) {
        const uint32_t row = (in->query_first + r) % in->query_ring;
        const uint32_t seen = in->next - in->query_count + r + 1;

        gp_score_row(k, how->group, in, in->queries + row * in->query_stride,
                     how->window_keys ? seen : in->next - in->protect, r > 0 ? joined : out, head);
        if (r > 0 && how->reduce == GP_REDUCE_MAX)
            k->max_into(out, joined, n);
        else if (r > 0)
            k->add(out, joined, n);
    }
    if (how->reduce == GP_REDUCE_MEAN)
        divide(out, n, (float)in->query_count);
}

static float largest(const float *x, uint32_t n)
{
    float max = x[0];

    for (uint32_t i = 1; i < n; i++)
        max = x[i] > max ? x[i] : max;
    return max;
}

static float remembered(const struct gp_scorer *how, float before, float now)
{
    const float old = how->decay * before;

    switch (how->history) {
    case GP_HISTORY_NONE:
        break;
    case GP_HISTORY_MAX:
        return old > now ? old : now;
    case GP_HISTORY_MEAN:
        return old + (1.0f - how->decay) * now;
    case GP_HISTORY_SUM:
        return old + now;
    }
    return now;
}

static void pool(const struct gp_scorer *how, const float *x, uint32_t n, float *out)
{
    const uint32_t reach = how->pool_width / 2;

    for (uint32_t i = 0; i < n; i++) {
        const uint32_t begin = i > reach ? i - reach : 0;
        const uint32_t end = n - i > reach ? i + reach + 1 : n;
        float sum = 0.0f;

        for (uint32_t j = begin; j < end; j++)
            sum += x[j];
        out[i] = how->pool == GP_POOL_MAX ? largest(x + begin, end - begin)
                                          : sum / (float)how->pool_width;
    }
}

/* Whose row is `row` exempts one key of it from blame: the newest that it is nearly a copy of, so
 * that of a run of copies the last is kept. */
static void exempt(const struct gp_scorer *how, float *row, uint32_t n)
{
    uint32_t i = n;

    while (i > 0 && !(row[i - 1] > ALIKE))
        i--;
    if (i > 0)
        row[i - 1] = 0.0f;
    else if (how->redundancy_slot0)
        row[0] = 0.0f;
}

/* penalty [slots]: softmax over all slots of how alike each key is to others.  row [slots],
 * inverse [slots], key [k_dim] are scratch. */
static void penalties(const struct gp_kernels *k, const struct gp_scorer *how,
                      const struct gp_score_input *in, float *penalty, float *row, float *inverse,
                      float *key)
{
    const uint32_t n = in->slots, dim = in->kv->k_dim;
    const bool page = how->redundancy == GP_REDUNDANCY_PAGE;
    const uint32_t scope = page ? in->kv->page_tokens : n;

    memset(penalty, 0, n * sizeof *penalty);
    for (uint32_t i = 0; i < n; i++) {
        k->kv_load(in->kv, i, key, NULL);
        const float norm = k->rms(key, dim) * sqrtf((float)dim);

        inverse[i] = norm > 0.0f ? 1.0f / norm : 0.0f;
    }
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t begin = i / scope * scope;
        const uint32_t end = n - begin > scope ? begin + scope : n;

        k->kv_load(in->kv, i, key, NULL);
        for (uint32_t d = 0; d < dim; d++)
            key[d] *= inverse[i];
        k->kv_scores(in->kv, key, begin, end, 1.0f, row);
        for (uint32_t j = begin; j < end; j++)
            row[j - begin] *= inverse[j];
        row[i - begin] = 0.0f;
        exempt(how, row, end - begin);
        k->add(penalty + begin, row, end - begin);
    }
    divide(penalty, n, how->redundancy_scale * (float)scope);
    k->softmax(penalty, n);
    if (how->redundancy_normalize)
        divide(penalty, n, largest(penalty, n - in->protect));
}

size_t gp_score_work_floats(uint32_t slots, uint32_t k_dim)
{
    return (size_t)3 * slots + k_dim;
}

/* What this cut says of each slot, joined with what the one before said; the slots behind
 * `columns` take no part. */
static void remember(const struct gp_scorer *how, const struct gp_score_input *in, uint32_t columns,
                     float *memory)
{
    if (how->normalize) {
        const float max = largest(memory, columns);

        if (max > 0.0f)
            divide(memory, columns, max);
    }
    for (uint32_t i = 0; i < columns && i < in->before_count; i++)
        memory[i] = remembered(how, in->before[i], memory[i]);
    for (uint32_t i = columns; i < in->slots; i++)
        memory[i] = 0.0f;
}

void gp_score(const struct gp_kernels *k, const struct gp_scorer *how,
              const struct gp_score_input *in, float *memory, float *score, float *work)
{
    const uint32_t n = in->slots;
    const bool in_order = !in->position;
    const uint32_t columns = in_order && !how->remember_newest ? n - in->protect : n;
    float *row = work, *other = work + n, *penalty = work + 2 * (size_t)n;

    gp_assert(in->protect < n && in->next >= in->protect && (!in_order || in->next == n));
    if (how->source == GP_SCORE_WINDOW) {
        window_weights(k, how, in, memory, row, other);
        remember(how, in, columns, memory);
    } else if (how->source == GP_SCORE_ALL) {
        gp_assert(in->before_count == n);
        memcpy(memory, in->before, n * sizeof *memory);
    } else {
        for (uint32_t i = 0; i < n; i++)
            memory[i] = (float)position_of(in, i);
    }
    memcpy(score, memory, n * sizeof *score);
    if (how->pool != GP_POOL_NONE && (in->first || !how->pool_first_only))
        pool(how, memory, columns, score);
    if (how->redundancy != GP_REDUNDANCY_NONE) {
        penalties(k, how, in, penalty, row, other, work + 3 * (size_t)n);
        for (uint32_t i = 0; i < n; i++)
            score[i] = how->lambda * score[i] - (1.0f - how->lambda) * penalty[i];
    }
    for (uint32_t i = 0; i < n; i++)
        if (position_of(in, i) < how->sinks && may_drop(in, i))
            score[i] = INFINITY;
}
