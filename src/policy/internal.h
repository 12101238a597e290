/* What the files of this room share. */
#ifndef GP_POLICY_INTERNAL_H
#define GP_POLICY_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "growpage_options.h"

/* Most pages that a request of this policy may hold once it has summaries: a fixed budget's, the
 * request's own max_pages, or both; UINT32_MAX when nothing bounds it. */
uint32_t gp_policy_cap_pages(const struct gp_kv_options *options, uint32_t page_tokens);

/* A fixed budget in pages: rounded down, at least 2. */
uint32_t gp_policy_budget_pages(const struct gp_kv_options *options, uint32_t page_tokens);

#endif
