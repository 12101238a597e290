/* libgrowpage: an LLM serving engine for GGUF models with KV memory budgeted on demand.
 *
 * The narrow waist.  The command line, the server and the evaluation see this header and nothing
 * else of the engine: no pages, no tensors, no threads.
 *
 *   model   an open GGUF file: weights, vocabulary, chat template.  Read-only; any thread.
 *   engine  one model, one KV pool, one thread that steps.  Requests go in as token ids and come
 *           back as token ids; text is the caller's business, through the model's functions.
 *
 * A function that may be refused returns GP_OK or a negative gp_status and, unless err is NULL, one
 * line that names the thing.  Out-parameters are written on success only.  What a function hands
 * out is freed with gp_free() unless said otherwise.
 *
 * See examples/simple.c for a whole program. */
#ifndef GROWPAGE_H
#define GROWPAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "growpage_options.h"
#include "growpage_status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GP_API __attribute__((visibility("default")))

/* "0.1.0" */
GP_API const char *gp_version(void);

/* What the library hands out.  NULL is fine. */
GP_API void gp_free(void *memory);

/* ---- model ---- */

struct gp_model;

struct gp_model_options {
    const char *path;
    uint32_t threads;  /* for loading; 0: one per core                                      */
    const char *cpu;   /* level: "ref", "avx2", "avx512"; NULL: GP_CPU, else the best there is */
    bool vocab_only;   /* no weights: tokenize, detokenize, apply_template, inspect           */
    bool override_pre; /* an unknown pre-tokenizer is a warning, not a refusal                */
    const char *chat_template; /* replaces the file's own; NULL: the file's                       */
    /* Called from the opening thread with a share in [0, 1]; may be NULL. */
    void (*progress)(void *ctx, double share);
    void *progress_ctx;
};

GP_API int gp_model_open(struct gp_model **out, const struct gp_model_options *options,
                         struct gp_error *err);
GP_API void gp_model_close(struct gp_model *model); /* after its engines; NULL is fine */

struct gp_model_info {
    char name[128];     /* general.name, or ""                        */
    char arch[32];      /* "llama", "qwen2", "qwen3"                  */
    char quant[32];     /* the type that holds most bytes: "Q4_1"     */
    char tokenizer[64]; /* "gpt2/smollm"                              */
    char cpu[16];       /* the kernels' level                         */
    uint64_t file_bytes;
    uint64_t weight_bytes; /* as packed in memory; 0 when vocab_only     */
    uint64_t parameter_count;
    uint32_t layer_count, embed_dim, ffn_dim, head_count, kv_head_count, key_dim, value_dim;
    uint32_t vocab_count;
    uint32_t token_bytes_max; /* of the longest token's text            */
    uint32_t context_max;     /* tokens the model was trained for           */
    int32_t bos, eos;         /* ids, or -1                                 */
    bool has_template;
};

GP_API void gp_model_info(const struct gp_model *model, struct gp_model_info *info);

/* The text of the chat template in use; NULL when there is none.  It belongs to the model. */
GP_API const char *gp_model_template(const struct gp_model *model);

/* Every id that ends a generation; the array belongs to the model. */
GP_API const int32_t *gp_model_ends(const struct gp_model *model, uint32_t *count);

/* Ids of text.  add_special: put BOS where the file asks, never twice.  parse_special: recognise
 * control tokens in the text.  Any bytes are accepted. */
GP_API int gp_model_tokenize(const struct gp_model *model, const char *text, size_t length,
                             bool add_special, bool parse_special, int32_t **ids, uint32_t *count,
                             struct gp_error *err);

/* The exact bytes of ids, zero-terminated; special: spell control tokens too.  An id outside the
 * vocabulary is GP_EINVAL. */
GP_API int gp_model_detokenize(const struct gp_model *model, const int32_t *ids, uint32_t count,
                               bool special, char **text, size_t *length, struct gp_error *err);

struct gp_chat {
    const char *messages; /* JSON array of {"role", "content", ...}                            */
    const char *tools;    /* JSON array, or NULL                                               */
    const char
        *variables; /* JSON object for the template, e.g. {"enable_thinking":false}, or NULL */
    bool add_generation_prompt;
    int64_t now; /* seconds since the epoch, for templates that print the date        */
};

/* Render the chat template and tokenize it; message text can never become a control token.
 * Either of ids and text may be NULL; text is zero-terminated, and may hold zeros that the messages
 * brought. */
