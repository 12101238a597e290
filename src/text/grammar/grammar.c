/* Forms and thoughts, and what was built made ready to be followed. */
#include "text/grammar/grammar_internal.h"

#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

/* No way to an end. */
#define NO_END UINT8_MAX

_Static_assert(GP_LIMIT_GRAMMAR_STACK < NO_END, "depths fit a byte");

/* ---- what is built ---- */

static const char opener[] = "<think>", closer[] = "</think>";

#define BLANKS_MAX 4u /* behind a thought */

static uint16_t build_thought(struct gp_builder *b, uint16_t start, enum gp_grammar_thought thought)
{
    uint16_t body = gp_build_state(b), inside = gp_build_state(b), at = gp_build_state(b);

    if (thought != GP_GRAMMAR_THINKS)
        gp_build_empty(b, start, body);
    if (thought == GP_GRAMMAR_NO_THOUGHT)
        return body;
    if (thought == GP_GRAMMAR_MAY_THINK)
        gp_build_text(b, start, opener, inside);
    else
        gp_build_empty(b, start, inside);
    gp_build_until(b, inside, closer, at);
    for (unsigned i = 0; i < BLANKS_MAX; i++) {
        uint16_t next = gp_build_state(b);

        gp_build_empty(b, at, body);
        gp_build_one_of(b, at, " \n\r\t", next);
        at = next;
    }
    gp_build_empty(b, at, body);
    return body;
}

/* From state to state, a document of the text's schema. */
static void build_document(struct gp_builder *b, const char *text, uint16_t from, uint16_t to)
{
    size_t length = text ? strlen(text) : 0;
    json_error_t why;

    if (!text) {
        gp_build_call(b, from, gp_part_object(b), to);
        return;
    }
    if (length > GP_LIMIT_SCHEMA_BYTES) {
        gp_build_fail(b, GP_EINVAL, "%zu bytes; at most %u", length, GP_LIMIT_SCHEMA_BYTES);
        return;
    }
    json_t *schema = json_loadb(text, length, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &why);

    if (!schema) {
        gp_build_fail(b, GP_EINVAL, "not JSON: line %d, column %d: %s", why.line, why.column,
                      why.text);
        return;
    }
    gp_schema_build(b, from, schema, to);
    json_decref(schema);
}

/* The states behind each form's first words are kept, to see that a document can follow. */
static uint16_t build(struct gp_builder *b, const struct gp_grammar_source *source,
                      uint16_t documents[])
{
    uint16_t start = gp_build_state(b), end = gp_build_end(b), again = gp_build_state(b);
    uint16_t body = build_thought(b, start, source->thought);

    gp_build_empty(b, body, again);
    for (uint32_t i = 0; i < source->form_count && !b->rc; i++) {
        const struct gp_grammar_form *form = &source->forms[i];
        uint16_t behind = gp_build_state(b), last = gp_build_state(b);

        documents[i] = gp_build_state(b);
        gp_build_empty(b, gp_build_spell(b, again, form->begin, strlen(form->begin)), documents[i]);
        build_document(b, form->schema, documents[i], behind);
        gp_build_text(b, behind, form->end, last);
        gp_build_empty(b, *form->end ? last : behind, end);
    }
    if (source->separator && *source->separator && !b->rc) {
        uint16_t more = gp_build_state(b), between = gp_build_state(b);

        /* Ends do not go on, so that calls can return to them; this one is the whole's. */
        gp_build_empty(b, end, more);
        gp_build_text(b, more, source->separator, between);
        gp_build_empty(b, between, again);
    }
    return start;
}

/* ---- what is compiled ---- */

/* Edges by the states that they lead to: those of state s are items[first[s]] to [first[s + 1]]. */
struct backward {
    uint32_t *first, *items;
};

static bool list_backward(const struct gp_builder *b, struct backward *back)
{
    back->first = gp_mem_alloc_array((size_t)b->state_count + 2, sizeof *back->first);
    back->items = gp_mem_alloc_array((size_t)b->edge_count * 2, sizeof *back->items);
    if (!back->first || !back->items)
        return false;
    /* State 0 stands for no call. */
    for (uint32_t i = 1; i < b->edge_count; i++) {
        back->first[b->edges[i].to + 2]++;
        back->first[b->edges[i].call + 2]++;
    }
    for (uint32_t s = 2; s < b->state_count + 2; s++)
        back->first[s] += back->first[s - 1];
    for (uint32_t i = 1; i < b->edge_count; i++) {
        back->items[back->first[b->edges[i].to + 1]++] = i;
        back->items[back->first[b->edges[i].call + 1]++] = i;
    }
    return true;
}

