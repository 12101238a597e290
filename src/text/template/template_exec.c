/* Statements: what a body does when it runs.  A body writes to the run's current buffer; what
 * captures output (set blocks, filter blocks, macros) puts a buffer of its own there for the
 * time. */
#include "text/template/template_internal.h"

#include "base/assert.h"

#include <string.h>

static void scope_leave(struct tpl_run *r, const struct tpl_scope *scope)
{
    for (uint32_t i = 0; i < scope->count; i++)
        r->activation->slots[scope->loads[i].slot] = (struct tpl_value){.kind = TPL_MISSING};
}

static enum tpl_flow flow_of(bool ok)
{
    return ok ? TPL_FLOW_ON : TPL_FLOW_FAIL;
}

static struct tpl_activation *new_activation(struct tpl_run *r, struct tpl_activation *up,
                                             uint32_t slot_count)
{
    struct tpl_activation *a = gp_tpl_take(r, sizeof *a);

    if (!a)
        return NULL;
    a->up = up;
    a->slots = gp_tpl_take_array(r, slot_count + 1u, sizeof *a->slots);
    return a->slots ? a : NULL;
}

/* ---- macros ---- */

/* The keyword argument of that name, marked as used; missing when there is none. */
static struct tpl_value take_keyword(const struct tpl_args *args, bool *used,
                                     const struct tpl_string *name)
{
    for (size_t i = 0; i < args->keyword_count; i++)
        if (!used[i] && gp_tpl_string_equal(args->names[i], name)) {
            used[i] = true;
            return args->keyword_values[i];
        }
    return (struct tpl_value){.kind = TPL_MISSING};
}

/* caller, kwargs and varargs, for a macro that asks for them; otherwise nothing may be left
 * over. */
static bool bind_rest(struct tpl_run *r, const struct tpl_node *n, const struct tpl_args *args,
                      bool *used, struct tpl_value *slots)
{
    static const struct tpl_string caller_name = {.bytes = "caller", .length = 6, .trusted = true};

    if (n->takes_caller) {
        struct tpl_value caller = take_keyword(args, used, &caller_name);
        if ((caller.kind == TPL_MISSING || caller.kind == TPL_NONE) &&
            !gp_tpl_undefined(r, "No caller defined", &caller_name, NULL, &caller))
            return false;
        slots[n->slot] = caller;
    }
    struct tpl_value *kwargs = &slots[n->kwargs_slot];
    if (n->takes_kwargs && !gp_tpl_dict_new(r, TPL_DICT, kwargs))
        return false;
    for (size_t i = 0; i < args->keyword_count; i++) {
        if (used[i])
            continue;
        if (!n->takes_kwargs)
            return gp_tpl_fail(r, "macro %s takes no keyword argument '%.60s'",
                               n->name ? n->name->bytes : "caller", args->names[i]->bytes);
        if (!gp_tpl_dict_set(r, kwargs->dict, gp_tpl_string_value(args->names[i]),
                             args->keyword_values[i]))
            return false;
    }
    struct tpl_value *varargs = &slots[n->varargs_slot];
    if (n->takes_varargs && !gp_tpl_list_new(r, TPL_TUPLE, 0, varargs))
        return false;
    for (size_t i = n->items.count; i < args->count; i++) {
        if (!n->takes_varargs)
            return gp_tpl_fail(r, "macro %s takes not more than %u argument(s)",
                               n->name ? n->name->bytes : "caller", n->items.count);
        if (!gp_tpl_list_add(r, varargs->list, args->values[i]))
            return false;
    }
    return true;
}

static bool bind_macro(struct tpl_run *r, const struct tpl_node *n, const struct tpl_args *args)
{
    struct tpl_value *slots = r->activation->slots;
    bool *used = gp_tpl_take(r, args->keyword_count + 1);

    if (!used)
        return false;
    for (uint32_t i = 0; i < n->items.count; i++) {
        const struct tpl_node *param = n->items.items[i];
        slots[param->slot] =
            i < args->count ? args->values[i] : take_keyword(args, used, param->name);
    }
    if (!bind_rest(r, n, args, used, slots))
        return false;
    gp_tpl_scope_enter(r, &n->scope);
    uint32_t plain = n->items.count - n->defaults.count;
    for (uint32_t i = 0; i < n->items.count; i++) {
        const struct tpl_node *param = n->items.items[i];
        struct tpl_value v;
        if (slots[param->slot].kind != TPL_MISSING)
            continue;
        bool ok = i >= plain
                      ? gp_tpl_eval(r, n->defaults.items[i - plain], &v)
                      : gp_tpl_undefined(r, "parameter was not provided", param->name, NULL, &v);
        if (!ok)
            return false;
        slots[param->slot] = v;
    }
    return true;
}

