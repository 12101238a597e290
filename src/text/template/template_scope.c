/* Names to slots, once, when the template is opened.
 *
 * jinja2 compiles a template to Python functions, and what a name means follows from that: which
 * names a scope sets anywhere in it, whether a scope around it has seen the name, and whether the
 * code lies in one function or in a nested one, which then sees the variables of the outer one as
 * they are when it runs.  This file repeats that analysis (jinja2's idtracking), so that reading a
 * variable before it is set, from a macro above it or behind a loop, gives what jinja2 gives.
 *
 * A function is the template, a macro, a call block, a recursive loop or the filter of a loop; it
 * owns slots.  A scope is a function's body, a loop's body and so on; on entry it gives its
 * variables first values.  Sibling scopes of one level share slots by name, as Python's locals do.
 *
 * The refusals that need to know all names are here as well: calls of functions and methods that
 * can never be there. */
#include "text/template/template_internal.h"

#include "base/assert.h"

#include <string.h>

struct slot {
    uint32_t level;
    const struct tpl_string *name;
};

struct function {
    struct function *up;
    struct slot *slots;
    uint32_t count;
    uint32_t capacity;
};

struct symbol {
    const struct tpl_string *name;
    enum tpl_load_action action;
    uint32_t slot;
    bool stored;
};

struct scope {
    struct scope *parent;
    struct function *function;
    uint32_t level;
    bool passing; /* a loop's or a with block's: its parameters are gone when it ends */
    struct symbol *symbols;
    uint32_t count;
    uint32_t capacity;
    uint32_t *stores; /* symbols in the order in which they were first stored */
    uint32_t store_count;
};

struct resolver {
    struct tpl_build *b;
    const struct tpl_string **attributes; /* names that a template's own objects may have */
    size_t attribute_count;
};

static bool analyze(struct resolver *v, struct scope *s, const struct tpl_node *n);
static bool resolve(struct resolver *v, struct scope *s, struct tpl_node *n);
static bool resolve_list(struct resolver *v, struct scope *s, struct tpl_nodes *list);

static struct symbol *find_own(const struct scope *s, const struct tpl_string *name)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->symbols[i].name == name)
            return &s->symbols[i];
    return NULL;
}

static struct symbol *find(const struct scope *s, const struct tpl_string *name,
                           const struct scope **owner)
{
    for (; s; s = s->parent) {
        struct symbol *symbol = find_own(s, name);
        if (symbol) {
            *owner = s;
            return symbol;
        }
    }
    return NULL;
}

/* A larger copy of an array in the build's arena. */
static void *grow(struct resolver *v, const void *old, size_t count, size_t size,
                  uint32_t *capacity)
{
    uint32_t wanted = *capacity ? 2 * *capacity : 8;
    void *grown = gp_tpl_build_alloc(v->b, wanted * size);

    if (!grown)
        return NULL;
    if (count > 0)
        memcpy(grown, old, count * size);
    *capacity = wanted;
    return grown;
}

static bool take_slot(struct resolver *v, struct scope *s, const struct tpl_string *name,
                      uint32_t *out)
{
    struct function *f = s->function;

    for (uint32_t i = 0; i < f->count; i++)
        if (f->slots[i].name == name && f->slots[i].level == s->level) {
            *out = i;
            return true;
        }
    if (f->count == f->capacity) {
        struct slot *grown = grow(v, f->slots, f->count, sizeof *grown, &f->capacity);
        if (!grown)
            return false;
        f->slots = grown;
    }
    f->slots[f->count] = (struct slot){s->level, name};
    *out = f->count++;
    return true;
}

/* The scope's own symbol for the name, made when there is none. */
static struct symbol *define(struct resolver *v, struct scope *s, const struct tpl_string *name,
                             enum tpl_load_action action)
{
    struct symbol *symbol = find_own(s, name);

