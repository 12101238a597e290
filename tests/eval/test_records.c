/* Data sets, exams over parts of unequal size, and records read back: nothing is asked twice or
 * left out, and memory refused at any point is told and leaks nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "eval/exam.h"
#include "eval/summary.h"

static char folder[] = "/tmp/gp-records-XXXXXX";

static const char *file_with(const char *name, const char *text)
{
    static char path[128];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
    return path;
}

/* ---- exams ---- */

static void every_answer_is_asked_for_once_and_in_rounds(void **state)
{
    const char *given = getenv("GP_SEED");
    struct gp_rng rng = {given ? strtoull(given, NULL, 10) : 1};

    (void)state;
    for (uint32_t world = 0; world < 300; world++) {
        uint64_t seed = rng.state;
        struct gp_exam exam = {.part_count = 1 + gp_rng_below(&rng, 5)};
        static bool seen[5][12][4];
        uint64_t total = 0, last = 0;

        memset(seen, 0, sizeof seen);
        for (uint32_t i = 0; i < exam.part_count; i++) {
            exam.parts[i].count = 1 + gp_rng_below(&rng, 12);
            exam.parts[i].samples = 1 + gp_rng_below(&rng, 4);
            total += exam.parts[i].count * exam.parts[i].samples;
        }
        assert_int_equal(gp_exam_count(&exam), total);
        for (uint64_t n = 0; n < total; n++) {
            struct gp_exam_place p = gp_exam_place(&exam, n);
            bool fits = p.part < exam.part_count && p.index < exam.parts[p.part].count &&
                        p.number < exam.parts[p.part].samples;
            if (!fits || seen[p.part][p.index][p.number] || p.index < last)
                fail_msg("GP_SEED=%llu: answer %llu", (unsigned long long)seed,
                         (unsigned long long)n);
            seen[p.part][p.index][p.number] = true;
            last = p.index;
        }
    }
}

/* ---- data sets ---- */

static const char problems[] =
    "{\"problem\": \"a?\", \"answer\": \"1\"}\n\n"
    "{\"question\": \"b?\", \"answer\": \"2 so\\n#### 3\", \"more\": [1]}\n"
    "{\"question\": \"c?\", \"answer\": 4}\n";

static void a_file_is_read_line_by_line(void **state)
{
    struct gp_dataset *set;
    struct gp_error err;

    (void)state;
    if (gp_dataset_open(&set, file_with("amc23.test.jsonl", problems), 0, &err))
        fail_msg("%s", err.message);
    assert_string_equal(set->name, "amc23");
    assert_int_equal(set->count, 3);
    assert_int_equal(set->items[0].kind, GP_DATASET_BOX);
    assert_int_equal(set->items[1].kind, GP_DATASET_NUMBER);
    assert_string_equal(set->items[1].answer, "3");
    assert_string_equal(set->items[2].answer, "4");
    assert_ptr_equal(strstr(set->items[1].prompt, "b?"), set->items[1].prompt);
    assert_non_null(strstr(set->items[1].prompt, "\\boxed{}"));
    gp_dataset_close(set);
    /* What is not asked is not read. */
    assert_int_equal(gp_dataset_open(&set,
                                     file_with("cut.jsonl", "{\"problem\": \"a?\", "
                                                            "\"answer\": 1}\nno JSON"),
                                     1, &err),
                     GP_OK);
    assert_int_equal(set->count, 1);
    unlink(set->path);
    gp_dataset_close(set);
}

static void a_data_set_survives_every_refusal_of_memory(void **state)
{
    const char *path = file_with("set.jsonl", problems);

    (void)state;
    for (uint64_t n = 1;; n++) {
        struct gp_exam exam = {.samples = 2};
        struct gp_question question;
        struct gp_error err = {""};
        uint64_t live = gp_mem_live();

        gp_mem_refuse_at(n);
        int rc = gp_exam_choose(&exam, path, &err);
        if (!rc) {
            rc = gp_exam_question(&exam, 3, &question, &err);
            if (!rc)
                gp_question_free(&question);
        }
        bool refused = gp_mem_refused();
        gp_mem_refuse_at(0);
        gp_exam_free(&exam);
        assert_int_equal(gp_mem_live(), live);
        assert_int_equal(rc, refused ? GP_ENOMEM : GP_OK);
        assert_true(!refused || strstr(err.message, "memory"));
        if (!refused)
            break;
        assert_true(n < 1000);
    }
}

static void presets_are_the_papers(void **state)
{
    const struct gp_preset *preset;
    struct gp_error err;
    uint32_t budget;

    (void)state;
    assert_int_equal(gp_preset_find(GP_PRESET_PAPER, "aime24", &preset, &err), GP_OK);
    assert_true(preset->samples == 32 && preset->max_tokens == 32768 && preset->budget == 4096);
    assert_int_equal(gp_preset_find(GP_PRESET_MIXED, "math500", &preset, &err), GP_EINVAL);
    /* 40, 30 and 1,319 problems. */
    static const struct {
        const char *name;
        uint32_t problems;
    } mixed[] = {{"amc23", 40}, {"aime24", 30}, {"gsm8k", 1319}};
    uint32_t requests = 0;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(gp_preset_find(GP_PRESET_MIXED, mixed[i].name, &preset, &err), GP_OK);
        requests += preset->samples * mixed[i].problems;
    }
    assert_int_equal(requests, 3559);
    assert_int_equal(gp_preset_budget(GP_PRESET_PAPER, "/a.b/gsm8k.jsonl,amc23", &budget, &err),
                     GP_OK);
    assert_int_equal(budget, 4096);
    assert_int_equal(gp_preset_budget(GP_PRESET_PAPER, "gsm8k,livecodebench", &budget, &err),
                     GP_EINVAL);
    assert_int_equal(gp_preset_budget(GP_PRESET_MIXED, "gsm8k", &budget, &err), GP_EINVAL);
    assert_int_equal(gp_preset_budget(GP_PRESET_NONE, "gsm8k", &budget, &err), GP_EINVAL);
}

