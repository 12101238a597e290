/* Weights and hyper-parameters of a model, read from a GGUF and packed for the kernels.
 *
 * Architectures: llama (Llama 3.x, DeepSeek-R1-Distill-Llama, SmolLM2), qwen2 (biases), qwen3 (q/k
 * norm).  Read-only once open. */
#ifndef GP_MODEL_WEIGHTS_H
#define GP_MODEL_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/workers.h"
#include "kernels/kernels.h"
#include "model/gguf.h"

enum gp_arch {
    GP_ARCH_LLAMA,
    GP_ARCH_QWEN2,
    GP_ARCH_QWEN3
};

struct gp_hparams {
    enum gp_arch arch;
    uint32_t layer_count;
    uint32_t embed_dim;
    uint32_t ffn_dim;
    uint32_t head_count;    /* Hq                                        */
    uint32_t kv_head_count; /* Hkv; Hq is a multiple                     */
    uint32_t key_dim;       /* elements of one query or key head         */
    uint32_t value_dim;
    uint32_t vocab_count;
    uint32_t context_max;
    float rms_eps;
    uint32_t rope_dim;     /* elements of a head that are rotated, even */
    bool rope_neox;        /* pairs half apart (qwen) or adjacent (llama) */
    float attention_scale; /* 1/sqrt(key_dim)                           */
    double rope_scale;     /* on cos and sin: YaRN's factor, else 1     */
};

struct gp_layer {
    const float *attn_norm;                           /* [embed]                       */
    struct gp_matrix q, k, v, out;                    /* [Hq*dk, embed] ... [embed, Hq*dv] */
    const float *q_bias, *k_bias, *v_bias, *out_bias; /* or NULL                   */
    const float *q_norm, *k_norm;                     /* [dk] or NULL                  */
    const float *ffn_norm;
    struct gp_matrix gate, up, down;
};

struct gp_weights {
    struct gp_hparams hp;
    struct gp_matrix embed;  /* [vocab, embed]                                */
    struct gp_matrix output; /* embed's own when tied                         */
    const float *output_norm;
    struct gp_layer *layers; /* [layer_count]                                 */
    double *inv_freq;        /* [rope_dim/2], factors and scaling folded in   */
    void *packed;            /* one mapping that holds all matrices and vectors       */
    uint64_t packed_bytes;
    uint64_t parameter_count;
};

/* Hyper-parameters alone, all checked and named when wrong (public-issues B07, B11).
 *
 * Absent keys: context_length is 4096; attention.head_count_kv is head_count; key_length and
 * value_length are embedding_length / head_count where that is whole, else required;
 * rope.dimension_count is key_length; rope.freq_base 10000; rope.scaling.type linear, its factor 1.
 * A sliding window shorter than the context cuts the context, with a warning. */
int gp_hparams_read(struct gp_hparams *out, const struct gp_gguf *gguf, struct gp_error *err);

/* Bytes of one token's keys and values in all layers. */
uint64_t gp_hparams_token_bytes(const struct gp_hparams *hp, enum gp_kv_type type);

/* Read, check and pack everything.  Every tensor of the file is used, or named in a warning or a
 * refusal (B09, B12, B13).  progress may be NULL. */
int gp_weights_open(struct gp_weights **out, const struct gp_gguf *gguf, struct gp_workers *workers,
                    void (*progress)(void *ctx, double share), void *progress_ctx,
                    struct gp_error *err);
void gp_weights_close(struct gp_weights *weights);

#endif
