#include "cli/options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

/* Columns of --help: where the explanation starts, and where lines end. */
#define HELP_INDENT 30u
#define HELP_WIDTH  96u

/* ---- numbers ---- */

bool gp_parse_int(const char *text, int64_t *out)
{
    const char *digits = text[0] == '-' ? text + 1 : text;
    char *end;

    /* strtoll would take blanks and a plus sign. */
    if (!isdigit((unsigned char)digits[0]))
        return false;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || *end)
        return false;
    *out = value;
    return true;
}

bool gp_parse_size(const char *text, uint64_t *out)
{
    static const struct {
        const char *suffix;
        unsigned shift;
    } units[] = {{"", 0},     {"KiB", 10}, {"MiB", 20}, {"GiB", 30},
                 {"TiB", 40}, {"K", 10},   {"M", 20},   {"G", 30}};
    char *end;

    if (!isdigit((unsigned char)text[0]))
        return false;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno)
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcasecmp(end, units[i].suffix) != 0)
            continue;
        if (value > UINT64_MAX >> units[i].shift)
            return false;
        *out = (uint64_t)value << units[i].shift;
        return true;
    }
    return false;
}

bool gp_parse_double(const char *text, double *out)
{
    const char *digits = text[0] == '-' ? text + 1 : text;
    char *end;

    /* Decimal numbers only: strtod would also take blanks, "inf", "nan" and "0x1p3". */
    if (!isdigit((unsigned char)digits[0]) && digits[0] != '.')
        return false;
    if (strspn(digits, "0123456789.eE+-") != strlen(digits))
        return false;
    double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value))
        return false;
    *out = value;
    return true;
}

/* ---- names ---- */

/* The next item of a list that is apart by spaces or '|'; NULL at the end. */
static const char *next_name(const char **list, size_t *length)
{
    *list += strspn(*list, " |");
    *length = strcspn(*list, " |");
    const char *name = *list;
    *list += *length;
    return *length > 0 ? name : NULL;
}

/* The place of word in the list, or -1. */
static int find_name(const char *list, const char *word, size_t word_length)
{
    size_t length;

    for (int i = 0; list; i++) {
        const char *name = next_name(&list, &length);
        if (!name)
            break;
        if (length == word_length && memcmp(name, word, length) == 0)
            return i;
    }
    return -1;
}

/* The name that stands for an option in messages: its first long one. */
static const char *long_name(const struct gp_option *option, size_t *length)
{
    const char *list = option->names, *first = NULL, *name;
    size_t first_length = 0;

    while ((name = next_name(&list, length))) {
        if (*length > 2 && name[1] == '-')
            return name;
        if (!first) {
            first = name;
            first_length = *length;
        }
    }
    *length = first_length;
    return first;
}

#define NEAREST_MAX 64u

/* Edits (insert, delete, replace, swap of neighbours) from a to b. */
static uint32_t distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    uint32_t rows[3][NEAREST_MAX + 1];
    uint32_t *before = rows[0], *last = rows[1], *now = rows[2];

    if (a_length > NEAREST_MAX || b_length > NEAREST_MAX)
        return UINT32_MAX;
    for (size_t j = 0; j <= b_length; j++)
        last[j] = (uint32_t)j;
    for (size_t i = 1; i <= a_length; i++) {
        now[0] = (uint32_t)i;
        for (size_t j = 1; j <= b_length; j++) {
            uint32_t best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
        uint32_t *spare = before;
        before = last;
        last = now;
        now = spare;
    }
    return last[b_length];
}

uint32_t gp_nearest_limit(const char *word)
{
    uint32_t letters = (uint32_t)strlen(word + strspn(word, "-"));

    /* Short options are all near each other: of those only a long word is a slip. */
    return letters / 3 + (word[0] == '-' && word[1] != '-' ? 1 : 2);
}

