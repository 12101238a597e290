/* Calls: arguments, who is called, and the functions that every template has. */
#include "text/template/template_internal.h"

#include <string.h>
#include <time.h>

/* ---- arguments ---- */

static bool add_star(struct tpl_run *r, const struct tpl_node *n, struct tpl_list *list)
{
    struct tpl_value more, items;

    if (!gp_tpl_eval(r, n, &more) || !gp_tpl_to_list(r, more, TPL_LIST, &items))
        return false;
    for (size_t i = 0; i < items.list->count; i++)
        if (!gp_tpl_list_add(r, list, items.list->items[i]))
            return false;
    return true;
}

static bool add_keyword(struct tpl_run *r, struct tpl_args *args, const struct tpl_string *name,
                        struct tpl_value v)
{
    for (size_t i = 0; i < args->keyword_count; i++)
        if (gp_tpl_string_equal(args->names[i], name))
            return gp_tpl_fail(r, "got multiple values for keyword argument '%.60s'", name->bytes);
    args->names[args->keyword_count] = name;
    args->keyword_values[args->keyword_count++] = v;
    return true;
}

static bool eval_keywords(struct tpl_run *r, const struct tpl_node *n, struct tpl_args *args)
{
    struct tpl_value more = {.kind = TPL_MISSING};
    size_t count = 0;

    if (n->star_star && !gp_tpl_eval(r, n->star_star, &more))
        return false;
    if (n->star_star && more.kind != TPL_DICT)
        return gp_tpl_fail(r, "argument after ** must be a mapping, not %s", gp_tpl_type(more));
    for (const struct tpl_keyword *k = n->keywords; k; k = k->next)
        count++;
    if (n->star_star)
        count += more.dict->count;
    args->names = gp_tpl_take_array(r, count + 1, sizeof *args->names);
    args->keyword_values = gp_tpl_take_array(r, count + 1, sizeof *args->keyword_values);
    if (!args->names || !args->keyword_values)
        return false;
    for (const struct tpl_keyword *k = n->keywords; k; k = k->next) {
        struct tpl_value v;
        if (!gp_tpl_eval(r, k->value, &v) || !add_keyword(r, args, k->name, v))
            return false;
    }
    for (size_t i = 0; n->star_star && i < more.dict->count; i++) {
        const struct tpl_entry *e = &more.dict->entries[i];
        if (e->key.kind != TPL_STRING)
            return gp_tpl_fail(r, "keywords must be strings");
        if (!add_keyword(r, args, e->key.string, e->value))
            return false;
    }
    return true;
}

bool gp_tpl_eval_args(struct tpl_run *r, const struct tpl_node *n, struct tpl_args *args)
{
    struct tpl_value list;

    if (n->items.count == 0 && !n->star && !n->star_star && !n->keywords)
        return true;
    if (!gp_tpl_list_new(r, TPL_LIST, n->items.count, &list))
        return false;
    for (uint32_t i = 0; i < n->items.count; i++) {
        struct tpl_value v;
        if (!gp_tpl_eval(r, n->items.items[i], &v) || !gp_tpl_list_add(r, list.list, v))
            return false;
    }
    if (n->star && !add_star(r, n->star, list.list))
        return false;
    args->values = list.list->items;
    args->count = list.list->count;
    return (!n->keywords && !n->star_star) || eval_keywords(r, n, args);
}

static const char *param_name(const char *param)
{
    return *param == '*' ? param + 1 : param;
}

static bool bind_keyword(struct tpl_run *r, const struct tpl_builtin *f, struct tpl_args *args,
                         size_t keyword)
{
    for (size_t i = 0; i < TPL_ARGS && f->params[i]; i++) {
        if (*f->params[i] == '*' || !gp_tpl_is(args->names[keyword], f->params[i]))
            continue;
        if (args->v[i].kind != TPL_MISSING)
            return gp_tpl_fail(r, "%s got multiple values for argument '%s'", f->name,
                               f->params[i]);
        args->v[i] = args->keyword_values[keyword];
        return true;
    }
    return gp_tpl_fail(r, "%s got an unexpected keyword argument '%.60s'", f->name,
                       args->names[keyword]->bytes);
}

bool gp_tpl_call_builtin(struct tpl_run *r, const struct tpl_builtin *f, struct tpl_args *args,
                         struct tpl_value *out)
{
    size_t max = 0;