    if (symbol) {
        symbol->action = action;
        return symbol;
    }
    if (s->count >= TPL_NAMES) {
        gp_tpl_refuse_set(v->b, GP_EINVAL, 0, "more than %u names in one scope", TPL_NAMES);
        return NULL;
    }
    if (s->count == s->capacity) {
        uint32_t capacity = s->capacity;
        struct symbol *grown = grow(v, s->symbols, s->count, sizeof *grown, &s->capacity);
        uint32_t *stores = grow(v, s->stores, s->store_count, sizeof *stores, &capacity);
        if (!grown || !stores)
            return NULL;
        s->symbols = grown;
        s->stores = stores;
    }
    symbol = &s->symbols[s->count];
    *symbol = (struct symbol){.name = name, .action = action};
    if (!take_slot(v, s, name, &symbol->slot))
        return NULL;
    s->count++;
    return symbol;
}

static void mark_stored(struct scope *s, struct symbol *symbol)
{
    if (symbol->stored)
        return;
    symbol->stored = true;
    s->stores[s->store_count++] = (uint32_t)(symbol - s->symbols);
}

static bool load(struct resolver *v, struct scope *s, const struct tpl_string *name)
{
    const struct scope *owner;

    return find(s, name, &owner) || define(v, s, name, TPL_LOAD_RESOLVE);
}

static bool store(struct resolver *v, struct scope *s, const struct tpl_string *name)
{
    const struct scope *owner;
    struct symbol *symbol = find_own(s, name);

    if (!symbol) {
        bool outside = s->parent && find(s->parent, name, &owner);
        symbol = define(v, s, name, outside ? TPL_LOAD_ALIAS : TPL_LOAD_UNDEFINED);
    }
    if (!symbol)
        return false;
    mark_stored(s, symbol);
    return true;
}

static struct symbol *declare(struct resolver *v, struct scope *s, const struct tpl_string *name)
{
    struct symbol *symbol = define(v, s, name, TPL_LOAD_PARAMETER);

    if (symbol)
        mark_stored(s, symbol);
    return symbol;
}

/* The names of a target become parameters: whoever enters the scope sets them. */
static bool declare_target(struct resolver *v, struct scope *s, const struct tpl_node *n)
{
    if (n->kind == TPL_N_NAME)
        return declare(v, s, n->name);
    for (uint32_t i = 0; i < n->items.count; i++)
        if (!declare_target(v, s, n->items.items[i]))
            return false;
    return true;
}

/* ---- analysis: which names a scope sees ---- */

static bool analyze_list(struct resolver *v, struct scope *s, const struct tpl_nodes *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (!analyze(v, s, list->items[i]))
            return false;
    return true;
}

/* What only some branches set keeps, in the others, the value that it has outside. */
static bool analyze_if(struct resolver *v, struct scope *s, const struct tpl_node *n)
{
    const struct scope *owner;

    if (!analyze(v, s, n->a))
        return false;
    uint32_t before = s->store_count;
    for (bool first = true; n; n = n->c, first = false)
        if ((!first && !analyze(v, s, n->a)) || !analyze_list(v, s, &n->body) ||
            !analyze_list(v, s, &n->orelse))
            return false;
    for (uint32_t i = before; i < s->store_count; i++) {
        struct symbol *symbol = &s->symbols[s->stores[i]];
        bool outside = s->parent && find(s->parent, symbol->name, &owner);
        symbol->action = outside ? TPL_LOAD_ALIAS : TPL_LOAD_RESOLVE;
    }
    return true;
}

static bool analyze_children(struct resolver *v, struct scope *s, const struct tpl_node *n)
{
    if ((n->a && !analyze(v, s, n->a)) || (n->b && !analyze(v, s, n->b)) ||
        (n->c && !analyze(v, s, n->c)) || !analyze_list(v, s, &n->items))
        return false;
    for (const struct tpl_keyword *k = n->keywords; k; k = k->next)
        if (!analyze(v, s, k->value))
            return false;
    return (!n->star || analyze(v, s, n->star)) && (!n->star_star || analyze(v, s, n->star_star));
}

