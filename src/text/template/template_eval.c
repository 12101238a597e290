/* Expressions: names, lookups and operators, with Python's arithmetic. */
#include "text/template/template_internal.h"

#include "base/assert.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* ---- names ---- */

static struct tpl_value *slot_of(const struct tpl_run *r, uint32_t up, uint32_t slot)
{
    const struct tpl_activation *a = r->activation;

    for (; up > 0; up--)
        a = a->up;
    return &a->slots[slot];
}

void gp_tpl_scope_enter(struct tpl_run *r, const struct tpl_scope *scope)
{
    struct tpl_value value;

    for (uint32_t i = 0; i < scope->count; i++) {
        const struct tpl_load *l = &scope->loads[i];
        if (l->action == TPL_LOAD_PARAMETER)
            continue;
        value = (struct tpl_value){.kind = TPL_MISSING};
        if (l->action == TPL_LOAD_ALIAS)
            value = *slot_of(r, l->from_up, l->from_slot);
        else if (l->action == TPL_LOAD_RESOLVE)
            gp_tpl_dict_name(r, r->context, l->name, &value); /* the next step sees a failure */
        r->activation->slots[l->slot] = value;
    }
}

static bool eval_name(struct tpl_run *r, const struct tpl_node *n, struct tpl_value *out)
{
    *out = *slot_of(r, n->up, n->slot);
    if (out->kind == TPL_MISSING && n->passing)
        return gp_tpl_fail(r, "'%s' is used outside the block that gave it", n->name->bytes);
    return out->kind != TPL_MISSING || gp_tpl_undefined(r, NULL, n->name, NULL, out);
}

static bool assign_attribute(struct tpl_run *r, const struct tpl_node *n, struct tpl_value v)
{
    struct tpl_value object = *slot_of(r, n->up, n->slot);

    if (object.kind != TPL_NAMESPACE)
        return gp_tpl_fail(r, "cannot assign attribute on non-namespace object");
    return gp_tpl_dict_set(r, object.dict, n->value, v);
}

static bool assign_tuple(struct tpl_run *r, const struct tpl_node *n, struct tpl_value v)
{
    struct tpl_iter *iter;
    struct tpl_value item;
    bool done;

    if (!gp_tpl_iterable(v))
        return gp_tpl_fail(r, "cannot unpack non-iterable %s", gp_tpl_type(v));
    if (!gp_tpl_iter_open(r, v, &iter))
        return false;
    /* All items first: Python unpacks before it assigns. */
    struct tpl_value *items = gp_tpl_take_array(r, n->items.count + 1u, sizeof *items);
    if (!items)
        return false;
    for (uint32_t i = 0; i < n->items.count; i++) {
        if (!gp_tpl_iter_next(r, iter, &items[i], &done))
            return false;
        if (done)
            return gp_tpl_fail(r, "not enough values to unpack (expected %u, got %u)",
                               n->items.count, i);
    }
    if (!gp_tpl_iter_next(r, iter, &item, &done))
        return false;
    if (!done)
        return gp_tpl_fail(r, "too many values to unpack (expected %u)", n->items.count);
    for (uint32_t i = 0; i < n->items.count; i++)
        if (!gp_tpl_assign(r, n->items.items[i], items[i]))
            return false;
    return true;
}

bool gp_tpl_assign(struct tpl_run *r, const struct tpl_node *target, struct tpl_value v)
{
    if (target->kind == TPL_N_NAME) {
        *slot_of(r, target->up, target->slot) = v;
        return true;
    }
    if (target->kind == TPL_N_NSREF)
        return assign_attribute(r, target, v);
    return assign_tuple(r, target, v);
}

/* ---- attributes and items ---- */

/* Python's attribute of that name; TPL_MISSING in *out when the object has none. */
static bool python_attribute(struct tpl_run *r, struct tpl_value v, const struct tpl_string *name,
                             struct tpl_value *out)
{
    const struct tpl_builtin *builtin;

