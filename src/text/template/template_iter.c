/* Iteration, and the object that a loop's body knows as `loop`.
 *
 * map, select, unique and a loop's own filter work item by item when they are asked, as Python's
 * generators do: what they skip is never looked at, and a second pass over one finds nothing. */
#include "text/template/template_internal.h"

#include "base/assert.h"

#include <stdio.h>
#include <string.h>

bool gp_tpl_iterable(struct tpl_value v)
{
    switch ((enum tpl_kind)v.kind) {
    case TPL_UNDEFINED:
    case TPL_STRING:
    case TPL_LIST:
    case TPL_TUPLE:
    case TPL_DICT:
    case TPL_VIEW:
    case TPL_RANGE:
    case TPL_ITERATOR:
        return true;
    default:
        return false;
    }
}

bool gp_tpl_iter_open(struct tpl_run *r, struct tpl_value v, struct tpl_iter **out)
{
    if (v.kind == TPL_ITERATOR) {
        *out = v.iter;
        return true;
    }
    struct tpl_iter *iter = gp_tpl_take(r, sizeof *iter);
    if (!iter)
        return false;
    iter->source = v;
    switch ((enum tpl_kind)v.kind) {
    case TPL_UNDEFINED:
        iter->kind = TPL_I_EMPTY;
        break;
    case TPL_STRING:
        iter->kind = TPL_I_STRING;
        break;
    case TPL_LIST:
    case TPL_TUPLE:
        iter->kind = TPL_I_LIST;
        break;
    case TPL_DICT:
        iter->kind = TPL_I_DICT;
        iter->view = TPL_KEYS;
        break;
    case TPL_VIEW:
        iter->kind = TPL_I_DICT;
        iter->view = v.view->kind;
        iter->source.dict = (struct tpl_dict *)(uintptr_t)v.view->dict;
        break;
    case TPL_RANGE:
        iter->kind = TPL_I_RANGE;
        break;
    default:
        return gp_tpl_fail(r, "'%s' object is not iterable", gp_tpl_type(v));
    }
    *out = iter;
    return true;
}

bool gp_tpl_iter_new(struct tpl_run *r, enum tpl_iter_kind kind, struct tpl_value over,
                     struct tpl_value *out)
{
    struct tpl_iter *iter = gp_tpl_take(r, sizeof *iter);

    if (!iter || !gp_tpl_iter_open(r, over, &iter->inner))
        return false;
    iter->kind = kind;
    *out = (struct tpl_value){.kind = TPL_ITERATOR, .iter = iter};
    return true;
}

static bool next_string(struct tpl_run *r, struct tpl_iter *iter, struct tpl_value *out, bool *done)
{
    const struct tpl_string *s = iter->source.string;

    *done = iter->at >= s->length;
    if (*done)
        return true;
    size_t bytes = gp_tpl_char_bytes(s->bytes + iter->at, s->length - iter->at);
    if (!gp_tpl_string_part(r, s, iter->at, iter->at + bytes, out))
        return false;
    iter->at += bytes;
    return true;
}

static bool next_entry(struct tpl_run *r, struct tpl_iter *iter, struct tpl_value *out, bool *done)
{
    const struct tpl_dict *dict = iter->source.dict;

    *done = iter->at >= dict->count;
    if (*done)
        return true;
    const struct tpl_entry *e = &dict->entries[iter->at++];
    if (iter->view == TPL_ITEMS)
        return gp_tpl_pair(r, e->key, e->value, out);
    *out = iter->view == TPL_KEYS ? e->key : e->value;
    return true;
}

/* One item of the iterator below, through a filter or test of the interpreter's. */
static bool apply(struct tpl_run *r, const struct tpl_iter *iter, struct tpl_value item,
                  struct tpl_value *out)
{
    struct tpl_args args = *iter->args;

    args.self = item;
    return gp_tpl_call_builtin(r, iter->builtin, &args, out);
}

static bool select_item(struct tpl_run *r, const struct tpl_iter *iter, struct tpl_value item,
                        bool *keep)
{
    struct tpl_value probe, verdict;
    const struct tpl_value missing = {.kind = TPL_MISSING};

    if (!gp_tpl_getpath(r, item, iter->attribute, missing, &probe))
        return false;
    verdict = probe;
    if (iter->builtin && !apply(r, iter, probe, &verdict))
        return false;
    *keep = gp_tpl_truth(verdict) != iter->reject;
    return true;
}

static bool unseen_item(struct tpl_run *r, const struct tpl_iter *iter, struct tpl_value item,
                        bool *keep)
{
    struct tpl_value key, seen;
    const struct tpl_value missing = {.kind = TPL_MISSING};

    if (!gp_tpl_getpath(r, item, iter->attribute, missing, &key))
        return false;
    if (!iter->case_sensitive && key.kind == TPL_STRING && !gp_tpl_lower(r, key.string, &key))
        return false;
    if (!gp_tpl_dict_get(r, iter->seen, key, &seen))
        return false;
    *keep = seen.kind == TPL_MISSING;
    return !*keep || gp_tpl_dict_set(r, iter->seen, key, gp_tpl_none());
}

