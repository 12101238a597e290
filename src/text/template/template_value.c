/* Values: memory for them, lists, dicts, and what Python says about truth, equality and order. */
#include "text/template/template_internal.h"

#include "base/assert.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- memory ---- */

#define CHUNK_BYTES ((size_t)64 << 10)

struct tpl_chunk {
    struct tpl_chunk *next;
    size_t used;
    size_t bytes;
    _Alignas(16) char data[];
};

void *gp_tpl_alloc(struct tpl_arena *arena, size_t bytes)
{
    struct tpl_chunk *c = arena->chunks;

    if (bytes > SIZE_MAX / 2)
        return NULL;
    bytes = (bytes + 15) & ~(size_t)15;
    if (!c || c->bytes - c->used < bytes) {
        size_t size = bytes > CHUNK_BYTES / 4 ? bytes : CHUNK_BYTES - sizeof *c;
        if (arena->bytes_max && size > arena->bytes_max - arena->bytes)
            return NULL;
        c = gp_mem_alloc(sizeof *c + size);
        if (!c)
            return NULL;
        c->bytes = size;
        arena->bytes += size;
        /* A block that fills its chunk goes behind the one that still has room. */
        bool own = size == bytes && arena->chunks;
        c->next = own ? arena->chunks->next : arena->chunks;
        if (own)
            arena->chunks->next = c;
        else
            arena->chunks = c;
    }
    void *block = c->data + c->used;
    c->used += bytes;
    return block;
}

void gp_tpl_release(struct tpl_arena *arena)
{
    while (arena->chunks) {
        struct tpl_chunk *next = arena->chunks->next;
        gp_mem_free(arena->chunks);
        arena->chunks = next;
    }
    arena->bytes = 0;
}

void gp_tpl_fail_set(struct tpl_run *r, const char *format, ...)
{
    char text[400];
    va_list args;

    if (r->status != GP_OK)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    r->status = GP_EINVAL;
    gp_error_set(r->err, "template: line %u: %s", r->line, text);
}

void *gp_tpl_take(struct tpl_run *r, size_t bytes)
{
    void *block = gp_tpl_alloc(&r->arena, bytes);

    if (block || r->status != GP_OK)
        return block;
    size_t wanted = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
    if (wanted > r->arena.bytes_max - r->arena.bytes) {
        gp_tpl_fail_set(r, "more than %u MiB of values", TPL_MEMORY >> 20);
    } else {
        r->status = GP_ENOMEM;
        gp_error_set(r->err, "template: out of memory");
    }
    return NULL;
}

void *gp_tpl_take_array(struct tpl_run *r, size_t count, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes)) {
        gp_tpl_fail_set(r, "more than %u MiB of values", TPL_MEMORY >> 20);
        return NULL;
    }
    return gp_tpl_take(r, bytes);
}

bool gp_tpl_step(struct tpl_run *r, size_t bytes)
{
    size_t steps = 1 + bytes / 64;

    if (steps > GP_TEMPLATE_STEPS - r->steps)
        return gp_tpl_fail(r, "more than %u evaluation steps", GP_TEMPLATE_STEPS);
    r->steps += (uint32_t)steps;
    return true;
}

bool gp_tpl_enter(struct tpl_run *r)
{
    if (r->depth >= TPL_DEPTH)
        return gp_tpl_fail(r, "nested more than %u deep", TPL_DEPTH);
    r->depth++;
    return true;
}

/* ---- small values ---- */

struct tpl_value gp_tpl_none(void)
{
    return (struct tpl_value){.kind = TPL_NONE};
}

struct tpl_value gp_tpl_bool(bool flag)
{
    return (struct tpl_value){.kind = TPL_BOOL, .flag = flag};
}

struct tpl_value gp_tpl_int(int64_t integer)
{
    return (struct tpl_value){.kind = TPL_INT, .integer = integer};
}

struct tpl_value gp_tpl_float(double real)
{
    return (struct tpl_value){.kind = TPL_FLOAT, .real = real};
}

struct tpl_value gp_tpl_string_value(const struct tpl_string *s)
{
    return (struct tpl_value){.kind = TPL_STRING, .string = s};
}

