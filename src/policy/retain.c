/* How many slots a compaction keeps (spec.md section 4). */
#include "policy/policy.h"

#include "base/assert.h"
#include "policy/internal.h"

/* Slots that the page quotas alone keep: `local` in each page, but never more than a page has that
 * are not protected, and the protected ones all lie in the last. */
static uint64_t local_slots(uint32_t local, uint32_t page_tokens, uint32_t pages, uint32_t protect)
{
    uint32_t in_last = page_tokens - protect;

    return (uint64_t)(pages - 1) * local + (local < in_last ? local : in_last);
}

struct gp_retention gp_policy_retention(const struct gp_kv_options *options, uint32_t page_tokens,
                                        uint32_t pages, enum gp_policy_action action)
{
    uint32_t cap = gp_policy_cap_pages(options, page_tokens);
    uint32_t half = page_tokens / 2; /* 16 slots are protected, or half a page when that is less */
    struct gp_retention r = {
        .pages_after = action == GP_DO_SHRINK ? pages - 1 : pages,
        .protect = options->protect ? options->protect
                   : half < 16      ? half
                                    : 16,
        .local = options->local ? options->local : page_tokens / 4,
    };

    gp_assert(action != GP_DO_GROW);
    if (gp_policy_is_baseline(options))
        return gp_policy_retain_scored(options, page_tokens, pages);
    if (r.pages_after > cap)
        r.pages_after = cap;
    gp_assert(r.pages_after >= 2);
    gp_assert(r.protect < page_tokens);
    r.keep = (r.pages_after - 1) * page_tokens - r.protect;
    while (local_slots(r.local, page_tokens, pages, r.protect) > r.keep)
        r.local--;
    return r;
}
