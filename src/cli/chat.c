/* A conversation on a terminal.  Every turn renders all messages through the template anew, as a
 * server that keeps no state would, so that the model sees what an API client would have sent. */
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <histedit.h>
#include <jansson.h>

#include "cli/commands.h"
#include "cli/io.h"
#include "cli/report.h"

struct conversation {
    struct gp_engine *engine;
    const struct gp_model *model;
    const struct gp_settings *settings;
    struct gp_engine_info info;
    json_t *messages;
    struct gp_answer last;
    bool answered;
};

static const char help[] =
    "/kv     the cache during the last answer\n"
    "/clear  forget the conversation\n"
    "/help   this\n"
    "/quit   leave, as Ctrl-D and Ctrl-C do; during an answer Ctrl-C ends it\n";

static char *prompt_text(EditLine *line)
{
    static char text[] = "> ";

    (void)line;
    return text;
}

static unsigned char leave(EditLine *line, int key)
{
    (void)line;
    (void)key;
    return CC_EOF;
}

static EditLine *open_line(History **past)
{
    HistEvent event;

    gp_take_unicode();
    EditLine *line = el_init("growpage", stdin, stdout, stderr);
    *past = history_init();
    if (!line || !*past) {
        if (line)
            el_end(line);
        if (*past)
            history_end(*past);
        return NULL;
    }
    history(*past, &event, H_SETSIZE, 1000);
    el_set(line, EL_PROMPT, prompt_text);
    el_set(line, EL_EDITOR, "emacs");
    el_set(line, EL_HIST, history, *past);
    /* A signal would leave the terminal half set; as a key Ctrl-C goes the way of Ctrl-D. */
    el_set(line, EL_SETTY, "-d", "-isig", NULL);
    el_wset(line, EL_ADDFN, L"leave", L"end the conversation", leave); /* el_set's copy leaks */
    el_set(line, EL_BIND, "^C", "leave", NULL);
    return line;
}

static int append_message(json_t *messages, const char *role, const char *text, size_t length)
{
    return json_array_append_new(messages,
                                 json_pack("{s:s, s:s%}", "role", role, "content", text, length));
}

static void forget_last(struct conversation *c)
{
    json_array_remove(c->messages, json_array_size(c->messages) - 1);
}

static int render(const struct conversation *c, int32_t **ids, uint32_t *count,
                  struct gp_error *err)
{
    char *messages = json_dumps(c->messages, JSON_COMPACT);
    struct gp_chat chat = {
        .messages = messages,
        .variables = c->settings->chat_variables,
        .add_generation_prompt = true,
        .now = (int64_t)time(NULL),
    };

    if (!messages)
        return gp_fail(err, GP_ENOMEM, "conversation: out of memory");
    int rc = gp_model_apply_template(c->model, &chat, ids, count, NULL, NULL, err);
    free(messages);
    return rc;
}

/* libedit shows its prompt before it takes the terminal over: in between Ctrl-C would kill, and a
 * Ctrl-D would be an end of file that nobody reads.  From the end of an answer, and before every
 * prompt, both are keys already, and wait; the line's end makes them signals again.  (libedit takes
 * no notice of a mode that is not line by line, and goes back to the one it found at its start.) */
static void hold_keys(void)
{
    struct termios mode;

    if (tcgetattr(STDIN_FILENO, &mode) == 0) {
        mode.c_lflag &= ~(tcflag_t)(ISIG | ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSANOW, &mode);
    }
}

static const char *next_line(EditLine *line, int *count)
{
    hold_keys();
    return el_gets(line, count);
}

