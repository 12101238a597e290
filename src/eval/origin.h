/* Where a figure comes from: program, model, processor and machine, as every result states them. */
#ifndef GP_EVAL_ORIGIN_H
#define GP_EVAL_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "growpage.h"

struct gp_origin {
    struct gp_model_info model; /* its texts are clean */
    char model_path[4096];
    char model_hash[64]; /* "xxh128:" and what xxh128sum prints of the file */
    char processor[128]; /* "AMD EPYC 7763 64-Core Processor"               */
    char kernel[65];     /* the operating system's                          */
    uint32_t cores;      /* that are online                                 */
    uint64_t memory_bytes;
};

/* The machine alone, for figures that have no model. */
void gp_origin_take_machine(struct gp_origin *out);

/* Reads the whole model file. */
int gp_origin_take(struct gp_origin *out, const struct gp_model *model, const char *model_path,
                   struct gp_error *err);

/* Now, as "2026-11-30T11:58:50Z". */
#define GP_TIME_TEXT_BYTES 32u
void gp_time_format(char out[GP_TIME_TEXT_BYTES]);

/* JSON, NULL for no memory: path, hash, name, arch, quant, parameters, bytes; */
json_t *gp_origin_model(const struct gp_origin *origin);
/* processor, cores, memory_bytes, kernel; */
json_t *gp_origin_machine(const struct gp_origin *origin);
/* temperature, top_k, top_p, min_p, the penalties, ignore_eos; */
json_t *gp_origin_sampling(const struct gp_sampling *sampling, bool ignore_eos);
/* context, max_seqs, max_batch_tokens, pages, kv_type, page_size, kv_bytes; */
json_t *gp_origin_engine(const struct gp_engine *engine);
/* and the options of the cache that all policies share; the rest is in a policy's name. */
json_t *gp_origin_cache(const struct gp_kv_options *kv);

#endif
