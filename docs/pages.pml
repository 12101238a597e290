/* The life of a page as a model for spin; PAGES.md says what it shows and how to read it.
 *
 * A pool, its prefix index and a few sequences, each of which does what src/engine/sched*.c lets it
 * do, in any order.  All is counted in whole pages: a row fills one.  Each of the SEQS sequences has a
 * prompt of two pages, passes BOUNDARIES of them and ends.  The last STRANGERS begin with another
 * page than the others; all pages behind the first hold the same tokens, so that what is in them
 * depends on those before.
 *
 * CANCELS: anybody may be cancelled at any moment.  PREEMPTIONS: how often one is preempted for no
 * reason, wherever it stands.  Either may end at any moment, so that what would be stuck without
 * them is seen to be.
 *
 * Each other #ifdef is a mistake that the check must find; tools/check-pages makes them all. */

#ifndef SEQS
#define SEQS 2
#endif
#ifndef PAGES
#define PAGES 4
#endif
#ifndef BOUNDARIES
#define BOUNDARIES 2
#endif
#ifndef STRANGERS
#define STRANGERS 0
#endif
#ifndef CANCELS
#define CANCELS 1
#endif
#ifndef PREEMPTIONS
#define PREEMPTIONS 1
#endif
#define PROMPT 2
#define TABLE       (PROMPT + BOUNDARIES)

/* A sequence's state, and what it does at a boundary. */
#define WAITING 0
#define RUNNING 1
#define FLYING  2 /* its compaction is in flight */
#define DONE    3
#define GROW    0
#define HOLD    1 /* compacts, and keeps its pages */
#define SHRINK  2 /* compacts, and gives one back  */

/* Where an entry or a sequence stands in a chain: behind a page's entry, or here. */
#define ROOT PAGES
#define GONE (PAGES + 1)

/* Tokens of page i of sequence s, and the bytes that rows of them leave: they depend on all tokens
 * before.  Behind a compaction they are nobody else's; in the middle of one, nothing. */
#define family(s)    (s >= SEQS - STRANGERS)
#define tokens(s, i) (i == 0 -> 1 + family(s) : 3)
#define text(s, i)   (1 + family(s) * TABLE + i)
#define private(s)   (1 + 2 * TABLE + s)
#define JUNK         0

/* The pool, page by page; the free list is in the order of release. */
chan free_list = [PAGES] of { byte };
byte refs[PAGES], bytes[PAGES];
/* The index: a page without an entry has key 0. */
byte key[PAGES], parent[PAGES];

typedef Seq {
    byte state, held, need;     /* pages */
    byte table[TABLE];
    byte pages, cached;         /* in use, and of those full */
    byte computed, known;       /* rows that have run, and that ever had */
    byte hits, indexed, place;
    bool indexes, packed;       /* may enter the index; has compacted */
    byte log[BOUNDARIES];
    byte log_count, log_at;
    byte action, slices;        /* of the compaction in flight */
};
Seq seq[SEQS];
bool refused; /* an admission; nothing has happened since */
bool calm;    /* nobody is cancelled or preempted any more without need */
byte preemptions;

/* Scratch of one step; no part of the state. */
hidden byte i, j, q, page, other, found, wanted, held, after, ready;

/* ---- pool and index: src/kv/pool.c, src/kv/prefix.c ---- */

inline forget(p)
{
    if
    :: key[p] != 0 ->
        key[p] = 0;
        parent[p] = ROOT;
#ifndef PARENT_IS_A_PAGE
        /* An entry's number is never given twice, so whoever stood behind it stands nowhere. */
        for (q : 0 .. PAGES - 1) {
            if
            :: key[q] != 0 && parent[q] == p -> parent[q] = GONE
            :: else
            fi
        }
        for (q : 0 .. SEQS - 1) {
            if
            :: seq[q].place == p -> seq[q].place = GONE
            :: else
            fi
        }
#endif
    :: else
    fi
}

