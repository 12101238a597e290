#include "model/model_maker.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/workers.h"
#include "model/model_tokens.h"
#include "model/quantize.h"

#define ROWS_GRAIN 16u

void test_model_init(struct test_model *m)
{
    *m = (struct test_model){
        .arch = "llama",
        .layers = 2,
        .embd = 64,
        .heads = 4,
        .kv_heads = 2,
        .head_dim = 16,
        .ffn = 128,
        .vocab = 512,
        .context = 4096,
        .rope_base = 10000.0f,
        .rms_eps = 1e-5f,
        .type = GP_TYPE_F32,
        .seed = 1,
        .eos = TEST_TOKEN_IM_END,
    };
}

/* clang-format off */
static const struct {
    const char *name;
    struct test_model shape;
} shapes[] = {
    /* name           arch     layers embd heads kv dim v  ffn    vocab   context rope  rms */
    {"smollm2-135m", {"llama", 30,  576,  9, 3,  64, 0,  1536,  49152,   8192, 1e5f, 1e-5f,
                      .tied = true}},
    {"qwen3-0.6b",   {"qwen3", 28, 1024, 16, 8, 128, 0,  3072, 151936,  40960, 1e6f, 1e-6f,
                      .tied = true}},
    {"llama-8b",     {"llama", 32, 4096, 32, 8, 128, 0, 14336, 128256, 131072, 5e5f, 1e-5f,
                      .rope_factors = true}},
};
/* clang-format on */

bool test_model_shape(struct test_model *m, const char *name)
{
    struct test_model made = {0};

    if (strcmp(name, "tiny") == 0)
        test_model_init(&made);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (strcmp(name, shapes[i].name) == 0)
            made = shapes[i].shape;
    if (!made.arch)
        return false;
    made.type = m->type;
    made.seed = m->seed;
    made.threads = m->threads;
    made.tokens = m->tokens;
    made.token_count = m->token_count;
    made.eos = m->eos;
    made.pre = m->pre;
    *m = made;
    return true;
}

enum gp_type test_model_type(enum gp_type wanted, uint32_t row_elems)
{
    static const enum gp_type fallback[][2] = {
        {GP_TYPE_Q4_K, GP_TYPE_Q5_0}, {GP_TYPE_Q5_K, GP_TYPE_Q5_1}, {GP_TYPE_Q6_K, GP_TYPE_Q8_0}};

    if (row_elems % gp_type_info(wanted)->block_elems == 0)
        return wanted;
    for (int i = 0; i < 3; i++)
        if (wanted == fallback[i][0] && row_elems % 32 == 0)
            return fallback[i][1];
    return GP_TYPE_F16;
}

/* ---- weights ---- */

/* One tensor that is made while the file is written. */
struct fill {
    const struct test_model *m;
    struct gp_workers *workers;
    uint64_t stream; /* of the random numbers; a tensor's own */
    enum gp_type type;
    uint32_t n_in;
    float mean;
    float deviation;
    float *scratch; /* [worker][n_in], of the maker's */
    enum {
        FILL_RANDOM,
        FILL_CONSTANT, /* all are the mean                        */
        FILL_ONE_HOT,  /* row i has a 1 in column i               */
        FILL_NEXT,     /* row i has a 1 in each t with next[t] i  */
    } kind;
};

struct chunk {
    const struct fill *fill;
    uint64_t row_begin;
    uint8_t *out;
    size_t row_bytes;
};

/* The sum of four uniform numbers: normal enough for weights, and far cheaper than a logarithm. */
static float draw_normal(struct gp_rng *rng)
{
    uint64_t bits = gp_rng_next(rng);
    uint32_t sum = (uint32_t)(bits & 0xffff) + (uint32_t)(bits >> 16 & 0xffff) +
                   (uint32_t)(bits >> 32 & 0xffff) + (uint32_t)(bits >> 48);

    return ((float)sum - 131070.0f) * (1.7320508f / 65536.0f);
}

/* A row's numbers depend on seed, tensor and row alone. */
static void fill_row(const struct fill *f, uint64_t row, float *out)
{
    struct gp_rng mix = {f->m->seed ^ f->stream * 0xD1342543DE82EF95u};
    struct gp_rng rng = {gp_rng_next(&mix) + row};

    rng.state = gp_rng_next(&rng);
    for (uint32_t i = 0; i < f->n_in; i++) {
        switch (f->kind) {
        case FILL_RANDOM:
            out[i] = f->mean + f->deviation * draw_normal(&rng);
            break;
        case FILL_CONSTANT:
            out[i] = f->mean;
            break;
        case FILL_ONE_HOT:
            out[i] = i == row ? 1.0f : 0.0f;
            break;
        case FILL_NEXT:
            out[i] = f->m->next[i] == row ? 1.0f : 0.0f;
            break;
        }
    }
}

