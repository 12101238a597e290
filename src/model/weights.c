/* Tensors by name: found, checked for shape, packed in parallel, and none left unread. */
#include "model/weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/weights_internal.h"

#define TENSORS_PER_LAYER 15u
#define TENSORS_BESIDE    4u /* embedding, output, output norm, rope factors */
#define ALIGNMENT         64u

/* A tensor of the file and the place that it is packed to. */
struct placement {
    const struct gp_gguf_tensor *tensor;
    struct gp_matrix *matrix; /* or */
    const float **vector;
    size_t offset; /* in the mapping */
};

struct loader {
    const struct gp_gguf *gguf;
    struct gp_weights *weights;
    struct gp_error *err;
    int rc; /* the first failure, as in struct model_keys */
    struct placement *placements;
    uint32_t placement_count;
    uint32_t placement_max;
    size_t bytes;   /* of the mapping, so far */
    bool *used;     /* by tensor of the file  */
    uint32_t layer; /* that names are made for, or NO_LAYER */
};

#define NO_LAYER UINT32_MAX

/* ---- finding ---- */

static const struct gp_gguf_tensor *find(struct loader *l, const char *name, bool required)
{
    char full[64];

    if (l->layer == NO_LAYER)
        snprintf(full, sizeof full, "%s", name);
    else
        snprintf(full, sizeof full, "blk.%" PRIu32 ".%s", l->layer, name);
    const struct gp_gguf_tensor *tensor = gp_gguf_find_tensor(l->gguf, full);

    if (tensor)
        l->used[tensor - gp_gguf_tensor(l->gguf, 0)] = true;
    else if (required)
        l->rc = gp_fail(l->err, GP_ECORRUPT, "tensor %s: missing", full);
    return tensor;
}

/* A name of the file's, for "%.*s". */
#define NAME(tensor) (int)(tensor)->name.length, (tensor)->name.bytes

static void check_shape(struct loader *l, const struct gp_gguf_tensor *t, uint64_t dim0,
                        uint64_t dim1)
{
    if (t->dims[0] == dim0 && t->dims[1] == dim1 && t->dims[2] == 1 && t->dims[3] == 1)
        return;
    l->rc = gp_fail(l->err, GP_ECORRUPT,
                    "tensor %.*s: shape [%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64
                    "], expected [%" PRIu64 ", %" PRIu64 "]",
                    NAME(t), t->dims[0], t->dims[1], t->dims[2], t->dims[3], dim0, dim1);
}

static void place(struct loader *l, struct placement placement, size_t bytes)
{
    gp_assert(l->placement_count < l->placement_max);
    if (bytes > SIZE_MAX / 2 - l->bytes - ALIGNMENT) {
        l->rc = gp_fail(l->err, GP_ENOMEM, "tensor %.*s: too large", NAME(placement.tensor));
        return;
    }
    placement.offset = l->bytes;
    l->placements[l->placement_count++] = placement;
    l->bytes += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    l->weights->parameter_count += placement.tensor->dims[0] * placement.tensor->dims[1];
}

static void add_matrix(struct loader *l, const char *name, struct gp_matrix *m, uint32_t n_out,
                       uint32_t n_in)
{
    const struct gp_gguf_tensor *t = l->rc ? NULL : find(l, name, true);

    if (!t)
        return;
    check_shape(l, t, n_in, n_out);
    size_t bytes = gp_matrix_bytes(t->type, n_out, n_in);

    if (l->rc == GP_OK && bytes == 0)
        l->rc = gp_fail(l->err, GP_EINVAL, "tensor %.*s: type %s with rows of %u is not supported",
                        NAME(t), gp_type_name(t->type), n_in);
    if (l->rc != GP_OK)
        return;
    *m = (struct gp_matrix){.type = t->type, .n_out = n_out, .n_in = n_in};
    place(l, (struct placement){.tensor = t, .matrix = m}, bytes);
}

static bool is_float(enum gp_type type)
{
    return type == GP_TYPE_F32 || type == GP_TYPE_F16 || type == GP_TYPE_BF16;
}

/* Vectors are few and short, so they are kept in float32 whatever the file has. */
static void add_vector(struct loader *l, const char *name, const float **vector, uint32_t n,
                       bool required)
{
    const struct gp_gguf_tensor *t = l->rc ? NULL : find(l, name, required);

    if (!t)
        return;
    check_shape(l, t, n, 1);
    if (l->rc == GP_OK && !is_float(t->type))
        l->rc = gp_fail(l->err, GP_EINVAL, "tensor %.*s: type %s, but a vector is F32, F16 or BF16",
                        NAME(t), gp_type_name(t->type));
    if (l->rc == GP_OK)
        place(l, (struct placement){.tensor = t, .vector = vector}, n * sizeof(float));
}

