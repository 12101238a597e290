/* Command line options from one table: GNU long options, their short and foreign spellings, checked
 * values, and the text of --help.
 *
 * Knows nothing of what the options mean: a value is checked and stored at an offset of a struct of
 * the caller's, or handed to a function.  Nothing is allocated; texts point into argv and the
 * table. */
#ifndef GP_CLI_OPTIONS_H
#define GP_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

enum gp_option_kind {
    GP_OPTION_SECTION, /* a heading of --help                                          */
    GP_OPTION_FLAG,    /* bool: true when given                                        */
    GP_OPTION_TRUE,    /* accepted and without effect: it names what is done anyway    */
    GP_OPTION_TEXT,    /* const char *                                                 */
    GP_OPTION_UINT,    /* uint32_t in [min, max]                                       */
    GP_OPTION_INT,     /* int64_t in [min, max]                                        */
    GP_OPTION_SIZE,    /* uint64_t bytes in [min, max]; KiB, MiB, GiB                  */
    GP_OPTION_FLOAT,   /* float in [min, max]                                          */
    GP_OPTION_DOUBLE,  /* double in [min, max]                                         */
    GP_OPTION_WORD,    /* an enum, or any int: the word's place in `words`             */
    GP_OPTION_LIST,    /* struct gp_uint_list, each in [min, max]; every use adds to it */
    GP_OPTION_CALL,    /* apply() checks and stores                                    */
    GP_OPTION_LATER,   /* refused as not available yet                                 */
};

struct gp_option {
    enum gp_option_kind kind;
    const char *names;    /* as typed, apart by spaces: short ones, ours, then the aliases */
    const char *argument; /* what --help calls the value; NULL: the option takes none      */
    const char *help;     /* NULL: not shown                                               */
    unsigned commands;    /* a bit for each command that takes it                          */
    size_t offset;
    double min, max;
    bool min_open, max_open; /* the bound itself is not allowed                           */
    uint32_t multiple;       /* UINT: of this; 0: any                                     */
    const char *words;       /* WORD: "first|second"                                      */
    const char *later;       /* WORD: further words, refused as not available yet; LATER: why */
    int (*apply)(void *target, const char *value, struct gp_error *err);
};

/* LIST: "512", "1,2,4", "8-64" by ones, "8-64+8", "1-64*2". */
#define GP_LIST_MAX 64u

struct gp_uint_list {
    uint32_t items[GP_LIST_MAX];
    uint32_t count;
};

/* What is not an option, in order, in argv's own slots. */
struct gp_arguments {
    char **items;
    uint32_t count;
};

/* Parse argv[0..argc).  `command` is one bit.  Options and arguments may be mixed, "--" ends the
 * options, "-" is an argument.  GP_EINVAL names the option, and the nearest one if unknown. */
int gp_options_parse(const struct gp_option *table, uint32_t count, unsigned command, int argc,
                     char **argv, void *target, struct gp_arguments *rest, struct gp_error *err);

/* The first option of a line that `command` does not take, as it was typed, its length into
 * *length; NULL: there is none.  The line was parsed for `parsed`, which takes them all. */
const char *gp_options_foreign(const struct gp_option *table, uint32_t count, unsigned parsed,
                               unsigned command, int argc, char **argv, size_t *length);

/* Options from the environment, to be taken before those of the command line: PREFIX and LONG_NAME
 * for --long-name.  A flag's value is on or off, as 1 and 0, true and false.  GP_EINVAL names the
 * variable, also one that is no option of the command. */
int gp_options_environment(const struct gp_option *table, uint32_t count, unsigned command,
                           const char *prefix, char *const *environment, void *target,
                           struct gp_error *err);

/* The options of a command, a section at a time, folded at 100 columns or less. */
void gp_options_help(const struct gp_option *table, uint32_t count, unsigned command, FILE *out);

/* The item of `names` (apart by spaces or '|') nearest to word, or NULL when none is near; *length
 * is the item's.  `best` is the distance to beat and is lowered, so that several lists may be
 * asked. */
const char *gp_nearest(const char *word, const char *names, uint32_t *best, size_t *length);

/* The largest distance at which a name still looks like a slip of the pen for word. */
uint32_t gp_nearest_limit(const char *word);

/* Whole texts as numbers.  False when anything is left over, too large, or not a number. */
bool gp_parse_int(const char *text, int64_t *out);
bool gp_parse_size(const char *text, uint64_t *out);
bool gp_parse_double(const char *text, double *out);

#endif
