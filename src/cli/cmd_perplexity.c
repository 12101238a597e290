/* growpage perplexity: how surprised a model is by a text, in llama-perplexity's convention. */
#include <stdio.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/io.h"

static void show_progress(void *ctx, uint32_t done, uint32_t total, double so_far)
{
    char what[64];

    (void)ctx;
    snprintf(what, sizeof what, "window %u of %u, so far %.4f", done, total, so_far);
    gp_progress(what, (double)done / total);
}

static int measure(const struct gp_model *model, const struct gp_settings *s, const int32_t *ids,
                   uint32_t count, struct gp_error *err)
{
    struct gp_perplexity result;

    int rc = gp_perplexity(model, ids, count, s->window, s->engine.threads, s->engine.kv_type,
                           show_progress, NULL, &result, err);
    gp_progress_end();
    if (rc)
        return rc;
    rc = gp_printf(err,
                   "llama-perplexity's convention: windows of %u tokens without overlap, BOS over "
                   "the first token of each where the file asks for one, the second half of each "
                   "scored\n"
                   "%u tokens, %u windows, %llu scored\n"
                   "standard error = %.4f\n"
                   "perplexity = %.4f\n",
                   s->window, count, result.windows, (unsigned long long)result.scored,
                   result.error, result.perplexity);
    return rc ? rc : gp_print_end(err);
}

int gp_cmd_perplexity(struct gp_settings *s)
{
    struct gp_model *model;
    struct gp_error err;
    int32_t *ids;
    uint32_t count;
    char *text;
    size_t length;

    if (!s->prompt_file) {
        gp_error_set(&err, "perplexity: no text: give -f FILE, or - for standard input");
        return gp_tell(GP_EXIT_USAGE, &err);
    }
    if (gp_read_prompt(s, &text, &length, &err))
        return gp_tell(GP_EXIT_FAILED, &err);
    int rc = gp_open_model(&model, s, false, &err);
    if (!rc) {
        rc = gp_encode_text(model, text, length, true, false, &ids, &count, &err);
        if (!rc) {
            rc = measure(model, s, ids, count, &err);
            gp_free(ids);
        }
        gp_model_close(model);
    }
    gp_mem_free(text);
    return rc ? gp_tell(GP_EXIT_FAILED, &err) : GP_EXIT_OK;
}