    *out = (struct tpl_value){.kind = TPL_MISSING};
    if (v.kind == TPL_NAMESPACE) {
        if (!gp_tpl_dict_name(r, v.dict, name, out))
            return false;
        if (out->kind != TPL_MISSING && name->length > 0 && name->bytes[0] == '_')
            return gp_tpl_undefined(r, "access to this attribute is unsafe", name, NULL, out);
        return true;
    }
    if (v.kind == TPL_LOOP)
        return gp_tpl_loop_attribute(r, v.loop, name, out);
    switch (gp_tpl_find_method((enum tpl_kind)v.kind, name, &builtin)) {
    case TPL_A_METHOD: {
        struct tpl_method *m = gp_tpl_take(r, sizeof *m);
        if (!m)
            return false;
        *m = (struct tpl_method){builtin, v};
        *out = (struct tpl_value){.kind = TPL_METHOD, .method = m};
        return true;
    }
    case TPL_A_MUTATING:
        return gp_tpl_undefined(r, "the sandbox does not let templates change lists and dicts",
                                name, NULL, out);
    case TPL_A_UNSUPPORTED:
        return gp_tpl_fail(r, "attribute '%.*s' of %s is not supported",
                           (int)(name->length < 60 ? name->length : 60), name->bytes,
                           gp_tpl_type(v));
    default:
        return true;
    }
}

bool gp_tpl_getattr(struct tpl_run *r, struct tpl_value v, const struct tpl_string *name,
                    struct tpl_value *out)
{
    if (v.kind == TPL_UNDEFINED)
        return gp_tpl_undefined_error(r, v);
    if (!python_attribute(r, v, name, out))
        return false;
    if (out->kind == TPL_MISSING && v.kind == TPL_DICT && !gp_tpl_dict_name(r, v.dict, name, out))
        return false;
    return out->kind != TPL_MISSING || gp_tpl_undefined(r, NULL, name, gp_tpl_type(v), out);
}

/* object[index] for an int; missing when out of range or not indexable. */
static bool index_item(struct tpl_run *r, struct tpl_value v, int64_t index, struct tpl_value *out)
{
    int64_t count;

    *out = (struct tpl_value){.kind = TPL_MISSING};
    bool indexable =
        v.kind == TPL_STRING || v.kind == TPL_LIST || v.kind == TPL_TUPLE || v.kind == TPL_RANGE;
    if (!indexable || !gp_tpl_length(v, &count))
        return true;
    if (index < 0)
        index += count;
    if (index < 0 || index >= count)
        return true;
    if (v.kind == TPL_STRING)
        return gp_tpl_string_slice(r, v.string, index, 1, 1, out);
    *out = v.kind == TPL_RANGE ? gp_tpl_int(v.range->start + v.range->step * index)
                               : v.list->items[index];
    return true;
}

static bool hashable(struct tpl_value v)
{
    return v.kind == TPL_STRING || v.kind == TPL_NONE || v.kind == TPL_UNDEFINED ||
           v.kind == TPL_TUPLE || gp_tpl_is_number(v);
}

bool gp_tpl_getitem(struct tpl_run *r, struct tpl_value v, struct tpl_value key,
                    struct tpl_value *out)
{
    int64_t index;

    if (v.kind == TPL_UNDEFINED)
        return gp_tpl_undefined_error(r, v);
    *out = (struct tpl_value){.kind = TPL_MISSING};
    if (v.kind == TPL_DICT) {
        if (hashable(key) && !gp_tpl_dict_get(r, v.dict, key, out))
            return false;
    } else if (gp_tpl_as_int(key, &index) && !index_item(r, v, index, out)) {
        return false;
    }
    if (out->kind == TPL_MISSING && key.kind == TPL_STRING && key.string->length > 0 &&
        key.string->bytes[0] != '_' && !python_attribute(r, v, key.string, out))
        return false;
    if (out->kind != TPL_MISSING)
        return true;
    return gp_tpl_undefined(r, NULL, key.kind == TPL_STRING ? key.string : NULL, gp_tpl_type(v),
                            out);
}

