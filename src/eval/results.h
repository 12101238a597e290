/* The results of records (growpage eval -o), for tables and figures.
 *
 * An arm is a policy with all settings that were equal; records of equal settings are one, whatever
 * problems they asked.  An arm's name is its policy and the settings in which the records at hand
 * differ. */
#ifndef GP_EVAL_RESULTS_H
#define GP_EVAL_RESULTS_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"
#include "eval/bootstrap.h"
#include "eval/figures.h"

#define GP_RESULTS_ARMS_MAX   128u
#define GP_RESULTS_SUITES_MAX 32u

struct gp_record_file {
    char *path;
    json_t *run; /* its first line */
    bool complete;
};

struct gp_arm {
    char name[160];
    char policy[64];
    uint32_t file;   /* the first that it is in        */
    uint32_t budget; /* nominal tokens; 0: none      */
    uint32_t page_tokens;
    /* Of the lines `served`. */
    double served_tokens, serving_ms, decode_steps, resident_sum;
};

/* An answer, its texts replaced by numbers. */
struct gp_result {
    uint32_t arm, suite;
    struct gp_figures figures;
};

struct gp_results {
    struct gp_record_file *files;
    uint32_t file_count;
    struct gp_arm arms[GP_RESULTS_ARMS_MAX];
    uint32_t arm_count;
    char suites[GP_RESULTS_SUITES_MAX][64];
    uint32_t suite_count;
    struct gp_result *items; /* by arm, suite, index, number */
    size_t count, room;
};

/* Freed with gp_results_free(), also after an error, which names the file. */
int gp_results_read(struct gp_results *out, char *const *paths, uint32_t count,
                    struct gp_error *err);
void gp_results_free(struct gp_results *results);

/* The answers of an arm to a suite, which lie beside each other; *count may be 0. */
const struct gp_result *gp_results_of(const struct gp_results *results, uint32_t arm,
                                      uint32_t suite, size_t *count);

/* The share of right answers to each problem, in the order of the problems: *count of them in
 * *shares, *indices, which are the caller's (gp_mem_free). */
int gp_results_shares(const struct gp_result *items, size_t item_count, double **shares,
                      uint64_t **indices, size_t *count, struct gp_error *err);

#endif