/* Stops at the scopes inside: only what they evaluate out here counts. */
static bool analyze(struct resolver *v, struct scope *s, const struct tpl_node *n)
{
    switch ((enum tpl_node_kind)n->kind) {
    case TPL_N_NAME:
        return n->store ? store(v, s, n->name) : load(v, s, n->name);
    case TPL_N_NSREF:
        return load(v, s, n->name);
    case TPL_N_IF:
        return analyze_if(v, s, n);
    case TPL_N_MACRO:
        return store(v, s, n->name);
    case TPL_N_SET:
        return analyze(v, s, n->b) && analyze(v, s, n->a);
    case TPL_N_SET_BLOCK:
        return analyze(v, s, n->a);
    case TPL_N_FOR:
        return analyze(v, s, n->b);
    case TPL_N_CALL_BLOCK:
    case TPL_N_FILTER_BLOCK:
        return !n->a || analyze(v, s, n->a);
    case TPL_N_WITH:
        return analyze_list(v, s, &n->defaults);
    default:
        return analyze_children(v, s, n);
    }
}

/* ---- looking for a name in a tree ---- */

enum mention {
    NOT_MENTIONED,
    LOADED,
    SHADOWED, /* set before it is read */
};

static enum mention mention(const struct tpl_node *n, const char *name);

static enum mention mention_list(const struct tpl_nodes *list, const char *name)
{
    enum mention m = NOT_MENTIONED;

    for (uint32_t i = 0; i < list->count && m == NOT_MENTIONED; i++)
        m = mention(list->items[i], name);
    return m;
}

/* The first thing that happens to the name in the tree, in the order in which jinja2 walks it. */
static enum mention mention(const struct tpl_node *n, const char *name)
{
    enum mention m = NOT_MENTIONED;

    if (n->kind == TPL_N_NAME) {
        if (!gp_tpl_is(n->name, name))
            return NOT_MENTIONED;
        return n->store ? SHADOWED : LOADED;
    }
    if (n->kind == TPL_N_NSREF)
        return NOT_MENTIONED;
    bool late_test = n->kind == TPL_N_FOR || n->kind == TPL_N_FILTER_BLOCK;
    if (n->a && n->kind != TPL_N_MACRO && n->kind != TPL_N_FILTER_BLOCK)
        m = mention(n->a, name);
    if (m == NOT_MENTIONED && n->b)
        m = mention(n->b, name);
    if (m == NOT_MENTIONED && n->c && !late_test && n->kind != TPL_N_IF)
        m = mention(n->c, name);
    if (m == NOT_MENTIONED)
        m = mention_list(&n->items, name);
    for (const struct tpl_keyword *k = n->keywords; k && m == NOT_MENTIONED; k = k->next)
        m = mention(k->value, name);
    if (m == NOT_MENTIONED && n->star)
        m = mention(n->star, name);
    if (m == NOT_MENTIONED && n->star_star)
        m = mention(n->star_star, name);
    if (m == NOT_MENTIONED)
        m = mention_list(&n->defaults, name);
    if (m == NOT_MENTIONED)
        m = mention_list(&n->body, name);
    if (m == NOT_MENTIONED && n->c && n->kind == TPL_N_IF)
        m = mention(n->c, name);
    if (m == NOT_MENTIONED)
        m = mention_list(&n->orelse, name);
    if (m == NOT_MENTIONED && late_test)
        m = n->kind == TPL_N_FOR ? (n->c ? mention(n->c, name) : m) : mention(n->a, name);
    return m;
}

static bool stores_loop_list(const struct tpl_nodes *list);

/* Whether anything under n assigns to `loop`; parameters of macros and of with may have that
 * name. */
static bool stores_loop(const struct tpl_node *n)
{
    if (n->kind == TPL_N_NAME)
        return n->store && gp_tpl_is(n->name, "loop");
    bool target = n->kind == TPL_N_FOR || n->kind == TPL_N_SET || n->kind == TPL_N_SET_BLOCK;
    if (target && stores_loop(n->a))
        return true;
    if (n->kind == TPL_N_TUPLE && stores_loop_list(&n->items))
        return true;
    if (n->kind == TPL_N_IF && n->c && stores_loop(n->c))
        return true;
    return stores_loop_list(&n->body) || stores_loop_list(&n->orelse);
}

