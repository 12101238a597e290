/* Grammars, the tree of a vocabulary and the matcher, against a model that follows every way by
 * itself and remembers nothing. */
#include "text/grammar/matcher.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "text/grammar/grammar_internal.h"
#include "text/small_vocab.h"

static uint64_t seed_of_run(void)
{
    const char *text = getenv("GP_SEED");

    return text ? strtoull(text, NULL, 10) : 1;
}

/* ---- the model ---- */

#define MODEL_WAYS 1024u

struct model_way {
    uint16_t state, depth, stack[GP_LIMIT_GRAMMAR_STACK];
};

struct model {
    const struct gp_grammar *g;
    struct model_way ways[MODEL_WAYS];
    uint32_t count;
    bool ends;
};

static void model_copy(struct model *to, const struct model *from)
{
    to->g = from->g;
    to->count = from->count;
    to->ends = from->ends;
    memcpy(to->ways, from->ways, from->count * sizeof *from->ways);
}

static bool same_way(const struct model_way *a, const struct model_way *b)
{
    return a->state == b->state && a->depth == b->depth &&
           memcmp(a->stack, b->stack, a->depth * sizeof *a->stack) == 0;
}

static void model_add(struct model *m, const struct model_way *way)
{
    if (way->depth + m->g->states[way->state].need > GP_LIMIT_GRAMMAR_STACK)
        return;
    for (uint32_t i = 0; i < m->count; i++)
        if (same_way(&m->ways[i], way))
            return;
    assert_true(m->count < MODEL_WAYS);
    m->ways[m->count++] = *way;
}

/* Everything that the ways lead to without a byte; they stay in the list. */
static void model_close(struct model *m)
{
    m->ends = false;
    for (uint32_t i = 0; i < m->count; i++) {
        const struct model_way way = m->ways[i];
        const struct gp_state *state = &m->g->states[way.state];
        struct model_way next = way;

        if (state->ends && way.depth > 0) {
            next.state = way.stack[--next.depth];
            model_add(m, &next);
        }
        m->ends |= state->ends && way.depth == 0;
        for (uint32_t e = state->edges; e < state[1].edges; e++) {
            const struct gp_edge *edge = &m->g->edges[e];

            next = way;
            next.state = edge->to;
            if (edge->kind == GP_EDGE_CALL) {
                if (way.depth == GP_LIMIT_GRAMMAR_STACK ||
                    way.depth + m->g->states[edge->to].need > GP_LIMIT_GRAMMAR_STACK)
                    continue;
                next.stack[next.depth++] = edge->to;
                next.state = edge->call;
            }
            if (edge->kind != GP_EDGE_BYTES)
                model_add(m, &next);
        }
    }
}

static void model_begin(struct model *m, const struct gp_grammar *g)
{
    const struct model_way first = {.state = g->start};

    m->g = g;
    m->count = 0;
    model_add(m, &first);
    model_close(m);
}

static void model_take(struct model *m, uint8_t byte)
{
    static struct model old;

    model_copy(&old, m);
    m->count = 0;
    for (uint32_t i = 0; i < old.count; i++) {
        const struct gp_state *state = &m->g->states[old.ways[i].state];

        for (uint32_t e = state->edges; e < state[1].edges; e++) {
            const struct gp_edge *edge = &m->g->edges[e];
            struct model_way next = old.ways[i];

            next.state = edge->to;
            if (edge->kind == GP_EDGE_BYTES && edge->low <= byte && byte <= edge->high)
                model_add(m, &next);
        }
    }
    model_close(m);
}

/* ---- a vocabulary ---- */

static struct test_small_vocab vocab;

/* All bytes, and tokens of several that grammars cross. */
static struct gp_tokenizer *open_words(struct gp_rng *rng)
{
    static const char *const words[] = {
        "{\"",    "\":",  "\",\"",  "\"}", "},{",   "[[",      "]]",       "]}",
        "true",   "null", "\": \"", " {",  "\n  ",  "\\u00",   "\xc3\xa9", "\xe6\x97",
        "\xa5\"", "12",   "e1",     "-1.", "\"a\"", "\"a\":{", "</think>", "k>\n{"};
    struct gp_tokenizer *t;
    struct gp_error err;

