/* Kernels: all arithmetic on arrays, through plain pointers.
 *
 * Knows formats and array shapes; knows no model, no page table, no policy.  A kernel is a function
 * in struct gp_kernels.  src/kernels/ref holds the definitions: plain C that says what every entry
 * computes, to the bit.  src/kernels/x86 holds faster versions, one file a subject and level; the
 * checker (tests/check) compares them with the definition.
 *
 * THE NUMERICS CONTRACT (docs/ARCHITECTURE.md, "numbers"; spec.md section 10)
 *
 *  1. The order in which an output element is reduced depends on its length alone: never on how
 *     many rows share the call, on how the caller splits the work, or on where bytes lie.
 *  2. All float arithmetic is float32, round to nearest, with fmaf exactly where ref says so and
 *     nowhere else.  No level flushes denormals.
 *  3. Integer weight formats: activations become int8 codes in blocks of 32 (256 for K-quants) with
 *     scale amax/127, codes round(x / scale) half to even; a block's dot product is exact in int32;
 *     block results are added with fmaf in block order.  Every level agrees to the bit.
 *  4. Norms, softmax, exp, SiLU, RoPE, attention, scores, summaries: float32 with a fixed structure
 *     of 16 lanes (lane = index mod 16, then a fixed tree) or a plain sequence, as ref says.  Every
 *     level agrees to the bit.
 *  5. Float weight formats (F32, F16, BF16): the order is fixed within a level; across levels the
 *     results may differ within (k + 2) * 2^-24 * sum |w x| (twice: each level's own bound).  The
 *     CPU levels keep ref's order, one chain of fmaf over the columns, and agree to the bit.
 *
 * Kernels allocate nothing and keep no state.  Pointers must not overlap unless said.  "Stride" is
 * always in elements, "bytes" in bytes. */
#ifndef GP_KERNELS_KERNELS_H
#define GP_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "growpage_options.h"

struct gp_error;

/* ---- number formats ---- */

/* The ids are GGUF's. */
enum gp_type {
    GP_TYPE_F32 = 0,
    GP_TYPE_F16 = 1,
    GP_TYPE_Q4_0 = 2,
    GP_TYPE_Q4_1 = 3,
    GP_TYPE_Q5_0 = 6,
    GP_TYPE_Q5_1 = 7,
    GP_TYPE_Q8_0 = 8,
    GP_TYPE_Q4_K = 12,
    GP_TYPE_Q5_K = 13,
    GP_TYPE_Q6_K = 14,
    GP_TYPE_IQ4_NL = 20,
    GP_TYPE_BF16 = 30,
};

/* What a product with this format wants its other side to be. */
enum gp_activation {
    GP_ACTIVATION_F32,  /* float rows as they are                           */
    GP_ACTIVATION_Q8,   /* int8 codes, a scale for every 32 elements        */
    GP_ACTIVATION_Q8_K, /* int8 codes, a scale for every 256 elements       */
};

struct gp_type_info {
    const char *name;     /* "Q4_K"                                        */
    uint32_t block_elems; /* elements that share a block; rows are whole blocks */
    uint32_t block_bytes; /* bytes of a block as the file has it           */
    enum gp_activation activation;
};

/* NULL for a type that is not supported. */
const struct gp_type_info *gp_type_info(uint32_t type);

/* The name of any id that GGUF ever gave out, removed ones included, or NULL.  For messages. */
const char *gp_type_name(uint32_t type);

float gp_f16_to_f32(uint16_t bits);   /* exact                              */
uint16_t gp_f32_to_f16(float value);  /* round to nearest even, overflow to infinity */
float gp_bf16_to_f32(uint16_t bits);  /* exact                              */
uint16_t gp_f32_to_bf16(float value); /* round to nearest even; NaN stays NaN */

/* The definition of every format: `n` elements (whole blocks) of file bytes to float. */
void gp_dequantize(enum gp_type type, const void *blocks, size_t n, float *out);

/* ---- matrices ---- */

/* A weight matrix [n_out, n_in] in the layout that the kernels like: packed once, read-only after.
 * Only this room knows the order inside; it is the same for every level, so that one packing serves
 * them all.  Rows are padded with zeros to a multiple of GP_MATRIX_ROWS. */