GP_API int gp_model_apply_template(const struct gp_model *model, const struct gp_chat *chat,
                                   int32_t **ids, uint32_t *count, char **text, size_t *length,
                                   struct gp_error *err);

/* A report on a file without loading it: hyper-parameters, tokenizer, tensors by type, memory for
 * `requests` of `tokens` each.  As text for people, or one JSON object. */
GP_API int gp_inspect(const char *path, uint32_t requests, uint32_t tokens, bool json,
                      char **report, struct gp_error *err);

/* Text from ids as they come: always valid UTF-8, half a character waits for its rest. */
struct gp_decoder;

GP_API int gp_decoder_open(struct gp_decoder **out, const struct gp_model *model, bool special,
                           struct gp_error *err);
GP_API void gp_decoder_close(struct gp_decoder *decoder);
GP_API void gp_decoder_reset(struct gp_decoder *decoder);
/* The text that id completes, zero-terminated; valid until the next call on this decoder. */
GP_API const char *gp_decoder_next(struct gp_decoder *decoder, int32_t id, size_t *length);
/* What was held back. */
GP_API const char *gp_decoder_end(struct gp_decoder *decoder, size_t *length);

/* ---- guides ---- */

/* Holds the answers of one request to a grammar: to be asked from its constraint and told from its
 * on_token.  All memory, 1 to 2 MiB, is taken by the open; what a call costs is bounded. */
struct gp_guide;

/* Any thread.  GP_EINVAL names the place in the schema and the keyword that is not available. */
GP_API int gp_guide_open(struct gp_guide **out, const struct gp_model *model,
                         const struct gp_grammar_source *source, uint32_t choices, /* <= 256 */
                         struct gp_error *err);
GP_API void gp_guide_close(struct gp_guide *guide); /* NULL is fine */

/* One thread at a time.  Clear bits of mask for ids that may not come next; end tokens stay where
 * the answer may end. */
GP_API void gp_guide_mask(struct gp_guide *guide, uint32_t choice, uint64_t *mask);

/* The choice's next token is id.  True: the answer is complete and nothing can follow. */
GP_API bool gp_guide_take(struct gp_guide *guide, uint32_t choice, int32_t id);

/* Whether it may end now. */
GP_API bool gp_guide_may_end(const struct gp_guide *guide, uint32_t choice);

/* ---- engine ---- */

struct gp_engine;

struct gp_engine_options {
    uint32_t threads;          /* 0: one per core                                              */
    const char *kv_type;       /* "f16" (default), "bf16", "f32"; "q8_0": 8 bits and a scale
                                  for every 32, where heads have a multiple of 32 elements     */
    uint32_t page_tokens;      /* b: a multiple of 16; 256                                     */
    uint64_t kv_bytes;         /* KV pool; 0: see kv_pages                                     */
    uint32_t kv_pages;         /* KV pool in pages; 0 with kv_bytes 0: 0.9 of what is free, but no
                                  more than max_seqs requests of `context` tokens could use     */
    uint32_t context;          /* tokens of one request; 0: the model's                        */
    uint32_t max_seqs;         /* requests running at once                                     */
    uint32_t max_batch_tokens; /* rows of one step                                             */
    double max_stall;          /* a step beside a prompt over one without, in time, at most: rows of
                                  prompts are spread so, while others decode; 0: no limit       */
    uint32_t max_waiting;      /* requests that may wait; more are GP_EAGAIN                   */
    uint32_t watermark;        /* pages that growth leaves free                                */
    bool no_prefix_cache;      /* share no pages between requests that begin alike             */
    enum gp_preempt preempt;   /* who gives way when a page is missing                         */
    bool taps;                 /* on_tap may be asked for                                      */
    enum gp_batching batching; /* continuous, or as engines did before, for comparisons       */
    bool kv_sync;              /* compact within a step, instead of beside the next ones       */
    struct gp_kv_options kv;   /* for requests that bring none of their own                    */
    /* Policies with a scorer (zipage to streaming, growpage+zipage) need memory beside the pages,
     * which is taken for the one above and for these; a request that brings one which needs more is
     * refused. */
    const struct gp_kv_options *kv_also; /* read during open only                                */
    uint32_t kv_also_count;
    /* Where the trace goes (docs/TRACE.md), written by the engine's thread; -1: none.  The caller's
     * to close, after the engine; several engines may write to it in turn. */
    int trace_fd;
};