bool gp_tpl_undefined(struct tpl_run *r, const char *hint, const struct tpl_string *name,
                      const char *of, struct tpl_value *out)
{
    struct tpl_undefined *u = gp_tpl_take(r, sizeof *u);

    if (!u)
        return false;
    *u = (struct tpl_undefined){.hint = hint, .name = name, .of = of};
    *out = (struct tpl_value){.kind = TPL_UNDEFINED, .undefined = u};
    return true;
}

bool gp_tpl_undefined_error(struct tpl_run *r, struct tpl_value v)
{
    const struct tpl_undefined *u = v.undefined;
    int length = u->name && u->name->length < 80 ? (int)u->name->length : 80;

    if (u->hint)
        return gp_tpl_fail(r, "%s", u->hint);
    if (!u->name)
        return gp_tpl_fail(r, "%s has no such element", u->of ? u->of : "value");
    if (u->of)
        return gp_tpl_fail(r, "%s has no attribute '%.*s'", u->of, length, u->name->bytes);
    return gp_tpl_fail(r, "'%.*s' is undefined", length, u->name->bytes);
}

const char *gp_tpl_type(struct tpl_value v)
{
    static const char *const names[] = {
        [TPL_MISSING] = "nothing",
        [TPL_UNDEFINED] = "Undefined",
        [TPL_NONE] = "None",
        [TPL_BOOL] = "bool",
        [TPL_INT] = "int",
        [TPL_FLOAT] = "float",
        [TPL_STRING] = "str",
        [TPL_LIST] = "list",
        [TPL_TUPLE] = "tuple",
        [TPL_DICT] = "dict",
        [TPL_VIEW] = "dict view",
        [TPL_RANGE] = "range",
        [TPL_ITERATOR] = "generator",
        [TPL_NAMESPACE] = "namespace",
        [TPL_MACRO] = "macro",
        [TPL_BUILTIN] = "function",
        [TPL_METHOD] = "method",
        [TPL_LOOP] = "loop",
    };

    gp_assert(v.kind < sizeof names / sizeof names[0]);
    return names[v.kind];
}

bool gp_tpl_is_number(struct tpl_value v)
{
    return v.kind == TPL_BOOL || v.kind == TPL_INT || v.kind == TPL_FLOAT;
}

bool gp_tpl_as_int(struct tpl_value v, int64_t *out)
{
    if (v.kind != TPL_BOOL && v.kind != TPL_INT)
        return false;
    *out = v.kind == TPL_BOOL ? v.flag : v.integer;
    return true;
}

double gp_tpl_as_float(struct tpl_value v)
{
    gp_assert(gp_tpl_is_number(v));
    return v.kind == TPL_FLOAT ? v.real : v.kind == TPL_BOOL ? v.flag : (double)v.integer;
}

bool gp_tpl_length(struct tpl_value v, int64_t *out)
{
    switch ((enum tpl_kind)v.kind) {
    case TPL_UNDEFINED:
        *out = 0;
        return true;
    case TPL_STRING:
        *out = (int64_t)gp_tpl_string_chars(v.string);
        return true;
    case TPL_LIST:
    case TPL_TUPLE:
        *out = (int64_t)v.list->count;
        return true;
    case TPL_DICT:
        *out = (int64_t)v.dict->count;
        return true;
    case TPL_VIEW:
        *out = (int64_t)v.view->dict->count;
        return true;
    case TPL_RANGE:
        *out = v.range->count;
        return true;
    default:
        return false;
    }
}

bool gp_tpl_truth(struct tpl_value v)
{
    switch ((enum tpl_kind)v.kind) {
    case TPL_MISSING:
    case TPL_UNDEFINED:
    case TPL_NONE:
        return false;
    case TPL_BOOL:
        return v.flag;
    case TPL_INT:
        return v.integer != 0;
    case TPL_FLOAT:
        return v.real != 0;
    case TPL_STRING:
        return v.string->length > 0;
    case TPL_LIST:
    case TPL_TUPLE:
        return v.list->count > 0;
    case TPL_DICT:
        return v.dict->count > 0;
    case TPL_VIEW:
        return v.view->dict->count > 0;
    case TPL_RANGE:
        return v.range->count > 0;
    default:
        return true;
    }
}

/* ---- lists ---- */