inline take(p)
{
    free_list ? p;
    assert(refs[p] == 0);
    refs[p] = 1;
#ifndef TAKEN_PAGES_STAY_INDEXED
    forget(p)
#endif
}

inline ref(p)
{
    if
    :: refs[p] == 0 -> free_list ?? eval(p)
    :: else
    fi;
    refs[p]++
}

inline unref(p)
{
    assert(refs[p] > 0);
    refs[p]--;
    if
    :: refs[p] == 0 ->
        assert(nfull(free_list));
        free_list ! p
    :: else
    fi
}

inline write(p, what)
{
    assert(refs[p] == 1 && key[p] == 0);
    bytes[p] = what
}

/* found: the page that holds these tokens behind the place, or PAGES. */
inline find(what, where)
{
    found = PAGES;
    for (q : 0 .. PAGES - 1) {
        if
        :: key[q] == what && parent[q] == where && where != GONE -> found = q
        :: else
        fi
    }
}

/* ---- sharing: src/engine/sched_share.c ---- */

inline add_to_index(s)
{
    find(tokens(s, seq[s].indexed), seq[s].place);
    if
    :: found == PAGES ->
        page = seq[s].table[seq[s].indexed];
        assert(key[page] == 0);
        key[page] = tokens(s, seq[s].indexed);
        parent[page] = seq[s].place;
        found = page
    :: else
    fi;
    seq[s].place = found;
    seq[s].indexed++
}

inline index_rows(s)
{
    do
    :: seq[s].indexes && seq[s].indexed < seq[s].computed -> add_to_index(s)
    :: else -> break
    od
}

/* A replay in which a compaction lies ahead shares nothing. */
inline may_share(s)
{
    seq[s].indexes = true;
#ifndef REPLAYS_SHARE
    for (i : 0 .. BOUNDARIES - 1) {
        if
        :: i < seq[s].log_count && seq[s].log[i] != GROW -> seq[s].indexes = false
        :: else
        fi
    }
#endif
}

/* Into the table; held: those that somebody has. */
inline find_hits(s)
{
    held = 0;
    seq[s].hits = 0;
    seq[s].place = ROOT;
    do
    :: seq[s].indexes && seq[s].hits < seq[s].known && seq[s].hits < seq[s].need ->
        find(tokens(s, seq[s].hits), seq[s].place);
        if
        :: found == PAGES -> break
        :: else ->
            assert(bytes[found] == text(s, seq[s].hits));
            held = held + (refs[found] > 0);
            seq[s].table[seq[s].hits] = found;
            seq[s].place = found;
            seq[s].hits++
        fi
    :: else -> break
    od
}

/* ---- the life of a sequence: src/engine/sched.c ---- */

inline count_running(s)
{
    other = 0;
    for (i : 0 .. SEQS - 1) {
        other = other + (i != s && (seq[i].state == RUNNING || seq[i].state == FLYING))
    }
}

inline take_own(s)
{
    seq[s].held = seq[s].hits;
    do
    :: seq[s].held < seq[s].need ->
        take(page);
        seq[s].table[seq[s].held] = page;
        seq[s].held++
    :: else -> break
    od
}

inline ref_hits(s)
{
    i = 0;
    do
    :: i < seq[s].hits -> ref(seq[s].table[i]); i++
    :: else -> break
    od
}

/* ready: it has its pages and runs. */
inline admit(s)
{
    count_running(s);
    may_share(s);
    find_hits(s);
    ready = len(free_list) >= seq[s].need - held + (other > 0);
    if
    :: ready ->
#ifdef PAGES_BEFORE_HITS
        take_own(s);
        ref_hits(s);
#else
        ref_hits(s);
        take_own(s);
#endif
        seq[s].state = RUNNING;
        seq[s].pages = PROMPT;
        seq[s].indexed = seq[s].hits;
#ifdef INDEXED_BEFORE_THEIR_ROWS
        do
        :: seq[s].indexes && seq[s].indexed < PROMPT -> add_to_index(s)
        :: else -> break
        od
#endif
    :: else ->
        reset(s)
    fi;
    refused = !ready
}