/* The defaults of every field. */
GP_API void gp_engine_options_init(struct gp_engine_options *options);
GP_API void gp_kv_options_init(struct gp_kv_options *options);
GP_API void gp_sampling_init(struct gp_sampling *sampling); /* temperature 1, all filters off */

/* "full", "growpage", "fixed:T", "random[:0.7]", "inverse", "shrink[:-0.005:1024]", "zipage:T",
 * "gkv:T", "rkv:T", "morphkv:T", "snapkv:T", "h2o:T", "streaming:T" into the policy's fields of
 * options, its trigger and its scorer among them; the others are left alone.  growpage, fixed,
 * random, inverse and shrink may be followed by "+zipage", "+gkv", "+rkv" or "+snapkv", whose
 * scorer then says what stays. */
GP_API int gp_policy_parse(const char *text, struct gp_kv_options *options, struct gp_error *err);
/* The same words back; at most 64 bytes. */
GP_API void gp_policy_format(const struct gp_kv_options *options, char out[64]);

/* Every field in its range, for pages of so many tokens; as gp_engine_open() and
 * gp_engine_submit() check it. */
GP_API int gp_kv_options_check(const struct gp_kv_options *options, uint32_t page_tokens,
                               struct gp_error *err);

/* Has the policy a scorer, its own (zipage to streaming) or another's (growpage+zipage)? */
GP_API bool gp_policy_has_scorer(const struct gp_kv_options *options);
/* One of its switches, by the name of the field of struct gp_scorer: "window", "8"; "group", "max";
 * "normalize", "true".  GP_EINVAL for a policy that has none.  gp_kv_options_check() looks at
 * ranges. */
GP_API int gp_scorer_set(struct gp_kv_options *options, const char *name, const char *value,
                         struct gp_error *err);
/* Switch `index` back as text, at most 32 bytes; false behind the last. */
GP_API bool gp_scorer_get(const struct gp_kv_options *options, uint32_t index, const char **name,
                          char value[32]);
/* "page", "steps:N" or "token" into trigger and trigger_steps, and back. */
GP_API int gp_trigger_parse(const char *text, struct gp_kv_options *options, struct gp_error *err);
GP_API void gp_trigger_format(const struct gp_kv_options *options, char out[32]);

/* All memory is taken here; afterwards the engine's thread allocates nothing. */
GP_API int gp_engine_open(struct gp_engine **out, const struct gp_model *model,
                          const struct gp_engine_options *options, struct gp_error *err);
GP_API void gp_engine_close(struct gp_engine *engine); /* cancels what is in flight; NULL is fine */

/* What was taken and what it holds. */
struct gp_engine_info {
    uint32_t threads, page_tokens, page_count, context, max_seqs, max_batch_tokens;
    char kv_type[8];
    uint64_t kv_bytes;       /* the pool                                        */
    uint64_t kv_token_bytes; /* one token, all layers                           */
    uint64_t summary_bytes;  /* query summaries                                 */
    uint64_t score_bytes;    /* windows, scores and positions of the policies that have a scorer */
    uint64_t work_bytes;     /* activations, logits, scratch, queues            */
    uint32_t full_requests;  /* requests of `context` tokens that fit the pool at once */
};
GP_API void gp_engine_info(const struct gp_engine *engine, struct gp_engine_info *info);

enum gp_finish {
    GP_FINISH_NONE,   /* still running                                                       */
    GP_FINISH_STOP,   /* an end token, a stop id, or on_token said stop                      */
    GP_FINISH_LENGTH, /* max_tokens, or the context is full                                  */
    GP_FINISH_CANCELLED,
    GP_FINISH_CAPACITY, /* alone in the pool and still cannot go on                            */
    GP_FINISH_ERROR,    /* a constraint left no token                                          */
};

/* "stop", "length", ... */
GP_API const char *gp_finish_name(enum gp_finish finish);

/* on_token's answer: GP_GO, GP_STOP, or gp_force(id): the next token is id. */
#define GP_GO        (-1)
#define GP_STOP      (-2)
#define gp_force(id) (id)

/* What happened at one boundary (section 3), or at a cut every so many steps; cuts before every
 * token are counted in gp_request_stats.compress only. */
