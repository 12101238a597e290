#include "eval/analyze_tables.h"

#include <stdio.h>
#include <string.h>

static const struct gp_analysis_table tables[] = {
    {GP_ANALYSIS_SIGNAL,
     "signal",
     {{"reading", "working set", 0, 0},
      {"pairs", "pairs", 0, 0},
      {"requests", "answers", 0, 0},
      {"rho", "rho", 0, 3},
      {"rho_low", "from", 0, 3},
      {"rho_high", "to", 0, 3},
      {"agreement", "sign %", 100, 1},
      {"agreement_low", "from", 100, 1},
      {"agreement_high", "to", 100, 1}}},
    {GP_ANALYSIS_COUNTERFACTUAL,
     "bin",
     {{"bin", "bin", 0, 0},
      {"delta_low", "delta from", 0, 5},
      {"delta_high", "to", 0, 5},
      {"boundaries", "boundaries", 0, 0},
      {"advantage", "advantage", 0, 5},
      {"advantage_low", "from", 0, 5},
      {"advantage_high", "to", 0, 5}}},
    {GP_ANALYSIS_COUNTERFACTUAL,
     "counterfactual",
     {{"boundaries", "boundaries", 0, 0},
      {"requests", "answers", 0, 0},
      {"horizon", "tokens", 0, 0},
      {"advantage", "advantage", 0, 5},
      {"advantage_low", "from", 0, 5},
      {"advantage_high", "to", 0, 5},
      {"rho", "rho", 0, 3},
      {"rho_low", "from", 0, 3},
      {"rho_high", "to", 0, 3}}},
    {GP_ANALYSIS_BUDGET,
     "class",
     {{"suite", "suite", 0, 0},
      {"policy", "policy", 0, 0},
      {"sufficient", "sufficient", 0, 0},
      {"problems", "problems", 0, 0},
      {"capacity", "capacity", 0, 1},
      {"capacity_low", "from", 0, 1},
      {"capacity_high", "to", 0, 1}}},
    {GP_ANALYSIS_SPARSITY,
     "position",
     {{"from", "tokens", 0, 0},
      {"to", "to", 0, 0},
      {"requests", "answers", 0, 0},
      {"share", "share %", 100, 2},
      {"share_low", "from", 100, 2},
      {"share_high", "to", 100, 2},
      {"slots", "slots", 0, 1}}},
    {GP_ANALYSIS_OVERHEAD,
     "overhead",
     {{"policy", "policy", 0, 0},
      {"stage", "stage", 0, 0},
      {"events", "events", 0, 0},
      {"ms", "ms", 0, 1},
      {"ms_per_event", "ms/event", 0, 3},
      {"share", "of decoding %", 100, 2}}},
};

const struct gp_analysis_table *gp_analysis_table(enum gp_analysis_kind kind, uint32_t n)
{
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (tables[i].of == kind && n-- == 0)
            return &tables[i];
    return NULL;
}

void gp_analysis_spell(const json_t *object, const struct gp_analysis_column *column, char out[64])
{
    const json_t *value = json_object_get(object, column->key);

    if (json_is_string(value))
        snprintf(out, 64, "%s", json_string_value(value));
    else if (json_is_integer(value))
        snprintf(out, 64, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(out, 64, "%.*f", column->digits,
                 json_real_value(value) * (column->scale > 0 ? column->scale : 1));
    else
        snprintf(out, 64, "-");
}

bool gp_analysis_is_line(const json_t *object, const struct gp_analysis_table *table)
{
    const char *kind = json_string_value(json_object_get(object, "kind"));

    return kind && strcmp(kind, table->kind) == 0;
}