static bool target_value(struct tpl_run *r, const struct tpl_node *target, struct tpl_value *out)
{
    if (target->kind == TPL_N_NAME) {
        *out = r->activation->slots[target->slot];
        return true;
    }
    if (!gp_tpl_list_new(r, TPL_TUPLE, target->items.count, out))
        return false;
    for (uint32_t i = 0; i < target->items.count; i++) {
        struct tpl_value part;
        if (!target_value(r, target->items.items[i], &part) || !gp_tpl_list_add(r, out->list, part))
            return false;
    }
    return true;
}

/* "for x in items if test": the test runs in a function of its own. */
static bool loop_test(struct tpl_run *r, const struct tpl_iter *iter, struct tpl_value item,
                      struct tpl_value *out, bool *keep)
{
    struct tpl_activation *around = r->activation;
    struct tpl_value verdict;

    r->activation = iter->activation;
    bool ok = gp_tpl_assign(r, iter->node->test_target, item) &&
              gp_tpl_eval(r, iter->node->c, &verdict) &&
              (!(*keep = gp_tpl_truth(verdict)) || target_value(r, iter->node->test_target, out));
    r->activation = around;
    return ok;
}

/* Iterators that drop items of the one below. */
static bool next_kept(struct tpl_run *r, struct tpl_iter *iter, struct tpl_value *out, bool *done)
{
    for (;;) {
        bool keep = false, ok;
        struct tpl_value item;
        if (!gp_tpl_iter_next(r, iter->inner, &item, done))
            return false;
        if (*done)
            return true;
        *out = item;
        if (iter->kind == TPL_I_SELECT)
            ok = select_item(r, iter, item, &keep);
        else if (iter->kind == TPL_I_UNIQUE)
            ok = unseen_item(r, iter, item, &keep);
        else
            ok = loop_test(r, iter, item, out, &keep);
        if (!ok || keep)
            return ok;
    }
}

static bool next_mapped(struct tpl_run *r, struct tpl_iter *iter, struct tpl_value *out, bool *done)
{
    struct tpl_value item;

    if (!gp_tpl_iter_next(r, iter->inner, &item, done))
        return false;
    if (*done)
        return true;
    if (iter->kind == TPL_I_ATTRIBUTE)
        return gp_tpl_getpath(r, item, iter->attribute, iter->fallback, out);
    return apply(r, iter, item, out);
}

static bool next_batch(struct tpl_run *r, struct tpl_iter *iter, struct tpl_value *out, bool *done)
{
    size_t size = iter->at;

    if (!gp_tpl_list_new(r, TPL_LIST, 0, out))
        return false;
    while (out->list->count < size) {
        struct tpl_value item;
        if (!gp_tpl_iter_next(r, iter->inner, &item, done))
            return false;
        if (*done)
            break;
        if (!gp_tpl_list_add(r, out->list, item))
            return false;
    }
    *done = out->list->count == 0;
    while (!*done && out->list->count < size && iter->fallback.kind != TPL_NONE)
        if (!gp_tpl_list_add(r, out->list, iter->fallback))
            return false;
    return true;
}

bool gp_tpl_iter_next(struct tpl_run *r, struct tpl_iter *iter, struct tpl_value *out, bool *done)
{
    if (!gp_tpl_step(r, 0) || !gp_tpl_enter(r))
        return false;
    bool ok = true;
    *done = false;
    switch (iter->kind) {
    case TPL_I_EMPTY:
        *done = true;
        break;
    case TPL_I_LIST:
        *done = iter->at >= iter->source.list->count;
        if (!*done)
            *out = iter->source.list->items[iter->at++];
        break;
    case TPL_I_STRING:
        ok = next_string(r, iter, out, done);
        break;
    case TPL_I_DICT:
        ok = next_entry(r, iter, out, done);
        break;
    case TPL_I_RANGE:
        *done = (int64_t)iter->at >= iter->source.range->count;
        if (!*done)
            *out = gp_tpl_int(iter->source.range->start +
                              iter->source.range->step * (int64_t)iter->at++);
        break;
    case TPL_I_ATTRIBUTE:
    case TPL_I_FILTER:
        ok = next_mapped(r, iter, out, done);
        break;
    case TPL_I_SELECT:
    case TPL_I_UNIQUE:
    case TPL_I_LOOP_TEST:
        ok = next_kept(r, iter, out, done);
        break;
    case TPL_I_BATCH:
        ok = next_batch(r, iter, out, done);
        break;
    }
    r->depth--;
    return ok;
}

bool gp_tpl_to_list(struct tpl_run *r, struct tpl_value v, enum tpl_kind kind,
                    struct tpl_value *out)
{
    struct tpl_iter *iter;

    if (!gp_tpl_iter_open(r, v, &iter) || !gp_tpl_list_new(r, kind, 0, out))
        return false;
    for (;;) {
        struct tpl_value item;
        bool done;
        if (!gp_tpl_iter_next(r, iter, &item, &done))
            return false;
        if (done)
            return true;
        if (!gp_tpl_list_add(r, out->list, item))
            return false;
    }
}

/* ---- loop ---- */