bool gp_tpl_call_macro(struct tpl_run *r, const struct tpl_macro *macro,
                       const struct tpl_args *args, struct tpl_value *out)
{
    struct tpl_activation *around = r->activation;
    struct tpl_buffer *outer = r->out, buffer = {0};
    const struct tpl_node *n = macro->node;

    if (!gp_tpl_enter(r) || !(r->activation = new_activation(r, macro->lexical, n->slot_count)))
        return false;
    r->out = &buffer;
    bool ok = bind_macro(r, n, args) && gp_tpl_exec(r, &n->body) == TPL_FLOW_ON;
    r->out = outer;
    r->activation = around;
    r->depth--;
    return ok && gp_tpl_buffer_string(r, &buffer, out);
}

static bool new_macro(struct tpl_run *r, const struct tpl_node *n, struct tpl_value *out)
{
    struct tpl_macro *macro = gp_tpl_take(r, sizeof *macro);

    if (!macro)
        return false;
    *macro = (struct tpl_macro){n, r->activation};
    *out = (struct tpl_value){.kind = TPL_MACRO, .macro = macro};
    return true;
}

static bool exec_macro(struct tpl_run *r, const struct tpl_node *n)
{
    struct tpl_value macro;

    return new_macro(r, n, &macro) && gp_tpl_assign(r, n->a, macro);
}

/* The callee's arguments and one more, the block's body as `caller`. */
static bool add_caller(struct tpl_run *r, struct tpl_args *args, struct tpl_value caller)
{
    static const struct tpl_string name = {.bytes = "caller", .length = 6, .trusted = true};
    size_t n = args->keyword_count;
    const struct tpl_string **names = gp_tpl_take_array(r, n + 1, sizeof *names);
    struct tpl_value *values = names ? gp_tpl_take_array(r, n + 1, sizeof *values) : NULL;

    if (!values)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (gp_tpl_string_equal(args->names[i], &name))
            return gp_tpl_fail(r, "caller given twice");
        names[i] = args->names[i];
        values[i] = args->keyword_values[i];
    }
    names[n] = &name;
    values[n] = caller;
    args->names = names;
    args->keyword_values = values;
    args->keyword_count = n + 1;
    return true;
}

static bool exec_call_block(struct tpl_run *r, const struct tpl_node *n)
{
    struct tpl_value caller, callee, text;
    struct tpl_args args = {0};

    if (!new_macro(r, n, &caller))
        return false;
    if (!n->a)
        return gp_tpl_call_macro(r, caller.macro, &args, &text) && gp_tpl_print(r, r->out, text);
    if (!gp_tpl_eval(r, n->a->a, &callee) || !gp_tpl_eval_args(r, n->a, &args) ||
        !add_caller(r, &args, caller))
        return false;
    r->line = n->line;
    return gp_tpl_call(r, callee, &args, &text) && gp_tpl_print(r, r->out, text);
}

/* ---- loops ---- */

/* The iterator of a for statement, with its filter. */
static bool open_loop(struct tpl_run *r, const struct tpl_node *n, struct tpl_activation *lexical,
                      struct tpl_value *iterable, struct tpl_iter **out)
{
    if (!gp_tpl_iterable(*iterable))
        return gp_tpl_fail(r, "'%s' object is not iterable", gp_tpl_type(*iterable));
    if (!n->c)
        return gp_tpl_iter_open(r, *iterable, out);
    struct tpl_value filtered;
    if (!gp_tpl_iter_new(r, TPL_I_LOOP_TEST, *iterable, &filtered))
        return false;
    struct tpl_activation *around = r->activation;
    r->activation = new_activation(r, lexical, n->test_slot_count);
    if (r->activation)
        gp_tpl_scope_enter(r, &n->test_scope);
    filtered.iter->node = n;
    filtered.iter->activation = r->activation;
    r->activation = around;
    *iterable = filtered;
    *out = filtered.iter;
    return filtered.iter->activation != NULL;
}

