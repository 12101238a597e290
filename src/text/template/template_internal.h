/* The template interpreter's own header: what its files share and no other file sees.
 *
 *   template_lex.c      source -> tokens (whitespace control is decided here)
 *   template_parser.c, template_expression.c, template_parse.c   tokens -> nodes
 *   template_scope.c    names -> slots, and the refusals that need the whole template
 *   template_value.c    memory, lists, dicts, comparison
 *   template_print.c    str(), repr() and JSON
 *   template_eval.c     expressions
 *   template_exec.c     statements, macros, loops
 *   template_iter.c     iteration, lazy where Python is lazy
 *   template_call.c     arguments, global functions
 *   template_string.c   strings with origins, buffers; template_text.c: letter case, % formatting
 *   template_methods.c, template_filters.c, template_sequences.c, template_tests.c   by name
 *   template.c          open, render
 *
 * An open template owns one arena with its nodes; a render owns another with its values.  Nothing
 * is freed piece by piece, and no value survives its render. */
#ifndef GP_TEXT_TEMPLATE_INTERNAL_H
#define GP_TEXT_TEMPLATE_INTERNAL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/template/template.h"

#define TPL_SOURCE_BYTES (1u << 20)                /* of a template                               */
#define TPL_NESTING      100u                      /* of brackets and of statements               */
#define TPL_HEIGHT       400u                      /* of an expression's tree: a + b + c + ...    */
#define TPL_DEPTH        1000u                     /* of evaluation: stack, macros, nested values */
#define TPL_NAMES        1000u                     /* of one scope                                */
#define TPL_BRANCHES     500u                      /* of one if                                   */
#define TPL_MEMORY       (4u * GP_TEMPLATE_OUTPUT) /* of one render                              */
#define TPL_ARGS         8u                        /* parameters of a built-in                    */
#define TPL_RANGE_ITEMS  100000                    /* items of range(), as the sandbox has it     */

/* ---- memory ---- */

struct tpl_chunk;

struct tpl_arena {
    struct tpl_chunk *chunks;
    size_t bytes;     /* taken from the heap so far */
    size_t bytes_max; /* 0: no limit                */
};

/* Zeroed, aligned for anything; NULL when the heap or the limit says no. */
void *gp_tpl_alloc(struct tpl_arena *arena, size_t bytes);
void gp_tpl_release(struct tpl_arena *arena);

/* ---- values ---- */

/* Bytes of valid UTF-8 and where each came from: all from one side (marks is NULL), or a mark a
 * byte, 1 for the template's.  Never changed once made, so that parts can be shared. */
struct tpl_string {
    const char *bytes;
    const uint8_t *marks;
    size_t length;
    bool trusted; /* when marks is NULL */
    bool markup;  /* went through |safe: what is added to it is escaped */
};

enum tpl_kind {
    TPL_MISSING, /* no value at all; never seen by a template */
    TPL_UNDEFINED,
    TPL_NONE,
    TPL_BOOL,
    TPL_INT,
    TPL_FLOAT,
    TPL_STRING,
    TPL_LIST,
    TPL_TUPLE,
    TPL_DICT,
    TPL_VIEW, /* dict.keys(), .values(), .items() */
    TPL_RANGE,
    TPL_ITERATOR,
    TPL_NAMESPACE,
    TPL_MACRO,
    TPL_BUILTIN, /* a global function                  */
    TPL_METHOD,  /* a method with its object           */
    TPL_LOOP,
};

struct tpl_value {
    uint8_t kind;
    bool untrusted; /* numbers, booleans and none that came from a message */
    union {
        bool flag;
        int64_t integer;
        double real;
        const struct tpl_string *string;
        const struct tpl_undefined *undefined;
        struct tpl_list *list; /* list, tuple */
        struct tpl_dict *dict; /* dict, namespace */
        const struct tpl_view *view;
        const struct tpl_range *range;
        struct tpl_iter *iter;
        const struct tpl_macro *macro;
        const struct tpl_builtin *builtin;
        const struct tpl_method *method;
        struct tpl_loop *loop;
    };
};

struct tpl_undefined {
    const char *hint; /* or NULL: name and, when it was looked up in something, of */
    const struct tpl_string *name;
    const char *of;
};

struct tpl_list {
    struct tpl_value *items;
    size_t count;
    size_t capacity;
};