static bool stores_loop_list(const struct tpl_nodes *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (stores_loop(list->items[i]))
            return true;
    return false;
}

/* ---- resolution: names to slots, scope by scope ---- */

static const struct scope *refer(struct scope *s, const struct tpl_string *name, uint32_t *up,
                                 uint32_t *slot, const struct symbol **symbol)
{
    const struct scope *owner;
    const struct symbol *found = find(s, name, &owner);

    gp_assert(found);
    *up = 0;
    for (const struct function *f = s->function; f != owner->function; f = f->up)
        ++*up;
    *slot = found->slot;
    *symbol = found;
    return owner;
}

/* The scope's loads, for the time when it is entered. */
static bool finish_scope(struct resolver *v, struct scope *s, struct tpl_scope *out)
{
    const struct symbol *symbol;

    out->count = s->count;
    out->loads = gp_tpl_build_alloc(v->b, (s->count + 1) * sizeof *out->loads);
    if (!out->loads)
        return false;
    for (uint32_t i = 0; i < s->count; i++) {
        struct tpl_load *l = &out->loads[i];
        *l = (struct tpl_load){
            .action = s->symbols[i].action, .slot = s->symbols[i].slot, .name = s->symbols[i].name};
        if (l->action != TPL_LOAD_ALIAS)
            continue;
        /* Seen from the function that the scope lies in. */
        struct scope around = *s->parent;
        around.function = s->function;
        around.count = 0;
        around.parent = s->parent;
        refer(&around, l->name, &l->from_up, &l->from_slot, &symbol);
    }
    return true;
}

static struct scope inner(struct scope *parent, struct function *function)
{
    return (struct scope){.parent = parent, .function = function, .level = parent->level + 1};
}

/* The target of a loop once more, for the function that filters its items. */
static struct tpl_node *copy_target(struct resolver *v, const struct tpl_node *n)
{
    struct tpl_node *copy = gp_tpl_build_alloc(v->b, sizeof *copy);

    if (!copy)
        return NULL;
    *copy = *n;
    if (n->items.count > 0) {
        copy->items.items = gp_tpl_build_alloc(v->b, n->items.count * sizeof(struct tpl_node *));
        if (!copy->items.items)
            return NULL;
        copy->items.capacity = n->items.count;
    }
    for (uint32_t i = 0; i < n->items.count; i++)
        if (!(copy->items.items[i] = copy_target(v, n->items.items[i])))
            return NULL;
    return copy;
}

static bool resolve_test(struct resolver *v, struct scope *s, struct tpl_node *n)
{
    struct function f = {.up = s->function};
    struct scope test = inner(s, &f);

    n->test_target = copy_target(v, n->a);
    if (!n->test_target || !declare_target(v, &test, n->a) || !analyze(v, &test, n->c) ||
        !resolve(v, &test, n->test_target) || !resolve(v, &test, n->c) ||
        !finish_scope(v, &test, &n->test_scope))
        return false;
    n->test_slot_count = f.count;
    return true;
}

static bool resolve_for(struct resolver *v, struct scope *s, struct tpl_node *n)
{
    struct function f = {.up = s->function};
    struct function *function = n->recursive ? &f : s->function;
    struct scope body = inner(s, function), orelse = inner(s, function);
    const struct tpl_string *loop = gp_tpl_intern(v->b, "loop", 4);

    body.passing = true;
    if (!loop)
        return false;
    if (stores_loop(n))
        return gp_tpl_refuse(v->b, GP_ECORRUPT, n->line, "assignment to loop inside a loop");
    n->takes_loop = n->recursive || mention_list(&n->body, "loop") == LOADED;
    if (n->takes_loop) {
        struct symbol *symbol = declare(v, &body, loop);
        if (!symbol)
            return false;
        n->slot = symbol->slot;
    }
    if (!resolve(v, s, n->b) || (n->c && !resolve_test(v, s, n)) ||
        !declare_target(v, &body, n->a) || !analyze_list(v, &body, &n->body) ||
        !resolve(v, &body, n->a) || !resolve_list(v, &body, &n->body) ||
        !finish_scope(v, &body, &n->scope) || !analyze_list(v, &orelse, &n->orelse) ||
        !resolve_list(v, &orelse, &n->orelse) || !finish_scope(v, &orelse, &n->else_scope))
        return false;
    n->slot_count = f.count;
    return true;
}

