/* Perplexity against llama-perplexity's (tests/oracle/README.md), through the public API: the
 * text is tokenized, cut into windows and scored as growpage perplexity does it.
 *
 * GP_LONG=1 scores the whole text and every requantised file that make oracles left in
 * build/oracle/quant; otherwise the first windows of the text. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "growpage.h"
#include "oracle/oracle_file.h"

#define MODEL_PATH    "models/smollm2-135m-instruct-q4_1.gguf"
#define TEXT_PATH     "tests/oracle/text/alice.txt"
#define QUANT_FOLDER  "build/oracle/quant"
#define WINDOW        512u
#define SHORT_WINDOWS 4u
#define RELATIVE_MAX  0.005

/* The ids of the text in the model's vocabulary; gp_free(). */
static int32_t *text_ids(const struct gp_model *model, uint32_t *count)
{
    size_t room = 1u << 20;
    char *text = malloc(room);
    FILE *f = fopen(TEXT_PATH, "rb");
    struct gp_error err = {""};
    int32_t *ids;

    assert_non_null(text);
    assert_non_null(f);
    size_t length = fread(text, 1, room, f);

    assert_true(length > 0 && length < room);
    fclose(f);
    if (gp_model_tokenize(model, text, length, true, false, &ids, count, &err))
        fail_msg("%s", err.message);
    free(text);
    return ids;
}

static struct gp_model *open_model(const char *path)
{
    struct gp_model_options options = {.path = path};
    struct gp_model *model;
    struct gp_error err = {""};

    if (gp_model_open(&model, &options, &err))
        fail_msg("%s", err.message);
    return model;
}

/* windows = 0: all that llama.cpp scored. */
static void compare(const char *path, const char *name, uint32_t windows)
{
    struct gp_model *model = open_model(path);
    double expected = test_oracle_perplexity(name, &windows);
    struct gp_perplexity ours;
    struct gp_error err = {""};
    uint32_t count;
    int32_t *ids = text_ids(model, &count);

    assert_true(count >= windows * WINDOW);
    if (gp_perplexity(model, ids, windows * WINDOW, WINDOW, 0, NULL, NULL, NULL, &ours, &err))
        fail_msg("%s: %s", path, err.message);
    gp_free(ids);
    gp_model_close(model);
    assert_int_equal(ours.windows, windows);

    double off = ours.perplexity / expected - 1;

    print_message("%s over %u windows: %.4f, llama.cpp %.4f: %+.3f %%\n", name, windows,
                  ours.perplexity, expected, 100 * off);
    assert_true(fabs(off) <= RELATIVE_MAX);
}

static void text_has_the_tokens_that_llama_cpp_makes_of_it(void **state)
{
    struct gp_model *model = open_model(MODEL_PATH);
    uint32_t count;
    uint32_t expected_count;
    uint64_t expected_hash;
    int32_t *ids = text_ids(model, &count);

    (void)state;
    test_oracle_text_tokens(&expected_count, &expected_hash);
    assert_int_equal(count, expected_count);
    assert_true(test_oracle_hash(ids, count) == expected_hash);
    gp_free(ids);
    gp_model_close(model);
}

static void smollm2_is_as_surprised_as_under_llama_cpp(void **state)
{
    (void)state;
#ifdef GP_DEBUG
    print_message("# skip: a figure of the model's, and test_smollm2 runs its code; see release\n");
    skip();
#endif
    compare(MODEL_PATH, "smollm2", getenv("GP_LONG") ? 0 : SHORT_WINDOWS);
}

static void every_type_is_as_surprised_as_under_llama_cpp(void **state)
{
    static const char *const types[] = {"f32",  "f16",  "bf16", "q8_0",  "q4_0",
                                        "q4_1", "q5_0", "q5_1", "iq4_nl"};
    uint32_t compared = 0;

    (void)state;
    if (!getenv("GP_LONG")) {
        print_message("# skip: every tensor type takes minutes; GP_LONG=1 runs it\n");
        skip();
    }
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        char path[128];

        snprintf(path, sizeof(path), "%s/smollm2-%s.gguf", QUANT_FOLDER, types[i]);
        if (access(path, R_OK) == 0) {
            compare(path, types[i], 0);
            compared++;
        }
    }
    if (compared == 0) {
        print_message("# skip: no files in %s; make oracles writes them\n", QUANT_FOLDER);
        skip();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_has_the_tokens_that_llama_cpp_makes_of_it),
        cmocka_unit_test(smollm2_is_as_surprised_as_under_llama_cpp),
        cmocka_unit_test(every_type_is_as_surprised_as_under_llama_cpp),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