    if (!gp_tpl_step(r, 0) || !gp_tpl_enter(r))
        return false;
    while (max < TPL_ARGS && f->params[max])
        max++;
    if (!f->variadic) {
        if (args->count > max)
            return gp_tpl_fail(r, "%s takes at most %zu argument(s), %zu given", f->name, max,
                               args->count);
        memset(args->v, 0, sizeof args->v);
        for (size_t i = 0; i < args->count; i++)
            args->v[i] = args->values[i];
        for (size_t i = 0; i < args->keyword_count; i++)
            if (!bind_keyword(r, f, args, i))
                return false;
        for (size_t i = 0; i < f->required; i++)
            if (args->v[i].kind == TPL_MISSING)
                return gp_tpl_fail(r, "%s misses argument '%s'", f->name, param_name(f->params[i]));
    }
    bool ok = f->fn(r, args, out);
    r->depth--;
    return ok;
}

bool gp_tpl_want_int(struct tpl_run *r, struct tpl_value v, int64_t absent, int64_t *out)
{
    *out = absent;
    return v.kind == TPL_MISSING || gp_tpl_as_int(v, out) ||
           gp_tpl_fail(r, "'%s' object cannot be interpreted as an integer", gp_tpl_type(v));
}

bool gp_tpl_call(struct tpl_run *r, struct tpl_value callee, struct tpl_args *args,
                 struct tpl_value *out)
{
    switch ((enum tpl_kind)callee.kind) {
    case TPL_MACRO:
        return gp_tpl_call_macro(r, callee.macro, args, out);
    case TPL_BUILTIN:
        return gp_tpl_call_builtin(r, callee.builtin, args, out);
    case TPL_METHOD:
        args->self = callee.method->self;
        if (args->self.kind == TPL_STRING && args->self.string->markup &&
            !gp_tpl_markup_method(callee.method->builtin->name))
            return gp_tpl_fail(r, "%s of a safe string is not supported",
                               callee.method->builtin->name);
        return gp_tpl_call_builtin(r, callee.method->builtin, args, out);
    case TPL_LOOP:
        if (!callee.loop->node->recursive)
            return gp_tpl_fail(r, "the loop must have the 'recursive' marker to be called");
        if (args->count != 1 || args->keyword_count > 0)
            return gp_tpl_fail(r, "loop() takes one argument");
        return gp_tpl_loop_render(r, callee.loop->node, callee.loop->lexical, args->values[0],
                                  callee.loop->depth0 + 1, out);
    case TPL_UNDEFINED:
        return gp_tpl_undefined_error(r, callee);
    default:
        return gp_tpl_fail(r, "'%s' object is not callable", gp_tpl_type(callee));
    }
}

/* ---- global functions ---- */

static bool fn_raise_exception(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    const struct tpl_string *text;

    (void)out;
    if (!gp_tpl_str(r, a->v[0], &text))
        return false;
    return gp_tpl_fail(r, "raise_exception: %.*s", (int)(text->length < 300 ? text->length : 300),
                       text->bytes);
}

static bool fn_range(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    int64_t part[3] = {0, 0, 1};

    if (a->count < 1 || a->count > 3 || a->keyword_count > 0)
        return gp_tpl_fail(r, "range takes 1 to 3 arguments");
    for (size_t i = 0; i < a->count; i++)
        if (!gp_tpl_as_int(a->values[i], &part[a->count == 1 ? 1 : i]))
            return gp_tpl_fail(r, "'%s' object cannot be interpreted as an integer",
                               gp_tpl_type(a->values[i]));
    if (part[2] == 0)
        return gp_tpl_fail(r, "range() arg 3 must not be zero");
    struct tpl_range *range = gp_tpl_take(r, sizeof *range);
    if (!range)
        return false;
    __int128 span = part[2] > 0 ? (__int128)part[1] - part[0] : (__int128)part[0] - part[1];
    __int128 step = part[2] > 0 ? part[2] : -(__int128)part[2];
    __int128 count = span > 0 ? (span - 1) / step + 1 : 0;
    if (count > TPL_RANGE_ITEMS)
        return gp_tpl_fail(r, "range of more than %d items", TPL_RANGE_ITEMS);
    *range = (struct tpl_range){part[0], part[1], part[2], (int64_t)count};
    *out = (struct tpl_value){.kind = TPL_RANGE, .range = range};
    return true;
}

