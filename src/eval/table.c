#include "eval/table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

int gp_table_open(struct gp_table *table, const struct gp_exam *exam, uint32_t policy_count,
                  struct gp_error *err)
{
    struct gp_table_row *rows =
        gp_mem_alloc_array((size_t)policy_count * exam->suite_count, sizeof *rows);

    if (!rows)
        return gp_fail(err, GP_ENOMEM, "table: out of memory");
    *table = (struct gp_table){policy_count, exam->suite_count, exam, rows};
    return GP_OK;
}

void gp_table_close(struct gp_table *table)
{
    gp_mem_free(table->rows);
    *table = (struct gp_table){0};
}

static void add_row(struct gp_table_row *to, const struct gp_table_row *from)
{
    to->samples += from->samples;
    to->correct += from->correct;
    to->output_tokens += from->output_tokens;
    to->compress += from->compress;
    to->grow += from->grow;
    to->pages += from->pages;
}

void gp_table_add(struct gp_table *table, const struct gp_sample *sample)
{
    struct gp_table_row row = {
        .samples = 1,
        .correct = sample->correct,
        .output_tokens = sample->stats->output_tokens,
        .compress = sample->stats->compress,
        .grow = sample->stats->grow,
        .pages = sample->pages_mean,
    };
    uint32_t suite = 0;

    while (suite < table->suite_count && table->exam->suites[suite] != sample->question->suite)
        suite++;
    gp_assert(suite < table->suite_count && sample->policy < table->policy_count);
    add_row(&table->rows[sample->policy * table->suite_count + suite], &row);
}

static int print_row(const char *policy, int width, const char *suite,
                     const struct gp_table_row *row, uint32_t page_tokens)
{
    double n = row->samples > 0 ? (double)row->samples : 1;

    return printf("%-*s  %-6s %8llu %8.1f %8.0f %8.0f %9.2f %9.2f\n", width, policy, suite,
                  (unsigned long long)row->samples, 100 * (double)row->correct / n,
                  (double)row->output_tokens / n, row->pages * page_tokens / n,
                  (double)row->compress / n, (double)row->grow / n);
}

int gp_table_print(const struct gp_table *table, const char (*policies)[64], uint32_t page_tokens,
                   struct gp_error *err)
{
    int width = (int)strlen("policy");

    for (uint32_t p = 0; p < table->policy_count; p++)
        if ((int)strlen(policies[p]) > width)
            width = (int)strlen(policies[p]);
    int written = printf("%-*s  %-6s %8s %8s %8s %8s %9s %9s\n", width, "policy", "suite",
                         "samples", "pass@1 %", "tokens", "budget", "compress", "grow");
    for (uint32_t p = 0; p < table->policy_count && written >= 0; p++) {
        struct gp_table_row all = {0};

        for (uint32_t i = 0; i < table->suite_count && written >= 0; i++) {
            const struct gp_table_row *row = &table->rows[p * table->suite_count + i];
            written = print_row(policies[p], width, table->exam->suites[i]->name, row, page_tokens);
            add_row(&all, row);
        }
        if (table->suite_count > 1 && written >= 0)
            written = print_row(policies[p], width, "all", &all, page_tokens);
    }
    return written < 0 ? gp_fail(err, GP_EIO, "standard output: %s", strerror(errno)) : GP_OK;
}
