/* Filters of lists, dicts and whatever else has items. */
#include "text/template/template_internal.h"

#include <string.h>

static const struct tpl_value missing = {.kind = TPL_MISSING};

static bool given(struct tpl_value v)
{
    return v.kind != TPL_MISSING;
}

static bool f_length(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    int64_t n;

    if (!gp_tpl_length(a->self, &n))
        return gp_tpl_fail(r, "object of type '%s' has no len()", gp_tpl_type(a->self));
    *out = gp_tpl_int(n);
    return true;
}

static bool f_list(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return gp_tpl_to_list(r, a->self, TPL_LIST, out);
}

static bool f_first(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    struct tpl_iter *iter;
    bool done;

    if (!gp_tpl_iter_open(r, a->self, &iter) || !gp_tpl_iter_next(r, iter, out, &done))
        return false;
    return !done || gp_tpl_undefined(r, "no first item, sequence was empty", NULL, NULL, out);
}

static bool f_last(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    struct tpl_value list;

    if (a->self.kind == TPL_ITERATOR)
        return gp_tpl_fail(r, "'generator' object is not reversible");
    if (!gp_tpl_to_list(r, a->self, TPL_LIST, &list))
        return false;
    if (list.list->count == 0)
        return gp_tpl_undefined(r, "no last item, sequence was empty", NULL, NULL, out);
    *out = list.list->items[list.list->count - 1];
    return true;
}

static bool f_reverse(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    struct tpl_value list;
    struct tpl_iter *iter;

    if (a->self.kind == TPL_STRING) {
        int64_t n = (int64_t)gp_tpl_string_chars(a->self.string);
        return gp_tpl_string_slice(r, a->self.string, n > 0 ? n - 1 : 0, -1, n, out);
    }
    if (!gp_tpl_to_list(r, a->self, TPL_LIST, &list))
        return false;
    struct tpl_value *items = list.list->items;
    for (size_t i = 0, n = list.list->count; i < n / 2; i++) {
        struct tpl_value swap = items[i];
        items[i] = items[n - 1 - i];
        items[n - 1 - i] = swap;
    }
    *out = list;
    if (a->self.kind == TPL_ITERATOR)
        return true;
    /* reversed() of what can be reversed in place is an iterator. */
    if (!gp_tpl_iter_open(r, list, &iter))
        return false;
    *out = (struct tpl_value){.kind = TPL_ITERATOR, .iter = iter};
    return true;
}

static bool f_items(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    struct tpl_view view = {a->self.dict, TPL_ITEMS};
    struct tpl_value over = {.kind = TPL_VIEW, .view = &view};
    struct tpl_iter *iter;

    if (a->self.kind != TPL_DICT && a->self.kind != TPL_UNDEFINED)
        return gp_tpl_fail(r, "can only get item pairs from a mapping, not %s",
                           gp_tpl_type(a->self));
    if (!gp_tpl_iter_open(r, a->self.kind == TPL_DICT ? over : a->self, &iter))
        return false;
    *out = (struct tpl_value){.kind = TPL_ITERATOR, .iter = iter};
    return true;
}

static bool f_join(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    static const struct tpl_string nothing = {.bytes = "", .trusted = true};
    const struct tpl_string *between = &nothing, *text;
    struct tpl_buffer b = {0};
    struct tpl_value item;
    struct tpl_iter *iter;
    bool done;

    if ((given(a->v[0]) && !gp_tpl_str(r, a->v[0], &between)) ||
        !gp_tpl_iter_open(r, a->self, &iter))
        return false;
    for (bool first = true;; first = false) {
        if (!gp_tpl_iter_next(r, iter, &item, &done))
            return false;
        if (done)
            return gp_tpl_buffer_string(r, &b, out);
        struct tpl_value part;
        if (!gp_tpl_getpath(r, item, a->v[1], missing, &part) || !gp_tpl_str(r, part, &text) ||
            (!first && !gp_tpl_put_string(r, &b, between)) || !gp_tpl_put_string(r, &b, text))
            return false;
    }
}

