/* Tests: what stands behind `is`, and what select and reject take by name. */
#include "text/template/template_internal.h"

static bool answer(struct tpl_value *out, bool yes)
{
    *out = gp_tpl_bool(yes);
    return true;
}

static bool t_defined(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    (void)r;
    return answer(out, a->self.kind != TPL_UNDEFINED);
}

static bool t_undefined(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    (void)r;
    return answer(out, a->self.kind == TPL_UNDEFINED);
}

static bool t_none(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    (void)r;
    return answer(out, a->self.kind == TPL_NONE);
}

static bool t_boolean(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    (void)r;
    return answer(out, a->self.kind == TPL_BOOL);
}

static bool t_true(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    (void)r;
    return answer(out, a->self.kind == TPL_BOOL && a->self.flag);
}

static bool t_false(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    (void)r;
    return answer(out, a->self.kind == TPL_BOOL && !a->self.flag);
}

static bool t_integer(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    (void)r;
    return answer(out, a->self.kind == TPL_INT);
}

static bool t_float(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    (void)r;
    return answer(out, a->self.kind == TPL_FLOAT);
}

static bool t_number(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    (void)r;
    return answer(out, gp_tpl_is_number(a->self));
}

static bool t_string(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    (void)r;
    return answer(out, a->self.kind == TPL_STRING);
}

static bool t_mapping(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    (void)r;
    return answer(out, a->self.kind == TPL_DICT);
}

/* Has a length and items: an undefined value pretends to have both. */
static bool t_sequence(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    int64_t n;

    (void)r;
    return answer(out, gp_tpl_length(a->self, &n) && a->self.kind != TPL_VIEW);
}

static bool t_iterable(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    (void)r;
    return answer(out, gp_tpl_iterable(a->self) || a->self.kind == TPL_LOOP);
}

static bool t_callable(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    uint8_t k = a->self.kind;

    (void)r;
    return answer(out, k == TPL_UNDEFINED || k == TPL_MACRO || k == TPL_BUILTIN ||
                           k == TPL_METHOD || k == TPL_LOOP);
}

static bool t_escaped(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    (void)r;
    return answer(out, a->self.kind == TPL_STRING && a->self.string->markup);
}

/* The same object.  Whether two equal numbers or texts are one object is Python's own affair. */
static bool t_sameas(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    struct tpl_value x = a->self, y = a->v[0];

    if (x.kind != y.kind)
        return answer(out, false);
    if (x.kind == TPL_NONE)
        return answer(out, true);
    if (x.kind == TPL_BOOL)
        return answer(out, x.flag == y.flag);
    if (x.kind == TPL_LIST || x.kind == TPL_DICT || x.kind == TPL_NAMESPACE)
        return answer(out, x.dict == y.dict);
    return gp_tpl_fail(r, "sameas of two values of type %s is not supported", gp_tpl_type(x));
}

static bool remainder_is(struct tpl_run *r, const struct tpl_args *a, struct tpl_value by,
                         int64_t wanted, struct tpl_value *out)
{
    struct tpl_value rest;
    bool equal;

    if (a->self.kind == TPL_STRING)
        return gp_tpl_fail(r, "a str is not a number");
    if (!gp_tpl_binary(r, TPL_MOD, a->self, by, &rest) ||
        !gp_tpl_equal(r, rest, gp_tpl_int(wanted), &equal))
        return false;
    return answer(out, equal);
}

static bool t_odd(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return remainder_is(r, a, gp_tpl_int(2), 1, out);
}

static bool t_even(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return remainder_is(r, a, gp_tpl_int(2), 0, out);
}

static bool t_divisibleby(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return remainder_is(r, a, a->v[0], 0, out);
}

static bool cased(struct tpl_run *r, const struct tpl_args *a, bool upper, struct tpl_value *out)
{
    const struct tpl_string *s;
    bool yes;

    return gp_tpl_str(r, a->self, &s) && gp_tpl_cased(r, s, upper, &yes) && answer(out, yes);
}

static bool t_upper(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return cased(r, a, true, out);
}

static bool t_lower(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return cased(r, a, false, out);
}

static bool compare(struct tpl_run *r, const struct tpl_args *a, enum tpl_op op,
                    struct tpl_value *out)
{
    bool yes;

    return gp_tpl_compare(r, op, a->self, a->v[0], &yes) && answer(out, yes);
}

static bool t_eq(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return compare(r, a, TPL_EQ, out);
}

static bool t_ne(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return compare(r, a, TPL_NE, out);
}

static bool t_lt(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return compare(r, a, TPL_LT, out);
}

static bool t_le(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return compare(r, a, TPL_LE, out);
}

static bool t_gt(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return compare(r, a, TPL_GT, out);
}

static bool t_ge(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return compare(r, a, TPL_GE, out);
}

static bool t_in(struct tpl_run *r, const struct tpl_args *a, struct tpl_value *out)
{
    return compare(r, a, TPL_IN, out);
}

static const struct tpl_builtin tests[] = {
    {"!=", t_ne, 1, false, {"*b"}},
    {"<", t_lt, 1, false, {"*b"}},
    {"<=", t_le, 1, false, {"*b"}},
    {"==", t_eq, 1, false, {"*b"}},
    {">", t_gt, 1, false, {"*b"}},
    {">=", t_ge, 1, false, {"*b"}},
    {"boolean", t_boolean, 0, false, {NULL}},
    {"callable", t_callable, 0, false, {NULL}},
    {"defined", t_defined, 0, false, {NULL}},
    {"divisibleby", t_divisibleby, 1, false, {"num"}},
    {"eq", t_eq, 1, false, {"*b"}},
    {"equalto", t_eq, 1, false, {"*b"}},
    {"escaped", t_escaped, 0, false, {NULL}},
    {"even", t_even, 0, false, {NULL}},
    {"false", t_false, 0, false, {NULL}},
    {"float", t_float, 0, false, {NULL}},
    {"ge", t_ge, 1, false, {"*b"}},
    {"greaterthan", t_gt, 1, false, {"*b"}},
    {"gt", t_gt, 1, false, {"*b"}},
    {"in", t_in, 1, false, {"seq"}},
    {"integer", t_integer, 0, false, {NULL}},
    {"iterable", t_iterable, 0, false, {NULL}},
    {"le", t_le, 1, false, {"*b"}},
    {"lessthan", t_lt, 1, false, {"*b"}},
    {"lower", t_lower, 0, false, {NULL}},
    {"lt", t_lt, 1, false, {"*b"}},
    {"mapping", t_mapping, 0, false, {NULL}},
    {"ne", t_ne, 1, false, {"*b"}},
    {"none", t_none, 0, false, {NULL}},
    {"number", t_number, 0, false, {NULL}},
    {"odd", t_odd, 0, false, {NULL}},
    {"sameas", t_sameas, 1, false, {"other"}},
    {"sequence", t_sequence, 0, false, {NULL}},
    {"string", t_string, 0, false, {NULL}},
    {"true", t_true, 0, false, {NULL}},
    {"undefined", t_undefined, 0, false, {NULL}},
    {"upper", t_upper, 0, false, {NULL}},
};

const struct tpl_builtin *gp_tpl_find_test(const struct tpl_string *name)
{
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        if (gp_tpl_is(name, tests[i].name))
            return &tests[i];
    return NULL;
}
