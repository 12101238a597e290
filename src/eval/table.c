#include "eval/table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

int gp_table_open(struct gp_table *table, const struct gp_exam *exam, const char (*policies)[64],
                  uint32_t policy_count, struct gp_error *err)
{
    struct gp_table_row *rows =
        gp_mem_alloc_array((size_t)policy_count * exam->part_count, sizeof *rows);

    if (!rows)
        return gp_fail(err, GP_ENOMEM, "table: out of memory");
    *table = (struct gp_table){policy_count, exam, policies, rows};
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

void gp_table_add(struct gp_table *table, const struct gp_figures *f)
{
    struct gp_table_row row = {
        .samples = 1,
        .correct = f->correct,
        .output_tokens = f->output_tokens,
        .compress = f->compress,
        .grow = f->grow,
        .pages = f->pages_mean,
    };
    uint32_t part = 0, policy = 0;

    while (part < table->exam->part_count && strcmp(table->exam->parts[part].name, f->suite) != 0)
        part++;
    while (policy < table->policy_count && strcmp(table->policies[policy], f->policy) != 0)
        policy++;
    gp_assert(part < table->exam->part_count && policy < table->policy_count);
    add_row(&table->rows[policy * table->exam->part_count + part], &row);
}

struct widths {
    int policy, suite;
};

static struct widths widths_of(const struct gp_table *table)
{
    struct widths w = {(int)strlen("policy"), (int)strlen("suite")};

    for (uint32_t i = 0; i < table->policy_count; i++)
        if ((int)strlen(table->policies[i]) > w.policy)
            w.policy = (int)strlen(table->policies[i]);
    for (uint32_t i = 0; i < table->exam->part_count; i++)
        if ((int)strlen(table->exam->parts[i].name) > w.suite)
            w.suite = (int)strlen(table->exam->parts[i].name);
    return w;
}

static int print_row(const char *policy, const char *suite, struct widths w,
                     const struct gp_table_row *row, uint32_t page_tokens)
{
    double n = row->samples > 0 ? (double)row->samples : 1;

    return printf("%-*s  %-*s %8llu %8.1f %8.0f %8.0f %9.2f %9.2f\n", w.policy, policy, w.suite,
                  suite, (unsigned long long)row->samples, 100 * (double)row->correct / n,
                  (double)row->output_tokens / n, row->pages * page_tokens / n,
                  (double)row->compress / n, (double)row->grow / n);
}

int gp_table_print(const struct gp_table *table, uint32_t page_tokens, struct gp_error *err)
{
    const struct gp_exam *exam = table->exam;
    struct widths w = widths_of(table);
    int written = printf("%-*s  %-*s %8s %8s %8s %8s %9s %9s\n", w.policy, "policy", w.suite,
                         "suite", "samples", "pass@1 %", "tokens", "budget", "compress", "grow");

    for (uint32_t p = 0; p < table->policy_count && written >= 0; p++) {
        struct gp_table_row all = {0};

        for (uint32_t i = 0; i < exam->part_count && written >= 0; i++) {
            const struct gp_table_row *row = &table->rows[p * exam->part_count + i];
            written = print_row(table->policies[p], exam->parts[i].name, w, row, page_tokens);
            add_row(&all, row);
        }
        if (exam->part_count > 1 && written >= 0)
            written = print_row(table->policies[p], "all", w, &all, page_tokens);
    }
    return written < 0 ? gp_fail(err, GP_EIO, "standard output: %s", strerror(errno)) : GP_OK;
}