enum gp_action {
    GP_ACTION_GROW,
    GP_ACTION_COMPRESS,
    GP_ACTION_SHRINK
};
enum gp_cause {
    GP_CAUSE_POLICY,     /* a primary decision                              */
    GP_CAUSE_START,      /* no summaries yet                                */
    GP_CAUSE_INITIAL,    /* initial_pages not reached, or a budget not full */
    GP_CAUSE_PRESSURE,   /* the pool was empty enough                       */
    GP_CAUSE_CAPPED,     /* growth at max_pages                             */
    GP_CAUSE_FALLBACK,   /* growth was denied                               */
    GP_CAUSE_OVERRIDDEN, /* on_boundary said otherwise                      */
};

struct gp_boundary_event {
    uint32_t tokens; /* logical length at the boundary              */
    uint32_t pages_before;
    uint32_t pages_after;
    enum gp_action action;
    enum gp_cause cause;
    bool has_delta;
    double delta, demand_short, demand_long; /* r_S - r_L, r_S, r_L       */
};

/* How many slots a choice's newest row looked at (spec.md section 8): for each (layer, KV head)
 * the least number of slots that together have the share `kv.coverage` of its attention, the
 * mean of the group's query heads. */
struct gp_tap {
    uint32_t tokens; /* rows that have run                                   */
    uint32_t slots;  /* in use, the row's own among them                     */
    uint32_t layer_count, kv_head_count;
    const uint32_t *counts; /* [layer][KV head]; valid during the call              */
};

struct gp_request {
    const int32_t *tokens;   /* the prompt; copied                                              */
    uint32_t token_count;    /* at least 1                                                      */
    uint32_t max_tokens;     /* 0: to the end of the context; clamped to it                     */
    uint32_t min_tokens;     /* end tokens and stop ids are masked before                       */
    uint32_t n;              /* choices; 0 means 1                                              */
    int32_t logprobs;        /* -1: none; else the number of alternatives (<= 20) per token     */
    int32_t prompt_logprobs; /* the same for the prompt                                         */
    bool ignore_eos;         /* the model's end tokens do not stop                              */
    const int32_t *stop_ids; /* further ids that stop; copied                                   */
    uint32_t stop_id_count;
    const int32_t *forced; /* the first output tokens, taken as given; copied                 */
    uint32_t forced_count;

    /* Both are called on the engine's thread, must return quickly and must not call the engine.
     * constraint clears bits of mask [ceil(vocab/64)] for ids that may not come next, given the
     * output so far.  on_token sees each output token of a choice as it is drawn. */
    void (*constraint)(void *ctx, uint32_t choice, const int32_t *output, uint32_t count,
                       uint64_t *mask);
    int32_t (*on_token)(void *ctx, uint32_t choice, int32_t id);
    /* For measurement, under the same rules; NULL costs nothing.  on_boundary sees each decision
     * before it is carried out (pages_after is not set) and says what to do instead:
     * GP_ACTION_GROW, or GP_ACTION_COMPRESS, which is done where it can be.  on_tap sees every
     * tap_every-th generated row; the engine was opened with `taps`. */
    enum gp_action (*on_boundary)(void *ctx, uint32_t choice,
                                  const struct gp_boundary_event *event);
    void (*on_tap)(void *ctx, uint32_t choice, const struct gp_tap *tap);
    uint32_t tap_every; /* 0: every one */
    void *ctx;

    struct gp_sampling sampling;
    const struct gp_kv_options *kv; /* NULL: the engine's                                       */
    int32_t priority;       /* lower is served first: queued before, and gives way after       */
    const char *cache_salt; /* requests share pages only under the same salt; copied; NULL: ""  */
};

GP_API void gp_request_init(struct gp_request *request);

/* Any thread.  GP_EINVAL: a bad field, named, or a request that could never fit; GP_EAGAIN: full
 * now. */
GP_API int gp_engine_submit(struct gp_engine *engine, const struct gp_request *request,
                            uint64_t *id, struct gp_error *err);

/* For measurement: a request that goes on from where a running choice of another stands between two
 * steps, with its own copy of the pages and of all that the policy goes by.  On the thread that
 * steps.  From `request` it takes what concerns the tokens to come (max_tokens, forced, logprobs,
 * sampling, callbacks); tokens, n, prompt_logprobs and kv are the parent's, and must be left as
 * gp_request_init() made them.  The parent's history is in its counters and its log, so that it may
 * be preempted like any other.  GP_EAGAIN: no pages or no room now, or the parent does not stand
 * where a token is about to run (it waits, is in its prompt or a replay, or is being compacted). */
