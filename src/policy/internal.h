/* What the files of this room share. */
#ifndef GP_POLICY_INTERNAL_H
#define GP_POLICY_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "growpage_options.h"
#include "policy/policy.h"

/* Most pages that a request of this policy may hold once it has summaries: a fixed budget's, the
 * request's own max_pages, or both; UINT32_MAX when nothing bounds it. */
uint32_t gp_policy_cap_pages(const struct gp_kv_options *options, uint32_t page_tokens);

/* A fixed budget in pages: rounded down, at least 2. */
uint32_t gp_policy_budget_pages(const struct gp_kv_options *options, uint32_t page_tokens);

/* Digits alone; a finite decimal number.  False, and *out is left alone, for anything else. */
bool gp_policy_parse_count(const char *text, uint32_t *out);
bool gp_policy_parse_number(const char *text, double *out);

/* ---- baselines.c: policies with a scorer ---- */

#define GP_POLICY_WINDOW_MAX 1024u

/* Fixed budgets with a scorer of their own, zipage to streaming. */
bool gp_policy_is_baseline(const struct gp_kv_options *options);

/* Can its scorer select for a policy without one?  Those that cut at full pages. */
bool gp_policy_may_select(enum gp_policy policy);

/* Trigger and scorer as the policy's own row has them, or the scorer of whoever selects. */
void gp_policy_set_scorer(struct gp_kv_options *options);

/* The budget in slots (zipage: whole pages), and the pages that it takes with the room for what
 * comes next. */
uint32_t gp_policy_budget_slots(const struct gp_kv_options *options, uint32_t page_tokens);
uint32_t gp_policy_rest_pages(const struct gp_kv_options *options, uint32_t page_tokens);

/* The newest tokens that a cut never drops. */
uint32_t gp_policy_protected(const struct gp_kv_options *options);

/* Slots in use behind a cut at full pages that leaves pages_after of them. */
uint32_t gp_policy_slots_after(const struct gp_kv_options *options, uint32_t page_tokens,
                               uint32_t pages_after);
struct gp_retention gp_policy_retain_scored(const struct gp_kv_options *options,
                                            uint32_t page_tokens, uint32_t pages);

int gp_policy_check_scorer(const struct gp_kv_options *options, const char *name,
                           uint32_t page_tokens, struct gp_error *err);

#endif