bool gp_tpl_list_new(struct tpl_run *r, enum tpl_kind kind, size_t capacity, struct tpl_value *out)
{
    struct tpl_list *list = gp_tpl_take(r, sizeof *list);

    if (!list)
        return false;
    if (capacity > 0) {
        list->items = gp_tpl_take_array(r, capacity, sizeof *list->items);
        if (!list->items)
            return false;
        list->capacity = capacity;
    }
    *out = (struct tpl_value){.kind = (uint8_t)kind, .list = list};
    return true;
}

bool gp_tpl_list_add(struct tpl_run *r, struct tpl_list *list, struct tpl_value item)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 4;
        struct tpl_value *grown = gp_tpl_take_array(r, capacity, sizeof *grown);
        if (!grown)
            return false;
        if (list->count > 0)
            memcpy(grown, list->items, list->count * sizeof *grown);
        list->items = grown;
        list->capacity = capacity;
    }
    list->items[list->count++] = item;
    return true;
}

bool gp_tpl_pair(struct tpl_run *r, struct tpl_value a, struct tpl_value b, struct tpl_value *out)
{
    return gp_tpl_list_new(r, TPL_TUPLE, 2, out) && gp_tpl_list_add(r, out->list, a) &&
           gp_tpl_list_add(r, out->list, b);
}

/* ---- dicts ---- */

#define INDEXED_COUNT 8u /* fewer entries are searched one by one */

static uint64_t mix(uint64_t h)
{
    h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdu;
    h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53u;
    return h ^ (h >> 33);
}

/* Equal keys have equal hashes: 1, 1.0 and true are one key. */
static bool hash_value(struct tpl_run *r, struct tpl_value v, uint64_t *out)
{
    uint64_t h = 0xcbf29ce484222325u;

    if (v.kind == TPL_STRING) {
        for (size_t i = 0; i < v.string->length; i++)
            h = (h ^ (unsigned char)v.string->bytes[i]) * 0x100000001b3u;
        *out = mix(h);
        return gp_tpl_step(r, v.string->length);
    }
    if (gp_tpl_is_number(v)) {
        double d = gp_tpl_as_float(v);
        if (d == 0)
            d = 0; /* one zero */
        memcpy(&h, &d, sizeof h);
        *out = mix(h);
        return true;
    }
    if (v.kind == TPL_NONE || v.kind == TPL_UNDEFINED) {
        *out = mix(v.kind);
        return true;
    }
    if (v.kind == TPL_TUPLE) {
        if (!gp_tpl_enter(r))
            return false;
        for (size_t i = 0; i < v.list->count; i++) {
            uint64_t part;
            if (!hash_value(r, v.list->items[i], &part))
                return false;
            h = mix(h ^ part) + i;
        }
        r->depth--;
        *out = h;
        return true;
    }
    return gp_tpl_fail(r, "unhashable type: '%s'", gp_tpl_type(v));
}

bool gp_tpl_dict_new(struct tpl_run *r, enum tpl_kind kind, struct tpl_value *out)
{
    struct tpl_dict *dict = gp_tpl_take(r, sizeof *dict);

    *out = (struct tpl_value){.kind = (uint8_t)kind, .dict = dict};
    return dict != NULL;
}

/* The entry of the key, or NULL. */
static bool find_entry(struct tpl_run *r, const struct tpl_dict *dict, struct tpl_value key,
                       uint64_t hash, struct tpl_entry **out)
{
    size_t mask = dict->index_size - 1;
    size_t at = dict->index ? hash & mask : 0;

    *out = NULL;
    for (size_t i = 0;; i++) {
        struct tpl_entry *e;
        if (dict->index) {
            uint32_t number = dict->index[at];
            if (number == 0)
                return true;
            e = &dict->entries[number - 1];
            at = (at + 1) & mask;
        } else {
            if (i >= dict->count)
                return true;
            e = &dict->entries[i];
        }
        bool equal = false;
        if (e->hash == hash && !gp_tpl_equal(r, e->key, key, &equal))
            return false;
        if (equal) {
            *out = e;
            return true;
        }
    }
}

static void index_entry(struct tpl_dict *dict, size_t number)
{
    size_t mask = dict->index_size - 1;
    size_t at = dict->entries[number].hash & mask;

    while (dict->index[at] != 0)
        at = (at + 1) & mask;
    dict->index[at] = (uint32_t)(number + 1);
}