GP_API int gp_engine_fork(struct gp_engine *engine, uint64_t parent, uint32_t choice,
                          const struct gp_request *request, uint64_t *id, struct gp_error *err);

/* Any thread; unknown and finished ids are fine.  Pages are back within one step. */
GP_API void gp_engine_cancel(struct gp_engine *engine, uint64_t id);

/* One step on the calling thread, which owns the engine from its first step on.
 * Returns the number of rows that ran; 0: nothing to do. */
GP_API uint32_t gp_engine_step(struct gp_engine *engine);

/* Step until nothing is left to do. */
GP_API void gp_engine_run(struct gp_engine *engine);

/* An eventfd that is readable when some request has news (poll() clears it), and one that is
 * readable when a submit or a cancel waits for the next step (step() clears it). */
GP_API int gp_engine_news_fd(const struct gp_engine *engine);
GP_API int gp_engine_work_fd(const struct gp_engine *engine);

/* Any thread: ids that have news since the last poll; returns how many were written.  What found no
 * room comes first the next time. */
GP_API uint32_t gp_engine_poll(struct gp_engine *engine, uint64_t *ids, uint32_t max);

struct gp_logprob {
    int32_t id;
    float logprob; /* log-softmax of the raw logits: before penalties, bias, mask and temperature */
};

struct gp_token {
    int32_t id;
    float logprob; /* 0 when not asked for */
};

/* Any thread: copy choice's output tokens from index `from` on; returns how many.  *finish, when
 * not NULL, is what the choice's state was after the last token that exists now. */
GP_API uint32_t gp_engine_read(struct gp_engine *engine, uint64_t id, uint32_t choice,
                               uint32_t from, struct gp_token *out, uint32_t max,
                               enum gp_finish *finish);

/* The best alternatives of output token `index`, or of prompt token `index` when prompt is set
 * (index 0 has none); best first; returns how many. */
GP_API uint32_t gp_engine_alternatives(struct gp_engine *engine, uint64_t id, uint32_t choice,
                                       bool prompt, uint32_t index, struct gp_logprob *out,
                                       uint32_t max);
/* The logprob of prompt token `index` given those before it; 0 for index 0. */
GP_API float gp_engine_prompt_logprob(struct gp_engine *engine, uint64_t id, uint32_t index);

struct gp_request_stats {
    uint32_t prompt_tokens;
    uint32_t output_tokens;
    uint32_t cached_tokens;                   /* prompt tokens served from the prefix index */
    uint64_t seed;                            /* the one in use                             */
    uint64_t queue_ns, prefill_ns, decode_ns; /* waiting; to the first token; from it to the last */
    double tpot_ms; /* of decode_ns, for each token behind the first; 0: there is none */
    uint32_t pages, pages_peak;
    double pages_mean;               /* mean of P over decode steps                */
    uint32_t slots;                  /* n_cached                                   */
    uint32_t grow, compress, shrink; /* primary decisions      */
    uint32_t start, initial, pressure, capped, fallback, preempt;
    uint64_t demand_ns, score_ns, select_ns, compact_ns;
    uint32_t boundary_count; /* events kept; the first GP_BOUNDARIES_KEPT of them */
};
#define GP_BOUNDARIES_KEPT 512u

GP_API bool gp_engine_request_stats(struct gp_engine *engine, uint64_t id, uint32_t choice,
                                    struct gp_request_stats *stats);
GP_API bool gp_engine_boundary(struct gp_engine *engine, uint64_t id, uint32_t choice,
                               uint32_t index, struct gp_boundary_event *event);

/* Forget a request; its id is unknown from then on.  One that still runs is cancelled first. */
GP_API void gp_engine_release(struct gp_engine *engine, uint64_t id);

/* The figures of a run.  A decode step is one in which a choice gets a token that is not its first;
 * a token counts from when it can be read.  Figures in floating point are 0 where there is nothing
 * to take them over. */
struct gp_run_figures {
    uint64_t output_tokens;
    uint64_t decode_steps;
    uint64_t decoding_ns; /* inside of decode steps                                           */
    uint64_t serving_ns;  /* from the first decode step to the last token or end of a choice  */
    double tps;           /* output tokens a second of serving_ns                             */
    double tpot_ms;       /* mean of the choices' own, over those that ended with two or more */
    double ttft_ms;       /* mean over choices, from submit to the first token                */
    double kv_budget;     /* tokens: over the same as tpot_ms, mean of pages_mean in tokens   */
    double concurrency;   /* C: choices that hold pages, mean over decode steps               */
    uint32_t concurrency_max;
};