bool gp_tpl_getpath(struct tpl_run *r, struct tpl_value v, struct tpl_value path,
                    struct tpl_value fallback, struct tpl_value *out)
{
    *out = v;
    if (path.kind == TPL_MISSING || path.kind == TPL_NONE)
        return true;
    if (path.kind != TPL_STRING)
        return gp_tpl_getitem(r, v, path, out);
    const struct tpl_string *s = path.string;
    for (size_t begin = 0; begin <= s->length;) {
        struct tpl_value part;
        size_t end = begin;
        bool digits = true;
        int64_t number = 0;
        while (end < s->length && s->bytes[end] != '.') {
            char c = s->bytes[end++];
            digits = digits && c >= '0' && c <= '9' && number < INT64_MAX / 20;
            number = digits ? number * 10 + (c - '0') : 0;
        }
        if (!gp_tpl_string_part(r, s, begin, end, &part))
            return false;
        if (digits && end > begin)
            part = gp_tpl_int(number);
        struct tpl_value item = *out;
        if (!gp_tpl_getitem(r, item, part, out))
            return false;
        if (out->kind == TPL_UNDEFINED && fallback.kind != TPL_MISSING && fallback.kind != TPL_NONE)
            *out = fallback;
        begin = end + 1;
    }
    return true;
}

/* ---- slices ---- */

/* A part of a slice: an int, or none for `absent`. */
static bool slice_part(struct tpl_run *r, const struct tpl_node *n, int64_t absent, bool *given,
                       int64_t *out)
{
    struct tpl_value v = gp_tpl_none();

    if (n && !gp_tpl_eval(r, n, &v))
        return false;
    *given = v.kind != TPL_NONE;
    *out = absent;
    if (*given && !gp_tpl_as_int(v, out))
        return gp_tpl_fail(r, "slice indices must be integers, not %s", gp_tpl_type(v));
    return true;
}

static int64_t clamp(int64_t at, int64_t count, int64_t low, int64_t high)
{
    if (at < 0)
        at = at < -count ? low : at + count;
    return at < low ? low : at > high ? high : at;
}

static bool eval_slice(struct tpl_run *r, struct tpl_value v, const struct tpl_node *n,
                       struct tpl_value *out)
{
    int64_t count, start, stop, step;
    bool has_start, has_stop, has_step;

    if (v.kind == TPL_UNDEFINED)
        return gp_tpl_undefined_error(r, v);
    if (!slice_part(r, n->a, 0, &has_start, &start) || !slice_part(r, n->b, 0, &has_stop, &stop) ||
        !slice_part(r, n->c, 1, &has_step, &step))
        return false;
    if (v.kind != TPL_STRING && v.kind != TPL_LIST && v.kind != TPL_TUPLE)
        return gp_tpl_fail(r, "a %s cannot be sliced", gp_tpl_type(v));
    if (step == 0)
        return gp_tpl_fail(r, "slice step cannot be zero");
    gp_tpl_length(v, &count);
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? count : count - 1;
    start = has_start ? clamp(start, count, low, high) : step > 0 ? 0 : count - 1;
    stop = has_stop ? clamp(stop, count, low, high) : step > 0 ? count : -1;
    if (step > count)
        step = count + 1;
    if (step < -count)
        step = -count - 1;
    int64_t items = 0;
    if (step > 0 && start < stop)
        items = (stop - start - 1) / step + 1;
    else if (step < 0 && start > stop)
        items = (start - stop - 1) / -step + 1;
    if (v.kind == TPL_STRING)
        return gp_tpl_string_slice(r, v.string, items > 0 ? start : 0, step, items, out);
    if (!gp_tpl_step(r, (size_t)items * 16) ||
        !gp_tpl_list_new(r, (enum tpl_kind)v.kind, (size_t)items, out))
        return false;
    for (int64_t i = 0; i < items; i++)
        out->list->items[out->list->count++] = v.list->items[start + i * step];
    return true;
}

/* ---- arithmetic ---- */

static const char *const op_names[] = {
    [TPL_ADD] = "+",       [TPL_SUB] = "-", [TPL_MUL] = "*",  [TPL_DIV] = "/",
    [TPL_FLOORDIV] = "//", [TPL_MOD] = "%", [TPL_POW] = "**",
};