    test_small_bpe(&vocab);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        int32_t id = (uint8_t)words[i][0];

        for (size_t k = 1; words[i][k]; k++)
            id = test_small_merge(&vocab, id, (uint8_t)words[i][k]);
    }
    for (unsigned i = 0; i < 150; i++)
        test_small_merge(&vocab, (int32_t)gp_rng_below(rng, vocab.vocab.token_count),
                         "{}[]\",: \\tn0-ae\xc3"[gp_rng_below(rng, 16)] & 0xff);
    vocab.vocab.eos = test_small_token(&vocab, "<|end|>", 7, GP_TOKEN_CONTROL, 0);
    if (gp_tokenizer_open(&t, &vocab.vocab, &err))
        fail_msg("%s", err.message);
    return t;
}

static const char *const schemas[] = {
    NULL,
    "true",
    "{\"type\":\"string\"}",
    "{\"type\":[\"integer\",\"null\",\"boolean\"]}",
    "{\"properties\":{\"a\":{\"type\":\"string\",\"maxLength\":3},\"aa\":{\"type\":\"number\"}}}",
    "{\"properties\":{\"a\":{\"type\":\"integer\"}},\"additionalProperties\":true}",
    "{\"$defs\":{\"n\":{\"properties\":{\"a\":{\"$ref\":\"#/$defs/n\"}}}},\"$ref\":\"#/$defs/n\"}",
    "{\"items\":{\"items\":{\"$ref\":\"#\"},\"maxItems\":2},\"minItems\":1}",
    "{\"anyOf\":[{\"pattern\":\"^(a|b)*c{2,}\"},{\"minimum\":-20,\"maximum\":300},{\"const\":{}}]}",
};

static struct gp_grammar *open_schema(const char *schema, enum gp_grammar_thought thought,
                                      const bool spellable[256])
{
    const struct gp_grammar_form form = {"", schema, ""};
    const struct gp_grammar_source source = {
        .forms = &form, .form_count = 1, .separator = " ", .thought = thought};
    struct gp_grammar *g;
    struct gp_error err;

    if (gp_grammar_open(&g, &source, spellable, &err))
        fail_msg("%s: %s", schema, err.message);
    return g;
}

static bool is_set(const uint64_t *mask, uint32_t id)
{
    return mask[id / 64] >> (id % 64) & 1;
}

/* ---- tests ---- */

static void test_lexicon_holds_every_text_once(void **state)
{
    struct gp_rng rng = {seed_of_run()};
    struct gp_tokenizer *t = open_words(&rng);
    struct gp_lexicon *lexicon;
    bool seen[TEST_SMALL_TOKENS] = {false};
    char path[GP_LIMIT_LEXICON_BYTES];

    (void)state;
    assert_int_equal(gp_lexicon_open(&lexicon, t, NULL), GP_OK);
    for (uint32_t i = 0; i < lexicon->node_count; i++) {
        const struct gp_lexicon_node *node = &lexicon->nodes[i];

        path[node->depth - 1] = (char)node->byte;
        assert_true(node->next > i && node->next <= lexicon->node_count);
        /* What is below is deeper, what follows is not. */
        for (uint32_t k = i + 1; k < node->next; k++)
            assert_true(lexicon->nodes[k].depth > node->depth);
        assert_true(lexicon->nodes[node->next].depth <= node->depth);
        for (uint32_t k = node->tokens; k < lexicon->nodes[i + 1].tokens; k++) {
            size_t length;
            const char *bytes = gp_token_bytes(t, lexicon->ids[k], false, &length);

            assert_int_equal(length, node->depth);
            assert_memory_equal(bytes, path, length);
            assert_false(seen[lexicon->ids[k]]);
            seen[lexicon->ids[k]] = true;
        }
    }
    for (uint32_t id = 0; id < lexicon->vocab; id++) {
        size_t length;

        gp_token_bytes(t, (int32_t)id, false, &length);
        assert_int_equal(seen[id], length > 0);
    }
    gp_lexicon_close(lexicon);
    gp_tokenizer_close(t);
}