static bool grow_dict(struct tpl_run *r, struct tpl_dict *dict)
{
    size_t capacity = dict->capacity ? 2 * dict->capacity : 4;
    struct tpl_entry *grown = gp_tpl_take_array(r, capacity, sizeof *grown);

    if (!grown)
        return false;
    if (dict->count > 0)
        memcpy(grown, dict->entries, dict->count * sizeof *grown);
    dict->entries = grown;
    dict->capacity = capacity;
    if (capacity <= INDEXED_COUNT)
        return true;
    uint32_t *index = gp_tpl_take_array(r, 2 * capacity, sizeof *index);
    if (!index)
        return false;
    dict->index = index;
    dict->index_size = 2 * capacity;
    for (size_t i = 0; i < dict->count; i++)
        index_entry(dict, i);
    return true;
}

bool gp_tpl_dict_set(struct tpl_run *r, struct tpl_dict *dict, struct tpl_value key,
                     struct tpl_value value)
{
    struct tpl_entry *e;
    uint64_t hash;

    if (!hash_value(r, key, &hash) || !find_entry(r, dict, key, hash, &e))
        return false;
    if (e) {
        e->value = value;
        return true;
    }
    if (dict->count == dict->capacity && !grow_dict(r, dict))
        return false;
    dict->entries[dict->count] = (struct tpl_entry){key, value, hash};
    if (dict->index)
        index_entry(dict, dict->count);
    dict->count++;
    return true;
}

bool gp_tpl_dict_get(struct tpl_run *r, const struct tpl_dict *dict, struct tpl_value key,
                     struct tpl_value *out)
{
    struct tpl_entry *e;
    uint64_t hash;

    if (!hash_value(r, key, &hash) || !find_entry(r, dict, key, hash, &e))
        return false;
    *out = e ? e->value : (struct tpl_value){.kind = TPL_MISSING};
    return true;
}

bool gp_tpl_dict_name(struct tpl_run *r, const struct tpl_dict *dict, const struct tpl_string *name,
                      struct tpl_value *out)
{
    return gp_tpl_dict_get(r, dict, gp_tpl_string_value(name), out);
}

/* ---- from JSON ---- */

static bool array_from_json(struct tpl_run *r, const json_t *json, struct tpl_value *out)
{
    size_t count = json_array_size(json);

    if (!gp_tpl_list_new(r, TPL_LIST, count, out))
        return false;
    for (size_t i = 0; i < count; i++) {
        struct tpl_value item;
        if (!gp_tpl_from_json(r, json_array_get(json, i), &item) ||
            !gp_tpl_list_add(r, out->list, item))
            return false;
    }
    return true;
}

static bool object_from_json(struct tpl_run *r, const json_t *json, struct tpl_value *out)
{
    const char *name;
    json_t *member;

    if (!gp_tpl_dict_new(r, TPL_DICT, out))
        return false;
    json_object_foreach((json_t *)(uintptr_t)json, name, member)
    {
        struct tpl_value key, value;
        if (!gp_tpl_string_new(r, name, strlen(name), false, &key) ||
            !gp_tpl_from_json(r, member, &value) || !gp_tpl_dict_set(r, out->dict, key, value))
            return false;
    }
    return true;
}

bool gp_tpl_from_json(struct tpl_run *r, const json_t *json, struct tpl_value *out)
{
    size_t bad;

    if (!gp_tpl_enter(r) || !gp_tpl_step(r, 0))
        return false;
    bool ok = true;
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        ok = object_from_json(r, json, out);
        break;
    case JSON_ARRAY:
        ok = array_from_json(r, json, out);
        break;
    case JSON_STRING:
        if (!gp_tpl_utf8_valid(json_string_value(json), json_string_length(json), &bad))
            return gp_tpl_fail(r, "a message holds bytes that are not UTF-8");
        ok = gp_tpl_string_new(r, json_string_value(json), json_string_length(json), false, out);
        break;
    case JSON_INTEGER:
        *out = gp_tpl_int(json_integer_value(json));
        break;
    case JSON_REAL:
        *out = gp_tpl_float(json_real_value(json));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        *out = gp_tpl_bool(json_is_true(json));
        break;
    default:
        *out = gp_tpl_none();
        break;
    }
    out->untrusted = true;
    r->depth--;
    return ok;
}

/* ---- equality and order ---- */