struct tpl_entry {
    struct tpl_value key;
    struct tpl_value value;
    uint64_t hash;
};

/* In order of insertion.  Beyond a few entries `index` holds entry numbers + 1, open addressing. */
struct tpl_dict {
    struct tpl_entry *entries;
    uint32_t *index;
    size_t count;
    size_t capacity;
    size_t index_size;
};

enum tpl_view_kind {
    TPL_KEYS,
    TPL_VALUES,
    TPL_ITEMS,
};

struct tpl_view {
    const struct tpl_dict *dict;
    enum tpl_view_kind kind;
};

struct tpl_range {
    int64_t start;
    int64_t stop; /* as it was given */
    int64_t step;
    int64_t count;
};

struct tpl_method {
    const struct tpl_builtin *builtin;
    struct tpl_value self;
};

struct tpl_macro {
    const struct tpl_node *node;    /* TPL_N_MACRO or TPL_N_CALL_BLOCK */
    struct tpl_activation *lexical; /* where it was defined             */
};

/* The variables of one running function (the template itself, a macro, a recursive loop). */
struct tpl_activation {
    struct tpl_activation *up; /* of the function around it */
    struct tpl_value *slots;
};

/* ---- nodes ---- */

enum tpl_node_kind {
    TPL_N_DATA,
    TPL_N_PRINT,
    TPL_N_IF,
    TPL_N_FOR,
    TPL_N_SET,
    TPL_N_SET_BLOCK,
    TPL_N_MACRO,
    TPL_N_CALL_BLOCK,
    TPL_N_FILTER_BLOCK,
    TPL_N_WITH,
    TPL_N_BREAK,
    TPL_N_CONTINUE,
    TPL_N_CONST,
    TPL_N_NAME,
    TPL_N_NSREF,
    TPL_N_TUPLE,
    TPL_N_LIST,
    TPL_N_DICT,
    TPL_N_GETATTR,
    TPL_N_GETITEM,
    TPL_N_SLICE,
    TPL_N_CALL,
    TPL_N_FILTER,
    TPL_N_TEST,
    TPL_N_COND,
    TPL_N_OR,
    TPL_N_AND,
    TPL_N_NOT,
    TPL_N_NEG,
    TPL_N_POS,
    TPL_N_BINARY,
    TPL_N_CONCAT,
    TPL_N_COMPARE,
};

enum tpl_op {
    TPL_ADD,
    TPL_SUB,
    TPL_MUL,
    TPL_DIV,
    TPL_FLOORDIV,
    TPL_MOD,
    TPL_POW,
    TPL_EQ,
    TPL_NE,
    TPL_LT,
    TPL_LE,
    TPL_GT,
    TPL_GE,
    TPL_IN,
    TPL_NOT_IN,
};

struct tpl_nodes {
    struct tpl_node **items;
    uint32_t count;
    uint32_t capacity;
};

struct tpl_keyword {
    const struct tpl_string *name;
    struct tpl_node *value;
    struct tpl_keyword *next;
};

/* What a scope does when it is entered: give each of its variables a first value. */
enum tpl_load_action {
    TPL_LOAD_PARAMETER, /* already there                      */
    TPL_LOAD_UNDEFINED, /* missing until it is set            */
    TPL_LOAD_RESOLVE,   /* what the render was given, by name */
    TPL_LOAD_ALIAS,     /* the value of the variable outside  */
};

struct tpl_load {
    enum tpl_load_action action;
    uint32_t slot;
    uint32_t from_up;
    uint32_t from_slot;
    const struct tpl_string *name;
};

struct tpl_scope {
    struct tpl_load *loads;
    uint32_t count;
};

/* One shape for all kinds; which fields mean something is said in template_parse.c, where each kind
 * is made. */
