/* growpage tokenize and detokenize: between bytes and ids, exactly. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/io.h"

/* A piece that a tab-separated line can hold: control bytes, the backslash and what is no UTF-8 are
 * written as C writes them. */
static int print_piece(const char *piece, size_t length, struct gp_error *err)
{
    int rc = GP_OK;

    while (length > 0 && !rc) {
        size_t valid = gp_utf8_valid(piece, length), plain = 0;

        while (plain < valid && (unsigned char)piece[plain] >= ' ' && piece[plain] != '\\' &&
               piece[plain] != 0x7f)
            plain++;
        if (plain > 0) {
            rc = gp_printf(err, "%.*s", (int)plain, piece);
        } else {
            plain = 1;
            if (*piece == '\n')
                rc = gp_printf(err, "\\n");
            else if (*piece == '\t')
                rc = gp_printf(err, "\\t");
            else if (*piece == '\\')
                rc = gp_printf(err, "\\\\");
            else
                rc = gp_printf(err, "\\x%02x", (unsigned char)*piece);
        }
        piece += plain;
        length -= plain;
    }
    return rc;
}

static int print_ids(const struct gp_model *model, const int32_t *ids, uint32_t count, bool pieces,
                     struct gp_error *err)
{
    int rc = GP_OK;

    for (uint32_t i = 0; i < count && !rc; i++) {
        char *piece;
        size_t length;

        if (!pieces) {
            rc = gp_printf(err, "%s%d", i ? " " : "", ids[i]);
            continue;
        }
        rc = gp_model_detokenize(model, &ids[i], 1, true, &piece, &length, err);
        if (rc)
            break;
        rc = gp_printf(err, "%d\t", ids[i]);
        if (!rc)
            rc = print_piece(piece, length, err);
        if (!rc)
            rc = gp_printf(err, "\n");
        gp_free(piece);
    }
    if (!rc && !pieces)
        rc = gp_printf(err, "\n");
    return rc;
}

/* A piece as a string, or as an array of bytes when it is no UTF-8 by itself. */
static json_t *json_piece(const char *piece, size_t length)
{
    if (gp_utf8_valid(piece, length) == length)
        return json_stringn(piece, length);
    json_t *bytes = json_array();
    for (size_t i = 0; i < length; i++)
        json_array_append_new(bytes, json_integer((unsigned char)piece[i]));
    return bytes;
}

static int print_json(const struct gp_model *model, const int32_t *ids, uint32_t count, bool pieces,
                      struct gp_error *err)
{
    json_t *root = json_object(), *tokens = json_array(), *texts = json_array();
    int rc = GP_OK;

    for (uint32_t i = 0; i < count && !rc; i++) {
        char *piece;
        size_t length;

        json_array_append_new(tokens, json_integer(ids[i]));
        if (!pieces)
            continue;
        rc = gp_model_detokenize(model, &ids[i], 1, true, &piece, &length, err);
        if (rc)
            break;
        json_array_append_new(texts, json_piece(piece, length));
        gp_free(piece);
    }
    json_object_set_new(root, "count", json_integer(count));
    json_object_set(root, "tokens", tokens);
    if (pieces)
        json_object_set(root, "pieces", texts);
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(tokens);
    json_decref(texts);
    json_decref(root);
    if (!rc && !text)
        rc = gp_fail(err, GP_ENOMEM, "tokens: out of memory");
    if (!rc)
        rc = gp_printf(err, "%s\n", text);
    free(text);
    return rc;
}