/* What a run has built up. */
inline reset(s)
{
    for (i : 0 .. TABLE - 1) {
        seq[s].table[i] = 0
    }
    seq[s].pages = 0;
    seq[s].cached = 0;
    seq[s].computed = 0;
    seq[s].hits = 0;
    seq[s].indexed = 0;
    seq[s].place = ROOT;
    seq[s].indexes = false;
    seq[s].packed = false;
    seq[s].log_at = 0;
    seq[s].action = GROW;
    seq[s].slices = 0
}

inline release(s)
{
#ifdef LOST_IN_FLIGHT
    if
    :: seq[s].state == FLYING -> seq[s].held = 0
    :: else
    fi;
#endif
    j = seq[s].held;
    do
#ifdef SHARED_PAGES_ARE_FORGOTTEN
    :: j > 0 && refs[seq[s].table[j - 1]] > 1 -> j--
    :: j > 0 && refs[seq[s].table[j - 1]] <= 1 -> j--; page = seq[s].table[j]; unref(page)
#else
    :: j > 0 -> j--; page = seq[s].table[j]; unref(page)
#endif
    :: else -> break
    od;
#ifndef GIVEN_BACK_TWICE
    seq[s].held = 0;
    reset(s)
#endif
}

inline preempt(s)
{
    release(s);
    seq[s].state = WAITING
}

inline cancel(s)
{
#ifdef CANCEL_TAKES_FROM_OTHERS
    i = 0;
    do
    :: i < seq[s].held -> refs[seq[s].table[i]] = 1; i++
    :: else -> break
    od;
#endif
    finish(s)
#ifdef CANCELLED_IS_WAITED_FOR
    ;
    gone[s] = true
#endif
}

inline finish(s)
{
    release(s);
    seq[s].state = DONE;
    /* No part of what is to come. */
    seq[s].need = 0;
    seq[s].known = 0;
    seq[s].log_count = 0;
    for (i : 0 .. BOUNDARIES - 1) {
        seq[s].log[i] = GROW
    }
}

inline run_row(s)
{
    page = seq[s].table[seq[s].cached];
    if
    :: seq[s].packed -> write(page, private(s))
#ifndef HITS_ARE_STORED
    :: !seq[s].packed && seq[s].cached < seq[s].hits -> skip
#endif
    :: else -> write(page, text(s, seq[s].cached))
    fi;
    seq[s].cached++;
    seq[s].computed++;
    seq[s].known = (seq[s].computed > seq[s].known -> seq[s].computed : seq[s].known);
    index_rows(s)
}

/* ---- compaction: src/engine/sched_compact.c ---- */

inline pages_after(s, how)
{
    after = seq[s].pages - (how == SHRINK)
}

inline count_shared(s, how)
{
    wanted = 0;
    pages_after(s, how);
    i = 0;
#ifndef NO_STAND_INS
    do
    :: i < after && !seq[s].packed -> wanted = wanted + (refs[seq[s].table[i]] > 1); i++
    :: else -> break
    od
#endif
}

inline stand_in(s)
{
    take(page);
    bytes[page] = bytes[seq[s].table[j]];
#ifndef SHARED_PAGE_IS_KEPT
    unref(seq[s].table[j]);
#endif
    seq[s].table[j] = page
}