/* A macro that reads caller, kwargs or varargs without setting it is given them. */
static bool take_special(struct resolver *v, struct scope *s, const struct tpl_node *n,
                         const char *name, bool *takes, uint32_t *slot)
{
    if (mention_list(&n->body, name) != LOADED)
        return true;
    const struct tpl_string *interned = gp_tpl_intern(v->b, name, strlen(name));
    if (!interned)
        return false;
    for (uint32_t i = 0; i < n->items.count; i++)
        if (n->items.items[i]->name == interned) {
            if (gp_tpl_is(interned, "caller"))
                return gp_tpl_refuse(v->b, GP_EINVAL, n->line, "parameter named caller");
            return true;
        }
    struct symbol *symbol = declare(v, s, interned);
    if (!symbol)
        return false;
    *takes = true;
    *slot = symbol->slot;
    return true;
}

static bool resolve_macro(struct resolver *v, struct scope *s, struct tpl_node *n)
{
    struct function f = {.up = s->function};
    struct scope body = inner(s, &f);

    if (n->a && !resolve(v, s, n->a))
        return false;
    for (uint32_t i = 0; i < n->items.count; i++)
        if (!declare_target(v, &body, n->items.items[i]))
            return false;
    if (!take_special(v, &body, n, "caller", &n->takes_caller, &n->slot) ||
        !take_special(v, &body, n, "kwargs", &n->takes_kwargs, &n->kwargs_slot) ||
        !take_special(v, &body, n, "varargs", &n->takes_varargs, &n->varargs_slot) ||
        !analyze_list(v, &body, &n->defaults) || !analyze_list(v, &body, &n->body) ||
        !resolve_list(v, &body, &n->items) || !resolve_list(v, &body, &n->defaults) ||
        !resolve_list(v, &body, &n->body) || !finish_scope(v, &body, &n->scope))
        return false;
    n->slot_count = f.count;
    return true;
}

static bool resolve_block(struct resolver *v, struct scope *s, struct tpl_node *n)
{
    struct scope body = inner(s, s->function);
    bool with = n->kind == TPL_N_WITH;
    struct tpl_node *filter = n->kind == TPL_N_FILTER_BLOCK ? n->a : n->b;

    body.passing = with;
    if (n->kind == TPL_N_SET_BLOCK && !resolve(v, s, n->a))
        return false;
    if (with && !resolve_list(v, s, &n->defaults))
        return false;
    for (uint32_t i = 0; with && i < n->items.count; i++)
        if (!declare_target(v, &body, n->items.items[i]))
            return false;
    return analyze_list(v, &body, &n->body) && (!filter || analyze(v, &body, filter)) &&
           (!with || resolve_list(v, &body, &n->items)) && resolve_list(v, &body, &n->body) &&
           (!filter || resolve(v, &body, filter)) && finish_scope(v, &body, &n->scope);
}

