/* A report on a GGUF file: what it is, what is in it, what memory serving it would take. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/error.h"
#include "base/mem.h"
#include "engine/engine_internal.h"

#define TYPE_MAX 64u

struct facts {
    const struct gp_gguf *gguf;
    struct gp_hparams hp;
    char tokenizer[96];
    uint32_t token_count;
    bool has_template;
    struct {
        uint32_t tensors;
        uint64_t bytes, elements;
    } types[TYPE_MAX];
    uint64_t elements;
    uint32_t requests, tokens;
    uint64_t packed_bytes, kv_bytes, summary_bytes;
};

static void gather_tensors(struct facts *facts)
{
    for (uint32_t i = 0; i < gp_gguf_tensor_count(facts->gguf); i++) {
        const struct gp_gguf_tensor *tensor = gp_gguf_tensor(facts->gguf, i);
        uint64_t elements = 1;

        for (uint32_t d = 0; d < GP_GGUF_DIMS; d++)
            elements *= tensor->dims[d];
        facts->types[tensor->type].tensors++;
        facts->types[tensor->type].bytes += tensor->bytes;
        facts->types[tensor->type].elements += elements;
        facts->elements += elements;
        size_t packed = tensor->dim_count == 2
                            ? gp_matrix_bytes(tensor->type, (uint32_t)tensor->dims[1],
                                              (uint32_t)tensor->dims[0])
                            : tensor->bytes;

        facts->packed_bytes += packed;
    }
}

static int gather(struct facts *facts, struct gp_error *err)
{
    struct gp_str model = {"none", 4}, pre = {"", 0}, template = {0};
    struct gp_gguf_array tokens;
    char kind[48], split[40];
    int rc = gp_hparams_read(&facts->hp, facts->gguf, err);

    if (!rc)
        rc = gp_gguf_str_or(facts->gguf, "tokenizer.ggml.model", &model, err);
    if (!rc)
        rc = gp_gguf_str_or(facts->gguf, "tokenizer.ggml.pre", &pre, err);
    if (!rc)
        rc = gp_gguf_str_or(facts->gguf, "tokenizer.chat_template", &template, err);
    if (rc)
        return rc;
    gp_text_copy(kind, sizeof kind, model.bytes, model.length);
    gp_text_copy(split, sizeof split, pre.bytes, pre.length);
    snprintf(facts->tokenizer, sizeof facts->tokenizer, "%s%s%s", kind, *split ? "/" : "", split);
    if (gp_gguf_array(facts->gguf, "tokenizer.ggml.tokens", &tokens, NULL) == GP_OK)
        facts->token_count = (uint32_t)tokens.count;
    facts->has_template = template.bytes != NULL;
    gather_tensors(facts);
    const struct gp_hparams *hp = &facts->hp;

    if (facts->tokens == 0)
        facts->tokens = hp->context_max;
    facts->kv_bytes =
        gp_hparams_token_bytes(hp, GP_KV_F16) * (uint64_t)facts->tokens * facts->requests;
    facts->summary_bytes = (uint64_t)hp->layer_count * facts->requests * hp->head_count *
                           (2 * (uint64_t)hp->key_dim + 1) * sizeof(float);
    return GP_OK;
}

static const char *arch_name(enum gp_arch arch)
{
    switch (arch) {
    case GP_ARCH_LLAMA:
        return "llama";
    case GP_ARCH_QWEN2:
        return "qwen2";
    case GP_ARCH_QWEN3:
        return "qwen3";
    }
    return "unknown";
}

static void general_name(const struct facts *facts, char *out, size_t out_bytes)
{
    struct gp_str name = {"", 0};

    gp_gguf_str_or(facts->gguf, "general.name", &name, NULL);
    gp_text_copy(out, out_bytes, name.bytes, name.length);
}

static const double MIB = 1024.0 * 1024.0;

static void print_memory(FILE *out, const struct facts *facts)
{
    const struct gp_hparams *hp = &facts->hp;
    uint64_t total = facts->packed_bytes + facts->kv_bytes + facts->summary_bytes;

    fprintf(out, "\nmemory for %u request%s of %u tokens\n", facts->requests,
            facts->requests == 1 ? "" : "s", facts->tokens);
    fprintf(out, "  weights          %10.1f MiB\n", (double)facts->packed_bytes / MIB);
    fprintf(out, "  KV, full, f16    %10.1f MiB  (%" PRIu64 " bytes a token)\n",
            (double)facts->kv_bytes / MIB, gp_hparams_token_bytes(hp, GP_KV_F16));
    fprintf(out, "  query summaries  %10.1f MiB\n", (double)facts->summary_bytes / MIB);
    fprintf(out, "  together         %10.1f MiB\n", (double)total / MIB);
}

static void print_text(FILE *out, const struct facts *facts)
{
    const struct gp_hparams *hp = &facts->hp;
    char name[128], line[256];

    general_name(facts, name, sizeof name);
    fprintf(out, "%s%s", name, *name ? "\n" : "");
    fprintf(out, "  format           GGUF v%u, %.1f MiB, %u tensors, %u keys\n",
            gp_gguf_version(facts->gguf), (double)gp_gguf_file_bytes(facts->gguf) / MIB,
            gp_gguf_tensor_count(facts->gguf), gp_gguf_key_count(facts->gguf));
    fprintf(out, "  architecture     %s, %.1f M parameters\n", arch_name(hp->arch),
            (double)facts->elements / 1e6);
    fprintf(out, "  layers           %u of width %u, FFN %u\n", hp->layer_count, hp->embed_dim,
            hp->ffn_dim);
    fprintf(out, "  heads            %u query, %u KV, key %u, value %u\n", hp->head_count,
            hp->kv_head_count, hp->key_dim, hp->value_dim);
    fprintf(out, "  context          %u tokens\n", hp->context_max);
    fprintf(out, "  tokenizer        %s, %u tokens, chat template: %s\n", facts->tokenizer,
            facts->token_count, facts->has_template ? "yes" : "no");
    fprintf(out, "\ntensors by type\n");
    for (uint32_t type = 0; type < TYPE_MAX; type++)
        if (facts->types[type].tensors)
            fprintf(out, "  %-8s %5u tensors %10.1f MiB %8.2f bits a weight\n", gp_type_name(type),
                    facts->types[type].tensors, (double)facts->types[type].bytes / MIB,
                    8.0 * (double)facts->types[type].bytes / (double)facts->types[type].elements);
    print_memory(out, facts);
    fprintf(out, "\nkeys\n");
    for (uint32_t i = 0; i < gp_gguf_key_count(facts->gguf); i++) {
        gp_gguf_describe_key(facts->gguf, i, line, sizeof line);
        fprintf(out, "  %s\n", line);
    }
}

static json_t *types_json(const struct facts *facts)
{
    json_t *types = json_array();

    for (uint32_t type = 0; type < TYPE_MAX; type++)
        if (facts->types[type].tensors)
            json_array_append_new(types, json_pack("{s:s, s:i, s:I}", "type", gp_type_name(type),
                                                   "tensors", (int)facts->types[type].tensors,
                                                   "bytes", (json_int_t)facts->types[type].bytes));
    return types;
}

static void print_json(FILE *out, const struct facts *facts)
{
    const struct gp_hparams *hp = &facts->hp;
    char name[128];

    general_name(facts, name, sizeof name);
    json_t *root = json_pack(
        "{s:s, s:i, s:I, s:s, s:I, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:i, s:b, s:o}",
        "name", name, "gguf_version", (int)gp_gguf_version(facts->gguf), "file_bytes",
        (json_int_t)gp_gguf_file_bytes(facts->gguf), "architecture", arch_name(hp->arch),
        "parameters", (json_int_t)facts->elements, "layers", (int)hp->layer_count, "embedding",
        (int)hp->embed_dim, "ffn", (int)hp->ffn_dim, "heads", (int)hp->head_count, "kv_heads",
        (int)hp->kv_head_count, "key_length", (int)hp->key_dim, "value_length", (int)hp->value_dim,
        "context", (int)hp->context_max, "tokenizer", facts->tokenizer, "tokens",
        (int)facts->token_count, "chat_template", (int)facts->has_template, "types",
        types_json(facts));

    json_object_set_new(
        root, "memory",
        json_pack("{s:i, s:i, s:I, s:I, s:I, s:I}", "requests", (int)facts->requests, "tokens",
                  (int)facts->tokens, "weights", (json_int_t)facts->packed_bytes, "kv",
                  (json_int_t)facts->kv_bytes, "summaries", (json_int_t)facts->summary_bytes,
                  "kv_token", (json_int_t)gp_hparams_token_bytes(hp, GP_KV_F16)));
    json_dumpf(root, out, JSON_INDENT(2));
    fputc('\n', out);
    json_decref(root);
}

static int print(const struct facts *facts, bool json, char **report, struct gp_error *err)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    if (!out)
        return gp_fail(err, GP_ENOMEM, "report: out of memory");
    if (json)
        print_json(out, facts);
    else
        print_text(out, facts);
    bool failed = ferror(out) || fclose(out);

    *report = failed ? NULL : gp_mem_copy(text, length);
    free(text);
    return *report ? GP_OK : gp_fail(err, GP_ENOMEM, "report: out of memory");
}

int gp_inspect(const char *path, uint32_t requests, uint32_t tokens, bool json, char **report,
               struct gp_error *err)
{
    struct gp_gguf *gguf = NULL;
    struct facts *facts = gp_mem_alloc(sizeof *facts);
    int rc =
        facts ? gp_gguf_open(&gguf, path, err) : gp_fail(err, GP_ENOMEM, "report: out of memory");

    if (!rc) {
        facts->gguf = gguf;
        facts->requests = requests ? requests : 1;
        facts->tokens = tokens;
        rc = gather(facts, err);
    }
    if (rc && gguf) /* gp_gguf_open() names its file itself */
        gp_error_prefix(err, "%s", path);
    if (!rc)
        rc = print(facts, json, report, err);
    gp_gguf_close(gguf);
    gp_mem_free(facts);
    return rc;
}