/* ready: the pages that the compaction will write are its own. */
inline own_pages(s, how)
{
    count_shared(s, how);
    ready = len(free_list) >= wanted;
    if
    :: ready && !seq[s].packed ->
        j = 0;
        do
        :: j < after && refs[seq[s].table[j]] > 1 && wanted > 0 -> stand_in(s); j++
        :: j < after && !(refs[seq[s].table[j]] > 1 && wanted > 0) ->
#ifndef OWN_PAGES_STAY_INDEXED
            forget(seq[s].table[j]);
#endif
            j++
        :: else -> break
        od;
#ifndef INDEXED_BEHIND_A_COMPACTION
        seq[s].indexes = false;
#endif
        seq[s].hits = 0;
        seq[s].indexed = 0;
        seq[s].place = ROOT
    :: else
    fi
}

inline give_surplus(s)
{
    do
    :: seq[s].log_at == seq[s].log_count && seq[s].held > seq[s].pages ->
        seq[s].held--;
        unref(seq[s].table[seq[s].held]);
        seq[s].table[seq[s].held] = 0
    :: else -> break
    od
}

/* The first slice leaves pages that make no sense, the second finishes them. */
inline run_slice(s)
{
    pages_after(s, seq[s].action);
    seq[s].slices++;
    for (i : 0 .. after - 1) {
        write(seq[s].table[i], (seq[s].slices == 1 -> JUNK : private(s)))
    }
    if
    :: seq[s].slices == 2 ->
        seq[s].state = RUNNING;
        seq[s].packed = true;
        seq[s].pages = after;
        seq[s].cached = after - 1;
        seq[s].action = GROW;
        seq[s].slices = 0;
        give_surplus(s)
#ifdef INDEXED_BEHIND_A_COMPACTION
        ;
        seq[s].computed = seq[s].cached
#endif
    :: else
    fi
}

/* ---- boundaries: src/engine/sched_boundary.c ---- */

inline take_what_it_wants(s, how)
{
    if
    :: how == GROW ->
        ready = len(free_list) > 0;
        if
        :: ready ->
            take(page);
            seq[s].table[seq[s].held] = page;
            seq[s].held++
        :: else
        fi
    :: else -> own_pages(s, how)
    fi
}

/* other: the newest behind s, one in flight last of all; or s. */
inline who_gives_way(s)
{
    other = s;
    for (i : 0 .. SEQS - 1) {
        if
        :: i > s && seq[i].state == RUNNING -> other = i
        :: i > s && seq[i].state == FLYING && seq[other].state != RUNNING -> other = i
        :: i > s && seq[i].state == FLYING && other == s -> other = i
        :: else
        fi
    }
}

inline make_room(s, how)
{
    do
    :: ready -> break
    :: else ->
        who_gives_way(s);
        if
        :: other == s -> break
        :: else -> preempt(other); take_what_it_wants(s, how)
        fi
    od
}

inline write_log(s, how)
{
    seq[s].log[seq[s].log_count] = how;
    seq[s].log_count++;
    if
    :: how == GROW && seq[s].pages + 1 > seq[s].need -> seq[s].need = seq[s].pages + 1
    :: else
    fi
}

inline carry_out(s)
{
    if
    :: seq[s].log[seq[s].log_at] == GROW -> seq[s].pages++
    :: else ->
        seq[s].state = FLYING;
        seq[s].action = seq[s].log[seq[s].log_at]
    fi;
    seq[s].log_at++;
    if
    :: seq[s].state == RUNNING -> give_surplus(s)
    :: else
    fi
}

inline decide(s, how)
{
    take_what_it_wants(s, how);
#ifndef DECIDED_AGAIN
    write_log(s, how);
#endif
    make_room(s, how);
    if
    :: ready ->
#ifdef DECIDED_AGAIN
        write_log(s, how);
#endif
        carry_out(s)
    :: else ->
        count_running(s);
        assert(other > 0); /* one that is alone always goes on in this pool */
        preempt(s)
    fi
}

/* ---- what must hold ---- */