/* Merge sort, stable in both directions: items[i] is ordered by keys[i]. */
bool gp_tpl_sort(struct tpl_run *r, struct tpl_value *items, struct tpl_value *keys, size_t count,
                 bool reverse)
{
    struct tpl_value *from[2] = {items, keys}, *to[2];

    to[0] = gp_tpl_take_array(r, count + 1, sizeof *to[0]);
    to[1] = to[0] ? gp_tpl_take_array(r, count + 1, sizeof *to[1]) : NULL;
    if (!to[1])
        return false;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t begin = 0; begin < count; begin += 2 * width) {
            size_t middle = begin + width < count ? begin + width : count;
            size_t end = begin + 2 * width < count ? begin + 2 * width : count;
            size_t a = begin, b = middle;
            for (size_t i = begin; i < end; i++) {
                bool right = a >= middle;
                if (!right && b < end) {
                    struct tpl_value x = from[1][a], y = from[1][b];
                    if (!gp_tpl_less(r, reverse ? x : y, reverse ? y : x, &right))
                        return false;
                }
                size_t next = right ? b++ : a++;
                to[0][i] = from[0][next];
                to[1][i] = from[1][next];
            }
        }
        for (int k = 0; k < 2; k++) {
            struct tpl_value *swap = from[k];
            from[k] = to[k];
            to[k] = swap;
        }
    }
    if (from[0] != items && count > 0) {
        memcpy(items, from[0], count * sizeof *items);
        memcpy(keys, from[1], count * sizeof *keys);
    }
    return true;
}

/* What an item is ordered by: one attribute, in lower case unless told otherwise. */
static bool order_key(struct tpl_run *r, struct tpl_value item, struct tpl_value path,
                      bool case_sensitive, struct tpl_value *out)
{
    if (!gp_tpl_getpath(r, item, path, missing, out))
        return false;
    return case_sensitive || out->kind != TPL_STRING || gp_tpl_lower(r, out->string, out);
}

/* sort's key: a list of the attributes that "a,b" names. */
static bool sort_key(struct tpl_run *r, struct tpl_value item, struct tpl_value path,
                     bool case_sensitive, struct tpl_value *out)
{
    struct tpl_value part, key;

    if (!gp_tpl_list_new(r, TPL_LIST, 0, out))
        return false;
    if (path.kind != TPL_STRING)
        return order_key(r, item, path, case_sensitive, &key) && gp_tpl_list_add(r, out->list, key);
    const struct tpl_string *s = path.string;
    for (size_t begin = 0; begin <= s->length;) {
        size_t end = begin;
        while (end < s->length && s->bytes[end] != ',')
            end++;
        if (!gp_tpl_string_part(r, s, begin, end, &part) ||
            !order_key(r, item, part, case_sensitive, &key) || !gp_tpl_list_add(r, out->list, key))
            return false;
        begin = end + 1;
    }
    return true;
}

static bool f_sort(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    int64_t reverse;

    if (!gp_tpl_to_list(r, a->self, TPL_LIST, out) || !gp_tpl_want_int(r, a->v[0], 0, &reverse))
        return false;
    size_t count = out->list->count;
    struct tpl_value *keys = gp_tpl_take_array(r, count + 1, sizeof *keys);
    if (!keys)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!sort_key(r, out->list->items[i], a->v[2], gp_tpl_truth(a->v[1]), &keys[i]))
            return false;
    return gp_tpl_sort(r, out->list->items, keys, count, reverse != 0);
}

static bool f_dictsort(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    bool by_value =
        given(a->v[1]) && a->v[1].kind == TPL_STRING && gp_tpl_is(a->v[1].string, "value");
    bool by_key =
        !given(a->v[1]) || (a->v[1].kind == TPL_STRING && gp_tpl_is(a->v[1].string, "key"));

    int64_t reverse;

    if (!gp_tpl_want_int(r, a->v[2], 0, &reverse))
        return false;
    if (!by_key && !by_value)
        return gp_tpl_fail(r, "you can only sort by either \"key\" or \"value\"");
    if (a->self.kind == TPL_UNDEFINED)
        return gp_tpl_undefined_error(r, a->self);
    if (a->self.kind != TPL_DICT)
        return gp_tpl_fail(r, "dictsort takes a mapping, not %s", gp_tpl_type(a->self));
    const struct tpl_dict *dict = a->self.dict;
    struct tpl_value *keys = gp_tpl_take_array(r, dict->count + 1, sizeof *keys);
    if (!keys || !gp_tpl_list_new(r, TPL_LIST, dict->count, out))
        return false;
    for (size_t i = 0; i < dict->count; i++) {
        const struct tpl_entry *e = &dict->entries[i];
        struct tpl_value pair;
        if (!gp_tpl_pair(r, e->key, e->value, &pair) || !gp_tpl_list_add(r, out->list, pair) ||
            !order_key(r, by_value ? e->value : e->key, missing, gp_tpl_truth(a->v[0]), &keys[i]))
            return false;
    }
    return gp_tpl_sort(r, out->list->items, keys, dict->count, reverse != 0);
}