static bool too_large(struct tpl_run *r)
{
    return gp_tpl_fail(r, "integer beyond 64 bits");
}

static bool power_int(struct tpl_run *r, int64_t a, int64_t b, struct tpl_value *out)
{
    int64_t result = 1;

    if (b < 0) {
        if (a == 0)
            return gp_tpl_fail(r, "0.0 cannot be raised to a negative power");
        *out = gp_tpl_float(pow((double)a, (double)b));
        return true;
    }
    for (; b > 0; b >>= 1) {
        if ((b & 1) && __builtin_mul_overflow(result, a, &result))
            return too_large(r);
        if (b > 1 && __builtin_mul_overflow(a, a, &a))
            return too_large(r);
    }
    *out = gp_tpl_int(result);
    return true;
}

static bool arithmetic_int(struct tpl_run *r, enum tpl_op op, int64_t a, int64_t b,
                           struct tpl_value *out)
{
    int64_t result = 0;
    bool over = false;

    if ((op == TPL_DIV || op == TPL_FLOORDIV || op == TPL_MOD) && b == 0)
        return gp_tpl_fail(r, "division by zero");
    switch (op) {
    case TPL_ADD:
        over = __builtin_add_overflow(a, b, &result);
        break;
    case TPL_SUB:
        over = __builtin_sub_overflow(a, b, &result);
        break;
    case TPL_MUL:
        over = __builtin_mul_overflow(a, b, &result);
        break;
    case TPL_DIV:
        /* Beyond this a quotient of doubles is not always the double of the quotient. */
        if (a > (INT64_C(1) << 53) || a < -(INT64_C(1) << 53) || b > (INT64_C(1) << 53) ||
            b < -(INT64_C(1) << 53))
            return too_large(r);
        *out = gp_tpl_float((double)a / (double)b);
        return true;
    case TPL_FLOORDIV:
        if (b == -1) {
            over = __builtin_sub_overflow(0, a, &result);
            break;
        }
        result = a / b - (a % b != 0 && (a < 0) != (b < 0));
        break;
    case TPL_MOD:
        result = b == -1 ? 0 : a % b;
        if (result != 0 && (result < 0) != (b < 0))
            result += b;
        break;
    default:
        return power_int(r, a, b, out);
    }
    if (over)
        return too_large(r);
    *out = gp_tpl_int(result);
    return true;
}

/* Python's float // and %. */
static double float_mod(double a, double b, double *quotient)
{
    double mod = fmod(a, b);
    double div = (a - mod) / b;

    if (mod != 0) {
        if ((b < 0) != (mod < 0)) {
            mod += b;
            div -= 1;
        }
    } else {
        mod = copysign(0, b);
    }
    if (div != 0) {
        *quotient = floor(div);
        if (div - *quotient > 0.5)
            *quotient += 1;
    } else {
        *quotient = copysign(0, a / b);
    }
    return mod;
}

static bool power_float(struct tpl_run *r, double a, double b, struct tpl_value *out)
{
    if (a == 0 && b < 0)
        return gp_tpl_fail(r, "0.0 cannot be raised to a negative power");
    if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
        return gp_tpl_fail(r, "complex numbers are not supported");
    double result = pow(a, b);
    if (isinf(result) && isfinite(a) && isfinite(b))
        return gp_tpl_fail(r, "result of ** too large");
    *out = gp_tpl_float(result);
    return true;
}

static bool arithmetic_float(struct tpl_run *r, enum tpl_op op, double a, double b,
                             struct tpl_value *out)
{
    double quotient;

    if ((op == TPL_DIV || op == TPL_FLOORDIV || op == TPL_MOD) && b == 0)
        return gp_tpl_fail(r, "float division by zero");
    switch (op) {
    case TPL_ADD:
        *out = gp_tpl_float(a + b);
        return true;
    case TPL_SUB:
        *out = gp_tpl_float(a - b);
        return true;
    case TPL_MUL:
        *out = gp_tpl_float(a * b);
        return true;
    case TPL_DIV:
        *out = gp_tpl_float(a / b);
        return true;
    case TPL_FLOORDIV:
        float_mod(a, b, &quotient);
        *out = gp_tpl_float(quotient);
        return true;
    case TPL_MOD:
        *out = gp_tpl_float(float_mod(a, b, &quotient));
        return true;
    default:
        return power_float(r, a, b, out);
    }
}