#define GP_MATRIX_ROWS 16u

struct gp_matrix {
    enum gp_type type;
    uint32_t n_out;
    uint32_t n_in;    /* whole blocks of the type */
    const void *data; /* gp_matrix_bytes() bytes, 64-byte aligned */
};

/* 0 when the type is unknown, n_in is no whole number of blocks, or the size overflows. */
size_t gp_matrix_bytes(uint32_t type, uint32_t n_out, uint32_t n_in);

/* Pack rows [row_begin, row_end) from file order; row_begin a multiple of GP_MATRIX_ROWS, row_end
 * too or n_out.  `rows` points at row 0 of the file's tensor.  Ranges may be packed by several
 * threads. */
void gp_matrix_pack(const struct gp_matrix *matrix, void *data, const void *rows,
                    uint32_t row_begin, uint32_t row_end);

/* One row as floats, out [n_in]: an embedding.  Exactly what gp_dequantize gives for the file's
 * row. */
void gp_matrix_row(const struct gp_matrix *matrix, uint32_t row, float *out);

/* Rows of activations in the form that a product wants (see gp_activation).  The caller owns the
 * memory: x [row_count, k]; q [row_count, k]; scale [row_count, k/32] (Q8) or [row_count, k/256]
 * (Q8_K); sum [row_count, k/32], the sum of the 32 codes. */
struct gp_activations {
    enum gp_activation kind;
    uint32_t k;
    uint32_t row_count;
    const float *x; /* always set: F32 products read it, the others were quantised from it */
    size_t x_stride;
    int8_t *q;
    float *scale;
    int32_t *sum;
};

/* ---- the paged cache ---- */

/* A page of the pool is one block of gp_kv_block_bytes() for each (layer, KV head), in that order
 * (design.md, "Page").  Inside, keys come first, values after; only this room knows the rest:
 * keys lie in tiles of GP_TILE_TOKENS slots, so that a lane is a slot. */
enum gp_kv_type {
    GP_KV_F32,
    GP_KV_F16,
    GP_KV_BF16,
    GP_KV_Q8_0, /* int8 codes, a scale in f16 for every 32 elements of a key or value */
};

/* One (layer, KV head) of one sequence: block i lies at
 *   base + pages[i] * page_bytes + block_offset. */
struct gp_kv_view {
    uint8_t *base;
    size_t page_bytes;
    size_t block_offset;
    const uint32_t *pages;
    uint32_t page_tokens; /* b, a multiple of GP_TILE_TOKENS */
    uint32_t k_dim;       /* elements of a key   */
    uint32_t v_dim;       /* elements of a value */
    enum gp_kv_type type;
};

/* Bytes of one (page, layer, KV head) block: a multiple of 64.  0 when a key or a value is no whole
 * number of the type's blocks of elements. */
size_t gp_kv_block_bytes(enum gp_kv_type type, uint32_t page_tokens, uint32_t k_dim,
                         uint32_t v_dim);

/* Slots per attention split, counted from slot 0 whatever the page size (design.md, "Numerics"). */
#define GP_ATTENTION_SPLIT 256u

/* One move of a compaction: what lies in slot `from` goes to slot `to` (to <= from in `shift`). */
struct gp_move {
    uint32_t from;
    uint32_t to;
};

/* ---- the table ---- */

struct gp_kernels {
    const char *level; /* "ref", "avx2", "avx512" */

    /* Quantise float rows [row_begin, row_end) of a->x into a->q, a->scale, a->sum.
     * A row of zeros (or a block of them) has scale 0 and codes 0.  Nothing to do for F32. */
    void (*quantize)(const struct gp_activations *a, uint32_t row_begin, uint32_t row_end);

    /* y[r, o] = sum over i of w[o, i] * x[r, i], for all rows r of a and outputs o in
     * [out_begin, out_end); out_begin is a multiple of GP_MATRIX_ROWS, out_end too or n_out.
     * a->kind must be the one of w->type.  y [row_count, stride]. */
    void (*matmul)(const struct gp_matrix *w, const struct gp_activations *a, float *y,
                   size_t y_stride, uint32_t out_begin, uint32_t out_end);