const char *gp_nearest(const char *word, const char *names, uint32_t *best, size_t *length)
{
    const char *found = NULL, *name;
    size_t name_length;

    while ((name = next_name(&names, &name_length))) {
        uint32_t d = distance(word, strlen(word), name, name_length);
        if (d < *best) {
            *best = d;
            *length = name_length;
            found = name;
        }
    }
    return found;
}

/* ---- values ---- */

static void store(void *target, const struct gp_option *option, const void *value, size_t bytes)
{
    memcpy((char *)target + option->offset, value, bytes);
}

/* One option as it stands on the command line. */
struct use {
    const struct gp_option *option;
    const char *name; /* as typed, without "=value" */
    int name_length;
    const char *value;
};

static int fail_use(const struct use *use, struct gp_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int fail_use(const struct use *use, struct gp_error *err, const char *format, ...)
{
    char why[256];
    va_list args;

    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return gp_fail(err, GP_EINVAL, "%.*s: %s", use->name_length, use->name, why);
}

static bool in_range(const struct gp_option *option, double value)
{
    bool above = option->min_open ? value > option->min : value >= option->min;
    bool below = option->max_open ? value < option->max : value <= option->max;

    return above && below;
}

static int fail_range(const struct use *use, struct gp_error *err)
{
    const struct gp_option *option = use->option;

    return fail_use(use, err, "%.60s: must be %s %.10g and %s %.10g", use->value,
                    option->min_open ? "above" : "at least", option->min,
                    option->max_open ? "below" : "at most", option->max);
}

static int store_int(void *target, const struct use *use, struct gp_error *err)
{
    const struct gp_option *option = use->option;
    int64_t value;

    if (!gp_parse_int(use->value, &value))
        return fail_use(use, err, "%.60s: not a whole number", use->value);
    /* The bounds of a table are whole and small, or the ends of the type. */
    if (!in_range(option, (double)value))
        return fail_range(use, err);
    if (option->multiple && value % option->multiple)
        return fail_use(use, err, "%.60s: must be a multiple of %u", use->value, option->multiple);
    if (option->kind == GP_OPTION_INT) {
        store(target, option, &value, sizeof value);
    } else {
        uint32_t narrow = (uint32_t)value;
        store(target, option, &narrow, sizeof narrow);
    }
    return GP_OK;
}

static int store_size(void *target, const struct use *use, struct gp_error *err)
{
    uint64_t value;

    if (!gp_parse_size(use->value, &value))
        return fail_use(use, err, "%.60s: not a size (bytes, or with KiB, MiB, GiB)", use->value);
    if (!in_range(use->option, (double)value))
        return fail_range(use, err);
    store(target, use->option, &value, sizeof value);
    return GP_OK;
}

static int store_double(void *target, const struct use *use, struct gp_error *err)
{
    double value;

    if (!gp_parse_double(use->value, &value))
        return fail_use(use, err, "%.60s: not a number", use->value);
    if (use->option->kind == GP_OPTION_DOUBLE) {
        if (!in_range(use->option, value))
            return fail_range(use, err);
        store(target, use->option, &value, sizeof value);
        return GP_OK;
    }
    /* An open bound must still be open after rounding. */
    float narrow = (float)value;
    if (!in_range(use->option, value) || !in_range(use->option, (double)narrow))
        return fail_range(use, err);
    store(target, use->option, &narrow, sizeof narrow);
    return GP_OK;
}

/* A number from *text on, which moves behind it. */
static bool take_number(const char **text, uint64_t *out)
{
    size_t digits = strspn(*text, "0123456789");

    if (digits == 0 || digits > 10)
        return false;
    *out = strtoull(*text, NULL, 10);
    *text += digits;
    return true;
}

struct range {
    uint64_t first, last, step;
    bool multiplies;
};

/* FIRST[-LAST[+STEP|*FACTOR]] from *text on, which moves behind it and behind a comma. */
static bool take_range(const char **text, struct range *out)
{
    struct range range = {.step = 1};

    if (!take_number(text, &range.first))
        return false;
    range.last = range.first;
    if (**text == '-') {
        ++*text;
        if (!take_number(text, &range.last) || range.last < range.first)
            return false;
        if (**text == '+' || **text == '*') {
            range.multiplies = **text == '*';
            ++*text;
            if (!take_number(text, &range.step))
                return false;
        }
    }
    if (**text == ',' && (*text)[1])
        ++*text;
    else if (**text)
        return false;
    /* The next number must not wrap around. */
    if (range.step > range.last)
        range.step = range.last + 1;
    *out = range;
    return range.step > (range.multiplies ? 1 : 0) && (!range.multiplies || range.first > 0);
}

static int store_list(void *target, const struct use *use, struct gp_error *err)
{
    const struct gp_option *option = use->option;
    struct gp_uint_list *list = (void *)((char *)target + option->offset);
    const char *text = use->value;

    do {
        struct range range;

        if (!take_range(&text, &range))
            return fail_use(use, err, "%.60s: not a list of numbers, such as 1,2,8-64*2",
                            use->value);
        if (!in_range(option, (double)range.first) || !in_range(option, (double)range.last))
            return fail_range(use, err);
        for (uint64_t i = range.first; i <= range.last;
             i = range.multiplies ? i * range.step : i + range.step) {
            if (list->count == GP_LIST_MAX)
                return fail_use(use, err, "%.60s: more than %u numbers", use->value, GP_LIST_MAX);
            list->items[list->count++] = (uint32_t)i;
        }
    } while (*text);
    return GP_OK;
}

static int store_word(void *target, const struct use *use, struct gp_error *err)
{
    const struct gp_option *option = use->option;
    int place = find_name(option->words, use->value, strlen(use->value));

    if (place < 0 && find_name(option->later, use->value, strlen(use->value)) >= 0)
        return fail_use(use, err, "%.60s: not available yet; there is %s", use->value,
                        option->words);
    if (place < 0)
        return fail_use(use, err, "%.60s: must be one of %s", use->value, option->words);
    store(target, option, &place, sizeof place);
    return GP_OK;
}

static int store_use(void *target, const struct use *use, struct gp_error *err)
{
    static const bool yes = true;
    int rc;

    switch (use->option->kind) {
    case GP_OPTION_FLAG:
        store(target, use->option, &yes, sizeof yes);
        return GP_OK;
    case GP_OPTION_TEXT:
        store(target, use->option, &use->value, sizeof use->value);
        return GP_OK;
    case GP_OPTION_UINT:
    case GP_OPTION_INT:
        return store_int(target, use, err);
    case GP_OPTION_SIZE:
        return store_size(target, use, err);
    case GP_OPTION_FLOAT:
    case GP_OPTION_DOUBLE:
        return store_double(target, use, err);
    case GP_OPTION_WORD:
        return store_word(target, use, err);
    case GP_OPTION_LIST:
        return store_list(target, use, err);
    case GP_OPTION_CALL:
        rc = use->option->apply((char *)target + use->option->offset, use->value, err);
        if (rc)
            gp_error_prefix(err, "%.*s", use->name_length, use->name);
        return rc;
    case GP_OPTION_LATER:
        return fail_use(use, err, "%s",
                        use->option->later ? use->option->later : "not available yet");
    case GP_OPTION_TRUE:
        return GP_OK;
    case GP_OPTION_SECTION:
        break;
    }
    gp_assert(!"a section is not an option");
    return GP_EINVAL;
}

/* ---- the line ---- */

static const struct gp_option *find_option(const struct gp_option *table, uint32_t count,
                                           unsigned command, const char *name, size_t length)
{
    for (uint32_t i = 0; i < count; i++)
        if ((table[i].commands & command) && table[i].kind != GP_OPTION_SECTION &&
            find_name(table[i].names, name, length) >= 0)
            return &table[i];
    return NULL;
}

static int fail_unknown(const struct gp_option *table, uint32_t count, unsigned command,
                        const char *name, size_t length, struct gp_error *err)
{
    char word[NEAREST_MAX + 1];
    const char *near = NULL;
    size_t near_length = 0;

    if (find_option(table, count, ~0u, name, length))
        return gp_fail(err, GP_EINVAL, "%.*s: not an option of this command", (int)length, name);
    if (length <= NEAREST_MAX) {
        memcpy(word, name, length);
        word[length] = 0;
        uint32_t best = gp_nearest_limit(word);
        for (uint32_t i = 0; i < count; i++) {
            if (!(table[i].commands & command) || table[i].kind == GP_OPTION_SECTION ||
                table[i].kind == GP_OPTION_LATER)
                continue;
            const char *found = gp_nearest(word, table[i].names, &best, &near_length);
            near = found ? found : near;
        }
    }
    if (near)
        return gp_fail(err, GP_EINVAL, "%.*s: unknown option; did you mean %.*s?",
                       (int)(length < 100 ? length : 100), name, (int)near_length, near);
    return gp_fail(err, GP_EINVAL, "%.*s: unknown option", (int)(length < 100 ? length : 100),
                   name);
}

int gp_options_parse(const struct gp_option *table, uint32_t count, unsigned command, int argc,
                     char **argv, void *target, struct gp_arguments *rest, struct gp_error *err)
{
    uint32_t kept = 0;

    for (int i = 0; i < argc; i++) {
        char *word = argv[i];

        if (strcmp(word, "--") == 0) {
            while (++i < argc)
                argv[kept++] = argv[i];
            break;
        }
        if (word[0] != '-' || word[1] == 0) {
            argv[kept++] = word;
            continue;
        }
        const char *equals = word[1] == '-' ? strchr(word, '=') : NULL;
        size_t length = equals ? (size_t)(equals - word) : strlen(word);
        struct use use = {
            .option = find_option(table, count, command, word, length),
            .name = word,
            .name_length = (int)length,
            .value = equals ? equals + 1 : NULL,
        };
        if (!use.option)
            return fail_unknown(table, count, command, word, length, err);
        if (!use.option->argument && equals)
            return fail_use(&use, err, "%s", "takes no value");
        /* What is not there yet is refused for that, whatever stands behind it. */
        if (use.option->argument && !equals && use.option->kind != GP_OPTION_LATER) {
            if (++i == argc)
                return fail_use(&use, err, "needs a value (%s)", use.option->argument);
            use.value = argv[i];
        }
        int rc = store_use(target, &use, err);
        if (rc)
            return rc;
    }
    *rest = (struct gp_arguments){.items = argv, .count = kept};
    return GP_OK;
}

const char *gp_options_foreign(const struct gp_option *table, uint32_t count, unsigned parsed,
                               unsigned command, int argc, char **argv, size_t *length)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        char *word = argv[i];

        if (word[0] != '-' || word[1] == 0)
            continue;
        const char *equals = word[1] == '-' ? strchr(word, '=') : NULL;
        *length = equals ? (size_t)(equals - word) : strlen(word);
        const struct gp_option *option = find_option(table, count, parsed, word, *length);
        if (!option || !find_option(table, count, command, word, *length))
            return word;
        if (option->argument && !equals)
            i++;
    }
    return NULL;
}