static bool extreme(struct tpl_run *r, const struct tpl_args *a, bool max, struct tpl_value *out)
{
    struct tpl_value list, best, key;
    bool less;

    if (!gp_tpl_to_list(r, a->self, TPL_LIST, &list))
        return false;
    if (list.list->count == 0)
        return gp_tpl_undefined(r, "no aggregated item, sequence was empty", NULL, NULL, out);
    for (size_t i = 0; i < list.list->count; i++) {
        if (!order_key(r, list.list->items[i], a->v[1], gp_tpl_truth(a->v[0]), &key))
            return false;
        less = i == 0;
        if (i > 0 && !gp_tpl_less(r, max ? best : key, max ? key : best, &less))
            return false;
        if (less) {
            best = key;
            *out = list.list->items[i];
        }
    }
    return true;
}

static bool f_max(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return extreme(r, a, true, out);
}

static bool f_min(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return extreme(r, a, false, out);
}

static bool f_unique(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    struct tpl_value seen;

    if (!gp_tpl_dict_new(r, TPL_DICT, &seen) || !gp_tpl_iter_new(r, TPL_I_UNIQUE, a->self, out))
        return false;
    out->iter->seen = seen.dict;
    out->iter->case_sensitive = gp_tpl_truth(a->v[0]);
    out->iter->attribute = a->v[1];
    return true;
}

static bool f_batch(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    int64_t size;

    if (!gp_tpl_want_int(r, a->v[0], 0, &size))
        return false;
    if (size < 1)
        return gp_tpl_fail(r, "batch of %lld items is not supported", (long long)size);
    if (!gp_tpl_iter_new(r, TPL_I_BATCH, a->self, out))
        return false;
    out->iter->at = (size_t)size;
    out->iter->fallback = given(a->v[1]) ? a->v[1] : gp_tpl_none();
    return true;
}

static bool f_default(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    static const struct tpl_string nothing = {.bytes = "", .trusted = true};

    (void)r;
    *out = a->self;
    if (a->self.kind == TPL_UNDEFINED || (gp_tpl_truth(a->v[1]) && !gp_tpl_truth(a->self)))
        *out = given(a->v[0]) ? a->v[0] : gp_tpl_string_value(&nothing);
    return true;
}

/* ---- map and select ---- */

/* What comes behind the first `skip` positional arguments, kept for as long as the iterator. */
static const struct tpl_args *rest_args(struct tpl_run *r, const struct tpl_args *a, size_t skip)
{
    struct tpl_args *rest = gp_tpl_take(r, sizeof *rest);

    if (!rest)
        return NULL;
    rest->values = a->count > skip ? a->values + skip : NULL;
    rest->count = a->count - skip;
    rest->names = a->names;
    rest->keyword_values = a->keyword_values;
    rest->keyword_count = a->keyword_count;
    return rest;
}

/* An iterator over a value that may be none or 0: those give nothing, as in jinja2. */
static bool lazy(struct tpl_run *r, enum tpl_iter_kind kind, struct tpl_value over,
                 struct tpl_value *out)
{
    if (gp_tpl_truth(over))
        return gp_tpl_iter_new(r, kind, over, out);
    struct tpl_iter *iter = gp_tpl_take(r, sizeof *iter);
    if (!iter)
        return false;
    iter->kind = TPL_I_EMPTY;
    *out = (struct tpl_value){.kind = TPL_ITERATOR, .iter = iter};
    return true;
}

