/* Models for tests and benches, made from a seed: the right names, shapes and types, a tokenizer
 * that works, and weights that mean nothing.  tools/make_model is its command line. */
#ifndef GP_TESTS_MODEL_MODEL_MAKER_H
#define GP_TESTS_MODEL_MODEL_MAKER_H

#include "model/gguf.h"

/* Ids of the tokens that every made model has; the 256 bytes follow in order from
 * TEST_TOKEN_BYTE. */
#define TEST_TOKEN_ENDOFTEXT 0u
#define TEST_TOKEN_IM_START  1u
#define TEST_TOKEN_IM_END    2u /* the EOS, unless `eos` says otherwise */
#define TEST_TOKEN_BYTE      3u
#define TEST_TOKENS_MIN      (TEST_TOKEN_BYTE + 256u)

/* A token of the caller's; they follow the bytes. */
struct test_token {
    struct gp_str text; /* plain bytes */
    int32_t type;       /* GGUF's tokenizer.ggml.token_type: 1 normal, 3 control, 4 user-defined */
};

struct test_model {
    const char *arch; /* "llama", "qwen2", "qwen3" */
    uint32_t layers;
    uint32_t embd;
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t v_dim; /* 0: head_dim */
    uint32_t ffn;
    uint32_t vocab;
    uint32_t context;
    float rope_base;
    float rms_eps;
    enum gp_type type; /* of the matrices; rows that are not whole blocks fall back, see below */
    bool tied;
    bool bias;         /* on q, k and v; with llama on the attention's output too */
    bool rope_factors; /* Llama 3's, as rope_freqs.weight: llama only */
    uint64_t seed;
    uint32_t threads; /* 0: 1 */

    const struct test_token *tokens; /* extra ones */
    uint32_t token_count;
    uint32_t eos;
    const char *pre; /* NULL: the architecture's */

    /* A metronome: one block that does nothing, one-hot embeddings, and after token t comes
     * next[t], whatever went before.  next [vocab]; embd must be vocab.  NULL: random weights. */
    const uint32_t *next;
};

/* Two small layers, llama, F32. */
void test_model_init(struct test_model *m);

/* "tiny", "smollm2-135m", "qwen3-0.6b", "llama-8b": the real models' shapes (type and seed stay).
 * False: no such name. */
bool test_model_shape(struct test_model *m, const char *name);

/* What a matrix is stored as when its rows are no whole blocks of the type wanted: Q4_K as Q5_0,
 * Q5_K as Q5_1, Q6_K as Q8_0, and what has no multiple of 32 elements a row as F16. */
enum gp_type test_model_type(enum gp_type wanted, uint32_t row_elems);

/* Weights are normal with variance 1 / n_in, queries and keys larger, so that attention has
 * something to choose; the same seed gives the same floats whatever the type and the threads. */
int test_model_write(const struct test_model *m, const char *path, struct gp_error *err);

/* ---- a text to spell ---- */

/* A metronome's script: the tokens it needs and who follows whom.  `text` is cut into pieces
 * that are all different, so that a piece alone says what comes next, and that no prompt ends
 * in: special tokens (those of every made model and the `given` ones) and stretches of at least
 * two bytes, which no merge makes.  With "\|" in it the text is cut there and nowhere else; a
 * piece of one byte then is the byte's own token.  "\n", "\t", "\\" and "\xHH" are bytes.  All
 * tokens outside the text lead to the first piece; the last piece leads to `last`, or to the
 * first with loop.  Refused: a piece that would come twice. */
struct test_script {
    struct test_token *tokens; /* the given ones first */
    uint32_t token_count;
    uint32_t *next; /* [vocab] */
    uint32_t vocab; /* a multiple of 32 */
    char *text;     /* where the tokens' bytes lie */
};
int test_script_open(struct test_script *out, const char *text, const struct test_token *given,
                     uint32_t given_count, uint32_t last, bool loop, struct gp_error *err);
void test_script_close(struct test_script *script);

/* Make m a metronome that speaks it. */
void test_model_speak(struct test_model *m, const struct test_script *script);

#endif