static bool next_item(struct tpl_run *r, struct tpl_loop *loop, struct tpl_value *out, bool *done)
{
    *done = false;
    if (loop->after.kind != TPL_MISSING) {
        *out = loop->after;
        loop->after.kind = TPL_MISSING;
    } else if (!gp_tpl_iter_next(r, loop->iter, out, done)) {
        return false;
    }
    if (*done)
        return true;
    loop->index0++;
    loop->before = loop->current;
    loop->current = *out;
    return true;
}

/* Runs the loop in the current activation.  jinja2 runs the else branch when no pass has reached
 * the end of the body, so after passes that all ended with continue or break as well. */
static enum tpl_flow run_loop(struct tpl_run *r, const struct tpl_node *n,
                              struct tpl_activation *lexical, struct tpl_value iterable,
                              int64_t depth0)
{
    struct tpl_loop *loop = gp_tpl_take(r, sizeof *loop);
    bool completed = false;

    if (!loop)
        return TPL_FLOW_FAIL;
    loop->node = n;
    loop->lexical = lexical;
    loop->index0 = -1;
    loop->length = -1;
    loop->depth0 = depth0;
    if (!open_loop(r, n, lexical, &iterable, &loop->iter))
        return TPL_FLOW_FAIL;
    loop->iterable = iterable;
    for (;;) {
        struct tpl_value item;
        bool done;
        if (!next_item(r, loop, &item, &done))
            return TPL_FLOW_FAIL;
        if (done)
            break;
        if (!gp_tpl_assign(r, n->a, item))
            return TPL_FLOW_FAIL;
        if (n->takes_loop)
            r->activation->slots[n->slot] = (struct tpl_value){.kind = TPL_LOOP, .loop = loop};
        gp_tpl_scope_enter(r, &n->scope);
        enum tpl_flow flow = gp_tpl_exec(r, &n->body);
        if (flow == TPL_FLOW_FAIL)
            return flow;
        if (flow == TPL_FLOW_BREAK)
            break;
        completed |= flow == TPL_FLOW_ON;
    }
    scope_leave(r, &n->scope);
    if (completed || n->orelse.count == 0)
        return TPL_FLOW_ON;
    gp_tpl_scope_enter(r, &n->else_scope);
    enum tpl_flow flow = gp_tpl_exec(r, &n->orelse);
    scope_leave(r, &n->else_scope);
    return flow;
}

bool gp_tpl_loop_render(struct tpl_run *r, const struct tpl_node *n, struct tpl_activation *lexical,
                        struct tpl_value iterable, int64_t depth0, struct tpl_value *out)
{
    struct tpl_activation *around = r->activation;
    struct tpl_buffer *outer = r->out, buffer = {0};

    if (!gp_tpl_enter(r) || !(r->activation = new_activation(r, lexical, n->slot_count)))
        return false;
    r->out = &buffer;
    bool ok = run_loop(r, n, lexical, iterable, depth0) == TPL_FLOW_ON;
    r->out = outer;
    r->activation = around;
    r->depth--;
    return ok && gp_tpl_buffer_string(r, &buffer, out);
}

static enum tpl_flow exec_for(struct tpl_run *r, const struct tpl_node *n)
{
    struct tpl_value iterable, text;

    if (!gp_tpl_eval(r, n->b, &iterable))
        return TPL_FLOW_FAIL;
    r->line = n->line;
    if (!n->recursive)
        return run_loop(r, n, r->activation, iterable, 0);
    return flow_of(gp_tpl_loop_render(r, n, r->activation, iterable, 0, &text) &&
                   gp_tpl_print(r, r->out, text));
}

/* ---- blocks ---- */

/* A body's output as a string; *flow says how the body ended. */
static bool capture(struct tpl_run *r, const struct tpl_node *n, struct tpl_value *out,
                    enum tpl_flow *flow)
{
    struct tpl_buffer *outer = r->out, buffer = {0};