    /* y[i] = x[i] / sqrt(mean(x^2) + eps) * weight[i].  y may be x. */
    void (*rms_norm)(float *y, const float *x, const float *weight, uint32_t n, float eps);

    /* sqrt(mean(x^2)), in rms_norm's order of summation. */
    float (*rms)(const float *x, uint32_t n);

    void (*add)(float *y, const float *x, uint32_t n); /* y += x            */
    void (*silu_mul)(float *y, const float *gate, const float *up, uint32_t n); /* silu(gate)*up  */

    /* Rotate x [n] in place by angles whose cosines and sines are given, [rot/2] each; elements
     * from rot on stay.  Pair i is (x[2i], x[2i+1]), or (x[i], x[i + rot/2]) when neox. */
    void (*rope)(float *x, const float *cos, const float *sin, uint32_t rot, bool neox);

    /* Query summary (spec.md section 2): s[i] = beta * s[i] + (1 - beta) * q[i]. */
    void (*ema)(float *s, const float *q, uint32_t n, float beta);

    /* Write one token's key [k_dim] and value [v_dim] into `slot`, rounded to the cache's type.
     * Q8_0: scale = max |x| / 127 rounded to f16; code = round(x / that), half to even. */
    void (*kv_store)(const struct gp_kv_view *kv, uint32_t slot, const float *k, const float *v);

    /* Attention of `row_count` query rows of one sequence over one KV head; g query heads share it.
     *   q [row_count][g][k_dim], rows q_stride apart, heads k_dim apart, after RoPE
     *   row r sees slots [0, visible[r]); visible[r] >= 1
     *   out [row_count][g][v_dim], rows out_stride apart, heads v_dim apart
     *   scratch: gp_attention_scratch_bytes(g, v_dim) bytes of the calling worker's own
     * score = (sequential fmaf sum over k_dim) * scale; splits of GP_ATTENTION_SPLIT slots from
     * slot 0; inside a split: maximum, exp, 16-lane sum, values added in slot order; splits
     * merged in order.  One definition for prefill and decode. */
    void (*attention)(const struct gp_kv_view *kv, const float *q, size_t q_stride, uint32_t g,
                      uint32_t row_count, const uint32_t *visible, float scale, float *out,
                      size_t out_stride, void *scratch);

    /* out[i] = (q . key of slot begin + i) * scale, in attention's order, for slots
     * [begin, end); q [k_dim]. */
    void (*kv_scores)(const struct gp_kv_view *kv, const float *q, uint32_t begin, uint32_t end,
                      float scale, float *out);

    /* Softmax of x [n] in place: maximum, exp, 16-lane sum, one division by the sum.  n >= 1. */
    void (*softmax)(float *x, uint32_t n);

    /* y[i] = max(y[i], x[i]) */
    void (*max_into)(float *y, const float *x, uint32_t n);

    /* Move keys and values inside one view: all reads of a move happen before its write, moves in
     * the order given, so `shift` gives ascending `from`. */
    void (*kv_move)(const struct gp_kv_view *kv, const struct gp_move *moves, uint32_t count);

    /* What lies in a slot as floats, exactly: the key [k_dim], the value [v_dim] unless NULL. */
    void (*kv_load)(const struct gp_kv_view *kv, uint32_t slot, float *key, float *value);
};

size_t gp_attention_scratch_bytes(uint32_t g, uint32_t v_dim);

/* Level-free arithmetic, exact or integer, so it needs no table. */

/* Angles of one position, for all levels, computed in double: cos/sin of pos * inv_freq[i]
 * (times scale, YaRN's attention factor; 1 otherwise), rounded once to float. */
void gp_rope_angles(uint32_t pos, const double *inv_freq, uint32_t count, double scale, float *cos,
                    float *sin);

/* Weights as fixed point: round(a * 2^30), half to even (a in [0, 1]). */
void gp_fixed_point(const float *a, uint32_t n, uint32_t *out);

/* Mean over g query heads of fixed-point weights, as integers: out[i] = (sum over the group +
 * g/2) / g. */
