/* The least budget that suffices for each problem, and what policies that adapt gave it. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "eval/analyze_kinds.h"
#include "eval/rows.h"
#include "eval/statistics.h"

/* Of one problem under one policy: sums over its answers. */
struct cell {
    uint32_t answers, right;
    double pages;
};

struct problems {
    const struct gp_analysis *analysis;
    const struct gp_exam *exam;
    uint32_t policy_count, page_tokens;
    uint64_t count;       /* of all parts, one part after the other */
    struct cell *cells;   /* [problem][policy] */
    uint32_t *sufficient; /* [problem]; 0: none is */
};

static uint64_t problem_at(const struct problems *p, const struct gp_exam_part *part,
                           uint64_t index)
{
    for (const struct gp_exam_part *at = p->exam->parts; at < part; at++)
        index += at->count;
    return index;
}

static int take(void *ctx, const struct gp_sample *sample, struct gp_error *err)
{
    struct problems *p = ctx;
    const struct gp_question *q = sample->question;
    struct cell *cell =
        &p->cells[problem_at(p, q->part, q->index) * p->policy_count + sample->policy];

    (void)err;
    cell->answers++;
    cell->right += sample->correct;
    cell->pages += sample->pages_mean;
    return GP_OK;
}

static double capacity(const struct problems *p, uint64_t problem, uint32_t policy)
{
    const struct cell *cell = &p->cells[problem * p->policy_count + policy];

    return cell->pages / cell->answers * p->page_tokens;
}

static const char *policy_name(const struct problems *p, uint32_t policy, char out[64])
{
    gp_policy_format(&p->analysis->sitting->policies[policy], out);
    return out;
}

/* A problem is right under a budget when more than half of its answers are. */
static void settle(struct problems *p, uint64_t problem)
{
    bool right[GP_BUDGETS_MAX];

    for (uint32_t i = 0; i < p->analysis->budget_count; i++) {
        const struct cell *cell = &p->cells[problem * p->policy_count + i];
        right[i] = 2 * cell->right > cell->answers;
    }
    p->sufficient[problem] =
        gp_budget_sufficient(p->analysis->budgets, right, p->analysis->budget_count);
}

static int add_problem(const struct problems *p, const struct gp_exam_part *part, uint64_t index,
                       struct gp_error *err)
{
    uint64_t problem = problem_at(p, part, index);
    json_t *shares = json_array(), *capacities = json_object();
    char name[64];

    for (uint32_t i = 0; i < p->policy_count; i++) {
        const struct cell *cell = &p->cells[problem * p->policy_count + i];

        if (i < p->analysis->budget_count)
            json_array_append_new(shares, json_real((double)cell->right / cell->answers));
        else
            json_object_set_new(capacities, policy_name(p, i, name),
                                json_real(capacity(p, problem, i)));
    }
    json_t *sufficient =
        p->sufficient[problem] ? json_integer(p->sufficient[problem]) : json_null();
    return gp_analysis_add(p->analysis,
                           json_pack("{s:s, s:s, s:I, s:o, s:o, s:o}", "kind", "problem", "suite",
                                     part->name, "index", (json_int_t)index, "sufficient",
                                     sufficient, "right", shares, "capacity", capacities),
                           err);
}

/* The problems of a part, or of all parts, for which a budget suffices, or none does. */
static int add_class(const struct problems *p, const struct gp_exam_part *part, uint32_t budget,
                     uint32_t policy, struct gp_error *err)
{
    uint64_t begin = part ? problem_at(p, part, 0) : 0;
    uint64_t end = part ? begin + part->count : p->count;
    struct gp_interval mean = {NAN, NAN, NAN};
    struct gp_values values = {0};
    char name[64];
    int rc = GP_OK;

    for (uint64_t i = begin; !rc && i < end; i++)
        if (p->sufficient[i] == budget)
            rc = gp_values_add(&values, capacity(p, i, policy), err);
    struct gp_stratum stratum = {values.items, values.count};
    if (!rc && values.count > 0)
        rc = gp_bootstrap(&stratum, 1, gp_analysis_seed(p->analysis), &mean, err);
    if (!rc)
        rc = gp_analysis_add(
            p->analysis,
            json_pack("{s:s, s:s, s:s, s:o, s:I, s:o, s:o, s:o}", "kind", "class", "suite",
                      part ? part->name : "all", "policy", policy_name(p, policy, name),
                      "sufficient", budget ? json_integer(budget) : json_null(), "problems",
                      (json_int_t)values.count, "capacity", gp_json_number(mean.mean),
                      "capacity_low", gp_json_number(mean.low), "capacity_high",
                      gp_json_number(mean.high)),
            err);
    gp_values_free(&values);
    return rc;
}

static int add_classes(const struct problems *p, const struct gp_exam_part *part,
                       struct gp_error *err)
{
    const struct gp_analysis *a = p->analysis;
    int rc = GP_OK;

    for (uint32_t policy = a->budget_count; policy < p->policy_count; policy++) {
        for (uint32_t i = 0; !rc && i < a->budget_count; i++)
            rc = add_class(p, part, a->budgets[i], policy, err);
        if (!rc)
            rc = add_class(p, part, 0, policy, err);
    }
    return rc;
}

static int say(struct problems *p, struct gp_error *err)
{
    int rc = GP_OK;

    for (uint64_t i = 0; i < p->count; i++)
        settle(p, i);
    for (uint32_t i = 0; !rc && i < p->exam->part_count; i++)
        for (uint64_t at = 0; !rc && at < p->exam->parts[i].count; at++)
            rc = add_problem(p, &p->exam->parts[i], at, err);
    for (uint32_t i = 0; !rc && i < p->exam->part_count; i++)
        rc = add_classes(p, &p->exam->parts[i], err);
    return rc || p->exam->part_count == 1 ? rc : add_classes(p, NULL, err);
}

int gp_analyze_budget(const struct gp_analysis *analysis, bool *complete, struct gp_error *err)
{
    struct problems p = {
        .analysis = analysis,
        .exam = analysis->sitting->exam,
        .policy_count = analysis->sitting->policy_count,
    };
    struct gp_engine_info info;

    gp_engine_info(analysis->engine, &info);
    p.page_tokens = info.page_tokens;
    for (uint32_t i = 0; i < p.exam->part_count; i++)
        p.count += p.exam->parts[i].count;
    p.cells = gp_mem_alloc_array(p.count * p.policy_count, sizeof *p.cells);
    p.sufficient = gp_mem_alloc_array(p.count, sizeof *p.sufficient);
    struct gp_analysis_ears ears = {NULL, take, NULL, &p};
    int rc = p.cells && p.sufficient ? gp_analysis_ask(analysis, &ears, complete, err)
                                     : gp_fail(err, GP_ENOMEM, "analysis: out of memory");
    if (!rc && *complete)
        rc = say(&p, err);
    gp_mem_free(p.cells);
    gp_mem_free(p.sufficient);
    return rc;
}