/* Entries from a mapping or from pairs, as dict() takes them. */
static bool dict_update(struct tpl_run *r, struct tpl_dict *dict, struct tpl_value from)
{
    struct tpl_iter *iter;
    struct tpl_value item, pair;

    if (from.kind == TPL_DICT) {
        for (size_t i = 0; i < from.dict->count; i++)
            if (!gp_tpl_dict_set(r, dict, from.dict->entries[i].key, from.dict->entries[i].value))
                return false;
        return true;
    }
    if (!gp_tpl_iter_open(r, from, &iter))
        return false;
    for (bool done = false;;) {
        if (!gp_tpl_iter_next(r, iter, &item, &done))
            return false;
        if (done)
            return true;
        if (!gp_tpl_to_list(r, item, TPL_LIST, &pair))
            return false;
        if (pair.list->count != 2)
            return gp_tpl_fail(r,
                               "dictionary update sequence element has length %zu; 2 is required",
                               pair.list->count);
        if (!gp_tpl_dict_set(r, dict, pair.list->items[0], pair.list->items[1]))
            return false;
    }
}

static bool make_dict(struct tpl_run *r, const struct tpl_args *a, enum tpl_kind kind,
                      struct tpl_value *out)
{
    if (a->count > 1)
        return gp_tpl_fail(r, "dict expected at most 1 argument, got %zu", a->count);
    if (!gp_tpl_dict_new(r, kind, out) ||
        (a->count == 1 && !dict_update(r, out->dict, a->values[0])))
        return false;
    for (size_t i = 0; i < a->keyword_count; i++)
        if (!gp_tpl_dict_set(r, out->dict, gp_tpl_string_value(a->names[i]), a->keyword_values[i]))
            return false;
    return true;
}

static bool fn_dict(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return make_dict(r, a, TPL_DICT, out);
}

static bool fn_namespace(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return make_dict(r, a, TPL_NAMESPACE, out);
}

/* The conversions that mean the same to Python and to the C library, and those where a time without
 * a zone has fixed answers. */
static bool expand_time(struct tpl_run *r, const struct tpl_string *format, struct tpl_buffer *b)
{
    time_t seconds = (time_t)r->now;
    struct tm tm;

    if (!gmtime_r(&seconds, &tm))
        return gp_tpl_fail(r, "time out of range");
    for (size_t i = 0; i < format->length; i++) {
        char one[4] = {'%', 0, 0, 0}, text[128];
        if (format->bytes[i] != '%') {
            if (!gp_tpl_put_part(r, b, format, i, i + 1))
                return false;
            continue;
        }
        size_t n = 1;
        i++;
        if (i < format->length && format->bytes[i] == '-')
            one[n++] = format->bytes[i++];
        char c = i < format->length ? format->bytes[i] : 0;
        if (c == 'f' && n == 1) {
            if (!gp_tpl_put(r, b, "000000", 6, true))
                return false;
        } else if (c == '\0' ||
                   !strchr(n == 1 ? "aAbBcdDeFhHIjmMpSTuUVwWxXyYG%zZ" : "dmHIMSjyeU", c)) {
            return gp_tpl_fail(r, "strftime_now: conversion '%%%c'", c > 32 && c < 127 ? c : '?');
        } else if (c != 'z' && c != 'Z') {
            one[n] = c;
            if (!gp_tpl_put(r, b, text, strftime(text, sizeof text, one, &tm), true))
                return false;
        }
    }
    return true;
}

static bool fn_strftime_now(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    struct tpl_buffer b = {0};

    if (a->v[0].kind != TPL_STRING)
        return gp_tpl_fail(r, "strftime_now takes a string");
    return expand_time(r, a->v[0].string, &b) && gp_tpl_buffer_string(r, &b, out);
}

static const struct tpl_builtin globals[] = {
    {"raise_exception", fn_raise_exception, 1, false, {"message"}},
    {"range", fn_range, 0, true, {NULL}},
    {"dict", fn_dict, 0, true, {NULL}},
    {"namespace", fn_namespace, 0, true, {NULL}},
    {"strftime_now", fn_strftime_now, 1, false, {"format"}},
};

const struct tpl_builtin *gp_tpl_find_global(const struct tpl_string *name)
{
    for (size_t i = 0; i < sizeof globals / sizeof globals[0]; i++)
        if (gp_tpl_is(name, globals[i].name))
            return &globals[i];
    return NULL;
}

bool gp_tpl_add_globals(struct tpl_run *r)
{
    for (size_t i = 0; i < sizeof globals / sizeof globals[0]; i++) {
        struct tpl_value name, v = {.kind = TPL_BUILTIN, .builtin = &globals[i]};
        if (!gp_tpl_string_new(r, globals[i].name, strlen(globals[i].name), true, &name) ||
            !gp_tpl_dict_set(r, r->context, name, v))
            return false;
    }
    return true;
}