/* Every page is on the free list once or in as many tables as it counts. */
inline check_pool()
{
    j = 0;
    for (page : 0 .. PAGES - 1) {
        found = 0;
        for (q : 0 .. SEQS - 1) {
            i = 0;
            do
            :: i < seq[q].held -> found = found + (seq[q].table[i] == page); i++
            :: else -> break
            od
        }
        assert(found == refs[page]);
        assert(found > 0 || free_list ?? [eval(page)]);
        j = j + (found == 0)
    }
    assert(len(free_list) == j)
}

/* What an entry promises is what the page holds. */
inline check_index()
{
    for (page : 0 .. PAGES - 1) {
        if
        :: key[page] != 0 && parent[page] == ROOT ->
            assert(bytes[page] == (key[page] == 2 -> text(SEQS - 1, 0) : text(0, 0)))
        :: key[page] != 0 && parent[page] < PAGES ->
            assert(key[parent[page]] != 0 && bytes[page] == bytes[parent[page]] + 1)
        :: else
        fi
    }
}

/* What a sequence reads is its own text. */
inline check_reads()
{
    for (q : 0 .. SEQS - 1) {
        i = 0;
        do
        :: i < seq[q].cached && seq[q].state == RUNNING ->
            assert(bytes[seq[q].table[i]] == (seq[q].packed -> private(q) : text(q, i)));
            i++
        :: else -> break
        od
    }
}

/* Ends every step but a refused admission. */
inline done()
{
    refused = false;
    check()
}

inline check()
{
    check_pool();
    check_index();
    check_reads();
    skip /* a loop must not end a step */
}

/* ---- who does it ---- */

#define at_boundary(s) (seq[s].state == RUNNING && seq[s].cached == seq[s].pages)
#define decides(s)     (at_boundary(s) && seq[s].log_at == seq[s].log_count && seq[s].log_at < BOUNDARIES)
/* The queue is in the order of arrival. */
#ifdef CANCELLED_IS_WAITED_FOR
bool gone[SEQS];
#define waits(s)       (seq[s].state == WAITING || gone[s])
#else
#define waits(s)       (seq[s].state == WAITING)
#endif
#define is_first(s)    ((s < 1 || !waits(0)) && (s < 2 || !waits(1)))
#define may_admit(s)   (!refused && seq[s].state == WAITING && is_first(s))
#define has_pages(s)   (seq[s].state == RUNNING || seq[s].state == FLYING)

proctype sequence(byte s)
{
    do
    :: d_step { may_admit(s) -> admit(s); check() }
    :: d_step { seq[s].state == RUNNING && seq[s].cached < seq[s].pages -> run_row(s); done() }
    :: d_step { decides(s) -> decide(s, GROW); done() }
    :: d_step { decides(s) && seq[s].pages > 1 -> decide(s, HOLD); done() }
    :: d_step { decides(s) && seq[s].pages > 1 -> decide(s, SHRINK); done() }
    :: d_step { at_boundary(s) && seq[s].log_at < seq[s].log_count -> carry_out(s); done() }
    :: d_step { seq[s].state == FLYING -> run_slice(s); done() }
    :: d_step { at_boundary(s) && seq[s].log_at == BOUNDARIES -> finish(s); done() }
    :: d_step { !calm && CANCELS && seq[s].state != DONE -> cancel(s); done() }
    :: d_step { !calm && preemptions > 0 && has_pages(s) -> preemptions--; preempt(s); done() }
    :: seq[s].state == DONE -> break
    od
}

init {
    atomic {
        preemptions = PREEMPTIONS;
        calm = CANCELS + PREEMPTIONS == 0;
        for (page : 0 .. PAGES - 1) {
            free_list ! page;
            parent[page] = ROOT
        }
        for (other : 0 .. SEQS - 1) {
            seq[other].need = PROMPT;
            seq[other].known = PROMPT;
            seq[other].place = ROOT;
            run sequence(other)
        }
    }
    if
    :: d_step { !calm -> calm = true; preemptions = 0 }
    :: calm
    fi;
    (_nr_pr == 1) -> assert(len(free_list) == PAGES)
}