/* Exact comparison of an integer with a double, as Python does it: -1, 0, 1; 2 for NaN. */
static int compare_int_float(int64_t a, double b)
{
    if (isnan(b))
        return 2;
    if (b >= 9223372036854775808.0)
        return -1;
    if (b < -9223372036854775808.0)
        return 1;
    int64_t whole = (int64_t)b;
    if (a != whole)
        return a < whole ? -1 : 1;
    double rest = b - (double)whole;
    return rest > 0 ? -1 : rest < 0 ? 1 : 0;
}

static int compare_numbers(struct tpl_value a, struct tpl_value b)
{
    int64_t x, y;
    bool a_int = gp_tpl_as_int(a, &x), b_int = gp_tpl_as_int(b, &y);

    if (a_int && b_int)
        return x < y ? -1 : x > y;
    if (a_int)
        return compare_int_float(x, b.real);
    if (b_int) {
        int c = compare_int_float(y, a.real);
        return c == 2 ? 2 : -c;
    }
    if (isnan(a.real) || isnan(b.real))
        return 2;
    return a.real < b.real ? -1 : a.real > b.real;
}

static int compare_strings(const struct tpl_string *a, const struct tpl_string *b)
{
    size_t n = a->length < b->length ? a->length : b->length;
    int c = n > 0 ? memcmp(a->bytes, b->bytes, n) : 0;

    return c != 0 ? c : a->length < b->length ? -1 : a->length > b->length;
}

/* Two objects are the same one.  Python's containers ask this before they ask for equality. */
static bool identical(struct tpl_value a, struct tpl_value b)
{
    return a.kind == b.kind && a.kind >= TPL_STRING && a.string == b.string;
}

static bool equal_items(struct tpl_run *r, struct tpl_value a, struct tpl_value b, bool *out)
{
    if (identical(a, b)) {
        *out = true;
        return true;
    }
    return gp_tpl_equal(r, a, b, out);
}

static bool equal_lists(struct tpl_run *r, const struct tpl_list *a, const struct tpl_list *b,
                        bool *out)
{
    *out = a->count == b->count;
    for (size_t i = 0; i < a->count && *out; i++)
        if (!equal_items(r, a->items[i], b->items[i], out))
            return false;
    return true;
}

static bool equal_dicts(struct tpl_run *r, const struct tpl_dict *a, const struct tpl_dict *b,
                        bool *out)
{
    *out = a->count == b->count;
    for (size_t i = 0; i < a->count && *out; i++) {
        struct tpl_value other;
        if (!gp_tpl_dict_get(r, b, a->entries[i].key, &other))
            return false;
        if (other.kind == TPL_MISSING)
            *out = false;
        else if (!equal_items(r, a->entries[i].value, other, out))
            return false;
    }
    return true;
}

bool gp_tpl_equal(struct tpl_run *r, struct tpl_value a, struct tpl_value b, bool *out)
{
    if (!gp_tpl_step(r, 0) || !gp_tpl_enter(r))
        return false;
    bool ok = true;
    if (gp_tpl_is_number(a) && gp_tpl_is_number(b)) {
        *out = compare_numbers(a, b) == 0;
    } else if (a.kind != b.kind) {
        *out = false;
    } else if (a.kind == TPL_STRING) {
        ok = gp_tpl_step(r, a.string->length);
        *out = gp_tpl_string_equal(a.string, b.string);
    } else if (a.kind == TPL_LIST || a.kind == TPL_TUPLE) {
        ok = equal_lists(r, a.list, b.list, out);
    } else if (a.kind == TPL_DICT) {
        ok = equal_dicts(r, a.dict, b.dict, out);
    } else if (a.kind == TPL_NONE || a.kind == TPL_UNDEFINED) {
        *out = true;
    } else if (a.kind == TPL_RANGE) {
        const struct tpl_range *x = a.range, *y = b.range;
        *out = x->count == y->count && (x->count == 0 || x->start == y->start) &&
               (x->count <= 1 || x->step == y->step);
    } else if (a.kind == TPL_VIEW || a.kind == TPL_METHOD) {
        ok = gp_tpl_fail(r, "comparison of two values of type %s", gp_tpl_type(a));
    } else {
        *out = a.string == b.string;
    }
    r->depth--;
    return ok;
}

