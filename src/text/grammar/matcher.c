/* A set is where a text can be in its grammar: ways, each a state and a stack of states to return
 * to. Sets, and the stacks' entries, are kept once each (equal ones have one number), so that a
 * text's place is a number and what a byte does to it has to be found out once: moves[set][class].
 *
 * When the memory for sets is full, those of the texts are copied into a second one and the rest is
 * forgotten. */
#include "text/grammar/matcher.h"

#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "text/grammar/grammar_internal.h"

#define SETS    GP_LIMIT_MATCHER_SETS
#define WAYS    32768u /* of all sets                              */
#define ENTRIES 20480u /* of all stacks; more than every text's deepest one needs */
#define VISITED 4096u  /* ways looked at for one set: a power of 2 */
#define MASKS   8u     /* kept                                     */
#define BUCKETS 4096u  /* of a table of sets or of entries         */
#define DEAD    0u     /* the set of no ways, which is no end      */
#define UNKNOWN UINT16_MAX

_Static_assert(SETS < UNKNOWN && ENTRIES < UNKNOWN, "numbers fit 16 bits");
_Static_assert(ENTRIES > (GP_LIMIT_MATCHER_TEXTS + 1) * GP_LIMIT_GRAMMAR_STACK,
               "a way of every text fits");

struct entry {
    uint16_t state; /* to return to                          */
    uint16_t below; /* 0: the bottom                         */
    uint16_t next;  /* of its bucket                         */
    uint8_t depth;
};

struct way {
    uint16_t state, stack;
};

struct set {
    uint32_t first; /* of its ways */
    uint16_t count;
    uint16_t next; /* of its bucket                         */
    bool ends;     /* the text may end here                 */
};

/* What is remembered; number 0 of entries and sets is the bottom and the dead set. */
struct memory {
    uint32_t set_count, way_count, entry_count;
    struct set *sets;
    struct way *ways;
    struct entry *entries;
    uint16_t *set_table, *entry_table;
};

struct gp_matcher {
    const struct gp_grammar *g;
    const struct gp_lexicon *lexicon;
    uint32_t text_count, mask_words;
    size_t bytes;
    uint16_t *places; /* [text_count] sets */
    struct memory memory, spare;
    uint16_t *moves; /* [SETS, class_count] */
    bool full;       /* a set could not be kept since this was last cleared */

    /* The set that is being made. */
    struct way made[GP_LIMIT_MATCHER_WAYS];
    uint32_t made_count;
    bool made_ends;
    struct way waiting[VISITED];
    uint32_t waiting_count;
    struct way visited[VISITED];
    uint32_t visited_in[VISITED], round;
    uint32_t visited_count;

    uint16_t *forward; /* [ENTRIES] where an entry went in a copy */
    struct {
        uint16_t set;
        uint64_t used;
    } kept[MASKS];
    uint64_t *masks, clock; /* [MASKS, mask_words] */
};

static uint32_t mix(uint32_t hash, uint32_t value)
{
    hash = (hash ^ value) * 0x9e3779b1u;
    return hash ^ (hash >> 15);
}

/* ---- memory ---- */

static void forget(struct memory *memory)
{
    memset(memory->set_table, 0, BUCKETS * sizeof *memory->set_table);
    memset(memory->entry_table, 0, BUCKETS * sizeof *memory->entry_table);
    memory->sets[DEAD] = (struct set){0};
    memory->set_count = memory->entry_count = 1;
    memory->way_count = 0;
    memory->entries[0] = (struct entry){0};
}

/* The stack with one more state on it; 0 when there is no room. */
static uint16_t push(struct memory *memory, uint16_t state, uint16_t below)
{
    uint16_t *bucket = &memory->entry_table[mix(state, below) % BUCKETS];

    for (uint16_t i = *bucket; i; i = memory->entries[i].next)
        if (memory->entries[i].state == state && memory->entries[i].below == below)
            return i;
    if (memory->entry_count == ENTRIES)
        return 0;
    memory->entries[memory->entry_count] = (struct entry){
        .state = state,
        .below = below,
        .next = *bucket,
        .depth = memory->entries[below].depth + 1,
    };
    *bucket = (uint16_t)memory->entry_count;
    return (uint16_t)memory->entry_count++;
}