static void fill_chunk(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct chunk *c = ctx;
    float *row = c->fill->scratch + (size_t)worker * c->fill->n_in;

    for (uint32_t i = begin; i < end; i++) {
        fill_row(c->fill, c->row_begin + i, row);
        test_quantize(c->fill->type, row, c->fill->n_in, c->out + i * c->row_bytes);
    }
}

static int fill_rows(void *ctx, uint64_t begin, uint64_t end, void *out, struct gp_error *err)
{
    const struct fill *f = ctx;
    const struct gp_type_info *info = gp_type_info(f->type);
    struct chunk c = {f, begin, out, f->n_in / info->block_elems * info->block_bytes};

    (void)err;
    gp_workers_run(f->workers, (uint32_t)(end - begin), ROWS_GRAIN, fill_chunk, &c);
    return GP_OK;
}

/* ---- tensors ---- */

struct maker {
    const struct test_model *m;
    struct gp_gguf_writer *writer;
    struct gp_workers *workers;
    float *scratch;
    struct fill *fills; /* one a tensor; the writer holds pointers to them */
    uint32_t fill_count;
    uint32_t fill_room;
};

static struct fill *add_fill(struct maker *k, const char *name, enum gp_type type,
                             uint32_t dim_count, uint32_t n_in, uint32_t n_out)
{
    gp_assert(k->fill_count < k->fill_room);
    struct fill *f = &k->fills[k->fill_count];

    *f = (struct fill){.m = k->m,
                       .workers = k->workers,
                       .stream = ++k->fill_count,
                       .type = type,
                       .n_in = n_in,
                       .scratch = k->scratch};
    gp_gguf_add_tensor_rows(k->writer, name, type, dim_count, (uint64_t[]){n_in, n_out}, fill_rows,
                            f);
    return f;
}

static void add_matrix(struct maker *k, const char *name, uint32_t n_in, uint32_t n_out,
                       float deviation)
{
    struct fill *f = add_fill(k, name, test_model_type(k->m->type, n_in), 2, n_in, n_out);

    f->deviation = deviation;
    f->kind = k->m->next ? FILL_CONSTANT : FILL_RANDOM;
}

static void add_vector(struct maker *k, const char *name, uint32_t n, float mean, float deviation)
{
    struct fill *f = add_fill(k, name, GP_TYPE_F32, 1, n, 1);

    f->mean = mean;
    f->deviation = deviation;
    f->kind = k->m->next ? FILL_CONSTANT : FILL_RANDOM;
}

/* Queries and keys this much larger than the rest: scores then have a deviation of about 2, and
 * a few tokens get most of the attention, as in a model that was trained. */
#define SHARPNESS 1.5f

static void add_block(struct maker *k, uint32_t layer)
{
    const struct test_model *m = k->m;
    char name[64];
    uint32_t v_dim = m->v_dim ? m->v_dim : m->head_dim;
    uint32_t q = m->heads * m->head_dim, kk = m->kv_heads * m->head_dim, v = m->kv_heads * v_dim;
    uint32_t o = m->heads * v_dim;
    float in = 1.0f / sqrtf((float)m->embd);
    bool head_norm = strcmp(m->arch, "qwen3") == 0;
    bool output_bias = m->bias && strcmp(m->arch, "llama") == 0;

#define NAME(part) (snprintf(name, sizeof name, "blk.%" PRIu32 ".%s", layer, part), name)
    add_vector(k, NAME("attn_norm.weight"), m->embd, 1.0f, 0.1f);
    add_matrix(k, NAME("attn_q.weight"), m->embd, q, head_norm ? in : SHARPNESS * in);
    add_matrix(k, NAME("attn_k.weight"), m->embd, kk, head_norm ? in : SHARPNESS * in);
    add_matrix(k, NAME("attn_v.weight"), m->embd, v, in);
    if (m->bias) {
        add_vector(k, NAME("attn_q.bias"), q, 0.0f, 0.3f);
        add_vector(k, NAME("attn_k.bias"), kk, 0.0f, 0.3f);
        add_vector(k, NAME("attn_v.bias"), v, 0.0f, 0.3f);
    }
    if (head_norm) {
        add_vector(k, NAME("attn_q_norm.weight"), m->head_dim, SHARPNESS, 0.15f);
        add_vector(k, NAME("attn_k_norm.weight"), m->head_dim, SHARPNESS, 0.15f);
    }
    add_matrix(k, NAME("attn_output.weight"), o, m->embd, 1.0f / sqrtf((float)o));
    if (output_bias)
        add_vector(k, NAME("attn_output.bias"), m->embd, 0.0f, 0.1f);
    add_vector(k, NAME("ffn_norm.weight"), m->embd, 1.0f, 0.1f);
    add_matrix(k, NAME("ffn_gate.weight"), m->embd, m->ffn, in);
    add_matrix(k, NAME("ffn_up.weight"), m->embd, m->ffn, in);
    add_matrix(k, NAME("ffn_down.weight"), m->ffn, m->embd, 1.0f / sqrtf((float)m->ffn));
#undef NAME
}

