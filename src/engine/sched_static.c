/* Static batching (spec.md section 7): how an engine without continuous batching runs requests, for
 * comparisons.
 *
 * A batch is the front of the queue, as far as the pool can hold all of it at its most: each policy
 * bounds what its request may come to, so no member is ever denied a page.  One that is too large
 * for the pool by itself is a batch of its own.  A batch takes members until its first decode
 * row; that comes when all prompts are done, so its members begin together.  Then nobody is
 * admitted until the last member has ended, and pages that come free before lie idle.  A member
 * that was preempted nevertheless (gp_sched_preempt() from outside) comes back in the next. */
#include "engine/sched_internal.h"

void gp_sched_begin_batch(struct gp_sched *s)
{
    if (!s->options.static_batches || s->running.count > 0)
        return;
    s->batch_open = true;
    s->batch_pages = 0;
}

/* More than the policy says only where a recompute comes back uncompressed. */
static uint32_t most_pages(const struct gp_sched *s, const struct gp_seq *seq)
{
    uint32_t most =
        gp_policy_most_pages(&seq->kv, s->options.page_tokens, seq->prompt_count, seq->tokens_most);

    return most > seq->need ? most : seq->need;
}

bool gp_sched_may_join(const struct gp_sched *s, const struct gp_seq *seq)
{
    if (!s->options.static_batches)
        return true;
    uint64_t pages = (uint64_t)s->batch_pages + most_pages(s, seq) + s->options.watermark;

    return s->batch_open && (s->running.count == 0 || pages <= gp_pool_total(s->pool));
}

void gp_sched_join(struct gp_sched *s, const struct gp_seq *seq)
{
    if (s->options.static_batches)
        s->batch_pages += most_pages(s, seq);
}

static bool prompts_are_done(const struct gp_sched *s)
{
    for (const struct gp_seq *seq = s->running.head; seq; seq = seq->next)
        if (seq->computed < seq->prefill_count)
            return false;
    return true;
}

bool gp_sched_may_decode(struct gp_sched *s)
{
    if (!s->options.static_batches)
        return true;
    if (s->batch_open && !prompts_are_done(s))
        return false;
    s->batch_open = false;
    return true;
}