/* Names of jinja2's that are always there and that we do not have. */
static bool refuse_global(struct resolver *v, const struct tpl_node *n)
{
    static const char *const names[] = {"self", "cycler", "joiner", "lipsum"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (gp_tpl_is(n->name, names[i]))
            return gp_tpl_refuse(v->b, GP_EINVAL, n->line, "unknown global '%s'", names[i]);
    return true;
}

static bool resolve_name(struct resolver *v, struct scope *s, struct tpl_node *n)
{
    const struct symbol *symbol;

    const struct scope *owner = refer(s, n->name, &n->up, &n->slot, &symbol);
    n->passing = owner->passing && symbol->action == TPL_LOAD_PARAMETER;
    if (symbol->action == TPL_LOAD_RESOLVE && !symbol->stored)
        return refuse_global(v, n);
    return true;
}

static bool own_attribute(const struct resolver *v, const struct tpl_string *name)
{
    for (size_t i = 0; i < v->attribute_count; i++)
        if (v->attributes[i] == name)
            return true;
    return false;
}

/* A call that can never succeed is refused here, with its name. */
static bool check_call(struct resolver *v, struct scope *s, const struct tpl_node *n)
{
    const struct tpl_node *callee = n->a;
    const struct symbol *symbol;
    uint32_t up, slot;

    if (callee->kind == TPL_N_GETATTR && !gp_tpl_method_known(callee->name) &&
        !own_attribute(v, callee->name))
        return gp_tpl_refuse(v->b, GP_EINVAL, n->line, "unknown method '%s'", callee->name->bytes);
    if (callee->kind != TPL_N_NAME || gp_tpl_find_global(callee->name))
        return true;
    refer(s, callee->name, &up, &slot, &symbol);
    if (symbol->action == TPL_LOAD_RESOLVE && !symbol->stored)
        return gp_tpl_refuse(v->b, GP_EINVAL, n->line, "unknown function '%s'",
                             callee->name->bytes);
    return true;
}

static bool resolve_list(struct resolver *v, struct scope *s, struct tpl_nodes *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (!resolve(v, s, list->items[i]))
            return false;
    return true;
}

static bool resolve_children(struct resolver *v, struct scope *s, struct tpl_node *n)
{
    if ((n->a && !resolve(v, s, n->a)) || (n->b && !resolve(v, s, n->b)) ||
        (n->c && !resolve(v, s, n->c)) || !resolve_list(v, s, &n->items) ||
        !resolve_list(v, s, &n->body) || !resolve_list(v, s, &n->orelse))
        return false;
    for (struct tpl_keyword *k = n->keywords; k; k = k->next)
        if (!resolve(v, s, k->value))
            return false;
    return (!n->star || resolve(v, s, n->star)) && (!n->star_star || resolve(v, s, n->star_star));
}

static bool resolve(struct resolver *v, struct scope *s, struct tpl_node *n)
{
    switch ((enum tpl_node_kind)n->kind) {
    case TPL_N_NAME:
    case TPL_N_NSREF:
        return resolve_name(v, s, n);
    case TPL_N_FOR:
        return resolve_for(v, s, n);
    case TPL_N_MACRO:
    case TPL_N_CALL_BLOCK:
        return resolve_macro(v, s, n);
    case TPL_N_SET_BLOCK:
    case TPL_N_FILTER_BLOCK:
    case TPL_N_WITH:
        return resolve_block(v, s, n);
    case TPL_N_GETATTR:
        if (n->name->length >= 2 && memcmp(n->name->bytes, "__", 2) == 0)
            return gp_tpl_refuse(v->b, GP_EINVAL, n->line, "attribute '%s'", n->name->bytes);
        return resolve_children(v, s, n);
    case TPL_N_CALL:
        return check_call(v, s, n) && resolve_children(v, s, n);
    default:
        return resolve_children(v, s, n);
    }
}

/* Names that are set in namespaces or given by keyword: a method call may mean one of those. */
static bool collect_attributes(struct resolver *v)
{
    const struct tpl_build *b = v->b;

    v->attributes = gp_tpl_build_alloc(v->b, (b->token_count + 1) * sizeof(struct tpl_string *));
    if (!v->attributes)
        return false;
    for (size_t i = 0; i + 1 < b->token_count; i++) {
        const struct tpl_token *next = &b->tokens[i + 1];
        if (b->tokens[i].kind == TPL_T_NAME && next->kind == TPL_T_OPERATOR && next->op == '=')
            v->attributes[v->attribute_count++] = b->tokens[i].text;
    }
    return true;
}

bool gp_tpl_resolve(struct tpl_build *b, struct tpl_node *root)
{
    struct resolver v = {.b = b};
    struct function f = {0};
    struct scope s = {.function = &f};

    if (!collect_attributes(&v) || !analyze_list(&v, &s, &root->body) ||
        !resolve_list(&v, &s, &root->body) || !finish_scope(&v, &s, &root->scope))
        return false;
    root->slot_count = f.count;
    return true;
}