static bool add_strings(struct tpl_run *r, struct tpl_value a, struct tpl_value b,
                        struct tpl_value *out)
{
    bool markup = a.string->markup || b.string->markup;

    if (markup &&
        (!gp_tpl_string_escape(r, a.string, &a) || !gp_tpl_string_escape(r, b.string, &b)))
        return false;
    const struct tpl_string *parts[] = {a.string, b.string};
    if (!gp_tpl_string_join(r, parts, 2, out))
        return false;
    /* A fresh string that nobody else has seen yet. */
    ((struct tpl_string *)(uintptr_t)out->string)->markup = markup;
    return true;
}

static bool add_lists(struct tpl_run *r, struct tpl_value a, struct tpl_value b,
                      struct tpl_value *out)
{
    size_t count = a.list->count + b.list->count;

    if (!gp_tpl_step(r, count * 16) || !gp_tpl_list_new(r, (enum tpl_kind)a.kind, count, out))
        return false;
    struct tpl_list *list = out->list;
    list->count = count;
    if (a.list->count > 0)
        memcpy(list->items, a.list->items, a.list->count * sizeof *list->items);
    if (b.list->count > 0)
        memcpy(list->items + a.list->count, b.list->items, b.list->count * sizeof *list->items);
    return true;
}

/* A string, list or tuple `times` over. */
static bool repeat(struct tpl_run *r, struct tpl_value v, int64_t times, struct tpl_value *out)
{
    size_t unit = v.kind == TPL_STRING ? v.string->length : v.list->count;
    size_t n = times < 0 || unit == 0 ? 0 : (size_t)times;

    if (v.kind == TPL_STRING && v.string->markup)
        return gp_tpl_fail(r, "a safe string cannot be repeated");
    if (n > 0 && unit > TPL_MEMORY / n)
        return gp_tpl_fail(r, "more than %u MiB of values", TPL_MEMORY >> 20);
    if (v.kind == TPL_STRING) {
        struct tpl_buffer b = {0};
        for (size_t i = 0; i < n; i++)
            if (!gp_tpl_put_string(r, &b, v.string))
                return false;
        return gp_tpl_buffer_string(r, &b, out);
    }
    if (!gp_tpl_step(r, n * unit * 16) || !gp_tpl_list_new(r, (enum tpl_kind)v.kind, n * unit, out))
        return false;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < unit; k++)
            out->list->items[out->list->count++] = v.list->items[k];
    return true;
}

static bool is_sequence(struct tpl_value v)
{
    return v.kind == TPL_STRING || v.kind == TPL_LIST || v.kind == TPL_TUPLE;
}

bool gp_tpl_binary(struct tpl_run *r, enum tpl_op op, struct tpl_value a, struct tpl_value b,
                   struct tpl_value *out)
{
    int64_t x, y;

    gp_assert(op <= TPL_POW);
    if (op == TPL_MOD && a.kind == TPL_STRING)
        return gp_tpl_percent(r, a.string, b, out);
    if (a.kind == TPL_UNDEFINED || b.kind == TPL_UNDEFINED)
        return gp_tpl_undefined_error(r, a.kind == TPL_UNDEFINED ? a : b);
    if (gp_tpl_is_number(a) && gp_tpl_is_number(b)) {
        bool ok = gp_tpl_as_int(a, &x) && gp_tpl_as_int(b, &y)
                      ? arithmetic_int(r, op, x, y, out)
                      : arithmetic_float(r, op, gp_tpl_as_float(a), gp_tpl_as_float(b), out);
        out->untrusted = a.untrusted || b.untrusted;
        return ok;
    }
    if (op == TPL_ADD && a.kind == TPL_STRING && b.kind == TPL_STRING)
        return add_strings(r, a, b, out);
    if (op == TPL_ADD && a.kind == b.kind && (a.kind == TPL_LIST || a.kind == TPL_TUPLE))
        return add_lists(r, a, b, out);
    if (op == TPL_MUL && is_sequence(a) && gp_tpl_as_int(b, &y))
        return repeat(r, a, y, out);
    if (op == TPL_MUL && is_sequence(b) && gp_tpl_as_int(a, &x))
        return repeat(r, b, x, out);
    return gp_tpl_fail(r, "unsupported operand types for %s: '%s' and '%s'", op_names[op],
                       gp_tpl_type(a), gp_tpl_type(b));
}