static bool is_spellable(const struct gp_draft_edge *edge, const bool spellable[256])
{
    for (unsigned byte = edge->low; edge->kind == GP_EDGE_BYTES && byte <= edge->high; byte++)
        if (spellable[byte])
            return true;
    return edge->kind != GP_EDGE_BYTES;
}

/* How deep calls have to go from a state to its part's end, over this edge; NO_END: not known
 * yet. */
static uint8_t need_over(const struct gp_draft_edge *edge, const uint8_t *need)
{
    uint8_t behind = need[edge->to], inside;

    if (edge->kind != GP_EDGE_CALL || behind == NO_END)
        return behind;
    inside = need[edge->call];
    if (inside == NO_END || inside + 1u > GP_LIMIT_GRAMMAR_STACK)
        return NO_END;
    return inside + 1u > behind ? (uint8_t)(inside + 1u) : behind;
}

/* Fill need [state_count] in ascending order: what has an end at depth d is settled before what has
 * one at d + 1, so that each state is settled once. */
static bool find_needs(const struct gp_builder *b, const bool spellable[256], uint8_t *need)
{
    struct backward back = {0};
    uint16_t *now = gp_mem_alloc_array(b->state_count, sizeof *now);
    uint16_t *later = gp_mem_alloc_array(b->state_count, sizeof *later);
    bool ok = now && later && list_backward(b, &back);
    uint32_t count = 0, later_count = 0;

    memset(need, NO_END, b->state_count);
    for (uint32_t s = 1; ok && s < b->state_count; s++)
        if (b->states[s].ends) {
            need[s] = 0;
            now[count++] = (uint16_t)s;
        }
    for (unsigned depth = 0; ok && depth <= GP_LIMIT_GRAMMAR_STACK; depth++) {
        while (count > 0) {
            uint16_t at = now[--count];

            for (uint32_t i = back.first[at]; i < back.first[at + 1]; i++) {
                const struct gp_draft_edge *edge = &b->edges[back.items[i]];
                uint8_t over = need_over(edge, need);

                if (over == NO_END || need[edge->from] <= depth || !is_spellable(edge, spellable))
                    continue;
                if (over <= depth) {
                    need[edge->from] = (uint8_t)depth;
                    now[count++] = edge->from;
                } else if (need[edge->from] == NO_END) {
                    need[edge->from] = (uint8_t)(depth + 1);
                    later[later_count++] = edge->from;
                }
            }
        }
        for (; later_count > 0; later_count--)
            if (need[later[later_count - 1]] == depth + 1)
                now[count++] = later[later_count - 1];
    }
    gp_mem_free(now);
    gp_mem_free(later);
    gp_mem_free(back.first);
    gp_mem_free(back.items);
    return ok;
}

/* The bytes of an edge that can be spelled, as edges of their own. */
static uint32_t put_bytes(const struct gp_draft_edge *edge, const bool spellable[256],
                          struct gp_edge *out)
{
    uint32_t count = 0;

    for (unsigned low = edge->low, high; low <= edge->high; low = high + 1) {
        for (high = low; spellable[high] && high < edge->high && spellable[high + 1]; high++)
            ;
        if (!spellable[low])
            continue;
        if (out)
            out[count] = (struct gp_edge){
                .to = edge->to, .kind = GP_EDGE_BYTES, .low = (uint8_t)low, .high = (uint8_t)high};
        count++;
    }
    return count;
}

/* The edges of a state that lead to an end; returns how many.  out may be NULL, to count. */
static uint32_t put_edges(const struct gp_builder *b, uint32_t state, const uint8_t *need,
                          const bool spellable[256], struct gp_edge *out)
{
    uint32_t count = 0;

    for (uint32_t at = b->states[state].first; at; at = b->edges[at].next) {
        const struct gp_draft_edge *edge = &b->edges[at];

        if (need_over(edge, need) == NO_END)
            continue;
        if (edge->kind == GP_EDGE_BYTES) {
            count += put_bytes(edge, spellable, out ? out + count : NULL);
            continue;
        }
        if (out)
            out[count] = (struct gp_edge){.to = edge->to, .call = edge->call, .kind = edge->kind};
        count++;
    }
    return count;
}

/* A call behind which its own part ends needs no return: the end of what is called is its own. */
static void drop_last_calls(struct gp_grammar *g)
{
    for (uint32_t i = 0; i < g->edge_count; i++) {
        struct gp_edge *edge = &g->edges[i];
        const struct gp_state *to = &g->states[edge->to];

        if (edge->kind == GP_EDGE_CALL && to->ends && to[1].edges == to->edges) {
            edge->kind = GP_EDGE_EMPTY;
            edge->to = edge->call;
        }
    }
}