struct tpl_node {
    uint8_t kind;
    uint8_t op;
    bool recursive;
    bool store;
    bool passing; /* a name that only lives while a loop or a with block runs */
    uint16_t height;
    uint32_t line;
    const struct tpl_string *name; /* interned */
    struct tpl_value value;
    struct tpl_node *a, *b, *c;
    struct tpl_nodes items;
    struct tpl_nodes defaults;
    struct tpl_nodes body;
    struct tpl_nodes orelse;
    uint8_t *ops;
    struct tpl_keyword *keywords;
    struct tpl_node *star;
    struct tpl_node *star_star;
    const struct tpl_builtin *builtin;
    uint32_t up;   /* a name: functions to go out, and the slot there */
    uint32_t slot; /* a loop, a call block: where loop or caller lives */
    uint32_t kwargs_slot;
    uint32_t varargs_slot;
    bool takes_loop; /* a for statement whose body looks at loop */
    bool takes_caller;
    bool takes_kwargs;
    bool takes_varargs;
    uint32_t slot_count; /* of the function that this node makes */
    uint32_t test_slot_count;
    struct tpl_scope scope;
    struct tpl_scope test_scope;
    struct tpl_scope else_scope;
    struct tpl_node *test_target; /* the loop's target once more, in the slots of the filter */
};

/* ---- tokens ---- */

enum tpl_token_kind {
    TPL_T_EOF,
    TPL_T_DATA,
    TPL_T_BLOCK_BEGIN,
    TPL_T_BLOCK_END,
    TPL_T_VARIABLE_BEGIN,
    TPL_T_VARIABLE_END,
    TPL_T_NAME,
    TPL_T_STRING,
    TPL_T_INTEGER,
    TPL_T_FLOAT,
    TPL_T_OPERATOR, /* op holds its characters */
};

/* Operators are compared as small numbers: '+', or two characters packed. */
#define TPL_OP2(a, b) ((uint32_t)(a) | (uint32_t)(b) << 8)

struct tpl_token {
    enum tpl_token_kind kind;
    uint32_t line;
    uint32_t op;
    const struct tpl_string *text; /* data, string (decoded), name (interned) */
    int64_t integer;
    double real;
};

/* What lexer, parser and scopes share while a template is opened. */
struct tpl_build {
    struct tpl_arena *arena;
    struct gp_error *err;
    int status;
    const struct tpl_string **names; /* the interned ones, open addressing */
    size_t name_count;
    size_t name_size;
    struct tpl_token *tokens;
    size_t token_count;
    size_t token_capacity;
};

struct gp_template {
    struct tpl_arena arena;
    struct tpl_node root; /* body, slot_count, scope */
};