/* The number of a set of these ways, which are in order; DEAD when there is no room. */
static uint16_t keep(struct memory *memory, const struct way *ways, uint32_t count, bool ends)
{
    uint32_t hash = ends;

    if (count == 0 && !ends)
        return DEAD;
    for (uint32_t i = 0; i < count; i++)
        hash = mix(hash, (uint32_t)ways[i].state << 16 | ways[i].stack);
    uint16_t *bucket = &memory->set_table[hash % BUCKETS];

    for (uint16_t i = *bucket; i; i = memory->sets[i].next) {
        const struct set *set = &memory->sets[i];

        if (set->count == count && set->ends == ends &&
            memcmp(memory->ways + set->first, ways, count * sizeof *ways) == 0)
            return i;
    }
    if (memory->set_count == SETS || memory->way_count + count > WAYS)
        return DEAD;
    memcpy(memory->ways + memory->way_count, ways, count * sizeof *ways);
    memory->sets[memory->set_count] = (struct set){
        .first = memory->way_count,
        .count = (uint16_t)count,
        .next = *bucket,
        .ends = ends,
    };
    memory->way_count += count;
    *bucket = (uint16_t)memory->set_count;
    return (uint16_t)memory->set_count++;
}

/* ---- one set ---- */

/* False: this way is one that was seen, or one too many. */
static bool visit(struct gp_matcher *m, struct way way)
{
    uint32_t at = mix(way.state, way.stack) % VISITED;

    while (m->visited_in[at] == m->round) {
        if (m->visited[at].state == way.state && m->visited[at].stack == way.stack)
            return false;
        at = (at + 1) % VISITED;
    }
    if (m->visited_count == VISITED / 2)
        return false;
    m->visited_count++;
    m->visited_in[at] = m->round;
    m->visited[at] = way;
    return true;
}

/* A way that can be brought to its end within the stack's depth waits to be looked at. */
static void enter(struct gp_matcher *m, uint16_t state, uint16_t stack)
{
    struct way way = {state, stack};
    unsigned depth = m->memory.entries[stack].depth;

    if (depth + m->g->states[state].need <= GP_LIMIT_GRAMMAR_STACK && visit(m, way))
        m->waiting[m->waiting_count++] = way;
}

static void call(struct gp_matcher *m, const struct gp_edge *edge, uint16_t stack)
{
    unsigned depth = m->memory.entries[stack].depth;

    /* Both ways have to fit: into what is called, and on behind it. */
    if (depth + m->g->states[edge->to].need > GP_LIMIT_GRAMMAR_STACK ||
        depth + 1 + m->g->states[edge->call].need > GP_LIMIT_GRAMMAR_STACK)
        return;
    uint16_t pushed = push(&m->memory, edge->to, stack);

    if (pushed)
        enter(m, edge->call, pushed);
    else
        m->full = true;
}

static void look(struct gp_matcher *m, struct way way)
{
    const struct gp_state *state = &m->g->states[way.state];
    const struct entry *top = &m->memory.entries[way.stack];

    if (state->bytes && m->made_count < GP_LIMIT_MATCHER_WAYS)
        m->made[m->made_count++] = way;
    if (state->ends && way.stack)
        enter(m, top->state, top->below);
    else if (state->ends)
        m->made_ends = true;
    for (uint32_t i = state->edges; i < state[1].edges; i++) {
        const struct gp_edge *edge = &m->g->edges[i];

        if (edge->kind == GP_EDGE_EMPTY)
            enter(m, edge->to, way.stack);
        else if (edge->kind == GP_EDGE_CALL)
            call(m, edge, way.stack);
    }
}

static void begin_set(struct gp_matcher *m)
{
    m->made_count = m->waiting_count = m->visited_count = 0;
    m->made_ends = false;
    m->round++;
}

static bool is_before(struct way a, struct way b)
{
    return a.state != b.state ? a.state < b.state : a.stack < b.stack;
}

static void sort(struct way *ways, uint32_t count)
{
    for (uint32_t gap = count / 2; gap > 0; gap /= 2)
        for (uint32_t i = gap; i < count; i++)
            for (uint32_t k = i; k >= gap && is_before(ways[k], ways[k - gap]); k -= gap) {
                struct way later = ways[k];

                ways[k] = ways[k - gap];
                ways[k - gap] = later;
            }
}

/* All ways that what was entered leads to without a byte, as a set. */
static uint16_t end_set(struct gp_matcher *m)
{
    while (m->waiting_count > 0)
        look(m, m->waiting[--m->waiting_count]);
    sort(m->made, m->made_count);
    uint16_t set = keep(&m->memory, m->made, m->made_count, m->made_ends);

    if (set == DEAD && (m->made_count > 0 || m->made_ends))
        m->full = true;
    return set;
}