static void add_layer(struct loader *l, uint32_t index)
{
    const struct gp_hparams *hp = &l->weights->hp;
    struct gp_layer *layer = &l->weights->layers[index];
    uint32_t q_rows = hp->head_count * hp->key_dim;
    uint32_t k_rows = hp->kv_head_count * hp->key_dim;
    uint32_t v_rows = hp->kv_head_count * hp->value_dim;

    l->layer = index;
    add_vector(l, "attn_norm.weight", &layer->attn_norm, hp->embed_dim, true);
    add_matrix(l, "attn_q.weight", &layer->q, q_rows, hp->embed_dim);
    add_matrix(l, "attn_k.weight", &layer->k, k_rows, hp->embed_dim);
    add_matrix(l, "attn_v.weight", &layer->v, v_rows, hp->embed_dim);
    add_matrix(l, "attn_output.weight", &layer->out, hp->embed_dim, hp->head_count * hp->value_dim);
    add_vector(l, "attn_q.bias", &layer->q_bias, q_rows, false);
    add_vector(l, "attn_k.bias", &layer->k_bias, k_rows, false);
    add_vector(l, "attn_v.bias", &layer->v_bias, v_rows, false);
    add_vector(l, "attn_output.bias", &layer->out_bias, hp->embed_dim, false);
    if (hp->arch == GP_ARCH_QWEN3) {
        add_vector(l, "attn_q_norm.weight", &layer->q_norm, hp->key_dim, true);
        add_vector(l, "attn_k_norm.weight", &layer->k_norm, hp->key_dim, true);
    }
    add_vector(l, "ffn_norm.weight", &layer->ffn_norm, hp->embed_dim, true);
    add_matrix(l, "ffn_gate.weight", &layer->gate, hp->ffn_dim, hp->embed_dim);
    add_matrix(l, "ffn_up.weight", &layer->up, hp->ffn_dim, hp->embed_dim);
    add_matrix(l, "ffn_down.weight", &layer->down, hp->embed_dim, hp->ffn_dim);
}

static void add_all(struct loader *l)
{
    struct gp_weights *w = l->weights;
    const struct gp_hparams *hp = &w->hp;

    l->layer = NO_LAYER;
    add_matrix(l, "token_embd.weight", &w->embed, hp->vocab_count, hp->embed_dim);
    add_vector(l, "output_norm.weight", &w->output_norm, hp->embed_dim, true);
    if (gp_gguf_find_tensor(l->gguf, "output.weight"))
        add_matrix(l, "output.weight", &w->output, hp->vocab_count, hp->embed_dim);
    for (uint32_t i = 0; i < hp->layer_count; i++)
        add_layer(l, i);
}

/* ---- what is left ---- */

/* Tensors that llama, qwen2 and qwen3 files may carry and that have no part in the logits:
 * blocks past the last (heads that predict further ahead), frequencies that old converters wrote
 * out although they follow from the keys, and classifiers. */
static bool is_harmless(const struct gp_gguf_tensor *t, uint32_t layer_count)
{
    static const char *const endings[] = {".attn_rot_embd", ".rotary_emb.inv_freq"};
    char name[64];
    uint32_t block;

    gp_assert(t->name.length < sizeof name);
    memcpy(name, t->name.bytes, t->name.length);
    name[t->name.length] = '\0';
    if (sscanf(name, "blk.%" SCNu32 ".", &block) == 1 && block >= layer_count)
        return true;
    if (strncmp(name, "cls.", 4) == 0)
        return true;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (strstr(name, endings[i]))
            return true;
    return false;
}

static void check_leftovers(struct loader *l)
{
    for (uint32_t i = 0; l->rc == GP_OK && i < gp_gguf_tensor_count(l->gguf); i++) {
        const struct gp_gguf_tensor *t = gp_gguf_tensor(l->gguf, i);

        if (l->used[i])
            continue;
        if (is_harmless(t, l->weights->hp.layer_count))
            gp_log_warn("tensor %.*s: not used", NAME(t));
        else
            l->rc = gp_fail(l->err, GP_EINVAL,
                            "tensor %.*s: not known here; without it the results would be wrong",
                            NAME(t));
    }
}

/* ---- packing ---- */

struct pack_work {
    const struct gp_matrix *matrix;
    void *data;
    const void *rows;
};

/* Items are groups of GP_MATRIX_ROWS rows. */
static void pack_groups(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct pack_work *work = ctx;
    uint32_t row_end = end * GP_MATRIX_ROWS;

    (void)worker;
    if (row_end > work->matrix->n_out)
        row_end = work->matrix->n_out;
    gp_matrix_pack(work->matrix, work->data, work->rows, begin * GP_MATRIX_ROWS, row_end);
}

static void pack(struct gp_weights *w, const struct placement *p, struct gp_workers *workers)
{
    char *data = (char *)w->packed + p->offset;

    if (p->vector) {
        gp_dequantize(p->tensor->type, p->tensor->data, p->tensor->dims[0], (float *)data);
        *p->vector = (const float *)data;
        return;
    }
    struct pack_work work = {p->matrix, data, p->tensor->data};

    p->matrix->data = data;
    gp_workers_run(workers, (p->matrix->n_out + GP_MATRIX_ROWS - 1) / GP_MATRIX_ROWS, 4,
                   pack_groups, &work);
}