/* ---- the environment ---- */

/* "LONG_NAME" to "--long-name"; false when it does not fit. */
static bool spell_option(const char *variable, size_t length, char *out, size_t room)
{
    if (length + 3 > room)
        return false;
    memcpy(out, "--", 2);
    for (size_t i = 0; i < length; i++)
        out[2 + i] = variable[i] == '_' ? '-' : (char)tolower((unsigned char)variable[i]);
    out[2 + length] = 0;
    return true;
}

/* What takes no value on the command line is on or off here. */
static int store_switch(void *target, const struct use *use, struct gp_error *err)
{
    int place = find_name("1|true|on|yes|0|false|off|no", use->value, strlen(use->value));

    if (place < 0)
        return fail_use(use, err, "%.60s: must be 1 or 0", use->value);
    return place < 4 ? store_use(target, use, err) : GP_OK;
}

static int take_variable(const struct gp_option *table, uint32_t count, unsigned command,
                         const char *variable, size_t prefix, void *target, struct gp_error *err)
{
    const char *equals = strchr(variable, '=');
    size_t length = equals ? (size_t)(equals - variable) : strlen(variable);
    char name[NEAREST_MAX + 3];
    bool fits = spell_option(variable + prefix, length - prefix, name, sizeof name);
    struct use use = {
        .option = fits ? find_option(table, count, command, name, strlen(name)) : NULL,
        .name = variable,
        .name_length = (int)(length < 100 ? length : 100),
        .value = equals ? equals + 1 : "",
    };

    if (!use.option)
        return fail_use(&use, err, "no such option");
    return use.option->argument ? store_use(target, &use, err) : store_switch(target, &use, err);
}