static bool eval_sign(struct tpl_run *r, const struct tpl_node *n, struct tpl_value *out)
{
    struct tpl_value v;
    int64_t x;

    if (!gp_tpl_eval(r, n->a, &v))
        return false;
    r->line = n->line;
    bool negate = n->kind == TPL_N_NEG;
    if (v.kind == TPL_UNDEFINED)
        return gp_tpl_undefined_error(r, v);
    if (v.kind == TPL_FLOAT) {
        *out = gp_tpl_float(negate ? -v.real : v.real);
    } else if (gp_tpl_as_int(v, &x)) {
        if (negate && __builtin_sub_overflow(0, x, &x))
            return too_large(r);
        *out = gp_tpl_int(x);
    } else {
        return gp_tpl_fail(r, "bad operand type for unary %c: '%s'", negate ? '-' : '+',
                           gp_tpl_type(v));
    }
    out->untrusted = v.untrusted;
    return true;
}

/* ---- the rest ---- */

static bool eval_items(struct tpl_run *r, const struct tpl_node *n, struct tpl_value *out)
{
    enum tpl_kind kind = n->kind == TPL_N_TUPLE ? TPL_TUPLE : TPL_LIST;

    if (!gp_tpl_list_new(r, kind, n->items.count, out))
        return false;
    for (uint32_t i = 0; i < n->items.count; i++) {
        struct tpl_value item;
        if (!gp_tpl_eval(r, n->items.items[i], &item) || !gp_tpl_list_add(r, out->list, item))
            return false;
    }
    return true;
}

static bool eval_dict(struct tpl_run *r, const struct tpl_node *n, struct tpl_value *out)
{
    if (!gp_tpl_dict_new(r, TPL_DICT, out))
        return false;
    for (uint32_t i = 0; i < n->items.count; i += 2) {
        struct tpl_value key, value;
        if (!gp_tpl_eval(r, n->items.items[i], &key) ||
            !gp_tpl_eval(r, n->items.items[i + 1], &value) ||
            !gp_tpl_dict_set(r, out->dict, key, value))
            return false;
    }
    return true;
}

static bool eval_concat(struct tpl_run *r, const struct tpl_node *n, struct tpl_value *out)
{
    const struct tpl_string **parts = gp_tpl_take_array(r, n->items.count, sizeof *parts);

    if (!parts)
        return false;
    for (uint32_t i = 0; i < n->items.count; i++) {
        struct tpl_value item;
        if (!gp_tpl_eval(r, n->items.items[i], &item) || !gp_tpl_str(r, item, &parts[i]))
            return false;
    }
    return gp_tpl_string_join(r, parts, n->items.count, out);
}

static bool eval_compare(struct tpl_run *r, const struct tpl_node *n, struct tpl_value *out)
{
    struct tpl_value left, right;
    bool result = true;

    if (!gp_tpl_eval(r, n->a, &left))
        return false;
    for (uint32_t i = 0; i < n->items.count && result; i++) {
        if (!gp_tpl_eval(r, n->items.items[i], &right))
            return false;
        r->line = n->line;
        if (!gp_tpl_compare(r, (enum tpl_op)n->ops[i], left, right, &result))
            return false;
        left = right;
    }
    *out = gp_tpl_bool(result);
    return true;
}

static bool eval_cond(struct tpl_run *r, const struct tpl_node *n, struct tpl_value *out)
{
    struct tpl_value test;

    if (!gp_tpl_eval(r, n->a, &test))
        return false;
    if (gp_tpl_truth(test))
        return gp_tpl_eval(r, n->b, out);
    if (n->c)
        return gp_tpl_eval(r, n->c, out);
    return gp_tpl_undefined(r, "an inline if was false and had no else", NULL, NULL, out);
}