static bool map_attribute(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    struct tpl_value path = missing, fallback = missing;

    for (size_t i = 0; i < a->keyword_count; i++) {
        if (gp_tpl_is(a->names[i], "attribute"))
            path = a->keyword_values[i];
        else if (gp_tpl_is(a->names[i], "default"))
            fallback = a->keyword_values[i];
        else
            return gp_tpl_fail(r, "unexpected keyword argument '%.60s'", a->names[i]->bytes);
    }
    if (path.kind == TPL_MISSING)
        return gp_tpl_fail(r, "map requires a filter argument");
    if (!lazy(r, TPL_I_ATTRIBUTE, a->self, out))
        return false;
    out->iter->attribute = path;
    out->iter->fallback = fallback;
    return true;
}

static bool f_map(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    if (a->count == 0)
        return map_attribute(r, a, out);
    if (a->values[0].kind != TPL_STRING)
        return gp_tpl_fail(r, "map requires the name of a filter");
    const struct tpl_builtin *filter = gp_tpl_find_filter(a->values[0].string);
    if (!filter)
        return gp_tpl_fail(r, "unknown filter '%.60s'", a->values[0].string->bytes);
    if (!lazy(r, TPL_I_FILTER, a->self, out))
        return false;
    out->iter->builtin = filter;
    return (out->iter->args = rest_args(r, a, 1)) != NULL;
}

/* select and reject, with_attribute their attr forms. */
static bool choose(struct tpl_run *r, const struct tpl_args *a, bool with_attribute, bool reject,
                   struct tpl_value *out)
{
    const struct tpl_builtin *test = NULL;
    size_t used = with_attribute;

    if (a->count < used)
        return gp_tpl_fail(r, "missing parameter for attribute name");
    if (a->count > used) {
        if (a->values[used].kind != TPL_STRING)
            return gp_tpl_fail(r, "the name of a test must be a string");
        test = gp_tpl_find_test(a->values[used].string);
        if (!test)
            return gp_tpl_fail(r, "unknown test '%.60s'", a->values[used].string->bytes);
        used++;
    }
    if (!lazy(r, TPL_I_SELECT, a->self, out))
        return false;
    out->iter->builtin = test;
    out->iter->reject = reject;
    if (with_attribute)
        out->iter->attribute = a->values[0];
    return (out->iter->args = rest_args(r, a, used)) != NULL;
}

static bool f_select(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return choose(r, a, false, false, out);
}

static bool f_reject(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return choose(r, a, false, true, out);
}

static bool f_selectattr(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return choose(r, a, true, false, out);
}

static bool f_rejectattr(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return choose(r, a, true, true, out);
}

const struct tpl_builtin gp_tpl_sequence_filters[] = {
    {"batch", f_batch, 1, false, {"linecount", "fill_with"}},
    {"count", f_length, 0, false, {NULL}},
    {"d", f_default, 0, false, {"default_value", "boolean"}},
    {"default", f_default, 0, false, {"default_value", "boolean"}},
    {"dictsort", f_dictsort, 0, false, {"case_sensitive", "by", "reverse"}},
    {"first", f_first, 0, false, {NULL}},
    {"items", f_items, 0, false, {NULL}},
    {"join", f_join, 0, false, {"d", "attribute"}},
    {"last", f_last, 0, false, {NULL}},
    {"length", f_length, 0, false, {NULL}},
    {"list", f_list, 0, false, {NULL}},
    {"map", f_map, 0, true, {NULL}},
    {"max", f_max, 0, false, {"case_sensitive", "attribute"}},
    {"min", f_min, 0, false, {"case_sensitive", "attribute"}},
    {"reject", f_reject, 0, true, {NULL}},
    {"rejectattr", f_rejectattr, 0, true, {NULL}},
    {"reverse", f_reverse, 0, false, {NULL}},
    {"select", f_select, 0, true, {NULL}},
    {"selectattr", f_selectattr, 0, true, {NULL}},
    {"sort", f_sort, 0, false, {"reverse", "case_sensitive", "attribute"}},
    {"unique", f_unique, 0, false, {"case_sensitive", "attribute"}},
    {NULL},
};
