/* Open and render. */
#include "text/template/template.h"

#include "text/template/template_internal.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* ---- open ---- */

void gp_tpl_refuse_set(struct tpl_build *b, int status, uint32_t line, const char *format, ...)
{
    char text[400];
    va_list args;

    if (b->status != GP_OK)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    b->status = status;
    if (line > 0)
        gp_error_set(b->err, "template: line %u: %s", line, text);
    else
        gp_error_set(b->err, "template: %s", text);
}

void *gp_tpl_build_alloc(struct tpl_build *b, size_t bytes)
{
    void *block = gp_tpl_alloc(b->arena, bytes);

    if (!block)
        gp_tpl_refuse_set(b, GP_ENOMEM, 0, "out of memory");
    return block;
}

static uint64_t hash_name(const char *bytes, size_t length)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < length; i++)
        h = (h ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    return h ^ h >> 32;
}

static bool grow_names(struct tpl_build *b)
{
    size_t size = b->name_size ? 2 * b->name_size : 64;
    const struct tpl_string **grown = gp_tpl_build_alloc(b, size * sizeof *grown);

    if (!grown)
        return false;
    for (size_t i = 0; i < b->name_size; i++) {
        if (!b->names[i])
            continue;
        size_t at = hash_name(b->names[i]->bytes, b->names[i]->length) & (size - 1);
        while (grown[at])
            at = (at + 1) & (size - 1);
        grown[at] = b->names[i];
    }
    b->names = grown;
    b->name_size = size;
    return true;
}

/* The one string of that name: names are compared by address from here on. */
const struct tpl_string *gp_tpl_intern(struct tpl_build *b, const char *bytes, size_t length)
{
    if (2 * b->name_count >= b->name_size && !grow_names(b))
        return NULL;
    size_t at = hash_name(bytes, length) & (b->name_size - 1);
    for (; b->names[at]; at = (at + 1) & (b->name_size - 1))
        if (b->names[at]->length == length && memcmp(b->names[at]->bytes, bytes, length) == 0)
            return b->names[at];
    struct tpl_string *s = gp_tpl_build_alloc(b, sizeof *s);
    char *copy = s ? gp_tpl_build_alloc(b, length + 1) : NULL;
    if (!copy)
        return NULL;
    memcpy(copy, bytes, length);
    *s = (struct tpl_string){.bytes = copy, .length = length, .trusted = true};
    b->names[at] = s;
    b->name_count++;
    return s;
}

int gp_template_open(struct gp_template **out, const char *source, size_t length,
                     struct gp_error *err)
{
    struct gp_template *t = gp_mem_alloc(sizeof *t);

    if (!t)
        return gp_fail(err, GP_ENOMEM, "template: out of memory");
    struct tpl_build b = {.arena = &t->arena, .err = err};
    if (!gp_tpl_lex(&b, source, length) || !gp_tpl_parse(&b, &t->root) ||
        !gp_tpl_resolve(&b, &t->root)) {
        gp_template_close(t);
        return b.status;
    }
    *out = t;
    return GP_OK;
}

void gp_template_close(struct gp_template *t)
{
    if (!t)
        return;
    gp_tpl_release(&t->arena);
    gp_mem_free(t);
}

/* ---- render ---- */

static bool give(struct tpl_run *r, const char *name, struct tpl_value v)
{
    struct tpl_value key;

    return gp_tpl_string_new(r, name, strlen(name), true, &key) &&
           gp_tpl_dict_set(r, r->context, key, v);
}

static bool give_json(struct tpl_run *r, const char *name, const json_t *json)
{
    struct tpl_value v = gp_tpl_none();

    return (!json || gp_tpl_from_json(r, json, &v)) && give(r, name, v);
}

static bool give_text(struct tpl_run *r, const char *name, const char *text)
{
    struct tpl_value v;
    size_t bad;

    if (!gp_tpl_utf8_valid(text, strlen(text), &bad))
        return gp_tpl_fail(r, "%s is not UTF-8", name);
    return gp_tpl_string_new(r, text, strlen(text), true, &v) && give(r, name, v);
}

/* Everything a template can name, the later the stronger: globals, the fixed inputs, the caller's
 * own variables.  As transformers has it, tools and documents are none, and not undefined, when
 * absent. */
static bool fill_context(struct tpl_run *r, const struct gp_template_input *input)
{
    struct tpl_value context;
    const char *name;
    json_t *value;

    if (!gp_tpl_dict_new(r, TPL_DICT, &context))
        return false;
    r->context = context.dict;
    if (!gp_tpl_add_globals(r) || !give_json(r, "documents", NULL) ||
        !give_json(r, "messages", input->messages) || !give_json(r, "tools", input->tools) ||
        !give_text(r, "bos_token", input->bos_token) ||
        !give_text(r, "eos_token", input->eos_token) ||
        !give(r, "add_generation_prompt", gp_tpl_bool(input->add_generation_prompt)))
        return false;
    json_object_foreach((json_t *)(uintptr_t)input->variables, name, value)
    {
        if (!give_json(r, name, value))
            return false;
    }
    return true;
}

static bool run(struct tpl_run *r, const struct gp_template *t,
                const struct gp_template_input *input, struct tpl_buffer *out)
{
    struct tpl_activation activation = {0};

    if (!fill_context(r, input))
        return false;
    activation.slots = gp_tpl_take_array(r, t->root.slot_count + 1u, sizeof *activation.slots);
    if (!activation.slots)
        return false;
    r->activation = &activation;
    r->out = out;
    gp_tpl_scope_enter(r, &t->root.scope);
    return gp_tpl_exec(r, &t->root.body) == TPL_FLOW_ON;
}

static uint32_t count_spans(const struct tpl_buffer *b)
{
    uint32_t count = b->length > 0;

    for (size_t i = 1; i < b->length; i++)
        count += b->marks[i] != b->marks[i - 1];
    return count;
}

static bool make_prompt(const struct tpl_buffer *b, struct gp_prompt *out)
{
    struct gp_prompt p = {.length = b->length, .span_count = count_spans(b)};

    p.text = gp_mem_copy(b->length > 0 ? b->bytes : "", b->length);
    p.spans = p.text ? gp_mem_alloc_array(p.span_count, sizeof *p.spans) : NULL;
    if (!p.spans) {
        gp_mem_free(p.text);
        return false;
    }
    size_t begin = 0;
    uint32_t span = 0;
    for (size_t i = 1; i <= b->length; i++) {
        if (i < b->length && b->marks[i] == b->marks[begin])
            continue;
        p.spans[span++] = (struct gp_span){p.text + begin, i - begin, b->marks[begin] != 0};
        begin = i;
    }
    *out = p;
    return true;
}

int gp_template_render(const struct gp_template *t, const struct gp_template_input *input,
                       struct gp_prompt *out, struct gp_error *err)
{
    struct tpl_run r = {.arena.bytes_max = TPL_MEMORY, .err = err, .now = input->now, .line = 1};
    struct tpl_buffer buffer = {0};
    int status = GP_OK;

    if (!run(&r, t, input, &buffer))
        status = r.status;
    else if (!make_prompt(&buffer, out))
        status = gp_fail(err, GP_ENOMEM, "template: out of memory");
    gp_tpl_release(&r.arena);
    return status;
}

void gp_prompt_free(struct gp_prompt *prompt)
{
    gp_mem_free(prompt->text);
    gp_mem_free(prompt->spans);
    *prompt = (struct gp_prompt){0};
}