static bool compare_lists(struct tpl_run *r, enum tpl_op op, const struct tpl_list *a,
                          const struct tpl_list *b, bool *out)
{
    size_t n = a->count < b->count ? a->count : b->count;

    for (size_t i = 0; i < n; i++) {
        bool equal;
        if (!equal_items(r, a->items[i], b->items[i], &equal))
            return false;
        if (!equal)
            return gp_tpl_compare(r, op, a->items[i], b->items[i], out);
    }
    return gp_tpl_compare(r, op, gp_tpl_int((int64_t)a->count), gp_tpl_int((int64_t)b->count), out);
}

static bool answer(enum tpl_op op, int c)
{
    switch (op) {
    case TPL_LT:
        return c < 0;
    case TPL_LE:
        return c <= 0;
    case TPL_GT:
        return c > 0 && c != 2;
    default:
        return c >= 0 && c != 2;
    }
}

/* <, <=, > and >=. */
static bool compare_order(struct tpl_run *r, enum tpl_op op, struct tpl_value a, struct tpl_value b,
                          bool *out)
{
    static const char *const spelling[] = {
        [TPL_LT] = "<", [TPL_LE] = "<=", [TPL_GT] = ">", [TPL_GE] = ">="};

    if (gp_tpl_is_number(a) && gp_tpl_is_number(b)) {
        *out = answer(op, compare_numbers(a, b));
        return true;
    }
    if (a.kind == TPL_STRING && b.kind == TPL_STRING) {
        int c = compare_strings(a.string, b.string);
        *out = answer(op, c < 0 ? -1 : c > 0);
        return gp_tpl_step(r, a.string->length);
    }
    if (a.kind == b.kind && (a.kind == TPL_LIST || a.kind == TPL_TUPLE)) {
        if (!gp_tpl_enter(r))
            return false;
        bool ok = compare_lists(r, op, a.list, b.list, out);
        r->depth--;
        return ok;
    }
    if (a.kind == TPL_UNDEFINED || b.kind == TPL_UNDEFINED)
        return gp_tpl_undefined_error(r, a.kind == TPL_UNDEFINED ? a : b);
    return gp_tpl_fail(r, "'%s' not supported between '%s' and '%s'", spelling[op], gp_tpl_type(a),
                       gp_tpl_type(b));
}

bool gp_tpl_compare(struct tpl_run *r, enum tpl_op op, struct tpl_value a, struct tpl_value b,
                    bool *out)
{
    bool ok, result = false;

    if (!gp_tpl_step(r, 0))
        return false;
    if (op == TPL_EQ || op == TPL_NE)
        ok = gp_tpl_equal(r, a, b, &result);
    else if (op == TPL_IN || op == TPL_NOT_IN)
        ok = gp_tpl_contains(r, a, b, &result);
    else
        ok = compare_order(r, op, a, b, &result);
    *out = op == TPL_NE || op == TPL_NOT_IN ? !result : result;
    return ok;
}

bool gp_tpl_less(struct tpl_run *r, struct tpl_value a, struct tpl_value b, bool *out)
{
    return gp_tpl_compare(r, TPL_LT, a, b, out);
}

bool gp_tpl_contains(struct tpl_run *r, struct tpl_value item, struct tpl_value in, bool *out)
{
    struct tpl_iter *iter;
    struct tpl_value next;

    *out = false;
    if (in.kind == TPL_STRING) {
        if (item.kind != TPL_STRING)
            return gp_tpl_fail(r, "'in <string>' requires string as left operand, not %s",
                               gp_tpl_type(item));
        *out = item.string->length == 0 ||
               memmem(in.string->bytes, in.string->length, item.string->bytes, item.string->length);
        return gp_tpl_step(r, in.string->length);
    }
    if (in.kind == TPL_DICT || (in.kind == TPL_VIEW && in.view->kind == TPL_KEYS)) {
        const struct tpl_dict *dict = in.kind == TPL_DICT ? in.dict : in.view->dict;
        if (!gp_tpl_dict_get(r, dict, item, &next))
            return false;
        *out = next.kind != TPL_MISSING;
        return true;
    }
    if (!gp_tpl_iterable(in))
        return gp_tpl_fail(r, "argument of type '%s' is not iterable", gp_tpl_type(in));
    if (!gp_tpl_iter_open(r, in, &iter))
        return false;
    for (bool done = false; !*out;) {
        if (!gp_tpl_iter_next(r, iter, &next, &done))
            return false;
        if (done)
            break;
        if (!equal_items(r, next, item, out))
            return false;
    }
    return true;
}
