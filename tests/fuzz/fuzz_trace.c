/* Fuzzes the reader of traces: whatever the lines are, every one is an event, passed over, or named
 * as bad, and what came of them can be drawn.
 *
 * With libFuzzer:
 *   make CC=clang CONFIG=fuzz fuzzers
 *   build/clang-fuzz/tests/fuzz/fuzz_trace -max_total_time=600 \
 *       NEW_FOLDER tests/fuzz/corpus/trace */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "eval/timeline.h"
#include "fuzz/fuzz.h"

static const char *check_row(const struct gp_timeline_run *run, const struct gp_timeline_row *row)
{
    char signs[GP_TIMELINE_BYTES];
    uint64_t step = 0;

    for (uint32_t i = 0; i < row->count; i++) {
        if (row->points[i].step < step || row->points[i].step > run->steps)
            return "a step out of order";
        step = row->points[i].step;
    }
    for (uint32_t columns = 1; columns <= GP_TIMELINE_COLUMNS_MAX; columns += 57) {
        gp_timeline_draw(run, row, columns, false, signs);
        if (strlen(signs) != columns)
            return "a row of another width";
        gp_timeline_draw(run, row, columns, true, signs);
    }
    return NULL;
}

static const char *check(const struct gp_timeline *timeline)
{
    const char *wrong = NULL;
    json_t *json = gp_timeline_json(timeline);

    if (!json)
        return "no sums";
    json_decref(json);
    if (timeline->bad_count + timeline->passed_over > timeline->lines)
        return "more lines than there are";
    for (uint64_t i = 0; i < timeline->bad_count && i < GP_BAD_LINES_KEPT; i++)
        if (!timeline->bad[i].why[0] || timeline->bad[i].line > timeline->lines)
            return "a bad line without a reason";
    for (uint32_t i = 0; !wrong && i < timeline->count; i++)
        for (uint32_t k = 0; !wrong && k < timeline->runs[i].row_count; k++)
            wrong = check_row(&timeline->runs[i], &timeline->runs[i].rows[k]);
    return wrong;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    uint64_t live = gp_mem_live();
    struct gp_timeline timeline;
    struct gp_error err;
    const char *wrong;

    if (gp_timeline_read(&timeline, (const char *)bytes, length, &err))
        return 0;
    wrong = check(&timeline);
    gp_timeline_free(&timeline);
    if (!wrong && gp_mem_live() != live)
        wrong = "memory is left";
    if (wrong) {
        fprintf(stderr, "fuzz_trace: %s\n", wrong);
        abort();
    }
    return 0;
}