/* The file's pages are given back as we go, so that the weights are never in memory twice. */
static void pack_all(struct loader *l, struct gp_workers *workers,
                     void (*progress)(void *ctx, double share), void *ctx)
{
    for (uint32_t i = 0; i < l->placement_count; i++) {
        const struct placement *p = &l->placements[i];

        pack(l->weights, p, workers);
        if (p->vector)
            continue;
        gp_gguf_drop_pages(l->gguf);
        size_t done = i + 1 < l->placement_count ? l->placements[i + 1].offset : l->bytes;

        if (progress)
            progress(ctx, (double)done / (double)l->bytes);
    }
}

static void read_frequencies(struct loader *l, const struct model_rope *rope)
{
    struct gp_weights *w = l->weights;
    uint32_t pairs = w->hp.rope_dim / 2;
    float factors[GP_LIMIT_HEAD_DIM / 2];

    l->layer = NO_LAYER;
    const struct gp_gguf_tensor *t = l->rc ? NULL : find(l, "rope_freqs.weight", false);

    if (t) {
        check_shape(l, t, pairs, 1);
        if (l->rc == GP_OK && !is_float(t->type))
            l->rc = gp_fail(l->err, GP_EINVAL, "tensor rope_freqs.weight: type %s is no float",
                            gp_type_name(t->type));
        if (l->rc != GP_OK)
            return;
        gp_dequantize(t->type, t->data, pairs, factors);
        for (uint32_t i = 0; i < pairs; i++)
            if (!(isfinite(factors[i]) && factors[i] > 0.0f)) {
                l->rc = gp_fail(l->err, GP_ECORRUPT,
                                "tensor rope_freqs.weight: factor %u is %g, not above 0", i,
                                factors[i]);
                return;
            }
    }
    if (l->rc == GP_OK)
        gp_model_rope_frequencies(rope, w->hp.rope_dim, t ? factors : NULL, w->inv_freq);
}

/* ---- open ---- */

static void take_tables(struct loader *l)
{
    struct gp_weights *w = l->weights;

    l->placement_max = TENSORS_BESIDE + w->hp.layer_count * TENSORS_PER_LAYER;
    w->layers = gp_mem_alloc_array(w->hp.layer_count, sizeof *w->layers);
    w->inv_freq = gp_mem_alloc_array(w->hp.rope_dim / 2, sizeof *w->inv_freq);
    l->placements = gp_mem_alloc_array(l->placement_max, sizeof *l->placements);
    l->used = gp_mem_alloc_array(gp_gguf_tensor_count(l->gguf), sizeof *l->used);
    if (!w->layers || !w->inv_freq || !l->placements || !l->used)
        l->rc = gp_fail(l->err, GP_ENOMEM, "weights: out of memory");
}

static void load(struct loader *l, const struct model_rope *rope, struct gp_workers *workers,
                 void (*progress)(void *ctx, double share), void *progress_ctx)
{
    struct gp_weights *w = l->weights;

    add_all(l);
    read_frequencies(l, rope);
    check_leftovers(l);
    if (l->rc != GP_OK)
        return;
    w->packed = gp_mem_map(l->bytes);
    if (!w->packed) {
        l->rc = gp_fail(l->err, GP_ENOMEM, "weights: no memory for %zu MiB", l->bytes >> 20);
        return;
    }
    w->packed_bytes = l->bytes;
    pack_all(l, workers, progress, progress_ctx);
    if (!w->output.data)
        w->output = w->embed;
}

int gp_weights_open(struct gp_weights **out, const struct gp_gguf *gguf, struct gp_workers *workers,
                    void (*progress)(void *ctx, double share), void *progress_ctx,
                    struct gp_error *err)
{
    struct gp_weights *w = gp_mem_alloc(sizeof *w);
    struct loader l = {.gguf = gguf, .weights = w, .err = err};
    struct model_rope rope;

    if (!w)
        return gp_fail(err, GP_ENOMEM, "weights: out of memory");
    l.rc = gp_model_read(&w->hp, &rope, gguf, err);
    if (l.rc == GP_OK)
        take_tables(&l);
    if (l.rc == GP_OK)
        load(&l, &rope, workers, progress, progress_ctx);
    gp_mem_free(l.placements);
    gp_mem_free(l.used);
    if (l.rc != GP_OK) {
        gp_weights_close(w);
        return l.rc;
    }
    *out = w;
    return GP_OK;
}

void gp_weights_close(struct gp_weights *weights)
{
    if (!weights)
        return;
    gp_mem_unmap(weights->packed, weights->packed_bytes);
    gp_mem_free(weights->layers);
    gp_mem_free(weights->inv_freq);
    gp_mem_free(weights);
}
