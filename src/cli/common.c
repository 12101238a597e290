/* What several commands do at their start. */
#include <string.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/io.h"

int gp_read_prompt(const struct gp_settings *s, char **text, size_t *length, struct gp_error *err)
{
    if (s->prompt_file)
        return gp_read_file(s->prompt_file, text, length, err);
    *length = strlen(s->prompt);
    *text = gp_mem_copy(s->prompt, *length);
    return *text ? GP_OK : gp_fail(err, GP_ENOMEM, "prompt: out of memory");
}

static void show_progress(void *ctx, double share)
{
    (void)ctx;
    gp_progress("loading", share);
}

int gp_open_model(struct gp_model **out, const struct gp_settings *s, bool vocab_only,
                  struct gp_error *err)
{
    struct gp_model_options options;
    char *text;

    int rc = gp_settings_model(s, vocab_only, &options, &text, err);
    if (rc)
        return rc;
    if (!vocab_only)
        options.progress = show_progress;
    rc = gp_model_open(out, &options, err);
    gp_progress_end();
    gp_mem_free(text);
    return rc;
}