/* The mask at a text's place: for each token, whether the model survives its bytes. */
static void check_mask(struct gp_matcher *matcher, uint32_t text, const struct model *model,
                       const struct gp_tokenizer *t, const char *schema)
{
    static struct model after;
    const uint64_t *mask = gp_matcher_mask(matcher, text);
    bool any = false;

    for (uint32_t id = 0; id < gp_tokenizer_count(t); id++) {
        size_t length;
        const char *bytes = gp_token_bytes(t, (int32_t)id, false, &length);

        model_copy(&after, model);
        for (size_t i = 0; i < length && after.count > 0; i++)
            model_take(&after, (uint8_t)bytes[i]);
        if (is_set(mask, id) != (length > 0 && after.count > 0))
            fail_msg("seed %llu, %s: token %u: %d", (unsigned long long)seed_of_run(), schema, id,
                     is_set(mask, id));
        any |= is_set(mask, id);
    }
    assert_true(any || model->ends);
}

static void test_matcher_and_masks_equal_the_model(void **state)
{
    struct gp_rng rng = {seed_of_run()};
    struct gp_tokenizer *t = open_words(&rng);
    struct gp_lexicon *lexicon;
    static struct model model;

    (void)state;
    assert_int_equal(gp_lexicon_open(&lexicon, t, NULL), GP_OK);
    for (size_t s = 0; s < sizeof schemas / sizeof *schemas * 3; s++) {
        const char *schema = schemas[s / 3];
        struct gp_grammar *g = open_schema(schema, s % 3, lexicon->spellable);
        struct gp_matcher *matcher;

        assert_int_equal(gp_matcher_open(&matcher, g, lexicon, 1, NULL), GP_OK);
        model_begin(&model, g);
        for (unsigned step = 0; step < 40; step++) {
            uint32_t id = gp_rng_below(&rng, lexicon->vocab);
            size_t length;

            if (step % 4 == 0)
                check_mask(matcher, 0, &model, t, schema);
            const uint64_t *mask = gp_matcher_mask(matcher, 0);

            for (uint32_t i = 0; i < lexicon->vocab && !is_set(mask, id); i++)
                id = (id + 1) % lexicon->vocab;
            if (!is_set(mask, id))
                break;
            const char *bytes = gp_token_bytes(t, (int32_t)id, false, &length);

            gp_matcher_take(matcher, 0, bytes, length);
            for (size_t i = 0; i < length; i++)
                model_take(&model, (uint8_t)bytes[i]);
            assert_int_equal(gp_matcher_may_end(matcher, 0), model.ends);
        }
        gp_matcher_close(matcher);
        gp_grammar_close(g);
    }
    gp_lexicon_close(lexicon);
    gp_tokenizer_close(t);
}

/* Many texts of deep documents in one matcher: its memory fills again and again. */
static void test_a_full_matcher_forgets_nothing_that_counts(void **state)
{
    enum {
        TEXTS = 100
    };
    static struct model models[TEXTS];
    struct gp_rng rng = {seed_of_run()};
    struct gp_tokenizer *t = open_words(&rng);
    struct gp_lexicon *lexicon;
    struct gp_matcher *matcher;

    (void)state;
    assert_int_equal(gp_lexicon_open(&lexicon, t, NULL), GP_OK);
    struct gp_grammar *g = open_schema("true", GP_GRAMMAR_NO_THOUGHT, lexicon->spellable);

    assert_int_equal(gp_matcher_open(&matcher, g, lexicon, TEXTS, NULL), GP_OK);
    assert_true(gp_matcher_bytes(matcher) < 2u << 20);
    for (unsigned i = 0; i < TEXTS; i++)
        model_begin(&models[i], g);
    for (unsigned step = 0; step < 4000; step++) {
        static const char likely[] = "[[[{\",:a1]} \n\\";
        unsigned i = gp_rng_below(&rng, TEXTS);
        char byte = likely[gp_rng_below(&rng, sizeof likely - 1)];
        const uint64_t *mask = gp_matcher_mask(matcher, i);
        uint8_t id = (uint8_t)byte;

        /* In this vocabulary a byte is its id. */
        static struct model after;
        model_copy(&after, &models[i]);
        model_take(&after, id);
        assert_int_equal(is_set(mask, id), after.count > 0);
        if (after.count == 0)
            continue;
        model_copy(&models[i], &after);
        gp_matcher_take(matcher, i, &byte, 1);
        assert_int_equal(gp_matcher_may_end(matcher, i), after.ends);
    }
    gp_matcher_close(matcher);
    gp_grammar_close(g);
    gp_lexicon_close(lexicon);
    gp_tokenizer_close(t);
}