static bool eval_filter(struct tpl_run *r, const struct tpl_node *n, struct tpl_value *out)
{
    struct tpl_args args = {0};

    if (n->a) {
        if (!gp_tpl_eval(r, n->a, &args.self))
            return false;
    } else {
        args.self = r->captured;
    }
    if (!gp_tpl_eval_args(r, n, &args))
        return false;
    r->line = n->line;
    return gp_tpl_call_builtin(r, n->builtin, &args, out);
}

static bool eval_call(struct tpl_run *r, const struct tpl_node *n, struct tpl_value *out)
{
    struct tpl_args args = {0};
    struct tpl_value callee;

    if (!gp_tpl_eval(r, n->a, &callee) || !gp_tpl_eval_args(r, n, &args))
        return false;
    r->line = n->line;
    return gp_tpl_call(r, callee, &args, out);
}

static bool eval_lookup(struct tpl_run *r, const struct tpl_node *n, struct tpl_value *out)
{
    struct tpl_value object, key;

    if (!gp_tpl_eval(r, n->a, &object))
        return false;
    r->line = n->line;
    if (n->kind == TPL_N_GETATTR)
        return gp_tpl_getattr(r, object, n->name, out);
    if (n->b->kind == TPL_N_SLICE)
        return eval_slice(r, object, n->b, out);
    if (!gp_tpl_eval(r, n->b, &key))
        return false;
    r->line = n->line;
    return gp_tpl_getitem(r, object, key, out);
}

static bool eval_binary(struct tpl_run *r, const struct tpl_node *n, struct tpl_value *out)
{
    struct tpl_value a, b;

    if (!gp_tpl_eval(r, n->a, &a))
        return false;
    if (n->kind != TPL_N_BINARY && gp_tpl_truth(a) == (n->kind == TPL_N_OR)) {
        *out = a;
        return true;
    }
    if (n->kind != TPL_N_BINARY)
        return gp_tpl_eval(r, n->b, out);
    if (!gp_tpl_eval(r, n->b, &b))
        return false;
    r->line = n->line;
    return gp_tpl_binary(r, (enum tpl_op)n->op, a, b, out);
}

static bool eval_node(struct tpl_run *r, const struct tpl_node *n, struct tpl_value *out)
{
    switch ((enum tpl_node_kind)n->kind) {
    case TPL_N_CONST:
        *out = n->value;
        return true;
    case TPL_N_NAME:
        return eval_name(r, n, out);
    case TPL_N_TUPLE:
    case TPL_N_LIST:
        return eval_items(r, n, out);
    case TPL_N_DICT:
        return eval_dict(r, n, out);
    case TPL_N_GETATTR:
    case TPL_N_GETITEM:
        return eval_lookup(r, n, out);
    case TPL_N_CALL:
        return eval_call(r, n, out);
    case TPL_N_FILTER:
    case TPL_N_TEST:
        return eval_filter(r, n, out);
    case TPL_N_COND:
        return eval_cond(r, n, out);
    case TPL_N_OR:
    case TPL_N_AND:
    case TPL_N_BINARY:
        return eval_binary(r, n, out);
    case TPL_N_NOT:
        if (!gp_tpl_eval(r, n->a, out))
            return false;
        *out = gp_tpl_bool(!gp_tpl_truth(*out));
        return true;
    case TPL_N_NEG:
    case TPL_N_POS:
        return eval_sign(r, n, out);
    case TPL_N_CONCAT:
        return eval_concat(r, n, out);
    case TPL_N_COMPARE:
        return eval_compare(r, n, out);
    default:
        gp_assert(!"an expression");
        return false;
    }
}

bool gp_tpl_eval(struct tpl_run *r, const struct tpl_node *n, struct tpl_value *out)
{
    if (!gp_tpl_enter(r) || !gp_tpl_step(r, 0) || r->status != GP_OK)
        return false;
    r->line = n->line;
    bool ok = eval_node(r, n, out);
    r->depth--;
    return ok;
}