int gp_options_environment(const struct gp_option *table, uint32_t count, unsigned command,
                           const char *prefix, char *const *environment, void *target,
                           struct gp_error *err)
{
    size_t length = strlen(prefix);
    int rc = GP_OK;

    for (; !rc && *environment; environment++)
        if (strncmp(*environment, prefix, length) == 0)
            rc = take_variable(table, count, command, *environment, length, target, err);
    return rc;
}

/* ---- help ---- */

/* Words of text from column HELP_INDENT on; the cursor stands in `column`. */
static void fold(FILE *out, size_t column, const char *text)
{
    if (column + 2 > HELP_INDENT) {
        fputc('\n', out);
        column = 0;
    }
    fprintf(out, "%*s", (int)(HELP_INDENT - column), "");
    column = HELP_INDENT;
    for (bool first = true; *text; first = false) {
        size_t length = strcspn(text, " ");
        if (!first && column + 1 + length > HELP_WIDTH) {
            fprintf(out, "\n%*s", (int)HELP_INDENT, "");
            column = HELP_INDENT;
        } else if (!first) {
            fputc(' ', out);
            column++;
        }
        fwrite(text, 1, length, out);
        column += length;
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void help_option(const struct gp_option *option, FILE *out)
{
    const char *list = option->names, *name;
    char aliases[256] = "", text[1024];
    size_t own_length, length, column = 0, at = 0;
    const char *own = long_name(option, &own_length);

    while ((name = next_name(&list, &length))) {
        bool is_short = name < own;
        if (is_short || name == own)
            column += (size_t)fprintf(out, "%s%.*s", column ? ", " : "  ", (int)length, name);
        else if (at + length + 3 < sizeof aliases)
            at += (size_t)snprintf(aliases + at, sizeof aliases - at, "%s%.*s", at ? ", " : "",
                                   (int)length, name);
    }
    if (option->argument)
        column += (size_t)fprintf(out, " %s", option->argument);
    snprintf(text, sizeof text, "%s%s%s%s%s%s%s%s", option->help, option->words ? ": " : "",
             option->words ? option->words : "", option->later ? " (later: " : "",
             option->later ? option->later : "", option->later ? ")" : "", at ? "; also " : "",
             aliases);
    fold(out, column, text);
}

void gp_options_help(const struct gp_option *table, uint32_t count, unsigned command, FILE *out)
{
    const char *section = NULL;

    for (uint32_t i = 0; i < count; i++) {
        if (table[i].kind == GP_OPTION_SECTION)
            section = table[i].help;
        else if ((table[i].commands & command) && table[i].help) {
            if (section)
                fprintf(out, "\n%s:\n", section);
            section = NULL;
            help_option(&table[i], out);
        }
    }
}