static void test_bytes_that_cannot_be_spelled_are_never_begun(void **state)
{
    struct gp_rng rng = {seed_of_run()};
    bool spellable[256];
    static struct model model;

    (void)state;
    memset(spellable, true, sizeof spellable);
    /* Without these there is no way to the second byte of U+0080 to U+00BF, nor to escapes. */
    spellable[0xc2] = spellable['\\'] = false;
    struct gp_grammar *g = open_schema("{\"type\":\"string\"}", GP_GRAMMAR_NO_THOUGHT, spellable);

    model_begin(&model, g);
    for (unsigned step = 0; step < 2000; step++) {
        unsigned byte = gp_rng_below(&rng, 256), tries = 0;
        static struct model after;

        do {
            byte = (byte + 1) % 256;
            model_copy(&after, &model);
            model_take(&after, (uint8_t)byte);
        } while (after.count == 0 && ++tries < 256);
        assert_true(tries < 256 || model.ends);
        if (tries == 256)
            break;
        assert_true(spellable[byte]);
        if (byte != '"' || step == 0)
            model_copy(&model, &after);
    }
    gp_grammar_close(g);
    spellable['"'] = false;
    const struct gp_grammar_form form = {"", "{\"type\":\"string\"}", ""};
    const struct gp_grammar_source source = {.forms = &form, .form_count = 1};
    struct gp_error err;

    assert_int_equal(gp_grammar_open(&g, &source, spellable, &err), GP_EINVAL);
}

static void test_every_allocation_may_be_refused(void **state)
{
    struct gp_rng rng = {seed_of_run()};
    struct gp_tokenizer *t = open_words(&rng);
    const struct gp_grammar_form forms[] = {
        {"a", schemas[5], "b"}, {"ab", schemas[6], ""}, {"c", schemas[8], "d"}};
    const struct gp_grammar_source source = {.forms = forms, .form_count = 3, .separator = ";"};
    uint64_t live = gp_mem_live();
    bool refused = true;

    (void)state;
    for (uint64_t nth = 1; refused; nth++) {
        struct gp_lexicon *lexicon = NULL;
        struct gp_grammar *g = NULL;
        struct gp_matcher *matcher = NULL;
        struct gp_error err;

        gp_mem_refuse_at(nth);
        int rc = gp_lexicon_open(&lexicon, t, &err);

        if (!rc)
            rc = gp_grammar_open(&g, &source, lexicon->spellable, &err);
        if (!rc)
            rc = gp_matcher_open(&matcher, g, lexicon, 3, &err);
        refused = gp_mem_refused();
        gp_mem_refuse_at(0);
        assert_int_equal(rc, refused ? GP_ENOMEM : GP_OK);
        gp_matcher_close(matcher);
        gp_grammar_close(g);
        gp_lexicon_close(lexicon);
        assert_int_equal(gp_mem_live(), live);
    }
    gp_tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lexicon_holds_every_text_once),
        cmocka_unit_test(test_matcher_and_masks_equal_the_model),
        cmocka_unit_test(test_a_full_matcher_forgets_nothing_that_counts),
        cmocka_unit_test(test_bytes_that_cannot_be_spelled_are_never_begun),
        cmocka_unit_test(test_every_allocation_may_be_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