static uint16_t find_move(struct gp_matcher *m, uint16_t from, uint8_t sample)
{
    const struct set set = m->memory.sets[from];

    begin_set(m);
    for (uint32_t w = set.first; w < set.first + set.count; w++) {
        const struct way way = m->memory.ways[w];
        const struct gp_state *state = &m->g->states[way.state];

        for (uint32_t i = state->edges; i < state[1].edges; i++) {
            const struct gp_edge *edge = &m->g->edges[i];

            if (edge->kind == GP_EDGE_BYTES && edge->low <= sample && sample <= edge->high)
                enter(m, edge->to, way.stack);
        }
    }
    return end_set(m);
}

/* Where a byte leads; found out once, unless there was no room to keep it. */
static uint16_t move(struct gp_matcher *m, uint16_t from, uint8_t byte)
{
    uint8_t class = m->g->classes[byte];
    uint16_t *known = &m->moves[(size_t)from * m->g->class_count + class];
    bool full = m->full;

    if (*known != UNKNOWN)
        return *known;
    m->full = false;
    uint16_t to = find_move(m, from, m->g->samples[class]);

    if (!m->full)
        *known = to;
    m->full |= full;
    return to;
}

/* ---- when the memory is full ---- */

static uint16_t copy_stack(struct gp_matcher *m, uint16_t stack)
{
    if (!stack || m->forward[stack])
        return stack ? m->forward[stack] : 0;
    const struct entry *entry = &m->memory.entries[stack];
    uint16_t below = copy_stack(m, entry->below);

    m->forward[stack] = push(&m->spare, entry->state, below);
    gp_assert(m->forward[stack]);
    return m->forward[stack];
}

/* Whether one more way leaves room for one of each text that comes behind. */
static bool has_room(const struct gp_matcher *m, uint32_t count, uint32_t left)
{
    return m->spare.entry_count + (left + 1) * GP_LIMIT_GRAMMAR_STACK <= ENTRIES &&
           m->spare.way_count + count + left < WAYS;
}

/* A text's set in the spare memory: one of its ways in any case, and as many more as there is room
 * for. */
static uint16_t copy_set(struct gp_matcher *m, uint16_t number, uint32_t left)
{
    const struct set *set = &m->memory.sets[number];
    uint32_t count = 0;

    if (number == DEAD)
        return DEAD;
    for (; count < set->count && (count == 0 || has_room(m, count, left)); count++) {
        struct way way = m->memory.ways[set->first + count];

        m->made[count] = (struct way){way.state, copy_stack(m, way.stack)};
    }
    sort(m->made, count);
    return keep(&m->spare, m->made, count, set->ends);
}

static void tidy(struct gp_matcher *m)
{
    struct memory old = m->memory;

    forget(&m->spare);
    memset(m->forward, 0, ENTRIES * sizeof *m->forward);
    for (uint32_t i = 0; i < m->text_count; i++)
        m->places[i] = copy_set(m, m->places[i], m->text_count - i - 1);
    m->memory = m->spare;
    m->spare = old;
    memset(m->moves + m->g->class_count, 0xff,
           ((size_t)SETS - 1) * m->g->class_count * sizeof *m->moves);
    memset(m->kept, 0, sizeof m->kept);
    m->full = false;
}

/* ---- masks ---- */

static void allow(const struct gp_lexicon *lexicon, uint32_t node, uint64_t *mask)
{
    for (uint32_t t = lexicon->nodes[node].tokens; t < lexicon->nodes[node + 1].tokens; t++)
        mask[lexicon->ids[t] / 64] |= (uint64_t)1 << (lexicon->ids[t] % 64);
}

static void walk(struct gp_matcher *m, uint16_t from, uint64_t *mask)
{
    const struct gp_lexicon *lexicon = m->lexicon;
    uint16_t at[GP_LIMIT_LEXICON_BYTES + 1] = {from};
    uint32_t i = 0;

    /* Tokens of one byte come first: without them a text might not go on. */
    for (uint32_t first = 0; first < lexicon->node_count; first = lexicon->nodes[first].next)
        (void)move(m, from, lexicon->nodes[first].byte);
    memset(mask, 0, m->mask_words * sizeof *mask);
    while (i < lexicon->node_count) {
        const struct gp_lexicon_node *node = &lexicon->nodes[i];
        uint16_t to = move(m, at[node->depth - 1], node->byte);

        at[node->depth] = to;
        if (to == DEAD) {
            i = node->next;
            continue;
        }
        allow(lexicon, i, mask);
        i++;
    }
}

