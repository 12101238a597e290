/* A scorer's switches and its trigger as text.  The names are those of struct gp_scorer's fields,
 * on the command line, in a request and in docs/POLICIES.md alike; ranges are
 * gp_policy_check()'s. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "policy/internal.h"
#include "policy/policy.h"

enum kind {
    COUNT,  /* uint32_t             */
    NUMBER, /* float                */
    WORD,   /* an enum              */
    FLAG,   /* bool: false, or true */
};

struct scorer_switch {
    const char *name;
    enum kind kind;
    size_t offset;
    const char *words; /* in the order of their values */
};

#define AT(field)      offsetof(struct gp_scorer, field)
#define FLAG_AT(field) #field, FLAG, AT(field), "false|true"

static const struct scorer_switch switches[] = {
    {"source", WORD, AT(source), "window|all|position"},
    {"window", COUNT, AT(window), NULL},
    {"group", WORD, AT(group), "logits|max|mean"},
    {FLAG_AT(window_keys)},
    {"reduce", WORD, AT(reduce), "mean|sum|max"},
    {FLAG_AT(normalize)},
    {FLAG_AT(remember_newest)},
    {"history", WORD, AT(history), "none|max|mean|sum"},
    {"decay", NUMBER, AT(decay), NULL},
    {"pool", WORD, AT(pool), "none|max|mean"},
    {"pool_width", COUNT, AT(pool_width), NULL},
    {FLAG_AT(pool_first_only)},
    {"redundancy", WORD, AT(redundancy), "none|page|cache"},
    {"redundancy_scale", NUMBER, AT(redundancy_scale), NULL},
    {FLAG_AT(redundancy_slot0)},
    {FLAG_AT(redundancy_normalize)},
    {"lambda", NUMBER, AT(lambda), NULL},
    {"sinks", COUNT, AT(sinks), NULL},
    {FLAG_AT(keep_order)},
    {FLAG_AT(cache_positions)},
    {FLAG_AT(count_prompt)},
};
#define SWITCH_COUNT (sizeof switches / sizeof *switches)

_Static_assert(sizeof(enum gp_score_source) == sizeof(int), "an enum is set as an int");

/* The place of value among "a|b|c", or -1. */
static int find_word(const char *words, const char *value)
{
    size_t length = strlen(value);
    int place = 0;

    for (const char *at = words; *at; place++) {
        size_t word = strcspn(at, "|");

        if (word == length && strncmp(at, value, word) == 0)
            return place;
        at += word + (at[word] == '|');
    }
    return -1;
}

static const struct scorer_switch *find_switch(const char *name)
{
    for (size_t i = 0; i < SWITCH_COUNT; i++)
        if (strcmp(switches[i].name, name) == 0)
            return &switches[i];
    return NULL;
}

static int fail_name(const char *name, struct gp_error *err)
{
    char all[512];
    size_t at = 0;

    for (size_t i = 0; i < SWITCH_COUNT; i++)
        at += (size_t)snprintf(all + at, sizeof all - at, "%s%s", i ? ", " : "", switches[i].name);
    gp_assert(at < sizeof all);
    return gp_fail(err, GP_EINVAL, "%.40s: not one of %s", name, all);
}

int gp_policy_set_switch(struct gp_kv_options *options, const char *name, const char *value,
                         struct gp_error *err)
{
    const struct scorer_switch *s = find_switch(name);
    char policy[64];

    if (!gp_policy_scores(options)) {
        gp_policy_to_text(options, policy);
        return gp_fail(err, GP_EINVAL, "%.40s: %s has no scorer", name, policy);
    }
    if (!s)
        return fail_name(name, err);
    void *field = (char *)&options->scorer + s->offset;
    uint32_t count;
    double number;
    int place;

    switch (s->kind) {
    case COUNT:
        if (!gp_policy_parse_count(value, &count))
            return gp_fail(err, GP_EINVAL, "%s: '%.40s' is not a whole number", name, value);
        *(uint32_t *)field = count;
        return GP_OK;
    case NUMBER:
        if (!gp_policy_parse_number(value, &number))
            return gp_fail(err, GP_EINVAL, "%s: '%.40s' is not a number", name, value);
        *(float *)field = (float)number;
        return GP_OK;
    case WORD:
    case FLAG:
        break;
    }
    place = find_word(s->words, value);
    if (place < 0)
        return gp_fail(err, GP_EINVAL, "%s: '%.40s' is not one of %s", name, value, s->words);
    if (s->kind == FLAG)
        *(bool *)field = place != 0;
    else
        memcpy(field, &place, sizeof place);
    return GP_OK;
}

/* The shortest decimal that reads back as the same number. */
static void format_float(float value, char out[GP_SWITCH_TEXT_BYTES])
{
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(out, GP_SWITCH_TEXT_BYTES, "%.*g", digits, (double)value);
        if (strtof(out, NULL) == value)
            return;
    }
}

bool gp_policy_switch_text(const struct gp_kv_options *options, uint32_t index, const char **name,
                           char value[GP_SWITCH_TEXT_BYTES])
{
    const struct scorer_switch *s = index < SWITCH_COUNT ? &switches[index] : NULL;

    if (!s || !gp_policy_scores(options))
        return false;
    const void *field = (const char *)&options->scorer + s->offset;
    int place = 0;

    *name = s->name;
    if (s->kind == COUNT) {
        snprintf(value, GP_SWITCH_TEXT_BYTES, "%u", *(const uint32_t *)field);
        return true;
    }
    if (s->kind == NUMBER) {
        format_float(*(const float *)field, value);
        return true;
    }
    if (s->kind == FLAG)
        place = *(const bool *)field;
    else
        memcpy(&place, field, sizeof place);
    const char *at = s->words;

    for (; place > 0; place--)
        at += strcspn(at, "|") + 1;
    snprintf(value, GP_SWITCH_TEXT_BYTES, "%.*s", (int)strcspn(at, "|"), at);
    return true;
}

/* ---- the trigger ---- */

int gp_policy_set_trigger(struct gp_kv_options *options, const char *text, struct gp_error *err)
{
    uint32_t steps;

    if (strcmp(text, "page") == 0) {
        options->trigger = GP_TRIGGER_PAGE;
    } else if (strcmp(text, "token") == 0) {
        options->trigger = GP_TRIGGER_TOKEN;
    } else if (strncmp(text, "steps:", 6) == 0 && gp_policy_parse_count(text + 6, &steps)) {
        options->trigger = GP_TRIGGER_STEPS;
        options->trigger_steps = steps;
    } else {
        return gp_fail(err, GP_EINVAL, "'%.40s' is not one of page, steps:N, token", text);
    }
    return GP_OK;
}

void gp_policy_trigger_text(const struct gp_kv_options *options, char out[GP_SWITCH_TEXT_BYTES])
{
    switch (options->trigger) {
    case GP_TRIGGER_PAGE:
        snprintf(out, GP_SWITCH_TEXT_BYTES, "page");
        break;
    case GP_TRIGGER_STEPS:
        snprintf(out, GP_SWITCH_TEXT_BYTES, "steps:%u", options->trigger_steps);
        break;
    case GP_TRIGGER_TOKEN:
        snprintf(out, GP_SWITCH_TEXT_BYTES, "token");
        break;
    }
}