struct gp_engine_stats {
    uint32_t running, waiting, pages_used, pages_free;
    uint32_t pages_used_max; /* since the run began */
    uint64_t steps, rows, prompt_tokens, output_tokens;
    uint64_t grow, compress, shrink, start, initial, pressure, capped, fallback, preempt;
    uint64_t demand_ns, score_ns, select_ns, compact_ns, forward_ns, sample_ns;
    uint64_t prefix_asked; /* tokens that were looked for in the prefix index, at admissions */
    uint64_t prefix_found; /* ... and those that did not have to be computed */
    struct gp_run_figures run;
};
GP_API void gp_engine_stats(struct gp_engine *engine, struct gp_engine_stats *stats);

/* On the thread that steps: the figures of a run begin here and no longer where the engine was
 * opened, for an engine that serves several runs.  The counters go on. */
GP_API void gp_engine_begin_run(struct gp_engine *engine);

/* ---- perplexity ---- */

struct gp_perplexity {
    double perplexity;
    double error; /* one standard error, of the mean negative log-likelihood times perplexity */
    uint32_t windows;
    uint64_t scored; /* tokens that count */
};

/* llama-perplexity's convention: windows of `window` tokens without overlap, BOS put over the first
 * token of each where the file asks for one, only the second half of each window scored.
 * kv_type: that of the cache, as in struct gp_engine_options; NULL: "f16". */
GP_API int gp_perplexity(const struct gp_model *model, const int32_t *tokens, uint32_t count,
                         uint32_t window, uint32_t threads, const char *kv_type,
                         void (*progress)(void *ctx, uint32_t done, uint32_t total, double so_far),
                         void *ctx, struct gp_perplexity *out, struct gp_error *err);

/* ---- the speed of the kernels ---- */

/* The arithmetic below an engine, timed one kind of work at a time and without a model: what this
 * machine could give, to hold an engine's speed against.  One thread calls. */
struct gp_gauge;

struct gp_gauge_options {
    uint32_t threads;   /* 0: one per core                                                      */
    const char *cpu;    /* the level, as in struct gp_model_options                             */
    uint64_t bytes;     /* about so much is read from memory, and must be more than all caches hold;
                           0: four times the last one, at least 256 MiB                         */
    uint64_t sample_ns; /* a sample is the median of the runs of this time, 4,096 at most       */
};

GP_API int gp_gauge_open(struct gp_gauge **out, const struct gp_gauge_options *options,
                         struct gp_error *err);
GP_API void gp_gauge_close(struct gp_gauge *gauge); /* NULL is fine */

/* "ref", "avx2", "avx512" */
GP_API const char *gp_gauge_level(const struct gp_gauge *gauge);

enum gp_gauge_unit {
    GP_GAUGE_BYTES, /* read from memory, once each      */
    GP_GAUGE_MACS,  /* multiplications with an addition */
    GP_GAUGE_CALLS, /* of the kernel                    */
};

/* One kind of work. */
struct gp_gauge_case {
    char kernel[16]; /* "read" (a plain sum), "matmul", "attention", "rms_norm", ...           */
    char type[8];    /* of the weights, the cache, or what is made: "Q4_K", "q8_0", "f32"      */
    char shape[40];  /* "1024 x 1024"                                                          */
    uint32_t rows;   /* of activations or queries                                              */
    uint32_t threads;
    bool alone; /* it runs on one thread, whatever the options say                        */
    enum gp_gauge_unit unit;
    double work; /* of one run, in units                                                   */
};

/* False behind the last. */
GP_API bool gp_gauge_case(const struct gp_gauge *gauge, uint32_t index, struct gp_gauge_case *out);

/* Make the data of a case, run it once, and give the data of the last one back. */
GP_API int gp_gauge_select(struct gp_gauge *gauge, uint32_t index, struct gp_error *err);

/* The time of one run of the selected case, and of what it is compared with, in turns; 0 where
 * there is nothing to compare it with. */
struct gp_gauge_sample {
    double ns;
    double read_ns;       /* a plain sum over the same bytes, by as many threads         */
    double definition_ns; /* the level "ref", of a case that ran on one thread           */
};
GP_API void gp_gauge_take(struct gp_gauge *gauge, struct gp_gauge_sample *out);

#ifdef __cplusplus
}
#endif

#endif
