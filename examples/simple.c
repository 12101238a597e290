/* A whole program on libgrowpage: one question, one streamed answer.
 *
 *   cc simple.c $(pkg-config --cflags --libs growpage) -o simple && ./simple model.gguf */
#include <inttypes.h>
#include <stdio.h>

#include <growpage.h>

static int fail(const struct gp_error *err)
{
    fprintf(stderr, "simple: %s\n", err->message);
    return 1;
}

int main(int argc, char **argv)
{
    struct gp_model_options model_options = {.path = argc > 1 ? argv[1] : "model.gguf"};
    struct gp_engine_options options;
    struct gp_request request;
    struct gp_request_stats stats;
    struct gp_chat chat = {
        .messages = "[{\"role\": \"user\", \"content\": \"Name three rivers of Europe.\"}]",
        .add_generation_prompt = true,
    };
    struct gp_model *model;
    struct gp_engine *engine;
    struct gp_decoder *decoder;
    struct gp_error err;
    int32_t *prompt;
    uint32_t prompt_count, shown = 0;
    enum gp_finish finish = GP_FINISH_NONE;
    uint64_t id;

    gp_engine_options_init(&options); /* all the memory there will ever be is taken at the open */
    options.max_seqs = 1;
    options.context = 1024;
    if (gp_model_open(&model, &model_options, &err) ||
        gp_model_apply_template(model, &chat, &prompt, &prompt_count, NULL, NULL, &err) ||
        gp_engine_open(&engine, model, &options, &err) ||
        gp_decoder_open(&decoder, model, false, &err))
        return fail(&err);

    gp_request_init(&request);
    request.tokens = prompt;
    request.token_count = prompt_count;
    request.max_tokens = 100;
    request.sampling.temperature = 0; /* always the likeliest token */
    if (gp_engine_submit(engine, &request, &id, &err))
        return fail(&err);

    while (finish == GP_FINISH_NONE) {
        struct gp_token token;

        gp_engine_step(engine);
        for (; gp_engine_read(engine, id, 0, shown, &token, 1, &finish) == 1; shown++)
            fputs(gp_decoder_next(decoder, token.id, NULL), stdout);
        fflush(stdout);
    }
    gp_engine_request_stats(engine, id, 0, &stats);
    printf("\n[%s after %" PRIu32 " tokens, %" PRIu32 " pages]\n", gp_finish_name(finish),
           stats.output_tokens, stats.pages);

    gp_decoder_close(decoder);
    gp_engine_close(engine);
    gp_free(prompt);
    gp_model_close(model);
    return 0;
}
