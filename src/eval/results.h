/* The results of records (growpage eval -o, growpage analyze -o), for tables and figures.
 *
 * An arm is a policy with all settings that were equal; records of equal settings are one, whatever
 * problems they asked.  An arm's name is its policy and the settings in which the records at hand
 * differ.  Sources that bring a name are one arm a name, whatever their policies and settings. */
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

/* What is read, and what is said of it; all but the path may be NULL. */
struct gp_source {
    const char *path;
    const char *name;   /* of the arm that its answers belong to, or of the analysis      */
    const char *series; /* of the arms that a figure joins; by default those of one policy */
    const char *point;  /* what a figure writes beside the arm; by default its budget      */
};

struct gp_record_file {
    const struct gp_source *source; /* the caller's   */
    json_t *run;                    /* its first line */
    json_t *found;                  /* of an analysis: its other lines; NULL: a record */
    bool complete;
};

/* Sums over lines `served`. */
struct gp_served {
    double tokens, ms, steps, resident;
};

struct gp_arm {
    char name[160];
    char policy[64];
    uint32_t file;   /* the first that it is in        */
    uint32_t budget; /* nominal tokens; 0: none      */
    uint32_t page_tokens;
    struct gp_served served;                       /* all lines                          */
    struct gp_served suite[GP_RESULTS_SUITES_MAX]; /* those of records of one suite each */
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

/* Freed with gp_results_free(), also after an error, which names the file.  The sources outlive
 * it. */
int gp_results_read(struct gp_results *out, const struct gp_source *sources, uint32_t count,
                    struct gp_error *err);
void gp_results_free(struct gp_results *results);

/* Output tokens a second; NaN where no line says. */
double gp_served_tps(const struct gp_served *served);

/* The answers of an arm to a suite, which lie beside each other; *count may be 0. */
const struct gp_result *gp_results_of(const struct gp_results *results, uint32_t arm,
                                      uint32_t suite, size_t *count);

/* Arms that a figure joins: those of one series, or that differ in their budget alone. */
struct gp_family {
    uint32_t arms[GP_RESULTS_ARMS_MAX]; /* by budget */
    uint32_t count;
    char name[160];
};

/* The family that begins with this arm; empty when an earlier arm is of it. */
void gp_results_family(const struct gp_results *results, uint32_t first, struct gp_family *out);

/* The share of right answers to each problem, in the order of the problems: *count of them in
 * *shares, *indices, which are the caller's (gp_mem_free). */
int gp_results_shares(const struct gp_result *items, size_t item_count, double **shares,
                      uint64_t **indices, size_t *count, struct gp_error *err);

#endif