/* The factors of Llama 3.1 (8 times a context of 8192): long waves are stretched, short ones
 * stay. */
static void add_rope_factors(struct maker *k)
{
    const struct test_model *m = k->m;
    float factors[GP_LIMIT_HEAD_DIM / 2];
    uint64_t count = m->head_dim / 2;

    for (uint32_t i = 0; i < count; i++) {
        double wave = 2.0 * M_PI * pow(m->rope_base, 2.0 * i / m->head_dim);
        double turns = 8192.0 / wave, smooth = (turns - 1.0) / (4.0 - 1.0);

        smooth = smooth < 0.0 ? 0.0 : smooth > 1.0 ? 1.0 : smooth;
        factors[i] = (float)(1.0 / ((1.0 - smooth) / 8.0 + smooth));
    }
    gp_gguf_add_tensor(k->writer, "rope_freqs.weight", GP_TYPE_F32, 1, &count, factors);
}

static void add_tensors(struct maker *k)
{
    const struct test_model *m = k->m;
    float in = 1.0f / sqrtf((float)m->embd);

    /* Tied, a token's own row must not win by itself: its part of the state is kept small. */
    add_matrix(k, "token_embd.weight", m->embd, m->vocab, m->tied ? 0.3f : 1.0f);
    if (m->next)
        k->fills[0].kind = FILL_ONE_HOT;
    if (m->rope_factors)
        add_rope_factors(k);
    for (uint32_t i = 0; i < m->layers; i++)
        add_block(k, i);
    /* A metronome's state is one-hot, sqrt(embd) after the norm; its logit becomes 40, far above
     * the zeros of all others at any temperature. */
    add_vector(k, "output_norm.weight", m->embd, m->next ? 40.0f * in : 1.0f, 0.1f);
    if (m->tied)
        return;
    add_matrix(k, "output.weight", m->embd, m->vocab, 4.0f * in);
    if (m->next)
        k->fills[k->fill_count - 1].kind = FILL_NEXT;
}

/* ---- keys ---- */

static void add_text(struct gp_gguf_writer *w, const char *key, const char *text)
{
    gp_gguf_add_str(w, key, text, strlen(text));
}

static void add_keys(struct maker *k)
{
    const struct test_model *m = k->m;
    struct gp_gguf_writer *w = k->writer;
    char key[96];

#define KEY(part) (snprintf(key, sizeof key, "%s.%s", m->arch, part), key)
    add_text(w, "general.architecture", m->arch);
    add_text(w, "general.type", "model");
    add_text(w, "general.name", m->next ? "metronome" : "random weights");
    gp_gguf_add_u32(w, "general.quantization_version", 2);
    gp_gguf_add_u32(w, KEY("block_count"), m->layers);
    gp_gguf_add_u32(w, KEY("context_length"), m->context);
    gp_gguf_add_u32(w, KEY("embedding_length"), m->embd);
    gp_gguf_add_u32(w, KEY("feed_forward_length"), m->ffn);
    gp_gguf_add_u32(w, KEY("attention.head_count"), m->heads);
    gp_gguf_add_u32(w, KEY("attention.head_count_kv"), m->kv_heads);
    gp_gguf_add_u32(w, KEY("attention.key_length"), m->head_dim);
    gp_gguf_add_u32(w, KEY("attention.value_length"), m->v_dim ? m->v_dim : m->head_dim);
    gp_gguf_add_f32(w, KEY("attention.layer_norm_rms_epsilon"), m->rms_eps);
    gp_gguf_add_f32(w, KEY("rope.freq_base"), m->rope_base);
    gp_gguf_add_u32(w, KEY("rope.dimension_count"), m->head_dim);
    gp_gguf_add_u32(w, KEY("vocab_size"), m->vocab);
#undef KEY
}

