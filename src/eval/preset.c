#include "eval/preset.h"

#include <string.h>

#include "base/assert.h"
#include "eval/dataset.h"

static const struct gp_preset paper[] = {
    {"amc23", 32, 16384, 4096}, {"aime24", 32, 32768, 4096},       {"math500", 8, 16384, 4096},
    {"gsm8k", 4, 16384, 4096},  {"livecodebench", 8, 16384, 8192}, {NULL},
};

static const struct gp_preset mixed[] = {
    {"amc23", 32, 32768, 0},
    {"aime24", 32, 32768, 0},
    {"gsm8k", 1, 32768, 0},
    {NULL},
};

int gp_preset_find(enum gp_preset_table table, const char *suite, const struct gp_preset **out,
                   struct gp_error *err)
{
    gp_assert(table != GP_PRESET_NONE);
    for (const struct gp_preset *p = table == GP_PRESET_PAPER ? paper : mixed; p->suite; p++)
        if (strcmp(p->suite, suite) == 0) {
            *out = p;
            return GP_OK;
        }
    return gp_fail(err, GP_EINVAL, "%s: the preset is of %s", suite,
                   table == GP_PRESET_PAPER ? "amc23, aime24, math500, gsm8k and livecodebench"
                                            : "amc23, aime24 and gsm8k");
}

int gp_preset_budget(enum gp_preset_table table, const char *suites, uint32_t *out,
                     struct gp_error *err)
{
    uint32_t budget = 0;

    if (table == GP_PRESET_NONE)
        return gp_fail(err, GP_EINVAL, "a preset's budget without --preset");
    for (size_t length; *suites; suites += length + (suites[length] == ',')) {
        char name[GP_DATASET_NAME_BYTES];
        const struct gp_preset *preset;

        length = strcspn(suites, ",");
        gp_dataset_name(suites, length, name);
        int rc = gp_preset_find(table, name, &preset, err);
        if (rc)
            return rc;
        if (preset->budget == 0)
            return gp_fail(err, GP_EINVAL, "the mixed preset has no budget; give a number");
        if (budget && budget != preset->budget)
            return gp_fail(err, GP_EINVAL, "%s has another budget; ask it by itself", name);
        budget = preset->budget;
    }
    *out = budget;
    return GP_OK;
}