void gp_fixed_mean(const uint32_t *const *heads, uint32_t g, uint32_t n, uint32_t *out);

/* The fewest largest weights whose sum reaches coverage * total (spec.md section 3): from 0
 * (total 0) to n.  Exact: uint64 sums, ties cannot matter.  scratch [n] is clobbered. */
uint32_t gp_coverage_count(const uint32_t *weights, uint32_t n, double coverage, uint32_t *scratch);

/* Retention (spec.md section 4, steps 1 and 2) for one (layer, KV head).
 * score [slot_count] for the slots that may be dropped; slot_count <= page_count * page_tokens.
 * In every page the `local` best of its slots are kept, then the best of the rest until `keep` are
 * kept; ties go to the higher slot.  keep <= slot_count and the locals fit (the caller lowered the
 * quota).  kept [keep] receives slots in ascending order; scratch [slot_count] uint64. */
void gp_select(const float *score, uint32_t slot_count, uint32_t page_tokens, uint32_t local,
               uint32_t keep, uint32_t *kept, uint64_t *scratch);

/* `slots` of a selection into another order: the largest score first, ties to the higher slot.
 * scratch [count] uint64. */
void gp_best_first(const float *score, uint32_t *slots, uint32_t count, uint64_t *scratch);

/* The definition of kv_load. */
void gp_kv_load(const struct gp_kv_view *kv, uint32_t slot, float *key, float *value);

/* ---- the scorer of the fixed-budget policies ---- */

/* What one KV head shows it. */
struct gp_score_input {
    const struct gp_kv_view *kv;
    uint32_t slots; /* in use */
    /* The window: queries after RoPE, the oldest first.  That of row r and of head h of the group
     * lies at queries + ((query_first + r) % query_ring) * query_stride + h * k_dim. */
    const float *queries;
    size_t query_stride;
    uint32_t query_ring, query_first, query_count;
    uint32_t group;
    float scale;
    /* [slots] the token's place in the sequence, when slots do not lie in that order; or NULL: a
     * slot's place is its number, and next is slots. */
    const uint32_t *position;
    uint32_t next;    /* the place of the token that comes next; the newest query's is one less */
    uint32_t protect; /* newest tokens that stay whatever their score; below slots            */
    const float *before; /* [before_count] what the first slots scored at the cut before; with
                              GP_SCORE_ALL the sum so far, of all                              */
    uint32_t before_count;
    bool first; /* no cut was before this one */
};

/* score [slots]: the larger the better; +infinity for sinks; of slots that stay anyway nothing is
 * said.  memory [slots] is what the next cut takes as `before`, 0 where there is nothing to
 * remember.  work: gp_score_work_floats() floats. */
void gp_score(const struct gp_kernels *k, const struct gp_scorer *how,
              const struct gp_score_input *in, float *memory, float *score, float *work);
size_t gp_score_work_floats(uint32_t slots, uint32_t k_dim);

/* out [slots]: the weights of one row of queries (that of head h at q + h * k_dim), joined over the
 * group; tokens at places from `end` on have none.  Of `in` it reads kv, slots, group, scale and
 * position.  work [slots]. */
void gp_score_row(const struct gp_kernels *k, enum gp_score_group join,
                  const struct gp_score_input *in, const float *q, uint32_t end, float *out,
                  float *work);

/* ---- levels ---- */

enum gp_level {
    GP_LEVEL_REF,
    GP_LEVEL_AVX2,
    GP_LEVEL_AVX512,
    GP_LEVEL_COUNT
};

/* "ref", "avx2", "avx512" */
const char *gp_level_name(enum gp_level level);

/* The best level that this build has and that both CPUID and the operating system (XCR0) allow. */
enum gp_level gp_level_detect(void);

/* The level that GP_CPU asks for (NULL or "": the detected one).  A name that is unknown or a
 * level that this machine lacks is refused. */
int gp_level_choose(const char *name, enum gp_level *out, struct gp_error *err);

/* The table of a level that this machine has. */
void gp_kernels_init(struct gp_kernels *k, enum gp_level level);

#endif