/* The newest message is the user's; answer it, or take it back and say why. */
static int answer(struct conversation *c, struct gp_error *err)
{
    struct gp_generate_hooks hooks = {.print = true};
    struct gp_answer next;
    int32_t *ids;
    uint32_t count;

    int rc = render(c, &ids, &count, err);
    if (!rc) {
        gp_interrupt_arm();
        rc = gp_generate(c->engine, c->model, c->settings, ids, count, &hooks, &next, err);
        hold_keys();
        gp_interrupt_disarm();
        gp_free(ids);
    }
    if (rc) {
        forget_last(c);
        return rc;
    }
    if (append_message(c->messages, "assistant", next.text, next.text_length)) {
        gp_answer_free(&next);
        return gp_fail(err, GP_ENOMEM, "conversation: out of memory");
    }
    gp_answer_free(&c->last);
    c->last = next;
    c->answered = true;
    fprintf(stderr, "\n\n[%s; %u + %u tokens, %.1f tok/s, %u page%s, %u grow, %u compress; /kv]\n",
            gp_finish_name(next.finish), next.stats.prompt_tokens, next.stats.output_tokens,
            next.stats.decode_ns ? (next.stats.output_tokens - 1) * 1e9 / next.stats.decode_ns : 0,
            next.stats.pages, next.stats.pages == 1 ? "" : "s", next.stats.grow,
            next.stats.compress);
    return GP_OK;
}

/* False: leave. */
static bool obey(struct conversation *c, const char *command)
{
    if (strcmp(command, "/quit") == 0)
        return false;
    if (strcmp(command, "/clear") == 0) {
        json_array_clear(c->messages);
        fprintf(stderr, "The conversation is forgotten.\n");
    } else if (strcmp(command, "/kv") == 0) {
        struct gp_engine_stats stats;

        gp_engine_stats(c->engine, &stats);
        if (c->answered)
            gp_report_cache(&c->info, &c->last);
        fprintf(stderr, "pool    %u of %u pages in use now, %u at most so far\n", stats.pages_used,
                c->info.page_count, stats.pages_used_max);
    } else if (strcmp(command, "/help") == 0) {
        fputs(help, stderr);
    } else {
        fprintf(stderr, "%s: unknown; /help lists the commands\n", command);
    }
    return true;
}

/* One line of the user's; false: leave, with *rc set. */
static bool take_line(struct conversation *c, const char *text, size_t length, int *rc)
{
    struct gp_error err;

    if (length == 0)
        return true;
    if (text[0] == '/')
        return obey(c, text);
    if (append_message(c->messages, "user", text, length)) {
        fprintf(stderr, "growpage: message: not valid UTF-8\n");
        return true;
    }
    if (answer(c, &err)) {
        gp_tell(GP_EXIT_FAILED, &err);
        fprintf(stderr, "The message was taken back; /clear forgets the conversation.\n");
        if (ferror(stdout) || fflush(stdout)) {
            *rc = GP_EXIT_FAILED;
            return false;
        }
    }
    return true;
}

int gp_converse(struct gp_engine *engine, const struct gp_model *model,
                const struct gp_settings *settings)
{
    struct conversation c = {.engine = engine, .model = model, .settings = settings};
    History *past;
    HistEvent event;
    EditLine *line = open_line(&past);
    int rc = GP_EXIT_OK, count;
    const char *text;

    gp_engine_info(engine, &c.info);
    c.messages = json_array();
    if (!line || !c.messages) {
        struct gp_error err;

        gp_error_set(&err, "conversation: the terminal cannot be edited on");
        return gp_tell(GP_EXIT_FAILED, &err);
    }
    fputs(help, stderr);
    while ((text = next_line(line, &count)) && count > 0) {
        size_t length = (size_t)count;
        char *copy;

        while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r'))
            length--;
        if (length > 0)
            history(past, &event, H_ENTER, text);
        copy = strndup(text, length);
        if (!copy || !take_line(&c, copy, length, &rc)) {
            free(copy);
            break;
        }
        free(copy);
    }
    fputc('\n', stderr);
    gp_answer_free(&c.last);
    json_decref(c.messages);
    history_end(past);
    el_end(line);
    return rc;
}
