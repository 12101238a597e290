/* What several commands do at their start. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/log.h"
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

/* A byte that is no token by itself is part of none either, since merges begin with bytes. */
static size_t count_lost(const struct gp_model *model, const char *text, size_t length)
{
    size_t counts[256] = {0}, lost = 0;

    for (size_t i = 0; i < length; i++)
        counts[(unsigned char)text[i]]++;
    for (int byte = 0; byte < 256; byte++) {
        int32_t *ids;
        uint32_t count;

        if (counts[byte] == 0 ||
            gp_model_tokenize(model, &(char){(char)byte}, 1, false, false, &ids, &count, NULL))
            continue;
        lost += count == 0 ? counts[byte] : 0;
        gp_free(ids);
    }
    return lost;
}

int gp_encode_text(const struct gp_model *model, const char *text, size_t length, bool add_special,
                   bool parse_special, int32_t **ids, uint32_t *count, struct gp_error *err)
{
    size_t lost = count_lost(model, text, length);

    if (lost > 0)
        gp_log_warn("text: %zu byte%s without a token in this vocabulary left out", lost,
                    lost == 1 ? "" : "s");
    return gp_model_tokenize(model, text, length, add_special, parse_special, ids, count, err);
}

int gp_open_trace(struct gp_settings *s, struct gp_error *err)
{
    if (!s->trace_path)
        return GP_OK;
    s->engine.trace_fd = open(s->trace_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (s->engine.trace_fd < 0)
        return gp_fail(err, GP_EIO, "--kv-trace: %s: %s", s->trace_path, strerror(errno));
    return GP_OK;
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