/* All of these say false when the template is refused; status and err then say why. */
void gp_tpl_refuse_set(struct tpl_build *b, int status, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* return gp_tpl_refuse(b, GP_EINVAL, line, "unknown ...");
 * A macro, as gp_fail is: the compiler sees the answer. */
#define gp_tpl_refuse(b, status, line, ...)                                                        \
    (gp_tpl_refuse_set((b), (status), (line), __VA_ARGS__), false)

void *gp_tpl_build_alloc(struct tpl_build *b, size_t bytes);
const struct tpl_string *gp_tpl_intern(struct tpl_build *b, const char *bytes, size_t length);
bool gp_tpl_lex(struct tpl_build *b, const char *source, size_t length);
bool gp_tpl_parse(struct tpl_build *b, struct tpl_node *root);
bool gp_tpl_resolve(struct tpl_build *b, struct tpl_node *root);
bool gp_tpl_is(const struct tpl_string *s, const char *text);

/* ---- a render ---- */

/* Text under way, with a mark a byte. */
struct tpl_buffer {
    char *bytes;
    uint8_t *marks;
    size_t length;
    size_t capacity;
};

struct tpl_run {
    struct tpl_arena arena;
    struct gp_error *err;
    int status;
    uint32_t line;  /* of what is being evaluated, for messages */
    uint32_t depth; /* of evaluation and of values              */
    uint32_t steps;
    int64_t now;
    struct tpl_dict *context; /* what the caller gave and the globals */
    struct tpl_buffer *out;
    struct tpl_activation *activation;
    struct tpl_value captured; /* what the filter block around has written */
};

/* Every function below that returns bool and takes a run says false when the render has failed; the
 * run then holds status and message. */
void gp_tpl_fail_set(struct tpl_run *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#define gp_tpl_fail(r, ...) (gp_tpl_fail_set((r), __VA_ARGS__), false)
void *gp_tpl_take(struct tpl_run *r, size_t bytes);
void *gp_tpl_take_array(struct tpl_run *r, size_t count, size_t size);
bool gp_tpl_step(struct tpl_run *r, size_t bytes); /* charge a step and the bytes it will touch */
bool gp_tpl_enter(struct tpl_run *r);              /* one level deeper; leave with r->depth--   */

/* strings */
bool gp_tpl_string_new(struct tpl_run *r, const char *bytes, size_t length, bool trusted,
                       struct tpl_value *out); /* copies */
struct tpl_value gp_tpl_string_value(const struct tpl_string *s);
bool gp_tpl_string_part(struct tpl_run *r, const struct tpl_string *s, size_t begin, size_t end,
                        struct tpl_value *out);
bool gp_tpl_string_join(struct tpl_run *r, const struct tpl_string *const *parts, size_t count,
                        struct tpl_value *out);
bool gp_tpl_string_escape(struct tpl_run *r, const struct tpl_string *s, struct tpl_value *out);
size_t gp_tpl_string_chars(const struct tpl_string *s);
size_t gp_tpl_string_offset(const struct tpl_string *s, size_t char_index);
size_t gp_tpl_char_bytes(const char *at, size_t left);
int32_t gp_tpl_char_at(const char *at, size_t left, size_t *bytes);
size_t gp_tpl_char_write(int32_t c, char out[4]);
bool gp_tpl_char_is_space(int32_t c);
bool gp_tpl_string_equal(const struct tpl_string *a, const struct tpl_string *b);
bool gp_tpl_utf8_valid(const char *bytes, size_t length, size_t *bad);
bool gp_tpl_string_slice(struct tpl_run *r, const struct tpl_string *s, int64_t start, int64_t step,
                         int64_t count, struct tpl_value *out);

/* buffers */
bool gp_tpl_put(struct tpl_run *r, struct tpl_buffer *b, const char *bytes, size_t length,
                bool trusted);
bool gp_tpl_put_string(struct tpl_run *r, struct tpl_buffer *b, const struct tpl_string *s);
bool gp_tpl_put_part(struct tpl_run *r, struct tpl_buffer *b, const struct tpl_string *s,
                     size_t begin, size_t end);
bool gp_tpl_buffer_string(struct tpl_run *r, const struct tpl_buffer *b, struct tpl_value *out);

/* other values */
struct tpl_value gp_tpl_none(void);
struct tpl_value gp_tpl_bool(bool flag);
struct tpl_value gp_tpl_int(int64_t integer);
struct tpl_value gp_tpl_float(double real);
bool gp_tpl_undefined(struct tpl_run *r, const char *hint, const struct tpl_string *name,
                      const char *of, struct tpl_value *out);
bool gp_tpl_list_new(struct tpl_run *r, enum tpl_kind kind, size_t capacity, struct tpl_value *out);
bool gp_tpl_list_add(struct tpl_run *r, struct tpl_list *list, struct tpl_value item);
bool gp_tpl_pair(struct tpl_run *r, struct tpl_value a, struct tpl_value b, struct tpl_value *out);
bool gp_tpl_dict_new(struct tpl_run *r, enum tpl_kind kind, struct tpl_value *out);
bool gp_tpl_dict_set(struct tpl_run *r, struct tpl_dict *dict, struct tpl_value key,
                     struct tpl_value value);
/* *out is TPL_MISSING when there is no such key. */
bool gp_tpl_dict_get(struct tpl_run *r, const struct tpl_dict *dict, struct tpl_value key,
                     struct tpl_value *out);
bool gp_tpl_dict_name(struct tpl_run *r, const struct tpl_dict *dict, const struct tpl_string *name,
                      struct tpl_value *out);
bool gp_tpl_from_json(struct tpl_run *r, const json_t *json, struct tpl_value *out);

const char *gp_tpl_type(struct tpl_value v); /* Python's name of the type */
bool gp_tpl_truth(struct tpl_value v);
bool gp_tpl_is_number(struct tpl_value v);            /* bool, int, float */
bool gp_tpl_as_int(struct tpl_value v, int64_t *out); /* bool, int */
double gp_tpl_as_float(struct tpl_value v);
bool gp_tpl_equal(struct tpl_run *r, struct tpl_value a, struct tpl_value b, bool *out);
/* a < b, as sorting asks; a type error where Python has one. */
bool gp_tpl_less(struct tpl_run *r, struct tpl_value a, struct tpl_value b, bool *out);
bool gp_tpl_compare(struct tpl_run *r, enum tpl_op op, struct tpl_value a, struct tpl_value b,
                    bool *out);
bool gp_tpl_contains(struct tpl_run *r, struct tpl_value item, struct tpl_value in, bool *out);
/* len(); false in *sized when there is none. */
bool gp_tpl_length(struct tpl_value v, int64_t *out);
bool gp_tpl_undefined_error(struct tpl_run *r, struct tpl_value v);

/* printing */
bool gp_tpl_print(struct tpl_run *r, struct tpl_buffer *b, struct tpl_value v);
bool gp_tpl_repr(struct tpl_run *r, struct tpl_buffer *b, struct tpl_value v);
bool gp_tpl_str(struct tpl_run *r, struct tpl_value v, const struct tpl_string **out);
size_t gp_tpl_float_text(double v, char out[40]);
struct tpl_json {
    bool ensure_ascii;
    bool sort_keys;
    bool pretty;
    const struct tpl_string *indent; /* one level; with pretty */
    const struct tpl_string *item_separator;
    const struct tpl_string *key_separator;
};
bool gp_tpl_json(struct tpl_run *r, struct tpl_buffer *b, const struct tpl_json *how,
                 struct tpl_value v);

/* ---- iteration ---- */

enum tpl_iter_kind {
    TPL_I_EMPTY,
    TPL_I_LIST,
    TPL_I_STRING,
    TPL_I_DICT,
    TPL_I_RANGE,
    TPL_I_ATTRIBUTE,
    TPL_I_FILTER,
    TPL_I_SELECT,
    TPL_I_UNIQUE,
    TPL_I_BATCH,
    TPL_I_LOOP_TEST,
};

struct tpl_iter {
    enum tpl_iter_kind kind;
    enum tpl_view_kind view;
    struct tpl_value source;
    size_t at;
    struct tpl_iter *inner;
    struct tpl_value attribute; /* dotted path or index; missing: none */
    struct tpl_value fallback;  /* map's default                       */
    const struct tpl_builtin *builtin;
    const struct tpl_args *args;
    bool reject;
    bool case_sensitive;
    struct tpl_dict *seen;
    const struct tpl_node *node; /* the for statement, for its test */
    struct tpl_activation *activation;
};

bool gp_tpl_iterable(struct tpl_value v);
bool gp_tpl_iter_open(struct tpl_run *r, struct tpl_value v, struct tpl_iter **out);
bool gp_tpl_iter_next(struct tpl_run *r, struct tpl_iter *iter, struct tpl_value *out, bool *done);
bool gp_tpl_iter_new(struct tpl_run *r, enum tpl_iter_kind kind, struct tpl_value over,
                     struct tpl_value *out);
bool gp_tpl_to_list(struct tpl_run *r, struct tpl_value v, enum tpl_kind kind,
                    struct tpl_value *out);

struct tpl_loop {
    struct tpl_iter *iter;
    struct tpl_value iterable;
    const struct tpl_node *node;
    struct tpl_activation *lexical;
    int64_t index0;
    int64_t length; /* -1: not known yet */
    int64_t depth0;
    struct tpl_value before, current, after, changed;
};

bool gp_tpl_loop_attribute(struct tpl_run *r, struct tpl_loop *loop, const struct tpl_string *name,
                           struct tpl_value *out);
bool gp_tpl_loop_print(struct tpl_run *r, struct tpl_buffer *b, struct tpl_loop *loop);
bool gp_tpl_loop_render(struct tpl_run *r, const struct tpl_node *node,
                        struct tpl_activation *lexical, struct tpl_value iterable, int64_t depth0,
                        struct tpl_value *out);

/* ---- calls ---- */

struct tpl_args {
    struct tpl_value self;
    struct tpl_value *values; /* positional */
    size_t count;
    const struct tpl_string **names; /* keywords */
    struct tpl_value *keyword_values;
    size_t keyword_count;
    struct tpl_value v[TPL_ARGS]; /* bound to the parameters; missing where not given */
};

typedef bool tpl_fn(struct tpl_run *r, const struct tpl_args *args, struct tpl_value *out);

/* A function, method, filter or test.  A parameter that starts with '*' is positional only.
 * variadic: the arguments stay unbound. */
struct tpl_builtin {
    const char *name;
    tpl_fn *fn;
    uint8_t required;
    bool variadic;
    const char *params[TPL_ARGS];
};

extern const struct tpl_builtin gp_tpl_sequence_filters[]; /* ends with a NULL name */
const struct tpl_builtin *gp_tpl_find_filter(const struct tpl_string *name);
const struct tpl_builtin *gp_tpl_find_test(const struct tpl_string *name);
const struct tpl_builtin *gp_tpl_find_global(const struct tpl_string *name);
bool gp_tpl_add_globals(struct tpl_run *r);

enum tpl_attribute {
    TPL_A_NONE,        /* the type has no such attribute                              */
    TPL_A_METHOD,      /* *out is the method                                          */
    TPL_A_MUTATING,    /* the sandbox hides it                                        */
    TPL_A_UNSUPPORTED, /* Python has it, we do not                                    */
};
enum tpl_attribute gp_tpl_find_method(enum tpl_kind kind, const struct tpl_string *name,
                                      const struct tpl_builtin **out);
/* Whether any type has such a method, ours or hidden: the check at open. */
bool gp_tpl_method_known(const struct tpl_string *name);

/* Whether the string method keeps the promise of |safe, or does not return text. */
bool gp_tpl_markup_method(const char *name);

/* An argument that must be an int; absent when it was not given. */
bool gp_tpl_want_int(struct tpl_run *r, struct tpl_value v, int64_t absent, int64_t *out);
bool gp_tpl_call_builtin(struct tpl_run *r, const struct tpl_builtin *f, struct tpl_args *args,
                         struct tpl_value *out);
bool gp_tpl_call(struct tpl_run *r, struct tpl_value callee, struct tpl_args *args,
                 struct tpl_value *out);
bool gp_tpl_call_macro(struct tpl_run *r, const struct tpl_macro *macro,
                       const struct tpl_args *args, struct tpl_value *out);
bool gp_tpl_eval_args(struct tpl_run *r, const struct tpl_node *n, struct tpl_args *args);
bool gp_tpl_getattr(struct tpl_run *r, struct tpl_value v, const struct tpl_string *name,
                    struct tpl_value *out);
bool gp_tpl_getitem(struct tpl_run *r, struct tpl_value v, struct tpl_value key,
                    struct tpl_value *out);
/* "a.b.0" or a number, as filters take attributes; missing: the value itself. */
bool gp_tpl_getpath(struct tpl_run *r, struct tpl_value v, struct tpl_value path,
                    struct tpl_value fallback, struct tpl_value *out);
bool gp_tpl_binary(struct tpl_run *r, enum tpl_op op, struct tpl_value a, struct tpl_value b,
                   struct tpl_value *out);
bool gp_tpl_percent(struct tpl_run *r, const struct tpl_string *format, struct tpl_value values,
                    struct tpl_value *out);
bool gp_tpl_sort(struct tpl_run *r, struct tpl_value *items, struct tpl_value *keys, size_t count,
                 bool reverse);
bool gp_tpl_upper(struct tpl_run *r, const struct tpl_string *s, struct tpl_value *out);
bool gp_tpl_lower(struct tpl_run *r, const struct tpl_string *s, struct tpl_value *out);
bool gp_tpl_capitalize(struct tpl_run *r, const struct tpl_string *s, struct tpl_value *out);
bool gp_tpl_title(struct tpl_run *r, const struct tpl_string *s, struct tpl_value *out);
bool gp_tpl_replace(struct tpl_run *r, const struct tpl_string *s, const struct tpl_string *old,
                    const struct tpl_string *with, int64_t count, struct tpl_value *out);
bool gp_tpl_splitlines(struct tpl_run *r, const struct tpl_string *s, bool keep,
                       struct tpl_value *out);
bool gp_tpl_cased(struct tpl_run *r, const struct tpl_string *s, bool upper, bool *out);
bool gp_tpl_strip(struct tpl_run *r, const struct tpl_string *s, const struct tpl_string *chars,
                  bool left, bool right, struct tpl_value *out);

bool gp_tpl_eval(struct tpl_run *r, const struct tpl_node *n, struct tpl_value *out);
bool gp_tpl_assign(struct tpl_run *r, const struct tpl_node *target, struct tpl_value v);
void gp_tpl_scope_enter(struct tpl_run *r, const struct tpl_scope *scope);

enum tpl_flow {
    TPL_FLOW_ON,
    TPL_FLOW_BREAK,
    TPL_FLOW_CONTINUE,
    TPL_FLOW_FAIL,
};
enum tpl_flow gp_tpl_exec(struct tpl_run *r, const struct tpl_nodes *body);

#endif