    r->out = &buffer;
    *flow = gp_tpl_exec(r, &n->body);
    r->out = outer;
    return *flow == TPL_FLOW_ON && gp_tpl_buffer_string(r, &buffer, out);
}

/* Set blocks and filter blocks. */
static enum tpl_flow exec_capture(struct tpl_run *r, const struct tpl_node *n)
{
    const struct tpl_node *filter = n->kind == TPL_N_FILTER_BLOCK ? n->a : n->b;
    struct tpl_value text, before = r->captured;
    enum tpl_flow flow;

    gp_tpl_scope_enter(r, &n->scope);
    if (!capture(r, n, &text, &flow))
        return flow == TPL_FLOW_ON ? TPL_FLOW_FAIL : flow;
    r->captured = text;
    bool ok = !filter || gp_tpl_eval(r, filter, &text);
    r->captured = before;
    if (n->kind == TPL_N_FILTER_BLOCK)
        ok = ok && gp_tpl_print(r, r->out, text);
    else
        ok = ok && gp_tpl_assign(r, n->a, text);
    scope_leave(r, &n->scope);
    return flow_of(ok);
}

static enum tpl_flow exec_with(struct tpl_run *r, const struct tpl_node *n)
{
    struct tpl_value v;

    gp_tpl_scope_enter(r, &n->scope);
    for (uint32_t i = 0; i < n->items.count; i++)
        if (!gp_tpl_eval(r, n->defaults.items[i], &v) || !gp_tpl_assign(r, n->items.items[i], v))
            return TPL_FLOW_FAIL;
    enum tpl_flow flow = gp_tpl_exec(r, &n->body);
    scope_leave(r, &n->scope);
    return flow;
}

static enum tpl_flow exec_if(struct tpl_run *r, const struct tpl_node *n)
{
    struct tpl_value test;

    for (;; n = n->c) {
        if (!gp_tpl_eval(r, n->a, &test))
            return TPL_FLOW_FAIL;
        if (gp_tpl_truth(test))
            return gp_tpl_exec(r, &n->body);
        if (!n->c)
            return gp_tpl_exec(r, &n->orelse);
    }
}

static bool exec_set(struct tpl_run *r, const struct tpl_node *n)
{
    struct tpl_value v;

    return gp_tpl_eval(r, n->b, &v) && gp_tpl_assign(r, n->a, v);
}

static bool exec_print(struct tpl_run *r, const struct tpl_node *n)
{
    struct tpl_value v;

    return gp_tpl_eval(r, n->a, &v) && gp_tpl_print(r, r->out, v);
}

static enum tpl_flow exec_node(struct tpl_run *r, const struct tpl_node *n)
{
    switch ((enum tpl_node_kind)n->kind) {
    case TPL_N_DATA:
        return flow_of(gp_tpl_put_string(r, r->out, n->value.string));
    case TPL_N_PRINT:
        return flow_of(exec_print(r, n));
    case TPL_N_IF:
        return exec_if(r, n);
    case TPL_N_FOR:
        return exec_for(r, n);
    case TPL_N_SET:
        return flow_of(exec_set(r, n));
    case TPL_N_SET_BLOCK:
    case TPL_N_FILTER_BLOCK:
        return exec_capture(r, n);
    case TPL_N_MACRO:
        return flow_of(exec_macro(r, n));
    case TPL_N_CALL_BLOCK:
        return flow_of(exec_call_block(r, n));
    case TPL_N_WITH:
        return exec_with(r, n);
    case TPL_N_BREAK:
        return TPL_FLOW_BREAK;
    case TPL_N_CONTINUE:
        return TPL_FLOW_CONTINUE;
    default:
        gp_assert(!"a statement");
        return TPL_FLOW_FAIL;
    }
}

enum tpl_flow gp_tpl_exec(struct tpl_run *r, const struct tpl_nodes *body)
{
    for (uint32_t i = 0; i < body->count; i++) {
        const struct tpl_node *n = body->items[i];
        if (!gp_tpl_enter(r) || !gp_tpl_step(r, 0) || r->status != GP_OK)
            return TPL_FLOW_FAIL;
        r->line = n->line;
        enum tpl_flow flow = exec_node(r, n);
        r->depth--;
        if (flow != TPL_FLOW_ON)
            return flow;
    }
    return TPL_FLOW_ON;
}