static void find_classes(struct gp_grammar *g)
{
    bool begins[257] = {true};

    for (uint32_t i = 0; i < g->edge_count; i++)
        if (g->edges[i].kind == GP_EDGE_BYTES)
            begins[g->edges[i].low] = begins[g->edges[i].high + 1] = true;
    for (unsigned byte = 0; byte < 256; byte++) {
        if (begins[byte])
            g->samples[g->class_count++] = (uint8_t)byte;
        g->classes[byte] = (uint8_t)(g->class_count - 1);
    }
}

static bool compile(struct gp_grammar *g, const struct gp_builder *b, const uint8_t *need,
                    const bool spellable[256])
{
    g->state_count = b->state_count;
    for (uint32_t s = 1; s < b->state_count; s++)
        g->edge_count += put_edges(b, s, need, spellable, NULL);
    g->states = gp_mem_alloc_array((size_t)g->state_count + 1, sizeof *g->states);
    g->edges = gp_mem_alloc_array(g->edge_count, sizeof *g->edges);
    if (!g->states || !g->edges)
        return false;
    uint32_t at = 0;

    for (uint32_t s = 1; s < b->state_count; s++) {
        struct gp_state *state = &g->states[s];
        uint32_t count = put_edges(b, s, need, spellable, g->edges + at);

        state->edges = at;
        state->ends = b->states[s].ends;
        state->need = need[s];
        for (uint32_t i = 0; i < count; i++)
            state->bytes |= g->edges[at + i].kind == GP_EDGE_BYTES;
        at += count;
    }
    g->states[g->state_count].edges = at;
    gp_assert(at == g->edge_count);
    drop_last_calls(g);
    find_classes(g);
    return true;
}

/* Every form has a document, and its words can be written. */
static void check_ends(struct gp_builder *b, const struct gp_grammar_source *source,
                       const uint16_t documents[], const uint8_t *need, uint16_t start)
{
    for (uint32_t i = 0; i < source->form_count; i++)
        if (need[documents[i]] == NO_END)
            gp_build_fail(b, GP_EINVAL,
                          "no document can satisfy it%s%s within a depth of %u (a part that "
                          "requires itself, or that nothing is allowed for)",
                          *source->forms[i].begin ? ": " : "", source->forms[i].begin,
                          GP_LIMIT_GRAMMAR_STACK);
    if (need[start] == NO_END)
        gp_build_fail(b, GP_EINVAL, "the vocabulary cannot spell it");
}

static struct gp_grammar *finish(struct gp_builder *b, const struct gp_grammar_source *source,
                                 const uint16_t documents[], uint16_t start,
                                 const bool spellable[256])
{
    uint8_t *need = gp_mem_alloc(b->state_count);
    struct gp_grammar *g = gp_mem_alloc(sizeof *g);
    bool ok = need && g && find_needs(b, spellable, need);

    if (ok)
        check_ends(b, source, documents, need, start);
    if (ok && !b->rc)
        ok = compile(g, b, need, spellable);
    if (!ok)
        gp_build_fail(b, GP_ENOMEM, "out of memory");
    gp_mem_free(need);
    if (!b->rc) {
        g->start = start;
        return g;
    }
    gp_grammar_close(g);
    return NULL;
}

int gp_grammar_open(struct gp_grammar **out, const struct gp_grammar_source *source,
                    const bool spellable[256], struct gp_error *err)
{
    struct gp_error unheard;
    struct gp_builder b = {.err = err ? err : &unheard};
    uint16_t documents[GP_LIMIT_FORMS];

    if (source->form_count == 0 || source->form_count > GP_LIMIT_FORMS)
        return gp_fail(err, GP_EINVAL, "grammar: %u forms; 1 to %u", source->form_count,
                       GP_LIMIT_FORMS);
    uint16_t start = build(&b, source, documents);
    struct gp_grammar *grammar = b.rc ? NULL : finish(&b, source, documents, start, spellable);
    int rc = b.rc;

    gp_builder_free(&b);
    if (rc)
        return rc;
    *out = grammar;
    return GP_OK;
}

void gp_grammar_close(struct gp_grammar *grammar)
{
    if (!grammar)
        return;
    gp_mem_free(grammar->states);
    gp_mem_free(grammar->edges);
    gp_mem_free(grammar);
}

uint32_t gp_grammar_states(const struct gp_grammar *grammar)
{
    return grammar->state_count;
}