int gp_cmd_tokenize(struct gp_settings *s)
{
    struct gp_model *model;
    struct gp_error err;
    int32_t *ids;
    uint32_t count;
    char *text;
    size_t length;

    if (!s->prompt && !s->prompt_file) {
        gp_error_set(&err, "tokenize: no text: give -p TEXT, -f FILE, or - for standard input");
        return gp_tell(GP_EXIT_USAGE, &err);
    }
    if (gp_read_prompt(s, &text, &length, &err))
        return gp_tell(GP_EXIT_FAILED, &err);
    int rc = gp_open_model(&model, s, true, &err);
    if (rc) {
        gp_mem_free(text);
        return gp_tell(GP_EXIT_FAILED, &err);
    }
    rc = gp_encode_text(model, text, length, !s->no_bos, s->special, &ids, &count, &err);
    if (!rc) {
        rc = s->json ? print_json(model, ids, count, s->pieces, &err)
                     : print_ids(model, ids, count, s->pieces, &err);
        if (!rc)
            rc = gp_print_end(&err);
        gp_free(ids);
    }
    gp_model_close(model);
    gp_mem_free(text);
    return rc ? gp_tell(GP_EXIT_FAILED, &err) : GP_EXIT_OK;
}

/* ---- detokenize ---- */

struct ids {
    int32_t *items;
    uint32_t count, room;
};

static int add_id(struct ids *ids, const char *word, size_t length, struct gp_error *err)
{
    char text[32];
    int64_t value;

    snprintf(text, sizeof text, "%.*s", (int)length, word);
    if (length >= sizeof text || !gp_parse_int(text, &value) || value < 0 || value > INT32_MAX)
        return gp_fail(err, GP_EINVAL, "detokenize: %.*s: not a token id",
                       (int)(length < 60 ? length : 60), word);
    if (ids->count == ids->room) {
        uint32_t larger = ids->room * 2 + 1024;
        int32_t *grown =
            gp_mem_realloc(ids->items, ids->room * sizeof *grown, (size_t)larger * sizeof *grown);
        if (!grown)
            return gp_fail(err, GP_ENOMEM, "detokenize: out of memory");
        ids->items = grown;
        ids->room = larger;
    }
    ids->items[ids->count++] = (int32_t)value;
    return GP_OK;
}

/* Ids apart by blanks and commas; the brackets of a JSON array are blanks, too. */
static int add_ids(struct ids *ids, const char *text, size_t length, struct gp_error *err)
{
    static const char blanks[] = " \t\r\n,[]";
    const char *end = text + length;

    while (text < end) {
        const char *start = text;

        while (text < end && (*text == 0 || !strchr(blanks, *text)))
            text++;
        if (text > start) {
            int rc = add_id(ids, start, (size_t)(text - start), err);
            if (rc)
                return rc;
        } else {
            text++;
        }
    }
    return GP_OK;
}

static int collect_ids(const struct gp_settings *s, struct ids *ids, struct gp_error *err)
{
    const struct gp_arguments *rest = &s->rest;
    char *text;
    size_t length;
    int rc;

    if (rest->count == 0 || (rest->count == 1 && strcmp(rest->items[0], "-") == 0)) {
        rc = gp_read_file("-", &text, &length, err);
        if (rc)
            return rc;
        rc = add_ids(ids, text, length, err);
        gp_mem_free(text);
        return rc;
    }
    for (uint32_t i = 0; i < rest->count; i++) {
        rc = add_ids(ids, rest->items[i], strlen(rest->items[i]), err);
        if (rc)
            return rc;
    }
    return GP_OK;
}

int gp_cmd_detokenize(struct gp_settings *s)
{
    struct gp_model *model = NULL;
    struct ids ids = {0};
    struct gp_error err;
    char *text;
    size_t length;

    int rc = collect_ids(s, &ids, &err);
    if (!rc)
        rc = gp_open_model(&model, s, true, &err);
    if (!rc)
        rc = gp_model_detokenize(model, ids.items, ids.count, s->special, &text, &length, &err);
    if (!rc) {
        rc = gp_print(text, length, &err);
        /* A pipe gets the exact bytes; a terminal's prompt starts on a line of its own. */
        if (!rc && isatty(STDOUT_FILENO))
            rc = gp_print("\n", 1, &err);
        gp_free(text);
    }
    gp_model_close(model);
    gp_mem_free(ids.items);
    return rc ? gp_tell(GP_EXIT_FAILED, &err) : GP_EXIT_OK;
}