/* ---- records ---- */

#define SAMPLE(policy, index, number, correct)                                                     \
    "{\"kind\":\"sample\",\"suite\":\"s\",\"policy\":\"" policy "\",\"index\":" #index             \
    ",\"sample\":" #number ",\"correct\":" #correct                                                \
    ",\"prompt_tokens\":3,\"output_tokens\":11,\"pages_mean\":2.5,\"pages_peak\":3,\"grow\":1,"    \
    "\"compress\":2,\"shrink\":0,\"start\":0,\"initial\":0,\"pressure\":0,\"capped\":0,"           \
    "\"fallback\":0,\"preempt\":0,\"queue_ms\":0,\"prefill_ms\":1,\"decode_ms\":20,"               \
    "\"demand_ms\":0,\"score_ms\":0,\"select_ms\":0,\"compact_ms\":0}\n"

static const char record[] = "{\"kind\":\"run\",\"engine\":{\"page_size\":16}}\n" SAMPLE(
    "full", 1, 0, true) SAMPLE("full", 0, 1, true) SAMPLE("full", 0, 0, false) SAMPLE("fixed:32", 0,
                                                                                      0, false)
    SAMPLE("fixed:64", 0, 0, true) SAMPLE("fixed:32", 1, 0, true) SAMPLE(
        "fixed:64", 1, 0,
        false) "{\"kind\":\"served\",\"policy\":\"full\",\"output_tokens\":33,\"serving_ms\":66,"
               "\"decode_steps\":4,\"concurrency\":1.5}\n"
               "{\"kind\":\"end\",\"complete\":true}\n{\"kind\":\"sam";

static int read_record(struct gp_results *results, struct gp_summary *summary, uint32_t **budgets,
                       size_t *count, struct gp_error *err)
{
    static struct gp_source source;
    uint64_t *indices;

    source.path = file_with("record.jsonl", record);
    int rc = gp_results_read(results, &source, 1, err);
    if (!rc)
        rc = gp_summarise(results, 0, 0, 1, summary, err);
    if (!rc)
        rc = gp_sufficient(results, (const uint32_t[]){1, 2}, 2, 0, budgets, &indices, count, err);
    if (!rc)
        gp_mem_free(indices);
    return rc;
}

static void a_record_says_what_its_answers_come_to(void **state)
{
    struct gp_results results;
    struct gp_summary s;
    struct gp_error err;
    uint32_t *budgets;
    size_t count;

    (void)state;
    if (read_record(&results, &s, &budgets, &count, &err))
        fail_msg("%s", err.message);
    assert_int_equal(results.arm_count, 3);
    assert_true(s.samples == 3 && s.pass_all.mean == 0.75 && s.budget == 40 && s.tokens == 11);
    assert_true(s.tps == 500 && s.concurrency == 1.5 && s.tpot_ms == 2 && s.compress == 6);
    /* Right at 64 alone; right at 32 but not at 64. */
    assert_int_equal(count, 2);
    assert_int_equal(budgets[0], 64);
    assert_int_equal(budgets[1], 0);
    gp_mem_free(budgets);
    gp_results_free(&results);
}

static void a_record_survives_every_refusal_of_memory(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        struct gp_results results;
        struct gp_summary s;
        struct gp_error err = {""};
        uint64_t live = gp_mem_live();
        uint32_t *budgets = NULL;
        size_t count;

        gp_mem_refuse_at(n);
        int rc = read_record(&results, &s, &budgets, &count, &err);
        bool refused = gp_mem_refused();
        gp_mem_refuse_at(0);
        gp_mem_free(budgets);
        gp_results_free(&results);
        assert_int_equal(gp_mem_live(), live);
        assert_int_equal(rc, refused ? GP_ENOMEM : GP_OK);
        assert_true(!refused || strstr(err.message, "memory"));
        if (!refused)
            break;
        assert_true(n < 1000);
    }
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : 1;
}

static int remove_folder(void **state)
{
    static const char *const names[] = {"amc23.test.jsonl", "set.jsonl", "record.jsonl"};
    char path[128];

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_answer_is_asked_for_once_and_in_rounds),
        cmocka_unit_test(a_file_is_read_line_by_line),
        cmocka_unit_test(a_data_set_survives_every_refusal_of_memory),
        cmocka_unit_test(presets_are_the_papers),
        cmocka_unit_test(a_record_says_what_its_answers_come_to),
        cmocka_unit_test(a_record_survives_every_refusal_of_memory),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