static bool peek(struct tpl_run *r, struct tpl_loop *loop)
{
    bool done;

    if (loop->after.kind != TPL_MISSING)
        return true;
    if (!gp_tpl_iter_next(r, loop->iter, &loop->after, &done))
        return false;
    if (done)
        loop->after.kind = TPL_MISSING;
    return true;
}

/* The number of items; what has no length is read to its end now. */
static bool loop_length(struct tpl_run *r, struct tpl_loop *loop)
{
    struct tpl_value rest, over = {.kind = TPL_ITERATOR, .iter = loop->iter};

    if (loop->length >= 0)
        return true;
    if (gp_tpl_length(loop->iterable, &loop->length))
        return true;
    if (!gp_tpl_to_list(r, over, TPL_LIST, &rest) || !gp_tpl_iter_open(r, rest, &loop->iter))
        return false;
    loop->length = (int64_t)rest.list->count + loop->index0 + 1 + (loop->after.kind != TPL_MISSING);
    return true;
}

bool gp_tpl_loop_print(struct tpl_run *r, struct tpl_buffer *b, struct tpl_loop *loop)
{
    char text[80];

    if (!loop_length(r, loop))
        return false;
    int n = snprintf(text, sizeof text, "<LoopContext %lld/%lld>", (long long)loop->index0 + 1,
                     (long long)loop->length);
    return gp_tpl_put(r, b, text, (size_t)n, true);
}

static bool cycle(struct tpl_run *r, const struct tpl_args *args, struct tpl_value *out)
{
    if (args->count == 0 || args->keyword_count > 0)
        return gp_tpl_fail(r, "no items for cycling given");
    *out = args->values[(size_t)args->self.loop->index0 % args->count];
    return true;
}

static bool changed(struct tpl_run *r, const struct tpl_args *args, struct tpl_value *out)
{
    struct tpl_loop *loop = args->self.loop;
    struct tpl_value now;
    bool same = false;

    if (args->keyword_count > 0)
        return gp_tpl_fail(r, "changed() takes no keyword arguments");
    if (!gp_tpl_list_new(r, TPL_TUPLE, args->count, &now))
        return false;
    for (size_t i = 0; i < args->count; i++)
        now.list->items[now.list->count++] = args->values[i];
    if (loop->changed.kind != TPL_MISSING && !gp_tpl_equal(r, loop->changed, now, &same))
        return false;
    if (!same)
        loop->changed = now;
    *out = gp_tpl_bool(!same);
    return true;
}

static bool loop_method(struct tpl_run *r, struct tpl_loop *loop, const struct tpl_builtin *builtin,
                        struct tpl_value *out)
{
    struct tpl_method *m = gp_tpl_take(r, sizeof *m);

    if (!m)
        return false;
    *m = (struct tpl_method){builtin, {.kind = TPL_LOOP, .loop = loop}};
    *out = (struct tpl_value){.kind = TPL_METHOD, .method = m};
    return true;
}

bool gp_tpl_loop_attribute(struct tpl_run *r, struct tpl_loop *loop, const struct tpl_string *name,
                           struct tpl_value *out)
{
    static const struct tpl_builtin cycle_method = {"cycle", cycle, 0, true, {NULL}};
    static const struct tpl_builtin changed_method = {"changed", changed, 0, true, {NULL}};

    if (gp_tpl_is(name, "index0")) {
        *out = gp_tpl_int(loop->index0);
    } else if (gp_tpl_is(name, "index")) {
        *out = gp_tpl_int(loop->index0 + 1);
    } else if (gp_tpl_is(name, "first")) {
        *out = gp_tpl_bool(loop->index0 == 0);
    } else if (gp_tpl_is(name, "last")) {
        if (!peek(r, loop))
            return false;
        *out = gp_tpl_bool(loop->after.kind == TPL_MISSING);
    } else if (gp_tpl_is(name, "depth0")) {
        *out = gp_tpl_int(loop->depth0);
    } else if (gp_tpl_is(name, "depth")) {
        *out = gp_tpl_int(loop->depth0 + 1);
    } else if (gp_tpl_is(name, "length") || gp_tpl_is(name, "revindex") ||
               gp_tpl_is(name, "revindex0")) {
        if (!loop_length(r, loop))
            return false;
        int64_t less = name->bytes[0] == 'l' ? 0 : loop->index0 + (name->length == 9);
        *out = gp_tpl_int(loop->length - less);
    } else if (gp_tpl_is(name, "previtem")) {
        if (loop->index0 == 0)
            return gp_tpl_undefined(r, "there is no previous item", NULL, NULL, out);
        *out = loop->before;
    } else if (gp_tpl_is(name, "nextitem")) {
        if (!peek(r, loop))
            return false;
        if (loop->after.kind == TPL_MISSING)
            return gp_tpl_undefined(r, "there is no next item", NULL, NULL, out);
        *out = loop->after;
    } else if (gp_tpl_is(name, "cycle")) {
        return loop_method(r, loop, &cycle_method, out);
    } else if (gp_tpl_is(name, "changed")) {
        return loop_method(r, loop, &changed_method, out);
    }
    return true;
}