/* ---- the whole ---- */

static int check_model(const struct test_model *m, struct gp_error *err)
{
    bool llama = strcmp(m->arch, "llama") == 0;

    if (!llama && strcmp(m->arch, "qwen2") != 0 && strcmp(m->arch, "qwen3") != 0)
        return gp_fail(err, GP_EINVAL, "arch %s: llama, qwen2 and qwen3 are known", m->arch);
    if (m->layers == 0 || m->layers > GP_LIMIT_LAYERS || m->embd == 0 || m->embd > GP_LIMIT_EMBED ||
        m->ffn == 0 || m->heads == 0 || m->heads > GP_LIMIT_HEADS || m->kv_heads == 0 ||
        m->context == 0 || m->vocab > GP_LIMIT_VOCAB)
        return gp_fail(err, GP_EINVAL, "a dimension is 0 or too large");
    if (m->heads % m->kv_heads != 0)
        return gp_fail(err, GP_EINVAL, "%" PRIu32 " heads are no multiple of %" PRIu32 " KV heads",
                       m->heads, m->kv_heads);
    if (m->head_dim == 0 || m->head_dim % 2 != 0 || m->head_dim > GP_LIMIT_HEAD_DIM ||
        m->v_dim > GP_LIMIT_HEAD_DIM)
        return gp_fail(err, GP_EINVAL, "a head dimension is 0, odd or above %u", GP_LIMIT_HEAD_DIM);
    if (m->rope_factors && !llama)
        return gp_fail(err, GP_EINVAL, "only llama files carry RoPE factors");
    if (m->next && (m->embd != m->vocab || m->tied || m->layers != 1))
        return gp_fail(err, GP_EINVAL,
                       "a metronome has one layer, an embedding as wide as its vocabulary and an "
                       "output of its own");
    if (m->token_count > m->vocab || m->vocab < TEST_TOKENS_MIN + m->token_count)
        return gp_fail(err, GP_EINVAL,
                       "a vocabulary of %" PRIu32 " is too small: %" PRIu32 " tokens are needed",
                       m->vocab, TEST_TOKENS_MIN + m->token_count);
    if (m->eos >= m->vocab)
        return gp_fail(err, GP_EINVAL, "the end token is not in the vocabulary");
    for (uint32_t i = 0; m->next && i < m->vocab; i++)
        if (m->next[i] >= m->vocab)
            return gp_fail(err, GP_EINVAL, "token %" PRIu32 " leads outside the vocabulary", i);
    return GP_OK;
}

static int make_file(struct maker *k, const char *path, struct gp_error *err)
{
    const struct test_model *m = k->m;
    uint32_t widest = m->embd > m->ffn ? m->embd : m->ffn;
    uint32_t v_dim = m->v_dim > m->head_dim ? m->v_dim : m->head_dim;

    if (m->heads * v_dim > widest)
        widest = m->heads * v_dim;
    k->fill_room = 14 * m->layers + 4;
    k->fills = gp_mem_alloc_array(k->fill_room, sizeof *k->fills);
    k->scratch = gp_mem_alloc_array((size_t)widest * gp_workers_count(k->workers), sizeof(float));
    if (!k->fills || !k->scratch)
        return gp_fail(err, GP_ENOMEM, "no memory to make a model");
    add_keys(k);
    int rc = test_model_add_tokens(m, k->writer, err);

    if (rc != GP_OK)
        return rc;
    add_tensors(k);
    return gp_gguf_writer_write(k->writer, path, err);
}

int test_model_write(const struct test_model *m, const char *path, struct gp_error *err)
{
    struct maker k = {.m = m};
    int rc = check_model(m, err);

    if (rc == GP_OK)
        rc = gp_workers_open(&k.workers, m->threads ? m->threads : 1, err);
    if (rc == GP_OK)
        rc = gp_gguf_writer_open(&k.writer, err);
    if (rc == GP_OK)
        rc = make_file(&k, path, err);
    gp_gguf_writer_close(k.writer);
    gp_workers_close(k.workers);
    gp_mem_free(k.fills);
    gp_mem_free(k.scratch);
    return rc;
}