const uint64_t *gp_matcher_mask(struct gp_matcher *m, uint32_t text)
{
    uint32_t oldest = 0;

    for (uint32_t i = 0; i < MASKS; i++) {
        if (m->kept[i].used && m->kept[i].set == m->places[text]) {
            m->kept[i].used = ++m->clock;
            return m->masks + (size_t)i * m->mask_words;
        }
        if (m->kept[i].used < m->kept[oldest].used)
            oldest = i;
    }
    uint64_t *mask = m->masks + (size_t)oldest * m->mask_words;

    m->full = false;
    walk(m, m->places[text], mask);
    if (m->full) {
        tidy(m);
        walk(m, m->places[text], mask);
    }
    m->kept[oldest].set = m->places[text];
    m->kept[oldest].used = ++m->clock;
    return mask;
}

/* ---- texts ---- */

void gp_matcher_take(struct gp_matcher *m, uint32_t text, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        m->full = false;
        uint16_t to = move(m, m->places[text], (uint8_t)bytes[i]);

        if (m->full) {
            tidy(m);
            to = move(m, m->places[text], (uint8_t)bytes[i]);
        }
        m->places[text] = to;
    }
}

bool gp_matcher_may_end(const struct gp_matcher *m, uint32_t text)
{
    return m->memory.sets[m->places[text]].ends;
}

bool gp_matcher_must_end(const struct gp_matcher *m, uint32_t text)
{
    const struct set *set = &m->memory.sets[m->places[text]];

    return set->ends && set->count == 0;
}

size_t gp_matcher_bytes(const struct gp_matcher *m)
{
    return m->bytes;
}

/* ---- open and close ---- */

static void *take_memory(struct gp_matcher *m, size_t count, size_t size)
{
    m->bytes += count * size;
    return gp_mem_alloc_array(count, size);
}

static bool open_memory(struct gp_matcher *m, struct memory *memory)
{
    memory->sets = take_memory(m, SETS, sizeof *memory->sets);
    memory->ways = take_memory(m, WAYS, sizeof *memory->ways);
    memory->entries = take_memory(m, ENTRIES, sizeof *memory->entries);
    memory->set_table = take_memory(m, BUCKETS, sizeof *memory->set_table);
    memory->entry_table = take_memory(m, BUCKETS, sizeof *memory->entry_table);
    return memory->sets && memory->ways && memory->entries && memory->set_table &&
           memory->entry_table;
}

static void close_memory(struct memory *memory)
{
    gp_mem_free(memory->sets);
    gp_mem_free(memory->ways);
    gp_mem_free(memory->entries);
    gp_mem_free(memory->set_table);
    gp_mem_free(memory->entry_table);
}

int gp_matcher_open(struct gp_matcher **out, const struct gp_grammar *grammar,
                    const struct gp_lexicon *lexicon, uint32_t text_count, struct gp_error *err)
{
    struct gp_matcher *m = gp_mem_alloc(sizeof *m);

    gp_assert(text_count > 0 && text_count <= GP_LIMIT_MATCHER_TEXTS);
    if (!m)
        return gp_fail(err, GP_ENOMEM, "matcher: out of memory");
    m->g = grammar;
    m->lexicon = lexicon;
    m->text_count = text_count;
    m->mask_words = (lexicon->vocab + 63) / 64;
    m->bytes = sizeof *m;
    m->places = take_memory(m, text_count, sizeof *m->places);
    m->moves = take_memory(m, (size_t)SETS * grammar->class_count, sizeof *m->moves);
    m->forward = take_memory(m, ENTRIES, sizeof *m->forward);
    m->masks = take_memory(m, (size_t)MASKS * m->mask_words, sizeof *m->masks);
    if (!open_memory(m, &m->memory) || !open_memory(m, &m->spare) || !m->places || !m->moves ||
        !m->forward || !m->masks) {
        gp_matcher_close(m);
        return gp_fail(err, GP_ENOMEM, "matcher: out of memory");
    }
    forget(&m->memory);
    /* Nothing leads away from the dead set, whose row stays zero. */
    tidy(m);
    begin_set(m);
    enter(m, grammar->start, 0);
    uint16_t start = end_set(m);

    for (uint32_t i = 0; i < text_count; i++)
        m->places[i] = start;
    *out = m;
    return GP_OK;
}

void gp_matcher_close(struct gp_matcher *m)
{
    if (!m)
        return;
    close_memory(&m->memory);
    close_memory(&m->spare);
    gp_mem_free(m->places);
    gp_mem_free(m->moves);
    gp_mem_free(m->forward);
    gp_mem_free(m->masks);
    gp_mem_free(m);
}
