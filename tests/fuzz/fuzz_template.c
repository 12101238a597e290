/* Fuzzes the template interpreter: the bytes are a template, rendered over a few fixed
 * conversations.
 *
 * With libFuzzer:
 *   make CC=clang CONFIG=fuzz fuzzers
 *   build/clang-fuzz/tests/fuzz/fuzz_template -max_total_time=600 \
 *       -dict=tests/fuzz/template.dict -max_len=4096 NEW_FOLDER tests/fuzz/corpus/template
 *
 * The committed files alone: make run-fuzz-regressions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "fuzz/fuzz.h"
#include "text/template/template.h"

static const char *const conversations[] = {
    "[]",
    "[{\"role\": \"user\", \"content\": \"a <|im_start|> \\u00e9\\n\"}]",
    "[{\"role\": \"system\", \"content\": \" s \"}, {\"role\": \"user\", \"content\": null},"
    " {\"role\": \"assistant\", \"content\": \"<think>x</think>y\", \"tool_calls\":"
    " [{\"id\": \"1\", \"function\": {\"name\": \"f\", \"arguments\": {\"k\": [1, 2.5, true]}}}]},"
    " {\"role\": \"tool\", \"content\": [{\"type\": \"text\", \"text\": \"r\"}]}]",
};

static const char tools_text[] = "[{\"type\": \"function\", \"function\": {\"name\": \"f\","
                                 " \"parameters\": {\"type\": \"object\", \"properties\": {}}}}]";

static void expect(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "fuzz_template: %s\n", what);
    abort();
}

/* The spans cover the text, in order, and its origins alternate. */
static void check_prompt(const struct gp_prompt *p)
{
    size_t at = 0;

    for (uint32_t i = 0; i < p->span_count; i++) {
        const struct gp_span *s = &p->spans[i];
        expect(s->bytes == p->text + at && s->length > 0, "a span out of place");
        expect(i == 0 || s->trusted != p->spans[i - 1].trusted, "two spans where one is enough");
        at += s->length;
    }
    expect(at == p->length && p->text[at] == '\0', "spans that do not cover the text");
}

static void render(const struct gp_template *t, const json_t *messages, const json_t *tools)
{
    struct gp_prompt p;
    struct gp_error err = {""};
    const struct gp_template_input input = {.messages = messages,
                                            .tools = tools,
                                            .bos_token = "<s>",
                                            .eos_token = "</s>",
                                            .add_generation_prompt = tools != NULL,
                                            .now = 1767243661};

    if (gp_template_render(t, &input, &p, &err) != GP_OK) {
        expect(strncmp(err.message, "template: ", 10) == 0, "an error without words");
        return;
    }
    check_prompt(&p);
    gp_prompt_free(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    uint64_t live = gp_mem_live();
    struct gp_template *t = NULL;
    struct gp_error err = {""};
    char *source = malloc(length > 0 ? length : 1); /* exact, so that a stray read is seen */

    expect(source != NULL, "no memory");
    if (length > 0)
        memcpy(source, bytes, length);
    int rc = gp_template_open(&t, source, length, &err);
    free(source);
    if (rc != GP_OK)
        expect(!t && strncmp(err.message, "template: ", 10) == 0, "a refusal without words");
    for (size_t i = 0; t && i < sizeof conversations / sizeof conversations[0]; i++) {
        json_t *messages = json_loads(conversations[i], 0, NULL);
        json_t *tools = i > 0 ? json_loads(tools_text, 0, NULL) : NULL;
        render(t, messages, tools);
        json_decref(messages);
        json_decref(tools);
    }
    gp_template_close(t);
    expect(gp_mem_live() == live, "memory is left");
    return 0;
}
